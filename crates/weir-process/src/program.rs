//! A program as a user runs it: what of a process decides which files it has from its start on.
//!
//! In: `/proc`. Out: a [`Program`]; two processes of one have the same events to record, but for libraries that they load later.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use crate::processes::Processes;

/// Bytes of a process's variables that are looked at, and of one of them: a process may say what it likes.
const ENVIRONMENT_MAX: u64 = 256 << 10;
const VALUE_MAX: usize = 4096;

/// What processes execute, with what they preload.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Program {
    /// The path of its file, as its processes have it.
    pub path: String,
    /// The device that its file is on.
    pub device: u64,
    /// The number of its file there.
    pub inode: u64,
    /// The effective user.
    pub user: u32,
    /// `LD_PRELOAD`.
    pub preload: String,
    /// `LD_LIBRARY_PATH`.
    pub ld_library_path: String,
}

impl Program {
    /// Of a process; none where it has ended, or may not be looked at.
    pub fn of(pid: i32, processes: &Processes) -> Option<Program> {
        let link = processes.folder_of(pid).join("exe");
        let (path, file) = (fs::read_link(&link).ok()?, fs::metadata(&link).ok()?);
        let path = path.to_string_lossy().into_owned();
        let mut environment = Vec::new();
        let variables = fs::File::open(processes.folder_of(pid).join("environ")).ok()?;
        variables.take(ENVIRONMENT_MAX).read_to_end(&mut environment).ok()?;
        let value = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            let value = variables.find_map(|variable| variable.strip_prefix(name.as_bytes()));
            let value = value.unwrap_or_default();
            String::from_utf8_lossy(&value[..value.len().min(VALUE_MAX)]).into_owned()
        };
        Some(Program {
            path: path.strip_suffix(" (deleted)").map_or(path.clone(), str::to_owned),
            device: file.dev(),
            inode: file.ino(),
            user: processes.users(pid)?[1],
            preload: value("LD_PRELOAD="),
            ld_library_path: value("LD_LIBRARY_PATH="),
        })
    }

    /// The same file, run in the same way, by whatever path.
    pub fn is_like(&self, other: &Program) -> bool {
        Program { path: self.path.clone(), ..other.clone() } == *self
    }

    /// Whether a process is one of this program.
    pub fn is_of(&self, pid: i32, processes: &Processes) -> bool {
        let file = fs::metadata(processes.folder_of(pid).join("exe"));
        let is_file = file.is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode));
        is_file && Program::of(pid, processes).is_some_and(|other| self.is_like(&other))
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_process_is_of_the_program_that_it_executes() {
        let processes = Processes::at(Path::new("/proc"));
        let own = std::process::id() as i32;
        let program = Program::of(own, &processes).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(
            (&program.path[..], program.name()),
            (exe.to_str().unwrap(), exe.file_name().unwrap().to_str().unwrap())
        );
        assert!(program.is_of(own, &processes));
        let others = [
            Program { inode: program.inode + 1, ..program.clone() },
            Program { user: program.user + 1, ..program.clone() },
            Program { preload: "other.so".to_owned(), ..program.clone() },
        ];
        assert!(others.iter().all(|other| !other.is_of(own, &processes)));
        assert_eq!(Program::of(i32::MAX, &processes), None);
    }
}
