//! A second opinion on the IR for property tests: random modules that `check` accepts, and a slow evaluator that
//! says what a function does to maps and records. It shares nothing with the passes but the meaning of arithmetic.

pub(crate) mod evaluate;
pub(crate) mod generate;
