//! Key management in a protection: its messages precede those of the user.

use std::collections::VecDeque;
use std::sync::Arc;

use carrick_proto::protection::{
    ChunkProtection, ChunkProtectionOffer, KeyManagementState, MAX_KEY_MESSAGE, Offers,
    PacketContext, Seal,
};
use carrick_proto::{
    AssociationStats, CloseReason, Endpoint, EndpointConfig, Event, ParameterType, Ppid, Route,
    SendError, SendOptions, StreamId, Time, Tsn,
};
use carrick_wire::{
    CauseCode, Chunk, ChunkType, CommonHeader, DataFlags, DataHeader, Fragment, IDataHeader, Mid,
    PacketBuilder, Ssn, VerificationTag,
};

use super::toy::{Offer, PARAMETER, SEALED, Toy};
use super::{CLIENT, SERVER, bytes_of};
use crate::common::{Verdict, World, addresses, ms, pattern, port, secs};

const PPID: Ppid = Ppid(4242);

/// Conduct of the key management of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Conduct {
    #[default]
    Agrees,
    /// Refuses the peer's key.
    Refuses,
    /// Answers nothing.
    Silent,
    /// Sends a message beyond the limit.
    Floods,
}

/// Offer of the toy with keys that the side which initiated sends to the other one.
#[derive(Clone, Debug)]
struct Managed {
    offer: Offer,
    conduct: Conduct,
}

impl ChunkProtectionOffer for Managed {
    fn chunk_type(&self) -> ChunkType {
        SEALED
    }

    fn parameter_type(&self) -> ParameterType {
        PARAMETER
    }

    fn value(&self, random: u32) -> Vec<u8> {
        random.to_be_bytes().to_vec()
    }

    fn overhead(&self) -> usize {
        self.offer.overhead
    }

    fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        Ok(theirs.is_some())
    }

    fn key_management(&self) -> Option<Ppid> {
        Some(PPID)
    }

    fn begin(&self, offers: &Offers<'_>) -> Box<dyn ChunkProtection> {
        assert_ne!(offers.ours, offers.theirs, "a random number for each side");
        let mut bound = [offers.ours, offers.theirs];
        bound.sort_unstable();
        Box::new(Keys {
            toy: self.offer.toy(offers.initiated),
            conduct: self.conduct,
            bound: bound.concat(),
            initiated: offers.initiated,
            state: KeyManagementState::Pending,
            waiting: VecDeque::new(),
        })
    }
}

#[derive(Debug)]
struct Keys {
    toy: Toy,
    conduct: Conduct,
    /// Parameters of both sides, which both have to know alike.
    bound: Vec<u8>,
    initiated: bool,
    state: KeyManagementState,
    waiting: VecDeque<Vec<u8>>,
}

impl Keys {
    fn establish(&mut self) {
        self.toy.send_with(1);
        self.toy.lock();
        self.state = KeyManagementState::Established;
    }
}

impl ChunkProtection for Keys {
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal {
        self.toy.protect(packet, chunks)
    }

    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool {
        self.toy.unprotect(packet, flags, value)
    }

    fn admits(&self, chunk: ChunkType) -> bool {
        self.toy.admits(chunk)
    }

    fn key_management_state(&self) -> KeyManagementState {
        self.state.clone()
    }

    fn start_key_management(&mut self, _: Time) {
        if self.initiated {
            self.toy.install(1, [5; 32]);
            let filler = match self.conduct {
                Conduct::Floods => MAX_KEY_MESSAGE,
                _ => 4000,
            };
            self.waiting
                .push_back([&self.bound[..], &pattern(filler)].concat());
        }
    }

    fn on_key_message(&mut self, _: Time, message: &[u8]) {
        match self.conduct {
            Conduct::Refuses => {
                let reason = "the peer's key is not trusted".into();
                self.state = KeyManagementState::Failed(reason);
            }
            Conduct::Silent => {}
            _ if self.initiated => {
                assert_eq!(message, b"done");
                self.establish();
            }
            _ => {
                assert_eq!(message, [&self.bound[..], &pattern(4000)].concat());
                self.toy.install(1, [5; 32]);
                self.waiting.push_back(b"done".to_vec());
                self.establish();
            }
        }
    }

    fn poll_key_message(&mut self, _: Time) -> Option<Vec<u8>> {
        self.waiting.pop_front()
    }
}

fn managed(conducts: [Option<Conduct>; 2], interleaving: bool) -> World {
    let offer = |conduct: Conduct| -> Arc<dyn ChunkProtectionOffer> {
        Arc::new(Managed {
            offer: Offer::new(),
            conduct,
        })
    };
    let mut world = World::with(2, move |end, config| {
        config.association.security.protection = conducts[end].map(offer);
        config.association.extensions.interleaving = interleaving;
    });
    world.config.extensions.interleaving = interleaving;
    world.config.security.protection = conducts[CLIENT].map(offer);
    world
}

const BOTH: [Option<Conduct>; 2] = [Some(Conduct::Agrees), Some(Conduct::Agrees)];

/// Checks that user data in the clear is of the key management, and returns the number of its chunks.
fn clear_chunks(world: &World) -> usize {
    let mut count = 0;
    for seen in world.log.iter().filter(|seen| !seen.has(SEALED)) {
        for chunk in seen.chunks() {
            let (stream, ppid) = match chunk {
                Chunk::Data(data) => (data.stream, data.ppid),
                Chunk::IData(data) => match data.header.fragment {
                    Fragment::First(ppid) => (data.header.stream, ppid),
                    Fragment::Later(_) => (data.header.stream, PPID),
                },
                _ => continue,
            };
            assert_eq!(
                (stream, ppid),
                (StreamId(0), PPID),
                "user data in the clear"
            );
            count += 1;
        }
    }
    count
}

/// A packet with the client's first address and port.
fn inject(world: &mut World, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) {
    let header = CommonHeader {
        source_port: port(CLIENT),
        destination_port: port(SERVER),
        tag,
    };
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, 1400);
    write(&mut packet);
    packet.finish();
    let route = Route::plain(addresses(SERVER)[0], addresses(CLIENT)[0]);
    world.inject(SERVER, &route, bytes);
}

#[test]
fn keys_precede_the_messages_of_the_user() {
    for interleaving in [false, true] {
        for loss in [0, 24] {
            let mut world = managed(BOTH, interleaving);
            let mut state = 7_u32;
            world.rule(move |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match state >> 24 {
                    n if n < loss => Verdict::Drop,
                    n if n < 2 * loss => Verdict::Delay(ms(15)),
                    _ => Verdict::Pass,
                }
            });
            let id = world.begin_connect(&addresses(SERVER));
            world.send(CLIENT, id, 0, pattern(3000));
            world.send(CLIENT, id, 1, pattern(3001));
            let mut arrived = Vec::new();
            assert!(world.run_until(secs(200), |w| {
                if w.ends[SERVER].associations().next().is_some() {
                    let peer = w.association(SERVER);
                    arrived.extend(bytes_of(w.receive(SERVER, peer)));
                }
                arrived.len() == 2
            }));
            arrived.sort_by_key(|message| message.len());
            assert_eq!(arrived, [pattern(3000), pattern(3001)]);
            assert!(
                clear_chunks(&world) >= 3,
                "the messages of the key management"
            );
            for end in [CLIENT, SERVER] {
                let events = world.events(end);
                let first = events.first();
                assert!(
                    matches!(first, Some(Event::Established { .. })),
                    "{events:?}"
                );
            }
        }
    }
}

#[test]
fn no_user_is_notified_before_both_sides_have_keys() {
    let mut world = managed([Some(Conduct::Agrees), Some(Conduct::Silent)], false);
    let id = world.begin_connect(&addresses(SERVER));
    world.send(CLIENT, id, 0, pattern(100));
    world.run(secs(20));
    let peer = world.association(SERVER);
    assert_eq!(world.states(), [Some("Established"), Some("Established")]);
    for (end, id) in [(CLIENT, id), (SERVER, peer)] {
        assert_eq!(world.events(end), []);
        assert_eq!(bytes_of(world.receive(end, id)).len(), 0);
    }
    clear_chunks(&world);
}

#[test]
fn a_refused_key_ends_the_association_on_both_sides() {
    let mut world = managed([Some(Conduct::Agrees), Some(Conduct::Refuses)], false);
    world.begin_connect(&addresses(SERVER));
    world.run(secs(2));
    for end in [CLIENT, SERVER] {
        let events = world.events(end);
        let [Event::Closed(reason)] = &events[..] else {
            panic!("{events:?}");
        };
        let text = reason.to_string();
        assert!(
            text.contains("key management: the peer's key is not trusted"),
            "{text}"
        );
    }
}

/// A message beyond the limit is not passed on: the key management waits, and its user with it.
#[test]
fn messages_of_the_key_management_are_bounded() {
    let mut world = managed([Some(Conduct::Floods), Some(Conduct::Agrees)], false);
    world.begin_connect(&addresses(SERVER));
    world.run(secs(20));
    assert_eq!(world.events(SERVER), []);
    let peer = world.association(SERVER);
    assert_eq!(world.stats(SERVER, peer).counters.messages_delivered, 0);
}

#[test]
fn messages_are_sent_to_a_peer_without_key_management() {
    for conducts in [[Some(Conduct::Agrees), None], [None, Some(Conduct::Agrees)]] {
        let mut world = managed(conducts, false);
        let id = world.begin_connect(&addresses(SERVER));
        world.send(CLIENT, id, 0, pattern(10));
        world.run(secs(2));
        let peer = world.association(SERVER);
        assert_eq!(bytes_of(world.receive(SERVER, peer)), [pattern(10)]);
        assert!(world.ends[CLIENT].chunk_protection(id).is_none());
    }
}

/// Data that an attacker sends in the clear while the keys are agreed on is neither delivered nor kept.
#[test]
fn clear_data_of_the_user_is_refused() {
    for interleaving in [false, true] {
        let mut world = managed([Some(Conduct::Agrees), Some(Conduct::Silent)], interleaving);
        world.begin_connect(&addresses(SERVER)[..1]);
        world.run(secs(3));
        let peer = world.association(SERVER);
        let before = world.stats(SERVER, peer);
        let last = world
            .log
            .iter()
            .filter(|seen| seen.from == CLIENT)
            .flat_map(|seen| seen.user_data())
            .map(|chunk| chunk.tsn)
            .max_by_key(|tsn| tsn.value())
            .expect("a message of the key management");
        let tag = world.sent(CLIENT, ChunkType::COOKIE_ECHO)[0].tag();
        let next = last.next();
        // (TSN, stream, PPID, unordered): of the user, on another stream, unordered, out of sequence.
        let forged = [
            (next, 0, Ppid(0), false),
            (next, 1, PPID, false),
            (next, 0, PPID, true),
            (Tsn::new(next.value() + 1), 0, PPID, false),
            (Tsn::new(next.value() + 5), 3, Ppid(9), false),
        ];
        for (tsn, stream, ppid, unordered) in forged {
            inject(&mut world, tag, |packet| {
                if interleaving {
                    packet.i_data(
                        &IDataHeader {
                            tsn,
                            stream: StreamId(stream),
                            mid: Mid::new(1),
                            fragment: Fragment::First(ppid),
                            immediate: false,
                            unordered,
                            ending: true,
                        },
                        b"forged",
                    );
                } else {
                    let flags = DataFlags {
                        unordered,
                        beginning: true,
                        ending: true,
                        ..DataFlags::default()
                    };
                    let header = DataHeader {
                        flags,
                        tsn,
                        stream: StreamId(stream),
                        ssn: Ssn::new(1),
                        ppid,
                    };
                    packet.data(&header, b"forged");
                }
            });
        }
        world.run(secs(1));
        let after = world.stats(SERVER, peer);
        let received = |stats: &AssociationStats| stats.counters.data_chunks_received;
        assert_eq!(received(&after), received(&before));
        assert_eq!(after.receive_buffer_bytes, before.receive_buffer_bytes);
        assert_eq!(world.events(SERVER), []);
    }
}

/// A message of the user with the identifier of the key management is delivered to the user on another stream,
/// and messages of the key management pass beside those of the user.
#[test]
fn only_stream_zero_is_of_the_key_management() {
    let (mut world, client, server) = managed(BOTH, false).connected();
    let options = SendOptions {
        ppid: PPID,
        stream: StreamId(1),
        ..SendOptions::default()
    };
    world.send_with(CLIENT, client, options, pattern(20));
    let options = SendOptions {
        ppid: PPID,
        ..SendOptions::default()
    };
    let now = world.now;
    let refused = world.ends[CLIENT].send(now, client, options, pattern(20));
    assert_eq!(refused, Err(SendError::KeyManagement(PPID)));
    world.send(CLIENT, client, 0, pattern(30));
    world.run(secs(1));
    let mut arrived = bytes_of(world.receive(SERVER, server));
    arrived.sort_by_key(|message| message.len());
    assert_eq!(arrived, [pattern(20), pattern(30)]);
}

/// The messages of the user wait for keys also after a restart of the peer before there are any.
#[test]
fn a_restart_before_keys_sends_nothing_in_the_clear() {
    let mut world = managed([Some(Conduct::Agrees), Some(Conduct::Silent)], false);
    world.begin_connect(&addresses(SERVER));
    world.run(secs(2));
    let peer = world.association(SERVER);
    world.send(SERVER, peer, 1, pattern(100));
    let mut config = EndpointConfig::new(port(CLIENT), addresses(CLIENT).to_vec(), [9; 32]);
    config.association = world.config.clone();
    world.ends[CLIENT] = Endpoint::new(config).expect("a valid configuration");
    world.begin_connect(&addresses(SERVER));
    world.run(secs(2));
    world.send(SERVER, peer, 1, pattern(100));
    world.run(secs(10));
    assert_eq!(
        world.sent(SERVER, ChunkType::INIT_ACK).len(),
        2,
        "a restart"
    );
    clear_chunks(&world);
    assert_eq!(world.events(SERVER), []);
}

#[test]
fn the_end_before_keys_is_a_failed_set_up() {
    let mut world = managed([Some(Conduct::Agrees), Some(Conduct::Silent)], false);
    let id = world.begin_connect(&addresses(SERVER));
    world.run(secs(2));
    let now = world.now;
    let aborted = world.ends[CLIENT].abort(now, id, b"enough");
    aborted.expect("it exists");
    world.run(secs(1));
    for end in [CLIENT, SERVER] {
        let events = world.events(end);
        assert!(
            matches!(
                events[..],
                [Event::Closed(
                    CloseReason::AbortedByPeer(_) | CloseReason::AbortedByUser
                )]
            ),
            "{events:?}"
        );
    }
}
