//! Order: whether a text is before, at, or behind a constant.
//!
//! LTTng's rules (stack_strcmp of lttng-ust): an end comes before every byte, bytes are C's `char`, which is signed on x86-64, and
//! at a star that is the last character all is equal. In weir's dialect bytes are unsigned.

use std::cmp::Ordering;
use std::collections::HashMap;

use weir_ir::Automaton;

use crate::ast::BinaryOp;

/// The states in which the order is known.
const LESS: usize = 0;
const EQUAL: usize = 1;
const GREATER: usize = 2;

/// The texts of which `text op constant` holds. `star`: the constant ends in one.
pub(crate) fn order(op: BinaryOp, constant: &[u8], star: bool, is_signed: bool) -> Automaton {
    let known = [Ordering::Less, Ordering::Equal, Ordering::Greater];
    let mut table: Vec<(Vec<usize>, bool)> =
        known.iter().enumerate().map(|(state, known)| (vec![state; 256], holds(op, *known))).collect();
    let start = table.len();
    for want in constant {
        let next = table.len() + 1;
        let row = (0..=255u8).map(|have| match compare(have, *want, is_signed) {
            Ordering::Less => LESS,
            Ordering::Equal => next,
            Ordering::Greater => GREATER,
        });
        table.push((row.collect(), holds(op, Ordering::Less)));
    }
    let behind = if star { EQUAL } else { GREATER };
    table.push((vec![behind; 256], holds(op, Ordering::Equal)));
    of_columns(&table, start)
}

fn compare(have: u8, want: u8, is_signed: bool) -> Ordering {
    if is_signed { (have as i8).cmp(&(want as i8)) } else { have.cmp(&want) }
}

pub(crate) fn holds(op: BinaryOp, ordering: Ordering) -> bool {
    match op {
        BinaryOp::Eq => ordering.is_eq(),
        BinaryOp::Ne => ordering.is_ne(),
        BinaryOp::Lt => ordering.is_lt(),
        BinaryOp::Le => ordering.is_le(),
        BinaryOp::Gt => ordering.is_gt(),
        BinaryOp::Ge => ordering.is_ge(),
        other => unreachable!("{other:?} is no comparison"),
    }
}

/// The automaton of a table with a column for each byte: bytes with the same column are a class.
fn of_columns(table: &[(Vec<usize>, bool)], start: usize) -> Automaton {
    let mut classes = [0u8; 256];
    let mut seen: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut first_bytes = Vec::new();
    for byte in 0..256 {
        let column = table.iter().map(|(row, _)| row[byte]).collect();
        let next = seen.len();
        let class = *seen.entry(column).or_insert(next);
        if class == next {
            first_bytes.push(byte);
        }
        classes[byte] = class as u8;
    }
    let row = |row: &Vec<usize>| first_bytes.iter().map(|byte| row[*byte]).collect::<Vec<usize>>();
    let table: Vec<(Vec<usize>, bool)> = table.iter().map(|(next, matches)| (row(next), *matches)).collect();
    Automaton::of(classes, &table, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_comes_before_every_byte_and_a_star_is_equal_to_all() {
        let check = |op, constant: &str, star, text: &str, expected| {
            let automaton = order(op, constant.as_bytes(), star, false);
            assert_eq!(automaton.matches(text.as_bytes()), expected, "{text} {op:?} {constant}");
        };
        check(BinaryOp::Lt, "abc", false, "ab", true);
        check(BinaryOp::Lt, "abc", false, "abc", false);
        check(BinaryOp::Le, "abc", false, "abc", true);
        check(BinaryOp::Gt, "abc", false, "abcd", true);
        check(BinaryOp::Gt, "abc", true, "abcd", false);
        check(BinaryOp::Ge, "abc", true, "abcd", true);
        check(BinaryOp::Gt, "b", false, "abc", false);
        check(BinaryOp::Ne, "ab", false, "ab", false);
        check(BinaryOp::Eq, "", false, "", true);
    }

    #[test]
    fn bytes_are_signed_where_the_dialect_says_so() {
        assert!(order(BinaryOp::Lt, b"a", false, true).matches(&[0xff]));
        assert!(order(BinaryOp::Gt, b"a", false, false).matches(&[0xff]));
    }
}
