//! Shards: endpoints with one SCTP port and the same local addresses that divide the associations among
//! them, so that each can be driven by another thread.
//!
//! A shard chooses its verification tags so that tag mod number of shards is its index. The tag of a packet
//! then names the shard of its association, whatever address and UDP port the packet comes from. Two packets
//! have no such tag: an INIT, and an ABORT or SHUTDOWN COMPLETE with the T bit. Their shard is that of the
//! association at their source, in a table that all shards share. The limits of the endpoint are counted
//! there, too. Packets of established associations do not touch the table.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;

use carrick_wire::{Chunk, ChunkType, Packet, VerificationTag};

use super::icmp::{IcmpInput, initiate_tag};
use super::input::{MAX_LOOKUPS, leading_chunk, reflects_tag};
use super::peer_index::{Key, PeerEntry};
use super::source_table::SourceKey;
use crate::association::ip_addresses;
use crate::error::ConfigError;
use crate::random::Random;
use crate::route::{PeerAddress, Route};

/// Place of an endpoint among the shards of one.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Index of this shard, less than `count`.
    pub index: u32,
    /// Number of shards.
    pub count: u32,
    /// Table of all shards.
    pub table: Arc<dyn SharedTable>,
}

/// Exclusive access to the table of all shards, such as a mutex.
pub trait SharedTable: fmt::Debug + Send + Sync {
    /// Calls `work` once with the table, while no other call does.
    fn with(&self, work: &mut dyn FnMut(&mut ShardTable));
}

/// Peers and numbers of the associations of all shards.
#[derive(Debug, Default)]
pub struct ShardTable {
    /// Addresses of peers with their SCTP port, and the shard and slot of the association.
    peers: BTreeMap<(IpAddr, u16, u32, u32), SharedEntry>,
    associations: usize,
    /// Numbers of associations that peers have initiated, by source.
    accepted: BTreeMap<SourceKey, usize>,
}

/// Association at an address of its peer.
#[derive(Clone, Copy, Debug)]
struct SharedEntry {
    /// Destination UDP port of packets to this address; `None` on plain IP.
    encapsulation: Option<u16>,
    confirmed: bool,
}

impl From<&PeerEntry> for SharedEntry {
    fn from(entry: &PeerEntry) -> Self {
        Self {
            encapsulation: entry.encapsulation,
            confirmed: entry.confirmed,
        }
    }
}

/// Slot of the entries of an association that is being added.
const CLAIM: u32 = u32::MAX;

/// Association that is to be added.
pub(super) struct NewAssociation<'a> {
    /// Addresses by which its peer is known, with their encapsulation.
    pub(super) addresses: &'a [PeerAddress],
    /// Number of addresses at the beginning that are confirmed from the beginning (RFC 9260, section 5.4).
    pub(super) confirmed: usize,
    /// Further addresses that the peer advertises, with the encapsulation of the first one.
    pub(super) advertised: &'a [IpAddr],
    /// SCTP port of the peer.
    pub(super) port: u16,
    pub(super) source: SourceKey,
    /// The peer initiated it.
    pub(super) accepted: bool,
    /// It is refused if an association with a peer at one of these addresses exists.
    pub(super) is_exclusive: bool,
}

impl NewAssociation<'_> {
    /// Returns the addresses that are confirmed from the beginning.
    pub(super) fn claimed(&self) -> &[PeerAddress] {
        &self.addresses[..self.confirmed.min(self.addresses.len())]
    }
}

/// Reason why an association is not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// An association with this peer exists.
    Connected,
    /// A limit of associations is reached.
    Limit,
}

impl ShardTable {
    fn at(&self, Key(address, port): Key) -> impl Iterator<Item = (u32, SharedEntry)> + '_ {
        let all = (address, port, 0, 0)..=(address, port, u32::MAX, u32::MAX);
        self.peers.range(all).map(|(key, entry)| (key.2, *entry))
    }

    /// Returns the shard with an association in which this address is confirmed and has this encapsulation.
    fn confirmed(&self, peer: Key, encapsulation: Option<u16>) -> Option<u32> {
        let mut all = self.at(peer);
        all.find(|(_, entry)| entry.confirmed && entry.encapsulation == encapsulation)
            .map(|(shard, _)| shard)
    }

    /// Returns the shard with an association at this address: one with this encapsulation, confirmed or
    /// not, or else any.
    fn any(&self, peer: Key, encapsulation: Option<u16>) -> Option<u32> {
        let rank = |entry: &SharedEntry| (entry.encapsulation != encapsulation, !entry.confirmed);
        let best = self.at(peer).min_by_key(|(_, entry)| rank(entry));
        best.map(|(shard, _)| shard)
    }
}

impl Shard {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.index >= self.count {
            return Err(ConfigError("shard: the index must be less than the count"));
        }
        Ok(())
    }

    /// Returns the index of the shard that processes a datagram which arrived on `route`: by its first
    /// chunk and its verification tag,
    ///
    /// 1. for an INIT, that of the association with its sender, as RFC 9260, section 5.2, finds it: by the
    ///    source address and the addresses in the INIT; without an association that of its Initiate Tag,
    ///    which spreads new peers;
    /// 2. for ABORT and SHUTDOWN COMPLETE with the T bit (section 8.5.1 B and C), that of the association at
    ///    the source address, or this one;
    /// 3. for all others that of the tag.
    pub fn of_datagram(&self, route: &Route, datagram: &[u8]) -> u32 {
        let Some(&[source, source_low, _, _, t0, t1, t2, t3, ..]) = datagram.first_chunk::<14>()
        else {
            return self.index;
        };
        let tag = u32::from_be_bytes([t0, t1, t2, t3]);
        let kind = ChunkType(datagram[12]);
        let may_reflect = matches!(
            kind,
            ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE | ChunkType::AUTH
        );
        if tag != 0 && !may_reflect {
            return tag % self.count;
        }
        let Ok(packet) = Packet::parse(datagram) else {
            return self.index;
        };
        let Some(Ok(first)) = leading_chunk(&packet) else {
            return self.index;
        };
        let port = u16::from_be_bytes([source, source_low]);
        let remote = Key(route.remote, port);
        if tag != 0 && !reflects_tag(&first) {
            return tag % self.count;
        }
        let mut found = None;
        if tag != 0 {
            self.table
                .with(&mut |table| found = table.any(remote, route.encapsulation));
        } else if let Ok(Chunk::Init(init)) = Chunk::parse(first) {
            self.table.with(&mut |table| {
                let listed = ip_addresses(init.parameters()).take(MAX_LOOKUPS);
                let mut all = core::iter::once(route.remote).chain(listed);
                found = all
                    .find_map(|a| table.confirmed(Key(a, port), route.encapsulation))
                    .or(Some(init.tag.0 % self.count));
            });
        }
        found.unwrap_or(self.index)
    }

    /// Returns the index of the shard that processes an ICMP message: that of the Initiate Tag of a quoted
    /// INIT, or else that of the association at the address of the quoted packet; without one, this one.
    pub fn of_icmp(&self, icmp: &IcmpInput<'_>) -> u32 {
        let Some(&[_, _, high, low, tag @ ..]) = icmp.quoted.first_chunk::<8>() else {
            return self.index;
        };
        if tag == [0; 4] {
            return initiate_tag(icmp.quoted).map_or(self.index, |tag| tag.0 % self.count);
        }
        let peer = Key(icmp.remote, u16::from_be_bytes([high, low]));
        let mut found = None;
        self.table
            .with(&mut |table| found = table.any(peer, icmp.encapsulation));
        found.unwrap_or(self.index)
    }

    /// Returns whether another association than that of `slot` in this shard has confirmed one of the listed
    /// addresses, with the same encapsulation, and its peer has the address `source`.
    pub(super) fn has_same_peer(
        &self,
        slot: u32,
        Key(source, port): Key,
        mut listed: impl Iterator<Item = PeerAddress>,
    ) -> bool {
        let mut found = false;
        self.table.with(&mut |table| {
            found = listed.any(|peer| {
                let all = (peer.address, port, 0, 0)..=(peer.address, port, u32::MAX, u32::MAX);
                table
                    .peers
                    .range(all)
                    .any(|(&(_, _, shard, other), entry)| {
                        entry.confirmed
                            && entry.encapsulation == peer.encapsulation
                            && (shard, other) != (self.index, slot)
                            && table.peers.contains_key(&(source, port, shard, other))
                    })
            });
        });
        found
    }

    /// Claims the addresses of a new association, and its place among those of all shards.
    ///
    /// # Errors
    /// Another shard has an association with the peer, or `most` in all or `per_source` of its source exist.
    pub(super) fn claim(
        &self,
        new: &NewAssociation<'_>,
        (most, per_source): (usize, usize),
    ) -> Result<(), Refusal> {
        let mut claimed = Ok(());
        self.table.with(&mut |table| {
            let advertised = new.advertised.iter().map(|address| PeerAddress {
                address: *address,
                encapsulation: new.addresses[0].encapsulation,
            });
            let mut all = new.addresses.iter().copied().chain(advertised);
            let is_taken = |peer: PeerAddress| {
                let key = Key(peer.address, new.port);
                table.confirmed(key, peer.encapsulation).is_some()
            };
            if new.is_exclusive && all.any(is_taken) {
                claimed = Err(Refusal::Connected);
                return;
            }
            let from_source = table.accepted.get(&new.source).copied().unwrap_or(0);
            if table.associations >= most || new.accepted && from_source >= per_source {
                claimed = Err(Refusal::Limit);
                return;
            }
            table.associations += 1;
            if new.accepted {
                table.accepted.insert(new.source, from_source + 1);
            }
            for peer in new.claimed() {
                let entry = SharedEntry {
                    encapsulation: peer.encapsulation,
                    confirmed: true,
                };
                let key = (peer.address, new.port, self.index, CLAIM);
                table.peers.insert(key, entry);
            }
        });
        claimed
    }

    /// Ends the claims of an association that has been added.
    pub(super) fn end_claim(&self, new: &NewAssociation<'_>) {
        self.table.with(&mut |table| {
            for peer in new.claimed() {
                let key = (peer.address, new.port, self.index, CLAIM);
                table.peers.remove(&key);
            }
        });
    }

    /// Ends the place of an association that has been removed.
    pub(super) fn release(&self, source: SourceKey, accepted: bool) {
        self.table.with(&mut |table| {
            table.associations -= 1;
            if accepted && let Some(count) = table.accepted.get_mut(&source) {
                *count -= 1;
                if *count == 0 {
                    table.accepted.remove(&source);
                }
            }
        });
    }

    /// Replaces the entries of an association: `removed` are those it has had.
    pub(super) fn update(
        &self,
        (port, slot): (u16, u32),
        removed: &[IpAddr],
        added: &[(IpAddr, PeerEntry)],
    ) {
        let key = |address| (address, port, self.index, slot);
        self.table.with(&mut |table| {
            for address in removed {
                table.peers.remove(&key(*address));
            }
            for (address, entry) in added {
                table.peers.insert(key(*address), entry.into());
            }
        });
    }
}

/// Chooses a verification tag: random and not zero (RFC 9260, section 5.3.1), of this shard if there is one.
pub(super) fn choose_tag(random: &mut Random, shard: Option<&Shard>) -> VerificationTag {
    loop {
        let tag = random.nonzero_u32();
        if shard.is_none_or(|shard| tag % shard.count == shard.index) {
            return VerificationTag(tag);
        }
    }
}
