//! Validation of the messages by tshark's dissector.

use crate::capture::Capture;
use crate::layer::Layer;
use crate::m2pa_messages;
use crate::samples::{full, minimal};

/// Captures of the test.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// RFC 4666, section 3.1.2
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_message() {
    let messages: Vec<_> = full().into_iter().chain(minimal()).collect();
    let octets = messages.iter().map(|message| message.encode());
    let octets = octets.map(|octets| octets.expect("a message that fits"));
    let capture = Capture::new([FOLDER, "m3ua"], 2905, 3, octets, &[]);
    let tshark = |filter: &str, fields: &[&str]| capture.fields(filter, fields);
    let kinds: Vec<_> = messages
        .iter()
        .map(|message| format!("{}\t{}", message.kind().class, message.kind().message_type))
        .collect();
    let found = tshark("m3ua", &["m3ua.message_class", "m3ua.message_type"]);
    assert_eq!(found, kinds);
    assert_eq!(capture.complaints(), Vec::<String>::new());
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

/// RFC 4165, section 2.3
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_m2pa_message() {
    let messages = m2pa_messages::all();
    let octets = messages.iter().map(|message| message.encode());
    let octets = octets.map(|octets| octets.expect("a message that fits"));
    let capture = Capture::new([FOLDER, "m2pa"], 3565, 5, octets, &[]);
    let fields = ["m2pa.type", "m2pa.bsn", "m2pa.fsn", "m2pa.status"];
    let found = capture.fields("m2pa", &fields);
    let expected: Vec<_> = messages
        .iter()
        .map(|message| {
            let (message_type, state) = match &message.body {
                carrick_sigtran::m2pa::Body::UserData(_) => (1, String::new()),
                carrick_sigtran::m2pa::Body::LinkStatus(status) => (2, status.state().to_string()),
            };
            let (bsn, fsn) = (message.bsn.value(), message.fsn.value());
            format!("{message_type}\t{bsn}\t{fsn}\t{state}")
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(capture.complaints(), Vec::<String>::new());
}

/// Checks that tshark dissects each message of a layer without a complaint, and none of their parameters as unknown.
fn check_layer<M: Layer>(layer: &str, port: u16, identifier: u32) -> Capture {
    let messages = M::full();
    let octets = messages.iter().map(Layer::encode);
    let octets = octets.map(|octets| octets.expect("a message that fits"));
    // IUA of RFC 4233, with Q.931 on SAPI 0 instead of the radio signalling link of GSM.
    let preferences = &["iua.support_ig:TRUE", "iua.use_gsm_sapi_values:FALSE"];
    let capture = Capture::new([FOLDER, layer], port, identifier, octets, preferences);
    let kinds: Vec<_> = messages
        .iter()
        .map(|message| format!("{}\t{}", message.kind().class, message.kind().message_type))
        .collect();
    let fields = ["message_class", "message_type"].map(|field| format!("{layer}.{field}"));
    let found = capture.fields(layer, &fields.each_ref().map(String::as_str));
    assert_eq!(found, kinds);
    assert_eq!(capture.complaints(), Vec::<String>::new());
    let fields = ["frame.number", &format!("{layer}.parameter_tag")];
    let unknown = capture.fields(&format!("{layer}.parameter_value"), &fields);
    assert_eq!(unknown, Vec::<String>::new());
    capture
}

/// RFC 3331, section 3.1.4
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_m2ua_message() {
    let capture = check_layer::<carrick_sigtran::m2ua::Message>("m2ua", 2904, 2);
    let fields = [
        "m2ua.interface_identifier_int",
        "m2ua.interface_identifier_start",
        "m2ua.interface_identifier_stop",
    ];
    // Of several integers the dissector shows the first one.
    let active = capture.fields("m2ua.message_class == 4 && m2ua.message_type == 1", &fields);
    assert_eq!(active, ["1\t5\t9"]);
    let fields = [
        "m2ua.action",
        "m2ua.retrieval_result",
        "m2ua.sequence_number",
    ];
    let confirm = capture.fields(
        "m2ua.message_class == 6 && m2ua.message_type == 11",
        &fields,
    );
    assert_eq!(confirm, ["1\t0\t41"]);
    let fields = [
        "m2ua.local_lk_identifier",
        "m2ua.sdt_identifier",
        "m2ua.sdl_identifier",
    ];
    let key = capture.fields(
        "m2ua.message_class == 10 && m2ua.message_type == 1",
        &fields,
    );
    assert_eq!(key, ["5\t291\t1110"]);
}

/// RFC 4233, section 3.1.2
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_iua_message() {
    let capture = check_layer::<carrick_sigtran::iua::Message>("iua", 9900, 1);
    let fields = [
        "iua.int_interface_identifier",
        "iua.dlci_sapi",
        "iua.dlci_tei",
    ];
    let data = capture.fields("iua.message_class == 5 && iua.message_type == 1", &fields);
    assert_eq!(data, ["0x00000007\t0x00\t0x40"]);
    let status = capture.fields("iua.tei_status", &["iua.tei_status"]);
    assert_eq!(status, ["0x00000001", "0x00000001"]);
}

/// RFC 3868, section 3.1.3
#[test]
#[ignore = "needs tshark (interop/install.sh)"]
fn tshark_accepts_every_sua_message() {
    let capture = check_layer::<carrick_sigtran::sua::Message>("sua", 14001, 4);
    let fields = [
        "sua.source.point_code",
        "sua.source.ssn",
        "sua.destination.gti",
        "sua.destination.global_title_digits",
        "sua.protocol_class_class",
        "sua.ss7_hop_counter_counter",
        "sua.segmentation_number_of_remaining_segments",
        "sua.segmentation_reference",
    ];
    let transfer = capture.fields("sua.message_class == 7 && sua.message_type == 1", &fields);
    assert_eq!(transfer, ["2072\t8\t0x04\t49170123456\t1\t15\t2\t658188"]);
    let fields = [
        "sua.sequence_number_receive_sequence_number",
        "sua.sequence_number_more_data_bit",
        "sua.sequence_number_sent_sequence_number",
    ];
    let data = capture.fields("sua.message_class == 8 && sua.message_type == 8", &fields);
    assert_eq!(data, ["5\t1\t100"]);
    let fields = ["sua.source.hostname.name", "sua.destination.ipv6_address"];
    let acknowledge = capture.fields("sua.message_class == 8 && sua.message_type == 2", &fields);
    assert_eq!(acknowledge, ["hlr-1.example.com\t2001:db8::1"]);
}
