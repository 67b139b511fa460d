//! `x in (1, 2, 10..20)`: the list, behind the `in`.

use weir_source::{Diagnostic, Span};

use crate::ast::{Constant, Item, NodeKind};
use crate::parser::Parser;
use crate::token::{Token, TokenKind};

impl Parser<'_> {
    /// Makes a node of the last operand and a list; the token behind.
    pub(super) fn list(&mut self, word: Span) -> Result<Token, Diagnostic> {
        let open = self.lexer.next()?;
        if open.kind != TokenKind::Punct("(") {
            let fault = Diagnostic::error(word, "`in` has a list behind it");
            return Err(fault.with_hint("such as `x in (1, 2, 10..20)`"));
        }
        let mut items = Vec::new();
        let close = loop {
            let (item, behind) = self.item()?;
            items.push(item);
            match behind.kind {
                TokenKind::Punct(",") => {}
                TokenKind::Punct(")") => break behind.span,
                TokenKind::Eof => {
                    return Err(Diagnostic::error(open.span, "the list is not closed").with_hint("add `)`"));
                }
                _ => {
                    let fault = Diagnostic::error(behind.span, "expected `,`, `..` or `)` in a list");
                    return Err(fault.with_hint("a list holds constants: `(1, 2, 10..20)`"));
                }
            }
        };
        // SANITY: an operator comes behind an operand, and whatever was open above it is closed.
        let operand = self.operands.pop().expect("an operand");
        let (depth, span) = (self.nodes[operand.0 as usize].depth, self.nodes[operand.0 as usize].span);
        self.push(NodeKind::In(operand, items), span.to(close), depth + 1)?;
        self.lexer.next()
    }

    /// A constant or a range, and the token behind.
    fn item(&mut self) -> Result<(Item, Token), Diagnostic> {
        let (from, start) = self.constant()?;
        let behind = self.lexer.next()?;
        if behind.kind != TokenKind::Punct("..") {
            return Ok((Item { from, to: None, span: start }, behind));
        }
        let (to, end) = self.constant()?;
        let behind = self.lexer.next()?;
        Ok((Item { from, to: Some(to), span: start.to(end) }, behind))
    }

    fn constant(&mut self) -> Result<(Constant, Span), Diagnostic> {
        let first = self.lexer.next()?;
        let is_negative = first.kind == TokenKind::Punct("-");
        let token = if is_negative { self.lexer.next()? } else { first.clone() };
        let constant = match token.kind {
            TokenKind::Int(value) if is_negative => Constant::Int(-i128::from(value)),
            TokenKind::Int(value) => Constant::Int(value.into()),
            TokenKind::Float(value) if is_negative => Constant::Float(-value),
            TokenKind::Float(value) => Constant::Float(value),
            TokenKind::Str(pattern) if !is_negative => Constant::Str(pattern),
            _ => {
                let fault = Diagnostic::error(token.span, "expected a number or a string");
                return Err(fault.with_hint("a list holds constants: `(1, 2, 10..20)`"));
            }
        };
        Ok((constant, first.span.to(token.span)))
    }
}
