//! Captures of SCTP user messages, and what tshark's dissector finds in them.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program} (see interop/install.sh): {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Capture file with SCTP user messages.
pub(crate) struct Capture {
    file: String,
    preferences: &'static [&'static str],
}

impl Capture {
    /// Writes a capture with a packet for each message, on this port and with this payload protocol identifier, into a
    /// folder. Preferences are those of the dissectors.
    pub(crate) fn new(
        [folder, name]: [&str; 2],
        port: u16,
        identifier: u32,
        messages: impl Iterator<Item = Bytes>,
        preferences: &'static [&'static str],
    ) -> Self {
        let folder = Path::new(folder);
        let mut dump = String::new();
        for octets in messages {
            dump.push_str("0000");
            for octet in octets {
                write!(dump, " {octet:02x}").expect("memory for the text");
            }
            dump.push('\n');
        }
        let path = |extension| {
            let path = folder.join(name).with_extension(extension);
            path.to_str().expect("a path in UTF-8").to_owned()
        };
        let (text, file) = (path("txt"), path("pcapng"));
        std::fs::write(&text, dump).expect("a file in the target folder");
        let chunk = format!("{port},{port},{identifier}");
        run("text2pcap", &["-q", "-S", &chunk, &text, &file]);
        Self { file, preferences }
    }

    /// Returns a line for each packet that a filter selects: these fields, or tshark's summary without any.
    pub(crate) fn fields(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let mut arguments = vec!["-n", "-r", &self.file, "-Y", filter];
        arguments.extend(self.preferences.iter().flat_map(|it| ["-o", *it]));
        if !fields.is_empty() {
            arguments.extend(["-T", "fields"]);
            arguments.extend(fields.iter().flat_map(|field| ["-e", *field]));
        }
        let output = run("tshark", &arguments);
        output.lines().map(str::to_owned).collect()
    }

    /// Returns the packets that are malformed or have a warning.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.fields("_ws.malformed || _ws.expert.severity >= warning", &[])
    }
}
