//! Reference lines of a figure, and the placement of their labels.

use std::ops::Range;

use crate::draw::{LETTER, MARK, PLOT_HEIGHT, Plot, tenths};
use crate::figure::{Figure, Reference, Series, SeriesKind};
use crate::paint;

/// Height of a line of text.
const LINE: f64 = 16.0;
/// Distance of a label to the sides.
const SIDE: f64 = 4.0;
/// Number of candidate positions along a line.
const PLACES: usize = 9;
/// Sampling distance along curves.
const STEP: f64 = 5.0;

/// Position of a label.
#[derive(Clone, Debug, PartialEq)]
struct LabelPosition {
    /// Horizontal extent.
    x: Range<f64>,
    baseline: f64,
}

impl LabelPosition {
    fn meets(&self, other: &Self) -> bool {
        let beside = self.x.end <= other.x.start || other.x.end <= self.x.start;
        !beside && (self.baseline - other.baseline).abs() < LINE
    }

    /// Returns whether a point is hidden by the letters.
    fn covers(&self, x: f64, y: f64) -> bool {
        self.x.contains(&x) && self.covers_line(y)
    }

    fn covers_line(&self, y: f64) -> bool {
        (-13.0..4.0).contains(&(y - self.baseline))
    }

    fn is_inside(&self) -> bool {
        (13.0..=PLOT_HEIGHT - 4.0).contains(&self.baseline)
    }
}

fn shown<'f>(figure: &'f Figure, plot: &Plot) -> impl Iterator<Item = &'f Reference> {
    figure.references.iter().filter(|r| plot.y.holds(r.y))
}

/// Draws the reference lines.
pub(crate) fn lines(out: &mut String, figure: &Figure, plot: &Plot) {
    for reference in shown(figure, plot) {
        let (y, width) = (plot.y(reference.y), plot.width);
        paint::path(out, "reference", format_args!("M0 {y:.1}H{width:.1}"));
    }
}

/// Draws the labels.
pub(crate) fn labels(out: &mut String, figure: &Figure, plot: &Plot) {
    for (reference, place) in shown(figure, plot).zip(places(figure, plot)) {
        let (x, y) = (tenths(place.x.start + SIDE), tenths(place.baseline));
        paint::text(out, "halo", x, y, &reference.label);
    }
}

/// Selects a position for each label, above or below its line, that overlaps no other label, is
/// inside the plot and hides as little as possible.
fn places(figure: &Figure, plot: &Plot) -> Vec<LabelPosition> {
    let hidden = Obstacles::of(figure, plot);
    let mut taken: Vec<LabelPosition> = Vec::new();
    for reference in shown(figure, plot) {
        let y = plot.y(reference.y);
        let width = reference.label.chars().count() as f64 * LETTER + 2.0 * SIDE;
        let room = (plot.width - width).max(0.0);
        let place = |(number, below): (usize, bool)| {
            let from = room * number as f64 / (PLACES - 1) as f64;
            LabelPosition {
                x: from..from + width,
                baseline: if below { y + LINE - 1.0 } else { y - 5.0 },
            }
        };
        // The ends of the line are tried first, the right one before the left one.
        let numbers = [PLACES - 1, 0].into_iter().chain(1..PLACES - 1);
        let all = numbers.flat_map(|number| [(number, false), (number, true)]);
        let cost = |place: &LabelPosition| {
            let meets = taken.iter().any(|other| place.meets(other));
            (!place.is_inside(), meets, hidden.by(place))
        };
        taken.extend(all.map(place).min_by_key(cost));
    }
    taken
}

/// Elements of the plot that a label could hide.
struct Obstacles {
    /// Sampled points of curves.
    curves: Vec<(f64, f64)>,
    marks: Vec<(f64, f64)>,
    lines: Vec<f64>,
}

impl Obstacles {
    fn of(figure: &Figure, plot: &Plot) -> Self {
        let mut all = Self {
            curves: Vec::new(),
            marks: Vec::new(),
            lines: shown(figure, plot).map(|r| plot.y(r.y)).collect(),
        };
        for series in &figure.series {
            all.add(series, plot);
        }
        all
    }

    fn add(&mut self, series: &Series, plot: &Plot) {
        let points = series.points.iter().filter(|point| point.is_finite());
        let points: Vec<(f64, f64)> = points.map(|p| (plot.x(p.x), plot.y(p.y))).collect();
        if series.kind.has_marks() {
            self.marks.extend(&points);
        }
        if series.kind == SeriesKind::Points {
            return;
        }
        for pair in points.windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let corner = (to.0, from.1);
            if series.kind == SeriesKind::Step {
                self.stretch(from, corner);
                self.stretch(corner, to);
            } else {
                self.stretch(from, to);
            }
        }
    }

    /// Adds a straight section of a curve, as far as it is visible.
    fn stretch(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let steps = (dx.hypot(dy) / STEP).ceil().clamp(1.0, 400.0);
        self.curves.extend((0..=steps as usize).map(|n| {
            let share = n as f64 / steps;
            (from.0 + share * dx, from.1 + share * dy)
        }));
    }

    /// Returns a penalty: a mark counts as five points of a curve, another line as twenty.
    fn by(&self, place: &LabelPosition) -> usize {
        let curves = self.curves.iter().filter(|(x, y)| place.covers(*x, *y));
        // Marks have an extent.
        let near = LabelPosition {
            x: place.x.start - MARK..place.x.end + MARK,
            ..place.clone()
        };
        let marks = self.marks.iter();
        let marks = marks.filter(|(x, y)| near.covers(*x, y - MARK) || near.covers(*x, y + MARK));
        let lines = self.lines.iter().filter(|y| place.covers_line(**y));
        curves.count() + 5 * marks.count() + 20 * lines.count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::layout;
    use super::*;
    use crate::axis::Axis;
    use crate::figure::Point;

    fn figure(references: &[(f64, &str)], curve: &[(f64, f64)]) -> Figure {
        let points = curve.iter().map(|(x, y)| Point::new(*x, *y)).collect();
        let reference = |(y, label): &(f64, &str)| Reference {
            y: *y,
            label: (*label).into(),
        };
        Figure {
            id: "test".into(),
            title: String::new(),
            caption: String::new(),
            x: Axis::linear("x", "").range(0.0, 100.0),
            y: Axis::linear("y", "").range(0.0, 100.0),
            series: vec![Series::new("curve", SeriesKind::Line, 0, points)],
            references: references.iter().map(reference).collect(),
        }
    }

    #[test]
    fn labels_of_close_lines_do_not_overlap() {
        let lines = [
            (100.0, "top & co"),
            (50.0, "a"),
            (51.0, "b"),
            (49.0, "c"),
            (0.0, "floor"),
        ];
        let figure = figure(&lines, &[]);
        let places = places(&figure, &layout(&figure, 0.0));
        assert_eq!(places.len(), lines.len());
        for (number, place) in places.iter().enumerate() {
            assert!(place.is_inside(), "{places:?}");
            let met = places[..number].iter().any(|other| other.meets(place));
            assert!(!met, "{places:?}");
        }
    }

    #[test]
    fn labels_avoid_curves() {
        // The curve passes both ends of the line, above and below it, and its points are far from
        // the label.
        let curve = [
            (0.0, 0.0),
            (0.5, 100.0),
            (20.0, 100.0),
            (90.0, 100.0),
            (100.0, 0.0),
        ];
        let figure = figure(&[(50.0, "limit")], &curve);
        let plot = layout(&figure, 0.0);
        let place = &places(&figure, &plot)[0];
        assert_eq!(Obstacles::of(&figure, &plot).by(place), 0, "{place:?}");
        assert!(place.x.start > 0.0 && place.x.end < plot.width, "{place:?}");
    }

    #[test]
    fn lines_outside_of_the_plot_have_no_label() {
        let figure = figure(&[(150.0, "far"), (50.0, "near")], &[]);
        let mut out = String::new();
        labels(&mut out, &figure, &layout(&figure, 0.0));
        assert!(out.contains("near") && !out.contains("far"));
    }
}
