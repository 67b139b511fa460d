//! Random expressions, sound by their making, and events whose values lie where these decide.

use weir_event::schema::Type;
use weir_filter::Dialect;

use crate::reference::evaluate::{Expr, Item};
use crate::reference::event::{Datum, FIELDS, Read};
use crate::reference::expression::Regex;

/// xorshift64*: the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize) % end
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const BITS: [&str; 5] = ["&", "|", "^", "<<", ">>"];
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];
/// Where signs, sizes, shifts and roundings change.
#[rustfmt::skip]
const NUMBERS: [u64; 20] = [
    0, 1, 2, 3, 4, 5, 63, 64, 127, 128, 255, 65535, 0x7fff_ffff, 0xffff_ffff, (1 << 53) - 1, (1 << 53) + 1,
    (1 << 54) + 2, i64::MAX as u64, 1 << 63, u64::MAX,
];
#[rustfmt::skip]
const DOUBLES: [f64; 20] = [
    0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 127.0, 255.5, 65535.0, 2147483648.0, 9007199254740992.0, 9007199254740994.0,
    9223372036854775807.0, 18446744073709551615.0, 1e30, 1e300, f64::MIN_POSITIVE, 5e-324, 1e-40, f64::INFINITY,
];
const TEXTS: [&str; 9] = ["", "a", "ab", "abc", "abcdefg", "abcdefgh", "abcdefghi", "é", "(null)"];
const PIECES: [&str; 9] = ["", "a", "b", "ab", "aab", "aba", "c", "(null", "bc"];

pub(crate) fn expression(random: &mut Random, dialect: Dialect) -> Expr {
    let depth = random.below(6);
    match dialect {
        Dialect::Lttng => lttng(random, depth),
        Dialect::Weir => condition(random, depth),
    }
}

/// A whole number.
fn lttng(random: &mut Random, depth: usize) -> Expr {
    if depth == 0 {
        return if random.below(3) == 0 {
            strings(random, Read::Field(6))
        } else {
            leaf(random, Dialect::Lttng)
        };
    }
    let either = |random: &mut Random| match random.below(4) {
        0 => Box::new(double(random, depth - 1)),
        _ => Box::new(lttng(random, depth - 1)),
    };
    let op = match random.below(10) {
        0..=3 => random.pick(&["&&", "||"]),
        4..=6 => random.pick(&COMPARISONS),
        7 => random.pick(&BITS),
        8 => return Expr::Unary("!", either(random)),
        _ => return Expr::Unary(random.pick(&["+", "-", "!", "~"]), Box::new(lttng(random, depth - 1))),
    };
    if BITS.contains(&op) {
        return Expr::Binary(op, Box::new(lttng(random, depth - 1)), Box::new(lttng(random, depth - 1)));
    }
    Expr::Binary(op, either(random), either(random))
}

/// With a fraction.
fn double(random: &mut Random, depth: usize) -> Expr {
    match random.below(6) {
        0 | 1 => Expr::Float(random.pick(&DOUBLES)),
        2 | 3 => Expr::Read(Read::Field(8)),
        4 => Expr::Read(Read::Field(9)),
        _ if depth > 0 => Expr::Unary(random.pick(&["+", "-"]), Box::new(double(random, depth - 1))),
        _ => Expr::Float(0.5),
    }
}

fn condition(random: &mut Random, depth: usize) -> Expr {
    if depth > 0 && random.below(3) > 0 {
        return match random.below(5) {
            0 => Expr::Unary("!", Box::new(condition(random, depth - 1))),
            _ => {
                let op = random.pick(&["&&", "||"]);
                Expr::Binary(
                    op,
                    Box::new(condition(random, depth - 1)),
                    Box::new(condition(random, depth - 1)),
                )
            }
        };
    }
    let read = random.pick(&[Read::Field(6), Read::Field(7), Read::Member("z", None)]);
    match random.below(12) {
        0 | 1 => strings(random, read),
        2 => Expr::Regex { read, op: random.pick(&["=~", "!~"]), regex: regex(random, 3) },
        3 => label(random),
        4 => list(random),
        5 => Expr::InStrings(read, (0..=random.below(4)).map(|_| pieces(random)).collect()),
        6 => number(random, depth),
        7 | 8 => {
            let op = random.pick(&COMPARISONS);
            let (a, b) = (weir_double(random), number(random, depth.min(1)));
            let (a, b) = if random.below(2) == 0 { (a, b) } else { (b, a) };
            Expr::Binary(op, Box::new(a), Box::new(b))
        }
        9 => {
            let op = random.pick(&COMPARISONS);
            Expr::Binary(op, Box::new(weir_double(random)), Box::new(weir_double(random)))
        }
        _ => {
            let op = random.pick(&COMPARISONS);
            Expr::Binary(op, Box::new(number(random, depth)), Box::new(number(random, depth)))
        }
    }
}

fn weir_double(random: &mut Random) -> Expr {
    if random.below(4) == 0 { Expr::Read(Read::Member("y", None)) } else { double(random, 1) }
}

fn number(random: &mut Random, depth: usize) -> Expr {
    if depth == 0 {
        return leaf(random, Dialect::Weir);
    }
    let op = match random.below(5) {
        0 => return Expr::Unary(random.pick(&["+", "-", "~"]), Box::new(number(random, depth - 1))),
        1..=2 => random.pick(&BITS),
        _ => random.pick(&ARITHMETIC),
    };
    Expr::Binary(op, Box::new(number(random, depth - 1)), Box::new(number(random, depth - 1)))
}

fn leaf(random: &mut Random, dialect: Dialect) -> Expr {
    match random.below(12) {
        0..=3 => Expr::Int(random.pick(&NUMBERS)),
        4 => Expr::Read(Read::Element(11, random.below(3))),
        5 => Expr::Read(Read::Element(12, random.below(4))),
        6 => Expr::Read(Read::Field(10)),
        7 if dialect == Dialect::Weir => Expr::Read(random.pick(&[
            Read::Member("x", None),
            Read::Member("w", Some(0)),
            Read::Member("w", Some(1)),
        ])),
        _ => Expr::Read(Read::Field(random.below(6))),
    }
}

fn strings(random: &mut Random, read: Read) -> Expr {
    let read = if read == Read::Field(6) && random.below(2) == 0 { Read::Field(7) } else { read };
    let op = random.pick(&COMPARISONS);
    let pieces = match (random.below(3), op) {
        (0, _) => vec![random.pick(&TEXTS).to_owned()],
        (1, _) => vec![random.pick(&TEXTS).to_owned(), String::new()],
        (_, "==" | "!=") => pieces(random),
        _ => vec![random.pick(&PIECES).to_owned()],
    };
    Expr::Strings { read, op, pieces, flipped: random.below(4) == 0 }
}

/// The pieces of a constant; stars in a row are one, so that only the outer ones are empty.
fn pieces(random: &mut Random) -> Vec<String> {
    let count = 1 + random.below(4);
    let mut pieces: Vec<String> = (0..count).map(|_| random.pick(&PIECES).to_owned()).collect();
    let last = pieces.len() - 1;
    pieces.iter_mut().take(last).skip(1).filter(|piece| piece.is_empty()).for_each(|piece| piece.push('a'));
    pieces
}

fn label(random: &mut Random) -> Expr {
    let labels: [&[&str]; 6] = [&["IDLE"], &["RUN"], &["RUN", ""], &["", "D", ""], &["ODD"], &["R", "NING"]];
    let pieces = random.pick(&labels).iter().map(|piece| (*piece).to_owned()).collect();
    Expr::Label { op: random.pick(&["==", "!="]), pieces }
}

fn list(random: &mut Random) -> Expr {
    let count = 1 + random.below(9);
    if random.below(3) == 0 {
        let item = |_| {
            let (a, b) = (random.pick(&DOUBLES[..19]), random.pick(&DOUBLES[..19]));
            if random.below(2) == 0 { Item::Doubles(a.min(b), a.max(b)) } else { whole(random) }
        };
        let items = (0..count).map(item).collect();
        return Expr::In(Box::new(weir_double(random)), items);
    }
    let items = (0..count).map(|_| whole(random)).collect();
    let depth = random.below(2);
    Expr::In(Box::new(number(random, depth)), items)
}

fn whole(random: &mut Random) -> Item {
    let pick = |random: &mut Random| {
        let value = i128::from(random.pick(&NUMBERS));
        if random.below(4) == 0 { -value } else { value }
    };
    let (a, b) = (pick(random), pick(random));
    if random.below(2) == 0 { Item::Ints(a, a) } else { Item::Ints(a.min(b), a.max(b)) }
}

fn regex(random: &mut Random, depth: usize) -> Regex {
    match random.below(if depth == 0 { 7 } else { 13 }) {
        0..=2 => Regex::Byte(random.pick(b"aabc(.")).plain(),
        3 => Regex::Any,
        4 => Regex::Class(
            random.pick(&[vec![(b'a', b'b')], vec![(b'b', b'c'), (b'0', b'9')]]),
            random.below(2) == 0,
        ),
        5 => random.pick(&[Regex::Begin, Regex::End]),
        6 => Regex::All(Vec::new()),
        7..=9 => Regex::All((0..=random.below(3)).map(|_| regex(random, depth - 1)).collect()),
        10 => Regex::Either((0..2).map(|_| regex(random, depth - 1)).collect()),
        _ => {
            let most = random.pick(&[None, None, Some(2), Some(3)]);
            Regex::Times(Box::new(regex(random, depth - 1)), random.below(3), most)
        }
    }
}

impl Regex {
    /// A parenthesis is an operator, and stands for a letter here.
    fn plain(self) -> Regex {
        match self {
            Regex::Byte(b'(') => Regex::Byte(b'n'),
            other => other,
        }
    }
}

/// A value for each field, integers as their type holds them.
pub(crate) fn values(random: &mut Random) -> Vec<Datum> {
    FIELDS.iter().map(|(name, ty)| value(random, name, ty)).collect()
}

fn value(random: &mut Random, name: &str, ty: &Type) -> Datum {
    if let Some((bytes, signed)) = ty.integer() {
        return Datum::Int(int(random, bytes, signed));
    }
    match name {
        "d" => Datum::Double(fraction(random)),
        "f" => Datum::Double(f64::from(fraction(random) as f32)),
        "arr" => Datum::Ints((0..3).map(|_| int(random, 4, true)).collect()),
        "seq" => Datum::Ints((0..random.below(4)).map(|_| int(random, 2, false)).collect()),
        "o" => {
            let w = [int(random, 1, false) as u8, int(random, 1, false) as u8];
            Datum::Struct(int(random, 2, true), fraction(random), text(random), w)
        }
        _ => Datum::Str(text(random)),
    }
}

fn int(random: &mut Random, bytes: u8, signed: bool) -> i64 {
    let number = if random.below(4) == 0 { random.next() } else { random.pick(&NUMBERS) };
    let number = if random.below(4) == 0 { number.wrapping_neg() } else { number };
    let unused = 64 - 8 * u32::from(bytes);
    let high = number << unused;
    if signed { high as i64 >> unused } else { (high >> unused) as i64 }
}

fn fraction(random: &mut Random) -> f64 {
    let value = match random.below(8) {
        0 => f64::from_bits(random.next()),
        1 => f64::NAN,
        2 => random.pick(&NUMBERS) as f64,
        _ => random.pick(&DOUBLES),
    };
    if random.below(4) == 0 { -value } else { value }
}

fn text(random: &mut Random) -> Option<Vec<u8>> {
    Some(match random.below(10) {
        0 => return None,
        1 => vec![0xff, b'a'],
        2..=5 => random.pick(&TEXTS).as_bytes().to_vec(),
        other => {
            // Longer than one piece that is read, and than two.
            let length = if other == 9 { random.pick(&[62, 63, 64, 126, 127, 140]) } else { random.below(9) };
            (0..length).map(|_| random.pick(b"aaabc\nn.")).collect()
        }
    })
}
