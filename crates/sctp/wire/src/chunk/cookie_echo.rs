//! Cookie Echo (COOKIE ECHO), RFC 9260, section 3.3.11.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |   type = 10   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! /                            cookie                             /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::RawChunk;

/// Cookie Echo (COOKIE ECHO), RFC 9260, section 3.3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieEcho<'a> {
    /// Value of the State Cookie parameter of the INIT ACK. It may be empty or forged.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    pub(crate) const fn parse(raw: RawChunk<'a>) -> Self {
        Self { cookie: raw.value }
    }
}

#[cfg(test)]
mod tests {
    use super::CookieEcho;
    use crate::Chunk;
    use crate::testing::{build, first_chunk, packet};

    const BYTES: [u8; 8] = [0x0a, 0x00, 0x00, 0x07, 0xc0, 0x0c, 0x1e, 0x00];

    #[test]
    fn parses_and_builds_captured_bytes() {
        let cookie = &[0xc0, 0x0c, 0x1e];
        assert_eq!(
            first_chunk(&packet(&BYTES)),
            Ok(Chunk::CookieEcho(CookieEcho { cookie }))
        );
        assert_eq!(build(|packet| packet.cookie_echo(cookie)), BYTES);
    }

    #[test]
    fn an_empty_cookie_parses() {
        let bytes = packet(&[10, 0, 0, 4]);
        assert_eq!(
            first_chunk(&bytes),
            Ok(Chunk::CookieEcho(CookieEcho { cookie: &[] }))
        );
    }
}
