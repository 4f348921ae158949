//! Sessions below the endpoints of a world (RFC 8261), of a protocol without cryptography and
//! randomness: the same seed gives the same packets.
//!
//! They are used if SCTP is in UDP and one side connects, because handshakes that collide fail, and
//! if no address and no port changes, because a session does not move. They are not used with a
//! small MTU of links: only ICMP finds an MTU below that with which a search starts. A side that
//! alone has sessions cannot communicate.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::sessions::{SessionLayer, SessionLayerConfig};
use carrick_proto::{EndpointConfig, LowerLayer};

use super::dice::{Dice, Part};
use super::plan::{Ending, Side, WorldPlan};
use super::topology::Topology;

#[path = "../../../../sctp/proto/tests/support/sessions.rs"]
mod toy;

use toy::Toys;

/// Session layer of one side, shared by its host and its program.
pub(crate) type Layer = Rc<RefCell<SessionLayer<Toys>>>;

/// Returns whether the first addresses of both sides are those that each side selects for the
/// other's.
fn is_pair(addresses: &[Vec<IpAddr>; 2]) -> bool {
    match (addresses[0][0], addresses[1][0]) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..7] == other.segments()[..7],
        _ => false,
    }
}

/// Longer than any wait of a surviving world, and shorter than the silent time at the end.
const AT_THE_END: Duration = Duration::from_secs(1_000_000);

/// Sessions of a world.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) sides: [bool; 2],
    /// Detects corrupted datagrams.
    sums: bool,
    /// Type of the lower layer that each side assumes: one that passes no changed packet, or not.
    lower_layers: [LowerLayer; 2],
    handshake_timeout: Duration,
    idle_timeout: Duration,
}

impl Sessions {
    pub(crate) fn new(seed: u64, plan: &WorldPlan, topology: &Topology) -> Self {
        let mut dice = Dice::new(seed, Part::Sessions);
        let dice = &mut dice;
        let once = plan.connects.iter().flatten().count() == 1;
        let in_udp = plan.encapsulation.is_some() && plan.plain == 0;
        let stays = !topology.loses_addresses() && topology.link_mtu.is_none();
        // A side without its former session cannot report this out of the blue, and starts it again
        // from the same address: another pair of addresses identifies another session, and an
        // association of an unknown host.
        let restarts = matches!(plan.ending, Ending::Restart { .. });
        let lasts = !restarts || plan.ending.has_second_life() && is_pair(&topology.addresses);
        let wanted = dice.chance(0.75) || plan.ending.has_second_life();
        let alone = dice.chance(0.2).then(|| dice.size(0, 1));
        let sides = match (once && in_udp && stays && lasts && wanted, alone) {
            (false, _) => [false; 2],
            (true, Some(side)) if plan.ending.is_graceful() => [side == 0, side == 1],
            (true, _) => [true; 2],
        };
        let dies = matches!(plan.ending, Ending::Death { .. });
        let mut timeout = || {
            let short = dice.log_millis(1000, 60_000);
            if dies { short } else { AT_THE_END }
        };
        Self {
            sides,
            sums: topology.corrupts,
            handshake_timeout: timeout(),
            idle_timeout: timeout(),
            lower_layers: [0, 1].map(|_| {
                let protects = dice.chance(0.75) && !topology.corrupts;
                [LowerLayer::Plain, LowerLayer::Dtls][usize::from(protects)]
            }),
        }
    }

    /// Returns whether both sides have sessions.
    pub(crate) fn meet(&self) -> bool {
        self.sides == [true; 2]
    }

    /// Returns whether only one side has sessions, so that the other cannot communicate with it.
    pub(crate) fn is_one_sided(&self) -> bool {
        self.sides[0] != self.sides[1]
    }

    pub(crate) fn any(&self) -> bool {
        self.sides != [false; 2]
    }

    /// Returns the layer of a side for the endpoint configured by `endpoint`; `incarnation` counts
    /// the restarts of the side.
    pub(crate) fn layer(
        &self,
        side: Side,
        incarnation: u64,
        endpoint: &mut EndpointConfig,
    ) -> Option<Layer> {
        let limits = SessionLayerConfig {
            handshake_timeout: self.handshake_timeout,
            idle_timeout: self.idle_timeout,
            ..SessionLayerConfig::default()
        };
        let toys = Toys {
            runs: incarnation as u8 * 100,
            sums: self.sums,
            lower_layer: self.lower_layers[side],
            ..Toys::new(side as u8)
        };
        let layer = || SessionLayer::new(toys, limits, endpoint);
        self.sides[side].then(|| Rc::new(RefCell::new(layer())))
    }
}
