//! Options of peer addresses (RFC 6458, sections 8.1.9, 8.1.12 and 8.3.1; RFC 7829, section 7; RFC 6951, section
//! 6.1).

use std::time::Duration;

use carrick_proto::{
    AssociationConfig, OperationError, ParameterChanges, PathId, PathMtuDiscovery, PathStats,
    PathThresholds,
};

use super::parameters::{duration, narrow};
use super::scope::{
    OptionScope, OptionView, ScopeRule, change_future, change_with, perform, scope,
};
use super::table::{self, AtLeast, Get, Raw, Set, SetValue, options};
use crate::errno::Errno;
use crate::host::associations::{AssociationMut, association_mut, with_association};
use crate::host::events::{notify_path, refresh_peer};
use crate::host::{Sockets, settle_association};
use crate::ids::SocketId;
use crate::linux::*;
use crate::settings::SCTP_PF_EXPOSE_ENABLE;

/// Smallest interval of probes of Linux in milliseconds.
const MIN_PROBE_INTERVAL: u32 = 5000;

options! {
    [IPPROTO_SCTP]
    SCTP_PEER_ADDR_PARAMS, id_and_address(4), Raw, [operation set_peer_addr_params], [bytes peer_addr_params];
    SCTP_PEER_ADDR_THLDS, id_and_address(8), AtLeast<PaddrThldsV2>,
        [operation |s, id, given| set_thresholds(s, id, given, false)],
        [value |view, asked| thresholds(view, asked, false)];
    SCTP_PEER_ADDR_THLDS_V2, id_and_address(8), AtLeast<PaddrThldsV2>,
        [operation |s, id, given| set_thresholds(s, id, given, true)],
        [value |view, asked| thresholds(view, asked, true)];
    SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, ID, AssocValue, [operation set_expose_pf],
        [number |view, a| a.map_or(view.socket.options().exposed_pf, |a| a.own.exposed_pf)];
    SCTP_PRIMARY_ADDR, ID, Prim, [operation set_primary_addr], [bytes primary_addr];
    SCTP_SET_PEER_PRIMARY_ADDR, NONE, SetPeerPrim, [operation set_peer_primary_addr], [none];
    SCTP_REMOTE_UDP_ENCAPS_PORT, id_and_address(8), UdpEncaps, [operation set_encapsulation], [value encapsulation];
    SCTP_PLPMTUD_PROBE_INTERVAL, id_and_address(8), ProbeInterval, [future set_probe_interval], [value probe_interval];
}

/// Changes an association in the core.
fn change(
    a: &mut AssociationMut<'_>,
    operation: impl FnOnce(&mut carrick_proto::AssociationMut<'_>) -> Result<(), OperationError>,
) -> Result<(), Errno> {
    let mut core = a.in_core().ok_or(Errno::ENOTCONN)?;
    operation(&mut core).map_err(|_| Errno::EINVAL)
}

/// Refuses an identifier of `SCTP_PEER_ADDR_PARAMS` on a one-to-many socket that means no single association.
fn check_identifier(view: &OptionView<'_>, id: i32) -> Result<(), Errno> {
    if view.socket.is_single() || id == SCTP_FUTURE_ASSOC {
        return Ok(());
    }
    view.association(id).map(|_| ())
}

/// Reads `SCTP_PEER_ADDR_PARAMS` of `setsockopt` in its lengths of 152 and 156 bytes.
fn read_peer_addr_params(value: &[u8]) -> Result<PaddrParams, Errno> {
    if ![PADDRPARAMS_OLD, PaddrParams::SIZE].contains(&value.len()) {
        return Err(Errno::EINVAL);
    }
    let mut bytes = value.to_vec();
    bytes.resize(PaddrParams::SIZE, 0);
    let params = PaddrParams::decode(&bytes)?;
    let both = |a: i32, b: i32| params.has(a) && params.has(b);
    if value.len() == PADDRPARAMS_OLD && params.has(SPP_DSCP | SPP_IPV6_FLOWLABEL)
        || both(SPP_HB_ENABLE, SPP_HB_DISABLE)
        || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
        || both(SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE)
        || params.sack_delay > 500
    {
        return Err(Errno::EINVAL);
    }
    if params.has(SPP_IPV6_FLOWLABEL) {
        return Err(Errno::ENOPROTOOPT);
    }
    Ok(params)
}

impl PaddrParams {
    fn has(&self, flags: i32) -> bool {
        self.flags as i32 & flags != 0
    }

    /// Returns the DSCP in the six upper bits, as Linux stores it.
    fn dscp(&self) -> Option<u8> {
        self.has(SPP_DSCP).then_some(self.dscp & 0xfc)
    }

    fn interval(&self) -> Option<Duration> {
        if self.has(SPP_HB_TIME_IS_ZERO) {
            return Some(Duration::ZERO);
        }
        duration(self.hb_interval)
    }

    fn heartbeat(&self) -> Option<bool> {
        let chosen = self.has(SPP_HB_ENABLE | SPP_HB_DISABLE);
        chosen.then(|| self.has(SPP_HB_ENABLE))
    }

    /// Returns the changes that an association has for all paths. The SACK delay is that of all paths.
    fn changes(&self, of_all_paths: bool) -> ParameterChanges {
        let mut changes = ParameterChanges::new();
        if of_all_paths {
            changes.hb_interval = self.interval();
            changes.dscp_v4 = self.dscp().map(|dscp| dscp >> 2);
            changes.dscp_v6 = changes.dscp_v4;
        }
        changes.sack_delay = duration(self.sack_delay);
        if self.has(SPP_SACKDELAY_DISABLE) {
            changes.sack_frequency = Some(1);
        } else if self.has(SPP_SACKDELAY_ENABLE) {
            changes.sack_frequency = Some(2);
        }
        changes
    }

    /// Stores the parameter that is reported.
    fn report(&self, discovers_mtu: &mut bool) {
        if self.has(SPP_PMTUD_ENABLE | SPP_PMTUD_DISABLE) {
            *discovers_mtu = self.has(SPP_PMTUD_ENABLE);
        }
    }

    /// Applies the parameters that existing associations have for each path to future associations.
    fn apply(&self, config: &mut AssociationConfig) {
        if let Some(on) = self.heartbeat() {
            config.paths.heartbeat = on;
        }
        if self.path_max_rxt > 0 {
            config.paths.path_max_retrans = self.path_max_rxt.into();
        }
        if self.has(SPP_PMTUD_DISABLE) {
            config.mtu.path_mtu_discovery = None;
            if self.path_mtu > 0 {
                config.mtu.path_mtu = self.path_mtu as usize;
            }
        }
    }
}

/// `SCTP_PEER_ADDR_PARAMS` (RFC 6458, section 8.1.12)
fn set_peer_addr_params(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let params = read_peer_addr_params(value)?;
    let view = OptionView::new(host, id)?;
    check_identifier(&view, params.assoc_id)?;
    let (scope, path) = view.path_scope(params.assoc_id, params.address)?;
    if params.has(SPP_HB_DEMAND) && scope.associations.is_empty() {
        return Err(Errno::EINVAL);
    }
    let changes = params.changes(path.is_none());
    if path.is_some() {
        check_common(&view, &scope, &changes)?;
    }
    let path = path.map(|path| path.id);
    perform(host, &scope, |a| set_path_params(a, path, &params))?;
    if scope.future {
        let options = host.table.open_mut(id)?.options_mut();
        params.report(&mut options.discovers_mtu);
        options.dscp = params.dscp().or(options.dscp);
    }
    change_with(host, id, &scope, &changes, |config| params.apply(config))
}

/// Refuses values of one path that the core has for an association alone, if it has several paths.
fn check_common(
    view: &OptionView<'_>,
    scope: &OptionScope,
    changes: &ParameterChanges,
) -> Result<(), Errno> {
    for id in &scope.associations {
        let Some(association) = view.associations.get(*id) else {
            continue;
        };
        let timers = &association.config().ok_or(Errno::EINVAL)?.timers;
        let (delay, frequency) = (changes.sack_delay, changes.sack_frequency);
        let is_same = delay.is_none_or(|delay| delay == timers.sack_delay)
            && frequency.is_none_or(|frequency| frequency == timers.sack_frequency);
        if !is_same && association.paths().count() > 1 {
            return Err(Errno::ENOPROTOOPT);
        }
    }
    Ok(())
}

/// Sets the parameters that the core has for each path, of one path or of all, and those that are reported.
fn set_path_params(
    a: &mut AssociationMut<'_>,
    only: Option<PathId>,
    params: &PaddrParams,
) -> Result<(), Errno> {
    let dscp = params.dscp();
    if let (Some(path), Some(interval)) = (only, params.interval()) {
        change(a, |core| core.set_heartbeat_interval(path, interval))?;
    }
    if params.path_max_rxt > 0 {
        let core = a.core.association(a.core_id);
        let thresholds = core.and_then(|a| a.path_thresholds(only));
        let thresholds = PathThresholds {
            path_max_retrans: params.path_max_rxt.into(),
            ..thresholds.ok_or(Errno::EINVAL)?
        };
        change(a, |core| core.set_path_thresholds(only, thresholds))?;
    }
    for path in selected_paths(a, only) {
        if let Some(on) = params.heartbeat() {
            change(a, |core| core.set_heartbeat(path, on))?;
        }
        if params.has(SPP_HB_DEMAND) {
            change(a, |core| core.request_heartbeat(path))?;
        }
        if params.has(SPP_PMTUD_DISABLE) && params.path_mtu > 0 {
            let mtu = params.path_mtu as usize;
            change(a, |core| core.set_path_mtu(path, mtu))?;
        }
    }
    if let Some(on) = params.heartbeat() {
        let paths = selected_paths(a, only);
        a.own
            .heartbeats
            .extend(paths.into_iter().map(|path| (path, on)));
    }
    params.report(&mut a.own.discovers_mtu);
    match (only, dscp) {
        (_, None) => {}
        (Some(path), Some(dscp)) => {
            change(a, |core| core.set_dscp(path, dscp >> 2))?;
            a.own.path_dscps.insert(path, dscp);
        }
        (None, Some(_)) => {
            a.own.dscp = dscp;
            a.own.path_dscps.clear();
        }
    }
    Ok(())
}

fn peer_addr_params(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
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
    check_identifier(view, asked.assoc_id)?;
    let (association, path) = view.path_source(asked.assoc_id, asked.address)?;
    let config = view.parameters(association);
    let options = view.socket.options();
    let of_path = association.zip(path);
    let heartbeat = of_path.and_then(|(a, path)| a.own.heartbeats.get(&path.id).copied());
    let interval = of_path.and_then(|(a, path)| a.in_core()?.heartbeat_interval(path.id));
    let dscp = of_path.and_then(|(a, path)| a.own.path_dscps.get(&path.id).copied());
    let dscp = dscp.or(association.map_or(options.dscp, |a| a.own.dscp));
    let thresholds = association.and_then(|a| a.in_core()?.path_thresholds(path.map(|p| p.id)));
    let max_retrans = thresholds.map_or(config.paths.path_max_retrans, |t| t.path_max_retrans);
    let discovers_mtu = association.map_or(options.discovers_mtu, |a| a.own.discovers_mtu);
    let smallest = || association?.paths().map(|path| path.mtu).min();
    let mtu = path.map(|path| path.mtu).or_else(smallest);
    let one_of = |on: bool, enable: i32, disable: i32| if on { enable } else { disable };
    let heartbeat = heartbeat.unwrap_or(config.paths.heartbeat);
    let is_delayed = config.timers.sack_frequency > 1;
    let flags = one_of(heartbeat, SPP_HB_ENABLE, SPP_HB_DISABLE)
        | one_of(dscp.is_some(), SPP_DSCP, 0)
        | one_of(discovers_mtu, SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
        | one_of(is_delayed, SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE);
    let params = PaddrParams {
        assoc_id: asked.assoc_id,
        address: asked.address,
        hb_interval: millis(interval.unwrap_or(config.paths.hb_interval)),
        path_max_rxt: narrow(max_retrans),
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

/// `SCTP_PEER_ADDR_THLDS` and `SCTP_PEER_ADDR_THLDS_V2` (RFC 7829, section 7.2). Both structs have the same size; the
/// fields of the second one are a superset.
fn set_thresholds(
    host: &mut Sockets,
    id: SocketId,
    given: PaddrThldsV2,
    is_v2: bool,
) -> Result<(), Errno> {
    if is_v2 && given.pf_threshold > given.switchover_threshold {
        return Err(Errno::EINVAL);
    }
    let view = OptionView::new(host, id)?;
    let found = view.path_scope(given.assoc_id, given.address);
    let (scope, path) = found.map_err(|error| unknown_path(error, given.address))?;
    let changed = |old: PathThresholds| PathThresholds {
        path_max_retrans: match given.path_max_rxt {
            0 => old.path_max_retrans,
            max => max.into(),
        },
        potentially_failed_max_retrans: threshold(given.pf_threshold),
        primary_switchover_max_retrans: if is_v2 {
            threshold(given.switchover_threshold)
        } else {
            old.primary_switchover_max_retrans
        },
    };
    let path = path.map(|path| path.id);
    perform(host, &scope, |a| {
        let old = a.core.association(a.core_id);
        let old = old.and_then(|a| a.path_thresholds(path));
        let new = changed(old.ok_or(Errno::EINVAL)?);
        change(a, |core| core.set_path_thresholds(path, new))
    })?;
    change_future(host, id, &scope, |config| {
        let new = changed(thresholds_of(config));
        config.paths.path_max_retrans = new.path_max_retrans;
        config.paths.potentially_failed_max_retrans = new.potentially_failed_max_retrans;
        config.paths.primary_switchover_max_retrans = new.primary_switchover_max_retrans;
        Ok(())
    })
}

fn thresholds(view: &OptionView<'_>, asked: &mut PaddrThldsV2, is_v2: bool) -> Result<(), Errno> {
    let found = view.path_source(asked.assoc_id, asked.address);
    let (association, path) = found.map_err(|error| unknown_path(error, asked.address))?;
    let of_association =
        association.and_then(|a| a.in_core()?.path_thresholds(path.map(|path| path.id)));
    let thresholds = of_association.unwrap_or_else(|| thresholds_of(&view.socket.options().config));
    let limit = |retransmissions: Option<u32>| retransmissions.map_or(u16::MAX, narrow);
    asked.path_max_rxt = narrow(thresholds.path_max_retrans);
    asked.pf_threshold = limit(thresholds.potentially_failed_max_retrans);
    asked.switchover_threshold = if is_v2 {
        limit(thresholds.primary_switchover_max_retrans)
    } else {
        0
    };
    Ok(())
}

/// `SCTP_EXPOSE_POTENTIALLY_FAILED_STATE` (RFC 7829, section 7.3): 0 and 1 hide the state, 2 exposes it.
fn set_expose_pf(host: &mut Sockets, id: SocketId, given: AssocValue) -> Result<(), Errno> {
    if given.value > 2 {
        return Err(Errno::EINVAL);
    }
    let expose = given.value == SCTP_PF_EXPOSE_ENABLE;
    let scope = scope(host, id, ScopeRule::Any, given.assoc_id)?;
    for id in &scope.associations {
        let mut a = association_mut(host, *id).ok_or(Errno::EINVAL)?;
        let mut core = a.in_core().ok_or(Errno::ENOTCONN)?;
        core.set_expose_potentially_failed(expose);
        drop(core);
        a.own.exposed_pf = given.value;
    }
    if scope.future {
        host.table.open_mut(id)?.options_mut().exposed_pf = given.value;
    }
    change_future(host, id, &scope, |config| {
        config.paths.expose_potentially_failed = expose;
        Ok(())
    })
}

/// `SCTP_PRIMARY_ADDR` (RFC 6458, section 8.1.9)
fn set_primary_addr(host: &mut Sockets, id: SocketId, prim: Prim) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let (association, path) = view.required(prim.assoc_id, prim.address)?;
    let path = path.ok_or(Errno::EINVAL)?.id;
    let before = association.stats().and_then(|stats| stats.current);
    let id = association.id;
    let mut a = association_mut(host, id).ok_or(Errno::EINVAL)?;
    change(&mut a, |core| core.set_primary(path))?;
    refresh_peer(host, id);
    if before != Some(path) {
        notify_path(host, id, path, SCTP_ADDR_MADE_PRIM);
    }
    settle_association(host, id);
    Ok(())
}

fn primary_addr(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let asked = i32::parse(buffer)?;
    if buffer.len() < Prim::SIZE {
        return Err(Errno::EINVAL);
    }
    let association = view.association(asked)?;
    let prim = Prim {
        assoc_id: asked,
        address: view.socket.present(association.own.peer).into(),
    };
    Ok(prim.encode())
}

/// `SCTP_SET_PEER_PRIMARY_ADDR` (RFC 6458, section 8.3.1)
fn set_peer_primary_addr(host: &mut Sockets, id: SocketId, prim: SetPeerPrim) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let id = view.association(prim.assoc_id)?.id;
    let ip = view
        .socket
        .canonical(prim.address.0.ok_or(Errno::EINVAL)?)?;
    let result = with_association(host, id, |a| {
        let mut core = a.in_core().ok_or(Errno::ENOTCONN)?;
        core.set_peer_primary(ip).map_err(|error| match error {
            OperationError::UnknownAddress => Errno::EADDRNOTAVAIL,
            OperationError::WrongState => Errno::EPERM,
            _ => Errno::EINVAL,
        })
    });
    result.ok_or(Errno::EINVAL)?
}

/// `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951, section 6.1). Port 0 means plain IP, or the default port of a host
/// without it.
fn set_encapsulation(host: &mut Sockets, id: SocketId, given: UdpEncaps) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let port = match u16::from_be(given.port) {
        0 if view.config.has_plain_ip => None,
        0 => view.config.encapsulation,
        port => Some(port),
    };
    let (scope, path) = view.path_scope(given.assoc_id, given.address)?;
    let only = path.map(|path| path.id);
    perform(host, &scope, |a| {
        for path in selected_paths(a, only) {
            change(a, |core| core.set_encapsulation(path, port))?;
        }
        Ok(())
    })?;
    if scope.future {
        host.table.open_mut(id)?.options_mut().encapsulation = port;
    }
    Ok(())
}

fn encapsulation(view: &OptionView<'_>, asked: &mut UdpEncaps) -> Result<(), Errno> {
    let (association, path) = view.path_source(asked.assoc_id, asked.address)?;
    let port = match (path, association) {
        (Some(path), _) => path.encapsulation,
        (None, Some(association)) => association.current_path().and_then(|p| p.encapsulation),
        (None, None) => view.socket.options().encapsulation,
    };
    asked.port = port.unwrap_or(0).to_be();
    Ok(())
}

/// `SCTP_PLPMTUD_PROBE_INTERVAL` of Linux: `PROBE_TIMER` of RFC 8899 in milliseconds, 0 without probes. Of future
/// associations: the core reads it at set-up.
fn set_probe_interval(
    view: &OptionView<'_>,
    config: &mut AssociationConfig,
    given: ProbeInterval,
) -> Result<(), Errno> {
    if (1..MIN_PROBE_INTERVAL).contains(&given.interval) {
        return Err(Errno::EINVAL);
    }
    let (scope, _) = view.path_scope(given.assoc_id, given.address)?;
    if !scope.associations.is_empty() {
        return Err(Errno::ENOPROTOOPT);
    }
    let discovery = config.mtu.path_mtu_discovery.unwrap_or_default();
    let interval = duration(given.interval);
    config.mtu.path_mtu_discovery = interval.map(|probe_timer| PathMtuDiscovery {
        probe_timer,
        ..discovery
    });
    Ok(())
}

fn probe_interval(view: &OptionView<'_>, asked: &mut ProbeInterval) -> Result<(), Errno> {
    let (association, _) = view.path_source(asked.assoc_id, asked.address)?;
    let discovery = view.parameters(association).mtu.path_mtu_discovery;
    asked.interval = discovery.map_or(0, |probes| millis(probes.probe_timer));
    Ok(())
}

/// Returns the path that an option names, or all paths of an association.
fn selected_paths(association: &AssociationMut<'_>, only: Option<PathId>) -> Vec<PathId> {
    let core = association
        .core
        .association(association.core_id)
        .into_iter();
    let all = core.flat_map(|a| a.paths()).map(|path: PathStats| path.id);
    all.filter(|path| only.is_none_or(|only| only == *path))
        .collect()
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
