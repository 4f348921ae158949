//! Event log: what endpoints decide, as lines of JSON (feature `event-log`).
//!
//! The first line describes the file, each further one is an event, with names of qlog's events:
//!
//! ```json
//! {"schema":"carrick-events","version":1,"reference_time":1764421000000,"time_unit":"ms"}
//! {"time":3271.4,"trace":"0-0.0","name":"path:error","data":{"path":0,"cause":"T3-rtx expired","error_count":1}}
//! ```
//!
//! `time` is relative to `reference_time`, milliseconds since 1970; `trace` names the association: the number of its
//! endpoint in this log and its own. The events and their fields are those of [`ObservedEvent`]; durations are in s.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use carrick_proto::{AssociationId, ObservedDetail, ObservedEvent, ObservedValue, Observer, Time};
use serde_json::{Map, Number, Value};

use crate::end_reason::end_reason;

/// Default limit of a log's length in bytes.
const LIMIT: u64 = 1 << 28;

/// Log of what endpoints decide, as lines of JSON. Clones write to the same log.
///
/// It ends with a line `log:full` when it reaches its limit, 256 MiB by default, and with the first error of the
/// file, which [`Self::failure`] returns. A line is written when an association begins or ends, or a path changes its
/// state; before that, lines may wait in a buffer of the writer. Logs are equal if they write to the same place.
#[derive(Clone, Debug)]
pub struct EventLog {
    file: Arc<Mutex<LogFile>>,
    detail: ObservedDetail,
}

impl PartialEq for EventLog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.detail == other.detail
    }
}

impl Eq for EventLog {}

/// File of a log.
struct LogFile {
    out: Box<dyn Write + Send>,
    /// Bytes until the limit.
    left: u64,
    begun: Instant,
    /// Number of endpoints that have been observed.
    endpoints: u64,
    /// First error of the writer, or that the log is full.
    end: Option<LogEnd>,
}

/// Reason why a log has no further lines.
enum LogEnd {
    Full,
    Failed(io::Error),
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFile")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl EventLog {
    /// Begins a log of the decisions, [`ObservedDetail::Decision`].
    ///
    /// # Errors
    /// The first line could not be written.
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let reference = since_epoch.unwrap_or_default().as_millis() as u64;
        let mut file = LogFile {
            out: Box::new(out),
            left: LIMIT,
            begun: Instant::now(),
            endpoints: 0,
            end: None,
        };
        file.write(format!(
            r#"{{"schema":"carrick-events","version":1,"reference_time":{reference},"time_unit":"ms"}}"#
        ));
        file.out.flush()?;
        match file.end {
            Some(LogEnd::Failed(error)) => Err(error),
            _ => Ok(Self {
                file: Arc::new(Mutex::new(file)),
                detail: ObservedDetail::Decision,
            }),
        }
    }

    /// Sets the level of the events that are logged. [`ObservedDetail::Chunk`] has several events for each packet.
    #[must_use]
    pub fn detail(mut self, detail: ObservedDetail) -> Self {
        self.detail = detail;
        self
    }

    /// Limits the length of the log to what it has now and this many bytes more.
    #[must_use]
    pub fn limit(self, bytes: u64) -> Self {
        self.lock().left = bytes;
        self
    }

    /// Returns the error of the writer that ended the log; `None` while there is none.
    pub fn failure(&self) -> Option<String> {
        match &self.lock().end {
            Some(LogEnd::Failed(error)) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Returns an observer for one endpoint, whatever its clock is.
    pub fn observer(&self) -> Arc<dyn Observer> {
        let mut file = self.lock();
        let endpoint = file.endpoints;
        file.endpoints += 1;
        Arc::new(EndpointLog {
            log: self.clone(),
            endpoint,
            ahead: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    /// Writes a line, unless the log has ended.
    fn write(&mut self, mut line: String) {
        if self.end.is_some() {
            return;
        }
        if line.len() as u64 >= self.left {
            line = r#"{"name":"log:full"}"#.into();
            self.end = Some(LogEnd::Full);
        }
        line.push('\n');
        self.left = self.left.saturating_sub(line.len() as u64);
        if let Err(error) = self.out.write_all(line.as_bytes()) {
            self.end = Some(LogEnd::Failed(error));
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.out.flush()
            && self.end.is_none()
        {
            self.end = Some(LogEnd::Failed(error));
        }
    }
}

/// Observer of one endpoint, which writes to a log.
#[derive(Debug)]
struct EndpointLog {
    log: EventLog,
    endpoint: u64,
    /// Time of the log at the endpoint's time 0, in s, by its first event.
    ahead: OnceLock<f64>,
}

impl EndpointLog {
    /// Returns the name of an association of the endpoint in this log.
    fn trace_of(&self, association: AssociationId) -> String {
        format!("{}-{association}", self.endpoint)
    }
}

impl Observer for EndpointLog {
    fn detail(&self) -> ObservedDetail {
        self.log.detail
    }

    fn trace(&self, association: AssociationId) -> Option<String> {
        Some(self.trace_of(association))
    }

    fn observe(&self, association: AssociationId, time: Time, event: &ObservedEvent) {
        let detail = event.detail();
        if detail > self.log.detail {
            return;
        }
        let time = time.as_secs_f64();
        let ahead = self
            .ahead
            .get_or_init(|| self.log.lock().begun.elapsed().as_secs_f64() - time);
        let mut data = Map::new();
        event.visit(&mut |name, value| {
            let value = match value {
                ObservedValue::Number(number) => number.into(),
                ObservedValue::Duration(duration) => decimal(duration.as_secs_f64()),
                ObservedValue::Flag(flag) => flag.into(),
                ObservedValue::Text(text) => text.to_string().into(),
                other => other.to_string().into(),
            };
            data.insert(name.into(), value);
        });
        if let Some(reason) = end_reason(event) {
            data.insert("reason".into(), reason.into());
        }
        // Microseconds are finer than the clocks of endpoints; the members have the order of the page.
        let time = ((ahead + time) * 1e6).round() / 1e3;
        let line = format!(
            r#"{{"time":{time},"trace":"{}","name":"{}","data":{}}}"#,
            self.trace_of(association),
            event.name(),
            Value::Object(data),
        );
        let mut file = self.log.lock();
        file.write(line);
        if detail == ObservedDetail::Association {
            file.flush();
        }
    }
}

fn decimal(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use carrick_proto::{AbortCause, CloseReason, Event};
    use serde_json::json;

    use super::*;

    /// Writer whose bytes a test reads, and which fails once it has this many.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>, Option<usize>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.0.lock().unwrap();
            if self.1.is_some_and(|most| all.len() + bytes.len() > most) {
                return Err(io::Error::other("no space"));
            }
            all.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn lines(&self) -> Vec<Value> {
            let all = self.0.lock().unwrap();
            let lines = std::str::from_utf8(&all).unwrap().lines();
            lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        }
    }

    fn observe(observer: &Arc<dyn Observer>, nanos: u64, event: &ObservedEvent) -> AssociationId {
        let config = carrick_proto::EndpointConfig::new(1, vec![[127, 0, 0, 1].into()], [1; 32]);
        let mut core = carrick_proto::Endpoint::new(config).unwrap();
        let peer = [[127, 0, 0, 2].into()];
        let options = carrick_proto::AssociationConfig::default();
        let id = core.connect(Time::ZERO, &peer, 2, None, options).unwrap();
        observer.observe(id, Time::from_nanos(nanos), event);
        id
    }

    const BEGUN: ObservedEvent = ObservedEvent::Begun {
        local_port: 1,
        peer_port: 2,
        accepted: true,
    };

    #[test]
    fn lines_have_time_trace_name_and_data() {
        let written = Written::default();
        let log = EventLog::new(written.clone()).unwrap();
        let observers = [log.observer(), log.observer()];
        observe(&observers[0], 5_000_000_000, &BEGUN);
        observe(&observers[0], 5_250_000_000, &BEGUN);
        let id = observe(&observers[1], 7, &BEGUN);
        assert_eq!(observers[1].trace(id).as_deref(), Some("1-0.0"));
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let first = text.lines().nth(1).unwrap();
        assert!(first.starts_with(r#"{"time":"#), "{first}");
        let lines = written.lines();
        assert_eq!(lines[0]["schema"], "carrick-events");
        assert_eq!(lines[1]["name"], "association:begun");
        let data = json!({ "local_port": 1, "peer_port": 2, "accepted": true });
        assert_eq!(lines[1]["data"], data);
        let traces: Vec<_> = lines[1..].iter().map(|line| &line["trace"]).collect();
        assert_eq!(traces, ["0-0.0", "0-0.0", "1-0.0"]);
        let time = |line: &Value| line["time"].as_f64().unwrap();
        let interval = time(&lines[2]) - time(&lines[1]);
        assert!((interval - 250.0).abs() < 2e-3, "{interval}");
    }

    #[test]
    fn single_chunks_are_logged_on_request() {
        let received = ObservedEvent::ChunkReceived {
            tsn: carrick_proto::Tsn::new(7),
        };
        for (detail, count) in [(ObservedDetail::Decision, 1), (ObservedDetail::Chunk, 2)] {
            let written = Written::default();
            let log = EventLog::new(written.clone()).unwrap().detail(detail);
            observe(&log.observer(), 0, &received);
            assert_eq!(written.lines().len(), count);
        }
    }

    #[test]
    fn a_full_log_ends_with_a_line() {
        let written = Written::default();
        let log = EventLog::new(written.clone()).unwrap().limit(300);
        let observer = log.observer();
        for _ in 0..10 {
            observe(&observer, 0, &BEGUN);
        }
        let lines = written.lines();
        assert!((3..8).contains(&lines.len()), "{}", lines.len());
        assert_eq!(lines.last().unwrap()["name"], "log:full");
        assert_eq!(log.failure(), None);
    }

    #[test]
    fn an_error_of_the_writer_ends_the_log() {
        let written = Written(Arc::default(), Some(250));
        let log = EventLog::new(written.clone()).unwrap();
        let observer = log.observer();
        for _ in 0..10 {
            observe(&observer, 0, &BEGUN);
        }
        assert_eq!(log.failure().as_deref(), Some("no space"));
        assert!(EventLog::new(Written(Arc::default(), Some(10))).is_err());
    }

    /// The page lists each reason of an end, by its label in metrics and its words in both logs, and no other.
    #[test]
    fn the_page_has_every_reason() {
        let page = include_str!("../../../../docs/event-log.md");
        let (_, section) = page.split_once("## Reasons of an end").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<(&str, &str)> = rows
            .map(|row| {
                let mut cells = row.split('`').skip(1).step_by(2);
                (cells.next().unwrap(), cells.next().unwrap())
            })
            .collect();
        let none = AbortCause::NONE;
        let reasons = [
            CloseReason::Shutdown,
            CloseReason::AbortedByUser,
            CloseReason::AbortedByPeer(none.clone()),
            CloseReason::AbortedByProtocol(none.clone()),
            CloseReason::SetupTimedOut,
            CloseReason::StaleCookie,
            CloseReason::PeerUnreachable,
            CloseReason::ShutdownTimedOut,
            CloseReason::ProtocolUnreachable,
            CloseReason::LowerLayerLost,
            CloseReason::AlreadyConnected,
        ];
        assert_eq!(
            (rows.len(), reasons.len()),
            (CloseReason::NAMES.len(), rows.len())
        );
        for (reason, row) in reasons.into_iter().zip(rows) {
            let label = CloseReason::NAMES[reason.index().unwrap()];
            let event = ObservedEvent::Notified(Event::Closed(reason));
            let words = end_reason(&event)
                .unwrap()
                .replace(&none.to_string(), "CAUSE");
            assert_eq!(row, (label, &*words));
            // The line of the log has the same words.
            let written = Written::default();
            let log = EventLog::new(written.clone()).unwrap();
            observe(&log.observer(), 0, &event);
            let line = &written.lines()[1];
            assert_eq!(
                line["data"]["reason"],
                words.replace("CAUSE", &none.to_string())
            );
        }
    }

    /// The page lists each event by its name, and no other.
    #[test]
    fn the_page_has_every_name() {
        let names = |text: &str, quote: char| -> BTreeSet<String> {
            let parts = text.split(quote).map(str::to_owned);
            let is_name = |part: &String| {
                let known =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ":-".contains(c);
                part.contains(':') && !part.contains("::") && part.chars().all(known)
            };
            parts.filter(is_name).collect()
        };
        let source = include_str!("../../proto/src/observer/fields.rs");
        let mut expected = names(source, '"');
        expected.insert("log:full".into());
        assert_eq!(
            names(include_str!("../../../../docs/event-log.md"), '`'),
            expected
        );
    }
}
