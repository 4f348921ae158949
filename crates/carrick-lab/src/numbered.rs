//! Numbered messages, and the receiver's record of them.

use bytes::{Bytes, BytesMut};
use carrick_proto::{AssociationId, Endpoint, Time, TraceEvent, TraceRecord, Tsn};

/// Returns the message of this number; `size` is at least the eight bytes of the number.
pub(crate) fn message(number: u64, size: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(size.max(8));
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.freeze()
}

/// Returns the number of a message, which must be of this size.
pub(crate) fn number(message: &Bytes, size: usize) -> Result<u64, String> {
    match message.first_chunk() {
        Some(number) if message.len() == size => Ok(u64::from_be_bytes(*number)),
        _ => Err(format!(
            "a message of {} bytes was delivered",
            message.len()
        )),
    }
}

/// Record of a receiver.
#[derive(Debug, Default)]
pub(crate) struct ReceiverLog {
    /// First arrival of each chunk.
    pub(crate) arrivals: Vec<(Tsn, Time)>,
    /// Delivery of each message, by number.
    pub(crate) deliveries: Vec<(u64, Time)>,
    /// Error of a message that is not one of the flow.
    pub(crate) failure: Option<String>,
}

impl ReceiverLog {
    /// Reads the available messages, each of this size.
    pub(crate) fn read(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        size: usize,
    ) {
        while let Some(message) = endpoint.receive(id) {
            match number(&message.payload.into_bytes(), size) {
                Ok(number) => self.deliveries.push((number, now)),
                Err(what) => self.failure = Some(what),
            }
        }
    }

    /// Records an event of the protocol core.
    pub(crate) fn trace(&mut self, record: &TraceRecord) {
        if let TraceEvent::ChunkReceived { tsn } = record.event {
            self.arrivals.push((tsn, record.time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_the_flow_have_a_number() {
        let bytes = message(7, 250);
        assert_eq!((bytes.len(), number(&bytes, 250)), (250, Ok(7)));
        assert_eq!(message(7, 1).len(), 8);
        let error = number(&bytes, 251).expect_err("another size");
        assert_eq!(error, "a message of 250 bytes was delivered");
        assert!(number(&Bytes::from_static(b"short"), 5).is_err());
    }
}
