//! `[[sweep]]` and `[[cell]]`: the cells of a file.
//!
//! Each `[[sweep]]` is one dimension; its keys change together. The tables `[[cell]]` are a dimension, too:
//! each of them lists the keys of one value. The cells are the product of the dimensions.

use super::error::FileError;
use super::reader::{Item, Section};
use super::tree::{self, Node};

/// One combination of swept values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index in each dimension.
    places: Vec<usize>,
    /// Swept keys and their values as text.
    values: Vec<(String, String)>,
    label: String,
    curve: String,
    name: String,
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

    /// Returns the label without the first swept key: that of the cell's curve in a figure over this key.
    pub(super) fn curve(&self) -> &str {
        &self.curve
    }

    /// Returns the names given in the dimensions, joined by dots; empty if there are none.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A dimension, whose keys change together.
#[derive(Debug, Default)]
struct Dimension<'a> {
    keys: Vec<&'a str>,
    places: Vec<DimensionValue<'a>>,
}

/// Values of a dimension at one place; a cell of `[[cell]]` need not have all keys.
#[derive(Clone, Debug, Default)]
struct DimensionValue<'a> {
    /// Part of the cells' names; an empty one leaves no trace in the name.
    name: String,
    /// Part of the cells' labels; the keys and values if not given.
    label: Option<String>,
    values: Vec<(&'a str, Item<'a>)>,
}

impl DimensionValue<'_> {
    /// Returns the value of a key as text; empty if it has none.
    fn text(&self, key: &str) -> String {
        let own = self.values.iter().find(|(own, _)| *own == key);
        own.map_or_else(String::new, |(_, item)| item.node.shown())
    }
}

/// All dimensions of a sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep<'a> {
    dimensions: Vec<Dimension<'a>>,
    /// Patterns of the names of the cells; `None` for all.
    only: Option<Vec<String>>,
}

/// Maximum number of cells of a file.
const LIMIT: usize = 1_000_000;

impl<'a> Sweep<'a> {
    pub(super) fn read(root: &Section<'a>) -> Result<Self, FileError> {
        let (listed, swept) = (root.get("cell"), root.get("sweep"));
        let Some(item) = swept.as_ref().or(listed.as_ref()) else {
            return Ok(Self::default());
        };
        let mut all = Vec::new();
        if let Some(item) = &listed {
            all.push(Dimension::of_cells(item)?);
        }
        if let Some(item) = &swept {
            for table in item.tables("[[sweep]]")? {
                all.push(Dimension::read(&table)?);
            }
        }
        let sizes = all.iter().map(|own| own.places.len());
        let cells = sizes.fold(1, usize::saturating_mul);
        if cells > LIMIT {
            return Err(item.error(format!("{cells} cells are more than {LIMIT}")));
        }
        let mut all = Self {
            dimensions: all,
            only: None,
        };
        if let Some(item) = root.get("only") {
            all.only = Some(item.each(|pattern| {
                let text: String = pattern.read()?;
                if all.cells().any(|cell| matches(&text, &cell.name)) {
                    Ok(text)
                } else {
                    Err(pattern.error("no cell has this name"))
                }
            })?);
        }
        let mut known = std::collections::BTreeSet::new();
        for cell in all.cells().filter(|cell| !cell.name.is_empty()) {
            if !known.insert(cell.name.clone()) {
                let name = &cell.name;
                return Err(item.error(format!(
                    "two cells have the name {name:?}; expected different names"
                )));
            }
        }
        Ok(all)
    }

    /// Returns all cells; the last dimension changes fastest.
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> {
        let count: usize = self.dimensions.iter().map(|d| d.places.len()).product();
        let wanted = |cell: &Cell| {
            let only = self.only.as_ref();
            only.is_none_or(|only| only.iter().any(|own| matches(own, &cell.name)))
        };
        (0..count)
            .map(|number| self.cell(number))
            .filter(move |cell| wanted(cell))
    }

    fn cell(&self, number: usize) -> Cell {
        let mut rest = number;
        let mut places = vec![0; self.dimensions.len()];
        for (place, dimension) in places.iter_mut().zip(&self.dimensions).rev() {
            *place = rest % dimension.places.len();
            rest /= dimension.places.len();
        }
        let mut values = Vec::new();
        let mut labels = Vec::new();
        let mut curve = Vec::new();
        let mut names = Vec::new();
        let shown = |(key, value): &(String, String)| {
            let key = key.rsplit('.').next().unwrap_or(key);
            format!("{key} {value}")
        };
        for (number, (dimension, &place)) in self.dimensions.iter().zip(&places).enumerate() {
            let place = &dimension.places[place];
            names.extend(Some(place.name.as_str()).filter(|name| !name.is_empty()));
            let own = dimension.keys.iter();
            let own: Vec<(String, String)> = own
                .map(|key| ((*key).to_owned(), place.text(key)))
                .collect();
            let label: Vec<String> = match &place.label {
                Some(given) => vec![given.clone()],
                None => own.iter().map(shown).collect(),
            };
            if number == 0 {
                curve.extend(own.iter().skip(1).map(shown));
            } else {
                curve.extend(label.iter().cloned());
            }
            labels.extend(label);
            values.extend(own);
        }
        Cell {
            places,
            values,
            label: labels.join(", "),
            curve: curve.join(", "),
            name: names.join("."),
        }
    }

    /// Writes a cell's values into a tree. No key of a cell may overwrite a value that another key
    /// of the cell has set, because the label contains both, or one of the caller's `changed` keys.
    pub(super) fn apply(
        &self,
        cell: &Cell,
        changed: &[Vec<String>],
        tree: &mut Node,
    ) -> Result<(), FileError> {
        let mut set: Vec<(Vec<String>, &str, usize)> = Vec::new();
        for (dimension, &place) in self.dimensions.iter().zip(&cell.places) {
            for (key, item) in &dimension.places[place].values {
                let path: Vec<&str> = key.split('.').collect();
                let places = tree.replace(&path, item.node);
                if places.is_empty() {
                    let missing = path[..path.len().min(tree.depth_of(&path) + 1)].join(".");
                    return Err(item.error(format!(
                        "the file has no {missing:?}: expected a key of a table that it has, such as \"links.far.loss\", with * for every name"
                    )));
                }
                for place in places {
                    if changed.iter().any(|key| key.starts_with(&place)) {
                        return Err(item.error(format!(
                            "sets {}, which is changed, too: change keys that are not swept",
                            place.join(".")
                        )));
                    }
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
const FIXED: [&str; 10] = [
    "cell",
    "sweep",
    "only",
    "measure",
    "full_only",
    "live",
    "once",
    "seed",
    "title",
    "question",
];

/// Keys whose value may be a table with the values of short and of full runs.
const TABLES: [&str; 3] = ["duration", "warmup", "repetitions"];

impl<'a> Dimension<'a> {
    /// Parses all `[[cell]]`, each with a name, perhaps a label, and its values of some keys.
    fn of_cells(item: &Item<'a>) -> Result<Self, FileError> {
        let mut own = Self::default();
        for table in item.tables("[[cell]]")? {
            let mut place = DimensionValue::default();
            for (key, item) in table.entries()? {
                match key {
                    "name" => place.name = text_of_name(&item)?,
                    "label" => place.label = Some(item.read()?),
                    _ if !key.contains('.') && !TABLES.contains(&key) && item.is_table() => {
                        return Err(unquoted(key, &item));
                    }
                    _ => {
                        check_key(key, &item)?;
                        if !own.keys.contains(&key) {
                            own.keys.push(key);
                        }
                        place.values.push((key, item));
                    }
                }
            }
            if place.name.is_empty() {
                return Err(
                    table.error("name: missing; expected letters, digits, hyphens and dots")
                );
            }
            place.label.get_or_insert_with(|| place.name.clone());
            own.places.push(place);
        }
        Ok(own)
    }

    fn read(table: &Item<'a>) -> Result<Self, FileError> {
        let entries = flatten(table)?;
        let is_swept = |key: &str| !matches!(key, "labels" | "names");
        let Some((first, item)) = entries.iter().find(|(key, _)| is_swept(key)) else {
            return Err(table.wrong("a key such as \"links.far.loss\" with a list of values"));
        };
        let list = |item: &Item<'a>| item.list().map_err(|_| item.wrong("a list of values"));
        let length = list(item)?.len();
        let mut own = Self {
            keys: Vec::new(),
            places: vec![DimensionValue::default(); length],
        };
        for (key, item) in &entries {
            let values = list(item)?;
            let found = values.len();
            if found == 0 {
                return Err(item.wrong("at least one value"));
            }
            if found != length {
                return Err(item.error(format!(
                    "has {found} values and {first} has {length}: keys of one [[sweep]] change together"
                )));
            }
            if is_swept(key) {
                check_key(key, item)?;
                own.keys.push(key);
            }
            for (place, value) in own.places.iter_mut().zip(values) {
                match *key {
                    "labels" => place.label = Some(value.read()?),
                    "names" => place.name = text_of_name(&value)?,
                    _ => place.values.push((key, value)),
                }
            }
        }
        Ok(own)
    }
}

/// Returns whether a pattern matches the name of a cell, part by part.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let parts = |text: &str| text.matches('.').count();
    let mut pairs = pattern.split('.').zip(name.split('.'));
    parts(pattern) == parts(name) && pairs.all(|(pattern, name)| tree::matches(pattern, name))
}

/// Parses a part of a cell's name, which is one of files and on the command line.
fn text_of_name(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text()?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !text.chars().all(allowed) || text.starts_with(['-', '.']) || text.ends_with('.') {
        return Err(item.error(format!(
            "{text:?} is not a name; expected letters, digits, hyphens and dots"
        )));
    }
    Ok(text.into())
}

/// Rejects a key that all cells share.
fn check_key(key: &str, item: &Item<'_>) -> Result<(), FileError> {
    if FIXED.contains(&key.split('.').next().unwrap_or(key)) {
        return Err(item.error("can't be swept: all cells share it"));
    }
    Ok(())
}

fn unquoted(key: &str, item: &Item<'_>) -> FileError {
    item.error(format!(
        "write the whole key in quotes, such as \"{key}.name.loss\""
    ))
}

/// Returns the entries of a table, whose keys are in quotes, such as `"links.far.loss"`.
fn flatten<'a>(table: &Item<'a>) -> Result<Vec<(&'a str, Item<'a>)>, FileError> {
    let entries = table.entries()?;
    if let Some((key, item)) = entries.iter().find(|(_, item)| item.is_table()) {
        return Err(unquoted(key, item));
    }
    Ok(entries)
}
