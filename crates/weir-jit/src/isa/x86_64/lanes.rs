//! Values of per-CPU maps, where runs claim no lane (see [`crate::isa::x86_64::claim`]): a pointer into one is the element's address
//! in lane 0, and each access adds its lane. They are changed by atomic operations without result, and nothing else.
//!
//! With rseq (Linux, include/uapi/linux/rseq.h) a change goes to the CPU's own lane, without `lock`:
//!
//! ```text
//! again: lea    descriptor(%rip), %r11
//!        mov    %r11, %fs:rseq_cs
//! start: mov    %fs:cpu_id, %r11d
//!        cmp    $cpus, %r11d
//!        jae    slow                      # no rseq in this thread, or a CPU without a lane
//!        shl    $log2(stride), %r11
//!        addq   $1, (%rax,%r11)           # the commit: one instruction, the last of the section
//! end:   movq   $0, %fs:rseq_cs           # so that the code may be unmapped some day
//! ```
//!
//! A thread that is preempted, migrated or signalled in `start..end` goes on at the abort handler, behind the
//! signature, and from there to `again`: until the commit nothing but scratch registers has changed. `slow`
//! does the same with `lock` on the shared lane. Without rseq everything does.
//!
//! In neutral mode an addition changes no flag: the bound is checked with `lea`, `rorx` and `jrcxz`, the sum
//! made with `lea`, and the slow path saves the flags in rax. It costs rcx as a third register.
//!
//! Guaranteed: a CPU's lane is written only inside a section, the shared lane only by atomic instructions.
//! Not guaranteed: that two accesses of one program meet the same lane.

use weir_rt::executable::LanePolicy;

use crate::JitError;
use crate::front::lir::{At, AtomicOp, Base, Operand};
use crate::isa::x86_64::assembler::Label;
use crate::isa::x86_64::atomics::{machine_op, machine_op_imm};
use crate::isa::x86_64::emitter::{Change, Cold, ColdCode, Emitter, phys, width};
use crate::isa::x86_64::encode::{self, Cond, Mem, Plain, Reg, Width};

/// Offsets in `struct rseq`.
pub(crate) const RSEQ_CPU_ID: i32 = 4;
pub(crate) const RSEQ_CS: i32 = 8;

impl Emitter<'_> {
    pub(crate) fn lane_change(
        &mut self,
        map: u32,
        op: AtomicOp,
        wide: bool,
        at: At,
        src: Operand,
    ) -> Result<(), JitError> {
        let stride = self.stride(map)?;
        let change = Change { op, wide, src, base: base(at), offset: at.offset, stride, neutral: false };
        match self.input.abi.lanes {
            LanePolicy::Shared => self.shared_lane(change),
            LanePolicy::Rseq { offset, signature } => {
                let neutral = self.can_be_neutral(change);
                self.section(Change { neutral, ..change }, offset, signature);
            }
            LanePolicy::Claimed { .. } => unreachable!("a claimed lane is in the pointer"),
        }
        Ok(())
    }

    /// The change on the shared lane: out of line behind a section, or all there is.
    pub(crate) fn shared_lane(&mut self, change: Change) {
        let Change { op, wide, src, .. } = change;
        let mem = self.shared_mem(change.base, change.offset, change.stride);
        if change.neutral {
            self.locked_add_neutral(wide, mem, src);
        } else {
            self.atomic(op, false, wide, mem, src);
        }
    }

    fn section(&mut self, change: Change, rseq: i32, signature: u32) {
        let [again, start, end, abort, slow, cleanup] = std::array::from_fn(|_| self.asm.label());
        let section = self.asm.section(start, end, abort);
        self.asm.bind(again);
        self.asm.lea_section(Reg::R11, section);
        self.asm.op(encode::Op::Store, Width::W64, Reg::R11, Mem::fs(rseq + RSEQ_CS));
        // The section starts right behind the store: a signal between the two would clear what was stored.
        self.asm.bind(start);
        self.asm.op(encode::Op::Load, Width::W32, Reg::R11, Mem::fs(rseq + RSEQ_CPU_ID));
        self.check_lane(change.neutral, slow);
        self.scale_lane(change.stride, change.neutral);
        let lane = Mem::indexed(change.base, Reg::R11, 0, change.offset);
        self.commit(change, lane, end);
        self.asm.bind(cleanup);
        self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::fs(rseq + RSEQ_CS), 0);

        let from = self.now;
        let what = ColdCode::SharedLane(change);
        self.cold.push(Cold { from, entry: slow, back: cleanup, what });
        self.cold.push(Cold { from, entry: abort, back: again, what: ColdCode::Abort { signature } });
    }

    /// Goes to `slow` unless the CPU number in r11 has a lane. Neutral: rcx is free.
    fn check_lane(&mut self, neutral: bool, slow: Label) {
        let cpus = self.input.abi.cpus as i32;
        if neutral {
            // cpu_id − cpus is negative, its top byte 0xff, exactly if the CPU has a lane.
            self.asm.op(encode::Op::Lea, Width::W64, Reg::Rcx, Mem::base(Reg::R11, -cpus));
            self.asm.rorx(true, Reg::Rcx, Reg::Rcx, 56);
            self.asm.op(encode::Op::Movzx8, Width::W32, Reg::Rcx, Reg::Rcx);
            self.asm.jump_if_rcx_zero(slow);
        } else {
            self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::R11, cpus);
            self.asm.jump_if(Cond::AboveOrEqual, slow);
        }
    }

    /// r11 = CPU number × stride.
    fn scale_lane(&mut self, stride: u64, neutral: bool) {
        let bits = stride.trailing_zeros() as u8;
        if !stride.is_power_of_two() {
            // SANITY: `stride` refused what does not fit.
            let stride = i32::try_from(stride).expect("stride was checked");
            self.asm.imul_imm(Width::W64, Reg::R11, Reg::R11, stride);
        } else if neutral {
            // The upper bits are 0, so turning is shifting.
            self.asm.rorx(true, Reg::R11, Reg::R11, 64 - bits);
        } else {
            self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::R11, i32::from(bits));
        }
    }

    /// The last instructions of the section, then `end`. May use r10, and rcx if neutral.
    fn commit(&mut self, change: Change, lane: Mem, end: Label) {
        let width = width(change.wide);
        match change.src {
            _ if change.neutral => self.sum_neutral(width, lane, change.src),
            Operand::Imm(imm) => self.asm.op_imm(machine_op_imm(change.op), width, lane, imm),
            src => {
                let src = self.in_register(src, Reg::R10);
                self.asm.op(machine_op(change.op), width, src, lane);
            }
        }
        self.asm.bind(end);
    }

    /// Load, add and store; only the store changes memory, so it is the commit.
    fn sum_neutral(&mut self, width: Width, lane: Mem, src: Operand) {
        self.asm.op(encode::Op::Load, width, Reg::Rcx, lane);
        let sum = match src {
            Operand::Imm(imm) => Mem::base(Reg::Rcx, imm),
            src => Mem::indexed(Reg::Rcx, self.in_register(src, Reg::R10), 0, 0),
        };
        self.asm.op(encode::Op::Lea, width, Reg::Rcx, sum);
        self.asm.op(encode::Op::Store, width, Reg::Rcx, lane);
    }

    /// `lock add` between saving the flags in rax and restoring them; rax itself waits in rcx.
    fn locked_add_neutral(&mut self, wide: bool, mem: Mem, src: Operand) {
        // The address must not need rax.
        self.asm.op(encode::Op::Lea, Width::W64, Reg::R11, mem);
        let mem = Mem::base(Reg::R11, 0);
        let before = self.asm.clobbers_flags();
        self.asm.mov(Width::W64, Reg::Rcx, Reg::Rax);
        self.asm.op_one(encode::Op::SetO, Width::W8, Reg::Rax);
        self.asm.plain(Plain::Lahf);
        match src {
            Operand::Imm(imm) => self.asm.lock_op_imm(encode::Op::AddImm, width(wide), mem, imm),
            _ => {
                let src = match self.in_register(src, Reg::R10) {
                    Reg::Rax => Reg::Rcx,
                    src => src,
                };
                self.asm.lock_op(encode::Op::Add, width(wide), src, mem);
            }
        }
        // 0x7f + 1 overflows, 0x7f + 0 does not.
        self.asm.op_imm(encode::Op::AddImm, Width::W8, Reg::Rax, 0x7f);
        self.asm.plain(Plain::Sahf);
        self.asm.mov(Width::W64, Reg::Rax, Reg::Rcx);
        self.asm.flags_restored(before);
    }

    /// The place in the shared lane; may use r9.
    fn shared_mem(&mut self, base: Reg, offset: i32, stride: u64) -> Mem {
        let distance = stride * u64::from(self.input.abi.cpus);
        let near = i64::try_from(distance).ok().and_then(|distance| distance.checked_add(i64::from(offset)));
        if let Some(disp) = near.and_then(|disp| i32::try_from(disp).ok()) {
            return Mem::base(base, disp);
        }
        self.asm.mov_value(Reg::R9, distance);
        self.asm.op(encode::Op::Lea, Width::W64, Reg::R9, Mem::indexed(Reg::R9, base, 0, 0));
        Mem::base(Reg::R9, offset)
    }

    fn can_be_neutral(&self, change: Change) -> bool {
        let rcx = Reg::Rcx;
        let reads_rcx = change.base == rcx || matches!(change.src, Operand::Reg(src) if phys(src) == rcx);
        self.input.neutral
            && self.input.abi.bmi2
            && change.op == AtomicOp::Add
            && change.stride.is_power_of_two()
            && !reads_rcx
            && !self.is_live_after(rcx)
    }

    /// The map's lane stride, if the forms above can reach every lane.
    fn stride(&self, map: u32) -> Result<u64, JitError> {
        let stride = self.input.places[map as usize].lane_stride;
        let reachable = stride.is_power_of_two() || i32::try_from(stride).is_ok();
        let total = stride.checked_mul(u64::from(self.input.abi.cpus) + 1);
        match total {
            Some(total) if reachable && i64::try_from(total).is_ok() => Ok(stride),
            _ => Err(JitError::MapTooLarge { index: map }),
        }
    }
}

/// The register that points into the map.
fn base(at: At) -> Reg {
    match at.base {
        Base::Reg { reg, .. } => phys(reg),
        Base::Indexed { .. } => unreachable!("no pass folds addresses into per-CPU accesses"),
        Base::Stack | Base::Context => unreachable!("a per-CPU value is not on the stack or in the context"),
    }
}
