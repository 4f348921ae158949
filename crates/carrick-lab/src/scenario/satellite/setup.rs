//! Network and traffic of the paper, and settings of the variants.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::{ConfigError, LinkConfig, Loss, Network, NetworkBuilder, Node, NodeId, Queue};
use carrick_proto::AssociationConfig;
use carrick_proto::cc::{Algorithm, Cubic, Rfc9260};
use carrick_proto::research::{
    GapAckCount, LowestRttForGapSacks, Multipath, Policies, PrimaryFirst, ReducedPath,
    RetransmitOnAlternate, SackRoute, SackToSource, WindowAnnouncement,
};

use crate::live::World;

/// Bytes in a kilobyte. The paper's transmission time of 63 ms on W'' is that of 1024 bytes at 128 · 1024
/// bit/s.
pub(super) const KBYTE: usize = 1024;
/// User data of a message in bytes.
pub(super) const MESSAGE: usize = KBYTE;
/// Offered load in bytes per second.
pub(super) const LOAD: u64 = 30 * KBYTE as u64;
/// Length of the IP, SCTP common and DATA chunk headers of a message.
const HEADERS: usize = 20 + 12 + 16;
/// Random loss on W', in each direction.
pub(super) const LOSS: f64 = 0.01;
/// Default queue of a Dummynet pipe, in packets.
pub(super) const QUEUE: usize = 50;
/// Send buffer in bytes, of SCTP and of TCP: SEND waits while it has no room for the message. The paper
/// specifies none; at its load, this power of two is the smallest that does not limit a flow that waits
/// for no congestion window.
pub(super) const SEND_BUFFER: usize = 32 * KBYTE;
/// SCTP port of both hosts.
pub(super) const PORT: u16 = 5001;

/// Rate of W' in bit/s.
pub(super) const FAR_RATE: u64 = 1_536_000;
/// One-way delay of W'.
pub(super) const FAR_DELAY: Duration = Duration::from_millis(250);
/// Rate of W'' in bit/s.
pub(super) const NEAR_RATE: u64 = 128_000;
/// One-way delay of W''.
pub(super) const NEAR_DELAY: Duration = Duration::from_millis(25);

/// Addresses of the sender on W' and W''.
pub(super) const SENDER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)),
];
/// Addresses of the receiver on W' and W''.
pub(super) const RECEIVER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)),
    IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2)),
];

/// Returns the time between two SEND calls.
pub(super) fn interval() -> Duration {
    Duration::from_nanos(MESSAGE as u64 * 1_000_000_000 / LOAD)
}

fn far(lossy: bool) -> LinkConfig {
    let loss = if lossy {
        Loss::Random(LOSS)
    } else {
        Loss::None
    };
    LinkConfig::new(FAR_RATE, FAR_DELAY)
        .with_queue(Queue::packets(QUEUE))
        .with_loss(loss)
}

fn near() -> LinkConfig {
    LinkConfig::new(NEAR_RATE, NEAR_DELAY).with_queue(Queue::packets(QUEUE))
}

/// Returns the transmission time of one message's packet on W' and on W''.
pub(super) fn emission_times() -> [Duration; 2] {
    [far(false), near()].map(|link| link.transmission_time(MESSAGE + HEADERS))
}

/// Builds the two hosts on the two paths, with their programs.
pub(super) fn network(
    seed: u64,
    lossy: bool,
    sender: Box<dyn Node>,
    receiver: Box<dyn Node>,
) -> Result<(Network, [NodeId; 2]), ConfigError> {
    let (mut builder, hosts) = paths(seed, lossy);
    builder.set_node_program(hosts[0], sender);
    builder.set_node_program(hosts[1], receiver);
    Ok((builder.build()?, hosts))
}

/// Builds the lossy network for a live run.
pub(super) fn live_world(seed: u64) -> Result<World, ConfigError> {
    let (builder, hosts) = paths(seed, true);
    Ok(World {
        network: builder.build()?,
        hosts: vec![hosts],
        changes: Vec::new(),
    })
}

fn paths(seed: u64, lossy: bool) -> (NetworkBuilder, [NodeId; 2]) {
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["sender", "receiver"].map(|name| builder.add_host(name));
    for (path, link) in [far(lossy), near()].into_iter().enumerate() {
        let ends = [SENDER[path], RECEIVER[path]];
        let from = builder.add_interface(hosts[0], [ends[0]]);
        let to = builder.add_interface(hosts[1], [ends[1]]);
        builder.connect_both(from, to, link);
    }
    (builder, hosts)
}

/// Settings of the stack.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// First part of the identifiers of its rows.
    pub(super) id: &'static str,
    /// Label.
    pub(super) label: &'static str,
    /// Missing reports before fast retransmit.
    pub(super) missing_reports: u8,
    /// Destination of SACKs.
    pub(super) sack_route: &'static dyn SackRoute,
    /// SACK frequency: packets per SACK.
    pub(super) sack_frequency: u32,
    /// Receive window in bytes.
    pub(super) window: usize,
    /// Congestion control of each path.
    pub(super) congestion: &'static dyn Algorithm,
    /// Congestion window rules of the paper's implementation at a fast retransmission, instead of those
    /// of RFC 9260.
    pub(super) sctplib: bool,
    /// Uses the default settings of programs, which include RACK, instead of those of the paper's
    /// time.
    pub(super) modern: bool,
    /// Sends new data that exceeds the window of W' on W''.
    pub(super) spills: bool,
}

/// Receive window of the paper, which gives only the resulting throughput, 52 KByte/s without errors.
/// Among whole kilobytes, this one comes closest to it: silly window avoidance delays the last messages
/// of a window.
const PAPER_WINDOW: usize = 29 * KBYTE;

/// The paper's implementation, sctplib: RFC 2960 with its own window rules at a fast retransmission.
pub(super) const STANDARD: Variant = Variant {
    id: "standard",
    label: "SCTP",
    missing_reports: 4,
    sack_route: &SackToSource,
    sack_frequency: 2,
    window: PAPER_WINDOW,
    congestion: &Rfc9260,
    sctplib: true,
    modern: false,
    spills: false,
};

/// The paper's modification: SACKs with gap reports on W''.
pub(super) const MODIFIED: Variant = Variant {
    id: "modified",
    label: "SCTP, gap reports on W″",
    sack_route: &LowestRttForGapSacks,
    ..STANDARD
};

/// First step to the best settings: RFC 9260's three missing reports, a SACK for every packet, gap
/// reports and retransmissions on the faster path, and a window that never limits. It conforms to
/// RFC 9260 except for two "SHOULD" of section 6.4, from which the paper deviates for a reason that
/// this network shows: fast retransmissions on the path of the original, and all SACKs to one
/// address.
pub(super) const ONE_PATH: Variant = Variant {
    id: "step-rfc9260",
    label: "step to best: RFC 9260, new data on W′ only",
    missing_reports: 3,
    sack_route: &LowestRttForGapSacks,
    sack_frequency: 1,
    window: 1 << 20,
    ..RFC
};

/// Second step: the default settings of programs, RACK-TLP, PRR and CUBIC.
pub(super) const ONE_PATH_MODERN: Variant = Variant {
    id: "step-modern",
    label: "step to best: RACK, PRR and CUBIC, new data on W′ only",
    congestion: &Cubic,
    modern: true,
    ..ONE_PATH
};

/// Third step: data that exceeds the window of W' is sent on W''.
pub(super) const SPILLING_CUBIC: Variant = Variant {
    id: "step-spill",
    label: "step to best: the same, the rest on W″",
    spills: true,
    ..ONE_PATH_MODERN
};

/// Best settings: the third step with RFC 9260's windows, which keep more data on W' and the queue
/// of W'' short.
pub(super) const BEST: Variant = Variant {
    id: "best",
    label: "best settings",
    congestion: &Rfc9260,
    ..SPILLING_CUBIC
};

/// `STANDARD` with the window rules of RFC 9260: each loss halves the window of W'.
pub(super) const RFC: Variant = Variant {
    id: "rfc",
    label: "SCTP by RFC 9260",
    sctplib: false,
    ..STANDARD
};

/// The same for `MODIFIED`.
pub(super) const RFC_MODIFIED: Variant = Variant {
    id: "rfc-modified",
    label: "SCTP by RFC 9260, gap reports on W″",
    sctplib: false,
    ..MODIFIED
};

/// All variants.
pub(super) const VARIANTS: [Variant; 8] = [
    STANDARD,
    MODIFIED,
    BEST,
    RFC,
    RFC_MODIFIED,
    ONE_PATH,
    ONE_PATH_MODERN,
    SPILLING_CUBIC,
];
/// Number of variants before the steps.
pub(super) const DRAWN: usize = 5;

impl Variant {
    /// Returns the parameters of the association, the same at both ends.
    pub(super) fn config(&self) -> AssociationConfig {
        let (base, policies) = if self.modern {
            (AssociationConfig::modern(), Policies::modern())
        } else {
            let policies = Policies {
                // As in stacks of the paper's time: its throughput indicates the whole buffer.
                window_announcement: WindowAnnouncement::True,
                ..Policies::default()
            };
            (AssociationConfig::rfc9260(), policies)
        };
        let multipath = if self.spills {
            Multipath {
                data_route: &PrimaryFirst,
                ..Multipath::concurrent()
            }
        } else {
            policies.multipath
        };
        let (reduced_path, gap_ack_count) = if self.sctplib {
            (ReducedPath::OfSack, GapAckCount::EverySack)
        } else {
            (policies.reduced_path, policies.gap_ack_count)
        };
        base.with(|c| {
            c.buffers.receive_buffer = self.window;
            c.timers.sack_frequency = self.sack_frequency;
            // A message fills a packet; with Nagle's algorithm each would wait for the next.
            c.transmission.nagle = false;
            c.buffers.send_buffer = SEND_BUFFER;
            c.buffers.max_send_buffer = None;
            c.research.trace = true;
            c.research.policies = Policies {
                missing_reports: self.missing_reports,
                retransmission_route: &RetransmitOnAlternate,
                sack_route: self.sack_route,
                congestion: self.congestion,
                reduced_path,
                gap_ack_count,
                multipath,
                ..policies
            };
        })
    }

    /// Returns whether SACKs with gap reports are sent on W''.
    pub(super) fn reports_on_near_path(&self) -> bool {
        self.sack_route.name() == LowestRttForGapSacks.name()
    }
}

/// Lower bound of the delay of a retransmitted message, by parts, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Time until the retransmission: forward delay, gap report back, and the messages in between.
    pub(super) detection: f64,
    /// Transmission and delay on W''.
    pub(super) transfer: f64,
}

impl Bound {
    /// Computes equations (2) and (3) of the paper for a variant, given the time between messages
    /// and the transmission time on W'' in ms.
    pub(super) fn of(variant: &Variant, interval: f64, emission: f64) -> Self {
        let [far, near] = [FAR_DELAY, NEAR_DELAY].map(millis);
        let back = if variant.reports_on_near_path() {
            near
        } else {
            far
        };
        Self {
            detection: far + back + f64::from(variant.missing_reports) * interval,
            transfer: near + emission,
        }
    }

    /// Computes the bound with the values that the published bounds fit: Δt = 30 ms and a
    /// transmission time of 63 ms.
    pub(super) fn published(variant: &Variant) -> Self {
        Self::of(variant, 30.0, 63.0)
    }

    /// Computes the bound with the values of this network.
    pub(super) fn own(variant: &Variant) -> Self {
        Self::of(variant, millis(interval()), millis(emission_times()[1]))
    }

    /// Computes the bound with a single report, the lower bound of any loss detection.
    pub(super) fn with_one_report(variant: &Variant) -> Self {
        let one = Variant {
            missing_reports: 1,
            ..*variant
        };
        Self::own(&one)
    }

    /// Returns the sum.
    pub(super) fn total(&self) -> f64 {
        self.detection + self.transfer
    }
}

/// Converts bytes to kilobytes of 1024 bytes.
pub(super) fn kbytes(bytes: f64) -> f64 {
    bytes / KBYTE as f64
}

/// Converts a duration to ms.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use carrick_proto::research::LossDetection;

    use super::*;

    #[test]
    fn the_bounds_match_the_publication() {
        assert!((Bound::published(&STANDARD).total() - 708.0).abs() < 1e-9);
        assert!((Bound::published(&MODIFIED).total() - 483.0).abs() < 1e-9);
    }

    #[test]
    fn settings_are_valid_and_differ_as_stated() {
        for variant in VARIANTS {
            assert_eq!(variant.config().validate(), Ok(()));
        }
        let names = VARIANTS.map(|v| v.config().research.policies.sack_route.name());
        assert_eq!(names[1], names[2]);
        assert_ne!(names[0], names[1]);
        let best = BEST.config().research.policies;
        assert_eq!(best.loss_detection, LossDetection::Rack);
        assert!(best.multipath.data_route.concurrent());
        let others = VARIANTS.iter().filter(|v| !v.spills);
        for variant in others {
            let multipath = variant.config().research.policies.multipath;
            assert!(!multipath.data_route.concurrent(), "{}", variant.id);
        }
    }

    #[test]
    fn messages_take_67_ms_on_the_terrestrial_path() {
        assert_eq!(emission_times()[1], Duration::from_micros(67_000));
        assert_eq!(interval().as_micros(), 33_333);
    }
}
