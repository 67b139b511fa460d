//! What is no program: words that are no instruction, jumps to nowhere, programs past the limits.

use weir_ebpf::Insn;
use weir_verifier::RejectionKind;

use crate::reject::{FOUND, does_not_run, object, refuses, refuses_slot, rejection};

#[test]
fn what_is_no_instruction() {
    let slot = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    for opcode in
        [0x00, 0x01, 0x02, 0x08, 0x10, 0x1b, 0xb8, 0x60, 0x81 | 0x18, 0x8d & 0xfe, 0xe4, 0xf7, 0xf5, 0x0d]
    {
        refuses_slot(slot(opcode, 0, 0, 0, 0), "no instruction has the opcode");
    }
    for opcode in [0x86, 0x96, 0x8c, 0x8f, 0xdf, 0xe6, 0xd2, 0x9d, 0xc1, 0x41, 0x21] {
        refuses_slot(slot(opcode, 0, 0, 0, 0), "");
    }
    refuses_slot(slot(0xb7, 11, 0, 0, 0), "no register r11");
    refuses_slot(slot(0xbf, 0, 15, 0, 0), "no register r15");
    refuses_slot(slot(0xb7, 255, 0, 0, 0), "no register r255");
    refuses_slot(slot(0xbf, 0, 200, 0, 0), "no register r200");
    refuses_slot(slot(0x79, 0, 12, 0, 0), "no register r12");
    refuses_slot(slot(0x7b, 13, 0, 0, 0), "no register r13");
    refuses_slot(slot(0x1d, 0, 11, 0, 0), "no register r11");
    refuses_slot(slot(0xdb, 1, 11, 0, 0), "no register r11");
}

#[test]
fn reserved_fields_that_are_not_zero() {
    let slot = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    refuses_slot(slot(0xb7, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0xbf, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x07, 0, 0, 1, 0), "offset 1 has no meaning");
    refuses_slot(slot(0x37, 0, 0, 2, 1), "offset 2 has no meaning");
    refuses_slot(slot(0xbf, 0, 0, 24, 0), "offset 24 has no meaning");
    refuses_slot(slot(0xbc, 0, 0, 32, 0), "offset 32 has no meaning");
    refuses_slot(slot(0xb7, 0, 0, 8, 0), "offset 8 has no meaning");
    refuses_slot(slot(0x87, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x87, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0x84, 0, 0, 1, 0), "unused offset is 1");
    refuses_slot(slot(0xdc, 0, 0, 0, 8), "byte swap of 8 bits");
    refuses_slot(slot(0xd7, 0, 1, 0, 16), "unused source register is 1");
    refuses_slot(slot(0x95, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x95, 1, 0, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0x05, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x06, 0, 0, 1, 0), "unused offset is 1");
    refuses_slot(slot(0x85, 0, 0, 1, 5), "unused offset is 1");
    refuses_slot(slot(0x85, 1, 0, 0, 5), "unused destination register is 1");
    refuses_slot(slot(0x85, 0, 3, 0, 5), "no meaning in a call");
    refuses_slot(slot(0x79, 0, 1, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x7a, 10, 1, -8, 0), "unused source register is 1");
    refuses_slot(slot(0x7b, 10, 0, -8, 1), "unused immediate is 1");
    refuses_slot(slot(0xdb, 10, 0, -8, 2), "no atomic operation has the number 0x2");
    refuses_slot(slot(0xdb, 10, 0, -8, 0x101), "no atomic operation has the number 0x101");
    refuses_slot(slot(0xd3, 10, 0, -8, 0x120), "no atomic operation has the number 0x120");
    refuses_slot(slot(0xdb, 10, 1, 0, 0x100), "r10 is the frame pointer");
    refuses_slot(slot(0xe5, 1, 0, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0xe5, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0xe5, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x85, 0, 1, 1, 0), "unused offset is 1");
    refuses_slot(slot(0x85, 1, 1, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0xdb, 10, 0, -8, 0xe0), "no atomic operation");
    refuses_slot(slot(0xdb, 10, 0, -8, 0xf0), "no atomic operation");
    refuses_slot(slot(0xd3, 10, 0, -8, 0), "4 or 8 bytes wide, not 1");
    refuses_slot(slot(0xcb, 10, 0, -8, 0), "4 or 8 bytes wide, not 2");
    refuses_slot(slot(0x15, 0, 1, 0, 0), "unused source register is 1");
}

#[test]
fn wide_loads_that_are_not_whole() {
    refuses("r0 = 0", "exit; .insn 0x18", "no second slot");
    refuses("", ".insn 0x18; r0 = 0; exit", "second slot of the wide load holds more");
    refuses("", ".insn 0x18; .insn 0x100; exit", "second slot");
    refuses("", ".insn 0x10018; .insn 0; exit", "unused offset is 1");
    refuses("", "r0 = 1 ll", "ends here");
    refuses("", "r10 = 1 ll; exit", "r10 is the frame pointer");
    refuses("", ".insn 0xb18; .insn 0; exit", "no register r11");
    refuses("", ".insn 0x7018; .insn 0; exit", "no meaning in a wide load");
    does_not_run("", "r0 = map_fd[0] ll; exit", "a descriptor of the process");
    does_not_run("", "r0 = map_fd[0][0] ll; exit", "a descriptor of the process");
    does_not_run("", "r0 = btf 0 ll; exit", "a variable of the kernel");
    refuses("", ".insn 0x4018; .insn 0x100000000; exit", "unused upper half");
    refuses("", ".insn 0x5118; .insn 0x100000000; exit", "unused upper half");
    refuses("", "r1 = map[#15] ll; r0 = 0; exit", "map number 15 of 15");
    refuses("", ".insn 0xffffffff00005118; .insn 0; r0 = 0; exit", "map number -1");
    refuses("", "r1 = map[@hash][0] ll; r0 = 0; exit", "no fixed address");
    refuses("", "r1 = map[@ring][0] ll; r0 = 0; exit", "no fixed address");
    refuses("", "r1 = map[@array][0] + 16 ll; r0 = 0; exit", "offset 16 into a value of 16");
    refuses("", "r1 = map[@array][0] - 1 ll; r0 = 0; exit", "offset 4294967295");
}

#[test]
fn jumps_to_nowhere_and_ends_without_exit() {
    refuses("", "", "empty");
    refuses("", "r0 = 0", "ends here");
    refuses("", "r0 = 0; if r0 == 0 goto -1", "ends here");
    refuses("", "goto +1; exit", "outside the program");
    refuses("", "goto -2; exit", "before the program");
    refuses("", "r0 = 0; if r0 == 0 goto +1; exit", "outside the program");
    refuses("", "gotol +0x7fffffff; exit", "outside the program");
    refuses("", "gotol -0x80000000; exit", "before the program");
    refuses("r0 = 0", "if r0 == 0 goto +1; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "goto +1; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "exit; r1 = map[@hash] ll; goto -2", "middle of a wide load");
    refuses("r0 = 0; exit", "goto +5", "outside the program");
}

#[test]
fn what_weir_does_not_run() {
    does_not_run("r0 = 0", "call btf 5; exit", "a kernel function by BTF id");
    does_not_run("", "r0 = *(u8 *)skb[0]; exit", "packet loads");
    does_not_run("r1 = 0", "r0 = *(u16 *)skb[r1]; exit", "packet loads");
    does_not_run("r0 = 0", ".insn 0x8d; exit", "callx (opcode 0x8d), which calls through a register");
    does_not_run("", ".insn 0x1000111bf; exit", "arenas");
}

#[test]
fn programs_beyond_the_limits() {
    let mut object = object("r0 = 0", "exit");
    let add = object.programs[0].insns[0];
    object.programs[0].insns.splice(0..0, std::iter::repeat_n(add, 65_535));
    let rejection = rejection(&object);
    assert_eq!((rejection.kind, rejection.at), (RejectionKind::TooBig, None), "{rejection}");
}

#[test]
fn messages_name_program_instruction_and_reason() {
    let object = object(FOUND, "r0 = *(u64 *)(r0 + 12); exit");
    assert_eq!(
        rejection(&object).to_string(),
        "p: instruction 8: `r0 = *(u64 *)(r0 + 0xc)`: unsafe: 8 bytes at a pointer 0x0 bytes into a value of \
         @hash+0xc are not known to be inside its 16 bytes"
    );
}
