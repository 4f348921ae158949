//! `carrick proxy` between SCTP and TCP, UDP, Unix sockets and standard input and output.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::support::{Running, run, start};

/// SCTP port of all tests; their UDP ports differ.
const PORT: &str = "7";

/// Starts a proxy that listens on SCTP, and returns it with its UDP port.
fn from_sctp(target: &str, more: &[&str]) -> (Running, String) {
    let arguments = ["proxy", "sctp:127.0.0.1:7", target, "--udp-port", "0", "-v"];
    let mut proxy = start(&[&arguments[..], more].concat());
    let line = proxy.error_line_with("listening");
    (proxy, last_number(&line))
}

/// Starts a proxy that connects to SCTP, and returns it with the port on which it listens.
fn to_sctp(listen: &str, udp_port: &str, more: &[&str]) -> (Running, u16) {
    let arguments = [
        "proxy",
        listen,
        "sctp:127.0.0.1:7",
        "--peer-udp-port",
        udp_port,
        "-v",
    ];
    let mut proxy = start(&[&arguments[..], more].concat());
    let line = proxy.error_line_with("listening");
    (proxy, last_number(&line).parse().unwrap_or(0))
}

/// Returns the last number of a line, which is a port.
fn last_number(line: &str) -> String {
    let mut numbers = line.split(|c: char| !c.is_ascii_digit());
    numbers
        .rfind(|n| !n.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// Reproducible random numbers (Numerical Recipes).
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// Returns messages of a framing as a byte stream of at least `length` bytes.
fn stream(framing: &str, length: usize, random: &mut Random) -> Vec<u8> {
    let mut stream = Vec::new();
    while stream.len() < length {
        let count = random.below(3000) + 1;
        let mut body = random.bytes(count);
        let count = count as u32;
        match framing {
            "lines" => {
                body.retain(|byte| *byte != b'\n');
                body.push(b'\n');
            }
            "length16" => stream.extend((count as u16).to_be_bytes()),
            "length32" => stream.extend(count.to_be_bytes()),
            "m3ua" => {
                stream.extend([1, 0, 1, 1]);
                stream.extend((count + 8).to_be_bytes());
            }
            "diameter" => {
                let length = (count + 20).next_multiple_of(4);
                body.resize(length as usize - 4, 0);
                stream.push(1);
                stream.extend(&length.to_be_bytes()[1..]);
            }
            _ => {}
        }
        stream.extend(body);
    }
    stream
}

/// Accepts a connection, and returns what it sends until its end.
fn receive_from(listener: &TcpListener) -> thread::JoinHandle<Vec<u8>> {
    let listener = listener.try_clone().unwrap();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    })
}

fn tcp_listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, format!("tcp:127.0.0.1:{port}"))
}

/// Ends a proxy by SIGTERM, and returns its error output.
fn end(proxy: Running) -> String {
    proxy.terminate();
    let proxy = proxy.finish();
    assert_eq!(proxy.code, Some(0), "{proxy:?}");
    proxy.errors
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Sends bytes as fast as the other side takes them, and ends the stream.
fn send_to(port: u16, bytes: Vec<u8>) -> thread::JoinHandle<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    thread::spawn(move || {
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream
    })
}

#[test]
fn a_byte_stream_passes_two_proxies_unchanged() {
    let mut random = Random(1);
    for framing in [
        "lines", "length16", "length32", "m3ua", "diameter", "chunks",
    ] {
        let (listener, target) = tcp_listener();
        let with = ["--framing", framing];
        let (far, udp_port) = from_sctp(&target, &with);
        let (near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
        let bytes = stream(framing, 1 << 20, &mut random);
        let received = receive_from(&listener);
        let sending = send_to(port, bytes.clone());
        assert!(received.join().unwrap() == bytes, "{framing}");
        // The far side ended its stream as well.
        assert_eq!(sending.join().unwrap().read(&mut [0]).unwrap(), 0);
        end(near);
        end(far);
    }
}

#[test]
fn replies_reach_their_connection() {
    let (listener, target) = tcp_listener();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut copy);
                let _ = copy.shutdown(Shutdown::Write);
            });
        }
    });
    let with = ["--framing", "length32"];
    let (far, udp_port) = from_sctp(&target, &with);
    let (near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    let clients: Vec<_> = (0..5)
        .map(|seed| {
            thread::spawn(move || {
                let bytes = stream("length32", 50_000, &mut Random(seed));
                let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let mut reading = client.try_clone().unwrap();
                let expected = bytes.clone();
                let reading = thread::spawn(move || {
                    let mut echoed = vec![0; expected.len()];
                    reading.read_exact(&mut echoed).unwrap();
                    assert!(echoed == expected);
                });
                client.write_all(&bytes).unwrap();
                reading.join().unwrap();
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let lines = end(near);
    assert_eq!(
        lines.matches("is connected with sctp 127.0.0.1").count(),
        5,
        "{lines}"
    );
    end(far);
}

#[test]
fn a_bad_header_ends_its_connection_alone() {
    let (listener, target) = tcp_listener();
    let with = ["--framing", "m3ua"];
    let (far, udp_port) = from_sctp(&target, &with);
    let (mut near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    let mut good = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut received, _) = listener.accept().unwrap();
    let message = [1, 0, 3, 1, 0, 0, 0, 8];
    good.write_all(&message).unwrap();
    let bad = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    (&bad).write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let line = near.error_line_with("; tcp 127.0.0.1:");
    let words = "it sent no M3UA header: version 71 instead of 1";
    assert!(line.contains(words), "{line}");
    // The error resets the connections on both sides.
    for mut stream in [bad, accepted] {
        let error = stream.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    good.write_all(&message).unwrap();
    good.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    received.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [message, message].concat());
    end(near);
    let lines = end(far);
    assert!(lines.contains("version 71 instead of 1"), "{lines}");
}

#[test]
fn messages_beyond_the_limit_end_their_connection() {
    let (_listener, target) = tcp_listener();
    let with = ["--framing", "length32", "--max-message", "1000"];
    let (far, udp_port) = from_sctp(&target, &with);
    let (mut near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(&[0, 0, 3, 233]).unwrap();
    let line = near.error_line_with("ended");
    assert!(
        line.contains("1001 bytes or more, which exceeds the limit of 1000"),
        "{line}"
    );
    end(near);
    end(far);
}

/// A reader that stops lets the proxies take no more than their buffers.
#[test]
fn a_slow_reader_stops_the_sender() {
    const LIMIT: usize = 64 << 20;
    let (listener, target) = tcp_listener();
    let with = ["--framing", "length32"];
    let (far, udp_port) = from_sctp(&target, &with);
    let (near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (reader, _) = listener.accept().unwrap();
    client
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let message = [&4096_u32.to_be_bytes()[..], &[7; 4096]].concat();
    let mut accepted = 0;
    let mut writer = &client;
    while accepted < LIMIT {
        match writer.write(&message[accepted % message.len()..]) {
            Ok(count) => accepted += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(accepted < LIMIT, "the proxies took {accepted} bytes");
    // All of it arrives when the reader continues.
    let whole = accepted.next_multiple_of(message.len());
    let reading = thread::spawn(move || {
        let mut bytes = vec![0; whole];
        (&reader).read_exact(&mut bytes).unwrap();
    });
    writer
        .write_all(&message[accepted % message.len()..][..whole - accepted])
        .unwrap();
    reading.join().unwrap();
    end(near);
    end(far);
}

#[test]
fn datagrams_are_messages_in_both_directions() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = format!("udp:{}", server.local_addr().unwrap());
    let (far, udp_port) = from_sctp(&target, &[]);
    let (near, port) = to_sctp("udp:127.0.0.1:0", &udp_port, &["--idle-timeout", "1s"]);
    let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut buffer = [0; 100];
    for (client, text) in clients.iter().zip([b"one", b"two"]) {
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        client.connect(("127.0.0.1", port)).unwrap();
        client.send(text).unwrap();
        let (length, source) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], text);
        server.send_to(&[text, &b"!"[..]].concat(), source).unwrap();
    }
    for (client, text) in clients.iter().zip([b"one!", b"two!"]) {
        let length = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], text);
    }
    let mut near = near;
    // Sources that are idle have left: their associations are shut down.
    for _ in 0..2 {
        let line = near.error_line_with("ended");
        assert!(
            line.contains("1 messages (3 bytes) sent, 1 (4 bytes) received"),
            "{line}"
        );
    }
    end(near);
    end(far);
}

#[test]
fn unix_sockets_are_sides_and_their_files_are_removed() {
    let folder = folder("proxy_unix");
    let path = folder.join("socket").to_str().unwrap().to_owned();
    let (listener, target) = tcp_listener();
    let (far, udp_port) = from_sctp(&target, &["--framing", "lines"]);
    let unix = format!("unix:{path}");
    let (near, _) = to_sctp(&unix, &udp_port, &["--framing", "lines"]);
    let received = receive_from(&listener);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"one\ntwo\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(received.join().unwrap(), b"one\ntwo\n");
    let second = run(&["proxy", &unix, "sctp:127.0.0.1:7", "--framing", "lines"]);
    second.assert_failed(1, "a process listens there");
    end(near);
    assert!(!fs::exists(&path).unwrap());
    // The file of a process that was killed is replaced.
    let (mut killed, _) = to_sctp(&unix, &udp_port, &["--framing", "lines"]);
    killed.kill();
    assert!(fs::exists(&path).unwrap());
    let (near, _) = to_sctp(&unix, &udp_port, &["--framing", "lines"]);
    end(near);
    end(far);
}

/// A socket with messages has no framing, and raw PDUs keep their boundaries.
#[test]
fn packets_of_a_unix_socket_are_messages() {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr};
    use nix::sys::socket::{connect, recv, send, socket};
    use std::os::fd::AsRawFd;

    let path = folder("proxy_packets").join("socket");
    let typed = format!("unix-seqpacket:{}", path.display());
    let listener = ["cat", "-l", PORT, "--udp-port", "0", "--bind", "127.0.0.1"];
    let mut listener = start(&[&listener[..], &["--json", "--input", "hex", "-q", "60"]].concat());
    let udp_port = last_number(&listener.error_line_with("listening"));
    let (near, _) = to_sctp(&typed, &udp_port, &["--ppid", "60"]);
    let kind = SockType::SeqPacket;
    let client = socket(AddressFamily::Unix, kind, SockFlag::empty(), None).unwrap();
    let address = UnixAddr::new(&path).unwrap();
    connect(client.as_raw_fd(), &address).unwrap();
    for pdu in [&[0, 21, 0][..], &vec![0xff; 70_000]] {
        send(client.as_raw_fd(), pdu, MsgFlags::empty()).unwrap();
        let message = listener.json_line();
        assert_eq!(
            (&message["ppid"], &message["length"]),
            (&60.into(), &pdu.len().into())
        );
    }
    listener.feed(b"20 15\n40\n".to_vec());
    let mut buffer = [0; 10];
    for pdu in [&[0x20, 0x15][..], &[0x40]] {
        let length = recv(client.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap();
        assert_eq!(&buffer[..length], pdu);
    }
    drop(client);
    assert_eq!(listener.finish().code, Some(0));
    end(near);
    assert!(!path.exists());
    let (far, udp_port) = from_sctp(&typed, &[]);
    let peer = [
        "cat",
        "127.0.0.1",
        PORT,
        "--peer-udp-port",
        &udp_port,
        "--recv-only",
    ];
    run(&peer).assert_failed(1, "cannot connect to unix-seqpacket");
    end(far);
}

#[test]
fn standard_streams_are_a_side() {
    let (mut far, udp_port) = from_sctp("stdio", &["--framing", "lines"]);
    far.feed(b"from far\n".to_vec());
    let near = [
        "proxy",
        "stdio",
        "sctp:127.0.0.1:7",
        "--peer-udp-port",
        &udp_port,
    ];
    let mut near = start(&[&near[..], &["--framing", "lines", "-q", "60"]].concat());
    near.feed(b"from near\n".to_vec());
    let near = near.finish();
    assert_eq!(near.code, Some(0), "{near:?}");
    assert_eq!(near.out, b"from far\n");
    let far = far.finish();
    assert_eq!(far.code, Some(0), "{far:?}");
    assert_eq!(far.out, b"from near\n");
}

#[test]
fn a_message_of_another_protocol_is_the_peers_fault() {
    let (listener, target) = tcp_listener();
    let (mut proxy, udp_port) = from_sctp(&target, &["--framing", "diameter"]);
    let received = receive_from(&listener);
    let mut peer = start(&[
        "cat",
        "127.0.0.1",
        PORT,
        "--peer-udp-port",
        &udp_port,
        "-q",
        "60",
    ]);
    peer.feed(b"no Diameter\n".to_vec());
    let line = proxy.error_line_with("ended");
    assert!(
        line.contains("the SCTP peer sent no Diameter header: version 110"),
        "{line}"
    );
    peer.finish().assert_failed(1, "no Diameter header");
    assert!(received.join().is_err(), "the connection was not reset");
    end(proxy);
}

#[test]
fn lines_about_connections_can_be_json() {
    let closed = tcp_listener().1;
    let (mut proxy, udp_port) = from_sctp(&closed, &["--framing", "lines", "--json"]);
    let peer = [
        "cat",
        "127.0.0.1",
        PORT,
        "--peer-udp-port",
        &udp_port,
        "--recv-only",
    ];
    run(&peer).assert_failed(1, "cannot connect to tcp:127.0.0.1");
    let line: serde_json::Value = serde_json::from_str(&proxy.error_line()).unwrap();
    assert_eq!(
        (&line["kind"], &line["connection"]),
        (&"ended".into(), &1.into())
    );
    assert!(
        line["error"]
            .as_str()
            .unwrap()
            .contains("Connection refused"),
        "{line}"
    );
    end(proxy);
}

#[test]
fn protocols_select_their_ppid() {
    let listener = ["cat", "-l", PORT, "--udp-port", "0", "--bind", "127.0.0.1"];
    let mut listener = start(&[&listener[..], &["--json", "--recv-only"]].concat());
    let line = listener.error_line_with("listening");
    let udp_port = last_number(&line);
    let with = ["--framing", "m3ua", "--stream", "1"];
    let (near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    drop(send_to(port, vec![1, 0, 3, 1, 0, 0, 0, 8]).join().unwrap());
    let message = listener.json_line();
    assert_eq!(
        (&message["ppid"], &message["stream"]),
        (&3.into(), &1.into())
    );
    assert_eq!(message["hex"], "0100030100000008");
    assert_eq!(listener.finish().code, Some(0));
    end(near);
}

#[test]
fn connections_beyond_the_limit_wait() {
    let (listener, target) = tcp_listener();
    let with = ["--framing", "lines", "--max-connections", "1"];
    let (far, udp_port) = from_sctp(&target, &with);
    let (mut near, port) = to_sctp("tcp:127.0.0.1:0", &udp_port, &with);
    let first = TcpStream::connect(("127.0.0.1", port)).unwrap();
    near.error_line_with("connection 1: tcp");
    let sending = send_to(port, b"second\n".to_vec());
    let (one, _) = listener.accept().unwrap();
    let received = receive_from(&listener);
    drop((first, one));
    assert_eq!(received.join().unwrap(), b"second\n");
    drop(sending.join().unwrap());
    end(near);
    end(far);
}

#[test]
fn errors_of_sides_are_usage_errors() {
    for (arguments, words) in [
        (
            &["tcp:127.0.0.1:1", "udp:127.0.0.1:2"][..],
            "has to be SCTP",
        ),
        (&["sctp:7", "tcp:127.0.0.1:1"], "give --framing"),
        (
            &["sctp:7", "tcp:127.0.0.1:1", "--framing", "pdu"],
            "is a byte stream",
        ),
        (
            &["tcp:127.0.0.1:1", "sctp:7", "--framing", "lines"],
            "needs a host",
        ),
        (&["sctp:7", "http:a"], "expected sctp:PORT"),
    ] {
        run(&[&["proxy"], arguments].concat()).assert_failed(2, words);
    }
}

/// The first datagram is reported at once, the next three at the end instead of after ten seconds.
#[test]
fn discarded_datagrams_are_reported_at_the_end() {
    let (mut proxy, port) = to_sctp("udp:127.0.0.1:0", "9", &["--max-message", "10"]);
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |datagram: &[u8]| source.send_to(datagram, ("127.0.0.1", port)).unwrap();
    send(&[1; 11]);
    let first = proxy.error_line_with("discarded");
    assert!(first.contains("carrick: 1 datagrams discarded"), "{first}");
    for _ in 0..3 {
        send(&[1; 12]);
    }
    // A connection shows that they were received: nothing listens at the UDP port of the association.
    send(&[1; 5]);
    proxy.error_line_with("connection 1: ");
    let errors = end(proxy);
    let last = "carrick: 3 datagrams discarded, the last one of ";
    assert!(errors.contains(last), "{errors}");
}
