//! Settings that a program changes while its association is established: thresholds of paths, the
//! encapsulation of an address, and the primary address of the peer.

use std::time::Duration;

use carrick_proto::{AssociationId, Endpoint, OperationError, PathId, PathThresholds, Time};

use super::dice::{Dice, Part};
use super::plan::{Ending, Side, WorldPlan};
use super::script::Operation;

/// A change of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tuning {
    /// Thresholds of one path, or of all; they may be contradictory.
    Thresholds {
        all: bool,
        thresholds: PathThresholds,
    },
    /// Encapsulation in UDP to this port, or plain IP.
    Encapsulation(Option<u16>),
    /// Local address with this number, modulo their number.
    PeerPrimary(u8),
}

impl Tuning {
    /// Makes the change. A threshold may be refused, and every change that the association has no
    /// use for.
    pub(crate) fn act(
        self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        path: PathId,
    ) -> Result<(), OperationError> {
        let local = endpoint.local_addresses().to_vec();
        let association = endpoint.association_mut(now, id);
        let mut association = association.ok_or(OperationError::UnknownAssociation)?;
        match self {
            Self::Thresholds { all, thresholds } => {
                association.set_path_thresholds((!all).then_some(path), thresholds)
            }
            Self::Encapsulation(port) => association.set_encapsulation(path, port),
            Self::PeerPrimary(number) => {
                let address = local.get(usize::from(number) % local.len().max(1));
                address.map_or(Ok(()), |address| association.set_peer_primary(*address))
            }
        }
    }
}

/// Draws the changes of one side with their times; the number selects a path. `fixed`: the
/// encapsulation is not to be changed, because only the peer's packets show its port, or a session
/// determines it.
pub(crate) fn tunings(
    seed: u64,
    side: Side,
    plan: &WorldPlan,
    fixed: bool,
) -> Vec<(Duration, u8, Operation)> {
    let mut dice = Dice::new(seed, Part::Tuning(side));
    let dice = &mut dice;
    // An INIT is identified by its encapsulation.
    let once = plan.connects.iter().flatten().count() == 1;
    let lasts = !matches!(plan.ending, Ending::Restart { .. });
    let port = plan.encapsulation.map(|ports| ports[1 - side]);
    let port = port.filter(|_| once && lasts && !fixed);
    if dice.chance(0.5) {
        return Vec::new();
    }
    (0..dice.range(1, 6))
        .map(|_| {
            let tuning = match (dice.range(0, 2), port) {
                (0, _) => Tuning::Thresholds {
                    all: dice.chance(0.3),
                    thresholds: thresholds(dice),
                },
                (1, Some(port)) => Tuning::Encapsulation(dice.chance(0.5).then_some(port)),
                _ => Tuning::PeerPrimary(dice.range(0, 255) as u8),
            };
            let at = dice.log_millis(1, 20_000);
            (at, dice.range(0, 255) as u8, Operation::Tune(tuning))
        })
        .collect()
}

fn thresholds(dice: &mut Dice) -> PathThresholds {
    let maybe = |dice: &mut Dice| dice.chance(0.5).then(|| dice.range(0, 5) as u32);
    PathThresholds {
        path_max_retrans: dice.range(0, 6) as u32,
        potentially_failed_max_retrans: maybe(dice),
        primary_switchover_max_retrans: maybe(dice),
    }
}
