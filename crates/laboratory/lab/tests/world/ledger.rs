//! Accepted, delivered and failed messages, and their verification.
//!
//! Violations are recorded as text; the first one is the failure of the world.

use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::{AssociationId, Message, MessagePart, SendFailure, Time};

use super::content;
use super::plan::Side;

/// Message of a side.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) size: usize,
    pub(crate) may_expire: bool,
    /// True if it may be abandoned although it was sent.
    pub(crate) partial: bool,
    /// True if it was accepted before the number of streams was negotiated.
    pub(crate) early: bool,
    /// The sender's life: 0, or 1 after a restart of either side.
    pub(crate) life: usize,
    /// Time at which the core accepted it; `None` while it is not accepted or if it was refused.
    pub(crate) accepted: Option<Time>,
    pub(crate) delivered: bool,
    /// True if a part was delivered, but not the end.
    pub(crate) begun: bool,
    /// Incarnation of the receiver to which it was delivered before its sender was established: beside
    /// COOKIE ECHO. If that receiver restarts, the sender does not learn of it and delivers it again.
    pub(crate) early_receiver: Option<usize>,
    /// True if it was delivered in a late association.
    pub(crate) in_late_association: bool,
    pub(crate) failed: bool,
    pub(crate) expired: bool,
    /// True if the failure reported a policy of partial reliability.
    pub(crate) abandoned: bool,
    /// True if the failure reported that no part had been sent.
    pub(crate) unsent: bool,
}

/// Position of a receiver in a stream of one association.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    last: Option<usize>,
    /// Ordered messages by the sender's life.
    count: [u32; 2],
    /// Message with partial delivery in progress.
    open: Option<usize>,
    /// Number of stream resets.
    resets: u64,
}

/// Identifies an association of one side, over restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Instance {
    pub(crate) side: Side,
    /// Number of the endpoint of the side.
    pub(crate) incarnation: usize,
    pub(crate) id: AssociationId,
}

/// Records of a world.
#[derive(Debug)]
pub(crate) struct Ledger {
    seed: u64,
    pub(crate) messages: [Vec<Record>; 2],
    streams: BTreeMap<(Instance, u16), StreamState>,
    /// Partially delivered messages by association and TSN: number and length so far.
    parts: BTreeMap<(Instance, u32), (usize, usize)>,
    /// Associations created by a late or duplicated COOKIE ECHO, whose DATA is delivered again.
    pub(crate) late_associations: BTreeSet<Instance>,
    /// Time at which the association was established at each side.
    pub(crate) up: [Option<Time>; 2],
    /// Number of outbound streams negotiated at each side.
    pub(crate) agreed_streams: [Option<u16>; 2],
    /// Number of resets of the peer's streams.
    pub(crate) resets: BTreeMap<Instance, u64>,
    ports: BTreeMap<Instance, u64>,
    /// Shared keys of each side.
    pub(crate) keys: [SharedKeys; 2],
    /// First violation.
    pub(crate) failure: Option<String>,
    /// Time of the last progress.
    pub(crate) progress: Time,
    /// Events of this world, for the summary.
    pub(crate) seen: EventCounts,
    pub(crate) verbose: bool,
}

/// Shared keys of a side, by number.
#[derive(Debug, Default)]
pub(crate) struct SharedKeys {
    pub(crate) known: BTreeSet<u16>,
    /// Key for sending.
    pub(crate) active: Option<u16>,
}

/// Counters of events, which show the coverage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounts {
    pub(crate) established: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) partial: u64,
    pub(crate) failures: u64,
    pub(crate) expired: u64,
    pub(crate) abandoned_unsent: u64,
    pub(crate) abandoned_sent: u64,
    pub(crate) aborted_parts: u64,
    pub(crate) path_failed: u64,
    pub(crate) path_recovered: u64,
    pub(crate) primary_changed: u64,
    pub(crate) local_changed: u64,
    pub(crate) restarted: u64,
    /// Re-configurations requested, and their results.
    pub(crate) reconfigurations: u64,
    pub(crate) reset: u64,
    pub(crate) renumbered: u64,
    pub(crate) added: u64,
    pub(crate) refused_full: u64,
    pub(crate) late_associations: u64,
    pub(crate) lost_peer: u64,
    pub(crate) aborted_by_peer: u64,
    pub(crate) icmp: u64,
    /// Messages received in I-DATA.
    pub(crate) interleaved: u64,
    /// Parts received while another message was delivered partially.
    pub(crate) interleaved_parts: u64,
    /// Associations with protected chunks, and changes of their key.
    pub(crate) sealed: u64,
    pub(crate) sealing_changes: u64,
    /// Replaced shared keys of authentication.
    pub(crate) key_changes: u64,
    /// Changes of UDP ports, and those that the peer detected.
    pub(crate) rebindings: u64,
    pub(crate) learned_ports: u64,
    /// Changes of thresholds and encapsulations, and preferred addresses accepted by the peer.
    pub(crate) thresholds: u64,
    pub(crate) encapsulations: u64,
    pub(crate) preferences: u64,
    /// Sides that moved to another address.
    pub(crate) moves: u64,
    /// Paths that became potentially failed.
    pub(crate) suspected: u64,
    /// 1 if it occurred in this world at any time: authenticated chunks, a mark reported by ECNE
    /// and answered by CWR, a window reduced by ECNE, received NR-SACKs, omitted checksums, a path
    /// MTU found, a tail loss probe, new data on two paths.
    pub(crate) authenticated: u64,
    pub(crate) marked: u64,
    pub(crate) reduced: u64,
    pub(crate) nr_sacks: u64,
    pub(crate) unchecked: u64,
    pub(crate) searched: u64,
    pub(crate) probed: u64,
    pub(crate) concurrent: u64,
    /// 1 if the association was over a session, and if only one side had sessions.
    pub(crate) over_sessions: u64,
    pub(crate) divided: u64,
    /// Sessions that a peer established again.
    pub(crate) successions: u64,
}

impl EventCounts {
    /// Returns each counter with its name and the minimum number of worlds in a thousand with a
    /// count: about half of the number in 2400 worlds, and less for rare events, so that other sets
    /// of worlds have them, too.
    pub(crate) fn named(&mut self) -> [(&'static str, u64, &mut u64); 46] {
        [
            ("established", 450, &mut self.established),
            ("messages", 450, &mut self.messages),
            ("bytes", 430, &mut self.bytes),
            ("partial deliveries", 160, &mut self.partial),
            ("send failures", 290, &mut self.failures),
            ("expired", 170, &mut self.expired),
            ("abandoned unsent", 170, &mut self.abandoned_unsent),
            ("abandoned sent", 85, &mut self.abandoned_sent),
            ("aborted deliveries", 1, &mut self.aborted_parts),
            ("path failures", 200, &mut self.path_failed),
            ("path recoveries", 210, &mut self.path_recovered),
            ("primary changes", 120, &mut self.primary_changed),
            ("local address changes", 100, &mut self.local_changed),
            ("restarts", 3, &mut self.restarted),
            ("requests to re-configure", 190, &mut self.reconfigurations),
            ("resets of streams", 150, &mut self.reset),
            ("resets of all numbers", 14, &mut self.renumbered),
            ("additions of streams", 11, &mut self.added),
            ("full send buffers", 350, &mut self.refused_full),
            ("belated associations", 0, &mut self.late_associations),
            ("peers lost", 4, &mut self.lost_peer),
            ("aborted by peer", 40, &mut self.aborted_by_peer),
            ("ICMP messages", 45, &mut self.icmp),
            ("messages in I-DATA", 220, &mut self.interleaved),
            ("interleaved parts", 9, &mut self.interleaved_parts),
            ("sealed associations", 90, &mut self.sealed),
            ("changes of the sealing key", 85, &mut self.sealing_changes),
            ("changes of shared keys", 70, &mut self.key_changes),
            ("changes of UDP ports", 40, &mut self.rebindings),
            ("UDP ports learned", 45, &mut self.learned_ports),
            ("thresholds set", 210, &mut self.thresholds),
            ("encapsulations set", 14, &mut self.encapsulations),
            ("preferences announced", 55, &mut self.preferences),
            ("moves to another address", 18, &mut self.moves),
            ("suspected paths", 140, &mut self.suspected),
            ("worlds with authentication", 180, &mut self.authenticated),
            ("worlds with congestion marks", 25, &mut self.marked),
            (
                "worlds with windows reduced for marks",
                8,
                &mut self.reduced,
            ),
            ("worlds with NR-SACKs", 240, &mut self.nr_sacks),
            ("worlds without checksums", 100, &mut self.unchecked),
            ("worlds with a path MTU found", 230, &mut self.searched),
            ("worlds with tail loss probes", 130, &mut self.probed),
            (
                "worlds with concurrent multipath transfer",
                65,
                &mut self.concurrent,
            ),
            ("worlds over sessions", 18, &mut self.over_sessions),
            ("worlds with sessions at one side", 3, &mut self.divided),
            ("sessions started again", 1, &mut self.successions),
        ]
    }
}

impl Ledger {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        Self {
            seed,
            messages: [Vec::new(), Vec::new()],
            streams: BTreeMap::new(),
            parts: BTreeMap::new(),
            late_associations: BTreeSet::new(),
            up: [None; 2],
            agreed_streams: [None; 2],
            resets: BTreeMap::new(),
            ports: BTreeMap::new(),
            keys: Default::default(),
            failure: None,
            progress: Time::ZERO,
            seen: EventCounts::default(),
            verbose,
        }
    }

    /// Records a violation.
    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.verbose {
            println!("VIOLATION: {what}");
        }
        self.failure.get_or_insert(what);
    }

    pub(crate) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    pub(crate) fn log(&self, now: Time, side: Side, what: impl FnOnce() -> String) {
        if self.verbose {
            println!(
                "{:>14.6} {} {}",
                now.as_secs_f64(),
                ["left ", "right"][side],
                what()
            );
        }
    }

    pub(crate) fn advanced(&mut self, now: Time) {
        self.progress = self.progress.max(now);
    }

    /// Records the number of UDP port changes of the peer seen by an association.
    pub(crate) fn ports_learned(&mut self, at: Instance, count: u64) {
        let before = self.ports.insert(at, count).unwrap_or(0);
        self.seen.learned_ports += count.saturating_sub(before);
    }

    /// Returns the number of a new message of `side`.
    pub(crate) fn open(&mut self, side: Side, record: Record) -> usize {
        self.messages[side].push(record);
        self.messages[side].len() - 1
    }

    pub(crate) fn accepted(&mut self, side: Side, number: usize, now: Time) {
        self.messages[side][number].accepted = Some(now);
        self.seen.messages += 1;
        self.advanced(now);
    }

    /// Records a message or a part of one delivered by an association of `at.side`.
    pub(crate) fn delivered(&mut self, at: Instance, message: &Message, now: Time) {
        self.advanced(now);
        let (sender, number) = content::number_of(message.ppid.0);
        let established = self.up[sender].is_some();
        let Some(record) = self.messages[sender].get_mut(number) else {
            return self.fail(format!(
                "a message that was not sent: PPID {:#x}",
                message.ppid.0
            ));
        };
        if matches!(message.part, MessagePart::Whole | MessagePart::First) {
            let early = record.early_receiver;
            if early.is_some_and(|incarnation| incarnation < at.incarnation) {
                (record.begun, record.delivered) = (false, false);
            }
            record.early_receiver = Some(at.incarnation).filter(|_| !established);
        }
        let record = record.clone();
        let name = format!("message {number} of side {sender}");
        self.check(sender != at.side, || {
            format!("{name} was delivered to its sender")
        });
        self.check(record.accepted.is_some(), || {
            format!("{name} arrived before it was accepted")
        });
        self.check(message.stream.0 == record.stream, || {
            format!(
                "{name} of stream {} arrived on {}",
                record.stream, message.stream.0
            )
        });
        self.check(message.ssn.is_none() == record.unordered, || {
            format!(
                "{name}: unordered {}, SSN {:?}",
                record.unordered, message.ssn
            )
        });
        self.check(!(record.failed && record.unsent), || {
            format!("{name} arrived, but was reported as not sent")
        });
        if message.part == MessagePart::Aborted {
            return self.aborted(at, message, sender, number, &name);
        }
        let offset = self.part(at, message, number, &name);
        let mut end = offset;
        for piece in message.payload.pieces() {
            if !content::matches(self.seed, sender, number, end, piece) {
                self.fail(format!("{name}: wrong content from byte {end} on"));
            }
            end += piece.len();
        }
        self.seen.bytes += (end - offset) as u64;
        self.seen.interleaved += u64::from(message.mid.is_some());
        self.check(!message.payload.is_empty(), || {
            format!("{name}: an empty part")
        });
        if self.late_associations.contains(&at) {
            self.messages[sender][number].in_late_association = true;
            return;
        }
        if matches!(message.part, MessagePart::Whole | MessagePart::First) {
            self.begins(at, message, number, &record, &name);
        }
        if matches!(message.part, MessagePart::Whole | MessagePart::Last) {
            self.check(end == record.size, || {
                format!("{name} of {} bytes ended after {end}", record.size)
            });
            self.ends(at, sender, number, &record, &name);
        }
    }

    /// Returns the offset of the part in its message.
    fn part(&mut self, at: Instance, message: &Message, number: usize, name: &str) -> usize {
        let key = (at, message.tsn.value());
        let bytes = message.payload.len();
        match message.part {
            MessagePart::Whole => 0,
            MessagePart::First => {
                self.seen.partial += 1;
                let old = self.parts.insert(key, (number, bytes));
                let of_this = self.parts.keys().filter(|(instance, _)| *instance == at);
                self.seen.interleaved_parts += u64::from(of_this.count() > 1);
                self.check(old.is_none(), || format!("{name} began twice"));
                0
            }
            MessagePart::Middle | MessagePart::Last => {
                let Some((begun, so_far)) = self.parts.get(&key).copied() else {
                    self.fail(format!("{name} continues without a beginning"));
                    return 0;
                };
                self.check(begun == number, || {
                    format!("{name} continues message {begun}")
                });
                if message.part == MessagePart::Last {
                    self.parts.remove(&key);
                } else {
                    self.parts.insert(key, (number, so_far + bytes));
                }
                so_far
            }
            // The end has no offset: see `aborted`.
            MessagePart::Aborted => 0,
        }
    }

    /// Records a message whose partial delivery ends early, because the sender abandoned it.
    fn aborted(
        &mut self,
        at: Instance,
        message: &Message,
        sender: Side,
        number: usize,
        name: &str,
    ) {
        self.seen.aborted_parts += 1;
        let record = self.messages[sender][number].clone();
        let begun = self.parts.remove(&(at, message.tsn.value()));
        self.check(begun.is_some_and(|(of, _)| of == number), || {
            format!("{name} was abandoned without a beginning")
        });
        self.check(message.payload.is_empty() && !record.delivered, || {
            format!("{name} was abandoned after its end")
        });
        self.check(record.partial, || {
            format!("{name} was abandoned although it is reliable")
        });
        if !record.unordered && !self.late_associations.contains(&at) {
            self.streams.entry((at, record.stream)).or_default().open = None;
        }
    }

    fn begins(
        &mut self,
        at: Instance,
        message: &Message,
        number: usize,
        record: &Record,
        name: &str,
    ) {
        self.messages[1 - at.side][number].begun = true;
        self.check(!record.begun, || format!("{name} was delivered twice"));
        if record.unordered {
            return;
        }
        let stream = self.streams.entry((at, record.stream)).or_default();
        let before = *stream;
        let resets = self.resets.get(&at).copied().unwrap_or(0);
        let reported = message.ssn.map(|ssn| ssn.value());
        let count = &mut stream.count[record.life];
        // Numbers of abandoned messages are missing, including the first ones after a reset.
        let partial = self.messages[1 - at.side].iter().any(|m| m.partial);
        let skipped = |expected: u16| reported.map_or(0, |ssn| ssn.wrapping_sub(expected));
        let fits = |skipped: u16| skipped == 0 || partial && skipped < 1 << 15;
        let expected = *count as u16;
        if !fits(skipped(expected)) && fits(skipped(0)) && stream.resets < resets {
            stream.resets += 1;
            *count = 0;
        }
        let expected = *count as u16;
        let skipped = skipped(expected);
        let fits = fits(skipped);
        *count += u32::from(skipped) + 1;
        stream.last = Some(number);
        stream.open = Some(number);
        self.check(before.last < Some(number), || {
            format!(
                "{name} of stream {} arrived after {:?}",
                record.stream, before.last
            )
        });
        self.check(fits, || {
            format!("{name} has SSN {:?}, not {expected}", message.ssn)
        });
        let stays_open = before
            .open
            .is_some_and(|open| self.messages[1 - at.side][open].life == record.life);
        self.check(!stays_open, || {
            format!(
                "{name} arrived while {:?} of its stream was not complete",
                before.open
            )
        });
    }

    fn ends(&mut self, at: Instance, sender: Side, number: usize, record: &Record, name: &str) {
        self.check(!record.delivered, || format!("{name} ended twice"));
        self.messages[sender][number].delivered = true;
        if !record.unordered {
            self.streams.entry((at, record.stream)).or_default().open = None;
        }
    }

    /// Records a failed message.
    pub(crate) fn failed(&mut self, side: Side, failure: &SendFailure, now: Time) {
        self.advanced(now);
        self.seen.failures += 1;
        self.seen.expired += u64::from(failure.expired);
        let number = failure.context as usize;
        let Some(record) = self.messages[side].get(number).cloned() else {
            return self.fail(format!(
                "a failure of a message that was not sent: {number}"
            ));
        };
        let name = format!("message {number} of side {side}");
        self.check(!record.failed, || format!("{name} failed twice"));
        self.check(
            failure.ppid.0 == content::ppid(side, number) && failure.stream.0 == record.stream,
            || format!("{name} failed with another stream or PPID"),
        );
        self.check(
            !failure.expired || record.partial || (record.may_expire && !failure.sent),
            || format!("{name} expired without reason"),
        );
        self.check(failure.abandoned.is_none() || record.partial, || {
            format!("{name} was abandoned although it is reliable")
        });
        match failure.abandoned {
            Some(_) if failure.sent => self.seen.abandoned_sent += 1,
            Some(_) => self.seen.abandoned_unsent += 1,
            None => {}
        }
        self.check(failure.sent || !record.begun, || {
            format!("{name} was delivered, but reported as not sent")
        });
        let returned = failure.rest_len();
        let fits = if failure.sent {
            returned <= record.size && (returned > 0 || failure.unsent.is_empty())
        } else {
            returned == record.size && failure.delivered.is_empty()
        };
        self.check(fits, || {
            format!(
                "{name} of {} bytes was returned with {returned}",
                record.size
            )
        });
        let start = record.size.saturating_sub(returned);
        for (position, piece) in failure.pieces() {
            let offset = start + position;
            if !content::matches(self.seed, side, number, offset, piece) {
                self.fail(format!(
                    "{name} was returned with wrong content from byte {offset} on"
                ));
            }
        }
        let record = &mut self.messages[side][number];
        record.failed = true;
        record.expired = failure.expired;
        record.abandoned = failure.abandoned.is_some();
        record.unsent = !failure.sent;
    }

    /// Checks all messages at the end. `certain`: lives whose messages must all have arrived;
    /// `forgetful`: sides that dropped unread messages or all their state.
    pub(crate) fn check_all(&mut self, certain: [bool; 2], forgetful: [bool; 2], restarted: bool) {
        for side in 0..2 {
            let streams = self.agreed_streams[side];
            for number in 0..self.messages[side].len() {
                let record = self.messages[side][number].clone();
                if record.accepted.is_none() {
                    continue;
                }
                let name = format!("message {number} of side {side} ({record:?})");
                // Reported as not sent, for a valid reason.
                let refused = record.early && streams.is_none_or(|n| record.stream >= n);
                let has_reason = record.expired || record.abandoned;
                let returned = record.unsent && !record.begun && (has_reason || refused);
                if certain[record.life] && record.abandoned && !record.unsent {
                    // Delivered at most once, which is checked on delivery.
                } else if certain[record.life] {
                    self.check(record.delivered != returned, || {
                        format!("{name} did not arrive exactly once")
                    });
                    self.check(record.failed == returned, || {
                        format!("{name} failed in a world without failures")
                    });
                } else {
                    let forgotten = forgetful[1 - side] || restarted;
                    let forgotten = forgotten && record.life == 0;
                    let reported = record.delivered || record.failed || record.in_late_association;
                    self.check(reported || forgotten, || {
                        format!("{name} disappeared without a failure")
                    });
                }
            }
        }
    }
}
