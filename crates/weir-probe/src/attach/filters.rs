//! Notices that a target installs a system call filter (seccomp) while it is traced: from then on code in it calls the kernel no
//! more, since the filter may kill for a call that it does not know.
//!
//! In: an [`Attachment`] whose programs, or the hook at its dynamic linker, make system calls. Out: the word in its own
//! segment that helpers ask before each one, and who has set it.
//!
//! ```text
//! prctl, syscall of its C library ─▶ crate::code::filter sets the word, then the call installs the filter
//! weir, ten times a second ─▶ Seccomp: of /proc/TID/status ─▶ sets the word
//! ```
//!
//! Guaranteed: where a filter is installed through a function that is hooked, no call is made after the word is set but by threads
//! that had asked for it before, which matters where the filter is for all threads at once. A filter that comes another way (an
//! inlined `syscall` instruction) is seen when weir looks next. The word never falls.
//!
//! Deliberately not: targets that were under seccomp before ([`crate::process::target`]) are not looked at.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_rt::segment::Filter;
use weir_symbols::{Binary, Function};

use crate::attach::own::{Hooked, OwnHook};
use crate::attach::rails::Mode;
use crate::attach::{Attachment, survey};
use crate::code::filter::{self, Door};
use crate::limits::{FILTER_HOOKS_MAX, FILTER_THREADS_PER_LOOK};
use crate::process::sys;
use crate::refusal::Refusal;

/// How often a target is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// What an attachment knows of filters.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    /// Code in the target makes system calls.
    is_watched: bool,
    /// No function was hooked; or why one was not.
    unseen: Option<Refusal>,
    looked: Option<Instant>,
    /// Threads passed over in the last look, where there are many.
    passed: usize,
    is_told: bool,
}

/// Functions of a target that are to be hooked.
#[derive(Default)]
pub(crate) struct Doors {
    files: Vec<Library>,
}

struct Library {
    binary: Binary,
    bias: u64,
    /// Each with the number of its executable.
    functions: Vec<(Function, usize)>,
}

impl Doors {
    pub(crate) fn hooks(&self) -> impl Iterator<Item = OwnHook<'_>> {
        self.files.iter().flat_map(|Library { binary, bias, functions }| {
            functions.iter().map(|(function, program)| OwnHook {
                binary,
                function,
                bias: *bias,
                program: *program,
            })
        })
    }
}

impl Attachment {
    /// Has the target come under seccomp since weir came? Answered once. To be asked often: it looks at times.
    pub fn filter_installed(&mut self) -> Option<Filter> {
        if self.filters.is_told || !self.filters.is_watched {
            return None;
        }
        if self.filters.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL) {
            self.look_for_filter();
        }
        let filter = self.control.filter()?;
        self.filters.is_told = true;
        if filter == Filter::Strict {
            let sites = self.consumers.sites.iter();
            let modes: Vec<(usize, Mode)> = sites.map(|site| (site.planned.number, site.mode)).collect();
            // It fails where the target has ended.
            let _ = self.set_modes(&modes);
        }
        Some(filter)
    }

    /// Why a filter that the target installs is not noticed before it takes effect, where that is so.
    pub fn filters_unseen(&self) -> Option<&Refusal> {
        self.filters.unseen.as_ref()
    }

    /// What is to be hooked, if code in the target makes system calls.
    pub(crate) fn plan_doors(&mut self, is_linker_hooked: bool) -> Doors {
        let is_calling = |attachment: &Attachment| {
            is_linker_hooked || attachment.consumers.executables.iter().any(|program| program.calls_kernel())
        };
        self.filters.is_watched = !self.target.has_seccomp && is_calling(self);
        let mut doors = Doors::default();
        if !self.filters.is_watched {
            return doors;
        }
        // Threads may have filters of their own, which the first one has not.
        self.look_for_filter();
        let word = self.control_address + Filter::OFFSET;
        let mut count = 0;
        for path in survey::files(&self.target.mappings).iter().filter(|path| may_be_libc(path)) {
            let Ok(binary) = survey::open(&self.target, path) else { continue };
            let Some(bias) = self.target.bias(&binary) else { continue };
            let mut functions = Vec::new();
            for (door, function) in doors_of(&binary) {
                if count < FILTER_HOOKS_MAX {
                    count += 1;
                    self.consumers.executables.push(filter::executable(word, door));
                    functions.push((function, self.consumers.executables.len() - 1));
                }
            }
            doors.files.push(Library { binary, bias, functions });
        }
        doors
    }

    /// Takes note of what became of these.
    pub(crate) fn doors_hooked(&mut self, hooked: &[Hooked]) {
        if !self.filters.is_watched {
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
        if self.control.filter().is_some() {
            return;
        }
        let threads = sys::threads(self.target.pid).unwrap_or_default();
        let first = if self.filters.passed < threads.len() { self.filters.passed } else { 0 };
        let round = &threads[first..threads.len().min(first + FILTER_THREADS_PER_LOOK)];
        self.filters.passed = first + round.len();
        if round.iter().any(|&tid| sys::has_seccomp(tid)) {
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
