//! Requests that are wrong, early, repeated, branched, or too many.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use crate::peer::{World, audio};

const SOON: Duration = Duration::from_millis(300);

#[test]
fn what_a_request_must_not_have_is_told_rfc_3261_8_2() {
    let mut world = World::new();
    let offer = audio("10.0.0.1", 4000);
    for (header, status, told) in [
        ("Require: 100rel, timer", "420", ("Unsupported", "100rel")),
        (
            "Content-Type: multipart/mixed;boundary=x",
            "415",
            ("Accept", "application/sdp"),
        ),
        (
            "Content-Encoding: gzip",
            "415",
            ("Accept-Encoding", "identity"),
        ),
    ] {
        world.caller.more = vec![header.to_owned()];
        world.caller.invite(&offer);
        let refused = world.caller.expect(status);
        let (name, value) = told;
        assert!(refused.header(name).contains(value), "{refused:?}");
        world.caller.request("ACK", "");
        world.caller.fresh();
    }
    let many = format!("{offer}{}", "m=video 4002 RTP/AVP 96\r\n".repeat(16));
    world.caller.invite(&many);
    let refused = world.caller.expect("488");
    assert!(refused.header("Reason").contains("17 streams"));
    world.caller.request("ACK", "");
    world.caller.fresh();
    world.caller.hops = 0;
    world.caller.invite(&offer);
    world.caller.expect("483");
    assert!(!world.callee.hears("INVITE", SOON));
    world.assert_over();
}

#[test]
fn a_call_that_comes_back_to_the_agent_ends_by_max_forwards() {
    let mut world = World::with(|config| config.outer = Some(config.listen.into()));
    world.caller.hops = 10;
    world.caller.invite(&audio("10.0.0.1", 4000));
    world.caller.expect("483");
    world.caller.request("ACK", "");
    world.assert_over();
    assert_eq!(world.counts().offered, 11);
}

#[test]
fn what_comes_before_the_answer_is_to_be_tried_again_rfc_3311_5_2() {
    let mut world = World::new();
    world.caller.invite(&audio("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world.callee.answer(&invite, "180 Ringing", "");
    let ringing = world.caller.expect("180");
    world.caller.join(&ringing);
    for method in ["UPDATE", "INVITE", "INFO"] {
        world.caller.request(method, &audio("10.0.0.1", 4400));
        let refused = world.caller.expect("500");
        assert_eq!(refused.header("Retry-After"), "2");
        if method == "INVITE" {
            world.caller.request("ACK", "");
        }
    }
    // BYE is not too early (RFC 3261 section 15).
    world.caller.request("BYE", "");
    world.caller.expect("200");
    world.caller.expect("487");
    let cancel = world.callee.expect("CANCEL");
    world.callee.answer(&cancel, "200 OK", "");
    world.callee.answer(&invite, "487 Request Terminated", "");
    world.assert_over();
}

#[test]
fn a_repeated_invite_is_the_same_call() {
    let mut world = World::new();
    world.caller.invite(&audio("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    world.caller.repeat();
    world.caller.repeat();
    assert!(!world.callee.hears("INVITE", SOON));
    assert_eq!(world.counts().offered, 1);
    world.callee.answer(&invite, "486 Busy Here", "");
    world.caller.expect("486");
}

#[test]
fn of_branches_that_ring_the_last_is_heard_and_the_one_that_answers_stays() {
    let mut world = World::new();
    world.caller.invite(&audio("10.0.0.1", 4000));
    let invite = world.callee.expect("INVITE");
    for (tag, port) in [("one", 7000), ("two", 7100), ("three", 7200)] {
        world.callee.branch = Some(tag.to_owned());
        let body = audio("192.0.2.7", port);
        world.callee.answer(&invite, "183 Session Progress", &body);
        let early = world.caller.expect_again("183");
        assert_eq!(early.body(), body);
        world.until(tag, |world| {
            world.open() == [format!("10.0.0.1:4000 192.0.2.7:{port} 2")]
        });
    }
    world
        .callee
        .answer(&invite, "200 OK", &audio("192.0.2.1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("the answer's", |world| {
        world.open() == ["10.0.0.1:4000 192.0.2.1:6000 2"]
    });
    // A second branch that answers is ended (RFC 3261 section 13.2.2.4).
    world.callee.expect("ACK");
    world.callee.branch = Some("two".to_owned());
    world
        .callee
        .answer(&invite, "200 OK", &audio("192.0.2.7", 7100));
    let bye = world.callee.expect("BYE");
    assert!(bye.header("To").contains("tag=two"), "{bye:?}");
    world.callee.answer(&bye, "200 OK", "");
    assert_eq!(world.counts().calls, 1);
}

#[test]
fn a_challenge_goes_to_the_caller_and_the_credentials_to_the_callee() {
    let mut world = World::new();
    let offer = audio("10.0.0.1", 4000);
    world.caller.invite(&offer);
    let invite = world.callee.expect("INVITE");
    let challenge = "Digest realm=\"there\", nonce=\"7\"";
    world.callee.more = vec![format!("WWW-Authenticate: {challenge}")];
    world.callee.answer(&invite, "401 Unauthorized", "");
    let asked = world.caller.expect("401");
    assert_eq!(asked.header("WWW-Authenticate"), challenge);
    world.caller.request("ACK", "");
    let credentials = "Digest username=\"anna\", realm=\"there\", nonce=\"7\", uri=\"sip:bert@there\", response=\"0\"";
    world.caller.more = vec![format!("Authorization: {credentials}")];
    world.caller.request("INVITE", &offer);
    let invite = world.callee.expect("INVITE");
    assert_eq!(invite.header("Authorization"), credentials);
    world
        .callee
        .answer(&invite, "200 OK", &audio("192.0.2.1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.until("established", |world| world.counts().established == 1);
}

/// Sends INVITEs of a stranger, each for another call.
fn invites(socket: &UdpSocket, world: &World, numbers: Range<u32>) {
    let (from, to) = (socket.local_addr().unwrap(), world.caller.b2bua);
    let body = audio("10.0.0.1", 4000);
    for n in numbers {
        let invite = format!(
            "INVITE sip:bert@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK-f{n}\r\nFrom: <sip:eve@{from}>;tag={n}\r\nTo: <sip:bert@{to}>\r\nCall-ID: flood-{n}\r\nCSeq: 1 INVITE\r\nContact: <sip:eve@{from}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.send_to(invite.as_bytes(), to).unwrap();
    }
}

#[test]
fn what_is_too_much_even_to_refuse_is_dropped_unread_and_harms_no_call() {
    let mut world = World::with(|config| config.max_calls = 1);
    world.established();
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    while world.counts().flooded == 0 {
        assert!(sent < 200_000, "{:?}", world.counts());
        invites(&flood, &world, sent..sent + 100);
        sent += 100;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(world.counts().too_many < 20_000, "{:?}", world.counts());
    world.caller.request("BYE", "");
    world.caller.expect("200");
    let bye = world.callee.expect("BYE");
    world.callee.answer(&bye, "200 OK", "");
    world.assert_over();
}

#[test]
fn a_flood_of_calls_is_refused_and_harms_no_other() {
    let mut world = World::with(|config| config.max_calls = 1);
    world.established();
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    invites(&flood, &world, 0..500);
    // Some find no room in the socket.
    world.until("refused", |world| world.counts().too_many > 100);
    assert_eq!(world.counts().calls, 1);
    world.caller.request("INFO", "dtmf");
    let info = world.callee.expect("INFO");
    world.callee.answer(&info, "200 OK", "");
    world.caller.expect("200");
    world.caller.request("BYE", "");
    world.caller.expect("200");
    let bye = world.callee.expect("BYE");
    world.callee.answer(&bye, "200 OK", "");
    world.assert_over();
}

/// Whether an OPTIONS over a connection is answered.
fn answers(connection: &mut TcpStream, number: u32) -> bool {
    let local = connection.local_addr().unwrap();
    let asked = format!(
        "OPTIONS sip:agent@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK-{number}\r\nFrom: <sip:a@{local}>;tag=1\r\nTo: <sip:agent@127.0.0.1>\r\nCall-ID: options-{local}\r\nCSeq: {number} OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(asked.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let length = connection.read(&mut answer).unwrap();
    answer[..length].starts_with(b"SIP/2.0 200 ")
}

#[test]
fn connections_are_bounded_and_those_that_are_there_go_on() {
    let world = World::with(|config| config.max_connections = 2);
    let connect = || {
        let connection = TcpStream::connect(world.caller.b2bua).unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        connection
    };
    let [mut one, mut two] = [connect(), connect()];
    assert!(answers(&mut one, 1) && answers(&mut two, 1));
    let closed = connect().read(&mut [0; 1]).unwrap();
    assert_eq!(closed, 0, "the third is closed");
    assert!(answers(&mut one, 2) && answers(&mut two, 2));
}

#[test]
fn what_is_no_sip_does_no_harm() {
    let mut world = World::new();
    let to = world.caller.b2bua;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = format!("INVITE sip:bert@{to} SIP/2.0\r\n");
    for octets in [
        b"".to_vec(),
        vec![0; 4000],
        vec![0xff; 4000],
        b"\r\n\r\n".to_vec(),
        start.clone().into_bytes(),
        format!("{start}Via: ;;;\r\nFrom: \r\nTo: <\r\nCall-ID: \r\nCSeq: x\r\n\r\n").into_bytes(),
        format!("{start}Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: 1\r\nCSeq: 99999999999 INVITE\r\nContent-Length: 4294967295\r\n\r\nv=0\r\n").into_bytes(),
        format!("{start}{}\r\n", "X: y\r\n".repeat(1000)).into_bytes(),
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n".to_vec(),
    ] {
        stranger.send_to(&octets, to).unwrap();
    }
    // Without a Contact there is nowhere to send requests to.
    let from = world.caller.address;
    world.caller.send(format!("{start}Via: SIP/2.0/UDP {from};branch=z9hG4bK2\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: 2\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n").as_bytes());
    world.caller.expect("400");
    world.established();
    assert_eq!(world.open().len(), 1);
}

#[test]
fn calls_go_over_ipv6_as_well() {
    let mut world = World::on("::1", |config| {
        config.internal.push("fd00::/16".parse().unwrap());
    });
    let six = |address: &str, port: u16| audio(address, port).replace("IP4", "IP6");
    world.caller.invite(&six("fd00::1", 4000));
    let invite = world.callee.expect("INVITE");
    world
        .callee
        .answer(&invite, "200 OK", &six("2001:db8::1", 6000));
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    assert_eq!(world.open(), ["[fd00::1]:4000 [2001:db8::1]:6000 2"]);
    world.callee.request("BYE", "");
    world.callee.expect("200");
    let bye = world.caller.expect("BYE");
    world.caller.answer(&bye, "200 OK", "");
    world.assert_over();
}
