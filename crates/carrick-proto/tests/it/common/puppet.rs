//! A peer without a protocol of its own: it says what the test wants.

use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{AssociationId, Ppid, Route, Ssn, StreamId, Tsn, VerificationTag};
use carrick_wire::{
    Chunk, ChunkType, CommonHeader, DataFlags, DataHeader, GapAckBlock, InitFields, PacketBuilder,
    Parameter, ParameterWriter,
};

use super::{Seen, World, addresses, ip, port};

/// Where the puppet and its endpoint are.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub end: usize,
    /// The endpoint's address that the puppet talks to.
    pub to: IpAddr,
    /// The puppet's address.
    pub from: IpAddr,
}

#[derive(Clone, Debug)]
pub struct Puppet {
    pub link: Link,
    /// The UDP port that its packets come from, if they come in UDP.
    pub encapsulation: Option<u16>,
    pub port: u16,
    /// The tag that packets to the puppet have to carry.
    pub tag: VerificationTag,
    /// The endpoint's tag.
    pub peer_tag: VerificationTag,
    /// The puppet's next TSN.
    pub tsn: Tsn,
    /// The endpoint's initial TSN.
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

    /// A packet with this tag.
    pub fn build(&self, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Bytes {
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, self.header(tag), 65_000);
        write(&mut packet);
        packet.finish();
        buf.into()
    }

    /// Sends a packet with the endpoint's tag; returns what came back at once.
    pub fn say(&self, world: &mut World, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<Seen> {
        self.say_with(world, self.peer_tag, write)
    }

    pub fn say_with(
        &self,
        world: &mut World,
        tag: VerificationTag,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) -> Vec<Seen> {
        let bytes = self.build(tag, write);
        self.hear(world);
        world.inject(self.link.end, &self.route(), bytes);
        self.hear(world)
    }

    /// What was sent to puppets since the last time, at whichever of their addresses.
    #[expect(clippy::unused_self, reason = "reads as what the puppet does")]
    pub fn hear(&self, world: &mut World) -> Vec<Seen> {
        world.pump();
        world.to_puppets.drain(..).collect()
    }

    /// Sends an INIT; returns the answers.
    pub fn init(
        &self,
        world: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Vec<Seen> {
        self.say_with(world, VerificationTag::ZERO, |p| {
            p.init(ChunkType::INIT, self.fields(), parameters);
        })
    }

    /// The cookie in an INIT ACK.
    pub fn cookie(init_ack: &Seen) -> Bytes {
        init_ack
            .parameters()
            .iter()
            .find_map(|p| match p {
                Parameter::StateCookie(cookie) => Some(Bytes::copy_from_slice(cookie)),
                _ => None,
            })
            .expect("a cookie")
    }

    /// Takes the endpoint's tag and TSN from its INIT or INIT ACK.
    pub fn learn(&mut self, init: &Seen) {
        self.peer_tag = init.init().tag;
        self.peer_tsn = init.init().initial_tsn;
    }

    /// Sets up an association as the initiating side.
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
        self.learn(&answers[0]);
        let cookie = Self::cookie(&answers[0]);
        let answers = self.say(world, |p| p.cookie_echo(&cookie));
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
        self.say(world, |p| {
            p.cookie_ack();
        });
        world.events(self.link.end);
        (self, id)
    }

    /// Lets the endpoint send its INIT to the puppet.
    pub fn begin_accept(&mut self, world: &mut World) -> AssociationId {
        let end = self.link.end;
        let id = world.begin_connect_from(end, &[self.link.from], self.port);
        let sent = self.hear(world);
        assert_eq!(sent.len(), 1);
        self.learn(&sent[0]);
        id
    }

    /// Sends an INIT ACK; returns the answers.
    pub fn answer_init(
        &self,
        world: &mut World,
        parameters: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Vec<Seen> {
        self.say(world, |p| {
            p.init(ChunkType::INIT_ACK, self.fields(), parameters)
        })
    }

    /// The header of a DATA chunk with a whole message.
    pub fn data_header(tsn: Tsn, stream: u16, ssn: u16) -> DataHeader {
        DataHeader {
            tsn,
            stream: StreamId(stream),
            ssn: Ssn::new(ssn),
            ppid: Ppid(0),
            flags: DataFlags::WHOLE,
        }
    }

    /// Sends a whole message with the next TSN; returns the answers.
    pub fn data(&mut self, world: &mut World, stream: u16, ssn: u16, payload: &[u8]) -> Vec<Seen> {
        let header = Self::data_header(self.tsn, stream, ssn);
        self.tsn = self.tsn.next();
        self.say(world, |p| p.data(&header, payload))
    }

    /// Sends a fragment with the puppet's TSN of this number, filled with the number; its place is its
    /// stream and the SSN of its message. The puppet's next TSN stays.
    pub fn fragment(
        &self,
        world: &mut World,
        number: u32,
        place: (u16, u16),
        flags: DataFlags,
        size: usize,
    ) -> Vec<Seen> {
        let header = DataHeader {
            flags,
            ..Self::data_header(self.tsn.plus(number), place.0, place.1)
        };
        self.say(world, |p| p.data(&header, &vec![number as u8; size]))
    }

    /// Sends a SACK; returns the answers. Gap blocks are offsets from the cumulative TSN.
    pub fn sack(
        &self,
        world: &mut World,
        cumulative: Tsn,
        a_rwnd: u32,
        gaps: &[(u16, u16)],
    ) -> Vec<Seen> {
        let gaps: Vec<GapAckBlock> = gaps
            .iter()
            .map(|&(start, end)| GapAckBlock { start, end })
            .collect();
        self.say(world, |p| {
            p.sack(cumulative, a_rwnd, gaps.into_iter(), std::iter::empty());
        })
    }

    /// The endpoint's TSN with this number, 0 for its first.
    pub fn theirs(&self, number: u32) -> Tsn {
        self.peer_tsn.plus(number)
    }

    /// The TSNs of DATA chunks in these packets, counted from the endpoint's first.
    pub fn numbers(&self, packets: &[Seen]) -> Vec<u32> {
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

    /// Answers a HEARTBEAT if there is one in the packet.
    pub fn answer_heartbeat(&self, world: &mut World, heartbeat: &Seen) -> Vec<Seen> {
        let value = heartbeat.chunks().into_iter().find_map(|c| match c {
            Chunk::Heartbeat(h) => Some(h.value.to_vec()),
            _ => None,
        });
        self.say(world, |p| p.heartbeat_ack(&value.expect("a HEARTBEAT")))
    }
}
