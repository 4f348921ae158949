//! Messages of Mobile IP with arbitrary contents, arbitrary bytes and bit errors.

use std::net::Ipv4Addr;

use bytes::Bytes;
use carrick_netsim::mobile::{
    AgentAdvertisement, AgentFlags, AuthenticationKind, DiscoveryMessage, Identification,
    MessageError, RegistrationReply, RegistrationRequest, ReplyCode, RequestFlags, RouterAddress,
    SecurityAssociation, SignedMessage, solicitation,
};
use carrick_netsim::{Packet, Protocol};
use proptest::collection::vec;
use proptest::prelude::*;

fn association() -> SecurityAssociation {
    SecurityAssociation::new(1000, b"sixteen bytes or more").expect("a valid key")
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from_bits)
}

fn request() -> impl Strategy<Value = RegistrationRequest> {
    let flags = any::<[bool; 7]>().prop_map(|[s, b, d, m, g, t, x]| RequestFlags {
        simultaneous: s,
        broadcasts: b,
        decapsulation: d,
        minimal: m,
        gre: g,
        reverse_tunnel: t,
        reserved: x,
    });
    let fields = (
        flags,
        any::<u16>(),
        address(),
        address(),
        address(),
        any::<u64>(),
    );
    fields.prop_map(|(flags, lifetime, home_address, home_agent, care_of, id)| {
        RegistrationRequest {
            flags,
            lifetime,
            home_address,
            home_agent,
            care_of,
            identification: Identification(id),
        }
    })
}

fn reply() -> impl Strategy<Value = RegistrationReply> {
    let fields = (
        any::<u8>(),
        any::<u16>(),
        address(),
        address(),
        any::<u64>(),
    );
    fields.prop_map(
        |(code, lifetime, home_address, home_agent, id)| RegistrationReply {
            code: ReplyCode(code),
            lifetime,
            home_address,
            home_agent,
            identification: Identification(id),
        },
    )
}

fn advertisement() -> impl Strategy<Value = AgentAdvertisement> {
    let router = (address(), any::<i32>());
    let routers = vec(router, 0..5).prop_map(|all| {
        let entry = |(address, preference)| RouterAddress {
            address,
            preference,
        };
        all.into_iter().map(entry).collect::<Vec<_>>()
    });
    let fields = (
        any::<[bool; 7]>(),
        any::<[u16; 3]>(),
        routers,
        vec(address(), 1..4),
        any::<Option<u8>>(),
    );
    fields.prop_map(
        |([common, r, b, h, m, g, t], numbers, routers, care_of, prefix)| AgentAdvertisement {
            routes_common_traffic: common,
            lifetime: numbers[0],
            prefix_lengths: prefix.map_or(Vec::new(), |p| vec![p; routers.len()]),
            routers,
            sequence: numbers[1],
            registration_lifetime: numbers[2],
            flags: AgentFlags {
                registration_required: r,
                busy: b,
                home_agent: h,
                foreign_agent: true,
                minimal: m,
                gre: g,
                reverse_tunnel: t,
            },
            care_of,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// RFC 5944, section 3.3
    #[test]
    fn requests_round_trip_and_no_prefix_is_authentic(request in request()) {
        let bytes = request.to_bytes(&association());
        let read = SignedMessage::<RegistrationRequest>::parse(&bytes).expect("a request");
        prop_assert_eq!(read.message, request);
        prop_assert!(read.is_authentic(AuthenticationKind::MobileHome, &association()));
        prop_assert_eq!(read.for_relay(), Some(bytes.clone()));
        for len in 0..bytes.len() {
            if let Ok(cut) = SignedMessage::<RegistrationRequest>::parse(&bytes.slice(..len)) {
                prop_assert_eq!(len, 24, "only the fixed part is a message");
                prop_assert!(!cut.has(AuthenticationKind::MobileHome));
                prop_assert_eq!(cut.for_relay(), None);
            }
        }
    }

    /// RFC 5944, section 3.4
    #[test]
    fn replies_round_trip(reply in reply()) {
        for key in [None, Some(&association())] {
            let read = SignedMessage::<RegistrationReply>::parse(&reply.to_bytes(key)).expect("a reply");
            prop_assert_eq!(read.message, reply);
            let authentic = read.is_authentic(AuthenticationKind::MobileHome, &association());
            prop_assert_eq!(authentic, key.is_some());
        }
    }

    /// RFC 5944, section 3.5.1
    #[test]
    fn every_bit_error_invalidates_the_authentication(request in request(), bit in 0..46_usize * 8) {
        let mut bytes = request.to_bytes(&association()).to_vec();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        if let Ok(read) = SignedMessage::<RegistrationRequest>::parse(&bytes.into()) {
            // The bit r is ignored, but authenticated.
            prop_assert!(!read.is_authentic(AuthenticationKind::MobileHome, &association()));
        }
    }

    /// RFC 5944, section 3.7.2.2
    #[test]
    fn data_after_the_extension_is_not_relayed(request in request(), more in vec(any::<u8>(), 0..50)) {
        let signed = request.to_bytes(&association());
        let mut bytes = signed.to_vec();
        bytes.extend_from_slice(&[200, more.len() as u8]);
        bytes.extend_from_slice(&more);
        let read = SignedMessage::<RegistrationRequest>::parse(&bytes.into()).expect("a request");
        prop_assert!(read.is_authentic(AuthenticationKind::MobileHome, &association()));
        prop_assert_eq!(read.for_relay(), Some(signed));
    }

    /// RFC 5944, section 2.1
    #[test]
    fn advertisements_round_trip_and_no_prefix_is_valid(wanted in advertisement()) {
        let packet = wanted.to_packet([10, 0, 0, 1].into(), [224, 0, 0, 1].into());
        prop_assert_eq!(packet.ttl, 1);
        prop_assert_eq!(DiscoveryMessage::parse(&packet), Ok(DiscoveryMessage::Advertisement(wanted)));
        for len in 0..packet.payload.len() {
            let mut cut = packet.clone();
            cut.payload = packet.payload.slice(..len);
            let read = DiscoveryMessage::parse(&cut);
            // The checksum fails unless only zeros are cut off.
            let rest = &packet.payload[len..];
            prop_assert!(read.is_err() || rest.iter().all(|byte| *byte == 0), "{:?}", read);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), kind in 0..16_u8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let message = Bytes::from(bytes.clone());
        let read = SignedMessage::<RegistrationRequest>::parse(&message);
        prop_assert!(read.is_err() || (kind == 1 && message.len() >= 24));
        let read = SignedMessage::<RegistrationReply>::parse(&message);
        prop_assert!(read.is_err() || (kind == 3 && message.len() >= 20));
        // A valid checksum makes the parser process the rest, too.
        if bytes.len() >= 4 {
            bytes[2..4].fill(0);
            let sum = checksum(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut packet = Packet::new(ends.0, ends.1, Protocol::Icmp, bytes);
        packet.ttl = 1;
        if let Ok(DiscoveryMessage::Advertisement(read)) = DiscoveryMessage::parse(&packet) {
            prop_assert!(read.flags.home_agent || read.flags.foreign_agent);
            prop_assert!(!read.flags.foreign_agent || !read.care_of.is_empty());
        }
    }
}

/// The Internet checksum, byte by byte.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(pair[0]) << 8 | u32::from(low)
    });
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// RFC 5944, section 2.2
#[test]
fn solicitations_from_beyond_the_link_are_rejected() {
    let mut packet = solicitation([10, 0, 0, 7].into());
    assert_eq!(
        DiscoveryMessage::parse(&packet),
        Ok(DiscoveryMessage::Solicitation)
    );
    packet.ttl = 2;
    assert_eq!(DiscoveryMessage::parse(&packet), Err(MessageError::Header));
}

/// RFC 5944, section 2.4
#[test]
fn a_plain_router_is_not_an_agent() {
    let mut message = vec![9, 0, 0, 0, 1, 2, 0, 30, 10, 0, 0, 1, 0, 0, 0, 0];
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ends = ([10, 0, 0, 1].into(), [224, 0, 0, 1].into());
    let mut packet = Packet::new(ends.0, ends.1, Protocol::Icmp, message);
    packet.ttl = 1;
    assert_eq!(DiscoveryMessage::parse(&packet), Err(MessageError::NoAgent));
}

/// RFC 5944, section 1.8
#[test]
fn unknown_extensions_are_skipped_from_type_128_on() {
    let request = RegistrationRequest {
        flags: RequestFlags::default(),
        lifetime: 1,
        home_address: [10, 0, 0, 7].into(),
        home_agent: [10, 0, 0, 1].into(),
        care_of: [10, 1, 0, 1].into(),
        identification: Identification(1),
    };
    let with = |more: &[u8]| {
        let mut bytes = request.to_bytes(&association()).to_vec();
        bytes.extend_from_slice(more);
        SignedMessage::<RegistrationRequest>::parse(&bytes.into())
            .map(|read| read.extensions().len())
    };
    assert_eq!(with(&[128, 0]), Ok(2));
    assert_eq!(with(&[127, 0]), Err(MessageError::Extension(127)));
    assert_eq!(with(&[128, 1]), Err(MessageError::Truncated));
    assert_eq!(with(&[128]), Err(MessageError::Truncated));
    assert_eq!(with(&[33, 4, 0, 0, 0, 0]), Err(MessageError::Length));
    assert_eq!(
        with(&[128, 0].repeat(16)),
        Err(MessageError::TooManyExtensions)
    );
}

/// RFC 5944, section 3.6.2.1
#[test]
fn a_second_authentication_extension_is_rejected() {
    let request = RegistrationRequest {
        flags: RequestFlags::default(),
        lifetime: 1,
        home_address: [10, 0, 0, 7].into(),
        home_agent: [10, 0, 0, 1].into(),
        care_of: [10, 1, 0, 1].into(),
        identification: Identification(1),
    };
    let mut twice = request.to_bytes(&association()).to_vec();
    association().sign(AuthenticationKind::MobileHome, &mut twice);
    let read = SignedMessage::<RegistrationRequest>::parse(&twice.into()).expect("a request");
    assert!(!read.is_authentic(AuthenticationKind::MobileHome, &association()));
    let other = SecurityAssociation::new(1001, b"sixteen bytes or more").expect("a valid key");
    let bytes = request.to_bytes(&other);
    let read = SignedMessage::<RegistrationRequest>::parse(&bytes).expect("a request");
    assert!(
        !read.is_authentic(AuthenticationKind::MobileHome, &association()),
        "another SPI"
    );
}
