//! Texts with formulas in braces: `{[a.goodput]} kbit/s`, `{[a.goodput]:.1}`, `{difference:+.0} %`.

use super::formula::{Formula, Values};
use crate::format;

/// A parsed text.
#[derive(Clone, Debug, Default)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Value(Formula, Form),
}

/// Form of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// About four significant digits.
    Measured,
    /// This number of decimals, with a sign if it is true.
    Fixed(bool, usize),
}

impl Template {
    /// Parses a text. A doubled brace stands for a single one.
    ///
    /// # Errors
    /// The first formula or form that is invalid.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            if rest[at + 1..].starts_with(brace) {
                plain.push_str(brace);
                rest = &rest[at + 2..];
                continue;
            }
            let end = rest.find('}').filter(|_| brace == "{");
            let end =
                end.ok_or_else(|| format!("expected \"{{formula}}\" at \"{}\"", &rest[at..]))?;
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(Self::value(&rest[at + 1..end])?);
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    fn value(text: &str) -> Result<Piece, String> {
        let (formula, form) = text.split_once(':').unwrap_or((text, ""));
        let parsed = match form.strip_prefix('+').unwrap_or(form).strip_prefix('.') {
            Some(decimals) => decimals
                .parse()
                .ok()
                .filter(|decimals| *decimals <= 9)
                .map(|decimals| Form::Fixed(form.starts_with('+'), decimals)),
            None => form.is_empty().then_some(Form::Measured),
        };
        let form = parsed.ok_or_else(|| {
            format!("\"{form}\" is not a form; expected decimals such as \".1\" or \"+.0\"")
        })?;
        Formula::parse(formula).map(|formula| Piece::Value(formula, form))
    }

    /// Returns the formulas.
    pub(super) fn formulas(&self) -> impl Iterator<Item = &Formula> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Value(formula, _) => Some(formula),
            Piece::Text(_) => None,
        })
    }

    /// Returns the text with the values of its formulas.
    pub(super) fn fill(&self, values: Values<'_>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(formula, form) => match (formula.value(values), form) {
                (None, _) => format::ABSENT.into(),
                (Some(value), Form::Measured) => format::measured(value),
                (Some(value), Form::Fixed(true, decimals)) => format!("{value:+.decimals$}"),
                (Some(value), Form::Fixed(false, decimals)) => format!("{value:.decimals$}"),
            },
        };
        self.0.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::formula::Operand;
    use super::*;

    #[test]
    fn formulas_are_filled_in_with_their_form() {
        let only = |operand: Operand<'_>| match operand {
            Operand::Name("x") => Some(12.345),
            _ => None,
        };
        let fill = |text: &str| Template::parse(text).expect(text).fill(&only);
        assert_eq!(fill("a {x} b {x * 2:.1}"), "a 12.35 b 24.7");
        assert_eq!(fill("{x - 20:+.0} and {x:+.2}"), "-8 and +12.35");
        assert_eq!(fill("{{x}} {y} {[row]}"), "{x} – –");
    }

    #[test]
    fn invalid_pieces_are_errors() {
        for (text, expected) in [
            ("a {x", "expected \"{formula}\" at \"{x\""),
            ("a } b", "at \"} b\""),
            ("{x:z}", "\"z\" is not a form"),
            ("{x +}", "expected a number"),
        ] {
            let error = Template::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
