//! SCTP directly on IP, as far as this process may.

use carrick::{BindError, Config, ConnectError, ConnectOptions, Endpoint};

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

#[tokio::test]
async fn a_listener_takes_peers_in_udp_and_on_plain_ip_rfc_6951_5_4() {
    let address = ip("127.0.0.1");
    let udp = || Config::udp([address]).encapsulation_port(0);
    let server = match Endpoint::bind(udp().and_plain_ip()) {
        Ok(server) => server,
        // Without CAP_NET_RAW this is all there is to see.
        Err(error) => {
            assert!(matches!(error, BindError::Privilege(_)), "{error}");
            return;
        }
    };
    let port = server.encapsulation_port().unwrap();
    let to = ConnectOptions::to_port(server.port());
    let clients = [
        (udp(), to.clone().encapsulation_port(port), Some(port)),
        (Config::raw([address]), to.clone(), None),
        (
            udp().and_plain_ip(),
            to.clone().encapsulated(address, port),
            Some(port),
        ),
        (udp().and_plain_ip(), to.clone().plain_ip(address), None),
    ];
    for (config, options, way) in clients {
        let client = Endpoint::bind(config).unwrap();
        let peers = [address];
        let connect = client.connect(&peers, options);
        let (a, b) = soon("set-up", async { tokio::join!(connect, server.accept()) }).await;
        let (a, mut b) = (a.unwrap(), b.unwrap());
        soon("sending", a.send("hello", on(0))).await.unwrap();
        let message = soon("receiving", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == b"hello"[..]);
        assert_eq!(a.paths().await.unwrap()[0].encapsulation, way);
        let back = way.and(client.encapsulation_port());
        assert_eq!(b.paths().await.unwrap()[0].encapsulation, back);
    }
    let only = Endpoint::bind(udp()).unwrap();
    let refused = only.connect(&[address], to.plain_ip(address)).await.err();
    assert_eq!(refused, Some(ConnectError::NotPlainIp));
}
