//! Options of peer addresses (RFC 6458, sections 8.1.9, 8.1.12 and 8.3.1; RFC 7829, section 7; RFC 6951, section
//! 6.1).

use std::time::Duration;

use carrick_proto::{
    AssociationConfig, Endpoint, OperationError, ParameterChanges, PathId, PathMtuDiscovery,
    PathStats, PathThresholds,
};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::settings::SCTP_PF_EXPOSE_ENABLE;
use crate::table::Socket;

use super::OptionScope;
use super::parameters::duration;

/// Smallest interval of probes of Linux in milliseconds.
const MIN_PROBE_INTERVAL: u32 = 5000;

fn operation(error: OperationError) -> Errno {
    match error {
        OperationError::UnknownAssociation => Errno::ENOTCONN,
        _ => Errno::EINVAL,
    }
}

impl Sockets {
    /// Returns the path that an address of an option means; `None` for all paths.
    pub(super) fn path(
        &self,
        socket: &Socket,
        association: AssocId,
        address: Storage,
    ) -> Result<Option<PathStats>, Errno> {
        let Some(given) = address.0.filter(|_| address.ip().is_some()) else {
            return Ok(None);
        };
        let ip = socket.canonical(given)?;
        let (core, core_id) = self.core_ref(association).ok_or(Errno::EINVAL)?;
        let path = core.paths(core_id).find(|path| path.remote == ip);
        path.map(Some).ok_or(Errno::EINVAL)
    }

    /// Returns the association of an option that needs one: that with the address, if there is one, which an
    /// identifier that exists must mean as well. As on Linux, an unknown identifier has no effect then.
    pub(super) fn required(
        &self,
        socket: &Socket,
        id: i32,
        address: Storage,
    ) -> Result<AssocId, Errno> {
        let identified = self.association_of(socket, id);
        let Some(given) = address.0.filter(|_| address.ip().is_some()) else {
            return identified.ok_or(Errno::EINVAL);
        };
        let ip = socket.canonical(given)?;
        let found = self.find_by_peer(socket, ip, given.port());
        found
            .filter(|found| identified.is_none_or(|id| id == *found))
            .ok_or(Errno::EINVAL)
    }

    /// Refuses an identifier of `SCTP_PEER_ADDR_PARAMS` on a one-to-many socket that means no single association.
    fn check_identifier(&self, socket: &Socket, id: i32) -> Result<(), Errno> {
        let is_many = !socket.is_single();
        if is_many && id != SCTP_FUTURE_ASSOC && self.association_of(socket, id).is_none() {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Returns the targets and path of an option with an identifier and an address.
    fn path_target(
        &self,
        socket: &Socket,
        id: i32,
        address: Storage,
    ) -> Result<(OptionScope, Option<PathStats>), Errno> {
        if address.ip().is_none() {
            return Ok((self.one_target(socket, id)?, None));
        }
        let association = self.required(socket, id, address)?;
        let target = OptionScope {
            future: false,
            associations: vec![association],
        };
        Ok((target, self.path(socket, association, address)?))
    }

    /// Returns the association and path whose values `getsockopt` returns, by an identifier and an address; `None` for
    /// future associations, and for all paths.
    fn path_source(
        &self,
        socket: &Socket,
        id: i32,
        address: Storage,
    ) -> Result<(Option<AssocId>, Option<PathStats>), Errno> {
        if address.ip().is_none() {
            return Ok((self.source(socket, id)?, None));
        }
        let association = self.required(socket, id, address)?;
        Ok((Some(association), self.path(socket, association, address)?))
    }

    /// `SCTP_PEER_ADDR_PARAMS` (RFC 6458, section 8.1.12) in its lengths of 152 and 156 bytes. The SACK
    /// delay is that of all paths.
    pub(super) fn set_peer_addr_params(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        if ![PADDRPARAMS_OLD, PaddrParams::SIZE].contains(&value.len()) {
            return Err(Errno::EINVAL);
        }
        let mut bytes = value.to_vec();
        bytes.resize(PaddrParams::SIZE, 0);
        let params = PaddrParams::decode(&bytes)?;
        let flags = params.flags as i32;
        if value.len() == PADDRPARAMS_OLD && flags & (SPP_DSCP | SPP_IPV6_FLOWLABEL) != 0 {
            return Err(Errno::EINVAL);
        }
        // The six upper bits, as Linux stores it.
        let dscp = (flags & SPP_DSCP != 0).then_some(params.dscp & 0xfc);
        let both = |a: i32, b: i32| flags & a != 0 && flags & b != 0;
        if both(SPP_HB_ENABLE, SPP_HB_DISABLE)
            || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
            || both(SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE)
            || params.sack_delay > 500
        {
            return Err(Errno::EINVAL);
        }
        if flags & SPP_IPV6_FLOWLABEL != 0 {
            return Err(Errno::ENOPROTOOPT);
        }
        let socket = self.table.open(id)?;
        self.check_identifier(socket, params.assoc_id)?;
        let (target, path) = self.path_target(socket, params.assoc_id, params.address)?;
        if flags & SPP_HB_DEMAND != 0 && target.associations.is_empty() {
            return Err(Errno::EINVAL);
        }
        let interval = if flags & SPP_HB_TIME_IS_ZERO != 0 {
            Some(Duration::ZERO)
        } else {
            duration(params.hb_interval)
        };
        let mut changes = ParameterChanges::new();
        if path.is_none() {
            changes.hb_interval = interval;
            changes.dscp_v4 = dscp.map(|dscp| dscp >> 2);
            changes.dscp_v6 = changes.dscp_v4;
        }
        changes.sack_delay = duration(params.sack_delay);
        if flags & SPP_SACKDELAY_DISABLE != 0 {
            changes.sack_frequency = Some(1);
        } else if flags & SPP_SACKDELAY_ENABLE != 0 {
            changes.sack_frequency = Some(2);
        }
        if path.is_some() {
            self.check_common(&target, &changes)?;
        }
        for association in target.associations.clone() {
            if let (Some(path), Some(interval)) = (path, interval) {
                let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
                core.set_heartbeat_interval(now, core_id, path.id, interval)
                    .map_err(operation)?;
            }
            self.set_path_params(association, path.map(|p| p.id), &params)?;
            if let (Some(path), Some(dscp)) = (path, dscp) {
                let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
                core.set_dscp(now, core_id, path.id, dscp >> 2)
                    .map_err(operation)?;
            }
            if let Some(association) = self.associations.get_mut(association) {
                report_params(&mut association.discovers_mtu, &params);
                match (path, dscp) {
                    (_, None) => {}
                    (Some(path), Some(dscp)) => {
                        association.path_dscps.insert(path.id, dscp);
                    }
                    (None, Some(_)) => {
                        association.dscp = dscp;
                        association.path_dscps.clear();
                    }
                }
            }
        }
        if target.future {
            let options = &mut self.table.open_mut(id)?.options;
            report_params(&mut options.discovers_mtu, &params);
            options.dscp = dscp.or(options.dscp);
        }
        self.change_existing(&target, &changes)?;
        if !target.future {
            return Ok(());
        }
        self.change_future_by(id, &changes, |config| apply_path_params(config, &params))
    }

    /// Applies `IP_TOS` or `IPV6_TCLASS` to the packets of a socket, but not to those with a DSCP of
    /// `SCTP_PEER_ADDR_PARAMS`, as Linux does.
    pub(super) fn apply_traffic_class(
        &mut self,
        id: SocketId,
        (is_v4, class): (bool, u8),
    ) -> Result<(), Errno> {
        let now = self.now;
        let socket = self.table.open(id)?;
        let without_own =
            |id: &AssocId| self.associations.get(*id).is_some_and(|a| a.dscp.is_none());
        let all = socket.associations.iter().copied();
        let target = OptionScope {
            future: socket.options.dscp.is_none(),
            associations: all.filter(without_own).collect(),
        };
        let dscp = class >> 2;
        let mut changes = ParameterChanges::new();
        if is_v4 {
            changes.dscp_v4 = Some(dscp);
        } else {
            changes.dscp_v6 = Some(dscp);
        }
        self.change_parameters(id, &target, &changes)?;
        for id in target.associations {
            let Some(association) = self.associations.get(id) else {
                continue;
            };
            for (path, dscp) in association.path_dscps.clone() {
                if let Some((core, core_id)) = self.core_of(id) {
                    // The path may not exist any more.
                    let _ = core.set_dscp(now, core_id, path, dscp >> 2);
                }
            }
        }
        Ok(())
    }

    /// Refuses values of one path that the core has for an association alone, if it has several paths.
    fn check_common(&self, target: &OptionScope, changes: &ParameterChanges) -> Result<(), Errno> {
        for association in &target.associations {
            let Some((core, core_id)) = self.core_ref(*association) else {
                continue;
            };
            let config = core.association_config(core_id).ok_or(Errno::EINVAL)?;
            let same = changes
                .sack_delay
                .is_none_or(|d| d == config.timers.sack_delay)
                && changes
                    .sack_frequency
                    .is_none_or(|f| f == config.timers.sack_frequency);
            if !same && core.paths(core_id).count() > 1 {
                return Err(Errno::ENOPROTOOPT);
            }
        }
        Ok(())
    }

    fn set_path_params(
        &mut self,
        id: AssocId,
        only: Option<PathId>,
        params: &PaddrParams,
    ) -> Result<(), Errno> {
        let now = self.now;
        let flags = params.flags as i32;
        let (core, core_id) = self.core_of(id).ok_or(Errno::EINVAL)?;
        let paths = selected_paths(core, core_id, only);
        let heartbeat = match flags & (SPP_HB_ENABLE | SPP_HB_DISABLE) {
            0 => None,
            chosen => Some(chosen == SPP_HB_ENABLE),
        };
        if params.path_max_rxt > 0 {
            let old = core.path_thresholds(core_id, only).ok_or(Errno::EINVAL)?;
            let new = PathThresholds {
                path_max_retrans: params.path_max_rxt.into(),
                ..old
            };
            core.set_path_thresholds(now, core_id, only, new)
                .map_err(operation)?;
        }
        for path in &paths {
            if let Some(on) = heartbeat {
                core.set_heartbeat(now, core_id, *path, on)
                    .map_err(operation)?;
            }
            if flags & SPP_HB_DEMAND != 0 {
                core.request_heartbeat(now, core_id, *path)
                    .map_err(operation)?;
            }
            if flags & SPP_PMTUD_DISABLE != 0 && params.path_mtu > 0 {
                core.set_path_mtu(now, core_id, *path, params.path_mtu as usize)
                    .map_err(operation)?;
            }
        }
        if let (Some(on), Some(association)) = (heartbeat, self.associations.get_mut(id)) {
            association
                .heartbeats
                .extend(paths.iter().map(|path| (*path, on)));
        }
        self.settle_association(id);
        Ok(())
    }

    pub(super) fn get_peer_addr_params(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if buffer.len() < PADDRPARAMS_OLD {
            return Err(Errno::EINVAL);
        }
        let size = if buffer.len() < PaddrParams::SIZE {
            PADDRPARAMS_OLD
        } else {
            PaddrParams::SIZE
        };
        let mut bytes = buffer[..size].to_vec();
        bytes.resize(PaddrParams::SIZE, 0);
        let asked = PaddrParams::decode(&bytes)?;
        self.check_identifier(socket, asked.assoc_id)?;
        let (association, path) = self.path_source(socket, asked.assoc_id, asked.address)?;
        let config = self.config_of(socket, association);
        let known = association.and_then(|id| self.associations.get(id));
        let heartbeat = path
            .and_then(|path| known?.heartbeats.get(&path.id).copied())
            .unwrap_or(config.paths.heartbeat);
        let core = association.and_then(|id| self.core_ref(id));
        let thresholds =
            core.and_then(|(core, core_id)| core.path_thresholds(core_id, path.map(|p| p.id)));
        let interval = core
            .zip(path)
            .and_then(|((core, core_id), path)| core.heartbeat_interval(core_id, path.id));
        let max_retrans = thresholds.map_or(config.paths.path_max_retrans, |t| t.path_max_retrans);
        let mut flags = if heartbeat {
            SPP_HB_ENABLE
        } else {
            SPP_HB_DISABLE
        };
        let options = &socket.options;
        let discovers_mtu = known.map_or(options.discovers_mtu, |a| a.discovers_mtu);
        let of_path = path.and_then(|path| known?.path_dscps.get(&path.id).copied());
        let dscp = of_path.or(known.map_or(options.dscp, |a| a.dscp));
        if dscp.is_some() {
            flags |= SPP_DSCP;
        }
        flags |= if discovers_mtu {
            SPP_PMTUD_ENABLE
        } else {
            SPP_PMTUD_DISABLE
        };
        flags |= if config.timers.sack_frequency > 1 {
            SPP_SACKDELAY_ENABLE
        } else {
            SPP_SACKDELAY_DISABLE
        };
        let smallest = || {
            let (core, core_id) = self.core_ref(association?)?;
            core.paths(core_id).map(|path| path.mtu).min()
        };
        let mtu = path.map(|path| path.mtu).or_else(smallest);
        let params = PaddrParams {
            assoc_id: asked.assoc_id,
            address: asked.address,
            hb_interval: millis(interval.unwrap_or(config.paths.hb_interval)),
            path_max_rxt: u16::try_from(max_retrans).unwrap_or(u16::MAX),
            path_mtu: mtu.unwrap_or(0) as u32,
            sack_delay: millis(config.timers.sack_delay),
            flags: flags as u32,
            ipv6_flow_label: 0,
            dscp: dscp.unwrap_or(0),
        };
        let mut bytes = params.encode();
        bytes.truncate(size);
        Ok(bytes)
    }

    /// `SCTP_PEER_ADDR_THLDS` and `SCTP_PEER_ADDR_THLDS_V2` (RFC 7829, section 7.2)
    pub(super) fn set_thresholds(
        &mut self,
        id: SocketId,
        value: &[u8],
        is_v2: bool,
    ) -> Result<(), Errno> {
        let now = self.now;
        // Both structs have the same size; the fields of the second one are a superset.
        let given = PaddrThldsV2::read(value)?;
        if is_v2 && given.pf_threshold > given.switchover_threshold {
            return Err(Errno::EINVAL);
        }
        let socket = self.table.open(id)?;
        let (target, path) = self
            .path_target(socket, given.assoc_id, given.address)
            .map_err(|error| unknown_path(error, given.address))?;
        let changed = |old: PathThresholds| {
            let max = u32::from(given.path_max_rxt);
            let switchover = given.switchover_threshold;
            PathThresholds {
                path_max_retrans: if max > 0 { max } else { old.path_max_retrans },
                potentially_failed_max_retrans: threshold(given.pf_threshold),
                primary_switchover_max_retrans: if is_v2 {
                    threshold(switchover)
                } else {
                    old.primary_switchover_max_retrans
                },
            }
        };
        let path = path.map(|path| path.id);
        self.perform(&target, |core, core_id| {
            let old = core.path_thresholds(core_id, path).ok_or(Errno::EINVAL)?;
            let changed = core.set_path_thresholds(now, core_id, path, changed(old));
            changed.map_err(operation)
        })?;
        if !target.future {
            return Ok(());
        }
        self.change_future(id, |config| {
            let new = changed(thresholds_of(config));
            config.paths.path_max_retrans = new.path_max_retrans;
            config.paths.potentially_failed_max_retrans = new.potentially_failed_max_retrans;
            config.paths.primary_switchover_max_retrans = new.primary_switchover_max_retrans;
        })
    }

    pub(super) fn get_thresholds(
        &self,
        socket: &Socket,
        buffer: &[u8],
        is_v2: bool,
    ) -> Result<Vec<u8>, Errno> {
        let mut asked = PaddrThldsV2::read(buffer)?;
        let (association, path) = self
            .path_source(socket, asked.assoc_id, asked.address)
            .map_err(|error| unknown_path(error, asked.address))?;
        let of_association = association
            .and_then(|id| self.core_ref(id))
            .and_then(|(core, core_id)| core.path_thresholds(core_id, path.map(|p| p.id)));
        let thresholds = of_association.unwrap_or_else(|| thresholds_of(&socket.options.config));
        let narrow = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        asked.path_max_rxt = narrow(thresholds.path_max_retrans);
        asked.pf_threshold = thresholds
            .potentially_failed_max_retrans
            .map_or(u16::MAX, narrow);
        asked.switchover_threshold = match thresholds.primary_switchover_max_retrans {
            Some(limit) if is_v2 => narrow(limit),
            None if is_v2 => u16::MAX,
            _ => 0,
        };
        Ok(asked.encode())
    }

    /// `SCTP_EXPOSE_POTENTIALLY_FAILED_STATE` (RFC 7829, section 7.3): 0 and 1 hide the state, 2 exposes it.
    pub(super) fn set_expose_pf(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let value = AssocValue::decode(value)?;
        if value.value > 2 {
            return Err(Errno::EINVAL);
        }
        let expose = value.value == SCTP_PF_EXPOSE_ENABLE;
        let target = self.target(self.table.open(id)?, value.assoc_id)?;
        for association in target.associations {
            let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
            core.set_expose_potentially_failed(now, core_id, expose)
                .map_err(operation)?;
            if let Some(association) = self.associations.get_mut(association) {
                association.exposed_pf = value.value;
            }
        }
        if !target.future {
            return Ok(());
        }
        self.table.open_mut(id)?.options.exposed_pf = value.value;
        self.change_future(id, |config| config.paths.expose_potentially_failed = expose)
    }

    pub(super) fn get_expose_pf(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = AssocValue::read(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let known = association.and_then(|id| self.associations.get(id));
        value.value = known.map_or(socket.options.exposed_pf, |a| a.exposed_pf);
        Ok(value.encode())
    }

    /// `SCTP_PRIMARY_ADDR` (RFC 6458, section 8.1.9)
    pub(super) fn set_primary_addr(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let prim = Prim::decode(value)?;
        let socket = self.table.open(id)?;
        let association = self.required(socket, prim.assoc_id, prim.address)?;
        let path = self.path(socket, association, prim.address)?;
        let path = path.ok_or(Errno::EINVAL)?.id;
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let before = core.association_stats(core_id).and_then(|s| s.current);
        core.set_primary(now, core_id, path).map_err(operation)?;
        self.refresh_peer(association);
        if before != Some(path) {
            self.notify_path(association, path, SCTP_ADDR_MADE_PRIM);
        }
        self.settle_association(association);
        Ok(())
    }

    pub(super) fn get_primary_addr(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let asked = super::read_int(buffer)?;
        if buffer.len() < Prim::SIZE {
            return Err(Errno::EINVAL);
        }
        let association = self.association_of(socket, asked).ok_or(Errno::EINVAL)?;
        let association = self.associations.get(association).ok_or(Errno::EINVAL)?;
        let prim = Prim {
            assoc_id: asked,
            address: socket.present(association.peer).into(),
        };
        Ok(prim.encode())
    }

    /// `SCTP_SET_PEER_PRIMARY_ADDR` (RFC 6458, section 8.3.1)
    pub(super) fn set_peer_primary_addr(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        let now = self.now;
        let prim = SetPeerPrim::decode(value)?;
        let socket = self.table.open(id)?;
        let association = self
            .association_of(socket, prim.assoc_id)
            .ok_or(Errno::EINVAL)?;
        let ip = socket.canonical(prim.address.0.ok_or(Errno::EINVAL)?)?;
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let result = core.set_peer_primary(now, core_id, ip);
        self.settle_association(association);
        result.map_err(|error| match error {
            OperationError::UnknownAddress => Errno::EADDRNOTAVAIL,
            OperationError::WrongState => Errno::EPERM,
            other => operation(other),
        })
    }

    /// `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951, section 6.1). Port 0 means plain IP, or the default port of a host
    /// without it.
    pub(super) fn set_encapsulation(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let given = UdpEncaps::decode(value)?;
        let port = u16::from_be(given.port);
        let port = match port {
            0 if self.config.has_plain_ip => None,
            0 => self.config.encapsulation,
            port => Some(port),
        };
        let socket = self.table.open(id)?;
        let (target, path) = self.path_target(socket, given.assoc_id, given.address)?;
        let only = path.map(|path| path.id);
        self.perform(&target, |core, core_id| {
            for path in selected_paths(core, core_id, only) {
                core.set_encapsulation(now, core_id, path, port)
                    .map_err(operation)?;
            }
            Ok(())
        })?;
        if target.future {
            self.table.open_mut(id)?.options.encapsulation = port;
        }
        Ok(())
    }

    pub(super) fn get_encapsulation(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut asked = UdpEncaps::read(buffer)?;
        let (association, path) = self.path_source(socket, asked.assoc_id, asked.address)?;
        let port = match (path, association) {
            (Some(path), _) => path.encapsulation,
            (None, Some(id)) => self.current_path(id).and_then(|path| path.encapsulation),
            (None, None) => socket.options.encapsulation,
        };
        asked.port = port.unwrap_or(0).to_be();
        Ok(asked.encode())
    }

    /// `SCTP_PLPMTUD_PROBE_INTERVAL` of Linux: `PROBE_TIMER` of RFC 8899 in milliseconds, 0 without probes. Of future
    /// associations: the core reads it at set-up.
    pub(super) fn set_probe_interval(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let given = ProbeInterval::decode(value)?;
        if (1..MIN_PROBE_INTERVAL).contains(&given.interval) {
            return Err(Errno::EINVAL);
        }
        let socket = self.table.open(id)?;
        let (target, _) = self.path_target(socket, given.assoc_id, given.address)?;
        if !target.associations.is_empty() {
            return Err(Errno::ENOPROTOOPT);
        }
        let interval = duration(given.interval);
        self.change_future(id, |config| {
            config.mtu.path_mtu_discovery = interval.map(|probe_timer| PathMtuDiscovery {
                probe_timer,
                ..config.mtu.path_mtu_discovery.unwrap_or_default()
            });
        })
    }

    pub(super) fn get_probe_interval(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut asked = ProbeInterval::read(buffer)?;
        let (association, _) = self.path_source(socket, asked.assoc_id, asked.address)?;
        let mtu = &self.config_of(socket, association).mtu;
        let timer = mtu.path_mtu_discovery.map(|probes| probes.probe_timer);
        asked.interval = timer.map_or(0, millis);
        Ok(asked.encode())
    }
}

/// Stores the parameter that is reported.
fn report_params(discovers_mtu: &mut bool, params: &PaddrParams) {
    let flags = params.flags as i32;
    if flags & (SPP_PMTUD_ENABLE | SPP_PMTUD_DISABLE) != 0 {
        *discovers_mtu = flags & SPP_PMTUD_ENABLE != 0;
    }
}

/// Returns the path that an option names, or all paths of an association.
fn selected_paths(
    core: &Endpoint,
    core_id: carrick_proto::AssociationId,
    only: Option<PathId>,
) -> Vec<PathId> {
    let all = core.paths(core_id).map(|path| path.id);
    all.filter(|path| only.is_none_or(|only| only == *path))
        .collect()
}

/// Applies the parameters of all paths that existing associations have for each path to future associations.
fn apply_path_params(config: &mut AssociationConfig, params: &PaddrParams) {
    let flags = params.flags as i32;
    let paths = &mut config.paths;
    if flags & (SPP_HB_ENABLE | SPP_HB_DISABLE) != 0 {
        paths.heartbeat = flags & SPP_HB_ENABLE != 0;
    }
    if params.path_max_rxt > 0 {
        paths.path_max_retrans = params.path_max_rxt.into();
    }
    if flags & SPP_PMTUD_DISABLE != 0 {
        config.mtu.path_mtu_discovery = None;
        if params.path_mtu > 0 {
            config.mtu.path_mtu = params.path_mtu as usize;
        }
    }
}

/// Returns the error of thresholds for an address that no association has: `ENOENT`, as in Linux.
fn unknown_path(error: Errno, address: Storage) -> Errno {
    match address.ip() {
        Some(_) => Errno::ENOENT,
        None => error,
    }
}

/// Returns a threshold of RFC 7829, which Linux turns off with the largest value.
fn threshold(value: u16) -> Option<u32> {
    (value != u16::MAX).then_some(value.into())
}

fn thresholds_of(config: &AssociationConfig) -> PathThresholds {
    PathThresholds {
        path_max_retrans: config.paths.path_max_retrans,
        potentially_failed_max_retrans: config.paths.potentially_failed_max_retrans,
        primary_switchover_max_retrans: config.paths.primary_switchover_max_retrans,
    }
}
