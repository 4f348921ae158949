//! Crate `rtc-sctp`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rtc_sctp::{
    Association, AssociationError, AssociationHandle, ClientConfig, DatagramEvent, Endpoint,
    EndpointConfig, Event, Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig,
    TransportConfig, max_payload_size_for_mtu,
};
use rtc_shared::TransportProtocol;

use crate::extension_options::{AbandonRule, ExtensionName};
use crate::interop::{InteropStack, MAX_TEST_MESSAGE, StackEvent};
use crate::messages::UserMessage;
use crate::options::Options;
use crate::stacks::{ONLY_BINARY, packet_size};
use crate::{BUFFER, Config, MAX_MESSAGE, MTU, SEND_LIMIT, Stack};

const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

pub(crate) struct RtcSctp {
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    remote: SocketAddr,
    timeout: Option<Instant>,
    is_connected: bool,
    has_stream: bool,
    events: VecDeque<StackEvent>,
    /// A reset of all outgoing streams was requested.
    is_resetting: bool,
    ended: bool,
}

fn transport(config: &Config) -> TransportConfig {
    let transport = TransportConfig::default().with_max_receive_buffer_size(BUFFER as u32);
    match config.options {
        Some(_) => transport.with_max_message_size(MAX_TEST_MESSAGE as u32),
        None => transport,
    }
}

impl RtcSctp {
    fn new(config: &Config, server: Option<ServerConfig>) -> Self {
        let size = config.options.as_ref().map_or(MTU, packet_size);
        let mut endpoint = EndpointConfig::default();
        endpoint.max_payload_size(max_payload_size_for_mtu(size as u32));
        let (endpoint, server) = (Arc::new(endpoint), server.map(Arc::new));
        Self {
            endpoint: Endpoint::new(config.local, TransportProtocol::UDP, endpoint, server),
            association: None,
            remote: config.remote,
            timeout: None,
            is_connected: false,
            has_stream: false,
            events: VecDeque::new(),
            is_resetting: false,
            ended: false,
        }
    }

    /// Processes what the association has for its user and its endpoint.
    fn poll(&mut self) {
        let Some((handle, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    let streams = association.negotiated_max_streams().unwrap_or_default();
                    self.events.push_back(StackEvent::Established {
                        inbound: streams,
                        outbound: streams,
                    });
                }
                Event::AssociationLost {
                    reason: AssociationError::Reset,
                    ..
                } => self.events.push_back(StackEvent::StreamsReset {
                    direction: "incoming",
                    success: true,
                }),
                Event::HandshakeFailed { reason } => {
                    self.ended = true;
                    let reason = reason.to_string();
                    self.events.push_back(StackEvent::Lost(reason));
                }
                _ => {}
            }
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
        }
        self.timeout = association.poll_timeout();
    }
}

impl Stack for RtcSctp {
    fn server(config: &Config) -> Self {
        Self::new(config, Some(ServerConfig::new(transport(config))))
    }

    fn client(config: &Config) -> Self {
        let mut client = Self::new(config, None);
        let transport = transport(config);
        let association =
            client
                .endpoint
                .connect(config.now, ClientConfig::new(transport), config.remote);
        client.association = Some(association.expect("a free handle"));
        client.poll();
        client
    }

    fn handle(&mut self, now: Instant, packet: Bytes) {
        match self.endpoint.handle(now, self.remote, None, packet) {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association = Some((handle, association));
            }
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, association)) = &mut self.association
            && self.timeout.is_some_and(|at| at <= now)
        {
            association.handle_timeout(now);
        }
        self.poll();
    }

    fn timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn transmit(&mut self, now: Instant, packets: &mut Vec<Bytes>) {
        if let Some((_, association)) = &mut self.association {
            while let Some(transmit) = association.poll_transmit(now) {
                if let Payload::RawEncode(contents) = transmit.message {
                    packets.extend(contents);
                }
            }
        }
        self.poll();
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn send(&mut self, now: Instant, message: &Bytes) -> bool {
        let Some((_, association)) = &mut self.association else {
            return false;
        };
        if !self.has_stream {
            // The peer may have opened it.
            let _ = association.open_stream(0, BINARY);
            self.has_stream = true;
        }
        let mut stream = association.stream(0).expect("opened");
        stream
            .buffered_amount()
            .is_ok_and(|bytes| bytes < SEND_LIMIT)
            && stream.write_sctp(now, message, BINARY).is_ok()
    }

    fn receive(&mut self, into: &mut Vec<u8>) -> Option<usize> {
        into.resize(MAX_MESSAGE, 0);
        let (_, association) = self.association.as_mut()?;
        if !self.has_stream {
            association.accept_stream()?;
            self.has_stream = true;
        }
        let message = association.stream(0).ok()?.read_sctp().ok()??;
        message.read(into).ok()
    }

    fn is_acknowledged(&mut self) -> bool {
        let (_, association) = self.association.as_mut().expect("connected");
        association
            .stream(0)
            .is_ok_and(|stream| stream.buffered_amount().ok() == Some(0))
    }
}

impl InteropStack for RtcSctp {
    const EXTENSIONS: &[ExtensionName] = &[ExtensionName::Partial, ExtensionName::Reconfiguration];

    fn unsupported(options: &Options) -> Option<&'static str> {
        (options.ppid != Some(BINARY as u32)).then_some(ONLY_BINARY)
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        if let Some((_, association)) = &mut self.association {
            while association.accept_stream().is_some() {}
            for id in association.stream_ids() {
                let mut stream = association.stream(id).ok()?;
                if let Ok(Some(chunks)) = stream.read_sctp() {
                    let mut data = vec![0; chunks.len()];
                    let length = chunks.read(&mut data).unwrap_or_default();
                    data.truncate(length);
                    return Some(StackEvent::Received {
                        stream: id,
                        ppid: chunks.ppi as u32,
                        data: data.into(),
                    });
                }
            }
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let (_, association) = self.association.as_ref()?;
        if self.ended || !association.is_closed() || !self.is_connected {
            return None;
        }
        self.ended = true;
        Some(StackEvent::ShutDown)
    }

    fn send_message(
        &mut self,
        now: Instant,
        message: &UserMessage,
        rule: AbandonRule,
    ) -> Result<bool, String> {
        let Some((_, association)) = &mut self.association else {
            return Ok(false);
        };
        // The stream may exist, if the peer has opened it.
        let _ = association.open_stream(message.stream, BINARY);
        let mut stream = association
            .stream(message.stream)
            .map_err(|error| error.to_string())?;
        if stream.buffered_amount().unwrap_or_default() >= SEND_LIMIT {
            return Ok(false);
        }
        let (kind, value) = match rule {
            AbandonRule::Never => (ReliabilityType::Reliable, 0),
            AbandonRule::Timed(lifetime) => (ReliabilityType::Timed, lifetime.as_millis() as u32),
            AbandonRule::Retransmissions(count) => (ReliabilityType::Rexmit, count),
        };
        stream
            .set_reliability_params(message.unordered, kind, value)
            .and_then(|()| stream.write_sctp(now, &message.data, BINARY))
            .map(|_| true)
            .map_err(|error| error.to_string())
    }

    fn reset_outgoing(&mut self, now: Instant, count: u16) -> Result<bool, String> {
        let Some((_, association)) = &mut self.association else {
            return Ok(false);
        };
        if self.is_resetting {
            // A stream is left by both directions, and can then be opened again.
            let left = (0..count).all(|id| association.stream(id).is_err());
            if left {
                self.is_resetting = false;
                self.events.push_back(StackEvent::StreamsReset {
                    direction: "outgoing",
                    success: true,
                });
            }
            return Ok(left);
        }
        // A stream that the peer has reset is left already.
        let is_busy = |association: &mut Association, id| {
            let stream = association.stream(id);
            stream.is_ok_and(|stream| stream.buffered_amount().is_ok_and(|bytes| bytes > 0))
        };
        if !(0..count).any(|id| is_busy(association, id)) {
            for id in 0..count {
                if let Ok(mut stream) = association.stream(id) {
                    stream.close(now).map_err(|error| error.to_string())?;
                }
            }
            self.is_resetting = true;
        }
        Ok(false)
    }

    fn shutdown(&mut self, _: Instant) {
        if let Some((_, association)) = &mut self.association
            && let Err(error) = association.shutdown()
        {
            eprintln!("rtc-sctp: {error}");
        }
        self.poll();
    }

    fn abort(&mut self, _: Instant) {
        if let Some((_, association)) = &mut self.association
            && let Err(error) = association.abort()
        {
            eprintln!("rtc-sctp: {error}");
        }
    }
}
