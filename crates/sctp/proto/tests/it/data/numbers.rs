//! TSNs and SSNs that wrap (sections 3.3.1, 6.1, 6.5).

use bytes::Bytes;
use carrick_proto::{AssociationConfig, Endpoint, EndpointConfig, SendError, Tsn};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::data::support::*;

/// An endpoint whose initial TSN wraps within `reach` chunks: found by trying seeds.
fn seed_before_wrap(reach: u32) -> [u8; 32] {
    for n in 0_u64..2_000_000 {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&n.to_be_bytes());
        let config = EndpointConfig::new(port(0), vec![addresses(0)[0]], seed);
        let mut end = Endpoint::new(config).unwrap();
        let now = carrick_proto::Time::from_millis(1000);
        let settings = AssociationConfig::rfc9260();
        end.connect(now, &[addresses(1)[0]], port(1), None, settings)
            .unwrap();
        let mut buf = Vec::new();
        end.poll_transmit(now, &mut buf).unwrap();
        let tsn = u32::from_be_bytes(buf[28..32].try_into().unwrap());
        if tsn > u32::MAX - reach {
            return seed;
        }
    }
    panic!("no seed found");
}

/// RFC 9260, section 3.3.1
/// RFC 9260, section 6.5
#[test]
fn ssns_and_tsns_wrap() {
    const MESSAGES: u32 = 70_000;
    let seed = seed_before_wrap(60_000);
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 0 {
            c.seed = seed;
        }
    });
    w.lose_data(0, &[30_000, 65_530, 65_540]);
    let (a, b) = w.connect();
    let first = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
    assert!(first.value() > u32::MAX - 60_000);
    w.discard_log = true;
    let (mut sent, mut got) = (0, 0_u32);
    while got < MESSAGES {
        while sent < MESSAGES {
            let data = Bytes::copy_from_slice(&u32::to_be_bytes(sent));
            match w.ends[0].send(w.now, a, options(0), data) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    break;
                }
            }
        }
        w.run(ms(20));
        assert!(w.now.as_secs_f64() < 300.0, "stuck after {got} messages");
        for message in w.receive(1, b) {
            assert_eq!(message.ssn.unwrap().value(), got as u16);
            assert_eq!(&message.payload.into_bytes()[..], got.to_be_bytes());
            got += 1;
        }
    }
}

/// RFC 9260, section 3.3.1
#[test]
fn received_tsns_wrap() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.tsn = Tsn::new(u32::MAX - 2);
    let (mut peer, id) = peer.connect(&mut w);
    let skipped = peer.tsn.plus(3);
    for ssn in 0..8 {
        if peer.tsn == skipped {
            peer.tsn = peer.tsn.next();
        }
        peer.data(&mut w, 0, ssn + u16::from(ssn >= 3), b"x");
    }
    assert_eq!(w.receive(0, id).len(), 3);
    let header = Puppet::data_header(skipped, 0, 3);
    let answers = peer.send(&mut w, |p| p.data(&header, b"x"));
    let sack = answers[0].sack().unwrap();
    assert_eq!(sack.cumulative_tsn_ack, peer.tsn.previous());
    assert_eq!(w.receive(0, id).len(), 6);
}

/// RFC 9260, section 6.1
#[test]
fn a_stream_holds_65535_messages_behind_a_gap() {
    let mut w = World::with(1, |_, c| {
        c.association.buffers.receive_buffer = 64 << 20;
        c.association.buffers.receive_buffer_chunks = 1 << 20;
    });
    let (peer, id) = Puppet::new().connect(&mut w);
    let message = |p: &mut carrick_wire::PacketBuilder<'_>, n: u32| {
        let header = Puppet::data_header(peer.tsn.plus(n), 0, n as u16);
        p.data(&header, &n.to_be_bytes());
    };
    for block in 0..20 {
        peer.send(&mut w, |p| {
            for n in block * 2000..(block + 1) * 2000 {
                if n > 0 {
                    message(p, n);
                }
            }
        });
    }
    assert_eq!(w.receive(0, id).len(), 0);
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    peer.send(&mut w, |p| message(p, 0));
    let got = w.receive(0, id);
    assert_eq!(got.len(), 40_000);
    for (i, message) in got.into_iter().enumerate() {
        assert_eq!(&message.payload.into_bytes()[..], (i as u32).to_be_bytes());
    }
}
