//! Handover of an endpoint: it is exported, dropped and continued by an import.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_proto::{Endpoint, EndpointConfig, ImportConfig, ImportError, SourceSelection, Time};

/// Parts of an endpoint's configuration that no export contains.
#[derive(Debug)]
pub struct Parts {
    selection: Shared,
    /// Bytes that the next handovers may take: large endpoints are handed over less often.
    credit: Cell<i64>,
}

/// Bytes that handovers may take for each moment of one.
const CREDIT: i64 = 4096;

/// Source address selection that several endpoints share.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Box<dyn SourceSelection>>>);

impl SourceSelection for Shared {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        let shared = self.0.lock().expect("no panic");
        shared.select(local, remote)
    }

    fn refresh(&self) {
        self.0.lock().expect("no panic").refresh();
    }

    fn route_mtu(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<usize> {
        self.0.lock().expect("no panic").route_mtu(local, remote)
    }
}

/// A clock that is ahead by this much continues the endpoint.
const AHEAD: Duration = Duration::from_secs(1_000_000);

impl Parts {
    /// Returns the parts of this configuration.
    pub fn of(config: &mut EndpointConfig) -> Self {
        let selection = std::mem::replace(
            &mut config.source_selection,
            Box::new(carrick_proto::MatchingAddress),
        );
        let selection = Shared(Arc::new(Mutex::new(selection)));
        config.source_selection = Box::new(selection.clone());
        Self {
            selection,
            credit: Cell::new(0),
        }
    }

    fn import_config(&self) -> ImportConfig {
        ImportConfig {
            source_selection: Box::new(self.selection.clone()),
            ..ImportConfig::default()
        }
    }

    /// Hands the endpoint over to another clock, and back. Endpoints with parts of a test that can't be exported
    /// stay.
    pub fn hand_over(&self, now: Time, endpoint: &mut Endpoint) {
        self.credit.set(self.credit.get() + CREDIT);
        // An observer is not exported.
        if self.credit.get() < 0 || endpoint.observer().is_some() {
            return;
        }
        let Ok(export) = endpoint.export(now) else {
            return;
        };
        self.credit
            .set(self.credit.get() - export.as_bytes().len() as i64);
        // Tests of unlimited timeouts come close to the end of time.
        let is_early = now.as_nanos() < u64::MAX / 2;
        let ahead = if is_early { now + AHEAD } else { now };
        let imported = Endpoint::import(self.import_config(), ahead, export.as_bytes());
        if matches!(
            imported,
            Err(ImportError::MissingProtection(_) | ImportError::UnknownAlgorithm(_))
        ) {
            return;
        }
        let imported = imported.expect("the export is valid");
        let back = imported.export(ahead).expect("it was exported before");
        let again = Endpoint::import(self.import_config(), now, back.as_bytes());
        *endpoint = again.expect("the export is valid");
        let unchanged = endpoint.export(now).expect("it was exported before");
        assert!(unchanged == export, "the state of the successor differs");
    }
}
