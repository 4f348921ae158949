//! ASCONFs of the peer: its requests are read, checked and answered (RFC 5061 sections 5.2 and 5.3).

use core::iter::Take;
use core::net::IpAddr;

use alloc::vec::Vec;
use bytes::Bytes;
use carrick_wire::{
    Asconf, AsconfParameter, AsconfParameters, AsconfSerial, CauseCode, CauseWriter, Parameter,
    ParameterType, ParameterWriter,
};

use super::DynamicAddresses;
use crate::path::{PathId, Paths};
use crate::route::is_own_address;

/// Requests of one ASCONF that are processed; a packet of 1500 bytes has fewer.
const MAX_PROCESSED: usize = 128;

/// Bytes of a Success Indication behind its header.
const SUCCESS_LEN: usize = 4;

/// Answers kept for retransmitted ASCONFs (RFC 5061, section 5.2, rule E2).
pub(super) const MAX_CACHED: usize = 8;

/// Position of an ASCONF's serial number relative to the Peer-Sequence-Number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SerialCheck {
    Expected,
    Retransmitted,
    OutOfWindow,
}

/// A change that the peer requests. Wildcard addresses are resolved to the packet's source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerRequest {
    Add(IpAddr),
    Delete(IpAddr),
    /// The wildcard: all addresses but the source (RFC 5061, section 4.2.2).
    DeleteAllButSource,
    Prefer(IpAddr),
}

/// Changes that a granted request makes to the paths.
#[derive(Default, Debug)]
pub(crate) struct AddressChanges {
    pub(crate) add: Option<IpAddr>,
    pub(crate) remove: Vec<IpAddr>,
    pub(crate) prefer: Option<PathId>,
}

/// State of the association that a request is checked against.
pub(crate) struct PeerRequestContext<'a> {
    /// Source address of the packet with the ASCONF.
    pub(crate) source: IpAddr,
    pub(crate) paths: &'a Paths,
    /// Local addresses in use.
    pub(crate) locals: &'a [IpAddr],
    pub(crate) max_paths: usize,
}

impl DynamicAddresses {
    /// Step 1 of an ASCONF: compares its serial number with the next one (RFC 5061, section 5.2, rules
    /// E1, E2 and E5).
    pub(crate) fn check_serial(&self, serial: AsconfSerial) -> SerialCheck {
        if serial == self.peer_serial.next() {
            SerialCheck::Expected
        } else if self.peer_serial.is_at_or_after(serial) {
            SerialCheck::Retransmitted
        } else {
            SerialCheck::OutOfWindow
        }
    }

    /// Returns the kept answer to a retransmitted ASCONF.
    pub(crate) fn cached_answer(&self, serial: AsconfSerial) -> Option<Bytes> {
        let found = self.cache.iter().find(|(s, _)| *s == serial);
        found.map(|(_, value)| value.clone())
    }

    /// Step 3 of an ASCONF: keeps the answer to the expected one and advances the Peer-Sequence-Number
    /// (RFC 5061, section 5.2, rules V4 and V5). The first ASCONF of a packet shows that the peer has the
    /// answers to the previous ones (rule E1).
    pub(crate) fn processed(&mut self, serial: AsconfSerial, answer: Bytes, first: bool) {
        self.peer_serial = serial;
        if first || self.cache.len() >= MAX_CACHED {
            let keep = if first { 0 } else { MAX_CACHED - 1 };
            self.cache
                .drain(..self.cache.len() - keep.min(self.cache.len()));
        }
        self.cache.push_back((serial, answer));
    }

    /// Step 2 of an ASCONF: checks a request and returns the changes that grant it, or the cause of its
    /// refusal.
    /// `can_move` returns whether the data outstanding on a path may be retransmitted on another.
    ///
    /// - Add IP Address (section 4.2.1): the address is one that a host may have, of a family that this side
    ///   has, and there is room for a path.
    /// - Delete IP Address (section 4.2.2): the address is known, not the last one (section 4.3.1) and not the
    ///   source of the packet (section 4.3.3), and its outstanding data may move. The wildcard deletes all
    ///   addresses but the source (section 4.2.2).
    /// - Set Primary IP Address (section 4.2.4): the address is known.
    pub(crate) fn check_request(
        &mut self,
        request: PeerRequest,
        cx: &PeerRequestContext<'_>,
        can_move: impl Fn(PathId) -> bool,
    ) -> Result<AddressChanges, CauseCode> {
        let can_move_from = |is_removed: &dyn Fn(IpAddr) -> bool| {
            let mut paths = cx.paths.iter().filter(|p| is_removed(p.remote()));
            paths.all(|path| can_move(path.id()))
        };
        let mut changes = AddressChanges::default();
        match request {
            PeerRequest::Add(address) => {
                let reachable = cx.locals.is_empty()
                    || cx.locals.iter().any(|a| a.is_ipv4() == address.is_ipv4());
                if !is_own_address(address, cx.source) || !reachable {
                    return Err(CauseCode::UNRESOLVABLE_ADDRESS);
                }
                if !cx.paths.iter().any(|p| p.remote() == address) {
                    // Section 5.3, rule F9.
                    if cx.paths.len() >= cx.max_paths {
                        return Err(CauseCode::RESOURCE_SHORTAGE);
                    }
                    changes.add = Some(address);
                }
            }
            PeerRequest::Delete(address) => {
                if !cx.paths.has_address(address) {
                    return Err(CauseCode::UNRESOLVABLE_ADDRESS);
                }
                // Section 5.3, rule F7; it precedes rule F8.
                if !cx.paths.iter().any(|p| p.remote() != address) {
                    return Err(CauseCode::DELETE_LAST_ADDRESS);
                }
                // Section 5.3, rule F8.
                if address == cx.source {
                    return Err(CauseCode::DELETE_SOURCE_ADDRESS);
                }
                if !can_move_from(&|remote| remote == address) {
                    return Err(CauseCode::RESOURCE_SHORTAGE);
                }
                changes.remove.push(address);
            }
            PeerRequest::DeleteAllButSource => {
                // Section 5.3, rule F7.
                if !cx.paths.iter().any(|p| p.remote() == cx.source) {
                    return Err(CauseCode::DELETE_LAST_ADDRESS);
                }
                if !can_move_from(&|remote| remote != cx.source) {
                    return Err(CauseCode::RESOURCE_SHORTAGE);
                }
                let others = cx.paths.remotes().filter(|a| *a != cx.source);
                changes.remove.extend(others);
            }
            PeerRequest::Prefer(address) => {
                let path = cx.paths.iter().find(|p| p.remote() == address);
                let path = path.ok_or(CauseCode::UNRESOLVABLE_ADDRESS)?;
                // An unconfirmed path gets the outstanding data as soon as it is confirmed.
                self.handover = (!path.is_confirmed()).then_some(path.id());
                changes.prefer = Some(path.id());
            }
        }
        Ok(changes)
    }

    /// Ends the handover to a path that has been confirmed. Returns whether there was one.
    pub(crate) fn take_handover(&mut self, id: PathId) -> bool {
        self.handover.take_if(|path| *path == id).is_some()
    }

    /// Records that the peer's addresses changed, and which one was removed.
    pub(crate) fn record_peer_change(&mut self, removed: Option<IpAddr>) {
        self.peer_changes.get_or_insert_default().extend(removed);
    }

    /// Returns the peer's removed addresses if its addresses changed since the last call.
    pub(crate) fn take_peer_changes(&mut self) -> Option<Vec<IpAddr>> {
        self.peer_changes.take()
    }
}

/// The requests of one ASCONF in their order, and the answers to them (RFC 5061, section 5.2, rules
/// V1 to V3).
pub(crate) struct PeerRequests<'a> {
    parameters: Take<AsconfParameters<'a>>,
    source: IpAddr,
    /// The request that [`Self::answer`] answers.
    current: Option<AsconfParameter<'a>>,
    malformed: bool,
    /// A request was refused: later grants need a Success Indication (section 5.1, rule A7).
    failed: bool,
    /// A request to add or delete was refused (section 5.3, rule F11).
    changes_refused: bool,
    /// The packet has no more room; requests without an answer behind a refusal count as refused.
    overflow: bool,
}

impl<'a> PeerRequests<'a> {
    pub(crate) fn new(asconf: &Asconf<'a>, source: IpAddr) -> Self {
        Self {
            parameters: asconf.parameters().take(MAX_PROCESSED),
            source,
            current: None,
            malformed: false,
            failed: false,
            changes_refused: false,
            overflow: false,
        }
    }

    /// Returns the next request that can be granted, after refusing those in front of it that can't.
    pub(crate) fn next(&mut self, out: &mut ParameterWriter<'_>) -> Option<PeerRequest> {
        loop {
            if self.overflow || self.failed && !out.fits(SUCCESS_LEN) {
                // A request that can't be answered must not be granted: it counts as refused
                // (section 5.1, rule A7).
                return None;
            }
            let Ok(parameter) = self.parameters.next()? else {
                self.malformed = true;
                return None;
            };
            if !is_known(parameter.raw.kind) {
                let action = parameter.raw.kind.unknown_action();
                if action.reports() {
                    self.refuse(&parameter, CauseCode::UNRECOGNIZED_PARAMETERS, out);
                }
                if !action.continues() {
                    return None;
                }
                continue;
            }
            let Some(request) = self.read(&parameter) else {
                self.malformed = true;
                return None;
            };
            if self.changes_refused && !matches!(request, PeerRequest::Prefer(_)) {
                // Section 5.3, rule F11: with one refused, all later ones are. Of the causes, this one
                // claims least.
                self.refuse(&parameter, CauseCode::RESOURCE_SHORTAGE, out);
                continue;
            }
            self.current = Some(parameter);
            return Some(request);
        }
    }

    fn read(&self, parameter: &AsconfParameter<'_>) -> Option<PeerRequest> {
        let wildcard = |address: &IpAddr| address.is_unspecified();
        let resolve = |address| match address {
            wild if wildcard(&wild) => self.source,
            address => address,
        };
        match Parameter::parse(parameter.raw).ok()? {
            Parameter::SetPrimaryAddress(r) => Some(PeerRequest::Prefer(resolve(r.address))),
            Parameter::AddIpAddress(r) => Some(PeerRequest::Add(resolve(r.address))),
            Parameter::DeleteIpAddress(r) if wildcard(&r.address) => {
                Some(PeerRequest::DeleteAllButSource)
            }
            Parameter::DeleteIpAddress(r) => Some(PeerRequest::Delete(r.address)),
            _ => None,
        }
    }

    /// Answers the request that [`Self::next`] returned.
    pub(crate) fn answer(&mut self, result: Result<(), CauseCode>, out: &mut ParameterWriter<'_>) {
        let Some(request) = self.current.take() else {
            return;
        };
        match result {
            Ok(()) if self.failed => out.success_indication(request.correlation_id),
            Ok(()) => {}
            Err(code) => {
                self.changes_refused |= request.raw.kind != ParameterType::SET_PRIMARY_ADDRESS;
                self.refuse(&request, code, out);
            }
        }
    }

    fn refuse(
        &mut self,
        request: &AsconfParameter<'_>,
        code: CauseCode,
        out: &mut ParameterWriter<'_>,
    ) {
        self.failed = true;
        let echoed = &request.raw.bytes[..request.raw.bytes.len().min(64)];
        // Correlation ID, header of the cause, echoed parameter, padding.
        self.overflow |= !out.fits(4 + 4 + echoed.len() + 3);
        if !self.overflow {
            let write = |causes: &mut CauseWriter<'_>| causes.raw(code, echoed);
            out.error_cause_indication(request.correlation_id, write);
        }
    }

    /// Returns whether the rest of the ASCONF could not be read.
    pub(crate) fn is_malformed(&self) -> bool {
        self.malformed
    }
}

fn is_known(kind: ParameterType) -> bool {
    [
        ParameterType::ADD_IP_ADDRESS,
        ParameterType::DELETE_IP_ADDRESS,
        ParameterType::SET_PRIMARY_ADDRESS,
    ]
    .contains(&kind)
}
