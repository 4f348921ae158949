//! Associations that peers have set up and no program has accepted yet.

use std::fmt;
use std::net::IpAddr;

use carrick_proto::{Extensions, ParameterChanges};

use crate::association::Association;
use crate::error::OperationError;

/// An association that a peer has set up, to be accepted or refused.
///
/// It is established: the handshake of RFC 9260 keeps no state before the COOKIE ECHO, and the protocol
/// answers that at once. So the parameters that were negotiated, such as streams and extensions, are
/// those of the endpoint's configuration; messages of the peer wait until the association is accepted.
///
/// Dropping it shuts the association down.
#[must_use = "dropping it shuts the association down"]
pub struct Incoming {
    association: Association,
}

impl Incoming {
    pub(crate) fn new(association: Association) -> Self {
        Self { association }
    }

    /// Returns the peer's addresses. The first one is the source of its COOKIE ECHO; the remaining ones
    /// were listed by the peer and are not confirmed.
    pub fn peer_addresses(&self) -> &[IpAddr] {
        self.association.control().peer_addresses()
    }

    /// Returns the peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.association.control().peer_port()
    }

    /// Returns the number of streams to send on.
    pub fn outbound_streams(&self) -> u16 {
        self.association.control().outbound_streams()
    }

    /// Returns the number of streams that the peer may send on.
    pub fn inbound_streams(&self) -> u16 {
        self.association.control().inbound_streams()
    }

    /// Returns the extensions that both sides offered.
    pub fn extensions(&self) -> Extensions {
        self.association.control().extensions()
    }

    /// Returns the fingerprint of the peer's certificate; see [`AssociationControl::peer_fingerprint`](crate::AssociationControl::peer_fingerprint).
    #[cfg(feature = "dtls")]
    pub fn peer_fingerprint(&self) -> Option<carrick_dtls::Fingerprint> {
        self.association.control().peer_fingerprint()
    }

    /// Accepts the association.
    pub fn accept(self) -> Association {
        self.association.accept();
        self.association
    }

    /// Accepts the association with other parameters than the endpoint's. They are in force before the
    /// first message is received.
    ///
    /// # Errors
    /// The association has ended, or a parameter is out of its range; then the association is shut down.
    pub async fn accept_with(
        self,
        changes: ParameterChanges,
    ) -> Result<Association, OperationError> {
        self.association
            .control()
            .change_parameters(changes)
            .await?;
        Ok(self.accept())
    }

    /// Refuses the association: the peer gets an ABORT with this reason, of which the first 1024 bytes
    /// are sent (RFC 9260 section 3.3.10.12).
    pub fn refuse(self, reason: &[u8]) {
        self.association.abort(reason);
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("peer_addresses", &self.peer_addresses())
            .field("peer_port", &self.peer_port())
            .finish_non_exhaustive()
    }
}
