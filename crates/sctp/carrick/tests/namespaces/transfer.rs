//! A transfer in four quarters: one path fails after the first quarter, the other one after the third.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, Config, ConnectOptions, Endpoint, Event, Events, Notification,
    PathId, SendOptions, Transport,
};

use super::capture;
use super::network::{Network, Side, addresses};
use super::replies::Replies;

pub(crate) const MESSAGE: usize = 64 << 10;
const STREAMS: u16 = 4;
pub(crate) const PORT: u16 = 5000;

/// Time limit, far longer than any transfer.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Parameters of the transfer.
pub(crate) struct TransferPlan {
    pub(crate) transport: Transport,
    pub(crate) bytes: usize,
}

pub(crate) fn run(plan: &TransferPlan) {
    let network = Arc::new(Network::new());
    let done = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let capture = {
        let (done, ready) = (Arc::clone(&done), ready.clone());
        network.on(Side::Far, move || {
            let socket = capture::open();
            ready.send(()).unwrap();
            let mut replies = Replies::default();
            capture::read(socket, &done, |packet| {
                replies.take(&packet, |a| addresses(Side::Near).contains(&a));
            });
            replies
        })
    };
    let messages = plan.bytes / MESSAGE;
    let transport = plan.transport;
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind_side(transport, Side::Far, PORT);
            ready.send(()).unwrap();
            let association = endpoint.accept().await.unwrap().accept();
            receive(association, messages).await;
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    for _ in 0..2 {
        is_ready.recv_timeout(LIMIT).unwrap();
    }
    let cables = Arc::clone(&network);
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            let endpoint = bind_side(transport, Side::Near, PORT + 1);
            let peers = addresses(Side::Far);
            let options = ConnectOptions::new();
            let association = if let Transport::Both { port } = transport {
                // One path in UDP, the other one on plain IP.
                let options = options.encapsulated(peers[0], port).plain_ip(peers[1]);
                let association = endpoint
                    .connect_with((&peers, PORT), options)
                    .await
                    .unwrap();
                let ways = association.control().paths().await.unwrap();
                let ways: Vec<_> = ways.iter().map(|p| (p.remote, p.encapsulation)).collect();
                assert_eq!(ways, [(peers[0], Some(port)), (peers[1], None)]);
                association
            } else {
                endpoint
                    .connect_with((&peers[..1], PORT), options)
                    .await
                    .unwrap()
            };
            send(association, messages, &cables).await;
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    let (sent, received) = (sender.join(), receiver.join());
    done.store(true, Ordering::Release);
    let replies = capture.join().unwrap();
    sent.unwrap();
    received.unwrap();
    check(&replies);
}

/// Asserts that each type of reply was seen where it is required, and that none was wrong.
fn check(replies: &Replies) {
    let (near, far) = (addresses(Side::Near), addresses(Side::Far));
    eprintln!("replies: {:?}", replies.seen);
    replies.assert_right();
    for (kind, path) in [
        ("INIT ACK", 0),
        ("COOKIE ACK", 0),
        ("HEARTBEAT ACK", 1),
        ("SACK", 0),
        ("SACK", 1),
    ] {
        let count = replies.count(kind, far[path], near[path]);
        assert!(count > 0, "no {kind} from {}", far[path]);
    }
}

pub(crate) fn on_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await.unwrap() });
}

/// Opens an endpoint whose paths fail after 50 + 100 + 200 ms and recover within half a second.
pub(crate) fn bind(config: Config) -> Endpoint {
    let association = AssociationConfig::modern().with(|c| {
        c.timers.rto_initial = Duration::from_millis(200);
        c.timers.rto_min = Duration::from_millis(50);
        c.timers.rto_max = Duration::from_millis(500);
        c.paths.path_max_retrans = 2;
        c.paths.association_max_retrans = 20;
        c.paths.hb_interval = Duration::from_millis(200);
    });
    Endpoint::bind(config.association(association)).unwrap()
}

fn bind_side(transport: Transport, side: Side, port: u16) -> Endpoint {
    bind(Config::udp(addresses(side)).transport(transport).port(port))
}

/// Sends all messages; the first path fails with the second quarter, the second with the last.
async fn send(mut association: Association, messages: usize, network: &Network) {
    let mut events = association.take_events().unwrap();
    let paths = association.control().paths().await.unwrap();
    // An address given by the user is confirmed already.
    if !paths.get(1).is_some_and(|p| p.status.confirmed) {
        wait_for(&mut events, &Event::PathConfirmed(PathId(1))).await;
    }
    let pattern = pattern();
    let mut quarters = (0..4).map(|q| messages * q / 4..messages * (q + 1) / 4);
    // The link fails once at the sending host and once at the receiving one.
    for (path, side) in [(0, Side::Near), (1, Side::Far)] {
        let id = PathId(path as u8);
        association.control().set_primary(id).await.unwrap();
        for number in quarters.next().unwrap() {
            send_one(&association, number, &pattern).await;
        }
        network.set_link(side, path, false);
        eprintln!("path {path} is pulled");
        for number in quarters.next().unwrap() {
            send_one(&association, number, &pattern).await;
        }
        wait_for(&mut events, &Event::PathFailed(id)).await;
        network.set_link(side, path, true);
        wait_for(&mut events, &Event::PathRecovered(id)).await;
        eprintln!("path {path} works again");
    }
    association.shutdown().await.unwrap();
}

pub(crate) async fn send_one(association: &Association, number: usize, pattern: &[u8]) {
    let data = content(number, pattern);
    let options = SendOptions::on_stream(number as u16 % STREAMS);
    association.send(data, options).await.unwrap();
}

/// Asserts that all messages arrive once, in the order of their streams, with their content.
pub(crate) async fn receive(mut association: Association, messages: usize) {
    let pattern = pattern();
    let mut next: Vec<usize> = (0..usize::from(STREAMS)).collect();
    let mut received = 0;
    while let Some(message) = association.recv().await.unwrap() {
        let number = &mut next[usize::from(message.stream.0)];
        let expected = content(*number, &pattern);
        assert!(message.payload == expected[..], "message {number}");
        *number += usize::from(STREAMS);
        received += 1;
        if received % (messages / 8) == 0 {
            eprintln!("{received} of {messages} messages");
        }
    }
    assert_eq!(received, messages);
}

pub(crate) async fn wait_for(events: &mut Events, event: &Event) {
    loop {
        match events.next().await {
            Some(Notification::Event(received)) if received == *event => return,
            Some(Notification::Event(Event::Closed(reason))) => {
                panic!("{reason:?} instead of {event:?}")
            }
            Some(_) => {}
            None => panic!("{event:?} was never reported"),
        }
    }
}

/// Returns bytes without repetition within a message.
pub(crate) fn pattern() -> Vec<u8> {
    let mut state = 1_u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(MESSAGE + 256)
    .collect()
}

/// Returns the content of a message, which begins with its number and depends on it.
fn content(number: usize, pattern: &[u8]) -> Vec<u8> {
    let mut content = pattern[number % 256..][..MESSAGE].to_vec();
    content[..8].copy_from_slice(&number.to_be_bytes());
    content
}
