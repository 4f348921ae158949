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
    let settings = DaemonSettings::parse(COMPLETE).unwrap();
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

#[test]
fn errors_name_their_line_or_key() {
    let changed = |from: &str, to: &str| {
        let text = COMPLETE.replace(from, to);
        assert_ne!(text, COMPLETE, "{from}");
        match DaemonSettings::parse(&text).and_then(|settings| settings.middlebox()) {
            Ok(_) => panic!("{to} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    for (from, to, reported) in [
        (
            "wildcards = false",
            "wildcard = false",
            "line 8, wildcard: ",
        ),
        ("kind = \"memory\"", "", "kind = \"nftables\""),
        ("kind = \"memory\"", "kind = \"iptables\"", "`nftables`"),
        (
            "max-lifetime = 600",
            "max-lifetime = \"x\"",
            "line 6, max-lifetime: ",
        ),
        ("max-lifetime = 600", "max-lifetime = 0", "max-lifetime: "),
        ("0e0f", "0e", "agent \"pbx\": key: "),
        (
            "\"lifetime\"",
            "\"live\"",
            "agent \"pbx\": rights: unknown right \"live\"",
        ),
        (
            "[\"pbx\"]",
            "[\"pbxx\"]",
            "agent \"noc\": controls: no agent has the name \"pbxx\"",
        ),
        ("name = \"noc\"", "name = \"pbx\"", "duplicate agent"),
        (
            "name = \"noc\"",
            "name = \"noc\"\nkey = \"000102030405060708090a0b0c0d0e0f\"",
            "agents: \"pbx\" and \"noc\" have the same key",
        ),
        (
            "name = \"noc\"",
            "name = \"noc\"\ninternal = [\"10.0.0.0/33\"]",
            "agent \"noc\": internal: invalid network \"10.0.0.0/33\"",
        ),
        (
            "name = \"fw1\"",
            "name = \"fw1\"\nrule-traffic = 10001",
            "rule-traffic: must be at most 10000",
        ),
        ("\"udp\"", "\"udb\"", "protocols: unknown protocol \"udb\""),
        (
            "6]",
            "600]",
            "line 7, protocols: must be the name of a protocol",
        ),
        ("\"all\"", "5", "must be a word"),
        ("127.0.0.1:7626\"]", "127.0.0.1\"]", "give ADDRESS:PORT"),
        ("rules = 1000", "exact-ports = 0", "limits.exact-ports: "),
        ("name = \"fw1\"", "name = \"\"", "name: "),
        (
            "name = \"fw1\"",
            "name = \"fw1\"\nanonymous = \"x\"",
            "anonymous: ",
        ),
    ] {
        let error = changed(from, to);
        assert!(error.contains(reported), "{to}: {error}");
    }
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
        let checked = DaemonSettings::parse(&text).unwrap().middlebox();
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
            "listen.sctp.streams: ",
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
        let settings = DaemonSettings::parse(&text).unwrap();
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
    let refused = DaemonSettings::parse(&without).unwrap_err().to_string();
    assert!(refused.starts_with("backend: give "), "{refused}");
    for kind in ["nftables", "memory"] {
        assert!(refused.contains(&format!("kind = {kind:?}")), "{refused}");
        let text = COMPLETE.replace("\"memory\"", &format!("{kind:?}"));
        let settings = DaemonSettings::parse(&text).unwrap();
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
