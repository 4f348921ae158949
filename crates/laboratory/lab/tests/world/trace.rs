//! Packets of a world: a hash of all of them, and a readable line for each.

use std::cell::Cell;
use std::rc::Rc;

use carrick_netsim::{Direction, Network, TraceEvent, TracePlace, TraceStep};

/// Hash over every step of every packet, in order.
#[derive(Clone, Default)]
pub(crate) struct TraceHash(Rc<Cell<u64>>);

impl TraceHash {
    pub(crate) fn value(&self) -> u64 {
        self.0.get()
    }

    /// Observes a network; with `print`, every step is printed.
    pub(crate) fn watch(&self, net: &mut Network, print: bool) {
        let hash = Rc::clone(&self.0);
        net.set_tracer(move |event| {
            let mut state = hash.get();
            let mut add = |value: u64| {
                state = (state ^ value)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(29);
            };
            add(event.time.as_nanos());
            add(place(event.place));
            add(match event.step {
                TraceStep::Sent => 0,
                TraceStep::Arrived => 1,
                TraceStep::Dropped(reason) => 2 + reason as u64,
            });
            for piece in event.packet.payload.chunks(8) {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                add(u64::from_le_bytes(word));
            }
            hash.set(state);
            if print {
                println!("{}", line(event));
            }
        });
    }
}

fn place(place: TracePlace) -> u64 {
    match place {
        TracePlace::Link(link, Direction::Forward) => link.index() as u64 * 2,
        TracePlace::Link(link, Direction::Backward) => link.index() as u64 * 2 + 1,
        TracePlace::Node(node) => 1 << 32 | node.index() as u64,
    }
}

fn line(event: &TraceEvent<'_>) -> String {
    let packet = event.packet;
    let at = match event.place {
        TracePlace::Link(link, Direction::Forward) => format!("link {} >", link.index()),
        TracePlace::Link(link, Direction::Backward) => format!("link {} <", link.index()),
        TracePlace::Node(node) => format!("node {}", node.index()),
    };
    let step = match event.step {
        TraceStep::Sent => "sent".into(),
        TraceStep::Arrived => "arrived".into(),
        TraceStep::Dropped(reason) => format!("LOST ({reason:?})"),
    };
    format!(
        "{:>14.6} {at:<9} {step:<12} {} -> {} {}",
        event.time.as_secs_f64(),
        packet.source,
        packet.destination,
        chunks(&packet.payload)
    )
}

/// Formats the chunks of an SCTP packet, as far as they can be parsed.
fn chunks(payload: &[u8]) -> String {
    const NAMES: [&str; 15] = [
        "DATA",
        "INIT",
        "INIT-ACK",
        "SACK",
        "HB",
        "HB-ACK",
        "ABORT",
        "SHUTDOWN",
        "SHUTDOWN-ACK",
        "ERROR",
        "COOKIE-ECHO",
        "COOKIE-ACK",
        "ECNE",
        "CWR",
        "SHUTDOWN-COMPLETE",
    ];
    let mut all = String::new();
    let mut rest = payload.get(12..).unwrap_or_default();
    while let [kind, flags, high, low, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let name = match kind {
            64 => "I-DATA",
            _ => NAMES.get(usize::from(kind)).copied().unwrap_or("?"),
        };
        all += name;
        let word = |at: usize| {
            let bytes = rest.get(at..at + 4);
            bytes.map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
        };
        match kind {
            0 => all += &format!("[{} {length} {flags:04b} s{}]", word(4), word(8) >> 16),
            64 => {
                all += &format!("[{} {length} {flags:04b} s{}", word(4), word(8) >> 16);
                all += &format!(" m{} f{}]", word(12), word(16));
            }
            3 => {
                all += &format!(
                    "[{} rwnd {} gaps {} dups {}]",
                    word(4),
                    word(8),
                    word(12) >> 16,
                    word(12) & 0xffff
                );
            }
            _ => all += &format!("[{length} {flags:x}]"),
        }
        all.push(' ');
        rest = rest
            .get(length.max(4).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    all
}
