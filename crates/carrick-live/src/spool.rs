//! Files that are written by a thread of their own, so that whoever fills them never waits for a disk.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

/// Pieces that wait to be written, at most; a writer that is given more waits after all. A capture's are
/// of 8 KiB.
const WAITING: usize = 4096;

type Piece = (Arc<File>, Vec<u8>);

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Spool {
    sender: SyncSender<Piece>,
    thread: JoinHandle<io::Result<()>>,
}

impl Spool {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, pieces) = mpsc::sync_channel::<Piece>(WAITING);
        let thread = thread::Builder::new().name("spool".into());
        let thread = thread.spawn(move || {
            let mut result = Ok(());
            // After a failure the rest is taken and dropped: nobody is kept waiting.
            for (file, piece) in pieces {
                if result.is_ok() {
                    result = (&*file).write_all(&piece);
                }
            }
            result
        })?;
        Ok(Self { sender, thread })
    }

    /// Where files are given to the thread; may go to another thread.
    pub(crate) fn opener(&self) -> impl Fn(File) -> Box<dyn Write> + Send + use<> {
        let sender = self.sender.clone();
        move |file| {
            Box::new(Spooled {
                file: Arc::new(file),
                sender: sender.clone(),
            })
        }
    }

    /// Waits until all is written; what filled the files must be gone.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.sender);
        let panicked = |_| Err(io::Error::other("the spool thread panicked"));
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// One file.
struct Spooled {
    file: Arc<File>,
    sender: SyncSender<Piece>,
}

impl Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sender.send((self.file.clone(), bytes.to_vec()));
        sent.map_err(|_| io::Error::other("the spool has ended"))?;
        Ok(bytes.len())
    }

    /// What was given is on its way; [`Spool::finish`] waits for it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_gets_its_own_pieces_in_order() {
        let name = format!("carrick-spool-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let paths = ["a", "b"].map(|name| directory.join(name));
        let spool = Spool::start().unwrap();
        let open = spool.opener();
        let mut files = paths
            .each_ref()
            .map(|path| open(File::create(path).unwrap()));
        drop(open);
        for n in 0..100 {
            files[n % 2].write_all(&[n as u8; 100]).unwrap();
        }
        drop(files);
        spool.finish().unwrap();
        for (first, path) in paths.iter().enumerate() {
            let expected: Vec<u8> = (first..100)
                .step_by(2)
                .flat_map(|n| [n as u8; 100])
                .collect();
            assert_eq!(std::fs::read(path).unwrap(), expected);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_can_not_be_written_is_told_and_keeps_nobody_waiting() {
        let spool = Spool::start().unwrap();
        let mut full = spool.opener()(File::options().write(true).open("/dev/full").unwrap());
        for _ in 0..2 * WAITING {
            full.write_all(&[0; 10]).unwrap();
        }
        drop(full);
        let kind = spool.finish().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::StorageFull);
    }
}
