//! Symbolic links followed inside a root, as chroot(2) would.
//!
//! In: a root and a path inside it. Out: the path without links and dots, with the root before it. `..` stops at the
//! root. The result names a file at the time of the call; a hostile owner of the root can exchange it later, so what
//! is opened is to be compared by identity with what is probed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::Error;
use crate::limits::{COMPONENTS_MAX, LINKS_MAX};

/// The file that `path` means inside `root`; `Error::NoFile` if there is none.
pub(crate) fn canonical(root: &Path, path: &Path) -> Result<PathBuf, Error> {
    let mut todo: VecDeque<OsString> = VecDeque::new();
    // Components below the root, without links.
    let mut done: Vec<OsString> = Vec::new();
    push(&mut todo, path);
    let (mut links, mut components) = (0, 0);
    while let Some(name) = todo.pop_front() {
        components += 1;
        if components > COMPONENTS_MAX {
            return Err(Error::LinkLoop { path: path.to_path_buf(), max: LINKS_MAX });
        }
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(name);
        let here = join(root, &done);
        let metadata = fs::symlink_metadata(&here).map_err(|e| fault(path, "lstat", e))?;
        if !metadata.is_symlink() {
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Error::LinkLoop { path: path.to_path_buf(), max: LINKS_MAX });
        }
        let target = fs::read_link(&here).map_err(|e| fault(path, "readlink", e))?;
        done.pop();
        if target.is_absolute() {
            done.clear();
        }
        push(&mut todo, &target);
    }
    Ok(join(root, &done))
}

/// The path that a process with this root sees, for one that `binary` gave.
pub fn inside(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(rest) => Path::new("/").join(rest),
        Err(_) => path.to_path_buf(),
    }
}

/// Puts the components of `path` before all others.
fn push(todo: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => todo.push_front(name.to_os_string()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn join(root: &Path, names: &[OsString]) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(names);
    path
}

fn fault(path: &Path, call: &'static str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NoFile { path: path.to_path_buf(), near: Vec::new() }
        }
        _ => Error::Io { path: path.to_path_buf(), call, source },
    }
}
