//! Routing Key and the results of its registration (RFC 3868, sections 3.9.20 to 3.9.23, 3.10.14 and 3.10.17).

use super::{
    Address, DestinationAddress, LocalRoutingKeyIdentifier, NetworkAppearance, RoutingContext,
    SourceAddress, TrafficMode, tag,
};
use crate::message::common::deregistration_status;
use crate::message::field::{
    Parameter, Value, composites, missing, named_numbers, single_parameters,
};
use crate::message::{DecodeError, EncodeError, MessageWriter};

named_numbers! {
    /// Registration Status (section 3.9.22).
    RegistrationStatus: u32 {
        SUCCESS = 0, "Successfully Registered";
        UNKNOWN = 1, "Error - Unknown";
        INVALID_DESTINATION_ADDRESS = 2, "Error - Invalid Destination Address";
        INVALID_NETWORK_APPEARANCE = 3, "Error - Invalid Network Appearance";
        INVALID_ROUTING_KEY = 4, "Error - Invalid Routing Key";
        PERMISSION_DENIED = 5, "Error - Permission Denied";
        NO_UNIQUE_ROUTING = 6, "Error - Cannot Support Unique Routing";
        NOT_PROVISIONED = 7, "Error - Routing Key not Currently Provisioned";
        INSUFFICIENT_RESOURCES = 8, "Error - Insufficient Resources";
        UNSUPPORTED_PARAMETER = 9, "Error - Unsupported RK parameter Field";
        UNSUPPORTED_TRAFFIC_MODE = 10, "Error - Unsupported/Invalid Traffic Mode Type";
        CHANGE_REFUSED = 11, "Error - Routing Key Change Refused";
    }
}

deregistration_status! {
    /// Deregistration Status (section 3.9.23).
    DeregistrationStatus = tag::DEREGISTRATION_STATUS;
}

single_parameters! {
    RegistrationStatus = tag::REGISTRATION_STATUS,
}

composites! {
    /// Registration Result of one Routing Key (section 3.9.20).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0018          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                 local routing key identifier                  |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0016          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                     registration status                       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +---------------------------------------------------------------+
    /// ```
    RegistrationResult = tag::REGISTRATION_RESULT {
        /// Identifier of the request.
        local_id: LocalRoutingKeyIdentifier,
        /// Result.
        status: RegistrationStatus,
        /// Routing context of the key; 0 if it was not registered.
        routing_context: RoutingContext,
    }

    /// Deregistration Result of one routing context (section 3.9.21).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                       routing context                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0017          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                    deregistration status                      |
    /// +---------------------------------------------------------------+
    /// ```
    DeregistrationResult = tag::DEREGISTRATION_RESULT {
        /// Routing context of the request.
        routing_context: RoutingContext,
        /// Result.
        status: DeregistrationStatus,
    }

    /// Routing Key: the range of SCCP traffic of an application server (section 3.10.14).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0018          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                 local routing key identifier                  |
    /// +-------------------------------+-------------------------------+
    /// |  traffic mode type (0x000b), optional                         |
    /// |  network appearance (0x010d), optional                        |
    /// |  source address (0x0102), optional                            |
    /// |  destination address (0x0103), optional                       |
    /// |  address range (0x0111), optional                             |
    /// +---------------------------------------------------------------+
    /// ```
    RoutingKey = tag::ROUTING_KEY {
        /// Identifier, unique until the response was received.
        local_id: LocalRoutingKeyIdentifier,
        /// Traffic mode of the application server.
        traffic_mode: Option<RequestedTrafficMode>,
        /// Network appearance; mandatory if the ASP can register in several SS7 networks.
        network_appearance: Option<NetworkAppearance>,
        /// Source address.
        source: Option<SourceAddress>,
        /// Destination address.
        destination: Option<DestinationAddress>,
        /// Range of addresses.
        range: Option<AddressRange>,
    }
}

/// Traffic Mode Type of a Routing Key. An undefined mode is kept, because the registration's result answers it, not an
/// Error message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestedTrafficMode(pub TrafficMode);

impl Parameter for RequestedTrafficMode {
    const TAG: u16 = tag::TRAFFIC_MODE_TYPE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(TrafficMode(value.number()?)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, self.0.0);
        Ok(())
    }
}

/// Address Range: the first and the last address of each range, at least one (section 3.10.17).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |     tag = 0x0102 or 0x0103    |            length             |
/// +-------------------------------+-------------------------------+
/// |  address, an even number of them with the same tag          ...
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AddressRange {
    /// Ranges of source addresses.
    Source(Vec<[Address; 2]>),
    /// Ranges of destination addresses.
    Destination(Vec<[Address; 2]>),
}

impl Parameter for AddressRange {
    const TAG: u16 = tag::ADDRESS_RANGE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let mut address_tag = None;
        let (mut ranges, mut first) = (Vec::new(), None);
        for raw in value.nested() {
            let raw = raw?;
            let nested = Value { raw, ..value };
            let address = match raw.tag {
                tag::SOURCE_ADDRESS => SourceAddress::decode(nested)?.0,
                tag::DESTINATION_ADDRESS => DestinationAddress::decode(nested)?.0,
                _ => {
                    value.context.skip(raw)?;
                    continue;
                }
            };
            if *address_tag.get_or_insert(raw.tag) != raw.tag {
                return Err(nested.conflict());
            }
            match first.take() {
                None => first = Some(address),
                Some(first) => ranges.push([first, address]),
            }
        }
        let address_tag = address_tag.unwrap_or(tag::SOURCE_ADDRESS);
        if first.is_some() || ranges.is_empty() {
            return Err(missing(address_tag, value.raw.offset));
        }
        Ok(match address_tag {
            tag::SOURCE_ADDRESS => Self::Source(ranges),
            _ => Self::Destination(ranges),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let (Self::Source(ranges) | Self::Destination(ranges)) = self;
        if ranges.is_empty() {
            return Err(EncodeError::Empty(Self::TAG));
        }
        let mut result = Ok(());
        writer.nested(Self::TAG, |writer| {
            result = ranges
                .iter()
                .flatten()
                .cloned()
                .try_for_each(|address| match self {
                    Self::Source(_) => SourceAddress(address).encode(writer),
                    Self::Destination(_) => DestinationAddress(address).encode(writer),
                });
        });
        result
    }
}
