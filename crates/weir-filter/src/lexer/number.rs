//! Numbers as C writes them: a word → its value, or message and hint.
//!
//! Fractions are read to the nearest double, ties to even; what is beyond the largest is infinite, as with strtod(3). The suffixes
//! `f` and `l` are read and mean nothing.

/// The value of an integer with its suffix, or message and hint.
pub(super) fn integer(word: &str) -> Result<u64, (String, &'static str)> {
    let plain = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match plain.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&plain[2..], 16),
        [b'0', _, ..] => (&plain[1..], 8),
        _ => (plain, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        let hint = if radix == 8 {
            "a leading 0 makes it octal: digits 0 to 7"
        } else {
            "numbers are 10, 0x1f, 017"
        };
        return Err((format!("`{word}` is no number"), hint));
    }
    u64::from_str_radix(digits, radix)
        .map_err(|_| (format!("`{word}` does not fit in 64 bits"), "the largest is 18446744073709551615"))
}

/// A number with a fraction or an exponent.
pub(super) fn float(word: &str) -> Result<f64, (String, &'static str)> {
    let fault = || (format!("`{word}` is no number"), "fractions are 1.5, .5, 1e-3, 0x1.8p3");
    let plain = word.strip_suffix(['f', 'F', 'l', 'L']).unwrap_or(word);
    if let [b'0', b'x' | b'X', ..] = plain.as_bytes() {
        return hexadecimal(&plain[2..]).ok_or_else(fault);
    }
    // Words such as `inf` do not come here: this one begins with a digit or a point.
    let is_number = plain.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    plain.parse().ok().filter(|_| is_number).ok_or_else(fault)
}

/// Digits, a point among them or not, and behind a `p` the exponent of 2.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    // More than the digits of a filter can bring back, either way.
    let exponent = exponent.parse::<i64>().ok()?.clamp(-1_000_000, 1_000_000);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // As many bits as a rounding needs; of the rest only whether there are any, in the lowest.
    let (mut bits, mut scale) = (0u64, exponent - 4 * fraction.len() as i64);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if bits >> 58 == 0 {
            bits = bits << 4 | digit;
        } else {
            bits |= u64::from(digit != 0);
            scale += 4;
        }
    }
    Some(scaled(bits, scale))
}

/// `bits` × 2^`scale`, to the nearest double.
fn scaled(bits: u64, scale: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let top = 63 - i64::from(bits.leading_zeros());
    let exponent = scale + top;
    if exponent > 1023 {
        return f64::INFINITY;
    }
    // Bits of the fraction that there are below the smallest normal number.
    let kept = if exponent >= -1022 { 53 } else { 53 - (-1022 - exponent) };
    if kept < 0 {
        return 0.0;
    }
    let dropped = top + 1 - kept;
    let fraction = if dropped <= 0 {
        bits << -dropped
    } else {
        // SANITY: of at most 64 bits; at 64 nothing is left to shift.
        let (whole, rest) = (u128::from(bits) >> dropped, u128::from(bits) & ((1 << dropped) - 1));
        let half = 1u128 << (dropped - 1);
        let up = rest > half || rest == half && whole & 1 == 1;
        whole as u64 + u64::from(up)
    };
    // Of a normal number the fraction's first bit adds 1 to the exponent.
    let biased = if exponent >= -1022 { (exponent + 1022) as u64 } else { 0 };
    f64::from_bits((biased << 52) + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, value: f64) {
        assert_eq!(float(word).map(f64::to_bits), Ok(value.to_bits()), "{word}");
    }

    #[test]
    fn fractions_are_read_to_the_nearest() {
        check("1.", 1.0);
        check(".5", 0.5);
        check("1e3", 1000.0);
        check("1.5e-3f", 0.0015);
        check("0.1L", 0.1);
        check("9007199254740993.0", 9007199254740992.0);
        check("1e999", f64::INFINITY);
        check("4.9e-324", f64::from_bits(1));
    }

    #[test]
    fn hexadecimal_fractions_are_exact_and_round_to_even() {
        check("0x1p0", 1.0);
        check("0x1.8p3", 12.0);
        check("0x.8P+1", 1.0);
        check("0x10p-4", 1.0);
        check("0x1.00000000000008p0", 1.0);
        check("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON);
        check("0x1.000000000000080000000000001p0", 1.0 + f64::EPSILON);
        check("0x1.fffffffffffffp1023", f64::MAX);
        check("0x1.fffffffffffff8p1023", f64::INFINITY);
        check("0x1p1024", f64::INFINITY);
        check("0x1p-1022", f64::MIN_POSITIVE);
        check("0x1p-1074", f64::from_bits(1));
        check("0x1p-1075", 0.0);
        check("0x1.8p-1075", f64::from_bits(1));
        check("0x1p-99999999", 0.0);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for word in ["1.5.2", "1e", "1e+", "0x1.8", "0xp1", "0x1p", "1.5x", "0x1.gp1", "1.e5e5", "."] {
            assert!(float(word).is_err(), "{word}");
        }
    }
}
