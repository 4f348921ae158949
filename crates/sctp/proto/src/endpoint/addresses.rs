//! Changes of the host's addresses (RFC 5061).

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{AssociationMut, Endpoint};
use crate::error::OperationError;
use crate::ids::AssociationId;
use crate::time::Time;

impl Endpoint {
    /// Adds a local address. Later associations advertise it, and associations with dynamic addresses
    /// (RFC 5061) add it by ASCONF. Other associations do not use it, unless it was advertised in their
    /// set-up and has been removed since. Paths may change to it (RFC 9260, section 6.4).
    pub fn local_address_added(&mut self, address: IpAddr) {
        self.local_addresses.add(address);
        self.config.source_selection.refresh();
        self.refresh_all();
    }

    /// Repeats the source address selection of all paths after the host's routes changed. A path for
    /// which the selection has the same result as before keeps its current source address.
    pub fn local_routes_changed(&mut self) {
        self.local_addresses.note_route_change();
        self.config.source_selection.refresh();
        self.refresh_all();
    }

    /// Queues every association, so that it checks the local addresses before it sends.
    fn refresh_all(&mut self) {
        let ids: Vec<AssociationId> = self.registry.ids().collect();
        for id in ids {
            self.registry.refresh(id);
        }
    }

    /// Removes a local address. Paths that use it change to another one, and associations with dynamic
    /// addresses (RFC 5061) delete it by ASCONF. The last address of an association is deleted once
    /// another one has been added; until then nothing is sent from it.
    pub fn local_address_removed(&mut self, now: Time, address: IpAddr) {
        self.local_addresses.remove(address);
        self.config.source_selection.refresh();
        self.replies.remove_from(address);
        let ids: Vec<AssociationId> = self.registry.ids().collect();
        for id in ids {
            self.update_association(now, id, |association, cx| {
                association.on_local_address_removed(address, cx)
            });
        }
    }
}

impl AssociationMut<'_> {
    /// Requests that the peer use this local address as its primary destination: Set Primary Address of
    /// RFC 5061, section 5.4.
    ///
    /// # Errors
    /// [`OperationError::WrongState`] if the association is not established or has no dynamic addresses, or
    /// [`OperationError::UnknownAddress`].
    pub fn set_peer_primary(&mut self, address: IpAddr) -> Result<(), OperationError> {
        let (association, cx) = self.parts()?;
        association.set_peer_primary(address, &cx)
    }
}
