//! Brings generated code into the target, writes the jumps to it, and opens their gates.
//!
//! In: [`Generated`] code, and the [`Jump`]s that lead there. Out: the jumps that stand, with their journal entries. Each
//! write is in the undo journal before it is made, and in [`Undo`](crate::attach::undo::Undo) as long as it stands; the
//! segment's header says where islands are as soon as they are mapped. Jumps of hooks are written first: where one cannot be,
//! no return is caught. Not here: how threads are held off the bytes ([`patch`]).

use std::iter;
use std::sync::Arc;

use weir_plan::Refusal;
use weir_plan::window::Write;
use weir_rt::segment::{JournalState, Place as SegmentPlace, Reads};
use weir_symbols::VirtAddr;
use weir_trampoline::island::{Place, PlannedSite, Stubs};

use crate::attach::gates;
use crate::attach::generate::Generated;
use crate::attach::others::Others;
use crate::attach::patch::{self, Jump};
use crate::attach::share::map_islands;
use crate::attach::state::Attachment;
use crate::attach::undo::{MappedFile, Patch};
use crate::limits;
use crate::process::isa::native::remote::hold_callable;
use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::refusal::Error;

/// A site whose jump stands, and the journal entries of what was written for it.
pub(crate) type Written = (usize, Vec<u32>);

impl Attachment {
    /// Generates code for `planned`, outposts where it is `new`, and has it mapped in the target and filled. A launched
    /// command is still held then. The target runs between the two, and threads that start map their stacks next to what
    /// is there: where that was the place, another one is chosen, farther and farther away.
    pub(crate) fn bring(
        &mut self,
        planned: &[PlannedSite],
        is_new: &dyn Fn(usize) -> bool,
    ) -> Result<(Generated, Option<Stopped>), Error> {
        for tries in 0..limits::PLACE_TRIES_MAX {
            let apart = match tries {
                0 => 0,
                more => (limits::APART_FIRST << (more - 1)).min(limits::APART_MAX),
            };
            let mut generated = self.generate(planned, is_new, apart)?;
            let stopped = self.target.stop()?;
            // One that is held maps what it did when this was planned.
            if !self.target.stays_held {
                self.target.refresh()?;
            }
            let stopped = hold_callable(&mut self.target, stopped, Target::stop)?;
            if generated.stubs.is_some() && Others::of(&self.target).replace_returns {
                self.target.resume_between(stopped);
                let detail = "another weir has begun to replace return addresses meanwhile; try again";
                return Err(Error::Link { pid: self.target.pid, detail: detail.into() });
            }
            if generated.fits(&self.target.mappings) {
                let held = self.map(stopped, planned, &mut generated)?;
                return Ok((generated, held));
            }
            self.target.resume_between(stopped);
        }
        let tries = limits::PLACE_TRIES_MAX;
        let detail = format!(
            "it has mapped something each of {tries} times where code was to go; try again when it maps less"
        );
        Err(Error::Link { pid: self.target.pid, detail })
    }

    /// Maps what was generated into the stopped target and fills it. Outposts that there is no room for after all are
    /// nobody's landing any more.
    fn map(
        &mut self,
        mut stopped: Stopped,
        planned: &[PlannedSite],
        generated: &mut Generated,
    ) -> Result<Option<Stopped>, Error> {
        self.undo.islands.extend(generated.ranges());
        let files = map_islands(&self.target, &mut stopped, generated)?;
        stopped.in_time()?;
        if generated.stubs.is_some() {
            self.stubs.clone_from(&generated.stubs);
        }
        generated.landings.retain(|site, _| !files.unmapped.contains(site));
        self.consumers.mapped(generated);
        self.tell_place();
        let held = match self.target.stays_held {
            true => Some(stopped),
            false => {
                self.target.resume(stopped);
                None
            }
        };
        files.fill(generated)?;
        for place in &generated.places {
            gates::found(&self.target.memory, place.gates_of_all(), self.lease())
                .map_err(|source| Error::system("writing gates", source))?;
        }
        let always = self.control_address + Reads::OFFSET;
        for entry in generated.entries().filter(|entry| self.is_guard(planned[entry.site].patch_address())) {
            gates::found_apart(&self.target.memory, entry.gate, always)
                .map_err(|source| Error::system("writing gates", source))?;
        }
        Ok(held)
    }

    /// Says in the segment's header where the islands are.
    pub(crate) fn tell_place(&self) {
        let islands = &self.consumers.islands;
        self.control.set_place(&SegmentPlace {
            segment_address: self.control_address,
            maps_address: self.maps_address,
            gate_address: islands.first().map_or(0, Place::gates),
            islands: islands
                .iter()
                .map(Place::range)
                .chain(self.stubs.as_ref().map(Stubs::range))
                .map(|range| (range.start, range.end - range.start))
                .collect(),
            restorers: self.restorers,
            stubs: self.stubs.as_ref().map_or([0; 4], |stubs| stubs.table.place()),
        });
    }

    /// Opens the gates of what was generated, of the sites that are armed.
    pub(crate) fn open_gates(
        &self,
        generated: &Generated,
        is_armed: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let mut gates: Vec<(u64, bool)> =
            generated.entries().map(|entry| (entry.gate, is_armed(entry.site))).collect();
        gates::set(&self.target.memory, &mut gates, self.lease())
            .map_err(|source| Error::system("opening gates", source))
    }

    /// Writes the jumps `todo`, those of the `wanted` hooks first. Of those that stand then: site, journal entries.
    pub(crate) fn write_jumps(
        &mut self,
        held: Option<Stopped>,
        todo: Vec<Jump>,
        wanted: usize,
        refuse: &mut dyn FnMut(usize, Refusal),
    ) -> Result<(Vec<Written>, Option<Stopped>), Error> {
        let (hooks, mut others): (Vec<Jump>, Vec<Jump>) = todo.into_iter().partition(|jump| jump.is_hook);
        let (mut standing, mut held) = (Vec::new(), held);
        if wanted > 0 {
            (standing, held) = self.write_some(held, hooks, refuse)?;
            if standing.len() < wanted {
                refuse_returns(&mut others, refuse);
            }
        }
        let (others, held) = self.write_some(held, others, refuse)?;
        standing.extend(others);
        Ok((standing, held))
    }

    fn write_some(
        &mut self,
        held: Option<Stopped>,
        jumps: Vec<Jump>,
        refuse: &mut dyn FnMut(usize, Refusal),
    ) -> Result<(Vec<Written>, Option<Stopped>), Error> {
        let (first_patch, mut entries) = (self.undo.patches.len(), Vec::with_capacity(jumps.len()));
        let mut file = None;
        for jump in &jumps {
            let leads_from = |write: &Write| (write.address != jump.address).then_some(jump.address);
            let mut of_jump = Vec::with_capacity(jump.writes.len());
            for (number, write) in jump.writes.iter().enumerate() {
                let (is_hook, is_probe) = (jump.is_hook, jump.is_probe && !self.own.contains(&jump.address));
                of_jump.push(self.note(write.address, &write.old, &write.new, is_probe)?);
                file = self.file_at(write.address, file);
                let patch = Patch::of(write, leads_from(write));
                let is_called = jump.is_called;
                self.calls.has_places |= is_called;
                let (file, beneath) = (file.clone(), jump.beneath.get(number).cloned());
                self.undo.patches.push(Patch { is_hook, is_probe, is_called, file, beneath, ..patch });
            }
            entries.push(of_jump);
        }
        let journal = self.control.journal();
        let mark = |jump: usize, state: JournalState| {
            entries[jump].iter().for_each(|&entry| journal.set_state(entry, state));
        };
        let tries = self.retries.stops_max();
        let mut on_written = |jump| mark(jump, JournalState::Applied);
        let (refusals, held) = patch::write(&mut self.target, held, &jumps, tries, &mut on_written)?;
        let (mut is_kept, mut spare) = (Vec::with_capacity(jumps.len()), Vec::<u32>::new());
        for (index, (jump, refusal)) in jumps.iter().zip(&refusals).enumerate() {
            is_kept.extend(jump.writes.iter().map(|_| refusal.is_none()));
            if let Some(refusal) = refusal {
                mark(index, JournalState::Undone);
                spare.extend(&entries[index]);
                refuse(jump.site, refusal.clone());
            }
        }
        self.consumers.spare_entries.extend(spare);
        let mut kept = iter::repeat_n(true, first_patch).chain(is_kept);
        self.undo.patches.retain(|_| kept.next().unwrap_or(true));
        let written = jumps.iter().zip(entries).zip(&refusals).filter(|(_, refusal)| refusal.is_none());
        let written = written.map(|((jump, entries), _)| (jump.site, entries)).collect();
        Ok((written, held))
    }

    /// The file that is mapped at `address`: `last`, if it is that.
    fn file_at(&self, address: u64, last: Option<Arc<MappedFile>>) -> Option<Arc<MappedFile>> {
        let mapping = self.target.mapping_at(VirtAddr(address))?;
        let identity = mapping.identity();
        let new = || Arc::new(MappedFile { identity, path: mapping.path.clone() });
        Some(last.filter(|last| last.identity == identity).unwrap_or_else(new))
    }

    /// Writes a planned patch to the journal; its index.
    pub(crate) fn note(
        &mut self,
        address: u64,
        old: &[u8],
        new: &[u8],
        is_probe: bool,
    ) -> Result<u32, Error> {
        let journal = self.control.journal();
        if let Some(spare) = self.consumers.spare_entries.pop() {
            match is_probe {
                true => journal.replace(spare, address, old, new),
                false => journal.replace_own(spare, address, old, new),
            }
            return Ok(spare);
        }
        let pushed = match is_probe {
            true => journal.push(address, old, new),
            false => journal.push_own(address, old, new),
        };
        let pid = self.target.pid;
        pushed.map_err(|full| Error::Link { pid, detail: full.to_string() })
    }
}

/// Takes the sites whose returns would be probed out of `jumps`: what answers unwinders knows nothing of them.
pub(crate) fn refuse_returns(jumps: &mut Vec<Jump>, refuse: &mut dyn FnMut(usize, Refusal)) {
    for jump in jumps.extract_if(.., |jump| jump.returns) {
        let detail = "a function that it asks cannot be hooked".into();
        refuse(jump.site, Refusal::UnwinderUnknown { detail });
    }
}
