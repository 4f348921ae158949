//! Crate `dcsctp`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dcsctp::api::{
    DcSctpSocket, ErrorKind, Message, Options, PpId, SendError, SendOptions, SocketEvent,
    SocketState, SocketTime, StreamId,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS,
};

use crate::extension_options::{AbandonRule, ExtensionName};
use crate::interop::{InteropStack, MAX_TEST_MESSAGE, StackEvent};
use crate::messages::UserMessage;
use crate::stacks::{WEBRTC_PORT, packet_size};
use crate::{BUFFER, Config, MTU, SEND_LIMIT, Stack, options};

pub(crate) struct Dcsctp {
    socket: Box<dyn DcSctpSocket>,
    created: Instant,
    events: VecDeque<StackEvent>,
    /// Result of a requested reset of streams, once the peer has answered.
    reset: Option<ResetState>,
}

enum ResetState {
    Requested,
    Performed,
    Failed,
}

/// Applies the options of the tests.
fn apply(options: &options::Options, to: &mut Options) {
    let offered = &options.extensions.extensions;
    let offers = |name| offered.as_ref().is_some_and(|names| names.contains(&name));
    let time = |option: Option<Duration>, default| option.unwrap_or(default);
    (to.local_port, to.remote_port) = (WEBRTC_PORT, WEBRTC_PORT);
    to.max_message_size = MAX_TEST_MESSAGE;
    to.mtu = packet_size(options);
    to.enable_partial_reliability = offered.is_none() || offers(ExtensionName::Partial);
    to.enable_message_interleaving = offers(ExtensionName::Interleaving);
    if offers(ExtensionName::ZeroChecksum) {
        to.zero_checksum_alternate_error_detection_method =
            ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS;
    }
    to.rto_initial = time(options.rto_initial, to.rto_initial);
    to.rto_min = time(options.rto_min, to.rto_min);
    to.rto_max = time(options.rto_max, to.rto_max);
    to.min_rtt_variance = to.min_rtt_variance.min(to.rto_min);
}

impl Dcsctp {
    fn new(config: &Config) -> Self {
        let mut options = Options {
            local_port: config.local.port(),
            remote_port: config.remote.port(),
            mtu: MTU,
            max_receiver_window_buffer_size: BUFFER,
            ..Options::default()
        };
        if let Some(tests) = &config.options {
            apply(tests, &mut options);
        }
        Self {
            socket: dcsctp::new_socket("peer", &options),
            created: config.now,
            events: VecDeque::new(),
            reset: None,
        }
    }

    fn time(&self, now: Instant) -> SocketTime {
        SocketTime::zero() + now.saturating_duration_since(self.created)
    }
}

impl Stack for Dcsctp {
    fn server(config: &Config) -> Self {
        Self::new(config)
    }

    fn client(config: &Config) -> Self {
        let mut client = Self::new(config);
        client.socket.connect();
        client
    }

    fn handle(&mut self, now: Instant, packet: Bytes) {
        self.socket.advance_time(self.time(now));
        self.socket.handle_input(&packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.socket.advance_time(self.time(now));
    }

    fn timeout(&self) -> Option<Instant> {
        let after = self.socket.poll_timeout() - SocketTime::zero();
        (after < Duration::MAX).then(|| self.created + after)
    }

    fn transmit(&mut self, _: Instant, packets: &mut Vec<Bytes>) {
        while let Some(event) = self.socket.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => packets.push(packet.into()),
                event => self.notify(event),
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.socket.state() == SocketState::Connected
    }

    fn send(&mut self, now: Instant, message: &Bytes) -> bool {
        if self.socket.buffered_amount(StreamId(0)) >= SEND_LIMIT {
            return false;
        }
        self.socket.advance_time(self.time(now));
        let message = Message::new(StreamId(0), PpId(53), message.to_vec());
        self.socket.send(message, &SendOptions::default()).is_ok()
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Option<usize> {
        *into = self.socket.get_next_message()?.payload;
        Some(into.len())
    }

    fn is_acknowledged(&mut self) -> bool {
        let outstanding = self
            .socket
            .get_metrics()
            .map_or(0, |metrics| metrics.unack_data_count);
        outstanding == 0 && self.socket.buffered_amount(StreamId(0)) == 0
    }
}

impl Dcsctp {
    /// Converts an event of the socket.
    fn notify(&mut self, event: SocketEvent) {
        let converted = match event {
            SocketEvent::OnConnected() => {
                let metrics = self.socket.get_metrics();
                StackEvent::Established {
                    inbound: metrics
                        .as_ref()
                        .map_or(0, |m| m.negotiated_maximum_incoming_streams),
                    outbound: metrics.map_or(0, |m| m.negotiated_maximum_outgoing_streams),
                }
            }
            SocketEvent::OnConnectionRestarted() => StackEvent::Restarted,
            SocketEvent::OnClosed() | SocketEvent::OnAborted(ErrorKind::PeerReported, _) => {
                StackEvent::ShutDown
            }
            SocketEvent::OnAborted(kind, text) => StackEvent::Lost(format!("{kind:?}: {text}")),
            SocketEvent::OnStreamsResetPerformed(_) => {
                self.reset = Some(ResetState::Performed);
                return;
            }
            SocketEvent::OnStreamsResetFailed(_) => {
                self.reset = Some(ResetState::Failed);
                return;
            }
            SocketEvent::OnIncomingStreamReset(_) => StackEvent::StreamsReset {
                direction: "incoming",
                success: true,
            },
            SocketEvent::OnError(kind, text) => {
                eprintln!("dcsctp: {kind:?}: {text}");
                return;
            }
            _ => return,
        };
        self.events.push_back(converted);
    }
}

impl InteropStack for Dcsctp {
    const EXTENSIONS: &[ExtensionName] = &[
        ExtensionName::Partial,
        ExtensionName::Reconfiguration,
        ExtensionName::Interleaving,
        ExtensionName::ZeroChecksum,
    ];

    fn poll_event(&mut self) -> Option<StackEvent> {
        // Messages that came before an end are delivered before it.
        if let Some(message) = self.socket.get_next_message() {
            return Some(StackEvent::Received {
                stream: message.stream_id.0,
                ppid: message.ppid.0,
                data: message.payload.into(),
            });
        }
        self.events.pop_front()
    }

    fn send_message(
        &mut self,
        now: Instant,
        message: &UserMessage,
        rule: AbandonRule,
    ) -> Result<bool, String> {
        self.socket.advance_time(self.time(now));
        let options = SendOptions {
            unordered: message.unordered,
            lifetime: match rule {
                AbandonRule::Timed(lifetime) => Some(lifetime),
                _ => None,
            },
            max_retransmissions: match rule {
                AbandonRule::Retransmissions(count) => u16::try_from(count).ok(),
                _ => None,
            },
            lifecycle_id: None,
        };
        let stream = StreamId(message.stream);
        let message = Message::new(stream, PpId(message.ppid), message.data.to_vec());
        match self.socket.send(message, &options) {
            Ok(()) => Ok(true),
            Err(SendError::ResourceExhaustion) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn reset_outgoing(&mut self, now: Instant, count: u16) -> Result<bool, String> {
        match self.reset.take() {
            Some(ResetState::Performed) => {
                self.events.push_back(StackEvent::StreamsReset {
                    direction: "outgoing",
                    success: true,
                });
                return Ok(true);
            }
            Some(ResetState::Failed) => return Err("the peer refused".into()),
            Some(ResetState::Requested) => {}
            None => {
                self.socket.advance_time(self.time(now));
                let streams: Vec<StreamId> = (0..count).map(StreamId).collect();
                let asked = self.socket.reset_streams(&streams);
                asked.map_err(|error| error.to_string())?;
            }
        }
        self.reset = Some(ResetState::Requested);
        Ok(false)
    }

    fn shutdown(&mut self, now: Instant) {
        self.socket.advance_time(self.time(now));
        self.socket.shutdown();
    }

    fn abort(&mut self, now: Instant) {
        self.socket.advance_time(self.time(now));
        self.socket.close();
    }
}
