//! The audit log: who did what over which session, and what became of it, one JSON object a line.
//!
//! Lines are noted as things happen, and go to the thread that writes them when the changes of rules
//! that they tell are safe.

mod ration;
mod writer;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::mpsc;

use super::DaemonError;
use crate::describe::RuleText;
use crate::message::{Lifetime, NegativeReply, PolicyRuleId, Request};
use crate::middlebox::{
    Actor, EndReason, MiddleboxEvent, NotRestored, SessionEnd, SessionId, Source,
};
use crate::rules::Rule;
use crate::session::Identity;
use crate::state::Moment;
use ration::{Kind, Ration};
use writer::{MOST_WAITING, Writer};

pub(super) use writer::LogFile;

/// The log, or none.
#[derive(Debug)]
pub(super) struct Audit {
    on: bool,
    writer: Writer,
    /// Lines of which it is not known yet whether what they tell is safe.
    noted: Vec<u8>,
    ration: Ration,
    /// Lines that found no room, in all and since that was last told.
    lost: u64,
    lost_untold: u64,
}

/// Where a session comes from: in words, and as who it counts.
pub(super) type Origin<'a> = (&'a str, Option<Source>);

/// How the log does since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AuditCounts {
    /// Attempts to write that failed.
    pub(super) failures: u64,
    /// Lines that are in no log.
    pub(super) lost: u64,
    /// Events that are counted in a line `suppressed` and have none of their own.
    pub(super) suppressed: u64,
}

/// One line.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line<'a> {
    time: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    /// Who did it.
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
    /// What the packet filter says.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    /// Whose the rule is.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// Seconds, granted or wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<u32>,
    /// The PDR that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_by: Option<u32>,
    /// How many: rules at a start, lines that are lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(flatten)]
    text: RuleText,
}

/// What befalls the middlebox itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed<'a> {
    /// It runs, with so many rules of before.
    Started(usize),
    /// A rule of before does not go on.
    NotRestored(PolicyRuleId, Option<&'a Identity>, &'a NotRestored),
    /// It has another configuration.
    Reloaded,
    /// It was told to stop, or had to.
    Stopped(Option<&'a DaemonError>),
}

impl<'a> Line<'a> {
    fn at(wall: SystemTime, event: &'static str) -> Self {
        Self {
            time: moment(wall),
            event,
            ..Self::default()
        }
    }

    fn by(&mut self, by: &'a Actor, origin: &impl Fn(SessionId) -> Option<Origin<'a>>) {
        self.session = Some(by.session.0);
        self.agent = Some(by.agent.as_str());
        self.peer = origin(by.session).map(|(peer, _)| peer);
    }

    fn about(&mut self, rule: &Rule, owner: &'a Identity) {
        self.rule = Some(rule.id.0);
        self.owner = Some(owner.as_str());
        self.text = RuleText::from(rule);
    }

    fn refused(&mut self, reply: NegativeReply) {
        self.code = Some(format!("0x03{:02x}", reply.code()));
        self.reason = Some(reply.text().into());
    }

    fn wanted(&mut self, request: &Request) {
        self.request = Some(request.kind().name());
        self.rule = request.rule().map(|rule| rule.0);
        self.lifetime = request.lifetime().map(|Lifetime(seconds)| seconds);
        self.text = RuleText::of_request(request);
    }
}

impl Audit {
    /// A log in this file, or none; what goes wrong goes to `troubles`.
    pub(super) fn start(
        file: Option<LogFile>,
        troubles: mpsc::Sender<DaemonError>,
    ) -> Result<Self, DaemonError> {
        let mut audit = Self {
            on: false,
            writer: Writer::new(troubles),
            noted: Vec::new(),
            ration: Ration::default(),
            lost: 0,
            lost_untold: 0,
        };
        audit.replace(file)?;
        Ok(audit)
    }

    /// Another file, opened anew, or none; what waits goes there.
    pub(super) fn replace(&mut self, with: Option<LogFile>) -> Result<(), DaemonError> {
        let on = with.is_some();
        self.writer.replace(with)?;
        self.on = on;
        if !on {
            self.noted.clear();
        }
        Ok(())
    }

    /// How it does.
    pub(super) fn counts(&self) -> AuditCounts {
        let (failures, given_up) = self.writer.counts();
        AuditCounts {
            failures,
            lost: self.lost + given_up,
            suppressed: self.ration.suppressed,
        }
    }

    /// Notes an event. `origin` knows where sessions come from, `owner` those who own rules.
    pub(super) fn event<'a>(
        &mut self,
        at: &Moment,
        event: &'a MiddleboxEvent,
        origin: impl Fn(SessionId) -> Option<Origin<'a>>,
        owner: impl Fn(&Rule) -> &'a Identity,
    ) {
        if !self.on {
            return;
        }
        let source = |session| origin(session).and_then(|(_, source)| source);
        if Kind::of(event, source).is_some_and(|kind| !self.ration.admits(at.time, kind)) {
            return;
        }
        let peer = |session| origin(session).map(|(peer, _)| peer);
        let mut line = Line::at(at.wall, name(event));
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
                    SessionEnd::Refused(reply) => line.refused(*reply),
                    why => line.reason = Some(session_end(*why).into()),
                }
            }
            MiddleboxEvent::Refused {
                by,
                request,
                reply,
                failure,
            } => {
                line.by(by, &origin);
                line.wanted(request);
                line.refused(*reply);
                line.failure = failure.as_ref().map(ToString::to_string);
            }
            MiddleboxEvent::RuleCreated {
                rule,
                lifetime,
                request,
                by,
            } => {
                line.by(by, &origin);
                line.about(rule, owner(rule));
                line.request = Some(request.name());
                line.lifetime = Some(lifetime.0);
            }
            MiddleboxEvent::LifetimeChanged { rule, lifetime, by } => {
                line.by(by, &origin);
                line.about(rule, owner(rule));
                line.request = Some("PLC");
                line.lifetime = Some(lifetime.0);
            }
            MiddleboxEvent::RuleEnded { rule, reason, by } => {
                if let Some(by) = by {
                    line.by(by, &origin);
                }
                line.about(rule, owner(rule));
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

    /// Notes what befell the middlebox itself.
    pub(super) fn deed(&mut self, wall: SystemTime, deed: Deed<'_>) {
        if !self.on {
            return;
        }
        let line = match deed {
            Deed::Started(rules) => Line {
                count: Some(rules as u64),
                ..Line::at(wall, "started")
            },
            Deed::NotRestored(rule, owner, why) => Line {
                rule: Some(rule.0),
                owner: owner.map(Identity::as_str),
                reason: Some(why.to_string()),
                ..Line::at(wall, "rule-ended")
            },
            Deed::Reloaded => Line::at(wall, "reloaded"),
            Deed::Stopped(why) => Line {
                reason: why.map(ToString::to_string),
                ..Line::at(wall, "stopped")
            },
        };
        if let Deed::Stopped(_) = deed {
            let held = self.ration.rest();
            self.suppressed(wall, held);
        }
        self.push(&line);
    }

    /// Tells what had no line of its own.
    fn suppressed(&mut self, wall: SystemTime, held: BTreeMap<Option<Identity>, u64>) {
        for (agent, count) in held {
            self.push(&Line {
                agent: agent.as_ref().map(Identity::as_str),
                count: Some(count),
                ..Line::at(wall, "suppressed")
            });
        }
    }

    fn push(&mut self, line: &Line<'_>) {
        let before = self.noted.len();
        // A line has nothing that JSON can't say.
        if before < MOST_WAITING && serde_json::to_writer(&mut self.noted, line).is_ok() {
            self.noted.push(b'\n');
        } else {
            self.noted.truncate(before);
            self.found_no_room(1);
        }
    }

    fn found_no_room(&mut self, lines: u64) {
        self.lost += lines;
        self.lost_untold += lines;
    }

    /// What was noted since the last time did not come to be.
    pub(super) fn discard(&mut self) {
        self.noted.clear();
    }

    /// What was noted is safe, and is to be written.
    pub(super) fn flush(&mut self, at: &Moment) {
        if !self.on {
            return;
        }
        let held = self.ration.due(at.time);
        self.suppressed(at.wall, held);
        if self.lost_untold > 0 && self.writer.is_idle() {
            let count = Some(std::mem::take(&mut self.lost_untold));
            self.push(&Line {
                count,
                ..Line::at(at.wall, "lines-lost")
            });
        }
        if !self.noted.is_empty() {
            let lost = self.writer.take(&self.noted);
            self.noted.clear();
            self.found_no_room(lost);
        }
    }

    /// Waits until all is written, or was tried for the last time.
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
        SessionEnd::Misbehaved => "misbehaved",
        SessionEnd::NotEstablished => "not established in time",
        SessionEnd::CrowdedOut => "crowded out",
        SessionEnd::Overrun => "took nothing",
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

/// A moment as in `2026-11-21T18:50:58.123Z`.
fn moment(time: SystemTime) -> String {
    let mut text = String::new();
    // A clock that is wrong is no reason to end: before 1970 it is that, after the year 9999 nothing.
    let time = time.max(SystemTime::UNIX_EPOCH);
    let _ = write!(text, "{}", humantime::format_rfc3339_millis(time));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_has_a_date_and_milliseconds() {
        let after = |seconds| SystemTime::UNIX_EPOCH + Duration::from_millis(seconds);
        assert_eq!(moment(after(951_782_400_050)), "2000-02-29T00:00:00.050Z");
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(moment(before), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(after(300_000_000_000_000)), "", "the year 11476");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_waits_for_a_full_disk_is_bounded_and_what_is_lost_is_told() {
        use std::path::Path;
        let (troubles, mut told) = mpsc::channel(16);
        let full = LogFile::open(Some(Path::new("/dev/full"))).unwrap();
        let mut audit = Audit::start(full, troubles).unwrap();
        let at = Moment {
            time: crate::Time::ZERO,
            wall: SystemTime::UNIX_EPOCH,
            boot: None,
        };
        let mut lines = 0;
        while audit.counts().lost < 3 {
            audit.deed(at.wall, Deed::Reloaded);
            assert!(audit.noted.len() < 100);
            audit.flush(&at);
            lines += 1;
        }
        let failed = told.recv().await.unwrap();
        assert!(failed.to_string().contains("/dev/full"), "{failed}");
        let name = format!("carrick-audit-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        audit.replace(LogFile::open(Some(&path)).unwrap()).unwrap();
        while audit.lost_untold > 0 {
            tokio::task::yield_now().await;
            audit.flush(&at);
        }
        audit.finish().await;
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(last.contains("\"lines-lost\",\"count\":3"), "{last}");
        assert!(before.len() <= MOST_WAITING && before.len() > MOST_WAITING - 100);
        assert_eq!(before.lines().count(), lines - 3, "nothing else is missing");
        assert!(told.try_recv().is_err(), "told once");
    }
}
