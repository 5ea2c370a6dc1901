//! `os.syscall call=getppid` beside `perf bench syscall basic`: the same call in
//! a loop, through the same C library, on the same processor.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::tool::words;
use costof_peers::tools::perf;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let axes = words("call=getppid");
    let contest = Contest::time("os.syscall", "cost", axes, vec![perf::syscall()]);
    contest::hold(bench, "os.syscall beside perf bench syscall", vec![contest])
}
