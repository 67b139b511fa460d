//! The format strings of `printf`: text → the conversions in it.
//!
//! `%[-+ #0]*[width][.precision][hlLjzt]*conversion`, as bpftrace takes it. Every conversion is one that the
//! report can print; what is not known is an error here, not text in the output.

use weir_event::{Type, Word};

/// One `%…` that takes an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conversion {
    /// The last letter: `d`, `s` and so on.
    pub letter: char,
    /// A length modifier (`l`, `hh`) stands before it.
    pub has_length: bool,
}

/// What the letters take.
const INTEGERS: &str = "diuoxXcp";
const DOUBLES: &str = "fFeEgG";
const STRINGS: &str = "s";
/// With `x` or `h` behind it, or without.
const BUFFERS: &str = "r";
const LENGTHS: [char; 6] = ['h', 'l', 'L', 'j', 'z', 't'];
/// Letters that C or bpftrace has, and weir has not: floating point in hexadecimal, and what writes into memory.
const NOT_YET: &str = "aAn";

impl Conversion {
    /// It shows the bits of an integer of its argument's own width, without a sign.
    pub(crate) fn shows_bits(self) -> bool {
        !self.has_length && "uxXo".contains(self.letter)
    }

    /// It shows an `int`, as C has it.
    pub(crate) fn shows_int(self) -> bool {
        !self.has_length && "di".contains(self.letter)
    }

    /// True if a value of this type can be printed so.
    pub(crate) fn takes(self, ty: &Type) -> bool {
        match ty {
            Type::Int { .. } | Type::Pointer(_) => INTEGERS.contains(self.letter),
            Type::Word(Word::Truth | Word::Enum(_)) => {
                [INTEGERS, STRINGS].iter().any(|all| all.contains(self.letter))
            }
            Type::Double => DOUBLES.contains(self.letter),
            Type::Str { .. }
            | Type::Probe
            | Type::Func
            | Type::Usym
            | Type::Ustack(_)
            | Type::Word(_)
            | Type::Inet => STRINGS.contains(self.letter),
            Type::Buffer { .. } => BUFFERS.contains(self.letter),
            Type::Tuple(_) | Type::Record(_) | Type::Object { .. } => false,
        }
    }

    /// For messages.
    pub(crate) fn wants(self) -> &'static str {
        match self.letter {
            letter if INTEGERS.contains(letter) => "an integer",
            letter if DOUBLES.contains(letter) => "a double",
            letter if BUFFERS.contains(letter) => "a buffer",
            _ => "a string",
        }
    }
}

/// The conversions of `format` in order, or what is wrong with it.
pub(crate) fn conversions(format: &str) -> Result<Vec<Conversion>, String> {
    let mut found = Vec::new();
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        let spec = &rest[start + 1..];
        let (length, letter) = conversion(spec)?;
        if letter != '%' {
            let before = spec[..length - letter.len_utf8()].chars().next_back();
            let has_length = before.is_some_and(|before| LENGTHS.contains(&before));
            found.push(Conversion { letter, has_length });
        }
        rest = &spec[length..];
    }
    Ok(found)
}

/// Bytes of the conversion whose text after the `%` is `spec`; of a sound format.
pub(crate) fn length(spec: &str) -> usize {
    conversion(spec).map_or(0, |(length, _)| length)
}

/// The length and the letter of the conversion whose text after the `%` is `spec`.
fn conversion(spec: &str) -> Result<(usize, char), String> {
    let rest = spec.trim_start_matches(['-', '+', ' ', '#', '0']);
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match rest.strip_prefix('.') {
        Some(precision) => precision.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let rest = rest.trim_start_matches(LENGTHS);
    let Some(letter) = rest.chars().next() else {
        return Err("the format ends within a conversion (a per cent sign is `%%`)".to_string());
    };
    let length = spec.len() - rest.len() + letter.len_utf8();
    let shown = &spec[..length];
    check_numbers(shown)?;
    match letter {
        '%' if length == 1 => Ok((length, letter)),
        'r' => Ok((length + usize::from(rest[1..].starts_with(['x', 'h'])), letter)),
        '*' => Err("a width or precision from an argument (`*`) is not supported by weir yet".to_string()),
        _ if [INTEGERS, DOUBLES, STRINGS].iter().any(|letters| letters.contains(letter)) => {
            Ok((length, letter))
        }
        _ if NOT_YET.contains(letter) => {
            Err(format!("the conversion `%{shown}` is not supported by weir yet"))
        }
        _ => Err(format!("unknown conversion `%{}` (a per cent sign is `%%`)", shown.escape_debug())),
    }
}

/// Width and precision are bounded, so that a short script cannot ask for gigabytes of blanks.
fn check_numbers(spec: &str) -> Result<(), String> {
    const MOST: u32 = 1 << 12;
    for digits in spec.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        if digits.parse::<u32>().map_or(true, |n| n > MOST) {
            return Err(format!("width or precision `{digits}` is too large: the limit is {MOST}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, letters: &str) {
        let found: Result<String, String> = conversions(format).map(|c| c.iter().map(|c| c.letter).collect());
        assert_eq!(found, Ok(letters.to_string()), "{format}");
    }

    #[track_caller]
    fn rejects(format: &str, part: &str) {
        let message = conversions(format).expect_err(format);
        assert!(message.contains(part), "{message}");
    }

    #[test]
    fn finds_every_conversion_in_order() {
        check("", "");
        check("plain", "");
        check("100%%", "");
        check("%d %s", "ds");
        check("%-10.3s|%05d|%+d|%#x|%ld|%llu|%hhx|%zu", "sddxduxu");
        check("é%sé", "s");
        check("%c%p%o%X%i", "cpoXi");
        check("%f %.3f %8.2e %G %lf", "ffeGf");
        check("%r %-20rx%rh%rr", "rrrr");
    }

    #[test]
    fn rejects_what_cannot_be_printed() {
        rejects("%", "ends within");
        rejects("%5", "ends within");
        rejects("%y", "unknown conversion `%y`");
        rejects("%é", "unknown conversion");
        rejects("%5%", "unknown conversion");
        rejects("%*d", "`*`");
        rejects("%a", "not supported");
        rejects("%99999d", "too large");
        rejects("%99999999999999d", "too large");
        rejects("%.5000s", "too large");
    }
}
