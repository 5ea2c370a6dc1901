//! costof as its users meet it: through its command line, its files and its
//! exit codes. No test here says how long anything takes.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod action;
mod ask;
mod bandwidth;
mod calls;
mod commands;
mod common;
mod compare;
mod copies;
mod copy_calls;
mod copy_verdicts;
mod datagrams;
mod documents;
mod empty_root;
mod ends;
mod estimate;
mod export;
mod files;
mod fleet;
mod foreign_names;
mod formats;
mod graded;
mod hidden;
mod hostile_workers;
mod hosts;
mod interleave;
mod interrupted;
mod killed;
mod limits;
mod link;
mod misbehaving;
mod namespaces;
mod nfs;
mod ping;
mod placed;
mod power_loss;
mod preflight;
mod readers;
mod released;
mod report;
mod resumed;
mod runs;
mod send;
mod slurm;
mod soak;
mod ssh;
mod ssh_copies;
mod strangers;
mod study;
mod turns;
mod two_ends;
mod verify;
mod worker;
mod written;
