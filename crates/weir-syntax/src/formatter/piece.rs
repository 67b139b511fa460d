//! Text and roles → pieces: tokens, comments, attach points and C text, in their order, each with the text that it will have.
//!
//! Here `;` is added behind the last statement of a block, and left out where no statement is before it. White space is gone; what is kept of it is
//! how many ends of lines there were.

use std::borrow::Cow;

use crate::lexer::Lexer;
use crate::parser::role::{Role, Roles};
use crate::token::TokenKind;

/// What is written as it stands, without white space around it.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub text: Cow<'a, str>,
    pub kind: Kind,
    /// A part of the script begins here.
    pub is_item: bool,
    /// Ends of lines before it in the source: 0, 1, or 2 for more.
    pub newlines: u8,
    /// Blocks around it; of a brace, those around its block.
    pub depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// `#!…`
    Shebang,
    /// `// …`, to the end of its line.
    LineComment,
    /// `/* … */`
    BlockComment,
    C,
    Probe,
    PredicateStart,
    PredicateEnd,
    /// A name or a keyword.
    Word,
    Number,
    /// A part of a tuple: the number behind a point.
    Part,
    Str,
    /// A scratch variable or a map.
    Place,
    /// `$1` or `$#`.
    Param,
    /// `-`, `!`, `~` and `*` before their operand, and `++` and `--` before theirs.
    Prefix,
    /// `++` and `--` behind their operand.
    Postfix,
    /// An operator between two operands.
    Binary,
    TypePointer,
    Open(Brace),
    Close(Brace),
    /// Any other operator or bracket.
    Punct,
}

/// What a pair of braces has between it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Brace {
    /// The statements of a clause.
    Clause,
    /// Statements, or settings.
    Block,
    /// Statements and a value.
    Value,
}

impl Piece<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Punct | Kind::Binary | Kind::Word)
    }

    pub(super) fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::BlockComment)
    }

    /// A statement or a setting ends here.
    pub(super) fn ends_stmt(&self) -> bool {
        self.is(";") || matches!(self.kind, Kind::Close(Brace::Block | Brace::Clause))
    }

    /// No statement is behind it yet, whose `;` could come.
    fn is_between_stmts(&self) -> bool {
        self.ends_stmt() || matches!(self.kind, Kind::Open(_))
    }
}

/// The pieces of a script that the parser has read without a fault.
pub(super) fn pieces<'a>(text: &'a str, roles: &Roles) -> Vec<Piece<'a>> {
    let mut reader = Reader {
        text,
        roles,
        lexer: Lexer::new(text),
        open: Vec::new(),
        pieces: Vec::new(),
        last: None,
        newlines: 0,
        c_start: 0,
    };
    let shebang = &text[..reader.lexer.position];
    if !shebang.is_empty() {
        reader.push(shebang, Kind::Shebang, false);
        reader.last = Some(0);
    }
    while reader.next() {}
    set_steps(&mut reader.pieces);
    reader.pieces
}

struct Reader<'a, 'b> {
    text: &'a str,
    roles: &'b Roles,
    lexer: Lexer<'a>,
    open: Vec<Brace>,
    pieces: Vec<Piece<'a>>,
    /// The last piece that is no comment.
    last: Option<usize>,
    /// Ends of lines since the last piece.
    newlines: u8,
    /// Where the C text begins that is the last piece.
    c_start: usize,
}

impl<'a> Reader<'a, '_> {
    /// Reads the comments and the token that are next. False at the end.
    fn next(&mut self) -> bool {
        loop {
            let before = self.lexer.position;
            let comment = self.lexer.comment();
            let start = comment.map_or(self.lexer.position, |span| span.start as usize);
            self.count_newlines(&self.text[before..start]);
            let Some(span) = comment else { break };
            let comment = &self.text[start..span.end as usize];
            let kind = if comment.starts_with("//") { Kind::LineComment } else { Kind::BlockComment };
            self.push(comment.trim_end(), kind, false);
        }
        let start = self.lexer.position;
        if start == self.text.len() {
            return false;
        }
        let is_item = self.open.is_empty() && self.roles.items.contains(&start);
        match self.roles.at(start) {
            Some(Role::C { end }) => self.c(start, end),
            Some(Role::Probe { end }) => {
                self.lexer.position = end;
                self.push(&self.text[start..end], Kind::Probe, is_item);
            }
            Some(Role::Predicate) => {
                self.lexer.position = start + 1;
                self.push("/", Kind::PredicateStart, false);
            }
            role => {
                self.token(role, is_item);
                return true;
            }
        }
        self.last = Some(self.pieces.len() - 1);
        true
    }

    fn token(&mut self, role: Option<Role>, is_item: bool) {
        let token = self.lexer.next();
        let text = &self.text[token.span.start as usize..token.span.end as usize];
        let last = self.last.map(|last| &self.pieces[last]);
        let kind = match (&token.kind, role) {
            (TokenKind::Punct("{"), role) => Kind::Open(match role {
                Some(Role::ValueBlock) => Brace::Value,
                _ if last.is_some_and(|last| matches!(last.kind, Kind::Probe | Kind::PredicateEnd)) => {
                    Brace::Clause
                }
                _ => Brace::Block,
            }),
            // SANITY: the parser has matched the braces.
            (TokenKind::Punct("}"), _) => Kind::Close(self.open.pop().expect("a brace is open")),
            (TokenKind::Punct(_), Some(Role::BinaryOp)) => Kind::Binary,
            (TokenKind::Punct(_), Some(Role::TypePointer)) => Kind::TypePointer,
            (TokenKind::Punct("-" | "!" | "~" | "*" | "++" | "--"), _) => Kind::Prefix,
            (TokenKind::Punct(_), _) => Kind::Punct,
            (TokenKind::EndPredicate, _) => Kind::PredicateEnd,
            (TokenKind::Ident, _) => Kind::Word,
            (TokenKind::Int(_) | TokenKind::Double(_), _) => {
                let is_part = last.is_some_and(|last| last.is("."));
                if is_part { Kind::Part } else { Kind::Number }
            }
            (TokenKind::Str(_), _) => Kind::Str,
            (TokenKind::Variable | TokenKind::Map, _) => Kind::Place,
            (TokenKind::Param(_) | TokenKind::ParamCount, _) => Kind::Param,
            // SANITY: the parser has taken every token, and no fault.
            (TokenKind::Invalid | TokenKind::Eof, _) => unreachable!("the script has no fault"),
        };
        if kind == Kind::Punct && text == ";" && last.is_none_or(Piece::is_between_stmts) {
            return;
        }
        if let Kind::Close(Brace::Clause | Brace::Block) = kind {
            self.end_stmt();
        }
        self.push(text, kind, is_item);
        self.last = Some(self.pieces.len() - 1);
        if let Kind::Open(brace) = kind {
            self.open.push(brace);
        }
    }

    /// Adds the `;` that may be missing before a `}`, in front of the comments that stand there.
    fn end_stmt(&mut self) {
        let Some(last) = self.last.filter(|last| !self.pieces[*last].is_between_stmts()) else { return };
        let depth = self.pieces[last].depth;
        let end = Piece { text: ";".into(), kind: Kind::Punct, is_item: false, newlines: 0, depth };
        self.pieces.insert(last + 1, end);
        self.last = Some(last + 1);
    }

    /// C text, with the blanks that indent its first line, and without the end of its last. What is on one line stays on one.
    fn c(&mut self, start: usize, end: usize) {
        self.lexer.position = end;
        let before = &self.text[..start];
        let blanks = before.len() - before.trim_end_matches([' ', '\t']).len();
        let begins_line = blanks == start || before[..start - blanks].ends_with('\n');
        let is_behind_c = self.pieces.last().is_some_and(|last| last.kind == Kind::C) && self.newlines == 0;
        if is_behind_c {
            self.pieces.pop();
        } else {
            self.c_start = if begins_line { start - blanks } else { start };
        }
        let text = &self.text[self.c_start..end];
        let without_end = text.strip_suffix('\n');
        self.push(without_end.unwrap_or(text), Kind::C, true);
        self.newlines = u8::from(without_end.is_some());
    }

    fn push(&mut self, text: &'a str, kind: Kind, is_item: bool) {
        let (newlines, depth) = (self.newlines, self.open.len());
        self.pieces.push(Piece { text: text.into(), kind, is_item, newlines, depth });
        self.newlines = 0;
    }

    /// A `;` that is left out may stand on a line of its own, which is then no empty one.
    fn count_newlines(&mut self, space: &str) {
        let here = space.bytes().filter(|byte| *byte == b'\n').count().min(2) as u8;
        let is_behind_c = self.pieces.last().is_some_and(|last| last.kind == Kind::C);
        self.newlines = if is_behind_c { (self.newlines + here).min(2) } else { self.newlines.max(here) };
    }
}

/// Tells `++` and `--` behind their operand from those before it: an operand follows these.
fn set_steps(pieces: &mut [Piece<'_>]) {
    let mut is_operand = false;
    for piece in pieces.iter_mut().rev().filter(|piece| !piece.is_comment()) {
        if piece.kind == Kind::Prefix && piece.text.len() == 2 && !is_operand {
            piece.kind = Kind::Postfix;
        }
        is_operand = piece.kind == Kind::Place || piece.is("(");
    }
}
