//! Parameter tags (RFC 4233, section 3.1.5).

pub use crate::message::tag::{common::*, interface::*, iua::*};

/// Returns whether the table of section 3.1.5 marks the tag as reserved or not used in IUA.
pub const fn is_excluded(tag: u16) -> bool {
    matches!(tag, 0x0000 | 0x0002 | 0x0006 | 0x000a | 0x0012..=0x003f)
}
