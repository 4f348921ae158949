//! Parameters (RFC 4666, sections 3.2 to 3.8). Those of a Routing Key are in `routing_key`.

use bytes::Bytes;

use super::{PointCode, RoutingContext, tag};
use crate::message::common::{deregistration_status, user_cause};
use crate::message::field::{
    Parameter, Value, composites, named_numbers, newtypes, single_parameters,
};
use crate::message::{DecodeError, EncodeError, MessageWriter};

newtypes! {
    /// Network Appearance: the SS7 network of a message, and with it the format of its point codes
    /// (section 3.3.1). Local to an SGP and its ASPs.
    NetworkAppearance(u32) = tag::NETWORK_APPEARANCE;
    /// Local-RK-Identifier: correlates a registration with its result (section 3.6.1).
    LocalRoutingKeyIdentifier(u32) = tag::LOCAL_ROUTING_KEY_IDENTIFIER;
}

named_numbers! {
    /// Registration Status (section 3.6.2).
    RegistrationStatus: u32 {
        SUCCESS = 0, "Successfully Registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_DPC = 2, "Error - Invalid DPC";
        INVALID_NETWORK_APPEARANCE = 3, "Error - Invalid Network Appearance";
        INVALID_ROUTING_KEY = 4, "Error - Invalid Routing Key";
        PERMISSION_DENIED = 5, "Error - Permission Denied";
        NO_UNIQUE_ROUTING = 6, "Error - Cannot Support Unique Routing";
        NOT_PROVISIONED = 7, "Error - Routing Key not Currently Provisioned";
        INSUFFICIENT_RESOURCES = 8, "Error - Insufficient Resources";
        UNSUPPORTED_PARAMETER = 9, "Error - Unsupported RK parameter Field";
        UNSUPPORTED_TRAFFIC_MODE = 10, "Error - Unsupported/Invalid Traffic Handling Mode";
        CHANGE_REFUSED = 11, "Error - Routing Key Change Refused";
        ALREADY_REGISTERED = 12, "Error - Routing Key Already Registered";
    }
}

deregistration_status! {
    /// Deregistration Status (section 3.6.4).
    DeregistrationStatus = tag::DEREGISTRATION_STATUS;
}

single_parameters! {
    RegistrationStatus = tag::REGISTRATION_STATUS,
}

/// Congestion Indications: the congestion level of national networks (section 3.4.4).
///
/// ```text
/// +-----------------------------------------------+---------------+
/// |                   reserved                    |     level     |
/// +-----------------------------------------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CongestionLevel(u8);

impl CongestionLevel {
    /// No congestion, or undefined.
    pub const NONE: Self = Self(0);
    /// All levels.
    pub(super) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];

    /// Congestion level 0 (no congestion or undefined) to 3, `None` above.
    pub const fn new(level: u8) -> Option<Self> {
        if level <= 3 { Some(Self(level)) } else { None }
    }

    /// Returns the level, 0 to 3.
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Parameter for CongestionLevel {
    const TAG: u16 = tag::CONGESTION_INDICATIONS;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let level = value.octet()?;
        Self::new(level).ok_or_else(|| value.invalid(level.into()))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.into());
        Ok(())
    }
}

/// Concerned Destination: the originator of the message that caused an SCON of an ASP (section 3.4.4). The octet
/// before the point code is reserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConcernedDestination(pub PointCode);

impl Parameter for ConcernedDestination {
    const TAG: u16 = tag::CONCERNED_DESTINATION;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(PointCode::low_bits(value.number()?)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.value());
        Ok(())
    }
}

user_cause! {
    /// User/Cause (section 3.4.5).
    UserCause = tag::USER_CAUSE;
}

/// Protocol Data: an SS7 message with its routing label (section 3.3.1).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                   originating point code                      |
/// +---------------------------------------------------------------+
/// |                   destination point code                      |
/// +---------------+---------------+---------------+---------------+
/// |      SI       |      NI       |      MP       |      SLS      |
/// +---------------+---------------+---------------+---------------+
/// |  user protocol data                                         ...
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProtocolData {
    /// Originating point code, OPC.
    pub opc: PointCode,
    /// Destination point code, DPC.
    pub dpc: PointCode,
    /// Service indicator, SI: 4 bits.
    pub si: u8,
    /// Network indicator, NI: 2 bits.
    pub ni: u8,
    /// Message priority, MP: 2 bits.
    pub mp: u8,
    /// Signalling link selection, SLS: 4, 5 or 8 bits, as the network has.
    pub sls: u8,
    /// MTP3-User information, from the octet after the routing label.
    pub user_data: Bytes,
}

impl ProtocolData {
    /// Octets before the user protocol data.
    const FIXED: usize = 12;

    /// Returns the first of SI, NI and MP with bits beyond those that the field has in SS7.
    fn excess(&self) -> Option<u8> {
        let fields = [(self.si, 0x0f), (self.ni, 0x03), (self.mp, 0x03)];
        let excess = fields.into_iter().find(|(value, max)| value > max);
        excess.map(|(value, _)| value)
    }
}

impl Parameter for ProtocolData {
    const TAG: u16 = tag::PROTOCOL_DATA;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let split = value.raw.value.split_first_chunk::<{ Self::FIXED }>();
        let (fixed, user_data) = split.ok_or_else(|| value.wrong_length())?;
        let [o0, o1, o2, o3, d0, d1, d2, d3, si, ni, mp, sls] = *fixed;
        let point_code = |octets| {
            let code = u32::from_be_bytes(octets);
            PointCode::new(code).ok_or_else(|| value.invalid(code))
        };
        let data = Self {
            opc: point_code([o0, o1, o2, o3])?,
            dpc: point_code([d0, d1, d2, d3])?,
            si,
            ni,
            mp,
            sls,
            user_data: value.bytes(user_data),
        };
        match data.excess() {
            Some(field) => Err(value.invalid(field.into())),
            None => Ok(data),
        }
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if let Some(field) = self.excess() {
            return Err(EncodeError::Value {
                tag: Self::TAG,
                value: field.into(),
            });
        }
        writer.nested(Self::TAG, |writer| {
            writer.value(&self.opc.value().to_be_bytes());
            writer.value(&self.dpc.value().to_be_bytes());
            writer.value(&[self.si, self.ni, self.mp, self.sls]);
            writer.value(&self.user_data);
        });
        Ok(())
    }
}

composites! {
    /// Registration Result of one Routing Key (section 3.6.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x020a          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     Local-RK-Identifier                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0212          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     registration status                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +---------------------------------------------------------------+
    /// ```
    #[derive(Copy)]
    RegistrationResult = tag::REGISTRATION_RESULT {
        /// Local-RK-Identifier of the request.
        local_id: LocalRoutingKeyIdentifier,
        /// Result.
        status: RegistrationStatus,
        /// Routing context of the key; 0 if it was not registered.
        routing_context: RoutingContext,
    }

    /// Deregistration Result of one routing context (section 3.6.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0213          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                    deregistration status                      |
    /// +---------------------------------------------------------------+
    /// ```
    #[derive(Copy)]
    DeregistrationResult = tag::DEREGISTRATION_RESULT {
        /// Routing context of the request.
        routing_context: RoutingContext,
        /// Result.
        status: DeregistrationStatus,
    }
}
