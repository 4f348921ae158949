//! Invariants that hold at any moment, and counters of events.

use carrick_proto::sessions::SessionEvent;
use carrick_proto::{
    AddressEvent, AssociationId, AssociationStats, Endpoint, Event, PathMtuState, StateName, Time,
};

use super::{MAX_FACTS_AT_ONCE, Party};

impl Party {
    /// Checks the limits of memory that hold at any moment.
    pub(crate) fn check(&self, now: Time, endpoint: &Endpoint) {
        self.check_sessions(now, endpoint);
        let config = &self.setting.config;
        let largest = self.script.messages.iter().flatten().map(|m| m.size).max();
        for id in endpoint.associations() {
            let Some(stats) = endpoint.association(id).map(|a| a.stats()) else {
                continue;
            };
            let learned = stats.counters.encapsulation_changes;
            if learned > 0 {
                let at = self.instance(id);
                self.ledger.borrow_mut().ports_learned(at, learned);
            }
            self.meet(endpoint, id, &stats);
            let grown = config.buffers.max_receive_buffer.unwrap_or(0);
            let receive_buffer = config.buffers.receive_buffer.max(grown);
            let (held, limit) = (
                stats.receive_buffer_bytes,
                receive_buffer + self.setting.slack,
            );
            if held > limit {
                self.fail(format!(
                    "{now:?}: {held} bytes in the receive buffer of {limit}"
                ));
            }
            let grown = config.buffers.max_send_buffer.unwrap_or(0);
            let limit = config
                .buffers
                .send_buffer
                .max(grown)
                .max(largest.unwrap_or(0));
            if stats.send_buffer_bytes > limit {
                let held = stats.send_buffer_bytes;
                self.fail(format!(
                    "{now:?}: {held} bytes in the send buffer of {limit}"
                ));
            }
            if stats.a_rwnd > receive_buffer {
                self.fail(format!("{now:?}: a window of {}", stats.a_rwnd));
            }
            let (chunks, bytes) = (stats.outstanding_chunks, stats.outstanding_bytes);
            if chunks == 0 && bytes > 0 {
                self.fail(format!(
                    "{now:?}: {bytes} bytes outstanding without a chunk"
                ));
            }
        }
    }

    /// Checks that every association is over a session and no session fails, and counts the
    /// sessions.
    fn check_sessions(&self, now: Time, endpoint: &Endpoint) {
        let Some(sessions) = &self.sessions else {
            return;
        };
        let mut sessions = sessions.borrow_mut();
        for id in endpoint.associations() {
            let stats = endpoint.association(id).map(|a| a.stats());
            let up = stats.is_some_and(|stats| stats.state == StateName::Established);
            if up && sessions.session_of(id).is_none() {
                self.fail(format!("{now:?}: {id:?} is not over a session"));
            }
            self.ledger.borrow_mut().seen.over_sessions |= u64::from(up);
        }
        while let Some(event) = sessions.poll_session_event() {
            self.log(now, || format!("{event:?}"));
            match event {
                SessionEvent::Replaced(_) => self.ledger.borrow_mut().seen.successions += 1,
                SessionEvent::Failed(..) => self.fail(format!("{now:?}: {event:?}")),
                _ => {}
            }
        }
    }

    /// Counts the extensions that have had an effect.
    fn meet(&self, endpoint: &Endpoint, id: AssociationId, stats: &AssociationStats) {
        let seen = &mut self.ledger.borrow_mut().seen;
        let met = |flag: &mut u64, is_so: bool| *flag |= u64::from(is_so);
        let (extensions, counters) = (stats.extensions, &stats.counters);
        met(&mut seen.authenticated, extensions.authentication);
        met(&mut seen.marked, counters.cwrs_received > 0);
        met(&mut seen.reduced, counters.congestion_mark_reductions > 0);
        met(&mut seen.nr_sacks, counters.nr_sacks_received > 0);
        met(&mut seen.unchecked, extensions.zero_checksum);
        met(&mut seen.probed, counters.tail_loss_probes > 0);
        let primary = stats
            .current
            .and_then(|path| endpoint.association(id)?.path_stats(path));
        let found =
            primary.and_then(|path| path.mtu_discovery) == Some(PathMtuState::SearchComplete);
        met(&mut seen.searched, found);
        if self
            .setting
            .config
            .research
            .policies
            .multipath
            .data_route
            .concurrent()
        {
            let paths = endpoint.association(id).into_iter().flat_map(|a| a.paths());
            let loaded = paths.filter(|path| path.flight_size > 0);
            met(&mut seen.concurrent, loaded.count() > 1);
        }
    }

    pub(super) fn count_fact(&mut self, now: Time, event: &Event) {
        if self.facts.0 != now {
            self.facts = (now, 0);
        }
        self.facts.1 += usize::from(!matches!(event, Event::SendFailed(_)));
        if self.facts.1 > MAX_FACTS_AT_ONCE {
            self.fail(format!("{now:?}: {} events at one moment", self.facts.1));
        }
    }

    pub(super) fn note(&self, event: &Event) {
        let seen = &mut self.ledger.borrow_mut().seen;
        match event {
            Event::PathFailed(_) => seen.path_failed += 1,
            Event::PathPotentiallyFailed(_) => seen.suspected += 1,
            Event::PathRecovered(_) => seen.path_recovered += 1,
            Event::PrimaryChanged(_) => seen.primary_changed += 1,
            Event::PathLocalAddressChanged(_) => seen.local_changed += 1,
            Event::Address(AddressEvent::PreferenceAccepted(_)) => seen.preferences += 1,
            Event::Restarted => seen.restarted += 1,
            Event::StreamsReset { outcome, .. } if outcome.is_success() => seen.reset += 1,
            Event::AssociationReset { outcome, .. } if outcome.is_success() => seen.renumbered += 1,
            Event::StreamsChanged { outcome, .. } if outcome.is_success() => seen.added += 1,
            _ => {}
        }
    }
}
