//! Follows every path of a program, and gathers what holds at each instruction on all of them.
//!
//! Depth first: at a branch that can go both ways, one way waits. A local call is followed into its function and out
//! of it again, with the frames of its callers in the state. At every jump target, and where functions begin and calls
//! return, the state is compared with the states seen there: a path is dropped where a finished one covers it. Covering
//! looks only at the registers and stack slots that the finished path went on to read, and only at numbers that matter
//! (`numbers`): each remembered state is a [`Node`] of a tree, and a read marks the places on all nodes above it, up to
//! the write that made the value.
//!
//! Where a path comes to where a finished one was ([`Precision::Merged`]) and differs in ranges of numbers alone, it
//! goes on with ranges that hold both, and wider ones than need be: what comes next is then often covered. Constants
//! keep paths apart, since a loop's count is one, and what decides an index or a size often is. Only finished paths are
//! merged with: an unfinished one is this path's own earlier round.
//!
//! Where loops of a program can be counted, one round stands for all (`counted`, [`Precision::Counted`]); and where all
//! can, paths that meet go on as one (`gather`, [`Precision::Gathered`]). Else a loop is followed round by round; it ends
//! because a state leaves it, or is refused when a round begins
//! exactly as an unfinished one, or when a limit is reached. A round that passed a `may_goto` need not end: a path is
//! dropped too where an unfinished one with fewer such passes ([`Path::passes`]) covers it wholly. Finished paths cover
//! only paths with as many passes or more. The rounds of a helper's callback are the same, but that each call of the
//! helper has its own, and that one path's rounds say something of another's only inside the same call or after its
//! whole ([`Walk::progress`]): else a loop around the call could go on for ever. So a run that is not on the way to an
//! end passes `may_goto` ever again, until its rounds are used up, or goes on in a call of a helper until that one's
//! are; what is accepted ends.

use std::cell::{Cell, OnceCell};
use std::cmp::Ordering;

use crate::counted::{Arrival, Counting, followed_max};
use crate::decode::{At, Op};
use crate::flow::begins_rounds;
use crate::functions::Functions;
use crate::gather::Gathered;
use crate::limits::{Limits, STACK_BYTES};
use crate::loops::Loops;
use crate::numbers::Numbers;
use crate::observe::Observer;
use crate::places::{FramePlaces, Places, WHOLE_FRAME, register_place};
use crate::rejection::{Refusal, refuse, too_big, unsupported};
use crate::scalar::Scalar;
use crate::state::{Join, Rounds, State, covers, covers_wholly, differ_as_constants};
use crate::verified::Function;
use weir_ebpf::context::{Field, memory};
use weir_ebpf::kfunc::{DeclaredCopy, TextTest};
use weir_ebpf::{MapSpec, ProgramKind};

/// What was seen of one instruction over all paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reached: bool,
    /// A branch went to the next instruction; to its target.
    pub(crate) fell_through: bool,
    pub(crate) jumped: bool,
    pub(crate) callback: Same<usize>,
    pub(crate) constant_key: Same<Option<u32>>,
    pub(crate) map_index: Same<u32>,
    pub(crate) per_cpu_map: Same<Option<u32>>,
    pub(crate) context_field: Same<Option<&'static Field>>,
    /// The fewest of any visit.
    pub(crate) string_bytes: Option<u32>,
    pub(crate) text: Same<TextTest>,
    pub(crate) copy: Same<DeclaredCopy>,
    /// On some path.
    pub(crate) may_misalign: bool,
}

impl Seen {
    /// A branch went these ways.
    pub(crate) fn goes(&mut self, jumps: bool, falls: bool) {
        self.jumped |= jumps;
        self.fell_through |= falls;
    }
}

/// A fact that is only worth something if it is the same on every visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Same<T> {
    #[default]
    Never,
    Always(T),
    Differs,
}

impl<T: PartialEq + Copy> Same<T> {
    /// Adds a visit's fact; false if it is not that of the visits before.
    pub(crate) fn visit(&mut self, fact: T) -> bool {
        *self = match *self {
            Same::Never => Same::Always(fact),
            Same::Always(known) if known == fact => *self,
            _ => Same::Differs,
        };
        *self != Same::Differs
    }

    pub(crate) fn always(self) -> Option<T> {
        if let Same::Always(fact) = self { Some(fact) } else { None }
    }
}

/// What exploring found out.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) seen: Vec<Seen>,
    /// By instruction: the constant that it loads, of those that were folded.
    pub(crate) constants: Vec<Option<u64>>,
    pub(crate) functions: Vec<Function>,
    pub(crate) context_reads: u32,
    pub(crate) needs_lane: bool,
    pub(crate) writes_packet: bool,
    pub(crate) zeroes_frames: bool,
    pub(crate) nested_stack_bytes: u32,
    /// By instruction: how often a run comes to it at most, if that is more than was followed.
    pub(crate) times: Option<Vec<u64>>,
}

/// Instructions that were followed, over all runs: an instruction counts each time.
pub(crate) type Followed = Cell<u64>;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) kind: ProgramKind,
    pub(crate) ops: &'a [Op],
    pub(crate) functions: &'a Functions,
    pub(crate) numbers: &'a Numbers,
    pub(crate) maps: &'a [MapSpec],
    pub(crate) limits: &'a Limits,
    pub(crate) observer: Option<&'a Observer>,
    /// Stack that was never written may be read, since engines zero frames.
    pub(crate) zeroes_frames: bool,
    /// Set where such a read was refused.
    pub(crate) reads_unwritten: &'a Cell<bool>,
    /// Set where states were merged: a run [`Precision::Exact`] may know more.
    pub(crate) has_merged: &'a Cell<bool>,
    pub(crate) followed: &'a Followed,
}

/// How far exploring goes to tell paths apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Precision<'a> {
    /// As `Merged`, and one round of each of these loops that is counted stands for all (`counted`).
    Counted(&'a Loops),
    /// The same; and paths wait for each other where ways meet, and go on as one (`gather`). All loops must be counted.
    Gathered(&'a Loops),
    /// Every path has its own numbers.
    Exact,
    /// Ranges of numbers that differ where paths meet are merged, and widened; constants keep paths apart.
    Merged,
    /// Numbers that differ where many paths meet are joined: fewer paths, less known.
    Joined,
    /// As `Joined`, and what differs from round to round of a `may_goto` loop becomes unknown.
    Rounds,
}

/// Follows all paths of `ops`.
pub(crate) fn explore<'a>(input: Input<'a>, precision: Precision<'a>) -> At<Findings> {
    let mut walk = Walk::new(input, precision);
    let findings = walk.run(input);
    input.followed.set(input.followed.get() + u64::from(walk.explored));
    findings
}

/// Joining begins when this many states of an instruction are remembered; they are joined to nothing known but bounds
/// when this many are, and without these at last. Few enough that a program of a thousand branches stays within the limits.
const JOIN_AFTER_STATES: usize = 4;
const FORGET_AFTER_STATES: usize = 12;
const BOUND_AFTER_STATES: usize = 32;

/// States of an instruction that are told apart by constants where the rounds of loops are counted.
const CONSTANTS_MAX: usize = 3;

/// Last in, first out: what a node's paths wait for lies above its `Finish`.
pub(crate) enum Work {
    Follow(Box<Path>),
    /// Every path through this node was followed.
    Finish(usize),
}

/// One path, at instruction `at`.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) at: usize,
    pub(crate) state: State,
    /// The last node that the path came through, and what was written since.
    pub(crate) node: Option<usize>,
    pub(crate) written: Places,
    /// Times that the path went on behind a `may_goto`.
    pub(crate) passes: u32,
    /// The instruction before `at`; behind a call of the program's own functions, the call.
    pub(crate) from: usize,
    /// The innermost loop that the path is in, by the time that it entered it (`counted`).
    pub(crate) entry: Option<u32>,
}

impl Path {
    fn start(kind: ProgramKind, zeroes_frames: bool) -> Path {
        Path {
            at: 0,
            state: State::entry(kind, zeroes_frames),
            node: None,
            written: Places::default(),
            passes: 0,
            from: 0,
            entry: None,
        }
    }
}

/// A remembered state's place in the tree of paths.
struct Node {
    parent: Option<usize>,
    /// Written between the parent and here.
    written: Places,
    /// Read after here, of what is not written between.
    read: Places,
    /// Places whose links with each other here something found out after here rests on.
    rests: Places,
    finished: bool,
}

pub(crate) struct Remembered {
    node: usize,
    passes: u32,
    /// The loop that the path was in; that of the head is none yet.
    entry: Option<u32>,
    state: Box<State>,
    fingerprint: OnceCell<u64>,
    /// The register whose constant last told a path apart.
    witness: Cell<u8>,
    /// Paths that it covered, and paths that it was compared with in vain, once finished.
    hits: Cell<u32>,
    misses: Cell<u32>,
}

impl Remembered {
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| self.state.fingerprint())
    }

    /// Some register among the innermost frame's `places` has another constant than here: neither state covers the
    /// other. The register that showed it last is looked at first, since most often it is a loop's count.
    fn has_other_constants(&self, state: &State, places: FramePlaces) -> bool {
        let differs = |register: u8| {
            let at = usize::from(register);
            places & register_place(register) != 0
                && differ_as_constants(self.state.registers[at], state.registers[at])
        };
        if differs(self.witness.get()) {
            return true;
        }
        let found = (0..10).find(|register| differs(*register));
        self.witness.set(found.unwrap_or(self.witness.get()));
        found.is_some()
    }

    /// Not worth comparing any more: paths come to it from where they differ.
    fn is_stale(&self) -> bool {
        self.misses.get() > MISSES_MAX + MISSES_PER_HIT * self.hits.get()
    }
}

/// How often a state is compared in vain before it is forgotten. Paths wait last in, first out, so that states deep in
/// a loop are of use first, and never again when paths of earlier rounds come.
const MISSES_MAX: u32 = 32;
const MISSES_PER_HIT: u32 = 4;

/// How far one path's rounds are beyond another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// Fewer are left, of `may_goto` or of a helper that is under way in both.
    Some,
    Equal,
    /// More are left, or nothing can be said.
    None,
}

/// Where a path goes after an instruction.
pub(crate) enum Next {
    To(usize),
    /// Both ways: to the first, while the path waits.
    Both(usize, Box<Path>),
    End,
}

fn may_not_end<T>(what: &str, limit: usize) -> Result<T, Refusal> {
    too_big(format!("{limit} {what} and no end was found: a loop may not end, or there are too many paths"))
}

pub(crate) struct Walk<'a> {
    pub(crate) kind: ProgramKind,
    pub(crate) ops: &'a [Op],
    pub(crate) maps: &'a [MapSpec],
    pub(crate) functions: &'a Functions,
    pub(crate) numbers: &'a Numbers,
    pub(crate) limits: &'a Limits,
    observer: Option<&'a Observer>,
    pub(crate) precision: Precision<'a>,
    pub(crate) counting: Option<Counting<'a>>,
    nodes: Vec<Node>,
    /// For jump targets and the like: the states remembered there, oldest first.
    pub(crate) remembered: Vec<Option<Vec<Remembered>>>,
    remembered_count: usize,
    /// By instruction: a jump back goes round it that passes no `may_goto` and no callback. For precision alone.
    in_bounded_loop: Vec<bool>,
    /// By number of [`Rounds`]: the node where they began, if it is remembered.
    rounds_entries: Vec<Option<usize>>,
    explored: u32,
    explored_max: u32,
    pub(crate) has_merged: &'a Cell<bool>,
    pub(crate) reads_unwritten: &'a Cell<bool>,
    /// Branches that wait.
    pub(crate) pending: usize,
    last_id: u32,
    pub(crate) seen: Vec<Seen>,
    /// By function.
    stack_deepest: Vec<i64>,
    pub(crate) context_reads: u32,
    /// Some access to a per-CPU value is more than an addition to it.
    pub(crate) needs_lane: bool,
    /// Something is written through a pointer into the packet, or its metadata.
    pub(crate) writes_packet: bool,
}

/// By instruction: it lies between a jump back and its target, with no rounds in between.
fn bounded_loops(ops: &[Op]) -> Vec<bool> {
    let mut inside = vec![false; ops.len()];
    for (at, op) in ops.iter().enumerate() {
        let (Op::Jump { target } | Op::Branch { target, .. }) = *op else { continue };
        if target <= at && !ops[target..=at].iter().any(begins_rounds) {
            inside[target..=at].fill(true);
        }
    }
    inside
}

impl<'a> Walk<'a> {
    fn new(input: Input<'a>, precision: Precision<'a>) -> Walk<'a> {
        let Input {
            kind, ops, functions, numbers, maps, limits, observer, has_merged, reads_unwritten, ..
        } = input;
        let (counting, explored_max) = match precision {
            Precision::Counted(loops) | Precision::Gathered(loops) => {
                (Some(Counting::new(loops, ops.len())), followed_max(ops.len(), limits))
            }
            _ => (None, limits.explored_insns_max),
        };
        if let Some(observer) = observer {
            observer.begin(ops.len());
        }
        // Memory and its size are in registers before the first instruction.
        let at_entry = match kind {
            ProgramKind::Memory { .. } => Field::slots(memory::ADDRESS, 8) | Field::slots(memory::BYTES, 8),
            _ => 0,
        };
        let mut remembered: Vec<Option<Vec<Remembered>>> = ops.iter().map(|_| None).collect();
        for (at, op) in ops.iter().enumerate() {
            let (here, there) = match *op {
                Op::Jump { target } | Op::Branch { target, .. } => (None, Some(target)),
                Op::MayGoto { target } => (Some(at), Some(target)),
                // No call is the last instruction of its function.
                Op::CallLocal { target } => (Some(at + 1), Some(target)),
                Op::Call { helper } if helper.callback().is_some() => (Some(at), None),
                Op::Function { target, .. } => (None, Some(target)),
                _ => (None, None),
            };
            for target in [here, there].into_iter().flatten() {
                remembered[target] = Some(Vec::new());
            }
        }
        Walk {
            kind,
            ops,
            maps,
            functions,
            numbers,
            limits,
            observer,
            precision,
            counting,
            nodes: Vec::new(),
            remembered,
            remembered_count: 0,
            in_bounded_loop: bounded_loops(ops),
            rounds_entries: Vec::new(),
            explored: 0,
            explored_max,
            has_merged,
            reads_unwritten,
            pending: 0,
            last_id: 0,
            seen: vec![Seen::default(); ops.len()],
            stack_deepest: vec![0; functions.count()],
            context_reads: at_entry,
            needs_lane: false,
            writes_packet: false,
        }
    }

    fn run(&mut self, input: Input<'_>) -> At<Findings> {
        self.pending = 1;
        let mut work = vec![Work::Follow(Box::new(Path::start(input.kind, input.zeroes_frames)))];
        while let Some(next) = work.pop() {
            match next {
                Work::Finish(node) => self.nodes[node].finished = true,
                Work::Follow(mut path) => {
                    self.pending -= 1;
                    self.follow(&mut path, &mut work).map_err(|refusal| (Some(path.at), refusal))?;
                }
            }
        }
        let times = self.times().map_err(|refusal| (None, refusal))?;
        let callbacks =
            self.seen.iter().enumerate().filter_map(|(at, seen)| Some((at, seen.callback.always()?)));
        let nested_stack_bytes =
            input.functions.with_callbacks(callbacks)?.check_stack(&self.stack_deepest)?;
        let function = |(start, deepest): (&usize, &i64)| Function {
            start: *start,
            stack_bytes: (*deepest as u32).next_multiple_of(8),
        };
        let functions = input.functions.starts().iter().zip(&self.stack_deepest).map(function).collect();
        let seen = std::mem::take(&mut self.seen);
        Ok(Findings {
            seen,
            constants: Vec::new(),
            functions,
            nested_stack_bytes,
            context_reads: self.context_reads,
            needs_lane: self.needs_lane,
            writes_packet: self.writes_packet,
            zeroes_frames: input.zeroes_frames,
            times,
        })
    }

    /// Follows `path` to its end, or to where it was seen before.
    fn follow(&mut self, path: &mut Path, work: &mut Vec<Work>) -> Result<(), Refusal> {
        loop {
            let is_known = self.remembered[path.at].is_some()
                && match self.gather(path, work) {
                    Gathered::Waits => continue,
                    Gathered::Joined => true,
                    Gathered::No => self.arrive(path, work)?,
                };
            // Only now: arriving may have made the state wider.
            if let Some(observer) = self.observer {
                observer.visit(path.at, &path.state, is_known, |value| self.describe(value));
            }
            if is_known {
                return Ok(());
            }
            self.count()?;
            if let Some(counting) = &mut self.counting {
                counting.count(path);
            }
            self.seen[path.at].reached = true;
            path.from = path.at;
            match self.step(path)? {
                Next::To(at) => {
                    if let Op::Exit = self.ops[path.at] {
                        // Back behind a call: the loop around that is still the path's.
                        path.from = at - 1;
                    }
                    path.at = at;
                }
                Next::Both(at, waiting) => {
                    if self.pending >= self.limits.pending_branches_max {
                        return may_not_end("branches wait", self.limits.pending_branches_max);
                    }
                    self.pending += 1;
                    work.push(Work::Follow(waiting));
                    path.at = at;
                }
                Next::End => return Ok(()),
            }
        }
    }

    fn count(&mut self) -> Result<(), Refusal> {
        self.explored += 1;
        if self.explored > self.explored_max {
            return may_not_end("instructions were followed", self.explored_max as usize);
        }
        Ok(())
    }

    /// At a jump target: true if the path needs not be followed further; else remembers its state.
    fn arrive(&mut self, path: &mut Path, work: &mut Vec<Work>) -> Result<bool, Refusal> {
        path.state.links.drop_alone();
        let begins_rounds = path.state.rounds.is_none() && self.calls_back(path.at);
        if begins_rounds {
            // The entry is known when the state is remembered.
            path.state.rounds = Some(Rounds { id: self.rounds_entries.len(), passes: 0, done: 0 });
            self.rounds_entries.push(None);
        }
        let arrival = self.counting.as_ref().map_or(Arrival::Elsewhere, |counting| counting.arrival(path));
        if arrival == Arrival::Round {
            return self.next_round(path);
        }
        if self.covered(path)? {
            return Ok(true);
        }
        let is_joined = match self.precision {
            Precision::Exact => false,
            Precision::Counted(_) | Precision::Gathered(_) | Precision::Merged => self.merge(path),
            Precision::Joined => self.join(path),
            Precision::Rounds => {
                // A constant that counts a loop is what shows that it ends.
                let is_counted = self.in_bounded_loop[path.at];
                self.join_rounds(path) || if is_counted { self.merge(path) } else { self.join(path) }
            }
        };
        if is_joined && self.covered(path)? {
            return Ok(true);
        }
        let node = self.nodes.len();
        let written = std::mem::take(&mut path.written);
        let (read, rests) = (Places::default(), Places::default());
        self.nodes.push(Node { parent: path.node, written, read, rests, finished: false });
        path.node = Some(node);
        work.push(Work::Finish(node));
        if let (true, Some(rounds)) = (begins_rounds, path.state.rounds) {
            self.rounds_entries[rounds.id] = Some(node);
        }
        self.remember(path, node);
        if let Arrival::Entry(number) = arrival {
            self.enter_loop(path, number)?;
        }
        Ok(false)
    }

    /// The path's state, to be compared with that of paths to come.
    fn remember(&mut self, path: &Path, node: usize) {
        let Some(here) = &mut self.remembered[path.at] else { return };
        let count = here.len();
        here.retain(|old| !old.is_stale());
        self.remembered_count -= count - here.len();
        if here.len() >= self.limits.states_per_insn_max {
            here.remove(0);
        } else if self.remembered_count < self.limits.states_max {
            self.remembered_count += 1;
        } else {
            // A state that is not remembered costs time later, nothing else.
            return;
        }
        let state = Box::new(path.state.clone());
        here.push(Remembered {
            node,
            passes: path.passes,
            entry: path.entry,
            state,
            fingerprint: OnceCell::new(),
            witness: Cell::default(),
            hits: Cell::default(),
            misses: Cell::default(),
        });
    }

    /// A finished path covers this one. Refused where an unfinished one is this one: a loop without progress.
    fn covered(&mut self, path: &Path) -> Result<bool, Refusal> {
        let Some(here) = &self.remembered[path.at] else { return Ok(false) };
        let fingerprint = OnceCell::new();
        let fingerprint = || *fingerprint.get_or_init(|| path.state.fingerprint());
        let everywhere = |_| WHOLE_FRAME;
        let numbers = self.numbers.at(path.at);
        for old in here.iter().rev() {
            let Node { finished, read, rests, .. } = &self.nodes[old.node];
            if self.counting.is_some() && (!finished || old.entry != path.entry) {
                // What is known of a loop's rounds is known of those who entered with it.
                continue;
            }
            let decides = if *finished { read.of(path.state.depth()) & numbers } else { WHOLE_FRAME };
            if old.has_other_constants(&path.state, decides) {
                old.misses.set(old.misses.get() + u32::from(*finished));
                continue;
            }
            let progress = self.progress(old, path);
            if *finished {
                if progress != Progress::None
                    && covers(
                        &old.state,
                        &path.state,
                        |frame| read.of(frame),
                        numbers,
                        |frame| rests.of(frame),
                    )
                {
                    old.hits.set(old.hits.get() + 1);
                    let (read, rests) = (read.clone(), rests.clone());
                    self.read_all(path, |frame| read.of(frame), |frame| rests.of(frame));
                    return Ok(true);
                }
                old.misses.set(old.misses.get() + 1);
            } else if progress == Progress::Some {
                if covers_wholly(&old.state, &path.state) {
                    // What the unfinished path will go on to read is not known yet.
                    self.read_all(path, everywhere, everywhere);
                    return Ok(true);
                }
            } else if old.fingerprint() == fingerprint()
                && covers_wholly(&old.state, &path.state)
                && covers_wholly(&path.state, &old.state)
            {
                return refuse(
                    "the loop may not end: a round begins with exactly what an earlier one began with",
                );
            }
        }
        Ok(false)
    }

    /// How much nearer to the end of its rounds `path` is than the earlier one.
    fn progress(&self, earlier: &Remembered, path: &Path) -> Progress {
        match earlier.passes.cmp(&path.passes) {
            Ordering::Less => return Progress::Some,
            Ordering::Greater => return Progress::None,
            Ordering::Equal => {}
        }
        for rounds in earlier.state.rounds().zip(path.state.rounds()) {
            let (Some(earlier), Some(now)) = rounds else { continue };
            if earlier.id != now.id {
                // Whatever was dropped in that call's rounds led into them; that is well if they are done with.
                let entry = self.rounds_entries[earlier.id];
                if !entry.is_some_and(|entry| self.nodes[entry].finished) {
                    return Progress::None;
                }
                continue;
            }
            match earlier.passes.cmp(&now.passes) {
                Ordering::Less => return Progress::Some,
                Ordering::Greater => return Progress::None,
                Ordering::Equal => {}
            }
        }
        Progress::Equal
    }

    /// A helper is called at `at` that calls back.
    fn calls_back(&self, at: usize) -> bool {
        matches!(self.ops[at], Op::Call { helper } if helper.callback().is_some())
    }

    /// Makes the path's state one that also holds an earlier one's, where many differ in numbers alone.
    fn join(&self, path: &mut Path) -> bool {
        let Some(here) = &self.remembered[path.at] else { return false };
        // Inside a loop the numbers are what ends it.
        let in_loop = here.iter().any(|old| !self.nodes[old.node].finished);
        if in_loop || here.len() < JOIN_AFTER_STATES {
            return false;
        }
        let how = match here.len() {
            BOUND_AFTER_STATES.. => Join::Unknown,
            FORGET_AFTER_STATES.. => Join::Bound,
            _ => Join::Hull,
        };
        let joined = here.iter().rev().find_map(|old| old.state.join(&path.state, how));
        joined.map(|joined| path.state = joined).is_some()
    }

    /// Numbers whose constants keep paths apart at an instruction, and how others become one.
    fn numbers_kept(&self, at: usize) -> (FramePlaces, fn(Scalar, Scalar) -> Scalar) {
        let remembered = self.remembered[at].as_ref().map_or(0, Vec::len);
        match &self.counting {
            Some(counting) if counting.is_by_rounds(at) => (self.numbers.at(at), Scalar::widen),
            // Where rounds are counted, no constant is needed to see a loop end; some are kept apart, for what they
            // decide else.
            Some(_) if remembered >= CONSTANTS_MAX => (0, Scalar::join),
            Some(_) => (self.numbers.at(at), Scalar::join),
            None => (self.numbers.at(at), Scalar::widen),
        }
    }

    /// Makes the path's state one that also holds that of a finished path, where they differ in ranges of numbers
    /// alone.
    fn merge(&self, path: &mut Path) -> bool {
        let Some(here) = &self.remembered[path.at] else { return false };
        let (numbers, how) = self.numbers_kept(path.at);
        let merged = here.iter().rev().filter(|old| self.nodes[old.node].finished).find_map(|old| {
            let read = self.nodes[old.node].read.of(0);
            let is_apart = old.has_other_constants(&path.state, read & numbers);
            if is_apart { None } else { path.state.merge(&old.state, read, numbers, how) }
        });
        let Some(merged) = merged else { return false };
        // What a merged state did not hold would be missing from the proof, so that one property is looked at each
        // time.
        let holds = covers_wholly(&merged, &path.state);
        debug_assert!(holds, "a merged state holds the path's own");
        if !holds {
            return false;
        }
        self.has_merged.set(true);
        path.state = merged;
        true
    }

    /// Makes the path's state where a round begins one that also holds an earlier round's: then a few rounds stand for
    /// all.
    fn join_rounds(&self, path: &mut Path) -> bool {
        let begins_round = matches!(self.ops[path.at], Op::MayGoto { .. }) || self.calls_back(path.at);
        let (true, Some(here)) = (begins_round, &self.remembered[path.at]) else {
            return false;
        };
        let earlier =
            |old: &&Remembered| !self.nodes[old.node].finished && self.progress(old, path) == Progress::Some;
        let joined =
            here.iter().rev().filter(earlier).find_map(|old| old.state.join(&path.state, Join::Round));
        joined.map(|joined| path.state = joined).is_some()
    }

    /// Marks `places` of `frame` as read on all nodes above the path, up to the writes that made the values.
    pub(crate) fn read(&mut self, path: &Path, frame: usize, places: FramePlaces) {
        self.mark(path, frame, places, |node| &mut node.read);
    }

    /// The same of places that something is known of by their links.
    pub(crate) fn rests_on_link(&mut self, path: &Path, frame: usize, places: FramePlaces) {
        self.mark(path, frame, places, |node| &mut node.rests);
    }

    fn mark(&mut self, path: &Path, frame: usize, places: FramePlaces, how: fn(&mut Node) -> &mut Places) {
        let mut places = places & !path.written.of(frame);
        let mut above = path.node;
        while let Some(at) = above {
            let node = &mut self.nodes[at];
            if places & !how(node).of(frame) == 0 {
                return;
            }
            how(node).add(frame, places);
            places &= !node.written.of(frame);
            above = node.parent;
        }
    }

    /// Both for places of every live frame.
    pub(crate) fn read_all(
        &mut self,
        path: &Path,
        places: impl Fn(usize) -> FramePlaces,
        links: impl Fn(usize) -> FramePlaces,
    ) {
        for frame in 0..=path.state.depth() {
            self.read(path, frame, places(frame));
            self.rests_on_link(path, frame, links(frame));
        }
    }

    /// A number that no value on any path has.
    pub(crate) fn new_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Notes that the stack of `frame` is used down to `off` (negative, inside).
    pub(crate) fn touch_stack(&mut self, path: &Path, frame: usize, off: i64) {
        debug_assert!((-STACK_BYTES..=0).contains(&off), "checked before");
        let inside = path.state.called_from(frame + 1).unwrap_or(path.at);
        let deepest = &mut self.stack_deepest[self.functions.at(inside)];
        *deepest = (*deepest).max(-off);
    }

    /// Notes which per-CPU map, if any, the access at `at` reaches. Where that differs by path, an engine cannot add
    /// the lane to the access: the pointer must be in it already.
    pub(crate) fn touch_per_cpu(&mut self, at: usize, map: Option<u32>) {
        self.needs_lane |= !self.seen[at].per_cpu_map.visit(map);
    }

    /// The same for the field of a packet's context that the access is to, if any.
    pub(crate) fn touch_field(&mut self, at: usize, field: Option<&'static Field>) -> Result<(), Refusal> {
        if self.seen[at].context_field.visit(field) {
            return Ok(());
        }
        unsupported("this access is to a field of the context on one path and elsewhere on another")
    }
}
