//! Numbers that look random and are the same on every machine: what tests with fixed seeds draw from.

/// The next number of xorshift64*. `state`: the seed, not 0, and afterwards where the sequence stands.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
