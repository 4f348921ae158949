//! Failures of scripts: which event, which field, what was sent.

use std::time::Duration;

use carrick_script::{Failure, Script};

const LISTEN: &str = "+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=2, is=2, tsn=10]
";
const SERVER: &str = "+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=2, is=..., tsn=100, STATE_COOKIE[len=..., val=...]]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
";

/// Returns the failure, or the packet behind the last event.
#[track_caller]
fn outcome(text: &str) -> Option<Failure> {
    let outcome = Script::parse(text).expect("a script").run();
    outcome.failure.or(outcome.unexpected)
}

#[track_caller]
fn failure(text: &str) -> Failure {
    outcome(text).expect("a failure")
}

/// Returns the failure of a script with an established association.
#[track_caller]
fn established(text: &str) -> Option<Failure> {
    outcome(&format!("{LISTEN}{SERVER}{text}"))
}

#[track_caller]
fn field(text: &str) -> (String, String, String) {
    let failure = established(text).expect("a failure");
    let difference = failure.difference.expect("a difference");
    (difference.field, difference.expected, difference.actual)
}

#[test]
fn the_first_different_field_is_named() {
    let failure = failure(&format!(
        "{LISTEN}+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=3, is=7, tsn=100, ...]"
    ));
    assert_eq!(failure.position.to_string(), "6:1");
    assert_eq!(
        failure.message,
        "chunk 1 (INIT_ACK), os differs: expected 3, sent 2"
    );
    let expected = "0.000 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=3, is=7, tsn=100, ...]";
    assert_eq!(failure.expected.as_deref(), Some(expected));
    let actual = failure.actual.expect("a packet");
    assert!(
        actual.starts_with("0.000 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd="),
        "{actual}"
    );
    assert!(
        actual.contains(", os=2, is=65535, tsn=100, STATE_COOKIE[len="),
        "{actual}"
    );
}

#[test]
fn chunks_are_compared_in_their_order() {
    let data = "+0 < sctp: DATA[flgs=BE, len=20, tsn=10, sid=0, ssn=0, ppid=0]\n";
    let cases = [
        ("+0 > sctp: COOKIE_ACK[]", ("chunk 1", "COOKIE_ACK", "SACK")),
        (
            "+0 > sctp: SACK[]; COOKIE_ACK[]",
            ("chunk 2", "COOKIE_ACK", "none"),
        ),
        ("+0 > sctp(tag=5): SACK[]", ("verification tag", "5", "1")),
        (
            "+0 > sctp(dport=7): SACK[]",
            ("destination port", "7", "8080"),
        ),
        (
            "+0 > 192.168.0.1 > 192.0.2.7: sctp: SACK[]",
            ("destination address", "192.0.2.7", "192.0.2.1"),
        ),
        (
            "+0 > sctp: SACK[gaps=[2:2]]",
            ("chunk 1 (SACK), gaps", "[2:2]", "[]"),
        ),
        (
            "+0 > sctp: CHUNK[type=3, flgs=1]",
            ("chunk 1 (CHUNK), flgs", "1", "0"),
        ),
    ];
    for (text, (name, expected, actual)) in cases {
        let found = field(&format!("{data}{text}"));
        assert_eq!(
            found,
            (name.into(), expected.into(), actual.into()),
            "{text}"
        );
    }
}

#[test]
fn parameters_and_causes_are_compared() {
    let init = LISTEN.replace("tsn=10]", "tsn=10, PARAMETER[type=0xffff, len=4]]");
    let cases = [
        (
            "STATE_COOKIE[]",
            (
                "chunk 1 (INIT_ACK), parameter 2",
                "none",
                "UNRECOGNIZED_PARAMETER",
            ),
        ),
        (
            "ECN_CAPABLE[]",
            ("chunk 1 (INIT_ACK), parameter 1", "ECN_CAPABLE", "none"),
        ),
        (
            "STATE_COOKIE[], UNRECOGNIZED_PARAMETER[param=PARAMETER[type=0xfffe]]",
            (
                "chunk 1 (INIT_ACK), parameter 2 (UNRECOGNIZED_PARAMETER), param",
                "PARAMETER[type=0xfffe]",
                "PARAMETER[type=0xffff, len=4, val=[]]",
            ),
        ),
        (
            "STATE_COOKIE[], UNRECOGNIZED_PARAMETER[param=PARAMETER[type=0xffff, len=8]]",
            (
                "chunk 1 (INIT_ACK), parameter 2 (UNRECOGNIZED_PARAMETER), param, len",
                "8",
                "4",
            ),
        ),
    ];
    for (parameters, (name, expected, actual)) in cases {
        let failure = failure(&format!("{init}+0 > sctp: INIT_ACK[{parameters}]"));
        let found = failure.difference.expect("a difference");
        let found = (
            found.field.as_str(),
            found.expected.as_str(),
            found.actual.as_str(),
        );
        assert_eq!(found, (name, expected, actual));
    }
}

#[test]
fn an_ellipsis_admits_further_parameters() {
    let init = LISTEN.replace(
        "tsn=10]",
        "tsn=10, PARAMETER[type=0xffff, len=4], PARAMETER[type=0xfffe, len=4]]",
    );
    let open = "UNRECOGNIZED_PARAMETER[param=PARAMETER[type=0xffff]], ...";
    assert_eq!(outcome(&format!("{init}+0 > sctp: INIT_ACK[{open}]")), None);
    let twice = "UNRECOGNIZED_PARAMETER[], STATE_COOKIE[], ...";
    let failure = failure(&format!(
        "--parameters=list\n{init}+0 > sctp: INIT_ACK[{twice}]"
    ));
    let difference = failure.difference.expect("a difference");
    assert_eq!(difference.field, "chunk 1 (INIT_ACK), parameter 2");
    assert_eq!(
        (difference.expected.as_str(), difference.actual.as_str()),
        ("STATE_COOKIE", "none")
    );
}

#[test]
fn times_are_exact_unless_a_tolerance_is_set() {
    let write = "+1 write(4, ..., 10) = 10\n+0 > sctp: DATA[tsn=100]\n";
    let wrong = format!("{write}+0.999 > sctp: DATA[tsn=100]");
    let sent = failure(&format!("{LISTEN}{SERVER}{wrong}"));
    assert_eq!(sent.message, "the stack sent no packet until 1.999");
    let late = field(&format!("{write}+1.001 > sctp: DATA[tsn=100]"));
    assert_eq!(late, ("time".into(), "2.001".into(), "2.000".into()));
    let range = format!("{write}+0.9~+1.1 > sctp: DATA[tsn=100]");
    assert_eq!(established(&range), None);
    let any = format!("{write}* > sctp: DATA[tsn=100]\n4 > sctp: DATA[tsn=100]");
    assert_eq!(established(&any), None);
    for text in [wrong, format!("{write}+1.001 > sctp: DATA[tsn=100]")] {
        let tolerant = format!("--tolerance_usecs=1000\n{LISTEN}{SERVER}{text}");
        assert_eq!(outcome(&tolerant), None);
    }
}

#[test]
fn unexpected_packets_fail() {
    let write = "+0 write(4, ..., 10) = 10\n";
    let last = established(write).expect("a failure");
    assert_eq!(
        last.message,
        "the stack sent a packet that is not expected after the last event"
    );
    let actual = "0.000 > 192.168.0.1 > 192.0.2.1: sctp: DATA[flgs=BE, len=26, tsn=100, sid=0, ssn=0, ppid=0]";
    assert_eq!(last.actual.as_deref(), Some(actual));
    let timer = format!("{write}+0 > sctp: DATA[tsn=100]\n+1.5 close(4) = 0\n");
    let timer = established(&timer).expect("a failure");
    assert_eq!(timer.time, Duration::from_secs(1));
    // At the next line of the stack, whichever events are in between.
    let data = "+0.1 < sctp: DATA[flgs=BE, len=21, tsn=10, sid=0, ssn=0, ppid=0]\n";
    for time in ["+0", "*"] {
        let found = field(&format!("{write}{data}{time} > sctp: SACK[cum_tsn=10]\n"));
        assert_eq!(found, ("chunk 1".into(), "SACK".into(), "DATA".into()));
    }
    let early = field(&format!("{write}{data}+0 > sctp: DATA[tsn=100]\n"));
    assert_eq!(early, ("time".into(), "0.100".into(), "0.000".into()));
}

#[test]
fn results_of_calls_are_compared() {
    let cases = [
        ("+0 read(4, ..., 10) = 5", None),
        (
            "+0 fcntl(4, F_SETFL, O_NONBLOCK) = 0\n+0 read(4, ..., 10) = 5",
            Some(("result", "5", "-1 EAGAIN")),
        ),
        (
            "+0 write(4, ..., 10) = -1 EPIPE",
            Some(("result", "-1 EPIPE", "10")),
        ),
        (
            "+0 getsockopt(4, IPPROTO_SCTP, SCTP_NODELAY, [1], [4]) = 0",
            Some(("value", "1", "0")),
        ),
        (
            "+0 getsockopt(4, IPPROTO_SCTP, SCTP_RTOINFO, {srto_initial=..., srto_min=77}, [16]) = 0",
            Some(("srto_min", "77", "1000")),
        ),
        (
            "+0 getsockopt(4, IPPROTO_SCTP, SCTP_RTOINFO, {srto_min=1000}, [20]) = 0",
            Some(("size of the option", "20", "16")),
        ),
    ];
    for (text, expected) in cases {
        let failure = established(text).expect("a failure");
        let found = failure.difference.as_ref();
        let found = found.map(|d| (d.field.as_str(), d.expected.as_str(), d.actual.as_str()));
        assert_eq!(found, expected, "{failure}");
    }
}

#[test]
fn a_call_that_blocks_needs_its_end() {
    let blocks = established("+0 read(4, ..., 10) = 5").expect("a failure");
    assert!(
        blocks.message.starts_with("read blocks: write START...END"),
        "{blocks}"
    );
    let data = "+0.3 < sctp: DATA[flgs=BE, len=21, tsn=10, sid=0, ssn=0, ppid=0]\n+0 > sctp: SACK[cum_tsn=10]\n";
    assert_eq!(
        established(&format!("+0...+0.3 read(4, ..., 10) = 5\n{data}")),
        None
    );
    let late = established(&format!("+0...+0.2 read(4, ..., 10) = 5\n{data}")).expect("a failure");
    assert_eq!(
        late.message,
        "time of read differs: expected its end at 0.200, it ended at 0.300"
    );
    let never = established("+0...+0.2 read(4, ..., 10) = 5\n").expect("a failure");
    assert_eq!(never.message, "read has not ended until 0.200");
}

#[test]
fn errors_of_a_script_have_their_place() {
    let cases = [
        (
            "+0 write(9, ..., 10) = 10",
            "10:10: descriptor 9 is not open",
        ),
        (
            "+0 fly(4) = 0",
            "10:8: fly with 1 arguments is no call that scripts have",
        ),
        ("+0 close(FOUR) = 0", "10:10: unknown constant FOUR"),
        (
            "+0 < sctp: SHUTDOWN[cum_tsn=...]",
            "10:12: SHUTDOWN, cum_tsn: `...` is no value of a packet to the stack",
        ),
        (
            "+0 < sctp: SHUTDOWN[cum_tsn=$x]",
            "10:12: SHUTDOWN, cum_tsn: $x has no value yet",
        ),
        (
            "+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 4",
            "10:11: 4 is no new descriptor",
        ),
        (
            "+0 setsockopt(4, IPPROTO_SCTP, SCTP_RTOINFO, {srto=1}, 16) = 0",
            "10:52: struct sctp_rtoinfo has no field srto: there are srto_assoc_id, srto_initial, srto_max, srto_min",
        ),
        (
            "0.5 close(3) = 0\n0.4 close(4) = 0",
            "11:1: its time precedes that of the event before, 0.500",
        ),
    ];
    for (text, expected) in cases {
        let failure = established(text).expect("a failure");
        assert_eq!(
            format!("{}: {}", failure.position, failure.message),
            expected
        );
    }
}

#[test]
fn tags_and_tsns_are_those_of_the_stack() {
    // Another tag and TSN of the script name the same packets.
    let server = SERVER
        .replace("tag=2", "tag=77")
        .replace("tsn=100", "tsn=4294967295");
    let text = format!(
        "{LISTEN}{server}+0 write(4, ..., 10) = 10
+0 > sctp: DATA[tsn=4294967295]
+0 < sctp(tag=77): SACK[cum_tsn=4294967295, a_rwnd=65536]
+0 write(4, ..., 10) = 10
+0 > sctp: DATA[tsn=0]"
    );
    assert_eq!(outcome(&text), None);
    // One tag of the script is one of the stack.
    let again = format!(
        "{LISTEN}{SERVER}+0 < sctp: INIT[flgs=0, tag=3, a_rwnd=65536, os=2, is=2, tsn=50]\n\
         +0 > sctp: INIT_ACK[flgs=0, tag=2, ...]"
    );
    let difference = failure(&again).difference.expect("a difference");
    assert_eq!(
        (difference.field.as_str(), difference.expected.as_str()),
        ("chunk 1 (INIT_ACK), tag", "2")
    );
}

#[test]
fn frames_have_the_lines_as_comments() {
    let text = format!("{LISTEN}+0 > sctp: INIT_ACK[flgs=0, ...] // comment\n");
    let outcome = Script::parse(&text).expect("a script").run();
    let comments: Vec<_> = outcome
        .frames
        .iter()
        .map(|f| f.comment.as_deref())
        .collect();
    let init = "line 5: < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=2, is=2, tsn=10]";
    assert_eq!(
        comments,
        [Some(init), Some("line 6: > sctp: INIT_ACK[flgs=0, ...]")]
    );
}
