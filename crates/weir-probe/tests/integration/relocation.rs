//! A trampoline does what the displaced instructions did: random windows, run natively in this process once as they
//! stand and once through a trampoline with a program that clobbers what it may, and compared: general registers,
//! flags, the stack pointer and the words on the stack, memory that RIP-relative operands name, and where they went.

use std::arch::global_asm;

use nix::libc;
use weir_probe::forked;
use weir_probe::meter::{self, Metering};
use weir_probe::trampoline::{Call, Placement, generate};
use weir_probe::window::{FunctionCode, plan};
use weir_probe::{body, window::Window};
use weir_rt::abi::meter::{HITS, HOW, TAKEN, TICKS, TIMED, TURNS, UNTIL};
use weir_rt::segment::Filter;

/// Windows that are tried.
const WINDOWS: u64 = 100_000;

/// Offsets in one mapping: the function, the trampoline, the program and the gate, data, the end of the stack.
const TRAMPOLINE: u64 = 0x4_0000;
const PROGRAM: u64 = 0x5_0000;
const GATE: u64 = 0x6_0000;
const LEASE: u64 = GATE + 0x40;
const SHUT: u64 = GATE + 0x48;
const FILTER: u64 = GATE + 0x50;
const METER: u64 = GATE + 0x80;
const ROUTINES: u64 = 0x7_0000;
/// What a hit of a forked child passes through, and in place of the runtime's function one that says that nobody waits.
const FORKED: u64 = 0x7_1000;
const ASKED: u64 = 0x7_2000;
const DATA: u64 = 0x8_0000;
const STACK: u64 = 0xc_0000;
const BYTES: u64 = 0x10_0000;

/// Places for branches to go to, 16 bytes each, within reach of short ones; each writes its number to `MARK`.
const PADS: u64 = 0x30;
const PAD_COUNT: u64 = 4;
const MARK: u64 = DATA + 0x400;
const EXIT: u64 = DATA + 0x408;
const PAD_POINTER: u64 = DATA + 0x410;
const DATA_BYTES: usize = 0x420;
/// Bytes below the stack pointer at the start that the displaced instructions may push to.
const PUSHED: usize = 0x60;

/// Registers by their numbers in instructions, then flags; `got` has the stack pointer in its place.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registers {
    general: [u64; 16],
    flags: u64,
}

#[repr(C)]
struct Harness {
    given: Registers,
    got: Registers,
    called: u64,
    stack: u64,
}

#[unsafe(no_mangle)]
static mut WEIR_TEST_HARNESS: Harness = Harness {
    given: Registers { general: [0; 16], flags: 0 },
    got: Registers { general: [0; 16], flags: 0 },
    called: 0,
    stack: 0,
};

unsafe extern "C" {
    fn weir_test_call();
    fn weir_test_exit();
}

global_asm!(
    ".globl weir_test_call",
    "weir_test_call:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "mov [rip + WEIR_TEST_HARNESS + 280], rsp",
    "push qword ptr [rip + WEIR_TEST_HARNESS + 128]; popfq",
    "mov rax, [rip + WEIR_TEST_HARNESS]; mov rcx, [rip + WEIR_TEST_HARNESS + 8]",
    "mov rdx, [rip + WEIR_TEST_HARNESS + 16]; mov rbx, [rip + WEIR_TEST_HARNESS + 24]",
    "mov rsp, [rip + WEIR_TEST_HARNESS + 32]; mov rbp, [rip + WEIR_TEST_HARNESS + 40]",
    "mov rsi, [rip + WEIR_TEST_HARNESS + 48]; mov rdi, [rip + WEIR_TEST_HARNESS + 56]",
    "mov r8, [rip + WEIR_TEST_HARNESS + 64]; mov r9, [rip + WEIR_TEST_HARNESS + 72]",
    "mov r10, [rip + WEIR_TEST_HARNESS + 80]; mov r11, [rip + WEIR_TEST_HARNESS + 88]",
    "mov r12, [rip + WEIR_TEST_HARNESS + 96]; mov r13, [rip + WEIR_TEST_HARNESS + 104]",
    "mov r14, [rip + WEIR_TEST_HARNESS + 112]; mov r15, [rip + WEIR_TEST_HARNESS + 120]",
    "jmp qword ptr [rip + WEIR_TEST_HARNESS + 272]",
    ".globl weir_test_exit",
    "weir_test_exit:",
    "mov [rip + WEIR_TEST_HARNESS + 136], rax; mov [rip + WEIR_TEST_HARNESS + 144], rcx",
    "mov [rip + WEIR_TEST_HARNESS + 152], rdx; mov [rip + WEIR_TEST_HARNESS + 160], rbx",
    "mov [rip + WEIR_TEST_HARNESS + 168], rsp; mov [rip + WEIR_TEST_HARNESS + 176], rbp",
    "mov [rip + WEIR_TEST_HARNESS + 184], rsi; mov [rip + WEIR_TEST_HARNESS + 192], rdi",
    "mov [rip + WEIR_TEST_HARNESS + 200], r8; mov [rip + WEIR_TEST_HARNESS + 208], r9",
    "mov [rip + WEIR_TEST_HARNESS + 216], r10; mov [rip + WEIR_TEST_HARNESS + 224], r11",
    "mov [rip + WEIR_TEST_HARNESS + 232], r12; mov [rip + WEIR_TEST_HARNESS + 240], r13",
    "mov [rip + WEIR_TEST_HARNESS + 248], r14; mov [rip + WEIR_TEST_HARNESS + 256], r15",
    "mov rsp, [rip + WEIR_TEST_HARNESS + 280]",
    "pushfq; pop qword ptr [rip + WEIR_TEST_HARNESS + 264]",
    "cld; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; ret",
);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Any register but the stack pointer.
    fn register(&mut self) -> u8 {
        match self.below(15) as u8 {
            register @ 0..=3 => register,
            register => register + 1,
        }
    }
}

/// A mapping that is written and executed.
struct Memory {
    at: u64,
}

impl Memory {
    fn new() -> Memory {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES as usize, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Memory { at: at as u64 }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= BYTES);
        // SAFETY: the range lies inside the mapping, which no reference points to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.at + offset) as *mut u8, bytes.len()) };
    }

    fn word(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.read(offset, 8).try_into().unwrap())
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        assert!(offset + length as u64 <= BYTES);
        let mut bytes = vec![0; length];
        // SAFETY: as in write.
        unsafe { std::ptr::copy_nonoverlapping((self.at + offset) as *const u8, bytes.as_mut_ptr(), length) };
        bytes
    }
}

/// What one run has left behind.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: Registers,
    data: Vec<u8>,
    pushed: Vec<u8>,
}

fn run(memory: &Memory, entry: u64, given: Registers, data: &[u8]) -> Outcome {
    memory.write(DATA, data);
    memory.write(STACK - PUSHED as u64, &[0x5a; PUSHED + 64]);
    let harness = &raw mut WEIR_TEST_HARNESS;
    // SAFETY: one test alone uses the harness. The code at `entry` was made here; it ends at weir_test_exit, which
    // restores the stack pointer and everything that a call must keep.
    let registers = unsafe {
        (*harness).given = given;
        (*harness).called = entry;
        weir_test_call();
        (*harness).got
    };
    // What lies below the stack pointer is dead.
    let top = STACK + 64;
    let depth =
        (memory.at + top).checked_sub(registers.general[4]).filter(|&depth| depth <= PUSHED as u64 + 64);
    let depth = depth.expect("a window moves the stack pointer by few words");
    Outcome {
        registers,
        data: memory.read(DATA, data.len()),
        pushed: memory.read(top - depth, depth as usize),
    }
}

/// One random instruction that would stand at `at`.
fn instruction(random: &mut Random, memory: &Memory, at: u64) -> Vec<u8> {
    let (register, other) = (random.register(), random.register());
    let wide = |rex: u8| 0x48 | rex;
    let field = (register & 7) << 3;
    let (high, other_high) = ((register >> 3) << 2, other >> 3);
    // The displacement from an instruction of `length` bytes to an offset in the mapping.
    let to = |target: u64, length: u64| ((memory.at + target) as i64 - (at + length) as i64) as i32;
    let datum = DATA + random.below(0x3f0);
    let pad = PADS + 16 * random.below(PAD_COUNT);
    let rip = |opcode: &[u8], immediate: &[u8]| {
        let length = (opcode.len() + 4 + immediate.len()) as u64;
        [opcode, &to(datum, length).to_le_bytes(), immediate].concat()
    };
    let short = |opcode: u8| vec![opcode, i8::try_from(to(pad, 2)).unwrap() as u8];
    let condition = random.below(16) as u8;
    let immediate = random.next().to_le_bytes();
    match random.below(26) {
        0 => vec![
            wide(high | other_high),
            [0x01, 0x29, 0x31, 0x21, 0x11, 0x19, 0x39, 0x85][(condition / 2) as usize],
            0xc0 | field | other & 7,
        ],
        1 => rip(&[wide(high), 0x8d, 5 | field], &[]),  // lea
        2 => rip(&[wide(high), 0x8b, 5 | field], &[]),  // mov
        3 => rip(&[wide(high), 0x03, 5 | field], &[]),  // add
        4 => rip(&[wide(high), 0x13, 5 | field], &[]),  // adc
        5 => rip(&[wide(high), 0x01, 5 | field], &[]),  // add to memory
        6 => rip(&[0x80, 0x3d], &immediate[..1]),       // cmpb $
        7 => rip(&[0x81, 0x05], &immediate[..4]),       // addl $
        8 => rip(&[0x66, 0x81, 0x3d], &immediate[..2]), // cmpw $
        9 => rip(&[0xc7, 0x05], &immediate[..4]),       // movl $
        10 => rip(&[wide(high), 0x0f, 0x40 | condition, 5 | field], &[]), // cmov
        11 => rip(&[0x0f, 0x90 | condition, 0x05], &[]), // setcc to memory
        12 => rip(&[0xff, 0x35], &[]),                  // push
        13 => vec![0x40 | other_high, 0x50 | other & 7], // push
        14 => vec![0x40 | other_high, 0x58 | other & 7], // pop
        15 => vec![0x40 | other_high, 0x0f, 0x90 | condition, 0xc0 | other & 7], // setcc
        16 => vec![wide(high | other_high), 0x0f, 0x40 | condition, 0xc0 | field | other & 7], // cmov
        17 | 18 => short(0x70 | condition),             // jcc
        19 => {
            let displacement = to(pad, 6).to_le_bytes();
            [&[0x0f, 0x80 | condition][..], &displacement].concat()
        }
        20 => short(0xe0 | condition & 3), // loopne, loope, loop, jrcxz
        21 => short(0xeb),
        22 => [&[0xe9][..], &to(pad, 5).to_le_bytes()].concat(),
        23 => [&[0xff, 0x25][..], &to(PAD_POINTER, 6).to_le_bytes()].concat(),
        24 => vec![[0xf5, 0xf8, 0xf9, 0x9f][(condition & 3) as usize]], // cmc, clc, stc, lahf
        _ => vec![wide(other_high), 0x83, 0xc0 | (condition & 7) << 3 | other & 7, immediate[0]], // alu $
    }
}

/// A function at the mapping's start whose window is random, and what was planned for it.
fn function(random: &mut Random, memory: &Memory) -> (Vec<u8>, Window) {
    let mut code = Vec::new();
    while code.len() < 5 {
        let at = memory.at + code.len() as u64;
        code.extend(instruction(random, memory, at));
        if matches!(code[..], [.., 0xeb, _]) {
            // Behind a jump comes what nothing reaches.
            code.resize(code.len().max(5), 0x90);
        }
    }
    let pad = |at: u64, number: u32| {
        let mark = (MARK as i64 - (at as i64 + 10)) as i32;
        let exit = (EXIT as i64 - (at as i64 + 16)) as i32;
        let parts: [&[u8]; 5] =
            [&[0xc7, 0x05], &mark.to_le_bytes(), &number.to_le_bytes(), &[0xff, 0x25], &exit.to_le_bytes()];
        parts.concat()
    };
    code.extend(pad(code.len() as u64, 99));
    code.resize(code.len().max(PADS as usize), 0x90);
    assert_eq!(code.len() as u64, PADS, "a window and what is behind it end before the first pad");
    for number in 0..PAD_COUNT {
        code.extend(pad(PADS + 16 * number, number as u32));
    }
    memory.write(0, &code);
    let function = FunctionCode::at_entry(memory.at, &code, &[]);
    let window = plan(function, &body::read(memory.at, &code)).unwrap();
    (code, window)
}

fn registers(random: &mut Random, memory: &Memory) -> Registers {
    let mut general = [0; 16];
    for register in &mut general {
        *register = match random.below(4) {
            0 => random.below(3),
            _ => random.next(),
        };
    }
    general[4] = memory.at + STACK;
    Registers { general, flags: random.next() & 0x8d5 | 0x202 }
}

/// A way through the trampoline.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// 0, or the offset of the word that the gate leads to.
    gate: u64,
    lives: bool,
    how: u32,
    /// It is not one of the first hits where each is counted; it is one of those that are missed else.
    later: bool,
    /// Hits that the meter counts: of the words from `HITS` on.
    counts: [u64; 4],
    /// The target has entered strict mode (seccomp).
    strict: bool,
}

const fn way(gate: u64, lives: bool, how: u32, later: bool, counts: [u64; 4]) -> Way {
    Way { gate, lives, how, later, counts, strict: false }
}

const fn strict(way: Way) -> Way {
    Way { strict: true, ..way }
}

/// Wiped; armed, without and with a controller; shut in every way, without and with one.
const WAYS: [Way; 12] = [
    way(0, true, 1, false, [0; 4]),
    way(LEASE, false, 1, false, [0; 4]),
    way(LEASE, true, 1, false, [0; 4]),
    way(SHUT, false, 1, false, [0; 4]),
    way(SHUT, true, 0, false, [0; 4]),
    way(SHUT, true, u32::MAX, false, [0; 4]),
    way(SHUT, true, 1, false, [1, 0, 0, 1]),
    way(SHUT, true, 1, true, [1, 0, 0, 0]),
    way(SHUT, true, 8, false, [1, 1, 1, 1]),
    way(SHUT, true, 8, true, [0, 1, 0, 0]),
    strict(way(SHUT, true, 1, false, [1, 0, 0, 0])),
    strict(way(SHUT, true, 8, false, [1, 1, 1, 0])),
];
const START: u64 = 5;

impl Way {
    fn set(&self, memory: &Memory) {
        let word = |at: u64, word: u64| memory.write(at, &word.to_le_bytes());
        word(GATE, if self.gate == 0 { 0 } else { memory.at + self.gate });
        // As the kernel leaves a robust futex whose holder has died.
        word(LEASE, if self.lives { 0x1_2345 } else { 0x4000_0000 });
        word(SHUT, 0);
        word(FILTER, if self.strict { Filter::STRICT.into() } else { 0 });
        word(METER + HOW as u64, self.how.into());
        word(METER + UNTIL as u64, if self.later { START } else { START + 1 });
        for at in [HITS, TAKEN, TIMED, TICKS] {
            word(METER + at as u64, START);
        }
        word(METER + TURNS as u64, if self.later { 7 } else { 8 });
    }

    fn has_counted(&self, memory: &Memory, shown: &str) {
        let now = |at: usize| memory.word(METER + at as u64);
        let turns = if self.later { 7 } else { 8 };
        let counts = [now(HITS) - START, now(TURNS) - turns, now(TAKEN) - START, now(TIMED) - START];
        assert_eq!(counts, self.counts, "{self:?}, {shown}");
        assert_eq!(now(TICKS) > START, self.counts[3] > 0, "{self:?}, {shown}");
    }
}

#[test]
fn windows_give_the_same_registers_flags_and_memory_in_a_trampoline() {
    let memory = Memory::new();
    let mut random = Random(0x1234_5678_9abc_def1);
    // It clobbers rax, rcx, rdx, rsi, rdi, r8 to r11 and the flags: mov $-1 each; add %rax,%rax; ret.
    let mut program = Vec::new();
    for register in [0u8, 1, 2, 6, 7, 8, 9, 10, 11] {
        program.extend([0x48 | register >> 3, 0xc7, 0xc0 | register & 7, 0xff, 0xff, 0xff, 0xff]);
    }
    // What it asks changes the same, and says no: xor %eax,%eax; ret.
    memory.write(ASKED, &[&program[..], &[0x31, 0xc0, 0xc3]].concat());
    memory.write(
        FORKED,
        &forked::routine(memory.at + FORKED, memory.at + GATE, memory.at + GATE, memory.at + ASKED),
    );
    program.extend([0x48, 0x01, 0xc0, 0xc3]);
    memory.write(PROGRAM, &program);
    let call = Call {
        address: memory.at + PROGRAM,
        cookie: 7,
        clobbers: 0b1111_1100_0111,
        clobbers_flags: true,
        may_misalign: false,
        context_reads: 0x1fff_ffff,
        reads_cookie: true,
        uses_session: false,
        walks_stack: false,
        when: weir_probe::When::Entry,
    };
    memory.write(ROUTINES, &meter::routines(Some(memory.at + FILTER)));
    let metering =
        Metering { lease: memory.at + LEASE, meter: memory.at + METER, routines: memory.at + ROUTINES };
    let (at, gate) = (memory.at + TRAMPOLINE, memory.at + GATE);
    let placement = Placement {
        at,
        bias: 0,
        gate,
        metering,
        forked: memory.at + FORKED,
        hit: memory.at,
        function: memory.at,
    };
    let mut seen = std::collections::BTreeMap::<u32, u64>::new();
    for number in 0..WINDOWS {
        let (code, window) = function(&mut random, &memory);
        let call = Call { may_misalign: number % 2 == 0, ..call };
        let trampoline = generate(&window, placement, &[call]).unwrap();
        memory.write(TRAMPOLINE, &trampoline.code);
        let way = WAYS[(number % WAYS.len() as u64) as usize];
        way.set(&memory);
        let mut data: Vec<u8> = (0..DATA_BYTES).map(|_| random.next() as u8).collect();
        let at = |offset: u64| (offset - DATA) as usize;
        data[at(EXIT)..][..8].copy_from_slice(&(weir_test_exit as *const () as u64).to_le_bytes());
        data[at(PAD_POINTER)..][..8].copy_from_slice(&(memory.at + PADS).to_le_bytes());
        let given = registers(&mut random, &memory);
        let original = run(&memory, memory.at, given, &data);
        let moved = run(&memory, placement.at + u64::from(trampoline.entry), given, &data);
        let shown = format!("window {number}: {:02x?}", &code[..window.bytes.len()]);
        assert_eq!(original.registers, moved.registers, "{shown}");
        assert!(original == moved, "{shown}: memory differs");
        way.has_counted(&memory, &shown);
        let mark = u32::from_le_bytes(original.data[at(MARK)..][..4].try_into().unwrap());
        *seen.entry(mark).or_default() += 1;
    }
    // Every way out was taken often.
    assert_eq!(seen.len(), PAD_COUNT as usize + 1, "{seen:?}");
    assert!(seen.values().all(|&count| count > WINDOWS / 100), "{seen:?}");
}
