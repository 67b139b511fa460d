//! Names for the addresses and stacks that a script prints: what each traced process maps is looked at while it lives.
//!
//! In: the ids of traced processes, again and again; the maps that stacks are in. Out: a [`weir_report::Symbols`]. Does nothing
//! for a script that names no address. A process is looked at when it is first mentioned, every [`LOOK_INTERVAL`], when an
//! address was read that nothing is known of, and at the end: what came and went in between has no names.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_codegen::Compiled;
use weir_event::{Action, CODE_ADDRESSES, KERNEL_PID, MapValue, Schema, StackId, StackMode, Type, Word};
use weir_probe::target;
use weir_report::{Seen, Symbol};
use weir_symbols::VirtAddr;
use weir_symbols::generations::Moment;
use weir_symbols::history::{History, Resolved, Why};
use weir_symbols::kallsyms::{KernelFunction, KernelFunctions};

use crate::clock::now_ns;
use crate::local_time;
use crate::store::Store;

/// Reading the maps of a process with 1,000 mappings takes half a millisecond.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How soon an address that nothing is known of makes it look again.
const LOOK_AGAIN_INTERVAL: Duration = Duration::from_millis(20);

/// Numbers of control groups whose paths are remembered, and folders that are looked at for one.
const CGROUPS_MAX: usize = 1024;
/// Processes whose names are remembered.
const NAMES_MAX: usize = 1 << 16;
const CGROUPS_LOOKED_AT_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct ProcessSymbols {
    history: RefCell<History>,
    /// When each process that has not ended was looked at.
    looked: RefCell<BTreeMap<i32, Instant>>,
    /// Some value of the script is named by it.
    is_wanted: bool,
    /// Of each number of frames the first of its tables.
    stacks: Vec<(u32, u32)>,
    /// When the ring was last seen empty: all records are younger.
    drained_ns: Cell<u64>,
    /// Addresses without a name because of a file that was replaced, or several that it could be.
    replaced: Cell<u64>,
    ambiguous: Cell<u64>,
    /// Some value of the script is a process's name.
    wants_names: bool,
    /// Names of the traced processes, and when they were looked at: what has ended keeps its last one.
    names: RefCell<BTreeMap<i32, (Instant, String)>>,
    /// Names of the kernel, once asked for.
    kernel: OnceCell<KernelFunctions>,
    /// Programs see all processes: each is looked at when an address of it is to be named.
    sees_all: bool,
    /// Paths of control groups by their numbers, once asked for.
    cgroups: RefCell<BTreeMap<u64, Option<String>>>,
}

impl ProcessSymbols {
    pub(crate) fn new(compiled: &Compiled) -> ProcessSymbols {
        ProcessSymbols {
            history: RefCell::new(match compiled.schema.shows_mangled {
                true => History::mangled(),
                false => History::default(),
            }),
            looked: RefCell::default(),
            is_wanted: types(&compiled.schema).any(is_named),
            stacks: compiled.stacks.clone(),
            drained_ns: Cell::new(0),
            replaced: Cell::new(0),
            ambiguous: Cell::new(0),
            wants_names: types(&compiled.schema)
                .flat_map(weir_ir::leaves)
                .any(|leaf| *leaf == Type::Word(Word::Process)),
            names: RefCell::default(),
            kernel: OnceCell::new(),
            sees_all: compiled.triggers.iter().any(weir_ir::Trigger::is_kernel),
            cgroups: RefCell::default(),
        }
    }

    /// Looks at those of the traced processes at which it is time to; each comes with whether it has ended.
    pub(crate) fn look_at(&self, processes: impl Iterator<Item = (i32, bool)>) {
        for (pid, has_ended) in processes {
            if !has_ended {
                self.note_name(pid);
            }
            match has_ended {
                true => self.ended(pid),
                false => self.look_after(pid, LOOK_INTERVAL),
            }
        }
    }

    /// Looks at a process at once: it has loaded or is unloading something, or it is about to end.
    pub(crate) fn look(&self, pid: i32) {
        self.note_name(pid);
        self.look_after(pid, Duration::ZERO);
    }

    /// A last look at all processes, or what is known of those that have ended.
    pub(crate) fn finish(&self) {
        let pids: Vec<i32> = self.looked.borrow().keys().copied().collect();
        pids.into_iter().for_each(|pid| self.look(pid));
    }

    /// The ring was found empty after the time `since`, in ns of CLOCK_MONOTONIC.
    pub(crate) fn note_drained(&self, since: u64) {
        self.drained_ns.set(since);
    }

    /// With the stacks of these maps.
    pub(crate) fn over<'a>(&'a self, maps: &'a dyn Store) -> Over<'a> {
        Over { symbols: self, maps }
    }

    /// What has no name, with its count.
    pub(crate) fn losses(&self) -> Vec<(u64, String)> {
        let losses = self.history.borrow().losses();
        vec![
            (
                self.replaced.get(),
                "addresses are of files that were replaced since, and have no names".into(),
            ),
            (self.ambiguous.get(), "addresses were of several files in turn, and have no names".into()),
            (losses.mappings, "mappings of traced processes were forgotten (too many)".into()),
            (losses.perf_maps_refused, "perf maps are of another owner, or older than their process".into()),
            (losses.perf_lines, "lines of perf maps could not be read".into()),
        ]
    }

    fn note_name(&self, pid: i32) {
        let mut names = self.names.borrow_mut();
        let is_due = names.get(&pid).is_none_or(|(at, _)| at.elapsed() >= LOOK_INTERVAL);
        if !self.wants_names || !is_due || names.len() >= NAMES_MAX {
            return;
        }
        if let Some(name) = name_of(pid) {
            names.insert(pid, (Instant::now(), name));
        }
    }

    fn ended(&self, pid: i32) {
        if self.looked.borrow_mut().remove(&pid).is_some() {
            self.history.borrow_mut().ended(pid as u32, now_ns());
        }
    }

    fn look_after(&self, pid: i32, least: Duration) {
        let is_due = |at: &Instant| at.elapsed() >= least;
        if !self.is_wanted || !self.looked.borrow().get(&pid).is_none_or(is_due) {
            return;
        }
        self.looked.borrow_mut().insert(pid, Instant::now());
        let mut history = self.history.borrow_mut();
        let (root, at) = (target::root(pid), now_ns());
        let mappings = target::read_mappings(pid).unwrap_or_default();
        let looked = root.parent().map(|folder| history.look(pid as u32, folder, &mappings, at));
        drop(history);
        if !matches!(looked, Some(Ok(()))) {
            self.ended(pid);
        }
    }
}

/// Names of addresses, with the stacks of one run.
#[derive(Debug)]
pub(crate) struct Over<'a> {
    symbols: &'a ProcessSymbols,
    maps: &'a dyn Store,
}

impl Over<'_> {
    fn of_kernel(&self, address: u64) -> Symbol {
        let known = self.symbols.kernel.get_or_init(|| KernelFunctions::read().unwrap_or_default());
        let Some(KernelFunction { name, offset, module }) = known.at(address) else {
            return Symbol::default();
        };
        let module = module.unwrap_or("kernel.kallsyms");
        Symbol { function: Some((name.to_owned(), offset)), module: Some(format!("[{module}]")) }
    }

    fn resolve(&self, pid: u32, address: u64, seen: Seen) -> Resolved {
        let moment = match seen {
            Seen::Now => Moment::Between(self.symbols.drained_ns.get(), now_ns()),
            Seen::Sometime => Moment::Any,
        };
        self.symbols.history.borrow_mut().resolve(pid, VirtAddr(address), moment)
    }
}

impl weir_report::Symbols for Over<'_> {
    fn symbol(&self, pid: u32, address: u64, seen: Seen) -> Symbol {
        if pid == KERNEL_PID {
            return self.of_kernel(address);
        }
        if self.symbols.sees_all && !self.symbols.looked.borrow().contains_key(&(pid as i32)) {
            self.symbols.look(pid as i32);
        }
        let mut resolved = self.resolve(pid, address, seen);
        let is_unknown = matches!(resolved, Resolved::Unnamed { why: Why::NothingThere, .. });
        // A value may name any process: only those that are traced are looked at.
        let is_traced = || self.symbols.looked.borrow().contains_key(&(pid as i32));
        if is_unknown && seen == Seen::Now && address != 0 && is_traced() {
            self.symbols.look_after(pid as i32, LOOK_AGAIN_INTERVAL);
            resolved = self.resolve(pid, address, seen);
        }
        match resolved {
            Resolved::Function { name, offset, module } => {
                Symbol { function: Some((name, offset)), module: Some(module) }
            }
            Resolved::Unnamed { module, why } => {
                let count = |of: &Cell<u64>| of.set(of.get() + 1);
                match why {
                    Why::Replaced => count(&self.symbols.replaced),
                    Why::Ambiguous => count(&self.symbols.ambiguous),
                    Why::NothingThere | Why::NoFunction | Why::Unreadable => {}
                }
                let mark = if why == Why::Replaced { " [replaced]" } else { "" };
                Symbol { function: None, module: module.map(|module| format!("{module}{mark}")) }
            }
        }
    }

    fn stack(&self, frames: u32, id: StackId) -> Option<Vec<u64>> {
        let (_, first) = self.symbols.stacks.iter().find(|(depth, _)| *depth == frames)?;
        let bytes = self.maps.lookup(first + id.table, &id.number.to_le_bytes())?;
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let is_of_kernel = id.pid == KERNEL_PID;
        Some(words.take_while(|address| is_of_kernel && *address != 0 || is_plausible(*address)).collect())
    }

    fn user(&self, id: u32) -> Option<String> {
        nix::unistd::User::from_uid(id.into()).ok().flatten().map(|user| user.name)
    }

    fn process(&self, pid: u32) -> Option<String> {
        let pid = i32::try_from(pid).ok()?;
        let noted = || self.symbols.names.borrow().get(&pid).map(|(_, name)| name.clone());
        name_of(pid).or_else(noted)
    }

    fn cgroup(&self, number: u64) -> Option<String> {
        let mut known = self.symbols.cgroups.borrow_mut();
        if let Some(path) = known.get(&number) {
            return path.clone();
        }
        let path = cgroup_path(number);
        if known.len() < CGROUPS_MAX {
            known.insert(number, path.clone());
        }
        path
    }

    fn time(&self, format: &str, at_ns: u64) -> String {
        local_time::of_monotonic(format, at_ns)
    }
}

fn name_of(pid: i32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// Where the hierarchy of version 2 is mounted, alone or beside those of version 1.
const CGROUP_ROOTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// The folder that has this number as its inode, as bpftrace writes it: `unified:/user.slice`.
fn cgroup_path(number: u64) -> Option<String> {
    let root = CGROUP_ROOTS.into_iter().find(|root| Path::new(root).join("cgroup.controllers").exists())?;
    let (mut open, mut looked) = (VecDeque::from([PathBuf::from(root)]), 0);
    while let Some(folder) = open.pop_front() {
        looked += 1;
        let metadata = folder.symlink_metadata().ok();
        if metadata.is_some_and(|metadata| metadata.ino() == number) {
            let path = folder.strip_prefix(root).unwrap_or(&folder);
            return Some(format!("unified:/{}", path.display()));
        }
        if looked == CGROUPS_LOOKED_AT_MAX {
            break;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        open.extend(entries.filter(|entry| entry.file_type().is_ok_and(|ty| ty.is_dir())).map(|e| e.path()));
    }
    None
}

fn is_plausible(address: u64) -> bool {
    CODE_ADDRESSES.contains(&address)
}

/// The types of everything that a script may print.
fn types(schema: &Schema) -> impl Iterator<Item = &Type> {
    let printed = schema.actions.iter().flat_map(|action| match action {
        Action::Printf { args, .. } => args.iter().map(|arg| &arg.ty).collect(),
        Action::PrintValue { value } => vec![&value.ty],
        _ => Vec::new(),
    });
    let values = schema.maps.iter().filter_map(|map| match &map.value {
        MapValue::Plain(ty) => Some(ty),
        _ => None,
    });
    let keys = schema.maps.iter().filter_map(|map| map.key.as_ref());
    printed.chain(values).chain(keys)
}

fn is_named(ty: &Type) -> bool {
    weir_ir::leaves(ty).into_iter().any(|leaf| match leaf {
        Type::Usym => true,
        Type::Ustack(form) => form.mode != StackMode::Raw,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_ends_at_words_that_are_no_addresses_of_code() {
        for (address, is) in [(0, false), (1, false), (4095, false), (4096, true), (0x7fff_ffff_f000, true)] {
            assert_eq!(is_plausible(address), is, "{address:#x}");
        }
        assert!(!is_plausible(1 << 47) && !is_plausible(u64::MAX));
    }
}
