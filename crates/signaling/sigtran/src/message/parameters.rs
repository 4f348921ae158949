//! Parameters as received (RFC 4666, section 3.2).

use std::iter::FusedIterator;

use super::{FormatError, FormatErrorKind, PARAMETER_HEADER_LEN, padded};

/// Parameter whose value was not parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawParameter<'a> {
    /// Parameter tag.
    pub tag: u16,
    /// Value without header and padding.
    pub value: &'a [u8],
    /// Offset of the parameter's header in the message.
    pub offset: usize,
}

impl<'a> RawParameter<'a> {
    /// Returns the parameters within the value.
    pub const fn nested(&self) -> Parameters<'a> {
        Parameters::new(self.value, self.offset + PARAMETER_HEADER_LEN)
    }

    /// Splits the value into its first N octets and the parameters after them, `None` if it is shorter.
    pub const fn nested_after<const N: usize>(&self) -> Option<(&'a [u8; N], Parameters<'a>)> {
        match self.value.split_first_chunk() {
            Some((octets, rest)) => {
                let offset = self.offset + PARAMETER_HEADER_LEN + N;
                Some((octets, Parameters::new(rest, offset)))
            }
            None => None,
        }
    }
}

/// Iterator over the parameters of a message or of a parameter that contains others. It copies nothing. After
/// an error it ends, because the position of the next parameter is unknown then.
///
/// The content of padding is ignored. The padding of the last parameter may be absent as a whole.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Parameters<'a> {
    /// Parameters in `octets`, which begin at `offset` of the message.
    pub(super) const fn new(octets: &'a [u8], offset: usize) -> Self {
        Self {
            rest: octets,
            offset,
        }
    }

    /// Splits the next parameter; returns it with its size including padding.
    fn split(&self) -> Result<(RawParameter<'a>, usize), FormatError> {
        let available = self.rest.len();
        let Some((header, _)) = self.rest.split_first_chunk::<PARAMETER_HEADER_LEN>() else {
            let kind = FormatErrorKind::ParameterTruncated { available };
            return Err(FormatError::new(kind, self.offset));
        };
        let tag = u16::from_be_bytes([header[0], header[1]]);
        let length = u16::from_be_bytes([header[2], header[3]]);
        let end = usize::from(length);
        let length_error = |kind| FormatError::new(kind, self.offset + 2);
        if end < PARAMETER_HEADER_LEN {
            return Err(length_error(FormatErrorKind::ParameterLengthTooSmall {
                tag,
                length,
            }));
        }
        let Some(value) = self.rest.get(PARAMETER_HEADER_LEN..end) else {
            return Err(length_error(FormatErrorKind::ParameterLengthPastEnd {
                tag,
                length,
                available,
            }));
        };
        if available > end && available < padded(end) {
            let kind = FormatErrorKind::PaddingTruncated {
                tag,
                available: available - end,
            };
            return Err(FormatError::new(kind, self.offset + end));
        }
        let parameter = RawParameter {
            tag,
            value,
            offset: self.offset,
        };
        Ok((parameter, padded(end).min(available)))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<RawParameter<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match self.split() {
            Ok((parameter, size)) => {
                self.rest = &self.rest[size..];
                self.offset += size;
                Some(Ok(parameter))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Parameters<'_> {}
