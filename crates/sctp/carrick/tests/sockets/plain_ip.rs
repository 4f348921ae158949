//! SCTP directly on IP, if this process has the privilege.

use std::net::IpAddr;

use carrick::network::{Network, NetworkConfig};
use carrick::{
    AbortCause, BindError, CloseReason, Config, ConnectError, ConnectOptions, Endpoint, Transport,
};

use crate::support::{associate, ip, on, soon};

#[tokio::test]
async fn plain_ip_carries_messages_in_both_families() {
    for address in ["127.0.0.1", "::1"] {
        let bind = || Endpoint::bind(Config::raw([ip(address)]));
        let (client, server) = match (bind(), bind()) {
            (Ok(client), Ok(server)) => (client, server),
            // Without CAP_NET_RAW only the error can be tested.
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

/// Returns a loopback address that no other test in this network namespace uses.
fn own_address(number: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    [127, 64 + number, high, low].into()
}

fn bind(address: &str, port: u16) -> Option<Result<Endpoint, BindError>> {
    match Endpoint::bind(Config::raw([ip(address)]).port(port)) {
        // Without CAP_NET_RAW the test does nothing.
        Err(BindError::Privilege(_)) => None,
        bound => Some(bound),
    }
}

/// RFC 9260, section 1.3: an SCTP port with an address is of one endpoint.
#[tokio::test]
async fn a_second_endpoint_on_plain_ip_is_refused() {
    let (one, two) = (own_address(0), own_address(1));
    let Some(first) = bind(&one.to_string(), 5000) else {
        return;
    };
    let first = first.unwrap();
    let refused = |config: Config| match Endpoint::bind(config.port(5000)) {
        Err(BindError::SctpPortTaken { address, port, .. }) => (address, port) == (one, 5000),
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    };
    let in_udp = |addresses: &[IpAddr]| Config::udp(addresses.to_vec()).encapsulation_port(0);
    assert!(refused(Config::raw([one])));
    assert!(refused(Config::raw([two, one])));
    assert!(refused(in_udp(&[one]).and_plain_ip()));
    // Another address, another port, and UDP alone are free.
    let others = [
        Config::raw([two]).port(5000),
        Config::raw([one]).port(5001),
        in_udp(&[one]).port(5000),
    ];
    let others: Vec<Endpoint> = others
        .into_iter()
        .map(|other| Endpoint::bind(other).unwrap())
        .collect();
    // An address that is added later is refused as well, and a removed one becomes free.
    let error = others[0].local_address_added(one).await.unwrap_err();
    assert!(matches!(error, BindError::SctpPortTaken { .. }), "{error}");
    assert!(first.close().await.is_empty());
    others[0].local_address_added(one).await.unwrap();
    assert!(refused(Config::raw([one])));
    others[0].local_address_removed(one);
    // The removal is complete when a later command is.
    others[0].associations().await.unwrap();
    assert!(!refused(Config::raw([one])));
}

/// A wildcard overlaps with each address of the host.
#[tokio::test]
async fn a_wildcard_overlaps_on_plain_ip() {
    // A port that depends on the process, because the addresses are those of the whole host.
    let port = 20_000 + std::process::id() as u16 % 20_000;
    let Some(first) = bind("0.0.0.0", port) else {
        return;
    };
    let first = first.unwrap();
    for second in ["127.0.0.1", "0.0.0.0"] {
        let error = bind(second, port).unwrap().err().unwrap();
        assert!(matches!(error, BindError::SctpPortTaken { .. }), "{error}");
    }
    assert!(first.close().await.is_empty());
    let first = bind("127.0.0.1", port).unwrap().unwrap();
    let error = bind("0.0.0.0", port).unwrap().err().unwrap();
    assert!(matches!(error, BindError::SctpPortTaken { .. }), "{error}");
    assert!(first.close().await.is_empty());
}

/// RFC 9260, section 8.4: an INIT for a port without an endpoint is answered with an ABORT, so that the
/// set-up fails at once.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_without_listener_is_refused_on_plain_ip() {
    let (here, there) = (own_address(2), own_address(3));
    let Some(server) = bind(&there.to_string(), 5000) else {
        return;
    };
    let (server, second) = (server.unwrap(), bind(&there.to_string(), 5002).unwrap());
    let second = second.unwrap();
    let client = bind(&here.to_string(), 5003).unwrap().unwrap();
    let connect = |port| {
        let client = client.clone();
        async move {
            let peers = [there];
            let connect = client.connect((&peers, port));
            soon("answer", connect).await.map(drop)
        }
    };
    let kernel_has_sctp = std::path::Path::new("/proc/net/sctp").exists();
    if !kernel_has_sctp {
        let error = connect(5001).await.unwrap_err();
        let refused = ConnectError::Failed(CloseReason::AbortedByPeer(AbortCause::NONE));
        assert_eq!(error, refused);
        assert!(error.to_string().contains("nothing listens"), "{error}");
        assert_eq!(server.stats().await.unwrap().protocol.inits_refused, 1);
        assert_eq!(second.stats().await.unwrap().protocol.inits_refused, 0);
    }
    // Ports with an endpoint are not affected, whichever endpoint has the lower port.
    connect(5000).await.unwrap();
    connect(5002).await.unwrap();
}

/// RFC 6951, section 5.4
#[tokio::test]
async fn a_listener_accepts_udp_and_plain_ip() {
    let address = ip("127.0.0.1");
    let udp = || Config::udp([address]).encapsulation_port(0);
    let server = match Endpoint::bind(udp().and_plain_ip()) {
        Ok(server) => server,
        // Without CAP_NET_RAW only the error can be tested.
        Err(error) => {
            assert!(matches!(error, BindError::Privilege(_)), "{error}");
            return;
        }
    };
    let port = server.encapsulation_port().unwrap();
    let to = ConnectOptions::new();
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
        let connect = client.connect_with((&peers, server.port()), options);
        let (a, b) = soon("set-up", async { tokio::join!(connect, server.accept()) }).await;
        let (a, mut b) = (a.unwrap(), b.unwrap().accept());
        soon("sending", a.send("hello", on(0))).await.unwrap();
        let message = soon("receiving", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == b"hello"[..]);
        assert_eq!(a.control().paths().await.unwrap()[0].encapsulation, way);
        let back = way.and(client.encapsulation_port());
        assert_eq!(b.control().paths().await.unwrap()[0].encapsulation, back);
    }
    let only = Endpoint::bind(udp()).unwrap();
    let refused = only
        .connect_with((address, server.port()), to.plain_ip(address))
        .await
        .err();
    assert_eq!(refused, Some(ConnectError::NotPlainIp));
}

/// A program that has all ports of an address, and endpoints there, exclude each other.
#[tokio::test]
async fn all_ports_of_an_address_belong_to_one_program() {
    let (one, two) = (own_address(4), own_address(5));
    let all = |addresses: &[IpAddr]| {
        let mut config = NetworkConfig::new(Transport::Raw);
        config.addresses = addresses.to_vec();
        Network::bind(config)
    };
    let Some(endpoint) = bind(&one.to_string(), 5000) else {
        return;
    };
    let endpoint = endpoint.unwrap();
    let error = all(&[two, one]).unwrap_err();
    let found =
        matches!(error, BindError::SctpPortTaken { address, port: 5000, .. } if address == one);
    assert!(found, "{error}");
    let network = all(&[two]).unwrap();
    let refused = |error: BindError| {
        let found = matches!(error, BindError::SctpTaken { address, .. } if address == two);
        assert!(found, "{error}");
    };
    refused(all(&[two]).unwrap_err());
    refused(bind(&two.to_string(), 0).unwrap().err().unwrap());
    refused(endpoint.local_address_added(two).await.unwrap_err());
    drop(network);
    endpoint.local_address_added(two).await.unwrap();
}

/// The claim of the port passes from the predecessor over the handover to the successor.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_endpoint_on_plain_ip_is_handed_over() {
    let address = own_address(6).to_string();
    let Some(server) = bind(&address, 5000) else {
        return;
    };
    let (mut server, client) = (server.unwrap(), bind(&address, 5001).unwrap().unwrap());
    let (a, mut b) = associate(&client, &server, &[&address]).await;
    for number in 0..3_u8 {
        let handover = soon("handover", server.hand_over()).await.unwrap();
        // It waits in the receive buffer of the socket.
        a.send(vec![number], on(0)).await.unwrap();
        let taken = bind(&address, 5000).unwrap().unwrap_err();
        assert!(matches!(taken, BindError::SctpPortTaken { .. }), "{taken}");
        let config = Config::raw([ip(&address)]);
        let (successor, mut associations) = Endpoint::resume(config, &handover).unwrap();
        (server, b) = (successor, associations.pop().unwrap());
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == [number][..]);
    }
    soon("shutdown", a.shutdown()).await.unwrap();
    drop(b);
    assert!(soon("close", server.close()).await.is_empty());
    bind(&address, 5000).unwrap().expect("the port is free");
}
