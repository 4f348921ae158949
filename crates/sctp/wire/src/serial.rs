//! Serial numbers that wrap: RFC 1982 arithmetic as in RFC 9260, section 1.6.
//!
//! The types have no total order and no `+` or `-` by design: a comparison names its direction, and an
//! addition wraps.

use core::fmt;

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name($raw);

        impl $name {
            /// Half the number space: at this distance neither of two numbers is later.
            const HALF: $raw = 1 << (<$raw>::BITS - 1);

            /// Creates the serial number with this value.
            #[inline]
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// Value on the wire.
            #[inline]
            pub const fn value(self) -> $raw {
                self.0
            }

            /// Next number; 0 follows the largest.
            #[inline]
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// Previous number; the largest precedes 0.
            #[inline]
            #[must_use]
            pub const fn previous(self) -> Self {
                self.minus(1)
            }

            /// Number `n` positions later.
            #[inline]
            #[must_use]
            pub const fn plus(self, n: $raw) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// Number `n` positions earlier.
            #[inline]
            #[must_use]
            pub const fn minus(self, n: $raw) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// Distance from `earlier` to this number. If this number is before it, the result is more than
            /// half of the number space.
            #[inline]
            pub const fn since(self, earlier: Self) -> $raw {
                self.0.wrapping_sub(earlier.0)
            }

            /// Returns whether this number is later than `other`. False at half the number space.
            #[inline]
            pub const fn is_after(self, other: Self) -> bool {
                let distance = self.since(other);
                distance != 0 && distance < Self::HALF
            }

            /// Returns whether this number is earlier than `other`. False at half the number space.
            #[inline]
            pub const fn is_before(self, other: Self) -> bool {
                other.is_after(self)
            }

            /// Returns whether this number is `other` or later. False at half the number space.
            #[inline]
            pub const fn is_at_or_after(self, other: Self) -> bool {
                self.since(other) < Self::HALF
            }

            /// Returns whether this number is `other` or earlier. False at half the number space.
            #[inline]
            pub const fn is_at_or_before(self, other: Self) -> bool {
                other.is_at_or_after(self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

serial! {
    /// Transmission sequence number: numbers each DATA chunk of one direction (RFC 9260, 1.3).
    Tsn, u32
}
serial! {
    /// Stream sequence number: numbers the ordered messages of one stream (RFC 9260, 1.3).
    Ssn, u16
}
serial! {
    /// Message identifier of an I-DATA chunk (RFC 8260, 2.1).
    Mid, u32
}
serial! {
    /// Fragment sequence number within the message of an I-DATA chunk (RFC 8260, 2.1).
    Fsn, u32
}
serial! {
    /// Serial number of an ASCONF chunk and of the ASCONF-ACK that answers it; the first is the
    /// sender's initial TSN (RFC 5061, 5.1).
    AsconfSerial, u32
}
serial! {
    /// Sequence number of a re-configuration request and of the response to it; the first is
    /// the requester's initial TSN (RFC 6525, 5.1.1).
    ReconfigSerial, u32
}

#[cfg(test)]
mod tests {
    use super::{Ssn, Tsn};

    #[test]
    fn numbers_wrap() {
        assert_eq!(Tsn::new(u32::MAX).next(), Tsn::new(0));
        assert_eq!(Tsn::new(0).previous(), Tsn::new(u32::MAX));
        assert_eq!(Tsn::new(0xffff_fff0).plus(0x20), Tsn::new(0x10));
        assert_eq!(Tsn::new(0x10).minus(0x20), Tsn::new(0xffff_fff0));
        assert_eq!(Tsn::new(0x10).since(Tsn::new(0xffff_fff0)), 0x20);
        assert_eq!(Ssn::new(u16::MAX).next(), Ssn::new(0));
    }

    #[test]
    fn after_the_wrap_is_later() {
        let (last, first) = (Tsn::new(u32::MAX), Tsn::new(0));
        assert!(first.is_after(last) && last.is_before(first));
        assert!(!last.is_after(first) && !first.is_before(last));
        assert!(first.is_at_or_after(last) && last.is_at_or_before(first));
    }

    #[test]
    fn equal_is_neither_before_nor_after() {
        let tsn = Tsn::new(7);
        assert!(!tsn.is_after(tsn) && !tsn.is_before(tsn));
        assert!(tsn.is_at_or_after(tsn) && tsn.is_at_or_before(tsn));
    }

    /// RFC 1982, 3.2 leaves the comparison at half the number space undefined.
    #[test]
    fn numbers_half_the_space_apart_are_unordered() {
        for (a, b) in [(0, 0x8000), (0x8000, 0), (5, 0x8005), (0xffff, 0x7fff)] {
            let (a, b) = (Ssn::new(a), Ssn::new(b));
            assert!(!a.is_after(b) && !a.is_before(b));
            assert!(!a.is_at_or_after(b) && !a.is_at_or_before(b));
        }
        assert!(Ssn::new(0x7fff).is_after(Ssn::new(0)));
        assert!(Ssn::new(0x8001).is_before(Ssn::new(0)));
    }
}
