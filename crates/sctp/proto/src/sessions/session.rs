//! Traits of a protocol below SCTP for a [`super::SessionLayer`].

use alloc::vec::Vec;
use core::fmt::Debug;

use bytes::Bytes;

use crate::config::LowerLayer;
use crate::time::Time;

/// State of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionState<E> {
    /// The handshake is not finished; no packet is sent.
    Handshake,
    /// Packets are protected.
    Established,
    /// One of the sides closed it.
    Closed,
    /// The session ended with an error.
    Failed(E),
}

/// Connection below SCTP that protects whole packets: a state machine without sockets and clocks, used like
/// [`Endpoint`](crate::Endpoint).
pub trait PacketSession: Debug + Send {
    /// Error of a failed session, with a text that names the faulty side.
    type Error: Clone + PartialEq + Debug + Send;

    /// Returns the state of the session.
    fn state(&self) -> SessionState<Self::Error>;

    /// Returns the authenticated identity of the peer; `None` before authentication.
    fn identity(&self) -> Option<&[u8]>;

    /// Appends the datagram with this packet to `out`. Packets of equal length produce datagrams of equal
    /// length, longer by at most [`SessionFactory::overhead`]. Returns `false` and appends nothing if the
    /// packet can't be sent now.
    fn protect(&mut self, now: Time, packet: &[u8], out: &mut Vec<u8>) -> bool;

    /// Returns whether a datagram that starts a handshake ([`SessionFactory::opens`]) belongs to this
    /// session instead of a new one from the same port. A connecting session may return `true` for all
    /// datagrams until its handshake is finished.
    fn is_begun_by(&self, datagram: &[u8]) -> bool;

    /// Returns whether the peer has proved that it receives at its address, e.g. by returning a cookie
    /// (RFC 6347, section 4.2.1). Before that, its source address may be forged: a session that responds
    /// sends its replies once for each datagram, and its timers do not run.
    fn has_validated_address(&self) -> bool;

    /// Processes a datagram and appends the packets in it to `packets`. Invalid records have no effect.
    fn handle_datagram(&mut self, now: Time, datagram: &[u8], packets: &mut Vec<Bytes>);

    /// Appends the next datagram of the session itself (handshake, alert) to `out`; returns `false` if there
    /// is none.
    fn poll_datagram(&mut self, now: Time, out: &mut Vec<u8>) -> bool;

    /// Returns the time of the next call of [`Self::handle_timeout`].
    fn poll_timeout(&self) -> Option<Time>;

    /// Processes all timers that have expired at `now`.
    fn handle_timeout(&mut self, now: Time);

    /// Closes the session and notifies the peer.
    fn close(&mut self, now: Time);
}

/// Factory of sessions.
pub trait SessionFactory: Debug + Send {
    /// Type of the sessions.
    type Session: PacketSession;
    /// Expected identity of a peer to which this side connects.
    type Peer;

    /// Returns the limit of bytes that a session adds to a packet, at most 200.
    fn overhead(&self) -> usize;

    /// Returns the kind of lower layer for the zero checksum (RFC 9653); [`LowerLayer::Plain`] keeps the
    /// checksum.
    fn lower_layer(&self) -> LowerLayer {
        LowerLayer::Plain
    }

    /// Creates a session that starts the handshake.
    fn connect(&mut self, now: Time, peer: Self::Peer) -> Self::Session;

    /// Returns whether a datagram starts a handshake. Called for datagrams of unknown senders, so it should
    /// be cheap.
    fn opens(&self, datagram: &[u8]) -> bool;

    /// Returns whether a datagram is a later fragment of a message that starts a handshake.
    fn continues(&self, _datagram: &[u8]) -> bool {
        false
    }

    /// Creates a session that responds to a handshake.
    fn accept(&mut self, now: Time) -> Self::Session;

    /// Returns whether a session, possibly not yet established, is one with this peer.
    fn leads_to(&self, session: &Self::Session, peer: &Self::Peer) -> bool;
}
