use std::time::Duration;

use carrick_simco::client::{Client, ClientConfig, ClientEvent, RequestError, Target};
use carrick_simco::daemon::{Daemon, Settings, State};
use carrick_simco::message::{
    HEADER_LEN, Lifetime, NatMode, Parity, PolicyRuleId, PrrParameters, Reply, ReserveRequest,
};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{self, Loses};
use crate::support::{
    ALL, Box3, Folder, Transport, backend, block, config, pinhole, soon, target, text,
};

#[tokio::test]
async fn a_held_rule_outlives_its_lifetime_and_others_do_not() {
    let middlebox = Box3::start("").await;
    let client = middlebox.client(Transport::Sctp, "alice").await;
    let held = client.enable(pinhole(1, 1)).await.unwrap();
    let dropped = client.enable(pinhole(2, 1)).await.unwrap();
    let once = client.enable_once(pinhole(3, 1)).await.unwrap();
    assert_eq!(
        client.list().await.unwrap(),
        [held.id(), dropped.id(), once.rule]
    );
    drop(dropped);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(client.list().await.unwrap(), [held.id()]);
    held.close().await.unwrap();
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_restarted_middlebox_gets_all_held_rules_again() {
    for transport in ALL {
        let folder = Folder::new();
        let settings = Settings::parse(&text(&folder, "")).unwrap();
        let daemon = Daemon::start(&settings, backend(), State::none())
            .await
            .unwrap();
        let bound = daemon.bound().clone();
        let root = folder.file("cert.pem");
        let to = target(&bound, &root, transport);
        let client = soon("connect", Client::connect(config(to, "alice")))
            .await
            .unwrap();
        let mut held = Vec::new();
        for number in 0..20 {
            held.push(client.enable(pinhole(number, 100)).await.unwrap());
        }
        let blocked = client
            .request(carrick_simco::message::Request::Disable(block(9, 9)))
            .await;
        assert!(
            matches!(blocked, Err(RequestError::Refused(_))),
            "alice may not"
        );
        // The second one has other identifiers for the same rules.
        held.swap_remove(0).close().await.unwrap();
        let mut events = client.events();
        daemon.stop().await.unwrap();
        let mut again = settings.clone();
        let sctp = again.listen.sctp.as_mut().unwrap();
        (sctp.port, sctp.udp_port) = bound.sctp.unwrap();
        again.listen.tcp = bound.tcp.clone();
        again.listen.tls.as_mut().unwrap().addresses = bound.tls.clone();
        let daemon = soon("start", async {
            loop {
                match Daemon::start(&again, backend(), State::none()).await {
                    Ok(daemon) => break daemon,
                    // The sockets of the first are not closed yet.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await;
        let mut renewed = 0;
        while renewed < 19 {
            match soon("renewal", events.next()).await.unwrap() {
                ClientEvent::Renewed { .. } => renewed += 1,
                ClientEvent::Ended { rule, refused } => panic!("{rule} {refused:?}"),
                _ => {}
            }
        }
        let mut there = client.list().await.unwrap();
        let mut known: Vec<PolicyRuleId> = held.iter().map(|rule| rule.id()).collect();
        there.sort_unstable();
        known.sort_unstable();
        assert_eq!(there, known, "{transport:?}");
        for rule in &held {
            let status = client.status(rule.id()).await.unwrap();
            assert!(matches!(status, Reply::EnableStatus(_)));
        }
        drop(daemon);
    }
}

#[tokio::test]
async fn a_held_rule_is_lost_when_somebody_ends_it_or_nobody_refreshes_it() {
    let middlebox = Box3::start("").await;
    let client = middlebox.client(Transport::Tcp, "alice").await;
    let short = client.enable(pinhole(1, 1)).await.unwrap();
    let long = client.enable(pinhole(2, 100)).await.unwrap();
    // Refreshed, it lives on.
    let refreshed = tokio::time::timeout(Duration::from_millis(2500), short.lost()).await;
    assert!(refreshed.is_err());
    // A notification tells of the end of a rule that this session did not end.
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    noc.extend(long.id(), Lifetime(0)).await.unwrap();
    soon("ended", long.lost()).await;
    assert!(!long.is_held());
    middlebox.daemon.stop().await.unwrap();
    soon("its life is over", short.lost()).await;
    assert!(short.is_held(), "and asked for again as soon as that goes");
}

/// Passes octets on until told to break all connections.
async fn proxy(to: u16, mut breaks: tokio::sync::mpsc::Receiver<()>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = breaks.recv() => {}
            }
        }
    });
    port
}

#[tokio::test]
async fn a_lost_connection_costs_no_rule_and_makes_none() {
    let middlebox = Box3::start("").await;
    let (cut, cuts) = tokio::sync::mpsc::channel(1);
    let port = proxy(middlebox.daemon.bound().tcp[0].port(), cuts).await;
    let client = config(Target::tcp("127.0.0.1", port), "alice");
    let client = soon("connect", Client::connect(client)).await.unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(client.enable(pinhole(number, 100)).await.unwrap());
    }
    let before: Vec<_> = held.iter().map(|rule| rule.id()).collect();
    for _ in 0..3 {
        let mut events = client.events();
        cut.send(()).await.unwrap();
        while !matches!(
            soon("again", events.next()).await,
            Some(ClientEvent::Opened(_))
        ) {}
        assert_eq!(soon("list", client.list()).await.unwrap(), before);
    }
    let after: Vec<_> = held.iter().map(|rule| rule.id()).collect();
    assert_eq!(after, before);
}

async fn impatient(loses: Loses) -> Client {
    let address = fake::start(loses).await;
    impatient_with(address).await
}

async fn impatient_with(address: std::net::SocketAddr) -> Client {
    let mut config = ClientConfig::new(Target::tcp("127.0.0.1", address.port()));
    config.settings.timeout = Duration::from_millis(200);
    config.first_pause = Duration::from_millis(20);
    Client::connect(config).await.unwrap()
}

#[tokio::test]
async fn a_rule_whose_reply_is_lost_is_found_by_asking() {
    let client = impatient(Loses::Reply(0x12)).await;
    let rule = soon("PER", client.enable(pinhole(1, 100))).await.unwrap();
    assert_eq!(client.list().await.unwrap(), [rule.id()]);
    assert_eq!(client.held(), 1);
}

#[tokio::test]
async fn a_request_that_was_lost_is_told_as_not_done() {
    let client = impatient(Loses::Request(0x12)).await;
    let other = client.enable_once(pinhole(2, 100));
    let refused = soon("PER", other).await;
    assert_eq!(refused.err(), Some(RequestError::NotDone));
    assert_eq!(client.list().await.unwrap(), []);
    assert!(client.enable_once(pinhole(2, 100)).await.is_ok());
}

#[tokio::test]
async fn the_outcome_of_a_lifetime_change_without_a_reply_is_asked_for() {
    for (loses, expected) in [(Loses::Reply(0x15), 500), (Loses::Request(0x15), 100)] {
        let client = impatient(loses).await;
        let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
        let changed = soon("PLC", client.extend(rule, Lifetime(500)))
            .await
            .unwrap();
        assert_eq!(changed, Lifetime(expected), "{loses:?}");
    }
    let client = impatient(Loses::Reply(0x16)).await;
    let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    assert_eq!(
        soon("PLC", client.extend(rule, Lifetime(0))).await,
        Ok(Lifetime(0))
    );
    let client = impatient(Loses::Request(0x15)).await;
    let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let kept = soon("PLC", client.extend(rule, Lifetime(0))).await;
    assert_eq!(kept, Err(RequestError::NotDone));
}

#[tokio::test]
async fn a_rule_whose_session_was_lost_before_the_reply_is_taken_up_in_the_next() {
    for loses in [
        Loses::RequestAndConnection(0x12),
        Loses::ReplyAndConnection(0x12),
    ] {
        let client = impatient(loses).await;
        let asked = soon("PER", client.enable(pinhole(1, 100))).await;
        let rule = asked.unwrap_or_else(|error| panic!("{loses:?}: {error}"));
        assert_eq!(client.list().await.unwrap(), [rule.id()], "{loses:?}");
        assert_eq!(client.held(), 1);
    }
    // Of two that want the same, each has a rule of its own.
    let client = impatient(Loses::ReplyAndConnection(0x12)).await;
    let (one, other) = tokio::join!(
        client.enable(pinhole(1, 100)),
        client.enable(pinhole(1, 100))
    );
    let mut ids = [one.unwrap(), other.unwrap()].map(|rule| {
        let id = rule.id();
        // It stays, without a holder.
        drop(rule);
        id
    });
    ids.sort_unstable();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(client.list().await.unwrap(), ids);
}

#[tokio::test]
async fn a_rule_is_ended_also_when_the_session_is_lost_meanwhile() {
    for loses in [
        Loses::RequestAndConnection(0x15),
        Loses::ReplyAndConnection(0x16),
    ] {
        let client = impatient(loses).await;
        let rule = client.enable(pinhole(1, 100)).await.unwrap();
        let ended = soon("PLC", rule.close()).await;
        assert_eq!(ended, Ok(()), "{loses:?}");
        assert_eq!(client.list().await.unwrap(), [], "{loses:?}");
    }
}

#[tokio::test]
async fn a_reservation_is_held_whatever_becomes_of_the_request_to_enable_it() {
    let reserve = ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity: Parity::Any,
            inside: None,
            outside: None,
            protocol: 17,
            ports: 1,
        },
        lifetime: Lifetime(100),
        group: None,
    };
    for (loses, expected) in [
        (Loses::Request(0x13), Err(RequestError::NotDone)),
        (
            Loses::RequestAndConnection(0x13),
            Err(RequestError::NotDone),
        ),
        (Loses::Reply(0x12), Ok(())),
        (Loses::ReplyAndConnection(0x12), Ok(())),
    ] {
        let client = impatient(loses).await;
        let held = client.reserve(reserve).await.unwrap();
        let id = held.id();
        let enabled = soon("PEA", held.enable(pinhole(1, 100))).await;
        assert_eq!(enabled, expected, "{loses:?}");
        assert_eq!(client.list().await.unwrap(), [id], "{loses:?}");
        let status = client.status(id).await.unwrap();
        let is_open = matches!(status, Reply::EnableStatus(_));
        assert_eq!(is_open, expected.is_ok(), "{loses:?}: {status:?}");
        assert!(held.is_held());
    }
}

#[tokio::test]
async fn a_question_that_is_refused_does_not_count_as_the_requests_refusal_8_7() {
    let address = fake::start_with(Loses::Reply(0x12), HEADER_LEN).await;
    let client = impatient_with(address).await;
    let unknown = soon("PER", client.enable(pinhole(1, 100))).await;
    assert_eq!(unknown.err(), Some(RequestError::Unanswered));
}

#[tokio::test]
async fn a_rule_that_nobody_waited_for_is_closed_again() {
    let middlebox = Box3::start("").await;
    let client = middlebox.client(Transport::Tcp, "bob").await;
    for number in 0..200 {
        // Given up at different moments on the way.
        let patience = Duration::from_micros(5 * u64::from(number));
        let asked = tokio::time::timeout(patience, client.enable(pinhole(number, 100))).await;
        if let Ok(rule) = asked {
            rule.unwrap().close().await.unwrap();
        }
    }
    soon("no rule is left", async {
        while !client.list().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
