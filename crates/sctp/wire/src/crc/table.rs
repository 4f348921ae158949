//! CRC32c from tables, eight bytes per step, for targets without the standard library.

/// The polynomial 0x1EDC6F41 of RFC 9260, appendix A, with its bits reversed: the least
/// significant bit of a byte comes first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Number of bytes processed in one step.
const STEP: usize = 8;

/// `TABLES[k][b]` is the contribution of the byte `b` to the CRC if `k` bytes follow it in the step.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < STEP {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[k - 1][byte];
            tables[k][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// Computes the CRC32c of the parts in their order.
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |crc, part| update(crc, part))
}

fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for step in steps {
        let mut word = *step;
        for (byte, of_crc) in word.iter_mut().zip(crc.to_le_bytes()) {
            *byte ^= of_crc;
        }
        let lookups = TABLES.iter().rev().zip(word);
        crc = lookups.fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
    }
    for byte in rest {
        let low = (crc & 0xff) as u8 ^ byte;
        crc = (crc >> 8) ^ TABLES[0][usize::from(low)];
    }
    crc
}
