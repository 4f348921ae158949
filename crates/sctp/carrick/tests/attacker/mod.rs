//! A peer that writes its packets itself, so that they occupy as much memory as possible.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_udp::{Transmit, UdpSocketState};

/// Peer that writes its packets itself.
pub(crate) struct Attacker {
    socket: UdpSocket,
    state: UdpSocketState,
    server: SocketAddr,
    port: u16,
    tag: u32,
}

impl Attacker {
    /// Sets up an association; its initial TSN is 1.
    pub(crate) fn connect(server: SocketAddr, port: u16) -> Self {
        Self::connect_from([127, 0, 0, 1], server, port)
    }

    /// Sets up an association from this address; its initial TSN is 1.
    pub(crate) fn connect_from(source: [u8; 4], server: SocketAddr, port: u16) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::from(source), 0)).unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        socket.set_nonblocking(false).unwrap();
        // Packets are read one by one.
        #[cfg(target_os = "linux")]
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGroSegment, &false)
            .unwrap();
        let timeout = Some(Duration::from_secs(2));
        socket.set_read_timeout(timeout).unwrap();
        let mut attacker = Self {
            socket,
            state,
            server,
            port,
            tag: 0,
        };
        // Initiate Tag, a_rwnd, streams, initial TSN.
        let fields = [[0, 0, 0, 9], [0, 1, 0, 0], [255; 4], [0, 0, 0, 1]];
        let init_ack = attacker.ask(1, &fields.concat(), 2);
        attacker.tag = u32::from_be_bytes(init_ack[16..20].try_into().unwrap());
        let mut parameters = &init_ack[32..];
        let cookie = loop {
            let len = usize::from(u16::from_be_bytes([parameters[2], parameters[3]]));
            if parameters[..2] == [0, 7] {
                break parameters[4..len].to_vec();
            }
            parameters = &parameters[len.next_multiple_of(4)..];
        };
        attacker.ask(10, &cookie, 11);
        attacker
    }

    /// Sends a chunk until a packet with this first chunk arrives.
    fn ask(&self, kind: u8, value: &[u8], answer: u8) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        loop {
            let packet = self.packet(&chunk(kind, 0, value));
            self.socket.send_to(&packet, self.server).unwrap();
            while let Ok(len) = self.socket.recv(&mut buffer) {
                if buffer[12] == answer {
                    return buffer[..len].to_vec();
                }
            }
        }
    }

    fn packet(&self, chunks: &[u8]) -> Vec<u8> {
        let mut packet = [5000_u16.to_be_bytes(), self.port.to_be_bytes()].concat();
        packet.extend(self.tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunks);
        let checksum = crc32c(&packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        packet
    }

    /// Returns a packet of this size with a DATA chunk on stream 0 that is never the next one to deliver.
    pub(crate) fn data(&self, tsn: u32, payload: usize, size: usize) -> Vec<u8> {
        let mut value = tsn.to_be_bytes().to_vec();
        value.extend([0, 0, 1, 0, 0, 0, 0, 0]);
        value[6..8].copy_from_slice(&(tsn as u16).to_be_bytes());
        value.resize(12 + payload, 7);
        let mut chunks = chunk(0, 3, &value);
        // PAD (RFC 4820).
        let rest = size - 12 - chunks.len();
        if rest > 0 {
            chunks.extend(chunk(0x84, 0, &vec![0; rest - 4]));
        }
        self.packet(&chunks)
    }

    /// Sends a message on stream 0 without its last fragment: this number of DATA chunks.
    pub(crate) fn begin_message(&self, chunks: u32, payload: usize) {
        for tsn in 1..=chunks {
            let mut value = tsn.to_be_bytes().to_vec();
            value.resize(12 + payload, 7);
            value[4..12].fill(0);
            let begins = if tsn == 1 { 2 } else { 0 };
            // The I bit requests a SACK at once (RFC 7053).
            self.send_until(&chunk(0, 8 | begins, &value), |packet| {
                packet[12] == 3 && packet[16..20] >= tsn.to_be_bytes()[..]
            });
        }
    }

    /// Sends ERROR chunks, each with a cause "Protocol Violation" that has this much text.
    pub(crate) fn report_errors(&self, count: usize, text: usize) {
        let cause = chunk(0, 13, &vec![b'x'; text]);
        for _ in 0..count {
            let packet = self.packet(&chunk(9, 0, &cause));
            self.socket.send_to(&packet, self.server).unwrap();
            // The response to a HEARTBEAT shows that the packet before was processed.
            self.ask(4, &[0, 1, 0, 8, 0, 0, 0, 0], 5);
        }
    }

    /// Sends an ABORT.
    pub(crate) fn abort(&self) {
        let packet = self.packet(&chunk(6, 0, &[]));
        self.socket.send_to(&packet, self.server).unwrap();
    }

    fn send_until(&self, chunks: &[u8], answered: impl Fn(&[u8]) -> bool) {
        let mut buffer = vec![0; 65_536];
        loop {
            self.socket
                .send_to(&self.packet(chunks), self.server)
                .unwrap();
            while let Ok(len) = self.socket.recv(&mut buffer) {
                if answered(&buffer[..len]) {
                    return;
                }
            }
        }
    }

    /// Sends packets of one size with one call until a SACK reports this TSN.
    pub(crate) fn send(&self, packets: &[Vec<u8>], highest: u32) {
        let mut buffer = vec![0; 65_536];
        loop {
            let transmit = Transmit {
                destination: self.server,
                ecn: None,
                contents: &packets.concat(),
                segment_size: Some(packets[0].len()),
                src_ip: None,
            };
            let socket = (&self.socket).into();
            self.state.try_send(socket, &transmit).unwrap();
            while let Ok(len) = self.socket.recv(&mut buffer) {
                let number =
                    |at: usize| u32::from(u16::from_be_bytes([buffer[at], buffer[at + 1]]));
                // The cumulative TSN stays 0.
                if buffer[12] == 3 && len >= 32 && number(30) == highest {
                    return;
                }
            }
        }
    }
}

fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend((4 + value.len() as u16).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 * (crc & 1))
        })
    })
}
