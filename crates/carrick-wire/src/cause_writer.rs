//! Writing the error causes of ABORT and ERROR chunks (RFC 9260, section 3.3.10), and of
//! ASCONF-ACK (RFC 5061, section 4.3).

use core::net::IpAddr;

use crate::parameter_writer::address_parameters;
use crate::tlv::TlvWriter;
use crate::{CauseCode, HmacId, ParameterType, StreamId, Tsn};

/// Appends error causes to the chunk that is being built.
#[derive(Debug)]
pub struct CauseWriter<'w>(TlvWriter<'w>);

impl<'w> CauseWriter<'w> {
    pub(crate) const fn new(out: TlvWriter<'w>) -> Self {
        Self(out)
    }

    /// Returns whether one more cause with this many bytes of information stays within the packet's
    /// limit.
    pub fn fits(&self, value_len: usize) -> bool {
        self.0.fits(value_len)
    }

    /// The peer used a stream that does not exist.
    pub fn invalid_stream(&mut self, stream: StreamId) {
        let [high, low] = stream.0.to_be_bytes();
        self.raw(CauseCode::INVALID_STREAM, &[high, low, 0, 0]);
    }

    /// The INIT or INIT ACK lacks these parameters.
    pub fn missing_parameters(&mut self, missing: &[ParameterType]) {
        self.0.item(CauseCode::MISSING_PARAMETERS.0, |buf| {
            buf.extend_from_slice(&(missing.len() as u32).to_be_bytes());
            buf.extend(missing.iter().flat_map(|kind| kind.0.to_be_bytes()));
        });
    }

    /// The State Cookie expired `staleness_us` microseconds ago; 0 keeps it to ourselves.
    pub fn stale_cookie(&mut self, staleness_us: u32) {
        self.raw(CauseCode::STALE_COOKIE, &staleness_us.to_be_bytes());
    }

    /// We have run out of something.
    pub fn out_of_resource(&mut self) {
        self.raw(CauseCode::OUT_OF_RESOURCE, &[]);
    }

    /// An address parameter of the peer, header included, that we cannot use.
    pub fn unresolvable_address(&mut self, parameter: &[u8]) {
        self.raw(CauseCode::UNRESOLVABLE_ADDRESS, parameter);
    }

    /// A chunk of the peer, header included
    /// ([`RawChunk::bytes`](crate::RawChunk::bytes)), whose type we do not know.
    pub fn unrecognized_chunk(&mut self, chunk: &[u8]) {
        self.raw(CauseCode::UNRECOGNIZED_CHUNK, chunk);
    }

    /// A mandatory field of the INIT or INIT ACK has a forbidden value.
    pub fn invalid_mandatory_parameter(&mut self) {
        self.raw(CauseCode::INVALID_MANDATORY_PARAMETER, &[]);
    }

    /// Parameters of the peer's INIT ACK, headers included, that we do not know. Between two of
    /// them the caller puts the padding.
    pub fn unrecognized_parameters(&mut self, parameters: &[u8]) {
        self.raw(CauseCode::UNRECOGNIZED_PARAMETERS, parameters);
    }

    /// The DATA chunk with this TSN had no user data.
    pub fn no_user_data(&mut self, tsn: Tsn) {
        self.raw(CauseCode::NO_USER_DATA, &tsn.value().to_be_bytes());
    }

    /// A COOKIE ECHO arrived in SHUTDOWN-ACK-SENT.
    pub fn cookie_while_shutting_down(&mut self) {
        self.raw(CauseCode::COOKIE_WHILE_SHUTTING_DOWN, &[]);
    }

    /// The INIT brought these addresses, which the association does not have.
    pub fn restart_with_new_addresses(&mut self, addresses: &[IpAddr]) {
        self.0.item(CauseCode::RESTART_WITH_NEW_ADDRESSES.0, |buf| {
            address_parameters(buf, addresses);
        });
    }

    /// Our user aborted, with this reason.
    pub fn user_initiated_abort(&mut self, reason: &[u8]) {
        self.raw(CauseCode::USER_INITIATED_ABORT, reason);
    }

    /// The peer did something else that the protocol forbids; `information` says what.
    pub fn protocol_violation(&mut self, information: &[u8]) {
        self.raw(CauseCode::PROTOCOL_VIOLATION, information);
    }

    /// Deleting our peer's last address is refused. `request` is the parameter of the ASCONF,
    /// header included ([`RawParameter::bytes`](crate::RawParameter::bytes)), as in the other
    /// refusals.
    pub fn delete_last_address(&mut self, request: &[u8]) {
        self.raw(CauseCode::DELETE_LAST_ADDRESS, request);
    }

    /// The request is refused because there is not enough of something.
    pub fn resource_shortage(&mut self, request: &[u8]) {
        self.raw(CauseCode::RESOURCE_SHORTAGE, request);
    }

    /// Deleting the source address of the ASCONF is refused.
    pub fn delete_source_address(&mut self, request: &[u8]) {
        self.raw(CauseCode::DELETE_SOURCE_ADDRESS, request);
    }

    /// The ASCONF-ACK answers an ASCONF that was never sent.
    pub fn illegal_asconf_ack(&mut self) {
        self.raw(CauseCode::ILLEGAL_ASCONF_ACK, &[]);
    }

    /// The peer may not make this request.
    pub fn no_authorization(&mut self, request: &[u8]) {
        self.raw(CauseCode::NO_AUTHORIZATION, request);
    }

    /// We cannot verify HMACs of this algorithm.
    pub fn unsupported_hmac_id(&mut self, id: HmacId) {
        self.raw(CauseCode::UNSUPPORTED_HMAC_ID, &id.0.to_be_bytes());
    }

    /// A cause of any code.
    pub fn raw(&mut self, code: CauseCode, value: &[u8]) {
        self.0.item(code.0, |buf| buf.extend_from_slice(value));
    }
}
