//! Return addresses are replaced and come back: the generated code alone, run in this very process.
//!
//! A page stands for an island: a few trampolines by hand, which keep words on the stack and call; the table and its
//! stubs are as a target has them. Functions are Rust's, or a few bytes of code.

#![allow(unsafe_code, reason = "runs generated code")]

use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

use memmap2::{MmapMut, MmapOptions};
use nix::sys::mman::{ProtFlags, mprotect};
use weir_probe::limits::RECORDS;
use weir_probe::replace::{self, STUBS_BYTES_MAX, Table};
use weir_probe::unwind::frames::{self, Caller, Frame, Row};

unsafe extern "C" {
    fn __register_frame(frames: *const c_void);
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// One process-wide table, as a target has one; never taken down, since unwinders know it.
struct World {
    memory: MmapMut,
    /// Where the next trampoline is written.
    next: usize,
}

const PAGE: usize = 4096;
const ENTER_AT: usize = 0;
const COUNTERS_AT: usize = PAGE;
const CODE_AT: usize = 2 * PAGE;
const STUBS_AT: usize = 16 * PAGE;
const RECORDS_AT: usize = STUBS_AT + (STUBS_BYTES_MAX as usize).next_multiple_of(PAGE);
const SHIFT: u32 = 7;
/// Bytes that the trampolines keep.
const KEPT: i32 = 40;

static WORLD: Mutex<Option<World>> = Mutex::new(None);

impl World {
    fn new() -> World {
        let bytes = RECORDS_AT + ((RECORDS as usize) << SHIFT) + PAGE;
        let memory = MmapOptions::new().len(bytes).map_anon().unwrap();
        let mut world = World { memory, next: CODE_AT };
        let table = world.table();
        let enter = replace::enter(&table, world.at(ENTER_AT));
        world.write(ENTER_AT, &enter);
        let (stubs, described) = replace::stubs(&table);
        world.write(STUBS_AT, &stubs);
        assert!(stubs.len() as u64 <= STUBS_BYTES_MAX);
        world.describe(&described);
        let all = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
        let start = std::ptr::NonNull::new(world.memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the mapping is this test's own.
        unsafe { mprotect(start, bytes, all) }.unwrap();
        world
    }

    fn at(&self, offset: usize) -> u64 {
        self.memory.as_ptr() as u64 + offset as u64
    }

    fn table(&self) -> Table {
        Table {
            records: self.at(RECORDS_AT),
            stubs: self.at(STUBS_AT),
            record_shift: SHIFT,
            no_record: self.at(COUNTERS_AT + 8),
            tail_depth: self.at(COUNTERS_AT + 16),
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn describe(&mut self, described: &[Frame]) {
        let bytes = frames::write(self.at(self.next), described).unwrap();
        let at = self.next;
        self.write(at, &bytes);
        self.next = (at + bytes.len()).next_multiple_of(16);
        let frames = self.at(at) as usize + 12 + 8 * described.len();
        // SAFETY: a well-formed section ended by a zero word, which stays for as long as this process.
        unsafe { __register_frame(frames as *const c_void) };
    }

    /// Code that behaves as `function` does, whose returns are caught: each counts.
    fn probe(&mut self, function: usize) -> usize {
        let entry = self.next;
        let mut code = vec![0x48, 0x8d, 0x64, 0x24, -KEPT as u8]; // lea -KEPT(%rsp),%rsp
        code.extend_from_slice(&[0xc7, 0x44, 0x24, 4, 1, 1, (KEPT / 8) as u8, 1]); // movl $…,4(%rsp)
        for word in (8..KEPT as u8).step_by(8) {
            code.extend_from_slice(&[0x48, 0xc7, 0x44, 0x24, word]); // movq $-7,word(%rsp)
            code.extend_from_slice(&(-7i32).to_le_bytes());
        }
        let call = code.len();
        code.extend_from_slice(&[0xe8, 0, 0, 0, 0]);
        let point = code.len();
        code.extend_from_slice(&[0x9c, 0x48, 0x83, 0x7c, 0x24, KEPT as u8, 0xf9]); // pushfq; cmpq $-7,KEPT(%rsp)
        code.extend_from_slice(&[0x74, 2, 0x0f, 0x0b]); // je over; ud2
        code.extend_from_slice(&[0xf0, 0x48, 0xff, 0x05]); // over: lock incq returns(%rip)
        let next = self.at(entry + code.len() + 4);
        code.extend_from_slice(&(self.at(COUNTERS_AT).wrapping_sub(next) as u32).to_le_bytes());
        code.extend_from_slice(&[0x9d, 0x48, 0x8d, 0x64, 0x24, KEPT as u8, 0xc3]); // popfq; lea KEPT(%rsp),%rsp; ret
        let window = code.len();
        code.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp *(%rip)
        code.extend_from_slice(&(function as u64).to_le_bytes());
        let thunk = code.len();
        code[call + 1..call + 5].copy_from_slice(&((thunk - point) as u32).to_le_bytes());
        code.extend(replace::thunk(self.at(entry + thunk), self.at(entry + window), self.at(ENTER_AT)));
        self.write(entry, &code);
        self.next = (entry + code.len()).next_multiple_of(16);
        let row =
            |offset: usize, above: i32| Row { offset: offset as u32, above_stack_pointer: above as u32 };
        let rows = vec![row(0, 0), row(5, KEPT), row(window - 1, 0)];
        let code = self.at(entry)..self.at(entry + window);
        self.describe(&[Frame { code, caller: Caller::OnStack(rows) }]);
        self.at(entry) as usize
    }

    /// A few bytes of code.
    fn code(&mut self, bytes: &[u8]) -> usize {
        let at = self.next;
        self.write(at, bytes);
        self.next = (at + bytes.len()).next_multiple_of(16);
        self.at(at) as usize
    }

    /// Returns that were caught, that found no record, and that were too deep in a chain.
    fn counters(&self) -> [u64; 3] {
        [0, 8, 16].map(|at| {
            // SAFETY: aligned words of this mapping, which generated code changes.
            unsafe { std::ptr::read_volatile(self.memory.as_ptr().add(COUNTERS_AT + at).cast()) }
        })
    }

    /// Records in use.
    fn in_use(&self) -> usize {
        let slot = |k: usize| {
            // SAFETY: as above.
            unsafe {
                std::ptr::read_volatile(self.memory.as_ptr().add(RECORDS_AT + (k << SHIFT)).cast::<u64>())
            }
        };
        (0..RECORDS as usize).filter(|&k| slot(k) != 0).count()
    }
}

/// Runs `body` with the table; what it has caught and missed meanwhile.
fn with_world<T>(body: impl FnOnce(&mut World) -> T) -> (T, [u64; 3]) {
    let mut guard = WORLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let world = guard.get_or_insert_with(World::new);
    let before = world.counters();
    let answer = body(world);
    let after = world.counters();
    (answer, [0, 1, 2].map(|at| after[at] - before[at]))
}

type Ten = extern "C-unwind" fn(i64, i64, i64, i64, i64, i64, i64, i64, i64, i64) -> i64;

extern "C-unwind" fn ten(
    a: i64,
    b: i64,
    c: i64,
    d: i64,
    e: i64,
    f: i64,
    g: i64,
    h: i64,
    i: i64,
    j: i64,
) -> i64 {
    a - b + c * d - e + f * 2 - g * 3 + h * 5 - i * 7 + j * 11
}

#[test]
fn arguments_on_the_stack_are_where_they_were() {
    let (_, counters) = with_world(|world| {
        let before = world.in_use();
        // SAFETY: the code behaves as the function that it leads to.
        let probed: Ten = unsafe { std::mem::transmute(world.probe(ten as *const () as usize)) };
        for n in 0..1000 {
            let expected = ten(n, 2, 3, 4, 5, 6, 7, 8, 9, n);
            assert_eq!(probed(n, 2, 3, 4, 5, 6, 7, 8, 9, n), expected);
        }
        assert!(world.in_use() <= before, "{} of {before}", world.in_use());
    });
    assert_eq!(counters, [1000, 0, 0]);
}

type Recursive = extern "C-unwind" fn(usize, usize) -> usize;

extern "C-unwind" fn recursive(depth: usize, probed: usize) -> usize {
    // SAFETY: the address of code that behaves as this function.
    let probed: Recursive = unsafe { std::mem::transmute(probed) };
    if depth == 0 { 1 } else { std::hint::black_box(probed(depth - 1, probed as usize)) + 1 }
}

fn check_recursion(depth: usize) -> [u64; 3] {
    let (_, counters) = with_world(|world| {
        let before = world.in_use();
        let probed = world.probe(recursive as *const () as usize);
        // SAFETY: as above.
        let call: Recursive = unsafe { std::mem::transmute(probed) };
        assert_eq!(call(depth, probed), depth + 1);
        assert!(world.in_use() <= before, "{} of {before}", world.in_use());
    });
    counters
}

#[test]
fn calls_that_nest_are_told_apart() {
    assert_eq!(check_recursion(999), [1000, 0, 0]);
}

#[test]
fn more_calls_than_records_run_and_are_counted() {
    let deep = std::thread::Builder::new().stack_size(64 << 20);
    let counters = deep.spawn(|| check_recursion(99_999)).unwrap().join().unwrap();
    assert_eq!(counters[0] + counters[1], 100_000, "{counters:?}");
    assert!(counters[1] > 50_000 && counters[0] > u64::from(RECORDS) / 2, "{counters:?}");
}

extern "C-unwind" fn panics(depth: usize, probed: usize) -> usize {
    // SAFETY: the address of code that behaves as this function.
    let probed: Recursive = unsafe { std::mem::transmute(probed) };
    if depth == 0 {
        panic::panic_any(7usize);
    }
    std::hint::black_box(probed(depth - 1, probed as usize)) + 1
}

#[test]
fn panics_pass_and_lose_no_record() {
    let (_, counters) = with_world(|world| {
        let before = world.in_use();
        let probed = world.probe(panics as *const () as usize);
        // SAFETY: as above.
        let call: Recursive = unsafe { std::mem::transmute(probed) };
        for depth in [0, 1, 5, 40, 5, 40] {
            let caught = panic::catch_unwind(AssertUnwindSafe(|| call(depth, probed)));
            assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), 7, "{depth}");
        }
        // Those of the same places are claimed again: as many are left as one round needs.
        assert!(world.in_use() <= before + 50, "{} after {before}", world.in_use());
    });
    assert_eq!(counters, [0, 0, 0]);
}

/// Return addresses up the stack, from a function that is called through `probed`.
fn backtrace(call: impl FnOnce(usize)) -> Vec<usize> {
    let mut out: Vec<usize> = Vec::new();
    call(&raw mut out as usize);
    out
}

extern "C-unwind" fn collect(out: usize, _: usize) -> usize {
    extern "C" fn each(context: *mut c_void, data: *mut c_void) -> i32 {
        // SAFETY: `data` is the vector that was handed over; the context is the unwinder's own.
        unsafe { (*data.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }
    // SAFETY: `out` is the address of a vector that outlives the call.
    let result = unsafe { _Unwind_Backtrace(each, out as *mut c_void) };
    std::hint::black_box(result) as usize
}

#[test]
fn a_backtrace_has_one_frame_more() {
    with_world(|world| {
        let probed = world.probe(collect as *const () as usize);
        // SAFETY: code that behaves as `collect`.
        let call: Recursive = unsafe { std::mem::transmute(probed) };
        let trace = backtrace(|out| assert_eq!(std::hint::black_box(call(out, 0)), 5));
        let stubs = world.at(STUBS_AT) as usize..world.at(RECORDS_AT) as usize;
        let ours: Vec<usize> = (0..trace.len()).filter(|&at| stubs.contains(&trace[at])).collect();
        assert_eq!(ours, [1], "{trace:x?}");
        assert!(trace.len() > 5, "{trace:x?}");
    });
}

/// `dec %rdi; jnz probed; mov $5,%eax; ret`, which is the function itself: it ends in a jump to its own entry.
fn check_tail_calls(calls: u64) -> [u64; 3] {
    let (_, counters) = with_world(|world| {
        let before = world.in_use();
        let code = world.code(&[0x48, 0xff, 0xcf, 0x0f, 0x85, 0, 0, 0, 0, 0xb8, 5, 0, 0, 0, 0xc3]);
        let probed = world.probe(code);
        let at = code - world.at(0) as usize;
        let distance = (probed as i64 - (code as i64 + 9)) as i32;
        world.write(at + 5, &distance.to_le_bytes());
        // SAFETY: code that takes a number and gives one.
        let call: extern "C-unwind" fn(u64) -> u64 = unsafe { std::mem::transmute(probed) };
        assert_eq!(call(calls), 5);
        assert!(world.in_use() <= before, "{} of {before}", world.in_use());
    });
    counters
}

#[test]
fn a_chain_of_tail_calls_returns_through_each() {
    assert_eq!(check_tail_calls(1), [1, 0, 0]);
    assert_eq!(check_tail_calls(2), [2, 0, 0]);
    assert_eq!(check_tail_calls(65), [65, 0, 0]);
}

#[test]
fn a_longer_chain_runs_and_is_counted() {
    assert_eq!(check_tail_calls(1_000_000), [65, 0, 1_000_000 - 65]);
}

#[test]
fn registers_and_flags_pass_both_ways() {
    let (_, counters) = with_world(|world| {
        // A function that gives back what it finds: the flags, all registers but rsp, as they are.
        let code = world.code(&[0xc3]);
        let probed = world.probe(code);
        for pattern in [0u64, u64::MAX, 0x5a5a_a5a5_0ff0_f00f] {
            for carry in [0u8, 1] {
                let (mut a, mut c, mut d, mut s, mut t) =
                    (pattern, !pattern, pattern ^ 1, pattern ^ 2, pattern ^ 3);
                let (mut e, mut f) = (pattern ^ 4, pattern ^ 5);
                let mut carried: u8;
                // SAFETY: the code returns, and changes nothing but what is named here.
                unsafe {
                    std::arch::asm!(
                        "add {carried}, 255",
                        "call {probed}",
                        "setc {carried}",
                        probed = in(reg) probed,
                        carried = inout(reg_byte) carry => carried,
                        inout("rax") a, inout("rcx") c, inout("rdx") d, inout("rsi") s, inout("rdi") t,
                        inout("r8") e, inout("r9") f,
                    );
                }
                let got = [a, c, d, s, t, e, f];
                let expected =
                    [pattern, !pattern, pattern ^ 1, pattern ^ 2, pattern ^ 3, pattern ^ 4, pattern ^ 5];
                assert_eq!((got, carried), (expected, carry));
            }
        }
    });
    assert_eq!(counters, [6, 0, 0]);
}
