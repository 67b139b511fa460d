//! Which weirs are in a process, and which of them are gone and can be taken out.
//!
//! In: the segments in a target, which may say anything. Out: the weirs that run, those that are gone and lie under these
//! ([`crate::attach::others`]), and those that go. What the latter have written is for [`crate::attach::restore`].
//!
//! Several weirs may come to take out the same one. The first [`claim`]s it: it writes itself into the header of the segment, in a stop.

use std::collections::HashSet;
use std::ops::Range;

use weir_rt::abi::header;
use weir_rt::foreign::Corrupt;
use weir_rt::segment::{Announcements, JournalEntry, JournalState, Reads};
use weir_symbols::maps::Mapping;

use crate::attach::gates;
use crate::attach::others::{code_of, has_displaced};
use crate::attach::undo::hold;
use crate::process::mapped::{Island, Maker, islands};
use crate::process::memory::Memory;
use crate::process::scan::{self, Segment};
use crate::process::sys;
use crate::process::target::Target;
use crate::process::vm_sharing;
use crate::refusal::Error;

/// Whether a weir that is gone, or is to be undone, has left something in the target.
pub(crate) fn is_in_target(target: &Target) -> Result<bool, Error> {
    let has_any = scan::has_probes(target.pid, &target.mappings)?;
    Ok(has_any && is_in(target.pid, &target.mappings, target.taken_from)?)
}

pub(crate) fn is_in(pid: i32, mappings: &[Mapping], undone: Option<u32>) -> Result<bool, Error> {
    let segments = scan::segments(pid, mappings)?;
    let staying = segments.iter().filter(|segment| segment.stays(pid, undone));
    let staying: Vec<Option<Maker>> = staying.map(Segment::maker).collect();
    let is_gone = |maker: Option<Maker>| !staying.contains(&maker);
    Ok(staying.len() < segments.len() || islands(mappings).iter().any(|island| is_gone(island.maker)))
}

/// Segments that this weir takes out, and no other: where they are, and of which files.
#[derive(Debug, Default)]
pub(crate) struct Claimed(HashSet<(u64, u64)>);

/// Makes the segments of weirs that are gone this one's own, in one stop, so that nobody else takes them out at the same time. What watches over memory there is about to go: no load begins any more, and none is under way.
pub(crate) fn claim(target: &mut Target) -> Result<Claimed, Error> {
    let mut claimed = Claimed::default();
    if !has_own_gone(target)? {
        return Ok(claimed);
    }
    let stopped = hold(target)?;
    // A fork child has its parent's, which is not about it, and is the parent's memory too.
    for segment in scan::segments(target.pid, &target.mappings)?.iter().filter(|its| is_of(its, target.pid)) {
        if segment.stays(target.pid, target.taken_from) {
            continue;
        }
        let start = segment.mapping.start.0;
        let closed = if target.taken_from.is_some() { Reads::TAKEN_OVER } else { Reads::CLOSED };
        // Fails only where it is gone.
        let _ = target.memory.write(start + Reads::STATE_OFFSET, &closed.to_le_bytes());
        let controller = segment.owner().map(|owner| owner.controller_pid);
        if target.taken_from.is_none() || controller != target.taken_from {
            let (pid, begun) = (std::process::id(), scan::own_start());
            let _ = target.memory.write(start + header::CONTROLLER_PID as u64, &pid.to_le_bytes());
            let _ = target.memory.write(start + header::CONTROLLER_START as u64, &begun.to_le_bytes());
            claimed.0.insert((start, segment.mapping.inode));
        }
    }
    target.resume_between(stopped);
    Ok(claimed)
}

/// What is left of these is gone again: the next weir may take it out.
pub(crate) fn release(target: &mut Target, claimed: &Claimed) {
    if claimed.0.is_empty() || target.refresh().is_err() {
        return;
    }
    let is_claimed = |mapping: &&Mapping| claimed.0.contains(&(mapping.start.0, mapping.inode));
    for mapping in target.mappings.iter().filter(is_claimed) {
        let _ = target.memory.write(mapping.start.0 + header::CONTROLLER_START as u64, &[0; 8]);
    }
}

/// Whether there are such segments of the target itself. An error where a weir runs of which nothing is known.
fn has_own_gone(target: &Target) -> Result<bool, Error> {
    let segments = scan::segments(target.pid, &target.mappings)?;
    alone(target.pid, &segments)?;
    for segment in segments.iter().filter(|segment| segment.stays(target.pid, target.taken_from)) {
        if let (Some(owner), Err(Corrupt::Version { version, .. })) = (segment.owner(), &segment.header) {
            let (pid, controller) = (target.pid, owner.controller_pid);
            return Err(Error::OtherVersion { pid, controller, version: *version });
        }
    }
    let own = segments.iter().filter(|segment| is_of(segment, target.pid));
    Ok(own.into_iter().any(|segment| !segment.stays(target.pid, target.taken_from)))
}

/// A segment of this version, of process `pid` itself.
fn is_of(segment: &Segment, pid: i32) -> bool {
    segment.header.as_ref().is_ok_and(|header| header.identity.target_pid as i32 == pid)
}

/// Refuses a process that runs in the memory of one that is traced: what is undone here is undone there.
pub(crate) fn alone(pid: i32, segments: &[Segment]) -> Result<(), Error> {
    let others = segments.iter().filter_map(|segment| Some(segment.owner()?.target_pid as i32));
    let lives = |other: i32| sys::stat(&format!("/proc/{other}/stat")).is_ok();
    // Where the kernel does not say, it may be so.
    let shares =
        |other: &i32| *other != pid && lives(*other) && vm_sharing::share_memory(pid, *other) != Some(false);
    match others.into_iter().find(shares) {
        Some(other) => Err(Error::SharesMemory { pid, other }),
        None => Ok(()),
    }
}

/// A weir's segment in the target, and what its journal says.
pub(crate) struct Weir<'a> {
    pub(crate) segment: &'a Segment<'a>,
    pub(crate) journal: Vec<JournalEntry>,
}

impl Weir<'_> {
    pub(crate) fn range(&self) -> Range<u64> {
        self.segment.mapping.start.0..self.segment.mapping.end.0
    }

    fn maps_address(&self) -> Option<u64> {
        self.segment.header.as_ref().ok().map(|header| header.place.maps_address)
    }

    /// It has displaced what leads into this code. Of one that is gone all entries count: a thread may stand in what was generated for
    /// one that is undone, and go on there.
    fn lies_over(&self, memory: &Memory, code: &[Range<u64>], is_gone: bool) -> bool {
        let stands =
            |entry: &&JournalEntry| !entry.is_counter && (is_gone || entry.state != JournalState::Undone);
        self.journal.iter().filter(stands).any(|entry| has_displaced(memory, entry, code))
    }
}

/// What weirs there are in a process.
pub(crate) struct Found<'a> {
    /// To be taken out.
    pub(crate) going: Vec<Weir<'a>>,
    /// Those that run, and those that are gone and lie under these.
    staying: Vec<Weir<'a>>,
    pub(crate) kept: Vec<Weir<'a>>,
}

impl<'a> Found<'a> {
    pub(crate) fn of(
        target: &Target,
        segments: &'a [Segment<'a>],
        claimed: &Claimed,
    ) -> Result<Found<'a>, Error> {
        let (mut going, mut staying) = (Vec::new(), Vec::new());
        let journals = scan::journals(target.pid, segments)?;
        for (segment, journal) in segments.iter().zip(journals) {
            let weir = Weir { segment, journal };
            let is_claimed = claimed.0.contains(&(segment.mapping.start.0, segment.mapping.inode));
            match !is_claimed && segment.stays(target.pid, target.taken_from) {
                true => staying.push(weir),
                false => going.push(weir),
            }
        }
        let mut kept = Vec::new();
        loop {
            let lies_under = |weir: &Weir| {
                let Some(maker) = weir.segment.maker() else { return false };
                let code = code_of(target, |other| other == Some(maker));
                let memory = &target.memory;
                staying.iter().any(|other: &Weir| other.lies_over(memory, &code, false))
                    || kept.iter().any(|other: &Weir| other.lies_over(memory, &code, true))
            };
            let Some(under) = going.iter().position(lies_under) else { break };
            kept.push(going.remove(under));
        }
        Ok(Found { going, staying, kept })
    }

    fn stays(&self, maker: Option<Maker>) -> bool {
        let mut all = self.staying.iter().chain(&self.kept);
        maker.is_some() && all.any(|weir| weir.segment.maker() == maker)
    }

    /// Those that are to go.
    pub(crate) fn islands(&self, target: &Target) -> Vec<Island> {
        islands(&target.mappings).into_iter().filter(|island| !self.stays(island.maker)).collect()
    }

    /// The maps of sessions that no weir uses there which stays.
    pub(crate) fn lent_maps(&self, target: &Target) -> Result<Vec<Range<u64>>, Error> {
        let used: Vec<u64> = self.staying.iter().chain(&self.kept).filter_map(Weir::maps_address).collect();
        let mut maps = scan::lent_maps(target.pid, &target.mappings)?;
        // One that is attaching has not said yet which are its own.
        let is_coming = used.contains(&0);
        let named: Vec<u64> = self.going.iter().filter_map(Weir::maps_address).collect();
        maps.retain(|range| !used.contains(&range.start) && (!is_coming || named.contains(&range.start)));
        Ok(maps)
    }

    /// Where the weirs that run and wait for this process, a forked child, count those that they come too late for: it is about to lose their
    /// probes.
    pub(crate) fn followers(&self, target: &Target) -> Vec<u64> {
        let own = std::process::id();
        let followed = self.going.iter().filter_map(|weir| {
            let (header, owner) = (weir.segment.header.as_ref().ok()?, weir.segment.owner()?);
            let is_inherited = owner.target_pid as i32 != target.pid;
            let is_others = ![Some(own), target.taken_from].contains(&Some(owner.controller_pid));
            let waits = is_inherited && is_others && header.children_wait && weir.segment.lives();
            waits.then(|| header.place.maps_address.wrapping_add(Announcements::LATE_OFFSET))
        });
        followed.collect()
    }

    /// The programs of those that are gone and stay do not run any more, also where their lease is held.
    pub(crate) fn shut_kept(&self, target: &Target) {
        for island in islands(&target.mappings) {
            let mut kept = self.kept.iter().map(|weir| weir.segment.maker());
            if island.maker.is_some() && kept.any(|maker| maker == island.maker) {
                // Fails only where it is gone.
                let _ = island.gates(&target.memory).map(|gates| gates::shut(&target.memory, gates));
            }
        }
        // One that is taken over holds its lease yet, by which a hit runs that finds its gate shut and is metered.
        for weir in &self.kept {
            let controller = weir.segment.owner().map(|owner| owner.controller_pid);
            let Ok(header) = weir.segment.header.as_ref() else { continue };
            if target.taken_from.is_some() && controller == target.taken_from {
                let (meters, closed) = header.meters();
                for at in meters {
                    let _ = target.memory.write(weir.segment.mapping.start.0 + at, &closed.to_le_bytes());
                }
            }
        }
    }
}
