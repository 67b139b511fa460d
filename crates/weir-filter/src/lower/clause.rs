//! Samples and rates: of the events that fulfil the condition, some. State is in maps of the filter's own, which all threads share.
//!
//! - A sample counts them: of each N in a row the first ones are kept.
//! - A rate gives each a number, and remembers the time and the number with which the present second (minute, hour) began, in one
//!   word. Threads that enter a new one at the same moment may each keep an event more.

use weir_event::{MapSchema, MapValue, Type};
use weir_ir::{BinOp, Builtin, CmpOp, MapId, Op, Value};

use crate::ast::ClauseKind;
use crate::lower::Lowering;
use crate::lower::block::Edge;

/// Bits of the number with which a period began; the period's own number is above.
const NUMBER_BITS: i64 = 40;
const NUMBER: i64 = (1 << NUMBER_BITS) - 1;
const PERIOD: i64 = (1 << (64 - NUMBER_BITS)) - 1;

impl Lowering<'_> {
    /// In the block of what fulfils the condition: ends in that of what passes every clause. Gives the ways of what does not.
    pub(super) fn clauses(&mut self) -> Vec<Edge> {
        let ast = self.ast;
        let mut out = Vec::new();
        for clause in &ast.clauses {
            match clause.kind {
                ClauseKind::Sample { kept, of } => self.sample(kept, of, &mut out),
                ClauseKind::Rate { count, unit } => self.rate(count, unit.nanoseconds(), &mut out),
            }
        }
        out
    }

    fn sample(&mut self, kept: u64, of: u64, out: &mut Vec<Edge>) {
        let counted = self.map("@sampled");
        let number = self.counted(counted);
        let place = self.blocks.bin_int(BinOp::UMod, number, of as i64);
        let is_kept = self.blocks.cmp_int(CmpOp::ULt, place, kept as i64);
        let (on, left) = self.blocks.branch(is_kept);
        out.push(left);
        self.blocks.open(&[on]);
    }

    fn rate(&mut self, count: u64, period_ns: u64, out: &mut Vec<Edge>) {
        let (counted, begun) = (self.map("@rated"), self.map("@period"));
        let number = self.counted(counted);
        let now = self.blocks.value(Op::Builtin(Builtin::Nsecs), Type::U64);
        let period = self.blocks.bin_int(BinOp::UDiv, now, period_ns as i64);
        let period = self.blocks.bin_int(BinOp::And, period, PERIOD);
        let begin = self.blocks.value(Op::MapGet { map: begun, key: Vec::new() }, Type::U64);
        let of = self.blocks.bin_int(BinOp::LShr, begin, NUMBER_BITS);
        let is_present = self.blocks.cmp(CmpOp::Eq, of, period);
        let (present, past) = self.blocks.branch(is_present);
        self.blocks.open(&[past]);
        let high = self.blocks.bin_int(BinOp::Shl, period, NUMBER_BITS);
        let low = self.blocks.bin_int(BinOp::And, number, NUMBER);
        let value = self.blocks.bin(BinOp::Or, high, low);
        self.blocks.effect(Op::MapSet { map: begun, key: Vec::new(), value });
        let first = self.blocks.jump();
        self.blocks.open(&[present]);
        let since = self.blocks.bin(BinOp::Sub, number, begin);
        let since = self.blocks.bin_int(BinOp::And, since, NUMBER);
        let is_kept = self.blocks.cmp_int(CmpOp::ULt, since, count as i64);
        let (on, left) = self.blocks.branch(is_kept);
        out.push(left);
        self.blocks.open(&[first, on]);
    }

    /// How many came before.
    fn counted(&mut self, map: MapId) -> Value {
        let delta = self.blocks.int(1);
        self.blocks.value(Op::MapAdd { map, key: Vec::new(), delta }, Type::U64)
    }

    /// A map of one number.
    fn map(&mut self, name: &str) -> MapId {
        let value = MapValue::Plain(Type::U64);
        self.maps.push(MapSchema { name: name.to_owned(), map_index: 0, key: None, value, room: None });
        MapId(self.maps.len() as u32 - 1)
    }
}
