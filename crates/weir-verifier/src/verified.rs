//! The proof: a program with what the verifier learned of each instruction.

use std::sync::Arc;

use weir_ebpf::context::Field;
use weir_ebpf::kfunc::{DeclaredCopy, TextTest};
use weir_ebpf::{Insn, MapSpec, ProgramKind};

/// A program that passed every check. Built only by [`verify`](crate::verify).
#[derive(Clone, Debug)]
pub struct VerifiedProgram {
    pub(crate) name: String,
    pub(crate) kind: ProgramKind,
    pub(crate) insns: Arc<[Insn]>,
    pub(crate) maps: Arc<[MapSpec]>,
    pub(crate) facts: Vec<InsnFacts>,
    pub(crate) functions: Vec<Function>,
    pub(crate) context_reads: u32,
    pub(crate) needs_lane: bool,
    pub(crate) writes_packet: bool,
    pub(crate) zeroes_frames: bool,
    pub(crate) nested_stack_bytes: u32,
    pub(crate) followed: u64,
}

/// A function of the program: itself, or what local calls enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its first slot; it ends where the next function begins. Jumps stay inside.
    pub start: usize,
    /// Deepest byte below its r10 that is touched, by it or through pointers that it gave to others, 0..=512, a
    /// multiple of 8.
    pub stack_bytes: u32,
}

/// What holds at one instruction on every path that reaches it. An engine may rely on each of these. (A number that
/// decides no branch, address, size or key may have other values than those that were followed: no fact here is about
/// such a number.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InsnFacts {
    /// Some path reaches this instruction (the second slot of a wide load is never reached).
    pub reachable: bool,
    /// A load of what a map holds that nobody changes: this constant. What stands in memory must not be looked at, since the proof does
    /// not rest on it.
    pub constant: Option<u64>,
    /// A conditional jump that always goes one way: true = always taken.
    pub branch: Option<bool>,
    /// A `map_lookup_elem` on an array kind whose key is this constant, below max_entries: never null.
    pub constant_key: Option<u32>,
    /// A call of a helper that calls back: the slot where the callback begins.
    pub callback: Option<usize>,
    /// A call that takes a map: the map's index in the object.
    pub map_index: Option<u32>,
    /// A load, store or atomic through a pointer into a per-CPU map's value: that map's index. Unless the run has
    /// claimed a lane, the pointer's value is the element's address in lane 0, and the engine adds the lane (see
    /// weir-rt).
    pub per_cpu_map: Option<u32>,
    /// A load or store of this field of a packet's context: the engine does it where the field says.
    pub context_field: Option<&'static Field>,
    /// A call that takes a constant string: so many bytes are there, on every path. The helper's sixth argument.
    pub string_bytes: Option<u32>,
    /// A call of `weir_text_begins`: what it asks, of a slot that holds a text.
    pub text: Option<TextTest>,
    /// A call of `weir_declared_copy`: what it copies, which the context declares.
    pub copy: Option<DeclaredCopy>,
    /// A load or store of more than a byte, on some path at an address that is not known to be a multiple of its size.
    pub may_misalign: bool,
}

impl VerifiedProgram {
    /// As the object names it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it may be attached to, which decides its context and helpers.
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// As they were verified: what runs must be these.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The maps of the object, in index order.
    pub fn maps(&self) -> &[MapSpec] {
        &self.maps
    }

    /// One entry per instruction slot.
    pub fn facts(&self) -> &[InsnFacts] {
        &self.facts
    }

    /// The functions in the order of their slots; the first is the program itself. Calls among them, callbacks with
    /// them, are not recursive, and nest 8 deep at most.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Deepest byte below r10 that the program's own frame has touched, 0..=512, a multiple of 8.
    pub fn stack_bytes(&self) -> u32 {
        self.functions[0].stack_bytes
    }

    /// What the frames take that are there at the same time, those of functions that functions call with them: 0..=512.
    pub fn nested_stack_bytes(&self) -> u32 {
        self.nested_stack_bytes
    }

    /// The program does more with per-CPU values than to add to them by atomic operations without result: it reads or
    /// stores them, passes them to helpers, sets them to what it will, or asks for another CPU's. Then each run needs
    /// a lane that it has alone, and so does every other program on the same maps.
    pub fn needs_lane(&self) -> bool {
        self.needs_lane
    }

    /// The program may write to the packet that it is given, or to the packet's metadata: its owner's bytes, unless a run gets
    /// a copy.
    pub fn writes_packet(&self) -> bool {
        self.writes_packet
    }

    /// The program reads stack that it may never have written. Each frame, of the program and of its functions at every
    /// call, must be zero when it begins, or the program would see what stood there before.
    pub fn zeroes_frames(&self) -> bool {
        self.zeroes_frames
    }

    /// Instructions that were followed to prove it, each time that one was: what verifying took, whatever the machine.
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// Bit n set: the 8-byte slot n of the context (byte offset 8 n of `weir_rt::executable::Frame`) may be read.
    pub fn context_reads(&self) -> u32 {
        self.context_reads
    }
}
