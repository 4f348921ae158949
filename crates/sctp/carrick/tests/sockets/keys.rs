//! Endpoint-pair shared keys are added, activated and deleted.

use std::time::Duration;

use carrick::{
    AssociationConfig, AuthenticationEvent, ChunkType, Event, Extensions, KeyError, Notification,
    OperationError, SharedKey, SharedKeyId,
};

use crate::support::{associate, config, on, pair, quick, soon};

/// Requires DATA to be authenticated.
fn authenticated() -> AssociationConfig {
    let mut config = quick();
    config.extensions = Extensions {
        authentication: true,
        ..Extensions::NONE
    };
    config.security.authentication.required = vec![ChunkType::DATA];
    config.security.authentication.keys = vec![key(1)];
    config.security.authentication.active = SharedKeyId(1);
    config.security.authentication.null_key = false;
    config
}

fn key(id: u16) -> SharedKey {
    SharedKey {
        id: SharedKeyId(id),
        secret: vec![id as u8; 20].into(),
    }
}

/// RFC 4895, section 6.2
#[tokio::test]
async fn a_key_is_replaced_during_a_transfer() {
    let endpoint = || {
        let config = config(&["127.0.0.1"]).association(authenticated());
        carrick::Endpoint::bind(config).unwrap()
    };
    let (client, server) = (endpoint(), endpoint());
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    let mut events = b.take_events().unwrap();
    a.send("with the first key", on(0)).await.unwrap();
    soon("message", b.recv()).await.unwrap().unwrap();
    // Packets with a key that the peer lacks are discarded until the peer has it.
    a.control().add_key(key(2)).await.unwrap();
    a.control().activate_key(SharedKeyId(2)).await.unwrap();
    a.send("with the second key", on(0)).await.unwrap();
    let unknown = Notification::Event(Event::Authentication(AuthenticationEvent::UnknownKey(
        SharedKeyId(2),
    )));
    while soon("event", events.next()).await != Some(unknown.clone()) {}
    let early = tokio::time::timeout(Duration::from_millis(50), b.recv()).await;
    assert!(early.is_err(), "{early:?}");
    b.control().add_key(key(2)).await.unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert_eq!(message.payload.into_bytes(), "with the second key");
    let in_use = OperationError::Key(KeyError::Active);
    assert_eq!(a.control().delete_key(SharedKeyId(2)).await, Err(in_use));
    a.control().deactivate_key(SharedKeyId(1)).await.unwrap();
    a.control().delete_key(SharedKeyId(1)).await.unwrap();
    let gone = OperationError::Key(KeyError::UnknownKey);
    assert_eq!(a.control().activate_key(SharedKeyId(1)).await, Err(gone));
    soon("shutdown", a.shutdown()).await.unwrap();
    assert!(matches!(
        a.control().add_key(key(3)).await,
        Err(OperationError::Ended(carrick::CloseReason::Shutdown))
    ));
}

/// RFC 4895, section 6
#[tokio::test]
async fn keys_require_authentication() {
    let (_client, _server, a, _b) = pair().await;
    let refused = OperationError::Key(KeyError::NotInForce);
    assert_eq!(a.control().add_key(key(1)).await, Err(refused));
}
