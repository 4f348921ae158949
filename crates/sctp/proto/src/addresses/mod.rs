//! Dynamic address reconfiguration (RFC 5061) of one association, in both directions.
//!
//! - `local`: the endpoint's own addresses, and which of them a peer knows
//! - `advertised_addresses`: the addresses that INIT and INIT ACK contained (RFC 9260 section 5.1.2)
//! - `local_requests`: ASCONFs of this side and their answers (sections 5.1 and 5.3)
//! - `wildcard`: the same behind a NAT (RFC 6951 section 5.7)
//! - `peer_requests`: ASCONFs of the peer (sections 5.2 and 5.3)
//!
//! The methods read the paths and return values such as [`AddressChanges`]; the association applies
//! them to its paths, to outstanding data and to its events (`association::addresses`).

mod advertised_addresses;
mod local;
mod local_requests;
mod peer_requests;
mod wildcard;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{
    AsconfSerial, CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CommonHeader, PacketBuilder, ParameterType,
    Tsn, VerificationTag,
};

use crate::path::PathId;
pub(crate) use advertised_addresses::{
    AdvertisedAddresses, InitAckAddresses, MAX_ADVERTISED, retain, write_addresses,
};
pub(crate) use local::{AddressVersion, LocalAddresses};
pub(crate) use local_requests::IllegalAsconfAck;
use local_requests::PendingAsconf;
pub(crate) use peer_requests::{AddressChanges, PeerRequestContext, PeerRequests, SerialCheck};

/// State of RFC 5061 in an association. Absent where the extension is not negotiated.
#[derive(Debug)]
pub(crate) struct DynamicAddresses {
    next_serial: AsconfSerial,
    next_id: u32,
    pending: Option<PendingAsconf>,
    /// Local addresses that the peer has in the association.
    locals: Vec<IpAddr>,
    /// With wildcards: removed local addresses that the peer may still use.
    stale: Vec<IpAddr>,
    /// Requests that are not made again; addresses of this side, each once.
    refused: Vec<(ParameterType, IpAddr)>,
    /// [`LocalAddresses::changes`] when requests were created last.
    seen_changes: u32,
    /// More requests may be needed although no local address changed.
    recheck: bool,
    /// Local address of the next Set Primary IP Address request.
    preferred: Option<IpAddr>,
    /// The peer does not know requests to add and delete, or ASCONF (RFC 5061, section 5.1, rule A9;
    /// section 5.3, rule F3a).
    no_changes: bool,
    /// The peer does not know requests to prefer an address (RFC 5061, section 5.3, rule F3b).
    no_preference: bool,
    /// No local address is known to the peer: only ASCONF may be sent.
    no_confirmed_local: bool,
    /// Peer-Sequence-Number.
    peer_serial: AsconfSerial,
    cache: VecDeque<(AsconfSerial, Bytes)>,
    /// The path that the peer prefers, until it is confirmed.
    handover: Option<PathId>,
    /// The peer's addresses changed; its removed addresses.
    peer_changes: Option<Vec<IpAddr>>,
}

portable_struct! {
    DynamicAddresses {
        next_serial, next_id, pending, locals, stale, refused, seen_changes, recheck, preferred,
        no_changes, no_preference, no_confirmed_local, peer_serial, cache, handover, peer_changes,
    }
}

impl DynamicAddresses {
    /// Starts with the serial numbers that follow from the initial TSNs (RFC 5061, section 5.1, rule
    /// A2; section 5.2, rule E4). `locals` are the addresses that the peer knows from the set-up.
    pub(crate) fn new(
        local_initial_tsn: Tsn,
        before_peer_initial_tsn: Tsn,
        locals: Vec<IpAddr>,
        seen_changes: u32,
    ) -> Self {
        Self {
            next_serial: AsconfSerial::new(local_initial_tsn.value()),
            next_id: 0,
            pending: None,
            locals,
            stale: Vec::new(),
            refused: Vec::new(),
            seen_changes,
            recheck: false,
            preferred: None,
            handover: None,
            no_changes: false,
            no_preference: false,
            no_confirmed_local: false,
            peer_serial: AsconfSerial::new(before_peer_initial_tsn.value()),
            cache: VecDeque::new(),
            peer_changes: None,
        }
    }

    /// Local addresses that packets may leave from: present at the host, known to the peer, and not
    /// being deleted, even if they have come back (RFC 5061, section 5.3, rule F4).
    pub(crate) fn usable_locals(&self, local: &LocalAddresses) -> Vec<IpAddr> {
        let usable = |a: &&IpAddr| self.locals.contains(a) && !self.is_being_deleted(Some(**a));
        local.all().iter().filter(usable).copied().collect()
    }

    /// Returns whether no local address is known to the peer; only ASCONF may be sent.
    pub(crate) fn has_no_confirmed_local(&self) -> bool {
        self.no_confirmed_local
    }

    /// Sets whether no local address is known to the peer, and returns the value before.
    pub(crate) fn set_no_confirmed_local(&mut self, none: bool) -> bool {
        core::mem::replace(&mut self.no_confirmed_local, none)
    }
}

/// Returns the value of the only chunk that `write` puts into a packet.
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
    use super::local_requests::MAX_REQUESTS;
    use super::peer_requests::MAX_CACHED;
    use super::*;

    fn addresses() -> DynamicAddresses {
        DynamicAddresses::new(Tsn::new(u32::MAX), Tsn::new(u32::MAX), Vec::new(), 0)
    }

    /// RFC 5061, section 5.2
    #[test]
    fn serial_numbers_wrap() {
        let mut all = addresses();
        assert_eq!(
            all.check_serial(AsconfSerial::new(0)),
            SerialCheck::Expected
        );
        assert_eq!(
            all.check_serial(AsconfSerial::new(1)),
            SerialCheck::OutOfWindow
        );
        assert_eq!(
            all.check_serial(AsconfSerial::new(u32::MAX)),
            SerialCheck::Retransmitted
        );
        all.processed(AsconfSerial::new(0), Bytes::from_static(b"a"), true);
        assert_eq!(
            all.check_serial(AsconfSerial::new(1)),
            SerialCheck::Expected
        );
        assert_eq!(
            all.check_serial(AsconfSerial::new(0)),
            SerialCheck::Retransmitted
        );
    }

    /// RFC 5061, section 5.2
    #[test]
    fn kept_answers_are_bounded() {
        let mut all = addresses();
        for serial in 0..1000 {
            let serial = AsconfSerial::new(serial);
            all.processed(serial, Bytes::from_static(b"a"), false);
            assert!(all.cache.len() <= MAX_CACHED);
            assert!(all.cached_answer(serial).is_some());
        }
        all.processed(AsconfSerial::new(1000), Bytes::new(), true);
        assert_eq!(
            all.cache.len(),
            1,
            "rule E1: the peer has the earlier answers"
        );
        assert!(all.cached_answer(AsconfSerial::new(999)).is_none());
    }

    /// RFC 5061, section 5.1.1
    #[test]
    fn largest_asconf_fits_into_the_smallest_packet() {
        let mut all = addresses();
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        all.create(
            address,
            &[(ParameterType::ADD_IP_ADDRESS, address); MAX_REQUESTS],
            None,
        );
        let len = all.pending.map_or(0, |pending| pending.value.len());
        // IPv6 with its minimum of 1280: headers, UDP, AUTH.
        assert!(len + 4 + 40 + 8 + 12 + 40 <= 1280, "{len}");
    }
}
