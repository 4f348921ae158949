//! Reports that answer a message: DUNA, SCON and DUPU (RFC 4666, sections 3.4.1, 3.4.4 and 3.4.5). A peer may not know a
//! state, because its report was lost or the destination has no route; therefore messages are answered beside the reports
//! of changes. A TFP answers a message over M2PA.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::DestinationEvent;
use carrick_sigtran::m3ua::{
    AffectedPointCode, AffectedPointCodes, PointCode, UnavailabilityCause, UserCause, UserIdentity,
};

use super::congestion::{ONSET, congestion};
use super::discard::Discard;
use super::router::Target;
use super::{Network, StpCore};
use crate::node::Origin;

/// Interval in which an origin gets one report about a subject; T8 of MTP3 is as long.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of subjects about which an origin gets reports in the interval.
const MAX_SUBJECTS: usize = 256;

/// Part of a message that determines its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLabel {
    pub(super) network: Network,
    pub(super) opc: PointCode,
    pub(super) dpc: PointCode,
    pub(super) si: u8,
}

/// Subject of a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    Unavailable(PointCode),
    Congested(PointCode),
    UserPart(PointCode, u8),
}

/// Reports that answered messages in the current interval. Origins are configured, so that their number is bounded.
#[derive(Debug, Default)]
pub(super) struct ResponseLimiter {
    since: Time,
    sent: BTreeMap<Origin, BTreeSet<Subject>>,
}

impl ResponseLimiter {
    /// Returns whether an origin gets a report, once in the interval.
    fn admit(&mut self, now: Time, origin: Origin, subject: Subject) -> bool {
        if now.since(self.since) >= INTERVAL {
            self.sent.clear();
            self.since = now;
        }
        let sent = self.sent.entry(origin).or_default();
        sent.len() < MAX_SUBJECTS && sent.insert(subject)
    }
}

impl StpCore {
    /// Answers a message that was discarded because its destination or user part can't be reached.
    pub(super) fn answer_discard(
        &mut self,
        origin: Origin,
        from: &Target,
        label: MessageLabel,
        why: Discard,
    ) {
        if !matches!(
            why,
            Discard::NoRoute | Discard::Unavailable | Discard::Circular
        ) {
            return;
        }
        let dpc = label.dpc;
        match origin {
            // The origin was answered when it sent the message.
            Origin::Returned(_) => {}
            Origin::Link(_) => self.refuse_destination(from, dpc),
            Origin::Asp(..) => {
                if let Some(cause) = self.unavailable_user_part(label) {
                    let event = |_| DestinationEvent::UserPartUnavailable(dpc, cause);
                    let subject = Subject::UserPart(dpc, label.si);
                    self.respond(origin, label, subject, &event);
                } else {
                    let subject = Subject::Unavailable(dpc);
                    self.respond(origin, label, subject, &DestinationEvent::Unavailable);
                }
            }
        }
    }

    /// Answers a message for a destination that is congested.
    pub(super) fn answer_congestion(&mut self, origin: Origin, label: MessageLabel) {
        let subject = Subject::Congested(label.dpc);
        self.respond(origin, label, subject, &congestion(ONSET));
    }

    fn respond(
        &mut self,
        origin: Origin,
        label: MessageLabel,
        subject: Subject,
        event: &dyn Fn(AffectedPointCodes) -> DestinationEvent,
    ) {
        let now = self.node.clock().now();
        if let Origin::Asp(asp, context) = origin
            && self.responses.admit(now, origin, subject)
        {
            let destination = AffectedPointCode::single(label.dpc);
            self.send_report(asp, context, label.network, &[destination], event);
        }
    }

    /// Returns why the user part of a message is unavailable, if its point code has an application server that is usable
    /// for other messages.
    fn unavailable_user_part(&self, label: MessageLabel) -> Option<UserCause> {
        let MessageLabel {
            network,
            opc,
            dpc,
            si,
        } = label;
        let destination = AffectedPointCode::single(dpc);
        let (mut is_present, mut is_equipped) = (false, false);
        for (key, server) in self.router.servers_of(network, dpc) {
            let availability = self.availability(&Target::Server(server), destination);
            is_present |= availability != Availability::Unavailable;
            is_equipped |= key.matches(dpc, opc, si);
        }
        is_present.then_some(UserCause {
            cause: if is_equipped {
                UnavailabilityCause::INACCESSIBLE
            } else {
                UnavailabilityCause::UNEQUIPPED
            },
            user: UserIdentity(si.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::LinkKey;

    /// RFC 4666, section 3.4.1: subsequent reports may be suppressed for a while
    #[test]
    fn one_report_in_the_interval() {
        let mut limiter = ResponseLimiter::default();
        let code = |value| Subject::Unavailable(PointCode::new(value).unwrap());
        let origin = |key| Origin::Link(LinkKey(key));
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        assert!(limiter.admit(at(0), origin(1), code(1)));
        assert!(!limiter.admit(at(999), origin(1), code(1)));
        assert!(limiter.admit(at(999), origin(1), code(2)));
        assert!(limiter.admit(at(999), origin(2), code(1)));
        assert!(limiter.admit(at(1000), origin(1), code(1)));
        // One origin uses up only what is its own.
        for value in 0..5000 {
            limiter.admit(at(1000), origin(1), code(value));
        }
        assert_eq!(limiter.sent[&origin(1)].len(), MAX_SUBJECTS);
        assert!(limiter.admit(at(1000), origin(2), code(1)));
    }
}
