//! Peer program of crate `dcsctp`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick_peers::{BUFFER, Config, Failure, MTU, SEND_LIMIT, Stack};
use dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime,
    StreamId,
};

struct Dcsctp {
    socket: Box<dyn DcSctpSocket>,
    created: Instant,
}

impl Dcsctp {
    fn new(config: &Config) -> Self {
        let options = Options {
            local_port: config.local.port(),
            remote_port: config.remote.port(),
            mtu: MTU,
            max_receiver_window_buffer_size: BUFFER,
            ..Options::default()
        };
        Self {
            socket: dcsctp::new_socket("peer", &options),
            created: config.now,
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
            if let SocketEvent::SendPacket(packet) = event {
                packets.push(packet.into());
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

fn main() -> Result<(), Failure> {
    carrick_peers::run::<Dcsctp>("dcsctp")
}
