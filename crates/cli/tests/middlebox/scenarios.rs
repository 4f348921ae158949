//! Scenario files of `SIPp`, some of them derived from others.

/// Calls with a delayed offer: the description is in the ACK.
fn late(caller: &str) -> String {
    let begin = caller.find("      Content-Type:").unwrap();
    let end = caller.find("    ]]>").unwrap();
    let description = &caller[begin..end];
    let none = "      Content-Length: 0\n\n";
    let (invite, rest) = (&caller[..begin], &caller[end..]);
    // A caller that answers in the ACK does not know when the ACK has passed.
    let (nop, pause) = ("  <nop>", "  <pause milliseconds=\"500\"/>\n  <nop>");
    let rest = rest.replacen(none, description, 1).replacen(nop, pause, 1);
    format!("{invite}{none}{rest}")
}

/// Calls as long as the long capture.
fn long(caller: &str) -> String {
    let caller = caller.replace("speech.pcap", "long.pcap");
    caller.replace("milliseconds=\"1000\"", "milliseconds=\"12500\"")
}

/// Calls that ring with early media and fail.
fn early(caller: &str, refusal: &str, cancel: bool) -> String {
    // Number of the message that the ACK acknowledges: it belongs to the transaction of the first one.
    let (cancelling, ack) = if cancel {
        (include_str!("cancel.xml"), "[branch-8]")
    } else {
        ("", "[branch-6]")
    };
    let caller = caller.replace("  <!-- cancel -->\n", cancelling);
    let caller = caller.replace("response=\"408\"", &format!("response=\"{refusal}\""));
    caller.replace("[branch-ACK]", ack)
}

/// Callee that refuses without being cancelled.
fn busy(callee: &str) -> String {
    let begin = callee.find("  <recv request=\"CANCEL\"/>").unwrap();
    let end = callee.find("  <send retrans").unwrap();
    let (before, after) = (&callee[..begin], &callee[end..]);
    let after = after.replace("487 Request Terminated", "486 Busy Here");
    format!("{before}  <pause milliseconds=\"2000\"/>\n{after}")
}

/// All scenarios, with their names.
pub(crate) fn scenarios() -> [(&'static str, String); 10] {
    let caller = include_str!("caller.xml");
    let [ringing, callee] = [include_str!("early.xml"), include_str!("early-callee.xml")];
    [
        ("caller.xml", caller.to_owned()),
        ("late.xml", late(caller)),
        ("long.xml", long(caller)),
        ("patient.xml", include_str!("patient.xml").to_owned()),
        (
            "patient-callee.xml",
            include_str!("patient-callee.xml").to_owned(),
        ),
        ("unanswered.xml", early(ringing, "408", false)),
        ("refused.xml", early(ringing, "486", false)),
        ("cancelled.xml", early(ringing, "487", true)),
        ("early-callee.xml", callee.to_owned()),
        ("busy-callee.xml", busy(callee)),
    ]
}
