//! Per-CPU values on a lane that the run has alone: claimed at entry, given back at every exit.
//!
//! A pointer into a per-CPU map is then in that lane already, so that loads, stores, atomic operations and helpers take
//! it like any other:
//!
//! ```text
//!        mov    %fs:cpu_id, %r12d         # or lsl, in a process without rseq; or straight to another
//!        cmp    $cpus, %r12d
//!        jae    another
//!        mov    %r12d, %r11d
//!        shl    $6, %r11                  # a claim is a cache line
//!        movabs $claims, %r10
//!        add    %r10, %r11
//!        mov    %fs:tid, %r10d            # whose claim it is, where that is known without a system call
//!        lea    0x80000000(%r10), %r10d
//!        xor    %eax, %eax
//!        lock cmpxchg %r10, (%r11)
//!        jne    another
//! have:  shl    $32, %r12                 # for the rest of the run: its lane is r12 >> 32
//! ```
//!
//! `another` asks the runtime for another lane: the run interrupted one on this CPU, or was preempted in the middle of
//! the above. Where none is free, the run ends there with r0 = 0, counted.
//!
//! The claim is a plain word of the segment: no section, no register of the thread. So it holds across preemption,
//! migration and signal handlers, whose own runs take another lane. A child that a signal handler forks in the middle
//! of a run has the parent's lane until that run ends.
//!
//! Not here: who frees the lane of a thread that never came to the exit (weir-rt).

use weir_rt::abi::{CLAIM_STRIDE, CLAIM_TAKEN};
use weir_rt::executable::{CpuSource, LanePolicy, RuntimeFunction, Symbol, TidSource};
use weir_rt::limits::CLAIM_SPARE_LANES;

use crate::JitError;
use crate::front::lir::InLane;
use crate::isa::x86_64::assembler::Label;
use crate::isa::x86_64::emitter::{CALLER_SAVED, Cold, ColdCode, Emitter, RUN, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};

/// Offset of the CPU's number in `struct rseq`.
const RSEQ_CPU_ID: i32 = 4;
/// The segment selector whose limit is node << 12 | CPU (see `weir_get_smp_processor_id`).
const CPU_SELECTOR: u64 = 0x7b;
const CPU_MASK: i32 = 0xfff;

impl Emitter<'_> {
    /// Claims the lane of this CPU. At entry nothing is in registers.
    pub(crate) fn claim(&mut self) {
        let [another, have] = std::array::from_fn(|_| self.asm.label());
        match self.input.abi.lanes {
            LanePolicy::Claimed { cpu: CpuSource::Rseq { offset, .. } } => {
                self.asm.op(encode::Op::Load, Width::W32, RUN, Mem::fs(offset + RSEQ_CPU_ID));
                self.claim_of_cpu(another);
            }
            LanePolicy::Claimed { cpu: CpuSource::Runtime } => self.asm.jump(another),
            _ => {
                self.asm.mov_value(RUN, CPU_SELECTOR);
                self.asm.op(encode::Op::Lsl, Width::W32, RUN, RUN);
                self.asm.op_imm(encode::Op::AndImm, Width::W32, RUN, CPU_MASK);
                self.claim_of_cpu(another);
            }
        }
        self.asm.bind(have);
        self.asm.op_imm(encode::Op::ShlImm, Width::W64, RUN, 32);
        self.cold.push(Cold { from: self.now, entry: another, back: have, what: ColdCode::Claim });
    }

    /// Claims the lane of the CPU that RUN names, or goes to `another`.
    fn claim_of_cpu(&mut self, another: Label) {
        // A thread without rseq has a negative number.
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, RUN, self.input.abi.cpus as i32);
        self.asm.jump_if(Cond::AboveOrEqual, another);
        self.asm.mov(Width::W32, Reg::R11, RUN);
        self.claim_word();
        self.owner(Reg::R10);
        self.asm.op(encode::Op::Xor, Width::W32, Reg::Rax, Reg::Rax);
        self.asm.lock_op(encode::Op::Cmpxchg, Width::W64, Reg::R10, Mem::base(Reg::R11, 0));
        self.asm.jump_if(Cond::NotEqual, another);
    }

    /// Any lane, or the end of the run.
    pub(crate) fn claim_another(&mut self) {
        let lanes = self.input.abi.cpus + CLAIM_SPARE_LANES;
        self.asm.mov_symbol(Reg::Rdi, Symbol::Claims, 0);
        self.asm.mov_value(Reg::Rsi, self.input.abi.cpus.into());
        self.asm.mov_value(Reg::Rdx, lanes.into());
        self.owner(Reg::Rcx);
        self.asm.call_symbol(Symbol::Runtime(RuntimeFunction::LaneClaim), CALLER_SAVED);
        self.asm.mov(Width::W32, RUN, Reg::Rax);
        self.asm.op(encode::Op::Test, Width::W64, Reg::Rax, Reg::Rax);
        let have = self.asm.label();
        self.asm.jump_if(Cond::GreaterOrEqual, have);
        self.asm.op(encode::Op::Xor, Width::W32, Reg::Rax, Reg::Rax);
        self.unwind();
        self.asm.bind(have);
    }

    /// Gives the lane back: nothing before the store may be later than it, which x86 keeps.
    pub(crate) fn release(&mut self) {
        self.lane(Reg::R11);
        self.claim_word();
        self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::base(Reg::R11, 0), 0);
    }

    /// `dst = data of the map in the run's lane + addend`.
    pub(crate) fn in_lane(&mut self, dst: Reg, map: u32, addend: i64) -> Result<(), JitError> {
        self.asm.mov_symbol(dst, Symbol::MapData(map), addend);
        self.add_lane(dst, map)
    }

    /// Moves a pointer from lane 0 to the run's; may use r11.
    pub(crate) fn add_lane(&mut self, pointer: Reg, map: u32) -> Result<(), JitError> {
        let stride = i32::try_from(self.input.places[map as usize].lane_stride)
            .map_err(|_| JitError::MapTooLarge { index: map })?;
        self.lane(Reg::R11);
        self.asm.imul_imm(Width::W64, Reg::R11, Reg::R11, stride);
        self.asm.op(encode::Op::Lea, Width::W64, pointer, Mem::indexed(pointer, Reg::R11, 0, 0));
        Ok(())
    }

    /// Calls a helper's function, which may have to do with a lane.
    pub(crate) fn helper(&mut self, symbol: Symbol, in_lane: InLane) -> Result<(), JitError> {
        let done = self.asm.label();
        match in_lane {
            InLane::Argument(register) => self.lane(phys(register)),
            InLane::Always(register, lane) => self.asm.mov_value(phys(register), lane.into()),
            // In the kernel a run stays on its CPU; here it keeps that of its lane. Spare lanes have none.
            InLane::Cpu => {
                self.lane(Reg::Rax);
                self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::Rax, self.input.abi.cpus as i32);
                self.asm.jump_if(Cond::Below, done);
            }
            // A thread without rseq has a negative number.
            InLane::ThreadsCpu(rseq) => {
                self.asm.op(encode::Op::Load, Width::W32, Reg::Rax, Mem::fs(rseq + RSEQ_CPU_ID));
                self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::Rax, self.input.abi.cpus as i32);
                self.asm.jump_if(Cond::Below, done);
            }
            InLane::No | InLane::LookUp(_) => {}
        }
        self.asm.call_symbol(symbol, CALLER_SAVED);
        if let InLane::LookUp(map) = in_lane {
            self.asm.op(encode::Op::Test, Width::W64, Reg::Rax, Reg::Rax);
            self.asm.jump_if(Cond::Equal, done);
            self.add_lane(Reg::Rax, map)?;
        }
        self.asm.bind(done);
        Ok(())
    }

    /// `dst = lane of the run`.
    pub(crate) fn lane(&mut self, dst: Reg) {
        self.asm.mov(Width::W64, dst, RUN);
        self.asm.op_imm(encode::Op::ShrImm, Width::W64, dst, 32);
    }

    /// `r11 = address of the claim of lane r11`; may use r10.
    fn claim_word(&mut self) {
        self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::R11, CLAIM_STRIDE.trailing_zeros() as i32);
        self.asm.mov_symbol(Reg::R10, Symbol::Claims, 0);
        self.asm.op(encode::Op::Add, Width::W64, Reg::R10, Reg::R11);
    }

    /// `dst = what a claim of this thread holds`.
    fn owner(&mut self, dst: Reg) {
        match self.input.abi.tid {
            TidSource::ThreadControlBlock { offset } => {
                self.asm.op(encode::Op::Load, Width::W32, dst, Mem::fs(offset));
                self.asm.op(encode::Op::Lea, Width::W32, dst, Mem::base(dst, CLAIM_TAKEN as i32));
            }
            TidSource::Syscall => self.asm.mov_value(dst, CLAIM_TAKEN.into()),
        }
    }
}
