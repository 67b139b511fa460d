//! The words between IR and eBPF: instructions on virtual registers and memory objects that have no place yet.
//!
//! One [`Inst`] is one eBPF instruction but for `Address` (two), and `Label` and `Touch` (none). Real registers
//! appear only where eBPF fixes them: r0 to r5 around calls, r0 of a compare-and-exchange, r1 at entry.
//! Jumps go forward, but for those of loops: the script's, and what [`crate::lower`] writes inside one operation.

use weir_ebpf::HelperId;
use weir_ebpf::kfunc::KfuncId;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Reg {
    Virtual(u32),
    /// r0 to r10.
    Real(u8),
}

/// r0: results of calls.
pub(crate) const R0: Reg = Reg::Real(0);
/// r10: the frame; read only.
pub(crate) const FRAME: Reg = Reg::Real(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Src {
    Reg(Reg),
    Imm(i32),
}

/// Memory that a program owns: bytes on the stack, or in its slot of scratch memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ObjectId(pub(crate) u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    pub(crate) bytes: u32,
    pub(crate) area: Area,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    Stack,
    Scratch,
}

/// Where a load or store goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Reg(Reg, i32),
    Object(ObjectId, i32),
}

impl Place {
    /// `bytes` further on.
    pub(crate) fn plus(self, bytes: u32) -> Place {
        match self {
            Place::Reg(reg, offset) => Place::Reg(reg, offset + bytes as i32),
            Place::Object(object, offset) => Place::Object(object, offset + bytes as i32),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Label(pub(crate) u32);

/// What is known of some of a function's labels.
#[derive(Debug)]
pub(crate) struct ByLabel<T>(Vec<Option<T>>);

impl<T: Copy> ByLabel<T> {
    /// Of a function with so many labels; nothing is known yet.
    pub(crate) fn new(labels: u32) -> ByLabel<T> {
        ByLabel(vec![None; labels as usize])
    }

    pub(crate) fn set(&mut self, label: Label, to: T) {
        self.0[label.0 as usize] = Some(to);
    }

    pub(crate) fn get(&self, label: Label) -> Option<T> {
        self.0[label.0 as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inst {
    Mov {
        dst: Reg,
        src: Src,
    },
    /// The low 32 bits, zero-extended.
    Mov32 {
        dst: Reg,
        src: Src,
    },
    Const64 {
        dst: Reg,
        value: i64,
    },
    MapRef {
        dst: Reg,
        map: u32,
    },
    /// Address of the one value of an array map.
    MapValue {
        dst: Reg,
        map: u32,
    },
    Address {
        dst: Reg,
        object: ObjectId,
        offset: i32,
    },
    /// `op` is of `insn::alu`; `signed` chooses signed division.
    Alu {
        op: u8,
        signed: bool,
        dst: Reg,
        src: Src,
    },
    Load {
        dst: Reg,
        from: Place,
    },
    /// Zero-extended; `size` is of `insn::size`.
    LoadPart {
        size: u8,
        dst: Reg,
        from: Place,
    },
    /// `size` is of `insn::size`.
    Store {
        size: u8,
        to: Place,
        src: Src,
    },
    /// With `fetch`, `src` becomes the value before.
    AtomicAdd {
        to: Place,
        src: Reg,
        fetch: bool,
    },
    /// Stores `src` if the memory equals r0; r0 becomes the value before.
    CompareExchange {
        to: Place,
        src: Reg,
    },
    Call {
        helper: HelperId,
        args: u8,
    },
    /// A function of the kernel, without arguments.
    CallKernel(KfuncId),
    /// One of weir's own, with so many.
    CallKernelWith {
        function: KfuncId,
        args: u8,
    },
    /// The program that stands behind this one ([`crate::Callee`]), with the context in r1.
    CallProgram,
    Jump(Label),
    /// `op` is of `insn::jmp`.
    Branch {
        op: u8,
        a: Reg,
        b: Src,
        to: Label,
    },
    /// `may_goto`: jumps when the run has used up its rounds.
    MayGoto(Label),
    Label(Label),
    /// The object is still wanted here.
    Touch(ObjectId),
    Exit,
}

/// How an instruction uses a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
    /// Read, then written.
    Both,
}

impl Inst {
    /// Calls `see` with each register; it may change those that are virtual. Fixed registers of calls and of
    /// compare-and-exchange are seen too, reads before writes.
    pub(crate) fn for_each_reg(&mut self, mut see: impl FnMut(&mut Reg, Use)) {
        let mut fixed = |register: u8, how| see(&mut Reg::Real(register), how);
        match self {
            Inst::Call { args, .. } | Inst::CallKernelWith { args, .. } => {
                (1..=*args).for_each(|register| fixed(register, Use::Read));
                (0..=5).for_each(|register| fixed(register, Use::Write));
            }
            Inst::CallProgram => {
                fixed(1, Use::Read);
                (0..=5).for_each(|register| fixed(register, Use::Write));
            }
            Inst::CallKernel(_) => (0..=5).for_each(|register| fixed(register, Use::Write)),
            Inst::CompareExchange { to, src } => {
                see_place(to, &mut see);
                see(src, Use::Read);
                see(&mut Reg::Real(0), Use::Both);
            }
            Inst::Exit => fixed(0, Use::Read),
            Inst::Mov { dst, src } | Inst::Mov32 { dst, src } => {
                see_src(src, &mut see);
                see(dst, Use::Write);
            }
            Inst::Const64 { dst, .. }
            | Inst::MapRef { dst, .. }
            | Inst::MapValue { dst, .. }
            | Inst::Address { dst, .. } => see(dst, Use::Write),
            Inst::Alu { dst, src, .. } => {
                see_src(src, &mut see);
                see(dst, Use::Both);
            }
            Inst::Load { dst, from } | Inst::LoadPart { dst, from, .. } => {
                see_place(from, &mut see);
                see(dst, Use::Write);
            }
            Inst::Store { to, src, .. } => {
                see_place(to, &mut see);
                see_src(src, &mut see);
            }
            Inst::AtomicAdd { to, src, fetch } => {
                see_place(to, &mut see);
                see(src, if *fetch { Use::Both } else { Use::Read });
            }
            Inst::Branch { a, b, .. } => {
                see(a, Use::Read);
                see_src(b, &mut see);
            }
            Inst::Jump(_) | Inst::MayGoto(_) | Inst::Label(_) | Inst::Touch(_) => {}
        }
    }

    /// It may change r0 to r5.
    pub(crate) fn is_call(&self) -> bool {
        matches!(
            self,
            Inst::Call { .. } | Inst::CallKernel(_) | Inst::CallKernelWith { .. } | Inst::CallProgram
        )
    }

    /// The object it names.
    pub(crate) fn object(&self) -> Option<ObjectId> {
        match self {
            Inst::Address { object, .. }
            | Inst::Touch(object)
            | Inst::Load { from: Place::Object(object, _), .. }
            | Inst::LoadPart { from: Place::Object(object, _), .. }
            | Inst::Store { to: Place::Object(object, _), .. }
            | Inst::AtomicAdd { to: Place::Object(object, _), .. }
            | Inst::CompareExchange { to: Place::Object(object, _), .. } => Some(*object),
            _ => None,
        }
    }

    /// The register it writes, if that is all it does.
    pub(crate) fn only_writes(&self) -> Option<Reg> {
        match self {
            Inst::Mov { dst, .. }
            | Inst::Mov32 { dst, .. }
            | Inst::Const64 { dst, .. }
            | Inst::MapRef { dst, .. }
            | Inst::MapValue { dst, .. }
            | Inst::Address { dst, .. }
            | Inst::Alu { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::LoadPart { dst, .. } => Some(*dst),
            _ => None,
        }
    }

    pub(crate) fn target(&self) -> Option<Label> {
        match self {
            Inst::Jump(to) | Inst::MayGoto(to) | Inst::Branch { to, .. } => Some(*to),
            _ => None,
        }
    }
}

fn see_src(src: &mut Src, see: &mut impl FnMut(&mut Reg, Use)) {
    if let Src::Reg(reg) = src {
        see(reg, Use::Read);
    }
}

fn see_place(place: &mut Place, see: &mut impl FnMut(&mut Reg, Use)) {
    if let Place::Reg(reg, _) = place {
        see(reg, Use::Read);
    }
}
