//! Plans the patches of many functions, and of places inside them, from their files alone.
//!
//! In: [`Place`]s in binaries. Out: for each a proved [`Window`], or the [`Refusal`]; how returns are caught is planned
//! in [`returns`], where functions leave in [`exits`], and whose code allows nothing else in [`walkers`]. No process is
//! needed, nothing is generated. The first step that can be proved is taken:
//!
//! 1. a near jump over one instruction (or a pad of the compiler's), where no thread can be caught inside;
//! 2. a near jump over several, or over the function's end and padding behind it;
//! 3. a short jump over the first instructions, to a near jump in a hole within 127 bytes: also where a call, a
//!    branch's target, another symbol or a page's end comes too early for 5 bytes;
//! 4. a near jump over instructions of which the last is a call, which the trampoline makes with the return address that
//!    it would have had;
//! 5. a punned jump over the first instruction, if the bytes behind it lead to where an outpost may stand: whether
//!    there is room in a process is seen when it is patched;
//! 6. refused, with the reason why step 2 was.
//!
//! In Go programs functions are entered behind the check of their stack ([`goroutine`]), and step 3 is left out.
//!
//! The proof has three parts: the function's own bytes ([`window`], [`body`]), other symbols that begin inside, and
//! everything else in the binary that could lead there: [`incoming`], two scans for all functions of a binary, and
//! landing pads, to which the unwinder goes by an offset that no scan of the code shows. Whether a process's memory is
//! like the file is checked when it is patched.
//!
//! What the patches of one call write, displace and borrow does not overlap; of two that would, the first in the list
//! stays. Deliberately not here yet: breakpoints, kernel uprobes, windows that begin before a place inside a function other than an exit.

#![forbid(unsafe_code)]

pub mod incoming;
mod isa;
pub mod limits;
mod parallel;
mod refusal;
mod walkers;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};

use crate::isa::native::body::{Bodies, Body};
use crate::isa::native::cave::Caves;
use crate::isa::native::window::{FunctionCode, Hole, Shape, Window};
use crate::isa::native::{cave, goroutine};
use crate::limits::{JUMP_BYTES, LOWEST_ADDRESS, SHORT_JUMP_BYTES};

pub use crate::isa::native::{body, entries, exits, returns, window};
pub use crate::refusal::Refusal;

/// Places of one binary for which all of its functions will be looked at.
const MANY_PLACES: usize = 256;

/// Where a probe is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// At the beginning of a function, behind an `endbr64`.
    Entry(&'a Function),
    /// At an instruction of a function.
    Inside(LinkAddr),
    /// At an instruction that leaves a function, as [`plan_exits`](crate::isa::native::exits::plan_exits) answered: programs run right before it, at the
    /// function's return.
    Exit(LinkAddr),
    /// At a word, and the address of a list behind it, of functions that are called where the word is not 0, as at the places of
    /// LTTng-UST's events.
    Called(LinkAddr),
}

/// Plans the entries of functions; see [`plan_sites`].
pub fn plan_functions(functions: &[(&Binary, &Function)]) -> Vec<Result<Window, Refusal>> {
    let sites: Vec<_> =
        functions.iter().map(|&(binary, function)| (binary, Place::Entry(function))).collect();
    plan_sites(&sites)
}

/// Plans every site from its file alone: how it would be patched, or why not. No process is needed.
pub fn plan_sites(sites: &[(&Binary, Place)]) -> Vec<Result<Window, Refusal>> {
    let mut by_binary: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, (binary, _)) in sites.iter().enumerate() {
        by_binary.entry(binary.path()).or_default().push(index);
    }
    let mut windows: Vec<Option<Result<Window, Refusal>>> = vec![None; sites.len()];
    for indices in by_binary.values() {
        let binary = sites[indices[0]].0;
        let called = |index: &usize| match sites[*index].1 {
            Place::Called(word) => Some(Ok(Window::called(word.0))),
            Place::Entry(_) | Place::Inside(_) | Place::Exit(_) => None,
        };
        for &index in indices {
            windows[index] = called(&index);
        }
        let in_text: Vec<usize> = indices.iter().copied().filter(|&index| windows[index].is_none()).collect();
        let places: Vec<Place> = in_text.iter().map(|&index| sites[index].1).collect();
        for (index, outcome) in in_text.into_iter().zip(plan_binary(binary, &places)) {
            windows[index] = Some(outcome);
        }
    }
    windows.into_iter().map(|window| window.expect("every site belongs to a binary")).collect()
}

/// Whether a breakpoint (of the kernel's uprobes) may be put at a place, as far as its file says it: at the beginning of an instruction which the code
/// that is meant executes, and may be interrupted at.
pub fn check_breakpoint(binary: &Binary, place: &Place) -> Result<(), Refusal> {
    let (start, at) = match place {
        Place::Entry(function) if function.kind == FunctionKind::Indirect => {
            return Err(Refusal::IndirectFunction);
        }
        Place::Entry(function) => (function.address, function.address),
        Place::Inside(at) | Place::Exit(at) => {
            (binary.function_bounds(*at).ok_or(Refusal::SizeUnknown)?.start, *at)
        }
        Place::Called(_) => return Err(Refusal::NotAnInstruction { offset: 0 }),
    };
    if binary.restartable_sequences().iter().any(|code| code.contains(&at)) {
        return Err(Refusal::Restartable { offset: at.0 - start.0 });
    }
    let length = (at.0 - start.0) as usize + INSTRUCTION_BYTES_MAX;
    let behind = binary.executable_ranges().into_iter().find_map(|(first, bytes)| {
        let bytes = bytes.get(usize::try_from(start.0.checked_sub(first.0)?).ok()?..)?;
        (!bytes.is_empty()).then(|| &bytes[..bytes.len().min(length)])
    });
    FunctionCode::at(start.0, behind.unwrap_or_default(), &[], at.0).check_place()
}

/// Of x86-64.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// A place in a function that can be decoded, and how it is to be patched.
struct Planned<'a> {
    code: FunctionCode<'a>,
    body: Arc<Body>,
    window: Result<Window, Refusal>,
}

fn plan_binary(binary: &Binary, places: &[Place]) -> Vec<Result<Window, Refusal>> {
    let mut bodies = Bodies::new(binary);
    if places.len() >= MANY_PLACES {
        // Each is going to be asked for: at once, they are decoded on several threads.
        bodies.all();
    }
    let small = walkers::on_small_stacks(binary);
    let mut sites: Vec<Result<Planned, Refusal>> =
        places.iter().map(|place| read(&mut bodies, place, &small)).collect();
    let mut planned: Vec<&mut Planned> = sites.iter_mut().filter_map(|site| site.as_mut().ok()).collect();
    let mut ground = Ground::default();
    plan_near(&mut bodies, &mut planned, &mut ground);
    // By address, so that holes are given out in their order.
    planned.sort_by_key(|site| site.code.place);
    // Go's runtime ends the program when it sees a thread where a function's tables do not say what is there: in padding.
    if !binary.is_go() {
        plan_through_holes(&mut bodies, &mut planned, &mut ground);
    }
    plan_to_calls(&mut bodies, &mut planned, &mut ground);
    plan_punned(binary, &mut planned, &mut ground);
    sites.into_iter().map(|site| site.and_then(|planned| planned.window)).collect()
}

/// `small`: code on stacks that may have no room for a probe.
fn read<'a>(bodies: &mut Bodies<'a>, place: &Place, small: &[Range<u64>]) -> Result<Planned<'a>, Refusal> {
    let binary = bodies.binary();
    let range = match place {
        Place::Entry(function) if function.kind == FunctionKind::Indirect => {
            return Err(Refusal::IndirectFunction);
        }
        Place::Entry(function) => function.address.0..function.address.0.saturating_add(function.size),
        Place::Inside(address) | Place::Exit(address) => {
            let bounds = binary.function_bounds(*address).ok_or(Refusal::SizeUnknown)?;
            bounds.start.0..bounds.end.0
        }
        Place::Called(_) => return Err(Refusal::SizeUnknown),
    };
    if small.iter().any(|code| code.contains(&range.start)) {
        return Err(Refusal::StackUnchecked { offset: 0 });
    }
    let size = range.end - range.start;
    let bytes = binary.bytes(LinkAddr(range.start), size as usize).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or(Refusal::SizeUnknown)?;
    if size > crate::limits::FUNCTION_BYTES_MAX {
        return Err(Refusal::TooLong { bytes: size, max: crate::limits::FUNCTION_BYTES_MAX });
    }
    if is_entered_behind_its_first_byte(binary, range.start, place) {
        return Err(Refusal::BranchIntoWindow { offset: 1 });
    }
    let behind = cave::behind(binary, range.end);
    let start = range.start;
    let body = bodies.of(range).ok_or(Refusal::SizeUnknown)?;
    let code = match place {
        Place::Entry(_) => FunctionCode::at_entry(start, bytes, behind),
        Place::Inside(address) => FunctionCode::at(start, bytes, behind, address.0),
        Place::Exit(address) => {
            let before = exits::in_a_row_before(bytes, start, address.0);
            FunctionCode::at_exit(start, bytes, behind, address.0, &before, &body)
        }
        Place::Called(_) => return Err(Refusal::SizeUnknown),
    };
    let code = if binary.is_go() { goroutine::on_goroutine(code)? } else { code };
    Ok(Planned { code, body, window: Err(Refusal::SizeUnknown) })
}

/// Go's scheduler gives every goroutine the second byte of `runtime.goexit` to return to, which nothing in the file says.
fn is_entered_behind_its_first_byte(binary: &Binary, start: u64, place: &Place) -> bool {
    let is_start = match place {
        Place::Entry(_) => true,
        Place::Inside(address) | Place::Exit(address) => address.0 == start,
        Place::Called(_) => false,
    };
    let is_named = |function: &Function| matches!(&*function.name, "runtime.goexit" | "runtime.goexit.abi0");
    is_start && binary.is_go() && binary.function_at(LinkAddr(start)).is_some_and(is_named)
}

/// Bytes of a file that planned patches need, and how, by link address.
#[derive(Default)]
struct Ground {
    /// To the address of the window.
    displaced: HashMap<u64, u64>,
    written: HashSet<u64>,
    /// Tails of punned jumps.
    borrowed: HashSet<u64>,
}

impl Ground {
    /// The window in the way of `window`.
    fn check(&self, window: &Window) -> Result<(), Refusal> {
        let other = window.displaced().find_map(|byte| self.displaced.get(&byte).copied());
        let other = other.or_else(|| {
            let is_used = |byte: &u64| !self.is_free(*byte);
            window
                .written()
                .find(is_used)
                .or_else(|| window.borrowed().find(|byte| self.written.contains(byte)))
        });
        other.map_or(Ok(()), |address| Err(Refusal::Overlap { address }))
    }

    fn is_free(&self, byte: u64) -> bool {
        !self.displaced.contains_key(&byte) && !self.written.contains(&byte) && !self.borrowed.contains(&byte)
    }

    fn take(&mut self, window: &Window) {
        self.displaced.extend(window.displaced().map(|byte| (byte, window.address)));
        self.written.extend(window.written());
        self.borrowed.extend(window.borrowed());
    }
}

/// Steps 1 and 2: one jump that leads far enough.
fn plan_near(bodies: &mut Bodies, sites: &mut [&mut Planned], ground: &mut Ground) {
    for site in sites.iter_mut() {
        let near = window::plan(site.code, &site.body);
        site.window = near.and_then(|window| nothing_begins_inside(bodies.binary(), site, window));
    }
    let windows = sites.iter().filter_map(|site| site.window.as_ref().ok());
    let asked: Vec<Vec<u64>> = windows.map(Window::unreachable).collect();
    let reached = incoming::reached(bodies, &asked);
    for site in sites.iter_mut() {
        let Ok(window) = &site.window else { continue };
        let checked = refused_by(&reached, site, window).map_or_else(|| ground.check(window), Err);
        match checked {
            Ok(()) => ground.take(window),
            Err(refusal) => site.window = Err(refusal),
        }
    }
}

/// Step 3, for those that step 2 was refused for.
fn plan_through_holes(bodies: &mut Bodies, sites: &mut [&mut Planned], ground: &mut Ground) {
    let binary = bodies.binary();
    let mut caves = Caves::new(binary);
    let wanting: Vec<(usize, Window, Vec<Hole>)> = sites
        .iter()
        .enumerate()
        .filter(|(_, site)| site.window.is_err())
        .filter_map(|(index, site)| {
            short_window(binary, site, &mut caves).map(|(w, holes)| (index, w, holes))
        })
        .collect();
    let addresses = |window: &Window, holes: &[Hole]| {
        let holes: BTreeSet<u64> = holes.iter().flat_map(Hole::range).collect();
        window.interior().chain(holes).collect()
    };
    let asked: Vec<Vec<u64>> = wanting.iter().map(|(_, window, holes)| addresses(window, holes)).collect();
    let reached = incoming::reached(bodies, &asked);
    for (index, mut window, holes) in wanting {
        if window.interior().any(|address| reached.contains(&address)) {
            continue;
        }
        let is_free =
            |hole: &&Hole| hole.range().all(|byte| ground.is_free(byte) && !reached.contains(&byte));
        let Some(hole) = holes.iter().find(is_free) else { continue };
        window.shape = Shape::Short(hole.clone());
        if ground.check(&window).is_ok() {
            ground.take(&window);
            sites[index].window = Ok(window);
        }
    }
}

/// Step 4, for those that are left.
fn plan_to_calls(bodies: &mut Bodies, sites: &mut [&mut Planned], ground: &mut Ground) {
    let binary = bodies.binary();
    let refused = sites.iter().enumerate().filter(|(_, site)| site.window.is_err());
    let wanting: Vec<(usize, Window)> = refused
        .filter_map(|(index, site)| {
            let window = window::plan_to_call(site.code, &site.body);
            let window = window.and_then(|window| nothing_begins_inside(binary, site, window));
            window.ok().map(|window| (index, window))
        })
        .collect();
    let asked: Vec<Vec<u64>> = wanting.iter().map(|(_, window)| window.unreachable()).collect();
    let reached = incoming::reached(bodies, &asked);
    for (index, window) in wanting {
        if refused_by(&reached, sites[index], &window).is_none() && ground.check(&window).is_ok() {
            ground.take(&window);
            sites[index].window = Ok(window);
        }
    }
}

/// Step 5, for those that are left. Not at exits: whether there is room is seen when the others are patched, and a function of which one exit
/// is missing would be counted wrong.
fn plan_punned(binary: &Binary, sites: &mut [&mut Planned], ground: &mut Ground) {
    for site in sites.iter_mut().filter(|site| site.window.is_err() && site.code.exit.is_none()) {
        let punned = window::plan_punned(site.code, &site.body);
        let punned = punned.and_then(|window| nothing_begins_inside(binary, site, window));
        if let Ok(window) = punned
            && may_have_room(binary, &window)
            && ground.check(&window).is_ok()
        {
            ground.take(&window);
            site.window = Ok(window);
        }
    }
}

/// Whether an outpost could stand somewhere where the jump at `window` leads, going by the file alone.
fn may_have_room(binary: &Binary, window: &Window) -> bool {
    const PAGE: u64 = 4096;
    // Where a movable file will stand is not known: nowhere near the ends of memory.
    let bias = if binary.is_position_independent() { 1 << 40 } else { 0 };
    let Some(targets) = window.targets(bias).filter(|targets| targets.end > LOWEST_ADDRESS) else {
        return false;
    };
    let segments = binary.segments();
    let start = segments.iter().map(|segment| segment.address.0).min().unwrap_or(0) / PAGE * PAGE;
    let end = segments.iter().map(|segment| segment.address.0 + segment.file_bytes).max().unwrap_or(0);
    targets.start < bias + start || bias + end.next_multiple_of(PAGE) < targets.end
}

/// The window of a short jump for `site`, and the holes that it may lead to, the best first.
fn short_window(binary: &Binary, site: &Planned, caves: &mut Caves) -> Option<(Window, Vec<Hole>)> {
    let at = site.code.place;
    let starts = window::hole_range(at);
    let runs = caves.within(starts.start..starts.end + JUMP_BYTES as u64 - 1);
    let holes: Vec<Hole> = runs.into_iter().flat_map(|run| holes(binary, run)).collect();
    let window = window::plan_short(site.code, &site.body, holes.first()?.clone()).ok()?;
    let window = nothing_begins_inside(binary, site, window).ok()?;
    let own = window.address
        ..window.address + (window.bytes.len() + window.padding.len()).max(SHORT_JUMP_BYTES) as u64;
    let mut holes: Vec<Hole> = holes
        .into_iter()
        .filter(|hole| starts.contains(&hole.address) && hole.range().all(|byte| !own.contains(&byte)))
        .filter(|hole| !hole.range().any(|byte| site.body.targets.contains(&byte)))
        .collect();
    // Between functions first: inside one, somebody may have meant it.
    holes.sort_by_key(|hole| binary.function_bounds(LinkAddr(hole.address)).is_some());
    (!holes.is_empty()).then_some((window, holes))
}

/// Every place in `run` where a jump fits that crosses no page, and where no symbol is.
fn holes(binary: &Binary, run: Range<u64>) -> Vec<Hole> {
    let last = (run.end + 1).saturating_sub(JUMP_BYTES as u64);
    let is_named = |range: Range<u64>| {
        let functions = binary.functions();
        let next = functions.partition_point(|function| function.address.0 < range.start);
        functions.get(next).is_some_and(|function| range.contains(&function.address.0))
    };
    let hole = |address: u64| {
        let hole = Hole { address, bytes: binary.bytes(LinkAddr(address), JUMP_BYTES)?.try_into().ok()? };
        let crosses = address / 4096 != (address + JUMP_BYTES as u64 - 1) / 4096;
        (!crosses && !is_named(hole.range())).then_some(hole)
    };
    (run.start..last).filter_map(hole).collect()
}

/// Refuses `window` where another symbol begins inside what is displaced or written, exceptions land, or the kernel
/// restarts.
fn nothing_begins_inside(binary: &Binary, site: &Planned, window: Window) -> Result<Window, Refusal> {
    if window.instructions.len() > 1 {
        site.body.unknown_jump(binary.is_position_independent())?;
        match binary.landing_pads() {
            Some(pads) => {
                let pad = window.interior().find(|ip| pads.binary_search(&LinkAddr(*ip)).is_ok());
                if let Some(pad) = pad {
                    return Err(Refusal::BranchIntoWindow { offset: pad - site.code.address });
                }
            }
            // Compilers land no exception at the first instructions of a function.
            None if window.inside => return Err(Refusal::LandingPads),
            None => {}
        }
    }
    let displaced = window.displaced();
    let overlaps = |s: &&Range<LinkAddr>| s.start.0 < displaced.end && displaced.start < s.end.0;
    if let Some(sequence) = binary.restartable_sequences().iter().find(overlaps) {
        let offset = (sequence.start.0 + 1).saturating_sub(site.code.address);
        return Err(Refusal::Restartable { offset });
    }
    let functions = binary.functions();
    let next = functions.partition_point(|other| other.address <= LinkAddr(window.address));
    let end = window.address + window.covered().len() as u64;
    match functions.get(next).filter(|other| other.address.0 < end) {
        Some(other) => {
            let offset = other.address.0 - site.code.address;
            Err(Refusal::SymbolInWindow { name: other.name.clone(), offset })
        }
        None => Ok(window),
    }
}

fn refused_by(reached: &HashSet<u64>, site: &Planned, window: &Window) -> Option<Refusal> {
    let target = window.unreachable().into_iter().find(|address| reached.contains(address))?;
    Some(Refusal::BranchIntoWindow { offset: target - site.code.address })
}
