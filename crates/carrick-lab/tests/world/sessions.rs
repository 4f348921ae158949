//! Sessions below the endpoints of a world (RFC 8261), of a protocol without cryptography and without
//! chance: the same seed gives the same packets.
//!
//! They are where SCTP is in UDP and one side sets up, as handshakes that cross come to nothing, and where
//! no address and no port goes, as a session stays where it is. Links with a small MTU have none: only ICMP
//! finds one below the MTU that a search begins with. A side alone that has them can't be spoken to, and
//! speaks to nobody.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use carrick_proto::sessions::{SessionLayer, SessionLayerConfig};
use carrick_proto::{EndpointConfig, LowerLayer};

use super::dice::{Dice, Part};
use super::plan::{Ending, Plan, Side};
use super::topology::Topology;

#[path = "../../../carrick-proto/tests/support/sessions.rs"]
mod toy;

use toy::Toys;

/// The sessions of one side, shared by its host and its program.
pub(crate) type Layer = Rc<RefCell<SessionLayer<Toys>>>;

/// Whether the first addresses of both sides are the ones that each side chooses for the other's.
fn is_pair(addresses: &[Vec<IpAddr>; 2]) -> bool {
    match (addresses[0][0], addresses[1][0]) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..7] == other.segments()[..7],
        _ => false,
    }
}

/// Longer than anything that a surviving world waits for, and shorter than the silence at the end.
const AT_THE_END: Duration = Duration::from_secs(1_000_000);

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) sides: [bool; 2],
    /// Damaged datagrams must be noticed.
    sums: bool,
    /// Whether the sessions of each side are taken for ones that let no changed packet through.
    lower_layers: [LowerLayer; 2],
    handshake_timeout: Duration,
    idle_timeout: Duration,
}

impl Sessions {
    pub(crate) fn new(seed: u64, plan: &Plan, topology: &Topology) -> Self {
        let mut dice = Dice::new(seed, Part::Sessions);
        let dice = &mut dice;
        let once = plan.connects.iter().flatten().count() == 1;
        let in_udp = plan.encapsulation.is_some() && plan.plain == 0;
        let stays = !topology.loses_addresses() && topology.link_mtu.is_none();
        // A side that has forgotten its session can't say so out of the blue, and begins it anew from
        // where it was: another pair of addresses makes another session, and a stranger's association.
        let restarts = matches!(plan.ending, Ending::Restart { .. });
        let lasts = !restarts || plan.ending.begins_anew() && is_pair(&topology.addresses);
        let wanted = dice.chance(0.75) || plan.ending.begins_anew();
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

    /// Both sides have them.
    pub(crate) fn meet(&self) -> bool {
        self.sides == [true; 2]
    }

    /// One side has them, and the other one can't speak to it.
    pub(crate) fn divide(&self) -> bool {
        self.sides[0] != self.sides[1]
    }

    pub(crate) fn any(&self) -> bool {
        self.sides != [false; 2]
    }

    /// The layer of a side for the endpoint that `endpoint` describes; `incarnation` counts how often the
    /// side has forgotten everything.
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
