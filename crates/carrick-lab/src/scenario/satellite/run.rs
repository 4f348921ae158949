//! One simulation, with the history of every message.

use std::time::Duration;

use carrick_netsim::Network;
use carrick_proto::{Endpoint, EndpointConfig, Time};

use super::setup::{MESSAGE, PORT, RECEIVER, SENDER, Variant, interval, network};
use super::traffic::{Load, Sink, Source, log};
use crate::capture::Capture;
use crate::live::Log;
use crate::sctp_host::SctpHost;
use crate::seed::{derive, derive_bytes};

/// History of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MessageHistory {
    /// Time of the SEND.
    pub(super) send: Time,
    /// First transmission of its chunk.
    pub(super) first: Time,
    /// Last transmission before the chunk arrived: the one that was delivered, unless the first one
    /// was still in flight.
    pub(super) delivered_by: Time,
    /// Arrival of the chunk.
    pub(super) arrival: Time,
    /// Delivery of the message to the user.
    pub(super) delivery: Time,
    /// Number of transmissions of the chunk.
    pub(super) transmissions: u32,
}

/// Result of one simulation.
#[derive(Debug)]
pub(super) struct SimulationRun {
    /// All messages by number.
    pub(super) histories: Vec<MessageHistory>,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Shortest round-trip sample of W'.
    pub(super) shortest_round_trip: Option<Duration>,
}

type Hosts = (SctpHost<Source>, SctpHost<Sink>);

fn hosts(variant: &Variant, load: Load, seed: u64, capture: Capture<'_>) -> Result<Hosts, String> {
    let endpoint = |addresses: [_; 2], label| {
        let seed = derive_bytes(seed, &[label]);
        let mut config = EndpointConfig::new(PORT, addresses.to_vec(), seed);
        config.association = variant.config();
        Endpoint::new(config).map_err(|error| error.to_string())
    };
    let mut config = variant.config();
    if load == Load::Saturating {
        config.buffers.send_buffer = 4 * variant.window;
    }
    let source = Source::new(load, capture.config(config));
    let source = SctpHost::new(endpoint(SENDER, 1)?, source);
    Ok((
        capture.watch("messages", ["sender", "receiver"], source),
        SctpHost::new(endpoint(RECEIVER, 2)?, Sink::default()),
    ))
}

/// Sends `count` messages at the paper's rate through the lossy network.
///
/// The same seed gives the same network for every variant: packets of the same number are lost.
pub(super) fn lossy(
    variant: &Variant,
    count: u64,
    seed: u64,
    capture: Capture<'_>,
) -> Result<SimulationRun, String> {
    let (source, sink) = hosts(variant, Load::Constant(count), seed, capture)?;
    let (mut net, [a, b]) = network(derive(seed, &[0]), true, Box::new(source), Box::new(sink))
        .map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    // Twice the time of the flow at the full load.
    let flow = interval() * u32::try_from(count).unwrap_or(u32::MAX);
    let end = carrick_netsim::Time::ZERO + flow * 2 + Duration::from_secs(600);
    let slice = Duration::from_secs(10);
    while net.now() < end {
        net.run_until(net.now() + slice);
        let source = net.node::<SctpHost<Source>>(a).application();
        let sink = net.node::<SctpHost<Sink>>(b).application();
        if let Some(failure) = source.failure.as_ref().or(sink.received.failure.as_ref()) {
            return Err(failure.clone());
        }
        if sink.received.deliveries.len() as u64 >= count {
            capture.end(&mut net)?;
            let source = net.node::<SctpHost<Source>>(a).application();
            let sink = net.node::<SctpHost<Sink>>(b).application();
            return Ok(SimulationRun {
                histories: histories(&log(source, sink))?,
                timeouts: source.timeouts,
                shortest_round_trip: source.shortest_round_trip,
            });
        }
    }
    let delivered = net
        .node::<SctpHost<Sink>>(b)
        .application()
        .received
        .deliveries
        .len();
    Err(format!("{delivered} of {count} messages were delivered"))
}

/// Returns the throughput of the network in bytes per second, over `duration` after ten seconds.
pub(super) fn saturated(
    variant: &Variant,
    lossy: bool,
    duration: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<f64, String> {
    let (source, sink) = hosts(variant, Load::Saturating, seed, capture)?;
    let (mut net, [a, b]) = network(derive(seed, &[0]), lossy, Box::new(source), Box::new(sink))
        .map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    let delivered = |net: &Network| {
        let sink = net.node::<SctpHost<Sink>>(b).application();
        sink.received.deliveries.len() * MESSAGE
    };
    net.run_until(carrick_netsim::Time::from_secs(10));
    let before = delivered(&net);
    net.run_until(net.now() + duration);
    capture.end(&mut net)?;
    if let Some(failure) = &net.node::<SctpHost<Source>>(a).application().failure {
        return Err(failure.clone());
    }
    Ok((delivered(&net) - before) as f64 / duration.as_secs_f64())
}

/// Combines the records of the two hosts.
pub(super) fn histories(log: &Log<'_>) -> Result<Vec<MessageHistory>, String> {
    let count = log.sends.len();
    let first_tsn = log.transmissions.first().map(|t| t.tsn);
    let first_tsn = first_tsn.ok_or("no message was sent")?;
    // Each message is one chunk, so TSNs count messages.
    let mut arrivals = vec![None; count];
    for (tsn, time) in log.arrivals {
        if let Some(arrival) = arrivals.get_mut(tsn.since(first_tsn) as usize) {
            *arrival = Some(*time);
        }
    }
    let mut deliveries = vec![None; count];
    for (number, time) in log.deliveries {
        match deliveries.get_mut(*number as usize) {
            Some(delivery @ None) => *delivery = Some(*time),
            _ => {
                return Err(format!(
                    "message {number} was delivered twice or never sent"
                ));
            }
        }
    }
    let mut transmissions: Vec<Vec<Time>> = vec![Vec::new(); count];
    for transmission in log.transmissions {
        let number = transmission.tsn.since(first_tsn) as usize;
        if number as u64 != transmission.message {
            return Err(format!(
                "message {} has more than one chunk",
                transmission.message
            ));
        }
        if let Some(times) = transmissions.get_mut(number) {
            times.push(transmission.time);
        }
    }
    let history = |number: usize| {
        let arrival = arrivals[number]?;
        let sent = &transmissions[number];
        Some(MessageHistory {
            send: log.sends[number],
            first: *sent.first()?,
            delivered_by: *sent.iter().rev().find(|time| **time <= arrival)?,
            arrival,
            delivery: deliveries[number]?,
            transmissions: sent.len() as u32,
        })
    };
    (0..count)
        .map(|number| {
            history(number).ok_or_else(|| format!("message {number} has no complete record"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::setup::{FAR_DELAY, VARIANTS};
    use super::*;

    #[test]
    fn message_histories_are_in_order() {
        for variant in &VARIANTS {
            let run = lossy(variant, 600, 5, Capture::NONE).unwrap();
            assert_eq!(run.histories.len(), 600, "{}", variant.id);
            for history in &run.histories {
                let times = [
                    history.send,
                    history.first,
                    history.delivered_by,
                    history.arrival,
                    history.delivery,
                ];
                assert!(times.is_sorted(), "{}: {history:?}", variant.id);
                assert!(history.arrival - history.delivered_by >= Duration::from_millis(25));
            }
            assert!(
                run.histories.iter().any(|l| l.transmissions > 1),
                "{}",
                variant.id
            );
        }
    }

    #[test]
    fn sacks_on_another_path_are_not_rtt_samples() {
        for variant in &VARIANTS {
            for seed in 0..4 {
                let run = lossy(variant, 600, seed, Capture::NONE).unwrap();
                let shortest = run.shortest_round_trip;
                // With data on both paths there are always gaps, and each SACK is sent on W''.
                assert!(shortest.is_some() || variant.spills, "{}", variant.id);
                assert!(
                    shortest.is_none_or(|rtt| rtt >= FAR_DELAY * 2),
                    "{} seed {seed}: {shortest:?}",
                    variant.id
                );
            }
        }
    }
}
