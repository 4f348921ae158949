//! Captures of simulated networks: a file for each interface.

use std::fs::File;
use std::path::Path;

use carrick_netsim::{InterfaceId, Network};

/// Captures every interface of a network into a pcapng file of its own in `directory`, which is made
/// if it is missing. A file is called as its interface: the node, a hyphen, a number.
///
/// # Errors
/// Names the file that could not be begun.
pub(crate) fn every_interface(net: &mut Network, directory: &Path) -> Result<(), String> {
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
