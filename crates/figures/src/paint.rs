//! Colours and line styles of figures and drawings, as SVG presentation attributes, so that every
//! renderer draws them.
//!
//! Each element also has its class: the style sheet of the report changes the colours on a dark screen.

use std::fmt::{Display, Write};

use crate::markup::escape;

/// Colours of the eight series, by their style. Distinguishable with colour vision deficiencies.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#00805e", "#a8407f", "#b07a00", "#3d3d8f", "#6a6f76", "#8c4a2f",
];
/// Dashes of the eight series; the first is solid.
const DASHES: [&str; 8] = [
    "none",
    "7 4",
    "2 3",
    "9 3 2 3",
    "12 4",
    "4 2 1 2 1 2",
    "14 3 2 3 2 3",
    "5 2",
];
/// Attributes of each class.
const CLASSES: [(&str, &str); 20] = [
    (
        "fig",
        r#"font-family="system-ui, sans-serif" font-size="15" fill="none""#,
    ),
    ("back", r##"fill="#ffffff""##),
    ("title", r##"fill="#1b1f24" font-weight="600""##),
    ("entry", r##"fill="#1b1f24""##),
    ("soft", r##"fill="#5b6470" font-size="14""##),
    (
        "soft end",
        r##"fill="#5b6470" font-size="14" text-anchor="end""##,
    ),
    (
        "soft middle",
        r##"fill="#5b6470" font-size="14" text-anchor="middle""##,
    ),
    ("middle", r##"fill="#1b1f24" text-anchor="middle""##),
    (
        "halo",
        r##"fill="#1b1f24" stroke="#ffffff" stroke-width="5" stroke-linejoin="round" paint-order="stroke""##,
    ),
    (
        "middle halo",
        r##"fill="#1b1f24" stroke="#ffffff" stroke-width="5" stroke-linejoin="round" paint-order="stroke" text-anchor="middle""##,
    ),
    ("grid", r##"stroke="#d9dde2""##),
    ("axis", r##"stroke="#5b6470" stroke-width="1.2""##),
    (
        "reference",
        r##"stroke="#1b1f24" stroke-width="1.3" stroke-dasharray="8 5""##,
    ),
    (
        "curve",
        r#"stroke="currentColor" stroke-width="2" stroke-linejoin="round""#,
    ),
    (
        "trace",
        r#"stroke="currentColor" stroke-width="1.2" stroke-linejoin="round""#,
    ),
    ("mark", r#"stroke="currentColor" stroke-width="1.6""#),
    ("mark full", r#"fill="currentColor""#),
    (
        "bar",
        r#"stroke="currentColor" stroke-width="1.3" opacity=".6""#,
    ),
    (
        "node",
        r##"fill="#ffffff" stroke="#5b6470" stroke-width="1.5""##,
    ),
    ("link", r##"stroke="#0072b2" stroke-width="3""##),
];

/// Returns the class of an element with its attributes.
pub(crate) fn paint(class: &str) -> String {
    let found = CLASSES.iter().find(|(name, _)| *name == class);
    let attributes = found.map_or("", |(_, attributes)| attributes);
    format!("class=\"{class}\" {attributes}")
}

/// Returns the attributes of the elements of a series of this style.
pub(crate) fn series(style: usize) -> String {
    let style = style % COLOURS.len();
    format!("class=\"s{style}\" color=\"{}\"", COLOURS[style])
}

/// Returns the attributes of the curve of a series of this style.
pub(crate) fn curve(style: usize) -> String {
    let dashes = DASHES[style % DASHES.len()];
    format!("{} stroke-dasharray=\"{dashes}\"", paint("curve"))
}

/// Returns the attributes of a link; that of a backup is dashed.
pub(crate) fn link(backup: bool) -> String {
    if backup {
        let (stroke, dashes) = (COLOURS[1], "10 6");
        format!(
            "class=\"link backup\" stroke=\"{stroke}\" stroke-width=\"3\" stroke-dasharray=\"{dashes}\""
        )
    } else {
        paint("link")
    }
}

/// Appends the start of an SVG element with this view box; `standalone` adds the name space and the background of a
/// separate file.
pub(crate) fn open(out: &mut String, size: (f64, f64), label: &str, standalone: bool) {
    let (width, height) = size;
    let xmlns = if standalone {
        " xmlns=\"http://www.w3.org/2000/svg\""
    } else {
        ""
    };
    let _ = write!(
        out,
        "<svg{xmlns} {} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
        paint("fig"),
        escape(label)
    );
    if standalone {
        let back = paint("back");
        let _ = write!(out, "<rect {back} width=\"100%\" height=\"100%\"/>");
    }
}

/// Appends a path with the class of its lines.
pub(crate) fn path(out: &mut String, class: &str, data: impl Display) {
    let _ = write!(out, "<path {} d=\"{data}\"/>", paint(class));
}

/// Appends a text at a position, given as formatted coordinates.
pub(crate) fn text(out: &mut String, class: &str, x: impl Display, y: impl Display, text: &str) {
    let (class, text) = (paint(class), escape(text));
    let _ = write!(out, "<text {class} x=\"{x}\" y=\"{y}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_listed_once_with_attributes() {
        for (class, attributes) in CLASSES {
            let count = CLASSES.iter().filter(|(name, _)| *name == class).count();
            assert_eq!(count, 1, "{class}");
            assert!(attributes.contains('"'), "{class}");
        }
    }

    #[test]
    fn dark_screens_change_every_colour() {
        let dark = crate::STYLE;
        for class in [
            "soft",
            "back",
            "halo",
            "grid",
            "axis",
            "reference",
            "node",
            "link",
            "backup",
        ] {
            assert!(dark.contains(&format!(".{class} ")), "{class}");
        }
        for style in 0..COLOURS.len() {
            assert!(dark.contains(&format!(".s{style} ")), "series {style}");
        }
    }
}
