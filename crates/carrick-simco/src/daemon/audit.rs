//! The audit log: what agents did and what became of it, one JSON object a line.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::DaemonError;
use crate::message::{AddressTuple, Direction, Scope};
use crate::middlebox::{EndReason, MiddleboxEvent, SessionEnd, SessionId};
use crate::rules::{Rule, RuleKind};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    internal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<String>,
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
            time: iso_8601(wall),
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
                describe(&mut line, rule);
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

fn describe(line: &mut Line<'_>, rule: &Rule) {
    line.rule = Some(rule.id.0);
    line.group = Some(rule.group.0);
    match &rule.kind {
        RuleKind::Reserved { reservation } => {
            line.kind = Some("reserve");
            line.protocol = Some(reservation.outside.protocol);
            line.outside = Some(tuple(&reservation.outside));
        }
        RuleKind::Enabled {
            parameters,
            internal,
            external,
            told,
            reservation,
            ..
        } => {
            line.kind = Some("enable");
            line.protocol = Some(internal.protocol);
            line.direction = Some(match parameters.direction {
                Direction::Inbound => "in",
                Direction::Outbound => "out",
                Direction::Both => "both",
            });
            line.internal = Some(tuple(internal));
            line.external = Some(tuple(external));
            line.outside = reservation.map(|_| tuple(&told.outside));
        }
        RuleKind::Disabled {
            internal, external, ..
        } => {
            line.kind = Some("disable");
            line.protocol = Some(internal.protocol);
            line.internal = Some(tuple(internal));
            line.external = Some(tuple(external));
        }
    }
}

/// An address tuple for people: `192.0.2.0/24 5000+2`; a port of 0 is any.
fn tuple(tuple: &AddressTuple) -> String {
    match tuple.scope {
        Scope::ProtocolsOnly(version) => format!("any {version:?}"),
        Scope::Full {
            address,
            prefix,
            port,
            ports,
        } => format!("{address}/{prefix} {port}+{ports}"),
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
fn iso_8601(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years that begin in March, so that the leap day is the last of its year; eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year + 400 * era, month + 3),
        _ => (year + 400 * era + 1, month - 9),
    };
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_the_calendar() {
        for (seconds, told) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_763_750_000, "2025-11-21T18:33:20.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(iso_8601(time), told);
        }
    }
}
