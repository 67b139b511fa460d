//! Why a file was not read.

use std::fmt;

/// The refusal of a whole file. What names a place is there wherever there is a place to blame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElfError {
    pub kind: ElfErrorKind,
    pub section: Option<String>,
    pub symbol: Option<String>,
    /// Slot of the instruction, counted from the start of its function.
    pub insn: Option<usize>,
    /// `file:line` of the instruction.
    pub source: Option<String>,
    pub message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElfErrorKind {
    /// It is no object, or contradicts itself.
    Malformed,
    /// It may be well, but uses what weir does not have.
    Unsupported,
    /// It is larger than weir's bounds allow.
    TooBig,
}

pub(crate) type Result<T, E = ElfError> = std::result::Result<T, E>;

impl ElfError {
    fn new(kind: ElfErrorKind, message: impl Into<String>) -> ElfError {
        ElfError { kind, section: None, symbol: None, insn: None, source: None, message: message.into() }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> ElfError {
        ElfError::new(ElfErrorKind::Malformed, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> ElfError {
        ElfError::new(ElfErrorKind::Unsupported, message)
    }

    pub(crate) fn too_big(what: &str, count: u64, most: u64) -> ElfError {
        ElfError::new(ElfErrorKind::TooBig, format!("{count} {what}; the limit is {most}"))
    }

    /// The section, unless one was named closer to the fault.
    pub(crate) fn in_section(mut self, name: &str) -> ElfError {
        self.section.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn in_symbol(mut self, name: &str) -> ElfError {
        self.symbol.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn at(mut self, slot: usize) -> ElfError {
        self.insn.get_or_insert(slot);
        self
    }
}

impl fmt::Display for ElfError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = &self.section {
            write!(out, "section `{}`: ", section.escape_debug())?;
        }
        if let Some(symbol) = &self.symbol {
            write!(out, "`{}`: ", symbol.escape_debug())?;
        }
        if let Some(insn) = self.insn {
            write!(out, "instruction {insn}")?;
            if let Some(source) = &self.source {
                write!(out, " ({})", source.escape_debug())?;
            }
            out.write_str(": ")?;
        }
        match self.kind {
            ElfErrorKind::Malformed => {}
            ElfErrorKind::Unsupported => out.write_str("unsupported: ")?,
            ElfErrorKind::TooBig => out.write_str("too big: ")?,
        }
        out.write_str(&self.message)
    }
}

impl std::error::Error for ElfError {}
