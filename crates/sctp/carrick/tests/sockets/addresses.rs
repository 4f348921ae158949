//! Several addresses, both families, and addresses that cannot be bound.

use std::time::Duration;

use carrick::{
    BindError, Config, ConnectError, ConnectOptions, Endpoint, Event, Notification, OperationError,
    PathId,
};

use crate::support::{associate, config, content, endpoint, ip, on, pair, quick, soon, to};

const TWO: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
const OTHER_TWO: [&str; 2] = ["127.0.0.3", "127.0.0.4"];

#[tokio::test]
async fn each_end_knows_all_addresses_of_the_other() {
    let (client, server) = (endpoint(&TWO), endpoint(&OTHER_TWO));
    let (a, b) = associate(&client, &server, &OTHER_TWO[..1]).await;
    assert_eq!(a.control().peer_addresses(), OTHER_TWO.map(ip));
    let mut seen = b.control().peer_addresses().to_vec();
    seen.sort();
    assert_eq!(seen, TWO.map(ip));
    assert_eq!(
        (a.control().peer_port(), b.control().peer_port()),
        (server.port(), client.port())
    );
    assert_eq!(client.local_addresses().await.unwrap(), TWO.map(ip));
}

#[tokio::test]
async fn a_failed_path_is_left_and_reported() {
    let with_timers =
        config(&TWO).association(quick().with(|c| c.paths.hb_interval = Duration::from_secs(30)));
    let client = Endpoint::bind(with_timers.clone()).unwrap();
    let mut other = with_timers;
    other.addresses = OTHER_TWO.map(ip).into();
    let server = Endpoint::bind(other).unwrap();
    let (mut a, mut b) = associate(&client, &server, &OTHER_TWO[..1]).await;
    let mut events = a.take_events().unwrap();
    soon("confirmation", async {
        while events.next().await
            != Some(Notification::Event(Event::PathConfirmed(carrick::PathId(
                1,
            ))))
        {}
    })
    .await;
    // Another socket replaces the server's on the primary address, so that packets to it are lost without
    // an ICMP message.
    server.local_address_removed(ip(OTHER_TWO[0]));
    let port = server.encapsulation_port().unwrap();
    let _hole = soon("the address", async {
        loop {
            match std::net::UdpSocket::bind((OTHER_TWO[0], port)) {
                Ok(socket) => return socket,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    for number in 0..20 {
        a.send(content(number, 10_000), on(0)).await.unwrap();
    }
    for number in 0..20 {
        let message = soon("failover", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 10_000)[..]);
    }
    let failed = soon("notification", async {
        loop {
            match events.next().await {
                Some(Notification::Event(Event::PathFailed(path))) => return path,
                Some(_) => {}
                None => panic!("the association ended"),
            }
        }
    })
    .await;
    assert_eq!(failed, carrick::PathId(0));
    let paths = a.control().paths().await.unwrap();
    assert!(!paths[0].status.active && paths[1].status.active);
}

#[tokio::test]
async fn data_goes_to_the_path_that_is_made_primary() {
    let (client, server) = (endpoint(&TWO), endpoint(&OTHER_TWO));
    let (mut a, mut b) = associate(&client, &server, &OTHER_TWO[..1]).await;
    soon("confirmation", async {
        while a.next_event().await
            != Some(Notification::Event(Event::PathConfirmed(carrick::PathId(
                1,
            ))))
        {}
    })
    .await;
    a.control().set_primary(carrick::PathId(1)).await.unwrap();
    let before = a.control().paths().await.unwrap();
    a.send(content(1, 100_000), on(0)).await.unwrap();
    soon("message", b.recv()).await.unwrap();
    let after = a.control().paths().await.unwrap();
    let sent = |i: usize| after[i].bytes_sent - before[i].bytes_sent;
    assert!(sent(1) > 100_000, "{}", sent(1));
    assert!(sent(0) < 1000, "{}", sent(0));
    assert!(a.control().set_primary(carrick::PathId(9)).await.is_err());
}

#[tokio::test]
async fn an_address_that_is_added_can_be_reached() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    server.local_address_added(ip("127.0.0.9")).await.unwrap();
    let (a, mut b) = associate(&client, &server, &["127.0.0.9"]).await;
    a.send("hello", on(0)).await.unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert!(message.payload == b"hello"[..]);
    let error = server
        .local_address_added(ip("192.0.2.1"))
        .await
        .unwrap_err();
    assert!(matches!(error, BindError::NotLocal(_)), "{error}");
}

#[tokio::test]
async fn ipv6_carries_messages_too() {
    let (client, server) = (endpoint(&["::1"]), endpoint(&["::1"]));
    let (a, mut b) = associate(&client, &server, &["::1"]).await;
    for size in [1, 1400, 100_000] {
        a.send(content(size, size), on(0)).await.unwrap();
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(size, size)[..]);
    }
}

#[tokio::test]
async fn both_families_share_an_association() {
    let both = ["127.0.0.1", "::1"];
    let (client, server) = (endpoint(&both), endpoint(&both));
    let (mut a, _b) = associate(&client, &server, &["::1"]).await;
    let mut seen = a.control().peer_addresses().to_vec();
    seen.sort();
    assert_eq!(seen, both.map(ip));
    soon("confirmation", async {
        loop {
            if let Some(Notification::Event(Event::PathConfirmed(path))) = a.next_event().await {
                assert_eq!(path, carrick::PathId(1));
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_wildcard_is_all_addresses_and_the_port_is_theirs() {
    let endpoint = endpoint(&["0.0.0.0"]);
    let addresses = endpoint.local_addresses().await.unwrap();
    assert!(!addresses.is_empty());
    assert!(addresses.iter().all(|a| a.is_ipv4() && !a.is_unspecified()));
    assert!(endpoint.encapsulation_port().is_some_and(|p| p > 0));
    assert_eq!(endpoint.encapsulation_port(), Some(endpoint.port()));
}

#[tokio::test]
async fn endpoints_of_a_host_have_different_ports() {
    let open: Vec<Endpoint> = (0..200).map(|_| endpoint(&["127.0.0.1"])).collect();
    let mut ports: Vec<u16> = open.iter().map(Endpoint::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), open.len());
}

#[tokio::test]
async fn bind_errors_name_the_cause() {
    let taken = endpoint(&["127.0.0.1"]);
    let port = taken.encapsulation_port().unwrap();
    let error = |config: Config| Endpoint::bind(config).err().unwrap();
    let busy = error(config(&["127.0.0.1"]).encapsulation_port(port));
    assert!(matches!(busy, BindError::PortTaken { port: p, .. } if p == port));
    let foreign = error(config(&["192.0.2.1"]));
    assert_eq!(
        foreign.to_string(),
        "192.0.2.1 is not an address of this host: configure it, or bind to another"
    );
    let mut zero = config(&["127.0.0.1"]);
    zero.backlog = 0;
    assert!(matches!(error(zero), BindError::Config(e) if e.field == "backlog"));
    let mut wrong = config(&["127.0.0.1"]);
    wrong.association.timers.sack_delay = Duration::from_secs(1);
    assert!(error(wrong).to_string().contains("sack_delay"));
}

#[test]
fn binding_needs_a_runtime() {
    let error = || Endpoint::bind(config(&["127.0.0.1"])).err();
    assert!(matches!(error(), Some(BindError::NoRuntime)));
    let mut builders = [(); 3].map(|()| tokio::runtime::Builder::new_current_thread());
    builders[1].enable_io();
    builders[2].enable_time();
    for mut builder in builders {
        let runtime = builder.build().unwrap();
        let error = runtime.block_on(async { error() });
        assert!(matches!(error, Some(BindError::NoRuntime)), "{builder:?}");
    }
}

#[tokio::test]
async fn a_dead_port_refuses_at_once() {
    let client = endpoint(&["127.0.0.1"]);
    // No socket has this UDP port: one had it and is closed.
    let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let options = ConnectOptions::new().encapsulation_port(port);
    let error = soon(
        "refusal",
        client.connect_with((ip("127.0.0.1"), 5000), options),
    )
    .await
    .err()
    .unwrap();
    assert!(
        error.to_string().contains("no SCTP stack answers there"),
        "{error}"
    );
    assert!(client.stats().await.unwrap().protocol.icmp_accepted >= 1);
}

#[tokio::test]
async fn a_silent_peer_ends_the_set_up() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = endpoint(&["127.0.0.1"]);
    let options = ConnectOptions::new()
        .encapsulation_port(silent.local_addr().unwrap().port())
        .association(quick());
    let error = soon(
        "time-out",
        client.connect_with((ip("127.0.0.1"), 5000), options),
    )
    .await
    .err()
    .unwrap();
    assert_eq!(
        error,
        ConnectError::Failed(carrick::CloseReason::SetupTimedOut)
    );
}

#[tokio::test]
async fn a_wrong_sctp_port_is_refused_by_the_peer() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let wrong = server.port() ^ 1;
    let options = to(&server);
    let error = soon(
        "refusal",
        client.connect_with((ip("127.0.0.1"), wrong), options),
    )
    .await
    .err()
    .unwrap();
    assert!(error.to_string().contains("nothing listens"), "{error}");
}

#[tokio::test]
async fn arguments_of_connect_are_checked() {
    let client = endpoint(&["127.0.0.1"]);
    let refused = |peers: Vec<std::net::IpAddr>, port| {
        let client = client.clone();
        async move { client.connect((peers, port)).await.err().unwrap() }
    };
    assert_eq!(refused(vec![], 1).await, ConnectError::NoAddress);
    assert_eq!(
        refused(vec![ip("::1")], 1).await,
        ConnectError::FamilyMismatch
    );
    assert_eq!(
        refused(vec![ip("127.0.0.1")], 0).await,
        ConnectError::InvalidPort
    );
}

/// RFC 7829, section 7.2
#[tokio::test]
async fn failure_thresholds_are_read_and_set() {
    let (client, server) = (endpoint(&TWO), endpoint(&OTHER_TWO));
    let (a, _b) = associate(&client, &server, &OTHER_TWO[..1]).await;
    let control = a.sender();
    let first = Some(carrick::PathId(0));
    let before = control.control().path_thresholds(first).await.unwrap();
    assert_eq!(before.potentially_failed_max_retrans, Some(0));
    let quick = carrick::PathThresholds {
        primary_switchover_max_retrans: Some(0),
        ..before
    };
    control
        .control()
        .set_path_thresholds(first, quick)
        .await
        .unwrap();
    assert_eq!(
        control.control().path_thresholds(first).await.unwrap(),
        quick
    );
    assert_eq!(
        control.control().path_thresholds(None).await.unwrap(),
        before
    );
    control
        .control()
        .set_path_thresholds(None, quick)
        .await
        .unwrap();
    assert_eq!(
        control.control().path_thresholds(None).await.unwrap(),
        quick
    );
    let wrong = carrick::PathThresholds {
        potentially_failed_max_retrans: Some(3),
        ..quick
    };
    assert!(
        control
            .control()
            .set_path_thresholds(None, wrong)
            .await
            .is_err()
    );
    let unknown = Some(carrick::PathId(9));
    assert!(control.control().path_thresholds(unknown).await.is_err());
    control
        .control()
        .set_expose_potentially_failed(false)
        .await
        .unwrap();
    assert!(
        !a.control().paths().await.unwrap()[0]
            .status
            .potentially_failed
    );
}

/// RFC 6951, section 6.1
#[tokio::test]
async fn the_udp_port_of_an_accepted_peer_is_set() {
    let (client, _server, mut a, b) = pair().await;
    b.send("settled", on(0)).await.unwrap();
    soon("message", a.recv()).await.unwrap().unwrap();
    soon("acknowledgement", b.flushed()).await.unwrap();
    let (path, way) = (PathId(0), client.encapsulation_port());
    assert_eq!(b.control().paths().await.unwrap()[0].encapsulation, way);
    let other = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port();
    let half = b.sender();
    half.control()
        .set_encapsulation(path, Some(port))
        .await
        .unwrap();
    assert_eq!(
        b.control().paths().await.unwrap()[0].encapsulation,
        Some(port)
    );
    b.send("elsewhere", on(0)).await.unwrap();
    let mut packet = [0; 2000];
    let length = soon("packet", other.recv(&mut packet)).await.unwrap();
    assert_eq!(packet[2..4], client.port().to_be_bytes(), "{length} bytes");
    // The peer's packets have its real port.
    a.send("here", on(0)).await.unwrap();
    let message = soon("message", a.recv()).await.unwrap().unwrap();
    assert_eq!(message.payload.into_bytes(), "elsewhere");
    assert_eq!(b.control().paths().await.unwrap()[0].encapsulation, way);
    assert_eq!(
        half.control().set_encapsulation(path, Some(0)).await,
        Err(OperationError::InvalidPort)
    );
    assert_eq!(
        half.control()
            .set_encapsulation(PathId(9), Some(port))
            .await,
        Err(OperationError::UnknownPath)
    );
    assert_eq!(
        half.control().set_encapsulation(path, None).await,
        Err(OperationError::NotPlainIp)
    );
}

/// RFC 9260, section 1.3
#[tokio::test]
async fn two_connects_to_one_peer_make_one_association() {
    let (client, server) = (endpoint(&TWO), endpoint(&OTHER_TWO));
    let connect = |address: &'static str| {
        let peers = [ip(address)];
        let (client, options, port) = (client.clone(), to(&server), server.port());
        async move { client.connect_with((&peers, port), options).await }
    };
    let both = async { tokio::join!(connect(OTHER_TWO[0]), connect(OTHER_TWO[1])) };
    let (first, second) = soon("set-ups", both).await;
    let (association, error) = match (first, second) {
        (Ok(association), Err(error)) | (Err(error), Ok(association)) => (association, error),
        (Ok(_), Ok(_)) => panic!("two associations with one peer"),
        (Err(first), Err(second)) => panic!("{first}; {second}"),
    };
    assert_eq!(error, ConnectError::AlreadyConnected);
    let mut accepted = soon("accept", server.accept()).await.unwrap().accept();
    association.send("hello", on(0)).await.unwrap();
    let message = soon("message", accepted.recv()).await.unwrap().unwrap();
    assert_eq!(&message.payload.into_bytes()[..], b"hello");
}
