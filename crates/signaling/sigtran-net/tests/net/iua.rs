//! IUA (RFC 4233).

use bytes::Bytes;
use carrick::Endpoint;
use carrick_sigtran::iua::asp::{AspIndication, DataLinkKey, Interface};
use carrick_sigtran::iua::link::{DataLinkIndication, Q921Request};
use carrick_sigtran::iua::sg::{SgIndication, SgInterface};
use carrick_sigtran::iua::{
    Dlci, InterfaceIdentifier, Iua, ProtocolData, ReleaseReason, TeiStatus,
};
use carrick_sigtran_net::{EventKind, RequestError, Session};

use super::layers::{active_asp, next, serve};
use super::support::{disconnected, endpoint};

const INTERFACE: InterfaceIdentifier = InterfaceIdentifier::Integer(3);

fn key() -> DataLinkKey {
    (INTERFACE, Dlci::new(0, 1).unwrap())
}

fn data(octet: u8) -> ProtocolData {
    ProtocolData(Bytes::copy_from_slice(&[octet]))
}

async fn indication(asp: &mut Session<Iua>) -> DataLinkIndication {
    match next(asp).await {
        EventKind::Asp(AspIndication::DataLink(_, indication)) => indication,
        other => panic!("{other:?}"),
    }
}

async fn q921(gateway: &mut Session<Iua>) -> Q921Request {
    match next(gateway).await {
        EventKind::Sgp(SgIndication::Q921(_, request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Gateway whose TEI is assigned, and an ASP with the established data link.
async fn established() -> (Endpoint, Session<Iua>, Session<Iua>) {
    let endpoint = endpoint();
    let mut gateway = serve::<Iua>(&endpoint, SgInterface::new(INTERFACE));
    let mut asp = active_asp::<Iua>(&endpoint, 1, Interface::new(INTERFACE)).await;
    let assign = gateway
        .sender
        .request_gateway(|sg, _| sg.set_tei_status(&key(), TeiStatus::Assigned));
    assign.await.unwrap().unwrap();
    let assigned = DataLinkIndication::TeiStatus(TeiStatus::Assigned);
    assert_eq!(indication(&mut asp).await, assigned);
    asp.sender
        .data_link(key(), |link, now| link.establish(now))
        .await
        .unwrap();
    assert_eq!(q921(&mut gateway).await, Q921Request::Establish);
    gateway
        .sender
        .gateway_data_link(key(), |link, _| link.establish_confirm())
        .await
        .unwrap();
    assert_eq!(indication(&mut asp).await, DataLinkIndication::Established);
    (endpoint, gateway, asp)
}

/// RFC 4233, sections 3.3.1 and 5.3
#[tokio::test]
async fn a_data_link_is_used_through_a_gateway() {
    let (_endpoint, mut gateway, mut asp) = established().await;
    for octet in 0..100 {
        let sent = asp
            .sender
            .data_link(key(), move |link, _| link.send(data(octet)));
        sent.await.unwrap().unwrap();
    }
    for octet in 0..100 {
        assert_eq!(q921(&mut gateway).await, Q921Request::Data(data(octet)));
    }
    for octet in 0..100 {
        let sent = gateway
            .sender
            .gateway_data_link(key(), move |link, _| link.data(data(octet)));
        sent.await.unwrap();
    }
    for octet in 0..100 {
        assert_eq!(
            indication(&mut asp).await,
            DataLinkIndication::Data(data(octet))
        );
    }
    asp.sender
        .data_link(key(), |link, _| link.send_unit(data(1)))
        .await
        .unwrap();
    assert_eq!(q921(&mut gateway).await, Q921Request::UnitData(data(1)));
    let unit = gateway
        .sender
        .gateway_data_link(key(), |link, _| link.unit_data(data(2)));
    unit.await.unwrap();
    assert_eq!(
        indication(&mut asp).await,
        DataLinkIndication::UnitData(data(2))
    );
    let release = asp.sender.data_link(key(), |link, now| {
        link.release(now, ReleaseReason::Management)
    });
    release.await.unwrap().unwrap();
    let released = Q921Request::Release(ReleaseReason::Management);
    assert_eq!(q921(&mut gateway).await, released);
}

/// RFC 4233, section 4.3.2: AS-PENDING
#[tokio::test]
async fn a_second_asp_takes_over_a_data_link() {
    let (endpoint, mut gateway, first) = established().await;
    // The association is aborted.
    drop(first);
    disconnected(&mut gateway).await;
    // The message waits for an ASP.
    let sender = gateway.sender.clone();
    sender
        .gateway_data_link(key(), |link, _| link.unit_data(data(7)))
        .await
        .unwrap();
    let mut second = active_asp::<Iua>(&endpoint, 2, Interface::new(INTERFACE)).await;
    assert_eq!(
        indication(&mut second).await,
        DataLinkIndication::UnitData(data(7))
    );
    second
        .sender
        .data_link(key(), |link, _| link.send_unit(data(8)))
        .await
        .unwrap();
    assert_eq!(q921(&mut gateway).await, Q921Request::UnitData(data(8)));
    drop(gateway);
    disconnected(&mut second).await;
    let refused = second
        .sender
        .data_link(key(), |link, _| link.send_unit(data(9)))
        .await;
    assert_eq!(refused, Err(RequestError::NotActive));
}
