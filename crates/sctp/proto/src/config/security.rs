//! Authentication and protection of packets, by SCTP or by the lower layer.

use alloc::sync::Arc;

use carrick_wire::ErrorDetectionMethod;

use crate::auth::AuthenticationConfig;
use crate::protection::ChunkProtectionOffer;

/// Authentication and protection of packets.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields, rename_all = "kebab-case")
)]
pub struct SecurityConfig {
    /// Authentication of chunks (RFC 4895): algorithms, chunk types and keys.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub authentication: AuthenticationConfig,
    /// Offers and accepts dynamic addresses without authentication. An attacker who guesses the
    /// verification tag can then redirect the association (RFC 5061, section 6). Default: `false`.
    pub dynamic_addresses_without_authentication: bool,
    /// Lower layer of the association. It determines whether [`Extensions::zero_checksum`](crate::Extensions::zero_checksum) can be
    /// offered.
    pub lower_layer: LowerLayer,
    /// Protection of chunks that is offered to peers (see [`protection`](crate::protection)). `None`, the default,
    /// offers none.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub protection: Option<Arc<dyn ChunkProtectionOffer>>,
}

portable_struct! {
    SecurityConfig {
        authentication, dynamic_addresses_without_authentication, lower_layer, protection,
    }
}

/// Lower layer that carries SCTP packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum LowerLayer {
    /// IP or UDP: errors are found by the checksum of SCTP alone.
    #[default]
    Plain,
    /// DTLS (RFC 8261), which discards modified packets. With this setting, the endpoint must be given
    /// only packets of the association that came through DTLS.
    Dtls,
}

portable_enum! { LowerLayer { 0: Plain, 1: Dtls } }

impl LowerLayer {
    /// The method that finds errors in place of the checksum, if there is one (RFC 9653 section 8).
    pub(crate) fn error_detection(self) -> Option<ErrorDetectionMethod> {
        match self {
            Self::Plain => None,
            Self::Dtls => Some(ErrorDetectionMethod::DTLS),
        }
    }
}
