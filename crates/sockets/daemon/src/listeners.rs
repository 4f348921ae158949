//! Listening descriptors that the service manager holds while the daemon runs, so that they outlast a daemon that is
//! killed: the daemon's end of the pair, which keeps the program's end open, and a record from which the next process of
//! the service makes the socket again.
//!
//! A listening socket without associations has no state of the protocol. The record is that of the socket
//! ([`Sockets::export_listener`]) with the identity of the descriptor; it is
//! stored again when an option changes. The manager never delays the task: messages that its socket has no room for are
//! sent later, and users are served in turn.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::export::{Format, Portable};
use carrick_proto::{ImportError, Time, portable_struct};
use carrick_sockets::{AssocId, Sockets, Style};

use crate::association_ids::AssociationIds;
use crate::config::MAX_STORED_LISTENERS;
use crate::descriptor::{Descriptor, Phase};
use crate::descriptors::Descriptors;
use crate::memory_file::sealed;
use crate::poller::{PAUSE, Token};
use crate::service::{ListenerStore, RecordSlot, listener_names_length};
use crate::timer::clock;
use crate::turns::Turns;
use crate::users::Owner;

/// Time before the first message of a successor: the manager accepts none until it has got the process id from the
/// predecessor.
const AFTER_HANDOVER: Duration = Duration::from_secs(2);

/// Descriptors that are compared with what the manager holds in an [`INTERVAL`]. Programs can't load the manager beyond
/// that, which serves the whole host.
const PER_INTERVAL: usize = 16;
const INTERVAL: Duration = Duration::from_millis(50);

/// Format of a record.
const FORMAT: Format = Format::new(*b"carlistd");

/// Record of a listening descriptor.
pub(crate) struct ListenerRecord {
    /// `CLOCK_MONOTONIC` in nanoseconds: the latest of several records is that of the descriptor.
    pub(crate) stored_at: u64,
    pub(crate) owner: Owner,
    pub(crate) cookie: u64,
    pub(crate) inode: u64,
    pub(crate) phase: Phase,
    /// State of the socket ([`Sockets::export_listener`]).
    pub(crate) socket: Bytes,
}

portable_struct! { ListenerRecord { stored_at, owner, cookie, inode, phase, socket } }

impl ListenerRecord {
    /// Returns a file in memory with the record.
    fn file(&self) -> io::Result<OwnedFd> {
        let bytes = FORMAT.export(Time::ZERO, |out| self.write(out));
        let bytes = bytes.map_err(io::Error::other)?;
        Ok(sealed(&bytes)?)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`ImportError`]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ImportError> {
        let mut input = FORMAT.open(bytes, Time::ZERO, None)?;
        let record = Self::read(&mut input)?;
        input.finish()?;
        Ok(record)
    }
}

/// Returns the last bytes of the state of a socket, its checksum.
fn checksum(socket: &[u8]) -> Option<[u8; 4]> {
    socket.last_chunk().copied()
}

/// Record of a descriptor that the manager holds.
#[derive(Clone, Copy, Debug)]
enum HeldRecord {
    /// None has been sent yet.
    Missing,
    /// A predecessor has stored it: the names are unknown.
    OfPredecessor,
    /// This process has stored it with a name. One with the other name may be left.
    Stored { slot: RecordSlot, is_alone: bool },
}

/// Descriptor that the manager holds.
#[derive(Debug)]
struct StoredListener {
    uid: u32,
    cookie: u64,
    /// Checksum of the socket's state in the record; `None` if it is unknown, or there is none.
    checksum: Option<[u8; 4]>,
    record: HeldRecord,
}

impl StoredListener {
    /// Stores another record if the state of the socket has changed, and removes the one before. After an error, another
    /// call continues: no name has two records then for good.
    fn replace(
        &mut self,
        store: &ListenerStore,
        sum: Option<[u8; 4]>,
        record: &ListenerRecord,
    ) -> io::Result<()> {
        if self.checksum != sum {
            if let HeldRecord::OfPredecessor = self.record {
                // One with the first name may be there. The next one has the other name, and replaces both.
                let slot = RecordSlot::First;
                store.store_record(self.cookie, slot, &record.file()?)?;
                let is_alone = false;
                self.record = HeldRecord::Stored { slot, is_alone };
            }
            self.remove_other(store)?;
            let (slot, is_alone) = match self.record {
                HeldRecord::Stored { slot, .. } => (slot.other(), false),
                HeldRecord::Missing | HeldRecord::OfPredecessor => (RecordSlot::First, true),
            };
            // Another file: the manager would ignore one that it has under the other name.
            store.store_record(self.cookie, slot, &record.file()?)?;
            self.record = HeldRecord::Stored { slot, is_alone };
            self.checksum = sum;
        }
        self.remove_other(store)
    }

    fn remove_other(&mut self, store: &ListenerStore) -> io::Result<()> {
        if let HeldRecord::Stored { slot, is_alone } = &mut self.record
            && !*is_alone
        {
            store.remove_record(self.cookie, slot.other())?;
            *is_alone = true;
        }
        Ok(())
    }
}

/// Listening descriptors and the manager that holds them.
#[derive(Debug)]
pub(crate) struct Listeners {
    store: Option<ListenerStore>,
    /// Maximum number of descriptors that the manager holds.
    limit: usize,
    stored: BTreeMap<Token, StoredListener>,
    /// Number of descriptors of each user that the manager holds.
    by_user: BTreeMap<u32, usize>,
    /// Descriptors to be compared with what the manager holds.
    turns: Turns,
    /// Descriptors that exceed the limit.
    beyond: Turns,
    /// Time of the next message, after the manager could not be reached or has got as many as it should.
    retry: Option<Time>,
    /// End of the interval, and the number of descriptors that may be compared in it.
    interval: (Time, usize),
    /// Identifiers of associations, in a file that the manager holds since the first one-to-many socket.
    ids: Option<AssociationIds>,
    limit_logged: bool,
    failure_logged: bool,
    log: fn(&str),
}

impl Listeners {
    /// Returns those of a daemon without a manager.
    pub(crate) fn new(limit: usize, log: fn(&str)) -> Self {
        Self {
            store: None,
            limit: limit.min(MAX_STORED_LISTENERS),
            stored: BTreeMap::new(),
            by_user: BTreeMap::new(),
            turns: Turns::default(),
            beyond: Turns::default(),
            retry: None,
            interval: (Time::ZERO, 0),
            ids: None,
            limit_logged: false,
            failure_logged: false,
            log,
        }
    }

    /// Lets the manager hold listening descriptors from now on, if there is one with a descriptor store.
    pub(crate) fn start(&mut self) {
        if let Some(capacity) = ListenerStore::capacity() {
            self.limit = self.limit.min(capacity);
        }
        if self.limit == 0 {
            return;
        }
        match ListenerStore::connect() {
            Ok(store) => self.store = store,
            Err(error) => self.log_failure(&error),
        }
    }

    /// As [`Self::start`], for a successor. The manager may hold those with the cookies of `is_stored` with the records of
    /// the predecessor.
    pub(crate) fn succeed(
        &mut self,
        descriptors: &Descriptors,
        sockets: &Sockets,
        is_stored: impl Fn(u64) -> bool,
    ) {
        self.start();
        if self.store.is_none() {
            return;
        }
        for (token, descriptor) in listening(descriptors, sockets) {
            let (uid, cookie) = (descriptor.uid(), descriptor.cookie());
            if is_stored(cookie) && self.has_room(uid) {
                self.insert(token, uid, cookie, (None, HeldRecord::OfPredecessor));
            }
            self.turns.insert(uid, token);
        }
    }

    /// Sends no message until the manager accepts those of this process.
    pub(crate) fn wait_after_handover(&mut self, now: Time) {
        self.retry = Some(now + AFTER_HANDOVER);
    }

    /// Returns whether the manager holds the descriptor with a cookie.
    pub(crate) fn holds(&self, cookie: u64) -> bool {
        self.stored.values().any(|stored| stored.cookie == cookie)
    }

    /// Returns the length of the names of all that the manager holds.
    pub(crate) fn names_length(&self) -> usize {
        let stored = self.stored.values();
        stored
            .map(|stored| listener_names_length(stored.cookie))
            .sum()
    }

    /// Queues a descriptor that has begun to listen, or whose state may have changed.
    pub(crate) fn check(&mut self, uid: u32, token: Token) {
        if self.store.is_some() {
            self.turns.insert(uid, token);
        }
    }

    /// Queues a descriptor that the manager holds: its socket has changed or is closed.
    pub(crate) fn check_stored(&mut self, token: Token) {
        if let Some(stored) = self.stored.get(&token) {
            self.turns.insert(stored.uid, token);
        }
    }

    /// Continues the identifiers of associations of a predecessor that was killed. Returns the next one.
    pub(crate) fn continue_ids(&mut self, file: OwnedFd) -> Option<AssocId> {
        self.ids = AssociationIds::adopt(file);
        self.ids.as_ref().map(AssociationIds::end)
    }

    /// Returns whether the identifiers of associations are known that programs may have from a predecessor.
    pub(crate) fn has_ids(&self) -> bool {
        self.ids.is_some()
    }

    /// Reserves identifiers of associations before they are used.
    pub(crate) fn reserve_ids(&mut self, next: AssocId) {
        if let Some(ids) = &mut self.ids {
            ids.reserve(next);
        }
    }

    /// Adds a descriptor that was restored by a record of the manager.
    pub(crate) fn add_restored(&mut self, token: Token, record: &ListenerRecord) {
        if self.store.is_some() {
            let stored = (checksum(&record.socket), HeldRecord::OfPredecessor);
            self.insert(token, record.owner.uid, record.cookie, stored);
        }
    }

    /// Lets the manager close descriptors that the daemon does not restore, before it serves programs.
    pub(crate) fn discard(&mut self, cookies: impl Iterator<Item = u64>) {
        if let Some(store) = &self.store
            && let Err(error) = store.remove_all(cookies)
        {
            self.log_failure(&error);
        }
    }

    /// Queues the descriptors of a user that the manager holds, or those of all users, after a change that concerns
    /// several of them.
    pub(crate) fn check_all(&mut self, uid: Option<u32>) {
        for (token, stored) in &self.stored {
            if uid.is_none_or(|uid| uid == stored.uid) {
                self.turns.insert(stored.uid, *token);
            }
        }
    }

    /// Returns the time of the next message to the manager, if there is one to be sent later.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.retry.filter(|_| !self.turns.is_empty())
    }

    /// Lets the manager close all descriptors, since the daemon ends or hands over to the next process of the service.
    pub(crate) fn close(&mut self) {
        let stored = std::mem::take(&mut self.stored);
        self.by_user.clear();
        if let Some(store) = self.store.take()
            && let Err(error) = store
                .remove_all(stored.values().map(|stored| stored.cookie))
                .and_then(|()| store.remove_associations())
        {
            self.log_failure(&error);
        }
    }

    /// Removes the next descriptor to be compared; none while the manager cannot be reached, or has got as many messages
    /// as it should.
    pub(crate) fn next_turn(&mut self, now: Time) -> Option<(u32, Token)> {
        if self.turns.is_empty() || self.retry.is_some_and(|at| at > now) {
            return None;
        }
        self.retry = None;
        if self.interval.0 <= now {
            self.interval = (now + INTERVAL, PER_INTERVAL);
        }
        let (end, left) = self.interval;
        let Some(left) = left.checked_sub(1) else {
            self.retry = Some(end);
            return None;
        };
        self.interval.1 = left;
        self.turns.next()
    }

    /// Compares a descriptor, `None` if the program has closed it, with what the manager holds: removes it if it does not
    /// listen any more, and stores it if it does and its record has changed. If the manager cannot be reached, the
    /// descriptor is compared again later.
    pub(crate) fn update(
        &mut self,
        now: Time,
        (uid, token): (u32, Token),
        descriptor: Option<&Descriptor>,
        sockets: &Sockets,
    ) {
        if let Err(error) = self.try_update((uid, token), descriptor, sockets) {
            self.turns.insert(uid, token);
            self.retry = Some(now + INTERVAL);
            if error.kind() != io::ErrorKind::WouldBlock {
                self.retry = Some(now + PAUSE);
                self.log_failure(&error);
                // Another manager may have taken its place.
                if let Ok(Some(store)) = ListenerStore::connect() {
                    self.store = Some(store);
                }
            }
        }
    }

    fn try_update(
        &mut self,
        (uid, token): (u32, Token),
        descriptor: Option<&Descriptor>,
        sockets: &Sockets,
    ) -> io::Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let record = descriptor.and_then(|d| Some((d, record_of(sockets, d)?)));
        let Some((descriptor, record)) = record else {
            match self.stored.get(&token) {
                Some(stored) => {
                    store.remove(stored.cookie)?;
                    self.remove(token);
                }
                // It may have got the place of another one beyond the limit.
                None => self.queue_beyond(),
            }
            return Ok(());
        };
        let status = sockets.status(descriptor.socket());
        if self.ids.is_none() && status.is_ok_and(|status| status.style == Style::OneToMany) {
            let ids = AssociationIds::create(sockets.next_association_id())?;
            store.store_associations(ids.file())?;
            self.ids = Some(ids);
        }
        let sum = checksum(&record.socket);
        if !self.stored.contains_key(&token) {
            if !self.has_room(uid) {
                self.beyond.insert(uid, token);
                self.log_limit(uid);
                return Ok(());
            }
            let Some(ours) = descriptor.ours() else {
                return Ok(());
            };
            // From now on it has its place, also if its record has to be sent later.
            store.store_end(record.cookie, ours)?;
            self.insert(token, uid, record.cookie, (None, HeldRecord::Missing));
        }
        let (Some(store), Some(stored)) = (&self.store, self.stored.get_mut(&token)) else {
            return Ok(());
        };
        if let HeldRecord::OfPredecessor = stored.record
            && let Some(ours) = descriptor.ours()
        {
            // The predecessor may not have stored it, as one beyond the limit.
            store.store_end(stored.cookie, ours)?;
        }
        stored.replace(store, sum, &record)
    }

    /// Returns whether the manager may hold another descriptor of a user: as many as are still free for all users, so
    /// that a single user takes half of them.
    fn has_room(&self, uid: u32) -> bool {
        let own = self.by_user.get(&uid).copied().unwrap_or_default();
        own < self.limit.saturating_sub(self.stored.len())
    }

    fn insert(
        &mut self,
        token: Token,
        uid: u32,
        cookie: u64,
        (checksum, record): (Option<[u8; 4]>, HeldRecord),
    ) {
        let stored = StoredListener {
            uid,
            cookie,
            checksum,
            record,
        };
        self.stored.insert(token, stored);
        *self.by_user.entry(uid).or_default() += 1;
    }

    /// Removes a descriptor that the manager does not hold any more. Another one may have its place.
    fn remove(&mut self, token: Token) {
        let Some(stored) = self.stored.remove(&token) else {
            return;
        };
        if let Some(own) = self.by_user.get_mut(&stored.uid) {
            *own -= 1;
            if *own == 0 {
                self.by_user.remove(&stored.uid);
            }
        }
        self.queue_beyond();
    }

    /// Queues a descriptor beyond the limit, for which there may be a place.
    fn queue_beyond(&mut self) {
        if let Some((uid, token)) = self.beyond.next() {
            self.turns.insert(uid, token);
        }
    }

    fn log_limit(&mut self, uid: u32) {
        if !std::mem::replace(&mut self.limit_logged, true) {
            let own = self.by_user.get(&uid).copied().unwrap_or_default();
            (self.log)(&format!(
                "further listening sockets of user {uid} end with the daemon if it is killed: the service manager holds {own} \
                 of this user and {} of all users; limits.stored-listeners (at most {MAX_STORED_LISTENERS}) and a third of \
                 FileDescriptorStoreMax= of the unit limit it to {}",
                self.stored.len(),
                self.limit
            ));
        }
    }

    fn log_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failure_logged, true) {
            (self.log)(&format!(
                "the service manager does not hold listening sockets (NOTIFY_SOCKET): {error}"
            ));
        }
    }
}

/// Returns the descriptors that listen.
pub(crate) fn listening<'a>(
    descriptors: &'a Descriptors,
    sockets: &'a Sockets,
) -> impl Iterator<Item = (Token, &'a Descriptor)> {
    let listens = |d: &Descriptor| {
        let status = sockets.status(d.socket());
        !d.is_ended() && status.is_ok_and(|status| status.is_listening)
    };
    descriptors.iter().filter(move |(_, d)| listens(d))
}

/// Returns the record of a descriptor, if it listens.
fn record_of(sockets: &Sockets, descriptor: &Descriptor) -> Option<ListenerRecord> {
    if descriptor.is_ended() || descriptor.is_closed() {
        return None;
    }
    Some(ListenerRecord {
        stored_at: clock(),
        owner: descriptor.owner(),
        cookie: descriptor.cookie(),
        inode: descriptor.inode(),
        phase: descriptor.phase(),
        socket: sockets.export_listener(descriptor.socket())?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_gets_few_messages_at_once() {
        let mut listeners = Listeners::new(usize::MAX, |_| ());
        assert_eq!(listeners.limit, MAX_STORED_LISTENERS);
        for token in 1..=40 {
            listeners.turns.insert(7, Token(token));
        }
        listeners.turns.insert(8, Token(41));
        let mut now = Time::ZERO + Duration::from_secs(1);
        for expected in [16, 16, 9] {
            let turns: Vec<_> = std::iter::from_fn(|| listeners.next_turn(now)).collect();
            assert_eq!(turns.len(), expected);
            assert!(expected != 16 || listeners.next_timeout() == Some(now + INTERVAL));
            now += INTERVAL;
        }
        assert_eq!(listeners.next_timeout(), None);
    }

    #[test]
    fn users_share_what_the_manager_holds() {
        let mut listeners = Listeners::new(4, |_| ());
        for token in [1, 2] {
            assert!(listeners.has_room(7));
            listeners.insert(Token(token), 7, token, (None, HeldRecord::Missing));
        }
        assert!(!listeners.has_room(7) && listeners.has_room(8));
        listeners.beyond.insert(7, Token(3));
        listeners.remove(Token(1));
        assert!(listeners.has_room(7));
        assert_eq!(listeners.turns.next(), Some((7, Token(3))));
    }
}
