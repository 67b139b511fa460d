//! Records in the ring of the CPU (weir-rt's `segment/ring.rs` reads them): reserved and submitted without a call, without
//! `lock`.
//!
//! A record is its time, its header (size in the upper half; used, busy, discarded) and its payload, in all a multiple of
//! 16 bytes. The tail says how far there are records; only code on this CPU moves it, inside a restartable section (see
//! [`crate::lanes`]) that ends with that store:
//!
//! ```text
//! again: lea    descriptor(%rip), %r11
//!        mov    %r11, %fs:rseq_cs
//! start: mov    %fs:cpu_id, %r11d
//!        cmp    $cpus, %r11d
//!        jae    slow                      # no rseq in this thread, or a CPU without a ring
//!        imul   $stride, %r11
//!        add    %r8, %r11                 # the ring's control block; its data is behind it
//! look:  mov    (%r11), %rsi              # the tail
//!        mov    %rsi, %rdi
//!        mov    consumer(%r11), %rdx
//!        sub    %rdx, %rdi
//!        cmp    $(bytes - need), %rdi
//!        ja     full
//!        mov    %esi, %ecx
//!        and    $(bytes - 16), %ecx       # the place in the data
//!        cmp    $(bytes - need), %ecx
//!        jbe    fits
//!        …                                # a discarded record up to the end of the data
//!        jmp    look
//! fits:  rdtsc
//!        mov    rdx:rax, data(%r11,%rcx)
//!        mov    $header, data+8(%r11,%rcx)
//!        add    $need, %rsi
//!        mov    %rsi, (%r11)              # the commit
//! end:   movq   $0, %fs:rseq_cs
//!        lea    data+16(%r11,%rcx), %rax
//!        …                                # zeros
//! ```
//!
//! What is written before the commit lies beyond the tail, where nobody reads, and where the next reservation on the CPU
//! writes again. So:
//! - every byte below the tail belongs to a record with a length, whoever dies: a thread that is killed before the commit
//!   has done nothing, behind it a record that is not submitted, and can be stepped over;
//! - nobody waits, and a run in a signal handler, or of another thread, between any two instructions, reserves its own;
//! - the counter is read in the section, so in the order of reservations: on one CPU time stamps never fall;
//! - once reserved, the record is this run's wherever it goes on. It is submitted by one store of a byte, its last.
//!
//! `slow` calls the helper, which takes the ring that all share. `full` counts the record as lost, with `lock`.

use weir_ebpf::{MapSpec, helper};
use weir_rt::abi::{CONTROL_BYTES, control, record};
use weir_rt::executable::{LanePolicy, SiteAbi, Symbol};
use weir_rt::segment::Filter;

use crate::assembler::Label;
use crate::emit::{CALLER_SAVED, Cold, ColdCode, Emitter};
use crate::lanes::{RSEQ_CPU_ID, RSEQ_CS};
use crate::places::MapPlace;
use crate::x64::{self, Cond, Mem, Plain, Reg, Width};

/// Bytes before a payload, and what the bytes of a record are a multiple of.
const HEAD_BYTES: u64 = 16;
/// Where the data begins behind the control block, and in it the header of the first record.
const DATA: i32 = CONTROL_BYTES as i32;
const HEADER: i32 = DATA + 8;
/// Words that are made zero one by one; more of them in a loop.
const ZEROS_MAX: u32 = 16;

/// A reservation of so many bytes in the rings of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    pub(crate) map: u32,
    pub(crate) size: u32,
    /// Bytes of one ring, and from one to the next.
    bytes: u32,
    stride: i32,
    rseq: i32,
    signature: u32,
}

impl Reservation {
    /// None where the helper is to be called: the map has one ring for all, the site no restartable sections or no
    /// counter to read, or the record is larger than a ring.
    pub(crate) fn new(
        index: u32,
        map: &MapSpec,
        place: &MapPlace,
        size: u64,
        abi: &SiteAbi,
    ) -> Option<Reservation> {
        let LanePolicy::Rseq { offset: rseq, signature } = abi.lanes else { return None };
        let bytes = place.elem_stride;
        let fits = size.checked_add(HEAD_BYTES).is_some_and(|need| need <= u64::from(bytes));
        let stride = i32::try_from(place.lane_stride).ok()?;
        (map.has_rings_per_cpu() && abi.reads_ticks && fits).then_some(Reservation {
            map: index,
            size: size as u32,
            bytes,
            stride,
            rseq,
            signature,
        })
    }

    /// Bytes of the record.
    fn need(self) -> i32 {
        // LIMIT: RING_BYTES_MAX.
        (u64::from(self.size) + HEAD_BYTES).next_multiple_of(HEAD_BYTES) as i32
    }

    /// Most bytes, in use or before the record, with which it fits.
    fn most(self) -> i32 {
        self.bytes as i32 - self.need()
    }
}

impl Emitter<'_> {
    /// rax = address of the payload, which is zero; or 0. Takes what a helper may.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        let Reservation { map, bytes, stride, rseq, signature, .. } = reservation;
        let [again, start, look, fits, end, done] = std::array::from_fn(|_| self.asm.label());
        let [abort, slow, full] = std::array::from_fn(|_| self.asm.label());
        let section = self.asm.section(start, end, abort);
        let tail = Mem::base(Reg::R11, control::FREE_OR_PRODUCER as i32);

        self.asm.mov_symbol(Reg::Rcx, Symbol::Filter, 0);
        self.asm.op_imm(x64::Op::CmpImm, Width::W32, Mem::base(Reg::Rcx, 0), Filter::STRICT as i32);
        self.asm.jump_if(Cond::Equal, slow);
        self.asm.mov_symbol(Reg::R8, Symbol::MapData(map), -i64::from(DATA));
        self.asm.bind(again);
        self.asm.lea_section(Reg::R11, section);
        self.asm.op(x64::Op::Store, Width::W64, Reg::R11, Mem::fs(rseq + RSEQ_CS));
        self.asm.bind(start);
        self.asm.op(x64::Op::Load, Width::W32, Reg::R11, Mem::fs(rseq + RSEQ_CPU_ID));
        self.asm.op_imm(x64::Op::CmpImm, Width::W32, Reg::R11, self.input.abi.cpus as i32);
        self.asm.jump_if(Cond::AboveOrEqual, slow);
        self.asm.imul_imm(Width::W64, Reg::R11, Reg::R11, stride);
        self.asm.op(x64::Op::Add, Width::W64, Reg::R8, Reg::R11);
        self.asm.bind(look);
        self.asm.op(x64::Op::Load, Width::W64, Reg::Rsi, tail);
        self.asm.mov(Width::W64, Reg::Rdi, Reg::Rsi);
        self.asm.op(
            x64::Op::Load,
            Width::W64,
            Reg::Rdx,
            Mem::base(Reg::R11, control::SPARE_OR_CONSUMER as i32),
        );
        self.asm.op(x64::Op::Sub, Width::W64, Reg::Rdx, Reg::Rdi);
        // A tail that nothing made but a corrupted segment looks like a full ring.
        self.asm.op_imm(x64::Op::CmpImm, Width::W64, Reg::Rdi, reservation.most());
        self.asm.jump_if(Cond::Above, full);
        self.asm.mov(Width::W32, Reg::Rcx, Reg::Rsi);
        self.asm.op_imm(x64::Op::AndImm, Width::W32, Reg::Rcx, bytes as i32 - HEAD_BYTES as i32);
        self.asm.op_imm(x64::Op::CmpImm, Width::W32, Reg::Rcx, reservation.most());
        self.asm.jump_if(Cond::BelowOrEqual, fits);
        self.fill_lap(reservation, tail, look);
        self.asm.bind(fits);
        self.asm.plain(Plain::Rdtsc);
        self.asm.op_imm(x64::Op::ShlImm, Width::W64, Reg::Rdx, 32);
        self.asm.op(x64::Op::Or, Width::W64, Reg::Rdx, Reg::Rax);
        self.asm.op(x64::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, DATA));
        let header = u64::from(reservation.size) << record::SIZE_SHIFT | record::BUSY | record::USED;
        self.asm.mov_value(Reg::Rax, header);
        self.asm.op(x64::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER));
        self.asm.op_imm(x64::Op::AddImm, Width::W64, Reg::Rsi, reservation.need());
        self.asm.op(x64::Op::Store, Width::W64, Reg::Rsi, tail);
        self.asm.bind(end);
        self.asm.op_imm(x64::Op::MovImm, Width::W64, Mem::fs(rseq + RSEQ_CS), 0);
        self.asm.op(x64::Op::Lea, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER + 8));
        self.zero(reservation.size.div_ceil(8));
        self.asm.bind(done);

        let from = self.now;
        let what = ColdCode::SharedRing(reservation);
        self.cold.push(Cold { from, entry: slow, back: done, what });
        self.cold.push(Cold { from, entry: full, back: done, what: ColdCode::FullRing(reservation) });
        self.cold.push(Cold { from, entry: abort, back: again, what: ColdCode::Abort { signature } });
    }

    /// A discarded record from the place in rcx to the end of the data, which fits where a larger one does. It is a commit
    /// of its own: a run that is restarted behind it looks again as this one does.
    fn fill_lap(&mut self, reservation: Reservation, tail: Mem, look: Label) {
        self.asm.mov_value(Reg::Rdx, reservation.bytes.into());
        self.asm.op(x64::Op::Sub, Width::W64, Reg::Rcx, Reg::Rdx);
        self.asm.op(x64::Op::Lea, Width::W64, Reg::Rax, Mem::base(Reg::Rdx, -(HEAD_BYTES as i32)));
        self.asm.op_imm(x64::Op::ShlImm, Width::W64, Reg::Rax, record::SIZE_SHIFT as i32);
        self.asm.op_imm(x64::Op::OrImm, Width::W64, Reg::Rax, (record::DISCARD | record::USED) as i32);
        self.asm.op(x64::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER));
        self.asm.op(x64::Op::Add, Width::W64, Reg::Rdx, Reg::Rsi);
        self.asm.op(x64::Op::Store, Width::W64, Reg::Rsi, tail);
        self.asm.jump(look);
    }

    /// Zeros in so many words from rax on; may use rcx.
    fn zero(&mut self, words: u32) {
        if words <= ZEROS_MAX {
            for n in 0..words as i32 {
                self.asm.op_imm(x64::Op::MovImm, Width::W64, Mem::base(Reg::Rax, 8 * n), 0);
            }
            return;
        }
        let next = self.asm.label();
        let bytes = 8 * words as i32;
        self.asm.mov_value(Reg::Rcx, i64::from(-bytes) as u64);
        self.asm.bind(next);
        self.asm.op_imm(x64::Op::MovImm, Width::W64, Mem::indexed(Reg::Rax, Reg::Rcx, 0, bytes), 0);
        self.asm.op_imm(x64::Op::AddImm, Width::W64, Reg::Rcx, 8);
        self.asm.jump_if(Cond::NotEqual, next);
    }

    /// The thread has no CPU's ring, or may not read the counter.
    pub(crate) fn shared_ring(&mut self, reservation: Reservation) {
        self.leave_section(reservation);
        self.asm.mov_symbol(Reg::Rdi, Symbol::Map(reservation.map), 0);
        self.asm.mov_value(Reg::Rsi, reservation.size.into());
        self.asm.mov_value(Reg::Rdx, 0);
        self.asm.call_symbol(Symbol::Helper(helper::RINGBUF_RESERVE), CALLER_SAVED);
    }

    /// There is no room in the ring whose control block is at r11.
    pub(crate) fn full_ring(&mut self, reservation: Reservation) {
        self.leave_section(reservation);
        let dropped = Mem::base(Reg::R11, control::DROPPED as i32);
        self.asm.lock_op_imm(x64::Op::AddImm, Width::W64, dropped, 1);
        self.asm.op(x64::Op::Xor, Width::W32, Reg::Rax, Reg::Rax);
    }

    fn leave_section(&mut self, reservation: Reservation) {
        self.asm.op_imm(x64::Op::MovImm, Width::W64, Mem::fs(reservation.rseq + RSEQ_CS), 0);
    }

    /// The record in rdi is whole, or (`is_discard`) nothing: of its header only the size stays and what it is now.
    pub(crate) fn finish_record(&mut self, is_discard: bool) {
        let state = record::USED | if is_discard { record::DISCARD } else { 0 };
        self.asm.op_imm(x64::Op::MovImm, Width::W8, Mem::base(Reg::Rdi, -8), state as i32);
    }
}
