//! Integer constant expressions: of `#if`, of enumerations and the sizes of arrays, and of macros.

use crate::limits;
use crate::token::{Token, TokenKind, integer, unquoted};

/// An integer with its type: C's arithmetic is done in `int`, `unsigned`, `long` or `unsigned long`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Int {
    /// Its bits, extended as its type says.
    bits: i64,
    is_unsigned: bool,
    is_long: bool,
}

impl Int {
    pub(super) fn of(value: i128) -> Int {
        let is_long = i32::try_from(value).is_err();
        Int { bits: value as i64, is_unsigned: i64::try_from(value).is_err(), is_long }
    }

    fn new(bits: i64, is_unsigned: bool, is_long: bool) -> Int {
        let bits = match (is_long, is_unsigned) {
            (true, _) => bits,
            (false, true) => i64::from(bits as u32),
            (false, false) => i64::from(bits as i32),
        };
        Int { bits, is_unsigned, is_long }
    }

    fn truth(holds: bool) -> Int {
        Int::new(holds.into(), false, false)
    }

    /// The number that it is.
    pub(super) fn value(self) -> i128 {
        if self.is_unsigned { i128::from(self.bits as u64) } else { self.bits.into() }
    }

    /// A literal: the first type that holds it, of those that its suffix and its radix permit (C11, 6.4.4.1).
    fn literal(text: &str) -> Option<Int> {
        let bits = integer(text)?;
        let suffix = &text[text.trim_end_matches(['u', 'U', 'l', 'L']).len()..];
        let is_decimal = !text.starts_with('0');
        let mut is_unsigned = suffix.contains(['u', 'U']);
        let mut is_long = suffix.contains(['l', 'L']);
        let magnitude = bits as u64;
        let (fits_int, fits_unsigned) = (i32::try_from(magnitude).is_ok(), u32::try_from(magnitude).is_ok());
        if !is_long && !(fits_int || fits_unsigned && (is_unsigned || !is_decimal)) {
            is_long = true;
        }
        is_unsigned |= !is_long && !fits_int || bits < 0;
        Some(Int::new(bits, is_unsigned, is_long))
    }

    /// As C converts it in a cast to a type of so many bytes.
    fn cast(self, to: Cast) -> Int {
        if to.is_bool {
            return Int::truth(self.bits != 0);
        }
        let shift = 64 - 8 * to.bytes.clamp(1, 8);
        let cut = self.bits << shift;
        let bits = if to.is_signed { cut >> shift } else { (cut as u64 >> shift) as i64 };
        // What is narrower than an `int` becomes one.
        Int::new(bits, !to.is_signed && to.bytes >= 4, to.bytes == 8)
    }
}

/// The type of a cast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast {
    pub(super) bytes: u32,
    pub(super) is_signed: bool,
    pub(super) is_bool: bool,
}

/// What the names in an expression stand for.
pub(super) trait Names {
    /// The value of a name.
    fn value(&self, name: &str) -> Option<Int>;

    /// Bytes of the type that the tokens name; none where they name no type.
    fn size(&mut self, tokens: &[Token]) -> Option<u32>;

    /// The same of its alignment.
    fn align_of(&mut self, tokens: &[Token]) -> Option<u32> {
        let _ = tokens;
        None
    }

    /// The type that the tokens name, as a cast's: of one that is no integer that of a number of 8 bytes.
    fn cast(&mut self, tokens: &[Token]) -> Option<Cast> {
        let _ = tokens;
        None
    }

    /// The tokens are what a macro stands for: if they name a type, the macro does.
    fn learn_type(&mut self, name: &str, tokens: &[Token]) {
        let _ = (name, tokens);
    }
}

/// The value of an expression that is all of the tokens; none where it is not one.
pub(super) fn evaluate(tokens: &[Token], names: &mut dyn Names) -> Option<i128> {
    let mut reader = Reader { tokens, at: 0, names, depth: 0, is_directive: false };
    let value = reader.ternary()?;
    (reader.at == tokens.len()).then(|| value.value())
}

/// The same of a directive's, whose integers are all of 64 bits.
pub(super) fn evaluate_directive(tokens: &[Token], names: &mut dyn Names) -> Option<bool> {
    let mut reader = Reader { tokens, at: 0, names, depth: 0, is_directive: true };
    let value = reader.ternary()?;
    (reader.at == tokens.len()).then_some(value.bits != 0)
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    names: &'a mut dyn Names,
    depth: u32,
    is_directive: bool,
}

/// Each with how tightly it binds.
const OPERATORS: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    (">", 7),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl<'a> Reader<'a> {
    fn eat(&mut self, text: &str) -> bool {
        let is_there = self.tokens.get(self.at).is_some_and(|token| token.is(text));
        self.at += usize::from(is_there);
        is_there
    }

    fn ternary(&mut self) -> Option<Int> {
        self.depth += 1;
        if self.depth > limits::C_NESTING_MAX {
            return None;
        }
        let mut value = self.binary(1)?;
        if self.eat("?") {
            let then = self.ternary()?;
            if !self.eat(":") {
                return None;
            }
            let otherwise = self.ternary()?;
            value = if value.bits != 0 { then } else { otherwise };
        }
        self.depth -= 1;
        Some(value)
    }

    fn binary(&mut self, least: u8) -> Option<Int> {
        let mut left = self.unary()?;
        loop {
            let token = self.tokens.get(self.at);
            let row = token.and_then(|token| OPERATORS.iter().find(|(symbol, _)| token.is(symbol)));
            let Some((symbol, binding)) = row.filter(|(_, binding)| *binding >= least) else {
                return Some(left);
            };
            self.at += 1;
            let right = self.binary(binding + 1)?;
            left = apply(symbol, left, right)?;
        }
    }

    fn unary(&mut self) -> Option<Int> {
        let mut signs = Vec::new();
        while let Some(token) = self.tokens.get(self.at)
            && let Some(sign) = ["-", "+", "!", "~"].into_iter().find(|sign| token.is(sign))
        {
            signs.push(sign);
            self.at += 1;
        }
        let mut value = self.primary()?;
        for sign in signs.into_iter().rev() {
            let Int { bits, is_unsigned, is_long } = value;
            value = match sign {
                "-" => Int::new(bits.wrapping_neg(), is_unsigned, is_long),
                "!" => Int::truth(bits == 0),
                "~" => Int::new(!bits, is_unsigned, is_long),
                _ => value,
            };
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<Int> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        match token.kind {
            TokenKind::Number => {
                let value = Int::literal(&token.text)?;
                Some(if self.is_directive { Int { is_long: true, ..value } } else { value })
            }
            TokenKind::Char => {
                // Of several characters the last is the lowest byte, as with GCC.
                let bytes = unquoted(&token.text);
                let whole = bytes.iter().fold(0i64, |value, byte| value << 8 | i64::from(*byte));
                let value = if bytes.len() == 1 { i64::from(whole as i8) } else { whole };
                (!bytes.is_empty()).then(|| Int::new(value, false, self.is_directive))
            }
            TokenKind::Ident if token.is("sizeof") => {
                if let Some(text) = self.tokens.get(self.at).filter(|next| next.kind == TokenKind::Text) {
                    self.at += 1;
                    return Some(Int::new(unquoted(&text.text).len() as i64 + 1, true, true));
                }
                let inner = self.bracketed()?;
                self.names.size(inner).map(|bytes| Int::new(bytes.into(), true, true))
            }
            TokenKind::Ident
                if matches!(&*token.text, "_Alignof" | "__alignof__" | "__alignof" | "alignof") =>
            {
                let inner = self.bracketed()?;
                self.names.align_of(inner).map(|bytes| Int::new(bytes.into(), true, true))
            }
            TokenKind::Ident => self.names.value(&token.text),
            TokenKind::Punct if token.is("(") => {
                self.at -= 1;
                let before = self.at;
                let inner = self.bracketed()?;
                if let Some(cast) = self.names.cast(inner) {
                    self.depth += 1;
                    let value = if self.depth > limits::C_NESTING_MAX { None } else { self.unary() };
                    self.depth -= 1;
                    return value.map(|value| value.cast(cast));
                }
                self.at = before + 1;
                let value = self.ternary()?;
                self.eat(")").then_some(value)
            }
            TokenKind::Text | TokenKind::Punct => None,
        }
    }

    /// What stands in the brackets that begin here, if some do.
    fn bracketed(&mut self) -> Option<&'a [Token]> {
        self.tokens.get(self.at).filter(|token| token.is("("))?;
        let mut open = 0u32;
        let start = self.at + 1;
        loop {
            let token = self.tokens.get(self.at)?;
            open = token.brackets(open);
            self.at += 1;
            if open == 0 {
                return self.tokens.get(start..self.at - 1);
            }
        }
    }
}

/// None for a division by zero.
fn apply(symbol: &str, left: Int, right: Int) -> Option<Int> {
    // The type that both are converted to (C11, 6.3.1.8).
    let is_long = left.is_long || right.is_long;
    let decides = |int: Int| int.is_unsigned && int.is_long == is_long;
    let is_unsigned = decides(left) || decides(right);
    let both = |bits: i64| Int::new(bits, is_unsigned, is_long);
    let (a, b) = (both(left.bits).bits, both(right.bits).bits);
    let (ua, ub) = (a as u64, b as u64);
    let is_less = if is_unsigned { ua < ub } else { a < b };
    let width = if left.is_long { 64 } else { 32 };
    let shift = right.bits.rem_euclid(width) as u32;
    Some(match symbol {
        "||" => Int::truth(left.bits != 0 || right.bits != 0),
        "&&" => Int::truth(left.bits != 0 && right.bits != 0),
        "==" => Int::truth(a == b),
        "!=" => Int::truth(a != b),
        "<" => Int::truth(is_less),
        ">=" => Int::truth(!is_less),
        ">" => Int::truth(!is_less && a != b),
        "<=" => Int::truth(is_less || a == b),
        "<<" => Int::new(left.bits << shift, left.is_unsigned, left.is_long),
        ">>" if left.is_unsigned => Int::new((left.bits as u64 >> shift) as i64, true, left.is_long),
        ">>" => Int::new(left.bits >> shift, false, left.is_long),
        "|" => both(a | b),
        "^" => both(a ^ b),
        "&" => both(a & b),
        "+" => both(a.wrapping_add(b)),
        "-" => both(a.wrapping_sub(b)),
        "*" => both(a.wrapping_mul(b)),
        "/" if is_unsigned => both(ua.checked_div(ub)? as i64),
        "/" => both(a.checked_div(b)?),
        _ if is_unsigned => both(ua.checked_rem(ub)? as i64),
        _ => both(a.checked_rem(b)?),
    })
}
