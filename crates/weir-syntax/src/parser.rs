//! Text → [`ast::Script`]. Never fails: what cannot be read is said once and skipped.
//!
//! A script is C text, an optional `config` block and clauses. Recovery is per statement: after a fault everything up to
//! the next `;` or `}` is skipped, and faults on the way are not reported, so that one slip gives one message and
//! the rest of the script is still read. Knows no builtin, function or probe kind; only the shape.

mod definition;
mod expr;
mod preamble;
mod probe;
pub(crate) mod role;
mod stmt;
mod type_name;

use std::collections::VecDeque;

use weir_source::{Diagnostic, SourceFile, Span};

pub use crate::parser::expr::KEYWORDS;

use crate::ast;
use crate::lexer::{Lexer, word_length};
use crate::limits;
use crate::parser::role::{Role, Roles};
use crate::token::{Token, TokenKind};

/// What the parser asks about words, as the text alone does not say it.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// A builtin: `sizeof(pid)` is of a value, `sizeof(pid_t)` of a type.
    pub is_value: fn(&str) -> bool,
    /// A kind of probes without a path: a `/` in their second part starts the predicate.
    pub is_without_path: fn(&str) -> bool,
}

/// Reads a script. The diagnostics are in the order of the text; there is no `Invalid` node without one.
pub fn parse(file: &SourceFile, words: Words) -> (ast::Script, Vec<Diagnostic>) {
    let (script, _, diagnostics) = parse_with_roles(file, words);
    (script, diagnostics)
}

/// The same, with what the tokens are. Without diagnostics the roles are complete.
pub(crate) fn parse_with_roles(file: &SourceFile, words: Words) -> (ast::Script, Roles, Vec<Diagnostic>) {
    if file.text.len() > limits::SCRIPT_BYTES_MAX {
        let message = format!(
            "script is too long: {} bytes, the limit is {}",
            file.text.len(),
            limits::SCRIPT_BYTES_MAX
        );
        let script = ast::Script { incomplete: true, ..ast::Script::default() };
        return (script, Roles::default(), vec![Diagnostic::error(Span::new(0, 0), message)]);
    }
    let mut parser = Parser {
        lexer: Lexer::new(&file.text),
        words,
        ahead: VecDeque::new(),
        diagnostics: Vec::new(),
        recovering: false,
        depth: 0,
        ended: false,
        c: Vec::new(),
        roles: Roles::default(),
        ends_in_value: false,
    };
    let mut script = parser.script();
    script.c = parser.c_text();
    let mut diagnostics = parser.diagnostics;
    diagnostics.append(&mut parser.lexer.diagnostics);
    diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
    diagnostics.dedup();
    script.incomplete = !diagnostics.is_empty();
    diagnostics.truncate(limits::DIAGNOSTICS_MAX);
    (script, parser.roles, diagnostics)
}

/// The state of one parse.
struct Parser<'a> {
    lexer: Lexer<'a>,
    words: Words,
    /// Tokens read but not taken.
    ahead: VecDeque<Token>,
    diagnostics: Vec<Diagnostic>,
    /// Set by a fault until the end of the statement; nothing more is reported meanwhile.
    recovering: bool,
    /// Open levels of blocks, brackets and prefix operators.
    depth: u32,
    /// It has been said that the text ends too early, or that it was left early.
    ended: bool,
    /// Where C text stands.
    c: Vec<Span>,
    roles: Roles,
    /// The statement read last has no `;`.
    ends_in_value: bool,
}

impl Parser<'_> {
    fn script(&mut self) -> ast::Script {
        let mut script = ast::Script::default();
        loop {
            self.back_to_text();
            self.recovering = false;
            self.lexer.skip_blank();
            let start = self.lexer.position;
            let rest = &self.lexer.text[start..];
            if rest.is_empty() {
                return script;
            }
            self.roles.items.insert(start);
            if self.c_text_ahead() {
                if !script.clauses.is_empty() {
                    let span = Span::new(start, start + 1);
                    self.fault(
                        span,
                        "the C text must stand before all probes",
                        "move it to the top of the script",
                    );
                }
            } else if self.at_config() {
                let config = self.config();
                if script.config.is_some() || !script.clauses.is_empty() {
                    self.fault(
                        config.span,
                        "the config block must come first, and once",
                        "move it to the top of the script",
                    );
                } else {
                    script.config = Some(config);
                }
            } else if !self.definition(&mut script) {
                script.clauses.extend(self.clause());
            }
        }
    }

    /// Attach points, predicate and block. None if there is nothing to run.
    fn clause(&mut self) -> Option<ast::Clause> {
        let start = self.lexer.position;
        let probes = self.attach_points();
        self.lexer.skip_blank();
        let at = self.lexer.position;
        let predicate = if self.lexer.text[at..].starts_with('/') {
            self.roles.set(at, Role::Predicate);
            self.predicate()
        } else {
            None
        };
        if !self.peek().is("{") {
            let found = self.found();
            let span = self.peek_span();
            let message = format!("expected `{{`, `,` or `/` after the probe, found {found}");
            self.fault(span, &message, "a program is `probe /predicate/ { statements }`");
            self.recovering = true;
            self.skip_past_block();
            return None;
        }
        let body = self.block();
        if probes.is_empty() {
            return None;
        }
        let span = Span::new(start, body.span.end as usize);
        Some(ast::Clause { probes, predicate, body, span })
    }

    fn predicate(&mut self) -> Option<ast::Expr> {
        let slash = Span::new(self.lexer.position, self.lexer.position + 1);
        self.lexer.position += 1;
        if self.peek().is("{") {
            self.fault(slash, "the predicate is not closed", "write `/condition/ {`");
            return None;
        }
        let expr = self.expr();
        if *self.peek() == TokenKind::EndPredicate {
            self.bump();
        } else {
            let found = self.found();
            let span = self.peek_span();
            self.fault(
                span,
                &format!("expected `/` and `{{` after the predicate, found {found}"),
                "write `/condition/ {`",
            );
            while !self.peek().is("{") && *self.peek() != TokenKind::Eof {
                self.bump();
            }
        }
        self.recovering = false;
        Some(expr)
    }

    /// The word at the position, unless it is the kind of an attach point.
    fn keyword_ahead(&self) -> &str {
        let rest = &self.lexer.text[self.lexer.position..];
        let (word, after) = rest.split_at(word_length(rest));
        if after.starts_with(':') { "" } else { word }
    }

    fn at_config(&mut self) -> bool {
        let rest = &self.lexer.text[self.lexer.position..];
        let Some(after) = rest.strip_prefix("config") else { return false };
        let after = after.trim_start();
        after.starts_with('=') && !after.starts_with("==")
    }

    fn config(&mut self) -> ast::Config {
        let start = self.bump().span;
        self.bump();
        let mut entries = Vec::new();
        let open = self.peek_span();
        self.roles.set(open.start as usize, Role::Block);
        if !self.expect("{", "after `config =`") {
            self.skip_past_block();
            return ast::Config { entries, span: start };
        }
        loop {
            match self.peek() {
                TokenKind::Eof => {
                    self.fault(start, "the config block is not closed", "add `}`");
                    break;
                }
                kind if kind.is("}") => break,
                kind if kind.is(";") => {
                    self.bump();
                }
                _ => entries.extend(self.config_entry()),
            }
        }
        let end = self.bump().span;
        ast::Config { entries, span: start.to(end) }
    }

    fn config_entry(&mut self) -> Option<ast::ConfigEntry> {
        let key = self.bump();
        let entry = if key.kind != TokenKind::Ident {
            self.fault(key.span, "expected the name of a setting", "write `config = { max_strlen = 200; }`");
            None
        } else if self.expect("=", "after the name of a setting") {
            let value = self.expr();
            let key = ast::Name { text: self.text_of(key.span), span: key.span };
            Some(ast::ConfigEntry { key, value })
        } else {
            None
        };
        if !self.recovering && !self.peek().is(";") && !self.peek().is("}") {
            let found = self.found();
            let span = self.peek_span();
            self.fault(
                span,
                &format!("expected `;` after the setting, found {found}"),
                "end each setting with `;`",
            );
        }
        self.recover();
        entry
    }

    // Tokens.

    fn peek(&mut self) -> &TokenKind {
        &self.peek_at(0).kind
    }

    fn peek_span(&mut self) -> Span {
        self.peek_at(0).span
    }

    fn peek_at(&mut self, index: usize) -> &Token {
        while self.ahead.len() <= index {
            let token = self.lexer.next();
            self.ahead.push_back(token);
        }
        &self.ahead[index]
    }

    /// Takes the next token. At the end it is the end again.
    fn bump(&mut self) -> Token {
        self.peek_at(0);
        if self.ahead[0].kind == TokenKind::Eof {
            return self.ahead[0].clone();
        }
        // SANITY: peek_at(0) put one there.
        self.ahead.pop_front().expect("a token is ahead")
    }

    fn eat(&mut self, punct: &str) -> bool {
        let there = self.peek().is(punct);
        if there {
            self.bump();
        }
        there
    }

    fn expect(&mut self, punct: &str, place: &str) -> bool {
        if self.eat(punct) {
            return true;
        }
        let found = self.found();
        let span = self.peek_span();
        self.fault(
            span,
            &format!("expected `{punct}` {place}, found {found}"),
            &format!("write `{punct}` here"),
        );
        false
    }

    /// Back from tokens to text, to read an attach point.
    fn back_to_text(&mut self) {
        if let Some(token) = self.ahead.pop_front() {
            self.lexer.position = token.span.start as usize;
            self.ahead.clear();
        }
    }

    fn text_of(&self, span: Span) -> String {
        self.lexer.text[span.start as usize..span.end as usize].to_string()
    }

    /// The next token as a message names it.
    fn found(&mut self) -> String {
        let token = self.peek_at(0).clone();
        match token.kind {
            TokenKind::Eof => "the end of the script".to_string(),
            _ => {
                let text: String = self.text_of(token.span).chars().take(32).collect();
                format!("`{}`", text.escape_debug().to_string().replace("\\\"", "\""))
            }
        }
    }

    // Faults.

    /// Reports a fault that makes the rest of the statement unreadable.
    fn fault(&mut self, span: Span, message: &str, hint: &str) {
        // A token that the lexer refused has been reported already.
        let reported = self.ahead.front().is_some_and(|t| t.kind == TokenKind::Invalid && t.span == span);
        let after_end = self.ended && self.ahead.front().is_some_and(|t| t.kind == TokenKind::Eof);
        let room = self.diagnostics.len() < limits::DIAGNOSTICS_GATHERED_MAX;
        if room && !self.recovering && !reported && !after_end {
            self.diagnostics.push(Diagnostic::error(span, message).with_hint(hint));
        }
        self.recovering = true;
    }

    /// Runs `read` one level deeper, or reports that there are too many.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth == limits::NESTING_MAX {
            let span = self.peek_span();
            self.too_deep(span);
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }

    /// Ends the parse: what follows would only be more of the same.
    fn too_deep(&mut self, span: Span) {
        let message = format!("too deeply nested: the limit is {} levels", limits::NESTING_MAX);
        self.fault(span, &message, "use scratch variables for the parts");
        self.recovering = true;
        self.ended = true;
        self.ahead.clear();
        self.lexer.position = self.lexer.text.len();
    }

    /// After a fault: skips to the end of the statement, past a `;` but not past a `}`.
    fn recover(&mut self) {
        if !self.recovering {
            return;
        }
        let mut open = 0u32;
        loop {
            let kind = self.peek().clone();
            if kind == TokenKind::Eof || (open == 0 && kind.is("}")) {
                break;
            }
            self.bump();
            if kind.is("{") {
                open += 1;
            } else if kind.is("}") {
                open -= 1;
                if open == 0 {
                    break;
                }
            } else if open == 0 && kind.is(";") {
                break;
            }
        }
        self.recovering = false;
    }

    /// After a fault outside of blocks: skips past the next block, or past a `;` before one.
    fn skip_past_block(&mut self) {
        let mut open = 0u32;
        loop {
            let kind = self.bump().kind;
            if kind.is("{") {
                open += 1;
            } else if kind.is("}") {
                open = open.saturating_sub(1);
            }
            if kind == TokenKind::Eof || (open == 0 && (kind.is("}") || kind.is(";"))) {
                return;
            }
        }
    }
}
