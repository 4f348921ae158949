//! What one association knows about changes of its addresses (RFC 5061): the serial numbers of both
//! directions, the one ASCONF that waits for its answer, and the answers that may be asked for again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use carrick_wire::{
    AsconfAck, AsconfSerial, CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CauseCode, CommonHeader,
    CorrelationId, PacketBuilder, Parameter, ParameterType, Tsn, VerificationTag,
};

use crate::path::PathId;
use crate::time::Time;

/// Requests in one ASCONF at most: they fit into the smallest packet, authenticated, in UDP.
pub(crate) const MAX_REQUESTS: usize = 14;

/// Answers that are kept for a peer which did not get them (section 5.2, E2).
const MAX_CACHED: usize = 8;

/// One request of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) kind: ParameterType,
    /// The address that is meant, whether it is told or is a wildcard.
    pub(crate) address: IpAddr,
    id: CorrelationId,
}

/// The ASCONF that is not answered yet. Its content never changes.
#[derive(Debug)]
pub(crate) struct Sent {
    serial: AsconfSerial,
    /// The chunk's value.
    pub(crate) value: Bytes,
    pub(crate) requests: Vec<Request>,
    /// To be sent with the next packet.
    pub(crate) due: bool,
    /// T4-rto.
    pub(crate) timer: Option<Time>,
    /// Where it was sent last.
    pub(crate) path: Option<PathId>,
    /// How often.
    pub(crate) sends: usize,
    /// Its wildcards stand for this address, from which it leaves.
    pub(crate) source: Option<IpAddr>,
    /// They may have stood for another one.
    pub(crate) void: bool,
}

impl Sent {
    /// The addresses that it adds, deletes or prefers.
    pub(crate) fn addresses(&self, kind: ParameterType) -> impl Iterator<Item = IpAddr> + '_ {
        let of_kind = self.requests.iter().filter(move |r| r.kind == kind);
        of_kind.map(|r| r.address)
    }
}

/// How the peer answered one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) request: Request,
    /// The cause of a refusal; code 0 if another one in front of it was refused.
    pub(crate) refused: Option<CauseCode>,
    /// It adds or deletes, and was refused as the peer has to, because another one in front of it
    /// was (F11).
    pub(crate) dragged: bool,
}

/// What a serial number of the peer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The next one.
    Next,
    /// An old one; its answer, if that is still here.
    Replay,
    /// One that can't be, yet or any more.
    Wrong,
}

/// All of it. Boxed in the association, and absent where the extension is not in force.
#[derive(Debug)]
pub(crate) struct DynamicAddresses {
    next_serial: AsconfSerial,
    next_id: u32,
    pub(crate) sent: Option<Sent>,
    /// The local addresses that the peer has agreed to.
    pub(crate) locals: Vec<IpAddr>,
    /// With wildcards: those that were among them, are gone, and may still be known to the peer.
    pub(crate) gone: Vec<IpAddr>,
    /// What is not asked again; addresses of this side, each once.
    refused: Vec<(ParameterType, IpAddr)>,
    /// The changes of the endpoint's addresses that have been looked at.
    pub(crate) seen: u32,
    /// There may be more to ask than was asked.
    pub(crate) more: bool,
    /// The local address that the peer is to be asked to prefer.
    pub(crate) preferred: Option<IpAddr>,
    /// The peer does not know these requests, or the chunk at all (A9, F3a, F3b).
    pub(crate) no_changes: bool,
    pub(crate) no_preference: bool,
    /// None of the addresses that the peer knows is here any more: nothing but ASCONF may leave.
    pub(crate) stranded: bool,
    /// Peer-Sequence-Number.
    peer_serial: AsconfSerial,
    cache: VecDeque<(AsconfSerial, Bytes)>,
    /// The peer moves to this path, as soon as it is verified.
    pub(crate) handover: Option<PathId>,
    /// The peer's addresses have changed; those that are gone.
    pub(crate) news: Option<Vec<IpAddr>>,
}

impl DynamicAddresses {
    /// Both directions begin with the initial TSNs.
    pub(crate) fn new(ours: Tsn, before_theirs: Tsn, locals: Vec<IpAddr>, seen: u32) -> Self {
        Self {
            next_serial: AsconfSerial::new(ours.value()),
            next_id: 0,
            sent: None,
            locals,
            gone: Vec::new(),
            refused: Vec::new(),
            seen,
            more: false,
            preferred: None,
            handover: None,
            no_changes: false,
            no_preference: false,
            stranded: false,
            peer_serial: AsconfSerial::new(before_theirs.value()),
            cache: VecDeque::new(),
            news: None,
        }
    }

    pub(crate) fn was_refused(&self, kind: ParameterType, address: IpAddr) -> bool {
        self.refused.contains(&(kind, address))
    }

    pub(crate) fn remember_refusal(&mut self, kind: ParameterType, address: IpAddr) {
        // A preference is asked for when the user wants it, and then again.
        let asked_again = kind == ParameterType::SET_PRIMARY_ADDRESS;
        if !asked_again && !self.was_refused(kind, address) {
            self.refused.push((kind, address));
        }
    }

    /// The peer has deleted an address: there may be room now for one that it refused.
    pub(crate) fn note_room(&mut self) {
        let before = self.refused.len();
        self.refused
            .retain(|(kind, _)| *kind != ParameterType::ADD_IP_ADDRESS);
        self.more |= self.refused.len() < before;
    }

    /// The endpoint's addresses changed: what was refused may be asked again.
    pub(crate) fn forget_refusals(&mut self) {
        self.refused.clear();
    }

    /// Makes the next ASCONF (A1 and A2). `lookup` is an address of ours that the peer knows; with a
    /// `source`, wildcards stand for all addresses.
    pub(crate) fn make(
        &mut self,
        lookup: IpAddr,
        wanted: &[(ParameterType, IpAddr)],
        source: Option<IpAddr>,
    ) {
        let requests: Vec<Request> = wanted
            .iter()
            .map(|&(kind, address)| {
                self.next_id = self.next_id.wrapping_add(1);
                let id = CorrelationId(self.next_id);
                Request { kind, address, id }
            })
            .collect();
        let serial = self.next_serial;
        self.next_serial = serial.next();
        let told = |address: IpAddr| match address {
            _ if source.is_none() => address,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let value = chunk_value(|packet| {
            packet.asconf(serial, told(lookup), |parameters| {
                for request in &requests {
                    let address = told(request.address);
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
        self.sent = Some(Sent {
            serial,
            value,
            requests,
            due: true,
            timer: None,
            path: None,
            sends: 0,
            source,
            void: false,
        });
    }

    /// Whether an ASCONF-ACK answers an ASCONF that was never made, which ends the association (F0).
    pub(crate) fn is_illegal(&self, ack: &AsconfAck<'_>) -> bool {
        self.sent.is_none() && ack.serial.is_at_or_after(self.next_serial)
    }

    /// Takes the answer to the ASCONF that waits for it (A5 to A8); `None` if it is another one's.
    pub(crate) fn answered(&mut self, ack: &AsconfAck<'_>) -> Option<(Sent, Vec<Outcome>)> {
        let sent = self.sent.take_if(|sent| sent.serial == ack.serial)?;
        let mut told: Vec<(CorrelationId, Option<CauseCode>)> = Vec::new();
        for answer in ack
            .parameters()
            .map_while(Result::ok)
            .take(2 * MAX_REQUESTS)
        {
            match Parameter::parse(answer.raw) {
                Ok(Parameter::SuccessIndication(id)) => told.push((id, None)),
                Ok(Parameter::ErrorCauseIndication(mut error)) => {
                    let cause = error.causes.next().and_then(Result::ok);
                    let code = cause.map_or(CauseCode(0), |c| c.code);
                    told.push((error.correlation_id, Some(code)));
                }
                _ => {}
            }
        }
        let answer = |request: &Request| told.iter().find(|t| t.0 == request.id).map(|t| t.1);
        let mut failed = false;
        let mut first: Option<CauseCode> = None;
        let outcomes = sent.requests.iter().map(|request| {
            let refused = match answer(request) {
                Some(None) => None,
                Some(Some(code)) => Some(code),
                // A7: what comes behind a failure has failed unless it says otherwise.
                None => failed.then_some(CauseCode(0)),
            };
            failed |= refused.is_some();
            let changes = request.kind != ParameterType::SET_PRIMARY_ADDRESS;
            let code = refused.filter(|_| changes);
            let dragged = first.zip(code).is_some_and(|(first, code)| {
                // Without room for one there is none for the next.
                let full = first == CauseCode::RESOURCE_SHORTAGE;
                let own = ![CauseCode(0), CauseCode::RESOURCE_SHORTAGE].contains(&code);
                request.kind == ParameterType::DELETE_IP_ADDRESS || !full && !own
            });
            first = first.or(code);
            Outcome {
                request: *request,
                refused,
                dragged,
            }
        });
        let outcomes = outcomes.collect();
        Some((sent, outcomes))
    }

    /// What is to be done about an ASCONF with this serial number (E1, E2, E5).
    pub(crate) fn turn(&self, serial: AsconfSerial) -> Turn {
        if serial == self.peer_serial.next() {
            Turn::Next
        } else if self.peer_serial.is_at_or_after(serial) {
            Turn::Replay
        } else {
            Turn::Wrong
        }
    }

    /// The answer to an old ASCONF.
    pub(crate) fn cached(&self, serial: AsconfSerial) -> Option<Bytes> {
        let found = self.cache.iter().find(|(s, _)| *s == serial);
        found.map(|(_, value)| value.clone())
    }

    /// The next ASCONF has been processed (E4). If it was the first of its packet, the peer has the
    /// answers to those before it (E1).
    pub(crate) fn processed(&mut self, serial: AsconfSerial, answer: Bytes, first: bool) {
        self.peer_serial = serial;
        if first || self.cache.len() >= MAX_CACHED {
            let keep = if first { 0 } else { MAX_CACHED - 1 };
            self.cache
                .drain(..self.cache.len() - keep.min(self.cache.len()));
        }
        self.cache.push_back((serial, answer));
    }

    /// The peer's addresses changed, and this one is gone.
    pub(crate) fn note_change(&mut self, gone: Option<IpAddr>) {
        self.news.get_or_insert_default().extend(gone);
    }
}

/// The value of the only chunk that `write` puts into a packet.
pub(crate) fn chunk_value(write: impl FnOnce(&mut PacketBuilder<'_>)) -> Bytes {
    let header = CommonHeader {
        source_port: 1,
        destination_port: 1,
        tag: VerificationTag(1),
    };
    let mut buf = Vec::new();
    let mut packet = PacketBuilder::new(&mut buf, header, MAX_VALUE);
    write(&mut packet);
    packet.finish();
    let length = buf
        .get(COMMON_HEADER_LEN + 2..COMMON_HEADER_LEN + 4)
        .map_or(0, |l| usize::from(u16::from_be_bytes([l[0], l[1]])));
    let end = (COMMON_HEADER_LEN + length).min(buf.len());
    Bytes::from(buf).slice((COMMON_HEADER_LEN + CHUNK_HEADER_LEN).min(end)..end)
}

/// Bytes of a packet with one ASCONF or ASCONF-ACK at most.
const MAX_VALUE: usize = 1100;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> DynamicAddresses {
        DynamicAddresses::new(Tsn::new(u32::MAX), Tsn::new(u32::MAX), Vec::new(), 0)
    }

    #[test]
    fn serial_numbers_wrap_5_2() {
        let mut all = addresses();
        assert_eq!(all.turn(AsconfSerial::new(0)), Turn::Next);
        assert_eq!(all.turn(AsconfSerial::new(1)), Turn::Wrong);
        assert_eq!(all.turn(AsconfSerial::new(u32::MAX)), Turn::Replay);
        all.processed(AsconfSerial::new(0), Bytes::from_static(b"a"), true);
        assert_eq!(all.turn(AsconfSerial::new(1)), Turn::Next);
        assert_eq!(all.turn(AsconfSerial::new(0)), Turn::Replay);
    }

    #[test]
    fn the_answers_kept_are_few_whatever_the_peer_does_5_2() {
        let mut all = addresses();
        for serial in 0..1000 {
            let serial = AsconfSerial::new(serial);
            all.processed(serial, Bytes::from_static(b"a"), false);
            assert!(all.cache.len() <= MAX_CACHED);
            assert!(all.cached(serial).is_some());
        }
        all.processed(AsconfSerial::new(1000), Bytes::new(), true);
        assert_eq!(all.cache.len(), 1, "E1: the peer has all before it");
        assert!(all.cached(AsconfSerial::new(999)).is_none());
    }

    #[test]
    fn the_largest_request_fits_into_the_smallest_packet_5_1_1() {
        let mut all = addresses();
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        all.make(
            address,
            &[(ParameterType::ADD_IP_ADDRESS, address); MAX_REQUESTS],
            None,
        );
        let len = all.sent.map_or(0, |sent| sent.value.len());
        // IPv6 with its minimum of 1280: headers, UDP, AUTH.
        assert!(len + 4 + 40 + 8 + 12 + 40 <= 1280, "{len}");
    }
}
