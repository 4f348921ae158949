use std::time::Duration;

use bytes::Bytes;
use carrick_simco::message::{
    FromMiddlebox, NegativeReply, Notification, PolicyRuleId, ProtocolVersion, Reply, Request,
    TransactionId, VERSION,
};
use carrick_simco_net::client::ConnectTarget;
use carrick_simco_net::transport::{MessageLink, MessageWriter, StreamMessage};
use carrick_wire::{
    Chunk, ChunkType, CommonHeader, InitFields, Packet as SctpPacket, PacketBuilder, Parameter,
    Tsn, VerificationTag,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::support::{ALL, TestMiddlebox, Transport, in_time, pinhole};

async fn connect(target: &ConnectTarget) -> MessageLink {
    in_time("connect", target.connect()).await.unwrap()
}

async fn send(link: &mut MessageLink, message: impl Into<Bytes>) {
    let message = message.into();
    let mut batch = vec![StreamMessage { stream: 0, message }];
    link.writer.write(&mut batch).await.unwrap();
}

/// Returns all messages until the connection ends.
async fn read_to_end(link: &mut MessageLink) -> Vec<FromMiddlebox> {
    let mut received = Vec::new();
    in_time("the end", async {
        while link.reader.read(&mut received).await.is_ok() {}
    })
    .await;
    let parsed = received
        .iter()
        .map(|message| FromMiddlebox::parse(&message.message).unwrap());
    parsed.map(|(_, message)| message).collect()
}

#[tokio::test]
async fn half_open_flood_does_not_block_agents() {
    let middlebox = TestMiddlebox::start("[limits]\nhalf-open = 10\nestablishment = 10").await;
    for transport in ALL {
        let before = middlebox.client(transport, "bob").await;
        let target = middlebox.target(transport);
        let mut flood = Vec::new();
        for _ in 0..60 {
            flood.push(connect(&target).await);
        }
        let after = middlebox.client(transport, "alice").await;
        assert!(before.enable(pinhole(1, 10)).await.is_ok());
        assert!(after.enable(pinhole(2, 10)).await.is_ok());
        assert!(middlebox.metric("carrick_simco_half_open ").await <= 10);
        // The remaining ones are closed when their establishment times out.
        let mut last = flood.pop().unwrap();
        assert_eq!(read_to_end(&mut last).await, []);
    }
    let evicted = middlebox
        .metric("carrick_simco_half_open_evicted_total ")
        .await;
    assert!(
        evicted >= 100,
        "{evicted} of 150 were evicted, although none has timed out"
    );
}

#[tokio::test]
async fn flood_from_one_address_spares_others() {
    let more = "anonymous = \"alice\"\n[limits]\nhalf-open = 10\nhalf-open-per-address = 4";
    let middlebox = TestMiddlebox::start(more).await;
    let tcp = middlebox.daemon.bound().tcp[0];
    let tls = middlebox.daemon.bound().tls[0];
    for transport in ALL {
        let mut slow = connect(&middlebox.target(transport)).await;
        let mut flood = Vec::new();
        for n in 0..200 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            // The system may refuse a connection; only accepted ones count.
            let to = if n % 2 == 0 { tcp } else { tls };
            flood.extend(socket.connect(to).await);
        }
        let half_open = middlebox.metric("carrick_simco_half_open ").await;
        assert!((1..=5).contains(&half_open), "{half_open}");
        let establish = Request::Establish {
            version: VERSION,
            challenge: None,
        };
        send(&mut slow, establish.to_bytes(TransactionId(1))).await;
        let mut received = Vec::new();
        in_time("SE", slow.reader.read(&mut received))
            .await
            .unwrap();
        let (_, reply) = FromMiddlebox::parse(&received[0].message).unwrap();
        let FromMiddlebox::Reply(Reply::Established(_)) = reply else {
            panic!("{transport:?}: {reply:?}");
        };
    }
}

/// Host that completes SCTP handshakes, then neither sends nor answers.
struct HandshakeFlood {
    socket: UdpSocket,
    port: u16,
    next: u16,
}

impl HandshakeFlood {
    async fn start(middlebox: &TestMiddlebox, from: &str) -> Self {
        let (port, udp_port) = middlebox.daemon.bound().sctp.unwrap();
        let socket = UdpSocket::bind((from, 0)).await.unwrap();
        let to = ("127.0.0.1", udp_port.unwrap());
        socket.connect(to).await.unwrap();
        Self {
            socket,
            port,
            next: 1,
        }
    }

    /// Sends a packet until one of these chunks arrives from the association.
    async fn exchange(&self, packet: &[u8], wanted: &[ChunkType]) -> Bytes {
        let mut buf = [0; 2000];
        loop {
            self.socket.send(packet).await.unwrap();
            let answered = tokio::time::timeout(Duration::from_secs(1), async {
                loop {
                    let len = self.socket.recv(&mut buf).await.unwrap();
                    let bytes = Bytes::copy_from_slice(&buf[..len]);
                    let packet = SctpPacket::parse(&bytes).unwrap();
                    let ours = packet.header().destination_port == self.next;
                    let mut chunks = packet.chunks().flatten();
                    if ours && chunks.any(|chunk| wanted.contains(&chunk.kind)) {
                        return bytes;
                    }
                }
            });
            if let Ok(answer) = answered.await {
                return answer;
            }
        }
    }

    /// Sets up one more association; returns whether it was admitted.
    async fn associate(&mut self) -> bool {
        self.next += 1;
        let header = |tag| CommonHeader {
            source_port: self.next,
            destination_port: self.port,
            tag,
        };
        let fields = InitFields {
            tag: VerificationTag(7),
            a_rwnd: 100_000,
            outbound_streams: 8,
            inbound_streams: 8,
            initial_tsn: Tsn::new(1),
        };
        let mut init = Vec::new();
        let mut packet = PacketBuilder::new(&mut init, header(VerificationTag::ZERO), 1200);
        packet.init(ChunkType::INIT, fields, |_| {});
        packet.finish();
        let answer = self.exchange(&init, &[ChunkType::INIT_ACK]).await;
        let packet = SctpPacket::parse(&answer).unwrap();
        let Some(Ok(chunk)) = packet.chunks().next() else {
            panic!("INIT ACK");
        };
        let Ok(Chunk::InitAck(ack)) = Chunk::parse(chunk) else {
            panic!("INIT ACK");
        };
        let parameters = ack.parameters().flatten();
        let cookie = parameters.filter_map(|raw| match Parameter::parse(raw) {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        });
        let cookie = cookie.last().unwrap();
        let mut echo = Vec::new();
        let mut packet = PacketBuilder::new(&mut echo, header(ack.tag), 1200);
        packet.cookie_echo(&cookie);
        packet.finish();
        let wanted = [ChunkType::COOKIE_ACK, ChunkType::ABORT];
        let answer = self.exchange(&echo, &wanted).await;
        let packet = SctpPacket::parse(&answer).unwrap();
        let mut chunks = packet.chunks().flatten();
        chunks.any(|chunk| chunk.kind == ChunkType::COOKIE_ACK)
    }
}

/// Floods a middlebox from one address with handshakes without requests: `first` of them, and `between`
/// more before each of 16 attempts of another agent, all of which succeed.
///
/// RFC 5062, section 8: state that a peer occupies after its handshake.
async fn assert_handshake_flood_spares_others(
    limits: &str,
    first: u32,
    between: u32,
    half_open_per_address: u64,
) {
    let middlebox = TestMiddlebox::start(limits).await;
    let mut flood = HandshakeFlood::start(&middlebox, "127.0.0.2").await;
    let mut admitted = 0;
    for _ in 0..first {
        admitted += u32::from(flood.associate().await);
    }
    for attempt in 0..16 {
        for _ in 0..between {
            admitted += u32::from(flood.associate().await);
        }
        let agent = middlebox.client(Transport::Sctp, "alice").await;
        assert!(agent.enable(pinhole(1, 10)).await.is_ok(), "{attempt}");
        agent.end().await;
    }
    assert!(admitted > 0);
    let half_open = middlebox.metric("carrick_simco_half_open ").await;
    assert!(half_open <= half_open_per_address, "{half_open}");
    // Evicted associations are aborted, so that their entries are free at once, not after five seconds.
    let evicted = middlebox
        .metric("carrick_simco_half_open_evicted_total ")
        .await;
    assert!(evicted > 100, "{evicted} of {admitted}");
}

#[tokio::test]
async fn sctp_handshake_flood_spares_other_addresses() {
    let limits = "[limits]\nsessions = 20\nhalf-open = 16\nhalf-open-per-address = 4";
    // More handshakes than the limit, before each attempt of the other agent.
    assert_handshake_flood_spares_others(limits, 0, 150, 4).await;
}

/// 1343 handshakes once filled an endpoint with the default limits.
#[tokio::test]
async fn default_limits_hold_against_1343_handshakes() {
    assert_handshake_flood_spares_others("", 1343, 84, 32).await;
}

/// RFC 4540, section 6
#[tokio::test]
async fn wrong_length_gets_bfm_and_ends_the_session() {
    let middlebox = TestMiddlebox::start("").await;
    let mut link = connect(&middlebox.target(Transport::Sctp)).await;
    let mut lie = Request::List.to_bytes(TransactionId(1)).to_vec();
    lie[3] = 4;
    send(&mut link, lie).await;
    let bfm = FromMiddlebox::Notification(Notification::BadlyFormedMessage);
    assert_eq!(read_to_end(&mut link).await, [bfm]);
    // In a byte stream, only a length within the message can be wrong.
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut link = connect(&middlebox.target(transport)).await;
        let establish = Request::Establish {
            version: VERSION,
            challenge: None,
        };
        let mut lie = establish.to_bytes(TransactionId(1)).to_vec();
        lie[11] = 200;
        send(&mut link, lie).await;
        let reply = FromMiddlebox::Reply(Reply::Negative(NegativeReply::BadlyFormed));
        assert_eq!(read_to_end(&mut link).await, [reply], "{transport:?}");
    }
    let client = middlebox.client(Transport::Tcp, "alice").await;
    assert!(client.enable(pinhole(1, 10)).await.is_ok());
}

/// RFC 4540, section 6
#[tokio::test]
async fn end_within_a_message_gets_bfm() {
    let middlebox = TestMiddlebox::start("").await;
    let mut stream = TcpStream::connect(middlebox.daemon.bound().tcp[0])
        .await
        .unwrap();
    stream.write_all(&[1, 1, 0, 8, 0]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = Vec::new();
    in_time("the end", stream.read_to_end(&mut received))
        .await
        .unwrap();
    let (_, message) = FromMiddlebox::parse(&Bytes::from(received)).unwrap();
    let bfm = FromMiddlebox::Notification(Notification::BadlyFormedMessage);
    assert_eq!(message, bfm);
}

/// RFC 4540, section 4.3.1
#[tokio::test]
async fn version_mismatch_reports_the_supported_version() {
    let middlebox = TestMiddlebox::start("").await;
    for transport in ALL {
        let mut link = connect(&middlebox.target(transport)).await;
        let version = ProtocolVersion { major: 2, minor: 9 };
        let establish = Request::Establish {
            version,
            challenge: None,
        };
        send(&mut link, establish.to_bytes(TransactionId(1))).await;
        let refused = Reply::Negative(NegativeReply::VersionMismatch(VERSION));
        assert_eq!(
            read_to_end(&mut link).await,
            [FromMiddlebox::Reply(refused)]
        );
    }
}

/// Requests of one agent with a quota of 50 rules.
const REQUESTS: u32 = 100_000;

/// 100,000 requests with a quota of 50; each further request costs the same.
#[tokio::test]
async fn rule_quota_of_one_agent_spares_others() {
    let middlebox = TestMiddlebox::start("anonymous = \"alice\"").await;
    let bob = middlebox.client(Transport::Sctp, "bob").await;
    let MessageLink {
        mut reader,
        mut writer,
        ..
    } = connect(&middlebox.target(Transport::Tcp)).await;
    let establish = Request::Establish {
        version: VERSION,
        challenge: None,
    };
    let asking = tokio::spawn(async move {
        let message = establish.to_bytes(TransactionId(0));
        let mut batch = vec![StreamMessage { stream: 0, message }];
        writer.write(&mut batch).await.unwrap();
        for number in 0..REQUESTS {
            let request = Request::Enable(pinhole((number % 50_000) as u16, 100));
            let message = request.to_bytes(TransactionId(number + 1));
            batch.push(StreamMessage { stream: 0, message });
            if batch.len() == 100 {
                writer.write(&mut batch).await.unwrap();
            }
        }
        writer
    });
    let reading = tokio::spawn(async move {
        let (mut granted, mut refused) = (0, 0);
        let mut received = Vec::new();
        while granted + refused < REQUESTS {
            reader.read(&mut received).await.unwrap();
            for message in received.drain(..) {
                match FromMiddlebox::parse(&message.message).unwrap().1 {
                    FromMiddlebox::Reply(Reply::Established(_)) => {}
                    FromMiddlebox::Reply(Reply::Enabled(_)) => granted += 1,
                    FromMiddlebox::Reply(Reply::Negative(NegativeReply::NoResources)) => {
                        refused += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        (granted, refused)
    });
    let mut others = 0;
    while !reading.is_finished() {
        let rule = in_time("another agent", bob.enable(pinhole(1, 10)))
            .await
            .unwrap();
        rule.close().await.unwrap();
        others += 1;
    }
    let (granted, refused) = reading.await.unwrap();
    assert_eq!((granted, refused), (50, REQUESTS - 50));
    assert!(
        others > 0,
        "{others} transactions of another agent during the requests"
    );
    drop(asking.await.unwrap());
    assert_eq!(middlebox.metric("carrick_simco_rules ").await, 50);
}

/// Opens a session and sends requests continuously without reading the replies.
async fn send_without_reading(mut writer: Box<dyn MessageWriter>) {
    let establish = Request::Establish {
        version: VERSION,
        challenge: None,
    };
    let message = establish.to_bytes(TransactionId(0));
    let mut batch = vec![StreamMessage { stream: 0, message }];
    let request = Request::Status(PolicyRuleId(9));
    for number in 1.. {
        if writer.write(&mut batch).await.is_err() {
            break;
        }
        let message = request.to_bytes(TransactionId(number));
        batch = vec![StreamMessage { stream: 0, message }; 200];
    }
}

/// Waits until the middlebox handles no more requests of the agent that does not read.
async fn until_blocked(middlebox: &TestMiddlebox) {
    let refused = "carrick_simco_transactions_total{type=\"PRS\",result=\"refused\"";
    let mut before = None;
    for _ in 0.. {
        let text = middlebox.daemon.metrics().await.unwrap();
        let answered = text.lines().find(|line| line.starts_with(refused));
        if answered.is_some() && answered == before.as_deref() {
            break;
        }
        before = answered.map(str::to_owned);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn agent_that_does_not_read_loses_its_session() {
    let more = "anonymous = \"alice\"\n[limits]\nqueued-messages = 1000";
    let middlebox = TestMiddlebox::start(more).await;
    let bob = middlebox.client(Transport::Sctp, "bob").await;
    for transport in ALL {
        let alice = middlebox.client(Transport::Tcp, "alice").await;
        let before = middlebox.metric("carrick_simco_overrun_total ").await;
        let MessageLink { reader, writer, .. } = connect(&middlebox.target(transport)).await;
        let asking = tokio::spawn(send_without_reading(writer));
        in_time("it waits", until_blocked(&middlebox)).await;
        // Requests alone are delayed by flow control, so the queue stays short.
        let overrun = middlebox.metric("carrick_simco_overrun_total ").await;
        assert_eq!(overrun, before, "{transport:?}");
        // Notifications about rules that it may see accumulate.
        in_time("the end of its session", async {
            while middlebox.metric("carrick_simco_overrun_total ").await == before {
                let rule = alice.enable(pinhole(3, 10)).await.unwrap();
                rule.close().await.unwrap();
            }
        })
        .await;
        asking.abort();
        drop(reader);
        bob.enable(pinhole(4, 10))
            .await
            .unwrap()
            .close()
            .await
            .unwrap();
        alice.end().await;
    }
}
