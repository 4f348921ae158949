//! ASCONFs of this side: created from changes of the local addresses, transmitted, answered (RFC 5061
//! sections 5.1 and 5.3).
//!
//! 1. A change of the local addresses, or a preference of the user, creates an ASCONF unless one is
//!    outstanding (section 5.1, rules A1 to A3): [`DynamicAddresses::create_asconf`].
//! 2. It leaves alone in its packet, from an address that the peer knows if there is one (section
//!    5.3, rules F1 and F6), and starts T4-rto (section 5.1, rule A4): [`DynamicAddresses::transmit`].
//! 3. When T4-rto expires it leaves again, on another path (rules B1 to B5):
//!    [`DynamicAddresses::on_timeout`].
//! 4. The ASCONF-ACK grants or refuses each request (rules A5 to A8): [`DynamicAddresses::on_ack`].
//!    What was refused only because of an earlier request is requested again.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use carrick_wire::{AsconfAck, AsconfSerial, CauseCode, CorrelationId, Parameter, ParameterType};

use super::{DynamicAddresses, LocalAddresses, chunk_value};
use crate::event::AddressEvent;
use crate::path::{PathId, Paths};
use crate::route::SourceSelection;
use crate::time::Time;

/// Requests in one ASCONF at most: they fit into the smallest packet, authenticated, in UDP.
pub(super) const MAX_REQUESTS: usize = 14;

/// One request of this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LocalRequest {
    pub(super) kind: ParameterType,
    /// The address itself, also where the chunk contains a wildcard for it.
    pub(super) address: IpAddr,
    id: CorrelationId,
}

portable_struct! { LocalRequest { kind, address, id } }

/// The outstanding ASCONF. Its content never changes (RFC 5061, section 5.1, rule B4).
#[derive(Debug)]
pub(super) struct PendingAsconf {
    serial: AsconfSerial,
    /// Value of the chunk.
    pub(super) value: Bytes,
    pub(super) requests: Vec<LocalRequest>,
    /// To be sent with the next packet.
    due: bool,
    /// T4-rto.
    timer: Option<Time>,
    /// Path of the last transmission.
    pub(super) path: Option<PathId>,
    pub(super) transmissions: usize,
    /// The address that its wildcards stand for, from which it leaves.
    pub(super) source: Option<IpAddr>,
    /// The wildcards may have stood for another address.
    pub(super) ambiguous: bool,
}

portable_struct! {
    PendingAsconf {
        serial, value, requests, due, timer, path, transmissions, source, ambiguous,
    }
}

impl PendingAsconf {
    /// The addresses that it adds, deletes or prefers.
    fn addresses(&self, kind: ParameterType) -> impl Iterator<Item = IpAddr> + '_ {
        let of_kind = self.requests.iter().filter(move |r| r.kind == kind);
        of_kind.map(|r| r.address)
    }
}

/// The peer's answer to one request.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RequestOutcome {
    request: LocalRequest,
    /// The cause of a refusal; code 0 if an earlier request was refused.
    refused: Option<CauseCode>,
    /// It adds or deletes, and was refused only because an earlier request was (RFC 5061, section
    /// 5.3, rule F11).
    refused_with_earlier: bool,
}

/// An ASCONF to be sent now.
pub(crate) struct AsconfTransmission {
    pub(crate) path: PathId,
    pub(crate) source: IpAddr,
    /// Value of the chunk.
    pub(crate) value: Bytes,
}

/// Effects of an ASCONF-ACK.
pub(crate) struct AsconfAnswer {
    /// The path on which the ASCONF was sent last.
    pub(crate) path: Option<PathId>,
    pub(crate) events: Vec<AddressEvent>,
}

/// An ASCONF-ACK for an ASCONF that was never sent (RFC 5061, section 5.3, rule F0).
pub(crate) struct IllegalAsconfAck;

impl DynamicAddresses {
    /// Requests that the peer prefer this address of ours.
    pub(crate) fn request_preference(&mut self, address: IpAddr) {
        self.preferred = Some(address);
    }

    /// Returns whether an outstanding ASCONF deletes this address: it is not to be used (RFC 5061,
    /// section 5.3, rule F4).
    pub(crate) fn is_being_deleted(&self, local: Option<IpAddr>) -> bool {
        self.pending.as_ref().is_some_and(|pending| {
            pending
                .addresses(ParameterType::DELETE_IP_ADDRESS)
                .any(|address| Some(address) == local)
        })
    }

    /// Returns whether an outstanding ASCONF adds or deletes this address: nothing else is sent
    /// from it (RFC 5061, section 5.3, rules F1 and F4).
    pub(crate) fn is_being_changed(&self, local: Option<IpAddr>) -> bool {
        let is_new = |pending: &PendingAsconf| {
            let mut added = pending.addresses(ParameterType::ADD_IP_ADDRESS);
            added.any(|a| Some(a) == local && !self.locals.contains(&a))
        };
        // Without another address, all packets wait for the answer.
        let added = !self.no_confirmed_local && self.pending.as_ref().is_some_and(is_new);
        added || self.is_being_deleted(local)
    }

    /// Creates an ASCONF for what has changed, unless one is outstanding (RFC 5061, section 5.1,
    /// rules A1 to A3). Returns the address that the user prefers if the peer can't be asked for it.
    ///
    /// 1. Stop if nothing has changed, or if an ASCONF is outstanding.
    /// 2. With wildcard addresses, create the ASCONF that these need.
    /// 3. Request the addition of new addresses (section 4.2.1).
    /// 4. Request the user's preference (section 4.2.4), if the peer knows that address or this ASCONF adds it.
    /// 5. Request the deletion of removed addresses (section 4.2.2); that of the last one only together with
    ///    the addition of another (section 5.3, rule F5).
    /// 6. Limit the number of requests; the remaining ones follow in another ASCONF.
    /// 7. Create the ASCONF with an address by which the peer finds the association (section 4.1.1).
    pub(crate) fn create_asconf(
        &mut self,
        local: &LocalAddresses,
        paths: &Paths,
        with_wildcards: bool,
    ) -> Option<IpAddr> {
        // 1.
        let latest = local.changes();
        let idle = self.seen_changes == latest && !self.recheck && self.preferred.is_none();
        if idle || self.pending.is_some() {
            return None;
        }
        if self.seen_changes != latest {
            // What was refused before may be granted now.
            self.refused.clear();
        }
        self.seen_changes = latest;
        self.recheck = false;
        let family = |a: &IpAddr| paths.iter().any(|p| p.remote().is_ipv4() == a.is_ipv4());
        let in_scope = |a: IpAddr| paths.iter().any(|p| p.route().has_in_scope(a));
        let usable = |a: &IpAddr| family(a) && in_scope(*a) && !a.is_unspecified();
        let all = local.all();
        // 2.
        if with_wildcards {
            let usable: Vec<IpAddr> = all.iter().copied().filter(usable).collect();
            return self.create_wildcard_asconf(&usable);
        }
        let (add, delete) = (
            ParameterType::ADD_IP_ADDRESS,
            ParameterType::DELETE_IP_ADDRESS,
        );
        let mut requests: Vec<(ParameterType, IpAddr)> = Vec::new();
        let mut impossible = None;
        // 3.
        if !self.no_changes {
            let new = all.iter().filter(|a| usable(a) && !self.locals.contains(a));
            requests.extend(new.map(|a| (add, *a)));
        }
        // The peer can't use an address of a family that it lacks.
        let stays = |a: &&IpAddr| all.contains(a) && family(a);
        let kept = self.locals.iter().any(|a| stays(&a));
        requests.retain(|(kind, a)| !self.was_refused(*kind, *a));
        // 4.
        if let Some(preferred) = self.preferred.take() {
            let known = self.locals.contains(&preferred);
            let known = known || requests.iter().any(|r| r.1 == preferred);
            if known && !self.no_preference {
                requests.push((ParameterType::SET_PRIMARY_ADDRESS, preferred));
            } else {
                impossible = Some(preferred);
            }
        }
        // 5.
        if (kept || requests.iter().any(|r| r.0 == add)) && !self.no_changes {
            let removed = self.locals.iter().filter(|a| !all.contains(a));
            let removed = removed.filter(|a| !self.was_refused(delete, **a));
            requests.extend(removed.map(|a| (delete, *a)));
        }
        // 6.
        if requests.len() > MAX_REQUESTS {
            let mut rest = requests.split_off(MAX_REQUESTS).into_iter();
            let preferred = rest.find(|r| r.0 == ParameterType::SET_PRIMARY_ADDRESS);
            self.preferred = preferred.map(|r| r.1);
            self.recheck = true;
        }
        // 7.
        let lookup = self.locals.iter().find(stays);
        let lookup = lookup.or_else(|| self.locals.iter().find(|a| family(a)));
        let lookup = lookup.or(self.locals.first()).or(all.first());
        if let Some(lookup) = lookup.copied().filter(|_| !requests.is_empty()) {
            self.create(lookup, &requests, None);
        }
        impossible
    }

    /// Creates the chunk (RFC 5061, section 5.1, rules A1 and A2). `lookup` is an address of ours
    /// that the peer knows; with a `source`, wildcards stand for all addresses.
    pub(super) fn create(
        &mut self,
        lookup: IpAddr,
        requests: &[(ParameterType, IpAddr)],
        source: Option<IpAddr>,
    ) {
        let requests: Vec<LocalRequest> = requests
            .iter()
            .map(|&(kind, address)| {
                self.next_id = self.next_id.wrapping_add(1);
                let id = CorrelationId(self.next_id);
                LocalRequest { kind, address, id }
            })
            .collect();
        let serial = self.next_serial;
        self.next_serial = serial.next();
        let written = |address: IpAddr| match address {
            _ if source.is_none() => address,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let value = chunk_value(|packet| {
            packet.asconf(serial, written(lookup), |parameters| {
                for request in &requests {
                    let address = written(request.address);
                    match request.kind {
                        ParameterType::ADD_IP_ADDRESS => {
                            parameters.add_ip_address(request.id, address)
                        }
                        ParameterType::DELETE_IP_ADDRESS => {
                            parameters.delete_ip_address(request.id, address)
                        }
                        _ => parameters.set_primary_address(request.id, address),
                    }
                }
            });
        });
        self.pending = Some(PendingAsconf {
            serial,
            value,
            requests,
            due: true,
            timer: None,
            path: None,
            transmissions: 0,
            source,
            ambiguous: false,
        });
    }

    /// Returns the ASCONF that is to leave now, if there is one and a path for it, and starts T4-rto.
    pub(crate) fn transmit(
        &mut self,
        local: &LocalAddresses,
        paths: &Paths,
        selection: &dyn SourceSelection,
        now: Time,
    ) -> Option<AsconfTransmission> {
        let pending = self.pending.as_ref().filter(|p| p.due)?;
        let (path, source) = self.asconf_route(pending, local, paths, selection)?;
        let timer = Some(now + paths[path].rto());
        let pending = self.pending.as_mut()?;
        pending.due = false;
        pending.timer = timer;
        pending.path = Some(path);
        pending.transmissions += 1;
        pending.ambiguous |= pending.source.is_some_and(|address| address != source);
        Some(AsconfTransmission {
            path,
            source,
            value: pending.value.clone(),
        })
    }

    /// Chooses destination and source of an ASCONF: the source is an address that the peer knows and
    /// that stays (RFC 5061, section 5.3, rule F6), or else one that the ASCONF adds (rule F1).
    fn asconf_route(
        &self,
        pending: &PendingAsconf,
        local: &LocalAddresses,
        paths: &Paths,
        selection: &dyn SourceSelection,
    ) -> Option<(PathId, IpAddr)> {
        if let Some(route) = self.wildcard_route(pending, local, paths) {
            return Some(route);
        }
        let deleted: Vec<IpAddr> = pending
            .addresses(ParameterType::DELETE_IP_ADDRESS)
            .collect();
        let added: Vec<IpAddr> = pending.addresses(ParameterType::ADD_IP_ADDRESS).collect();
        let all = local.all().iter();
        let all = all.copied().filter(|a| !deleted.contains(a));
        let (known, new): (Vec<IpAddr>, Vec<IpAddr>) = all.partition(|a| self.locals.contains(a));
        // An address that came later is as good: an ASCONF may leave from it, and contains an address
        // by which the association is found.
        let (added, later): (Vec<IpAddr>, Vec<IpAddr>) =
            new.into_iter().partition(|a| added.contains(a));
        let current = paths.current();
        // Section 5.1, rule B4: another destination after a timeout, if there is one.
        let begin = pending
            .path
            .map_or(current, |last| paths.next_in_turn(last));
        let others = paths.iter().filter(|p| p.is_confirmed()).map(|p| p.id());
        for id in core::iter::once(begin).chain([current]).chain(others) {
            let path = &paths[id];
            if !path.is_confirmed() {
                continue;
            }
            if let Some(local) = path.local().filter(|l| known.contains(l)) {
                return Some((id, local));
            }
            let select = |from: &[IpAddr]| selection.select(from, path.remote());
            let of_family = |list: &[IpAddr]| -> Vec<IpAddr> {
                let same = |a: &&IpAddr| a.is_ipv4() == path.remote().is_ipv4();
                let usable = |a: &&IpAddr| same(a) && path.route().has_in_scope(**a);
                list.iter().filter(usable).copied().collect()
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

    /// Expiry of T4-rto.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.pending.as_ref()?.timer
    }

    /// Lets the ASCONF leave again if T4-rto expired (RFC 5061, section 5.1, rule B4). Returns the
    /// path that failed to carry it.
    pub(crate) fn on_timeout(&mut self, now: Time) -> Option<PathId> {
        let expired = |p: &&mut PendingAsconf| p.timer.is_some_and(|at| at <= now);
        let pending = self.pending.as_mut().filter(expired)?;
        pending.timer = None;
        pending.due = true;
        pending.path
    }

    /// Processes an ASCONF-ACK. Returns `None` if it answers no outstanding ASCONF.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AsconfAck<'_>,
        local: &LocalAddresses,
    ) -> Result<Option<AsconfAnswer>, IllegalAsconfAck> {
        if self.pending.is_none() && ack.serial.is_at_or_after(self.next_serial) {
            return Err(IllegalAsconfAck);
        }
        let Some(pending) = self.pending.take_if(|p| p.serial == ack.serial) else {
            return Ok(None);
        };
        let mut events = Vec::new();
        if pending.ambiguous {
            self.on_ambiguous_answer(&pending, local, &mut events);
        } else {
            for outcome in outcomes(&pending, ack) {
                self.on_outcome(&outcome, &mut events);
            }
        }
        let path = pending.path;
        Ok(Some(AsconfAnswer { path, events }))
    }

    fn on_outcome(&mut self, outcome: &RequestOutcome, events: &mut Vec<AddressEvent>) {
        let (kind, address) = (outcome.request.kind, outcome.request.address);
        if let Some(code) = outcome.refused {
            if code == CauseCode::UNRECOGNIZED_PARAMETERS {
                // Section 5.3, rules F3a and F3b.
                let preference = kind == ParameterType::SET_PRIMARY_ADDRESS;
                self.no_preference |= preference;
                self.no_changes |= !preference;
            }
            if outcome.refused_with_earlier {
                self.recheck = true;
                return;
            }
            self.record_refusal(kind, address);
            let code = code.0;
            events.push(AddressEvent::Refused { address, code });
            return;
        }
        match kind {
            ParameterType::ADD_IP_ADDRESS => {
                if !self.locals.contains(&address) {
                    self.locals.push(address);
                }
                self.stale.retain(|a| *a != address);
                events.push(AddressEvent::LocalAdded(address));
            }
            ParameterType::DELETE_IP_ADDRESS if address.is_unspecified() => {
                self.retry_refused_additions();
                let stale = core::mem::take(&mut self.stale);
                events.extend(stale.into_iter().map(AddressEvent::LocalRemoved));
            }
            ParameterType::DELETE_IP_ADDRESS => {
                self.locals.retain(|a| *a != address);
                self.retry_refused_additions();
                events.push(AddressEvent::LocalRemoved(address));
            }
            _ => events.push(AddressEvent::PreferenceAccepted(address)),
        }
    }

    /// Stops requests: the peer does not know ASCONF (RFC 5061, section 5.1, rule A9).
    pub(crate) fn on_unsupported(&mut self) {
        self.pending = None;
        self.no_changes = true;
        self.no_preference = true;
    }

    pub(super) fn was_refused(&self, kind: ParameterType, address: IpAddr) -> bool {
        self.refused.contains(&(kind, address))
    }

    pub(super) fn record_refusal(&mut self, kind: ParameterType, address: IpAddr) {
        // A preference is requested when the user sets it, and then again.
        let is_preference = kind == ParameterType::SET_PRIMARY_ADDRESS;
        if !is_preference && !self.was_refused(kind, address) {
            self.refused.push((kind, address));
        }
    }

    /// Requests refused additions again: the peer deleted an address and may have room now.
    fn retry_refused_additions(&mut self) {
        let before = self.refused.len();
        self.refused
            .retain(|(kind, _)| *kind != ParameterType::ADD_IP_ADDRESS);
        self.recheck |= self.refused.len() < before;
    }
}

/// Reads the answers in an ASCONF-ACK, request by request.
fn outcomes(pending: &PendingAsconf, ack: &AsconfAck<'_>) -> Vec<RequestOutcome> {
    let mut answers: Vec<(CorrelationId, Option<CauseCode>)> = Vec::new();
    for answer in ack
        .parameters()
        .map_while(Result::ok)
        .take(2 * MAX_REQUESTS)
    {
        match Parameter::parse(answer.raw) {
            Ok(Parameter::SuccessIndication(id)) => answers.push((id, None)),
            Ok(Parameter::ErrorCauseIndication(mut error)) => {
                let cause = error.causes.next().and_then(Result::ok);
                let code = cause.map_or(CauseCode(0), |c| c.code);
                answers.push((error.correlation_id, Some(code)));
            }
            _ => {}
        }
    }
    let answer = |request: &LocalRequest| answers.iter().find(|a| a.0 == request.id).map(|a| a.1);
    let mut failed = false;
    let mut first: Option<CauseCode> = None;
    let outcomes = pending.requests.iter().map(|request| {
        let refused = match answer(request) {
            Some(None) => None,
            Some(Some(code)) => Some(code),
            // Section 5.1, rule A7: without an answer, a request behind a failure failed, too.
            None => failed.then_some(CauseCode(0)),
        };
        failed |= refused.is_some();
        let changes = request.kind != ParameterType::SET_PRIMARY_ADDRESS;
        let code = refused.filter(|_| changes);
        let refused_with_earlier = first.zip(code).is_some_and(|(first, code)| {
            // Without room for one address there is none for the next.
            let full = first == CauseCode::RESOURCE_SHORTAGE;
            let own = ![CauseCode(0), CauseCode::RESOURCE_SHORTAGE].contains(&code);
            request.kind == ParameterType::DELETE_IP_ADDRESS || !full && !own
        });
        first = first.or(code);
        RequestOutcome {
            request: *request,
            refused,
            refused_with_earlier,
        }
    });
    outcomes.collect()
}
