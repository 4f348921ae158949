//! Conversion of the values of all cells to a scenario's result.

use super::ScenarioFile;
use super::measure::Measure;
use super::model::Model;
use super::run::columns;
use crate::figure::{Axis, Figure, Point, Series, SeriesKind};
use crate::options::RunOptions;
use crate::result::{Row, ScenarioResult, Setting};

/// Heading of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Identifier, such as `data.goodput`.
    pub(super) id: String,
    /// Label of the column.
    pub(super) label: String,
    pub(super) unit: &'static str,
}

/// Returns the headings of all columns of a model.
pub(super) fn headings(model: &Model) -> Vec<Heading> {
    let heading = |(flow, measure): (Option<usize>, Measure)| {
        let (name, label, unit) = measure.describe(|link| &model.links[link].name);
        let (id, label) = match flow.map(|flow| &model.flows[flow].name) {
            Some(flow) if model.flows.len() > 1 => {
                (format!("{flow}.{name}"), format!("{flow}: {label}"))
            }
            Some(flow) => (format!("{flow}.{name}"), label),
            None => (name, label),
        };
        Heading { id, label, unit }
    };
    columns(model).into_iter().map(heading).collect()
}

/// Builds the result; `cells` contains, for each cell and repetition, the values of all columns.
pub(super) fn of(
    file: &ScenarioFile,
    options: &RunOptions,
    cells: &[Vec<Vec<Option<f64>>>],
) -> ScenarioResult {
    let mut rows = Vec::new();
    for (number, ((cell, model), runs)) in file.cells.iter().zip(cells).enumerate() {
        for (column, heading) in headings(model).iter().enumerate() {
            let values: Vec<Option<f64>> = runs.iter().map(|run| run[column]).collect();
            let (mut id, mut label) = (heading.id.clone(), heading.label.clone());
            if file.cells.len() > 1 {
                id = match cell.name() {
                    "" => format!("cell{number}.{id}"),
                    name => format!("{name}.{id}"),
                };
                label = format!("{}: {label}", cell.label());
            }
            let mut row = Row::new(&id, &label, heading.unit).measured_in(cell, &values);
            let without = runs.len() - row.values.len();
            if without > 0 && without < runs.len() {
                row = row.note(&format!("Not defined in {without} of {} runs.", runs.len()));
            }
            rows.push(row);
        }
    }
    let question = if file.head.question.is_empty() {
        &file.head.title
    } else {
        &file.head.question
    };
    let repetitions = file.repetitions(options);
    ScenarioResult {
        figures: figures(file, &rows).unwrap_or_default(),
        rows,
        settings: vec![
            match file.changes() {
                "" => Setting::new("command", command(file, options)),
                changes => Setting::new("changes", changes),
            },
            Setting::new("scenario file", file.name.clone()),
            Setting::new(
                "fingerprint of the file",
                format!("{:016x}", file.fingerprint),
            ),
            Setting::new("cells", file.cells.len().to_string()),
        ],
        files: vec![("scenario.toml".into(), file.text.clone())],
        ..ScenarioResult::empty(&file.name, question, options.seed, repetitions)
    }
}

fn command(file: &ScenarioFile, options: &RunOptions) -> String {
    let (path, seed, reps) = (&file.path, options.seed, file.repetitions(options));
    format!("carrick lab run {path} --seed {seed} --reps {reps}")
}

/// Returns a figure for each column over the first swept key, if all its values are numbers of one unit, with a
/// curve for each combination of the remaining keys. More than six combinations would not be
/// distinguishable.
fn figures(file: &ScenarioFile, rows: &[Row]) -> Option<Vec<Figure>> {
    let (first, model) = file.cells.first()?;
    let (key, _) = first.values().first()?;
    let split = |text: &str| {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
        Some((number, unit.trim().to_owned()))
    };
    let cells = file.cells().map(|cell| cell.values());
    let places: Option<Vec<(f64, String)>> = cells.map(|own| split(&own[0].1)).collect();
    let places = places?;
    let unit = &places[0].1;
    let names: Vec<&str> = file.cells().map(super::Cell::curve).collect();
    let mut curves: Vec<&str> = Vec::new();
    for &name in &names {
        if !curves.contains(&name) {
            curves.push(name);
        }
    }
    if curves.len() > 6
        || places.iter().any(|(_, own)| own != unit)
        || places.len() / curves.len() < 2
    {
        return None;
    }
    let short = key.rsplit('.').next().unwrap_or(key);
    let figure = |(column, heading): (usize, Heading)| {
        let series = curves.iter().enumerate().map(|(style, name)| {
            let own = (0..places.len()).filter(|cell| names[*cell] == *name);
            // The rows of a cell are one for each column.
            let columns = rows.len() / places.len();
            let points = own.filter_map(|cell| {
                let row = &rows[cell * columns + column];
                Some(Point {
                    x: places[cell].0,
                    y: row.measured?,
                    error: row.ci95.unwrap_or(0.0),
                })
            });
            Series::new(*name, SeriesKind::ErrorBars, style, points.collect())
        });
        Figure {
            id: heading
                .id
                .replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
            title: format!("{} over {short}", heading.label),
            caption: "Mean and 95 % confidence interval.".into(),
            x: Axis::linear(short, unit),
            y: Axis::linear(&heading.label, heading.unit).from(0.0),
            series: series.collect(),
            ..Figure::default()
        }
    };
    Some(
        headings(model)
            .into_iter()
            .enumerate()
            .map(figure)
            .collect(),
    )
}
