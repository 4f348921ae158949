//! Figures: what is to be shown, apart from how it is drawn.
//!
//! A [`Figure`] becomes an SVG without scripts, with its text as text, in colours that stay apart
//! for those who don't see all of them and in print, where each series also has its own dashes and
//! marks. It follows the reader's light or dark preference.
//! [`Figure::to_csv`] gives its points to programs.

mod axis;
mod draw;
mod mark;
mod references;

use std::borrow::Cow;

use crate::result::record;
use crate::stats::Sorted;

pub use axis::{Axis, Scale};

/// The style sheet of figures and drawings; a report needs it once.
pub const STYLE: &str = include_str!("style.css");

/// A figure with one pair of axes.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Short name for the file: letters, digits, hyphens.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What is to be seen, in a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the last on top.
    pub series: Vec<Series>,
    /// Horizontal lines.
    pub references: Vec<Reference>,
}

/// One curve or set of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend and in the data; an empty one keeps it out of the legend.
    pub label: String,
    /// Whether the legend shows it; what is drawn like a neighbour need not be there.
    pub listed: bool,
    /// How it is drawn.
    pub kind: Kind,
    /// Which of the eight colours, dashes and marks it has.
    pub style: usize,
    /// The points; those that are not finite are left out.
    pub points: Vec<Point>,
}

impl Series {
    /// A series that the legend shows.
    pub fn new(label: impl Into<String>, kind: Kind, style: usize, points: Vec<Point>) -> Self {
        Self {
            label: label.into(),
            listed: true,
            kind,
            style,
            points,
        }
    }

    /// The series, not in the legend.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        self.listed = false;
        self
    }
}

/// The share of values up to each value.
pub(crate) fn distributed(label: &str, style: usize, values: &Sorted) -> Series {
    let points = values.distribution(400).into_iter();
    let points = points.map(|(x, y)| Point::new(x, y));
    Series::new(label, Kind::Step, style, points.collect())
}

/// How a [`Series`] is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line through the points.
    Line,
    /// A thin undashed line through many points.
    Trace,
    /// Marks only.
    Points,
    /// A line that keeps each value until the next point.
    Step,
    /// Marks with bars of their error, joined by a line.
    ErrorBars,
}

/// A point of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Half the length of the error bar; zero for none.
    pub error: f64,
}

impl Point {
    /// A point without error.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: 0.0 }
    }

    fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.error.is_finite()
    }
}

/// A horizontal line with a label.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Where.
    pub y: f64,
    /// The text on it.
    pub label: String,
}

impl Figure {
    /// The figure as an SVG element. `standalone` adds what a file of its own needs: the style
    /// sheet, the background and the title.
    pub fn to_svg(&self, standalone: bool) -> String {
        draw::draw(self, standalone)
    }

    /// The points as CSV, one a line, with the units in the header: series, both values (by their names
    /// where the axis has some), half the length of the error bar (empty where there is none). Horizontal lines are series of one point
    /// without a place on the horizontal axis.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        let error = Axis {
            label: "±".into(),
            ..self.y.clone()
        };
        let header = [
            "series".into(),
            self.x.caption(),
            self.y.caption(),
            error.caption(),
        ];
        record(&mut out, &header.map(Cow::Owned));
        for series in &self.series {
            for point in series.points.iter().filter(|point| point.is_finite()) {
                let error = match point.error {
                    0.0 => String::new(),
                    error => error.to_string(),
                };
                let values = [self.x.value(point.x), self.y.value(point.y), error];
                let [x, y, error] = values.map(Cow::Owned);
                record(&mut out, &[series.label.as_str().into(), x, y, error]);
            }
        }
        for reference in &self.references {
            let label = reference.label.as_str().into();
            let y = self.y.value(reference.y).into();
            record(&mut out, &[label, "".into(), y, "".into()]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_have_units_in_the_header_and_a_line_for_each_point() {
        let mut noisy = Point::new(2.0, 20.5);
        noisy.error = 0.25;
        let points = vec![Point::new(1.0, 10.0), noisy, Point::new(3.0, f64::NAN)];
        let figure = Figure {
            id: "test".into(),
            title: String::new(),
            caption: String::new(),
            x: Axis::linear("loss", "%"),
            y: Axis::linear("time, mean", "ms"),
            series: vec![
                Series::new("a, \"b\"", Kind::ErrorBars, 0, points),
                Series::new("model", Kind::Line, 0, vec![Point::new(0.5, 1.0)]).unlisted(),
            ],
            references: vec![Reference {
                y: 870.0,
                label: "bound".into(),
            }],
        };
        assert_eq!(
            figure.to_csv(),
            "series,loss [%],\"time, mean [ms]\",± [ms]\r\n\
             \"a, \"\"b\"\"\",1,10,\r\n\
             \"a, \"\"b\"\"\",2,20.5,0.25\r\n\
             model,0.5,1,\r\n\
             bound,,870,\r\n"
        );
    }

    #[test]
    fn data_of_a_named_axis_have_the_names() {
        let points = vec![
            Point::new(0.5, 2.0),
            Point::new(1.5, 1.0),
            Point::new(2.0, 1.5),
        ];
        let figure = Figure {
            id: "states".into(),
            title: String::new(),
            caption: String::new(),
            x: Axis::linear("time", "s"),
            y: Axis::named("state", &["down", "up"]),
            series: vec![Series::new("path 0", Kind::Step, 0, points)],
            references: Vec::new(),
        };
        assert_eq!(
            figure.to_csv(),
            "series,time [s],state,±\r\npath 0,0.5,up,\r\npath 0,1.5,down,\r\npath 0,2,1.5,\r\n"
        );
    }
}
