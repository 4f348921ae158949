//! Status and statistics of associations (RFC 6458, section 8.2).

use std::net::SocketAddr;

use carrick_proto::{PathStats, StateName};

use super::scope::OptionView;
use super::table::{self, Get, Set, SetValue, fitting, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::{AssociationRef, association_mut};
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::table::Socket;

/// Size of the SCTP common header and of the headers of DATA and I-DATA chunks in bytes.
const COMMON_HEADER: usize = 12;
const DATA_HEADER: usize = 16;
const I_DATA_HEADER: usize = 20;

options! {
    [IPPROTO_SCTP]
    SCTP_STATUS, ID, _, [none], [bytes status];
    SCTP_GET_PEER_ADDR_INFO, id_and_address(4), PaddrInfo, [none], [value peer_addr_info];
    SCTP_GET_ASSOC_STATS, ID, _, [none], [operation take_assoc_stats];
    SCTP_GET_ASSOC_NUMBER, NONE, _, [none], [bytes assoc_number];
    SCTP_GET_ASSOC_ID_LIST, NONE, _, [none], [bytes assoc_id_list];
}

/// `SCTP_STATUS` (RFC 6458, section 8.2.1)
fn status(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    if buffer.len() < STATUS {
        return Err(Errno::EINVAL);
    }
    let association = view.association(i32::parse(buffer)?)?;
    let stats = association.stats().ok_or(Errno::EINVAL)?;
    let config = association.config().ok_or(Errno::EINVAL)?;
    let primary = association.primary_path().ok_or(Errno::EINVAL)?;
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
        assoc_id: association.id.0,
        state: state(stats.state),
        rwnd: stats.peer_rwnd as u32,
        unacked_data: narrow(stats.outstanding_chunks),
        pending_data: narrow(stats.receivable_messages),
        inbound_streams: stats.inbound_streams,
        outbound_streams: stats.outbound_streams,
        fragmentation_point: point as u32,
    };
    let mut bytes = status.encode();
    bytes.extend(path_info(view.socket, association, &primary).encode());
    Ok(bytes)
}

/// `SCTP_GET_PEER_ADDR_INFO` (RFC 6458, section 8.2.2)
fn peer_addr_info(view: &OptionView<'_>, info: &mut PaddrInfo) -> Result<(), Errno> {
    let (association, path) = view.required(info.assoc_id, info.address)?;
    *info = path_info(view.socket, association, &path.ok_or(Errno::EINVAL)?);
    Ok(())
}

fn path_info(socket: &Socket, association: AssociationRef<'_>, path: &PathStats) -> PaddrInfo {
    let status = path.status;
    // RFC 7829, section 7.3
    let config = association.config();
    let is_exposed = config.is_some_and(|config| config.paths.expose_potentially_failed);
    let state = match (status.confirmed, status.active) {
        (false, _) => SCTP_UNCONFIRMED,
        (true, false) => SCTP_INACTIVE,
        (true, true) if status.potentially_failed && is_exposed => SCTP_PF,
        (true, true) => SCTP_ACTIVE,
    };
    let address = SocketAddr::new(path.remote, association.own.peer.port());
    PaddrInfo {
        assoc_id: association.id.0,
        address: socket.present(address).into(),
        state,
        cwnd: u32::try_from(path.cwnd).unwrap_or(u32::MAX),
        srtt: path.srtt.map_or(0, millis),
        rto: millis(path.rto),
        mtu: path.mtu as u32,
    }
}

/// `SCTP_GET_ASSOC_STATS` of Linux: as much of the struct as the buffer holds. Reading begins a new period of
/// the highest RTO; it is 0, without an address, if no RTO was set in the period.
fn take_assoc_stats(host: &mut Sockets, id: SocketId, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let asked = i32::parse(buffer)?;
    let association = OptionView::new(host, id)?.association(asked)?;
    let counters = association.stats().ok_or(Errno::EINVAL)?.counters;
    let number = association.own.peer.port();
    let association = association.id;
    let highest = association_mut(host, association);
    let highest = highest.and_then(|a| a.core.take_highest_rto(a.core_id));
    let socket = host.table.open(id)?;
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

/// Returns the associations of a one-to-many socket that have not ended.
fn open_associations(view: &OptionView<'_>) -> Result<Vec<AssocId>, Errno> {
    if view.socket.is_one_to_one() {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(view.associations.open_of(view.socket))
}

/// `SCTP_GET_ASSOC_NUMBER` (RFC 6458, section 8.2.5)
fn assoc_number(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    table::int(buffer, open_associations(view)?.len() as i32)
}

/// `SCTP_GET_ASSOC_ID_LIST` (RFC 6458, section 8.2.6)
fn assoc_id_list(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let ids = open_associations(view)?;
    let mut bytes = (ids.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(ids.iter().flat_map(|id| id.0.to_ne_bytes()));
    fitting(buffer, bytes)
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
