//! Protocol parameters (RFC 6458, section 8.1).

use std::time::Duration;

use carrick_proto::{AssociationConfig, ParameterChanges};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::SocketId;
use crate::linux::*;
use crate::table::Socket;

use super::{asked_value, everything, flag, int_or_value, int_or_value_for, read_int};

/// Packets of a burst that nothing exceeds.
const NO_BURST_LIMIT: u32 = u16::MAX as u32;
/// Largest idle time of `SCTP_AUTOCLOSE` in seconds: what Linux has with a clock of 1000 Hz.
const MAX_AUTOCLOSE: u32 = i32::MAX as u32 / 1000;

/// Applies the values of `SCTP_INITMSG` that are not 0.
pub(crate) fn apply_init(config: &mut AssociationConfig, init: InitMsg) {
    if init.num_ostreams > 0 {
        config.streams.outbound_streams = init.num_ostreams;
    }
    if init.max_instreams > 0 {
        config.streams.max_inbound_streams = init.max_instreams;
    }
    if init.max_attempts > 0 {
        config.timers.max_init_retransmits = init.max_attempts.into();
    }
    if let Some(limit) = duration(init.max_init_timeo.into()) {
        config.timers.max_init_timeout = Some(limit);
    }
}

/// Returns a duration in milliseconds that is not 0.
pub(super) fn duration(millis: u32) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(millis.into()))
}

impl Sockets {
    /// `SCTP_INITMSG` (section 8.1.3)
    pub(super) fn set_initmsg(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let init = InitMsg::decode(value)?;
        self.change_future(id, |config| apply_init(config, init))
    }

    pub(super) fn get_initmsg(socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        InitMsg::read(buffer)?;
        let config = &socket.options.config;
        let narrow = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        let timers = &config.timers;
        let limit = timers.max_init_timeout.unwrap_or(timers.rto_max);
        let init = InitMsg {
            num_ostreams: config.streams.outbound_streams,
            max_instreams: config.streams.max_inbound_streams,
            max_attempts: narrow(config.timers.max_init_retransmits),
            max_init_timeo: narrow(millis(limit)),
        };
        Ok(init.encode())
    }

    /// `SCTP_RTOINFO` (section 8.1.1). Values of 0 stay as they are.
    pub(super) fn set_rtoinfo(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let info = RtoInfo::decode(value)?;
        let target = self.one_target(self.table.open(id)?, info.assoc_id)?;
        let mut changes = ParameterChanges::new();
        changes.rto_initial = duration(info.initial);
        changes.rto_min = duration(info.min);
        changes.rto_max = duration(info.max);
        self.change_parameters(id, &target, &changes)
    }

    pub(super) fn get_rtoinfo(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut info = RtoInfo::read(buffer)?;
        let association = self.source(socket, info.assoc_id)?;
        let timers = &self.config_of(socket, association).timers;
        info.initial = millis(timers.rto_initial);
        info.min = millis(timers.rto_min);
        info.max = millis(timers.rto_max);
        Ok(info.encode())
    }

    /// `SCTP_ASSOCINFO` (section 8.1.2). Values of 0 stay as they are. The cookie life
    /// of an existing association has no effect, and is reported.
    pub(super) fn set_associnfo(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let info = AssocParams::decode(value)?;
        let socket = self.table.open(id)?;
        let target = self.one_target(socket, info.assoc_id)?;
        for association in &target.associations {
            // As Linux: not more than all paths have together, if there are several.
            let (core, core_id) = self.core_ref(*association).ok_or(Errno::EINVAL)?;
            let limits = core.paths(core_id).map(|path| {
                let thresholds = core.path_thresholds(core_id, Some(path.id));
                thresholds.map_or(0, |t| t.path_max_retrans)
            });
            let (paths, sum) = limits.fold((0, 0_u32), |(n, sum), limit| {
                (n + 1, sum.saturating_add(limit))
            });
            if paths > 1 && u32::from(info.max_retrans) > sum {
                return Err(Errno::EINVAL);
            }
        }
        for association in &target.associations {
            if let Some(association) = self.associations.get_mut(*association)
                && info.cookie_life > 0
            {
                association.cookie_life = info.cookie_life;
            }
        }
        let mut changes = ParameterChanges::new();
        if info.max_retrans > 0 {
            changes.association_max_retrans = Some(info.max_retrans.into());
        }
        self.change_existing(&target, &changes)?;
        if !target.future {
            return Ok(());
        }
        self.change_future_by(id, &changes, |config| {
            if let Some(life) = duration(info.cookie_life) {
                config.timers.valid_cookie_life = life;
            }
        })
    }

    pub(super) fn get_associnfo(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut info = AssocParams::read(buffer)?;
        let association = self.source(socket, info.assoc_id)?;
        let config = self.config_of(socket, association);
        let max_retrans = config.paths.association_max_retrans;
        info.max_retrans = u16::try_from(max_retrans).unwrap_or(u16::MAX);
        let known = association.and_then(|id| self.associations.get(id));
        info.cookie_life = known.map_or(socket.options.cookie_life(), |a| a.cookie_life);
        info.peer_destinations = 0;
        info.peer_rwnd = 0;
        info.local_rwnd = 0;
        if let Some((core, core_id)) = association.and_then(|id| self.core_ref(id)) {
            info.peer_destinations = core.paths(core_id).count() as u16;
            if let Some(stats) = core.association_stats(core_id) {
                info.peer_rwnd = stats.peer_rwnd as u32;
                info.local_rwnd = stats.a_rwnd as u32;
            }
        }
        Ok(info.encode())
    }

    /// `SCTP_NODELAY` (section 8.1.5)
    pub(super) fn set_nodelay(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let nagle = !flag(value)?;
        let target = everything(self.table.open(id)?);
        let changes = ParameterChanges::new().nagle(nagle);
        self.change_parameters(id, &target, &changes)
    }

    /// `SCTP_MAXSEG` (section 8.1.16): the largest payload of a DATA chunk; 0 means as the path MTU allows.
    pub(super) fn set_maxseg(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let value = int_or_value(value)?;
        let target = self.one_target(self.table.open(id)?, value.assoc_id)?;
        if value.value > u32::from(u16::MAX) {
            return Err(Errno::EINVAL);
        }
        let size = (value.value > 0).then_some(value.value as usize);
        let changes = ParameterChanges::new().max_payload(size);
        self.change_parameters(id, &target, &changes)
    }

    pub(super) fn get_maxseg(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = asked_value(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let size = self.config_of(socket, association).mtu.max_payload;
        value.value = size.unwrap_or(0) as u32;
        Ok(int_or_value_for(buffer, value))
    }

    /// `SCTP_DISABLE_FRAGMENTS` (section 8.1.11)
    pub(super) fn set_disable_fragments(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        let fragment = !flag(value)?;
        let target = everything(self.table.open(id)?);
        let changes = ParameterChanges::new().fragment(fragment);
        self.change_parameters(id, &target, &changes)
    }

    /// `SCTP_DELAYED_SACK` (section 8.1.19); with the struct of a value, the delay alone. Values of 0 stay
    /// as they are.
    pub(super) fn set_delayed_sack(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let info = if value.len() == AssocValue::SIZE {
            let value = AssocValue::decode(value)?;
            let timers = &self.table.open(id)?.options.config.timers;
            let frequency = match value.value {
                0 => 1,
                // A delay turns delayed SACKs on.
                _ if timers.sack_frequency == 1 => 2,
                _ => 0,
            };
            SackInfo {
                assoc_id: value.assoc_id,
                delay: value.value,
                frequency,
            }
        } else {
            SackInfo::decode(value)?
        };
        let target = self.target(self.table.open(id)?, info.assoc_id)?;
        let mut changes = ParameterChanges::new();
        changes.sack_delay = duration(info.delay);
        changes.sack_frequency = Some(info.frequency).filter(|frequency| *frequency > 0);
        self.change_parameters(id, &target, &changes)
    }

    pub(super) fn get_delayed_sack(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut id = AssocValue::read(buffer)?;
        let association = self.source(socket, id.assoc_id)?;
        let timers = &self.config_of(socket, association).timers;
        let is_delayed = timers.sack_frequency > 1;
        id.value = if is_delayed {
            millis(timers.sack_delay)
        } else {
            0
        };
        if buffer.len() < SackInfo::SIZE {
            return Ok(id.encode());
        }
        let info = SackInfo {
            assoc_id: id.assoc_id,
            delay: id.value,
            frequency: timers.sack_frequency,
        };
        Ok(info.encode())
    }

    /// `SCTP_MAX_BURST` (section 8.1.24); 0 means no limit.
    pub(super) fn set_max_burst(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let value = int_or_value(value)?;
        let target = self.target(self.table.open(id)?, value.assoc_id)?;
        let packets = if value.value == 0 {
            NO_BURST_LIMIT
        } else {
            value.value
        };
        let changes = ParameterChanges::new().max_burst(packets);
        self.change_parameters(id, &target, &changes)
    }

    pub(super) fn get_max_burst(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = asked_value(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let packets = self.config_of(socket, association).transmission.max_burst;
        value.value = if packets == NO_BURST_LIMIT {
            0
        } else {
            packets
        };
        Ok(int_or_value_for(buffer, value))
    }

    /// `SCTP_ADAPTATION_LAYER` (section 8.1.10)
    pub(super) fn set_adaptation_layer(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        let indication = read_int(value)? as u32;
        self.change_future(id, |config| config.adaptation_layer = Some(indication))
    }

    /// `SCTP_AUTOCLOSE` (section 8.1.8); seconds, for future associations.
    pub(super) fn set_autoclose(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let socket = self.table.open_mut(id)?;
        if socket.is_one_to_one() {
            return Err(Errno::EOPNOTSUPP);
        }
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        // Negative times are large ones, as in Linux.
        socket.options.autoclose = (read_int(value)? as u32).min(MAX_AUTOCLOSE);
        Ok(())
    }

    /// `SCTP_FRAGMENT_INTERLEAVE` (section 8.1.20), a boolean in Linux. Off ends interleaving, too.
    pub(super) fn set_fragment_interleave(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        let on = flag(value)?;
        self.table.open_mut(id)?.options.fragment_interleave = on;
        if on {
            return Ok(());
        }
        self.change_future(id, |config| config.extensions.interleaving = false)
    }

    /// `SCTP_PARTIAL_DELIVERY_POINT` (section 8.1.21), at most half of the receive buffer as in Linux.
    pub(super) fn set_partial_delivery_point(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        let point = u32::try_from(read_int(value)?).map_err(|_| Errno::EINVAL)?;
        let options = &mut self.table.open_mut(id)?.options;
        if point as usize > options.receive_buffer() / 2 {
            return Err(Errno::EINVAL);
        }
        options.partial_delivery_point = point;
        Ok(())
    }

    /// `SCTP_REUSE_PORT` (section 8.1.27)
    pub(super) fn set_sctp_reuse_port(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let socket = self.table.open_mut(id)?;
        if !socket.is_one_to_one() {
            return Err(Errno::EOPNOTSUPP);
        }
        if socket.port.is_some() {
            return Err(Errno::EFAULT);
        }
        socket.options.sctp_reuse_port = flag(value)?;
        Ok(())
    }
}
