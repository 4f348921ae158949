//! Replies (RFC 4540, sections 5.2.2, 5.2.3, 5.2.5, 5.2.6, 5.3.9 to 5.3.18).
//!
//! ```text
//! SE  0x0201  capabilities
//! SA  0x0202  [challenge], [token], at least one of them
//! ST  0x0203
//! PRR 0x0211  rule, group, lifetime, outside tuple, [inside tuple]
//! PER 0x0212  rule, group, lifetime, outside tuple, [inside tuple]
//! PDR 0x0214  rule, lifetime
//! PLC 0x0215  lifetime
//! PRD 0x0216
//! PRS 0x0221  as PRR, owner
//! PRL 0x0222  rule, rule, ...
//! PES 0x0223  rule, group, PER parameters, internal, [inside], outside, external, lifetime, owner
//! PDS 0x0224  rule, internal, external, lifetime, owner
//!     0x03xx  none; 0x0322 version
//! ```
//!
//! A traditional NAT omits the inside tuple of PER and PES replies (RFC 4540, section 8.3.3).

use bytes::Bytes;

use super::attribute::{AttributeReader, AttributeType};
use super::header::{BasicType, Header, MessageBuilder};
use super::{
    AddressTuple, Capabilities, Challenge, DisableRequest, GroupId, Lifetime, Location,
    NegativeReply, Owner, ParseError, PerParameters, PolicyRuleId, Token, TransactionId,
};

/// Maximum number of rules in a PRL reply.
pub const MAX_LISTED: usize = u16::MAX as usize / 8;

/// Reply to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// SE: the session is open.
    Established(Capabilities),
    /// SA: the agent or both sides have to authenticate themselves first.
    Authenticate {
        /// Challenge for the agent.
        challenge: Option<Challenge>,
        /// Token that answers the agent's challenge.
        token: Option<Token>,
    },
    /// ST: the session is closed.
    Terminated,
    /// PRR: addresses and ports are reserved.
    Reserved(ReserveReply),
    /// PER: the data stream is enabled.
    Enabled(EnableReply),
    /// PDR: the data stream is blocked.
    Disabled {
        /// New rule.
        rule: PolicyRuleId,
        /// Its lifetime.
        lifetime: Lifetime,
    },
    /// PLC: the new remaining lifetime.
    LifetimeChanged(Lifetime),
    /// PRD: the rule has ended.
    Deleted,
    /// PRS: the rule is a reservation.
    ReserveStatus {
        /// The reservation.
        reserved: ReserveReply,
        /// Owner of the reservation.
        owner: Owner,
    },
    /// PRL: identifiers of rules.
    List(RuleList),
    /// PES: the rule enables a data stream.
    EnableStatus(Box<EnableStatus>),
    /// PDS: the rule blocks.
    DisableStatus {
        /// Which rule.
        rule: PolicyRuleId,
        /// Blocked data stream and remaining lifetime.
        disable: DisableRequest,
        /// Owner of the rule.
        owner: Owner,
    },
    /// The request was refused.
    Negative(NegativeReply),
}

/// Contents of the PRR reply: a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveReply {
    /// Identifier of the rule.
    pub rule: PolicyRuleId,
    /// Its group.
    pub group: GroupId,
    /// Remaining lifetime.
    pub lifetime: Lifetime,
    /// A2: reserved outside address and ports.
    pub outside: AddressTuple,
    /// A1: reserved inside address and ports, on a twice-NAT only.
    pub inside: Option<AddressTuple>,
}

/// Contents of the PER reply: an enabled data stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnableReply {
    /// Identifier of the rule.
    pub rule: PolicyRuleId,
    /// Its group.
    pub group: GroupId,
    /// Remaining lifetime.
    pub lifetime: Lifetime,
    /// A2: address of the internal host as seen from outside.
    pub outside: AddressTuple,
    /// A1: address of the external host as seen from inside; omitted by a traditional NAT.
    pub inside: Option<AddressTuple>,
}

/// Complete description of an enabled data stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnableStatus {
    /// Contents of the PER reply, with the current lifetime.
    pub enabled: EnableReply,
    /// Direction and parity as requested.
    pub parameters: PerParameters,
    /// A0 as requested.
    pub internal: AddressTuple,
    /// A3 as requested.
    pub external: AddressTuple,
    /// Owner of the rule.
    pub owner: Owner,
}

/// Rules of a PRL reply, at most [`MAX_LISTED`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleList(Vec<PolicyRuleId>);

impl RuleList {
    /// Creates a list; `None` if it is too long for a message.
    pub fn new(rules: Vec<PolicyRuleId>) -> Option<Self> {
        (rules.len() <= MAX_LISTED).then_some(Self(rules))
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[PolicyRuleId] {
        &self.0
    }
}

impl Reply {
    /// Returns basic type and sub-type.
    pub fn message_type(&self) -> (BasicType, u8) {
        let positive = match self {
            Self::Established(_) => 0x01,
            Self::Authenticate { .. } => 0x02,
            Self::Terminated => 0x03,
            Self::Reserved(_) => 0x11,
            Self::Enabled(_) => 0x12,
            Self::Disabled { .. } => 0x14,
            Self::LifetimeChanged(_) => 0x15,
            Self::Deleted => 0x16,
            Self::ReserveStatus { .. } => 0x21,
            Self::List(_) => 0x22,
            Self::EnableStatus(_) => 0x23,
            Self::DisableStatus { .. } => 0x24,
            Self::Negative(negative) => return (BasicType::NegativeReply, negative.code()),
        };
        (BasicType::PositiveReply, positive)
    }

    /// Encodes the message.
    pub fn to_bytes(&self, transaction: TransactionId) -> Bytes {
        let (basic, sub_type) = self.message_type();
        let mut message = MessageBuilder::new(basic, sub_type, transaction);
        match self {
            Self::Established(capabilities) => {
                message.attribute(AttributeType::Capabilities, &capabilities.write());
            }
            Self::Authenticate { challenge, token } => {
                if let Some(challenge) = challenge {
                    message.challenge(challenge);
                }
                if let Some(token) = token {
                    message.token(token);
                }
            }
            Self::Reserved(reserved) => reserved.write(&mut message),
            Self::Enabled(enabled) => enabled.write(&mut message),
            Self::Disabled { rule, lifetime } => {
                message.pid(*rule);
                message.lifetime(*lifetime);
            }
            Self::LifetimeChanged(lifetime) => message.lifetime(*lifetime),
            Self::ReserveStatus { reserved, owner } => {
                reserved.write(&mut message);
                message.owner(owner);
            }
            Self::List(list) => list.0.iter().for_each(|rule| message.pid(*rule)),
            Self::EnableStatus(status) => status.write(&mut message),
            Self::DisableStatus {
                rule,
                disable,
                owner,
            } => {
                message.pid(*rule);
                message.address(&disable.internal);
                message.address(&disable.external);
                message.lifetime(disable.lifetime);
                message.owner(owner);
            }
            Self::Negative(NegativeReply::VersionMismatch(version)) => {
                message.attribute(AttributeType::Version, &version.write());
            }
            Self::Terminated | Self::Deleted | Self::Negative(_) => {}
        }
        message.finish()
    }

    pub(super) fn parse(header: Header, attributes: &Bytes) -> Result<Self, ParseError> {
        let mut reader = AttributeReader::new(attributes);
        let reply = if header.basic == BasicType::NegativeReply as u8 {
            Self::Negative(match header.sub_type {
                0x22 => NegativeReply::VersionMismatch(reader.required()?),
                code => NegativeReply::plain(code).ok_or(ParseError::SubType(code))?,
            })
        } else {
            Self::parse_positive(header.sub_type, &mut reader)?
        };
        reader.end()?;
        Ok(reply)
    }

    fn parse_positive(sub_type: u8, reader: &mut AttributeReader<'_>) -> Result<Self, ParseError> {
        Ok(match sub_type {
            0x01 => Self::Established(reader.required()?),
            0x02 => {
                let challenge: Option<Challenge> = reader.optional()?;
                let token: Option<Token> = reader.optional()?;
                if challenge.is_none() && token.is_none() {
                    return Err(ParseError::Attributes);
                }
                Self::Authenticate { challenge, token }
            }
            0x03 => Self::Terminated,
            0x11 => Self::Reserved(ReserveReply::read(reader)?),
            0x12 => Self::Enabled(EnableReply::read(reader)?),
            0x14 => Self::Disabled {
                rule: reader.required()?,
                lifetime: reader.required()?,
            },
            0x15 => Self::LifetimeChanged(reader.required()?),
            0x16 => Self::Deleted,
            0x21 => Self::ReserveStatus {
                reserved: ReserveReply::read(reader)?,
                owner: reader.required()?,
            },
            0x22 => {
                let mut rules = Vec::new();
                while let Some(rule) = reader.optional()? {
                    rules.push(rule);
                }
                Self::List(RuleList(rules))
            }
            0x23 => Self::EnableStatus(Box::new(EnableStatus::read(reader)?)),
            0x24 => Self::DisableStatus {
                rule: reader.required()?,
                disable: DisableRequest {
                    internal: located(reader, Location::Internal)?,
                    external: located(reader, Location::External)?,
                    lifetime: reader.required()?,
                },
                owner: reader.required()?,
            },
            other => return Err(ParseError::SubType(other)),
        })
    }

    /// Returns the rule that the reply describes or created.
    pub fn rule(&self) -> Option<PolicyRuleId> {
        match self {
            Self::Reserved(ReserveReply { rule, .. })
            | Self::Enabled(EnableReply { rule, .. })
            | Self::Disabled { rule, .. } => Some(*rule),
            _ => None,
        }
    }
}

/// Reads the next attribute, a tuple of this location.
fn located(
    reader: &mut AttributeReader<'_>,
    location: Location,
) -> Result<AddressTuple, ParseError> {
    let tuple: AddressTuple = reader.required()?;
    if tuple.location == location {
        Ok(tuple)
    } else {
        Err(ParseError::Attributes)
    }
}

/// Reads the next attribute if it is a tuple, which must be an inside one.
fn inside(reader: &mut AttributeReader<'_>) -> Result<Option<AddressTuple>, ParseError> {
    match reader.optional::<AddressTuple>()? {
        Some(tuple) if tuple.location != Location::Inside => Err(ParseError::Attributes),
        tuple => Ok(tuple),
    }
}

impl ReserveReply {
    fn read(reader: &mut AttributeReader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            rule: reader.required()?,
            group: reader.required()?,
            lifetime: reader.required()?,
            outside: located(reader, Location::Outside)?,
            inside: inside(reader)?,
        })
    }

    fn write(&self, message: &mut MessageBuilder) {
        message.pid(self.rule);
        message.gid(self.group);
        message.lifetime(self.lifetime);
        message.address(&self.outside);
        if let Some(inside) = &self.inside {
            message.address(inside);
        }
    }
}

impl EnableReply {
    fn read(reader: &mut AttributeReader<'_>) -> Result<Self, ParseError> {
        let ReserveReply {
            rule,
            group,
            lifetime,
            outside,
            inside,
        } = ReserveReply::read(reader)?;
        Ok(Self {
            rule,
            group,
            lifetime,
            outside,
            inside,
        })
    }

    fn write(&self, message: &mut MessageBuilder) {
        let Self {
            rule,
            group,
            lifetime,
            outside,
            inside,
        } = *self;
        let like = ReserveReply {
            rule,
            group,
            lifetime,
            outside,
            inside,
        };
        like.write(message);
    }
}

impl EnableStatus {
    fn read(reader: &mut AttributeReader<'_>) -> Result<Self, ParseError> {
        let rule = reader.required()?;
        let group = reader.required()?;
        let parameters = reader.required()?;
        let internal = located(reader, Location::Internal)?;
        let second: AddressTuple = reader.required()?;
        let (inside, outside) = match second.location {
            Location::Inside => (Some(second), located(reader, Location::Outside)?),
            Location::Outside => (None, second),
            _ => return Err(ParseError::Attributes),
        };
        Ok(Self {
            parameters,
            internal,
            external: located(reader, Location::External)?,
            enabled: EnableReply {
                rule,
                group,
                lifetime: reader.required()?,
                outside,
                inside,
            },
            owner: reader.required()?,
        })
    }

    fn write(&self, message: &mut MessageBuilder) {
        message.pid(self.enabled.rule);
        message.gid(self.enabled.group);
        message.attribute(AttributeType::PerParameters, &self.parameters.write());
        message.address(&self.internal);
        if let Some(inside) = &self.enabled.inside {
            message.address(inside);
        }
        message.address(&self.enabled.outside);
        message.address(&self.external);
        message.lifetime(self.enabled.lifetime);
        message.owner(&self.owner);
    }
}
