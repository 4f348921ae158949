//! Data links above the states of ASPs, between Q.931 and Q.921.

use bytes::Bytes;
use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::iua::asp::*;
use carrick_sigtran::iua::link::*;
use carrick_sigtran::iua::sg::*;
use carrick_sigtran::iua::*;

use crate::states::{Pair, dlci};

fn id() -> InterfaceIdentifier {
    InterfaceIdentifier::Integer(3)
}

fn key() -> DataLinkKey {
    (id(), dlci())
}

/// Pair with an active ASP and an assigned TEI.
fn pair() -> Pair<Iua> {
    let mut pair = Pair::<Iua>::new(SgConfig::default(), vec![SgInterface::new(id())]);
    // No ASP is active yet that would get the indication.
    let early = pair.gateway.set_tei_status(&key(), TeiStatus::Assigned);
    assert!(early.is_err());
    pair.add(vec![Interface::new(id())]);
    pair.indications(0);
    pair.requests();
    pair
}

fn links(pair: &mut Pair<Iua>) -> Vec<DataLinkIndication> {
    let indications = pair.indications(0).into_iter();
    let links = indications.filter_map(|indication| match indication {
        AspIndication::DataLink(_, indication) => Some(indication),
        AspIndication::Asp(_) => None,
    });
    links.collect()
}

fn q921(pair: &mut Pair<Iua>) -> Vec<Q921Request> {
    let requests = pair.requests().into_iter();
    let requests = requests.filter_map(|indication| match indication {
        SgIndication::Q921(_, request) => Some(request),
        SgIndication::Gateway(_) => None,
    });
    requests.collect()
}

fn data(octet: u8) -> ProtocolData {
    ProtocolData(Bytes::copy_from_slice(&[octet]))
}

/// RFC 4233, sections 3.3.1 and 5.3
#[test]
fn data_links_are_used_through_active_asps() {
    let mut pair = pair();
    let now = pair.now;
    let request = pair.asps[0].1.data_link(&key(), |link| link.establish(now));
    request.expect("an active ASP");
    pair.run();
    assert_eq!(q921(&mut pair), [Q921Request::Establish]);
    let event = |pair: &mut Pair<Iua>, event: fn(&mut SgDataLink)| {
        pair.gateway
            .data_link(&key(), event)
            .expect("an active ASP");
        pair.run();
    };
    event(&mut pair, SgDataLink::establish_confirm);
    assert_eq!(links(&mut pair), [DataLinkIndication::Established]);
    let sent = pair.asps[0].1.data_link(&key(), |link| link.send(data(1)));
    sent.expect("an active ASP").expect("established");
    pair.run();
    assert_eq!(q921(&mut pair), [Q921Request::Data(data(1))]);
    event(&mut pair, |link| link.data(data(2)));
    assert_eq!(links(&mut pair), [DataLinkIndication::Data(data(2))]);
    event(&mut pair, |link| link.release_indication(ReleaseReason::Dm));
    let reason = Some(ReleaseReason::Dm);
    assert_eq!(links(&mut pair), [DataLinkIndication::Released { reason }]);
    // The far end establishes the data link.
    event(&mut pair, SgDataLink::establish_indication);
    assert_eq!(links(&mut pair), [DataLinkIndication::Established]);
    let release = |link: &mut AspDataLink| link.release(now, ReleaseReason::Management);
    let released = pair.asps[0].1.data_link(&key(), release);
    released.expect("an active ASP").expect("a reason");
    pair.run();
    assert_eq!(
        q921(&mut pair),
        [Q921Request::Release(ReleaseReason::Management)]
    );
}

/// RFC 4233, sections 3.3.3.3 and 3.3.3.4: on stream 0
#[test]
fn tei_status_is_reported() {
    let mut pair = pair();
    let now = pair.now;
    let status = |pair: &mut Pair<Iua>, status| {
        let reported = pair.gateway.set_tei_status(&key(), status);
        reported.expect("an active ASP");
        let sent: Vec<_> = std::iter::from_fn(|| pair.gateway.poll_transmit()).collect();
        for (_, transmit) in sent {
            assert_eq!(transmit.stream, 0);
            let asp = &mut pair.asps[0].1;
            asp.handle_message(now, 0, &transmit.message);
        }
    };
    status(&mut pair, TeiStatus::Unassigned);
    let unassigned = DataLinkIndication::TeiStatus(TeiStatus::Unassigned);
    assert_eq!(links(&mut pair), std::slice::from_ref(&unassigned));
    let request = |link: &mut AspDataLink| link.request_tei_status(now);
    pair.asps[0]
        .1
        .data_link(&key(), request)
        .expect("an active ASP");
    pair.run();
    assert_eq!(links(&mut pair), [unassigned]);
    status(&mut pair, TeiStatus::Assigned);
    assert_eq!(
        links(&mut pair),
        [DataLinkIndication::TeiStatus(TeiStatus::Assigned)]
    );
    let query = Message::TeiQuery(TeiQuery {
        identifier: id(),
        dlci: IgnoredDlci,
    });
    let sg_key = pair.asps[0].0;
    pair.gateway.handle_message(now, sg_key, 0, &query);
    pair.run();
    assert_eq!(
        links(&mut pair),
        [DataLinkIndication::TeiStatus(TeiStatus::Assigned)]
    );
}

/// RFC 4233, section 3.3.3.1
#[test]
fn unknown_data_links_are_answered() {
    let mut pair = pair();
    let other = Dlci::new(0, 9).expect("a DLCI");
    let sapi = Dlci::new(16, 5).expect("a DLCI");
    let now = pair.now;
    let second = (id(), Dlci::new(1, 6).expect("a DLCI"));
    pair.gateway
        .set_tei_status(&second, TeiStatus::Assigned)
        .expect("an ASP");
    pair.run();
    let mut answer = |dlci: Dlci| {
        let request = pair.asps[0]
            .1
            .data_link(&(id(), dlci), |link| link.establish(now));
        request.expect("an active ASP");
        pair.run();
        pair.indications(0)
            .into_iter()
            .find_map(|indication| match indication {
                AspIndication::Asp(AspEvent::Error(error)) => Some(error.code),
                _ => None,
            })
    };
    assert_eq!(answer(other), Some(ErrorCode::UNASSIGNED_TEI));
    assert_eq!(answer(sapi), Some(ErrorCode::UNRECOGNIZED_SAPI));
    let mixed = Dlci::new(1, 5).expect("a DLCI");
    assert_eq!(answer(mixed), Some(ErrorCode::INVALID_TEI_SAPI_COMBINATION));
    assert_eq!(q921(&mut pair), []);
}

/// RFC 4233, section 4.3.3.4: there is no broadcast
#[test]
fn broadcast_is_refused() {
    let broadcast = Some(carrick_sigtran::message::TrafficMode::BROADCAST);
    let mut gateway = Sg::new(SgConfig::default());
    let refused = gateway.add_application_server(SgInterface {
        traffic_mode: broadcast,
        ..SgInterface::new(id())
    });
    assert!(matches!(
        refused,
        Err(SgConfigError::UndefinedTrafficMode(_))
    ));
    let refused = Asp::new(AspConfig {
        application_servers: vec![Interface {
            traffic_mode: broadcast,
            ..Interface::new(id())
        }],
        ..AspConfig::default()
    });
    assert!(matches!(
        refused,
        Err(AspConfigError::UndefinedTrafficMode(_))
    ));
}
