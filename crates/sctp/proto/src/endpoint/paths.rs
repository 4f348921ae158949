//! Paths of an association: SET PRIMARY, CHANGE HEARTBEAT, REQUEST HEARTBEAT and SET FAILURE THRESHOLD (RFC 9260,
//! sections 11.1.6, 11.1.9, 11.1.10 and 11.1.12), and the options of RFC 6458, RFC 6951 and RFC 7829.

use core::time::Duration;

use super::AssociationMut;
use crate::config::PathThresholds;
use crate::error::OperationError;
use crate::path::PathId;

impl AssociationMut<'_> {
    /// Sets the primary path, which carries new data while it is active: SET PRIMARY of RFC 9260,
    /// section 11.1.6.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`].
    pub fn set_primary(&mut self, path: PathId) -> Result<(), OperationError> {
        let (association, cx) = self.parts()?;
        association.set_primary(path, cx.now)
    }

    /// Enables or disables heartbeats on a path: CHANGE HEARTBEAT of RFC 9260, section 11.1.9.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`].
    pub fn set_heartbeat(&mut self, path: PathId, enabled: bool) -> Result<(), OperationError> {
        let (association, mut cx) = self.parts()?;
        association.set_heartbeat(path, enabled, &mut cx)
    }

    /// Sets HB.interval of a path (RFC 6458, section 8.1.12). Its next heartbeat is scheduled again. For all
    /// paths, see [`ParameterChanges::hb_interval`](crate::ParameterChanges::hb_interval).
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`].
    pub fn set_heartbeat_interval(
        &mut self,
        path: PathId,
        interval: Duration,
    ) -> Result<(), OperationError> {
        let (association, mut cx) = self.parts()?;
        association.set_heartbeat_interval(path, interval, &mut cx)
    }

    /// Sets the DSCP of the packets of a path, 0 to 63 (RFC 6458, section 8.1.12). For all paths, see
    /// [`ParameterChanges::dscp`](crate::ParameterChanges::dscp).
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`], or
    /// [`OperationError::InvalidConfig`] for another number.
    pub fn set_dscp(&mut self, path: PathId, dscp: u8) -> Result<(), OperationError> {
        self.parts()?.0.set_dscp(path, dscp)
    }

    /// Sends a heartbeat on a path: REQUEST HEARTBEAT of RFC 9260, section 11.1.10.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`], or
    /// [`OperationError::WrongState`] in a state without heartbeats.
    pub fn request_heartbeat(&mut self, path: PathId) -> Result<(), OperationError> {
        self.parts()?.0.request_heartbeat(path)
    }

    /// Sets Path.Max.Retrans of a path: SET FAILURE THRESHOLD of RFC 9260, section 11.1.12.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`], or
    /// [`OperationError::InvalidThresholds`] as for [`Self::set_path_thresholds`].
    pub fn set_failure_threshold(
        &mut self,
        path: PathId,
        threshold: u32,
    ) -> Result<(), OperationError> {
        let (association, cx) = self.parts()?;
        let current = association.path_thresholds(Some(path));
        let thresholds = PathThresholds {
            path_max_retrans: threshold,
            ..current.ok_or(OperationError::UnknownPath)?
        };
        association.set_thresholds(Some(path), thresholds, cx.now)
    }

    /// Sets the error thresholds of a path, or with `None` of all present and future paths: socket option
    /// `SCTP_PEER_ADDR_THLDS` of RFC 7829, section 7.2.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`], or
    /// [`OperationError::InvalidThresholds`] if the thresholds contradict each other.
    pub fn set_path_thresholds(
        &mut self,
        path: Option<PathId>,
        thresholds: PathThresholds,
    ) -> Result<(), OperationError> {
        let (association, cx) = self.parts()?;
        association.set_thresholds(path, thresholds, cx.now)
    }

    /// Sets whether events expose the potentially failed state of paths to the program: socket option
    /// `SCTP_EXPOSE_POTENTIALLY_FAILED_STATE` of RFC 7829, section 7.3. The current value is
    /// [`PathConfig::expose_potentially_failed`](crate::PathConfig::expose_potentially_failed) in [`Association::config`](crate::Association::config).
    pub fn set_expose_potentially_failed(&mut self, expose: bool) {
        if let Ok((association, _)) = self.parts() {
            association.expose_potentially_failed(expose);
        }
    }

    /// Sets the path MTU of a path in bytes, IP header included. With path MTU discovery (RFC 8899), this
    /// is the upper limit of the search until the next search begins.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`].
    pub fn set_path_mtu(&mut self, path: PathId, mtu: usize) -> Result<(), OperationError> {
        let (association, cx) = self.parts()?;
        association.set_path_mtu(path, mtu, cx.now)
    }

    /// Sets the destination UDP port of packets to a path's peer address, 1 to 65535, or `None` for plain
    /// IP: the socket option `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951, section 6.1). A packet from that
    /// address with another UDP source port replaces it. [`PathStats::encapsulation`](crate::PathStats::encapsulation) has the
    /// current value.
    ///
    /// # Errors
    /// [`OperationError::UnknownPath`], or
    /// [`OperationError::InvalidPort`] for port 0.
    pub fn set_encapsulation(
        &mut self,
        path: PathId,
        encapsulation: Option<u16>,
    ) -> Result<(), OperationError> {
        if encapsulation == Some(0) {
            return Err(OperationError::InvalidPort);
        }
        self.parts()?.0.set_encapsulation(path, encapsulation)
    }
}
