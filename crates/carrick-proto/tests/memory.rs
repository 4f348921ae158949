//! What an idle association costs.

#[path = "../benches/support/mod.rs"]
mod support;

use std::sync::Arc;

use carrick_proto::AssociationConfig;
use support::Memory;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The floor that the project set itself: 4 KiB per idle association end.
const LIMIT: usize = 4096;

#[test]
fn an_idle_association_end_costs_at_most_4_kib() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let config = Arc::new(AssociationConfig::default());
    let count = 200_usize;
    let mut memories: Vec<Memory> = (0..count).map(|_| Memory::new(&config)).collect();
    let before = dhat::HeapStats::get().curr_bytes;
    for memory in &mut memories {
        memory.connect(&config);
    }
    let each = (dhat::HeapStats::get().curr_bytes - before) / (2 * count);
    println!("{each} bytes per idle association end, with an endpoint of its own");
    assert!(each <= LIMIT, "{each} bytes");
}
