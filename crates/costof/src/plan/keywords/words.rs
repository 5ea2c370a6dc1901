//! Everyday words that do not appear in the probes themselves.

/// Words, and the probes that they name.
pub(super) const SYNONYMS: &[(&str, &[&str])] = &[
    ("overhead", &["harness.null"]),
    ("time timestamp gettimeofday rdtsc tsc vdso", &["cpu.clock"]),
    ("ghz mhz turbo", &["cpu.frequency"]),
    ("function functioncall", &["cpu.call"]),
    ("branch mispredict misprediction", &["cpu.branch_miss"]),
    ("compression decompression", &["cpu.snappy"]),
    (
        "encryption encrypt crypto cryptography aes aead hash hashing sha crc checksum zstandard",
        &["cpu.transform"],
    ),
    ("ssl", &["cpu.tls"]),
    ("vm hypervisor cpuid virtualization", &["cpu.vm_exit"]),
    ("noise osnoise smi interrupt stall steal", &["cpu.hiccup"]),
    (
        "smt hyperthread hyperthreading sibling neighbor noisyneighbour noisyneighbor",
        &["cpu.neighbour"],
    ),
    ("lock locking spinlock contention", &["sync.mutex"]),
    ("atomic cas cacheline coherence", &["sync.core_to_core", "sync.false_sharing"]),
    ("kernel getuid", &["os.syscall"]),
    ("sqpoll liburing", &["os.io_uring"]),
    (
        "seccomp sandbox sandboxing tracing ptrace ebpf perf tracepoint observability overlayfs rootless docker \
         container podman kubernetes gvisor",
        &["os.overhead"],
    ),
    ("cgroup cgroups cfs cpulimit limits quota", &["os.quota"]),
    ("segfault sigsegv sigaction handler", &["os.signal"]),
    ("nanosleep usleep jitter slack", &["os.timer"]),
    ("exec execve clone subprocess", &["os.process"]),
    ("scheduler wakeup wake-up yield", &["os.context_switch"]),
    ("cow madvise", &["os.page_fault"]),
    ("select eventloop multiplexing", &["os.wait"]),
    ("async await tokio runtime coroutine", &["sync.task"]),
    ("mlock", &["os.pin"]),
    ("ram dram l1 l2 l3 llc cache cachemiss tlb hugepage prefetcher", &["memory.latency"]),
    ("membw", &["memory.bandwidth"]),
    ("free allocation heap new delete", &["memory.malloc"]),
    ("mthp populate firsttouch", &["memory.first_touch"]),
    ("numa", &["node.latency", "node.bandwidth"]),
    ("dimm", &["node.bandwidth"]),
    ("throttling throttle thermal", &["node.clock"]),
    ("badcore slowcore", &["node.core"]),
    ("ipc shm sharedmemory", &["ipc.latency"]),
    ("disk ssd nvme hdd seek iops", &["file.read"]),
    ("durable durability flush commit groupcommit journal wal transaction", &["file.sync"]),
    ("inode directory", &["file.metadata"]),
    ("pagecache", &["file.read", "file.cache_size"]),
    ("nfs mount", &["file.remote", "file.remote_call"]),
    ("network lan", &["net.rtt", "net.bandwidth"]),
    ("roundtrip", &["net.rtt"]),
    ("icmp", &["net.ping"]),
    ("handshake connection accept", &["net.connect"]),
    ("msgzerocopy sendmsg writev nagle", &["copy.send"]),
    ("recvmsg", &["copy.receive"]),
    ("proxy forwarding tunnel loadbalancer", &["copy.forward"]),
    ("packetloss retransmission", &["rudp.loss"]),
    ("protobuf serialise serialize serialisation serialization marshalling", &["rpc.marshal"]),
];

/// Words for the user's own programs, and the command that measures these.
pub(super) const OWN: &[(&str, &str)] = &[
    (
        "time command program myprogram mycommand mycode mine benchmark benchmarking hyperfine criterion script binary \
         executable application",
        "`costof time CMD` measures your own command, and compares several",
    ),
    (
        "regression pullrequest revision bisect",
        "`costof against REV -- PROGRAM` compares your program with another revision of it",
    ),
    ("ci runner flaky", "`costof doctor --ci` says whether this machine is fit to judge a change"),
    (
        "upgrade upgraded canary rollout",
        "`costof compare OLD/ NEW/` compares runs of hosts before with runs of hosts after",
    ),
];

/// A probe in a list of the nearest: its id, and its relation to the subject.
type Nearest = (&'static str, &'static str);

/// Words for subjects that no probe measures, what the subject is, and the nearest probes.
pub(super) const NOT_MEASURED: &[(&str, &str, &[Nearest])] = &[
    (
        "json xml yaml parse parsing",
        "JSON and other text formats are",
        &[("rpc.marshal", "protobuf and Thrift to bytes and back")],
    ),
    (
        "dns resolver getaddrinfo",
        "DNS is",
        &[("net.rtt", "over=udp is the exchange beneath a lookup")],
    ),
    ("http http2 rest web nginx", "HTTP is", &[("net.rtt", "over=grpc is a call over HTTP/2")]),
    (
        "sql database db postgres mysql sqlite redis",
        "databases are",
        &[("file.sync", "what a commit waits for"), ("net.rtt", "the way to a server and back")],
    ),
    (
        "gzip zlib brotli",
        "compressors other than Snappy, LZ4 and Zstandard are",
        &[
            ("cpu.snappy", "the fast kind of compression"),
            ("cpu.transform", "by=lz4 and by=zstd too"),
            ("net.rtt", "over=grpc_gzip is a compressed call"),
        ],
    ),
    (
        "postquantum pqc mlkem kyber",
        "post-quantum key exchange, which ring does not have, is",
        &[("cpu.tls", "a handshake by X25519")],
    ),
    ("gpu cuda pcie", "GPUs are", &[("memory.bandwidth", "what the CPU moves")]),
    (
        "rdma infiniband dpdk xdp",
        "ways around the kernel's network stack are",
        &[("net.stages", "where a round trip through it spends its time")],
    ),
    (
        "division divide sqrt multiply addition arithmetic simd",
        "arithmetic instructions are",
        &[("cpu.loop", "a subtraction and a branch")],
    ),
    (
        "gc garbage python java jvm goroutine",
        "runtimes of managed languages are",
        &[("os.thread", "a thread of the kernel"), ("cpu.call", "a procedure call in native code")],
    ),
];
