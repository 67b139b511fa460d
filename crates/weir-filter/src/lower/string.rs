//! Comparisons of a string with a constant.
//!
//! Equality looks at one byte more than the constant has, or at as many as the prefix before its star. Of a text that the program
//! declares to be there, the first are compared where they are, and only what is more than one question takes is read. Any other
//! string is read safely, and its words are compared. Other stars, and order, are for automata ([`matching`](super::matching)).
//!
//! An address of 0 is the text `(null)` in LTTng's dialect; in weir's, no comparison with it holds. Of a declared text this is asked
//! once: not where a comparison that holds has shown it to be there. What cannot be read counts as empty, and the runtime counts
//! the fault.

use weir_event::Type;
use weir_ir::limits::TEXT_BYTES_MAX;
use weir_ir::{Automaton, BinOp, Builtin, CmpOp, Op, Value};

use crate::ast::{BinaryOp, NodeId, NodeKind, Pattern};
use crate::check::{Kind, Place, Text};
use crate::lower::block::Edge;
use crate::lower::{Lowering, Ways};
use crate::{Dialect, automaton};

/// What LTTng records for a string that is not there.
pub(super) const NULL_TEXT: &[u8] = b"(null)";

/// Bytes of characters in an array or a sequence that an automaton looks at.
const COUNTED_BYTES_MAX: usize = 127;

/// Of the thread's name (TASK_COMM_LEN).
const COMM_BYTES: u32 = 16;

/// A text that is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Have {
    Address(Value),
    /// In this slot is the address of one that the program vouches for.
    Declared(u8),
    /// The program has it itself.
    Held(Value),
    /// At this address, of so many bytes at most.
    Counted {
        address: Value,
        count: Value,
    },
}

impl Lowering<'_> {
    pub(super) fn compares_strings(&self, op: BinaryOp, left: NodeId) -> bool {
        op.is_comparison() && matches!(self.kind(left), Kind::Str { .. } | Kind::Pattern)
    }

    pub(super) fn strings(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Ways {
        let (op, field, constant) = match self.kind(left) {
            Kind::Pattern => (op.swapped(), right, left),
            _ => (op, left, right),
        };
        if let (Kind::Str { from }, Kind::Str { from: other }) = (self.kind(left), self.kind(right)) {
            let (ways, absent) = self.same(from, other);
            let mut ways = if op == BinaryOp::Ne { ways.negated() } else { ways };
            ways.no.extend(absent);
            return ways;
        }
        let (Kind::Str { from }, NodeKind::Str(pattern)) = (self.kind(field), &self.ast.node(constant).kind)
        else {
            unreachable!("the check lets strings be compared with strings alone")
        };
        let is_lttng = self.checked.dialect == Dialect::Lttng;
        let holds_of_null = is_lttng
            && match op {
                BinaryOp::Eq => is_null_like(pattern),
                BinaryOp::Ne => !is_null_like(pattern),
                _ => self.order(op, pattern).matches(NULL_TEXT),
            };
        // What is asked of a text does not hold of address 0.
        let is_asked = op == BinaryOp::Eq && !holds_of_null && !pattern.pieces[0].is_empty();
        if let Text::Declared(slot) = from
            && is_asked
            && is_beginning(pattern)
        {
            let ways = self.equal(Have::Declared(slot), pattern);
            return Ways { there: 1 << slot, ..ways };
        }
        self.of_text(from, holds_of_null, |lowering, text| match op {
            BinaryOp::Eq => lowering.is_like(text, pattern),
            BinaryOp::Ne => lowering.is_like(text, pattern).negated(),
            _ => {
                let order = lowering.order(op, pattern);
                lowering.matches(text, order.into())
            }
        })
    }

    /// Whether two texts are the same, as far as [`COUNTED_BYTES_MAX`] bytes; and the ways on which one of them is not there, which in weir's
    /// dialect are no answer.
    fn same(&mut self, one: Text, other: Text) -> (Ways, Vec<Edge>) {
        let null = Pattern { pieces: vec![String::from_utf8_lossy(NULL_TEXT).into_owned()] };
        let is_lttng = self.checked.dialect == Dialect::Lttng;
        let mut absent = Vec::new();
        let before = self.errors.len();
        let (a, a_null) = self.have(one);
        let (b, b_null) = self.have(other);
        let (held_a, held_b) = (self.held(a), self.held(b));
        let same =
            self.blocks.value(Op::StrEq { a: held_a, b: held_b, negate: false, first: None }, Type::U64);
        let mut ways = Ways::of(self.blocks.branch(same));
        match is_lttng {
            false => {
                absent.extend(a_null.into_iter().chain(b_null));
                absent.extend(self.errors.drain(before..));
            }
            true => {
                // The other one is there.
                if let Some(edge) = b_null {
                    self.blocks.open(&[edge]);
                    let like = self.is_like(a, &null);
                    ways.yes.extend(like.yes);
                    ways.no.extend(like.no);
                }
                if let Some(edge) = a_null {
                    self.blocks.open(&[edge]);
                    let (b, b_null) = self.have(other);
                    let like = self.is_like(b, &null);
                    ways.yes.extend(like.yes);
                    ways.no.extend(like.no);
                    ways.yes.extend(b_null);
                }
            }
        }
        (ways, absent)
    }

    /// A text, and the way on which it is not there.
    fn have(&mut self, from: Text) -> (Have, Option<Edge>) {
        let place = match from {
            Text::Comm => {
                let comm = self.blocks.value(Op::Builtin(Builtin::Comm), Type::Str { bytes: COMM_BYTES });
                return (Have::Held(comm), None);
            }
            Text::Characters { slot, count } => return (self.characters(slot, count), None),
            Text::Declared(slot) => Place::Builtin(Builtin::Slot(slot)),
            Text::At(place) => place,
        };
        let address = self.read(place);
        let (there, null) = self.blocks.branch(address);
        self.blocks.open(&[there]);
        let have = match from {
            Text::Declared(slot) => Have::Declared(slot),
            _ => Have::Address(address),
        };
        (have, Some(null))
    }

    /// The text itself, as much of it as is looked at.
    fn held(&mut self, have: Have) -> Value {
        match have {
            Have::Address(_) | Have::Declared(_) => {
                let address = self.address(have);
                let limit = self.blocks.value(Op::Int(COUNTED_BYTES_MAX as i64), Type::U64);
                let read = Op::ReadStr { address, limit: Some(limit) };
                self.blocks.value(read, string_type(COUNTED_BYTES_MAX + 1))
            }
            Have::Held(_) | Have::Counted { .. } => self.address(have),
        }
    }

    fn characters(&mut self, slot: u8, count: Option<u32>) -> Have {
        let address = self.blocks.value(Op::Builtin(Builtin::Slot(slot)), Type::U64);
        let count = match count {
            Some(count) => self.blocks.value(Op::Int(count.into()), Type::U64),
            None => self.blocks.value(Op::Builtin(Builtin::Slot(slot + 1)), Type::U64),
        };
        Have::Counted { address, count }
    }

    /// What holds of a string. Where its address is 0, in LTTng's dialect, what `holds_of_null` says.
    pub(super) fn of_text(
        &mut self,
        from: Text,
        holds_of_null: bool,
        holds: impl FnOnce(&mut Self, Have) -> Ways,
    ) -> Ways {
        if let Text::Declared(slot) = from
            && self.there >> slot & 1 != 0
        {
            return holds(self, Have::Declared(slot));
        }
        let before = self.errors.len();
        let (have, null) = self.have(from);
        let mut ways = holds(self, have);
        let is_lttng = self.checked.dialect == Dialect::Lttng;
        match null {
            Some(null) if is_lttng && holds_of_null => ways.yes.push(null),
            null => {
                ways.no.extend(null);
                ways.there |= if let Have::Declared(slot) = have { 1 << slot } else { 0 };
            }
        }
        if !is_lttng {
            ways.no.extend(self.errors.drain(before..));
        }
        ways
    }

    /// A text that the pattern stands for: the fast ways where there is one.
    pub(super) fn is_like(&mut self, text: Have, pattern: &Pattern) -> Ways {
        match text {
            Have::Address(_) | Have::Declared(_) | Have::Counted { .. } if is_beginning(pattern) => {
                self.equal(text, pattern)
            }
            _ => self.matches(text, automaton::glob(pattern).into()),
        }
    }

    fn order(&self, op: BinaryOp, pattern: &Pattern) -> Automaton {
        let (text, _) = text_of(pattern);
        let is_signed = self.checked.dialect == Dialect::Lttng;
        automaton::order(op, text.as_bytes(), pattern.plain().is_none(), is_signed)
    }

    /// Of a text that is not held.
    fn equal(&mut self, have: Have, pattern: &Pattern) -> Ways {
        let (text, read) = text_of(pattern);
        if read == 0 {
            return Ways { yes: vec![self.blocks.jump()], ..Ways::default() };
        }
        let slot = match have {
            Have::Declared(slot) => slot,
            Have::Counted { address, count } => {
                let limit = self.least(count, read as i64);
                return self.equal_up_to(address, text, read, limit);
            }
            Have::Address(_) | Have::Held(_) => {
                let address = self.address(have);
                return self.equal_where_read(address, text, read);
            }
        };
        let fits = read <= TEXT_BYTES_MAX;
        let first = if fits { text } else { beginning(text) };
        let ends = fits && read > text.len();
        let asked = Op::TextBegins { slot, text: first.to_owned(), ends };
        let same = self.blocks.value(asked, Type::U64);
        let (yes, no) = self.blocks.branch(same);
        if fits {
            return Ways::of((yes, no));
        }
        self.blocks.open(&[yes]);
        let at = first.len();
        let address = self.address(have);
        let address = self.blocks.bin_int(BinOp::Add, address, at as i64);
        let mut ways = self.equal_where_read(address, &text[at..], read - at);
        ways.no.push(no);
        ways
    }

    /// So many bytes are read and compared.
    fn equal_where_read(&mut self, address: Value, text: &str, read: usize) -> Ways {
        let limit = self.blocks.value(Op::Int(read as i64), Type::U64);
        self.equal_up_to(address, text, read, limit)
    }

    /// At most `limit` of so many bytes are read and compared; those that are not are none.
    fn equal_up_to(&mut self, address: Value, text: &str, read: usize, limit: Value) -> Ways {
        let have = self.blocks.value(Op::ReadStr { address, limit: Some(limit) }, string_type(read + 1));
        let want = self.blocks.value(Op::Str(text.to_owned()), string_type(text.len().max(1)));
        let same = self.blocks.value(Op::StrEq { a: have, b: want, negate: false, first: None }, Type::U64);
        Ways::of(self.blocks.branch(same))
    }

    /// The less of a number, taken for unsigned, and a constant.
    fn least(&mut self, number: Value, constant: i64) -> Value {
        let is_less = self.blocks.cmp_int(CmpOp::ULt, number, constant);
        let constant = self.blocks.int(constant);
        self.blocks.either(is_less, number, constant)
    }

    /// Where a text is; of one that is held, the text.
    pub(super) fn address(&mut self, have: Have) -> Value {
        match have {
            Have::Address(value) | Have::Held(value) => value,
            Have::Counted { address, count } => {
                let limit = self.least(count, COUNTED_BYTES_MAX as i64);
                let read = Op::ReadStr { address, limit: Some(limit) };
                self.blocks.value(read, string_type(COUNTED_BYTES_MAX + 1))
            }
            Have::Declared(slot) => self.blocks.value(Op::Builtin(Builtin::Slot(slot)), Type::U64),
        }
    }
}

/// As much of the text as one question takes, in whole characters.
fn beginning(text: &str) -> &str {
    let fits = (0..=TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
    &text[..fits.unwrap_or(0)]
}

/// There is no star, or one as the last character.
fn is_beginning(pattern: &Pattern) -> bool {
    pattern.plain().is_some() || pattern.prefix().is_some()
}

/// Whether the pattern stands for the text of address 0.
fn is_null_like(pattern: &Pattern) -> bool {
    match (pattern.plain(), pattern.prefix()) {
        (Some(text), _) => text.as_bytes() == NULL_TEXT,
        (None, Some(prefix)) => NULL_TEXT.starts_with(prefix.as_bytes()),
        (None, None) => automaton::glob(pattern).matches(NULL_TEXT),
    }
}

/// The text to compare with, and how many bytes of the field are looked at.
fn text_of(pattern: &Pattern) -> (&str, usize) {
    match (pattern.plain(), pattern.prefix()) {
        (Some(text), _) => (text, text.len() + 1),
        (None, Some(prefix)) => (prefix, prefix.len()),
        (None, None) => unreachable!("the check refuses other stars"),
    }
}

/// A string of so many bytes, in whole words.
fn string_type(bytes: usize) -> Type {
    Type::Str { bytes: bytes.next_multiple_of(8) as u32 }
}
