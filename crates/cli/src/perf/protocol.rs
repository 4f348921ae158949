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

use std::time::Duration;

use bytes::Bytes;
use carrick::{Payload, PeerText, Ppid, SendOptions};
use serde::{Deserialize, Serialize};

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::pacing::message_interval;
use super::session::TransferRole;
use crate::failure::Failure;

/// PPID of control messages: "CPC1".
pub(super) const CONTROL: Ppid = Ppid(0x4350_4331);

/// PPID of data messages: "CPD1".
pub(super) const DATA: Ppid = Ppid(0x4350_4431);

/// Version of the control protocol.
pub(super) const VERSION: u32 = 2;

/// Maximum length of a control message, in bytes.
const MAX_CONTROL: usize = 65_536;

/// Maximum length of a data message, in bytes.
pub(super) const MAX_SIZE: u32 = 1 << 30;

/// Maximum number of associations of a client.
pub(super) const MAX_PARALLEL: u16 = 128;

/// Maximum memory for one message of each association.
pub(super) const MAX_MESSAGE_MEMORY: u64 = 2 << 30;

/// Maximum duration of a transfer, as in iperf3, so that no request occupies a server for ever.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(24);

/// Sides that send data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// Extent of a transfer, for each sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TransferExtent {
    /// Number of bytes.
    Bytes(u64),
    /// Duration in milliseconds.
    Milliseconds(u64),
}

impl TransferExtent {
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Milliseconds(_) => None,
        }
    }
}

/// Request for a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct MeasurementRequest {
    /// [`VERSION`].
    pub(super) version: u32,
    pub(super) direction: Direction,
    pub(super) extent: TransferExtent,
    /// Length of each message but the last, in bytes.
    pub(super) size: u32,
    /// Number of streams that carry data.
    pub(super) streams: u16,
    pub(super) unordered: bool,
    /// Rate of each sender in bit/s; 0 if unlimited. Requests of version 1 lack this field and those below.
    #[serde(default)]
    pub(super) bitrate: u64,
    /// Time in milliseconds before the transfer is counted; it precedes the duration.
    #[serde(default)]
    pub(super) omit: u64,
    /// Number of associations of the client, each with a request that has this group.
    #[serde(default)]
    pub(super) parallel: u16,
    /// Random number of the client.
    #[serde(default)]
    pub(super) group: u64,
}

impl MeasurementRequest {
    /// Checks the request of a peer, for which this side may send on streams 0 to `outbound` - 1.
    pub(super) fn check(&self, outbound: u16) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "this side uses version {VERSION} of the control protocol, the peer version {}: use the same carrick on both sides",
                self.version
            ));
        }
        if self.size == 0 || self.size > MAX_SIZE {
            return Err(format!("the message size must be 1 to {MAX_SIZE} bytes"));
        }
        if !(1..=MAX_PARALLEL).contains(&self.parallel) {
            return Err(format!("--parallel must be 1 to {MAX_PARALLEL}"));
        }
        if u64::from(self.parallel) * u64::from(self.size) > MAX_MESSAGE_MEMORY {
            return Err(format!(
                "messages of {} bytes for each of {} associations need more than 2 GiB: use a smaller --size or --parallel",
                self.size, self.parallel
            ));
        }
        if self.omit > 0 && self.extent.bytes().is_some() {
            return Err("--omit needs a duration (--seconds) instead of --bytes".into());
        }
        if self.duration() > MAX_DURATION {
            return Err(format!(
                "the transfer takes longer than {} h: use shorter --seconds and --omit, fewer --bytes or a higher --bitrate",
                MAX_DURATION.as_secs() / 3600
            ));
        }
        if self.streams == 0 || self.streams >= outbound {
            return Err(format!(
                "{} data streams requested; 1 to {} are possible",
                self.streams,
                outbound.saturating_sub(1)
            ));
        }
        Ok(())
    }

    /// Returns the duration of the transfer, as far as the request determines it.
    fn duration(&self) -> Duration {
        match self.extent {
            TransferExtent::Milliseconds(milliseconds) => {
                Duration::from_millis(milliseconds.saturating_add(self.omit))
            }
            TransferExtent::Bytes(_) if self.bitrate == 0 => Duration::ZERO,
            TransferExtent::Bytes(bytes) => {
                let milliseconds = u128::from(bytes) * 8000 / u128::from(self.bitrate);
                Duration::from_millis(milliseconds.try_into().unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the time before the transfer is counted.
    pub(super) fn omit(&self) -> Duration {
        Duration::from_millis(self.omit)
    }

    /// Returns the time for which each sender sends; `None` if the number of bytes is given.
    pub(super) fn sending_time(&self) -> Option<Duration> {
        self.extent.bytes().is_none().then(|| self.duration())
    }

    /// Returns the time between two messages of a sender with a rate; zero without one.
    pub(super) fn message_interval(&self) -> Duration {
        message_interval(self.bitrate, self.size)
    }

    /// Returns the role of the client.
    pub(super) fn client_role(&self) -> TransferRole {
        TransferRole {
            sends: self.client_sends(),
            receives: self.server_sends(),
        }
    }

    pub(super) fn server_sends(&self) -> bool {
        self.direction != Direction::ToServer
    }

    pub(super) fn client_sends(&self) -> bool {
        self.direction != Direction::ToClient
    }
}

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

impl std::ops::Add for TransferAmount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            messages: self.messages + other.messages,
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
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeout_retransmissions: self.timeout_retransmissions - earlier.timeout_retransmissions,
            fast_retransmissions: self.fast_retransmissions - earlier.fast_retransmissions,
            dropped_for_buffer: self.dropped_for_buffer - earlier.dropped_for_buffer,
            packets_sent: self.packets_sent - earlier.packets_sent,
            packets_received: self.packets_received - earlier.packets_received,
        }
    }

    /// Returns the cost of two associations together. The CPU time of each is that of the process.
    pub(super) fn with(&self, other: &Self) -> Self {
        Self {
            cpu_user: self.cpu_user.max(other.cpu_user),
            cpu_system: self.cpu_system.max(other.cpu_system),
            cpu_shared: self.cpu_shared || other.cpu_shared,
            retransmissions: self.retransmissions + other.retransmissions,
            timeout_retransmissions: self.timeout_retransmissions + other.timeout_retransmissions,
            fast_retransmissions: self.fast_retransmissions + other.fast_retransmissions,
            dropped_for_buffer: self.dropped_for_buffer + other.dropped_for_buffer,
            packets_sent: self.packets_sent + other.packets_sent,
            packets_received: self.packets_received + other.packets_received,
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

    fn request() -> MeasurementRequest {
        MeasurementRequest {
            version: VERSION,
            direction: Direction::Both,
            extent: TransferExtent::Bytes(7),
            size: 1000,
            streams: 3,
            unordered: false,
            bitrate: 8000,
            omit: 0,
            parallel: 2,
            group: 9,
        }
    }

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

    #[test]
    fn a_request_is_checked() {
        assert_eq!(request().check(4), Ok(()));
        assert!(request().check(3).is_err(), "stream 3 does not exist");
        for wrong in [
            MeasurementRequest {
                version: 1,
                ..request()
            },
            MeasurementRequest {
                size: 0,
                ..request()
            },
            MeasurementRequest {
                size: MAX_SIZE + 1,
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Milliseconds(1),
                omit: u64::MAX,
                ..request()
            },
            MeasurementRequest {
                parallel: 0,
                ..request()
            },
            MeasurementRequest {
                parallel: 129,
                ..request()
            },
            MeasurementRequest {
                parallel: 3,
                size: MAX_SIZE,
                ..request()
            },
            MeasurementRequest {
                omit: 1,
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Milliseconds(86_400_001),
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Bytes(u64::MAX),
                ..request()
            },
            MeasurementRequest {
                streams: 0,
                ..request()
            },
        ] {
            assert!(wrong.check(10).is_err(), "{wrong:?}");
        }
    }
}
