//! `published.toml`: the paper, and the rows of the table with its values.

use std::collections::BTreeMap;

use super::super::error::FileError;
use super::super::reader::{Item, Section};
use super::super::result::{Heading, headings};
use super::super::run::columns;
use super::super::tree::{Node, Value};
use super::super::{CellRuns, RunValues, ScenarioFile};
use super::formula::{Formula, Operand, RowAttribute};
use super::scope::Scope;
use super::template::Template;
use crate::live::Lateness;
use crate::publication::{FittedSetting, Publication};
use crate::result::{BoundKind, Row};
use crate::stats::{Sorted, Summary, mean};

/// Contents of the file.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) paper: Publication,
    pub(super) fitted: Vec<FittedSetting>,
    pub(super) rows: Vec<RowTemplate>,
}

/// A row before its measurement.
#[derive(Clone, Debug)]
pub(super) struct RowTemplate {
    /// Row without measured values and notes.
    pub(super) row: Row,
    pub(super) source: ValueSource,
    notes: Vec<Note>,
    /// The row is one of the table, not only of formulas and live runs.
    pub(super) listed: bool,
    /// The row is measured in live runs, too: the reason why these may differ, empty for that of the scenario.
    pub(super) live: Option<String>,
}

/// Origin of the measured values of a row.
#[derive(Clone, Debug)]
pub(super) enum ValueSource {
    /// The runs of a cell.
    Measured(MeasuredColumn),
    /// A formula over other rows: over their values in each repetition if it is paired, otherwise over
    /// their means.
    Computed { formula: Formula, paired: bool },
}

/// A column of the runs of a cell, in those runs in which a condition is true, times a factor.
#[derive(Clone, Debug)]
pub(super) struct MeasuredColumn {
    pub(super) cell: usize,
    pub(super) column: usize,
    only: Option<Formula>,
    scale: f64,
}

/// A note of a row, which may have a condition.
#[derive(Clone, Debug)]
struct Note {
    only: Option<Formula>,
    text: Template,
}

/// Values of a line of `each`.
type Columns<'a> = BTreeMap<&'a str, String>;

/// Returns the value of a column in a formula without another context.
fn of_columns(columns: &Columns<'_>, operand: Operand<'_>) -> Option<f64> {
    match operand {
        Operand::Name(name) => columns.get(name)?.parse().ok(),
        Operand::Row(..) => None,
    }
}

impl Published {
    pub(super) fn read(root: &Section<'_>, file: &ScenarioFile) -> Result<Self, FileError> {
        let paper = Publication {
            authors: root.needed("authors", "the authors as printed", Item::read)?,
            title: root.needed("title", "the title of the paper", Item::read)?,
            place: root.needed("place", "the journal, conference or series", Item::read)?,
            year: root.needed("year", "a year", |item| item.whole(1900..=2200))?,
            published_is: root.value_or("published_is", String::new(), Item::read)?,
        };
        let fitted = |item: &Item<'_>| {
            item.table(|section| {
                let text = |key| section.needed(key, "a text", Item::read);
                Ok(FittedSetting {
                    setting: text("setting")?,
                    chosen_by: text("chosen_by")?,
                    alternatives: text("alternatives")?,
                })
            })
        };
        let mut published = Self {
            paper,
            fitted: root.value_or("fitted", Vec::new(), |item| item.each(fitted))?,
            rows: Vec::new(),
        };
        let rows = root.value_or("table", Vec::new(), |item| item.each(rows_of_table))?;
        let rows = rows.concat();
        root.finish()?;
        let ids: Vec<String> = rows.iter().filter_map(RowSource::id).collect();
        for row in &rows {
            let item = row.item();
            let template = item.table(|section| published.template(section, row, &ids, file))?;
            let id = &template.row.id;
            if published.row(id).is_some() {
                return Err(item.error(format!("two rows have the id {id:?}")));
            }
            published.rows.push(template);
        }
        Ok(published)
    }

    /// Returns the row of this identifier.
    pub(super) fn row(&self, id: &str) -> Option<&RowTemplate> {
        self.rows.iter().find(|row| row.row.id == id)
    }

    /// Returns the rows that a formula uses.
    pub(super) fn used(&self, formula: &Formula) -> impl Iterator<Item = &RowTemplate> {
        used(formula, &self.rows, |row| &row.row.id)
    }

    /// Returns whether the cells of a row, or of the rows of its formula, have runs.
    pub(super) fn has_runs(&self, template: &RowTemplate, cells: &[CellRuns]) -> bool {
        match &template.source {
            ValueSource::Measured(_) => !template.runs(cells).is_empty(),
            ValueSource::Computed { formula, .. } => {
                self.used(formula).all(|row| self.has_runs(row, cells))
            }
        }
    }

    /// Returns the rows with their measured values, those for formulas included.
    pub(super) fn measured(&self, file: &ScenarioFile, cells: &[CellRuns]) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for template in &self.rows {
            let row = template.row.clone();
            rows.push(match &template.source {
                ValueSource::Measured(own) => {
                    row.measured_in(&file.cells[own.cell].0, &template.values(file, cells))
                }
                ValueSource::Computed {
                    formula,
                    paired: true,
                } => {
                    let (repetitions, values) = paired(formula, &rows);
                    Row {
                        repetitions,
                        ..row.measured(&values)
                    }
                }
                ValueSource::Computed { formula, .. } => computed(row, formula, &rows),
            });
        }
        let noted = self.rows.iter().zip(&rows).map(|(template, row)| {
            let context = RowContext {
                row,
                rows: &rows,
                runs: template.runs(cells),
                headings: template.headings(file),
            };
            let notes = template.notes.iter().filter(|note| note.applies(&context));
            let texts: Vec<String> = notes
                .map(|note| note.text.fill(&|operand| context.value(operand)))
                .collect();
            texts.iter().fold(row.clone(), |row, text| row.note(text))
        });
        noted.collect()
    }
}

impl RowTemplate {
    /// Returns the column that is measured; `None` for a computed row.
    pub(super) fn measured(&self) -> Option<&MeasuredColumn> {
        match &self.source {
            ValueSource::Measured(own) => Some(own),
            ValueSource::Computed { .. } => None,
        }
    }

    /// Returns the runs of the cell; none for a computed row.
    fn runs<'c>(&self, cells: &'c [CellRuns]) -> &'c [RunValues] {
        let own = self.measured().and_then(|own| cells.get(own.cell));
        own.map_or(&[], Vec::as_slice)
    }

    pub(super) fn headings(&self, file: &ScenarioFile) -> Vec<Heading> {
        let own = self.measured();
        own.map_or_else(Vec::new, |own| headings(&file.cells[own.cell].1))
    }

    /// Returns the lateness of the network by which the value of a live run is larger, in the unit of the row;
    /// `None` if the measure is no delay. Requests and their replies are late each.
    pub(super) fn lateness(&self, file: &ScenarioFile, lateness: &Lateness) -> Option<f64> {
        let own = self.measured()?;
        let model = &file.cells[own.cell].1;
        let (flow, measure) = *columns(model).get(own.column)?;
        let flow = &model.flows[flow?];
        let both = flow.response.is_some() || flow.is_simco();
        let late = measure.lateness(lateness)?;
        Some(late * own.scale * if both { 2.0 } else { 1.0 })
    }

    /// Returns the value of each run.
    fn values(&self, file: &ScenarioFile, cells: &[CellRuns]) -> Vec<Option<f64>> {
        let headings = self.headings(file);
        let runs = self.runs(cells).iter();
        runs.map(|run| self.value(run, &headings)).collect()
    }

    /// Returns the value of one run; `None` if it has none or the condition is false.
    pub(super) fn value(&self, run: &[Option<f64>], headings: &[Heading]) -> Option<f64> {
        let own = self.measured()?;
        let context = |operand: Operand<'_>| match operand {
            Operand::Name(name) => *run.get(self::column(headings, name)?)?,
            Operand::Row(..) => None,
        };
        let only = own.only.as_ref();
        let counts = only.is_none_or(|only| only.value(&context) == Some(1.0));
        let value = run.get(own.column)?.filter(|_| counts);
        value.map(|value| value * own.scale)
    }
}

impl Note {
    fn read(item: &Item<'_>, scope: &Scope<'_>) -> Result<Self, FileError> {
        let text = |item: &Item<'_>| scope.template_of(item);
        if !item.is_table() {
            return text(item).map(|text| Self { only: None, text });
        }
        let condition = |item: &Item<'_>| scope.formula_of(item).map(Some);
        item.table(|section| {
            Ok(Self {
                only: section.needed("if", "a condition such as \"missing > 0\"", condition)?,
                text: section.needed("text", "the text of the note", text)?,
            })
        })
    }

    fn applies(&self, context: &RowContext<'_>) -> bool {
        let only = self.only.as_ref();
        let applies = |only: &Formula| only.value(&|operand| context.value(operand));
        only.is_none_or(|only| applies(only).is_some_and(|value| value != 0.0))
    }
}

/// Returns the rows that a formula uses.
fn used<'r, R>(
    formula: &Formula,
    rows: &'r [R],
    id: fn(&R) -> &str,
) -> impl Iterator<Item = &'r R> {
    let (_, ids) = formula.uses();
    let ids: Vec<String> = ids.into_iter().map(Into::into).collect();
    rows.iter()
        .filter(move |row| ids.iter().any(|own| own == id(row)))
}

/// Sets the value of a row from the means of other rows. Its interval is that of the jackknife over the
/// repetitions if all these rows have the same number of them.
fn computed(row: Row, formula: &Formula, rows: &[Row]) -> Row {
    // The value of the means of all repetitions but one, if it is given.
    let value = |without: Option<usize>| {
        formula.value(&|operand| match (operand, without) {
            (Operand::Row(RowAttribute::Mean, id), Some(without)) => {
                let all = row_of(rows, id)?.values.iter().enumerate();
                let others = all.filter(|(k, _)| *k != without);
                mean(&others.map(|(_, value)| *value).collect::<Vec<f64>>())
            }
            _ => of_rows(rows, operand),
        })
    };
    let Some(whole) = value(None) else {
        return row;
    };
    let mut used = used(formula, rows, |row| &row.id);
    let n = used.next().map_or(0, |first| first.values.len());
    let paired = n > 1 && used.all(|row| row.values.len() == n);
    let parts: Option<Vec<f64>> = paired
        .then(|| (0..n).map(|k| value(Some(k))).collect())
        .flatten();
    let pseudo = parts.map(|parts| {
        let n = n as f64;
        let values = parts.iter().map(|part| n * whole - (n - 1.0) * part);
        values.collect::<Vec<f64>>()
    });
    let ci95 = pseudo.and_then(|values| Summary::of(&values)?.ci95);
    Row {
        measured: Some(whole),
        ci95,
        n: n as u64,
        ..row
    }
}

/// Returns the numbers of the repetitions that all rows of a formula have, and the value of the formula in each.
fn paired(formula: &Formula, rows: &[Row]) -> (Vec<u64>, Vec<f64>) {
    let first = used(formula, rows, |row| &row.id).next();
    let value = |number: &u64| {
        let value = formula.value(&|operand| match operand {
            Operand::Row(RowAttribute::Mean, id) => row_of(rows, id)?.value_in(*number),
            _ => of_rows(rows, operand),
        });
        Some((*number, value?))
    };
    let numbers = first.map_or(&[][..], |row| &row.repetitions);
    numbers.iter().filter_map(value).unzip()
}

fn row_of<'r>(rows: &'r [Row], id: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.id == id)
}

/// Returns a number of a row.
fn number(row: &Row, attribute: RowAttribute) -> Option<f64> {
    let sorted = || Sorted::new(row.values.clone());
    match attribute {
        RowAttribute::Mean | RowAttribute::All => row.measured,
        RowAttribute::Median => row.median.or(row.measured),
        RowAttribute::Least => sorted().quantile(0.0),
        RowAttribute::Most => sorted().quantile(1.0),
        RowAttribute::Count => Some(row.n as f64),
        RowAttribute::HalfWidth => row.ci95,
        RowAttribute::Published => row.published,
        RowAttribute::Bound => row.bound,
    }
}

/// Returns the value of a formula's operand if it is one of rows.
pub(super) fn of_rows(rows: &[Row], operand: Operand<'_>) -> Option<f64> {
    match operand {
        Operand::Row(attribute, id) => number(row_of(rows, id)?, attribute),
        Operand::Name(_) => None,
    }
}

/// A row in its notes: its own numbers, those of other rows, and sums and largest values of all measures
/// of the cell.
struct RowContext<'r> {
    row: &'r Row,
    rows: &'r [Row],
    runs: &'r [RunValues],
    headings: Vec<Heading>,
}

/// Numbers in the notes of a row.
const NUMBERS_OF_ROW: &str = "one of mean, median, least, most, count, half, published, bound, difference, runs, \
     missing, q90, total.MEASURE, largest.MEASURE, or rows in brackets";

/// Returns whether the notes of a row may have a number of this name.
fn is_number_of_row(name: &str) -> bool {
    let quantile = name.strip_prefix('q').map(str::parse::<f64>);
    let attribute = RowAttribute::named(name).filter(|own| *own != RowAttribute::All);
    attribute.is_some()
        || quantile.is_some_and(|share| share.is_ok())
        || matches!(name, "difference" | "runs" | "missing")
        || name.starts_with("total.")
        || name.starts_with("largest.")
}

impl RowContext<'_> {
    fn of_measure(&self, measure: &str) -> Option<Vec<f64>> {
        let column = column(&self.headings, measure)?;
        Some(self.runs.iter().filter_map(|run| run[column]).collect())
    }

    fn value(&self, operand: Operand<'_>) -> Option<f64> {
        let Operand::Name(name) = operand else {
            return of_rows(self.rows, operand);
        };
        if let Some(measure) = name.strip_prefix("total.") {
            return Some(self.of_measure(measure)?.iter().sum());
        }
        if let Some(measure) = name.strip_prefix("largest.") {
            return self.of_measure(measure)?.into_iter().reduce(f64::max);
        }
        if let Some(share) = name.strip_prefix('q').and_then(|n| n.parse::<f64>().ok()) {
            return Sorted::new(self.row.values.clone()).quantile(share / 100.0);
        }
        let runs = self.runs.len() as f64;
        match name {
            "runs" => return Some(runs),
            "missing" => return Some(runs - self.row.n as f64),
            "difference" => {
                let (measured, published) = (self.row.measured?, self.row.published?);
                return Some(100.0 * (measured / published - 1.0));
            }
            _ => {}
        }
        let attribute = RowAttribute::named(name).filter(|own| *own != RowAttribute::All)?;
        number(self.row, attribute)
    }
}

/// Returns the column of a measure, given with or without the name of its flow: without it, the flow is the
/// first one.
fn column(headings: &[Heading], measure: &str) -> Option<usize> {
    let whole = headings.iter().position(|heading| heading.id == measure);
    let part = || {
        let is = |heading: &Heading| {
            let flow = heading.id.split_once('.');
            flow.is_some_and(|(_, rest)| rest == measure)
        };
        headings.iter().position(is)
    };
    whole.or_else(part)
}

/// Returns the lines of `each`, a single one without columns if there is none.
fn lines<'a>(section: &Section<'a>) -> Result<Vec<Columns<'a>>, FileError> {
    let Some(each) = section.get("each") else {
        return Ok(vec![Columns::new()]);
    };
    if each.is_table() {
        return lines_of(&each);
    }
    // The last table changes fastest.
    let mut all = vec![Columns::new()];
    for own in each.each(lines_of)? {
        let with = |line: &Columns<'a>| {
            let joined = |own: &Columns<'a>| line.clone().into_iter().chain(own.clone()).collect();
            own.iter().map(joined).collect::<Vec<Columns<'a>>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Returns the lines of a table of columns. A text instead of a list is a formula over the columns before it.
fn lines_of<'a>(each: &Item<'a>) -> Result<Vec<Columns<'a>>, FileError> {
    let mut lines: Vec<Columns<'a>> = Vec::new();
    for (number, (key, item)) in each.entries()?.into_iter().enumerate() {
        if number > 0
            && let Ok(text) = item.text()
        {
            let formula: Formula = item.read()?;
            for line in &mut lines {
                let value = formula
                    .value(&|operand| of_columns(line, operand))
                    .ok_or_else(|| {
                        item.error(format!(
                            "{text:?} has no value; expected a formula over the columns before it"
                        ))
                    })?;
                line.insert(key, value.to_string());
            }
            continue;
        }
        let values = item.each(|value| match value.node.value {
            Value::Text(_) | Value::Integer(_) | Value::Number(_) => Ok(value.node.shown()),
            _ => Err(value.wrong("a text or a number")),
        })?;
        if number == 0 {
            lines.resize(values.len(), Columns::new());
        }
        let (found, expected) = (values.len(), lines.len());
        if found == 0 || found != expected {
            return Err(item.error(format!(
                "has {found} values; expected as many as the first column has, {expected}"
            )));
        }
        for (line, value) in lines.iter_mut().zip(values) {
            line.insert(key, value);
        }
    }
    Ok(lines)
}

/// Replaces names of columns in braces by their values.
fn substitute(text: &str, columns: &Columns<'_>) -> String {
    columns.iter().fold(text.to_owned(), |text, (key, value)| {
        text.replace(&format!("{{{key}}}"), value)
    })
}

/// A row of a table in one line of `each`, with the values of its columns.
#[derive(Clone)]
struct RowSource<'a> {
    path: String,
    node: Node,
    columns: Columns<'a>,
}

impl RowSource<'_> {
    fn item(&self) -> Item<'_> {
        Item {
            path: self.path.clone(),
            node: &self.node,
        }
    }

    fn id(&self) -> Option<String> {
        self.node.entry("id").map(Node::shown)
    }

    /// Parses a constant: a number, or a formula over the columns; "none" for no value.
    fn constant(&self, item: &Item<'_>) -> Result<Option<f64>, FileError> {
        let text = item.node.shown();
        let column = self.columns.get(text.as_str());
        if column.unwrap_or(&text) == "none" {
            return Ok(None);
        }
        let formula: Formula = item.read()?;
        let value = formula.value(&|operand| of_columns(&self.columns, operand));
        value.map(Some).ok_or_else(|| {
            item.error(format!(
                "{text:?} has no value; expected a number, or a formula over the columns of each"
            ))
        })
    }
}

/// Returns each row of a table for each line of `each`.
fn rows_of_table<'a>(item: &Item<'a>) -> Result<Vec<RowSource<'a>>, FileError> {
    item.table(|section| {
        let rows = section.needed("row", "tables such as [[table.row]]", Item::list)?;
        let rows_in = |columns: &Columns<'a>| {
            let row = |row: &Item<'a>| RowSource {
                path: row.path.clone(),
                node: row.node.with_texts(&|text| substitute(text, columns)),
                columns: columns.clone(),
            };
            rows.iter().map(row).collect::<Vec<RowSource<'a>>>()
        };
        Ok(lines(section)?.iter().flat_map(rows_in).collect())
    })
}

impl Published {
    /// Parses a row below the rows that are known already; `ids` are those of all rows.
    fn template(
        &self,
        section: &Section<'_>,
        own: &RowSource<'_>,
        ids: &[String],
        file: &ScenarioFile,
    ) -> Result<RowTemplate, FileError> {
        let id = "an identifier such as \"{cell}.goodput\"";
        let (source, unit) = self.source(section, file)?;
        let constant = |key| section.value_or(key, None, |item| own.constant(item));
        let published = constant("published")?;
        // In some lines of `each` the paper may have no value, or one that is compared.
        let why: Option<String> = section.value("not_compared", Item::read)?;
        let mut row = Row {
            id: section.needed("id", id, Item::read)?,
            label: section.needed("label", "the label of the row", Item::read)?,
            unit: section.value_or("unit", unit, Item::read)?,
            published,
            published_to: constant("published_to")?,
            not_compared: why.filter(|why| !why.is_empty() && published.is_some()),
            ..Row::default()
        };
        if row
            .published_to
            .is_some_and(|to| published.is_none_or(|from| to <= from))
        {
            return Err(section.error("published_to must be greater than published"));
        }
        for (key, kind) in [
            ("at_least", BoundKind::Lower),
            ("at_most", BoundKind::Upper),
            ("modelled", BoundKind::Model),
        ] {
            if let Some(bound) = constant(key)? {
                if row.bound.is_some() {
                    let what = "expected one of at_least, at_most and modelled";
                    return Err(section.error(what));
                }
                row = row.bounded(kind, bound);
            }
        }
        let live = |item: &Item<'_>| match &item.node.value {
            Value::Flag(flag) => Ok(Some(String::new()).filter(|_| *flag)),
            Value::Text(why) => Ok(Some(why.clone())),
            _ => Err(item.wrong("true, false, or why live runs may differ")),
        };
        let scope = Scope {
            names: &is_number_of_row,
            rows: &|id| ids.iter().any(|own| own == id),
            expected: NUMBERS_OF_ROW,
        };
        let note = |item: &Item<'_>| Note::read(item, &scope);
        Ok(RowTemplate {
            row,
            source,
            notes: section.value_or("notes", Vec::new(), |item| item.each(note))?,
            listed: section.value_or("listed", true, Item::read)?,
            live: section.value_or("live", None, live)?,
        })
    }

    /// Parses the origin of the values of a row; returns it with the unit.
    fn source(
        &self,
        section: &Section<'_>,
        file: &ScenarioFile,
    ) -> Result<(ValueSource, String), FileError> {
        let of_cell = ["cell", "measure", "where", "scale"].map(|key| section.get(key));
        let paired = section.get("paired");
        if let Some(value) = section.get("value") {
            if of_cell.iter().any(Option::is_some) {
                return Err(value.error("a row has either a value, or a cell and a measure"));
            }
            let above = Scope {
                names: &|_| false,
                rows: &|id| self.row(id).is_some(),
                expected: "rows above it in brackets and numbers",
            };
            let source = ValueSource::Computed {
                formula: above.formula_of(&value)?,
                paired: paired.map_or(Ok(false), |item| item.read())?,
            };
            return Ok((source, String::new()));
        }
        if let Some(item) = paired {
            return Err(item.error("belongs to a row with a value over other rows"));
        }
        let measure = section.need("measure", "the name of a measure, or a value")?;
        let cell = match section.get("cell") {
            None if file.cells.len() == 1 => 0,
            _ => section.needed("cell", "the name of a cell", |item| file.cell_of(item))?,
        };
        let headings = headings(&file.cells[cell].1);
        let names: Vec<&str> = headings.iter().map(|own| own.id.as_str()).collect();
        let expected = format!("one of {}", names.join(", "));
        let name = measure.text()?;
        let column = column(&headings, name).ok_or_else(|| {
            measure.error(format!("{name:?} is not measured; expected {expected}"))
        })?;
        let measures = Scope {
            names: &|name| self::column(&headings, name).is_some(),
            rows: &|_| false,
            expected: &expected,
        };
        let source = ValueSource::Measured(MeasuredColumn {
            cell,
            column,
            only: section.value("where", |item| measures.formula_of(item))?,
            scale: section.value_or("scale", 1.0, Item::read)?,
        });
        Ok((source, headings[column].unit.to_owned()))
    }
}
