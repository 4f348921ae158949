//! Our addresses change: ASCONF and its answer (RFC 5061 sections 5.1 and 5.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{AsconfAck, CauseCode, ChunkType, PacketBuilder, ParameterType};

use super::output::single;
use super::state::State;
use super::{Association, Context};
use crate::error::{AbortCause, OperationError};
use crate::event::{AddressEvent, CloseReason, Event};
use crate::path::PathId;
use crate::reconfig::addresses::{DynamicAddresses, MAX_REQUESTS, Outcome, Sent};
use crate::route::{Route, Transmit};
use crate::time::Time;

impl Association {
    /// The association is established or begins anew; nothing of the peer has been taken yet.
    pub(super) fn start_dynamic_addresses(&mut self, cx: &Context<'_>) {
        self.dynamic = self.extensions.dynamic_addresses.then(|| {
            let mut locals = self.told_locals(None, cx);
            // Those that went meanwhile are deleted with the first ASCONF.
            let only = self.only_told.as_deref();
            let gone = cx.local_addresses.gone(self.told, self.told);
            locals.extend(gone.filter(|a| only.is_none_or(|only| only.contains(a))));
            locals.retain(|a| self.is_in_scope(*a));
            // Those that came while it was set up are told with the first ASCONF.
            let seen = cx.local_addresses.changes().wrapping_sub(1);
            let before_theirs = self.receiver.cumulative_tsn();
            Box::new(DynamicAddresses::new(
                self.local_initial_tsn,
                before_theirs,
                locals,
                seen,
            ))
        });
    }

    /// The local addresses that were advertised to the peer in the set-up, and that are of use on this
    /// route, or on the route of a path.
    pub(super) fn told_locals(&self, route: Option<&Route>, cx: &Context<'_>) -> Vec<IpAddr> {
        let told = cx.local_addresses.told(self.told);
        let only = self.only_told.as_deref();
        let known = told
            .iter()
            .filter(|a| only.is_none_or(|only| only.contains(a)));
        let of_use = |a: &&IpAddr| match route {
            Some(route) => route.has_in_scope(**a),
            None => self.is_in_scope(**a),
        };
        known.filter(of_use).copied().collect()
    }

    /// Whether a local address is of use on the route of a path.
    pub(super) fn is_in_scope(&self, local: IpAddr) -> bool {
        self.paths.iter().any(|p| p.route().has_in_scope(local))
    }

    /// The local addresses that packets of this association may leave from.
    pub(crate) fn locals(&self, cx: &Context<'_>) -> Vec<IpAddr> {
        let Some(dynamic) = &self.dynamic else {
            return self.told_locals(None, cx);
        };
        // One that is being deleted is none any more, even if it has come back (F4).
        let usable = |a: &&IpAddr| dynamic.locals.contains(a) && !self.is_being_deleted(Some(**a));
        let here = cx.local_addresses.all().iter();
        here.filter(usable).copied().collect()
    }

    /// ASCONFs are sent and answered (C4).
    pub(super) fn changes_addresses(&self) -> bool {
        self.state.sends_data() || matches!(self.state, State::ShutdownSent(_))
    }

    /// Nothing but ASCONF may leave, for want of an address that the peer knows.
    pub(super) fn is_stranded(&self) -> bool {
        self.dynamic.as_ref().is_some_and(|d| d.stranded)
    }

    /// A packet to this address belongs to the association, but an ABORT is for what had been there
    /// (F4).
    pub(crate) fn is_being_deleted(&self, local: Option<IpAddr>) -> bool {
        let sent = self.dynamic.as_ref().and_then(|d| d.sent.as_ref());
        sent.is_some_and(|sent| {
            sent.addresses(ParameterType::DELETE_IP_ADDRESS)
                .any(|address| Some(address) == local)
        })
    }

    /// Whether an ASCONF that is not answered adds or deletes this address: nothing else may leave
    /// from it.
    pub(super) fn is_being_changed(&self, local: Option<IpAddr>) -> bool {
        let Some(dynamic) = &self.dynamic else {
            return false;
        };
        let new = |sent: &Sent| {
            let mut added = sent.addresses(ParameterType::ADD_IP_ADDRESS);
            added.any(|a| Some(a) == local && !dynamic.locals.contains(&a))
        };
        // Without another address, what is to leave waits for the answer.
        let added = !dynamic.stranded && dynamic.sent.as_ref().is_some_and(new);
        added || self.is_being_deleted(local)
    }

    /// SET PEER PRIMARY: the peer is asked to send to this address of ours.
    pub(crate) fn set_peer_primary(
        &mut self,
        address: IpAddr,
        cx: &Context<'_>,
    ) -> Result<(), OperationError> {
        let changes = self.changes_addresses();
        let Some(dynamic) = self.dynamic.as_mut().filter(|_| changes) else {
            return Err(OperationError::WrongState);
        };
        if !cx.local_addresses.all().contains(&address) {
            return Err(OperationError::UnknownAddress);
        }
        dynamic.preferred = Some(address);
        Ok(())
    }

    /// Makes an ASCONF of what has changed, unless one waits for its answer (A3).
    fn make_asconf(&mut self, cx: &Context<'_>) {
        let latest = cx.local_addresses.changes();
        let config = Arc::clone(&self.config);
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        let idle = dynamic.seen == latest && !dynamic.more && dynamic.preferred.is_none();
        if idle || dynamic.sent.is_some() {
            return;
        }
        if dynamic.seen != latest {
            dynamic.forget_refusals();
        }
        dynamic.seen = latest;
        dynamic.more = false;
        let family = |a: &IpAddr| self.paths.iter().any(|p| p.remote.is_ipv4() == a.is_ipv4());
        let (add, delete) = (
            ParameterType::ADD_IP_ADDRESS,
            ParameterType::DELETE_IP_ADDRESS,
        );
        let all = cx.local_addresses.all();
        let in_scope = |a: IpAddr| self.paths.iter().any(|p| p.route().has_in_scope(a));
        let fit = |a: &IpAddr| family(a) && in_scope(*a) && !a.is_unspecified();
        if config.wildcard_addresses {
            let fit: Vec<IpAddr> = all.iter().copied().filter(fit).collect();
            return self.make_wildcard_asconf(&fit);
        }
        let mut wanted: Vec<(ParameterType, IpAddr)> = Vec::new();
        let mut vain = None;
        if !dynamic.no_changes {
            let new = all.iter().filter(|a| fit(a) && !dynamic.locals.contains(a));
            wanted.extend(new.map(|a| (add, *a)));
        }
        // One of a family that the peer lacks is none to it.
        let stays = |a: &&IpAddr| all.contains(a) && family(a);
        let kept = dynamic.locals.iter().any(|a| stays(&a));
        wanted.retain(|(kind, a)| !dynamic.was_refused(*kind, *a));
        if let Some(preferred) = dynamic.preferred.take() {
            let known = dynamic.locals.contains(&preferred);
            let known = known || wanted.iter().any(|w| w.1 == preferred);
            if known && !dynamic.no_preference {
                wanted.push((ParameterType::SET_PRIMARY_ADDRESS, preferred));
            } else {
                vain = Some(preferred);
            }
        }
        // F5: the last address goes only together with the coming of another one.
        if (kept || wanted.iter().any(|w| w.0 == add)) && !dynamic.no_changes {
            let gone = dynamic.locals.iter().filter(|a| !all.contains(a));
            let gone = gone.filter(|a| !dynamic.was_refused(delete, **a));
            wanted.extend(gone.map(|a| (delete, *a)));
        }
        if wanted.len() > MAX_REQUESTS {
            // The rest follows when these are answered.
            let mut rest = wanted.split_off(MAX_REQUESTS).into_iter();
            let preferred = rest.find(|w| w.0 == ParameterType::SET_PRIMARY_ADDRESS);
            dynamic.preferred = preferred.map(|w| w.1);
            dynamic.more = true;
        }
        let lookup = dynamic.locals.iter().find(stays);
        let lookup = lookup.or_else(|| dynamic.locals.iter().find(|a| family(a)));
        let lookup = lookup.or(dynamic.locals.first()).or(all.first());
        if let Some(lookup) = lookup.copied().filter(|_| !wanted.is_empty()) {
            dynamic.make(lookup, &wanted, None);
        }
        self.tell_vain_wish(vain);
    }

    /// The peer can't be asked to prefer this address.
    pub(super) fn tell_vain_wish(&mut self, preferred: Option<IpAddr>) {
        if let Some(address) = preferred {
            self.tell_address(AddressEvent::Refused { address, code: 0 });
        }
    }

    /// ASCONF, for the first time or again, alone in its packet.
    pub(super) fn output_asconf(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if self.dynamic.is_none() || !self.changes_addresses() {
            return None;
        }
        self.make_asconf(cx);
        let sent = self.dynamic.as_ref()?.sent.as_ref().filter(|s| s.due)?;
        let (path, source) = self.asconf_route(sent, cx)?;
        let value = sent.value.clone();
        let route = Route {
            local: Some(source),
            ..self.paths[path].route()
        };
        let timer = Some(cx.now + self.paths[path].rto.value());
        let sent = self.dynamic.as_mut()?.sent.as_mut()?;
        sent.due = false;
        sent.timer = timer;
        sent.path = Some(path);
        sent.sends += 1;
        sent.void |= sent.source.is_some_and(|meant| meant != source);
        let mut packet = PacketBuilder::new(buf, self.header(), self.paths[path].packet_size());
        let slot = self.open_auth(&mut packet, &[ChunkType::ASCONF]);
        packet.raw(ChunkType::ASCONF, 0, &value);
        // Who gets it may have to find the association by an address in it (RFC 9653 section 5.2).
        Some(single(route, self.finish_checked(packet, slot)))
    }

    /// Where an ASCONF goes and where it comes from: from an address that the peer knows and that
    /// stays (F6), or else from a new one, of those that it adds if it can (F1).
    fn asconf_route(&self, sent: &Sent, cx: &Context<'_>) -> Option<(PathId, IpAddr)> {
        if let Some(route) = self.wildcard_route(sent, cx) {
            return Some(route);
        }
        let dynamic = self.dynamic.as_ref()?;
        let gone: Vec<IpAddr> = sent.addresses(ParameterType::DELETE_IP_ADDRESS).collect();
        let added: Vec<IpAddr> = sent.addresses(ParameterType::ADD_IP_ADDRESS).collect();
        let all = cx.local_addresses.all().iter();
        let all = all.copied().filter(|a| !gone.contains(a));
        let (known, new): (Vec<IpAddr>, Vec<IpAddr>) =
            all.partition(|a| dynamic.locals.contains(a));
        // One that came later is as good: ASCONF may leave from it, and names an address by which it
        // is known.
        let (added, later): (Vec<IpAddr>, Vec<IpAddr>) =
            new.into_iter().partition(|a| added.contains(a));
        let current = self.paths.current();
        // B4: another destination after a timeout, if there is one.
        let begin = sent
            .path
            .map_or(current, |last| self.paths.next_in_turn(last));
        let others = self.paths.iter().filter(|p| p.confirmed).map(|p| p.id);
        for id in core::iter::once(begin).chain([current]).chain(others) {
            let path = &self.paths[id];
            if !path.confirmed {
                continue;
            }
            if let Some(local) = path.local.filter(|l| known.contains(l)) {
                return Some((id, local));
            }
            let select = |from: &[IpAddr]| cx.selection.select(from, path.remote, None);
            let of_family = |list: &[IpAddr]| -> Vec<IpAddr> {
                let same = |a: &&IpAddr| a.is_ipv4() == path.remote.is_ipv4();
                let of_use = |a: &&IpAddr| same(a) && path.route().has_in_scope(**a);
                list.iter().filter(of_use).copied().collect()
            };
            for list in [&known, &added, &later].map(|list| of_family(list)) {
                let source = select(&list).or(list.first().copied());
                if let Some(source) = source {
                    return Some((id, source));
                }
            }
        }
        None
    }

    pub(super) fn next_asconf_timeout(&self) -> Option<Time> {
        self.dynamic.as_ref()?.sent.as_ref()?.timer
    }

    /// T4-rto expired (B1 to B5).
    pub(super) fn handle_asconf_timer(&mut self, cx: &mut Context<'_>) {
        let sent = self.dynamic.as_mut().and_then(|d| d.sent.as_mut());
        let Some(sent) = sent.filter(|s| s.timer.is_some_and(|at| at <= cx.now)) else {
            return;
        };
        sent.timer = None;
        sent.due = true;
        let Some(path) = sent.path.filter(|p| self.paths.contains(*p)) else {
            return;
        };
        let config = Arc::clone(&self.config);
        self.paths[path].rto.back_off(&config);
        self.on_path_error(path, true, cx);
    }

    /// ASCONF-ACK.
    pub(super) fn on_asconf_ack(&mut self, ack: &AsconfAck<'_>, cx: &mut Context<'_>) {
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        if dynamic.is_illegal(ack) {
            let cause = AbortCause::new(CauseCode::ILLEGAL_ASCONF_ACK.0, b"");
            let reason = CloseReason::AbortedByProtocol(cause.clone());
            return self.abort(reason, &cause, cx);
        }
        let Some((sent, outcomes)) = dynamic.answered(ack) else {
            return;
        };
        self.error_count = 0;
        if let Some(path) = sent.path.filter(|p| self.paths.contains(*p)) {
            self.on_path_alive(path, cx);
        }
        if sent.void {
            self.take_void_answer(&sent, cx);
        } else {
            for outcome in outcomes {
                self.take_outcome(&outcome);
            }
        }
        self.select_sources(None, cx);
        self.choose_path();
    }

    fn take_outcome(&mut self, outcome: &Outcome) {
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        let (kind, address) = (outcome.request.kind, outcome.request.address);
        if let Some(code) = outcome.refused {
            if code == CauseCode::UNRECOGNIZED_PARAMETERS {
                let preference = kind == ParameterType::SET_PRIMARY_ADDRESS;
                dynamic.no_preference |= preference;
                dynamic.no_changes |= !preference;
            }
            if outcome.dragged {
                // It is asked for again without the one that was in its way.
                dynamic.more = true;
                return;
            }
            dynamic.remember_refusal(kind, address);
            let code = code.0;
            self.tell_address(AddressEvent::Refused { address, code });
            return;
        }
        match kind {
            ParameterType::ADD_IP_ADDRESS => {
                if !dynamic.locals.contains(&address) {
                    dynamic.locals.push(address);
                }
                dynamic.gone.retain(|a| *a != address);
                self.tell_address(AddressEvent::LocalAdded(address));
            }
            ParameterType::DELETE_IP_ADDRESS if address.is_unspecified() => {
                dynamic.note_room();
                self.take_wildcard_deletion();
            }
            ParameterType::DELETE_IP_ADDRESS => {
                dynamic.locals.retain(|a| *a != address);
                dynamic.note_room();
                self.tell_address(AddressEvent::LocalRemoved(address));
            }
            _ => self.tell_address(AddressEvent::PreferenceTold(address)),
        }
    }

    /// The peer does not know ASCONF (A9).
    pub(super) fn on_asconf_unknown(&mut self) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.sent = None;
            dynamic.no_changes = true;
            dynamic.no_preference = true;
            self.tell_address(AddressEvent::NotSupported);
        }
    }

    pub(super) fn tell_address(&mut self, event: AddressEvent) {
        if self.events.len() < super::MAX_PEER_EVENTS {
            self.events.push_back(Event::Address(event));
        }
    }
}
