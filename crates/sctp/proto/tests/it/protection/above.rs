//! API for DTLS above SCTP (RFC 6083), used by a program that sends records of the length of DTLS
//! records.

use bytes::Bytes;
use carrick_proto::{
    AssociationId, ChunkType, Event, Ppid, SendOptions, SharedKey, SharedKeyId, StreamId,
};

use super::{CLIENT, SERVER};
use crate::common::{Verdict, World, pattern, secs};

/// 2^14 + 2048 + 13 (section 4.1).
const LARGEST_RECORD: usize = 18_445;

/// Payload protocol identifier (section 4.3).
const PROTOCOL: Ppid = Ppid(4711);

fn authenticated() -> World {
    let mut world = World::with(2, |_, config| {
        config.association.extensions.authentication = true;
        // Section 4.5.
        config.association.security.authentication.required =
            vec![ChunkType::DATA, ChunkType::FORWARD_TSN];
    });
    world.config.extensions.authentication = true;
    world.config.security.authentication.required = vec![ChunkType::DATA, ChunkType::FORWARD_TSN];
    world
}

fn record(world: &mut World, id: AssociationId, stream: u16, len: usize) -> Bytes {
    let options = SendOptions {
        stream: StreamId(stream),
        ppid: PROTOCOL,
        ..SendOptions::default()
    };
    let bytes = pattern(len);
    world.send_with(CLIENT, id, options, bytes.clone());
    bytes
}

/// Exported keying material after a handshake (section 4.8).
fn exported(epoch: u16) -> Vec<u8> {
    vec![epoch as u8; 64]
}

/// RFC 6083, section 4.7
/// RFC 6083, section 4.8
#[test]
fn keys_follow_dtls_handshakes() {
    let mut world = authenticated();
    let ids = world.connect();
    let mut n = 0_u32;
    world.rule(move |_| {
        n += 1;
        if n.is_multiple_of(11) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    for epoch in 1..5_u16 {
        // Records in the old epoch, one of them as large as they get.
        record(&mut world, ids.0, 1, LARGEST_RECORD);
        record(&mut world, ids.0, 2, 100);
        world.events(CLIENT);
        // Before ChangeCipherSpec everything has to be acknowledged for good.
        let mut drained = false;
        assert!(world.run_until(secs(60), |w| {
            drained |= w.events(CLIENT).contains(&Event::AllAcknowledged);
            drained
        }));
        assert_eq!(world.stats(CLIENT, ids.0).outstanding_chunks, 0);
        // Before ChangeCipherSpec is processed everything that came has to be read.
        let arrived = world.receive(SERVER, ids.1);
        assert_eq!(
            arrived.iter().map(|m| m.payload.len()).sum::<usize>(),
            LARGEST_RECORD + 100
        );
        assert!(arrived.iter().all(|m| m.ppid == PROTOCOL));
        let key = SharedKeyId(epoch);
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let secret = exported(epoch).into();
            let shared = SharedKey { id: key, secret };
            world.change(end, id).add_key(shared).unwrap();
        }
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            world.change(end, id).activate_key(key).unwrap();
        }
        record(&mut world, ids.0, 0, 40);
        world.run(secs(20));
        assert_eq!(
            world.receive_lengths(SERVER, ids.1),
            [40],
            "Finished, with the new key"
        );
        for (end, id) in [(CLIENT, ids.0), (SERVER, ids.1)] {
            let old = SharedKeyId(epoch - 1);
            world.change(end, id).delete_key(old).unwrap();
        }
    }
    let with_data: Vec<_> = world.sent(CLIENT, ChunkType::DATA);
    assert!(
        with_data.iter().all(|s| s.kinds()[0] == ChunkType::AUTH),
        "no DATA without AUTH"
    );
}
