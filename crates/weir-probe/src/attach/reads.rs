//! Lets programs in a target load its memory without a system call, where every way is watched by which that memory could go.
//!
//! In: an [`Attachment`] whose programs read memory, asked again and again. Out: a table of what is known to be there, in the
//! process's own segment ([`weir_rt::segment::Reads`]); or why there is none.
//!
//! ```text
//! files      every instruction that calls the kernel, and which call (weir_plan::entries)
//! hooks      before and behind those of the C library that take memory away (weir_trampoline::unmap); at the linker's r_brk
//! a stop     no thread is in one of them · membarrier(2), pkey_alloc(2) (remote)
//! then       maps ─▶ ranges that are private and no file's ─▶ table, whenever programs have missed some
//! ```
//!
//! Guaranteed: while a table holds, no memory that it has goes away before all loads that may be under way have been interrupted.
//! The hooks run whether or not the controller lives, until their text is put back; before that the table is closed, and every
//! thread has been stopped once.
//!
//! Deliberately not: memory of files (which may be cut short), shared memory, memory behind a library (which goes with
//! it, by the linker's own calls); programs that make code while they run, call the kernel past the C library in ways that could
//! take memory away, or are linked statically. There the kernel is asked for each read, as without this.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::libc;
use weir_plan::entries::{self, Entry, Number};
use weir_plan::window::Window;
use weir_plan::{Place, Refusal, plan_functions, plan_sites};
use weir_rt::segment::{Reads, ReadsState};
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, FileIdentity, Function, FunctionKind, LinkAddr};
use weir_trampoline::island::Place as IslandPlace;
use weir_trampoline::unmap;

use crate::attach::own::request;
use crate::attach::patch::PAGE;
use crate::attach::request::SiteRequest;
use crate::attach::state::{Attachment, Stage};
use crate::attach::survey;
use crate::limits::{GUARDS_MAX, WRITES_PER_SITE_MAX};
use crate::process::isa::native::cpu;
use crate::process::isa::native::remote::{Borrowed, hold_callable};
use crate::process::mapped::is_weirs;
use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::process::{linker, sys, vm_sharing};
use crate::refusal::Error;

/// How often a table is made at most, and so how often a program that takes memory away waits for all processors.
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two tables passes so many times what making one took.
const REST: u32 = 50;
/// How often it is looked whether it is worth while: each read asks the kernel until then.
const GLANCE: Duration = Duration::from_millis(10);
/// After so many reads that asked the kernel it is worth while.
const WORTH: u64 = 256;
/// So many attempts, at [`INTERVAL`], to find the process where no thread is in a hooked call.
const TRIES: u32 = 50;
/// How often it is attempted after those.
const RARELY: Duration = Duration::from_secs(10);

/// Calls that may take memory away, have it fault, or share it; and by which name they are told.
const CALLS: [(u32, &str); 15] = [
    (9, "mmap"),
    (10, "mprotect"),
    (11, "munmap"),
    (12, "brk"),
    (25, "mremap"),
    (28, "madvise"),
    (30, "shmat"),
    (56, "clone"),
    (58, "vfork"),
    (216, "remap_file_pages"),
    (323, "userfaultfd"),
    (329, "pkey_mprotect"),
    (330, "pkey_alloc"),
    (435, "clone3"),
    (440, "process_madvise"),
];
/// Calls that install a system call filter: elsewhere than in the C library nobody would notice before they do.
const FILTERS: [(u32, &str); 2] = [(157, "prctl"), (317, "seccomp")];
/// Those of them whose way back need not be hooked: what is noted stays noted where it is not.
const ONE_SIDED: [u32; 4] = [28, 56, 58, 435];

/// Whether programs load memory without a system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectReads {
    /// No program reads memory.
    Unwanted,
    /// It is being seen to, or the table has just been withdrawn.
    Waiting,
    On,
    /// Why not.
    Off(String),
}

impl Attachment {
    /// Whether programs load memory of the process without a system call.
    pub fn direct_reads(&self) -> DirectReads {
        match (&self.watch.stage, &self.watch.passing) {
            (Stage::Unwanted, _) => DirectReads::Unwanted,
            (Stage::Off(why), _) | (_, Some(why)) => DirectReads::Off(why.clone()),
            (Stage::Watching, None) => match self.control.reads().state() {
                ReadsState::Valid => DirectReads::On,
                ReadsState::Closed => DirectReads::Off(self.closed_why()),
                ReadsState::Off | ReadsState::Stale => DirectReads::Waiting,
            },
            _ => DirectReads::Waiting,
        }
    }

    /// How many tables were made so far.
    pub fn direct_read_tables(&self) -> u64 {
        self.watch.tables
    }

    /// From now on programs ask the kernel for whatever they read.
    pub fn keep_reads_slow(&mut self) {
        self.control.reads().close();
        self.watch.stage = Stage::Off("they are held off".into());
    }

    /// Sees to direct loads. To be called often, by the thread that attached.
    pub fn follow_memory(&mut self) {
        if self.watch.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let start = Instant::now();
        let is_table = matches!(self.watch.stage, Stage::Watching);
        let done = match std::mem::take(&mut self.watch.stage) {
            Stage::Unplanned => self.watch_calls(),
            Stage::Hooked { passages, tries } => self.settle(passages, tries),
            Stage::Watching => Ok(self.keep_table()),
            done @ (Stage::Unwanted | Stage::Off(_)) => {
                self.watch.stage = done;
                return;
            }
        };
        self.watch.stage = done.unwrap_or_else(|why| {
            self.control.reads().close();
            Stage::Off(why)
        });
        let rest = match self.watch.stage {
            Stage::Unplanned => GLANCE,
            Stage::Hooked { tries: 1..=TRIES, .. } => INTERVAL,
            Stage::Hooked { tries: 1.., .. } => RARELY,
            _ if is_table => INTERVAL.max(start.elapsed() * REST),
            _ => Duration::ZERO,
        };
        self.watch.next = Some(Instant::now() + rest);
    }

    /// Before gates are shut or text is put back: no load begins any more, and none is under way.
    pub(crate) fn end_direct_reads(&mut self) {
        self.control.reads().close();
        if self.guards.is_empty() {
            return;
        }
        self.watch.stage = Stage::Off("the probes are being taken out".into());
        // Where it cannot be stopped, nothing else can be done with it either.
        if let Ok(stopped) = self.target.stop() {
            self.target.resume(stopped);
        }
    }

    /// What watches over memory stands at `address`.
    pub(crate) fn is_guard(&self, address: u64) -> bool {
        self.guards.contains(&address)
    }

    fn closed_why(&self) -> String {
        self.control.reads().why().unwrap_or("the table was closed").into()
    }

    /// Hooks the calls.
    fn watch_calls(&mut self) -> Result<Stage, String> {
        let reads_memory = |program: &weir_rt::Executable| program.reads_memory();
        if !self.consumers.executables.iter().any(reads_memory) {
            return Ok(Stage::Unwanted);
        }
        if self.target.has_seccomp || self.control.filter().is_some() {
            return Err("it has a system call filter".into());
        }
        if let Some(unseen) = self.filters_unseen() {
            return Err(unseen.to_string());
        }
        if self.target.rseq().is_none() {
            return Err("its threads have no restartable sequences of glibc's (rseq)".into());
        }
        // Who reads little does not need it.
        if self.control.reads().missed() < WORTH {
            return Ok(Stage::Unplanned);
        }
        self.target.refresh().map_err(|error| error.to_string())?;
        are_files(&self.target.mappings)?;
        let found = Found::of(&self.target)?;
        let (sites, programs) = found.hooks(self.control_address + Reads::OFFSET);
        let needed = sites.len() * WRITES_PER_SITE_MAX;
        if sites.len() > GUARDS_MAX || needed > self.control.layout().journal_capacity as usize {
            return Err(format!("{} places to watch are too many", sites.len()));
        }
        let passages = found.passages();
        let guards: BTreeSet<u64> = found.places().map(|place| place.address).collect();
        let linker = found.linker_address();
        self.own.extend(guards.iter().copied().chain(linker));
        self.guards = guards;
        let added = self.add_own(&sites, &programs).map_err(|error| error.to_string())?;
        let mut refused = added.outcomes.iter().zip(found.names());
        if let Some((Err(refusal), name)) = refused.find(|(outcome, _)| outcome.is_err()) {
            let why = format!("{name} of its C library cannot be watched ({refusal})");
            // Nothing relies on the others.
            let _ = self.remove(added.consumer);
            self.guards.clear();
            return Err(why);
        }
        Ok(Stage::Hooked { passages, tries: 0 })
    }

    /// Sees that no thread is on its way through a call that was not noted, since it came before the hooks; and has the process
    /// say that its threads may be interrupted.
    fn settle(&mut self, passages: Vec<Range<u64>>, tries: u32) -> Result<Stage, String> {
        if shares_memory(self.target.pid) {
            return Err("another process shares its memory".into());
        }
        if handles_faults(self.target.pid) {
            return Err("it handles page faults itself (userfaultfd)".into());
        }
        let why = match self.settle_stopped(&passages) {
            Ok(Settled::Yes) => {
                self.watch.passing = None;
                return Ok(Stage::Watching);
            }
            Ok(Settled::Busy) => "a thread stays in a call that takes memory away".into(),
            Ok(Settled::Keys) => return Err("it uses protection keys".into()),
            Err(error @ (Error::StopTimeout { .. } | Error::ChildPending { .. })) => error.to_string(),
            Err(error) => return Err(error.to_string()),
        };
        self.watch.passing = (tries >= TRIES).then_some(why);
        Ok(Stage::Hooked { passages, tries: tries.saturating_add(1) })
    }

    fn settle_stopped(&mut self, passages: &[Range<u64>]) -> Result<Settled, Error> {
        let stopped = self.target.stop()?;
        self.target.refresh()?;
        let mut stopped = hold_callable(&mut self.target, stopped, Target::stop)?;
        let islands: Vec<Range<u64>> = self.guard_islands().map(IslandPlace::range).collect();
        let is_passage = |address: u64| passages.iter().chain(&islands).any(|range| range.contains(&address));
        let settled = match is_anyone(&self.target, &stopped, &is_passage)? {
            true => Settled::Busy,
            false => register(&self.target, &mut stopped)?,
        };
        self.target.resume(stopped);
        Ok(settled)
    }

    /// Islands that the hooks' trampolines are in.
    fn guard_islands(&self) -> impl Iterator<Item = &IslandPlace> {
        let is_its = |place: &&IslandPlace| {
            let sites = self.consumers.sites.iter();
            sites
                .filter(|site| self.is_guard(site.planned.patch_address()))
                .any(|site| place.range().contains(&site.entry()))
        };
        self.consumers.islands.iter().filter(is_its)
    }

    /// Makes a table where programs have missed one since the last.
    fn keep_table(&mut self) -> Stage {
        let control = self.control.clone();
        let reads = control.reads();
        if reads.state() == ReadsState::Closed {
            return Stage::Off(self.closed_why());
        }
        let missed = reads.missed();
        if missed == self.watch.missed {
            return Stage::Watching;
        }
        let Some(known) = reads.look() else { return Stage::Watching };
        self.watch.missed = missed;
        // Where code is made, a table that holds may go on: what makes it has withdrawn the one before.
        self.watch.passing = self
            .ranges(&known.leaving)
            .map(|(ranges, heap_end)| {
                // What the table has that holds is there: nobody has taken it back.
                let ranges = together(ranges.into_iter().chain(reads.table(&known)).collect());
                self.watch.tables += u64::from(reads.publish(&known, &ranges, heap_end));
            })
            .err();
        Stage::Watching
    }

    /// What can be loaded, but for what is `leaving`; and where the heap ends.
    fn ranges(&mut self, leaving: &[Range<u64>]) -> Result<(Vec<Range<u64>>, u64), String> {
        self.target.refresh().map_err(|error| error.to_string())?;
        let mappings = &self.target.mappings;
        are_files(mappings)?;
        for path in survey::files(mappings) {
            look_at(&self.target, &path)?;
        }
        let heap_end =
            mappings.iter().filter(|mapping| mapping.path == "[heap]").map(|heap| heap.end.0).max();
        let program = fs::metadata(format!("/proc/{}/exe", sys::living_thread(self.target.pid))).ok();
        let program_bytes = program.as_ref().map_or(0, |file| file.len().next_multiple_of(PAGE));
        let program = program.map(|file| file.ino());
        let code = mappings.iter().find(|mapping| mapping.execute && Some(mapping.inode) == program);
        let program_identity = code.map(Mapping::identity);
        let is_library = |mapping: &&Mapping| {
            mapping.execute && mapping.inode != 0 && Some(mapping.inode) != program && !is_weirs(mapping)
        };
        let libraries: HashSet<FileIdentity> =
            mappings.iter().filter(is_library).map(Mapping::identity).collect();
        let mut ranges = Vec::new();
        // Where what lies behind a library ends: it goes when the library does.
        let mut behind_library = 0;
        for mapping in mappings {
            let is_anonymous =
                mapping.inode == 0 && !mapping.shared && !mapping.execute && is_plain(&mapping.path);
            let is_behind = mapping.start.0 == behind_library;
            if libraries.contains(&mapping.identity()) || (is_behind && mapping.inode == 0) {
                behind_library = mapping.end.0;
            }
            // Constants of the program: its file is mapped as long as it runs, and where that loses its end (truncate(2)) so does its code.
            let is_programs =
                Some(mapping.identity()) == program_identity && !mapping.shared && !mapping.execute;
            if (is_anonymous || is_programs) && mapping.read && !is_behind {
                // There is nothing after the end of a file.
                let bytes =
                    if is_programs { program_bytes.saturating_sub(mapping.offset.0) } else { u64::MAX };
                ranges.push(mapping.start.0..mapping.end.0.min(mapping.start.0.saturating_add(bytes)));
            }
        }
        let mut taken: Vec<Range<u64>> = leaving.to_vec();
        taken.extend(self.undo.islands.iter().cloned());
        let ranges = without(together(ranges), &taken);
        let guards = sys::guard_regions(self.target.pid, &ranges)
            .map_err(|error| format!("pages that fault cannot be told from others ({error})"))?;
        let mut ranges = without(ranges, &guards);
        if ranges.len() > Reads::RANGES_MAX {
            ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
            ranges.truncate(Reads::RANGES_MAX);
            ranges.sort_by_key(|range| range.start);
        }
        Ok((ranges, heap_end.unwrap_or(0)))
    }
}

/// What came of a stop.
enum Settled {
    Yes,
    Busy,
    Keys,
}

/// A file of the target with what of it is to be hooked.
struct Found {
    binary: Binary,
    bias: u64,
    guards: Vec<Guard>,
    linker: linker::Linker,
    linker_window: Result<Window, Refusal>,
    functions: Vec<Function>,
}

/// One side of a call, as its file has it.
#[derive(Clone, Debug)]
struct Guard {
    name: &'static str,
    /// Of a hook behind a call: nothing.
    number: Side,
    address: LinkAddr,
    /// Up to where the passage goes: behind the call.
    until: LinkAddr,
    window: Result<Window, Refusal>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Before(Option<u32>),
    Behind,
}

/// An address where a hook stands.
struct Hooked {
    address: u64,
}

impl Found {
    /// The C library of `target` with its calls; or which file calls the kernel in ways that are not watched.
    fn of(target: &Target) -> Result<Found, String> {
        let mut library = None;
        for path in survey::files(&target.mappings) {
            let (surveyed, binary) = look_at(target, &path)?;
            if surveyed.is_libc {
                let binary = binary
                    .map_or_else(|| survey::open(target, &path).map_err(|refusal| refusal.to_string()), Ok)?;
                let bias = target.bias(&binary).ok_or("its C library is not mapped any more")?;
                library = Some((binary, bias, surveyed));
            }
        }
        let (binary, bias, surveyed) = library.ok_or("it has no C library of glibc's")?;
        let linker = linker::find(target).ok_or("its dynamic linker does not announce libraries")?;
        let linker_window = plan_functions(&[(&linker.binary, &linker.function)]).remove(0);
        let functions = surveyed.guards.iter().map(|guard| {
            // So much of the text is compared with the file: others may have hooked the same function elsewhere.
            let size = guard.window.as_ref().map_or(0, |window| window.end() - window.address);
            let (name, aliases, kind) = (guard.name.into(), Vec::new(), FunctionKind::Plain);
            Function { name, aliases, address: guard.address, size, kind }
        });
        let functions = functions.collect();
        let guards = surveyed.guards.clone();
        Ok(Found { binary, bias, guards, linker, linker_window, functions })
    }

    fn hooks(&self, words: u64) -> (Vec<SiteRequest<'_>>, Vec<weir_rt::Executable>) {
        let mut sites = Vec::new();
        let mut programs = Vec::new();
        for (guard, function) in self.guards.iter().zip(&self.functions) {
            programs.push(match guard.number {
                Side::Before(number) => unmap::before(words, number),
                Side::Behind => unmap::behind(words),
            });
            sites.push(request(&self.binary, function, &guard.window, programs.len() - 1));
        }
        programs.push(unmap::at_loads(words));
        sites.push(request(
            &self.linker.binary,
            &self.linker.function,
            &self.linker_window,
            programs.len() - 1,
        ));
        (sites, programs)
    }

    /// As [`Found::hooks`] has them.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.guards.iter().map(|guard| guard.name).chain(["_dl_debug_state"])
    }

    fn places(&self) -> impl Iterator<Item = Hooked> {
        self.guards.iter().map(|guard| Hooked { address: guard.address.0.wrapping_add(self.bias) })
    }

    fn linker_address(&self) -> Option<u64> {
        let window = self.linker_window.as_ref().ok()?;
        Some(window.address.wrapping_add(self.linker.bias))
    }

    /// From the place of each hook to behind its call.
    fn passages(&self) -> Vec<Range<u64>> {
        let passage = |guard: &Guard| {
            guard.address.0.wrapping_add(self.bias)..guard.until.0.wrapping_add(self.bias) + 1
        };
        self.guards.iter().map(passage).collect()
    }
}

/// What one file says of its calls. The same for all processes.
#[derive(Debug, Default)]
struct Surveyed {
    is_libc: bool,
    fault: Option<String>,
    guards: Vec<Guard>,
}

/// By the identities that maps show.
static SURVEYS: OnceLock<Mutex<HashMap<FileIdentity, Arc<Surveyed>>>> = OnceLock::new();

/// What the file says that `target` maps from `path`; with it, where it had to be opened. An error where it calls the kernel in
/// ways that are not watched.
fn look_at(target: &Target, path: &Path) -> Result<(Arc<Surveyed>, Option<Binary>), String> {
    let mapping = target.mappings.iter().find(|mapping| mapping.execute && Path::new(&mapping.path) == path);
    let identity = mapping.map(Mapping::identity).ok_or_else(|| format!("{} is gone", path.display()))?;
    let known = SURVEYS.get_or_init(Mutex::default);
    let found = known.lock().unwrap_or_else(PoisonError::into_inner).get(&identity).cloned();
    let (surveyed, binary) = match found {
        Some(found) => (found, None),
        None => {
            let binary = survey::open(target, path).map_err(|refusal| refusal.to_string())?;
            let surveyed = Arc::new(Surveyed::of(&binary));
            known.lock().unwrap_or_else(PoisonError::into_inner).insert(identity, surveyed.clone());
            (surveyed, Some(binary))
        }
    };
    match &surveyed.fault {
        Some(fault) => Err(fault.clone()),
        None => Ok((surveyed, binary)),
    }
}

impl Surveyed {
    fn of(binary: &Binary) -> Surveyed {
        let found = entries::entries(binary);
        if is_libc(binary) {
            return guards(binary, &found);
        }
        // Its calls take nothing away but libraries, and are announced.
        if binary.soname().is_some() && linker::announces(binary) {
            return Surveyed::default();
        }
        let named = |number: u32| CALLS.iter().chain(&FILTERS).find(|(known, _)| *known == number);
        let path = binary.path().display();
        let fault = found.iter().find_map(|entry| match &entry.number {
            Number::Known(number) => {
                let (_, name) = named(*number)?;
                Some(format!("{path} calls {name} past the C library at {:#x}", entry.address.0))
            }
            Number::Among { .. } | Number::Other => Some(format!(
                "{path} calls the kernel at {:#x}, and what for cannot be told",
                entry.address.0
            )),
        });
        Surveyed { is_libc: false, fault, guards: Vec::new() }
    }
}

/// What is to be hooked of the C library.
fn guards(binary: &Binary, found: &[Entry]) -> Surveyed {
    let general = binary.symbol_value("syscall").and_then(|(address, _)| binary.function_bounds(address));
    let is_general =
        |entry: &Entry| general.as_ref().is_some_and(|function| function.contains(&entry.address));
    let faulty = |why: String| Surveyed { is_libc: true, fault: Some(why), guards: Vec::new() };
    let no_room = |name: &str| faulty(format!("{name} of the C library has no room for a hook"));
    let mut wanted: Vec<(&'static str, Option<u32>, &Entry)> = Vec::new();
    for entry in found {
        let name = |number: u32| CALLS.iter().find(|(known, _)| *known == number);
        match &entry.number {
            _ if is_general(entry) => wanted.push(("syscall", None, entry)),
            Number::Known(number) => {
                wanted.extend(name(*number).map(|(_, name)| (*name, Some(*number), entry)));
            }
            Number::Among { constants, .. } => {
                if let Some((_, name)) = constants.iter().find_map(|number| name(*number)) {
                    let at = entry.address.0;
                    return faulty(format!(
                        "the C library may call {name} at {at:#x}, which is not plain to see"
                    ));
                }
            }
            Number::Other => {
                return faulty(format!(
                    "the C library calls the kernel at {:#x} in another way",
                    entry.address.0
                ));
            }
        }
    }
    let mut places: Vec<(&Binary, Place)> = Vec::new();
    for (name, _, entry) in &wanted {
        let Some(before) = entry.before else { return no_room(name) };
        places.push((binary, Place::Inside(before)));
        places.push((binary, Place::Inside(entry.behind)));
    }
    let mut windows = plan_sites(&places).into_iter();
    let mut guards = Vec::new();
    for (name, number, entry) in wanted {
        let (Some(before), Some(window), Some(behind)) = (entry.before, windows.next(), windows.next())
        else {
            return no_room(name);
        };
        let until = entry.behind;
        // The call itself stays where it is: it is what threads in it come back to.
        if !window.as_ref().is_ok_and(|window| window.end() <= entry.address.0) {
            return no_room(name);
        }
        guards.push(Guard { name, number: Side::Before(number), address: before, until, window });
        if behind.is_err() && number.is_some_and(|number| ONE_SIDED.contains(&number)) {
            continue;
        }
        if behind.is_err() {
            return no_room(name);
        }
        guards.push(Guard { name, number: Side::Behind, address: until, until, window: behind });
    }
    Surveyed { is_libc: true, fault: None, guards }
}

fn is_libc(binary: &Binary) -> bool {
    binary.soname() == Some("libc.so.6")
}

/// All code is files', which do not change; or the kernel's, or weir's.
fn are_files(mappings: &[Mapping]) -> Result<(), String> {
    let is_known = |mapping: &&Mapping| {
        let is_kernels = matches!(&*mapping.path, "[vdso]" | "[vsyscall]" | "[uprobes]");
        !mapping.execute || is_weirs(mapping) || is_kernels || mapping.inode != 0 && !mapping.write
    };
    match mappings.iter().find(|mapping| !is_known(mapping)) {
        Some(mapping) => Err(format!("it has made code itself, at {:#x}", mapping.start.0)),
        None => Ok(()),
    }
}

/// Memory that a process asked for as such.
fn is_plain(path: &str) -> bool {
    matches!(path, "" | "[heap]" | "[stack]") || path.starts_with("[anon:")
}

/// Whether process `pid` has a descriptor of userfaultfd(2): reads of its memory may wait, or fault.
fn handles_faults(pid: i32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", sys::living_thread(pid))) else { return true };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links.into_iter().any(|link| link.to_string_lossy().contains("userfaultfd"))
}

/// Whether any process runs in the memory of `pid` besides it.
fn shares_memory(pid: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let numbers = processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|&other| other != pid).any(|other| vm_sharing::share_memory(pid, other) == Some(true))
}

/// Whether a stopped thread is in a passage, or comes back to one from a signal handler.
fn is_anyone(target: &Target, stopped: &Stopped, is_passage: &dyn Fn(u64) -> bool) -> Result<bool, Error> {
    let stacks = target.stacks();
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        if is_passage(registers.instruction_pointer())
            || !target.scan_stack(&stacks, &registers, is_passage).words.is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Has the process register for membarrier(2), and sees that it has no protection keys.
fn register(target: &Target, stopped: &mut Stopped) -> Result<Settled, Error> {
    const REGISTER_PRIVATE_EXPEDITED_RSEQ: u64 = 1 << 8;
    const PKEY_DISABLE_ACCESS: u64 = 1;
    let mut remote = Borrowed::new(stopped, target)?;
    let arguments = [REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0];
    remote.call("membarrier", libc::SYS_membarrier, arguments)?;
    let mut settled = Settled::Yes;
    if cpu::has_protection_keys() {
        // The first that is free, with the rights that every thread has to it anyway: it is the first of all if none is taken.
        let key = remote.call("pkey_alloc", libc::SYS_pkey_alloc, [0, PKEY_DISABLE_ACCESS, 0, 0, 0, 0]);
        if let Ok(key) = key {
            remote.call("pkey_free", libc::SYS_pkey_free, [key, 0, 0, 0, 0, 0])?;
        }
        if key.ok() != Some(1) {
            settled = Settled::Keys;
        }
    }
    remote.finish()?;
    Ok(settled)
}

/// `ranges` by address, those that touch as one.
fn together(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.into_iter().filter(|range| range.start < range.end) {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// `ranges`, by address and apart, without what is `taken`.
fn without(ranges: Vec<Range<u64>>, taken: &[Range<u64>]) -> Vec<Range<u64>> {
    let taken = together(taken.to_vec());
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        for hole in taken.iter().filter(|hole| hole.start < range.end && range.start < hole.end) {
            if start < hole.start {
                left.push(start..hole.start);
            }
            start = start.max(hole.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges of memory")]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(together(vec![5..7, 1..3, 3..5, 9..9, 10..12]), vec![1..7, 10..12]);
    }

    #[test]
    fn what_is_taken_is_left_out() {
        let check = |taken: &[Range<u64>], left: &[Range<u64>]| {
            assert_eq!(without(vec![10..20, 30..40], taken), left, "{taken:?}");
        };
        check(&[], &[10..20, 30..40]);
        check(&[12..14], &[10..12, 14..20, 30..40]);
        check(&[0..u64::MAX], &[]);
        check(&[15..35], &[10..15, 35..40]);
        check(&[10..12, 11..13, 19..30], &[13..19, 30..40]);
    }

    #[test]
    fn code_that_no_file_has_is_noticed() {
        let check = |line: &str, is_file: bool| {
            let mappings = weir_symbols::maps::parse(line).unwrap();
            assert_eq!(are_files(&mappings).is_ok(), is_file, "{line}");
        };
        check("7f0000000000-7f0000001000 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n", true);
        check("7f0000000000-7f0000001000 rwxp 00000000 08:01 12 /usr/lib/libc.so.6\n", false);
        check("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n", false);
        check("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n", true);
        check("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [vdso]\n", true);
    }

    #[test]
    fn the_c_librarys_calls_are_hooked_on_both_sides() {
        let path = std::path::Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        let Ok(binary) = Binary::open(path) else { return };
        let surveyed = Surveyed::of(&binary);
        assert_eq!(surveyed.fault, None);
        for (name, sides) in
            [("munmap", 2), ("mremap", 2), ("mprotect", 2), ("brk", 2), ("mmap", 2), ("syscall", 2)]
        {
            assert_eq!(surveyed.guards.iter().filter(|guard| guard.name == name).count(), sides, "{name}");
        }
        assert!(surveyed.guards.iter().all(|guard| guard.address <= guard.until));
    }
}
