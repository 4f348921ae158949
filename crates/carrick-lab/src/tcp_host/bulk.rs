//! Bulk transfer: a number of bytes from one host to another, and their rate.

use carrick_netsim::Time;

use super::{Connection, TcpApplication};

const PIECE: usize = 1 << 14;

/// Sends a number of bytes as fast as the connection accepts them, then closes it.
#[derive(Debug)]
pub struct BulkSource {
    rest: u64,
    bytes: u64,
    /// Time at which the first byte was passed to TCP.
    pub started: Option<Time>,
    /// Time at which all bytes had been acknowledged.
    pub finished: Option<Time>,
}

impl BulkSource {
    /// Returns a source of this many bytes; [`u64::MAX`] is unlimited.
    pub fn new(bytes: u64) -> Self {
        Self {
            rest: bytes,
            bytes,
            started: None,
            finished: None,
        }
    }

    /// Returns the number of bytes passed to TCP.
    pub fn sent(&self) -> u64 {
        self.bytes - self.rest
    }
}

impl TcpApplication for BulkSource {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let data = [0x5a; PIECE];
        while self.rest > 0 {
            let piece = usize::try_from(self.rest).unwrap_or(PIECE).min(PIECE);
            let sent = connection.send(&data[..piece]);
            if sent == 0 {
                break;
            }
            self.started.get_or_insert(now);
            self.rest -= sent as u64;
        }
        if self.rest == 0 && self.finished.is_none() && connection.unacknowledged() == 0 {
            self.finished = Some(now);
            connection.close();
        }
    }
}

/// Reads all data.
#[derive(Debug, Default)]
pub struct BulkSink {
    /// Bytes read.
    pub received: u64,
    /// Time at which the first byte was read.
    pub first: Option<Time>,
    /// Time at which the last byte was read.
    pub last: Option<Time>,
}

impl BulkSink {
    /// Returns the rate of user data in bit/s from `start` to the last byte; `None` before any
    /// data.
    pub fn goodput(&self, start: Time) -> Option<f64> {
        let seconds = (self.last? - start).as_secs_f64();
        (seconds > 0.0).then(|| self.received as f64 * 8.0 / seconds)
    }
}

impl TcpApplication for BulkSink {
    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        let mut buffer = [0; PIECE];
        loop {
            let read = connection.receive(&mut buffer);
            if read == 0 {
                break;
            }
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.received += read as u64;
        }
        if connection.is_finished() && !connection.is_closed() {
            connection.close();
        }
    }
}
