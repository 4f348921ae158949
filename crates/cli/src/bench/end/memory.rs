//! The protocol core in memory, with the two endpoints of the benchmarks of `carrick-proto`.

#[path = "../memory/bulk.rs"]
mod bulk;
#[path = "../memory/curves.rs"]
pub(in crate::bench) mod curves;
#[path = "../memory/mod.rs"]
mod support;

use std::fs::read_to_string;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, SendOptions};
use serde::Serialize;

use super::print;
use crate::cpu::CpuTime;
use curves::{Curve, Point};
use support::Memory;

/// Size of both buffers in bytes.
const BUFFER: usize = 4 << 20;
/// Messages between two looks at the CPU time take about as many bytes.
const BATCH: usize = 4 << 20;
/// Maximum number of these messages, and of set-ups between two looks.
const MAX_COUNT: usize = 5000;
/// Message of an association in use, in bytes.
const MESSAGE: usize = 100;

pub(super) fn config(modern: bool) -> AssociationConfig {
    if modern {
        AssociationConfig::modern()
    } else {
        AssociationConfig::rfc9260()
    }
}

fn cpu_seconds() -> f64 {
    CpuTime::now().total()
}

pub(super) fn transfer(config: &AssociationConfig, size: usize, time: Duration) -> io::Result<()> {
    #[derive(Serialize)]
    struct Transferred {
        messages: usize,
        bytes: usize,
        chunks: u64,
        cpu_seconds: f64,
    }
    let config = Arc::new(config.clone().with(|c| {
        c.buffers.receive_buffer = BUFFER;
        c.buffers.send_buffer = BUFFER;
    }));
    let mut memory = Memory::new(&config);
    let (a, b) = memory.connect(&config);
    let message = Bytes::from(vec![7; size]);
    let count = (BATCH / size).clamp(1, MAX_COUNT);
    let chunks = |memory: &Memory| {
        let stats = memory.ends[0].association(a).map(|a| a.stats());
        stats.map_or(0, |stats| stats.counters.data_chunks_sent)
    };
    // The first batch opens the window.
    bulk::transfer(&mut memory, a, b, &message, count);
    let (chunks_before, begin) = (chunks(&memory), cpu_seconds());
    let mut messages = 0;
    let mut used = 0.0;
    while used < time.as_secs_f64() {
        bulk::transfer(&mut memory, a, b, &message, count);
        messages += count;
        used = cpu_seconds() - begin;
    }
    print(&Transferred {
        messages,
        bytes: messages * size,
        chunks: chunks(&memory) - chunks_before,
        cpu_seconds: used,
    })
}

/// Measures a point of a curve.
pub(super) fn curve(curve: Curve, value: usize, time: Duration) -> io::Result<()> {
    #[derive(Serialize)]
    struct Passed {
        chunks: u64,
        cpu_seconds: f64,
    }
    let mut point = Point::new(curve, value);
    // The first batch opens the window and fills the caches.
    let messages = point.batch();
    point.pass(messages);
    let begin = cpu_seconds();
    let (mut chunks, mut used) = (0, 0.0);
    while used < time.as_secs_f64() {
        chunks += point.pass(messages);
        used = cpu_seconds() - begin;
    }
    print(&Passed {
        chunks,
        cpu_seconds: used,
    })
}

pub(super) fn set_ups(config: &AssociationConfig, time: Duration) -> io::Result<()> {
    #[derive(Serialize)]
    struct SetUps {
        count: usize,
        cpu_seconds: f64,
    }
    let config = Arc::new(config.clone());
    let mut memory = Memory::new(&config);
    let begin = cpu_seconds();
    let (mut count, mut used) = (0, 0.0);
    while used < time.as_secs_f64() {
        for _ in 0..MAX_COUNT / 10 {
            bulk::set_up_and_abort(&mut memory, &config);
        }
        count += MAX_COUNT / 10;
        used = cpu_seconds() - begin;
    }
    print(&SetUps {
        count,
        cpu_seconds: used,
    })
}

/// Returns the resident memory of this process in bytes.
fn resident() -> io::Result<u64> {
    let rollup = read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.and_then(|number| number.trim().parse::<u64>().ok());
    let unknown = || io::Error::other("no Rss in /proc/self/smaps_rollup");
    Ok(kibibytes.ok_or_else(unknown)? * 1024)
}

/// Each pair has two endpoints, which exist before. The allocator's overhead counts, the heap that tests/memory.rs of
/// `carrick-proto` limits is less.
pub(super) fn idle(config: &AssociationConfig, pairs: usize) -> io::Result<()> {
    #[derive(Serialize)]
    struct Idle {
        bytes_fresh: u64,
        bytes_used: u64,
    }
    let config = Arc::new(config.clone());
    let ends = 2 * pairs.max(1) as u64;
    let mut memories: Vec<Memory> = (0..pairs).map(|_| Memory::new(&config)).collect();
    let mut ids = Vec::with_capacity(pairs);
    let before = resident()?;
    for memory in &mut memories {
        ids.push(memory.connect(&config));
    }
    let fresh = resident()?;
    let message = Bytes::from(vec![7; MESSAGE]);
    for (memory, (a, b)) in memories.iter_mut().zip(ids) {
        for (end, id) in [(0, a), (1, b)] {
            let now = memory.now;
            memory.ends[end]
                .send(now, id, SendOptions::default(), message.clone())
                .map_err(|e| io::Error::other(e.to_string()))?;
            memory.exchange();
            // The SACK may be delayed.
            memory.now += Duration::from_secs(1);
            memory.ends[1 - end].handle_timeout(memory.now);
            memory.exchange();
        }
        while memory.ends[1].receive(b).is_some() || memory.ends[0].receive(a).is_some() {}
        while memory.ends[0].poll_event().is_some() || memory.ends[1].poll_event().is_some() {}
    }
    let used = resident()?;
    print(&Idle {
        bytes_fresh: fresh.saturating_sub(before) / ends,
        bytes_used: used.saturating_sub(before) / ends,
    })
}
