//! Transfer messages (RFC 4666, section 3.3).

use crate::m3ua::{CorrelationId, NetworkAppearance, ProtocolData, RoutingContext, tag};
use crate::message::body::message;
use crate::message::{DecodeError, DecodeErrorKind, RawMessage};

message! {
    /// Payload Data, DATA (section 3.3.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0200          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                      network appearance                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0210          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  protocol data                                              ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0013          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        correlation id                         |
    /// +---------------------------------------------------------------+
    /// ```
    Data {
        /// Network appearance. It defines the format of the protocol data, so that it must be the first parameter.
        network_appearance: Option<NetworkAppearance>,
        /// Routing context; mandatory if several application servers share the association.
        routing_context: Option<RoutingContext>,
        /// SS7 message.
        protocol_data: ProtocolData,
        /// Identifier of the message within its application server.
        correlation_id: Option<CorrelationId>,
    }
    check network_appearance_is_first
}

/// Checks the only order of parameters that the RFC mandates (section 3.3.1).
fn network_appearance_is_first(raw: RawMessage<'_>) -> Result<(), DecodeError> {
    let mut later = raw.parameters().flatten().skip(1);
    match later.find(|parameter| parameter.tag == tag::NETWORK_APPEARANCE) {
        Some(parameter) => Err(DecodeError::new(
            DecodeErrorKind::NotFirst(parameter.tag),
            parameter.offset,
        )),
        None => Ok(()),
    }
}
