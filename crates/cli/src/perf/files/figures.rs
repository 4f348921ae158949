//! Figures of the report.

use std::net::IpAddr;

use carrick_figures::figure::{Axis, Figure, Point, Scale, Series, SeriesKind};

use super::MeasurementSide;
use super::series::{
    BoundedSeries, DelayPoint, FlowKey, FlowPoint, MeasurementSeries, MergedPoint,
};
use crate::perf::delay::quantile_levels;
use crate::perf::results::{FlowAmount, FlowResult};

/// Maximum number of series in a figure, which has as many styles.
const MAX_IN_FIGURE: usize = 8;

/// Longest name of a path at an axis.
const LONG_NAME: usize = 16;

/// Results of an association with its number.
pub(super) type AssociationResults = (u64, Vec<FlowResult>);

/// Returns the figures with data.
pub(super) fn figures(
    series: &MeasurementSeries,
    results: &[AssociationResults],
    interval: f64,
) -> Vec<Figure> {
    let names = FlowNames::new(series);
    let all = [
        Some(rate(series, &names, interval)),
        delay_over_time(&series.data, &names, &DelayTexts::DELAY),
        delay_over_time(&series.responses, &names, &DelayTexts::RESPONSE_TIME),
        distribution(results, &names, &DelayTexts::DELAY, |flow| &flow.data),
        distribution(results, &names, &DelayTexts::RESPONSE_TIME, |flow| {
            &flow.responses
        }),
        paths(series, &names),
        retransmissions(series, &names),
    ];
    all.into_iter().flatten().collect()
}

/// Names of flows in legends, and their styles.
pub(super) struct FlowNames {
    several_associations: bool,
    several_flows: bool,
    /// Flows in their order, which determines their styles.
    flows: Vec<FlowKey>,
}

impl FlowNames {
    fn new(series: &MeasurementSeries) -> Self {
        Self {
            several_associations: series.data.keys().any(|(association, _)| *association > 1),
            several_flows: series.data.keys().any(|(_, flow)| *flow > 1),
            flows: series.data.keys().copied().collect(),
        }
    }

    /// Returns whether the measurement has a single flow.
    fn is_single(&self) -> bool {
        !self.several_associations && !self.several_flows
    }

    /// Returns the styles of the first flows of a figure.
    fn styles(&self, shown: impl IntoIterator<Item = FlowKey>) -> Vec<usize> {
        styles(shown.into_iter().map(|key| {
            let place = self.flows.iter().position(|own| *own == key);
            place.unwrap_or_default()
        }))
    }

    fn flow(&self, (association, flow): FlowKey) -> String {
        let number = if self.several_flows {
            format!("flow {flow}")
        } else {
            "data".into()
        };
        self.association(association, &number)
    }

    fn association(&self, association: u64, what: &str) -> String {
        if self.several_associations {
            format!("{association}: {what}")
        } else {
            what.into()
        }
    }
}

/// Returns the styles of series with these places: that of the place, which each figure has, or the next one that no
/// series before has.
fn styles(places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut styles = Vec::new();
    for place in places.take(MAX_IN_FIGURE) {
        let candidates = (place..place + MAX_IN_FIGURE).map(|own| own % MAX_IN_FIGURE);
        let free = candidates.into_iter().find(|own| !styles.contains(own));
        styles.push(free.unwrap_or_default());
    }
    styles
}

/// Returns the sentence about series that are left out.
fn left_out(series: usize) -> String {
    match series.saturating_sub(MAX_IN_FIGURE) {
        0 => String::new(),
        more => {
            format!(" The first {MAX_IN_FIGURE} are shown; {more} more are in the file of --csv.")
        }
    }
}

/// Returns the prefix and factor for values up to this one.
fn prefix(max: f64) -> (&'static str, f64) {
    match max {
        max if max >= 1e9 => ("G", 1e9),
        max if max >= 1e6 => ("M", 1e6),
        max if max >= 1e3 => ("k", 1e3),
        _ => ("", 1.0),
    }
}

fn rate(series: &MeasurementSeries, names: &FlowNames, interval: f64) -> Figure {
    let longest = |points: &[FlowPoint]| points.iter().any(|own| own.has_rate(interval));
    let shown = |own: &BoundedSeries<FlowPoint>| {
        let has_long = longest(own.points());
        own.values(|p| (!has_long || p.has_rate(interval)).then(|| p.bits_per_second()))
    };
    let all: Vec<_> = series
        .data
        .iter()
        .map(|(key, own)| (*key, shown(own)))
        .collect();
    let max = all
        .iter()
        .flat_map(|(_, points)| points)
        .map(|(_, rate)| *rate);
    // `max` ignores what is no number.
    let (prefix, factor) = prefix(max.fold(0.0, f64::max));
    let lines = all
        .iter()
        .zip(names.styles(all.iter().map(|(key, _)| *key)))
        .map(|((key, points), style)| {
            let points = points
                .iter()
                .map(|(time, rate)| Point::new(*time, rate / factor));
            Series::new(names.flow(*key), SeriesKind::Line, style, points.collect())
        });
    Figure {
        id: "rate".into(),
        title: "Rate received".into(),
        caption: format!(
            "User data that the receiver has read, in each interval, at its middle.{}",
            left_out(all.len())
        ),
        x: Axis::linear("time", "s"),
        y: Axis::linear("rate", &format!("{prefix}bit/s")).from(0.0),
        series: lines.collect(),
        references: Vec::new(),
    }
}

/// Texts of a figure of delays.
struct DelayTexts {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    axis: &'static str,
    distribution: &'static str,
    distribution_title: &'static str,
}

impl DelayTexts {
    const DELAY: Self = Self {
        id: "delay",
        title: "One-way delay over time",
        caption: "From the hand-over to SCTP until the receiver has read the message, of the messages of each interval. Lines are \
                  interrupted in intervals without messages.",
        axis: "delay",
        distribution: "distribution",
        distribution_title: "Distribution of delays",
    };
    const RESPONSE_TIME: Self = Self {
        id: "response-time",
        title: "Response time over time",
        caption: "From the hand-over of the request to SCTP until the requester has read the response, of the responses of each \
                  interval. Lines are interrupted in intervals without responses.",
        axis: "response time",
        distribution: "response-distribution",
        distribution_title: "Distribution of response times",
    };
}

fn delay_over_time<'a>(
    flows: impl IntoIterator<Item = (&'a FlowKey, &'a BoundedSeries<FlowPoint>)>,
    names: &FlowNames,
    texts: &DelayTexts,
) -> Option<Figure> {
    let has_delay = |own: &BoundedSeries<FlowPoint>| own.points().iter().any(|p| p.delay.is_some());
    let flows: Vec<_> = flows
        .into_iter()
        .filter(|(_, own)| has_delay(own))
        .collect();
    let line =
        |label: String, style, own: &BoundedSeries<FlowPoint>, of: fn(&DelayPoint) -> f64| {
            // An interval without messages interrupts the line.
            let points = own.values(|p| {
                let delay = p.delay.as_ref();
                Some(delay.map_or(f64::NAN, |delay| of(delay) * 1000.0))
            });
            let points = points.into_iter().map(|(time, ms)| Point::new(time, ms));
            Series::new(label, SeriesKind::Line, style, points.collect())
        };
    let (series, what): (Vec<Series>, &str) = match flows[..] {
        [] => return None,
        [(_, own)] if names.is_single() => {
            let all = [
                line("max".into(), 1, own, |d| d.max),
                line("p99".into(), 2, own, |d| d.p99),
                line("mean".into(), 0, own, |d| d.mean),
            ];
            (all.into(), "")
        }
        _ => {
            let styles = names.styles(flows.iter().map(|(key, _)| **key));
            let shown = flows.iter().zip(styles);
            let all =
                shown.map(|((key, own), style)| line(names.flow(**key), style, own, |d| d.p99));
            (all.collect(), " The lines are the 99 % quantiles.")
        }
    };
    Some(Figure {
        id: texts.id.into(),
        title: texts.title.into(),
        caption: format!("{}{what}{}", texts.caption, left_out(flows.len())),
        x: Axis::linear("time", "s"),
        y: Axis::linear(texts.axis, "ms").from(0.0),
        series,
        references: Vec::new(),
    })
}

/// Returns the share of messages whose delay, or of responses whose time, exceeds each value.
fn distribution(
    results: &[AssociationResults],
    names: &FlowNames,
    texts: &DelayTexts,
    of: fn(&FlowResult) -> &Option<FlowAmount>,
) -> Option<Figure> {
    let mut lines = Vec::new();
    for (association, flows) in results {
        for flow in flows {
            let amount = of(flow);
            let Some(delay) = amount.as_ref().and_then(|own| own.delay) else {
                continue;
            };
            let distribution = amount.iter().flat_map(|own| &own.distribution);
            // A sample has no quantiles beyond its size.
            let least = 0.5 / delay.messages.max(1) as f64;
            let points = quantile_levels().zip(distribution);
            let points = points.map(|(level, seconds)| Point::new(seconds * 1000.0, 1.0 - level));
            let points: Vec<_> = points.filter(|p| p.y > least && p.x > 0.0).collect();
            if points.len() > 1 {
                lines.push(((*association, flow.flow), points));
            }
        }
    }
    let count = lines.len();
    let styles = names.styles(lines.iter().map(|(key, _)| *key));
    let lines: Vec<_> = lines
        .into_iter()
        .zip(styles)
        .map(|((key, points), style)| Series::new(names.flow(key), SeriesKind::Line, style, points))
        .collect();
    let logarithmic = |label, unit| Axis {
        scale: Scale::Log,
        ..Axis::linear(label, unit)
    };
    let all = || lines.iter().flat_map(|own| &own.points);
    let ends = |value: fn(&Point) -> f64| {
        let (low, high) = (
            all().map(value).fold(f64::MAX, f64::min),
            all().map(value).fold(0.0, f64::max),
        );
        // A single value has an axis, too.
        (low, high.max(low * 1.1))
    };
    let ((x_min, x_max), (y_min, _)) = (ends(|p| p.x), ends(|p| p.y));
    (!lines.is_empty()).then(|| Figure {
        id: texts.distribution.into(),
        title: texts.distribution_title.into(),
        caption: format!(
            "Share of the messages whose {} exceeds a value (complementary distribution), to 0.0001, the 99.99 % quantile, \
             as far as the number of messages permits.{}",
            texts.axis,
            left_out(count)
        ),
        x: logarithmic(texts.axis, "ms").range(x_min, x_max),
        y: logarithmic("share of messages above", "").range(10_f64.powf((y_min * 1.001).log10().floor()), 1.0),
        series: lines,
        references: Vec::new(),
    })
}

/// Returns the name of a path at an axis.
fn path_name(number: usize, path: &IpAddr) -> String {
    let address = path.to_string();
    if address.len() > LONG_NAME {
        format!("path {number}")
    } else {
        address
    }
}

fn paths(series: &MeasurementSeries, names: &FlowNames) -> Option<Figure> {
    let paths: Vec<IpAddr> = series.paths().into_iter().collect();
    let place = |path: IpAddr| paths.iter().position(|own| *own == path);
    let changes = series.senders.values().flat_map(|own| own.points());
    let changes: u64 = changes.map(|point| point.path_changes).sum();
    if paths.len() < 2 && changes == 0 {
        return None;
    }
    let (mut lines, mut marks) = (Vec::new(), Vec::new());
    for (style, ((association, side), own)) in
        series.senders.iter().take(MAX_IN_FIGURE - 1).enumerate()
    {
        let placed = own.points().iter();
        let placed: Vec<_> = placed
            .filter_map(|p| Some((p, place(p.path?)? as f64 + 1.0)))
            .collect();
        let point = |(p, y): &(&super::series::SenderPoint, f64)| Point::new(p.time(), *y);
        let name = names.association(*association, &format!("from {}", side.name()));
        lines.push(Series::new(
            name,
            SeriesKind::Step,
            style,
            placed.iter().map(point).collect(),
        ));
        marks.extend(placed.iter().filter(|(p, _)| p.path_changes > 0).map(point));
    }
    lines.push(Series::new(
        "path change",
        SeriesKind::Points,
        MAX_IN_FIGURE - 1,
        marks,
    ));
    let numbered = || (1..).zip(&paths);
    let labels: Vec<_> = numbered()
        .map(|(number, path)| path_name(number, path))
        .collect();
    let long = numbered().filter(|(_, path)| path.to_string().len() > LONG_NAME);
    let long: Vec<_> = long
        .map(|(number, path)| format!(" Path {number}: {path}."))
        .collect();
    Some(Figure {
        id: "paths".into(),
        title: "Path of new data".into(),
        caption: format!(
            "That at the end of each interval, drawn at its middle; intervals in which another path began to carry new data are marked.{}",
            long.concat()
        ),
        x: Axis::linear("time", "s"),
        y: Axis::named("path", &labels),
        series: lines,
        references: Vec::new(),
    })
}

fn retransmissions(series: &MeasurementSeries, names: &FlowNames) -> Option<Figure> {
    let all = series.senders.iter().enumerate();
    let all: Vec<_> = all
        .filter(|(_, (_, own))| own.points().iter().any(|p| p.retransmissions > 0))
        .collect();
    let styles = styles(all.iter().map(|(place, _)| *place));
    let lines = all.iter().zip(styles);
    let lines = lines.map(|((_, ((association, side), own)), style)| {
        let points = own.values(|p| Some(p.retransmissions as f64));
        let points = points.into_iter().map(|(time, n)| Point::new(time, n));
        let name = names.association(
            *association,
            &format!("from {}", MeasurementSide::name(*side)),
        );
        Series::new(name, SeriesKind::Line, style, points.collect())
    });
    (!all.is_empty()).then(|| Figure {
        id: "retransmissions".into(),
        title: "Retransmissions".into(),
        caption: format!(
            "DATA chunks sent again in each interval, at its middle.{}",
            left_out(all.len())
        ),
        x: Axis::linear("time", "s"),
        y: Axis::linear("chunks", "").from(0.0),
        series: lines.collect(),
        references: Vec::new(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::perf::delay::DelaySummary;
    use crate::perf::interval::{FlowInterval, Interval, Rate};
    use crate::perf::protocol::{FlowMessages, FlowReception, TransferAmount};
    use crate::perf::request::tests::request_of;

    const DELAY: DelaySummary = DelaySummary {
        messages: 10,
        min: 0.001,
        mean: 0.002,
        p50: 0.002,
        p90: 0.003,
        p99: 0.004,
        p99_9: 0.005,
        p99_99: 0.006,
        max: 0.007,
    };

    /// Returns an interval of a second in which 1250 bytes of a flow were sent or received.
    pub(in crate::perf::files) fn interval(second: u32, path: &str, path_changes: u64) -> Interval {
        let amount = TransferAmount {
            bytes: 1250,
            messages: 10,
        };
        let flow = FlowInterval {
            flow: 1,
            sent: amount,
            received: amount,
            delay: Some(DELAY),
            responses: TransferAmount::default(),
            response_time: None,
        };
        let rate = Rate::new(amount, 1.0);
        Interval {
            start: second.into(),
            end: (second + 1).into(),
            omitted: false,
            sent: rate,
            received: rate,
            delay: None,
            retransmissions: 0,
            path_changes,
            path: Some(path.parse().unwrap()),
            cwnd: 4380,
            srtt: None,
            flows: vec![flow],
        }
    }

    /// Returns the result of a flow whose delays are 1 ms at the lowest quantile and 38 ms at the highest.
    pub(in crate::perf::files) fn flow_result(messages: u64, spec: &str) -> FlowResult {
        let reception = FlowReception {
            flow: 1,
            of: FlowMessages::Data,
            amount: TransferAmount {
                bytes: 100 * messages,
                messages,
            },
            seconds: 1.0,
            lost: 0,
            longest_interruption: 0.5,
            delay: Some(DelaySummary { messages, ..DELAY }),
            distribution: (1..=38).map(|ms| f64::from(ms) / 1000.0).collect(),
        };
        let mut flow = request_of(&["stream=1"]).flows();
        spec.clone_into(&mut flow[0].spec);
        FlowResult::all(&flow, &[&reception]).remove(0)
    }

    /// Returns the series of a client that sends, whose path fails after 3 s.
    fn series() -> MeasurementSeries {
        let mut series = MeasurementSeries::default();
        let request = request_of(&["stream=1"]);
        for second in 0..5 {
            let path = if second < 3 {
                "192.0.2.1"
            } else {
                "198.51.100.1"
            };
            let interval = interval(second, path, u64::from(second == 3));
            series.interval((1, MeasurementSide::Server), &request, &interval);
            series.interval((1, MeasurementSide::Client), &request, &interval);
        }
        series
    }

    fn named<'a>(figures: &'a [Figure], id: &str) -> &'a Figure {
        figures.iter().find(|figure| figure.id == id).unwrap()
    }

    /// 1250 bytes per second are 10 kbit/s. The client is no receiver.
    #[test]
    fn rates_and_delays_are_those_of_the_receiver() {
        let figures = figures(&series(), &[], 1.0);
        let rate = named(&figures, "rate");
        assert_eq!(rate.y.unit, "kbit/s");
        assert_eq!(rate.series.len(), 1);
        assert_eq!(rate.series[0].points.len(), 5);
        assert_eq!(rate.series[0].points[1], Point::new(1.5, 10.0));
        let delay = named(&figures, "delay");
        let values: Vec<_> = delay.series.iter().map(|own| own.points[0].y).collect();
        assert_eq!(values, [7.0, 4.0, 2.0], "maximum, p99 and mean in ms");
        assert!(figures.iter().all(|figure| figure.id != "distribution"));
    }

    #[test]
    fn failovers_are_marked_at_the_new_path() {
        let figures = figures(&series(), &[], 1.0);
        let paths = named(&figures, "paths");
        let [line, marks] = &paths.series[..] else {
            panic!("{paths:?}");
        };
        let path = |value| paths.y.name(value).unwrap();
        assert_eq!(
            (path(line.points[0].y), path(line.points[4].y)),
            ("192.0.2.1", "198.51.100.1")
        );
        assert_eq!(marks.points.len(), 1);
        assert_eq!(path(marks.points[0].y), "198.51.100.1");
        // The middle of the interval, as in the other figures.
        assert!((marks.points[0].x - 3.5).abs() < 1e-9);
    }

    /// A sample of 100 messages has no quantile beyond 99.5 %.
    #[test]
    fn distributions_end_with_their_sample() {
        let all = |messages| {
            let results = [(1, vec![flow_result(messages, "")])];
            let figures = figures(&series(), &results, 1.0);
            named(&figures, "distribution").series[0].points.clone()
        };
        let few = all(100);
        assert_eq!(few[0], Point::new(1.0, 1.0));
        assert!(few.iter().all(|point| point.y > 0.005), "{few:?}");
        let many = all(1_000_000);
        assert_eq!(many.len(), 37, "all but that of 100 %");
        let last = many[many.len() - 1];
        assert!((last.y - 0.0001).abs() < 1e-9 && (last.x - 37.0).abs() < 1e-9);
        assert!(many.is_sorted_by(|a, b| a.x < b.x && a.y > b.y));
        let results = [(1, vec![flow_result(1_000_000, "")])];
        let figures = figures(&series(), &results, 1.0);
        let least = named(&figures, "distribution").y.min.unwrap();
        assert!(
            (least - 0.0001).abs() < 1e-9,
            "the axis ends with the data: {least}"
        );
    }

    #[test]
    fn impossible_times_of_a_server_are_left_out() {
        let mut series = MeasurementSeries::default();
        let request = request_of(&["stream=1"]);
        for (start, end) in [(0.0, 1e300), (-1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0)] {
            let wrong = Interval {
                start,
                end,
                ..interval(0, "192.0.2.1", 0)
            };
            series.interval((1, MeasurementSide::Server), &request, &wrong);
        }
        assert!(series.data.is_empty());
    }

    #[test]
    fn long_addresses_are_in_the_caption() {
        assert_eq!(path_name(2, &"192.0.2.1".parse().unwrap()), "192.0.2.1");
        assert_eq!(
            path_name(2, &"2001:db8:1:2:3:4:5:6".parse().unwrap()),
            "path 2"
        );
    }

    /// Of three flows, the second one has no delays in the third second, and only the third one has responses.
    #[test]
    fn flows_have_the_same_style_in_each_figure() {
        let request = request_of(&["stream=1", "stream=1", "stream=1,respond=8"]);
        let mut series = MeasurementSeries::default();
        for second in 0..5 {
            let mut own = interval(second, "192.0.2.1", 0);
            let flow = own.flows[0];
            let numbered = (1..=3).map(|number| FlowInterval {
                flow: number,
                delay: flow
                    .delay
                    .filter(|_| number == 1 || number == 2 && second != 2),
                response_time: flow.delay.filter(|_| number == 3),
                ..flow
            });
            own.flows = numbered.collect();
            series.interval((1, MeasurementSide::Server), &request, &own);
            series.interval((1, MeasurementSide::Client), &request, &own);
        }
        let of_flow = |number, responses| {
            let mut result = flow_result(1000, "");
            result.flow = number;
            if responses {
                result.responses = result.data.take();
            }
            result
        };
        let results = [(1, vec![of_flow(2, false), of_flow(3, true)])];
        let figures = figures(&series, &results, 1.0);
        let styles = |id| {
            let series = &named(&figures, id).series;
            let styles = series.iter().map(|own| (&own.label[..], own.style));
            styles.collect::<Vec<_>>()
        };
        assert_eq!(
            styles("rate"),
            [("flow 1", 0), ("flow 2", 1), ("flow 3", 2)]
        );
        assert_eq!(styles("delay"), [("flow 1", 0), ("flow 2", 1)]);
        assert_eq!(styles("response-time"), [("flow 3", 2)]);
        assert_eq!(styles("distribution"), [("flow 2", 1)]);
        assert_eq!(styles("response-distribution"), [("flow 3", 2)]);
        let gap = &named(&figures, "delay").series[1].points;
        let is_finite: Vec<_> = gap.iter().map(|point| point.y.is_finite()).collect();
        assert_eq!(is_finite, [true, true, false, true, true]);
    }

    /// The intervals of two seconds were not received.
    #[test]
    fn missing_intervals_interrupt_a_line() {
        let request = request_of(&["stream=1"]);
        let mut series = MeasurementSeries::default();
        for second in [0, 1, 4, 5] {
            let own = interval(second, "192.0.2.1", 0);
            series.interval((1, MeasurementSide::Server), &request, &own);
        }
        let points = &figures(&series, &[], 1.0)[0].series[0].points;
        let is_finite: Vec<_> = points.iter().map(|point| point.y.is_finite()).collect();
        assert_eq!(is_finite, [true, true, false, true, true]);
    }

    #[test]
    fn styles_of_a_figure_differ() {
        assert_eq!(styles([0, 8, 3, 1].into_iter()), [0, 1, 3, 2]);
        assert_eq!(styles((5..50).map(|_| 7)), [7, 0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn figures_have_as_many_series_as_styles() {
        let mut series = MeasurementSeries::default();
        let request = request_of(&["stream=1"]);
        for association in 1..=20 {
            let interval = interval(0, "192.0.2.1", 0);
            series.interval((association, MeasurementSide::Server), &request, &interval);
        }
        let figures = figures(&series, &[], 1.0);
        for id in ["rate", "delay"] {
            let figure = named(&figures, id);
            assert_eq!(figure.series.len(), MAX_IN_FIGURE);
            assert!(figure.caption.contains("12 more are in the file of --csv"));
        }
    }
}
