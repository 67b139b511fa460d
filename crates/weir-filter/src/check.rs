//! Names and types: [`Ast`] × [`Schema`] → [`Checked`], or every fault.
//!
//! - Fields, their parts and contexts exist ([`name`]). In LTTng's dialect what does not makes the filter false, as there, but
//!   is told.
//! - Operators have operands of their kinds; in weir's dialect conditions are no numbers, and a number with a fraction is no
//!   condition.
//! - Strings are compared with constants, labels of an enumeration are its labels ([`compare`]).
//! - A comparison that no value of the field's type fulfils is a fault, and so is an item of a list ([`list`]).
//! - Regular expressions become automata here, where one that is wrong or too large can be told.

mod compare;
mod list;
mod name;

use std::collections::HashMap;
use std::sync::Arc;

use weir_event::schema::{self, Schema};
use weir_ir::{Automaton, Builtin};
use weir_source::{Diagnostic, Span};

use crate::ast::{Ast, BinaryOp, NodeId, NodeKind, Pattern, UnaryOp};
use crate::automaton;
use crate::{Dialect, limits};

/// A filter whose names are resolved, and where each type fits.
#[derive(Debug)]
pub struct Checked {
    pub(crate) dialect: Dialect,
    /// By node.
    pub(crate) kinds: Vec<Kind>,
    /// What a list, or the label that an enumeration is compared with, stands for.
    pub(crate) sets: HashMap<NodeId, Set>,
    /// By node of a regular expression.
    pub(crate) automata: HashMap<NodeId, Arc<Automaton>>,
    /// A name is not there: nothing is ever kept.
    pub(crate) is_false: bool,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A whole number; with the place it is read from, if it is read.
    Int {
        signed: bool,
        from: Option<Place>,
    },
    /// A floating-point number; where it is read, 4 or 8 bytes of it.
    Double {
        from: Option<(Place, u8)>,
    },
    /// 0 or 1; only in weir's dialect.
    Bool,
    Str {
        from: Text,
    },
    Pattern,
    Regex,
    /// What a fault was told of, or a name that is not there.
    Unknown,
}

/// Where a number is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Builtin(Builtin),
    /// Bytes so far behind the address in a slot.
    Memory {
        slot: u8,
        offset: u64,
        bytes: u8,
        signed: bool,
        /// The element of a sequence, whose number of elements is in the next slot.
        element: Option<u64>,
    },
}

/// Where a string is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Text {
    /// At the address that is read from here.
    At(Place),
    /// At the address in this slot, and the program vouches for it.
    Declared(u8),
    /// The thread's name.
    Comm,
    /// Characters at the address in a slot: as many as an array has, or as the next slot says of a sequence, or up to a NUL before.
    Characters { slot: u8, count: Option<u32> },
}

/// Constants that a value is looked for among, ascending and apart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Set {
    /// From the first to the last.
    Ints(Vec<(i128, i128)>),
    Doubles(Vec<(f64, f64)>),
    Strings(Vec<Pattern>),
}

/// Looks at every node once, operands first. The second of the result are warnings.
pub fn check(
    ast: &Ast,
    dialect: Dialect,
    schema: &Schema,
) -> Result<(Checked, Vec<Diagnostic>), Vec<Diagnostic>> {
    let checked = Checked {
        dialect,
        kinds: Vec::new(),
        sets: HashMap::new(),
        automata: HashMap::new(),
        is_false: false,
    };
    let mut check =
        Check { ast, schema, checked, types: Vec::new(), faults: Vec::new(), warnings: Vec::new() };
    for index in 0..ast.nodes.len() {
        check.types.push(None);
        let kind = check.kind(NodeId(index as u32));
        check.checked.kinds.push(kind);
    }
    check.root();
    let Check { checked, mut faults, warnings, .. } = check;
    faults.truncate(limits::DIAGNOSTICS_MAX);
    if faults.is_empty() { Ok((checked, warnings)) } else { Err(faults) }
}

struct Check<'a> {
    ast: &'a Ast,
    schema: &'a Schema,
    checked: Checked,
    /// By node: the type of the field or of the part of one that it is.
    types: Vec<Option<&'a schema::Type>>,
    faults: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Check<'_> {
    fn root(&mut self) {
        let root = self.ast.root();
        match self.known(root) {
            Kind::Str { .. } | Kind::Pattern | Kind::Regex => {
                self.fault(root, "a string is no condition", "compare it: `name == \"a*\"`");
            }
            Kind::Double { from: None } if matches!(self.ast.node(root).kind, NodeKind::Float(_)) => {
                self.no_condition(root);
            }
            Kind::Double { .. } if self.is_lttng() => {
                let message = "LTTng takes no number with a fraction for a condition";
                self.never_passes(self.ast.node(root).span, message, "compare it: `x != 0`");
            }
            Kind::Double { .. } => self.no_condition(root),
            _ => {}
        }
        if let Some(clause) = self.ast.clauses.first().filter(|_| self.is_lttng()) {
            self.fault_at(clause.span, "LTTng's filters have no samples and no rates", LANGUAGE_HINT);
        }
    }

    fn no_condition(&mut self, at: NodeId) {
        let message = "a number with a fraction is no condition";
        self.fault(at, message, "compare it: `x != 0`");
    }

    fn kind(&mut self, id: NodeId) -> Kind {
        let ast = self.ast;
        let span = ast.node(id).span;
        match &ast.node(id).kind {
            NodeKind::Int(value) => {
                let signed = self.is_lttng() || i64::try_from(*value).is_ok();
                Kind::Int { signed, from: None }
            }
            NodeKind::Float(_) => Kind::Double { from: None },
            NodeKind::Str(pattern) => self.pattern(span, pattern),
            NodeKind::Regex(text) => self.regex(id, text),
            NodeKind::Field(path) => self.field(id, path),
            NodeKind::Context(name) => self.context(name, span),
            NodeKind::Unary(op, operand) => self.unary(*op, *operand),
            NodeKind::Binary(op, left, right) => self.binary(id, *op, *left, *right),
            NodeKind::In(operand, items) => self.list(id, *operand, items),
        }
    }

    fn pattern(&mut self, span: Span, pattern: &Pattern) -> Kind {
        let bytes: usize = pattern.pieces.iter().map(String::len).sum();
        if bytes > limits::STRING_BYTES_MAX {
            let limit = limits::STRING_BYTES_MAX;
            let message = format!("the string is too long: {bytes} bytes, the limit is {limit}");
            self.fault_at(span, &message, "compare with its beginning: `\"…*\"`");
        }
        Kind::Pattern
    }

    fn regex(&mut self, id: NodeId, text: &str) -> Kind {
        if self.is_lttng() {
            // Told once, of the operator.
            return Kind::Regex;
        }
        match automaton::regex(text) {
            Ok(automaton) => {
                self.checked.automata.insert(id, Arc::new(automaton));
            }
            Err(fault) => {
                let whole = self.ast.node(id).span;
                // Behind the quote. An escaped quote before it would move it, at most to the end.
                let place = |at: usize| (whole.start as usize + 1 + at).min(whole.end as usize);
                let span = fault.at.map_or(whole, |(from, to)| Span::new(place(from), place(to)));
                self.fault_at(span, &fault.message, fault.hint);
            }
        }
        Kind::Regex
    }

    fn unary(&mut self, op: UnaryOp, operand: NodeId) -> Kind {
        let symbol = op.symbol();
        match (op, self.known(operand)) {
            (_, Kind::Unknown) => Kind::Unknown,
            (_, Kind::Str { .. } | Kind::Pattern) if self.is_lttng() => {
                let message = format!("`{symbol}` is not for strings");
                self.never_passes(self.ast.node(operand).span, &message, "compare them with `==` or `!=`")
            }
            (_, Kind::Str { .. } | Kind::Pattern | Kind::Regex) => self.fault(
                operand,
                &format!("`{symbol}` is not for strings"),
                "compare them with `==` or `!=`",
            ),
            (UnaryOp::Not, Kind::Double { .. }) if !self.is_lttng() => {
                self.no_condition(operand);
                Kind::Unknown
            }
            (UnaryOp::Not, _) => self.truth(),
            (_, Kind::Bool) => {
                self.fault(operand, &format!("`{symbol}` is not for conditions"), "`!` negates a condition")
            }
            (UnaryOp::BitNot, Kind::Double { .. }) => self.not_for_doubles(operand, symbol),
            (_, Kind::Double { .. }) => Kind::Double { from: None },
            (UnaryOp::Minus, Kind::Int { .. }) => Kind::Int { signed: true, from: None },
            (_, Kind::Int { signed, .. }) => Kind::Int { signed, from: None },
        }
    }

    fn not_for_doubles(&mut self, at: NodeId, symbol: &str) -> Kind {
        let message = format!("`{symbol}` is not for numbers with a fraction");
        if self.is_lttng() {
            let hint = "such numbers are compared and negated, no more";
            return self.never_passes(self.ast.node(at).span, &message, hint);
        }
        self.fault(at, &message, "such numbers are compared and negated, no more")
    }

    /// Of what is 0 or 1.
    fn truth(&self) -> Kind {
        match self.checked.dialect {
            Dialect::Lttng => Kind::Int { signed: true, from: None },
            Dialect::Weir => Kind::Bool,
        }
    }

    fn binary(&mut self, id: NodeId, op: BinaryOp, left: NodeId, right: NodeId) -> Kind {
        let (a, b) = (self.known(left), self.known(right));
        let is_arithmetic =
            matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod);
        if (is_arithmetic || op.is_match()) && self.is_lttng() {
            let message = format!("LTTng's filters have no `{}`", op.symbol());
            return self.fault(id, &message, LANGUAGE_HINT);
        }
        if a == Kind::Unknown || b == Kind::Unknown {
            return Kind::Unknown;
        }
        if op.is_comparison() || op.is_match() {
            return self.comparison(id, op, (left, a), (right, b));
        }
        for (side, kind) in [(left, a), (right, b)] {
            let symbol = op.symbol();
            match kind {
                Kind::Str { .. } | Kind::Pattern if self.is_lttng() => {
                    let message = format!("`{symbol}` is not for strings");
                    let span = self.ast.node(side).span;
                    return self.never_passes(span, &message, "compare them with `==` or `!=`");
                }
                Kind::Str { .. } | Kind::Pattern | Kind::Regex => {
                    let message = format!("`{symbol}` is not for strings");
                    return self.fault(side, &message, "compare them with `==` or `!=`");
                }
                Kind::Bool if !op.is_logic() => {
                    let message = format!("`{symbol}` is not for conditions");
                    return self.fault(side, &message, "conditions are joined by `&&` and `||`");
                }
                Kind::Double { .. } if !op.is_logic() => return self.not_for_doubles(side, symbol),
                Kind::Double { .. } if !self.is_lttng() => {
                    self.no_condition(side);
                    return Kind::Unknown;
                }
                _ => {}
            }
        }
        if op.is_logic() { self.truth() } else { self.number(op, left, right) }
    }

    /// The kind of an arithmetic or bit operation: unsigned if an unsigned side meets one that is not, but for constants,
    /// which go with the other side. LTTng's are all signed.
    fn number(&self, op: BinaryOp, left: NodeId, right: NodeId) -> Kind {
        let signed = |id: NodeId| matches!(self.known(id), Kind::Int { signed: true, .. });
        let is_positive = |id: NodeId| matches!(self.ast.node(id).kind, NodeKind::Int(_)) && signed(id);
        let signed = match op {
            _ if self.is_lttng() => true,
            BinaryOp::Shl | BinaryOp::Shr => signed(left),
            _ if is_positive(left) => signed(right),
            _ if is_positive(right) => signed(left),
            _ => signed(left) && signed(right),
        };
        Kind::Int { signed, from: None }
    }

    fn is_lttng(&self) -> bool {
        self.checked.dialect == Dialect::Lttng
    }

    /// Of an operand, which was looked at before.
    fn known(&self, id: NodeId) -> Kind {
        self.checked.kinds[id.0 as usize]
    }

    fn fault(&mut self, at: NodeId, message: &str, hint: &str) -> Kind {
        self.fault_at(self.ast.node(at).span, message, hint)
    }

    fn fault_at(&mut self, span: Span, message: &str, hint: &str) -> Kind {
        self.faults.push(Diagnostic::error(span, message).with_hint(hint));
        Kind::Unknown
    }

    /// What makes LTTng's filters false without a word is a warning.
    fn never_passes(&mut self, span: Span, message: &str, hint: &str) -> Kind {
        self.checked.is_false = true;
        self.warn(span, format!("{message}, so that nothing passes the filter"), hint);
        Kind::Unknown
    }

    fn warn(&mut self, span: Span, message: String, hint: &str) {
        if self.warnings.len() < limits::DIAGNOSTICS_MAX {
            self.warnings.push(Diagnostic::warning(span, message).with_hint(hint));
        }
    }
}

/// Of what only weir's dialect has.
const LANGUAGE_HINT: &str = "`--dialect weir` has arithmetic, `=~`, `in`, samples and rates";
