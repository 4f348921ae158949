//! Output files of a run: the report; per scenario the rows as CSV and JSON, and the values of all
//! repetitions as CSV; every figure as a separate SVG file with its points as CSV; and the files that
//! describe it, in a folder of their own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use carrick_netsim::files::replace;

use crate::error::LabError;
use crate::report::{self, RunInfo};
use crate::result::{ScenarioResult, live_to_csv, repetitions_to_csv, to_csv};

/// Creates `directory` if it does not exist, so that an invalid path is detected before a long run.
///
/// # Errors
/// [`LabError::Write`] with the directory.
pub fn prepare(directory: &Path) -> Result<(), LabError> {
    fs::create_dir_all(directory).map_err(LabError::write(directory))
}

/// Writes all files into `directory`, which is created if it does not exist, and returns their
/// paths, the report first.
///
/// # Errors
/// [`LabError::Write`] with the file that could not be written.
pub fn write(
    directory: &Path,
    info: &RunInfo,
    results: &[ScenarioResult],
) -> Result<Vec<PathBuf>, LabError> {
    prepare(directory)?;
    let mut written = Vec::new();
    let mut put = |name: String, content: String| {
        let path = directory.join(name);
        replace(&path, |file| file.write_all(content.as_bytes()))
            .map_err(LabError::write(&path))?;
        written.push(path);
        Ok(())
    };
    put("report.html".into(), report::to_html(info, results))?;
    for result in results {
        let name = &result.scenario;
        put(format!("{name}.csv"), to_csv(&result.rows))?;
        put(
            format!("{name}-repetitions.csv"),
            repetitions_to_csv(result.seed, &result.rows),
        )?;
        put(format!("{name}.json"), format!("{:#}\n", result.to_json()))?;
        if let Some(live) = &result.live {
            put(format!("{name}-live.csv"), live_to_csv(&live.rows))?;
        }
        if !result.drawing.is_empty() {
            put(format!("{name}-network.svg"), result.drawing.to_svg(true))?;
        }
        if !result.files.is_empty() {
            prepare(&directory.join(folder_of_files(name)))?;
        }
        for (file, text) in &result.files {
            put(format!("{}/{file}", folder_of_files(name)), text.clone())?;
        }
        for figure in &result.figures {
            put(format!("{name}-{}.svg", figure.id), figure.to_svg(true))?;
            put(format!("{name}-{}.csv", figure.id), figure.to_csv())?;
        }
    }
    Ok(written)
}

/// Returns the name of the folder, beside the report, of the files that describe a scenario.
pub(crate) fn folder_of_files(scenario: &str) -> String {
    format!("{scenario}-files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

    #[test]
    fn the_scenario_is_written_and_linked() {
        let name = format!("carrick-output-files-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut result = sample();
        result.scenario = "a #1".into();
        result.files = vec![("scenario.toml".into(), "duration = \"1 s\"\n".into())];
        let files = write(&directory, &RunInfo::new(7), &[result]).unwrap();
        let scenario = directory.join("a #1-files").join("scenario.toml");
        assert!(files.contains(&scenario), "{files:?}");
        assert_eq!(
            fs::read_to_string(&scenario).unwrap(),
            "duration = \"1 s\"\n"
        );
        let report = fs::read_to_string(&files[0]).unwrap();
        let link = "<a href=\"a%20%231-files/scenario.toml\">scenario.toml</a>";
        assert!(report.contains(link), "{report}");
        assert!(report.contains("<pre>duration = &quot;1 s&quot;\n</pre>"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn files_are_written_and_a_bad_directory_is_named() {
        let directory = std::env::temp_dir().join(format!("carrick-output-{}", std::process::id()));
        let info = RunInfo::new(7);
        let files = write(&directory, &info, &[sample()]).unwrap();
        let names: Vec<_> = files
            .iter()
            .filter_map(|f| f.file_name()?.to_str())
            .collect();
        assert_eq!(
            names,
            [
                "report.html",
                "sample.csv",
                "sample-repetitions.csv",
                "sample.json"
            ]
        );
        let json = fs::read_to_string(&files[3]).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            sample().to_json()
        );
        let error = write(&files[1], &info, &[sample()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sample.csv") && !error.contains('\n'),
            "{error}"
        );
        fs::remove_dir_all(&directory).unwrap();
    }
}
