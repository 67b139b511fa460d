//! Generated code is described to unwinders, and hooks answer with the descriptions.
//!
//! The unwinder of this very process (libgcc's, by which Rust panics) finds its way through described code.
//!
//! Code is written to memory, and its descriptions are handed over with `__register_frame` (libgcc's interface for
//! generated code). Functions called from it panic, or ask for a backtrace.

#![allow(unsafe_code, reason = "runs generated code")]

use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};

use memmap2::{MmapMut, MmapOptions};
use weir_probe::unwind::frames::{self, Caller, Frame, Row};
use weir_probe::unwind::hook::{self, Known, Question};

unsafe extern "C" {
    fn __register_frame(frames: *const c_void);
    fn __deregister_frame(frames: *const c_void);
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Described code, for as long as this lives.
struct Described {
    memory: MmapMut,
    frames: usize,
}

/// Where the descriptions stand in the memory.
const FRAMES_AT: usize = 2048;
const RECORD_AT: usize = 1024;

impl Described {
    /// `make`: from the address of the code, its bytes and its frames.
    fn new(make: impl Fn(u64) -> (Vec<u8>, Vec<Frame>)) -> Described {
        let mut memory = MmapOptions::new().len(4096).map_anon().unwrap();
        let at = memory.as_ptr() as u64;
        let (code, described) = make(at);
        memory[..code.len()].copy_from_slice(&code);
        let bytes = frames::write(at + FRAMES_AT as u64, &described).unwrap();
        memory[FRAMES_AT..FRAMES_AT + bytes.len()].copy_from_slice(&bytes);
        // SAFETY: the mapping is this process's own, and nothing but this test's code stands in it.
        let made = unsafe { libc_mprotect(memory.as_ptr() as usize, 4096) };
        assert_eq!(made, 0);
        let frames = at as usize + FRAMES_AT + 12 + 8 * described.len();
        // SAFETY: a well-formed section ended by a zero word, which stays until it is taken back on drop.
        unsafe { __register_frame(frames as *const c_void) };
        Described { memory, frames }
    }

    /// Runs the code, which calls `function` with `argument` as its own.
    fn run(&self, function: extern "C-unwind" fn(usize), argument: usize) {
        // SAFETY: the code at the beginning takes a function in rsi and its argument in rdi, and keeps the C ABI.
        let code: extern "C-unwind" fn(usize, extern "C-unwind" fn(usize)) =
            unsafe { std::mem::transmute(self.memory.as_ptr()) };
        code(argument, function);
    }

    fn contains(&self, address: usize) -> bool {
        self.memory.as_ptr_range().contains(&(address as *const u8))
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: registered in `new`, once.
        unsafe { __deregister_frame(self.frames as *const c_void) };
    }
}

/// Makes memory readable, writable and executable.
unsafe fn libc_mprotect(address: usize, bytes: usize) -> i32 {
    use nix::sys::mman::{ProtFlags, mprotect};
    let pointer = std::ptr::NonNull::new(address as *mut c_void).unwrap();
    let all = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
    // SAFETY: the caller's own mapping.
    unsafe { mprotect(pointer, bytes, all) }.map_or(-1, |()| 0)
}

/// A frame of `kept` bytes around a call.
fn around_call(kept: u32) -> Described {
    Described::new(|at| {
        let mut code = vec![0x48, 0x81, 0xec]; // sub $kept,%rsp
        code.extend_from_slice(&kept.to_le_bytes());
        code.extend_from_slice(&[0xff, 0xd6]); // call *%rsi
        code.extend_from_slice(&[0x48, 0x81, 0xc4]); // add $kept,%rsp
        code.extend_from_slice(&kept.to_le_bytes());
        code.push(0xc3);
        let row = |offset, above_stack_pointer| Row { offset, above_stack_pointer };
        let rows = vec![row(0, 0), row(7, kept), row(16, 0)];
        (code, vec![Frame { code: at..at + 17, caller: Caller::OnStack(rows) }])
    })
}

/// Code that puts the return address away and has the function return to a stub instead.
fn through_record() -> Described {
    Described::new(|at| {
        let record = at + RECORD_AT as u64;
        let mut code = vec![0x48, 0x8b, 0x04, 0x24]; // mov (%rsp),%rax
        code.extend_from_slice(&[0x48, 0xa3]); // movabs %rax,record
        code.extend_from_slice(&record.to_le_bytes());
        code.extend_from_slice(&[0x48, 0x8d, 0x05, 7, 0, 0, 0]); // lea stub(%rip),%rax
        code.extend_from_slice(&[0x48, 0x89, 0x04, 0x24]); // mov %rax,(%rsp)
        code.extend_from_slice(&[0xff, 0xe6]); // jmp *%rsi
        code.push(0x90);
        let stub = code.len() as u64;
        code.extend_from_slice(&[0xff, 0x25]); // jmp *record(%rip)
        code.extend_from_slice(&((record - (at + stub + 6)) as u32).to_le_bytes());
        let expression = [&[0x03][..], &record.to_le_bytes()].concat(); // DW_OP_addr
        let caller = Caller::InRecord { above_stack_pointer: 0, address: expression };
        (code, vec![Frame { code: at + stub - 1..at + stub + 6, caller }])
    })
}

extern "C-unwind" fn panics(value: usize) {
    panic::panic_any(value);
}

fn check_panic(described: &Described) {
    for value in 0..3 {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| described.run(panics, value)));
        assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), value);
    }
}

/// The frames of a call through described code, by return address.
fn backtrace(described: &Described) -> Vec<usize> {
    extern "C" fn each(context: *mut c_void, data: *mut c_void) -> i32 {
        // SAFETY: `data` is the vector that `collect` handed over; the context is the unwinder's own.
        unsafe { (*data.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }
    extern "C-unwind" fn collect(out: usize) {
        // SAFETY: `out` is the address of a vector that outlives the call.
        let result = unsafe { _Unwind_Backtrace(each, out as *mut c_void) };
        // Something is left to do behind the call, so that it is none in tail position.
        assert_eq!(std::hint::black_box(result), 5, "_URC_END_OF_STACK");
    }
    let mut out: Vec<usize> = Vec::new();
    described.run(collect, &raw mut out as usize);
    out
}

fn check_backtrace(described: &Described) {
    let found = backtrace(described);
    let ours: Vec<usize> =
        found.iter().enumerate().filter(|(_, ip)| described.contains(**ip)).map(|(at, _)| at).collect();
    // The function that asks, then the described code; below it this test's own frames, to the thread's start.
    assert_eq!(ours, [1], "{found:x?}");
    assert!(found.len() > 5, "{found:x?}");
}

#[test]
fn panics_pass_a_frame_of_any_size() {
    for kept in [8, 24, 136, 4104] {
        check_panic(&around_call(kept));
    }
}

#[test]
fn panics_pass_a_return_address_in_a_record() {
    check_panic(&through_record());
}

#[test]
fn a_backtrace_goes_on_behind_described_code() {
    check_backtrace(&around_call(136));
    check_backtrace(&through_record());
}

/// Where the hook stands, what it goes on at, and the word that holds the address of the header.
const HOOK_AT: usize = 4096;
const NEXT_AT: usize = 6144;
const WORD_AT: usize = 4096 - 8;

/// Asks a hook, in an island of a page with three described functions, for an address; gives what it returned, and what
/// it wrote (words of 8 bytes), with addresses relative to the island.
fn ask(question: Question, offset: i64) -> (i64, [i64; 5]) {
    let mut memory = MmapOptions::new().len(8192).map_anon().unwrap();
    let at = memory.as_ptr() as u64;
    // Not in order: the table is.
    let described = [256..280u64, 16..32, 32..48].map(|code| Frame {
        code: at + code.start..at + code.end,
        caller: Caller::OnStack(vec![Row { offset: 0, above_stack_pointer: 0 }]),
    });
    let bytes = frames::write(at + FRAMES_AT as u64, &described).unwrap();
    memory[FRAMES_AT..FRAMES_AT + bytes.len()].copy_from_slice(&bytes);
    memory[WORD_AT..WORD_AT + 8].copy_from_slice(&(at + FRAMES_AT as u64).to_le_bytes());
    let other = Known { code: 0x1000..0x2000, header_word: 0 };
    let known = Known { code: at..at + 4096, header_word: at + WORD_AT as u64 };
    let hook = hook::generate(at + HOOK_AT as u64, question, &[other, known], at + NEXT_AT as u64);
    memory[HOOK_AT..HOOK_AT + hook.code.len()].copy_from_slice(&hook.code);
    memory[NEXT_AT..NEXT_AT + 8].copy_from_slice(&[0x48, 0xc7, 0xc0, 77, 0, 0, 0, 0xc3]); // mov $77,%rax; ret
    // SAFETY: the mapping is this test's own.
    assert_eq!(unsafe { libc_mprotect(at as usize, 8192) }, 0);
    let entry = at as usize + HOOK_AT + hook.entry as usize;
    // SAFETY: a hook is called as the function that it stands at, with an address and room for an answer.
    let code: extern "C" fn(u64, *mut u64) -> u64 = unsafe { std::mem::transmute(entry) };
    let mut answer = [u64::MAX; 5];
    let returned = code(at.wrapping_add_signed(offset), answer.as_mut_ptr());
    let relative = |value: u64| match value.wrapping_sub(at) {
        inside @ 0..=8192 => inside as i64,
        _ => value as i64,
    };
    (relative(returned), answer.map(relative))
}

#[test]
fn a_hook_answers_for_its_island_alone() {
    let header = FRAMES_AT as i64;
    for offset in [0, 17, 4095] {
        assert_eq!(ask(Question::Object, offset), (0, [0, 0, 4096, 0, header]), "{offset}");
    }
    for question in [Question::Object, Question::Description] {
        for offset in [-1, 4096, 1 << 40, i64::MIN] {
            assert_eq!(ask(question, offset), (77, [-1; 5]), "{question:?} {offset}");
        }
    }
}

#[test]
fn a_hook_finds_the_description_of_every_address() {
    // Behind the header, its three entries and the common part: in the order of addresses.
    let first = (FRAMES_AT + 12 + 3 * 8 + 24) as i64;
    let length = ask(Question::Description, 32).0 - first;
    let cases = [
        (15, 0, -1),
        (16, 0, 16),
        (31, 0, 16),
        (32, 1, 32),
        (47, 1, 32),
        (48, -1, -1),
        (255, -1, -1),
        (256, 2, 256),
        (279, 2, 256),
        (280, -1, -1),
        (4095, -1, -1),
    ];
    for (offset, index, function) in cases {
        let (found, answer) = ask(Question::Description, offset);
        let expected = match function {
            -1 => (0, [-1; 5]),
            _ => (first + index * length, [0, 0, function, -1, -1]),
        };
        assert_eq!((found, answer), expected, "{offset}");
    }
}
