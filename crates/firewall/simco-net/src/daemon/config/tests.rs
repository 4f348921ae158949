use super::*;
use carrick_simco::middlebox::{Rights, RuleAccess};

const COMPLETE: &str = r#"
name = "fw1"
state = "rules"
audit = "/var/log/carrick.json"
metrics = "127.0.0.1:9626"
max-lifetime = 600
protocols = ["udp", 6]
wildcards = false

[listen]
sctp = { addresses = ["192.0.2.1", "198.51.100.1"], udp-port = 9899 }
tcp = ["127.0.0.1:7626"]
tls = { addresses = ["[::1]:7627"], certificate = "chain.pem", key = "key.pem" }

[backend]
kind = "memory"

[limits]
rules = 1000
queued-octets = 70000

[[agents]]
name = "pbx"
key = "000102030405060708090a0b0c0d0e0f"
rights = ["enable", "lifetime"]
max-rules = 10
max-elements = 25
max-patterns = 3
max-disable-rules = 2

[[agents]]
name = "noc"
rights = "all"
sees = "all"
controls = ["pbx"]
"#;

#[test]
fn complete_file_is_parsed() {
    let settings = DaemonSettings::parse("f", COMPLETE).unwrap();
    let config = settings.middlebox().unwrap();
    assert_eq!(config.identity.as_str(), "fw1");
    assert_eq!(config.protocols, [17, 6]);
    assert_eq!(config.limits.rules, 1000);
    assert_eq!(config.limits.queued_octets, 70_000);
    assert!(config.capabilities.persistent && !config.capabilities.port_wildcards);
    let [pbx, noc] = &config.agents[..] else {
        panic!("{:?}", config.agents)
    };
    let few = Rights {
        enable: true,
        change_lifetime: true,
        ..Rights::NONE
    };
    assert_eq!((pbx.rights, pbx.max_rules), (few, 10));
    assert_eq!((pbx.max_elements, pbx.max_patterns), (25, 3));
    assert_eq!(pbx.max_disable_rules, 2);
    assert!(pbx.key.is_some() && noc.key.is_none());
    assert_eq!((noc.rights, &noc.sees), (Rights::ALL, &RuleAccess::All));
    assert_eq!(noc.controls, RuleAccess::Of(vec![pbx.identity.clone()]));
}

/// Changes of a file, or files, that are wrong, and the beginnings of their errors.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "wildcards = false",
        "wildcard = false",
        "f, line 8: wildcard: unknown key; expected one of",
    ),
    (
        "kind = \"memory\"",
        "",
        "f, line 15: [backend]: key kind is missing: give [backend] with kind = \"nftables\"",
    ),
    (
        "kind = \"memory\"",
        "kind = \"iptables\"",
        "f, line 16: kind: \"iptables\" is invalid; expected \"nftables\" or \"memory\"",
    ),
    (
        "kind = \"memory\"",
        "kind = \"memory\"\nelements = \"x\"",
        "f, line 17: elements: \"x\" is invalid; expected a whole number",
    ),
    (
        "kind = \"memory\"",
        "kind = \"memory\"\ntable = \"x\"",
        "f, line 15: [backend]: table needs kind = \"nftables\"",
    ),
    (
        "kind = \"memory\"",
        "kind = \"nftables\"\ntranslation = [\n{ address = \"192.0.2.1\", first-port = 9, last-port = 8 }]",
        "f, line 18: translation: ports 9 to 8 are invalid",
    ),
    (
        "[backend]\nkind = \"memory\"",
        "",
        "f: backend: missing: the file needs this key or table: give [backend]",
    ),
    (
        "max-lifetime = 600",
        "max-lifetime = \"x\"",
        "f, line 6: max-lifetime: \"x\" is invalid; expected a whole number from 0",
    ),
    (
        "max-lifetime = 600",
        "max-lifetime = 0",
        "f, line 6: max-lifetime: 0 is invalid; must be at least 1 second",
    ),
    (
        "0e0f",
        "0e",
        "f, line 24: key: the key has 30 hexadecimal digits; expected",
    ),
    ("0e0f", "0e0g", "f, line 24: key: character 32 is no digit"),
    (
        "\"000102030405060708090a0b0c0d0e0f\"",
        "12",
        "f, line 24: key: the value is invalid; expected a text in quotes",
    ),
    (
        "key = \"000102030405060708090a0b0c0d0e0f\"",
        "key-file = \"/nonexistent\"",
        "f, line 24: key-file: cannot read /nonexistent: No such file",
    ),
    (
        "\"lifetime\"",
        "\"live\"",
        "f, line 25: rights: unknown right \"live\"",
    ),
    (
        "[\"pbx\"]",
        "[\"pbxx\"]",
        "f, line 35: controls: no agent has the name \"pbxx\"",
    ),
    (
        "name = \"noc\"",
        "name = \"pbx\"",
        "f, line 32: name: another agent has the name \"pbx\"",
    ),
    (
        "name = \"noc\"\n",
        "",
        "f, line 31: [[agents]]: key name is missing",
    ),
    (
        "name = \"noc\"",
        "name = \"noc\"\nkey = \"000102030405060708090a0b0c0d0e0f\"",
        "f, line 33: key: agents \"pbx\" and \"noc\" have the same key",
    ),
    (
        "name = \"noc\"",
        "name = \"noc\"\ninternal = [\"10.0.0.0/33\"]",
        "f, line 33: internal: invalid network \"10.0.0.0/33\"",
    ),
    (
        "name = \"fw1\"",
        "name = \"fw1\"\nrule-traffic = 10001",
        "f, line 3: rule-traffic: 10001 is invalid; must be at most 10000",
    ),
    (
        "\"udp\"",
        "\"udb\"",
        "f, line 7: protocols: unknown protocol \"udb\"",
    ),
    (
        "6]",
        "600]",
        "f, line 7: protocols: 600 is invalid; expected the name of a protocol",
    ),
    (
        "\"all\"",
        "5",
        "f, line 33: rights: 5 is invalid; must be a word",
    ),
    (
        "127.0.0.1:7626\"]",
        "127.0.0.1\"]",
        "f, line 12: tcp: \"127.0.0.1\" is invalid; expected an address with its port",
    ),
    (
        "rules = 1000",
        "exact-ports = 0",
        "f, line 19: exact-ports: 0 is invalid; must be at least 1",
    ),
    (
        "name = \"fw1\"",
        "name = \"\"",
        "f, line 2: name: \"\" is invalid; must have 1 to 255 octets",
    ),
    (
        "name = \"fw1\"",
        "name = \"fw1\"\nanonymous = \"x\"",
        "f, line 3: anonymous: no agent has the name \"x\"",
    ),
    (
        "sctp = { ",
        "sctp = { preset = \"fast\", ",
        "f, line 11: preset: \"fast\" is invalid; expected recommended, signaling or rfc9260",
    ),
];

#[test]
fn errors_name_line_key_and_value() {
    let changed = |from: &str, to: &str| {
        let text = COMPLETE.replace(from, to);
        assert_ne!(text, COMPLETE, "{from}");
        match DaemonSettings::parse("f", &text).and_then(|settings| settings.middlebox()) {
            Ok(_) => panic!("{to} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    for (from, to, reported) in WRONG {
        let error = changed(from, to);
        assert!(error.starts_with(reported), "{to}: {error}");
        assert!(!error.contains("00010203"), "{error}");
    }
}

/// Each key with values of other types.
#[test]
fn no_error_has_words_of_the_parser() {
    let values = [
        "[[1]]",
        "{ x = 1 }",
        "-1",
        "1.5",
        "true",
        "\"no such\"",
        "99999999999999999999",
    ];
    let words = [
        "u8",
        "u16",
        "u32",
        "usize",
        "enum",
        "struct",
        "variant",
        "nonzero",
        "syntax",
        "integer",
        "invalid type",
        "sequence",
        "`",
    ];
    let lines: Vec<&str> = COMPLETE.lines().collect();
    let mut count = 0;
    for (place, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else {
            continue;
        };
        for value in values {
            let mut changed = lines.clone();
            let own = format!("{key} = {value}");
            changed[place] = &own;
            let parsed = DaemonSettings::parse("f", &changed.join("\n"));
            let Err(error) = parsed.and_then(|settings| settings.middlebox()) else {
                continue;
            };
            let error = error.to_string();
            let reason = error
                .split_once(&format!("{key}: "))
                .map_or(&*error, |(_, reason)| reason);
            let found = words.iter().find(|word| reason.contains(**word));
            assert_eq!(found, None, "{own}: {error}");
            // A name may be valid here, and missing elsewhere.
            if !value.contains("no such") {
                let shown = if key == "key" {
                    "the value"
                } else {
                    value.trim_matches(['[', ']', '{', '}', ' '])
                };
                assert!(
                    error.starts_with(&format!("f, line {}: ", place + 1)),
                    "{own}: {error}"
                );
                assert!(
                    error.contains(shown) || error.contains("unknown key"),
                    "{own}: {error}"
                );
            }
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn configuration_without_possible_session_is_refused() {
    let agents = "[[agents]]\nname = \"pbx\"\nkey = \"000102030405060708090a0b0c0d0e0f\"\n";
    let tcp = "[listen]\ntcp = [\"127.0.0.1:7626\"]\n";
    let files = "certificate = \"chain.pem\", key = \"key.pem\"";
    let tls = format!("tls = {{ addresses = [\"127.0.0.1:7627\"], {files} }}\n");
    let without = format!("tls = {{ addresses = [], {files} }}\n");
    let of = |top: &str, rest: &[&str]| {
        let backend = "[backend]\nkind = \"memory\"\n";
        let text = format!("name = \"a\"\n{top}\n{backend}{}", rest.concat());
        let checked = DaemonSettings::parse("f", &text).unwrap().middlebox();
        checked.map(|_| ()).map_err(|error| error.to_string())
    };
    let secure = "require-encryption = true";
    for (top, rest, reported) in [
        ("", vec!["[listen]\n", agents], "listen: "),
        ("", vec!["[listen]\n", &without, agents], "listen: "),
        (secure, vec![tcp, agents], "require-encryption: "),
        (secure, vec![tcp, &without, agents], "require-encryption: "),
        (
            "",
            vec!["[listen]\nsctp = { streams = 0 }\n", agents],
            "streams: 0 is invalid; ",
        ),
        ("", vec![tcp], "agents: "),
        ("", vec![tcp, "[[agents]]\nname = \"pbx\"\n"], "agents: "),
    ] {
        let refused = of(top, &rest).unwrap_err();
        assert!(refused.contains(reported), "{rest:?}: {refused}");
    }
    for (top, rest) in [
        ("", vec![tcp, agents]),
        (secure, vec![tcp, &tls, agents]),
        (
            "anonymous = \"pbx\"",
            vec![tcp, "[[agents]]\nname = \"pbx\"\n"],
        ),
    ] {
        assert_eq!(of(top, &rest), Ok(()));
    }
}

/// RFC 4540, section 4.3.3
#[test]
fn capabilities_report_ip_versions() {
    let of = |backend: &str| {
        let text = COMPLETE.replace("kind = \"memory\"", backend);
        let settings = DaemonSettings::parse("f", &text).unwrap();
        settings.middlebox().unwrap().capabilities
    };
    let pool =
        |address: &str| format!("{{ address = \"{address}\", first-port = 1, last-port = 9 }}");
    let translator =
        |pools: &[String]| format!("kind = \"nftables\"\ntranslation = [{}]", pools.join(", "));
    let versions = |can: Capabilities| {
        let (v4, v6) = (can.internal_v4, can.internal_v6);
        assert_eq!(
            (v4, v6),
            (can.external_v4, can.external_v6),
            "no version is translated to the other"
        );
        (v4, v6)
    };
    for filter in ["kind = \"memory\"", "kind = \"nftables\""] {
        let can = of(filter);
        assert!(can.packet_filter && !can.address_translator && !can.port_translation);
        assert_eq!(versions(can), (true, true));
    }
    let (v4, v6) = (pool("192.0.2.1"), pool("2001:db8::1"));
    for (pools, expected) in [
        (vec![v4.clone()], (true, false)),
        (vec![v6.clone()], (false, true)),
        (vec![v4, v6], (true, true)),
    ] {
        let can = of(&translator(&pools));
        assert!(can.packet_filter && can.address_translator && can.port_translation);
        assert_eq!(versions(can), expected);
    }
}

#[test]
fn missing_backend_is_refused() {
    let without = COMPLETE.replace("[backend]\nkind = \"memory\"\n", "");
    let refused = DaemonSettings::parse("f", &without)
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with("f: backend: missing: "), "{refused}");
    for kind in ["nftables", "memory"] {
        assert!(refused.contains(&format!("kind = {kind:?}")), "{refused}");
        let text = COMPLETE.replace("\"memory\"", &format!("{kind:?}"));
        let settings = DaemonSettings::parse("f", &text).unwrap();
        assert_eq!(settings.backend.warning().is_some(), kind == "memory");
    }
}

/// `LimitNOFILE` of the unit suffices for the connections that the default limits allow.
#[test]
fn unit_allows_enough_file_descriptors() {
    let unit = include_str!("../../../../../../docs/examples/carrick-simco.service");
    let limit = unit.lines().find_map(|l| l.strip_prefix("LimitNOFILE="));
    let limit: usize = limit.unwrap().parse().unwrap();
    let limits = LimitsEntry::default().limits().unwrap();
    // Sessions, half-open connections, TLS handshakes, metrics, and the files of the program itself.
    let needed = limits.open_sessions + 2 * limits.half_open + 16 + 64;
    assert!(limit >= 2 * needed, "{limit} of {needed}");
}

#[test]
fn errors_of_a_key_have_its_line() {
    let digits = "000102030405060708090a0b0c0d0e0f";
    assert!(parse_key(&format!("\n  {digits}\n")).is_ok());
    let other = "is no digit; the key must be hexadecimal digits";
    for (text, expected) in [
        (
            format!("{digits}\n{digits}\n"),
            "line 1: character 33 ".to_owned() + other,
        ),
        (
            format!("\n\n{}\n", digits.replace('f', "g")),
            "line 3: character 32 ".to_owned() + other,
        ),
        (
            format!("{digits}00 # key\n"),
            "line 1: character 35 ".to_owned() + other,
        ),
        (
            "0001".into(),
            "line 1: the key has 4 hexadecimal digits; expected an even number, at least 32".into(),
        ),
        (
            format!("{digits}0"),
            "line 1: the key has 33 hexadecimal digits".into(),
        ),
        (
            String::new(),
            "line 1: the key has 0 hexadecimal digits".into(),
        ),
    ] {
        let error = parse_key(&text).unwrap_err().to_string();
        assert!(error.starts_with(&expected), "{error}");
        assert!(!error.contains("0001"), "{error}");
    }
}
