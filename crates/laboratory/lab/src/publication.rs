//! The publication that an experiment repeats, and the settings chosen by its results.

use serde::Serialize;

/// A paper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Publication {
    /// Authors, as printed.
    pub authors: String,
    /// Title of the paper.
    pub title: String,
    /// Journal, conference or series.
    pub place: String,
    /// Year of publication.
    pub year: u16,
    /// Origin of the published values, if they are not all measurements; empty if they are.
    pub published_is: String,
}

impl Publication {
    /// Returns the citation: authors, title, place, year.
    pub fn citation(&self) -> String {
        let Self {
            authors,
            title,
            place,
            year,
            ..
        } = self;
        format!("{authors}: “{title}”, {place}, {year}")
    }

    /// Returns the first author and the year, such as "A. Jungmaier et al., 2001".
    pub fn short_citation(&self) -> String {
        let (first, others) = match self.authors.split_once(", ") {
            Some((first, _)) => (first, " et al."),
            None => (self.authors.as_str(), ""),
        };
        format!("{first}{others}, {}", self.year)
    }
}

/// A setting that the publication leaves open and that was chosen by its published values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FittedSetting {
    /// Name and value of the setting.
    pub setting: String,
    /// Published values by which it was chosen.
    pub chosen_by: String,
    /// Other settings that are consistent with these values, or the effect of leaving it out.
    pub alternatives: String,
}
