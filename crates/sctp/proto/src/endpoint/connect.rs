//! ASSOCIATE (RFC 9260, section 11.1.2), with the UDP encapsulation of peer addresses (RFC 6951, section 5.1).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::Tsn;

use super::Endpoint;
use super::shard::{NewAssociation, Refusal, choose_tag};
use super::source_table::SourceKey;
use crate::association::Association;
use crate::association::state::{AssociationState, CookieWait, Repeat};
use crate::config::AssociationConfig;
use crate::error::ConnectError;
use crate::ids::AssociationId;
use crate::route::PeerAddress;
use crate::time::Time;

impl Endpoint {
    /// Initiates an association with the peer that has these addresses and this SCTP port: ASSOCIATE of
    /// RFC 9260, section 11.1.2.
    ///
    /// INIT goes to the first address first. The address that answers becomes the primary path until
    /// [`AssociationMut::set_primary`](crate::AssociationMut::set_primary) changes it. `encapsulation` is the UDP port for packets to all addresses
    /// (RFC 6951), `None` for plain IP; see [`Self::associate`] for one port per address.
    ///
    /// [`Event::Established`](crate::Event::Established) or [`Event::Closed`](crate::Event::Closed) reports the outcome.
    ///
    /// # Errors
    /// See [`ConnectError`].
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

    /// Initiates an association like [`Self::connect`], with a separate UDP encapsulation for each
    /// address: one association may have paths on plain IP and paths in UDP. Addresses that the peer
    /// advertises get the encapsulation of the packet that lists them. Later packets of the peer update
    /// the encapsulation of their source address.
    ///
    /// Two associations may have the same peer address and port if their encapsulation differs, since
    /// hosts behind a translator share its address.
    ///
    /// 1. Check addresses, ports and parameters.
    /// 2. Refuse a second association with the same peer (section 5.2.1), and one beyond the limits.
    /// 3. Choose the Verification Tag and the initial TSN (sections 5.3.1 and 3.3.2).
    /// 4. Enter COOKIE-WAIT; the INIT leaves with the next packet (section 5.1).
    ///
    /// # Errors
    /// See [`ConnectError`].
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
        let is_connected = |peer: &PeerAddress| {
            let (address, encapsulation) = (peer.address, peer.encapsulation);
            let existing = self.registry.find_confirmed(address, port, encapsulation);
            existing.is_some()
        };
        if peers.iter().any(is_connected) {
            return Err(ConnectError::AlreadyConnected);
        }
        let new = NewAssociation {
            addresses: peers,
            confirmed: peers.len(),
            advertised: &[],
            port,
            source: SourceKey::of(peers[0].address),
            accepted: false,
            is_exclusive: true,
        };
        let admitted = self.admit(&new);
        let id = admitted.map_err(|refusal| match refusal {
            Refusal::Connected => ConnectError::AlreadyConnected,
            Refusal::Limit => ConnectError::TooManyAssociations,
        })?;
        self.uses_protection |= config.security.protection.is_some();
        let tag = choose_tag(&mut self.random, self.config.shard.as_ref());
        let tsn = Tsn::new(self.random.u32());
        let state = AssociationState::CookieWait(CookieWait {
            init: Repeat::now(),
            sent: None,
            preserve: None,
            stale: 0,
        });
        let address_version = self.local_addresses.latest();
        let mut association = Association::new(
            id,
            config,
            (self.config.port, port),
            tag,
            tsn,
            address_version,
            state,
        );
        let (_, mut cx) = self.registry_and_context(now);
        association.initiate(peers, &mut cx);
        association.observe(self.observer.clone(), now);
        self.registry.insert(association, &new);
        self.registry.refresh(id);
        Ok(id)
    }
}
