//! Addresses of SCCP users (RFC 3868, section 3.10.2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::{PointCode, tag};
use crate::message::common::unmasked;
use crate::message::field::{Field, Parameter, Value, missing, newtypes};
use crate::message::{DecodeError, EncodeError, MessageWriter};

newtypes! {
    /// Subsystem Number, SSN, of an SCCP user (section 3.10.2.5).
    ///
    /// ```text
    /// +-----------------------------------------------+---------------+
    /// |                   reserved                    |      SSN      |
    /// +-----------------------------------------------+---------------+
    /// ```
    SubsystemNumber(u8) = tag::SUBSYSTEM_NUMBER;
}

/// Address of an SCCP user (section 3.10.2).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |       routing indicator       |       address indicator       |
/// +-------------------------------+-------------------------------+
/// |  address parameters                                         ...
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// Address parameters that the SCCP address in the SS7 network contains.
    pub indicator: AddressIndicator,
    /// Routing indicator with the address parameters that it allows.
    pub route: Route,
}

/// Address parameters that an SCCP address contains, or is to contain, in the SS7 network (section 3.10.2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AddressIndicator {
    /// Bit 1: subsystem number.
    pub ssn: bool,
    /// Bit 2: point code.
    pub point_code: bool,
    /// Bit 3: global title.
    pub global_title: bool,
}

impl AddressIndicator {
    const fn from_bits(bits: u16) -> Self {
        Self {
            ssn: bits & 1 != 0,
            point_code: bits & 2 != 0,
            global_title: bits & 4 != 0,
        }
    }

    const fn bits(self) -> u16 {
        self.ssn as u16 | (self.point_code as u16) << 1 | (self.global_title as u16) << 2
    }
}

/// Routing indicator, and the combination of address parameters that is valid with it (section 3.10.2.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// Route on Global Title.
    GlobalTitle {
        /// Global title.
        global_title: GlobalTitle,
        /// Point code.
        point_code: Option<PointCode>,
        /// Subsystem number, which may be 0.
        ssn: Option<SubsystemNumber>,
    },
    /// Route on SSN + PC.
    PointCode {
        /// Subsystem number, not 0.
        ssn: SubsystemNumber,
        /// Point code. From an SGP to an ASP it is mandatory in the source address, to reach an SS7 node it is mandatory
        /// in the destination address.
        point_code: Option<PointCode>,
        /// Global title.
        global_title: Option<GlobalTitle>,
    },
    /// Route on Hostname.
    HostName {
        /// Name.
        host_name: HostName,
        /// Subsystem number.
        ssn: Option<SubsystemNumber>,
    },
    /// Route on SSN + IP Address.
    IpAddress {
        /// Subsystem number, not 0.
        ssn: SubsystemNumber,
        /// Address.
        address: Option<IpAddr>,
    },
}

impl Address {
    /// Address of a subsystem at a point code, both of which are in the SCCP address.
    pub const fn point_code(point_code: PointCode, ssn: SubsystemNumber) -> Self {
        Self {
            indicator: AddressIndicator {
                ssn: true,
                point_code: true,
                global_title: false,
            },
            route: Route::PointCode {
                ssn,
                point_code: Some(point_code),
                global_title: None,
            },
        }
    }

    /// Address with a global title and a subsystem number, both of which are in the SCCP address.
    pub const fn global_title(global_title: GlobalTitle, ssn: SubsystemNumber) -> Self {
        Self {
            indicator: AddressIndicator {
                ssn: true,
                point_code: false,
                global_title: true,
            },
            route: Route::GlobalTitle {
                global_title,
                point_code: None,
                ssn: Some(ssn),
            },
        }
    }

    /// Returns the subsystem number.
    pub const fn ssn(&self) -> Option<SubsystemNumber> {
        match self.route {
            Route::GlobalTitle { ssn, .. } | Route::HostName { ssn, .. } => ssn,
            Route::PointCode { ssn, .. } | Route::IpAddress { ssn, .. } => Some(ssn),
        }
    }

    /// Returns whether messages are routed on a point code.
    pub(super) const fn has_point_code(&self) -> bool {
        let route = &self.route;
        matches!(route, Route::PointCode { point_code, .. } if point_code.is_some())
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let Some((indicators, parameters)) = value.raw.nested_after::<4>() else {
            return Err(value.wrong_length());
        };
        let [r0, r1, a0, a1] = *indicators;
        let mut found = AddressParameters::default();
        for raw in parameters {
            let raw = raw?;
            found.add(Value { raw, ..value })?;
        }
        let routing_indicator = u16::from_be_bytes([r0, r1]);
        let route = found.route(routing_indicator, value)?;
        Ok(Self {
            indicator: AddressIndicator::from_bits(u16::from_be_bytes([a0, a1])),
            route,
        })
    }

    fn encode(&self, tag: u16, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let (routing_indicator, parameters) = match self.route.clone() {
            Route::GlobalTitle {
                global_title,
                point_code,
                ssn,
            } => {
                let parameters = AddressParameters {
                    global_title: Some(global_title),
                    point_code,
                    ssn,
                    ..AddressParameters::default()
                };
                (ON_GLOBAL_TITLE, parameters)
            }
            Route::PointCode {
                ssn,
                point_code,
                global_title,
            } => {
                let parameters = AddressParameters {
                    global_title,
                    point_code,
                    ssn: Some(not_zero(ssn)?),
                    ..AddressParameters::default()
                };
                (ON_POINT_CODE, parameters)
            }
            Route::HostName { host_name, ssn } => {
                let parameters = AddressParameters {
                    host_name: Some(host_name),
                    ssn,
                    ..AddressParameters::default()
                };
                (ON_HOST_NAME, parameters)
            }
            Route::IpAddress { ssn, address } => {
                let parameters = AddressParameters {
                    ssn: Some(not_zero(ssn)?),
                    ip_address: address.map(IpAddressParameter),
                    ..AddressParameters::default()
                };
                (ON_IP_ADDRESS, parameters)
            }
        };
        let mut result = Ok(());
        writer.nested(tag, |writer| {
            writer.value(&routing_indicator.to_be_bytes());
            writer.value(&self.indicator.bits().to_be_bytes());
            result = parameters.encode(writer);
        });
        result
    }
}

/// Route on Global Title.
const ON_GLOBAL_TITLE: u16 = 1;
/// Route on SSN + PC.
const ON_POINT_CODE: u16 = 2;
/// Route on Hostname.
const ON_HOST_NAME: u16 = 3;
/// Route on SSN + IP Address.
const ON_IP_ADDRESS: u16 = 4;

/// Checks a subsystem number by which messages are routed.
const fn not_zero(ssn: SubsystemNumber) -> Result<SubsystemNumber, EncodeError> {
    match ssn.0 {
        0 => Err(EncodeError::Value {
            tag: tag::SUBSYSTEM_NUMBER,
            value: 0,
        }),
        _ => Ok(ssn),
    }
}

/// Address parameters in any combination.
#[derive(Default)]
struct AddressParameters {
    global_title: Option<GlobalTitle>,
    point_code: Option<PointCode>,
    ssn: Option<SubsystemNumber>,
    ip_address: Option<IpAddressParameter>,
    host_name: Option<HostName>,
}

impl AddressParameters {
    fn add(&mut self, value: Value<'_>) -> Result<(), DecodeError> {
        match value.raw.tag {
            tag::GLOBAL_TITLE => GlobalTitle::add(&mut self.global_title, value),
            tag::POINT_CODE if self.point_code.is_some() => Err(value.repeated()),
            tag::POINT_CODE => {
                self.point_code = Some(unmasked(value)?);
                Ok(())
            }
            tag::SUBSYSTEM_NUMBER => SubsystemNumber::add(&mut self.ssn, value),
            tag::IPV4_ADDRESS | tag::IPV6_ADDRESS => {
                IpAddressParameter::add(&mut self.ip_address, value)
            }
            tag::HOST_NAME => HostName::add(&mut self.host_name, value),
            _ => value.context.skip(value.raw),
        }
    }

    /// Returns the route, if the parameters are those that the routing indicator of the address allows.
    fn route(self, routing_indicator: u16, address: Value<'_>) -> Result<Route, DecodeError> {
        let Self {
            global_title,
            point_code,
            ssn,
            ip_address,
            host_name,
        } = self;
        // Parameters that are present although another routing indicator allows them.
        let (unexpected, route) = match routing_indicator {
            ON_GLOBAL_TITLE => {
                let global_title = global_title.ok_or(absent(tag::GLOBAL_TITLE, address))?;
                let route = Route::GlobalTitle {
                    global_title,
                    point_code,
                    ssn,
                };
                (ip_address.is_some() || host_name.is_some(), route)
            }
            ON_POINT_CODE => {
                let route = Route::PointCode {
                    ssn: present_ssn(ssn, address)?,
                    point_code,
                    global_title,
                };
                (ip_address.is_some() || host_name.is_some(), route)
            }
            ON_HOST_NAME => {
                let host_name = host_name.ok_or(absent(tag::HOST_NAME, address))?;
                let unexpected =
                    global_title.is_some() || point_code.is_some() || ip_address.is_some();
                (unexpected, Route::HostName { host_name, ssn })
            }
            ON_IP_ADDRESS => {
                let unexpected =
                    global_title.is_some() || point_code.is_some() || host_name.is_some();
                let route = Route::IpAddress {
                    ssn: present_ssn(ssn, address)?,
                    address: ip_address.map(|parameter| parameter.0),
                };
                (unexpected, route)
            }
            other => return Err(address.invalid(other.into())),
        };
        if unexpected {
            return Err(address.conflict());
        }
        Ok(route)
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        Field::encode(&self.global_title, writer)?;
        if let Some(point_code) = self.point_code {
            writer.number(tag::POINT_CODE, point_code.value());
        }
        Field::encode(&self.ssn, writer)?;
        Field::encode(&self.ip_address, writer)?;
        Field::encode(&self.host_name, writer)
    }
}

/// Error of an address without a parameter by which its messages are routed.
const fn absent(tag: u16, address: Value<'_>) -> DecodeError {
    missing(tag, address.raw.offset)
}

/// Returns a subsystem number by which messages are routed.
fn present_ssn(
    ssn: Option<SubsystemNumber>,
    address: Value<'_>,
) -> Result<SubsystemNumber, DecodeError> {
    match ssn {
        None => Err(absent(tag::SUBSYSTEM_NUMBER, address)),
        Some(SubsystemNumber(0)) => Err(address.invalid(0)),
        Some(ssn) => Ok(ssn),
    }
}

/// Declares the parameters that are an address.
macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident = $tag:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub Address);

        impl Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                Address::decode(value).map(Self)
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                self.0.encode(Self::TAG, writer)
            }
        }
    )*};
}

addresses! {
    /// Source Address (section 3.10.2).
    SourceAddress = tag::SOURCE_ADDRESS;
    /// Destination Address (section 3.10.3).
    DestinationAddress = tag::DESTINATION_ADDRESS;
}

/// IPv4 or IPv6 Address (section 3.10.2.6).
struct IpAddressParameter(IpAddr);

impl Parameter for IpAddressParameter {
    const TAG: u16 = tag::IPV4_ADDRESS;

    fn accepts(tag: u16) -> bool {
        matches!(tag, tag::IPV4_ADDRESS | tag::IPV6_ADDRESS)
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(match value.raw.tag {
            tag::IPV4_ADDRESS => IpAddr::V4(Ipv4Addr::from(value.exact::<4>()?)),
            _ => IpAddr::V6(Ipv6Addr::from(value.exact::<16>()?)),
        }))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        match self.0 {
            IpAddr::V4(address) => writer.parameter(tag::IPV4_ADDRESS, &address.octets()),
            IpAddr::V6(address) => writer.parameter(tag::IPV6_ADDRESS, &address.octets()),
        }
        Ok(())
    }
}

/// Hostname in the syntax of RFC 1123, section 2.1 (section 3.10.2.7): labels of letters, digits and hyphens, at most
/// 255 octets. On the wire it ends with a null octet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostName(Bytes);

impl HostName {
    /// Host name, `None` if the text does not have the syntax.
    pub fn new(text: &str) -> Option<Self> {
        Self::is_valid(text.as_bytes()).then(|| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn is_valid(name: &[u8]) -> bool {
        let is_label = |label: &[u8]| {
            let edges = [label.first(), label.last()];
            edges
                .iter()
                .all(|octet| octet.is_some_and(u8::is_ascii_alphanumeric))
                && label.len() <= 63
                && label
                    .iter()
                    .all(|&octet| octet.is_ascii_alphanumeric() || octet == b'-')
        };
        name.len() <= 255 && name.split(|&octet| octet == b'.').all(is_label)
    }
}

impl Parameter for HostName {
    const TAG: u16 = tag::HOST_NAME;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let octets = value.raw.value;
        let length = octets.iter().position(|&octet| octet == 0);
        let length = length.ok_or_else(|| value.wrong_length())?;
        let (name, terminators) = octets.split_at(length);
        let excess = terminators.iter().find(|&&octet| octet != 0);
        match excess.or_else(|| name.first()) {
            None => Err(value.wrong_length()),
            Some(&octet) if excess.is_some() || !Self::is_valid(name) => {
                Err(value.invalid(octet.into()))
            }
            Some(_) => Ok(Self(value.bytes(name))),
        }
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.nested(Self::TAG, |writer| {
            writer.value(&self.0);
            writer.value(&[0]);
        });
        Ok(())
    }
}

/// Global Title (section 3.10.2.3).
///
/// ```text
/// +-----------------------------------------------+---------------+
/// |                   reserved                    |      GTI      |
/// +---------------+---------------+---------------+---------------+
/// | no. of digits |  trans. type  |  num. plan    | nature of adr |
/// +---------------+---------------+---------------+---------------+
/// |  digits, two in an octet, the first one in the low bits     ...
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GlobalTitle {
    /// Global Title Indicator, GTI, 1 to 4: the fields that the SS7 network transports.
    pub indicator: u8,
    /// Translation type.
    pub translation_type: u8,
    /// Numbering plan.
    pub numbering_plan: u8,
    /// Nature of address.
    pub nature_of_address: u8,
    /// Digits.
    pub digits: AddressSignals,
}

impl Parameter for GlobalTitle {
    const TAG: u16 = tag::GLOBAL_TITLE;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.raw.value.split_first_chunk::<8>();
        let (fields, digits) = fields.ok_or_else(|| value.wrong_length())?;
        let [
            _,
            _,
            _,
            indicator,
            count,
            translation_type,
            numbering_plan,
            nature_of_address,
        ] = *fields;
        if !(1..=4).contains(&indicator) {
            return Err(value.invalid(indicator.into()));
        }
        if digits.len() != usize::from(count).div_ceil(2) {
            return Err(value.wrong_length());
        }
        let digits = digits.iter().flat_map(|&octet| [octet & 0x0f, octet >> 4]);
        Ok(Self {
            indicator,
            translation_type,
            numbering_plan,
            nature_of_address,
            digits: AddressSignals(digits.take(count.into()).collect()),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if !(1..=4).contains(&self.indicator) {
            return Err(EncodeError::Value {
                tag: Self::TAG,
                value: self.indicator.into(),
            });
        }
        let AddressSignals(digits) = &self.digits;
        writer.nested(Self::TAG, |writer| {
            writer.value(&[0, 0, 0, self.indicator, digits.len() as u8]);
            writer.value(&[
                self.translation_type,
                self.numbering_plan,
                self.nature_of_address,
            ]);
            for pair in digits.chunks(2) {
                writer.value(&[pair[0] | pair.get(1).copied().unwrap_or(0) << 4]);
            }
        });
        Ok(())
    }
}

/// Digits of a global title: at most 255 address signals of four bits each (ITU-T Q.713, section 3.4.2.3.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AddressSignals(Vec<u8>);

impl AddressSignals {
    /// Digits from hexadecimal text, such as `4917012345`; 11 and 12 are `b` and `c`. `None` if there is another character
    /// or more than 255 of them.
    pub fn new(text: &str) -> Option<Self> {
        let digits = text.chars().map(|c| Some(c.to_digit(16)? as u8));
        let digits: Vec<u8> = digits.collect::<Option<_>>()?;
        (digits.len() <= 255).then_some(Self(digits))
    }

    /// Returns the number of digits.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the digits.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns these digits with others in place of the first ones, `None` if they would be more than 255.
    pub(super) fn replace_first(&self, count: usize, digits: &Self) -> Option<Self> {
        let replaced = [&digits.0, &self.0[count..]].concat();
        (replaced.len() <= 255).then_some(Self(replaced))
    }
}

impl fmt::Display for AddressSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{digit:x}"))
    }
}
