//! Assembly of packets with DATA.
//!
//! Consecutive packets for one path leave as one transmit, for segmentation offload. For each of them:
//!
//! 1. Begin: the sender permits DATA on a path (RFC 9260 sections 6.1 and 7.2). The transmit ends before
//!    a packet for another path, with another ECN field, or larger than the first one.
//! 2. AUTH, if the peer requires it for a chunk that may follow (RFC 4895 section 6.2).
//! 3. Bundle control chunks, which precede DATA (RFC 9260 section 6.10), in the first packet only: ECNE
//!    and SACK, if one is pending for this path (RFC 9260 section 6.1 and RFC 4960 appendix A), then
//!    FORWARD-TSN (RFC 3758 section 3.5, rule F2).
//! 4. Add DATA: marked chunks before new ones (RFC 9260 section 6.1).
//! 5. Seal: PAD in a packet that IP has to fragment (RFC 4820 section 3), HMAC and checksum.
//!
//! The transmit ends with a packet that is not full.

use alloc::vec::Vec;

use carrick_wire::{AuthSlot, ChunkType, PacketBuilder};

use super::forward_tsn::FORWARDS;
use super::oversized::{PADDING, fill_up};
use super::sack::SACKS_WITH_ECNE;
use super::state::AssociationState;
use super::{Association, Context};
use crate::auth::ChunkSet;
use crate::path::PathId;
use crate::route::{Ecn, Route};
use crate::transmit::{MAX_SEGMENTED_BYTES, MAX_SEGMENTS, Transmit};
use crate::tx::DataPacketPlan;

/// Chunk types that [`Sender::add_data`](crate::tx::Sender::add_data) writes.
pub(super) const DATA: ChunkSet = ChunkSet::of(&[ChunkType::DATA, ChunkType::I_DATA]);

/// Chunk types of a packet that exceeds the path MTU.
const OVERSIZED: ChunkSet = DATA.with(PADDING);

/// Chunk types of a packet with bundled control chunks.
const BUNDLED: ChunkSet = DATA.with(SACKS_WITH_ECNE).with(FORWARDS);

/// A packet that has been begun.
#[derive(Clone, Copy)]
struct PacketPlan {
    permit: DataPacketPlan,
    /// Nothing in it was sent before, so it may be ECN-capable.
    is_new: bool,
    /// Bytes of a packet that fits the path MTU.
    normal: usize,
    /// Bytes of this packet at most.
    limit: usize,
    /// It does not fit the path MTU: a chunk was fragmented for a larger one.
    oversized: bool,
    with_sack: bool,
    with_forward: bool,
}

impl PacketPlan {
    /// Returns the types of the chunks that the packet may contain.
    fn kinds(&self) -> &'static ChunkSet {
        // Room for AUTH is reserved for DATA only, where nothing else needs it.
        if self.with_sack || self.with_forward {
            &BUNDLED
        } else if self.oversized {
            &OVERSIZED
        } else {
            &DATA
        }
    }
}

/// Assembles the packets of one transmit.
struct PacketAssembler<'a, 'c> {
    association: &'a mut Association,
    cx: &'a mut Context<'c>,
    shutting_down: bool,
    /// Bytes of AUTH in front of DATA.
    reserved: usize,
    max_segments: usize,
    /// Path and ECN capability of the packets.
    sent: Option<(PathId, bool)>,
    segments: usize,
    /// Bytes of the first packet.
    segment_size: Option<usize>,
    may_fragment: bool,
    /// FORWARD-TSN did not leave room for DATA and is sent by itself.
    without_forward: bool,
}

impl<'a, 'c> PacketAssembler<'a, 'c> {
    fn new(association: &'a mut Association, cx: &'a mut Context<'c>) -> Self {
        Self {
            shutting_down: !matches!(association.state, AssociationState::Established),
            reserved: association.auth.len_for(&DATA),
            // A protection may turn packets of equal size into packets of different sizes.
            max_segments: association.protection.as_ref().map_or(MAX_SEGMENTS, |_| 1),
            association,
            cx,
            sent: None,
            segments: 0,
            segment_size: None,
            may_fragment: false,
            without_forward: false,
        }
    }

    /// Step 1. Returns `None` if no packet may follow in this transmit.
    fn begin(&mut self) -> Option<PacketPlan> {
        let (sender, mut tx) =
            self.association
                .transmit_context(self.cx.now, self.shutting_down, self.cx.stats);
        let permit = sender.plan_packet(&mut tx)?;
        let is_new = sender.is_first_transmission(permit);
        if self.sent.is_some_and(|sent| sent != (permit.path, is_new)) {
            return None;
        }
        let normal = tx.paths[permit.path].packet_size();
        let size = sender.oversized(permit, normal - self.reserved, &tx);
        let association = &*self.association;
        let oversized = size.map(|size| {
            let needed = size + association.auth.len_for(&OVERSIZED);
            association.limit_for(needed, normal, permit.path, self.cx)
        });
        let too_small = self.segment_size.is_some_and(|size| size > normal);
        if self.segments > 0 && (oversized.is_some() || too_small) {
            return None;
        }
        let bundles = self.segments == 0 && oversized.is_none();
        Some(PacketPlan {
            permit,
            is_new,
            normal,
            limit: oversized.or(self.segment_size).unwrap_or(normal),
            oversized: oversized.is_some(),
            with_sack: bundles
                && association.receiver.may_bundle_sack(
                    permit.path,
                    &association.paths,
                    &association.config,
                ),
            with_forward: bundles && association.sender.forward_is_due() && !self.without_forward,
        })
    }

    /// Step 3.
    fn bundle_control(&mut self, plan: &PacketPlan, packet: &mut PacketBuilder<'_>) {
        if plan.with_sack {
            self.association
                .write_sack_with_ecne(plan.permit.path, packet, self.cx);
        }
        if plan.with_forward {
            self.association
                .bundle_forward(plan.permit.path, packet, self.cx);
        }
    }

    /// Step 4. Returns whether the packet is full.
    fn add_data(&mut self, plan: &PacketPlan, packet: &mut PacketBuilder<'_>) -> bool {
        let (sender, mut tx) =
            self.association
                .transmit_context(self.cx.now, self.shutting_down, self.cx.stats);
        sender.add_data(plan.permit, packet, &mut tx)
    }

    /// Step 5. Returns the bytes of the packet; 0 if it has no chunks and was discarded.
    fn seal(
        &mut self,
        plan: &PacketPlan,
        packet: PacketBuilder<'_>,
        auth: Option<AuthSlot>,
    ) -> usize {
        let len = self.association.finish(packet, auth);
        if len > 0 {
            let path = plan.permit.path;
            self.sent = Some((path, plan.is_new));
            self.segments += 1;
            self.may_fragment |= plan.oversized;
            self.association.paths[path].data_packet_sent(len);
        }
        len
    }

    /// Assembles packets at the end of `buf`.
    fn assemble(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let start = buf.len();
        while let Some(plan) = self.begin() {
            let mut packet = PacketBuilder::new(buf, self.association.header(), plan.limit);
            let auth = self.association.auth.open(&mut packet, plan.kinds());
            self.bundle_control(&plan, &mut packet);
            let ahead = packet.len();
            let filled = self.add_data(&plan, &mut packet);
            fill_up(&mut packet, plan.normal, ahead);
            let len = self.seal(&plan, packet, auth);
            if len == 0 {
                if !plan.with_forward {
                    break;
                }
                self.without_forward = true;
                continue;
            }
            let full = *self.segment_size.get_or_insert(len);
            let room = self.segments < self.max_segments
                && buf.len() - start + full <= MAX_SEGMENTED_BYTES;
            if !filled || len < full || !room || self.may_fragment {
                break;
            }
        }
        let (path, is_new) = self.sent?;
        let capable = is_new && self.association.extensions.ecn;
        let path = &self.association.paths[path];
        Some(Transmit {
            route: Route {
                ecn: if capable && path.may_send_ect() {
                    Ecn::Capable0
                } else {
                    Ecn::NotCapable
                },
                ..path.route()
            },
            len: buf.len() - start,
            segment_size: self.segment_size.filter(|_| self.segments > 1),
            may_fragment: self.may_fragment,
            probe: false,
            dscp: path.dscp(),
        })
    }
}

impl Association {
    /// Packets with DATA, as many as one transmit may contain.
    pub(super) fn output_data(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.state.sends_data() {
            return None;
        }
        self.expire_messages(cx);
        if !self.state.sends_data() {
            return None;
        }
        PacketAssembler::new(self, cx).assemble(buf)
    }
}
