//! Octets of messages, as the RFC draws them.

use bytes::Bytes;
use carrick_sigtran::m3ua::*;

use crate::samples::{affected, code, contexts, data};

fn expect(message: &Message, octets: &[&[u8]]) {
    assert_eq!(
        message.encode().expect("a message that fits")[..],
        octets.concat()
    );
    assert_eq!(
        Message::decode(&Bytes::from(octets.concat())).as_ref(),
        Ok(message)
    );
}

/// RFC 4666, section 3.3.1
#[test]
fn data_has_the_drawn_layout() {
    let message = Data {
        network_appearance: Some(NetworkAppearance(0x0102_0304)),
        correlation_id: Some(CorrelationId(9)),
        ..data(5, &[0xaa, 0xbb, 0xcc])
    };
    let octets: [&[u8]; 8] = [
        &[1, 0, 1, 1, 0, 0, 0, 52],
        &[2, 0, 0, 8, 1, 2, 3, 4],
        &[0, 6, 0, 8, 0, 0, 0, 1],
        &[2, 16, 0, 19, 0, 0, 0x08, 0x18],
        &[0, 0, 0x13, 0xa5, 3, 2, 0, 5],
        &[0xaa, 0xbb, 0xcc, 0],
        &[0, 19, 0, 8, 0, 0, 0, 9],
        &[],
    ];
    expect(&Message::Data(message), &octets);
}

/// RFC 4666, section 3.4.1
#[test]
fn affected_point_codes_have_masks() {
    let message = DestinationState {
        network_appearance: None,
        routing_contexts: contexts(&[1, 2]),
        affected: affected(),
        info: InfoString::new(""),
    };
    let octets: [&[u8]; 4] = [
        &[1, 0, 2, 1, 0, 0, 0, 36],
        &[0, 6, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2],
        &[0, 18, 0, 12, 0, 0, 0x13, 0xa5, 3, 0, 0x08, 0x18],
        &[0, 4, 0, 4],
    ];
    expect(&Message::DestinationUnavailable(message), &octets);
}

/// RFC 4666, section 3.4.1: the mask is the number of wildcarded bits
#[test]
fn masks_select_ranges() {
    let range = AffectedPointCode {
        mask: 3,
        point_code: code(0x0818),
    };
    assert!(range.contains(code(0x0818)) && range.contains(code(0x081f)));
    assert!(!range.contains(code(0x0817)) && !range.contains(code(0x0820)));
    let network = AffectedPointCode {
        mask: 14,
        point_code: code(1),
    };
    assert!(network.contains(code(0x3fff)));
    assert!(AffectedPointCode::ALL.contains(PointCode::MAX));
    assert!(range.overlaps(network) && network.overlaps(range));
    assert!(!range.overlaps(AffectedPointCode::single(code(0x0820))));
}

/// RFC 4666, section 3.4.4
#[test]
fn scon_has_the_drawn_layout() {
    let message = SignallingCongestion {
        network_appearance: None,
        routing_contexts: None,
        affected: AffectedPointCodes(vec![AffectedPointCode::single(code(1))]),
        concerned: Some(ConcernedDestination(code(2))),
        level: CongestionLevel::new(3),
        info: None,
    };
    let octets: [&[u8]; 4] = [
        &[1, 0, 2, 4, 0, 0, 0, 32],
        &[0, 18, 0, 8, 0, 0, 0, 1],
        &[2, 6, 0, 8, 0, 0, 0, 2],
        &[2, 5, 0, 8, 0, 0, 0, 3],
    ];
    expect(&Message::SignallingCongestion(message), &octets);
}

/// RFC 4666, section 3.4.5
#[test]
fn dupu_has_the_drawn_layout() {
    let message = UserPartUnavailable {
        network_appearance: None,
        routing_contexts: None,
        affected: UnavailableUserPart(code(1)),
        user_cause: UserCause {
            cause: UnavailabilityCause::INACCESSIBLE,
            user: UserIdentity::SCCP,
        },
        info: None,
    };
    let octets: [&[u8]; 3] = [
        &[1, 0, 2, 5, 0, 0, 0, 24],
        &[0, 18, 0, 8, 0, 0, 0, 1],
        &[2, 4, 0, 8, 0, 2, 0, 3],
    ];
    expect(&Message::UserPartUnavailable(message), &octets);
}

/// RFC 4666, section 3.6.1
#[test]
fn routing_keys_group_their_destinations() {
    let key = RoutingKey {
        local_id: LocalRoutingKeyIdentifier(1),
        routing_context: None,
        traffic_mode: Some(TrafficMode::BROADCAST),
        network_appearance: Some(NetworkAppearance(3)),
        destinations: vec![
            RoutingKeyDestination {
                dpc: code(10),
                service_indicators: vec![3, 5],
                opcs: vec![AffectedPointCode::single(code(20))],
            },
            RoutingKeyDestination {
                dpc: code(11),
                service_indicators: vec![5],
                opcs: vec![],
            },
        ],
    };
    let message = RegistrationRequest {
        routing_keys: vec![key],
    };
    let octets: [&[u8]; 9] = [
        &[1, 0, 9, 1, 0, 0, 0, 76, 2, 7, 0, 68],
        &[2, 10, 0, 8, 0, 0, 0, 1],
        &[0, 11, 0, 8, 0, 0, 0, 3],
        &[2, 11, 0, 8, 0, 0, 0, 10],
        &[2, 0, 0, 8, 0, 0, 0, 3],
        &[2, 12, 0, 6, 3, 5, 0, 0],
        &[2, 14, 0, 8, 0, 0, 0, 20],
        &[2, 11, 0, 8, 0, 0, 0, 11],
        &[2, 12, 0, 5, 5, 0, 0, 0],
    ];
    expect(&Message::RegistrationRequest(message), &octets);
}

/// RFC 4666, section 3.6.2
#[test]
fn registration_results_have_the_drawn_layout() {
    let message = RegistrationResponse {
        results: vec![RegistrationResult {
            local_id: LocalRoutingKeyIdentifier(1),
            status: RegistrationStatus::ALREADY_REGISTERED,
            routing_context: RoutingContext(2),
        }],
    };
    let octets: [&[u8]; 4] = [
        &[1, 0, 9, 2, 0, 0, 0, 36, 2, 8, 0, 28],
        &[2, 10, 0, 8, 0, 0, 0, 1],
        &[2, 18, 0, 8, 0, 0, 0, 12],
        &[0, 6, 0, 8, 0, 0, 0, 2],
    ];
    expect(&Message::RegistrationResponse(message), &octets);
}

/// RFC 4666, section 3.6.4
#[test]
fn deregistration_results_have_the_drawn_layout() {
    let message = DeregistrationResponse {
        results: vec![DeregistrationResult {
            routing_context: RoutingContext(2),
            status: DeregistrationStatus::ASP_ACTIVE,
        }],
    };
    let octets: [&[u8]; 3] = [
        &[1, 0, 9, 4, 0, 0, 0, 28, 2, 9, 0, 20],
        &[0, 6, 0, 8, 0, 0, 0, 2],
        &[2, 19, 0, 8, 0, 0, 0, 5],
    ];
    expect(&Message::DeregistrationResponse(message), &octets);
}

/// RFC 4666, section 3.8.2
#[test]
fn ntfy_has_the_drawn_layout() {
    let message = Notify {
        status: Status::AlternateAspActive,
        asp_identifier: Some(AspIdentifier(4)),
        routing_contexts: contexts(&[6]),
        info: None,
    };
    let octets: [&[u8]; 4] = [
        &[1, 0, 0, 1, 0, 0, 0, 32],
        &[0, 13, 0, 8, 0, 2, 0, 2],
        &[0, 17, 0, 8, 0, 0, 0, 4],
        &[0, 6, 0, 8, 0, 0, 0, 6],
    ];
    expect(&Message::Notify(message), &octets);
}
