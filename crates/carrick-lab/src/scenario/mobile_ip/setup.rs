//! Parameters of the paper, parameters that it does not specify, and settings of the stack.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_proto::cc::Rfc2960;
use carrick_proto::research::{
    Multipath, OtherPathOnDuplicates, Policies, RetransmitOnAlternate, RetransmitOnLowestLoss,
    SackRoute, SackToSource, WindowAnnouncement,
};
use carrick_proto::{AssociationConfig, Extensions};

use super::control::KeepsWindow;

/// Length of a transfer in bytes: 12 MB.
pub(super) const TRANSFER: u64 = 12_000_000;
/// Rate of every link between the networks, in bit/s.
pub(super) const RATE: u64 = 1_600_000;
/// Queue of each of these links in packets; the paper's window does not fill it.
pub(super) const QUEUE: usize = 50;
/// One-way delay from the correspondent to the mobile node over the home agent. The paper specifies
/// none; configuration 1's column fits it.
pub(super) const DELAY: Duration = Duration::from_millis(46);
/// One-way delay between the routers that does not lead over the home agent, without the two ends: the
/// way back of configuration 2 and its second link, which configuration 2's column fits.
pub(super) const MIDDLE: Duration = Duration::from_millis(25);
/// The same in configuration 3 and the handovers, where every path has the same round trip.
pub(super) const LONG: Duration = Duration::from_millis(43);
/// The same in the alternative, between routers of one location.
pub(super) const SHORT: Duration = Duration::from_millis(2);
/// MTU of the links between the networks.
const MTU: usize = 1500;
/// Path MTU inside the tunnel: the outer header has 20 bytes.
pub(super) const PATH_MTU: usize = MTU - 20;
/// User data of a message in bytes, so that its packet fills the tunnel: less the inner IP header,
/// the common header and the header of the DATA chunk.
pub(super) const MESSAGE: usize = PATH_MTU - 20 - 12 - 16;
/// Messages of a transfer.
pub(super) const MESSAGES: u64 = TRANSFER.div_ceil(MESSAGE as u64);
/// SCTP port of both hosts.
pub(super) const PORT: u16 = 5001;
/// Typical receive window at the time of the paper.
pub(super) const PAPER_WINDOW: usize = 65_536;

/// Receive window, minimum timeout and one-way delay of the alternative.
pub(super) const ALTERNATIVE_WINDOW: usize = 24_576;
pub(super) const ALTERNATIVE_RTO: Duration = Duration::from_millis(2500);
pub(super) const ALTERNATIVE_DELAY: Duration = Duration::from_millis(32);

/// Loss rates of the tables.
pub(super) const LOSSES: [f64; 4] = [0.0, 0.01, 0.02, 0.05];

/// Time of the association set-up; the mobile node is registered by then.
pub(super) const START: Duration = Duration::from_secs(2);
/// Idle time between the verification of all paths and the first message.
pub(super) const SETTLING: Duration = Duration::from_secs(1);
/// Minimum time of the event in the first network; up to a second is added.
pub(super) const BREAK: Duration = Duration::from_secs(20);

/// Time without coverage in a handover without overlap.
pub(super) const GAP: Duration = Duration::from_millis(200);
/// Time with both networks in a handover with overlap.
pub(super) const OVERLAP: Duration = Duration::from_secs(1);
/// Message size and interval of the steady flow of the handovers: half the rate of the link.
pub(super) const STEADY_MESSAGE: usize = 1000;
pub(super) const STEADY_INTERVAL: Duration = Duration::from_millis(10);
/// Duration of the steady flow.
pub(super) const STEADY: Duration = Duration::from_secs(90);

/// Addresses of the correspondent in its two networks. Source addresses are selected by the longest
/// common prefix, which keeps the pairs of configuration 3 together, as the paper's routing tables
/// did.
pub(super) const CORRESPONDENT: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(172, 16, 1, 1)];
/// Address of the home agent.
pub(super) const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Home address of the mobile node.
pub(super) const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
/// Addresses of the routers, or foreign agents, of the two visited networks.
pub(super) const VISITED: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(172, 16, 2, 1)];
/// Local addresses of the mobile node there.
pub(super) const LOCAL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(172, 16, 2, 7)];

/// Converts addresses for the stack.
pub(super) fn addresses(list: &[Ipv4Addr]) -> Vec<IpAddr> {
    list.iter().map(|address| IpAddr::V4(*address)).collect()
}

/// Settings of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// Settings of the paper's implementation, after RFC 2960.
    Paper,
    /// A model of TCP, as in `overhead`: rules of RFC 9260, full packets, the paper's window.
    TcpLike,
    /// The paper's settings with the SACK rule that lost the association.
    OldRule,
    /// Other settings that fit the published values about as well: a shorter round trip, a smaller
    /// window, longer timeouts.
    Alternative,
    /// Recommendations of RFC 9260.
    Standard,
    /// Best settings with one path for new data.
    Best,
    /// Best settings with new data on all paths at once.
    Concurrent,
    /// Control: the paper's settings without reduction of the window by a fast retransmission.
    WindowKept,
}

impl Stack {
    /// Returns the parameters of the association, the same at both ends.
    pub(super) fn config(self) -> AssociationConfig {
        let common = AssociationConfig::rfc9260().with(|c| {
            // A message fills a packet; with Nagle's algorithm each would wait for the next.
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
            Self::Alternative => Self::paper(common, &SackToSource).with(|c| {
                c.buffers.receive_buffer = ALTERNATIVE_WINDOW;
                c.timers.rto_initial = ALTERNATIVE_RTO.max(c.timers.rto_initial);
                c.timers.rto_min = ALTERNATIVE_RTO;
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
                // Four times the round trip of a network without congestion, as in Linux.
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

    /// Returns the first part of the identifiers of rows.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Alternative => "alternative",
            Self::TcpLike => "tcp-like",
            Self::OldRule => "old-rule",
            Self::Standard => "standard",
            Self::Best => "best",
            Self::Concurrent => "concurrent",
            Self::WindowKept => "window-kept",
        }
    }

    /// Returns the label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Paper => "RFC 2960 settings",
            Self::Alternative => "alternative: 64 ms, window of 24 KiB, RTO.Min 2.5 s",
            Self::TcpLike => "TCP-like",
            Self::OldRule => "SACKs to the other path on duplicates",
            Self::Standard => "RFC 9260 settings",
            Self::Best => "best settings",
            Self::Concurrent => "best settings on both links",
            Self::WindowKept => "control: window kept on loss",
        }
    }
}

/// Returns the rate of user data at the bottleneck in Mbit/s, without losses and slow start.
pub(super) fn capacity() -> f64 {
    RATE as f64 / 1e6 * MESSAGE as f64 / MTU as f64
}

/// Returns the rate of user data on the link that bypasses the tunnel, whose packets have no outer
/// header.
pub(super) fn direct_capacity() -> f64 {
    RATE as f64 / 1e6 * MESSAGE as f64 / PATH_MTU as f64
}

/// Definition of the bound of configuration 1.
pub(super) const CAPACITY_NOTE: &str = "Bound: rate of user data in full packets at the bottleneck, less \
  the loss; as published, the rate includes the outer header.";

/// Returns the transmission time of a full packet at the bottleneck.
pub(super) fn transmission() -> Duration {
    Duration::from_nanos(MTU as u64 * 8 * 1_000_000_000 / RATE)
}

/// Returns the round trip of a network without queueing: a packet and its SACK.
pub(super) fn round_trip() -> Duration {
    DELAY * 2 + transmission()
}

/// Returns the throughput in Mbit/s of a window that is halved on each loss, √(1.5/p) packets on
/// average, with a round trip without queueing.
pub(super) fn square_root_law(loss: f64) -> f64 {
    (1.5 / loss).sqrt() * (MESSAGE * 8) as f64 / 1e6 / round_trip().as_secs_f64()
}

/// Converts a duration to ms.
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
            Stack::Alternative,
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
    fn lossless_throughput_matches_full_tunnel_packets() {
        assert_eq!(MESSAGE, 1432);
        assert!((capacity() - 1.525).abs() < 0.005, "{}", capacity());
        assert!((millis(round_trip()) - 99.5).abs() < 1e-9);
        assert!((square_root_law(0.01) - 1.41).abs() < 0.01);
    }
}
