//! Messages to be sent, from a byte stream: standard input, or the output of a process.

use std::io::{self, BufRead, Read, stdin};
use std::thread;

use bytes::{Bytes, BytesMut};
use carrick::SendOptions;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::json_input;
use crate::failure::Failure;
use crate::framing::{FrameDecoder, Framing, MAX_MESSAGE};
use crate::units;

/// Maximum number of messages that wait to be sent.
const MAX_WAITING: usize = 16;

/// Maximum length of a line of standard input in bytes; a longer line is sent in several messages.
const MAX_LINE: u64 = 1 << 20;

/// Maximum length of a line that describes a message: its bytes in hexadecimal and its attributes.
const MAX_DESCRIPTION: usize = 2 * MAX_MESSAGE + 4096;

/// Number of bytes that are read from a process at once.
const READ: usize = 64 << 10;

/// Form of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputFormat {
    /// Messages of this number of bytes; the last one may be shorter.
    Blocks(usize),
    /// Messages in a framing.
    Framed(Framing),
    /// A message a line, in hexadecimal digits.
    Hex,
    /// A message a line, as a JSON object.
    Json,
}

/// Message to be sent.
#[derive(Clone, Debug)]
pub(super) struct InputMessage {
    pub(super) data: Bytes,
    pub(super) options: SendOptions,
    /// Association that it is for; `None` for all.
    pub(super) association: Option<u64>,
    /// Line of the input that describes it; 0 for none.
    pub(super) line: u64,
}

impl InputMessage {
    pub(super) fn new(options: SendOptions) -> Self {
        Self {
            data: Bytes::new(),
            options,
            association: None,
            line: 0,
        }
    }

    /// Returns an error with the line that describes the message.
    pub(super) fn fault(&self, why: impl std::fmt::Display) -> Failure {
        match self.line {
            0 => Failure::Run(why.to_string()),
            line => Failure::Run(format!("line {line} of the input: {why}")),
        }
    }
}

pub(super) type Messages = mpsc::Receiver<Result<InputMessage, Failure>>;

/// Starts a thread that reads standard input until its end or an error: a blocking read cannot be cancelled.
pub(super) fn start(format: InputFormat, options: SendOptions) -> Result<Messages, Failure> {
    let (messages, out) = mpsc::channel(MAX_WAITING);
    thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            let mut input = stdin().lock();
            let mut parser = MessageParser::new(format, options);
            loop {
                let message = match next(&mut input, &mut parser) {
                    Ok(None) => return,
                    Ok(Some(message)) => Ok(message),
                    Err(failure) => Err(failure),
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

/// Reads the output of a process in a task, until its end or an error.
pub(super) fn start_task(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    format: InputFormat,
    options: SendOptions,
) -> Messages {
    let (messages, out) = mpsc::channel(MAX_WAITING);
    let mut parser = MessageParser::new(format, options);
    tokio::spawn(async move {
        let mut ended = false;
        loop {
            let message = match parser.next_message(ended) {
                Ok(None) if ended => return,
                Ok(None) => {
                    // A process that was killed has closed its output.
                    let buffer = parser.buffer();
                    buffer.reserve(READ);
                    ended = from.read_buf(buffer).await.unwrap_or(0) == 0;
                    continue;
                }
                Ok(Some(message)) => Ok(message),
                Err(why) => Err(Failure::Run(format!("the output of the process: {why}"))),
            };
            let last = message.is_err();
            if messages.send(message).await.is_err() || last {
                return;
            }
        }
    });
    out
}

/// Reads the next message; `None` at the end of the input.
fn next(
    input: &mut impl BufRead,
    parser: &mut MessageParser,
) -> Result<Option<InputMessage>, Failure> {
    let not_read = |e: io::Error| Failure::Run(format!("cannot read standard input: {e}"));
    let mut data = Vec::new();
    match parser.format {
        InputFormat::Blocks(size) => input.take(size as u64).read_to_end(&mut data),
        InputFormat::Framed(Framing::Lines) => input.take(MAX_LINE).read_until(b'\n', &mut data),
        _ => return next_parsed(input, parser),
    }
    .map_err(not_read)?;
    Ok((!data.is_empty()).then(|| parser.message(data.into())))
}

fn next_parsed(
    input: &mut impl BufRead,
    parser: &mut MessageParser,
) -> Result<Option<InputMessage>, Failure> {
    let mut ended = false;
    loop {
        let message = parser.next_message(ended);
        let message = message.map_err(|why| Failure::Run(format!("standard input: {why}")))?;
        if message.is_some() || ended {
            return Ok(message);
        }
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Failure::Run(format!("cannot read standard input: {e}"))),
        };
        parser.buffer().extend_from_slice(bytes);
        let count = bytes.len();
        input.consume(count);
        ended = count == 0;
    }
}

/// Cuts bytes into messages.
#[derive(Debug)]
struct MessageParser {
    format: InputFormat,
    options: SendOptions,
    decoder: FrameDecoder,
    /// Number of lines so far.
    line: u64,
}

impl MessageParser {
    fn new(format: InputFormat, options: SendOptions) -> Self {
        let decoder = match format {
            InputFormat::Blocks(size) => FrameDecoder::new(Framing::Chunks, size),
            InputFormat::Framed(framing) => FrameDecoder::new(framing, MAX_MESSAGE),
            InputFormat::Hex | InputFormat::Json => {
                FrameDecoder::new(Framing::Lines, MAX_DESCRIPTION)
            }
        };
        Self {
            format,
            options,
            decoder,
            line: 0,
        }
    }

    fn buffer(&mut self) -> &mut BytesMut {
        self.decoder.buffer()
    }

    fn message(&self, data: Bytes) -> InputMessage {
        InputMessage {
            data,
            ..InputMessage::new(self.options)
        }
    }

    /// Takes the next message; `None` if more has to be read. `ended`: nothing more will be.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    fn next_message(&mut self, ended: bool) -> Result<Option<InputMessage>, String> {
        loop {
            let fault = |why: String| match self.format {
                InputFormat::Hex | InputFormat::Json => format!("line {}: {why}", self.line + 1),
                _ => why,
            };
            let frame = self.decoder.next_message();
            let frame = frame.map_err(|error| fault(error.to_string()))?;
            let frame = match frame {
                None if ended => self.decoder.last_message(),
                frame => Ok(frame),
            };
            let Some(frame) = frame.map_err(|error| fault(error.to_string()))? else {
                return Ok(None);
            };
            let is_hex = match self.format {
                InputFormat::Blocks(_) | InputFormat::Framed(_) => {
                    return Ok(Some(self.message(frame)));
                }
                InputFormat::Hex => true,
                InputFormat::Json => false,
            };
            let text = frame.trim_ascii();
            let message = match text {
                [] | [b'#', ..] => None,
                text if is_hex => Some(self.hex_message(text).map_err(fault)?),
                text => Some(json_input::parse(text, self.options).map_err(fault)?),
            };
            self.line += 1;
            if let Some(mut message) = message {
                message.line = self.line;
                return Ok(Some(message));
            }
        }
    }

    fn hex_message(&self, text: &[u8]) -> Result<InputMessage, String> {
        let text = str::from_utf8(text).map_err(|_| "expected hexadecimal digits")?;
        Ok(self.message(units::hex_bytes(text)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8], format: InputFormat) -> Result<Vec<Bytes>, Failure> {
        let mut parser = MessageParser::new(format, SendOptions::default());
        let next = || next(&mut input, &mut parser).transpose();
        std::iter::from_fn(next)
            .map(|m| m.map(|m| m.data))
            .collect()
    }

    const LINES: InputFormat = InputFormat::Framed(Framing::Lines);

    #[test]
    fn lines_keep_their_newline() {
        let lines = all(b"a\n\nbc", LINES).unwrap();
        assert_eq!(lines, [&b"a\n"[..], b"\n", b"bc"]);
        assert!(all(b"", LINES).unwrap().is_empty());
    }

    #[test]
    fn all_blocks_but_the_last_have_the_size() {
        let blocks = |input| all(input, InputFormat::Blocks(2)).unwrap();
        assert_eq!(blocks(b"ab\nde"), [&b"ab"[..], b"\nd", b"e"]);
        assert_eq!(blocks(b"abcd"), [&b"ab"[..], b"cd"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = vec![b'x'; MAX_LINE as usize + 1];
        let lines = all(&line, LINES).unwrap();
        let lengths: Vec<usize> = lines.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [MAX_LINE as usize, 1]);
    }

    #[test]
    fn hexadecimal_lines_are_messages() {
        let input = b"# comment\n00 ff\n\n41:42\n43";
        let messages = all(input, InputFormat::Hex).unwrap();
        assert_eq!(messages, [&b"\x00\xff"[..], b"AB", b"C"]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |input, format| match all(input, format) {
            Err(Failure::Run(line)) => line,
            other => panic!("{other:?}"),
        };
        let line = error(b"00\n\n0x1\n", InputFormat::Hex);
        assert!(
            line.contains("line 3: expected hexadecimal digits"),
            "{line}"
        );
        let line = error(b"{\"hex\":\"00\"}\n{}", InputFormat::Json);
        assert!(line.contains("line 2: hex: missing"), "{line}");
        let line = error(&[0, 5, 1], InputFormat::Framed(Framing::Length16));
        assert!(line.contains("end within a message"), "{line}");
    }
}
