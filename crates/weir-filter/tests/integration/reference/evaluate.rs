//! What a filter means, one node after the other.
//!
//! LTTng's: a value is an i64 or a double; an error ends the whole filter, which is then false. weir's: a whole number is its 64 bits
//! and whether they are signed; an error makes the comparison false that it is in.

use std::cmp::Ordering;
use std::fmt;

use weir_filter::Dialect;

use crate::reference::event::{Datum, Read, labels};
use crate::reference::expression::Regex;

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Int(u64),
    Float(f64),
    Read(Read),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// A string, an operator, a constant by the pieces between its stars; `flipped`: the constant is on the left.
    Strings {
        read: Read,
        op: &'static str,
        pieces: Vec<String>,
        flipped: bool,
    },
    /// `e`, and a label or labels.
    Label {
        op: &'static str,
        pieces: Vec<String>,
    },
    Regex {
        read: Read,
        op: &'static str,
        regex: Regex,
    },
    In(Box<Expr>, Vec<Item>),
    InStrings(Read, Vec<Vec<String>>),
}

/// Of a list of numbers; the range may be one of a single number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Ints(i128, i128),
    Doubles(f64, f64),
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Int(value) => write!(f, "{value}"),
            Expr::Float(value) if value.is_infinite() => f.write_str("1e999"),
            Expr::Float(value) => write!(f, "{value:?}"),
            Expr::Read(read) => write!(f, "{read}"),
            Expr::Unary(op, operand) => write!(f, "{op}({operand})"),
            Expr::Binary(op, a, b) => write!(f, "({a} {op} {b})"),
            Expr::Strings { read, op, pieces, flipped } => match flipped {
                true => write!(f, "(\"{}\" {op} {read})", pieces.join("*")),
                false => write!(f, "({read} {op} '{}')", pieces.join("*")),
            },
            Expr::Label { op, pieces } => write!(f, "(e {op} '{}')", pieces.join("*")),
            Expr::Regex { read, op, regex } => write!(f, "({read} {op} \"{regex}\")"),
            Expr::In(operand, items) => {
                let items: Vec<String> = items.iter().map(Item::to_string).collect();
                write!(f, "({operand} in ({}))", items.join(", "))
            }
            Expr::InStrings(read, items) => {
                let items: Vec<String> =
                    items.iter().map(|pieces| format!("'{}'", pieces.join("*"))).collect();
                write!(f, "({read} in ({}))", items.join(", "))
            }
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Ints(first, last) if first == last => write!(f, "{first}"),
            Item::Ints(first, last) => write!(f, "{first}..{last}"),
            Item::Doubles(first, last) => write!(f, "{first:?}..{last:?}"),
        }
    }
}

pub(crate) fn accepts(expr: &Expr, dialect: Dialect, event: &[Datum]) -> bool {
    match dialect {
        Dialect::Lttng => matches!(lttng(expr, event), Some(Value::Int(value)) if value != 0),
        Dialect::Weir => condition(expr, event),
    }
}

/// LTTng's.
#[derive(Clone, Copy)]
enum Value {
    Int(i64),
    Double(f64),
}

impl Value {
    fn double(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Double(value) => value,
        }
    }

    /// As C on x86-64 makes an integer of it.
    fn int(self) -> i64 {
        match self {
            Value::Int(value) => value,
            Value::Double(value) if (-9223372036854775808.0..9223372036854775808.0).contains(&value) => {
                value as i64
            }
            Value::Double(_) => i64::MIN,
        }
    }
}

/// None: an error.
fn lttng(expr: &Expr, event: &[Datum]) -> Option<Value> {
    Some(match expr {
        Expr::Int(value) => Value::Int(*value as i64),
        Expr::Float(value) => Value::Double(*value),
        Expr::Read(read) => match read.of(event)? {
            Datum::Int(value) => Value::Int(value),
            Datum::Double(value) => Value::Double(value),
            other => panic!("{other:?} as a number"),
        },
        Expr::Unary(op, operand) => match (*op, lttng(operand, event)?) {
            ("-", Value::Int(value)) => Value::Int(value.wrapping_neg()),
            ("-", Value::Double(value)) => Value::Double(-value),
            ("~", Value::Int(value)) => Value::Int(!value),
            ("!", Value::Int(value)) => Value::Int((value == 0).into()),
            ("!", Value::Double(value)) => Value::Int((value == 0.0).into()),
            ("+", value) => value,
            _ => panic!("{op} of a double"),
        },
        Expr::Binary("&&", a, b) => match lttng(a, event)?.int() {
            0 => Value::Int(0),
            _ => Value::Int(lttng(b, event)?.int()),
        },
        Expr::Binary("||", a, b) => match lttng(a, event)?.int() {
            0 => Value::Int(lttng(b, event)?.int()),
            _ => Value::Int(1),
        },
        Expr::Binary(op, a, b) => {
            let (a, b) = (lttng(a, event)?, lttng(b, event)?);
            let (Value::Int(x), Value::Int(y)) = (a, b) else {
                return Some(Value::Int(holds(op, a.double().partial_cmp(&b.double())).into()));
            };
            Value::Int(match *op {
                "<<" | ">>" if !(0..=63).contains(&y) => return None,
                "<<" => x << y,
                ">>" => (x as u64 >> y) as i64,
                "&" => x & y,
                "|" => x | y,
                "^" => x ^ y,
                op => holds(op, Some(x.cmp(&y))).into(),
            })
        }
        Expr::Strings { read, op, pieces, flipped } => {
            let Datum::Str(have) = read.of(event)? else { panic!("a number as a string") };
            let have = have.as_deref().unwrap_or(b"(null)");
            Value::Int(strings(have, op, pieces, *flipped, true).into())
        }
        other => panic!("{other} in LTTng's dialect"),
    })
}

fn condition(expr: &Expr, event: &[Datum]) -> bool {
    match expr {
        Expr::Unary("!", operand) => !condition(operand, event),
        Expr::Binary("&&", a, b) => condition(a, event) && condition(b, event),
        Expr::Binary("||", a, b) => condition(a, event) || condition(b, event),
        Expr::Strings { read, op, pieces, flipped } => match read.of(event) {
            Some(Datum::Str(Some(have))) => strings(&have, op, pieces, *flipped, false),
            _ => false,
        },
        Expr::Regex { read, op, regex } => match read.of(event) {
            Some(Datum::Str(Some(have))) => regex.is_found_in(&have) == (*op == "=~"),
            _ => false,
        },
        Expr::InStrings(read, items) => match read.of(event) {
            Some(Datum::Str(Some(have))) => items.iter().any(|pieces| like(&have, pieces)),
            _ => false,
        },
        Expr::Label { op, pieces } => {
            let Datum::Int(value) = event[10] else { panic!("no enumeration") };
            let named = |(name, first, last): &(String, i64, i64)| {
                like(name.as_bytes(), pieces) && (*first..=*last).contains(&value)
            };
            labels().iter().any(named) == (*op == "==")
        }
        Expr::In(operand, items) => match number(operand, event) {
            Some(value) => items.iter().any(|item| {
                let (first, last) = match *item {
                    Item::Ints(first, last) => {
                        (order(value, Number::whole(first)), order(value, Number::whole(last)))
                    }
                    Item::Doubles(first, last) => {
                        (order(value, Number::Double(first)), order(value, Number::Double(last)))
                    }
                };
                holds(">=", first) && holds("<=", last)
            }),
            None => false,
        },
        Expr::Binary(op @ ("==" | "!=" | "<" | "<=" | ">" | ">="), a, b) => {
            match (number(a, event), number(b, event)) {
                (Some(a), Some(b)) => holds(op, order(a, b)),
                _ => false,
            }
        }
        other => match number(other, event) {
            Some(Number::Whole { bits, .. }) => bits != 0,
            Some(Number::Double(_)) => panic!("{other} as a condition"),
            None => false,
        },
    }
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Whole {
        bits: u64,
        signed: bool,
        /// Written down, and fits both ways: it goes with the other side.
        constant: bool,
        /// Of a list, where it may be beyond 64 bits.
        exactly: Option<i128>,
    },
    Double(f64),
}

impl Number {
    fn whole(value: i128) -> Number {
        Number::Whole { bits: 0, signed: true, constant: false, exactly: Some(value) }
    }
}

/// By value; none with a NaN.
fn order(a: Number, b: Number) -> Option<Ordering> {
    let exact = |bits: u64, signed: bool, exactly: Option<i128>| {
        exactly.unwrap_or(if signed { i128::from(bits as i64) } else { i128::from(bits) })
    };
    match (a, b) {
        (Number::Double(a), Number::Double(b)) => a.partial_cmp(&b),
        (Number::Double(_), Number::Whole { .. }) => order(b, a).map(Ordering::reverse),
        (Number::Whole { bits, signed, exactly, .. }, Number::Double(double)) => {
            let whole = exact(bits, signed, exactly);
            if double.is_nan() {
                return None;
            }
            if double.abs() > 1e30 {
                return Some(if double < 0.0 { Ordering::Greater } else { Ordering::Less });
            }
            let (integer, fraction) = (double.trunc() as i128, double.fract());
            Some(whole.cmp(&integer).then(0.0.partial_cmp(&fraction)?))
        }
        (
            Number::Whole { bits: x, signed: s, exactly: p, .. },
            Number::Whole { bits: y, signed: t, exactly: q, .. },
        ) => Some(exact(x, s, p).cmp(&exact(y, t, q))),
    }
}

/// None: an error.
fn number(expr: &Expr, event: &[Datum]) -> Option<Number> {
    let made = |bits, signed| Some(Number::Whole { bits, signed, constant: false, exactly: None });
    match expr {
        Expr::Int(value) => {
            let fits = i64::try_from(*value).is_ok();
            Some(Number::Whole { bits: *value, signed: fits, constant: fits, exactly: None })
        }
        Expr::Float(value) => Some(Number::Double(*value)),
        Expr::Read(read) => match read.of(event)? {
            Datum::Int(value) => made(value as u64, read.is_signed()),
            Datum::Double(value) => Some(Number::Double(value)),
            other => panic!("{other:?} as a number"),
        },
        Expr::Unary(op, operand) => match (*op, number(operand, event)?) {
            ("-", Number::Whole { bits, .. }) => made(bits.wrapping_neg(), true),
            ("~", Number::Whole { bits, signed, .. }) => made(!bits, signed),
            ("-", Number::Double(value)) => Some(Number::Double(-value)),
            (_, Number::Whole { bits, signed, .. }) => made(bits, signed),
            (_, double) => Some(double),
        },
        Expr::Binary(op, a, b) => {
            let (a, b) = (number(a, event)?, number(b, event)?);
            let (
                Number::Whole { bits: a, signed: s, constant: c, .. },
                Number::Whole { bits: b, signed: t, constant: d, .. },
            ) = (a, b)
            else {
                panic!("{op} of doubles")
            };
            let signed = match *op {
                "<<" | ">>" => s,
                _ if c => t,
                _ if d => s,
                _ => s && t,
            };
            let (x, y) = (a as i64, b as i64);
            let bits = match *op {
                "+" => a.wrapping_add(b),
                "-" => a.wrapping_sub(b),
                "*" => a.wrapping_mul(b),
                "/" | "%" if b == 0 => return None,
                "/" if signed => x.wrapping_div(y) as u64,
                "/" => a / b,
                "%" if signed => x.wrapping_rem(y) as u64,
                "%" => a % b,
                "<<" | ">>" if b > 63 => return None,
                "<<" => a << b,
                ">>" if signed => (x >> b) as u64,
                ">>" => a >> b,
                "&" => a & b,
                "|" => a | b,
                "^" => a ^ b,
                other => panic!("{other} gives no number"),
            };
            made(bits, signed)
        }
        other => panic!("{other} as a number"),
    }
}

/// As C has it: nothing but `!=` holds where there is no order.
fn holds(op: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else { return op == "!=" };
    match op {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        other => panic!("{other} compares nothing"),
    }
}

/// Equality tries every way that stars allow. Order walks both, as strcmp does; a star ends the walk as equal.
fn strings(have: &[u8], op: &str, pieces: &[String], flipped: bool, signed_char: bool) -> bool {
    if let "==" | "!=" = op {
        return like(have, pieces) == (op == "==");
    }
    let (text, star) = (pieces[0].as_bytes(), pieces.len() > 1);
    let mut index = 0;
    let ordering = loop {
        match (have.get(index), text.get(index)) {
            (_, None) if star => break Ordering::Equal,
            (None, None) => break Ordering::Equal,
            (None, Some(_)) => break Ordering::Less,
            (Some(_), None) => break Ordering::Greater,
            (Some(a), Some(b)) if a == b => index += 1,
            (Some(a), Some(b)) if signed_char => break (*a as i8).cmp(&(*b as i8)),
            (Some(a), Some(b)) => break a.cmp(b),
        }
    };
    holds(op, Some(if flipped { ordering.reverse() } else { ordering }))
}

/// The text begins with the first piece; the others are tried at every place behind.
fn like(have: &[u8], pieces: &[String]) -> bool {
    let Some(rest) = have.strip_prefix(pieces[0].as_bytes()) else { return false };
    match &pieces[1..] {
        [] => rest.is_empty(),
        others => (0..=rest.len()).any(|from| like(&rest[from..], others)),
    }
}
