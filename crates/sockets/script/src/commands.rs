//! Shell commands of scripts. Scripts in virtual time have no shell: settings of the stack change its parameters, and
//! other commands are noted.

use std::time::Duration;

use carrick_proto::{AssociationConfig, Extensions, PathMtuDiscovery};

/// Directory of Linux's settings.
const PROC_SYS: &str = "/proc/sys/";
/// Value of a threshold of RFC 7829 that disables it.
const OFF: u32 = 65_535;
/// Number of intervals between searches for a larger path MTU, as in Linux.
const RAISE_INTERVALS: u32 = 30;

/// Command of a line in backticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command<'a> {
    /// Setting of `sysctl`, or of a file in `/proc/sys`, with its value.
    Setting(&'a str, &'a str),
    /// Any other command.
    Other(&'a str),
}

/// Effect of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SettingEffect {
    /// The parameter has the value.
    Set,
    /// The value is no number of the parameter.
    WrongValue,
    /// The stack has no such parameter.
    NoParameter,
}

/// Returns the commands of a text, which are on lines of their own or behind `;`, `&&` and `||`.
pub(crate) fn commands(text: &str) -> Vec<Command<'_>> {
    let lines = text.split(['\n', ';']);
    let parts = lines
        .flat_map(|l| l.split("&&"))
        .flat_map(|l| l.split("||"));
    let mut found = Vec::new();
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let mut words = part.split_whitespace().peekable();
        words.next_if_eq(&"sudo");
        let program = words.next().unwrap_or_default();
        let settings: Vec<(&str, &str)> = match program.rsplit('/').next() {
            Some("sysctl") => words.filter_map(|word| word.split_once('=')).collect(),
            Some("echo") => match words.collect::<Vec<_>>()[..] {
                [value, ">", file] if file.starts_with(PROC_SYS) => vec![(file, value)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if settings.is_empty() {
            found.push(Command::Other(part));
        }
        found.extend(settings.into_iter().map(|(n, v)| Command::Setting(n, v)));
    }
    found
}

/// Applies a setting of Linux (`net.sctp`) or FreeBSD (`net.inet.sctp`) to the parameters of future associations.
pub(crate) fn apply(config: &mut AssociationConfig, name: &str, value: &str) -> SettingEffect {
    let dotted = name.trim_start_matches(PROC_SYS).replace('/', ".");
    let number = value.trim_matches(['"', '\'']).parse::<u32>();
    let parameter = |known: bool| match (known, number.is_ok()) {
        (false, _) => SettingEffect::NoParameter,
        (true, true) => SettingEffect::Set,
        (true, false) => SettingEffect::WrongValue,
    };
    // A value that is no number is none of a parameter that exists.
    let mut scratch = config.clone();
    let target = if number.is_ok() { config } else { &mut scratch };
    let value = number.clone().unwrap_or_default();
    if let Some(name) = dotted.strip_prefix("net.sctp.") {
        parameter(apply_linux(target, name, value))
    } else if let Some(name) = dotted.strip_prefix("net.inet.sctp.") {
        parameter(apply_freebsd(target, name, value))
    } else {
        SettingEffect::NoParameter
    }
}

const fn millis(value: u32) -> Duration {
    Duration::from_millis(value as u64)
}

fn set_partial_reliability(extensions: &mut Extensions, on: bool) {
    extensions.partial_reliability = on;
    extensions.interleaved_partial_reliability = on;
}

/// Applies a setting below `net.sctp`; returns whether there is a parameter for it.
fn apply_linux(config: &mut AssociationConfig, name: &str, value: u32) -> bool {
    let on = value != 0;
    let (timers, paths) = (&mut config.timers, &mut config.paths);
    let extensions = &mut config.extensions;
    match name {
        "rto_initial" => timers.rto_initial = millis(value),
        "rto_min" => timers.rto_min = millis(value),
        "rto_max" => timers.rto_max = millis(value),
        "sack_timeout" => timers.sack_delay = millis(value),
        "valid_cookie_life" => timers.valid_cookie_life = millis(value),
        "cookie_preserve_enable" => {
            let default = AssociationConfig::default().timers;
            timers.max_cookie_life_increment = if on {
                default.max_cookie_life_increment
            } else {
                Duration::ZERO
            };
        }
        "max_init_retransmits" => timers.max_init_retransmits = value,
        "hb_interval" => paths.hb_interval = millis(value),
        "path_max_retrans" => paths.path_max_retrans = value,
        "association_max_retrans" => paths.association_max_retrans = value,
        "pf_enable" if !on => paths.potentially_failed_max_retrans = None,
        "pf_enable" => {
            paths.potentially_failed_max_retrans.get_or_insert(0);
        }
        "pf_retrans" => paths.potentially_failed_max_retrans = Some(value),
        "ps_retrans" => paths.primary_switchover_max_retrans = (value < OFF).then_some(value),
        "pf_expose" => paths.expose_potentially_failed = value == 2,
        "max_burst" => config.transmission.max_burst = value,
        "plpmtud_probe_interval" => {
            config.mtu.path_mtu_discovery = on.then(|| PathMtuDiscovery {
                probe_timer: millis(value),
                raise_timer: millis(value) * RAISE_INTERVALS,
                ..PathMtuDiscovery::default()
            });
        }
        "auth_enable" => extensions.authentication = on,
        "addip_enable" => extensions.dynamic_addresses = on,
        "addip_noauth_enable" => config.security.dynamic_addresses_without_authentication = on,
        "reconf_enable" => extensions.reconfiguration = on,
        "prsctp_enable" => set_partial_reliability(extensions, on),
        "intl_enable" => extensions.interleaving = on,
        "ecn_enable" => extensions.ecn = on,
        _ => return false,
    }
    true
}

/// Applies a setting below `net.inet.sctp`; returns whether there is a parameter for it.
fn apply_freebsd(config: &mut AssociationConfig, name: &str, value: u32) -> bool {
    let on = value != 0;
    let (timers, paths) = (&mut config.timers, &mut config.paths);
    let extensions = &mut config.extensions;
    let streams = value.min(u16::MAX.into()) as u16;
    match name {
        "rto_initial" => timers.rto_initial = millis(value),
        "rto_min" => timers.rto_min = millis(value),
        "rto_max" => timers.rto_max = millis(value),
        "init_rto_max" => timers.max_init_timeout = on.then(|| millis(value)),
        "delayed_sack_time" => timers.sack_delay = millis(value),
        "sack_freq" => timers.sack_frequency = value,
        "valid_cookie_life" => timers.valid_cookie_life = millis(value),
        "init_rtx_max" => timers.max_init_retransmits = value,
        "shutdown_guard_time" => {
            timers.shutdown_guard = on.then(|| Duration::from_secs(value.into()));
        }
        "heartbeat_interval" => paths.hb_interval = millis(value),
        "hb_max_burst" => paths.hb_max_burst = value,
        "path_rtx_max" => paths.path_max_retrans = value,
        "assoc_rtx_max" => paths.association_max_retrans = value,
        "path_pf_threshold" => {
            paths.potentially_failed_max_retrans = (value < OFF).then_some(value);
        }
        "maxburst" => config.transmission.max_burst = value,
        "abc_l_var" => config.transmission.slow_start_limit = value,
        "sendspace" => config.buffers.send_buffer = value as usize,
        "recvspace" => config.buffers.receive_buffer = value as usize,
        "outgoing_streams" => config.streams.outbound_streams = streams,
        "incoming_streams" => config.streams.max_inbound_streams = streams,
        "auth_enable" => extensions.authentication = on,
        "auth_disable" => extensions.authentication = !on,
        "asconf_enable" => extensions.dynamic_addresses = on,
        "asconf_auth_nochk" => config.security.dynamic_addresses_without_authentication = on,
        "reconfig_enable" => extensions.reconfiguration = on,
        "pr_enable" => set_partial_reliability(extensions, on),
        "ecn_enable" => extensions.ecn = on,
        "nrsack_enable" | "nr_sack_on_off" | "nrsack_on_off" => extensions.nr_sack = on,
        _ => return false,
    }
    true
}
