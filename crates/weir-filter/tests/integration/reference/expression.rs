//! Regular expressions of the reference: as text, and where they are found, by sets of places.

use std::fmt;

#[derive(Clone, Debug)]
pub(crate) enum Regex {
    Byte(u8),
    /// Any byte but a new line.
    Any,
    Class(Vec<(u8, u8)>, bool),
    All(Vec<Regex>),
    Either(Vec<Regex>),
    /// From so many to so many times; none: without end.
    Times(Box<Regex>, usize, Option<usize>),
    Begin,
    End,
}

impl fmt::Display for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Regex::Byte(byte @ b'.') => write!(f, "\\{}", char::from(*byte)),
            Regex::Byte(byte) => write!(f, "{}", char::from(*byte)),
            Regex::Any => f.write_str("."),
            Regex::Class(ranges, negated) => {
                f.write_str(if *negated { "[^" } else { "[" })?;
                for (from, to) in ranges {
                    write!(f, "{}-{}", char::from(*from), char::from(*to))?;
                }
                f.write_str("]")
            }
            Regex::All(parts) => parts.iter().try_for_each(|part| write!(f, "{part}")),
            Regex::Either(ways) => {
                let ways: Vec<String> = ways.iter().map(Regex::to_string).collect();
                write!(f, "({})", ways.join("|"))
            }
            Regex::Times(what, 0, None) => write!(f, "({what})*"),
            Regex::Times(what, 1, None) => write!(f, "({what})+"),
            Regex::Times(what, 0, Some(1)) => write!(f, "({what})?"),
            Regex::Times(what, least, None) => write!(f, "({what}){{{least},}}"),
            Regex::Times(what, least, Some(most)) => write!(f, "({what}){{{least},{most}}}"),
            Regex::Begin => f.write_str("^"),
            Regex::End => f.write_str("$"),
        }
    }
}

impl Regex {
    pub(crate) fn is_found_in(&self, text: &[u8]) -> bool {
        self.behind(text, &vec![true; text.len() + 1]).contains(&true)
    }

    /// The places at which it ends, if it begins at one of these.
    fn behind(&self, text: &[u8], from: &[bool]) -> Vec<bool> {
        let one_on = |takes: &dyn Fn(u8) -> bool| {
            (0..from.len()).map(|at| at > 0 && from[at - 1] && takes(text[at - 1])).collect()
        };
        match self {
            Regex::Byte(byte) => one_on(&|have| have == *byte),
            Regex::Any => one_on(&|have| have != b'\n'),
            Regex::Class(ranges, negated) => {
                one_on(&|have| ranges.iter().any(|(from, to)| (*from..=*to).contains(&have)) != *negated)
            }
            Regex::All(parts) => parts.iter().fold(from.to_vec(), |from, part| part.behind(text, &from)),
            Regex::Either(ways) => {
                ways.iter().fold(vec![false; from.len()], |all, way| or(&all, &way.behind(text, from)))
            }
            Regex::Times(what, least, most) => {
                let mut now = (0..*least).fold(from.to_vec(), |from, _| what.behind(text, &from));
                let mut all = now.clone();
                for _ in *least..most.unwrap_or(*least + text.len() + 1) {
                    now = what.behind(text, &now);
                    all = or(&all, &now);
                }
                all
            }
            Regex::Begin => from.iter().enumerate().map(|(at, is_in)| *is_in && at == 0).collect(),
            Regex::End => from.iter().enumerate().map(|(at, is_in)| *is_in && at == text.len()).collect(),
        }
    }
}

fn or(a: &[bool], b: &[bool]) -> Vec<bool> {
    a.iter().zip(b).map(|(a, b)| *a || *b).collect()
}
