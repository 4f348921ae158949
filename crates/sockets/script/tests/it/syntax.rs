//! Syntax errors: line, column, and what was expected.

use carrick_script::Script;

/// Returns the syntax error of a script.
#[track_caller]
fn error(text: &str) -> String {
    Script::parse(text).expect_err("an error").to_string()
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(error(text), *expected, "{text}");
    }
}

#[test]
fn errors_of_packets_have_their_place() {
    let cases = [
        (
            "",
            "1:1: expected an event, such as `+0 > sctp: INIT[...]`, found the end of the script",
        ),
        (
            "// only a comment\n",
            "2:1: expected an event, such as `+0 > sctp: INIT[...]`, found the end of the script",
        ),
        (
            "+x > sctp: COOKIE_ACK[]",
            "1:2: expected a time, such as `+0.1`, `0.5`, `+0.1~+0.2` or `*`, found `x`",
        ),
        (
            "\n\n+0 > tcp: S",
            "3:6: expected `sctp`, `icmp`, ports or addresses, found `tcp`",
        ),
        (
            "+0 > sctp COOKIE_ACK[]",
            "1:11: expected `:`, found `COOKIE_ACK`",
        ),
        (
            "+0 > sctp: COOKIE_ACK[flgs=T]",
            "1:28: COOKIE_ACK has no flags with letters: write a number",
        ),
        (
            "+0 > sctp: ABORT[flgs=X]",
            "1:23: `X` is no flag of ABORT: its flags are T, or a number",
        ),
        (
            "+0 > sctp: SACK[cum_tsn=1, gaps=[2-3]]",
            "1:35: expected `:`, found `-`",
        ),
        (
            "+0 > sctp: SACK[gaps=[], cum_tsn=1]",
            "1:26: the order of the fields is flgs, len, cum_tsn, a_rwnd, gaps, dups",
        ),
        (
            "+0 > sctp: SHUTDOWN[tsn=1]",
            "1:21: expected a field of SHUTDOWN (flgs, len, cum_tsn), found `tsn`",
        ),
        (
            "+0 > sctp: DATA[sid=65536]",
            "1:21: 65536 is out of range: a number, 0 to 65535",
        ),
        (
            "+0 > sctp: CHUNK[flgs=0]",
            "1:12: CHUNK needs a field `type`",
        ),
        (
            "+0 > sctp: COOKIE_ACK[",
            "1:23: expected a field of COOKIE_ACK (flgs, len), found the end of the script",
        ),
        (
            "+0 < sctp: INIT[tag=1, ...]",
            "1:24: expected a field of INIT (flgs, len, tag, a_rwnd, os, is, tsn) or a parameter, found `.`",
        ),
    ];
    check(&cases);
}

#[test]
fn errors_of_events_and_options_have_their_place() {
    let cases = [
        (
            "* < sctp: COOKIE_ACK[]",
            "1:1: the script performs this event: `*` and ranges are for `>`",
        ),
        (
            "+0~+1 close(3) = 0",
            "1:1: the script performs this event: `*` and ranges are for `>`",
        ),
        (
            "+0...1 > sctp: COOKIE_ACK[]",
            "1:1: `START...END` is the duration of a call that blocks",
        ),
        (
            "+0.2~+0.1 > sctp: COOKIE_ACK[]",
            "1:10: the end of the range precedes its beginning",
        ),
        (
            "+0 close(3)",
            "1:12: expected `=`, found the end of the script",
        ),
        (
            "+0 close(3) = x",
            "1:15: expected a result: a number, `-1 ERROR` or `...`, found `x`",
        ),
        ("+0 close(3 = 0", "1:12: expected `)`, found `=`"),
        (
            "+0 write(3, \"abc, 3) = 3",
            "1:13: the text has no end `\"`",
        ),
        ("/* never ends", "1:1: the comment has no end `*/`"),
        (
            "--tolerance_usecs=soon\n",
            "1:1: --tolerance_usecs=soon: expected microseconds",
        ),
        (
            "+0 close(3) = 0\n--mtu=1400\n",
            "2:1: options precede the first event",
        ),
        (
            "+0 > sctp: INIT[IPV4_ADDRESS[addr=::1]]",
            "1:38: an IPv6 address is no IPv4 address",
        ),
        (
            "+0 > sctp(crc=1): COOKIE_ACK[]",
            "1:11: expected tag, sport, dport or bad_crc32c, found `crc`",
        ),
    ];
    check(&cases);
}

#[test]
fn unknown_names_are_listed_with_the_known_ones() {
    let chunk = error("+0 > sctp: DATUM[]");
    assert!(
        chunk.starts_with("1:12: unknown chunk DATUM: there are DATA, INIT"),
        "{chunk}"
    );
    let preset = error("--preset=fast\n");
    let names = "1:1: --preset=fast: expected recommended, signaling or rfc9260";
    assert_eq!(preset, names);
    let option = error("--spead=9\n");
    assert!(
        option.starts_with("1:1: unknown option --spead: --tolerance_usecs"),
        "{option}"
    );
    let cause = error("+0 > sctp: ABORT[STALE[]]");
    assert!(
        cause.starts_with("1:18: unknown error cause STALE: there are INVALID"),
        "{cause}"
    );
}

#[test]
fn nesting_is_bounded() {
    let text = format!("+0 f({}) = 0", "[".repeat(1000));
    assert_eq!(error(&text), "1:38: values are nested deeper than 32");
    let cause = "UNRECOGNIZED_CHUNK_TYPE[chk=ERROR[";
    let text = format!("+0 > sctp: ERROR[{}", cause.repeat(1000));
    assert!(error(&text).ends_with("values are nested deeper than 32"));
}

#[test]
fn comments_and_white_space_are_skipped() {
    let script = Script::parse(
        "# RFC 9260, section 8.4: the title\n\
         /* a comment\n   of two lines */ +0 < sctp(tag=1): // behind\n  COOKIE_ACK [ flgs = 0 ]\n\
         +0 < sctp(tag=1): SHUTDOWN_ACK[]\n+0 > sctp(tag=1): SHUTDOWN_COMPLETE[flgs=T]",
    )
    .expect("a script");
    assert_eq!(script.title, "RFC 9260, section 8.4: the title");
    assert_eq!(script.run().failure, None);
}

/// Any prefix and any change of one character of a script is a script or an error.
#[test]
fn changed_scripts_do_not_panic() {
    let text = "--mtu=1400\n+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3 (x)\n\
        +0...0.5 sendmsg(3, {msg_iov(1)=[{\"a\\x41\", 2}]}, MSG_EOR|0) = -1 EPIPE\n\
        +0 < 192.0.2.1 > 192.168.0.1: sctp(tag=1): INIT[flgs=0, tag=1, IPV6_ADDRESS[addr=::1]]\n\
        * > sctp: SACK[gaps=[1:2], dups=[3]]; DATA[flgs=BE, val=[1, 0x2]]; I-DATA[]\n\
        #ifdef Linux\n+0 `sysctl -w net.sctp.rto_min=1 x=2; y`\n#else\n#endif\n\
        +0 < [ect0] 5 > 6 sctp/udp(7 > 8): NR_SACK[nr_gaps=[1:2]]; I_FORWARD_TSN[ids=[{1,2,3}]]\n\
        +0 < icmp unreachable frag_needed mtu 600 [sctp(1)]\n+0 < sctp: [0x1, 2]\n\
        +0 < sctp: RECONFIG[RECONFIG_RESPONSE[resp_sn=1]]; ASCONF[ADD_IP_ADDRESS[IPV4_ADDRESS[addr=...]]]\n\
        +0 sctp_sendv(3, [{..., 4}], 1, NULL, 0, {sendv_sndinfo={snd_sid=1}}, 9, 4, 0) = 4\n";
    for at in 0..text.len() {
        let _ = Script::parse(&text[..at]);
        for sign in ['[', ']', '0', '"', '.', '$', '\n', 'é'] {
            let mut changed = text.to_owned();
            changed.replace_range(at..=at, &sign.to_string());
            if let Ok(script) = Script::parse(&changed) {
                let _ = script.run();
            }
        }
    }
}
