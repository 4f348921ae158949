//! M2UA (RFC 3331).

use bytes::Bytes;
use carrick::Endpoint;
use carrick_sigtran::m2ua::asp::{AspIndication, Interface};
use carrick_sigtran::m2ua::link::{LinkIndication, LinkRequest, Mtp2Request};
use carrick_sigtran::m2ua::sgp::{SgpIndication, SgpInterface};
use carrick_sigtran::m2ua::{InterfaceIdentifier, M2ua, ProtocolData, State};
use carrick_sigtran_net::{EventKind, RequestError, Session};

use super::layers::{active_asp, next, serve};
use super::support::{disconnected, endpoint};

const INTERFACE: InterfaceIdentifier = InterfaceIdentifier::Integer(3);

fn data(octet: u8) -> ProtocolData {
    ProtocolData::Mtp2(Bytes::copy_from_slice(&[octet, 0, 1, 2]))
}

async fn indication(asp: &mut Session<M2ua>) -> LinkIndication {
    match next(asp).await {
        EventKind::Asp(AspIndication::Link(INTERFACE, indication)) => indication,
        other => panic!("{other:?}"),
    }
}

async fn mtp2(gateway: &mut Session<M2ua>) -> Mtp2Request {
    match next(gateway).await {
        EventKind::Sgp(SgpIndication::Mtp2(INTERFACE, request)) => request,
        other => panic!("{other:?}"),
    }
}

async fn request(asp: &Session<M2ua>, request: LinkRequest) {
    let made = asp
        .sender
        .link(INTERFACE, move |link, now| link.request(now, request));
    made.await.unwrap();
}

/// Gateway and an ASP with the link in service.
async fn in_service() -> (Endpoint, Session<M2ua>, Session<M2ua>) {
    let endpoint = endpoint();
    let mut gateway = serve::<M2ua>(&endpoint, SgpInterface::new(INTERFACE));
    let mut asp = active_asp::<M2ua>(&endpoint, 1, Interface::new(INTERFACE)).await;
    request(&asp, LinkRequest::Establish).await;
    assert_eq!(mtp2(&mut gateway).await, Mtp2Request::Start);
    let sender = gateway.sender.clone();
    sender
        .gateway_link(INTERFACE, |link, _| link.in_service())
        .await
        .unwrap();
    assert_eq!(indication(&mut asp).await, LinkIndication::InService);
    (endpoint, gateway, asp)
}

/// RFC 3331, sections 3.3.1 and 5.3
#[tokio::test]
async fn a_link_is_used_through_a_gateway() {
    let (_endpoint, mut gateway, mut asp) = in_service().await;
    let sender = gateway.sender.clone();
    for octet in 0..100 {
        asp.sender
            .link(INTERFACE, move |link, _| link.send(data(octet), None))
            .await
            .unwrap();
    }
    for octet in 0..100 {
        assert_eq!(mtp2(&mut gateway).await, Mtp2Request::Data(data(octet)));
    }
    for octet in 0..100 {
        let sent = sender.gateway_link(INTERFACE, move |link, _| link.send(data(octet), None));
        sent.await.unwrap();
    }
    for octet in 0..100 {
        assert_eq!(
            indication(&mut asp).await,
            LinkIndication::Data(data(octet))
        );
    }
    request(&asp, LinkRequest::RetrieveBsn).await;
    assert_eq!(mtp2(&mut gateway).await, Mtp2Request::RetrieveBsn);
    sender
        .gateway_link(INTERFACE, |link, _| link.confirm_bsn(None))
        .await
        .unwrap();
    assert_eq!(indication(&mut asp).await, LinkIndication::Bsn(None));
    request(&asp, LinkRequest::State(State::FlushBuffers)).await;
    let flush = Mtp2Request::State(State::FlushBuffers);
    assert_eq!(mtp2(&mut gateway).await, flush);
    sender
        .gateway_link(INTERFACE, |link, _| link.confirm_state(State::FlushBuffers))
        .await
        .unwrap();
    let flushed = LinkIndication::StateConfirmed(State::FlushBuffers);
    assert_eq!(indication(&mut asp).await, flushed);
    request(&asp, LinkRequest::Release).await;
    assert_eq!(mtp2(&mut gateway).await, Mtp2Request::Stop);
    sender
        .gateway_link(INTERFACE, |link, _| link.out_of_service())
        .await
        .unwrap();
    assert_eq!(indication(&mut asp).await, LinkIndication::OutOfService);
}

/// RFC 3331, section 4.3.2: AS-PENDING
#[tokio::test]
async fn a_second_asp_takes_over_a_link() {
    let (endpoint, mut gateway, first) = in_service().await;
    let sender = gateway.sender.clone();
    // The association is aborted.
    drop(first);
    disconnected(&mut gateway).await;
    // The message waits for an ASP.
    sender
        .gateway_link(INTERFACE, |link, _| link.send(data(7), None))
        .await
        .unwrap();
    let mut second = active_asp::<M2ua>(&endpoint, 2, Interface::new(INTERFACE)).await;
    assert_eq!(indication(&mut second).await, LinkIndication::Data(data(7)));
    second
        .sender
        .link(INTERFACE, |link, _| link.send(data(8), None))
        .await
        .unwrap();
    assert_eq!(mtp2(&mut gateway).await, Mtp2Request::Data(data(8)));
    drop(gateway);
    disconnected(&mut second).await;
    let refused = second
        .sender
        .link(INTERFACE, |link, _| link.send(data(9), None))
        .await;
    assert_eq!(refused, Err(RequestError::NotActive));
}
