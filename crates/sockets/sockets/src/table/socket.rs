//! State of one socket.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use carrick_proto::{SourceKey, portable_enum, portable_struct};

use super::state::SocketState;
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

/// Holder of a socket.
#[derive(Debug)]
pub(super) enum Holder {
    /// The user, with the edges of the readiness that have not been polled.
    User { edges: Readiness },
    /// Accept queue of a listening socket, with the source of the peer.
    AcceptQueue {
        listener: SocketId,
        source: SourceKey,
    },
}

portable_enum! { Holder { 0: User { edges }, 1: AcceptQueue { listener, source } } }

impl Holder {
    /// The user, without edges.
    pub(super) const USER: Self = Self::User {
        edges: Readiness::NONE,
    };
}

/// A socket. Its state is changed by the methods of module `state`.
#[derive(Debug)]
pub(crate) struct Socket {
    style: Style,
    family: Family,
    /// Branched off from a one-to-many socket (RFC 6458, section 9.2).
    is_peeled_off: bool,
    port: Option<PortId>,
    pub(super) state: SocketState,
    pub(super) holder: Holder,
    associations: BTreeSet<AssocId>,
    /// Associations whose send buffer is full.
    full: BTreeSet<AssocId>,
    options: Options,
    pub(super) queue: ReceiveQueue,
    /// Pending error (`SO_ERROR`).
    error: Option<Errno>,
    /// Sockets of established associations, to be accepted while a one-to-one socket listens. They remain in other
    /// states: `listen` with backlog 0 leaves them for the next `listen`.
    pub(super) accept_queue: VecDeque<SocketId>,
    /// The user may bind ports below the first unprivileged one.
    is_privileged: bool,
    /// Whose limits apply.
    owner: u32,
}

portable_struct! {
    Socket {
        style, family, is_peeled_off, port, state, holder, full, options, queue, error, accept_queue, is_privileged,
        owner,
    }
    rebuilt { associations: BTreeSet::new() }
    check Socket::is_valid
}

impl Socket {
    pub(crate) fn new(style: Style, family: Family, options: Options) -> Self {
        Self {
            style,
            family,
            is_peeled_off: false,
            port: None,
            state: SocketState::NEW,
            holder: Holder::USER,
            associations: BTreeSet::new(),
            full: BTreeSet::new(),
            options,
            queue: ReceiveQueue::default(),
            error: None,
            accept_queue: VecDeque::new(),
            is_privileged: false,
            owner: 0,
        }
    }

    /// Returns a socket for an association of this one, with its port, options and owner.
    fn for_association(&self, peer: SocketAddr) -> Self {
        Self {
            port: self.port,
            state: SocketState::established(peer),
            owner: self.owner,
            ..Self::new(self.style, self.family, self.options.clone())
        }
    }

    /// Returns a socket for an association that is branched off (RFC 6458, section 9.2).
    pub(crate) fn branched_off(&self, peer: SocketAddr) -> Self {
        Self {
            is_peeled_off: true,
            ..self.for_association(peer)
        }
    }

    /// Returns a socket for the accept queue of this one, which has this identifier.
    pub(super) fn queued(&self, listener: SocketId, peer: SocketAddr, source: SourceKey) -> Self {
        Self {
            holder: Holder::AcceptQueue { listener, source },
            ..self.for_association(peer)
        }
    }

    fn is_valid(&self) -> bool {
        let has_style = !self.is_peeled_off || self.style == Style::OneToMany;
        let may_be_held = self.is_accepted()
            || self.is_one_to_one() && (self.is_established() || self.is_ended());
        has_style && may_be_held && self.has_valid_state()
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// Returns whether the socket was branched off (RFC 6458, section 9.2).
    pub(crate) fn is_peeled_off(&self) -> bool {
        self.is_peeled_off
    }

    pub(crate) fn is_one_to_one(&self) -> bool {
        self.style == Style::OneToOne
    }

    /// Returns whether the socket has one association at most: a one-to-one or branched-off one.
    pub(crate) fn is_single(&self) -> bool {
        self.is_one_to_one() || self.is_peeled_off
    }

    /// Returns whether the user has the socket: it is in no accept queue.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.holder, Holder::User { .. })
    }

    /// Returns the source of the peer of a socket in an accept queue.
    pub(crate) fn queued_source(&self) -> Option<SourceKey> {
        match self.holder {
            Holder::AcceptQueue { source, .. } => Some(source),
            Holder::User { .. } => None,
        }
    }

    /// Returns the edges of the readiness that have not been polled.
    pub(super) fn edges(&self) -> Readiness {
        match self.holder {
            Holder::User { edges } => edges,
            Holder::AcceptQueue { .. } => Readiness::NONE,
        }
    }

    /// Returns and clears the edges.
    pub(super) fn take_edges(&mut self) -> Readiness {
        match &mut self.holder {
            Holder::User { edges } => std::mem::take(edges),
            Holder::AcceptQueue { .. } => Readiness::NONE,
        }
    }

    /// Returns the sockets in the accept queue.
    pub(crate) fn unaccepted(&self) -> &VecDeque<SocketId> {
        &self.accept_queue
    }

    /// Returns whether the socket listens and has room for another association.
    pub(crate) fn may_accept(&self) -> bool {
        self.backlog().is_some_and(|backlog| {
            if self.is_one_to_one() {
                self.accept_queue.len() <= backlog
            } else {
                self.queue.accepts_notifications()
            }
        })
    }

    /// Returns the port; `None` if the socket is not bound.
    pub(crate) fn port(&self) -> Option<PortId> {
        self.port
    }

    /// Binds the socket to a port.
    pub(crate) fn set_port(&mut self, port: PortId) {
        self.port = Some(port);
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    pub(crate) fn queue(&self) -> &ReceiveQueue {
        &self.queue
    }

    pub(crate) fn queue_mut(&mut self) -> &mut ReceiveQueue {
        &mut self.queue
    }

    /// Returns whether the user may bind ports below the first unprivileged one.
    pub(crate) fn is_privileged(&self) -> bool {
        self.is_privileged
    }

    pub(crate) fn set_privileged(&mut self, privileged: bool) {
        self.is_privileged = privileged;
    }

    /// Returns the owner, whose limits apply.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn set_owner(&mut self, owner: u32) {
        self.owner = owner;
    }

    pub(crate) fn associations(&self) -> &BTreeSet<AssocId> {
        &self.associations
    }

    pub(crate) fn add_association(&mut self, id: AssocId) {
        self.associations.insert(id);
    }

    /// Removes an association. Returns whether its send buffer was full.
    pub(crate) fn remove_association(&mut self, id: AssocId) -> bool {
        self.associations.remove(&id);
        self.full.remove(&id)
    }

    /// Returns the association of a one-to-one or branched-off socket.
    pub(crate) fn only_association(&self) -> Option<AssocId> {
        self.associations
            .first()
            .copied()
            .filter(|_| self.is_single())
    }

    /// Returns the associations whose send buffer is full.
    pub(crate) fn full(&self) -> &BTreeSet<AssocId> {
        &self.full
    }

    /// Records whether the send buffer of an association is full.
    pub(crate) fn set_full(&mut self, id: AssocId, is_full: bool) {
        if is_full {
            self.full.insert(id);
        } else {
            self.full.remove(&id);
        }
    }

    /// Returns the pending error.
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error
    }

    pub(crate) fn set_error(&mut self, error: Option<Errno>) {
        self.error = error;
    }

    /// Returns and clears the pending error.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
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
            is_listening: self.is_listening(),
        }
    }
}
