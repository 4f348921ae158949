//! Flags of a message as a table: which bit stands for which field.

/// How a flag of `T` is found.
pub(super) type Field<T> = fn(&mut T) -> &mut bool;

/// The flags that these bits say.
pub(super) fn read<T: Default>(table: &[(u8, Field<T>)], bits: u8) -> T {
    let mut flags = T::default();
    for (mask, field) in table {
        *field(&mut flags) = bits & mask != 0;
    }
    flags
}

/// The bits that say these flags.
pub(super) fn write<T>(table: &[(u8, Field<T>)], mut flags: T) -> u8 {
    let set = table.iter().filter(|(_, field)| *field(&mut flags));
    set.fold(0, |bits, (mask, _)| bits | mask)
}

#[cfg(test)]
mod tests {
    use super::super::{AgentFlags, RequestFlags};

    #[test]
    fn each_bit_is_one_flag_and_comes_back() {
        for bit in 0..8 {
            let bits = 1 << bit;
            // The bit r means nothing in both messages, and U is not known to agents.
            let known = RequestFlags::from_bits(bits).bits();
            assert_eq!(known, if bits == 0x04 { 0 } else { bits });
            let known = AgentFlags::from_bits(bits).bits();
            assert_eq!(known, if bits == 0x02 { 0 } else { bits });
        }
    }
}
