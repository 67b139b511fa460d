//! Writes jumps over the text of a running process, in slices: stops that are short, each for as many as it has time for.
//!
//! In: [`Jump`]s into code that is mapped already. Out: for each, that it stands, or the [`Refusal`].
//!
//! In each slice all threads are stopped; those in a window that is about to be written go on in its trampoline; then
//! text is compared with the file once more and written, a page at a time: one read, and one write for all jumps of a
//! page, which is what a stop's time goes to (40,000 writes of 5 bytes take 40 ms, 1,000 of a page 3). A jump whose
//! window a thread would come back to is left for a later slice, and refused if that does not end.
//!
//! At every moment each jump stands whole or not at all, and what it leads to is in place: holes are written before the
//! jumps that lead through them. So the controller may die anywhere. Another one that changes bytes of the same page
//! within the microseconds between read and write would lose its change; there is no way to lock text.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use weir_plan::Refusal;
use weir_plan::window::{Shape, Write};
use weir_symbols::maps::Mapping;
use weir_symbols::{FileIdentity, VirtAddr};
use weir_trampoline::island::PlannedSite;

use crate::attach::lists;
use crate::attach::others::Others;
use crate::limits::{RETRIES_MAX, SLICE_PAUSE};
use crate::process::isa::native::registers::Registers;
use crate::process::memory::Memory;
use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::refusal::Error;

pub(crate) const PAGE: u64 = 4096;

/// One site to patch.
#[derive(Debug)]
pub(crate) struct Jump {
    pub(crate) site: usize,
    /// Of the first displaced instruction.
    pub(crate) address: u64,
    /// What is written, the jump at `address` last.
    pub(crate) writes: Vec<Write>,
    /// For each of those what the file has there, where a jump of another weir is displaced.
    pub(crate) beneath: Vec<Vec<u8>>,
    /// The bytes of the displaced instructions, and of padding behind them.
    displaced_bytes: u64,
    /// What must be at `address` as in the file: those, and what a punned jump borrows.
    covered: Vec<u8>,
    /// For each displaced instruction but the first: its address, and where it stands in the trampoline.
    interior: Vec<(u64, u64)>,
    /// It answers unwinders.
    pub(crate) is_hook: bool,
    /// Programs run there.
    pub(crate) is_probe: bool,
    /// Its return is probed too.
    pub(crate) returns: bool,
    /// No text is written, but what leads to a list of those who are called.
    pub(crate) is_called: bool,
    /// The list that it led to.
    list: Option<(u64, Vec<u8>)>,
    /// A goroutine may wait between its displaced instructions.
    in_go: bool,
    /// What was mapped there when it was planned: a library may go while it is patched, and another come.
    file: Option<FileIdentity>,
}

impl Jump {
    pub(crate) fn new(
        target: &Target,
        site: usize,
        planned: &PlannedSite,
        landing: u64,
        places: &[(u64, u64)],
    ) -> Jump {
        let (window, address) = (&planned.window, planned.patch_address());
        let inside = |original: u64| address < original && original < address + window.bytes.len() as u64;
        let interior =
            places.iter().filter(|place| inside(place.1)).map(|&(to, original)| (original, to)).collect();
        let writes = window.writes(planned.bias, landing);
        let displaced_bytes = (window.bytes.len() + window.padding.len()) as u64;
        let covered = window.covered();
        let returns = planned.programs.iter().any(|program| program.when.wants_return());
        let (is_hook, is_probe) = (planned.hook.is_some(), !planned.programs.is_empty());
        let in_go = window.room.is_some() && !window.is_indivisible();
        let (is_called, list) = match &window.shape {
            Shape::Called(called) => (true, lists::bytes_of(called)),
            Shape::Near | Shape::Short(_) | Shape::Punned { .. } => (false, None),
        };
        let file = file_at(target, address);
        Jump {
            site,
            address,
            writes,
            beneath: window.beneath.clone(),
            displaced_bytes,
            covered,
            interior,
            is_hook,
            is_probe,
            returns,
            is_called,
            list,
            in_go,
            file,
        }
    }

    /// Everything that must be as in the file, by address.
    fn old(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let writes = self.writes.iter().map(|write| (write.address, &write.old[..]));
        writes.chain([(self.address, &self.covered[..])])
    }

    /// Where a thread at `address` goes on, if that is inside this window.
    fn moved(&self, address: u64) -> Option<u64> {
        self.interior.iter().find(|place| place.0 == address).map(|place| place.1)
    }

    /// Addresses inside of what is displaced or written, where no thread can go on but at an instruction.
    fn insides(&self) -> impl Iterator<Item = u64> {
        let written = self.writes.iter().flat_map(|w| w.address + 1..w.address + w.new.len() as u64);
        (self.address + 1..self.address + self.displaced_bytes).chain(written)
    }
}

fn file_at(target: &Target, address: u64) -> Option<FileIdentity> {
    target.mapping_at(VirtAddr(address)).map(Mapping::identity)
}

/// Writes all `jumps`, and says so of each; for each why it was left out. `held`: a launched command that has not begun
/// to run; it is given back so.
pub(crate) fn write(
    target: &mut Target,
    held: Option<Stopped>,
    jumps: &[Jump],
    tries: u32,
    on_written: &mut dyn FnMut(usize),
) -> Result<(Vec<Option<Refusal>>, Option<Stopped>), Error> {
    let mut refusals: Vec<Option<Refusal>> = vec![None; jumps.len()];
    let insides = Insides::of(jumps);
    let mut left: Vec<usize> = (0..jumps.len()).collect();
    left.sort_unstable_by_key(|&jump| jumps[jump].address);
    let mut held = held;
    let mut retries = 0;
    loop {
        let stopped = match held.take() {
            Some(stopped) => stopped,
            None => target.stop()?,
        };
        // One that is held has nothing more but weir's code, which is not looked at here.
        if !target.stays_held {
            target.refresh()?;
        }
        let threads = registers(&stopped)?;
        let busy = busy(target, &threads, jumps, &insides);
        let others = if target.stays_held { Others::default() } else { Others::of(target) };
        stopped.in_time()?;
        let slice = Slice { target, stopped: &stopped, threads: &threads, jumps, insides: &insides, others };
        let rest = slice.write(&left, &busy, &mut refusals, on_written)?;
        let waits = rest.iter().find_map(|jump| busy.get(jump)).filter(|_| rest.len() == left.len());
        retries = if waits.is_some() { retries + 1 } else { 0 };
        let is_final =
            |refusal: &&Refusal| retries > tries || matches!(refusal, Refusal::GoroutinesUnknown { .. });
        if let Some(refusal) = waits.filter(is_final) {
            for &jump in &rest {
                refusals[jump] = Some(busy.get(&jump).unwrap_or(refusal).clone());
            }
            left.clear();
        } else {
            left = rest;
        }
        match (left.is_empty(), target.stays_held) {
            (true, true) => return Ok((refusals, Some(stopped))),
            (true, false) => {
                target.resume(stopped);
                return Ok((refusals, None));
            }
            (false, _) => pause(target, stopped),
        }
    }
}

/// A jump that stands, in text, in a hole of it or in an outpost, and is to lead elsewhere.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) address: u64,
    pub(crate) now: Vec<u8>,
    pub(crate) new: Vec<u8>,
    /// Of data, which may be the same by chance in what comes where it was: the file that it is of.
    pub(crate) file: Option<FileIdentity>,
    /// What else must be as it was.
    pub(crate) also: Option<(u64, Vec<u8>)>,
    /// It is to be written over code of weir's own, in which a thread may stand.
    pub(crate) is_code: bool,
}

impl Turn {
    /// No thread goes on there once it is written.
    fn has_inside(&self, address: u64) -> bool {
        (self.address + 1..self.address + self.new.len() as u64).contains(&address)
    }
}

/// Leads `turns` elsewhere, in slices, and says so of each; those that are not as they were left are let be. Threads
/// may stand anywhere but inside such a jump, where no instruction begins.
pub(crate) fn turn(
    target: &mut Target,
    turns: &[&Turn],
    on_written: &mut dyn FnMut(usize),
) -> Result<(), Error> {
    let mut left: Vec<usize> = (0..turns.len()).collect();
    left.sort_unstable_by_key(|&turn| Reverse(turns[turn].address));
    let (mut waiting, mut tries) = (Vec::new(), 0);
    while !left.is_empty() {
        let stopped = target.stop()?;
        stopped.in_time()?;
        let stood_in = stood_in(target, &stopped, turns)?;
        waiting.extend(left.extract_if(.., |turn| stood_in.contains(turn)));
        if turns.iter().any(|turn| turn.file.is_some()) {
            target.refresh()?;
            left.retain(|&turn| {
                turns[turn].file.is_none() || file_at(target, turns[turn].address) == turns[turn].file
            });
        }
        let start = Instant::now();
        while let Some(&last) = left.last()
            && start.elapsed() < target.allowance.slice()
        {
            let page = turns[last].address / PAGE;
            let batch = left.split_off(left.partition_point(|&turn| turns[turn].address / PAGE > page));
            turn_page(&target.memory, turns, &batch, on_written)?;
        }
        if left.is_empty() && tries < RETRIES_MAX {
            left = std::mem::take(&mut waiting);
            left.sort_unstable_by_key(|&turn| Reverse(turns[turn].address));
            tries += 1;
        }
        match left.is_empty() {
            true => drop(target.resume(stopped)),
            false => pause(target, stopped),
        }
    }
    Ok(())
}

/// Those over code that a thread stands in, or comes back to.
fn stood_in(target: &Target, stopped: &Stopped, turns: &[&Turn]) -> Result<HashSet<usize>, Error> {
    let mut found = HashSet::new();
    if !turns.iter().any(|turn| turn.is_code) {
        return Ok(found);
    }
    let inside = |address: u64| turns.iter().position(|turn| turn.is_code && turn.has_inside(address));
    let stacks = target.stacks();
    for (_, registers) in registers(stopped)? {
        found.extend(inside(registers.instruction_pointer()));
        let words = target.scan_stack(&stacks, &registers, &|word| inside(word).is_some()).words;
        found.extend(words.into_iter().filter_map(inside));
    }
    Ok(found)
}

fn turn_page(
    memory: &Memory,
    turns: &[&Turn],
    batch: &[usize],
    on_written: &mut dyn FnMut(usize),
) -> Result<(), Error> {
    let failed = |source| Error::system("turning a jump", source);
    let text = Text::read(memory, batch.iter().map(|&turn| (turns[turn].address, &turns[turn].now[..])));
    let as_left = batch.iter().copied().filter(|&turn| {
        let also = turns[turn].also.iter().all(|(address, bytes)| text.is(memory, *address, bytes));
        also && text.is(memory, turns[turn].address, &turns[turn].now)
    });
    let (mut written, mut parts) = (Vec::new(), Vec::new());
    for index in as_left {
        let turn = turns[index];
        match turn.file {
            // Data has others who write beside it.
            Some(_) => memory.write(turn.address, &turn.new).map_err(failed)?,
            None => parts.push((turn.address, &turn.new[..])),
        }
        written.push(index);
    }
    text.write(memory, parts).map_err(failed)?;
    written.into_iter().for_each(on_written);
    Ok(())
}

/// Lets the target run for a while between two slices: at least as long as it was stopped.
pub(crate) fn pause(target: &mut Target, stopped: Stopped) {
    let took = target.resume(stopped);
    thread::sleep(took.clamp(SLICE_PAUSE, Duration::from_millis(10)));
}

fn registers(stopped: &Stopped) -> Result<Vec<(i32, Registers)>, Error> {
    stopped.threads().map(|tid| Ok((tid, stopped.registers(tid)?))).collect()
}

/// Which jump's inside an address is.
struct Insides {
    jumps: HashMap<u64, u32>,
    bounds: Range<u64>,
}

impl Insides {
    fn of(jumps: &[Jump]) -> Insides {
        let all = jumps.iter().zip(0..).flat_map(|(jump, index)| jump.insides().map(move |at| (at, index)));
        let jumps: HashMap<u64, u32> = all.collect();
        let (low, high) = (jumps.keys().min().copied(), jumps.keys().max().copied());
        Insides { bounds: low.unwrap_or(0)..high.map_or(0, |high| high + 1), jumps }
    }

    fn get(&self, address: u64) -> Option<usize> {
        if !self.bounds.contains(&address) {
            return None;
        }
        self.jumps.get(&address).map(|&jump| jump as usize)
    }
}

/// Jumps whose inside a stopped thread or a goroutine would come back to by a way that cannot be changed; each with whose.
fn busy(
    target: &Target,
    threads: &[(i32, Registers)],
    jumps: &[Jump],
    insides: &Insides,
) -> HashMap<usize, Refusal> {
    let mut busy = HashMap::new();
    // A word on a stack is a place to go on at only if it is an instruction's.
    let interior = |word: u64| insides.get(word).filter(|&jump| jumps[jump].moved(word).is_some());
    let stacks = target.stacks();
    for (tid, registers) in threads {
        // Between two instruction heads there is no place to go on; it cannot happen to a thread that runs the
        // function's own instructions.
        if let Some(jump) = insides.get(registers.instruction_pointer())
            && jumps[jump].moved(registers.instruction_pointer()).is_none()
        {
            busy.insert(jump, Refusal::Busy { tid: *tid });
        }
        let found = target.scan_stack(&stacks, registers, &|word| interior(word).is_some());
        let jumps = found.words.iter().filter_map(|&word| interior(word));
        busy.extend(jumps.map(|jump| (jump, Refusal::Busy { tid: *tid })));
    }
    busy.extend(parked(target, threads, jumps, &interior));
    busy
}

/// Jumps whose inside a goroutine that no thread runs would come back to, or might.
fn parked(
    target: &Target,
    threads: &[(i32, Registers)],
    jumps: &[Jump],
    interior: &dyn Fn(u64) -> Option<usize>,
) -> Vec<(usize, Refusal)> {
    let in_go = || jumps.iter().enumerate().filter(|(_, jump)| jump.in_go).map(|(index, _)| index);
    // A command that has not begun to run has no goroutine.
    if target.stays_held || in_go().next().is_none() {
        return Vec::new();
    }
    let running: Vec<u64> = threads.iter().map(|(_, registers)| registers.stack_pointer()).collect();
    let none = || Err("the program is not Go's, so the goroutines of its library are not found".to_owned());
    match target.goroutines.map_or_else(none, |goroutines| goroutines.waiting(&target.memory, &running)) {
        Ok(waiting) => {
            let words = waiting
                .into_iter()
                .flat_map(|part| target.scan_part(part, &|word| interior(word).is_some()).words);
            words.filter_map(interior).map(|jump| (jump, Refusal::Parked)).collect()
        }
        Err(detail) => {
            in_go().map(|jump| (jump, Refusal::GoroutinesUnknown { detail: detail.clone() })).collect()
        }
    }
}

/// One stop.
struct Slice<'a> {
    target: &'a Target,
    stopped: &'a Stopped,
    threads: &'a [(i32, Registers)],
    jumps: &'a [Jump],
    insides: &'a Insides,
    others: Others,
}

impl Slice<'_> {
    /// Writes those of `left` that are not busy, while there is time; what is left then.
    fn write(
        &self,
        left: &[usize],
        busy: &HashMap<usize, Refusal>,
        refusals: &mut [Option<Refusal>],
        on_written: &mut dyn FnMut(usize),
    ) -> Result<Vec<usize>, Error> {
        let start = Instant::now();
        let (mut rest, mut ready) = (Vec::new(), Vec::new());
        let page = |jump: &usize| self.jumps[*jump].address / PAGE;
        for batch in left.chunk_by(|a, b| page(a) == page(b)) {
            if start.elapsed() > self.target.allowance.slice() && !self.target.stays_held {
                rest.extend(batch);
                continue;
            }
            ready.clear();
            for &jump in batch {
                if busy.contains_key(&jump) { rest.push(jump) } else { ready.push(jump) }
            }
            self.write_page(&mut ready, refusals)?;
            ready.iter().for_each(|&jump| on_written(jump));
        }
        Ok(rest)
    }

    /// Where a patch of another weir takes bytes that this jump needs, and is not what it displaces.
    fn in_the_way(&self, jump: &Jump) -> Option<u64> {
        let bytes = |at: u64, length: usize| at..at + length as u64;
        let length = jump.covered.len().max(jump.displaced_bytes as usize);
        let written = jump.writes.iter().flat_map(|write| bytes(write.address, write.new.len()));
        let needed: Vec<u64> = bytes(jump.address, length).chain(written).collect();
        let places: Vec<u64> = jump.writes.iter().map(|write| write.address).collect();
        self.others.in_the_way(&self.target.memory, &needed, &places)
    }

    /// Writes the jumps `ready`, all of one page; those whose text is not as in the file are refused and taken out.
    fn write_page(&self, ready: &mut Vec<usize>, refusals: &mut [Option<Refusal>]) -> Result<(), Error> {
        let memory = &self.target.memory;
        let mut text = Text::read(memory, ready.iter().flat_map(|&jump| self.jumps[jump].old()));
        ready.retain(|&index| {
            let jump = &self.jumps[index];
            if file_at(self.target, jump.address) != jump.file {
                refusals[index] = Some(Refusal::TextDiffers { offset: 0 });
                return false;
            }
            // Another weir has displaced bytes that are as they were, or borrows them.
            if !self.others.is_nothing()
                && !jump.is_called
                && let Some(at) = self.in_the_way(jump)
            {
                refusals[index] = Some(Refusal::TextDiffers { offset: at.abs_diff(jump.address) });
                return false;
            }
            let list = jump.list.iter().map(|(address, bytes)| (*address, &bytes[..]));
            let unlike = jump.old().chain(list).find(|(address, old)| !text.is(memory, *address, old));
            if let Some((address, _)) = unlike {
                refusals[index] = Some(Refusal::TextDiffers { offset: address.saturating_sub(jump.address) });
            }
            unlike.is_none()
        });
        for (tid, registers) in self.threads {
            let inside =
                self.insides.get(registers.instruction_pointer()).filter(|jump| ready.contains(jump));
            if let Some(to) = inside.and_then(|jump| self.jumps[jump].moved(registers.instruction_pointer()))
            {
                self.stopped.set_registers(*tid, registers.with_instruction_pointer(to))?;
            }
        }
        let failed = |source| Error::system("writing a jump", source);
        let writes = || ready.iter().flat_map(|&index| self.jumps[index].writes.split_last());
        for hole in writes().flat_map(|(_, holes)| holes) {
            memory.write(hole.address, &hole.new).map_err(failed)?;
            text.note(hole.address, &hole.new);
        }
        // Of a page of text one write; data has others who write beside it.
        let is_called = |jump: &&usize| self.jumps[**jump].is_called;
        let entry = |jump: &usize| {
            let entry = self.jumps[*jump].writes.last();
            entry.map(|entry| (entry.address, &entry.new[..]))
        };
        for (address, new) in ready.iter().filter(is_called).filter_map(entry) {
            memory.write(address, new).map_err(failed)?;
        }
        let in_text = ready.iter().filter(|jump| !is_called(jump));
        text.write(memory, in_text.filter_map(entry).collect()).map_err(failed)
    }
}

/// A stretch of the target's text, as it was read.
pub(crate) struct Text {
    start: u64,
    bytes: Vec<u8>,
}

impl Text {
    /// Everything from the first of `parts` to the last, if that can be read: they lie close together.
    pub(crate) fn read<'a>(memory: &Memory, parts: impl Iterator<Item = (u64, &'a [u8])>) -> Text {
        let ends = parts.map(|(address, bytes)| address..address.saturating_add(bytes.len() as u64));
        let all = ends.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        let mut bytes = Vec::new();
        if all.end - all.start <= 2 * PAGE {
            bytes.resize((all.end - all.start) as usize, 0);
            if memory.read(all.start, &mut bytes).is_err() {
                bytes.clear();
            }
        }
        Text { start: all.start, bytes }
    }

    /// The bytes at `address`, if they were read.
    pub(crate) fn get(&self, address: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Takes note that `new` has been written to `address` since.
    fn note(&mut self, address: u64, new: &[u8]) {
        let from = usize::try_from(address.wrapping_sub(self.start)).ok();
        let to = from.and_then(|from| self.bytes.get_mut(from..from.checked_add(new.len())?));
        if let Some(to) = to {
            to.copy_from_slice(new);
        }
    }

    /// Whether `wanted` stands at `address`.
    fn is(&self, memory: &Memory, address: u64, wanted: &[u8]) -> bool {
        match self.get(address, wanted.len()) {
            Some(now) => now == wanted,
            None => {
                let mut now = vec![0; wanted.len()];
                memory.read(address, &mut now).is_ok() && now == wanted
            }
        }
    }

    /// Writes `parts` of one page, with one write where all of it was read: then either all of them stand or none.
    pub(crate) fn write(&self, memory: &Memory, parts: Vec<(u64, &[u8])>) -> std::io::Result<()> {
        let end = |part: &(u64, &[u8])| part.0 + part.1.len() as u64;
        let (Some(first), Some(last)) = (parts.iter().map(|part| part.0).min(), parts.iter().map(end).max())
        else {
            return Ok(());
        };
        let is_one_page = first / PAGE == (last - 1) / PAGE;
        let Some(between) = self.get(first, (last - first) as usize).filter(|_| is_one_page) else {
            return parts.iter().try_for_each(|&(address, bytes)| memory.write(address, bytes));
        };
        let mut bytes = between.to_vec();
        for (address, new) in parts {
            bytes[(address - first) as usize..][..new.len()].copy_from_slice(new);
        }
        memory.write(first, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JUMP_BYTES;

    /// A short jump over `push %rbx; mov %edi,%ebx` at 0x1000, which leads through a hole at 0x1040.
    fn through_a_hole() -> Jump {
        let write =
            |address: u64, bytes: usize| Write { address, old: vec![0x90; bytes], new: vec![0xcc; bytes] };
        Jump {
            site: 0,
            address: 0x1000,
            writes: vec![write(0x1040, JUMP_BYTES), write(0x1000, 2)],
            beneath: Vec::new(),
            displaced_bytes: 3,
            covered: vec![0x53, 0x89, 0xfb],
            interior: vec![(0x1001, 0x7001)],
            is_hook: false,
            is_probe: true,
            returns: false,
            is_called: false,
            list: None,
            in_go: false,
            file: None,
        }
    }

    #[test]
    fn a_thread_is_seen_inside_what_is_displaced_and_inside_each_hole() {
        let insides = Insides::of(&[through_a_hole()]);
        let seen: Vec<u64> = (0xff0..0x1060).filter(|&at| insides.get(at).is_some()).collect();
        // At the first byte of either it has not begun.
        assert_eq!(seen, [0x1001, 0x1002, 0x1041, 0x1042, 0x1043, 0x1044]);
    }

    #[test]
    fn a_thread_goes_on_in_the_trampoline_at_an_instruction_and_nowhere_else() {
        let jump = through_a_hole();
        let moved: Vec<_> = (0xff0..0x1060).filter_map(|at| Some((at, jump.moved(at)?))).collect();
        assert_eq!(moved, [(0x1001, 0x7001)]);
    }
}
