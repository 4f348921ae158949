//! Records in plain text, which anyone can send with a peer's address.
//!
//! During a handshake, the library gets those with messages that the peer may send then, and no others: the
//! rest is discarded silently (RFC 6347, section 4.1.2.7).

/// Length of a header of records and handshake messages of DTLS 1.2 (RFC 6347, sections 4.1 and 4.2.2).
pub(crate) const RECORD_HEADER: usize = 13;
const MESSAGE_HEADER: usize = 12;

/// Types of records (RFC 6347, section 4.1; RFC 9147, section 4).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
const LAST_TYPE: u8 = 26;

/// Types of handshake messages (RFC 6347, section 4.3.2).
const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_HELLO: u8 = 2;
const HELLO_VERIFY_REQUEST: u8 = 3;
const CERTIFICATE: u8 = 11;
const SERVER_KEY_EXCHANGE: u8 = 12;
const CERTIFICATE_REQUEST: u8 = 13;
const SERVER_HELLO_DONE: u8 = 14;
const CERTIFICATE_VERIFY: u8 = 15;
const CLIENT_KEY_EXCHANGE: u8 = 16;

/// Peer of a handshake, which determines the messages that it may send in plain text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    Server,
    Client,
    /// A client that has not returned the cookie.
    UnvalidatedClient,
}

impl Peer {
    fn may_send(self, message: u8) -> bool {
        match self {
            Self::UnvalidatedClient => message == CLIENT_HELLO,
            Self::Client => matches!(
                message,
                CLIENT_HELLO | CERTIFICATE | CLIENT_KEY_EXCHANGE | CERTIFICATE_VERIFY
            ),
            Self::Server => matches!(
                message,
                SERVER_HELLO
                    | HELLO_VERIFY_REQUEST
                    | CERTIFICATE
                    | SERVER_KEY_EXCHANGE
                    | CERTIFICATE_REQUEST
                    | SERVER_HELLO_DONE
            ),
        }
    }
}

/// Records of a datagram during a handshake.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct HandshakeRecords {
    /// Protected records, and records in plain text that the peer may send.
    pub(crate) accepted: Vec<u8>,
    /// True if `accepted` has records in plain text.
    pub(crate) plain: bool,
    /// Description of a fatal alert in plain text.
    pub(crate) alert: Option<u8>,
}

impl HandshakeRecords {
    /// Selects the records of a datagram that a handshake with this peer may process.
    pub(crate) fn of(mut datagram: &[u8], peer: Peer) -> Self {
        let mut records = Self::default();
        while let Some(len) = record_len(datagram) {
            let (record, rest) = datagram.split_at(len);
            datagram = rest;
            if !is_plain(record) {
                records.accepted.extend_from_slice(record);
                continue;
            }
            let body = &record[RECORD_HEADER..];
            let accepts = match record[0] {
                HANDSHAKE => messages_are(body, |message| peer.may_send(message)),
                CHANGE_CIPHER_SPEC => peer != Peer::UnvalidatedClient,
                _ => false,
            };
            if accepts {
                records.plain = true;
                records.accepted.extend_from_slice(record);
            } else if record[0] == ALERT
                && let &[2, description] = body
            {
                records.alert = Some(description);
            }
        }
        records
    }
}

/// Returns the length of the first record of a datagram, its header included.
fn record_len(datagram: &[u8]) -> Option<usize> {
    let first = *datagram.first()?;
    let len = if first >> 5 == 1 {
        // The unified header (RFC 9147, section 4): connection identifier, length of the sequence number,
        // presence of the length.
        let number = 1 + usize::from(first >> 3 & 1);
        if first & 0x14 == 4 {
            let at = 1 + number;
            let len = datagram.get(at..at + 2)?;
            at + 2 + usize::from(u16::from_be_bytes([len[0], len[1]]))
        } else {
            datagram.len()
        }
    } else {
        let len = datagram.get(RECORD_HEADER - 2..RECORD_HEADER)?;
        RECORD_HEADER + usize::from(u16::from_be_bytes([len[0], len[1]]))
    };
    (len <= datagram.len()).then_some(len)
}

/// Returns whether a record is not protected: it has the header of DTLS 1.2 and epoch 0.
fn is_plain(record: &[u8]) -> bool {
    (CHANGE_CIPHER_SPEC..=LAST_TYPE).contains(&record[0]) && record.get(3..5) == Some(&[0, 0])
}

/// Returns whether a record consists of fragments of messages whose types are accepted.
fn messages_are(mut body: &[u8], accepts: impl Fn(u8) -> bool) -> bool {
    while let Some((header, rest)) = body.split_first_chunk::<MESSAGE_HEADER>() {
        let len =
            usize::from(header[9]) << 16 | usize::from(header[10]) << 8 | usize::from(header[11]);
        if !accepts(header[0]) || len > rest.len() {
            return false;
        }
        body = &rest[len..];
    }
    body.is_empty()
}

/// First fragment of a handshake message in plain text, at the start of a datagram.
pub(crate) struct Hello<'a> {
    /// Number of the message in the handshake; 0 in a `ClientHello` without cookie.
    pub(crate) number: u16,
    /// Offset of the fragment in the message.
    pub(crate) offset: u32,
    pub(crate) fragment: &'a [u8],
}

/// Returns the fragment of a `ClientHello` in plain text with which a datagram begins.
pub(crate) fn client_hello(datagram: &[u8]) -> Option<Hello<'_>> {
    let (header, rest) = datagram.split_first_chunk::<RECORD_HEADER>()?;
    let [kind, major, minor, epoch @ ..] = header;
    let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
    let (message, fragment) = rest.get(..len)?.split_first_chunk::<MESSAGE_HEADER>()?;
    let is_hello = *kind == HANDSHAKE
        && *major == 254
        && matches!(minor, 253 | 255)
        && epoch[..2] == [0, 0]
        && message[0] == CLIENT_HELLO;
    is_hello.then(|| Hello {
        number: u16::from_be_bytes([message[4], message[5]]),
        offset: u32::from_be_bytes([0, message[6], message[7], message[8]]),
        fragment,
    })
}

impl Hello<'_> {
    /// Random number of the client, behind the version: repeated hellos have the same, also with a cookie
    /// (RFC 6347, section 4.2.1; RFC 8446, section 4.1.2).
    pub(crate) fn random(&self) -> Option<[u8; 32]> {
        let random = self.fragment.get(2..34).filter(|_| self.offset == 0)?;
        random.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, epoch: u8, body: &[u8]) -> Vec<u8> {
        let mut record = vec![
            kind,
            254,
            253,
            0,
            epoch,
            0,
            0,
            0,
            0,
            0,
            1,
            0,
            body.len() as u8,
        ];
        record.extend_from_slice(body);
        record
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let len = body.len() as u8;
        let mut message = vec![kind, 0, 0, len, 0, 0, 0, 0, 0, 0, 0, len];
        message.extend_from_slice(body);
        message
    }

    /// RFC 6347, section 4.1.2.7
    #[test]
    fn plain_records_of_the_wrong_side_are_discarded() {
        let hello = record(HANDSHAKE, 0, &message(CLIENT_HELLO, &[7; 40]));
        let server_hello = record(HANDSHAKE, 0, &message(SERVER_HELLO, &[7; 40]));
        let certificate = record(HANDSHAKE, 0, &message(CERTIFICATE, b"of any side"));
        let both = [message(CLIENT_HELLO, b"a"), message(SERVER_HELLO, b"b")].concat();
        let both = record(HANDSHAKE, 0, &both);
        let data = record(23, 0, b"data");
        let ack = record(LAST_TYPE, 0, &[0, 0]);
        let all = [
            &hello[..],
            &server_hello,
            &certificate,
            &both,
            &data,
            &ack,
            &record(ALERT, 0, &[2, 40]),
        ]
        .concat();
        for (peer, expected) in [
            (Peer::UnvalidatedClient, hello.clone()),
            (Peer::Client, [&hello[..], &certificate].concat()),
            (Peer::Server, [&server_hello[..], &certificate].concat()),
        ] {
            let records = HandshakeRecords::of(&all, peer);
            assert_eq!(records.accepted, expected, "{peer:?}");
            assert_eq!((records.alert, records.plain), (Some(40), true));
        }
    }

    #[test]
    fn protected_records_are_accepted_with_plain_ones() {
        let protected = [
            record(ALERT, 1, b"sealed"),
            vec![0x26, 1, 0, 3, 9, 9, 9],
            vec![0x2c],
        ];
        let alert = record(ALERT, 0, &[2, 40]);
        let all = [&protected[0][..], &alert, &protected[1], &alert].concat();
        let records = HandshakeRecords::of(&all, Peer::Server);
        assert_eq!(records.accepted, protected[..2].concat());
        assert_eq!((records.alert, records.plain), (Some(40), false));
        // Without a length the record is the rest of the datagram; a truncated one is discarded.
        let rest = [&[0x28, 0, 1][..], &alert].concat();
        assert_eq!(HandshakeRecords::of(&rest, Peer::Server).accepted, rest);
        for cut in [&protected[2][..], &alert[..12], &alert[..14], &[]] {
            let records = HandshakeRecords::of(cut, Peer::Server);
            assert_eq!(records, HandshakeRecords::default());
        }
    }
}
