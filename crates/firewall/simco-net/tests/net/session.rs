use carrick_simco::agent::CloseReason;
use carrick_simco::message::{Lifetime, NegativeReply, Reply};
use carrick_simco_net::client::Client;
use carrick_simco_net::client::{ClientError, ClientEvent, RequestError};
use carrick_simco_net::daemon::{Daemon, DaemonSettings, StoredState};

use crate::support::{
    ALL, TestFolder, TestMiddlebox, Transport, backend, block, config, in_time, pinhole, text,
    write_key,
};

#[tokio::test]
async fn sessions_and_rules_work_on_each_transport() {
    let middlebox = TestMiddlebox::start("").await;
    for transport in ALL {
        let client = middlebox.client(transport, "alice").await;
        let rule = client.enable(pinhole(1, 100)).await.unwrap();
        let id = rule.id();
        assert_eq!(client.list().await.unwrap(), [id]);
        match client.status(id).await.unwrap() {
            Reply::EnableStatus(status) => {
                assert_eq!(status.internal, pinhole(1, 100).internal);
                assert_eq!(status.owner.as_bytes(), b"alice");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(client.extend(id, Lifetime(50)).await, Ok(Lifetime(50)));
        rule.close().await.unwrap();
        let deleted = client.status(id).await;
        assert_eq!(
            deleted,
            Err(RequestError::Refused(NegativeReply::NoSuchRule))
        );
        client.end().await;
    }
    assert_eq!(middlebox.metric("carrick_simco_sessions ").await, 0);
    middlebox.daemon.stop().await.unwrap();
}

#[tokio::test]
async fn thousand_transactions_work_on_each_transport() {
    let middlebox = TestMiddlebox::start("").await;
    for transport in ALL {
        let client = middlebox.client(transport, "bob").await;
        let requests = (0..1000).map(|number| client.enable(pinhole(number, 100)));
        let rules: Vec<_> = in_time("all", futures(requests)).await;
        let rules: Vec<_> = rules.into_iter().map(Result::unwrap).collect();
        assert_eq!(client.list().await.unwrap().len(), 1000);
        in_time("close", futures(rules.into_iter().map(|rule| rule.close()))).await;
        assert_eq!(client.list().await.unwrap(), []);
    }
}

/// Runs all futures concurrently and returns their results in order.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, done) in &mut all {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    all.into_iter().map(|(_, done)| done.unwrap()).collect()
}

/// RFC 4540, section 5.3.19
#[tokio::test]
async fn are_is_sent_to_agents_that_see_the_rule() {
    let middlebox = TestMiddlebox::start("").await;
    for transport in ALL {
        let [alice, bob, noc] = ["alice", "bob", "noc"].map(|n| middlebox.client(transport, n));
        let (alice, bob, noc) = (alice.await, bob.await, noc.await);
        let mut seen = noc.events();
        let [mut own, mut other] = [alice.events(), bob.events()];
        let rule = alice.enable(pinhole(7, 100)).await.unwrap();
        let id = rule.id();
        let reported = in_time("ARE", seen.next()).await.unwrap();
        let lifetime = Lifetime(100);
        assert_eq!(reported, ClientEvent::Rule { rule: id, lifetime });
        // A PDR of another agent ends it, and its owner is notified.
        let blocked = noc.prohibit(block(7, 50)).await.unwrap();
        let lifetime = Lifetime(0);
        let reported = in_time("ARE", own.next()).await.unwrap();
        assert_eq!(reported, ClientEvent::Rule { rule: id, lifetime });
        let reported = in_time("end", own.next()).await.unwrap();
        assert!(
            matches!(reported, ClientEvent::Ended { rule, .. } if rule == id),
            "{reported:?}"
        );
        assert!(!rule.is_held());
        let refused = alice.enable(pinhole(7, 100)).await.err();
        assert_eq!(
            refused,
            Some(RequestError::Refused(NegativeReply::Conflict))
        );
        blocked.close().await.unwrap();
        // Bob has received a later reply, and no notification.
        bob.list().await.unwrap();
        let pending = tokio::time::timeout(std::time::Duration::ZERO, other.next()).await;
        assert!(pending.is_err(), "{pending:?}");
    }
}

/// RFC 4540, section 7.3
#[tokio::test]
async fn wrong_key_opens_no_session() {
    let middlebox = TestMiddlebox::start("").await;
    for transport in ALL {
        let mut settings = config(middlebox.target(transport), "alice");
        let credentials = settings.settings.credentials.as_mut().unwrap();
        credentials.key = carrick_simco::session::SharedKey::new(vec![9; 32]).unwrap();
        // The agent detects first that the middlebox has another key.
        let refused = in_time("refused", Client::connect(settings.clone()))
            .await
            .err();
        let Some(ClientError::Session(reason)) = refused else {
            panic!("{transport:?}: {refused:?}");
        };
        assert_eq!(reason, CloseReason::MiddleboxNotAuthenticated);
        settings.settings.verify_middlebox = false;
        let refused = in_time("refused", Client::connect(settings)).await.err();
        let Some(ClientError::Session(reason)) = refused else {
            panic!("{transport:?}: {refused:?}");
        };
        let failed = NegativeReply::AuthenticationFailed;
        assert_eq!(reason, CloseReason::Refused(failed));
    }
    assert_eq!(middlebox.metric("carrick_simco_sessions ").await, 0);
}

#[tokio::test]
async fn unencrypted_connection_is_refused_if_required() {
    let middlebox = TestMiddlebox::start("require-encryption = true").await;
    let plain = config(middlebox.target(Transport::Tcp), "alice");
    let refused = in_time("refused", Client::connect(plain)).await.err();
    let low = NegativeReply::InsufficientSecurity;
    assert!(
        matches!(refused, Some(ClientError::Session(CloseReason::Refused(reply))) if reply == low),
        "{refused:?}"
    );
    let client = middlebox.client(Transport::Tls, "alice").await;
    assert_eq!(client.list().await, Ok(vec![]));
}

#[tokio::test]
async fn untrusted_certificate_is_rejected() {
    let [middlebox, other] = [
        TestMiddlebox::start("").await,
        TestMiddlebox::start("").await,
    ];
    let root = other.folder.file("cert.pem");
    let target = crate::support::target(middlebox.daemon.bound(), &root, Transport::Tls);
    let refused = in_time("refused", Client::connect(config(target, "alice"))).await;
    assert!(matches!(refused.err(), Some(ClientError::Connect { .. })));
}

#[tokio::test]
async fn ca_certificate_is_rejected_for_a_host() {
    let folder = TestFolder::new();
    let mut parameters = rcgen::CertificateParams::new(vec!["box.example".to_owned()]).unwrap();
    // As `openssl req -x509` creates it by default.
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.file("cert.pem"), certificate.pem()).unwrap();
    write_key(&folder, &key.serialize_pem());
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let daemon = Daemon::start(&settings, backend(), StoredState::none());
    let daemon = daemon.await.unwrap();
    let to = crate::support::target(daemon.bound(), &folder.file("cert.pem"), Transport::Tls);
    let refused = in_time("refused", Client::connect(config(to, "alice"))).await;
    let reported = refused.err().unwrap().to_string();
    for part in [
        "an authority (CA:TRUE)",
        "basicConstraints=critical,CA:FALSE",
    ] {
        assert!(reported.contains(part), "{reported}");
    }
}
