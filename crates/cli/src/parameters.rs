//! Parameters of failover and of its timers: options of commands that make associations, and keys of configuration
//! files, with the names of Linux's `net.sctp`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use carrick::{AssociationConfig, PathMtuDiscovery, Preset};
use clap::Args;
use serde::{Deserialize, Deserializer, de};

use crate::units;

/// Parameters of the core beside the names of their options and keys.
const NAMES: [(&str, &str); 17] = [
    ("rto_initial", "rto-initial"),
    ("rto_min", "rto-min"),
    ("rto_max", "rto-max"),
    ("hb_interval", "hb-interval"),
    ("path_max_retrans", "path-max-retrans"),
    ("association_max_retrans", "association-max-retrans"),
    ("potentially_failed_max_retrans", "pf-retrans"),
    ("primary_switchover_max_retrans", "ps-retrans"),
    ("max_init_retransmits", "max-init-retransmits"),
    ("sack_delay", "sack-delay"),
    ("max_burst", "max-burst"),
    ("receive_buffer", "receive-buffer"),
    ("send_buffer", "send-buffer"),
    ("path_mtu", "mtu"),
    ("dynamic_addresses", "addip-enable"),
    ("authentication", "auth-enable"),
    (
        "dynamic_addresses_without_authentication",
        "addip-noauth-enable",
    ),
];

/// Place of a parameter, for errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParameterPlace {
    /// Option of the command line.
    CommandLine,
    /// Key of a file.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "for the daemon's configuration")
    )]
    File,
}

impl ParameterPlace {
    /// Returns an error of the core with the names that the user has typed.
    fn named(self, error: &str) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut named = String::new();
        let mut rest = error;
        while !rest.is_empty() {
            let word = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            named += &self.name(&rest[..word]);
            let next = rest[word..].find(is_name).unwrap_or(rest.len() - word);
            named += &rest[word..word + next];
            rest = &rest[word + next..];
        }
        named
    }

    fn name(self, parameter: &str) -> Cow<'_, str> {
        match (NAMES.iter().find(|(core, _)| *core == parameter), self) {
            (Some((_, name)), Self::CommandLine) => format!("--{name}").into(),
            (Some(("sack_delay", _)), Self::File) => "sack-timeout".into(),
            (Some((_, name)), Self::File) => (*name).into(),
            (None, _) => parameter.into(),
        }
    }
}

/// Number of retransmissions of RFC 7829, or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Threshold(Option<u32>);

impl FromStr for Threshold {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self(None)),
            number => match number.parse() {
                Ok(number) => Ok(Self(Some(number))),
                Err(_) => Err("expected a number of retransmissions, or off"),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number of retransmissions, or \"off\""
        )]
        enum Value {
            Number(u32),
            Text(String),
        }
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(Self(Some(number))),
            Value::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// Parses the name of a preset.
pub(crate) fn preset(name: &str) -> Result<Preset, String> {
    name.parse::<Preset>().map_err(|error| error.to_string())
}

/// Parses a time that is not zero.
fn positive(text: &str) -> Result<Duration, String> {
    match units::duration(text)? {
        Duration::ZERO => Err("must be more than 0".into()),
        duration => Ok(duration),
    }
}

/// Parses SACK.Delay (RFC 9260, section 6.2).
fn sack_delay(text: &str) -> Result<Duration, String> {
    let delay = units::duration(text)?;
    if delay > Duration::from_millis(500) {
        return Err("must not exceed 500ms (RFC 9260, section 6.2)".into());
    }
    Ok(delay)
}

/// Reads a value of a file by the parser of an option.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(de::Error::custom)
}

/// Reads a time of a file.
pub(crate) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    units::time_of_file(from, positive).map(Some)
}

fn preset_key<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Preset>, D::Error> {
    parsed(from, preset)
}

fn sack_key<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    units::time_of_file(from, sack_delay).map(Some)
}

/// Smallest interval of probes for the path MTU, as in Linux.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Number of intervals between searches for a larger path MTU, as in Linux.
const RAISE_INTERVALS: u32 = 30;

/// Interval of probes for the path MTU; `None` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeInterval(Option<Duration>);

fn probe_interval(text: &str) -> Result<ProbeInterval, String> {
    if text == "off" {
        return Ok(ProbeInterval(None));
    }
    let interval = units::duration(text)?;
    if interval < MIN_PROBE_INTERVAL {
        return Err("must be at least 5s, or off".into());
    }
    Ok(ProbeInterval(Some(interval)))
}

fn probe_key<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ProbeInterval>, D::Error> {
    units::time_of_file(from, probe_interval).map(Some)
}

/// Returns the discovery of the path MTU with this interval of probes.
fn discovery(interval: Duration) -> PathMtuDiscovery {
    PathMtuDiscovery {
        probe_timer: interval,
        raise_timer: interval * RAISE_INTERVALS,
        ..PathMtuDiscovery::default()
    }
}

/// Preset, and the parameters that differ from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[command(next_help_heading = "Protocol parameters")]
pub(crate) struct Parameters {
    /// Values from which the other parameters start: recommended; signaling, for private networks with round
    /// trips below 50 ms; rfc9260, without extensions [default: recommended].
    #[arg(long, value_name = "NAME", value_parser = preset)]
    #[serde(deserialize_with = "preset_key")]
    pub(crate) preset: Option<Preset>,
    /// Retransmission timeout before the first measurement (RTO.Initial) [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[serde(deserialize_with = "time")]
    rto_initial: Option<Duration>,
    /// Minimum retransmission timeout (RTO.Min), which should exceed a round trip and the peer's SACK.Delay
    /// [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[serde(deserialize_with = "time")]
    rto_min: Option<Duration>,
    /// Maximum retransmission timeout (RTO.Max) [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[serde(deserialize_with = "time")]
    rto_max: Option<Duration>,
    /// Time between heartbeats on an idle path, in addition to its RTO (HB.interval) [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[serde(deserialize_with = "time")]
    hb_interval: Option<Duration>,
    /// Consecutive timeouts above which a path is inactive (Path.Max.Retrans) [default: 5].
    #[arg(long, value_name = "N")]
    path_max_retrans: Option<u32>,
    /// Consecutive timeouts above which the association ends (Association.Max.Retrans) [default: 10].
    #[arg(long, value_name = "N")]
    association_max_retrans: Option<u32>,
    /// Consecutive timeouts above which data leaves a path, or off (PotentiallyFailed.Max.Retrans of RFC 7829)
    /// [default: 0].
    #[arg(long, value_name = "N|off")]
    pf_retrans: Option<Threshold>,
    /// Consecutive timeouts of the primary path above which another path replaces it for good, or off
    /// (Primary.Switchover.Max.Retrans of RFC 7829) [default: off].
    #[arg(long, value_name = "N|off")]
    ps_retrans: Option<Threshold>,
    /// Retransmissions of INIT or COOKIE ECHO above which a set-up fails (Max.Init.Retransmits) [default: 8].
    #[arg(long, value_name = "N")]
    max_init_retransmits: Option<u32>,
    /// Maximum delay of a SACK (SACK.Delay), at most 500ms [default: 200ms].
    #[arg(long = "sack-delay", visible_alias = "sack-timeout", value_name = "TIME", value_parser = sack_delay)]
    #[serde(deserialize_with = "sack_key")]
    sack_timeout: Option<Duration>,
    /// Maximum number of packets sent in response to one SACK (Max.Burst) [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_burst: Option<u32>,
    /// Quick failover (RFC 7829); false is as --pf-retrans off [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pf_enable: Option<bool>,
    /// Report the potentially failed state of paths to programs (RFC 7829, section 7.3).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pf_expose: Option<bool>,
    /// Lifespan of State Cookies (Valid.Cookie.Life) [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[serde(deserialize_with = "time")]
    valid_cookie_life: Option<Duration>,
    /// Extend that lifespan at a peer's request (RFC 9260, section 3.3.2.1) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cookie_preserve_enable: Option<bool>,
    /// Interval of probes for the path MTU (RFC 8899), at least 5s, or off [default: off].
    #[arg(long, value_name = "TIME|off", value_parser = probe_interval)]
    #[serde(deserialize_with = "probe_key")]
    plpmtud_probe_interval: Option<ProbeInterval>,
    /// Offer authentication of chunks (RFC 4895), which DTLS over SCTP needs (RFC 6083) [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    auth_enable: Option<bool>,
    /// Offer dynamic addresses (RFC 5061); needs --auth-enable or --addip-noauth-enable [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    addip_enable: Option<bool>,
    /// Offer dynamic addresses also without authentication: an attacker who guesses the verification tag can
    /// redirect an association (RFC 5061, section 6) [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    addip_noauth_enable: Option<bool>,
    /// Offer stream reconfiguration (RFC 6525) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    reconf_enable: Option<bool>,
    /// Offer partial reliability (RFC 3758, RFC 7496) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    prsctp_enable: Option<bool>,
    /// Offer interleaving of user messages (RFC 8260) [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    intl_enable: Option<bool>,
    /// Offer explicit congestion notification (RFC 4960, appendix A) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ecn_enable: Option<bool>,
}

impl Parameters {
    /// Returns the values from which the parameters start.
    pub(crate) fn base(&self) -> AssociationConfig {
        self.preset.unwrap_or_default().config()
    }

    /// Sets the parameters that are given. RTO.Initial does not exceed RTO.Max unless it is given.
    pub(crate) fn apply(&self, config: &mut AssociationConfig) {
        let timers = &mut config.timers;
        set(&mut timers.rto_min, self.rto_min);
        set(&mut timers.rto_max, self.rto_max);
        timers.rto_initial = match self.rto_initial {
            Some(given) => given,
            None => timers.rto_initial.min(timers.rto_max),
        };
        set(&mut timers.max_init_retransmits, self.max_init_retransmits);
        set(&mut timers.sack_delay, self.sack_timeout);
        let paths = &mut config.paths;
        set(&mut paths.hb_interval, self.hb_interval);
        set(&mut paths.path_max_retrans, self.path_max_retrans);
        set(
            &mut paths.association_max_retrans,
            self.association_max_retrans,
        );
        let thresholds = [
            (&mut paths.potentially_failed_max_retrans, self.pf_retrans),
            (&mut paths.primary_switchover_max_retrans, self.ps_retrans),
        ];
        for (threshold, given) in thresholds {
            set(threshold, given.map(|Threshold(limit)| limit));
        }
        match self.pf_enable {
            Some(false) => paths.potentially_failed_max_retrans = None,
            Some(true) if paths.potentially_failed_max_retrans.is_none() => {
                paths.potentially_failed_max_retrans = Some(0);
            }
            _ => {}
        }
        set(&mut paths.expose_potentially_failed, self.pf_expose);
        set(&mut config.transmission.max_burst, self.max_burst);
        set(&mut timers.valid_cookie_life, self.valid_cookie_life);
        if let Some(is_extended) = self.cookie_preserve_enable {
            let default = AssociationConfig::default().timers;
            timers.max_cookie_life_increment = if is_extended {
                default.max_cookie_life_increment
            } else {
                Duration::ZERO
            };
        }
        if let Some(ProbeInterval(interval)) = self.plpmtud_probe_interval {
            config.mtu.path_mtu_discovery = interval.map(discovery);
        }
        self.apply_extensions(config);
    }

    fn apply_extensions(&self, config: &mut AssociationConfig) {
        let extensions = &mut config.extensions;
        for (extension, given) in [
            (&mut extensions.authentication, self.auth_enable),
            (&mut extensions.dynamic_addresses, self.addip_enable),
            (&mut extensions.reconfiguration, self.reconf_enable),
            (&mut extensions.partial_reliability, self.prsctp_enable),
            (
                &mut extensions.interleaved_partial_reliability,
                self.prsctp_enable,
            ),
            (&mut extensions.interleaving, self.intl_enable),
            (&mut extensions.ecn, self.ecn_enable),
            (
                &mut config.security.dynamic_addresses_without_authentication,
                self.addip_noauth_enable,
            ),
        ] {
            set(extension, given);
        }
    }
}

/// Checks a configuration.
///
/// # Errors
/// Names the option or key of the first value that is out of its range.
pub(crate) fn validate(config: &AssociationConfig, place: ParameterPlace) -> Result<(), String> {
    let timers = &config.timers;
    let name = |parameter| place.name(parameter);
    let above = |lower: &str, value: Duration| {
        format!(
            "{} of {value:?} exceeds {}, which is {:?}: change one of them",
            place.name(lower),
            place.name("rto_max"),
            timers.rto_max
        )
    };
    if timers.rto_min > timers.rto_max {
        return Err(above("rto_min", timers.rto_min));
    }
    if timers.rto_initial > timers.rto_max {
        return Err(above("rto_initial", timers.rto_initial));
    }
    let extensions = config.extensions;
    let is_allowed =
        extensions.authentication || config.security.dynamic_addresses_without_authentication;
    if extensions.dynamic_addresses && !is_allowed {
        return Err(format!(
            "{} needs {} or {} (RFC 5061, section 4.1.1)",
            name("dynamic_addresses"),
            name("authentication"),
            name("dynamic_addresses_without_authentication"),
        ));
    }
    config
        .validate()
        .map_err(|error| place.named(&format!("{}: {}", error.field(), error.reason())))
}

/// Sets a parameter if a value is given.
pub(crate) fn set<T>(parameter: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *parameter = value;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        parameters: Parameters,
    }

    fn options(line: &str) -> Result<Parameters, String> {
        let words = ["command"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(cli.parameters)
    }

    fn config(line: &str) -> AssociationConfig {
        let parameters = options(line).unwrap();
        let mut config = parameters.base();
        parameters.apply(&mut config);
        config
    }

    const OPTIONS: &str = "--rto-initial 2s --rto-min 100ms --rto-max 3s --hb-interval 4s --path-max-retrans 5 \
        --association-max-retrans 6 --pf-retrans 1 --ps-retrans 7 --max-init-retransmits 8 --sack-delay 90ms \
        --max-burst 11";
    const KEYS: &str = "rto-initial = \"2s\"\nrto-min = \"100ms\"\nrto-max = \"3s\"\nhb-interval = \"4s\"\n\
        path-max-retrans = 5\nassociation-max-retrans = 6\npf-retrans = 1\nps-retrans = 7\n\
        max-init-retransmits = 8\nsack-timeout = \"90ms\"\nmax-burst = 11\n";

    #[test]
    fn each_option_sets_its_parameter() {
        let config = config(OPTIONS);
        let (timers, paths) = (&config.timers, &config.paths);
        assert_eq!(timers.rto_initial, Duration::from_secs(2));
        assert_eq!(timers.rto_min, Duration::from_millis(100));
        assert_eq!(timers.rto_max, Duration::from_secs(3));
        assert_eq!(paths.hb_interval, Duration::from_secs(4));
        assert_eq!(paths.path_max_retrans, 5);
        assert_eq!(paths.association_max_retrans, 6);
        assert_eq!(paths.potentially_failed_max_retrans, Some(1));
        assert_eq!(paths.primary_switchover_max_retrans, Some(7));
        assert_eq!(timers.max_init_retransmits, 8);
        assert_eq!(timers.sack_delay, Duration::from_millis(90));
        assert_eq!(config.transmission.max_burst, 11);
    }

    #[test]
    fn keys_have_the_names_of_options() {
        let keys: Parameters = toml::from_str(KEYS).unwrap();
        assert_eq!(keys, options(OPTIONS).unwrap());
    }

    #[test]
    fn each_switch_sets_its_extension() {
        let default = AssociationConfig::default();
        let flipped = config(
            "--auth-enable --addip-enable --addip-noauth-enable --reconf-enable=false --prsctp-enable=false \
             --intl-enable=true --ecn-enable=false",
        );
        let mut expected = default.extensions;
        expected.authentication = true;
        expected.dynamic_addresses = true;
        expected.reconfiguration = false;
        expected.partial_reliability = false;
        expected.interleaved_partial_reliability = false;
        expected.interleaving = true;
        expected.ecn = false;
        assert!(flipped.extensions == expected);
        assert!(flipped.security.dynamic_addresses_without_authentication);
    }

    #[test]
    fn other_parameters_of_the_kernel() {
        let changed = config(
            "--pf-enable=false --pf-expose=false --valid-cookie-life 5s --cookie-preserve-enable=false \
             --plpmtud-probe-interval 6s",
        );
        assert_eq!(changed.paths.potentially_failed_max_retrans, None);
        assert!(!changed.paths.expose_potentially_failed);
        assert_eq!(changed.timers.valid_cookie_life, Duration::from_secs(5));
        assert_eq!(changed.timers.max_cookie_life_increment, Duration::ZERO);
        let discovery = changed.mtu.path_mtu_discovery.unwrap();
        assert_eq!(discovery.probe_timer, Duration::from_secs(6));
        assert_eq!(discovery.raise_timer, Duration::from_secs(180));
        assert_eq!(changed.validate(), Ok(()));
        let on = config("--preset rfc9260 --pf-enable");
        assert_eq!(on.paths.potentially_failed_max_retrans, Some(0));
        let keys = "pf-enable = false\npf-expose = false\nvalid-cookie-life = \"5s\"\n\
            cookie-preserve-enable = false\nplpmtud-probe-interval = \"6s\"\nauth-enable = true\n\
            addip-enable = true\naddip-noauth-enable = true\nreconf-enable = false\n\
            prsctp-enable = false\nintl-enable = true\necn-enable = false\n";
        let options = options(
            "--pf-enable=false --pf-expose=false --valid-cookie-life 5s --cookie-preserve-enable=false \
             --plpmtud-probe-interval 6s --auth-enable --addip-enable --addip-noauth-enable \
             --reconf-enable=false --prsctp-enable=false --intl-enable --ecn-enable=false",
        );
        assert_eq!(
            toml::from_str::<Parameters>(keys).unwrap(),
            options.unwrap()
        );
    }

    /// RFC 5061, section 4.1.1
    #[test]
    fn dynamic_addresses_need_authentication() {
        let checked = |line| validate(&config(line), ParameterPlace::CommandLine);
        let error = checked("--addip-enable").unwrap_err();
        assert!(
            error.starts_with("--addip-enable needs --auth-enable"),
            "{error}"
        );
        assert_eq!(checked("--addip-enable --auth-enable"), Ok(()));
        assert_eq!(checked("--addip-enable --addip-noauth-enable"), Ok(()));
    }

    #[test]
    fn options_change_a_preset() {
        let signaling = AssociationConfig::signaling();
        let changed = config("--preset signaling --hb-interval 7s --pf-retrans off");
        assert_eq!(changed.timers.rto_min, signaling.timers.rto_min);
        assert_eq!(changed.paths.hb_interval, Duration::from_secs(7));
        assert_eq!(changed.paths.potentially_failed_max_retrans, None);
        assert!(config("--preset rfc9260").extensions == carrick::Extensions::NONE);
    }

    #[test]
    fn the_initial_rto_does_not_exceed_a_lower_limit() {
        let config = config("--rto-min 100ms --rto-max 500ms");
        assert_eq!(config.timers.rto_initial, Duration::from_millis(500));
        assert_eq!(validate(&config, ParameterPlace::CommandLine), Ok(()));
    }

    #[test]
    fn errors_name_the_option() {
        for (line, words) in [
            ("--preset modern", "recommended, signaling or rfc9260"),
            ("--rto-min 0", "--rto-min <TIME>': must be more than 0"),
            ("--sack-timeout 501ms", "must not exceed 500ms"),
            (
                "--pf-retrans none",
                "--pf-retrans <N|off>': expected a number",
            ),
            ("--max-burst 0", "--max-burst"),
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        for (line, words) in [
            (
                "--rto-max 500ms",
                "--rto-min of 1s exceeds --rto-max, which is 500ms",
            ),
            (
                "--rto-initial 70s",
                "--rto-initial of 70s exceeds --rto-max, which is 60s",
            ),
            (
                "--pf-retrans 3 --ps-retrans 2",
                "--ps-retrans: must not be below --pf-retrans",
            ),
        ] {
            let error = validate(&config(line), ParameterPlace::CommandLine).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let config = config("--rto-max 500ms");
        let error = validate(&config, ParameterPlace::File).unwrap_err();
        assert!(
            error.starts_with("rto-min of 1s exceeds rto-max"),
            "{error}"
        );
    }

    #[test]
    fn keys_with_wrong_values_are_errors() {
        for (text, words) in [
            ("rto-min = 100", "write \"100ms\" or \"100s\""),
            ("rto-min = \"5\"", "a time needs its unit: write 5ms or 5s"),
            ("rto-min = 2.5", "write \"2.5ms\" or \"2.5s\""),
            (
                "rto-min = true",
                "expected a time in quotes with its unit, such as",
            ),
            ("rto-initial = \"5\"", "needs its unit"),
            ("rto-max = \"5\"", "needs its unit"),
            ("hb-interval = \"5\"", "needs its unit"),
            ("sack-timeout = \"5\"", "needs its unit"),
            ("valid-cookie-life = \"5\"", "needs its unit"),
            ("plpmtud-probe-interval = \"5\"", "needs its unit"),
            ("plpmtud-probe-interval = 5000", "write \"5000ms\""),
            ("sack-timeout = \"1s\"", "must not exceed 500ms"),
            ("pf-retrans = \"none\"", "off"),
            ("pf-retrans = true", "off"),
            ("rto_min = \"1s\"", "unknown field"),
        ] {
            let error = toml::from_str::<Parameters>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
