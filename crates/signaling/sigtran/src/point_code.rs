//! SS7 point codes: ITU (14 bits), ANSI (24 bits) and national formats (RFC 4666, section 3.4.1).

use std::fmt;

/// Point code of at most 24 bits, justified to the least significant bit. The network appearance, not the
/// code, determines the number of bits; see [`PointCodeFormat`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PointCode(u32);

impl PointCode {
    /// Largest point code.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// Point code with this value, `None` if it has more than 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Point code in the low 24 bits of a field whose high octet is a mask or reserved.
    pub(crate) const fn low_bits(field: u32) -> Self {
        Self(field & Self::MAX.0)
    }

    /// Returns the value.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the point code as text, such as `2-117-3`. If the code has more bits than the format, the excess
    /// is part of the first field, which then exceeds its usual range.
    pub const fn display(self, format: PointCodeFormat) -> impl fmt::Display + use<> {
        Formatted { code: self, format }
    }
}

struct Formatted {
    code: PointCode,
    format: PointCodeFormat,
}

impl fmt::Display for Formatted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.format.fields();
        let mut shift = self.format.bits();
        for (index, &bits) in fields.iter().enumerate() {
            shift -= bits;
            let value = self.code.0 >> shift;
            if index == 0 {
                write!(f, "{value}")?;
            } else {
                write!(f, "-{}", value & ((1 << bits) - 1))?;
            }
        }
        Ok(())
    }
}

/// Display form of point codes: the bits of each field, the most significant first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PointCodeFormat {
    fields: [u8; Self::MAX_FIELDS],
    count: u8,
}

impl PointCodeFormat {
    /// Maximum number of fields.
    pub const MAX_FIELDS: usize = 4;
    /// One field of 24 bits: the plain decimal number.
    pub const NUMBER: Self = Self {
        fields: [24, 0, 0, 0],
        count: 1,
    };
    /// ITU-T, 14 bits: zone (3), region (8), signalling point (3).
    pub const ITU: Self = Self {
        fields: [3, 8, 3, 0],
        count: 3,
    };
    /// ANSI, 24 bits: network, cluster, member.
    pub const ANSI: Self = Self {
        fields: [8, 8, 8, 0],
        count: 3,
    };
    /// TTC (Japan), 16 bits: main area (5), sub area (4), signalling point (7).
    pub const TTC: Self = Self {
        fields: [5, 4, 7, 0],
        count: 3,
    };

    /// National format with these fields; a single field is the plain decimal number. `None` if there is no
    /// field, an empty field, more than four fields, or more than 24 bits.
    pub fn new(fields: &[u8]) -> Option<Self> {
        let bits: u32 = fields.iter().map(|&bits| u32::from(bits)).sum();
        if fields.is_empty() || fields.len() > Self::MAX_FIELDS || fields.contains(&0) || bits > 24
        {
            return None;
        }
        let mut format = Self {
            fields: [0; Self::MAX_FIELDS],
            count: fields.len() as u8,
        };
        format.fields[..fields.len()].copy_from_slice(fields);
        Some(format)
    }

    /// Returns the number of bits of a point code.
    pub fn bits(&self) -> u8 {
        self.fields().iter().sum()
    }

    /// Returns the bits of each field.
    pub fn fields(&self) -> &[u8] {
        &self.fields[..usize::from(self.count)]
    }

    /// Parses a point code: its fields with hyphens, or one decimal number.
    ///
    /// # Errors
    /// [`ParsePointCodeError`] if a field is no number or too large, or fields are missing.
    pub fn parse(&self, text: &str) -> Result<PointCode, ParsePointCodeError> {
        let whole = [self.bits()];
        let fields = if text.contains('-') {
            self.fields()
        } else {
            &whole
        };
        let mut code = 0;
        let mut parts = text.split('-');
        for &bits in fields {
            let part = parts.next().unwrap_or_default();
            let digits = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
            let value = part.parse::<u32>().ok().filter(|_| digits);
            let value = value.filter(|&value| value < 1 << bits);
            code = code << bits | value.ok_or_else(|| ParsePointCodeError::new(text, *self))?;
        }
        if parts.next().is_some() {
            return Err(ParsePointCodeError::new(text, *self));
        }
        Ok(PointCode(code))
    }
}

/// Text that is no point code of a format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is no point code with fields of {fields} bits, nor a number below {limit}")]
pub struct ParsePointCodeError {
    text: String,
    fields: String,
    limit: u32,
}

impl ParsePointCodeError {
    fn new(text: &str, format: PointCodeFormat) -> Self {
        let fields: Vec<_> = format.fields().iter().map(u8::to_string).collect();
        Self {
            text: text.chars().take(40).collect(),
            fields: fields.join("-"),
            limit: 1 << format.bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PointCode, PointCodeFormat};

    fn shown(code: u32, format: PointCodeFormat) -> String {
        let code = PointCode::new(code).expect("24 bits");
        let text = code.display(format).to_string();
        assert_eq!(format.parse(&text), Ok(code), "{text}");
        assert_eq!(format.parse(&code.value().to_string()), Ok(code));
        text
    }

    /// RFC 4666, section 3.4.1
    #[test]
    fn point_codes_are_shown_by_field() {
        assert_eq!(
            shown(2 << 11 | 117 << 3 | 3, PointCodeFormat::ITU),
            "2-117-3"
        );
        assert_eq!(shown(0x01_02_ff, PointCodeFormat::ANSI), "1-2-255");
        assert_eq!(shown(3 << 11 | 2 << 7 | 1, PointCodeFormat::TTC), "3-2-1");
        let decimal = PointCodeFormat::new(&[14]).expect("one field");
        assert_eq!(shown(16_383, decimal), "16383");
    }

    #[test]
    fn excess_bits_are_shown_in_the_first_field() {
        let code = PointCode::new(1 << 14 | 8).expect("24 bits");
        assert_eq!(code.display(PointCodeFormat::ITU).to_string(), "8-1-0");
    }

    #[test]
    fn wrong_point_codes_are_rejected() {
        for text in [
            "", "-", "8-0-0", "1-2", "1-2-3-4", "1-256-0", "+1-2-3", "16384", "x", "1--3",
        ] {
            let error = PointCodeFormat::ITU.parse(text).expect_err(text);
            assert!(error.to_string().contains("3-8-3 bits"), "{error}");
        }
        assert_eq!(PointCode::new(1 << 24), None);
        for fields in [&[][..], &[0], &[8, 8, 9], &[1, 1, 1, 1, 1]] {
            assert_eq!(PointCodeFormat::new(fields), None);
        }
    }
}
