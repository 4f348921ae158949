//! Attributes (RFC 4540, section 4.3).

use bytes::Bytes;

use super::header::MessageBuilder;
use super::{
    AddressTuple, Capabilities, Challenge, GroupId, Lifetime, Owner, ParseError, PerParameters,
    PolicyRuleId, ProtocolVersion, PrrParameters, Token,
};

/// Types of attributes (RFC 4540, section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum AttributeType {
    /// SIMCO protocol version, 32 bits.
    Version = 1,
    /// Authentication challenge, up to 4096 octets.
    Challenge = 2,
    /// Authentication token, up to 4096 octets.
    Token = 3,
    /// Middlebox capabilities, 64 bits.
    Capabilities = 4,
    /// Policy rule identifier, 32 bits.
    PolicyRuleId = 5,
    /// Group identifier, 32 bits.
    GroupId = 6,
    /// Policy rule lifetime, 32 bits.
    Lifetime = 7,
    /// Policy rule owner, up to 255 octets.
    Owner = 8,
    /// Address tuple, 32, 96 or 192 bits.
    AddressTuple = 9,
    /// PRR parameter set, 32 bits.
    PrrParameters = 10,
    /// PER parameter set, 32 bits.
    PerParameters = 11,
}

/// Value of an attribute.
pub(super) trait Attribute: Sized {
    /// Its type.
    const TYPE: AttributeType;
    /// Parses the value; `None` if its length or a field is invalid.
    fn read(value: Bytes) -> Option<Self>;
}

/// Reader of attributes in their defined order.
#[derive(Debug)]
pub(super) struct AttributeReader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> AttributeReader<'a> {
    pub(super) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next attribute's type and the bounds of its value.
    fn peek(&self) -> Result<Option<(u16, usize, usize)>, ParseError> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let [t0, t1, l0, l1] = *rest.first_chunk::<4>().ok_or(ParseError::Attributes)?;
        let begin = self.at + 4;
        let end = begin + usize::from(u16::from_be_bytes([l0, l1]));
        if end > self.bytes.len() {
            return Err(ParseError::Attributes);
        }
        Ok(Some((u16::from_be_bytes([t0, t1]), begin, end)))
    }

    /// Reads the next attribute if it has this type.
    pub(super) fn optional<T: Attribute>(&mut self) -> Result<Option<T>, ParseError> {
        match self.peek()? {
            Some((found, begin, end)) if found == T::TYPE as u16 => {
                self.at = end;
                let value = T::read(self.bytes.slice(begin..end));
                value.map(Some).ok_or(ParseError::Attributes)
            }
            _ => Ok(None),
        }
    }

    /// Reads the next attribute, which must have this type.
    pub(super) fn required<T: Attribute>(&mut self) -> Result<T, ParseError> {
        self.optional()?.ok_or(ParseError::Attributes)
    }

    /// Checks that no octets are left.
    pub(super) fn end(&self) -> Result<(), ParseError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(ParseError::Attributes)
        }
    }
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

macro_rules! attributes {
    ($($name:ident, $kind:ident: |$value:ident| $read:expr;)*) => {
        $(impl Attribute for $name {
            const TYPE: AttributeType = AttributeType::$kind;

            fn read($value: Bytes) -> Option<Self> {
                $read
            }
        })*
    };
}

attributes! {
    ProtocolVersion, Version: |value| ProtocolVersion::from_value(&value);
    Challenge, Challenge: |value| Challenge::new(value);
    Token, Token: |value| Token::new(value);
    Capabilities, Capabilities: |value| Capabilities::from_value(&value);
    PolicyRuleId, PolicyRuleId: |value| number(&value).map(PolicyRuleId);
    GroupId, GroupId: |value| number(&value).map(GroupId);
    Lifetime, Lifetime: |value| number(&value).map(Lifetime);
    Owner, Owner: |value| Owner::new(value);
    AddressTuple, AddressTuple: |value| AddressTuple::from_value(&value);
    PrrParameters, PrrParameters: |value| PrrParameters::from_value(&value);
    PerParameters, PerParameters: |value| PerParameters::from_value(&value);
}

impl MessageBuilder {
    pub(super) fn pid(&mut self, rule: PolicyRuleId) {
        self.attribute(AttributeType::PolicyRuleId, &rule.0.to_be_bytes());
    }

    pub(super) fn gid(&mut self, group: GroupId) {
        self.attribute(AttributeType::GroupId, &group.0.to_be_bytes());
    }

    pub(super) fn lifetime(&mut self, lifetime: Lifetime) {
        self.attribute(AttributeType::Lifetime, &lifetime.0.to_be_bytes());
    }

    pub(super) fn owner(&mut self, owner: &Owner) {
        self.attribute(AttributeType::Owner, owner.as_bytes());
    }

    pub(super) fn challenge(&mut self, challenge: &Challenge) {
        self.attribute(AttributeType::Challenge, challenge.as_bytes());
    }

    pub(super) fn token(&mut self, token: &Token) {
        self.attribute(AttributeType::Token, token.as_bytes());
    }

    pub(super) fn address(&mut self, tuple: &AddressTuple) {
        let (bytes, len) = tuple.write();
        self.attribute(AttributeType::AddressTuple, &bytes[..len]);
    }
}
