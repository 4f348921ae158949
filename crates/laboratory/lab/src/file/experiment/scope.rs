//! Operands that the formulas at a place of an experiment's files may have.

use super::super::error::FileError;
use super::super::reader::Item;
use super::formula::Formula;
use super::template::Template;

/// Names and rows that are known at a place.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    /// Returns whether a name is known.
    pub(super) names: &'s dyn Fn(&str) -> bool,
    /// Returns whether there is a row of this identifier.
    pub(super) rows: &'s dyn Fn(&str) -> bool,
    /// Description of both for errors.
    pub(super) expected: &'s str,
}

impl Scope<'_> {
    /// Parses a formula.
    ///
    /// # Errors
    /// What was expected, and where, or the first operand that is not known.
    pub(super) fn formula(&self, text: &str) -> Result<Formula, String> {
        let formula = Formula::parse(text)?;
        self.check(&formula)?;
        Ok(formula)
    }

    /// Parses a text with formulas.
    ///
    /// # Errors
    /// See [`Self::formula`].
    pub(super) fn template(&self, text: &str) -> Result<Template, String> {
        let template = Template::parse(text)?;
        template.formulas().try_for_each(|own| self.check(own))?;
        Ok(template)
    }

    /// Parses a formula or a number of a file.
    pub(super) fn formula_of(&self, item: &Item<'_>) -> Result<Formula, FileError> {
        let formula: Formula = item.read()?;
        self.check(&formula).map_err(|what| item.error(what))?;
        Ok(formula)
    }

    /// Parses a text with formulas of a file.
    pub(super) fn template_of(&self, item: &Item<'_>) -> Result<Template, FileError> {
        self.template(item.text()?).map_err(|what| item.error(what))
    }

    fn check(&self, formula: &Formula) -> Result<(), String> {
        let (names, rows) = formula.uses();
        let name = names.iter().find(|name| !(self.names)(name));
        let row = rows.iter().find(|id| !(self.rows)(id));
        let unknown = name.map(|name| format!("{name:?}"));
        match unknown.or_else(|| row.map(|id| format!("[{id}]"))) {
            None => Ok(()),
            Some(unknown) => Err(format!(
                "{unknown} is not known here; expected {}",
                self.expected
            )),
        }
    }
}
