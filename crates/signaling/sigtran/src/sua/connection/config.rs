//! Configuration of a connection section.

use std::time::Duration;

/// Configuration of a [`Connection`](super::Connection).
///
/// The timers are those of Q.714, annex C, with defaults within its ranges that were not compared with its text. The
/// receive inactivity timer must be more than the peer's send inactivity timer.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// T(conn est): wait for the answer to a CORE, 60 s by default.
    pub establishment: Duration,
    /// T(ias), send inactivity: a COIT is sent after a time without messages to the peer, 5 min by default.
    pub send_inactivity: Duration,
    /// T(iar), receive inactivity: the connection is released after a time without messages of the peer, 11 min by
    /// default.
    pub receive_inactivity: Duration,
    /// T(rel): wait for the answer to the first RELRE, 10 s by default.
    pub release: Duration,
    /// T(repeat rel): interval of further RELRE, 10 s by default.
    pub repeat_release: Duration,
    /// T(int): time of further RELRE, after which the connection is released without an answer, 60 s by default.
    pub interval: Duration,
    /// T(reset): wait for the answer to a RESRE, 10 s by default.
    pub reset: Duration,
    /// Window of protocol class 3 for messages of the peer, 1 to 127, 16 by default.
    pub credit: u8,
    /// Maximum octets of data in a CODT, at least 1, 60,000 by default. A longer message of the user is segmented.
    pub max_segment: usize,
    /// Maximum octets of a message of either user, 1 MiB by default.
    pub max_message: usize,
    /// Maximum number of segments that wait for the window of the peer, 1,024 by default.
    pub max_queued_segments: usize,
    /// Maximum octets that wait for the window of the peer, 4 MiB by default.
    pub max_queued_octets: usize,
}

impl ConnectionConfig {
    /// Largest window: one less than there are sequence numbers.
    pub const MAX_CREDIT: u8 = 127;

    pub(super) const fn check(&self) -> Result<(), ConnectionConfigError> {
        if self.credit == 0 || self.credit > Self::MAX_CREDIT {
            return Err(ConnectionConfigError::Credit(self.credit));
        }
        if self.max_segment == 0 || self.max_segment > MAX_SEGMENT {
            return Err(ConnectionConfigError::MaxSegment(self.max_segment));
        }
        Ok(())
    }
}

/// Octets of data that a CODT can carry beside its other parameters.
const MAX_SEGMENT: usize = 65_400;

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            establishment: Duration::from_secs(60),
            send_inactivity: Duration::from_secs(5 * 60),
            receive_inactivity: Duration::from_secs(11 * 60),
            release: Duration::from_secs(10),
            repeat_release: Duration::from_secs(10),
            interval: Duration::from_secs(60),
            reset: Duration::from_secs(10),
            credit: 16,
            max_segment: 60_000,
            max_message: 1 << 20,
            max_queued_segments: 1024,
            max_queued_octets: 4 << 20,
        }
    }
}

/// Configuration that no connection can have. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionConfigError {
    /// The credit is 0 or above 127.
    #[error("credit {0} is out of range: use 1 to 127")]
    Credit(u8),
    /// A segment has no octets or more than a message can carry.
    #[error("segments of {0} octets are not possible: use 1 to {MAX_SEGMENT}")]
    MaxSegment(usize),
}
