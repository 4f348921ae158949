//! Protection of the chunks of packets, put in from outside: the DTLS chunk
//! (draft-ietf-tsvwg-sctp-dtls-chunk), or anything of its kind.
//!
//! 1. A [`ChunkProtectionOffer`] in [`crate::Config::chunk_protection`] is told to peers in INIT and
//!    INIT ACK. Where both sides offer the same, it makes a [`ChunkProtection`] for the association.
//! 2. That one turns the chunks of each packet that leaves into the value of one chunk, and back. At
//!    first it lets everything through in the clear ([`Seal::Clear`]).
//! 3. The two programs agree on keys by whatever they like: messages of the association itself, for
//!    instance, as the DTLS chunk does with its handshake.
//! 4. [`crate::SendHalf::with_protection`] reaches the protection of an association to put keys in, to
//!    change them, and to take nothing in the clear from then on ([`ChunkProtection::admits`]).
//!
//! [`crate::AssociationStats::protection`] says whether there is one in force, and counts what it did.
//!
//! A protection is used by the task of its endpoint alone, so it has to be [`Send`] and needs no lock.
//! It is called for every packet: it must not block. An offer is used by the task for every set-up, and
//! is shared with the configuration, so it has to be [`Sync`] too.
//!
//! ```
//! use std::sync::Arc;
//!
//! use carrick::protection::{ChunkProtection, ChunkProtectionOffer, PacketContext, ParameterType, Seal};
//! use carrick::{ChunkType, Config, ConnectOptions, Endpoint};
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
//!     fn value(&self) -> Vec<u8> {
//!         vec![1]
//!     }
//!     fn overhead(&self) -> usize {
//!         0
//!     }
//!     fn accepts(&self, theirs: &[u8]) -> bool {
//!         theirs == [1]
//!     }
//!     fn begin(&self, _: &[u8], _: bool) -> Box<dyn ChunkProtection> {
//!         Box::new(Counter::default())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let loopback = ["127.0.0.1".parse()?];
//! let config = || Config::udp(loopback).encapsulation_port(0).chunk_protection(Arc::new(Offer));
//! let (server, client) = (Endpoint::bind(config())?, Endpoint::bind(config())?);
//! let options = ConnectOptions::to_port(server.port());
//! let options = options.encapsulation_port(server.encapsulation_port().unwrap());
//! let association = client.connect(&loopback, options).await?;
//! let counted = association.with_protection(|counter: &mut Counter| counter.0).await?;
//! assert_eq!(association.stats().await?.protection.map(|p| p.sent_clear), Some(counted));
//! # Ok(())
//! # }
//! ```

use std::any::Any;

pub use carrick_proto::protection::{
    ChunkProtection, ChunkProtectionOffer, MAX_OFFER, MAX_OVERHEAD, PacketContext, ProtectionStats,
    Seal,
};
pub use carrick_proto::{CommonHeader, Ecn, ParameterType, Route, Time};

#[cfg(feature = "dtls")]
pub use carrick_proto::protection::{SessionLayerConfig, SessionStats};

use crate::association::{Association, SendHalf};
use crate::error::{OperationError, ProtectionError};

impl SendHalf {
    /// Lets the endpoint's task do something with the protection of this association's chunks, which
    /// is of the type that the offer of this side made, and returns what came of it. `work` must not
    /// block: nothing of the endpoint goes on meanwhile.
    ///
    /// # Errors
    /// No protection is in force, it is of another type, or the association has ended.
    pub async fn with_protection<P: ChunkProtection, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P) -> R + Send + 'static,
    ) -> Result<R, ProtectionError> {
        let done = self.work(move |core, _, id| {
            let exists = core.association_stats(id).is_some();
            let Some(protection) = core.chunk_protection(id).filter(|_| exists) else {
                return Err(exists);
            };
            let any: &mut dyn Any = protection;
            Ok(any.downcast_mut().map(work))
        });
        match done.await {
            Ok(Ok(Some(result))) => Ok(result),
            Ok(Ok(None)) => Err(ProtectionError::OtherType(std::any::type_name::<P>())),
            Ok(Err(true)) => Err(ProtectionError::NotInForce),
            Ok(Err(false)) => Err(self
                .end()
                .map_or(ProtectionError::EndpointClosed, ProtectionError::Ended)),
            Err(OperationError::Ended(reason)) => Err(ProtectionError::Ended(reason)),
            Err(_) => Err(ProtectionError::EndpointClosed),
        }
    }
}

impl Association {
    /// See [`SendHalf::with_protection`].
    ///
    /// # Errors
    /// See there.
    pub async fn with_protection<P: ChunkProtection, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P) -> R + Send + 'static,
    ) -> Result<R, ProtectionError> {
        self.sender().with_protection(work).await
    }
}
