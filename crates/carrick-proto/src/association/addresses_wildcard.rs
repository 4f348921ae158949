//! Behind a NAT this side does not know the addresses that its peer sees: no packet holds one, and
//! the source address of an ASCONF stands for the one that it is about (RFC 6951 section 5.7, RFC
//! 5061 sections 4.2.1, 4.2.2 and 4.2.4).
//!
//! So each address is told by an ASCONF of its own that leaves from it. The wildcard deletes all
//! addresses but the source, so it goes when one at most is to stay; of several, the peer finds out
//! by its heartbeats which work.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use carrick_wire::{CauseCode, ParameterType};

use super::{Association, Context};
use crate::event::AddressEvent;
use crate::path::PathId;
use crate::reconfig::addresses::{DynamicAddresses, Sent};

/// How often an ASCONF leaves from an address that the peer does not know while it knows another:
/// not every address of a host leads to every peer.
const MAX_SENDS: usize = 3;

/// Addresses that went without the peer having been told, by name.
const MAX_GONE: usize = 64;

/// Stands for all addresses in a request that deletes.
const ALL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Association {
    /// Makes the next ASCONF with wildcards, if there is something to tell.
    pub(super) fn make_wildcard_asconf(&mut self, fit: &[IpAddr]) {
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        let wish = dynamic.preferred.take();
        let preferred = wish.filter(|a| fit.contains(a) && !dynamic.no_preference);
        let (kept, mut new): (Vec<IpAddr>, Vec<IpAddr>) =
            fit.iter().partition(|a| dynamic.locals.contains(a));
        let (add, delete) = (
            ParameterType::ADD_IP_ADDRESS,
            ParameterType::DELETE_IP_ADDRESS,
        );
        new.retain(|a| !dynamic.no_changes && !dynamic.was_refused(add, *a));
        let preferred = preferred.filter(|a| kept.contains(a) || new.contains(a));
        let stale =
            !dynamic.gone.is_empty() && !dynamic.no_changes && !dynamic.was_refused(delete, ALL);
        let first = preferred.filter(|a| new.contains(a));
        let mut wanted: Vec<(ParameterType, IpAddr)> = Vec::new();
        let source = match (&kept[..], first.or(new.first().copied())) {
            ([only], _) if stale => *only,
            (_, Some(new)) => {
                wanted.push((add, new));
                new
            }
            (_, None) => match preferred {
                Some(known) if kept.contains(&known) => known,
                _ => return self.tell_vain_wish(wish),
            },
        };
        if preferred == Some(source) {
            wanted.push((ParameterType::SET_PRIMARY_ADDRESS, source));
        }
        if stale && kept.iter().all(|a| *a == source) {
            wanted.push((delete, ALL));
        }
        // The others have their turn when this one is answered.
        dynamic.preferred = preferred.filter(|a| *a != source);
        dynamic.more = true;
        dynamic.make(source, &wanted, Some(source));
        self.tell_vain_wish(wish.filter(|_| preferred.is_none()));
    }

    /// Where an ASCONF with wildcards goes, from the address that they stand for. `None` if that is
    /// gone, or does not seem to lead to the peer: then it leaves from another one, so that it is
    /// answered, and means nothing.
    pub(super) fn wildcard_route(&self, sent: &Sent, cx: &Context<'_>) -> Option<(PathId, IpAddr)> {
        let source = sent.source?;
        let dynamic = self.dynamic.as_ref()?;
        let others = dynamic.locals.iter().any(|a| *a != source);
        let tried = sent.sends >= MAX_SENDS.max(self.paths.len() + 1);
        let gives_up = tried && others && !dynamic.locals.contains(&source);
        if gives_up || !cx.local_addresses.all().contains(&source) {
            return None;
        }
        let current = self.paths.current();
        let begin = sent
            .path
            .map_or(current, |last| self.paths.next_in_turn(last));
        let others = self.paths.ids();
        let mut all = core::iter::once(begin).chain([current]).chain(others);
        let fit = |id: &PathId| {
            let path = &self.paths[*id];
            path.confirmed && path.remote.is_ipv4() == source.is_ipv4()
        };
        all.find(fit).map(|id| (id, source))
    }

    /// Whether this address is being told to a peer that knows another one. An ABORT with the peer's
    /// own tag then says only that it finds no association by its tag.
    pub(crate) fn is_being_told(&self, local: Option<IpAddr>) -> bool {
        let Some(dynamic) = &self.dynamic else {
            return false;
        };
        let source = dynamic.sent.as_ref().and_then(|sent| sent.source);
        source.is_some_and(|source| {
            let known = dynamic.locals.contains(&source);
            Some(source) == local && !known && !dynamic.locals.is_empty()
        })
    }

    /// A local address is gone. If it comes back, the NAT may show it as another one.
    pub(super) fn forget_local_address(&mut self, address: IpAddr) {
        if !self.config.wildcard_addresses {
            return;
        }
        if let Some(dynamic) = &mut self.dynamic {
            if let Some(sent) = dynamic.sent.as_mut().filter(|s| s.source == Some(address)) {
                sent.void = true;
            }
            if dynamic.locals.contains(&address) {
                dynamic.locals.retain(|a| *a != address);
                dynamic.note_gone(address);
            }
        }
    }

    /// The answer to an ASCONF of which nobody knows what its wildcards stood for.
    pub(super) fn take_void_answer(&mut self, sent: &Sent, cx: &Context<'_>) {
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        dynamic.more = true;
        let mut refused = Vec::new();
        for request in &sent.requests {
            let (kind, address) = (request.kind, request.address);
            let here = cx.local_addresses.all().contains(&address);
            if kind == ParameterType::ADD_IP_ADDRESS && !here {
                dynamic.note_gone(address);
            } else if kind != ParameterType::DELETE_IP_ADDRESS {
                dynamic.remember_refusal(kind, address);
                refused.push(address);
            }
        }
        refused.dedup();
        for address in refused {
            let code = CauseCode(0).0;
            self.tell_address(AddressEvent::Refused { address, code });
        }
    }

    /// The peer has deleted all addresses but one.
    pub(super) fn take_wildcard_deletion(&mut self) {
        let gone = self.dynamic.as_mut().map(|d| core::mem::take(&mut d.gone));
        for address in gone.into_iter().flatten() {
            self.tell_address(AddressEvent::LocalRemoved(address));
        }
    }
}

impl DynamicAddresses {
    /// The peer has this address and should not.
    fn note_gone(&mut self, address: IpAddr) {
        if self.gone.len() < MAX_GONE && !self.gone.contains(&address) {
            self.gone.push(address);
        }
    }
}
