//! Libraries that a process may load later, for static probes that no file has which it maps now.
//!
//! In: what the process executes, and where that may look for libraries: its folder and those below, its working folder, `LD_LIBRARY_PATH`,
//! DT_RUNPATH, and the folders that the dynamic loader is configured with. Out: the libraries there that have static probes. A folder is looked
//! through once a run ([`Later`]): processes of one program share the answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_symbols::resolve::{self, Places, Walk};

use crate::Binaries;

/// By folder, as weir names it, and whether those below were looked at too.
type Known = BTreeMap<(PathBuf, bool), Rc<BTreeSet<PathBuf>>>;

/// Libraries with static probes in folders that were looked through.
#[derive(Clone, Default, Debug)]
pub struct Later {
    known: Rc<RefCell<Known>>,
}

impl Later {
    /// Paths inside the root of `places`.
    fn libraries(&self, folder: &Path, is_deep: bool, places: &Places) -> Rc<BTreeSet<PathBuf>> {
        // Of a process with another root: by that.
        let key = (places.root.join(folder.strip_prefix("/").unwrap_or(folder)), is_deep);
        let known = self.known.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let found = Rc::new(Walk::through(folder, is_deep, places));
            self.known.borrow_mut().insert(key, found.clone());
            found
        })
    }
}

impl Binaries {
    /// Paths of the libraries with static probes that the target could load, each once, and in how many folders they were looked for.
    pub(crate) fn loadable_paths(&self) -> (Vec<String>, usize) {
        let folders = self.folders_to_load_from();
        let mut found: Vec<String> = Vec::new();
        for (folder, is_deep) in &folders {
            let libraries = self.later.libraries(folder, *is_deep, &self.places);
            let paths = libraries.iter().filter_map(|path| path.to_str());
            for path in paths {
                if !found.iter().any(|known| known == path) {
                    found.push(path.to_owned());
                }
            }
        }
        (found, folders.len())
    }

    /// Each once; and whether what is below belongs to it.
    fn folders_to_load_from(&self) -> Vec<(PathBuf, bool)> {
        let mut folders: Vec<(PathBuf, bool)> = Vec::new();
        let mut add = |folder: PathBuf, is_deep: bool| {
            if folder.is_absolute() && !folders.iter().any(|(known, _)| *known == folder) {
                folders.push((folder, is_deep));
            }
        };
        let defaults = resolve::library_folders(&self.places);
        let program = self.program.as_deref().and_then(|program| self.open(program).ok());
        if let Some((path, binary)) = &program {
            let path = resolve::as_mapped(&path.display().to_string(), &self.places);
            if let Some((folder, path)) = path.as_deref().and_then(|path| Some((path.parent()?, path))) {
                // A program in the root folder does not own all that is there.
                add(folder.to_path_buf(), folder.parent().is_some());
                binary.run_path(path).into_iter().for_each(|folder| add(folder, true));
            }
        }
        let working = match self.pid {
            None => Some(self.places.cwd.clone()),
            Some(pid) => fs::read_link(format!("/proc/{pid}/cwd")).ok(),
        };
        for folder in self.folders_of_loader() {
            add(folder, false);
        }
        working.into_iter().for_each(|folder| add(folder, false));
        defaults.into_iter().for_each(|folder| add(folder, true));
        folders
    }

    /// Those of the target's `LD_LIBRARY_PATH`.
    fn folders_of_loader(&self) -> Vec<PathBuf> {
        const NAME: &[u8] = b"LD_LIBRARY_PATH=";
        let value: Option<OsString> = match self.pid {
            None => env::var_os(OsStr::from_bytes(&NAME[..NAME.len() - 1])),
            Some(pid) => fs::read(format!("/proc/{pid}/environ")).ok().and_then(|environment| {
                let mut words = environment.split(|byte| *byte == 0);
                words.find_map(|word| Some(OsString::from_vec(word.strip_prefix(NAME)?.to_vec())))
            }),
        };
        value.map_or_else(Vec::new, |value| env::split_paths(&value).collect())
    }
}
