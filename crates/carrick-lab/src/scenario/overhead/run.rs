//! Simulations: two flows on one link, a slow reader, and a receiver that reads nothing.

use std::time::Duration;

use carrick_netsim::{Direction, Network, NodeId, Random, Time};
use carrick_proto::{AssociationConfig, AssociationStats, Endpoint, EndpointConfig};

use super::setup::{
    FULL, FULL_FOR_LONG, FlowControlSetting, Lengths, PORT, READING, Sharing, WINDOW, end_address,
    network,
};
use super::traffic::{Pace, Reader, Source};
use crate::capture::Capture;
use crate::sctp_host::SctpHost;
use crate::seed::{derive, derive_bytes};
use crate::stats::jain;

/// Shares of two flows, the one of small messages first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shares {
    /// Bit/s on the shared link, including headers and retransmissions.
    pub(super) network: [f64; 2],
    /// Bit/s for the applications.
    pub(super) application: [f64; 2],
}

impl Shares {
    /// Returns Jain's index of the link usage.
    pub(super) fn jain(&self) -> f64 {
        jain(&self.network).unwrap_or(0.0)
    }
}

fn endpoint(
    flow: usize,
    end: usize,
    config: &AssociationConfig,
    seed: u64,
) -> Result<Endpoint, String> {
    let seed = derive_bytes(seed, &[1, flow as u64, end as u64]);
    let mut own = EndpointConfig::new(PORT, vec![end_address(flow, end)], seed);
    own.association = config.clone();
    Endpoint::new(own).map_err(|error| error.to_string())
}

fn reader(net: &Network, node: NodeId) -> &Reader {
    net.node::<SctpHost<Reader>>(node).application()
}

fn receiver_stats(net: &Network, node: NodeId) -> Result<AssociationStats, String> {
    let receiver = net.node::<SctpHost<Reader>>(node).endpoint();
    let id = receiver.associations().next();
    let stats = id.and_then(|id| receiver.association_stats(id));
    stats.ok_or_else(|| "the receiver's association is gone".into())
}

fn check(net: &Network, nodes: &[[NodeId; 2]]) -> Result<(), String> {
    for [sender, _] in nodes {
        if let Some(failure) = &net.node::<SctpHost<Source>>(*sender).application().failure {
            return Err(failure.clone());
        }
    }
    Ok(())
}

/// Runs messages of `size` bytes and full packets on one link, and measures after a settling time.
pub(super) fn shared(
    size: usize,
    sharing: &Sharing,
    lengths: Lengths,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Shares, String> {
    let span = (lengths.settled, lengths.measured);
    shared_from(size, sharing, span, seed, capture)
}

/// The two flows on one link, with the names of their ends.
const FLOWS: [(&str, [&str; 2]); 2] = [
    ("messages", ["sender-0", "receiver-0"]),
    ("full-packets", ["sender-1", "receiver-1"]),
];

/// Returns the start times of the two flows.
pub(super) fn starts(seed: u64) -> [Duration; 2] {
    let mut random = Random::new(derive(seed, &[2]), 0);
    [(); 2].map(|()| random.duration_up_to(Duration::from_secs(1)))
}

/// Runs the flows of [`shared`] with the given start and duration of the measurement.
pub(super) fn shared_from(
    size: usize,
    sharing: &Sharing,
    (settled, duration): (Duration, Duration),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Shares, String> {
    let starts = starts(seed);
    let mut flows: Vec<[Box<dyn carrick_netsim::Node>; 2]> = Vec::new();
    for (flow, size) in [size, FULL].into_iter().enumerate() {
        let start = starts[flow];
        let config = capture.config(sharing.settings[flow].config());
        let source = Source::new(end_address(flow, 1), config.clone(), size, start);
        let sender = SctpHost::new(endpoint(flow, 0, &config, seed)?, source);
        let (name, ends) = FLOWS[flow];
        let sender = capture.watch(name, ends, sender);
        let sink = Reader::new(Pace::Fast);
        let receiver = SctpHost::new(endpoint(flow, 1, &config, seed)?, sink);
        flows.push([
            Box::new(sender.with_flow(flow as u32 + 1)),
            Box::new(receiver.with_flow(flow as u32 + 1)),
        ]);
    }
    let (mut net, nodes, link) =
        network(derive(seed, &[0]), sharing.jitter, flows).map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    let counts = |net: &Network| {
        let stats = net.link_stats(link, Direction::Forward);
        let network = [1, 2].map(|flow| stats.flows.find(flow).map_or(0, |f| f.bytes_delivered));
        (
            network,
            [0, 1].map(|flow: usize| reader(net, nodes[flow][1]).bytes),
        )
    };
    net.run_until(Time::ZERO + settled);
    let before = counts(&net);
    net.run_until(net.now() + duration);
    let after = counts(&net);
    capture.end(&mut net)?;
    check(&net, &nodes)?;
    let rate = |before: u64, after: u64| (after - before) as f64 * 8.0 / duration.as_secs_f64();
    Ok(Shares {
        network: [0, 1].map(|flow: usize| rate(before.0[flow], after.0[flow])),
        application: [0, 1].map(|flow: usize| rate(before.1[flow], after.1[flow])),
    })
}

/// Result of a slow reader's sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Bytes of messages sent, including retransmissions, relative to bytes read.
    pub(super) ratio: f64,
    /// Chunks that the receiver dropped for lack of memory during the measurement.
    pub(super) dropped: u64,
}

/// Returns the mean interval of a slow reader's messages, and its random numbers.
pub(super) fn reading(size: usize, seed: u64) -> (Duration, Random) {
    let mean = Duration::from_secs_f64(size as f64 / READING);
    (mean, Random::new(derive(seed, &[3]), 0))
}

/// Runs messages of `size` bytes to a slow reader.
pub(super) fn slow(
    flow: &FlowControlSetting,
    size: usize,
    lengths: Lengths,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Load, String> {
    slow_from(flow, size, (FULL_FOR_LONG, lengths.watched), seed, capture)
}

/// Runs the flow of [`slow`] with the given start and duration of the measurement.
pub(super) fn slow_from(
    flow: &FlowControlSetting,
    size: usize,
    (settled, watched): (Duration, Duration),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Load, String> {
    let config = capture.config(flow.config());
    let (mean, random) = reading(size, seed);
    let (mut net, nodes) = single(
        &config,
        size,
        u64::MAX,
        Pace::Slow(mean, Box::new(random)),
        seed,
        capture,
    )?;
    capture.begin(&mut net)?;
    let counts = |net: &Network| {
        let sent = net.node::<SctpHost<Source>>(nodes[0][0]).endpoint();
        let sent = sent
            .associations()
            .next()
            .and_then(|id| sent.association_stats(id));
        let transmitted = sent.map_or(0, |s| {
            let c = s.counters;
            c.data_chunks_sent + c.timeout_retransmissions + c.fast_retransmissions
        });
        let dropped = receiver_stats(net, nodes[0][1]).map(|s| s.counters.dropped_for_buffer);
        (transmitted, reader(net, nodes[0][1]).messages, dropped)
    };
    // Until the buffer has been full for some time.
    net.run_until(Time::ZERO + settled);
    let before = counts(&net);
    net.run_until(net.now() + watched);
    let after = counts(&net);
    capture.end(&mut net)?;
    check(&net, &nodes)?;
    let dropped = after.2? - before.2?;
    if after.1 == before.1 {
        return Err("no data was read".into());
    }
    Ok(Load {
        ratio: (after.0 - before.0) as f64 / (after.1 - before.1) as f64,
        dropped,
    })
}

/// Returns the number of messages of `size` bytes accepted without a reader.
pub(super) fn accepted(
    flow: &FlowControlSetting,
    size: usize,
    seed: u64,
    capture: Capture<'_>,
) -> Result<u64, String> {
    let config = capture.config(flow.config());
    let messages = 2 * WINDOW as u64;
    let (mut net, nodes) = single(&config, size, messages, Pace::Never, seed, capture)?;
    capture.begin(&mut net)?;
    net.run_until(Time::ZERO + FULL_FOR_LONG);
    capture.end(&mut net)?;
    check(&net, &nodes)?;
    let stats = receiver_stats(&net, nodes[0][1])?;
    Ok(stats.receivable_messages as u64)
}

fn single(
    config: &AssociationConfig,
    size: usize,
    messages: u64,
    pace: Pace,
    seed: u64,
    capture: Capture<'_>,
) -> Result<(Network, Vec<[NodeId; 2]>), String> {
    let source = Source::new(end_address(0, 1), config.clone(), size, Duration::ZERO);
    let sender = SctpHost::new(endpoint(0, 0, config, seed)?, source.limited(messages));
    let sender = capture.watch(FLOWS[0].0, FLOWS[0].1, sender);
    let receiver = SctpHost::new(endpoint(0, 1, config, seed)?, Reader::new(pace));
    let programs: [Box<dyn carrick_netsim::Node>; 2] = [Box::new(sender), Box::new(receiver)];
    let (net, nodes, _) = network(derive(seed, &[0]), Duration::ZERO, vec![programs])
        .map_err(|error| error.to_string())?;
    Ok((net, nodes))
}

#[cfg(test)]
mod tests {
    use super::super::setup::{BRIEF, LONG, SHARINGS, flows};
    use super::*;

    fn flow(id: &str) -> FlowControlSetting {
        flows()
            .into_iter()
            .find(|flow| flow.id == id)
            .expect("a known flow")
    }

    #[test]
    fn the_two_flows_fill_the_link() {
        let shares = shared(100, &SHARINGS[0], BRIEF, 1, Capture::NONE).expect("the run ends");
        let sum: f64 = shares.network.iter().sum();
        assert!((0.98..=1.01).contains(&(sum / 1e6)), "{shares:?}");
        assert!(shares.application[0] < shares.network[0]);
    }

    #[test]
    fn memory_not_shown_causes_useless_transmissions() {
        let load = slow(&flow("extra250"), 200, LONG, 1, Capture::NONE).expect("the run ends");
        assert!(load.ratio > 1.5 && load.dropped > 0, "{load:?}");
    }

    #[test]
    fn the_defaults_send_everything_once() {
        for size in [50, 1000] {
            for id in ["best", "best-as-it-is"] {
                let load = slow(&flow(id), size, LONG, 1, Capture::NONE).expect("the run ends");
                assert_eq!(load.dropped, 0, "{id} {size}");
                assert!((load.ratio - 1.0).abs() < 0.005, "{id} {size}: {load:?}");
            }
        }
    }

    #[test]
    fn accepted_messages_are_limited_by_memory() {
        for size in [100, 1000] {
            let best = flow("best");
            let taken = accepted(&best, size, 1, Capture::NONE).expect("the run ends");
            let fits = (WINDOW / (size + best.extra)) as u64;
            assert!(
                (fits..=fits + 1).contains(&taken),
                "{size}: {taken} of {fits}"
            );
        }
    }
}
