//! What else a clause that records does where its event matches a filter, and whether it records at all.
//!
//! In: a clause as [`crate::record::record`] makes it; a filter as it is at the place, whose `accept` says that the event matches; maps of one
//! integer each. Out: the clause with this around it.
//!
//! [`mark`], of events that are recorded:
//!
//! ```text
//! matches? ── yes ▶ before ─▶ record ─▶ it matched? ── yes ▶ behind
//!   │ no                        ▲
//!   └───────────────────────────┘
//! ```
//!
//! [`gate`], which goes around marks, since what it leaves out matches nothing:
//!
//! ```text
//! closed? ── no ─────────────────────────────▶ record
//!   │ yes                                        ▲
//! opens? ── yes ▶ closed = 0, count the start ───┘
//!   │ no
//!   ▼
//! count it: it is left out
//! ```
//!
//! A mark that sets `closed` before the record has the event that matches as the last: nothing that comes behind it is recorded, but for one
//! record at most of each thread that was past the first question.

use weir_event::Type;

use crate::around::{add_one, block, branch, get, inst, jump, moved, moved_filter, put_types};
use crate::{Block, BlockId, Builtin, EventId, Function, Inst, MapId, Op, Terminator, Value};

/// What is done of an event that matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Its record is marked, so that the reader finds it.
    Mark,
    /// The one integer of a map becomes 1.
    Set(MapId),
    /// It becomes one more.
    Count(MapId),
    /// The time becomes the value of the event's number.
    Keep(MapId, EventId),
}

/// Maps of one plain integer, which programs and whoever reads the rings share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Nothing is recorded.
    pub closed: MapId,
    /// Events that were left out because of that.
    pub outside: MapId,
    /// Events that have opened it.
    pub started: MapId,
}

/// Values that are put in front of the others.
const NO: Value = Value(0);
const YES: Value = Value(1);
const ASKED: Value = Value(2);
const COUNTED: [Value; 2] = [Value(3), Value(4)];
const MARK_VALUES: u32 = 3;
const GATE_VALUES: u32 = 5;
/// And a block.
const BLOCKS: u32 = 1;

/// Puts the question around a clause. The maps of the filter are those of the clause's module from number `first_map` on.
pub fn mark(clause: &mut Function, filter: &Function, first_map: u32, before: &[Step], behind: &[Step]) {
    let own = MARK_VALUES + (filter.types.len() + clause.types.len()) as u32;
    let mut steps = Steps { first: own, types: Vec::new() };
    let before_block = BlockId(BLOCKS + filter.blocks.len() as u32);
    let body = BlockId(before_block.0 + 1);
    let [behind_block, end] = [0, 1].map(|at| BlockId(body.0 + clause.blocks.len() as u32 + at));
    let goes_on = |matched: Value| Terminator::Jump { to: body, args: vec![matched] };

    let numbers = vec![inst(NO, Op::Int(0)), inst(YES, Op::Int(1))];
    let mut blocks = vec![block(numbers, jump(BlockId(BLOCKS)))];
    let moves = (MARK_VALUES, BLOCKS, first_map);
    blocks.extend(moved_filter(&filter.blocks, moves, &jump(before_block), &goes_on(NO)));
    blocks.push(block(steps.insts(before), goes_on(YES)));
    for (index, of_clause) in clause.blocks.iter().enumerate() {
        let mut block = moved(of_clause, MARK_VALUES + filter.types.len() as u32, body.0);
        if index == 0 {
            block.params = vec![ASKED];
        }
        if before.contains(&Step::Mark) {
            mark_records(&mut block);
        }
        if block.end == Terminator::Return {
            block.end = branch(ASKED, (behind_block, Vec::new()), (end, Vec::new()));
        }
        blocks.push(block);
    }
    blocks.push(block(steps.insts(behind), Terminator::Return));
    blocks.push(block(Vec::new(), Terminator::Return));

    put_types(clause, MARK_VALUES, &filter.types);
    clause.types.extend(steps.types);
    clause.blocks = blocks;
}

/// The first block of the body has the answer, and comes before all others.
fn mark_records(block: &mut Block) {
    for inst in &mut block.insts {
        if let Op::Record { marked, .. } = &mut inst.op {
            *marked = Some(ASKED);
        }
    }
}

/// Puts the gate around a clause; without a filter nothing opens it.
pub fn gate(clause: &mut Function, opens: Option<&Function>, first_map: u32, words: Gate) {
    let (filter, filter_types) =
        opens.map_or((&[][..], &[][..]), |filter| (&filter.blocks[..], &filter.types[..]));
    let [opened, outside, body] = [0, 1, 2].map(|at| BlockId(BLOCKS + filter.len() as u32 + at));
    let question = if filter.is_empty() { outside } else { BlockId(BLOCKS) };

    let first = vec![inst(NO, Op::Int(0)), inst(YES, Op::Int(1)), inst(ASKED, get(words.closed))];
    let mut blocks = vec![block(first, branch(ASKED, (question, Vec::new()), (body, Vec::new())))];
    blocks.extend(moved_filter(filter, (GATE_VALUES, BLOCKS, first_map), &jump(opened), &jump(outside)));
    let opens_it = Inst { result: None, op: Op::MapSet { map: words.closed, key: Vec::new(), value: NO } };
    blocks.push(block(vec![opens_it, inst(COUNTED[0], add_one(words.started, YES))], jump(body)));
    blocks.push(block(vec![inst(COUNTED[1], add_one(words.outside, YES))], Terminator::Return));
    let values = GATE_VALUES + filter_types.len() as u32;
    blocks.extend(clause.blocks.iter().map(|of_clause| moved(of_clause, values, body.0)));

    put_types(clause, GATE_VALUES, filter_types);
    clause.blocks = blocks;
}

/// Values of steps, behind all others.
struct Steps {
    first: u32,
    types: Vec<Type>,
}

impl Steps {
    fn insts(&mut self, steps: &[Step]) -> Vec<Inst> {
        let mut insts = Vec::new();
        for step in steps {
            match *step {
                Step::Set(map) => {
                    let op = Op::MapSet { map, key: Vec::new(), value: YES };
                    insts.push(Inst { result: None, op });
                }
                // The body marks its record itself: it gets the answer.
                Step::Mark => {}
                Step::Count(map) => insts.push(inst(self.value(), add_one(map, YES))),
                Step::Keep(map, event) => {
                    let (key, time) = (self.value(), self.value());
                    insts.push(inst(key, Op::Int(event.0.into())));
                    insts.push(inst(time, Op::Builtin(Builtin::Nsecs)));
                    insts.push(Inst { result: None, op: Op::MapSet { map, key: vec![key], value: time } });
                }
            }
        }
        insts
    }

    fn value(&mut self) -> Value {
        self.types.push(Type::U64);
        Value(self.first + self.types.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, pass, text};

    const MODULE: &str = "max_map_keys 16\nmap @closed plain u64\nmap @outside plain u64\nmap @started plain u64\n\
        map @stopped plain u64\nmap @last[u64] plain u64\nmap @seen count\nmap @other count\nevent \"shop\" \"open\" ()\n\
        site \"p\" \"f\"\n";
    const CLAUSE: &str =
        "fn \"usdt:b:shop:open\" usdt {\nsite \"b\" \"shop\" \"open\" 4096 0\nb0:\nrecord 0()\nreturn\n}\n";
    const FILTER: &str = "fn \"filter\" filter {\nb0:\nv0: u64 = pid\nbranch v0, b1, b2\nb1:\naggregate @seen\naccept\nb2:\nreturn\n}\n";
    const GATE: Gate = Gate { closed: MapId(0), outside: MapId(1), started: MapId(2) };

    fn module(function: &str) -> crate::Module {
        let text = format!("{MODULE}{function}");
        text::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// The clause with what `put` puts around it, checked and optimised; the text behind its head.
    fn around(put: impl FnOnce(&mut Function, &Function)) -> String {
        let (mut clause, filter) = (module(CLAUSE), module(FILTER));
        put(&mut clause.functions[0], &filter.functions[0]);
        assert_eq!(check::check(&clause), Ok(()));
        pass::optimise(&mut clause);
        assert_eq!(check::check(&clause), Ok(()));
        let text = text::print(&clause);
        assert_eq!(text::parse(&text).as_ref(), Ok(&clause));
        assert_eq!(text.matches("record 0()").count(), 1, "{text}");
        text.split_once("fn ").expect("a function").1.to_owned()
    }

    fn in_order(text: &str, parts: &[&str]) {
        let mut rest = text;
        for part in parts {
            let at = rest.find(part).unwrap_or_else(|| panic!("{part} is not next in\n{text}"));
            rest = &rest[at + part.len()..];
        }
    }

    #[test]
    fn an_event_that_matches_does_something_before_and_behind_its_record() {
        let before = [Step::Set(MapId(0))];
        let behind = [Step::Keep(MapId(4), EventId(0)), Step::Count(MapId(3))];
        let text = around(|clause, filter| mark(clause, filter, 1, &before, &behind));
        in_order(
            &text,
            &["= pid", "@other", "set @closed", "record 0()", "= nsecs", "set @last", "add_to @stopped"],
        );
    }

    #[test]
    fn the_record_of_an_event_that_matches_is_marked() {
        let put = |before: &[Step]| around(|clause, filter| mark(clause, filter, 1, before, &[]));
        let text = put(&[Step::Mark]);
        assert!(text.contains("record 0(), marked v"), "{text}");
        let text = put(&[Step::Set(MapId(0))]);
        assert!(!text.contains("marked"), "{text}");
        // Of several questions around one record it is the one whose events are marked.
        let text = around(|clause, filter| {
            mark(clause, filter, 1, &[Step::Mark], &[Step::Count(MapId(3))]);
            mark(clause, filter, 1, &[Step::Set(MapId(0))], &[Step::Count(MapId(2))]);
        });
        in_order(
            &text,
            &["set @closed", "record 0(), marked v4\n  branch v4,", "add_to @stopped", "add_to @started"],
        );
    }

    #[test]
    fn what_comes_to_a_closed_gate_is_counted_or_opens_it() {
        let text = around(|clause, filter| gate(clause, Some(filter), 1, GATE));
        in_order(
            &text,
            &[
                "@closed",
                "= pid",
                "@other",
                "set @closed",
                "add_to @started",
                "add_to @outside",
                "record 0()",
            ],
        );
        let text = around(|clause, _| gate(clause, None, 0, GATE));
        in_order(&text, &["@closed", "add_to @outside", "record 0()"]);
        assert!(!text.contains("@started") && !text.contains("= pid"), "{text}");
    }

    #[test]
    fn a_gate_goes_around_marks() {
        let text = around(|clause, filter| {
            mark(clause, filter, 1, &[], &[Step::Count(MapId(3))]);
            mark(clause, filter, 1, &[Step::Set(MapId(0))], &[Step::Count(MapId(2))]);
            gate(clause, Some(filter), 1, GATE);
        });
        let parts =
            ["@closed", "add_to @outside", "set @closed", "record 0()", "add_to @stopped", "add_to @started"];
        in_order(&text, &parts);
    }
}
