//! One simulation: a path failure and its consequences, or a minute without one.

use std::time::Duration;

use carrick_proto::{Endpoint, EndpointConfig, Time};

use super::setup::{LENGTH, Load, PORT, START, Variant, WATCH, World, address, millis, network};
use super::traffic::{PRIMARY, Sink, Source, log};
use crate::capture::Capture;
use crate::live::{Log, Transmission};
use crate::sctp_host::SctpHost;
use crate::seed::{derive, derive_bytes};
use crate::switch::{self, MessageTransmission, PathChangeInput};

/// State at the failure of the primary path (section 3.2 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Case {
    /// One message arrived after the last SACK that was received.
    A,
    /// The last SACK was lost, so that more than one message arrived after the last received SACK.
    B,
    /// The last SACK was received, and no message arrived after it.
    C,
}

/// Result of one path failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Failover {
    /// Case of the failure.
    pub(super) case: Case,
    /// Failover time as defined in the paper, in ms.
    pub(super) time: f64,
    /// Failover time from the first transmission of the last message that had arrived, in ms;
    /// `None` if no message had.
    pub(super) from_arrived: Option<f64>,
    /// Longest time from SEND to delivery of a message, in ms.
    pub(super) max_transfer: f64,
}

/// Result of a minute without a path failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Watched {
    /// Number of times data left the primary path.
    pub(super) false_failovers: u64,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Longest time from SEND to delivery of a message, in ms.
    pub(super) max_transfer: f64,
}

type Hosts = (SctpHost<Source>, SctpHost<Sink>);

fn hosts(
    variant: &Variant,
    load: Load,
    length: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Hosts, String> {
    let endpoint = |host: u8| {
        let seed = derive_bytes(seed, &[1, u64::from(host)]);
        let mut config = EndpointConfig::new(PORT, vec![address(host, 0), address(host, 1)], seed);
        config.association = capture.config(variant.config());
        Endpoint::new(config).map_err(|error| error.to_string())
    };
    let source = Source::new(load.burst(), length);
    let source = SctpHost::new(endpoint(0)?, source);
    Ok((
        capture.watch("messages", ["source", "destination"], source),
        SctpHost::new(endpoint(1)?, Sink::new(variant.config())),
    ))
}

fn world(
    variant: &Variant,
    load: Load,
    length: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<World, String> {
    let (source, sink) = hosts(variant, load, length, seed, capture)?;
    network(derive(seed, &[0]), load, Box::new(source), Box::new(sink))
        .map_err(|error| error.to_string())
}

/// Returns the programs of both hosts.
fn programs(world: &World) -> (&Source, &Sink) {
    let [from, to] = world.hosts;
    (
        world.net.node::<SctpHost<Source>>(from).application(),
        world.net.node::<SctpHost<Sink>>(to).application(),
    )
}

/// Runs to the end of the traffic and until all messages are delivered.
fn finish(world: &mut World, length: Duration) -> Result<(), String> {
    let end = carrick_netsim::Time::ZERO + START + length;
    world.net.run_until(end);
    for _ in 0..30 {
        let (source, sink) = programs(world);
        if let Some(failure) = source.failure.as_ref().or(sink.failure()) {
            return Err(failure.clone());
        }
        if sink.received.deliveries.len() == source.sends.len() {
            return Ok(());
        }
        world
            .net
            .run_until(world.net.now() + Duration::from_secs(1));
    }
    Err("messages were not delivered within 30 s after the last".into())
}

/// Fails the primary path at `moment` of the simulation. Returns `None` if data had left the
/// primary path before, so that the failure had no effect.
pub(super) fn broken(
    variant: &Variant,
    load: Load,
    moment: Duration,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Option<Failover>, String> {
    let mut world = world(variant, load, LENGTH, seed, capture)?;
    capture.begin(&mut world.net)?;
    let at = carrick_netsim::Time::ZERO + moment;
    world.break_primary(at).map_err(|error| error.to_string())?;
    finish(&mut world, LENGTH)?;
    capture.end(&mut world.net)?;
    let (source, sink) = programs(&world);
    let at = Time::ZERO + moment;
    let before = |moments: &[Time]| moments.iter().filter(|time| **time < at).count();
    if before(&source.left) > before(&source.returned) {
        return Ok(None);
    }
    measure(&log(source, sink), at).map(Some)
}

/// Runs a minute without a path failure.
pub(super) fn unbroken(
    variant: &Variant,
    load: Load,
    seed: u64,
    capture: Capture<'_>,
) -> Result<Watched, String> {
    let mut world = world(variant, load, WATCH, seed, capture)?;
    capture.begin(&mut world.net)?;
    finish(&mut world, WATCH)?;
    capture.end(&mut world.net)?;
    let (source, sink) = programs(&world);
    // The SACK of a single last message is delayed longer than RTO.Min: the measurement ends with
    // the traffic.
    let end = source.sends.last().copied().unwrap_or(Time::ZERO);
    let before_end = |moments: &[Time]| moments.iter().filter(|time| **time < end).count() as u64;
    let transfers = sink.received.deliveries.iter().map(|(number, time)| {
        let sent = source.sends.get(*number as usize).copied();
        sent.map_or(0.0, |sent| millis(*time - sent))
    });
    Ok(Watched {
        false_failovers: before_end(&source.left),
        timeouts: before_end(&source.timeouts),
        max_transfer: transfers.fold(0.0, f64::max),
    })
}

/// Computes the times of the paper from the logs of both hosts.
pub(super) fn measure(log: &Log<'_>, at: Time) -> Result<Failover, String> {
    let sends: Vec<u64> = log.sends.iter().map(|time| time.as_nanos()).collect();
    let sent = |t: &Transmission| MessageTransmission {
        message: t.message,
        time: t.time.as_nanos(),
        alternate: t.path != PRIMARY,
    };
    let transmissions: Vec<MessageTransmission> = log.transmissions.iter().map(sent).collect();
    let delivered = |(number, time): &(u64, Time)| (*number, time.as_nanos());
    let deliveries: Vec<(u64, u64)> = log.deliveries.iter().map(delivered).collect();
    let record = PathChangeInput {
        sends: &sends,
        transmissions: &transmissions,
        deliveries: &deliveries,
    };
    let switch = switch::measure(record, at.as_nanos())?;
    let arrived: Vec<u64> = arrived(log, Time::from_nanos(switch.again)).collect();
    let unreported = arrived.iter().filter(|number| **number >= switch.first);
    let last = arrived.iter().max();
    let first_sent = |number: u64| transmissions.iter().find(|t| t.message == number);
    let from_arrived = last.and_then(|number| first_sent(*number));
    let ms = |nanos: u64| millis(Duration::from_nanos(nanos));
    Ok(Failover {
        case: match unreported.count() {
            0 => Case::C,
            1 => Case::A,
            _ => Case::B,
        },
        time: ms(switch.time()),
        from_arrived: from_arrived.map(|sent| ms(switch.resent.saturating_sub(sent.time))),
        max_transfer: ms(switch.transfer),
    })
}

/// Returns the messages that had arrived by a time.
fn arrived(log: &Log<'_>, by: Time) -> impl Iterator<Item = u64> {
    // Each message is one chunk, so TSNs count messages.
    let first = log.transmissions.first().map(|t| t.tsn);
    let arrived = log.arrivals.iter().filter(move |(_, time)| *time < by);
    arrived.filter_map(move |(tsn, _)| first.map(|first| u64::from(tsn.since(first))))
}

#[cfg(test)]
mod tests {
    use carrick_proto::{PathId, Tsn};

    use super::super::setup::{BEST, PERIOD, VARIANTS, break_at};
    use super::*;

    fn quiet(variant: &Variant, moment: Duration) -> Failover {
        broken(variant, Load::Quiet, moment, 1, Capture::NONE)
            .expect("the run ends")
            .expect("data was on the primary")
    }

    #[test]
    fn a_captured_run_has_the_result_of_the_table() {
        let name = format!("carrick-captured-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let moment = break_at(0, 20);
        let capture = Capture::into(&directory);
        let captured = broken(&VARIANTS[0], Load::Quiet, moment, 1, capture);
        assert_eq!(captured, Ok(Some(quiet(&VARIANTS[0], moment))));
        let files = std::fs::read_dir(&directory).expect("captures");
        let sizes: Vec<u64> = files
            .map(|file| file.and_then(|f| f.metadata()).expect("a file").len())
            .collect();
        std::fs::remove_dir_all(&directory).expect("removed");
        // Each path has two interfaces of the hosts, and four of the routers, to the hosts and to
        // each other.
        assert!(sizes.len() >= 12, "{sizes:?}");
        assert!(sizes.iter().all(|size| *size > 0), "{sizes:?}");
    }

    #[test]
    fn all_three_cases_occur_within_a_period() {
        let cases: Vec<Case> = (0..20)
            .map(|k| quiet(&VARIANTS[0], break_at(k, 20)).case)
            .collect();
        let count = |case| cases.iter().filter(|c| **c == case).count();
        assert_eq!(count(Case::A), 10, "every second message: {cases:?}");
        assert!(count(Case::B) > count(Case::C), "{cases:?}");
        assert!(count(Case::C) > 0, "{cases:?}");
    }

    #[test]
    fn the_time_of_the_failure_determines_the_case() {
        let moment = break_at(3, 40);
        let first = quiet(&VARIANTS[1], moment);
        let other = broken(&VARIANTS[1], Load::Quiet, moment, 99, Capture::NONE);
        let other = other.expect("the run ends");
        assert_eq!(other, Some(first));
        assert_eq!(quiet(&VARIANTS[1], moment + PERIOD), first);
    }

    #[test]
    fn the_last_arrived_message_is_found_in_each_case() {
        let ms = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let sent = |time, message: u32, path| Transmission {
            time: ms(time),
            tsn: Tsn::new(100 + message),
            message: u64::from(message),
            path: PathId(path),
        };
        // Messages 1 to 3 are retransmitted at 1110; the number of those that had arrived
        // determines the case.
        let transmissions = [
            sent(980, 0, 0),
            sent(990, 1, 0),
            sent(1000, 2, 0),
            sent(1010, 3, 0),
            sent(1110, 1, 1),
            sent(1110, 2, 1),
            sent(1110, 3, 1),
        ];
        let arrival = |message: u32, time| (Tsn::new(100 + message), ms(time));
        let arrivals = [
            arrival(0, 1002),
            arrival(1, 1012),
            arrival(2, 1022),
            arrival(3, 1132),
        ];
        let found = [1, 2, 3].map(|count| {
            let log = Log {
                sends: &[980, 990, 1000, 1010].map(ms),
                transmissions: &transmissions,
                deliveries: &[(0, ms(1002)), (1, ms(1132)), (2, ms(1132)), (3, ms(1132))],
                arrivals: &arrivals[..count],
            };
            let failover = measure(&log, ms(999)).expect("a failover");
            assert_eq!((failover.time, failover.max_transfer), (120.0, 142.0));
            (failover.case, failover.from_arrived)
        });
        let expected = [(Case::C, 130.0), (Case::A, 120.0), (Case::B, 110.0)];
        assert_eq!(found, expected.map(|(case, time)| (case, Some(time))));
    }

    /// Failover times of a case, with the paper's stack and with the rules of RFC 9260 for queued
    /// data.
    fn times(case: Case) -> [f64; 2] {
        let moment = |variant: &Variant| {
            let mut moments = (0..20).map(|k| break_at(k, 20));
            moments.find(|at| quiet(variant, *at).case == case)
        };
        let paper = &VARIANTS[0];
        let standard = Variant {
            one_queue: false,
            ..*paper
        };
        [paper, &standard].map(|variant| {
            let moment = moment(variant).expect("the case occurs within a period");
            quiet(variant, moment).time
        })
    }

    #[test]
    fn blocked_new_data_makes_b_and_c_slower_than_a() {
        let [a, b, c] = [Case::A, Case::B, Case::C].map(times);
        assert!((a[0] - a[1]).abs() < 1e-6, "{a:?}");
        for other in [b, c] {
            // A round trip of a packet with five messages.
            assert!((other[0] - a[0] - 51.4).abs() < 0.5, "{other:?} and {a:?}");
            assert!((other[1] - a[1]).abs() < 1e-6, "{other:?} and {a:?}");
        }
    }

    #[test]
    fn no_failover_is_faster_than_its_timeouts() {
        for variant in &VARIANTS {
            let failover = quiet(variant, break_at(0, 1));
            assert!(failover.time >= variant.bound(), "{}", variant.id);
        }
    }

    #[test]
    fn the_end_of_the_traffic_causes_no_false_failover() {
        let quick = VARIANTS.iter().find(|variant| variant.id == "quick");
        let quick = quick.expect("the variant exists");
        let watched = unbroken(quick, Load::Quiet, 1, Capture::NONE).expect("the run ends");
        assert_eq!((watched.false_failovers, watched.timeouts), (0, 0));
    }

    #[test]
    fn immediate_sacks_avoid_false_failovers() {
        let watched = unbroken(&BEST, Load::Quiet, 1, Capture::NONE).expect("the run ends");
        assert_eq!((watched.false_failovers, watched.timeouts), (0, 0));
    }
}
