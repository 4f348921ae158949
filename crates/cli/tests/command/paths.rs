//! Two paths between network namespaces, one of which is cut: SIMCO. `crate::sigtran` uses them for M3UA.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::{Running, start_with};

/// Two hosts with two links.
pub(crate) struct Hosts {
    pub(crate) near: String,
    pub(crate) far: String,
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    assert!(done.status.success(), "ip {arguments:?}: {done:?}");
}

/// Starts the program on a host.
pub(crate) fn start_on(host: &str, arguments: &[&str]) -> Running {
    let program = env!("CARGO_BIN_EXE_carrick");
    let mut line = vec!["netns", "exec", host, program];
    line.extend(arguments);
    start_with("ip", &line)
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let id = std::process::id();
        let hosts = Self {
            near: format!("carricks{id}near"),
            far: format!("carricks{id}far"),
        };
        for name in [&hosts.near, &hosts.far] {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        for path in 0..2 {
            let device = format!("path{path}");
            ip(&[
                "-n",
                &hosts.near,
                "link",
                "add",
                &device,
                "type",
                "veth",
                "peer",
                "name",
                &device,
                "netns",
                &hosts.far,
            ]);
            for (side, name) in [(1, &hosts.near), (2, &hosts.far)] {
                let address = format!("10.78.{path}.{side}/24");
                ip(&["-n", name, "address", "add", &address, "dev", &device]);
                ip(&["-n", name, "link", "set", &device, "up"]);
            }
        }
        hosts
    }

    fn nft(&self, rules: &str) -> String {
        let done = Command::new("ip")
            .args(["netns", "exec", &self.far, "nft", rules])
            .output()
            .unwrap();
        assert!(done.status.success(), "nft {rules}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Drops all packets of a path from now on, without ICMP errors.
    pub(crate) fn cut(&self, path: usize) {
        self.nft("add table inet cut");
        self.nft("add chain inet cut come { type filter hook input priority 0; }");
        self.nft("add chain inet cut go { type filter hook output priority 0; }");
        self.nft(&format!(
            "add rule inet cut come iifname path{path} counter drop"
        ));
        self.nft(&format!("add rule inet cut go oifname path{path} drop"));
    }

    /// Ends the cut.
    pub(crate) fn repair(&self) {
        self.nft("delete table inet cut");
    }

    /// Number of packets dropped on the path that was cut.
    pub(crate) fn lost(&self) -> u64 {
        let listed = self.nft("list table inet cut");
        let (_, rest) = listed.split_once("counter packets ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            // What can't be removed here can be found by the process ID in its name.
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

#[test]
#[ignore = "needs root"]
fn simco_transactions_survive_a_cut_path() {
    let hosts = Hosts::new();
    let folder = std::env::temp_dir().join(format!("carrick-paths-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("box.toml").display().to_string();
    let config = "name = \"box\"\nanonymous = \"pbx\"\n[backend]\nkind = \"memory\"\n[listen]\n\
                  sctp = { addresses = [\"10.78.0.2\", \"10.78.1.2\"] }\n\
                  [[agents]]\nname = \"pbx\"\n";
    std::fs::write(&file, config).unwrap();
    let mut middlebox = start_on(&hosts.far, &["simco", "middlebox", "--config", &file]);
    assert!(middlebox.error_line().contains("sctp port 7626"));
    // 100 transactions per second: 33.3 pinholes, each opened, refreshed once and closed.
    let load = [
        "simco",
        "load",
        "--json",
        "--middlebox",
        "sctp://10.78.0.2,10.78.1.2",
        "--bind",
        "10.78.0.1",
        "--bind",
        "10.78.1.1",
        // Far shorter than the run: what takes longer has failed.
        "--timeout",
        "5s",
        "--rate",
        "33.333",
        "--hold",
        "3s",
        "--refresh",
        "2s",
        "--lifetime",
        "120",
        "--time",
        "20s",
    ];
    let mut running = start_on(&hosts.near, &load);
    running.close_input();
    running.read_on();
    thread::sleep(Duration::from_secs(8));
    hosts.cut(0);
    let finished = running.finish();
    let lost = hosts.lost();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let report = finished.json().remove(0);
    let failures = &report["failures"];
    for kind in ["refused", "timed_out", "suppressed", "not_taken", "expired"] {
        assert_eq!(failures[kind], 0, "{report}");
    }
    // The time is over, and it waited for all answers.
    let number = |key: &str| report[key].as_f64().unwrap();
    let (started, done) = (number("started"), number("transactions"));
    assert!(started > 0.0, "{report}");
    assert_eq!(report["started"], report["transactions"], "{report}");
    let offered = number("offered_per_second") * number("seconds");
    assert!(
        (0.8..1.2).contains(&(started / offered)),
        "{started} of {offered} expected on average: the load is an open loop"
    );
    assert!(lost > 0, "the path that was cut had nothing to carry");
    let time = |key: &str| report["all"][key].as_f64().unwrap();
    let (longest, median) = (time("max_ms"), time("p50_ms"));
    assert!(median < longest && longest < 5000.0, "{report}");
    println!(
        "measured: a path of two is cut under load: {done} of {started} transactions, none failed; response {median:.3} ms in the median, \
         {longest:.1} ms at most; {lost} packets came on the cut path"
    );
    middlebox.interrupt();
    let _ = std::fs::remove_dir_all(&folder);
}
