//! Processes as `/proc` shows them: which there are, what each is called, who started it, when, in which cgroups.
//!
//! In: the folder that is `/proc` (a test gives another). Out: values of one moment; a process may be gone by the time
//! they are read, which is `None` and no error. Bytes that are not UTF-8 are replaced. Stops nothing, changes nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_symbols::procfs;

use crate::cgroup::{self, Membership};

/// Flag of threads of the kernel in `stat` (linux/sched.h, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Of processes that were forked and have executed nothing (PF_FORKNOEXEC).
const FORKED_ONLY: u64 = 0x40;

/// One process for good: the kernel gives its number to another one later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    /// Its number in the namespace of weir.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

/// What `stat` says of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Number and start, which no other process has.
    pub id: ProcessId,
    /// The number of its parent.
    pub parent: i32,
    /// The name of its main thread, of at most 15 bytes.
    pub comm: String,
    /// It is neither a thread of the kernel nor a zombie.
    pub has_program: bool,
}

/// All that `/proc` shows.
#[derive(Clone, Debug)]
pub struct Processes {
    root: PathBuf,
}

impl Processes {
    /// `root`: where the proc file system is mounted.
    pub fn at(root: &Path) -> Processes {
        Processes { root: root.to_owned() }
    }

    /// Every process that there is, in the order of their numbers.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        let mut pids = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                pids.push(pid);
            }
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// What there is of a process.
    pub(crate) fn folder_of(&self, pid: i32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    /// It has executed a program since it was forked.
    pub fn has_executed(&self, pid: i32) -> bool {
        let flags = self.text(pid, "stat").and_then(|text| {
            let (_, fields) = text.rsplit_once(") ")?;
            fields.split_whitespace().nth(6)?.parse::<u64>().ok()
        });
        flags.is_some_and(|flags| flags & FORKED_ONLY == 0)
    }

    /// The process that traces it (ptrace), if one does.
    pub fn tracer(&self, pid: i32) -> Option<i32> {
        let text = procfs::text(self.folder_of(pid).join("status")).ok()?;
        let tracer = text.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
        tracer.trim().parse().ok().filter(|tracer| *tracer > 0)
    }

    /// Its real, effective and saved group.
    pub fn groups(&self, pid: i32) -> Option<[u32; 3]> {
        self.ids(pid, "Gid:")
    }

    /// The user of a process; none of one that runs with the rights of another (set-user-ID).
    pub fn user(&self, pid: i32) -> Option<u32> {
        let [real, effective, saved] = self.users(pid)?;
        (real == effective && real == saved).then_some(real)
    }

    /// Its real, effective and saved user.
    pub fn users(&self, pid: i32) -> Option<[u32; 3]> {
        self.ids(pid, "Uid:")
    }

    fn ids(&self, pid: i32, row: &str) -> Option<[u32; 3]> {
        let text = procfs::text(self.folder_of(pid).join("status")).ok()?;
        let ids = text.lines().find_map(|line| line.strip_prefix(row))?;
        let ids: Vec<u32> = ids.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        ids.get(..3)?.try_into().ok()
    }

    /// The number that was given out last, to a process or a thread: while it stays the same, nothing has come.
    pub fn last_pid(&self) -> Option<u64> {
        let text = procfs::text(self.root.join("loadavg")).ok()?;
        text.split_whitespace().last()?.parse().ok()
    }

    /// None if there is no such process any more.
    pub fn process(&self, pid: i32) -> Option<Process> {
        parse_stat(pid, &self.text(pid, "stat")?)
    }

    /// The last part of the path of its executable, where that may be seen.
    pub fn executable_name(&self, pid: i32) -> Option<String> {
        let path = fs::read_link(self.root.join(pid.to_string()).join("exe")).ok()?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned))
    }

    /// One for each hierarchy.
    pub fn cgroups(&self, pid: i32) -> Vec<Membership> {
        self.text(pid, "cgroup").map_or_else(Vec::new, |text| cgroup::memberships(&text))
    }

    /// Where hierarchies of cgroups are mounted.
    pub fn cgroup_mounts(&self) -> Vec<cgroup::Mount> {
        let text = fs::read(self.root.join("self/mountinfo")).unwrap_or_default();
        cgroup::mounts(&String::from_utf8_lossy(&text))
    }

    fn text(&self, pid: i32, name: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(pid.to_string()).join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// `stat` of proc_pid_stat(5): the name stands in parentheses and may hold some itself, the numbers hold none.
fn parse_stat(pid: i32, text: &str) -> Option<Process> {
    let (before, fields) = text.rsplit_once(") ")?;
    let (_, comm) = before.split_once('(')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let (flags, threads, start) = (number(6)?, number(17)?, number(19)?);
    // A main thread that has ended by itself is a zombie while others of its process run.
    let is_dead = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
    Some(Process {
        id: ProcessId { pid, start },
        parent: fields.get(1)?.parse().ok()?,
        comm: comm.to_owned(),
        has_program: !is_dead && flags & KERNEL_THREAD == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_stat(text: &str, want: Option<(i32, &str, bool, u64)>) {
        let got = parse_stat(7, text);
        let got = got.map(|p| (p.parent, p.comm, p.has_program, p.id.start));
        assert_eq!(got, want.map(|(parent, comm, lives, start)| (parent, comm.to_owned(), lives, start)));
    }

    #[test]
    fn stat_is_read_whatever_the_name() {
        let rest = |state: &str, flags: u64, threads: u32| {
            format!("{state} 5 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0 0 0")
        };
        check_stat(&format!("7 (sh) {}", rest("S", 0x400000, 1)), Some((5, "sh", true, 4711)));
        check_stat(&format!("7 (a) Z 1 ( b) {}", rest("R", 0, 3)), Some((5, "a) Z 1 ( b", true, 4711)));
        check_stat(&format!("7 () {}", rest("R", 0, 1)), Some((5, "", true, 4711)));
        check_stat(&format!("7 (kthreadd) {}", rest("S", 0x208040, 1)), Some((5, "kthreadd", false, 4711)));
        check_stat(&format!("7 (gone) {}", rest("Z", 0, 1)), Some((5, "gone", false, 4711)));
        check_stat(&format!("7 (main ended) {}", rest("Z", 0, 2)), Some((5, "main ended", true, 4711)));
        check_stat("", None);
        check_stat("7 (sh) S 5", None);
        check_stat("7 (sh", None);
    }

    #[test]
    fn this_process_is_as_it_says() {
        let processes = Processes::at(Path::new("/proc"));
        let pid = std::process::id() as i32;
        let own = processes.process(pid).unwrap();
        assert!(own.has_program && own.id.pid == pid);
        assert_eq!(own.parent, nix::unistd::getppid().as_raw());
        assert!(processes.pids().unwrap().contains(&pid));
        let exe = std::env::current_exe().unwrap();
        assert_eq!(processes.executable_name(pid).unwrap(), *exe.file_name().unwrap().to_string_lossy());
        assert!(processes.last_pid().is_some_and(|last| last > 0));
    }
}
