//! Figures and drawings as SVG, and the tables beside them as CSV, without I/O.
//!
//! A [`figure::Figure`] is a plain value; [`figure::Figure::to_svg`] draws it.

mod axis;
pub mod csv;
mod draw;
mod drawing;
pub mod figure;
mod mark;
mod markup;
mod paint;
mod references;
pub mod text;

pub use drawing::{Drawing, DrawnLink, DrawnNode};
pub use markup::escape;

/// Style sheet of a page for the figures and drawings on a dark screen.
pub const STYLE: &str = include_str!("style.css");

/// Style sheet of a page with tables and figures: light and dark, narrow screens, print.
pub const PAGE_STYLE: &str = include_str!("page.css");
