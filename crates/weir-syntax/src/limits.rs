//! Bounds of the syntax: a script is hostile input, and each of these turns "unbounded" into an error message.

/// Bytes of one script. Spans are `u32`, so this may not exceed 4 GiB.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// Levels of nesting of expressions and of blocks, and operators in one chain without parentheses. The stages
/// after the parser recurse over the tree; at 1–2 KiB a frame and some frames a level this stays far below the
/// 2 MiB stack of a spawned thread.
pub const NESTING_MAX: u32 = 128;

/// Diagnostics that are kept; the ones after it help nobody.
pub const DIAGNOSTICS_MAX: usize = 100;

/// Diagnostics that a stage gathers before it gives up: more than are kept, as repeated ones are removed.
pub const DIAGNOSTICS_GATHERED_MAX: usize = 10 * DIAGNOSTICS_MAX;

/// Stars and brackets after the name of a type.
pub(crate) const ARRAY_SUFFIXES_MAX: usize = 100;

const _: () = assert!(SCRIPT_BYTES_MAX < u32::MAX as usize);
