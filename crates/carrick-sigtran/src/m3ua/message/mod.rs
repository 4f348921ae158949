//! Messages (RFC 4666, sections 3.3 to 3.8), each drawn above its type.

mod aspsm;
mod asptm;
mod mgmt;
mod rkm;
mod ssnm;
mod transfer;

pub use aspsm::{AspDown, AspUp, Heartbeat};
pub use asptm::{AspActive, AspInactive};
pub use mgmt::{ErrorMessage, Notify};
pub use rkm::{
    DeregistrationRequest, DeregistrationResponse, RegistrationRequest, RegistrationResponse,
};
pub use ssnm::{DestinationState, SignallingCongestion, UserPartUnavailable};
pub use transfer::Data;

use bytes::Bytes;

use super::error::{DecodeError, DecodeErrorKind, EncodeError};
use super::{RoutingContexts, kinds};
use crate::message::{MessageKind, MessageWriter, RawMessage};

/// Parameters of a message.
trait Body: Sized {
    fn decode(raw: RawMessage<'_>, message: &Bytes) -> Result<Self, DecodeError>;

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError>;
}

/// Declares a message with its parameters in the order of the RFC's figure, and a check before they are decoded.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
        $(check $check:path)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::m3ua::message::Body for $name {
            fn decode(
                raw: $crate::message::RawMessage<'_>,
                message: &bytes::Bytes,
            ) -> Result<Self, $crate::m3ua::DecodeError> {
                use $crate::m3ua::parameter::{Field, Value, skip};
                $($check(raw)?;)?
                $(let mut $field = None;)*
                for raw in raw.parameters() {
                    let raw = raw?;
                    let value = Value { raw, message };
                    match raw.tag {
                        $(<$type as Field>::FIELD_TAG => <$type as Field>::add(&mut $field, value)?,)*
                        _ => skip(raw)?,
                    }
                }
                Ok(Self { $($field: Field::finish($field, message.len())?,)* })
            }

            fn encode(
                &self,
                writer: &mut $crate::message::MessageWriter,
            ) -> Result<(), $crate::m3ua::EncodeError> {
                $($crate::m3ua::parameter::Field::encode(&self.$field, writer)?;)*
                Ok(())
            }
        }
    };
}
use message;

/// Message of M3UA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Error, ERR (section 3.8.1).
    Error(ErrorMessage),
    /// Notify, NTFY (section 3.8.2).
    Notify(Notify),
    /// Payload Data, DATA (section 3.3.1).
    Data(Data),
    /// Destination Unavailable, DUNA (section 3.4.1).
    DestinationUnavailable(DestinationState),
    /// Destination Available, DAVA (section 3.4.2).
    DestinationAvailable(DestinationState),
    /// Destination State Audit, DAUD (section 3.4.3).
    DestinationStateAudit(DestinationState),
    /// Signalling Congestion, SCON (section 3.4.4).
    SignallingCongestion(SignallingCongestion),
    /// Destination User Part Unavailable, DUPU (section 3.4.5).
    UserPartUnavailable(UserPartUnavailable),
    /// Destination Restricted, DRST (section 3.4.6).
    DestinationRestricted(DestinationState),
    /// ASP Up, ASPUP (section 3.5.1).
    AspUp(AspUp),
    /// ASP Up Acknowledgement, ASPUP ACK (section 3.5.2).
    AspUpAck(AspUp),
    /// ASP Down, ASPDN (section 3.5.3).
    AspDown(AspDown),
    /// ASP Down Acknowledgement, ASPDN ACK (section 3.5.4).
    AspDownAck(AspDown),
    /// Heartbeat, BEAT (section 3.5.5).
    Heartbeat(Heartbeat),
    /// Heartbeat Acknowledgement, BEAT ACK (section 3.5.6).
    HeartbeatAck(Heartbeat),
    /// Registration Request, REG REQ (section 3.6.1).
    RegistrationRequest(RegistrationRequest),
    /// Registration Response, REG RSP (section 3.6.2).
    RegistrationResponse(RegistrationResponse),
    /// Deregistration Request, DEREG REQ (section 3.6.3).
    DeregistrationRequest(DeregistrationRequest),
    /// Deregistration Response, DEREG RSP (section 3.6.4).
    DeregistrationResponse(DeregistrationResponse),
    /// ASP Active, ASPAC (section 3.7.1).
    AspActive(AspActive),
    /// ASP Active Acknowledgement, ASPAC ACK (section 3.7.2).
    AspActiveAck(AspActive),
    /// ASP Inactive, ASPIA (section 3.7.3).
    AspInactive(AspInactive),
    /// ASP Inactive Acknowledgement, ASPIA ACK (section 3.7.4).
    AspInactiveAck(AspInactive),
}

/// Maps kinds to the variants of [`Message`], for decoding and encoding alike.
macro_rules! variants {
    ($($kind:ident => $variant:ident,)*) => {
        impl Message {
            /// Parses an SCTP user message. Variable values are slices of it.
            ///
            /// Parameters may be in any order. Parameters that the message's format does not list are skipped
            /// (RFC 4666, section 3), except those that belong to other adaptation layers.
            ///
            /// # Errors
            /// [`DecodeError`] with the position; [`DecodeError::answer`] is the Error message for the peer.
            pub fn decode(octets: &Bytes) -> Result<Self, DecodeError> {
                let raw = RawMessage::parse(octets)?;
                match raw.kind {
                    $(kinds::$kind => Body::decode(raw, octets).map(Self::$variant),)*
                    other => Err(unsupported(other)),
                }
            }

            /// Encodes the message.
            ///
            /// # Errors
            /// [`EncodeError`] if the content does not fit into a message, a mandatory list is empty, or a field
            /// has an undefined value.
            pub fn encode(&self) -> Result<Bytes, EncodeError> {
                let mut writer = MessageWriter::new(self.kind());
                match self {
                    $(Self::$variant(body) => body.encode(&mut writer)?,)*
                }
                Ok(writer.finish()?)
            }

            /// Returns the message class and type.
            pub const fn kind(&self) -> MessageKind {
                match self {
                    $(Self::$variant(_) => kinds::$kind,)*
                }
            }
        }
    };
}

variants! {
    DATA => Data,
    ERR => Error,
    NTFY => Notify,
    DUNA => DestinationUnavailable,
    DAVA => DestinationAvailable,
    DAUD => DestinationStateAudit,
    SCON => SignallingCongestion,
    DUPU => UserPartUnavailable,
    DRST => DestinationRestricted,
    ASPUP => AspUp,
    ASPUP_ACK => AspUpAck,
    ASPDN => AspDown,
    ASPDN_ACK => AspDownAck,
    BEAT => Heartbeat,
    BEAT_ACK => HeartbeatAck,
    REG_REQ => RegistrationRequest,
    REG_RSP => RegistrationResponse,
    DEREG_REQ => DeregistrationRequest,
    DEREG_RSP => DeregistrationResponse,
    ASPAC => AspActive,
    ASPAC_ACK => AspActiveAck,
    ASPIA => AspInactive,
    ASPIA_ACK => AspInactiveAck,
}

impl Message {
    /// Returns the routing contexts that the message contains.
    pub fn routing_contexts(&self) -> Option<RoutingContexts> {
        match self {
            Self::Error(body) => body.routing_contexts.clone(),
            Self::Notify(body) => body.routing_contexts.clone(),
            Self::Data(body) => body
                .routing_context
                .map(|context| RoutingContexts(vec![context])),
            Self::DestinationUnavailable(body)
            | Self::DestinationAvailable(body)
            | Self::DestinationStateAudit(body)
            | Self::DestinationRestricted(body) => body.routing_contexts.clone(),
            Self::SignallingCongestion(body) => body.routing_contexts.clone(),
            Self::UserPartUnavailable(body) => body.routing_contexts.clone(),
            Self::AspActive(body) | Self::AspActiveAck(body) => body.routing_contexts.clone(),
            Self::AspInactive(body) | Self::AspInactiveAck(body) => body.routing_contexts.clone(),
            Self::DeregistrationRequest(body) => Some(body.routing_contexts.clone()),
            _ => None,
        }
    }
}

/// Returns the error of a class or type that M3UA does not have.
fn unsupported(kind: MessageKind) -> DecodeError {
    match kind.class {
        kinds::MGMT | kinds::TRANSFER | kinds::SSNM | kinds::ASPSM | kinds::ASPTM | kinds::RKM => {
            DecodeError::new(DecodeErrorKind::UnsupportedType(kind), 3)
        }
        class => DecodeError::new(DecodeErrorKind::UnsupportedClass(class), 2),
    }
}
