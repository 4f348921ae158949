//! Lists, captures and metrics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use carrick_daemon::{Capture, CaptureFilter, Daemon, DaemonError, counters, list};
use carrick_ipc::Request;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::support::{
    STREAM, ask, client, config, connected, connected_to_itself, loopback, send_frame, serve,
};

/// More than fit into one reply.
#[tokio::test]
async fn sockets_and_associations_are_listed() {
    serve(connected_to_itself("list"), |path| {
        let client = client(&path);
        let open = || ask(&client, &STREAM, None).1.unwrap();
        let rows = || {
            let mut rows = Vec::new();
            list(&path, |row| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
            rows
        };
        assert!(rows().is_empty());
        let listener = open();
        let address = loopback(5000);
        let bind = Request::Bind { address: &address };
        assert_eq!(ask(&client, &bind, Some(listener.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 7 };
        assert_eq!(ask(&client, &listen, Some(listener.as_fd())).0, 0);
        let sockets: Vec<OwnedFd> = (0..500).map(|_| open()).collect();
        let addresses = loopback(5000);
        let connect = Request::Connect {
            addresses: &addresses,
        };
        let last = sockets[499].as_fd();
        assert_eq!(ask(&client, &connect, Some(last)).0, 115, "EINPROGRESS");
        let mut wait = [PollFd::new(&last, PollFlags::OUT)];
        poll(&mut wait, None).unwrap();
        let listed = rows();
        // Those above, and the one in the accept queue.
        let of_sockets = |row: &&Value| row["association"] == 0;
        assert_eq!(listed.iter().filter(of_sockets).count(), 502);
        assert_eq!(listed[0]["backlog"], 7);
        assert_eq!(listed[0]["local"][0], "127.0.0.2:5000");
        let associations: Vec<&Value> = listed.iter().filter(|row| !of_sockets(row)).collect();
        assert_eq!(associations.len(), 2);
        for association in associations {
            assert_eq!(association["state"], "Established");
            assert_eq!(association["paths"][0]["remote"], "127.0.0.2");
        }
        let keys = listed.iter().map(|row| {
            let number = |name: &str| row[name].as_i64().unwrap();
            (number("socket"), number("association"))
        });
        assert!(keys.is_sorted_by(|a, b| a < b));
        drop((sockets, listener));
    })
    .await;
}

/// Returns the next packets of a capture: whether each was sent, and the type of its first chunk.
fn captured(
    runtime: &tokio::runtime::Runtime,
    capture: &mut Capture,
    count: usize,
) -> Vec<(bool, u8)> {
    let mut next = || {
        let packet = runtime.block_on(capture.next()).unwrap().unwrap();
        assert_eq!(packet.missed, 0);
        assert!(packet.is_udp);
        let ip: IpAddr = [127, 0, 0, 2].into();
        for address in [packet.source, packet.destination] {
            assert_eq!(address.map(|address| address.ip()), Some(ip));
        }
        (packet.is_sent, packet.packet[12])
    };
    (0..count).map(|_| next()).collect()
}

#[tokio::test]
async fn captures_have_the_packets_of_their_associations() {
    serve(connected_to_itself("capture"), |path| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _guard = runtime.enter();
        let start = |filter| Capture::start(&path, filter).unwrap();
        let mut all = start(CaptureFilter::default());
        let of_port = |port| {
            start(CaptureFilter {
                port: Some(port),
                ..CaptureFilter::default()
            })
        };
        let (mut this_port, mut other_port) = (of_port(5000), of_port(6000));
        let client = client(&path);
        let (_listener, socket) = connected(&client, 5000);
        // INIT, INIT ACK, COOKIE ECHO, COOKIE ACK: each is sent by one end and received by the other.
        let set_up = [1, 2, 10, 11].map(|kind| [(true, kind), (false, kind)]);
        assert_eq!(captured(&runtime, &mut all, 8), set_up.concat());
        assert_eq!(captured(&runtime, &mut this_port, 8), set_up.concat());

        let mut associations = Vec::new();
        list(&path, |row| {
            associations.push(row["association"].as_i64().unwrap() as i32);
            Ok(())
        })
        .unwrap();
        associations.retain(|id| *id != 0);
        let first = associations[0];
        let mut own = start(CaptureFilter {
            association: Some(first),
            ..CaptureFilter::default()
        });
        let mut none = start(CaptureFilter {
            association: Some(first + 100),
            ..CaptureFilter::default()
        });
        send_frame(&socket, 0);
        // DATA and its SACK.
        let kinds = captured(&runtime, &mut all, 4);
        assert_eq!(kinds[0], (true, 0));
        assert_eq!(captured(&runtime, &mut own, 1).len(), 1);
        for silent in [&mut other_port, &mut none] {
            let within = Duration::from_millis(1);
            let next = async { tokio::time::timeout(within, silent.next()).await.is_ok() };
            assert!(!runtime.block_on(next));
        }
    })
    .await;
}

#[tokio::test]
async fn captures_are_limited_and_end_with_their_reader() {
    serve(config("captures"), |path| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _guard = runtime.enter();
        let start = || Capture::start(&path, CaptureFilter::default());
        let all: Vec<Capture> = (0..8).map(|_| start().unwrap()).collect();
        let error = start().unwrap_err();
        assert!(error.to_string().contains("8 captures"), "{error}");
        drop(all);
        assert!(start().is_ok());
    })
    .await;
}

/// Returns the metrics of a daemon, read over HTTP.
fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    answer
}

/// Returns the metrics of a daemon by name.
fn metrics(address: SocketAddr) -> BTreeMap<String, u64> {
    let answer = scrape(address);
    let samples = answer.lines().filter(|l| l.starts_with("carrick_sctp_"));
    let samples = samples.filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(name, value)| (name["carrick_sctp_".len()..].into(), value.parse().unwrap()))
        .collect()
}

/// RFC 3873, section 3.2: the counters are of the host.
#[tokio::test]
async fn metrics_outlast_their_associations() {
    let mut config = connected_to_itself("metrics");
    config.metrics = Some(([127, 0, 0, 1], 0).into());
    let path = config.socket.clone();
    let daemon = Daemon::bind(config).unwrap();
    let address = daemon.metrics().unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let clients = std::thread::spawn(move || {
        let client = client(&path);
        let open = || ask(&client, &STREAM, None).1.unwrap();
        let listener = open();
        let own = loopback(5000);
        let bind = Request::Bind { address: &own };
        assert_eq!(ask(&client, &bind, Some(listener.as_fd())).0, 0);
        let listen = Request::Listen { backlog: 7 };
        assert_eq!(ask(&client, &listen, Some(listener.as_fd())).0, 0);
        let socket = open();
        let connect = Request::Connect { addresses: &own };
        assert_eq!(ask(&client, &connect, Some(socket.as_fd())).0, 115);
        poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
        // IP_TTL
        let (level, name, value) = (0, 2, &[64, 0, 0, 0]);
        let unsupported = Request::SetOption { level, name, value };
        assert_eq!(ask(&client, &unsupported, Some(socket.as_fd())).0, 92);
        let before = metrics(address);
        for (name, value) in [
            ("refused_options_total", 1),
            ("curr_estab", 2),
            ("active_estabs_total", 1),
            ("passive_estabs_total", 1),
            ("associations{state=\"established\"}", 2),
            ("paths{state=\"active\"}", 2),
            ("descriptors", 3),
            ("clients", 1),
            ("users_at_limit{resource=\"descriptors\"}", 0),
            ("receive_memory_limit_bytes", 64 << 20),
            ("max_assocs", 8192),
            ("unlisted_associations", 2),
            ("path_events_total{event=\"potentially-failed\"}", 0),
            ("association_ends_total{reason=\"shutdown\"}", 0),
            ("log_suppressed_total", 0),
        ] {
            assert_eq!(before[name], value, "{name}");
        }
        drop((socket, listener));
        let ended = |all: &BTreeMap<String, u64>| all["shutdowns_total"] + all["aborteds_total"];
        let mut after = metrics(address);
        for _ in 0..1000 {
            if ended(&after) == 2 && after["sockets"] == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            after = metrics(address);
        }
        for (name, value) in before.iter().filter(|(name, _)| name.ends_with("_total")) {
            assert!(after[name] >= *value, "{name} has decreased");
        }
        assert_eq!(after["curr_estab"], 0);
        assert_eq!(ended(&after), 2);
        let reasons = ["shutdown", "aborted-by-user", "aborted-by-peer"]
            .map(|reason| after[&format!("association_ends_total{{reason=\"{reason}\"}}")]);
        assert_eq!(reasons.iter().sum::<u64>(), 2, "{reasons:?}");
        let counted = counters(&path).unwrap();
        assert_eq!(counted["endpoints"]["established"], 2);
        assert_eq!(counted["established"], 0);
        done.send(()).unwrap();
    });
    daemon.run(async { drop(is_done.await) }).await;
    clients.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

/// The first one has metrics, the second one is counted.
#[tokio::test]
async fn metrics_of_single_associations_are_bounded() {
    let mut config = connected_to_itself("single-metrics");
    config.metrics = Some(([127, 0, 0, 1], 0).into());
    config.metrics_associations = 1;
    let path = config.socket.clone();
    let daemon = Daemon::bind(config).unwrap();
    let address = daemon.metrics().unwrap();
    let (done, is_done) = oneshot::channel::<()>();
    let clients = std::thread::spawn(move || {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        send_frame(&socket, 0);
        let mut text = scrape(address);
        // Both ends are associations of this daemon, and the message has 7 bytes.
        for counter in ["user_data_sent_bytes", "user_data_received_bytes"] {
            let sample = format!("carrick_sctp_{counter}_total 7\n");
            for _ in 0..1000 {
                if text.contains(&sample) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
                text = scrape(address);
            }
            assert!(text.contains(&sample), "{sample} in\n{text}");
        }
        let samples = |name: &str| -> Vec<&str> {
            let begin = format!("carrick_sctp_{name}{{");
            text.lines().filter(|l| l.starts_with(&begin)).collect()
        };
        let [info] = samples("path_info")[..] else {
            panic!("{text}");
        };
        for label in [
            "destination=\"127.0.0.2\"",
            "source=\"127.0.0.2\"",
            "selected_source=\"127.0.0.2\"",
            "state=\"active\"",
            "primary=\"true\"",
            "current=\"true\"",
        ] {
            assert!(info.contains(label), "{info}");
        }
        assert_eq!(samples("association_info").len(), 1);
        let of_one = |direction: &str| {
            let name = format!("association_user_data_{direction}_bytes_total");
            let [sample] = samples(&name)[..] else {
                panic!("{text}");
            };
            sample.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
        };
        assert_eq!(of_one("sent") + of_one("received"), 7);
        assert!(samples("path_error_count")[0].ends_with(" 0"), "{text}");
        assert!(
            text.contains("carrick_sctp_unlisted_associations 1\n"),
            "{text}"
        );
        drop((listener, socket));
        done.send(()).unwrap();
    });
    daemon.run(async { drop(is_done.await) }).await;
    clients.join().unwrap();
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[tokio::test]
async fn associations_are_logged() {
    let mut config = connected_to_itself("log");
    config.association_log = Some(|line| LINES.lock().unwrap().push(line.into()));
    serve(config, |path| {
        let client = client(&path);
        let (listener, socket) = connected(&client, 5000);
        let established = [
            ": established by this host: path 127.0.0.2 -> 127.0.0.2",
            ": established by the peer: path 127.0.0.2 -> 127.0.0.2",
        ];
        let has = |part: &str| {
            let lines = LINES.lock().unwrap();
            let found = lines.iter().find(|line| line.contains(part)).cloned();
            found.ok_or_else(|| format!("no {part} in {lines:#?}"))
        };
        // The caller gets its reply before the line is written.
        let soon = |part: &str| {
            for _ in 0..1000 {
                if has(part).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            has(part).unwrap()
        };
        for line in established.map(soon) {
            assert!(line.starts_with("association "), "{line}");
            assert!(line.contains(", 127.0.0.2:"), "{line}");
            assert!(line.contains(" with 127.0.0.2:"), "{line}");
        }
        drop((listener, socket));
        let line = soon(" with 127.0.0.2:5000: ended: SHUTDOWN COMPLETE");
        assert!(line.contains(", 127.0.0.2:"), "{line}");
    })
    .await;
}

#[tokio::test]
async fn a_taken_address_of_the_metrics_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("taken");
    config.metrics = Some(taken.local_addr().unwrap());
    let refused = Daemon::bind(config.clone());
    assert!(
        matches!(refused, Err(DaemonError::Metrics { .. })),
        "{refused:?}"
    );
    assert!(!config.socket.exists());
}
