//! Aggregations: one observation added to a map.
//!
//! Values of per-CPU maps are only ever changed by an atomic addition whose result is not used: engines turn it
//! into what is cheapest on the CPU's own lane. Where a program reads them, all CPUs add to one value. Minimum and maximum are raised by compare-and-exchange, in the
//! encoding of weir-event, in which 0 is "none yet".
//!
//! `hist` finds its bucket by halving: after one branch that separates values above 16 bits, four steps without
//! branches, because sizes and times mispredict. Every step adds a number known to be below a bound, so that a
//! verifier sees the bucket within the map's value on a single path.

use weir_ebpf::insn::{alu, jmp};
use weir_event::{MapValue, hist_buckets, lhist_buckets};
use weir_ir::{MapId, Value};

use super::Lower;
use crate::limits;
use crate::lir::{Inst, Place, R0, Reg, Src};
use crate::maps::GLOBAL_NOT_RAISED;

/// `x ^ mask` orders as weir-event's encoding of a maximum.
pub(super) fn max_mask(signed: bool) -> i64 {
    if signed { i64::MIN } else { 0 }
}

/// `x ^ mask` is weir-event's encoding of a minimum.
pub(super) fn min_mask(signed: bool) -> i64 {
    !max_mask(signed)
}

impl Lower<'_> {
    pub(super) fn aggregate(&mut self, map: MapId, key: &[Value], value: Option<Value>) {
        let skip = self.label();
        match (self.module.schema.maps[map.0 as usize].value.clone(), value) {
            (MapValue::Count, _) => {
                self.value_of(map, key, skip);
                self.add(0, Src::Imm(1));
            }
            (MapValue::Sum { .. } | MapValue::Avg { .. } | MapValue::Stats { .. }, Some(value)) => {
                self.value_of(map, key, skip);
                let amount = self.src(value);
                self.add(0, amount);
                self.add(8, Src::Imm(1));
            }
            (MapValue::Min { signed }, Some(value)) => self.raise(map, key, value, min_mask(signed), skip),
            (MapValue::Max { signed }, Some(value)) => self.raise(map, key, value, max_mask(signed), skip),
            (MapValue::Hist { bits }, Some(value)) => {
                let bucket = self.hist_bucket(value, bits);
                self.value_of(map, key, skip);
                self.add_at(bucket, skip, hist_buckets(bits));
            }
            (MapValue::Tseries { interval_ns, intervals, of, signed }, Some(value)) => {
                self.series((map, key), (interval_ns, intervals), (of, signed), value, skip);
            }
            (MapValue::Lhist { min, max, step }, Some(value)) => {
                let bucket = self.lhist_bucket(value, min, max, step);
                self.value_of(map, key, skip);
                self.add_at(bucket, skip, lhist_buckets(min, max, step));
            }
            (kind, _) => unreachable!("{kind:?} takes no such observation"),
        }
        self.insts.push(Inst::Label(skip));
    }

    /// Leaves the address of the value in r0, or jumps to `skip`.
    pub(super) fn value_of(&mut self, map: MapId, key: &[Value], skip: crate::lir::Label) {
        if key.is_empty() && !self.maps.is_per_cpu(map) {
            self.insts.push(Inst::MapValue { dst: R0, map: map.0 });
        } else if key.is_empty() {
            self.lookup_scalar(map, skip);
        } else {
            self.lookup_or_insert(map, key, skip);
        }
    }

    fn add(&mut self, offset: i32, amount: Src) {
        let src = match amount {
            Src::Reg(reg) => reg,
            Src::Imm(imm) => self.constant(i64::from(imm)),
        };
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(R0, offset), src, fetch: false });
    }

    /// Adds 1 to the bucket whose number is in `bucket`.
    fn add_at(&mut self, bucket: Bucket, skip: crate::lir::Label, buckets: u32) {
        match bucket {
            Bucket::Constant(number) => self.add(8 * number as i32, Src::Imm(1)),
            Bucket::Computed(number) => {
                // What is compared is what is added also where the number lies on the stack; else it is the same register.
                let distance = self.fresh();
                self.mov(distance, number);
                // Never taken: it says to any verifier, whatever it can see, that the bucket is in the value.
                self.branch(jmp::JGT, distance, Src::Imm(buckets as i32 - 1), skip);
                self.alu(alu::LSH, distance, Src::Imm(3));
                self.alu(alu::ADD, R0, Src::Reg(distance));
                self.add(0, Src::Imm(1));
            }
        }
    }

    /// The bucket of `hist` ([`weir_event::hist_bucket`]). As in bpftrace, values are taken as signed.
    fn hist_bucket(&mut self, value: Value, bits: u8) -> Bucket {
        if let Some(constant) = self.int(value) {
            return Bucket::Constant(weir_event::hist_bucket(constant, bits));
        }
        let bucket = self.power_bucket(value);
        if bits > 0 {
            self.split_bucket(value, bucket, i32::from(bits));
        }
        Bucket::Computed(bucket)
    }

    /// From the bucket of a power of two to that of its part.
    fn split_bucket(&mut self, value: Value, bucket: Reg, bits: i32) {
        let (small, done) = (self.label(), self.label());
        let x = self.copy_of(value);
        self.branch(jmp::JSLE, x, Src::Imm((1 << bits) - 1), small);
        // The bits behind the highest one.
        let shift = self.fresh();
        self.mov(shift, bucket);
        self.alu(alu::SUB, shift, Src::Imm(2 + bits));
        self.alu(alu::RSH, x, Src::Reg(shift));
        self.alu(alu::AND, x, Src::Imm((1 << bits) - 1));
        self.alu(alu::SUB, bucket, Src::Imm(1 + bits));
        self.alu(alu::LSH, bucket, Src::Imm(bits));
        self.alu(alu::ADD, bucket, Src::Reg(x));
        self.alu(alu::ADD, bucket, Src::Imm(1));
        self.insts.push(Inst::Jump(done));
        // One bucket for each number, and one for those below 0.
        self.insts.push(Inst::Label(small));
        self.branch(jmp::JEQ, bucket, Src::Imm(0), done);
        self.mov(bucket, x);
        self.alu(alu::ADD, bucket, Src::Imm(1));
        self.insts.push(Inst::Label(done));
    }

    /// 0 below 0, 1 for 0, else 2 + the number of the highest bit.
    fn power_bucket(&mut self, value: Value) -> Reg {
        let x = self.copy_of(value);
        let bucket = self.fresh();
        let (positive, low, done) = (self.label(), self.label(), self.label());
        self.branch(jmp::JSGT, x, Src::Imm(0), positive);
        // 1 + (all ones if negative).
        self.mov(bucket, x);
        self.alu(alu::ARSH, bucket, Src::Imm(63));
        self.alu(alu::ADD, bucket, Src::Imm(1));
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(positive));
        self.mov_imm(bucket, 2);
        self.branch(jmp::JLE, x, Src::Imm(0xffff), low);
        self.halve(x, bucket, 32);
        self.halve(x, bucket, 16);
        self.insts.push(Inst::Label(low));
        self.halve(x, bucket, 8);
        self.halve(x, bucket, 4);
        self.halve(x, bucket, 2);
        // x is 1, 2 or 3 here; the mask says so.
        self.alu(alu::RSH, x, Src::Imm(1));
        self.alu(alu::AND, x, Src::Imm(1));
        self.alu(alu::ADD, bucket, Src::Reg(x));
        self.insts.push(Inst::Label(done));
        bucket
    }

    /// If x ≥ 2^bits (x below 2^63): x >>= bits, bucket += bits. Without a branch: (2^bits - 1 - x) >> 63 is 1 just
    /// then.
    fn halve(&mut self, x: Reg, bucket: Reg, bits: i32) {
        let step = self.fresh();
        self.mov_constant(step, (1i64 << bits) - 1);
        self.alu(alu::SUB, step, Src::Reg(x));
        self.alu(alu::RSH, step, Src::Imm(63));
        self.alu(alu::LSH, step, Src::Imm(bits.trailing_zeros() as i32));
        self.alu(alu::RSH, x, Src::Reg(step));
        self.alu(alu::ADD, bucket, Src::Reg(step));
    }

    /// The bucket of `lhist`: 0 below min, the last from max on, else 1 + (x - min) / step.
    fn lhist_bucket(&mut self, value: Value, min: i64, max: i64, step: i64) -> Bucket {
        let last = lhist_buckets(min, max, step) - 1;
        if let Some(constant) = self.int(value) {
            return Bucket::Constant(match constant {
                x if x < min => 0,
                x if x >= max => last,
                x => 1 + ((i128::from(x) - i128::from(min)) / i128::from(step)) as u32,
            });
        }
        let x = self.copy_of(value);
        let bucket = self.fresh();
        let done = self.label();
        self.mov_imm(bucket, 0);
        let bound = self.constant_src(min);
        self.branch(jmp::JSLT, x, bound, done);
        self.mov_imm(bucket, last as i32);
        let bound = self.constant_src(max);
        self.branch(jmp::JSGE, x, bound, done);
        // At least min and below max: the difference is below 2^64, and the division unsigned.
        match self.constant_src(min) {
            Src::Imm(0) => {}
            min => self.alu(alu::SUB, x, min),
        }
        match (step as u64).is_power_of_two() {
            true if step == 1 => {}
            true => self.alu(alu::RSH, x, Src::Imm(step.trailing_zeros() as i32)),
            false => {
                let step = self.constant_src(step);
                self.alu(alu::DIV, x, step);
            }
        }
        self.alu(alu::ADD, x, Src::Imm(1));
        self.mov(bucket, x);
        self.insts.push(Inst::Label(done));
        Bucket::Computed(bucket)
    }

    fn constant_src(&mut self, value: i64) -> Src {
        match i32::try_from(value) {
            Ok(imm) => Src::Imm(imm),
            Err(_) => Src::Reg(self.constant(value)),
        }
    }

    /// Raises word 0 to `value ^ mask` and counts in word 1; neither, but counted in `.globals`, if other threads win
    /// every time.
    fn raise(&mut self, map: MapId, key: &[Value], value: Value, mask: i64, skip: crate::lir::Label) {
        let encoded = self.encoded(value, mask);
        let at = if key.is_empty() {
            self.scalar(map)
        } else {
            self.lookup_or_insert(map, key, skip);
            let at = self.fresh();
            self.mov(at, R0);
            at
        };
        self.raise_at(at, encoded, skip);
    }

    /// `value ^ mask`.
    pub(super) fn encoded(&mut self, value: Value, mask: i64) -> Reg {
        match self.int(value) {
            Some(constant) => self.constant(constant ^ mask),
            None if mask == 0 => self.reg(value),
            None => {
                let encoded = self.copy_of(value);
                self.xor(encoded, mask);
                encoded
            }
        }
    }

    /// The same of the words at an address.
    pub(super) fn raise_at(&mut self, at: Reg, encoded: Reg, skip: crate::lir::Label) {
        let (left, before) = (self.fresh(), self.fresh());
        let (again, raised) = (self.label(), self.label());
        self.mov_imm(left, limits::RAISE_ATTEMPTS);
        self.load(R0, Place::Reg(at, 0));
        self.insts.push(Inst::Label(again));
        self.branch(jmp::JGE, R0, Src::Reg(encoded), raised);
        self.mov(before, R0);
        self.insts.push(Inst::CompareExchange { to: Place::Reg(at, 0), src: encoded });
        self.branch(jmp::JEQ, R0, Src::Reg(before), raised);
        self.alu(alu::SUB, left, Src::Imm(1));
        self.branch(jmp::JNE, left, Src::Imm(0), again);
        self.count_in_globals(GLOBAL_NOT_RAISED);
        self.insts.push(Inst::Jump(skip));
        self.insts.push(Inst::Label(raised));
        let one = self.constant(1);
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(at, 8), src: one, fetch: false });
    }
}

/// Which bucket an observation falls into.
enum Bucket {
    Constant(u32),
    /// In a register of its own, which may be changed.
    Computed(Reg),
}
