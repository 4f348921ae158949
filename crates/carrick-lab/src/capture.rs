//! A look inside a simulation: captures, a file for each interface, and what the protocol core of a
//! sender tells.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use carrick_netsim::{InterfaceId, Network, Time};
use carrick_proto::AssociationConfig;

use crate::sctp_host::{Application, SctpHost, Tape};

/// What is looked at in a simulation, if anything is.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// Where packets at every interface go.
    directory: Option<&'a Path>,
    /// What the cores of senders tell.
    tapes: Option<&'a Tapes>,
}

/// What the senders of a run told.
#[derive(Debug, Default)]
pub(crate) struct Tapes {
    pub(crate) flows: RefCell<Vec<Taped>>,
    /// When the run was over.
    pub(crate) end: Cell<Time>,
}

/// What the sender of a flow told.
#[derive(Debug)]
pub(crate) struct Taped {
    /// The flow's name.
    pub(crate) flow: &'static str,
    /// Names of the hosts that send and receive it.
    pub(crate) ends: [&'static str; 2],
    pub(crate) tape: Tape,
}

impl Capture<'static> {
    /// Nothing is.
    pub(crate) const NONE: Self = Self {
        directory: None,
        tapes: None,
    };
}

impl<'a> Capture<'a> {
    /// Packets at every interface, into this directory.
    pub(crate) fn into(directory: &'a Path) -> Self {
        Self {
            directory: Some(directory),
            tapes: None,
        }
    }

    /// What the cores tell, and packets if there is a directory for them.
    pub(crate) fn taped(directory: Option<&'a Path>, tapes: &'a Tapes) -> Self {
        Self {
            directory,
            tapes: Some(tapes),
        }
    }

    /// The settings of an association that is looked at.
    pub(crate) fn config(self, config: AssociationConfig) -> AssociationConfig {
        config.with(|c| c.research.trace |= self.tapes.is_some())
    }

    /// The host that sends a flow, with the names of sender and receiver. Its association has the
    /// settings that [`Self::config`] gives.
    pub(crate) fn watch<A: Application>(
        self,
        flow: &'static str,
        ends: [&'static str; 2],
        host: SctpHost<A>,
    ) -> SctpHost<A> {
        let Some(tapes) = self.tapes else {
            return host;
        };
        let tape = Tape::default();
        tapes.flows.borrow_mut().push(Taped {
            flow,
            ends,
            tape: tape.clone(),
        });
        host.taped(tape)
    }

    /// Begins it; called before the first packet.
    pub(crate) fn begin(self, net: &mut Network) -> Result<(), String> {
        self.directory.map_or(Ok(()), |directory| {
            capture_interfaces(net, directory, |file| Box::new(file))
        })
    }

    /// Writes what is left; a network that is dropped does so, too, but can't say what went wrong.
    pub(crate) fn end(self, net: &mut Network) -> Result<(), String> {
        if let Some(tapes) = self.tapes {
            tapes.end.set(net.now());
        }
        if self.directory.is_none() {
            return Ok(());
        }
        let done = net.finish_captures();
        done.map_err(|error| format!("cannot write a capture: {error}"))
    }
}

/// Captures every interface of a network into a pcapng file of its own in `directory`, which is made
/// if it is missing. A file is called as its interface: the node, a hyphen, a number. `writer` says how
/// each is written.
///
/// # Errors
/// Names the file that could not be begun.
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
