//! Listening sockets without their associations, as another process restores them after this one has ended without a
//! handover.
//!
//! A listening socket has no state of the protocol: its options, addresses and backlog are all that a later
//! association depends on. The record has the same codec as the export of all sockets ([`super::export`]).

use std::net::{IpAddr, SocketAddr};

use carrick_proto::export::{Format, Portable};
use carrick_proto::{ImportError, Time, portable_struct};

use super::Sockets;
use crate::errno::Errno;
use crate::host::calls::bind::bind_scope;
use crate::ids::{AssocId, SocketId};
use crate::ports::{Scope, import_config};
use crate::settings::Options;
use crate::table::{Family, Style};

/// Format of a listening socket.
const FORMAT: Format = Format::new(*b"carlistn");

/// A listening socket without its associations.
#[derive(Debug)]
pub struct ListenerState {
    style: Style,
    family: Family,
    options: Options,
    port: u16,
    scope: Scope,
    backlog: usize,
    is_privileged: bool,
    owner: u32,
}

portable_struct! {
    ListenerState { style, family, options, port, scope, backlog, is_privileged, owner }
}

impl ListenerState {
    /// Returns the style of the socket.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Returns the SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the addresses that were bound: a wildcard address, or single ones.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let wildcard: Vec<IpAddr> = self.scope.wildcard().into_iter().collect();
        let all = wildcard.iter().chain(self.scope.single());
        all.map(|ip| SocketAddr::new(*ip, self.port)).collect()
    }
}

impl Sockets {
    /// Returns the record of a listening socket, for [`Self::read_listener`] of another process. The same state has the
    /// same bytes. `None` if the socket does not listen, or if its options contain an algorithm or a chunk protection
    /// that can't be exported.
    pub fn export_listener(&self, id: SocketId) -> Option<Vec<u8>> {
        let socket = self.table.open(id).ok()?;
        let backlog = socket.backlog()?;
        let port = self.ports.get(socket.port()?)?;
        let state = ListenerState {
            style: socket.style(),
            family: socket.family(),
            options: socket.options().clone(),
            port: port.core().port(),
            scope: port.scope().clone(),
            backlog,
            is_privileged: socket.is_privileged(),
            owner: socket.owner(),
        };
        FORMAT.export(Time::ZERO, |out| state.write(out)).ok()
    }

    /// Reads the record of a listening socket.
    ///
    /// # Errors
    /// [`ImportError`]
    pub fn read_listener(&self, bytes: &[u8]) -> Result<ListenerState, ImportError> {
        let parts = import_config(&self.config);
        let mut input = FORMAT.open(bytes, Time::ZERO, Some(&parts))?;
        let state = ListenerState::read(&mut input)?;
        input.finish()?;
        Ok(state)
    }

    /// Returns the identifier of the next association, unless it is in use.
    pub fn next_association_id(&self) -> AssocId {
        self.associations.next_id()
    }

    /// Begins with another identifier: programs with restored one-to-many sockets may know the ones before from another
    /// process.
    pub fn skip_association_ids(&mut self, next: AssocId) {
        self.associations.set_next_id(next);
    }

    /// Creates a socket with the options, addresses and backlog of one that another process had, as `socket`,
    /// `setsockopt`, `bind`, `sctp_bindx` and `listen` do.
    ///
    /// # Errors
    /// As for [`Self::socket`], [`Self::bind`] and [`Self::listen`]; there is no socket then.
    pub fn restore_listener(&mut self, state: ListenerState) -> Result<SocketId, Errno> {
        let id = self.socket(state.style, state.family)?;
        let restored = restore(self, id, state);
        if restored.is_err() {
            // The socket has just been created.
            let _ = self.close(self.now, id);
        }
        restored.map(|()| id)
    }
}

fn restore(host: &mut Sockets, id: SocketId, state: ListenerState) -> Result<(), Errno> {
    host.set_owner(id, state.owner)?;
    host.set_privileged(id, state.is_privileged)?;
    *host.table.open_mut(id)?.options_mut() = state.options;
    bind_scope(host, id, state.port, state.scope)?;
    let backlog = i32::try_from(state.backlog).unwrap_or(i32::MAX);
    host.listen(id, backlog)
}
