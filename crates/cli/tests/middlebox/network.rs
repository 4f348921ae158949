//! Three hosts in a row, inside - firewall - outside, and programs on them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use crate::hosts::Host;
use crate::hosts::Hosts;

/// Far longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Log line of a middlebox that is ready.
pub(crate) const READY: &str = "carrick: tcp 127.0.0.1:7626";

static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// Hosts and a directory, removed when dropped.
pub(crate) struct Network {
    hosts: Hosts,
    pub(crate) folder: PathBuf,
}

/// Running program, killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Network {
    pub(crate) fn new() -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("middlebox{}-{number}files", id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let hosts = Hosts::new("middlebox", 82);
        Self { hosts, folder }
    }

    /// Network namespace of the host.
    pub(crate) fn path(&self, host: Host) -> PathBuf {
        self.hosts.path(host)
    }

    /// Returns the command that runs a program on a host.
    pub(crate) fn command(&self, host: Host, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.hosts.name(host), program])
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    /// Starts a program on a host, with its output in a file.
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

    /// Output of `nft` on a host.
    pub(crate) fn nft(&self, host: Host, command: &str) -> String {
        self.hosts.nft(host, command)
    }

    pub(crate) fn log(&self, log: &str) -> String {
        let octets = std::fs::read(self.folder.join(log)).unwrap_or_default();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// Waits until a log contains a text.
    pub(crate) fn wait_for(&self, log: &str, text: &str) {
        until(&format!("{text:?} in {log}"), || {
            self.log(log).contains(text)
        });
    }

    /// Writes the middlebox's configuration with these additional lines for its packet filter and its only
    /// agent; returns its path.
    fn configure(&self, filter: &str, agent: &str) -> String {
        let path = self.folder.join("middlebox.toml");
        let state = text_of(&self.folder.join("state"));
        let text = format!(
            "name = \"firewall\"\nstate = {state:?}\nanonymous = \"agent\"\n\n[listen]\nsctp = {{ addresses = [\"127.0.0.1\"] }}\ntcp = [\"127.0.0.1:7626\"]\n\n[backend]\nkind = \"nftables\"\n{filter}\n\n[[agents]]\nname = \"agent\"\n{agent}\n"
        );
        std::fs::write(&path, text).unwrap();
        text_of(&path)
    }

    /// Starts a middlebox and waits until it accepts agents over SCTP and TCP.
    pub(crate) fn middlebox(&self, log: &str) -> Running {
        self.middlebox_for(log, "")
    }

    /// Starts a middlebox with these additional lines for its agent, and waits until it accepts agents.
    pub(crate) fn middlebox_for(&self, log: &str, agent: &str) -> Running {
        let running = self.begin_middlebox(log, "", agent);
        self.wait_for(log, READY);
        running
    }

    /// Starts a middlebox with these additional lines for its packet filter and its agent. It logs
    /// [`READY`] when it accepts agents.
    pub(crate) fn begin_middlebox(&self, log: &str, filter: &str, agent: &str) -> Running {
        let config = self.configure(filter, agent);
        let arguments = ["simco", "middlebox", "--config", &config];
        self.carrick(Host::Firewall, log, &arguments)
    }

    /// Runs `carrick simco agent` on the firewall and returns its output.
    pub(crate) fn agent(&self, arguments: &[&str]) -> String {
        let common = [
            "simco",
            "agent",
            "--middlebox",
            "sctp://127.0.0.1",
            "--json",
        ];
        let arguments = [&common, arguments].concat();
        let program = env!("CARGO_BIN_EXE_carrick");
        let output = self.command(Host::Firewall, program, &arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the number of elements in the packet filter's sets.
    pub(crate) fn elements(&self) -> usize {
        let rules = self.nft(Host::Firewall, "list table inet carrick");
        rules.matches(" expires ").count()
    }
}

pub(crate) fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
