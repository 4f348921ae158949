//! The network of a scenario as an SVG drawing: boxes for nodes, lines with labels for links.

use std::fmt::Write;

use crate::markup::escape;

/// Width of a drawing in its own units.
const WIDTH: f64 = 520.0;
/// Width of a box, at least.
const BOX_WIDTH: f64 = 104.0;
const BOX_HEIGHT: f64 = 58.0;
const LINE_HEIGHT: f64 = 18.0;
/// Width of a letter, rounded up, and of the room beside the text of a box.
const LETTER: f64 = 8.4;
const ROOM: f64 = 7.0;

/// A network to draw.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// What it shows, for those who can't see it.
    pub description: String,
    /// Height in units; the width is 520.
    pub height: f64,
    /// The nodes.
    pub nodes: Vec<DrawnNode>,
    /// The links, between nodes by their index.
    pub links: Vec<DrawnLink>,
}

/// A node of a [`Drawing`].
#[derive(Clone, Debug)]
pub struct DrawnNode {
    /// Centre, in units from the upper left corner.
    pub at: (f64, f64),
    /// Text in the box, a string a line.
    pub label: Vec<String>,
}

impl DrawnNode {
    /// The width of its box, which the text fits into.
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
    /// How far the middle of the link is pushed up (negative) or down, in units.
    pub bend: f64,
    /// Text at the middle, a string a line.
    pub label: Vec<String>,
    /// Drawn with a broken line: a backup.
    pub dashed: bool,
}

impl Drawing {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The drawing as an SVG element; `standalone` adds what a file of its own needs.
    pub fn to_svg(&self, standalone: bool) -> String {
        let mut out = String::new();
        let xmlns = if standalone {
            " xmlns=\"http://www.w3.org/2000/svg\""
        } else {
            ""
        };
        let _ = write!(
            out,
            "<svg{xmlns} class=\"fig\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
            self.height,
            escape(&self.description)
        );
        if standalone {
            let _ = write!(
                out,
                "<style>{}</style><rect class=\"back\" width=\"100%\" height=\"100%\"/>",
                crate::figure::STYLE
            );
        }
        for link in &self.links {
            self.link(&mut out, link);
        }
        for node in &self.nodes {
            let (x, y) = node.at;
            let width = node.width();
            let _ = write!(
                out,
                "<rect class=\"node\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>",
                x - width / 2.0,
                y - BOX_HEIGHT / 2.0
            );
            text(&mut out, x, y, &node.label, "");
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
        let class = if link.dashed { "link backup" } else { "link" };
        // The control point of the curve lies twice as far away as its middle.
        let _ = write!(
            out,
            "<path class=\"{class}\" d=\"M{ax} {ay}Q{mx} {} {bx} {by}\"/>",
            my + 2.0 * link.bend
        );
        // The label stands beside the line, on the side to which it is bent.
        let room = link.label.len() as f64 * LINE_HEIGHT / 2.0 + 6.0;
        let beside = if link.bend < 0.0 { -room } else { room };
        text(out, mx, my + link.bend + beside, &link.label, " halo");
    }
}

/// Lines of text around a centre.
fn text(out: &mut String, x: f64, y: f64, lines: &[String], class: &str) {
    let first = y - (lines.len() as f64 - 1.0) * LINE_HEIGHT / 2.0 + 5.0;
    for (i, line) in lines.iter().enumerate() {
        let _ = write!(
            out,
            "<text class=\"middle{class}\" x=\"{x}\" y=\"{}\">{}</text>",
            first + i as f64 * LINE_HEIGHT,
            escape(line)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_text() {
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
