//! Takes probes out of a process: lowers semaphores, closes the gates, restores the text, and unmaps what weir had mapped.
//!
//! In: what is mapped and patched, from this run or from another weir's journal. Out: a [`Report`].
//! Text is restored only where it is as weir left it. Code is unmapped only when no thread stands in it, no stack
//! holds an address of it, no rseq area points to it, and no text that somebody else has changed may still lead to
//! it; else it stays (a few pages), and the report says so.
//!
//! A library may have been unloaded meanwhile, and anything be mapped in its place: a patch is its file's. Of a library that
//! was unloaded and loaded again at the same place it is not told that its probes have ended.
//!
//! Where the jump of another weir lies over this one's, that is left as it is: the gates are shut, and the code stays as the way to
//! the function ([`crate::attach::others`]).
//!
//! Nothing but semaphores, text that leads into weir's code, and weir's own mappings, is written or unmapped: each address is
//! held against the process's maps first, since a foreign journal (and the target itself) may say anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nix::libc;
use weir_plan::window::Write;
use weir_symbols::maps::Mapping;
use weir_symbols::{FileIdentity, VirtAddr};
use weir_trampoline::replace::Table;

use crate::attach::counters::{self, Counter};
use crate::attach::gates;
use crate::attach::lists;
use crate::attach::others::{
    code_of, code_of_others, is_displaced, is_torn as is_torn_by, jump_into, leading_into,
};
use crate::attach::patch::{self, Text};
use crate::attach::pending::Pending;
use crate::limits::{LEAVING_ALONE, LEAVING_MAX, RETRIES_MAX, SLICE_WRITING_MAX, STOP_MAX, UNDO_STOPS_MAX};
use crate::process::isa::native::remote::{Borrowed, hold_callable};
use crate::process::mapped::{Island, is_kernel_array, is_maps, is_records, is_segment, islands};
use crate::process::stop::{Filters, Stopped, Stops};
use crate::process::sys;
use crate::process::target::Target;
use crate::refusal::Error;

const PAGE: u64 = 4096;

/// One place in the text that was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    pub address: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    /// A hole: the address of the patch that leads through it, and is to be restored before it.
    pub leads_from: Option<u64>,
    /// It answers unwinders for weir's code ([`weir_trampoline::unwind`]), and is restored when no thread comes back there.
    pub is_hook: bool,
    /// Programs run there.
    pub is_probe: bool,
    /// No text: it leads to a list of those who are called ([`crate::attach::calls`]).
    pub is_called: bool,
    /// What was mapped there when it was written, where that is known.
    pub file: Option<Arc<MappedFile>>,
    /// What the file has there, where the jump of another weir was displaced.
    pub beneath: Option<Vec<u8>>,
}

/// A file, as the process's maps show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedFile {
    pub identity: FileIdentity,
    pub path: String,
}

impl Patch {
    /// A probe's.
    pub(crate) fn of(write: &Write, leads_from: Option<u64>) -> Patch {
        let (old, new) = (write.old.clone(), write.new.clone());
        let (is_hook, is_probe, is_called, file, beneath) = (false, true, false, None, None);
        Patch { address: write.address, old, new, leads_from, is_hook, is_probe, is_called, file, beneath }
    }

    /// What is there without any weir, where that is text.
    pub(crate) fn bare(&self) -> &[u8] {
        self.beneath.as_ref().unwrap_or(&self.old)
    }

    /// Whether what is `now` there leads into weir's code.
    fn stands(&self, now: &[u8]) -> bool {
        match self.is_called {
            true => lists::list(now) == lists::list(&self.new),
            false => now == self.new,
        }
    }

    /// Behind the first of the bytes that were written; or there too, where that is another weir's jump, which would run again.
    fn has_inside(&self, address: u64, is_covered: bool) -> bool {
        let first = self.address + u64::from(!is_covered);
        (first..self.address + self.new.len() as u64).contains(&address)
    }
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Functions whose text is as before.
    pub restored: usize,
    /// Of these, those whose text was as before already: the process has put it back.
    pub vanished: usize,
    /// Addresses where the text was neither as weir left it nor as before, and was left alone.
    pub foreign: Vec<u64>,
    /// Addresses where the jump of another weir lies over that of this one, which it leads to still: its code stays until that one goes.
    pub covered: Vec<u64>,
    /// Weirs that are gone and lie under others so: nothing of theirs was touched.
    pub kept: usize,
    /// Functions whose text was gone, or another file's, by the path of the library that was unloaded.
    pub unloaded: BTreeMap<String, usize>,
    /// Code stayed mapped, because a thread might still come back to it, or the process has a filter.
    pub left_mapped: bool,
    /// Each thread has a system call filter, which this weir may not suspend, and could be killed for unmapping anything: the code
    /// stayed mapped, and nothing leads there.
    pub is_filtered: bool,
    /// The process has executed another program meanwhile: there was nothing to undo.
    pub replaced: bool,
    /// What was undone is of a weir of this ABI version, not of this one's: counters that it had raised stay so.
    pub other_version: Option<u32>,
    /// How often and how long the process was held for it.
    pub stops: Stops,
    /// Returns that each program has not seen because the calls were still running.
    pub pending: Pending,
}

impl Report {
    /// Text may lead into the code.
    fn is_led_to(&self) -> bool {
        !self.foreign.is_empty() || !self.covered.is_empty()
    }

    fn leads_there(&self, address: u64) -> bool {
        self.foreign.contains(&address) || self.covered.contains(&address)
    }
}

/// Addresses, and others that mean the same: sorted, since there are several for each of tens of thousands of sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<(u64, u64)>);

impl Places {
    /// [`Places::sort`] is to follow.
    pub(crate) fn add(&mut self, places: &[(u64, u64)]) {
        self.0.extend(places);
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable();
    }

    /// Forgets what lies in code that is gone.
    pub(crate) fn forget(&mut self, gone: &[Range<u64>]) {
        self.0.retain(|place| !gone.iter().any(|range| range.contains(&place.0)));
    }

    /// Those at these addresses.
    pub(crate) fn of(&self, addresses: &HashSet<u64>) -> Places {
        Places(self.0.iter().filter(|place| addresses.contains(&place.0)).copied().collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, address: u64) -> Option<u64> {
        let at = self.0.partition_point(|place| place.0 < address);
        self.0.get(at).filter(|place| place.0 == address).map(|place| place.1)
    }
}

/// Everything that weir has put into one process.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    /// The maps, and behind them its own: by that the next weir finds the others, should this one be killed meanwhile.
    pub(crate) segments: Vec<Range<u64>>,
    /// With their gates, which are the last pages of each.
    pub(crate) islands: Vec<Range<u64>>,
    /// Of a weir that is gone: its mappings, by address and file. A third may take them out meanwhile, and have its own where they were.
    pub(crate) files: Option<HashSet<(u64, u64)>>,
    /// In memory that is about to be unmapped: where weirs that wait for this process count those that they come too late for.
    pub(crate) late: Vec<u64>,
    pub(crate) patches: Vec<Patch>,
    /// Text that leads into the islands, and whose own bytes nobody knows: they stay mapped.
    pub(crate) unknown: Vec<u64>,
    /// Semaphores that weir has raised.
    pub(crate) counters: Vec<Counter>,
    /// Places in trampolines where programs have run, and where the same place is in the restored text.
    pub(crate) places: Places,
}

impl Undo {
    pub(crate) fn run(&mut self, target: &mut Target) -> Result<Report, Error> {
        let before = target.stops.begin_part();
        let done = self.undo(target);
        let stops = target.stops.end_part(before);
        let done = done.map(|report| Report { stops, ..report });
        match done.map_err(|error| target.explain(error)) {
            Err(Error::Replaced { .. }) => Ok(Report { replaced: true, ..Report::default() }),
            other => other,
        }
    }

    fn undo(&mut self, target: &mut Target) -> Result<Report, Error> {
        let mut report = Report::default();
        target.refresh()?;
        if target.memory.is_gone() {
            return Err(Error::Replaced { pid: target.pid });
        }
        self.lower_counters(target)?;
        match target.handed_over {
            // Another weir's may come to stand there at any other moment.
            Some(_) => {
                let stopped = hold(target)?;
                self.close_gates(target);
                target.resume_between(stopped);
            }
            None => self.close_gates(target),
        }
        report.foreign.extend(&self.unknown);
        let mut stopped = self.restore_in_slices(target, &mut report)?;
        for try_number in 0.. {
            self.move_out(target, &stopped, &self.standing(&report), &report)?;
            let awaited = self.awaited(target, &stopped, &Places::default())?;
            self.fill_holes(target, &awaited, &mut report)?;
            if awaited.is_empty() && self.is_quiet(target, &stopped)? && !report.is_led_to() {
                break;
            }
            let may_leave = !target.stays_held && !report.is_led_to();
            if try_number < RETRIES_MAX && may_leave && self.let_leave(&mut stopped)? {
                continue;
            }
            if try_number >= RETRIES_MAX || !may_leave {
                report.left_mapped = true;
                target.resume_between(stopped);
                return Ok(report);
            }
            patch::pause(target, stopped);
            stopped = hold(target)?;
        }
        let mut hooks: Vec<&Patch> = self.entries(true);
        self.restore_some(target, &mut hooks, None, &mut report)?;
        if report.is_led_to() {
            report.left_mapped = true;
            target.resume_between(stopped);
            return Ok(report);
        }
        self.move_out(target, &stopped, &[], &report)?;
        // Nothing leads in any more: what is quiet stays so.
        stopped = hold_callable(target, stopped, hold)?;
        // One may have come over what was found to be free, since.
        if self.files.is_some() && is_displaced(target, &self.segments, &self.islands) {
            report.left_mapped = true;
            target.resume_between(stopped);
            return Ok(report);
        }
        for at in mem::take(&mut self.late) {
            // The process may write there too, and so weirs only count there.
            let late = target.memory.read_u64(at);
            let _ = late.map(|late| target.memory.write(at, &late.wrapping_add(1).to_le_bytes()));
        }
        report.is_filtered = !self.unmap(target, &mut stopped)?;
        report.left_mapped = report.is_filtered;
        target.resume_between(stopped);
        Ok(report)
    }

    /// Takes back patches while others stay: their text is as before, and nothing leads through their holes. Threads
    /// that are in their trampolines go on there. Also those of its holes and places that a thread still comes back to
    /// after so many `tries`, and that lead it to a trampoline then: those holes are not filled.
    pub(crate) fn take_back(
        &mut self,
        target: &mut Target,
        tries: u32,
    ) -> Result<(Report, BTreeSet<u64>), Error> {
        let mut report = Report::default();
        target.refresh()?;
        self.lower_counters(target)?;
        let mut stopped = self.restore_in_slices(target, &mut report)?;
        let mut tries = tries;
        loop {
            self.move_out(target, &stopped, &self.standing(&report), &report)?;
            let awaited = self.awaited(target, &stopped, &self.places)?;
            self.fill_holes(target, &awaited, &mut report)?;
            tries = tries.saturating_sub(1);
            if awaited.is_empty() || tries == 0 {
                target.resume(stopped);
                return Ok((report, awaited));
            }
            patch::pause(target, stopped);
            stopped = hold(target)?;
        }
    }

    /// Unmaps the islands that no thread can come back to any more; nothing leads there. Those that were.
    pub(crate) fn retire(&self, target: &mut Target, tries: u32) -> Result<Vec<Range<u64>>, Error> {
        let mut left: Vec<Range<u64>> = self.islands.clone();
        let mut gone = Vec::new();
        for _ in 0..tries {
            if left.is_empty() {
                break;
            }
            let stopped = hold(target)?;
            let mut stopped = hold_callable(target, stopped, hold)?;
            let mut kept = Vec::new();
            for range in left {
                let undo = Undo { islands: vec![range.clone()], patches: Vec::new(), ..self.clone() };
                match undo.is_quiet(target, &stopped)? && undo.unmap(target, &mut stopped)? {
                    true => gone.push(range),
                    false => kept.push(range),
                }
            }
            left = kept;
            patch::pause(target, stopped);
        }
        Ok(gone)
    }

    /// From now on the target prepares nothing for these probes. While they still run: a hit that was prepared is counted,
    /// but for those of threads that stand between the test of a semaphore and its probe when that is closed. Once; in a
    /// stop of its own: at any other moment a library may go, and something else come where its semaphore was.
    pub(crate) fn lower_counters(&mut self, target: &mut Target) -> Result<(), Error> {
        if self.counters.is_empty() {
            return Ok(());
        }
        let stopped = hold(target)?;
        counters::lower(&target.memory, &target.mappings, &mem::take(&mut self.counters));
        target.resume_between(stopped);
        Ok(())
    }

    /// From now on threads that come to a probe go on unprobed.
    pub(crate) fn close_gates(&self, target: &Target) {
        for island in self.mapped_islands(&target.mappings) {
            // Fails only if it is unmapped at this moment.
            let _ = island.gates(&target.memory).map(|gates| gates::shut(&target.memory, gates));
        }
    }

    /// What is mapped of the islands.
    fn mapped_islands(&self, mappings: &[Mapping]) -> Vec<Island> {
        let mut found = islands(mappings);
        found.retain(|island| {
            let is_own = self.islands.iter().any(|own| own.start == island.code.start);
            is_own && self.means(island.code.start, island.inode)
        });
        found
    }

    fn means(&self, start: u64, inode: u64) -> bool {
        self.files.as_ref().is_none_or(|files| files.contains(&(start, inode)))
    }

    /// Puts the text of all sites back but the hooks'; the process is still stopped then.
    fn restore_in_slices(&self, target: &mut Target, report: &mut Report) -> Result<Stopped, Error> {
        let mut left: Vec<&Patch> = self.entries(false);
        loop {
            let stopped = hold(target)?;
            let until = (!target.stays_held).then(|| Instant::now() + SLICE_WRITING_MAX);
            self.restore_some(target, &mut left, until, report)?;
            if left.is_empty() {
                return Ok(stopped);
            }
            patch::pause(target, stopped);
        }
    }

    /// The patches of sites, or of hooks, without holes, by address.
    fn entries(&self, hooks: bool) -> Vec<&Patch> {
        let is_wanted = |patch: &&Patch| patch.leads_from.is_none() && patch.is_hook == hooks;
        let mut entries: Vec<&Patch> = self.patches.iter().filter(is_wanted).collect();
        entries.sort_unstable_by_key(|patch| Reverse(patch.address));
        entries
    }

    /// Takes from the end of `left` what it puts back, a page at a time, while there is time.
    fn restore_some(
        &self,
        target: &Target,
        left: &mut Vec<&Patch>,
        until: Option<Instant>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let code = code_of(target, |_| true);
        let covered = self.covered_through(target, &code);
        left.retain(|patch| {
            !covered.contains(&patch.address) || {
                report.restored += usize::from(patch.is_probe);
                report.covered.push(patch.address);
                false
            }
        });
        while let Some(last) = left.last() {
            let page = last.address / PAGE;
            let first = left.partition_point(|patch| patch.address / PAGE > page);
            let batch = left.split_off(first);
            for (patch, now, is_there) in put_back(target, &batch, &code)? {
                report.vanished += usize::from(patch.is_probe && now == Now::Back && !is_there);
                match (now, &patch.file) {
                    (Now::Changed, _) => report.foreign.push(patch.address),
                    (Now::Covered, _) => {
                        report.restored += usize::from(patch.is_probe);
                        report.covered.push(patch.address);
                    }
                    (Now::Back, _) if patch.is_probe => report.restored += 1,
                    (Now::Gone, Some(file)) if patch.is_probe => {
                        *report.unloaded.entry(file.path.clone()).or_default() += 1;
                    }
                    (Now::Back | Now::Gone, _) => {}
                }
            }
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
        }
        Ok(())
    }

    /// Entries whose holes have the jump of another weir.
    fn covered_through(&self, target: &Target, code: &[Range<u64>]) -> HashSet<u64> {
        let is_alone = code.iter().all(|code| self.islands.iter().any(|own| own.contains(&code.start)));
        let holes =
            self.patches.iter().filter(|_| !is_alone).filter_map(|patch| Some((patch, patch.leads_from?)));
        let covered = holes.filter(|(hole, _)| {
            jump_into(&target.memory, hole.address, code).is_some_and(|now| now[..] != hole.new[..])
        });
        covered.map(|(_, entry)| entry).collect()
    }

    /// The holes, and those of `places`, that a thread stands at, or comes back to from a signal handler.
    fn awaited(&self, target: &Target, stopped: &Stopped, places: &Places) -> Result<BTreeSet<u64>, Error> {
        let holes: HashSet<u64> = self
            .patches
            .iter()
            .filter(|patch| patch.leads_from.is_some())
            .map(|patch| patch.address)
            .collect();
        let is_awaited = |word: u64| holes.contains(&word) || places.get(word).is_some();
        let mut awaited = BTreeSet::new();
        if holes.is_empty() && places.is_empty() {
            return Ok(awaited);
        }
        let stacks = target.stacks();
        for tid in stopped.threads() {
            let registers = stopped.registers(tid)?;
            let found = target.scan_stack(&stacks, &registers, &is_awaited);
            awaited.extend(found.words);
            awaited.extend(Some(registers.instruction_pointer()).filter(|&at| is_awaited(at)));
        }
        Ok(awaited)
    }

    /// Fills the holes that are not `awaited`. What stands at their entries leads elsewhere by now; threads that stood in
    /// one go on at the entry.
    fn fill_holes(&self, target: &Target, awaited: &BTreeSet<u64>, report: &mut Report) -> Result<(), Error> {
        let is_due = |hole: &&Patch| {
            let is_free = |entry: u64| !report.leads_there(entry);
            hole.leads_from.is_some_and(is_free) && !awaited.contains(&hole.address)
        };
        let code = code_of(target, |_| true);
        let mut due: Vec<&Patch> = self.patches.iter().filter(is_due).collect();
        due.sort_unstable_by_key(|hole| hole.address);
        for batch in due.chunk_by(|a, b| a.address / PAGE == b.address / PAGE) {
            // One that was filled in an earlier stop may be another weir's by now.
            for (hole, now, _) in put_back(target, batch, &code)? {
                if now == Now::Changed && !report.foreign.contains(&hole.address) {
                    report.foreign.push(hole.address);
                }
            }
        }
        Ok(())
    }

    /// What is not restored where the sites' text is: hooks, and what leads there still.
    fn standing(&self, report: &Report) -> Vec<&Patch> {
        let stands = |patch: &&Patch| {
            let is_hole_of = patch.leads_from.is_some_and(|entry| report.covered.contains(&entry));
            patch.is_hook || report.leads_there(patch.address) || is_hole_of
        };
        self.patches.iter().filter(stands).collect()
    }

    /// Threads that have left the programs go on in the restored text, but not behind the first byte of a jump that is
    /// still `standing`: what is there is no instruction.
    fn move_out(
        &self,
        target: &Target,
        stopped: &Stopped,
        standing: &[&Patch],
        report: &Report,
    ) -> Result<(), Error> {
        let holes = self.patches.iter().filter_map(|patch| Some((patch.address, patch.leads_from?)));
        let holes: HashMap<u64, u64> = holes.collect();
        let others = code_of_others(target);
        let is_covered = |patch: &Patch| {
            report.covered.contains(&patch.address)
                || patch.leads_from.is_some_and(|at| report.covered.contains(&at))
        };
        let is_torn =
            |address: u64| standing.iter().any(|patch| patch.has_inside(address, is_covered(patch)));
        for tid in stopped.threads() {
            let mut registers = stopped.registers(tid)?;
            let in_hole = || holes.get(&registers.instruction_pointer()).copied();
            let original = self.places.get(registers.instruction_pointer()).or_else(in_hole);
            let original = original.filter(|&original| !is_torn_by(&target.memory, &others, original));
            if let Some(original) = original.filter(|&original| !is_torn(original)) {
                registers = registers.with_instruction_pointer(original);
                stopped.set_registers(tid, registers)?;
            }
        }
        Ok(())
    }

    /// Lets the threads that stand in the islands run by themselves, while the others are held; whether that was of use,
    /// and none stands there any more. Where many more threads than CPUs want to run, each stop finds some that were
    /// preempted there, and they would have to wait for their turn among all.
    fn let_leave(&self, stopped: &mut Stopped) -> Result<bool, Error> {
        let start = Instant::now();
        let mut ran = false;
        loop {
            let inside = self.standing_inside(stopped)?;
            if inside.is_empty() || start.elapsed() > LEAVING_MAX {
                return Ok(ran && inside.is_empty());
            }
            match stopped.let_run(&inside, LEAVING_ALONE) {
                // It has no CPU to come to its stop on: it gets one sooner when none is held for it.
                Err(Error::StopTimeout { .. }) => return Ok(false),
                done => _ = done?,
            }
            ran = true;
        }
    }

    fn standing_inside(&self, stopped: &Stopped) -> Result<Vec<i32>, Error> {
        let mut inside = Vec::new();
        for tid in stopped.threads() {
            let at = stopped.registers(tid)?.instruction_pointer();
            if self.islands.iter().any(|island| island.contains(&at)) {
                inside.push(tid);
            }
        }
        Ok(inside)
    }

    /// Nothing that a thread holds leads to an island any more, but a program counter that has its place in the text.
    /// Stale rseq pointers are cleared on the way.
    fn is_quiet(&self, target: &Target, stopped: &Stopped) -> Result<bool, Error> {
        let inside = |address: u64| self.islands.iter().any(|island| island.contains(&address));
        // What lies behind the code, its gates, nobody comes back to: such a word is left from another time.
        let code: Vec<Range<u64>> =
            self.mapped_islands(&target.mappings).into_iter().map(|island| island.code).collect();
        // From the code of another weir that lies over this one's a thread goes on there.
        let leading = leading_into(target, &self.islands);
        let in_code = |address: u64| code.iter().chain(&leading).any(|code| code.contains(&address));
        let is_above = |address: u64| leading.iter().any(|code| code.contains(&address));
        let others = code_of_others(target);
        let stacks = target.stacks();
        for tid in stopped.threads() {
            let registers = stopped.registers(tid)?;
            let original = self.places.get(registers.instruction_pointer());
            let original = original.filter(|&original| !is_torn_by(&target.memory, &others, original));
            let stays = inside(registers.instruction_pointer()) && original.is_none();
            // An unwinder may hold the address of a description in a register.
            let is_above = is_above(registers.instruction_pointer());
            if stays || is_above || registers.general().into_iter().any(inside) {
                return Ok(false);
            }
            let found = target.scan_stack(&stacks, &registers, &in_code);
            if !found.words.is_empty() {
                return Ok(false);
            }
            if let Ok(rseq) = sys::rseq_configuration(tid)
                && rseq.abi_pointer != 0
                && target.memory.read_u64(rseq.abi_pointer + 8).is_ok_and(inside)
            {
                let cleared = target.memory.write(rseq.abi_pointer + 8, &[0; 8]);
                cleared.map_err(|source| Error::system("clearing an rseq pointer", source))?;
            }
        }
        Ok(!self.waits_for_returns(target, stopped)?)
    }

    /// Whether a stack anywhere, one of a suspended fibre too, still returns to a stub, where that or what it goes on at
    /// is in these islands.
    fn waits_for_returns(&self, target: &Target, stopped: &Stopped) -> Result<bool, Error> {
        // What lies below the stack pointer of the main thread, where it runs on its own stack, is nobody's.
        let main = target.mappings.iter().find(|mapping| mapping.path == "[stack]");
        let mut dead = 0..0;
        for tid in stopped.threads() {
            let at = stopped.registers(tid)?.stack_pointer();
            if let Some(main) = main.filter(|main| (main.start.0..main.end.0).contains(&at)) {
                dead = main.start.0..at;
            }
        }
        let inside = |address: u64| self.islands.iter().any(|island| island.contains(&address));
        let waits = |mapping: &Mapping| {
            let (start, bytes) = (mapping.start.0, mapping.end.0 - mapping.start.0);
            let is_own = self.islands.iter().any(|island| island.start == start);
            let mut first = [0; 24];
            target.memory.read(start, &mut first).ok()?;
            let table = Table::read(start, &first, bytes)?;
            let mut records = vec![0; table.records_bytes() as usize];
            target.memory.read(start, &mut records).ok()?;
            table.waiting(&records).find(|&(at, slot, stub)| {
                (is_own || table.backs(&records, at).any(inside))
                    && !dead.contains(&slot)
                    && target.memory.read_u64(slot).is_ok_and(|word| word == stub)
            })
        };
        let mut tables = target.mappings.iter().filter(|mapping| is_records(mapping));
        Ok(tables.any(|mapping| waits(mapping).is_some()))
    }

    /// False, and nothing done, where no thread may be made to call the kernel.
    fn unmap(&self, target: &Target, stopped: &mut Stopped) -> Result<bool, Error> {
        let islands =
            self.mapped_islands(&target.mappings).into_iter().map(|island| island.range(&target.memory));
        let is_in = |mapping: &Mapping, segment: &Range<u64>| {
            let is_ours = is_segment(mapping) || is_maps(mapping) || is_kernel_array(mapping);
            let is_meant = is_kernel_array(mapping) || self.means(mapping.start.0, mapping.inode);
            is_ours && is_meant && segment.start <= mapping.start.0 && mapping.end.0 <= segment.end
        };
        let mapped = |segment| target.mappings.iter().filter(move |mapping| is_in(mapping, segment));
        let segments = self.segments.iter().flat_map(mapped).map(|mapping| mapping.start.0..mapping.end.0);
        let ranges: Vec<Range<u64>> = islands.chain(segments).collect();
        if ranges.is_empty() {
            return Ok(true);
        }
        let mut remote = match Borrowed::new(stopped, target) {
            Err(Error::Seccomp { .. }) => return Ok(false),
            borrowed => borrowed?,
        };
        for range in ranges {
            remote.call("munmap", libc::SYS_munmap, [range.start, range.end - range.start, 0, 0, 0, 0])?;
        }
        remote.finish().map(|()| true)
    }
}

/// Stops the process, unless it has become another program; then none of the addresses mean anything.
pub(crate) fn hold(target: &mut Target) -> Result<Stopped, Error> {
    // Probes that stay behind are worse than a target stopped once more, or for longer than attaching may.
    let mut stopped = target.stop_within(STOP_MAX, Filters::MayStay);
    for _ in 1..UNDO_STOPS_MAX {
        if !matches!(stopped, Err(Error::StopTimeout { .. })) {
            break;
        }
        stopped = target.stop_within(STOP_MAX, Filters::MayStay);
    }
    let stopped = stopped?;
    target.refresh()?;
    // Nobody changes that while it is stopped.
    if target.memory.is_gone() || target.is_taken_over() {
        return Err(Error::Replaced { pid: target.pid });
    }
    Ok(stopped)
}

/// What stands where a patch was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Now {
    /// The old bytes.
    Back,
    /// Neither the old bytes nor the new ones.
    Changed,
    /// The jump of another weir, or a list of its, by which this one's is called too.
    Covered,
    /// Nothing, or what is not of the file that was patched: that was unloaded.
    Gone,
}

impl Now {
    /// Where the bytes are `now`. Text that the target has copied into memory of no file is still its own if it shows the
    /// patch; what another file has there is never looked at: two bytes may be the same by chance.
    fn of(patch: &Patch, now: Option<&[u8]>, mapping: Option<&Mapping>) -> Now {
        let (Some(now), Some(mapping)) = (now, mapping) else { return Now::Gone };
        let is_its = patch.file.as_ref().is_none_or(|file| file.identity == mapping.identity());
        let is_others = !is_its && mapping.inode != 0;
        match now {
            _ if is_others => Now::Gone,
            // Who has put another list there has taken weir's away.
            _ if patch.is_called => Now::Back,
            now if now == patch.new || is_its && (now == patch.old || now == patch.bare()) => Now::Back,
            _ if is_its => Now::Changed,
            _ => Now::Gone,
        }
    }
}

/// Puts the old bytes of `patches` of one page back, where the new ones stand; what is there then, and whether those stood there.
/// `code`: of weirs, whose jumps are looked for.
fn put_back<'a>(
    target: &Target,
    patches: &[&'a Patch],
    code: &[Range<u64>],
) -> Result<Vec<(&'a Patch, Now, bool)>, Error> {
    let memory = &target.memory;
    let text = Text::read(memory, patches.iter().map(|patch| (patch.address, &patch.old[..])));
    let mapping = patches.first().and_then(|patch| target.mapping_at(VirtAddr(patch.address)));
    let (mut outcomes, mut writes) = (Vec::with_capacity(patches.len()), Vec::new());
    for &patch in patches {
        let mut own = vec![0; patch.old.len()];
        let now = match text.get(patch.address, own.len()) {
            Some(now) => Some(now),
            None => memory.read(patch.address, &mut own).ok().map(|()| &own[..]),
        };
        let mut outcome = Now::of(patch, now, mapping);
        let is_there = now.is_some_and(|now| patch.stands(now));
        let is_covered = || match (patch.is_called, now) {
            (true, Some(now)) => lists::calls(target, lists::list(now), lists::list(&patch.new)),
            _ => jump_into(memory, patch.address, code).is_some(),
        };
        if (outcome == Now::Changed || patch.is_called && outcome == Now::Back && !is_there) && is_covered() {
            outcome = Now::Covered;
        }
        if outcome == Now::Back && is_there && patch.is_called {
            let failed = |source| Error::system("giving a list back", source);
            memory.write(patch.address, &lists::given_back(&patch.old)).map_err(failed)?;
        } else if outcome == Now::Back && is_there {
            writes.push((patch.address, &patch.old[..]));
        }
        outcomes.push((patch, outcome, is_there));
    }
    text.write(memory, writes).map_err(|source| Error::system("restoring text", source))?;
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use weir_symbols::FileOffset;

    use super::*;

    fn mapping(inode: u64) -> Mapping {
        let (start, end, offset) = (VirtAddr(0x1000), VirtAddr(0x2000), FileOffset(0));
        let (device, path) = ((8, 1), String::new());
        let (read, write, execute, shared, deleted) = (true, false, true, false, false);
        Mapping { start, end, read, write, execute, shared, offset, device, inode, path, deleted }
    }

    /// Of a patch of `ab` to `jm` in file 7.
    fn now(bytes: &str, inode: Option<u64>) -> Now {
        let identity = FileIdentity { device: (8, 1), inode: 7 };
        let write = Write { address: 0x1000, old: b"ab".to_vec(), new: b"jm".to_vec() };
        let file = Some(Arc::new(MappedFile { identity, path: "lib".to_owned() }));
        let patch = Patch { file, ..Patch::of(&write, None) };
        Now::of(&patch, Some(bytes.as_bytes()), inode.map(mapping).as_ref())
    }

    #[test]
    fn text_of_the_patched_file_is_taken_back_or_somebody_elses() {
        assert_eq!(now("jm", Some(7)), Now::Back);
        assert_eq!(now("ab", Some(7)), Now::Back);
        assert_eq!(now("xx", Some(7)), Now::Changed);
    }

    #[test]
    fn text_of_another_file_is_never_touched_or_blamed() {
        for bytes in ["jm", "ab", "xx"] {
            assert_eq!(now(bytes, Some(8)), Now::Gone);
            assert_eq!(now(bytes, None), Now::Gone);
        }
    }

    #[test]
    fn a_copy_of_the_patched_text_in_memory_is_taken_back() {
        assert_eq!(now("jm", Some(0)), Now::Back);
        assert_eq!(now("ab", Some(0)), Now::Gone);
        assert_eq!(now("xx", Some(0)), Now::Gone);
    }
}
