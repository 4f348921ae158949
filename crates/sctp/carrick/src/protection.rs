//! Protection of the chunks of packets: by the DTLS chunk (draft-ietf-tsvwg-sctp-dtls-chunk), which
//! [`Config::secure`](crate::Config::secure) uses, or by another protocol of that form outside this crate.
//!
//! 1. The [`ChunkProtectionOffer`] in [`Config::chunk_protection`](crate::Config::chunk_protection) is advertised in INIT and INIT
//!    ACK. Where both sides offer the same, it makes a [`ChunkProtection`] for the association.
//! 2. The protection replaces the chunks of each outgoing packet by one chunk, and restores them on
//!    receipt. At first it sends and accepts packets in the clear ([`Seal::Clear`]).
//! 3. The protection agrees on keys with that of the peer by its messages ([`ChunkProtectionOffer::key_management`]), for
//!    which the messages of the program wait, or the two programs agree on them.
//! 4. In the latter case [`AssociationControl::with_protection`](crate::AssociationControl::with_protection) gives access to the protection of an association, to install
//!    and change keys and to accept nothing in the clear any more ([`ChunkProtection::admits`]).
//!
//! [`AssociationStats::protection`](crate::AssociationStats::protection) shows whether a protection is in force, with its counters.
//!
//! A protection is used by the task of its endpoint alone, so it has to be [`Send`] and needs no lock.
//! It is called for every packet: it must not block. An offer is used by the task for every set-up, and
//! is shared with the configuration, so it has to be [`Sync`] too.
//!
//! ```
//! use std::sync::Arc;
//!
//! use carrick::protection::{
//!     ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, ParameterType, Seal,
//! };
//! use carrick::{CauseCode, ChunkType, Config, ConnectOptions, Endpoint};
//!
//! /// Counts what it lets through. A real one encrypts.
//! #[derive(Debug, Default)]
//! struct Counter(u64);
//!
//! impl ChunkProtection for Counter {
//!     fn protect(&mut self, _: &PacketContext, _: &mut Vec<u8>) -> Seal {
//!         self.0 += 1;
//!         Seal::Clear
//!     }
//!     fn unprotect(&mut self, _: &PacketContext, _: u8, _: &mut Vec<u8>) -> bool {
//!         false
//!     }
//!     fn admits(&self, _: ChunkType) -> bool {
//!         true
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Offer;
//!
//! impl ChunkProtectionOffer for Offer {
//!     fn chunk_type(&self) -> ChunkType {
//!         ChunkType(0x41)
//!     }
//!     fn parameter_type(&self) -> ParameterType {
//!         ParameterType(0x8f06)
//!     }
//!     fn value(&self, _: u32) -> Vec<u8> {
//!         vec![1]
//!     }
//!     fn overhead(&self) -> usize {
//!         0
//!     }
//!     fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
//!         Ok(theirs == Some(&[1]))
//!     }
//!     fn begin(&self, _: &Offers<'_>) -> Box<dyn ChunkProtection> {
//!         Box::new(Counter::default())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let loopback = [std::net::Ipv4Addr::LOCALHOST.into()];
//! let config = || Config::udp(loopback).encapsulation_port(0).chunk_protection(Arc::new(Offer));
//! let (server, client) = (Endpoint::bind(config())?, Endpoint::bind(config())?);
//! let options = ConnectOptions::default();
//! let options = options.encapsulation_port(server.encapsulation_port().unwrap());
//! let association = client.connect_with((loopback, server.port()), options).await?;
//! let counted = association.control().with_protection(|counter: &mut Counter| counter.0).await?;
//! assert_eq!(association.control().stats().await?.protection.map(|p| p.sent_clear), Some(counted));
//! # Ok(())
//! # }
//! ```

use std::any::Any;

pub use carrick_proto::protection::{
    ChunkProtection, ChunkProtectionOffer, KeyManagementState, MAX_KEY_MESSAGE, MAX_OFFER,
    MAX_OVERHEAD, Offers, PacketContext, ProtectionStats, Seal,
};
pub use carrick_proto::{CommonHeader, Ecn, ParameterType, Route, Time};

#[cfg(feature = "dtls")]
pub use carrick_proto::sessions::{SessionLayerConfig, SessionStats};

#[cfg(feature = "dtls")]
use carrick_dtls_chunk::DtlsProtection;

use crate::association::AssociationControl;
use crate::error::OperationError;

#[cfg(feature = "dtls")]
impl AssociationControl {
    /// Replaces the keys of the DTLS chunk now, by a handshake beside the traffic. Returns `false` if one is in progress.
    ///
    /// # Errors
    /// The association does not use the DTLS chunk, or has ended.
    pub async fn renew_keys(&self) -> Result<bool, OperationError> {
        self.with_protection_at(|chunk: &mut DtlsProtection, now| chunk.rekey(now))
            .await
    }

    /// Returns the keys with which this side can restart the association once after it has lost its state
    /// ([`DtlsChunk::restart_with`](carrick_dtls_chunk::DtlsChunk::restart_with)); `None` if the peer does not support that. They
    /// change with the keys of the association.
    ///
    /// # Errors
    /// The association does not use the DTLS chunk, or has ended.
    pub async fn restart_keys(
        &self,
    ) -> Result<Option<carrick_dtls_chunk::RestartKeys>, OperationError> {
        self.with_protection_at(|chunk: &mut DtlsProtection, _| chunk.restart_keys())
            .await
    }
}

impl AssociationControl {
    /// Runs a function on the chunk protection of this association, which has the type that the offer of
    /// this side made, in the endpoint's task. `work` must not block: it stops the whole endpoint.
    ///
    /// # Errors
    /// No protection is in force, it is of another type, or the association has ended.
    pub async fn with_protection<P: ChunkProtection, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        self.with_protection_at(|protection: &mut P, _| work(protection))
            .await
    }

    /// As [`Self::with_protection`], with the time of the endpoint.
    async fn with_protection_at<P: ChunkProtection, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P, Time) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let done = self.link.work(move |core, now, id| {
            let Some(mut association) = core.association_mut(now, id) else {
                return Err(false);
            };
            let protection = association.chunk_protection().ok_or(true)?;
            let any: &mut dyn Any = protection;
            Ok(any.downcast_mut().map(|protection| work(protection, now)))
        });
        match done.await? {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(OperationError::OtherProtection(std::any::type_name::<P>())),
            Err(true) => Err(OperationError::NoProtection),
            Err(false) => Err(self.link.unknown()),
        }
    }
}
