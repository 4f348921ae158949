//! The list of sockets and associations for `carrick ss`.

use carrick_ipc::MAX_REPLY;
use carrick_proto::StateName;
use carrick_sockets::{OverviewKey, OverviewRow, OverviewSubject, Style};
use serde_json::{Map, Value, json};

use super::reply::ReplyContent;
use crate::parts::Parts;

/// Size in bytes that a reply does not exceed by more than a row. An association has some 3,000 bytes and
/// 700 for each path.
const PAGE: usize = MAX_REPLY / 4;

/// Returns the rows after a place, one JSON object a line, as many as one reply has room for.
pub(super) fn list(parts: &Parts, after: Option<OverviewKey>) -> ReplyContent {
    let mut lines = Vec::new();
    let mut rows = parts.sockets.overview(after);
    for row in rows.by_ref() {
        lines.extend(row_of(parts, &row).to_string().into_bytes());
        lines.push(b'\n');
        if lines.len() >= PAGE {
            break;
        }
    }
    let more = i32::from(rows.next().is_some());
    ReplyContent {
        value: lines,
        ..ReplyContent::result(more)
    }
}

fn row_of(parts: &Parts, row: &OverviewRow) -> Value {
    let descriptor = row.socket.and_then(|id| parts.descriptors.of_socket(id));
    let lease = row.socket.and_then(|id| parts.leases.get(id));
    let owner = descriptor.map(|found| found.owner());
    let owner = owner.or(lease.map(|lease| lease.owner()));
    let mut members = Map::new();
    members.insert("socket".into(), row.key.socket.into());
    members.insert("association".into(), row.key.association.into());
    members.insert("user".into(), json!(owner.map(|owner| owner.uid)));
    members.insert("process".into(), json!(owner.map(|owner| owner.process)));
    members.insert("inode".into(), json!(descriptor.map(|found| found.inode())));
    members.insert("local".into(), json!(row.local));
    members.insert("bound".into(), json!(row.bound));
    match &row.subject {
        OverviewSubject::Socket {
            style,
            backlog,
            waiting,
            associations,
        } => {
            let style = match style {
                Style::OneToOne => "one-to-one",
                Style::OneToMany => "one-to-many",
            };
            members.insert("style".into(), style.into());
            members.insert("backlog".into(), json!(backlog));
            members.insert("waiting".into(), json!(waiting));
            members.insert("associations".into(), json!(associations));
        }
        OverviewSubject::Association {
            peer,
            stats,
            settings,
            paths,
        } => {
            let state = stats
                .as_ref()
                .map_or(StateName::Closed, |stats| stats.state);
            members.insert("peer".into(), json!(peer));
            members.insert("state".into(), json!(state));
            members.insert("stats".into(), json!(stats));
            let settings = settings.map(|settings| {
                json!({
                    "hb_interval_ms": settings.hb_interval.as_millis() as u64,
                    "max_retrans": settings.max_retrans,
                    "send_buffer": settings.send_buffer,
                    "receive_buffer": settings.receive_buffer,
                })
            });
            members.insert("settings".into(), json!(settings));
            members.insert("paths".into(), json!(paths));
        }
    }
    members.into()
}
