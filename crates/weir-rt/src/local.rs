//! Runs machine code in this process: BEGIN, END and interval programs, and the tests of the JIT.
//!
//! One mapping holds the code, an image of the runtime and the descriptors, as an island in a target does, so that
//! every call is near. It is written first and made executable then, never both. Programs that may take over from each
//! other (tail calls) share one; what a slot of an array of programs leads to is looked up in a table there, so that
//! nothing in the segment, which others write, is ever an address of code.

mod classify;
mod code;

use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use weir_ebpf::ProgramKind;

pub use self::classify::PacketFields;
use self::classify::Way;
use self::code::{Code, SealedCode};
use crate::executable::{CpuSource, Executable, Frame, LanePolicy, SiteAbi, Symbol, TidSource};
use crate::isa;
use crate::isa::native::call::weir_rt_call_program;
use crate::link::link;
use crate::runtime::{RuntimeImage, image, linked};
use crate::segment::{DESCRIPTOR_BYTES, Filter, Mapping, Segment, SegmentLayout};
use weir_memory::ContextMut;

/// A program linked into this process. It may be run by several threads at once.
#[derive(Debug)]
pub struct LocalProgram {
    kind: ProgramKind,
    code: Arc<SealedCode>,
    /// In the code.
    offset: usize,
    /// How a classifier is entered that finds its packet where it lies.
    way: Way,
    /// The code holds addresses in it.
    _segment: Arc<Mapping>,
}

impl LocalProgram {
    /// Links `executable` against `segment` and the runtime. Its tail calls lead nowhere.
    ///
    /// # Errors
    /// Of mmap or mprotect; `InvalidInput` with the [`LinkError`](crate::LinkError) as its source, or if the program
    /// was compiled for other lanes than the segment has.
    pub fn load(executable: &Executable, segment: &Segment) -> io::Result<Self> {
        let mut programs = load(&[executable], &[], segment)?;
        // SANITY: one executable makes one program.
        Ok(programs.pop().expect("one program"))
    }

    /// Links programs that may take over from each other: the numbers in an array of programs
    /// ([`MapView::set_program`](crate::segment::MapView::set_program)) are those of this list.
    ///
    /// # Errors
    /// As for [`LocalProgram::load`]; `InvalidInput` also if they are of different kinds.
    pub fn load_all(executables: &[Executable], segment: &Segment) -> io::Result<Vec<Self>> {
        let numbers: Vec<u32> = (0..executables.len() as u32).collect();
        LocalProgram::load_numbered(executables, &numbers, segment)
    }

    /// The same where programs have other numbers than their places in the list. Other numbers lead nowhere.
    ///
    /// # Errors
    /// As for [`LocalProgram::load_all`].
    ///
    /// # Panics
    /// If there are not as many numbers as programs.
    pub fn load_numbered(
        executables: &[Executable],
        numbers: &[u32],
        segment: &Segment,
    ) -> io::Result<Vec<Self>> {
        assert_eq!(executables.len(), numbers.len(), "each program has a number");
        let executables: Vec<&Executable> = executables.iter().collect();
        if let Some(other) = executables.iter().find(|other| other.kind != executables[0].kind) {
            return Err(invalid(format!(
                "{} is a program of kind {}, {} of kind {}",
                other.name,
                other.kind.name(),
                executables[0].name,
                executables[0].kind.name()
            )));
        }
        load(&executables, numbers, segment)
    }

    /// Calls the program with a frame above its return address; the answer is r0. What the program writes into its
    /// context is copied back.
    ///
    /// # Panics
    /// If the context is of another kind than the program.
    pub fn run<'c>(&self, context: impl Into<ContextMut<'c>>) -> u64 {
        let mut context: ContextMut<'c> = context.into();
        assert!(context.fits(self.kind), "a program of kind {} given {:?}", self.kind, context.kind());
        // SAFETY: the code was made from a verified program and linked for this address; the thunk gives it the frame
        // it asks for, whose addresses the context keeps alive, and saves every register it may change.
        unsafe { weir_rt_call_program(self.entry(), context.frame_pointer()) }
    }

    /// The same of a program that was compiled with a limit of rounds, which is given with each run; with how many are left.
    ///
    /// # Panics
    /// If the context is of another kind than the program.
    pub fn run_limited<'c>(&self, context: impl Into<ContextMut<'c>>, rounds: u32) -> (u64, u32) {
        let mut context: ContextMut<'c> = context.into();
        context.set_rounds(rounds);
        let r0 = self.run(context.reborrow());
        (r0, context.frame().tail_calls)
    }

    /// The same with addresses of the caller's in the frame, as [`frame`](weir_memory::frame) makes it.
    ///
    /// # Safety
    /// The memory that the frame names, of the kind of this program, may be read and written until this returns, and
    /// nobody who minds races uses it meanwhile.
    pub unsafe fn run_frame(&self, frame: &mut Frame) -> u64 {
        // SAFETY: as for `run`; that the addresses are alive is the caller's promise.
        unsafe { weir_rt_call_program(self.entry(), frame) }
    }

    /// The same with a limit of rounds, as of [`LocalProgram::run_limited`].
    ///
    /// # Safety
    /// As of [`LocalProgram::run_frame`].
    pub unsafe fn run_frame_limited(&self, frame: &mut Frame, rounds: u32) -> (u64, u32) {
        frame.tail_calls = rounds;
        // SAFETY: the caller's promise.
        let r0 = unsafe { self.run_frame(frame) };
        (r0, frame.tail_calls)
    }

    /// Address of the code in this process.
    pub fn address(&self) -> u64 {
        self.entry() as u64
    }

    fn entry(&self) -> *const u8 {
        self.code.at(self.offset)
    }
}

/// One mapping: code, runtime, descriptors, and the table of those that tail calls lead to, by their `numbers`.
fn load(executables: &[&Executable], numbers: &[u32], segment: &Segment) -> io::Result<Vec<LocalProgram>> {
    if let Some(executable) = executables.iter().find(|executable| !segment.suits(executable)) {
        let name = &executable.name;
        return Err(invalid(format!("{name}: compiled for lanes that the segment does not have")));
    }
    let image = image();
    let align = RuntimeImage::ALIGN as usize;
    let mut offsets = Vec::with_capacity(executables.len());
    let mut image_offset: usize = 0;
    for executable in executables {
        offsets.push(image_offset);
        image_offset = (image_offset + executable.code.len()).next_multiple_of(align);
    }
    let descriptors_offset = (image_offset + image.bytes.len()).next_multiple_of(64);
    let descriptors_bytes = segment.layout().maps.len() * DESCRIPTOR_BYTES as usize;
    let table_offset = (descriptors_offset + descriptors_bytes).next_multiple_of(8);
    let targets = numbers.iter().max().map_or(0, |most| *most as usize + 1);
    let mut code = Code::new(table_offset + 8 * (2 + targets))?;
    let mapping = code.bytes_mut();
    let base = mapping.as_ptr() as u64;
    let descriptors = segment.descriptors(segment.base(), base + descriptors_offset as u64);
    let resolve = |symbol| match symbol {
        Symbol::Helper(id) => Some(base + image_offset as u64 + u64::from(image.helper(id)?)),
        Symbol::Runtime(function) => Some(base + image_offset as u64 + u64::from(image.function(function))),
        Symbol::Programs => Some(base + table_offset as u64),
        // Of no target: it stays 0.
        Symbol::Filter => Some(segment.base() + Filter::OFFSET),
        symbol => segment.resolve(segment.base(), base + descriptors_offset as u64, symbol),
    };
    for (executable, offset) in executables.iter().zip(&offsets) {
        let code = link(executable, base + *offset as u64, &resolve)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        mapping[*offset..offset + code.len()].copy_from_slice(&code);
    }
    // An empty slot leads to the 0 before the first program, a number that nobody has to another one.
    let mut table = vec![0; 2 + targets];
    table[0] = targets as u64;
    for (number, (target, offset)) in numbers.iter().zip(executables.iter().zip(&offsets)) {
        table[2 + *number as usize] = base + *offset as u64 + u64::from(target.tail_entry);
    }
    let table: Vec<u8> = table.into_iter().flat_map(u64::to_le_bytes).collect();
    let island = linked::local_island(segment.base()).to_bytes();
    let island_offset = image_offset + image.island_offset as usize;
    mapping[image_offset..image_offset + image.bytes.len()].copy_from_slice(image.bytes);
    mapping[island_offset..island_offset + island.len()].copy_from_slice(&island);
    mapping[descriptors_offset..descriptors_offset + descriptors.len()].copy_from_slice(&descriptors);
    mapping[table_offset..table_offset + table.len()].copy_from_slice(&table);
    let code = Arc::new(code.seal()?);
    let program = |(executable, offset): (&&Executable, usize)| LocalProgram {
        kind: executable.kind,
        way: Way::of(executable, base + offset as u64),
        code: Arc::clone(&code),
        offset,
        _segment: Arc::clone(segment.mapping()),
    };
    Ok(executables.iter().zip(offsets).map(program).collect())
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// CPUs that may ever come up: their numbers are below this. (`/sys/devices/system/cpu/possible` is a list such as
/// `0-63`.)
pub fn possible_cpus() -> u32 {
    static CPUS: OnceLock<u32> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = text.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<u32>().ok());
        let online = || std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        last.map_or_else(online, |last| last + 1)
    })
}

/// The version of the kernel that runs, as `LINUX_KERNEL_VERSION` has it.
pub fn kernel_version() -> Option<u32> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let numbers = release.split(|char: char| !char.is_ascii_digit()).map(str::parse);
    let mut numbers = numbers.map_while(Result::<u32, _>::ok);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    // The kernel counts no further (KERNEL_VERSION of linux/version.h).
    Some(major << 16 | minor.min(255) << 8 | numbers.next().unwrap_or(0).min(255))
}

/// This process as the place of programs on the maps of a segment with this layout.
pub fn site(layout: &SegmentLayout) -> SiteAbi {
    SiteAbi {
        pid: std::process::id(),
        tid: TidSource::Syscall,
        lanes: match layout.claim_lanes {
            0 => LanePolicy::Shared,
            _ => LanePolicy::Claimed { cpu: cpu_source() },
        },
        cpus: layout.cpus,
        bmi2: isa::native::cpu::has_bmi2(),
        reads_ticks: crate::clock::may_read_ticks(),
    }
}

/// Where runs in this process learn their CPU from.
fn cpu_source() -> CpuSource {
    match rseq_offset() {
        Some(offset) => CpuSource::Rseq { offset, signature: None },
        None if linked::is_emulated() => CpuSource::Runtime,
        None => CpuSource::Selector,
    }
}

/// Where a thread of this process finds its `struct rseq`, from its thread pointer; `None` where the C library
/// registers none. For [`CpuSource::Rseq`]: a thread reads the number of its CPU there.
pub fn rseq_offset() -> Option<i32> {
    let variable = |name: &CStr| {
        // SAFETY: looks a name up among what is loaded.
        let at = unsafe { nix::libc::dlsym(nix::libc::RTLD_DEFAULT, name.as_ptr()) };
        NonNull::new(at)
    };
    // SAFETY: variables of glibc 2.35 and later, of these types, which it writes before `main` and never again.
    unsafe {
        let size = variable(c"__rseq_size")?.cast::<u32>().read();
        let offset = variable(c"__rseq_offset")?.cast::<isize>().read();
        i32::try_from(offset).ok().filter(|_| size > 0)
    }
}
