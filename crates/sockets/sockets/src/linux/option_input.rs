//! Fields of the buffer of `getsockopt` that an option reads.

use std::ops::Range;

use super::*;

/// Fields of the buffer of `getsockopt` that an option reads: the identifier of an association, an address, and what else
/// selects the value. The rest of the buffer has no meaning, and may be memory that its process has not initialised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionInput {
    fields: Range<usize>,
    /// Offset of a `sockaddr_storage`.
    address: Option<usize>,
}

impl OptionInput {
    /// Returns the fields of an option.
    pub fn of(level: i32, name: i32) -> Self {
        let (fields, address) = match (level, name) {
            (IPPROTO_SCTP, name) => fields(name),
            _ => (0..0, None),
        };
        Self { fields, address }
    }

    /// Returns the end of the last field in bytes.
    pub fn end(&self) -> usize {
        let address = self.address.map_or(0, |at| at + SOCKADDR_STORAGE);
        self.fields.end.max(address)
    }

    /// Returns a buffer of `size` bytes with the fields of the buffer that begins with `given`, and zeros.
    pub fn copy(&self, given: &[u8], size: usize) -> Vec<u8> {
        let mut copy = vec![0; size];
        let mut take = |range: Range<usize>| {
            if let (Some(to), Some(from)) = (copy.get_mut(range.clone()), given.get(range)) {
                to.copy_from_slice(from);
            }
        };
        take(self.fields.clone());
        if let Some(at) = self.address {
            let family = given
                .get(at..at + 2)
                .and_then(|family| family.first_chunk());
            let len = match family.map(|family| i32::from(u16::from_ne_bytes(*family))) {
                // The bytes behind the address are padding.
                Some(AF_INET) => 8,
                Some(AF_INET6) => SOCKADDR_IN6,
                _ => 2,
            };
            take(at..at + len);
        }
        copy
    }
}

/// Returns the fields of an option of level `IPPROTO_SCTP`, and the offset of its address.
fn fields(name: i32) -> (Range<usize>, Option<usize>) {
    match name {
        SCTP_RTOINFO
        | SCTP_ASSOCINFO
        | SCTP_STATUS
        | SCTP_PRIMARY_ADDR
        | SCTP_DELAYED_SACK
        | SCTP_MAXSEG
        | SCTP_MAX_BURST
        | SCTP_CONTEXT
        | SCTP_DEFAULT_PRINFO
        | SCTP_AUTH_ACTIVE_KEY
        | SCTP_PEER_AUTH_CHUNKS
        | SCTP_LOCAL_AUTH_CHUNKS
        | SCTP_STREAM_SCHEDULER
        | SCTP_ENABLE_STREAM_RESET
        | SCTP_EXPOSE_POTENTIALLY_FAILED_STATE
        | SCTP_PR_SUPPORTED
        | SCTP_RECONFIG_SUPPORTED
        | SCTP_ASCONF_SUPPORTED
        | SCTP_AUTH_SUPPORTED
        | SCTP_ECN_SUPPORTED
        | SCTP_INTERLEAVING_SUPPORTED
        | SCTP_GET_ASSOC_STATS
        | SCTP_GET_PEER_ADDRS
        | SCTP_GET_LOCAL_ADDRS => (0..4, None),
        // With the stream, the type of the notification, stream and policy, or the flags of a descriptor.
        SCTP_STREAM_SCHEDULER_VALUE | SCTP_EVENT => (0..6, None),
        SCTP_PR_ASSOC_STATUS | SCTP_PR_STREAM_STATUS | SCTP_SOCKOPT_PEELOFF => (0..8, None),
        SCTP_SOCKOPT_PEELOFF_FLAGS => (0..12, None),
        SCTP_DEFAULT_SNDINFO => (12..16, None),
        SCTP_DEFAULT_SEND_PARAM => (28..32, None),
        SCTP_PEER_ADDR_PARAMS | SCTP_GET_PEER_ADDR_INFO => (0..4, Some(4)),
        SCTP_PEER_ADDR_THLDS
        | SCTP_PEER_ADDR_THLDS_V2
        | SCTP_REMOTE_UDP_ENCAPS_PORT
        | SCTP_PLPMTUD_PROBE_INTERVAL => (0..4, Some(8)),
        // With the size and the pointer of a list of addresses.
        SCTP_SOCKOPT_CONNECTX3 => (0..16, None),
        _ => (0..0, None),
    }
}
