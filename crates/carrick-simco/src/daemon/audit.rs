//! The audit log: what agents did and what became of it, one JSON object a line.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::DaemonError;
use crate::describe::RuleText;
use crate::middlebox::{EndReason, MiddleboxEvent, SessionEnd, SessionId};
use crate::rules::Rule;
use crate::session::Identity;

/// The log, or none.
#[derive(Debug, Default)]
pub(super) struct Audit {
    file: Option<(PathBuf, File)>,
    /// Lines that are not written yet.
    lines: Vec<u8>,
}

/// One line.
#[derive(Debug, Default, Serialize)]
struct Line<'a> {
    time: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    #[serde(flatten)]
    text: RuleText,
}

impl Audit {
    /// Opens the log to append; `None` for none.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, DaemonError> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|source| DaemonError::Audit {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self {
            file: Some((path.to_owned(), file)),
            lines: Vec::new(),
        })
    }

    /// Notes an event. `peer` knows the addresses of sessions, `owner` those who own rules.
    pub(super) fn event<'a>(
        &mut self,
        wall: SystemTime,
        event: &MiddleboxEvent,
        peer: impl Fn(SessionId) -> Option<&'a str>,
        owner: impl Fn(&Rule) -> Identity,
    ) {
        if self.file.is_none() {
            return;
        }
        let name;
        let mut line = Line {
            time: moment(wall),
            ..Line::default()
        };
        match event {
            MiddleboxEvent::SessionOpened { session, agent } => {
                line.event = "session-opened";
                line.session = Some(session.0);
                line.agent = Some(agent.as_str());
                line.peer = peer(*session);
            }
            MiddleboxEvent::AuthenticationFailed { session, claimed } => {
                line.event = "authentication-failed";
                line.session = Some(session.0);
                line.agent = claimed.as_ref().map(Identity::as_str);
                line.peer = peer(*session);
            }
            MiddleboxEvent::SessionClosed {
                session,
                agent,
                why,
            } => {
                line.event = "session-closed";
                line.session = Some(session.0);
                line.agent = agent.as_ref().map(Identity::as_str);
                line.peer = peer(*session);
                line.reason = Some(session_end(*why).into());
            }
            MiddleboxEvent::Refused {
                session,
                agent,
                request,
                reply,
            } => {
                line.event = "refused";
                line.session = Some(session.0);
                line.agent = Some(agent.as_str());
                line.request = Some(request.name());
                line.code = Some(format!("0x03{:02x}", reply.code()));
                line.reason = Some(reply.text().into());
            }
            MiddleboxEvent::RuleCreated(rule) => {
                name = owner(rule);
                line.event = "rule-granted";
                line.agent = Some(name.as_str());
                line.rule = Some(rule.id.0);
                line.text = RuleText::from(rule);
            }
            MiddleboxEvent::LifetimeChanged(rule) => {
                name = owner(rule);
                line.event = "lifetime-changed";
                line.agent = Some(name.as_str());
                line.rule = Some(rule.id.0);
            }
            MiddleboxEvent::RuleEnded { rule, reason } => {
                name = owner(rule);
                line.event = "rule-ended";
                line.agent = Some(name.as_str());
                line.rule = Some(rule.id.0);
                line.reason = Some(end_reason(*reason).into());
            }
            MiddleboxEvent::BackendFailed { rule, error } => {
                line.event = "backend-failed";
                line.rule = Some(rule.0);
                line.reason = Some(error.to_string());
            }
        }
        // A line has nothing that JSON can't say.
        if serde_json::to_writer(&mut self.lines, &line).is_ok() {
            self.lines.push(b'\n');
        }
    }

    /// Writes what was noted.
    pub(super) fn flush(&mut self) -> Result<(), DaemonError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        if let Some((path, file)) = &mut self.file {
            let written = file.write_all(&self.lines);
            written.map_err(|source| DaemonError::Audit {
                path: path.display().to_string(),
                source,
            })?;
        }
        self.lines.clear();
        Ok(())
    }
}

fn session_end(why: SessionEnd) -> &'static str {
    match why {
        SessionEnd::Requested => "requested",
        SessionEnd::Terminated => "terminated",
        SessionEnd::Disconnected => "disconnected",
        SessionEnd::Refused => "refused",
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
        EndReason::Disabled => "disabled by another rule",
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
}
