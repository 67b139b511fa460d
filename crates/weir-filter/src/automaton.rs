//! What is asked of a whole text → an automaton that answers it in one pass: stars anywhere ([`glob()`]), order ([`order()`]),
//! regular expressions ([`regex()`]).
//!
//! Nothing is searched twice: of a star's piece the automaton knows how much of it the last bytes are, so that a text of n bytes
//! takes n steps, whatever the pattern. Tables are bounded ([`limits`](crate::limits)); of a glob they cannot become large.

mod glob;
mod order;

mod regex;
mod subset;

pub(crate) use crate::automaton::glob::glob;
pub(crate) use crate::automaton::order::order;
pub(crate) use crate::automaton::regex::regex;
