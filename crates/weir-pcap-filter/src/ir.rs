//! The intermediate representation: values of a packet, and tests of them.
//!
//! A [`Value`] is pure: a constant, the packet's length, bytes of it, or what arithmetic makes of others. Equal values have equal
//! ids ([`Values`]). A load whose bytes are not all captured, and a division by zero, have no value. In compatible expressions that rejects
//! the packet there and then: what they do on short packets depends on the order of their tests, which [`Pred`] keeps. In scoped
//! expressions such a test fails.
//!
//! All arithmetic has 32 bits and no sign, and wraps. A shift by 32 or more gives 0. An offset does not wrap: base and offset of
//! a load are added without loss.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::ast::Operator;

/// A value in [`Values`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueId(pub u32);

/// Bytes of a load, which is big endian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    Byte,
    Half,
    Word,
}

impl Width {
    /// How many bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
        }
    }
}

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Metadata {
    /// Linux's `PACKET_HOST`, `PACKET_OUTGOING` and so on.
    PacketType,
    /// The interface's index.
    Ifindex,
}

/// What the context of a scoped program says of its packet: fields of the kernel's `struct __sk_buff`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ContextField {
    /// Linux's `PACKET_HOST`, `PACKET_OUTGOING` and so on.
    PacketType,
    /// The interface's index.
    Ifindex,
    /// One more than the number of the queue that it was received from; 0: that is not known.
    QueueMapping,
    Hash,
}

impl ContextField {
    pub(crate) const ALL: [ContextField; 4] =
        [ContextField::PacketType, ContextField::Ifindex, ContextField::QueueMapping, ContextField::Hash];

    /// As the structure names it.
    pub fn name(self) -> &'static str {
        match self {
            ContextField::PacketType => "pkt_type",
            ContextField::Ifindex => "ifindex",
            ContextField::QueueMapping => "queue_mapping",
            ContextField::Hash => "hash",
        }
    }
}

/// Where the chain of extension headers of the IP header at `base` + `offset` ends, in one number ([`upper`]). There is none where the IP
/// header has no extension header after it, nor where bytes of the chain are missing.
///
/// After an IPv6 header, extension headers are those of [`upper::KINDS`], of which [`EXTENSIONS_MAX`](crate::limits::EXTENSIONS_MAX) are
/// followed; after an IPv4 header that is no later fragment, authentication headers alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Upper {
    pub base: Option<ValueId>,
    pub offset: u32,
    pub is_ipv6: bool,
}

impl Upper {
    /// Bytes that are read of the IP header in any case.
    pub(crate) fn header_bytes(&self) -> u32 {
        if self.is_ipv6 { 7 } else { 10 }
    }
}

/// The parts of the number that [`Upper`] is.
pub mod upper {
    /// The protocol after the chain.
    pub const PROTOCOL: u32 = 0xff;
    /// Extension headers (RFC 8200, RFC 4302): hop-by-hop options, routing, fragment, authentication, destination options.
    pub const KINDS: [u32; 5] = [0, 43, FRAGMENT, AUTHENTICATION, 60];
    pub const FRAGMENT: u32 = 44;
    pub const AUTHENTICATION: u32 = 51;
    /// The header of that protocol is not in this packet, but in the first fragment.
    pub const LATER_FRAGMENT: u32 = 0x4000;
    /// Bits that the offset of that header, from the IP header on, is shifted left by.
    pub const OFFSET_SHIFT: u32 = 16;
    /// The bit of a kind that the chain has is this one, shifted left by these bits of the kind's number, of which all are different.
    pub const FIRST_BIT: u32 = 0x0100;
    pub const KIND_SHIFT: u32 = 2;
    pub const KIND_MASK: u32 = 7;

    /// Whether headers of that kind are followed.
    pub fn is_extension(kind: u32, is_ipv6: bool) -> bool {
        if is_ipv6 { KINDS.contains(&kind) } else { kind == AUTHENTICATION }
    }

    /// The bit that says that the chain has a header of that kind.
    pub fn bit(kind: u32) -> u32 {
        FIRST_BIT << (kind >> KIND_SHIFT & KIND_MASK)
    }
}

/// One value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    Const(u32),
    /// Numbers, in order, the right side of [`Comparison::Eq`]: the left side equals one of them.
    Set(Arc<[u32]>),
    /// The length on the wire.
    Len,
    /// Big endian bytes at `base` + `offset`.
    Load {
        base: Option<ValueId>,
        offset: u32,
        width: Width,
    },
    /// Four times the low half of the byte at `offset`: the length of an IPv4 header.
    HeaderLength {
        offset: u32,
    },
    /// `by_register`: the right side was computed, which is another value than the same constant written down. (It matters to
    /// libpcap's notion of equal tests alone.)
    Binary {
        operator: Operator,
        left: ValueId,
        right: ValueId,
        by_register: bool,
    },
    Negate(ValueId),
    Metadata(Metadata),
    Context(ContextField),
    Upper(Upper),
    /// `then` if the test holds, `otherwise` if not; only the one that is chosen is evaluated.
    If {
        test: Test,
        then: ValueId,
        otherwise: ValueId,
    },
}

/// A comparison of two values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Test {
    pub comparison: Comparison,
    pub left: ValueId,
    pub right: ValueId,
    /// As in [`Value::Binary`].
    pub by_register: bool,
}

/// How values are compared, without sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    Eq,
    Gt,
    Ge,
    /// They have a bit in common.
    Set,
}

/// A condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pred {
    Test(Test),
    /// All, from left to right; the first that fails decides.
    And(Vec<Pred>),
    /// One, from left to right; the first that holds decides.
    Or(Vec<Pred>),
    Not(Box<Pred>),
    Chain(Chain),
    /// Holds; the value is evaluated here, and kept.
    Need(ValueId),
    /// Holds where the inner one does not, be it for want of bytes: the `not` of scoped expressions. (Under [`Pred::Not`] a test of bytes
    /// that are missing fails all the same.)
    Fails(Box<Pred>),
}

/// Whether a protocol is in the chain of headers from an IP header on: `protochain`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Chain {
    /// IPv6 headers, or an IPv4 header (authentication headers may follow either).
    pub is_ipv6: bool,
    pub protocol: u32,
    /// Byte offset of the IP header.
    pub header: u32,
}

impl Pred {
    pub(crate) fn not(self) -> Pred {
        match self {
            Pred::Not(inner) => *inner,
            other => Pred::Not(Box::new(other)),
        }
    }

    pub(crate) fn and(self, other: Pred) -> Pred {
        Pred::And(vec![self, other])
    }

    pub(crate) fn or(self, other: Pred) -> Pred {
        Pred::Or(vec![self, other])
    }
}

/// All values of a program.
#[derive(Clone, Default, Debug)]
pub struct Values {
    list: Vec<Value>,
    ids: HashMap<Value, ValueId>,
}

impl Values {
    /// The id of a value.
    pub fn add(&mut self, value: Value) -> ValueId {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let id = ValueId(self.list.len() as u32);
        self.list.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    /// How many there are: ids are below.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether there is such a value.
    pub fn has(&self, value: &Value) -> bool {
        self.ids.contains_key(value)
    }

    /// The value of an id.
    pub fn get(&self, id: ValueId) -> &Value {
        &self.list[id.0 as usize]
    }

    /// What a constant is.
    pub fn constant(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Const(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self, value: u32) -> ValueId {
        self.add(Value::Const(value))
    }

    pub(crate) fn binary(&mut self, operator: Operator, left: ValueId, right: u32) -> ValueId {
        let right = self.number(right);
        self.add(Value::Binary { operator, left, right, by_register: false })
    }

    /// A value as text; those that are kept by their numbers.
    pub(crate) fn show(&self, id: ValueId, kept: &BTreeSet<ValueId>) -> String {
        if kept.contains(&id) { format!("v{}", id.0) } else { self.show_fresh(id, kept) }
    }

    /// What a value is made of.
    pub(crate) fn show_fresh(&self, id: ValueId, kept: &BTreeSet<ValueId>) -> String {
        let show = |id| self.show(id, kept);
        match self.get(id) {
            Value::Const(value) => format!("{value:#x}"),
            Value::Set(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:#x}")).collect();
                format!("any of {{{}}}", numbers.join(", "))
            }
            Value::Len => "len".to_owned(),
            Value::Load { base, offset, width } => {
                let base = base.map(|base| format!("{} + ", show(base))).unwrap_or_default();
                format!("load{}[{base}{offset}]", 8 * width.bytes())
            }
            Value::HeaderLength { offset } => format!("4*([{offset}]&0xf)"),
            Value::Binary { operator, left, right, .. } => {
                format!("({} {operator} {})", show(*left), show(*right))
            }
            Value::Negate(inner) => format!("-{}", show(*inner)),
            Value::Metadata(Metadata::PacketType) => "packet_type".to_owned(),
            Value::Metadata(Metadata::Ifindex) => "ifindex".to_owned(),
            Value::Context(field) => field.name().to_owned(),
            Value::Upper(Upper { base, offset, is_ipv6 }) => {
                let base = base.map(|base| format!("{} + ", show(base))).unwrap_or_default();
                format!("upper{}[{base}{offset}]", if *is_ipv6 { 6 } else { 4 })
            }
            Value::If { test, then, otherwise } => {
                format!("({} ? {} : {})", self.show_test(*test, kept), show(*then), show(*otherwise))
            }
        }
    }

    /// A test as text.
    pub(crate) fn show_test(&self, test: Test, kept: &BTreeSet<ValueId>) -> String {
        let sign = match test.comparison {
            Comparison::Eq => "==",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
            Comparison::Set => "has",
        };
        format!("{} {sign} {}", self.show(test.left, kept), self.show(test.right, kept))
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Sub => "-",
            Operator::Mul => "*",
            Operator::Div => "/",
            Operator::Mod => "%",
            Operator::And => "&",
            Operator::Or => "|",
            Operator::Xor => "^",
            Operator::Lsh => "<<",
            Operator::Rsh => ">>",
        })
    }
}

/// What an operator gives; None: the packet is rejected.
pub fn calculate(operator: Operator, left: u32, right: u32) -> Option<u32> {
    Some(match operator {
        Operator::Add => left.wrapping_add(right),
        Operator::Sub => left.wrapping_sub(right),
        Operator::Mul => left.wrapping_mul(right),
        Operator::Div => left.checked_div(right)?,
        Operator::Mod => left.checked_rem(right)?,
        Operator::And => left & right,
        Operator::Or => left | right,
        Operator::Xor => left ^ right,
        Operator::Lsh => left.checked_shl(right).unwrap_or(0),
        Operator::Rsh => left.checked_shr(right).unwrap_or(0),
    })
}

impl Comparison {
    /// Whether it holds.
    pub fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Comparison::Eq => left == right,
            Comparison::Gt => left > right,
            Comparison::Ge => left >= right,
            Comparison::Set => left & right != 0,
        }
    }
}
