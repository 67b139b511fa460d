//! Seeds of programs: as instructions, as assembly text, as object files, and the BTF of these.
//!
//! Programs are a list of assembly texts that use every kind of instruction, those of the given objects, and one for each form of
//! instruction. Objects are the given ones, and what weir writes of all programs.

use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::insn::{class, source};
use weir_ebpf::{Insn, Object, ProgramKind, asm, form};

use crate::seeds::{Seed, seed};

/// Programs that reach deep: loops, maps, rings, strings, functions.
const TEXTS: &[&str] = &[
    "map h hash key 8 value 16 entries 8\nprogram \"p\" probe\n\
     *(u64 *)(r10 - 8) = 5\nr2 = r10\nr2 += -8\nr1 = map[h] ll\ncall map_lookup_elem\nif r0 == 0 goto +2\n\
     r1 = 1\nlock *(u64 *)(r0 + 8) += r1\nr0 = 0\nexit\n",
    "program \"p\" probe\nr1 = 10\nr0 = 0\nr0 += r1\nr1 += -1\nif r1 != 0 goto -3\nexit\n",
    "program \"p\" probe\nr6 = *(u64 *)(r1 + 112)\nr0 = r6\nr0 &= 255\nif r0 s> 9 goto +1\nr0 = 9\nexit\n",
    "program \"p\" xdp\nr2 = *(u32 *)(r1 + 0)\nr3 = *(u32 *)(r1 + 4)\nr0 = 1\nr4 = r2\nr4 += 14\nif r4 > r3 goto +2\n\
     r0 = *(u16 *)(r2 + 12)\n*(u8 *)(r2 + 0) = 7\nexit\n",
    "program \"p\" socket\nr6 = r1\nr0 = *(u8 *)skb[0]\nr0 &= 15\nr0 = *(u16 *)skb[r0 + 2]\nexit\n",
    "program \"p\" memory 40\nr3 = *(u8 *)(r1 + 0)\nr3 &= 31\nr1 += r3\nr0 = *(u64 *)(r1 + 1)\nexit\n",
];

pub(crate) fn seeds(given: &[Vec<u8>]) -> Vec<Seed> {
    let parse = |text: &&str| asm::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut objects: Vec<Object> = TEXTS.iter().map(parse).collect();
    let mut seeds = Vec::new();
    for (number, bytes) in given.iter().enumerate() {
        seeds.push(seed("elf", format!("given-{number}"), &bytes[..]));
        if let Ok(btf) = elf::read_btf(bytes) {
            seeds.push(seed("btf", format!("given-{number}"), btf.to_bytes()));
        }
        objects.extend(elf::read(bytes).ok().map(|file| file.object));
    }
    for (number, object) in objects.into_iter().enumerate() {
        seeds.push(seed("assembly", number.to_string(), asm::print(&object)));
        for (index, program) in object.programs.iter().enumerate() {
            // The target tells the kind by the bytes that are left over.
            let left_over = match program.kind {
                ProgramKind::Xdp => 1,
                ProgramKind::SocketFilter => 2,
                ProgramKind::Memory { .. } => 3,
                ProgramKind::Classifier => 4,
                _ => 0,
            };
            let program = [bytes(&program.insns), vec![0; left_over]].concat();
            seeds.push(seed("bytecode", format!("{number}-{index}"), program));
        }
        if let Ok(written) = elf::write(&ObjectFile::of(object)) {
            if let Ok(btf) = elf::read_btf(&written) {
                seeds.push(seed("btf", format!("written-{number}"), btf.to_bytes()));
            }
            seeds.push(seed("elf", format!("written-{number}"), written));
        }
    }
    seeds.extend(forms());
    seeds
}

/// What stands before an instruction, with its `dst`, `src` and `off`: nothing, two numbers, or a number and an address of the stack.
const BEFORE: [(&str, &str, u8, u8, i16); 4] = [
    ("form", "", 0, 0, 0),
    ("numbers", "r2 = 5\nr3 = 3\n", 2, 3, 0),
    ("to-stack", ON_STACK, 2, 3, -16),
    ("from-stack", ON_STACK, 3, 2, -16),
];
const ON_STACK: &str = "*(u64 *)(r10 - 8) = 7\n*(u64 *)(r10 - 16) = 9\nr0 = 9\nr2 = r10\nr3 = 3\n";

/// A program for each form of instruction, after each of [`BEFORE`].
fn forms() -> Vec<Seed> {
    let parsed = |text: String| asm::parse(&text).expect("a program").programs.remove(0).insns;
    let mut seeds = Vec::new();
    for (name, before, dst, src, off) in BEFORE {
        // An instruction by itself is also the one that leaves a result, if any does.
        let result = if before.is_empty() { "" } else { "r0 = 0\n" };
        let all = parsed(format!("program \"p\" probe\n{before}{result}exit\n"));
        let (head, tail) = all.split_at(all.len() - if before.is_empty() { 1 } else { 2 });
        for (number, form) in form::all().into_iter().enumerate() {
            let insn = Insn {
                opcode: form.opcode,
                dst,
                src: form.src.unwrap_or(if takes_register(form.opcode) { src } else { 0 }),
                off: form.off.unwrap_or(off),
                imm: form.imm.unwrap_or(0),
            };
            let wide = insn.is_wide().then_some(Insn::default());
            let insns: Vec<Insn> =
                head.iter().copied().chain([insn]).chain(wide).chain(tail.to_vec()).collect();
            seeds.push(seed("bytecode", format!("{name}-{number}"), bytes(&insns)));
        }
    }
    seeds
}

/// Whether `src` names a register; it has to be 0 where it does not.
fn takes_register(opcode: u8) -> bool {
    match opcode & 7 {
        class::LDX | class::STX => true,
        class::LD | class::ST => false,
        _ => opcode & source::X != 0,
    }
}

fn bytes(insns: &[Insn]) -> Vec<u8> {
    insns.iter().flat_map(|insn| insn.to_bytes()).collect()
}
