//! Layers of the worlds: their application servers, and the messages of their users.

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::Layer;
use carrick_sigtran::aspm::asp::{Asp, AspEvent, AspState};
use carrick_sigtran::aspm::sgp::{Gateway, GatewayEvent};
use carrick_sigtran::m3ua::M3ua;
use carrick_sigtran::message::DecodeError;
use carrick_sigtran::sua::{self, Sua};
use carrick_sigtran::{iua, m2ua, m3ua};
use iua::Iua;
use iua::link::{DataLinkIndication, DataLinkState, Q921Request};
use m2ua::link::{LinkIndication, LinkRequest, Mtp2Request};
use m2ua::{InterfaceIdentifier, M2ua};

use crate::samples;
use crate::states::{Tested, cldt};

/// Number of flows in which messages keep their order.
pub(super) const FLOWS: u8 = 4;

/// Indication of a machine, as far as a world needs it.
pub(crate) enum UserEvent {
    /// Message of the user with its content.
    Data(Bytes),
    /// The ASP is up.
    Up,
    /// Messages were discarded after T(r).
    Discarded(usize),
    Other,
}

/// Layer of a world. The content of a message begins with its flow.
pub(crate) trait WorldLayer: Tested {
    const PPID: u32;
    /// Number of application servers, among which the flows are divided.
    const SERVERS: u8;

    fn decode(octets: &Bytes) -> Result<Self::Message, DecodeError>;

    /// Adds the links of a gateway.
    fn prepare(_gateway: &mut Gateway<Self>) {}

    /// Sends a message to the ASPs; returns whether the gateway accepts it.
    fn send_to_asps(gateway: &mut Gateway<Self>, content: Bytes) -> bool;

    /// Sends a message of an ASP; returns whether the ASP accepts it.
    fn send_to_gateway(asp: &mut Asp<Self>, content: Bytes) -> bool;

    /// Returns the content of a message of the user.
    fn content(message: &Self::Message) -> Option<Bytes>;

    /// Returns whether an ASP takes messages of a flow.
    fn takes(asp: &mut Asp<Self>, flow: u8) -> bool {
        asp.state(Some(Self::id(server_of::<Self>(flow)))) == Some(AspState::Active)
    }

    /// Handles an indication of an ASP.
    fn on_asp(asp: &mut Asp<Self>, now: Time, indication: Self::AspIndication) -> UserEvent;

    /// Handles an indication of a gateway, with the part of the lower layer.
    fn on_gateway(gateway: &mut Gateway<Self>, indication: Self::SgpIndication) -> UserEvent;
}

/// Returns the number of the application server of a flow.
pub(super) fn server_of<L: WorldLayer>(flow: u8) -> u32 {
    1 + u32::from(flow % L::SERVERS)
}

/// Returns the identifier of the application server of a message.
fn id<L: WorldLayer>(content: &Bytes) -> L::AsId {
    L::id(server_of::<L>(content[0]))
}

/// Returns what a primitive to an ASP's layer management is for a world.
fn asp_event<L: Layer>(event: &AspEvent<L>) -> UserEvent {
    match event {
        AspEvent::AspUp(Ok(())) => UserEvent::Up,
        _ => UserEvent::Other,
    }
}

/// Returns what a primitive to a gateway's layer management is for a world.
fn gateway_event<L: Layer>(event: &GatewayEvent<L>) -> UserEvent {
    match event {
        GatewayEvent::Discarded(_, count) => UserEvent::Discarded(*count),
        _ => UserEvent::Other,
    }
}

impl WorldLayer for M3ua {
    const PPID: u32 = m3ua::PAYLOAD_PROTOCOL_ID;
    const SERVERS: u8 = 1;

    fn decode(octets: &Bytes) -> Result<m3ua::Message, DecodeError> {
        m3ua::Message::decode(octets)
    }

    fn send_to_asps(gateway: &mut Gateway<Self>, content: Bytes) -> bool {
        gateway.transfer(None, mtp3(&content)).is_ok()
    }

    fn send_to_gateway(asp: &mut Asp<Self>, content: Bytes) -> bool {
        let context = id::<Self>(&content);
        asp.transfer(Some(context), mtp3(&content)).is_ok()
    }

    fn content(message: &m3ua::Message) -> Option<Bytes> {
        match message {
            m3ua::Message::Data(data) => Some(data.protocol_data.user_data.clone()),
            _ => None,
        }
    }

    fn on_asp(_: &mut Asp<Self>, _: Time, indication: m3ua::asp::AspIndication) -> UserEvent {
        use m3ua::asp::AspIndication;
        match indication {
            AspIndication::Transfer(data) => UserEvent::Data(data.protocol_data.user_data),
            AspIndication::AspUp(Ok(())) => UserEvent::Up,
            _ => UserEvent::Other,
        }
    }

    fn on_gateway(_: &mut Gateway<Self>, indication: m3ua::sgp::SgpIndication) -> UserEvent {
        use m3ua::sgp::SgpIndication;
        match indication {
            SgpIndication::Transfer(_, _, data) => UserEvent::Data(data.protocol_data.user_data),
            SgpIndication::Discarded(_, count) => UserEvent::Discarded(count),
            _ => UserEvent::Other,
        }
    }
}

/// Returns a message of MTP3 to application server 1, with the flow as SLS.
fn mtp3(content: &Bytes) -> m3ua::ProtocolData {
    m3ua::ProtocolData {
        dpc: samples::code(1),
        ..samples::data(content[0], content).protocol_data
    }
}

impl WorldLayer for Sua {
    const PPID: u32 = sua::PAYLOAD_PROTOCOL_ID;
    const SERVERS: u8 = 1;

    fn decode(octets: &Bytes) -> Result<sua::Message, DecodeError> {
        sua::Message::decode(octets)
    }

    fn send_to_asps(gateway: &mut Gateway<Self>, content: Bytes) -> bool {
        gateway.transfer(None, sccp(content)).is_ok()
    }

    fn send_to_gateway(asp: &mut Asp<Self>, content: Bytes) -> bool {
        asp.transfer(sccp(content)).is_ok()
    }

    fn content(message: &sua::Message) -> Option<Bytes> {
        match message {
            sua::Message::ConnectionlessDataTransfer(body) => Some(body.data.0.clone()),
            _ => None,
        }
    }

    fn on_asp(_: &mut Asp<Self>, _: Time, indication: sua::asp::AspIndication) -> UserEvent {
        use sua::asp::AspIndication;
        match indication {
            AspIndication::Asp(event) => asp_event(&event),
            AspIndication::Traffic(_, message) => data_of::<Self>(&message),
            AspIndication::State(_) => UserEvent::Other,
        }
    }

    fn on_gateway(_: &mut Gateway<Self>, indication: sua::sgp::SgpIndication) -> UserEvent {
        use sua::sgp::SgpIndication;
        match indication {
            SgpIndication::Gateway(event) => gateway_event(&event),
            SgpIndication::Traffic(_, _, message) => data_of::<Self>(&message),
            _ => UserEvent::Other,
        }
    }
}

/// Returns a message of protocol class 1 for application server 1, with the flow as sequence control.
fn sccp(content: Bytes) -> sua::Message {
    let mut message = cldt(1);
    message.protocol_class.class = sua::ServiceClass::Class1;
    message.sequence_control = sua::SequenceControl(content[0].into());
    message.data = sua::UserData(content);
    sua::Message::ConnectionlessDataTransfer(message)
}

fn data_of<L: WorldLayer>(message: &L::Message) -> UserEvent {
    L::content(message).map_or(UserEvent::Other, UserEvent::Data)
}

impl WorldLayer for M2ua {
    const PPID: u32 = m2ua::PAYLOAD_PROTOCOL_ID;
    const SERVERS: u8 = FLOWS;

    fn decode(octets: &Bytes) -> Result<m2ua::Message, DecodeError> {
        m2ua::Message::decode(octets)
    }

    fn send_to_asps(gateway: &mut Gateway<Self>, content: Bytes) -> bool {
        let data = m2ua::ProtocolData::Mtp2(content.clone());
        let sent = gateway.link(&id::<Self>(&content), |link| link.send(data, None));
        sent.is_ok()
    }

    fn send_to_gateway(asp: &mut Asp<Self>, content: Bytes) -> bool {
        let data = m2ua::ProtocolData::Mtp2(content.clone());
        let sent = asp.link(&id::<Self>(&content), |link| link.send(data, None));
        sent.is_ok()
    }

    fn content(message: &m2ua::Message) -> Option<Bytes> {
        match message {
            m2ua::Message::Data(data) => Some(data.protocol_data.octets().clone()),
            _ => None,
        }
    }

    /// MTP3 starts the link when it can.
    fn on_asp(asp: &mut Asp<Self>, now: Time, indication: m2ua::asp::AspIndication) -> UserEvent {
        use m2ua::asp::AspIndication;
        match indication {
            AspIndication::Asp(AspEvent::AspStatus(Some(id), AspState::Active)) => {
                // The state can have changed again since then.
                let _ = asp.link(&id, |link| link.request(now, LinkRequest::Establish));
                UserEvent::Other
            }
            AspIndication::Asp(event) => asp_event(&event),
            AspIndication::Link(_, LinkIndication::Data(data)) => {
                UserEvent::Data(data.octets().clone())
            }
            AspIndication::Link(..) => UserEvent::Other,
        }
    }

    fn on_gateway(gateway: &mut Gateway<Self>, indication: m2ua::sgp::SgpIndication) -> UserEvent {
        use m2ua::sgp::SgpIndication;
        match indication {
            SgpIndication::Gateway(event) => gateway_event(&event),
            SgpIndication::Mtp2(id, Mtp2Request::Start) => {
                let started = gateway.link(&id, m2ua::link::SgpLink::in_service);
                started.expect("the ASP that requested it is active");
                UserEvent::Other
            }
            SgpIndication::Mtp2(_, Mtp2Request::Data(data)) => {
                UserEvent::Data(data.octets().clone())
            }
            SgpIndication::Mtp2(..) => UserEvent::Other,
        }
    }
}

/// Returns the data link of a flow: the interfaces have two each.
fn data_link(flow: u8) -> iua::asp::DataLinkKey {
    let interface = InterfaceIdentifier::Integer(server_of::<Iua>(flow));
    let tei = flow / Iua::SERVERS;
    (interface, iua::Dlci::new(0, tei).expect("a DLCI"))
}

impl WorldLayer for Iua {
    const PPID: u32 = iua::PAYLOAD_PROTOCOL_ID;
    const SERVERS: u8 = FLOWS / 2;

    fn decode(octets: &Bytes) -> Result<iua::Message, DecodeError> {
        iua::Message::decode(octets)
    }

    fn prepare(gateway: &mut Gateway<Self>) {
        for flow in 0..FLOWS {
            // There is no ASP yet to which the status could be indicated.
            let _ = gateway.set_tei_status(&data_link(flow), iua::TeiStatus::Assigned);
        }
    }

    fn send_to_asps(gateway: &mut Gateway<Self>, content: Bytes) -> bool {
        let key = data_link(content[0]);
        let sent = gateway.data_link(&key, |link| link.data(iua::ProtocolData(content)));
        sent.is_ok()
    }

    fn send_to_gateway(asp: &mut Asp<Self>, content: Bytes) -> bool {
        let key = data_link(content[0]);
        let sent = asp.data_link(&key, |link| link.send(iua::ProtocolData(content)));
        matches!(sent, Ok(Ok(())))
    }

    fn content(message: &iua::Message) -> Option<Bytes> {
        match message {
            iua::Message::DataIndication(data) | iua::Message::DataRequest(data) => {
                Some(data.protocol_data.0.clone())
            }
            _ => None,
        }
    }

    /// Messages without an established data link are discarded.
    fn takes(asp: &mut Asp<Self>, flow: u8) -> bool {
        let state = asp.data_link(&data_link(flow), |link| link.state());
        state == Ok(DataLinkState::Established)
    }

    /// Q.931 establishes its data links when it can.
    fn on_asp(asp: &mut Asp<Self>, now: Time, indication: iua::asp::AspIndication) -> UserEvent {
        use iua::asp::AspIndication;
        match indication {
            AspIndication::Asp(AspEvent::AspStatus(Some(id), AspState::Active)) => {
                for key in (0..FLOWS).map(data_link).filter(|(own, _)| *own == id) {
                    // The state can have changed again since then.
                    let _ = asp.data_link(&key, |link| link.establish(now));
                }
                UserEvent::Other
            }
            AspIndication::Asp(event) => asp_event(&event),
            AspIndication::DataLink(_, DataLinkIndication::Data(data)) => UserEvent::Data(data.0),
            AspIndication::DataLink(..) => UserEvent::Other,
        }
    }

    fn on_gateway(gateway: &mut Gateway<Self>, indication: iua::sg::SgIndication) -> UserEvent {
        use iua::sg::SgIndication;
        match indication {
            SgIndication::Gateway(event) => gateway_event(&event),
            SgIndication::Q921(key, Q921Request::Establish) => {
                let confirmed = gateway.data_link(&key, iua::link::SgDataLink::establish_confirm);
                confirmed.expect("the ASP that requested it is active");
                UserEvent::Other
            }
            SgIndication::Q921(_, Q921Request::Data(data)) => UserEvent::Data(data.0),
            SgIndication::Q921(..) => UserEvent::Other,
        }
    }
}
