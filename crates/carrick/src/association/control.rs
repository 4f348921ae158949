//! The state of an association, and what can be changed about it.

use std::net::IpAddr;

use carrick_proto::{
    AssociationId, AssociationStats, CloseReason, Endpoint as Core, PathId, PathStats,
    PathThresholds, StreamId, StreamStats, Time,
};

use super::SendHalf;
use crate::error::{OperationError, ReconfigError};

impl SendHalf {
    /// The state of the association with its counters.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stats(&self) -> Result<AssociationStats, OperationError> {
        let stats = self.link.work(|core, _, id| core.association_stats(id));
        stats.await?.ok_or_else(|| self.link.unknown())
    }

    /// The counters of one of this side's streams; all zero for one that does not exist.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stream_stats(&self, stream: StreamId) -> Result<StreamStats, OperationError> {
        let stats = self.link.work(move |core, _, id| {
            core.association_stats(id)
                .map(|_| core.stream_stats(id, stream).unwrap_or_default())
        });
        stats.await?.ok_or_else(|| self.link.unknown())
    }

    /// The paths in their order, with their counters.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn paths(&self) -> Result<Vec<PathStats>, OperationError> {
        let paths = self.link.work(|core, _, id| core.paths(id).collect());
        let paths: Vec<PathStats> = paths.await?;
        if paths.is_empty() {
            return Err(self.link.unknown());
        }
        Ok(paths)
    }

    /// New data goes to this path while it works.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_primary(&self, path: PathId) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_primary(now, id, path))
            .await
    }

    /// Asks the peer to send to this address of ours (RFC 5061 section 5.4).
    /// [`crate::AddressEvent::PreferenceTold`] says that it has taken note,
    /// [`crate::AddressEvent::Refused`] that it will not, also where it could not be asked because it
    /// has not taken the address.
    ///
    /// # Errors
    /// The association has ended or has no dynamic addresses, or the endpoint has no such address.
    pub async fn set_peer_primary(&self, address: IpAddr) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_peer_primary(now, id, address))
            .await
    }

    /// Sets the UDP port to which packets to a path's peer address go, `None` for plain IP
    /// (`SCTP_REMOTE_UDP_ENCAPS_PORT`, RFC 6951 section 6.1). It holds until a packet of the peer from
    /// there shows another one. To read it, see [`PathStats::encapsulation`]; for a port that is known
    /// before the set-up, [`crate::ConnectOptions::encapsulated`].
    ///
    /// # Errors
    /// The endpoint has no socket for this, is over DTLS, the port is 0, the association has ended, or
    /// there is no such path.
    pub async fn set_encapsulation(
        &self,
        path: PathId,
        port: Option<u16>,
    ) -> Result<(), OperationError> {
        let transport = self.link.shared.transport;
        let transport = transport.ok_or(OperationError::OverDtls)?;
        if port.is_some() && transport.encapsulation_port().is_none() {
            return Err(OperationError::NotEncapsulated);
        }
        if port.is_none() && !transport.has_plain_ip() {
            return Err(OperationError::NotPlainIp);
        }
        self.operate(move |core, now, id| core.set_encapsulation(now, id, path, port))
            .await
    }

    /// Turns heartbeats on an idle path on or off.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_heartbeat(&self, path: PathId, enabled: bool) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_heartbeat(now, id, path, enabled))
            .await
    }

    /// Sends a heartbeat on a path now.
    ///
    /// # Errors
    /// The association has ended or is shutting down, or there is no such path.
    pub async fn request_heartbeat(&self, path: PathId) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.request_heartbeat(now, id, path))
            .await
    }

    /// Sets Path.Max.Retrans of a path.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_failure_threshold(
        &self,
        path: PathId,
        threshold: u32,
    ) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_failure_threshold(now, id, path, threshold))
            .await
    }

    /// Lets the protocol try to re-configure streams.
    pub(crate) async fn reconfigure(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), carrick_proto::ReconfigError>
        + Send
        + 'static,
    ) -> Result<(), ReconfigError> {
        match self.link.work(work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(carrick_proto::ReconfigError::UnknownAssociation)) => {
                Err(match self.link.shared.ended.get() {
                    Some(reason) => ReconfigError::Ended(reason.clone()),
                    None => carrick_proto::ReconfigError::UnknownAssociation.into(),
                })
            }
            Ok(Err(e)) => Err(e.into()),
            Err(_) => Err(ReconfigError::EndpointClosed),
        }
    }

    /// Sets when a path is potentially failed and inactive, and when a primary is given up: of one
    /// path, or of all present and future ones (RFC 7829 section 7.2).
    ///
    /// # Errors
    /// The association has ended, there is no such path, or the thresholds contradict each other.
    pub async fn set_path_thresholds(
        &self,
        path: Option<PathId>,
        thresholds: PathThresholds,
    ) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_path_thresholds(now, id, path, thresholds))
            .await
    }

    /// The thresholds of one path, or those that new paths get.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn path_thresholds(
        &self,
        path: Option<PathId>,
    ) -> Result<PathThresholds, OperationError> {
        let read = self.link.work(move |core, _, id| {
            let exists = core.association_stats(id).is_some();
            (exists, core.path_thresholds(id, path))
        });
        match read.await? {
            (_, Some(thresholds)) => Ok(thresholds),
            (true, None) => Err(carrick_proto::OperationError::UnknownPath.into()),
            (false, None) => Err(self.link.unknown()),
        }
    }

    /// Whether notifications and [`Self::paths`] show that paths are potentially failed (RFC 7829
    /// section 7.3).
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_expose_potentially_failed(&self, expose: bool) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_expose_potentially_failed(now, id, expose))
            .await
    }

    /// Lets the endpoint's task look into the protocol.
    pub(crate) async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        self.link.work(work).await
    }

    /// Why the protocol does not know the association.
    pub(crate) fn unknown(&self) -> OperationError {
        self.link.unknown()
    }

    /// How the association ended, if it has.
    pub(crate) fn end(&self) -> Option<CloseReason> {
        self.link.shared.ended.get().cloned()
    }

    pub(crate) async fn operate(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), carrick_proto::OperationError>
        + Send
        + 'static,
    ) -> Result<(), OperationError> {
        match self.link.work(work).await? {
            Ok(()) => Ok(()),
            Err(carrick_proto::OperationError::UnknownAssociation) => Err(self.link.unknown()),
            Err(e) => Err(e.into()),
        }
    }
}
