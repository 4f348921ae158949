//! Validation of the messages by tshark's dissector.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::samples::{full, minimal};

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program} (see interop/install.sh): {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// RFC 4666, section 3.1.2
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_message() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let text = folder.join("m3ua.txt");
    let capture = folder.join("m3ua.pcapng");
    let messages: Vec<_> = full().into_iter().chain(minimal()).collect();
    let mut dump = String::new();
    for message in &messages {
        let octets = message.encode().expect("a message that fits");
        dump.push_str("0000");
        for octet in octets {
            write!(dump, " {octet:02x}").expect("memory for the text");
        }
        dump.push('\n');
    }
    std::fs::write(&text, dump).expect("a file in the target folder");
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (text, capture) = (path(&text), path(&capture));
    // Chunks with the payload protocol identifier of M3UA.
    run("text2pcap", &["-q", "-S", "2905,2905,3", &text, &capture]);

    let tshark = |filter: &str, fields: &[&str]| {
        let mut arguments = vec!["-n", "-r", &capture, "-Y", filter];
        if !fields.is_empty() {
            arguments.extend(["-T", "fields"]);
            arguments.extend(fields.iter().flat_map(|field| ["-e", *field]));
        }
        let output = run("tshark", &arguments);
        output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let kinds: Vec<_> = messages
        .iter()
        .map(|message| format!("{}\t{}", message.kind().class, message.kind().message_type))
        .collect();
    let found = tshark("m3ua", &["m3ua.message_class", "m3ua.message_type"]);
    assert_eq!(found, kinds);
    let complaints = tshark("_ws.malformed || _ws.expert.severity >= warning", &[]);
    assert_eq!(complaints, Vec::<String>::new());
    // Parameters are dissected, not skipped, with the values that were encoded.
    let unknown = tshark(
        "m3ua.parameter_value",
        &["frame.number", "m3ua.parameter_tag"],
    );
    assert_eq!(unknown, Vec::<String>::new());
    let protocol_data = ["opc", "dpc", "si", "ni", "mp", "sls"];
    let fields = protocol_data.map(|field| format!("m3ua.protocol_data_{field}"));
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    assert_eq!(
        tshark("m3ua.correlation_identifier == 99", &fields),
        ["2072\t5029\t3\t2\t0\t5"]
    );
    let fields = [
        "m3ua.dpc_pc",
        "m3ua.si",
        "m3ua.opc_list_mask",
        "m3ua.opc_list_pc",
    ];
    let keys = tshark("m3ua.message_type == 1 && m3ua.message_class == 9", &fields);
    assert_eq!(keys[0], "5029,5030,1\t3,5,13\t0,3\t5029,2072");
    let fields = [
        "m3ua.affected_point_code_mask",
        "m3ua.affected_point_code_pc",
    ];
    let destinations = tshark("m3ua.congestion_level == 2", &fields);
    assert_eq!(destinations, ["0,3\t5029,2072"]);
}
