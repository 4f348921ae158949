//! Missing reports against a model that counts them per chunk, as RFC 9260, section 7.2.4,
//! describes them; the core keeps no counters.

use crate::common;

use common::*;
use proptest::prelude::*;

const CHUNKS: u32 = 32;
/// The payload of a chunk that fills a packet.
const FULL: usize = 1452;

/// Model of RFC 9260, section 7.2.4.
#[derive(Default)]
struct Model {
    received: [bool; CHUNKS as usize],
    acknowledged: [bool; CHUNKS as usize],
    reports: [u32; CHUNKS as usize],
    fast_recovery: bool,
}

impl Model {
    /// The number of chunks without a gap before them, and the blocks above.
    fn sack(&self) -> (u32, Vec<(u32, u32)>) {
        let cumulative = self.received.iter().take_while(|r| **r).count() as u32;
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for chunk in (cumulative..CHUNKS).filter(|c| self.received[*c as usize]) {
            match blocks.last_mut() {
                Some(block) if block.1 + 1 == chunk => block.1 = chunk,
                _ => blocks.push((chunk, chunk)),
            }
        }
        (cumulative, blocks)
    }

    /// Applies the SACK of the received chunks; returns the chunks that have to be retransmitted.
    fn on_sack(&mut self) -> Vec<u32> {
        let all = 0..CHUNKS as usize;
        let before = self.acknowledged.iter().take_while(|a| **a).count();
        let is_new = |c: &usize| self.received[*c] && !self.acknowledged[*c];
        let Some(htna) = all.clone().rfind(is_new) else {
            return Vec::new();
        };
        self.acknowledged = self.received;
        let advanced = self.acknowledged.iter().take_while(|a| **a).count() > before;
        let highest = all
            .clone()
            .rfind(|c| self.received[*c])
            .expect("the range is not empty");
        let below = if self.fast_recovery && advanced {
            highest
        } else {
            htna
        };
        let mut lost = Vec::new();
        for chunk in all.filter(|c| !self.received[*c] && *c < below) {
            self.reports[chunk] += 1;
            if self.reports[chunk] == 3 {
                lost.push(chunk as u32);
            }
        }
        self.fast_recovery |= !lost.is_empty();
        lost
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    /// RFC 9260, section 7.2.4
    #[test]
    fn each_chunk_is_retransmitted_at_its_third_report(
        arrivals in prop::collection::vec(prop::collection::vec(0..CHUNKS, 0..5), 1..40)
    ) {
        let mut w = World::single_homed();
        w.discard_log = true;
        w.config.buffers.send_buffer = 1 << 26;
        // So wide a window that every chunk that is marked leaves at once.
        w.config.transmission.max_burst = 1000;
        w.config.transmission.slow_start_limit = 1000;
        let mut p = Puppet::new();
        p.a_rwnd = 1 << 30;
        let (p, id) = p.accept(&mut w);
        let mut base = 0;
        while w.path(0, id, 0).cwnd < 400 * FULL {
            w.send(0, id, 0, pattern(400 * FULL));
            p.receive(&mut w);
            base += w.stats(0, id).outstanding_chunks as u32;
            p.sack(&mut w, p.endpoint_tsn(base - 1), p.a_rwnd, &[]);
            base += w.stats(0, id).outstanding_chunks as u32;
            p.sack(&mut w, p.endpoint_tsn(base - 1), p.a_rwnd, &[]);
            while w.stats(0, id).outstanding_chunks > 0 {
                base += w.stats(0, id).outstanding_chunks as u32;
                p.sack(&mut w, p.endpoint_tsn(base - 1), p.a_rwnd, &[]);
            }
        }
        for _ in 0..CHUNKS {
            w.send(0, id, 0, pattern(FULL));
        }
        p.receive(&mut w);
        prop_assert_eq!(w.stats(0, id).outstanding_chunks, CHUNKS as usize);

        let mut model = Model::default();
        for arrived in arrivals {
            for chunk in arrived {
                model.received[chunk as usize] = true;
            }
            let (cumulative, blocks) = model.sack();
            let offset = |chunk: u32| (chunk + 1 - cumulative) as u16;
            let gaps: Vec<_> = blocks.iter().map(|b| (offset(b.0), offset(b.1))).collect();
            let point = p.endpoint_tsn((base + cumulative).wrapping_sub(1));
            let released = p.sack(&mut w, point, p.a_rwnd, &gaps);
            let again: Vec<u32> = p.numbers(&released).iter().map(|n| n - base).collect();
            prop_assert_eq!(again, model.on_sack());
        }
    }
}
