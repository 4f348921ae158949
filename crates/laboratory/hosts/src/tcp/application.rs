//! Programs that use a TCP connection.

use bytes::Bytes;
use carrick_netsim::Time;

use super::Connection;

/// A program that uses one TCP connection.
pub trait TcpApplication: 'static {
    /// Handles received data, which is in order. The default ignores it.
    fn on_data(&mut self, now: Time, data: Bytes) {
        let _ = (now, data);
    }

    /// Handles progress of the connection: set-up, received data, or space in the send buffer.
    /// Called after each packet and timer, also without a change.
    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        let _ = (now, connection);
    }

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
