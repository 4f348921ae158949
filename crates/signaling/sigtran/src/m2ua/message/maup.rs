//! MTP2 User Adaptation (MAUP) messages (RFC 3331, section 3.3.1).

use crate::m2ua::{
    Action, CongestionStatus, CorrelationId, DiscardStatus, Event, InterfaceIdentifier,
    ProtocolData, RetrievalResult, SequenceNumber, State,
};
use crate::message::body::message;
use crate::message::interface::identifier_is_first;

message! {
    /// Data (section 3.3.1.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0300 or 0x0301    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  protocol data                                              ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0013         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         correlation id                        |
    /// +---------------------------------------------------------------+
    /// ```
    Data {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Message of MTP3.
        protocol_data: ProtocolData,
        /// Identifier of the message within its application server.
        correlation_id: Option<CorrelationId>,
    }
    check identifier_is_first
}

message! {
    /// Data Acknowledge (section 3.3.1.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0013         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         correlation id                        |
    /// +---------------------------------------------------------------+
    /// ```
    DataAcknowledge {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Correlation Id of the acknowledged Data.
        correlation_id: CorrelationId,
    }
    check identifier_is_first
}

message! {
    /// Content of Establish Request and Confirm, Release Request, Confirm and Indication (sections 3.3.1.3 and
    /// 3.3.1.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// ```
    LinkMessage {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
    }
    check identifier_is_first
}

message! {
    /// Content of State Request and State Confirm (sections 3.3.1.5 and 3.3.1.6).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0302         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             state                             |
    /// +---------------------------------------------------------------+
    /// ```
    StateMessage {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Requested action or mode of the link.
        state: State,
    }
    check identifier_is_first
}

message! {
    /// State Indication (section 3.3.1.7).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0303         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             event                             |
    /// +---------------------------------------------------------------+
    /// ```
    StateIndication {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Condition of the link.
        event: Event,
    }
    check identifier_is_first
}

message! {
    /// Congestion Indication (section 3.3.1.8).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0304         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                       congestion status                       |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0305         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                         discard status                        |
    /// +---------------------------------------------------------------+
    /// ```
    CongestionIndication {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Congestion level of the link.
        congestion: CongestionStatus,
        /// Discard level of the link.
        discard: Option<DiscardStatus>,
    }
    check identifier_is_first
}

message! {
    /// Data Retrieval Request (section 3.3.1.9).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0306         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             action                            |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0307         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence number                        |
    /// +---------------------------------------------------------------+
    /// ```
    RetrievalRequest {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Content of the retrieval: the BSN or the messages.
        action: Action,
        /// FSN of the far end, for the retrieval of messages.
        sequence_number: Option<SequenceNumber>,
    }
    check identifier_is_first
}

message! {
    /// Data Retrieval Confirm (section 3.3.1.10).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0306         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             action                            |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0308         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                             result                            |
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0307         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        sequence number                        |
    /// +---------------------------------------------------------------+
    /// ```
    RetrievalConfirm {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Content of the retrieval: the BSN or the messages.
        action: Action,
        /// Result of the action.
        result: RetrievalResult,
        /// BSN, if that was retrieved.
        sequence_number: Option<SequenceNumber>,
    }
    check identifier_is_first
}

message! {
    /// Data Retrieval Indication (section 3.3.1.11): a message from the transmit or retransmit queue.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0300 or 0x0301    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  protocol data                                              ...
    /// ```
    RetrievalIndication {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Message of MTP3.
        protocol_data: ProtocolData,
    }
    check identifier_is_first
}

message! {
    /// Data Retrieval Complete Indication (section 3.3.1.12).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0300 or 0x0301    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  protocol data                                              ...
    /// ```
    RetrievalComplete {
        /// Message header: the link.
        identifier: InterfaceIdentifier,
        /// Last message of the queues.
        protocol_data: Option<ProtocolData>,
    }
    check identifier_is_first
}
