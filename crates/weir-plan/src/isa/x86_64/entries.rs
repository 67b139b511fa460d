//! Finds every place of a file from which the kernel is called, and which call that is.
//!
//! In: a [`Binary`]. Out: its [`Entry`]s, by address: each `syscall`, `sysenter` and `int $0x80` that a thread may come to, and
//! the number that was put into eax right before it, where that is plain to see.
//!
//! Code is searched for the two bytes of such an instruction. Whether they are one is seen by decoding the function that they
//! are in from its first byte; elsewhere they count as one, unless what is around them is no code at all.
//!
//! Guaranteed: what is not answered is the inside of a longer instruction, or lies where no function is and nothing that loads a
//! number leads to it. Deliberately not: jumps into the middle of an instruction; code that is made while the program runs.

use std::collections::{BTreeSet, HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use weir_symbols::{Binary, LinkAddr};

use crate::isa::x86_64::body::near_target;
use crate::limits::FUNCTION_BYTES_MAX;

/// An instruction that calls the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub address: LinkAddr,
    pub number: Number,
    /// Where the instructions begin that lead straight to it and change nothing that it is given but eax: the first that
    /// leaves room for a jump.
    pub before: Option<LinkAddr>,
    /// Behind it.
    pub behind: LinkAddr,
}

/// Which call it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Number {
    Known(u32),
    /// One of several; or, where nobody knows, besides these what the function was given, or has from memory.
    Among {
        constants: BTreeSet<u32>,
        are_all: bool,
    },
    /// Of the 32-bit interface, or where no function is.
    Other,
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const SYSENTER: [u8; 2] = [0x0f, 0x34];
const INT_80: [u8; 2] = [0xcd, 0x80];
/// Bytes of a jump.
const ROOM: u64 = 5;

pub fn entries(binary: &Binary) -> Vec<Entry> {
    let mut found = Vec::new();
    for (start, bytes) in binary.executable_ranges() {
        let mut known: Option<(std::ops::Range<u64>, Vec<Entry>)> = None;
        for (offset, pair) in bytes.windows(2).enumerate() {
            if pair != SYSCALL && pair != SYSENTER && pair != INT_80 {
                continue;
            }
            let address = start.0 + offset as u64;
            if known.as_ref().is_none_or(|(range, _)| !range.contains(&address)) {
                known = binary.function_bounds(LinkAddr(address)).and_then(|bounds| {
                    let range = bounds.start.0..bounds.end.0;
                    let bytes = binary.bytes(bounds.start, (range.end - range.start) as usize)?;
                    (bytes.len() as u64 <= FUNCTION_BYTES_MAX)
                        .then(|| (range.clone(), of_function(range.start, bytes)))
                });
            }
            match &known {
                Some((_, of)) => found.extend(of.iter().find(|entry| entry.address.0 == address).cloned()),
                None => found.extend(stray(address, &bytes[..offset], pair)),
            }
        }
    }
    found
}

/// Those of one function, decoded from its first byte.
fn of_function(address: u64, bytes: &[u8]) -> Vec<Entry> {
    let code: Vec<Instruction> = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).iter().collect();
    let mut jumps: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, instruction) in code.iter().enumerate() {
        if let Some(target) = near_target(instruction) {
            jumps.entry(target).or_default().push(at);
        }
    }
    let entry = |(at, instruction): (usize, &Instruction)| {
        calls_kernel(instruction).then(|| {
            let is_64 = instruction.code() == Code::Syscall;
            Entry {
                address: LinkAddr(instruction.ip()),
                number: if is_64 { number(&code, &jumps, at) } else { Number::Other },
                before: before(&code[..at], &jumps, instruction.ip()),
                behind: LinkAddr(instruction.next_ip()),
            }
        })
    };
    code.iter().enumerate().filter_map(entry).collect()
}

/// Bytes where no function is: in tables that assemblers put among code they may be anything. They count as an entry where
/// what stands before them, read from any byte on, loads eax or rax as a whole with a number and goes on to them: what writes al
/// alone leaves most of the number to chance (libgcrypt has such a table).
fn stray(address: u64, before: &[u8], pair: &[u8]) -> Option<Entry> {
    const BACK: usize = 32;
    let first = before.len().saturating_sub(BACK);
    let leads_here = |from: usize| {
        let bytes: Vec<u8> = before[from..].iter().chain(pair).copied().collect();
        let mut loads = false;
        for instruction in Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).iter() {
            if instruction.ip() == (bytes.len() - 2) as u64 {
                return loads && calls_kernel(&instruction);
            }
            if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
                return false;
            }
            let is_move = instruction.mnemonic() == Mnemonic::Mov
                && instruction.op0_kind() == OpKind::Register
                && matches!(instruction.op0_register(), Register::EAX | Register::RAX);
            loads |= is_move || constant(&instruction).is_some_and(|(register, _)| register == Register::RAX);
        }
        false
    };
    let is_one = (first..before.len()).any(leads_here);
    let (address, behind) = (LinkAddr(address), LinkAddr(address + 2));
    is_one.then_some(Entry { address, number: Number::Other, before: None, behind })
}

fn calls_kernel(instruction: &Instruction) -> bool {
    match instruction.code() {
        Code::Syscall | Code::Sysenter => true,
        Code::Int_imm8 => instruction.immediate8() == 0x80,
        _ => false,
    }
}

/// A register that a constant is put into.
fn constant(instruction: &Instruction) -> Option<(Register, u32)> {
    let is_load = matches!(
        instruction.code(),
        Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64
    );
    if is_load && instruction.op0_kind() == OpKind::Register {
        return Some((instruction.op0_register().full_register(), instruction.immediate(1) as u32));
    }
    let is_zeroed = matches!(instruction.code(), Code::Xor_rm32_r32 | Code::Xor_r32_rm32)
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    is_zeroed.then(|| (instruction.op0_register().full_register(), 0))
}

/// What eax may hold where `code` comes to instruction `at`: followed back along every way that leads there.
fn number(code: &[Instruction], jumps: &HashMap<u64, Vec<usize>>, at: usize) -> Number {
    let (mut constants, mut are_all) = (BTreeSet::new(), true);
    let mut info = InstructionInfoFactory::new();
    let (mut open, mut seen) = (vec![(at, Register::RAX)], HashSet::new());
    while let Some((at, register)) = open.pop() {
        if !seen.insert((at, register)) {
            continue;
        }
        let from_line = at.checked_sub(1).filter(|&last| falls_through(&code[last]));
        let from_jumps = jumps.get(&code[at].ip()).into_iter().flatten().copied();
        let mut is_led_to = false;
        for before in from_line.into_iter().chain(from_jumps) {
            is_led_to = true;
            let instruction = &code[before];
            if !writes(&mut info, instruction, register)
                && !instruction.is_call_near()
                && !instruction.is_call_near_indirect()
            {
                open.push((before, register));
                continue;
            }
            match (constant(instruction), copied(instruction)) {
                (Some((_, value)), _) => _ = constants.insert(value),
                (None, Some(from)) => open.push((before, from)),
                (None, None) => are_all = false,
            }
        }
        // The function's beginning, or what a table leads to.
        are_all &= is_led_to;
    }
    match constants.first() {
        Some(&only) if are_all && constants.len() == 1 => Number::Known(only),
        _ => Number::Among { constants, are_all },
    }
}

fn falls_through(instruction: &Instruction) -> bool {
    use FlowControl::{Call, ConditionalBranch, IndirectCall, Next};
    calls_kernel(instruction)
        || matches!(instruction.flow_control(), Next | ConditionalBranch | Call | IndirectCall)
}

/// Whether it changes `register`, or a part of it.
fn writes(info: &mut InstructionInfoFactory, instruction: &Instruction, register: Register) -> bool {
    info.info(instruction).used_registers().iter().any(|used| {
        used.register().full_register() == register
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None)
    })
}

/// The register that a plain move copies.
fn copied(instruction: &Instruction) -> Option<Register> {
    let is_move = matches!(
        instruction.code(),
        Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Mov_r64_rm64 | Code::Mov_rm64_r64
    );
    let are_registers =
        instruction.op0_kind() == OpKind::Register && instruction.op1_kind() == OpKind::Register;
    (is_move && are_registers).then(|| instruction.op1_register().full_register())
}

/// The last instruction of `line` from which on there is room for a jump before `address`, where those from it on lead straight
/// there, and change nothing but rax and r9 (an argument that no call in question has, which `syscall` of glibc loads last).
fn before(line: &[Instruction], jumps: &HashMap<u64, Vec<usize>>, address: u64) -> Option<LinkAddr> {
    let mut info = InstructionInfoFactory::new();
    let mut next = address;
    for instruction in line.iter().rev() {
        if instruction.flow_control() != FlowControl::Next || jumps.contains_key(&next) {
            return None;
        }
        let changes = info.info(instruction).used_registers().iter().any(|used| {
            !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None)
                && !matches!(used.register().full_register(), Register::RAX | Register::R9)
        });
        let writes_memory = info.info(instruction).used_memory().iter().any(|used| {
            !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
        });
        if changes || writes_memory {
            return None;
        }
        if address - instruction.ip() >= ROOM {
            return Some(LinkAddr(instruction.ip()));
        }
        next = instruction.ip();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;
    const SYSCALL_RET: [u8; 3] = [0x0f, 0x05, 0xc3];

    /// The entries of a function of these instructions, each of which is one slice.
    fn found(instructions: &[&[u8]]) -> Vec<(u64, Number, Option<u64>)> {
        let of = of_function(AT, &instructions.concat());
        let plain = |entry: Entry| (entry.address.0 - AT, entry.number, entry.before.map(|at| at.0 - AT));
        of.into_iter().map(plain).collect()
    }

    fn among(constants: &[u32], are_all: bool) -> Number {
        Number::Among { constants: constants.iter().copied().collect(), are_all }
    }

    const MOV_11: &[u8] = &[0xb8, 11, 0, 0, 0];
    const MOV_9: &[u8] = &[0xb8, 9, 0, 0, 0];

    #[test]
    fn a_constant_is_the_number() {
        assert_eq!(found(&[MOV_11, &SYSCALL_RET]), [(5, Number::Known(11), Some(0))]);
        // xor %eax,%eax: no room for a jump.
        assert_eq!(found(&[&[0x31, 0xc0], &SYSCALL_RET]), [(2, Number::Known(0), None)]);
        // mov $11,%edx; mov %edx,%eax; nop of 4 bytes
        let through_dx: &[&[u8]] =
            &[&[0xba, 11, 0, 0, 0], &[0x89, 0xd0], &[0x0f, 0x1f, 0x40, 0], &SYSCALL_RET];
        assert_eq!(found(through_dx), [(11, Number::Known(11), Some(5))]);
    }

    #[test]
    fn both_sides_of_a_branch_count() {
        // test %edi,%edi; je +7; mov $11,%eax; jmp +5; mov $9,%eax; syscall
        let code: &[&[u8]] = &[&[0x85, 0xff], &[0x74, 7], MOV_11, &[0xeb, 5], MOV_9, &SYSCALL_RET];
        assert_eq!(found(code), [(16, among(&[9, 11], true), None)]);
    }

    #[test]
    fn what_a_function_is_given_is_not_known() {
        // mov %edi,%eax
        assert_eq!(found(&[&[0x89, 0xf8], &SYSCALL_RET]), [(2, among(&[], false), None)]);
        // mov (%rdi),%eax
        assert_eq!(found(&[&[0x8b, 0x07], &SYSCALL_RET]), [(2, among(&[], false), None)]);
        // mov $11,%eax; call +0: what it answers
        assert_eq!(found(&[MOV_11, &[0xe8, 0, 0, 0, 0], &SYSCALL_RET]), [(10, among(&[], false), None)]);
    }

    #[test]
    fn arguments_must_be_there_before_a_hook() {
        // mov $11,%eax; mov %ecx,%r10d
        let late: &[&[u8]] = &[MOV_11, &[0x41, 0x89, 0xca], &SYSCALL_RET];
        assert_eq!(found(late), [(8, Number::Known(11), None)]);
        let early: &[&[u8]] = &[&[0x41, 0x89, 0xca], MOV_11, &SYSCALL_RET];
        assert_eq!(found(early), [(8, Number::Known(11), Some(3))]);
    }

    #[test]
    fn the_inside_of_an_instruction_is_none() {
        assert_eq!(found(&[&[0xb8, 0x0f, 0x05, 0, 0], &[0xc3]]), []);
    }

    #[test]
    fn the_old_way_in_is_of_another_kind() {
        assert_eq!(found(&[MOV_11, &[0xcd, 0x80, 0xc3]]), [(5, Number::Other, Some(0))]);
        assert_eq!(found(&[MOV_11, &[0x0f, 0x34, 0xc3]]), [(5, Number::Other, Some(0))]);
    }

    #[test]
    fn bytes_outside_of_functions_count_where_something_leads_to_them() {
        let is_one = |before: &[u8]| stray(AT, before, &SYSCALL).is_some();
        assert!(is_one(&[0xcc, 0xcc, 0xb8, 11, 0, 0, 0]));
        assert!(is_one(&[0x89, 0xf8]));
        assert!(!is_one(&[0xcc; 32]));
        // xor %eax,%eax; mov $11,%al; and the latter alone
        assert!(is_one(&[0x31, 0xc0, 0xb0, 11]));
        assert!(!is_one(&[0xcc, 0xb0, 11]));
        // mov $11,%eax; ret
        assert!(!is_one(&[0xb8, 11, 0, 0, 0, 0xc3]));
    }
}
