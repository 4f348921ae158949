//! Messages as JSON objects, with the members that `--json` writes.

use carrick::{Ppid, Reliability, SendOptions, StreamId};
use serde_json::{Map, Value};

use super::input::InputMessage;
use crate::units;

/// Members that describe how a message was received, and have no effect on one that is sent.
const RECEIVED: [&str; 2] = ["ssn", "tsn"];

/// Parses an object; members that it does not have are those of `defaults`.
///
/// # Errors
/// The name of the member and what is expected.
pub(super) fn parse(line: &[u8], defaults: SendOptions) -> Result<InputMessage, String> {
    let object: Map<String, Value> = serde_json::from_slice(line)
        .map_err(|error| format!("expected one JSON object a line: {error}"))?;
    let mut message = InputMessage::new(defaults);
    let (mut data, mut length) = (None, None);
    for (name, value) in &object {
        let fault = |why: String| format!("{name}: {why}");
        match name.as_str() {
            "stream" => {
                message.options.stream = StreamId(number(value, 65_534_u64).map_err(fault)?)
            }
            "ppid" => message.options.ppid = Ppid(number(value, u32::MAX).map_err(fault)?),
            "unordered" => {
                let given = value.as_bool();
                message.options.unordered =
                    given.ok_or_else(|| fault(expected("true or false", value)))?;
            }
            "lifetime" => {
                let time = units::duration(text(value).map_err(fault)?).map_err(fault)?;
                message.options.lifetime = Some(time);
                message.options.reliability = Reliability::Timed(time);
            }
            "retransmissions" => {
                let limit = number(value, u32::MAX).map_err(fault)?;
                message.options.reliability = Reliability::Retransmissions(limit);
            }
            "priority" => {
                let priority = number(value, u32::MAX).map_err(fault)?;
                message.options.reliability = Reliability::Priority(priority);
            }
            "association" => message.association = Some(number(value, u64::MAX).map_err(fault)?),
            "hex" | "text" if data.is_some() => {
                return Err(fault(
                    "the message is given twice, as hex and as text".into(),
                ));
            }
            "hex" => {
                let bytes = text(value).and_then(units::hex_bytes);
                data = Some(bytes.map_err(fault)?);
            }
            "text" => data = Some(text(value).map_err(fault)?.as_bytes().to_vec()),
            "length" => length = Some(number::<u64>(value, u64::MAX).map_err(fault)?),
            "part" if value == "whole" => {}
            "part" => return Err(fault("only whole messages can be sent".into())),
            name if RECEIVED.contains(&name) => {}
            _ => {
                return Err(fault(
                    "unknown; expected stream, ppid, unordered, lifetime, retransmissions, priority, association, hex or text"
                        .into(),
                ));
            }
        }
    }
    let data = data.ok_or("hex: missing; give the message as hex or text")?;
    match length {
        _ if data.is_empty() => Err("hex: the message is empty, which SCTP cannot carry".into()),
        Some(length) if length != data.len() as u64 => Err(format!(
            "length: {length} is not the length of the message, {}",
            data.len()
        )),
        _ => {
            message.data = data.into();
            Ok(message)
        }
    }
}

fn expected(what: &str, value: &Value) -> String {
    format!("expected {what}, not {value}")
}

fn text(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| expected("a text in quotes", value))
}

fn number<T: TryFrom<u64>>(value: &Value, most: impl Into<u64>) -> Result<T, String> {
    let most = most.into();
    let number = value.as_u64().filter(|number| *number <= most);
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| expected(&format!("a number from 0 to {most}"), value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parsed(line: &str) -> InputMessage {
        parse(line.as_bytes(), SendOptions::on_stream(9)).unwrap()
    }

    #[test]
    fn members_replace_the_options() {
        let message = parsed(r#"{"stream":3,"ppid":60,"unordered":true,"hex":"00 ff"}"#);
        let options = SendOptions::on_stream(3).ppid(60).unordered();
        assert_eq!(
            (&message.data[..], message.options),
            (&[0, 255][..], options)
        );
        let message = parsed(r#"{"text":"ä","lifetime":"20ms","association":2}"#);
        assert_eq!(message.data, "ä");
        assert_eq!(message.association, Some(2));
        assert_eq!(message.options.stream, StreamId(9));
        let time = Duration::from_millis(20);
        assert_eq!(message.options.reliability, Reliability::Timed(time));
        for (line, reliability) in [
            (
                r#"{"text":"x","retransmissions":0}"#,
                Reliability::Retransmissions(0),
            ),
            (r#"{"text":"x","priority":5}"#, Reliability::Priority(5)),
        ] {
            assert_eq!(parsed(line).options.reliability, reliability);
        }
    }

    #[test]
    fn errors_name_the_member() {
        for (line, words) in [
            ("", "expected one JSON object a line"),
            ("[1]", "expected one JSON object a line"),
            ("{}", "hex: missing"),
            (r#"{"hex":""}"#, "hex: the message is empty"),
            (r#"{"hex":"0"}"#, "hex: expected two hexadecimal digits"),
            (r#"{"hex":"xy"}"#, "hex: expected hexadecimal digits"),
            (
                r#"{"hex":"00","text":"a"}"#,
                "text: the message is given twice",
            ),
            (r#"{"hex":"00","length":2}"#, "length: 2 is not the length"),
            (
                r#"{"hex":"00","part":"first"}"#,
                "part: only whole messages",
            ),
            (
                r#"{"hex":"00","stream":65535}"#,
                "stream: expected a number from 0 to 65534, not 65535",
            ),
            (r#"{"hex":"00","ppid":-1}"#, "ppid: expected a number"),
            (
                r#"{"hex":"00","unordered":1}"#,
                "unordered: expected true or false, not 1",
            ),
            (
                r#"{"hex":"00","lifetime":5}"#,
                "lifetime: expected a text in quotes",
            ),
            (
                r#"{"hex":"00","lifetime":"5"}"#,
                "lifetime: a time needs its unit",
            ),
            (r#"{"hex":"00","strem":5}"#, "strem: unknown"),
        ] {
            let error = parse(line.as_bytes(), SendOptions::default()).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
