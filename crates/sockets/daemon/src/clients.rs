//! Connections of processes to the control socket: their requests are read, and answered by `requests`.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::task::{Context, Poll};

use carrick_ipc::{Reply, Request};
use carrick_proto::Time;
use carrick_sockets::Errno;
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, sockopt};

use crate::connection::peer_of;
use crate::driver::{Driver, PAUSE};
use crate::pair::{AT_ONCE, receive_with_files, send_with_files};
use crate::poller::Token;

/// Limit of connections that are accepted in one round.
const ACCEPTED: usize = 64;
/// Connections beyond the limit of a user that get an answer.
const REFUSED_CLIENTS: usize = 16;

/// Connection of a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) connection: OwnedFd,
    pub(crate) uid: u32,
    /// Process id; 0 in a process namespace that this one does not see, such as another container of a pod.
    pub(crate) process: i32,
    /// Beyond the limit of its user: its first request is refused, and ends it.
    pub(crate) is_refused: bool,
}

/// Result of a request.
enum Served {
    /// It has been answered.
    Request,
    /// The process is to take over after this round.
    Handover,
}

impl Driver {
    /// Accepts connections of the control socket, whose event is repeated while more wait. Without file descriptors
    /// or memory it waits for a while.
    pub(crate) fn accept_clients(&mut self, now: Time) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTED {
            let connection = match accept_with(&self.control, flags) {
                Ok(connection) => connection,
                Err(SystemErrno::AGAIN) => return,
                Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => continue,
                Err(error) => {
                    self.users
                        .record_failure("no program can connect for 1 s", error);
                    return self.pause_accepting(now + PAUSE);
                }
            };
            let (uid, process) = match peer_of(&connection) {
                Ok(peer) => peer,
                Err(error) => {
                    self.users
                        .record_failure("a program without known user is refused", error);
                    self.close_files(u32::MAX, [connection.into_raw_fd()]);
                    continue;
                }
            };
            let is_refused = self.users.check_clients(uid).is_err();
            if is_refused {
                let refused = format!("a program of user {uid} is refused");
                self.users.record_failure(&refused, SystemErrno::MFILE);
            }
            let is_behind = self.users.is_behind(uid);
            if is_behind || is_refused && !self.may_refuse(uid) {
                self.users.closers().refuse(uid, connection);
                continue;
            }
            self.users.closers().admit(&connection);
            match self.poller.watch(&connection) {
                Ok(token) => {
                    self.users.add_client(uid);
                    let client = Client {
                        connection,
                        uid,
                        process,
                        is_refused,
                    };
                    self.clients.insert(token, client);
                }
                Err(_) => self.close_files(uid, [connection.into_raw_fd()]),
            }
        }
    }

    /// Returns whether another connection beyond the limit of a user may wait for its first request, which is
    /// refused with an error; a program sends it right after it has connected.
    fn may_refuse(&self, uid: u32) -> bool {
        let refused = self.clients.values();
        let refused = refused.filter(|client| client.is_refused && client.uid == uid);
        refused.count() < REFUSED_CLIENTS.min(self.users.free_files())
    }

    /// Processes a request of a client. Returns true if there may be more.
    pub(crate) fn serve_client(&mut self, now: Time, token: Token) -> bool {
        let Some(client) = self.clients.remove(&token) else {
            return false;
        };
        match self.serve_request(now, &client) {
            Ok(Served::Request) => {
                self.clients.insert(token, client);
                true
            }
            Ok(Served::Handover) => {
                self.users.remove_client(client.uid);
                self.poller.unwatch(&client.connection);
                self.successor = Some(client);
                false
            }
            Err(SystemErrno::AGAIN) => {
                self.clients.insert(token, client);
                false
            }
            // The process has ended, does not read its replies, or sent something else.
            Err(_) => {
                self.users.remove_client(client.uid);
                self.poller.unwatch(&client.connection);
                self.close_files(client.uid, [client.connection.into_raw_fd()]);
                false
            }
        }
    }

    /// Closes the connections of all clients outside the task, which ends: their requests may have files.
    pub(crate) fn close_clients(&mut self) {
        for client in std::mem::take(&mut self.clients).into_values() {
            let connection = [client.connection.into_raw_fd()];
            self.users.closers().close(client.uid, connection);
        }
    }

    /// Closes files of a user outside the task.
    pub(crate) fn close_files(&mut self, uid: u32, files: impl IntoIterator<Item = RawFd>) {
        self.users.closers().close(uid, files);
    }

    /// Serves the requests again of users whose files have been closed.
    pub(crate) fn resume_clients(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(uid) = self.users.closers().poll_relieved(cx) {
            self.ready_clients.resume(uid);
        }
    }

    fn serve_request(&mut self, now: Time, client: &Client) -> rustix::io::Result<Served> {
        // Returned after the request: its values are in the buffer.
        let mut buffer = std::mem::take(&mut self.request);
        let mut attached = Vec::new();
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = receive_with_files(
            &client.connection,
            &mut parts,
            &mut attached,
            RecvFlags::DONTWAIT,
        );
        let served = received.and_then(|len| {
            if len == 0 {
                return Err(SystemErrno::PIPE);
            }
            let request = Request::decode(&buffer[..len]).map_err(|_| SystemErrno::PROTO)?;
            self.answer_request(now, client, &request, &attached)
        });
        self.request = buffer;
        self.close_attached(client.uid, attached);
        served
    }

    /// Closes the files of a request: the program's ends of pairs, which only the daemon has written to, here.
    fn close_attached(&mut self, uid: u32, attached: Vec<OwnedFd>) {
        let is_pair = |file: &OwnedFd| {
            let cookie = sockopt::socket_cookie(file);
            cookie.is_ok_and(|cookie| self.by_cookie.contains_key(&cookie))
        };
        let (pairs, others): (Vec<_>, Vec<_>) = attached.into_iter().partition(is_pair);
        drop(pairs);
        if !others.is_empty() {
            self.close_files(uid, others.into_iter().map(OwnedFd::into_raw_fd));
        }
    }

    fn answer_request(
        &mut self,
        now: Time,
        client: &Client,
        request: &Request<'_>,
        attached: &[OwnedFd],
    ) -> rustix::io::Result<Served> {
        if client.is_refused {
            let reply = Reply {
                error: Errno::EMFILE.number(),
                ..Reply::default()
            };
            send_reply(&client.connection, &reply.encode(), None)?;
            return Err(SystemErrno::MFILE);
        }
        if *request == Request::TakeOver {
            let Some(reason) = self.refuses_handover(client.uid) else {
                return Ok(Served::Handover);
            };
            let reply = Reply {
                error: Errno::EPERM.number(),
                value: reason.as_bytes(),
                ..Reply::default()
            };
            send_reply(&client.connection, &reply.encode(), None)?;
            return Ok(Served::Request);
        }
        let (reply, sent) = self.handle(now, (client.uid, client.process), request, attached);
        send_reply(&client.connection, &reply, sent.as_ref())?;
        Ok(Served::Request)
    }
}

fn send_reply(
    connection: &OwnedFd,
    reply: &[u8],
    attached: Option<&OwnedFd>,
) -> rustix::io::Result<()> {
    let attached: Vec<_> = attached.iter().map(|fd| fd.as_fd()).collect();
    match send_with_files(connection, &[IoSlice::new(reply)], &attached, AT_ONCE) {
        // The client does not read its replies.
        Err(SystemErrno::AGAIN) => Err(SystemErrno::PIPE),
        sent => sent,
    }
}
