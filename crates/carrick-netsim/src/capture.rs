//! Captures at interfaces of a running network.
//!
//! Outgoing packets are seen as their transmission begins, so what a queue drops is not seen;
//! incoming ones as they arrive, before anyone asks whom they are for.

use std::io::{self, BufWriter, Write};

use crate::ids::InterfaceId;
use crate::packet::Packet;
use crate::pcapng::{PacketDirection, Writer};
use crate::time::Time;

pub(crate) type Sink = BufWriter<Box<dyn Write>>;

/// One file and what went wrong with it.
struct Capture {
    writer: Writer<Sink>,
    error: Option<io::Error>,
}

/// All captures of a network.
#[derive(Default)]
pub(crate) struct Captures {
    captures: Vec<Capture>,
    /// By interface: the captures that want its packets, and its number there.
    taps: Vec<Vec<(usize, u32)>>,
}

impl Captures {
    pub(crate) fn add(
        &mut self,
        interfaces: &[(InterfaceId, &str)],
        sink: Box<dyn Write>,
    ) -> io::Result<()> {
        let names: Vec<&str> = interfaces.iter().map(|(_, name)| *name).collect();
        let writer = Writer::new(BufWriter::new(sink), &names)?;
        let capture = self.captures.len();
        self.captures.push(Capture {
            writer,
            error: None,
        });
        for ((interface, _), number) in interfaces.iter().zip(0..) {
            if self.taps.len() <= interface.index() {
                self.taps.resize(interface.index() + 1, Vec::new());
            }
            self.taps[interface.index()].push((capture, number));
        }
        Ok(())
    }

    pub(crate) fn record(
        &mut self,
        time: Time,
        interface: InterfaceId,
        direction: PacketDirection,
        packet: &Packet,
    ) {
        let Some(taps) = self.taps.get(interface.index()) else {
            return;
        };
        for (capture, number) in taps {
            let Capture { writer, error } = &mut self.captures[*capture];
            if error.is_none() {
                *error = writer.write_packet(*number, time, direction, packet).err();
            }
        }
    }

    /// Ends all captures; the first error of any of them.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.taps.clear();
        let mut result = Ok(());
        for mut capture in self.captures.drain(..) {
            let outcome = match capture.error {
                Some(error) => Err(error),
                None => capture.writer.flush(),
            };
            result = result.and(outcome);
        }
        result
    }
}
