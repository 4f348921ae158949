//! SCTP directly on IP, as far as this process may.

use carrick::{BindError, Config, Endpoint};

use crate::support::{associate, ip, on, soon};

#[tokio::test]
async fn plain_ip_carries_messages_in_both_families() {
    for address in ["127.0.0.1", "::1"] {
        let bind = || Endpoint::bind(Config::raw([ip(address)]));
        let (client, server) = match (bind(), bind()) {
            (Ok(client), Ok(server)) => (client, server),
            // Without CAP_NET_RAW this is all there is to see.
            (Err(error), _) | (_, Err(error)) => {
                assert!(matches!(error, BindError::Privilege(_)), "{error}");
                return;
            }
        };
        let (a, mut b) = associate(&client, &server, &[address]).await;
        soon("sending", a.send("hello", on(0))).await.unwrap();
        let message = soon("receiving", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == b"hello"[..], "{address}");
    }
}
