//! Which processes are instrumented: they load LTTng-UST or weir's library of logging; and by which file that is seen.
//!
//! In: the folders of libraries, what a process maps. Out: files, and whether one of them is mapped. Programs with LTTng-UST 2.13 and newer have its library, and no others;
//! those whose records of loggers are events have weir's (docs/logging.md), which they load while they run.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use weir_probe::target;
use weir_symbols::FileIdentity;
use weir_symbols::resolve::{Places, library_folders};

/// Without the number of its interface. Of the libraries of LTTng-UST one of the last that the dynamic linker opens, when it has mapped most others.
const LIBRARY: &str = "liblttng-ust-common.so";

/// Records of Python's and Java's loggers as events.
const LOGGING: &str = "libweir-logging.so";

/// The files of that library on this machine, each once.
pub fn lttng_libraries(places: &Places) -> Vec<PathBuf> {
    let mut found: Vec<((u64, u64), PathBuf)> = Vec::new();
    for folder in library_folders(places) {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_it = entry.file_name().to_string_lossy().starts_with(LIBRARY);
            if let (true, Ok(file)) = (is_it, fs::metadata(&path)) {
                let identity = (file.dev(), file.ino());
                if !found.iter().any(|(known, _)| *known == identity) {
                    found.push((identity, path));
                }
            }
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

/// Whether a process has loaded LTTng-UST or weir's library of logging.
pub fn is_instrumented(pid: i32) -> bool {
    mapped(pid, &[LIBRARY, LOGGING]).is_some()
}

/// LTTng-UST's library as a process maps it: which file, and its path from here.
pub fn mapped_lttng_library(pid: i32) -> Option<(FileIdentity, PathBuf)> {
    mapped(pid, &[LIBRARY])
}

/// The first file that a process maps whose name begins with one of these.
fn mapped(pid: i32, libraries: &[&str]) -> Option<(FileIdentity, PathBuf)> {
    let begins = |name: &str| libraries.iter().any(|library| name.starts_with(library));
    let is_it = |path: &str| path.rsplit('/').next().is_some_and(begins);
    let mappings = target::read_mappings(pid).ok()?;
    let mapping = mappings.into_iter().find(|mapping| is_it(&mapping.path))?;
    let inside = mapping.path.trim_start_matches('/');
    Some((mapping.identity(), target::root(pid).join(inside)))
}
