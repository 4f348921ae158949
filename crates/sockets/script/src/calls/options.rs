//! Calls of socket options.

use carrick_sockets::Errno;

use super::{CallOutcome, Called, MAX_BUFFER, done, error, struct_difference};
use crate::compare::Difference;
use crate::model::{Expression, ExpressionKind};
use crate::run::Runner;
use crate::structs::{StructLayout, number};

impl Runner<'_> {
    pub(super) fn setsockopt(
        &mut self,
        fd: &Expression,
        (level, name): (&Expression, &Expression),
        value: &Expression,
        len: &Expression,
    ) -> Called<CallOutcome> {
        let socket = self.descriptor(fd)?.socket;
        let option = (number(level)?, number(name)?);
        let mut value = encode_option(option, value)?;
        if len.kind != ExpressionKind::Ellipsis {
            // The C library passes as many bytes, the ones behind the value included.
            match number(len)? {
                len @ 0..=MAX_BUFFER => value.resize(self.size_here(option, len as usize), 0),
                _ => return done(Err(Errno::EINVAL)),
            }
        }
        let option = (option.0 as i32, option.1 as i32);
        let result = self.sockets.setsockopt(self.now, socket, option, &value);
        done(result.map(i64::from))
    }

    pub(super) fn getsockopt(
        &mut self,
        fd: &Expression,
        (level, name): (&Expression, &Expression),
        value: &Expression,
        size: &Expression,
    ) -> Called<CallOutcome> {
        let socket = self.descriptor(fd)?.socket;
        let (level, name) = (number(level)?, number(name)?);
        let mut buffer = encode_option((level, name), value)?;
        let capacity = buffer_size(size)?.map(|size| self.size_here((level, name), size));
        if let Some(capacity) = capacity {
            buffer.resize(capacity, 0);
        }
        let option = (level as i32, name as i32);
        let bytes = match self.sockets.getsockopt(self.now, socket, option, &buffer) {
            Ok(bytes) => bytes,
            Err(error) => return done(Err(error)),
        };
        let mut difference = compare_option((level, name), value, &bytes)?;
        if let Some(capacity) = capacity
            && matches!(size.kind, ExpressionKind::Array(_))
            && capacity != bytes.len()
        {
            let field = "size of the option";
            difference = difference.or(Some(Difference::new(field, capacity, bytes.len())));
        }
        Ok(CallOutcome::Done(Ok(0), difference))
    }

    /// Returns the size here of an option with this size in the script.
    fn size_here(&self, (level, name): (i64, i64), len: usize) -> usize {
        let layout = StructLayout::of_option(level, name);
        layout.map_or(len, |layout| layout.size_here(len, self.script.system))
    }
}

/// Returns the size of a buffer, `None` for `...`.
fn buffer_size(size: &Expression) -> Called<Option<usize>> {
    let size = match &size.kind {
        ExpressionKind::Array(list) => match list.as_slice() {
            [size] => size,
            _ => return error(size, "expected [SIZE]"),
        },
        _ => size,
    };
    if size.kind == ExpressionKind::Ellipsis {
        return Ok(None);
    }
    Ok(Some(number(size)?.clamp(0, MAX_BUFFER) as usize))
}

fn encode_option((level, name): (i64, i64), value: &Expression) -> Called<Vec<u8>> {
    match &value.kind {
        ExpressionKind::Array(list) => {
            let mut bytes = Vec::new();
            for value in list {
                let value = match value.kind {
                    ExpressionKind::Ellipsis => 0,
                    _ => number(value)?,
                };
                bytes.extend((value as i32).to_ne_bytes());
            }
            Ok(bytes)
        }
        ExpressionKind::Struct(_) => match StructLayout::of_option(level, name) {
            Some(layout) => layout.encode(value),
            None => error(value, "the option has no struct: expected [NUMBER]"),
        },
        ExpressionKind::Text(text) => Ok(text.clone()),
        ExpressionKind::Name(name) if name == "NULL" => Ok(Vec::new()),
        // A buffer of the size that the option has.
        ExpressionKind::Ellipsis => Ok(vec![
            0;
            StructLayout::of_option(level, name)
                .map_or(4, |layout| layout.size())
        ]),
        _ => error(value, "expected [NUMBER] or a struct {...}"),
    }
}

fn compare_option(
    (level, name): (i64, i64),
    value: &Expression,
    bytes: &[u8],
) -> Called<Option<Difference>> {
    match &value.kind {
        ExpressionKind::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                if value.kind == ExpressionKind::Ellipsis {
                    continue;
                }
                let part = bytes.get(4 * index..4 * index + 4);
                let part = part.and_then(|b| <[u8; 4]>::try_from(b).ok());
                let actual = part.map(|b| i64::from(i32::from_ne_bytes(b)));
                let expected = number(value)?;
                if actual != Some(expected) {
                    return Ok(Some(Difference {
                        field: "value".into(),
                        expected: expected.to_string(),
                        actual: actual.map_or("nothing".into(), |n| n.to_string()),
                    }));
                }
            }
            Ok(None)
        }
        ExpressionKind::Struct(_) => match StructLayout::of_option(level, name) {
            Some(layout) => Ok(layout.compare(value, bytes)?.map(struct_difference)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}
