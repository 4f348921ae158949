//! Protocol parameters (RFC 6458, section 8.1).

use std::time::Duration;

use carrick_proto::{AssociationConfig, ParameterChanges};

use super::scope::{OptionView, ScopeRule, change_with, set_future};
use super::table::{self, Exactly4, Get, IntOrValue, Raw, Set, SetValue, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::AssociationRef;
use crate::ids::SocketId;
use crate::linux::*;
use crate::table::Socket;

/// Packets of a burst that nothing exceeds.
const NO_BURST_LIMIT: u32 = u16::MAX as u32;
/// Largest idle time of `SCTP_AUTOCLOSE` in seconds: what Linux has with a clock of 1000 Hz.
const MAX_AUTOCLOSE: u32 = i32::MAX as u32 / 1000;

options! {
    [IPPROTO_SCTP]
    SCTP_INITMSG, NONE, InitMsg, [future set_initmsg], [value initmsg];
    SCTP_RTOINFO, ID, RtoInfo, [changes(One) rtoinfo_changes], [value rtoinfo];
    SCTP_ASSOCINFO, ID, AssocParams, [operation set_associnfo], [value associnfo];
    SCTP_NODELAY, NONE, bool, [changes(Everything) |_, on| Ok((0, ParameterChanges::new().nagle(!on)))],
        [int |s| !s.options().config.transmission.nagle];
    SCTP_MAXSEG, ID, IntOrValue, [changes(One) maxseg_changes],
        [int_or_number |view, a| view.parameters(a).mtu.max_payload.unwrap_or(0) as u32];
    SCTP_DISABLE_FRAGMENTS, NONE, bool, [changes(Everything) |_, on| Ok((0, ParameterChanges::new().fragment(!on)))],
        [int |s| !s.options().config.mtu.fragment];
    SCTP_DELAYED_SACK, ID, Raw, [changes(Any) delayed_sack_changes], [bytes delayed_sack];
    SCTP_MAX_BURST, ID, IntOrValue, [changes(Any) max_burst_changes], [int_or_number max_burst];
    SCTP_ADAPTATION_LAYER, NONE, Exactly4<i32>, [future set_adaptation_layer],
        [int |s| s.options().config.adaptation_layer.unwrap_or(0) as i32];
    SCTP_AUTOCLOSE, NONE, Raw, [socket set_autoclose], [bytes autoclose];
    SCTP_FRAGMENT_INTERLEAVE, NONE, Exactly4<bool>, [operation set_fragment_interleave],
        [int |s| s.options().fragment_interleave];
    SCTP_PARTIAL_DELIVERY_POINT, NONE, Exactly4<i32>, [socket set_partial_delivery_point],
        [int |s| s.options().partial_delivery_point as i32];
    SCTP_I_WANT_MAPPED_V4_ADDR, NONE, bool, [options |o, on| o.mapped_v4 = on], [int |s| s.options().mapped_v4];
    SCTP_REUSE_PORT, NONE, Raw, [socket set_reuse_port], [int |s| s.options().sctp_reuse_port];
}

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

/// Returns a value for a field of 16 bits.
pub(super) fn narrow(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// `SCTP_INITMSG` (section 8.1.3)
fn set_initmsg(
    _: &OptionView<'_>,
    config: &mut AssociationConfig,
    init: InitMsg,
) -> Result<(), Errno> {
    apply_init(config, init);
    Ok(())
}

fn initmsg(view: &OptionView<'_>, init: &mut InitMsg) -> Result<(), Errno> {
    let AssociationConfig {
        timers, streams, ..
    } = &view.socket.options().config;
    let limit = timers.max_init_timeout.unwrap_or(timers.rto_max);
    *init = InitMsg {
        num_ostreams: streams.outbound_streams,
        max_instreams: streams.max_inbound_streams,
        max_attempts: narrow(timers.max_init_retransmits),
        max_init_timeo: narrow(millis(limit)),
    };
    Ok(())
}

/// `SCTP_RTOINFO` (section 8.1.1). Values of 0 stay as they are.
fn rtoinfo_changes(_: &OptionView<'_>, info: RtoInfo) -> Result<(i32, ParameterChanges), Errno> {
    let mut changes = ParameterChanges::new();
    changes.rto_initial = duration(info.initial);
    changes.rto_min = duration(info.min);
    changes.rto_max = duration(info.max);
    Ok((info.assoc_id, changes))
}

fn rtoinfo(view: &OptionView<'_>, info: &mut RtoInfo) -> Result<(), Errno> {
    let timers = &view.parameters(view.source(info.assoc_id)?).timers;
    info.initial = millis(timers.rto_initial);
    info.min = millis(timers.rto_min);
    info.max = millis(timers.rto_max);
    Ok(())
}

/// `SCTP_ASSOCINFO` (section 8.1.2). Values of 0 stay as they are. The cookie life
/// of an existing association has no effect, and is reported.
fn set_associnfo(host: &mut Sockets, id: SocketId, info: AssocParams) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let scope = view.scope(ScopeRule::One, info.assoc_id)?;
    for association in &scope.associations {
        // As Linux: not more than all paths have together, if there are several.
        let association = view.associations.get(*association).ok_or(Errno::EINVAL)?;
        let limits = association.paths().map(|path| {
            let core = association.in_core();
            let thresholds = core.and_then(|a| a.path_thresholds(Some(path.id)));
            thresholds.map_or(0, |t| t.path_max_retrans)
        });
        let (paths, sum) = limits.fold((0, 0_u32), |(n, sum), limit| {
            (n + 1, sum.saturating_add(limit))
        });
        if paths > 1 && u32::from(info.max_retrans) > sum {
            return Err(Errno::EINVAL);
        }
    }
    for association in &scope.associations {
        if let Some(association) = host.associations.get_mut(*association)
            && info.cookie_life > 0
        {
            association.cookie_life = info.cookie_life;
        }
    }
    let mut changes = ParameterChanges::new();
    if info.max_retrans > 0 {
        changes.association_max_retrans = Some(info.max_retrans.into());
    }
    change_with(host, id, &scope, &changes, |config| {
        if let Some(life) = duration(info.cookie_life) {
            config.timers.valid_cookie_life = life;
        }
    })
}

fn associnfo(view: &OptionView<'_>, info: &mut AssocParams) -> Result<(), Errno> {
    let association = view.source(info.assoc_id)?;
    let of_socket = view.socket.options().cookie_life();
    let stats = association.and_then(|association| association.stats());
    let max_retrans = view.parameters(association).paths.association_max_retrans;
    *info = AssocParams {
        assoc_id: info.assoc_id,
        max_retrans: narrow(max_retrans),
        peer_destinations: association.map_or(0, |a| a.paths().count() as u16),
        peer_rwnd: stats.as_ref().map_or(0, |stats| stats.peer_rwnd as u32),
        local_rwnd: stats.as_ref().map_or(0, |stats| stats.a_rwnd as u32),
        cookie_life: association.map_or(of_socket, |a| a.own.cookie_life),
    };
    Ok(())
}

/// `SCTP_MAXSEG` (section 8.1.16): the largest payload of a DATA chunk; 0 means as the path MTU allows.
fn maxseg_changes(_: &OptionView<'_>, given: AssocValue) -> Result<(i32, ParameterChanges), Errno> {
    if given.value > u32::from(u16::MAX) {
        return Err(Errno::EINVAL);
    }
    let size = (given.value > 0).then_some(given.value as usize);
    Ok((given.assoc_id, ParameterChanges::new().max_payload(size)))
}

/// `SCTP_DELAYED_SACK` (section 8.1.19); with the struct of a value, the delay alone. Values of 0 stay
/// as they are.
fn delayed_sack_changes(
    view: &OptionView<'_>,
    value: &[u8],
) -> Result<(i32, ParameterChanges), Errno> {
    let info = if value.len() == AssocValue::SIZE {
        let value = AssocValue::decode(value)?;
        let frequency = match value.value {
            0 => 1,
            // A delay turns delayed SACKs on.
            _ if view.socket.options().config.timers.sack_frequency == 1 => 2,
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
    let mut changes = ParameterChanges::new();
    changes.sack_delay = duration(info.delay);
    changes.sack_frequency = Some(info.frequency).filter(|frequency| *frequency > 0);
    Ok((info.assoc_id, changes))
}

fn delayed_sack(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut id = AssocValue::read(buffer)?;
    let timers = &view.parameters(view.source(id.assoc_id)?).timers;
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
fn max_burst_changes(
    _: &OptionView<'_>,
    given: AssocValue,
) -> Result<(i32, ParameterChanges), Errno> {
    let packets = match given.value {
        0 => NO_BURST_LIMIT,
        packets => packets,
    };
    Ok((given.assoc_id, ParameterChanges::new().max_burst(packets)))
}

fn max_burst<'a>(view: &OptionView<'a>, association: Option<AssociationRef<'a>>) -> u32 {
    match view.parameters(association).transmission.max_burst {
        NO_BURST_LIMIT => 0,
        packets => packets,
    }
}

/// `SCTP_ADAPTATION_LAYER` (section 8.1.10)
fn set_adaptation_layer(
    _: &OptionView<'_>,
    config: &mut AssociationConfig,
    indication: i32,
) -> Result<(), Errno> {
    config.adaptation_layer = Some(indication as u32);
    Ok(())
}

/// `SCTP_AUTOCLOSE` (section 8.1.8); seconds, for future associations.
fn set_autoclose(socket: &mut Socket, value: &[u8]) -> Result<(), Errno> {
    if socket.is_one_to_one() {
        return Err(Errno::EOPNOTSUPP);
    }
    // Negative times are large ones, as in Linux.
    let seconds = <Exactly4<i32>>::parse(value)? as u32;
    socket.options_mut().autoclose = seconds.min(MAX_AUTOCLOSE);
    Ok(())
}

fn autoclose(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    if view.socket.is_one_to_one() {
        return Err(Errno::EOPNOTSUPP);
    }
    table::int(buffer, view.socket.options().autoclose as i32)
}

/// `SCTP_FRAGMENT_INTERLEAVE` (section 8.1.20), a boolean in Linux. Off ends interleaving, too.
fn set_fragment_interleave(host: &mut Sockets, id: SocketId, on: bool) -> Result<(), Errno> {
    let options = host.table.open_mut(id)?.options_mut();
    options.fragment_interleave = on;
    if on {
        return Ok(());
    }
    let mut config = options.config.clone();
    config.extensions.interleaving = false;
    set_future(host, id, &ParameterChanges::new(), &config)
}

/// `SCTP_PARTIAL_DELIVERY_POINT` (section 8.1.21), at most half of the receive buffer as in Linux.
fn set_partial_delivery_point(socket: &mut Socket, point: i32) -> Result<(), Errno> {
    let point = u32::try_from(point).map_err(|_| Errno::EINVAL)?;
    if point as usize > socket.options().receive_buffer() / 2 {
        return Err(Errno::EINVAL);
    }
    socket.options_mut().partial_delivery_point = point;
    Ok(())
}

/// `SCTP_REUSE_PORT` (section 8.1.27)
fn set_reuse_port(socket: &mut Socket, value: &[u8]) -> Result<(), Errno> {
    if !socket.is_one_to_one() {
        return Err(Errno::EOPNOTSUPP);
    }
    if socket.port().is_some() {
        return Err(Errno::EFAULT);
    }
    socket.options_mut().sctp_reuse_port = bool::parse(value)?;
    Ok(())
}
