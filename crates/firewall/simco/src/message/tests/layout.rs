//! Messages encoded by hand from the figures of RFC 4540.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::super::*;

const TID: TransactionId = TransactionId(0x0102_0304);

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect::<Vec<u8>>().into()
}

fn request(request: &Request, bytes: &str) {
    let bytes = hex(bytes);
    assert_eq!(request.to_bytes(TID), bytes, "{request:?}");
    assert_eq!(Request::parse(&bytes), Ok((TID, request.clone())));
}

fn from_middlebox(message: FromMiddlebox, bytes: &str) {
    let bytes = hex(bytes);
    let written = match &message {
        FromMiddlebox::Reply(reply) => reply.to_bytes(TID),
        FromMiddlebox::Notification(notification) => notification.to_bytes(TID),
    };
    assert_eq!(written, bytes, "{message:?}");
    assert_eq!(FromMiddlebox::parse(&bytes), Ok((TID, message)));
}

fn reply(reply: Reply, bytes: &str) {
    from_middlebox(FromMiddlebox::Reply(reply), bytes);
}

fn challenge() -> Challenge {
    Challenge::new(Bytes::from_static(b"abc")).unwrap()
}

fn token() -> Token {
    Token::new(Bytes::from_static(b"\x01")).unwrap()
}

fn owner() -> Owner {
    Owner::new(Bytes::from_static(b"b2bua")).unwrap()
}

fn v4(location: Location, last: u8, port: u16, ports: u16) -> AddressTuple {
    AddressTuple::range(
        location,
        17,
        Ipv4Addr::new(192, 0, 2, last).into(),
        port,
        ports,
    )
}

const INTERNAL: &str = "0009 000c 01 20 11 00 4000 0002 c0000201";
const EXTERNAL: &str = "0009 000c 01 20 11 03 5000 0002 c0000202";

fn internal() -> AddressTuple {
    v4(Location::Internal, 1, 0x4000, 2)
}

fn external() -> AddressTuple {
    v4(Location::External, 2, 0x5000, 2)
}

fn enable(group: Option<GroupId>) -> EnableRequest {
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Same,
            direction: Direction::Both,
        },
        internal: internal(),
        external: external(),
        lifetime: Lifetime(120),
        group,
    }
}

/// RFC 4540, section 5.2
#[test]
fn session_requests_have_their_layout() {
    let version = VERSION;
    let plain = Request::Establish {
        version,
        challenge: None,
    };
    request(&plain, "0101 0008 01020304 0001 0004 03 00 0000");
    let challenged = Request::Establish {
        version,
        challenge: Some(challenge()),
    };
    let bytes = "0101 000f 01020304 0001 0004 03000000 0002 0003 616263";
    request(&challenged, bytes);
    request(&Request::Authenticate(None), "0102 0000 01020304");
    let authenticate = Request::Authenticate(Some(token()));
    request(&authenticate, "0102 0005 01020304 0003 0001 01");
    request(&Request::Terminate, "0103 0000 01020304");
}

/// RFC 4540, section 5.2
#[test]
fn session_replies_have_their_layout() {
    let napt = Capabilities {
        packet_filter: true,
        address_translator: true,
        disable_rules: true,
        port_translation: true,
        external_address_wildcards: true,
        port_wildcards: true,
        internal_v4: true,
        external_v4: true,
        external_v6: true,
        max_lifetime: Lifetime(3600),
        ..Capabilities::default()
    };
    // Example of RFC 4540, section 4.3.3.
    let bytes = "0201 000c 01020304 0004 0008 d1 67 0000 00000e10";
    reply(Reply::Established(napt), bytes);
    let both = Reply::Authenticate {
        challenge: Some(challenge()),
        token: Some(Token::default()),
    };
    reply(both, "0202 000b 01020304 0002 0003 616263 0003 0000");
    reply(Reply::Terminated, "0203 0000 01020304");
    let other = ProtocolVersion { major: 2, minor: 9 };
    let mismatch = Reply::Negative(NegativeReply::VersionMismatch(other));
    reply(mismatch, "0322 0008 01020304 0001 0004 02090000");
}

/// RFC 4540, section 5.3
#[test]
fn rule_requests_have_their_layout() {
    let reserve = ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Twice,
            parity: Parity::Even,
            inside: Some(IpVersion::V4),
            outside: Some(IpVersion::V6),
            protocol: 17,
            ports: 2,
        },
        lifetime: Lifetime(30),
        group: Some(GroupId(7)),
    };
    let bytes = "0111 0018 01020304 000a 0004 a6 11 0002 0007 0004 0000001e 0006 0004 00000007";
    request(&Request::Reserve(reserve), bytes);

    let per = format!(
        "0112 0038 01020304 000b 0004 03 03 0000 {INTERNAL} {EXTERNAL} 0007 0004 00000078 \
         0006 0004 00000009"
    );
    request(&Request::Enable(enable(Some(GroupId(9)))), &per);
    let pea = format!(
        "0113 0038 01020304 000b 0004 03 03 0000 {INTERNAL} {EXTERNAL} 0007 0004 00000078 \
         0005 0004 00000009"
    );
    let reserved = Request::EnableReserved {
        enable: enable(None),
        rule: PolicyRuleId(9),
    };
    request(&reserved, &pea);
    let disable = DisableRequest {
        internal: AddressTuple {
            location: Location::Internal,
            protocol: 0,
            scope: Scope::ProtocolsOnly(IpVersion::V6),
        },
        external: external(),
        lifetime: Lifetime(1),
    };
    let pdr = format!("0114 0020 01020304 0009 0004 12 00 00 00 {EXTERNAL} 0007 0004 00000001");
    request(&Request::Disable(disable), &pdr);
    let change = Request::ChangeLifetime {
        rule: PolicyRuleId(5),
        lifetime: Lifetime(0),
    };
    request(
        &change,
        "0115 0010 01020304 0005 0004 00000005 0007 0004 00000000",
    );
    request(
        &Request::Status(PolicyRuleId(5)),
        "0121 0008 01020304 0005 0004 00000005",
    );
    request(&Request::List, "0122 0000 01020304");
}

/// RFC 4540, section 4.3.8
#[test]
fn ipv6_tuple_has_24_octets() {
    let address: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
    let disable = DisableRequest {
        internal: AddressTuple::single(Location::Internal, 6, address, 80),
        external: AddressTuple {
            location: Location::External,
            protocol: 6,
            scope: Scope::Full {
                address,
                prefix: 32,
                port: 0,
                ports: 1,
            },
        },
        lifetime: Lifetime(1),
    };
    let v6 = "20010db8 00000000 00000000 00000001";
    let bytes = format!(
        "0114 0040 01020304 0009 0018 02 80 06 00 0050 0001 {v6} 0009 0018 02 20 06 03 0000 0001 \
         {v6} 0007 0004 00000001"
    );
    request(&Request::Disable(disable), &bytes);
}

/// RFC 4540, section 5.3
#[test]
fn rule_replies_have_their_layout() {
    let outside = internal().at(Location::Outside);
    let inside = external().at(Location::Inside);
    let outside_bytes = "0009 000c 01 20 11 02 4000 0002 c0000201";
    let inside_bytes = "0009 000c 01 20 11 01 5000 0002 c0000202";
    let head = "0005 0004 00000005 0006 0004 00000006 0007 0004 00000078";
    let reserved = ReserveReply {
        rule: PolicyRuleId(5),
        group: GroupId(6),
        lifetime: Lifetime(120),
        outside,
        inside: None,
    };
    reply(
        Reply::Reserved(reserved),
        &format!("0211 0028 01020304 {head} {outside_bytes}"),
    );
    let enabled = EnableReply {
        rule: reserved.rule,
        group: reserved.group,
        lifetime: reserved.lifetime,
        outside,
        inside: Some(inside),
    };
    reply(
        Reply::Enabled(enabled),
        &format!("0212 0038 01020304 {head} {outside_bytes} {inside_bytes}"),
    );
    let disabled = Reply::Disabled {
        rule: PolicyRuleId(5),
        lifetime: Lifetime(120),
    };
    reply(
        disabled,
        "0214 0010 01020304 0005 0004 00000005 0007 0004 00000078",
    );
    let changed = Reply::LifetimeChanged(Lifetime(120));
    reply(changed, "0215 0008 01020304 0007 0004 00000078");
    reply(Reply::Deleted, "0216 0000 01020304");
    let status = Reply::ReserveStatus {
        reserved,
        owner: owner(),
    };
    let owner_bytes = "0008 0005 6232627561";
    reply(
        status,
        &format!("0221 0031 01020304 {head} {outside_bytes} {owner_bytes}"),
    );
    let list = RuleList::new(vec![PolicyRuleId(1), PolicyRuleId(2)]).unwrap();
    reply(
        Reply::List(list),
        "0222 0010 01020304 0005 0004 00000001 0005 0004 00000002",
    );
    let status = EnableStatus {
        enabled,
        parameters: enable(None).parameters,
        internal: internal(),
        external: external(),
        owner: owner(),
    };
    let bytes = format!(
        "0223 0069 01020304 0005 0004 00000005 0006 0004 00000006 000b 0004 03030000 {INTERNAL} \
         {inside_bytes} {outside_bytes} {EXTERNAL} 0007 0004 00000078 {owner_bytes}"
    );
    reply(Reply::EnableStatus(Box::new(status)), &bytes);
    let status = Reply::DisableStatus {
        rule: PolicyRuleId(5),
        disable: DisableRequest {
            internal: internal(),
            external: external(),
            lifetime: Lifetime(120),
        },
        owner: owner(),
    };
    let bytes = format!(
        "0224 0039 01020304 0005 0004 00000005 {INTERNAL} {EXTERNAL} 0007 0004 00000078 {owner_bytes}"
    );
    reply(status, &bytes);
}

/// RFC 4540, section 4.2.3
#[test]
fn negative_replies_have_their_layout() {
    assert_eq!(NegativeReply::PLAIN.len(), 35);
    for negative in NegativeReply::PLAIN {
        let bytes = format!("03 {:02x} 0000 01020304", negative.code());
        reply(Reply::Negative(*negative), &bytes);
        assert!(!negative.text().is_empty());
    }
    let codes: Vec<u8> = NegativeReply::PLAIN.iter().map(|n| n.code()).collect();
    let expected = [0x10..=0x13, 0x20..=0x21, 0x23..=0x26, 0x40..=0x58];
    assert_eq!(codes, expected.into_iter().flatten().collect::<Vec<u8>>());
}

/// RFC 4540, sections 5.1.1, 5.2.7 and 5.3.19
#[test]
fn notifications_have_their_layout() {
    let reported = |notification, bytes| {
        from_middlebox(FromMiddlebox::Notification(notification), bytes);
    };
    reported(Notification::BadlyFormedMessage, "0401 0000 01020304");
    reported(Notification::SessionTerminated, "0402 0000 01020304");
    let event = Notification::RuleEvent {
        rule: PolicyRuleId(5),
        lifetime: Lifetime(0),
    };
    reported(
        event,
        "0403 0010 01020304 0005 0004 00000005 0007 0004 00000000",
    );
}
