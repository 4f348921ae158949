//! Parameter tags (RFC 4666, section 3.2).

pub use crate::message::tag::{common::*, m3ua::*};

/// Returns whether the table of section 3.2 marks the tag as reserved or not used in M3UA: it belongs to another
/// adaptation layer or to an old version. Tags above the table are for future parameters.
pub const fn is_excluded(tag: u16) -> bool {
    matches!(
        tag,
        0x0000..=0x0003
            | 0x0005
            | 0x0008
            | 0x000a
            | 0x000e..=0x0010
            | 0x0201..=0x0203
            | 0x020d
            | 0x020f
            | 0x0211
    )
}
