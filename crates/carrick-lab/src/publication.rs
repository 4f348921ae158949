//! The publication that an experiment repeats, and the settings chosen by its results.

use serde::Serialize;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Publication {
    /// Authors, as printed.
    pub authors: &'static str,
    /// Title.
    pub title: &'static str,
    /// Journal, conference or series.
    pub place: &'static str,
    /// Year of publication.
    pub year: u16,
}

impl Publication {
    /// Returns the citation: authors, title, place, year.
    pub fn citation(&self) -> String {
        let Self {
            authors,
            title,
            place,
            year,
        } = self;
        format!("{authors}: “{title}”, {place}, {year}")
    }
}

/// A setting that the publication leaves open and that was chosen by its published values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FittedSetting {
    /// Name and value of the setting.
    pub setting: &'static str,
    /// Published values by which it was chosen.
    pub chosen_by: &'static str,
    /// Other settings that are consistent with these values, or the effect of leaving it out.
    pub alternatives: &'static str,
}
