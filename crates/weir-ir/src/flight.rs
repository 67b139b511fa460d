//! A clause that records, in a flight recorder that events themselves may ask for a snapshot.
//!
//! In: a clause as [`crate::record::record`] makes it; the filter that says which of its events ask, as it is at the place (none where none
//! of them can); four maps of one integer each. Out: the clause with this around it:
//!
//! ```text
//! held? ── yes ▶ count it: it is left out
//!   │ no
//! asks? ── yes ▶ armed? ── yes ▶ held = 1
//!   │ no           │ no            │
//!   ▼              ▼               ▼
//! record ──────────────────────────▶ it asked? ── yes ▶ count that
//! ```
//!
//! The rings are held before the event that asks is recorded, and the reader alone lets them go again: what is in them then, that event and
//! those before it, does not give way until it was copied. Whoever was past the first question goes on, and
//! adds one record at most. That an event has asked is counted behind its record, so that whoever sees the count finds the record.

use crate::around::{add_one, block, branch, get, inst, jump, moved, moved_filter, put_types};
use crate::{BlockId, Function, Inst, MapId, Op, Terminator, Value};

/// Maps of one plain integer, which programs and whoever takes snapshots share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The reader's: an event that asks holds the rings.
    pub armed: MapId,
    /// Nothing is recorded: set by programs, cleared by the reader.
    pub hold: MapId,
    /// Events that have asked, and are in the rings.
    pub asked: MapId,
    /// Events that were left out because the rings were held.
    pub held: MapId,
}

/// Values that this puts in front of the others.
const HOLD: Value = Value(0);
const NO: Value = Value(1);
const YES: Value = Value(2);
const ARMED: Value = Value(3);
const HAS_ASKED: Value = Value(4);
const COUNTED: [Value; 2] = [Value(5), Value(6)];
const VALUES: u32 = 7;
/// And blocks: the first question, and what is left out.
const BLOCKS: u32 = 2;

/// Puts the questions around the clause. The maps of the filter are those of the clause's module from number `first_map` on. Where no
/// event asks, blocks are left that nothing reaches.
pub fn guard(clause: &mut Function, asks: Option<&Function>, first_map: u32, words: Words) {
    let (filter, filter_types) =
        asks.map_or((&[][..], &[][..]), |filter| (&filter.blocks[..], &filter.types[..]));
    // Behind the filter: is it armed, hold, the clause, count, end.
    let behind = BLOCKS + filter.len() as u32;
    let [is_armed, hold] = [BlockId(behind), BlockId(behind + 1)];
    let body = BlockId(behind + 2);
    let clause_blocks = clause.blocks.len() as u32;
    let [count, end] = [BlockId(body.0 + clause_blocks), BlockId(body.0 + clause_blocks + 1)];
    let first_question = if filter.is_empty() { body } else { BlockId(BLOCKS) };
    let goes_on = |asked: Value| Terminator::Jump { to: body, args: vec![asked] };
    let to_filter = if filter.is_empty() { vec![NO] } else { Vec::new() };

    let first = vec![inst(NO, Op::Int(0)), inst(YES, Op::Int(1)), inst(HOLD, get(words.hold))];
    let mut blocks = vec![
        block(first, branch(HOLD, (BlockId(1), Vec::new()), (first_question, to_filter))),
        block(vec![inst(COUNTED[0], add_one(words.held, YES))], Terminator::Return),
    ];
    blocks.extend(moved_filter(filter, (VALUES, BLOCKS, first_map), &jump(is_armed), &goes_on(NO)));
    let armed = vec![inst(ARMED, get(words.armed))];
    blocks.push(block(armed, branch(ARMED, (hold, Vec::new()), (body, vec![YES]))));
    let set = Op::MapSet { map: words.hold, key: Vec::new(), value: YES };
    blocks.push(block(vec![Inst { result: None, op: set }], goes_on(YES)));
    for (index, of_clause) in clause.blocks.iter().enumerate() {
        let mut block = moved(of_clause, VALUES + filter_types.len() as u32, body.0);
        if index == 0 {
            block.params = vec![HAS_ASKED];
        }
        if block.end == Terminator::Return {
            block.end = branch(HAS_ASKED, (count, Vec::new()), (end, Vec::new()));
        }
        blocks.push(block);
    }
    blocks.push(block(vec![inst(COUNTED[1], add_one(words.asked, YES))], Terminator::Return));
    blocks.push(block(Vec::new(), Terminator::Return));

    put_types(clause, VALUES, filter_types);
    clause.blocks = blocks;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, pass, text};

    const WORDS: Words = Words { armed: MapId(0), hold: MapId(1), asked: MapId(2), held: MapId(3) };
    const MODULE: &str = "max_map_keys 16\nmap @armed plain u64\nmap @hold plain u64\nmap @asked plain u64\nmap @held plain u64\n\
        map @seen count\nmap @other count\nevent \"shop\" \"open\" ()\nsite \"p\" \"f\"\n";
    const CLAUSE: &str =
        "fn \"usdt:b:shop:open\" usdt {\nsite \"b\" \"shop\" \"open\" 4096 0\nb0:\nrecord 0()\nreturn\n}\n";
    const FILTER: &str = "fn \"filter\" filter {\nb0:\nv0: u64 = pid\nbranch v0, b1, b2\nb1:\naggregate @seen\naccept\nb2:\nreturn\n}\n";

    fn module(function: &str) -> crate::Module {
        let text = format!("{MODULE}{function}");
        text::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// The clause with the questions around it, checked and optimised.
    fn guarded(filter: Option<&str>) -> String {
        let mut clause = module(CLAUSE);
        let filter = filter.map(module);
        guard(&mut clause.functions[0], filter.as_ref().map(|filter| &filter.functions[0]), 1, WORDS);
        assert_eq!(check::check(&clause), Ok(()));
        pass::optimise(&mut clause);
        assert_eq!(check::check(&clause), Ok(()));
        let text = text::print(&clause);
        assert_eq!(text::parse(&text).as_ref(), Ok(&clause));
        text
    }

    #[test]
    fn an_event_that_asks_holds_the_rings_before_it_is_recorded_and_is_counted_behind() {
        let text = guarded(Some(FILTER));
        let order =
            ["@hold", "@held", "= pid", "@other", "@armed", "set @hold", "record 0()", "add_to @asked"];
        let mut rest = text.split_once("fn ").expect("a function").1;
        for part in order {
            let at = rest.find(part).unwrap_or_else(|| panic!("{part} is not next in\n{text}"));
            rest = &rest[at + part.len()..];
        }
        assert_eq!(text.matches("record 0()").count(), 1, "{text}");
    }

    #[test]
    fn an_event_that_cannot_ask_looks_whether_they_are_held() {
        let text = guarded(None);
        let body = text.split_once("fn ").expect("a function").1;
        assert!(body.contains("@hold") && body.contains("@held") && body.contains("record 0()"), "{text}");
        assert!(!body.contains("@armed") && !body.contains("@asked"), "{text}");
    }
}
