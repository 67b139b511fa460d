//! The C half: as an image to be put into a target, and as the copy linked into this process.
//!
//! The image is position independent, without relocations, writable data or imports (build.rs links it so, and
//! `tests/image.rs` checks it): its bytes may stand at any 64-byte-aligned address. Its one variable part is the
//! [`Island`], which the loader writes at `island_offset` before any code runs.

pub(crate) mod linked;

use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol};
use weir_ebpf::{HelperId, helper};

use crate::executable::RuntimeFunction;

/// The image and where things are in it.
#[derive(Debug)]
pub struct RuntimeImage {
    /// Code, then constants, then the island. To be loaded at a multiple of [`RuntimeImage::ALIGN`].
    pub bytes: &'static [u8],
    /// Bytes from the start that are instructions.
    pub text_bytes: u32,
    /// Where the loader writes an [`Island`].
    pub island_offset: u32,
    helpers: Vec<(HelperId, u32)>,
    functions: Vec<(RuntimeFunction, u32)>,
}

/// Words that the loader of an image fills in (`struct weir_island` of `c/weir.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Island {
    /// Address of the segment in the target; 0: slow reads and uses of `comm` are not counted.
    pub segment: u64,
    /// Address of `__vdso_clock_gettime` in the target; 0: the system call.
    pub clock_gettime: u64,
    /// What `get_current_pid_tgid` answers in its upper half, and the process that slow reads name.
    pub pid: u32,
    /// [`Island::READ_BY_TID`] and the like.
    pub flags: u32,
    /// Device and inode of the process's pid namespace (stat(2) of /proc/PID/ns/pid); 0: `get_ns_current_pid_tgid`
    /// knows none.
    pub pid_namespace: (u64, u64),
    /// Address of an `extern "C" fn(*const u8, u64)` that takes what programs print; 0: it is counted as dropped.
    pub print: u64,
    /// Nanoseconds of a jiffy; 0: `jiffies64` is 0.
    pub tick_ns: u32,
    /// From fs to a thread's `struct rseq` (with glibc's signature), where memory may be loaded directly; 0: nowhere.
    pub rseq: i32,
    /// Address of the word of the process's own segment that says that it has a system call filter now
    /// ([`Filter`](crate::segment::Filter)), by which that segment is found; 0: there is none.
    pub filter: u64,
}

impl Island {
    pub const BYTES: u32 = 64;
    /// Slow reads name the thread's own id: for a target whose own pid namespace knows it by another number.
    pub const READ_BY_TID: u32 = 1;
    /// No system call is made: for a target that is under seccomp already. Reads fail, `comm` is empty and `tid` 0, each counted.
    pub const NO_SYSTEM_CALLS: u32 = 2;
    /// The CPU is asked of the kernel: what runs the process does not know `lsl`.
    pub const ASK_CPU: u32 = 8;
    /// The process may read the time stamp counter, and is in the controller's time namespace: where the segment has a
    /// clock, `ktime_get_ns` is read off it.
    pub const READS_TICKS: u32 = 16;

    /// The bytes as they stand in the image.
    pub fn to_bytes(&self) -> [u8; Island::BYTES as usize] {
        let mut bytes = [0; Island::BYTES as usize];
        let words = [
            self.segment,
            self.clock_gettime,
            u64::from(self.pid) | u64::from(self.flags) << 32,
            self.pid_namespace.0,
            self.pid_namespace.1,
            self.print,
            u64::from(self.tick_ns) | u64::from(self.rseq as u32) << 32,
            self.filter,
        ];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

impl RuntimeImage {
    /// The image's code and data assume this alignment of their start.
    pub const ALIGN: u64 = 64;

    /// Offset of a helper's function in the image; `None` for one that is inlined or unknown.
    pub fn helper(&self, id: HelperId) -> Option<u32> {
        self.helpers.iter().find(|(known, _)| *known == id).map(|(_, offset)| *offset)
    }

    /// Offset of another function in the image.
    pub fn function(&self, function: RuntimeFunction) -> u32 {
        let found = self.functions.iter().find(|(known, _)| *known == function);
        found.expect("OTHER_FUNCTIONS has a row for each").1
    }
}

/// Functions of the C half that are no helpers.
const OTHER_FUNCTIONS: &[(RuntimeFunction, &str)] = &[
    (RuntimeFunction::LaneClaim, "weir_lane_claim"),
    (RuntimeFunction::MapLookupLane, "weir_map_lookup_lane"),
    (RuntimeFunction::MapUpdateLane, "weir_map_update_lane"),
    (RuntimeFunction::HashLookup4, "weir_hash_lookup_4"),
    (RuntimeFunction::HashLookup8, "weir_hash_lookup_8"),
    (RuntimeFunction::HashLookup16, "weir_hash_lookup_16"),
    (RuntimeFunction::HashLookup, "weir_hash_lookup"),
    (RuntimeFunction::HashUpdate4, "weir_hash_update_4"),
    (RuntimeFunction::HashUpdate8, "weir_hash_update_8"),
    (RuntimeFunction::HashUpdate, "weir_hash_update"),
    (RuntimeFunction::HashDelete, "weir_hash_delete"),
    (RuntimeFunction::MapNext, "weir_map_next"),
    (RuntimeFunction::DeclaredCopy, "weir_declared_copy"),
    (RuntimeFunction::Announce, "weir_announce"),
    (RuntimeFunction::Forked, "weir_forked"),
    (RuntimeFunction::Filter, "weir_filter"),
    (RuntimeFunction::Unmapping, "weir_unmapping"),
    (RuntimeFunction::Unmapped, "weir_unmapped"),
    (RuntimeFunction::WithdrawReads, "weir_withdraw_reads"),
];

/// The linked image as an ELF file, for the tests that check what it may contain.
pub static IMAGE_FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weir-runtime.so"));

/// The image, ready to be copied.
pub fn image() -> &'static RuntimeImage {
    static IMAGE: OnceLock<RuntimeImage> = OnceLock::new();
    IMAGE.get_or_init(|| take_apart(IMAGE_FILE))
}

/// Address of a helper's function in this process.
pub fn helper_address(id: HelperId) -> Option<u64> {
    linked::helper_address(id)
}

/// Address of [`RuntimeFunction::MapNext`] in this process.
pub fn map_next_address() -> u64 {
    linked::map_next_address()
}

/// Address of [`RuntimeFunction::DeclaredCopy`] in this process.
pub fn declared_copy_address() -> u64 {
    linked::declared_copy_address()
}

/// What an island says of the pid namespace of process `pid`.
pub fn pid_namespace(pid: u32) -> (u64, u64) {
    linked::pid_namespace(&pid.to_string())
}

/// Nanoseconds of this machine's jiffy, for an island.
pub fn tick_ns() -> u32 {
    linked::tick_ns()
}

/// From now on, what programs that run in this process print with `trace_printk` goes to `taker`; before, it is counted
/// as dropped. The first caller's stays.
pub fn print_to(taker: fn(&str)) {
    linked::print_to(taker);
}

/// Slow reads, read faults, denied reads, uses of `comm` and denied ones, by programs that an interpreter ran in this
/// process: they are no target's, and counted apart from any segment.
pub fn own_counters() -> [u64; crate::abi::counter::COUNT] {
    linked::counters()
}

/// The loadable part of the file: from the start of its code to the end of its island. The asserts name what our own
/// build must have done.
fn take_apart(file: &'static [u8]) -> RuntimeImage {
    let elf = object::File::parse(file).expect("the runtime image is an ELF file of our build");
    let section = |name: &str| elf.section_by_name(name).unwrap_or_else(|| panic!("the image has no {name}"));
    let range = |name: &str| {
        let section = section(name);
        let (offset, _) = section.file_range().unwrap_or_else(|| panic!("{name} has no bytes"));
        (section.address(), section.size(), offset)
    };
    let (text, text_bytes, text_offset) = range(".text");
    let (island, island_bytes, island_offset) = range(".weir_island");
    assert_eq!(text % RuntimeImage::ALIGN, 0, "the code begins at a multiple of the image's alignment");
    assert!(text < island && island_bytes == u64::from(Island::BYTES), "the island stands behind the code");
    assert_eq!(text - text_offset, island - island_offset, "file and memory have the same distances");
    let end = island_offset + island_bytes;
    let offset_of = |symbol: &str| {
        let address = elf
            .symbols()
            .find(|candidate| candidate.name() == Ok(symbol))
            .unwrap_or_else(|| panic!("the image has no {symbol}"))
            .address();
        (address - text) as u32
    };
    let functions = helper::HELPERS.iter().filter_map(|proto| Some((proto.id, proto.function?)));
    RuntimeImage {
        bytes: &file[text_offset as usize..end as usize],
        text_bytes: text_bytes as u32,
        island_offset: (island - text) as u32,
        helpers: functions.map(|(id, symbol)| (id, offset_of(symbol))).collect(),
        functions: OTHER_FUNCTIONS.iter().map(|(function, symbol)| (*function, offset_of(symbol))).collect(),
    }
}
