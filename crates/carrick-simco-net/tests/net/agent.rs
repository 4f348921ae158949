use std::time::Duration;

use carrick_simco::message::{
    HEADER_LEN, Header, Lifetime, MAX_MESSAGE, NatMode, Parity, PolicyRuleId, PrrParameters, Reply,
    Request, ReserveRequest, TransactionId,
};
use carrick_simco_net::client::{Client, ClientConfig, ClientEvent, RequestError, Target};
use carrick_simco_net::daemon::{Daemon, Settings, State};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{self, Loses};
use crate::support::{
    ALL, Box3, Folder, Transport, backend, block, config, pinhole, soon, target, text,
};

#[tokio::test]
async fn held_rule_outlives_its_lifetime() {
    let middlebox = Box3::start("").await;
    let client = middlebox.client(Transport::Sctp, "alice").await;
    let mut events = client.events();
    let held = client.enable(pinhole(1, 10)).await.unwrap();
    let dropped = client.enable(pinhole(2, 10)).await.unwrap();
    let once = client.enable_once(pinhole(3, 10)).await.unwrap();
    let mut others = vec![dropped.id(), once.rule];
    drop(dropped);
    soon("their ends", async {
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
        let blocked = client.request(Request::Disable(block(9, 9))).await;
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
async fn held_rule_is_lost_when_ended_or_not_refreshed() {
    let middlebox = Box3::start("").await;
    let client = middlebox.client(Transport::Tcp, "alice").await;
    let short = client.enable(pinhole(1, 10)).await.unwrap();
    let long = client.enable(pinhole(2, 100)).await.unwrap();
    // Refreshed, it lives on.
    let refreshed = tokio::time::timeout(Duration::from_secs(12), short.lost()).await;
    assert!(refreshed.is_err());
    // A notification reports the end of a rule that another session ended.
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    noc.extend(long.id(), Lifetime(0)).await.unwrap();
    soon("ended", long.lost()).await;
    assert!(!long.is_held());
    middlebox.daemon.stop().await.unwrap();
    soon("its life is over", short.lost()).await;
    assert!(short.is_held(), "and asked for again as soon as that goes");
}

/// Forwards octets until all connections are to be broken.
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
    config.settings.timeout = Duration::from_secs(2);
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
async fn lost_request_is_reported_as_not_done() {
    let client = impatient(Loses::Request(0x12)).await;
    let other = client.enable_once(pinhole(2, 100));
    let refused = soon("PER", other).await;
    assert_eq!(refused.err(), Some(RequestError::NotDone));
    assert_eq!(client.list().await.unwrap(), []);
    assert!(client.enable_once(pinhole(2, 100)).await.is_ok());
}

#[tokio::test]
async fn outcome_of_an_unanswered_plc_is_queried() {
    for (loses, expected) in [(Loses::Reply(0x15), 500), (Loses::Request(0x15), 100)] {
        let client = impatient(loses).await;
        let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
        let changed = soon("PLC", client.extend(rule, Lifetime(500)))
            .await
            .unwrap();
        // Remaining lifetime at the time of the query.
        let Lifetime(left) = changed;
        assert!(
            (expected - 50..=expected).contains(&left),
            "{loses:?}: {left}"
        );
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
async fn rule_is_found_in_the_next_session() {
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
    // Two requests for the same pinhole result in two rules.
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
async fn lost_requests_share_one_survey() {
    const ASKED: u16 = 100;
    let loses = Loses::ReplyAndConnection(0x12);
    let (address, counts) = fake::start_counting(loses, 0, MAX_MESSAGE).await;
    let client = impatient_with(address).await;
    let asking = (0..ASKED).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.enable(pinhole(number, 100)).await })
    });
    let asking: Vec<_> = asking.collect();
    let mut rules = Vec::new();
    for asked in asking {
        rules.push(soon("PER", asked).await.unwrap().unwrap());
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
        asked.0 == 1 && (1..=usize::from(ASKED)).contains(&asked.1),
        "{asked:?}"
    );
    let mut held: Vec<PolicyRuleId> = rules.iter().map(|rule| rule.id()).collect();
    held.sort_unstable();
    assert_eq!(client.list().await.unwrap(), held, "each has its own");
}

#[tokio::test]
async fn rule_is_ended_despite_session_loss() {
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
    let middlebox = Box3::start("").await;
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
    let address = fake::start_later(Loses::Request(0x11), 1, MAX_MESSAGE).await;
    let client = impatient_with(address).await;
    let older = client.request(Request::Reserve(reservation(100))).await;
    let older = older.unwrap().rule().unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let lost = soon("PRR", client.reserve(reservation(100))).await;
    assert_eq!(lost.err(), Some(RequestError::NotDone));
    assert_eq!(client.list().await.unwrap(), [older]);
    // The reply that creates the rule is found.
    let address = fake::start_later(Loses::Reply(0x11), 1, MAX_MESSAGE).await;
    let client = impatient_with(address).await;
    let older = client.request(Request::Reserve(reservation(100))).await;
    let found = soon("PRR", client.reserve(reservation(100))).await.unwrap();
    assert_ne!(Some(found.id()), older.unwrap().rule());
}

#[tokio::test]
async fn groups_are_restored_without_a_state() {
    let folder = Folder::new();
    let settings = Settings::parse(&text(&folder, "")).unwrap();
    let start = async |settings: &Settings| {
        loop {
            match Daemon::start(settings, backend(), State::none()).await {
                Ok(daemon) => break daemon,
                // The sockets of the first are not closed yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let daemon = soon("start", start(&settings)).await;
    let bound = daemon.bound().clone();
    let to = target(&bound, &folder.file("cert.pem"), Transport::Tcp);
    let client = Client::connect(config(to, "bob")).await.unwrap();
    // One that is gone, so that no group has the same number as before.
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
    let again = Settings {
        listen: carrick_simco_net::daemon::Listen {
            tcp: bound.tcp.clone(),
            ..carrick_simco_net::daemon::Listen::default()
        },
        ..settings
    };
    let _daemon = soon("start", start(&again)).await;
    let mut renewed = 0;
    while renewed < 40 {
        if let ClientEvent::Renewed { .. } = soon("renewal", events.next()).await.unwrap() {
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
    assert_eq!(groups.len(), 10, "and no two calls share one");
}

#[tokio::test]
async fn failed_pea_keeps_the_reservation() {
    let reserve = reservation(100);
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

/// RFC 4540, section 8.7
#[tokio::test]
async fn refused_query_is_not_a_refused_request() {
    let address = fake::start_with(Loses::Reply(0x12), HEADER_LEN).await;
    let client = impatient_with(address).await;
    let unknown = soon("PER", client.enable(pinhole(1, 100))).await;
    assert_eq!(unknown.err(), Some(RequestError::Unanswered));
}

#[tokio::test]
async fn rule_of_a_dropped_request_is_deleted() {
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

/// Starts a middlebox again where another one was.
async fn again(settings: &Settings, bound: &carrick_simco_net::daemon::Bound) -> Daemon {
    let again = Settings {
        listen: carrick_simco_net::daemon::Listen {
            tcp: bound.tcp.clone(),
            ..carrick_simco_net::daemon::Listen::default()
        },
        ..settings.clone()
    };
    soon("start", async {
        loop {
            match Daemon::start(&again, backend(), State::none()).await {
                Ok(daemon) => break daemon,
                // The sockets of the first are not closed yet.
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
        let folder = Folder::new();
        let given = format!("name = \"bob\"\nrights = {rights}");
        let config_text = text(&folder, "").replace("name = \"bob\"", &given);
        let settings = Settings::parse(&config_text).unwrap();
        let daemon = Daemon::start(&settings, backend(), State::none());
        let daemon = daemon.await.unwrap();
        let bound = daemon.bound().clone();
        let to = target(&bound, &folder.file("cert.pem"), Transport::Tcp);
        let client = Client::connect(config(to, "bob")).await.unwrap();
        let held = client.enable(pinhole(1, 6)).await.unwrap();
        let mut events = client.events();
        daemon.stop().await.unwrap();
        let _daemon = again(&settings, &bound).await;
        while !matches!(
            soon("renewal", events.next()).await.unwrap(),
            ClientEvent::Renewed { .. }
        ) {}
        // Far longer than it was granted for.
        tokio::time::sleep(Duration::from_secs(8)).await;
        soon(rights, async {
            // A rule that can't be extended is requested again, possibly while the list arrives.
            while !client.list().await.unwrap().contains(&held.id()) {}
        })
        .await;
        assert!(held.is_held());
    }
}

#[tokio::test]
async fn request_without_session_speeds_up_reconnection() {
    let folder = Folder::new();
    let settings = Settings::parse(&text(&folder, "")).unwrap();
    let daemon = Daemon::start(&settings, backend(), State::none());
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
        soon("the end", events.next()).await.unwrap(),
        ClientEvent::Closed(_)
    ) {}
    let _daemon = again(&settings, &bound).await;
    let rule = soon("PER", client.enable(pinhole(1, 100))).await.unwrap();
    assert_eq!(client.list().await.unwrap(), [rule.id()]);
}
