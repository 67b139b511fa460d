//! Which processes have weir's segment mapped, and what its header says of them.
//!
//! Reads `/proc` and the target's memory only; stops nothing. Whom this user may not look at is counted. Headers are hostile input (the target can write
//! them): weir-rt parses them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_rt::foreign::{self, Corrupt, ForeignHeader, Owner};
use weir_rt::limits::JOURNAL_CAPACITY_MAX;
use weir_rt::segment::{Identity, JournalEntry, JournalState, SegmentKind, StatsPage};
use weir_symbols::maps::{self, Mapping};
use weir_symbols::procfs;

use crate::limits::{LAYERS_MAX, STATS_PAGE_READS_MAX};
use crate::process::mapped::{Maker, is_kernel_array, is_maps, is_segment, islands};
use crate::process::memory::Memory;
use crate::process::permission;
use crate::process::sys;
use crate::process::watchdog;
use crate::refusal::Error;

/// The kernel gives out no greater number (PID_MAX_LIMIT of linux/threads.h).
const PID_MAX: u32 = 1 << 22;

/// How often a process is looked at whose segments come and go.
const LOOKS_MAX: usize = 16;

/// A process with weir's segment in it.
#[derive(Clone, Debug)]
pub struct Probed {
    pub pid: i32,
    /// The process's name.
    pub comm: String,
    pub identity: Identity,
    /// The weir that attached still runs.
    pub controller_alive: bool,
    /// Patches in the journal that are in force.
    pub probes: usize,
    /// Of the weir that attached, if it is not this one's: of the identity nothing but processes is known then, and
    /// nothing of probes.
    pub other_version: Option<u32>,
    /// What its weir said last of its probes, if it has. A fork child has its parent's segment, and what is said there is not
    /// about it.
    pub stats_page: Option<StatsPage>,
    /// Forked children of the process that has this segment wait at their first hit ([`crate::Children`]).
    pub children_wait: bool,
}

impl Probed {
    /// Why this weir may not attach: the other holds the process, or this one knows nothing of what that has written there.
    pub(crate) fn is_taken(&self) -> Error {
        let (pid, controller) = (self.pid, self.identity.controller_pid);
        match self.other_version {
            None => Error::AlreadyProbed {
                pid,
                controller,
                user: permission::user(self.identity.uid),
                seconds: self.age().as_secs(),
                label: self.identity.label.clone(),
            },
            Some(version) => Error::OtherVersion { pid, controller, version },
        }
    }

    /// How long ago the weir that attached began, as far as the header is right.
    pub fn age(&self) -> Duration {
        since(self.identity.started_ns)
    }

    /// How long ago the stats page was put up, as far as it is right; none where there is none.
    pub fn stats_page_age(&self) -> Option<Duration> {
        Some(since(self.stats_page.as_ref()?.written_ns))
    }

    /// It was forked from a traced process: its text is patched, and its gates are closed.
    pub fn is_inherited(&self) -> bool {
        self.identity.target_pid != self.pid as u32
    }
}

/// Time since so many ns of CLOCK_MONOTONIC.
fn since(at_ns: u64) -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.saturating_sub(Duration::from_nanos(at_ns))
}

/// A process with probes of weir's of which nothing can be told.
#[derive(Clone, Debug)]
pub struct Spoiled {
    pub pid: i32,
    /// The process's name.
    pub comm: String,
    /// What is wrong with its segment.
    pub detail: String,
    /// A weir that runs has this segment too.
    pub controller: Option<i32>,
}

/// What all of `/proc` shows, by the numbers of processes.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Processes that weir traces, or has left traced.
    pub found: Vec<Probed>,
    /// Those whose segment is corrupt: the target can write it. `restore::detach` restores them.
    pub spoiled: Vec<Spoiled>,
    /// Processes that may not be looked at. Weir's probes may be in them.
    pub unseen: Vec<i32>,
}

/// Looks at all processes.
pub fn look() -> io::Result<Look> {
    let (mut look, mut had) = (Look::default(), HashMap::new());
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let mappings = match maps::read(sys::living_thread(pid) as u32) {
            Ok(mappings) => mappings,
            Err(error) => {
                look.unseen.extend(is_hidden(pid, &error).then_some(pid));
                continue;
            }
        };
        let has = Has::of(&mappings);
        if !has.segments.is_empty() {
            had.insert(pid, has);
        }
        // Again where a weir has come or gone meanwhile.
        look.add(pid, of(pid, &mappings).or_else(|_| all_in(pid)));
    }
    let (targets, others): (Vec<_>, Vec<_>) = had.iter().partition(|(_, has)| has.code);
    let is_weir = |pid: i32| targets.iter().any(|(_, target)| had[&pid].holds(target));
    // Whatever a target has written into the header that its weir reads too.
    look.found.retain(|probed| !is_weir(probed.pid));
    look.spoiled.retain(|spoiled| had.get(&spoiled.pid).is_some_and(|has| has.code));
    for spoiled in &mut look.spoiled {
        let holds = |pid: i32, other: &Has| {
            // It ends a moment after its weir.
            other.holds(&had[&spoiled.pid]) && !is_watchdog(pid)
        };
        let weir = others.iter().find(|(pid, other)| holds(**pid, other));
        spoiled.controller = weir.map(|(pid, _)| **pid);
    }
    look.found.sort_by_key(|probed| probed.pid);
    look.spoiled.sort_by_key(|spoiled| spoiled.pid);
    Ok(look)
}

/// What of weirs' a process has mapped.
struct Has {
    /// Code, as a target has. A weir has the segments of its targets, and no code in itself.
    code: bool,
    /// Segments, by their files, and where they are.
    segments: Vec<(u64, u64)>,
}

impl Has {
    fn of(mappings: &[Mapping]) -> Has {
        let segments = mappings.iter().filter(|mapping| is_segment(mapping));
        let segments = segments.map(|mapping| (mapping.inode, mapping.start.0)).collect();
        Has { code: !islands(mappings).is_empty(), segments }
    }

    /// It is of the weir that traces this process. A child that was forked before the code came has the segment where
    /// its parent has it.
    fn holds(&self, target: &Has) -> bool {
        let is_in = |segment: &&(u64, u64)| target.segments.iter().any(|other| other.0 == segment.0);
        let mut shared = self.segments.iter().filter(is_in);
        !self.code && target.code && shared.any(|segment| !target.segments.contains(segment))
    }
}

impl Look {
    fn add(&mut self, pid: i32, probed: Result<Vec<Probed>, Error>) {
        match probed {
            Ok(probed) => self.found.extend(probed),
            // It has ended meanwhile.
            Err(Error::TargetGone { .. }) => {}
            Err(Error::Permission { .. }) => self.unseen.push(pid),
            Err(error) => {
                let detail =
                    if let Error::Corrupt { detail, .. } = error { detail } else { error.to_string() };
                self.spoiled.push(Spoiled { pid, comm: comm(pid), detail, controller: None });
            }
        }
    }
}

/// It has memory, and somebody else's it is. (What threads of the kernel map may not be read either, and is nothing.)
fn is_hidden(pid: i32, error: &io::Error) -> bool {
    let has_memory = || sys::status_field(pid, "VmSize").is_ok_and(|size| size.is_some());
    error.kind() == io::ErrorKind::PermissionDenied && has_memory()
}

/// The processes of a [`look`] that weir traces, or has left traced.
pub fn all() -> io::Result<Vec<Probed>> {
    look().map(|look| look.found)
}

/// What weir has put into process `pid`, if anything: of several that of the one that came first.
pub fn probed(pid: i32) -> Result<Option<Probed>, Error> {
    all_in(pid).map(|all| all.into_iter().next())
}

/// What each weir that traces process `pid` has put into it; where none does, the segment of those that did which says most.
pub fn all_in(pid: i32) -> Result<Vec<Probed>, Error> {
    settled(pid, of, Result::is_err)
}

/// What process `pid` has inherited of weirs that do not trace it themselves, from the process that it was forked from. A child that is forked while
/// another weir takes its parent over may have segments of both.
pub fn inherited_in(pid: i32) -> Result<Vec<Probed>, Error> {
    settled(pid, inherited, |found| !matches!(found, Ok(found) if found.is_empty()))
}

/// What `look` answers of process `pid`, once its segments do not change meanwhile where that is in doubt.
fn settled<T>(
    pid: i32,
    look: fn(i32, &[Mapping]) -> Result<Vec<T>, Error>,
    is_doubtful: fn(&Result<Vec<T>, Error>) -> bool,
) -> Result<Vec<T>, Error> {
    let read = || maps::read(sys::living_thread(pid) as u32).ok();
    let Some(mut mappings) = read() else { return Ok(Vec::new()) };
    let segments = |mappings: &[Mapping]| Has::of(mappings).segments;
    for _ in 1..LOOKS_MAX {
        let found = look(pid, &mappings);
        if !is_doubtful(&found) {
            return found;
        }
        match read() {
            // A weir that has come or gone meanwhile: what was read need not be of one segment.
            Some(now) if segments(&now) != segments(&mappings) => mappings = now,
            _ => return found,
        }
    }
    look(pid, &mappings)
}

fn inherited(pid: i32, mappings: &[Mapping]) -> Result<Vec<Probed>, Error> {
    let segments = segments(pid, mappings)?;
    let owners: Vec<Option<Owner>> = segments.iter().map(Segment::owner).collect();
    let is_own = |owner: &Owner| owner.target_pid as i32 == pid;
    let traces = |controller: u32| {
        owners.iter().flatten().any(|o| is_own(o) && o.controller_pid == controller && is_alive_weir(o))
    };
    let is_inherited = |owner: &Owner| !is_own(owner) && !traces(owner.controller_pid);
    let found = segments.iter().zip(&owners).filter(|(_, owner)| owner.as_ref().is_some_and(is_inherited));
    found.map(|(segment, _)| described(pid, segment)).collect()
}

/// Process `pid` has inherited probes of the weir `controller`, which does not trace it yet.
pub fn has_inherited_of(pid: i32, controller: u32) -> bool {
    let is_its = |probed: &Probed| probed.identity.controller_pid == controller;
    inherited_in(pid).unwrap_or_default().iter().any(is_its)
}

/// Whether process `pid` has something of weir's to undo. Where it has segments and no code, it may be a weir: then the
/// segments are those of its targets, and what one has written there is not to be the end of that weir.
pub(crate) fn has_probes(pid: i32, mappings: &[Mapping]) -> Result<bool, Error> {
    if !islands(mappings).is_empty() {
        return Ok(true);
    }
    if segments(pid, mappings)?.is_empty() {
        return Ok(false);
    }
    let look = look().map_err(|source| Error::system("reading /proc", source))?;
    Ok(look.found.iter().any(|probed| probed.pid == pid))
}

/// The same as [`all_in`] of a process that maps this.
pub(crate) fn of(pid: i32, mappings: &[Mapping]) -> Result<Vec<Probed>, Error> {
    let segments = segments(pid, mappings)?;
    let is_own = |segment: &Segment| segment.owner().is_some_and(|owner| owner.target_pid as i32 == pid);
    let mut found = Vec::new();
    for segment in shown(&segments, Segment::lives, is_own) {
        found.push(described(pid, segment)?);
    }
    found.sort_by_key(|probed| probed.identity.started_ns);
    Ok(found)
}

/// Of a process's segments those that are shown: those through which it is traced, or else the one that says most. Besides them there may be what an
/// earlier weir left behind, or what the process inherited, where a thread may still return to that code.
fn shown<T>(segments: &[T], lives: impl Fn(&T) -> bool, is_own: impl Fn(&T) -> bool) -> Vec<&T> {
    let living = || segments.iter().filter(|segment| lives(segment));
    let traced: Vec<&T> = living().filter(|segment| is_own(segment)).take(LAYERS_MAX).collect();
    let any = || living().next().or(segments.first()).into_iter().collect();
    if traced.is_empty() { any() } else { traced }
}

/// Process `pid`, which has segments and no code of weir's, is the watchdog of a weir, whose memory it shares.
fn is_watchdog(pid: i32) -> bool {
    comm(pid).as_bytes() == watchdog::NAME.to_bytes()
}

/// The process's name.
fn comm(pid: i32) -> String {
    procfs::text(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

fn described(pid: i32, segment: &Segment) -> Result<Probed, Error> {
    let (comm, controller_alive) = (comm(pid), segment.lives());
    let (identity, probes, other_version) = match &segment.header {
        Ok(header) => {
            let journal = segment.journal(pid)?;
            let is_probe = |entry: &&JournalEntry| {
                entry.state == JournalState::Applied && !entry.is_counter && !entry.is_own
            };
            (header.identity.clone(), journal.iter().filter(is_probe).count(), None)
        }
        Err(Corrupt::Version { version, owner }) if is_possible(owner) => {
            let Owner { controller_pid, controller_start, target_pid } = *owner;
            let known = Identity { controller_pid, controller_start, target_pid, ..Identity::default() };
            (known, 0, Some(*version))
        }
        Err(corrupt) => return Err(Error::Corrupt { pid, detail: corrupt.to_string() }),
    };
    let stats_page = segment.stats_page(pid).filter(|_| identity.target_pid == pid as u32);
    let children_wait = segment.header.as_ref().is_ok_and(|header| header.children_wait);
    Ok(Probed { pid, comm, identity, controller_alive, probes, other_version, stats_page, children_wait })
}

/// A process's own segment, and what its header says.
pub(crate) struct Segment<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) header: Result<ForeignHeader, Corrupt>,
}

impl Segment<'_> {
    /// Whose it is, as far as its header says.
    pub(crate) fn owner(&self) -> Option<Owner> {
        owner(&self.header)
    }

    /// The weir that made it still runs.
    pub(crate) fn lives(&self) -> bool {
        self.owner().is_some_and(|owner| is_alive_weir(&owner))
    }

    /// It is not to be undone: its weir runs and traces process `pid` itself, and is not the one that is `undone`.
    pub(crate) fn stays(&self, pid: i32, undone: Option<u32>) -> bool {
        let traces = |owner: Owner| owner.target_pid as i32 == pid && Some(owner.controller_pid) != undone;
        self.owner().is_some_and(traces) && self.lives()
    }

    /// Whose code is this segment's.
    pub(crate) fn maker(&self) -> Option<Maker> {
        self.header.as_ref().ok().map(|header| Maker::of(&header.identity))
    }

    /// The undo journal; empty where the header says nothing that this weir knows.
    pub(crate) fn journal(&self, pid: i32) -> Result<Vec<JournalEntry>, Error> {
        let Ok(header) = &self.header else { return Ok(Vec::new()) };
        let (start, end) = (self.mapping.start.0, self.mapping.end.0);
        let bytes = u64::from(header.journal_capacity) * foreign::JOURNAL_ENTRY_BYTES as u64;
        let mut journal = vec![0; bytes.min(end - start) as usize];
        let read = open(pid)?.read(start.saturating_add(header.journal_offset), &mut journal);
        read.map_err(|source| Error::system("reading the journal", source))?;
        Ok(foreign::parse_journal(&journal))
    }

    /// What its weir said last. None where it has said nothing, where it was killed while it did, and where the target writes
    /// there all the time.
    fn stats_page(&self, pid: i32) -> Option<StatsPage> {
        let header = self.header.as_ref().ok().filter(|header| header.stats_page_lines > 0)?;
        let bytes = header.stats_page_bytes();
        if header.stats_page_offset.checked_add(bytes)? > self.mapping.end.0 - self.mapping.start.0 {
            return None;
        }
        let (memory, at) = (open(pid).ok()?, self.mapping.start.0 + header.stats_page_offset);
        let mut copy = vec![0; bytes as usize];
        for _ in 0..STATS_PAGE_READS_MAX {
            let before = memory.read_u64(at).ok()?;
            memory.read(at, &mut copy).ok()?;
            if memory.read_u64(at).ok()? == before
                && let Some(stats_page) = foreign::parse_stats_page(&copy)
            {
                return Some(stats_page);
            }
            std::thread::yield_now();
        }
        None
    }
}

/// The segments through which process `pid` is traced: not those of processes that it traces itself, being a weir. (Where one
/// says of nobody whose it is, a process without code of weir's is taken for the weir.)
pub(crate) fn segments(pid: i32, mappings: &[Mapping]) -> Result<Vec<Segment<'_>>, Error> {
    let mut found = Vec::new();
    for mapping in mappings.iter().filter(|mapping| is_segment(mapping)) {
        let header = header(pid, mapping)?.and_then(|header| match header.kind {
            SegmentKind::Target => Ok(header),
            kind => Err(Corrupt::Field { what: "the kind", value: kind as u64 }),
        });
        found.push(Segment { mapping, header });
    }
    let has_code = !islands(mappings).is_empty();
    found.retain(|segment| !is_of_itself(pid, &segment.header) && (has_code || segment.owner().is_some()));
    if !has_code && !found.is_empty() && is_watchdog(pid) {
        found.clear();
    }
    Ok(found)
}

/// The undo journal of each of `segments`. What more there is than any weir writes is the target's: of that nothing is believed.
pub(crate) fn journals<'a, 'b: 'a>(
    pid: i32,
    segments: impl IntoIterator<Item = &'a Segment<'b>>,
) -> Result<Vec<Vec<JournalEntry>>, Error> {
    let mut left = JOURNAL_CAPACITY_MAX as usize;
    let mut journal = |segment: &Segment| {
        let journal = if left > 0 { segment.journal(pid)? } else { Vec::new() };
        left = left.saturating_sub(journal.len());
        Ok(journal)
    };
    segments.into_iter().map(&mut journal).collect()
}

/// Maps of sessions that process `pid` was lent; not those that it lends itself, being a weir. With what lies over their ends.
pub(crate) fn lent_maps(pid: i32, mappings: &[Mapping]) -> Result<Vec<Range<u64>>, Error> {
    let mut found = Vec::new();
    for (number, mapping) in mappings.iter().enumerate().filter(|(_, mapping)| is_maps(mapping)) {
        if !is_of_itself(pid, &header(pid, mapping)?) {
            let behind = mappings.get(number + 1);
            let over = behind.filter(|next| next.start == mapping.end && is_kernel_array(next));
            found.push(mapping.start.0..over.unwrap_or(mapping).end.0);
        }
    }
    Ok(found)
}

fn header(pid: i32, mapping: &Mapping) -> Result<Result<ForeignHeader, Corrupt>, Error> {
    let mut bytes = vec![0; foreign::HEADER_BYTES];
    let length = open(pid)?.read_some(mapping.start.0, &mut bytes).unwrap_or(0);
    Ok(foreign::parse_header(&bytes[..length]))
}

/// Process `pid` is the weir that the header names.
fn is_of_itself(pid: i32, header: &Result<ForeignHeader, Corrupt>) -> bool {
    owner(header).is_some_and(|owner| owner.controller_pid as i32 == pid && is_alive_weir(&owner))
}

/// Who traces whom, as far as the header says it.
fn owner(header: &Result<ForeignHeader, Corrupt>) -> Option<Owner> {
    match header {
        Ok(header) => {
            let Identity { controller_pid, controller_start, target_pid, .. } = header.identity;
            Some(Owner { controller_pid, controller_start, target_pid })
        }
        Err(Corrupt::Version { owner, .. }) => Some(*owner),
        Err(_) => None,
    }
}

/// What a header of another version says of processes, it could say.
fn is_possible(owner: &Owner) -> bool {
    [owner.controller_pid, owner.target_pid].iter().all(|pid| (1..=PID_MAX).contains(pid))
}

fn is_alive_weir(owner: &Owner) -> bool {
    is_alive(owner.controller_pid as i32, owner.controller_start)
}

fn open(pid: i32) -> Result<Memory, Error> {
    Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))
}

/// The process still runs that had this id when it started at `start`.
fn is_alive(pid: i32, start: u64) -> bool {
    sys::stat(&format!("/proc/{pid}/stat")).is_ok_and(|(state, started)| state != 'Z' && started == start)
}

/// Start time of this process, in clock ticks since boot: with the pid, its identity.
pub fn own_start() -> u64 {
    sys::stat("/proc/self/stat").map_or(0, |(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_process_is_told_by_what_traces_it_wherever_that_is_mapped() {
        // Whether its weir lives, and whether it is about the process itself.
        let check = |segments: &[(bool, bool)], wanted: &[usize]| {
            let found = shown(segments, |segment| segment.0, |segment| segment.1);
            let wanted: Vec<_> = wanted.iter().map(|&at| &segments[at]).collect();
            assert_eq!(found, wanted, "{segments:?}");
        };
        let (own, inherited, left) = ((true, true), (true, false), (false, true));
        check(&[], &[]);
        check(&[left], &[0]);
        check(&[left, inherited], &[1]);
        check(&[inherited, own], &[1]);
        check(&[own, inherited], &[0]);
        check(&[left, inherited, own], &[2]);
        check(&[own, left, own], &[0, 2]);
    }
}
