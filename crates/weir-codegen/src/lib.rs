//! Compiles a module of IR to an eBPF object.
//!
//! In: a [`Module`] (its invariants are checked first). Out: [`Compiled`]: one program per function, the script's
//! maps and the internal ones, and the schema that says what records and maps mean. Programs follow the kernel's
//! rules for BPF_PROG_TYPE_KPROBE, use at most 512 bytes of stack, and initialise every byte that leaves them.
//!
//! A program at the return of a function is one of a session: it runs at the entry too, where it only counts. So hits and
//! misses of each probe can be told apart: `.hits` has how often each program ran at entries and at returns.
//!
//! Where clauses ask a program of the user's ([`Callee`]), it stands behind each of theirs, and is called as a function of it
//! (Linux's bpf-to-bpf calls).
//!
//! What a program may copy without asking the kernel is what the schema of its events has as declared by the traced program
//! ([`declared`]).
//!
//! Stages, each a file: [`maps`] chooses the maps; [`lower`] writes instructions on virtual registers; [`allocate`]
//! gives them real ones; [`place`] lays out memory; [`assemble`] makes eBPF.
//!
//! Guaranteed to whoever runs the programs: values of per-CPU maps are changed only by atomic additions whose result
//! is not used, and never loaded. Signed division needs a kernel from 6.6 on (RFC 9669's v4); nothing else does.
//!
//! Refused with a message: more memory than a program has.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod allocate;
mod assemble;
mod declared;
mod error;
mod limits;
mod lir;
mod lower;
mod maps;
mod place;

use std::fmt;

use weir_ebpf::elf::ObjectFile;
use weir_ebpf::insn::{NOTHING, pseudo};
use weir_ebpf::kfunc::Declared;
use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN, flag};
use weir_ebpf::{Insn, MapSpec, Object, Program, ProgramKind};
use weir_event::kernel::KernelEvent;
use weir_event::{Action, Schema};
use weir_ir::{Function, Module, Trigger};

pub use crate::error::CodegenError;
use crate::maps::Maps;
pub use crate::maps::{EVENT_BYTES, EVENT_CUT, EVENT_LOST};
pub use crate::maps::{
    GLOBAL_BYTES, GLOBAL_COMMAND, GLOBAL_NO_KEY, GLOBAL_NO_ROOM, GLOBAL_NO_SCRATCH, GLOBAL_NO_STACK,
};
pub use crate::maps::{GLOBAL_NOT_RAISED, GLOBAL_START};
pub use crate::maps::{HITS_BYTES, HITS_ENTRIES, HITS_RETURNS};

/// A compiled module: what is verified, loaded and read.
#[derive(Clone, PartialEq, Debug)]
pub struct Compiled {
    /// One program per function of the module, in order; the script's maps, then internal ones.
    pub object: Object,
    /// The module's schema with every `MapSchema::map_index` set.
    pub schema: Schema,
    /// Index of the ring that records are written to.
    pub ring: u32,
    /// Index of an array map with one entry of [`GLOBAL_BYTES`]: the session's start, its command, and counts of what was left out.
    pub globals: u32,
    /// Index of the per-CPU array in which each probe's program counts its runs: an entry of [`HITS_BYTES`] by the number
    /// of the program. None if nothing counts.
    pub hits: Option<u32>,
    /// Index of the array map whose one value counts, for each event of the schema, what was left out: [`EVENT_BYTES`] each. None
    /// where no events are recorded.
    pub events: Option<u32>,
    /// Where stacks are: of each number of frames the first of [`weir_event::STACK_TABLES`] STACK_TRACE maps.
    pub stacks: Vec<(u32, u32)>,
    /// Index of the array map `.automata` and what its one value holds: whoever makes the maps writes it there before a
    /// program runs ([`Compiled::into_file`] says it to `Segment::fill`). None without automata, as in all scripts.
    pub automata: Option<(u32, Vec<u8>)>,
    /// Index of the first of the maps of a [`Callee`], which are the last ones.
    pub callee_maps: u32,
    /// When each program of `object` runs.
    pub triggers: Vec<Trigger>,
    /// What the context of each program leads to and the traced program vouches for, by the schema of the events that are
    /// recorded there: the verifier is told so.
    pub declared: Vec<Vec<Declared>>,
}

impl Compiled {
    /// The object with what its maps hold at first.
    pub fn into_file(self) -> ObjectFile {
        let mut file = ObjectFile::of(self.object);
        if let Some((map, contents)) = self.automata {
            file.maps[map as usize].initial = Some(contents);
        }
        file
    }
}

/// What the caller may choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of the ring: a power of two and a multiple of the page size. It has fewer where no probe writes to it.
    pub ring_bytes: u32,
    /// Programs of probes count their runs (about a nanosecond each).
    pub counts_hits: bool,
    /// The kernel's maps and rings do not count what they had no room for, as weir's own do: programs do it. And what bounds loops there is
    /// `may_goto` alone.
    pub is_for_kernel: bool,
    /// In the ring the newest record takes the place of the oldest.
    pub overwrites: bool,
    /// Where the ring is full, a record waits for room so many milliseconds at most, below 2^30.
    pub waits_ms: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ring_bytes: 1 << 20,
            counts_hits: true,
            is_for_kernel: false,
            overwrites: false,
            waits_ms: None,
        }
    }
}

/// The program that clauses call ([`weir_ir::Op::CallProgram`]), with its functions behind it.
#[derive(Clone, Copy, Debug)]
pub struct Callee<'a> {
    /// Its functions follow each other; the first is entered.
    pub insns: &'a [Insn],
    /// What its instructions number; they come behind all others of the object.
    pub maps: &'a [MapSpec],
    /// What it takes of the stack that a program and its functions share.
    pub stack_bytes: u32,
}

/// What one of several engines has of a module.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Whether it runs a function, by number.
    pub runs: &'a dyn Fn(usize) -> bool,
    /// Whether others see a map of the script too, by number ([`flag::IN_KERNEL`]).
    pub shares: &'a dyn Fn(usize) -> bool,
    /// What it takes of each program's stack for such maps.
    pub stack_bytes: u32,
}

impl Part<'_> {
    /// All of it.
    pub const WHOLE: Part<'static> = Part { runs: &|_| true, shares: &|_| false, stack_bytes: 0 };
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("stack_bytes", &self.stack_bytes).finish_non_exhaustive()
    }
}

/// Compiles with the default options.
pub fn compile(module: &Module) -> Result<Compiled, CodegenError> {
    compile_with(module, &Options::default())
}

/// Compiles `module`. The first thing that cannot be compiled is the error.
pub fn compile_with(module: &Module, options: &Options) -> Result<Compiled, CodegenError> {
    compile_calling(module, options, None)
}

/// Compiles `module`, whose clauses may call a program.
pub fn compile_calling(
    module: &Module,
    options: &Options,
    callee: Option<&Callee<'_>>,
) -> Result<Compiled, CodegenError> {
    compile_part(module, options, callee, &Part::WHOLE)
}

/// The same for one of several engines: the programs of functions that do not run there do nothing. Of one module
/// all numbers are the same everywhere: those of programs and maps, and what records name.
pub fn compile_part(
    module: &Module,
    options: &Options,
    callee: Option<&Callee<'_>>,
    part: &Part<'_>,
) -> Result<Compiled, CodegenError> {
    weir_ir::check::check(module).map_err(CodegenError::Invalid)?;
    let ring_bytes = options.ring_bytes;
    if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
        return Err(CodegenError::Ring { bytes: ring_bytes });
    }
    let ring_bytes = ring_bytes_needed(module, ring_bytes);
    let mut maps = Maps::of(module, &Options { ring_bytes, ..*options });
    for map in (0..module.schema.maps.len()).filter(|map| (part.shares)(*map)) {
        maps.specs[map].flags |= flag::IN_KERNEL;
    }
    if let Some(automata) =
        maps.automata.as_ref().filter(|all| all.contents.len() > limits::AUTOMATA_BYTES_MAX)
    {
        return Err(CodegenError::Automata { bytes: automata.contents.len() });
    }
    let (mut programs, mut zero_bytes, mut scratch_bytes) = (Vec::new(), 0, 0);
    for (index, function) in module.functions.iter().enumerate() {
        let name = function.name.clone();
        if !(part.runs)(index) {
            programs.push(nothing(name));
            continue;
        }
        check_records(module, function, ring_bytes)?;
        let beside = match (calls_program(function), callee) {
            (false, _) => 0,
            (true, Some(callee)) => callee.stack_bytes,
            (true, None) => return Err(CodegenError::NoCallee { clause: function.name.clone() }),
        };
        let stack_max = limits::STACK_BYTES_MAX.saturating_sub(beside + part.stack_bytes);
        let (insns, needs) = compile_function(module, index, &maps, stack_max)?;
        zero_bytes = zero_bytes.max(needs.zero_bytes);
        scratch_bytes = scratch_bytes.max(needs.scratch_bytes);
        programs.push(Program { name, kind: kind(&function.trigger), insns });
    }
    let mut schema = module.schema.clone();
    for (index, map) in schema.maps.iter_mut().enumerate() {
        map.map_index = index as u32;
    }
    let (ring, globals, hits, stacks) = (maps.ring, maps.globals, maps.hits, maps.stacks.clone());
    let events = maps.events;
    let automata = maps.automata.as_ref().map(|automata| (automata.map, automata.contents.clone()));
    let mut specs = maps.finish(scratch_bytes, zero_bytes, &mut programs);
    let callee_maps = specs.len() as u32;
    if let Some(callee) = callee {
        let callers =
            programs.iter_mut().zip(&module.functions).filter(|(_, function)| calls_program(function));
        callers.for_each(|(program, _)| program.insns.extend(moved(callee.insns, callee_maps)));
        let inner = |spec: &MapSpec| spec.inner.map(|inner| inner + callee_maps);
        specs.extend(callee.maps.iter().map(|spec| MapSpec { inner: inner(spec), ..spec.clone() }));
    }
    Ok(Compiled {
        ring,
        globals,
        hits,
        events,
        stacks,
        automata,
        callee_maps,
        object: Object { maps: specs, programs },
        schema,
        triggers: module.functions.iter().map(|function| function.trigger.clone()).collect(),
        declared: module.functions.iter().map(|function| declared::of_function(module, function)).collect(),
    })
}

/// A program that does nothing, and is never run: it has the place of one that runs elsewhere.
pub fn nothing(name: String) -> Program {
    Program { name, kind: ProgramKind::Controller, insns: NOTHING.to_vec() }
}

fn calls_program(function: &Function) -> bool {
    function.ops().any(|op| *op == weir_ir::Op::CallProgram)
}

/// Instructions whose maps begin at number `first`. Jumps and calls among them stay as they are.
fn moved(insns: &[Insn], first: u32) -> impl Iterator<Item = Insn> {
    insns.iter().map(move |&insn| match insn.src {
        pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE if insn.is_wide() => {
            Insn { imm: insn.imm + first as i32, ..insn }
        }
        _ => insn,
    })
}

/// What a program needs of the maps that are there only on demand, in bytes.
#[derive(Clone, Copy)]
struct Needs {
    zero_bytes: u32,
    scratch_bytes: u32,
}

/// Tries with as much on the stack as is good for speed, then with less.
fn compile_function(
    module: &Module,
    index: usize,
    maps: &Maps,
    stack_max: u32,
) -> Result<(Vec<Insn>, Needs), CodegenError> {
    let function = &module.functions[index];
    let mut result = Err(CodegenError::Stack { clause: function.name.clone(), bytes: 0, max: stack_max });
    for stack_object_bytes in limits::STACK_OBJECT_BYTES {
        let mut code = lower::lower(module, index, maps, stack_object_bytes)?;
        allocate::allocate(&mut code);
        let needs = Needs { zero_bytes: code.zero_bytes, scratch_bytes: code.scratch_bytes };
        result = assemble::assemble(&function.name, code, stack_max).map(|insns| (insns, needs));
        if !matches!(result, Err(CodegenError::Stack { .. })) {
            break;
        }
    }
    result
}

/// Of a record in a ring for each CPU: its time and its size.
const RECORD_HEADER: u32 = 16;

/// What the ring is given of `most`: it takes the target's memory, whether something is written to it or not.
fn ring_bytes_needed(module: &Module, most: u32) -> u32 {
    let bytes = |is_probe: bool| -> u32 {
        let functions = module.functions.iter().filter(|function| function.trigger.is_probe() == is_probe);
        functions
            .flat_map(|function| records(module, function))
            .fold(0, |sum, bytes| sum.saturating_add(RECORD_HEADER + bytes))
    };
    let loops = |function: &&Function| function.ops().any(|op| *op == weir_ir::Op::MayLoop);
    let has_loops = module
        .functions
        .iter()
        .filter(|function| !function.trigger.is_probe())
        .any(|function| loops(&function));
    // What weir runs itself is read after each run of all that is due.
    match (bytes(true), bytes(false)) {
        (0, 0) => RING_BYTES_MIN,
        (0, of_weir) if !has_loops && of_weir <= limits::OWN_RING_BYTES / 4 => {
            most.min(limits::OWN_RING_BYTES)
        }
        _ => most,
    }
}

/// A record has a header of 8 bytes in the ring, and one that fills more than half of it would seldom fit.
fn check_records(module: &Module, function: &Function, ring_bytes: u32) -> Result<(), CodegenError> {
    let (bytes, max) = (records(module, function).max().unwrap_or(0), ring_bytes / 2);
    if bytes > max {
        return Err(CodegenError::Record { clause: function.name.clone(), bytes, max });
    }
    Ok(())
}

/// Bytes of the records that a clause writes.
fn records(module: &Module, function: &Function) -> impl Iterator<Item = u32> {
    function.ops().filter_map(|op| match op {
        weir_ir::Op::Emit { action, .. } => Some(record_bytes(&module.schema.actions[action.0 as usize])),
        weir_ir::Op::Record { event, .. } => {
            Some(lower::record::record_bytes(&module.schema.events[event.0 as usize]))
        }
        _ => None,
    })
}

fn record_bytes(action: &Action) -> u32 {
    let fields = weir_ir::check::action_fields(action);
    weir_event::RECORD_HEADER_BYTES + fields.iter().map(|field| field.ty.bytes()).sum::<u32>()
}

fn kind(trigger: &Trigger) -> ProgramKind {
    match trigger {
        Trigger::Kernel { sites } => match sites.first().map(|site| &site.event) {
            Some(
                KernelEvent::Tracepoint { .. }
                | KernelEvent::RawTracepoint { .. }
                | KernelEvent::TypedFunction { .. }
                | KernelEvent::Iterator { .. },
            ) => ProgramKind::Tracepoint,
            _ => ProgramKind::Probe,
        },
        trigger if trigger.is_probe() => ProgramKind::Probe,
        _ => ProgramKind::Controller,
    }
}
