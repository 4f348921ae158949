//! What a protocol below SCTP has to be able to do: the two traits that a [`super::SessionLayer`] needs.

use alloc::vec::Vec;
use core::fmt::Debug;

use bytes::Bytes;

use crate::association::zero_checksum::LowerLayer;
use crate::time::Time;

/// Where a session is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionState<E> {
    /// The handshake is not finished; no packet may leave.
    Handshake,
    /// Packets are protected.
    Established,
    /// One of the sides closed it.
    Closed,
    /// It ended with an error; nothing of it is of use any more.
    Failed(E),
}

/// One connection below SCTP, that protects whole packets: a state machine without sockets and clocks,
/// with the same contract as [`crate::Endpoint`].
pub trait PacketSession: Debug + Send {
    /// Why it can fail, in words that say whose fault it is.
    type Error: Clone + PartialEq + Debug + Send;

    /// Where it is.
    fn state(&self) -> SessionState<Self::Error>;

    /// Who the peer has proved to be; `None` before it has.
    fn identity(&self) -> Option<&[u8]>;

    /// Appends the datagram that carries this packet to `out`. Equally long packets give equally long
    /// datagrams, longer by [`SessionFactory::overhead`] at most. Returns `false`, and appends nothing,
    /// if it can't be sent now.
    fn protect(&mut self, now: Time, packet: &[u8], out: &mut Vec<u8>) -> bool;

    /// Whether a datagram that begins a handshake ([`SessionFactory::opens`]) belongs to this session's,
    /// and not to another one that the peer begins from the same port. A session that connects may say
    /// so of all, as long as its handshake is not finished.
    fn is_begun_by(&self, datagram: &[u8]) -> bool;

    /// Whether the peer has returned something that only reached it at its address, such as a cookie
    /// (RFC 6347 section 4.2.1). Until then anybody may have sent what came in its name.
    fn has_shown_itself(&self) -> bool;

    /// Takes a datagram and pushes the packets that it carries. What is no genuine record changes
    /// nothing.
    fn handle_datagram(&mut self, now: Time, datagram: &[u8], packets: &mut Vec<Bytes>);

    /// Appends the next datagram of the session's own (handshake, alert) to `out`; `false` if there is
    /// none.
    fn poll_datagram(&mut self, now: Time, out: &mut Vec<u8>) -> bool;

    /// When [`Self::handle_timeout`] wants to be called.
    fn poll_timeout(&self) -> Option<Time>;

    /// Handles what is due at `now`.
    fn handle_timeout(&mut self, now: Time);

    /// Tells the peer that nothing follows, and ends.
    fn close(&mut self, now: Time);
}

/// Makes sessions.
pub trait SessionFactory: Debug + Send {
    /// What it makes.
    type Session: PacketSession;
    /// Whom a connecting side expects.
    type Peer;

    /// Bytes by which a session makes a packet longer, at most 200.
    fn overhead(&self) -> usize;

    /// What its sessions are to the checksum of SCTP (RFC 9653): [`LowerLayer::Plain`] leaves it in
    /// force.
    fn lower_layer(&self) -> LowerLayer {
        LowerLayer::Plain
    }

    /// A session that begins the handshake.
    fn connect(&mut self, now: Time, peer: Self::Peer) -> Self::Session;

    /// Whether a datagram begins a handshake. Called for datagrams of anybody; it should be cheap.
    fn opens(&self, datagram: &[u8]) -> bool;

    /// A session that answers a handshake.
    fn accept(&mut self, now: Time) -> Self::Session;

    /// Whether a session, which may not be established yet, leads to this peer.
    fn leads_to(&self, session: &Self::Session, peer: &Self::Peer) -> bool;
}
