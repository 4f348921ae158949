//! SCCP causes (RFC 3868, section 3.10.6). Their values are those of ITU-T Q.713, sections 3.11 to 3.15.

use super::tag;
use crate::message::field::{Parameter, Value};
use crate::message::{DecodeError, EncodeError, MessageWriter};

/// Declares the SCCP Cause of a message: its cause type, and the cause values with names. Other values are kept as
/// received, because national networks define some.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident: type $cause_type:literal {
        $($value:ident = $code:literal, $text:literal;)*
    })*) => {$(
        $(#[$doc])*
        ///
        /// ```text
        /// +-------------------------------+---------------+---------------+
        /// |           reserved            |  cause type   |  cause value  |
        /// +-------------------------------+---------------+---------------+
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u8);

        impl $name {
            $(#[doc = $text] pub const $value: Self = Self($code);)*

            /// Returns the name of the cause value, `None` if Q.713 does not define it.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl Parameter for $name {
            const TAG: u16 = tag::SCCP_CAUSE;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                let [_, _, cause_type, cause] = value.exact()?;
                if cause_type != $cause_type {
                    return Err(value.invalid(cause_type.into()));
                }
                Ok(Self(cause))
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                writer.parameter(Self::TAG, &[0, 0, $cause_type, self.0]);
                Ok(())
            }
        }
    )*};
}

causes! {
    /// Return Cause of a CLDR.
    ReturnCause: type 1 {
        NO_TRANSLATION_FOR_NATURE = 0, "No translation for an address of such nature";
        NO_TRANSLATION = 1, "No translation for this specific address";
        SUBSYSTEM_CONGESTION = 2, "Subsystem congestion";
        SUBSYSTEM_FAILURE = 3, "Subsystem failure";
        UNEQUIPPED_USER = 4, "Unequipped user";
        MTP_FAILURE = 5, "MTP failure";
        NETWORK_CONGESTION = 6, "Network congestion";
        UNQUALIFIED = 7, "Unqualified";
        TRANSPORT_ERROR = 8, "Error in message transport";
        LOCAL_PROCESSING_ERROR = 9, "Error in local processing";
        NO_REASSEMBLY = 10, "Destination cannot perform reassembly";
        SCCP_FAILURE = 11, "SCCP failure";
        HOP_COUNTER_VIOLATION = 12, "Hop counter violation";
        SEGMENTATION_NOT_SUPPORTED = 13, "Segmentation not supported";
        SEGMENTATION_FAILURE = 14, "Segmentation failure";
    }

    /// Refusal Cause of a COREF.
    RefusalCause: type 2 {
        END_USER = 0, "End user originated";
        END_USER_CONGESTION = 1, "End user congestion";
        END_USER_FAILURE = 2, "End user failure";
        SCCP_USER = 3, "SCCP user originated";
        DESTINATION_UNKNOWN = 4, "Destination address unknown";
        DESTINATION_INACCESSIBLE = 5, "Destination inaccessible";
        QOS_UNAVAILABLE = 6, "Quality of service not available, non-transient";
        QOS_UNAVAILABLE_TRANSIENT = 7, "Quality of service not available, transient";
        ACCESS_FAILURE = 8, "Access failure";
        ACCESS_CONGESTION = 9, "Access congestion";
        SUBSYSTEM_FAILURE = 10, "Subsystem failure";
        SUBSYSTEM_CONGESTION = 11, "Subsystem congestion";
        ESTABLISHMENT_TIMER = 12, "Expiration of the connection establishment timer";
        INCOMPATIBLE_USER_DATA = 13, "Incompatible user data";
        UNQUALIFIED = 15, "Unqualified";
        HOP_COUNTER_VIOLATION = 16, "Hop counter violation";
        SCCP_FAILURE = 17, "SCCP failure";
        NO_TRANSLATION_FOR_NATURE = 18, "No translation for an address of such nature";
        UNEQUIPPED_USER = 19, "Unequipped user";
    }

    /// Release Cause of a RELRE.
    ReleaseCause: type 3 {
        END_USER = 0, "End user originated";
        END_USER_CONGESTION = 1, "End user congestion";
        END_USER_FAILURE = 2, "End user failure";
        SCCP_USER = 3, "SCCP user originated";
        REMOTE_PROCEDURE_ERROR = 4, "Remote procedure error";
        INCONSISTENT_DATA = 5, "Inconsistent connection data";
        ACCESS_FAILURE = 6, "Access failure";
        ACCESS_CONGESTION = 7, "Access congestion";
        SUBSYSTEM_FAILURE = 8, "Subsystem failure";
        SUBSYSTEM_CONGESTION = 9, "Subsystem congestion";
        MTP_FAILURE = 10, "MTP failure";
        NETWORK_CONGESTION = 11, "Network congestion";
        RESET_TIMER = 12, "Expiration of reset timer";
        INACTIVITY_TIMER = 13, "Expiration of receive inactivity timer";
        UNQUALIFIED = 15, "Unqualified";
        SCCP_FAILURE = 16, "SCCP failure";
    }

    /// Reset Cause of a RESRE.
    ResetCause: type 4 {
        END_USER = 0, "End user originated";
        SCCP_USER = 1, "SCCP user originated";
        INCORRECT_SENT_NUMBER = 2, "Message out of order, incorrect P(S)";
        INCORRECT_RECEIVED_NUMBER = 3, "Message out of order, incorrect P(R)";
        OUT_OF_WINDOW = 4, "Remote procedure error, message out of window";
        INCORRECT_FIRST_NUMBER = 5, "Remote procedure error, incorrect P(S) after (re)initialization";
        REMOTE_PROCEDURE_ERROR = 6, "Remote procedure error, general";
        END_USER_OPERATIONAL = 7, "Remote end user operational";
        NETWORK_OPERATIONAL = 8, "Network operational";
        ACCESS_OPERATIONAL = 9, "Access operational";
        NETWORK_CONGESTION = 10, "Network congestion";
        UNQUALIFIED = 12, "Unqualified";
    }

    /// Error Cause of a COERR.
    ErrorCause: type 5 {
        UNASSIGNED_REFERENCE = 0, "Local reference number mismatch, unassigned destination LRN";
        INCONSISTENT_REFERENCE = 1, "Local reference number mismatch, inconsistent source LRN";
        POINT_CODE_MISMATCH = 2, "Point code mismatch";
        SERVICE_CLASS_MISMATCH = 3, "Service class mismatch";
        UNQUALIFIED = 4, "Unqualified";
    }
}
