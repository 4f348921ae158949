//! What both sides of a world have in common beyond the plan: shared keys and their changes, the
//! protection of chunks, sessions below SCTP, and upheavals of addresses and ports.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, SharedKey, SharedKeyId};

use super::dice::{Dice, Part};
use super::ledger::KeyBook;
use super::plan::{Ending, Plan, Side};
use super::protection::{KEYS, Sealing};
use super::script::Operation;
use super::sessions::Sessions;
use super::topology::Topology;

/// UDP ports that a translator gives to a host whose mapping it has forgotten.
const NEW_PORTS: [u16; 2] = [40_001, 61_000];

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Extras {
    pub(crate) keys: Option<Keys>,
    /// Which sides offer the protection of chunks; in force where both do.
    pub(crate) offers: [bool; 2],
    /// What the protections of both sides are made of.
    pub(crate) sealing: Sealing,
    pub(crate) sessions: Sessions,
    /// Addresses may change without authentication, on both sides.
    pub(crate) open_addresses: bool,
    /// A side is also found by its tag.
    pub(crate) wildcard: bool,
    /// And tells its addresses by wildcards alone (see [`may_hide`]).
    pub(crate) hidden: bool,
    pub(crate) upheavals: Vec<Upheaval>,
    changes: [Vec<(Duration, u8, Operation)>; 2],
}

/// Endpoint-pair shared keys that are not null.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Those that both sides begin with: 1 and those that follow it.
    configured: u16,
    /// With which each side begins to send.
    pub(crate) active: [u16; 2],
    null_key: bool,
}

/// Something that happens to a side once the association is up, and takes nothing back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upheaval {
    pub(crate) side: Side,
    /// How long after both sides are up.
    pub(crate) after: Duration,
    pub(crate) kind: UpheavalKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UpheavalKind {
    /// Its packets in UDP come from another port, and those to the old port are lost.
    Rebinding(u16),
    /// It gets an address that it had not.
    NewAddress,
    /// It loses all addresses but the new one.
    OldAddresses,
}

impl Extras {
    pub(crate) fn new(seed: u64, plan: &Plan, topology: &Topology) -> Self {
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
        // Who restarts in the clear, or is met out of the blue, is not believed.
        let sealable = !restarts || plan.ending.begins_anew();
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
        let sealing = Sealing::new(dice.range(0, u64::MAX - 1), plan.ending.begins_anew());
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
            hidden: wildcard && may_hide(plan, addresses, removes),
            upheavals: match sessions.any() {
                true => Vec::new(),
                false => upheavals(dice, plan, addresses, removes),
            },
            sessions,
            changes,
        }
    }

    /// Which shared keys the sides begin with.
    pub(crate) fn key_books(&self) -> [KeyBook; 2] {
        [0, 1].map(|side| match &self.keys {
            Some(keys) => KeyBook {
                known: (u16::from(!keys.null_key)..=keys.configured).collect(),
                active: Some(keys.active[side]),
            },
            None => KeyBook::default(),
        })
    }

    /// Whether a side gets new addresses.
    pub(crate) fn moves(&self) -> Option<Side> {
        let of_address = |u: &&Upheaval| u.kind == UpheavalKind::NewAddress;
        self.upheavals.iter().find(of_address).map(|u| u.side)
    }

    /// Chunks are sealed.
    pub(crate) fn seals(&self) -> bool {
        self.offers == [true; 2]
    }

    /// Whether the UDP port of a side changes.
    pub(crate) fn rebinds(&self, side: Side) -> bool {
        let of_port = |u: &Upheaval| matches!(u.kind, UpheavalKind::Rebinding(_));
        self.upheavals.iter().any(|u| u.side == side && of_port(u))
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
        // The peer must know an address that packets leave from.
        if !self.upheavals.is_empty() {
            config.paths.max_paths = 16;
        }
        // Nothing else may ever leave from the new port.
        config.paths.heartbeat |= self.rebinds(side);
        config.security.protection = self.offers[side].then(|| self.sealing.offer(false));
        if self.sessions.sides[side] {
            // As the sessions will want it.
            config.mtu.path_mtu_discovery.get_or_insert_default();
        }
    }

    /// Adds to what a side does in its time.
    pub(crate) fn meddle(&self, side: Side, operations: &mut Vec<(Duration, u8, Operation)>) {
        operations.extend(self.changes[side].iter().copied());
        operations.sort_by_key(|(at, ..)| *at);
        if self.rebinds(side) {
            operations.retain(|o| !matches!(o.2, Operation::SetHeartbeat(false)));
        }
    }
}

impl Keys {
    /// Keys that come, are used and go. After a restart, a side has those of the configuration.
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

/// Whether addresses may be told by wildcards alone. The peer knows then one address, that of the
/// set-up's packets, until an ASCONF tells of another. From a second one, an INIT is that of a stranger,
/// which begins another association (RFC 9260 section 5.2.2): both that connect at once, or one that
/// begins anew, must have no second one. And nothing finds the peer whose only known address goes
/// before it can tell another (RFC 5061 section 4.2: by ASCONF, which needs the association).
fn may_hide(plan: &Plan, addresses: &[Vec<IpAddr>; 2], removes: bool) -> bool {
    let one = addresses.iter().all(|a| a.len() == 1);
    let once = plan.connects.iter().flatten().count() == 1;
    let restarts = matches!(plan.ending, Ending::Restart { .. });
    one || once && !restarts && !removes
}

/// The key of this number, the same on both sides.
pub(crate) fn shared_key(number: u16) -> SharedKey {
    SharedKey {
        id: SharedKeyId(number),
        secret: Bytes::from(vec![number as u8 ^ 0x5a; 1 + usize::from(number) * 11]),
    }
}

fn upheavals(
    dice: &mut Dice,
    plan: &Plan,
    addresses: &[Vec<IpAddr>; 2],
    removes: bool,
) -> Vec<Upheaval> {
    let mut all = Vec::new();
    // Where INITs cross, one that still tells an old address is refused.
    let collides = plan.connects.iter().all(Option::is_some);
    let mover = dice.size(0, 1);
    // Its only way must have been verified.
    let v4 = addresses[mover][0].is_ipv4();
    let alike = addresses[mover].iter().all(|a| a.is_ipv4() == v4);
    let few = addresses[mover].len() <= 2 && alike;
    if dice.chance(0.3) && plan.ending.is_graceful() && !collides && !removes && few {
        let (come, go) = (dice.log_millis(1, 10_000), dice.log_millis(1, 10_000));
        for (after, kind) in [
            (come, UpheavalKind::NewAddress),
            (go, UpheavalKind::OldAddresses),
        ] {
            all.push(Upheaval {
                side: mover,
                after,
                kind,
            });
        }
    }
    // Two that both go elsewhere at once find each other no more: one moves, with its ports.
    let side = if all.is_empty() {
        dice.size(0, 1)
    } else {
        mover
    };
    let lasts = !matches!(plan.ending, Ending::Restart { .. });
    if plan.encapsulation.is_some() && lasts && dice.chance(0.6) {
        for _ in 0..dice.range(1, 3) {
            all.push(Upheaval {
                side,
                after: dice.log_millis(1, 10_000),
                kind: UpheavalKind::Rebinding(dice.pick(&NEW_PORTS)),
            });
        }
    }
    all.sort_by_key(|upheaval| upheaval.after);
    all
}
