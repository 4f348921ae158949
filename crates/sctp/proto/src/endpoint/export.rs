//! Export and import of an endpoint with all its associations. The indexes of the registry are rebuilt.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::{Endpoint, EndpointConfig, ImportConfig, PacketRun, Registry, Replies};
use crate::addresses::LocalAddresses;
use crate::config::AssociationConfig;
use crate::export::{ExportError, ExportReader, ExportWriter, Format, ImportError, Portable};
use crate::route::MatchingAddress;
use crate::time::Time;

/// Format of an endpoint.
const FORMAT: Format = Format::new(*b"carrick\x1a");

/// State of an endpoint and of all its associations, exported by [`Endpoint::export`].
///
/// It contains secrets: the key of State Cookies, the state of the random number generator, shared keys, and
/// messages of the user. Keep it where only the successor can read it, and erase it after the import. `Debug` shows its
/// length only.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointExport(Vec<u8>);

impl EndpointExport {
    /// Returns the bytes, for [`Endpoint::import`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes, for [`Endpoint::import`].
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for EndpointExport {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EndpointExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointExport({} bytes)", self.0.len())
    }
}

impl Endpoint {
    /// Exports the endpoint with all its associations, so that another process can continue them with
    /// [`Self::import`], at any moment: during set-up and shutdown, with data outstanding, incomplete messages, and
    /// events and messages that the user has not fetched. Packets, events and messages that this endpoint returns after
    /// the export are unknown to the successor: drop it, without another call.
    ///
    /// The export is as large as the data in the buffers, and one to two kilobytes for each association.
    ///
    /// # Errors
    /// [`ExportError`], if a congestion controller or chunk protection of the user can't be exported.
    pub fn export(&self, now: Time) -> Result<EndpointExport, ExportError> {
        let bytes = FORMAT.export(now, |out| self.write_state(out))?;
        Ok(EndpointExport(bytes))
    }

    /// Continues the endpoint that another one exported with [`Self::export`]. Its parameters, also those that changed
    /// at run time, associations and local addresses are those of the export; identifiers of associations remain valid.
    ///
    /// `now` is the moment of the export by this program's clock: all timers and round-trip times continue from
    /// there. If both programs read the same clock, pass the time of the export, and call [`Self::handle_timeout`] with
    /// the present time next; if the time between the two is unknown, pass the present time. Moments of the past that
    /// are before the epoch of this program's clock count as its epoch: let it begin at an hour, for instance, and not
    /// at zero.
    ///
    /// # Errors
    /// [`ImportError`]. Memory is bounded by a small multiple of the bytes.
    pub fn import(config: ImportConfig, now: Time, bytes: &[u8]) -> Result<Self, ImportError> {
        let mut input = FORMAT.open(bytes, now, Some(&config))?;
        let mut endpoint = Self::read_state(&mut input)?;
        input.finish()?;
        endpoint.config.source_selection = config.source_selection;
        Ok(endpoint)
    }

    /// Appends the state of the endpoint.
    fn write_state(&self, out: &mut ExportWriter) {
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
            run: _,
            stats,
            observer: _,
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
            shard: _,
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
    fn read_state(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
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
            shard: None,
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
            run: PacketRun::default(),
            stats: Portable::read(input)?,
            observer: None,
        })
    }
}
