//! Capture files of a simulation, one for each interface.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use carrick_netsim::files::Replacement;
use carrick_netsim::{InterfaceId, Network};

/// Captures every interface of a network into its own pcapng file in `directory`, which is created
/// if it does not exist. A file has the name of its interface: the node, a hyphen, a number.
/// `create` opens each file.
///
/// # Errors
/// The name of the file that could not be created.
pub fn capture_interfaces(
    net: &mut Network,
    directory: &Path,
    mut create: impl FnMut(&Path) -> io::Result<Box<dyn Write>>,
) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| {
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
        let file = create(&path).map_err(|error| failed(&path, error))?;
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

/// Captures of a run, which replace existing files when they are complete. Without [`Self::finish`] nothing is
/// replaced.
#[derive(Debug, Default)]
pub(crate) struct RunCaptures(Vec<Replacement>);

impl RunCaptures {
    /// Begins the captures of all interfaces.
    ///
    /// # Errors
    /// The name of the file that could not be created.
    pub(crate) fn begin(net: &mut Network, directory: &Path) -> Result<Self, String> {
        let mut all = Vec::new();
        capture_interfaces(net, directory, |path| {
            let (file, replacement) = Replacement::begin(path)?;
            all.push(replacement);
            Ok(Box::new(NamedFile {
                file,
                path: path.to_owned(),
            }))
        })?;
        Ok(Self(all))
    }

    /// Completes the captures.
    ///
    /// # Errors
    /// The file that could not be written and the cause.
    pub(crate) fn finish(self, net: &mut Network) -> Result<(), String> {
        // Dropping the network would complete the captures, too, but report no errors.
        net.finish_captures()
            .and_then(|()| self.0.into_iter().try_for_each(Replacement::finish))
            .map_err(|error| format!("{error}; choose another directory"))
    }
}

/// File whose errors have its name.
struct NamedFile {
    file: File,
    path: PathBuf,
}

impl NamedFile {
    fn named<T>(&self, written: io::Result<T>) -> io::Result<T> {
        written.map_err(|error| {
            let text = format!("cannot write {}: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        })
    }
}

impl Write for NamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.named(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.named(flushed)
    }
}
