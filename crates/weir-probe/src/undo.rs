//! Takes probes out of a process: closes the gates, restores the text, and unmaps what weir had mapped.
//!
//! In: what is mapped and patched, from this run or from another weir's journal. Out: a [`Report`].
//! Text is restored only where it is as weir left it. Code is unmapped only when no thread stands in it, no stack
//! holds an address of it, and no rseq area points to it; else it stays (a few pages), and the report says so.

use std::collections::HashMap;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use nix::libc;
use weir_symbols::maps::Mapping;

use crate::attach::SEGMENT_NAME;
use crate::limits::RETRIES_MAX;
use crate::refusal::Error;
use crate::remote::Borrowed;
use crate::stack;
use crate::stop::Stopped;
use crate::sys;
use crate::target::Target;

const PAGE: u64 = 4096;

/// One place in the text that was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    pub address: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Patches whose text is as before.
    pub restored: usize,
    /// Addresses where the text was neither as weir left it nor as before, and was left alone.
    pub foreign: Vec<u64>,
    /// Code stayed mapped, because a thread might still come back to it.
    pub left_mapped: bool,
    /// The process has executed another program meanwhile: there was nothing to undo.
    pub replaced: bool,
}

/// Everything that weir has put into one process.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    pub(crate) segment: Range<u64>,
    /// With their gate pages, which are the last page of each.
    pub(crate) islands: Vec<Range<u64>>,
    pub(crate) patches: Vec<Patch>,
    /// Places in trampolines where programs have run, and where the same place is in the restored text.
    pub(crate) places: HashMap<u64, u64>,
}

impl Undo {
    pub(crate) fn run(&self, target: &mut Target) -> Result<Report, Error> {
        let mut report = Report::default();
        target.refresh()?;
        if !self.is_mapped(&target.mappings) {
            return Ok(Report { replaced: true, ..report });
        }
        for island in &self.islands {
            // A gate that is not mapped belongs to an attach that did not get so far.
            let _ = target.memory.write(island.end - PAGE, &[0; 8]);
        }
        let mut stopped = target.stop()?;
        self.restore_text(target, &mut report)?;
        for try_number in 0.. {
            self.move_out(&stopped)?;
            if self.is_quiet(target, &stopped)? {
                break;
            }
            if try_number == RETRIES_MAX {
                report.left_mapped = true;
                return Ok(report);
            }
            stopped.resume();
            thread::sleep(Duration::from_millis(1));
            stopped = Stopped::stop(target.pid)?;
            target.refresh()?;
        }
        self.unmap(target, &mut stopped)?;
        stopped.resume();
        target.launched = false;
        Ok(report)
    }

    fn is_mapped(&self, mappings: &[Mapping]) -> bool {
        mappings.iter().any(|mapping| mapping.start.0 == self.segment.start && is_segment(mapping))
    }

    fn restore_text(&self, target: &Target, report: &mut Report) -> Result<(), Error> {
        for patch in &self.patches {
            let mut now = vec![0; patch.old.len()];
            if target.memory.read(patch.address, &mut now).is_err() {
                continue; // Its library was unloaded.
            }
            if now == patch.new {
                let written = target.memory.write(patch.address, &patch.old);
                written.map_err(|source| Error::system("restoring text", source))?;
                report.restored += 1;
            } else if now == patch.old {
                report.restored += 1;
            } else {
                report.foreign.push(patch.address);
            }
        }
        Ok(())
    }

    /// Threads that have left the programs go on in the restored text.
    fn move_out(&self, stopped: &Stopped) -> Result<(), Error> {
        for tid in stopped.threads() {
            let mut registers = stopped.registers(tid)?;
            if let Some(&original) = self.places.get(&registers.rip) {
                registers.rip = original;
                stopped.set_registers(tid, registers)?;
            }
        }
        Ok(())
    }

    /// Nothing that a thread holds leads to an island any more. Stale rseq pointers are cleared on the way.
    fn is_quiet(&self, target: &Target, stopped: &Stopped) -> Result<bool, Error> {
        let inside = |address: u64| self.islands.iter().any(|island| island.contains(&address));
        for tid in stopped.threads() {
            let registers = stopped.registers(tid)?;
            if inside(registers.rip) {
                return Ok(false);
            }
            let found = stack::scan(&target.memory, &target.mappings, registers.rsp, &inside);
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
        Ok(true)
    }

    fn unmap(&self, target: &Target, stopped: &mut Stopped) -> Result<(), Error> {
        let mut remote = Borrowed::new(stopped, &target.memory, target.gadgets, &target.mappings)?;
        for range in self.islands.iter().chain([&self.segment]) {
            // Only what is weir's: a journal of a corrupted segment may name anything.
            for mapping in target.mappings.iter().filter(|mapping| is_ours(mapping, range)) {
                let (start, bytes) = (mapping.start.0, mapping.end.0 - mapping.start.0);
                remote.call("munmap", libc::SYS_munmap, [start, bytes, 0, 0, 0, 0])?;
            }
        }
        remote.finish()
    }
}

pub(crate) fn is_segment(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(SEGMENT_NAME))
}

/// A mapping of a weir memfd, or the anonymous gate page at the end of an island.
fn is_ours(mapping: &Mapping, range: &Range<u64>) -> bool {
    let is_within = range.start <= mapping.start.0 && mapping.end.0 <= range.end;
    let is_gate = mapping.inode == 0 && mapping.path.is_empty() && mapping.start.0 == range.end - PAGE;
    is_within && (is_gate || mapping.path.starts_with("/memfd:weir-"))
}
