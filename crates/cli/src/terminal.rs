//! Width of the terminal.

use console::Term;

/// Maximum number of columns of running text, for readability, and that of tables if the output is no terminal.
const READABLE: usize = 100;

/// Number of columns for tables: that of the terminal, if the output is one.
pub(crate) fn columns() -> usize {
    let size = Term::stdout().size_checked();
    size.map_or(READABLE, |(_, columns)| usize::from(columns))
}

/// Number of columns for running text.
pub(crate) fn text_columns() -> usize {
    columns().min(READABLE)
}
