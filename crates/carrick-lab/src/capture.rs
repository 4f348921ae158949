//! Observation of a simulation: a capture file for each interface, and the event logs of the
//! senders' protocol cores.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use carrick_netsim::{InterfaceId, Network, Time};
use carrick_proto::AssociationConfig;

use crate::sctp_host::{Application, SctpHost, SharedEventLog};

/// Observation of a simulation, if any.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// Directory of the captures, one for each interface.
    directory: Option<&'a Path>,
    /// Event logs of the senders.
    sender_logs: Option<&'a SenderLogs>,
}

/// Event logs of the senders of a run.
#[derive(Debug, Default)]
pub(crate) struct SenderLogs {
    pub(crate) flows: RefCell<Vec<SenderLog>>,
    /// Time of the end of the run.
    pub(crate) end: Cell<Time>,
}

/// Event log of the sender of a flow.
#[derive(Debug)]
pub(crate) struct SenderLog {
    /// Name of the flow.
    pub(crate) flow: &'static str,
    /// Names of the sending and the receiving host.
    pub(crate) ends: [&'static str; 2],
    pub(crate) log: SharedEventLog,
}

impl Capture<'static> {
    /// No observation.
    pub(crate) const NONE: Self = Self {
        directory: None,
        sender_logs: None,
    };
}

impl<'a> Capture<'a> {
    /// Captures packets at every interface into this directory.
    pub(crate) fn into(directory: &'a Path) -> Self {
        Self {
            directory: Some(directory),
            sender_logs: None,
        }
    }

    /// Records the events of the senders' cores, and captures packets if there is a directory.
    pub(crate) fn recording(directory: Option<&'a Path>, sender_logs: &'a SenderLogs) -> Self {
        Self {
            directory,
            sender_logs: Some(sender_logs),
        }
    }

    /// Returns the settings of an observed association.
    pub(crate) fn config(self, config: AssociationConfig) -> AssociationConfig {
        config.with(|c| c.research.trace |= self.sender_logs.is_some())
    }

    /// Builds the host that sends a flow between the named hosts. Its association must have the
    /// settings returned by [`Self::config`].
    pub(crate) fn watch<A: Application>(
        self,
        flow: &'static str,
        ends: [&'static str; 2],
        host: SctpHost<A>,
    ) -> SctpHost<A> {
        let Some(sender_logs) = self.sender_logs else {
            return host;
        };
        let log = SharedEventLog::default();
        sender_logs.flows.borrow_mut().push(SenderLog {
            flow,
            ends,
            log: log.clone(),
        });
        host.with_event_log(log)
    }

    /// Begins the captures; called before the first packet.
    pub(crate) fn begin(self, net: &mut Network) -> Result<(), String> {
        self.directory.map_or(Ok(()), |directory| {
            capture_interfaces(net, directory, |file| Box::new(file))
        })
    }

    /// Completes the captures. Dropping a network completes them, too, but cannot report errors.
    pub(crate) fn end(self, net: &mut Network) -> Result<(), String> {
        if let Some(sender_logs) = self.sender_logs {
            sender_logs.end.set(net.now());
        }
        if self.directory.is_none() {
            return Ok(());
        }
        let done = net.finish_captures();
        done.map_err(|error| format!("cannot write a capture: {error}"))
    }
}

/// Captures every interface of a network into its own pcapng file in `directory`, which is created
/// if it does not exist. A file has the name of its interface: the node, a hyphen, a number.
/// `writer` wraps each file.
///
/// # Errors
/// The name of the file that could not be created.
pub fn capture_interfaces(
    net: &mut Network,
    directory: &Path,
    mut writer: impl FnMut(File) -> Box<dyn Write>,
) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| {
        format!(
            "cannot write {}: {error}; choose another directory",
            path.display()
        )
    };
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for interface in interfaces(net) {
        let name = net.interface_name(interface);
        let name: String = name
            .chars()
            .map(|c| if safe(c) { c } else { '_' })
            .collect();
        let path = directory.join(format!("{name}.pcapng"));
        let file = File::create(&path).map_err(|error| failed(&path, error))?;
        net.capture(interface, writer(file))
            .map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn safe(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '.' | '_')
}

fn interfaces(net: &Network) -> Vec<InterfaceId> {
    net.nodes()
        .flat_map(|node| net.interfaces(node).iter().copied())
        .collect()
}
