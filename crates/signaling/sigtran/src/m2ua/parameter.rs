//! Parameters (RFC 3331, section 3.3).

use bytes::Bytes;

use super::{InterfaceIdentifier, tag};
use crate::message::field::{
    Parameter, Value, composites, enumerations, named_numbers, newtypes, single_parameters,
};
use crate::message::{DecodeError, EncodeError, MessageWriter};

newtypes! {
    /// Sequence Number: an FSN or BSN of the link (sections 3.3.1.9 and 3.3.1.10).
    SequenceNumber(u32) = tag::SEQUENCE_NUMBER;
    /// Local-LK-Identifier: correlates a registration with its result (section 3.3.4.1).
    LocalLinkKeyIdentifier(u32) = tag::LOCAL_LINK_KEY_IDENTIFIER;
}

enumerations! {
    /// State of a State Request and State Confirm (section 3.3.1.5).
    State = tag::STATE_REQUEST, number, else invalid {
        /// `STATUS_LPO_SET`: request local processor outage.
        LocalProcessorOutageSet = 0x0,
        /// `STATUS_LPO_CLEAR`: request local processor outage recovered.
        LocalProcessorOutageClear = 0x1,
        /// `STATUS_EMER_SET`: request emergency alignment.
        EmergencySet = 0x2,
        /// `STATUS_EMER_CLEAR`: request normal alignment.
        EmergencyClear = 0x3,
        /// `STATUS_FLUSH_BUFFERS`: flush receive, transmit and retransmit queues.
        FlushBuffers = 0x4,
        /// `STATUS_CONTINUE`: continue or resume.
        Continue = 0x5,
        /// `STATUS_CLEAR_RTB`: clear the retransmit queue.
        ClearRetransmitQueue = 0x6,
        /// `STATUS_AUDIT`: audit the state of the link.
        Audit = 0x7,
        /// `STATUS_CONG_CLEAR`: congestion cleared.
        CongestionClear = 0x8,
        /// `STATUS_CONG_ACCEPT`: congestion accept.
        CongestionAccept = 0x9,
        /// `STATUS_CONG_DISCARD`: congestion discard.
        CongestionDiscard = 0xa,
    }

    /// Event of a State Indication (section 3.3.1.7).
    Event = tag::STATE_EVENT, number, else invalid {
        /// `EVENT_RPO_ENTER`: the remote end entered processor outage.
        RemoteProcessorOutageEnter = 0x1,
        /// `EVENT_RPO_EXIT`: the remote end left processor outage.
        RemoteProcessorOutageExit = 0x2,
        /// `EVENT_LPO_ENTER`: the link entered processor outage.
        LocalProcessorOutageEnter = 0x3,
        /// `EVENT_LPO_EXIT`: the link left processor outage.
        LocalProcessorOutageExit = 0x4,
    }

    /// Congestion Status of a link (section 3.3.1.8).
    CongestionStatus = tag::CONGESTION_STATUS, number, else invalid {
        /// `LEVEL_NONE`: no congestion.
        None = 0x0,
        /// `LEVEL_1`.
        Level1 = 0x1,
        /// `LEVEL_2`.
        Level2 = 0x2,
        /// `LEVEL_3`, the only level in networks without several.
        Level3 = 0x3,
    }

    /// Discard Status of a link (section 3.3.1.8).
    DiscardStatus = tag::DISCARD_STATUS, number, else invalid {
        /// `LEVEL_NONE`: no message is discarded.
        None = 0x0,
        /// `LEVEL_1`.
        Level1 = 0x1,
        /// `LEVEL_2`.
        Level2 = 0x2,
        /// `LEVEL_3`, the only level in networks without several.
        Level3 = 0x3,
    }

    /// Action of a retrieval (section 3.3.1.9).
    Action = tag::ACTION, number, else invalid {
        /// `ACTION_RTRV_BSN`: retrieve the backward sequence number.
        RetrieveBsn = 0x1,
        /// `ACTION_RTRV_MSGS`: retrieve the messages from the transmit and retransmit queues.
        RetrieveMessages = 0x2,
    }

    /// Result of a retrieval (section 3.3.1.10).
    RetrievalResult = tag::RETRIEVAL_RESULT, number, else invalid {
        /// `RESULT_SUCCESS`.
        Success = 0x0,
        /// `RESULT_FAILURE`.
        Failure = 0x1,
    }
}

/// Protocol Data: a message of MTP3 (section 3.3.1.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ProtocolData {
    /// Protocol Data 1: the message from the Service Information Octet, at most 4,096 octets.
    Mtp2(Bytes),
    /// Protocol Data 2 of the Japanese TTC: the message from the Length Indicator, 2 to 4,097 octets.
    Ttc(Bytes),
}

impl ProtocolData {
    /// Longest message of MTP3 in octets, from the Service Information Octet (Q.2210).
    pub const MAX_LEN: usize = 4096;

    /// Returns the octets.
    pub const fn octets(&self) -> &Bytes {
        match self {
            Self::Mtp2(octets) | Self::Ttc(octets) => octets,
        }
    }

    const fn is_valid(tag: u16, length: usize) -> bool {
        match tag {
            tag::PROTOCOL_DATA => 1 <= length && length <= Self::MAX_LEN,
            _ => 2 <= length && length <= Self::MAX_LEN + 1,
        }
    }
}

impl Parameter for ProtocolData {
    const TAG: u16 = tag::PROTOCOL_DATA;

    fn accepts(tag: u16) -> bool {
        matches!(tag, tag::PROTOCOL_DATA | tag::TTC_PROTOCOL_DATA)
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        if !Self::is_valid(value.raw.tag, value.raw.value.len()) {
            return Err(value.wrong_length());
        }
        Ok(match value.raw.tag {
            tag::PROTOCOL_DATA => Self::Mtp2(value.all()),
            _ => Self::Ttc(value.all()),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let (tag, octets) = match self {
            Self::Mtp2(octets) => (tag::PROTOCOL_DATA, octets),
            Self::Ttc(octets) => (tag::TTC_PROTOCOL_DATA, octets),
        };
        if !Self::is_valid(tag, octets.len()) {
            let length = octets.len();
            return Err(EncodeError::Length { tag, length });
        }
        writer.parameter(tag, octets);
        Ok(())
    }
}

newtypes! {
    /// Signalling Data Terminal Identifier, of which 12 or 14 bits are significant (section 3.3.4.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |           reserved            |          identifier           |
    /// +-------------------------------+-------------------------------+
    /// ```
    SdtIdentifier(u16) = tag::SDT_IDENTIFIER;
    /// Signalling Data Link Identifier, of which 12 or 14 bits are significant (section 3.3.4.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |           reserved            |          identifier           |
    /// +-------------------------------+-------------------------------+
    /// ```
    SdlIdentifier(u16) = tag::SDL_IDENTIFIER;
}

named_numbers! {
    /// Registration Status (section 3.3.4.2).
    RegistrationStatus: u32 {
        SUCCESS = 0, "Successfully Registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_SDLI = 2, "Error - Invalid SDLI";
        INVALID_SDTI = 3, "Error - Invalid SDTI";
        INVALID_LINK_KEY = 4, "Error - Invalid Link Key";
        PERMISSION_DENIED = 5, "Error - Permission Denied";
        OVERLAPPING_LINK_KEY = 6, "Error - Overlapping (Non-unique) Link Key";
        NOT_PROVISIONED = 7, "Error - Link Key not Provisioned";
        INSUFFICIENT_RESOURCES = 8, "Error - Insufficient Resources";
    }

    /// De-Registration Status (section 3.3.4.4).
    DeregistrationStatus: u32 {
        SUCCESS = 0, "Successfully De-registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_INTERFACE_IDENTIFIER = 2, "Error - Invalid Interface Identifier";
        PERMISSION_DENIED = 3, "Error - Permission Denied";
        NOT_REGISTERED = 4, "Error - Not Registered";
    }
}

single_parameters! {
    RegistrationStatus = tag::REGISTRATION_STATUS,
    DeregistrationStatus = tag::DEREGISTRATION_STATUS,
}

composites! {
    /// Link Key: the terminal and the data link of an SS7 link (section 3.3.4.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x030a          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     Local-LK-Identifier                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x030b          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |           reserved            |        SDT identifier         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x030c          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |           reserved            |        SDL identifier         |
    /// +-------------------------------+-------------------------------+
    /// ```
    LinkKey = tag::LINK_KEY {
        /// Local-LK-Identifier, unique until the response was received.
        local_id: LocalLinkKeyIdentifier,
        /// Signalling data terminal.
        sdt: SdtIdentifier,
        /// Signalling data link.
        sdl: SdlIdentifier,
    }

    /// Registration Result of one Link Key (section 3.3.4.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x030a          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     Local-LK-Identifier                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x030e          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     registration status                       |
    /// +-------------------------------+-------------------------------+
    /// |    tag = 0x0001 or 0x0003     |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// ```
    RegistrationResult = tag::REGISTRATION_RESULT {
        /// Local-LK-Identifier of the request.
        local_id: LocalLinkKeyIdentifier,
        /// Result.
        status: RegistrationStatus,
        /// Interface identifier of the key; 0 if it was not registered.
        identifier: InterfaceIdentifier,
    }

    /// De-Registration Result of one interface identifier (section 3.3.4.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |    tag = 0x0001 or 0x0003     |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier                                       ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0310          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                    de-registration status                     |
    /// +---------------------------------------------------------------+
    /// ```
    DeregistrationResult = tag::DEREGISTRATION_RESULT {
        /// Interface identifier of the request.
        identifier: InterfaceIdentifier,
        /// Result.
        status: DeregistrationStatus,
    }
}
