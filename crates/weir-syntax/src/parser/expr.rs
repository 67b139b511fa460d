//! Expressions, by precedence climbing over [`ast::BINARY_OPS`](crate::ast::BINARY_OPS).

use weir_source::Span;

use crate::ast::{
    BINARY_OPS, BinaryOp, Block, Expr, ExprKind, IntType, MapRef, Name, Stmt, StmtKind, TypeBase, TypeName,
    TypeSuffix, UnaryOp,
};
use crate::limits;
use crate::parser::Parser;
use crate::parser::role::Role;
use crate::parser::type_name::{TYPEOF, is_type_word};
use crate::token::TokenKind;

/// What no name can be.
pub const KEYWORDS: [&str; 10] =
    ["if", "else", "let", "return", "config", "while", "for", "unroll", "break", "continue"];

const RECORD: &str = "such as `(pid = pid, name = comm)`";

impl Parser<'_> {
    /// Any expression: a ternary or what binds tighter.
    pub(super) fn expr(&mut self) -> Expr {
        let span = self.peek_span();
        self.nested(Self::ternary).unwrap_or_else(|| invalid(span))
    }

    fn ternary(&mut self) -> Expr {
        let condition = self.binary(1);
        if self.recovering || !self.eat("?") {
            return condition;
        }
        if self.eat(":") {
            return self.or_else(condition);
        }
        let then = self.expr();
        if self.recovering || !self.expect(":", "in `condition ? a : b`") {
            return invalid(condition.span);
        }
        let otherwise = self.expr();
        let span = condition.span.to(otherwise.span);
        let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
        self.node(ExprKind::Ternary { condition, then, otherwise }, span)
    }

    /// `a ?: b`: a, where it is not 0, evaluated once. It is kept in a variable that no text can name.
    fn or_else(&mut self, first: Expr) -> Expr {
        let otherwise = self.expr();
        let span = first.span.to(otherwise.span);
        if self.recovering {
            return invalid(span);
        }
        let name = format!("$?{}", span.start);
        let kept = Expr::new(ExprKind::Variable(name.clone()), first.span);
        let (condition, then) = (Box::new(kept.clone()), Box::new(kept));
        let choice = self.node(ExprKind::Ternary { condition, then, otherwise: Box::new(otherwise) }, span);
        let variable = Name { text: name, span: first.span };
        let kind = StmtKind::Let { variable, ty: None, value: Some(first) };
        let body = Block { stmts: vec![Stmt { kind, span }], span };
        self.node(ExprKind::Block { body, value: Some(Box::new(choice)) }, span)
    }

    fn binary(&mut self, least: u8) -> Expr {
        let mut left = self.unary();
        while !self.recovering {
            let op_span = self.peek_span();
            let Some((op, binding)) = binary_op(self.peek()) else { break };
            if binding < least {
                break;
            }
            self.bump();
            self.roles.set(op_span.start as usize, Role::BinaryOp);
            let right = self.binary(binding + 1);
            let span = left.span.to(right.span);
            left = self
                .node(ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span);
        }
        left
    }

    fn unary(&mut self) -> Expr {
        let start = self.peek_span();
        let op = match self.peek() {
            TokenKind::Punct("-") => UnaryOp::Negate,
            TokenKind::Punct("~") => UnaryOp::BitNot,
            TokenKind::Punct("!") => UnaryOp::Not,
            TokenKind::Punct("++") => return self.prefix_step(true),
            TokenKind::Punct("--") => return self.prefix_step(false),
            TokenKind::Punct("*") => {
                self.bump();
                let operand = self.nested(Self::unary).unwrap_or_else(|| invalid(start));
                let span = start.to(operand.span);
                return self.node(ExprKind::Deref(Box::new(operand)), span);
            }
            TokenKind::Punct("&") => {
                return self.refuse(
                    "the address of `&`",
                    "a member that is an array is its address in a cast: `(int32 *)$p->list`",
                );
            }
            _ => return self.postfix(),
        };
        if op == UnaryOp::Negate
            && let TokenKind::Int(magnitude) = self.peek_at(1).kind
        {
            return self.negative_literal(magnitude);
        }
        if op == UnaryOp::Negate
            && let TokenKind::Double(value) = self.peek_at(1).kind
        {
            let span = self.bump().span.to(self.bump().span);
            return Expr::new(ExprKind::Double(-value), span);
        }
        self.bump();
        let operand = self.nested(Self::unary).unwrap_or_else(|| invalid(start));
        let span = start.to(operand.span);
        self.node(ExprKind::Unary { op, operand: Box::new(operand) }, span)
    }

    fn negative_literal(&mut self, magnitude: u64) -> Expr {
        let span = self.bump().span.to(self.bump().span);
        if magnitude > 1 << 63 {
            let message = format!("`-{magnitude}` does not fit in 64 bits");
            self.fault(span, &message, "the smallest is -9223372036854775808");
        }
        Expr::new(ExprKind::Int { magnitude, negative: true }, span)
    }

    fn prefix_step(&mut self, increment: bool) -> Expr {
        let start = self.bump().span;
        let target = self.primary();
        let span = start.to(target.span);
        self.step(target, increment, true, span)
    }

    fn step(&mut self, target: Expr, increment: bool, prefix: bool, span: Span) -> Expr {
        if !matches!(target.kind, ExprKind::Variable(_) | ExprKind::Map(_) | ExprKind::Invalid) {
            let symbol = if increment { "++" } else { "--" };
            let message = format!("`{symbol}` needs a map or a scratch variable");
            self.fault(target.span, &message, "such as `@count++` or `$i++`");
            return invalid(span);
        }
        self.node(ExprKind::Step { target: Box::new(target), increment, prefix }, span)
    }

    fn postfix(&mut self) -> Expr {
        let start = self.peek_span();
        let mut expr = self.primary();
        while !self.recovering {
            let next = self.peek_span();
            match self.peek() {
                TokenKind::Punct(symbol @ ("++" | "--")) => {
                    let increment = *symbol == "++";
                    self.bump();
                    let span = expr.span.to(next);
                    expr = self.step(expr, increment, false, span);
                }
                TokenKind::Punct("." | "->") if is_args(&expr) => expr = self.field(expr.span),
                TokenKind::Punct("." | "->") => expr = self.part(expr, start),
                TokenKind::Punct("[") => expr = self.index(expr, start),
                _ => break,
            }
        }
        expr
    }

    /// `args.name`, behind the `args`.
    fn field(&mut self, args: Span) -> Expr {
        self.bump();
        let token = self.peek_at(0).clone();
        if token.kind != TokenKind::Ident {
            let found = self.found();
            self.fault(
                token.span,
                &format!("expected the name of a field, found {found}"),
                "such as `args.size`; `weir list -v` shows fields",
            );
            return invalid(args);
        }
        self.bump();
        self.node(ExprKind::Field(self.text_of(token.span)), args.to(token.span))
    }

    /// `.0`, `.name` or `->name`.
    fn part(&mut self, of: Expr, start: Span) -> Expr {
        let is_dot = self.bump().kind.is(".");
        let token = self.peek_at(0).clone();
        let span = start.to(token.span);
        match token.kind {
            TokenKind::Int(index) if is_dot => {
                self.bump();
                self.node(ExprKind::Part { tuple: Box::new(of), index }, span)
            }
            TokenKind::Ident => {
                self.bump();
                let name = Name { text: self.text_of(token.span), span: token.span };
                self.node(ExprKind::Member { of: Box::new(of), name }, span)
            }
            _ => {
                let found = self.found();
                let message = format!("expected the name of a member, found {found}");
                self.fault(token.span, &message, "`$p->name` is a member, `$t.0` a part of a tuple");
                invalid(span)
            }
        }
    }

    /// `[index]`
    fn index(&mut self, of: Expr, start: Span) -> Expr {
        self.bump();
        let index = self.expr();
        let end = self.peek_span();
        if self.recovering || !self.expect("]", "after the index") {
            return invalid(of.span);
        }
        let span = start.to(end);
        self.node(ExprKind::Index { of: Box::new(of), index: Box::new(index) }, span)
    }

    /// `sizeof(…)` and `offsetof(…)`: what they take may be a type.
    fn size_or_offset(&mut self, name: Span, is_size: bool) -> Expr {
        let is_value = is_size && {
            let word = self.peek_at(1).clone();
            let is_word = word.kind == TokenKind::Ident;
            let is_type = is_word && is_type_word(&self.text_of(word.span));
            // A name alone may be either: the check knows.
            !is_type
                && !(is_word
                    && (self.peek_at(2).kind.is(")")
                        || self.peek_at(2).kind.is("*") && self.peek_at(3).kind.is(")")))
        };
        self.bump();
        let kind = if is_value {
            Some(ExprKind::SizeOfValue(Box::new(self.expr())))
        } else {
            self.type_name().and_then(|ty| {
                if is_size {
                    return Some(ExprKind::SizeOfType(ty));
                }
                let has_comma = self.expect(",", "after the type");
                let path = has_comma.then(|| self.member_path()).flatten()?;
                Some(ExprKind::OffsetOf { ty, path })
            })
        };
        let end = self.peek_span();
        match kind.filter(|_| !self.recovering) {
            Some(kind) if self.expect(")", "after the arguments") => self.node(kind, name.to(end)),
            _ => invalid(name),
        }
    }

    /// `container_of(pointer, type, member)` → `(type *)((uint64)pointer - offsetof(type, member))`.
    fn container_of(&mut self, name: Span) -> Expr {
        self.bump();
        let pointer = self.expr();
        let ty = match !self.recovering && self.expect(",", "after the pointer") {
            true => self.type_name(),
            false => None,
        };
        let has_comma = ty.is_some() && !self.recovering && self.expect(",", "after the type");
        let path = if has_comma { self.member_path() } else { None };
        let end = self.peek_span();
        let (Some(ty), Some(path), false) = (ty, path, self.recovering) else { return invalid(name) };
        if !self.expect(")", "after the member") {
            return invalid(name);
        }
        // The check knows names of types by where they start: these have places of their own within the word.
        let at = |from: u32| Span { start: name.start + from, end: name.end };
        let mut container = TypeName { span: at(0), ..ty.clone() };
        container.suffixes.push(TypeSuffix::Pointer);
        let number = TypeName {
            base: TypeBase::Int(IntType { bits: 64, signed: false }),
            suffixes: Vec::new(),
            span: at(1),
        };
        let address = self.node(ExprKind::Cast { ty: number, operand: Box::new(pointer) }, at(1));
        let offset = self.node(ExprKind::OffsetOf { ty, path }, at(2));
        let (left, right) = (Box::new(address), Box::new(offset));
        let difference =
            self.node(ExprKind::Binary { op: BinaryOp::Sub, op_span: at(3), left, right }, at(3));
        self.node(ExprKind::Cast { ty: container, operand: Box::new(difference) }, name.to(end))
    }

    fn primary(&mut self) -> Expr {
        let token = self.peek_at(0).clone();
        let span = token.span;
        let kind = match token.kind {
            TokenKind::Int(magnitude) => ExprKind::Int { magnitude, negative: false },
            TokenKind::Double(value) => ExprKind::Double(value),
            TokenKind::Str(text) => ExprKind::Str(text),
            TokenKind::Variable => ExprKind::Variable(self.text_of(span)),
            TokenKind::Param(index) => ExprKind::Param(index),
            TokenKind::ParamCount => ExprKind::ParamCount,
            TokenKind::Map => return self.map(),
            TokenKind::Ident => return self.word(),
            TokenKind::Punct("(") => return self.parenthesis(),
            TokenKind::Punct("{") => {
                let (body, value) = self.valued_block();
                let span = body.span;
                return self.node(ExprKind::Block { body, value }, span);
            }
            _ => {
                let found = self.found();
                self.fault(
                    span,
                    &format!("expected an expression, found {found}"),
                    "such as a number, `pid` or `@name`",
                );
                return invalid(span);
            }
        };
        self.bump();
        Expr::new(kind, span)
    }

    fn map(&mut self) -> Expr {
        let name = self.bump().span;
        let mut span = name;
        let mut keys = Vec::new();
        if self.eat("[") {
            keys = self.list();
            span = name.to(self.peek_span());
            if keys.is_empty() && !self.recovering {
                self.fault(
                    span,
                    "expected a key between `[` and `]`",
                    "a map without a key is `@name` alone",
                );
            }
            self.expect("]", "after the map's key");
        }
        let name = Name { text: self.text_of(name), span: name };
        self.node(ExprKind::Map(MapRef { name, keys, span }), span)
    }

    /// A name or a call.
    fn word(&mut self) -> Expr {
        let span = self.bump().span;
        let text = self.text_of(span);
        if KEYWORDS.contains(&text.as_str()) {
            let message = format!("expected an expression, found the keyword `{text}`");
            self.fault(span, &message, "a keyword cannot be a name");
            return invalid(span);
        }
        if !self.peek().is("(") {
            return Expr::new(ExprKind::Name(text), span);
        }
        if text == TYPEOF || text == "typeinfo" {
            let ty = self.nested(Self::type_or_value).flatten();
            return ty.map_or_else(
                || invalid(span),
                |ty| {
                    let whole = span.to(ty.span);
                    self.node(ExprKind::TypeInfo(ty), whole)
                },
            );
        }
        if text == "container_of" {
            return self.container_of(span);
        }
        if matches!(text.as_str(), "sizeof" | "offsetof") {
            return self.size_or_offset(span, text == "sizeof");
        }
        self.bump();
        let args = self.list();
        let end = self.peek_span();
        self.expect(")", &format!("after the arguments of `{text}`"));
        self.node(ExprKind::Call { function: Name { text, span }, args }, span.to(end))
    }

    /// Expressions with commas between, up to a closing bracket (not taken).
    fn list(&mut self) -> Vec<Expr> {
        let mut items = Vec::new();
        if self.peek().is(")") || self.peek().is("]") {
            return items;
        }
        loop {
            items.push(self.expr());
            if self.recovering || !self.eat(",") {
                return items;
            }
        }
    }

    /// A cast, a tuple or an expression in parentheses.
    fn parenthesis(&mut self) -> Expr {
        let open = self.peek_span();
        if self.is_cast_ahead() {
            self.bump();
            let Some(ty) = self.type_name() else { return invalid(open) };
            if self.recovering || !self.expect(")", "after the type of the cast") {
                return invalid(open);
            }
            let operand = self.nested(Self::unary).unwrap_or_else(|| invalid(open));
            let span = open.to(operand.span);
            if ty.base == TypeBase::Basic("float".to_string()) && ty.suffixes.is_empty() {
                return self.node(ExprKind::Float(Box::new(operand)), span);
            }
            return self.node(ExprKind::Cast { ty, operand: Box::new(operand) }, span);
        }
        self.bump();
        if *self.peek() == TokenKind::Ident && self.peek_at(1).kind.is("=") {
            return self.record(open);
        }
        let mut items = Vec::new();
        let mut ends_in_comma = false;
        while !self.recovering && !self.peek().is(")") {
            items.push(self.expr());
            ends_in_comma = !self.recovering && self.eat(",");
            if !ends_in_comma {
                break;
            }
        }
        let close = self.peek_span();
        if self.recovering || !self.expect(")", "to match `(`") {
            return invalid(open);
        }
        match items.pop() {
            Some(only) if items.is_empty() && !ends_in_comma => only,
            last => {
                items.extend(last);
                self.node(ExprKind::Tuple(items), open.to(close))
            }
        }
    }

    /// `(name = value, …)`, behind the bracket.
    fn record(&mut self, open: Span) -> Expr {
        let mut parts: Vec<(Name, Expr)> = Vec::new();
        loop {
            let token = self.peek_at(0).clone();
            if token.kind != TokenKind::Ident {
                let found = self.found();
                self.fault(token.span, &format!("expected the name of a part, found {found}"), RECORD);
                return invalid(open);
            }
            self.bump();
            let name = Name { text: self.text_of(token.span), span: token.span };
            if !self.expect("=", "after the name of a part") {
                return invalid(open);
            }
            if parts.iter().any(|(known, _)| known.text == name.text) {
                self.fault(name.span, &format!("the record has two parts `{}`", name.text), RECORD);
            }
            let value = self.expr();
            parts.push((name, value));
            if self.recovering || !self.eat(",") {
                break;
            }
        }
        let close = self.peek_span();
        if self.recovering || !self.expect(")", "to match `(`") {
            return invalid(open);
        }
        self.node(ExprKind::Record(parts), open.to(close))
    }

    fn refuse(&mut self, what: &str, hint: &str) -> Expr {
        let span = self.peek_span();
        self.fault(span, &format!("not supported by weir yet: {what}"), hint);
        invalid(span)
    }

    /// A node, unless it is higher than the stages after this one may recurse.
    fn node(&mut self, kind: ExprKind, span: Span) -> Expr {
        let expr = Expr::new(kind, span);
        if expr.height > limits::NESTING_MAX {
            self.too_deep(span);
            return invalid(span);
        }
        expr
    }
}

fn binary_op(kind: &TokenKind) -> Option<(BinaryOp, u8)> {
    let TokenKind::Punct(punct) = kind else { return None };
    BINARY_OPS.iter().find(|(_, symbol, _)| symbol == punct).map(|(op, _, binding)| (*op, *binding))
}

fn is_args(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if name == "args")
}

fn invalid(span: Span) -> Expr {
    Expr::new(ExprKind::Invalid, span)
}
