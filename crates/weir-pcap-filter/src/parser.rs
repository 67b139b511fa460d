//! Words → [`Expr`].
//!
//! `and` and `or` bind alike, from left to right. A bare address or number after them takes the qualifiers of the primitive
//! before it, so each step hands on the qualifiers that were last given.
//!
//! `(` may begin an expression, a list of addresses or a number: what is inside decides, so each is read once, as an
//! [`Item`]. Deep nesting ends in an error ([`limits`](crate::limits)).

mod arith;
mod term;

use weir_source::{Diagnostic, Span};

use crate::Mode;
use crate::ast::{Arith, Expr, Id, Qualifiers, Term};
use crate::lexer::lex;
use crate::limits::{DEPTH_MAX, TEXT_BYTES_MAX};
use crate::token::Token;

/// Reads `text`, whose words and operators are those of `mode`. None: it is empty, which accepts every packet.
pub fn parse(text: &str, mode: Mode) -> Result<Option<Expr>, Diagnostic> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the expression has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len());
        return Err(Diagnostic::error(Span::new(0, 0), message).with_hint("split it into several filters"));
    }
    let tokens = lex(text, mode)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, mode };
    if *parser.peek() == Token::End {
        return Ok(None);
    }
    match parser.sequence(None)? {
        Item::Expr(expr, _) if *parser.peek() == Token::End => Ok(Some(expr)),
        Item::Expr(..) | Item::Ids(..) | Item::Number(..) | Item::Arith(..) => Err(parser.unexpected()),
    }
}

/// What a place in an expression turned out to be.
enum Item {
    /// Primitives, and the qualifiers of the last one, if it had any.
    Expr(Expr, Option<Qualifiers>),
    /// Bare addresses.
    Ids(Expr, Qualifiers),
    /// A number alone: an address, or an operand.
    Number(u32, Span),
    /// An operand.
    Arith(Arith, Span),
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
    mode: Mode,
}

impl Parser {
    /// Items with `and` and `or` between them. `inherited`: the qualifiers of what stands before.
    fn sequence(&mut self, inherited: Option<Qualifiers>) -> Result<Item, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("the expression is nested more than {DEPTH_MAX} deep");
            return Err(Diagnostic::error(self.span(), message).with_hint("split it into several filters"));
        }
        let start = self.span();
        let first = self.item(inherited)?;
        let is_list = matches!(self.peek(), Token::And | Token::Or);
        let (mut expr, mut last, ids_only) = match first {
            Item::Expr(expr, last) => (expr, last, false),
            Item::Ids(expr, last) => (expr, Some(last), true),
            Item::Number(number, span) if is_list => {
                let qualifiers = self.inherited(inherited, start)?;
                (Expr::Term(Term::Id(qualifiers, Id::Number(number)), span), Some(qualifiers), true)
            }
            other @ (Item::Number(..) | Item::Arith(..)) => {
                self.depth -= 1;
                return Ok(other);
            }
        };
        loop {
            let is_and = match self.peek() {
                Token::And => true,
                Token::Or => false,
                _ => break,
            };
            self.at += 1;
            let span = self.span();
            let next = match self.item(last)? {
                Item::Expr(next, qualifiers) if !ids_only => {
                    last = qualifiers;
                    next
                }
                Item::Ids(next, qualifiers) => {
                    last = Some(qualifiers);
                    next
                }
                Item::Number(number, span) => {
                    let qualifiers = self.inherited(last, span)?;
                    last = Some(qualifiers);
                    Expr::Term(Term::Id(qualifiers, Id::Number(number)), span)
                }
                Item::Expr(..) | Item::Arith(..) => {
                    return Err(Diagnostic::error(span, "a primitive among bare addresses")
                        .with_hint("give the first of them its qualifiers, such as `host`"));
                }
            };
            expr = join(expr, next, is_and);
        }
        self.depth -= 1;
        match (ids_only, last) {
            (true, Some(last)) => Ok(Item::Ids(expr, last)),
            (_, last) => Ok(Item::Expr(expr, last)),
        }
    }

    /// One operand of `and` and `or`.
    fn item(&mut self, inherited: Option<Qualifiers>) -> Result<Item, Diagnostic> {
        let start = self.span();
        match self.peek().clone() {
            Token::Not => {
                self.at += 1;
                let mut count = 1;
                while *self.peek() == Token::Not {
                    self.at += 1;
                    count += 1;
                }
                let inner = self.item(inherited)?;
                let not = |expr| if count % 2 == 1 { Expr::Not(Box::new(expr)) } else { expr };
                match inner {
                    Item::Expr(expr, last) => Ok(Item::Expr(not(expr), last)),
                    Item::Ids(expr, last) => Ok(Item::Ids(not(expr), last)),
                    Item::Number(number, span) => {
                        let qualifiers = self.inherited(inherited, start)?;
                        let id = Expr::Term(Term::Id(qualifiers, Id::Number(number)), span);
                        Ok(Item::Ids(not(id), qualifiers))
                    }
                    Item::Arith(..) => Err(self.unexpected()),
                }
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.sequence(inherited)?;
                self.expect(")")?;
                match inner {
                    Item::Number(number, span) => self.relation_after(Arith::Number(number), span, start),
                    Item::Arith(arith, span) => self.relation_after(arith, span, start),
                    done => Ok(done),
                }
            }
            Token::Number(number) => {
                self.at += 1;
                self.relation_after(Arith::Number(number), start, start)
            }
            Token::Name(_) | Token::Dotted(_) | Token::Ipv6(_) | Token::Ether(_) | Token::OneByte(_) => {
                let qualifiers = self.inherited(inherited, start)?;
                let id = self.identifier()?;
                let expr = Expr::Term(Term::Id(qualifiers, id), start.to(self.before()));
                Ok(Item::Ids(expr, qualifiers))
            }
            _ => self.primitive(start),
        }
    }

    /// The qualifiers of the primitive before, for an address without any.
    fn inherited(&self, last: Option<Qualifiers>, span: Span) -> Result<Qualifiers, Diagnostic> {
        last.ok_or_else(|| {
            Diagnostic::error(
                span,
                "a bare address or number, and no qualifiers before it that it could take",
            )
            .with_hint("say what it is: `host 10.0.0.1`, `net 10.0.0.0/8`, `port 80`")
        })
    }

    /// The addresses after a primitive's qualifiers.
    fn addresses(&mut self, qualifiers: Qualifiers) -> Result<Expr, Diagnostic> {
        let start = self.span();
        let term = |id, span| Expr::Term(Term::Id(qualifiers, id), span);
        match self.peek().clone() {
            Token::Not => {
                self.at += 1;
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(self.unexpected());
                }
                let inner = self.addresses(qualifiers)?;
                self.depth -= 1;
                Ok(Expr::Not(Box::new(inner)))
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.sequence(Some(qualifiers))?;
                self.expect(")")?;
                match inner {
                    Item::Ids(expr, _) => Ok(expr),
                    Item::Number(number, span) => Ok(term(Id::Number(number), span)),
                    Item::Expr(..) | Item::Arith(..) => {
                        Err(Diagnostic::error(start.to(self.before()), "not a list of addresses").with_hint(
                            "inside are bare addresses, names or numbers, with `and`, `or` and `not`",
                        ))
                    }
                }
            }
            _ => {
                let id = self.identifier()?;
                Ok(term(id, start.to(self.before())))
            }
        }
    }

    /// One address, name or number, with its mask.
    fn identifier(&mut self) -> Result<Id, Diagnostic> {
        let token = self.peek().clone();
        let id = match token {
            Token::Name(name) => Id::Name(name),
            Token::Number(number) => Id::Number(number),
            Token::Ether(address) => Id::Ether(address),
            Token::OneByte(address) => Id::OneByte(address),
            Token::Ipv6(address) => {
                self.at += 1;
                return Ok(match self.length()? {
                    Some(bits) => Id::Ipv6Length(address, bits),
                    None => Id::Ipv6(address),
                });
            }
            Token::Dotted(parts) => {
                self.at += 1;
                return self.dotted(parts);
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(id)
    }

    fn dotted(&mut self, parts: Vec<u32>) -> Result<Id, Diagnostic> {
        if let Some(bits) = self.length()? {
            return Ok(Id::DottedLength(parts, bits));
        }
        if *self.peek() != Token::Word(crate::token::Word::Mask) {
            return Ok(Id::Dotted(parts));
        }
        self.at += 1;
        let Token::Dotted(mask) = self.peek().clone() else { return Err(self.unexpected()) };
        self.at += 1;
        Ok(Id::DottedMask(parts, mask))
    }

    /// `/` and a number.
    fn length(&mut self) -> Result<Option<u32>, Diagnostic> {
        if *self.peek() != Token::Sign("/") {
            return Ok(None);
        }
        self.at += 1;
        self.number().map(Some)
    }

    fn number(&mut self) -> Result<u32, Diagnostic> {
        let Token::Number(number) = *self.peek() else { return Err(self.unexpected()) };
        self.at += 1;
        Ok(number)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Diagnostic> {
        if *self.peek() != Token::Sign(sign) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn accept(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    /// Where the last word was.
    fn before(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].1
    }

    /// What stands here belongs nowhere.
    fn unexpected(&self) -> Diagnostic {
        let message = match self.peek() {
            Token::End => "the expression ends here, and something is missing",
            _ => "syntax error: this does not belong here",
        };
        Diagnostic::error(self.span(), message).with_hint("see pcap-filter(7) for the language")
    }
}

/// `left and right`, `left or right`; chains become one list.
fn join(left: Expr, right: Expr, is_and: bool) -> Expr {
    match (left, is_and) {
        (Expr::And(mut parts), true) => {
            parts.push(right);
            Expr::And(parts)
        }
        (Expr::Or(mut parts), false) => {
            parts.push(right);
            Expr::Or(parts)
        }
        (left, true) => Expr::And(vec![left, right]),
        (left, false) => Expr::Or(vec![left, right]),
    }
}
