//! What the compiler may ask of the files around it: which functions, instructions and static probes a probe names.
//!
//! Binaries are looked for as the target sees them: in its root, and among the files that it has mapped. A file that it maps
//! and that has been deleted or replaced on disk since (an upgrade of its package) is read through the process. Each is read
//! once and kept, for the sites that are planned later.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod found;
mod headers;
mod kernel;
mod later;
mod loaded;
mod lttng;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_event::ctype::{CType, CTypes, Elsewhere, TypeId};
use weir_event::schema::Schema;
use weir_ir::{
    FoundFunction, FoundPlace, FoundPrototype, FoundStatic, FoundTracepoint, KERNEL, PlaceSpec, StaticKind,
    World, WorldError,
};
use weir_probe::target;
use weir_symbols::maps::{self, Mapping};
use weir_symbols::resolve::{self, Places};
use weir_symbols::{Binary, Error, FileIdentity, Function, LinkAddr, StaticProbe, demangle, pattern};

use crate::found::{found_prototype, found_static};
use crate::kernel::KernelTypes;
pub use crate::later::Later;
pub use crate::loaded::{is_instrumented, lttng_libraries, mapped_lttng_library};
use crate::lttng::InFile;
pub use crate::lttng::LttngProbe;

/// The files of a target, or of this machine.
pub fn binaries(pid: Option<i32>) -> Result<Binaries, weir_probe::Error> {
    let Some(pid) = pid else { return Ok(Binaries::of_machine(None, places())) };
    let mappings = target::read_mappings(pid)?;
    // A target that shares weir's root is looked at without the detour, so that relative paths mean the same.
    let is_shared = target::shares_root(pid)?;
    let root = if is_shared { "/".into() } else { target::root(pid) };
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok().map(|path| path.display().to_string());
    let program = program.map(|path| path.strip_suffix(" (deleted)").map_or(path.clone(), String::from));
    Ok(Binaries::of(pid, program, Places { root, ..places() }, mappings))
}

/// The files of a process that is about to begin: what it maps by now, and what its program needs.
pub fn binaries_of_program(pid: i32, ld_library_path: &str) -> Result<Binaries, weir_probe::Error> {
    let ld_library_path =
        ld_library_path.split([':', ';']).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    Ok(Binaries { is_beginning: true, ld_library_path: ld_library_path.collect(), ..binaries(Some(pid))? })
}

/// Where files are looked for, as weir itself sees them.
pub fn places() -> Places {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Places { root: "/".into(), path_env: std::env::var_os("PATH"), cwd }
}

/// Libraries of a command that are looked at before it is started; LibreOffice needs some hundred.
const NEEDED_MAX: usize = 4096;

/// The binaries of one target.
#[derive(Debug)]
pub struct Binaries {
    places: Places,
    /// The running target, if there is one.
    pid: Option<i32>,
    /// Of a running target; empty for a command that is not started yet.
    mappings: Vec<Mapping>,
    opened: RefCell<BTreeMap<PathBuf, Rc<Binary>>>,
    /// Of the same: what LTTng-UST has in them.
    lttng: RefCell<BTreeMap<PathBuf, Rc<InFile>>>,
    /// What the dynamic linker never unloads, once that was asked.
    staying: OnceCell<HashSet<FileIdentity>>,
    /// What the target executes: a path, or a name to look for.
    program: Option<String>,
    /// It may map more of what its program needs.
    is_beginning: bool,
    /// Of LD_LIBRARY_PATH, as far as it is known.
    ld_library_path: Vec<PathBuf>,
    /// What libraries there are that it could load.
    later: Later,
    /// Where headers are looked for first.
    folders: Vec<PathBuf>,
    /// Once a script has asked for one of them.
    kernel: OnceCell<Option<KernelTypes>>,
}

impl Binaries {
    /// Of process `pid`, which executes `program` and maps this.
    pub fn of(pid: i32, program: Option<String>, places: Places, mappings: Vec<Mapping>) -> Binaries {
        Binaries {
            places,
            pid: Some(pid),
            mappings,
            opened: RefCell::default(),
            lttng: RefCell::default(),
            staying: OnceCell::new(),
            program,
            is_beginning: false,
            ld_library_path: Vec::new(),
            later: Later::default(),
            folders: Vec::new(),
            kernel: OnceCell::new(),
        }
    }

    /// Of this machine, where a command is to execute `program`, if one is.
    pub fn of_machine(program: Option<String>, places: Places) -> Binaries {
        Binaries {
            places,
            pid: None,
            mappings: Vec::new(),
            opened: RefCell::default(),
            lttng: RefCell::default(),
            staying: OnceCell::new(),
            program,
            is_beginning: false,
            ld_library_path: Vec::new(),
            later: Later::default(),
            folders: Vec::new(),
            kernel: OnceCell::new(),
        }
    }

    /// The same, with what was found out for other processes of the run.
    pub fn with(self, later: &Later) -> Binaries {
        Binaries { later: later.clone(), ..self }
    }

    /// The same, which looks for headers in these folders first.
    pub fn with_headers(self, folders: Vec<PathBuf>) -> Binaries {
        Binaries { folders, ..self }
    }

    /// The binary at `path`, a path that [`World::functions`] answered.
    pub fn at(&self, path: &str) -> Option<Rc<Binary>> {
        self.opened.borrow().get(Path::new(path)).cloned()
    }

    /// The binary of this name, and the path that it is shown by.
    pub fn open(&self, name: &str) -> Result<(PathBuf, Rc<Binary>), Error> {
        let deleted = self.deleted(name);
        let path = match deleted {
            Some(mapping) => PathBuf::from(&mapping.path),
            None => self.find(name)?,
        };
        // As bpftrace shows it: a path as it was written, a name as the file that it means.
        let shown = match path.strip_prefix(&self.places.root) {
            _ if name.contains('/') => PathBuf::from(name),
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => path.clone(),
        };
        if let Some(binary) = self.opened.borrow().get(&shown) {
            return Ok((shown, binary.clone()));
        }
        let binary = match deleted {
            Some(mapping) => self.open_deleted(mapping)?,
            None => Binary::open_in(&path, &self.places.root)?,
        };
        let binary = Rc::new(binary);
        self.opened.borrow_mut().insert(shown.clone(), binary.clone());
        Ok((shown, binary))
    }
}

impl Binaries {
    fn kernel(&self) -> Option<&KernelTypes> {
        self.kernel.get_or_init(KernelTypes::read).as_ref()
    }

    /// Of no process.
    pub fn is_of_machine(&self) -> bool {
        self.pid.is_none()
    }

    /// Those of a running process that shares weir's root.
    pub fn is_of_own_root(&self) -> bool {
        !self.mappings.is_empty() && self.places.root == Path::new("/")
    }

    /// Whether the running target maps exactly this file.
    pub fn maps_file(&self, binary: &Binary) -> bool {
        let file = binary.identity();
        file.is_some_and(|file| self.mappings.iter().any(|mapping| mapping.is_file(file)))
    }

    /// Whether the running target maps the file that `path` shows.
    pub fn maps(&self, path: &Path, binary: &Binary) -> bool {
        let path = if path.is_absolute() { path.to_owned() } else { self.places.cwd.join(path) };
        maps::identity_of(&self.mappings, binary, &path)
            .is_some_and(|file| self.mappings.iter().any(|mapping| mapping.is_file(file)))
    }

    /// Paths of the files whose code the running target maps, each once.
    pub fn mapped_paths(&self) -> Vec<String> {
        let files = self.mappings.iter().filter(|m| m.execute && m.inode != 0 && !m.deleted);
        let paths: BTreeSet<&str> = files
            .map(|m| m.path.as_str())
            .filter(|path| path.starts_with('/') && !path.starts_with("/memfd:"))
            .collect();
        paths.into_iter().map(String::from).collect()
    }

    /// What the target maps of a file that had this name and has been deleted or replaced since, if it maps none that has it
    /// now.
    fn deleted(&self, name: &str) -> Option<&Mapping> {
        let is_file = |mapping: &&Mapping| {
            mapping.execute && mapping.inode != 0 && !mapping.path.starts_with("/memfd:")
        };
        if !name.contains('/') {
            return resolve::mapped(name, &self.mappings).filter(is_file).filter(|mapping| mapping.deleted);
        }
        let path = resolve::as_mapped(name, &self.places)?;
        let named =
            || self.mappings.iter().filter(is_file).filter(|mapping| Path::new(&mapping.path) == path);
        named().next().filter(|_| named().all(|mapping| mapping.deleted))
    }

    /// The process has it still.
    fn open_deleted(&self, mapping: &Mapping) -> Result<Binary, Error> {
        let pid = self.pid.unwrap_or_default();
        let of_process = target::link_to(pid, mapping);
        Binary::open_in(&of_process, &self.places.root).map_err(|error| match error {
            Error::Io { source, .. } => {
                Error::Deleted { pid, path: PathBuf::from(&mapping.path), reason: source.to_string() }
            }
            other => other,
        })
    }

    fn find(&self, name: &str) -> Result<PathBuf, Error> {
        let mapped = if name.contains('/') { None } else { resolve::mapped(name, &self.mappings) };
        let Some(mapping) = mapped else { return resolve::binary(name, &self.places) };
        // Maps name files as the target's root has them; those of a process that only changed its root (chroot) are
        // named from weir's own.
        resolve::binary(&mapping.path, &self.places).or_else(|error| {
            let own = Path::new(&mapping.path);
            if own.is_file() { Ok(own.to_owned()) } else { Err(error) }
        })
    }
}

impl Binaries {
    /// What the functions at these addresses take, as far as debug information says; `path` as in [`Binaries::at`].
    pub fn prototypes_at(
        &self,
        path: &str,
        addresses: &BTreeSet<LinkAddr>,
    ) -> BTreeMap<LinkAddr, FoundPrototype> {
        let Some(binary) = self.at(path) else { return BTreeMap::new() };
        let found = binary.prototypes(addresses);
        found.iter().map(|(address, prototype)| (*address, found_prototype(prototype))).collect()
    }

    /// Static probes of all files whose path or name matches, among those that the target maps: of a command that is not
    /// started yet its program and the libraries that this needs.
    fn static_probes_of_all(&self, asked: &Asked<'_>) -> Result<Vec<FoundStatic>, WorldError> {
        let Asked { kind, provider, wanted, .. } = *asked;
        let called = kind.unwrap_or(StaticKind::Usdt).name();
        let paths = match self.pid {
            Some(_) if self.is_beginning => self.beginning_paths(),
            Some(_) => self.mapped_paths(),
            None => self.needed_paths(),
        };
        if paths.is_empty() {
            let message =
                "the binary is to be one that a process maps, and there is no process yet".to_owned();
            let provider = provider.map_or_else(String::new, |provider| format!("{provider}:"));
            let hint = format!("name it ({called}:BINARY:{provider}{wanted}), or add -p PID or -c COMMAND");
            return Err(WorldError { message, hint: Some(hint) });
        }
        let mut names = BTreeSet::new();
        let mut found = self.static_probes_in(&paths, asked, &mut names);
        if !found.is_empty() {
            return Ok(found);
        }
        let (later, folders) = self.loadable_paths();
        found = self.static_probes_in(&later, asked, &mut names);
        if found.is_empty() {
            let provider = provider.map_or_else(String::new, |provider| format!("{provider}:"));
            let message = format!(
                "no {} is named \"{provider}{wanted}\" in the {} programs and libraries of the process, nor in \
                 libraries of the {folders} folders that it may load more from",
                what(kind),
                paths.len()
            );
            let near = pattern::near_misses(&format!("{provider}{wanted}"), names.iter().map(String::as_str));
            let hint = match &near[..] {
                [] => "`weir list -p PID` shows those that there are; one of a library that the process loads from elsewhere needs the \
                       library's path: KIND:PATH:PROVIDER:NAME"
                    .replace("KIND", called),
                near => format!("did you mean {}?", near.join(", ")),
            };
            return Err(WorldError { message, hint: Some(hint) });
        }
        Ok(found)
    }

    /// Those of `paths`, as far as these are named by `files`; where one has none that is meant, what it has is added to `names`.
    fn static_probes_in(
        &self,
        paths: &[String],
        asked: &Asked<'_>,
        names: &mut BTreeSet<String>,
    ) -> Vec<FoundStatic> {
        let mut found = Vec::new();
        for path in paths.iter().filter(|path| is_named(asked.files, path)) {
            // What is mapped executable and is no ELF file has no probes.
            let Ok((path, binary)) = self.open(path) else { continue };
            let probes = self.in_file(&path, &binary, asked).unwrap_or_default();
            if probes.is_empty() {
                names.extend(self.static_names(&path, &binary, asked.kind));
            }
            found.extend(probes);
        }
        found
    }

    /// The program, what is loaded before it, and the libraries that these need: all that the dynamic linker never unloads.
    fn needed_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.program.iter().cloned().collect();
        paths.extend(self.preloaded());
        let mut next = 0;
        while let Some(path) = paths.get(next) {
            let opened = self.open(path).ok();
            let needed = opened.as_ref().map_or_else(Vec::new, |(_, binary)| binary.needed());
            for library in needed {
                let of = opened.as_ref().map(|(path, binary)| (&**path, &**binary));
                let library = self.path_of_needed(&library, of).unwrap_or(library);
                if !paths.contains(&library) && paths.len() < NEEDED_MAX {
                    paths.push(library);
                }
            }
            next += 1;
        }
        paths
    }

    /// Where the dynamic linker finds a library of this name that a file needs, if it looks in such a folder first.
    fn path_of_needed(&self, library: &str, of: Option<(&Path, &Binary)>) -> Option<String> {
        if library.contains('/') || resolve::mapped(library, &self.mappings).is_some() {
            return None;
        }
        let of_file = of.map_or_else(Vec::new, |(path, binary)| binary.run_path(path));
        let folders = self.ld_library_path.iter().chain(&of_file);
        let found = folders
            .map(|folder| folder.join(library))
            .find_map(|path| resolve::binary(path.to_str()?, &self.places).ok())?;
        let inside = found.strip_prefix(&self.places.root).ok()?;
        Some(Path::new("/").join(inside).display().to_string())
    }

    /// Paths of files that a process which is about to begin has, each once.
    fn beginning_paths(&self) -> Vec<String> {
        let mut files = HashSet::new();
        let mut paths = self.mapped_paths();
        paths.extend(self.needed_paths());
        paths.retain(|path| {
            let identity = self.open(path).ok().and_then(|(_, binary)| binary.identity());
            identity.is_some_and(|identity| files.insert(identity))
        });
        paths
    }

    /// What LD_PRELOAD names.
    fn preloaded(&self) -> Vec<String> {
        let named = match self.pid {
            Some(pid) => fs::read(format!("/proc/{pid}/environ")).ok().and_then(|environment| {
                let mut variables = environment.split(|byte| *byte == 0);
                let value = variables.find_map(|variable| variable.strip_prefix(b"LD_PRELOAD="))?;
                Some(String::from_utf8_lossy(value).into_owned())
            }),
            None => std::env::var("LD_PRELOAD").ok(),
        };
        let named = named.unwrap_or_default();
        named.split([' ', ':']).filter(|name| !name.is_empty()).map(String::from).collect()
    }

    /// What the file says of the fields of the static probe at a place, if it does.
    pub fn static_schema(&self, path: &str, full_name: &str, address: LinkAddr) -> Option<Schema> {
        if let Some(event) = self.lttng_at(path, full_name, address) {
            return Some(event.schema);
        }
        let binary = self.at(path)?;
        let is_it = |probe: &&StaticProbe| probe.address == address && probe.full_name() == full_name;
        binary.static_probes().iter().find(is_it)?.schema.clone()
    }

    /// The static probe at a place that [`World::static_probes`] answered.
    pub fn static_at(&self, path: &str, full_name: &str, address: LinkAddr) -> Option<FoundStatic> {
        if let Some(event) = self.lttng_at(path, full_name, address) {
            return Some(event.found);
        }
        let binary = self.at(path)?;
        let is_it = |probe: &&StaticProbe| probe.address == address && probe.full_name() == full_name;
        let probe = binary.static_probes().iter().find(is_it)?;
        Some(found_static(path, &binary, probe))
    }
}

/// The static probes that are asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// None: of any.
    kind: Option<StaticKind>,
    files: &'a str,
    provider: Option<&'a str>,
    wanted: &'a str,
}

fn what(kind: Option<StaticKind>) -> &'static str {
    match kind {
        Some(StaticKind::Usdt) => "static probe (USDT)",
        Some(StaticKind::Lttng) => "event of LTTng-UST",
        None => "static probe (USDT) or event of LTTng-UST",
    }
}

/// Libraries whose functions are in libc since glibc 2.34, and which are empty there. Scripts name them still.
fn is_in_libc(name: &str) -> bool {
    let name = name.split(".so").next().unwrap_or_default();
    matches!(name, "libpthread" | "libdl" | "librt" | "libutil" | "libanl")
}

impl World for Binaries {
    fn functions(&self, binary: &str, wanted: &str) -> Result<Vec<FoundFunction>, WorldError> {
        let name = binary;
        let (mut path, mut binary) = self.open(name).map_err(explain)?;
        let mut is_moved = false;
        if is_in_libc(name)
            && binary.find(wanted).is_err()
            && let Ok(libc) = self.open("libc")
            && libc.1.find(wanted).is_ok()
        {
            (path, binary) = libc;
            is_moved = true;
        }
        let functions = binary.find(wanted).map_err(|error| with_language(explain(error), name, wanted))?;
        let mut found = by_symbols(&path, functions.into_iter().map(|function| name_for(function, wanted)));
        found.iter_mut().for_each(|function| function.is_moved = is_moved);
        Ok(found)
    }

    fn demangled_functions(&self, binary: &str, wanted: &str) -> Result<Vec<FoundFunction>, WorldError> {
        let (path, binary) = self.open(binary).map_err(explain)?;
        let functions = binary.find_demangled(wanted).map_err(explain)?;
        Ok(by_symbols(&path, functions.into_iter().map(|(_, name)| name)))
    }

    fn places(&self, binary: &str, place: &PlaceSpec) -> Result<Vec<FoundPlace>, WorldError> {
        let (path, binary) = self.open(binary).map_err(explain)?;
        let path = path.display().to_string();
        let at = |name: String, address: LinkAddr| {
            let function = binary.function_at(address).map_or_else(String::new, |f| shown(&f.name));
            FoundPlace { binary: path.clone(), name, function, address: address.0 }
        };
        match place {
            PlaceSpec::Offset { function, offset } => {
                let found = binary.find(function).map_err(explain)?;
                let name = || format!("{function}+{offset}");
                let within = |f: &&&Function| *offset < f.size;
                let inside = found.iter().filter(within).map(|f| at(name(), LinkAddr(f.address.0 + offset)));
                let inside: Vec<FoundPlace> = inside.collect();
                if !inside.is_empty() {
                    return Ok(inside);
                }
                let message = match found.iter().map(|f| f.size).max().unwrap_or(0) {
                    0 => format!("the size of {function} in {path} is not known"),
                    size => format!("{function} in {path} has {size} bytes: +{offset} is behind its end"),
                };
                Err(WorldError { message, hint: Some("`weir list -v` shows sizes of functions".into()) })
            }
            PlaceSpec::Address(address) => {
                let at = at(format!("{address:#x}"), LinkAddr(*address));
                if binary.function_bounds(LinkAddr(*address)).is_some() {
                    return Ok(vec![at]);
                }
                let message = format!("no function of {path} is at the link address {address:#x}");
                let hint = "addresses are as `nm` and `objdump -d` print them, not those of a process";
                Err(WorldError { message, hint: Some(hint.into()) })
            }
            PlaceSpec::Line { file, line } => {
                let found = binary.source_line(file, *line).map_err(explain)?;
                Ok(found.into_iter().map(|address| at(format!("{file}:{line}"), address)).collect())
            }
        }
    }

    fn static_probes(
        &self,
        kind: Option<StaticKind>,
        binary: &str,
        provider: Option<&str>,
        wanted: &str,
    ) -> Result<Vec<FoundStatic>, WorldError> {
        let asked = Asked { kind, files: binary, provider, wanted };
        if pattern::is_wildcard(binary) && self.open(binary).is_err() {
            return self.static_probes_of_all(&asked);
        }
        let (path, binary) = self.open(binary).map_err(explain)?;
        self.in_file(&path, &binary, &asked)
    }

    fn program(&self) -> Option<String> {
        self.program.clone()
    }

    fn prototypes(&self, binary: &str, functions: &[&str]) -> Vec<Option<FoundPrototype>> {
        let Some(file) = self.at(binary) else { return vec![None; functions.len()] };
        let places = |name: &&str| -> BTreeSet<LinkAddr> {
            file.find(name)
                .map_or_else(|_| BTreeSet::new(), |found| found.iter().map(|f| f.address).collect())
        };
        let places: Vec<BTreeSet<LinkAddr>> = functions.iter().map(places).collect();
        let known = self.prototypes_at(binary, &places.iter().flatten().copied().collect());
        let of_all = |places: &BTreeSet<LinkAddr>| {
            let mut of_each = places.iter().map(|address| known.get(address));
            let first = of_each.next()??;
            of_each.all(|other| other == Some(first)).then(|| first.clone())
        };
        places.iter().map(of_all).collect()
    }

    fn unnamed_parameters(&self, binary: &str, function: &str) -> Option<String> {
        let file = self.at(binary)?;
        let found = file.find(function).ok()?;
        let addresses: BTreeSet<LinkAddr> = found.iter().map(|f| f.address).collect();
        let why = match file.prototypes(&addresses).len() {
            known if known > 1 => "there are several functions of this name, which differ in what they take",
            _ => file.without_prototype(*addresses.first()?),
        };
        Some(why.to_owned())
    }

    fn parameter_types(&self, binary: &str, function: &str, types: &mut CTypes) -> Vec<(String, TypeId)> {
        let Some(file) = self.at(binary) else { return Vec::new() };
        let found = file
            .find(function)
            .map_or_else(|_| Vec::new(), |found| found.iter().map(|f| f.address).collect());
        match found.first() {
            Some(address) => file.parameter_types(*address, binary, types),
            None => Vec::new(),
        }
    }

    fn c_type(&self, binary: &str, name: &str, types: &mut CTypes) -> Option<TypeId> {
        if binary == KERNEL {
            return self.kernel()?.named(name, types);
        }
        self.at(binary)?.c_type(name, binary, types)
    }

    fn members(&self, place: &Elsewhere, types: &mut CTypes) -> Option<CType> {
        if place.binary == KERNEL {
            return self.kernel()?.members(place.offset, types);
        }
        self.at(&place.binary)?.members(place.offset, &place.binary, types)
    }

    fn tracepoints(&self, subsystem: &str, name: &str) -> Result<Vec<FoundTracepoint>, WorldError> {
        kernel::tracepoints(subsystem, name)
    }

    fn tracepoint_fields(&self, of: &FoundTracepoint, types: &mut CTypes) -> Result<TypeId, WorldError> {
        kernel::tracepoint_fields(of, &|| self.kernel(), types)
    }

    fn kernel_functions(
        &self,
        module: Option<&str>,
        pattern: &str,
        is_typed: bool,
    ) -> Result<Vec<String>, WorldError> {
        kernel::functions((module, pattern), is_typed, &|| self.kernel())
    }

    fn kernel_function(&self, name: &str, types: &mut CTypes) -> Result<(TypeId, TypeId), WorldError> {
        let found = self.kernel().and_then(|kernel| kernel.function(name, types));
        found.ok_or_else(|| WorldError {
            message: format!("the kernel's types (BTF) name no function `{name}`"),
            hint: Some("a `kprobe` needs no types: its arguments are `arg0` to `arg5`".to_owned()),
        })
    }

    fn kernel_constant(&self, name: &str) -> Option<i64> {
        self.kernel()?.constant(name)
    }

    fn kernel_symbol(&self, name: &str) -> Result<u64, WorldError> {
        kernel::symbol(name)
    }

    fn cgroup(&self, path: &str) -> Option<u64> {
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        Some(std::os::unix::fs::MetadataExt::ino(&metadata))
    }

    fn cpus(&self) -> u32 {
        weir_rt::local::possible_cpus()
    }

    fn import(&self, name: &str, from: Option<&str>) -> Result<(String, String), WorldError> {
        headers::find_import(name, from, &self.folders)
    }

    fn header(
        &self,
        name: &str,
        is_system: bool,
        from: Option<&str>,
    ) -> Result<(String, String), WorldError> {
        headers::find(name, is_system, from, &self.folders)
    }
}

/// Whether a file's path, or its name alone, matches.
pub fn is_named(wanted: &str, path: &str) -> bool {
    let file = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    pattern::matches(wanted, path) || pattern::matches(wanted, file)
}

fn explain(error: Error) -> WorldError {
    WorldError { message: error.to_string(), hint: None }
}

/// The name of `function` that the user meant.
/// Functions by their symbols. Those of one (versions of a symbol, static functions of several files) are one probe with several sites.
fn by_symbols<'a>(path: &Path, symbols: impl Iterator<Item = &'a str>) -> Vec<FoundFunction> {
    let (path, mut names) = (path.display().to_string(), HashSet::new());
    let symbols = symbols.filter(|name| names.insert(*name));
    let function = |name: &str| FoundFunction { shown: shown(name), ..FoundFunction::plain(&path, name) };
    symbols.map(function).collect()
}

/// A symbol as people write it.
fn shown(symbol: &str) -> String {
    demangle(symbol).unwrap_or_else(|| symbol.to_owned())
}

/// A name of C++ or Rust is no symbol: how it is written.
fn with_language(mut error: WorldError, binary: &str, wanted: &str) -> WorldError {
    if wanted.contains("::") || wanted.contains('(') {
        error.hint = Some(format!(
            "names of C++ and Rust, with or without parameters, are written `{binary}:cpp:\"{wanted}\"`"
        ));
    }
    error
}

fn name_for<'a>(function: &'a Function, wanted: &str) -> &'a str {
    let matching = function.names().find(|name| *name == wanted || pattern::matches(wanted, name));
    matching.unwrap_or(&function.name)
}
