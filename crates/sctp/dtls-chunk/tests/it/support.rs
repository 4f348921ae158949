//! Certificates, and worlds of two endpoints with the DTLS chunk.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use carrick_dtls::Certificate;
use carrick_dtls_chunk::{
    DtlsChunk, DtlsChunkConfig, DtlsProtection, Identity, PreSharedSecret, Trust,
};
use carrick_proto::{AssociationId, ChunkType, Endpoint};
use carrick_wire::Chunk;

use crate::common::{World, pattern, secs};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

pub(crate) const DTLS: ChunkType = ChunkType(0x41);

/// Configurations of two sides that trust the fingerprint of each other.
pub(crate) fn fingerprints() -> [DtlsChunkConfig; 2] {
    let certificates = [(), ()].map(|()| Certificate::generate().expect("random numbers"));
    let known = [1, 0].map(|other: usize| Trust::fingerprint(certificates[other].fingerprint()));
    let [client, server] = certificates.map(|own| Identity::try_from(own).expect("a certificate"));
    let [of_server, of_client] = known;
    [
        DtlsChunkConfig::tls(client, of_server),
        DtlsChunkConfig::tls(server, of_client),
    ]
}

pub(crate) fn pre_shared() -> [DtlsChunkConfig; 2] {
    [(), ()].map(|()| DtlsChunkConfig::pre_shared(PreSharedSecret::new(&[7; 32])))
}

/// Returns a world of two endpoints with these offers, with two paths.
pub(crate) fn world(offers: &[Option<Arc<DtlsChunk>>; 2]) -> World {
    let offer = |end: usize| offers[end].clone().map(|offer| offer as Arc<_>);
    let mut world = World::with(2, |end, config| {
        config.association.security.protection = offer(end);
    });
    world.config.security.protection = offer(CLIENT);
    world
}

pub(crate) fn offers(configs: [DtlsChunkConfig; 2]) -> [Option<Arc<DtlsChunk>>; 2] {
    configs.map(|config| {
        Some(Arc::new(
            DtlsChunk::new(config).expect("a valid configuration"),
        ))
    })
}

pub(crate) fn world_with(configs: [DtlsChunkConfig; 2]) -> World {
    world(&offers(configs))
}

/// Returns the protection of an association.
pub(crate) fn protection(endpoint: &mut Endpoint, id: AssociationId) -> &mut DtlsProtection {
    let protection = endpoint.chunk_protection(id).expect("protection in force");
    let any: &mut dyn Any = protection;
    any.downcast_mut().expect("the DTLS chunk")
}

/// Sends messages of 3000 bytes and more to the server, and waits until they have arrived in order.
pub(crate) fn transfer(world: &mut World, ids: (AssociationId, AssociationId), count: usize) {
    for n in 0..count {
        world.send(CLIENT, ids.0, 0, pattern(3000 + n));
    }
    let mut arrived: Vec<Bytes> = Vec::new();
    let done = world.run_until(secs(300), |w| {
        let messages = w.receive(SERVER, ids.1).into_iter();
        arrived.extend(messages.map(|message| message.payload.into_bytes()));
        arrived.len() == count
    });
    assert!(done, "{} of {count}", arrived.len());
    assert!((0..count).all(|n| arrived[n] == pattern(3000 + n)));
}

/// Checks that in the clear there are but the set-up and messages of the key management.
pub(crate) fn assert_no_plaintext(world: &World) {
    for seen in world.log.iter().filter(|seen| !seen.has(DTLS)) {
        for chunk in seen.chunks() {
            if let Chunk::Data(data) = chunk {
                assert_eq!((data.stream.0, data.ppid.0), (0, 4242));
            }
        }
    }
}
