//! Numbers and their comparisons.
//!
//! `%` and `^` have no precedence in libpcap's grammar: they take all that follows as their right side, and bind
//! tighter than any operator before them. `8 % 3 * 2` is `8 % (3 * 2)`, and `a & b ^ c` is `a & (b ^ c)`. In scoped expressions
//! they have that of `*` and of `|`.

use weir_source::{Diagnostic, Span};

use super::{Item, Parser};
use crate::Mode;
use crate::ast::{Arith, Expr, Fact, Operator, Relation, Term};
use crate::limits::DEPTH_MAX;
use crate::protocol::Protocol;
use crate::token::{Token, Word};

/// How tight a unary minus binds: tighter than all others.
const UNARY: u8 = 6;

impl Parser {
    /// What follows an operand: operators, a comparison, or nothing.
    pub(super) fn relation_after(
        &mut self,
        left: Arith,
        span: Span,
        start: Span,
    ) -> Result<Item, Diagnostic> {
        let left = self.operators(left, 1)?;
        let Some(relation) = self.relation() else {
            return Ok(match left {
                Arith::Number(number) => Item::Number(number, span),
                left => Item::Arith(left, start.to(self.before())),
            });
        };
        self.at += 1;
        let right = self.arith(1)?;
        let term = Term::Relation(relation, left, right);
        Ok(Item::Expr(Expr::Term(term, start.to(self.before())), None))
    }

    /// The comparison that stands here.
    pub(super) fn relation(&self) -> Option<Relation> {
        match self.peek() {
            Token::Sign("=") => Some(Relation::Eq),
            Token::Sign("!=") => Some(Relation::Ne),
            Token::Sign(">") => Some(Relation::Gt),
            Token::Sign(">=") => Some(Relation::Ge),
            Token::Sign("<") => Some(Relation::Lt),
            Token::Sign("<=") => Some(Relation::Le),
            _ => None,
        }
    }

    fn arith(&mut self, tightest: u8) -> Result<Arith, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Diagnostic::error(
                self.span(),
                format!("the number is nested more than {DEPTH_MAX} deep"),
            ));
        }
        let left = self.operand()?;
        let whole = self.operators(left, tightest);
        self.depth -= 1;
        whole
    }

    pub(super) fn operand(&mut self) -> Result<Arith, Diagnostic> {
        let start = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.at += 1;
                Ok(Arith::Number(number))
            }
            Token::Word(Word::Len) => {
                self.at += 1;
                Ok(Arith::Len)
            }
            Token::Word(word @ (Word::Queue | Word::Hash)) => {
                self.at += 1;
                Ok(Arith::Fact(if word == Word::Queue { Fact::Queue } else { Fact::Hash }))
            }
            Token::Sign("-") => {
                self.at += 1;
                Ok(Arith::Negate(Box::new(self.arith(UNARY)?)))
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.arith(1)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Protocol(protocol) => {
                self.at += 1;
                self.load(protocol, start)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `[offset]` or `[offset:bytes]` after a protocol.
    pub(super) fn load(&mut self, protocol: Protocol, start: Span) -> Result<Arith, Diagnostic> {
        self.expect("[")?;
        let offset = Box::new(self.arith(1)?);
        let bytes = if self.accept(&Token::Sign(":")) { self.number()? } else { 1 };
        self.expect("]")?;
        Ok(Arith::Load { protocol, offset, bytes, span: start.to(self.before()) })
    }

    /// Operators after `left` that bind at least as tight as `tightest`.
    fn operators(&mut self, mut left: Arith, tightest: u8) -> Result<Arith, Diagnostic> {
        let mut count = 0;
        while let Some((operator, tightness)) = self.operator() {
            let span = self.span();
            count += 1;
            // Each is a level of the number's tree.
            if count > DEPTH_MAX {
                return Err(Diagnostic::error(
                    span,
                    format!("the number has more than {DEPTH_MAX} operators"),
                ));
            }
            let right_of = match tightness {
                // It takes all that follows.
                None => 1,
                Some(tightness) if tightness >= tightest => tightness + 1,
                Some(_) => break,
            };
            self.at += 1;
            let right = self.arith(right_of)?;
            left = Arith::Binary(operator, Box::new(left), Box::new(right), span);
        }
        Ok(left)
    }

    /// The operator that stands here, and how tight it binds; None: see above.
    fn operator(&self) -> Option<(Operator, Option<u8>)> {
        Some(match self.peek() {
            Token::Sign("|") => (Operator::Or, Some(1)),
            Token::Sign("&") => (Operator::And, Some(2)),
            Token::Sign("<<") => (Operator::Lsh, Some(3)),
            Token::Sign(">>") => (Operator::Rsh, Some(3)),
            Token::Sign("+") => (Operator::Add, Some(4)),
            Token::Sign("-") => (Operator::Sub, Some(4)),
            Token::Sign("*") => (Operator::Mul, Some(5)),
            Token::Sign("/") => (Operator::Div, Some(5)),
            Token::Sign("%") if self.mode == Mode::Scoped => (Operator::Mod, Some(5)),
            Token::Sign("^") if self.mode == Mode::Scoped => (Operator::Xor, Some(1)),
            Token::Sign("%") => (Operator::Mod, None),
            Token::Sign("^") => (Operator::Xor, None),
            _ => return None,
        })
    }
}
