//! The peer's addresses change: ASCONF is judged and answered (RFC 5061 sections 5.2 and 5.3).

use alloc::sync::Arc;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{
    Asconf, AsconfParameter, CauseCode, CauseWriter, Parameter, ParameterType, ParameterWriter,
};

use super::handshake::is_own_address;
use super::{Association, Context, MAX_REPLIES, Reply};
use crate::event::AddressEvent;
use crate::path::PathId;
use crate::reconfig::addresses::{Turn, chunk_value};
use crate::route::Route;

/// Requests of one ASCONF that are looked at; a packet of 1500 bytes has fewer.
const MAX_LOOKED_AT: usize = 128;

/// Bytes of a Success Indication behind its header.
const SUCCESS_LEN: usize = 4;

/// Why a request is refused.
type Refusal = CauseCode;

impl Association {
    /// ASCONF; `first` of its packet. It has been authenticated where that is required (D5).
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
        let answer = match dynamic.turn(serial) {
            Turn::Next => {
                let mut answers = Answers::default();
                let value = chunk_value(|packet| {
                    packet.asconf_ack(serial, |out| {
                        self.take_requests(asconf, route, &mut answers, out, cx)
                    });
                });
                if let Some(dynamic) = &mut self.dynamic {
                    dynamic.processed(serial, value.clone(), first);
                }
                value
            }
            Turn::Replay => match dynamic.cached(serial) {
                Some(value) => value,
                None => return,
            },
            Turn::Wrong => return,
        };
        self.reply_asconf_ack(route, answer);
    }

    /// E6: to where the ASCONF came from, known or not.
    fn reply_asconf_ack(&mut self, route: &Route, value: Bytes) {
        if self.replies.len() < MAX_REPLIES {
            let reply = Reply::AsconfAck(value);
            self.replies.push_back((route.for_reply(), reply));
        } else {
            self.counters.replies_dropped += 1;
        }
    }

    /// V1 to V3: in their order, until one that can't be read.
    fn take_requests(
        &mut self,
        asconf: &Asconf<'_>,
        route: &Route,
        answers: &mut Answers,
        out: &mut ParameterWriter<'_>,
        cx: &mut Context<'_>,
    ) {
        for request in asconf.parameters().take(MAX_LOOKED_AT) {
            if answers.overflow || answers.failed && !out.fits(SUCCESS_LEN) {
                // What can't be answered must not be done: it counts as refused (A7).
                break;
            }
            let Ok(request) = request else {
                cx.stats.malformed_chunks += 1;
                break;
            };
            match self.take_request(&request, route, answers, cx) {
                Ok(()) => answers.granted(&request, out),
                Err(Judgement::Refused(code)) => answers.refused(&request, code, out),
                Err(Judgement::Unknown) => {
                    let action = request.raw.kind.unknown_action();
                    if action.reports() {
                        let code = CauseCode::UNRECOGNIZED_PARAMETERS;
                        answers.refused(&request, code, out);
                    }
                    if !action.continues() {
                        break;
                    }
                }
                Err(Judgement::Malformed) => {
                    cx.stats.malformed_chunks += 1;
                    break;
                }
            }
        }
    }

    fn take_request(
        &mut self,
        request: &AsconfParameter<'_>,
        route: &Route,
        answers: &mut Answers,
        cx: &mut Context<'_>,
    ) -> Result<(), Judgement> {
        let known = [
            ParameterType::ADD_IP_ADDRESS,
            ParameterType::DELETE_IP_ADDRESS,
            ParameterType::SET_PRIMARY_ADDRESS,
        ];
        if !known.contains(&request.raw.kind) {
            return Err(Judgement::Unknown);
        }
        let parsed = Parameter::parse(request.raw).map_err(|_| Judgement::Malformed)?;
        let (wildcard, source) = (IpAddr::is_unspecified, route.remote);
        let meant = |address: IpAddr| if wildcard(&address) { source } else { address };
        let done = match parsed {
            Parameter::SetPrimaryAddress(r) => {
                let done = self.prefer(meant(r.address));
                return done.map_err(Judgement::Refused);
            }
            // F11: once one was refused, so are all behind it. This cause says the least of them.
            _ if answers.no_changes => Err(CauseCode::RESOURCE_SHORTAGE),
            Parameter::AddIpAddress(r) => self.add_peer_address(meant(r.address), route, cx),
            Parameter::DeleteIpAddress(r) if wildcard(&r.address) => self.keep_only(source, cx),
            Parameter::DeleteIpAddress(r) => self.delete_peer_address(r.address, source, cx),
            _ => return Err(Judgement::Unknown),
        };
        answers.no_changes |= done.is_err();
        done.map_err(Judgement::Refused)
    }

    /// A path that has to be verified before it carries anything (F14).
    fn add_peer_address(
        &mut self,
        address: IpAddr,
        route: &Route,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let locals = self.locals(cx);
        let reachable =
            locals.is_empty() || locals.iter().any(|a| a.is_ipv4() == address.is_ipv4());
        if !is_own_address(address, route.remote) || !reachable {
            return Err(CauseCode::UNRESOLVABLE_ADDRESS);
        }
        if self.paths.iter().any(|p| p.remote == address) {
            return Ok(());
        }
        let config = Arc::clone(&self.config);
        if self.paths.len() >= config.max_paths {
            return Err(CauseCode::RESOURCE_SHORTAGE);
        }
        let id = if address == route.remote {
            self.paths.add(route.for_reply(), false, &config)
        } else {
            let (selection, paths) = (cx.selection, &mut self.paths);
            paths.add_address(address, route, false, &locals, selection, &config)
        };
        let path = id.ok_or(CauseCode::RESOURCE_SHORTAGE)?;
        for id in self.paths.ids() {
            if self.paths[id].remote == address {
                self.paths[id].heartbeat.requested = true;
                self.note_selected_source(id, cx);
            }
        }
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.note_change(None);
        }
        self.tell_address(AddressEvent::PeerAdded { path, address });
        Ok(())
    }

    fn delete_peer_address(
        &mut self,
        address: IpAddr,
        source: IpAddr,
        cx: &Context<'_>,
    ) -> Result<(), Refusal> {
        if !self.paths.knows(address) {
            return Err(CauseCode::UNRESOLVABLE_ADDRESS);
        }
        if !self.paths.iter().any(|p| p.remote != address) {
            return Err(CauseCode::DELETE_LAST_ADDRESS);
        }
        if address == source {
            return Err(CauseCode::DELETE_SOURCE_ADDRESS);
        }
        if !self.affords_move(|remote| remote == address) {
            return Err(CauseCode::RESOURCE_SHORTAGE);
        }
        self.forget_peer_address(address, cx);
        Ok(())
    }

    /// The wildcard deletes all addresses but the one that the packet came from (section 4.2.2).
    fn keep_only(&mut self, source: IpAddr, cx: &Context<'_>) -> Result<(), Refusal> {
        if !self.paths.iter().any(|p| p.remote == source) {
            return Err(CauseCode::DELETE_LAST_ADDRESS);
        }
        if !self.affords_move(|remote| remote != source) {
            return Err(CauseCode::RESOURCE_SHORTAGE);
        }
        let others: alloc::vec::Vec<IpAddr> =
            self.paths.remotes().filter(|a| *a != source).collect();
        for other in others {
            self.forget_peer_address(other, cx);
        }
        Ok(())
    }

    /// Whether the data of the paths to these addresses may go elsewhere once more.
    fn affords_move(&self, to: impl Fn(IpAddr) -> bool) -> bool {
        let mut paths = self.paths.iter().filter(|p| to(p.remote));
        paths.all(|path| self.sender.affords_move(path.id, &self.paths))
    }

    /// F13: the address is the association's no more. What was in flight there leaves again at
    /// once, on the path that is the next best; that is no sign of congestion.
    fn forget_peer_address(&mut self, address: IpAddr, cx: &Context<'_>) {
        let ids: alloc::vec::Vec<PathId> = {
            let of_address = self.paths.iter().filter(|p| p.remote == address);
            of_address.map(|p| p.id).collect()
        };
        for path in ids {
            let heir = self.paths.heir(path);
            self.move_data(path, heir, cx);
            self.paths.remove(path, heir);
            self.tell_address(AddressEvent::PeerRemoved { path, address });
        }
        self.paths.forget(address);
        self.data_route = self.data_route.filter(|r| r.remote != address);
        self.replies.retain(|(route, _)| route.remote != address);
        self.forget_ending_route(address);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.note_change(Some(address));
        }
        self.choose_path();
    }

    /// Advice that is taken (section 5.4). An address that is not verified yet gets the data as soon
    /// as it is, with what is outstanding then.
    fn prefer(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let path = self.paths.iter().find(|p| p.remote == address);
        let path = path.ok_or(CauseCode::UNRESOLVABLE_ADDRESS)?;
        let (path, verified) = (path.id, path.confirmed);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.handover = (!verified).then_some(path);
        }
        self.paths.set_primary(path);
        self.tell_address(AddressEvent::PeerPrefers(path));
        self.choose_path();
        Ok(())
    }
}

/// Fast handover: a peer that prefers a new address is about to leave the old one, whether it says so
/// or not.
impl Association {
    /// A path has been verified. If the peer moves there, what is in flight elsewhere leaves again at
    /// once on it, in a window of its own; that is no sign of congestion. Where all paths carry data,
    /// each keeps its own.
    pub(super) fn complete_handover(&mut self, id: PathId, cx: &Context<'_>) {
        let dynamic = self.dynamic.as_mut();
        let moves = dynamic.is_some_and(|d| d.handover.take_if(|path| *path == id).is_some());
        let everywhere = self.config.policies.multipath.data_route.concurrent();
        if !moves || everywhere || self.paths.current() != id {
            return;
        }
        let here = self.paths[id].remote;
        if !self.affords_move(|remote| remote != here) {
            return;
        }
        for other in self.paths.ids().filter(|other| *other != id) {
            self.move_data(other, id, cx);
        }
    }

    /// What is in flight on one path leaves again at once on another one, or anew on the same, but for
    /// what its user would rather have given up.
    pub(super) fn move_data(&mut self, from: PathId, to: PathId, cx: &Context<'_>) {
        self.sender.move_path(from, to, cx.now, &mut self.paths);
        self.report_abandoned();
    }
}

/// Why a request is not granted.
enum Judgement {
    Refused(Refusal),
    Unknown,
    Malformed,
}

/// The answers to one ASCONF.
#[derive(Default)]
struct Answers {
    /// One was refused: those granted behind it have to be told (A7).
    failed: bool,
    /// One that adds or deletes was refused.
    no_changes: bool,
    /// No more room in the packet: what is not answered behind a refusal counts as refused.
    overflow: bool,
}

impl Answers {
    fn granted(&mut self, request: &AsconfParameter<'_>, out: &mut ParameterWriter<'_>) {
        if self.failed {
            out.success_indication(request.correlation_id);
        }
    }

    fn refused(
        &mut self,
        request: &AsconfParameter<'_>,
        code: CauseCode,
        out: &mut ParameterWriter<'_>,
    ) {
        self.failed = true;
        let echoed = &request.raw.bytes[..request.raw.bytes.len().min(64)];
        // Identifier, header of the cause, and what it quotes.
        self.overflow |= !out.fits(4 + 4 + echoed.len() + 3);
        if !self.overflow {
            let write = |causes: &mut CauseWriter<'_>| causes.raw(code, echoed);
            out.error_cause_indication(request.correlation_id, write);
        }
    }
}
