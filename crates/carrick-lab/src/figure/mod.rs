//! Figures: what is to be shown, apart from how it is drawn.
//!
//! A [`Figure`] becomes an SVG without scripts, with its text as text, in colours that stay apart
//! for those who don't see all of them and in print, where each series also has its own dashes and
//! marks. It follows the reader's light or dark preference.

mod axis;
mod draw;
mod mark;

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
    /// Name in the legend; an empty one keeps it out.
    pub label: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Which of the six colours, dashes and marks it has.
    pub style: usize,
    /// The points; those that are not finite are left out.
    pub points: Vec<Point>,
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
}
