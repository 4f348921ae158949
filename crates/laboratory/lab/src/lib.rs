//! Scenarios, statistics, figures and the report of the laboratory.
//!
//! A scenario ([`file::ScenarioFile`]) is a network with its flows, run in virtual time. An experiment
//! ([`file::Experiment`]) is a scenario with the values of the paper that it repeats. The same
//! seed gives the same numbers with any number of cores and on every machine of a platform (the
//! last bits of logarithms and powers may differ between platforms). The [`ScenarioResult`] of an experiment
//! contains a table of published and measured values, figures, and the settings needed to repeat
//! the run; [`output::write`] writes it to files and [`report`] renders an HTML page.

mod capture;
mod compare;
mod error;
pub mod file;
pub mod format;
pub mod live;
mod numbered;
mod options;
pub mod output;
pub mod parallel;
mod publication;
pub mod report;
mod result;
pub mod seed;
pub mod stats;
mod trace;

pub use capture::capture_interfaces;
pub use carrick_figures::{Drawing, DrawnLink, DrawnNode, figure};
pub use compare::{ComparedRow, Comparison, EarlierResults};
pub use error::LabError;
pub use options::{Progress, RunOptions, Silent};
pub use publication::{FittedSetting, Publication};
pub use result::{
    Agreement, BoundKind, COLUMNS, LiveResult, LiveRow, Row, ScenarioResult, Setting, Split,
    SplitLine, Tally, Verdict, live_to_csv, live_to_table, repetitions_to_csv, to_csv,
    to_plain_table, to_table, wrap,
};
pub use trace::TraceOptions;
