//! Protection of the chunks of packets by code outside this crate: the DTLS chunk
//! (draft-ietf-tsvwg-sctp-dtls-chunk) or another protocol of that form.
//!
//! 1. The [`ChunkProtectionOffer`] in [`Config::chunk_protection`](crate::Config::chunk_protection) is advertised in INIT and INIT
//!    ACK. Where both sides offer the same, it makes a [`ChunkProtection`] for the association.
//! 2. The protection replaces the chunks of each outgoing packet by one chunk, and restores them on
//!    receipt. At first it sends and accepts packets in the clear ([`Seal::Clear`]).
//! 3. The two programs agree on keys, for instance by messages of the association itself, as the DTLS
//!    chunk does with its handshake.
//! 4. [`AssociationControl::with_protection`](crate::AssociationControl::with_protection) gives access to the protection of an association, to install
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
//! use carrick::{AbortCause, ChunkType, Config, ConnectOptions, Endpoint};
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
//!     fn agree(&self, _: &[u8], theirs: Option<&[u8]>) -> Result<bool, AbortCause> {
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

use crate::association::AssociationControl;
use crate::error::OperationError;

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
        let done = self.link.work(move |core, _, id| {
            let exists = core.association(id).is_some();
            let Some(protection) = core.chunk_protection(id).filter(|_| exists) else {
                return Err(exists);
            };
            let any: &mut dyn Any = protection;
            Ok(any.downcast_mut().map(work))
        });
        match done.await? {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(OperationError::OtherProtection(std::any::type_name::<P>())),
            Err(true) => Err(OperationError::NoProtection),
            Err(false) => Err(self.link.unknown()),
        }
    }
}
