//! Script text in bpftrace's language → a checked [`weir_ir::Module`].
//!
//! [`parse`] reads text to a tree and never fails (weir-syntax); [`expand`](mod@expand) puts macros, functions and imports in where they are
//! called; [`check::check()`] resolves names, types and attach points; [`lower()`] writes the IR of what was checked. [`compile`] is the four in a
//! row, with the faults of all of them at once; [`check()`] is the first three.
//!
//! - Every fault is a diagnostic at the exact text, with a hint; what bpftrace has and weir has not is named so.
//! - Pure: the binaries and functions that attach points name are asked of a [`World`].
//! - Hostile text gives errors, never a panic or unbounded work ([`limits`]).
//!
//! docs/language.md is the user's page.

#![forbid(unsafe_code)]

mod unsupported;

mod expand;

pub mod builtin;
mod format;
mod types;

mod attach;
mod check;
mod config;
mod kernel;
mod lower;

mod limits;
mod syntax;

use weir_ir::{Module, World};
use weir_source::{Diagnostic, Severity, SourceFile};

use crate::check::Checked;
pub use crate::config::fault_of;
use crate::expand::Expanded;
use crate::lower::lower;
pub use crate::syntax::{format, parse};
pub use weir_syntax::ast;

/// What may be set outside of the script. A `config` block in it wins over the numbers, and `settings` over both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of a string that `str` reads, its NUL included.
    pub max_strlen: u32,
    /// Entries of each keyed map.
    pub max_map_keys: u32,
    /// `$1` and so on.
    pub params: Vec<String>,
    /// What `getopt` gives, by name; without a value: true.
    pub named: Vec<(String, Option<String>)>,
    /// The script is run with a command that weir starts.
    pub has_command: bool,
    /// The script may have weir act on the system.
    pub allows_unsafe: bool,
    /// Comparisons and the like are true or false, as from bpftrace 0.24 on; else 1 or 0.
    pub has_truths: bool,
    /// Headers that are read before the script's own C text.
    pub headers: Vec<String>,
    /// Settings of the `config` block by their names, as bpftrace has them in its environment.
    pub settings: Vec<(String, String)>,
    /// What becomes of what is the kernel's.
    pub kernel: Kernel,
}

/// What becomes of probes of the kernel's, and of what only programs there have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kernel {
    /// It is refused: programs run in processes.
    #[default]
    Refused,
    /// It is checked, and left out of what is compiled.
    Checked,
    /// It runs, as far as weir has it.
    Runs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_strlen: 1024,
            max_map_keys: 4096,
            params: Vec::new(),
            named: Vec::new(),
            has_command: false,
            allows_unsafe: false,
            has_truths: false,
            headers: Vec::new(),
            settings: Vec::new(),
            kernel: Kernel::default(),
        }
    }
}

/// Text → IR and warnings, or every fault found (errors and warnings, in the order of the text).
pub fn compile(
    file: &SourceFile,
    options: &Options,
    world: &dyn World,
) -> Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (expanded, checked, mut diagnostics) = read(file, options, world);
    let Some(checked) = checked else { return Err(diagnostics) };
    let module = lower(file, &expanded, &checked);
    for function in &module.functions {
        let (values, blocks) = (function.types.len(), function.blocks.len());
        if values > limits::FUNCTION_VALUES_MAX || blocks > limits::FUNCTION_BLOCKS_MAX {
            let message = format!(
                "the clause is too long: {values} values in {blocks} blocks, the limits are {} and {}",
                limits::FUNCTION_VALUES_MAX,
                limits::FUNCTION_BLOCKS_MAX
            );
            let span = expanded.origins.place(function.span);
            diagnostics.push(Diagnostic::error(span, message).with_hint("split it into several clauses"));
            return Err(diagnostics);
        }
    }
    Ok((module, diagnostics))
}

/// Where a script's clauses can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events {
    /// Some are at events of the kernel's, or ask where it has something.
    pub of_kernel: bool,
    /// Some are at functions or static probes of processes.
    pub of_processes: bool,
}

/// Where the script's clauses can run. Of a text that cannot be read, as far as it can.
pub fn events(file: &SourceFile, world: &dyn World) -> Events {
    let clauses = expand::expand(parse(file).0, file, world).script.clauses;
    let mut events = Events::default();
    for clause in &clauses {
        events.of_kernel |= clause.probes.iter().any(attach::is_of_kernel) || names_its_memory(clause);
        events.of_processes |= clause.probes.iter().any(attach::is_of_process);
    }
    events
}

/// The clause says where the kernel has something.
fn names_its_memory(clause: &ast::Clause) -> bool {
    let mut open: Vec<&ast::Expr> = clause.predicate.iter().chain(ast::of_block(&clause.body)).collect();
    while let Some(expr) = open.pop() {
        if matches!(&expr.kind, ast::ExprKind::Call { function, .. } if function.text == kernel::KADDR) {
            return true;
        }
        open.extend(ast::children(&expr.kind));
    }
    false
}

/// What [`compile`] says of a text before it writes IR: everything but that a clause is too long.
pub fn check(file: &SourceFile, options: &Options, world: &dyn World) -> Vec<Diagnostic> {
    read(file, options, world).2
}

/// Text → what was checked, unless a diagnostic is an error.
fn read(
    file: &SourceFile,
    options: &Options,
    world: &dyn World,
) -> (Expanded, Option<Checked>, Vec<Diagnostic>) {
    let (script, mut diagnostics) = parse(file);
    let mut expanded = expand::expand(script, file, world);
    let mut options = options.clone();
    options.headers.append(&mut expanded.headers);
    let (checked, more) = check::check(&expanded.script, &options, world);
    diagnostics.append(&mut expanded.diagnostics);
    diagnostics.extend(more);
    let origins = &expanded.origins;
    diagnostics = diagnostics.into_iter().map(|diagnostic| origins.restore(diagnostic)).collect();
    // Where there are too many, errors are kept rather than warnings.
    diagnostics.sort_by_key(|d| d.severity == Severity::Warning);
    diagnostics.truncate(limits::DIAGNOSTICS_MAX);
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    diagnostics.dedup();
    let sound = diagnostics.iter().all(|d| d.severity == Severity::Warning);
    (expanded, checked.filter(|_| sound), diagnostics)
}

#[cfg(test)]
mod tests;
