//! Processes of sessions: weir's own executable, whether another one still lives, what a daemon has inherited.

use std::fs;
use std::path::{Path, PathBuf};

use weir_process::processes::{ProcessId, Processes};

/// This weir, for a process that is to be another one: by its path, which `ps` shows, where that is this file still.
pub(crate) fn executable() -> PathBuf {
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

/// When a process started; none if there is none, or it has ended.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    let process = Processes::at(Path::new("/proc")).process(pid)?;
    process.has_program.then_some(process.id.start)
}

pub(crate) fn is_alive(id: ProcessId) -> bool {
    start_of(id.pid) == Some(id.start)
}

/// Closes all but standard input, output and error: what a daemon kept open of who started it, others would wait for.
pub(crate) fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one that was read is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
