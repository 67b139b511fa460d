//! What stood where, and when: a history of the files that processes have mapped as code.
//!
//! In: snapshots of `/proc/PID/maps`, each with its time and with what tells one program run from the next under the
//! same process id ([`Image`]). Out: for an address, and a time or none, the places of files that may have stood there
//! ([`Generations::places`]), also of processes that have ended and of libraries that were unloaded.
//!
//! Between two snapshots nobody looked: a mapping that a snapshot shows may have come right after the one before, and may
//! have gone right before the one after. So an answer is a set. One place: it was that one. Several: whoever asks must
//! treat them as equals, and take an answer only where all agree. Where nothing stood at the time asked for, the places
//! that stood there last before are the answer: a program may ask for an address that it has kept.
//!
//! Only executable mappings of files are kept. Memory is bounded by [`GENERATION_REGIONS_MAX`] and [`MAPPED_FILES_MAX`]:
//! what was unmapped longest ago is forgotten first, and counted. Pure: opens no file, reads no clock. Times are
//! nanoseconds of one clock of the caller's choice.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::limits::{GENERATION_REGIONS_MAX, MAPPED_FILES_MAX};
use crate::maps::Mapping;
use crate::{FileIdentity, FileOffset, VirtAddr};

/// What tells a run of a program from another one with the same process id: an exec(2), or a new process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Image {
    /// When the process started, in the kernel's ticks since boot (field 22 of proc_pid_stat(5)).
    pub started_ticks: u64,
    /// Where its main thread's stack began (field 28), which each exec chooses anew.
    pub stack: u64,
}

/// A file as maps name it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MappedFile {
    pub identity: FileIdentity,
    /// As the process saw it; without the mark of a deleted file.
    pub path: String,
}

/// Number of a [`MappedFile`], as long as the history lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileNumber(pub u32);

/// A byte of a file that stood at an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    pub file: FileNumber,
    pub offset: FileOffset,
}

/// When the address asked for was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Within these times, both included.
    Between(u64, u64),
    /// Nobody knows.
    Any,
}

/// The history of all processes that were looked at.
#[derive(Debug)]
pub struct Generations {
    /// By process id; the images of one in the order in which they ran.
    processes: BTreeMap<u32, Vec<Generation>>,
    files: Vec<MappedFile>,
    numbers: HashMap<MappedFile, FileNumber>,
    /// Of all processes, images themselves counted too.
    regions: usize,
    regions_max: usize,
    forgotten: u64,
}

/// One image of one process.
#[derive(Debug)]
struct Generation {
    image: Image,
    span: Span,
    /// Mapped when it was last looked at.
    standing: HashSet<Region>,
    /// Mapped earlier.
    gone: Vec<Region>,
    looked: u64,
}

/// Times between which something may have been so.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Span {
    from: u64,
    /// The last moment; `u64::MAX` while it is still so.
    until: u64,
}

/// One mapping while it lasted. Two are the same mapping if all but their times agree.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: VirtAddr,
    end: VirtAddr,
    offset: FileOffset,
    file: FileNumber,
    span: Span,
}

impl Region {
    fn shape(&self) -> (VirtAddr, VirtAddr, FileOffset, FileNumber) {
        (self.start, self.end, self.offset, self.file)
    }

    fn place(&self, address: VirtAddr) -> Option<Place> {
        let is_inside = self.start <= address && address < self.end;
        let offset = self.offset.checked_add(address.0.checked_sub(self.start.0)?)?;
        is_inside.then_some(Place { file: self.file, offset })
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Region) -> bool {
        self.shape() == other.shape()
    }
}

impl Eq for Region {}

impl std::hash::Hash for Region {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.shape().hash(state);
    }
}

impl Span {
    fn meets(self, moment: Moment) -> bool {
        match moment {
            Moment::Any => true,
            Moment::Between(from, until) => self.from <= until && from <= self.until,
        }
    }
}

impl Default for Generations {
    fn default() -> Generations {
        Generations::with_limit(GENERATION_REGIONS_MAX)
    }
}

impl Generations {
    /// One that keeps so many mappings of all processes together.
    pub fn with_limit(regions_max: usize) -> Generations {
        Generations {
            processes: BTreeMap::new(),
            files: Vec::new(),
            numbers: HashMap::new(),
            regions: 0,
            regions_max,
            forgotten: 0,
        }
    }

    /// Mappings that were forgotten, or never kept, because of a limit.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Panics for a number that is not of this history.
    pub fn file(&self, file: FileNumber) -> &MappedFile {
        &self.files[file.0 as usize]
    }

    /// What process `pid`, which runs `image`, maps at the time `at`, not earlier than any time given before. Gives the
    /// files that were not known yet, each with one of its mappings.
    pub fn look<'m>(
        &mut self,
        pid: u32,
        image: Image,
        mappings: &'m [Mapping],
        at: u64,
    ) -> Vec<(FileNumber, &'m Mapping)> {
        let known = self.processes.entry(pid).or_default();
        let before = known.last().map_or(0, |generation| generation.looked);
        if known.last().is_none_or(|last| last.image != image || last.span.until != u64::MAX) {
            if let Some(last) = known.last_mut() {
                last.close(at);
            }
            let span = Span { from: before, until: u64::MAX };
            known.push(Generation {
                image,
                span,
                standing: HashSet::new(),
                gone: Vec::new(),
                looked: before,
            });
            self.regions += 1;
        }
        let (mut standing, mut new) = (HashSet::new(), Vec::new());
        for mapping in mappings.iter().filter(|mapping| mapping.execute && mapping.inode != 0) {
            let known_files = self.files.len();
            let Some(file) = self.number(mapping) else {
                self.forgotten += 1;
                continue;
            };
            if self.files.len() > known_files {
                new.push((file, mapping));
            }
            let span = Span { from: before, until: u64::MAX };
            let (start, end, offset) = (mapping.start, mapping.end, mapping.offset);
            standing.insert(Region { start, end, offset, file, span });
        }
        // SANITY: an image was pushed above if there was none.
        let generation = self.processes.get_mut(&pid).and_then(|all| all.last_mut()).expect("an image");
        let count = generation.standing.len() + generation.gone.len();
        generation.change(standing, at);
        self.regions += generation.standing.len() + generation.gone.len() - count;
        self.keep_to_limit();
        new
    }

    /// Process `pid` has ended, at the time `at` at the latest.
    pub fn ended(&mut self, pid: u32, at: u64) {
        if let Some(last) = self.processes.get_mut(&pid).and_then(|all| all.last_mut()) {
            last.close(at);
        }
    }

    /// What may have stood at `address` of process `pid`; each place once. See the module's header.
    pub fn places(&self, pid: u32, address: VirtAddr, moment: Moment) -> Vec<Place> {
        let all = || self.processes.get(&pid).into_iter().flatten().flat_map(Generation::regions);
        let standing = || all().filter_map(|region| Some((region.span, region.place(address)?)));
        let mut found: Vec<Place> =
            standing().filter(|(span, _)| span.meets(moment)).map(|(_, place)| place).collect();
        if let (true, Moment::Between(from, _)) = (found.is_empty(), moment) {
            let earlier = || standing().filter(|(span, _)| span.until < from);
            let last = earlier().map(|(span, _)| span.until).max();
            found = earlier().filter(|(span, _)| Some(span.until) == last).map(|(_, place)| place).collect();
        }
        let mut once = HashSet::new();
        found.retain(|place| once.insert(*place));
        found
    }

    /// The images that process `pid` may have run; the last one before where none did at that time.
    pub fn images(&self, pid: u32, moment: Moment) -> Vec<Image> {
        let Some(all) = self.processes.get(&pid) else { return Vec::new() };
        let found: Vec<Image> =
            all.iter().filter(|one| one.span.meets(moment)).map(|one| one.image).collect();
        match (found.is_empty(), moment) {
            (true, Moment::Between(from, _)) => {
                let earlier = all.iter().filter(|one| one.span.until < from);
                earlier.max_by_key(|one| one.span.until).map(|one| one.image).into_iter().collect()
            }
            _ => found,
        }
    }

    fn number(&mut self, mapping: &Mapping) -> Option<FileNumber> {
        let file = MappedFile { identity: mapping.identity(), path: mapping.path.clone() };
        if let Some(number) = self.numbers.get(&file) {
            return Some(*number);
        }
        if self.files.len() == MAPPED_FILES_MAX {
            return None;
        }
        let number = FileNumber(self.files.len() as u32);
        self.numbers.insert(file.clone(), number);
        self.files.push(file);
        Some(number)
    }

    /// Forgets what went first. An eighth more than is needed, so that it is not done at each snapshot.
    fn keep_to_limit(&mut self) {
        if self.regions <= self.regions_max {
            return;
        }
        let surplus = self.regions - self.regions_max + self.regions_max / 8;
        let all = || self.processes.values().flatten();
        let mut ends: Vec<u64> = all().flat_map(|one| &one.gone).map(|region| region.span.until).collect();
        ends.sort_unstable();
        if let Some(last) = ends.get(surplus.min(ends.len()).wrapping_sub(1)).copied() {
            for generation in self.processes.values_mut().flatten() {
                generation.gone.retain(|region| region.span.until > last);
            }
        }
        for generations in self.processes.values_mut() {
            generations.retain(|one| one.span.until == u64::MAX || !one.gone.is_empty());
        }
        self.processes.retain(|_, generations| !generations.is_empty());
        self.drop_standing();
        let kept: usize =
            self.processes.values().flatten().map(|one| 1 + one.standing.len() + one.gone.len()).sum();
        self.forgotten += self.regions.saturating_sub(kept) as u64;
        self.regions = kept;
    }

    /// Where living processes alone have more than the limit, those looked at last keep the least.
    fn drop_standing(&mut self) {
        let mut room = self.regions_max;
        for generation in self.processes.values_mut().flatten() {
            let needed = 1 + generation.standing.len() + generation.gone.len();
            if needed > room {
                generation.standing.clear();
                generation.gone.clear();
            }
            room = room.saturating_sub(needed);
        }
    }
}

impl Generation {
    fn regions(&self) -> impl Iterator<Item = &Region> {
        self.standing.iter().chain(&self.gone)
    }

    /// Takes over what stands now.
    fn change(&mut self, now: HashSet<Region>, at: u64) {
        let before = std::mem::take(&mut self.standing);
        for mut region in before.iter().filter(|region| !now.contains(region)).copied() {
            region.span.until = at;
            self.gone.push(region);
        }
        // Those that stay keep the time when they came.
        self.standing =
            now.into_iter().map(|region| before.get(&region).copied().unwrap_or(region)).collect();
        self.looked = at;
    }

    fn close(&mut self, at: u64) {
        if self.span.until == u64::MAX {
            self.change(HashSet::new(), at);
            self.span.until = at;
        }
    }
}
