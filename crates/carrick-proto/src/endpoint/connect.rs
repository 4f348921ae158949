//! ASSOCIATE: peers, and how packets to each of their addresses are carried (RFC 9260 section
//! 11.1.2, RFC 6951 sections 5.1 and 6.1).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{Tsn, VerificationTag};

use super::Endpoint;
use super::sources::Source;
use crate::association::state::{CookieWait, Repeat, State};
use crate::association::{Association, AssociationId};
use crate::config::AssociationConfig;
use crate::error::{ConnectError, OperationError};
use crate::path::PathId;
use crate::time::Time;

/// An address of a peer, and how packets to it are carried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress {
    /// The address.
    pub address: IpAddr,
    /// The peer's UDP port, or that of the translator in front of it (RFC 6951); `None` for SCTP on
    /// plain IP.
    pub encapsulation: Option<u16>,
}

impl PeerAddress {
    /// Reached on plain IP.
    pub const fn plain(address: IpAddr) -> Self {
        Self {
            address,
            encapsulation: None,
        }
    }

    /// Reached in UDP, at this port.
    pub const fn encapsulated(address: IpAddr, port: u16) -> Self {
        Self {
            address,
            encapsulation: Some(port),
        }
    }
}

impl Endpoint {
    /// ASSOCIATE (section 11.1.2): sets up an association with the peer that has these addresses
    /// and this port. The first address is tried first; data goes to the one that answers, until
    /// [`Self::set_primary`] says otherwise. With `encapsulation`, packets go in UDP to that port
    /// (RFC 6951), whichever address they go to; see [`Self::associate`].
    ///
    /// The outcome is [`crate::Event::Established`] or [`crate::Event::Closed`].
    ///
    /// # Errors
    /// Says what is wrong with the arguments, or that there is an association with this peer.
    pub fn connect(
        &mut self,
        now: Time,
        peers: &[IpAddr],
        port: u16,
        encapsulation: Option<u16>,
        config: impl Into<Arc<AssociationConfig>>,
    ) -> Result<AssociationId, ConnectError> {
        let with_port = |&address: &IpAddr| PeerAddress {
            address,
            encapsulation,
        };
        let peers: Vec<PeerAddress> = peers.iter().map(with_port).collect();
        self.associate(now, &peers, port, config)
    }

    /// As [`Self::connect`], with a UDP port for each address, or none: one association may have
    /// paths on plain IP and paths in UDP. Addresses that only the peer tells are reached as the
    /// packet was carried that told them. What the peer's packets show replaces all of this.
    ///
    /// Associations with the same address and port are different ones if the way to them differs:
    /// hosts behind a translator share its address.
    ///
    /// # Errors
    /// Says what is wrong with the arguments, or that there is an association with this peer.
    pub fn associate(
        &mut self,
        now: Time,
        peers: &[PeerAddress],
        port: u16,
        config: impl Into<Arc<AssociationConfig>>,
    ) -> Result<AssociationId, ConnectError> {
        if peers.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if port == 0 || peers.iter().any(|p| p.encapsulation == Some(0)) {
            return Err(ConnectError::InvalidPort);
        }
        let config: Arc<AssociationConfig> = config.into();
        config.validate().map_err(ConnectError::InvalidConfig)?;
        let local = self.local_addresses.all();
        let same_family = |peer: &PeerAddress| {
            let v4 = peer.address.is_ipv4();
            local.is_empty() || local.iter().any(|a| a.is_ipv4() == v4)
        };
        if !peers.iter().all(same_family) {
            return Err(ConnectError::FamilyMismatch);
        }
        let known = |peer: &PeerAddress| {
            let way = peer.encapsulation;
            let known = self.registry.find_confirmed(peer.address, port, way);
            known.is_some()
        };
        if peers.iter().any(known) {
            return Err(ConnectError::AlreadyConnected);
        }
        let crowded = |peer: &PeerAddress| self.registry.is_full(peer.address, port);
        if self.registry.len() >= self.config.max_associations || peers.iter().any(crowded) {
            return Err(ConnectError::TooManyAssociations);
        }
        self.protects |= config.protection.is_some();
        let id = self.registry.next_id();
        let tag = VerificationTag(self.random.nonzero_u32());
        let tsn = Tsn::new(self.random.u32());
        let state = State::CookieWait(CookieWait {
            init: Repeat::now(),
            sent: None,
            preserve: None,
            stale: 0,
        });
        let told = self.local_addresses.latest();
        let mut association =
            Association::new(id, config, (self.config.port, port), tag, tsn, told, state);
        let (_, mut cx) = self.split(now);
        association.initiate(peers, &mut cx);
        let source = Source::of(peers[0].address);
        self.registry.insert(association, source, false);
        self.registry.touch(id);
        Ok(id)
    }

    /// Sets the UDP port to which packets to a path's peer address go, `None` for plain IP: the
    /// socket option `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951 section 6.1). It holds until a packet
    /// of the peer from that address shows another one. To read it, see
    /// [`crate::PathStats::encapsulation`].
    ///
    /// # Errors
    /// The association or the path is not known, or the port is 0.
    pub fn set_encapsulation(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
        encapsulation: Option<u16>,
    ) -> Result<(), OperationError> {
        if encapsulation == Some(0) {
            return Err(OperationError::InvalidPort);
        }
        self.operate(now, id, |association, _| {
            association.set_encapsulation(path, encapsulation)
        })
    }
}
