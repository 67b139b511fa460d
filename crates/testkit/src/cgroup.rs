//! Cgroups for one test: of memory, of version 2 or 1, whichever has that controller here; and of version 2, with its number.
//!
//! Dropped, they are removed; the processes in it must have ended by then.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait;

/// Where the hierarchies are mounted, and the names of their files: limit, usage, kills for want of memory.
const KINDS: [(&str, [&str; 3]); 2] = [
    ("/sys/fs/cgroup", ["memory.max", "memory.current", "memory.events"]),
    ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"]),
];

/// A cgroup with a bound on memory.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    files: [&'static str; 3],
}

impl MemoryGroup {
    /// # Errors
    /// What prevents it: no hierarchy has the memory controller, or this user may not make groups.
    pub fn create(name: &str) -> io::Result<MemoryGroup> {
        let mut last =
            io::Error::new(io::ErrorKind::NotFound, "no cgroup hierarchy has the memory controller");
        for (root, files) in KINDS {
            let folder = Path::new(root).join(format!("weir-test-{name}-{}", std::process::id()));
            if let Err(error) = fs::create_dir(&folder) {
                last = error;
                continue;
            }
            let group = MemoryGroup { folder, files };
            if group.folder.join(files[0]).exists() {
                return Ok(group);
            }
        }
        Err(last)
    }

    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }

    /// Bytes that it may have.
    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        fs::write(self.folder.join(self.files[0]), bytes.to_string())
    }

    /// Bytes that it has.
    pub fn usage(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(self.files[1]))?;
        text.trim()
            .parse()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?}: {error}")))
    }

    /// Processes killed because it had no memory left.
    pub fn kills(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(self.files[2]))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// A cgroup of version 2.
#[derive(Debug)]
pub struct NumberedGroup {
    folder: PathBuf,
    /// As `/proc/PID/cgroup` shows it.
    pub path: String,
}

impl NumberedGroup {
    /// # Errors
    /// What prevents it: the hierarchy is not mounted, or this user may not make groups.
    pub fn create(name: &str) -> io::Result<NumberedGroup> {
        let path = format!("/weir-test-{name}-{}", std::process::id());
        let folder = hierarchy()?.join(&path[1..]);
        fs::create_dir(&folder)?;
        Ok(NumberedGroup { folder, path })
    }

    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }

    /// The inode of its folder.
    pub fn number(&self) -> u64 {
        fs::metadata(&self.folder).expect("it is there").ino()
    }
}

impl Drop for NumberedGroup {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// The number of the cgroup of version 2 that a process is in.
pub fn number_of(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let path = path.ok_or(io::ErrorKind::NotFound)?;
    Ok(fs::metadata(hierarchy()?.join(path))?.ino())
}

/// Where the hierarchy of version 2 is mounted.
fn hierarchy() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let point = line.and_then(|line| line.split(' ').nth(4));
    point.map(PathBuf::from).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup2 is mounted"))
}

fn remove(folder: &Path) {
    // A process that has ended is in it for a moment longer.
    wait::until(Duration::from_secs(60), || fs::remove_dir(folder).is_ok());
}
