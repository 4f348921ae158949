//! Routing Key parameter (RFC 4666, section 3.6.1).

use super::{
    AffectedPointCode, LocalRoutingKeyIdentifier, NetworkAppearance, PointCode, RoutingContext,
    TrafficMode, tag,
};
use crate::message::common::unmasked;
use crate::message::field::{Field, Parameter, Value, missing};
use crate::message::{DecodeError, EncodeError, MessageWriter};

/// Routing Key: the range of SS7 traffic of an application server (section 3.6.1).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |         tag = 0x0207          |            length             |
/// +-------------------------------+-------------------------------+
/// |  Local-RK-Identifier (0x020a)                                 |
/// |  routing context (0x0006), optional                           |
/// |  traffic mode type (0x000b), optional                         |
/// |  destination point code (0x020b)                              |
/// |  network appearance (0x0200), optional                        |
/// |  service indicators (0x020c), optional                        |
/// |  originating point code list (0x020e), optional               |
/// |  ... further destinations with their indicators and lists     |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutingKey {
    /// Local-RK-Identifier, unique until the response was received.
    pub local_id: LocalRoutingKeyIdentifier,
    /// Routing context of an existing key that is to be changed.
    pub routing_context: Option<RoutingContext>,
    /// Traffic mode of the application server. An undefined mode is kept, because the registration's result
    /// answers it, not an Error message.
    pub traffic_mode: Option<TrafficMode>,
    /// Network appearance.
    pub network_appearance: Option<NetworkAppearance>,
    /// Destinations, at least one.
    pub destinations: Vec<RoutingKeyDestination>,
}

/// Destination of a Routing Key, with what limits its traffic (section 3.6.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoutingKeyDestination {
    /// Destination point code.
    pub dpc: PointCode,
    /// Service indicators, any if the list is empty.
    pub service_indicators: Vec<u8>,
    /// Originating point codes, any if the list is empty.
    pub opcs: Vec<AffectedPointCode>,
}

impl RoutingKeyDestination {
    /// All traffic for a destination.
    pub const fn all(dpc: PointCode) -> Self {
        Self {
            dpc,
            service_indicators: Vec::new(),
            opcs: Vec::new(),
        }
    }

    /// Returns whether a message with this routing label belongs to the destination.
    pub fn matches(&self, dpc: PointCode, opc: PointCode, si: u8) -> bool {
        self.dpc == dpc
            && (self.service_indicators.is_empty() || self.service_indicators.contains(&si))
            && (self.opcs.is_empty() || self.opcs.iter().any(|range| range.contains(opc)))
    }

    /// Returns whether a message can belong to both destinations.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (si, other_si) = (&self.service_indicators, &other.service_indicators);
        let (opcs, other_opcs) = (&self.opcs, &other.opcs);
        self.dpc == other.dpc
            && (si.is_empty() || other_si.is_empty() || si.iter().any(|si| other_si.contains(si)))
            && (opcs.is_empty()
                || other_opcs.is_empty()
                || opcs
                    .iter()
                    .any(|opc| other_opcs.iter().any(|other| opc.overlaps(*other))))
    }
}

/// Destination that is being decoded. Parameters may be in any order, so that its lists can precede the first point
/// code.
#[derive(Default)]
struct PartialDestination {
    dpc: Option<PointCode>,
    service_indicators: Option<Vec<u8>>,
    opcs: Option<Vec<AffectedPointCode>>,
}

impl PartialDestination {
    fn finish(self, end: usize) -> Result<RoutingKeyDestination, DecodeError> {
        Ok(RoutingKeyDestination {
            dpc: self.dpc.ok_or(missing(tag::DESTINATION_POINT_CODE, end))?,
            service_indicators: self.service_indicators.unwrap_or_default(),
            opcs: self.opcs.unwrap_or_default(),
        })
    }
}

fn set<T>(found: &mut Option<T>, content: T, value: Value<'_>) -> Result<(), DecodeError> {
    if found.is_some() {
        return Err(value.repeated());
    }
    *found = Some(content);
    Ok(())
}

/// Service indicators, each of 4 bits.
fn service_indicators(value: Value<'_>) -> Result<Vec<u8>, DecodeError> {
    let indicators = value.raw.value;
    if indicators.is_empty() {
        return Err(value.wrong_length());
    }
    match indicators.iter().find(|&&si| si > 0x0f) {
        Some(&si) => Err(value.invalid(si.into())),
        None => Ok(indicators.to_vec()),
    }
}

impl Parameter for RoutingKey {
    const TAG: u16 = tag::ROUTING_KEY;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let end = value.raw.offset;
        let (mut local_id, mut routing_context, mut network_appearance) = (None, None, None);
        let mut traffic_mode = None;
        let mut destinations = Vec::new();
        let mut current = PartialDestination::default();
        for raw in value.nested() {
            let raw = raw?;
            let nested = Value { raw, ..value };
            match raw.tag {
                tag::LOCAL_ROUTING_KEY_IDENTIFIER => {
                    LocalRoutingKeyIdentifier::add(&mut local_id, nested)?;
                }
                tag::ROUTING_CONTEXT => RoutingContext::add(&mut routing_context, nested)?,
                tag::NETWORK_APPEARANCE => NetworkAppearance::add(&mut network_appearance, nested)?,
                tag::TRAFFIC_MODE_TYPE => {
                    set(&mut traffic_mode, TrafficMode(nested.number()?), nested)?;
                }
                tag::DESTINATION_POINT_CODE => {
                    let dpc = unmasked(nested)?;
                    if current.dpc.is_some() {
                        destinations.push(std::mem::take(&mut current).finish(end)?);
                    }
                    current.dpc = Some(dpc);
                }
                tag::SERVICE_INDICATORS => {
                    let content = service_indicators(nested)?;
                    set(&mut current.service_indicators, content, nested)?;
                }
                tag::ORIGINATING_POINT_CODES => {
                    let codes = nested.numbers()?.map(AffectedPointCode::from_field);
                    set(&mut current.opcs, codes.collect(), nested)?;
                }
                _ => value.context.skip(raw)?,
            }
        }
        destinations.push(current.finish(end)?);
        Ok(Self {
            local_id: Field::finish(local_id, end)?,
            routing_context,
            traffic_mode,
            network_appearance,
            destinations,
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if self.destinations.is_empty() {
            return Err(EncodeError::Empty(tag::DESTINATION_POINT_CODE));
        }
        let mut indicators = self.destinations.iter().flat_map(|d| &d.service_indicators);
        if let Some(&si) = indicators.find(|&&si| si > 0x0f) {
            return Err(EncodeError::Value {
                tag: tag::SERVICE_INDICATORS,
                value: si.into(),
            });
        }
        writer.nested(Self::TAG, |writer| {
            writer.number(tag::LOCAL_ROUTING_KEY_IDENTIFIER, self.local_id.0);
            if let Some(context) = self.routing_context {
                writer.number(tag::ROUTING_CONTEXT, context.0);
            }
            if let Some(mode) = self.traffic_mode {
                writer.number(tag::TRAFFIC_MODE_TYPE, mode.0);
            }
            for (index, destination) in self.destinations.iter().enumerate() {
                writer.number(tag::DESTINATION_POINT_CODE, destination.dpc.value());
                if let (0, Some(appearance)) = (index, self.network_appearance) {
                    writer.number(tag::NETWORK_APPEARANCE, appearance.0);
                }
                if !destination.service_indicators.is_empty() {
                    writer.parameter(tag::SERVICE_INDICATORS, &destination.service_indicators);
                }
                if !destination.opcs.is_empty() {
                    let codes = destination.opcs.iter().map(|code| code.field());
                    writer.numbers(tag::ORIGINATING_POINT_CODES, codes);
                }
            }
        });
        Ok(())
    }
}
