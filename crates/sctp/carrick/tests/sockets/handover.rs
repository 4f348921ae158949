//! Handover of endpoints to successors in this process: state and sockets are passed as between two processes.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carrick::{
    Association, CloseReason, Config, ConnectError, ConnectOptions, Endpoint, Event, HandOverError,
    Handover, Notification, OperationError, RecvError, ResumeError, SendError, SendHalf,
    TryRecvError,
};

use crate::support::{associate, content, endpoint, gone, ip, on, pair_of, small, soon, to};

/// Both addresses of a host with two paths.
const TWO: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Configuration of a server with one shard on these addresses.
fn config(addresses: &[&str]) -> Config {
    crate::support::config(addresses).shards(1)
}

/// Passes a handover over a Unix socket, as to another process.
fn passed(handover: &Handover) -> Handover {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || handover.send(&ours).unwrap());
        Handover::receive(&theirs).unwrap()
    })
}

/// Hands an endpoint over, and returns its successor with the handles.
async fn succeed(endpoint: &Endpoint, config: Config) -> (Endpoint, Vec<Association>) {
    let handover = soon("handover", endpoint.hand_over()).await.unwrap();
    Endpoint::resume(config, &passed(&handover)).unwrap()
}

fn numbered(number: u32) -> Vec<u8> {
    let mut message = vec![number as u8; 400 + number as usize % 1200];
    message[..4].copy_from_slice(&number.to_be_bytes());
    message
}

/// Checks the number of a message.
fn is_number(message: &carrick::Message, expected: u32) {
    let bytes = message.payload.clone().into_bytes();
    let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
    assert_eq!((number, &bytes[..]), (number, &numbered(number)[..]));
    assert_eq!(number, expected);
}

/// Last message of a sender.
const END: &str = "end";

/// Sends numbered messages until the endpoint is handed over, or `stop`, and then the last one. Returns the next number.
async fn send_from(sender: SendHalf, mut number: u32, stop: Arc<AtomicBool>) -> u32 {
    while !stop.load(Ordering::SeqCst) {
        match sender.send(numbered(number), on(0)).await {
            Ok(()) => number += 1,
            Err(SendError::Ended(CloseReason::HandedOver)) => return number,
            Err(error) => panic!("{error}"),
        }
        // Others get their turn.
        tokio::task::yield_now().await;
    }
    sender.send(END, on(0)).await.unwrap();
    number
}

/// Sends numbered messages, several with each call, until the endpoint is handed over. Returns the next number: those that
/// were not queued are still there.
async fn send_many_from(sender: SendHalf, mut number: u32) -> u32 {
    let mut queue = VecDeque::new();
    loop {
        while queue.len() < 10 {
            queue.push_back((numbered(number).into(), on(0)));
            number += 1;
        }
        match sender.send_many(&mut queue).await {
            Ok(()) => tokio::task::yield_now().await,
            Err(SendError::Ended(CloseReason::HandedOver)) => {
                return number - queue.len() as u32;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Receives numbered messages until the endpoint is handed over, the sender ends, or the next number is `until`. Returns it,
/// with the association.
async fn receive_from(
    mut association: Association,
    mut number: u32,
    until: u32,
) -> (Association, u32) {
    while number < until {
        match association.recv().await {
            Ok(Some(message)) if message.payload == *END.as_bytes() => break,
            Ok(Some(message)) => {
                is_number(&message, number);
                number += 1;
            }
            Err(RecvError::Ended(CloseReason::HandedOver)) => break,
            ended => panic!("{ended:?}"),
        }
    }
    (association, number)
}

/// A hundred handovers of the server with traffic in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_or_repeated_in_100_handovers() {
    const HANDOVERS: u32 = 100;
    const ALL: u32 = u32::MAX;
    let client = endpoint(&TWO);
    let mut server = Endpoint::bind(config(&TWO)).unwrap();
    let (a, mut b) = associate(&client, &server, &TWO).await;
    let id = b.control().id();
    b.control().set_user_data("the association of the test");
    let stop = Arc::new(AtomicBool::new(false));
    let sending = tokio::spawn(send_from(a.sender(), 0, Arc::clone(&stop)));
    let receiving = tokio::spawn(receive_from(a, 0, ALL));
    let (mut sent, mut received) = (0, 0);
    for _ in 0..HANDOVERS {
        let outgoing = tokio::spawn(send_many_from(b.sender(), sent));
        // Each server handles some messages, at the least.
        let some = receive_from(b, received, received + 10);
        let (waiting, next) = soon("messages", some).await;
        let waiting = tokio::spawn(receive_from(waiting, next, ALL));
        let (successor, mut associations) = succeed(&server, config(&TWO)).await;
        server = successor;
        sent = soon("end of the sender", outgoing).await.unwrap();
        received = soon("end of the receiver", waiting).await.unwrap().1;
        b = associations.pop().expect("the association");
        assert!(associations.is_empty());
        assert_eq!(b.control().id(), id);
        assert_eq!(b.control().user_data(), "the association of the test");
    }
    stop.store(true, Ordering::SeqCst);
    soon("room", b.send(END, on(0))).await.unwrap();
    let (b, received) = soon("messages", receive_from(b, received, ALL)).await;
    assert_eq!(soon("client", sending).await.unwrap(), received);
    let (_a, of_server) = soon("messages", receiving).await.unwrap();
    assert_eq!(of_server, sent);
    assert!(received >= 10 * HANDOVERS, "{received} messages");
    println!("{received} and {sent} messages in {HANDOVERS} handovers");
    soon("flush", b.flushed()).await.unwrap();
    assert_eq!(b.control().paths().await.unwrap().len(), 2);
    soon("shutdown", b.shutdown()).await.unwrap();
    for endpoint in [client, server] {
        let report = soon("close", endpoint.close()).await;
        assert!(report.is_empty(), "{report}");
    }
}

/// State of a server's association: numbers of messages received and sent back.
type Echo = (u32, u32);

/// Sends messages back until the endpoint is handed over or the association ends; then returns the state, of which the
/// successor continues.
async fn echo(mut association: Association, (mut received, mut sent): Echo) -> Option<Echo> {
    loop {
        while sent < received {
            match association.send(numbered(sent), on(0)).await {
                Ok(()) => sent += 1,
                Err(SendError::Ended(CloseReason::HandedOver)) => return Some((received, sent)),
                Err(error) => panic!("{error}"),
            }
        }
        match association.recv().await {
            Ok(Some(message)) => {
                is_number(&message, received);
                received += 1;
            }
            Ok(None) => return None,
            Err(RecvError::Ended(CloseReason::HandedOver)) => return Some((received, sent)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends messages, some of them ahead, and gets them back, as often as there are clients of this name.
async fn client(address: (std::net::IpAddr, u16), options: ConnectOptions, clients: u32) {
    const MESSAGES: u32 = 40;
    const AHEAD: u32 = 5;
    let endpoint = endpoint(&["127.0.0.1"]);
    for _ in 0..clients {
        let connected = endpoint.connect_with(address, options.clone()).await;
        let mut association = connected.unwrap();
        for number in 0..MESSAGES + AHEAD {
            if number < MESSAGES {
                association.send(numbered(number), on(0)).await.unwrap();
            }
            if let Some(number) = number.checked_sub(AHEAD) {
                let message = association.recv().await.unwrap().unwrap();
                is_number(&message, number);
            }
        }
        association.shutdown().await.unwrap();
    }
    let report = endpoint.close().await;
    assert!(report.is_empty(), "{report}");
}

/// Associations come and go during the handovers, and each successor finds the state of each association by its identifier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn associations_come_and_go_during_handovers() {
    const CLIENTS: usize = 12;
    let mut server = Endpoint::bind(config(&["127.0.0.1"])).unwrap();
    let address = (ip("127.0.0.1"), server.port());
    let clients = (0..CLIENTS).map(|_| tokio::spawn(client(address, to(&server), 6)));
    let mut clients: Vec<_> = clients.collect();
    let mut states = BTreeMap::new();
    let mut resumed = Vec::new();
    let mut handovers = 0;
    while !clients.is_empty() {
        let mut tasks = Vec::new();
        for association in resumed {
            let association: Association = association;
            let id = association.control().id();
            let state = states.remove(&id).expect("a state of the association");
            tasks.push((id, tokio::spawn(echo(association, state))));
        }
        // Such an association was taken, but not accepted: it is accepted again.
        states.retain(|_, state| *state != (0, 0));
        assert!(states.is_empty(), "each state has its association");
        let accepting = server.clone();
        let accepted = tokio::spawn(async move {
            let mut tasks = Vec::new();
            while let Some(incoming) = accepting.accept().await {
                let association = incoming.accept();
                let id = association.control().id();
                tasks.push((id, tokio::spawn(echo(association, (0, 0)))));
            }
            tasks
        });
        // Other tasks run meanwhile.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        let successor = succeed(&server, config(&["127.0.0.1"])).await;
        (server, resumed) = successor;
        tasks.extend(soon("end of accept", accepted).await.unwrap());
        for (id, task) in tasks {
            if let Some(state) = soon("end of a task", task).await.unwrap() {
                states.insert(id, state);
            }
        }
        handovers += 1;
        let mut running = Vec::new();
        for client in clients {
            if client.is_finished() {
                client.await.unwrap();
            } else {
                running.push(client);
            }
        }
        clients = running;
    }
    println!("{handovers} handovers");
    assert!(handovers > 1);
    let _ = soon("close", server.close()).await;
}

/// The client hands over as well: both ends are the same code, and a successor connects.
#[tokio::test]
async fn a_connected_endpoint_continues_and_connects() {
    let (client, server, a, mut b) = pair_of(config(&["127.0.0.1"])).await;
    a.send("before", on(1)).await.unwrap();
    let (client, associations) = succeed(&client, config(&["127.0.0.1"])).await;
    let [a] = <[Association; 1]>::try_from(associations).unwrap();
    a.send("after", on(1)).await.unwrap();
    for expected in ["before", "after"] {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert_eq!(message.payload.into_bytes(), expected);
    }
    let other = endpoint(&["127.0.0.1"]);
    let (_c, _d) = associate(&client, &other, &["127.0.0.1"]).await;
    soon("shutdown", a.shutdown()).await.unwrap();
    let _ = soon("close", server.close()).await;
}

/// Waits for the notification that streams were added.
async fn added(association: &mut Association) {
    soon("notification", async {
        loop {
            let next = association.next_event().await;
            match next.expect("not the end") {
                Notification::Event(Event::StreamsChanged { .. }) => break,
                Notification::Event(_) => {}
                Notification::Lagged(_) => panic!("the queue has room"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn unread_messages_and_notifications_survive() {
    let (_client, server, mut a, mut b) = pair_of(config(&["127.0.0.1"])).await;
    for number in 0..20 {
        a.send(numbered(number), on(0)).await.unwrap();
    }
    soon("flush", a.flushed()).await.unwrap();
    // Those that were taken together with it are in the handle.
    let first = soon("message", b.recv()).await.unwrap().unwrap();
    assert!(first.payload == numbered(0)[..]);
    a.control().add_streams(2, 0).await.unwrap();
    added(&mut a).await;
    let (_server, associations) = succeed(&server, config(&["127.0.0.1"])).await;
    let ended = RecvError::Ended(CloseReason::HandedOver);
    assert_eq!(b.try_recv(), Err(ended.into()));
    let [mut b] = <[Association; 1]>::try_from(associations).unwrap();
    for number in 1..20 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        is_number(&message, number);
    }
    assert_eq!(b.try_recv(), Err(TryRecvError::Empty));
    added(&mut b).await;
    assert_eq!(
        b.control().inbound_streams(),
        a.control().outbound_streams()
    );
}

/// A task that has all associations drops them as soon as it gets the reason of the first one, on another thread than that
/// of the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_messages_survive_a_drop_of_all_handles() {
    const ASSOCIATIONS: usize = 16;
    let clients: Vec<_> = (0..ASSOCIATIONS)
        .map(|_| endpoint(&["127.0.0.1"]))
        .collect();
    let mut server = Endpoint::bind(config(&["127.0.0.1"])).unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for client in &clients {
        let (a, b) = associate(client, &server, &["127.0.0.1"]).await;
        ours.push(a);
        theirs.push(b);
    }
    for round in 0..10 {
        for a in &ours[1..] {
            a.send(numbered(round), on(0)).await.unwrap();
        }
        for a in &ours[1..] {
            soon("flush", a.flushed()).await.unwrap();
        }
        let dropping = tokio::task::spawn_blocking(move || {
            // Not woken, but at the first moment.
            while theirs[0].try_recv() == Err(TryRecvError::Empty) {
                std::hint::spin_loop();
            }
            drop(theirs);
        });
        (server, theirs) = succeed(&server, config(&["127.0.0.1"])).await;
        dropping.await.unwrap();
        assert_eq!(theirs.len(), ASSOCIATIONS);
        for b in &mut theirs[1..] {
            let message = soon("message", b.recv()).await.unwrap().unwrap();
            is_number(&message, round);
        }
    }
}

/// A message that is larger than the receive buffer, of which the handle has assembled the first parts.
#[tokio::test]
async fn a_partial_delivery_continues() {
    let mut few = small().shards(1);
    few.receive_queue_messages = 1;
    let (_client, server, a, mut b) = pair_of(few.clone()).await;
    let large = content(7, 300_000);
    a.send(large.clone(), on(3)).await.unwrap();
    soon("first parts", async {
        while b.control().stats().await.unwrap().receive_buffer_bytes < 10_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The handle takes what it gets, and has no whole message.
    assert!(matches!(b.try_recv(), Err(TryRecvError::Empty)));
    let (_server, associations) = succeed(&server, few).await;
    let [mut b] = <[Association; 1]>::try_from(associations).unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert!(message.payload == large[..]);
    assert_eq!(message.part, carrick::MessagePart::Whole);
}

#[tokio::test]
async fn accepted_messages_are_sent_by_the_successor() {
    // The receiver has no room for half of them.
    let (_client, server, mut a, b) = pair_of(small().shards(1)).await;
    let mut accepted = 0;
    soon("full queues", async {
        let mut is_closed = false;
        loop {
            while b.try_send(numbered(accepted), on(0)).is_ok() {
                accepted += 1;
            }
            if is_closed {
                break;
            }
            // The task has passed on as much as the protocol takes.
            is_closed = b.control().stats().await.unwrap().peer_rwnd < 1500;
        }
    })
    .await;
    let sender = b.sender();
    let refused = tokio::spawn(async move { sender.send(vec![0; 8000], on(0)).await });
    let (_server, associations) = succeed(&server, small().shards(1)).await;
    let refused = soon("refusal", refused).await.unwrap();
    assert_eq!(refused, Err(SendError::Ended(CloseReason::HandedOver)));
    let [b] = <[Association; 1]>::try_from(associations).unwrap();
    b.send("the last one", on(0)).await.unwrap();
    for number in 0..accepted {
        let message = soon("message", a.recv()).await.unwrap().unwrap();
        is_number(&message, number);
    }
    let last = soon("message", a.recv()).await.unwrap().unwrap();
    assert_eq!(last.payload.into_bytes(), "the last one");
}

/// Associations that wait to be accepted, one of which has ended; of the latter the messages are unread.
#[tokio::test]
async fn waiting_associations_are_accepted_later() {
    let server = Endpoint::bind(config(&["127.0.0.1"])).unwrap();
    let address = (ip("127.0.0.1"), server.port());
    let clients = [endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"])];
    let mut associations = Vec::new();
    for client in &clients {
        let association = soon("set-up", client.connect_with(address, to(&server))).await;
        let association = association.unwrap();
        association.send("unread", on(0)).await.unwrap();
        soon("flush", association.flushed()).await.unwrap();
        associations.push(association);
    }
    let ended = associations.pop().unwrap();
    soon("shutdown", ended.shutdown()).await.unwrap();
    // One is taken and not accepted.
    let taken = soon("association", server.accept()).await.unwrap();
    let (successor, accepted) = succeed(&server, config(&["127.0.0.1"])).await;
    assert!(accepted.is_empty(), "none was accepted");
    assert!(soon("end", server.accept()).await.is_none());
    let old = taken.accept();
    assert!(old.send("late", on(0)).await.is_err());
    drop(old);
    for _ in 0..2 {
        let incoming = soon("association", successor.accept()).await.unwrap();
        let mut association = incoming.accept();
        let message = soon("message", association.recv()).await.unwrap().unwrap();
        assert_eq!(message.payload.into_bytes(), "unread");
    }
    // A call that waited before the handover ends, and the successor accepts a new association.
    let waiting = successor.clone();
    let waiting = tokio::spawn(async move { waiting.accept().await.is_none() });
    tokio::task::yield_now().await;
    let (successor, _) = succeed(&successor, config(&["127.0.0.1"])).await;
    assert!(soon("end", waiting).await.unwrap());
    let third = endpoint(&["127.0.0.1"]);
    let _both = associate(&third, &successor, &["127.0.0.1"]).await;
}

/// An association whose shutdown is complete, once with messages that have left the protocol, and once with further ones in it.
#[tokio::test]
async fn an_end_that_was_not_received_survives() {
    for queue in [100, 1] {
        let mut config = config(&["127.0.0.1"]);
        config.receive_queue_messages = queue;
        let (client, server, a, mut b) = pair_of(config.clone()).await;
        for number in 0..20 {
            a.send(numbered(number), on(0)).await.unwrap();
        }
        soon("shutdown", a.shutdown()).await.unwrap();
        gone(&client).await;
        let (server, associations) = succeed(&server, config.clone()).await;
        let ended = RecvError::Ended(CloseReason::HandedOver);
        assert_eq!(b.recv().await, Err(ended));
        let [mut b] = <[Association; 1]>::try_from(associations).unwrap();
        for number in 0..20 {
            let message = soon("message", b.recv()).await.unwrap().unwrap();
            is_number(&message, number);
        }
        assert_eq!(soon("end", b.recv()).await, Ok(None));
        assert_eq!(b.closed().await, CloseReason::Shutdown);
        let (server, associations) = succeed(&server, config).await;
        assert!(associations.is_empty(), "the program has received the end");
        assert!(server.close().await.is_empty());
    }
}

#[tokio::test]
async fn old_handles_get_a_definite_reason() {
    let (client, server, _a, mut b) = pair_of(config(&["127.0.0.1"])).await;
    let (closed, control) = (b.sender(), b.control().clone());
    let closed = tokio::spawn(async move { closed.closed().await });
    // Nothing answers there: the set-up is not complete.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = ConnectOptions::new();
    let options = options.encapsulation_port(silent.local_addr().unwrap().port());
    let connecting = server.clone();
    let connecting = tokio::spawn(async move {
        let connected = connecting.connect_with((ip("127.0.0.1"), 9), options);
        connected.await.map(drop)
    });
    let mut init = [0; 2000];
    soon("INIT", async {
        silent.set_nonblocking(true).unwrap();
        while silent.recv(&mut init).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let handover = soon("handover", server.hand_over()).await.unwrap();
    let reason = CloseReason::HandedOver;
    assert_eq!(soon("end", closed).await.unwrap(), reason);
    let aborted = soon("set-up", connecting).await.unwrap();
    assert_eq!(aborted, Err(ConnectError::Failed(reason.clone())));
    let ended = OperationError::Ended(reason.clone());
    assert_eq!(control.stats().await.unwrap_err(), ended);
    assert_eq!(b.flushed().await, Err(ended.clone()));
    assert_eq!(b.shutdown().await, Err(ended));
    let refused = b.send("message", on(0)).await;
    assert_eq!(refused, Err(SendError::Ended(reason.clone())));
    assert_eq!(b.recv().await, Err(RecvError::Ended(reason.clone())));
    let last = Notification::Event(Event::Closed(reason));
    assert_eq!(b.next_event().await, Some(last));
    assert_eq!(b.next_event().await, None);
    let again = server.hand_over().await.unwrap_err();
    assert!(matches!(again, HandOverError::EndpointClosed), "{again}");
    assert!(server.close().await.is_empty());
    drop((b, control, server));
    // Nothing of this reached the peer, which still has the association.
    let (server, associations) = Endpoint::resume(config(&["127.0.0.1"]), &handover).unwrap();
    assert_eq!(
        (associations.len(), client.associations().await.unwrap()),
        (1, 1)
    );
    soon("shutdown", associations[0].shutdown()).await.unwrap();
    gone(&client).await;
    drop(server);
}

/// A shutdown that has begun, of a handle that was dropped, ends at the successor.
#[tokio::test]
async fn a_shutdown_of_a_dropped_handle_continues() {
    let (client, server, mut a, b) = pair_of(small().shards(1)).await;
    for number in 0..4 {
        b.send(numbered(number), on(0)).await.unwrap();
    }
    b.send(content(4, 60_000), on(0)).await.unwrap();
    drop(b);
    let (server, associations) = succeed(&server, small().shards(1)).await;
    assert!(associations.is_empty(), "the program has dropped it");
    for number in 0..4 {
        let message = soon("message", a.recv()).await.unwrap().unwrap();
        assert!(message.payload == numbered(number)[..]);
    }
    let large = soon("message", a.recv()).await.unwrap().unwrap();
    assert!(large.payload == content(4, 60_000)[..]);
    assert_eq!(soon("end", a.recv()).await, Ok(None));
    gone(&server).await;
    drop(client);
}

/// The command of the shutdown is behind that of the handover.
#[tokio::test]
async fn a_shutdown_during_a_handover_continues() {
    let (_client, server, mut a, b) = pair_of(config(&["127.0.0.1"])).await;
    let (handover, shutdown) = soon("both", async {
        tokio::join!(biased; server.hand_over(), b.shutdown())
    })
    .await;
    let ended = OperationError::Ended(CloseReason::HandedOver);
    assert_eq!(shutdown, Err(ended));
    let resumed = Endpoint::resume(config(&["127.0.0.1"]), &passed(&handover.unwrap()));
    let (_server, associations) = resumed.unwrap();
    assert_eq!(associations.len(), 1);
    assert_eq!(soon("end", a.recv()).await, Ok(None));
}

#[tokio::test]
async fn several_shards_are_not_handed_over() {
    let (_client, server, a, mut b) = pair_of(config(&["127.0.0.1"]).shards(2)).await;
    let error = server.hand_over().await.unwrap_err();
    assert!(matches!(error, HandOverError::Shards), "{error}");
    assert!(error.to_string().contains("Config::shards"), "{error}");
    a.send("message", on(0)).await.unwrap();
    assert!(
        soon("message", b.recv()).await.unwrap().is_some(),
        "it continues"
    );
}

#[tokio::test]
async fn other_configurations_are_refused_by_name() {
    let (_client, server, _a, _b) = pair_of(config(&["127.0.0.1"])).await;
    let handover = soon("handover", server.hand_over()).await.unwrap();
    let refused = |config: Config| match Endpoint::resume(config, &passed(&handover)) {
        Err(ResumeError::Config(error)) => error.field,
        other => panic!("{other:?}"),
    };
    let udp = server.encapsulation_port().unwrap();
    let same = || config(&["127.0.0.1"]);
    assert_eq!(refused(same().port(server.port() ^ 1)), "port");
    assert_eq!(
        refused(same().encapsulation_port(udp ^ 1)),
        "encapsulation_port"
    );
    assert_eq!(refused(same().and_plain_ip()), "transport");
    assert_eq!(refused(same().shards(2)), "shards");
    assert_eq!(refused(same().daemon("/nonexistent")), "daemon");
    let exact = same().port(server.port()).encapsulation_port(udp);
    let (successor, associations) = Endpoint::resume(exact, &handover).unwrap();
    assert_eq!(successor.encapsulation_port(), Some(udp));
    assert_eq!((successor.port(), associations.len()), (server.port(), 1));
}

#[tokio::test]
async fn damaged_handovers_are_errors_without_a_panic() {
    let (_client, server, a, b) = pair_of(config(&["127.0.0.1"])).await;
    a.send(content(1, 3000), on(0)).await.unwrap();
    soon("flush", a.flushed()).await.unwrap();
    b.send("message", on(0)).await.unwrap();
    let handover = soon("handover", server.hand_over()).await.unwrap();
    assert!(
        !format!("{handover:?}").contains("message"),
        "it is a secret"
    );
    let error = |state: Vec<u8>, count: usize| {
        let (_, mut descriptors) = passed(&handover).into_parts();
        descriptors.truncate(count);
        let changed = Handover::from_parts(state, descriptors);
        Endpoint::resume(config(&["127.0.0.1"]), &changed).map(drop)
    };
    let (state, count) = (handover.state(), handover.descriptors().len());
    let text = error(state.to_vec(), count - 1).unwrap_err().to_string();
    assert!(
        text.contains(&format!("has {count} descriptors, and {}", count - 1)),
        "{text}"
    );
    let text = error(b"nothing".to_vec(), count).unwrap_err().to_string();
    assert!(text.contains("no export"), "{text}");
    for at in (8..state.len()).step_by(1 + state.len() / 200) {
        let mut damaged = state.to_vec();
        damaged[at] ^= 0x10;
        assert!(error(damaged, count).is_err(), "byte {at}");
        assert!(error(state[..at].to_vec(), count).is_err(), "{at} bytes");
    }
    assert!(error(state.to_vec(), count).is_ok(), "it was the damage");
}

/// The sender of a handover can end at any byte.
#[test]
fn an_incomplete_handover_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let handover = runtime.block_on(async {
        let endpoint = Endpoint::bind(config(&TWO)).unwrap();
        soon("handover", endpoint.hand_over()).await.unwrap()
    });
    let length = (handover.state().len() as u64).to_be_bytes();
    for (count, state, expected) in [
        (0_u32, &handover.state()[..9], "9 of"),
        (3, handover.state(), "0 of 3 descriptors"),
    ] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let bytes = [&count.to_be_bytes()[..], &length, state].concat();
        std::io::Write::write_all(&mut ours, &bytes).unwrap();
        drop(ours);
        let error = Handover::receive(&theirs).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Writes the state of this version for `states_of_each_version_are_read` (`src/handover/state.rs`).
#[tokio::test]
#[ignore = "writes a file of this test"]
async fn write_state() {
    let mut server = small().shards(1);
    server.addresses = TWO.map(ip).to_vec();
    let server = Endpoint::bind(server).unwrap();
    let client = Endpoint::bind(small()).unwrap();
    let (mut a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    b.control().set_user_data("data of the program");
    for number in 0..3 {
        a.send(numbered(number), on(0)).await.unwrap();
    }
    soon("flush", a.flushed()).await.unwrap();
    soon("message", b.recv()).await.unwrap();
    a.control().add_streams(2, 0).await.unwrap();
    added(&mut a).await;
    while b.try_send(numbered(0), on(1)).is_ok() {
        // The task passes them on.
        let _ = b.control().stats().await.unwrap();
    }
    let other = endpoint(&["127.0.0.1"]);
    let connected = other.connect_with((ip("127.0.0.1"), server.port()), to(&server));
    let _waiting = soon("set-up", connected).await.unwrap();
    let handover = soon("handover", server.hand_over()).await.unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exports/1.bin");
    std::fs::write(file, handover.state()).unwrap();
}
