//! Messages that begin with their number, and what their receiver notes of them.

use bytes::{Bytes, BytesMut};
use carrick_proto::{AssociationId, Endpoint, Time, TraceEvent, TraceRecord, Tsn};

/// The message of this number, of at least the eight bytes that hold it.
pub(crate) fn message(number: u64, size: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(size.max(8));
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.freeze()
}

/// The number of a message, which must be of this size.
pub(crate) fn number(message: &Bytes, size: usize) -> Result<u64, String> {
    match message.first_chunk() {
        Some(number) if message.len() == size => Ok(u64::from_be_bytes(*number)),
        _ => Err(format!(
            "a message of {} bytes was delivered",
            message.len()
        )),
    }
}

/// What a receiver notes.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// First arrival of each chunk.
    pub(crate) arrivals: Vec<(Tsn, Time)>,
    /// Delivery of each message, by number.
    pub(crate) deliveries: Vec<(u64, Time)>,
    /// A message came that is none of ours.
    pub(crate) failure: Option<String>,
}

impl Received {
    /// Takes the messages that can be read, each of this size.
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

    /// Takes what the core tells.
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
    fn a_message_has_its_number_and_another_one_none() {
        let bytes = message(7, 250);
        assert_eq!((bytes.len(), number(&bytes, 250)), (250, Ok(7)));
        assert_eq!(message(7, 1).len(), 8);
        let error = number(&bytes, 251).expect_err("another size");
        assert_eq!(error, "a message of 250 bytes was delivered");
        assert!(number(&Bytes::from_static(b"short"), 5).is_err());
    }
}
