//! Loops whose rounds can be counted before they are followed.
//!
//! In: decoded instructions and their functions. Out: [`Loops`]: each loop's head, body, and what a round does to its
//! places (`changes`), with the branches that end it. `counted` makes one round stand for all of them by that.
//!
//! A loop can be counted if some branch of it compares what every round moves with what no round changes. The others
//! are followed round by round.
//!
//! None where there is nothing to gain, or loops are not what they seem:
//! - no instruction comes again (every path is followed anyway), or no loop can be counted;
//! - a loop is entered otherwise than through its head;
//! - rounds are bounded by something else than the program (`may_goto`, callbacks);
//! - loops nest so deeply that finding them would take long ([`WORK_PER_INSN`]).
//!
//! A loop is what the text books call a natural one: the instructions from which a jump back to the head is reached
//! without passing the head. All jumps back to one head are one loop. Every cycle of a function lies in the loop of one
//! of its instructions, which is what makes counting each loop's rounds enough to count all steps.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_ebpf::kfunc;

use crate::changes::{Change, of_loop};
use crate::decode::Op;
use crate::ends::Test;
use crate::flow::{Earlier, after, begins_rounds, goes_forward, look_again};
use crate::functions::Functions;
use crate::numbers::Numbers;

/// Every loop of a program.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    loops: Vec<Loop>,
    /// By instruction: the loop that it is the head of.
    headed: Vec<Option<u32>>,
    /// By instruction: bit n is set if what rn holds before may be read.
    live: Vec<u16>,
    /// By instruction of a function: later ones are higher, but for jumps back.
    order: Vec<u32>,
    /// By instruction: it is in a loop that is followed round by round.
    by_rounds: Vec<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct Loop {
    body: Body,
    /// One round stands for all.
    is_counted: bool,
    /// By place of `changes`: what a whole round does.
    pub(crate) changes: Vec<Change>,
    /// Each round goes through each of these.
    pub(crate) tests: Vec<Test>,
}

/// Instructions of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    first: usize,
    inside: Vec<bool>,
}

/// Instructions of all bodies together, at most, for each of the program.
const WORK_PER_INSN: usize = 8;

impl Loops {
    pub(crate) fn of(ops: &[Op], functions: &Functions, numbers: &Numbers) -> Option<Loops> {
        if goes_forward(ops) {
            return None;
        }
        let flow = Flow::new(ops);
        let (mut heads, mut order) = (Vec::new(), vec![0; ops.len()]);
        for function in 0..functions.count() {
            flow.jumps_back(functions.slots(function, ops.len()), &mut heads, &mut order)?;
        }
        if heads.is_empty() {
            return None;
        }
        heads.sort_unstable();
        let earlier = Earlier::new(ops);
        let mut loops = Loops {
            loops: Vec::new(),
            headed: vec![None; ops.len()],
            live: Vec::new(),
            order,
            by_rounds: Vec::new(),
        };
        let mut work = WORK_PER_INSN * ops.len();
        let mut marks = vec![u32::MAX; ops.len()];
        for jumps in heads.chunk_by(|one, other| one.0 == other.0) {
            let head = jumps[0].0;
            let entry = functions.starts()[functions.at(head)];
            let body = earlier.body(head, jumps, entry, (&mut marks, loops.loops.len() as u32), &mut work)?;
            let (changes, tests) = of_loop(&flow, numbers, head, &body)?;
            loops.headed[head] = Some(loops.loops.len() as u32);
            loops.loops.push(Loop { body, is_counted: !tests.is_empty(), changes, tests });
        }
        if !loops.loops.iter().any(|one| one.is_counted) {
            return None;
        }
        loops.live = live(&flow, &earlier);
        loops.mark_rounds(ops.len());
        Some(loops)
    }

    /// The same, with those around `at` that lie in no other followed round by round. None where none of them was
    /// counted, or none is left that is.
    pub(crate) fn by_rounds(&self, at: usize) -> Option<Loops> {
        let mut some = self.clone();
        let around = || self.loops.iter().filter(|one| one.contains(at));
        let size = |one: &Loop| one.body.inside.iter().filter(|inside| **inside).count();
        let largest = around().map(size).max()?;
        let mut changed = false;
        for (one, was) in some.loops.iter_mut().zip(&self.loops) {
            if was.contains(at) && size(was) == largest {
                changed |= std::mem::replace(&mut one.is_counted, false);
            }
        }
        some.mark_rounds(self.live.len());
        (changed && some.loops.iter().any(|one| one.is_counted)).then_some(some)
    }

    pub(crate) fn count(&self) -> usize {
        self.loops.len()
    }

    pub(crate) fn are_all_counted(&self) -> bool {
        self.loops.iter().all(|one| one.is_counted)
    }

    /// `at` is in a loop that is followed round by round.
    pub(crate) fn is_by_rounds(&self, at: usize) -> bool {
        self.by_rounds[at]
    }

    fn mark_rounds(&mut self, slots: usize) {
        self.by_rounds = vec![false; slots];
        for one in self.loops.iter().filter(|one| !one.is_counted) {
            one.slots().for_each(|at| self.by_rounds[at] = true);
        }
    }

    pub(crate) fn get(&self, number: u32) -> &Loop {
        &self.loops[number as usize]
    }

    /// The number of the loop that is counted and whose head is at `at`.
    pub(crate) fn headed_by(&self, at: usize) -> Option<u32> {
        self.headed[at].filter(|number| self.loops[*number as usize].is_counted)
    }

    /// Where `at` is among the instructions of its function: no way leads to one that is lower, but by a jump back.
    pub(crate) fn order(&self, at: usize) -> u32 {
        self.order[at]
    }

    /// Registers whose content may be read from `at` on, before it is written: bit n for rn.
    pub(crate) fn live(&self, at: usize) -> u16 {
        self.live[at]
    }

    /// By instruction: how often a run comes to it at most, where the rounds of each loop are at most these each time
    /// that it is entered.
    pub(crate) fn times(&self, ops: &[Op], functions: &Functions, rounds: &[u64]) -> Vec<u64> {
        let mut times = vec![0u64; ops.len()];
        for (times, op) in times.iter_mut().zip(ops) {
            *times = u64::from(!matches!(op, Op::Second));
        }
        for (around, rounds) in self.loops.iter().zip(rounds) {
            around.slots().for_each(|at| times[at] = times[at].saturating_mul((*rounds).max(1)));
        }
        let mut calls = vec![0u64; functions.count()];
        calls[0] = 1;
        // Whoever calls a function has been counted before it.
        for &function in functions.callees_first().iter().rev() {
            for at in functions.slots(function, ops.len()) {
                times[at] = times[at].saturating_mul(calls[function]);
                if let Op::CallLocal { target } = ops[at] {
                    let called = &mut calls[functions.at(target)];
                    *called = called.saturating_add(times[at]);
                }
            }
        }
        times
    }
}

impl Loop {
    pub(crate) fn contains(&self, at: usize) -> bool {
        self.body.contains(at)
    }

    fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.body.slots().filter(|at| self.body.contains(*at))
    }
}

impl Body {
    pub(crate) fn contains(&self, at: usize) -> bool {
        at >= self.first && self.inside.get(at - self.first).copied().unwrap_or(false)
    }

    pub(crate) fn slots(&self) -> Range<usize> {
        self.first..self.first + self.inside.len()
    }
}

/// Where instructions lead, inside their function.
#[derive(Debug)]
pub(crate) struct Flow<'a> {
    pub(crate) ops: &'a [Op],
    /// By instruction: a jump leads there.
    pub(crate) is_target: Vec<bool>,
}

impl<'a> Flow<'a> {
    fn new(ops: &'a [Op]) -> Flow<'a> {
        let mut is_target = vec![false; ops.len()];
        for op in ops {
            if let Op::Jump { target } | Op::Branch { target, .. } | Op::MayGoto { target } = *op {
                is_target[target] = true;
            }
        }
        Flow { ops, is_target }
    }

    /// The instruction behind `at`, and where it jumps.
    pub(crate) fn after(&self, at: usize) -> [Option<usize>; 2] {
        after(self.ops, at)
    }

    /// Adds the jumps of a function to where a path already was: to where, from where; and the order of what is reached.
    /// None where rounds are bounded by something else.
    fn jumps_back(
        &self,
        slots: Range<usize>,
        found: &mut Vec<(usize, usize)>,
        order: &mut [u32],
    ) -> Option<()> {
        if self.ops[slots.clone()].iter().any(begins_rounds) {
            return None;
        }
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            OnPath,
            Done,
        }
        let mut marks = vec![Mark::New; slots.len()];
        let mut path = vec![(slots.start, 0)];
        marks[0] = Mark::OnPath;
        let mut number = slots.len() as u32;
        while let Some(&mut (at, ref mut way)) = path.last_mut() {
            if *way == 2 {
                marks[at - slots.start] = Mark::Done;
                number -= 1;
                order[at] = number;
                path.pop();
                continue;
            }
            let next = self.after(at)[*way];
            *way += 1;
            let Some(next) = next else { continue };
            match marks[next - slots.start] {
                Mark::New => {
                    marks[next - slots.start] = Mark::OnPath;
                    path.push((next, 0));
                }
                Mark::OnPath => found.push((next, at)),
                Mark::Done => {}
            }
        }
        Some(())
    }
}

impl Earlier {
    /// The loop of these `jumps` back to `head`. None if the function's `entry` leads into it past the head. What no
    /// path reaches may lead there.
    /// `marks`: those of the instructions that are inside become this number, which no other has.
    fn body(
        &self,
        head: usize,
        jumps: &[(usize, usize)],
        entry: usize,
        (marks, number): (&mut [u32], u32),
        work: &mut usize,
    ) -> Option<Body> {
        let mut slots = vec![head];
        let mut waiting: Vec<usize> = jumps.iter().map(|jump| jump.1).collect();
        marks[head] = number;
        while let Some(at) = waiting.pop() {
            if std::mem::replace(&mut marks[at], number) == number {
                continue;
            }
            if at == entry {
                return None;
            }
            *work = work.checked_sub(1)?;
            slots.push(at);
            waiting.extend(self.of(at));
        }
        let (first, last) = (*slots.iter().min()?, *slots.iter().max()?);
        // What lies between is kept, too.
        *work = work.checked_sub(last + 1 - first - slots.len())?;
        let mut body = Body { first, inside: vec![false; last + 1 - first] };
        for at in slots {
            body.inside[at - first] = true;
        }
        Some(body)
    }
}

/// By instruction: the registers that may be read from there on, before they are written.
fn live(flow: &Flow<'_>, earlier: &Earlier) -> Vec<u16> {
    let mut calls: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, op) in flow.ops.iter().enumerate() {
        if let Op::CallLocal { target } = *op {
            calls.entry(target).or_default().push(at);
        }
    }
    let mut live = vec![0u16; flow.ops.len()];
    // From the end: most is then seen after what comes after it. No list twice: each instruction is looked at as often as one
    // that it leads to learns of a register.
    let mut work: Vec<usize> = (0..flow.ops.len()).collect();
    let mut waits = vec![true; flow.ops.len()];
    while let Some(at) = work.pop() {
        waits[at] = false;
        let after = flow.after(at).into_iter().flatten().fold(0, |all, next| all | live[next]);
        let callee = if let Op::CallLocal { target } = flow.ops[at] { live[target] } else { 0 };
        let before = live_before(&flow.ops[at], after, callee);
        if before == live[at] {
            continue;
        }
        live[at] = before;
        let of_calls = calls.get(&at).map_or(&[][..], Vec::as_slice);
        for &other in earlier.of(at).iter().chain(of_calls) {
            look_again(&mut work, &mut waits, other);
        }
    }
    live
}

/// r0 to r5, which no call keeps, and r1 to r5, its arguments.
const CLOBBERED: u16 = 0x3f;
const ARGUMENTS: u16 = 0x3e;

fn live_before(op: &Op, after: u16, callee: u16) -> u16 {
    use crate::decode::Operand;
    let bit = |register: u8| 1u16 << register;
    let read = |operand: Operand| if let Operand::Register(register) = operand { bit(register) } else { 0 };
    match *op {
        Op::Arithmetic { operation, dst, src, .. } => {
            let kept =
                if operation == weir_ebpf::insn::alu::MOV { after & !bit(dst) } else { after | bit(dst) };
            kept | read(src)
        }
        Op::ByteOrder { dst, .. } => after | bit(dst),
        Op::Load { dst, base, .. } | Op::LoadAcquire { dst, base, .. } => after & !bit(dst) | bit(base),
        Op::Store { base, value, .. } => after | bit(base) | read(value),
        Op::StoreRelease { base, src, .. } => after | bit(base) | bit(src),
        // r0 besides: a comparing exchange reads it.
        Op::Atomic { base, src, .. } => after | bit(base) | bit(src) | bit(0),
        Op::Constant { dst, .. }
        | Op::Map { dst, .. }
        | Op::MapValue { dst, .. }
        | Op::Function { dst, .. } => after & !bit(dst),
        Op::Branch { dst, src, .. } => after | bit(dst) | read(src),
        // r6 is where the packet is found.
        Op::PacketLoad { index, .. } => after & !CLOBBERED | bit(6) | index.map_or(0, bit),
        Op::Call { helper } => {
            let count = helper.args.len() as u32;
            after & !CLOBBERED | ((1 << count) - 1) << 1
        }
        Op::CallKernel { id } => after & !CLOBBERED | ((1 << kfunc::arguments(id)) - 1) << 1,
        Op::CallLocal { .. } => after & !CLOBBERED | callee & ARGUMENTS,
        Op::Exit => bit(0),
        Op::Jump { .. } | Op::MayGoto { .. } | Op::CallUnknown { .. } | Op::Second => after,
    }
}
