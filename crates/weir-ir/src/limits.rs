//! The bounds of the IR, each named once.

/// Values of one function; a script clause has at most a few hundred.
pub const VALUES_MAX: usize = 1 << 16;
/// Blocks of one function.
pub const BLOCKS_MAX: usize = 1 << 14;
/// Bytes of one string type: 16 times bpftrace's default `max_strlen` of 1024.
pub const STRING_BYTES_MAX: u32 = 1 << 14;
/// Strings that one operation reads by pointers that lie one after the other.
pub const STRINGS_MAX: u32 = 64;
/// Bytes of a key, a field or a value of any type.
pub const TYPE_BYTES_MAX: u32 = 1 << 15;
/// Tuples within tuples.
pub const TUPLE_DEPTH_MAX: usize = 8;
/// Buckets of `lhist`: bpftrace's limit of 1000 steps, and the two outside.
pub const LHIST_BUCKETS_MAX: u32 = 1002;
/// Intervals of one time series.
pub const INTERVALS_MAX: u32 = 1000;
/// Entries of a keyed map.
pub const MAP_KEYS_MAX: u32 = 1 << 26;
/// Rounds of loops that one run has in all, if nothing else is said: some milliseconds of the traced program's time.
pub const LOOP_ITERATIONS: u32 = 1 << 20;
/// The most that may be said: what `may_goto` counts (Linux: BPF_MAX_LOOPS).
pub const LOOP_ITERATIONS_MAX: u32 = 1 << 23;
/// Integer arguments of a probed function that travel in registers.
pub const ARGUMENTS: u8 = 6;
/// Floating-point arguments that do.
pub const FLOATS: u8 = 8;
/// Slots of an event that a filter reads: as many words as the registers of a probe (pt_regs), whose place they take.
pub const SLOTS: u8 = 21;
/// What the first word of a row is as a slot: a place that has more arguments than registers passes the address of such a row.
pub const ROW_WORDS: u8 = 128;
/// Most words of a row.
pub const ROW_WORDS_MAX: u8 = 64;
/// Bytes that a text is asked to begin with, the NUL at its end included: what one call of `weir_text_begins` takes.
pub const TEXT_BYTES_MAX: usize = 24;
/// States of an automaton that have a row.
pub const AUTOMATON_STATES_MAX: usize = 4096;
/// Bytes of a text that an automaton looks at.
pub const MATCH_BYTES_MAX: u32 = 1 << 16;
/// Bytes of a text that are read at a time on the way.
pub const MATCH_PIECE_BYTES: u32 = 63;
/// Registers that a program may ask for: 16 general ones, ip and flags.
pub const REGISTERS: u8 = 18;

const _: () = assert!(AUTOMATON_STATES_MAX + 2 <= u16::MAX as usize);
const _: () = assert!(STRING_BYTES_MAX <= TYPE_BYTES_MAX);
const _: () = assert!(8 * LHIST_BUCKETS_MAX <= TYPE_BYTES_MAX);
const _: () = assert!(8 * weir_event::SERIES_WORDS * INTERVALS_MAX <= TYPE_BYTES_MAX);
const _: () = assert!(STRING_BYTES_MAX.is_multiple_of(8) && TYPE_BYTES_MAX.is_multiple_of(8));

/// Whether a slot is a word of a row.
pub fn is_row_word(slot: u8) -> bool {
    (ROW_WORDS..ROW_WORDS + ROW_WORDS_MAX).contains(&slot)
}
