//! A fixed transfer to count instructions of, where clocks are not to be trusted:
//!
//! ```text
//! cargo bench -p carrick-proto --bench count --no-run
//! valgrind --tool=callgrind target/release/deps/count-* default|modern SIZE COUNT
//! ```
//!
//! COUNT messages of SIZE bytes pass between two endpoints in memory, and the chunks that took are
//! printed. Twice the count less once is what the messages cost without the set-up.

#[path = "support/bulk.rs"]
mod bulk;
mod support;

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::AssociationConfig;
use support::Memory;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default| {
        arguments
            .get(n)
            .and_then(|a| a.parse().ok())
            .unwrap_or(default)
    };
    let base = match arguments.first().map(String::as_str) {
        Some("modern") => AssociationConfig::modern(),
        _ => AssociationConfig::default(),
    };
    let config = Arc::new(AssociationConfig {
        receive_buffer: 4 << 20,
        send_buffer: 4 << 20,
        ..base
    });
    let (size, count) = (number(1, 65_536), number(2, 500));
    let mut memory = Memory::new(&config);
    let (a, b) = memory.connect(&config);
    bulk::transfer(&mut memory, a, b, &Bytes::from(vec![7; size]), count);
    let stats = memory.ends[0].association_stats(a).expect("open");
    println!("{} DATA chunks", stats.counters.data_chunks_sent);
}
