//! A fixed transfer to count instructions of, where clocks are not to be trusted:
//!
//! ```text
//! cargo bench -p carrick-proto --bench count --no-run
//! valgrind --tool=callgrind target/release/deps/count-* default|modern|observed SIZE COUNT
//! valgrind --tool=callgrind target/release/deps/count-* setup COUNT
//! valgrind --tool=callgrind target/release/deps/count-* curve NAME VALUE COUNT
//! ```
//!
//! COUNT messages of SIZE bytes pass between two endpoints in memory, and the chunks that took are
//! printed, with `observed` beside an observer that takes no events of chunks; or COUNT associations are set up and aborted; or COUNT messages pass at a point of a curve. Twice the count less once is what the
//! messages, or the set-ups, cost by themselves.

#[path = "support/bulk.rs"]
mod bulk;
#[path = "support/curves.rs"]
mod curves;
mod support;

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, ObservedDetail, Observer};
use support::Memory;

/// Observer as `tracing` at level info.
#[derive(Debug)]
struct Coarse;

impl Observer for Coarse {
    fn detail(&self) -> ObservedDetail {
        ObservedDetail::Association
    }
}

/// Sets associations up and aborts them, one after the other.
fn set_up(count: usize) {
    let config = Arc::new(AssociationConfig::rfc9260());
    let mut memory = Memory::new(&config);
    for _ in 0..count {
        bulk::set_up_and_abort(&mut memory, &config);
    }
    println!("{count} associations");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default| {
        arguments
            .get(n)
            .and_then(|a| a.parse().ok())
            .unwrap_or(default)
    };
    if arguments.first().is_some_and(|what| what == "setup") {
        return set_up(number(1, 500));
    }
    if arguments.first().is_some_and(|what| what == "curve") {
        let curve = arguments.get(1).and_then(|name| curves::Curve::named(name));
        let mut point = curves::Point::new(curve.expect("a curve"), number(2, 1));
        let count = number(3, point.batch());
        println!("{} DATA chunks", point.pass(count));
        return;
    }
    let base = match arguments.first().map(String::as_str) {
        Some("modern") => AssociationConfig::modern(),
        _ => AssociationConfig::rfc9260(),
    };
    let config = Arc::new(base.with(|c| {
        c.buffers.receive_buffer = 4 << 20;
        c.buffers.send_buffer = 4 << 20;
    }));
    let (size, count) = (number(1, 65_536), number(2, 500));
    let mut memory = Memory::new(&config);
    if arguments.first().is_some_and(|what| what == "observed") {
        for end in &mut memory.ends {
            end.set_observer(memory.now, Some(Arc::new(Coarse)));
        }
    }
    let (a, b) = memory.connect(&config);
    bulk::transfer(&mut memory, a, b, &Bytes::from(vec![7; size]), count);
    let stats = memory.ends[0].association(a).expect("open").stats();
    println!("{} DATA chunks", stats.counters.data_chunks_sent);
}
