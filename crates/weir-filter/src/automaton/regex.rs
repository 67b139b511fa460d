//! Regular expressions: text → parsed by `regex-syntax` → the states of a machine that may be in several at once → [`subset`].
//!
//! The syntax is that of Rust's `regex` crate. Expressions are about bytes: `.` is any byte but a new line, `\w`, `\d`, `\s` and
//! `(?i)` are about ASCII, and a letter beyond it stands for its bytes of UTF-8. Nothing is anchored but by `^` and `$`, the text's
//! own ends.
//!
//! Refused: word boundaries, the ends of lines (`(?m)`), classes by Unicode's properties, and what needs more states than there may be.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};
use regex_syntax::utf8::{Utf8Sequence, Utf8Sequences};
use weir_ir::Automaton;

use crate::automaton::subset;
use crate::limits;

/// Why an expression is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RegexFault {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
    /// Bytes of the expression, if some are to blame.
    pub(crate) at: Option<(usize, usize)>,
}

/// One state of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// A byte of this range leads on.
    Bytes {
        from: u8,
        to: u8,
        next: usize,
    },
    /// Any of these.
    Split(Vec<usize>),
    /// Only where the text begins.
    Begin(usize),
    /// Only where it ends.
    End(usize),
    Match,
}

/// The texts in which the expression is found.
pub(crate) fn regex(text: &str) -> Result<Automaton, RegexFault> {
    let mut syntax = ParserBuilder::new();
    syntax.unicode(false).utf8(false).nest_limit(limits::REGEX_DEPTH_MAX);
    let hir = syntax.build().parse(text).map_err(|error| of_syntax(&error))?;
    let mut machine = Machine { states: vec![State::Match] };
    let start = machine.add(&hir, 0)?;
    subset::automaton(&machine.states, start).ok_or_else(too_large)
}

fn of_syntax(error: &regex_syntax::Error) -> RegexFault {
    let (message, span) = match error {
        regex_syntax::Error::Parse(fault) => (fault.kind().to_string(), Some(fault.span())),
        regex_syntax::Error::Translate(fault) => (fault.kind().to_string(), Some(fault.span())),
        other => (other.to_string(), None),
    };
    RegexFault {
        message: format!("the regular expression is wrong: {message}"),
        hint: "the syntax is that of Rust's `regex`; expressions are about bytes",
        at: span.map(|span| (span.start.offset, span.end.offset)),
    }
}

fn unsupported(what: &str, hint: &'static str) -> RegexFault {
    let message = format!("not supported by weir yet: {what} in regular expressions");
    RegexFault { message, hint, at: None }
}

fn too_large() -> RegexFault {
    let message = format!(
        "the regular expression is too large: it needs more than {} states",
        limits::REGEX_STATES_MAX
    );
    RegexFault {
        message,
        hint: "counted repetitions behind `.*` need many: use fewer, or smaller counts",
        at: None,
    }
}

struct Machine {
    states: Vec<State>,
}

impl Machine {
    fn push(&mut self, state: State) -> Result<usize, RegexFault> {
        if self.states.len() >= limits::REGEX_STATES_MAX {
            return Err(too_large());
        }
        self.states.push(state);
        Ok(self.states.len() - 1)
    }

    /// The state from which `hir` leads to `next`. As deep as the parser lets expressions nest.
    fn add(&mut self, hir: &Hir, next: usize) -> Result<usize, RegexFault> {
        match hir.kind() {
            HirKind::Empty => Ok(next),
            HirKind::Literal(literal) => {
                literal.0.iter().rev().try_fold(next, |next, byte| self.byte(*byte, *byte, next))
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges = class.ranges().iter();
                let ways: Result<Vec<usize>, RegexFault> =
                    ranges.map(|range| self.byte(range.start(), range.end(), next)).collect();
                self.push(State::Split(ways?))
            }
            // Of `a|b`, and of letters beyond ASCII.
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.ranges().iter();
                let sequences = ranges.flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
                let bytes = |sequence: Utf8Sequence| {
                    let mut parts = sequence.as_slice().iter().rev();
                    parts.try_fold(next, |next, part| self.byte(part.start, part.end, next))
                };
                let ways: Result<Vec<usize>, RegexFault> = sequences.map(bytes).collect();
                self.push(State::Split(ways?))
            }
            HirKind::Look(Look::Start) => self.push(State::Begin(next)),
            HirKind::Look(Look::End) => self.push(State::End(next)),
            HirKind::Look(Look::StartLF | Look::EndLF | Look::StartCRLF | Look::EndCRLF) => {
                Err(unsupported("ends of lines", "leave out `(?m)`; `\\n` is a new line"))
            }
            HirKind::Look(_) => {
                Err(unsupported("word boundaries", "`(^|[^0-9A-Za-z_])` is one, before a word"))
            }
            HirKind::Repetition(repetition) => self.repeat(repetition, next),
            HirKind::Capture(capture) => self.add(&capture.sub, next),
            HirKind::Concat(parts) => parts.iter().rev().try_fold(next, |next, part| self.add(part, next)),
            HirKind::Alternation(ways) => {
                let ways: Result<Vec<usize>, RegexFault> =
                    ways.iter().map(|way| self.add(way, next)).collect();
                self.push(State::Split(ways?))
            }
        }
    }

    fn byte(&mut self, from: u8, to: u8, next: usize) -> Result<usize, RegexFault> {
        self.push(State::Bytes { from, to, next })
    }

    fn repeat(&mut self, repetition: &Repetition, next: usize) -> Result<usize, RegexFault> {
        let Repetition { min, max, ref sub, .. } = *repetition;
        // What takes no bytes is there once or as often as one likes.
        if sub.properties().maximum_len() == Some(0) {
            let once = self.add(sub, next)?;
            return if min == 0 { self.push(State::Split(vec![once, next])) } else { Ok(once) };
        }
        let mut first = next;
        match max {
            None => {
                first = self.push(State::Split(Vec::new()))?;
                let again = self.add(sub, first)?;
                self.states[first] = State::Split(vec![again, next]);
            }
            Some(max) => {
                for _ in min..max {
                    let once = self.add(sub, first)?;
                    first = self.push(State::Split(vec![once, next]))?;
                }
            }
        }
        (0..min).try_fold(first, |next, _| self.add(sub, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, yes: &[&str], no: &[&str]) {
        let automaton = regex(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.message));
        for (texts, expected) in [(yes, true), (no, false)] {
            texts
                .iter()
                .for_each(|have| assert_eq!(automaton.matches(have.as_bytes()), expected, "{text} {have}"));
        }
    }

    #[track_caller]
    fn refused(text: &str, message: &str, at: Option<(usize, usize)>) {
        let fault = regex(text).expect_err(text);
        assert!(fault.message.contains(message), "{text}: {}", fault.message);
        assert_eq!(fault.at, at, "{text}");
    }

    #[test]
    fn expressions_are_found_anywhere_but_for_anchors() {
        check("b", &["b", "abc"], &["", "a"]);
        check("^b", &["b", "bc"], &["ab"]);
        check("b$", &["b", "ab"], &["bc"]);
        check("^$", &[""], &["a"]);
        check("$^", &[""], &["a"]);
        check("", &["", "a"], &[]);
        check("a|^b$", &["xa", "b"], &["xb", "bx"]);
        check("^(a|b)*$", &["", "ab", "bba"], &["c", "abc"]);
        check("(^a|b$)", &["ax", "xb"], &["xa", "bx"]);
    }

    #[test]
    fn classes_and_counts_are_what_they_say() {
        check("^[a-c]{2,3}$", &["ab", "abc"], &["a", "abca", "ad"]);
        check("^a{3}b?$", &["aaa", "aaab"], &["aa", "aabb"]);
        check("^a{2,}$", &["aa", "aaaa"], &["a"]);
        check(r"^\d+\.\d+$", &["1.5", "10.25"], &["1", "1x5", "1."]);
        check("^.$", &["a", "\t"], &["", "\n", "ab", "é"]);
        check("^é$", &["é"], &["e"]);
        check("^(é|è|a)$", &["é", "è", "a"], &["e", "ê"]);
        check("^(?u:.)$", &["é", "a"], &["", "\n"]);
        check("(?i)^abC$", &["aBc", "ABC"], &["abd"]);
        check("^[^a]$", &["b", "\n"], &["a", ""]);
        check("(a*)*b", &["b", "aab"], &["a"]);
        check("^(|a)+$", &["", "aa"], &["b"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        refused("a(b", "unclosed group", Some((1, 2)));
        refused("ab[c", "unclosed character class", Some((2, 3)));
        refused("a|*b", "repetition operator missing expression", Some((2, 2)));
        refused(r"\bab", "word boundaries", None);
        refused("(?m)^a", "ends of lines", None);
    }

    #[test]
    fn size_is_bounded() {
        refused("(a{100}){100}", "too large", None);
        refused("a.{30}", "too large", None);
        refused("(.{1000}|.{999}x){9}", "too large", None);
        check("(){1000000}(^){9999}a", &["ab"], &["ba"]);
        let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
        assert!(regex(&deep).is_err());
    }
}
