//! Dynamic addresses (RFC 5061): what requests and answers change in paths, data and packets. The
//! state and the rules are in [`addresses`](crate::addresses).
//!
//! [`Association::on_asconf`] processes an ASCONF of the peer in these steps (RFC 5061, section 5.2):
//!
//! 1. Compare its serial number; a retransmitted one gets the kept answer (rules E1, E2, E5).
//! 2. Check each request in order, apply it and write its answer: add, delete, prefer (rules V1 to V3;
//!    section 5.3, rules F7 to F14).
//! 3. Keep the answer (rules V4 and V5), and send it to the source of the ASCONF (rule E6).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Asconf, AsconfAck, CauseCode, ChunkType, PacketBuilder};

use super::output::single;
use super::state::AssociationState;
use super::{Association, Context, Reply};
use crate::addresses::{
    AddressChanges, DynamicAddresses, IllegalAsconfAck, PeerRequestContext, PeerRequests,
    SerialCheck, chunk_value, retain,
};
use crate::auth::ChunkSet;
use crate::error::OperationError;
use crate::event::{AbortCause, AddressEvent, CloseReason, Event};
use crate::path::{PathErrorCause, PathId};
use crate::route::Route;
use crate::transmit::Transmit;

impl Association {
    /// Starts dynamic addresses where they are negotiated, before anything of the peer is processed.
    pub(super) fn start_dynamic_addresses(&mut self, cx: &Context<'_>) {
        self.dynamic = self.extensions.dynamic_addresses.then(|| {
            let mut locals = self.advertised_locals(None, cx).into_owned();
            // The first ASCONF deletes addresses that were removed during the set-up.
            locals.extend(self.advertised.removed(cx.local_addresses));
            locals.retain(|a| self.paths.have_in_scope(*a));
            // It also adds those that were added during the set-up.
            let seen = cx.local_addresses.changes().wrapping_sub(1);
            let before_peer_initial_tsn = self.receiver.cumulative_tsn();
            Box::new(DynamicAddresses::new(
                self.local_initial_tsn,
                before_peer_initial_tsn,
                locals,
                seen,
            ))
        });
    }

    /// Returns the local addresses that were advertised to the peer in the set-up and are in scope on
    /// this route, or on the route of a path.
    pub(super) fn advertised_locals<'l>(
        &self,
        route: Option<&Route>,
        cx: &Context<'l>,
    ) -> Cow<'l, [IpAddr]> {
        let known = self.advertised.present(cx.local_addresses);
        retain(known, |a| match route {
            Some(route) => route.has_in_scope(a),
            None => self.paths.have_in_scope(a),
        })
    }

    /// Returns the local addresses that packets of this association may leave from.
    pub(crate) fn locals<'l>(&self, cx: &Context<'l>) -> Cow<'l, [IpAddr]> {
        match &self.dynamic {
            Some(dynamic) => dynamic.usable_locals(cx.local_addresses).into(),
            None => self.advertised_locals(None, cx),
        }
    }

    /// Returns whether ASCONFs are sent and processed in this state (RFC 5061, section 5.1.1, rule
    /// C4).
    fn changes_addresses(&self) -> bool {
        self.state.sends_data() || matches!(self.state, AssociationState::ShutdownSent(_))
    }

    /// Returns whether no local address is known to the peer; only ASCONF may be sent.
    pub(super) fn has_no_confirmed_local_address(&self) -> bool {
        let dynamic = self.dynamic.as_ref();
        dynamic.is_some_and(|d| d.has_no_confirmed_local())
    }

    /// Returns whether this local address is being deleted at the peer: a packet to it belongs to the
    /// association, but an ABORT answers a packet from before (RFC 5061, sections 5.3, rule F4, and
    /// 5.3.1).
    pub(crate) fn is_being_deleted(&self, local: Option<IpAddr>) -> bool {
        let dynamic = self.dynamic.as_ref();
        dynamic.is_some_and(|d| d.is_being_deleted(local))
    }

    /// Returns whether a wildcard request is adding this local address at a peer that knows another
    /// one.
    pub(crate) fn is_being_added(&self, local: Option<IpAddr>) -> bool {
        let dynamic = self.dynamic.as_ref();
        dynamic.is_some_and(|d| d.is_being_added(local))
    }

    /// Requests that the peer sends to this local address (Set Primary IP Address).
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
        dynamic.request_preference(address);
        Ok(())
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
        let local = cx.local_addresses;
        let wildcards = self.config.paths.wildcard_addresses;
        let dynamic = self.dynamic.as_mut()?;
        if let Some(preferred) = dynamic.create_asconf(local, &self.paths, wildcards) {
            self.events.reject_set_primary(preferred);
        }
        let dynamic = self.dynamic.as_mut()?;
        let asconf = dynamic.transmit(local, &self.paths, cx.selection, cx.now)?;
        let path = &self.paths[asconf.path];
        let route = Route {
            local: Some(asconf.source),
            ..path.route()
        };
        let mut packet = PacketBuilder::new(buf, self.header(), path.packet_size());
        let slot = self
            .auth
            .open(&mut packet, &ChunkSet::of(&[ChunkType::ASCONF]));
        packet.raw(ChunkType::ASCONF, 0, &asconf.value);
        // The receiver may have to find the association by an address in the chunk (RFC 9653 section
        // 5.2).
        Some(single(route, self.auth.finish(packet, slot, false)))
    }

    /// T4-rto expired (RFC 5061, section 5.1, rules B1 to B5).
    pub(super) fn handle_asconf_timer(&mut self, cx: &mut Context<'_>) {
        let dynamic = self.dynamic.as_mut();
        let Some(path) = dynamic.and_then(|d| d.on_timeout(cx.now)) else {
            return;
        };
        if self.paths.contains(path) {
            let waited = self.paths[path].back_off_rto(&self.config);
            self.on_path_error(path, PathErrorCause::ControlUnanswered, Some(waited), cx);
        }
    }

    /// ASCONF-ACK.
    pub(super) fn on_asconf_ack(&mut self, ack: &AsconfAck<'_>, cx: &mut Context<'_>) {
        let Some(dynamic) = &mut self.dynamic else {
            return;
        };
        let answer = match dynamic.on_ack(ack, cx.local_addresses) {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(IllegalAsconfAck) => {
                let cause = AbortCause::new(CauseCode::ILLEGAL_ASCONF_ACK.0, b"");
                let reason = CloseReason::AbortedByProtocol(cause.clone());
                return self.abort(reason, &cause, cx);
            }
        };
        self.liveness.clear_errors();
        if let Some(path) = answer.path.filter(|p| self.paths.contains(*p)) {
            self.on_path_alive(path, cx);
        }
        for event in answer.events {
            self.events.push_limited(Event::Address(event));
        }
        self.select_sources(None, cx);
        self.choose_path(cx.now);
    }

    /// ERROR: the peer does not know ASCONF (RFC 5061, section 5.1, rule A9).
    pub(super) fn on_asconf_unknown(&mut self) {
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.on_unsupported();
            self.events
                .push_limited(Event::Address(AddressEvent::NotSupported));
        }
    }

    /// ASCONF; `first` of its packet. It has been authenticated where that is required (RFC 5061,
    /// section 5.2, rule D5).
    pub(super) fn on_asconf(
        &mut self,
        asconf: &Asconf<'_>,
        route: &Route,
        first: bool,
        cx: &mut Context<'_>,
    ) {
        if !self.changes_addresses() {
            return;
        }
        let Some(dynamic) = &self.dynamic else { return };
        let serial = asconf.serial;
        // 1.
        let answer = match dynamic.check_serial(serial) {
            SerialCheck::Expected => {
                // 2.
                let value = self.answer_requests(asconf, route, cx);
                // 3.
                if let Some(dynamic) = &mut self.dynamic {
                    dynamic.processed(serial, value.clone(), first);
                }
                value
            }
            SerialCheck::Retransmitted => match dynamic.cached_answer(serial) {
                Some(value) => value,
                None => return,
            },
            SerialCheck::OutOfWindow => return,
        };
        self.reply_asconf_ack(route, answer);
    }

    /// Step 2 of an ASCONF: applies its requests and returns the value of the ASCONF-ACK.
    fn answer_requests(
        &mut self,
        asconf: &Asconf<'_>,
        route: &Route,
        cx: &mut Context<'_>,
    ) -> Bytes {
        let mut requests = PeerRequests::new(asconf, route.remote);
        let value = chunk_value(|packet| {
            packet.asconf_ack(asconf.serial, |out| {
                while let Some(request) = requests.next(out) {
                    let locals = self.locals(cx);
                    let Some(dynamic) = &mut self.dynamic else {
                        return;
                    };
                    let request_cx = PeerRequestContext {
                        source: route.remote,
                        paths: &self.paths,
                        locals: &locals,
                        max_paths: self.config.paths.max_paths,
                    };
                    let can_move = |path| self.sender.permits_move(path, &self.paths);
                    let result = dynamic
                        .check_request(request, &request_cx, can_move)
                        .and_then(|changes| self.apply_changes(&changes, route, &locals, cx));
                    requests.answer(result, out);
                }
            });
        });
        cx.stats.malformed_chunks += u64::from(requests.is_malformed());
        value
    }

    /// Applies the changes of a granted request (step 2). A refused one changes nothing.
    fn apply_changes(
        &mut self,
        changes: &AddressChanges,
        route: &Route,
        locals: &[IpAddr],
        cx: &Context<'_>,
    ) -> Result<(), CauseCode> {
        if let Some(address) = changes.add {
            self.add_peer_address(address, route, locals, cx)?;
        }
        for address in &changes.remove {
            self.remove_peer_address(*address, cx);
        }
        if let Some(path) = changes.prefer {
            self.paths.set_primary(path);
            self.events
                .push_limited(Event::Address(AddressEvent::PeerPrefers(path)));
            self.choose_path(cx.now);
        }
        Ok(())
    }

    /// Sends the answer to the source of the ASCONF, known or not (RFC 5061, section 5.2, rule E6).
    fn reply_asconf_ack(&mut self, route: &Route, value: Bytes) {
        if self.replies.is_full() {
            self.counters.other().replies_dropped += 1;
        } else {
            let reply = Reply::AsconfAck(value);
            self.replies.push(route.for_reply(), reply);
        }
    }

    /// Adds a path, which has to be confirmed before it carries data (RFC 5061, section 5.3, rule
    /// F14).
    fn add_peer_address(
        &mut self,
        address: IpAddr,
        route: &Route,
        locals: &[IpAddr],
        cx: &Context<'_>,
    ) -> Result<(), CauseCode> {
        let id = if address == route.remote {
            self.paths.add(route.for_reply(), false, &self.config)
        } else {
            let (selection, paths) = (cx.selection, &mut self.paths);
            paths.add_address(address, route, false, locals, selection, &self.config)
        };
        let path = id.ok_or(CauseCode::RESOURCE_SHORTAGE)?;
        for id in self.paths.ids() {
            if self.paths[id].remote() == address {
                self.paths[id].request_heartbeat();
                self.note_selected_source(id, cx);
            }
        }
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.record_peer_change(None);
        }
        self.events
            .push_limited(Event::Address(AddressEvent::PeerAdded { path, address }));
        Ok(())
    }

    /// Removes the paths to an address of the peer (RFC 5061, section 5.3, rule F13). Data in flight
    /// there is retransmitted at once on the next best path; that is no sign of congestion.
    fn remove_peer_address(&mut self, address: IpAddr, cx: &Context<'_>) {
        let ids: Vec<PathId> = {
            let of_address = self.paths.iter().filter(|p| p.remote() == address);
            of_address.map(|p| p.id()).collect()
        };
        for path in ids {
            let replacement = self.paths.replacement_for(path);
            self.move_data(path, replacement, cx);
            self.paths.remove(path, replacement);
            self.events
                .push_limited(Event::Address(AddressEvent::PeerRemoved { path, address }));
        }
        self.paths.remove_address_without_path(address);
        self.receiver.keep_data_route_if(|r| r.remote != address);
        self.replies.forget_remote(address);
        self.state.keep_answer_if(|r| r.remote != address);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.record_peer_change(Some(address));
        }
        self.choose_path(cx.now);
    }

    /// Completes a fast handover when a path that the peer prefers has been confirmed: the peer is
    /// about to leave the other addresses, so data in flight there is retransmitted at once on this
    /// path, in its own window; that is no sign of congestion. With concurrent transfer each path keeps
    /// its data.
    pub(super) fn complete_handover(&mut self, id: PathId, cx: &Context<'_>) {
        let dynamic = self.dynamic.as_mut();
        let moves = dynamic.is_some_and(|d| d.take_handover(id));
        let concurrent = self
            .config
            .research
            .policies
            .multipath
            .data_route
            .concurrent();
        if !moves || concurrent || self.paths.current() != id {
            return;
        }
        let here = self.paths[id].remote();
        let mut others = self.paths.iter().filter(|p| p.remote() != here);
        if !others.all(|path| self.sender.permits_move(path.id(), &self.paths)) {
            return;
        }
        for other in self.paths.ids().filter(|other| *other != id) {
            self.move_data(other, id, cx);
        }
    }

    /// Marks the data in flight on one path for retransmission on another, or on the same one, except
    /// messages that are abandoned by that.
    pub(super) fn move_data(&mut self, from: PathId, to: PathId, cx: &Context<'_>) {
        self.sender.move_path(from, to, cx.now, &mut self.paths);
        self.report_abandoned();
    }

    /// Forgets the NAT's mapping of a removed local address.
    pub(super) fn forget_local_address(&mut self, address: IpAddr) {
        if self.config.paths.wildcard_addresses
            && let Some(dynamic) = &mut self.dynamic
        {
            dynamic.forget_mapping(address);
        }
    }

    /// Returns the peer's removed addresses if its addresses changed since the last call.
    pub(crate) fn take_peer_address_changes(&mut self) -> Option<Vec<IpAddr>> {
        self.dynamic.as_mut()?.take_peer_changes()
    }
}
