//! Declaration of messages.

use super::field::Context;
use super::{DecodeError, EncodeError, MessageWriter, RawMessage};

/// Parameters of a message.
pub(crate) trait Body: Sized {
    fn decode(raw: RawMessage<'_>, context: Context<'_>) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Declares the content of a message with its parameters in the order of the RFC's figure, a check before they
/// are decoded, and a rule about them together.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
        $(check $check:ident)?
        $(rule $rule:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::message::body::Body for $name {
            fn decode(
                raw: $crate::message::RawMessage<'_>,
                context: $crate::message::field::Context<'_>,
            ) -> Result<Self, $crate::message::DecodeError> {
                use $crate::message::field::{Field, Value};
                $($check(raw)?;)?
                $(let mut $field = None;)*
                for parameter in raw.parameters() {
                    let parameter = parameter?;
                    let value = Value { raw: parameter, context };
                    match parameter.tag {
                        $(tag if <$type as Field>::accepts(tag) => {
                            <$type as Field>::add(&mut $field, value)?;
                        })*
                        _ => context.skip(parameter)?,
                    }
                }
                let end = context.octets.len();
                let body = Self { $($field: Field::finish($field, end)?,)* };
                $($rule(&body).map_err(|violation| violation.decode_error(raw, end))?;)?
                Ok(body)
            }

            fn encode(
                &self,
                writer: &mut $crate::message::MessageWriter,
            ) -> Result<(), $crate::message::EncodeError> {
                $($rule(self)?;)?
                $($crate::message::field::Field::encode(&self.$field, writer)?;)*
                Ok(())
            }
        }
    };
}
pub(crate) use message;

/// Declares the messages of a layer: their kinds in the layer's module `kinds`, variants and contents, and the message
/// classes of the layer.
macro_rules! messages {
    (
        $(#[$doc:meta])*
        classes $($class:ident)|*, excluded $is_excluded:path,
        $($(#[$variant_doc:meta])* $kind:ident => $variant:ident($body:ty),)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Message {
            $($(#[$variant_doc])* $variant($body),)*
        }

        impl Message {
            /// Parses an SCTP user message. Variable values are slices of it.
            ///
            /// Parameters that the message's format does not list are skipped, except those that belong to other
            /// adaptation layers.
            ///
            /// # Errors
            /// [`DecodeError`](crate::message::DecodeError) with the position; `ErrorMessage::answering` is the Error
            /// message for the peer.
            pub fn decode(octets: &bytes::Bytes) -> Result<Self, $crate::message::DecodeError> {
                use $crate::message::body::Body;
                let raw = $crate::message::RawMessage::parse(octets)?;
                let context = $crate::message::field::Context {
                    octets,
                    is_excluded: $is_excluded,
                };
                match raw.kind {
                    $(kinds::$kind => Body::decode(raw, context).map(Self::$variant),)*
                    kind => Err($crate::message::DecodeError::unsupported(
                        kind,
                        matches!(kind.class, $(kinds::$class)|*),
                    )),
                }
            }

            /// Encodes the message.
            ///
            /// # Errors
            /// [`EncodeError`](crate::message::EncodeError) if the content does not fit into a message, a mandatory
            /// list is empty, or a field has an undefined value.
            pub fn encode(&self) -> Result<bytes::Bytes, $crate::message::EncodeError> {
                use $crate::message::body::Body;
                let mut writer = $crate::message::MessageWriter::new(self.kind());
                match self {
                    $(Self::$variant(body) => Body::encode(body, &mut writer)?,)*
                }
                Ok(writer.finish()?)
            }

            /// Returns the message class and type.
            pub const fn kind(&self) -> $crate::message::MessageKind {
                match self {
                    $(Self::$variant(_) => kinds::$kind,)*
                }
            }
        }

        impl $crate::aspm::LayerMessage for Message {
            fn kind(&self) -> $crate::message::MessageKind {
                Self::kind(self)
            }

            fn encode(&self) -> Result<bytes::Bytes, $crate::message::EncodeError> {
                Self::encode(self)
            }
        }
    };
}
pub(crate) use messages;
