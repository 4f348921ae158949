//! Requests on the control socket.

use crate::{Malformed, word};

/// First field of a request.
pub const REQUEST_MAGIC: u32 = 0x4353_5101;
/// Size of the fields in front of the values in bytes.
const FIELDS: usize = 24;
/// Limit of a request in bytes.
pub const MAX_REQUEST: usize = 256 * 1024;

/// Request of a program: a call of the sockets API. Addresses, options and ancillary data are those of the
/// call, in Linux's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// `socket`
    Socket {
        /// Address family.
        domain: i32,
        /// Type, without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
        kind: i32,
        /// IP protocol; 0 for the default of the type.
        protocol: i32,
    },
    /// Description of a descriptor. The result of the reply is the pending error, and its value is [`NO_SOURCE`](crate::NO_SOURCE) if no
    /// message can arrive.
    Describe,
    /// `bind`
    Bind {
        /// Local address and port.
        address: &'a [u8],
    },
    /// `listen`
    Listen {
        /// Requested limit of the accept queue.
        backlog: i32,
    },
    /// `connect`
    Connect {
        /// Addresses of the peer, packed.
        addresses: &'a [u8],
    },
    /// `shutdown`
    Shutdown {
        /// `SHUT_RD`, `SHUT_WR` or `SHUT_RDWR`.
        how: i32,
    },
    /// `getsockopt`
    GetOption {
        /// Protocol level, such as `IPPROTO_SCTP`.
        level: i32,
        /// Name of the option at its level.
        name: i32,
        /// Content of the caller's buffer.
        buffer: &'a [u8],
    },
    /// `setsockopt`
    SetOption {
        /// Protocol level, such as `IPPROTO_SCTP`.
        level: i32,
        /// Name of the option at its level.
        name: i32,
        /// Value of the option.
        value: &'a [u8],
    },
    /// `getsockname`
    LocalAddress,
    /// `getpeername`
    PeerAddress,
    /// `sendmsg`
    Send {
        /// Flags of the call.
        flags: i32,
        /// Address of the peer, or empty.
        address: &'a [u8],
        /// Ancillary data, or empty.
        control: &'a [u8],
        /// Data of the message.
        data: &'a [u8],
    },
    /// `sctp_peeloff`
    Peeloff {
        /// Association identifier.
        association: i32,
    },
    /// The sockets of the host and their associations, from a position on.
    List {
        /// Number of the socket of the last row, low and high 32 bits; -1 for the beginning.
        socket: i64,
        /// Association identifier of the last row, 0 for the row of the socket.
        association: i32,
    },
    /// Counters of the host.
    Statistics,
    /// Handover to the process that sends the request.
    TakeOver,
    /// Copies of packets from now on.
    Capture {
        /// Association identifier, 0 for all associations.
        association: i32,
        /// SCTP port on either side, 0 for all ports.
        port: u16,
    },
    /// Events of associations and paths from now on.
    Follow,
    /// Abort of an association.
    Kill {
        /// Association identifier.
        association: i32,
    },
    /// End of the associations of a socket whose descriptor the program has closed (`SO_LINGER`).
    Linger {
        /// `SO_COOKIE` of the descriptor.
        cookie: u64,
    },
    /// SCTP port for a process with its own protocol stack ([`LeaseFrame`](crate::LeaseFrame)).
    Lease {
        /// Local addresses with the port, 0 for an ephemeral one, packed.
        addresses: &'a [u8],
    },
}

impl<'a> Request<'a> {
    /// Returns the bytes in front of the last value, and that value, for a gathering write.
    pub fn encode(&self) -> (Vec<u8>, &'a [u8]) {
        let none: &[u8] = &[];
        let (code, numbers, first, second): (u32, [i32; 3], &'a [u8], &'a [u8]) = match *self {
            Self::Socket {
                domain,
                kind,
                protocol,
            } => (1, [domain, kind, protocol], none, none),
            Self::Describe => (2, [0; 3], none, none),
            Self::Bind { address } => (3, [0; 3], address, none),
            Self::Listen { backlog } => (4, [backlog, 0, 0], none, none),
            Self::Connect { addresses } => (5, [0; 3], addresses, none),
            Self::Shutdown { how } => (6, [how, 0, 0], none, none),
            Self::GetOption {
                level,
                name,
                buffer,
            } => (7, [level, name, 0], buffer, none),
            Self::SetOption { level, name, value } => (8, [level, name, 0], value, none),
            Self::LocalAddress => (9, [0; 3], none, none),
            Self::PeerAddress => (10, [0; 3], none, none),
            Self::Send {
                flags,
                address,
                control,
                data,
            } => {
                let numbers = [flags, address.len() as i32, 0];
                let mut bytes = fields(11, numbers, address.len() + control.len());
                bytes.extend(address);
                bytes.extend(control);
                return (bytes, data);
            }
            Self::Peeloff { association } => (12, [association, 0, 0], none, none),
            Self::List {
                socket,
                association,
            } => {
                let halves = [socket as i32, (socket >> 32) as i32];
                (13, [halves[0], halves[1], association], none, none)
            }
            Self::Statistics => (14, [0; 3], none, none),
            Self::Follow => (20, [0; 3], none, none),
            Self::Kill { association } => (19, [association, 0, 0], none, none),
            Self::TakeOver => (15, [0; 3], none, none),
            Self::Capture { association, port } => {
                (16, [association, i32::from(port), 0], none, none)
            }
            Self::Linger { cookie } => (17, [cookie as i32, (cookie >> 32) as i32, 0], none, none),
            Self::Lease { addresses } => (18, [0; 3], addresses, none),
        };
        let mut bytes = fields(code, numbers, first.len());
        bytes.extend(first);
        (bytes, second)
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() > MAX_REQUEST || word(bytes, 0)? != REQUEST_MAGIC {
            return Err(Malformed);
        }
        let number = |at| word(bytes, at).map(|word| word as i32);
        let code = word(bytes, 4)?;
        let (a, b, c) = (number(8)?, number(12)?, number(16)?);
        let len = word(bytes, 20)? as usize;
        let values = &bytes[FIELDS..];
        let (first, second) = values.split_at_checked(len).ok_or(Malformed)?;
        // Unused fields are 0, and unused values empty.
        let numbers = match code {
            1 | 13 => 3,
            7 | 8 | 11 | 16 | 17 => 2,
            4 | 6 | 12 | 19 => 1,
            _ => 0,
        };
        let has_first = matches!(code, 3 | 5 | 7 | 8 | 11 | 18);
        let unused = numbers < 3 && c != 0 || numbers < 2 && b != 0 || numbers < 1 && a != 0;
        if unused || !has_first && len > 0 || code != 11 && !second.is_empty() {
            return Err(Malformed);
        }
        Ok(match code {
            1 => Self::Socket {
                domain: a,
                kind: b,
                protocol: c,
            },
            2 => Self::Describe,
            3 => Self::Bind { address: first },
            4 => Self::Listen { backlog: a },
            5 => Self::Connect { addresses: first },
            6 => Self::Shutdown { how: a },
            7 => Self::GetOption {
                level: a,
                name: b,
                buffer: first,
            },
            8 => Self::SetOption {
                level: a,
                name: b,
                value: first,
            },
            9 => Self::LocalAddress,
            10 => Self::PeerAddress,
            11 => {
                let len = usize::try_from(b).map_err(|_| Malformed)?;
                let (address, control) = first.split_at_checked(len).ok_or(Malformed)?;
                Self::Send {
                    flags: a,
                    address,
                    control,
                    data: second,
                }
            }
            12 => Self::Peeloff { association: a },
            13 => Self::List {
                socket: i64::from(b) << 32 | i64::from(a as u32),
                association: c,
            },
            14 => Self::Statistics,
            15 => Self::TakeOver,
            16 => Self::Capture {
                association: a,
                port: u16::try_from(b).map_err(|_| Malformed)?,
            },
            17 => Self::Linger {
                cookie: u64::from(b as u32) << 32 | u64::from(a as u32),
            },
            18 => Self::Lease { addresses: first },
            19 => Self::Kill { association: a },
            20 => Self::Follow,
            _ => return Err(Malformed),
        })
    }
}

fn fields(code: u32, numbers: [i32; 3], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIELDS + len);
    bytes.extend(REQUEST_MAGIC.to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    for number in numbers {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend((len as u32).to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(request: &Request<'_>) -> Vec<u8> {
        let (mut bytes, data) = request.encode();
        bytes.extend(data);
        bytes
    }

    #[test]
    fn requests_round_trip() {
        let all = [
            Request::Socket {
                domain: 10,
                kind: 5,
                protocol: 132,
            },
            Request::Describe,
            Request::Statistics,
            Request::Bind { address: b"addr" },
            Request::Listen { backlog: -1 },
            Request::Connect { addresses: b"" },
            Request::Shutdown { how: 2 },
            Request::List {
                socket: -1,
                association: 0,
            },
            Request::List {
                socket: (7 << 32) + 0xffff_fffe,
                association: -3,
            },
            Request::GetOption {
                level: 132,
                name: 7,
                buffer: &[0; 200],
            },
            Request::SetOption {
                level: 1,
                name: 2,
                value: b"1234",
            },
            Request::LocalAddress,
            Request::PeerAddress,
            Request::Send {
                flags: 0x40,
                address: b"sockaddr",
                control: b"",
                data: b"message",
            },
            Request::Peeloff { association: 3 },
            Request::TakeOver,
            Request::Kill { association: 5 },
            Request::Follow,
            Request::Capture {
                association: 9,
                port: 38_412,
            },
            Request::Linger {
                cookie: 0xfedc_ba98_7654_3210,
            },
            Request::Lease { addresses: b"any" },
        ];
        for request in all {
            assert_eq!(Request::decode(&bytes_of(&request)), Ok(request));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(
            code in 0u32..21,
            numbers in any::<[i8; 3]>(),
            len in 0u32..40,
            rest in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = fields(code, numbers.map(i32::from), 0);
            bytes[20..24].copy_from_slice(&len.to_ne_bytes());
            bytes.extend(rest);
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(bytes_of(&request), bytes);
            }
        }

        #[test]
        fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Request::decode(&bytes), Err(Malformed));
        }
    }
}
