//! TCP on W' only, with the same messages.

use std::time::Duration;

use carrick_netsim::{LinkConfig, Time};

use super::run::{MessageHistory, SimulationRun};
use super::setup::{
    FAR_DELAY, FAR_RATE, LOAD, MESSAGE, PORT, RECEIVER, SEND_BUFFER, SENDER, STANDARD, interval,
    millis, network,
};
use crate::capture::Capture;
use crate::sctp_host::core_time;
use crate::seed::derive;
use crate::tcp_host::{
    BulkSink, BulkSource, Connection, Segment, TcpApplication, TcpConfig, TcpCongestion, TcpHost,
};

/// Length of the IP and TCP headers without options.
const HEADERS: usize = 40;
/// Idle time before the first message, for the handshake.
const SETTLING: Duration = Duration::from_secs(2);

/// Returns the transmission time of one message's segment on W'.
pub(super) fn emission_time() -> Duration {
    LinkConfig::new(FAR_RATE, FAR_DELAY).transmission_time(MESSAGE + HEADERS)
}

/// Returns the published bound of a retransmitted message's delay in ms: forward delay, three
/// duplicate ACKs back, forward delay, and the messages in between.
pub(super) fn bound() -> f64 {
    const PUBLISHED_INTERVAL: f64 = 30.0;
    3.0 * millis(FAR_DELAY) + 4.0 * PUBLISHED_INTERVAL
}

fn config(end: usize, congestion: TcpCongestion, seed: u64) -> TcpConfig {
    TcpConfig {
        receive_buffer: STANDARD.window,
        nagle: false,
        congestion,
        // A message fills a segment.
        mtu: MESSAGE + HEADERS,
        ..TcpConfig::new([SENDER, RECEIVER][end][0], derive(seed, &[3, end as u64]))
    }
}

/// Sends messages at the paper's rate. SEND returns when TCP has accepted the whole message; the next
/// message follows an interval later.
struct Source {
    count: u64,
    next: Option<Time>,
    /// Bytes of all messages that TCP has accepted.
    taken: u64,
    sends: Vec<Time>,
    segments: Vec<Segment>,
}

impl TcpApplication for Source {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        if self.next.is_some_and(|at| at <= now) {
            self.next = None;
            self.sends.push(now);
        }
        let data = [0x5a; MESSAGE];
        let offered = (self.sends.len() * MESSAGE) as u64;
        if self.taken == offered {
            return;
        }
        while self.taken < offered {
            let piece = MESSAGE.min((offered - self.taken) as usize);
            let sent = connection.send(&data[..piece]);
            if sent == 0 {
                break;
            }
            self.taken += sent as u64;
        }
        if self.taken == offered && (self.sends.len() as u64) < self.count {
            self.next = Some(now + interval());
        }
    }

    fn on_segment(&mut self, segment: Segment) {
        self.segments.push(segment);
    }
}

/// Records the time at which each message is complete.
#[derive(Default)]
struct Sink {
    received: usize,
    deliveries: Vec<Time>,
}

impl TcpApplication for Sink {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let mut buffer = [0; 4 * MESSAGE];
        loop {
            let read = connection.receive(&mut buffer);
            if read == 0 {
                return;
            }
            self.received += read;
            self.deliveries.resize(self.received / MESSAGE, now);
        }
    }
}

/// Sends `count` messages at the paper's rate through the lossy network.
pub(super) fn lossy(
    count: u64,
    congestion: TcpCongestion,
    seed: u64,
    capture: Capture<'_>,
) -> Result<SimulationRun, String> {
    let source = Source {
        count,
        next: Some(Time::ZERO + SETTLING),
        taken: 0,
        sends: Vec::new(),
        segments: Vec::new(),
    };
    let sending = TcpConfig {
        send_buffer: SEND_BUFFER,
        ..config(0, congestion, seed)
    };
    let source = TcpHost::connect(sending, (RECEIVER[0], PORT), source);
    let sink = TcpHost::listen(config(1, congestion, seed), PORT, Sink::default());
    let (mut net, [a, b]) = network(derive(seed, &[0]), true, Box::new(source), Box::new(sink))
        .map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    // Ten times the time of the flow at the full load.
    let flow = Duration::from_secs(count * MESSAGE as u64 / LOAD + 60);
    while net.now() < Time::ZERO + flow * 10 {
        net.run_until(net.now() + Duration::from_secs(10));
        let sink = net.node::<TcpHost<Sink>>(b).application();
        if sink.deliveries.len() as u64 >= count {
            capture.end(&mut net)?;
            let sink = net.node::<TcpHost<Sink>>(b).application();
            let source = net.node::<TcpHost<Source>>(a).application();
            return histories(&source.sends, &source.segments, &sink.deliveries);
        }
    }
    let delivered = net.node::<TcpHost<Sink>>(b).application().deliveries.len();
    Err(format!("TCP delivered {delivered} of {count} messages"))
}

/// Combines the records of the two hosts. Data that waits for a gap in the receiver is not visible:
/// arrival counts as delivery.
pub(super) fn histories(
    sends: &[Time],
    segments: &[Segment],
    deliveries: &[Time],
) -> Result<SimulationRun, String> {
    let count = sends.len();
    let mut transmissions: Vec<Vec<Time>> = vec![Vec::new(); count];
    // Only a retransmitted segment, which may contain parts of two messages, marks them.
    let mut again = vec![0; count];
    for segment in segments {
        let first = segment.offset as usize / MESSAGE;
        let last = (segment.offset as usize + segment.len - 1) / MESSAGE;
        for message in first..=last.min(count.saturating_sub(1)) {
            transmissions[message].push(segment.time);
            again[message] += u32::from(segment.again);
        }
    }
    let history = |number: usize| {
        let delivery = *deliveries.get(number)?;
        let sent = &transmissions[number];
        let delivered_by = sent
            .iter()
            .rev()
            .find(|time| **time + FAR_DELAY <= delivery);
        Some(MessageHistory {
            send: core_time(sends[number]),
            first: core_time(*sent.first()?),
            delivered_by: core_time(*delivered_by?),
            arrival: core_time(delivery),
            delivery: core_time(delivery),
            transmissions: 1 + again[number],
        })
    };
    let histories: Option<Vec<MessageHistory>> = (0..count).map(history).collect();
    Ok(SimulationRun {
        histories: histories.ok_or("TCP: a message has no complete record")?,
        timeouts: 0,
        shortest_round_trip: None,
    })
}

/// Returns the throughput of TCP in bytes per second, over `duration` after ten seconds.
pub(super) fn saturated(
    with_loss: bool,
    duration: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<f64, String> {
    let source = TcpHost::connect(
        config(0, TcpCongestion::Reno, seed),
        (RECEIVER[0], PORT),
        BulkSource::new(u64::MAX),
    );
    let sink = TcpHost::listen(
        config(1, TcpCongestion::Reno, seed),
        PORT,
        BulkSink::default(),
    );
    let (mut net, [_, b]) = network(
        derive(seed, &[0]),
        with_loss,
        Box::new(source),
        Box::new(sink),
    )
    .map_err(|error| error.to_string())?;
    capture.begin(&mut net)?;
    net.run_until(Time::from_secs(10));
    let before = net.node::<TcpHost<BulkSink>>(b).application().received;
    net.run_until(net.now() + duration);
    capture.end(&mut net)?;
    let received = net.node::<TcpHost<BulkSink>>(b).application().received;
    Ok((received - before) as f64 / duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_matches_the_publication() {
        assert!((bound() - 870.0).abs() < 1e-9);
    }

    #[test]
    fn message_histories_are_in_order() {
        let run = lossy(600, TcpCongestion::Reno, 5, Capture::NONE).expect("the run ends");
        assert_eq!(run.histories.len(), 600);
        for history in &run.histories {
            let times = [
                history.send,
                history.first,
                history.delivered_by,
                history.arrival,
            ];
            assert!(times.is_sorted(), "{history:?}");
            assert!(history.delivery - history.delivered_by >= FAR_DELAY);
        }
        assert!(
            run.histories
                .iter()
                .any(|history| history.transmissions > 1)
        );
    }

    #[test]
    fn the_window_limits_throughput_without_loss() {
        let rate =
            saturated(false, Duration::from_secs(60), 1, Capture::NONE).expect("the run ends");
        let round_trip = 2.0 * FAR_DELAY.as_secs_f64() + emission_time().as_secs_f64();
        assert!(rate <= STANDARD.window as f64 / round_trip, "{rate}");
        assert!(rate > 0.8 * STANDARD.window as f64 / round_trip, "{rate}");
    }
}
