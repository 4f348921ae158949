//! The paper's numbers, what it leaves open, and the settings of the stack.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_proto::cc::Rfc2960;
use carrick_proto::research::{
    LossDetection, Multipath, OtherPathOnDuplicates, Policies, RetransmitOnAlternate,
    RetransmitOnLowestLoss, SackRoute, SackToSource, WindowAnnouncement,
};
use carrick_proto::{AssociationConfig, Extensions};

use crate::scenario::satellite::KeepsWindow;

/// What is transferred, in bytes: 12 MB.
pub(super) const TRANSFER: u64 = 12_000_000;
/// Rate of every way between the networks, in bit/s.
pub(super) const RATE: u64 = 1_600_000;
/// Queue in front of each of them, in packets; the paper's window does not fill it.
pub(super) const QUEUE: usize = 50;
/// One way from the correspondent to the mobile node, over the home agent or not.
pub(super) const DELAY: Duration = Duration::from_millis(50);
/// The same without the two ends: between routers of one location, and of different ones.
pub(super) const SHORT: Duration = Duration::from_millis(2);
pub(super) const LONG: Duration = Duration::from_millis(47);
/// MTU of the ways between the networks.
const MTU: usize = 1500;
/// Path MTU inside the tunnel: the outer header takes 20 bytes.
pub(super) const PATH_MTU: usize = MTU - 20;
/// Bytes of user data in a message, so that its packet fills the tunnel: the inner IP header, the
/// common header and the header of the DATA chunk go off.
pub(super) const MESSAGE: usize = PATH_MTU - 20 - 12 - 16;
/// Messages of a transfer.
pub(super) const MESSAGES: u64 = TRANSFER.div_ceil(MESSAGE as u64);
/// SCTP port of both hosts.
pub(super) const PORT: u16 = 5001;
/// The receive window of the paper's time.
pub(super) const PAPER_WINDOW: usize = 65_536;

/// A receive window of the time that is half of it, still more than a round trip.
pub(super) const TIGHT_WINDOW: usize = 32_768;
/// RTO.Initial of RFC 2960 (section 14).
pub(super) const TIGHT_RTO: Duration = Duration::from_secs(3);

/// The losses of the tables.
pub(super) const LOSSES: [f64; 4] = [0.0, 0.01, 0.02, 0.05];

/// When the association is set up: the mobile node is registered by then.
pub(super) const START: Duration = Duration::from_secs(2);
/// Quiet time between the verification of all paths and the first message.
pub(super) const SETTLING: Duration = Duration::from_secs(1);
/// When something happens to the first network, at the earliest; later by up to a second.
pub(super) const BREAK: Duration = Duration::from_secs(20);

/// Time without coverage in a handover that does not overlap.
pub(super) const GAP: Duration = Duration::from_millis(200);
/// Time with both networks in one that does.
pub(super) const OVERLAP: Duration = Duration::from_secs(1);
/// Messages of the steady flow of the handovers: half the rate of the link.
pub(super) const STEADY_MESSAGE: usize = 1000;
pub(super) const STEADY_INTERVAL: Duration = Duration::from_millis(10);
/// How long the steady flow lasts.
pub(super) const STEADY: Duration = Duration::from_secs(90);

/// The correspondent in its two networks. Source addresses are chosen by the longest common prefix,
/// which keeps the pairs of configuration 3 together as the paper's routing tables did.
pub(super) const CORRESPONDENT: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(172, 16, 1, 1)];
/// The home agent.
pub(super) const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The Mobile IP address.
pub(super) const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
/// The routers, or foreign agents, of the two visited networks.
pub(super) const VISITED: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(172, 16, 2, 1)];
/// The mobile node's own addresses there.
pub(super) const LOCAL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(172, 16, 2, 7)];

/// Addresses as the stack wants them.
pub(super) fn addresses(list: &[Ipv4Addr]) -> Vec<IpAddr> {
    list.iter().map(|address| IpAddr::V4(*address)).collect()
}

/// How the stack is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// As the paper's implementation, after RFC 2960.
    Paper,
    /// The same with RFC 2960's counters of missing reports.
    Counters,
    /// A flow that mimics TCP, as in `overhead`: RFC 9260's rules, full packets, the paper's window.
    TcpLike,
    /// The same with the rule for SACKs that lost the association.
    OldRule,
    /// A control: the paper's with a window of little more than a round trip, and timeouts of three
    /// seconds.
    Tight,
    /// RFC 9260's recommendations.
    Standard,
    /// What it does best with one path for new data.
    Best,
    /// The same with new data on all paths at once.
    Concurrent,
    /// A control: the paper's, but a fast retransmission leaves the window as it is.
    WindowKept,
}

impl Stack {
    /// The parameters of the association, the same at both ends.
    pub(super) fn config(self) -> AssociationConfig {
        let common = AssociationConfig::rfc9260().with(|c| {
            // A message is a packet; Nagle's algorithm would make each wait for the next.
            c.transmission.nagle = false;
            c.mtu.path_mtu = PATH_MTU;
            c.extensions = Extensions {
                authentication: true,
                dynamic_addresses: true,
                ..Extensions::NONE
            };
        });
        match self {
            Self::Paper => Self::paper(common, &SackToSource),
            Self::OldRule => Self::paper(common, &OtherPathOnDuplicates),
            Self::Standard => common,
            Self::TcpLike => common.with(|c| {
                c.buffers.receive_buffer = PAPER_WINDOW;
                c.buffers.send_buffer = 4 * PAPER_WINDOW;
                c.research.policies = Policies {
                    window_announcement: WindowAnnouncement::True,
                    ..Policies::default()
                };
            }),
            Self::Counters => Self::paper(common, &SackToSource)
                .with(|c| c.research.policies.loss_detection = LossDetection::EveryReport),
            Self::Tight => Self::paper(common, &SackToSource).with(|c| {
                c.buffers.receive_buffer = TIGHT_WINDOW;
                c.timers.rto_initial = TIGHT_RTO;
                c.timers.rto_min = TIGHT_RTO;
            }),
            Self::WindowKept => Self::paper(common, &SackToSource)
                .with(|c| c.research.policies.congestion = &KeepsWindow),
            Self::Concurrent => Self::Best.config().with(|c| {
                c.research.policies.multipath = Multipath::concurrent();
                c.research.policies.retransmission_route = &RetransmitOnLowestLoss;
            }),
            Self::Best => AssociationConfig::modern().with(|c| {
                c.transmission.nagle = false;
                c.mtu.path_mtu = PATH_MTU;
                c.extensions = common.extensions;
                // Four times the round trip of a network that is not congested, as on Linux.
                c.timers.rto_min = Duration::from_millis(200);
                c.paths.potentially_failed_max_retrans = Some(0);
                c.timers.sack_frequency = 1;
                c.research.policies = Policies {
                    retransmission_route: &RetransmitOnAlternate,
                    ..Policies::modern()
                };
            }),
        }
    }

    fn paper(common: AssociationConfig, sack_route: &'static dyn SackRoute) -> AssociationConfig {
        common.with(|c| {
            c.buffers.receive_buffer = PAPER_WINDOW;
            c.buffers.send_buffer = 4 * PAPER_WINDOW;
            c.research.policies = Policies {
                missing_reports: 4,
                retransmission_route: &RetransmitOnAlternate,
                sack_route,
                congestion: &Rfc2960,
                window_announcement: WindowAnnouncement::True,
                ..Policies::default()
            };
        })
    }

    /// First part of the names of rows.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Counters => "counters",
            Self::Tight => "tight",
            Self::TcpLike => "tcp-like",
            Self::OldRule => "old-rule",
            Self::Standard => "standard",
            Self::Best => "best",
            Self::Concurrent => "concurrent",
            Self::WindowKept => "window-kept",
        }
    }

    /// The name for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Paper => "RFC 2960 settings",
            Self::Counters => "RFC 2960’s counters",
            Self::Tight => "control: window of 32 KiB, timeouts of 3 s",
            Self::TcpLike => "TCP-like",
            Self::OldRule => "SACKs to the other path on duplicates",
            Self::Standard => "RFC 9260 settings",
            Self::Best => "best settings",
            Self::Concurrent => "best settings on both links",
            Self::WindowKept => "control: window kept on loss",
        }
    }
}

/// Mbit/s of user data that the bottleneck carries, without losses and apart from the start.
pub(super) fn capacity() -> f64 {
    RATE as f64 / 1e6 * MESSAGE as f64 / MTU as f64
}

/// The same of the link beside the tunnel, whose packets have no outer header.
pub(super) fn direct_capacity() -> f64 {
    RATE as f64 / 1e6 * MESSAGE as f64 / PATH_MTU as f64
}

/// What the bound of configuration 1 is.
pub(super) const CAPACITY_NOTE: &str = "Bound: what the bottleneck carries of user data in full packets, less \
     what is lost; as published, the rate counts the outer header.";

/// Transmission of a full packet at the bottleneck.
pub(super) fn transmission() -> Duration {
    Duration::from_nanos(MTU as u64 * 8 * 1_000_000_000 / RATE)
}

/// The round trip of a network without queues: a packet there and its SACK back.
pub(super) fn round_trip() -> Duration {
    DELAY * 2 + transmission()
}

/// Mbit/s of a window that halves on each loss, √(1.5/p) packets on average, in a round trip without
/// queues.
pub(super) fn square_root_law(loss: f64) -> f64 {
    (1.5 / loss).sqrt() * (MESSAGE * 8) as f64 / 1e6 / round_trip().as_secs_f64()
}

/// A duration in ms.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_valid() {
        for stack in [
            Stack::Paper,
            Stack::Counters,
            Stack::Tight,
            Stack::TcpLike,
            Stack::OldRule,
            Stack::Standard,
            Stack::Best,
            Stack::Concurrent,
        ] {
            assert_eq!(stack.config().validate(), Ok(()), "{stack:?}");
        }
    }

    #[test]
    fn the_published_throughput_without_loss_is_that_of_full_tunnel_packets() {
        assert_eq!(MESSAGE, 1432);
        assert!((capacity() - 1.525).abs() < 0.005, "{}", capacity());
        assert!((millis(round_trip()) - 107.5).abs() < 1e-9);
        assert!((square_root_law(0.01) - 1.31).abs() < 0.01);
    }
}
