//! Two endpoints in memory, with nothing between them.

use bytes::Bytes;
use carrick_proto::{AssociationConfig, AssociationId, Endpoint, EndpointConfig, Route, Time};

/// Two endpoints whose packets arrive at once.
pub(crate) struct Memory {
    /// The virtual time.
    pub(crate) now: Time,
    /// The initiating and the accepting end.
    pub(crate) ends: [Endpoint; 2],
    buffer: Vec<u8>,
}

impl Memory {
    /// Endpoints on ports 5000 and 5001.
    pub(crate) fn new(config: &AssociationConfig) -> Self {
        let end = |i: u8| {
            let address = [10, 0, 0, i + 1].into();
            let mut endpoint = EndpointConfig::new(5000 + u16::from(i), vec![address], [i; 32]);
            endpoint.association = config.clone();
            Endpoint::new(endpoint).expect("the defaults are valid")
        };
        Self {
            now: Time::from_millis(1),
            ends: [end(0), end(1)],
            buffer: Vec::new(),
        }
    }

    /// Carries packets in both directions until neither end has more to send.
    pub(crate) fn exchange(&mut self) {
        loop {
            let mut any = false;
            for from in 0..2 {
                while self.step(from) {
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Carries one transmit of an end to the other.
    fn step(&mut self, from: usize) -> bool {
        self.buffer.clear();
        let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut self.buffer) else {
            return false;
        };
        let route = Route {
            local: Some(transmit.route.remote),
            remote: transmit.route.local.expect("bound"),
            ..transmit.route
        };
        // What a driver's receive call does: one copy into a buffer that the messages then share.
        let datagrams = Bytes::copy_from_slice(&self.buffer);
        let size = transmit.segment_size.unwrap_or(transmit.len);
        let datagrams = (0..datagrams.len())
            .step_by(size)
            .map(|at| datagrams.slice(at..(at + size).min(datagrams.len())));
        self.ends[1 - from].handle_datagrams(self.now, &route, datagrams);
        true
    }

    /// Sets an association up.
    pub(crate) fn connect(
        &mut self,
        config: &std::sync::Arc<AssociationConfig>,
    ) -> (AssociationId, AssociationId) {
        let peer = [10, 0, 0, 2].into();
        let id = self.ends[0]
            .connect(self.now, &[peer], 5001, None, config.clone())
            .expect("a free peer");
        self.exchange();
        let mut accepted = None;
        while let Some((id, _)) = self.ends[1].poll_event() {
            accepted = Some(id);
        }
        while self.ends[0].poll_event().is_some() {}
        (id, accepted.expect("established"))
    }
}
