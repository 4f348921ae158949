//! Peer program of crate `sctp-proto`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use carrick_peers::{BUFFER, Config, Failure, MAX_MESSAGE, MTU, SEND_LIMIT, Stack};
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ServerConfig, TransportConfig,
};

/// Common header, and header of a DATA chunk.
const HEADERS: usize = 12 + 16;
const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

struct SctpProto {
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    remote: SocketAddr,
    timeout: Option<Instant>,
    is_connected: bool,
    has_stream: bool,
}

fn transport() -> TransportConfig {
    TransportConfig::default().with_max_receive_buffer_size(BUFFER as u32)
}

fn server() -> ServerConfig {
    let mut config = ServerConfig::new();
    config.transport = Arc::new(transport());
    config
}

fn client_config() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.transport = Arc::new(transport());
    config
}

impl SctpProto {
    fn new(config: &Config, server: Option<ServerConfig>) -> Self {
        let mut endpoint = EndpointConfig::default();
        endpoint.max_payload_size((MTU - HEADERS) as u32);
        let (endpoint, server) = (Arc::new(endpoint), server.map(Arc::new));
        Self {
            endpoint: Endpoint::new(endpoint, server),
            association: None,
            remote: config.remote,
            timeout: None,
            is_connected: false,
            has_stream: false,
        }
    }

    /// Processes what the association has for its user and its endpoint.
    fn poll(&mut self) {
        let Some((handle, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            self.is_connected |= matches!(event, Event::Connected);
        }
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(*handle, event);
        }
        self.timeout = association.poll_timeout();
    }
}

impl Stack for SctpProto {
    fn server(config: &Config) -> Self {
        Self::new(config, Some(server()))
    }

    fn client(config: &Config) -> Self {
        let mut client = Self::new(config, None);
        let association = client.endpoint.connect(client_config(), config.remote);
        client.association = Some(association.expect("a free handle"));
        client.poll();
        client
    }

    fn handle(&mut self, now: Instant, packet: Bytes) {
        match self.endpoint.handle(now, self.remote, None, None, packet) {
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
                if let Payload::RawEncode(contents) = transmit.payload {
                    packets.extend(contents);
                }
            }
        }
        self.poll();
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn send(&mut self, _: Instant, message: &Bytes) -> bool {
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
            && stream.write_sctp(message, BINARY).is_ok()
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

fn main() -> Result<(), Failure> {
    carrick_peers::run::<SctpProto>("sctp-proto")
}
