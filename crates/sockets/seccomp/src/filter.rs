//! The filter: a classic BPF program over `struct seccomp_data`.
//!
//! It notifies the supervisor of calls that create an SCTP socket, that have level `IPPROTO_SCTP`, and
//! of those on descriptors of the reserved range that Carrick's sockets answer other than the pair does. All other
//! calls pass, most of them without running the filter: the kernel stores which it always allows.

use std::ffi::c_long;

use carrick_sockets::linux::{IPPROTO_SCTP, SOCK_SEQPACKET};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF, sock_filter};

use crate::range::RANGES;

/// Architecture of native calls (`AUDIT_ARCH_*`). Calls of other ones (32-bit programs) pass.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
/// Architecture of native calls (`AUDIT_ARCH_*`). Calls of other ones (32-bit programs) pass.
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
/// The layouts and numbers of other architectures have not been tested.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const ARCHITECTURE: Option<u32> = None;

/// Lowest number of a call of the x32 ABI of x86-64. No call of another architecture has it.
const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data`, and of the low half of its arguments.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(at: u32) -> u32 {
    16 + 8 * at
}

/// Instructions of classic BPF.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn load(offset: u32) -> sock_filter {
    instruction(LOAD, offset, 0, 0)
}

const ALLOW: sock_filter = instruction(RETURN, SECCOMP_RET_ALLOW, 0, 0);
const NOTIFY: sock_filter = instruction(RETURN, SECCOMP_RET_USER_NOTIF, 0, 0);

/// Notifies if the value is `k`; continues otherwise.
const fn notify_if(k: u32) -> [sock_filter; 2] {
    [instruction(EQUAL, k, 0, 1), NOTIFY]
}

/// Notifies if an argument is a reserved number; continues otherwise.
fn notify_reserved(at: u32) -> Vec<sock_filter> {
    let mut body = vec![load(argument(at))];
    for range in RANGES {
        body.push(instruction(AT_LEAST, *range.start(), 0, 2));
        body.push(instruction(ABOVE, *range.end(), 1, 0));
        body.push(NOTIFY);
    }
    body
}

/// Calls whose first argument is the descriptor.
const ON_DESCRIPTORS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
    libc::SYS_sendfile,
    libc::SYS_dup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    libc::SYS_dup3,
];

/// Returns the filter; `None` on architectures without support.
pub(crate) fn filter() -> Option<Vec<sock_filter>> {
    let mut program = vec![
        load(ARCH),
        instruction(EQUAL, ARCHITECTURE?, 1, 0),
        ALLOW,
        load(NUMBER),
        instruction(AT_LEAST, X32, 0, 1),
        ALLOW,
    ];
    // Each group of calls compares its numbers and jumps to the body behind them, or past it to the next group. So no jump
    // is longer than a group, however many there are: a jump has 8 bits. A call of no group reads no argument on its way,
    // which is what the kernel needs to remember it as one that is always allowed.
    let mut add = |calls: &[c_long], mut body: Vec<sock_filter>| {
        body.push(ALLOW);
        let last = calls.len() - 1;
        for (at, call) in calls.iter().enumerate() {
            let skipped = if at == last { body.len() as u8 } else { 0 };
            program.push(instruction(EQUAL, *call as u32, (last - at) as u8, skipped));
        }
        program.append(&mut body);
    };
    add(ON_DESCRIPTORS, notify_reserved(0));
    add(&[libc::SYS_socket], socket());
    let mut options = vec![load(argument(1))];
    options.extend(notify_if(IPPROTO_SCTP as u32));
    options.extend(notify_reserved(0));
    add(&[libc::SYS_getsockopt, libc::SYS_setsockopt], options);
    let mut duplicates = vec![
        load(argument(1)),
        instruction(EQUAL, libc::F_DUPFD as u32, 2, 0),
        instruction(EQUAL, libc::F_DUPFD_CLOEXEC as u32, 1, 0),
        ALLOW,
    ];
    duplicates.extend(notify_reserved(0));
    add(&[libc::SYS_fcntl], duplicates);
    let mut unread = vec![
        load(argument(1)),
        instruction(EQUAL, libc::FIONREAD as u32, 2, 0),
        instruction(EQUAL, libc::TIOCOUTQ as u32, 1, 0),
        ALLOW,
    ];
    unread.extend(notify_reserved(0));
    add(&[libc::SYS_ioctl], unread);
    let mut moves = notify_reserved(0);
    moves.extend(notify_reserved(2));
    add(&[libc::SYS_splice], moves);
    program.push(ALLOW);
    Some(program)
}

/// SCTP by its number, or as the only protocol of `SOCK_SEQPACKET`.
fn socket() -> Vec<sock_filter> {
    let mut body = vec![load(argument(2))];
    body.extend(notify_if(IPPROTO_SCTP as u32));
    body.extend([
        instruction(EQUAL, 0, 1, 0),
        ALLOW,
        load(argument(1)),
        instruction(AND, 0xf, 0, 0),
    ]);
    body.extend(notify_if(SOCK_SEQPACKET as u32));
    body
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    const AF_INET: u64 = 2;

    /// Runs the filter as the kernel does. Returns whether the call notifies the supervisor.
    fn notifies(architecture: u32, number: c_long, arguments: &[u64]) -> bool {
        static PROGRAM: LazyLock<Vec<sock_filter>> = LazyLock::new(|| filter().unwrap());
        let mut data = [0; 64];
        data[..4].copy_from_slice(&(number as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&architecture.to_ne_bytes());
        for (at, value) in arguments.iter().enumerate() {
            data[16 + 8 * at..24 + 8 * at].copy_from_slice(&value.to_ne_bytes());
        }
        let (mut at, mut value) = (0, 0);
        loop {
            let step = PROGRAM[at];
            at += 1;
            let holds = match step.code {
                LOAD => {
                    let from = step.k as usize;
                    value = u32::from_ne_bytes(data[from..from + 4].try_into().unwrap());
                    continue;
                }
                AND => {
                    value &= step.k;
                    continue;
                }
                EQUAL => value == step.k,
                AT_LEAST => value >= step.k,
                ABOVE => value > step.k,
                RETURN => return step.k == SECCOMP_RET_USER_NOTIF,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    fn native(number: c_long, arguments: &[u64]) -> bool {
        notifies(ARCHITECTURE.unwrap(), number, arguments)
    }

    #[test]
    fn calls_on_reserved_descriptors_notify() {
        for call in ON_DESCRIPTORS {
            for number in [900, 1023, 32_768, 40_959, 0xffff_ffff_0000_0384] {
                assert!(native(*call, &[number]), "{call} {number}");
            }
            for number in [0, 899, 1024, 32_767, 40_960, u64::MAX] {
                assert!(!native(*call, &[number]), "{call} {number}");
            }
        }
        assert!(native(libc::SYS_splice, &[900, 0, 5]));
        assert!(native(libc::SYS_splice, &[5, 0, 900]));
        assert!(!native(libc::SYS_splice, &[5, 900, 6]));
    }

    /// Calls of which the filter notifies, by the numbers of the kernel's table.
    #[cfg(target_arch = "x86_64")]
    const NOTIFIED: &[c_long] = &[
        0, 1, 16, 19, 20, 32, 33, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 54, 55, 72,
        275, 288, 292, 299, 307, 327, 328,
    ];
    /// Calls of which the filter notifies, by the numbers of the kernel's table.
    #[cfg(target_arch = "aarch64")]
    const NOTIFIED: &[c_long] = &[
        23, 24, 25, 29, 63, 64, 65, 66, 71, 76, 198, 200, 201, 202, 203, 204, 205, 206, 207, 208,
        209, 210, 211, 212, 242, 243, 269, 286, 287,
    ];

    /// Arguments of which each call of the filter is notified that has them.
    const NOTIFIED_ARGUMENTS: [[u64; 3]; 5] = [
        [900, 0, 900],
        [2, 1, 132],
        [900, libc::F_DUPFD_CLOEXEC as u64, 0],
        [900, libc::FIONREAD, 0],
        [5, 132, 0],
    ];

    #[test]
    fn all_other_calls_pass() {
        for number in 0..1024 {
            let is_notified = NOTIFIED_ARGUMENTS
                .iter()
                .any(|arguments| native(number, arguments));
            assert_eq!(is_notified, NOTIFIED.contains(&number), "{number}");
            for abi in [X32, u32::MAX - 1023] {
                let foreign = c_long::from(abi) + number;
                assert!(
                    NOTIFIED_ARGUMENTS
                        .iter()
                        .all(|arguments| !native(foreign, arguments))
                );
            }
        }
    }

    /// The kernel refuses longer programs, and jumps behind the end.
    #[test]
    fn the_program_is_valid() {
        let program = filter().unwrap();
        assert!(program.len() < 4096);
        for (at, step) in program.iter().enumerate() {
            let left = program.len() - at - 1;
            match step.code {
                EQUAL | AT_LEAST | ABOVE => {
                    assert!(usize::from(step.jt.max(step.jf)) < left, "{at}")
                }
                LOAD => assert!(step.k % 4 == 0 && step.k < 64, "{at}"),
                code => assert!([AND, RETURN].contains(&code), "{at}"),
            }
        }
        assert_eq!(program.last().map(|step| step.code), Some(RETURN));
    }

    /// All calls on a number between the ranges, and around them, pass.
    #[test]
    fn numbers_that_are_not_reserved_pass() {
        let reserved = |number: u64| RANGES.iter().any(|range| range.contains(&(number as u32)));
        for number in (0..42_000).chain([0x7fff_ffff, 0xffff_ffff, u64::MAX]) {
            let is_notified = native(libc::SYS_recvmsg, &[number]);
            assert_eq!(is_notified, reserved(number), "{number}");
        }
    }

    #[test]
    fn commands_notify_where_the_pair_differs() {
        let reserved = |call, command: u64| native(call, &[900, command]);
        assert!(reserved(libc::SYS_fcntl, libc::F_DUPFD as u64));
        assert!(reserved(libc::SYS_fcntl, libc::F_DUPFD_CLOEXEC as u64));
        assert!(!reserved(libc::SYS_fcntl, libc::F_SETFL as u64));
        assert!(!native(libc::SYS_fcntl, &[5, libc::F_DUPFD as u64]));
        assert!(reserved(libc::SYS_ioctl, libc::FIONREAD));
        assert!(reserved(libc::SYS_ioctl, libc::TIOCOUTQ));
        assert!(!reserved(libc::SYS_ioctl, libc::FIONBIO));
        for call in [libc::SYS_close, libc::SYS_ppoll, libc::SYS_epoll_ctl] {
            assert!(!native(call, &[900, 900, 900]));
        }
    }

    #[test]
    fn sockets_and_options_of_sctp_notify() {
        let socket = |kind, protocol| native(libc::SYS_socket, &[AF_INET, kind, protocol]);
        assert!(socket(1, 132) && socket(5, 132) && socket(5, 0));
        assert!(socket(5 | libc::SOCK_CLOEXEC as u64, 0));
        assert!(!socket(1, 0) && !socket(2, 0) && !socket(1, 6));
        for call in [libc::SYS_getsockopt, libc::SYS_setsockopt] {
            assert!(native(call, &[5, 132]) && native(call, &[900, 1]));
            assert!(!native(call, &[5, 1]));
        }
    }

    #[test]
    fn calls_of_other_architectures_pass() {
        assert!(!notifies(0x4000_0003, libc::SYS_read, &[900]));
        assert!(!native(libc::SYS_read | 0x4000_0000, &[900]));
    }
}
