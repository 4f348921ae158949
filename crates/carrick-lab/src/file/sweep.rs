//! `[[sweep]]`: the cells of a file.
//!
//! Each table is one dimension; its keys change together. The cells are the product of the
//! dimensions.

use super::error::FileError;
use super::reader::{Item, Section};
use super::tree::{Node, Value};

/// One combination of swept values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index in each dimension.
    places: Vec<usize>,
    /// Swept keys and their values as text.
    values: Vec<(String, String)>,
    label: String,
}

impl Cell {
    /// Returns the swept keys and their values.
    pub fn values(&self) -> &[(String, String)] {
        &self.values
    }

    /// Returns the label; empty if there is no sweep.
    pub fn label(&self) -> &str {
        &self.label
    }
}

#[derive(Debug)]
struct Dimension<'a> {
    /// Keys, each with its values.
    keys: Vec<(&'a str, Vec<Item<'a>>)>,
    labels: Option<Vec<String>>,
    length: usize,
}

/// All dimensions of a sweep.
#[derive(Debug)]
pub(super) struct Sweep<'a>(Vec<Dimension<'a>>);

/// Maximum number of cells of a file.
const LIMIT: usize = 1_000_000;

impl<'a> Sweep<'a> {
    pub(super) fn read(root: &Section<'a>) -> Result<Self, FileError> {
        let Some(item) = root.get("sweep") else {
            return Ok(Self(Vec::new()));
        };
        let mut all = Vec::new();
        let mut cells = 1_usize;
        for table in item
            .list()
            .map_err(|_| item.wrong("tables such as [[sweep]]"))?
        {
            let dimension = Dimension::read(&table)?;
            cells = cells.saturating_mul(dimension.length);
            all.push(dimension);
        }
        if cells > LIMIT {
            return Err(item.error(format!("{cells} cells are more than {LIMIT}")));
        }
        Ok(Self(all))
    }

    /// Returns all cells; the last dimension changes fastest.
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> {
        let count: usize = self.0.iter().map(|d| d.length).product();
        (0..count).map(|number| self.cell(number))
    }

    fn cell(&self, number: usize) -> Cell {
        let mut rest = number;
        let mut places: Vec<usize> = self
            .0
            .iter()
            .rev()
            .map(|dimension| {
                let place = rest % dimension.length;
                rest /= dimension.length;
                place
            })
            .collect();
        places.reverse();
        let mut values = Vec::new();
        let mut labels = Vec::new();
        for (dimension, &place) in self.0.iter().zip(&places) {
            let own = dimension.keys.iter();
            let own: Vec<(String, String)> = own
                .map(|(key, items)| ((*key).into(), items[place].node.shown()))
                .collect();
            labels.push(match &dimension.labels {
                Some(labels) => labels[place].clone(),
                None => own
                    .iter()
                    .map(|(key, value)| {
                        format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
            });
            values.extend(own);
        }
        Cell {
            places,
            values,
            label: labels.join(", "),
        }
    }

    /// Writes a cell's values into a tree. No key of a cell may overwrite a value that another key
    /// of the cell has set, because the label contains both.
    pub(super) fn apply(&self, cell: &Cell, tree: &mut Node) -> Result<(), FileError> {
        let mut set: Vec<(Vec<String>, &str, usize)> = Vec::new();
        for (dimension, &place) in self.0.iter().zip(&cell.places) {
            for (key, items) in &dimension.keys {
                let item = &items[place];
                let path: Vec<&str> = key.split('.').collect();
                let places = tree.replace(&path, item.node);
                if places.is_empty() {
                    return Err(item.error(format!(
                        "the file has no key {key:?}: expected a key such as \"links.far.loss\", with * for every name"
                    )));
                }
                for place in places {
                    if let Some((_, other, line)) =
                        set.iter().find(|(earlier, ..)| earlier.starts_with(&place))
                    {
                        return Err(item.error(format!(
                            "sets {} again, after {other:?} in line {line}: expected each key once in a sweep",
                            place.join(".")
                        )));
                    }
                    set.push((place, *key, item.node.line));
                }
            }
        }
        Ok(())
    }
}

/// Keys that cannot be swept, because all cells share them.
const FIXED: [&str; 6] = [
    "sweep",
    "measure",
    "repetitions",
    "seed",
    "title",
    "question",
];

impl<'a> Dimension<'a> {
    fn read(table: &Item<'a>) -> Result<Self, FileError> {
        let mut keys: Vec<(&'a str, Vec<Item<'a>>)> = Vec::new();
        let mut labels = None;
        for (key, item) in flatten(table)? {
            let values = item.list().map_err(|_| item.wrong("a list of values"))?;
            if values.is_empty() {
                return Err(item.wrong("at least one value"));
            }
            if key == "labels" {
                let texts: Result<Vec<String>, _> = values
                    .iter()
                    .map(|item| item.text().map(Into::into))
                    .collect();
                labels = Some((item, texts?));
                continue;
            }
            if FIXED.contains(&key.split('.').next().unwrap_or(key)) {
                return Err(item.error("can't be swept: all cells share it"));
            }
            if let Some((first, others)) = keys.first()
                && others.len() != values.len()
            {
                return Err(item.error(format!(
                    "has {} values and {first} has {}: keys of one [[sweep]] change together",
                    values.len(),
                    others.len()
                )));
            }
            keys.push((key, values));
        }
        let Some(length) = keys.first().map(|(_, values)| values.len()) else {
            return Err(table.wrong("a key such as \"links.far.loss\" with a list of values"));
        };
        if let Some((item, texts)) = &labels
            && texts.len() != length
        {
            return Err(item.error(format!("expected {length} labels, one for each value")));
        }
        Ok(Self {
            keys,
            labels: labels.map(|(_, texts)| texts),
            length,
        })
    }
}

/// Returns the entries of a table, whose keys are in quotes, such as `"links.far.loss"`.
fn flatten<'a>(table: &Item<'a>) -> Result<Vec<(&'a str, Item<'a>)>, FileError> {
    let entries = table.entries()?;
    if let Some((key, item)) = entries
        .iter()
        .find(|(_, item)| matches!(item.node.value, Value::Table(_)))
    {
        let what = format!("write the whole key in quotes, such as \"{key}.name.loss\"");
        return Err(item.error(what));
    }
    Ok(entries)
}
