//! Event filters of many string predicates, as the thesis on trace filters measures them (`tests/lttng`, docs/bench).
//!
//! An event has [`FIELDS`] strings, `var0` with the text `str0` and so on. A [`Chain`] joins predicates on them by `&&` or `||`; it
//! is written as a filter's text and as C. [`sides`] runs it hard-coded, in machine code and in the interpreter; [`mod@build`]
//! measures what it takes to make a filter, and its memory.
//!
//! More predicates than fields ask of the same fields again, with constants of their own, which the text does not have: no
//! predicate says what another has said, so that no compiler has less to do.

mod build;
mod shared;
mod sides;

use std::fmt::Write as _;

use weir_event::schema::{Field, Form, Schema, Type};

pub use self::build::{Built, Stages, build};
pub use self::sides::{Lane, SUBJECTS, Sides};

/// Strings of an event: as many slots as an event has, but one.
pub const FIELDS: usize = 20;

/// Numbers of predicates.
pub const COUNTS: [usize; 7] = [1, 5, 9, 10, 20, 40, 50];
/// Predicates of the chain whose depth of evaluation changes, and the depths.
pub const DEEP: usize = 50;
pub const DEPTHS: [usize; 8] = [5, 10, 15, 20, 25, 30, 35, 40];

/// What joins predicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joint {
    And,
    Or,
}

/// One comparison: field, whether it is to be another text, constant.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Predicate {
    field: usize,
    differs: bool,
    text: String,
}

/// A filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// As in tables.
    pub name: String,
    /// The answer for the event.
    pub answer: bool,
    joint: Joint,
    predicates: Vec<Predicate>,
}

/// The text of a field.
pub fn value(field: usize) -> String {
    format!("str{field}")
}

/// The fields' types: texts that the program vouches for.
pub fn schema() -> Schema {
    let field = |slot: usize| Field {
        name: format!("var{slot}"),
        ty: Type::Text,
        slot: slot as u8,
        form: Form::default(),
    };
    Schema {
        provider: "bench".into(),
        event: "ev".into(),
        fields: (0..FIELDS).map(field).collect(),
        ..Schema::default()
    }
}

/// Every filter that is measured, the longest chains last; the first keeps everything, and is what is subtracted.
pub fn chains() -> Vec<Chain> {
    let mut chains =
        vec![Chain { name: "empty".into(), answer: true, joint: Joint::And, predicates: Vec::new() }];
    for count in COUNTS {
        chains.push(Chain::and(format!("and true {count}"), count, None));
        chains.push(Chain::and(format!("and false {count}"), count, Some(count - 1)));
        chains.push(Chain::or(format!("or true {count}"), count, Some(count - 1)));
        chains.push(Chain::or(format!("or false {count}"), count, None));
    }
    chains.extend(DEPTHS.map(|depth| Chain::and(format!("depth {depth} of {DEEP}"), DEEP, Some(depth - 1))));
    chains
}

impl Chain {
    /// All predicates hold but the one at `fails`.
    fn and(name: String, count: usize, fails: Option<usize>) -> Chain {
        let predicate = |at: usize| {
            let field = at % FIELDS;
            match at / FIELDS {
                _ if fails == Some(at) => Predicate { field, differs: false, text: other('z', field) },
                0 => Predicate { field, differs: false, text: value(field) },
                time => Predicate { field, differs: true, text: other(letter(time), field) },
            }
        };
        let predicates = (0..count).map(predicate).collect();
        Chain { name, answer: fails.is_none(), joint: Joint::And, predicates }
    }

    /// No predicate holds but the one at `holds`.
    fn or(name: String, count: usize, holds: Option<usize>) -> Chain {
        let predicate = |at: usize| {
            let field = at % FIELDS;
            let text = if holds == Some(at) { value(field) } else { other(letter(at / FIELDS), field) };
            Predicate { field, differs: false, text }
        };
        let predicates = (0..count).map(predicate).collect();
        Chain { name, answer: holds.is_some(), joint: Joint::Or, predicates }
    }

    /// How many predicates it has.
    pub fn count(&self) -> usize {
        self.predicates.len()
    }

    /// Fields that it reads: the first ones.
    pub fn fields(&self) -> usize {
        self.predicates.iter().map(|predicate| predicate.field + 1).max().unwrap_or(0)
    }

    /// As weir's and LTTng's filters are written.
    pub fn text(&self) -> String {
        self.joined("1", |text, Predicate { field, differs, text: constant }| {
            let operator = if *differs { "!=" } else { "==" };
            write!(text, "var{field} {operator} \"{constant}\"")
        })
    }

    /// As an expression of C over `field`.
    fn c(&self) -> String {
        self.joined("1", |text, Predicate { field, differs, text: constant }| {
            let operator = if *differs { "!=" } else { "==" };
            write!(text, "strcmp(field[{field}], \"{constant}\") {operator} 0")
        })
    }

    fn joined(&self, none: &str, one: impl Fn(&mut String, &Predicate) -> std::fmt::Result) -> String {
        let mut text = String::new();
        for predicate in &self.predicates {
            if !text.is_empty() {
                text += if self.joint == Joint::And { " && " } else { " || " };
            }
            // SANITY: a string takes all that is written.
            one(&mut text, predicate).expect("room");
        }
        if text.is_empty() { none.to_owned() } else { text }
    }
}

/// As long as the field's text, and another.
fn other(letter: char, field: usize) -> String {
    format!("st{letter}{field}")
}

fn letter(time: usize) -> char {
    char::from(b'a' + time as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_predicate_of_a_chain_stands_twice() {
        for chain in chains() {
            let mut texts: Vec<(usize, &str)> =
                chain.predicates.iter().map(|predicate| (predicate.field, predicate.text.as_str())).collect();
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts.len(), chain.count(), "{}", chain.name);
        }
    }

    #[test]
    fn chains_answer_what_they_say() {
        let holds = |predicate: &Predicate| (predicate.text == value(predicate.field)) != predicate.differs;
        for chain in chains() {
            let mut predicates = chain.predicates.iter();
            let answer = match chain.joint {
                Joint::And => predicates.all(holds),
                Joint::Or => predicates.any(holds),
            };
            assert_eq!(answer, chain.answer, "{}", chain.name);
        }
    }

    #[test]
    fn chains_are_written_for_both() {
        let chain = Chain::and("x".into(), 2, None);
        assert_eq!(chain.text(), r#"var0 == "str0" && var1 == "str1""#);
        assert_eq!(chain.c(), r#"strcmp(field[0], "str0") == 0 && strcmp(field[1], "str1") == 0"#);
    }
}
