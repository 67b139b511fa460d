//! Numbers that look random and are the same on every machine: what tests with fixed seeds draw from.

/// Where the sequence of a seed begins.
pub fn state(seed: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The seed and the count that `variable` asks a test for, as `SEED:COUNT`; `every_day` if it is not set.
pub fn seed_and_count(variable: &str, every_day: (u64, u64)) -> (u64, u64) {
    match std::env::var(variable) {
        Ok(given) => parse(&given).unwrap_or_else(|| panic!("{variable} is {given:?}, not SEED:COUNT")),
        Err(_) => every_day,
    }
}

fn parse(given: &str) -> Option<(u64, u64)> {
    let (seed, count) = given.split_once(':')?;
    Some((seed.parse().ok()?, count.parse().ok()?))
}

/// The next number of xorshift64*. `state`: not 0; afterwards where the sequence stands.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_count_are_numbers_with_a_colon_between() {
        assert_eq!(parse("7:100"), Some((7, 100)));
        for wrong in ["", "7", "7:", ":100", "7:100:1", "-7:100", "a:b"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_seed_begins_at_zero() {
        assert!([0, 1, u64::MAX].iter().all(|seed| state(*seed) != 0));
    }
}
