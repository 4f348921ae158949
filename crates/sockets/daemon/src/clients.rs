//! Connections of processes to the control socket.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use carrick_proto::Time;
use rustix::io::Errno as SystemErrno;
use rustix::net::{SocketFlags, accept_with};

use crate::connection::peer_of;
use crate::poller::{PAUSE, Poller, Token};
use crate::turns::Turns;
use crate::users::{Owner, Users};

/// Limit of connections that are accepted in one round.
const ACCEPTED: usize = 64;
/// Connections beyond the limit of a user that get an answer.
const REFUSED_CLIENTS: usize = 16;

/// Connection of a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) connection: OwnedFd,
    /// The process is 0 in a process namespace that this one does not see, such as another container of a pod.
    pub(crate) owner: Owner,
    /// Beyond the limit of its user: its first request is refused, and ends it.
    pub(crate) is_refused: bool,
}

/// The control socket with its connections.
#[derive(Debug)]
pub(crate) struct Clients {
    control: Arc<OwnedFd>,
    /// The daemon has created the path of the control socket, and removes it.
    owns_path: bool,
    by_token: BTreeMap<Token, Client>,
    /// Turns of connections with requests.
    turns: Turns,
    /// Time at which connections are accepted again after an error of the system.
    accept_again: Option<Time>,
    /// Connection of a process that takes over after this round.
    successor: Option<Client>,
    /// Buffer of received requests.
    buffer: Vec<u8>,
}

impl Clients {
    pub(crate) fn new(control: Arc<OwnedFd>, owns_path: bool) -> Self {
        Self {
            control,
            owns_path,
            by_token: BTreeMap::new(),
            turns: Turns::default(),
            accept_again: None,
            successor: None,
            buffer: Vec::new(),
        }
    }

    /// Returns the control socket.
    pub(crate) fn control(&self) -> &OwnedFd {
        &self.control
    }

    /// Returns whether the daemon has created the path of the control socket.
    pub(crate) fn owns_path(&self) -> bool {
        self.owns_path
    }

    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Returns all connections in the order of their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &Client)> {
        self.by_token.iter().map(|(token, client)| (*token, client))
    }

    /// Adds a connection.
    pub(crate) fn insert(&mut self, users: &mut Users, token: Token, client: Client) {
        users.add_client(client.owner.uid);
        self.by_token.insert(token, client);
    }

    /// Takes a connection out while its request is processed.
    pub(crate) fn take(&mut self, token: Token) -> Option<Client> {
        self.by_token.remove(&token)
    }

    /// Returns a connection that was taken out.
    pub(crate) fn put_back(&mut self, token: Token, client: Client) {
        self.by_token.insert(token, client);
    }

    /// Removes all connections.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Client> {
        std::mem::take(&mut self.by_token).into_values()
    }

    /// Accepts connections of the control socket, whose event is repeated while more wait. Without file descriptors
    /// or memory it waits for a while.
    pub(crate) fn accept(&mut self, now: Time, poller: &mut Poller, users: &mut Users) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTED {
            let connection = match accept_with(&self.control, flags) {
                Ok(connection) => connection,
                Err(SystemErrno::AGAIN) => return,
                Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => continue,
                Err(error) => {
                    users.record_failure("no program can connect for 1 s", error);
                    // The event of the control socket would be repeated without pause.
                    poller.unwatch(&self.control);
                    self.accept_again = Some(now + PAUSE);
                    return;
                }
            };
            match peer_of(&connection) {
                Ok((uid, process)) => self.admit(poller, users, connection, Owner { uid, process }),
                Err(error) => {
                    users.record_failure("a program without known user is refused", error);
                    users.close_files(u32::MAX, [connection]);
                }
            }
        }
    }

    /// Adds a connection that was accepted, or closes it. Beyond the limit of its user it is added as refused: closed at
    /// once, it would look like a missing daemon.
    fn admit(&mut self, poller: &mut Poller, users: &mut Users, connection: OwnedFd, owner: Owner) {
        let uid = owner.uid;
        let is_refused = users.check_clients(uid).is_err();
        if is_refused {
            let refused = format!("a program of user {uid} is refused");
            users.record_failure(&refused, SystemErrno::MFILE);
        }
        if users.is_behind(uid) || is_refused && !self.may_refuse(users, uid) {
            users.closers().refuse(uid, connection);
            return;
        }
        users.closers().admit(&connection);
        match poller.watch(&connection) {
            Ok(token) => {
                let client = Client {
                    connection,
                    owner,
                    is_refused,
                };
                self.insert(users, token, client);
            }
            Err(_) => users.close_files(uid, [connection]),
        }
    }

    /// Returns whether another connection beyond the limit of a user may wait for its first request, which is
    /// refused with an error; a program sends it right after it has connected.
    fn may_refuse(&self, users: &Users, uid: u32) -> bool {
        let refused = self.by_token.values();
        let refused = refused.filter(|client| client.is_refused && client.owner.uid == uid);
        refused.count() < REFUSED_CLIENTS.min(users.free_files())
    }

    /// Returns the time at which connections are accepted again.
    pub(crate) fn accept_again(&self) -> Option<Time> {
        self.accept_again
    }

    /// Accepts connections again, if it is time. Returns whether it is.
    pub(crate) fn expire_pause(&mut self, now: Time, poller: &Poller) -> bool {
        let is_due = self.accept_again.is_some_and(|at| at <= now);
        if is_due {
            let watched = poller.watch_control(&self.control);
            self.accept_again = watched.is_err().then_some(now + PAUSE);
        }
        is_due
    }

    /// Queues a turn of a client. Returns false if the token is that of something else.
    pub(crate) fn set_ready(&mut self, token: Token) -> bool {
        let client = self.by_token.get(&token);
        client.is_some_and(|client| {
            self.turns.insert(client.owner.uid, token);
            true
        })
    }

    /// Removes the next turn. Users whose files are still to be closed wait ([`Self::resume`]).
    pub(crate) fn next_turn(&mut self, users: &Users) -> Option<Token> {
        loop {
            let (uid, token) = self.turns.next()?;
            if !users.is_behind(uid) {
                return Some(token);
            }
            self.turns.insert(uid, token);
            self.turns.suspend(uid);
        }
    }

    /// Serves the requests of a user again whose files have been closed.
    pub(crate) fn resume(&mut self, uid: u32) {
        self.turns.resume(uid);
    }

    /// Returns whether clients have requests.
    pub(crate) fn is_busy(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Takes the buffer of received requests, empty at first.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Returns the buffer of received requests.
    pub(crate) fn return_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Lets a process take over after this round.
    pub(crate) fn set_successor(&mut self, client: Client) {
        self.successor = Some(client);
    }

    /// Returns whether a process takes over after this round.
    pub(crate) fn has_successor(&self) -> bool {
        self.successor.is_some()
    }

    /// Takes the connection of the process that takes over.
    pub(crate) fn take_successor(&mut self) -> Option<Client> {
        self.successor.take()
    }
}
