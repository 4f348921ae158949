//! Export of all sockets of a host, and their import by another process: handover.
//!
//! The state consists of the fields of the sockets and associations, which are listed beside each struct, and of the
//! exports of the endpoints. Indexes and counters are not stored but rebuilt, and references between sockets,
//! associations and ports are checked, so that no later call fails because of an imported state.

use std::collections::BTreeMap;
use std::fmt;

use carrick_proto::export::{ExportReader, ExportWriter, Format, Portable};
use carrick_proto::{ExportError, ImportError, Time};

use super::reports::Reports;
use super::{SetupResults, Sockets};
use crate::associations::{Association, Associations};
use crate::config::Config;
use crate::errno::Errno;
use crate::host::memory::count_buffers;
use crate::ids::{AssocId, PortId, SocketId};
use crate::ports::{Port, Ports, import_config, read_endpoint, write_endpoint};
use crate::table::{Socket, SocketTable};

/// Format of the sockets.
const FORMAT: Format = Format::new(*b"carsocks");

/// State of all sockets of a host, exported by [`Sockets::export`].
///
/// It contains secrets and messages of the users, as [`carrick_proto::EndpointExport`] does. `Debug` shows its
/// length only.
#[derive(Clone, PartialEq, Eq)]
pub struct SocketsExport(Vec<u8>);

impl SocketsExport {
    /// Returns the bytes, for [`Sockets::import`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes, for [`Sockets::import`].
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for SocketsExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SocketsExport({} bytes)", self.0.len())
    }
}

impl Sockets {
    /// Exports all sockets with their associations, so that another process can continue them with
    /// [`Self::import`], at any moment between two calls. Packets, readiness and messages that these sockets return
    /// after the export are unknown to the successor: drop them, without another call.
    ///
    /// # Errors
    /// [`ExportError`], if a congestion controller or chunk protection of [`Config::association`] can't be
    /// exported.
    pub fn export(&self, now: Time) -> Result<SocketsExport, ExportError> {
        FORMAT
            .export(now, |out| write_state(self, out))
            .map(SocketsExport)
    }

    /// Continues the sockets that others exported with [`Self::export`]. Sockets, their options, associations, and
    /// the addresses of the host are those of the export, and identifiers remain valid. `config` applies to new
    /// sockets, its limits to all; its addresses and seed have no effect.
    ///
    /// `now` is the moment of the export by this program's clock, as for [`carrick_proto::Endpoint::import`]. Outputs are to be
    /// drained next.
    ///
    /// # Errors
    /// [`ImportError`]. Memory is bounded by a small multiple of the bytes.
    pub fn import(config: Config, now: Time, bytes: &[u8]) -> Result<Self, ImportError> {
        let parts = import_config(&config);
        let mut input = FORMAT.open(bytes, now, Some(&parts))?;
        let sockets = read_state(&mut input, config)?;
        input.finish()?;
        Ok(sockets)
    }
}

fn write_state(sockets: &Sockets, out: &mut ExportWriter) {
    let Sockets {
        config,
        random,
        now: _,
        table,
        associations,
        ports,
        stray,
        removed,
        setups,
        reports: _,
    } = sockets;
    let (associations, next_association, closing) = associations.exported();
    let (ports, next_port) = ports.exported();
    let (sockets, next_socket, changed) = table.exported();
    // First, so that another version of the core is detected before its parts are read.
    write_endpoint(stray, out);
    config.addresses.write(out);
    random.write(out);
    ports.len().write(out);
    for (id, port) in ports {
        id.write(out);
        port.write_state(out);
    }
    sockets.write(out);
    associations.write(out);
    next_socket.write(out);
    next_association.write(out);
    next_port.write(out);
    removed.write(out);
    closing.write(out);
    changed.write(out);
    setups.len().write(out);
    for (id, result) in setups {
        id.write(out);
        result.err().write(out);
    }
}

fn read_state(input: &mut ExportReader<'_>, mut config: Config) -> Result<Sockets, ImportError> {
    let stray = read_endpoint(input, &config)?;
    config.addresses = Portable::read(input)?;
    let random = Portable::read(input)?;
    let ports = read_ports(input, &config)?;
    let sockets = Portable::read(input)?;
    let associations = Portable::read(input)?;
    let next_socket = Portable::read(input)?;
    let next_association = Portable::read(input)?;
    let ports = Ports::imported(ports, Portable::read(input)?)?;
    let removed = Portable::read(input)?;
    let closing = Portable::read(input)?;
    let associations = Associations::imported(associations, next_association, closing, &ports)?;
    let mut sockets = Sockets {
        stray,
        random,
        now: input.now(),
        ports,
        removed,
        associations,
        table: SocketTable::imported(sockets, next_socket, Portable::read(input)?)?,
        setups: read_setups(input)?,
        reports: Reports::default(),
        config,
    };
    check(&sockets)?;
    rebuild(&mut sockets);
    Ok(sockets)
}

/// Checks the references between sockets, associations and ports.
fn check(sockets: &Sockets) -> Result<(), ImportError> {
    let mut all = sockets.table.from(SocketId(0));
    if !all.all(|(id, socket)| is_valid_socket(sockets, id, socket)) {
        return Err(ImportError::Malformed("Socket"));
    }
    let mut associations = sockets.associations.iter();
    if !associations.all(|(_, association)| is_valid_association(sockets, association)) {
        return Err(ImportError::Malformed("Association"));
    }
    Ok(())
}

fn is_valid_socket(sockets: &Sockets, id: SocketId, socket: &Socket) -> bool {
    let has = |association: &AssocId| {
        let found = sockets.associations.get(*association);
        found.is_some_and(|a| a.socket() == Some(id))
    };
    let port = socket.port().map(|port| sockets.ports.get(port).is_some());
    port != Some(false) && socket.full().iter().all(has) && socket.queue().is_valid(has)
}

fn is_valid_association(sockets: &Sockets, association: &Association) -> bool {
    let (port_id, core) = association.core();
    let Some(port) = sockets.ports.get(port_id) else {
        return false;
    };
    let socket = association.socket().map(|socket| sockets.table.get(socket));
    let has_port = |socket: Option<&Socket>| socket.is_some_and(|s| s.port() == Some(port_id));
    socket.is_none_or(has_port)
        && (port.core().association(core).is_some() || !association.is_open())
}

/// Connects sockets, associations and ports, and counts the buffers of the associations.
fn rebuild(sockets: &mut Sockets) {
    for (id, socket) in sockets.table.from(SocketId(0)) {
        if let Some(port) = socket.port() {
            sockets.ports.join(port, id, socket.owner());
        }
    }
    for (id, association) in sockets.associations.iter() {
        sockets.ports.add_association(association.core().0);
        let socket = association
            .socket()
            .and_then(|id| sockets.table.get_mut(id));
        if let Some(socket) = socket {
            socket.add_association(id);
        }
    }
    for port in sockets.ports.ids() {
        count_buffers(sockets, port);
    }
}

fn read_ports(
    input: &mut ExportReader<'_>,
    config: &Config,
) -> Result<BTreeMap<PortId, Port>, ImportError> {
    let count = usize::read(input)?;
    let mut ports: BTreeMap<PortId, Port> = BTreeMap::new();
    for _ in 0..count {
        let id = PortId::read(input)?;
        if ports.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(ImportError::Malformed("order of the ports"));
        }
        ports.insert(id, Port::read_state(input, config)?);
    }
    Ok(ports)
}

fn read_setups(input: &mut ExportReader<'_>) -> Result<SetupResults, ImportError> {
    let count = usize::read(input)?;
    let mut setups = SetupResults::new();
    for _ in 0..count {
        let (id, error) = Portable::read(input)?;
        setups.push_back((id, Option::<Errno>::map_or(error, Ok(()), Err)));
    }
    Ok(setups)
}
