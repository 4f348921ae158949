//! Floods of requests, from many addresses and from one.

use std::net::UdpSocket;
use std::ops::Range;
use std::time::Duration;

use carrick_calls::PerAddress;

use crate::peer::{Peer, audio};
use crate::world::{MiddleboxMode, Side, World};

const SOON: Duration = Duration::from_millis(300);

/// Sends requests from a host that is no SIP server, each for another call.
pub(crate) fn flood(method: &str, socket: &UdpSocket, world: &World, numbers: Range<u32>) {
    flood_with(method, &audio("192.0.2.1", 4000), socket, world, numbers);
}

fn flood_with(method: &str, body: &str, socket: &UdpSocket, world: &World, numbers: Range<u32>) {
    let (from, to) = (socket.local_addr().unwrap(), world.caller.b2bua);
    for n in numbers {
        let request = format!(
            "{method} sip:bert@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK-f{n}\r\nFrom: <sip:eve@{from}>;tag={n}\r\nTo: <sip:bert@{to}>\r\nCall-ID: flood-{n}\r\nCSeq: 1 {method}\r\nContact: <sip:eve@{from}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.send_to(request.as_bytes(), to).unwrap();
    }
}

#[test]
fn overload_drops_invites_and_spares_calls() {
    let mut world = World::with(|config| config.max_calls = 1);
    world.established();
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    while world.counts().flooded == 0 {
        // Requests beyond the socket buffer are lost, possibly most of them.
        assert!(sent < 10_000_000, "{:?}", world.counts());
        flood("INVITE", &attacker, &world, sent..sent + 100);
        sent += 100;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(world.counts().too_many < 20_000, "{:?}", world.counts());
    // The socket buffer is full, so the BYE is retransmitted, as by Timer E (RFC 3261, section 17.1.2.2).
    world.caller.request("BYE", "");
    let mut repeats = 0;
    while !world.caller.receives("200", SOON) {
        repeats += 1;
        assert!(repeats < 20, "{:?}", world.counts());
        world.caller.repeat();
    }
    world.callee.expect_bye();
    world.assert_over();
}

/// RFC 3261, section 8.2.7
#[test]
fn requests_outside_calls_are_answered_statelessly() {
    let mut world = World::with(|config| config.max_calls = 2);
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    attacker.set_nonblocking(true).unwrap();
    let mut answers = 0;
    // More requests of each method than there is room for transactions.
    for n in 0..100 {
        for method in ["OPTIONS", "BYE", "MESSAGE"] {
            flood(method, &attacker, &world, n * 100..(n + 1) * 100);
        }
        std::thread::sleep(Duration::from_millis(10));
        while attacker.recv(&mut [0; 2048]).is_ok() {
            answers += 1;
        }
    }
    attacker.set_nonblocking(false).unwrap();
    until_answered(&attacker, &world);
    assert!(answers > 100, "{answers}");
    assert_eq!(world.counts().flooded, 0);
    world.established();
    world.hang_up(Side::Caller);
}

#[test]
fn flood_of_calls_spares_existing_calls() {
    let mut world = World::with(|config| config.max_calls = 1);
    world.established();
    let attacker = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    while world.counts().too_many <= 100 {
        assert!(sent < 100_000, "{}", world.counts().too_many);
        flood("INVITE", &attacker, &world, sent..sent + 100);
        sent += 100;
        // Without a pause, most of them would be lost in the socket buffer.
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(world.counts().calls, 1);
    world.caller.request("INFO", "dtmf");
    // Retransmitted if the socket buffer was full.
    let mut repeats = 0;
    let info = loop {
        match world.callee.next_within(Duration::from_millis(500)) {
            Some(message) if message.is("INFO") => break message,
            _ => {
                repeats += 1;
                assert!(repeats < 100, "{:?}", world.counts());
                world.caller.repeat();
            }
        }
    };
    world.callee.answer(&info, "200 OK", "");
    world.caller.expect("200");
    world.hang_up(Side::Caller);
}

/// Socket of a host that is no SIP server.
fn host(address: &str) -> UdpSocket {
    UdpSocket::bind((address, 0)).unwrap()
}

/// Waits until the agent has read all requests sent before: it reads them in order.
fn until_answered(socket: &UdpSocket, world: &World) {
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 4096];
    for n in 0..100 {
        let number = 1_000_000 + n;
        flood("OPTIONS", socket, world, number..number + 1);
        let own = format!("Call-ID: flood-{number}\r\n");
        while let Ok(length) = socket.recv(&mut buffer) {
            if String::from_utf8_lossy(&buffer[..length]).contains(&own) {
                return;
            }
        }
    }
    panic!("no answer: {:?}", world.counts());
}

/// Number of received messages that begin with `start`.
fn count(socket: &UdpSocket, start: &str) -> usize {
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 4096];
    let mut count = 0;
    while let Ok(length) = socket.recv(&mut buffer) {
        count += usize::from(buffer[..length].starts_with(start.as_bytes()));
    }
    count
}

#[test]
fn flood_from_one_address_spares_others() {
    let mut world = World::with(|config| {
        config.per_address = PerAddress {
            setups: 4,
            ..PerAddress::of_calls(100)
        };
    });
    let [attacker, other] = ["127.0.0.2", "127.0.0.3"].map(host);
    for n in 0..20 {
        flood("INVITE", &attacker, &world, n * 20..(n + 1) * 20);
        std::thread::sleep(Duration::from_millis(2));
    }
    world.until("refused", |world| world.counts().crowded > 100);
    let refused = count(&attacker, "SIP/2.0 503");
    assert!(refused > 10, "{refused}");
    assert_eq!(world.counts().calls, 4);
    until_answered(&attacker, &world);
    // Another host is served, and so are the SIP servers.
    flood("INVITE", &other, &world, 2000..2001);
    world.until("the call of the other host is accepted", |world| {
        world.counts().calls == 5
    });
    world.established();
    assert_eq!(world.counts().flooded, 0);
    assert_eq!(count(&other, "SIP/2.0 503"), 0);
}

/// RFC 3261, section 21.5.4
#[test]
fn refusal_per_address_has_retry_after() {
    let mut world = World::with(|config| config.per_address = PerAddress::of_calls(1));
    let mut stranger = Peer::new(world.caller.b2bua, host("127.0.0.2"));
    stranger.invite(&audio("192.0.2.1", 6000));
    let invite = world.caller.expect("INVITE");
    stranger.fresh();
    stranger.invite(&audio("192.0.2.1", 6000));
    let refused = stranger.expect("503");
    assert_eq!(refused.header("Retry-After"), "10");
    stranger.request("ACK", "");
    // The end of the first call makes room.
    world.caller.answer(&invite, "486 Busy Here", "");
    world.until("the first call is over", |world| world.counts().calls == 0);
    stranger.fresh();
    stranger.invite(&audio("192.0.2.1", 6000));
    world.caller.expect("INVITE");
}

#[test]
fn refused_calls_take_a_bounded_share_of_room() {
    let mut world = World::with(|config| config.max_calls = 8);
    let [attacker, other] = ["127.0.0.2", "127.0.0.3"].map(host);
    let useless = audio("host.example.net", 4000);
    let mut sent = 0;
    while world.counts().crowded <= 100 {
        // Requests beyond the socket buffer are lost, possibly most of them.
        assert!(sent < 1_000_000, "{:?}", world.counts());
        flood_with("INVITE", &useless, &attacker, &world, sent..sent + 20);
        sent += 20;
        std::thread::sleep(Duration::from_millis(2));
    }
    let offered = world.counts().offered;
    // An eighth of the transactions for this number of calls.
    assert!(offered <= (8 * 8 + 8192) / 8, "{offered}");
    until_answered(&attacker, &world);
    // Calls of the flood that still wait may take all eight places for a moment.
    let mut tries = 0;
    loop {
        flood("INVITE", &other, &world, sent..sent + 1);
        if world.caller.receives("INVITE", SOON) {
            break;
        }
        (sent, tries) = (sent + 1, tries + 1);
        assert!(tries < 100, "{:?}", world.counts());
    }
    assert_eq!(world.counts().flooded, 0);
}

#[test]
fn pinholes_per_address_are_bounded() {
    let mut world = World::with(|config| {
        config.per_address = PerAddress {
            pinholes: 1,
            ..PerAddress::of_calls(100)
        };
    });
    let mut strangers = ["127.0.0.2"; 2].map(|a| Peer::new(world.caller.b2bua, host(a)));
    let [first, second] = &mut strangers;
    let call = |stranger: &mut Peer, world: &mut World| {
        stranger.fresh();
        world.caller.fresh();
        stranger.invite(&audio("192.0.2.1", 6000));
        let invite = world.caller.expect("INVITE");
        world
            .caller
            .answer(&invite, "200 OK", &audio("10.0.0.1", 4000));
    };
    call(first, &mut world);
    let answer = first.expect("200");
    first.confirm(&answer);
    world.caller.expect("ACK");
    call(second, &mut world);
    let refused = second.expect("503");
    assert_eq!(refused.header("Retry-After"), "10");
    let why = refused.header("Reason");
    assert!(why.contains("too many pinholes"), "{why}");
    second.request("ACK", "");
    world.caller.expect_bye();
    assert_eq!((world.open().len(), world.counts().crowded), (1, 1));
    assert_eq!(world.counts().refused_by_middlebox, 0);
    // Pinholes that the middlebox refuses do not count.
    world.mode(MiddleboxMode::Refuse);
    first.request("BYE", "");
    first.expect("200");
    world.caller.expect_bye();
    world.assert_over();
    call(second, &mut world);
    second.expect("503");
    second.request("ACK", "");
    world.caller.expect_bye();
    world.mode(MiddleboxMode::Grant);
    call(second, &mut world);
    second.expect("200");
    assert_eq!(world.open().len(), 1);
}
