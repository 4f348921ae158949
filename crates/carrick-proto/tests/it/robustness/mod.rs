//! Whatever arrives: no panic, no state for strangers, bounded answers, memory and work.

mod garbage;
mod memory;
mod peers;
mod strangers;
