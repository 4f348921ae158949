//! A TCP connection: set-up with the options of both ends, and the way of segments to and from the sender and the
//! receiver of data. A connection lasts as long as the simulation: there is no FIN and no RST.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_netsim::{IPV4_HEADER, IPV6_HEADER, Packet, Protocol, Random, Time};

use super::receiver::Receiver;
use super::segment::{HEADER, Header, sack_option_len};
use super::sender::Sender;
use super::{Segment, TcpConfig};

/// Port from which connections are set up.
const LOCAL_PORT: u16 = 49_152;
/// MSS of a peer that announces none (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u16 = 536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Listen,
    SynSent,
    SynReceived,
    Established,
}

/// The connection of a host.
#[derive(Debug)]
pub struct Connection {
    config: TcpConfig,
    state: ConnectionState,
    port: u16,
    /// Address and port of the peer; `None` in LISTEN.
    peer: Option<(IpAddr, u16)>,
    /// Sequence number of the first byte of data of this end, and of the peer.
    first: u32,
    peer_first: u32,
    /// Shift of the windows that the peer advertises; `None` without window scaling.
    peer_shift: Option<u8>,
    /// Both ends permit SACK.
    sack: bool,
    syn_due: bool,
    /// Time of the last SYN.
    syn_sent: Time,
    sender: Sender,
    receiver: Receiver,
}

impl Connection {
    /// Returns a connection to `peer`, or one that listens on `port`.
    pub(super) fn new(config: TcpConfig, peer: Option<(IpAddr, u16)>, port: u16) -> Self {
        let is_client = peer.is_some();
        Self {
            config,
            state: if is_client {
                ConnectionState::SynSent
            } else {
                ConnectionState::Listen
            },
            port: if is_client { LOCAL_PORT } else { port },
            peer,
            first: Random::new(config.seed, 0).next_u64() as u32,
            peer_first: 0,
            peer_shift: None,
            sack: config.sack,
            syn_due: is_client,
            syn_sent: Time::ZERO,
            sender: Sender::new(&config, config.mss()),
            receiver: Receiver::new(config.receive_buffer, config.ack_delay),
        }
    }

    /// Appends as much of `data` as fits into the send buffer, and returns its length; zero before
    /// the connection is established.
    pub fn send(&mut self, data: &[u8]) -> usize {
        if self.is_established() {
            self.sender.send(data)
        } else {
            0
        }
    }

    /// Returns whether [`send`](Self::send) would accept a byte.
    pub fn has_room(&self) -> bool {
        self.is_established() && self.sender.unacknowledged() < self.config.send_buffer
    }

    /// Returns the number of bytes passed to [`send`](Self::send) that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Returns whether data can be sent.
    pub fn is_established(&self) -> bool {
        self.state == ConnectionState::Established
    }

    /// Returns the time of the next timeout.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let syn = self.syn_due.then_some(Time::ZERO);
        let timers = [syn, self.sender.timer.due, self.receiver.ack_at];
        timers.into_iter().flatten().min()
    }

    /// Handles the expiry of the retransmission timer, if it is due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.sender.timer.due.is_none_or(|due| due > now) {
            return;
        }
        if self.is_established() {
            self.sender.handle_timeout();
        } else {
            self.sender.timer.expire();
            self.syn_due = true;
        }
    }

    /// Handles a packet; returns the data that is now in order.
    pub(super) fn handle_packet(&mut self, now: Time, packet: &Packet) -> Vec<Bytes> {
        let Some((header, data)) = Header::parse(packet) else {
            return Vec::new();
        };
        let from = (packet.source, header.source_port);
        if header.destination_port != self.port || self.peer.is_some_and(|peer| peer != from) {
            return Vec::new();
        }
        let acknowledges_syn = header.acknowledgment == Some(self.first);
        match self.state {
            ConnectionState::Listen if header.syn && header.acknowledgment.is_none() => {
                self.peer = Some(from);
                self.negotiate(&header);
                self.state = ConnectionState::SynReceived;
                self.syn_due = true;
            }
            ConnectionState::SynSent if header.syn && acknowledges_syn => {
                self.negotiate(&header);
                self.establish(now);
                self.receiver.duplicate_ack = true;
            }
            ConnectionState::SynReceived if header.syn => self.syn_due = true,
            // A segment with data if the ACK before was lost.
            ConnectionState::SynReceived if acknowledges_syn => {
                self.establish(now);
                return self.handle_segment(now, &header, data);
            }
            // The last ACK of the set-up was lost.
            ConnectionState::Established if header.syn => self.receiver.duplicate_ack = true,
            ConnectionState::Established => return self.handle_segment(now, &header, data),
            _ => {}
        }
        Vec::new()
    }

    /// Applies the options of the peer's SYN.
    fn negotiate(&mut self, header: &Header) {
        self.peer_first = header.sequence.wrapping_add(1);
        self.peer_shift = header.window_scale;
        self.sack = self.config.sack && header.sack_permitted;
        let smss = self
            .config
            .mss()
            .min(usize::from(header.mss.unwrap_or(DEFAULT_MSS)));
        self.sender.negotiate(&self.config, smss, self.sack);
        self.sender.window = u64::from(header.window);
    }

    fn establish(&mut self, now: Time) {
        self.state = ConnectionState::Established;
        self.sender.timer.establish(now, self.syn_sent);
    }

    fn handle_segment(&mut self, now: Time, header: &Header, data: Bytes) -> Vec<Bytes> {
        let offset = |number| offset_of(number, self.first, self.sender.una);
        let Some(ack) = header.acknowledgment.and_then(offset) else {
            return Vec::new();
        };
        let block = |block: &std::ops::Range<u32>| Some(offset(block.start)?..offset(block.end)?);
        let blocks: Vec<_> = header.sack.iter().filter_map(block).collect();
        let window = u64::from(header.window) << self.peer_shift.unwrap_or(0);
        self.sender
            .handle_ack(now, ack, window, &blocks, data.is_empty());
        match offset_of(header.sequence, self.peer_first, self.receiver.next) {
            Some(offset) if !data.is_empty() => self.receiver.handle_data(now, offset, data),
            _ => Vec::new(),
        }
    }

    /// Returns the next packet that is to be sent now, and its data as a segment.
    ///
    /// 1. A SYN, while the connection is set up.
    /// 2. A duplicate ACK, without data (RFC 5681, section 2).
    /// 3. Data, which acknowledges what has been received.
    /// 4. An ACK that is due.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<(Packet, Option<Segment>)> {
        if std::mem::take(&mut self.syn_due) {
            self.syn_sent = now;
            self.sender.timer.start(now);
            return Some((self.syn()?, None));
        }
        if !self.is_established() {
            return None;
        }
        let is_due = self.receiver.ack_at.is_some_and(|at| at <= now);
        if !self.receiver.duplicate_ack {
            let limit = self.sender.smss - sack_option_len(self.sack_blocks().len());
            let next = self.sender.next;
            if let Some(range) = self.sender.poll_segment(now, limit) {
                let segment = Segment {
                    time: now,
                    offset: range.start,
                    len: (range.end - range.start) as usize,
                    again: range.start < next,
                };
                let data = self.sender.data(range);
                return Some((self.segment(segment.offset, &data)?, Some(segment)));
            }
        }
        let is_due = is_due || self.receiver.duplicate_ack;
        let next = self.sender.next;
        is_due
            .then(|| self.segment(next, &[]))
            .flatten()
            .map(|packet| (packet, None))
    }

    fn sack_blocks(&self) -> &[std::ops::Range<u64>] {
        if self.sack {
            &self.receiver.blocks
        } else {
            &[]
        }
    }

    fn syn(&self) -> Option<Packet> {
        let is_answer = self.state == ConnectionState::SynReceived;
        let header = Header {
            sequence: self.first.wrapping_sub(1),
            acknowledgment: is_answer.then_some(self.peer_first),
            syn: true,
            window: self.config.receive_buffer.min(0xffff) as u16,
            mss: Some(self.config.mss() as u16),
            window_scale: (!is_answer || self.peer_shift.is_some()).then(|| self.config.shift()),
            sack_permitted: self.sack,
            ..Header::default()
        };
        self.packet(header, &[])
    }

    /// Returns the segment with data from `offset` on, which acknowledges all received data.
    fn segment(&mut self, offset: u64, data: &[u8]) -> Option<Packet> {
        let shift = self.peer_shift.map_or(0, |_| self.config.shift());
        let peer_sequence = |offset: u64| self.peer_first.wrapping_add(offset as u32);
        let blocks = self.sack_blocks().iter();
        let header = Header {
            sequence: self.first.wrapping_add(offset as u32),
            acknowledgment: Some(peer_sequence(self.receiver.next)),
            window: (self.config.receive_buffer >> shift).min(0xffff) as u16,
            sack: blocks
                .map(|block| peer_sequence(block.start)..peer_sequence(block.end))
                .collect(),
            ..Header::default()
        };
        self.receiver.acknowledged();
        self.packet(header, data)
    }

    fn packet(&self, header: Header, data: &[u8]) -> Option<Packet> {
        let (address, port) = self.peer?;
        let header = Header {
            source_port: self.port,
            destination_port: port,
            ..header
        };
        let own = self.config.address;
        Some(Packet::new(
            own,
            address,
            Protocol::Tcp,
            header.encode(own, address, data),
        ))
    }
}

impl TcpConfig {
    /// Returns the MSS that the host announces (RFC 6691).
    fn mss(&self) -> usize {
        let ip = if self.address.is_ipv4() {
            IPV4_HEADER
        } else {
            IPV6_HEADER
        };
        self.mtu - ip - HEADER
    }

    /// Returns the shift of the advertised windows (RFC 7323, section 2.3).
    fn shift(&self) -> u8 {
        let fits = |shift: &u8| self.receive_buffer >> *shift <= 0xffff;
        (0..14).find(fits).unwrap_or(14)
    }
}

/// Returns the offset of a sequence number in a stream whose first byte has number `first`: the offset next to `near`
/// of those with this number.
fn offset_of(number: u32, first: u32, near: u64) -> Option<u64> {
    let distance = number.wrapping_sub(first.wrapping_add(near as u32)) as i32;
    near.checked_add_signed(i64::from(distance))
}
