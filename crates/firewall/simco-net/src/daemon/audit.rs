//! Audit log: one JSON object per line.
//!
//! Lines are recorded when events occur, and passed to the writing thread when the changes of rules
//! that they describe are stored.

mod rate_limits;
mod writer;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::mpsc;

use super::DaemonError;
use crate::describe::RuleText;
use carrick_simco::message::{Lifetime, NegativeReply, PolicyRuleId, Request};
use carrick_simco::middlebox::{
    EndReason, MiddleboxEvent, NotRestored, Requester, SessionEnd, SessionId, SourceNetwork,
};
use carrick_simco::rules::Rule;
use carrick_simco::session::Identity;
use carrick_simco::state::ClockReadings;
use rate_limits::{EventCategory, RateLimits};
use writer::{AuditWriter, MAX_BUFFERED};

pub(super) use writer::LogFile;

/// Audit log, or none.
#[derive(Debug)]
pub(super) struct Audit {
    on: bool,
    writer: AuditWriter,
    /// Lines of changes that are not stored yet.
    recorded: Vec<u8>,
    limits: RateLimits,
    /// Lines dropped for lack of room, in total and since the last report.
    lost: u64,
    lost_unreported: u64,
}

/// Peer of a session: its address as text, and as a source for rate limits.
pub(super) type Origin<'a> = (&'a str, Option<SourceNetwork>);

/// Counters of the log since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AuditCounts {
    /// Failed attempts to write.
    pub(super) failures: u64,
    /// Lost lines.
    pub(super) lost: u64,
    /// Events suppressed by rate limiting.
    pub(super) suppressed: u64,
}

/// Line of the log.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct AuditLine<'a> {
    time: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    /// Agent that requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Error of the packet filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    /// Owner of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// Seconds, granted or requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<u32>,
    /// Rule of the PDR that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_by: Option<u32>,
    /// Number of restored rules, lost lines or suppressed events.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(flatten)]
    text: RuleText,
}

/// Event of the middlebox itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum DaemonEvent<'a> {
    /// Started, with this number of restored rules.
    Started(usize),
    /// A rule was not restored.
    NotRestored(PolicyRuleId, Option<&'a Identity>, &'a NotRestored),
    /// The configuration was reloaded.
    Reloaded,
    /// Stopped, on request or because of an error.
    Stopped(Option<&'a DaemonError>),
}

impl<'a> AuditLine<'a> {
    fn at(wall: SystemTime, event: &'static str) -> Self {
        Self {
            time: timestamp(wall),
            event,
            ..Self::default()
        }
    }

    fn set_actor(&mut self, by: &'a Requester, origin: &impl Fn(SessionId) -> Option<Origin<'a>>) {
        self.session = Some(by.session.0);
        self.agent = Some(by.agent.as_str());
        self.peer = origin(by.session).map(|(peer, _)| peer);
    }

    fn set_rule(&mut self, rule: &Rule, owner: &'a Identity) {
        self.rule = Some(rule.id.0);
        self.owner = Some(owner.as_str());
        self.text = RuleText::from(rule);
    }

    fn set_refusal(&mut self, reply: NegativeReply) {
        self.code = Some(format!("0x03{:02x}", reply.code()));
        self.reason = Some(reply.text().into());
    }

    fn set_request(&mut self, request: &Request) {
        self.request = Some(request.kind().name());
        self.rule = request.rule().map(|rule| rule.0);
        self.lifetime = request.lifetime().map(|Lifetime(seconds)| seconds);
        self.text = RuleText::of_request(request);
    }
}

impl Audit {
    /// Opens the log in this file, or none; errors go to `errors`.
    pub(super) fn start(
        file: Option<LogFile>,
        errors: mpsc::Sender<DaemonError>,
    ) -> Result<Self, DaemonError> {
        let mut audit = Self {
            on: false,
            writer: AuditWriter::new(errors),
            recorded: Vec::new(),
            limits: RateLimits::default(),
            lost: 0,
            lost_unreported: 0,
        };
        audit.replace(file)?;
        Ok(audit)
    }

    /// Switches to another file or to none. Buffered lines go there.
    pub(super) fn replace(&mut self, with: Option<LogFile>) -> Result<(), DaemonError> {
        let on = with.is_some();
        self.writer.replace(with)?;
        self.on = on;
        if !on {
            self.recorded.clear();
        }
        Ok(())
    }

    /// Returns the counters.
    pub(super) fn counts(&self) -> AuditCounts {
        let (failures, lost_at_end) = self.writer.counts();
        AuditCounts {
            failures,
            lost: self.lost + lost_at_end,
            suppressed: self.limits.suppressed(),
        }
    }

    /// Records an event. `origin` returns the peer of a session, `owner` the owner of a rule.
    pub(super) fn event<'a>(
        &mut self,
        at: &ClockReadings,
        event: &'a MiddleboxEvent,
        origin: impl Fn(SessionId) -> Option<Origin<'a>>,
        owner: impl Fn(&Rule) -> &'a Identity,
    ) {
        if !self.on {
            return;
        }
        let source = |session| origin(session).and_then(|(_, source)| source);
        if EventCategory::of(event, source).is_some_and(|kind| !self.limits.admits(at.time, &kind))
        {
            return;
        }
        let peer = |session| origin(session).map(|(peer, _)| peer);
        let mut line = AuditLine::at(at.wall, name(event));
        match event {
            MiddleboxEvent::SessionOpened { session, agent } => {
                line.session = Some(session.0);
                line.agent = Some(agent.as_str());
                line.peer = peer(*session);
            }
            MiddleboxEvent::AuthenticationFailed { session, claimed } => {
                line.session = Some(session.0);
                line.agent = claimed.as_ref().map(Identity::as_str);
                line.peer = peer(*session);
            }
            MiddleboxEvent::SessionClosed {
                session,
                agent,
                why,
            } => {
                line.session = Some(session.0);
                line.agent = agent.as_ref().map(Identity::as_str);
                line.peer = peer(*session);
                match why {
                    SessionEnd::Refused(reply) => line.set_refusal(*reply),
                    why => line.reason = Some(session_end(*why).into()),
                }
            }
            MiddleboxEvent::Refused {
                by,
                request,
                reply,
                failure,
            } => {
                line.set_actor(by, &origin);
                line.set_request(request);
                line.set_refusal(*reply);
                line.failure = failure.as_ref().map(ToString::to_string);
            }
            MiddleboxEvent::RuleCreated {
                rule,
                lifetime,
                request,
                by,
            } => {
                line.set_actor(by, &origin);
                line.set_rule(rule, owner(rule));
                line.request = Some(request.name());
                line.lifetime = Some(lifetime.0);
            }
            MiddleboxEvent::LifetimeChanged { rule, lifetime, by } => {
                line.set_actor(by, &origin);
                line.set_rule(rule, owner(rule));
                line.request = Some("PLC");
                line.lifetime = Some(lifetime.0);
            }
            MiddleboxEvent::RuleEnded { rule, reason, by } => {
                if let Some(by) = by {
                    line.set_actor(by, &origin);
                }
                line.set_rule(rule, owner(rule));
                line.reason = Some(end_reason(*reason).into());
                match reason {
                    EndReason::Requested => line.request = Some("PLC"),
                    EndReason::Disabled(by) => {
                        line.request = Some("PDR");
                        line.disabled_by = Some(by.0);
                    }
                    EndReason::Expired | EndReason::Administrator => {}
                }
            }
            MiddleboxEvent::BackendFailed { rule, owner, error } => {
                line.rule = Some(rule.0);
                line.owner = Some(owner.as_str());
                line.failure = Some(error.to_string());
            }
        }
        self.push(&line);
    }

    /// Records an event of the middlebox itself.
    pub(super) fn daemon_event(&mut self, wall: SystemTime, event: DaemonEvent<'_>) {
        if !self.on {
            return;
        }
        let line = match event {
            DaemonEvent::Started(rules) => AuditLine {
                count: Some(rules as u64),
                ..AuditLine::at(wall, "started")
            },
            DaemonEvent::NotRestored(rule, owner, why) => AuditLine {
                rule: Some(rule.0),
                owner: owner.map(Identity::as_str),
                reason: Some(why.to_string()),
                ..AuditLine::at(wall, "rule-ended")
            },
            DaemonEvent::Reloaded => AuditLine::at(wall, "reloaded"),
            DaemonEvent::Stopped(why) => AuditLine {
                reason: why.map(ToString::to_string),
                ..AuditLine::at(wall, "stopped")
            },
        };
        if let DaemonEvent::Stopped(_) = event {
            let unreported = self.limits.take_unreported();
            self.suppressed(wall, unreported);
        }
        self.push(&line);
    }

    /// Records the number of suppressed events.
    fn suppressed(&mut self, wall: SystemTime, unreported: BTreeMap<Option<Identity>, u64>) {
        for (agent, count) in unreported {
            self.push(&AuditLine {
                agent: agent.as_ref().map(Identity::as_str),
                count: Some(count),
                ..AuditLine::at(wall, "suppressed")
            });
        }
    }

    fn push(&mut self, line: &AuditLine<'_>) {
        let before = self.recorded.len();
        // A line contains nothing that JSON can't represent.
        if before < MAX_BUFFERED && serde_json::to_writer(&mut self.recorded, line).is_ok() {
            self.recorded.push(b'\n');
        } else {
            self.recorded.truncate(before);
            self.count_lost(1);
        }
    }

    fn count_lost(&mut self, lines: u64) {
        self.lost += lines;
        self.lost_unreported += lines;
    }

    /// Drops the recorded lines, because their changes were not stored.
    pub(super) fn discard(&mut self) {
        self.recorded.clear();
    }

    /// Passes the recorded lines to the writer; their changes are stored.
    pub(super) fn flush(&mut self, at: &ClockReadings) {
        if !self.on {
            return;
        }
        let unreported = self.limits.take_due(at.time);
        self.suppressed(at.wall, unreported);
        if self.lost_unreported > 0 && self.writer.is_idle() {
            let count = Some(std::mem::take(&mut self.lost_unreported));
            self.push(&AuditLine {
                count,
                ..AuditLine::at(at.wall, "lines-lost")
            });
        }
        if !self.recorded.is_empty() {
            let lost = self.writer.queue(&self.recorded);
            self.recorded.clear();
            self.count_lost(lost);
        }
    }

    /// Waits until all lines are written or were tried for the last time.
    pub(super) async fn finish(&self) {
        self.writer.finish().await;
    }
}

fn name(event: &MiddleboxEvent) -> &'static str {
    match event {
        MiddleboxEvent::SessionOpened { .. } => "session-opened",
        MiddleboxEvent::AuthenticationFailed { .. } => "authentication-failed",
        MiddleboxEvent::SessionClosed { .. } => "session-closed",
        MiddleboxEvent::Refused { .. } => "refused",
        MiddleboxEvent::RuleCreated { .. } => "rule-granted",
        MiddleboxEvent::LifetimeChanged { .. } => "lifetime-changed",
        MiddleboxEvent::RuleEnded { .. } => "rule-ended",
        MiddleboxEvent::BackendFailed { .. } => "backend-failed",
    }
}

fn session_end(why: SessionEnd) -> &'static str {
    match why {
        SessionEnd::Requested => "requested",
        SessionEnd::Terminated => "terminated",
        SessionEnd::Disconnected => "disconnected",
        SessionEnd::Refused(reply) => reply.text(),
        SessionEnd::ProtocolViolation => "protocol violation",
        SessionEnd::NotEstablished => "not established in time",
        SessionEnd::Evicted => "evicted to admit another connection",
        SessionEnd::Overrun => "send queue overrun",
    }
}

fn end_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Expired => "expired",
        EndReason::Requested => "requested",
        EndReason::Disabled(_) => "disabled by another rule",
        EndReason::Administrator => "administrator",
    }
}

/// Formats a time as in `2026-11-21T18:50:58.123Z`.
fn timestamp(time: SystemTime) -> String {
    let mut text = String::new();
    // Times before 1970 are shown as 1970, times after 9999 as empty text.
    let time = time.max(SystemTime::UNIX_EPOCH);
    let _ = write!(text, "{}", humantime::format_rfc3339_millis(time));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_have_a_date_and_milliseconds() {
        let after = |seconds| SystemTime::UNIX_EPOCH + Duration::from_millis(seconds);
        assert_eq!(
            timestamp(after(951_782_400_050)),
            "2000-02-29T00:00:00.050Z"
        );
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(timestamp(before), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(after(300_000_000_000_000)), "", "the year 11476");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn full_disk_buffers_and_reports_lost_lines() {
        use std::path::Path;
        let (errors, mut reported) = mpsc::channel(16);
        let full = LogFile::open(Some(Path::new("/dev/full"))).unwrap();
        let mut audit = Audit::start(full, errors).unwrap();
        let at = ClockReadings {
            time: carrick_simco::Time::ZERO,
            wall: SystemTime::UNIX_EPOCH,
            boot: None,
        };
        let mut lines = 0;
        while audit.counts().lost < 3 {
            audit.daemon_event(at.wall, DaemonEvent::Reloaded);
            assert!(audit.recorded.len() < 100);
            audit.flush(&at);
            lines += 1;
        }
        let failed = reported.recv().await.unwrap();
        assert!(failed.to_string().contains("/dev/full"), "{failed}");
        let name = format!("carrick-audit-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        audit.replace(LogFile::open(Some(&path)).unwrap()).unwrap();
        while audit.lost_unreported > 0 {
            tokio::task::yield_now().await;
            audit.flush(&at);
        }
        audit.finish().await;
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(last.contains("\"lines-lost\",\"count\":3"), "{last}");
        assert!(before.len() <= MAX_BUFFERED && before.len() > MAX_BUFFERED - 100);
        assert_eq!(
            before.lines().count(),
            lines - 3,
            "all other lines are written"
        );
        assert!(reported.try_recv().is_err(), "reported once");
    }
}
