//! Writes the error causes of ABORT and ERROR chunks (RFC 9260, section 3.3.10), and of ASCONF-ACK (RFC
//! 5061, section 4.3).

use core::net::IpAddr;

use crate::parameter_writer::address_parameters;
use crate::tlv::TlvWriter;
use crate::{CauseCode, HmacId, ParameterType, StreamId, Tsn};

/// Appends error causes to a chunk.
#[derive(Debug)]
pub struct CauseWriter<'w>(TlvWriter<'w>);

impl<'w> CauseWriter<'w> {
    pub(crate) const fn new(out: TlvWriter<'w>) -> Self {
        Self(out)
    }

    /// Returns whether one more cause with this many bytes of information fits into the packet's limit.
    pub fn fits(&self, value_len: usize) -> bool {
        self.0.fits(value_len)
    }

    /// Writes Invalid Stream Identifier: the peer used a stream that does not exist.
    pub fn invalid_stream(&mut self, stream: StreamId) {
        let [high, low] = stream.0.to_be_bytes();
        self.raw(CauseCode::INVALID_STREAM, &[high, low, 0, 0]);
    }

    /// Writes Missing Mandatory Parameter: the INIT or INIT ACK lacks these parameters.
    pub fn missing_parameters(&mut self, missing: &[ParameterType]) {
        self.0.item(CauseCode::MISSING_PARAMETERS.0, |buf| {
            buf.extend_from_slice(&(missing.len() as u32).to_be_bytes());
            buf.extend(missing.iter().flat_map(|kind| kind.0.to_be_bytes()));
        });
    }

    /// Writes Stale Cookie: the State Cookie expired `staleness_us` microseconds ago; 0 does not reveal the
    /// time.
    pub fn stale_cookie(&mut self, staleness_us: u32) {
        self.raw(CauseCode::STALE_COOKIE, &staleness_us.to_be_bytes());
    }

    /// Writes Out of Resource.
    pub fn out_of_resource(&mut self) {
        self.raw(CauseCode::OUT_OF_RESOURCE, &[]);
    }

    /// Writes Unresolvable Address with an address parameter of the peer, header included.
    pub fn unresolvable_address(&mut self, parameter: &[u8]) {
        self.raw(CauseCode::UNRESOLVABLE_ADDRESS, parameter);
    }

    /// Writes Unrecognized Chunk Type with a chunk of the peer, header included
    /// ([`RawChunk::bytes`](crate::RawChunk::bytes)).
    pub fn unrecognized_chunk(&mut self, chunk: &[u8]) {
        self.raw(CauseCode::UNRECOGNIZED_CHUNK, chunk);
    }

    /// Writes Invalid Mandatory Parameter: a field of the INIT or INIT ACK has a forbidden value.
    pub fn invalid_mandatory_parameter(&mut self) {
        self.raw(CauseCode::INVALID_MANDATORY_PARAMETER, &[]);
    }

    /// Writes Unrecognized Parameters with parameters of the peer's INIT ACK, headers included. The caller
    /// adds the padding between two of them.
    pub fn unrecognized_parameters(&mut self, parameters: &[u8]) {
        self.raw(CauseCode::UNRECOGNIZED_PARAMETERS, parameters);
    }

    /// Writes No User Data: the DATA chunk with this TSN had none.
    pub fn no_user_data(&mut self, tsn: Tsn) {
        self.raw(CauseCode::NO_USER_DATA, &tsn.value().to_be_bytes());
    }

    /// Writes Cookie Received While Shutting Down.
    pub fn cookie_while_shutting_down(&mut self) {
        self.raw(CauseCode::COOKIE_WHILE_SHUTTING_DOWN, &[]);
    }

    /// Writes Restart of an Association with New Addresses: the INIT listed these new addresses.
    pub fn restart_with_new_addresses(&mut self, addresses: &[IpAddr]) {
        self.0.item(CauseCode::RESTART_WITH_NEW_ADDRESSES.0, |buf| {
            address_parameters(buf, addresses);
        });
    }

    /// Writes User-Initiated Abort with the user's reason.
    pub fn user_initiated_abort(&mut self, reason: &[u8]) {
        self.raw(CauseCode::USER_INITIATED_ABORT, reason);
    }

    /// Writes Protocol Violation; `information` describes it.
    pub fn protocol_violation(&mut self, information: &[u8]) {
        self.raw(CauseCode::PROTOCOL_VIOLATION, information);
    }

    /// Writes Request to Delete Last Remaining IP Address. `request` is the parameter of the ASCONF, header
    /// included ([`RawParameter::bytes`](crate::RawParameter::bytes)), as in the other refusals.
    pub fn delete_last_address(&mut self, request: &[u8]) {
        self.raw(CauseCode::DELETE_LAST_ADDRESS, request);
    }

    /// Writes Operation Refused Due to Resource Shortage.
    pub fn resource_shortage(&mut self, request: &[u8]) {
        self.raw(CauseCode::RESOURCE_SHORTAGE, request);
    }

    /// Writes Request to Delete Source IP Address.
    pub fn delete_source_address(&mut self, request: &[u8]) {
        self.raw(CauseCode::DELETE_SOURCE_ADDRESS, request);
    }

    /// Writes Association Aborted Due to Illegal ASCONF-ACK: no such ASCONF was sent.
    pub fn illegal_asconf_ack(&mut self) {
        self.raw(CauseCode::ILLEGAL_ASCONF_ACK, &[]);
    }

    /// Writes Request Refused - No Authorization.
    pub fn no_authorization(&mut self, request: &[u8]) {
        self.raw(CauseCode::NO_AUTHORIZATION, request);
    }

    /// Writes Unsupported HMAC Identifier.
    pub fn unsupported_hmac_id(&mut self, id: HmacId) {
        self.raw(CauseCode::UNSUPPORTED_HMAC_ID, &id.0.to_be_bytes());
    }

    /// Writes a cause of any code.
    pub fn raw(&mut self, code: CauseCode, value: &[u8]) {
        self.0.item(code.0, |buf| buf.extend_from_slice(value));
    }
}
