//! Packets that belong to no association: answers to INITs and to packets out of the blue, and the
//! last packet of an association that is gone. They wait in a bounded queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{CauseWriter, CommonHeader, PacketBuilder};

use crate::route::{Route, Transmit};

/// Packets that wait at most. A driver drains the queue after every call, so more than a few wait
/// only when it can't send.
const LIMIT: usize = 1024;

/// Bytes of such a packet at most, unless it has to carry more than fits.
const SIZE: usize = 1200;

#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<(Route, Vec<u8>)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    pub(crate) dropped: u64,
}

impl Replies {
    /// Queues the packet that `write` puts into the buffer.
    pub(crate) fn push(&mut self, route: Route, write: impl FnOnce(&mut Vec<u8>)) {
        if self.queue.len() >= LIMIT {
            self.dropped += 1;
            return;
        }
        let mut buf = self.spare.pop().unwrap_or_default();
        write(&mut buf);
        if buf.is_empty() {
            // A protection kept it back.
            self.spare.push(buf);
            return;
        }
        self.queue.push_back((route, buf));
    }

    /// Queues an ABORT.
    pub(crate) fn abort(
        &mut self,
        route: Route,
        header: CommonHeader,
        reflected: bool,
        causes: impl FnOnce(&mut CauseWriter<'_>),
    ) {
        self.push(route, |buf| {
            let mut packet = PacketBuilder::new(buf, header, SIZE);
            packet.abort(reflected, causes);
            packet.finish();
        });
    }

    /// Queues a SHUTDOWN COMPLETE.
    pub(crate) fn shutdown_complete(
        &mut self,
        route: Route,
        header: CommonHeader,
        reflected: bool,
    ) {
        self.push(route, |buf| {
            let mut packet = PacketBuilder::new(buf, header, SIZE);
            packet.shutdown_complete(reflected);
            packet.finish();
        });
    }

    /// Packets from this local address can't leave any more.
    pub(crate) fn forget(&mut self, local: IpAddr) {
        self.queue.retain(|(route, _)| route.local != Some(local));
    }

    /// Hands out the next packet.
    pub(crate) fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (route, mut packet) = self.queue.pop_front()?;
        out.extend_from_slice(&packet);
        let len = packet.len();
        packet.clear();
        if self.spare.len() < 16 {
            self.spare.push(packet);
        }
        Some(Transmit {
            route,
            len,
            segment_size: None,
            probe: false,
            may_fragment: len + 60 > 1500,
        })
    }
}
