//! Standard input, cut into messages. A thread reads it, because reading it cannot be given up.

use std::io::{self, BufRead, Read, stdin};
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Messages that wait to be sent, at most.
const WAITING: usize = 16;

/// A line longer than this is sent in several messages.
const MAX_LINE: u64 = 1 << 20;

/// Starts reading: lines, or pieces of `size` bytes. Ends with the input or after an error.
pub(super) fn start(
    size: Option<usize>,
) -> Result<mpsc::Receiver<Result<Bytes, Failure>>, Failure> {
    let (messages, out) = mpsc::channel(WAITING);
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
        .map_err(|e| Failure::Run(format!("the system starts no thread: {e}")))?;
    Ok(out)
}

/// The next message; empty at the end.
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
    fn pieces_have_their_size_but_the_last() {
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
