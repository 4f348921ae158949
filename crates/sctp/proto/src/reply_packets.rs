//! Bounded queue of packets that are sent outside an association: replies to INIT, to COOKIE
//! ECHO and to out of the blue packets, and the last packet of an association that has ended.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{CauseWriter, CommonHeader, PacketBuilder};

use crate::capacity::ReserveDoubling;
use crate::route::Route;
use crate::transmit::Transmit;

/// Limit of queued packets. Drivers drain the queue after every call, so it fills up only while they
/// can't send.
const LIMIT: usize = 1024;

/// Size limit of a packet in bytes, unless a single chunk is larger.
const SIZE: usize = 1200;

/// Capacity of a packet's buffer at first, in bytes: most have room.
const CAPACITY: usize = 1024;

/// Queue of replies.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Route, DSCP and bytes of each packet.
    queue: VecDeque<(Route, u8, Vec<u8>)>,
    /// Number of packets dropped because the queue was full.
    pub(crate) dropped: u64,
}

portable_struct! { Replies { queue, dropped } }

impl Replies {
    /// Queues the packet that `write` appends to the buffer, if any.
    pub(crate) fn push(&mut self, route: Route, dscp: u8, write: impl FnOnce(&mut Vec<u8>)) {
        if self.queue.len() >= LIMIT {
            self.dropped += 1;
            return;
        }
        let mut buf = Vec::with_capacity(CAPACITY);
        write(&mut buf);
        if buf.is_empty() {
            // The chunk protection does not allow the packet.
            return;
        }
        self.queue.reserve_doubling();
        self.queue.push_back((route, dscp, buf));
    }

    /// Queues an ABORT.
    pub(crate) fn abort(
        &mut self,
        route: Route,
        dscp: u8,
        header: CommonHeader,
        reflected: bool,
        causes: impl FnOnce(&mut CauseWriter<'_>),
    ) {
        self.push(route, dscp, |buf| {
            let mut packet = PacketBuilder::new(buf, header, SIZE);
            packet.abort(reflected, causes);
            packet.finish();
        });
    }

    /// Queues a SHUTDOWN COMPLETE that answers an out of the blue packet.
    pub(crate) fn shutdown_complete(
        &mut self,
        route: Route,
        header: CommonHeader,
        reflected: bool,
    ) {
        self.push(route, 0, |buf| {
            let mut packet = PacketBuilder::new(buf, header, SIZE);
            packet.shutdown_complete(reflected);
            packet.finish();
        });
    }

    /// Removes queued packets from a local address that was removed.
    pub(crate) fn remove_from(&mut self, local: IpAddr) {
        self.queue.retain(|(route, ..)| route.local != Some(local));
    }

    /// Appends the next packet to `out` and returns its route and length.
    pub(crate) fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (route, dscp, packet) = self.queue.pop_front()?;
        out.extend_from_slice(&packet);
        let len = packet.len();
        Some(Transmit {
            route,
            len,
            segment_size: None,
            probe: false,
            may_fragment: len + 60 > 1500,
            dscp,
        })
    }
}
