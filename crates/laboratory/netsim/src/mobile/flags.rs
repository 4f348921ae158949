//! Flags of a message as a table of bits and fields.

/// Accessor of a flag of `T`.
pub(super) type Field<T> = fn(&mut T) -> &mut bool;

/// Converts bits to flags.
pub(super) fn read<T: Default>(table: &[(u8, Field<T>)], bits: u8) -> T {
    let mut flags = T::default();
    for (mask, field) in table {
        *field(&mut flags) = bits & mask != 0;
    }
    flags
}

/// Converts flags to bits.
pub(super) fn write<T>(table: &[(u8, Field<T>)], mut flags: T) -> u8 {
    let set = table.iter().filter(|(_, field)| *field(&mut flags));
    set.fold(0, |bits, (mask, _)| bits | mask)
}

#[cfg(test)]
mod tests {
    use super::super::{AgentFlags, RequestFlags};

    #[test]
    fn every_flag_has_its_own_bit() {
        for bit in 0..8 {
            let bits = 1 << bit;
            // The bit r is ignored in both messages, and agents do not support U.
            let known = RequestFlags::from_bits(bits).bits();
            assert_eq!(known, if bits == 0x04 { 0 } else { bits });
            let known = AgentFlags::from_bits(bits).bits();
            assert_eq!(known, if bits == 0x02 { 0 } else { bits });
        }
    }
}
