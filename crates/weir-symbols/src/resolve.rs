//! What the name of a program or library means: the `BIN` of `uprobe:BIN:FN`.
//!
//! In: a name, and the places to look in ([`Places`]). Out: the path of an existing file, all symbolic links
//! followed **inside the root**: a container's absolute links do not lead out of it. The rules:
//! - with a `/`: a path, absolute from the root or relative to `cwd`;
//! - else, if it starts with `lib` or `ld-` or has `.so` in it, a library (`resolve/library.rs`), and only then a program;
//! - else a program in `$PATH`, and only then a library.
//!
//! Whether the file is an ELF file is for `Binary::open` to say. Wildcards in names are not expanded.

mod cache;
mod library;
mod loadable;
mod root;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::limits::FOLDER_ENTRIES_MAX;
use crate::maps::Mapping;
use crate::{Error, pattern};

pub use crate::resolve::loadable::{Walk, library_folders};
pub(crate) use crate::resolve::root::canonical;
pub use crate::resolve::root::inside;

/// Where to look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// `/`, or `/proc/PID/root` for a process in another mount namespace or chroot.
    pub root: PathBuf,
    /// `$PATH`; `None` means the default of execvp(3), `/bin:/usr/bin`.
    pub path_env: Option<OsString>,
    /// Where relative paths begin, as a path inside the root.
    pub cwd: PathBuf,
}

/// The file that `name` means, as a path that the caller can open (it begins with the root).
pub fn binary(name: &str, places: &Places) -> Result<PathBuf, Error> {
    if name.is_empty() {
        return Err(Error::EmptyName);
    }
    if name.contains('/') {
        return by_path(name, places);
    }
    let mut searched = Vec::new();
    let found = if looks_like_library(name) {
        library::find(name, places, &mut searched).or_else(|| in_path(name, places, &mut searched))
    } else {
        in_path(name, places, &mut searched).or_else(|| library::find(name, places, &mut searched))
    };
    found.ok_or_else(|| {
        let known = library::known(places).into_iter().chain(programs(places));
        let here = place_in_cwd(name, places);
        let near = if here.is_empty() { near(name, known) } else { here };
        Error::NoBinary { name: name.into(), searched, near }
    })
}

/// The library or program that a process has mapped under this name: a short name as [`binary`] takes it (`libc`,
/// `libssl.so.3`, `redis-server`). It finds what the process's own search found (RPATH, LD_LIBRARY_PATH, dlopen).
pub fn mapped<'a>(name: &str, maps: &'a [Mapping]) -> Option<&'a Mapping> {
    let file = |m: &'a Mapping| Path::new(&m.path).file_name().and_then(|n| n.to_str());
    let named = |test: &dyn Fn(&str) -> bool| {
        maps.iter().find(|m| m.execute && m.inode != 0 && file(m).is_some_and(test))
    };
    named(&|n| n == name).or_else(|| named(&|n| library::is_short_name_of(name, n)))
}

fn looks_like_library(name: &str) -> bool {
    name.starts_with("lib") || name.starts_with("ld-") || name.contains(".so")
}

fn by_path(name: &str, places: &Places) -> Result<PathBuf, Error> {
    let path = if name.starts_with('/') { PathBuf::from(name) } else { places.cwd.join(name) };
    match root::canonical(&places.root, &path) {
        Err(Error::NoFile { .. }) => Err(match leads_to(&path, places) {
            Some(to) => Error::NowhereLink { path, to },
            None => Error::NoFile { near: near_files(&path, places), path },
        }),
        other => other,
    }
}

/// The path that was meant when it was mapped: of the folder without links, and for a link to a file that has been deleted
/// (`/proc/PID/exe`) where that was. The file itself need not be there.
pub fn as_mapped(name: &str, places: &Places) -> Option<PathBuf> {
    let path = if name.starts_with('/') { PathBuf::from(name) } else { places.cwd.join(name) };
    if let Some(to) = leads_to(&path, places) {
        return Some(PathBuf::from(to.to_str()?.strip_suffix(" (deleted)").unwrap_or(to.to_str()?)));
    }
    let folder = root::canonical(&places.root, path.parent()?).ok()?;
    Some(inside(&places.root, &folder).join(path.file_name()?))
}

/// What the link at `path` says, if it is one.
fn leads_to(path: &Path, places: &Places) -> Option<PathBuf> {
    let folder = root::canonical(&places.root, path.parent()?).ok()?;
    std::fs::read_link(folder.join(path.file_name()?)).ok()
}

/// Files of the folder of `path` whose names are near to its own.
fn near_files(path: &Path, places: &Places) -> Vec<String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
        return Vec::new();
    };
    let Ok(real) = root::canonical(&places.root, folder) else { return Vec::new() };
    let near = near(name, names(&real).into_iter());
    near.into_iter().map(|n| folder.join(n).display().to_string()).collect()
}

/// The first executable file of this name in `$PATH`.
fn in_path(name: &str, places: &Places, searched: &mut Vec<String>) -> Option<PathBuf> {
    searched.push("$PATH".into());
    path_folders(places).into_iter().find_map(|folder| {
        let path = root::canonical(&places.root, &folder.join(name)).ok()?;
        let metadata = std::fs::metadata(&path).ok()?;
        (metadata.is_file() && metadata.mode() & 0o111 != 0).then_some(path)
    })
}

fn path_folders(places: &Places) -> Vec<PathBuf> {
    let default = OsString::from("/bin:/usr/bin");
    let path = places.path_env.as_ref().unwrap_or(&default);
    // An empty element means the current folder.
    std::env::split_paths(path).map(|folder| places.cwd.join(folder)).collect()
}

/// `./name`, if the current folder has it: a shell does not look there either.
fn place_in_cwd(name: &str, places: &Places) -> Vec<String> {
    match root::canonical(&places.root, &places.cwd.join(name)) {
        Ok(path) if path.is_file() => vec![format!("./{name}")],
        _ => Vec::new(),
    }
}

/// Every name in the folders of `$PATH`.
fn programs(places: &Places) -> Vec<String> {
    let folders = path_folders(places);
    folders.iter().filter_map(|f| root::canonical(&places.root, f).ok()).flat_map(|f| names(&f)).collect()
}

/// The names in a folder, sorted; none where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(FOLDER_ENTRIES_MAX)
        .filter_map(|e| std::str::from_utf8(e.ok()?.file_name().as_bytes()).ok().map(String::from))
        .collect();
    names.sort_unstable();
    names
}

fn near(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = known.collect();
    known.sort_unstable();
    known.dedup();
    pattern::near_misses(name, known.iter().map(String::as_str))
}
