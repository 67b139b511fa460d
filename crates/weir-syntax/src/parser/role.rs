//! What the tokens of a script are, by their offsets: what the tree leaves out and the formatter must know.
//!
//! A token that is not here is told by its text alone.

use std::collections::{BTreeMap, BTreeSet};

/// What stands where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Roles {
    roles: BTreeMap<usize, Role>,
    /// Where the parts of the script begin: C text, `config`, definitions and clauses.
    pub items: BTreeSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A directive or a declaration of C.
    C { end: usize },
    /// An attach point.
    Probe { end: usize },
    /// The `/` that begins a predicate.
    Predicate,
    /// A `{` whose statements all end in `;`, or in a `}` of their own.
    Block,
    /// A `{` whose last statement may be a value, which no `;` ends.
    ValueBlock,
    /// An operator between two operands.
    BinaryOp,
    /// A `*` of a type.
    TypePointer,
}

impl Roles {
    pub(crate) fn set(&mut self, at: usize, role: Role) {
        self.roles.insert(at, role);
    }

    pub(crate) fn at(&self, at: usize) -> Option<Role> {
        self.roles.get(&at).copied()
    }
}
