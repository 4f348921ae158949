//! Notifications (RFC 4540, sections 4.2.4, 5.1.1, 5.2.7, 5.3.19).
//!
//! ```text
//! BFM 0x0401, AST 0x0402          ARE 0x0403
//! +--------------------------+    +--------------------------+
//! | header                   |    | header                   |
//! +--------------------------+    +--------------------------+
//!                                 | policy rule identifier   |
//!                                 +--------------------------+
//!                                 | policy rule lifetime     |
//!                                 +--------------------------+
//! ```

use bytes::Bytes;

use super::attribute::AttributeReader;
use super::header::{BasicType, Header, MessageBuilder};
use super::{Lifetime, ParseError, PolicyRuleId, TransactionId};

/// Notification of a middlebox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notification {
    /// BFM: a malformed message was received.
    BadlyFormedMessage,
    /// AST: the middlebox terminates the session.
    SessionTerminated,
    /// ARE: event of a policy rule. A lifetime of zero means that it ended.
    RuleEvent {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// Remaining lifetime.
        lifetime: Lifetime,
    },
}

impl Notification {
    /// Encodes the message.
    pub fn to_bytes(self, transaction: TransactionId) -> Bytes {
        let builder =
            |sub_type| MessageBuilder::new(BasicType::Notification, sub_type, transaction);
        match self {
            Self::BadlyFormedMessage => builder(1).finish(),
            Self::SessionTerminated => builder(2).finish(),
            Self::RuleEvent { rule, lifetime } => {
                let mut message = builder(3);
                message.pid(rule);
                message.lifetime(lifetime);
                message.finish()
            }
        }
    }

    pub(super) fn parse(header: Header, attributes: &Bytes) -> Result<Self, ParseError> {
        let mut reader = AttributeReader::new(attributes);
        let notification = match header.sub_type {
            1 => Self::BadlyFormedMessage,
            2 => Self::SessionTerminated,
            3 => Self::RuleEvent {
                rule: reader.required()?,
                lifetime: reader.required()?,
            },
            other => return Err(ParseError::SubType(other)),
        };
        reader.end()?;
        Ok(notification)
    }
}
