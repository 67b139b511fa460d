//! Time series: one observation added to the interval of its time.
//!
//! Whoever is the first in an interval makes its place his with a compare-and-exchange, and takes out what the place had of the interval
//! before by an addition: what others add meanwhile stays. Of a minimum or maximum, and of the last value, that is overwritten.
//! What comes so late that its place has a later interval is left out.

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp};
use weir_event::{SERIES_WORDS, Series};
use weir_ir::{MapId, Value};

use super::Lower;
use super::aggregate::{max_mask, min_mask};
use crate::lir::{Inst, Label, Place, R0, Reg, Src};

impl Lower<'_> {
    pub(super) fn series(
        &mut self,
        (map, key): (MapId, &[Value]),
        (interval_ns, intervals): (u64, u32),
        (of, signed): (Series, bool),
        value: Value,
        skip: Label,
    ) {
        let observed = match of {
            Series::Min => self.encoded(value, min_mask(signed)),
            Series::Max => self.encoded(value, max_mask(signed)),
            Series::Last | Series::Avg | Series::Sum => self.reg(value),
        };
        let (number, offset) = (self.fresh(), self.fresh());
        self.call(helper::KTIME_GET_NS, &[]);
        self.mov(number, R0);
        let interval = self.constant(interval_ns as i64);
        self.alu(alu::DIV, number, Src::Reg(interval));
        self.mov(offset, number);
        self.alu(alu::ADD, number, Src::Imm(1));
        self.alu(alu::MOD, offset, Src::Imm(intervals as i32));
        self.value_of(map, key, skip);
        let at = self.fresh();
        self.mov(at, R0);
        // What is compared is what is added also where the offset lies on the stack; else it is the same register.
        let distance = self.fresh();
        self.mov(distance, offset);
        // Never taken: it says to any verifier that the interval is in the value.
        self.branch(jmp::JGT, distance, Src::Imm(intervals as i32 - 1), skip);
        self.alu(alu::MUL, distance, Src::Imm(8 * SERIES_WORDS as i32));
        self.alu(alu::ADD, at, Src::Reg(distance));
        self.begin_interval(at, number, of, skip);
        match of {
            Series::Last => {
                self.store(Place::Reg(at, 8), Src::Reg(observed));
                self.count_observation(at);
            }
            Series::Avg | Series::Sum => {
                self.insts.push(Inst::AtomicAdd { to: Place::Reg(at, 8), src: observed, fetch: false });
                self.count_observation(at);
            }
            Series::Min | Series::Max => {
                self.alu(alu::ADD, at, Src::Imm(8));
                self.raise_at(at, observed, skip);
            }
        }
    }

    fn count_observation(&mut self, at: Reg) {
        let one = self.constant(1);
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(at, 16), src: one, fetch: false });
    }

    /// Goes on once the place is that of the interval.
    fn begin_interval(&mut self, at: Reg, number: Reg, of: Series, skip: Label) {
        let (before, begun) = (self.fresh(), self.label());
        self.load(before, Place::Reg(at, 0));
        self.branch(jmp::JEQ, before, Src::Reg(number), begun);
        self.branch(jmp::JGT, before, Src::Reg(number), skip);
        let olds = [8, 16].map(|word| {
            let old = self.fresh();
            self.load(old, Place::Reg(at, word));
            self.alu(alu::XOR, old, Src::Imm(-1));
            self.alu(alu::ADD, old, Src::Imm(1));
            old
        });
        self.mov(R0, before);
        self.insts.push(Inst::CompareExchange { to: Place::Reg(at, 0), src: number });
        // Another thread has begun it, or a later one.
        self.branch(jmp::JEQ, R0, Src::Reg(number), begun);
        self.branch(jmp::JNE, R0, Src::Reg(before), skip);
        match of {
            Series::Min | Series::Max => self.store(Place::Reg(at, 8), Src::Imm(0)),
            Series::Last => {}
            Series::Avg | Series::Sum => {
                self.insts.push(Inst::AtomicAdd { to: Place::Reg(at, 8), src: olds[0], fetch: false });
            }
        }
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(at, 16), src: olds[1], fetch: false });
        self.insts.push(Inst::Label(begun));
    }
}
