//! Socket options (RFC 6458, section 8): `getsockopt` and `setsockopt`, which find an option in a table.
//!
//! Each module has the rows of its options, `OPTIONS`, and the functions that read and set them: an option is added
//! there, and nowhere else.
//!
//! - `socket_level`: `SOL_SOCKET`, `IPPROTO_IP` and `IPPROTO_IPV6`
//! - `parameters`: protocol parameters of future associations and of existing ones
//! - `paths`: peer addresses
//! - `status`: status and statistics of associations
//! - `messages`: defaults of sent messages, ancillary data and notifications of received ones
//! - `streams`: schedulers and reconfiguration (RFC 8260, RFC 6525)
//! - `extensions`: extensions and authentication (RFC 4895)
//! - `addresses`: lists of addresses, and calls that are options on Linux
//! - `table`: what a row consists of
//! - `scope`: associations that an option concerns, and changes of their parameters

// The functions of a row have the signature of their kind.
#![allow(clippy::unnecessary_wraps)]

mod addresses;
mod extensions;
mod messages;
mod parameters;
mod paths;
mod scope;
mod socket_level;
mod status;
mod streams;
mod table;

use carrick_proto::{ParameterChanges, Time};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::OptionInput;
use scope::{OptionView, change_parameters, set_future};
use table::{Get, Set, SetValue, SocketOption, cut};

pub(crate) use parameters::apply_init;

/// Options of each module.
const TABLE: [&[SocketOption]; 8] = [
    socket_level::OPTIONS,
    parameters::OPTIONS,
    paths::OPTIONS,
    status::OPTIONS,
    messages::OPTIONS,
    streams::OPTIONS,
    extensions::OPTIONS,
    addresses::OPTIONS,
];

fn find((level, name): (i32, i32)) -> Option<&'static SocketOption> {
    let mut all = TABLE.into_iter().flatten();
    all.find(|option| (option.level, option.name) == (level, name))
}

impl OptionInput {
    /// Returns the fields of an option.
    pub fn of(level: i32, name: i32) -> Self {
        find((level, name)).map_or(Self::NONE, |option| option.input.clone())
    }
}

impl Sockets {
    /// Sets an option of a socket: `setsockopt`. Returns 0, or for `SCTP_SOCKOPT_CONNECTX` the identifier
    /// of the association whose set-up has started.
    ///
    /// # Errors
    /// - `ENOPROTOOPT`: the option is not supported; the table in the crate's documentation has the reason.
    /// - `EINVAL`: a wrong length, value or association identifier.
    /// - `EOPNOTSUPP`: the option does not apply to the style of the socket.
    /// - Errors of the operation that the option performs.
    pub fn setsockopt(
        &mut self,
        now: Time,
        id: SocketId,
        option: (i32, i32),
        value: &[u8],
    ) -> Result<i32, Errno> {
        self.now = now;
        self.table.open(id)?;
        let result = match find(option) {
            Some(option) => set(self, id, option, value),
            None => Err(Errno::ENOPROTOOPT),
        };
        self.removed.count_refused(&result);
        result
    }

    /// Returns the value of an option of a socket: `getsockopt`. `buffer` is the buffer of the caller with
    /// its content, from which association identifiers and addresses are read; the value is never longer.
    ///
    /// # Errors
    /// As for [`Self::setsockopt`]; `EINVAL` for a buffer that is too short.
    pub fn getsockopt(
        &mut self,
        now: Time,
        id: SocketId,
        option: (i32, i32),
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.now = now;
        self.table.open(id)?;
        let result = match find(option) {
            Some(option) => get(self, id, option, buffer),
            None => Err(Errno::ENOPROTOOPT),
        };
        self.removed.count_refused(&result);
        result
    }
}

fn set(
    host: &mut Sockets,
    id: SocketId,
    option: &SocketOption,
    value: &[u8],
) -> Result<i32, Errno> {
    match option.set {
        Set::Refused(errno) => return Err(errno),
        Set::Socket(set) => set(host.table.open_mut(id)?, value)?,
        Set::Reported(stored) => {
            let value = stored(i32::parse(value)?);
            let reported = &mut host.table.open_mut(id)?.options_mut().reported;
            reported.insert(option.key(), value);
        }
        Set::Future(set) => {
            let view = OptionView::new(host, id)?;
            let mut config = view.socket.options().config.clone();
            set(&view, &mut config, value)?;
            set_future(host, id, &ParameterChanges::new(), &config)?;
        }
        Set::Changes(rule, changes) => {
            let view = OptionView::new(host, id)?;
            let (association, changes) = changes(&view, value)?;
            let scope = view.scope(rule, association)?;
            change_parameters(host, id, &scope, &changes)?;
        }
        Set::Operation(operation) => operation(host, id, value)?,
        Set::Association(set_up) => return set_up(host, id, value).map(AssocId::number),
    }
    Ok(0)
}

fn get(
    host: &mut Sockets,
    id: SocketId,
    option: &SocketOption,
    buffer: &[u8],
) -> Result<Vec<u8>, Errno> {
    match option.get {
        Get::Refused(errno) => Err(errno),
        Get::Value(get) => get(&OptionView::new(host, id)?, buffer),
        Get::Reported(default) => {
            let reported = &host.table.open(id)?.options().reported;
            let value = reported.get(&option.key()).copied();
            Ok(cut(buffer, value.unwrap_or(default) as i32))
        }
        Get::Operation(operation) => operation(host, id, buffer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_one_row() {
        let mut keys: Vec<_> = TABLE.into_iter().flatten().map(SocketOption::key).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
