//! TCP connections and the messages on them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::peer::audio;
use crate::world::World;

const SOON: Duration = Duration::from_millis(300);

fn connect(world: &World) -> TcpStream {
    let connection = TcpStream::connect(world.caller.b2bua).unwrap();
    let patience = Some(Duration::from_secs(10));
    connection.set_read_timeout(patience).unwrap();
    connection
}

/// Sends a request over a connection. Returns the response, which is empty if the connection is closed.
fn request(
    connection: &mut TcpStream,
    method: &str,
    number: u32,
    length: usize,
    body: &str,
) -> String {
    let local = connection.local_addr().unwrap();
    let text = format!(
        "{method} sip:agent@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK-{number}\r\nFrom: <sip:a@{local}>;tag=1\r\nTo: <sip:agent@127.0.0.1>\r\nCall-ID: over-{local}\r\nCSeq: {number} {method}\r\nContact: <sip:a@{local}>\r\nMax-Forwards: 70\r\nContent-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // Writing fails if the peer no longer reads.
    let _ = connection.write_all(text.as_bytes());
    let mut answer = String::new();
    // A provisional response may come before the final one.
    while !answer.contains("SIP/2.0 2") && !answer.contains("SIP/2.0 4") {
        let mut octets = [0; 4096];
        match connection.read(&mut octets) {
            Ok(read @ 1..) => answer.push_str(std::str::from_utf8(&octets[..read]).unwrap()),
            Ok(0) | Err(_) => return String::new(),
        }
    }
    answer
}

/// Returns whether an OPTIONS request over a connection is answered.
fn answers(connection: &mut TcpStream, number: u32) -> bool {
    request(connection, "OPTIONS", number, 0, "").starts_with("SIP/2.0 200 ")
}

#[test]
fn connection_limit_spares_existing_connections() {
    let world = World::with(|config| config.max_connections = 2);
    let [mut one, mut two] = [connect(&world), connect(&world)];
    assert!(answers(&mut one, 1) && answers(&mut two, 1));
    let closed = connect(&world).read(&mut [0; 1]).unwrap();
    assert_eq!(closed, 0, "the third is closed");
    assert!(answers(&mut one, 2) && answers(&mut two, 2));
}

#[test]
fn connections_per_address_are_bounded() {
    let world = World::with(|config| {
        config.max_connections_per_address = 2;
        config.inner = None;
        config.outer = Some("192.0.2.1:5060".parse().unwrap());
    });
    let [mut one, mut two] = [connect(&world), connect(&world)];
    assert!(answers(&mut one, 1) && answers(&mut two, 1));
    let closed = connect(&world).read(&mut [0; 1]).unwrap();
    assert_eq!(closed, 0, "the third is closed");
    drop(one);
    // Until the agent has read the end of the connection.
    let again = (0..100).any(|number| {
        std::thread::sleep(Duration::from_millis(20));
        !request(&mut connect(&world), "OPTIONS", number + 1, 0, "").is_empty()
    });
    assert!(again && answers(&mut two, 2));
}

/// RFC 3261, section 21.4.11
#[test]
fn oversized_descriptions_are_refused() {
    let mut world = World::new();
    let mut connection = connect(&world);
    let many = "m=audio 4000 RTP/AVP 0\r\n".repeat(600);
    let wide = format!("m=audio 4000 RTP/AVP{}\r\n", " 0".repeat(20_000));
    let deep = "a=x\r\n".repeat(12_000);
    let wrong = "m=audio 99999999999999999999/65536 RTP/AVP 0\r\n";
    let offer = audio("10.0.0.1", 4000);
    for (number, (more, status)) in [
        (many.as_str(), "488"),
        (&wide, "413"),
        (&deep, "413"),
        (wrong, "488"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!("{offer}{more}");
        let number = number as u32 + 1;
        let answer = request(&mut connection, "INVITE", number, body.len(), &body);
        let wanted = format!("SIP/2.0 {status} ");
        assert!(answer.contains(&wanted), "{wanted}: {answer}");
        acknowledge(&mut connection, number);
    }
    assert!(!world.callee.receives("INVITE", SOON));
    assert!(answers(&mut connection, 9));
    // A datagram shorter than its Content-Length (RFC 3261, section 18.3).
    world.caller.more = vec!["Content-Length: 2000".to_owned()];
    world.caller.invite(&offer);
    world.caller.expect("400");
    world.assert_over();
}

/// Acknowledges a refusal.
fn acknowledge(connection: &mut TcpStream, number: u32) {
    let local = connection.local_addr().unwrap();
    let ack = format!(
        "ACK sip:agent@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK-{number}\r\nFrom: <sip:a@{local}>;tag=1\r\nTo: <sip:agent@127.0.0.1>\r\nCall-ID: over-{local}\r\nCSeq: {number} ACK\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(ack.as_bytes()).unwrap();
}

#[test]
fn endless_message_closes_its_connection() {
    let world = World::new();
    let [mut one, mut other] = [connect(&world), connect(&world)];
    assert!(answers(&mut other, 1));
    let endless = "x".repeat(200_000);
    let answer = request(&mut one, "OPTIONS", 1, 4_294_967_295, &endless);
    assert_eq!(answer, "", "closed");
    assert!(answers(&mut other, 2));
}
