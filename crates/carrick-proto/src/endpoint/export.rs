//! Export and import of an endpoint: its own state. The indexes of the registry are rebuilt.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Endpoint, Registry, Replies};
use crate::addresses::LocalAddresses;
use crate::config::{AssociationConfig, EndpointConfig};
use crate::export::{ImportError, Portable, Reader, Writer};
use crate::route::{MatchingAddress, SourceSelection};

impl Endpoint {
    /// Appends the state of the endpoint.
    pub(crate) fn write_state(&self, out: &mut Writer) {
        let Self {
            config,
            local_addresses,
            accepted,
            random,
            secrets,
            registry,
            replies,
            cookie_buffer: _,
            events,
            uses_protection,
            stats,
        } = self;
        // `accepted` equals `config.association`.
        let EndpointConfig {
            port,
            local_addresses: _,
            seed: _,
            accept,
            max_associations,
            max_associations_per_source,
            receive_memory,
            secret_lifetime,
            association: _,
            source_selection: _,
        } = config;
        port.write(out);
        accept.write(out);
        max_associations.write(out);
        max_associations_per_source.write(out);
        receive_memory.write(out);
        secret_lifetime.write(out);
        accepted.write(out);
        local_addresses.write(out);
        random.write(out);
        secrets.write(out);
        registry.write(out);
        replies.write(out);
        events.write(out);
        uses_protection.write(out);
        stats.write(out);
    }

    /// Reads what [`Self::write_state`] appended.
    ///
    /// # Errors
    /// [`ImportError`].
    pub(crate) fn read_state(input: &mut Reader<'_>) -> Result<Self, ImportError> {
        let mut config = EndpointConfig {
            port: Portable::read(input)?,
            local_addresses: Vec::new(),
            // The generator is behind it.
            seed: [0; 32],
            accept: Portable::read(input)?,
            max_associations: Portable::read(input)?,
            max_associations_per_source: Portable::read(input)?,
            receive_memory: Portable::read(input)?,
            secret_lifetime: Portable::read(input)?,
            association: AssociationConfig::rfc9260(),
            source_selection: Box::new(MatchingAddress),
        };
        let accepted = alloc::sync::Arc::<AssociationConfig>::read(input)?;
        config.association = (*accepted).clone();
        config.validate().map_err(ImportError::InvalidConfig)?;
        Ok(Self {
            config,
            accepted,
            local_addresses: LocalAddresses::read(input)?,
            random: Portable::read(input)?,
            secrets: Portable::read(input)?,
            registry: Registry::read(input)?,
            replies: Replies::read(input)?,
            cookie_buffer: Vec::new(),
            events: Portable::read(input)?,
            uses_protection: Portable::read(input)?,
            stats: Portable::read(input)?,
        })
    }

    /// Sets the source address selection of an imported endpoint.
    pub(crate) fn set_source_selection(&mut self, selection: Box<dyn SourceSelection>) {
        self.config.source_selection = selection;
    }
}
