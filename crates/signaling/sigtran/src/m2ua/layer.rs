//! M2UA as a layer with ASPs.

use carrick_proto::Time;

use super::asp::{Asp, AspIndication, Interface};
use super::link::{AspLink, LinkIndication, Mtp2Request, SgpLink};
use super::sgp::{Sgp, SgpIndication, SgpInterface, SgpUser};
use super::{
    AspActive, AspInactive, CorrelationId, DecodeError, DiagnosticInformation, ErrorCode,
    ErrorMessage, InterfaceIdentifier, InterfaceIdentifiers, Message, Notify, Status, kinds,
};
use crate::aspm::asp::ServedId;
use crate::aspm::links::{Link, LinkLayer, Links, impl_link, interface_layer};
use crate::aspm::sgp::AspKey;
use crate::aspm::{Activation, AsIds, AspState, Layer, Maintenance, unlabelled};
use crate::message::{AspIdentifier, MessageKind};

/// M2UA: an application server is the interface of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct M2ua;

impl Layer for M2ua {
    type Served = Interface;
    type Server = SgpInterface;
    type AspUser = Links<InterfaceIdentifier, AspLink>;
    type User = SgpUser;
    type AspIndication = AspIndication;
    type SgpIndication = SgpIndication;

    /// An ASP in ASP-INACTIVE answers MAUP messages (RFC 3331, section 3.3.3.1).
    const INACTIVE_TRAFFIC: Option<ErrorCode> = Some(ErrorCode::UNEXPECTED_MESSAGE);
    const REGISTRATION: Option<MessageKind> = Some(kinds::REG_REQ);

    interface_layer!();

    unlabelled!(identifiers: InterfaceIdentifiers, std::convert::identity, std::convert::identity);

    fn ids(message: &Message) -> Option<AsIds<InterfaceIdentifier>> {
        let identifiers = match message {
            Message::Error(body) => body.identifiers.as_ref(),
            Message::Notify(body) => body.identifiers.as_ref(),
            Message::AspActive(body) | Message::AspActiveAck(body) => body.identifiers.as_ref(),
            Message::AspInactive(body) | Message::AspInactiveAck(body) => body.identifiers.as_ref(),
            Message::DeregistrationRequest(body) => {
                return AsIds::new(body.identifiers.iter().cloned());
            }
            other => return AsIds::new(other.identifier().cloned()),
        };
        identifiers.and_then(AsIds::from_interfaces)
    }

    fn error(
        code: ErrorCode,
        ids: Option<AsIds<InterfaceIdentifier>>,
        octets: &[u8],
    ) -> ErrorMessage {
        ErrorMessage {
            identifiers: InterfaceIdentifiers::of(ids),
            ..ErrorMessage::about(code, octets)
        }
    }

    fn read_error(
        error: &ErrorMessage,
    ) -> (
        ErrorCode,
        Option<AsIds<InterfaceIdentifier>>,
        Option<&DiagnosticInformation>,
    ) {
        let ids = error.identifiers.as_ref();
        let ids = ids.and_then(AsIds::from_interfaces);
        (error.code, ids, error.diagnostic.as_ref())
    }

    fn changed(asp: &mut Asp, id: &ServedId<InterfaceIdentifier>, state: AspState) {
        if let Some(id) = id {
            asp.on_state(id, state);
        }
    }

    fn receive(asp: &mut Asp, _now: Time, stream: u16, message: &Message) {
        asp.on_user_message(stream, message);
    }

    fn assign_id(gateway: &mut Sgp, server: &mut SgpInterface) {
        server.identifier = gateway.free_identifier();
    }

    fn overlapping(gateway: &Sgp, server: &SgpInterface) -> Option<InterfaceIdentifier> {
        gateway.user.overlapping(server)
    }

    fn added(user: &mut SgpUser, server: &SgpInterface) {
        user.add(server);
    }

    fn removed(user: &mut SgpUser, server: &SgpInterface) {
        user.remove(server);
    }

    fn serve(gateway: &mut Sgp, now: Time, asp: AspKey, stream: u16, message: &Message) {
        gateway.on_user_message(now, asp, stream, message);
    }

    fn user_timeout(user: &SgpUser) -> Option<Time> {
        user.links.next_timeout()
    }

    fn expire_user(gateway: &mut Sgp, now: Time) {
        gateway.expire_links(now);
    }

    fn octets(payload: &Message) -> usize {
        match payload {
            Message::Data(body) => body.protocol_data.octets().len(),
            Message::RetrievalIndication(body) => body.protocol_data.octets().len(),
            _ => 0,
        }
    }

    /// Messages of a link keep their order.
    fn flow(payload: &Message) -> u32 {
        payload.identifier().map_or(0, InterfaceIdentifier::flow)
    }

    /// Data are for one ASP, the state of the link is for all.
    fn is_shared(payload: &Message) -> bool {
        matches!(payload, Message::Data(_))
    }

    fn deliver(
        _server: &SgpInterface,
        mut payload: Message,
        correlation_id: Option<CorrelationId>,
    ) -> Message {
        if let Message::Data(data) = &mut payload
            && data.correlation_id.is_none()
        {
            data.correlation_id = correlation_id;
        }
        payload
    }
}

impl_link!(AspLink: LinkIndication = poll_indication, ends handle_inactive, timers handle_timeout);
impl_link!(SgpLink: Mtp2Request = poll_request, timers handle_timeout);

impl LinkLayer for M2ua {
    type Key = InterfaceIdentifier;
    type AspLink = AspLink;
    type SgpLink = SgpLink;

    fn interface(key: &InterfaceIdentifier) -> InterfaceIdentifier {
        key.clone()
    }

    fn asp_links(
        user: &mut Links<InterfaceIdentifier, AspLink>,
    ) -> &mut Links<InterfaceIdentifier, AspLink> {
        user
    }

    fn sgp_links(user: &mut SgpUser) -> &mut Links<InterfaceIdentifier, SgpLink> {
        &mut user.links
    }

    fn asp_indication(key: &InterfaceIdentifier, output: LinkIndication) -> AspIndication {
        AspIndication::Link(key.clone(), output)
    }

    fn sgp_indication(key: &InterfaceIdentifier, output: Mtp2Request) -> SgpIndication {
        SgpIndication::Mtp2(key.clone(), output)
    }

    /// Retrieved messages are for the ASP that requested them.
    fn requester(user: &SgpUser, key: &InterfaceIdentifier, message: &Message) -> Option<AspKey> {
        let is_retrieval = matches!(
            message,
            Message::RetrievalConfirm(_)
                | Message::RetrievalIndication(_)
                | Message::RetrievalComplete(_)
        );
        user.retrievers.get(key).copied().filter(|_| is_retrieval)
    }
}
