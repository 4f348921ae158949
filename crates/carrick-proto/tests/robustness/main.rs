//! Whatever arrives: no panic, no state for strangers, bounded answers, memory and work.

#[path = "../common/mod.rs"]
mod common;

mod garbage;
mod peers;
mod strangers;
