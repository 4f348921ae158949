//! Captures of simulated networks: a file for each interface.

use std::fs::File;
use std::path::Path;

use carrick_netsim::{InterfaceId, Network};

/// Where a simulation is captured, if it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture<'a>(Option<&'a Path>);

impl Capture<'static> {
    /// It is not.
    pub(crate) const NONE: Self = Self(None);
}

impl<'a> Capture<'a> {
    /// At every interface, into this directory.
    pub(crate) fn into(directory: &'a Path) -> Self {
        Self(Some(directory))
    }

    /// Begins it; called before the first packet.
    pub(crate) fn begin(self, net: &mut Network) -> Result<(), String> {
        self.0
            .map_or(Ok(()), |directory| every_interface(net, directory))
    }

    /// Writes what is left; a network that is dropped does so, too, but can't say what went wrong.
    pub(crate) fn end(self, net: &mut Network) -> Result<(), String> {
        if self.0.is_none() {
            return Ok(());
        }
        let done = net.finish_captures();
        done.map_err(|error| format!("cannot write a capture: {error}"))
    }
}

/// Captures every interface of a network into a pcapng file of its own in `directory`, which is made
/// if it is missing. A file is called as its interface: the node, a hyphen, a number.
///
/// # Errors
/// Names the file that could not be begun.
fn every_interface(net: &mut Network, directory: &Path) -> Result<(), String> {
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
        net.capture(interface, file)
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
