//! The list of sockets and associations for `carrick ss`.

use carrick_ipc::{MAX_REPLY, Reply};
use carrick_proto::StateName;
use carrick_sockets::{OverviewKey, OverviewRow, OverviewSubject, Style};
use serde_json::{Map, Value, json};

use crate::driver::Driver;

/// Size in bytes that a reply does not exceed by more than a row. An association has some 3,000 bytes and
/// 700 for each path.
const PAGE: usize = MAX_REPLY / 4;

impl Driver {
    /// Returns the rows after a place, one JSON object a line, as many as one reply has room for.
    pub(crate) fn list(&self, after: Option<OverviewKey>) -> Vec<u8> {
        let mut lines = Vec::new();
        let mut rows = self.sockets.overview(after);
        for row in rows.by_ref() {
            lines.extend(self.row(&row).to_string().into_bytes());
            lines.push(b'\n');
            if lines.len() >= PAGE {
                break;
            }
        }
        lines.truncate(MAX_REPLY - 64);
        let reply = Reply {
            result: i32::from(rows.next().is_some()),
            value: &lines,
            ..Reply::default()
        };
        reply.encode()
    }

    fn row(&self, row: &OverviewRow) -> Value {
        let token = row.socket.and_then(|id| self.by_socket.get(&id));
        let descriptor = token.and_then(|token| self.descriptors.get(token));
        let mut members = Map::new();
        members.insert("socket".into(), row.key.socket.into());
        members.insert("association".into(), row.key.association.into());
        let lessee = row.socket.and_then(|id| self.leases.user_of(id));
        let user = descriptor.map(|found| found.uid()).or(lessee);
        members.insert("user".into(), json!(user));
        let leased = row.socket.and_then(|id| self.leases.process_of(id));
        let process = descriptor.map(|found| found.owner().process).or(leased);
        members.insert("process".into(), json!(process));
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
}
