//! Captures at interfaces of a running network.
//!
//! An outgoing packet is recorded when its transmission begins, so packets that a queue drops are
//! not recorded. An incoming packet is recorded when it arrives, before the destination address is
//! examined.

use std::io::{self, BufWriter, Write};

use crate::ids::InterfaceId;
use crate::packet::Packet;
use crate::pcapng::{PacketDirection, PcapngWriter};
use crate::time::Time;

pub(crate) type CaptureFile = BufWriter<Box<dyn Write>>;

/// One capture file and its first write error.
struct Capture {
    writer: PcapngWriter<CaptureFile>,
    error: Option<io::Error>,
}

/// All captures of a network.
#[derive(Default)]
pub(crate) struct Captures {
    captures: Vec<Capture>,
    /// For each interface, the captures that record it and its interface number in each of them.
    taps: Vec<Vec<(usize, u32)>>,
}

impl Captures {
    pub(crate) fn add(
        &mut self,
        interfaces: &[(InterfaceId, &str)],
        sink: Box<dyn Write>,
    ) -> io::Result<()> {
        let names: Vec<&str> = interfaces.iter().map(|(_, name)| *name).collect();
        let writer = PcapngWriter::new(BufWriter::new(sink), &names)?;
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

    /// Ends all captures. Returns the first error of any capture.
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
