//! State of one socket.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use carrick_proto::{SourceKey, portable_enum, portable_struct};

use super::{Readiness, ReceiveQueue};
use crate::errno::Errno;
use crate::ids::{AssocId, PortId, SocketId};
use crate::linux::{AF_INET, AF_INET6, IPPROTO_SCTP, SOCK_SEQPACKET, SOCK_STREAM, unmapped};
use crate::ports::Sharing;
use crate::settings::Options;

/// Style of a socket (RFC 6458, sections 3 and 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One association, as `SOCK_STREAM` has it.
    OneToOne,
    /// Many associations, as `SOCK_SEQPACKET` has it.
    OneToMany,
}

portable_enum! { Style { 0: OneToOne, 1: OneToMany } }

impl Style {
    /// Returns the style and protocol in the numbers of `socket`: type, domain and protocol, as
    /// `SO_TYPE`, `SO_DOMAIN` and `SO_PROTOCOL` have them.
    ///
    /// # Errors
    /// `ESOCKTNOSUPPORT`, `EAFNOSUPPORT` or `EPROTONOSUPPORT` for a number that is not SCTP's.
    pub fn from_numbers(domain: i32, kind: i32, protocol: i32) -> Result<(Self, Family), Errno> {
        let family = match domain {
            AF_INET => Family::Inet,
            AF_INET6 => Family::Inet6,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        // Flags such as SOCK_NONBLOCK are above the type.
        let style = match kind & 0xf {
            SOCK_STREAM => Self::OneToOne,
            SOCK_SEQPACKET => Self::OneToMany,
            // SOCK_DGRAM and SOCK_RAW, which other protocols have.
            2 | 3 => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        let is_sctp = protocol == IPPROTO_SCTP || protocol == 0 && style == Self::OneToMany;
        if !is_sctp {
            return Err(Errno::EPROTONOSUPPORT);
        }
        Ok((style, family))
    }
}

/// Address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// `AF_INET`
    Inet,
    /// `AF_INET6`
    Inet6,
}

portable_enum! { Family { 0: Inet, 1: Inet6 } }

/// State of a one-to-one socket; one-to-many sockets are [`SocketState::Open`] or [`SocketState::Listening`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SocketState {
    /// Without an association.
    Open,
    Listening,
    Connecting,
    Established,
    /// Its association has ended.
    Ended,
}

portable_enum! { SocketState { 0: Open, 1: Listening, 2: Connecting, 3: Established, 4: Ended } }

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) style: Style,
    pub(crate) family: Family,
    /// Branched off from a one-to-many socket (RFC 6458, section 9.2).
    pub(crate) is_peeled_off: bool,
    pub(crate) port: Option<PortId>,
    pub(crate) state: SocketState,
    pub(crate) associations: BTreeSet<AssocId>,
    /// Associations whose send buffer is full.
    pub(crate) full: BTreeSet<AssocId>,
    pub(crate) options: Options,
    pub(crate) queue: ReceiveQueue,
    /// Pending error (`SO_ERROR`).
    pub(crate) error: Option<Errno>,
    /// No more messages arrive, or the user reads no more.
    pub(crate) read_closed: bool,
    /// The user reads no more messages (`SHUT_RD`).
    pub(crate) drops_messages: bool,
    pub(crate) write_closed: bool,
    /// The set-up failed, and no other has been started.
    pub(crate) failed: bool,
    pub(crate) backlog: usize,
    /// Sockets of established associations, to be accepted.
    pub(super) accept_queue: VecDeque<SocketId>,
    /// Listening socket whose accept queue has this socket.
    pub(super) listener: Option<SocketId>,
    /// Peer of the association of a one-to-one or branched-off socket, when it was established.
    pub(crate) peer: Option<SocketAddr>,
    /// Edges of the readiness that have not been polled.
    pub(super) edges: Readiness,
    /// The user may bind ports below the first unprivileged one.
    pub(crate) is_privileged: bool,
    /// Whose limits apply.
    pub(crate) owner: u32,
    /// Source of the peer of a socket in an accept queue.
    pub(crate) source: Option<SourceKey>,
}

portable_struct! {
    Socket {
        style, family, is_peeled_off, port, state, full, options, queue, error, read_closed, drops_messages,
        write_closed, failed, backlog, accept_queue, listener, peer, edges, is_privileged, owner, source,
    }
    rebuilt { associations: BTreeSet::new() }
}

impl Socket {
    pub(crate) fn new(style: Style, family: Family, options: Options) -> Self {
        Self {
            style,
            family,
            is_peeled_off: false,
            port: None,
            state: SocketState::Open,
            associations: BTreeSet::new(),
            full: BTreeSet::new(),
            options,
            queue: ReceiveQueue::default(),
            error: None,
            read_closed: false,
            drops_messages: false,
            write_closed: false,
            failed: false,
            backlog: 0,
            accept_queue: VecDeque::new(),
            listener: None,
            peer: None,
            edges: Readiness::NONE,
            is_privileged: false,
            owner: 0,
            source: None,
        }
    }

    pub(crate) fn is_one_to_one(&self) -> bool {
        self.style == Style::OneToOne
    }

    /// Returns whether the user has the socket: it is in no accept queue.
    pub(crate) fn is_accepted(&self) -> bool {
        self.listener.is_none()
    }

    /// Returns the sockets in the accept queue.
    pub(crate) fn unaccepted(&self) -> &VecDeque<SocketId> {
        &self.accept_queue
    }

    pub(crate) fn is_one_to_one_listener(&self) -> bool {
        self.is_one_to_one() && self.state == SocketState::Listening
    }

    /// Returns whether the socket has one association at most: a one-to-one or branched-off one.
    pub(crate) fn is_single(&self) -> bool {
        self.is_one_to_one() || self.is_peeled_off
    }

    /// Returns the association of a one-to-one or branched-off socket.
    pub(crate) fn only_association(&self) -> Option<AssocId> {
        self.associations
            .first()
            .copied()
            .filter(|_| self.is_single())
    }

    /// Returns an address that the user passed as the core has it: mapped addresses as IPv4.
    ///
    /// # Errors
    /// `EINVAL` for an address of another family.
    pub(crate) fn canonical(&self, address: SocketAddr) -> Result<IpAddr, Errno> {
        let ip = unmapped(address.ip());
        match self.family {
            Family::Inet if !address.is_ipv4() => Err(Errno::EINVAL),
            Family::Inet6 if ip.is_ipv4() && self.options.v6_only => Err(Errno::EINVAL),
            _ => Ok(ip),
        }
    }

    /// Returns an address in the form that the socket reports: on IPv6 sockets IPv4 addresses are mapped,
    /// unless `SCTP_I_WANT_MAPPED_V4_ADDR` is off.
    pub(crate) fn present(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(v4) if self.family == Family::Inet6 && self.options.mapped_v4 => {
                SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
    }

    /// Returns the wildcard address of the family.
    pub(crate) fn any_address(&self) -> IpAddr {
        match self.family {
            Family::Inet => [0; 4].into(),
            Family::Inet6 => [0; 16].into(),
        }
    }

    /// Returns the properties on which the sharing of the port depends.
    pub(crate) fn sharing(&self) -> Sharing {
        Sharing {
            shares_port: self.options.shares_port(),
            reuses_address: self.options.reuse_address,
            is_listening: self.state == SocketState::Listening,
        }
    }

    /// Returns and clears the pending error.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }
}
