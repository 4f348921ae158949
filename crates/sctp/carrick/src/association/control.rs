//! State and parameters of an association.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationId, AssociationMut, AssociationStats, CloseReason, Extensions, ParameterChanges,
    PathId, PathStats, PathThresholds, StreamId, StreamStats,
};

use super::EndpointLink;
use crate::error::{ConfigError, OperationError};

/// Reads the state of an association and changes it: parameters, paths, streams and keys. Clones are handles of the
/// same association, and keep it as those do that send and receive.
///
/// The paths with their state and round trip, and the second one as the primary path:
///
/// ```
/// # use carrick::{Config, ConnectOptions, Endpoint};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let config = || Config::udp([[127, 0, 0, 1].into(), [127, 0, 0, 2].into()]).encapsulation_port(0);
/// # let (client, server) = (Endpoint::bind(config())?, Endpoint::bind(config())?);
/// # let options = ConnectOptions::new().encapsulation_port(server.encapsulation_port().ok_or("not in UDP")?);
/// # let peer = (["127.0.0.1".parse()?], server.port());
/// # let (near, far) = tokio::join!(client.connect_with(peer, options), server.accept());
/// # let (association, peer) = (near?, far.ok_or("no association")?.accept());
/// let control = association.control();
/// for path in control.paths().await? {
///     println!("{}: {:?}, {:?}", path.remote, path.status, path.srtt);
/// }
/// # // The second path is confirmed within a round trip.
/// # while !control.paths().await?.iter().all(|path| path.status.confirmed) {
/// #     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
/// # }
/// let second = control.paths().await?[1].id;
/// control.set_primary(second).await?;
/// let stats = control.stats().await?;
/// assert_eq!((stats.primary, stats.counters.retransmissions), (Some(second), 0));
/// # drop(peer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AssociationControl {
    pub(crate) link: Arc<EndpointLink>,
}

impl AssociationControl {
    /// Returns the identifier of the association in its endpoint, or in its shard
    /// ([`Config::shards`](crate::Config::shards)). A handover keeps it.
    pub fn id(&self) -> AssociationId {
        self.link.id
    }

    /// Sets data of the program, which a handover passes on, so that the successor finds its own state of the
    /// association. No part of it is sent.
    pub fn set_user_data(&self, data: impl Into<Bytes>) {
        *self.link.shared.user_data() = data.into();
    }

    /// Returns the data that [`Self::set_user_data`] set last, also before a handover; empty at first.
    pub fn user_data(&self) -> Bytes {
        self.link.shared.user_data().clone()
    }

    /// Returns the peer's addresses at the set-up, one for each path.
    pub fn peer_addresses(&self) -> &[IpAddr] {
        &self.link.shared.peer_addresses
    }

    /// Returns the fingerprint of the certificate with which the peer's DTLS session was set up; `None`
    /// without DTLS, and where no certificate was requested because any peer is trusted.
    #[cfg(feature = "dtls")]
    pub fn peer_fingerprint(&self) -> Option<carrick_dtls::Fingerprint> {
        self.link.shared.fingerprint
    }

    /// Returns the peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.link.shared.peer_port
    }

    /// Returns the number of streams to send on; their identifiers start at 0.
    pub fn outbound_streams(&self) -> u16 {
        self.link.shared.outbound_streams.load(Ordering::Acquire)
    }

    /// Returns the number of streams that the peer may send on.
    pub fn inbound_streams(&self) -> u16 {
        self.link.shared.inbound_streams.load(Ordering::Acquire)
    }

    /// Returns the extensions that both sides offered.
    pub fn extensions(&self) -> Extensions {
        self.link.shared.extensions
    }

    /// Waits until the association has ended, and returns the reason, as [`SendHalf::closed`](crate::SendHalf::closed) does.
    pub async fn closed(&self) -> CloseReason {
        self.link.closed().await
    }

    /// Returns why the association has ended; `None` until then.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.link.shared.end().cloned()
    }

    /// Returns the state and the counters of the association, after the messages that were sent before
    /// this call.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stats(&self) -> Result<AssociationStats, OperationError> {
        self.link.read(|a| a.stats()).await
    }

    /// Returns the counters of an outbound stream; all zero for a stream that does not exist.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn stream_stats(
        &self,
        stream: impl Into<StreamId>,
    ) -> Result<StreamStats, OperationError> {
        let stream = stream.into();
        let read = self.link.read(move |a| a.stream_stats(stream));
        Ok(read.await?.unwrap_or_default())
    }

    /// Returns the paths in their order, with their state and counters.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn paths(&self) -> Result<Vec<PathStats>, OperationError> {
        self.link.read(|a| a.paths().collect()).await
    }

    /// Sets the primary path, which carries new data while it is active (`SCTP_PRIMARY_ADDR`).
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_primary(&self, path: PathId) -> Result<(), OperationError> {
        self.change(move |a| a.set_primary(path)).await
    }

    /// Requests that the peer use this local address as its primary (RFC 5061 section 5.4).
    /// [`AddressEvent::PreferenceAccepted`](crate::AddressEvent::PreferenceAccepted) reports that the peer acknowledged the request,
    /// [`AddressEvent::Refused`](crate::AddressEvent::Refused) that it refused, or that it does not have the address.
    ///
    /// # Errors
    /// The association has ended or has no dynamic addresses, or the endpoint has no such address.
    pub async fn set_peer_primary(&self, address: IpAddr) -> Result<(), OperationError> {
        self.change(move |a| a.set_peer_primary(address)).await
    }

    /// Sets the UDP port to which packets to a path's peer address go, `None` for plain IP
    /// (`SCTP_REMOTE_UDP_ENCAPS_PORT`, RFC 6951 section 6.1), until a packet of the peer from
    /// that address has another one. [`PathStats::encapsulation`] shows it;
    /// [`ConnectOptions::encapsulated`](crate::ConnectOptions::encapsulated) sets it before the set-up.
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
        self.change(move |a| a.set_encapsulation(path, port)).await
    }

    /// Turns heartbeats on an idle path on or off.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_heartbeat(&self, path: PathId, enabled: bool) -> Result<(), OperationError> {
        self.change(move |a| a.set_heartbeat(path, enabled)).await
    }

    /// Sets the heartbeat interval of a path (`SCTP_PEER_ADDR_PARAMS`, RFC 6458 section 8.1.12). Its next
    /// heartbeat is scheduled again. [`Self::change_parameters`] sets the interval of all paths.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn set_heartbeat_interval(
        &self,
        path: PathId,
        interval: Duration,
    ) -> Result<(), OperationError> {
        self.change(move |a| a.set_heartbeat_interval(path, interval))
            .await
    }

    /// Returns the heartbeat interval of a path.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn heartbeat_interval(&self, path: PathId) -> Result<Duration, OperationError> {
        let read = self.link.read(move |a| a.heartbeat_interval(path));
        read.await?.ok_or(OperationError::UnknownPath)
    }

    /// Sets the DSCP of the packets of a path, 0 to 63 (`SCTP_PEER_ADDR_PARAMS`, RFC 6458 section 8.1.12).
    /// [`Self::change_parameters`] sets that of all paths. Packets have DSCP 0 on systems other than Linux.
    ///
    /// # Errors
    /// The association has ended, there is no such path, or the number is above 63.
    pub async fn set_dscp(&self, path: PathId, dscp: u8) -> Result<(), OperationError> {
        self.change(move |a| a.set_dscp(path, dscp)).await
    }

    /// Sends a heartbeat on a path now.
    ///
    /// # Errors
    /// The association has ended or is shutting down, or there is no such path.
    pub async fn request_heartbeat(&self, path: PathId) -> Result<(), OperationError> {
        self.change(move |a| a.request_heartbeat(path)).await
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
        self.change(move |a| a.set_failure_threshold(path, threshold))
            .await
    }

    /// Sets the error thresholds at which a path becomes potentially failed or inactive and at which
    /// the primary is switched, for one path or, with `None`, for all present and future ones
    /// (`SCTP_PEER_ADDR_THLDS_V2`, RFC 7829 section 7.2).
    ///
    /// # Errors
    /// The association has ended, there is no such path, or the thresholds contradict each other.
    pub async fn set_path_thresholds(
        &self,
        path: Option<PathId>,
        thresholds: PathThresholds,
    ) -> Result<(), OperationError> {
        self.change(move |a| a.set_path_thresholds(path, thresholds))
            .await
    }

    /// Returns the thresholds of one path or, with `None`, those of new paths.
    ///
    /// # Errors
    /// The association has ended, or there is no such path.
    pub async fn path_thresholds(
        &self,
        path: Option<PathId>,
    ) -> Result<PathThresholds, OperationError> {
        let read = self.link.read(move |a| a.path_thresholds(path));
        read.await?.ok_or(OperationError::UnknownPath)
    }

    /// Sets whether notifications expose the potentially failed state of paths
    /// (`SCTP_EXPOSE_POTENTIALLY_FAILED_STATE`, RFC 7829 section 7.3). [`Self::paths`] shows it in any case.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_expose_potentially_failed(&self, expose: bool) -> Result<(), OperationError> {
        self.link
            .with(move |a| a.set_expose_potentially_failed(expose))
            .await
    }

    /// Changes protocol parameters of this association: RTO bounds, heartbeat interval, SACK delay and
    /// frequency, Nagle, Max.Burst, Association.Max.Retrans.
    ///
    /// # Errors
    /// The association has ended, or a parameter would be out of its range; then none is changed.
    pub async fn change_parameters(&self, changes: ParameterChanges) -> Result<(), OperationError> {
        self.change(move |a| a.change_parameters(&changes)).await
    }

    /// Sets the MTU of a path in bytes, IP header included, 576 to 65535 (`SCTP_PEER_ADDR_PARAMS`).
    /// With path MTU discovery it is the upper limit until the search starts again. A smaller MTU of
    /// the host's route is used instead.
    ///
    /// # Errors
    /// The association has ended, there is no such path, or the MTU is out of its range.
    pub async fn set_path_mtu(&self, path: PathId, mtu: usize) -> Result<(), OperationError> {
        if !(576..=65535).contains(&mtu) {
            return Err(ConfigError::new("path_mtu", "must be 576 to 65535").into());
        }
        self.change(move |a| a.set_path_mtu(path, mtu)).await
    }

    /// Performs an operation that the protocol may refuse.
    pub(super) async fn change<E: Into<OperationError> + Send + 'static>(
        &self,
        operation: impl FnOnce(&mut AssociationMut<'_>) -> Result<(), E> + Send + 'static,
    ) -> Result<(), OperationError> {
        self.link.with(operation).await?.map_err(Into::into)
    }
}
