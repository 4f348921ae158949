//! Equations of the paper, by their numbers.

/// IPv4 header.
pub(super) const IP_HEADER: usize = 20;
/// SCTP common header.
pub(super) const SCTP_HEADER: usize = 12;
/// Header of a DATA chunk.
pub(super) const CHUNK_HEADER: usize = 16;
/// MTU of all links.
pub(super) const MTU: usize = 1500;

/// Length of a message with its padding and the header of its chunk.
fn chunk(message: usize) -> usize {
    message.next_multiple_of(4) + CHUNK_HEADER
}

/// Equation (3): messages in a packet.
pub(super) fn chunks_per_packet(message: usize) -> usize {
    (MTU - IP_HEADER - SCTP_HEADER) / chunk(message)
}

/// Equation (2) with chunk headers and padding: size of a packet on the wire.
pub(super) fn packet(message: usize) -> usize {
    IP_HEADER + SCTP_HEADER + chunks_per_packet(message) * chunk(message)
}

/// Equation (2) without headers: counted size of such a packet.
fn counted_without(message: usize) -> usize {
    IP_HEADER + SCTP_HEADER + chunks_per_packet(message) * message
}

/// Equation (1) in (4) to (7): packets permitted by a window.
fn packets(cwnd: usize, message: usize, with_header: bool) -> usize {
    cwnd.div_ceil(if with_header {
        packet(message)
    } else {
        counted_without(message)
    })
}

/// Equations (4) and (6): bytes in the network.
pub(super) fn network_bytes(cwnd: usize, message: usize, with_header: bool) -> usize {
    packets(cwnd, message, with_header) * packet(message)
}

/// Equations (5) and (7): bytes for the application.
pub(super) fn application_bytes(cwnd: usize, message: usize, with_header: bool) -> usize {
    packets(cwnd, message, with_header) * chunks_per_packet(message) * message
}

/// Equation (9), FreeBSD 7.0: messages accepted without a reader. The text gives 3200 as the limit,
/// which differs from "max" as printed.
pub(super) fn freebsd(arwnd: usize, message: usize) -> usize {
    arwnd.div_ceil(256 + message).min(3200)
}

/// Equation (10), Linux 2.6.25: for messages below 176 bytes; larger ones are accepted until the
/// window, which is reduced by their payload only, is used up.
pub(super) fn linux(arwnd: usize, message: usize) -> usize {
    if message < 176 {
        (2 * arwnd).div_ceil(176 + message)
    } else {
        arwnd.div_ceil(message)
    }
}

/// Equation (11), Solaris: messages are accepted until the next one does not fit.
pub(super) fn solaris(arwnd: usize, message: usize) -> usize {
    arwnd / message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_match_the_first_figure() {
        // 33 chunks of 28 bytes: 924 bytes of user data in 1452 + 32 bytes.
        assert_eq!(chunks_per_packet(28), 33);
        assert_eq!(packet(28), 1484);
        assert_eq!(packet(1452), 1500);
    }

    #[test]
    fn a_window_permits_more_without_headers() {
        let load = |size, counted| network_bytes(20_000, size, counted);
        assert!(load(10, false) > 2 * load(10, true));
        assert!(load(1452, false) - load(1452, true) <= packet(1452));
        let goodput = application_bytes(20_000, 10, true);
        assert!(goodput < load(10, true) * 10 / 28);
    }

    #[test]
    fn kernels_follow_their_equations() {
        assert_eq!(freebsd(65_535, 0), 256);
        assert_eq!(freebsd(10_000_000, 100), 3200);
        assert_eq!(linux(65_535, 100), 475);
        assert_eq!(solaris(65_535, 100), 655);
    }
}
