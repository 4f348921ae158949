//! `figures.toml`: the drawing of the network, figures over the rows of the table and over single messages,
//! and means divided into parts.

use super::super::ScenarioFile;
use super::super::error::FileError;
use super::super::measure::{Measure, MessageHistory};
use super::super::model::Model;
use super::super::reader::{FromItem, Item, Section, keys, names};
use super::super::run::{Details, WantedDetails, columns};
use super::formula::{Formula, Operand};
use super::rows::{MeasuredColumn, Published, of_rows};
use super::scope::Scope;
use super::template::Template;
use crate::figure::{Axis, Figure, Point, Reference, Scale, Series, SeriesKind};
use crate::result::{Row, Split, SplitLine};
use crate::stats::Sorted;
use crate::{Drawing, DrawnLink, DrawnNode};

/// Contents of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) drawing: Drawing,
    templates: Vec<FigureTemplate>,
    splits: Vec<SplitTemplate>,
}

#[derive(Clone, Debug)]
struct FigureTemplate {
    /// Figure without caption, references and series.
    figure: Figure,
    caption: Template,
    references: Vec<(Formula, Template)>,
    series: Vec<SeriesTemplate>,
}

#[derive(Clone, Debug)]
struct SeriesTemplate {
    /// Series without points.
    series: Series,
    points: Points,
}

/// Origin of the points of a series.
#[derive(Clone, Debug)]
enum Points {
    /// Vertical over horizontal values, both numbers, means of rows or other formulas. The mean of a row has its
    /// interval.
    Formulas(Vec<[Formula; 2]>),
    /// Distribution of the repetitions of a row.
    Distribution(String),
    /// Distribution of the messages of all repetitions of a cell, by a column.
    OfMessages { cell: usize, column: usize },
    /// Delay of messages in the first repetition over their numbers.
    Messages(MessageSeries),
    /// Number of deliveries in the first repetition over the time.
    Deliveries(DeliverySeries),
}

/// Deliveries of a flow, counted from the first change of the schedule.
#[derive(Clone, Debug)]
struct DeliverySeries {
    cell: usize,
    flow: usize,
    /// Range of the times, in s after the change.
    range: [f64; 2],
    /// Number of messages that the vertical axis counts as one.
    unit: f64,
}

/// Returns the index of a flow by its name.
fn flow_of(item: &Item<'_>, model: &Model) -> Result<usize, FileError> {
    let text = item.text()?;
    let place = model.flows.iter().position(|flow| flow.name == text);
    place.ok_or_else(|| item.wrong("the name of a flow"))
}

/// Parses the name of a cell.
fn cell(section: &Section<'_>, file: &ScenarioFile) -> Result<usize, FileError> {
    section.needed("cell", "the name of a cell", |item| file.cell_of(item))
}

impl DeliverySeries {
    fn read(item: &Item<'_>, file: &ScenarioFile) -> Result<Self, FileError> {
        let expected = "seconds from the first change of the schedule";
        let seconds = |item: &Item<'_>| item.number(-1e9..=1e9);
        item.table(|section| {
            let cell = cell(section, file)?;
            let range = ["from", "to"].map(|key| section.needed(key, expected, seconds));
            let [from, to] = range;
            let range = [from?, to?];
            if range[0] >= range[1] {
                return Err(item.error("expected from to be less than to"));
            }
            Ok(Self {
                cell,
                flow: section.value_or("flow", 0, |i| flow_of(i, &file.cells[cell].1))?,
                range,
                unit: section.value_or("unit", 1.0, |i| i.number(1.0..=1e9))?,
            })
        })
    }

    /// Returns the number of deliveries since time 0, at some hundred deliveries and at both ends of each pause.
    fn points(&self, deliveries: &[f64]) -> Vec<Point> {
        const POINTS: usize = 600;
        const PAUSE: f64 = 0.1;
        let [from, to] = self.range;
        let before = deliveries.iter().filter(|time| **time <= 0.0).count();
        let numbered = deliveries.iter().enumerate();
        let shown: Vec<(f64, f64)> = numbered
            .filter(|(_, time)| (from..=to).contains(*time))
            .map(|(number, time)| (*time, (number as f64 - before as f64) / self.unit))
            .collect();
        let step = shown.len().div_ceil(POINTS).max(1);
        let ends = |n: usize| {
            let near = |m: usize| shown.get(m).map(|own| own.0);
            match (near(n.wrapping_sub(1)), near(n), near(n + 1)) {
                (Some(last), Some(now), Some(next)) => now - last > PAUSE || next - now > PAUSE,
                _ => true,
            }
        };
        let kept = (0..shown.len()).filter(|n| n.is_multiple_of(step) || ends(*n));
        // The number stays until the next delivery, which may not occur.
        let held = shown.last().map(|(_, number)| (to, *number));
        let points = kept.map(|n| shown[n]).chain(held);
        points.map(|(x, y)| Point::new(x, y)).collect()
    }
}

/// Selection of the messages of a flow.
#[derive(Clone, Debug)]
struct MessageSeries {
    cell: usize,
    flow: usize,
    /// Only messages that were retransmitted.
    retransmitted: bool,
    /// Number of messages; the first retransmitted one from `from` on follows a tenth of them.
    count: Option<usize>,
    from: u64,
    /// Size of the groups of which only the message with the longest delay is drawn.
    longest_of: usize,
}

impl MessageSeries {
    fn read(item: &Item<'_>, file: &ScenarioFile) -> Result<Self, FileError> {
        item.table(|section| {
            let cell = cell(section, file)?;
            let model = &file.cells[cell].1;
            if !model.measures.iter().any(|measure| measure.needs_trace()) {
                return Err(item.error(
                    "the scenario records no transmissions: expected a measure such as delay.retransmitted in it",
                ));
            }
            let count = |item: &Item<'_>| item.whole(1..=1_000_000);
            Ok(Self {
                cell,
                flow: section.value_or("flow", 0, |item| flow_of(item, model))?,
                retransmitted: section.value_or("retransmitted", false, Item::read)?,
                from: section.value_or("from", 0, |item| item.whole(0..=u64::MAX))?,
                count: section.value("count", count)?,
                longest_of: section.value_or("longest_of", 1, count)?,
            })
        })
    }

    fn points(&self, messages: &[MessageHistory]) -> Vec<Point> {
        let from = messages.partition_point(|message| message.number < self.from);
        let shown = match self.count {
            Some(count) => {
                let lost = messages[from..]
                    .iter()
                    .position(MessageHistory::retransmitted);
                let start = (from + lost.unwrap_or(0)).saturating_sub(count / 10);
                &messages[start..messages.len().min(start + count)]
            }
            None => &messages[from..],
        };
        let longest = |group: &[MessageHistory]| {
            let is_shown = |own: &&MessageHistory| own.retransmitted() || !self.retransmitted;
            let own = group.iter().filter(is_shown);
            let message = own.max_by(|a, b| a.delay().total_cmp(&b.delay()))?;
            Some(Point::new(message.number as f64, message.delay()))
        };
        shown.chunks(self.longest_of).filter_map(longest).collect()
    }
}

/// Means divided into parts, before their measurement.
#[derive(Clone, Debug)]
struct SplitTemplate {
    /// Split without lines.
    split: Split,
    lines: Vec<(String, Vec<Formula>)>,
}

impl Figures {
    pub(super) fn read(
        root: &Section<'_>,
        published: &Published,
        file: &ScenarioFile,
    ) -> Result<Self, FileError> {
        let reader = FigureReader {
            scope: Scope {
                names: &|_| false,
                rows: &|id| published.row(id).is_some(),
                expected: "rows in brackets and numbers",
            },
            published,
            file,
        };
        let mut templates: Vec<FigureTemplate> = Vec::new();
        for item in root.value_or("figure", Vec::new(), Item::list)? {
            let read = reader.figure(&item)?;
            if templates.iter().any(|own| own.figure.id == read.figure.id) {
                return Err(item.error(format!("two figures have the id {:?}", read.figure.id)));
            }
            templates.push(read);
        }
        let splits = |item: &Item<'_>| item.each(|item| reader.split(item));
        let all = Self {
            drawing: root.value_or("drawing", Drawing::default(), drawing)?,
            templates,
            splits: root.value_or("split", Vec::new(), splits)?,
        };
        root.finish()?;
        Ok(all)
    }

    /// Returns what the figures need of single messages.
    pub(super) fn wanted(&self) -> WantedDetails {
        let mut wanted = WantedDetails::default();
        for series in self.templates.iter().flat_map(|figure| &figure.series) {
            match &series.points {
                Points::Messages(MessageSeries { cell, .. })
                | Points::Deliveries(DeliverySeries { cell, .. }) => wanted.messages.push(*cell),
                Points::OfMessages { cell, column } => wanted.samples.push((*cell, *column)),
                _ => {}
            }
        }
        wanted
    }

    /// Returns the figures of measured rows, and of the messages of each cell and repetition.
    pub(super) fn drawn(&self, rows: &[Row], details: &[Vec<Details>]) -> Vec<Figure> {
        let values = |operand: Operand<'_>| of_rows(rows, operand);
        let reference = |(y, label): &(Formula, Template)| {
            Some(Reference {
                y: y.value(&values)?,
                label: label.fill(&values),
            })
        };
        let drawn = |series: &SeriesTemplate| series.drawn(rows, details);
        let figure = |template: &FigureTemplate| Figure {
            caption: template.caption.fill(&values),
            references: template.references.iter().filter_map(reference).collect(),
            series: template.series.iter().map(drawn).collect(),
            ..template.figure.clone()
        };
        self.templates.iter().map(figure).collect()
    }

    /// Returns the means divided into parts.
    pub(super) fn splits(&self, rows: &[Row]) -> Vec<Split> {
        let line = |(label, values): &(String, Vec<Formula>)| {
            let values = values.iter();
            let parts = values.map(|own| own.value(&|operand| of_rows(rows, operand)));
            let parts: Option<Vec<f64>> = parts.collect();
            Some(SplitLine {
                label: label.clone(),
                parts: parts?,
            })
        };
        let split = |template: &SplitTemplate| Split {
            lines: template.lines.iter().filter_map(line).collect(),
            ..template.split.clone()
        };
        self.splits.iter().map(split).collect()
    }
}

impl SeriesTemplate {
    fn drawn(&self, rows: &[Row], details: &[Vec<Details>]) -> Series {
        let context = |operand: Operand<'_>| of_rows(rows, operand);
        let point = |[x, y]: &[Formula; 2]| {
            Some(Point {
                x: x.value(&context)?,
                y: y.value(&context)?,
                error: half_width(y, rows).unwrap_or(0.0),
            })
        };
        let first = |cell: usize| details.get(cell).and_then(|runs| runs.first());
        let points = match &self.points {
            Points::Formulas(all) => all.iter().filter_map(point).collect(),
            Points::Messages(own) => {
                let messages = first(own.cell).and_then(|run| run.messages.get(own.flow));
                own.points(messages.map_or(&[], Vec::as_slice))
            }
            Points::Deliveries(own) => {
                let times = first(own.cell).and_then(|run| run.deliveries.get(own.flow));
                own.points(times.map_or(&[], Vec::as_slice))
            }
            Points::Distribution(id) => {
                let row = rows.iter().find(|row| row.id == *id);
                distribution(row.map_or_else(Vec::new, |row| row.values.clone()))
            }
            Points::OfMessages { cell, column } => {
                let runs = details.get(*cell).into_iter().flatten();
                let samples = runs.flat_map(|run| run.samples.get(column).into_iter().flatten());
                distribution(samples.copied().collect())
            }
        };
        Series {
            points,
            ..self.series.clone()
        }
    }
}

/// Returns the empirical distribution function of values, in some hundred points.
fn distribution(values: Vec<f64>) -> Vec<Point> {
    let points = Sorted::new(values).distribution(400).into_iter();
    points.map(|(x, y)| Point::new(x, y)).collect()
}

/// Returns the half width of the interval of a formula that is the mean of a row.
fn half_width(formula: &Formula, rows: &[Row]) -> Option<f64> {
    let Formula::Row(super::formula::RowAttribute::Mean, id) = formula else {
        return None;
    };
    rows.iter().find(|row| row.id == *id)?.ci95
}

fn drawing(item: &Item<'_>) -> Result<Drawing, FileError> {
    item.table(|section| {
        let height = "the height in user units; the width is 520";
        let height = section.needed("height", height, |item| item.number(1.0..=5000.0))?;
        let mut nodes: Vec<(&str, DrawnNode)> = Vec::new();
        for (name, node) in section.tables("nodes")? {
            let at: Vec<f64> = node.needed("at", "the centre such as [62, 120]", Item::read)?;
            let [x, y] = at[..] else {
                return Err(node.error("at: expected two numbers"));
            };
            let label = node.value_or("label", vec![name.to_owned()], Item::read)?;
            node.finish()?;
            nodes.push((name, DrawnNode { at: (x, y), label }));
        }
        let mut links = Vec::new();
        for (_, link) in section.tables("links")? {
            let place = |name: &String| nodes.iter().position(|(own, _)| own == name);
            let ends = |item: &Item<'_>| {
                let ends: Option<Vec<usize>> =
                    item.read::<Vec<String>>()?.iter().map(place).collect();
                match ends.as_deref() {
                    Some([a, b]) => Ok((*a, *b)),
                    _ => Err(item.wrong("two names of nodes of the drawing")),
                }
            };
            links.push(DrawnLink {
                ends: link.needed("between", "two names of nodes", ends)?,
                bend: link.value_or("bend", 0.0, |i| i.number(-1000.0..=1000.0))?,
                label: link.value_or("label", Vec::new(), Item::read)?,
                dashed: link.value_or("dashed", false, Item::read)?,
            });
            link.finish()?;
        }
        Ok(Drawing {
            description: section.needed("description", "the drawing in words", Item::read)?,
            height,
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            links,
        })
    })
}

/// Reader of figures and of means divided into parts.
struct FigureReader<'r> {
    scope: Scope<'r>,
    published: &'r Published,
    file: &'r ScenarioFile,
}

impl FigureReader<'_> {
    /// Parses a list of formulas and numbers.
    fn formulas(&self, item: &Item<'_>) -> Result<Vec<Formula>, FileError> {
        item.each(|item| self.scope.formula_of(item))
    }

    fn split(&self, item: &Item<'_>) -> Result<SplitTemplate, FileError> {
        item.table(|section| {
            let split = Split {
                title: section.needed("title", "the name of the quantity", Item::read)?,
                unit: section.needed("unit", "the unit of all parts", Item::read)?,
                parts: section.needed("parts", "the names of the parts", Item::read)?,
                lines: Vec::new(),
            };
            let wanted = split.parts.len();
            let values = |item: &Item<'_>| {
                let parts = self.formulas(item)?;
                let found = parts.len();
                if found != wanted {
                    return Err(item.error(format!(
                        "has {found} values; expected one for each of the {wanted} parts"
                    )));
                }
                Ok(parts)
            };
            let line = |item: &Item<'_>| {
                item.table(|line| {
                    let label = line.needed("label", "the name of the line", Item::read)?;
                    let parts = line.needed("values", "a formula for each part", values)?;
                    Ok((label, parts))
                })
            };
            let lines = section.value_or("line", Vec::new(), |item| item.each(line))?;
            Ok(SplitTemplate { split, lines })
        })
    }

    fn figure(&self, item: &Item<'_>) -> Result<FigureTemplate, FileError> {
        let name = |item: &Item<'_>| {
            let name: String = item.read()?;
            let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if valid && !name.is_empty() {
                Ok(name)
            } else {
                Err(item.wrong("letters, digits and hyphens"))
            }
        };
        let text = |item: &Item<'_>| self.scope.template_of(item);
        let reference = |item: &Item<'_>| {
            item.table(|line| {
                let number = |item: &Item<'_>| self.scope.formula_of(item);
                let y = line.needed("y", "a number or a formula", number)?;
                Ok((y, line.needed("label", "a text", text)?))
            })
        };
        item.table(|section| {
            let figure = Figure {
                id: section.needed("id", "letters, digits and hyphens", name)?,
                title: section.needed("title", "the heading", Item::read)?,
                x: section.needed("x", "a table with label and unit", axis)?,
                y: section.needed("y", "a table with label and unit", axis)?,
                ..Figure::default()
            };
            let mut number = 0..;
            let mut series =
                |item: &Item<'_>| self.series(item, number.next().unwrap_or_default(), &figure.x);
            let all = section.needed("series", "tables such as [[figure.series]]", |item| {
                item.each(&mut series)
            })?;
            Ok(FigureTemplate {
                figure,
                series: all,
                caption: section.needed("caption", "a sentence or two", text)?,
                references: section
                    .value_or("references", Vec::new(), |item| item.each(reference))?,
            })
        })
    }

    fn series(
        &self,
        item: &Item<'_>,
        number: usize,
        axis: &Axis,
    ) -> Result<SeriesTemplate, FileError> {
        item.table(|section| {
            let kind = match section.get("distribution") {
                Some(_) => SeriesKind::Step,
                None => SeriesKind::ErrorBars,
            };
            let label: String = section.needed("label", "the name in the legend", Item::read)?;
            let mut series = Series::new(label, kind, number, Vec::new());
            keys!(section, series, Item::read; listed, kind);
            keys!(section, series, |item| item.whole(0..=7); style);
            let points = self.points(section, axis)?;
            Ok(SeriesTemplate { series, points })
        })
    }

    /// Parses the points of a series over the horizontal `axis`, which one of five keys gives.
    fn points(&self, section: &Section<'_>, axis: &Axis) -> Result<Points, FileError> {
        let (x, over) = (section.get("x"), section.get("over"));
        let keys = ["y", "pairs", "distribution", "messages", "deliveries"];
        if let Some(over) = over
            .as_ref()
            .filter(|_| section.get("distribution").is_none())
        {
            return Err(over.error("belongs to distribution"));
        }
        let given = keys.map(|key| Some((key, section.get(key)?)));
        let mut given = given.into_iter().flatten();
        let (Some((key, item)), None) = (given.next(), given.next()) else {
            let what = "expected one of y, pairs, distribution, messages and deliveries";
            return Err(section.error(what));
        };
        Ok(match key {
            "y" => self.formulas_over(x.as_ref(), &item, axis)?,
            "pairs" => Points::Formulas(item.each(|item| {
                <[Formula; 2]>::try_from(self.formulas(item)?)
                    .map_err(|_| item.wrong("two formulas, horizontal and vertical"))
            })?),
            "messages" => Points::Messages(MessageSeries::read(&item, self.file)?),
            "deliveries" => Points::Deliveries(DeliverySeries::read(&item, self.file)?),
            _ => {
                let choices = [("repetitions", false), ("messages", true)];
                let over_messages = over.map_or(Ok(false), |over| over.choice(&choices))?;
                self.distribution(&item, over_messages)?
            }
        })
    }

    /// Parses formulas over the numbers `x`, or 1, 2, 3 and so on. On an axis of names each number has one.
    fn formulas_over(
        &self,
        x: Option<&Item<'_>>,
        y: &Item<'_>,
        axis: &Axis,
    ) -> Result<Points, FileError> {
        let places = x.map(places).transpose()?;
        let formulas = match (y.text(), &places) {
            // One formula, in which {x} is the number.
            (Ok(text), Some(places)) => {
                let at = |x: &f64| self.scope.formula(&text.replace("{x}", &x.to_string()));
                let all: Result<_, String> = places.iter().map(at).collect();
                all.map_err(|what| y.error(what))?
            }
            _ => self.formulas(y)?,
        };
        let places = places.unwrap_or_else(|| (1..=formulas.len()).map(|n| n as f64).collect());
        if places.len() != formulas.len() {
            let (x, values) = (places.len(), formulas.len());
            return Err(y.error(format!(
                "x has {x} values and y has {values}; expected as many"
            )));
        }
        let is_nameless = |place: &&f64| axis.name(**place).is_none();
        if let Some(place) = places
            .iter()
            .find(is_nameless)
            .filter(|_| !axis.names.is_empty())
        {
            let (item, last) = (x.unwrap_or(y), axis.names.len());
            return Err(item.error(format!(
                "{place} has no name on the horizontal axis; expected 1 to {last}"
            )));
        }
        let points = places.into_iter().map(Formula::Number).zip(formulas);
        Ok(Points::Formulas(points.map(Into::into).collect()))
    }

    /// Parses the distribution of the repetitions of a row, or of the messages behind it.
    fn distribution(&self, item: &Item<'_>, over_messages: bool) -> Result<Points, FileError> {
        let name: String = item.read()?;
        let row = self.published.row(&name);
        let row = row.ok_or_else(|| item.error(format!("there is no row [{name}]")))?;
        if !over_messages {
            return Ok(Points::Distribution(name));
        }
        if let Some(&MeasuredColumn { cell, column, .. }) = row.measured()
            && let (_, Measure::Flow(measure)) = columns(&self.file.cells[cell].1)[column]
            && measure.is_mean()
        {
            return Ok(Points::OfMessages { cell, column });
        }
        Err(item.error("is no mean over messages; expected a row of a measure such as delay.mean"))
    }
}

fn axis(item: &Item<'_>) -> Result<Axis, FileError> {
    item.table(|section| {
        let label: String = section.value_or("label", String::new(), Item::read)?;
        let unit: String = section.value_or("unit", String::new(), Item::read)?;
        let mut axis = match section.value("names", Item::read::<Vec<String>>)? {
            Some(names) => Axis::named(&label, &names),
            None => Axis::linear(&label, &unit),
        };
        keys!(section, axis, Item::read; scale);
        let limit = |item: &Item<'_>| item.read().map(Some);
        section.set("from", &mut axis.min, limit)?;
        section.set("to", &mut axis.max, limit)?;
        Ok(axis)
    })
}

names! {
    Scale { "linear": Linear, "log": Log }
    SeriesKind {
        "line": Line,
        "trace": Trace,
        "points": Points,
        "step": Step,
        "error-bars": ErrorBars,
    }
}

/// Parses a list of numbers, or a table with their number and ends.
fn places(item: &Item<'_>) -> Result<Vec<f64>, FileError> {
    if !item.is_table() {
        return item.read();
    }
    item.table(|section| {
        let from: f64 = section.needed("from", "a number", Item::read)?;
        let to: f64 = section.needed("to", "a number", Item::read)?;
        let count: u64 = section.needed("count", "how many numbers", |i| i.whole(2..=1000))?;
        let step = (to - from) / (count - 1) as f64;
        Ok((0..count).map(|n| from + step * n as f64).collect())
    })
}
