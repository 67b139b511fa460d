//! running: a server of a bench, from its folder to its end.
//!
//! [`fresh_folder`] makes the folder that the server keeps everything in, [`Running::start`] comes back when the server answers.
//! Dropped, a [`Running`] asks the server to end with all of its processes, waits for that, and removes the folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use super::usage;
use crate::process::Guard;

/// How long a server may take to answer, and to end.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
pub(super) const POLL: Duration = Duration::from_millis(50);

/// A server that answers. Its folder is gone with it.
pub(super) struct Running {
    folder: Folder,
    process: Guard,
    /// Its other processes end with it only if it is asked by this one.
    ending: Signal,
}

impl Running {
    /// Starts a server and waits until `answers`.
    pub(super) fn start(
        command: &mut Command,
        folder: Folder,
        ending: Signal,
        mut answers: impl FnMut() -> Result<bool>,
    ) -> Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running { process: Guard::spawn(command)?, folder, ending };
        let end = Instant::now() + LIMIT;
        while !answers()? {
            let program = command.get_program().display();
            ensure!(Instant::now() < end, "{program} does not answer after {} s", LIMIT.as_secs());
            sleep(POLL);
        }
        Ok(running)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder.0
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The server and its children.
    pub(super) fn processes(&self) -> Result<Vec<i32>> {
        usage::family(self.pid())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.signal(self.ending);
        let _ = self.process.wait_within(LIMIT);
    }
}

/// A folder that is gone with this.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder of a bench's server, made anew.
pub(super) fn fresh_folder(name: &str) -> Result<Folder> {
    let folder = crate::workspace::target_folder("bench")?.join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(Folder(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_there_when_it_answers_and_gone_with_its_folder() {
        let mut asked = 0;
        let answers = || {
            asked += 1;
            Ok(asked == 3)
        };
        let folder = fresh_folder("test-answers").unwrap();
        let running = Running::start(Command::new("sleep").arg("600"), folder, Signal::SIGTERM, answers);
        let running = running.unwrap();
        let (folder, pid) = (running.folder().to_owned(), running.pid());
        assert!(folder.is_dir() && running.processes().unwrap() == [pid]);
        drop(running);
        assert!(!folder.exists() && !Path::new(&format!("/proc/{pid}")).exists());
        assert_eq!(asked, 3);
    }

    #[test]
    fn a_server_that_cannot_be_asked_leaves_no_folder() {
        let mut folder = PathBuf::new();
        let made = fresh_folder("test-fails").map(|made| {
            folder = made.path().to_owned();
            Running::start(Command::new("sleep").arg("600"), made, Signal::SIGTERM, || anyhow::bail!("no"))
        });
        assert!(made.unwrap().is_err() && !folder.exists());
    }
}
