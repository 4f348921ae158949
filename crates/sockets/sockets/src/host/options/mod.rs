//! Socket options (RFC 6458, section 8): `getsockopt` and `setsockopt`.
//!
//! - `socket_level`: `SOL_SOCKET`, `IPPROTO_IP` and `IPPROTO_IPV6`
//! - `parameters`: protocol parameters of future associations and of existing ones
//! - `paths`: peer addresses and the status of associations
//! - `messages`: defaults of sent messages, ancillary data and notifications of received ones
//! - `streams`: schedulers and reconfiguration (RFC 8260, RFC 6525)
//! - `extensions`: extensions and authentication (RFC 4895)
//! - `addresses`: lists of addresses

mod addresses;
mod extensions;
mod messages;
mod parameters;
mod paths;
mod socket_level;
mod status;
mod streams;

use carrick_proto::{
    AssociationConfig, ConfigError, Endpoint, OperationError, ParameterChanges, Time,
};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::table::Socket;

pub(crate) use parameters::apply_init;

/// Associations that an option of an association identifier concerns.
struct OptionScope {
    /// Associations that are set up later.
    future: bool,
    associations: Vec<AssocId>,
}

impl Sockets {
    /// Sets an option of a socket: `setsockopt`. Returns 0, or for `SCTP_SOCKOPT_CONNECTX` the identifier
    /// of the association whose set-up has started.
    ///
    /// # Errors
    /// - `ENOPROTOOPT`: the option is not supported; the table in the crate's documentation has the reason.
    /// - `EINVAL`: a wrong length, value or association identifier.
    /// - `EOPNOTSUPP`: the option does not apply to the style of the socket.
    /// - Errors of the operation that the option performs.
    pub fn setsockopt(
        &mut self,
        now: Time,
        id: SocketId,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Result<i32, Errno> {
        self.now = now;
        self.table.open(id)?;
        let done = match (level, name) {
            (SOL_SOCKET | IPPROTO_IP | IPPROTO_IPV6, _) => {
                self.set_socket_level(id, (level, name), value)
            }
            (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX) => {
                let peers = read_addresses(value)?;
                return self.connectx(now, id, &peers).map(AssocId::number);
            }
            (IPPROTO_SCTP, _) => self.set_sctp(id, name, value),
            _ => Err(Errno::ENOPROTOOPT),
        };
        self.counted(done).map(|()| 0)
    }

    /// Counts the option that a result refuses.
    fn counted<T>(&mut self, result: Result<T, Errno>) -> Result<T, Errno> {
        if matches!(result, Err(Errno::ENOPROTOOPT)) {
            self.removed.refused_options += 1;
        }
        result
    }

    /// Returns the value of an option of a socket: `getsockopt`. `buffer` is the buffer of the caller with
    /// its content, from which association identifiers and addresses are read; the value is never longer.
    ///
    /// # Errors
    /// As for [`Self::setsockopt`]; `EINVAL` for a buffer that is too short.
    pub fn getsockopt(
        &mut self,
        now: Time,
        id: SocketId,
        (level, name): (i32, i32),
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.now = now;
        self.table.open(id)?;
        let value = match level {
            SOL_SOCKET | IPPROTO_IP | IPPROTO_IPV6 => {
                self.get_socket_level(id, (level, name), buffer)
            }
            IPPROTO_SCTP => self.get_sctp(id, name, buffer),
            _ => Err(Errno::ENOPROTOOPT),
        };
        self.counted(value)
    }

    fn set_sctp(&mut self, id: SocketId, name: i32, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        match name {
            SCTP_INITMSG => self.set_initmsg(id, value),
            SCTP_RTOINFO => self.set_rtoinfo(id, value),
            SCTP_ASSOCINFO => self.set_associnfo(id, value),
            SCTP_NODELAY => self.set_nodelay(id, value),
            SCTP_MAXSEG => self.set_maxseg(id, value),
            SCTP_DISABLE_FRAGMENTS => self.set_disable_fragments(id, value),
            SCTP_DELAYED_SACK => self.set_delayed_sack(id, value),
            SCTP_MAX_BURST => self.set_max_burst(id, value),
            SCTP_ADAPTATION_LAYER => self.set_adaptation_layer(id, value),
            SCTP_AUTOCLOSE => self.set_autoclose(id, value),
            SCTP_FRAGMENT_INTERLEAVE => self.set_fragment_interleave(id, value),
            SCTP_PARTIAL_DELIVERY_POINT => self.set_partial_delivery_point(id, value),
            SCTP_I_WANT_MAPPED_V4_ADDR => {
                let on = flag(value)?;
                self.table.open_mut(id)?.options.mapped_v4 = on;
                Ok(())
            }
            SCTP_REUSE_PORT => self.set_sctp_reuse_port(id, value),
            SCTP_AUTO_ASCONF => self.set_auto_asconf(id, value),

            SCTP_PEER_ADDR_PARAMS => self.set_peer_addr_params(id, value),
            SCTP_PEER_ADDR_THLDS => self.set_thresholds(id, value, false),
            SCTP_PEER_ADDR_THLDS_V2 => self.set_thresholds(id, value, true),
            SCTP_EXPOSE_POTENTIALLY_FAILED_STATE => self.set_expose_pf(id, value),
            SCTP_PRIMARY_ADDR => self.set_primary_addr(id, value),
            SCTP_SET_PEER_PRIMARY_ADDR => self.set_peer_primary_addr(id, value),
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.set_encapsulation(id, value),
            SCTP_PLPMTUD_PROBE_INTERVAL => self.set_probe_interval(id, value),

            SCTP_EVENTS => self.set_events(id, value),
            SCTP_EVENT => self.set_event(id, value),
            SCTP_RECVRCVINFO => {
                let on = flag(value)?;
                self.table.open_mut(id)?.options.recv_rcvinfo = on;
                Ok(())
            }
            SCTP_RECVNXTINFO => {
                let on = flag(value)?;
                self.table.open_mut(id)?.options.recv_nxtinfo = on;
                Ok(())
            }
            SCTP_CONTEXT => self.set_context(id, value),
            SCTP_DEFAULT_SEND_PARAM => self.set_default_send_param(id, value),
            SCTP_DEFAULT_SNDINFO => self.set_default_sndinfo(id, value),
            SCTP_DEFAULT_PRINFO => self.set_default_prinfo(id, value),

            SCTP_STREAM_SCHEDULER => self.set_scheduler(id, value),
            SCTP_STREAM_SCHEDULER_VALUE => self.set_scheduler_value(id, value),
            SCTP_ENABLE_STREAM_RESET => self.set_enable_stream_reset(id, value),
            SCTP_RESET_STREAMS => self.reset_streams(id, value),
            SCTP_RESET_ASSOC => self.reset_association(id, value),
            SCTP_ADD_STREAMS => self.add_streams(id, value),

            SCTP_PR_SUPPORTED
            | SCTP_RECONFIG_SUPPORTED
            | SCTP_ASCONF_SUPPORTED
            | SCTP_AUTH_SUPPORTED
            | SCTP_ECN_SUPPORTED
            | SCTP_INTERLEAVING_SUPPORTED => self.set_supported(id, name, value),
            SCTP_AUTH_CHUNK => self.set_auth_chunk(id, value),
            SCTP_HMAC_IDENT => self.set_hmac_ident(id, value),
            SCTP_AUTH_KEY => self.set_auth_key(id, value),
            SCTP_AUTH_ACTIVE_KEY | SCTP_AUTH_DELETE_KEY | SCTP_AUTH_DEACTIVATE_KEY => {
                self.change_key(id, name, value)
            }

            SCTP_SOCKOPT_BINDX_ADD => {
                let addresses = read_addresses(value)?;
                self.bindx_add(id, &addresses)
            }
            SCTP_SOCKOPT_BINDX_REM => {
                let addresses = read_addresses(value)?;
                self.bindx_remove(now, id, &addresses)
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn get_sctp(&mut self, id: SocketId, name: i32, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        if name == SCTP_GET_ASSOC_STATS {
            return self.get_assoc_stats(id, buffer);
        }
        let socket = self.table.open(id)?;
        let options = &socket.options;
        match name {
            SCTP_INITMSG => Self::get_initmsg(socket, buffer),
            SCTP_RTOINFO => self.get_rtoinfo(socket, buffer),
            SCTP_ASSOCINFO => self.get_associnfo(socket, buffer),
            SCTP_NODELAY => int(buffer, i32::from(!options.config.transmission.nagle)),
            SCTP_MAXSEG => self.get_maxseg(socket, buffer),
            SCTP_DISABLE_FRAGMENTS => int(buffer, i32::from(!options.config.mtu.fragment)),
            SCTP_DELAYED_SACK => self.get_delayed_sack(socket, buffer),
            SCTP_MAX_BURST => self.get_max_burst(socket, buffer),
            SCTP_ADAPTATION_LAYER => {
                int(buffer, options.config.adaptation_layer.unwrap_or(0) as i32)
            }
            SCTP_AUTOCLOSE if socket.is_one_to_one() => Err(Errno::EOPNOTSUPP),
            SCTP_AUTOCLOSE => int(buffer, options.autoclose as i32),
            SCTP_FRAGMENT_INTERLEAVE => int(buffer, i32::from(options.fragment_interleave)),
            SCTP_PARTIAL_DELIVERY_POINT => int(buffer, options.partial_delivery_point as i32),
            SCTP_I_WANT_MAPPED_V4_ADDR => int(buffer, i32::from(options.mapped_v4)),
            SCTP_REUSE_PORT => int(buffer, i32::from(options.sctp_reuse_port)),
            SCTP_AUTO_ASCONF => int(buffer, i32::from(self.follows_host_addresses(socket))),

            SCTP_PEER_ADDR_PARAMS => self.get_peer_addr_params(socket, buffer),
            SCTP_PEER_ADDR_THLDS => self.get_thresholds(socket, buffer, false),
            SCTP_PEER_ADDR_THLDS_V2 => self.get_thresholds(socket, buffer, true),
            SCTP_EXPOSE_POTENTIALLY_FAILED_STATE => self.get_expose_pf(socket, buffer),
            SCTP_PRIMARY_ADDR => self.get_primary_addr(socket, buffer),
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.get_encapsulation(socket, buffer),
            SCTP_PLPMTUD_PROBE_INTERVAL => self.get_probe_interval(socket, buffer),
            SCTP_STATUS => self.get_status(socket, buffer),
            SCTP_GET_PEER_ADDR_INFO => self.get_peer_addr_info(socket, buffer),
            SCTP_GET_ASSOC_NUMBER => self.get_assoc_number(socket, buffer),
            SCTP_GET_ASSOC_ID_LIST => self.get_assoc_id_list(socket, buffer),

            SCTP_EVENTS => Self::get_events(socket, buffer),
            SCTP_EVENT => self.get_event(socket, buffer),
            SCTP_RECVRCVINFO => int(buffer, i32::from(options.recv_rcvinfo)),
            SCTP_RECVNXTINFO => int(buffer, i32::from(options.recv_nxtinfo)),
            SCTP_CONTEXT => self.get_context(socket, buffer),
            SCTP_DEFAULT_SEND_PARAM => self.get_default_send_param(socket, buffer),
            SCTP_DEFAULT_SNDINFO => self.get_default_sndinfo(socket, buffer),
            SCTP_DEFAULT_PRINFO => self.get_default_prinfo(socket, buffer),

            SCTP_STREAM_SCHEDULER => self.get_scheduler(socket, buffer),
            SCTP_STREAM_SCHEDULER_VALUE => self.get_scheduler_value(socket, buffer),
            SCTP_ENABLE_STREAM_RESET => self.get_enable_stream_reset(socket, buffer),
            SCTP_PR_ASSOC_STATUS => self.get_pr_status(socket, buffer, false),
            SCTP_PR_STREAM_STATUS => self.get_pr_status(socket, buffer, true),

            SCTP_PR_SUPPORTED
            | SCTP_RECONFIG_SUPPORTED
            | SCTP_ASCONF_SUPPORTED
            | SCTP_AUTH_SUPPORTED
            | SCTP_ECN_SUPPORTED
            | SCTP_INTERLEAVING_SUPPORTED => self.get_supported(socket, name, buffer),
            SCTP_HMAC_IDENT => Self::get_hmac_ident(socket, buffer),
            SCTP_AUTH_ACTIVE_KEY => self.get_active_key(socket, buffer),
            SCTP_PEER_AUTH_CHUNKS => self.get_peer_auth_chunks(socket, buffer),
            SCTP_LOCAL_AUTH_CHUNKS => self.get_local_auth_chunks(socket, buffer),

            SCTP_AUTH_CHUNK | SCTP_AUTH_KEY | SCTP_AUTH_DELETE_KEY | SCTP_AUTH_DEACTIVATE_KEY => {
                Err(Errno::EOPNOTSUPP)
            }

            SCTP_GET_PEER_ADDRS => self.get_addresses(id, buffer, true),
            SCTP_GET_LOCAL_ADDRS => self.get_addresses(id, buffer, false),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Returns the scope of an association identifier in `setsockopt`: on sockets with one association
    /// the only one, whatever the identifier; `SCTP_FUTURE_ASSOC`, `SCTP_CURRENT_ASSOC` and
    /// `SCTP_ALL_ASSOC` on one-to-many sockets (RFC 6458, section 7.1).
    fn target(&self, socket: &Socket, id: i32) -> Result<OptionScope, Errno> {
        let all = || self.open_associations(socket);
        if socket.is_single() {
            let associations = all();
            return Ok(OptionScope {
                future: associations.is_empty(),
                associations,
            });
        }
        match id {
            SCTP_FUTURE_ASSOC => Ok(OptionScope {
                future: true,
                associations: Vec::new(),
            }),
            SCTP_CURRENT_ASSOC => Ok(OptionScope {
                future: false,
                associations: all(),
            }),
            SCTP_ALL_ASSOC => Ok(OptionScope {
                future: true,
                associations: all(),
            }),
            // As on Linux, which looks for unknown identifiers among those above the three constants alone.
            ..0 => Ok(OptionScope {
                future: false,
                associations: Vec::new(),
            }),
            _ => Ok(OptionScope {
                future: false,
                associations: vec![self.association_of(socket, id).ok_or(Errno::EINVAL)?],
            }),
        }
    }

    /// Returns the target of an option that RFC 6458 has for one association or future ones:
    /// `SCTP_CURRENT_ASSOC`, `SCTP_ALL_ASSOC` and negative identifiers are errors on one-to-many sockets.
    fn one_target(&self, socket: &Socket, id: i32) -> Result<OptionScope, Errno> {
        let is_none = id < 0 || [SCTP_CURRENT_ASSOC, SCTP_ALL_ASSOC].contains(&id);
        if is_none && !socket.is_single() {
            return Err(Errno::EINVAL);
        }
        self.target(socket, id)
    }

    /// Returns the association that an identifier of `getsockopt` means; `None` for future ones.
    fn source(&self, socket: &Socket, id: i32) -> Result<Option<AssocId>, Errno> {
        match self.association_of(socket, id) {
            Some(association) => Ok(Some(association)),
            None if id == SCTP_FUTURE_ASSOC || socket.is_one_to_one() => Ok(None),
            None => Err(Errno::EINVAL),
        }
    }

    /// Returns the parameters of an association, or of future ones.
    fn config_of<'a>(&'a self, socket: &'a Socket, id: Option<AssocId>) -> &'a AssociationConfig {
        let of_association = id
            .and_then(|id| self.core_ref(id))
            .and_then(|(core, core_id)| core.association_config(core_id));
        of_association.unwrap_or(&socket.options.config)
    }

    /// Changes parameters of future associations.
    fn change_future(
        &mut self,
        id: SocketId,
        change: impl FnOnce(&mut AssociationConfig),
    ) -> Result<(), Errno> {
        self.change_future_by(id, &ParameterChanges::new(), change)
    }

    /// Changes parameters of future associations that existing ones can change too, and others.
    fn change_future_by(
        &mut self,
        id: SocketId,
        changes: &ParameterChanges,
        others: impl FnOnce(&mut AssociationConfig),
    ) -> Result<(), Errno> {
        let options = &mut self.table.open_mut(id)?.options;
        let mut config = options.config.clone();
        others(&mut config);
        let changed = changes.applied(&config);
        options.config = changed.map_err(|_: ConfigError| Errno::EINVAL)?;
        if let Some(port) = self.table.open(id)?.port {
            self.update_listening(port);
        }
        Ok(())
    }

    /// Changes parameters of the associations of a scope, future ones included.
    fn change_parameters(
        &mut self,
        id: SocketId,
        scope: &OptionScope,
        changes: &ParameterChanges,
    ) -> Result<(), Errno> {
        self.change_existing(scope, changes)?;
        if scope.future {
            self.change_future_by(id, changes, |_| {})?;
        }
        Ok(())
    }

    /// Changes parameters of the existing associations of a scope.
    fn change_existing(
        &mut self,
        scope: &OptionScope,
        changes: &ParameterChanges,
    ) -> Result<(), Errno> {
        let now = self.now;
        for association in &scope.associations {
            if let Some((core, core_id)) = self.core_of(*association) {
                let changed = core.change_parameters(now, core_id, changes);
                changed.map_err(|_: OperationError| Errno::EINVAL)?;
            }
            self.settle_association(*association);
        }
        Ok(())
    }

    /// Performs an operation of the core on each existing association of a scope, up to the first that fails.
    fn perform(
        &mut self,
        scope: &OptionScope,
        operation: impl Fn(&mut Endpoint, carrick_proto::AssociationId) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for association in &scope.associations {
            let (core, core_id) = self.core_of(*association).ok_or(Errno::EINVAL)?;
            operation(core, core_id)?;
            self.settle_association(*association);
        }
        Ok(())
    }
}

/// Returns the target of options without an association identifier: everything of the socket.
fn everything(socket: &Socket) -> OptionScope {
    OptionScope {
        future: true,
        associations: socket.associations.iter().copied().collect(),
    }
}

/// Reads an `int`; longer values are allowed, as in Linux.
fn read_int(value: &[u8]) -> Result<i32, Errno> {
    i32::read(value.get(..4).ok_or(Errno::EINVAL)?)
}

/// Reads an `int` as a boolean.
fn flag(value: &[u8]) -> Result<bool, Errno> {
    Ok(read_int(value)? != 0)
}

/// Returns an `int` for a buffer that holds it.
fn int(buffer: &[u8], value: i32) -> Result<Vec<u8>, Errno> {
    if buffer.len() < 4 {
        return Err(Errno::EINVAL);
    }
    Ok(value.to_ne_bytes().to_vec())
}

/// Reads an `int`, or an association identifier with a value, for options that take both. The `int`
/// means future associations, or the only one.
fn int_or_value(value: &[u8]) -> Result<AssocValue, Errno> {
    match value.len() {
        4 => Ok(AssocValue {
            assoc_id: SCTP_FUTURE_ASSOC,
            value: read_int(value)? as u32,
        }),
        _ => AssocValue::decode(value),
    }
}

/// Reads the identifier of a buffer for an `int`, or a struct if there is room for it.
fn asked_value(buffer: &[u8]) -> Result<AssocValue, Errno> {
    if buffer.len() >= AssocValue::SIZE {
        AssocValue::read(buffer)
    } else {
        int_or_value(buffer)
    }
}

/// Returns a value in the form, `int` or struct, that the buffer has room for.
fn int_or_value_for(buffer: &[u8], value: AssocValue) -> Vec<u8> {
    if buffer.len() < AssocValue::SIZE {
        value.value.to_ne_bytes().to_vec()
    } else {
        value.encode()
    }
}
