//! The host's addresses come and go, and every association learns of it (RFC 5061).

use alloc::vec::Vec;
use core::net::IpAddr;

use super::Endpoint;
use crate::association::AssociationId;
use crate::error::OperationError;
use crate::time::Time;

impl Endpoint {
    /// A local address of the host is new: it is told to peers and used in associations that are
    /// set up from now on, and in those that have dynamic addresses (RFC 5061), whose peers learn of
    /// it. Peers of others don't know it, unless it was advertised to them in the set-up, was removed
    /// and has returned: then it is used again. Paths may change to it (RFC 9260 section 6.4).
    pub fn local_address_added(&mut self, address: IpAddr) {
        self.local_addresses.add(address);
        self.config.source_selection.refresh();
        self.touch_all();
    }

    /// The routes of the host changed: every association selects the source address of its paths
    /// again. A path whose choice is the same as before keeps the source that it has.
    pub fn local_routes_changed(&mut self) {
        self.local_addresses.note_route_change();
        self.config.source_selection.refresh();
        self.touch_all();
    }

    /// Lets every association look at the local addresses before it sends.
    fn touch_all(&mut self) {
        let ids: Vec<AssociationId> = self.registry.ids().collect();
        for id in ids {
            self.registry.touch(id);
        }
    }

    /// SET PEER PRIMARY: asks the peer to send to this address of ours (RFC 5061 section 5.4).
    ///
    /// # Errors
    /// The association is not known, has no dynamic addresses or is not established, or the address
    /// is not one of the endpoint's.
    pub fn set_peer_primary(
        &mut self,
        now: Time,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, cx| {
            association.set_peer_primary(address, cx)
        })
    }

    /// A local address of the host is gone: paths from it change to another one, and peers learn of
    /// it where dynamic addresses are in force. The last address of an association goes when there
    /// is another one; until then nothing is sent from it.
    pub fn local_address_removed(&mut self, now: Time, address: IpAddr) {
        self.local_addresses.remove(address);
        self.config.source_selection.refresh();
        self.replies.forget(address);
        let ids: Vec<AssociationId> = self.registry.ids().collect();
        for id in ids {
            self.with(now, id, |association, cx| {
                association.on_local_address_removed(address, cx)
            });
        }
    }
}
