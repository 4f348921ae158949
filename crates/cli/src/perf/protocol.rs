//! Control protocol of a measurement, on the association that is measured.
//!
//! ```text
//! client                                server      stream      PPID
//!   | Request ----------------------------> |       0           "CPC1"
//!   | <------------------ Accepted, Refused |       0           "CPC1"
//!   | ClockRequest ------------------------> |       0           "CPC1"   ten times
//!   | <------------------------- ClockReply |       0           "CPC1"
//!   | Start -------------------------------> |       0           "CPC1"
//!   | <------------------------------ Ready |       0           "CPC1"
//!   | data <----------------------> data    |       1 to n      "CPD1"
//!   | End <-------------------------> End   |       0           "CPC1"   from each sender
//!   | Received <---------------> Received   |       0           "CPC1"   from each receiver
//!   | Summary <-----------------> Summary   |       0           "CPC1"   from both
//!   | SHUTDOWN ...                          |
//! ```
//!
//! A control message is a JSON object of at most 64 KiB, whose `kind` is its type; unknown fields are
//! ignored. Data messages of 8 bytes to 1 MiB begin with their sending time
//! (module `delay`); the rest of their content is arbitrary. An End may overtake data, because streams are
//! independent: a receiver is complete when it has as many bytes as the End states. A side sends its
//! Summary when it has sent and received all data and the peer has reported that it has received all data,
//! so that the CPU time is complete.

use bytes::Bytes;
use carrick::{Payload, PeerText, Ppid, SendOptions};
use serde::{Deserialize, Serialize};

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::request::MeasurementRequest;
use crate::failure::Failure;

/// PPID of control messages: "CPC1".
pub(super) const CONTROL: Ppid = Ppid(0x4350_4331);

/// PPID of data messages: "CPD1".
pub(super) const DATA: Ppid = Ppid(0x4350_4431);

/// Maximum length of a control message, in bytes.
const MAX_CONTROL: usize = 65_536;

/// Number of messages and of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct TransferAmount {
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

impl TransferAmount {
    /// Returns the amount since an earlier state of the same counter.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            messages: self.messages - earlier.messages,
        }
    }
}

/// The amounts may be those of a peer.
impl std::ops::Add for TransferAmount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            messages: self.messages.saturating_add(other.messages),
        }
    }
}

/// Amount received, and the time that it took.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Reception {
    #[serde(flatten)]
    pub(super) amount: TransferAmount,
    /// Time from the start of the measurement to the last message.
    pub(super) seconds: f64,
    /// Longest time without data between the first message and the last, in seconds.
    pub(super) longest_interruption: f64,
    /// Delays of the messages with a sending time.
    pub(super) delay: Option<DelaySummary>,
}

/// Cost of the measurement for one side.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct MeasurementCost {
    /// CPU time in user mode, in seconds.
    pub(super) cpu_user: f64,
    /// CPU time in system mode, in seconds.
    pub(super) cpu_system: f64,
    /// The process ran another measurement at the same time, whose CPU time is included.
    pub(super) cpu_shared: bool,
    /// Number of DATA chunks sent again.
    pub(super) retransmissions: u64,
    /// Number of DATA chunks retransmitted after a timeout.
    pub(super) timeout_retransmissions: u64,
    /// Number of DATA chunks retransmitted after missing reports.
    pub(super) fast_retransmissions: u64,
    /// Number of received DATA chunks discarded because the receive buffer was full.
    pub(super) dropped_for_buffer: u64,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
}

impl MeasurementCost {
    /// Returns the cost since an earlier state of the same side.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_user: self.cpu_user - earlier.cpu_user,
            cpu_system: self.cpu_system - earlier.cpu_system,
            cpu_shared: self.cpu_shared,
            retransmissions: self.retransmissions.saturating_sub(earlier.retransmissions),
            timeout_retransmissions: self
                .timeout_retransmissions
                .saturating_sub(earlier.timeout_retransmissions),
            fast_retransmissions: self
                .fast_retransmissions
                .saturating_sub(earlier.fast_retransmissions),
            dropped_for_buffer: self
                .dropped_for_buffer
                .saturating_sub(earlier.dropped_for_buffer),
            packets_sent: self.packets_sent.saturating_sub(earlier.packets_sent),
            packets_received: self
                .packets_received
                .saturating_sub(earlier.packets_received),
        }
    }

    /// Returns the cost of two associations together. The CPU time of each is that of the process.
    pub(super) fn with(&self, other: &Self) -> Self {
        Self {
            cpu_user: self.cpu_user.max(other.cpu_user),
            cpu_system: self.cpu_system.max(other.cpu_system),
            cpu_shared: self.cpu_shared || other.cpu_shared,
            retransmissions: self.retransmissions.saturating_add(other.retransmissions),
            timeout_retransmissions: self
                .timeout_retransmissions
                .saturating_add(other.timeout_retransmissions),
            fast_retransmissions: self
                .fast_retransmissions
                .saturating_add(other.fast_retransmissions),
            dropped_for_buffer: self
                .dropped_for_buffer
                .saturating_add(other.dropped_for_buffer),
            packets_sent: self.packets_sent.saturating_add(other.packets_sent),
            packets_received: self.packets_received.saturating_add(other.packets_received),
        }
    }

    pub(super) fn cpu(&self) -> f64 {
        self.cpu_user + self.cpu_system
    }
}

/// Control message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ControlMessage {
    Request(MeasurementRequest),
    Accepted,
    /// Asks the server for its time.
    ClockRequest,
    /// Times of the server at which the request was received and the reply sent, in nanoseconds since 1970.
    ClockReply {
        received: u64,
        replied: u64,
    },
    /// The client starts the transfer.
    Start(ClockOffset),
    /// The server has started the transfer.
    Ready,
    Refused {
        reason: String,
    },
    /// The sender of this message has sent all its data, of this amount.
    End(TransferAmount),
    /// The sender of this message has received all data.
    Received(Reception),
    Summary(MeasurementCost),
}

impl ControlMessage {
    pub(super) fn encode(&self) -> Result<Bytes, Failure> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(|e| Failure::Run(format!("cannot write a control message: {e}")))
    }

    pub(super) fn decode(payload: Payload) -> Result<Self, Failure> {
        let wrong = |why: String| {
            // The error may quote the peer's message.
            let why = PeerText::new(&why);
            Failure::Run(format!(
                "invalid control message from the peer ({why}): use the same carrick on both sides"
            ))
        };
        if payload.len() > MAX_CONTROL {
            return Err(wrong("it is too long".into()));
        }
        serde_json::from_slice(&payload.into_bytes()).map_err(|e| wrong(e.to_string()))
    }

    /// Returns the options for sending control messages.
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
    use crate::perf::request::tests::request;

    #[test]
    fn control_messages_are_as_documented() {
        let encoded = ControlMessage::Request(request()).encode().unwrap();
        assert_eq!(
            encoded,
            &br#"{"kind":"request","version":2,"direction":"both","extent":{"bytes":7},"size":1000,"streams":3,"unordered":false,"bitrate":8000,"omit":0,"parallel":2,"group":9}"#[..]
        );
        let all = [
            ControlMessage::Request(request()),
            ControlMessage::Accepted,
            ControlMessage::ClockRequest,
            ControlMessage::ClockReply {
                received: 1_800_000_000_123_456_789,
                replied: u64::MAX,
            },
            ControlMessage::Start(ClockOffset {
                offset: -7,
                round_trip: 9,
            }),
            ControlMessage::Ready,
            ControlMessage::Refused {
                reason: "no".into(),
            },
            ControlMessage::End(TransferAmount {
                bytes: 1,
                messages: 2,
            }),
            ControlMessage::Received(Reception {
                amount: TransferAmount::default(),
                seconds: 0.25,
                longest_interruption: 0.125,
                delay: None,
            }),
            ControlMessage::Summary(MeasurementCost::default()),
        ];
        for control in all {
            let decoded = ControlMessage::decode(control.encode().unwrap().into()).unwrap();
            assert_eq!(decoded, control);
        }
    }

    /// The error names the version, not a field that the older carrick does not know.
    #[test]
    fn requests_of_version_one_are_refused_by_version() {
        let old = br#"{"kind":"request","version":1,"direction":"both","extent":{"bytes":7},"size":9,"streams":1,"unordered":false}"#;
        let decoded = ControlMessage::decode(Bytes::from_static(old).into()).unwrap();
        let ControlMessage::Request(request) = decoded else {
            panic!("{decoded:?}");
        };
        let refused = request.check(2).unwrap_err();
        assert!(refused.contains("the peer version 1"), "{refused}");
    }

    #[test]
    fn an_invalid_control_message_is_an_error() {
        for bytes in [&b""[..], b"{}", b"hello", br#"{"kind":"other"}"#] {
            let payload = Payload::from(Bytes::from_static(bytes));
            assert!(matches!(
                ControlMessage::decode(payload),
                Err(Failure::Run(_))
            ));
        }
        let long = Payload::from(Bytes::from(vec![b' '; MAX_CONTROL + 1]));
        assert!(ControlMessage::decode(long).is_err());
        // serde quotes the unknown kind.
        let forged = Payload::from(Bytes::from_static(
            br#"{"kind":"x\u001b[2J\ncarrick: fine"}"#,
        ));
        let Err(Failure::Run(line)) = ControlMessage::decode(forged) else {
            panic!("an unknown kind is accepted");
        };
        assert!(line.contains("\\u{1b}"), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
}
