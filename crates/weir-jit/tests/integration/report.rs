//! What an executable says of itself is true of its bytes, as iced-x86 reads them; and the code of the commonest
//! program is as short as meant.

use crate::engines;

use std::fs;
use std::path::Path;

use engines::{SIGNATURE, only, verified};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use weir_jit::{Flags, Passes};
use weir_rt::executable::{Executable, LanePolicy, RelocKind, SiteAbi, Symbol, TidSource};

/// rax, rcx, rdx, rsi, rdi, r8..r11.
const CALLER_SAVED: u16 = 0x0fc7;

#[test]
fn clobbers_flags_and_stack_are_as_reported() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let (mut checked, mut neutral) = (0, 0);
    for entry in fs::read_dir(directory).expect("corpus") {
        let path = entry.expect("corpus").path();
        if path.extension().is_none_or(|extension| extension != "s") {
            continue;
        }
        let object = weir_ebpf::asm::parse(&fs::read_to_string(&path).expect("readable")).expect("parses");
        for source in &object.programs {
            let program = verified(source, &object.maps);
            // The frames of functions add up in ways that reading the bytes from the top does not show.
            if program.functions().len() > 1 {
                continue;
            }
            for abi in engines::abis_for(&program) {
                for flags in [Flags::KeepIfPossible, Flags::Change, Flags::KeepEach] {
                    let executable = engines::compiled(&program, &abi, flags);
                    check(&executable);
                    checked += 1;
                    neutral += usize::from(!executable.clobbers_flags);
                }
            }
        }
    }
    assert!(checked > 1_000 && neutral > 50, "{checked} executables, {neutral} neutral");
}

fn check(executable: &Executable) {
    let text = &executable.code[..executable.text_bytes as usize];
    let mut factory = InstructionInfoFactory::new();
    let (mut clobbers, mut flags, mut saved, mut pushed, mut lowered) = (0u16, false, 0u16, 0, 0);
    let (mut calls, mut deepest, mut flags_are_kept) = (false, 0, false);
    for instruction in Decoder::new(64, text, DecoderOptions::NONE).iter() {
        assert!(!instruction.is_invalid(), "{}: {instruction}", executable.name);
        flags_are_kept |= instruction.mnemonic() == Mnemonic::Lahf;
        flags |= instruction.rflags_modified() != 0 && !flags_are_kept;
        flags_are_kept &= instruction.mnemonic() != Mnemonic::Sahf;
        match instruction.mnemonic() {
            Mnemonic::Push => {
                saved |= bit(instruction.op0_register());
                pushed += 8;
            }
            Mnemonic::Call => calls = true,
            Mnemonic::Lea if instruction.op0_register() == Register::RSP => {
                lowered = lowered.max(-(instruction.memory_displacement64() as i64));
            }
            _ if instruction.memory_base() == Register::RSP => {
                deepest = deepest.max(-(instruction.memory_displacement64() as i64));
            }
            _ => {}
        }
        clobbers |= written(&mut factory, &instruction);
    }
    clobbers &= !(1 << 4);
    if calls {
        clobbers |= CALLER_SAVED;
        flags = true;
        assert_eq!((8 + pushed + lowered) % 16, 0, "{}: stack alignment at calls", executable.name);
    }
    let name = &executable.name;
    assert_eq!(clobbers & !saved, executable.clobbers, "{name}: registers");
    assert_eq!(executable.clobbers & !CALLER_SAVED, 0, "{name}: callee-saved");
    assert_eq!(flags, executable.clobbers_flags, "{name}: flags");
    let below = pushed + lowered + deepest.max(0) + if calls { 8 } else { 0 };
    assert!(below <= i64::from(executable.stack_bytes), "{name}: {below} bytes of stack");
    assert!(executable.origins.is_sorted_by(|a, b| a.0 < b.0), "{name}: origins");
    assert!(executable.relocations.is_sorted_by_key(|relocation| relocation.offset), "{name}");
    for relocation in &executable.relocations {
        let bytes = if relocation.kind == RelocKind::Abs64 { 8 } else { 4 };
        assert!(relocation.offset as usize + bytes <= executable.code.len(), "{name}: relocation");
    }
}

fn bit(register: Register) -> u16 {
    1 << register.full_register().number()
}

fn written(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> u16 {
    let writes = |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let info = factory.info(instruction);
    info.used_registers()
        .iter()
        .filter(|used| writes(used.access()) && used.register().full_register().is_gpr64())
        .fold(0, |mask, used| mask | bit(used.register()))
}

/// A site that does not depend on the machine.
fn abi(lanes: LanePolicy) -> SiteAbi {
    SiteAbi {
        pid: 42,
        tid: TidSource::ThreadControlBlock { offset: 0x2d0 },
        lanes,
        cpus: 4,
        bmi2: true,
        reads_ticks: true,
    }
}

const RSEQ: LanePolicy = LanePolicy::Rseq { offset: -160, signature: SIGNATURE };

const COUNT: &str = "map @ percpu_array key 4 value 8 entries 1
program \"count\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = 1
lock *(u64 *)(r0 + 0) += r1
out:
r0 = 0
exit
";

/// The text of the only program of `text` at a fixed site.
fn text(text: &str, lanes: LanePolicy, flags: Flags) -> String {
    let (object, program) = only(text);
    weir_jit::disassemble(&engines::compiled(&program, &abi(lanes), flags), &object)
}

/// Compares with a file of `asm/`; `BLESS=1` rewrites it.
fn is(actual: &str, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/asm").join(file);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, actual).expect("writable");
    }
    assert_eq!(actual, fs::read_to_string(&path).expect(file), "\n{actual}");
}

#[test]
fn count_is_a_constant_address_and_a_locked_add() {
    is(&text(COUNT, LanePolicy::Shared, Flags::Change), "count_shared.txt");
}

#[test]
fn count_with_rseq_is_a_restartable_section() {
    is(&text(COUNT, RSEQ, Flags::Change), "count_rseq.txt");
}

#[test]
fn count_with_rseq_and_bmi2_changes_no_flag() {
    is(&text(COUNT, RSEQ, Flags::KeepIfPossible), "count_neutral.txt");
}

/// The same count with a plain load and store.
const INCREMENT: &str = "map @ percpu_array key 4 value 8 entries 1
program \"increment\" probe
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
out:
r0 = 0
exit
";

#[test]
fn a_claim_is_one_locked_instruction_and_one_store() {
    is(&text(INCREMENT, RSEQ.claimed(), Flags::Change), "claimed.txt");
}

const CALLS: &str = "program \"calls\" probe
r6 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r6
r1 = r10
r1 += -8
call add
r0 += r6
exit
add:
r2 = *(u64 *)(r1 + 0)
here:
may_goto out
r2 += 1
goto here
out:
r0 = r2
exit
";

#[test]
fn a_function_stands_behind_its_program_with_a_frame_of_its_own() {
    is(&text(CALLS, RSEQ, Flags::Change), "calls.txt");
}

#[test]
fn nested_frames_are_counted() {
    let deep = |depth: usize| {
        let function = |at: usize| {
            let call = if at < depth { format!("call f{}", at + 1) } else { "r0 = 0".to_owned() };
            let head = if at == 0 { String::new() } else { format!("f{at}:\n") };
            format!(
                "{head}r2 = *(u64 *)(r1 + 8)\n*(u64 *)(r10 - 40) = r2\n{call}\nr2 = *(u64 *)(r10 - 40)\nr0 += r2\nexit\n"
            )
        };
        let functions: String = (0..=depth).map(function).collect();
        let (_, program) = only(&format!("program \"deep\" probe\n{functions}"));
        engines::compiled(&program, &abi(RSEQ), Flags::Only(Passes::NONE)).stack_bytes
    };
    // 40 bytes of stack each, with the return address a multiple of 16.
    assert_eq!([deep(0), deep(1), deep(2)], [40, 40 + 48, 40 + 2 * 48]);
}

#[test]
fn helpers_and_exceptions_are_marked() {
    let program = "map @names hash key 16 value 8 entries 16
program \"marks\" probe
r6 = *(u64 *)(r1 + 112)
r1 = r10
r1 += -16
r2 = 16
call get_current_comm
r1 = r10
r1 += -24
r2 = 8
r3 = r6
call probe_read_user
r1 = map[@names] ll
r2 = r10
r2 += -16
call map_lookup_elem
call get_current_pid_tgid
exit
";
    let shown = text(program, RSEQ, Flags::default());
    for part in
        ["helper get_current_comm (exception: comm is a system call)", "may be a slow read", "%fs:0x2d0"]
    {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    for part in ["# map @names", "# runtime hash_lookup_16", "; 4: call 0x10 ; get_current_comm"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn pid_alone_needs_no_system_call() {
    let (_, program) = only("program \"pid\" probe\ncall get_current_pid_tgid\nr0 >>= 32\nexit\n");
    let abi = SiteAbi { tid: TidSource::Syscall, ..abi(RSEQ) };
    let executable = engines::compiled(&program, &abi, Flags::default());
    assert_eq!(executable.relocations, []);
    assert_eq!(executable.code, [0xb8, 42, 0, 0, 0, 0xc3]);
}

#[test]
fn context_slots_of_dead_loads_are_not_read() {
    let (_, program) = only("program \"p\" probe\nr2 = *(u64 *)(r1 + 112)\nr0 = *(u64 *)(r1 + 104)\nexit\n");
    assert_eq!(program.context_reads(), 1 << 13 | 1 << 14);
    let executable = engines::compiled(&program, &abi(RSEQ), Flags::default());
    assert_eq!(executable.context_reads, 1 << 13);
    assert!(!executable.reads_cookie);
}

#[test]
fn cookie_is_reported() {
    let (_, program) = only("program \"p\" probe\ncall get_attach_cookie\nexit\n");
    let executable = engines::compiled(&program, &abi(RSEQ), Flags::default());
    assert!(executable.reads_cookie);
    assert_eq!(executable.context_reads, 0);
}

#[test]
fn descriptors_stand_aligned_behind_the_text() {
    let (_, program) = only(COUNT);
    let executable = engines::compiled(&program, &abi(RSEQ), Flags::default());
    let data = (executable.text_bytes as usize).next_multiple_of(32);
    assert_eq!(executable.code.len(), data + 32);
    let word = |at: usize| u64::from_le_bytes(executable.code[at..at + 8].try_into().unwrap());
    let target = |at: usize| {
        let relocation = executable.relocations.iter().find(|r| r.offset as usize == at).expect("relocation");
        match (relocation.kind, relocation.symbol) {
            (RelocKind::Abs64, Symbol::Code(offset)) => offset as usize + relocation.addend as usize,
            other => panic!("{other:?}"),
        }
    };
    let (start, abort) = (target(data + 8), target(data + 24));
    assert_eq!(word(data), 0, "version and flags");
    assert!(start + (word(data + 16) as usize) < executable.text_bytes as usize);
    assert!(abort > start + word(data + 16) as usize, "the handler lies outside of its section");
    assert_eq!(executable.code[abort - 4..abort], SIGNATURE.to_le_bytes());
}

#[test]
fn same_input_gives_the_same_code() {
    let (_, program) = only(COUNT);
    let [first, second] = [0, 1].map(|_| engines::compiled(&program, &abi(RSEQ), Flags::default()));
    assert_eq!(first, second);
}
