//! Width of the terminal.

use console::Term;

/// Maximum number of columns of running text, for readability.
const READABLE: usize = 100;

/// Number of columns for tables: that of the terminal, or a default if the output is no terminal.
pub(crate) fn columns() -> usize {
    let size = Term::stdout().size_checked();
    size.map_or(carrick_lab::COLUMNS, |(_, columns)| usize::from(columns))
}

/// Number of columns for running text.
pub(crate) fn text_columns() -> usize {
    columns().min(READABLE)
}
