//! The published experiments, which are part of the program, and the selection of experiments and cells.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Experiment, no_cell};
use crate::error::LabError;

/// Returns the name and the texts of the files of a folder in `experiments/`.
macro_rules! folder {
    ($name:literal) => {
        (
            $name,
            [
                include_str!(concat!("../../experiments/", $name, "/scenario.toml")),
                include_str!(concat!("../../experiments/", $name, "/published.toml")),
                include_str!(concat!("../../experiments/", $name, "/figures.toml")),
                include_str!(concat!("../../experiments/", $name, "/report.md")),
            ],
        )
    };
}

/// The published experiments, in the order of their execution.
const PUBLISHED: [(&str, [&str; 4]); 7] = [
    folder!("satellite"),
    folder!("firewall"),
    folder!("mobile-ip"),
    folder!("mobile-ip-inverse"),
    folder!("failover"),
    folder!("failover-signaling"),
    folder!("overhead"),
];

/// Today's means beside the published experiments of the same names, in real time.
const MEANS: [(&str, [&str; 4]); 5] = [
    folder!("satellite-means"),
    folder!("firewall-means"),
    folder!("mobile-ip-means"),
    folder!("failover-means"),
    folder!("overhead-means"),
];

/// Long sweep over the settings that a paper leaves open.
const INVERSE: &str = "mobile-ip-inverse";

impl Experiment {
    /// Name for all cells of an experiment.
    pub const EVERY_CELL: &'static str = "all";

    /// Returns the names of the published experiments, in the order of their execution.
    pub fn published_names() -> [&'static str; 7] {
        PUBLISHED.map(|(name, _)| name)
    }

    /// Returns the published experiment of this name.
    pub fn published(name: &str) -> Option<Self> {
        let mut all = PUBLISHED.iter().chain(&MEANS);
        let (name, texts) = all.find(|(own, _)| *own == name)?;
        Some(Self::built_in(name, *texts))
    }

    /// Adds to each experiment the one that puts its question to today's means, if there is one.
    pub fn with_means(experiments: Vec<Self>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for experiment in experiments {
            let means = Self::published(&format!("{}-means", experiment.name()));
            for own in [Some(experiment), means].into_iter().flatten() {
                if all.iter().all(|known| known.name() != own.name()) {
                    all.push(own);
                }
            }
        }
        all
    }

    /// Returns the published experiments with these names, in the order of their execution, then the experiments in
    /// the folders among them; all published ones if `names` is empty, those that sweep what a paper leaves open only
    /// for a full run. A name with a slash or a dot is a folder.
    ///
    /// # Errors
    /// [`LabError::UnknownExperiment`] for an unknown name, otherwise see [`Self::load`].
    pub fn select(names: &[String], full: bool) -> Result<Vec<Self>, LabError> {
        let known = PUBLISHED.iter().chain(&MEANS).map(|(name, _)| *name);
        let known: Vec<&str> = known.collect();
        let is_known = |name: &str| known.contains(&name);
        let is_folder = |name: &str| name.contains(['/', '.']) || Path::new(name).is_dir();
        let mut unknown = names.iter().filter(|name| !is_known(name));
        if let Some(name) = unknown.clone().find(|name| !is_folder(name)) {
            return Err(LabError::UnknownExperiment {
                name: name.clone(),
                known: known.join(", "),
            });
        }
        let folders = unknown.try_fold(Vec::new(), |mut folders, name| {
            folders.push(Self::load(Path::new(name))?);
            Ok(folders)
        })?;
        let chosen = |own: &&str| match names {
            [] => Self::published_names().contains(own) && (full || *own != INVERSE),
            names => names.iter().any(|name| name == own),
        };
        let chosen = known.into_iter().filter(chosen);
        let chosen = chosen.filter_map(Self::published).chain(folders);
        let chosen: Vec<Self> = chosen.collect();
        let mut seen = BTreeSet::new();
        if let Some(twice) = chosen.iter().find(|own| !seen.insert(own.name())) {
            let what = format!(
                "two experiments have the name '{}': rename a folder",
                twice.name()
            );
            return Err(LabError::Choice { what });
        }
        Ok(chosen)
    }

    /// Returns the named cells: the first one if `names` is empty, each one for [`Self::EVERY_CELL`]. Names of
    /// cells of other experiments are ignored.
    pub fn select_cells(&self, names: &[String]) -> Vec<String> {
        let all = self.scenario().cell_names().into_iter();
        if names.is_empty() {
            return all.take(1).collect();
        }
        let wanted = |cell: &String| names.iter().any(|n| n == Self::EVERY_CELL || n == cell);
        all.filter(wanted).collect()
    }

    /// Checks that each name is that of a cell of one of these experiments, or [`Self::EVERY_CELL`].
    ///
    /// # Errors
    /// [`LabError::Choice`] with some of the existing cells, for an unknown name.
    pub fn check_cells(experiments: &[Self], names: &[String]) -> Result<(), LabError> {
        let cells = experiments.iter().map(|own| own.scenario().cell_names());
        let known: Vec<String> = cells.flatten().collect();
        let unknown = |name: &&String| *name != Self::EVERY_CELL && !known.contains(name);
        match names.iter().find(unknown) {
            None => Ok(()),
            Some(name) => Err(LabError::Choice {
                what: format!("{}, and '{}'", no_cell(name, &known), Self::EVERY_CELL),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Experiment> {
        Experiment::select(&[], true).expect("they are valid")
    }

    fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Experiment::select(&names, false)
            .map(|found| found.iter().map(|own| own.name().to_owned()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn no_name_selects_all_in_a_fixed_order() {
        let all = [
            "satellite",
            "firewall",
            "mobile-ip",
            "failover",
            "failover-signaling",
            "overhead",
        ];
        assert_eq!(chosen(&[]).unwrap(), all);
        let two = chosen(&["failover", "satellite", "failover"]).unwrap();
        assert_eq!(two, ["satellite", "failover"]);
        assert!(Experiment::published("none").is_none());
    }

    #[test]
    fn errors_of_unknown_names_list_the_known_ones() {
        let error = chosen(&["overhead", "three"]).unwrap_err();
        assert_eq!(
            error,
            "there is no experiment 'three'; known: satellite, firewall, mobile-ip, mobile-ip-inverse, failover, failover-signaling, overhead, satellite-means, firewall-means, mobile-ip-means, failover-means, overhead-means, or a folder such as ./three"
        );
        let error = chosen(&["./three"]).unwrap_err();
        assert!(
            error.starts_with("cannot read ./three/scenario.toml: "),
            "{error}"
        );
    }

    #[test]
    fn cells_are_selected_by_name() {
        let all = all();
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            all[4].select_cells(&names)
        };
        let every = chosen(&["all"]);
        assert_eq!(every, all[4].scenario().cell_names());
        assert_eq!(chosen(&[]), every[..1]);
        assert_eq!(chosen(&["standard", "pmr2.failover"]), ["pmr2.failover"]);
        let check = |name: &str| Experiment::check_cells(&all, &[name.into()]);
        assert!(check("pmr2.failover").is_ok() && check("all").is_ok());
        let error = check("pmr9").map_err(|error| error.to_string());
        let error = error.expect_err("there is no such cell");
        assert!(
            error.starts_with("there is no cell 'pmr9'; there are ")
                && error.ends_with(", and 'all'"),
            "{error}"
        );
    }

    #[test]
    fn every_experiment_has_a_live_network() {
        for experiment in all() {
            let name = experiment.name();
            let build = experiment.world(None, 1).expect(name);
            let world = build().expect("the network is valid");
            let changes = matches!(name, "failover" | "failover-signaling" | "mobile-ip");
            assert_eq!(!world.changes.is_empty(), changes, "{name}");
            assert!(!world.hosts.is_empty(), "{name}");
        }
        let mobile = Experiment::published("mobile-ip").expect("it is published");
        let error = mobile.world(Some("config9"), 1).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("config1.0, config1.1"), "{text}");
        let world = mobile.world(Some("config3.best"), 1);
        let world = world.expect("the cell exists")().expect("the network is valid");
        assert_eq!(world.changes.len(), 2);
    }

    #[test]
    fn cell_names_are_unique() {
        for experiment in all() {
            let cells = experiment.scenario().cell_names();
            let names: BTreeSet<&String> = cells.iter().collect();
            let unique = !cells.is_empty() && names.len() == cells.len();
            assert!(unique, "{}", experiment.name());
        }
    }
}
