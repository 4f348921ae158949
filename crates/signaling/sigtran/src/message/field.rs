//! Decoding and encoding of parameters by their types.

use bytes::Bytes;

use super::{
    DecodeError, DecodeErrorKind, EncodeError, MessageKind, MessageWriter, Parameters, RawMessage,
    RawParameter,
};

/// Message that is being decoded.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Octets, for slices without copies.
    pub(crate) octets: &'a Bytes,
    /// Returns whether the layer's RFC reserves a tag or gives it to other layers.
    pub(crate) is_excluded: fn(u16) -> bool,
}

impl Context<'_> {
    /// Skips a parameter that the message's format does not list. Every message may have such parameters (RFC 4666,
    /// section 3), except those of other adaptation layers.
    pub(crate) fn skip(self, raw: RawParameter<'_>) -> Result<(), DecodeError> {
        if (self.is_excluded)(raw.tag) {
            return Err(DecodeError::new(
                DecodeErrorKind::Excluded(raw.tag),
                raw.offset,
            ));
        }
        Ok(())
    }
}

/// Received value of a parameter.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    pub(crate) raw: RawParameter<'a>,
    /// Message that contains it.
    pub(crate) context: Context<'a>,
}

impl<'a> Value<'a> {
    /// Returns the value if it has N octets.
    pub(crate) fn exact<const N: usize>(self) -> Result<[u8; N], DecodeError> {
        self.raw.value.try_into().map_err(|_| self.wrong_length())
    }

    /// Returns the value if it is one number.
    pub(crate) fn number(self) -> Result<u32, DecodeError> {
        self.exact().map(u32::from_be_bytes)
    }

    /// Returns the last octet of a value of four octets. The first three are reserved.
    pub(crate) fn octet(self) -> Result<u8, DecodeError> {
        let [_, _, _, octet] = self.exact()?;
        Ok(octet)
    }

    /// Returns the numbers of a list with at least one.
    pub(crate) fn numbers(self) -> Result<impl Iterator<Item = u32> + use<'a>, DecodeError> {
        let (numbers, rest) = self.raw.value.as_chunks();
        if numbers.is_empty() || !rest.is_empty() {
            return Err(self.wrong_length());
        }
        Ok(numbers.iter().map(|&octets| u32::from_be_bytes(octets)))
    }

    /// Returns octets of the value as a part of the message.
    pub(crate) fn bytes(self, octets: &'a [u8]) -> Bytes {
        self.context.octets.slice_ref(octets)
    }

    /// Returns the whole value as a part of the message.
    pub(crate) fn all(self) -> Bytes {
        self.bytes(self.raw.value)
    }

    pub(crate) fn nested(self) -> Parameters<'a> {
        self.raw.nested()
    }

    pub(crate) fn wrong_length(self) -> DecodeError {
        let RawParameter { tag, value, offset } = self.raw;
        let length = value.len();
        DecodeError::new(DecodeErrorKind::ParameterLength { tag, length }, offset + 2)
    }

    pub(crate) fn invalid(self, value: u32) -> DecodeError {
        let RawParameter { tag, offset, .. } = self.raw;
        DecodeError::new(DecodeErrorKind::Value { tag, value }, offset)
    }

    pub(crate) fn undefined_traffic_mode(self, mode: u32) -> DecodeError {
        DecodeError::new(DecodeErrorKind::TrafficMode(mode), self.raw.offset)
    }

    /// Returns the error of a parameter that does not fit another one.
    pub(crate) fn conflict(self) -> DecodeError {
        DecodeError::new(DecodeErrorKind::Conflict(self.raw.tag), self.raw.offset)
    }

    pub(crate) fn repeated(self) -> DecodeError {
        DecodeError::new(DecodeErrorKind::Repeated(self.raw.tag), self.raw.offset)
    }
}

/// Parameter with its tag.
pub(crate) trait Parameter: Sized {
    /// Tag, the first one if the parameter has several formats.
    const TAG: u16;

    /// Returns whether a tag is one of this parameter.
    fn accepts(tag: u16) -> bool {
        tag == Self::TAG
    }

    fn decode(value: Value<'_>) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Parameter of a message: mandatory, `Option` if it is optional or conditional, `Vec` if it is mandatory and
/// may be repeated.
pub(crate) trait Field: Sized {
    /// Returns whether a tag is one of this field.
    fn accepts(tag: u16) -> bool;

    /// Adds a received parameter to those found before.
    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError>;

    /// Returns the field after all parameters, which end at `end`.
    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Error of a mandatory parameter that is missing in what ends at `end`.
pub(crate) const fn missing(tag: u16, end: usize) -> DecodeError {
    DecodeError::new(DecodeErrorKind::Missing(tag), end)
}

impl<T: Parameter> Field for T {
    fn accepts(tag: u16) -> bool {
        <T as Parameter>::accepts(tag)
    }

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        if found.is_some() {
            return Err(value.repeated());
        }
        *found = Some(T::decode(value)?);
        Ok(())
    }

    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError> {
        found.ok_or(missing(T::TAG, end))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        Parameter::encode(self, writer)
    }
}

impl<T: Parameter> Field for Option<T> {
    fn accepts(tag: u16) -> bool {
        <T as Parameter>::accepts(tag)
    }

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        T::add(found.get_or_insert(None), value)
    }

    fn finish(found: Option<Self>, _end: usize) -> Result<Self, DecodeError> {
        Ok(found.flatten())
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        self.iter()
            .try_for_each(|parameter| Parameter::encode(parameter, writer))
    }
}

impl<T: Parameter> Field for Vec<T> {
    fn accepts(tag: u16) -> bool {
        <T as Parameter>::accepts(tag)
    }

    fn add(found: &mut Option<Self>, value: Value<'_>) -> Result<(), DecodeError> {
        found.get_or_insert_default().push(T::decode(value)?);
        Ok(())
    }

    fn finish(found: Option<Self>, end: usize) -> Result<Self, DecodeError> {
        found.ok_or(missing(T::TAG, end))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        if self.is_empty() {
            return Err(EncodeError::Empty(T::TAG));
        }
        self.iter()
            .try_for_each(|parameter| Parameter::encode(parameter, writer))
    }
}

/// Decodes the parameters of a type in a message of a kind, each by itself. `None` if the message is of another kind, or
/// its layout is wrong.
pub(crate) fn decode_each<T: Parameter>(
    octets: &Bytes,
    kind: MessageKind,
    is_excluded: fn(u16) -> bool,
) -> Option<Vec<(RawParameter<'_>, Result<T, DecodeError>)>> {
    let message = RawMessage::parse(octets).ok()?;
    if message.kind != kind {
        return None;
    }
    let context = Context {
        octets,
        is_excluded,
    };
    let parameters: Vec<_> = message.parameters().collect::<Result<_, _>>().ok()?;
    let wanted = parameters.into_iter().filter(|raw| T::accepts(raw.tag));
    let decoded = wanted.map(|raw| (raw, T::decode(Value { raw, context })));
    Some(decoded.collect())
}

/// Violation of a rule about the parameters of a message together.
#[derive(Clone, Copy)]
pub(crate) enum RuleViolation {
    /// A conditional parameter is missing.
    Missing(u16),
    /// The parameter does not fit another one.
    Conflict(u16),
    /// The value of a parameter is not defined in this message.
    Value { tag: u16, value: u32 },
}

impl RuleViolation {
    /// Returns the error of a received message, at the parameter that violates the rule.
    pub(crate) fn decode_error(self, raw: RawMessage<'_>, end: usize) -> DecodeError {
        let at = |tag, kind| {
            let found = raw.parameters().flatten().find(|raw| raw.tag == tag);
            DecodeError::new(kind, found.map_or(end, |raw| raw.offset))
        };
        match self {
            Self::Missing(tag) => missing(tag, end),
            Self::Conflict(tag) => at(tag, DecodeErrorKind::Conflict(tag)),
            Self::Value { tag, value } => at(tag, DecodeErrorKind::Value { tag, value }),
        }
    }
}

impl From<RuleViolation> for EncodeError {
    fn from(violation: RuleViolation) -> Self {
        match violation {
            RuleViolation::Missing(tag) => Self::Missing(tag),
            RuleViolation::Conflict(tag) => Self::Conflict(tag),
            RuleViolation::Value { tag, value } => Self::Value { tag, value },
        }
    }
}

/// Value of a parameter that has nothing else.
pub(crate) trait SingleValue: Sized {
    fn read(value: Value<'_>) -> Result<Self, DecodeError>;
    fn write(&self, tag: u16, writer: &mut MessageWriter);
}

/// Octets of any number.
impl SingleValue for Bytes {
    fn read(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(value.all())
    }

    fn write(&self, tag: u16, writer: &mut MessageWriter) {
        writer.parameter(tag, self);
    }
}

/// Implements [`SingleValue`] for numbers, which are the last octets of four: those in front are reserved.
macro_rules! single_numbers {
    ($($kind:ident = |$value:ident| $read:expr;)*) => {$(
        impl SingleValue for $kind {
            fn read($value: Value<'_>) -> Result<Self, DecodeError> {
                $read
            }

            fn write(&self, tag: u16, writer: &mut MessageWriter) {
                writer.number(tag, (*self).into());
            }
        }
    )*};
}

single_numbers! {
    u8 = |value| value.octet();
    u16 = |value| value.number().map(|number| number as u16);
    u32 = |value| value.number();
}

/// Implements [`Parameter`] for types around a [`SingleValue`].
macro_rules! single_parameters {
    ($($name:ident = $tag:path,)*) => {$(
        impl $crate::message::field::Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(
                value: $crate::message::field::Value<'_>,
            ) -> Result<Self, $crate::message::DecodeError> {
                $crate::message::field::SingleValue::read(value).map(Self)
            }

            fn encode(
                &self,
                writer: &mut $crate::message::MessageWriter,
            ) -> Result<(), $crate::message::EncodeError> {
                $crate::message::field::SingleValue::write(&self.0, Self::TAG, writer);
                Ok(())
            }
        }
    )*};
}
pub(crate) use single_parameters;

/// Declares parameters that are one [`SingleValue`]: a number, or octets.
macro_rules! newtypes {
    ($($(#[$doc:meta])* $name:ident($kind:ident) = $tag:path;)*) => {$(
        $crate::message::field::newtypes!(@declare $kind $(#[$doc])* $name);
        $crate::message::field::single_parameters!($name = $tag,);
    )*};
    (@declare Bytes $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub bytes::Bytes);
    };
    (@declare $number:ident $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $number);
    };
}
pub(crate) use newtypes;

/// Declares numbers with named values; others are kept as received.
macro_rules! named_numbers {
    ($($(#[$doc:meta])* $name:ident: $number:ty {
        $($(#[$value_doc:meta])* $value:ident = $code:literal, $text:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $number);

        impl $name {
            $($(#[$value_doc])* #[doc = $text] pub const $value: Self = Self($code);)*

            /// Returns the RFC's name of the value, `None` if it is not defined.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => Some($text),)*
                    _ => None,
                }
            }
        }
    )*};
}
pub(crate) use named_numbers;

/// Declares parameters that are a number with few values: of 32 bits, or an octet in the last of four octets. Other values
/// are rejected with the error of `Value` that is named.
macro_rules! enumerations {
    ($($(#[$doc:meta])* $name:ident = $tag:path, $read:ident, else $error:ident {
        $($(#[$value_doc:meta])* $value:ident = $code:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$value_doc])* $value = $code,)*
        }

        impl $crate::message::field::Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(
                value: $crate::message::field::Value<'_>,
            ) -> Result<Self, $crate::message::DecodeError> {
                match u32::from(value.$read()?) {
                    $($code => Ok(Self::$value),)*
                    other => Err(value.$error(other)),
                }
            }

            fn encode(
                &self,
                writer: &mut $crate::message::MessageWriter,
            ) -> Result<(), $crate::message::EncodeError> {
                writer.number(Self::TAG, *self as u32);
                Ok(())
            }
        }
    )*};
}
pub(crate) use enumerations;

/// Declares parameters that contain one parameter of each field's type.
macro_rules! composites {
    ($($(#[$doc:meta])* $name:ident = $tag:path {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::message::field::Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(
                value: $crate::message::field::Value<'_>,
            ) -> Result<Self, $crate::message::DecodeError> {
                use $crate::message::field::{Field, Value};
                $(let mut $field = None;)*
                for raw in value.nested() {
                    let raw = raw?;
                    let nested = Value { raw, ..value };
                    match raw.tag {
                        $(tag if <$type as Field>::accepts(tag) => {
                            <$type as Field>::add(&mut $field, nested)?;
                        })*
                        _ => value.context.skip(raw)?,
                    }
                }
                let end = value.raw.offset;
                Ok(Self { $($field: Field::finish($field, end)?,)* })
            }

            fn encode(
                &self,
                writer: &mut $crate::message::MessageWriter,
            ) -> Result<(), $crate::message::EncodeError> {
                let mut result = Ok(());
                writer.nested(Self::TAG, |writer| {
                    $(result = result.and($crate::message::field::Field::encode(&self.$field, writer));)*
                });
                result
            }
        }
    )*};
}
pub(crate) use composites;
