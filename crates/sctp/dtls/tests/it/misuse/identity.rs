//! Peers with a wrong identity.

use std::time::Duration;

use carrick_dtls::{Certificate, Dtls, DtlsConfig, DtlsError, Trust};
use carrick_proto::CloseReason;

use super::{VERSIONS, failure};
use crate::common::{CLIENT, SERVER, World, association, certificate, expecting, fingerprint};

#[test]
fn a_server_with_a_wrong_fingerprint_is_refused() {
    for versions in VERSIONS {
        let mut world = World::with(versions);
        let id = world.try_connect(expecting(2), association()).unwrap();
        world.run(Duration::from_secs(60));
        let refused = failure(&world, CLIENT).expect("refused");
        assert!(
            matches!(refused, DtlsError::PeerRefused { fingerprint: f, .. } if *f == fingerprint(SERVER)),
            "{refused}"
        );
        assert!(refused.to_string().starts_with("the peer's certificate"));
        assert_eq!(
            world.nodes[CLIENT].closed(id),
            Some(&CloseReason::LowerLayerLost)
        );
        assert!(world.nodes[SERVER].events.is_empty());
        // The client's certificate was not sent either.
        let der = certificate(CLIENT).der().to_vec();
        let part = &der[der.len() / 2..der.len() / 2 + 24];
        assert!(
            world
                .log
                .iter()
                .all(|s| !s.bytes.windows(24).any(|w| w == part))
        );
        for node in [CLIENT, SERVER] {
            assert_eq!(
                world.nodes[node].layer.sessions().count(),
                0,
                "nothing is kept"
            );
        }
    }
}

#[test]
fn a_client_with_a_wrong_fingerprint_gets_an_alert() {
    for versions in VERSIONS {
        let mut world = World::of(|node| {
            let trust = if node == SERVER {
                expecting(2)
            } else {
                expecting(SERVER)
            };
            DtlsConfig {
                versions,
                ..DtlsConfig::new(certificate(node), trust)
            }
        });
        let id = world.connect();
        world.run(Duration::from_secs(5));
        assert!(matches!(
            failure(&world, SERVER),
            Some(DtlsError::PeerRefused { .. })
        ));
        assert!(
            world.nodes[SERVER].events.is_empty(),
            "nothing of SCTP was taken"
        );
        assert_eq!(
            world.nodes[CLIENT].closed(id),
            Some(&CloseReason::LowerLayerLost)
        );
    }
}

#[test]
fn a_function_may_verify_certificates() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let given = std::sync::Arc::clone(&seen);
    let verify = move |der: &[u8]| {
        given.lock().unwrap().push(der.to_vec());
        Err("its name is wrong".to_string())
    };
    let mut world = World::new();
    world
        .try_connect(Trust::Verifier(std::sync::Arc::new(verify)), association())
        .unwrap();
    world.run(Duration::from_secs(5));
    assert_eq!(*seen.lock().unwrap(), [certificate(SERVER).der()]);
    let refused = failure(&world, CLIENT).expect("refused").to_string();
    assert!(refused.contains("its name is wrong"), "{refused}");
}

#[test]
fn a_key_of_another_certificate_is_an_error() {
    let mixed = Certificate::from_der(
        certificate(SERVER).der().to_vec(),
        certificate(2).private_key().to_vec(),
    );
    let error = Dtls::new(DtlsConfig::new(mixed, Trust::Anyone)).expect_err("refused");
    let error = error.to_string();
    assert!(error.contains("private key does not belong"), "{error}");
}

#[test]
fn an_unreadable_key_or_certificate_is_an_error() {
    let good = certificate(SERVER);
    for (der, key, expected) in [
        (good.der(), &[][..], "cannot read the private key"),
        (good.der(), &[1, 2, 3], "cannot read the private key"),
        (&[1, 2, 3], good.private_key(), "does not belong"),
    ] {
        let wrong = Certificate::from_der(der.to_vec(), key.to_vec());
        let error = Dtls::new(DtlsConfig::new(wrong, Trust::Anyone)).expect_err("refused");
        let error = error.to_string();
        assert!(
            error.starts_with("DTLS configuration: certificate: "),
            "{error}"
        );
        assert!(error.contains(expected), "{error}");
    }
}
