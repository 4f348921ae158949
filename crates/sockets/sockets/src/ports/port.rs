//! A port in use, and exports of its endpoint.

use std::collections::{BTreeSet, btree_set::Iter};
use std::iter::Copied;
use std::net::IpAddr;

use carrick_proto::export::{ExportReader, ExportWriter, Portable};
use carrick_proto::{Endpoint, ImportConfig, ImportError};

use super::scope::{Scope, is_loopback_v4};
use crate::config::Config;
use crate::ids::SocketId;

/// A port in use: an SCTP endpoint.
#[derive(Debug)]
pub(crate) struct Port {
    pub(super) core: Endpoint,
    pub(super) scope: Scope,
    pub(super) sockets: BTreeSet<SocketId>,
    pub(super) associations: usize,
    /// Owner of the last socket that was added.
    pub(super) owner: u32,
    /// Bytes of received data that are counted in those of all ports.
    pub(super) received: usize,
    /// All sockets that were closed before their associations ended had `SO_REUSEADDR`.
    pub(super) closed_are_reusable: bool,
}

impl Port {
    pub(super) fn new(core: Endpoint, scope: Scope) -> Self {
        Self {
            core,
            scope,
            sockets: BTreeSet::new(),
            associations: 0,
            owner: 0,
            received: 0,
            closed_are_reusable: true,
        }
    }

    /// Returns the endpoint for reading.
    pub(crate) fn core(&self) -> &Endpoint {
        &self.core
    }

    /// Returns the local addresses as they were bound.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the sockets in the order of their creation.
    pub(crate) fn sockets(&self) -> Copied<Iter<'_, SocketId>> {
        self.sockets.iter().copied()
    }

    /// Appends the state. Sockets, associations, the owner and received bytes follow from those.
    pub(crate) fn write_state(&self, out: &mut ExportWriter) {
        let Self {
            core,
            scope,
            sockets: _,
            associations: _,
            owner: _,
            received: _,
            closed_are_reusable,
        } = self;
        write_endpoint(core, out);
        scope.write(out);
        closed_are_reusable.write(out);
    }

    /// Reads what [`Self::write_state`] appended.
    ///
    /// # Errors
    /// [`ImportError`]
    pub(crate) fn read_state(
        input: &mut ExportReader<'_>,
        config: &Config,
    ) -> Result<Self, ImportError> {
        let mut core = read_endpoint(input, config)?;
        core.set_max_associations(config.max_associations, Some(config.per_source()));
        core.record_buffer_changes();
        Ok(Self {
            received: core.stats().receive_memory,
            scope: Portable::read(input)?,
            closed_are_reusable: Portable::read(input)?,
            core,
            sockets: BTreeSet::new(),
            associations: 0,
            owner: 0,
        })
    }

    /// Returns whether packets to an address are for the port: with a wildcard address also those to
    /// addresses of 127.0.0.0/8 that no interface lists.
    pub(super) fn has(&self, local: IpAddr) -> bool {
        self.core.local_addresses().contains(&local)
            || self.scope.covers(local) && is_loopback_v4(local)
    }

    /// Returns whether the port has a socket or an association. Otherwise it only has last packets to send.
    pub(super) fn is_in_use(&self) -> bool {
        !self.sockets.is_empty() || self.associations > 0
    }
}

/// Appends the export of an endpoint.
pub(crate) fn write_endpoint(core: &Endpoint, out: &mut ExportWriter) {
    match core.export(out.now()) {
        Ok(export) => out.octets(export.as_bytes()),
        Err(error) => out.fail(error),
    }
}

/// Reads what [`write_endpoint`] appended.
///
/// # Errors
/// [`ImportError`]
pub(crate) fn read_endpoint(
    input: &mut ExportReader<'_>,
    config: &Config,
) -> Result<Endpoint, ImportError> {
    let bytes = input.octets()?;
    let now = input.now();
    let mut core = Endpoint::import(import_config(config), now, bytes)?;
    if let Some(observers) = &config.observers {
        core.set_observer(now, Some(observers.create()));
    }
    Ok(core)
}

/// Returns the parts of the configuration that are code.
pub(crate) fn import_config(config: &Config) -> ImportConfig {
    let association = &config.association;
    ImportConfig {
        source_selection: (config.source_selection)(),
        algorithms: vec![association.research.policies.congestion.clone()],
        protections: association.security.protection.iter().cloned().collect(),
    }
}
