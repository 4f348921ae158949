//! Helpers shared by the modules.

use std::time::Duration;

use carrick_proto::{AssociationConfig, AssociationId, PathStats, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;

/// PMDCS of an IPv4 path with an MTU of 1500.
pub(crate) const PMDCS: usize = 1468;
/// A message whose chunk has PMDCS bytes.
pub(crate) const FULL: usize = PMDCS - 16;

/// An endpoint that sends to a puppet.
pub(crate) struct Flow {
    pub(crate) w: World,
    pub(crate) p: Puppet,
    pub(crate) id: AssociationId,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut AssociationConfig)) -> Self {
        let mut w = World::single_homed();
        w.config.buffers.send_buffer = 1 << 26;
        w.config.paths.heartbeat = false;
        change(&mut w.config);
        let mut p = Puppet::new();
        p.a_rwnd = 1 << 30;
        let (p, id) = p.accept(&mut w);
        Self { w, p, id }
    }

    /// The puppet sets up the association, so that nothing has been measured.
    pub(crate) fn unmeasured(rto_min: Duration) -> Self {
        let mut w = World::with(1, |_, config| {
            config.local_addresses.truncate(1);
            config.association.paths.heartbeat = false;
            config.association.timers.rto_min = rto_min;
        });
        let (p, id) = Puppet::new().connect(&mut w);
        Self { w, p, id }
    }

    pub(crate) fn path(&self) -> PathStats {
        self.w.path(0, self.id, 0)
    }

    pub(crate) fn windows(&self) -> (usize, usize) {
        (self.path().cwnd, self.path().ssthresh)
    }

    /// Gives messages to the sender; returns the chunks of each packet that leaves.
    pub(crate) fn send(&mut self, count: usize, size: usize) -> Vec<Vec<u32>> {
        self.send_with(SendOptions::default(), count, size)
    }

    pub(crate) fn send_with(
        &mut self,
        options: SendOptions,
        count: usize,
        size: usize,
    ) -> Vec<Vec<u32>> {
        for _ in 0..count {
            self.w.send_with(0, self.id, options, pattern(size));
        }
        self.receive()
    }

    /// Chunks, numbered from 0, of each packet with DATA since the last call.
    pub(crate) fn receive(&mut self) -> Vec<Vec<u32>> {
        let replies = self.p.receive(&mut self.w);
        self.data(&replies)
    }

    pub(crate) fn data(&self, packets: &[SentPacket]) -> Vec<Vec<u32>> {
        packets
            .iter()
            .filter(|p| p.has(ChunkType::DATA))
            .map(|p| self.p.numbers(std::slice::from_ref(p)))
            .collect()
    }

    /// A SACK for the first `count` chunks; gap blocks count chunks from 0, both ends included.
    /// Returns the chunks of each packet that it releases.
    pub(crate) fn sack(&mut self, count: u32, gaps: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let cumulative = self.p.endpoint_tsn(count.wrapping_sub(1));
        let offset = |chunk: u32| u16::try_from(chunk + 1 - count).expect("a gap");
        let gaps: Vec<_> = gaps.iter().map(|g| (offset(g.0), offset(g.1))).collect();
        let answers = self.p.sack(&mut self.w, cumulative, self.p.a_rwnd, &gaps);
        self.data(&answers)
    }

    pub(crate) fn run(&mut self, duration: Duration) -> Vec<Vec<u32>> {
        self.w.run(duration);
        self.receive()
    }

    /// Sends full packets, two to a SACK, until cwnd has this many; returns how many chunks were
    /// acknowledged and how many were sent. The queue is not empty afterwards.
    pub(crate) fn grow(&mut self, packets: usize) -> (u32, u32) {
        self.grow_with(packets, FULL)
    }

    pub(crate) fn grow_with(&mut self, packets: usize, size: usize) -> (u32, u32) {
        let chunks = PMDCS / (size + 16);
        let messages = 20 * packets * chunks;
        let mut sent = self.send(messages, size).iter().flatten().count();
        let mut acked = 0;
        while self.path().cwnd < packets * PMDCS {
            acked += 2 * chunks;
            sent += self.sack(acked as u32, &[]).iter().flatten().count();
            assert!(acked < messages, "cwnd does not grow");
        }
        let (acked, sent) = (acked as u32, sent as u32);
        (acked, sent)
    }

    /// Grows cwnd, then acknowledges everything.
    pub(crate) fn grow_and_drain(&mut self, packets: usize) -> u32 {
        let (_, mut sent) = self.grow(packets);
        loop {
            let more = self.sack(sent, &[]).len() as u32;
            if more == 0 {
                return sent;
            }
            sent += more;
        }
    }

    pub(crate) fn fast_retransmissions(&self) -> u64 {
        self.w.stats(0, self.id).counters.fast_retransmissions
    }
}

/// Three missing reports for chunk `acked`; returns what the third releases.
pub(crate) fn lose_one(f: &mut Flow, acked: u32) -> Vec<Vec<u32>> {
    f.sack(acked, &[(acked + 1, acked + 1)]);
    f.sack(acked, &[(acked + 1, acked + 2)]);
    f.sack(acked, &[(acked + 1, acked + 3)])
}

/// An endpoint with two confirmed paths to a puppet.
pub(crate) fn two_paths() -> (Flow, Puppet) {
    let mut w = World::new();
    w.config.buffers.send_buffer = 1 << 26;
    let mut p = Puppet::new();
    p.a_rwnd = 1 << 30;
    let id = p.begin_accept(&mut w);
    let mut second = p.clone();
    second.link.to = addresses(0)[1];
    second.link.from = ip("10.1.0.99");
    p.answer_init(&mut w, |i| {
        i.state_cookie(b"cookie");
        i.ip_address(p.link.from);
        i.ip_address(second.link.from);
    });
    let mut replies = p.send(&mut w, |packet| {
        packet.cookie_ack();
    });
    w.run(secs(3));
    replies.extend(p.receive(&mut w));
    for heartbeat in replies.iter().filter(|h| h.has(ChunkType::HEARTBEAT)) {
        let from = if heartbeat.to() == p.link.from {
            &p
        } else {
            &second
        };
        from.answer_heartbeat(&mut w, heartbeat);
    }
    assert!(w.path(0, id, 1).status.confirmed);
    second.peer_tag = p.peer_tag;
    second.peer_tsn = p.peer_tsn;
    (Flow { w, p, id }, second)
}
