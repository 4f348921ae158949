//! Connections of processes to the control socket: their requests are read, and answered by `requests`.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use carrick_ipc::{Reply, Request};
use carrick_proto::Time;
use carrick_sockets::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::io::Errno as SystemErrno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, accept_with, recvmsg, sendmsg,
};

use crate::driver::{Driver, PAUSE, Token};

/// Limit of the requests of a client in one turn.
const TURN: usize = 16;
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

/// Returns user and process at the other end of a connection: process 0 if it is in a process namespace that this
/// one does not see, and the overflow user if it is in another user namespace.
pub(crate) fn peer_of(connection: &OwnedFd) -> Result<(u32, i32), SystemErrno> {
    // Not rustix's function: process ids are never 0 there.
    let peer = getsockopt(connection, PeerCredentials)
        .map_err(|error| SystemErrno::from_raw_os_error(error as i32))?;
    Ok((peer.uid(), peer.pid()))
}

impl Driver {
    /// Accepts connections of the control socket. Without file descriptors or memory it waits for a while,
    /// since the socket stays readable.
    pub(crate) fn accept_clients(&mut self, now: Time) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let connection = match accept_with(&self.control, flags) {
                Ok(connection) => connection,
                Err(SystemErrno::AGAIN) => return,
                Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => continue,
                Err(error) => {
                    self.record_failure("no program can connect for 1 s", error);
                    return self.pause_accepting(now + PAUSE);
                }
            };
            let (uid, process) = match peer_of(&connection) {
                Ok(peer) => peer,
                Err(error) => {
                    self.record_failure("a program without known user is refused", error);
                    continue;
                }
            };
            let limit = self.config.limits.clients;
            let count = self.users.get(&uid).map_or(0, |usage| usage.clients);
            let is_refused = count >= limit || self.check_share(uid).is_err();
            if is_refused {
                let refused = format!("a program of user {uid} is refused");
                self.record_failure(&refused, SystemErrno::MFILE);
            }
            if is_refused && !self.may_refuse(uid) {
                continue;
            }
            if let Ok(token) = self.watch(&connection) {
                self.users.entry(uid).or_default().clients += 1;
                let client = Client {
                    connection,
                    uid,
                    process,
                    is_refused,
                };
                self.clients.insert(token, client);
            }
        }
    }

    /// Returns whether another connection beyond the limit of a user may wait for its first request, which is
    /// refused with an error; a program sends it right after it has connected.
    fn may_refuse(&self, uid: u32) -> bool {
        let refused = self.clients.values();
        let refused = refused.filter(|client| client.is_refused && client.uid == uid);
        refused.count() < REFUSED_CLIENTS.min(self.free_descriptors())
    }

    /// Processes the requests of a client. Returns true if there may be more.
    pub(crate) fn serve_client(&mut self, now: Time, token: Token) -> bool {
        let Some(client) = self.clients.remove(&token) else {
            return false;
        };
        for _ in 0..TURN {
            match self.serve_request(now, &client) {
                Ok(Served::Request) => {}
                Ok(Served::Handover) => {
                    if let Some(usage) = self.users.get_mut(&client.uid) {
                        usage.clients -= 1;
                    }
                    self.unwatch(&client.connection);
                    self.successor = Some(client);
                    return false;
                }
                Err(SystemErrno::AGAIN) => {
                    self.clients.insert(token, client);
                    return false;
                }
                // The process has ended, does not read its replies, or sent something else.
                Err(_) => {
                    if let Some(usage) = self.users.get_mut(&client.uid) {
                        usage.clients -= 1;
                    }
                    return false;
                }
            }
        }
        self.clients.insert(token, client);
        true
    }

    fn serve_request(&mut self, now: Time, client: &Client) -> rustix::io::Result<Served> {
        // Returned after the request: its values are in the buffer.
        let mut buffer = std::mem::take(&mut self.request);
        let served = receive(&client.connection, &mut buffer).and_then(|(len, attached)| {
            if len == 0 {
                return Err(SystemErrno::PIPE);
            }
            let request = Request::decode(&buffer[..len]).map_err(|_| SystemErrno::PROTO)?;
            self.answer_request(now, client, &request, attached)
        });
        self.request = buffer;
        served
    }

    fn answer_request(
        &mut self,
        now: Time,
        client: &Client,
        request: &Request<'_>,
        attached: Vec<OwnedFd>,
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

/// Receives a request with its descriptors: that of the call, and the file of a large message.
fn receive(connection: &OwnedFd, buffer: &mut [u8]) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg(connection, &mut parts, &mut control, flags)?;
    let mut attached = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            attached.extend(descriptors);
        }
    }
    Ok((received.bytes, attached))
}

fn send_reply(
    connection: &OwnedFd,
    reply: &[u8],
    attached: Option<&OwnedFd>,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let attached = attached.map(|fd| [fd.as_fd()]);
    if let Some(attached) = &attached {
        control.push(SendAncillaryMessage::ScmRights(attached));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(connection, &[IoSlice::new(reply)], &mut control, flags) {
        Ok(_) => Ok(()),
        // The client does not read its replies.
        Err(SystemErrno::AGAIN) => Err(SystemErrno::PIPE),
        Err(error) => Err(error),
    }
}
