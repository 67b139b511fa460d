//! Every bound of filters, named once. A filter is hostile input: each turns "unbounded" into a message.

/// Bytes of one filter, as in LTTng.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Operators within operators, as in LTTng. Parsing and checking do not recurse; printing and lowering do, at some hundred
/// bytes a level, which stays below the 2 MiB stack of a spawned thread (tests/text.rs goes to the limit in one).
pub(crate) const DEPTH_MAX: u32 = 1024;

/// Bytes of a string that a field is compared with.
pub(crate) const STRING_BYTES_MAX: usize = 1024;

/// Parentheses and the like within each other in a regular expression.
pub(crate) const REGEX_DEPTH_MAX: u32 = 128;

/// States of a regular expression's automaton, and of the machine that it is made from.
pub(crate) const REGEX_STATES_MAX: usize = 4096;

/// States that are looked at on the way from the one to the other: some tenths of a second.
pub(crate) const REGEX_WORK_MAX: u64 = 20_000_000;

/// Bytes of the automata of one filter in the map that holds them, where a state takes 4 for each class of bytes.
pub(crate) const AUTOMATA_BYTES_MAX: usize = 1 << 20;

/// Of which each takes so many beside its rows at most: a class for each byte, and what fills it up.
pub(crate) const AUTOMATON_BYTES: usize = 256 + 4 * 128 + 8;

/// Bytes of texts that all automata of a filter look at together, and one of them at most.
pub(crate) const MATCH_BYTES_ALL: u32 = 64 << 10;
pub(crate) const MATCH_BYTES_MAX: u32 = 4095;

/// Automata of a filter: what is left of the bytes for each is of some use.
pub(crate) const MATCHES_MAX: usize = 128;

/// Values and blocks of the function that a filter becomes.
pub(crate) const VALUES_MAX: usize = weir_ir::limits::VALUES_MAX;
pub(crate) const BLOCKS_MAX: usize = weir_ir::limits::BLOCKS_MAX;

/// Diagnostics that are kept; the ones after it help nobody.
pub(crate) const DIAGNOSTICS_MAX: usize = 100;

// With a NUL, and one more byte to tell a longer string.
const _: () = assert!(MATCH_BYTES_MAX <= weir_ir::limits::MATCH_BYTES_MAX);
const _: () = assert!(REGEX_STATES_MAX <= weir_ir::limits::AUTOMATON_STATES_MAX);
// A glob has a state for each byte, and two.
const _: () = assert!(STRING_BYTES_MAX + 2 <= weir_ir::limits::AUTOMATON_STATES_MAX);
const _: () = assert!(STRING_BYTES_MAX + 8 <= weir_ir::limits::STRING_BYTES_MAX as usize);
