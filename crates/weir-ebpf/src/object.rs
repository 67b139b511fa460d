//! Programs and the object that holds them with their maps.

use crate::{Insn, MapSpec};

/// What a program is run for; it decides the shape of the context in r1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProgramKind {
    /// r1 is a `struct pt_regs *` (uprobe; the kernel's BPF_PROG_TYPE_KPROBE).
    Probe,
    /// Runs in the controller (BEGIN, END, interval): r1 is a zeroed `pt_regs`.
    Controller,
}

impl ProgramKind {
    pub fn name(self) -> &'static str {
        match self {
            ProgramKind::Probe => "probe",
            ProgramKind::Controller => "controller",
        }
    }
}

/// One program. Map references in `LD_IMM64` are indices into the object's maps (`pseudo::MAP_INDEX*`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Name as in messages: what the user wrote, such as `uprobe:libc:malloc`.
    pub name: String,
    pub kind: ProgramKind,
    pub insns: Vec<Insn>,
}

/// Programs that share maps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    pub maps: Vec<MapSpec>,
    pub programs: Vec<Program>,
}
