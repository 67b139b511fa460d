//! `sample 1/100` and `rate 100/s`, behind the condition.

use weir_source::{Diagnostic, Span};

use crate::ast::{Clause, ClauseKind, TimeUnit};
use crate::parser::Parser;
use crate::token::TokenKind;

const SAMPLE: &str = "sample";
const RATE: &str = "rate";

/// Where an operator may stand, these words begin a clause.
pub(super) fn begins(word: &str) -> bool {
    matches!(word, SAMPLE | RATE)
}

impl Parser<'_> {
    /// All clauses, behind the first word of the first one; to the end.
    pub(super) fn clauses(&mut self, word: &str, span: Span) -> Result<(), Diagnostic> {
        let (mut word, mut span) = (word.to_owned(), span);
        loop {
            let clause = if word == SAMPLE { self.sample(span)? } else { self.rate(span)? };
            let is_same =
                |other: &Clause| std::mem::discriminant(&other.kind) == std::mem::discriminant(&clause.kind);
            if self.clauses.iter().any(is_same) {
                let fault = Diagnostic::error(clause.span, format!("`{word}` is there twice"));
                return Err(fault.with_hint("leave one of them out"));
            }
            self.clauses.push(clause);
            let token = self.lexer.next()?;
            match token.kind {
                TokenKind::Eof => return Ok(()),
                TokenKind::Name(next) if begins(&next) => (word, span) = (next, token.span),
                _ => {
                    let fault = Diagnostic::error(token.span, "nothing but `sample` and `rate` stands here");
                    return Err(fault.with_hint("they are behind the whole condition"));
                }
            }
        }
    }

    fn sample(&mut self, word: Span) -> Result<Clause, Diagnostic> {
        let hint =
            "such as `sample 1/100`, with numbers from 1 to 4294967295, the first not above the second";
        let kept = self.count(word, hint)?;
        self.slash(word, hint)?;
        let (of, end) = self.count(word, hint)?;
        let span = word.to(end);
        if kept.0 > of {
            return Err(Diagnostic::error(span, "a sample of more than all").with_hint(hint));
        }
        Ok(Clause { kind: ClauseKind::Sample { kept: kept.0, of }, span })
    }

    fn rate(&mut self, word: Span) -> Result<Clause, Diagnostic> {
        let hint = "such as `rate 100/s`, with a number from 1 to 4294967295 and `s`, `min` or `h`";
        let (count, _) = self.count(word, hint)?;
        self.slash(word, hint)?;
        let token = self.lexer.next()?;
        let unit = match &token.kind {
            TokenKind::Name(name) => TimeUnit::ALL.iter().find(|(_, known, _)| known == name),
            _ => None,
        };
        let Some((unit, ..)) = unit else {
            return Err(Diagnostic::error(token.span, "expected a unit of time").with_hint(hint));
        };
        Ok(Clause { kind: ClauseKind::Rate { count, unit: *unit }, span: word.to(token.span) })
    }

    fn count(&mut self, word: Span, hint: &str) -> Result<(u64, Span), Diagnostic> {
        let token = self.lexer.next()?;
        match token.kind {
            TokenKind::Int(value) if (1..=u64::from(u32::MAX)).contains(&value) => Ok((value, token.span)),
            TokenKind::Int(_) => Err(Diagnostic::error(token.span, "out of range").with_hint(hint)),
            _ => Err(Diagnostic::error(word, "a number is missing").with_hint(hint)),
        }
    }

    fn slash(&mut self, word: Span, hint: &str) -> Result<(), Diagnostic> {
        match self.lexer.next()?.kind {
            TokenKind::Punct("/") => Ok(()),
            _ => Err(Diagnostic::error(word, "a `/` is missing").with_hint(hint)),
        }
    }
}
