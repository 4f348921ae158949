//! Associations that an option concerns, and changes of their parameters.

use std::net::IpAddr;

use carrick_proto::{AssociationConfig, ConfigError, ParameterChanges, PathStats};

use crate::associations::Association;
use crate::config::Config;
use crate::errno::Errno;
use crate::host::associations::{
    AssociationLookup, AssociationMut, AssociationRef, association_mut,
};
use crate::host::calls::listen::update_listening;
use crate::host::{Sockets, settle_association};
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::ports::Ports;
use crate::settings::Options;
use crate::table::Socket;

/// Associations that an option of an association identifier concerns.
pub(super) struct OptionScope {
    /// Associations that are set up later.
    pub(super) future: bool,
    pub(super) associations: Vec<AssocId>,
}

/// Meaning of the association identifier of an option.
#[derive(Clone, Copy)]
pub(super) enum ScopeRule {
    /// On sockets with one association the only one, whatever the identifier; `SCTP_FUTURE_ASSOC`, `SCTP_CURRENT_ASSOC`
    /// and `SCTP_ALL_ASSOC` on one-to-many sockets (RFC 6458, section 7.1).
    Any,
    /// As [`Self::Any`], for options that RFC 6458 has for one association or future ones: `SCTP_CURRENT_ASSOC`,
    /// `SCTP_ALL_ASSOC` and negative identifiers are errors on one-to-many sockets.
    One,
    /// All associations of the socket: options without an association identifier.
    Everything,
}

/// Socket of an option, and the associations of the host, for reading.
pub(super) struct OptionView<'a> {
    pub(super) socket: &'a Socket,
    pub(super) config: &'a Config,
    pub(super) associations: AssociationLookup<'a>,
    pub(super) ports: &'a Ports,
}

impl<'a> OptionView<'a> {
    pub(super) fn new(host: &'a Sockets, id: SocketId) -> Result<Self, Errno> {
        Ok(Self {
            socket: host.table.open(id)?,
            config: &host.config,
            associations: host.lookup(),
            ports: &host.ports,
        })
    }

    /// Returns the scope of an association identifier in `setsockopt`.
    pub(super) fn scope(&self, rule: ScopeRule, id: i32) -> Result<OptionScope, Errno> {
        let all = || self.associations.open_of(self.socket);
        let is_single = self.socket.is_single();
        let is_none = id < 0 || [SCTP_CURRENT_ASSOC, SCTP_ALL_ASSOC].contains(&id);
        let (future, associations) = match (rule, id) {
            (ScopeRule::Everything, _) => {
                (true, self.socket.associations().iter().copied().collect())
            }
            _ if is_single => {
                let associations = all();
                (associations.is_empty(), associations)
            }
            (ScopeRule::One, _) if is_none => return Err(Errno::EINVAL),
            (_, SCTP_FUTURE_ASSOC) => (true, Vec::new()),
            (_, SCTP_CURRENT_ASSOC) => (false, all()),
            (_, SCTP_ALL_ASSOC) => (true, all()),
            // As on Linux, which looks for unknown identifiers among those above the three constants alone.
            (_, ..0) => (false, Vec::new()),
            (_, id) => (false, vec![self.association(id)?.id]),
        };
        Ok(OptionScope {
            future,
            associations,
        })
    }

    /// Returns the association that an identifier means.
    pub(super) fn association(&self, id: i32) -> Result<AssociationRef<'a>, Errno> {
        self.associations
            .meant(self.socket, id)
            .ok_or(Errno::EINVAL)
    }

    /// Returns the association that an identifier of `getsockopt` means; `None` for future ones.
    pub(super) fn source(&self, id: i32) -> Result<Option<AssociationRef<'a>>, Errno> {
        match self.association(id) {
            Err(_) if id == SCTP_FUTURE_ASSOC || self.socket.is_one_to_one() => Ok(None),
            meant => meant.map(Some),
        }
    }

    /// Returns the parameters of an association, or of future ones.
    pub(super) fn parameters(&self, of: Option<AssociationRef<'a>>) -> &'a AssociationConfig {
        let of_association = of.and_then(|association| association.config());
        of_association.unwrap_or(&self.socket.options().config)
    }

    /// Returns the IP address and the port of an option's address; `None` if it means all paths.
    fn address(&self, address: Storage) -> Result<Option<(IpAddr, u16)>, Errno> {
        match address.0.filter(|_| address.ip().is_some()) {
            Some(given) => Ok(Some((self.socket.canonical(given)?, given.port()))),
            None => Ok(None),
        }
    }

    /// Returns the association of an option that needs one, and the path of its address, if there is one: the
    /// association with the address, which an identifier that exists must mean as well. As on Linux, an unknown
    /// identifier has no effect then.
    pub(super) fn required(
        &self,
        id: i32,
        address: Storage,
    ) -> Result<(AssociationRef<'a>, Option<PathStats>), Errno> {
        let identified = self.association(id);
        let Some((ip, number)) = self.address(address)? else {
            return Ok((identified?, None));
        };
        let identified = identified.ok();
        let found = self.associations.with_peer(self.socket, ip, number);
        let found = found.filter(|found| identified.is_none_or(|a| a.id == found.id));
        let association = found.ok_or(Errno::EINVAL)?;
        let path = association.path_to(ip).ok_or(Errno::EINVAL)?;
        Ok((association, Some(path)))
    }

    /// Returns the scope and path of an option with an identifier and an address.
    pub(super) fn path_scope(
        &self,
        id: i32,
        address: Storage,
    ) -> Result<(OptionScope, Option<PathStats>), Errno> {
        if address.ip().is_none() {
            return Ok((self.scope(ScopeRule::One, id)?, None));
        }
        let (association, path) = self.required(id, address)?;
        let scope = OptionScope {
            future: false,
            associations: vec![association.id],
        };
        Ok((scope, path))
    }

    /// Returns the association and path whose values `getsockopt` returns, by an identifier and an address; `None` for
    /// future associations, and for all paths.
    pub(super) fn path_source(
        &self,
        id: i32,
        address: Storage,
    ) -> Result<(Option<AssociationRef<'a>>, Option<PathStats>), Errno> {
        if address.ip().is_none() {
            return Ok((self.source(id)?, None));
        }
        let (association, path) = self.required(id, address)?;
        Ok((Some(association), path))
    }
}

/// Returns the scope of an association identifier of a socket.
pub(super) fn scope(
    host: &Sockets,
    id: SocketId,
    rule: ScopeRule,
    association: i32,
) -> Result<OptionScope, Errno> {
    OptionView::new(host, id)?.scope(rule, association)
}

/// Changes parameters of the associations of a scope, future ones included.
pub(super) fn change_parameters(
    host: &mut Sockets,
    id: SocketId,
    scope: &OptionScope,
    changes: &ParameterChanges,
) -> Result<(), Errno> {
    change_with(host, id, scope, changes, |_| {})
}

/// Changes parameters of the associations of a scope, and `others` of future associations alone.
pub(super) fn change_with(
    host: &mut Sockets,
    id: SocketId,
    scope: &OptionScope,
    changes: &ParameterChanges,
    others: impl FnOnce(&mut AssociationConfig),
) -> Result<(), Errno> {
    perform(host, scope, |a| {
        let mut core = a.in_core().ok_or(Errno::EINVAL)?;
        let changed = core.change_parameters(changes);
        changed.map_err(|_| Errno::EINVAL)
    })?;
    if !scope.future {
        return Ok(());
    }
    let mut config = host.table.open(id)?.options().config.clone();
    others(&mut config);
    set_future(host, id, changes, &config)
}

/// Changes parameters that only future associations of a scope take from the socket, if it has those.
pub(super) fn change_future(
    host: &mut Sockets,
    id: SocketId,
    scope: &OptionScope,
    change: impl FnOnce(&mut AssociationConfig) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if !scope.future {
        return Ok(());
    }
    let mut config = host.table.open(id)?.options().config.clone();
    change(&mut config)?;
    set_future(host, id, &ParameterChanges::new(), &config)
}

/// Sets the parameters of future associations, with changes.
pub(super) fn set_future(
    host: &mut Sockets,
    id: SocketId,
    changes: &ParameterChanges,
    config: &AssociationConfig,
) -> Result<(), Errno> {
    let changed = changes.applied(config);
    let socket = host.table.open_mut(id)?;
    socket.options_mut().config = changed.map_err(|_: ConfigError| Errno::EINVAL)?;
    if let Some(port) = socket.port() {
        update_listening(host, port);
    }
    Ok(())
}

/// Performs an operation on each existing association of a scope, up to the first that fails.
pub(super) fn perform(
    host: &mut Sockets,
    scope: &OptionScope,
    mut operation: impl FnMut(&mut AssociationMut<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    for id in &scope.associations {
        let mut association = association_mut(host, *id).ok_or(Errno::EINVAL)?;
        operation(&mut association)?;
        settle_association(host, *id);
    }
    Ok(())
}

/// Changes a setting of the associations of a scope that the core does not have: in them, and in the options for future
/// ones.
pub(super) fn change_own(
    host: &mut Sockets,
    id: SocketId,
    association: i32,
    in_association: impl Fn(&mut Association),
    in_options: impl FnOnce(&mut Options),
) -> Result<(), Errno> {
    let scope = scope(host, id, ScopeRule::Any, association)?;
    for id in scope.associations {
        if let Some(association) = host.associations.get_mut(id) {
            in_association(association);
        }
    }
    if scope.future {
        in_options(host.table.open_mut(id)?.options_mut());
    }
    Ok(())
}
