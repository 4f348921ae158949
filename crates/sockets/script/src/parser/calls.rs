//! Calls of the sockets API and their arguments.

use super::{Parsed, Parser};
use crate::constants::error_number;
use crate::model::{Call, CallResult, Expression, ExpressionKind};

impl Parser<'_> {
    pub(super) fn call(&mut self) -> Parsed<Call> {
        let name = self
            .word("`<`, `>`, a command in backticks or a call, such as `socket(...) = 3`")?
            .to_owned();
        self.expect("(")?;
        let arguments = self.arguments()?;
        self.expect("=")?;
        let result = self.call_result()?;
        Ok(Call {
            name,
            arguments,
            result,
        })
    }

    /// Parses arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Parsed<Vec<Expression>> {
        let mut arguments = Vec::new();
        if self.take(")")? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.take(",")? {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn call_result(&mut self) -> Parsed<CallResult> {
        if self.take("...")? {
            return Ok(CallResult::Any);
        }
        let number = self.integer("a result: a number, `-1 ERROR` or `...`")?;
        let mut result = CallResult::Number(number);
        // An error is on the same line as its -1.
        let line = self
            .rest()
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_start();
        if number == -1 && line.starts_with('E') {
            self.skip()?;
            let start = self.at;
            let name = self.word("the name of an error")?;
            if error_number(name).is_none() {
                self.at = start;
                return Err(self.error(format!("unknown error {name}")));
            }
            result = CallResult::Error(name.to_owned());
        }
        let line = self
            .rest()
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_start();
        if line.starts_with('(') {
            let end = self.rest().find(')');
            let end = end.ok_or_else(|| self.error("the explanation has no end `)`"))?;
            self.at += end + 1;
        }
        Ok(result)
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.deeper()?;
        self.skip()?;
        let position = self.position();
        let first = self.term()?;
        let mut flags = vec![first];
        while self.take("|")? {
            flags.push(self.term()?);
        }
        self.depth -= 1;
        let last = if flags.len() == 1 { flags.pop() } else { None };
        Ok(last.unwrap_or(Expression {
            position,
            kind: ExpressionKind::Flags(flags),
        }))
    }

    fn term(&mut self) -> Parsed<Expression> {
        self.skip()?;
        let position = self.position();
        let kind = match self.peek() {
            Some('.') => {
                self.expect("...")?;
                ExpressionKind::Ellipsis
            }
            Some('$') => {
                self.at += 1;
                ExpressionKind::Variable(self.word("the name of a variable")?.to_owned())
            }
            Some('"') => ExpressionKind::Text(self.string()?),
            Some('[') => match self.list(Self::expression)? {
                // A list of anything.
                list if matches!(list.as_slice(), [any] if any.kind == ExpressionKind::Ellipsis) => {
                    ExpressionKind::Ellipsis
                }
                list => ExpressionKind::Array(list),
            },
            Some('{') => ExpressionKind::Struct(self.structure()?),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                ExpressionKind::Number(self.integer("a number")?)
            }
            _ => {
                let name = self.word("a value")?.to_owned();
                if self.take("(")? {
                    ExpressionKind::Function(name, self.arguments()?)
                } else {
                    ExpressionKind::Name(name)
                }
            }
        };
        Ok(Expression { position, kind })
    }

    fn structure(&mut self) -> Parsed<Vec<(String, Expression)>> {
        let mut fields = Vec::new();
        self.expect("{")?;
        if self.take("}")? {
            return Ok(fields);
        }
        loop {
            let name = self.field_name()?;
            fields.push((name, self.expression()?));
            if !self.take(",")? {
                self.expect("}")?;
                return Ok(fields);
            }
        }
    }

    /// Parses `name=`, or `name(length)=` as in `msg_iov(1)=`; returns an empty name if there is none.
    fn field_name(&mut self) -> Parsed<String> {
        self.skip()?;
        let start = self.at;
        let Ok(name) = self.word("a field") else {
            return Ok(String::new());
        };
        if self.take("(")? {
            let rest = self.rest();
            self.at += rest.find(')').map_or(rest.len(), |at| at + 1);
        }
        if self.take("=")? {
            return Ok(name.to_owned());
        }
        self.at = start;
        Ok(String::new())
    }
}
