//! The programs on top of a connection.

use std::time::Duration;

use carrick_netsim::Time;
use smoltcp::socket::tcp::{Socket, State};

/// A program that uses one TCP connection.
pub trait TcpApplication: 'static {
    /// Something may have changed: the connection was set up or closed, data arrived, the send
    /// buffer has room. Called after each packet and timer, also when nothing changed.
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>);

    /// When [`on_progress`](Self::on_progress) is to be called though nothing happens. It must name
    /// a later time, or none, afterwards. The default is never.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// A segment with data left. The default ignores it.
    fn on_segment(&mut self, segment: Segment) {
        let _ = segment;
    }
}

/// A segment with data that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When.
    pub time: Time,
    /// The place of its first byte in the stream, from 0.
    pub offset: u64,
    /// Bytes of data.
    pub len: usize,
    /// Its first byte was sent before.
    pub again: bool,
}

/// The connection as its program sees it.
#[derive(Debug)]
pub struct Connection<'a>(pub(super) &'a mut Socket<'static>);

impl Connection<'_> {
    /// Takes as much of `data` as the send buffer has room for, and says how much that is; nothing
    /// before the connection is set up and after it was closed.
    pub fn send(&mut self, data: &[u8]) -> usize {
        self.0.send_slice(data).unwrap_or(0)
    }

    /// Reads what arrived in order, as much as fits, and says how much that is.
    pub fn receive(&mut self, buffer: &mut [u8]) -> usize {
        self.0.recv_slice(buffer).unwrap_or(0)
    }

    /// Bytes that can be read.
    pub fn readable(&self) -> usize {
        self.0.recv_queue()
    }

    /// Bytes that were given to [`send`](Self::send) and are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.0.send_queue()
    }

    /// Data can be sent.
    pub fn is_established(&self) -> bool {
        self.0.may_send()
    }

    /// The peer will send no more, and all was read.
    pub fn is_finished(&self) -> bool {
        matches!(
            self.0.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed
        ) && self.0.recv_queue() == 0
    }

    /// The connection is over.
    pub fn is_closed(&self) -> bool {
        self.0.state() == State::Closed
    }

    /// Sends what is left, then FIN.
    pub fn close(&mut self) {
        self.0.close();
    }

    /// Gives up when nothing is acknowledged for this long; the default is never.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| {
            smoltcp::time::Duration::from_micros(u64::try_from(t.as_micros()).unwrap_or(u64::MAX))
        });
        self.0.set_timeout(timeout);
    }
}
