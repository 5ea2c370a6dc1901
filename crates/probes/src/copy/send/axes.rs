//! What `copy.send` varies, and which points there are.

use crate::prelude::*;
use crate::two_ends::{CongestionControl, Over, SOCKETS};
use costof_exchange::pattern::flow::{MESSAGE_MIN_BYTES, Shape};
use costof_exchange::rendezvous;
use costof_os::memory::fields;
use costof_os::net::field_sender;

words! {
    /// How a message goes into the socket.
    pub(crate) enum Primitive {
        /// the fields are copied one after the other into a buffer, which send(2) copies
        CopyAndSend = "copy_and_send",
        /// sendmsg(2), with an iovec entry for each field, as writev(2)
        Sendmsg = "sendmsg",
        /// sendmsg(2) with MSG_ZEROCOPY and an iovec entry per field; completions are reaped after
        /// every 32 sends, without waiting for any
        MsgZerocopy = "msg_zerocopy",
        /// the first 64 bytes, as a header, by sendmsg(2) with MSG_MORE, which copies them, and the rest as by msg_zerocopy
        MsgZerocopyBody = "msg_zerocopy_body",
        /// send(2) per field; over UDP with MSG_MORE, so that a message is one datagram
        SendEach = "send_each",
        /// io_uring: a SENDMSG for all fields, or a linked WRITE_FIXED per field if buffers are
        /// registered; one io_uring_enter(2) submits and waits
        IoUringSend = "io_uring_send",
        /// io_uring: a SENDMSG_ZC for all fields, a SEND_ZC for a single one, or a linked SEND_ZC
        /// per field if buffers are registered
        IoUringSendZc = "io_uring_send_zc",
        /// sendfile(2) from a memfd that already holds the fields one after the other
        SendfileMemfd = "sendfile_memfd",
        /// sendfile(2) from a file on a disk, which is in the page cache
        SendfileFile = "sendfile_file",
        /// vmsplice(2) of all fields into a pipe, and splice(2) from it into the socket; the kernel
        /// does not report when the fields may be changed
        Splice = "splice",
    }
}

/// What the ways were called before they had the names of their calls.
pub(super) const OLD_WORDS: &[(&str, Primitive)] = &[
    ("two_copy", Primitive::CopyAndSend),
    ("one_copy", Primitive::Sendmsg),
    ("zero_copy", Primitive::MsgZerocopy),
    ("write_each", Primitive::SendEach),
    ("uring_send", Primitive::IoUringSend),
    ("uring_zero_copy", Primitive::IoUringSendZc),
    ("sendfile_memory", Primitive::SendfileMemfd),
];

words! {
    /// What the receiver sends back.
    pub(crate) enum Pattern {
        /// nothing: messages go as fast as the socket takes them
        Stream = "stream",
        /// each message is answered by one of the same size, sent in the same way; over UDP in
        /// windows: all in_flight are sent, and what is not answered within 50 ms and four round
        /// trips counts as lost
        Echo = "echo",
        /// the receiver requests in_flight messages with 64 B, and the next ones when they have
        /// been received completely; the more it requests at once, the closer its throughput is to
        /// that of a stream
        Trigger = "trigger",
    }

    /// Whether messages are cached before they are sent.
    pub(crate) enum Source {
        /// the same message again and again, cached if it fits
        Hot = "hot",
        /// each time another message of a working set, the one sent longest ago; neighbouring
        /// fields and messages are not adjacent in memory
        Cold = "cold",
    }

    /// Whether the last, partly filled packet of a message waits for the next message.
    pub(crate) enum Nagle {
        /// TCP_NODELAY: it leaves at once, in a packet of its own
        Off = "off",
        /// the socket's default: it waits for the next message or for an acknowledgement
        On = "on",
    }

    /// When copy_and_send's buffer is allocated.
    pub(crate) enum Allocate {
        /// before the first message
        Once = "once",
        /// for each message, and freed afterwards
        PerMessage = "per_message",
    }

    /// Whether the buffers are registered with io_uring.
    pub(crate) enum Buffers {
        /// not registered
        Plain = "plain",
        /// registered: their pages are pinned once (IORING_REGISTER_BUFFERS)
        Registered = "registered",
    }
}

/// The first is the default.
pub(super) const SIZES: &[u64] =
    &[32 << 10, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 16 << 20];

point! {
    /// What is the fastest way to send a message of several fields here?
    ///
    /// One end connects and sends messages of several fields, each field at an address of its own,
    /// from a list that is made before. The other end reads up to 128 KiB at once. Fields begin at
    /// a cache line and not at a page, as an allocator places them, so with small pages a message
    /// has more pieces than pages. Each end's threads use every second CPU of the run, so that the
    /// ends share none if there are enough. Every quarter of a millisecond each end records its
    /// progress and its threads' CPU time (CLOCK_THREAD_CPUTIME_ID). The first third is discarded.
    /// With --full, a stream to a receiver lasts six times as long, 0.3 s a round instead of 0.05,
    /// because the first tenths of a second of a connection may be slower and dominate a shorter
    /// stream. Ways of sending the same message take turns in one launch, in random order, twice,
    /// and once in a quick run.
    /// Every message has different bytes, derived from its number. The receiver of messages or
    /// answers compares a word of each piece, and the whole last piece. In an echo of several
    /// messages with more than 64 KiB together (counting 1 KiB extra per message), both ends could
    /// block each other. There the sender's socket does not block: when it takes nothing, the
    /// sender reads answers and waits by poll(2). Completions of MSG_ZEROCOPY and IORING_OP_SEND_ZC
    /// report whether the kernel copied anyway, and CPU time shows the cost.
    /// The link sink has only the sender's half: packets are dropped, and a thread on another CPU
    /// acknowledges them. There, a pacing congestion control such as BBR dominates the cost of
    /// sending, so congestion_control=reno, which every kernel has and every user may use, shows
    /// more. It is set before the connection begins, because a connection that BBR has begun stays
    /// paced.
    /// Nine single messages beforehand (three if they are larger than 1 MiB) show when a message's
    /// bytes may be changed. Arrays that filled the sender's caches show what sending evicts. Both
    /// are done on a first connection before its stream, and enter no other metric.
    ///
    /// # Predicted from
    /// each end's copies (cpu.memcpy, memory.bandwidth), parts (copy.parts, os.pin), calls
    /// (os.syscall) and share of a packet (net.rtt); BBR's pacing (os.timer). The slower end
    /// decides, or the sum of both if they share a CPU. An echo: the round trip (net.rtt) and the
    /// parts
    ///
    /// # Sources
    /// - Network I/O primitives, three course reports, 2026: a message of 8 fields, sent with two
    ///   copies, one and none
    /// - Linux Documentation/networking/msg_zerocopy.rst; W. de Bruijn, E. Dumazet, sendmsg copy
    ///   avoidance with MSG_ZEROCOPY, Netdev 2.1, 2017
    /// - send(2), sendmsg(2), sendfile(2), vmsplice(2), splice(2), io_uring_enter(2); udp(7)
    ///
    /// # Needs
    /// - primitive=msg_zerocopy, msg_zerocopy_body: Linux 4.14, for UDP 5.0
    /// - over=udp_gso: Linux 5.0, and a path MTU of 1500 B or more
    /// - primitive=io_uring_send, io_uring_send_zc: io_uring, Linux 5.11 and 6.2
    /// - over=unix: both ends in one network namespace (--link loopback)
    /// - pages=2MiB: transparent huge pages
    pub(crate) struct CopySend of "copy.send" {
        /// how a message goes into the socket
        primitive: Primitive = words(),
        /// bytes of a message; a datagram has 65507 at most
        size: u64 = bytes(MESSAGE_MIN_BYTES as u64..=16 << 20, SIZES),
        /// what the receiver sends back
        pattern: Pattern = words(),
        /// echo: messages that may be unanswered at a time; trigger: messages requested at once
        in_flight: u64 = count(1..=1024, &[1]),
        /// connections, each with a thread at both ends
        threads: usize = count(1..=64, &[1, 2, 4, 8]),
        /// whether messages are cached before they are sent
        source: Source = words(),
        pages: Pages = Pages::axis(),
        /// what carries them
        over: Over = words_of(SOCKETS),
        congestion_control: CongestionControl = CongestionControl::axis(),
        /// whether TCP delays a partly filled packet (RFC 896)
        nagle: Nagle = words(),
        /// separately allocated fields of a message, in equal shares; the last one takes the rest
        fields: usize = count(1..=MESSAGE_MIN_BYTES as u64, &[8, 1]),
        /// when copy_and_send's buffer is allocated
        allocate: Allocate = words(),
        /// whether the buffers are registered with io_uring
        buffers: Buffers = words(),
        /// the memory of cold messages, of all threads together
        working_set: u64 = bytes(1 << 20..=1 << 40, &[128 << 20]),
    }
}

impl Primitive {
    /// Whether it asks the kernel not to copy, which the kernel may do anyway.
    pub(super) fn asks_for_no_copy(self) -> bool {
        matches!(
            self,
            Primitive::MsgZerocopy | Primitive::MsgZerocopyBody | Primitive::IoUringSendZc
        )
    }

    pub(super) fn is_sendfile(self) -> bool {
        matches!(self, Primitive::SendfileMemfd | Primitive::SendfileFile)
    }

    /// Whether only references to pages get into the socket, wherever the receiver is.
    pub(super) fn copies_nothing(self) -> bool {
        self.is_sendfile() || self == Primitive::Splice
    }

    pub(super) fn is_uring(self) -> bool {
        matches!(self, Primitive::IoUringSend | Primitive::IoUringSendZc)
    }
}

/// The axes in which the points of one block agree: all but the ways of sending the same message.
pub(super) const BLOCKS_BY: &[&str] =
    &names_without::<{ CopySend::AXES.len() - WAYS.len() }>(CopySend::AXES, WAYS);
const WAYS: &[&str] = &["primitive", "nagle", "allocate", "buffers"];

impl CopySend {
    pub(crate) fn socket(&self) -> rendezvous::Over {
        self.over.into()
    }

    /// What each thread sends: one message, or as many as fill its share of the working set, at
    /// least two.
    pub(crate) fn shape(&self) -> Shape {
        let size = self.size as usize;
        let count = match self.source {
            Source::Hot => 1,
            Source::Cold => {
                let share = self.working_set as usize / self.threads;
                let each = fields::memory_bytes(1, size, self.fields).unwrap_or(usize::MAX);
                (share / each).max(2)
            }
        };
        Shape { size, count }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let Shape { size, count } = self.shape();
        let messages = fields::memory_bytes(count, size, self.fields).unwrap_or(usize::MAX);
        // A file is a second copy of the messages. Each end has a message and a buffer besides, and
        // the sender has arrays that fill its caches.
        let copies = if self.primitive.is_sendfile() { 2 } else { 1 };
        let each = copies * messages as u64 + 2 * self.size + (8 << 20);
        self.threads as u64 * each + (64 << 20)
    }

    /// # Errors
    /// `Unsupported` for a combination that does not exist.
    pub(super) fn full_primitive(&self) -> Result<field_sender::Primitive> {
        use field_sender::Primitive as Full;
        if self.buffers == Buffers::Registered && !self.primitive.is_uring() {
            unsupported!(
                "only io_uring sends from registered buffers (--set primitive=io_uring_send,io_uring_send_zc)"
            );
        }
        if self.allocate == Allocate::PerMessage && self.primitive != Primitive::CopyAndSend {
            unsupported!(
                "only copy_and_send has a buffer to allocate for each message (--set allocate=once)"
            );
        }
        Ok(match (self.primitive, self.allocate, self.buffers) {
            (Primitive::CopyAndSend, Allocate::Once, _) => Full::CopyAndSend,
            (Primitive::CopyAndSend, Allocate::PerMessage, _) => Full::CopyAndSendAllocating,
            (Primitive::Sendmsg, ..) => Full::Sendmsg,
            (Primitive::MsgZerocopy, ..) => Full::MsgZerocopy,
            (Primitive::MsgZerocopyBody, ..) => Full::MsgZerocopyBody,
            (Primitive::SendEach, ..) => Full::SendEach,
            (Primitive::IoUringSend, _, Buffers::Plain) => Full::IoUringSend,
            (Primitive::IoUringSend, _, Buffers::Registered) => Full::IoUringSendRegistered,
            (Primitive::IoUringSendZc, _, Buffers::Plain) => Full::IoUringSendZc,
            (Primitive::IoUringSendZc, _, Buffers::Registered) => Full::IoUringSendZcRegistered,
            (Primitive::SendfileMemfd, ..) => Full::SendfileMemfd,
            (Primitive::SendfileFile, ..) => Full::SendfileFile,
            (Primitive::Splice, ..) => Full::Splice,
        })
    }
}

/// Refuses combinations that exist on no machine, and what does not fit into this one's memory.
pub(crate) fn check(point: &At<CopySend>) -> Result {
    check_axes(point)?;
    arenas::ensure_fits(point.memory_bytes())
}

/// Refuses what cannot be measured anywhere.
pub(crate) fn check_axes(point: &At<CopySend>) -> Result {
    point.full_primitive()?;
    let is_stream = point.pattern == Pattern::Stream;
    if point.socket().is_datagrams() && point.size as usize > DATAGRAM_MAX_BYTES {
        unsupported!("a datagram has 65507 B of payload at most (--set size=65507)");
    }
    if point.over != Over::Tcp && point.congestion_control != CongestionControl::Default {
        unsupported!("only TCP has a congestion control (--set congestion_control=default)");
    }
    if point.nagle == Nagle::On && (point.over != Over::Tcp || !is_stream) {
        unsupported!(
            "Nagle's algorithm is TCP's, and would delay the end of a message that the peer has to \
             answer (--set nagle=off, or over=tcp and pattern=stream)"
        );
    }
    if is_stream && point.in_flight > 1 {
        unsupported!("a stream fills its socket (--set pattern=echo, trigger)");
    }
    if point.link == "sink" && !is_stream {
        unsupported!("nobody answers or asks on the link sink (--set pattern=stream)");
    }
    Ok(())
}
