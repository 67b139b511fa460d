//! Notices that a target installs a system call filter (seccomp) while it is traced: from then on code in it calls the kernel no
//! more, since the filter may kill for a call that it does not know. In strict mode it does not read the time stamp counter either.
//!
//! In: an [`Attachment`] whose programs, or the hook at its dynamic linker, make system calls or read the counter, or whose hits are
//! to be timed, which reads it too. Out: the word in its own segment that is asked before each, and who has set it.
//!
//! ```text
//! prctl, syscall of its C library ─▶ weir_trampoline::filter sets the word, then the call installs the filter
//! weir, ten times a second ─▶ Seccomp: of /proc/TID/status ─▶ sets the word
//! ```
//!
//! Guaranteed: where a filter is installed through a function that is hooked, no call is made after the word is set but by threads
//! that had asked for it before, which matters where the filter is for all threads at once. A filter that comes another way (an
//! inlined `syscall` instruction) is seen when weir looks next. The word never falls.
//!
//! Planning a hook reads the whole C library, 20 ms. What does neither call the kernel nor read the counter is not kept waiting
//! for it: its hooks come later, before the first hit is timed ([`Attachment::may_time`]). Each library is planned once.
//!
//! Deliberately not: targets that were under seccomp before ([`crate::process::target`]) are not looked at: strict mode is not open to
//! them any more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use weir_plan::Refusal;
use weir_plan::plan_functions;
use weir_plan::window::Window;
use weir_rt::Executable;
use weir_rt::segment::Filter;
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, FileIdentity, Function, program_kind, regular};
use weir_trampoline::filter::{self, Door};

use crate::attach::own::{Hooked, OwnHook};
use crate::attach::request::SiteRequest;
use crate::attach::state::{Attachment, Watched};
use crate::attach::survey;
use crate::limits::{FILTER_HOOKS_MAX, FILTER_LIBRARIES_MAX, FILTER_THREADS_PER_LOOK};
use crate::process::sys::{self, Seccomp};

/// How often a target is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// The same where a filter has been seen: then strict mode alone is of interest, of other threads.
const INTERVAL_AFTER: Duration = Duration::from_secs(1);

impl Watched {
    fn concerns(self, filter: Filter) -> bool {
        self == Watched::Filters || filter == Filter::Strict
    }
}

/// Functions of a target that are to be hooked.
#[derive(Default)]
pub(crate) struct Doors(Vec<Hooks>);

struct Hooks {
    library: Arc<Known>,
    bias: u64,
    /// Numbers of the executables, one for each door.
    programs: Vec<usize>,
}

/// A file that may be, or have in it, a C library; and what is in it, once that is known.
#[derive(Default)]
struct Known {
    names: Vec<PathBuf>,
    identity: Option<FileIdentity>,
    /// By its name it is no library.
    is_program: bool,
    is_begun: AtomicBool,
    planned: OnceLock<Option<Library>>,
}

struct Library {
    binary: Binary,
    doors: Vec<(Door, Function, Result<Window, Refusal>)>,
}

/// All of this process, by their identities in the maps of targets.
static KNOWN: LazyLock<Mutex<HashMap<FileIdentity, Arc<Known>>>> = LazyLock::new(Mutex::default);

impl Doors {
    pub(crate) fn hooks(&self) -> impl Iterator<Item = OwnHook<'_>> {
        self.0.iter().flat_map(|Hooks { library, bias, programs }| {
            let library = library.found();
            let doors = library.into_iter().flat_map(|Library { binary, doors }| {
                doors.iter().map(move |(_, function, window)| (binary, function, window))
            });
            doors.zip(programs).map(|((binary, function, window), program)| OwnHook {
                binary,
                function,
                window,
                bias: *bias,
                program: *program,
            })
        })
    }
}

impl Known {
    /// Reads and plans it, if nobody has.
    fn found(&self) -> Option<&Library> {
        self.planned.get_or_init(|| self.plan()).as_ref()
    }

    /// Whether that is done. If not, it is begun.
    fn is_ready(self: &Arc<Known>) -> bool {
        if self.planned.get().is_none() && !self.is_begun.swap(true, Ordering::Relaxed) {
            let known = self.clone();
            let thread = thread::Builder::new().name("weir-filters".into());
            // Without a thread it is done here and now.
            if thread.spawn(move || _ = known.found()).is_err() {
                self.found();
            }
        }
        self.planned.get().is_some()
    }

    fn plan(&self) -> Option<Library> {
        // A program that a dynamic loader starts has no C library in it: nothing more of it is read, however large it is.
        let kind = |name: &PathBuf| program_kind(&regular::open(name).ok()?);
        let is_dynamic =
            |name: &&PathBuf| self.is_program && kind(name).is_some_and(|kind| kind.has_interpreter);
        let names = self.names.iter().filter(|name| !is_dynamic(name));
        let mut opened: Vec<Binary> = names.filter_map(|name| Binary::open(name).ok()).collect();
        // On some file systems maps show another identity: whether it is the file is asked of the maps later.
        let at = opened.iter().position(|binary| binary.identity() == self.identity).unwrap_or(0);
        let binary = (at < opened.len()).then(|| opened.swap_remove(at))?;
        let doors = doors_of(&binary);
        let functions: Vec<(&Binary, &Function)> =
            doors.iter().map(|(_, function)| (&binary, function)).collect();
        let windows = plan_functions(&functions);
        let doors = doors.into_iter().zip(windows).map(|((door, function), window)| (door, function, window));
        let doors = doors.collect();
        Some(Library { binary, doors })
    }
}

impl Attachment {
    /// Has the target come under seccomp since weir came, in a way that matters to what it runs for weir? Answered once, and
    /// once more for strict mode after a filter of another thread. To be asked often: it looks at times.
    pub fn filter_installed(&mut self) -> Option<Filter> {
        let watched = self.filters.watched?;
        let interval = if self.filters.told.is_none() { INTERVAL } else { INTERVAL_AFTER };
        if self.filters.looked.is_none_or(|looked| looked.elapsed() >= interval) {
            self.look_for_filter();
        }
        let filter = self.control.filter().filter(|&filter| watched.concerns(filter))?;
        let is_new = match self.filters.told {
            None => true,
            Some(told) => told != Filter::Strict && filter == Filter::Strict,
        };
        is_new.then(|| *self.filters.told.insert(filter))
    }

    /// Address of the word in the target.
    pub(crate) fn filter_word(&self) -> u64 {
        self.control_address + Filter::OFFSET
    }

    /// Why a filter that the target installs is not noticed before it takes effect, where that is so.
    pub fn filters_unseen(&self) -> Option<&Refusal> {
        self.filters.unseen.as_ref()
    }

    /// Whether hits may be timed ([`Attachment::set_modes`]), which reads the time stamp counter: it would be noticed if the target
    /// came under strict mode. To be asked until it is so; [`Attachment::set_modes`] waits for it.
    pub fn may_time(&mut self) -> bool {
        if self.filters.watched.is_none() && self.could_enter_strict() {
            // All are begun.
            let waits = self.libraries().iter().filter(|library| !library.is_ready()).count();
            if waits > 0 {
                return false;
            }
        }
        self.watch_strict();
        true
    }

    /// Hooks what is to be hooked before a hit is timed, once. Where that cannot be done the target is looked at.
    pub(crate) fn watch_strict(&mut self) {
        if self.filters.watched.is_some() || !self.could_enter_strict() {
            return;
        }
        self.filters.watched = Some(Watched::Strict);
        let doors = self.doors();
        let hooks: Vec<OwnHook> = doors.hooks().collect();
        match self.put_in_with(&[], &hooks) {
            Ok((_, hooked)) => self.doors_hooked(&hooked),
            Err(error) => {
                self.filters.unseen = Some(Refusal::FiltersUnseen { detail: error.to_string() });
            }
        }
    }

    /// What is to be hooked before the first hit, if code in the target does what seccomp may forbid. `calls_kernel`: code of weir's own does.
    pub(crate) fn plan_doors(&mut self, sites: &[SiteRequest], calls_kernel: bool) -> Doors {
        self.filters.watched = self.what_matters(sites, calls_kernel);
        match self.filters.watched {
            Some(_) => self.doors(),
            None => Doors::default(),
        }
    }

    fn doors(&mut self) -> Doors {
        // Threads may have filters of their own, which the first one has not.
        self.look_for_filter();
        let word = self.filter_word();
        let (mut doors, mut count) = (Vec::new(), 0);
        for library in self.libraries() {
            let Some(Library { binary, doors: of }) = library.found() else { continue };
            let Some(bias) = self.target.bias(binary) else { continue };
            let executables = of.iter().map(|(door, ..)| filter::executable(word, *door));
            let executables: Vec<Executable> = executables.take(FILTER_HOOKS_MAX - count).collect();
            count += executables.len();
            let first = self.consumers.executables.len();
            let programs = (first..first + executables.len()).collect();
            self.consumers.executables.extend(executables);
            doors.push(Hooks { library, bias, programs });
        }
        Doors(doors)
    }

    /// The files that the target maps and that may have doors.
    fn libraries(&self) -> Vec<Arc<Known>> {
        let mut all = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let paths = survey::files(&self.target.mappings);
        let known = paths.iter().filter(|path| may_be_libc(path)).filter_map(|path| {
            let is_its = |mapping: &&Mapping| mapping.execute && Path::new(&mapping.path) == *path;
            let identity = self.target.mappings.iter().find(is_its)?.identity();
            if all.len() >= FILTER_LIBRARIES_MAX {
                all.retain(|other, _| *other == identity);
            }
            let new = || {
                let names = survey::names(&self.target, path);
                let is_program = !path.file_name().unwrap_or_default().to_string_lossy().contains(".so");
                Arc::new(Known { names, identity: Some(identity), is_program, ..Known::default() })
            };
            Some(all.entry(identity).or_insert_with(new).clone())
        });
        known.collect()
    }

    /// Of what is in the target from the beginning on. Nothing where it has a filter already: no call is made there.
    fn what_matters(&self, sites: &[SiteRequest], calls_kernel: bool) -> Option<Watched> {
        let programs = &self.consumers.executables;
        if self.target.has_seccomp {
            return None;
        }
        if calls_kernel || programs.iter().any(|program| program.calls_kernel()) {
            return Some(Watched::Filters);
        }
        // A function that is probed besides can be hooked with its probe alone.
        let may_have_doors =
            |site: &SiteRequest| may_be_libc(site.binary.path()) && !doors_of(site.binary).is_empty();
        let is_early =
            programs.iter().any(|program| program.reads_ticks()) || sites.iter().any(may_have_doors);
        (self.could_enter_strict() && is_early).then_some(Watched::Strict)
    }

    /// Who may read the time stamp counter now, and has no filter, which would be in the way of strict mode.
    fn could_enter_strict(&self) -> bool {
        self.target.has_tsc && !self.target.has_seccomp
    }

    /// Takes note of what became of these.
    pub(crate) fn doors_hooked(&mut self, hooked: &[Hooked]) {
        if self.filters.watched.is_none() {
            return;
        }
        let refused = hooked.iter().find_map(|hooked| hooked.as_ref().err());
        let detail = match refused {
            Some(refusal) => refusal.to_string(),
            None if hooked.is_empty() => "no prctl and no syscall of a C library was found".into(),
            None => String::new(),
        };
        self.filters.unseen = (!detail.is_empty()).then_some(Refusal::FiltersUnseen { detail });
        // What was installed while the hooks were.
        self.look_for_filter();
    }

    /// Looks at threads of the target, and sets the word if one has a filter.
    fn look_for_filter(&mut self) {
        self.filters.looked = Some(Instant::now());
        if self.control.filter() == Some(Filter::Strict) {
            return;
        }
        let threads = sys::threads(self.target.pid).unwrap_or_default();
        let first = if self.filters.passed < threads.len() { self.filters.passed } else { 0 };
        let round = &threads[first..threads.len().min(first + FILTER_THREADS_PER_LOOK)];
        self.filters.passed = first + round.len();
        let seen: Vec<Seccomp> = round.iter().map(|&tid| sys::seccomp(tid)).collect();
        if seen.contains(&Seccomp::Strict) {
            self.control.set_strict_seen();
        } else if seen.contains(&Seccomp::Filter) {
            self.control.set_filter_seen();
        }
    }
}

/// By its name: the C library, or a program that may have it inside.
fn may_be_libc(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libc.")
        || name.starts_with("libc-")
        || name.starts_with("ld-musl")
        || !name.contains(".so")
}

/// What is to be hooked in a C library, or in a program that has one inside.
fn doors_of(binary: &Binary) -> Vec<(Door, Function)> {
    let is_static = binary.interpreter().is_none();
    if !is_static && binary.soname().is_none() {
        return Vec::new();
    }
    let door = |door: Door| {
        let (address, _) = binary.symbol_value(door.symbol())?;
        let function = binary.function_at(address).filter(|function| function.address == address)?;
        Some((door, function.clone()))
    };
    Door::ALL.into_iter().filter_map(door).collect()
}
