//! Error causes in events (RFC 9260, section 3.3.10).

use alloc::vec::Vec;
use core::fmt;

use crate::peer_text::PeerText;

/// Error cause of an ABORT or ERROR chunk, sent or received (RFC 9260, section 3.3.10). Of an ABORT with
/// several causes it is the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbortCause {
    /// Cause code; 0 if the ABORT had no cause.
    pub code: u16,
    /// Cause-specific information, for code 12 the reason of the upper layer. Truncated to 1 KiB.
    pub information: Vec<u8>,
}

portable_struct! { AbortCause { code, information } }

impl AbortCause {
    /// Absent cause.
    pub const NONE: Self = Self {
        code: 0,
        information: Vec::new(),
    };

    pub(crate) fn new(code: u16, information: &[u8]) -> Self {
        Self {
            code,
            information: information[..information.len().min(1024)].to_vec(),
        }
    }
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            0 => "no cause given",
            1 => "invalid stream identifier",
            2 => "missing mandatory parameter",
            3 => "stale cookie",
            4 => "out of resource",
            5 => "unresolvable address",
            6 => "unrecognized chunk type",
            7 => "invalid mandatory parameter",
            8 => "unrecognized parameters",
            9 => "no user data",
            10 => "cookie received while shutting down",
            11 => "restart of an association with new addresses",
            12 => "user-initiated abort",
            13 => "protocol violation",
            100 => {
                "missing DTLS chunk support: one side requires the DTLS chunk, and the other one does not offer it"
            }
            101 => "no common DTLS key management method",
            102 => "DTLS key management tie breaker collision",
            103 => "incompatible DTLS key management roles",
            160 => "request to delete the last address",
            161 => "no room for another address",
            162 => "request to delete the source address",
            163 => "illegal ASCONF-ACK",
            164 => "no authorization",
            261 => "unsupported HMAC identifier",
            _ => "unknown cause",
        };
        f.write_str(name)?;
        if matches!(self.code, 12 | 13) && !self.information.is_empty() {
            write!(f, " ({})", PeerText::new(&self.information))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// RFC 9260, sections 3.3.10.12 and 3.3.10.13: text in causes is escaped and bounded.
    #[test]
    fn cause_text_is_one_bounded_line() {
        for code in [12, 13] {
            let cause = AbortCause::new(code, b"\x1b]0;x\x07\ncarrick: connected \xe2\x80\xae");
            let text = cause.to_string();
            assert!(text.ends_with("(\\u{1b}]0;x\\u{7}\\ncarrick: connected \\u{202e})"));
            assert!(AbortCause::new(code, &[0; 4096]).to_string().len() < 300);
        }
    }
}
