//! The equations of the paper, by their numbers.

/// IPv4 header.
pub(super) const IP_HEADER: usize = 20;
/// SCTP common header.
pub(super) const SCTP_HEADER: usize = 12;
/// Header of a DATA chunk.
pub(super) const CHUNK_HEADER: usize = 16;
/// The MTU of all links.
pub(super) const MTU: usize = 1500;

/// A message with its padding and the header of its chunk.
fn chunk(message: usize) -> usize {
    message.next_multiple_of(4) + CHUNK_HEADER
}

/// Equation (3): messages in a packet.
pub(super) fn chunks_per_packet(message: usize) -> usize {
    (MTU - IP_HEADER - SCTP_HEADER) / chunk(message)
}

/// Equation (2) with the chunks' headers and padding: the size of a packet on the wire.
pub(super) fn packet(message: usize) -> usize {
    IP_HEADER + SCTP_HEADER + chunks_per_packet(message) * chunk(message)
}

/// Equation (2) without: what such a packet counts where the headers don't.
fn counted_without(message: usize) -> usize {
    IP_HEADER + SCTP_HEADER + chunks_per_packet(message) * message
}

/// Equation (1) in (4) to (7): packets that a window lets out.
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

/// Equation (9), FreeBSD 7.0: messages that are taken while nobody reads. The text has 3200 as the
/// limit, which "max" as printed would not make it.
pub(super) fn freebsd(arwnd: usize, message: usize) -> usize {
    arwnd.div_ceil(256 + message).min(3200)
}

/// Equation (10), Linux 2.6.25: for messages below 176 bytes; larger ones are taken until the
/// window, which shrinks by their payload only, is used up.
pub(super) fn linux(arwnd: usize, message: usize) -> usize {
    if message < 176 {
        (2 * arwnd).div_ceil(176 + message)
    } else {
        arwnd.div_ceil(message)
    }
}

/// Equation (11), Solaris: until the next message does not fit.
pub(super) fn solaris(arwnd: usize, message: usize) -> usize {
    arwnd / message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_papers_figure_1() {
        // 33 chunks of 28 bytes: 924 bytes of user data in 1452 + 32 bytes.
        assert_eq!(chunks_per_packet(28), 33);
        assert_eq!(packet(28), 1484);
        assert_eq!(packet(1452), 1500);
    }

    #[test]
    fn a_window_lets_out_more_where_headers_do_not_count() {
        let load = |size, counted| network_bytes(20_000, size, counted);
        assert!(load(10, false) > 2 * load(10, true));
        assert!(load(1452, false) - load(1452, true) <= packet(1452));
        let goodput = application_bytes(20_000, 10, true);
        assert!(goodput < load(10, true) * 10 / 28);
    }

    #[test]
    fn kernels_take_what_their_equations_say() {
        assert_eq!(freebsd(65_535, 0), 256);
        assert_eq!(freebsd(10_000_000, 100), 3200);
        assert_eq!(linux(65_535, 100), 475);
        assert_eq!(solaris(65_535, 100), 655);
    }
}
