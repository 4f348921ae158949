//! The layers under test.

use bytes::Bytes;
use carrick_sigtran::m3ua::{self, M3ua, PointCode, RoutingContext, RoutingKeyDestination};
use carrick_sigtran::message::TrafficMode;
use carrick_sigtran::sua::{self, Sua};
use carrick_sigtran::{iua, m2ua};
use iua::Iua;
use m2ua::{InterfaceIdentifier, M2ua};

use super::Tested;

fn point_code(number: u32) -> PointCode {
    PointCode::new(number).expect("a point code")
}

fn mtp3(number: u32) -> m3ua::ProtocolData {
    m3ua::ProtocolData {
        opc: point_code(1),
        dpc: point_code(number),
        si: 3,
        ni: 2,
        mp: 0,
        sls: 1,
        user_data: Bytes::from_static(b"data"),
    }
}

impl Tested for M3ua {
    const RFC: &'static str = "RFC 4666";
    const SECTIONS: [&'static str; 8] = [
        "4.3.1", "4.3.2", "4.3.4.1", "4.3.4.2", "4.3.4.3", "4.3.4.4", "4.3.4.5", "4.3.4.6",
    ];

    fn id(number: u32) -> RoutingContext {
        RoutingContext(number)
    }

    fn served(number: u32, mode: Option<TrafficMode>) -> m3ua::asp::AspApplicationServer {
        m3ua::asp::AspApplicationServer {
            traffic_mode: mode,
            ..m3ua::asp::AspApplicationServer::new(RoutingContext(number))
        }
    }

    fn server(
        number: u32,
        mode: Option<TrafficMode>,
        minimum: usize,
    ) -> m3ua::sgp::ApplicationServerConfig {
        let destinations = vec![RoutingKeyDestination::all(point_code(number))];
        m3ua::sgp::ApplicationServerConfig {
            traffic_mode: mode,
            minimum_asps: minimum,
            ..m3ua::sgp::ApplicationServerConfig::new(RoutingContext(number), destinations)
        }
    }

    fn payload(number: u32) -> m3ua::ProtocolData {
        mtp3(number)
    }

    fn traffic(number: u32) -> m3ua::Message {
        m3ua::Message::Data(m3ua::Data {
            network_appearance: None,
            routing_context: Some(RoutingContext(number)),
            protocol_data: mtp3(number),
            correlation_id: None,
        })
    }
}

/// Returns the address of a subsystem.
pub(crate) fn address(number: u32) -> sua::Address {
    sua::Address::point_code(point_code(number), sua::SubsystemNumber(8))
}

/// Returns a CLDT.
pub(crate) fn cldt(number: u32) -> sua::ConnectionlessDataTransfer {
    sua::ConnectionlessDataTransfer {
        routing_context: RoutingContext(number),
        protocol_class: sua::ProtocolClass {
            class: sua::ServiceClass::Class0,
            return_on_error: true,
        },
        source: sua::SourceAddress(address(1)),
        destination: sua::DestinationAddress(address(number)),
        sequence_control: sua::SequenceControl(1),
        hop_counter: None,
        importance: None,
        priority: None,
        correlation_id: None,
        segmentation: None,
        data: sua::UserData(Bytes::from_static(b"data")),
    }
}

impl Tested for Sua {
    const RFC: &'static str = "RFC 3868";
    const SECTIONS: [&'static str; 8] = M3ua::SECTIONS;

    fn id(number: u32) -> RoutingContext {
        RoutingContext(number)
    }

    fn served(number: u32, mode: Option<TrafficMode>) -> sua::asp::AspApplicationServer {
        sua::asp::AspApplicationServer {
            traffic_mode: mode,
            ..sua::asp::AspApplicationServer::new(RoutingContext(number))
        }
    }

    fn server(
        number: u32,
        mode: Option<TrafficMode>,
        minimum: usize,
    ) -> sua::sgp::ApplicationServerConfig {
        let destinations = sua::sgp::Destinations::Address(address(number));
        sua::sgp::ApplicationServerConfig {
            traffic_mode: mode,
            minimum_asps: minimum,
            ..sua::sgp::ApplicationServerConfig::new(RoutingContext(number), destinations)
        }
    }

    fn payload(number: u32) -> sua::Message {
        Self::traffic(number)
    }

    fn traffic(number: u32) -> sua::Message {
        sua::Message::ConnectionlessDataTransfer(cldt(number))
    }
}

impl Tested for M2ua {
    const RFC: &'static str = "RFC 3331";
    const SECTIONS: [&'static str; 8] = M3ua::SECTIONS;

    fn id(number: u32) -> InterfaceIdentifier {
        InterfaceIdentifier::Integer(number)
    }

    fn served(number: u32, mode: Option<TrafficMode>) -> m2ua::asp::Interface {
        m2ua::asp::Interface {
            traffic_mode: mode,
            ..m2ua::asp::Interface::new(Self::id(number))
        }
    }

    fn server(number: u32, mode: Option<TrafficMode>, minimum: usize) -> m2ua::sgp::SgpInterface {
        m2ua::sgp::SgpInterface {
            traffic_mode: mode,
            minimum_asps: minimum,
            ..m2ua::sgp::SgpInterface::new(Self::id(number))
        }
    }

    fn payload(number: u32) -> m2ua::Message {
        Self::traffic(number)
    }

    fn traffic(number: u32) -> m2ua::Message {
        m2ua::Message::Data(m2ua::Data {
            identifier: Self::id(number),
            protocol_data: m2ua::ProtocolData::Mtp2(Bytes::from_static(b"data")),
            correlation_id: None,
        })
    }
}

/// Returns the data link of tests.
pub(crate) fn dlci() -> iua::Dlci {
    iua::Dlci::new(0, 5).expect("a DLCI")
}

impl Tested for Iua {
    const RFC: &'static str = "RFC 4233";
    const SECTIONS: [&'static str; 8] = [
        "4.3.1.1", "4.3.1.2", "4.3.3.1", "4.3.3.2", "4.3.3.4", "4.3.3.5", "4.3.3.6", "4.3.3.7",
    ];

    fn id(number: u32) -> InterfaceIdentifier {
        InterfaceIdentifier::Integer(number)
    }

    fn served(number: u32, mode: Option<TrafficMode>) -> iua::asp::Interface {
        iua::asp::Interface {
            traffic_mode: mode,
            ..iua::asp::Interface::new(Self::id(number))
        }
    }

    fn server(number: u32, mode: Option<TrafficMode>, minimum: usize) -> iua::sg::SgInterface {
        iua::sg::SgInterface {
            traffic_mode: mode,
            minimum_asps: minimum,
            ..iua::sg::SgInterface::new(Self::id(number))
        }
    }

    fn payload(number: u32) -> iua::Message {
        iua::Message::DataIndication(data(number))
    }

    fn traffic(number: u32) -> iua::Message {
        iua::Message::DataRequest(data(number))
    }
}

fn data(number: u32) -> iua::Data {
    iua::Data {
        identifier: InterfaceIdentifier::Integer(number),
        dlci: dlci(),
        protocol_data: iua::ProtocolData(Bytes::from_static(b"data")),
    }
}
