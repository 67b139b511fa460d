//! Processes of programs that nobody has named: those that load LTTng-UST, or weir's library of logging, for the daemon of recording sessions ([`weir_sessions::program::Finder`]).
//!
//! With CAP_SYS_ADMIN the kernel blocks a process where its dynamic linker opens a library that only LTTng-UST has ([`weir_probe::fanotify`]), before any
//! of its own code runs, until the [`Found`] of it is dropped. What is not seen so (without that capability, in other roots, a library that is loaded later) is
//! found by looking at what processes map, and runs meanwhile.
//!
//! weir's library of logging is loaded while a program runs, and is found so.
//!
//! Of the libraries of LTTng-UST the marked one is among the last that are opened, when most others are mapped.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use weir_probe::fanotify::{Access, PermissionGroup};
use weir_probe::target;
use weir_process::Selection;
use weir_process::enrol::{Candidate, Enrolment, Sight};
use weir_process::processes::{ProcessId, Processes};
use weir_process::program::Program;
use weir_process::tracked::Attributes;
use weir_process::watch::Watcher;
use weir_sessions::program::{Finder, Found};
use weir_sessions::turn::Turn;
use weir_symbols::{Binary, FileIdentity, VirtAddr};
use weir_world::{is_instrumented, lttng_libraries, mapped_lttng_library};

/// How often processes are looked at where the kernel tells of those that begin.
const RARELY: Duration = Duration::from_secs(1);

/// Files of the library that are marked at most: the system's, and those of programs with one of their own.
const FILES_MAX: usize = 64;

/// Finds them on this machine.
#[derive(Debug)]
pub(crate) struct Programs {
    processes: Processes,
    /// While they are to be found.
    watching: Option<Watching>,
}

#[derive(Debug)]
struct Watching {
    /// Where the kernel blocks them, and at which files.
    group: Option<PermissionGroup>,
    files: Vec<FileIdentity>,
    /// How many it has let go too early, as far as that was told.
    told: u64,
    /// When processes were looked at last.
    looked: Instant,
    enrolment: Enrolment,
}

impl Programs {
    /// Of this machine.
    pub(crate) fn of_machine() -> Programs {
        Programs { processes: Processes::at(Path::new("/proc")), watching: None }
    }

    fn found_of(&self, pid: i32, turn: Option<Rc<Turn>>) -> Option<Found> {
        let process = self.processes.process(pid).filter(|process| process.has_program)?;
        let attributes = Attributes::of(&process, &self.processes)?;
        let are_held = self.watching.as_ref().is_some_and(|watching| watching.group.is_some());
        let program = Program::of(pid, &self.processes)?;
        Some(Found { id: process.id, program, attributes, turn, are_held })
    }
}

impl Finder for Programs {
    fn watch(&mut self, is_wanted: bool) {
        match is_wanted {
            false => self.watching = None,
            true => _ = self.watching.get_or_insert_with(|| Watching::start(&self.processes)),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watching.as_ref()?.group.as_ref()?.has_events())
    }

    fn found(&mut self) -> Vec<Found> {
        let Some(watching) = &mut self.watching else { return Vec::new() };
        let events = watching.group.as_ref().map(PermissionGroup::events).unwrap_or_default();
        let ready = watching.look(&self.processes);
        let blocked = events
            .into_iter()
            .filter_map(|event| self.found_of(event.pid(), Some(Rc::new(Turn::of(Box::new(event))))));
        let blocked: Vec<Found> = blocked.collect();
        let seen = ready.into_iter().filter_map(|id| self.found_of(id.pid, None));
        blocked.into_iter().chain(seen).collect()
    }

    fn let_go(&mut self) -> u64 {
        let Some(watching) = &mut self.watching else { return 0 };
        let not_held = watching.group.as_ref().map_or(0, PermissionGroup::not_held);
        not_held - std::mem::replace(&mut watching.told, not_held)
    }

    fn all(&mut self) -> Vec<Found> {
        let pids = self.processes.pids().unwrap_or_default().into_iter();
        pids.filter(|pid| is_instrumented(*pid)).filter_map(|pid| self.found_of(pid, None)).collect()
    }
}

impl Watching {
    fn start(processes: &Processes) -> Watching {
        let libraries = lttng_libraries(&weir_world::places());
        let opened = libraries.iter().filter_map(|path| Binary::open(path).ok());
        let opened: Vec<Binary> = opened.collect();
        // Without the capability they are looked for.
        let group = match opened.is_empty() {
            true => None,
            false => PermissionGroup::mark(opened.iter(), Box::new(is_beginning)).ok(),
        };
        let files = opened.iter().filter_map(Binary::identity).collect();
        let user = (!geteuid().is_root()).then(|| geteuid().as_raw());
        let selection = Selection::default().of_any(user, true);
        let watcher = Watcher::new(processes.clone(), selection, std::process::id() as i32);
        Watching { group, files, told: 0, looked: Instant::now(), enrolment: Enrolment::new(watcher, 1) }
    }

    /// Those that map the library since the last look.
    fn look(&mut self, processes: &Processes) -> Vec<ProcessId> {
        // The kernel tells of nearly all.
        if self.group.is_some() && self.looked.elapsed() < RARELY {
            return Vec::new();
        }
        self.looked = Instant::now();
        let see = |candidate: &Candidate| {
            let id = candidate.process.id;
            match processes.process(id.pid).filter(|process| process.id == id && process.has_program) {
                None => Sight::Gone,
                Some(_) => Sight::Maps { files: usize::from(is_instrumented(id.pid)), is_settled: true },
            }
        };
        let ready = self.enrolment.ready(Instant::now(), &|_| false, &see).unwrap_or_default();
        let ready: Vec<ProcessId> = ready.into_iter().map(|candidate| candidate.process.id).collect();
        ready.iter().for_each(|id| self.learn(id.pid));
        ready
    }

    /// A process may have a library of its own: the next that loads it is held.
    fn learn(&mut self, pid: i32) {
        let Some((file, path)) = mapped_lttng_library(pid) else { return };
        let Some(group) = &self.group else { return };
        if !self.files.contains(&file) && self.files.len() < FILES_MAX {
            self.files.push(file);
            // Where it cannot be, processes with that file are found late.
            let _ = Binary::open(&path).map(|binary| group.add(&binary));
        }
    }
}

/// Whether the dynamic linker of process `pid`, which is blocked, opens the library. Others open it to read it.
fn is_beginning(pid: i32, access: Access) -> bool {
    // A recording that has it already waits for it.
    let is_traced = || Processes::at(Path::new("/proc")).tracer(pid).is_some();
    let own = std::process::id() as i32;
    let parent = || Processes::at(Path::new("/proc")).process(pid).map(|process| process.parent);
    if access != Access::Open || pid == own || parent() == Some(own) || is_traced() {
        return false;
    }
    // The last word is where it goes on.
    let Ok(call) = fs::read_to_string(format!("/proc/{pid}/syscall")) else { return false };
    let address = call.split_whitespace().last().and_then(|word| word.strip_prefix("0x"));
    let Some(address) = address.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else { return false };
    let is_linker = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"));
    target::read_mappings(pid).is_ok_and(|mappings| {
        mappings.iter().any(|mapping| {
            (mapping.start..mapping.end).contains(&VirtAddr(address)) && is_linker(&mapping.path)
        })
    })
}
