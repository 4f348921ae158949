//! Network and settings of the paper, and settings compared with them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::traffic::{Pattern, Source as Background, Spread, Stream};
use carrick_netsim::{
    Change, ConfigError, Direction, LinkConfig, LinkId, Loss, Network, NetworkBuilder, Node,
    NodeId, Queue, Time,
};
use carrick_proto::AssociationConfig;
use carrick_proto::research::{
    AddressVerification, AfterTimeout, BundledDuplicates, MarkedData, Policies, RetransmitInTurn,
};

use crate::live;

/// User data of a message in bytes.
pub(super) const MESSAGE: usize = 250;
/// Time between two messages.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);
/// Rate of each path in bit/s.
pub(super) const RATE: u64 = 1_000_000;
/// One-way delay of each path.
pub(super) const DELAY: Duration = Duration::from_millis(20);
/// Capacity of each router's queue in packets.
pub(super) const QUEUE: usize = 6;
/// SCTP port of both hosts.
pub(super) const PORT: u16 = 5001;
/// Start of the messages; the association is established by then.
pub(super) const START: Duration = Duration::from_secs(1);
/// Duration of the traffic before the failure, and in total.
pub(super) const BREAK: Duration = Duration::from_secs(8);
pub(super) const LENGTH: Duration = Duration::from_secs(20);
/// Duration of the traffic in a run without a failure, for false failovers.
pub(super) const WATCH: Duration = Duration::from_secs(60);
/// Period of the paper's pattern: two messages and a SACK.
pub(super) const PERIOD: Duration = Duration::from_millis(20);
/// Time between the failures of the two directions. A Dummynet link consists of two pipes, which
/// are reconfigured one after the other. 20 of the 81 published runs whose last two messages arrived
/// are of case C, in which the SACK was received: with a period of 20 ms and a SACK 12.4 ms after its
/// start, that proportion results from this time.
pub(super) const SECOND_PIPE: Duration = Duration::from_millis(15);
/// Published values of Path.Max.Retrans.
pub(super) const PATH_MAX_RETRANS: [u32; 4] = [2, 3, 4, 5];
/// RTO.Initial, RTO.Min and RTO.Max of the paper, in ms.
pub(super) const RTO: [u64; 3] = [80, 80, 150];

/// Returns the address of a host (0 is the source, 1 the destination) on a path (0 is the primary).
pub(super) fn address(host: u8, path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, path + 1, host, 1))
}

fn background_address(side: u8, path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, path + 1, side, 2))
}

/// Cross traffic in the network, and pattern of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// The paper's load: one message every 10 ms, no cross traffic.
    Quiet,
    /// Ten messages at once every 100 ms, no cross traffic.
    Bursts,
    /// The paper's messages with Poisson cross traffic.
    Concurrent,
    /// The paper's messages with cross traffic that alternately fills the link and pauses.
    Congested,
}

/// Loads of the future work announced in the paper.
pub(super) const LOADS: [Load; 3] = [Load::Bursts, Load::Concurrent, Load::Congested];

impl Load {
    /// Returns the first part of the identifiers of its rows.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Bursts => "bursts",
            Self::Concurrent => "concurrent",
            Self::Congested => "congested",
        }
    }

    /// Returns the label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Quiet => "no cross traffic",
            Self::Bursts => "messages in bursts",
            Self::Concurrent => "concurrent traffic",
            Self::Congested => "congestion",
        }
    }

    /// Returns the number of messages at a time; the message rate is the same for all loads.
    pub(super) fn burst(self) -> u32 {
        if self == Self::Bursts { 10 } else { 1 }
    }

    /// Returns the interval over which the times of the failure are spread: two messages or bursts,
    /// so that all positions between two SACKs occur.
    pub(super) fn period(self) -> Duration {
        PERIOD * self.burst()
    }

    /// Returns the time of the failure of the primary path in a repetition: evenly spread over the
    /// period.
    pub(super) fn break_at(self, repetition: u64, repetitions: u64) -> Duration {
        let part = (repetition as f64 + 0.5) / repetitions.max(1) as f64;
        START + BREAK + self.period().mul_f64(part)
    }

    /// Returns whether runs depend on their seed; without cross traffic and losses they do not.
    pub(super) fn is_random(self) -> bool {
        self.background().is_some()
    }

    /// Returns packet length and pattern of the cross traffic in each direction of each path.
    fn background(self) -> Option<(usize, Pattern)> {
        match self {
            Self::Quiet | Self::Bursts => None,
            Self::Concurrent => Some((500, Pattern::Poisson { rate: 500_000 })),
            Self::Congested => Some((
                1000,
                Pattern::OnOff {
                    rate: RATE,
                    on: Spread::Exponential(Duration::from_millis(100)),
                    off: Spread::Exponential(Duration::from_millis(300)),
                },
            )),
        }
    }
}

/// Settings of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// First part of the identifiers of its rows.
    pub(super) id: &'static str,
    /// Label.
    pub(super) label: &'static str,
    /// Path.Max.Retrans.
    pub(super) path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans (RFC 7829), if used.
    pub(super) potentially_failed: Option<u32>,
    /// RTO.Initial, RTO.Min and RTO.Max in ms.
    pub(super) rto: [u64; 3],
    /// SACK frequency: packets per SACK.
    pub(super) sack_frequency: u32,
    /// RACK with its related algorithms, instead of the loss recovery of RFC 2960.
    pub(super) modern: bool,
    /// One queue of retransmissions for all paths, and unconfirmed addresses in use, as in Linux
    /// 2.6.
    pub(super) one_queue: bool,
}

const fn paper(id: &'static str, label: &'static str, path_max_retrans: u32) -> Variant {
    Variant {
        id,
        label,
        path_max_retrans,
        potentially_failed: None,
        rto: RTO,
        sack_frequency: 2,
        modern: false,
        one_queue: true,
    }
}

/// Potentially failed paths only: data leaves the primary path at the first timeout.
const QUICK: Variant = Variant {
    potentially_failed: Some(0),
    one_queue: false,
    ..paper("quick", "Potentially Failed at the first timeout", 5)
};

/// Potentially failed paths with a SACK for each packet.
const QUICK_SACKS: Variant = Variant {
    sack_frequency: 1,
    ..Variant {
        id: "quick-sacks",
        label: "the same with a SACK for each packet",
        ..QUICK
    }
};

/// The first timeout moves the data, but it is long enough for a full queue and for the recovery of
/// a loss; a SACK for each packet and RACK avoid other delays.
pub(super) const BEST: Variant = Variant {
    id: "best",
    label: "best settings",
    path_max_retrans: 5,
    potentially_failed: Some(0),
    rto: [150, 150, 150],
    sack_frequency: 1,
    modern: true,
    one_queue: false,
};

/// All variants: those of the paper in the order of [`PATH_MAX_RETRANS`], then further ones.
pub(super) const VARIANTS: [Variant; 7] = [
    paper("pmr2", "Path.Max.Retrans 2", 2),
    paper("pmr3", "Path.Max.Retrans 3", 3),
    paper("pmr4", "Path.Max.Retrans 4", 4),
    paper("pmr5", "Path.Max.Retrans 5", 5),
    QUICK,
    QUICK_SACKS,
    BEST,
];

impl Variant {
    /// Returns the parameters of the association, the same at both ends.
    pub(super) fn config(&self) -> AssociationConfig {
        let [initial, min, max] = self.rto.map(Duration::from_millis);
        let policies = if self.modern {
            Policies {
                congestion: Policies::default().congestion,
                // A probe would delay T3-rtx.
                tail_loss_probe: false,
                ..Policies::modern()
            }
        } else {
            let counting = Policies {
                missing_reports: 4,
                after_timeout: AfterTimeout::OneWindow,
                bundled_duplicates: BundledDuplicates::ReportLater,
                ..Policies::default()
            };
            if self.one_queue {
                Policies {
                    address_verification: AddressVerification::Trust,
                    retransmission_route: &RetransmitInTurn,
                    marked_data: MarkedData::HoldsAll,
                    ..counting
                }
            } else {
                counting
            }
        };
        AssociationConfig::rfc9260().with(|c| {
            c.timers.rto_initial = initial;
            c.timers.rto_min = min;
            c.timers.rto_max = max;
            c.paths.path_max_retrans = self.path_max_retrans;
            c.paths.potentially_failed_max_retrans = self.potentially_failed;
            c.timers.sack_frequency = self.sack_frequency;
            c.transmission.nagle = false;
            c.research.trace = true;
            c.research.policies = policies;
        })
    }

    /// Returns the lower bound of the failover time in ms given by the timeouts: one RTO.Min, then
    /// RTO.Max.
    pub(super) fn bound(&self) -> f64 {
        let timeouts = self.potentially_failed.unwrap_or(self.path_max_retrans);
        let [_, min, max] = self.rto;
        let mut rto = min;
        let mut sum = rto;
        for _ in 0..timeouts {
            rto = (2 * rto).min(max);
            sum += rto;
        }
        sum as f64
    }
}

/// The network with its two hosts and the link that fails.
pub(super) struct World {
    pub(super) net: Network,
    pub(super) hosts: [NodeId; 2],
    /// Link of the primary path between its routers.
    primary: LinkId,
}

/// Builds two disjoint paths of two routers each, with hosts for cross traffic at the routers.
pub(super) fn network(
    seed: u64,
    load: Load,
    source: Box<dyn Node>,
    destination: Box<dyn Node>,
) -> Result<World, ConfigError> {
    let (mut builder, hosts, primary) = paths(seed, load)?;
    builder.set_node_program(hosts[0], source);
    builder.set_node_program(hosts[1], destination);
    Ok(World {
        net: builder.build()?,
        hosts,
        primary,
    })
}

/// Builds the network without cross traffic for a live run; the primary path fails `moment` after
/// the first message.
pub(super) fn live_world(seed: u64, moment: Duration) -> Result<live::World, ConfigError> {
    let (builder, hosts, primary) = paths(seed, Load::Quiet)?;
    Ok(live::World {
        network: builder.build()?,
        hosts: vec![hosts],
        changes: breaking(primary)
            .map(|(later, change)| (moment + later, change))
            .to_vec(),
    })
}

type Paths = (NetworkBuilder, [NodeId; 2], LinkId);

fn paths(seed: u64, load: Load) -> Result<Paths, ConfigError> {
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["source", "destination"].map(|name| builder.add_host(name));
    let link = LinkConfig::new(RATE, DELAY).with_queue(Queue::packets(QUEUE));
    let mut links = Vec::new();
    for path in 0..2 {
        let routers = [0, 1].map(|side| builder.add_router(format!("router {path}.{side}")));
        let [near, far] = routers.map(|router| builder.add_interface(router, []));
        links.push(builder.connect_both(near, far, link.clone()));
        for side in 0..2 {
            let router = routers[usize::from(side)];
            let others = builder.add_host(format!("others {path}.{side}"));
            let ends = [
                (hosts[usize::from(side)], address(side, path)),
                (others, background_address(side, path)),
            ];
            for (host, address) in ends {
                let interface = builder.add_interface(host, [address]);
                let port = builder.add_interface(router, []);
                // The host is located at its router: no rate limit, no delay.
                builder.connect_both(interface, port, LinkConfig::default());
            }
            let streams = load.background().map(|(len, pattern)| {
                let [from, to] = [side, 1 - side].map(|side| background_address(side, path));
                Stream::new(from, to, len, pattern)
            });
            let source = Background::new(streams, builder.node_random(others))?;
            builder.set_node_program(others, Box::new(source));
        }
    }
    Ok((builder, hosts, links[0]))
}

/// Returns the changes that fail the primary path: each direction loses all packets, one slightly
/// later than the other.
fn breaking(primary: LinkId) -> [(Duration, Change); 2] {
    let directions = [
        (Direction::Forward, Duration::ZERO),
        (Direction::Backward, SECOND_PIPE),
    ];
    directions.map(|(direction, later)| {
        let loss = Change::SetLoss {
            link: primary,
            direction,
            loss: Loss::Random(1.0),
        };
        (later, loss)
    })
}

impl World {
    /// Schedules the loss of all packets on the primary path.
    pub(super) fn break_primary(&mut self, at: Time) -> Result<(), ConfigError> {
        for (later, change) in breaking(self.primary) {
            self.net.at(at + later, change)?;
        }
        Ok(())
    }
}

/// Returns the time of the failure of the primary path in a repetition without cross traffic.
pub(super) fn break_at(repetition: u64, repetitions: u64) -> Duration {
    Load::Quiet.break_at(repetition, repetitions)
}

/// Converts a duration to ms.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_match_the_publication() {
        let bounds: Vec<f64> = VARIANTS.iter().take(4).map(Variant::bound).collect();
        assert_eq!(bounds, [380.0, 530.0, 680.0, 830.0]);
        assert!((QUICK.bound() - 80.0).abs() < 1e-9);
        assert!((BEST.bound() - 150.0).abs() < 1e-9);
    }

    #[test]
    fn settings_are_valid() {
        for variant in VARIANTS {
            assert_eq!(variant.config().validate(), Ok(()), "{}", variant.id);
        }
    }

    #[test]
    fn failures_are_spread_over_one_period() {
        let moments: Vec<Duration> = (0..40).map(|k| break_at(k, 40)).collect();
        assert!(moments.is_sorted());
        assert!(moments[39] < moments[0] + PERIOD);
        assert!(moments[0] > START + BREAK);
        // The same with bursts: two bursts instead of two messages.
        let bursts: Vec<Duration> = (0..40).map(|k| Load::Bursts.break_at(k, 40)).collect();
        let spread = bursts[39].saturating_sub(bursts[0]);
        assert!(spread > Duration::from_millis(190), "{spread:?}");
        assert!(spread < Duration::from_millis(200), "{spread:?}");
    }
}
