//! What an administrator allows: who may trace what, whether scripts may read memory, and what a run may cost.
//!
//! In: a policy's text ([`parse()`]), as files hold it ([`mod@file`]); who calls, what is to be traced, and what the verified
//! programs do ([`Needs`]). Out: the budget that holds, or a [`Denial`]. Rules are alternatives: the first that allows all of
//! it counts. Root is bound by no rule, but by the default budget. Where several policies hold, each has to allow it, and the
//! stricter of each part of their budgets holds. Deliberately not done: looking at processes or users, which come in as values.

pub mod file;
mod parse;

use std::fmt;
use std::path::PathBuf;

use weir_ebpf::helper::{self, Access};
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::{Insn, kfunc};
use weir_probe::Forbidden;
use weir_source::printable;
use weir_symbols::pattern;
use weir_verifier::VerifiedProgram;

use crate::budget::Budget;
pub use crate::policy::parse::parse;

/// The policy of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// As messages show it: the file's path.
    pub name: String,
    /// What holds where a rule says nothing else, and for root.
    pub default: Budget,
    /// None: everybody may trace what the kernel lets them.
    pub rules: Option<Vec<Rule>>,
    /// Whether runs are noted.
    pub audit: Audit,
    /// Where the audit's lines go instead of the system's log.
    pub audit_socket: Option<PathBuf>,
}

/// Whether a run is to be noted in the system's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Audit {
    /// Nothing is noted.
    Off,
    /// It is noted if that is possible.
    #[default]
    Wanted,
    /// Nothing is traced that could not be noted.
    Required,
}

/// One `[[allow]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Where it stands in the file, from 1.
    pub line: usize,
    /// Whom it allows something.
    pub users: Vec<Who>,
    /// The same by their groups.
    pub groups: Vec<Who>,
    /// Patterns of systemd's units.
    pub units: Vec<String>,
    /// Patterns of the paths of executables.
    pub programs: Vec<String>,
    /// Programs may read the memory of the process.
    pub reads_memory: bool,
    /// Programs may change what the process does.
    pub changes_process: bool,
    /// What a run may cost.
    pub budget: Budget,
}

/// A user or a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// By name.
    Name(String),
    /// By number.
    Id(u32),
}

impl Who {
    fn is(&self, account: &Account) -> bool {
        match self {
            Who::Name(name) => account.name.as_ref() == Some(name),
            Who::Id(id) => account.id == *id,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Name(name) => f.write_str(&printable(name)),
            Who::Id(id) => write!(f, "{id}"),
        }
    }
}

/// A user or a group as the system knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The system's number.
    pub id: u32,
    /// Not every number has one.
    pub name: Option<String>,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} ({})", printable(name), self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// Who runs weir: the real user, and the groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The real user.
    pub user: Account,
    /// Those of weir's process.
    pub groups: Vec<Account>,
}

impl Caller {
    fn is_root(&self) -> bool {
        self.user.id == 0
    }
}

/// What is to be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The process.
    pub pid: i32,
    /// Its executable's path, in its own root.
    pub program: String,
    /// The unit of the system's manager that it belongs to.
    pub unit: Option<String>,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit.as_deref().map(printable).unwrap_or_else(|| "of no unit".into());
        write!(f, "process {} ({}, {unit})", self.pid, printable(&self.program))
    }
}

/// What programs do to a process beside counting, and which call of which program shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// What shows that memory of the process is read.
    pub reads_memory: Option<String>,
    /// What shows that something of the process is changed.
    pub changes_process: Option<String>,
}

impl Needs {
    /// Of all that runs in the process, by the helpers and kernel functions that it calls: code has no other way to memory that is
    /// not its own, or the verifier would have refused it. An argument that a static probe keeps in memory is read in the same way.
    pub fn of(programs: &[VerifiedProgram]) -> Needs {
        let first = |is_meant: fn(Access) -> bool| {
            let in_process = programs.iter().filter(|program| program.kind().is_probe());
            in_process.filter_map(|program| first_call(program, |callee| is_meant(callee.access()))).next()
        };
        Needs { reads_memory: first(|access| access.reads), changes_process: first(|access| access.changes) }
    }
}

/// What an instruction calls outside of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// A helper, by the kernel's number.
    Helper(helper::HelperId),
    /// A kernel function.
    Kernel(kfunc::KfuncId),
}

impl Callee {
    /// What the instruction calls, if it calls something outside of its program.
    pub fn of(insn: &Insn) -> Option<Callee> {
        let is_call = insn.opcode == class::JMP | jmp::CALL;
        match insn.src {
            pseudo::HELPER if is_call => Some(Callee::Helper(insn.imm)),
            pseudo::KERNEL if is_call => Some(Callee::Kernel(insn.imm)),
            _ => None,
        }
    }

    fn access(self) -> Access {
        match self {
            Callee::Helper(id) => helper::access(id),
            Callee::Kernel(id) => kfunc::access(id),
        }
    }

    fn name(self) -> String {
        let (name, id) = match self {
            Callee::Helper(id) => (helper::kernel_name(id), id),
            Callee::Kernel(id) => (kfunc::name(id), id),
        };
        name.map_or_else(|| id.to_string(), str::to_owned)
    }
}

/// The first call of a program that is meant, in words.
pub fn first_call(program: &VerifiedProgram, is_meant: impl Fn(Callee) -> bool) -> Option<String> {
    let callee = program.insns().iter().filter_map(Callee::of).find(|&callee| is_meant(callee))?;
    Some(format!("{} calls {}", printable(program.name()), callee.name()))
}

/// Why a run is not allowed: one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denial(String);

impl Denial {
    /// What is said where a weir with capabilities has no rules.
    pub const UNRULED: &str = "weir has a capability that its user lacks, and /etc/weir/policy.toml has no rules for what it may be used for";

    /// What only a capability of weir's makes possible, and no rule allows.
    pub fn unruled(caller: &Caller, subject: &Subject, forbidden: &Forbidden) -> Denial {
        let reason = match forbidden {
            Forbidden::OtherUser { theirs, .. } => format!("it runs as user {theirs}"),
            _ => "without a capability the kernel does not let them".to_owned(),
        };
        Denial(format!("user {} may not trace {subject}: {reason}; {}", caller.user, Denial::UNRULED))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Policy {
    /// What a run may cost, if `caller` may trace `subject` with programs that do what `needs` says.
    pub fn judge(&self, caller: &Caller, subject: &Subject, needs: &Needs) -> Result<Budget, Denial> {
        let Some(rules) = self.rules.as_ref().filter(|_| !caller.is_root()) else { return Ok(self.default) };
        let allows = |rule: &&Rule| rule.covers(subject) && rule.lacks(needs).is_none();
        match rules.iter().filter(|rule| rule.is_for(caller)).find(allows) {
            Some(rule) => Ok(rule.budget.or(self.default)),
            None => Err(self.deny(rules, caller, subject, needs)),
        }
    }

    /// What it says of `caller`, in a line.
    pub fn summary(&self, caller: &Caller) -> String {
        let budget = |budget: Budget| match budget.to_string() {
            text if text.is_empty() => String::new(),
            text => format!(" within {text}"),
        };
        let name = printable(&self.name);
        let Some(rules) = self.rules.as_ref().filter(|_| !caller.is_root()) else {
            return format!("policy {name}: every process{}", budget(self.default));
        };
        let own: Vec<String> = rules
            .iter()
            .filter(|rule| rule.is_for(caller))
            .map(|rule| {
                let more = [(rule.reads_memory, " reading memory"), (rule.changes_process, " with unsafe")];
                let more: String = more.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
                format!("{}{more}{}", rule.what(), budget(rule.budget.or(self.default)))
            })
            .collect();
        let own = if own.is_empty() { "nothing".into() } else { own.join("; ") };
        format!("policy {name}: user {} may trace {own}", caller.user)
    }

    fn deny(&self, rules: &[Rule], caller: &Caller, subject: &Subject, needs: &Needs) -> Denial {
        let name = printable(&self.name);
        let own: Vec<&Rule> = rules.iter().filter(|rule| rule.is_for(caller)).collect();
        let covering = own.iter().find(|rule| rule.covers(subject));
        let reason = match (covering.map(|rule| (rule, rule.lacks(needs))), &own[..]) {
            (Some((rule, Some((key, what)))), _) => {
                format!("the rule at {name}:{} does not say `{key} = true`, and {what}", rule.line)
            }
            (_, []) => format!("no rule of {name} is for that user or a group of theirs"),
            (_, own) => {
                let covered = own.iter().map(|rule| format!("{} ({name}:{})", rule.what(), rule.line));
                format!("the policy lets them trace {}", covered.collect::<Vec<_>>().join(", or "))
            }
        };
        let others = rules.iter().filter(|rule| rule.covers(subject) && rule.lacks(needs).is_none());
        let others: Vec<String> =
            others.map(|rule| format!("{} ({name}:{})", rule.whom(), rule.line)).collect();
        let others = if others.is_empty() { "root alone".into() } else { others.join(", ") + " and root" };
        let user = &caller.user;
        Denial(format!("user {user} may not trace {subject} so: {reason}; it is allowed to {others}"))
    }
}

impl Rule {
    fn is_for(&self, caller: &Caller) -> bool {
        let is_of_group = |who: &Who| caller.groups.iter().any(|group| who.is(group));
        self.users.iter().any(|who| who.is(&caller.user)) || self.groups.iter().any(is_of_group)
    }

    fn covers(&self, subject: &Subject) -> bool {
        let is_of_unit = |wanted: &String| {
            let unit = subject.unit.as_deref();
            unit.is_some_and(|unit| pattern::matches(wanted, unit) || unit == format!("{wanted}.service"))
        };
        self.units.iter().any(is_of_unit)
            || self.programs.iter().any(|wanted| path_matches(wanted, &subject.program))
    }

    /// What of `needs` it does not allow: its key, and what shows the need.
    fn lacks<'a>(&self, needs: &'a Needs) -> Option<(&'static str, &'a str)> {
        let reads = needs.reads_memory.as_deref().filter(|_| !self.reads_memory);
        let changes = needs.changes_process.as_deref().filter(|_| !self.changes_process);
        reads.map(|what| ("read_memory", what)).or(changes.map(|what| ("unsafe", what)))
    }

    fn what(&self) -> String {
        let part = |name: &str, patterns: &[String]| match patterns {
            [] => None,
            some => Some(format!("{name} {}", printable(&some.join(", ")))),
        };
        let parts = [part("units", &self.units), part("programs", &self.programs)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    fn whom(&self) -> String {
        let users = self.users.iter().map(|who| format!("user {who}"));
        let groups = self.groups.iter().map(|who| format!("group {who}"));
        users.chain(groups).collect::<Vec<_>>().join(", ")
    }
}

/// Whether all of `path` matches: a wildcard stays between two slashes, but for `*` alone, which is every program.
fn path_matches(wanted: &str, path: &str) -> bool {
    let (wanted_parts, parts) = (wanted.split('/'), path.split('/'));
    let is_as_deep = wanted_parts.clone().count() == parts.clone().count();
    wanted == "*"
        || is_as_deep && wanted_parts.zip(parts).all(|(wanted, part)| pattern::matches(wanted, part))
}

#[cfg(test)]
mod tests;
