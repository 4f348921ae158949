//! Status and statistics of associations (RFC 6458, section 8.2).

use std::net::SocketAddr;

use carrick_proto::{PathStats, StateName};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::table::Socket;

use super::{int, read_int};

/// Size of the SCTP common header and of the headers of DATA and I-DATA chunks in bytes.
const COMMON_HEADER: usize = 12;
const DATA_HEADER: usize = 16;
const I_DATA_HEADER: usize = 20;

impl Sockets {
    /// `SCTP_STATUS` (RFC 6458, section 8.2.1)
    pub(super) fn get_status(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        if buffer.len() < STATUS {
            return Err(Errno::EINVAL);
        }
        let asked = read_int(buffer)?;
        let association = self.association_of(socket, asked).ok_or(Errno::EINVAL)?;
        let (core, core_id) = self.core_ref(association).ok_or(Errno::EINVAL)?;
        let stats = core.association_stats(core_id).ok_or(Errno::EINVAL)?;
        let config = core.association_config(core_id).ok_or(Errno::EINVAL)?;
        let mut paths = core.paths(core_id);
        let primary = paths.find(|path| Some(path.id) == stats.current);
        let primary = primary.ok_or(Errno::EINVAL)?;
        let header = if stats.extensions.interleaving {
            I_DATA_HEADER
        } else {
            DATA_HEADER
        };
        let ip_header = if primary.remote.is_ipv4() { 20 } else { 40 };
        let udp_header = if primary.encapsulation.is_some() {
            8
        } else {
            0
        };
        let overhead = ip_header + udp_header + COMMON_HEADER + header;
        let room = primary.mtu.saturating_sub(overhead);
        let point = config.mtu.max_payload.unwrap_or(room).min(room);
        let narrow = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let status = Status {
            assoc_id: association.0,
            state: state(stats.state),
            rwnd: stats.peer_rwnd as u32,
            unacked_data: narrow(stats.outstanding_chunks),
            pending_data: narrow(stats.receivable_messages),
            inbound_streams: stats.inbound_streams,
            outbound_streams: stats.outbound_streams,
            fragmentation_point: point as u32,
        };
        let mut bytes = status.encode();
        bytes.extend(self.paddrinfo(socket, association, &primary).encode());
        Ok(bytes)
    }

    /// `SCTP_GET_PEER_ADDR_INFO` (RFC 6458, section 8.2.2)
    pub(super) fn get_peer_addr_info(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let asked = PaddrInfo::read(buffer)?;
        let association = self.required(socket, asked.assoc_id, asked.address)?;
        let path = self.path(socket, association, asked.address)?;
        let path = path.ok_or(Errno::EINVAL)?;
        Ok(self.paddrinfo(socket, association, &path).encode())
    }

    fn paddrinfo(&self, socket: &Socket, id: AssocId, path: &PathStats) -> PaddrInfo {
        let number = self.associations.get(id).map_or(0, |a| a.peer.port());
        let status = path.status;
        let core = self.core_ref(id);
        let config = core.and_then(|(core, core_id)| core.association_config(core_id));
        // RFC 7829, section 7.3
        let is_exposed = config.is_some_and(|config| config.paths.expose_potentially_failed);
        let state = match (status.confirmed, status.active) {
            (false, _) => SCTP_UNCONFIRMED,
            (true, false) => SCTP_INACTIVE,
            (true, true) if status.potentially_failed && is_exposed => SCTP_PF,
            (true, true) => SCTP_ACTIVE,
        };
        PaddrInfo {
            assoc_id: id.0,
            address: socket.present(SocketAddr::new(path.remote, number)).into(),
            state,
            cwnd: u32::try_from(path.cwnd).unwrap_or(u32::MAX),
            srtt: path.srtt.map_or(0, millis),
            rto: millis(path.rto),
            mtu: path.mtu as u32,
        }
    }

    /// `SCTP_GET_ASSOC_STATS` of Linux: as much of the struct as the buffer holds. Reading begins a new period of
    /// the highest RTO; it is 0, without an address, if no RTO was set in the period.
    pub(super) fn get_assoc_stats(
        &mut self,
        id: SocketId,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let socket = self.table.open(id)?;
        let asked = read_int(buffer)?;
        let association = self.association_of(socket, asked).ok_or(Errno::EINVAL)?;
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let counters = core
            .association_stats(core_id)
            .ok_or(Errno::EINVAL)?
            .counters;
        let highest = core.take_highest_rto(core_id);
        let number = self
            .associations
            .get(association)
            .map_or(0, |a| a.peer.port());
        let socket = self.table.open(id)?;
        let address = highest.map(|(ip, _)| socket.present(SocketAddr::new(ip, number)));
        let stats = AssocStats {
            assoc_id: asked,
            max_rto_address: Storage(address),
            max_rto: highest.map_or(0, |(_, rto)| millis(rto).into()),
            sacks_received: counters.sacks_received,
            sacks_sent: counters.sacks_sent,
            packets_sent: counters.packets_sent,
            packets_received: counters.packets_received,
            retransmitted_chunks: counters.retransmissions,
            out_of_sequence_tsns: counters.out_of_sequence_chunks_received,
            duplicates_received: counters.duplicates_received,
            gap_acks_received: counters.gap_ack_blocks_received,
            unordered_chunks_sent: counters.unordered_chunks_sent,
            unordered_chunks_received: counters.unordered_chunks_received,
            ordered_chunks_sent: counters
                .data_chunks_sent
                .saturating_sub(counters.unordered_chunks_sent),
            ordered_chunks_received: counters
                .data_chunks_received
                .saturating_sub(counters.unordered_chunks_received),
            control_chunks_sent: counters.control_chunks_sent,
            control_chunks_received: counters.control_chunks_received,
        };
        let mut bytes = stats.encode();
        bytes.truncate(buffer.len());
        Ok(bytes)
    }

    /// `SCTP_GET_ASSOC_NUMBER` (RFC 6458, section 8.2.5)
    pub(super) fn get_assoc_number(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if socket.is_one_to_one() {
            return Err(Errno::EOPNOTSUPP);
        }
        int(buffer, self.open_associations(socket).len() as i32)
    }

    /// `SCTP_GET_ASSOC_ID_LIST` (RFC 6458, section 8.2.6)
    pub(super) fn get_assoc_id_list(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if socket.is_one_to_one() {
            return Err(Errno::EOPNOTSUPP);
        }
        let ids = self.open_associations(socket);
        let size = 4 + 4 * ids.len();
        if buffer.len() < size {
            return Err(Errno::EINVAL);
        }
        let mut bytes = (ids.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(ids.iter().flat_map(|id| id.0.to_ne_bytes()));
        Ok(bytes)
    }

    /// Returns the associations of a socket that have not ended.
    pub(super) fn open_associations(&self, socket: &Socket) -> Vec<AssocId> {
        let all = socket.associations.iter().copied();
        all.filter(|id| self.associations.is_open(*id)).collect()
    }
}

/// Returns Linux's number of a state.
fn state(name: StateName) -> i32 {
    match name {
        StateName::CookieWait => SCTP_COOKIE_WAIT,
        StateName::CookieEchoed => SCTP_COOKIE_ECHOED,
        StateName::Established => SCTP_ESTABLISHED,
        StateName::ShutdownPending => SCTP_SHUTDOWN_PENDING,
        StateName::ShutdownSent => SCTP_SHUTDOWN_SENT,
        StateName::ShutdownReceived => SCTP_SHUTDOWN_RECEIVED,
        StateName::ShutdownAckSent => SCTP_SHUTDOWN_ACK_SENT,
        StateName::Closed => SCTP_CLOSED,
    }
}
