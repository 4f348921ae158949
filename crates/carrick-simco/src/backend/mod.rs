//! What a middlebox changes: a packet filter or a translator behind one trait.
//!
//! A policy rule becomes [`Element`]s. Rules may overlap or be the same, so that several rules can
//! share an element: the middlebox counts them, and a backend sees each element once.

mod element;
mod leftovers;
mod lives;
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

/// Why a backend didn't do it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackendError {
    /// No more elements, or no more memory.
    #[error("the packet filter is full")]
    Full,
    /// No more ports to reserve.
    #[error("no port is left")]
    NoPorts,
    /// The backend has no address of this IP version.
    #[error("no address of this IP version")]
    NoAddresses,
    /// The element is there, or isn't there, against what the middlebox knows.
    #[error("the packet filter is not as the middlebox left it")]
    OutOfStep,
    /// What the backend made is not there any more, or not whole: it may let everything pass.
    #[error(
        "the middlebox's table is gone from the packet filter, or was changed: somebody flushed the rule set; start the middlebox again"
    )]
    Gone,
    /// What the system says.
    #[error("{0}")]
    System(String),
}

impl BackendError {
    /// What the agent is told.
    pub fn reply(&self) -> NegativeReply {
        match self {
            Self::Full => NegativeReply::NoResources,
            Self::NoPorts => NegativeReply::LackOfPorts,
            Self::NoAddresses => NegativeReply::LackOfAddresses,
            Self::OutOfStep | Self::Gone | Self::System(_) => NegativeReply::ConfigurationFailed,
        }
    }
}

/// Addresses that are reserved on a translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// A2.
    pub outside: AddressTuple,
    /// A1, on a twice-NAT only.
    pub inside: Option<AddressTuple>,
}

/// What an element has met: what it let pass, or, with [`Element::Block`], what was dropped by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Octets, headers of IP included.
    pub octets: u64,
}

/// What reads counters of rules, in their order. It asks the system, which may take long where there
/// are many, and may run on any thread: it holds up no changes.
pub type Meter = Box<dyn FnOnce() -> Result<Vec<Traffic>, BackendError> + Send>;

/// A packet filter or translator.
///
/// Each call is atomic: on an error nothing has changed. Lifetimes are a fail-safe, a little longer
/// than those of the rules: the middlebox removes elements itself.
pub trait Backend {
    /// Adds elements, none of which is there. They may end by themselves after `lifetime`.
    ///
    /// Elements that block ([`Element::Block`]) have places of their own: those that let pass never
    /// take them, so that whoever must block can, however much others have opened.
    ///
    /// # Errors
    /// When not all of them could be added; none was.
    fn add(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError>;

    /// Elements that are there shall end by themselves when `lifetime` has passed, be that later or
    /// sooner than before.
    ///
    /// # Errors
    /// When that could not be changed.
    fn extend(
        &mut self,
        now: Time,
        elements: &[Element],
        lifetime: Lifetime,
    ) -> Result<(), BackendError>;

    /// Removes elements that are there.
    ///
    /// # Errors
    /// When not all of them could be removed.
    fn remove(&mut self, now: Time, elements: &[Element]) -> Result<(), BackendError>;

    /// At the start, before anything else: these elements shall be there, none shorter than its
    /// lifetime, and nothing else that this backend ever made. The default adds them to an empty one.
    ///
    /// # Errors
    /// When that could not be brought about.
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

    /// Whether what the backend made is still there: others may change the packet filter too. The
    /// default's is.
    ///
    /// # Errors
    /// [`BackendError::Gone`] if it isn't; others if that can't be found out.
    fn check(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// What reads what the elements of each of these rules have let pass or blocked since they were added. An
    /// element that rules share counts for each of them; what is gone when it reads counts nothing.
    /// The default doesn't count: `None`.
    fn meter(&mut self, rules: &[Vec<Element>]) -> Option<Meter> {
        let _ = rules;
        None
    }

    /// The same of one rule, at once; `None` where nothing counts.
    ///
    /// # Errors
    /// When the packet filter can't be asked.
    fn traffic(&mut self, elements: &[Element]) -> Result<Option<Traffic>, BackendError> {
        let Some(meter) = self.meter(&[elements.to_vec()]) else {
            return Ok(None);
        };
        Ok(Some(meter()?.into_iter().next().unwrap_or_default()))
    }

    /// Whether addresses are translated, so that rules need reservations.
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

    /// Takes up a reservation of an earlier life.
    ///
    /// # Errors
    /// When its addresses are not this backend's any more, or not free. The default has none.
    fn readopt(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        let _ = reservation;
        Err(BackendError::NoAddresses)
    }

    /// Gives a reservation back.
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

    fn readopt(&mut self, reservation: &Reservation) -> Result<(), BackendError> {
        (**self).readopt(reservation)
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
