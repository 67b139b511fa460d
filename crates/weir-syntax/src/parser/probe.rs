//! Attach points: text up to the predicate or the block, split at colons.
//!
//! Here `/ - . * ? [ ]` are letters, and quotes make any character one. A `/` belongs to the probe only in its
//! second part (the binary); anywhere else it starts the predicate, so that `BEGIN/1/{}` reads as in bpftrace.

use weir_source::Span;

use crate::ast;
use crate::parser::Parser;
use crate::parser::role::Role;
use crate::token::TokenKind;

impl Parser<'_> {
    /// A comma list of attach points, each checked for having a kind.
    pub(super) fn attach_points(&mut self) -> Vec<ast::Probe> {
        let mut probes = Vec::new();
        loop {
            self.lexer.skip_blank();
            probes.extend(self.attach_point());
            self.lexer.skip_blank();
            if !self.lexer.text[self.lexer.position..].starts_with(',') {
                return probes;
            }
            self.lexer.position += 1;
        }
    }

    fn attach_point(&mut self) -> Option<ast::Probe> {
        let start = self.lexer.position;
        let mut parts = Vec::new();
        let mut sound = true;
        loop {
            let part = self.probe_part(&parts, &mut sound);
            parts.push(part);
            if !self.lexer.text[self.lexer.position..].starts_with(':') {
                break;
            }
            self.lexer.position += 1;
        }
        let span = Span::new(start, self.lexer.position);
        if span.start == span.end {
            let found = self.found();
            self.back_to_text();
            let next = self.lexer.text[start..].chars().next().map_or(0, char::len_utf8);
            let place = Span::new(start, start + next);
            self.fault(
                place,
                &format!("expected a probe, found {found}"),
                "such as `BEGIN`, `interval:s:1` or `uprobe:libc:malloc`",
            );
            self.recovering = false;
            return None;
        }
        self.roles.set(start, Role::Probe { end: self.lexer.position });
        sound.then_some(ast::Probe { parts, span })
    }

    /// One part, after those already read, up to its `:` or the end of the attach point.
    fn probe_part(&mut self, before: &[ast::Name], sound: &mut bool) -> ast::Name {
        let start = self.lexer.position;
        let in_path = match before {
            [kind] => !(self.words.is_without_path)(&kind.text.to_lowercase()),
            _ => false,
        };
        let mut text = String::new();
        while let Some(next) = self.lexer.text[self.lexer.position..].chars().next() {
            match next {
                '"' => match self.lexer.string() {
                    TokenKind::Str(quoted) => text.push_str(&quoted),
                    _ => *sound = false,
                },
                ':' | ',' | '{' => break,
                '/' if !in_path => break,
                _ if next.is_whitespace() => break,
                _ => {
                    text.push(next);
                    self.lexer.position += next.len_utf8();
                }
            }
        }
        ast::Name { text, span: Span::new(start, self.lexer.position) }
    }
}
