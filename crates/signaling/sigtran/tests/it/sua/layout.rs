//! Octets of messages, as the RFC draws them.

use carrick_sigtran::sua::*;

use super::samples::{CONTEXT, full, host, ip};
use crate::layer::expect;

/// Returns the full message of a kind.
fn sample(kind: carrick_sigtran::message::MessageKind) -> Message {
    let found = full().into_iter().find(|message| message.kind() == kind);
    found.expect("a message of the kind")
}

/// RFC 3868, section 3.2.1
#[test]
fn cldt_has_the_drawn_layout() {
    let octets: [&[u8]; 16] = [
        &[1, 0, 7, 1, 0, 0, 0, 144],
        &[0, 6, 0, 8, 0, 0, 0, 3],
        &[1, 0x15, 0, 8, 0, 0, 0, 0x81],
        // Source address on point code 2072 and SSN 8.
        &[1, 2, 0, 24, 0, 2, 0, 3],
        &[0x80, 2, 0, 8, 0, 0, 0x08, 0x18, 0x80, 3, 0, 8, 0, 0, 0, 8],
        // Destination address on global title 49170123456, with SSN 6.
        &[1, 3, 0, 36, 0, 1, 0, 5],
        &[0x80, 1, 0, 18, 0, 0, 0, 4, 11, 0, 1, 4],
        &[0x94, 0x71, 0x10, 0x32, 0x54, 0x06, 0, 0],
        &[0x80, 3, 0, 8, 0, 0, 0, 6],
        &[1, 0x16, 0, 8, 0, 0, 0, 9],
        &[1, 1, 0, 8, 0, 0, 0, 15],
        &[1, 0x13, 0, 8, 0, 0, 0, 7],
        &[1, 0x14, 0, 8, 0, 0, 0, 0xff],
        &[0, 0x13, 0, 8, 0, 0, 0, 99],
        &[1, 0x17, 0, 8, 0x82, 0x0a, 0x0b, 0x0c],
        &[1, 0x0b, 0, 9, b'1', b'2', b'3', b'4', b'5', 0, 0, 0],
    ];
    expect(&sample(kinds::CLDT), &octets);
}

/// RFC 3868, sections 3.10.2.6 and 3.10.2.7
#[test]
fn addresses_on_names_and_ip_have_the_drawn_layout() {
    let refused = |address| {
        Message::ConnectionRefused(ConnectionRefused {
            routing_context: CONTEXT,
            destination_reference: DestinationReferenceNumber(1),
            cause: RefusalCause::UNEQUIPPED_USER,
            source: Some(SourceAddress(address)),
            destination: None,
            importance: None,
            data: None,
        })
    };
    let begin = |length, address_length| {
        [
            &[1, 0, 8, 3, 0, 0, 0, length, 0, 6, 0, 8, 0, 0, 0, 3][..],
            &[1, 5, 0, 8, 0, 0, 0, 1, 1, 6, 0, 8, 0, 0, 2, 19],
            &[1, 2, 0, address_length],
        ]
        .concat()
    };
    let host_octets: [&[u8]; 4] = [
        &begin(72, 40),
        &[0, 3, 0, 0, 0x80, 3, 0, 8, 0, 0, 0, 6],
        &[0x80, 5, 0, 22],
        b"hlr-1.example.com\0\0\0",
    ];
    expect(&refused(host()), &host_octets);
    let v4: [&[u8]; 3] = [
        &begin(56, 24),
        &[0, 4, 0, 0, 0x80, 3, 0, 8, 0, 0, 0, 6],
        &[0x80, 4, 0, 8, 192, 0, 2, 1],
    ];
    expect(&refused(ip("192.0.2.1")), &v4);
    let v6: [&[u8]; 4] = [
        &begin(68, 36),
        &[0, 4, 0, 0, 0x80, 3, 0, 8, 0, 0, 0, 6],
        &[0x80, 6, 0, 20, 0x20, 1, 0x0d, 0xb8],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ];
    expect(&refused(ip("2001:db8::1")), &v6);
}

/// RFC 3868, sections 3.3.1, 3.3.2 and 3.10.7
#[test]
fn data_messages_have_the_drawn_layout() {
    let octets: [&[u8]; 7] = [
        &[1, 0, 8, 8, 0, 0, 0, 60],
        &[0, 6, 0, 8, 0, 0, 0, 3],
        &[1, 7, 0, 8, 0, 0, 5 << 1 | 1, 100 << 1],
        &[1, 5, 0, 8, 0, 1, 2, 3],
        &[1, 0x14, 0, 8, 0, 0, 0, 1],
        &[0, 0x13, 0, 8, 0, 0, 0, 99],
        &[1, 0x0b, 0, 9, b'1', b'2', b'3', b'4', b'5', 0, 0, 0],
    ];
    expect(&sample(kinds::CODT), &octets);
    let octets: [&[u8]; 5] = [
        &[1, 0, 8, 9, 0, 0, 0, 40],
        &[0, 6, 0, 8, 0, 0, 0, 3],
        &[1, 5, 0, 8, 0, 1, 2, 3],
        &[1, 8, 0, 8, 0, 0, 0, 100 << 1],
        &[1, 0x0a, 0, 8, 0, 0, 0, 12],
    ];
    expect(&sample(kinds::CODA), &octets);
}

/// RFC 3868, sections 3.4.1, 3.10.18 and 3.10.24
#[test]
fn scon_of_a_subsystem_has_the_drawn_layout() {
    let octets: [&[u8]; 7] = [
        &[1, 0, 2, 4, 0, 0, 0, 64],
        &[0, 6, 0, 8, 0, 0, 0, 1],
        &[0, 18, 0, 12, 0, 0, 0x13, 0xa5, 3, 0, 0x08, 0x18],
        &[0x80, 3, 0, 8, 0, 0, 0, 8],
        &[1, 0x18, 0, 8, 0, 0, 0, 3],
        &[1, 0x12, 0, 8, 0, 0, 0, 1],
        &[0, 4, 0, 11, b'c', b'a', b'r', b'r', b'i', b'c', b'k', 0],
    ];
    expect(&sample(kinds::SCON), &octets);
}

/// RFC 3868, sections 3.6.1, 3.10.15 and 3.10.16
#[test]
fn asp_active_has_the_drawn_layout() {
    let octets: [&[u8]; 6] = [
        &[1, 0, 4, 1, 0, 0, 0, 60],
        &[0, 11, 0, 8, 0, 0, 0, 2],
        &[0, 6, 0, 16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
        &[1, 0x10, 0, 8, 31, 28, 0, 3],
        &[1, 0x0f, 0, 8, 23, 8, 0, 4],
        &[0, 4, 0, 11, b'c', b'a', b'r', b'r', b'i', b'c', b'k', 0],
    ];
    expect(&sample(kinds::ASPAC), &octets);
}

/// RFC 3868, sections 3.9.20 and 3.9.21
#[test]
fn registration_results_have_the_drawn_layout() {
    let octets: [&[u8]; 4] = [
        &[1, 0, 9, 2, 0, 0, 0, 36, 0, 0x14, 0, 28],
        &[0, 0x18, 0, 8, 0, 0, 0, 5],
        &[0, 0x16, 0, 8, 0, 0, 0, 11],
        &[0, 6, 0, 8, 0, 0, 0, 0],
    ];
    expect(&sample(kinds::REG_RSP), &octets);
    let octets: [&[u8]; 3] = [
        &[1, 0, 9, 4, 0, 0, 0, 28, 0, 0x15, 0, 20],
        &[0, 6, 0, 8, 0, 0, 0, 1],
        &[0, 0x17, 0, 8, 0, 0, 0, 5],
    ];
    expect(&sample(kinds::DEREG_RSP), &octets);
}

/// RFC 3868, sections 3.10.9, 3.10.14 and 3.10.17
#[test]
fn routing_keys_have_the_drawn_layout() {
    let key = RoutingKey {
        local_id: LocalRoutingKeyIdentifier(1),
        traffic_mode: None,
        network_appearance: Some(NetworkAppearance(2)),
        source: None,
        destination: None,
        range: Some(AddressRange::Source(vec![[
            ip("192.0.2.1"),
            ip("192.0.2.9"),
        ]])),
    };
    let message = Message::RegistrationRequest(RegistrationRequest {
        routing_keys: vec![key],
        capabilities: Some(AspCapabilities {
            classes: [true, false, true, true],
            interworking: Interworking::RelayNode,
        }),
    });
    let octets: [&[u8]; 11] = [
        &[1, 0, 9, 1, 0, 0, 0, 88, 1, 0x0e, 0, 72],
        &[0, 0x18, 0, 8, 0, 0, 0, 1],
        &[1, 0x0d, 0, 8, 0, 0, 0, 2],
        &[1, 0x11, 0, 52],
        &[1, 2, 0, 24, 0, 4, 0, 0],
        &[0x80, 3, 0, 8, 0, 0, 0, 6],
        &[0x80, 4, 0, 8, 192, 0, 2, 1],
        &[1, 2, 0, 24, 0, 4, 0, 0],
        &[0x80, 3, 0, 8, 0, 0, 0, 6],
        &[0x80, 4, 0, 8, 192, 0, 2, 9],
        &[1, 9, 0, 8, 0, 0, 0x0d, 3],
    ];
    expect(&message, &octets);
}
