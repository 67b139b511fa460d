//! Where accepted programs are run: memory in which every access is checked, at several addresses.

#![allow(dead_code, reason = "each test binary uses its part")]

use weir_ebpf::insn::{MAY_GOTO, class, jmp, pseudo};
use weir_ebpf::{Insn, MapSpec, Program, helper};
use weir_interp::{Environment, Fault, plain, run, run_unverified};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{Context, ContextMut, Frame};
use weir_verifier::VerifiedProgram;

/// A xorshift64* generator; seeds are fixed, so that every run tests the same programs.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 32) as usize % bound
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number near which something changes.
    pub(crate) fn number(&mut self) -> i64 {
        match self.below(5) {
            0 => self.next() as i64,
            1 => 1i64.wrapping_shl(self.below(64) as u32).wrapping_add(self.below(5) as i64 - 2),
            _ => self.below(40) as i64 - 8,
        }
    }

    pub(crate) fn frame(&mut self) -> Frame {
        let mut frame = Frame { cookie: self.next(), ..Frame::default() };
        frame.regs = std::array::from_fn(|_| self.number() as u64);
        frame.floats = std::array::from_fn(|_| self.number() as u64);
        frame
    }
}

/// What a run is given.
pub(crate) enum Given {
    Registers(Box<Frame>),
    Lent(Box<Context>),
}

impl Given {
    pub(crate) fn registers(frame: Frame) -> Given {
        Given::Registers(Box::new(frame))
    }

    pub(crate) fn lent(context: Context) -> Given {
        Given::Lent(Box::new(context))
    }

    /// For a run on maps in plain memory.
    pub(crate) fn plain(&mut self) -> plain::Input<'_> {
        match self {
            Given::Registers(frame) => (&mut **frame).into(),
            Given::Lent(context) => (&mut **context).into(),
        }
    }

    /// For a run on those of a segment.
    pub(crate) fn lend(&mut self) -> ContextMut<'_> {
        match self {
            Given::Registers(frame) => (&mut **frame).into(),
            Given::Lent(context) => (&mut **context).into(),
        }
    }

    /// What a run has left of what was lent.
    pub(crate) fn left(&self) -> Vec<u8> {
        match self {
            Given::Registers(_) => Vec::new(),
            Given::Lent(context) => context.bytes(),
        }
    }
}

/// Helpers that answer the same wherever a program runs, and on whatever maps.
pub(crate) const SAME: &[i32] = &[
    helper::MAP_LOOKUP_ELEM,
    helper::MAP_UPDATE_ELEM,
    helper::MAP_DELETE_ELEM,
    helper::LOOP,
    helper::RINGBUF_OUTPUT,
    helper::RINGBUF_RESERVE,
    helper::RINGBUF_SUBMIT,
    helper::RINGBUF_DISCARD,
    helper::GET_ATTACH_COOKIE,
    helper::RINGBUF_RESERVE_DYNPTR,
    helper::RINGBUF_SUBMIT_DYNPTR,
    helper::RINGBUF_DISCARD_DYNPTR,
    helper::DYNPTR_READ,
    helper::DYNPTR_WRITE,
    helper::DYNPTR_DATA,
    helper::GET_CURRENT_COMM,
    helper::XDP_ADJUST_HEAD,
    helper::XDP_ADJUST_META,
    helper::XDP_ADJUST_TAIL,
];

/// The program calls no helpers but those of these lists.
pub(crate) fn calls_only(program: &Program, lists: &[&[i32]]) -> bool {
    let is_call = |insn: &&Insn| insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::HELPER;
    program.insns.iter().filter(is_call).all(|insn| lists.iter().any(|list| list.contains(&insn.imm)))
}

/// Three segments with the maps of an object, at three addresses, that go through the same runs.
pub(crate) struct Worlds([Segment; 3]);

/// Steps of an accepted program here: more than the verifier follows by default.
const STEPS_MAX: u64 = 4_000_000;
/// Steps of one with `may_goto`, which may go on for millions of rounds: after so many it is left where it is.
const ROUNDS_STEPS_MAX: u64 = 20_000;
/// The result of what was left.
const LEFT: u64 = 0x1ef7;

impl Worlds {
    /// Per-CPU values are in the lane of the run's CPU, so the worlds agree only if the thread stays on its own.
    pub(crate) fn new(maps: &[MapSpec]) -> Worlds {
        testkit::cpu::stay_on_this();
        Worlds([(); 3].map(|()| {
            let layout = SegmentLayout::plan_claimable(maps, 2).expect("the maps have a layout");
            Segment::create_local(layout, &Identity::default()).expect("a memfd")
        }))
    }

    /// Runs what was accepted, in each world: as it is, with the stack elsewhere, and with its facts burnt in. None
    /// may fault; gives the three results. `text` is for the message.
    pub(crate) fn run(
        &self,
        program: &VerifiedProgram,
        frame: &Frame,
        text: &dyn Fn() -> String,
    ) -> [u64; 3] {
        let [one, other, certain] = self.0.each_ref().map(|segment| Environment { segment });
        let has_rounds = program.insns().iter().any(|insn| insn.opcode == MAY_GOTO);
        let steps = if has_rounds { ROUNDS_STEPS_MAX } else { STEPS_MAX };
        let source = Program { name: "whole".into(), kind: program.kind(), insns: program.insns().to_vec() };
        let whole = |environment: &Environment<'_>| match has_rounds {
            true => run_unverified(&source, program.maps(), environment, &mut frame.clone(), steps),
            false => run(program, environment, &mut frame.clone()),
        };
        let first = whole(&one);
        let elsewhere = std::hint::black_box(vec![0u8; 64 * 1024]);
        let second = whole(&other);
        drop(elsewhere);
        let burnt = Program { name: "certain".into(), kind: program.kind(), insns: with_facts(program) };
        let third = run_unverified(&burnt, program.maps(), &certain, &mut frame.clone(), steps);
        let sound = |what: &str, result: Result<u64, Fault>| {
            let left = |fault| {
                if has_rounds && matches!(fault, Fault::Steps { .. }) { Ok(LEFT) } else { Err(fault) }
            };
            result.or_else(left).unwrap_or_else(|fault| panic!("accepted, but {what}{fault}\n{}", text()))
        };
        [sound("", first), sound("elsewhere ", second), sound("with its facts ", third)]
    }

    /// The same with a program that says nothing of addresses: all worlds give one result.
    pub(crate) fn run_alike(&self, program: &VerifiedProgram, frame: &Frame, text: &dyn Fn() -> String) {
        let [here, elsewhere, with_facts] = self.run(program, frame, text);
        assert_eq!(here, elsewhere, "an address is in the result\n{}", text());
        assert_eq!(here, with_facts, "a fact does not hold\n{}", text());
    }
}

/// The program with branches that always go one way replaced, so that the other way is a fault, and with what is
/// never reached made illegal.
fn with_facts(program: &VerifiedProgram) -> Vec<Insn> {
    let mut insns = program.insns().to_vec();
    let illegal = Insn { opcode: 0xff, ..Insn::default() };
    let mut second = false;
    for (at, facts) in program.facts().iter().enumerate() {
        let wide = insns[at].is_wide();
        if !facts.reachable && !second {
            insns[at] = illegal;
        }
        second = wide && facts.reachable;
        let jump = Insn { opcode: class::JMP | jmp::JA, ..Insn::default() };
        match facts.branch {
            Some(true) => insns[at] = Insn { off: insns[at].off, ..jump },
            Some(false) => insns[at] = jump,
            None => {}
        }
    }
    insns
}
