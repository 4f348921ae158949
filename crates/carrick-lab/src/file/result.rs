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
        figures: figures(file, &rows),
        rows,
        settings: vec![
            Setting::new("command", command(file, options)),
            Setting::new("scenario file", file.name.clone()),
            Setting::new(
                "fingerprint of the file",
                format!("{:016x}", file.fingerprint),
            ),
            Setting::new("cells", file.cells.len().to_string()),
        ],
        ..ScenarioResult::empty(&file.name, question, options.seed, repetitions)
    }
}

fn command(file: &ScenarioFile, options: &RunOptions) -> String {
    let (path, seed, reps) = (&file.path, options.seed, file.repetitions(options));
    format!("carrick lab run {path} --seed {seed} --reps {reps}")
}

/// Returns a figure for each column over the first swept key, if all its values are numbers, with a
/// curve for each combination of the remaining keys. More than six combinations would not be
/// distinguishable.
fn figures(file: &ScenarioFile, rows: &[Row]) -> Vec<Figure> {
    let Some((first, model)) = file.cells.first() else {
        return Vec::new();
    };
    let Some((key, _)) = first.values().first() else {
        return Vec::new();
    };
    let split = |text: &str| {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        Some((
            text[..end].parse::<f64>().ok()?,
            text[end..].trim().to_owned(),
        ))
    };
    let places: Option<Vec<(f64, String)>> = file
        .cells
        .iter()
        .map(|(cell, _)| split(&cell.values()[0].1))
        .collect();
    let Some(places) = places else {
        return Vec::new();
    };
    let unit = places[0].1.clone();
    let mut curves: Vec<String> = Vec::new();
    let others = |cell: &super::Cell| -> String {
        let others = cell.values()[1..].iter();
        others
            .map(|(_, value)| value.clone())
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (cell, _) in &file.cells {
        let name = others(cell);
        if !curves.contains(&name) {
            curves.push(name);
        }
    }
    if curves.len() > 6
        || places.iter().any(|(_, own)| *own != unit)
        || places.len() / curves.len() < 2
    {
        return Vec::new();
    }
    let short = key.rsplit('.').next().unwrap_or(key);
    let figure = |(column, heading): (usize, Heading)| {
        let series = curves.iter().enumerate().map(|(style, name)| {
            let own = file
                .cells
                .iter()
                .enumerate()
                .filter(|(_, (cell, _))| others(cell) == *name);
            // The rows of a cell are one for each column.
            let columns = rows.len() / places.len();
            let points = own.filter_map(|(n, _)| {
                let row = &rows[n * columns + column];
                Some(Point {
                    x: places[n].0,
                    y: row.measured?,
                    error: row.ci95.unwrap_or(0.0),
                })
            });
            Series::new(name.clone(), SeriesKind::ErrorBars, style, points.collect())
        });
        Figure {
            id: heading
                .id
                .replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
            title: format!("{} over {short}", heading.label),
            caption: "Mean and 95 % confidence interval.".into(),
            x: Axis::linear(short, &unit),
            y: Axis::linear(&heading.label, heading.unit).from(0.0),
            series: series.collect(),
            ..Figure::default()
        }
    };
    headings(model)
        .into_iter()
        .enumerate()
        .map(figure)
        .collect()
}
