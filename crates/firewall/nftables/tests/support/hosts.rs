//! Three hosts in a row, inside - firewall - outside, as network namespaces. Tests of other crates
//! include this file, too.

use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};

static ROWS: AtomicU32 = AtomicU32::new(0);

/// Host of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    Inside,
    Firewall,
    Outside,
}

/// Network namespaces of the hosts, removed when dropped.
pub(crate) struct Hosts {
    names: [String; 3],
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; is it installed?"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn ip(arguments: &str) {
    run("ip", &arguments.split_whitespace().collect::<Vec<_>>());
}

impl Hosts {
    /// Creates hosts with the addresses 10.NET.1.2 (inside), 10.NET.1.1 and 10.NET.2.1 (firewall) and
    /// 10.NET.2.2 (outside), and with `fdNET:1::2` and so on. Their names begin with `kind`.
    pub(crate) fn new(kind: &str, net: u8) -> Self {
        let number = ROWS.fetch_add(1, Ordering::Relaxed);
        let name = |what| format!("{kind}{}-{number}{what}", id());
        let hosts = Self {
            names: [name("in"), name("fw"), name("out")],
        };
        let [near, fire, far] = &hosts.names;
        for name in &hosts.names {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        for (host, device, part) in [(near, "inner", 1), (far, "outer", 2)] {
            ip(&format!(
                "-n {host} link add {device} type veth peer name {device} netns {fire}"
            ));
            for (at, last) in [(host, 2), (fire, 1)] {
                ip(&format!(
                    "-n {at} address add 10.{net}.{part}.{last}/24 dev {device}"
                ));
                ip(&format!(
                    "-n {at} address add fd{net}:{part}::{last}/64 dev {device} nodad"
                ));
                ip(&format!("-n {at} link set {device} up"));
            }
            ip(&format!(
                "-n {host} route add default via 10.{net}.{part}.1"
            ));
            ip(&format!(
                "-n {host} route add default via fd{net}:{part}::1"
            ));
        }
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            ip(&format!("netns exec {fire} sysctl -q -w {setting}"));
        }
        hosts
    }

    /// Returns the name of a host's namespace.
    pub(crate) fn name(&self, host: Host) -> &str {
        match host {
            Host::Inside => &self.names[0],
            Host::Firewall => &self.names[1],
            Host::Outside => &self.names[2],
        }
    }

    /// Returns the path of a host's namespace.
    pub(crate) fn path(&self, host: Host) -> PathBuf {
        Path::new("/run/netns").join(self.name(host))
    }

    /// Runs `nft` on a host and returns its output.
    pub(crate) fn nft(&self, host: Host, command: &str) -> String {
        run("ip", &["netns", "exec", self.name(host), "nft", command])
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}
