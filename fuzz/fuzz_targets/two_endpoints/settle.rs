//! Repair of the network, and completion of all associations.

use std::time::Duration;

use carrick_proto::{AssociationId, AssociationStats, ReconfigError, StateName};

use crate::network::Network;

/// Maximum number of quarter minutes until all messages are delivered.
const SETTLE_ROUNDS: u32 = 60;

impl Network {
    /// Delivers all packets without delay for this time; users read all messages.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        let mut turns = 0_u32;
        loop {
            while !self.in_flight.is_empty() {
                // A hundred packets at once, then some time for timers.
                for _ in 0..100 {
                    self.deliver(0);
                }
                self.read_all();
                self.drain();
                self.now += Duration::from_millis(1);
                turns += 1;
                assert!(turns < 100_000, "the endpoints never stop sending");
            }
            if !self.next_timer(until) {
                break;
            }
        }
        self.now = self.now.max(until);
        self.read_all();
    }

    /// Repairs the network, and runs until all messages are delivered.
    pub fn settle(&mut self) {
        for end in [0, 1] {
            for address in self.addresses[end].clone() {
                self.ends[end].local_address_added(address);
            }
        }
        self.drain();
        // Small chunks through a small buffer are slow; a deadlock makes no progress at all.
        let (mut idle, mut left) = (0, self.unsent());
        while idle < SETTLE_ROUNDS {
            self.agree_on_keys();
            self.run(Duration::from_secs(15));
            if self.is_settled() {
                break;
            }
            let now = self.unsent();
            idle = if now == left { idle + 1 } else { 0 };
            left = now;
        }
        if self.tampered || self.ended_silently {
            return;
        }
        for end in [0, 1] {
            for id in self.ends[end].associations() {
                let stats = self.ends[end].association(id).expect("it exists").stats();
                assert!(is_at_rest(&stats), "stuck: {stats:?}");
                self.messages[end].assert_complete(id);
            }
        }
        self.assert_no_request_pending();
    }

    /// Checks that no request to re-configure streams waits forever.
    fn assert_no_request_pending(&mut self) {
        for end in &mut self.ends {
            let ids: Vec<AssociationId> = end.associations().collect();
            for id in ids {
                let association = end.association_mut(self.now, id);
                let asked = association.map(|mut association| association.add_streams(1, 0));
                let stats = end.association(id).map(|a| a.stats());
                assert!(asked != Some(Err(ReconfigError::InProgress)), "{stats:?}");
            }
        }
    }

    /// Returns the number of bytes that the senders still hold.
    pub fn unsent(&self) -> usize {
        let ends = self.ends.iter();
        let all = ends.flat_map(|end| {
            end.associations()
                .filter_map(|id| end.association(id).map(|a| a.stats()))
        });
        all.map(|stats| stats.send_buffer_bytes).sum()
    }

    pub fn is_settled(&self) -> bool {
        self.ends.iter().all(|end| {
            end.associations()
                .filter_map(|id| end.association(id).map(|a| a.stats()))
                .all(|stats| is_at_rest(&stats))
        })
    }
}

/// Returns whether an association is established and has no work left.
fn is_at_rest(stats: &AssociationStats) -> bool {
    stats.state == StateName::Established
        && (stats.queued_messages, stats.outstanding_chunks) == (0, 0)
}
