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
//!   | data <----------------------> data    |       1 to n      "CPD" and the number of the flow
//!   | responses <------------> responses    |       1 to n      "CPR" and the number of the flow
//!   | Interval <------------------ Interval |       0           "CPC1"   if the client wants the server's
//!   | end of flow <--------> end of flow    |       1 to n      "CPE" and the number of the flow
//!   | End <-------------------------> End   |       0           "CPC1"   from each sender
//!   | Responded <-------------> Responded   |       0           "CPC1"   from each side that responds
//!   | Received <---------------> Received   |       0           "CPC1"   from each receiver
//!   | Summary <-----------------> Summary   |       0           "CPC1"   from both
//!   | SHUTDOWN ...                          |
//! ```
//!
//! A control message is a JSON object of at most 256 KiB, whose `kind` is its type; unknown fields are
//! ignored. Data messages of 8 bytes to 1 MiB begin with their sending time
//! (module `delay`); the rest of their content is arbitrary. An End may overtake data, because streams are
//! independent: a receiver is complete when it has as many bytes of each flow as the End states. Of a flow with partial
//! reliability, it has received what it will receive when it has the end of flow: a reliable, ordered message, which is sent when all
//! messages before are acknowledged or abandoned. Responses are reliable; a side has sent all when it has received all requests.
//! A side sends its Summary when it has sent and received all data and the peer has reported that it has received all data,
//! so that the CPU time is complete.

use bytes::Bytes;
use carrick::{Payload, PeerText, Ppid, SendOptions};
use serde::{Deserialize, Serialize};

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::interval::Interval;
use super::request::MeasurementRequest;
use crate::failure::Failure;

/// PPID of control messages: "CPC1".
pub(super) const CONTROL: Ppid = Ppid(0x4350_4331);

/// Beginnings of the PPIDs of data, responses and ends of flows: "CPD", "CPR" and "CPE". The last byte is the number of the
/// flow, from 1.
const DATA: u32 = 0x4350_4400;
const RESPONSE: u32 = 0x4350_5200;
const FLOW_END: u32 = 0x4350_4500;

/// Maximum length of a control message, in bytes.
const MAX_CONTROL: usize = 256 * 1024;

/// Kind of a message, by its PPID. Flows are indices from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageKind {
    Control,
    Data(usize),
    Response(usize),
    FlowEnd(usize),
}

impl MessageKind {
    /// Returns the kind of a message with this PPID; `None` if it is not of this protocol.
    pub(super) fn of(ppid: Ppid) -> Option<Self> {
        if ppid == CONTROL {
            return Some(Self::Control);
        }
        let flow = ((ppid.0 & 0xff) as usize).checked_sub(1)?;
        match ppid.0 & 0xffff_ff00 {
            DATA => Some(Self::Data(flow)),
            RESPONSE => Some(Self::Response(flow)),
            FLOW_END => Some(Self::FlowEnd(flow)),
            _ => None,
        }
    }

    pub(super) fn ppid(self) -> Ppid {
        let (kind, flow) = match self {
            Self::Control => return CONTROL,
            Self::Data(flow) => (DATA, flow),
            Self::Response(flow) => (RESPONSE, flow),
            Self::FlowEnd(flow) => (FLOW_END, flow),
        };
        // There are at most 64 flows.
        Ppid(kind | (flow as u32 + 1))
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

/// Messages of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlowMessages {
    Data,
    Responses,
}

/// Amount of a flow that was received.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct FlowReception {
    /// Number of the flow, from 1.
    pub(super) flow: u16,
    pub(super) of: FlowMessages,
    #[serde(flatten)]
    pub(super) amount: TransferAmount,
    /// Time from the start of the measurement to the last message.
    pub(super) seconds: f64,
    /// Number of messages that were sent and not received, the omitted time included; of responses, that of requests without one.
    pub(super) lost: u64,
    /// Longest time without a message of the flow between the first one and the last, in seconds.
    pub(super) longest_interruption: f64,
    /// One-way delays of data; times between requests and responses.
    pub(super) delay: Option<DelaySummary>,
    /// Quantiles of the delay in seconds, if the client records series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) distribution: Vec<f64>,
}

/// Amount received, and the time that it took.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Reception {
    #[serde(flatten)]
    pub(super) amount: TransferAmount,
    /// Time from the start of the measurement to the last message.
    pub(super) seconds: f64,
    /// Longest time without data between the first message and the last, in seconds.
    pub(super) longest_interruption: f64,
    /// Delays of the messages with a sending time.
    pub(super) delay: Option<DelaySummary>,
    /// Data and responses of each flow.
    #[serde(default)]
    pub(super) flows: Vec<FlowReception>,
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
    Request(Box<MeasurementRequest>),
    /// The server measures. Describes its host.
    Accepted {
        host: String,
    },
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
    /// Statistics of an interval of the server.
    Interval(Box<Interval>),
    /// The sender of this message has sent all its data, of these amounts by flow.
    End {
        flows: Vec<TransferAmount>,
    },
    /// The sender of this message has sent all its responses, of these amounts by flow.
    Responded {
        flows: Vec<TransferAmount>,
    },
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
    use crate::perf::request::tests::{request, request_of};

    #[test]
    fn control_messages_are_as_documented() {
        let encoded = ControlMessage::Request(Box::new(request()))
            .encode()
            .unwrap();
        assert_eq!(
            encoded,
            &br#"{"kind":"request","version":3,"direction":"both","extent":{"bytes":7},"size":1000,"streams":3,"unordered":false,"bitrate":8000,"omit":0,"parallel":2,"group":9,"association":1,"flows":[],"seed":5,"series":0}"#[..]
        );
        let all = [
            ControlMessage::Request(Box::new(request())),
            ControlMessage::Request(Box::new(request_of(&[
                "size=uniform:100:1400,interval=pareto:1.5:1ms,on=1s,off=2s,lifetime=1s",
                "reverse,respond=64,messages=9",
            ]))),
            ControlMessage::Accepted {
                host: "host, carrick 1".into(),
            },
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
            ControlMessage::End {
                flows: vec![TransferAmount {
                    bytes: 1,
                    messages: 2,
                }],
            },
            ControlMessage::Responded { flows: vec![] },
            ControlMessage::Received(Reception {
                amount: TransferAmount::default(),
                seconds: 0.25,
                longest_interruption: 0.125,
                delay: None,
                flows: vec![FlowReception {
                    flow: 1,
                    of: FlowMessages::Responses,
                    amount: TransferAmount::default(),
                    seconds: 0.25,
                    lost: 3,
                    longest_interruption: 0.5,
                    delay: None,
                    distribution: vec![0.5],
                }],
            }),
            ControlMessage::Summary(MeasurementCost::default()),
        ];
        for control in all {
            let decoded = ControlMessage::decode(control.encode().unwrap().into()).unwrap();
            assert_eq!(decoded, control);
        }
    }

    #[test]
    fn ppids_have_the_number_of_the_flow() {
        assert_eq!(
            MessageKind::Data(0).ppid(),
            Ppid(u32::from_be_bytes(*b"CPD\x01"))
        );
        for kind in [
            MessageKind::Control,
            MessageKind::Data(63),
            MessageKind::Response(0),
            MessageKind::FlowEnd(7),
        ] {
            assert_eq!(MessageKind::of(kind.ppid()), Some(kind));
        }
        for foreign in [0, DATA, u32::MAX] {
            assert_eq!(MessageKind::of(Ppid(foreign)), None, "{foreign}");
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
