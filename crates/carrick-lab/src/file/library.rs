//! Built-in scenario files of the published experiments.

use super::ScenarioFile;

/// Names and contents of the files in `scenarios/`.
const FILES: [(&str, &str); 6] = [
    (
        "satellite",
        include_str!("../../../../scenarios/satellite.toml"),
    ),
    (
        "firewall",
        include_str!("../../../../scenarios/firewall.toml"),
    ),
    (
        "mobile-ip",
        include_str!("../../../../scenarios/mobile-ip.toml"),
    ),
    (
        "failover",
        include_str!("../../../../scenarios/failover.toml"),
    ),
    (
        "overhead-fairness",
        include_str!("../../../../scenarios/overhead-fairness.toml"),
    ),
    (
        "overhead-flow-control",
        include_str!("../../../../scenarios/overhead-flow-control.toml"),
    ),
];

impl ScenarioFile {
    /// Returns the file of the published experiment of this name, as far as the format can describe
    /// it.
    pub fn built_in(name: &str) -> Option<Self> {
        let (name, text) = FILES.iter().find(|(own, _)| *own == name)?;
        Self::parse(name, text).ok()
    }

    /// Returns the names of all built-in files.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_built_in_files_are_valid() {
        for name in ScenarioFile::built_in_names() {
            let file = ScenarioFile::built_in(name).expect(name);
            assert_eq!(file.name(), name);
        }
        assert!(ScenarioFile::built_in("none").is_none());
    }
}
