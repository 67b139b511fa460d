//! The XDP program that calls a program of memory.
//!
//! The memory is the beginning of the packet, whose size is checked first; address and number of bytes go into r1 and
//! r2. r0 goes to the first value of the last map. What follows the lines below is the program itself, called as a
//! function:
//!
//! ```text
//!     r2 = *(u32 *)(r1 + 4)       data_end
//!     r1 = *(u32 *)(r1 + 0)       data
//!     r3 = r1
//!     r3 += BYTES
//!     if r3 > r2 goto out
//!     r2 = BYTES
//!     call program
//!     r1 = map[LAST][0] ll
//!     *(u64 *)(r1 + 0) = r0
//! out:
//!     r0 = 0
//!     exit
//! ```

use weir_ebpf::insn::{LD_IMM64, alu, class, jmp, mode, pseudo, size, source};
use weir_ebpf::{Insn, MapKind, MapSpec, Program, ProgramKind};

/// The map that r0 goes to.
pub(crate) fn result_map() -> MapSpec {
    MapSpec::new("weir_result", MapKind::Array, 4, 8, 1)
}

/// `program`, which gets `bytes` bytes, as an XDP program; `result`: index of [`result_map`].
pub(crate) fn wrapped(program: &Program, bytes: u32, result: usize) -> Program {
    let mov = class::ALU64 | alu::MOV;
    let insn = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    let number = |register, number| insn(mov | source::K, register, 0, 0, number);
    let load = |dst, off| insn(class::LDX | mode::MEM | size::W, dst, 1, off, 0);
    let arguments = match bytes {
        0 => vec![number(1, 0), number(2, 0)],
        _ => vec![
            load(2, 4),
            load(1, 0),
            insn(mov | source::X, 3, 1, 0, 0),
            insn(class::ALU64 | alu::ADD | source::K, 3, 0, 0, bytes as i32),
            insn(class::JMP | jmp::JGT | source::X, 3, 2, 5, 0),
            number(2, bytes as i32),
        ],
    };
    let rest = [
        // Five slots stand between the call and the program.
        insn(class::JMP | jmp::CALL, 0, pseudo::LOCAL, 0, 5),
        insn(LD_IMM64, 1, pseudo::MAP_INDEX_VALUE, 0, result as i32),
        Insn::default(),
        insn(class::STX | mode::MEM | size::DW, 1, 0, 0, 0),
        number(0, 0),
        insn(class::JMP | jmp::EXIT, 0, 0, 0, 0),
    ];
    let insns = arguments.into_iter().chain(rest).chain(program.insns.iter().copied()).collect();
    Program { name: program.name.clone(), kind: ProgramKind::Xdp, insns }
}

#[cfg(test)]
mod tests {
    use weir_ebpf::{Object, asm};

    use super::{result_map, wrapped};

    #[test]
    fn the_caller_is_as_its_header_says() {
        let object = asm::parse("program \"p\" memory 9\nr0 = 7\nexit").expect("is assembly text");
        let text = |bytes| {
            let programs = vec![wrapped(&object.programs[0], bytes, 0)];
            let text = asm::print(&Object { maps: vec![result_map()], programs });
            text.split_once("program").map(|(_, text)| text.to_owned()).unwrap_or_default()
        };
        let with_memory = " \"p\" xdp
     0: r2 = *(u32 *)(r1 + 0x4)
     1: r1 = *(u32 *)(r1 + 0x0)
     2: r3 = r1
     3: r3 += 0x9
     4: if r3 > r2 goto +0x5
     5: r2 = 0x9
     6: call pc+0x5
     7: r1 = map[weir_result][0] + 0x0 ll
     9: *(u64 *)(r1 + 0x0) = r0
    10: r0 = 0x0
    11: exit
    12: r0 = 0x7
    13: exit
";
        assert_eq!(text(9), with_memory);
        assert!(text(0).contains("     2: call pc+0x5\n"), "{}", text(0));
    }
}
