//! Serial number arithmetic against the definition of RFC 1982, section 3.

use carrick_wire::{Ssn, Tsn};
use proptest::prelude::*;

/// Definition of "less than" in plain integers: `half` is half the number space.
fn less(a: u64, b: u64, half: u64) -> bool {
    (a < b && b - a < half) || (a > b && a - b > half)
}

/// Numbers near each other, near half the number space apart, and arbitrary ones.
fn pair() -> impl Strategy<Value = (u32, u32)> {
    let near = (any::<u32>(), 0..3_u32).prop_map(|(a, d)| (a, a.wrapping_add(d)));
    let far = (any::<u32>(), 0..3_u32).prop_map(|(a, d)| (a, a.wrapping_add((1 << 31) - 1 + d)));
    prop_oneof![any::<(u32, u32)>(), near, far]
}

proptest! {
    #![proptest_config(crate::config(5000))]

    #[test]
    fn tsns_compare_as_defined((a, b) in pair()) {
        let before = less(a.into(), b.into(), 1 << 31);
        let after = less(b.into(), a.into(), 1 << 31);
        let (a, b) = (Tsn::new(a), Tsn::new(b));
        prop_assert_eq!(a.is_before(b), before);
        prop_assert_eq!(a.is_after(b), after);
        prop_assert_eq!(a.is_at_or_before(b), before || a == b);
        prop_assert_eq!(a.is_at_or_after(b), after || a == b);
    }

    #[test]
    fn ssns_compare_as_defined(a: u16, b: u16) {
        let before = less(a.into(), b.into(), 1 << 15);
        let after = less(b.into(), a.into(), 1 << 15);
        let (a, b) = (Ssn::new(a), Ssn::new(b));
        prop_assert_eq!(a.is_before(b), before);
        prop_assert_eq!(a.is_after(b), after);
    }

    #[test]
    fn one_of_two_is_earlier_unless_half_way_round((a, b) in pair()) {
        let (a, b) = (Tsn::new(a), Tsn::new(b));
        prop_assert!(!(a.is_after(b) && b.is_after(a)));
        let half_way = a.since(b) == 1 << 31;
        let relations = [a.is_before(b), a == b, a.is_after(b)];
        let holding = relations.into_iter().filter(|holds| *holds).count();
        prop_assert_eq!(holding, usize::from(!half_way));
    }

    #[test]
    fn steps_are_undone(raw: u32, n: u32) {
        let tsn = Tsn::new(raw);
        prop_assert_eq!(tsn.plus(n).minus(n), tsn);
        prop_assert_eq!(tsn.plus(n).since(tsn), n);
        prop_assert_eq!(tsn.next().previous(), tsn);
        prop_assert_eq!(tsn.next(), tsn.plus(1));
        prop_assert_eq!(tsn.value(), raw);
    }

    #[test]
    fn order_survives_a_shift((a, b) in pair(), n: u32) {
        let (a, b) = (Tsn::new(a), Tsn::new(b));
        prop_assert_eq!(a.is_after(b), a.plus(n).is_after(b.plus(n)));
    }
}
