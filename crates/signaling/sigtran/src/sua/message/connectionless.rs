//! Connectionless messages (RFC 3868, section 3.2).

use crate::message::body::message;
use crate::message::field::RuleViolation;
use crate::sua::{
    CorrelationId, DestinationAddress, HopCounter, Importance, MessagePriority, ProtocolClass,
    ReturnCause, RoutingContext, Segmentation, SequenceControl, SourceAddress, UserData, tag,
};

message! {
    /// Connectionless Data Transfer, CLDT (section 3.2.1): UDT, XUDT and LUDT of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0115         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         protocol class                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0102         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  source address                                             ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0103         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  destination address                                        ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0116         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence control                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0101         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        SS7 hop counter                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0114         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        message priority                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0013         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         correlation id                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0117         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                          segmentation                         |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionlessDataTransfer {
        /// Application server.
        routing_context: RoutingContext,
        /// Protocol class 0 or 1, and the return option.
        protocol_class: ProtocolClass,
        /// Address of the sender.
        source: SourceAddress,
        /// Address of the receiver.
        destination: DestinationAddress,
        /// Messages with the same value keep their order.
        sequence_control: SequenceControl,
        /// Global title translations that are left.
        hop_counter: Option<HopCounter>,
        /// Importance.
        importance: Option<Importance>,
        /// Message priority, in networks that have it.
        priority: Option<MessagePriority>,
        /// Identifier of the message within its application server.
        correlation_id: Option<CorrelationId>,
        /// Place among the segments of a message.
        segmentation: Option<Segmentation>,
        /// Message of the SCCP user.
        data: UserData,
    }
    rule is_connectionless
}

fn is_connectionless(body: &ConnectionlessDataTransfer) -> Result<(), RuleViolation> {
    if body.protocol_class.class.is_connection_oriented() {
        return Err(RuleViolation::Value {
            tag: tag::PROTOCOL_CLASS,
            value: body.protocol_class.class as u32,
        });
    }
    Ok(())
}

message! {
    /// Connectionless Data Response, CLDR (section 3.2.2): UDTS, XUDTS and LUDTS of SCCP. It returns a CLDT
    /// that could not be delivered.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0106         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           SCCP cause                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0102         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  source address                                             ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0103         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  destination address                                        ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0101         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        SS7 hop counter                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0114         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        message priority                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0013         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         correlation id                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0117         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                          segmentation                         |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionlessDataResponse {
        /// Application server.
        routing_context: RoutingContext,
        /// Reason.
        cause: ReturnCause,
        /// Address of the sender.
        source: SourceAddress,
        /// Address of the receiver.
        destination: DestinationAddress,
        /// Global title translations that are left.
        hop_counter: Option<HopCounter>,
        /// Importance.
        importance: Option<Importance>,
        /// Message priority, in networks that have it.
        priority: Option<MessagePriority>,
        /// Identifier of the message within its application server.
        correlation_id: Option<CorrelationId>,
        /// Place among the segments of a message.
        segmentation: Option<Segmentation>,
        /// Message of the SCCP user.
        data: Option<UserData>,
    }
}
