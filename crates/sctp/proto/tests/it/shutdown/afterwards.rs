//! Messages that are read after the end, and new associations of the same peer.

use carrick_proto::{Event, SendError, SendOptions};
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;
use crate::shutdown::support::*;

#[test]
fn received_messages_are_readable_after_the_end() {
    for abort in [false, true] {
        let mut w = World::new();
        let (a, b) = w.connect();
        // The last SACK is still delayed when the ABORT comes.
        w.send(0, a, 0, pattern(10));
        w.run(secs(1));
        w.send(0, a, 0, pattern(20));
        w.run(ms(15));
        if abort {
            w.ends[0].abort(w.now, a, b"").unwrap();
        } else {
            w.ends[0].shutdown(w.now, a).unwrap();
        }
        w.run(secs(10));
        assert_eq!(closed(&w.events(1)).len(), 1);
        assert_eq!(
            w.ends[1].send(w.now, b, SendOptions::default(), pattern(1)),
            Err(SendError::UnknownAssociation)
        );
        assert_eq!(w.receive_lengths(1, b), [10, 20]);
        assert!(gone(&w));
        assert_eq!(w.ends[1].receive(b), None);
    }
}

#[test]
fn a_peer_reconnects_while_messages_are_unread() {
    let mut w = World::single_homed();
    let (mut peer, first) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"unread");
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    assert_eq!(closed(&w.events(0)).len(), 1);
    let mut again = Puppet::new();
    again.tag = VerificationTag(0x7777);
    let answers = again.init(&mut w, |_| {});
    again.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    assert!(again.send(&mut w, |p| p.cookie_echo(&cookie))[0].has(ChunkType::COOKIE_ACK));
    let events = w.events(0);
    assert!(
        matches!(events[..], [Event::Established { accepted: true, .. }]),
        "a new association, not a restart: {events:?}"
    );
    assert_eq!(
        w.receive_lengths(0, first),
        [6],
        "a message of the old association"
    );
    let second = w.association(0);
    assert_ne!(first, second);
    again.data(&mut w, 0, 0, b"fresh data");
    assert_eq!(w.receive_lengths(0, second), [10]);
}

#[test]
fn the_user_reconnects_while_messages_are_unread() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    peer.data(&mut w, 0, 0, b"unread");
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    let again = w.ends[0].connect(w.now, &[peer.link.from], peer.port, None, w.config.clone());
    assert!(again.is_ok(), "{again:?}");
}

/// RFC 9260, section 11.2.2
#[test]
fn undelivered_messages_return_on_failure() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    for context in 0..4 {
        let options = SendOptions {
            context,
            ..SendOptions::default()
        };
        w.send_with(0, id, options, pattern(1400));
    }
    let sent = peer.receive(&mut w);
    assert_eq!(
        peer.numbers(&sent),
        [0, 1, 2],
        "the window has room for three messages and a part"
    );
    peer.sack(&mut w, peer.endpoint_tsn(0), 1 << 20, &[]);
    peer.send(&mut w, |p| p.abort(false, |_| {}));
    let failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(1, 1400), (2, 1400), (3, 1400)]);
}
