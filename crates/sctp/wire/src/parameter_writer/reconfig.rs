//! Writes the parameters of RE-CONFIG (RFC 6525, section 4).

use alloc::vec::Vec;

use super::ParameterWriter;
use crate::{AddStreams, ParameterType, ReconfigResponse, ReconfigSerial, StreamId, Tsn};

impl ParameterWriter<'_> {
    /// Writes Outgoing SSN Reset Request for these streams, for all if there are none. `response` is the
    /// request that this one answers, or the last request of the peer; `last_tsn` is the last TSN assigned
    /// to a chunk.
    pub fn outgoing_ssn_reset(
        &mut self,
        request: ReconfigSerial,
        response: ReconfigSerial,
        last_tsn: Tsn,
        streams: &[StreamId],
    ) {
        self.0.item(ParameterType::OUTGOING_SSN_RESET.0, |buf| {
            buf.extend_from_slice(&request.value().to_be_bytes());
            buf.extend_from_slice(&response.value().to_be_bytes());
            buf.extend_from_slice(&last_tsn.value().to_be_bytes());
            put_streams(buf, streams);
        });
    }

    /// Writes Incoming SSN Reset Request for these streams, for all if there are none.
    pub fn incoming_ssn_reset(&mut self, request: ReconfigSerial, streams: &[StreamId]) {
        self.0.item(ParameterType::INCOMING_SSN_RESET.0, |buf| {
            buf.extend_from_slice(&request.value().to_be_bytes());
            put_streams(buf, streams);
        });
    }

    /// Writes SSN/TSN Reset Request.
    pub fn ssn_tsn_reset(&mut self, request: ReconfigSerial) {
        self.raw(ParameterType::SSN_TSN_RESET, &request.value().to_be_bytes());
    }

    /// Writes Re-configuration Response.
    pub fn reconfig_response(&mut self, response: ReconfigResponse) {
        self.0.item(ParameterType::RECONFIG_RESPONSE.0, |buf| {
            buf.extend_from_slice(&response.response.value().to_be_bytes());
            buf.extend_from_slice(&response.result.0.to_be_bytes());
            if let Some(next) = response.next_tsns {
                buf.extend_from_slice(&next.sender.value().to_be_bytes());
                buf.extend_from_slice(&next.receiver.value().to_be_bytes());
            }
        });
    }

    /// Writes Add Outgoing Streams Request.
    pub fn add_outgoing_streams(&mut self, streams: AddStreams) {
        self.add_streams(ParameterType::ADD_OUTGOING_STREAMS, streams);
    }

    /// Writes Add Incoming Streams Request.
    pub fn add_incoming_streams(&mut self, streams: AddStreams) {
        self.add_streams(ParameterType::ADD_INCOMING_STREAMS, streams);
    }

    fn add_streams(&mut self, kind: ParameterType, streams: AddStreams) {
        self.0.item(kind.0, |buf| {
            buf.extend_from_slice(&streams.request.value().to_be_bytes());
            buf.extend_from_slice(&streams.count.to_be_bytes());
            buf.extend_from_slice(&[0; 2]);
        });
    }
}

fn put_streams(buf: &mut Vec<u8>, streams: &[StreamId]) {
    buf.extend(streams.iter().flat_map(|stream| stream.0.to_be_bytes()));
}
