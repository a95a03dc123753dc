//! LZF, in which Redis packs strings of more than 20 bytes. Reading only.

/// Unpacks to exactly `length` bytes; `None` when the data is damaged.
pub(super) fn unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // A back-reference of 3 bytes yields at most 264: what cannot be reached is not
    // allocated.
    if length > packed.len().saturating_mul(264) {
        return None;
    }
    let mut output = Vec::with_capacity(length);
    let mut rest = packed;
    while let [control, tail @ ..] = rest {
        let control = usize::from(*control);
        rest = tail;
        if control < 32 {
            let (literal, tail) = rest.split_at_checked(control + 1)?;
            output.extend_from_slice(literal);
            rest = tail;
        } else {
            let mut count = control >> 5;
            if count == 7 {
                let (more, tail) = rest.split_first()?;
                count += usize::from(*more);
                rest = tail;
            }
            let (low, tail) = rest.split_first()?;
            rest = tail;
            let distance = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            let from = output.len().checked_sub(distance)?;
            // May overlap what it writes.
            for index in from..from + count + 2 {
                output.push(output[index]);
            }
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}
