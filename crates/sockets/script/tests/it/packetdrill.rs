//! Constructs of packetdrill's syntax that public scripts use.

use carrick_script::{Script, ScriptOutcome, System};

/// Listening socket.
const LISTEN: &str = "+0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0.0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0.0 bind(3, ..., ...) = 0
+0.0 listen(3, 1) = 0
";

#[track_caller]
fn outcome_for(text: &str, system: System) -> ScriptOutcome {
    let script = Script::parse_for(text, system);
    script
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .run()
}

#[track_caller]
fn outcome(text: &str) -> ScriptOutcome {
    outcome_for(text, System::Linux)
}

#[track_caller]
fn passes(text: &str) {
    if let Some(failure) = outcome(text).failure {
        panic!("{failure}\n{text}");
    }
}

/// Returns field, expected and actual value of the first difference.
#[track_caller]
fn difference(text: &str) -> (String, String, String) {
    let failure = outcome(text).failure.expect("a failure");
    let difference = failure
        .difference
        .unwrap_or_else(|| panic!("{}", failure.message));
    (difference.field, difference.expected, difference.actual)
}

/// Returns a script with an established association: descriptor 4, tag 2, first TSN 100 of the stack and 10 of the peer.
/// `settings` are lines in front, and `parameters` those of the peer's INIT.
fn established(settings: &str, parameters: &str, events: &str) -> String {
    format!(
        "{settings}\n{LISTEN}+0.0 < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=4, is=4, tsn=10{parameters}]
+0.0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=100, ...]
+0.0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0.0 > sctp: COOKIE_ACK[flgs=0]
+0.0 accept(3, ..., ...) = 4
{events}"
    )
}

#[test]
fn lines_of_other_systems_are_no_part_of_a_script() {
    let text = "#ifdef FreeBSD
+0 < sctp(tag=7): ABORT[flgs=0]
this line is not parsed
#else
#ifndef FreeBSD
+0 < sctp(tag=7): SHUTDOWN_ACK[flgs=0]
#endif
+0 > sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]
#endif // FreeBSD
#ifdef Darwin
neither is this one
#endif
";
    assert_eq!(outcome_for(text, System::Linux).frames.len(), 2);
    let error = Script::parse_for(text, System::FreeBsd).expect_err("a line without syntax");
    assert_eq!(error.position.to_string(), "3:1");
    let without = text.replace("this line is not parsed", "");
    assert_eq!(outcome_for(&without, System::FreeBsd).frames.len(), 1);
}

#[test]
fn conditions_without_an_end_are_syntax_errors() {
    for (text, position, message) in [
        (
            "#ifdef Linux\n+0 socket(2, 1, 132) = 3\n",
            "1:1",
            "the condition has no #endif",
        ),
        (
            "+0 socket(2, 1, 132) = 3\n #endif",
            "2:2",
            "#endif has no #ifdef or #ifndef",
        ),
        (
            "#ifdef Linux\n#else\n#else\n#endif",
            "3:1",
            "#else has no #ifdef or #ifndef",
        ),
        (
            "#ifndef\n#endif",
            "1:1",
            "#ifndef needs a name: Linux or FreeBSD",
        ),
    ] {
        let error = Script::parse(text).expect_err("a syntax error");
        assert_eq!(
            (error.position.to_string().as_str(), error.message.as_str()),
            (position, message)
        );
    }
}

/// RFC 9260, section 16
#[test]
fn settings_of_both_systems_set_parameters() {
    for setting in [
        "0.0 `sysctl -w net.sctp.rto_initial=3000`",
        "0.0 `sysctl -ew net.sctp.rto_initial=3000 net.sctp.rto_min=500`",
        "0.0 `sysctl -i net.inet.sctp.rto_initial=3000`",
        "`sysctl -q -w net.inet.sctp.ecn_enable=0; sudo sysctl net.inet.sctp.rto_initial=\"3000\"`",
        "`echo 3000 > /proc/sys/net/sctp/rto_initial`",
    ] {
        let text = format!(
            "{setting}
+0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0.0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0.0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+3.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
"
        );
        passes(&text);
        assert_eq!(outcome(&text).notes, []);
    }
}

/// RFC 3758, section 3.1
#[test]
fn settings_offer_and_refuse_extensions() {
    let settings = "--preset=recommended
0.0 `sysctl -w net.inet.sctp.ecn_enable=0`
+0.0 `sysctl -w net.inet.sctp.pr_enable=1`
+0.0 `sysctl -w net.inet.sctp.reconfig_enable=0`
";
    let init = "+0.0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1, ECN_CAPABLE[], FORWARD_TSN_SUPPORTED[]]\n";
    passes(&format!(
        "{settings}{LISTEN}{init}+0.0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=1,
                      FORWARD_TSN_SUPPORTED[],
                      SUPPORTED_EXTENSIONS[types=[FORWARD_TSN]],
                      STATE_COOKIE[len=..., val=...]]\n"
    ));
}

#[test]
fn other_commands_are_noted() {
    let text = format!(
        "`ifconfig tun0 mtu 1500
sysctl -w net.sctp.cookie_hmac_alg=none net.inet.tcp.blackhole=2`
{LISTEN}+0.0 `sleep 1 && true`
`sysctl -w net.sctp.rto_min=70000`
"
    );
    let outcome = outcome(&text);
    assert_eq!(outcome.failure, None);
    let notes: Vec<String> = outcome.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes[..5],
        [
            "1:1: not run: `ifconfig tun0 mtu 1500`",
            "1:1: net.sctp.cookie_hmac_alg: no parameter of this stack",
            "1:1: net.inet.tcp.blackhole: no parameter of this stack",
            "7:1: not run: `sleep 1`",
            "7:1: not run: `true`",
        ]
    );
    assert!(
        notes[5].starts_with("8:1: net.sctp.rto_min=70000 is not in force: "),
        "{}",
        notes[5]
    );
}

#[test]
fn a_setting_without_a_number_fails() {
    let text = format!("`sysctl -w net.sctp.rto_min=soon`\n{LISTEN}");
    let failure = outcome(&text).failure.expect("a failure");
    assert_eq!(
        failure.to_string(),
        "1:1: net.sctp.rto_min=soon: expected a number"
    );
    let error = Script::parse("`sysctl").expect_err("a syntax error");
    assert_eq!(error.message, "the command has no end: a backtick");
}

#[test]
fn options_of_packetdrill_are_known() {
    let text = format!(
        "--ip_version=ipv4
--tolerance_usecs=75000
--mtu=1500
--local_ip=192.168.0.1
--remote_ip=192.0.2.1/24
--netmask_ip=255.255.0.0
--udp_encapsulation=sctp
--init_scripts=\"./defaults.sh\"
{LISTEN}"
    );
    let outcome = outcome(&text);
    assert_eq!(outcome.failure, None);
    let notes: Vec<String> = outcome.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "6:1: --netmask_ip has no effect",
            "7:1: --udp_encapsulation has no effect",
            "8:1: --init_scripts has no effect",
        ]
    );
}

#[test]
fn default_addresses_are_those_of_packetdrill() {
    for (version, local, remote) in [
        ("ipv4", "192.168.0.1", "192.0.2.1"),
        ("ipv6", "fd3d:fa7b:d17d::1", "2001:db8::1"),
    ] {
        passes(&format!(
            "--ip_version={version}
+0 < {remote} > {local}: sctp(tag=7): SHUTDOWN_ACK[flgs=0]
+0 > {local} > {remote}: sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]"
        ));
    }
}

/// RFC 9260, section 3.2.1
#[test]
fn parameters_of_init_ack_are_a_set() {
    let init = "+0.0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1,
        PARAMETER[type=0xc0ff, len=4], PARAMETER[type=0xc0fe, len=4], FORWARD_TSN_SUPPORTED[],
        SUPPORTED_EXTENSIONS[types=[FORWARD_TSN, RECONFIG]]]\n";
    let script = |options: &str, parameters: &str| {
        format!(
            "{options}\n--preset=recommended\n{LISTEN}{init}+0.0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=3{parameters}]"
        )
    };
    let all = ", UNRECOGNIZED_PARAMETER[params=[PARAMETER[type=0xc0fe, len=4]]],
        SUPPORTED_EXTENSIONS[types=[RECONFIG, FORWARD_TSN]], FORWARD_TSN_SUPPORTED[], STATE_COOKIE[...],
        UNRECOGNIZED_PARAMETER[param=PARAMETER[type=0xc0ff]]";
    let offered = outcome(&script("", all));
    let offered = offered.failure.map(|f| f.to_string());
    assert_eq!(offered, None);
    // Each element of the set counts.
    let (field, expected, actual) = difference(&script("", &all.replace("0xc0fe", "0xc0fd")));
    assert_eq!(
        (field.as_str(), expected.as_str()),
        (
            "chunk 1 (INIT_ACK), parameter 1 (UNRECOGNIZED_PARAMETER), param",
            "PARAMETER[type=0xc0fd, len=4]"
        )
    );
    assert!(actual.starts_with("PARAMETER[type=0xc0f"), "{actual}");
    let fewer = difference(&script("", &all.replace(", STATE_COOKIE[...]", "")));
    assert_eq!(fewer.2, "STATE_COOKIE");
    let more = difference(&script("", &format!("{all}, IPV4_ADDRESS[addr=...]")));
    assert_eq!((more.1.as_str(), more.2.as_str()), ("IPV4_ADDRESS", "none"));
    // In the order of the script if it asks for it.
    assert!(outcome(&script("--parameters=list", all)).failure.is_some());
}

#[test]
fn packets_behind_the_last_event_do_not_fail() {
    let text = established("", "", "+0.0 write(4, ..., 1000) = 1000\n");
    let outcome = outcome(&text);
    assert_eq!(outcome.failure, None);
    let unexpected = outcome.unexpected.expect("DATA");
    assert!(
        unexpected
            .actual
            .expect("a packet")
            .contains("DATA[flgs=BE, len=1016")
    );
    passes(&established(
        "",
        "",
        "+0.0 write(4, ..., 1000) = 1000\n+0.0 > sctp: DATA[...]\n",
    ));
}

/// RFC 6525, sections 4.1 and 4.4
#[test]
fn stream_resets_have_their_parameters() {
    let settings = "0.0 `sysctl -w net.inet.sctp.reconfig_enable=1`";
    let offered = ", SUPPORTED_EXTENSIONS[types=[RE-CONFIG]]";
    let events = "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, {assoc_value=SCTP_ENABLE_RESET_STREAM_REQ}, 8) = 0
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RESET_STREAMS, {srs_flags=SCTP_STREAM_RESET_OUTGOING, srs_number_streams=2, srs_stream_list=[0, 2]}, 12) = 0
+0.0 > sctp: RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=100, resp_sn=9, last_tsn=99, sids=[0, 2]]]
+0.1 < sctp: RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=100, result=1]]
+0.1 < sctp: RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=10, resp_sn=100, last_tsn=9]]
+0.0 > sctp: RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=10, result=1]]
";
    passes(&established(settings, offered, events));
    let other = events.replace("sids=[0, 2]", "sids=[0, 1]");
    let found = difference(&established(settings, offered, &other));
    assert_eq!((found.1.as_str(), found.2.as_str()), ("[0, 1]", "[0, 2]"));
}

/// RFC 8260, sections 2.1 and 2.3.1
#[test]
fn interleaved_messages_have_both_spellings() {
    let settings = "0.0 `sysctl -w net.sctp.intl_enable=1 net.sctp.prsctp_enable=1`";
    let offered = ", FORWARD_TSN_SUPPORTED[], SUPPORTED_EXTENSIONS[types=[I_DATA, I-FORWARD-TSN]]";
    passes(&established(
        settings,
        offered,
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVRCVINFO, [1], 4) = 0
+0.0 < sctp: I_DATA[flgs=UB, len=24, tsn=10, sid=1, mid=65543, ppid=5]
+0.0 > sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=..., gaps=[], dups=[]]
+0.0 < sctp: I-DATA[flgs=UE, len=24, tsn=11, sid=1, mid=65543, fsn=1]
+0.0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 100}], msg_control=[{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_RCVINFO, cmsg_data={rcv_sid=1, rcv_ssn=7, rcv_flags=SCTP_UNORDERED}}], msg_flags=MSG_EOR}, 0) = 8
+0.2 > sctp: SACK[flgs=0, cum_tsn=11, a_rwnd=..., gaps=[], dups=[]]
+0.0 < sctp: I_FORWARD_TSN[cum_tsn=13, ids=[{1, 1, 65544}, {2, 0, 0}]]
+0.2 > sctp: SACK[flgs=0, cum_tsn=13, a_rwnd=..., gaps=[...], dups=[...]]
+0.0 write(4, ..., 4) = 4
+0.0 > sctp: I-DATA[flgs=BE, len=24, tsn=100, sid=0, mid=0, ppid=0]
",
    ));
}

/// RFC 3758, section 3.2
#[test]
fn skipped_messages_are_pairs_in_braces() {
    let settings = "0.0 `sysctl -w net.inet.sctp.pr_enable=1`";
    passes(&established(
        settings,
        ", FORWARD_TSN_SUPPORTED[]",
        "+0.1 < sctp: FORWARD_TSN[cum_tsn=11, ids=[]];
             FORWARD_TSN[cum_tsn=12, ids=[{1,0}, {2,3}]]
+0.0 > sctp: SACK[flgs=0, cum_tsn=12, a_rwnd=..., gaps=[], dups=[]]
",
    ));
}

/// draft-natarajan-tsvwg-sctp-nrsack, section 4
#[test]
fn non_renegable_blocks_are_a_field() {
    let settings = "0.0 `sysctl -w net.inet.sctp.nrsack_enable=1`";
    passes(&established(
        settings,
        ", SUPPORTED_EXTENSIONS[types=[NR_SACK]]",
        "+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=11, sid=0, ssn=0, ppid=0]
+0.0 > sctp: NR_SACK[flgs=0, cum_tsn=9, a_rwnd=..., gaps=[], nr_gaps=[2:2], dups=[]]
+0.0 write(4, ..., 4) = 4
+0.0 > sctp: DATA[flgs=BE, len=20, tsn=100, sid=0, ssn=0, ppid=0]
+0.0 < sctp: NR_SACK[flgs=0, cum_tsn=100, a_rwnd=1500, gaps=[], nr_gaps=[], dups=[]]
+5.0 getsockopt(4, IPPROTO_SCTP, SCTP_STATUS, {sstat_unackdata=0}, [176]) = 0
",
    ));
}

/// RFC 5061, sections 4.1 and 4.2
#[test]
fn address_changes_have_their_parameters() {
    let settings = "--local_ip=192.168.0.1,198.51.100.1
0.0 `sysctl -w net.sctp.addip_enable=1 net.sctp.addip_noauth_enable=1`";
    passes(&established(
        settings,
        ", SUPPORTED_EXTENSIONS[types=[ASCONF, ASCONF_ACK]]",
        "+0.1 < sctp: ASCONF[flgs=0, serial=10, IPV4_ADDRESS[addr=192.0.2.1], ADD_IP_ADDRESS[corr_id=7, IPV4_ADDRESS[addr=203.0.113.1]]]
* > sctp: ASCONF_ACK[flgs=0, serial=10, ...]
",
    ));
}

/// RFC 4895, section 4.1
#[test]
fn authentication_chunks_are_a_chunk() {
    let text = established(
        "",
        "",
        "+0.1 < sctp: AUTH[flgs=0, keyid=0, hmacid=1, val=[0, 1, 2, 3]]; HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=8, val=...]]\n",
    );
    assert_eq!(outcome(&text).failure, None);
}

/// RFC 9260, section 3.3.10.6
#[test]
fn quoted_chunks_have_the_numbers_of_their_sender() {
    let quoted = "FORWARD_TSN[cum_tsn=11, ids=[{1,0}]]";
    passes(&established(
        "",
        "",
        &format!(
            "+0.0 < sctp: {quoted}
+0.0 > sctp: ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk={quoted}]]
+0.0 write(4, ..., 4) = 4
+0.0 > sctp: DATA[flgs=BE, len=20, tsn=100, sid=0, ssn=0, ppid=0]
+0.0 < sctp: ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=DATA[flgs=BE, tsn=100, sid=0, ssn=0, ppid=0]]]
"
        ),
    ));
    // A chunk of the stack that the peer quotes has a TSN of the stack on the wire.
    let text = established(
        "",
        "",
        "+0.1 < sctp: ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=CWR[flgs=0, tsn=100]]]\n",
    );
    let outcome = outcome(&text);
    let tsn = |bytes: &[u8]| bytes[bytes.len() - 4..].to_vec();
    let init_ack = &outcome.frames[1].bytes;
    let last = outcome.frames.last().expect("the ERROR");
    assert_eq!(tsn(&last.bytes), init_ack[12 + 16..12 + 20]);
}

/// RFC 9260, section 6.10
#[test]
fn packets_and_chunks_may_be_raw_bytes() {
    let answer = "+0.0 > sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=..., gaps=[], dups=[]]\n";
    let raw = "+0.0 < sctp: [0x00, 0x03, 0x00, 0x11, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0]\n";
    passes(&established(
        "",
        "",
        &format!("{raw}{answer}+0.0 read(4, \"\\xff\", 10) = 1\n"),
    ));
    let chunk = "+0.0 < sctp: CHUNK[type=DATA, flgs=3, len=17, val=[0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]]\n";
    passes(&established(
        "",
        "",
        &format!("{}{answer}", chunk.replace("type=DATA", "type=0")),
    ));
    passes(&established("", "", &format!("{chunk}{answer}")));
    let complete = "+0.0 < sctp: SHUTDOWN[flgs=0, cum_tsn=99]
+0.0 > sctp: [8, 0, 0, 4]\n";
    passes(&established("", "", complete));
}

/// RFC 9260, section 10
#[test]
fn icmp_messages_reach_the_association() {
    let write = "+0.0 write(4, ..., 1200) = 1200
+0.0 > sctp: DATA[flgs=BE, len=1216, tsn=100, sid=0, ssn=0, ppid=0]
";
    let too_big = "+0.1 < icmp unreachable frag_needed mtu 1000 [sctp(1)]
+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_STATUS, {sstat_primary={spinfo_mtu=1000}}, [176]) = 0
";
    passes(&established("", "", &format!("{write}{too_big}")));
    let icmp = "icmp unreachable frag_needed mtu 1000";
    let in_front = too_big.replace(&format!("{icmp} [sctp(1)]"), &format!("[sctp(1)] {icmp}"));
    passes(&established("", "", &format!("{write}{in_front}")));
    // Another tag proves nothing.
    let wrong = too_big
        .replace("sctp(1)", "sctp(9)")
        .replace("spinfo_mtu=1000", "spinfo_mtu=1500");
    passes(&established("", "", &format!("{write}{wrong}")));
    let refused = "+0.0 < icmp unreachable protocol_unreachable [sctp(1)]
+0.0 getsockopt(4, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0
";
    let found = outcome(&established("", "", &format!("{write}{refused}"))).failure;
    let reason = found.and_then(|f| f.difference).map(|d| d.actual);
    assert!(
        reason.is_none_or(|actual| actual != "0"),
        "the message had no effect"
    );
}

/// RFC 6951, section 4
#[test]
fn packets_have_fields_of_the_headers_below() {
    passes(
        "+0 < (ttl 64) sctp(tag=7)/udp(9899 > 9899): SHUTDOWN_ACK[flgs=0]
+0 > [noecn] sctp(tag=7)/udp(9899 > 9899): SHUTDOWN_COMPLETE[flgs=T]
+0 < [ect0, ttl 3] 5000 > 8080 sctp(tag=7): SHUTDOWN_ACK[flgs=0]
+0 > 8080 > 5000 sctp(tag=7): SHUTDOWN_COMPLETE[flgs=T]
",
    );
    let found = difference(
        "+0 < sctp(tag=7): SHUTDOWN_ACK[flgs=0]
+0 > sctp(tag=7)/udp(9899 > 9899): SHUTDOWN_COMPLETE[flgs=T]",
    );
    assert_eq!(found, ("UDP port".into(), "9899".into(), "none".into()));
}

/// RFC 6458, sections 9.12 and 9.13
#[test]
fn vector_calls_have_attributes() {
    passes(&established(
        "",
        "",
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVRCVINFO, [1], 4) = 0
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVNXTINFO, [1], 4) = 0
+0.0 sctp_sendv(4, [{iov_base=..., iov_len=600}, {\"abcd\", 4}], 2, NULL, 0, {snd_sid=1, snd_flags=0, snd_ppid=htonl(1234), snd_context=0, snd_assoc_id=0}, 16, SCTP_SENDV_SNDINFO, 0) = 604
+0.0 > sctp: DATA[flgs=BE, len=620, tsn=100, sid=1, ssn=0, ppid=1234]
+0.0 < sctp: SACK[flgs=0, cum_tsn=100, a_rwnd=65536, gaps=[], dups=[]]
+0.0 sctp_sendv(4, [{..., 4}], 1, NULL, 0, {sendv_flags=SCTP_SEND_SNDINFO_VALID, sendv_sndinfo={snd_sid=2, snd_flags=SCTP_UNORDERED}, sendv_prinfo=..., sendv_authinfo=...}, 32, SCTP_SENDV_SPA, 0) = 4
+0.0 > sctp: DATA[flgs=UBE, len=20, tsn=101, sid=2, ssn=..., ppid=0]
+0.0 < sctp: DATA[flgs=BE, len=20, tsn=10, sid=0, ssn=0, ppid=10]
+0.0 > sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=..., gaps=[], dups=[]]
+0.0 < sctp: DATA[flgs=BE, len=21, tsn=11, sid=0, ssn=1, ppid=11]
+0.0 sctp_recvv(4, [{iov_base=..., iov_len=1000}], 1, ..., 16, {recvv_rcvinfo={rcv_sid=0, rcv_ssn=0, rcv_ppid=htonl(10), rcv_tsn=...}, recvv_nxtinfo={nxt_ppid=htonl(11), nxt_length=5}}, [44], [SCTP_RECVV_RN], [MSG_EOR]) = 4
+0.0 sctp_recvv(4, [{..., 1000}], 1, ..., ..., {rcv_ssn=1}, [28], [SCTP_RECVV_RCVINFO], [MSG_EOR]) = 5
",
    ));
}

/// RFC 6458, section 5.3.9
#[test]
fn sendmsg_has_the_address_of_the_options() {
    let listed = "{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"192.0.2.7\")}";
    let addr = "{addr=inet_addr(\"192.0.2.7\")}";
    for (control, addresses) in [
        (String::new(), 1),
        (
            format!(
                ", msg_control(16)=[{{cmsg_len=16, cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_DSTADDRV4, cmsg_data={listed}}}]"
            ),
            2,
        ),
        (
            format!(
                ", msg_control=[{{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_DSTADDRV4, cmsg_data={addr}}}]"
            ),
            2,
        ),
    ] {
        passes(&format!(
            "+0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0.0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0.0 bind(3, ..., ...) = 0
+0.0 sendmsg(3, {{msg_name(...)=..., msg_iov(1)=[{{..., 10}}]{control}, msg_flags=0}}, 0) = 10
+0.0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0.0 sctp_getpaddrs(3, 0, [...]) = {addresses}
"
        ));
    }
}

#[test]
fn fields_of_linger_have_both_names() {
    for names in ["onoff=1, linger=5", "l_onoff=1, l_linger=5"] {
        passes(&format!(
            "{LISTEN}+0.0 setsockopt(3, SOL_SOCKET, SO_LINGER, {{{names}}}, 8) = 0
+0.0 getsockopt(3, SOL_SOCKET, SO_LINGER, {{{names}}}, [8]) = 0
"
        ));
    }
}

#[test]
fn lengths_of_options_count() {
    let option = |text: &str| established("", "", text);
    passes(&option(
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_NODELAY, [1], 2) = -1 EINVAL\n",
    ));
    passes(&option(
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_INITMSG, {sinit_num_ostreams=4}, 7) = -1 EINVAL (Invalid argument)\n",
    ));
    passes(&option(
        "+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_RTOINFO, {srto_min=1000}, [16]) = 0\n",
    ));
    passes(&option(
        "+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_RTOINFO, ..., [15]) = -1 EINVAL\n",
    ));
    // As many bytes as the call has: subscriptions behind them remain.
    passes(&option(
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_EVENTS, {sctp_association_event=1, sctp_sender_dry_event=1}, 2) = 0
+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_EVENTS, {sctp_association_event=1, sctp_sender_dry_event=0}, [14]) = 0\n",
    ));
}

#[test]
fn all_names_of_errors_are_known() {
    passes(
        "+0 close(7) = -1 EBADF (Bad file descriptor)
+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0...0.5 connect(3, ..., ...) = -1 ECONNREFUSED (Connection refused)
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0.5 < sctp(tag=1): ABORT[flgs=0]
",
    );
    for name in ["ETIMEDOUT", "ECONNRESET", "ENOTSUP", "EPROTO", "ENOBUFS"] {
        let text = format!("+0 close(7) = -1 {name}");
        let found = difference(&text);
        assert_eq!(
            (found.1.as_str(), found.2.as_str()),
            (format!("-1 {name}").as_str(), "-1 EBADF")
        );
    }
    let error = Script::parse("+0 close(7) = -1 ENOPE").expect_err("a syntax error");
    assert_eq!(error.to_string(), "1:18: unknown error ENOPE");
}

#[test]
fn addresses_of_sockets_are_compared() {
    passes(&established(
        "",
        "",
        "+0.0 getsockname(4, {sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"192.168.0.1\")}, [16]) = 0
+0.0 sctp_getpaddrs(4, 0, [{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"192.0.2.1\")}]) = 1
+0.0 sctp_getladdrs(4, 0, ...) = 1
+0.0 sctp_getladdrs(4, 0, [...]) = 1
+0.0 sctp_getpaddrs(4, 0, [...]) = 1
",
    ));
}

#[test]
fn times_may_have_white_space() {
    passes(
        "  0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+ 0.5 ... + 1.5 connect(3, ..., ...) = -1 ECONNREFUSED (Connection refused)
+ 0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+ 0.9 ~ + 1.1 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
2.0 < sctp(tag=1): ABORT[flgs=0]
",
    );
}

/// RFC 9260, section 8.5
#[test]
fn tags_are_compared_where_a_line_has_one() {
    // The ABORT has the tag of the INIT that it answers, not that of the association.
    let init = "+0.1 < sctp: INIT[flgs=0, tag=3, a_rwnd=1500, os=1, is=1, tsn=0, IPV4_ADDRESS[addr=203.0.113.9]]\n";
    let abort = |tag: &str| format!("{init}+0.0 > sctp{tag}: ABORT[flgs=0, ...]\n");
    for tag in ["", "(tag=3)"] {
        passes(&established("", "", &abort(tag)));
    }
    let found = difference(&established("", "", &abort("(tag=1)")));
    assert_eq!(found, ("verification tag".into(), "1".into(), "3".into()));
}

#[test]
fn packets_wait_for_the_next_line_of_the_stack() {
    let write = "+0.0 write(4, ..., 4) = 4\n";
    let between = "+0.1 < sctp: DATA[flgs=BE, len=21, tsn=10, sid=0, ssn=0, ppid=0]
+0.1 read(4, ..., 10) = 5
";
    let lines = "* > sctp: DATA[flgs=BE, len=20, tsn=100, sid=0, ssn=0, ppid=0]
* > sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=..., gaps=[], dups=[]]
";
    passes(&established("", "", &format!("{write}{between}{lines}")));
    // Its time is that at which it left.
    let range = lines.replacen('*', "0.0~0.05", 1);
    passes(&established("", "", &format!("{write}{between}{range}")));
}

/// RFC 6458, section 8.2.6
#[test]
fn lists_of_anything_are_values() {
    passes(&established(
        "",
        "",
        "+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_HMAC_IDENT, {shmac_number_of_idents=..., shmac_idents=[...]}, [0]) = -1
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_NODELAY, [...], 4) = 0
+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=10, sid=0, ssn=0, ppid=0]
+0.0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 100}], msg_control=[...], msg_flags=[...]}, 0) = 4
",
    ));
}

/// RFC 6458, section 5.3.6
#[test]
fn a_complete_next_message_has_no_flag() {
    let data = "+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=10, sid=0, ssn=0, ppid=0];
             DATA[flgs=UBE, len=21, tsn=11, sid=1, ssn=0, ppid=0]
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVNXTINFO, [1], 4) = 0
";
    let receive = "+0.0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 100}], msg_control=[{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_NXTINFO, cmsg_data={nxt_sid=1, nxt_flags=SCTP_UNORDERED|SCTP_COMPLETE, nxt_length=5}}], msg_flags=MSG_EOR}, 0) = 4
";
    passes(&established("", "", &format!("{data}{receive}")));
}

/// RFC 6458, section 5.3
#[test]
fn control_messages_have_no_order() {
    let next =
        "{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_NXTINFO, cmsg_data={nxt_sid=1, nxt_length=5}}";
    let this =
        "{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_RCVINFO, cmsg_data={rcv_sid=0, rcv_tsn=10}}";
    let events = |control: &str| {
        established(
            "",
            "",
            &format!(
                "+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=10, sid=0, ssn=0, ppid=0];
             DATA[flgs=UBE, len=21, tsn=11, sid=1, ssn=0, ppid=0]
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVNXTINFO, [1], 4) = 0
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVRCVINFO, [1], 4) = 0
+0.0 recvmsg(4, {{msg_name(...)=..., msg_iov(1)=[{{..., 100}}], msg_control=[{control}], msg_flags=MSG_EOR}}, 0) = 4
"
            ),
        )
    };
    passes(&events(&format!("{next}, {this}")));
    passes(&events(&format!("{this}, {next}")));
    // Each one counts.
    let found = difference(&events(&format!("{this}, {this}")));
    assert_eq!(found, ("cmsg_type".into(), "3".into(), "4".into()));
    let wrong = this.replace("rcv_tsn=10", "rcv_tsn=12");
    let found = difference(&events(&format!("{wrong}, {next}")));
    assert_eq!(found, ("rcv_tsn".into(), "12".into(), "10".into()));
}

/// RFC 6458, sections 8.1.12 and 8.1.9
#[test]
fn structs_have_the_sizes_of_the_system() {
    let address = "{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"192.0.2.1\")}";
    let events = |[parameters, primary]: [usize; 2]| {
        established(
            "",
            "",
            &format!(
                "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, {{spp_address={address}, spp_pathmaxrxt=7, spp_flags=SPP_DSCP, spp_dscp=8}}, {parameters}) = 0
+0.0 getsockopt(4, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, {{spp_address={address}, spp_pathmaxrxt=7, spp_dscp=8}}, [{parameters}]) = 0
+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_PRIMARY_ADDR, {{ssp_addr={address}}}, {primary}) = 0
"
            ),
        )
    };
    let (linux, freebsd) = ([156, 132], [152, 136]);
    passes(&events(linux));
    let failure = outcome_for(&events(freebsd), System::FreeBsd).failure;
    assert_eq!(failure, None);
    assert!(outcome(&events(freebsd)).failure.is_some());
}

/// RFC 6458, section 6.1.11
#[test]
fn unsent_messages_have_both_names_of_fields() {
    for (prefix, data) in [("ssfe", "ssfe_data"), ("ssf", "ssf_data")] {
        passes(&established(
            "",
            "",
            &format!(
                "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_EVENT, {{se_type=SCTP_SEND_FAILED_EVENT, se_on=1}}, 8) = 0
+0.0 sctp_sendmsg(4, \"abcd\", 4, ..., ..., htonl(7), 0, 1, 0, 9) = 4
+0.0 > sctp: DATA[flgs=BE, len=20, tsn=100, sid=1, ssn=0, ppid=7]
+0.0 < sctp: ABORT[flgs=0]
+0.0 recv(4, {{{prefix}_type=SCTP_SEND_FAILED_EVENT, {prefix}_flags=SCTP_DATA_SENT, {prefix}_length=36, ssfe_info={{snd_sid=1, snd_ppid=htonl(7), snd_context=9}}, {data}=\"abcd\"}}, 1000, 0) = 36
"
            ),
        ));
    }
}

#[test]
fn poll_has_the_events_of_descriptors() {
    let data = "+0.1 < sctp: DATA[flgs=BE, len=20, tsn=10, sid=0, ssn=0, ppid=0]
+0.0 > sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=..., gaps=[], dups=[]]
";
    let poll = |time: &str, events: &str, revents: &str, timeout: i32, result: i32| {
        format!(
            "{time} poll([{{fd=4, events={events}, revents={revents}}}, {{fd=3, events=POLLIN, revents=0}}], 2, {timeout}) = {result}\n"
        )
    };
    let both = "POLLIN|POLLOUT";
    passes(&established(
        "",
        "",
        &[
            poll("+0.0", both, "POLLOUT", 0, 1),
            poll("+0.0", "POLLIN", "0", 0, 0),
            poll("+0.0...0.05", "POLLIN", "0", 50, 0),
            poll("+0.1...0.2", "POLLIN", "POLLIN", -1, 1),
            data.to_owned(),
            poll("+0.0", both, both, 5000, 1),
            "+0.0 poll([{fd=9, events=POLLIN, revents=POLLNVAL}], 1, 0) = 1\n".to_owned(),
        ]
        .concat(),
    ));
    let late = poll("+0.0...0.05", "POLLIN", "0", 60, 0) + "+1.0 close(4) = 0\n";
    let failure = outcome(&established("", "", &late)).failure.unwrap();
    let message = failure.message;
    assert_eq!(
        message,
        "time of poll differs: expected its end at 0.050, it ended at 0.060"
    );
    let wrong = poll("+0.0", both, both, 0, 1);
    let found = difference(&established("", "", &wrong));
    assert_eq!(
        found,
        ("revents of descriptor 4".into(), "0x5".into(), "0x4".into())
    );
}

#[test]
fn a_descriptor_that_was_not_expected_differs() {
    let found = difference(
        &established("", "", "")
            .replace("accept(3, ..., ...) = 4", "accept(3, ..., ...) = -1 EAGAIN"),
    );
    assert_eq!(found, ("result".into(), "-1 EAGAIN".into(), "4".into()));
    passes(&established(
        "",
        "",
        "+0.0 sctp_bindx(3, [...], 1, SCTP_BINDX_ADD_ADDR) = -1\n",
    ));
}

/// RFC 6458, sections 5.3.2 and 5.3.5
#[test]
fn unordered_messages_have_a_cumulative_tsn() {
    passes(&established(
        "",
        "",
        "+0.0 setsockopt(4, IPPROTO_SCTP, SCTP_RECVRCVINFO, [1], 4) = 0
+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=11, sid=0, ssn=0, ppid=0]
+0.0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 100}], msg_control=[{cmsg_level=IPPROTO_SCTP, cmsg_type=SCTP_RCVINFO, cmsg_data={rcv_tsn=11, rcv_cumtsn=9}}], msg_flags=MSG_EOR}, 0) = 4
+0.0 < sctp: DATA[flgs=UBE, len=20, tsn=10, sid=0, ssn=0, ppid=0]
+0.0 sctp_recvv(4, [{..., 100}], 1, ..., ..., {rcv_tsn=10, rcv_cumtsn=11}, [28], [SCTP_RECVV_RCVINFO], [MSG_EOR]) = 4
+0.0 < sctp: DATA[flgs=BE, len=20, tsn=12, sid=0, ssn=0, ppid=0]
+0.0 sctp_recvv(4, [{..., 100}], 1, ..., ..., {rcv_tsn=12, rcv_cumtsn=0}, [28], [SCTP_RECVV_RCVINFO], [MSG_EOR]) = 4
",
    ));
}

/// Years without an answer take no time and no memory.
#[test]
fn the_work_of_a_script_is_bounded() {
    let settings = "`sysctl -w net.sctp.rto_min=1 net.sctp.rto_initial=1 net.sctp.rto_max=1 net.sctp.association_max_retrans=4000000000 net.sctp.path_max_retrans=4000000000`";
    let write = "+0 write(4, ..., 10) = 10\n";
    let early = outcome(&established(
        settings,
        "",
        &format!("{write}+300000000 close(4) = 0\n"),
    ));
    assert!(early.failure.is_some() && early.frames.len() < 60_000);
    let tolerant = format!("--tolerance_usecs=300000000000000\n{settings}");
    let late = outcome(&established(
        &tolerant,
        "",
        &format!("{write}+300000000 close(4) = 0\n"),
    ));
    assert!(late.failure.is_some() && late.frames.len() < 60_000);
}
