//! Why a program was not accepted.

use std::fmt;

/// The verdict on a program that does not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// Name of the program.
    pub program: String,
    /// Index of the instruction slot, where one is to blame.
    pub at: Option<usize>,
    /// Text of that instruction; empty where none is to blame.
    pub text: String,
    /// Which of the rules is broken, for programs.
    pub kind: RejectionKind,
    /// What was known, and what was missing.
    pub message: String,
}

/// Kinds of rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RejectionKind {
    /// It could break a rule, or is no program at all.
    Unsafe,
    /// It may be safe, but uses what weir does not run.
    Unsupported,
    /// It may be safe, but showing it would exceed a [limit](crate::Limits).
    TooBig,
}

impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RejectionKind::Unsafe => "unsafe",
            RejectionKind::Unsupported => "unsupported",
            RejectionKind::TooBig => "too big",
        };
        match self.at {
            Some(at) => {
                write!(out, "{}: instruction {at}: `{}`: {kind}: {}", self.program, self.text, self.message)
            }
            None => write!(out, "{}: {kind}: {}", self.program, self.message),
        }
    }
}

impl std::error::Error for Rejection {}

/// A rejection before the program and the instruction are named.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: RejectionKind,
    pub(crate) message: String,
}

pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind: RejectionKind::Unsafe, message: message.into() })
}

pub(crate) fn unsupported<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind: RejectionKind::Unsupported, message: message.into() })
}

pub(crate) fn too_big<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind: RejectionKind::TooBig, message: message.into() })
}
