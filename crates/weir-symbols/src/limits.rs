//! Every bound of this crate, with its reason.

/// Largest ELF file read. The largest seen are browsers with debug information (≈ 1.5 GiB).
pub(crate) const FILE_BYTES_MAX: u64 = 2 << 30;
/// Most program headers: the kernel refuses a table above 64 KiB, at 56 bytes each.
pub(crate) const SEGMENTS_MAX: usize = 65536 / 56;
/// Longest symbol, library or interpreter name; longer ones are left out. Mangled C++ names of ≈ 5,000 bytes exist.
pub(crate) const NAME_BYTES_MAX: usize = 16384;
/// Most DT_NEEDED entries kept; LibreOffice's largest library has ≈ 100.
pub(crate) const NEEDED_MAX: usize = 4096;
/// Most relocation tables read: the loader knows three, a linker writes few more sections.
pub(crate) const RELOCATION_TABLES_MAX: usize = 64;
/// Symbols and strings of one separate file; a browser's are ≈ 400 MiB.
pub(crate) const DEBUG_SYMBOLS_BYTES_MAX: u64 = 2 << 30;
/// A compressed section is at most so many times what it takes in the file: debug information becomes 3 to 10 times as large.
pub(crate) const UNPACKED_PER_PACKED_BYTE_MAX: u64 = 64;
/// Largest `.gnu_debuglink`: a file's name and four bytes.
pub(crate) const DEBUG_LINK_BYTES_MAX: usize = 4096;
/// Notes of one section of a separate file; real ones are below 1 KiB.
pub(crate) const DEBUG_NOTES_BYTES_MAX: u64 = 1 << 20;
/// Shortest build id that tells files apart (linkers make 8, 16 or 20 bytes).
pub(crate) const BUILD_ID_BYTES_MIN: usize = 8;
/// Most notes looked at in one PT_NOTE segment for the build id.
pub(crate) const NOTES_MAX: usize = 1024;
/// All names together are at most this many times the file: tail merging shares bytes between names, and in real
/// files saves less than half of them. A hostile file could otherwise name one string of megabytes a million times.
pub(crate) const NAMES_BYTES_PER_FILE_BYTE_MAX: u64 = 8;
/// How many symbols before an address are asked whether they contain it: nesting deeper than this is not seen.
pub(crate) const NESTED_SYMBOLS_MAX: usize = 64;
/// Names offered by an error.
pub(crate) const NEAR_MISSES_MAX: usize = 3;
/// Candidates whose distance to a misspelt name is computed, and the longest name for it: keeps an error below
/// ≈ 100 ms whatever the file.
pub(crate) const NEAR_CANDIDATES_MAX: usize = 200_000;
pub(crate) const NEAR_NAME_BYTES_MAX: usize = 64;

/// Most sections of static probes' notes read, of either kind: a linker makes one of all.
pub(crate) const PROBE_SECTIONS_MAX: usize = 16;
/// Most static probes of one file; the largest seen (a browser with its engine's probes) has ≈ 2,000.
pub(crate) const PROBE_NOTES_MAX: usize = 100_000;
/// Longest provider or name of a static probe.
pub(crate) const PROBE_NAME_BYTES_MAX: usize = 256;
/// Longest text of all arguments of a static probe: 12 operands, each with a mangled symbol of some hundred bytes.
pub(crate) const PROBE_ARGUMENTS_BYTES_MAX: usize = 16384;
/// Most arguments of a static probe: `<sys/sdt.h>` has macros for up to 12.
pub(crate) const PROBE_ARGUMENTS_MAX: usize = 12;
/// Most words that the fields of a tracepoint take where they are passed in memory: 32 fields, each two words at most.
pub(crate) const ROW_WORDS_MAX: usize = 64;
/// Most rows of a tracepoint's table of labels or members; the largest enumeration of the kernel's headers has some hundred.
pub(crate) const TABLE_ROWS_MAX: usize = 4096;
/// All tables of tracepoints together are read at most so many times the file: inlined copies of a place share one.
pub(crate) const TABLE_BYTES_PER_FILE_BYTE_MAX: usize = 8;
/// Most terms of a displacement such as `table+8-4`.
pub(crate) const DISPLACEMENT_TERMS_MAX: usize = 8;

/// Overlapping tables of abbreviations and line programs are read together at most so many times their section: units
/// share abbreviations, some hundred of them where a linker has merged (LTO).
pub(crate) const LINE_READS_PER_BYTE_MAX: u64 = 256;
/// Most places of one source line in one unit, and most lines of a file that are kept to be offered.
pub(crate) const LINE_ROWS_MAX: usize = 4096;
/// Most ranges of functions and inlined copies that are looked at for one source line; a browser has some millions, but
/// only units that have code of the line count.
pub(crate) const LINE_RANGES_MAX: u64 = 1 << 20;
/// Names of source files kept for near misses, and lines with code that an error names before and after.
pub(crate) const LINE_NAMES_MAX: usize = 10_000;
pub(crate) const NEAR_LINES: usize = 1;

/// Most parameters of one function: C++ templates with some hundred exist, and nobody names those.
pub(crate) const PARAMETERS_MAX: usize = 256;
/// Longest name of a parameter or of a value of an enumeration.
pub(crate) const TYPE_NAME_BYTES_MAX: usize = 256;
/// How many references lead from a parameter to its type without qualifiers and other names.
pub(crate) const TYPE_LINKS_MAX: usize = 64;
/// Most operations of a parameter's location that are looked at: two registers with a size each are four.
pub(crate) const LOCATION_OPERATIONS_MAX: usize = 16;
/// Most values of one enumeration that have names; PostgreSQL's largest has ≈ 500.
pub(crate) const ENUM_LABELS_MAX: usize = 4096;
/// Most members of a record.
pub(crate) const RECORD_MEMBERS_MAX: usize = 1 << 14;
/// Entries of functions and types that are read for prototypes at once; a function takes some dozen.
pub(crate) const TYPE_ENTRIES_MAX: u64 = 1 << 22;

/// All exception tables together are read at most this many times the file: real ones do not overlap.
pub(crate) const LANDING_BYTES_PER_FILE_BYTE_MAX: u64 = 2;

/// Longest restartable sequence: tcmalloc's are below 256 bytes.
pub(crate) const RESTARTABLE_BYTES_MAX: u64 = 1 << 16;

/// Symbolic links followed in one path, as in the kernel (MAXSYMLINKS).
pub(crate) const LINKS_MAX: usize = 40;
/// Components of one path, counted over all links: 40 links of PATH_MAX / 2 would be too many to walk.
pub(crate) const COMPONENTS_MAX: usize = 4096;
/// Largest ld.so.cache read: those of full desktops are ≈ 300 KiB.
pub(crate) const CACHE_BYTES_MAX: u64 = 16 << 20;
/// Most entries of a library folder that are looked at.
pub(crate) const FOLDER_ENTRIES_MAX: usize = 100_000;
/// How deep below a folder libraries are looked for (`plugins/codecs/x.so`), and how many entries in all of one folder: a desktop's
/// `/usr/lib` has some 30,000 in that depth.
pub(crate) const WALK_DEPTH_MAX: usize = 3;
pub(crate) const WALK_ENTRIES_MAX: usize = 50_000;
/// Largest `/proc/PID/maps`: 64 Ki mappings (vm.max_map_count's default) are ≈ 7 MiB; raised limits exist.
pub(crate) const MAPS_BYTES_MAX: u64 = 256 << 20;

/// Mappings of code kept of all processes of a history, those that are gone included: 64 bytes each, so 16 MiB. A browser
/// has ≈ 300 at a time, a server that loads and unloads a library a thousand times leaves 1,000.
pub(crate) const GENERATION_REGIONS_MAX: usize = 1 << 18;
/// Different files of one history.
pub(crate) const MAPPED_FILES_MAX: usize = 1 << 14;
/// Files of a history that are held open, so that their names can still be read when they have been replaced or their
/// process has ended: a quarter of the usual RLIMIT_NOFILE of 1,024.
pub(crate) const HELD_FILES_MAX: usize = 256;
/// Files of a history whose functions are in memory at a time; others are read again when they are asked for.
pub(crate) const NAMED_FILES_MAX: usize = 128;
/// Processes whose folder of perf maps is held open.
pub(crate) const HELD_FOLDERS_MAX: usize = 128;

/// Longest C++ name that is written out; boost and Eigen make some of ≈ 10,000 bytes.
pub(crate) const DEMANGLED_BYTES_MAX: usize = 1 << 16;

/// Largest perf map read: a large Java server's has ≈ 100,000 lines, 10 MiB.
pub(crate) const PERF_MAP_BYTES_MAX: u64 = 128 << 20;
/// Bytes of a file's writable memory, zeros with it, that an image has.
pub(crate) const IMAGE_BYTES_MAX: u64 = 256 << 20;
/// Most entries of a perf map.
pub(crate) const PERF_MAP_ENTRIES_MAX: usize = 1 << 20;
/// Longest name in a perf map; longer ones are cut. Node writes paths of files into them.
pub(crate) const PERF_NAME_BYTES_MAX: usize = 1024;

const _: () = assert!(HELD_FILES_MAX + HELD_FOLDERS_MAX < 1024 / 2);
const _: () = assert!(PERF_NAME_BYTES_MAX < NAME_BYTES_MAX);
const _: () = assert!(NEAR_NAME_BYTES_MAX < NAME_BYTES_MAX);
