//! Statements and blocks.

use weir_source::Span;

use crate::ast::{ASSIGN_OPS, Block, Expr, ExprKind, MapRef, Name, Stmt, StmtKind};
use crate::parser::Parser;
use crate::parser::role::Role;
use crate::token::TokenKind;

impl Parser<'_> {
    /// A block; the next token is its `{`.
    pub(super) fn block(&mut self) -> Block {
        let open = self.bump().span;
        self.roles.set(open.start as usize, Role::Block);
        let stmts = self.nested(|parser| parser.stmts(open)).unwrap_or_default();
        self.recover();
        let close = self.peek_span();
        self.eat("}");
        Block { stmts, span: open.to(close) }
    }

    fn stmts(&mut self, open: Span) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        loop {
            match self.peek() {
                TokenKind::Eof => {
                    self.fault(open, "the block is not closed", "add `}`");
                    self.ended = true;
                    return stmts;
                }
                kind if kind.is("}") => return stmts,
                kind if kind.is(";") => {
                    self.bump();
                }
                _ => stmts.push(self.stmt()),
            }
        }
    }

    fn stmt(&mut self) -> Stmt {
        let start = self.peek_span();
        let word = if *self.peek() == TokenKind::Ident { self.text_of(start) } else { String::new() };
        let (kind, needs_end) = match word.as_str() {
            "if" => (self.if_stmt(), false),
            "let" => (self.let_stmt(), true),
            "return" => (self.return_stmt(), true),
            "while" => (self.while_stmt(), false),
            "for" => (self.for_stmt(), false),
            "unroll" => (self.unroll_stmt(), false),
            "break" => (self.word_stmt(StmtKind::Break), true),
            "continue" => (self.word_stmt(StmtKind::Continue), true),
            "else" => {
                self.fault(start, "`else` without an `if`", "write `if (…) { … } else { … }`");
                (StmtKind::Invalid, false)
            }
            _ if self.peek().is("{") => (StmtKind::Block(self.block()), false),
            _ => (self.simple_stmt(), true),
        };
        let end = self.end_of_stmt(needs_end);
        let kind =
            if self.recovering && !matches!(kind, StmtKind::If { .. }) { StmtKind::Invalid } else { kind };
        self.recover();
        Stmt { kind, span: start.to(end) }
    }

    /// Takes the `;`. Where it is missing, says so and goes on with what follows. Returns where the statement ends.
    fn end_of_stmt(&mut self, needs_end: bool) -> Span {
        let next = self.peek_span();
        let is_ended = self.recovering || !needs_end || self.eat(";");
        // A block's last statement has said it.
        self.ends_in_value = if needs_end { !is_ended } else { self.ends_in_value && !self.recovering };
        if is_ended || self.peek().is("}") || *self.peek() == TokenKind::Eof {
            return Span { start: next.start, end: next.start };
        }
        let found = self.found();
        self.fault(next, &format!("expected `;` or `}}`, found {found}"), "end each statement with `;`");
        // Reading on here, instead of skipping, finds the faults of the next statement. An unmatched closing
        // bracket would only be reported twice.
        self.recovering = self.peek().is(")") || self.peek().is("]") || self.peek().is("=");
        Span { start: next.start, end: next.start }
    }

    fn if_stmt(&mut self) -> StmtKind {
        let next = self.peek_at(1).clone();
        let is_static = next.kind == TokenKind::Ident && self.text_of(next.span) == "comptime";
        if is_static {
            self.bump();
        }
        let Some((condition, then)) = self.expr_and_block("the condition of `if`") else {
            return StmtKind::Invalid;
        };
        let otherwise = self.otherwise();
        StmtKind::If { condition, then, otherwise, is_static }
    }

    /// What stands before a block is unreadable; the block may not be. False if there is none.
    fn recovers_at_brace(&mut self) -> bool {
        if !self.recovering {
            return true;
        }
        while !matches!(self.peek(), TokenKind::Eof) && !["{", "}", ";"].iter().any(|p| self.peek().is(p)) {
            self.bump();
        }
        self.recovering = !self.peek().is("{");
        !self.recovering
    }

    fn word_stmt(&mut self, kind: StmtKind) -> StmtKind {
        self.bump();
        kind
    }

    /// A keyword's expression and block; `what` is the expression to a reader.
    fn expr_and_block(&mut self, what: &str) -> Option<(Expr, Block)> {
        self.bump();
        let expr = self.expr();
        if !self.recovers_at_brace() {
            return None;
        }
        Some((expr, self.braced(what)?))
    }

    fn while_stmt(&mut self) -> StmtKind {
        match self.expr_and_block("the condition of `while`") {
            Some((condition, body)) => StmtKind::While { condition, body },
            None => StmtKind::Invalid,
        }
    }

    fn unroll_stmt(&mut self) -> StmtKind {
        match self.expr_and_block("the number of `unroll`") {
            Some((count, body)) => StmtKind::Unroll { count, body },
            None => StmtKind::Invalid,
        }
    }

    fn for_stmt(&mut self) -> StmtKind {
        self.bump();
        let head = self.for_head();
        if !self.recovers_at_brace() {
            return StmtKind::Invalid;
        }
        match (head, self.braced("the range of `for`")) {
            (Some((variable, Over::Range(range))), Some(body)) => {
                let (from, to) = *range;
                StmtKind::For { variable, from, to, body }
            }
            (Some((variable, Over::Map(map))), Some(body)) => StmtKind::ForMap { variable, map, body },
            _ => StmtKind::Invalid,
        }
    }

    /// `($i : 0..10)` or `($kv : @map)`, or the same without round brackets.
    fn for_head(&mut self) -> Option<(Name, Over)> {
        const HINT: &str = "write `for ($i : 0..10) { … }` or `for ($kv : @map) { … }`";
        let has_bracket = self.eat("(");
        let token = self.bump();
        if token.kind != TokenKind::Variable {
            self.fault(token.span, "expected a scratch variable after `for`", HINT);
            return None;
        }
        let variable = Name { text: self.text_of(token.span), span: token.span };
        if !self.expect(":", "after the variable of `for`") {
            return None;
        }
        let end = if has_bracket { ")" } else { "{" };
        let over = if *self.peek() == TokenKind::Map && self.peek_at(1).kind.is(end) {
            let span = self.bump().span;
            Over::Map(Name { text: self.text_of(span), span })
        } else {
            let from = self.expr();
            if self.recovering || !self.expect("..", "between the ends of the range") {
                return None;
            }
            Over::Range(Box::new((from, self.expr())))
        };
        if self.recovering || has_bracket && !self.expect(")", "after what `for` goes over") {
            return None;
        }
        Some((variable, over))
    }

    fn otherwise(&mut self) -> Option<Block> {
        if *self.peek() != TokenKind::Ident {
            return None;
        }
        let span = self.peek_span();
        if self.text_of(span) != "else" {
            return None;
        }
        self.bump();
        let next = self.peek_span();
        if *self.peek() == TokenKind::Ident && self.text_of(next) == "if" {
            let kind = self.nested(|parser| parser.if_stmt()).unwrap_or(StmtKind::Invalid);
            let end = self.peek_span();
            let span = next.to(Span { start: end.start, end: end.start });
            return Some(Block { stmts: vec![Stmt { kind, span }], span });
        }
        self.braced("`else`")
    }

    fn braced(&mut self, after: &str) -> Option<Block> {
        if self.peek().is("{") {
            return Some(self.block());
        }
        let found = self.found();
        let span = self.peek_span();
        self.fault(
            span,
            &format!("expected `{{` after {after}, found {found}"),
            "the braces are never optional",
        );
        None
    }

    fn let_stmt(&mut self) -> StmtKind {
        self.bump();
        let token = self.bump();
        if token.kind != TokenKind::Variable {
            self.fault(token.span, "expected a scratch variable after `let`", "write `let $name = value;`");
            return StmtKind::Invalid;
        }
        let variable = Name { text: self.text_of(token.span), span: token.span };
        let ty = if self.eat(":") { self.type_name() } else { None };
        let value = if !self.recovering && self.eat("=") { Some(self.expr()) } else { None };
        StmtKind::Let { variable, ty, value }
    }

    fn return_stmt(&mut self) -> StmtKind {
        self.bump();
        let has_value = !self.peek().is(";") && !self.peek().is("}") && *self.peek() != TokenKind::Eof;
        StmtKind::Return(has_value.then(|| self.expr()))
    }

    /// `_ =`, which has what follows evaluated and its value left.
    fn discards(&mut self) -> bool {
        let span = self.peek_span();
        *self.peek() == TokenKind::Ident && self.peek_at(1).kind.is("=") && self.text_of(span) == "_"
    }

    /// An expression or an assignment.
    fn simple_stmt(&mut self) -> StmtKind {
        if self.discards() {
            self.bump();
            self.bump();
            return StmtKind::Expr(self.expr());
        }
        let target = self.expr();
        if self.recovering {
            return StmtKind::Invalid;
        }
        let op = match self.peek() {
            TokenKind::Punct("=") => None,
            TokenKind::Punct(punct) => match ASSIGN_OPS.iter().find(|(symbol, _)| symbol == punct) {
                Some((_, op)) => Some(*op),
                None => return StmtKind::Expr(target),
            },
            _ => return StmtKind::Expr(target),
        };
        let Some(place) = place_of(target) else {
            let span = self.peek_span();
            self.fault(
                span,
                "only a map or a scratch variable can be assigned to",
                "write `@name = …` or `$name = …`",
            );
            return StmtKind::Invalid;
        };
        self.bump();
        let value = self.expr();
        match place {
            Place::Variable(variable) => StmtKind::AssignVariable { variable, op, value },
            Place::Map(map) => StmtKind::AssignMap { map, op, value },
        }
    }
}

/// What a `for` goes over.
enum Over {
    Range(Box<(Expr, Expr)>),
    Map(Name),
}

enum Place {
    Variable(Name),
    Map(MapRef),
}

fn place_of(expr: Expr) -> Option<Place> {
    match expr.kind {
        ExprKind::Variable(text) => Some(Place::Variable(Name { text, span: expr.span })),
        ExprKind::Map(map) => Some(Place::Map(map)),
        _ => None,
    }
}
