//! Accuracy with which this machine emulates a link at the moment, measured from host to host with UDP.

mod stalls;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use carrick_netsim::{IPV4_HEADER, LinkConfig, NetworkBuilder, Queue, UDP_HEADER};
use serde::Serialize;

use crate::error::Error;
use crate::network::{LiveNetwork, NetworkPlan};
use crate::scheduling::{PROBE, set_real_time};

pub use stalls::{StallIntervals, StallMonitor};

/// Payload of a probe, in bytes.
const PROBE_LEN: usize = 1000;
/// Length of a probe on the link, in bytes.
const PROBE_ON_LINK: usize = PROBE_LEN + UDP_HEADER + IPV4_HEADER;
/// Time without a probe after which the receiver ends.
const SILENCE: Duration = Duration::from_millis(700);
const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// Queue length of the link, in packets.
const QUEUE: usize = 200;

/// Limit for the error of a delay.
const DELAY_LIMIT: Duration = Duration::from_micros(500);
/// Limit for the relative error of a rate.
const RATE_LIMIT: f64 = 0.01;
/// Share of the packets that have to be within the limit.
const WITHIN_LIMIT: f64 = 0.99;
/// Share of the packets, without those that stalls made late, that is within the limit on any machine if
/// the link is correct.
const WITHIN_LIMIT_WITHOUT_STALLS: f64 = 0.95;

/// Accuracy measured on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkAccuracy {
    /// Errors of the delay, measured with single packets.
    pub delay: DelayErrors,
    /// Error of the rate, measured on the saturated link.
    pub rate: RateError,
    /// Stalls of the machine during the measurement.
    pub stalls: HostStalls,
}

/// Summary of the machine's stalls during a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostStalls {
    /// Length of the observation, in seconds.
    pub observed: f64,
    /// Sum of all stalls of more than 0.1 ms, in ms.
    pub total: f64,
    /// Longest stall, in ms.
    pub longest: f64,
    /// Reason why a thread that needs it had no real-time priority, if one had none.
    pub without_real_time: Option<String>,
}

impl From<&StallIntervals> for HostStalls {
    fn from(stalls: &StallIntervals) -> Self {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self {
            observed: stalls.observed.as_secs_f64(),
            total: ms(stalls.total()),
            longest: ms(stalls.longest()),
            without_real_time: stalls.without_real_time.clone(),
        }
    }
}

/// Packets that were later than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessStats {
    /// Limit, in ms.
    pub limit: f64,
    /// Number of packets beyond the limit.
    pub packets: usize,
    /// Number of these packets that would have been within the limit without the stalls of the machine.
    pub due_to_stalls: usize,
}

/// Measured minus configured delay, in ms: queueing, scheduling and system calls of this host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayErrors {
    /// Number of packets measured.
    pub packets: usize,
    /// Configured delay plus transmission time, in ms.
    pub configured: f64,
    /// Smallest error; negative if a packet was early.
    pub min: f64,
    /// Median error.
    pub median: f64,
    /// 99 % quantile of the errors.
    pub p99: f64,
    /// Largest error.
    pub max: f64,
    /// Packets beyond the limit.
    pub lateness: LatenessStats,
    /// Errors of the packets during whose transfer no core was stalled.
    pub unloaded: UnloadedError,
}

/// Errors of the packets during whose transfer no core was stalled: a large error is that of the link or
/// the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnloadedError {
    /// Number of packets.
    pub packets: usize,
    /// Median error in ms; not a number if there are no packets.
    pub median: f64,
    /// 99 % quantile, in ms.
    pub p99: f64,
    /// Largest error, in ms.
    pub max: f64,
}

impl DelayErrors {
    /// Number of packets beyond the limit, with or without those that stalls made late.
    fn late(&self, without_stalls: bool) -> f64 {
        let excluded = if without_stalls {
            self.lateness.due_to_stalls
        } else {
            0
        };
        self.lateness.packets.saturating_sub(excluded) as f64
    }

    /// Returns true if 99 % of the packets were within the limit; with `without_stalls`, packets that stalls
    /// made late do not count as late.
    pub fn is_within_limit(&self, without_stalls: bool) -> bool {
        let late = self.late(without_stalls);
        self.packets > 0 && late <= (1.0 - WITHIN_LIMIT) * self.packets as f64
    }

    /// Returns true if the link has the expected delay, judged so that load on the machine does not matter.
    ///
    /// No packet was early; of the packets during whose transfer no core was stalled, half were within the
    /// limit; and 95 % of all packets were within the limit or late because of stalls. A link with a wrong
    /// delay makes all packets early or late.
    pub fn is_correct(&self) -> bool {
        let median = self.unloaded.median <= self.lateness.limit;
        let late = self.late(true) <= (1.0 - WITHIN_LIMIT_WITHOUT_STALLS) * self.packets as f64;
        self.min >= 0.0 && median && late
    }
}

/// Rate of a saturated link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateError {
    /// Number of packets measured.
    pub packets: usize,
    /// Configured rate, in bit/s.
    pub configured: f64,
    /// Measured rate, in bit/s, between the first and the last packet that arrived without a stall.
    pub measured: f64,
}

impl RateError {
    /// Computes the rate from the times at which probes were sent and received on a saturated link.
    fn of(arrivals: &[(Duration, Duration)], configured: f64, stalls: &StallIntervals) -> Self {
        // A stall at either end would lengthen the measured interval.
        let undisturbed = |(_, arrived): &(Duration, Duration)| {
            stalls
                .within(arrived.saturating_sub(DELAY_LIMIT), *arrived)
                .is_zero()
        };
        let first = arrivals.iter().position(undisturbed).unwrap_or(0);
        let last = arrivals.iter().rposition(undisturbed);
        let last = last.unwrap_or(arrivals.len().saturating_sub(1));
        let span = match (arrivals.get(first), arrivals.get(last)) {
            (Some((_, first)), Some((_, last))) => last.saturating_sub(*first).as_secs_f64(),
            _ => 0.0,
        };
        let bits = last.saturating_sub(first) * PROBE_ON_LINK * 8;
        Self {
            packets: arrivals.len(),
            configured,
            measured: bits as f64 / span.max(1e-9),
        }
    }

    /// Relative error: measured over configured rate, minus 1.
    pub fn relative(&self) -> f64 {
        self.measured / self.configured - 1.0
    }

    /// Returns true if the measured rate is within 1 % of the configured one.
    pub fn is_within_limit(&self) -> bool {
        self.relative().abs() <= RATE_LIMIT
    }
}

impl LinkAccuracy {
    /// Measures a link with this rate in bit/s and this one-way delay: the delay for about `duration`, then
    /// the rate for about `duration`.
    ///
    /// # Errors
    /// [`Error::Stopped`] once `stop` is set; others if the live network can't be built.
    pub fn measure(
        rate: u64,
        delay: Duration,
        duration: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let link = LinkConfig::new(rate, delay).with_queue(Queue::packets(QUEUE));
        Self::measure_link(link, (rate, delay), duration, stop)
    }

    /// Measures any link against the expected rate in bit/s and the expected one-way delay.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn measure_link(
        link: LinkConfig,
        (rate, delay): (u64, Duration),
        duration: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let epoch = Instant::now();
        let transmission = LinkConfig::new(rate, delay).transmission_time(PROBE_ON_LINK);
        let live = start_pair(link, epoch)?;
        let monitor = StallMonitor::start(epoch)?;
        let count = |duration: Duration, apart: Duration| {
            let count = duration.as_nanos() / apart.as_nanos().max(1);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        // The interval is so long that no probe queues behind another.
        let apart = (transmission * 2).max(Duration::from_millis(5));
        let single = probe(&live, epoch, (apart, count(duration, apart)), stop)?;
        // 120 % of the link's rate.
        let apart = transmission * 5 / 6;
        let full = probe(&live, epoch, (apart, count(duration, apart)), stop)?;
        // The queue is full after the first fifth.
        let settled = &full[full.len() / 5..];
        let intervals = monitor.finish();
        let mut stalls = HostStalls::from(&intervals);
        let reason = live.emulation().without_real_time().map(ToOwned::to_owned);
        stalls.without_real_time = reason.or(stalls.without_real_time);
        Ok(Self {
            delay: errors(&single, delay + transmission, &intervals),
            rate: RateError::of(settled, rate as f64, &intervals),
            stalls,
        })
    }

    /// Returns true if the link has the expected delay ([`DelayErrors::is_correct`]) and rate.
    pub fn is_correct(&self) -> bool {
        self.delay.is_correct() && self.rate.is_within_limit()
    }
}

/// Starts a network of two hosts with this link between them.
fn start_pair(link: LinkConfig, epoch: Instant) -> Result<LiveNetwork, Error> {
    // Several measurements may run at the same time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("accuracy-{}.{number}", std::process::id());
    LiveNetwork::start_at(&name, epoch, 1500, move || {
        let mut builder = NetworkBuilder::new(1);
        let hosts = ["sender", "receiver"].map(|name| builder.add_host(name));
        let ends = [0, 1].map(|n| builder.add_interface(hosts[n], [ADDRESSES[n].into()]));
        builder.connect_both(ends[0], ends[1], link);
        Ok(NetworkPlan::new(builder.build()?, hosts))
    })
}

/// Sends `count` probes at intervals of `apart`; returns for each the times since `epoch` at which it was
/// sent and received.
fn probe(
    live: &LiveNetwork,
    epoch: Instant,
    (apart, count): (Duration, u32),
    stop: &Arc<AtomicBool>,
) -> Result<Vec<(Duration, Duration)>, Error> {
    let receiver = live.host("receiver")?.namespace().run(move || {
        // A port that the system chooses: a process that another thread starts has the socket of the last measurement until
        // it runs its program.
        let socket = UdpSocket::bind(SocketAddr::from((ADDRESSES[1], 0)))?;
        socket.set_read_timeout(Some(SILENCE))?;
        let to = socket.local_addr()?;
        Ok((socket, to))
    })?;
    let (receiver, to) = receiver.map_err(Error::system("binding a UDP socket"))?;
    let receiving = live.host("receiver")?.spawn(move || {
        // A failure concerns the emulator as well, which reports it.
        let _ = set_real_time(PROBE);
        let mut arrivals = Vec::new();
        let mut buffer = [0; PROBE_LEN];
        while let Ok(len) = receiver.recv(&mut buffer) {
            let arrived = epoch.elapsed();
            if let (PROBE_LEN, Some(sent)) = (len, buffer.first_chunk()) {
                arrivals.push((Duration::from_nanos(u64::from_be_bytes(*sent)), arrived));
            }
        }
        arrivals
    })?;
    let stopped = stop.clone();
    let sending = live.host("sender")?.spawn(move || {
        let _ = set_real_time(PROBE);
        let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        let begin = Instant::now();
        let mut buffer = [0; PROBE_LEN];
        for number in 0..count {
            let due = begin + apart * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let sent = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            buffer[..8].copy_from_slice(&sent.to_be_bytes());
            socket.send_to(&buffer, to)?;
        }
        Ok(())
    })?;
    let sent: std::io::Result<()> = sending
        .join()
        .map_err(|_| Error::Panicked("sender"))?
        .and_then(|sent| sent);
    sent.map_err(Error::system("sending probes"))?;
    let arrivals = receiving.join().map_err(|_| Error::Panicked("receiver"))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped);
    }
    arrivals.map_err(Error::system("receiving probes"))
}

/// Returns true if a late packet would have been within the limit without the stalls around the times at
/// which it was sent and due.
fn is_late_due_to_stalls(
    sent: Duration,
    arrived: Duration,
    expected: Duration,
    stalls: &StallIntervals,
) -> bool {
    let due = sent + expected;
    let late = arrived.saturating_sub(due);
    let stalled = if sent + late >= due {
        stalls.within(sent, arrived)
    } else {
        stalls.within(sent, sent + late) + stalls.within(due, arrived)
    };
    late.saturating_sub(stalled) <= DELAY_LIMIT
}

fn errors(
    arrivals: &[(Duration, Duration)],
    expected: Duration,
    stalls: &StallIntervals,
) -> DelayErrors {
    let late = |(sent, arrived): &&(Duration, Duration)| *arrived > *sent + expected + DELAY_LIMIT;
    let late: Vec<_> = arrivals.iter().filter(late).collect();
    let due_to_stalls = |(sent, arrived): &&&(Duration, Duration)| {
        is_late_due_to_stalls(*sent, *arrived, expected, stalls)
    };
    let lateness = LatenessStats {
        limit: DELAY_LIMIT.as_secs_f64() * 1e3,
        packets: late.len(),
        due_to_stalls: late.iter().filter(due_to_stalls).count(),
    };
    let configured = expected.as_secs_f64() * 1e3;
    let sorted = |include: &dyn Fn(Duration, Duration) -> bool| {
        let included = arrivals
            .iter()
            .filter(|(sent, arrived)| include(*sent, *arrived));
        let error = |(sent, arrived): &(Duration, Duration)| {
            arrived.saturating_sub(*sent).as_secs_f64() * 1e3 - configured
        };
        let mut errors: Vec<f64> = included.map(error).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let errors = sorted(&|_, _| true);
    let unloaded = sorted(&|sent, arrived| stalls.within(sent, arrived).is_zero());
    DelayErrors {
        packets: errors.len(),
        configured,
        min: quantile(&errors, 0.0),
        median: quantile(&errors, 0.5),
        p99: quantile(&errors, 0.99),
        max: quantile(&errors, 1.0),
        lateness,
        unloaded: UnloadedError {
            packets: unloaded.len(),
            median: quantile(&unloaded, 0.5),
            p99: quantile(&unloaded, 0.99),
            max: quantile(&unloaded, 1.0),
        },
    }
}

/// Returns a quantile of sorted values; NaN if empty.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let index = (sorted.len() as f64 * q) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(index.min(last)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_configured_delay() {
        let ms = Duration::from_millis;
        let arrivals: Vec<_> = (0..100).map(|n| (ms(n), ms(n + 20 + n % 10))).collect();
        let errors = errors(&arrivals, ms(20), &StallIntervals::default());
        assert_eq!(errors.packets, 100);
        assert!(errors.min.abs() < 1e-9 && (errors.max - 9.0).abs() < 1e-9);
        assert!((errors.median - 5.0).abs() < 1e-9);
        assert_eq!(errors.lateness.packets, 90);
        let none = super::errors(&[], ms(1), &StallIntervals::default());
        assert!(
            none.median.is_nan() && !none.is_within_limit(true),
            "nothing was measured"
        );
    }

    #[test]
    fn packets_late_due_to_stalls_are_counted() {
        let us = Duration::from_micros;
        let at = |ms: u64, late: u64| (us(ms * 1000), us(ms * 1000 + 20_000 + late));
        // Stalls of 5 ms begin at 100 ms and at 300 ms.
        let stalls = [100, 300].map(|ms| (us(ms * 1000), us(ms * 1000 + 5000)));
        let stalls = StallIntervals::new(us(1_000_000), stalls.to_vec(), None);
        let arrivals = [
            at(10, 400),   // within the limit
            at(80, 5200),  // due when the stall began
            at(90, 5200),  // stall during the transfer only
            at(300, 5200), // sent when the stall began
            at(301, 5200), // sent 1 ms after the stall began
            at(400, 800),  // no stall
        ];
        let errors = errors(&arrivals, us(20_000), &stalls);
        assert_eq!(errors.lateness.packets, 5);
        assert_eq!(errors.lateness.due_to_stalls, 2);
        assert!(!errors.is_within_limit(false) && !errors.is_within_limit(true));
        let arrivals: Vec<_> = (0..98)
            .map(|_| at(10, 400))
            .chain([at(80, 5200); 2])
            .collect();
        let errors = super::errors(&arrivals, us(20_000), &stalls);
        assert!(!errors.is_within_limit(false) && errors.is_within_limit(true));
    }

    #[test]
    fn stalls_do_not_hide_a_wrong_delay() {
        let us = Duration::from_micros;
        // A stall of 1 ms every 10 ms, during the transfer of every second packet; all packets are 1 ms late.
        let stalls = (0..100).map(|n| (us(n * 10_000), us(n * 10_000 + 1000)));
        let stalls = StallIntervals::new(us(1_000_000), stalls.collect(), None);
        let packet = |n: u64| (us(n * 5000 + 1000), us(n * 5000 + 1000 + 4900));
        let arrivals: Vec<_> = (0..100).map(packet).collect();
        let errors = errors(&arrivals, us(3900), &stalls);
        assert_eq!(errors.unloaded.packets, 50);
        assert!((errors.unloaded.median - 1.0).abs() < 1e-9, "{errors:?}");
        assert!(!errors.is_correct(), "{errors:?}");
        let correct = super::errors(&arrivals, us(4500), &stalls);
        assert!(correct.is_correct(), "{correct:?}");
        let early = super::errors(&arrivals, us(5000), &stalls);
        assert!(early.min < 0.0 && !early.is_correct());
        let always = vec![(us(0), us(1_000_000))];
        let stalls = StallIntervals::new(us(1_000_000), always, None);
        assert!(!super::errors(&arrivals, us(4500), &stalls).is_correct());
    }

    #[test]
    fn a_stall_at_the_end_does_not_change_the_rate() {
        let us = Duration::from_micros;
        let rate = PROBE_ON_LINK as f64 * 8.0 * 100.0;
        let mut arrivals: Vec<_> = (0..100).map(|n| (us(0), us(n * 10_000))).collect();
        let stalls = [(us(985_000), us(1_040_000))];
        let stalls = StallIntervals::new(us(1_040_000), stalls.to_vec(), None);
        // This packet was due at 990 ms.
        arrivals[99].1 = us(1_040_000);
        let measured = RateError::of(&arrivals, rate, &stalls);
        assert!(
            measured.is_within_limit() && measured.packets == 100,
            "{measured:?}"
        );
        let disturbed = RateError::of(&arrivals, rate, &StallIntervals::default());
        assert!(!disturbed.is_within_limit(), "{disturbed:?}");
        let none = RateError::of(&[], rate, &StallIntervals::default());
        assert!(!none.is_within_limit());
    }

    #[test]
    fn relative_error_of_a_rate() {
        let rate = RateError {
            packets: 9,
            configured: 1e6,
            measured: 1.01e6,
        };
        assert!((rate.relative() - 0.01).abs() < 1e-9);
    }
}
