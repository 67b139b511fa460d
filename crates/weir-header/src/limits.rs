//! Every bound on C text, named once. It is hostile input: each of these turns "unbounded" into an error message.

/// Tokens of C text that one script reads, in headers and out of macros.
pub(crate) const C_TOKENS_MAX: u32 = 1 << 20;

/// Tokens that one macro may become where it is to be a constant.
pub(crate) const C_MACRO_TOKENS_MAX: u32 = 1 << 14;

/// Levels of brackets, declarators, conditions and macros in C text.
pub(crate) const C_NESTING_MAX: u32 = 100;

/// Headers within headers, and headers in all.
pub(crate) const C_INCLUDE_DEPTH_MAX: usize = 100;
pub(crate) const C_INCLUDES_MAX: u32 = 2_000;

/// Members of a record, and values of an enumeration.
pub(crate) const C_MEMBERS_MAX: usize = 1 << 14;

/// The largest alignment.
pub(crate) const C_ALIGN_MAX: u32 = 1 << 16;

/// Diagnostics that are gathered before the reader gives up.
pub(crate) const DIAGNOSTICS_GATHERED_MAX: usize = 1000;
