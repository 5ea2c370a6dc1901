//! What `copy.send` varies, and which points there are.

use crate::arenas::Pages;
use crate::net::congestion_control::CongestionControl;
use crate::prelude::*;
use costof_exchange::delivery::{MESSAGE_LEAST_BYTES, Shape, Transport};
use costof_os::memory::fields;
use costof_os::net::field_sender;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;

words! {
    /// How a message goes into the socket.
    pub(crate) enum Primitive {
        /// its fields are copied one behind the other into a buffer, which send(2) copies
        TwoCopy = "two_copy",
        /// sendmsg(2), with an iovec entry for each field
        OneCopy = "one_copy",
        /// sendmsg(2) with MSG_ZEROCOPY, an entry for each field; completions are reaped after every 32
        /// sends, none is waited for
        ZeroCopy = "zero_copy",
        /// send(2) for each field; over UDP with MSG_MORE, so that a message is a datagram
        WriteEach = "write_each",
        /// io_uring: a SENDMSG for all fields, or a linked WRITE_FIXED for each where buffers are
        /// registered; one io_uring_enter(2) submits and waits
        UringSend = "uring_send",
        /// io_uring: a SENDMSG_ZC for all fields, a SEND_ZC for a single one, or a linked SEND_ZC for
        /// each where buffers are registered
        UringZeroCopy = "uring_zero_copy",
        /// sendfile(2) from a memfd, in which the fields lie one behind the other; putting them there is
        /// not measured
        SendfileMemory = "sendfile_memory",
        /// the same from a file on a disk, which is in the page cache
        SendfileFile = "sendfile_file",
        /// vmsplice(2) of all fields into a pipe, and splice(2) from there into the socket; nothing
        /// reports when they may be changed
        Splice = "splice",
    }
}

words! {
    /// What goes the other way.
    pub(crate) enum Pattern {
        /// nothing: messages go as fast as the socket takes them
        Stream = "stream",
        /// a message of the same size for each, sent in the same way and by the same congestion control;
        /// over UDP in windows: all in_flight are sent, and what is not answered within 50 ms and four
        /// round trips is lost
        Echo = "echo",
        /// the receiver asks with 64 B for in_flight messages, and for the next ones when they have been
        /// received completely; its throughput includes the requests' time, and nears that of a stream
        /// the more it asks for
        Trigger = "trigger",
    }
}

words! {
    /// Where messages are before.
    pub(crate) enum Source {
        /// one message that is sent again and again, in the caches if it fits
        Hot = "hot",
        /// each time another message of a working set, after all others have been sent; neither its
        /// fields nor those of neighbours lie side by side
        Cold = "cold",
    }
}

words! {
    /// What carries messages.
    pub(crate) enum Over => Transport {
        /// TCP
        Tcp = "tcp",
        /// UDP, a datagram for each message, whatever is lost
        Udp = "udp",
        /// UDP, a message at once as datagrams of 1452 B, which packets of 1500 B carry by IPv4 and IPv6,
        /// cut up by the kernel or a device (UDP_SEGMENT), and taken in several at a time (UDP_GRO)
        UdpGso = "udp_gso",
        /// Unix stream sockets; both ends on this machine
        Unix = "unix",
    }
}

words! {
    /// Whether the end of a message waits for what comes behind it.
    pub(crate) enum Nagle {
        /// TCP_NODELAY: the end of a message leaves at once, in a packet of its own
        Off = "off",
        /// the socket's default: it waits for the beginning of the next message, or for an
        /// acknowledgement
        On = "on",
    }
}

words! {
    /// When a buffer is allocated.
    pub(crate) enum Allocate {
        /// before all messages
        Once = "once",
        /// for each message, and given back
        PerMessage = "per_message",
    }
}

words! {
    /// What io_uring knows of the messages before.
    pub(crate) enum Buffers {
        /// nothing
        Plain = "plain",
        /// where they are: their pages are pinned once (IORING_REGISTER_BUFFERS)
        Registered = "registered",
    }
}

/// The sizes, the default first.
pub(super) const SIZES: &[u64] = &[
    32 << 10,
    64,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    1 << 20,
    16 << 20,
];

point! {
    /// Which way of sending a message of several fields pays here?
    ///
    /// One end connects and sends messages of several fields, each field at a place of its own,
    /// from a list of places that is made before; the other end reads up to 128 KiB at once. Fields
    /// begin at a cache line and not at a page, as from an allocator, so on small pages a message
    /// has more pieces than pages. Thread by thread, they run on every second of the run's CPUs, so
    /// that the ends share none if there are enough. Every quarter of a millisecond each end notes
    /// how far it is, and its threads' CPU time (CLOCK_THREAD_CPUTIME_ID); the first third is left
    /// out. With --full, a stream to a receiver goes on for six times as long, 0.3 s a round and
    /// not 0.05, because the first tenths of a second of a connection may be slower, and are most
    /// of a shorter stream. Into a sink, where nothing receives, it does not. Ways of sending the
    /// same message take turns in one launch, in random order, twice, and once in a quick run.
    /// Every message holds other bytes, which follow from its number; the receiver of messages or
    /// answers compares a word of each piece, and the whole last piece. In an echo of several
    /// messages with more than 64 KiB, counting 1 KiB more for each, both ends would wait for each
    /// other: there the sender's socket does not block, and when it takes nothing, the sender reads
    /// answers and waits by poll(2). Completions of MSG_ZEROCOPY and IORING_OP_SEND_ZC say whether
    /// the kernel copied after all, and CPU time says what that took. On the link sink there is
    /// only the sender's half: what leaves is dropped, and a thread on another CPU acknowledges it.
    /// There, a congestion control that paces, such as BBR, is most of what sending takes, so
    /// congestion_control=reno, which every kernel has and every user may use, shows more. It is
    /// chosen before the connection begins, because a connection that BBR has begun stays paced.
    /// Nine single messages beforehand (three if they are larger than 1 MiB) show when a message's
    /// bytes could be changed. Arrays that had filled the sender's caches show what sending threw
    /// out of them. A first connection does both before its stream, and they count for no other
    /// metric.
    ///
    /// # Predicted from
    /// each end's copies as cpu.memcpy and memory.bandwidth measured them, its parts as copy.parts
    /// and os.pin, calls as os.syscall, and its share of a packet as net.rtt; BBR's pacing as
    /// os.timer; the slower end decides, or both where they share a CPU. An echo: net.rtt's
    /// round trip and the parts
    ///
    /// # Sources
    /// - Network I/O primitives, three course reports, 2026: a message of 8 fields, sent with two
    ///   copies, one and none
    /// - Linux Documentation/networking/msg_zerocopy.rst; W. de Bruijn, E. Dumazet, sendmsg copy
    ///   avoidance with MSG_ZEROCOPY, Netdev 2.1, 2017
    /// - send(2), sendmsg(2), sendfile(2), vmsplice(2), splice(2), io_uring_enter(2); udp(7)
    ///
    /// # Needs
    /// - primitive=zero_copy: Linux 4.14, for UDP 5.0
    /// - over=udp_gso: Linux 5.0, and packets of 1500 B or more on the way
    /// - primitive=uring_send, uring_zero_copy: io_uring, Linux 5.3 and 6.2
    /// - over=unix: both ends in one network namespace (--link loopback)
    /// - pages=2MiB: transparent huge pages
    pub(crate) struct CopySend of "copy.send" {
        /// how a message goes into the socket
        primitive: Primitive = words(),
        /// bytes of a message; a datagram has 65507 at most
        size: u64 = bytes(MESSAGE_LEAST_BYTES as u64..=16 << 20, SIZES),
        /// what goes the other way
        pattern: Pattern = words(),
        /// echo: how many messages may be unanswered at a time; trigger: how many are asked for at
        /// once
        in_flight: u64 = count(1..=1024, &[1]),
        /// how many connections, each with a thread at both ends
        threads: usize = count(1..=64, &[1, 2, 4, 8]),
        /// where the messages are before
        source: Source = words(),
        pages: Pages = Pages::axis(),
        /// what carries them
        over: Over = words(),
        congestion_control: CongestionControl = CongestionControl::axis(),
        /// whether TCP holds back what does not fill a packet (RFC 896)
        nagle: Nagle = words(),
        /// separately allocated fields of a message: equal shares, the rest in the last
        fields: usize = count(1..=MESSAGE_LEAST_BYTES as u64, &[8, 1]),
        /// when two_copy's buffer is allocated
        allocate: Allocate = words(),
        /// what io_uring knows of the messages before
        buffers: Buffers = words(),
        /// the memory from which cold messages come, all threads together
        working_set: u64 = bytes(1 << 20..=1 << 40, &[128 << 20]),
    }
}

impl Primitive {
    /// Whether it asks the kernel to copy nothing, which the kernel may do all the same.
    pub(super) fn asks_for_no_copy(self) -> bool {
        matches!(self, Primitive::ZeroCopy | Primitive::UringZeroCopy)
    }

    /// Whether it sends out of a file.
    pub(super) fn is_sendfile(self) -> bool {
        matches!(self, Primitive::SendfileMemory | Primitive::SendfileFile)
    }

    pub(super) fn is_uring(self) -> bool {
        matches!(self, Primitive::UringSend | Primitive::UringZeroCopy)
    }
}

/// The axes in which points of one block must agree: all but those that are ways of sending the same
/// message.
pub(super) const BLOCKS_BY: &[&str] =
    &names_without::<{ CopySend::AXES.len() - WAYS.len() }>(CopySend::AXES, WAYS);
const WAYS: &[&str] = &["primitive", "nagle", "allocate", "buffers"];

impl CopySend {
    pub(crate) fn transport(&self) -> Transport {
        self.over.into()
    }

    /// What each thread sends: one message, or as many as fill its share of the working set, but no
    /// fewer than two.
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

    /// How much memory both ends need, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let Shape { size, count } = self.shape();
        let messages = fields::memory_bytes(count, size, self.fields).unwrap_or(usize::MAX);
        // A file has them once more; both ends have a message and a buffer besides, and the sender
        // arrays that fill its caches.
        let copies = if self.primitive.is_sendfile() { 2 } else { 1 };
        let each = copies * messages as u64 + 2 * self.size + (8 << 20);
        self.threads as u64 * each + (64 << 20)
    }

    /// The primitive, with what other axes add to it.
    ///
    /// # Errors
    /// `Unsupported` for a combination that does not exist.
    pub(super) fn full_primitive(&self) -> Result<field_sender::Primitive, Failure> {
        use field_sender::Primitive as Full;
        if self.buffers == Buffers::Registered && !self.primitive.is_uring() {
            unsupported!(
                "only io_uring sends from registered buffers (--set primitive=uring_send,uring_zero_copy)"
            );
        }
        if self.allocate == Allocate::PerMessage && self.primitive != Primitive::TwoCopy {
            unsupported!(
                "only two_copy has a buffer that could be allocated for each message (--set \
                 allocate=once)"
            );
        }
        Ok(match (self.primitive, self.allocate, self.buffers) {
            (Primitive::TwoCopy, Allocate::Once, _) => Full::TwoCopy,
            (Primitive::TwoCopy, Allocate::PerMessage, _) => Full::TwoCopyAllocating,
            (Primitive::OneCopy, ..) => Full::OneCopy,
            (Primitive::ZeroCopy, ..) => Full::ZeroCopy,
            (Primitive::WriteEach, ..) => Full::WriteEach,
            (Primitive::UringSend, _, Buffers::Plain) => Full::UringSend,
            (Primitive::UringSend, _, Buffers::Registered) => Full::UringSendRegistered,
            (Primitive::UringZeroCopy, _, Buffers::Plain) => Full::UringZeroCopy,
            (Primitive::UringZeroCopy, _, Buffers::Registered) => Full::UringZeroCopyRegistered,
            (Primitive::SendfileMemory, ..) => Full::SendfileMemory,
            (Primitive::SendfileFile, ..) => Full::SendfileFile,
            (Primitive::Splice, ..) => Full::Splice,
        })
    }
}

/// Refuses combinations that do not exist on any machine, and what does not fit into this one's memory.
pub(crate) fn check(point: &At<CopySend>) -> Result<(), Failure> {
    point.full_primitive()?;
    let is_stream = point.pattern == Pattern::Stream;
    if point.transport().is_datagrams() && point.size as usize > DATAGRAM_MOST_BYTES {
        unsupported!("a datagram has 65507 B of payload at most (--set size=65507)");
    }
    if point.over != Over::Tcp && point.congestion_control != CongestionControl::Default {
        unsupported!("only TCP has a congestion control (--set congestion_control=default)");
    }
    if point.nagle == Nagle::On && (point.over != Over::Tcp || !is_stream) {
        unsupported!(
            "Nagle's algorithm is TCP's, and would keep the end of a message from the peer that has to \
             answer it (--set nagle=off, or over=tcp and pattern=stream)"
        );
    }
    if is_stream && point.in_flight > 1 {
        unsupported!(
            "a stream has as much in flight as its socket takes (--set pattern=echo, trigger)"
        );
    }
    if point.link == "sink" && !is_stream {
        unsupported!("nobody answers or asks on the link sink (--set pattern=stream)");
    }
    let bytes = point.memory_bytes();
    if !arenas::fits(bytes) {
        return Err(arenas::does_not_fit(bytes));
    }
    Ok(())
}
