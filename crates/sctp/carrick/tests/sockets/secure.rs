//! The DTLS chunk on real sockets, over loopback, with two paths.

use std::net::{IpAddr, Ipv4Addr};

use carrick::dtls::Certificate;
use carrick::dtls_chunk::{DtlsProtection, Identity, Trust};
use carrick::{
    Association, Config, ConnectError, ConnectOptions, Endpoint, OperationError, SendOptions,
};

const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
];

fn config() -> Config {
    Config::udp(ADDRESSES).encapsulation_port(0)
}

fn secure(own: &Certificate, peer: &Certificate) -> Endpoint {
    let identity = Identity::try_from(own.clone()).unwrap();
    let trust = Trust::fingerprint(peer.fingerprint());
    Endpoint::bind(config().secure(identity, trust).unwrap()).expect("loopback")
}

fn certificates() -> [Certificate; 2] {
    [(), ()].map(|()| Certificate::generate().unwrap())
}

async fn connect(client: &Endpoint, server: &Endpoint) -> Result<Association, ConnectError> {
    let udp = server.encapsulation_port().expect("UDP");
    let options = ConnectOptions::new().encapsulation_port(udp);
    client
        .connect_with((&ADDRESSES, server.port()), options)
        .await
}

async fn pair() -> (Endpoint, Endpoint, Association, Association) {
    let [ours, theirs] = certificates();
    let (client, server) = (secure(&ours, &theirs), secure(&theirs, &ours));
    let (connected, accepted) = tokio::join!(connect(&client, &server), server.accept());
    let accepted = accepted.expect("accepted").accept();
    (client, server, connected.expect("connected"), accepted)
}

/// New keys each few messages, while data is in flight in both directions.
#[tokio::test]
async fn keys_are_renewed_under_load_in_both_directions() {
    const COUNT: u32 = 3000;
    let (_client, _server, a, b) = pair().await;
    let controls = [a.control().clone(), b.control().clone()];
    let renewed = async {
        let mut begun = 0;
        while begun < 40 {
            for control in &controls {
                begun += u32::from(control.renew_keys().await.expect("secure"));
            }
            tokio::task::yield_now().await;
        }
    };
    let run = |association: Association| async move {
        let (sender, mut receiver) = association.split();
        let send = async {
            for n in 0..COUNT {
                let message = [&n.to_be_bytes()[..], &[7; 1000]].concat();
                sender
                    .send(message, SendOptions::default())
                    .await
                    .expect("sent");
            }
        };
        let receive = async {
            for n in 0..COUNT {
                let message = receiver.recv().await.expect("no end").expect("a message");
                assert_eq!(message.payload.into_bytes()[..4], n.to_be_bytes());
            }
        };
        tokio::join!(send, receive);
        (sender, receiver)
    };
    let ((), a, b) = tokio::join!(renewed, run(a), run(b));
    let control = controls[0].clone();
    let epoch = control
        .with_protection(|chunk: &mut DtlsProtection| chunk.epoch())
        .await
        .expect("secure");
    assert!(epoch >= Some(20), "{epoch:?}");
    for control in &controls {
        let stats = control.stats().await.unwrap();
        let protection = stats.protection.expect("in force");
        // Packets of the set-up may be in the clear when the other side has keys already.
        assert_eq!(protection.forged, 0, "no packet was lost by new keys");
        assert!(protection.sealed > u64::from(COUNT) / 2);
    }
    drop((a, b));
}

#[tokio::test]
async fn an_untrusted_peer_is_named_at_once() {
    let [ours, theirs] = certificates();
    let [_, stranger] = certificates();
    let (client, server) = (secure(&stranger, &theirs), secure(&theirs, &ours));
    let error = connect(&client, &server).await.expect_err("not trusted");
    let text = error.to_string();
    assert!(text.contains(&stranger.fingerprint().to_string()), "{text}");
    assert!(text.contains("is not trusted"), "{text}");
    // The server continues to serve others.
    let friend = secure(&ours, &theirs);
    let (connected, accepted) = tokio::join!(connect(&friend, &server), server.accept());
    connected.expect("trusted");
    accepted.expect("accepted").accept();
}

#[tokio::test]
async fn peers_in_the_clear_are_refused() {
    let [ours, theirs] = certificates();
    let plain = Endpoint::bind(config()).unwrap();
    let server = secure(&theirs, &ours);
    for (client, server) in [(&plain, &server), (&secure(&ours, &theirs), &plain)] {
        let error = connect(client, server)
            .await
            .expect_err("one side is in the clear");
        let text = error.to_string();
        assert!(text.contains("missing DTLS chunk support"), "{text}");
    }
}

#[tokio::test]
async fn restart_keys_and_new_keys_need_the_chunk() {
    let (_client, _server, a, b) = pair().await;
    let keys = a.control().restart_keys().await.expect("secure");
    assert!(keys.is_some());
    let (one, other) = (
        Endpoint::bind(config()).unwrap(),
        Endpoint::bind(config()).unwrap(),
    );
    let (connected, accepted) = tokio::join!(connect(&one, &other), other.accept());
    let refused = connected.unwrap().control().renew_keys().await;
    assert!(matches!(refused, Err(OperationError::NoProtection)));
    drop((a, b, accepted));
}
