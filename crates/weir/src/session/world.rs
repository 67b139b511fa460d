//! What the compiler may ask of the files around it: which functions a probe names.
//!
//! Binaries are looked for as the target sees them: in its root, and among the files that it has mapped. Each is
//! read once and kept, for the sites that are planned later.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_ir::{FoundFunction, World, WorldError};
use weir_symbols::maps::Mapping;
use weir_symbols::resolve::{self, Places};
use weir_symbols::{Binary, Error, Function, pattern};

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

    fn open(&self, name: &str) -> Result<(PathBuf, Rc<Binary>), Error> {
        let mapped = if name.contains('/') { None } else { resolve::mapped(name, &self.mappings) };
        let path = match mapped {
            Some(mapping) => resolve::binary(&mapping.path, &self.places)?,
            None => resolve::binary(name, &self.places)?,
        };
        let shown = match path.strip_prefix(&self.places.root) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => path.clone(),
        };
        if let Some(binary) = self.opened.borrow().get(&shown) {
            return Ok((shown, binary.clone()));
        }
        let binary = Rc::new(Binary::open(&path)?);
        self.opened.borrow_mut().insert(shown.clone(), binary.clone());
        Ok((shown, binary))
    }
}

impl World for Binaries {
    fn functions(&self, binary: &str, wanted: &str) -> Result<Vec<FoundFunction>, WorldError> {
        let explain = |error: Error| WorldError { message: error.to_string(), hint: None };
        let (path, binary) = self.open(binary).map_err(explain)?;
        let functions = binary.find(wanted).map_err(explain)?;
        let path = path.display().to_string();
        let mut found: Vec<FoundFunction> = Vec::with_capacity(functions.len());
        for function in functions {
            let name = name_for(function, wanted).to_owned();
            // Versions of one symbol have one name: they are one probe with several sites.
            if found.last().is_none_or(|last| last.name != name) {
                found.push(FoundFunction { binary: path.clone(), name });
            }
        }
        Ok(found)
    }
}

/// The name of `function` that the user meant.
fn name_for<'a>(function: &'a Function, wanted: &str) -> &'a str {
    let matching = function.names().find(|name| *name == wanted || pattern::matches(wanted, name));
    matching.unwrap_or(&function.name)
}
