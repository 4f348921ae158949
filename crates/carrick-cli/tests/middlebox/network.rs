//! Three hosts in a row, inside - firewall - outside, and programs on them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

static NETWORKS: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
pub(crate) enum Host {
    Inside,
    Firewall,
    Outside,
}

/// The hosts, and a folder; all is removed when it is dropped.
pub(crate) struct Network {
    names: [String; 3],
    pub(crate) folder: PathBuf,
}

/// A program that runs; it is killed when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

impl Network {
    pub(crate) fn new() -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let name = |what| format!("middlebox{}-{number}{what}", id());
        let folder = std::env::temp_dir().join(name("files"));
        std::fs::create_dir_all(&folder).unwrap();
        let network = Self {
            names: [name("in"), name("fw"), name("out")],
            folder,
        };
        let [near, fire, far] = &network.names;
        for name in &network.names {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        for (host, device, net) in [(near, "inner", 1), (far, "outer", 2)] {
            ip(&format!(
                "-n {host} link add {device} type veth peer name {device} netns {fire}"
            ));
            for (at, last) in [(host, 2), (fire, 1)] {
                ip(&format!(
                    "-n {at} address add 10.82.{net}.{last}/24 dev {device}"
                ));
                ip(&format!("-n {at} link set {device} up"));
            }
            ip(&format!("-n {host} route add default via 10.82.{net}.1"));
        }
        ip(&format!(
            "netns exec {fire} sysctl -q -w net.ipv4.ip_forward=1"
        ));
        network
    }

    fn name(&self, host: Host) -> &str {
        match host {
            Host::Inside => &self.names[0],
            Host::Firewall => &self.names[1],
            Host::Outside => &self.names[2],
        }
    }

    /// Where the host's namespace is.
    pub(crate) fn path(&self, host: Host) -> PathBuf {
        Path::new("/run/netns").join(self.name(host))
    }

    /// A program on a host, to be run.
    pub(crate) fn command(&self, host: Host, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.name(host), program])
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    /// A program on a host, with its output in a file.
    pub(crate) fn start(
        &self,
        host: Host,
        log: &str,
        program: &str,
        arguments: &[&str],
    ) -> Running {
        let file = std::fs::File::create(self.folder.join(log)).unwrap();
        let mut command = self.command(host, program, arguments);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Running(command.spawn().unwrap())
    }

    pub(crate) fn carrick(&self, host: Host, log: &str, arguments: &[&str]) -> Running {
        self.start(host, log, env!("CARGO_BIN_EXE_carrick"), arguments)
    }

    /// What `nft` says on a host.
    pub(crate) fn nft(&self, host: Host, command: &str) -> String {
        run("ip", &["netns", "exec", self.name(host), "nft", command])
    }

    pub(crate) fn log(&self, log: &str) -> String {
        let octets = std::fs::read(self.folder.join(log)).unwrap_or_default();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// Waits until a log has a text.
    pub(crate) fn wait_for(&self, log: &str, text: &str) {
        until(&format!("{text:?} in {log}"), || {
            self.log(log).contains(text)
        });
    }

    /// The middlebox's configuration. Returns where it is.
    pub(crate) fn configure(&self) -> String {
        let path = self.folder.join("middlebox.toml");
        let state = text_of(&self.folder.join("state"));
        let text = format!(
            "name = \"firewall\"\nstate = {state:?}\nanonymous = \"agent\"\n\n[listen]\ntcp = [\"127.0.0.1:7626\"]\n\n[backend]\nkind = \"nftables\"\n\n[[agents]]\nname = \"agent\"\n"
        );
        std::fs::write(&path, text).unwrap();
        text_of(&path)
    }

    /// The middlebox, ready for agents.
    pub(crate) fn middlebox(&self, log: &str) -> Running {
        let config = self.configure();
        let arguments = ["simco", "middlebox", "--config", &config];
        let running = self.carrick(Host::Firewall, log, &arguments);
        self.wait_for(log, "carrick: tcp 127.0.0.1:7626");
        running
    }

    /// Elements in the packet filter's sets.
    pub(crate) fn elements(&self) -> usize {
        let rules = self.nft(Host::Firewall, "list table inet carrick");
        rules.matches(" expires ").count()
    }
}

pub(crate) fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        if !thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
