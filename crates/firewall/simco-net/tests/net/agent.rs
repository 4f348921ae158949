use std::time::Duration;

use carrick_simco::message::{
    HEADER_LEN, Header, Lifetime, MAX_MESSAGE, NatMode, Parity, PolicyRuleId, PrrParameters, Reply,
    Request, ReserveRequest, TransactionId,
};
use carrick_simco_net::client::{Client, ClientConfig, ClientEvent, ConnectTarget, RequestError};
use carrick_simco_net::daemon::{Daemon, DaemonSettings, StoredState};
use tokio::net::{TcpListener, TcpStream};

use crate::lossy_middlebox::{self, Loss};
use crate::support::{
    ALL, TestFolder, TestMiddlebox, Transport, backend, block, config, in_time, pinhole, target,
    text,
};

#[tokio::test]
async fn held_rule_outlives_its_lifetime() {
    let middlebox = TestMiddlebox::start("").await;
    let client = middlebox.client(Transport::Sctp, "alice").await;
    let mut events = client.events();
    let held = client.enable(pinhole(1, 10)).await.unwrap();
    let dropped = client.enable(pinhole(2, 10)).await.unwrap();
    let once = client.enable_once(pinhole(3, 10)).await.unwrap();
    let mut others = vec![dropped.id(), once.rule];
    drop(dropped);
    in_time("their ends", async {
        while !others.is_empty() {
            if let Some(ClientEvent::Rule { rule, lifetime }) = events.next().await {
                assert_eq!(lifetime, Lifetime(0));
                others.retain(|other| *other != rule);
            }
        }
    })
    .await;
    assert_eq!(client.list().await.unwrap(), [held.id()]);
    held.close().await.unwrap();
    assert_eq!(client.list().await.unwrap(), []);
}

#[tokio::test]
async fn held_rules_are_restored_after_a_restart() {
    for transport in ALL {
        let folder = TestFolder::new();
        let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
        let daemon = Daemon::start(&settings, backend(), StoredState::none())
            .await
            .unwrap();
        let bound = daemon.bound().clone();
        let root = folder.file("cert.pem");
        let to = target(&bound, &root, transport);
        let client = in_time("connect", Client::connect(config(to, "alice")))
            .await
            .unwrap();
        let mut held = Vec::new();
        for number in 0..20 {
            held.push(client.enable(pinhole(number, 100)).await.unwrap());
        }
        let blocked = client.request(Request::Disable(block(9, 9))).await;
        assert!(
            matches!(blocked, Err(RequestError::Refused(_))),
            "alice is not authorized"
        );
        // The restarted middlebox has other identifiers for the same rules.
        held.swap_remove(0).close().await.unwrap();
        let mut events = client.events();
        daemon.stop().await.unwrap();
        let mut again = settings.clone();
        let sctp = again.listen.sctp.as_mut().unwrap();
        (sctp.port, sctp.udp_port) = bound.sctp.unwrap();
        again.listen.tcp = bound.tcp.clone();
        again.listen.tls.as_mut().unwrap().addresses = bound.tls.clone();
        let daemon = in_time("start", async {
            loop {
                match Daemon::start(&again, backend(), StoredState::none()).await {
                    Ok(daemon) => break daemon,
                    // The sockets of the first middlebox are not closed yet.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await;
        let mut renewed = 0;
        while renewed < 19 {
            match in_time("renewal", events.next()).await.unwrap() {
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
async fn held_rule_is_lost_when_ended_or_not_refreshed() {
    let middlebox = TestMiddlebox::start("").await;
    let client = middlebox.client(Transport::Tcp, "alice").await;
    let short = client.enable(pinhole(1, 10)).await.unwrap();
    let long = client.enable(pinhole(2, 100)).await.unwrap();
    // The refreshed rule stays.
    let refreshed = tokio::time::timeout(Duration::from_secs(12), short.lost()).await;
    assert!(refreshed.is_err());
    // A notification reports the end of a rule that another session ended.
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    noc.extend(long.id(), Lifetime(0)).await.unwrap();
    in_time("ended", long.lost()).await;
    assert!(!long.is_held());
    middlebox.daemon.stop().await.unwrap();
    in_time("its lifetime is over", short.lost()).await;
    assert!(short.is_held(), "it is held and will be requested again");
}

/// Forwards octets until a message on `breaks` ends all connections.
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
async fn lost_connection_neither_loses_nor_adds_rules() {
    let middlebox = TestMiddlebox::start("").await;
    let (cut, cuts) = tokio::sync::mpsc::channel(1);
    let port = proxy(middlebox.daemon.bound().tcp[0].port(), cuts).await;
    let client = config(ConnectTarget::tcp("127.0.0.1", port), "alice");
    let client = in_time("connect", Client::connect(client)).await.unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(client.enable(pinhole(number, 100)).await.unwrap());
    }
    let before: Vec<_> = held.iter().map(|rule| rule.id()).collect();
    for _ in 0..3 {
        let mut events = client.events();
        cut.send(()).await.unwrap();
        while !matches!(
            in_time("again", events.next()).await,
            Some(ClientEvent::Opened(_))
        ) {}
        assert_eq!(in_time("list", client.list()).await.unwrap(), before);
    }
    let after: Vec<_> = held.iter().map(|rule| rule.id()).collect();
    assert_eq!(after, before);
}

async fn client_of_lossy(loss: Loss) -> Client {
    let address = lossy_middlebox::start(loss).await;
    client_with_short_timeout(address).await
}

async fn client_with_short_timeout(address: std::net::SocketAddr) -> Client {
    let mut config = ClientConfig::new(ConnectTarget::tcp("127.0.0.1", address.port()));
    config.settings.timeout = Duration::from_secs(2);
    config.first_pause = Duration::from_millis(20);
    Client::connect(config).await.unwrap()
}

#[tokio::test]
async fn rule_with_lost_reply_is_found_by_queries() {
    let client = client_of_lossy(Loss::Reply(0x12)).await;
    let rule = in_time("PER", client.enable(pinhole(1, 100)))
        .await
        .unwrap();
    assert_eq!(client.list().await.unwrap(), [rule.id()]);
    assert_eq!(client.held(), 1);
}

#[tokio::test]
async fn lost_request_is_reported_as_not_done() {
    let client = client_of_lossy(Loss::Request(0x12)).await;
    let other = client.enable_once(pinhole(2, 100));
    let refused = in_time("PER", other).await;
    assert_eq!(refused.err(), Some(RequestError::NotDone));
    assert_eq!(client.list().await.unwrap(), []);
    assert!(client.enable_once(pinhole(2, 100)).await.is_ok());
}

#[tokio::test]
async fn outcome_of_an_unanswered_plc_is_queried() {
    for (loss, expected) in [(Loss::Reply(0x15), 500), (Loss::Request(0x15), 100)] {
        let client = client_of_lossy(loss).await;
        let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
        let changed = in_time("PLC", client.extend(rule, Lifetime(500)))
            .await
            .unwrap();
        // Remaining lifetime at the time of the query.
        let Lifetime(left) = changed;
        assert!(
            (expected - 50..=expected).contains(&left),
            "{loss:?}: {left}"
        );
    }
    let client = client_of_lossy(Loss::Reply(0x16)).await;
    let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    assert_eq!(
        in_time("PLC", client.extend(rule, Lifetime(0))).await,
        Ok(Lifetime(0))
    );
    let client = client_of_lossy(Loss::Request(0x15)).await;
    let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    let kept = in_time("PLC", client.extend(rule, Lifetime(0))).await;
    assert_eq!(kept, Err(RequestError::NotDone));
}

#[tokio::test]
async fn rule_is_found_in_the_next_session() {
    for loss in [
        Loss::RequestAndConnection(0x12),
        Loss::ReplyAndConnection(0x12),
    ] {
        let client = client_of_lossy(loss).await;
        let asked = in_time("PER", client.enable(pinhole(1, 100))).await;
        let rule = asked.unwrap_or_else(|error| panic!("{loss:?}: {error}"));
        assert_eq!(client.list().await.unwrap(), [rule.id()], "{loss:?}");
        assert_eq!(client.held(), 1);
    }
    // Two requests for the same pinhole result in two rules.
    let client = client_of_lossy(Loss::ReplyAndConnection(0x12)).await;
    let (one, other) = tokio::join!(
        client.enable(pinhole(1, 100)),
        client.enable(pinhole(1, 100))
    );
    let mut ids = [one.unwrap(), other.unwrap()].map(|rule| {
        let id = rule.id();
        // The rule stays although nothing holds it.
        drop(rule);
        id
    });
    ids.sort_unstable();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(client.list().await.unwrap(), ids);
}

#[tokio::test]
async fn lost_requests_share_one_listing() {
    const REQUESTS: u16 = 100;
    let loss = Loss::ReplyAndConnection(0x12);
    let (address, counts) = lossy_middlebox::start_counting(loss, 0, MAX_MESSAGE).await;
    let client = client_with_short_timeout(address).await;
    let asking = (0..REQUESTS).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.enable(pinhole(number, 100)).await })
    });
    let asking: Vec<_> = asking.collect();
    let mut rules = Vec::new();
    for asked in asking {
        rules.push(in_time("PER", asked).await.unwrap().unwrap());
    }
    let count = |kind: Request| {
        let sub_type = Header::parse(&kind.to_bytes(TransactionId(1)));
        let sub_type = sub_type.unwrap().sub_type;
        counts.lock().unwrap().get(&sub_type).copied().unwrap_or(0)
    };
    let asked = (
        count(Request::List),
        count(Request::Status(PolicyRuleId(1))),
    );
    assert!(
        asked.0 == 1 && (1..=usize::from(REQUESTS)).contains(&asked.1),
        "{asked:?}"
    );
    let mut held: Vec<PolicyRuleId> = rules.iter().map(|rule| rule.id()).collect();
    held.sort_unstable();
    assert_eq!(
        client.list().await.unwrap(),
        held,
        "each request has its own rule"
    );
}

#[tokio::test]
async fn rule_is_ended_despite_session_loss() {
    for loss in [
        Loss::RequestAndConnection(0x15),
        Loss::ReplyAndConnection(0x16),
    ] {
        let client = client_of_lossy(loss).await;
        let rule = client.enable(pinhole(1, 100)).await.unwrap();
        let ended = in_time("PLC", rule.close()).await;
        assert_eq!(ended, Ok(()), "{loss:?}");
        assert_eq!(client.list().await.unwrap(), [], "{loss:?}");
    }
}

fn reservation(lifetime: u32) -> ReserveRequest {
    ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity: Parity::Any,
            inside: None,
            outside: None,
            protocol: 17,
            ports: 1,
        },
        lifetime: Lifetime(lifetime),
        group: None,
    }
}

#[tokio::test]
async fn enabled_reservation_uses_the_lifetime_of_pea() {
    let middlebox = TestMiddlebox::start("").await;
    let client = middlebox.client(Transport::Tcp, "alice").await;
    for (reserved, enabled) in [(1000, 8), (8, 1000)] {
        let held = client.reserve(reservation(reserved)).await.unwrap();
        held.enable(pinhole(reserved as u16, enabled))
            .await
            .unwrap();
        // Refreshed after four seconds, if at all.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let status = client.status(held.id()).await.unwrap();
        let Reply::EnableStatus(status) = status else {
            panic!("{status:?}");
        };
        let Lifetime(left) = status.enabled.lifetime;
        assert!(
            (enabled / 10..=enabled).contains(&left),
            "{left} of {enabled}"
        );
    }
}

#[tokio::test]
async fn older_rule_is_not_mistaken_for_a_lost_request() {
    // PRR has no addresses: two reservations differ in their age only.
    let address = lossy_middlebox::start_later(Loss::Request(0x11), 1, MAX_MESSAGE).await;
    let client = client_with_short_timeout(address).await;
    let older = client.request(Request::Reserve(reservation(100))).await;
    let older = older.unwrap().rule().unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let lost = in_time("PRR", client.reserve(reservation(100))).await;
    assert_eq!(lost.err(), Some(RequestError::NotDone));
    assert_eq!(client.list().await.unwrap(), [older]);
    // The reply that creates the rule is found.
    let address = lossy_middlebox::start_later(Loss::Reply(0x11), 1, MAX_MESSAGE).await;
    let client = client_with_short_timeout(address).await;
    let older = client.request(Request::Reserve(reservation(100))).await;
    let found = in_time("PRR", client.reserve(reservation(100)))
        .await
        .unwrap();
    assert_ne!(Some(found.id()), older.unwrap().rule());
}

#[tokio::test]
async fn groups_are_restored_by_the_agent() {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let start = async |settings: &DaemonSettings| {
        loop {
            match Daemon::start(settings, backend(), StoredState::none()).await {
                Ok(daemon) => break daemon,
                // The sockets of the first middlebox are not closed yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let daemon = in_time("start", start(&settings)).await;
    let bound = daemon.bound().clone();
    let to = target(&bound, &folder.file("cert.pem"), Transport::Tcp);
    let client = Client::connect(config(to, "bob")).await.unwrap();
    // A rule that ends, so that no group has the same number as before.
    client
        .enable(pinhole(99, 100))
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let mut calls = Vec::new();
    for call in 0..10 {
        let first = client.enable(pinhole(10 * call, 100)).await.unwrap();
        let mut rules = Vec::new();
        for stream in 1..4 {
            let request = carrick_simco::message::EnableRequest {
                group: first.group(),
                ..pinhole(10 * call + stream, 100)
            };
            rules.push(client.enable(request).await.unwrap());
        }
        rules.push(first);
        calls.push(rules);
    }
    let mut events = client.events();
    daemon.stop().await.unwrap();
    let again = DaemonSettings {
        listen: carrick_simco_net::daemon::ListenEntry {
            tcp: bound.tcp.clone(),
            ..carrick_simco_net::daemon::ListenEntry::default()
        },
        ..settings
    };
    let _daemon = in_time("start", start(&again)).await;
    let mut renewed = 0;
    while renewed < 40 {
        if let ClientEvent::Renewed { .. } = in_time("renewal", events.next()).await.unwrap() {
            renewed += 1;
        }
    }
    let mut groups = std::collections::BTreeSet::new();
    for rules in &calls {
        let of_call: Vec<_> = rules.iter().map(|rule| rule.group().unwrap()).collect();
        assert!(
            of_call.iter().all(|group| *group == of_call[0]),
            "{of_call:?}"
        );
        for rule in rules {
            let status = client.status(rule.id()).await.unwrap();
            let Reply::EnableStatus(status) = status else {
                panic!("{status:?}");
            };
            assert_eq!(Some(status.enabled.group), rule.group());
        }
        groups.insert(of_call[0]);
    }
    assert_eq!(groups.len(), 10, "no two calls share a group");
}

#[tokio::test]
async fn failed_pea_keeps_the_reservation() {
    let reserve = reservation(100);
    for (loss, expected) in [
        (Loss::Request(0x13), Err(RequestError::NotDone)),
        (Loss::RequestAndConnection(0x13), Err(RequestError::NotDone)),
        (Loss::Reply(0x12), Ok(())),
        (Loss::ReplyAndConnection(0x12), Ok(())),
    ] {
        let client = client_of_lossy(loss).await;
        let held = client.reserve(reserve).await.unwrap();
        let id = held.id();
        let enabled = in_time("PEA", held.enable(pinhole(1, 100))).await;
        assert_eq!(enabled, expected, "{loss:?}");
        assert_eq!(client.list().await.unwrap(), [id], "{loss:?}");
        let status = client.status(id).await.unwrap();
        let is_open = matches!(status, Reply::EnableStatus(_));
        assert_eq!(is_open, expected.is_ok(), "{loss:?}: {status:?}");
        assert!(held.is_held());
    }
}

/// RFC 4540, section 8.7
#[tokio::test]
async fn refused_query_is_not_a_refused_request() {
    let address = lossy_middlebox::start_with(Loss::Reply(0x12), HEADER_LEN).await;
    let client = client_with_short_timeout(address).await;
    let unknown = in_time("PER", client.enable(pinhole(1, 100))).await;
    assert_eq!(unknown.err(), Some(RequestError::Unanswered));
}

#[tokio::test]
async fn rule_of_a_dropped_request_is_deleted() {
    let middlebox = TestMiddlebox::start("").await;
    let client = middlebox.client(Transport::Tcp, "bob").await;
    for number in 0..200 {
        // Cancelled at different stages of the request.
        let timeout = Duration::from_micros(5 * u64::from(number));
        let asked = tokio::time::timeout(timeout, client.enable(pinhole(number, 100))).await;
        if let Ok(rule) = asked {
            rule.unwrap().close().await.unwrap();
        }
    }
    in_time("no rule is left", async {
        while !client.list().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Starts a middlebox again on the addresses of a stopped one.
async fn restart(
    settings: &DaemonSettings,
    bound: &carrick_simco_net::daemon::BoundAddresses,
) -> Daemon {
    let again = DaemonSettings {
        listen: carrick_simco_net::daemon::ListenEntry {
            tcp: bound.tcp.clone(),
            ..carrick_simco_net::daemon::ListenEntry::default()
        },
        ..settings.clone()
    };
    in_time("start", async {
        loop {
            match Daemon::start(&again, backend(), StoredState::none()).await {
                Ok(daemon) => break daemon,
                // The sockets of the first middlebox are not closed yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn held_rule_survives_withdrawn_rights() {
    for rights in [
        "[\"enable\", \"list\", \"lifetime\"]",
        "[\"enable\", \"list\"]",
    ] {
        let folder = TestFolder::new();
        let given = format!("name = \"bob\"\nrights = {rights}");
        let config_text = text(&folder, "").replace("name = \"bob\"", &given);
        let settings = DaemonSettings::parse("f", &config_text).unwrap();
        let daemon = Daemon::start(&settings, backend(), StoredState::none());
        let daemon = daemon.await.unwrap();
        let bound = daemon.bound().clone();
        let to = target(&bound, &folder.file("cert.pem"), Transport::Tcp);
        let client = Client::connect(config(to, "bob")).await.unwrap();
        let held = client.enable(pinhole(1, 6)).await.unwrap();
        let mut events = client.events();
        daemon.stop().await.unwrap();
        let _daemon = restart(&settings, &bound).await;
        while !matches!(
            in_time("renewal", events.next()).await.unwrap(),
            ClientEvent::Renewed { .. }
        ) {}
        // Far longer than its granted lifetime.
        tokio::time::sleep(Duration::from_secs(8)).await;
        in_time(rights, async {
            // A rule that can't be extended is requested again, possibly while the list arrives.
            while !client.list().await.unwrap().contains(&held.id()) {}
        })
        .await;
        assert!(held.is_held());
    }
}

#[tokio::test]
async fn request_without_session_speeds_up_reconnection() {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let daemon = Daemon::start(&settings, backend(), StoredState::none());
    let daemon = daemon.await.unwrap();
    let bound = daemon.bound().clone();
    let to = target(&bound, &folder.file("cert.pem"), Transport::Tcp);
    let mut patient = config(to, "bob");
    patient.first_pause = Duration::from_secs(300);
    patient.longest_pause = Duration::from_secs(300);
    let client = Client::connect(patient).await.unwrap();
    let mut events = client.events();
    daemon.stop().await.unwrap();
    while !matches!(
        in_time("the end", events.next()).await.unwrap(),
        ClientEvent::Closed(_)
    ) {}
    let _daemon = restart(&settings, &bound).await;
    let rule = in_time("PER", client.enable(pinhole(1, 100)))
        .await
        .unwrap();
    assert_eq!(client.list().await.unwrap(), [rule.id()]);
}
