//! Rendering of a figure as SVG: title and legend above, the plot, captions of the axes.

use std::fmt::Write;

use crate::axis::AxisLayout;
use crate::figure::{Figure, Point, Series, SeriesKind};
use crate::mark::mark;
use crate::paint::{self, paint};
use crate::references;
use crate::text::wrap;

const WIDTH: f64 = 520.0;
pub(crate) const PLOT_HEIGHT: f64 = 270.0;
const ROW: f64 = 20.0;
/// Width of an average letter at 15 px in common sans-serif typefaces, rounded up.
pub(crate) const LETTER: f64 = 8.2;
/// Width of a capital letter.
const CAPITAL: f64 = 10.8;
/// Width of a digit of the axes, rounded up.
const DIGIT: f64 = 9.2;
/// Letters in a title line; semi-bold letters are wider.
const TITLE: usize = 55;
const SWATCH: f64 = 30.0;
pub(crate) const MARK: f64 = 4.0;
/// Radius of marks in series of more than [`MANY`] points, where they would hide each other.
const SMALL_MARK: f64 = 2.2;
const MANY: usize = 150;
/// Width of a point of a line without neighbours.
const LONE_POINT: f64 = 5.0;
/// Half width of the end of an error bar.
const BAR: f64 = 4.0;

/// Position and axes of the plot.
pub(crate) struct Plot {
    left: f64,
    top: f64,
    pub(crate) width: f64,
    x: AxisLayout,
    pub(crate) y: AxisLayout,
}

impl Plot {
    pub(crate) fn x(&self, value: f64) -> f64 {
        self.x.place(value) * self.width
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        (1.0 - self.y.place(value)) * PLOT_HEIGHT
    }
}

pub(crate) fn draw(figure: &Figure, standalone: bool) -> String {
    let legend = legend_rows(figure);
    let title = if standalone {
        wrap(&figure.title, TITLE)
    } else {
        Vec::new()
    };
    let title_height = title.len() as f64 * ROW + if standalone { 8.0 } else { 0.0 };
    // The caption of the vertical axis is placed above it, so that no text needs to be rotated.
    let top = title_height + legend.len() as f64 * ROW + 2.0 * ROW - 2.0;
    let plot = layout(figure, top);
    let height = top + PLOT_HEIGHT + 46.0;
    let mut out = String::new();
    paint::open(&mut out, (WIDTH, height), &figure.title, standalone);
    for (i, line) in title.iter().enumerate() {
        paint::text(&mut out, "title", 8, ROW * (i + 1) as f64, line);
    }
    draw_legend(&mut out, figure, &legend, title_height);
    draw_axes(&mut out, figure, &plot);
    draw_data(&mut out, figure, &plot);
    out.push_str("</svg>");
    out
}

pub(crate) fn layout(figure: &Figure, top: f64) -> Plot {
    let points = || {
        figure
            .series
            .iter()
            .flat_map(|s| s.points.iter().filter(|p| p.is_finite()))
    };
    let y_values = points()
        .flat_map(|p| [p.y - p.error, p.y + p.error])
        // Leaves space for a label above the highest line.
        .chain(figure.references.iter().flat_map(|r| [r.y, r.y * 1.1]));
    let y = figure.y.layout(y_values, 5);
    let widest = y.ticks.iter().map(|(_, t)| t.chars().count()).max();
    let left = widest.unwrap_or(1) as f64 * LETTER + 14.0;
    let x = figure.x.layout(points().map(|p| p.x), 5);
    let last = x.ticks.last().map_or(0, |(_, t)| t.chars().count());
    let right = (last as f64 * DIGIT / 2.0).max(8.0);
    Plot {
        left,
        top,
        width: WIDTH - left - right,
        x,
        y,
    }
}

/// Entries of the legend in rows: index of the series and horizontal position.
fn legend_rows(figure: &Figure) -> Vec<Vec<(usize, f64)>> {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut end = f64::INFINITY;
    for (i, series) in figure.series.iter().enumerate() {
        if series.label.is_empty() || !series.listed {
            continue;
        }
        let width = SWATCH + 8.0 + text_width(&series.label);
        if end + width > WIDTH {
            rows.push(Vec::new());
            end = 8.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((i, end));
        }
        end += width + 14.0;
    }
    rows
}

/// Estimates the width of a text; capitals are wider.
fn text_width(text: &str) -> f64 {
    let letter = |c: char| if c.is_uppercase() { CAPITAL } else { LETTER };
    text.chars().map(letter).sum()
}

fn draw_legend(out: &mut String, figure: &Figure, rows: &[Vec<(usize, f64)>], top: f64) {
    for (line, row) in rows.iter().enumerate() {
        let y = top + line as f64 * ROW + ROW / 2.0;
        for &(i, x) in row {
            let series = &figure.series[i];
            let _ = write!(out, "<g {}>", paint::series(series.style));
            if series.kind != SeriesKind::Points {
                let _ = write!(out, "<path {} d=\"M{x:.1} {y}h{SWATCH}\"/>", curve(series));
            }
            if series.kind.has_marks() {
                mark(out, series.style, x + SWATCH / 2.0, y, MARK);
            }
            out.push_str("</g>");
            let (x, y) = (tenths(x + SWATCH + 6.0), tenths(y + 5.0));
            paint::text(out, "entry", x, y, &series.label);
        }
    }
}

/// Formats a coordinate.
pub(crate) fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// Returns the attributes of a series' curve.
fn curve(series: &Series) -> String {
    match series.kind {
        SeriesKind::Trace => paint("trace"),
        _ => paint::curve(series.style),
    }
}

fn draw_axes(out: &mut String, figure: &Figure, plot: &Plot) {
    let Plot {
        left, top, width, ..
    } = *plot;
    let bottom = top + PLOT_HEIGHT;
    paint::text(out, "soft", 8, tenths(top - 12.0), &figure.y.caption());
    for (value, text) in &plot.y.ticks {
        let y = top + plot.y(*value);
        paint::path(out, "grid", format_args!("M{left:.1} {y:.1}h{width:.1}"));
        paint::text(out, "soft end", tenths(left - 6.0), tenths(y + 5.0), text);
    }
    for (value, text) in &plot.x.ticks {
        let x = left + plot.x(*value);
        paint::path(out, "axis", format_args!("M{x:.1} {bottom:.1}v5"));
        paint::text(out, "soft middle", tenths(x), tenths(bottom + 20.0), text);
    }
    let axes = format_args!("M{left:.1} {top:.1}v{PLOT_HEIGHT}h{width:.1}");
    paint::path(out, "axis", axes);
    let (x, y) = (tenths(left + width), tenths(bottom + 40.0));
    paint::text(out, "soft end", x, y, &figure.x.caption());
}

/// Draws curves and reference lines in an inner element, which clips them at the axes; error bars
/// in a wider one, so that those at the sides are complete; marks last, so that no axis and no
/// label hides one.
fn draw_data(out: &mut String, figure: &Figure, plot: &Plot) {
    let Plot {
        left, top, width, ..
    } = *plot;
    let each = |out: &mut String, draw: fn(&mut String, &Series, &Plot)| {
        for series in &figure.series {
            let _ = write!(out, "<g {}>", paint::series(series.style));
            draw(out, series, plot);
            out.push_str("</g>");
        }
    };
    let _ = write!(
        out,
        "<svg x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\">"
    );
    each(out, draw_curve);
    references::lines(out, figure, plot);
    let _ = write!(
        out,
        "</svg><svg x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{PLOT_HEIGHT}\"><g transform=\"translate({} 0)\">",
        left - 2.0 * BAR,
        width + 4.0 * BAR,
        2.0 * BAR
    );
    each(out, draw_bars);
    let _ = write!(
        out,
        "</g></svg><g transform=\"translate({left:.1} {top:.1})\">"
    );
    references::labels(out, figure, plot);
    each(out, draw_marks);
    out.push_str("</g>");
}

fn finite(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| point.is_finite())
}

fn draw_curve(out: &mut String, series: &Series, plot: &Plot) {
    if series.kind == SeriesKind::Points || finite(series).next().is_none() {
        return;
    }
    let is_interrupted = matches!(series.kind, SeriesKind::Line | SeriesKind::Trace);
    let mut path = String::new();
    for part in series.points.split(|p| is_interrupted && !p.is_finite()) {
        let begin = path.len();
        for point in part.iter().filter(|point| point.is_finite()) {
            let (x, y) = (plot.x(point.x), plot.y(point.y));
            let _ = match series.kind {
                _ if path.len() == begin => write!(path, "M{x:.1} {y:.1}"),
                SeriesKind::Step => write!(path, "H{x:.1}V{y:.1}"),
                _ => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        if is_interrupted && part.len() == 1 {
            // A point without neighbours is a short line.
            let _ = write!(path, "m{:.1} 0h{LONE_POINT}", -LONE_POINT / 2.0);
        }
    }
    let _ = write!(out, "<path {} d=\"{path}\"/>", curve(series));
}

fn draw_bars(out: &mut String, series: &Series, plot: &Plot) {
    if series.kind != SeriesKind::ErrorBars {
        return;
    }
    let shown = |point: &&Point| point.error > 0.0 && plot.x.holds(point.x);
    for point in finite(series).filter(shown) {
        let (high, low) = (plot.y(point.y + point.error), plot.y(point.y - point.error));
        let (x, w) = (plot.x(point.x) - BAR, 2.0 * BAR);
        let bar = format_args!("M{x:.1} {high:.1}h{w}m-{BAR} 0V{low:.1}m-{BAR} 0h{w}");
        paint::path(out, "bar", bar);
    }
}

fn draw_marks(out: &mut String, series: &Series, plot: &Plot) {
    if !series.kind.has_marks() {
        return;
    }
    let many = series.points.len() > MANY;
    let radius = if many { SMALL_MARK } else { MARK };
    let shown = |point: &&Point| plot.x.holds(point.x) && plot.y.holds(point.y);
    for point in finite(series).filter(shown) {
        mark(out, series.style, plot.x(point.x), plot.y(point.y), radius);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::figure::Reference;

    fn figure() -> Figure {
        let points = || {
            (0..20)
                .map(|i| Point::new(f64::from(i), f64::from(i * i)))
                .collect()
        };
        let kinds = [
            SeriesKind::Line,
            SeriesKind::Trace,
            SeriesKind::Points,
            SeriesKind::Step,
            SeriesKind::ErrorBars,
        ];
        Figure {
            id: "test".into(),
            title: "Delay <of> messages".into(),
            caption: String::new(),
            x: Axis::linear("message", ""),
            y: Axis::linear("delay", "ms"),
            series: kinds
                .into_iter()
                .enumerate()
                .map(|(i, kind)| Series::new(format!("series number {i}"), kind, i, points()))
                .collect(),
            references: vec![
                Reference {
                    y: 100.0,
                    label: "bound & co".into(),
                },
                Reference {
                    y: 101.0,
                    label: "mean".into(),
                },
                Reference {
                    y: 0.0,
                    label: "floor".into(),
                },
            ],
        }
    }

    /// Returns whether opening and closing tags match, which suffices for the generated markup.
    fn balanced(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let Some(end) = tag.find('>') else {
                return false;
            };
            let tag = &tag[..end];
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !tag.ends_with('/') {
                open.push(tag.split([' ', '>']).next().unwrap_or_default());
            }
        }
        open.is_empty()
    }

    #[test]
    fn every_series_is_drawn_and_named() {
        for standalone in [false, true] {
            let svg = figure().to_svg(standalone);
            assert!(balanced(&svg), "{svg}");
            assert_eq!(svg.matches("series number").count(), 5);
            assert_eq!(svg.matches("class=\"reference\"").count(), 3);
            assert!(svg.contains("bound &amp; co") && !svg.contains("<of>"));
            // No renderer needs a style sheet.
            assert!(!svg.contains("<style>") && !svg.contains("var("));
            assert_eq!(svg.contains("class=\"back\""), standalone);
        }
    }

    #[test]
    fn marks_on_an_axis_are_complete() {
        let mut figure = figure();
        (figure.x, figure.y) = (
            Axis::linear("x", "").range(0.0, 10.0),
            Axis::linear("y", "").range(0.0, 10.0),
        );
        let mut points = vec![Point::new(0.0, 0.0), Point::new(10.0, 10.0)];
        points.extend([Point::new(11.0, 5.0), Point::new(5.0, 11.0)]);
        figure.series = vec![Series::new("", SeriesKind::Points, 0, points)];
        let svg = figure.to_svg(false);
        assert_eq!(svg.matches("<circle").count(), 2);
        let inner = svg
            .rfind("</svg><g")
            .expect("marks are outside of what is cut off");
        assert!(svg.find("<circle").is_some_and(|mark| mark > inner));
    }

    #[test]
    fn many_marks_are_small() {
        let mut figure = figure();
        let points = |n: u32| (0..n).map(|i| Point::new(f64::from(i), 1.0)).collect();
        figure.series = vec![
            Series::new("", SeriesKind::Points, 0, points(MANY as u32 + 1)),
            Series::new("", SeriesKind::Points, 0, points(3)),
        ];
        let svg = figure.to_svg(false);
        assert_eq!(
            svg.matches(&format!("r=\"{SMALL_MARK}\"")).count(),
            MANY + 1
        );
        assert_eq!(svg.matches(&format!("r=\"{MARK}\"")).count(), 3);
    }

    #[test]
    fn long_titles_are_wrapped() {
        let mut figure = figure();
        figure.title = "a title of many words ".repeat(5);
        let svg = figure.to_svg(true);
        assert_eq!(svg.matches("class=\"title\"").count(), 2);
        assert!(balanced(&svg));
    }

    #[test]
    fn non_finite_points_are_omitted() {
        let mut figure = figure();
        for series in &mut figure.series {
            series.points.push(Point::new(f64::NAN, 1.0));
            series.points.push(Point::new(1.0, f64::INFINITY));
        }
        let svg = figure.to_svg(false);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        figure.series.clear();
        figure.references.clear();
        assert!(balanced(&figure.to_svg(true)), "an empty figure is valid");
    }

    #[test]
    fn lines_are_interrupted_without_a_value() {
        let curve = |kind, values: &[f64]| {
            let points = (0..).zip(values).map(|(x, y)| Point::new(f64::from(x), *y));
            let mut figure = figure();
            figure.series = vec![Series::new("", kind, 0, points.collect())];
            figure.references.clear();
            let svg = figure.to_svg(false);
            let curve = svg.split("class=\"curve\"").nth(1).unwrap();
            let data = curve.split(" d=\"").nth(1).unwrap();
            data.split('"').next().unwrap().to_owned()
        };
        let gap = [1.0, 2.0, f64::NAN, f64::NAN, 3.0, f64::NAN, 4.0, 5.0];
        let line = curve(SeriesKind::Line, &gap);
        assert_eq!(line.matches('M').count(), 3, "{line}");
        assert_eq!(line.matches('L').count(), 2, "{line}");
        assert_eq!(line.matches('h').count(), 1, "the lone point: {line}");
        let line = curve(SeriesKind::Line, &[1.0, 2.0, 3.0]);
        assert_eq!(line.matches(['M', 'h']).count(), 1, "{line}");
        // A step keeps its value.
        let step = curve(SeriesKind::Step, &gap);
        assert_eq!(step.matches('M').count(), 1, "{step}");
    }

    #[test]
    fn a_long_legend_is_wrapped() {
        let rows = legend_rows(&figure());
        assert!(rows.len() >= 2);
        let mut figure = figure();
        for row in &rows {
            for &(i, x) in row {
                let width = SWATCH + 6.0 + figure.series[i].label.chars().count() as f64 * LETTER;
                assert!(x + width <= WIDTH);
            }
        }
        figure.series.truncate(1);
        figure.series[0].listed = false;
        assert!(legend_rows(&figure).is_empty());
        figure.series[0].listed = true;
        figure.series[0].label.clear();
        assert!(legend_rows(&figure).is_empty());
    }
}
