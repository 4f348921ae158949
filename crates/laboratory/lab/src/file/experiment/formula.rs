//! Formulas over numbers, names and rows: `100 * ([b.goodput] / [a.goodput] - 1)`.
//!
//! | form | value |
//! |---|---|
//! | `2.5`, `name` | a number, a name of the context such as a column or a measure |
//! | `[id]` | the mean of a row; `median[id]`, `least[id]`, `most[id]`, `count[id]`, `half[id]` (half width of the interval), `published[id]`, `bound[id]`, `all[id]` (the mean of all repetitions in a formula over each) |
//! | `+ - * / ^`, `( )` | arithmetic |
//! | `< <= = != >= >`, `and`, `or` | 1 if true, 0 if not |
//! | `min(a, b)`, `max(a, b)` | the least and the largest of two or more |
//! | `abs(a)`, `sqrt(a)`, `log(a)`, `floor(a)`, `ceil(a)` | functions; `log` is the natural logarithm |
//!
//! A value that does not exist, such as the mean of a row without repetitions, makes the whole formula
//! have none.

use super::super::error::FileError;
use super::super::reader::{FromItem, Item};

/// A parsed formula.
#[derive(Clone, Debug)]
pub(super) enum Formula {
    Number(f64),
    Name(String),
    /// Attribute and identifier of a row.
    Row(RowAttribute, String),
    Negative(Box<Self>),
    Binary(Operator, Box<[Self; 2]>),
    Call(Function, Vec<Self>),
}

/// A number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowAttribute {
    Mean,
    /// Mean of all repetitions, also in a formula over each of them.
    All,
    Median,
    Least,
    Most,
    Count,
    HalfWidth,
    Published,
    Bound,
}

const ATTRIBUTES: [(&str, RowAttribute); 9] = [
    ("mean", RowAttribute::Mean),
    ("median", RowAttribute::Median),
    ("least", RowAttribute::Least),
    ("most", RowAttribute::Most),
    ("count", RowAttribute::Count),
    ("half", RowAttribute::HalfWidth),
    ("published", RowAttribute::Published),
    ("bound", RowAttribute::Bound),
    ("all", RowAttribute::All),
];

impl RowAttribute {
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = ATTRIBUTES.iter().find(|(own, _)| *own == name);
        found.map(|(_, attribute)| *attribute)
    }
}

/// An operator with two operands.
type Operator = fn(f64, f64) -> f64;

/// Operators with their precedence; a longer text comes before its beginning.
const OPERATORS: [(&str, u8, Operator); 13] = [
    ("or", 0, |a, b| truth(a != 0.0 || b != 0.0)),
    ("and", 1, |a, b| truth(a != 0.0 && b != 0.0)),
    ("<=", 2, |a, b| truth(a <= b)),
    ("<", 2, |a, b| truth(a < b)),
    ("!=", 2, |a, b| truth((a - b).abs() >= 1e-9)),
    ("=", 2, |a, b| truth((a - b).abs() < 1e-9)),
    (">=", 2, |a, b| truth(a >= b)),
    (">", 2, |a, b| truth(a > b)),
    ("+", 3, |a, b| a + b),
    ("-", 3, |a, b| a - b),
    ("*", 4, |a, b| a * b),
    ("/", 4, |a, b| a / b),
    ("^", 5, f64::powf),
];

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A function of one number, or of two or more from left to right.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    OfOne(fn(f64) -> f64),
    OfSeveral(fn(f64, f64) -> f64),
}

const FUNCTIONS: [(&str, Function); 7] = [
    ("min", Function::OfSeveral(f64::min)),
    ("max", Function::OfSeveral(f64::max)),
    ("abs", Function::OfOne(f64::abs)),
    ("sqrt", Function::OfOne(f64::sqrt)),
    ("log", Function::OfOne(f64::ln)),
    ("floor", Function::OfOne(f64::floor)),
    ("ceil", Function::OfOne(f64::ceil)),
];

/// A part of a formula whose value the context knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand<'f> {
    Name(&'f str),
    /// Attribute and identifier of a row.
    Row(RowAttribute, &'f str),
}

/// Values of the operands of a formula in a context.
pub(super) type Values<'v> = &'v dyn Fn(Operand<'_>) -> Option<f64>;

impl FromItem for Formula {
    fn from_item(item: &Item<'_>) -> Result<Self, FileError> {
        if let Some(number) = item.node.number() {
            return Ok(Self::Number(number));
        }
        Self::parse(item.text()?).map_err(|what| item.error(what))
    }
}

impl Formula {
    /// Parses a text.
    ///
    /// # Errors
    /// What was expected, and where.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            text,
            rest: text,
            depth: 0,
        };
        let formula = parser.binary(0)?;
        if parser.rest.is_empty() {
            Ok(formula)
        } else {
            Err(parser.expected("an operator or the end"))
        }
    }

    /// Computes the value; `None` if a part has none.
    pub(super) fn value(&self, values: Values<'_>) -> Option<f64> {
        let found = match self {
            Self::Number(number) => *number,
            Self::Name(name) => values(Operand::Name(name))?,
            Self::Row(attribute, id) => values(Operand::Row(*attribute, id))?,
            Self::Negative(inner) => -inner.value(values)?,
            Self::Binary(operator, ends) => {
                operator(ends[0].value(values)?, ends[1].value(values)?)
            }
            Self::Call(function, arguments) => {
                let arguments: Option<Vec<f64>> =
                    arguments.iter().map(|a| a.value(values)).collect();
                match function {
                    Function::OfOne(function) => function(*arguments?.first()?),
                    Function::OfSeveral(function) => arguments?.into_iter().reduce(function)?,
                }
            }
        };
        found.is_finite().then_some(found)
    }

    /// Returns the names and the rows that the formula uses.
    pub(super) fn uses(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        self.collect(&mut names, &mut rows);
        (names, rows)
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>, rows: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => names.push(name),
            Self::Row(_, id) => rows.push(id),
            Self::Negative(inner) => inner.collect(names, rows),
            Self::Binary(_, ends) => ends.iter().for_each(|end| end.collect(names, rows)),
            Self::Call(_, arguments) => arguments.iter().for_each(|a| a.collect(names, rows)),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    /// Open parentheses and signs.
    depth: usize,
}

impl<'t> Parser<'t> {
    /// Most parentheses and signs inside one another.
    const DEEPEST: usize = 50;

    fn expected(&self, what: &str) -> String {
        let at = self.text.len() - self.rest.len();
        match self.rest.chars().next() {
            Some(_) => format!("expected {what} at \"{}\"", self.rest),
            None => format!("expected {what} after \"{}\"", &self.text[..at]),
        }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes this text, if it is next.
    fn take(&mut self, wanted: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(wanted) else {
            return false;
        };
        self.rest = rest;
        self.skip();
        true
    }

    fn word(&mut self) -> Option<&'t str> {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(word)
    }

    fn operator(&self, least: u8) -> Option<(&'static str, u8, Operator)> {
        let found = OPERATORS.iter().find(|(text, ..)| {
            let Some(rest) = self.rest.strip_prefix(text) else {
                return false;
            };
            let word = text.chars().all(|c| c.is_ascii_alphabetic());
            !(word && rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        })?;
        (found.1 >= least).then_some(*found)
    }

    /// Parses operators of at least this precedence.
    fn binary(&mut self, least: u8) -> Result<Formula, String> {
        self.skip();
        let mut left = self.unary()?;
        while let Some((text, precedence, operator)) = self.operator(least) {
            self.take(text);
            // Operators of equal precedence are evaluated from the left.
            let right = self.binary(precedence + 1)?;
            left = Formula::Binary(operator, Box::new([left, right]));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > Self::DEEPEST {
            return Err("expected fewer parentheses and signs".into());
        }
        let formula = if self.take("-") {
            // A power binds more tightly than the sign.
            Formula::Negative(Box::new(self.binary(5)?))
        } else if self.take("(") {
            let inner = self.binary(0)?;
            if !self.take(")") {
                return Err(self.expected("\")\""));
            }
            inner
        } else if self.rest.starts_with('[') {
            self.row(RowAttribute::Mean)?
        } else {
            self.named()?
        };
        self.depth -= 1;
        self.skip();
        Ok(formula)
    }

    fn row(&mut self, attribute: RowAttribute) -> Result<Formula, String> {
        let end = self.rest.find(']').ok_or_else(|| self.expected("\"]\""))?;
        let id = self.rest[1..end].trim().to_owned();
        self.rest = &self.rest[end + 1..];
        Ok(Formula::Row(attribute, id))
    }

    fn named(&mut self) -> Result<Formula, String> {
        let wrong = self.expected("a number, a name, a row in brackets or a parenthesis");
        let word = self.word().ok_or_else(|| wrong.clone())?;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return word.parse().map(Formula::Number).map_err(|_| wrong);
        }
        if self.rest.starts_with('[') {
            let attribute = RowAttribute::named(word).ok_or_else(|| {
                let names = ATTRIBUTES.map(|(name, _)| name).join(", ");
                format!("{word} is not a number of a row; expected one of {names}")
            })?;
            return self.row(attribute);
        }
        if !self.take("(") {
            return Ok(Formula::Name(word.into()));
        }
        let found = FUNCTIONS.iter().find(|(name, _)| *name == word);
        let (name, function) = *found.ok_or_else(|| {
            let names = FUNCTIONS.map(|(name, _)| name).join(", ");
            format!("{word} is not a function; expected one of {names}")
        })?;
        let mut arguments = vec![self.binary(0)?];
        while self.take(",") {
            arguments.push(self.binary(0)?);
        }
        if !self.take(")") {
            return Err(self.expected("\")\""));
        }
        let expected = match (function, arguments.len()) {
            (Function::OfOne(_), 1) | (Function::OfSeveral(_), 2..) => None,
            (Function::OfOne(_), _) => Some("1 argument"),
            (Function::OfSeveral(_), _) => Some("at least 2 arguments"),
        };
        if let Some(expected) = expected {
            let found = arguments.len();
            return Err(format!("{name} has {expected}, found {found}"));
        }
        Ok(Formula::Call(function, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(operand: Operand<'_>) -> Option<f64> {
        match operand {
            Operand::Name("two") => Some(2.0),
            Operand::Name("delay.p99") => Some(99.0),
            Operand::Row(RowAttribute::Mean, "a.b-c") => Some(8.0),
            Operand::Row(RowAttribute::Published, "a.b-c") => Some(10.0),
            _ => None,
        }
    }

    fn value(text: &str) -> Option<f64> {
        Formula::parse(text).expect(text).value(&fixed)
    }

    #[test]
    fn operators_have_their_usual_precedence() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("8 - 4 - 2", 2.0),
            ("-two ^ 2", -4.0),
            ("2 * (1 + 3)", 8.0),
            ("1 < 2 and 3 > 4 or 1", 1.0),
            ("0.5*two", 1.0),
            ("max(min(3, 1), two) + abs(-1)", 3.0),
            ("two != 2", 0.0),
            ("min(3, two, 4) + max(1, 2, 3, 4)", 6.0),
            ("floor(two * 1.9)", 3.0),
            ("ceil(two / 1.9)", 2.0),
        ] {
            let found = value(text).expect(text);
            assert!((found - expected).abs() < 1e-12, "{text}: {found}");
        }
    }

    #[test]
    fn rows_and_names_are_looked_up() {
        assert_eq!(
            value("100 * ([a.b-c] / published[a.b-c] - 1)"),
            Some(-19.999_999_999_999_996)
        );
        assert_eq!(value("delay.p99 - 1"), Some(98.0));
        assert_eq!(value("median[a.b-c]"), None, "the row has none");
        assert_eq!(value("1 / 0"), None, "not a number");
        let formula = Formula::parse("[x] + y * max[z]").expect_err("max is a function");
        assert!(formula.contains("mean, median"), "{formula}");
        let formula = Formula::parse("[x] + y * most[z]").expect("valid");
        assert_eq!(formula.uses(), (vec!["y"], vec!["x", "z"]));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, expected) in [
            ("1 +", "after \"1 +\""),
            ("(1", "expected \")\" after"),
            ("1 2", "at \"2\""),
            ("[a", "expected \"]\""),
            ("min(1)", "2 arguments, found 1"),
            ("sin(1)", "one of min, max"),
            ("", "expected a number"),
            ("1 ~ 2", "at \"~ 2\""),
        ] {
            let error = Formula::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = "(".repeat(10_000);
        assert!(Formula::parse(&deep).is_err());
    }
}
