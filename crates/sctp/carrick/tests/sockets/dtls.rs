//! SCTP over DTLS (RFC 8261) on real sockets, over loopback.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use carrick::dtls::{Certificate, DtlsConfig, Trust, Versions};
use carrick::protection::SessionLayerConfig;
use carrick::{
    Association, BindError, Bytes, CloseReason, Config, ConnectError, ConnectOptions, Endpoint,
    OperationError, PathId, RecvError, SendOptions,
};

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// Ten megabytes in messages of many packets.
const SIZE: usize = 50_000;
const COUNT: usize = 200;

fn bind(dtls: DtlsConfig) -> Endpoint {
    let config = Config::udp([LOOPBACK]).encapsulation_port(0).dtls(dtls);
    Endpoint::bind(config).expect("loopback")
}

fn to(server: &Endpoint) -> ConnectOptions {
    let udp = server.encapsulation_port().expect("UDP");
    ConnectOptions::new().encapsulation_port(udp)
}

async fn pair(versions: Versions) -> (Endpoint, Endpoint, Association, Association) {
    let (ours, theirs) = (
        Certificate::generate().unwrap(),
        Certificate::generate().unwrap(),
    );
    let trusted = |c: &Certificate| Trust::fingerprint(c.fingerprint());
    let of = |own: &Certificate, other| DtlsConfig {
        versions,
        ..DtlsConfig::new(own.clone(), trusted(other))
    };
    let server = bind(of(&theirs, &ours));
    let client = bind(of(&ours, &theirs));
    let (connected, accepted) = tokio::join!(
        client.connect_with((&[LOOPBACK], server.port()), to(&server)),
        server.accept()
    );
    (
        client,
        server,
        connected.expect("connected"),
        accepted.expect("accepted").accept(),
    )
}

async fn receive(association: &mut Association, wanted: usize) -> usize {
    let mut arrived = 0;
    while arrived < wanted {
        let message = association
            .recv()
            .await
            .expect("no end")
            .expect("a message");
        arrived += message.payload.len();
        let bytes = message.payload.into_bytes();
        assert!(
            bytes.iter().all(|b| *b == bytes[0]),
            "a message is what it was"
        );
    }
    arrived
}

/// RFC 8261
#[tokio::test]
async fn megabytes_are_transferred_over_dtls() {
    for versions in [Versions::Dtls12, Versions::Dtls13] {
        let (client, server, mut ours, mut theirs) = pair(versions).await;
        ours.send("hello", SendOptions::default()).await.unwrap();
        let asked = theirs.recv().await.unwrap().unwrap();
        theirs
            .send(asked.payload.into_bytes(), SendOptions::default())
            .await
            .unwrap();
        let echoed = ours.recv().await.unwrap().unwrap();
        assert_eq!(echoed.payload.into_bytes(), "hello");
        for forth in [true, false] {
            let (from, at) = if forth {
                (&mut ours, &mut theirs)
            } else {
                (&mut theirs, &mut ours)
            };
            let send = async {
                for n in 0..COUNT {
                    let message = Bytes::from(vec![n as u8; SIZE]);
                    from.send(message, SendOptions::default()).await.unwrap();
                }
            };
            let ((), arrived) = tokio::join!(send, receive(at, SIZE * COUNT));
            assert_eq!(arrived, SIZE * COUNT);
        }
        assert_eq!(server.stats().await.unwrap().sessions.established, 1);
        drop((ours, theirs));
        let (client, server) = tokio::join!(client.close(), server.close());
        assert!(client.is_empty() && server.is_empty(), "{client} {server}");
    }
}

#[tokio::test]
async fn an_unusable_key_is_refused_at_bind() {
    let (one, other) = (
        Certificate::generate().unwrap(),
        Certificate::generate().unwrap(),
    );
    for key in [&[1, 2, 3], other.private_key()] {
        let wrong = Certificate::from_der(one.der().to_vec(), key.to_vec());
        let dtls = DtlsConfig::new(wrong, Trust::Anyone);
        let config = Config::udp([LOOPBACK]).encapsulation_port(0).dtls(dtls);
        let error = Endpoint::bind(config).expect_err("refused");
        assert!(matches!(error, BindError::Dtls(_)), "{error}");
        assert!(error.to_string().contains("private key"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_server_certificate_is_reported() {
    let server = bind(DtlsConfig::new(
        Certificate::generate().unwrap(),
        Trust::Anyone,
    ));
    let client = bind(DtlsConfig::new(
        Certificate::generate().unwrap(),
        Trust::Anyone,
    ));
    let other = Certificate::generate().unwrap().fingerprint();
    let options = to(&server).trust(Trust::fingerprint(other));
    let error = client
        .connect_with((LOOPBACK, server.port()), options)
        .await
        .expect_err("refused");
    let ConnectError::Unprotected(why) = &error else {
        panic!("{error}");
    };
    assert!(
        why.contains("the peer's certificate") && why.contains("refused"),
        "{why}"
    );
    // The endpoint can still connect to other servers.
    let association = client
        .connect_with((&[LOOPBACK], server.port()), to(&server))
        .await
        .unwrap();
    assert!(server.accept().await.is_some());
    drop(association);
}

/// RFC 8261
#[tokio::test]
async fn a_server_identifies_peers_by_fingerprint() {
    let own = || Certificate::generate().unwrap();
    let (server, clients) = (own(), [own(), own()]);
    let known = clients.iter().map(Certificate::fingerprint).collect();
    let listening = bind(DtlsConfig::new(server.clone(), Trust::Fingerprints(known)));
    let liked = clients[0].fingerprint();
    let verify = Trust::Verifier(std::sync::Arc::new(move |_: &[u8]| Ok(())));
    let verifying = bind(DtlsConfig::new(server.clone(), verify));
    for (server_end, who) in [(&listening, 0), (&listening, 1), (&verifying, 0)] {
        let trust = Trust::fingerprint(server.fingerprint());
        let client = bind(DtlsConfig::new(clients[who].clone(), trust));
        let (a, b) = tokio::join!(
            client.connect_with((&[LOOPBACK], server_end.port()), to(server_end)),
            server_end.accept()
        );
        let (a, b) = (a.unwrap(), b.unwrap().accept());
        assert_eq!(a.control().peer_fingerprint(), Some(server.fingerprint()));
        assert_eq!(
            b.control().peer_fingerprint(),
            Some(clients[who].fingerprint())
        );
        assert_eq!(b.control().peer_fingerprint() == Some(liked), who == 0);
        let refused = b
            .sender()
            .control()
            .set_encapsulation(PathId(0), Some(9))
            .await;
        assert_eq!(refused, Err(OperationError::OverDtls));
    }
}

#[tokio::test]
async fn an_untrusted_client_gets_an_error() {
    let no_peer = Trust::Fingerprints(Vec::new());
    let server = bind(DtlsConfig::new(Certificate::generate().unwrap(), no_peer));
    let client = bind(DtlsConfig::new(
        Certificate::generate().unwrap(),
        Trust::Anyone,
    ));
    let error = client
        .connect_with((&[LOOPBACK], server.port()), to(&server))
        .await
        .expect_err("refused");
    let ConnectError::Unprotected(why) = &error else {
        panic!("{error:?}");
    };
    assert!(why.contains("refused this side's certificate"), "{why}");
    assert_eq!(server.associations().await.unwrap(), 0);
}

#[tokio::test]
async fn an_abort_reaches_the_peer_through_the_session() {
    let (_client, _server, ours, mut theirs) = pair(Versions::Both).await;
    ours.abort(b"enough");
    let end = theirs.recv().await;
    let Err(RecvError::Ended(CloseReason::AbortedByPeer(cause))) = end else {
        panic!("{end:?}");
    };
    assert_eq!(cause.information, b"enough");
}

#[tokio::test]
async fn dtls_needs_udp_and_one_address() {
    let dtls = DtlsConfig::new(Certificate::generate().unwrap(), Trust::Anyone);
    let mut config = Config::udp([LOOPBACK])
        .encapsulation_port(0)
        .dtls(dtls.clone());
    config.auto_addresses = true;
    let error = Endpoint::bind(config).expect_err("refused");
    assert!(matches!(error, BindError::Dtls(_)), "{error}");
    let client = bind(dtls);
    let none = client
        .connect(([LOOPBACK, IpAddr::from([127, 0, 0, 2])], 1))
        .await;
    assert!(matches!(none, Err(ConnectError::Unprotected(_))));
}

fn anyone() -> DtlsConfig {
    DtlsConfig::new(Certificate::generate().unwrap(), Trust::Anyone)
}

fn bind_with(sessions: SessionLayerConfig) -> Endpoint {
    let config = Config::udp([LOOPBACK]).encapsulation_port(0);
    Endpoint::bind(config.dtls(anyone()).sessions(sessions)).expect("loopback")
}

#[tokio::test]
async fn the_number_of_sessions_is_limited() {
    let one = SessionLayerConfig {
        max_sessions: 1,
        ..SessionLayerConfig::default()
    };
    let server = bind_with(one);
    let client = bind_with(one);
    let association = client
        .connect_with((&[LOOPBACK], server.port()), to(&server))
        .await
        .unwrap();
    assert!(server.accept().await.is_some());
    // A client without this limit gets no reply from a server that has reached its own.
    let second = bind(anyone());
    let (peers, options) = ([LOOPBACK], to(&server));
    let refused = async {
        while server.stats().await.unwrap().sessions.refused == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = second.connect_with((&peers, server.port()), options) => panic!("{:?}", answer.err()),
        () = refused => {}
    }
    // A client that has reached its own limit gets an error.
    let other = bind(anyone());
    let error = client
        .connect_with((&[LOOPBACK], other.port()), to(&other))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("max_sessions"), "{error}");
    drop(association);
}

#[tokio::test]
async fn the_time_of_a_handshake_is_limited() {
    let silent = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let client = bind_with(SessionLayerConfig {
        handshake_timeout: Duration::from_millis(300),
        ..SessionLayerConfig::default()
    });
    let udp = silent.local_addr().unwrap().port();
    let options = ConnectOptions::new().encapsulation_port(udp);
    let error = client
        .connect_with((LOOPBACK, 5000), options)
        .await
        .err()
        .unwrap();
    assert!(matches!(error, ConnectError::Unprotected(_)), "{error}");
    assert_eq!(client.stats().await.unwrap().sessions.timed_out, 1);
}

/// RFC 6951, section 5.5: the peer's host reports its port as unreachable
#[tokio::test]
async fn a_port_without_a_socket_is_reported_at_once() {
    let client = bind_with(SessionLayerConfig::default());
    let closed = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let udp = closed.local_addr().unwrap().port();
    drop(closed);
    let options = ConnectOptions::new().encapsulation_port(udp);
    let connected = client.connect_with((LOOPBACK, 5000), options).await;
    let error = connected.err().unwrap();
    assert!(error.to_string().contains("nothing receives"), "{error}");
    let sessions = client.stats().await.unwrap().sessions;
    assert_eq!((sessions.failed, sessions.timed_out), (1, 0));
}

#[tokio::test]
async fn limits_of_sessions_are_not_zero() {
    for limits in [
        SessionLayerConfig {
            max_sessions: 0,
            ..SessionLayerConfig::default()
        },
        SessionLayerConfig {
            max_handshakes: 0,
            ..SessionLayerConfig::default()
        },
    ] {
        let config = Config::udp([LOOPBACK]).encapsulation_port(0).dtls(anyone());
        let error = Endpoint::bind(config.sessions(limits)).err().unwrap();
        assert!(matches!(error, BindError::Config(_)), "{error}");
    }
}

/// The state of a session is internal to its library.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_endpoint_with_dtls_is_not_handed_over() {
    let (_client, server, a, mut b) = pair(Versions::Both).await;
    let error = server.hand_over().await.unwrap_err();
    assert!(matches!(error, carrick::HandOverError::Dtls), "{error}");
    let message = vec![1; SIZE];
    a.send(message, SendOptions::on_stream(0)).await.unwrap();
    assert_eq!(receive(&mut b, SIZE).await, SIZE, "it continues");
}
