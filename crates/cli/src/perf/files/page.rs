//! The report: one HTML page without scripts, with its figures in it.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use carrick::PeerText;
use carrick_figures::{PAGE_STYLE, STYLE};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures::{AssociationResults, figures};
use super::series::MeasurementSeries;
use crate::failure::Failure;
use crate::files;
use crate::perf::results::{FlowAmount, FlowResult};
use crate::units::decimal_prefix;

/// Headings of the table of results; times are in ms.
const HEADINGS: [&str; 10] = [
    "flow",
    "messages",
    "bytes",
    "lost",
    "rate",
    "interruption",
    "p50",
    "p99",
    "p99.99",
    "max",
];

/// Styles of this page.
const OWN_STYLE: &str = "tbody th code { overflow-wrap: anywhere; } pre { margin: 0; padding: 8px 12px; white-space: pre-wrap; }";

/// Report that is written at the end of a measurement.
#[derive(Debug)]
pub(super) struct ReportPage {
    path: PathBuf,
    started: SystemTime,
    /// Length of the intervals in seconds.
    interval: f64,
    /// Random seed of the flows.
    pub(super) seed: Option<u64>,
    pub(super) peer: String,
    /// Host and version of the server, as it states them.
    pub(super) server: String,
    pub(super) remarks: Vec<String>,
    pub(super) results: Vec<AssociationResults>,
    /// Results as text.
    pub(super) texts: Vec<String>,
}

impl ReportPage {
    /// Prepares the report. An error names what would prevent it at the end.
    pub(super) fn new(path: PathBuf, interval: f64) -> Result<Self, Failure> {
        files::check_appended(&path)
            .map_err(|error| Failure::Run(format!("--report: {} {error}", path.display())))?;
        Ok(Self {
            path,
            started: SystemTime::now(),
            interval,
            seed: None,
            peer: String::new(),
            server: String::new(),
            remarks: Vec::new(),
            results: Vec::new(),
            texts: Vec::new(),
        })
    }

    /// Writes the report of a measurement that ended for this reason, if it was not complete.
    pub(super) fn write(
        &self,
        series: &MeasurementSeries,
        reason: Option<&str>,
    ) -> Result<(), Failure> {
        let page = self.html(series, reason).into_string();
        fs::write(&self.path, page).map_err(|error| {
            let path = self.path.display();
            Failure::Run(format!("--report: cannot write {path}: {error}"))
        })
    }

    fn html(&self, series: &MeasurementSeries, reason: Option<&str>) -> Markup {
        let title = format!("Measurement with {}", self.peer);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(PAGE_STYLE)) (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
                }
                body {
                    h1 { (title) }
                    @if let Some(reason) = reason {
                        p { b { "The measurement is not complete: " } (reason) "." }
                    }
                    (self.circumstances())
                    h2 { "Results" }
                    p {
                        "Longest interruption between two messages, and quantiles of the one-way delay, of responses of the response \
                         time, in ms. Lost messages were abandoned by their sender; lost responses are requests without one."
                    }
                    (self.table())
                    (sentences(series))
                    div.figures {
                        @for figure in figures(series, &self.results, self.interval) {
                            figure id=(figure.id) {
                                (PreEscaped(figure.to_svg(false)))
                                figcaption { b { (figure.title) } (figure.caption) }
                            }
                        }
                    }
                    h2 { "Output" }
                    @for text in &self.texts { div.scroll { pre { (text) } } }
                }
            }
        }
    }

    fn circumstances(&self) -> Markup {
        let date = humantime::format_rfc3339_seconds(self.started);
        html! {
            p { "Command: " code { (command()) } }
            ul {
                li { "Client: " (host_text()) }
                @if !self.server.is_empty() {
                    li { "Server: " (PeerText::new(&self.server).to_string()) }
                }
                li { "Start: " (date.to_string()) }
                @if let Some(seed) = self.seed { li { "Random seed: " (seed) } }
                @for remark in &self.remarks { li { b { (remark) "." } } }
                li {
                    "Intervals of " (self.interval) " s. Times are in seconds since the start of the side that has measured them. The \
                     clocks of both sides are compared before the transfer; the error of one-way delays is in the output below."
                }
            }
        }
    }

    fn table(&self) -> Markup {
        let is_parallel = self.results.len() > 1;
        html! {
            div.scroll {
                table.split {
                    thead { tr { @for heading in HEADINGS { th scope="col" { (heading) } } } }
                    tbody {
                        @for (association, flows) in &self.results {
                            @for flow in flows {
                                @let name = name(is_parallel.then_some(*association), flow);
                                @if let Some(data) = &flow.data { (row(&name, &flow.spec, data)) }
                                @if let Some(responses) = &flow.responses {
                                    (row(&format!("{name}, responses"), "", responses))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn name(association: Option<u64>, flow: &FlowResult) -> String {
    let number = match association {
        Some(association) => format!("association {association}, flow {}", flow.flow),
        None => format!("flow {}", flow.flow),
    };
    format!("{number} to {}", flow.direction.receiver())
}

fn row(name: &str, spec: &str, amount: &FlowAmount) -> Markup {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1000.0);
    let delay = |of: fn(&crate::perf::delay::DelaySummary) -> f64| {
        let delay = amount.delay.as_ref();
        delay.map_or_else(|| "–".to_owned(), |own| ms(of(own)))
    };
    let rate = decimal_prefix(amount.rate.bits_per_second());
    let bytes = decimal_prefix(amount.rate.bytes() as f64);
    let values = [
        amount.rate.messages().to_string(),
        format!("{bytes}B"),
        amount.lost.to_string(),
        format!("{rate}bit/s"),
        ms(amount.longest_interruption),
        delay(|d| d.p50),
        delay(|d| d.p99),
        delay(|d| d.p99_99),
        delay(|d| d.max),
    ];
    html! {
        tr {
            th scope="row" {
                (name)
                @if !spec.is_empty() { br; code { (spec) } }
            }
            @for (heading, value) in HEADINGS.iter().skip(1).zip(values) {
                td.number data-part=(heading) { (value) }
            }
        }
    }
}

/// Returns the sentences about what has no figure.
fn sentences(series: &MeasurementSeries) -> Markup {
    let points = || series.senders.values().flat_map(|own| own.points());
    let paths: Vec<_> = series.paths().into_iter().collect();
    let is_stable = points().all(|point| point.path_changes == 0);
    html! {
        @if points().all(|point| point.retransmissions == 0) {
            p { "No interval has a retransmitted DATA chunk." }
        }
        @if let ([path], true) = (&paths[..], is_stable) {
            p { "All data was sent to " (path) "; the path did not change." }
        }
    }
}

/// Returns the command line, with quotes where a shell needs them.
fn command() -> String {
    let quoted = |argument: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./%@+[]".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            return argument;
        }
        format!("'{}'", argument.replace('\'', "'\\''"))
    };
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| quoted(argument.to_string_lossy().into_owned()));
    let all: Vec<_> = std::iter::once("carrick".to_owned())
        .chain(arguments)
        .collect();
    all.join(" ")
}

/// Returns the name, version and system of this host.
pub(crate) fn host_text() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let Ok(system) = nix::sys::utsname::uname() else {
        return format!("carrick {version}");
    };
    let text = |own: &std::ffi::OsStr| own.to_string_lossy().into_owned();
    format!(
        "{}, carrick {version}, {} {} {}",
        text(system.nodename()),
        text(system.sysname()),
        text(system.release()),
        text(system.machine())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::files::MeasurementSide;
    use crate::perf::files::figures::tests::{flow_result, interval};
    use crate::perf::request::tests::request_of;

    fn page() -> ReportPage {
        ReportPage {
            path: PathBuf::new(),
            started: SystemTime::UNIX_EPOCH,
            interval: 1.0,
            seed: Some(7),
            peer: "192.0.2.1 port 5201".into(),
            server: "<b>host</b>\u{1b}[2J".into(),
            remarks: Vec::new(),
            results: vec![(1, vec![flow_result(1, "stream=1,size=<9>")])],
            texts: vec!["[1] to server & back".into()],
        }
    }

    #[test]
    fn the_page_needs_no_network_and_no_script() {
        let mut series = MeasurementSeries::default();
        let request = request_of(&["stream=1"]);
        for second in 0..5 {
            let interval = interval(second, "192.0.2.1", 0);
            series.interval((1, MeasurementSide::Server), &request, &interval);
            series.interval((1, MeasurementSide::Client), &request, &interval);
        }
        let html = page().html(&series, None).into_string();
        for foreign in ["<script", "http:", "https:", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        // Texts of the command line and of the peer are no markup.
        assert!(html.contains("stream=1,size=&lt;9&gt;"), "{html}");
        assert!(html.contains("&lt;b&gt;host") && !html.contains('\u{1b}'));
        assert!(html.contains("[1] to server &amp; back"));
        assert!(html.contains("1970-01-01T00:00:00Z"));
        assert!(html.contains("Random seed: 7"));
        assert!(html.contains("No interval has a retransmitted DATA chunk"));
        assert!(html.contains("All data was sent to 192.0.2.1; the path did not change"));
        assert!(!html.contains("not complete"));
        assert!(html.matches("<svg class=\"fig\"").count() >= 3, "{html}");
    }

    #[test]
    fn an_incomplete_measurement_has_its_reason() {
        let html = page().html(&MeasurementSeries::default(), Some("the peer <aborted>"));
        let html = html.into_string();
        assert!(
            html.contains("not complete: </b>the peer &lt;aborted&gt;."),
            "{html}"
        );
    }
}
