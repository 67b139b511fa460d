//! Every bound of the front end, named once, with the relations between them.
//!
//! A script is hostile input: each of these turns "unbounded" into an error message.

pub(crate) use weir_syntax::limits::{DIAGNOSTICS_GATHERED_MAX, DIAGNOSTICS_MAX, NESTING_MAX};

/// Expressions that macros, functions and imports may make, levels of calls within calls, and files that are imported.
pub(crate) const EXPANSION_NODES_MAX: usize = 1 << 17;
pub(crate) const EXPANSION_DEPTH_MAX: usize = 32;
pub(crate) const IMPORTS_MAX: usize = 64;

/// Rounds of type inference over the whole script. One round resolves everything that is assigned before it is
/// read; each further one a link in a chain of maps that are read above their assignment (bpftrace: 10).
pub(crate) const INFERENCE_ROUNDS_MAX: usize = 16;

/// Script maps.
pub(crate) const MAPS_MAX: usize = 256;

/// Scratch variables in scope at once. Every branch remembers all of them.
pub(crate) const VARIABLES_MAX: usize = 256;

/// Values and blocks of one IR function: what the IR's text form takes.
pub(crate) const FUNCTION_VALUES_MAX: usize = 1 << 16;
pub(crate) const FUNCTION_BLOCKS_MAX: usize = 1 << 14;

/// Bytes of a record or an array that is a value: it is copied by words.
pub(crate) const OBJECT_BYTES_MAX: u32 = 1024;

/// Types of members that are looked up for it.
pub(crate) const OBJECT_TYPES_MAX: usize = 1024;

/// Bytes of a type's name as a value of the script.
pub(crate) const TYPE_NAME_MAX: usize = 1000;

/// Parts of a tuple.
pub(crate) const TUPLE_PARTS_MAX: usize = 32;

/// Bytes of the part that `strcontains` looks for: a state of an automaton each, and the work to make it grows with their third power.
pub(crate) const PART_BYTES_MAX: usize = 128;

/// What `join` prints: strings as in bpftrace, and bytes of them with their number.
pub(crate) const JOIN_STRINGS: u32 = 16;
pub(crate) const JOIN_BYTES: u32 = 4096;

/// Levels of tuples within tuples, and parts of all of them together.
pub(crate) const TUPLE_LEVELS_MAX: usize = weir_ir::limits::TUPLE_DEPTH_MAX;
pub(crate) const TUPLE_LEAVES_MAX: usize = 128;

/// Arguments of `printf` after the format.
pub(crate) const PRINTF_ARGS_MAX: usize = 64;

/// Bytes of one key or record: what the maps and the ring take in one piece.
pub(crate) const VALUE_BYTES_MAX: u32 = 16 * 1024;

/// Buckets of `lhist` between its bounds, as in bpftrace.
pub(crate) const LHIST_BUCKETS_MAX: i128 = 1000;

/// The settings of the `config` block: least, most.
pub(crate) const MAX_STRLEN_RANGE: (u64, u64) = (8, 4096);
pub(crate) const MAX_MAP_KEYS_RANGE: (u64, u64) = (1, 1 << 20);
pub(crate) const MAX_CAT_BYTES_RANGE: (u64, u64) = (1, 1 << 20);
pub(crate) const MAX_PROBES_RANGE: (u64, u64) = (1, 1 << 16);
pub(crate) const MAX_LOOP_ITERATIONS_RANGE: (u64, u64) = (1, weir_ir::limits::LOOP_ITERATIONS_MAX as u64);

/// Rounds of `unroll`, as in bpftrace.
pub(crate) const UNROLL_RANGE: (i128, i128) = (1, 100);

/// Sites of one script, unless `max_probes` says otherwise (bpftrace's default).
pub(crate) const MAX_PROBES_DEFAULT: u64 = 1024;

/// Ways in which the arguments of one clause's static probes may lie: each is a program of its own.
pub(crate) const ARGUMENT_SHAPES_MAX: usize = 64;

/// Sites that `probe == "…"` or `func == "…"` may stand for in one comparison.
pub(crate) const SITE_COMPARISONS_MAX: usize = 64;

/// The shortest period of an interval probe: the controller could not keep a shorter one.
pub(crate) const INTERVAL_PERIOD_NS_MIN: u64 = 1_000;

/// Bytes of `comm`.
pub(crate) const COMM_BYTES: u32 = 16;

const _: () = assert!(MAX_STRLEN_RANGE.1 < VALUE_BYTES_MAX as u64);
const _: () = assert!(LHIST_BUCKETS_MAX < u32::MAX as i128);
