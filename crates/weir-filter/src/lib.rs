//! A filter's text → a [`weir_ir::Module`] with one function that says whether an event is kept.
//!
//! [`parse`] reads the text to a tree, [`check()`] resolves names and types against the event's schema, [`lower()`] writes the IR of
//! what was checked; [`compile`] is the three in a row. The function's trigger is [`weir_ir::Trigger::Filter`]: it reads the
//! event's raw fields from their slots, only those that are used, and ends in `accept` or `return`.
//!
//! Two dialects of one grammar: LTTng's own, with its meaning down to the odd corners, and weir's, with types.
//!
//! - Every fault is a diagnostic at the exact text, with a hint; a comparison that can never be true is one.
//! - Hostile text gives errors, never a panic, deep recursion or unbounded work ([`limits`]).
//!
//! Deliberately not here: eBPF, processes, where events come from. docs/filter.md is the user's page.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod token;

mod lexer;

pub mod ast;
mod parser;
pub mod usage;

mod automaton;
mod number;

mod check;
mod lower;

mod limits;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use weir_event::schema::Schema;
use weir_ir::{Automaton, Module};
use weir_source::Diagnostic;

pub use crate::check::{Checked, check};
pub use crate::lower::lower;
pub use crate::parser::parse;

/// What finds a regular expression in texts, or why there is nothing such: what is wrong, and a hint.
pub fn regular_expression(expression: &str) -> Result<Automaton, String> {
    automaton::regex(expression).map_err(|fault| format!("{}; {}", fault.message, fault.hint))
}

/// What a filter's operators mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// LTTng's: integers are signed and have 64 bits, `&&` gives its right side's value, an error makes the whole filter false.
    Lttng,
    /// Typed: unsigned fields compare as what they are, there is arithmetic, an error makes the comparison false.
    #[default]
    Weir,
}

impl Dialect {
    /// Every dialect, in the order in which they are listed.
    pub const ALL: [Dialect; 2] = [Dialect::Lttng, Dialect::Weir];

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Lttng => "lttng",
            Dialect::Weir => "weir",
        }
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Dialect::Lttng => "As LTTng has it",
            Dialect::Weir => "With types",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Dialect, String> {
        let named = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
        named.ok_or(format!("there is no dialect `{}`", name.escape_debug()))
    }
}

/// Text → IR and warnings, or every fault found.
pub fn compile(
    text: &str,
    dialect: Dialect,
    schema: &Schema,
) -> Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>> {
    let ast = parse(text).map_err(|fault| vec![fault])?;
    let (checked, warnings) = check(&ast, dialect, schema)?;
    let module = lower(&ast, &checked);
    let function = &module.functions[0];
    let (values, blocks) = (function.types.len(), function.blocks.len());
    if let Some(fault) = too_many_automata(&ast, &module) {
        return Err(vec![fault]);
    }
    if values > limits::VALUES_MAX || blocks > limits::BLOCKS_MAX {
        let (most_values, most_blocks) = (limits::VALUES_MAX, limits::BLOCKS_MAX);
        let message = format!(
            "the filter is too large: {values} values in {blocks} blocks, the limits are {most_values} and {most_blocks}"
        );
        let fault = Diagnostic::error(ast.node(ast.root()).span, message);
        return Err(vec![fault.with_hint("split it into several filters")]);
    }
    Ok((module, warnings))
}

/// Stars, orders and regular expressions need tables and time: there is so much of both.
fn too_many_automata(ast: &ast::Ast, module: &Module) -> Option<Diagnostic> {
    let count = lower::matching::automata(module).count();
    let tables: HashSet<_> = lower::matching::automata(module).collect();
    let bytes: usize = tables.iter().map(|table| limits::AUTOMATON_BYTES + 4 * table.rows.len()).sum();
    let (most, most_bytes) = (limits::MATCHES_MAX, limits::AUTOMATA_BYTES_MAX);
    let message = if count > most {
        format!(
            "the filter matches too often: {count} stars, orders and regular expressions, the limit is {most}"
        )
    } else if bytes > most_bytes {
        format!("the filter's patterns are too large: {bytes} bytes of tables, the limit is {most_bytes}")
    } else {
        return None;
    };
    let fault = Diagnostic::error(ast.node(ast.root()).span, message);
    Some(fault.with_hint("one regular expression such as `(one|two)` does the work of several"))
}
