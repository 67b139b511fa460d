//! A script → the same script in weir's style: `weir fmt`.
//!
//! In: any text. Out: the text of a script that means the same, or the faults of one that cannot be read. Pieces (tokens and comments,
//! [`piece`]) get what stands between them ([`spacing`]), and become lines ([`mod@line`]).
//!
//! - The style is that of bpftrace's tools: attach points, predicate and `{` on lines of their own, one statement a line, an empty line
//!   between clauses, two blanks a level: what `bpftrace --fmt` makes (0.27), but that it also leaves out round brackets, moves comments and wraps
//!   lines at other places.
//! - Lines of more than 100 columns are wrapped, at best behind commas, `&&` and `||`, and go on four columns further in. Those that are longer all the
//!   same have comments or one long token, or are of a block more than 30 levels deep.
//! - Kept: comments and their order, one of several empty lines, the first line `#!…`, literals as they were written, round brackets, and C text
//!   byte for byte.
//! - `;` is added behind the last statement of a block, and taken away where no statement is before it. Nothing else is added or taken away.
//! - What has been formatted stays as it is.
//!
//! Deliberately not done: names and literals are not rewritten, comments and strings not wrapped, C text not formatted.

mod line;
mod piece;
mod spacing;

use weir_source::{Diagnostic, SourceFile, Span};

use crate::ast;
use crate::formatter::piece::Piece;
use crate::limits;
use crate::parser::{Words, parse_with_roles};

/// The script of `file` in weir's style, or every fault that keeps it from being read.
///
/// ```
/// use weir_syntax::{Words, format};
///
/// let words = Words { is_value: |_| false, is_without_path: |_| false };
/// let text = "BEGIN{@x=1;print(@x)}".to_owned();
/// let file = weir_source::SourceFile { name: "a.bt".to_owned(), text };
/// assert_eq!(format(&file, words).unwrap(), "BEGIN\n{\n  @x = 1;\n  print(@x);\n}\n");
/// ```
pub fn format(file: &SourceFile, words: Words) -> Result<String, Vec<Diagnostic>> {
    let (script, roles, diagnostics) = parse_with_roles(file, words);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let pieces = piece::pieces(&file.text, &roles);
    let gaps = spacing::gaps(&pieces);
    let text = line::lines(&pieces, &gaps);
    if text.len() > limits::SCRIPT_BYTES_MAX {
        let message = format!(
            "the formatted script would be too long: {} bytes, the limit is {}",
            text.len(),
            limits::SCRIPT_BYTES_MAX
        );
        return Err(vec![Diagnostic::error(Span::new(0, 0), message).with_hint("split it with `import`")]);
    }
    check(&script, &pieces, &file.name, &text, words);
    Ok(text)
}

/// What is about to replace the user's file means the same, and has the same comments.
fn check(script: &ast::Script, pieces: &[Piece<'_>], name: &str, formatted: &str, words: Words) {
    let file = SourceFile { name: name.to_owned(), text: formatted.to_owned() };
    let (read, roles, faults) = parse_with_roles(&file, words);
    assert!(faults.is_empty(), "a formatted script can be read: {faults:?}\n{formatted}");
    assert_eq!(ast::print(&read), ast::print(script), "a formatted script means the same:\n{formatted}");
    let read = piece::pieces(&file.text, &roles);
    assert!(comments(&read).eq(comments(pieces)), "a formatted script keeps its comments:\n{formatted}");
}

/// The lines of all comments, without what indents them.
fn comments<'a>(pieces: &'a [Piece<'_>]) -> impl Iterator<Item = &'a str> {
    pieces.iter().filter(|piece| piece.is_comment()).flat_map(|piece| piece.text.lines().map(str::trim))
}
