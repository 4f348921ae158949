//! Reload of the configuration: changes that apply at once, and sessions that continue.

use std::time::Duration;

use carrick_simco::message::NegativeReply;
use carrick_simco_net::client::{Client, ClientError, ClientEvent, RequestError};
use carrick_simco_net::daemon::DaemonSettings;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{TestMiddlebox, Transport, config, in_time, pinhole, text};

#[tokio::test]
async fn reload_changes_agents_and_drops_no_session() {
    let middlebox = TestMiddlebox::start("").await;
    let alice = middlebox.client(Transport::Sctp, "alice").await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let kept = alice.enable(pinhole(1, 100)).await.unwrap();
    let orphan = bob.enable(pinhole(2, 100)).await.unwrap().id();
    let (mut of_alice, mut of_bob) = (alice.events(), bob.events());
    // Bob is removed, Carol is added, Alice loses the right to reserve and has a smaller quota.
    let old = text(&middlebox.folder, "");
    let new = old.replace("name = \"bob\"", "name = \"carol\"").replace(
        "max-rules = 50",
        "max-rules = 1\nrights = [\"enable\", \"list\"]",
    );
    let fixed = middlebox
        .daemon
        .reload(DaemonSettings::parse("f", &new).unwrap())
        .await
        .unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    let ended = in_time("AST", of_bob.next()).await.unwrap();
    assert!(matches!(ended, ClientEvent::Closed(_)), "{ended:?}");
    let quota = alice.enable(pinhole(3, 100)).await.err();
    assert_eq!(
        quota,
        Some(RequestError::Refused(NegativeReply::NoResources))
    );
    let right = alice.status(kept.id()).await.err();
    let refused = RequestError::Refused(NegativeReply::AgentNotAuthorized);
    assert_eq!(right, Some(refused));
    assert_eq!(alice.list().await.unwrap(), [kept.id()]);
    let pending = tokio::time::timeout(Duration::ZERO, of_alice.next()).await;
    assert!(pending.is_err(), "{pending:?}");
    // Rules of the removed agent stay until they expire; its key now belongs to another agent.
    let mut carol = config(middlebox.target(Transport::Tls), "bob");
    let refused = in_time("refused", Client::connect(carol.clone()))
        .await
        .err();
    assert!(
        matches!(refused, Some(ClientError::Session(_))),
        "{refused:?}"
    );
    let credentials = carol.settings.credentials.as_mut().unwrap();
    credentials.agent = carrick_simco::session::Identity::new("carol").unwrap();
    let carol = in_time("connect", Client::connect(carol)).await.unwrap();
    assert_eq!(carol.list().await.unwrap(), []);
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    assert_eq!(noc.list().await.unwrap(), [kept.id(), orphan]);
    // An invalid configuration changes nothing; keys that need a restart are returned.
    let wrong = DaemonSettings::parse("f", &new.replace("\"list\"", "\"x\"")).unwrap();
    assert!(middlebox.daemon.reload(wrong).await.is_err());
    let elsewhere = new.replace("tcp = [\"127.0.0.1:0\"]", "tcp = [\"127.0.0.2:0\"]");
    let there = DaemonSettings::parse("f", &elsewhere).unwrap();
    assert_eq!(middlebox.daemon.reload(there).await.unwrap(), ["listen"]);
    // Compared with the running configuration, not with the one read last.
    let reload = async |text: &str| {
        middlebox
            .daemon
            .reload(DaemonSettings::parse("f", text).unwrap())
            .await
    };
    assert_eq!(reload(&elsewhere).await.unwrap(), ["listen"]);
    assert!(reload(&new).await.unwrap().is_empty());
}

#[tokio::test]
async fn reload_raises_limits_on_every_transport() {
    let limits = "limits = { sessions = 1, half-open = 1, half-open-per-address = 1 }";
    let middlebox = TestMiddlebox::start(limits).await;
    let mut clients = vec![middlebox.client(Transport::Tcp, "noc").await];
    let refused = Client::connect(config(middlebox.target(Transport::Tls), "bob"));
    assert!(in_time("refused", refused).await.is_err(), "one session");
    let more = "limits = { sessions = 100, half-open = 200, half-open-per-address = 200 }";
    let new = text(&middlebox.folder, more);
    let new = new.replace("name = \"noc\"", "name = \"noc\"\nmax-sessions = 100");
    let settings = DaemonSettings::parse("f", &new).unwrap();
    let fixed = middlebox.daemon.reload(settings).await.unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    // More associations than the endpoint was created for: 66.
    for _ in 0..70 {
        clients.push(middlebox.client(Transport::Sctp, "noc").await);
    }
    // Silent TLS handshakes: more than one per address may be in progress.
    let tls = middlebox.daemon.bound().tls[0];
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(tls).await.unwrap());
    }
    clients.push(middlebox.client(Transport::Tls, "noc").await);
    let mut one = [0; 1];
    for stream in &mut silent {
        let closed = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut one)).await;
        assert!(closed.is_err(), "evicted for a later handshake");
    }
}

#[tokio::test]
async fn reload_replaces_the_certificate() {
    let middlebox = TestMiddlebox::start("").await;
    let before = middlebox.target(Transport::Tls);
    let alice = middlebox.client(Transport::Tls, "alice").await;
    let rule = alice.enable(pinhole(1, 100)).await.unwrap();
    // The same file names, another certificate.
    let folder = crate::support::TestFolder::new();
    let _ = text(&folder, "");
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(folder.file(name), middlebox.folder.file(name)).unwrap();
    }
    let settings = DaemonSettings::parse("f", &text(&middlebox.folder, "")).unwrap();
    let fixed = middlebox.daemon.reload(settings).await.unwrap();
    assert_eq!(fixed, Vec::<String>::new());
    // Clients that trust the new certificate connect; those that trust the old one do not.
    let old = in_time("refused", Client::connect(config(before, "bob"))).await;
    assert!(matches!(old.err(), Some(ClientError::Connect { .. })));
    let bob = middlebox.client(Transport::Tls, "bob").await;
    assert_eq!(bob.list().await.unwrap(), []);
    assert_eq!(alice.list().await.unwrap(), [rule.id()]);
    // An invalid certificate changes nothing.
    std::fs::write(middlebox.folder.file("cert.pem"), "none").unwrap();
    let settings = DaemonSettings::parse("f", &text(&middlebox.folder, "")).unwrap();
    assert!(middlebox.daemon.reload(settings).await.is_err());
    std::fs::copy(folder.file("cert.pem"), middlebox.folder.file("cert.pem")).unwrap();
    middlebox.client(Transport::Tls, "noc").await;
}
