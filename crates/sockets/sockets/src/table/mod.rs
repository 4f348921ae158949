//! Sockets of the host, their accept queues, and the changes of their readiness.

mod readiness;
mod receive_queue;
mod socket;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use carrick_proto::{ImportError, SourceKey};

use crate::errno::Errno;
use crate::ids::{AssocId, SocketId, check_next};

pub use readiness::{Readiness, ReadinessChange};
use receive_queue::ReceiveQueue;
pub(crate) use receive_queue::{DataItem, ReceiveContent, ReceiveEntry};
use socket::Holder;
pub(crate) use socket::Socket;
pub use socket::{Family, Style};

/// Sockets by their identifiers, those in accept queues included.
#[derive(Debug, Default)]
pub(crate) struct SocketTable {
    by_id: BTreeMap<SocketId, Socket>,
    next: u64,
    /// Sockets with edges of the readiness that have not been polled, each once.
    changed: VecDeque<SocketId>,
}

impl SocketTable {
    /// Adds a socket.
    ///
    /// # Errors
    /// `EMFILE` if there are `max` sockets.
    pub(crate) fn insert(&mut self, socket: Socket, max: usize) -> Result<SocketId, Errno> {
        if self.by_id.len() >= max {
            return Err(Errno::EMFILE);
        }
        let id = SocketId(self.next);
        self.next += 1;
        self.by_id.insert(id, socket);
        Ok(id)
    }

    /// Adds a socket for an association with a peer to the accept queue of a listening one.
    ///
    /// # Errors
    /// `EMFILE` if there are `max` sockets, `EBADF` without the listening one.
    pub(crate) fn enqueue(
        &mut self,
        listener: SocketId,
        peer: SocketAddr,
        source: SourceKey,
        max: usize,
    ) -> Result<SocketId, Errno> {
        let listening = self.get(listener).ok_or(Errno::EBADF)?;
        let id = self.insert(listening.queued(listener, peer, source), max)?;
        if let Some(listening) = self.by_id.get_mut(&listener) {
            listening.accept_queue.push_back(id);
        }
        self.raise(listener, Readiness::READABLE);
        Ok(id)
    }

    /// Removes and returns the first socket in the accept queue of a listening one.
    pub(crate) fn accept(&mut self, listener: SocketId) -> Option<SocketId> {
        let accepted = self.by_id.get_mut(&listener)?.accept_queue.pop_front()?;
        self.by_id.get_mut(&accepted)?.holder = Holder::USER;
        Some(accepted)
    }

    /// Removes a socket. Those in its accept queue are to be removed next.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Socket> {
        let socket = self.by_id.remove(&id)?;
        if !socket.edges().is_empty() {
            self.changed.retain(|changed| *changed != id);
        }
        Some(socket)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.by_id.get_mut(&id)
    }

    /// Returns a socket that the user has: not one in an accept queue.
    ///
    /// # Errors
    /// `EBADF`
    pub(crate) fn open(&self, id: SocketId) -> Result<&Socket, Errno> {
        let socket = self.get(id).filter(|socket| socket.is_accepted());
        socket.ok_or(Errno::EBADF)
    }

    /// Returns a socket that the user has, to change it.
    ///
    /// # Errors
    /// `EBADF`
    pub(crate) fn open_mut(&mut self, id: SocketId) -> Result<&mut Socket, Errno> {
        let socket = self.get_mut(id).filter(|socket| socket.is_accepted());
        socket.ok_or(Errno::EBADF)
    }

    /// Returns the sockets from an identifier on, in the order of their creation.
    pub(crate) fn from(&self, first: SocketId) -> impl Iterator<Item = (SocketId, &Socket)> {
        let sockets = self.by_id.range(first..);
        sockets.map(|(id, socket)| (*id, socket))
    }

    /// Returns all sockets, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SocketId, &mut Socket)> {
        self.by_id.iter_mut().map(|(id, socket)| (*id, socket))
    }

    /// Moves an association with its messages and notifications to another socket.
    pub(crate) fn move_association(&mut self, id: AssocId, from: SocketId, to: SocketId) {
        // Taken out of the table, to have both queues at hand.
        let Some(mut socket) = self.by_id.remove(&from) else {
            return;
        };
        let was_full = socket.remove_association(id);
        if let Some(branched) = self.by_id.get_mut(&to) {
            branched.add_association(id);
            socket.queue.move_to(id, &mut branched.queue);
            branched.set_full(id, was_full);
        }
        self.by_id.insert(from, socket);
    }

    /// Queues a socket with these edges of its readiness, unless it is in an accept queue.
    pub(crate) fn raise(&mut self, id: SocketId, edges: Readiness) {
        let holder = self.by_id.get_mut(&id).map(|socket| &mut socket.holder);
        let Some(Holder::User { edges: before }) = holder else {
            return;
        };
        if before.is_empty() && !edges.is_empty() {
            self.changed.push_back(id);
        }
        *before |= edges;
    }

    /// Queues a socket with all conditions that are in place as edges.
    pub(crate) fn raise_all(&mut self, id: SocketId) {
        if let Some(socket) = self.get(id) {
            self.raise(id, socket.readiness());
        }
    }

    /// Removes and returns the next change of the readiness of a socket.
    pub(crate) fn next_change(&mut self) -> Option<ReadinessChange> {
        let id = self.changed.pop_front()?;
        let socket = self.by_id.get_mut(&id)?;
        Some(ReadinessChange {
            socket: id,
            edges: socket.take_edges(),
            level: socket.readiness(),
        })
    }

    /// Returns the state that is exported: the sockets, the next identifier, and the changed sockets.
    pub(crate) fn exported(&self) -> (&BTreeMap<SocketId, Socket>, u64, &VecDeque<SocketId>) {
        (&self.by_id, self.next, &self.changed)
    }

    /// Returns the sockets of an export.
    ///
    /// # Errors
    /// [`ImportError`] if the parts of the state contradict each other.
    pub(crate) fn imported(
        mut by_id: BTreeMap<SocketId, Socket>,
        next: u64,
        changed: VecDeque<SocketId>,
    ) -> Result<Self, ImportError> {
        check_next(next, by_id.keys().next_back().map(|id| id.0))?;
        let is_queued = |child: &SocketId, listener: SocketId| {
            let child = by_id.get(child).map(|child| &child.holder);
            matches!(child, Some(Holder::AcceptQueue { listener: holder, .. }) if *holder == listener)
        };
        let is_right = |(id, socket): (&SocketId, &Socket)| {
            let queue = &socket.accept_queue;
            let may_accept = socket.is_one_to_one() && socket.is_accepted();
            (queue.is_empty() || may_accept) && queue.iter().all(|child| is_queued(child, *id))
        };
        let queued = by_id.values().flat_map(|socket| &socket.accept_queue);
        let unaccepted = by_id.values().filter(|socket| !socket.is_accepted());
        let distinct: BTreeSet<&SocketId> = queued.clone().collect();
        let is_exact = queued.count() == distinct.len() && distinct.len() == unaccepted.count();
        if !is_exact || !by_id.iter().all(is_right) {
            return Err(ImportError::Malformed("accept queue"));
        }
        let listed: BTreeSet<&SocketId> = changed.iter().collect();
        let has_edges = by_id
            .iter()
            .filter(|(_, socket)| !socket.edges().is_empty());
        if listed.len() != changed.len() || !has_edges.map(|(id, _)| id).eq(listed) {
            return Err(ImportError::Malformed("changed sockets"));
        }
        for socket in by_id.values_mut() {
            socket.queue.count();
        }
        Ok(Self {
            by_id,
            next,
            changed,
        })
    }
}
