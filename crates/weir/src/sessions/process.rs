//! Processes of sessions: weir's own executable, and what a daemon has inherited.

use std::fs;
use std::path::{Path, PathBuf};

/// This weir, for a process that is to be another one: by its path, which `ps` shows, where that is this file still.
pub(super) fn executable() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    match std::env::current_exe() {
        Ok(path) if is_same(&path, &own) => path,
        _ => own,
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    id(a).is_some() && id(a) == id(b)
}

/// Closes all but standard input, output and error: what a daemon kept open of who started it, others would wait for.
pub(super) fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one that was read is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
