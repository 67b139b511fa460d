//! Instructions → a [`Program`], its only constructor; or the first instruction that is refused, and why.
//!
//! Both machines: the opcode is one of [`opcode::ALL`]; slots of M[] are below 16; no constant divides by 0; every jump
//! ends inside the program; the last instruction is a return.
//!
//! - [`Machine::Userland`], libpcap's `bpf_validate`: `ja` may go backwards. That one also accepts opcodes at which
//!   `bpf_filter` aborts; these are refused here.
//! - [`Machine::Kernel`], Linux's SO_ATTACH_FILTER: at most 4096 instructions, all jumps forward, constant shifts below
//!   32, absolute loads from −0x1000 on name an [`ancillary`] load, and a slot of M[] is stored to before it is
//!   loaded on every path. What comes after a return counts as reached from it, as there; what comes after a jump
//!   does not.
//!
//! Not refused by either: code that is never reached, shifts by an X of 32 or more, division by an X of 0.

use std::fmt;

use crate::insn::{alu, class, jmp, mode};
use crate::limits::{KERNEL_INSNS_MAX, MEMWORDS};
use crate::{Insn, ancillary, opcode, text};

/// Whose rules a program is held to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Machine {
    /// libpcap's interpreter.
    Userland,
    /// Linux's socket filters.
    Kernel,
}

/// Instructions that passed [`check`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Program {
    insns: Vec<Insn>,
}

impl Program {
    /// There is at least one.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }
}

/// Why a program is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// There are no instructions.
    Empty,
    /// There are more than the kernel takes.
    TooLong {
        /// How many.
        insns: usize,
    },
    /// No machine has this code.
    UnknownCode,
    /// A jump that ends outside the program, at this instruction.
    Outside {
        /// Where it would go.
        target: i64,
    },
    /// A backward jump, which the kernel does not take.
    Backward {
        /// Where it would go.
        target: i64,
    },
    /// A slot of M[] that does not exist.
    Slot,
    /// A slot of M[] that is loaded before every path stored to it.
    NotStored,
    /// A constant divisor of 0.
    DivisionByZero,
    /// A constant shift by 32 or more.
    Shift,
    /// An absolute load from −0x1000 on that is no ancillary load.
    Ancillary,
    /// The last instruction is no return.
    NoReturn,
}

/// The first fault of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The instruction's number, from 0.
    pub at: usize,
    /// Its line in a disassembly; nothing where there is no instruction.
    pub text: String,
    /// What is wrong with it.
    pub refusal: Refusal,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = |out: &mut fmt::Formatter<'_>, what: &dyn fmt::Display| write!(out, "{line}: {what}");
        match self.refusal {
            Refusal::Empty => write!(out, "no instructions; a program has at least one, a return"),
            Refusal::TooLong { insns } => {
                write!(out, "{insns} instructions; the kernel takes {KERNEL_INSNS_MAX} at most")
            }
            Refusal::UnknownCode => said(out, &"no instruction has this code"),
            Refusal::Outside { target } => said(out, &format_args!("jumps to {target}, outside the program")),
            Refusal::Backward { target } => {
                said(out, &format_args!("jumps back to {target}; the kernel takes forward jumps alone"))
            }
            Refusal::Slot => said(out, &format_args!("M[] has {MEMWORDS} slots, from 0")),
            Refusal::NotStored => {
                said(out, &"loads a slot that not every path stores to before, as the kernel demands")
            }
            Refusal::DivisionByZero => said(out, &"divides by the constant 0"),
            Refusal::Shift => said(out, &"shifts by a constant that is not below 32"),
            Refusal::Ancillary => said(out, &"from -4096 on are ancillary loads, and this is none of them"),
            Refusal::NoReturn => said(out, &"the last instruction has to be a return"),
        }
    }
}

impl std::error::Error for Refused {}

/// Holds `insns` to the rules of `machine`.
pub fn check(insns: &[Insn], machine: Machine) -> Result<Program, Refused> {
    let refused = |at: usize, refusal| {
        let text = insns.get(at).map(|insn| text::insn_text(*insn, at)).unwrap_or_default();
        Refused { at, text, refusal }
    };
    let Some(last) = insns.last() else { return Err(refused(0, Refusal::Empty)) };
    if machine == Machine::Kernel && insns.len() > KERNEL_INSNS_MAX {
        return Err(refused(insns.len(), Refusal::TooLong { insns: insns.len() }));
    }
    for (at, insn) in insns.iter().enumerate() {
        check_alone(*insn).map_err(|refusal| refused(at, refusal))?;
        check_jumps(*insn, at, insns.len(), machine).map_err(|refusal| refused(at, refusal))?;
        if machine == Machine::Kernel {
            check_for_kernel(*insn).map_err(|refusal| refused(at, refusal))?;
        }
    }
    if last.class() != class::RET {
        return Err(refused(insns.len() - 1, Refusal::NoReturn));
    }
    if machine == Machine::Kernel
        && let Some(at) = loaded_before_stored(insns)
    {
        return Err(refused(at, Refusal::NotStored));
    }
    Ok(Program { insns: insns.to_vec() })
}

/// What no other instruction has a say in.
fn check_alone(insn: Insn) -> Result<(), Refusal> {
    if opcode::by_code(insn.code).is_none() {
        return Err(Refusal::UnknownCode);
    }
    if (loads_slot(insn) || stores_slot(insn)) && insn.k >= MEMWORDS {
        return Err(Refusal::Slot);
    }
    let divides = matches!(insn.operation(), alu::DIV | alu::MOD);
    if insn.class() == class::ALU && divides && !insn.uses_x() && insn.k == 0 {
        return Err(Refusal::DivisionByZero);
    }
    Ok(())
}

fn check_for_kernel(insn: Insn) -> Result<(), Refusal> {
    let shifts = matches!(insn.operation(), alu::LSH | alu::RSH);
    if insn.class() == class::ALU && shifts && !insn.uses_x() && insn.k >= 32 {
        return Err(Refusal::Shift);
    }
    let is_absolute = insn.class() == class::LD && insn.mode() == mode::ABS;
    if is_absolute && insn.k >= ancillary::BASE && ancillary::at(insn.k).is_none() {
        return Err(Refusal::Ancillary);
    }
    Ok(())
}

fn check_jumps(insn: Insn, at: usize, insns: usize, machine: Machine) -> Result<(), Refusal> {
    for target in targets(insn, at) {
        if !(0..insns as i64).contains(&target) {
            return Err(Refusal::Outside { target });
        }
        if machine == Machine::Kernel && target <= at as i64 {
            return Err(Refusal::Backward { target });
        }
    }
    Ok(())
}

/// Where the `at`th instruction jumps to, if it is a jump.
pub(crate) fn targets(insn: Insn, at: usize) -> impl Iterator<Item = i64> {
    let next = at as i64 + 1;
    let always = next + i64::from(insn.k as i32);
    let [taken, other] = [insn.jt, insn.jf].map(|skipped| next + i64::from(skipped));
    let both = match (insn.class(), insn.operation()) {
        (class::JMP, jmp::JA) => [Some(always), None],
        (class::JMP, _) => [Some(taken), Some(other)],
        _ => [None, None],
    };
    both.into_iter().flatten()
}

pub(crate) fn loads_slot(insn: Insn) -> bool {
    matches!(insn.class(), class::LD | class::LDX) && insn.mode() == mode::MEM
}

fn stores_slot(insn: Insn) -> bool {
    matches!(insn.class(), class::ST | class::STX)
}

/// The first load of a slot that some path reaches without a store to it. Jumps go forward.
fn loaded_before_stored(insns: &[Insn]) -> Option<usize> {
    // Bit n: every path that was seen to come to the instruction has stored to M[n].
    let mut stored_at = vec![u16::MAX; insns.len()];
    let mut stored = 0u16;
    for (at, insn) in insns.iter().enumerate() {
        stored &= stored_at[at];
        if stores_slot(*insn) {
            stored |= 1 << insn.k;
        } else if loads_slot(*insn) && stored & 1 << insn.k == 0 {
            return Some(at);
        } else if insn.class() == class::JMP {
            for target in targets(*insn, at) {
                stored_at[target as usize] &= stored;
            }
            stored = u16::MAX;
        }
    }
    None
}
