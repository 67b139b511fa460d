//! A program that waits to be told, and counts its calls of `foo` itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use testkit::{mapped, paths, target, wait};

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Threads {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Threads {
    /// Waits before its threads call `foo` so often each.
    pub(crate) fn start(threads: u32, calls: u32) -> Threads {
        let mut command = Command::new(target::program("threads"));
        command.args([threads.to_string(), calls.to_string(), "0".to_owned(), "wait".to_owned()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the target starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready "), "{line}");
        Threads { child, output }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn path() -> String {
        target::program("threads").display().to_string()
    }

    /// As an attach point has it: there may be blanks in it.
    pub(crate) fn quoted() -> String {
        paths::quoted(&target::program("threads"))
    }

    pub(crate) fn go(&mut self) {
        self.child.stdin.as_mut().expect("it is piped").write_all(b"\n").expect("it reads");
    }

    /// Nothing of weir's is mapped in it.
    #[track_caller]
    pub(crate) fn is_untouched(&self) {
        assert_eq!(mapped::of_weir_in(self.child.id()), Vec::<String>::new());
    }

    /// Its own count, once it has ended well.
    pub(crate) fn total(mut self) -> u64 {
        let status = wait::for_exit(&mut self.child, LIMIT).expect("it ends");
        assert!(status.success(), "{status}");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        total(&line)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a line like `total=N handler=N` counts.
pub(crate) fn total(line: &str) -> u64 {
    let number = line.trim().strip_prefix("total=").and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{line:?}"))
}
