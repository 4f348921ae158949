//! The eight marks that distinguish series independently of their colours.

use std::fmt::Write;

use crate::paint::{self, paint};

/// Number of distinct styles.
const STYLES: usize = 8;

/// Draws the mark of `style` at a position.
pub(crate) fn mark(out: &mut String, style: usize, x: f64, y: f64, radius: f64) {
    let r = radius;
    let path = match style % STYLES {
        0 => {
            let _ = write!(
                out,
                "<circle {} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>",
                paint("mark full")
            );
            return;
        }
        1 => format!("M{:.1} {:.1}l{r} {}h{}z", x, y - r * 1.2, r * 2.0, -2.0 * r),
        2 => format!(
            "M{:.1} {:.1}h{w}v{w}h-{w}z",
            x - r * 0.9,
            y - r * 0.9,
            w = r * 1.8
        ),
        3 => format!(
            "M{:.1} {:.1}l{d} {d}m0 -{d}l-{d} {d}",
            x - r,
            y - r,
            d = r * 2.0
        ),
        4 => format!(
            "M{x:.1} {:.1}l{d} {d}l-{d} {d}l-{d} -{d}z",
            y - r * 1.3,
            d = r * 1.3
        ),
        5 => format!("M{:.1} {y:.1}h{d}m-{r} -{r}v{d}", x - r, d = r * 2.0),
        6 => format!(
            "M{:.1} {:.1}l{r} -{}h{}z",
            x,
            y + r * 1.2,
            r * 2.0,
            -2.0 * r
        ),
        _ => format!(
            "M{:.1} {y:.1}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
            x - r,
            d = r * 2.0
        ),
    };
    let class = if matches!(style % STYLES, 1 | 6) {
        "mark full"
    } else {
        "mark"
    };
    paint::path(out, class, path);
}
