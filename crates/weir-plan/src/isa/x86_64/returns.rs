//! Plans how the returns of functions are caught, from their files alone.
//!
//! In: functions of binaries. Out: for each the way in which its return can be caught, or the [`Refusal`].
//!
//! - *call-through*: the trampoline calls the function, and the function returns to the trampoline. What it keeps lies
//!   on the stack between the caller's frame and the function's, so this is only for functions that are proved neither
//!   to read nor to take the address of anything at or above their return address, nor any function that they may end
//!   in by a jump ([`crate::isa::x86_64::walk`]).
//! - *replacement*: the return address is replaced by that of a stub (weir-probe's `replace`), for functions that are
//!   proved to do nothing with it but return there: they may use arguments on the stack.
//!
//! - *exits*: programs run at each instruction that leaves the function ([`crate::isa::x86_64::exits`]), and neither stack nor return address is
//!   touched: for code of runtimes that walk stacks by their return addresses ([`crate::walkers`]). Nothing is kept between entry and return.
//!
//! Never: parts of functions that lie elsewhere (`.cold`, landing pads), which are jumped to with the function's frame in
//! place: nothing may come between. Nor functions that come back twice or elsewhere, and those that ask who called
//! them: most of these could not be proved either, and their names are a second net.
//!
//! Deliberately not here: tail calls into other binaries (through the PLT), prototypes from debug information.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use iced_x86::{Code, Decoder, DecoderOptions};
use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};

use crate::isa::x86_64::heights::{Doubt, Kept};
use crate::isa::x86_64::walk::{self, Failure, PART, Pieces, Ways};
use crate::limits::TAIL_TARGETS_MAX;
use crate::refusal::Refusal;
use crate::walkers::Walkers;

/// How a return is caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// The trampoline calls the function.
    CallThrough {
        /// Tail calls may lead from the function back to it, so how deep they nest is counted.
        recurs: bool,
    },
    /// The return address is replaced.
    Replace,
    /// Programs for the return are to run at the function's exits, which are places of their own, if
    /// [`plan_exits`](crate::isa::x86_64::exits::plan_exits) finds them.
    Exits,
}

/// Functions that come back twice, on another stack or not at all, and those that act by their caller's address.
const BLOCKED: [&str; 38] = [
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "sigsetjmp",
    "longjmp",
    "_longjmp",
    "__longjmp",
    "siglongjmp",
    "____longjmp_chk",
    "vfork",
    "__vfork",
    "getcontext",
    "__getcontext",
    "setcontext",
    "__setcontext",
    "swapcontext",
    "__swapcontext",
    "makecontext",
    "__makecontext",
    "__start_context",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "__clone_internal",
    "__restore_rt",
    "restore_rt",
    "_start",
    "_dl_start",
    "_dl_start_user",
    "dlopen",
    "dlsym",
    "dlvsym",
    "dlmopen",
    "dladdr",
    "dladdr1",
    "__libc_start_main",
    "__libc_start_call_main",
];
const BLOCKED_PREFIX: &str = "_dl_runtime_";
/// Functions that only the start of a program calls.
const STARTER_PREFIX: &str = "__libc_start_";
/// Functions that look at their own return address, and go on elsewhere by writing over it.
const UNWINDER_PREFIX: &str = "_Unwind_";

const TOO_MANY: Doubt = "it may end in one of too many functions";

/// Plans the return of every function from its file alone. No process is needed.
pub fn plan_returns(functions: &[(&Binary, &Function)]) -> Vec<Result<Returns, Refusal>> {
    let mut by_binary: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, (binary, _)) in functions.iter().enumerate() {
        by_binary.entry(binary.path()).or_default().push(index);
    }
    let mut planned: Vec<Option<Result<Returns, Refusal>>> = vec![None; functions.len()];
    for indices in by_binary.values() {
        let binary = functions[indices[0]].0;
        let mut graph = Graph::default();
        graph.walk_all(binary, indices.iter().map(|&index| functions[index].1));
        let refused = graph.refused();
        let recurring = graph.recurring();
        let (symbols, walkers) = (Symbols::of(binary), Walkers::of(binary));
        for &index in indices {
            let function = functions[index].1;
            let proved = Proved { graph: &graph, refused: &refused, recurring: &recurring };
            planned[index] = Some(answer(binary, function, &proved, &symbols, &walkers));
        }
    }
    planned.into_iter().map(|planned| planned.expect("every function belongs to a binary")).collect()
}

/// What is known of a binary's functions together.
struct Proved<'a> {
    graph: &'a Graph,
    refused: &'a HashMap<u64, Failure>,
    recurring: &'a HashSet<u64>,
}

fn answer(
    binary: &Binary,
    function: &Function,
    proved: &Proved,
    symbols: &Symbols,
    walkers: &Walkers,
) -> Result<Returns, Refusal> {
    let Proved { graph, refused, recurring } = *proved;
    if let Some(name) = function.names().find(|name| is_blocked(name)) {
        return Err(Refusal::ReturnBlocked { name: name.to_owned() });
    }
    if function.kind == FunctionKind::Indirect {
        return Err(Refusal::IndirectFunction);
    }
    if walkers.walk(binary, function) {
        return Ok(Returns::Exits);
    }
    let entry = walk::behind_landing_pad(binary, function.address.0);
    let lands = binary.landing_pads().is_none_or(|pads| pads.binary_search(&function.address).is_ok());
    if lands || graph.parts.contains(&entry) || function.names().any(|name| name.contains(PART)) {
        return Err(Refusal::ReturnPart);
    }
    if refused.contains_key(&entry) && walkers.has_runtime {
        // Called by such code, whose walker reads the return address.
        return Ok(Returns::Exits);
    }
    if refused.contains_key(&entry) {
        return replaceable(binary, function, entry, graph, symbols).map(|()| Returns::Replace);
    }
    match graph.tails.contains_key(&entry) {
        true => Ok(Returns::CallThrough { recurs: recurring.contains(&entry) }),
        false => Err(Refusal::SizeUnknown),
    }
}

/// Whether a function works with another return address: it only returns to it, and so do all that it may end in by
/// jumps one after the other; those in other files do not ask for it, going by their names.
fn replaceable(
    binary: &Binary,
    function: &Function,
    entry: u64,
    graph: &Graph,
    symbols: &Symbols,
) -> Result<(), Refusal> {
    let blocked = |name: &str| Refusal::ReturnBlocked { name: name.to_owned() };
    let is_harmful = |name: &str| is_blocked(name) || name.starts_with(UNWINDER_PREFIX);
    let own = function.address.0..function.address.0.saturating_add(function.size);
    let unproved = |failure: Failure| {
        let detail = match own.contains(&failure.at) {
            true => failure.detail.to_owned(),
            false => format!("(in {}) {}", name_of(binary, failure.at), failure.detail),
        };
        Refusal::ReturnUnproved { at: failure.at.wrapping_sub(function.address.0) as i64, detail }
    };
    let (mut others, mut seen, mut todo) = (false, HashSet::from([entry]), vec![entry]);
    while let Some(at) = todo.pop() {
        let there = binary.function_at(LinkAddr(at));
        if let Some(name) = there.and_then(|there| there.names().find(|name| is_harmful(name))) {
            return Err(blocked(name));
        }
        let slot = if there.is_none() { jump_slot(binary, at) } else { None };
        let ways = match slot {
            Some(slot) => Ways { slots: vec![slot], ..Ways::default() },
            None => graph.replaced(at).map_err(unproved)?,
        };
        others |= ways.others;
        for slot in ways.slots {
            match symbols.named.get(&slot) {
                Some(name) if is_harmful(name) => return Err(blocked(name)),
                Some(_) => {}
                None => others = true,
            }
        }
        todo.extend(ways.tails.into_iter().filter(|tail| seen.insert(*tail)));
    }
    // Through a pointer it gets to functions of other files only where their addresses are taken.
    match symbols.taken.as_deref().filter(|_| others) {
        Some(name) => Err(blocked(name)),
        None => Ok(()),
    }
}

/// Names of the places that a binary calls other files' functions through.
struct Symbols {
    named: HashMap<u64, String>,
    /// A function that no pointer should lead to, and that this file makes one to.
    taken: Option<String>,
}

impl Symbols {
    fn of(binary: &Binary) -> Symbols {
        let slots = binary.symbol_slots();
        let harmful = |name: &str| {
            (is_blocked(name) || name.starts_with(UNWINDER_PREFIX)) && !name.starts_with(STARTER_PREFIX)
        };
        let taken = slots.iter().find(|slot| !slot.for_calls && harmful(&slot.name));
        let taken = taken.map(|slot| slot.name.clone());
        Symbols { named: slots.into_iter().map(|slot| (slot.address.0, slot.name)).collect(), taken }
    }
}

/// The pointer that the entry of the PLT at `address` jumps through.
fn jump_slot(binary: &Binary, address: u64) -> Option<u64> {
    const ENTRY_BYTES: usize = 16;
    let entry = walk::behind_landing_pad(binary, address);
    let bytes = (1..=ENTRY_BYTES).rev().find_map(|length| binary.bytes(LinkAddr(entry), length))?;
    let jump = Decoder::with_ip(64, bytes, entry, DecoderOptions::NONE).decode();
    let is_jump = jump.code() == Code::Jmp_rm64 && jump.is_ip_rel_memory_operand();
    is_jump.then(|| jump.ip_rel_memory_address())
}

fn is_blocked(name: &str) -> bool {
    BLOCKED.contains(&name) || name.starts_with(BLOCKED_PREFIX)
}

fn name_of(binary: &Binary, address: u64) -> String {
    let function = binary.function_at(LinkAddr(address));
    function.map_or_else(|| format!("{address:#x}"), |function| function.name.clone())
}

/// Functions of one binary by the link address of their first instruction, and what they end in by jumps.
#[derive(Default)]
struct Graph {
    tails: HashMap<u64, Vec<u64>>,
    /// Parts of functions, which nothing calls.
    parts: HashSet<u64>,
    failed: HashMap<u64, Failure>,
    /// Of those: where they go, if they leave their return address alone.
    replaced: HashMap<u64, Result<Ways, Failure>>,
}

impl Graph {
    /// Where the function at `entry` goes, if it leaves its return address alone.
    fn replaced(&self, entry: u64) -> Result<Ways, Failure> {
        let proved = || {
            let tails = self.tails.get(&entry).cloned().ok_or(Failure { at: entry, detail: TOO_MANY })?;
            Ok(Ways { tails, ..Ways::default() })
        };
        self.replaced.get(&entry).cloned().unwrap_or_else(proved)
    }

    fn walk_all<'a>(&mut self, binary: &Binary, functions: impl Iterator<Item = &'a Function>) {
        let mut todo: Vec<u64> =
            functions.map(|function| walk::behind_landing_pad(binary, function.address.0)).collect();
        let mut pieces = Pieces::default();
        while let Some(entry) = todo.pop() {
            if self.tails.contains_key(&entry) || self.tails.len() >= TAIL_TARGETS_MAX {
                continue;
            }
            let mut tails = Vec::new();
            match walk::walk(binary, entry, Kept::AllAbove, &mut pieces, &mut self.parts) {
                Ok(ways) => tails = ways.tails,
                Err(failure) => {
                    self.failed.insert(entry, failure);
                    let ways = walk::walk(binary, entry, Kept::ReturnAddress, &mut pieces, &mut self.parts);
                    todo.extend(ways.iter().flat_map(|ways| &ways.tails));
                    self.replaced.insert(entry, ways);
                }
            }
            pieces.clear();
            todo.extend(&tails);
            self.tails.insert(entry, tails);
        }
    }

    /// Those that are not proved, and those that may end in one that is not; each with the reason.
    fn refused(&self) -> HashMap<u64, Failure> {
        let callers = self.callers();
        let mut refused = self.failed.clone();
        let unknown = self.tails.values().flatten().filter(|tail| !self.tails.contains_key(tail));
        let unknown = unknown.map(|&at| (at, Failure { at, detail: TOO_MANY }));
        refused.extend(unknown.collect::<Vec<_>>());
        let mut todo: Vec<u64> = refused.keys().copied().collect();
        while let Some(function) = todo.pop() {
            let failure = refused[&function].clone();
            for &caller in callers.get(&function).into_iter().flatten() {
                if let Entry::Vacant(vacant) = refused.entry(caller) {
                    vacant.insert(failure.clone());
                    todo.push(caller);
                }
            }
        }
        refused
    }

    /// Those that tail calls may lead back to, and those between two such.
    fn recurring(&self) -> HashSet<u64> {
        let callers = self.callers();
        let none = Vec::new();
        let ahead = |function: &u64| self.tails.get(function).unwrap_or(&none);
        let back = |function: &u64| callers.get(function).unwrap_or(&none);
        let all: HashSet<u64> = self.tails.keys().copied().collect();
        let left = without_ends(all, &ahead, &back);
        without_ends(left, &back, &ahead)
    }

    fn callers(&self) -> HashMap<u64, Vec<u64>> {
        let mut callers: HashMap<u64, Vec<u64>> = HashMap::new();
        for (&function, tails) in &self.tails {
            for &tail in tails {
                callers.entry(tail).or_default().push(function);
            }
        }
        callers
    }
}

/// Takes from `nodes` those that lead nowhere, again and again.
fn without_ends<'a>(
    mut nodes: HashSet<u64>,
    ahead: &dyn Fn(&u64) -> &'a Vec<u64>,
    back: &dyn Fn(&u64) -> &'a Vec<u64>,
) -> HashSet<u64> {
    let leads = |nodes: &HashSet<u64>, node: &u64| ahead(node).iter().any(|next| nodes.contains(next));
    let mut ends: Vec<u64> = nodes.iter().copied().filter(|node| !leads(&nodes, node)).collect();
    while let Some(end) = ends.pop() {
        if nodes.remove(&end) {
            ends.extend(
                back(&end).iter().copied().filter(|node| nodes.contains(node) && !leads(&nodes, node)),
            );
        }
    }
    nodes
}
