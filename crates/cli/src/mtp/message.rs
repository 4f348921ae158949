//! Options of messages, and their text and JSON forms.

use std::fmt::Write as _;

use bytes::Bytes;
use carrick_sigtran::m3ua::{PointCode, PointCodeFormat, ProtocolData};
use carrick_sigtran_net::Received;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Format of point codes.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum Variant {
    /// ITU-T, 14 bits, such as 2-117-3.
    #[default]
    Itu,
    /// ANSI, 24 bits, such as 1-2-255.
    Ansi,
}

impl Variant {
    pub(super) fn format(self) -> PointCodeFormat {
        match self {
            Self::Itu => PointCodeFormat::ITU,
            Self::Ansi => PointCodeFormat::ANSI,
        }
    }

    pub(super) fn parse(self, text: &str) -> Result<PointCode, Failure> {
        let parsed = self.format().parse(text);
        parsed.map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// Routing label of messages.
#[derive(Debug, Args)]
pub(super) struct LabelArguments {
    /// Originating point code: fields such as 2-117-3, or a number.
    #[arg(long, value_name = "CODE")]
    opc: String,
    /// Destination point code.
    #[arg(long, value_name = "CODE")]
    dpc: String,
    /// Service indicator, such as 3 for SCCP or 5 for ISUP.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..16))]
    si: u8,
    /// Network indicator.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..4))]
    ni: u8,
    /// Message priority.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..4))]
    mp: u8,
    /// Format of point codes.
    #[arg(long, value_name = "FORMAT", default_value = "itu")]
    variant: Variant,
}

impl LabelArguments {
    pub(super) const fn variant(&self) -> Variant {
        self.variant
    }

    /// Returns a message without user data.
    pub(super) fn message(&self, sls: u8) -> Result<ProtocolData, Failure> {
        Ok(ProtocolData {
            opc: self.variant.parse(&self.opc)?,
            dpc: self.variant.parse(&self.dpc)?,
            si: self.si,
            ni: self.ni,
            mp: self.mp,
            sls,
            user_data: Bytes::new(),
        })
    }

    /// Returns the message of a JSON object; what it lacks is that of `base`.
    pub(super) fn parse_json(
        &self,
        base: &ProtocolData,
        line: &str,
    ) -> Result<ProtocolData, String> {
        let entry: JsonMessage = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let code = |text: Option<String>, base| match text {
            Some(text) => {
                let parsed = self.variant.format().parse(&text);
                parsed.map_err(|error| error.to_string())
            }
            None => Ok(base),
        };
        Ok(ProtocolData {
            opc: code(entry.opc, base.opc)?,
            dpc: code(entry.dpc, base.dpc)?,
            si: below(entry.si, base.si, "si", 16)?,
            ni: below(entry.ni, base.ni, "ni", 4)?,
            mp: below(entry.mp, base.mp, "mp", 4)?,
            sls: entry.sls.unwrap_or(base.sls),
            user_data: parse_hex(&entry.data)?,
        })
    }
}

fn below(value: Option<u8>, base: u8, name: &str, limit: u8) -> Result<u8, String> {
    match value.unwrap_or(base) {
        value if value < limit => Ok(value),
        value => Err(format!("{name} is {value}: give 0 to {}", limit - 1)),
    }
}

/// Message in JSON, read and written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonMessage {
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_context: Option<u32>,
    opc: Option<String>,
    dpc: Option<String>,
    si: Option<u8>,
    ni: Option<u8>,
    mp: Option<u8>,
    sls: Option<u8>,
    /// User data in hexadecimal digits.
    data: String,
}

/// Returns the line of a received message.
pub(super) fn line(message: &Received, variant: Variant, json: bool) -> String {
    let data = &message.protocol_data;
    let (format, hex) = (variant.format(), show_hex(&data.user_data));
    let (opc, dpc) = (data.opc.display(format), data.dpc.display(format));
    if json {
        let entry = JsonMessage {
            gateway: Some(message.peer.to_string()),
            routing_context: message.routing_context.map(|context| context.0),
            opc: Some(opc.to_string()),
            dpc: Some(dpc.to_string()),
            si: Some(data.si),
            ni: Some(data.ni),
            mp: Some(data.mp),
            sls: Some(data.sls),
            data: hex,
        };
        // A structure of texts and numbers does not fail.
        return serde_json::to_string(&entry).unwrap_or_default();
    }
    let ProtocolData {
        si, ni, mp, sls, ..
    } = data;
    format!("{opc} > {dpc} si {si} ni {ni} mp {mp} sls {sls}: {hex}")
}

fn show_hex(octets: &[u8]) -> String {
    let mut text = String::with_capacity(2 * octets.len());
    for octet in octets {
        // Writing to a string does not fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

/// Parses hexadecimal digits; white space is ignored.
pub(super) fn parse_hex(text: &str) -> Result<Bytes, String> {
    let mut digits = Vec::with_capacity(text.len());
    for digit in text.chars().filter(|c| !c.is_whitespace()) {
        let value = digit.to_digit(16);
        let value = value.ok_or_else(|| format!("{digit:?} is no hexadecimal digit"))?;
        digits.push(value as u8);
    }
    if digits.len() % 2 == 1 {
        return Err("an octet has two hexadecimal digits: one is missing".into());
    }
    Ok(digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        label: LabelArguments,
    }

    #[test]
    fn hexadecimal_digits_are_octets() {
        assert_eq!(parse_hex("00 fF 1a").unwrap(), [0, 255, 26][..]);
        assert!(parse_hex("0").unwrap_err().contains("missing"));
        assert!(parse_hex("0g").unwrap_err().contains("'g'"));
        assert_eq!(show_hex(&[0, 255]), "00ff");
    }

    #[test]
    fn json_replaces_parts_of_the_label() {
        let cli = Cli::parse_from(["mtp", "--opc", "1", "--dpc", "2-117-3"]);
        let base = cli.label.message(4).ok().unwrap();
        let read = |line: &str| cli.label.parse_json(&base, line);
        let message = read(r#"{"dpc": "7", "sls": 9, "data": "00"}"#).unwrap();
        assert_eq!((message.opc, message.dpc.value()), (base.opc, 7));
        assert_eq!(
            (message.sls, message.si, &message.user_data[..]),
            (9, 3, &[0][..])
        );
        for (wrong, words) in [
            (r#"{"data": "0"}"#, "missing"),
            (r#"{"data": "00", "si": 16}"#, "0 to 15"),
            (r#"{"data": "00", "dcp": 1}"#, "dcp"),
            (r#"{"data": "00", "dpc": "8-0-0"}"#, "8-0-0"),
        ] {
            let why = read(wrong).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_received_message_is_one_line() {
        let cli = Cli::parse_from(["mtp", "--opc", "2-1-1", "--dpc", "2-117-3"]);
        let message = Received {
            peer: "a".into(),
            routing_context: None,
            network_appearance: None,
            protocol_data: ProtocolData {
                user_data: Bytes::from_static(b"\x01\xab"),
                ..cli.label.message(5).ok().unwrap()
            },
        };
        let text = line(&message, Variant::Itu, false);
        assert_eq!(text, "2-1-1 > 2-117-3 si 3 ni 2 mp 0 sls 5: 01ab");
        let json: serde_json::Value =
            serde_json::from_str(&line(&message, Variant::Itu, true)).unwrap();
        assert_eq!(json["dpc"], "2-117-3");
        assert_eq!(json["data"], "01ab");
    }
}
