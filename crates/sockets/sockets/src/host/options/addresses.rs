//! Lists of addresses, as `sctp_getpaddrs` and `sctp_getladdrs` read them (RFC 6458, sections 9.3 and 9.5),
//! and whether they follow the host's.

use super::flag;
use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::SocketId;
use crate::linux::*;
use crate::table::Socket;

impl Sockets {
    /// `SCTP_GET_PEER_ADDRS` and `SCTP_GET_LOCAL_ADDRS`
    pub(super) fn get_addresses(
        &self,
        id: SocketId,
        buffer: &[u8],
        of_peer: bool,
    ) -> Result<Vec<u8>, Errno> {
        let mut header = GetAddrs::read(buffer)?;
        let addresses = if of_peer {
            self.peer_addresses(id, header.assoc_id)?
        } else {
            // 0 means the socket, also on those with one association.
            let socket = self.table.open(id)?;
            if header.assoc_id != SCTP_FUTURE_ASSOC {
                self.association_of(socket, header.assoc_id)
                    .ok_or(Errno::EINVAL)?;
            }
            self.local_addresses(id)?
        };
        header.number = addresses.len() as u32;
        let mut bytes = header.encode();
        for address in addresses {
            bytes.extend(write_address(address));
        }
        if bytes.len() > buffer.len() {
            return Err(Errno::ENOMEM);
        }
        Ok(bytes)
    }
    /// Returns whether the socket is bound to a wildcard address, so that its addresses, and those of its
    /// associations with dynamic addresses, follow the host's.
    pub(super) fn follows_host_addresses(&self, socket: &Socket) -> bool {
        let port = socket.port.and_then(|id| self.ports.get(id));
        port.is_some_and(|port| port.scope().wildcard().is_some())
    }

    /// `SCTP_AUTO_ASCONF` (RFC 6458, section 8.1.23)
    pub(super) fn set_auto_asconf(&self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let on = flag(value)?;
        match self.follows_host_addresses(self.table.open(id)?) {
            follows if follows == on => Ok(()),
            true => Err(Errno::EOPNOTSUPP),
            false => Err(Errno::EINVAL),
        }
    }
}
