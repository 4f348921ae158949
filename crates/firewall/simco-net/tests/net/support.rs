//! Middleboxes with ports that the system chooses, agents, and time limits against tests that hang.

use std::future::Future;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use carrick_simco::agent::Credentials;
use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::message::{
    AddressTuple, Direction, DisableRequest, EnableRequest, Lifetime, Location, PerParameters,
    PortParity,
};
use carrick_simco::session::Identity;
use carrick_simco_net::client::{Client, ClientConfig, ConnectTarget, SctpTarget};
use carrick_simco_net::daemon::{
    AnyBackend, BoundAddresses, Daemon, DaemonSettings, StoredState, parse_key,
};
use carrick_simco_net::transport::tls;

/// Time limit of each step, far longer than any takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Awaits a step; panics after [`LIMIT`].
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let Ok(result) = tokio::time::timeout(LIMIT, future).await else {
        panic!("{what}: still not done after {LIMIT:?}");
    };
    result
}

/// Folder of a test, removed when dropped.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("carrick-simco-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Left by a killed run with the same process id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Sctp,
    Tcp,
    Tls,
}

pub(crate) const ALL: [Transport; 3] = [Transport::Sctp, Transport::Tcp, Transport::Tls];

pub(crate) const KEYS: [(&str, &str); 3] = [
    ("alice", "000102030405060708090a0b0c0d0e0f"),
    ("bob", "101112131415161718191a1b1c1d1e1f"),
    ("noc", "202122232425262728292a2b2c2d2e2f"),
];

/// Running middlebox with the agents `alice`, `bob` and `noc`; `noc` has all rights.
pub(crate) struct TestMiddlebox {
    pub(crate) daemon: Daemon,
    pub(crate) folder: TestFolder,
}

pub(crate) fn text(folder: &TestFolder, more: &str) -> String {
    let [alice, bob, noc] = KEYS.map(|(_, key)| key);
    let certificate = folder.file("cert.pem");
    if !certificate.exists() {
        make_certificate(folder);
    }
    let (chain, key) = (certificate.display(), folder.file("key.pem"));
    let key = key.display();
    format!(
        r#"
name = "box"
{more}
[backend]
kind = "memory"
[listen]
sctp = {{ addresses = ["127.0.0.1"], port = 0, udp-port = 0, streams = 8 }}
tcp = ["127.0.0.1:0"]
tls = {{ addresses = ["127.0.0.1:0"], certificate = "{chain}", key = "{key}" }}
[[agents]]
name = "alice"
key = "{alice}"
max-rules = 50
[[agents]]
name = "bob"
key = "{bob}"
[[agents]]
name = "noc"
key = "{noc}"
rights = "all"
sees = "all"
controls = "all"
"#
    )
}

fn make_certificate(folder: &TestFolder) {
    let names = vec!["box.example".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.file("cert.pem"), made.cert.pem()).unwrap();
    write_key(folder, &made.signing_key.serialize_pem());
}

/// Writes the private key of the certificate, readable by its owner only.
pub(crate) fn write_key(folder: &TestFolder, pem: &str) {
    let file = folder.file("key.pem");
    let _ = std::fs::remove_file(&file);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(file)
        .unwrap()
        .write_all(pem.as_bytes())
        .unwrap();
}

pub(crate) fn backend() -> AnyBackend {
    Box::new(MemoryBackend::new(MemoryLimits::default()))
}

impl TestMiddlebox {
    pub(crate) async fn start(more: &str) -> Self {
        let folder = TestFolder::new();
        let settings = DaemonSettings::parse("f", &text(&folder, more)).unwrap();
        let daemon = Daemon::start(&settings, backend(), StoredState::none())
            .await
            .unwrap();
        Self { daemon, folder }
    }

    pub(crate) fn target(&self, transport: Transport) -> ConnectTarget {
        target(
            self.daemon.bound(),
            &self.folder.file("cert.pem"),
            transport,
        )
    }

    pub(crate) async fn client(&self, transport: Transport, name: &str) -> Client {
        let config = config(self.target(transport), name);
        in_time("connect", Client::connect(config)).await.unwrap()
    }

    /// Returns the value of a metric whose line begins with `name`, labels included.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = self.daemon.metrics().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
        line.trim().parse().unwrap()
    }
}

pub(crate) fn target(bound: &BoundAddresses, root: &Path, transport: Transport) -> ConnectTarget {
    match transport {
        Transport::Sctp => {
            let (port, udp_port) = bound.sctp.unwrap();
            ConnectTarget::Sctp(Box::new(SctpTarget {
                addresses: vec![IpAddr::from([127, 0, 0, 1])],
                port,
                udp_port,
                local: vec![IpAddr::from([127, 0, 0, 1])],
                local_udp_port: 0,
                daemon: None,
                streams: 4,
                association: None,
                event_log: None,
            }))
        }
        Transport::Tcp => ConnectTarget::tcp("127.0.0.1", bound.tcp[0].port()),
        Transport::Tls => ConnectTarget::Tls {
            host: "127.0.0.1".into(),
            port: bound.tls[0].port(),
            name: "box.example".into(),
            config: tls::client(root).unwrap(),
        },
    }
}

pub(crate) fn config(target: ConnectTarget, name: &str) -> ClientConfig {
    let mut config = ClientConfig::new(target);
    let key = KEYS.iter().find(|(known, _)| *known == name);
    config.settings.credentials = key.map(|(_, key)| Credentials {
        agent: Identity::new(name).unwrap(),
        key: parse_key(key).unwrap(),
        middlebox: Identity::new("box"),
    });
    config.first_pause = Duration::from_millis(20);
    config.longest_pause = Duration::from_millis(200);
    config
}

/// Request for a pinhole to a distinct port.
pub(crate) fn pinhole(number: u16, lifetime: u32) -> EnableRequest {
    let internal = IpAddr::from([10, 0, 0, 1]);
    let external = IpAddr::from([192, 0, 2, 1]);
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: Direction::Both,
        },
        internal: AddressTuple::single(Location::Internal, 17, internal, 1000 + number),
        external: AddressTuple::single(Location::External, 17, external, 5000),
        lifetime: Lifetime(lifetime),
        group: None,
    }
}

/// Request to block the same stream.
pub(crate) fn block(number: u16, lifetime: u32) -> DisableRequest {
    let EnableRequest {
        internal, external, ..
    } = pinhole(number, lifetime);
    DisableRequest {
        internal,
        external,
        lifetime: Lifetime(lifetime),
    }
}
