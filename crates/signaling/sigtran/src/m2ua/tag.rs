//! Parameter tags (RFC 3331, section 3.1.6).

pub use crate::message::tag::{common::*, interface::*, m2ua::*};

/// Returns whether the table of section 3.1.6 marks the tag as reserved or unused in M2UA. Tags above the table are for
/// future parameters.
pub const fn is_excluded(tag: u16) -> bool {
    matches!(
        tag,
        0x0000 | 0x0002 | 0x0005 | 0x0006 | 0x000a | 0x000e..=0x0010 | 0x0012
    )
}
