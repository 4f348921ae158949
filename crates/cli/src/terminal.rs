//! The terminal: its size, and lines that are drawn again.

use std::io;

use console::{Term, truncate_str};

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

/// Number of rows of the terminal; of an old one if the output is none.
#[cfg(target_os = "linux")]
pub(crate) fn rows() -> usize {
    let size = Term::stdout().size_checked();
    size.map_or(24, |(rows, _)| usize::from(rows))
}

/// Lines at the bottom of a terminal that are drawn again when they change; others scroll above them.
#[derive(Debug)]
pub(crate) struct LiveView {
    terminal: Term,
    pub(crate) live: Vec<String>,
    /// Number of lines on the screen.
    drawn: usize,
}

impl LiveView {
    /// Returns a view of standard output; `None` if that is no terminal that moves its cursor.
    pub(crate) fn new() -> Option<Self> {
        let terminal = Term::buffered_stdout();
        (terminal.is_term() && !console::is_dumb()).then_some(Self {
            terminal,
            live: Vec::new(),
            drawn: 0,
        })
    }

    /// Adds lines above the live ones, and draws these again.
    pub(crate) fn draw(&mut self, above: &[String]) -> io::Result<()> {
        // The terminal may have shown the ^C of an interrupt behind the last line.
        self.terminal.write_str("\r")?;
        self.terminal.move_cursor_up(self.drawn)?;
        self.terminal.clear_to_end_of_screen()?;
        for line in above {
            self.terminal.write_line(line)?;
        }
        let columns = columns();
        for line in &self.live {
            // A line that wraps would take two rows.
            self.terminal.write_line(&truncate_str(line, columns, ""))?;
        }
        self.drawn = self.live.len();
        self.terminal.flush()
    }

    /// Replaces the live lines, and draws them.
    pub(crate) fn redraw(&mut self, lines: Vec<String>) -> io::Result<()> {
        self.live = lines;
        self.draw(&[])
    }
}
