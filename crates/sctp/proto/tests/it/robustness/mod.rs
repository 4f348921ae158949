//! Arbitrary input: no panic, no state for unknown peers, bounded answers, memory and work.

mod floods;
mod garbage;
mod memory;
mod peers;
