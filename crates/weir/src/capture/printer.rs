//! `--print`: tcpdump or tshark, which reads what is captured as pcapng and prints it.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, anyhow};

use crate::failure::Failure;

/// The program that prints.
pub(super) struct Printer {
    child: Child,
    name: &'static str,
}

/// Programs, and how each prints what it reads: packets as they come, numbers without names, which would ask the network.
const PROGRAMS: [(&str, &[&str]); 2] =
    [("tcpdump", &["-l", "-n", "-r", "-"]), ("tshark", &["-l", "-n", "-r", "-"])];

impl Printer {
    /// The first of them that is installed.
    pub(super) fn start() -> Result<Printer, Failure> {
        for (name, arguments) in PROGRAMS {
            let mut command = Command::new(name);
            // Ctrl-C is for weir: the printer ends when it has printed the last packet.
            command.args(arguments).stdin(Stdio::piped()).process_group(0);
            match command.spawn() {
                Ok(child) => return Ok(Printer { child, name }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Failure::Machine(anyhow!(error).context(format!("starting {name}"))));
                }
            }
        }
        let names = PROGRAMS.map(|(name, _)| name).join(" or ");
        Err(Failure::Machine(anyhow!("--print needs {names}, and neither is installed")))
    }

    /// Where it reads from, once.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits until it has printed all; what it is fed by is closed before.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let status = self.child.wait().with_context(|| format!("waiting for {}", self.name));
        let status = status.map_err(Failure::Machine)?;
        match status.success() || status.code().is_none() {
            // One that was ended by a signal has no reader any more, as a rule.
            true => Ok(()),
            false => Err(Failure::Machine(anyhow!("{} failed: {status}", self.name))),
        }
    }
}
