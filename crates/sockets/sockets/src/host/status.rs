//! Status of a socket for a caller that decides without a call of [`Sockets`] how to pass a message.

use carrick_proto::StateName;

use super::Sockets;
use crate::errno::Errno;
use crate::ids::{AssocId, SocketId};
use crate::linux::{SCTP_ASSOC_CHANGE, SCTP_DATA_IO_EVENT};
use crate::notifications::subscription;
use crate::table::{Family, Style};

/// Status of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Style of the socket: one-to-one or one-to-many.
    pub style: Style,
    /// Address family.
    pub family: Family,
    /// The socket has been branched off (`sctp_peeloff`).
    pub is_peeled_off: bool,
    /// The socket accepts associations.
    pub is_listening: bool,
    /// The association of a one-to-one socket is being set up.
    pub is_connecting: bool,
    /// A one-to-one socket has an association that is established.
    pub is_established: bool,
    /// Messages are refused: the user has shut down the sending direction, the peer has shut down the
    /// association (RFC 9260, section 9.2), or it has ended.
    pub is_write_closed: bool,
    /// The user is notified of the end of the only association (`SCTP_ASSOC_CHANGE`).
    pub notifies_end: bool,
    /// A message or notification is queued or can arrive: the socket has an association, or accepts some.
    pub has_source: bool,
    /// Messages have `SCTP_RCVINFO`.
    pub has_rcvinfo: bool,
    /// Messages have `SCTP_NXTINFO`.
    pub has_nxtinfo: bool,
    /// Messages have `SCTP_SNDRCV`.
    pub has_sndrcv: bool,
    /// Number of outbound streams of the only association; 0 without one.
    pub outbound_streams: u16,
    /// The default stream of messages exists. True without an association.
    pub has_default_stream: bool,
    /// Messages that exceed a packet are fragmented (`SCTP_DISABLE_FRAGMENTS` is off).
    pub fragments: bool,
    /// `close` waits for the end of associations (`SO_LINGER`).
    pub lingers: bool,
    /// Size of the largest message that can be sent, in bytes.
    pub max_message: usize,
}

impl Sockets {
    /// Returns the status of a socket.
    ///
    /// # Errors
    /// `EBADF`
    pub fn status(&self, id: SocketId) -> Result<Status, Errno> {
        let socket = self.table.open(id)?;
        let options = socket.options();
        let only = socket.only_association();
        let association = only.and_then(|id| self.lookup().get(id));
        let stats = association.and_then(|association| association.stats());
        let association = association.map(|association| association.own);
        let outbound_streams = stats.as_ref().map(|stats| stats.outbound_streams);
        let is_open = |id: &AssocId| self.associations.is_open(*id);
        let default_stream = association.map(|association| association.send.stream);
        let peer_ends = stats.as_ref().is_some_and(|stats| {
            matches!(
                stats.state,
                StateName::ShutdownReceived | StateName::ShutdownAckSent
            )
        });
        let change = subscription(SCTP_ASSOC_CHANGE as u16).unwrap_or(0);
        let data_io = subscription(SCTP_DATA_IO_EVENT as u16).unwrap_or(0);
        Ok(Status {
            style: socket.style(),
            family: socket.family(),
            is_peeled_off: socket.is_peeled_off(),
            is_listening: socket.is_listening(),
            is_connecting: socket.is_connecting(),
            is_established: socket.is_one_to_one() && socket.is_established(),
            is_write_closed: socket.is_write_closed() || peer_ends,
            notifies_end: association.is_some_and(|a| a.events & change != 0),
            has_source: socket.is_listening()
                || socket.queue().has_items()
                || socket.associations().iter().any(is_open),
            has_rcvinfo: options.recv_rcvinfo,
            has_nxtinfo: options.recv_nxtinfo,
            has_sndrcv: options.events & data_io != 0,
            outbound_streams: outbound_streams.unwrap_or(0),
            has_default_stream: outbound_streams
                .zip(default_stream)
                .is_none_or(|(n, stream)| stream < n),
            fragments: options.config.mtu.fragment,
            lingers: options.linger.is_some_and(|seconds| seconds > 0),
            max_message: options.send_buffer(),
        })
    }
}
