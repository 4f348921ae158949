//! ASCONFs of this side behind a NAT: it does not know the addresses that the peer sees, so requests
//! contain the wildcard, which stands for the source address of the packet (RFC 6951 section 5.7,
//! RFC 5061 sections 4.2.1, 4.2.2 and 4.2.4).
//!
//! Each address is added by a separate ASCONF that is sent from it. The wildcard deletes all
//! addresses but the source, so it is sent when at most one address is to remain; of several, the
//! peer's heartbeats show which ones work.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use carrick_wire::{CauseCode, ParameterType};

use super::local_requests::PendingAsconf;
use super::{DynamicAddresses, LocalAddresses};
use crate::event::AddressEvent;
use crate::path::{PathId, Paths};

/// Transmissions of an ASCONF from an address that the peer does not know while it knows another:
/// not every address of a host leads to every peer.
const MAX_TRANSMISSIONS: usize = 3;

/// Removed local addresses that the peer may still use.
const MAX_STALE: usize = 64;

/// Stands for all addresses in a request to delete.
const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl DynamicAddresses {
    /// Creates the next ASCONF with wildcards, if one is needed; `usable` are the local addresses in
    /// scope. Returns the address that the user prefers if the peer can't be asked for it.
    pub(super) fn create_wildcard_asconf(&mut self, usable: &[IpAddr]) -> Option<IpAddr> {
        let requested = self.preferred.take();
        let preferred = requested.filter(|a| usable.contains(a) && !self.no_preference);
        let (kept, mut new): (Vec<IpAddr>, Vec<IpAddr>) =
            usable.iter().partition(|a| self.locals.contains(a));
        let (add, delete) = (
            ParameterType::ADD_IP_ADDRESS,
            ParameterType::DELETE_IP_ADDRESS,
        );
        new.retain(|a| !self.no_changes && !self.was_refused(add, *a));
        let preferred = preferred.filter(|a| kept.contains(a) || new.contains(a));
        let deletes = !self.stale.is_empty() && !self.no_changes && !self.was_refused(delete, ALL);
        let first = preferred.filter(|a| new.contains(a));
        let mut requests: Vec<(ParameterType, IpAddr)> = Vec::new();
        let source = match (&kept[..], first.or(new.first().copied())) {
            ([only], _) if deletes => *only,
            (_, Some(new)) => {
                requests.push((add, new));
                new
            }
            (_, None) => match preferred {
                Some(known) if kept.contains(&known) => known,
                _ => return requested,
            },
        };
        if preferred == Some(source) {
            requests.push((ParameterType::SET_PRIMARY_ADDRESS, source));
        }
        if deletes && kept.iter().all(|a| *a == source) {
            requests.push((delete, ALL));
        }
        // The other addresses follow after the answer.
        self.preferred = preferred.filter(|a| *a != source);
        self.recheck = true;
        self.create(source, &requests, Some(source));
        requested.filter(|_| preferred.is_none())
    }

    /// Chooses the path of an ASCONF with wildcards, which leaves from the address that they stand
    /// for. Returns `None` if that address is gone or does not seem to lead to the peer: then the
    /// ASCONF leaves from another address, only to be answered.
    pub(super) fn wildcard_route(
        &self,
        pending: &PendingAsconf,
        local: &LocalAddresses,
        paths: &Paths,
    ) -> Option<(PathId, IpAddr)> {
        let source = pending.source?;
        let others = self.locals.iter().any(|a| *a != source);
        let tried = pending.transmissions >= MAX_TRANSMISSIONS.max(paths.len() + 1);
        let unreachable = tried && others && !self.locals.contains(&source);
        if unreachable || !local.all().contains(&source) {
            return None;
        }
        let current = paths.current();
        let begin = pending
            .path
            .map_or(current, |last| paths.next_in_turn(last));
        let mut candidates = core::iter::once(begin).chain([current]).chain(paths.ids());
        let is_usable = |id: &PathId| {
            let path = &paths[*id];
            path.is_confirmed() && path.remote().is_ipv4() == source.is_ipv4()
        };
        candidates.find(is_usable).map(|id| (id, source))
    }

    /// Returns whether this address is being added at a peer that knows another one. An ABORT with
    /// the peer's own tag then shows only that the peer finds no association by its tag.
    pub(crate) fn is_being_added(&self, local: Option<IpAddr>) -> bool {
        let source = self.pending.as_ref().and_then(|pending| pending.source);
        source.is_some_and(|source| {
            let known = self.locals.contains(&source);
            Some(source) == local && !known && !self.locals.is_empty()
        })
    }

    /// Forgets a removed local address. If it comes back, the NAT may map it to another address.
    pub(crate) fn forget_mapping(&mut self, address: IpAddr) {
        let pending = self.pending.as_mut();
        if let Some(pending) = pending.filter(|p| p.source == Some(address)) {
            pending.ambiguous = true;
        }
        if self.locals.contains(&address) {
            self.locals.retain(|a| *a != address);
            self.record_stale(address);
        }
    }

    /// Processes the answer to an ASCONF whose wildcards may have stood for several addresses:
    /// neither a grant nor a refusal can be attributed to one.
    pub(super) fn on_ambiguous_answer(
        &mut self,
        pending: &PendingAsconf,
        local: &LocalAddresses,
        events: &mut Vec<AddressEvent>,
    ) {
        self.recheck = true;
        let mut refused = Vec::new();
        for request in &pending.requests {
            let (kind, address) = (request.kind, request.address);
            let exists = local.all().contains(&address);
            if kind == ParameterType::ADD_IP_ADDRESS && !exists {
                self.record_stale(address);
            } else if kind != ParameterType::DELETE_IP_ADDRESS {
                self.record_refusal(kind, address);
                refused.push(address);
            }
        }
        refused.dedup();
        let code = CauseCode(0).0;
        events.extend(
            refused
                .into_iter()
                .map(|address| AddressEvent::Refused { address, code }),
        );
    }

    fn record_stale(&mut self, address: IpAddr) {
        if self.stale.len() < MAX_STALE && !self.stale.contains(&address) {
            self.stale.push(address);
        }
    }
}
