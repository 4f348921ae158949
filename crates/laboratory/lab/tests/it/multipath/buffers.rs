//! Send and receive buffers shared or split between paths.

use carrick_netsim::Time;
use carrick_proto::PathId;
use carrick_proto::research::{BufferSplitting, DataRoute, Policies, SplitBasis};

use super::support::{Path, Transfer, concurrent};

/// A fast path, and one with ten times its delay.
const FAST: Path = Path::new(10, 10);
const SLOW: Path = Path {
    queue: 1000,
    ..Path::new(10, 100)
};

struct Case {
    splitting: BufferSplitting,
    basis: SplitBasis,
    unordered: bool,
    receive: usize,
    send: usize,
    fastest_first: bool,
}

fn measure(case: &Case) -> (f64, f64) {
    let mut policies = concurrent(Policies::default());
    policies.multipath.buffer_splitting = case.splitting;
    policies.multipath.split_basis = case.basis;
    policies.multipath.data_route = if case.fastest_first {
        DataRoute::FastestFirst
    } else {
        DataRoute::RoundRobin
    };
    let mut transfer = Transfer::new(policies, &[FAST, SLOW]);
    transfer.unordered = case.unordered;
    transfer.config.buffers.receive_buffer = case.receive;
    transfer.config.buffers.send_buffer = case.send;
    let outcome = transfer.measure(10, 40);
    let fast = outcome.paths[0].data_chunks_sent as f64;
    let all: u64 = outcome.paths.iter().map(|p| p.data_chunks_sent).sum();
    (outcome.mbits, fast / all as f64)
}

const LARGE: usize = 16 << 20;

#[test]
fn splitting_protects_the_window_of_a_fast_path() {
    let case = |splitting, fastest_first| Case {
        splitting,
        basis: SplitBasis::Outstanding,
        unordered: true,
        receive: 60_000,
        send: LARGE,
        fastest_first,
    };
    let (shared, of_fast) = measure(&case(BufferSplitting::None, false));
    let (split, of_fast_split) = measure(&case(BufferSplitting::Receiver, false));
    let (first, _) = measure(&case(BufferSplitting::None, true));
    println!(
        "60 kB at the peer, unordered: {shared:.2} Mbit/s ({of_fast:.2} on the fast path), split \
         {split:.2} Mbit/s ({of_fast_split:.2}), fastest first {first:.2} Mbit/s"
    );
    assert!(split > 1.5 * shared, "{split} {shared}");
    assert!(of_fast_split > of_fast);
}

/// The send buffer holds data until it is acknowledged cumulatively, whether it is split or not, so
/// that the throughput is that of the window over the slow round trip; splitting limits the part of
/// the slow path.
#[test]
fn splitting_limits_the_send_buffer_of_a_slow_path() {
    const BUFFER: usize = 300_000;
    let fast = Path { queue: 20, ..FAST };
    let most_on_slow_path = |splitting, basis| {
        let mut policies = concurrent(Policies::default());
        policies.multipath.buffer_splitting = splitting;
        policies.multipath.split_basis = basis;
        let mut transfer = Transfer::new(policies, &[fast, SLOW]);
        transfer.unordered = true;
        transfer.config.buffers.send_buffer = BUFFER;
        let mut world = transfer.build();
        let sample = |n: u64| {
            world.net.run_until(Time::from_millis(10_000 + 7 * n));
            world.path(PathId(1)).flight_size
        };
        (0..1000).map(sample).max().unwrap_or(0)
    };
    for basis in [SplitBasis::Outstanding, SplitBasis::Buffered] {
        let shared = most_on_slow_path(BufferSplitting::None, basis);
        let split = most_on_slow_path(BufferSplitting::Sender, basis);
        println!("{basis:?}: {shared} bytes in flight on the slow path, split {split}");
        assert!(shared > BUFFER * 6 / 10, "{shared}");
        assert!(split <= BUFFER / 2 + 2 * 1468, "{split}");
    }
}

#[test]
fn splitting_large_buffers_keeps_the_throughput() {
    for splitting in [
        BufferSplitting::None,
        BufferSplitting::Sender,
        BufferSplitting::Receiver,
        BufferSplitting::Both,
    ] {
        let (mbits, _) = measure(&Case {
            splitting,
            basis: SplitBasis::Buffered,
            unordered: false,
            receive: 4 << 20,
            send: 4 << 20,
            fastest_first: false,
        });
        assert!(mbits > 19.0, "{splitting:?}: {mbits}");
    }
}
