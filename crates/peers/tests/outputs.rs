//! What the tools printed, and the number that `verify.toml` finds in it.

use costof_peers::checks::{Effort, checks};

const MIB: f64 = 1_048_576.0;

/// The number that this tool of a check finds in an output.
fn number(point: &str, tool: &str, output: &str) -> Option<f64> {
    let all = checks(Effort::QUICK);
    let check = all.iter().find(|check| check.point().starts_with(point)).expect("a check");
    let peer = check.peers.iter().find(|peer| peer.tool == tool).expect("a tool");
    peer.number(output).ok()
}

#[test]
fn each_output_has_its_number() {
    for (point, tool, output, expected) in [
        ("os.syscall", "perf", PERF_SYSCALL, 176.76),
        ("os.context_switch between=processes", "perf", PERF_PIPE, 2809.8025),
        ("os.context_switch between=threads", "perf", PERF_PIPE, 2809.8025),
        ("os.syscall", "lmbench", "Simple syscall: 0.1653 microseconds\n", 165.3),
        ("os.context_switch", "lmbench", "Pipe latency: 5.2255 microseconds\n", 2612.75),
        ("memory.latency", "lmbench", LMBENCH_SIZES, 150.094),
        ("os.process how=fork", "cc", "5000 children: 123.5 ns until it ended\n", 123.5),
        ("os.process how=vfork", "stress-ng", VFORK, 1e9 / 26226.34),
        ("cpu.transform by=sha256", "openssl", OPENSSL_SPEED, 565_639_168.0),
        ("cpu.tls", "openssl", OPENSSL_HANDSHAKE, 310e3),
        ("memory.bandwidth op=read", "sysbench", SYSBENCH, 24179.42 * MIB),
        ("memory.bandwidth op=read", "stress-ng", MEMRATE, 23668.03 * MIB),
        ("memory.bandwidth op=write", "stress-ng", MEMRATE, 20119.79 * MIB),
        ("memory.bandwidth op=copy", "mbw", MBW, 9393.806 * MIB),
        ("file.read cache=warm", "fio", FIO, 63744.0),
        ("file.sync", "fio", FIO, 120_160.0),
        ("file.sync", "pg_test_fsync", PG_TEST_FSYNC, 1e9 / 236.988),
        ("net.rtt over=tcp", "sockperf", SOCKPERF, 69_823.0),
        ("net.ping", "ping", PING, 10_000.0),
        ("net.bandwidth", "iperf3", IPERF3, 32326e6 / 8.0),
    ] {
        let found = number(point, tool, output);
        let is_it = found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-9);
        assert!(is_it, "{point} {tool}: {found:?}, expected {expected}");
    }
}

#[test]
fn an_output_without_the_number_has_none() {
    for (point, tool, output) in [
        ("os.syscall", "perf", "Total time: 1.1 [sec]"),
        ("os.syscall", "perf", "zero usecs/op"),
        ("os.syscall", "lmbench", "(w) read/write on pipe: Invalid argument\n"),
        ("memory.latency", "lmbench", "\"stride=64\n"),
        ("os.process how=vfork", "stress-ng", "stress-ng: info: vfork"),
        ("cpu.transform by=sha256", "openssl", "+F:25:sha256:fast"),
        ("cpu.tls", "openssl", "+F5:22:253:25000.0:0.000040"),
        ("cpu.tls", "openssl", "+F6:0:253:Ed25519:20000.0:10000.0"),
        ("memory.bandwidth op=read", "sysbench", "16 MiB transferred"),
        ("memory.bandwidth op=read", "stress-ng", "memrate: nothing"),
        ("memory.bandwidth op=copy", "mbw", "Long uses 8 bytes."),
        ("file.read cache=warm", "fio", "{\"jobs\": []}"),
        ("file.read cache=warm", "fio", "fio: failed"),
        ("file.sync", "pg_test_fsync", "        fdatasync      n/a"),
        ("net.rtt over=tcp", "sockperf", "sockperf: Test ended"),
        ("net.ping", "ping", "3 packets transmitted, 0 received"),
        ("net.bandwidth", "iperf3", "iperf3: error - unable to connect"),
    ] {
        for output in [output, ""] {
            assert_eq!(number(point, tool, output), None, "{point} {tool}: {output}");
        }
    }
}

#[test]
fn a_number_that_does_not_count_says_why() {
    let all = checks(Effort::QUICK);
    let peer = all.iter().flat_map(|check| &check.peers).find(|peer| peer.tool == "sockperf");
    let why = |output: String| peer.unwrap().number(&output).unwrap_err().to_string();
    let with_losses = why(SOCKPERF.replace("dropped messages = 0", "dropped messages = 3"));
    assert!(with_losses.contains("were lost"), "{with_losses}");
    let halved = why(SOCKPERF.replace("Round trip is", "Latency is"));
    assert!(halved.contains("whole round trips"), "{halved}");
}

#[test]
fn both_ends_of_sockperf_wait_alike() {
    let all = checks(Effort::QUICK);
    for check in all.iter().filter(|check| check.probe == "net.rtt") {
        let peer = &check.peers[0];
        for ends in [&*peer.run, peer.server.unwrap()] {
            assert_eq!(ends.contains("--nonblocked"), check.axes.contains("wait=spin"), "{ends}");
            assert_eq!(ends.contains("--tcp"), check.axes.contains("over=tcp"), "{ends}");
        }
    }
}

/// OpenSSL 3.0.
const OPENSSL_SPEED: &str = "+H:1024\n+F:25:AES-128-GCM:565639168.00\n";
const OPENSSL_HANDSHAKE: &str = "+F5:22:253:25000.0:0.000040\n+F6:0:253:Ed25519:20000.0:10000.0\n";

/// perf 6.1.
const PERF_SYSCALL: &str = "\
# Running 'syscall/basic' benchmark:
# Executed 10000000 getppid() calls
     Total time: 1.767 [sec]

       0.176760 usecs/op
        5657375 ops/sec
";

/// perf 6.1.
const PERF_PIPE: &str = "\
# Running 'sched/pipe' benchmark:
# Executed 200000 pipe operations between two processes

     Total time: 1.123 [sec]

       5.619605 usecs/op
         177948 ops/sec
";

/// lmbench 3.0-a9, the middle of the sizes left out.
const LMBENCH_SIZES: &str = "\
\"stride=64
0.00049 1.410
0.00098 1.410
12.00000 133.955
16.00000 145.606
24.00000 150.094
";

/// mbw 1.2.2.
const MBW: &str = "\
0\tMethod: MEMCPY\tElapsed: 0.01363\tMiB: 128.00000\tCopy: 9393.806 MiB/s
1\tMethod: MEMCPY\tElapsed: 0.01326\tMiB: 128.00000\tCopy: 9652.364 MiB/s
2\tMethod: MEMCPY\tElapsed: 0.01612\tMiB: 128.00000\tCopy: 7939.462 MiB/s
AVG\tMethod: MEMCPY\tElapsed: 0.01409\tMiB: 128.00000\tCopy: 9082.588 MiB/s
";

/// iputils 20221126.
const PING: &str = "\
PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.
64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.156 ms
64 bytes from 127.0.0.1: icmp_seq=2 ttl=64 time=0.010 ms
64 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time=0.009 ms

--- 127.0.0.1 ping statistics ---
3 packets transmitted, 3 received, 0% packet loss, time 4ms
rtt min/avg/max/mdev = 0.009/0.058/0.156/0.069 ms
";

/// sockperf 3.7.
const SOCKPERF: &str = "\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 45002 # TCP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=13667; ReceivedMessages=13666
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.551 sec; SentMessages=7668; ReceivedMessages=7668
sockperf: \x1b[2;35m====> avg-rtt=71.727 (std-dev=19.851)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 71.727 usec
sockperf: \x1b[2;35mTotal 7668 observations\x1b[0m; each percentile contains 76.68 observations
sockperf: ---> <MAX> observation = 1212.737
sockperf: ---> percentile 99.000 =  112.897
sockperf: ---> percentile 75.000 =   79.658
sockperf: ---> percentile 50.000 =   69.823
sockperf: ---> percentile 25.000 =   62.252
sockperf: ---> <MIN> observation =   19.979
";

/// stress-ng 0.15.06.
const MEMRATE: &str = "\
stress-ng: info:  [16093] setting to a 3 second run per stressor
stress-ng: info:  [16093] dispatching hogs: 1 memrate
stress-ng: info:  [16094] memrate: using buffer size of 262144K, cache flushing disabled
stress-ng: metrc: [16093] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s CPU used per       RSS Max
stress-ng: metrc: [16093]                           (secs)    (secs)    (secs)   (real time) (usr+sys time) instance (%)          (KB)
stress-ng: metrc: [16093] memrate               8      3.02      2.84      0.15         2.65           2.68        99.12        264632
stress-ng: metrc: [16093] miscellaneous metrics:
stress-ng: metrc: [16093] memrate            20055.74 write64stoq MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            20119.79 write512 MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            25804.30 memset MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            39804.30 write128nt MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            20170.61 read64pf MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            23668.03 read128 MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate             8929.43 read8 MB per sec (geometic mean of 1 instances)
";

/// stress-ng 0.15.06.
const VFORK: &str = "\
stress-ng: info:  [16105] dispatching hogs: 1 vfork
stress-ng: metrc: [16105] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s CPU used per       RSS Max
stress-ng: metrc: [16105]                           (secs)    (secs)    (secs)   (real time) (usr+sys time) instance (%)          (KB)
stress-ng: metrc: [16105] vfork             26225      1.00      0.40      0.52     26226.34       28581.52        91.76          2548
stress-ng: info:  [16105] successful run completed in 1.00s
";

/// sysbench 1.0.20.
const SYSBENCH: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Running memory speed test with the following options:
  block size: 262144KiB
  total size: 1048576MiB
  operation: read
  scope: global

Initializing worker threads...

Threads started!

Total operations: 95 (   94.45 per second)

24320.00 MiB transferred (24179.42 MiB/sec)


General statistics:
    total time:                          1.0049s
    total number of events:              95
";

/// PostgreSQL 15, the second table left out but for a line.
const PG_TEST_FSYNC: &str = "\
1 second per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                       574.731 ops/sec    1740 usecs/op
        fdatasync                           236.988 ops/sec    4220 usecs/op
        fsync_writethrough                              n/a
        fdatasync                           729.121 ops/sec    1372 usecs/op
";

/// iperf 3.12.
const IPERF3: &str = "\
Connecting to host 127.0.0.1, port 45001
[  6] local 127.0.0.1 port 34320 connected to 127.0.0.1 port 45001
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  6]   0.00-1.00   sec  3.88 GBytes  33305 Mbits/sec    6   2.62 MBytes       (omitted)
[  6]   0.00-1.00   sec  3.76 GBytes  32325 Mbits/sec    1   2.62 MBytes       
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  6]   0.00-1.00   sec  3.76 GBytes  32325 Mbits/sec    1             sender
[  6]   0.00-1.00   sec  3.76 GBytes  32326 Mbits/sec                  receiver

iperf Done.
";

/// fio 3.33, most of it left out.
const FIO: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "read",
      "error" : 0,
      "read" : {
        "bw_bytes" : 58227852,
        "iops" : 14215.784216,
        "lat_ns" : {
          "min" : 42073,
          "mean" : 67367.269150,
          "N" : 14230,
          "percentile" : {
            "50.000000" : 63744
          }
        }
      },
      "write" : {
        "lat_ns" : { "percentile" : { "50.000000" : 4960 } }
      },
      "sync" : {
        "lat_ns" : { "percentile" : { "50.000000" : 115200 } }
      }
    }
  ]}"#;
