//! Capture files of a simulation, one for each interface.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use carrick_netsim::{InterfaceId, Network};

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
