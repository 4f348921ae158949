//! How exactly this machine, at this moment, emulates a link: measured from host to host with UDP.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use carrick_netsim::{IPV4_HEADER, LinkConfig, NetworkBuilder, Queue, UDP_HEADER};
use serde::Serialize;

use crate::emulator::Plan;
use crate::error::Error;
use crate::network::LiveNetwork;
use crate::scheduling::{INSTRUMENT, real_time};
use crate::standstill::{Standstills, Watch};

/// Payload of a probe in bytes.
const PROBE: usize = 1000;
/// Bytes of a probe on the link.
const PROBE_ON_LINK: usize = PROBE + UDP_HEADER + IPV4_HEADER;
/// Nothing arrives for so long: it is over.
const SILENCE: Duration = Duration::from_millis(700);
const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
const PORT: u16 = 7000;
/// Packets that wait for a link that is full.
const QUEUE: usize = 200;

/// The largest error of a delay that is wanted, and of a rate in relation to it.
const DELAY_LIMIT: Duration = Duration::from_micros(500);
const RATE_LIMIT: f64 = 0.01;
/// The share of the packets that should keep the limit.
const KEPT: f64 = 0.99;
/// The share of them that keeps it, pauses of the machine aside, on any machine where the link is right.
const RIGHT: f64 = 0.95;

/// What was measured on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Of single packets.
    pub delay: DelayErrors,
    /// Of a link that is full.
    pub rate: RateError,
    /// What the machine did meanwhile.
    pub machine: Stood,
}

/// How long the machine itself stood still while something was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stood {
    /// Seconds that it was watched.
    pub watched: f64,
    /// ms in which a core stood, of all pauses of more than 0.1 ms.
    pub total: f64,
    /// The longest of them in ms.
    pub longest: f64,
    /// Why a thread that had to be in time had no real-time priority, if one had none.
    pub ordinary: Option<String>,
}

impl Stood {
    /// In numbers.
    pub fn of(standstills: &Standstills) -> Self {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self {
            watched: standstills.watched.as_secs_f64(),
            total: ms(standstills.total()),
            longest: ms(standstills.longest()),
            ordinary: standstills.ordinary.clone(),
        }
    }
}

/// Packets that were later than wanted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Later {
    /// The limit in ms.
    pub limit: f64,
    /// Packets beyond it.
    pub packets: usize,
    /// Those of them that would have kept it but for the time in which the machine stood.
    pub while_it_stood: usize,
}

/// Measured minus configured delay, in ms: queueing, scheduling and system calls of this host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayErrors {
    /// Packets that were measured.
    pub packets: usize,
    /// Configured delay and transmission time, in ms.
    pub configured: f64,
    /// The smallest error; below zero a packet would have come early.
    pub least: f64,
    /// Median.
    pub median: f64,
    /// 99 % quantile.
    pub p99: f64,
    /// The largest error.
    pub largest: f64,
    /// Packets beyond the limit.
    pub later: Later,
    /// Those during whose way no core stood.
    pub alone: Alone,
}

/// Packets that the machine did not disturb: what makes them late is the link or the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// How many.
    pub packets: usize,
    /// The median of their errors in ms; not a number if there are none.
    pub median: f64,
    /// The 99 % quantile.
    pub p99: f64,
    /// The largest.
    pub largest: f64,
}

impl DelayErrors {
    /// Packets beyond the limit; if so wanted, without those that the machine made late.
    fn late(&self, but_for_the_machine: bool) -> f64 {
        let excused = if but_for_the_machine {
            self.later.while_it_stood
        } else {
            0
        };
        self.later.packets.saturating_sub(excused) as f64
    }

    /// Whether 99 % of the packets kept the limit; not counting those, if so wanted, that the machine made
    /// late.
    pub fn is_kept(&self, but_for_the_machine: bool) -> bool {
        let late = self.late(but_for_the_machine);
        self.packets > 0 && late <= (1.0 - KEPT) * self.packets as f64
    }

    /// Whether the link delays as it should, on a machine that may be busy: no packet was early, half of
    /// those kept the limit during whose way no core stood, and so did 95 % of all, pauses aside. What a
    /// link does wrong makes all packets late or early.
    pub fn is_right(&self) -> bool {
        let half = self.alone.median <= self.later.limit;
        let most = self.late(true) <= (1.0 - RIGHT) * self.packets as f64;
        self.least >= 0.0 && half && most
    }
}

/// The rate of a link that has more to carry than it can.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateError {
    /// Packets that were measured.
    pub packets: usize,
    /// Configured rate in bit/s.
    pub configured: f64,
    /// Measured rate in bit/s, between the first and the last packet that came while no core stood.
    pub measured: f64,
}

impl RateError {
    /// Of probes that left and came at these times on a link that is full.
    fn of(arrivals: &[(Duration, Duration)], configured: f64, stood: &Standstills) -> Self {
        // A pause of the machine at either end would be part of the span.
        let quiet = |(_, arrived): &(Duration, Duration)| {
            stood
                .within(arrived.saturating_sub(DELAY_LIMIT), *arrived)
                .is_zero()
        };
        let first = arrivals.iter().position(quiet).unwrap_or(0);
        let last = arrivals.iter().rposition(quiet);
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

    /// Measured over configured, minus 1.
    pub fn relative(&self) -> f64 {
        self.measured / self.configured - 1.0
    }

    /// Whether it is within 1 % of what is configured.
    pub fn is_kept(&self) -> bool {
        self.relative().abs() <= RATE_LIMIT
    }
}

impl Accuracy {
    /// Measures a link of this rate in bit/s and one-way delay for about `duration` each way of
    /// measuring, until `stop` is set.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it was, or if the live network can't be built.
    pub fn measure(
        rate: u64,
        delay: Duration,
        duration: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let link = LinkConfig::new(rate, delay).with_queue(Queue::packets(QUEUE));
        Self::measure_link(link, (rate, delay), duration, stop)
    }

    /// The same for any link, against the rate and the delay that are expected of it.
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
        let live = pair(link, epoch)?;
        let watch = Watch::start(epoch)?;
        let count = |duration: Duration, apart: Duration| {
            let count = duration.as_nanos() / apart.as_nanos().max(1);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        // Well apart, so that none waits for another.
        let apart = (transmission * 2).max(Duration::from_millis(5));
        let single = probe(&live, epoch, (apart, count(duration, apart)), stop)?;
        // A fifth more than the link carries.
        let apart = transmission * 5 / 6;
        let full = probe(&live, epoch, (apart, count(duration, apart)), stop)?;
        // The queue is full after a while.
        let settled = &full[full.len() / 5..];
        let stood = watch.end();
        let mut machine = Stood::of(&stood);
        let ordinary = live.emulation().ordinary().map(ToOwned::to_owned);
        machine.ordinary = ordinary.or(machine.ordinary);
        Ok(Self {
            delay: errors(&single, delay + transmission, &stood),
            machine,
            rate: RateError::of(settled, rate as f64, &stood),
        })
    }

    /// Whether the link delays as it should, as [`DelayErrors::is_right`] says, and has its rate.
    pub fn is_right(&self) -> bool {
        self.delay.is_right() && self.rate.is_kept()
    }
}

/// Two hosts with this link between them.
fn pair(link: LinkConfig, epoch: Instant) -> Result<LiveNetwork, Error> {
    // Several may measure at the same time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("accuracy-{}.{number}", std::process::id());
    LiveNetwork::start_at(&name, epoch, 1500, move || {
        let mut builder = NetworkBuilder::new(1);
        let hosts = ["sender", "receiver"].map(|name| builder.add_host(name));
        let ends = [0, 1].map(|n| builder.add_interface(hosts[n], [ADDRESSES[n].into()]));
        builder.connect_both(ends[0], ends[1], link);
        Ok(Plan::new(builder.build()?, hosts))
    })
}

/// Sends so many probes so far apart and returns when each left and came, since `epoch`.
fn probe(
    live: &LiveNetwork,
    epoch: Instant,
    (apart, count): (Duration, u32),
    stop: &Arc<AtomicBool>,
) -> Result<Vec<(Duration, Duration)>, Error> {
    let to = SocketAddr::from((ADDRESSES[1], PORT));
    let receiver = live.host("receiver")?.namespace().run(move || {
        let socket = UdpSocket::bind(to)?;
        socket.set_read_timeout(Some(SILENCE))?;
        Ok(socket)
    })?;
    let receiver = receiver.map_err(Error::system("a UDP socket"))?;
    let receiving = live.host("receiver")?.spawn(move || {
        // Without one it is the host's other work that it measures; the emulator has the same trouble and tells it.
        let _ = real_time(INSTRUMENT);
        let mut arrivals = Vec::new();
        let mut buffer = [0; PROBE];
        while let Ok(len) = receiver.recv(&mut buffer) {
            let arrived = epoch.elapsed();
            if let (PROBE, Some(sent)) = (len, buffer.first_chunk()) {
                arrivals.push((Duration::from_nanos(u64::from_be_bytes(*sent)), arrived));
            }
        }
        arrivals
    })?;
    let told = stop.clone();
    let sending = live.host("sender")?.spawn(move || {
        let _ = real_time(INSTRUMENT);
        let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        let begin = Instant::now();
        let mut buffer = [0; PROBE];
        for number in 0..count {
            let due = begin + apart * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if told.load(Ordering::Relaxed) {
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

/// Whether a packet that is too late would not have been but for the machine, which may have stood when it
/// was sent or when it was due.
fn is_excused(sent: Duration, arrived: Duration, expected: Duration, stood: &Standstills) -> bool {
    let due = sent + expected;
    let late = arrived.saturating_sub(due);
    let away = if sent + late >= due {
        stood.within(sent, arrived)
    } else {
        stood.within(sent, sent + late) + stood.within(due, arrived)
    };
    late.saturating_sub(away) <= DELAY_LIMIT
}

fn errors(
    arrivals: &[(Duration, Duration)],
    expected: Duration,
    stood: &Standstills,
) -> DelayErrors {
    let late = |(sent, arrived): &&(Duration, Duration)| *arrived > *sent + expected + DELAY_LIMIT;
    let late: Vec<_> = arrivals.iter().filter(late).collect();
    let excused =
        |(sent, arrived): &&&(Duration, Duration)| is_excused(*sent, *arrived, expected, stood);
    let later = Later {
        limit: DELAY_LIMIT.as_secs_f64() * 1e3,
        packets: late.len(),
        while_it_stood: late.iter().filter(excused).count(),
    };
    let configured = expected.as_secs_f64() * 1e3;
    let sorted = |of: &dyn Fn(Duration, Duration) -> bool| {
        let of = arrivals
            .iter()
            .filter(|(sent, arrived)| of(*sent, *arrived));
        let error = |(sent, arrived): &(Duration, Duration)| {
            arrived.saturating_sub(*sent).as_secs_f64() * 1e3 - configured
        };
        let mut errors: Vec<f64> = of.map(error).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let errors = sorted(&|_, _| true);
    let alone = sorted(&|sent, arrived| stood.within(sent, arrived).is_zero());
    DelayErrors {
        packets: errors.len(),
        configured,
        least: quantile(&errors, 0.0),
        median: quantile(&errors, 0.5),
        p99: quantile(&errors, 0.99),
        largest: quantile(&errors, 1.0),
        later,
        alone: Alone {
            packets: alone.len(),
            median: quantile(&alone, 0.5),
            p99: quantile(&alone, 0.99),
            largest: quantile(&alone, 1.0),
        },
    }
}

/// Of values in order; not a number if there are none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = (sorted.len() as f64 * q) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(place.min(last)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_what_exceeds_the_configured_delay() {
        let ms = Duration::from_millis;
        let arrivals: Vec<_> = (0..100).map(|n| (ms(n), ms(n + 20 + n % 10))).collect();
        let errors = errors(&arrivals, ms(20), &Standstills::default());
        assert_eq!(errors.packets, 100);
        assert!(errors.least.abs() < 1e-9 && (errors.largest - 9.0).abs() < 1e-9);
        assert!((errors.median - 5.0).abs() < 1e-9);
        assert_eq!(errors.later.packets, 90);
        let none = super::errors(&[], ms(1), &Standstills::default());
        assert!(
            none.median.is_nan() && !none.is_kept(true),
            "nothing was measured"
        );
    }

    #[test]
    fn packets_that_the_machine_made_late_are_told_apart() {
        let us = Duration::from_micros;
        let at = |ms: u64, late: u64| (us(ms * 1000), us(ms * 1000 + 20_000 + late));
        // It stood for 5 ms from 100 ms and from 300 ms on.
        let pauses = [100, 300].map(|ms| (us(ms * 1000), us(ms * 1000 + 5000)));
        let stood = Standstills::new(us(1_000_000), pauses.to_vec(), None);
        let arrivals = [
            at(10, 400),   // in time
            at(80, 5200),  // due when it began to stand
            at(90, 5200),  // it stood on the way only
            at(300, 5200), // it stood when it was sent
            at(301, 5200), // it stood for 4 ms of that
            at(400, 800),  // it did not stand
        ];
        let errors = errors(&arrivals, us(20_000), &stood);
        assert_eq!(errors.later.packets, 5);
        assert_eq!(errors.later.while_it_stood, 2);
        assert!(!errors.is_kept(false) && !errors.is_kept(true));
        let arrivals: Vec<_> = (0..98)
            .map(|_| at(10, 400))
            .chain([at(80, 5200); 2])
            .collect();
        let errors = super::errors(&arrivals, us(20_000), &stood);
        assert!(!errors.is_kept(false) && errors.is_kept(true));
    }

    #[test]
    fn a_wrong_link_is_not_excused_by_a_machine_that_stands() {
        let us = Duration::from_micros;
        // It stands for 1 ms of each 10, in which one packet of two is under way; all take 1 ms too long.
        let pauses = (0..100).map(|n| (us(n * 10_000), us(n * 10_000 + 1000)));
        let stood = Standstills::new(us(1_000_000), pauses.collect(), None);
        let packet = |n: u64| (us(n * 5000 + 1000), us(n * 5000 + 1000 + 4900));
        let arrivals: Vec<_> = (0..100).map(packet).collect();
        let errors = errors(&arrivals, us(3900), &stood);
        assert_eq!(errors.alone.packets, 50);
        assert!((errors.alone.median - 1.0).abs() < 1e-9, "{errors:?}");
        assert!(!errors.is_right(), "{errors:?}");
        let right = super::errors(&arrivals, us(4500), &stood);
        assert!(right.is_right(), "{right:?}");
        let early = super::errors(&arrivals, us(5000), &stood);
        assert!(early.least < 0.0 && !early.is_right());
        let never_alone = vec![(us(0), us(1_000_000))];
        let stood = Standstills::new(us(1_000_000), never_alone, None);
        assert!(!super::errors(&arrivals, us(4500), &stood).is_right());
    }

    #[test]
    fn a_pause_at_the_end_is_no_part_of_the_rate() {
        let us = Duration::from_micros;
        let rate = PROBE_ON_LINK as f64 * 8.0 * 100.0;
        let mut arrivals: Vec<_> = (0..100).map(|n| (us(0), us(n * 10_000))).collect();
        let stood = [(us(985_000), us(1_040_000))];
        let stood = Standstills::new(us(1_040_000), stood.to_vec(), None);
        // It should have come at 990 ms.
        arrivals[99].1 = us(1_040_000);
        let measured = RateError::of(&arrivals, rate, &stood);
        assert!(
            measured.is_kept() && measured.packets == 100,
            "{measured:?}"
        );
        let seen = RateError::of(&arrivals, rate, &Standstills::default());
        assert!(!seen.is_kept(), "{seen:?}");
        let none = RateError::of(&[], rate, &Standstills::default());
        assert!(!none.is_kept());
    }

    #[test]
    fn the_relative_error_of_a_rate() {
        let rate = RateError {
            packets: 9,
            configured: 1e6,
            measured: 1.01e6,
        };
        assert!((rate.relative() - 0.01).abs() < 1e-9);
    }
}
