//! Messages that are given up, on either side (RFC 3758 sections 3.5 and 3.6, RFC 8260 section
//! 2.3.1).

use alloc::sync::Arc;
use alloc::vec::Vec;

use carrick_wire::{ChunkType, ForwardTsn, IForwardTsn, PacketBuilder};

use super::output::single;
use super::{Association, Context, MAX_PEER_EVENTS};
use crate::event::Event;
use crate::path::PathId;
use crate::recv::Receiver;
use crate::route::Transmit;

impl Association {
    /// The peer gave messages up. For acknowledgements the chunk is like DATA.
    pub(super) fn on_forward_tsn(&mut self, forward: &ForwardTsn<'_>) {
        self.take_forward(|receiver| receiver.on_forward_tsn(forward));
    }

    /// The same where messages interleave (RFC 8260 section 2.3.1).
    pub(super) fn on_i_forward_tsn(&mut self, forward: &IForwardTsn<'_>) {
        self.take_forward(|receiver| receiver.on_i_forward_tsn(forward));
    }

    fn take_forward(&mut self, take: impl FnOnce(&mut Receiver)) {
        self.counters.forward_tsns_received += 1;
        let before = self.receiver.cumulative_tsn();
        take(&mut self.receiver);
        if self.receiver.cumulative_tsn() != before {
            // The peer goes on without the reset it had asked for.
            self.thaw();
        }
    }

    /// Tells the user of messages that were begun and will not be finished.
    pub(super) fn tell_aborted(&mut self) {
        let room = MAX_PEER_EVENTS.saturating_sub(self.events.len());
        let told = self.receiver.take_aborted().into_iter().take(room);
        self.events
            .extend(told.map(|message| Event::MessageAborted {
                stream: message.stream,
                ssn: message.ssn,
                tsn: message.tsn,
            }));
    }

    /// The chunk that tells the peer of what is given up, if it can be told.
    pub(super) fn forward_chunk(&self) -> ChunkType {
        if self.extensions.interleaving {
            ChunkType::I_FORWARD_TSN
        } else {
            ChunkType::FORWARD_TSN
        }
    }

    /// Gives up the messages whose time is over; nothing else may be left to wait for.
    pub(super) fn expire_messages(&mut self, cx: &Context<'_>) {
        self.sender.expire(cx.now, &mut self.paths);
        self.report_abandoned();
        // Timers and the removal of a path make messages abandoned as well.
        self.advance_shutdown(cx);
    }

    /// Queues the notifications of abandoned messages.
    pub(super) fn report_abandoned(&mut self) {
        let failures = self.sender.take_abandoned();
        self.events.extend(failures.into_iter().map(Event::from));
    }

    /// Puts a FORWARD-TSN or I-FORWARD-TSN in front of DATA if one is due (rule F2).
    pub(super) fn bundle_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        cx: &Context<'_>,
    ) {
        let config = Arc::clone(&self.config);
        let (sender, mut tx) = self.transmit_context(&config, cx, false);
        sender.fill_forward(path, packet, &mut tx);
    }

    /// Puts a FORWARD-TSN that the peer has not acknowledged in front of SHUTDOWN or SHUTDOWN ACK, each
    /// time that one of these leaves: SACKs are not processed any more (RFC 9260 section 6). Returns
    /// whether there is none or both chunks fit.
    pub(super) fn bundle_last_forward(
        &mut self,
        path: PathId,
        packet: &mut PacketBuilder<'_>,
        behind: usize,
        cx: &Context<'_>,
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

    /// A FORWARD-TSN that no DATA takes along.
    pub(super) fn output_forward(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.state.sends_data() {
            return None;
        }
        let config = Arc::clone(&self.config);
        let (sender, tx) = self.transmit_context(&config, cx, false);
        let path = sender.forward_path(&tx)?;
        let (header, limit) = (self.header(), self.paths[path].packet_size());
        let mut packet = PacketBuilder::new(buf, header, limit);
        let slot = self.open_auth(&mut packet, &[self.forward_chunk()]);
        self.bundle_forward(path, &mut packet, cx);
        let len = self.finish(packet, slot);
        (len > 0).then(|| single(self.paths[path].route(), len))
    }
}
