//! Lines of a proxy on standard error.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::connection::Counts;

/// Format and detail of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProxyLog {
    pub(super) verbose: bool,
    pub(super) json: bool,
}

impl ProxyLog {
    /// Prints a line about the proxy.
    pub(super) fn line(self, kind: &str, text: &str) {
        self.print(kind, None, Map::new(), text);
    }

    /// Prints that a connection has begun.
    pub(super) fn connected(self, number: u64, text: &str) {
        if self.verbose {
            self.print("connected", Some(number), Map::new(), text);
        }
    }

    /// Prints how a connection has ended; an error is printed without --verbose as well.
    pub(super) fn ended(self, number: u64, counts: &Counts, error: Option<&str>) {
        if !self.verbose && error.is_none() {
            return;
        }
        let (sent, received) = (&counts.sent, &counts.received);
        let mut members = Map::new();
        for (name, value) in [
            ("sent_messages", sent.messages()),
            ("sent_bytes", sent.bytes()),
            ("received_messages", received.messages()),
            ("received_bytes", received.bytes()),
        ] {
            members.insert(name.into(), value.into());
        }
        members.insert("error".into(), error.map_or(Value::Null, Value::from));
        let text = format!(
            "ended: {} messages ({} bytes) sent, {} ({} bytes) received{}",
            sent.messages(),
            sent.bytes(),
            received.messages(),
            received.bytes(),
            error.map(|error| format!("; {error}")).unwrap_or_default()
        );
        self.print("ended", Some(number), members, &text);
    }

    /// Prints that datagrams were discarded since the last such line.
    pub(super) fn discarded(self, count: u64, source: SocketAddr, why: &str) {
        let members = Map::from_iter([("datagrams".to_owned(), count.into())]);
        let text = format!("{count} datagrams discarded, the last one of {source}: {why}");
        self.print("discarded", None, members, &text);
    }

    fn print(self, kind: &str, connection: Option<u64>, members: Map<String, Value>, text: &str) {
        if !self.json {
            match connection {
                Some(number) => eprintln!("carrick: connection {number}: {text}"),
                None => eprintln!("carrick: {text}"),
            }
            return;
        }
        let mut line = json!({ "kind": kind, "text": text });
        if let Some(line) = line.as_object_mut() {
            if let Some(number) = connection {
                line.insert("connection".into(), number.into());
            }
            line.extend(members);
        }
        eprintln!("{line}");
    }
}
