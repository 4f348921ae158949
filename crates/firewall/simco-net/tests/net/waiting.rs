//! Agents with many outstanding requests, and an agent that half-closes its connection.

use std::collections::BTreeSet;

use carrick_simco::message::{
    DisableRequest, FromMiddlebox, IpVersion, Lifetime, Notification, PolicyRuleId, Reply, Request,
    Scope, TransactionId, VERSION,
};
use carrick_simco_net::client::ConnectTarget;
use carrick_simco_net::transport::{MessageLink, StreamMessage};

use crate::support::{ALL, TestMiddlebox, Transport, block, in_time, pinhole};

/// Opens a session of the anonymous agent.
async fn open(target: &ConnectTarget) -> MessageLink {
    let mut link = in_time("connect", target.connect()).await.unwrap();
    let establish = Request::Establish {
        version: VERSION,
        challenge: None,
    };
    send(&mut link, [establish]).await;
    let mut received = Vec::new();
    in_time("SE", link.reader.read(&mut received))
        .await
        .unwrap();
    let established = parse(&received[0]);
    let is_open = matches!(established, FromMiddlebox::Reply(Reply::Established(_)));
    assert!(is_open && received.len() == 1, "{established:?}");
    link
}

/// Sends these requests at once.
async fn send(link: &mut MessageLink, requests: impl IntoIterator<Item = Request>) {
    let message = |(n, request): (u32, Request)| StreamMessage {
        stream: 0,
        message: request.to_bytes(TransactionId(n)),
    };
    let mut batch: Vec<StreamMessage> = (0..).zip(requests).map(message).collect();
    in_time("the requests", link.writer.write(&mut batch))
        .await
        .unwrap();
}

fn parse(message: &StreamMessage) -> FromMiddlebox {
    FromMiddlebox::parse(&message.message).unwrap().1
}

#[tokio::test]
async fn many_long_replies_slow_the_agent_down() {
    // A list has 12 kB; two lists may be queued.
    let more = "anonymous = \"noc\"\n[limits]\nqueued-octets = 30000";
    let middlebox = TestMiddlebox::start(more).await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    for number in 0..1500 {
        bob.enable_once(pinhole(number, 1000)).await.unwrap();
    }
    for transport in ALL {
        let mut link = open(&middlebox.target(transport)).await;
        send(&mut link, std::iter::repeat_n(Request::List, 200)).await;
        // Other agents are served meanwhile.
        let rule = in_time("another agent", bob.enable(pinhole(2000, 10))).await;
        rule.unwrap().close().await.unwrap();
        let (mut lists, mut received) = (0, Vec::new());
        while lists < 200 {
            in_time("the lists", link.reader.read(&mut received))
                .await
                .unwrap();
            for message in received.drain(..) {
                match parse(&message) {
                    FromMiddlebox::Reply(Reply::List(list)) => {
                        assert!((1500..=1501).contains(&list.rules().len()));
                        lists += 1;
                    }
                    FromMiddlebox::Notification(Notification::RuleEvent { .. }) => {}
                    other => panic!("{transport:?}: {other:?}"),
                }
            }
        }
    }
    let overrun = middlebox.metric("carrick_simco_overrun_total ").await;
    assert_eq!(overrun, 0);
}

/// RFC 4540, section 8.8.2
#[tokio::test]
async fn mass_rule_end_spares_agents_that_read() {
    // More than the maximum number of queued messages.
    const RULES: u16 = 6000;
    let middlebox = TestMiddlebox::start("anonymous = \"bob\"").await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    let mut links = Vec::new();
    for transport in ALL {
        links.push(open(&middlebox.target(transport)).await);
    }
    let listening = links.into_iter().map(|link| {
        tokio::spawn(async move {
            // Without the writer, the sending direction would end.
            let mut link: MessageLink = link;
            let (mut existing, mut ended, mut received) =
                (BTreeSet::new(), BTreeSet::new(), Vec::new());
            while ended.len() < usize::from(RULES) {
                link.reader.read(&mut received).await.unwrap();
                for message in received.drain(..) {
                    let FromMiddlebox::Notification(Notification::RuleEvent { rule, lifetime }) =
                        parse(&message)
                    else {
                        panic!("{:?} is not an ARE", parse(&message));
                    };
                    if lifetime == Lifetime(0) {
                        assert!(
                            existing.contains(&rule),
                            "{rule} before its grant was reported"
                        );
                        ended.insert(rule);
                    } else {
                        existing.insert(rule);
                    }
                }
            }
            drop(link);
            ended
        })
    });
    let listening: Vec<_> = listening.collect();
    let mut rules: BTreeSet<PolicyRuleId> = BTreeSet::new();
    for number in 0..RULES {
        let enabled = bob.enable_once(pinhole(number, 1000)).await.unwrap();
        rules.insert(enabled.rule);
    }
    let mut all: DisableRequest = block(0, 1000);
    for tuple in [&mut all.internal, &mut all.external] {
        tuple.scope = Scope::ProtocolsOnly(IpVersion::V4);
    }
    let held = noc.prohibit(all).await.unwrap();
    for ended in listening {
        assert_eq!(in_time("the ends", ended).await.unwrap(), rules);
    }
    let overrun = middlebox.metric("carrick_simco_overrun_total ").await;
    assert_eq!(overrun, 0);
    drop(held);
}

#[tokio::test]
async fn requests_before_a_half_close_are_answered() {
    const REQUESTS: u16 = 1000;
    let middlebox = TestMiddlebox::start("anonymous = \"bob\"").await;
    // An SCTP association can't be half-closed.
    for transport in [Transport::Tcp, Transport::Tls] {
        for round in 0..5 {
            let mut link = open(&middlebox.target(transport)).await;
            let first = round * REQUESTS;
            let requests = (first..first + REQUESTS).map(|n| Request::Enable(pinhole(n, 100)));
            send(&mut link, requests).await;
            in_time("the half-close", link.writer.close()).await;
            let (mut granted, mut received) = (0, Vec::new());
            in_time("the replies", async {
                while link.reader.read(&mut received).await.is_ok() {}
            })
            .await;
            for message in received {
                match parse(&message) {
                    FromMiddlebox::Reply(Reply::Enabled(_)) => granted += 1,
                    other => panic!("{transport:?}: {other:?}"),
                }
            }
            assert_eq!(granted, REQUESTS, "{transport:?}");
        }
    }
    in_time("the end of all sessions", async {
        while middlebox.metric("carrick_simco_sessions ").await > 0 {}
    })
    .await;
}
