//! Protection of chunks: sealed last, opened first (see [`crate::protection`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, ChunkType, PacketBuilder, padded};

use super::{Association, Context};
use crate::protection::{ChunkProtection, PacketContext, ProtectionStats, Seal};
use crate::route::{Route, Transmit};
use crate::time::Time;

/// The protection in force and its statistics.
#[derive(Debug)]
pub(crate) struct Protected {
    pub(crate) hook: Box<dyn ChunkProtection>,
    pub(crate) chunk_type: ChunkType,
    pub(crate) stats: ProtectionStats,
    /// Bytes that it adds to the chunks at most.
    overhead: usize,
    scratch: Vec<u8>,
}

impl Protected {
    /// Returns the bytes that it takes from each packet, with the header and padding of its chunk.
    fn overhead(&self) -> usize {
        padded(self.overhead) + CHUNK_HEADER_LEN
    }

    /// Seals the packet at `start` of the buffer; a packet that must not be sent is removed.
    fn seal(&mut self, buf: &mut Vec<u8>, start: usize, context: &PacketContext) {
        let chunks = buf.get(start + COMMON_HEADER_LEN..).unwrap_or_default();
        let longest = chunks.len() + self.overhead;
        self.scratch.clear();
        self.scratch.extend_from_slice(chunks);
        match self.hook.protect(context, &mut self.scratch) {
            Seal::Clear => self.stats.sent_clear += 1,
            Seal::Sealed { flags } if self.scratch.len() <= longest => {
                self.stats.sealed += 1;
                buf.truncate(start);
                let len = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + padded(self.scratch.len());
                let mut packet = PacketBuilder::new(buf, context.header, len);
                packet.raw(self.chunk_type, flags, &self.scratch);
                packet.finish();
            }
            Seal::Drop | Seal::Sealed { .. } => {
                self.stats.held_back += 1;
                buf.truncate(start);
            }
        }
    }
}

impl Association {
    /// Starts the protection that both sides offer; `theirs` is the peer's offer. A protection stays in
    /// force after a restart, which must not remove it.
    pub(super) fn agree_on_protection(&mut self, theirs: Option<&[u8]>, connects: bool) {
        if self.protection.is_none()
            && let (Some(theirs), Some(offer)) = (theirs, &self.config.security.protection)
        {
            let chunk_type = offer.chunk_type();
            self.protection = Some(Box::new(Protected {
                hook: offer.begin(theirs, connects),
                chunk_type,
                stats: ProtectionStats::new(chunk_type),
                overhead: offer.overhead(),
                scratch: Vec::new(),
            }));
        }
        if let Some(protected) = &self.protection {
            let overhead = self.config.mtu.lower_overhead + protected.overhead();
            self.paths.set_overhead(overhead);
        }
    }

    pub(super) fn restart_protection(&mut self) {
        if let Some(protected) = &mut self.protection {
            protected.hook.restarted();
        }
    }

    /// Seals one packet before it is sent. Returns `None` if it must not be sent.
    pub(super) fn protect(
        &mut self,
        buf: &mut Vec<u8>,
        transmit: Transmit,
        now: Time,
    ) -> Option<Transmit> {
        let start = buf.len() - transmit.len;
        if self.protection.is_some() {
            self.seal(buf, start, &transmit.route, now);
        }
        let len = buf.len() - start;
        (len > 0).then_some(Transmit { len, ..transmit })
    }

    fn seal(&mut self, buf: &mut Vec<u8>, start: usize, route: &Route, now: Time) {
        let header = carrick_wire::Packet::parse(&buf[start..]).map(|packet| packet.header());
        if let (Some(protected), Ok(header)) = (&mut self.protection, header) {
            let context = PacketContext {
                now,
                header,
                route: *route,
            };
            protected.seal(buf, start, &context);
        }
    }

    /// Queues the last packet of the association among the endpoint's replies.
    pub(super) fn send_last(
        &mut self,
        route: Route,
        cx: &mut Context<'_>,
        write: impl FnOnce(&Self, &mut Vec<u8>),
    ) {
        let now = cx.now;
        cx.replies.push(route, |buf| {
            write(self, buf);
            if self.protection.is_some() {
                self.seal(buf, 0, &route, now);
            }
        });
    }
}
