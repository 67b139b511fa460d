//! Libraries that a process could load, by the folders that they lie in.
//!
//! In: a folder as the process names it. Out: the files in it that are named as libraries are and have static probes, as paths inside the root,
//! all links followed, each file once. Of a file only headers and section names are read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Places, inside, library, root};
use crate::binary;
use crate::limits::{WALK_DEPTH_MAX, WALK_ENTRIES_MAX};

/// The folders in which a loader looks for libraries: those of its cache, those of its configuration, and the default ones.
pub fn library_folders(places: &Places) -> Vec<PathBuf> {
    library::all_folders(places)
}

/// A look for libraries with static probes.
#[derive(Debug)]
pub struct Walk {
    found: BTreeSet<PathBuf>,
    /// How many entries may still be looked at.
    left: usize,
}

impl Walk {
    /// Through the files of `folder`, and with `is_deep` those of folders below it. What cannot be read has none.
    pub fn through(folder: &Path, is_deep: bool, places: &Places) -> BTreeSet<PathBuf> {
        let mut walk = Walk { found: BTreeSet::new(), left: WALK_ENTRIES_MAX };
        if let Ok(real) = root::canonical(&places.root, folder) {
            let depth = if is_deep { WALK_DEPTH_MAX } else { 1 };
            walk.folder(&real, depth, places);
        }
        walk.found
    }

    /// `real`: begins with the root, and has no links in it.
    fn folder(&mut self, real: &Path, depth: usize, places: &Places) {
        let Ok(entries) = fs::read_dir(real) else { return };
        for entry in entries.flatten() {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let Ok(kind) = entry.file_type() else { continue };
            // A link to a folder may lead back.
            if kind.is_dir() && depth > 1 {
                self.folder(&entry.path(), depth - 1, places);
            }
            let is_named = entry.file_name().to_str().is_some_and(|name| name.contains(".so"));
            if !is_named || kind.is_dir() {
                continue;
            }
            let path = inside(&places.root, &entry.path());
            if let Ok(file) = root::canonical(&places.root, &path)
                && !self.found.contains(&inside(&places.root, &file))
                && binary::has_static_probes(&file)
            {
                self.found.insert(inside(&places.root, &file));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_with_probes_are_found_once_and_inside_the_root() {
        let root = std::env::temp_dir().join(format!("weir-loadable-{}", std::process::id()));
        let folder = root.join("opt/app/plugins/codecs");
        fs::create_dir_all(&folder).unwrap();
        let source = root.join("a.s");
        // One note of type 3, and its probe.
        fs::write(
            &source,
            ".text\n.globl f\nf: 990: nop\nret\n.section .note.stapsdt,\"\",@note\n.balign 4\n.4byte 8,28,3\n.asciz \"stapsdt\"\n\
             .8byte 990b,0,0\n.byte 'p',0,'e',0\n.section .note.GNU-stack,\"\",@progbits\n",
        )
        .unwrap();
        let plain = root.join("b.s");
        fs::write(&plain, ".globl f\nf: ret\n.section .note.GNU-stack,\"\",@progbits\n").unwrap();
        let build = |source: &Path, to: &Path| {
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-shared", "-nostdlib", "-o"]).args([to, source]);
            assert!(compiler.status().unwrap().success());
        };
        build(&source, &folder.join("libplug.so.1"));
        build(&plain, &folder.join("libnone.so"));
        build(&source, &folder.join("named-otherwise"));
        std::os::unix::fs::symlink("/opt/app/plugins/codecs/libplug.so.1", folder.join("libplug.so"))
            .unwrap();
        // It leads back.
        std::os::unix::fs::symlink("/opt/app", folder.join("app")).unwrap();
        let places = Places { root: root.clone(), path_env: None, cwd: "/".into() };
        let found = |folder: &str, is_deep| Walk::through(Path::new(folder), is_deep, &places);
        let plug: BTreeSet<PathBuf> = ["/opt/app/plugins/codecs/libplug.so.1".into()].into();
        assert_eq!(found("/opt/app", true), plug);
        assert_eq!(found("/opt/app/plugins/codecs", false), plug);
        for (folder, is_deep) in [("/opt/app", false), ("/opt", true), ("/none", true)] {
            assert_eq!(found(folder, is_deep), BTreeSet::new(), "{folder}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
