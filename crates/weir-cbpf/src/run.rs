//! The reference interpreter: a program and a packet → the value that the program returns.
//!
//! The semantics are those of libpcap 1.10's `bpf_filter`:
//! - all numbers have 32 bits and go round; the packet's are big endian;
//! - a load that is not wholly inside the captured bytes ends the program with 0, and so does one at X + `k` where that
//!   sum has more than 32 bits;
//! - `#pktlen` is the length on the wire;
//! - division by an X of 0 ends the program with 0;
//! - a shift by 32 or more gives 0. (For a constant the C code leaves that to the machine, and libpcap's optimiser
//!   takes it as 0. No filter expression compiles to it.)
//!
//! Beyond `bpf_filter`, which knows two of them: [`ancillary`] loads give facts where a [`Metadata`] says them. Without
//! it they are outside the packet like every offset so large.
//!
//! `ja` may go backwards, so that a program may have no end. Who runs it gets an error after so many instructions.

use std::fmt;

use crate::insn::{alu, class, jmp, mode};
use crate::limits::{MEMWORDS, STEPS_MAX};
use crate::{Insn, Metadata, Program, ancillary};

/// A program that has executed as many instructions as it may, and has not returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endless {
    /// How many.
    pub steps: u64,
}

impl fmt::Display for Endless {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the program has not returned after {} instructions, and is given up", self.steps)
    }
}

impl std::error::Error for Endless {}

/// What `program` returns for the packet that has `wire_len` bytes, of which `packet` was captured.
///
/// ```
/// use weir_cbpf::text::{self, Form};
/// use weir_cbpf::{Machine, check, run};
///
/// // The answer to `tcpdump -d ip`.
/// let text = "(000) ldh [12]\n(001) jeq #0x800 jt 2 jf 3\n(002) ret #262144\n(003) ret #0\n";
/// let program = check(&text::parse(text, Form::Disassembly)?, Machine::Userland)?;
/// let mut packet = [0; 60];
/// assert_eq!(run(&program, &packet, 60, None)?, 0);
/// packet[12] = 8;
/// assert_eq!(run(&program, &packet, 60, None)?, 262144);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(
    program: &Program,
    packet: &[u8],
    wire_len: u32,
    metadata: Option<&Metadata>,
) -> Result<u32, Endless> {
    run_for(program, packet, wire_len, metadata, STEPS_MAX)
}

/// The same, with another bound than [`STEPS_MAX`].
pub fn run_for(
    program: &Program,
    packet: &[u8],
    wire_len: u32,
    metadata: Option<&Metadata>,
    steps_max: u64,
) -> Result<u32, Endless> {
    let mut machine = Registers { packet, wire_len, metadata, a: 0, x: 0, memory: [0; MEMWORDS as usize] };
    let mut at = 0;
    for _ in 0..steps_max {
        let insn = program.insns()[at];
        match machine.step(insn) {
            Some(Next::Skip(distance)) => at = (at as i64 + 1 + distance) as usize,
            Some(Next::Return(value)) => return Ok(value),
            None => return Ok(0),
        }
    }
    Err(Endless { steps: steps_max })
}

struct Registers<'a> {
    packet: &'a [u8],
    wire_len: u32,
    metadata: Option<&'a Metadata>,
    a: u32,
    x: u32,
    memory: [u32; MEMWORDS as usize],
}

/// What comes after an instruction.
enum Next {
    /// The one that is so many after the next one.
    Skip(i64),
    Return(u32),
}

impl Registers<'_> {
    /// None: the program ends with 0.
    fn step(&mut self, insn: Insn) -> Option<Next> {
        match insn.class() {
            class::LD => self.a = self.load(insn)?,
            class::LDX => self.x = self.load(insn)?,
            class::ST => self.memory[insn.k as usize] = self.a,
            class::STX => self.memory[insn.k as usize] = self.x,
            class::ALU => self.a = self.compute(insn)?,
            class::JMP => return Some(Next::Skip(self.jump(insn))),
            class::RET => return Some(Next::Return(if insn.operation() == 0 { insn.k } else { self.a })),
            // MISC: TAX is 0.
            _ if insn.operation() == 0 => self.x = self.a,
            _ => self.a = self.x,
        }
        Some(Next::Skip(0))
    }

    fn load(&self, insn: Insn) -> Option<u32> {
        match insn.mode() {
            mode::IMM => Some(insn.k),
            mode::MEM => Some(self.memory[insn.k as usize]),
            mode::LEN => Some(self.wire_len),
            mode::MSH => Some((self.bytes(insn.k, 1)? & 0xf) * 4),
            mode::ABS => {
                let fact = self.metadata.zip(ancillary::at(insn.k));
                match fact {
                    Some((metadata, row)) => metadata.load(row.meaning, self.a, self.x),
                    None => self.bytes(insn.k, insn.bytes()),
                }
            }
            // IND, the last one that programs have.
            _ => self.bytes(self.x.checked_add(insn.k)?, insn.bytes()),
        }
    }

    fn bytes(&self, offset: u32, bytes: u32) -> Option<u32> {
        let end = offset.checked_add(bytes)?;
        let found = self.packet.get(offset as usize..end as usize)?;
        Some(found.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    fn operand(&self, insn: Insn) -> u32 {
        if insn.uses_x() { self.x } else { insn.k }
    }

    fn compute(&self, insn: Insn) -> Option<u32> {
        let (a, operand) = (self.a, self.operand(insn));
        Some(match insn.operation() {
            alu::ADD => a.wrapping_add(operand),
            alu::SUB => a.wrapping_sub(operand),
            alu::MUL => a.wrapping_mul(operand),
            alu::DIV => a.checked_div(operand)?,
            alu::MOD => a.checked_rem(operand)?,
            alu::OR => a | operand,
            alu::AND => a & operand,
            alu::XOR => a ^ operand,
            alu::LSH => a.checked_shl(operand).unwrap_or(0),
            alu::RSH => a.checked_shr(operand).unwrap_or(0),
            // NEG.
            _ => a.wrapping_neg(),
        })
    }

    /// How many instructions are skipped.
    fn jump(&self, insn: Insn) -> i64 {
        let operand = self.operand(insn);
        let holds = match insn.operation() {
            jmp::JA => return (insn.k as i32).into(),
            jmp::JEQ => self.a == operand,
            jmp::JGT => self.a > operand,
            jmp::JGE => self.a >= operand,
            // JSET.
            _ => self.a & operand != 0,
        };
        if holds { insn.jt.into() } else { insn.jf.into() }
    }
}
