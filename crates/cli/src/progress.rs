//! Bars on standard error while a command works.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar that is hidden if standard error is no terminal.
pub(crate) fn bar(title: &str, steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} {elapsed} (left: {eta})")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps)
        .with_style(style)
        .with_message(title.to_owned());
    bar.tick();
    bar
}
