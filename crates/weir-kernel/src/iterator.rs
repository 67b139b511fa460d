//! Programs that run once for each of what the kernel lists: tasks, their files, their mappings.
//!
//! In: a program of an iterator. Out: a [`Iteration`], which runs it for a few at a time, so that what it writes can be read in between.
//!
//! The kernel calls the program while a file is read, until as many bytes as were asked for are there. What weir's programs print is in their ring:
//! [`paced`] puts instructions in front that write one byte for each call, and leave out the last one, which is for nothing.
//!
//! Interface: Linux Documentation/bpf/bpf_iterators.rst.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use weir_ebpf::Insn;
use weir_ebpf::insn::{alu, class, jmp, mode, size, source};

use crate::syscall::{self, IterCreate, LinkIter};

/// What a kernel's iterator is called in BTF: a function of this name and that of what it lists.
pub(crate) const FUNCTION: &str = "bpf_iter_";

/// `bpf_seq_write`
const SEQ_WRITE: i32 = 127;

/// How many a step is for.
const STEP: usize = 64;

/// A list that is being read.
#[derive(Debug)]
pub struct Iteration {
    file: File,
    #[expect(dead_code, reason = "it is closed")]
    link: OwnedFd,
}

impl Iteration {
    pub(crate) fn begin(program: &OwnedFd) -> io::Result<Iteration> {
        let mut attributes = LinkIter {
            prog_fd: program.as_raw_fd() as u32,
            attach_type: syscall::TRACE_ITER,
            ..LinkIter::default()
        };
        // SAFETY: the attributes hold no addresses, and the answer is a descriptor.
        let link = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) }?;
        let mut attributes = IterCreate { link_fd: link.as_raw_fd() as u32, flags: 0 };
        // SAFETY: the same.
        let file = unsafe { syscall::open(syscall::ITER_CREATE, &mut attributes) }?;
        Ok(Iteration { file: File::from(file), link })
    }

    /// Runs the program for some more; false when there are no more.
    pub fn step(&mut self) -> io::Result<bool> {
        Ok(self.file.read(&mut [0; STEP])? > 0)
    }
}

const fn insn(opcode: u8, (dst, src): (u8, u8), off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

const LOAD: u8 = class::LDX | mode::MEM | size::DW;
const MOV: u8 = class::ALU64 | alu::MOV;
const MOV_REG: u8 = MOV | source::X;

/// What is in front: `r1` is the context before and after.
const PACE: [Insn; 13] = [
    insn(MOV_REG, (6, 1), 0, 0),
    // `meta`, and of that `seq`.
    insn(LOAD, (1, 6), 0, 0),
    insn(LOAD, (1, 1), 0, 0),
    insn(class::ST | mode::MEM | size::DW, (10, 0), -8, 0),
    insn(MOV_REG, (2, 10), 0, 0),
    insn(class::ALU64 | alu::ADD, (2, 0), 0, -8),
    insn(MOV, (3, 0), 0, 1),
    insn(class::JMP | jmp::CALL, (0, 0), 0, SEQ_WRITE),
    // What the call is for: of the last one nothing.
    insn(LOAD, (1, 6), 8, 0),
    insn(MOV, (0, 0), 0, 0),
    insn(class::JMP | jmp::JNE, (1, 0), 1, 0),
    insn(class::JMP | jmp::EXIT, (0, 0), 0, 0),
    insn(MOV_REG, (1, 6), 0, 0),
];

/// The program, which says for each of its calls that there was one.
pub(crate) fn paced(insns: &[Insn]) -> Vec<Insn> {
    [&PACE, insns].concat()
}
