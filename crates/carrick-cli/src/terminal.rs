//! The terminal that results are printed to.

use console::Term;

/// Columns of running text, where lines of the whole width would be hard to read.
const READABLE: usize = 100;

/// Columns for tables: those of the terminal, or a usual number where the output goes elsewhere.
pub(crate) fn columns() -> usize {
    let size = Term::stdout().size_checked();
    size.map_or(carrick_lab::COLUMNS, |(_, columns)| usize::from(columns))
}

/// Columns for running text.
pub(crate) fn text_columns() -> usize {
    columns().min(READABLE)
}
