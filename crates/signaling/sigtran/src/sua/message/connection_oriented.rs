//! Connection-oriented messages (RFC 3868, section 3.3).

use crate::message::body::message;
use crate::message::field::RuleViolation;
use crate::sua::{
    CorrelationId, Credit, DestinationAddress, DestinationReferenceNumber, ErrorCause, HopCounter,
    Importance, MessagePriority, ProtocolClass, ReceiveSequenceNumber, RefusalCause, ReleaseCause,
    ResetCause, RoutingContext, SequenceControl, SequenceNumbers, ServiceClass, SourceAddress,
    SourceReferenceNumber, UserData, tag,
};

/// Checks that a class is connection-oriented, and that class 3 has the parameters that only it needs.
fn check_class(class: ProtocolClass, class_3: &[(u16, bool)]) -> Result<(), RuleViolation> {
    if !class.class.is_connection_oriented() {
        return Err(RuleViolation::Value {
            tag: tag::PROTOCOL_CLASS,
            value: class.class as u32,
        });
    }
    match class_3.iter().find(|(_, is_present)| !is_present) {
        Some(&(tag, _)) if class.class == ServiceClass::Class3 => Err(RuleViolation::Missing(tag)),
        _ => Ok(()),
    }
}

message! {
    /// Connection Oriented Data Transfer, CODT (section 3.3.1): DT1 and DT2 of SCCP, and ED without sequence
    /// numbers.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0107         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence number                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0114         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        message priority                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0013         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         correlation id                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionOrientedDataTransfer {
        /// Application server.
        routing_context: RoutingContext,
        /// Sequence numbers and the more data indication; absent in expedited data.
        sequence_numbers: Option<SequenceNumbers>,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Message priority, in networks that have it.
        priority: Option<MessagePriority>,
        /// Identifier of the message within its application server.
        correlation_id: Option<CorrelationId>,
        /// Message of the SCCP user.
        data: UserData,
    }
}

message! {
    /// Connection Oriented Data Acknowledge, CODA, of protocol class 3 (section 3.3.2): AK of SCCP, and EA without
    /// receive sequence number.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0108         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    receive sequence number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010a         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             credit                            |
    /// +---------------------------------------------------------------+
    /// ```
    ConnectionOrientedDataAcknowledge {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Lower edge of the window; absent in the acknowledgement of expedited data.
        received: Option<ReceiveSequenceNumber>,
        /// Size of the window; mandatory with a receive sequence number.
        credit: Option<Credit>,
    }
    rule acknowledgement_has_credit
}

const fn acknowledgement_has_credit(
    body: &ConnectionOrientedDataAcknowledge,
) -> Result<(), RuleViolation> {
    if body.received.is_some() && body.credit.is_none() {
        return Err(RuleViolation::Missing(tag::CREDIT));
    }
    Ok(())
}

message! {
    /// Connection Request, CORE (section 3.3.3): CR of SCCP.
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
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0103         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  destination address                                        ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0116         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence control                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0107         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence number                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0102         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  source address                                             ...
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
    /// |          tag = 0x010a         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             credit                            |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionRequest {
        /// Application server.
        routing_context: RoutingContext,
        /// Proposed protocol class, 2 or 3.
        protocol_class: ProtocolClass,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Address of the receiver.
        destination: DestinationAddress,
        /// Messages with the same value keep their order.
        sequence_control: SequenceControl,
        /// Sequence numbers; mandatory in protocol class 3.
        sequence_numbers: Option<SequenceNumbers>,
        /// Address of the sender.
        source: Option<SourceAddress>,
        /// Global title translations that are left.
        hop_counter: Option<HopCounter>,
        /// Importance.
        importance: Option<Importance>,
        /// Message priority, in networks that have it.
        priority: Option<MessagePriority>,
        /// Proposed size of the window; mandatory in protocol class 3.
        credit: Option<Credit>,
        /// Message of the SCCP user.
        data: Option<UserData>,
    }
    rule request_fits_class
}

fn request_fits_class(body: &ConnectionRequest) -> Result<(), RuleViolation> {
    let class_3 = [
        (tag::SEQUENCE_NUMBER, body.sequence_numbers.is_some()),
        (tag::CREDIT, body.credit.is_some()),
    ];
    check_class(body.protocol_class, &class_3)
}

message! {
    /// Connection Acknowledge, COAK (section 3.3.4): CC of SCCP.
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
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0116         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence control                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010a         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             credit                            |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0102         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  source address                                             ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0114         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        message priority                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0103         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  destination address                                        ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionAcknowledge {
        /// Application server.
        routing_context: RoutingContext,
        /// Protocol class of the connection, 2 or 3.
        protocol_class: ProtocolClass,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Messages with the same value keep their order.
        sequence_control: SequenceControl,
        /// Size of the window; mandatory in protocol class 3.
        credit: Option<Credit>,
        /// Address of the sender.
        source: Option<SourceAddress>,
        /// Importance.
        importance: Option<Importance>,
        /// Message priority, in networks that have it.
        priority: Option<MessagePriority>,
        /// Address of the receiver, if the CORE contained a source address.
        destination: Option<DestinationAddress>,
        /// Message of the SCCP user.
        data: Option<UserData>,
    }
    rule acknowledge_fits_class
}

fn acknowledge_fits_class(body: &ConnectionAcknowledge) -> Result<(), RuleViolation> {
    check_class(body.protocol_class, &[(tag::CREDIT, body.credit.is_some())])
}

message! {
    /// Connection Refused, COREF (section 3.3.5): CREF of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
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
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ConnectionRefused {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reason.
        cause: RefusalCause,
        /// Address of the sender.
        source: Option<SourceAddress>,
        /// Address of the receiver, if the CORE contained a source address.
        destination: Option<DestinationAddress>,
        /// Importance.
        importance: Option<Importance>,
        /// Message of the SCCP user.
        data: Option<UserData>,
    }
}

message! {
    /// Release Request, RELRE (section 3.3.6): RLSD of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0106         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           SCCP cause                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010b         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  data                                                       ...
    /// ```
    ReleaseRequest {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Reason.
        cause: ReleaseCause,
        /// Importance.
        importance: Option<Importance>,
        /// Message of the SCCP user.
        data: Option<UserData>,
    }
}

message! {
    /// Release Complete, RELCO (section 3.3.7): RLC of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0113         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           importance                          |
    /// +---------------------------------------------------------------+
    /// ```
    ReleaseComplete {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Importance.
        importance: Option<Importance>,
    }
}

message! {
    /// Reset Request, RESRE (section 3.3.8): RSR of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0106         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           SCCP cause                          |
    /// +---------------------------------------------------------------+
    /// ```
    ResetRequest {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Reason.
        cause: ResetCause,
    }
}

message! {
    /// Reset Confirm, RESCO (section 3.3.9): RSC of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +---------------------------------------------------------------+
    /// ```
    ResetConfirm {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
    }
}

message! {
    /// Connection Oriented Error, COERR (section 3.3.10): ERR of SCCP.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        routing context                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0106         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                           SCCP cause                          |
    /// +---------------------------------------------------------------+
    /// ```
    ConnectionOrientedError {
        /// Application server.
        routing_context: RoutingContext,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Reason.
        cause: ErrorCause,
    }
}

message! {
    /// Inactivity Test, COIT (section 3.3.11): IT of SCCP.
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
    /// |          tag = 0x0104         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                    source reference number                    |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0105         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                  destination reference number                 |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0107         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence number                        |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010a         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             credit                            |
    /// +---------------------------------------------------------------+
    /// ```
    InactivityTest {
        /// Application server.
        routing_context: RoutingContext,
        /// Protocol class of the connection, 2 or 3.
        protocol_class: ProtocolClass,
        /// Reference number of the connection at the sender.
        source_reference: SourceReferenceNumber,
        /// Reference number of the connection at the receiver.
        destination_reference: DestinationReferenceNumber,
        /// Sequence numbers of the last CODT or CODA; ignored in protocol class 2.
        sequence_numbers: SequenceNumbers,
        /// Credit of the last CODT or CODA; ignored in protocol class 2.
        credit: Credit,
    }
    rule test_fits_class
}

fn test_fits_class(body: &InactivityTest) -> Result<(), RuleViolation> {
    check_class(body.protocol_class, &[])
}
