//! Go's goroutines: stacks in the heap, most of which no thread runs on.
//!
//! In: a process whose program has Go's runtime, its stopped threads. Out: on which of its stacks a thread runs, and what of
//! their stacks the goroutines that wait come back to.
//!
//! Go preempts a goroutine between any two instructions, by a signal: the handler makes it look as if it had called a function
//! there, which saves all registers and gives the thread away. Where it goes on stands on its own stack, as a return
//! address. (Never inside weir's code: what Go has no tables of, it does not preempt.)
//!
//! What is read of a `g` and its `m` has not moved since Go 1.5 (runtime/runtime2.go), and is held against what it must look
//! like: the stack's ends, the thread's `m`, the stack pointer of its `gobuf`. All goroutines that ever were stand in the list
//! `runtime.allgptr`, before they run first; which of a growing list's two words was written first does not matter here,
//! since the length is written last.

use std::ops::Range;
use std::path::PathBuf;

use weir_symbols::maps::{self, Mapping};
use weir_symbols::{Binary, regular};

use crate::limits::{GOROUTINE_STACK_BYTES_MAX, GOROUTINES_MAX};
use crate::process::isa::native::registers::Registers;
use crate::process::memory::Memory;
use crate::process::sys;

/// Offsets in a `g`: its stack's ends, its thread's `m`, the stack pointer that it waits with.
const STACK_LOW: usize = 0;
const STACK_HIGH: usize = 8;
const M: u64 = 48;
const WAITING_SP: usize = 56;
/// Bytes of a `g` that are read at once.
const READ_BYTES: usize = WAITING_SP + 8;
/// Offset in an `m`: the goroutine of its scheduler, whose stack is the thread's own.
const SCHEDULER: u64 = 0;
/// Where a thread keeps its `g`, from fs.
const CURRENT: u64 = 8;

/// How a process with Go's runtime keeps its goroutines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goroutines {
    /// Addresses of `runtime.allgptr` and `runtime.allglen`; none in a program without symbols.
    list: Option<(u64, u64)>,
}

/// A stack of Go's that a thread runs on.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) stack: Range<u64>,
    /// It is the thread's own: what lies below the stack pointer is nobody else's.
    pub(crate) is_threads: bool,
}

impl Goroutines {
    /// Of process `pid`; `None` if its program is not Go's.
    pub(crate) fn find(pid: i32, mappings: &[Mapping]) -> Option<Goroutines> {
        let path = PathBuf::from(format!("/proc/{}/exe", sys::living_thread(pid)));
        // Most programs are not, and to read all of a large one takes long.
        if !weir_symbols::program_kind(&regular::open(&path).ok()?)?.is_go {
            return None;
        }
        let binary = Binary::open(&path).ok()?;
        let file = maps::identity_of(mappings, &binary, binary.path());
        let bias = file.and_then(|file| maps::load_bias(mappings, file, &binary));
        let at = |name: &str| Some(binary.symbol_value(name)?.0.0.wrapping_add(bias?));
        Some(Goroutines { list: at("runtime.allgptr").zip(at("runtime.allglen")) })
    }

    /// The parts of stacks that goroutines come back to which do not run on any of the threads with these stack pointers. An
    /// error says why they cannot be told.
    pub(crate) fn waiting(&self, memory: &Memory, running: &[u64]) -> Result<Vec<Range<u64>>, String> {
        let (list, length) =
            self.list.ok_or("the program has no symbols, so its goroutines are not found")?;
        let unreadable = |_| "its list of goroutines cannot be read".to_owned();
        let count = memory.read_u64(length).map_err(unreadable)?;
        if count > GOROUTINES_MAX {
            return Err(format!(
                "it has {count} goroutines, more than the {GOROUTINES_MAX} that are looked at"
            ));
        }
        let list = memory.read_u64(list).map_err(unreadable)?;
        let mut addresses = vec![0; 8 * count as usize];
        memory.read(list, &mut addresses).map_err(unreadable)?;
        let mut waiting = Vec::new();
        for address in addresses.chunks_exact(8) {
            let mut bytes = [0; READ_BYTES];
            memory.read(word(address, 0), &mut bytes).map_err(unreadable)?;
            let stack = word(&bytes, STACK_LOW)..word(&bytes, STACK_HIGH);
            if stack.is_empty() && stack.start == 0 {
                // It has ended.
                continue;
            }
            if !is_stack(&stack) {
                return Err("its runtime is not one that keeps goroutines as weir knows it".into());
            }
            if !running.iter().any(|pointer| stack.contains(pointer)) {
                // A stack that is being moved belongs to the old stack pointer or to the new.
                let from = Some(word(&bytes, WAITING_SP)).filter(|pointer| stack.contains(pointer));
                waiting.push(from.unwrap_or(stack.start)..stack.end);
            }
        }
        Ok(waiting)
    }
}

/// The stack of Go's that a thread with these registers runs on, if it is one.
pub(crate) fn running(memory: &Memory, registers: &Registers) -> Option<Running> {
    let current =
        memory.read_u64(registers.thread_pointer().checked_sub(CURRENT)?).ok().filter(|&g| g != 0)?;
    let mut bytes = [0; READ_BYTES];
    memory.read(current, &mut bytes).ok()?;
    let stack = word(&bytes, STACK_LOW)..word(&bytes, STACK_HIGH);
    if !is_stack(&stack) || !stack.contains(&registers.stack_pointer()) {
        return None;
    }
    let m = memory.read_u64(current.wrapping_add(M)).ok().filter(|&m| m != 0);
    let scheduler = m.and_then(|m| memory.read_u64(m.wrapping_add(SCHEDULER)).ok());
    Some(Running { stack, is_threads: scheduler == Some(current) })
}

fn is_stack(stack: &Range<u64>) -> bool {
    stack.start < stack.end && stack.end - stack.start <= GOROUTINE_STACK_BYTES_MAX
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
