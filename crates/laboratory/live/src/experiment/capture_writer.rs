//! Capture files written by a separate thread, so that the emulator does not wait for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

/// Maximum number of queued blocks, of 8 KiB each for a capture; beyond it a write blocks.
const QUEUE_BLOCKS: usize = 4096;

type Block = (Arc<File>, Vec<u8>);

/// Thread that writes the files.
#[derive(Debug)]
pub(crate) struct CaptureWriter {
    sender: SyncSender<Block>,
    thread: JoinHandle<io::Result<()>>,
}

impl CaptureWriter {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, blocks) = mpsc::sync_channel::<Block>(QUEUE_BLOCKS);
        let thread = thread::Builder::new().name("capture writer".into());
        let thread = thread.spawn(move || {
            let mut result = Ok(());
            // After a failure the remaining blocks are read and dropped, so that no sender blocks.
            for (file, block) in blocks {
                if result.is_ok() {
                    result = (&*file).write_all(&block);
                }
            }
            result
        })?;
        Ok(Self { sender, thread })
    }

    /// Returns a function that makes a writer for a file; it may be sent to another thread.
    pub(crate) fn opener(&self) -> impl Fn(File) -> Box<dyn Write> + Send + use<> {
        let sender = self.sender.clone();
        move |file| {
            Box::new(QueuedFile {
                file: Arc::new(file),
                sender: sender.clone(),
            })
        }
    }

    /// Waits until all blocks are written. All writers of files must have been dropped.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.sender);
        let panicked = |_| Err(io::Error::other("the capture writer thread panicked"));
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// File whose blocks are queued for the thread.
struct QueuedFile {
    file: Arc<File>,
    sender: SyncSender<Block>,
}

impl Write for QueuedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sender.send((self.file.clone(), bytes.to_vec()));
        sent.map_err(|_| io::Error::other("the capture writer has ended"))?;
        Ok(bytes.len())
    }

    /// Does nothing: the blocks are queued, and [`CaptureWriter::finish`] waits for them.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_gets_its_own_blocks_in_order() {
        let name = format!("carrick-captures-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let paths = ["a", "b"].map(|name| directory.join(name));
        let writer = CaptureWriter::start().unwrap();
        let open = writer.opener();
        let mut files = paths
            .each_ref()
            .map(|path| open(File::create(path).unwrap()));
        drop(open);
        for n in 0..100 {
            files[n % 2].write_all(&[n as u8; 100]).unwrap();
        }
        drop(files);
        writer.finish().unwrap();
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
    fn a_write_error_is_returned_and_blocks_no_sender() {
        let writer = CaptureWriter::start().unwrap();
        let mut full = writer.opener()(File::options().write(true).open("/dev/full").unwrap());
        for _ in 0..2 * QUEUE_BLOCKS {
            full.write_all(&[0; 10]).unwrap();
        }
        drop(full);
        let kind = writer.finish().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::StorageFull);
    }
}
