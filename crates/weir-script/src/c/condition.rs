//! Integer constant expressions: of `#if`, of enumerations and the sizes of arrays, and of macros.

use crate::c::token::{Token, TokenKind, integer, unquoted};
use crate::limits;

/// What the names in an expression stand for.
pub(super) trait Names {
    /// The value of a name.
    fn value(&self, name: &str) -> Option<i64>;

    /// Bytes of the type that the tokens name; none where they name no type.
    fn size(&mut self, tokens: &[Token]) -> Option<i64>;

    /// The tokens are what a macro stands for: if they name a type, the macro does.
    fn learn_type(&mut self, name: &str, tokens: &[Token]) {
        let _ = (name, tokens);
    }
}

/// The value of an expression that is all of the tokens; none where it is not one.
pub(super) fn evaluate(tokens: &[Token], names: &mut dyn Names) -> Option<i64> {
    let mut reader = Reader { tokens, at: 0, names, depth: 0 };
    let value = reader.ternary()?;
    (reader.at == tokens.len()).then_some(value)
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    names: &'a mut dyn Names,
    depth: u32,
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

    fn ternary(&mut self) -> Option<i64> {
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
            value = if value != 0 { then } else { otherwise };
        }
        self.depth -= 1;
        Some(value)
    }

    fn binary(&mut self, least: u8) -> Option<i64> {
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

    fn unary(&mut self) -> Option<i64> {
        let mut signs = Vec::new();
        while let Some(token) = self.tokens.get(self.at)
            && let Some(sign) = ["-", "+", "!", "~"].into_iter().find(|sign| token.is(sign))
        {
            signs.push(sign);
            self.at += 1;
        }
        let mut value = self.primary()?;
        for sign in signs.into_iter().rev() {
            value = match sign {
                "-" => value.wrapping_neg(),
                "!" => i64::from(value == 0),
                "~" => !value,
                _ => value,
            };
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<i64> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        match token.kind {
            TokenKind::Number => integer(&token.text),
            TokenKind::Char => unquoted(&token.text).first().map(|byte| i64::from(*byte as i8)),
            TokenKind::Ident if token.is("sizeof") => {
                let inner = self.bracketed()?;
                self.names.size(inner)
            }
            TokenKind::Ident => self.names.value(&token.text),
            TokenKind::Punct if token.is("(") => {
                self.at -= 1;
                let before = self.at;
                let inner = self.bracketed()?;
                if self.names.size(inner).is_some() {
                    // A cast: what it makes of the value is not looked at.
                    self.depth += 1;
                    let value = if self.depth > limits::C_NESTING_MAX { None } else { self.unary() };
                    self.depth -= 1;
                    return value;
                }
                self.at = before + 1;
                let value = self.ternary()?;
                self.eat(")").then_some(value)
            }
            TokenKind::Text | TokenKind::Punct => None,
        }
    }

    /// What stands in the brackets that begin here.
    fn bracketed(&mut self) -> Option<&'a [Token]> {
        let mut open = 0u32;
        let start = self.at + 1;
        loop {
            let token = self.tokens.get(self.at)?;
            open = if token.is("(") {
                open + 1
            } else if token.is(")") {
                open - 1
            } else {
                open
            };
            self.at += 1;
            if open == 0 {
                return self.tokens.get(start..self.at - 1);
            }
        }
    }
}

/// None for a division by zero.
fn apply(symbol: &str, a: i64, b: i64) -> Option<i64> {
    Some(match symbol {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<<" => a.wrapping_shl(b as u32),
        ">>" => a.wrapping_shr(b as u32),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}
