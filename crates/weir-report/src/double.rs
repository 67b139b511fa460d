//! Floating-point numbers as text: as C's printf has them, and as short as they read back.
//!
//! In: a number, and what a conversion asks for. Out: its digits, rounded to nearest from the exact value, ties to even,
//! as glibc does. Signs, widths and filling are [`super::printf`]'s.

/// What `%f`, `%e`, `%g`, or one of them in capitals, gives for `value`, which has no sign. `alternate`: the flag `#`.
pub fn digits(conversion: char, precision: Option<usize>, alternate: bool, value: f64) -> String {
    let text = match conversion.to_ascii_lowercase() {
        _ if value.is_nan() => "nan".to_string(),
        _ if value.is_infinite() => "inf".to_string(),
        'f' => fixed(precision.unwrap_or(6), alternate, value),
        'e' => scientific(precision.unwrap_or(6), alternate, value),
        _ => general(precision.unwrap_or(6).max(1), alternate, value),
    };
    if conversion.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
}

/// The shortest digits that read back as the same number, always with a point or an exponent: `1.0`, `0.1`, `1e21`.
pub fn shortest(value: f64) -> String {
    match value {
        _ if value.is_nan() => if value.is_sign_negative() { "-nan" } else { "nan" }.to_string(),
        _ => format!("{value:?}"),
    }
}

fn fixed(precision: usize, alternate: bool, value: f64) -> String {
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{point}")
}

/// Rust writes `1.5e3` where C writes `1.5e+03`.
fn scientific(precision: usize, alternate: bool, value: f64) -> String {
    let (digits, exponent) = parts(precision, value);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}{point}e{sign}{:02}", exponent.abs())
}

/// The style by the exponent that `%e` would show; zeros at the end go, unless `#` keeps them (C11, 7.21.6.1).
fn general(significant: usize, alternate: bool, value: f64) -> String {
    let (_, exponent) = parts(significant - 1, value);
    let is_fixed = exponent >= -4 && i64::from(exponent) < significant as i64;
    let text = match is_fixed {
        true => fixed((significant as i64 - 1 - i64::from(exponent)) as usize, alternate, value),
        false => scientific(significant - 1, alternate, value),
    };
    if alternate || !text.contains('.') {
        return text;
    }
    let (digits, rest) = text.split_at(text.find('e').unwrap_or(text.len()));
    format!("{}{rest}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// The digits of `%e`, and its exponent.
fn parts(precision: usize, value: f64) -> (String, i32) {
    let text = format!("{value:.precision$e}");
    // SANITY: the form of `{:e}` is digits, `e` and a number.
    let (digits, exponent) = text.split_once('e').expect("an exponent");
    (digits.to_string(), exponent.parse().expect("a small number"))
}
