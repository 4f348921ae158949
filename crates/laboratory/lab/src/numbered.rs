//! Numbered messages.

use bytes::{Bytes, BytesMut};

/// Returns the message of this number; `size` is at least the eight bytes of the number.
pub(crate) fn message(number: u64, size: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(size.max(8));
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.freeze()
}

/// Returns the number with which a message begins.
pub(crate) fn number_of(message: &[u8]) -> Option<u64> {
    let number = message.first_chunk();
    number.map(|number| u64::from_be_bytes(*number))
}

/// Returns the number of a message, which must be of this size.
pub(crate) fn number(message: &Bytes, size: usize) -> Result<u64, String> {
    match number_of(message) {
        Some(number) if message.len() == size => Ok(number),
        _ => Err(format!(
            "a message of {} bytes was delivered",
            message.len()
        )),
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
