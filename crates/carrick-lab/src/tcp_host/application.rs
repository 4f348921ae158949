//! Programs that use a TCP connection.

use std::time::Duration;

use carrick_netsim::Time;
use smoltcp::socket::tcp::{Socket, State};

/// A program that uses one TCP connection.
pub trait TcpApplication: 'static {
    /// Handles progress of the connection: set-up, close, received data, or space in the send
    /// buffer. Called after each packet and timer, also without a change.
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>);

    /// Returns the time of a call of [`on_progress`](Self::on_progress) without another cause.
    /// Afterwards it must return a later time, or none. The default is never.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// Handles a sent segment with data. The default ignores it.
    fn on_segment(&mut self, segment: Segment) {
        let _ = segment;
    }
}

/// A sent segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time of the transmission.
    pub time: Time,
    /// Offset of its first byte in the stream, from 0.
    pub offset: u64,
    /// Length of the data in bytes.
    pub len: usize,
    /// Its first byte had been sent before.
    pub again: bool,
}

/// The connection of a program.
#[derive(Debug)]
pub struct Connection<'a>(pub(super) &'a mut Socket<'static>);

impl Connection<'_> {
    /// Appends as much of `data` as fits into the send buffer, and returns its length; zero before
    /// the connection is established and after it was closed.
    pub fn send(&mut self, data: &[u8]) -> usize {
        self.0.send_slice(data).unwrap_or(0)
    }

    /// Reads received data in order into `buffer`, and returns its length.
    pub fn receive(&mut self, buffer: &mut [u8]) -> usize {
        self.0.recv_slice(buffer).unwrap_or(0)
    }

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> usize {
        self.0.recv_queue()
    }

    /// Returns the number of bytes passed to [`send`](Self::send) that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.0.send_queue()
    }

    /// Returns whether data can be sent.
    pub fn is_established(&self) -> bool {
        self.0.may_send()
    }

    /// Returns whether the peer has closed its side and all data was read.
    pub fn is_finished(&self) -> bool {
        matches!(
            self.0.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed
        ) && self.0.recv_queue() == 0
    }

    /// Returns whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.0.state() == State::Closed
    }

    /// Sends the remaining data, then FIN.
    pub fn close(&mut self) {
        self.0.close();
    }

    /// Sets the time without acknowledgement after which the connection is aborted; the default is
    /// never.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| {
            smoltcp::time::Duration::from_micros(u64::try_from(t.as_micros()).unwrap_or(u64::MAX))
        });
        self.0.set_timeout(timeout);
    }
}
