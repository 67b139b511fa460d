//! What the compiler may ask of the files around it: which functions, instructions and static probes a probe names.
//!
//! Binaries are looked for as the target sees them: in its root, and among the files that it has mapped. Each is
//! read once and kept, for the sites that are planned later.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_ir::{
    ArgumentPlace, FoundArgument, FoundFunction, FoundPlace, FoundStatic, PlaceSpec, World, WorldError,
};
use weir_symbols::maps::{self, Mapping};
use weir_symbols::resolve::{self, Places};
use weir_symbols::usdt::{Argument, Displacement, Operand};
use weir_symbols::{Binary, Error, Function, LinkAddr, StaticProbe, pattern};

/// The binaries of one target.
#[derive(Debug)]
pub(crate) struct Binaries {
    places: Places,
    /// Of a running target; empty for a command that is not started yet.
    mappings: Vec<Mapping>,
    opened: RefCell<BTreeMap<PathBuf, Rc<Binary>>>,
}

impl Binaries {
    pub(crate) fn new(places: Places, mappings: Vec<Mapping>) -> Binaries {
        Binaries { places, mappings, opened: RefCell::default() }
    }

    /// The binary at `path`, a path that [`World::functions`] answered.
    pub(crate) fn at(&self, path: &str) -> Option<Rc<Binary>> {
        self.opened.borrow().get(Path::new(path)).cloned()
    }

    /// The binary of this name, and the path that it is shown by.
    pub(crate) fn open(&self, name: &str) -> Result<(PathBuf, Rc<Binary>), Error> {
        let path = self.find(name)?;
        // As bpftrace shows it: a path as it was written, a name as the file that it means.
        let shown = match path.strip_prefix(&self.places.root) {
            _ if name.contains('/') => PathBuf::from(name),
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => path.clone(),
        };
        if let Some(binary) = self.opened.borrow().get(&shown) {
            return Ok((shown, binary.clone()));
        }
        let binary = Rc::new(Binary::open_in(&path, &self.places.root)?);
        self.opened.borrow_mut().insert(shown.clone(), binary.clone());
        Ok((shown, binary))
    }
}

impl Binaries {
    /// Whether the running target maps the file that `path` shows.
    pub(crate) fn maps(&self, path: &Path, binary: &Binary) -> bool {
        let path = if path.is_absolute() { path.to_owned() } else { self.places.cwd.join(path) };
        maps::identity_of(&self.mappings, binary, &path)
            .is_some_and(|file| self.mappings.iter().any(|mapping| mapping.is_file(file)))
    }

    /// Paths of the files whose code the running target maps, each once.
    pub(crate) fn mapped_paths(&self) -> Vec<String> {
        let files = self.mappings.iter().filter(|m| m.execute && m.inode != 0 && !m.deleted);
        let paths: BTreeSet<&str> = files
            .map(|m| m.path.as_str())
            .filter(|path| path.starts_with('/') && !path.starts_with("/memfd:"))
            .collect();
        paths.into_iter().map(String::from).collect()
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

impl World for Binaries {
    fn functions(&self, binary: &str, wanted: &str) -> Result<Vec<FoundFunction>, WorldError> {
        let (path, binary) = self.open(binary).map_err(explain)?;
        let functions = binary.find(wanted).map_err(explain)?;
        let path = path.display().to_string();
        let mut found: Vec<FoundFunction> = Vec::with_capacity(functions.len());
        let mut names = HashSet::new();
        for function in functions {
            let name = name_for(function, wanted);
            // Functions of one name (versions of a symbol, static functions of several files) are one probe with
            // several sites.
            if names.insert(name) {
                found.push(FoundFunction { binary: path.clone(), name: name.to_owned() });
            }
        }
        Ok(found)
    }

    fn places(&self, binary: &str, place: &PlaceSpec) -> Result<Vec<FoundPlace>, WorldError> {
        let (path, binary) = self.open(binary).map_err(explain)?;
        let path = path.display().to_string();
        let at = |name: String, address: LinkAddr| {
            let function = binary.function_at(address).map_or_else(String::new, |f| f.name.clone());
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
        binary: &str,
        provider: Option<&str>,
        wanted: &str,
    ) -> Result<Vec<FoundStatic>, WorldError> {
        let (path, binary) = self.open(binary).map_err(explain)?;
        let found = binary.find_static(provider, wanted).map_err(explain)?;
        let path = path.display().to_string();
        Ok(found.into_iter().map(|probe| found_static(&path, &binary, probe)).collect())
    }
}

fn found_static(path: &str, binary: &Binary, probe: &StaticProbe) -> FoundStatic {
    FoundStatic {
        binary: path.to_owned(),
        provider: probe.provider.clone(),
        name: probe.name.clone(),
        function: binary.function_at(probe.address).map_or_else(String::new, |f| f.name.clone()),
        address: probe.address.0,
        semaphore: probe.semaphore.map(|address| address.0),
        arguments: probe.arguments.iter().map(|argument| found_argument(probe, argument)).collect(),
    }
}

fn found_argument(probe: &StaticProbe, argument: &Argument) -> FoundArgument {
    let place = match &argument.operand {
        Ok(Operand::Constant(value)) => Ok(ArgumentPlace::Constant(*value)),
        Ok(Operand::Register(register)) => Ok(ArgumentPlace::Register {
            number: register.number,
            shift: register.shift,
            bits: register.bits,
        }),
        Ok(Operand::Vector(number)) => Ok(ArgumentPlace::Vector(*number)),
        Ok(Operand::Memory(memory)) => {
            let (displacement, relative) = match memory.displacement {
                Displacement::Bytes(bytes) => (bytes, false),
                // The file moves as a whole: what is so far from the probe now is as far from it in the process.
                Displacement::Linked(at) => (at.0.wrapping_sub(probe.address.0) as i64, true),
            };
            Ok(ArgumentPlace::Memory { base: memory.base, index: memory.index, displacement, relative })
        }
        Err(reason) => Err(reason.to_string()),
    };
    let Argument { text, bytes, signed, is_float, .. } = argument;
    FoundArgument { text: text.clone(), bytes: *bytes, signed: *signed, is_float: *is_float, place }
}

fn explain(error: Error) -> WorldError {
    WorldError { message: error.to_string(), hint: None }
}

/// The name of `function` that the user meant.
fn name_for<'a>(function: &'a Function, wanted: &str) -> &'a str {
    let matching = function.names().find(|name| *name == wanted || pattern::matches(wanted, name));
    matching.unwrap_or(&function.name)
}
