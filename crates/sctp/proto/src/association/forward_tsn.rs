//! Abandoned messages of both sides (RFC 3758 sections 3.5 and 3.6, RFC 8260 section 2.3.1).

use alloc::vec::Vec;

use carrick_wire::{ChunkType, ForwardTsn, IForwardTsn, PacketBuilder};

use super::input::PacketProgress;
use super::output::single;
use super::{Association, Context};
use crate::auth::ChunkSet;
use crate::event::Event;
use crate::path::PathId;
use crate::rx::Receiver;
use crate::transmit::Transmit;

/// Chunk types that [`Association::bundle_forward`] writes.
pub(super) const FORWARDS: ChunkSet =
    ChunkSet::of(&[ChunkType::FORWARD_TSN, ChunkType::I_FORWARD_TSN]);

impl Association {
    /// FORWARD-TSN: the peer abandoned messages. It is acknowledged like DATA.
    pub(super) fn on_forward_tsn(
        &mut self,
        forward: &ForwardTsn<'_>,
        progress: &mut PacketProgress,
    ) {
        self.forward(progress, |receiver| receiver.on_forward_tsn(forward));
    }

    /// I-FORWARD-TSN (RFC 8260 section 2.3.1).
    pub(super) fn on_i_forward_tsn(
        &mut self,
        forward: &IForwardTsn<'_>,
        progress: &mut PacketProgress,
    ) {
        self.forward(progress, |receiver| receiver.on_i_forward_tsn(forward));
    }

    fn forward(&mut self, progress: &mut PacketProgress, process: impl FnOnce(&mut Receiver)) {
        progress.data = true;
        self.counters.other().forward_tsns_received += 1;
        let before = self.receiver.cumulative_tsn();
        process(&mut self.receiver);
        progress.advanced |= self.receiver.cumulative_tsn() != before;
    }

    /// Notifies the user of partially delivered messages that the peer abandoned.
    pub(super) fn notify_aborted_messages(&mut self) {
        for message in self.receiver.take_aborted() {
            self.events.push_limited(Event::MessageAborted {
                stream: message.stream,
                ssn: message.ssn,
                tsn: message.tsn,
            });
        }
    }

    /// Chunk type that reports abandoned messages to the peer.
    pub(super) fn forward_chunk(&self) -> ChunkType {
        if self.extensions.interleaving {
            ChunkType::I_FORWARD_TSN
        } else {
            ChunkType::FORWARD_TSN
        }
    }

    /// Abandons the messages whose lifetime has ended, which may complete a shutdown.
    pub(super) fn expire_messages(&mut self, cx: &Context<'_>) {
        self.sender.expire(cx.now, &mut self.paths);
        self.report_abandoned();
        // Timers and the removal of a path make messages abandoned as well.
        self.advance_shutdown(cx);
    }

    /// Queues the notifications of abandoned messages.
    pub(super) fn report_abandoned(&mut self) {
        let failures = self.sender.take_abandoned();
        if !failures.is_empty() {
            self.events.extend(failures);
        }
    }

    /// Puts a FORWARD-TSN or I-FORWARD-TSN in front of DATA if one is due (rule F2).
    pub(super) fn bundle_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &mut Context<'_>,
    ) {
        let (sender, mut tx) = self.transmit_context(cx.now, false, cx.stats);
        sender.fill_forward(path, packet, &mut tx);
    }

    /// Puts an unacknowledged FORWARD-TSN in front of each SHUTDOWN or SHUTDOWN ACK, since SACKs are
    /// not processed any more (RFC 9260 section 6). Returns whether there is none or both chunks fit.
    pub(super) fn bundle_last_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        behind: usize,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(len) = self.sender.repeat_forward() else {
            return true;
        };
        let fits = packet.fits(len + behind);
        if fits {
            self.bundle_forward(path, packet, cx);
        }
        fits
    }

    /// A FORWARD-TSN without DATA.
    pub(super) fn output_forward(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.state.sends_data() {
            return None;
        }
        let (sender, tx) = self.transmit_context(cx.now, false, cx.stats);
        let path = sender.forward_path(&tx)?;
        let (header, limit) = (self.header(), self.paths[path].packet_size());
        let mut packet = PacketBuilder::new(buf, header, limit);
        let slot = self
            .auth
            .open(&mut packet, &ChunkSet::of(&[self.forward_chunk()]));
        self.bundle_forward(path, &mut packet, cx);
        let len = self.finish(packet, slot);
        (len > 0).then(|| single(self.paths[path].route(), len))
    }
}
