//! The copies of a point.

use super::{Align, DESTINATION_AT, Memcpy, Shape, apart, offsets, places};
use crate::prelude::*;
use costof_os::memory::copies::{self, Walk};
use costof_os::memory::message::Message;

pub(super) struct Copying {
    sources: Sources,
    walk: Walk,
    destination: Arena,
}

enum Sources {
    Pieces(Arena),
    Messages(Vec<Message>),
}

impl Setup<Memcpy> for Copying {
    fn set_up(point: &At<Memcpy>, launch: &Launch) -> Result<Copying> {
        let size = point.size;
        let places = places(point);
        if places == 0 {
            unsupported!(
                "{} do not fit into a working set of {} (--set working_set=… makes it larger)",
                display_bytes(size),
                display_bytes(point.working_set)
            );
        }
        arenas::ensure_fits(Memcpy::memory_bytes(point))?;
        let sources = match point.shape {
            Shape::Message if point.align != Align::Both => {
                unsupported!(
                    "a message's fields begin where the allocator puts them (leave align out)"
                );
            }
            Shape::Message => {
                let mut random = Rng::with_seed(launch.seed);
                let shuffle = &mut |order: &mut [usize]| random.shuffle(order);
                let mut messages = Message::many(places as usize, size as usize, shuffle);
                for message in &mut messages {
                    message.fill(&mut |field| random.fill(field));
                }
                Sources::Messages(messages)
            }
            Shape::One => {
                let mut arena = arenas::in_memory(places * apart(point), Pages::Base)?;
                let all = 0..arena.len();
                arena.number_words(all);
                Sources::Pieces(arena)
            }
        };
        Ok(Copying {
            sources,
            walk: Walk::new(places as usize),
            destination: arenas::in_memory(DESTINATION_AT + size + 1, Pages::Base)?,
        })
    }

    fn measure(&mut self, point: &At<Memcpy>, meter: &mut Meter<'_>) -> Result {
        let Copying { sources, walk, destination } = self;
        let (from, to) = offsets(point);
        let to = &mut destination.as_mut_slice()[to..][..point.size as usize];
        match sources {
            Sources::Pieces(arena) => {
                let from = &arena.as_slice()[from..];
                let apart = apart(point) as usize;
                meter.repeatable("cost", |n| copies::copy(from, apart, walk, to, n));
            }
            Sources::Messages(messages) => {
                meter.repeatable("cost", |n| copies::serialise(messages, walk, to, n));
            }
        }
        Ok(())
    }

    fn check(self, point: &At<Memcpy>, _: &mut Meter<'_>) -> Result {
        let size = point.size as usize;
        let (from, to) = offsets(point);
        let copied = &self.destination.as_slice()[to..][..size];
        let place = self.walk.place();
        let same = match &self.sources {
            Sources::Pieces(arena) => {
                let place = from + place * apart(point) as usize;
                copied == &arena.as_slice()[place..][..size]
            }
            Sources::Messages(messages) => copied == messages[place].fields().concat(),
        };
        ensure!(same, "the copy differs from its source");
        Ok(())
    }
}
