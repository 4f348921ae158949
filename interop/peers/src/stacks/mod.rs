//! The stacks that are measured and tested.

pub(crate) mod dcsctp;
pub(crate) mod rtc_sctp;
pub(crate) mod webrtc_sctp;
pub(crate) mod webrtc_sctp_bench;

use crate::MTU;
use crate::options::{Options, Transport};

/// SCTP port of both sides in WebRTC, which most of these stacks cannot change.
pub(crate) const WEBRTC_PORT: u16 = 5000;

pub(crate) const ONLY_BINARY: &str =
    "the stack sends no other PPIDs than those of WebRTC; give --ppid 53";

/// Bytes of a DTLS 1.2 record beside its payload, with AES-GCM or AES-CCM.
const DTLS_OVERHEAD: usize = 13 + 8 + 16;

/// Returns the maximum size of an SCTP packet in a datagram of [`MTU`] bytes.
pub(crate) fn packet_size(options: &Options) -> usize {
    match options.transport {
        Transport::Dtls => MTU - DTLS_OVERHEAD,
        _ => MTU,
    }
}
