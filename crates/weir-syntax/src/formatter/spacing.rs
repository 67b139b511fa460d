//! Pieces → what stands between them: nothing, a blank, or the end of a line.
//!
//! Between two tokens this is the style's alone. Comments keep where they stood: behind something on its line, or on a line of their own.

use crate::formatter::piece::{Brace, Kind, Piece};
use crate::lexer::Lexer;

/// Columns of a level, and of a line that goes on.
pub(super) const INDENT: usize = 2;
pub(super) const CONTINUATION: usize = 4;

/// What stands before a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gap {
    Glue,
    Blank,
    /// The piece begins a line, indented by so many columns; an empty one may be before it.
    Line {
        indent: usize,
        is_apart: bool,
    },
}

/// What the style has between two tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Separation {
    Glue,
    Blank,
    /// A new line.
    Line,
    /// A new line, and an empty one before it if the source has one.
    Lines,
    /// A new line and an empty one before it.
    Apart,
}

/// What stands before each piece.
pub(super) fn gaps(pieces: &[Piece<'_>]) -> Vec<Gap> {
    let mut gaps = Vec::with_capacity(pieces.len());
    let mut before = None;
    while gaps.len() < pieces.len() {
        let start = gaps.len();
        let comments = pieces[start..].iter().take_while(|piece| piece.is_comment()).count();
        let next = pieces.get(start + comments);
        gaps_between(before, &pieces[start..start + comments], next, &mut gaps);
        before = next;
    }
    gaps
}

/// The gaps before each of `comments`, and before `next`; what stands before the file's first piece does not matter.
fn gaps_between(
    before: Option<&Piece<'_>>,
    comments: &[Piece<'_>],
    next: Option<&Piece<'_>>,
    gaps: &mut Vec<Gap>,
) {
    let separation = match (before, next) {
        (Some(before), Some(next)) => separation(before, next, !comments.is_empty()),
        _ => Separation::Lines,
    };
    let breaks = breaks(before, comments, next, separation);
    let goes_on = matches!(separation, Separation::Glue | Separation::Blank);
    let is_outside =
        next.is_none_or(|next| matches!(next.kind, Kind::Open(_) | Kind::Close(_)) || next.is("else"));
    let first = breaks.iter().position(|is_break| *is_break);
    let last = breaks.iter().rposition(|is_break| *is_break);
    // An empty line that the source has, where there may be one.
    let keeps = |index: usize, piece: &Piece<'_>| {
        let is_first =
            before.is_some_and(|before| matches!(before.kind, Kind::Open(_))) && Some(index) == first;
        let is_last = next.is_some_and(|next| matches!(next.kind, Kind::Close(_))) && Some(index) == last;
        matches!(separation, Separation::Lines | Separation::Apart)
            && piece.newlines > 1
            && !is_first
            && !is_last
    };
    let all = || comments.iter().chain(next).enumerate();
    let has_empty = all().any(|(index, piece)| breaks[index] && keeps(index, piece));
    for (index, piece) in all() {
        gaps.push(if breaks[index] {
            let continuation = if goes_on && !is_outside { CONTINUATION } else { 0 };
            let is_apart =
                keeps(index, piece) || separation == Separation::Apart && !has_empty && Some(index) == first;
            Gap::Line { indent: piece.depth * INDENT + continuation, is_apart }
        } else if piece.is_comment() || index > 0 {
            beside_comment(if index == 0 { before } else { comments.get(index - 1) }, piece)
        } else if separation == Separation::Glue {
            Gap::Glue
        } else {
            Gap::Blank
        });
    }
}

/// Which of the gaps before each of `comments` and before `next` are ends of lines.
fn breaks(
    before: Option<&Piece<'_>>,
    comments: &[Piece<'_>],
    next: Option<&Piece<'_>>,
    separation: Separation,
) -> Vec<bool> {
    let is_break = |(index, piece): (usize, &Piece<'_>)| {
        let is_behind_line = index > 0 && comments[index - 1].kind == Kind::LineComment;
        // The source's own ends of lines count beside comments.
        !comments.is_empty() && (piece.newlines > 0 || is_behind_line)
    };
    let mut breaks: Vec<bool> = comments.iter().chain(next).enumerate().map(is_break).collect();
    let is_needed = before.is_some() && !matches!(separation, Separation::Glue | Separation::Blank);
    if let Some(next) = next
        && is_needed
        && !breaks.contains(&true)
    {
        // A comment on one line with both is about what comes, except at a brace.
        let is_brace = matches!(next.kind, Kind::Open(_) | Kind::Close(_));
        breaks[if is_brace { comments.len() } else { 0 }] = true;
    }
    breaks
}

/// Between a comment and what is on the same line.
fn beside_comment(before: Option<&Piece<'_>>, piece: &Piece<'_>) -> Gap {
    let is_open = before.is_none_or(|before| before.is("(") || before.is("["));
    match is_open || [",", ";", ")", "]"].iter().any(|end| piece.is(end)) {
        true => Gap::Glue,
        false => Gap::Blank,
    }
}

fn separation(before: &Piece<'_>, next: &Piece<'_>, has_comments: bool) -> Separation {
    if next.is_item {
        return between_items(before, next);
    }
    match (before.kind, next.kind) {
        (Kind::Shebang, _) => Separation::Lines,
        (Kind::Probe, Kind::Punct) => Separation::Glue,
        (Kind::Probe | Kind::PredicateEnd, _) | (_, Kind::Probe) => Separation::Line,
        // Of a macro or a function.
        (_, Kind::Open(_)) if next.depth == 0 && !before.is("=") => Separation::Line,
        (Kind::Open(Brace::Block | Brace::Value), Kind::Close(_)) if !has_comments => Separation::Glue,
        (Kind::Open(_), _) | (_, Kind::Close(_)) => Separation::Lines,
        _ if before.ends_stmt() && !next.is("else") => Separation::Lines,
        _ if is_glued(before, next) && !is_one_token(before, next) => Separation::Glue,
        _ => Separation::Blank,
    }
}

/// Between parts of the script: those with braces stand apart.
fn between_items(before: &Piece<'_>, next: &Piece<'_>) -> Separation {
    let has_braces = next.kind == Kind::Probe || ["config", "macro", "fn", "subprog"].contains(&&*next.text);
    let is_behind_braces = matches!(before.kind, Kind::Close(_));
    match before.kind != Kind::Shebang && (has_braces || is_behind_braces) {
        true => Separation::Apart,
        false => Separation::Lines,
    }
}

/// Nothing is between these two, within a statement.
fn is_glued(before: &Piece<'_>, next: &Piece<'_>) -> bool {
    let is_any = |piece: &Piece<'_>, of: &[&str]| of.iter().any(|text| piece.is(text));
    let begins_operand =
        matches!(next.kind, Kind::Word | Kind::Number | Kind::Str | Kind::Place | Kind::Param | Kind::Prefix);
    match (before.kind, next.kind) {
        (Kind::PredicateStart, _) | (_, Kind::PredicateEnd) => true,
        _ if is_any(next, &[")", "]", ";", ","]) || is_any(before, &["(", "["]) => true,
        // `1 .0` is no fraction.
        _ if is_any(next, &["."]) => before.kind != Kind::Number,
        _ if is_any(next, &["->", "..", "["]) || is_any(before, &[".", "->", ".."]) => true,
        (_, Kind::Postfix) | (Kind::Prefix, _) => true,
        (Kind::TypePointer, Kind::TypePointer) => true,
        _ if before.is("?") && next.is(":") => true,
        // A call.
        (Kind::Word, _) if next.is("(") => {
            !is_any(before, &["if", "comptime", "while", "for", "unroll", "return"])
        }
        // A cast.
        _ if before.is(")") => next.is("(") || begins_operand,
        _ => false,
    }
}

/// Without a blank between them they would be read as something else: `- -1`, `/ *p`.
fn is_one_token(before: &Piece<'_>, next: &Piece<'_>) -> bool {
    let text = format!("{}{}", before.text, next.text);
    let mut lexer = Lexer { text: &text, position: 0, diagnostics: Vec::new() };
    lexer.next();
    lexer.position != before.text.len()
}
