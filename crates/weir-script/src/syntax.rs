//! The syntax ([`weir_syntax`]) with the words of the language.

use weir_source::{Diagnostic, SourceFile};
use weir_syntax::Words;
use weir_syntax::ast::Script;

use crate::{attach, builtin, kernel};

/// What the tables of the language say of words.
const WORDS: Words = Words {
    is_value: |word| builtin::variable(word).is_some() || builtin::is_stack(word),
    is_without_path: |kind| attach::WITHOUT_PATH.contains(&kind) || kernel::kind(kind).is_some(),
};

/// Reads a script. The diagnostics are in the order of the text; there is no `Invalid` node without one.
pub fn parse(file: &SourceFile) -> (Script, Vec<Diagnostic>) {
    weir_syntax::parse(file, WORDS)
}

/// The script of `file` in weir's style, or every fault that keeps it from being read.
pub fn format(file: &SourceFile) -> Result<String, Vec<Diagnostic>> {
    weir_syntax::format(file, WORDS)
}
