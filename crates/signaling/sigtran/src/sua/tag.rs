//! Parameter tags (RFC 3868, sections 3.9 and 3.10).

pub use crate::message::tag::{common::*, sua::*};

/// Returns whether the table of section 3.9 marks the tag as reserved or not used in SUA.
pub const fn is_excluded(tag: u16) -> bool {
    matches!(tag, 0x0000..=0x0003 | 0x0005 | 0x0008 | 0x000a | 0x000e..=0x0010)
}
