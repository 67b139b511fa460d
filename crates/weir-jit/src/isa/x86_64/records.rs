//! Records in the ring of the CPU (weir-rt's `segment/ring.rs` reads them): reserved and submitted without a call, without
//! `lock`.
//!
//! A record is its time, its header (size in the upper half; used, busy, discarded; while it is busy, the thread's id, where
//! that stands in the thread control block) and its payload, in all a multiple of 16 bytes. The tail says how far there are records; only code on this CPU moves it, inside a restartable section (see
//! [`crate::isa::x86_64::lanes`]) that ends with that store:
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
//!        prefetchw data+need+128(%r11,%rcx)
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
//! Where the ring overwrites, `full` is no loss but a loop in the section: the oldest record gives way, its position and the
//! count of such records changing by one store (two counts, of which a bit of the position says which one holds). One that
//! is being written stays where it is, as its writer may go on at any time: a discarded record is made up to it, and the
//! tail steps over it, so that it is now of the next lap; a tail that is ahead of the oldest record by more than the ring
//! says that this step is half done. Each of these stores leaves a ring that whoever comes next can go on with. A
//! record is never written over before the position of the oldest one has passed it, by which a reader knows what is whole.
//!
//! ```text
//!        cmp    $bytes, %rdi
//!        ja     repair                    # oldest = tail - bytes
//!        mov    %edx, %ecx                # the oldest record
//!        and    $(bytes - 16), %ecx
//!        mov    data+8(%r11,%rcx), %rax
//!        test   $busy, %eax
//!        jne    busy
//!        …                                # rdx += its bytes; the other count = this one + 1, or + 0 if it is discarded
//!        xor    $1, %rdx
//!        mov    %rdx, consumer(%r11)
//!        jmp    look
//! ```
//!
//! `ringbuf_output` is the same with a copy of the program's bytes behind it. Where their number is known only at run time
//! it stays in a register, and what the record takes in another:
//!
//! ```text
//! look:  lea    31(%r9), %rax             # their number is in r9, their address in r10
//!        and    $-16, %rax                # need
//!        mov    (%r11), %rsi
//!        …                                # as above, with need in rax
//! fits:  add    %rax, %rsi
//!        …                                # rdtsc, the time
//!        mov    %r9, %rax
//!        shl    $32, %rax
//!        or     $busy|used, %rax
//!        mov    %rax, data+8(%r11,%rcx)
//!        mov    %rsi, (%r11)              # the commit
//! ```
//!
//! `slow` calls the helper, which takes the ring that all share. `full` counts the record as lost, with `lock`.

use weir_ebpf::helper;
use weir_rt::abi::{CONTROL_BYTES, control, record};
use weir_rt::executable::Symbol;
use weir_rt::segment::Filter;

use crate::front::reservation::{HEAD_BYTES, Reservation};
use crate::isa::x86_64::assembler::Label;
use crate::isa::x86_64::emitter::{CALLER_SAVED, Cold, ColdCode, Emitter, Filling, phys};
use crate::isa::x86_64::encode::{self, Cond, Mem, Plain, Reg, Width};
use crate::isa::x86_64::lanes::{RSEQ_CPU_ID, RSEQ_CS};

/// Where the data begins behind the control block, and in it the header of the first record.
const DATA: i32 = CONTROL_BYTES as i32;
const HEADER: i32 = DATA + 8;
/// Words that are made zero, or copied, one by one; more of them in a loop.
const WORDS_MAX: u32 = 16;
/// In the position of the oldest record: which of the two counts of overwritten ones holds.
const COUNT_BIT: i32 = 1;
/// So far behind a record the ring is fetched into the cache: the next one will be written there, and where the ring overwrites, the
/// oldest read. It may be behind the ring, where a prefetch does nothing.
const AHEAD: i32 = 128;
/// What `ringbuf_output` answers where there is no room, as in the kernel.
const EAGAIN: i32 = 11;

/// The tail, where the oldest record (or the reader) stands, and counts of overwritten records, in the control block at r11.
const TAIL: Mem =
    Mem { base: Some(Reg::R11), index: None, disp: control::FREE_OR_PRODUCER as i32, fs: false };
const CONSUMER: Mem =
    Mem { base: Some(Reg::R11), index: None, disp: control::SPARE_OR_CONSUMER as i32, fs: false };

/// Where the bytes of a copied record are, and how many (if that is not known): in these while it is reserved.
pub(crate) const SOURCE: Reg = Reg::R10;
pub(crate) const SIZE: Reg = Reg::R9;

impl Emitter<'_> {
    /// rax = address of the payload, which is zero; or 0. Or, where it is copied from r2 on, 0 or −EAGAIN. Takes what a
    /// helper may.
    pub(crate) fn reserve(&mut self, reservation: Reservation, filling: Filling) {
        let Reservation { map, bytes, stride, rseq, signature, .. } = reservation;
        let [again, start, look, room, fits, fill] = std::array::from_fn(|_| self.asm.label());
        let [end, done, abort, slow, full] = std::array::from_fn(|_| self.asm.label());
        let section = self.asm.section(start, end, abort);
        let tail = TAIL;

        if filling == Filling::Copy {
            self.asm.mov(Width::W64, SOURCE, phys(2));
            if reservation.size.is_none() {
                self.asm.mov(Width::W64, SIZE, phys(3));
            }
        }
        self.asm.mov_symbol(Reg::Rcx, Symbol::Filter, 0);
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, Mem::base(Reg::Rcx, 0), Filter::STRICT as i32);
        self.asm.jump_if(Cond::Equal, slow);
        self.asm.bind(again);
        self.asm.mov_symbol(Reg::R8, Symbol::MapData(map), -i64::from(DATA));
        self.asm.lea_section(Reg::R11, section);
        self.asm.op(encode::Op::Store, Width::W64, Reg::R11, Mem::fs(rseq + RSEQ_CS));
        self.asm.bind(start);
        self.asm.op(encode::Op::Load, Width::W32, Reg::R11, Mem::fs(rseq + RSEQ_CPU_ID));
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::R11, self.input.abi.cpus as i32);
        self.asm.jump_if(Cond::AboveOrEqual, slow);
        self.asm.imul_imm(Width::W64, Reg::R11, Reg::R11, stride);
        self.asm.op(encode::Op::Add, Width::W64, Reg::R8, Reg::R11);
        if reservation.overwrites {
            self.asm.op(encode::Op::Xor, Width::W32, Reg::R8, Reg::R8);
        }
        self.asm.bind(look);
        if reservation.size.is_none() {
            self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::base(SIZE, 2 * HEAD_BYTES as i32 - 1));
            self.asm.op_imm(encode::Op::AndImm, Width::W64, Reg::Rax, -(HEAD_BYTES as i32));
            if reservation.overwrites {
                self.asm.op_imm(encode::Op::CmpImm, Width::W64, Reg::Rax, bytes as i32);
                self.asm.jump_if(Cond::Above, full);
            }
        }
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rsi, tail);
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rdx, CONSUMER);
        if reservation.overwrites {
            // A tail that nothing made but a corrupted segment is looked at as if it were one.
            self.asm.op_imm(encode::Op::AndImm, Width::W64, Reg::Rsi, -(HEAD_BYTES as i32));
            self.asm.mov(Width::W64, Reg::Rcx, Reg::Rdx);
            self.asm.op_imm(encode::Op::AndImm, Width::W64, Reg::Rcx, -(HEAD_BYTES as i32));
            self.asm.mov(Width::W64, Reg::Rdi, Reg::Rsi);
            self.asm.op(encode::Op::Sub, Width::W64, Reg::Rcx, Reg::Rdi);
            self.compare_room(reservation, Reg::Rdi, Reg::Rdi, Width::W64);
            self.asm.jump_if(Cond::BelowOrEqual, room);
            self.make_room(reservation, [look, fill, full]);
            self.asm.bind(room);
        } else {
            self.asm.mov(Width::W64, Reg::Rdi, Reg::Rsi);
            self.asm.op(encode::Op::Sub, Width::W64, Reg::Rdx, Reg::Rdi);
            // A tail that nothing made but a corrupted segment looks like a full ring.
            self.compare_room(reservation, Reg::Rdi, Reg::Rdi, Width::W64);
            self.asm.jump_if(Cond::Above, full);
        }
        self.asm.mov(Width::W32, Reg::Rcx, Reg::Rsi);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rcx, bytes as i32 - HEAD_BYTES as i32);
        self.compare_room(reservation, Reg::Rcx, Reg::Rdx, Width::W32);
        self.asm.jump_if(Cond::BelowOrEqual, fits);
        self.fill_lap(reservation, look, fill);
        self.asm.bind(fits);
        if reservation.size.is_none() {
            self.asm.op(encode::Op::Add, Width::W64, Reg::Rax, Reg::Rsi);
        }
        self.asm.plain(Plain::Rdtsc);
        self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::Rdx, 32);
        self.asm.op(encode::Op::Or, Width::W64, Reg::Rdx, Reg::Rax);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, DATA));
        self.header(reservation);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER));
        if let Some(need) = reservation.need() {
            self.asm.op_imm(encode::Op::AddImm, Width::W64, Reg::Rsi, need);
        }
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rsi, tail);
        self.asm.bind(end);
        self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::fs(rseq + RSEQ_CS), 0);
        let ahead = Mem::indexed(Reg::R11, Reg::Rcx, 0, DATA + reservation.need().unwrap_or(0) + AHEAD);
        self.asm.op_one(encode::Op::Prefetchw, Width::W32, ahead);
        match filling {
            Filling::ByProgram => {
                let payload = Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER + 8);
                self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, payload);
                self.zero(reservation.size.unwrap_or(0).div_ceil(8));
            }
            Filling::Copy => {
                let payload = Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER + 8);
                self.asm.op(encode::Op::Lea, Width::W64, Reg::Rdi, payload);
                self.copy(reservation.size);
                self.finish_record(false);
                self.asm.op(encode::Op::Xor, Width::W32, Reg::Rax, Reg::Rax);
            }
        }
        self.asm.bind(done);

        let from = self.now;
        let what = ColdCode::SharedRing(reservation, filling);
        self.cold.push(Cold { from, entry: slow, back: done, what });
        let what = ColdCode::FullRing(reservation, filling);
        self.cold.push(Cold { from, entry: full, back: done, what });
        self.cold.push(Cold { from, entry: abort, back: again, what: ColdCode::Abort { signature } });
    }

    /// Compares so many bytes, and those of the record, with those of the ring; may change `sum`. Above: they do not fit.
    fn compare_room(&mut self, reservation: Reservation, used: Reg, sum: Reg, width: Width) {
        let bytes = reservation.bytes as i32;
        match reservation.need() {
            Some(need) => self.asm.op_imm(encode::Op::CmpImm, width, used, bytes - need),
            None => {
                self.asm.op(encode::Op::Lea, Width::W64, sum, Mem::indexed(used, Reg::Rax, 0, 0));
                self.asm.op_imm(encode::Op::CmpImm, Width::W64, sum, bytes);
            }
        }
    }

    /// rax = header of a record that is reserved; may use rdx.
    fn header(&mut self, reservation: Reservation) {
        if let Some(tid) = reservation.tid {
            self.asm.op(encode::Op::Load, Width::W32, Reg::Rdx, Mem::fs(tid));
            self.asm.op_imm(encode::Op::ShlImm, Width::W32, Reg::Rdx, record::WRITER_SHIFT as i32);
        }
        let state = record::BUSY | record::USED;
        match reservation.size {
            Some(size) => self.asm.mov_value(Reg::Rax, u64::from(size) << record::SIZE_SHIFT | state),
            None => {
                self.asm.mov(Width::W64, Reg::Rax, SIZE);
                self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::Rax, record::SIZE_SHIFT as i32);
                self.asm.op_imm(encode::Op::OrImm, Width::W64, Reg::Rax, state as i32);
            }
        }
        if reservation.tid.is_some() {
            self.asm.op(encode::Op::Or, Width::W64, Reg::Rdx, Reg::Rax);
        }
    }

    /// A step towards room where there is too little: as many are taken as it needs, each a commit of its own. In rsi
    /// is the tail, in rdx the position of the oldest record with the bit of its count, in rdi the bytes between them (and
    /// in rax those of the record, where they are not known); in r8 the bytes that were stepped over so far.
    fn make_room(&mut self, reservation: Reservation, [look, fill, full]: [Label; 3]) {
        let [busy, gap, narrow, broken, repair] = std::array::from_fn(|_| self.asm.label());
        let bytes = reservation.bytes as i32;
        if reservation.size.is_none() {
            self.asm.op(encode::Op::Sub, Width::W64, Reg::Rax, Reg::Rdi);
        }
        self.asm.op_imm(encode::Op::CmpImm, Width::W64, Reg::Rdi, bytes);
        self.asm.jump_if(Cond::Above, repair);
        self.asm.mov(Width::W32, Reg::Rcx, Reg::Rdx);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rcx, bytes - HEAD_BYTES as i32);
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER));
        self.asm.op_imm(encode::Op::TestImm, Width::W32, Reg::Rax, record::BUSY as i32);
        self.asm.jump_if(Cond::NotEqual, busy);

        // The oldest record gives way. Its count is the other one of the two; position and choice of the count change at once.
        self.asm.mov(Width::W64, Reg::Rcx, Reg::Rax);
        self.record_bytes(Reg::Rcx);
        self.asm.op(encode::Op::Cmp, Width::W64, Reg::Rdi, Reg::Rcx);
        self.asm.jump_if(Cond::Above, broken);
        self.asm.op(encode::Op::Add, Width::W64, Reg::Rcx, Reg::Rdx);
        self.asm.mov(Width::W32, Reg::Rcx, Reg::Rdx);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rcx, COUNT_BIT);
        let count = Mem::indexed(Reg::R11, Reg::Rcx, 3, control::OVERWRITTEN as i32);
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rdi, count);
        self.asm.op_imm(encode::Op::ShrImm, Width::W32, Reg::Rax, record::DISCARD.trailing_zeros() as i32);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rax, 1);
        self.asm.op_imm(encode::Op::AddImm, Width::W64, Reg::Rdi, 1);
        self.asm.op(encode::Op::Sub, Width::W64, Reg::Rax, Reg::Rdi);
        self.asm.op_imm(encode::Op::XorImm, Width::W32, Reg::Rcx, COUNT_BIT);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdi, count);
        self.asm.op_imm(encode::Op::XorImm, Width::W64, Reg::Rdx, COUNT_BIT);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, CONSUMER);
        self.asm.jump(look);

        // It is being written: it stays. The tail comes up to it, and steps over it, into the next lap.
        self.asm.bind(busy);
        self.asm.op_imm(encode::Op::CmpImm, Width::W64, Reg::Rdi, bytes);
        self.asm.jump_if(Cond::Below, gap);
        self.record_bytes(Reg::Rax);
        self.asm.op(encode::Op::Add, Width::W64, Reg::Rax, Reg::R8);
        self.asm.op_imm(encode::Op::CmpImm, Width::W64, Reg::R8, bytes);
        self.asm.jump_if(Cond::Above, full);
        self.asm.op(encode::Op::Add, Width::W64, Reg::Rax, Reg::Rsi);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rsi, TAIL);
        self.asm.jump(look);

        // Now more than the ring is in use, by that record: the oldest one is the one behind it.
        self.asm.bind(repair);
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::base(Reg::Rsi, -bytes));
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rdx, COUNT_BIT);
        self.asm.op(encode::Op::Or, Width::W64, Reg::Rax, Reg::Rdx);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, CONSUMER);
        self.asm.jump(look);

        // A length that nothing made but a corrupted segment: the ring is empty.
        self.asm.bind(broken);
        let corrupt = Mem::base(Reg::R11, control::CORRUPT as i32);
        self.asm.lock_op_imm(encode::Op::AddImm, Width::W64, corrupt, 1);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rdx, COUNT_BIT);
        self.asm.op(encode::Op::Or, Width::W64, Reg::Rsi, Reg::Rdx);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, CONSUMER);
        self.asm.jump(look);

        // A discarded record up to the one that stays, or to the end of the data.
        self.asm.bind(gap);
        self.asm.mov_value(Reg::Rax, reservation.bytes.into());
        self.asm.op(encode::Op::Sub, Width::W64, Reg::Rdi, Reg::Rax);
        self.asm.mov(Width::W32, Reg::Rcx, Reg::Rsi);
        self.asm.op_imm(encode::Op::AndImm, Width::W32, Reg::Rcx, bytes - HEAD_BYTES as i32);
        self.asm.mov_value(Reg::Rdx, reservation.bytes.into());
        self.asm.op(encode::Op::Sub, Width::W64, Reg::Rcx, Reg::Rdx);
        self.asm.op(encode::Op::Cmp, Width::W64, Reg::Rax, Reg::Rdx);
        self.asm.jump_if(Cond::BelowOrEqual, narrow);
        self.asm.mov(Width::W64, Reg::Rdx, Reg::Rax);
        self.asm.bind(narrow);
        self.asm.jump(fill);
    }

    /// What a record takes, from its header.
    fn record_bytes(&mut self, header: Reg) {
        self.asm.op_imm(encode::Op::ShrImm, Width::W64, header, record::SIZE_SHIFT as i32);
        self.asm.op_imm(encode::Op::AddImm, Width::W64, header, 2 * HEAD_BYTES as i32 - 1);
        self.asm.op_imm(encode::Op::AndImm, Width::W64, header, -(HEAD_BYTES as i32));
    }

    /// A discarded record from the place in rcx to the end of the data, which fits where a larger one does; from `fill` on,
    /// of rdx bytes. It is a commit of its own: a run that is restarted behind it looks again as this one does.
    fn fill_lap(&mut self, reservation: Reservation, look: Label, fill: Label) {
        self.asm.mov_value(Reg::Rdx, reservation.bytes.into());
        self.asm.op(encode::Op::Sub, Width::W64, Reg::Rcx, Reg::Rdx);
        self.asm.bind(fill);
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::base(Reg::Rdx, -(HEAD_BYTES as i32)));
        self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::Rax, record::SIZE_SHIFT as i32);
        self.asm.op_imm(encode::Op::OrImm, Width::W64, Reg::Rax, (record::DISCARD | record::USED) as i32);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rax, Mem::indexed(Reg::R11, Reg::Rcx, 0, HEADER));
        self.asm.op(encode::Op::Add, Width::W64, Reg::Rdx, Reg::Rsi);
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rsi, TAIL);
        self.asm.jump(look);
    }

    /// Zeros in so many words from rax on; may use rcx.
    fn zero(&mut self, words: u32) {
        if words <= WORDS_MAX {
            for n in 0..words as i32 {
                self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::base(Reg::Rax, 8 * n), 0);
            }
            return;
        }
        let next = self.asm.label();
        let bytes = 8 * words as i32;
        self.asm.mov_value(Reg::Rcx, i64::from(-bytes) as u64);
        self.asm.bind(next);
        self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::indexed(Reg::Rax, Reg::Rcx, 0, bytes), 0);
        self.asm.op_imm(encode::Op::AddImm, Width::W64, Reg::Rcx, 8);
        self.asm.jump_if(Cond::NotEqual, next);
    }

    /// Copies so many bytes, or as many as r9 says, from r10 on to rdi on, and reads no other; may use rax, rcx, rdx, rsi
    /// and r9.
    pub(crate) fn copy(&mut self, size: Option<u32>) {
        match size {
            Some(size) if size <= 8 * WORDS_MAX => self.copy_in_line(size as i32),
            Some(size) => {
                self.asm.mov_value(SIZE, size.into());
                self.copy_in_loop();
            }
            None => self.copy_in_loop(),
        }
    }

    fn copy_in_line(&mut self, size: i32) {
        let mut at = 0;
        for (bytes, load, width) in [
            (8, encode::Op::Load, Width::W64),
            (4, encode::Op::Load, Width::W32),
            (2, encode::Op::Movzx16, Width::W32),
            (1, encode::Op::Movzx8, Width::W32),
        ] {
            while size - at >= bytes {
                let to = [Width::W8, Width::W16, width, width][bytes.trailing_zeros() as usize];
                self.asm.op(load, width, Reg::Rdx, Mem::base(SOURCE, at));
                self.asm.op(encode::Op::Store, to, Reg::Rdx, Mem::base(Reg::Rdi, at));
                at += bytes;
            }
        }
    }

    /// Whole words; then the last 8 bytes, some of them again, or fewer than 8 one by one.
    fn copy_in_loop(&mut self) {
        let [words, small, byte, copied] = std::array::from_fn(|_| self.asm.label());
        self.asm.mov(Width::W64, Reg::Rcx, SIZE);
        self.asm.op_imm(encode::Op::AndImm, Width::W64, Reg::Rcx, -8);
        self.asm.jump_if(Cond::Equal, small);
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rsi, Mem::indexed(SOURCE, Reg::Rcx, 0, 0));
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::indexed(Reg::Rdi, Reg::Rcx, 0, 0));
        self.asm.op_one(encode::Op::Neg, Width::W64, Reg::Rcx);
        self.asm.bind(words);
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rdx, Mem::indexed(Reg::Rsi, Reg::Rcx, 0, 0));
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, Mem::indexed(Reg::Rax, Reg::Rcx, 0, 0));
        self.asm.op_imm(encode::Op::AddImm, Width::W64, Reg::Rcx, 8);
        self.asm.jump_if(Cond::NotEqual, words);
        self.asm.op(encode::Op::Load, Width::W64, Reg::Rdx, Mem::indexed(SOURCE, SIZE, 0, -8));
        self.asm.op(encode::Op::Store, Width::W64, Reg::Rdx, Mem::indexed(Reg::Rdi, SIZE, 0, -8));
        self.asm.jump(copied);
        self.asm.bind(small);
        self.asm.op(encode::Op::Test, Width::W64, SIZE, SIZE);
        self.asm.jump_if(Cond::Equal, copied);
        self.asm.bind(byte);
        self.asm.op(encode::Op::Movzx8, Width::W32, Reg::Rdx, Mem::indexed(SOURCE, SIZE, 0, -1));
        self.asm.op(encode::Op::Store, Width::W8, Reg::Rdx, Mem::indexed(Reg::Rdi, SIZE, 0, -1));
        self.asm.op_imm(encode::Op::SubImm, Width::W64, SIZE, 1);
        self.asm.jump_if(Cond::NotEqual, byte);
        self.asm.bind(copied);
    }

    /// The thread has no CPU's ring, or may not read the counter.
    pub(crate) fn shared_ring(&mut self, reservation: Reservation, filling: Filling) {
        self.leave_section(reservation);
        self.asm.mov_symbol(Reg::Rdi, Symbol::Map(reservation.map), 0);
        let helper = match filling {
            Filling::ByProgram => {
                self.asm.mov_value(Reg::Rsi, reservation.size.unwrap_or(0).into());
                self.asm.mov_value(Reg::Rdx, 0);
                helper::RINGBUF_RESERVE
            }
            Filling::Copy => {
                self.asm.mov(Width::W64, Reg::Rsi, SOURCE);
                match reservation.size {
                    Some(size) => self.asm.mov_value(Reg::Rdx, size.into()),
                    None => self.asm.mov(Width::W64, Reg::Rdx, SIZE),
                }
                self.asm.mov_value(Reg::Rcx, 0);
                helper::RINGBUF_OUTPUT
            }
        };
        self.asm.call_symbol(Symbol::Helper(helper), CALLER_SAVED);
    }

    /// There is no room in the ring whose control block is at r11.
    pub(crate) fn full_ring(&mut self, reservation: Reservation, filling: Filling) {
        self.leave_section(reservation);
        let dropped = Mem::base(Reg::R11, control::DROPPED as i32);
        self.asm.lock_op_imm(encode::Op::AddImm, Width::W64, dropped, 1);
        match filling {
            Filling::ByProgram => self.asm.op(encode::Op::Xor, Width::W32, Reg::Rax, Reg::Rax),
            Filling::Copy => self.asm.mov_value(Reg::Rax, i64::from(-EAGAIN) as u64),
        }
    }

    fn leave_section(&mut self, reservation: Reservation) {
        self.asm.op_imm(encode::Op::MovImm, Width::W64, Mem::fs(reservation.rseq + RSEQ_CS), 0);
    }

    /// The record in rdi is whole, or (`is_discard`) nothing: of its header only the size stays and what it is now.
    pub(crate) fn finish_record(&mut self, is_discard: bool) {
        let state = record::USED | if is_discard { record::DISCARD } else { 0 };
        self.asm.op_imm(encode::Op::MovImm, Width::W8, Mem::base(Reg::Rdi, -8), state as i32);
    }
}
