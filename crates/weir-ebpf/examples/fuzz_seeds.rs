//! Writes the seed corpora: `fuzz_seeds FOLDER [OBJECT.o …]` fills FOLDER/TARGET for each fuzz target.
//!
//! Programs are a list of assembly texts that use every kind of instruction; objects are what weir writes of them, and
//! those that are given (clang's, of tests/bpf).

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::{Insn, MapKind, Object, ProgramKind, asm, form};

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

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().expect("usage: fuzz_seeds FOLDER [OBJECT.o …]");
    let parse = |text: &&str| asm::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut objects: Vec<Object> = TEXTS.iter().map(parse).collect();
    for (number, path) in arguments.enumerate() {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        write(&folder, "elf", &format!("given-{number}"), &bytes);
        if let Ok(btf) = elf::read_btf(&bytes) {
            write(&folder, "btf", &format!("given-{number}"), &btf.to_bytes());
        }
        objects.extend(elf::read(&bytes).ok().map(|file| file.object));
    }
    for (number, object) in objects.into_iter().enumerate() {
        write(&folder, "assembly", &number.to_string(), asm::print(&object).as_bytes());
        for (index, program) in object.programs.iter().enumerate() {
            // The target tells the kind by the bytes that are left over.
            let left_over = match program.kind {
                ProgramKind::Xdp => 1,
                ProgramKind::SocketFilter => 2,
                ProgramKind::Memory { .. } => 3,
                _ => 0,
            };
            let seed = [bytes(&program.insns), vec![0; left_over]].concat();
            write(&folder, "bytecode", &format!("{number}-{index}"), &seed);
        }
        if let Ok(written) = elf::write(&ObjectFile::of(object)) {
            write(&folder, "elf", &format!("written-{number}"), &written);
        }
    }
    let exit = asm::parse("program \"p\" probe\nexit\n").expect("two words");
    for (number, form) in form::all().into_iter().enumerate() {
        let insn = Insn {
            opcode: form.opcode,
            dst: 0,
            src: form.src.unwrap_or(0),
            off: form.off.unwrap_or(0),
            imm: form.imm.unwrap_or(0),
        };
        let mut insns = vec![insn];
        insns.extend(insn.is_wide().then_some(Insn::default()));
        insns.extend(&exit.programs[0].insns);
        write(&folder, "bytecode", &format!("form-{number}"), &bytes(&insns));
    }
    // A kind of map, and steps of the segment's target: an update, a look-up, a deletion, a write near the map.
    for kind in 0..MapKind::ALL.len() as u8 {
        let step = |what: u8, number: u8| [number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, number, 1, what];
        write(
            &folder,
            "segment",
            &kind.to_string(),
            &[&[kind][..], &step(1, 1), &step(0, 2), &step(3, 1), &step(2, 9), &step(5, 1)].concat(),
        );
    }
}

fn bytes(insns: &[Insn]) -> Vec<u8> {
    insns.iter().flat_map(|insn| insn.to_bytes()).collect()
}

fn write(folder: &Path, target: &str, name: &str, bytes: &[u8]) {
    let folder = folder.join(target);
    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(name), bytes)).expect("a file");
}
