//! Messages arrive as they were sent.

use carrick::{Config, Endpoint, MessagePart, Ppid, SendError, SendOptions, StateName, StreamId};

use crate::support::{associate, config, content, endpoint, ip, on, pair, soon, to};

const SIZES: [usize; 12] = [
    1, 2, 3, 4, 1000, 1451, 1452, 1453, 65_535, 65_536, 300_000, 1_048_576,
];

#[tokio::test]
async fn messages_of_all_sizes_come_back() {
    let (_client, _server, mut a, mut b) = pair().await;
    let (back, mut here) = (b.sender(), 0);
    let echo = tokio::spawn(async move {
        while let Some(message) = b.recv().await.unwrap() {
            let options = SendOptions {
                stream: message.stream,
                ppid: message.ppid,
                unordered: message.ssn.is_none(),
                ..SendOptions::default()
            };
            back.send(message.payload.into_bytes(), options)
                .await
                .unwrap();
        }
    });
    for (number, size) in SIZES.into_iter().enumerate() {
        let options = SendOptions {
            stream: StreamId(number as u16 % 10),
            ppid: Ppid(0xdead_0000 + number as u32),
            unordered: number % 3 == 2,
            ..SendOptions::default()
        };
        a.send(content(number, size), options).await.unwrap();
        let message = soon("echo", a.recv()).await.unwrap().unwrap();
        assert_eq!(message.payload.len(), size);
        assert!(
            message.payload == content(number, size)[..],
            "content of {size}"
        );
        assert_eq!(
            (message.stream, message.ppid),
            (options.stream, options.ppid)
        );
        assert_eq!(message.ssn.is_none(), options.unordered);
        assert_eq!(message.part, MessagePart::Whole);
        here += 1;
    }
    assert_eq!(here, SIZES.len());
    soon("shutdown", a.shutdown()).await.unwrap();
    echo.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_halves_work_in_their_own_tasks() {
    const MESSAGES: usize = 2000;
    let (_client, _server, a, b) = pair().await;
    let mut tasks = Vec::new();
    for association in [a, b] {
        let (send, mut recv) = association.split();
        let second = send.clone();
        for (stream, send) in [(0, send), (1, second)] {
            tasks.push(tokio::spawn(async move {
                for number in 0..MESSAGES {
                    let size = 1 + number % 3000;
                    let data = content(number, size);
                    send.send(data, on(stream)).await.unwrap();
                }
            }));
        }
        tasks.push(tokio::spawn(async move {
            let mut next = [0; 2];
            while next != [MESSAGES; 2] {
                let message = recv.recv().await.unwrap().unwrap();
                let number = &mut next[usize::from(message.stream.0)];
                assert!(message.payload == content(*number, 1 + *number % 3000)[..]);
                assert_eq!(message.ssn.map(|s| usize::from(s.value())), Some(*number));
                *number += 1;
            }
        }));
    }
    for task in tasks {
        soon("transfer", task).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_beyond_the_receive_buffer_is_whole() {
    let mut config = Config::udp([ip("127.0.0.1")]).encapsulation_port(0);
    config.association.buffers.receive_buffer = 50_000;
    let server = Endpoint::bind(config).unwrap();
    let client = endpoint(&["127.0.0.1"]);
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    let sender = tokio::spawn(async move {
        for number in 0..3 {
            a.send(content(number, 700_000), on(0)).await.unwrap();
            a.send(content(number, 10), on(1)).await.unwrap();
        }
        a.shutdown().await.unwrap();
    });
    let mut seen = [0; 2];
    for _ in 0..6 {
        let message = soon("large message", b.recv()).await.unwrap().unwrap();
        let stream = usize::from(message.stream.0);
        let size = [700_000, 10][stream];
        assert_eq!(message.part, MessagePart::Whole);
        assert!(message.payload == content(seen[stream], size)[..]);
        seen[stream] += 1;
    }
    assert_eq!(seen, [3, 3]);
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    soon("sender", sender).await.unwrap();
}

#[tokio::test]
async fn a_message_above_the_memory_limit_comes_in_parts() {
    let mut config = Config::udp([ip("127.0.0.1")]).encapsulation_port(0);
    config.association.buffers.receive_buffer = 50_000;
    config.unread_memory = 200_000;
    let server = Endpoint::bind(config).unwrap();
    let client = endpoint(&["127.0.0.1"]);
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    a.send(content(1, 700_000), on(0)).await.unwrap();
    let (mut all, mut parts) = (Vec::new(), Vec::new());
    while parts.last() != Some(&MessagePart::Last) {
        let message = soon("part", b.recv()).await.unwrap().unwrap();
        parts.push(message.part);
        all.extend_from_slice(&message.payload.into_bytes());
    }
    assert_eq!(parts[0], MessagePart::First);
    assert!(
        parts[1..parts.len() - 1]
            .iter()
            .all(|p| *p == MessagePart::Middle)
    );
    assert!(all == content(1, 700_000));
}

#[tokio::test]
async fn invalid_streams_and_sizes_are_refused() {
    let (_client, _server, a, _b) = pair().await;
    let streams = a.control().outbound_streams();
    let error = a.send("x", on(streams)).await.unwrap_err();
    assert_eq!(error, SendError::InvalidStream { streams });
    let error = a.send("", on(0)).await.unwrap_err();
    assert_eq!(error, SendError::Empty);
    let elsewhere = SendOptions {
        path: Some(carrick::PathId(7)),
        ..SendOptions::default()
    };
    let error = soon("answer", a.send("x", elsewhere)).await.unwrap_err();
    assert_eq!(error, SendError::UnknownPath);
}

#[tokio::test]
async fn statistics_count_a_transfer() {
    let (client, server, a, mut b) = pair().await;
    for number in 0..10 {
        a.send(content(number, 100), on(0)).await.unwrap();
    }
    for _ in 0..10 {
        soon("message", b.recv()).await.unwrap();
    }
    let stats = a.control().stats().await.unwrap();
    assert_eq!(stats.state, StateName::Established);
    assert_eq!(stats.counters.messages_sent, 10);
    assert_eq!(stats.counters.data_bytes_sent, 1000);
    assert_eq!(
        b.control()
            .stats()
            .await
            .unwrap()
            .counters
            .data_bytes_received,
        1000
    );
    let paths = a.control().paths().await.unwrap();
    assert_eq!(paths.len(), 1);
    assert_eq!(
        (paths[0].remote, paths[0].local),
        (ip("127.0.0.1"), Some(ip("127.0.0.1")))
    );
    assert!(paths[0].bytes_sent > 1000 && paths[0].cwnd > 0);
    for endpoint in [&client, &server] {
        let stats = endpoint.stats().await.unwrap();
        assert_eq!(stats.protocol.established, 1);
        assert_eq!(stats.unsendable, 0);
        assert!(stats.protocol.datagrams_received >= 3);
    }
    soon("shutdown", a.shutdown()).await.unwrap();
    let error = a.control().stats().await.unwrap_err();
    assert!(error.to_string().contains("it was shut down"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_associations_share_an_endpoint() {
    const ASSOCIATIONS: usize = 200;
    let server = endpoint(&["127.0.0.1"]);
    let accepting = server.clone();
    let echo = tokio::spawn(async move {
        for _ in 0..ASSOCIATIONS {
            let mut association = accepting.accept().await.unwrap().accept();
            tokio::spawn(async move {
                while let Some(message) = association.recv().await.unwrap() {
                    let data = message.payload.into_bytes();
                    association.send(data, on(message.stream.0)).await.unwrap();
                }
            });
        }
    });
    let mut tasks = Vec::new();
    for number in 0..ASSOCIATIONS {
        // An association is identified by addresses and SCTP ports, so each client needs another port.
        let port = 20_000 + number as u16;
        let client = Endpoint::bind(config(&["127.0.0.1"]).port(port)).unwrap();
        let (options, port) = (to(&server), server.port());
        tasks.push(tokio::spawn(async move {
            let connected = client.connect_with((ip("127.0.0.1"), port), options).await;
            let mut association = connected.unwrap();
            for round in 0..5 {
                let data = content(number + round, 2000);
                association
                    .send(data.clone(), on(round as u16))
                    .await
                    .unwrap();
                let message = association.recv().await.unwrap().unwrap();
                assert!(message.payload == data[..]);
            }
            association.shutdown().await.unwrap();
            assert_eq!(association.recv().await.unwrap(), None);
        }));
    }
    for task in tasks {
        soon("association", task).await.unwrap();
    }
    soon("accepting", echo).await.unwrap();
    assert_eq!(
        server.stats().await.unwrap().protocol.established,
        ASSOCIATIONS as u64
    );
}
