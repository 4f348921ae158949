//! Values that parts of the state pass to those behind them while it is written or read.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// Parts of an imported state that are code, which the export refers to but does not contain.
#[doc(hidden)]
pub trait ImportParts {
    /// Sets the values by which the parts of the state find them.
    fn share(&self, values: &mut SharedValues);
}

/// At most one value of each type. The types are those of the parts that set and get them: this module is below all parts
/// and knows none.
#[doc(hidden)]
#[derive(Default)]
pub struct SharedValues(Vec<Box<dyn Any>>);

impl SharedValues {
    /// Returns the value of this type.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|value| value.downcast_ref())
    }

    /// Removes the value of this type. Returns it, or the default if there is none.
    pub(crate) fn take<T: Any + Default>(&mut self) -> T {
        let place = self.0.iter().position(|value| value.is::<T>());
        let taken = place.and_then(|place| self.0.swap_remove(place).downcast().ok());
        taken.map(|value| *value).unwrap_or_default()
    }

    /// Sets the value of its type.
    pub(crate) fn set<T: Any>(&mut self, value: T) {
        self.0.retain(|other| !other.is::<T>());
        self.0.push(Box::new(value));
    }
}

/// Shows the number of values alone: they may be secrets.
impl core::fmt::Debug for SharedValues {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SharedValues({})", self.0.len())
    }
}
