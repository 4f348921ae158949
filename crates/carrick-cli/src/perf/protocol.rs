//! What the two ends of a measurement say to each other, on the association that is measured.
//!
//! ```text
//! client                                server      stream      PPID
//!   | Request ----------------------------> |       0           "CPC1"
//!   | <------------------ Accepted, Refused |       0           "CPC1"
//!   | data <----------------------> data    |       1 to n      "CPD1"
//!   | End <-------------------------> End   |       0           "CPC1"   from each sender
//!   | Received <---------------> Received   |       0           "CPC1"   from each receiver
//!   | Summary <-----------------> Summary   |       0           "CPC1"   from both
//!   | SHUTDOWN ...                          |
//! ```
//!
//! A control message is a JSON object of at most 64 KiB, whose `kind` says which it is; fields that
//! are not known are ignored. The content of data is arbitrary. End overtakes data, because streams
//! don't wait for each other: a receiver has everything when it has as many bytes as End says. A
//! Summary is sent when the sender of it has sent and received everything and knows that the peer
//! has received everything, so that its CPU time is complete.

use std::time::Duration;

use bytes::Bytes;
use carrick::{Payload, PeerText, Ppid, SendOptions};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Marks control messages: "CPC1".
pub(super) const CONTROL: Ppid = Ppid(0x4350_4331);

/// Marks data: "CPD1".
pub(super) const DATA: Ppid = Ppid(0x4350_4431);

/// The version of this exchange.
pub(super) const VERSION: u32 = 1;

/// Bytes of a control message at most.
const MAX_CONTROL: usize = 65_536;

/// Bytes of a message at most.
pub(super) const MAX_SIZE: u32 = 1 << 30;

/// Who sends data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// How much each sender sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Extent {
    /// This many bytes.
    Bytes(u64),
    /// As much as leaves in this many milliseconds.
    Milliseconds(u64),
}

impl Extent {
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Milliseconds(_) => None,
        }
    }

    pub(super) fn time(self) -> Option<Duration> {
        match self {
            Self::Bytes(_) => None,
            Self::Milliseconds(milliseconds) => Some(Duration::from_millis(milliseconds)),
        }
    }
}

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// [`VERSION`].
    pub(super) version: u32,
    pub(super) direction: Direction,
    pub(super) extent: Extent,
    /// Bytes of each message but the last.
    pub(super) size: u32,
    /// Streams that data is spread over.
    pub(super) streams: u16,
    pub(super) unordered: bool,
}

impl Request {
    /// Checks what a peer asks for, which may send on streams 0 to `outbound` less one.
    pub(super) fn check(&self, outbound: u16) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "this side speaks version {VERSION} and the other {}: use the same carrick",
                self.version
            ));
        }
        if self.size == 0 || self.size > MAX_SIZE {
            return Err(format!("the message size must be 1 to {MAX_SIZE} bytes"));
        }
        if self.streams == 0 || self.streams >= outbound {
            return Err(format!(
                "{} streams of data: 1 to {} are possible",
                self.streams,
                outbound.saturating_sub(1)
            ));
        }
        Ok(())
    }

    pub(super) fn server_sends(&self) -> bool {
        self.direction != Direction::ToServer
    }

    pub(super) fn client_sends(&self) -> bool {
        self.direction != Direction::ToClient
    }
}

/// Messages and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

/// What a receiver has received, and in which time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Reception {
    #[serde(flatten)]
    pub(super) amount: Amount,
    /// From the start of the measurement to the last message.
    pub(super) seconds: f64,
}

/// What the measurement cost one side.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Seconds of CPU in the program.
    pub(super) cpu_user: f64,
    /// Seconds of CPU in the system on its behalf.
    pub(super) cpu_system: f64,
    /// The process measured something else at the same time, which its CPU time contains.
    pub(super) cpu_shared: bool,
    /// DATA chunks sent again after a timeout.
    pub(super) timeout_retransmissions: u64,
    /// DATA chunks sent again after missing reports.
    pub(super) fast_retransmissions: u64,
    /// DATA chunks that arrived and were dropped, because the receive buffer was full.
    pub(super) dropped_for_buffer: u64,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
}

impl Cost {
    pub(super) fn cpu(&self) -> f64 {
        self.cpu_user + self.cpu_system
    }

    pub(super) fn retransmissions(&self) -> u64 {
        self.timeout_retransmissions + self.fast_retransmissions
    }
}

/// A control message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Control {
    Request(Request),
    Accepted,
    Refused {
        reason: String,
    },
    /// The sender of this has sent all its data, which was this much.
    End(Amount),
    /// The sender of this has received all data.
    Received(Reception),
    Summary(Cost),
}

impl Control {
    pub(super) fn encode(&self) -> Result<Bytes, Failure> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(|e| Failure::Run(format!("cannot write a control message: {e}")))
    }

    pub(super) fn decode(payload: Payload) -> Result<Self, Failure> {
        let wrong = |why: String| {
            // It may quote the message.
            let why = PeerText::new(&why);
            Failure::Run(format!(
                "the peer does not measure as this program does ({why}): use the same carrick on both sides"
            ))
        };
        if payload.len() > MAX_CONTROL {
            return Err(wrong("its control message is too long".into()));
        }
        serde_json::from_slice(&payload.into_bytes()).map_err(|e| wrong(e.to_string()))
    }

    /// How control messages are sent.
    pub(super) fn options() -> SendOptions {
        SendOptions {
            ppid: CONTROL,
            no_delay: true,
            ..SendOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            version: VERSION,
            direction: Direction::Both,
            extent: Extent::Bytes(7),
            size: 1000,
            streams: 3,
            unordered: false,
        }
    }

    #[test]
    fn control_messages_are_as_documented() {
        let encoded = Control::Request(request()).encode().unwrap();
        assert_eq!(
            encoded,
            &br#"{"kind":"request","version":1,"direction":"both","extent":{"bytes":7},"size":1000,"streams":3,"unordered":false}"#[..]
        );
        let all = [
            Control::Request(request()),
            Control::Accepted,
            Control::Refused {
                reason: "no".into(),
            },
            Control::End(Amount {
                bytes: 1,
                messages: 2,
            }),
            Control::Received(Reception {
                amount: Amount::default(),
                seconds: 0.25,
            }),
            Control::Summary(Cost::default()),
        ];
        for control in all {
            let decoded = Control::decode(control.encode().unwrap().into()).unwrap();
            assert_eq!(decoded, control);
        }
    }

    #[test]
    fn what_is_not_a_control_message_is_the_peers_fault() {
        for bytes in [&b""[..], b"{}", b"hello", br#"{"kind":"other"}"#] {
            let payload = Payload::from(Bytes::from_static(bytes));
            assert!(matches!(Control::decode(payload), Err(Failure::Run(_))));
        }
        let long = Payload::from(Bytes::from(vec![b' '; MAX_CONTROL + 1]));
        assert!(Control::decode(long).is_err());
        // serde quotes the unknown name of the kind.
        let forged = Payload::from(Bytes::from_static(
            br#"{"kind":"x\u001b[2J\ncarrick: fine"}"#,
        ));
        let Err(Failure::Run(line)) = Control::decode(forged) else {
            panic!("an unknown kind is taken");
        };
        assert!(line.contains("\\u{1b}"), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }

    #[test]
    fn a_request_is_checked() {
        assert_eq!(request().check(4), Ok(()));
        assert!(request().check(3).is_err(), "stream 3 does not exist");
        for wrong in [
            Request {
                version: 2,
                ..request()
            },
            Request {
                size: 0,
                ..request()
            },
            Request {
                size: MAX_SIZE + 1,
                ..request()
            },
            Request {
                streams: 0,
                ..request()
            },
        ] {
            assert!(wrong.check(10).is_err(), "{wrong:?}");
        }
    }
}
