//! Interface to packet filters and translators.
//!
//! A policy rule consists of [`Element`]s. Rules may overlap, so several can share an element: the
//! middlebox counts references, and a backend sees each element once.

mod element;
mod expiry_times;
mod failed_removals;
mod memory;
mod pool;
mod ports;
mod references;

pub use element::{Element, Flow, Pattern, PatternSide, elements_of, has_ports, pattern_of};
pub(crate) use element::{network, single_flows};
pub use memory::{MemoryBackend, MemoryLimits};
pub use pool::PortPool;
pub(crate) use references::References;

use crate::Time;
use crate::message::{AddressTuple, Lifetime, NegativeReply, PrrParameters};

/// Error of a backend.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackendError {
    /// No room for more elements, or no memory.
    #[error("the packet filter is full")]
    Full,
    /// No free ports.
    #[error("no free outside port")]
    NoPorts,
    /// The backend has no address of this IP version.
    #[error("no outside address of this IP version")]
    NoAddresses,
    /// An element exists, or is missing, contrary to the state of the middlebox.
    #[error("the packet filter does not match the state of the middlebox")]
    OutOfStep,
    /// The table was removed or changed; packets may pass unfiltered.
    #[error(
        "the table of the middlebox was removed or changed by another program (e.g. nft flush ruleset); restart the middlebox"
    )]
    NotEnforced,
    /// Error of the system.
    #[error("{0}")]
    System(String),
}

impl BackendError {
    /// Returns the reply to the agent.
    pub fn reply(&self) -> NegativeReply {
        match self {
            Self::Full => NegativeReply::NoResources,
            Self::NoPorts => NegativeReply::LackOfPorts,
            Self::NoAddresses => NegativeReply::LackOfAddresses,
            Self::OutOfStep | Self::NotEnforced | Self::System(_) => {
                NegativeReply::ConfigurationFailed
            }
        }
    }
}

/// Addresses reserved on a translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// A2: reserved address and ports outside.
    pub outside: AddressTuple,
    /// A1: reserved address and ports inside, on a twice-NAT only.
    pub inside: Option<AddressTuple>,
}

/// Traffic that an element passed or, for [`Element::Block`], dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Octets including IP headers.
    pub octets: u64,
}

/// Function that reads the counters of rules, in their order. It may block while it queries the
/// system, may run on any thread, and does not delay changes.
pub type Meter = Box<dyn FnOnce() -> Result<Vec<Traffic>, BackendError> + Send>;

/// Packet filter or translator.
///
/// Each call is atomic: on an error nothing has changed. Lifetimes are a fail-safe slightly longer
/// than those of the rules; the middlebox removes elements itself.
pub trait Backend {
    /// Adds elements, none of which exists. They may be removed automatically after `lifetime`.
    ///
    /// Elements that block ([`Element::Block`]) have room of their own, so that open pinholes never
    /// prevent a prohibit.
    ///
    /// # Errors
    /// When not all of them could be added; none was.
    fn add(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError>;

    /// Sets the timeout of existing elements to `lifetime` from now, later or earlier than before.
    ///
    /// # Errors
    /// When it could not be changed.
    fn extend(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError>;

    /// Removes existing elements.
    ///
    /// # Errors
    /// When not all of them could be removed.
    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError>;

    /// Makes the backend contain exactly these elements with at least these lifetimes. Called first,
    /// at the start. The default adds them to an empty backend.
    ///
    /// # Errors
    /// When the backend could not be changed.
    fn reconcile(
        &mut self,
        now: Time,
        elements: &[(Element, Lifetime)],
    ) -> Result<(), BackendError> {
        for (element, lifetime) in elements {
            self.add(now, &[*element], *lifetime)?;
        }
        Ok(())
    }

    /// Checks that the backend's configuration is intact, since other programs may change it. The
    /// default does nothing.
    ///
    /// # Errors
    /// [`BackendError::NotEnforced`] if it is not; others if that can't be determined.
    fn check(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns the function that reads the traffic of each of these rules since their elements were
    /// added. A shared element counts for each of its rules, a removed one counts nothing. The default
    /// returns `None`: no counters.
    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        let _ = rules;
        None
    }

    /// Reads the traffic of one rule; `None` without counters.
    ///
    /// # Errors
    /// When the packet filter can't be queried.
    fn traffic(&mut self, elements: &[Element]) -> Result<Option<Traffic>, BackendError> {
        let Some(meter) = self.meter(&[elements.to_vec()]) else {
            return Ok(None);
        };
        Ok(Some(meter()?.into_iter().next().unwrap_or_default()))
    }

    /// Returns whether addresses are translated, so that rules need reservations.
    fn translates(&self) -> bool {
        false
    }

    /// Reserves addresses and ports.
    ///
    /// # Errors
    /// When there are none. The default has none.
    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        let _ = wanted;
        Err(BackendError::NoAddresses)
    }

    /// Takes a reservation of an earlier run.
    ///
    /// # Errors
    /// When its addresses do not belong to this backend or are not free. The default has none.
    fn restore_reservation(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let _ = reservation;
        Err(BackendError::NoAddresses)
    }

    /// Releases a reservation.
    fn release(&mut self, reservation: &Reservation) {
        let _ = reservation;
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn add(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        (**self).add(now, elements, lifetime)
    }

    fn extend(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError> {
        (**self).extend(now, elements, lifetime)
    }

    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError> {
        (**self).remove(now, elements)
    }

    fn reconcile(
        &mut self,
        now: Time,
        elements: &[(Element, Lifetime)],
    ) -> Result<(), BackendError> {
        (**self).reconcile(now, elements)
    }

    fn check(&mut self) -> Result<(), BackendError> {
        (**self).check()
    }

    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        (**self).meter(rules)
    }

    fn restore_reservation(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        (**self).restore_reservation(reservation)
    }

    fn translates(&self) -> bool {
        (**self).translates()
    }

    fn reserve(&mut self, wanted: &PrrParameters) -> Result<Reservation, BackendError> {
        (**self).reserve(wanted)
    }

    fn release(&mut self, reservation: &Reservation) {
        (**self).release(reservation);
    }
}
