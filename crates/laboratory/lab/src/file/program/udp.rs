//! Flows over UDP, without congestion control.

use std::net::IpAddr;

use carrick_netsim::{InterfaceId, Node, Outbox, Packet, Protocol, Time};

use super::super::measure::FlowRecord;
use super::{HostProgram, Sender};
use crate::numbered::{message, number_of};

/// UDP port of the flow with index 0; the flow with index n uses this port plus n.
const PORT: u16 = 10_000;

/// Program of a host.
#[derive(Debug, Default)]
pub(in crate::file) struct UdpProgram {
    /// Flows from this host, with source and destination address.
    pub(in crate::file) senders: Vec<(IpAddr, IpAddr, Sender)>,
    /// Flows to this host: index and record.
    pub(in crate::file) receivers: Vec<(usize, FlowRecord)>,
}

impl UdpProgram {
    /// Starts all flows.
    pub(in crate::file) fn begin(&mut self) {
        for (.., sender) in &mut self.senders {
            let flow = &sender.flow;
            let start = flow.start.max(flow.setup) + flow.settle;
            sender.pace.begin(start.as_nanos() as u64);
        }
    }
}

impl HostProgram for UdpProgram {
    fn record(&self, flow: usize, end: usize) -> Option<&FlowRecord> {
        if end == 0 {
            let senders = self.senders.iter().map(|(.., own)| own);
            let mut own = senders.filter(|own| own.number == flow);
            return own.next().map(|own| &own.record);
        }
        let mut receivers = self.receivers.iter();
        receivers.find(|own| own.0 == flow).map(|own| &own.1)
    }
}

impl Node for UdpProgram {
    fn handle_packet(&mut self, now: Time, _: InterfaceId, packet: Packet, _: &mut Outbox) {
        let Protocol::Udp {
            destination_port, ..
        } = packet.protocol
        else {
            return;
        };
        let flow = usize::from(destination_port.wrapping_sub(PORT));
        let receiver = self.receivers.iter_mut().find(|(own, _)| *own == flow);
        if let (Some((_, record)), Some(number)) = (receiver, number_of(&packet.payload)) {
            record.deliveries.push((number, now.as_nanos()));
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        for (from, to, sender) in &mut self.senders {
            for _ in 0..sender.pace.take(now.as_nanos()) {
                if !sender.has_more() {
                    break;
                }
                let number = sender.record.sends.len() as u64;
                sender.record.sends.push(now.as_nanos());
                let port = PORT.wrapping_add(sender.number as u16);
                let protocol = Protocol::Udp {
                    source_port: port,
                    destination_port: port,
                };
                let packet = Packet::new(*from, *to, protocol, message(number, sender.flow.size));
                out.send(packet.with_flow(sender.number as u32 + 1));
            }
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let senders = self.senders.iter().filter(|(.., sender)| sender.has_more());
        let due = senders.filter_map(|(.., sender)| sender.pace.due()).min();
        due.map(Time::from_nanos)
    }
}
