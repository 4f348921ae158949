//! Common features of both sides beyond the plan: shared keys and their changes, the protection of
//! chunks, sessions below SCTP, and disruptions of addresses and ports.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, SharedKey, SharedKeyId};

use super::dice::{Dice, Part};
use super::ledger::SharedKeys;
use super::plan::{Ending, Side, WorldPlan};
use super::protection::{KEYS, Sealing};
use super::script::Operation;
use super::sessions::Sessions;
use super::topology::Topology;

/// UDP ports that a NAT assigns to a host whose binding has expired.
const NEW_PORTS: [u16; 2] = [40_001, 61_000];

/// Common features of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Extras {
    pub(crate) keys: Option<Keys>,
    /// Sides that offer the protection of chunks; in effect if both do.
    pub(crate) offers: [bool; 2],
    /// Parameters common to the protections of both sides.
    pub(crate) sealing: Sealing,
    pub(crate) sessions: Sessions,
    /// Permits address changes without authentication, on both sides.
    pub(crate) open_addresses: bool,
    /// Accepts a peer that is identified by its verification tag only.
    pub(crate) wildcard: bool,
    /// Advertises addresses by wildcards only (see [`may_use_wildcards_only`]).
    pub(crate) hidden: bool,
    pub(crate) disruptions: Vec<Disruption>,
    changes: [Vec<(Duration, u8, Operation)>; 2],
}

/// Endpoint-pair shared keys that are not null.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Number of keys configured at both sides, from 1.
    configured: u16,
    /// Key with which each side starts to send.
    pub(crate) active: [u16; 2],
    null_key: bool,
}

/// A disruption of a side once the association is established; it is not undone before the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disruption {
    pub(crate) side: Side,
    /// Time after both sides are established.
    pub(crate) after: Duration,
    pub(crate) kind: DisruptionKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DisruptionKind {
    /// Its packets in UDP come from another port, and packets to the old port are lost.
    Rebinding(u16),
    /// The side gets an additional address.
    NewAddress,
    /// The side loses all addresses except the new one.
    OldAddresses,
}

impl Extras {
    pub(crate) fn new(seed: u64, plan: &WorldPlan, topology: &Topology) -> Self {
        let (addresses, removes) = (&topology.addresses, topology.loses_addresses());
        let sessions = Sessions::new(seed, plan, topology);
        let mut dice = Dice::new(seed, Part::Extras);
        let dice = &mut dice;
        let restarts = matches!(plan.ending, Ending::Restart { .. });
        let keys = dice.chance(0.5).then(|| Keys {
            configured: dice.range(1, 3) as u16,
            active: [0, 1].map(|_| dice.range(0, 1) as u16),
            null_key: dice.chance(0.5),
        });
        let keys = keys.map(|keys| Keys {
            active: if keys.null_key { keys.active } else { [1, 1] },
            ..keys
        });
        // A side that restarts without protection, or is reached out of the blue, is not accepted.
        let sealable = !restarts || plan.ending.has_second_life();
        let offers = if sealable {
            dice.pick(&[
                [false; 2],
                [false; 2],
                [true; 2],
                [true, false],
                [false, true],
            ])
        } else {
            [false; 2]
        };
        let sealing = Sealing::new(dice.range(0, u64::MAX - 1), plan.ending.has_second_life());
        let open_addresses = dice.chance(0.2);
        let wildcard = dice.chance(0.4);
        let changes = [0, 1].map(|_| {
            let mut list = Vec::new();
            if let Some(keys) = &keys {
                keys.draw_changes(dice, restarts, &mut list);
            }
            if offers == [true; 2] {
                for _ in 0..dice.range(0, 6) {
                    let key = dice.range(0, u64::from(KEYS) - 1) as u8;
                    list.push((dice.log_millis(1, 20_000), 0, Operation::SealWith(key)));
                }
            }
            list
        });
        Self {
            keys,
            offers,
            sealing,
            open_addresses,
            wildcard,
            hidden: wildcard && may_use_wildcards_only(plan, addresses, removes),
            disruptions: match sessions.any() {
                true => Vec::new(),
                false => disruptions(dice, plan, addresses, removes),
            },
            sessions,
            changes,
        }
    }

    /// Returns the shared keys with which the sides start.
    pub(crate) fn key_books(&self) -> [SharedKeys; 2] {
        [0, 1].map(|side| match &self.keys {
            Some(keys) => SharedKeys {
                known: (u16::from(!keys.null_key)..=keys.configured).collect(),
                active: Some(keys.active[side]),
            },
            None => SharedKeys::default(),
        })
    }

    /// Returns the side that gets new addresses, if any.
    pub(crate) fn moves(&self) -> Option<Side> {
        let of_address = |u: &&Disruption| u.kind == DisruptionKind::NewAddress;
        self.disruptions.iter().find(of_address).map(|u| u.side)
    }

    /// Returns whether chunks are protected.
    pub(crate) fn seals(&self) -> bool {
        self.offers == [true; 2]
    }

    /// Returns whether the UDP port of a side changes.
    pub(crate) fn rebinds(&self, side: Side) -> bool {
        let of_port = |u: &Disruption| matches!(u.kind, DisruptionKind::Rebinding(_));
        self.disruptions
            .iter()
            .any(|u| u.side == side && of_port(u))
    }

    /// Changes the parameters of a side.
    pub(crate) fn apply(&self, side: Side, config: &mut AssociationConfig) {
        if let Some(keys) = &self.keys {
            config.security.authentication.keys = (1..=keys.configured).map(shared_key).collect();
            config.security.authentication.active = SharedKeyId(keys.active[side]);
            config.security.authentication.null_key = keys.null_key;
        }
        config.paths.wildcard_addresses = self.hidden;
        config.paths.wildcard_peers = self.wildcard;
        config.security.dynamic_addresses_without_authentication = self.open_addresses;
        if self.moves().is_some() {
            config.extensions.authentication |= !self.open_addresses;
            config.extensions.dynamic_addresses = true;
        }
        // The peer must know an address that packets are sent from.
        if !self.disruptions.is_empty() {
            config.paths.max_paths = 16;
        }
        // No other packet might be sent from the new port.
        config.paths.heartbeat |= self.rebinds(side);
        config.security.protection = self.offers[side].then(|| self.sealing.offer(false));
        if self.sessions.sides[side] {
            // As required by the sessions.
            config.mtu.path_mtu_discovery.get_or_insert_default();
        }
    }

    /// Adds operations to the script of a side.
    pub(crate) fn add_operations(
        &self,
        side: Side,
        operations: &mut Vec<(Duration, u8, Operation)>,
    ) {
        operations.extend(self.changes[side].iter().copied());
        operations.sort_by_key(|(at, ..)| *at);
        if self.rebinds(side) {
            operations.retain(|o| !matches!(o.2, Operation::SetHeartbeat(false)));
        }
    }
}

impl Keys {
    /// Draws additions, activations and deletions of keys. After a restart, a side has the
    /// configured keys.
    fn draw_changes(
        &self,
        dice: &mut Dice,
        restarts: bool,
        list: &mut Vec<(Duration, u8, Operation)>,
    ) {
        let last = if restarts { self.configured } else { 6 };
        for key in self.configured + 1..=last {
            list.push((dice.log_millis(1, 5000), 0, Operation::AddKey(key)));
        }
        for _ in 0..dice.range(0, 8) {
            let key = dice.range(0, u64::from(last)) as u16;
            let operation = match dice.range(0, 5) {
                0 if !restarts => Operation::DeactivateKey(key),
                1 if !restarts => Operation::DeleteKey(key),
                _ => Operation::ActivateKey(key),
            };
            list.push((dice.log_millis(1, 20_000), 0, operation));
        }
    }
}

/// Returns whether addresses may be advertised by wildcards only. The peer then knows one address,
/// that of the packets of the set-up, until an ASCONF adds another. An INIT from a second address
/// is one of an unknown host and creates another association (RFC 9260, section 5.2.2): sides that
/// connect simultaneously or restart must not have a second address. In addition, a peer whose only
/// known address is removed before it can advertise another is unreachable (RFC 5061, section 4.2:
/// by ASCONF, which needs the association).
fn may_use_wildcards_only(plan: &WorldPlan, addresses: &[Vec<IpAddr>; 2], removes: bool) -> bool {
    let one = addresses.iter().all(|a| a.len() == 1);
    let once = plan.connects.iter().flatten().count() == 1;
    let restarts = matches!(plan.ending, Ending::Restart { .. });
    one || once && !restarts && !removes
}

/// Returns the key of this number, which is the same on both sides.
pub(crate) fn shared_key(number: u16) -> SharedKey {
    SharedKey {
        id: SharedKeyId(number),
        secret: Bytes::from(vec![number as u8 ^ 0x5a; 1 + usize::from(number) * 11]),
    }
}

fn disruptions(
    dice: &mut Dice,
    plan: &WorldPlan,
    addresses: &[Vec<IpAddr>; 2],
    removes: bool,
) -> Vec<Disruption> {
    let mut all = Vec::new();
    // If INITs collide, one that still lists an old address is refused.
    let collides = plan.connects.iter().all(Option::is_some);
    let mover = dice.size(0, 1);
    // Its only path must have been verified.
    let v4 = addresses[mover][0].is_ipv4();
    let alike = addresses[mover].iter().all(|a| a.is_ipv4() == v4);
    let few = addresses[mover].len() <= 2 && alike;
    if dice.chance(0.3) && plan.ending.is_graceful() && !collides && !removes && few {
        let (come, go) = (dice.log_millis(1, 10_000), dice.log_millis(1, 10_000));
        for (after, kind) in [
            (come, DisruptionKind::NewAddress),
            (go, DisruptionKind::OldAddresses),
        ] {
            all.push(Disruption {
                side: mover,
                after,
                kind,
            });
        }
    }
    // Two sides that move simultaneously lose each other: one side moves, with its ports.
    let side = if all.is_empty() {
        dice.size(0, 1)
    } else {
        mover
    };
    let lasts = !matches!(plan.ending, Ending::Restart { .. });
    if plan.encapsulation.is_some() && lasts && dice.chance(0.6) {
        for _ in 0..dice.range(1, 3) {
            all.push(Disruption {
                side,
                after: dice.log_millis(1, 10_000),
                kind: DisruptionKind::Rebinding(dice.pick(&NEW_PORTS)),
            });
        }
    }
    all.sort_by_key(|disruption| disruption.after);
    all
}
