//! Definition of a layer: its identifiers, messages and error codes.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use bytes::Bytes;
use carrick_proto::Time;

use super::asp::{Asp, AspEvent, ServedId};
use super::sgp::{AspKey, DeliveryError, DividedRequest, Gateway, GatewayEvent};
use super::{AsIds, AspState, data_stream};
use crate::message::{
    AspDown, AspIdentifier, AspUp, CorrelationId, DecodeError, DiagnosticInformation, EncodeError,
    ErrorCode, Heartbeat, MessageKind, Status, TrafficMode,
};

/// Message of a layer.
pub trait LayerMessage: Clone + PartialEq + Debug {
    /// Returns the message class and type.
    fn kind(&self) -> MessageKind;

    /// Encodes the message.
    ///
    /// # Errors
    /// [`EncodeError`] if the content does not fit into a message.
    fn encode(&self) -> Result<Bytes, EncodeError>;
}

/// Content of ASP Active messages beside the application servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Activation<D> {
    /// Traffic mode.
    pub traffic_mode: Option<TrafficMode>,
    /// Part of the application server's traffic for this ASP.
    pub label: D,
}

/// Maintenance messages that all layers have.
#[derive(Clone, PartialEq, Debug)]
pub enum Maintenance<L: Layer> {
    /// ASP Up.
    AspUp(AspUp),
    /// ASP Up Ack.
    AspUpAck(AspUp),
    /// ASP Down.
    AspDown(AspDown),
    /// ASP Down Ack.
    AspDownAck(AspDown),
    /// BEAT.
    Heartbeat(Heartbeat),
    /// BEAT Ack.
    HeartbeatAck(Heartbeat),
    /// ASP Active for application servers, all without a list.
    AspActive(Activation<L::Label>, Option<AsIds<L::AsId>>),
    /// ASP Active Ack.
    AspActiveAck(Option<TrafficMode>, Option<AsIds<L::AsId>>),
    /// ASP Inactive.
    AspInactive(Option<AsIds<L::AsId>>),
    /// ASP Inactive Ack.
    AspInactiveAck(Option<AsIds<L::AsId>>),
    /// Notify.
    Notify(L::Notify),
    /// Error.
    Error(L::ErrorMessage),
}

/// Adaptation layer with ASPs: its identifiers, messages and error codes, and what it does beyond maintenance.
pub trait Layer: Copy + Eq + Ord + Debug + 'static {
    /// Identifier of an application server in messages: a routing context, or the interface identifier of a link or
    /// D channel.
    type AsId: Clone + Ord + Debug + Display;
    /// Part of the traffic that an ASP takes in load sharing; `()` in layers without.
    type Label: Clone + Default + Ord + Debug;
    /// Message.
    type Message: LayerMessage;
    /// Content of a Notify message.
    type Notify: Clone + PartialEq + Debug;
    /// Content of an Error message.
    type ErrorMessage: Clone + PartialEq + Debug;
    /// Application server in the configuration of an ASP.
    type Served: Clone + Debug;
    /// Application server in the configuration of a gateway.
    type Server: Clone + Debug;
    /// Message of the user that waits in AS-PENDING.
    type Payload: Clone + Debug;
    /// State of the user of an ASP; `()` in layers that pass on traffic.
    type AspUser: Default + Debug;
    /// State of the user of a gateway: its keys, routes or links.
    type User: Default + Debug;
    /// Primitive of an ASP.
    type AspIndication: From<AspEvent<Self>> + Debug;
    /// Primitive of a gateway.
    type SgpIndication: From<GatewayEvent<Self>> + Debug;

    /// Traffic modes of the layer.
    const TRAFFIC_MODES: &'static [TrafficMode] = &[
        TrafficMode::OVERRIDE,
        TrafficMode::LOADSHARE,
        TrafficMode::BROADCAST,
    ];
    /// Answer to an application server that is not the ASP's.
    const INVALID_AS: ErrorCode;
    /// Answer to an ASP Active for an application server that is not the ASP's.
    const UNDEFINED_AS: ErrorCode;
    /// Answer to a message without a list, if the ASP has no application server.
    const NO_AS: ErrorCode;
    /// ASP Active Ack messages list application servers even if the ASP Active did not.
    const ACK_HAS_LIST: bool = false;
    /// Answer of an ASP in ASP-INACTIVE to traffic; it is discarded silently in layers without.
    const INACTIVE_TRAFFIC: Option<ErrorCode> = None;
    /// Kind of registration requests, in layers that have them.
    const REGISTRATION: Option<MessageKind>;

    /// Returns the content of a maintenance message, `None` for any other message.
    fn read(message: &Self::Message) -> Option<Maintenance<Self>>;

    /// Returns the maintenance message with this content.
    fn write(content: Maintenance<Self>) -> Self::Message;

    /// Returns how many identifiers like this one a message lists at most. Identifiers with another limit are of another
    /// format, and in another message.
    fn list_limit(_id: &Self::AsId) -> usize {
        8192
    }

    /// Divides a list so that each part fits into a message.
    fn lists(ids: impl IntoIterator<Item = Self::AsId>) -> Vec<AsIds<Self::AsId>> {
        let mut formats: BTreeMap<usize, Vec<Self::AsId>> = BTreeMap::new();
        for id in ids {
            formats.entry(Self::list_limit(&id)).or_default().push(id);
        }
        let lists = formats.iter().flat_map(|(limit, ids)| ids.chunks(*limit));
        lists
            .filter_map(|ids| AsIds::new(ids.iter().cloned()))
            .collect()
    }

    /// Returns the application servers that a message lists.
    fn ids(message: &Self::Message) -> Option<AsIds<Self::AsId>>;

    /// Returns the Error message about application servers and the begin of a message.
    fn error(code: ErrorCode, ids: Option<AsIds<Self::AsId>>, octets: &[u8]) -> Self::ErrorMessage;

    /// Returns the Error message that answers a malformed message, `None` for Error messages.
    fn answering(error: &DecodeError, octets: &[u8]) -> Option<Self::ErrorMessage>;

    /// Divides a registration request with malformed keys, `None` if the message is not one.
    fn divide_registration(_octets: &Bytes) -> Option<DividedRequest<Self::Message>> {
        None
    }

    /// Returns the code of an Error message, its application servers and diagnostic information.
    fn read_error(
        error: &Self::ErrorMessage,
    ) -> (
        ErrorCode,
        Option<AsIds<Self::AsId>>,
        Option<&DiagnosticInformation>,
    );

    /// Returns the Notify message about application servers.
    fn notify(
        status: Status,
        asp_identifier: Option<AspIdentifier>,
        ids: Option<AsIds<Self::AsId>>,
    ) -> Self::Notify;

    /// Returns the status of a Notify message and its application servers.
    fn read_notify(notify: &Self::Notify) -> (Status, Option<AsIds<Self::AsId>>);

    /// Returns the identifier of an ASP's application server, `None` if it is the only one and has none.
    fn served_id(served: &Self::Served) -> Option<Self::AsId>;

    /// Returns the content of ASP Active messages for an ASP's application server.
    fn activation(served: &Self::Served) -> Activation<Self::Label>;

    /// Sets the identifier that a registration assigned to an application server.
    fn set_served_id(served: &mut Self::Served, id: Self::AsId);

    /// Returns the indication that an active application server of an ASP loses its gateway.
    fn lost(_served: &Self::Served) -> Option<Self::AspIndication> {
        None
    }

    /// Handles a change of the state of an ASP in an application server.
    fn changed(_asp: &mut Asp<Self>, _id: &ServedId<Self::AsId>, _state: AspState) {}

    /// Returns the next timeout of the user of an ASP.
    fn asp_timeout(_user: &Self::AspUser) -> Option<Time> {
        None
    }

    /// Handles the timers of the user of an ASP.
    fn expire_asp(_asp: &mut Asp<Self>, _now: Time) {}

    /// Handles a message of the gateway that is not for maintenance.
    fn receive(asp: &mut Asp<Self>, now: Time, stream: u16, message: &Self::Message);

    /// Returns the identifier of a gateway's application server.
    fn server_id(server: &Self::Server) -> Self::AsId;

    /// Returns the traffic mode of a gateway's application server, if it is configured.
    fn server_mode(server: &Self::Server) -> Option<TrafficMode>;

    /// Returns the number of active ASPs at which an application server becomes active.
    fn minimum_asps(server: &Self::Server) -> usize;

    /// Assigns an identifier that is not in use to an application server that a registration creates.
    fn assign_id(_gateway: &mut Gateway<Self>, _server: &mut Self::Server) {}

    /// Returns an application server to which a message for a new one could belong, too.
    fn overlapping(_gateway: &Gateway<Self>, _server: &Self::Server) -> Option<Self::AsId> {
        None
    }

    /// Records the key of an application server.
    fn added(_user: &mut Self::User, _server: &Self::Server) {}

    /// Removes the key of an application server.
    fn removed(_user: &mut Self::User, _server: &Self::Server) {}

    /// Returns the reports that precede the ASP Active Ack for application servers.
    fn reports(_gateway: &Gateway<Self>, _asp: AspKey, _ids: &[Self::AsId]) -> Vec<Self::Message> {
        Vec::new()
    }

    /// Returns whether an ASP may have a label beside those of the other active ASPs.
    fn fits(_label: &Self::Label, _others: &[&Self::Label]) -> bool {
        true
    }

    /// Handles a message of an ASP that is not for maintenance.
    fn serve(
        gateway: &mut Gateway<Self>,
        now: Time,
        asp: AspKey,
        stream: u16,
        message: &Self::Message,
    );

    /// Returns the next timeout of the user of a gateway.
    fn user_timeout(_user: &Self::User) -> Option<Time> {
        None
    }

    /// Handles the timers of the user of a gateway.
    fn expire_user(_gateway: &mut Gateway<Self>, _now: Time) {}

    /// Returns the number of octets of a message that waits.
    fn octets(payload: &Self::Payload) -> usize;

    /// Returns the traffic flow of a message. Messages of a flow keep their order; it selects the stream, and the ASP in
    /// load sharing.
    fn flow(payload: &Self::Payload) -> u32;

    /// Returns whether a message is for one of the ASPs that share the load, not for all.
    fn is_shared(_payload: &Self::Payload) -> bool {
        true
    }

    /// Returns the stream of a message for the ASPs, `None` if there is none for it.
    fn stream(payload: &Self::Payload, outbound_streams: u16) -> Option<u16> {
        data_stream(Self::flow(payload), outbound_streams)
    }

    /// Returns whether a message is in the part of an ASP's label, `None` if it has no label.
    fn is_labelled(_payload: &Self::Payload, _label: &Self::Label) -> Option<bool> {
        None
    }

    /// Handles a message that was discarded after it had waited in AS-PENDING; `sender` is the ASP that it came from.
    fn discarded(
        _gateway: &mut Gateway<Self>,
        _sender: Option<AspKey>,
        _payload: Self::Payload,
        _error: DeliveryError<Self::AsId>,
    ) {
    }

    /// Returns the message for the ASPs of an application server.
    fn deliver(
        server: &Self::Server,
        payload: Self::Payload,
        correlation_id: Option<CorrelationId>,
    ) -> Self::Message;
}

/// Implements the reading of maintenance messages, which have the same variants in all layers.
macro_rules! maintenance {
    (read $message:ident, $activation:expr, $mode:expr, $list:expr) => {{
        use $crate::aspm::Maintenance;
        Some(match $message {
            Message::AspUp(body) => Maintenance::AspUp(body.clone()),
            Message::AspUpAck(body) => Maintenance::AspUpAck(body.clone()),
            Message::AspDown(body) => Maintenance::AspDown(body.clone()),
            Message::AspDownAck(body) => Maintenance::AspDownAck(body.clone()),
            Message::Heartbeat(body) => Maintenance::Heartbeat(body.clone()),
            Message::HeartbeatAck(body) => Maintenance::HeartbeatAck(body.clone()),
            Message::AspActive(body) => Maintenance::AspActive($activation(body), $list($message)),
            Message::AspActiveAck(body) => {
                Maintenance::AspActiveAck($mode(body.traffic_mode), $list($message))
            }
            Message::AspInactive(_) => Maintenance::AspInactive($list($message)),
            Message::AspInactiveAck(_) => Maintenance::AspInactiveAck($list($message)),
            Message::Notify(body) => Maintenance::Notify(body.clone()),
            Message::Error(body) => Maintenance::Error(body.clone()),
            _ => return None,
        })
    }};
    (write $content:ident, $active:expr, $active_ack:expr, $inactive:expr) => {{
        use $crate::aspm::Maintenance;
        match $content {
            Maintenance::AspUp(body) => Message::AspUp(body),
            Maintenance::AspUpAck(body) => Message::AspUpAck(body),
            Maintenance::AspDown(body) => Message::AspDown(body),
            Maintenance::AspDownAck(body) => Message::AspDownAck(body),
            Maintenance::Heartbeat(body) => Message::Heartbeat(body),
            Maintenance::HeartbeatAck(body) => Message::HeartbeatAck(body),
            Maintenance::AspActive(activation, ids) => Message::AspActive($active(activation, ids)),
            Maintenance::AspActiveAck(mode, ids) => Message::AspActiveAck($active_ack(mode, ids)),
            Maintenance::AspInactive(ids) => Message::AspInactive($inactive(ids)),
            Maintenance::AspInactiveAck(ids) => Message::AspInactiveAck($inactive(ids)),
            Maintenance::Notify(body) => Message::Notify(body),
            Maintenance::Error(body) => Message::Error(body),
        }
    }};
}
pub(crate) use maintenance;

/// Implements [`Layer::read`] and [`Layer::write`] of a layer without labels: the parameter that lists application
/// servers, and the conversions of the traffic mode from and to the layer's own.
macro_rules! unlabelled {
    ($field:ident: $list:ident, $read_mode:expr, $write_mode:expr) => {
        fn read(message: &Message) -> Option<Maintenance<Self>> {
            let activation = |body: &AspActive| $crate::aspm::Activation {
                traffic_mode: $read_mode(body.traffic_mode),
                label: (),
            };
            $crate::aspm::maintenance!(read message, activation, $read_mode, Self::ids)
        }

        fn write(content: Maintenance<Self>) -> Message {
            let active = |traffic_mode, ids| AspActive {
                traffic_mode: $write_mode(traffic_mode),
                $field: $list::of(ids),
                info: None,
            };
            $crate::aspm::maintenance!(
                write content,
                |activation: $crate::aspm::Activation<()>, ids| active(activation.traffic_mode, ids),
                active,
                AspInactive::of
            )
        }
    };
}
pub(crate) use unlabelled;
