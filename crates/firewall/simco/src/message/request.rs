//! Requests (RFC 4540, sections 5.2.1, 5.2.4, 5.2.5, 5.3.2 to 5.3.8).
//!
//! ```text
//! SE  0x0101  version, [challenge]
//! SA  0x0102  [token]
//! ST  0x0103
//! PRR 0x0111  PRR parameters, lifetime, [group]
//! PER 0x0112  PER parameters, internal tuple, external tuple, lifetime, [group]
//! PEA 0x0113  PER parameters, internal tuple, external tuple, lifetime, rule
//! PDR 0x0114  internal tuple, external tuple, lifetime
//! PLC 0x0115  rule, lifetime
//! PRS 0x0121  rule
//! PRL 0x0122
//! ```
//!
//! Locations, ports and prefixes are not checked here, since the middlebox has specific replies for
//! wrong ones.

use bytes::Bytes;

use super::attribute::{AttributeReader, AttributeType};
use super::header::{BasicType, HEADER_LEN, Header, MessageBuilder};
use super::{
    AddressTuple, Challenge, GroupId, Lifetime, ParseError, PerParameters, PolicyRuleId,
    ProtocolVersion, PrrParameters, Token, TransactionId,
};

/// Kinds of requests by their sub-types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RequestKind {
    /// SE: session establishment.
    Establish = 0x01,
    /// SA: session authentication.
    Authenticate = 0x02,
    /// ST: session termination.
    Terminate = 0x03,
    /// PRR: policy reserve rule.
    Reserve = 0x11,
    /// PER: policy enable rule.
    Enable = 0x12,
    /// PEA: policy enable rule after reservation.
    EnableReserved = 0x13,
    /// PDR: policy disable rule.
    Disable = 0x14,
    /// PLC: policy rule lifetime change.
    ChangeLifetime = 0x15,
    /// PRS: policy rule status.
    Status = 0x21,
    /// PRL: policy rule list.
    List = 0x22,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Establish,
        Self::Authenticate,
        Self::Terminate,
        Self::Reserve,
        Self::Enable,
        Self::EnableReserved,
        Self::Disable,
        Self::ChangeLifetime,
        Self::Status,
        Self::List,
    ];

    /// Returns the kind with this sub-type. Sub-types of replies only have none.
    pub fn from_sub_type(sub_type: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == sub_type)
    }

    /// Returns the abbreviation of the RFC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Establish => "SE",
            Self::Authenticate => "SA",
            Self::Terminate => "ST",
            Self::Reserve => "PRR",
            Self::Enable => "PER",
            Self::EnableReserved => "PEA",
            Self::Disable => "PDR",
            Self::ChangeLifetime => "PLC",
            Self::Status => "PRS",
            Self::List => "PRL",
        }
    }
}

/// Request with its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// SE: establish the session.
    Establish {
        /// Protocol version of the agent.
        version: ProtocolVersion,
        /// Challenge for the middlebox.
        challenge: Option<Challenge>,
    },
    /// SA: the agent authenticates itself.
    Authenticate(Option<Token>),
    /// ST: end the session.
    Terminate,
    /// PRR: reserve addresses and ports.
    Reserve(ReserveRequest),
    /// PER: enable a data stream.
    Enable(EnableRequest),
    /// PEA: enable a data stream on a reservation, in its group.
    EnableReserved {
        /// Data stream; its `group` is not encoded.
        enable: EnableRequest,
        /// Identifier of the reservation.
        rule: PolicyRuleId,
    },
    /// PDR: block a data stream and end the rules that enable it.
    Disable(DisableRequest),
    /// PLC: change the lifetime, zero to end the rule.
    ChangeLifetime {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// Requested lifetime.
        lifetime: Lifetime,
    },
    /// PRS: status of a rule.
    Status(PolicyRuleId),
    /// PRL: list of rules.
    List,
}

/// PRR: reserve addresses and ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveRequest {
    /// Addresses and ports to reserve.
    pub parameters: PrrParameters,
    /// Requested lifetime.
    pub lifetime: Lifetime,
    /// Group; `None` for a new one.
    pub group: Option<GroupId>,
}

/// PER: enable a data stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnableRequest {
    /// Direction and parity.
    pub parameters: PerParameters,
    /// A0: internal address and ports.
    pub internal: AddressTuple,
    /// A3: external address and ports.
    pub external: AddressTuple,
    /// Requested lifetime.
    pub lifetime: Lifetime,
    /// Group; `None` for a new one.
    pub group: Option<GroupId>,
}

/// PDR: block a data stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisableRequest {
    /// A0: internal address and ports.
    pub internal: AddressTuple,
    /// A3: external address and ports.
    pub external: AddressTuple,
    /// Requested lifetime.
    pub lifetime: Lifetime,
}

impl Request {
    /// Returns the kind of request.
    pub const fn kind(&self) -> RequestKind {
        match self {
            Self::Establish { .. } => RequestKind::Establish,
            Self::Authenticate(_) => RequestKind::Authenticate,
            Self::Terminate => RequestKind::Terminate,
            Self::Reserve(_) => RequestKind::Reserve,
            Self::Enable(_) => RequestKind::Enable,
            Self::EnableReserved { .. } => RequestKind::EnableReserved,
            Self::Disable(_) => RequestKind::Disable,
            Self::ChangeLifetime { .. } => RequestKind::ChangeLifetime,
            Self::Status(_) => RequestKind::Status,
            Self::List => RequestKind::List,
        }
    }

    /// Encodes the message.
    pub fn to_bytes(&self, transaction: TransactionId) -> Bytes {
        let mut message = MessageBuilder::new(BasicType::Request, self.kind() as u8, transaction);
        match self {
            Self::Establish { version, challenge } => {
                message.attribute(AttributeType::Version, &version.write());
                if let Some(challenge) = challenge {
                    message.challenge(challenge);
                }
            }
            Self::Authenticate(token) => {
                if let Some(token) = token {
                    message.token(token);
                }
            }
            Self::Terminate | Self::List => {}
            Self::Reserve(reserve) => {
                let parameters = reserve.parameters.write();
                message.attribute(AttributeType::PrrParameters, &parameters);
                message.lifetime(reserve.lifetime);
                if let Some(group) = reserve.group {
                    message.gid(group);
                }
            }
            Self::Enable(enable) => {
                enable.write(&mut message);
                if let Some(group) = enable.group {
                    message.gid(group);
                }
            }
            Self::EnableReserved { enable, rule } => {
                enable.write(&mut message);
                message.pid(*rule);
            }
            Self::Disable(disable) => {
                message.address(&disable.internal);
                message.address(&disable.external);
                message.lifetime(disable.lifetime);
            }
            Self::ChangeLifetime { rule, lifetime } => {
                message.pid(*rule);
                message.lifetime(*lifetime);
            }
            Self::Status(rule) => message.pid(*rule),
        }
        message.finish()
    }

    /// Parses a whole message as a request, in the order of RFC 4540, section 6: header, basic type,
    /// sub-type, attributes.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn parse(message: &Bytes) -> Result<(TransactionId, Self), ParseError> {
        let header = Header::parse_whole(message)?;
        if header.basic != BasicType::Request as u8 {
            return Err(ParseError::BasicType(header.basic));
        }
        let kind = RequestKind::from_sub_type(header.sub_type)
            .ok_or(ParseError::SubType(header.sub_type))?;
        let request = Self::parse_attributes(kind, &message.slice(HEADER_LEN..))?;
        Ok((header.transaction, request))
    }

    /// Parses the attributes of a request of this kind.
    ///
    /// # Errors
    /// [`ParseError::Attributes`].
    pub fn parse_attributes(kind: RequestKind, attributes: &Bytes) -> Result<Self, ParseError> {
        let mut reader = AttributeReader::new(attributes);
        let request = match kind {
            RequestKind::Establish => Self::Establish {
                version: reader.required()?,
                challenge: reader.optional()?,
            },
            RequestKind::Authenticate => Self::Authenticate(reader.optional()?),
            RequestKind::Terminate => Self::Terminate,
            RequestKind::Reserve => Self::Reserve(ReserveRequest {
                parameters: reader.required()?,
                lifetime: reader.required()?,
                group: reader.optional()?,
            }),
            RequestKind::Enable => {
                let enable = EnableRequest::read(&mut reader)?;
                let group = reader.optional()?;
                Self::Enable(EnableRequest { group, ..enable })
            }
            RequestKind::EnableReserved => Self::EnableReserved {
                enable: EnableRequest::read(&mut reader)?,
                rule: reader.required()?,
            },
            RequestKind::Disable => Self::Disable(DisableRequest {
                internal: reader.required()?,
                external: reader.required()?,
                lifetime: reader.required()?,
            }),
            RequestKind::ChangeLifetime => Self::ChangeLifetime {
                rule: reader.required()?,
                lifetime: reader.required()?,
            },
            RequestKind::Status => Self::Status(reader.required()?),
            RequestKind::List => Self::List,
        };
        reader.end()?;
        Ok(request)
    }

    /// Returns the requested lifetime, if there is one.
    pub const fn lifetime(&self) -> Option<Lifetime> {
        match self {
            Self::Reserve(ReserveRequest { lifetime, .. })
            | Self::Enable(EnableRequest { lifetime, .. })
            | Self::EnableReserved {
                enable: EnableRequest { lifetime, .. },
                ..
            }
            | Self::Disable(DisableRequest { lifetime, .. })
            | Self::ChangeLifetime { lifetime, .. } => Some(*lifetime),
            _ => None,
        }
    }

    /// Returns the existing rule that the request concerns, if any.
    pub const fn rule(&self) -> Option<PolicyRuleId> {
        match self {
            Self::EnableReserved { rule, .. }
            | Self::ChangeLifetime { rule, .. }
            | Self::Status(rule) => Some(*rule),
            _ => None,
        }
    }
}

impl EnableRequest {
    fn read(reader: &mut AttributeReader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            parameters: reader.required()?,
            internal: reader.required()?,
            external: reader.required()?,
            lifetime: reader.required()?,
            group: None,
        })
    }

    fn write(&self, message: &mut MessageBuilder) {
        message.attribute(AttributeType::PerParameters, &self.parameters.write());
        message.address(&self.internal);
        message.address(&self.external);
        message.lifetime(self.lifetime);
    }
}
