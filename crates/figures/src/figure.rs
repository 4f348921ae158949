//! Figures: their contents, independent of the rendering.
//!
//! A [`Figure`] is rendered as SVG without scripts, with selectable text. Its colours are
//! distinguishable with colour vision deficiencies and in print, and each series also has its own
//! dashes and marks. Within the report it follows the reader's light or dark preference.
//! [`Figure::to_csv`] exports its points.

use serde::Serialize;

pub use crate::axis::{Axis, Scale};
use crate::csv::record;
use crate::draw;

/// A figure with one pair of axes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Identifier used as the file name: letters, digits, hyphens.
    pub id: String,
    /// Heading of the figure.
    pub title: String,
    /// Description in a sentence or two.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series; the last one is drawn on top.
    pub series: Vec<Series>,
    /// Horizontal reference lines.
    pub references: Vec<Reference>,
}

/// One curve or set of points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Name in the legend and in the data; a series without a name is not in the legend.
    pub label: String,
    /// Listed in the legend; a series drawn like its neighbour need not be.
    pub listed: bool,
    /// Form of the rendering.
    pub kind: SeriesKind,
    /// Index of one of eight combinations of colour, dashes and mark.
    pub style: usize,
    /// Points; those that are not finite are omitted, and interrupt a line or trace.
    pub points: Vec<Point>,
}

impl Series {
    /// Returns a series that is listed in the legend.
    pub fn new(
        label: impl Into<String>,
        kind: SeriesKind,
        style: usize,
        points: Vec<Point>,
    ) -> Self {
        Self {
            label: label.into(),
            listed: true,
            kind,
            style,
            points,
        }
    }
}

/// Form of the rendering of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesKind {
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

impl SeriesKind {
    pub(crate) fn has_marks(self) -> bool {
        matches!(self, Self::Points | Self::ErrorBars)
    }
}

/// A point of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Half length of the error bar; zero for none.
    pub error: f64,
}

impl Point {
    /// Returns a point without an error bar.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: 0.0 }
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.error.is_finite()
    }
}

/// A horizontal reference line with a label.
#[derive(Clone, Debug, Serialize)]
pub struct Reference {
    /// Vertical value.
    pub y: f64,
    /// Label of the line.
    pub label: String,
}

impl Figure {
    /// Renders an SVG element. `standalone` adds the background and the title of a separate file.
    pub fn to_svg(&self, standalone: bool) -> String {
        draw::draw(self, standalone)
    }

    /// Exports the points as CSV, one per line, with the units in the header: series, both values
    /// (by their names on an axis of named values), half length of the error bar (empty if there is
    /// none). A reference line is a series of one point without a horizontal value.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        let error = Axis {
            label: "±".into(),
            ..self.y.clone()
        };
        let captions = [self.x.caption(), self.y.caption(), error.caption()];
        record(&mut out, ["series".into()].into_iter().chain(captions));
        for series in &self.series {
            for point in series.points.iter().filter(|point| point.is_finite()) {
                let error = match point.error {
                    0.0 => String::new(),
                    error => error.to_string(),
                };
                let (x, y) = (self.x.value(point.x), self.y.value(point.y));
                record(&mut out, [series.label.clone(), x, y, error]);
            }
        }
        for reference in &self.references {
            let y = self.y.value(reference.y);
            record(&mut out, [reference.label.as_str(), "", &y, ""]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_units_in_the_header_and_a_line_per_point() {
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
                Series::new("a, \"b\"", SeriesKind::ErrorBars, 0, points),
                Series::new("model", SeriesKind::Line, 0, vec![Point::new(0.5, 1.0)]),
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
    fn csv_of_a_named_axis_has_the_names() {
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
            series: vec![Series::new("path 0", SeriesKind::Step, 0, points)],
            references: Vec::new(),
        };
        assert_eq!(
            figure.to_csv(),
            "series,time [s],state,±\r\npath 0,0.5,up,\r\npath 0,1.5,down,\r\npath 0,2,1.5,\r\n"
        );
    }
}
