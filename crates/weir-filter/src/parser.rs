//! Text → [`Ast`], with a stack of its own instead of recursion: a text of nothing but parentheses does no harm.
//!
//! The grammar is LTTng's (filter-parser.ypp of lttng-tools), in both dialects; every binary operator groups to the left. The
//! first fault ends the parse: after it, nothing that a filter says can be relied on.
//!
//! What weir's dialect adds is read in both: lists ([`list`]), regular expressions, and clauses behind the condition
//! ([`clause`]); the check refuses it in LTTng's.
//!
//! Refused as not supported yet: `$app` contexts.

mod clause;
mod list;

use weir_source::{Diagnostic, Span};

use crate::ast::{
    Ast, BINARY_OPS, BinaryOp, Clause, IN_BINDING, Node, NodeId, NodeKind, Path, Step, StepKind, UNARY_OPS,
    UnaryOp,
};
use crate::lexer::Lexer;
use crate::limits;
use crate::token::{Token, TokenKind};

/// Reads a filter.
pub fn parse(text: &str) -> Result<Ast, Diagnostic> {
    if text.len() > limits::TEXT_BYTES_MAX {
        let (given, limit) = (text.len(), limits::TEXT_BYTES_MAX);
        let message = format!("the filter is too long: {given} bytes, the limit is {limit}");
        return Err(Diagnostic::error(Span::new(0, 0), message).with_hint("split it into several filters"));
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        nodes: Vec::new(),
        operands: Vec::new(),
        open: Vec::new(),
        clauses: Vec::new(),
    };
    let mut token = parser.lexer.next()?;
    loop {
        token = parser.operand(token)?;
        match parser.operator(token)? {
            Some(next) => token = next,
            None => return Ok(Ast { nodes: parser.nodes, clauses: parser.clauses }),
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    nodes: Vec<Node>,
    /// Finished ones that nothing has taken.
    operands: Vec<NodeId>,
    /// What waits for an operand.
    open: Vec<(Open, Span)>,
    clauses: Vec<Clause>,
}

#[derive(Clone, Copy)]
enum Open {
    Parenthesis,
    Unary(UnaryOp),
    /// With how tightly it binds.
    Binary(BinaryOp, u8),
}

impl Parser<'_> {
    /// Prefixes and a constant or name, from `token` on; the token behind.
    fn operand(&mut self, mut token: Token) -> Result<Token, Diagnostic> {
        loop {
            let span = token.span;
            let kind = match token.kind {
                TokenKind::Punct("(") => {
                    self.open.push((Open::Parenthesis, span));
                    token = self.lexer.next()?;
                    continue;
                }
                // One token, but two operators where an operand is to come.
                TokenKind::Punct("!~") => {
                    self.open.push((Open::Unary(UnaryOp::Not), span));
                    self.open.push((Open::Unary(UnaryOp::BitNot), Span { start: span.start + 1, ..span }));
                    token = self.lexer.next()?;
                    continue;
                }
                TokenKind::Punct(symbol) => {
                    let Some((op, _)) = UNARY_OPS.iter().find(|(_, known)| *known == symbol) else {
                        return Err(expected_operand(&format!("`{symbol}`"), span));
                    };
                    self.open.push((Open::Unary(*op), span));
                    token = self.lexer.next()?;
                    continue;
                }
                TokenKind::Eof => return Err(expected_operand("the end", span)),
                TokenKind::Int(value) => NodeKind::Int(value),
                TokenKind::Float(value) => NodeKind::Float(value),
                TokenKind::Str(pattern) => NodeKind::Str(pattern),
                TokenKind::Regex(text) => NodeKind::Regex(text),
                TokenKind::Name(name) => return self.path(name, span),
                TokenKind::Global(name) => return self.context(&name, span),
            };
            self.push(kind, span, 0)?;
            return self.lexer.next();
        }
    }

    /// `$ctx.name`, behind the `$ctx`.
    fn context(&mut self, root: &str, span: Span) -> Result<Token, Diagnostic> {
        if root == "app" {
            return Err(Diagnostic::error(
                span,
                "not supported by weir yet: contexts of applications (`$app`)",
            )
            .with_hint(
                "weir calls no context provider of a program; contexts of the process are `$ctx.vpid` and so on",
            ));
        }
        let dot = self.lexer.next()?;
        let name = self.lexer.next()?;
        match (root, dot.kind, name.kind) {
            ("ctx", TokenKind::Punct("." | "->"), TokenKind::Name(name_text)) => {
                self.push(NodeKind::Context(name_text), span.to(name.span), 0)?;
                let behind = self.lexer.next()?;
                match behind.kind {
                    TokenKind::Punct("[" | "." | "->") => {
                        let fault = Diagnostic::error(behind.span, "a context has no parts");
                        Err(fault.with_hint("contexts are numbers and strings"))
                    }
                    _ => Ok(behind),
                }
            }
            _ => Err(Diagnostic::error(span, format!("`${root}` names nothing"))
                .with_hint("a context is `$ctx.vpid`, a field of the event has no `$`")),
        }
    }

    /// A field and the parts of it that are named behind it.
    fn path(&mut self, name: String, start: Span) -> Result<Token, Diagnostic> {
        let (mut steps, mut whole) = (Vec::new(), start);
        let behind = loop {
            let token = self.lexer.next()?;
            let kind = match token.kind {
                TokenKind::Punct("[") => self.index(token.span)?,
                TokenKind::Punct("." | "->") => self.member(token.span)?,
                _ => break token,
            };
            whole = start.to(kind.1);
            steps.push(Step { kind: kind.0, span: token.span.to(kind.1) });
        };
        self.push(NodeKind::Field(Path { name, steps }), whole, 0)?;
        Ok(behind)
    }

    /// Behind a `[`: the number, and where the `]` is.
    fn index(&mut self, open: Span) -> Result<(StepKind, Span), Diagnostic> {
        let index = self.lexer.next()?;
        let close = self.lexer.next()?;
        match (index.kind, close.kind) {
            (TokenKind::Int(value), TokenKind::Punct("]")) => Ok((StepKind::Index(value), close.span)),
            (TokenKind::Int(_), _) => {
                Err(Diagnostic::error(open, "the bracket is not closed").with_hint("add `]`"))
            }
            _ => Err(Diagnostic::error(index.span, "an index is a constant, 0 or more")
                .with_hint("such as `items[3]`")),
        }
    }

    fn member(&mut self, dot: Span) -> Result<(StepKind, Span), Diagnostic> {
        let name = self.lexer.next()?;
        match name.kind {
            TokenKind::Name(text) => Ok((StepKind::Member(text), name.span)),
            _ => Err(Diagnostic::error(dot, "the name of a member is missing").with_hint("such as `a.b`")),
        }
    }

    /// Closing parentheses and an operator, from `token` on; the token behind, or None at the end.
    fn operator(&mut self, mut token: Token) -> Result<Option<Token>, Diagnostic> {
        loop {
            match token.kind {
                TokenKind::Eof => {
                    self.close(0)?;
                    return match self.open.pop() {
                        None => Ok(None),
                        Some((_, span)) => {
                            Err(Diagnostic::error(span, "the parenthesis is not closed").with_hint("add `)`"))
                        }
                    };
                }
                TokenKind::Punct(")") => {
                    self.close(0)?;
                    if self.open.pop().is_none() {
                        let fault = Diagnostic::error(token.span, "no parenthesis is open here");
                        return Err(fault.with_hint("remove `)`"));
                    }
                    token = self.lexer.next()?;
                }
                TokenKind::Punct(symbol) => {
                    let Some((op, binding)) = binary(symbol) else {
                        return Err(self.expected_operator(token.span));
                    };
                    self.close(binding)?;
                    self.open.push((Open::Binary(op, binding), token.span));
                    let operand = if op.is_match() { self.lexer.regex() } else { self.lexer.next() };
                    return operand.map(Some);
                }
                TokenKind::Name(word) if word == "in" => {
                    self.close(IN_BINDING)?;
                    token = self.list(token.span)?;
                }
                TokenKind::Name(word) if clause::begins(&word) => {
                    self.close(0)?;
                    if let Some((_, span)) = self.open.pop() {
                        let fault = Diagnostic::error(span, "the parenthesis is not closed");
                        return Err(fault.with_hint(format!("add `)` before `{word}`")));
                    }
                    return self.clauses(&word, token.span).map(|()| None);
                }
                _ => return Err(self.expected_operator(token.span)),
            }
        }
    }

    fn expected_operator(&self, span: Span) -> Diagnostic {
        let shown = self.lexer.text[span.start as usize..span.end as usize].escape_debug();
        Diagnostic::error(span, format!("expected an operator, found `{shown}`"))
            .with_hint("conditions are joined by `&&` and `||`")
    }

    /// Makes nodes of the open operators that bind at least so tightly, down to a parenthesis.
    fn close(&mut self, binding: u8) -> Result<(), Diagnostic> {
        while let Some(&(open, span)) = self.open.last() {
            // SANITY: an operator is pushed before its last operand, which is there when it is closed.
            match open {
                Open::Unary(op) => {
                    let operand = self.operands.pop().expect("an operand");
                    let (below, end) =
                        (self.nodes[operand.0 as usize].depth, self.nodes[operand.0 as usize].span);
                    self.push(NodeKind::Unary(op, operand), span.to(end), below + 1)?;
                }
                Open::Binary(op, tight) if tight >= binding => {
                    let right = self.operands.pop().expect("an operand");
                    let left = self.operands.pop().expect("an operand");
                    let (a, b) = (&self.nodes[left.0 as usize], &self.nodes[right.0 as usize]);
                    let (span, depth) = (a.span.to(b.span), a.depth.max(b.depth) + 1);
                    self.push(NodeKind::Binary(op, left, right), span, depth)?;
                }
                Open::Binary(..) | Open::Parenthesis => break,
            }
            self.open.pop();
        }
        Ok(())
    }

    fn push(&mut self, kind: NodeKind, span: Span, depth: u32) -> Result<(), Diagnostic> {
        if depth > limits::DEPTH_MAX {
            let message = format!("more than {} operators within each other", limits::DEPTH_MAX);
            let hint = "put parentheses around halves of a long chain, or split the filter";
            return Err(Diagnostic::error(span, message).with_hint(hint));
        }
        self.nodes.push(Node { kind, span, depth });
        self.operands.push(NodeId(self.nodes.len() as u32 - 1));
        Ok(())
    }
}

fn binary(symbol: &str) -> Option<(BinaryOp, u8)> {
    BINARY_OPS.iter().find(|(_, known, _)| *known == symbol).map(|(op, _, binding)| (*op, *binding))
}

fn expected_operand(found: &str, span: Span) -> Diagnostic {
    let message = format!("expected a field, a number or a string, found {found}");
    Diagnostic::error(span, message).with_hint("a filter is such as `size > 4096 && name == \"a*\"`")
}
