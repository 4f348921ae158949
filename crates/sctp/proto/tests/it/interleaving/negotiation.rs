//! Negotiation of interleaving at set-up and at a restart (RFC 8260, section 2.2.1).

use carrick_proto::{Extensions, StreamScheduler};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::interleaving::support::{FIRST, i_data, puppet};

/// RFC 8260, section 2.2.1
#[test]
fn data_is_used_with_a_peer_without_interleaving() {
    for (ours, theirs) in [(true, false), (false, true)] {
        let offer = |interleaving| Extensions {
            interleaving,
            ..Extensions::NONE
        };
        let mut w = World::with(2, |end, config| {
            config.association.extensions = offer(if end == 0 { ours } else { theirs });
        });
        w.config.extensions = offer(ours);
        w.config.streams.scheduler = StreamScheduler::RoundRobin;
        let (a, b) = w.connect();
        w.log.clear();
        for stream in [1, 2] {
            w.send(0, a, stream, pattern(3000));
        }
        w.run(secs(5));
        assert!(w.log.iter().all(|p| !p.has(ChunkType::I_DATA)));
        let got = w.receive(1, b);
        assert_eq!(got.len(), 2);
        assert!(got.iter().all(|m| m.mid.is_none() && m.ssn.is_some()));
    }
}

/// RFC 8260, section 2.1
#[test]
fn messages_interleave_after_a_restart() {
    let (mut w, peer, id) = puppet(true);
    w.send(0, id, 1, pattern(10));
    let header = i_data(peer.tsn, 1, 0, FIRST, false);
    peer.send(&mut w, |p| p.i_data(&header, b"lost"));
    for interleaving in [false, true] {
        let again = Puppet {
            tag: carrick_proto::VerificationTag(0x99 + u32::from(interleaving)),
            ..peer.clone()
        };
        let (mut again, same) = again.connect_with(&mut w, |p| {
            if interleaving {
                p.supported_extensions(&[ChunkType::I_DATA]);
            }
        });
        assert_eq!(same, id);
        w.log.clear();
        w.send(0, id, 1, pattern(10));
        w.pump();
        let sent = on_any_wire(&w);
        assert_eq!((sent[0].number, sent[0].fsn.is_some()), (0, interleaving));
        if interleaving {
            let header = i_data(again.tsn, 1, 0, FIRST, true);
            again.send(&mut w, |p| p.i_data(&header, b"new"));
        } else {
            again.data(&mut w, 1, 0, b"new");
        }
        let got = w.receive(0, id);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].mid.is_some(), interleaving);
    }
}

fn on_any_wire(w: &World) -> Vec<UserData> {
    w.log.iter().flat_map(SentPacket::user_data).collect()
}
