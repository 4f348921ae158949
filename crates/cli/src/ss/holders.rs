//! Processes that hold the descriptors of sockets, found by their inodes in /proc as ss does.

use std::collections::BTreeMap;
use std::fs;

/// Processes with their descriptors, by the inode of the socket.
#[derive(Debug, Default)]
pub(super) struct Holders(BTreeMap<u64, Vec<(i64, i32)>>);

impl Holders {
    /// Reads the descriptors of all processes that this one may inspect: those of the same user, or all for
    /// the superuser.
    pub(super) fn read() -> Self {
        let mut holders = Self::default();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let descriptors = fs::read_dir(process.path().join("fd"));
            for descriptor in descriptors.into_iter().flatten().flatten() {
                let target = fs::read_link(descriptor.path()).unwrap_or_default();
                let inode = target.to_str().and_then(inode);
                let number = descriptor.file_name();
                let number = number.to_str().and_then(|number| number.parse().ok());
                if let (Some(inode), Some(number)) = (inode, number) {
                    holders.0.entry(inode).or_default().push((id, number));
                }
            }
        }
        holders
    }

    /// Returns the column of ss for a socket. If no process is found, such as one of another user, it is the
    /// process that opened the socket: for a program under supervision, that of `carrick run`; nothing for 0, a
    /// process in a namespace that the daemon does not see.
    pub(super) fn column(&self, inode: Option<u64>, opened_by: i64) -> String {
        let found = inode.and_then(|inode| self.0.get(&inode));
        let mut users: Vec<String> = found
            .into_iter()
            .flatten()
            .map(|(process, number)| format!("(\"{}\",pid={process},fd={number})", name(*process)))
            .collect();
        if users.is_empty() && opened_by == 0 {
            return String::new();
        }
        if users.is_empty() {
            users.push(format!("(\"{}\",pid={opened_by})", name(opened_by)));
        }
        format!(" users:({})", users.join(","))
    }
}

/// Returns the inode of a target such as `socket:[12345]`.
fn inode(target: &str) -> Option<u64> {
    target
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// Returns the name of a process, which may have ended or be one of another namespace; the name is what the
/// process has set.
fn name(process: i64) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let number = socket.as_raw_fd();
        let file = format!("/proc/self/fd/{number}");
        let inode = fs::metadata(file).unwrap().ino();
        let own = std::process::id();
        let column = Holders::read().column(Some(inode), 1);
        let expected = format!(",pid={own},fd={number})");
        assert!(column.contains(&expected), "{column}");
        let unknown = Holders::default().column(Some(inode), own.into());
        assert!(unknown.ends_with(&format!(",pid={own}))")), "{unknown}");
    }
}
