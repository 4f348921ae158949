//! Device between smoltcp and the simulated network, which exchanges whole IP packets.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Maximum number of queued outgoing packets; the interface is polled again after they were sent.
const OUTGOING: usize = 64;

/// Incoming and outgoing packets of the stack.
#[derive(Debug)]
pub(super) struct Packets {
    pub(super) incoming: VecDeque<Vec<u8>>,
    pub(super) outgoing: Vec<Vec<u8>>,
    mtu: usize,
}

impl Packets {
    pub(super) fn new(mtu: usize) -> Self {
        Self {
            incoming: VecDeque::new(),
            outgoing: Vec::new(),
            mtu,
        }
    }
}

pub(super) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(super) struct Room<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Packets {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Room<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Received(packet), Room(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (self.outgoing.len() < OUTGOING).then_some(Room(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}
