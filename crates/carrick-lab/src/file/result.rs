//! Conversion of the values of all cells to a scenario's result.

use super::ScenarioFile;
use super::measure::Measure;
use super::model::Model;
use super::run::columns;
use crate::figure::{Axis, Figure, Point, Series, SeriesKind};
use crate::result::{Row, ScenarioResult, Setting};
use crate::scenario::RunOptions;
use crate::stats::Summary;

/// Heading of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Identifier, such as `data.goodput`.
    pub(super) id: String,
    /// Label.
    pub(super) label: String,
    pub(super) unit: &'static str,
}

/// Returns the headings of all columns of a model.
pub(super) fn headings(model: &Model) -> Vec<Heading> {
    let heading = |(flow, measure): (Option<usize>, Measure)| {
        let (name, label, unit) = measure.describe(|link| &model.links[link].name);
        match flow.map(|flow| &model.flows[flow].name) {
            Some(flow) if model.flows.len() > 1 => Heading {
                id: format!("{flow}.{name}"),
                label: format!("{flow}: {label}"),
                unit,
            },
            Some(flow) => Heading {
                id: format!("{flow}.{name}"),
                label,
                unit,
            },
            None => Heading {
                id: name,
                label,
                unit,
            },
        }
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
            let values: Vec<f64> = runs.iter().filter_map(|run| run[column]).collect();
            let (mut id, mut label) = (heading.id.clone(), heading.label.clone());
            if file.cells.len() > 1 {
                id = format!("cell{number}.{id}");
                label = format!("{}: {label}", cell.label());
            }
            let mut row = Row::new(&id, &label, heading.unit).measured(&values);
            if !values.is_empty() && values.len() < runs.len() {
                let without = runs.len() - values.len();
                row = row.note(&format!("Not defined in {without} of {} runs.", runs.len()));
            }
            rows.push(row);
        }
    }
    let question = if file.question.is_empty() {
        &file.title
    } else {
        &file.question
    };
    let repetitions = file.repetitions(options);
    ScenarioResult {
        rows,
        figures: figures(file, cells),
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
fn figures(file: &ScenarioFile, cells: &[Vec<Vec<Option<f64>>>]) -> Vec<Figure> {
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
            let points = own.filter_map(|(n, _)| {
                let values: Vec<f64> = cells[n].iter().filter_map(|run| run[column]).collect();
                let summary = Summary::of(&values)?;
                Some(Point {
                    x: places[n].0,
                    y: summary.mean,
                    error: summary.ci95.unwrap_or(0.0),
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
            references: Vec::new(),
        }
    };
    headings(model)
        .into_iter()
        .enumerate()
        .map(figure)
        .collect()
}
