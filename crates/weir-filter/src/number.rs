//! Whole numbers and doubles, exactly: for what is known when a filter is compiled.

use std::cmp::Ordering;

/// The nearest double, ties to even.
pub(crate) fn to_double(value: i128) -> f64 {
    value as f64
}

/// How a whole number of at most 65 bits stands to a double, by value; none of a NaN.
pub(crate) fn exact_order(value: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond all that the whole number may be; below that the double's whole part is a whole number of 128 bits.
    if double.abs() >= 2f64.powi(100) {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = double.floor();
    let order = value.cmp(&(whole as i128));
    Some(if order.is_eq() && double > whole { Ordering::Less } else { order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_doubles_are_compared_by_value() {
        let check = |value, double, order| assert_eq!(exact_order(value, double), order, "{value} {double}");
        check(1, 1.0, Some(Ordering::Equal));
        check(1, 1.5, Some(Ordering::Less));
        check(2, 1.5, Some(Ordering::Greater));
        check(-1, -1.5, Some(Ordering::Greater));
        check(-2, -1.5, Some(Ordering::Less));
        check(0, -0.0, Some(Ordering::Equal));
        check((1 << 53) + 1, 9007199254740992.0, Some(Ordering::Greater));
        check(i128::from(u64::MAX), 18446744073709551616.0, Some(Ordering::Less));
        check(0, f64::INFINITY, Some(Ordering::Less));
        check(0, f64::NEG_INFINITY, Some(Ordering::Greater));
        check(0, f64::NAN, None);
    }
}
