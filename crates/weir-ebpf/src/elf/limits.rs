//! Every bound of the reader of object files. A file past one is refused; together they bound memory to some 100 MiB,
//! whatever the file says, even where its sections overlap.

/// Bytes of a file: more need not be read of one. The largest that projects ship, with all their debug information,
/// have some 5 MiB.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Sections of a file; the largest of the kernel's own tests have some 200.
pub(crate) const SECTIONS_MAX: usize = 4096;
/// Symbols of a file.
pub(crate) const SYMBOLS_MAX: usize = 1 << 18;
/// Relocations of code and data sections, all together.
pub(crate) const RELOCATIONS_MAX: usize = 1 << 18;
/// Bytes of the name of a section or symbol, without its end.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Instruction slots of all code sections, and of all programs after subprograms were appended.
pub(crate) const SLOTS_MAX: usize = 1 << 20;
/// Instruction slots of one program with its subprograms (Linux: BPF_COMPLEXITY_LIMIT_INSNS is as large).
pub(crate) const PROGRAM_SLOTS_MAX: usize = 1 << 18;
/// Instructions of all programs that stand for something that is not to be had: each has words of its own.
pub(crate) const MISSING_MAX: usize = 1 << 16;
/// Maps of an object.
pub(crate) const MAPS_MAX: usize = 256;
/// Slots of an array of programs, up to the last one that a file fills.
pub(crate) const PROGRAM_SLOTS_IN_MAP_MAX: u32 = 1 << 16;
/// Bytes of one data section: the value of an array.
pub(crate) const DATA_BYTES_MAX: u64 = 1 << 20;
/// Bytes of all data sections.
pub(crate) const DATA_BYTES_SUM_MAX: u64 = 16 << 20;
/// Variables of the kernel's configuration that a file may name, and as many of the kernel's symbols.
pub(crate) const EXTERNS_MAX: usize = 4096;
/// Variables whose types are looked at; of those behind them nothing is told.
pub(crate) const DESCRIBED_VARIABLES_MAX: usize = 1 << 14;
/// Bytes of a license.
pub(crate) const LICENSE_BYTES_MAX: usize = 127;

const _: () = assert!(PROGRAM_SLOTS_MAX <= SLOTS_MAX && SLOTS_MAX < i32::MAX as usize);
const _: () = assert!(DATA_BYTES_MAX <= DATA_BYTES_SUM_MAX && DATA_BYTES_MAX < u32::MAX as u64);
