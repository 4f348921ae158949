//! The network of a scenario as an SVG drawing: boxes for nodes, labelled lines for links.

use std::fmt::Write;

use crate::paint::{self, paint};

/// Width of a drawing in user units.
const WIDTH: f64 = 520.0;
/// Minimum width of a box.
const BOX_WIDTH: f64 = 104.0;
const BOX_HEIGHT: f64 = 58.0;
const LINE_HEIGHT: f64 = 18.0;
/// Width of a letter, rounded up, and padding on both sides of the text in a box.
const LETTER: f64 = 8.4;
const ROOM: f64 = 7.0;

/// A network drawing.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// Text alternative of the drawing.
    pub description: String,
    /// Height in user units; the width is 520.
    pub height: f64,
    /// Nodes.
    pub nodes: Vec<DrawnNode>,
    /// Links between nodes, given by their indices.
    pub links: Vec<DrawnLink>,
}

/// A node of a [`Drawing`].
#[derive(Clone, Debug)]
pub struct DrawnNode {
    /// Centre, in user units from the upper left corner.
    pub at: (f64, f64),
    /// Lines of text in the box.
    pub label: Vec<String>,
}

impl DrawnNode {
    /// Returns the width of the box, into which the text fits.
    fn width(&self) -> f64 {
        let letters = self.label.iter().map(|line| line.chars().count()).max();
        BOX_WIDTH.max(letters.unwrap_or(0) as f64 * LETTER + 2.0 * ROOM)
    }
}

/// A link of a [`Drawing`].
#[derive(Clone, Debug)]
pub struct DrawnLink {
    /// Indices of the two nodes.
    pub ends: (usize, usize),
    /// Vertical offset of the middle of the link in user units; negative is up.
    pub bend: f64,
    /// Lines of text at the middle.
    pub label: Vec<String>,
    /// Draws a dashed line, which denotes a backup.
    pub dashed: bool,
}

impl Drawing {
    /// Returns whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Renders an SVG element; `standalone` adds the background of a separate file.
    pub fn to_svg(&self, standalone: bool) -> String {
        let mut out = String::new();
        paint::open(
            &mut out,
            (WIDTH, self.height),
            &self.description,
            standalone,
        );
        for link in &self.links {
            self.link(&mut out, link);
        }
        for node in &self.nodes {
            let (x, y) = node.at;
            let width = node.width();
            let _ = write!(
                out,
                "<rect {} x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>",
                paint("node"),
                x - width / 2.0,
                y - BOX_HEIGHT / 2.0
            );
            text(&mut out, x, y, &node.label, "middle");
        }
        out.push_str("</svg>");
        out
    }

    fn link(&self, out: &mut String, link: &DrawnLink) {
        let (Some(a), Some(b)) = (self.nodes.get(link.ends.0), self.nodes.get(link.ends.1)) else {
            return;
        };
        let ((ax, ay), (bx, by)) = (a.at, b.at);
        let (mx, my) = (f64::midpoint(ax, bx), f64::midpoint(ay, by));
        // The control point of the curve is twice as far away as its middle.
        let _ = write!(
            out,
            "<path {} d=\"M{ax} {ay}Q{mx} {} {bx} {by}\"/>",
            paint::link(link.dashed),
            my + 2.0 * link.bend
        );
        // The label is placed beside the line, on the side to which it is bent.
        let room = link.label.len() as f64 * LINE_HEIGHT / 2.0 + 6.0;
        let beside = if link.bend < 0.0 { -room } else { room };
        text(out, mx, my + link.bend + beside, &link.label, "middle halo");
    }
}

/// Draws lines of text around a centre.
fn text(out: &mut String, x: f64, y: f64, lines: &[String], class: &str) {
    let first = y - (lines.len() as f64 - 1.0) * LINE_HEIGHT / 2.0 + 5.0;
    for (i, line) in lines.iter().enumerate() {
        paint::text(out, class, x, first + i as f64 * LINE_HEIGHT, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_fits_its_text() {
        let node = |text: &str| DrawnNode {
            at: (0.0, 0.0),
            label: vec![text.into(), "a".into()],
        };
        assert!(node("short").width() - BOX_WIDTH < 1e-9);
        assert!(node("quite a long name").width() > 17.0 * LETTER);
    }

    #[test]
    fn every_node_and_link_is_drawn_with_its_text() {
        let drawing = Drawing {
            description: "two hosts".into(),
            height: 200.0,
            nodes: vec![
                DrawnNode {
                    at: (60.0, 100.0),
                    label: vec!["A".into(), "<sender>".into()],
                },
                DrawnNode {
                    at: (460.0, 100.0),
                    label: vec!["B".into()],
                },
            ],
            links: vec![
                DrawnLink {
                    ends: (0, 1),
                    bend: -60.0,
                    label: vec!["250 ms".into()],
                    dashed: false,
                },
                DrawnLink {
                    ends: (0, 9),
                    bend: 0.0,
                    label: vec!["nowhere".into()],
                    dashed: true,
                },
            ],
        };
        let svg = drawing.to_svg(true);
        assert_eq!(svg.matches("class=\"node\"").count(), 2);
        assert!(svg.contains("&lt;sender&gt;") && svg.contains("250 ms"));
        assert!(!svg.contains("nowhere"), "a link to no node is left out");
        assert!(svg.contains("xmlns=") && !drawing.to_svg(false).contains("xmlns="));
    }
}
