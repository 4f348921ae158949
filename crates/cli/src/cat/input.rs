//! Standard input, cut into messages. A separate thread reads it, because a blocking read cannot be
//! cancelled.

use std::io::{self, BufRead, Read, stdin};
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Maximum number of messages that wait to be sent.
const MAX_WAITING: usize = 16;

/// Maximum length of a line in bytes; a longer line is sent in several messages.
const MAX_LINE: u64 = 1 << 20;

/// Starts the thread, which reads lines or blocks of `size` bytes until the end of the input or an error.
pub(super) fn start(
    size: Option<usize>,
) -> Result<mpsc::Receiver<Result<Bytes, Failure>>, Failure> {
    let (messages, out) = mpsc::channel(MAX_WAITING);
    thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            let mut input = stdin().lock();
            loop {
                let message = match next(&mut input, size) {
                    Ok(message) if message.is_empty() => return,
                    Ok(message) => Ok(message),
                    Err(e) => Err(Failure::Run(format!("cannot read standard input: {e}"))),
                };
                let last = message.is_err();
                if messages.blocking_send(message).is_err() || last {
                    return;
                }
            }
        })
        .map_err(|e| Failure::Run(format!("cannot start a thread: {e}")))?;
    Ok(out)
}

/// Reads the next message; empty at the end of the input.
fn next(input: &mut impl BufRead, size: Option<usize>) -> io::Result<Bytes> {
    let mut message = Vec::new();
    match size {
        Some(size) => input.take(size as u64).read_to_end(&mut message)?,
        None => input.take(MAX_LINE).read_until(b'\n', &mut message)?,
    };
    Ok(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8], size: Option<usize>) -> Vec<Bytes> {
        let next = || Some(next(&mut input, size).unwrap()).filter(|m| !m.is_empty());
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn lines_keep_their_newline() {
        assert_eq!(all(b"a\n\nbc", None), [&b"a\n"[..], b"\n", b"bc"]);
        assert!(all(b"", None).is_empty());
    }

    #[test]
    fn all_blocks_but_the_last_have_the_size() {
        assert_eq!(all(b"ab\nde", Some(2)), [&b"ab"[..], b"\nd", b"e"]);
        assert_eq!(all(b"abcd", Some(2)), [&b"ab"[..], b"cd"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = vec![b'x'; MAX_LINE as usize + 1];
        let lengths: Vec<usize> = all(&line, None).iter().map(Bytes::len).collect();
        assert_eq!(lengths, [MAX_LINE as usize, 1]);
    }
}
