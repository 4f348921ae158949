//! Agents with many outstanding requests, and an agent that half-closes its connection.

use std::collections::BTreeSet;

use carrick_simco::message::{
    DisableRequest, FromMiddlebox, IpVersion, Lifetime, Notification, PolicyRuleId, Reply, Request,
    Scope, TransactionId, VERSION,
};
use carrick_simco_net::client::Target;
use carrick_simco_net::transport::{Link, Packet};

use crate::support::{ALL, Box3, Transport, block, pinhole, soon};

/// A session of the anonymous agent.
async fn open(target: &Target) -> Link {
    let mut link = soon("connect", target.connect()).await.unwrap();
    let establish = Request::Establish {
        version: VERSION,
        challenge: None,
    };
    ask(&mut link, [establish]).await;
    let mut came = Vec::new();
    soon("SE", link.reader.read(&mut came)).await.unwrap();
    let established = parse(&came[0]);
    let is_open = matches!(established, FromMiddlebox::Reply(Reply::Established(_)));
    assert!(is_open && came.len() == 1, "{established:?}");
    link
}

/// Sends all of these at once.
async fn ask(link: &mut Link, requests: impl IntoIterator<Item = Request>) {
    let message = |(n, request): (u32, Request)| Packet {
        stream: 0,
        message: request.to_bytes(TransactionId(n)),
    };
    let mut batch: Vec<Packet> = (0..).zip(requests).map(message).collect();
    soon("the requests", link.writer.write(&mut batch))
        .await
        .unwrap();
}

fn parse(packet: &Packet) -> FromMiddlebox {
    FromMiddlebox::parse(&packet.message).unwrap().1
}

#[tokio::test]
async fn many_long_replies_slow_the_agent_down() {
    // A list is 12 kB; two of them may wait.
    let more = "anonymous = \"noc\"\n[limits]\nqueued-octets = 30000";
    let middlebox = Box3::start(more).await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    for number in 0..1500 {
        bob.enable_once(pinhole(number, 1000)).await.unwrap();
    }
    for transport in ALL {
        let mut link = open(&middlebox.target(transport)).await;
        ask(&mut link, std::iter::repeat_n(Request::List, 200)).await;
        // Others are served meanwhile.
        let rule = soon("another agent", bob.enable(pinhole(2000, 10))).await;
        rule.unwrap().close().await.unwrap();
        let (mut lists, mut came) = (0, Vec::new());
        while lists < 200 {
            soon("the lists", link.reader.read(&mut came))
                .await
                .unwrap();
            for packet in came.drain(..) {
                match parse(&packet) {
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
    // More than messages may wait.
    const RULES: u16 = 6000;
    let middlebox = Box3::start("anonymous = \"bob\"").await;
    let bob = middlebox.client(Transport::Tcp, "bob").await;
    let noc = middlebox.client(Transport::Tcp, "noc").await;
    let mut links = Vec::new();
    for transport in ALL {
        links.push(open(&middlebox.target(transport)).await);
    }
    let listening = links.into_iter().map(|link| {
        tokio::spawn(async move {
            // Without its writer, its half would end.
            let mut link: Link = link;
            let (mut there, mut ended, mut came) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
            while ended.len() < usize::from(RULES) {
                link.reader.read(&mut came).await.unwrap();
                for packet in came.drain(..) {
                    let FromMiddlebox::Notification(Notification::RuleEvent { rule, lifetime }) =
                        parse(&packet)
                    else {
                        panic!("{:?} is no ARE", parse(&packet));
                    };
                    if lifetime == Lifetime(0) {
                        assert!(
                            there.contains(&rule),
                            "{rule} before its grant was reported"
                        );
                        ended.insert(rule);
                    } else {
                        there.insert(rule);
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
        assert_eq!(soon("the ends", ended).await.unwrap(), rules);
    }
    let overrun = middlebox.metric("carrick_simco_overrun_total ").await;
    assert_eq!(overrun, 0);
    drop(held);
}

#[tokio::test]
async fn requests_before_a_half_close_are_answered() {
    const ASKED: u16 = 1000;
    let middlebox = Box3::start("anonymous = \"bob\"").await;
    // An association has no half that ends alone.
    for transport in [Transport::Tcp, Transport::Tls] {
        for round in 0..5 {
            let mut link = open(&middlebox.target(transport)).await;
            let first = round * ASKED;
            let requests = (first..first + ASKED).map(|n| Request::Enable(pinhole(n, 100)));
            ask(&mut link, requests).await;
            soon("the end of a half", link.writer.close()).await;
            let (mut granted, mut came) = (0, Vec::new());
            soon("the replies", async {
                while link.reader.read(&mut came).await.is_ok() {}
            })
            .await;
            for packet in came {
                match parse(&packet) {
                    FromMiddlebox::Reply(Reply::Enabled(_)) => granted += 1,
                    other => panic!("{transport:?}: {other:?}"),
                }
            }
            assert_eq!(granted, ASKED, "{transport:?}");
        }
    }
    soon("the end of all sessions", async {
        while middlebox.metric("carrick_simco_sessions ").await > 0 {}
    })
    .await;
}
