//! The epoll instance of the task, and the tokens of its files.

use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use carrick_proto::portable_tuple;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Pause after a lack of file descriptors.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of events read at once.
pub(crate) const EVENTS: usize = 256;

/// Name of a client, descriptor or lease in the epoll instance. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Token(pub(crate) u64);

portable_tuple! { Token(number) }

impl Token {
    /// Token of the control socket.
    pub(crate) const CONTROL: Self = Self(0);
}

/// The epoll instance with the files of the task. Events are edge-triggered, so that the task reads until nothing is left;
/// only that of the control socket is repeated.
#[derive(Debug)]
pub(crate) struct Poller {
    /// Its type is that of UDP sockets, for which the runtime can wait without unsafe code.
    epoll: UdpSocket,
    next: u64,
}

impl Poller {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&epoll, true)?;
        let epoll = UdpSocket::from_std(epoll.into()).map_err(|_| Errno::NOMEM)?;
        let next = Token::CONTROL.0 + 1;
        Ok(Self { epoll, next })
    }

    /// Returns the number of the next token.
    pub(crate) fn next_token(&self) -> u64 {
        self.next
    }

    /// Continues the tokens of a predecessor.
    pub(crate) fn continue_tokens(&mut self, next: u64) {
        self.next = next;
    }

    /// Adds a file.
    pub(crate) fn watch(&mut self, fd: impl AsFd) -> rustix::io::Result<Token> {
        let token = Token(self.next);
        self.watch_as(fd, token)?;
        self.next += 1;
        Ok(token)
    }

    /// Adds a file with a token that is in use.
    pub(crate) fn watch_as(&self, fd: impl AsFd, token: Token) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, data_of(token), flags(false))
    }

    /// Adds the control socket.
    pub(crate) fn watch_control(&self, control: impl AsFd) -> rustix::io::Result<()> {
        let data = data_of(Token::CONTROL);
        epoll::add(&self.epoll, control, data, epoll::EventFlags::IN)
    }

    /// Sets whether the task is woken when a file becomes writable.
    pub(crate) fn watch_writable(&self, fd: impl AsFd, token: Token, wanted: bool) {
        // The file was added when it was created.
        let _ = epoll::modify(&self.epoll, fd, data_of(token), flags(wanted));
    }

    /// Removes a file.
    pub(crate) fn unwatch(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Appends events that the system has, up to the vector's capacity. Returns true if there were any.
    pub(crate) fn read(&self, events: &mut Vec<epoll::Event>) -> bool {
        let space = spare_capacity(events);
        epoll::wait(&self.epoll, space, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// Reads events as [`Self::read`]; ready if there are any.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        events: &mut Vec<epoll::Event>,
    ) -> Poll<()> {
        while events.is_empty() {
            if ready!(self.epoll.poll_recv_ready(cx)).is_err() {
                // The runtime shuts down.
                return Poll::Pending;
            }
            // The result has no other meaning than to clear the runtime's readiness.
            let _ = self.epoll.try_io(Interest::READABLE, || {
                self.read(events);
                if events.len() == EVENTS {
                    Ok(())
                } else {
                    Err(std::io::ErrorKind::WouldBlock.into())
                }
            });
        }
        Poll::Ready(())
    }
}

fn data_of(token: Token) -> epoll::EventData {
    epoll::EventData::new_u64(token.0)
}

fn flags(writable: bool) -> epoll::EventFlags {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    if writable {
        flags | epoll::EventFlags::OUT
    } else {
        flags
    }
}
