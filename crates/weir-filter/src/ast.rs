//! The syntax tree: what was written, with a span on every node, names not resolved.
//!
//! Nodes lie in one list, operands before what uses them, so that whoever only looks at each once goes through the list and
//! needs no recursion.

mod print;

use weir_source::Span;

pub(crate) use crate::ast::print::{item_text, path_text};
pub use crate::ast::print::{text, tree};

/// A whole filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Ast {
    pub(crate) nodes: Vec<Node>,
    /// What only some of the events that fulfil the condition pass, in order.
    pub(crate) clauses: Vec<Clause>,
}

/// Index of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

/// One expression of a filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Where it stands in the text.
    pub span: Span,
    /// Operators on the longest way down.
    pub(crate) depth: u32,
}

/// Kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeKind {
    /// A number without a fraction.
    Int(u64),
    /// A number with one.
    Float(f64),
    /// A string, in which stars may stand for anything.
    Str(Pattern),
    /// Behind `=~` and `!~`: as written, without the quotes.
    Regex(String),
    /// A field of the event.
    Field(Path),
    /// `$ctx.name`, without the `$ctx.`.
    Context(String),
    /// An operator before its operand.
    Unary(UnaryOp, NodeId),
    /// An operator between its operands.
    Binary(BinaryOp, NodeId, NodeId),
    /// `x in (1, 2, 10..20)`.
    In(NodeId, Vec<Item>),
}

/// A field, or a part of one: `a.b[3]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// Of the field.
    pub name: String,
    /// From there to the part that is meant.
    pub steps: Vec<Step>,
}

/// One way further into a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// A member or an element.
    pub kind: StepKind,
    /// Where it stands in the text.
    pub span: Span,
}

/// Kinds of steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// `.name`.
    Member(String),
    /// `[3]`.
    Index(u64),
}

/// A constant of a list, or a range of them, to which both ends belong.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The value, or the first of a range.
    pub from: Constant,
    /// The last of a range; none: it is one value.
    pub to: Option<Constant>,
    /// Where it stands in the text.
    pub span: Span,
}

/// What `in` compares with.
#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    /// A number without a fraction, with its sign.
    Int(i128),
    /// A number with one.
    Float(f64),
    /// A string, in which stars may stand for anything.
    Str(Pattern),
}

/// Behind a filter's condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// What it asks for.
    pub kind: ClauseKind,
    /// Where it stands in the text.
    pub span: Span,
}

/// What may follow a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClauseKind {
    /// `sample 1/100`: so many of so many.
    Sample {
        /// So many.
        kept: u64,
        /// Of so many.
        of: u64,
    },
    /// `rate 100/s`: so many in a unit of time.
    Rate {
        /// So many.
        count: u64,
        /// In so long.
        unit: TimeUnit,
    },
}

/// Times in which events are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// `s`.
    Second,
    /// `m`.
    Minute,
    /// `h`.
    Hour,
}

impl TimeUnit {
    /// Each with its name and nanoseconds.
    pub const ALL: [(TimeUnit, &'static str, u64); 3] = [
        (TimeUnit::Second, "s", 1_000_000_000),
        (TimeUnit::Minute, "min", 60_000_000_000),
        (TimeUnit::Hour, "h", 3_600_000_000_000),
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        // SANITY: the table lists every unit.
        TimeUnit::ALL.iter().find(|(unit, ..)| *unit == self).expect("a row").1
    }

    /// How long it is.
    pub fn nanoseconds(self) -> u64 {
        // SANITY: the table lists every unit.
        TimeUnit::ALL.iter().find(|(unit, ..)| *unit == self).expect("a row").2
    }
}

/// A string constant, split at its stars: `a*b` has the pieces `a` and `b`, `a*` the pieces `a` and an empty one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Never empty.
    pub pieces: Vec<String>,
}

/// Operators before an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `!`.
    Not,
    /// `~`.
    BitNot,
}

/// Operators between operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Mod,
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `<<`.
    Shl,
    /// `>>`.
    Shr,
    /// `&`.
    BitAnd,
    /// `^`.
    BitXor,
    /// `|`.
    BitOr,
    /// `<`.
    Lt,
    /// `>`.
    Gt,
    /// `<=`.
    Le,
    /// `>=`.
    Ge,
    /// `=~` and `!~`: of a string and a regular expression.
    Match,
    /// `!~`.
    NoMatch,
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `&&`.
    And,
    /// `||`.
    Or,
}

/// Each with its symbol.
pub(crate) const UNARY_OPS: [(UnaryOp, &str); 4] =
    [(UnaryOp::Plus, "+"), (UnaryOp::Minus, "-"), (UnaryOp::Not, "!"), (UnaryOp::BitNot, "~")];

/// How tightly `in` binds: as comparisons by order do.
pub(crate) const IN_BINDING: u8 = 4;

/// Each with its symbol and how tightly it binds: `&`, `^` and `|` bind tighter than comparisons, unlike in C.
#[rustfmt::skip]
pub(crate) const BINARY_OPS: [(BinaryOp, &str, u8); 20] = [
    (BinaryOp::Mul, "*", 10), (BinaryOp::Div, "/", 10), (BinaryOp::Mod, "%", 10),
    (BinaryOp::Add, "+", 9), (BinaryOp::Sub, "-", 9),
    (BinaryOp::Shl, "<<", 8), (BinaryOp::Shr, ">>", 8),
    (BinaryOp::BitAnd, "&", 7), (BinaryOp::BitXor, "^", 6), (BinaryOp::BitOr, "|", 5),
    (BinaryOp::Lt, "<", 4), (BinaryOp::Gt, ">", 4), (BinaryOp::Le, "<=", 4), (BinaryOp::Ge, ">=", 4),
    (BinaryOp::Match, "=~", 4), (BinaryOp::NoMatch, "!~", 4),
    (BinaryOp::Eq, "==", 3), (BinaryOp::Ne, "!=", 3),
    (BinaryOp::And, "&&", 2), (BinaryOp::Or, "||", 1),
];

impl Ast {
    /// What the whole filter is.
    pub fn root(&self) -> NodeId {
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The expression of that number.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

impl Pattern {
    /// The text, if there is no star in it.
    pub fn plain(&self) -> Option<&str> {
        match &self.pieces[..] {
            [text] => Some(text),
            _ => None,
        }
    }

    /// The text before the only star, which is the last character.
    pub fn prefix(&self) -> Option<&str> {
        match &self.pieces[..] {
            [text, rest] if rest.is_empty() => Some(text),
            _ => None,
        }
    }
}

impl UnaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        // SANITY: the table lists every operator.
        UNARY_OPS.iter().find(|(op, _)| *op == self).expect("a row").1
    }
}

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        // SANITY: the table lists every operator.
        BINARY_OPS.iter().find(|(op, ..)| *op == self).expect("a row").1
    }

    /// It orders numbers, or tells equal from different.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Lt | Gt | Le | Ge | Eq | Ne)
    }

    /// Its right side is a regular expression.
    pub fn is_match(self) -> bool {
        matches!(self, BinaryOp::Match | BinaryOp::NoMatch)
    }

    /// Its right side may not be looked at.
    pub fn is_logic(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    /// The comparison with its sides exchanged; others stay.
    pub fn swapped(self) -> BinaryOp {
        match self {
            BinaryOp::Lt => BinaryOp::Gt,
            BinaryOp::Gt => BinaryOp::Lt,
            BinaryOp::Le => BinaryOp::Ge,
            BinaryOp::Ge => BinaryOp::Le,
            other => other,
        }
    }
}
