//! A peer without a protocol implementation, whose packets the test writes.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{AssociationId, Ppid, Route, Ssn, StreamId, Tsn, VerificationTag};
use carrick_wire::{
    CauseCode, Chunk, ChunkType, CommonHeader, DataFlags, DataHeader, GapAckBlock, InitFields,
    PacketBuilder, Parameter, ParameterWriter,
};

use super::{SentPacket, World, addresses, ip, port};

/// First fragment of a message.
pub const BEGINNING: DataFlags = DataFlags {
    ending: false,
    ..DataFlags::WHOLE
};
/// Fragment between the first and the last.
pub const MIDDLE: DataFlags = DataFlags {
    beginning: false,
    ..BEGINNING
};
/// Last fragment of a message.
pub const ENDING: DataFlags = DataFlags {
    ending: true,
    ..MIDDLE
};

/// TSN of a puppet with this number, 0 for its first.
pub fn tsn(number: u32) -> Tsn {
    Puppet::new().tsn.plus(number)
}

/// Checks that a SACK is among the answers, with this cumulative TSN, by number, and these Gap Ack
/// Blocks.
#[track_caller]
pub fn expect_sack(answers: &[SentPacket], number: u32, gaps: &[(u16, u16)]) {
    let sack = answers.iter().find_map(SentPacket::sack);
    let sack = sack.expect("a SACK");
    let blocks: Vec<_> = sack.gap_ack_blocks().map(|b| (b.start, b.end)).collect();
    assert_eq!((sack.cumulative_tsn_ack, &*blocks), (tsn(number), gaps));
}

/// Checks that an ABORT is among the answers, with this as its first cause.
#[track_caller]
pub fn expect_abort(answers: &[SentPacket], cause: CauseCode) {
    let abort = answers.iter().find(|p| p.has(ChunkType::ABORT));
    assert_eq!(abort.expect("an ABORT").causes()[0].0, cause);
}

/// Addresses of a puppet and of its endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub end: usize,
    /// Address of the endpoint that the puppet sends to.
    pub to: IpAddr,
    /// Address of the puppet.
    pub from: IpAddr,
}

#[derive(Clone, Debug)]
pub struct Puppet {
    pub link: Link,
    /// UDP port of its packets, `None` on plain IP.
    pub encapsulation: Option<u16>,
    pub port: u16,
    /// Verification tag of packets to the puppet.
    pub tag: VerificationTag,
    /// Verification tag of packets to the endpoint.
    pub peer_tag: VerificationTag,
    /// Next TSN of the puppet.
    pub tsn: Tsn,
    /// Initial TSN of the endpoint.
    pub peer_tsn: Tsn,
    pub a_rwnd: u32,
    pub streams: (u16, u16),
}

impl Puppet {
    /// A puppet at 10.0.0.99, port 7000, for endpoint 0.
    pub fn new() -> Self {
        Self {
            link: Link {
                end: 0,
                to: addresses(0)[0],
                from: ip("10.0.0.99"),
            },
            encapsulation: None,
            port: 7000,
            tag: VerificationTag(0x1234_5678),
            peer_tag: VerificationTag(0),
            tsn: Tsn::new(1000),
            peer_tsn: Tsn::new(0),
            a_rwnd: 1 << 20,
            streams: (10, 10),
        }
    }

    pub fn route(&self) -> Route {
        Route {
            encapsulation: self.encapsulation,
            ..Route::plain(self.link.to, self.link.from)
        }
    }

    pub fn fields(&self) -> InitFields {
        InitFields {
            tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.streams.0,
            inbound_streams: self.streams.1,
            initial_tsn: self.tsn,
        }
    }

    pub fn header(&self, tag: VerificationTag) -> CommonHeader {
        CommonHeader {
            source_port: self.port,
            destination_port: port(self.link.end),
            tag,
        }
    }

    /// Builds a packet with this tag.
    pub fn build(&self, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Bytes {
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, self.header(tag), 65_000);
        write(&mut packet);
        packet.finish();
        buf.into()
    }

    /// Sends a packet with the endpoint's tag; returns the answers that leave at once.
    pub fn send(
        &self,
        world: &mut World,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) -> Vec<SentPacket> {
        self.send_with_tag(world, self.peer_tag, write)
    }

    pub fn send_with_tag(
        &self,
        world: &mut World,
        tag: VerificationTag,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) -> Vec<SentPacket> {
        let bytes = self.build(tag, write);
        self.receive(world);
        world.inject(self.link.end, &self.route(), bytes);
        self.receive(world)
    }

    /// Packets sent to puppets since the last call, at any of their addresses.
    #[expect(clippy::unused_self, reason = "reads as what the puppet does")]
    pub fn receive(&self, world: &mut World) -> Vec<SentPacket> {
        world.pump();
        world.to_puppets.drain(..).collect()
    }

    /// Sends an INIT; returns the answers.
    pub fn init(
        &self,
        world: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Vec<SentPacket> {
        self.send_with_tag(world, VerificationTag::ZERO, |p| {
            p.init(ChunkType::INIT, self.fields(), parameters);
        })
    }

    /// State Cookie of an INIT ACK.
    pub fn cookie(init_ack: &SentPacket) -> Bytes {
        init_ack
            .parameters()
            .iter()
            .find_map(|p| match p {
                Parameter::StateCookie(cookie) => Some(Bytes::copy_from_slice(cookie)),
                _ => None,
            })
            .expect("a cookie")
    }

    /// Records tag and initial TSN of the endpoint from its INIT or INIT ACK.
    pub fn record_init(&mut self, init: &SentPacket) {
        self.peer_tag = init.init().tag;
        self.peer_tsn = init.init().initial_tsn;
    }

    /// Sets up an association as the client.
    pub fn connect(self, world: &mut World) -> (Self, AssociationId) {
        self.connect_with(world, |_| {})
    }

    /// Sets up an association with these parameters in the INIT.
    pub fn connect_with(
        mut self,
        world: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> (Self, AssociationId) {
        let answers = self.init(world, parameters);
        assert_eq!(answers.len(), 1);
        self.record_init(&answers[0]);
        let cookie = Self::cookie(&answers[0]);
        let answers = self.send(world, |p| p.cookie_echo(&cookie));
        assert!(answers[0].has(ChunkType::COOKIE_ACK));
        let id = world.ends[self.link.end]
            .associations()
            .last()
            .expect("an association");
        world.events(self.link.end);
        (self, id)
    }

    /// Lets the endpoint connect to the puppet; returns once it is established.
    pub fn accept(mut self, world: &mut World) -> (Self, AssociationId) {
        let id = self.begin_accept(world);
        self.answer_init(world, |p| p.state_cookie(b"cookie"));
        self.send(world, |p| {
            p.cookie_ack();
        });
        world.events(self.link.end);
        (self, id)
    }

    /// Lets the endpoint send its INIT to the puppet.
    pub fn begin_accept(&mut self, world: &mut World) -> AssociationId {
        let end = self.link.end;
        let id = world.begin_connect_from(end, &[self.link.from], self.port);
        let sent = self.receive(world);
        assert_eq!(sent.len(), 1);
        self.record_init(&sent[0]);
        id
    }

    /// Sends an INIT ACK; returns the answers.
    pub fn answer_init(
        &self,
        world: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Vec<SentPacket> {
        self.send(world, |p| {
            p.init(ChunkType::INIT_ACK, self.fields(), parameters)
        })
    }

    /// Header of a DATA chunk with an unfragmented message.
    pub fn data_header(tsn: Tsn, stream: u16, ssn: u16) -> DataHeader {
        DataHeader {
            tsn,
            stream: StreamId(stream),
            ssn: Ssn::new(ssn),
            ppid: Ppid(0),
            flags: DataFlags::WHOLE,
        }
    }

    /// Sends an unfragmented message with the next TSN; returns the answers.
    pub fn data(
        &mut self,
        world: &mut World,
        stream: u16,
        ssn: u16,
        payload: &[u8],
    ) -> Vec<SentPacket> {
        let header = Self::data_header(self.tsn, stream, ssn);
        self.tsn = self.tsn.next();
        self.send(world, |p| p.data(&header, payload))
    }

    /// Sends an unfragmented message with the TSN of this number; its payload is filled with the
    /// number. Its place is its stream and its SSN, `None` if it is unordered. The next TSN does
    /// not change.
    pub fn message(
        &self,
        world: &mut World,
        number: u32,
        (stream, ssn): (u16, Option<u16>),
        size: usize,
    ) -> Vec<SentPacket> {
        let flags = DataFlags {
            unordered: ssn.is_none(),
            ..DataFlags::WHOLE
        };
        self.fragment(world, number, (stream, ssn.unwrap_or(0)), flags, size)
    }

    /// Sends a fragment like [`Puppet::message`]. Its place is its stream and the SSN of its
    /// message.
    pub fn fragment(
        &self,
        world: &mut World,
        number: u32,
        place: (u16, u16),
        flags: DataFlags,
        size: usize,
    ) -> Vec<SentPacket> {
        let header = DataHeader {
            flags,
            ..Self::data_header(self.tsn.plus(number), place.0, place.1)
        };
        self.send(world, |p| p.data(&header, &vec![number as u8; size]))
    }

    /// Sends a SACK; returns the answers. Gap blocks are offsets from the cumulative TSN.
    pub fn sack(
        &self,
        world: &mut World,
        cumulative: Tsn,
        a_rwnd: u32,
        gaps: &[(u16, u16)],
    ) -> Vec<SentPacket> {
        let gaps: Vec<GapAckBlock> = gaps
            .iter()
            .map(|&(start, end)| GapAckBlock { start, end })
            .collect();
        self.send(world, |p| {
            p.sack(cumulative, a_rwnd, gaps.into_iter(), std::iter::empty());
        })
    }

    /// Sends a FORWARD-TSN up to the TSN of this number, with the skipped streams and SSNs; returns
    /// the answers.
    pub fn forward_tsn(
        &self,
        world: &mut World,
        number: u32,
        skipped: &[(u16, u16)],
    ) -> Vec<SentPacket> {
        let skipped = skipped
            .iter()
            .map(|&(stream, ssn)| (StreamId(stream), Ssn::new(ssn)));
        let skipped: Vec<_> = skipped.collect();
        self.send(world, |p| {
            p.forward_tsn(self.tsn.plus(number), skipped.into_iter())
        })
    }

    /// TSN of the endpoint with this number, 0 for its first.
    pub fn endpoint_tsn(&self, number: u32) -> Tsn {
        self.peer_tsn.plus(number)
    }

    /// TSNs of the DATA chunks in these packets, counted from the endpoint's first.
    pub fn numbers(&self, packets: &[SentPacket]) -> Vec<u32> {
        packets
            .iter()
            .flat_map(|p| {
                p.data()
                    .iter()
                    .map(|d| d.tsn.since(self.peer_tsn))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Answers the HEARTBEAT of this packet.
    pub fn answer_heartbeat(&self, world: &mut World, heartbeat: &SentPacket) -> Vec<SentPacket> {
        let value = heartbeat.chunks().into_iter().find_map(|c| match c {
            Chunk::Heartbeat(h) => Some(h.value.to_vec()),
            _ => None,
        });
        self.send(world, |p| p.heartbeat_ack(&value.expect("a HEARTBEAT")))
    }
}
