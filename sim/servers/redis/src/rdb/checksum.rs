//! CRC-64 in the variant of Redis (Jones' polynomial, reflected, no inversion).

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// The checksum of `bytes`.
pub(in super::super) fn crc64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |checksum, byte| TABLE[usize::from(checksum as u8 ^ byte)] ^ (checksum >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_test_vector_of_redis() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
