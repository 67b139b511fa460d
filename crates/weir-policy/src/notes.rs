//! What the audit is told of one run: each process that it attaches to, each that it leaves, and each denial.
//!
//! In: the policies, who calls, the script. Out: lines ([`audit`]) in the system's log, or where a policy wants them: `attach` before
//! the process is touched, `detach` when nothing of weir's works in it any more, `end` where it has ended before that, `left`
//! where it could not be put back, `denied`. Guaranteed: what a policy requires to be noted and cannot be is refused before
//! it is done. The administrator's policy alone takes the audit away: another one can only ask for more. Deliberately not
//! done: refusing to detach, or to deny, since nobody was told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use weir_source::printable;

use crate::Error;
use crate::audit::{self, Line};
use crate::budget::Budget;
use crate::policy::file::SYSTEM_POLICY;
use crate::policy::{Audit, Caller, Denial, Policy, Subject};

/// What of a run is noted.
#[derive(Debug)]
pub struct Run<'a> {
    /// Its text, of which the digest is noted.
    pub script: &'a str,
    /// Their names.
    pub probes: &'a str,
    /// What cannot be noted is reported.
    pub is_verbose: bool,
    /// Takes that.
    pub warn: Warn,
}

/// Takes what somebody should know who runs it.
pub struct Warn(Box<dyn Fn(&str)>);

impl Warn {
    /// By a function that is called for each.
    pub fn with(take: impl Fn(&str) + 'static) -> Warn {
        Warn(Box::new(take))
    }
}

impl fmt::Debug for Warn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Warn")
    }
}

/// Writes the lines of the audit.
#[derive(Debug)]
pub struct Notes {
    logs: Vec<Log>,
    /// Who runs weir.
    who: Line,
    /// What they run.
    what: Line,
    is_verbose: bool,
    warn: Warn,
    /// Once is enough: what failed for one process fails for the next.
    is_told: Cell<bool>,
    /// Processes that were attached to and not left yet.
    held: RefCell<BTreeMap<i32, Held>>,
    /// Some of them could not be put back.
    is_stuck: Cell<bool>,
}

/// Where lines go.
#[derive(Debug)]
struct Log {
    /// Of a policy; else the system's.
    socket: Option<PathBuf>,
    /// The policy that does not let anything be traced which cannot be noted there.
    required_by: Option<String>,
}

/// A process that is traced.
#[derive(Debug)]
struct Held {
    /// Its part of a line.
    process: Line,
    /// With its number, its identity.
    start: Option<u64>,
}

impl Notes {
    /// An error where a policy requires the audit, and it cannot be written.
    pub fn new(policies: &[Policy], caller: &Caller, run: Run<'_>) -> Result<Notes, Error> {
        let notes = Notes {
            logs: logs(policies),
            who: who(caller),
            what: Line::default().with("script_sha256", sha256(run.script)).with("probes", run.probes),
            is_verbose: run.is_verbose,
            warn: run.warn,
            is_told: Cell::new(false),
            held: RefCell::default(),
            is_stuck: Cell::new(false),
        };
        // Known now, and not when the first process is held.
        let failed = |log: &Log| audit::reach(log.socket.as_deref()).err().map(|error| log.refusal(&error));
        let required = |log: &&Log| log.required_by.is_some();
        match notes.logs.iter().filter(required).find_map(failed) {
            Some(failure) => Err(failure),
            None => Ok(notes),
        }
    }

    /// Fails where it has to be noted and cannot be.
    pub fn attach(&self, subject: &Subject, budget: Budget) -> Result<(), Error> {
        let process = process(subject);
        let line = self.line("attach", &process).and(&self.what).with("budget", budget);
        // Another one may have had its number.
        self.detached(subject.pid);
        let failed = self.send(&line).into_iter().find(|(log, _)| log.required_by.is_some());
        if let Some((log, error)) = failed {
            return Err(log.refusal(&error));
        }
        let held = Held { process, start: start_of(subject.pid) };
        self.held.borrow_mut().insert(subject.pid, held);
        Ok(())
    }

    /// Nothing of weir's works there any more, or it has ended. It is noted once, and only of what was attached to.
    pub fn detached(&self, pid: i32) {
        if let Some(held) = self.held.borrow_mut().remove(&pid) {
            self.left(pid, &held, "detach");
        }
    }

    /// `event`: of a process that is still there.
    fn left(&self, pid: i32, held: &Held, event: &str) {
        let is_there = held.start.is_some() && start_of(pid) == held.start;
        let line = self.line(if is_there { event } else { "end" }, &held.process);
        self.send_of_course(&line.and(&self.what));
    }

    /// Those that are there and were not noted as detached could not be put back.
    pub fn stuck(&self) {
        self.is_stuck.set(true);
    }

    /// A policy has not allowed a process.
    pub fn denied(&self, subject: &Subject, denial: &Denial) {
        let line = self.line("denied", &process(subject)).and(&self.what).with("reason", denial);
        self.send_of_course(&line);
    }

    fn line(&self, event: &str, process: &Line) -> Line {
        Line::default().with("event", event).and(&self.who).and(process)
    }

    /// Something that is done in any case.
    fn send_of_course(&self, line: &Line) {
        for (_, error) in self.send(line).into_iter().filter(|(log, _)| log.required_by.is_some()) {
            (self.warn.0)(&unwritten(&error));
        }
    }

    /// The logs that did not take the line; those that may are told with -v.
    fn send(&self, line: &Line) -> Vec<(&Log, io::Error)> {
        let mut failed = Vec::new();
        for log in &self.logs {
            let Err(error) = audit::send(log.socket.as_deref(), line) else { continue };
            if self.is_verbose && log.required_by.is_none() && !self.is_told.replace(true) {
                (self.warn.0)(&unwritten(&error));
            }
            failed.push((log, error));
        }
        failed
    }
}

/// What is still held then has ended, or the run has failed, which puts back what it did; or that could not be done.
impl Drop for Notes {
    fn drop(&mut self) {
        let event = if self.is_stuck.get() { "left" } else { "detach" };
        self.held.take().iter().for_each(|(pid, held)| self.left(*pid, held, event));
    }
}

fn unwritten(error: &io::Error) -> String {
    format!("the audit could not be written: {error}")
}

impl Log {
    fn refusal(&self, error: &io::Error) -> Error {
        let policy = self.required_by.as_deref().unwrap_or(SYSTEM_POLICY);
        Error::Unavailable(format!(
            "{} requires an audit, and it could not be written ({error}), so nothing is traced: start what listens there \
             (rsyslog, systemd-journald), or let `audit_socket` of that file name another socket",
            printable(policy)
        ))
    }
}

/// Each once: the strictest holds. Without a policy of the administrator's, the system's log is told if it can be.
fn logs(policies: &[Policy]) -> Vec<Log> {
    let is_system = |policy: &&Policy| policy.name == SYSTEM_POLICY;
    let mut wanted: BTreeMap<Option<PathBuf>, Option<String>> = BTreeMap::new();
    if !policies.iter().any(|policy| is_system(&policy)) {
        wanted.insert(None, None);
    }
    for policy in policies.iter().filter(|policy| policy.audit != Audit::Off) {
        let required_by = wanted.entry(policy.audit_socket.clone()).or_default();
        if policy.audit == Audit::Required {
            required_by.get_or_insert_with(|| policy.name.clone());
        }
    }
    wanted.into_iter().map(|(socket, required_by)| Log { socket, required_by }).collect()
}

fn who(caller: &Caller) -> Line {
    let user = &caller.user;
    let line = Line::default().with("user", user.name.as_deref().unwrap_or("")).with("uid", user.id);
    match login() {
        Some(uid) => line.with("login_uid", uid),
        None => line,
    }
}

/// Who has logged in, whatever sudo and the like have made of them since.
fn login() -> Option<u32> {
    let text = fs::read_to_string("/proc/self/loginuid").ok()?;
    text.trim().parse().ok().filter(|uid| *uid != u32::MAX)
}

fn process(subject: &Subject) -> Line {
    let line = Line::default().with("pid", subject.pid).with("exe", &subject.program);
    let build_id = weir_symbols::regular::open(Path::new(&format!("/proc/{}/exe", subject.pid))).ok();
    match build_id.and_then(|file| weir_symbols::build_id_of(&file)) {
        Some(id) => line.with("build_id", hexadecimal(&id)),
        None => line,
    }
}

/// When process `pid` started, in clock ticks since boot.
fn start_of(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have anything in it (proc_pid_stat(5)); the state is the first word behind it.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let is_dead = words.next()? == "Z";
    words.nth(18)?.parse().ok().filter(|_| !is_dead)
}

fn sha256(text: &str) -> String {
    hexadecimal(&Sha256::digest(text))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // SANITY: writing to a string does not fail.
        write!(text, "{byte:02x}").expect("a string");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, audit: Audit, socket: Option<&str>) -> Policy {
        let (default, audit_socket) = (Budget::default(), socket.map(PathBuf::from));
        Policy { name: name.into(), default, rules: None, audit, audit_socket }
    }

    #[track_caller]
    fn check(policies: &[Policy], want: &[(Option<&str>, Option<&str>)]) {
        let found = logs(policies);
        let found: Vec<_> = found
            .iter()
            .map(|log| {
                let socket = log.socket.as_ref().map(|path| path.to_str().unwrap());
                (socket, log.required_by.as_deref())
            })
            .collect();
        assert_eq!(found, want);
    }

    #[test]
    fn the_administrators_policy_alone_takes_the_audit_away() {
        let own = |audit, socket| policy("own.toml", audit, socket);
        let system = |audit, socket| policy(SYSTEM_POLICY, audit, socket);
        let log = (None, None);
        check(&[], &[log]);
        check(&[own(Audit::Off, None)], &[log]);
        check(&[own(Audit::Wanted, Some("/s"))], &[log, (Some("/s"), None)]);
        check(&[own(Audit::Required, None)], &[(None, Some("own.toml"))]);
        check(&[system(Audit::Off, None)], &[]);
        check(&[system(Audit::Required, Some("/s"))], &[(Some("/s"), Some(SYSTEM_POLICY))]);
        let both = [system(Audit::Required, Some("/s")), own(Audit::Off, Some("/s"))];
        check(&both, &[(Some("/s"), Some(SYSTEM_POLICY))]);
        check(&[system(Audit::Off, None), own(Audit::Wanted, None)], &[log]);
    }

    #[test]
    fn a_script_is_known_by_what_sha256sum_prints() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), abc);
    }

    #[test]
    fn a_process_is_the_one_that_started_then() {
        let own = std::process::id() as i32;
        assert!(start_of(own).is_some_and(|start| start > 0));
        assert_eq!(start_of(own), start_of(own));
        assert_eq!(start_of(i32::MAX), None);
    }
}
