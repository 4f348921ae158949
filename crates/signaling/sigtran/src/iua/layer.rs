//! IUA as a layer with ASPs.

use carrick_proto::Time;

use super::asp::{Asp, AspIndication, DataLinkKey, Interface};
use super::link::{AspDataLink, DataLinkIndication, Q921Request, SgDataLink};
use super::sg::{Sg, SgIndication, SgInterface};
use super::{
    AspActive, AspInactive, DecodeError, DiagnosticInformation, ErrorCode, ErrorMessage,
    InterfaceIdentifier, InterfaceIdentifiers, Message, Notify, Status, TrafficMode,
};
use crate::aspm::asp::ServedId;
use crate::aspm::links::{Link, LinkLayer, Links, impl_link, interface_layer};
use crate::aspm::sgp::AspKey;
use crate::aspm::{Activation, AsIds, AspState, Layer, Maintenance, data_stream, unlabelled};
use crate::message::{self, AspIdentifier, CorrelationId, MessageKind};

/// IUA: an application server is the interface of a D channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Iua;

/// Returns the traffic mode as all layers have it.
const fn shared_mode(mode: TrafficMode) -> message::TrafficMode {
    match mode {
        TrafficMode::Override => message::TrafficMode::OVERRIDE,
        TrafficMode::Loadshare => message::TrafficMode::LOADSHARE,
    }
}

/// Returns the traffic mode of an ASP Active, in which it is mandatory: override, if none is configured.
const fn own_mode(mode: Option<message::TrafficMode>) -> TrafficMode {
    match mode {
        Some(message::TrafficMode::LOADSHARE) => TrafficMode::Loadshare,
        _ => TrafficMode::Override,
    }
}

impl Layer for Iua {
    type Served = Interface;
    type Server = SgInterface;
    type AspUser = Links<DataLinkKey, AspDataLink>;
    type User = Links<DataLinkKey, SgDataLink>;
    type AspIndication = AspIndication;
    type SgpIndication = SgIndication;

    /// There is no broadcast (RFC 4233, section 4.3.3.4).
    const TRAFFIC_MODES: &'static [message::TrafficMode] = &[
        message::TrafficMode::OVERRIDE,
        message::TrafficMode::LOADSHARE,
    ];
    const REGISTRATION: Option<MessageKind> = None;

    interface_layer!();

    unlabelled!(identifiers: InterfaceIdentifiers, |mode| Some(shared_mode(mode)), own_mode);

    fn ids(message: &Message) -> Option<AsIds<InterfaceIdentifier>> {
        let identifiers = match message {
            Message::Notify(body) => body.identifiers.as_ref(),
            Message::AspActive(body) | Message::AspActiveAck(body) => body.identifiers.as_ref(),
            Message::AspInactive(body) | Message::AspInactiveAck(body) => body.identifiers.as_ref(),
            other => {
                return AsIds::new(other.data_link().map(|(identifier, _)| identifier.clone()));
            }
        };
        identifiers.and_then(AsIds::from_interfaces)
    }

    /// Error messages have no list of interfaces, and no codes above Invalid ASP Identifier.
    fn error(
        code: ErrorCode,
        _ids: Option<AsIds<InterfaceIdentifier>>,
        octets: &[u8],
    ) -> ErrorMessage {
        ErrorMessage::about(ErrorMessage::defined(code), octets)
    }

    fn read_error(
        error: &ErrorMessage,
    ) -> (
        ErrorCode,
        Option<AsIds<InterfaceIdentifier>>,
        Option<&DiagnosticInformation>,
    ) {
        (error.code, None, error.diagnostic.as_ref())
    }

    fn changed(asp: &mut Asp, id: &ServedId<InterfaceIdentifier>, state: AspState) {
        if let Some(id) = id
            && state != AspState::Active
        {
            asp.leave_data_links(id, state);
        }
    }

    fn receive(asp: &mut Asp, _now: Time, stream: u16, message: &Message) {
        asp.on_user_message(stream, message);
    }

    fn removed(user: &mut Links<DataLinkKey, SgDataLink>, server: &SgInterface) {
        for key in user.keys(super::asp::all_of(&server.identifier)) {
            user.remove(&key);
        }
    }

    fn serve(gateway: &mut Sg, _now: Time, asp: AspKey, stream: u16, message: &Message) {
        gateway.on_user_message(asp, stream, message);
    }

    fn octets(payload: &Message) -> usize {
        match payload {
            Message::DataIndication(body) | Message::UnitDataIndication(body) => {
                body.protocol_data.0.len()
            }
            _ => 0,
        }
    }

    /// Messages of a data link keep their order, and their ASP in load sharing.
    fn flow(payload: &Message) -> u32 {
        let Some((identifier, dlci)) = payload.data_link() else {
            return 0;
        };
        let dlci = dlci.map_or(0, |dlci| {
            u32::from(dlci.sapi()) << 7 | u32::from(dlci.tei())
        });
        identifier.flow().wrapping_mul(31).wrapping_add(dlci)
    }

    /// Management messages are on stream 0, those of a D channel on its stream.
    fn stream(payload: &Message, outbound_streams: u16) -> Option<u16> {
        if Self::is_management(payload) {
            return Some(0);
        }
        let (identifier, _) = payload.data_link()?;
        data_stream(identifier.flow(), outbound_streams)
    }

    fn deliver(
        _server: &SgInterface,
        payload: Message,
        _correlation_id: Option<CorrelationId>,
    ) -> Message {
        payload
    }
}

impl_link!(AspDataLink: DataLinkIndication = poll_indication, ends handle_inactive, timers handle_timeout);
impl_link!(SgDataLink: Q921Request = poll_request);

impl LinkLayer for Iua {
    type Key = DataLinkKey;
    type AspLink = AspDataLink;
    type SgpLink = SgDataLink;

    fn interface((identifier, _): &DataLinkKey) -> InterfaceIdentifier {
        identifier.clone()
    }

    fn asp_links(
        user: &mut Links<DataLinkKey, AspDataLink>,
    ) -> &mut Links<DataLinkKey, AspDataLink> {
        user
    }

    fn sgp_links(user: &mut Links<DataLinkKey, SgDataLink>) -> &mut Links<DataLinkKey, SgDataLink> {
        user
    }

    fn asp_indication(key: &DataLinkKey, output: DataLinkIndication) -> AspIndication {
        AspIndication::DataLink(key.clone(), output)
    }

    fn sgp_indication(key: &DataLinkKey, output: Q921Request) -> SgIndication {
        SgIndication::Q921(key.clone(), output)
    }

    fn is_management(message: &Message) -> bool {
        matches!(
            message,
            Message::TeiStatusRequest(_)
                | Message::TeiStatusConfirm(_)
                | Message::TeiStatusIndication(_)
                | Message::TeiQuery(_)
        )
    }
}
