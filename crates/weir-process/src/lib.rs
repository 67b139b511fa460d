//! Which processes a run is about: what the user wrote, held against the processes that there are.
//!
//! ```text
//! args ──▶ Selection (numbers · rules · follow) ──▶ watch ──▶ processes to trace, as they come
//!              ▲ cgroup, container: what names mean      ▲ processes: what /proc shows
//! ```
//!
//! In: [`Given`] words, the machine's files. Out: a [`Selection`], or every reason why it is none: a cgroup, unit or
//! container that is not there is refused, since it was written wrongly, or is on another machine. A name that no process has
//! yet is waited for. Names, cgroups, units and containers are *standing*: processes that start later belong to them too.
//! Deliberately not done: tracing, printing, asking the clock.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod container;
pub mod enrol;
pub mod groups;
pub mod processes;
pub mod program;
pub mod tracked;
pub mod users;
pub mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weir_symbols::pattern;

use crate::cgroup::Group;
use crate::container::Container;
use crate::processes::{Process, Processes};
use crate::program::Program;
use crate::tracked::{Attributes, Tracked};
use crate::users::Users;

/// Folders of systemd's units (systemd.unit(5)).
const UNIT_FOLDERS: [&str; 6] = [
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/transient",
    "run/systemd/generator",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// How many of the parents of a process are looked at for their users.
const FAMILY_MAX: usize = 16;

/// What `-p` takes: the number of a process, or a pattern of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessSpec {
    /// This process alone.
    Pid(i32),
    /// Of its command (`comm`), or of the file that it executes.
    Name(String),
}

impl FromStr for ProcessSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ProcessSpec, String> {
        if text.is_empty() {
            return Err("a process is given by its number or its name, and this is empty".into());
        }
        if text.contains('/') {
            return Err("a process is given by its number, or the name of its program without a path".into());
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(ProcessSpec::Name(text.to_owned()));
        }
        match text.parse() {
            Ok(pid) if pid > 0 => Ok(ProcessSpec::Pid(pid)),
            _ => Err(format!("numbers of processes are from 1 to {}", i32::MAX)),
        }
    }
}

/// Whether processes are traced that traced ones start, and from when on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Follow {
    /// Children are not traced.
    #[default]
    No,
    /// From their first call on: they are held until they are attached to.
    Held,
    /// From when they are found on: nobody is held.
    Late,
}

impl FromStr for Follow {
    type Err = String;

    /// How children are followed, if they are.
    fn from_str(how: &str) -> Result<Follow, String> {
        match how {
            "held" => Ok(Follow::Held),
            "late" => Ok(Follow::Late),
            _ => Err(format!("children are followed `held` or `late`, not `{how}`")),
        }
    }
}

impl Follow {
    /// Children are traced, in one way or the other.
    pub fn is_on(self) -> bool {
        self != Follow::No
    }

    /// The option, if it is one.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Follow::No => None,
            Follow::Held => Some("--follow"),
            Follow::Late => Some("--follow=late"),
        }
    }
}

/// Whose processes are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Of the user who runs weir.
    Own,
    /// Of this user.
    User(u32),
    /// Of every user.
    Any,
}

impl FromStr for Whose {
    type Err = String;

    fn from_str(text: &str) -> Result<Whose, String> {
        match (text, text.parse()) {
            ("own", _) => Ok(Whose::Own),
            ("any", _) => Ok(Whose::Any),
            (_, Ok(user)) => Ok(Whose::User(user)),
            _ => Err(format!("`{}` is not `own`, `any` or the number of a user", text.escape_debug())),
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Own => f.write_str("own"),
            Whose::User(user) => write!(f, "{user}"),
            Whose::Any => f.write_str("any"),
        }
    }
}

/// What the user wrote.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Numbers and names.
    pub processes: &'a [ProcessSpec],
    /// Control groups, by their folder or by the path that `/proc/PID/cgroup` has.
    pub cgroups: &'a [String],
    /// Units of systemd.
    pub units: &'a [String],
    /// Names or ids of containers.
    pub containers: &'a [String],
    /// What is done about children.
    pub follow: Follow,
    /// Also processes of other users than the first one.
    pub any_user: bool,
}

/// Where a machine's files are: the roots of other trees in tests.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/`, where files of units and of containers' runtimes are looked for.
    pub root: PathBuf,
    /// Where rootless containers are looked for (podman's); none: nowhere.
    pub home: Option<PathBuf>,
}

impl Machine {
    /// The one that this process runs on. `home`: of its user.
    pub fn here(home: Option<PathBuf>) -> Machine {
        Machine { proc: "/proc".into(), root: "/".into(), home }
    }
}

/// Which processes are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// By number, each once.
    pub pids: Vec<i32>,
    /// A process that one of them selects is of the run.
    pub rules: Vec<Rule>,
    /// With the processes that they start.
    pub follow: Follow,
    /// Whose processes names select.
    pub users: Users,
}

/// What later processes are selected by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Every process but the first of the machine: those that map what is probed are traced.
    Any,
    /// A pattern of names.
    Name(String),
    /// A control group, with the groups below it.
    Cgroup {
        /// As it was given.
        given: String,
        /// What that means here.
        group: Group,
    },
    /// The name of a unit.
    Unit(String),
    /// A container, by the cgroups of its processes.
    Container {
        /// As it was given.
        given: String,
        /// What that means here.
        container: Container,
    },
    /// A program, of a user and with what it preloads.
    Program {
        /// Which one.
        program: Program,
        /// Of its processes those that are in these sets.
        tracked: Tracked,
    },
}

/// How a process came to be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// By its number.
    Given,
    /// weir started it.
    Command,
    /// It maps what is probed.
    Any,
    /// By a rule: what it is called, and what it says.
    Rule(&'static str, String),
    /// It is a child of a process that is traced.
    ChildOf(i32),
    /// A child of a traced process that has ended.
    Orphan,
    /// It was traced, and has executed another program.
    Exec,
    /// It was traced, and another recording has had it meanwhile.
    Again,
}

impl Selection {
    /// The first rule that selects `process`.
    pub fn rule_for(&self, process: &Process, processes: &Processes) -> Option<&Rule> {
        let is_name = |rule: &Rule| matches!(rule, Rule::Name(_));
        let mut selecting = self.rules.iter().filter(|rule| rule.selects(process, processes));
        let first = selecting.next()?;
        if *first == Rule::Any {
            let is_meant = || processes.user(process.id.pid).is_some_and(|user| self.users.has(user));
            return (self.users.are_all() || is_meant()).then_some(first);
        }
        if !is_name(first) || self.has_user(process, processes) {
            return Some(first);
        }
        let other = selecting.find(|rule| !is_name(rule));
        if let (None, Some(users)) = (other, processes.users(process.id.pid)) {
            self.users.leave_out(process, users[0]);
        }
        other
    }

    /// Whether a process that a name selects is of a user who is meant, or has been started by one that is.
    fn has_user(&self, process: &Process, processes: &Processes) -> bool {
        if self.users.are_all() {
            return true;
        }
        // By its file: a user can have su or sudo run under any name, and it is root's then.
        let has_file = |process: &Process| {
            let name = processes.executable_name(process.id.pid);
            name.is_some_and(|called| self.names().any(|name| is_called(&called, name)))
        };
        let parent = |process: &Process| processes.process(process.parent).filter(has_file);
        let family: Vec<Process> =
            std::iter::successors(Some(process.clone()), parent).take(FAMILY_MAX).collect();
        // The eldest first: of it the first user is taken.
        let users = family.iter().rev().filter_map(|process| processes.user(process.id.pid));
        users.into_iter().any(|user| self.users.has(user))
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.rules.iter().filter_map(|rule| match rule {
            Rule::Name(name) => Some(name),
            _ => None,
        })
    }

    fn is_named(&self, process: &Process, processes: &Processes) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Name(_)) && rule.selects(process, processes))
    }

    /// Has names select the processes of one user alone: those that are given, root's, or whose process has started first.
    pub fn of_one_user(mut self, processes: &Processes) -> Selection {
        self.users = Users::one();
        self.pids.iter().filter_map(|&pid| processes.user(pid)).for_each(|user| self.users.add(user));
        if self.names().next().is_none() {
            return self;
        }
        let pids = processes.pids().unwrap_or_default().into_iter();
        let named =
            pids.filter_map(|pid| processes.process(pid)).filter(|process| self.is_named(process, processes));
        let first = named.filter_map(|process| Some((processes.user(process.id.pid)?, process.id.start)));
        // Root's before all others.
        if let Some((user, _)) = first.min_by_key(|(user, start)| (*user != 0, *start)) {
            self.users.add(user);
        }
        self
    }

    /// Every process that maps what is probed is of the run: those of `user`, if one is given. `holds`: they are held until they are attached to,
    /// where that can be, else found when they run.
    pub fn of_any(mut self, user: Option<u32>, holds: bool) -> Selection {
        self.rules.push(Rule::Any);
        if !holds {
            self.follow = Follow::Late;
        }
        if let Some(user) = user {
            self.users = Users::one();
            self.users.add(user);
        }
        self
    }

    /// Every process of `program` is of the run, if it is in these sets.
    pub fn of_program(mut self, program: Program, tracked: Tracked) -> Selection {
        self.rules.push(Rule::Program { program, tracked });
        self
    }

    /// Every mistake at once.
    pub fn find(given: &Given, machine: &Machine) -> Result<Selection, Vec<String>> {
        let (mut pids, mut rules, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for process in given.processes {
            match process {
                ProcessSpec::Pid(pid) if pids.contains(pid) => {}
                ProcessSpec::Pid(pid) => pids.push(*pid),
                ProcessSpec::Name(name) => rules.push(Rule::Name(name.clone())),
            }
        }
        let mounts = Processes::at(&machine.proc).cgroup_mounts();
        let mut add = |rule: Result<Rule, String>| match rule {
            Ok(rule) => rules.push(rule),
            Err(error) => errors.push(error),
        };
        for given in given.cgroups {
            add(Group::find(given, &mounts).map(|group| Rule::Cgroup { given: given.clone(), group }));
        }
        if !given.units.is_empty() || !given.containers.is_empty() {
            let groups = cgroup::groups(&mounts);
            given.units.iter().for_each(|unit| add(find_unit(unit, &groups, &machine.root)));
            if !given.containers.is_empty() {
                let named = container::named(&machine.root, machine.home.as_deref());
                for given in given.containers {
                    let found = container::find(given, &groups, &named);
                    add(found.map(|container| Rule::Container { given: given.clone(), container }));
                }
            }
        }
        if errors.is_empty() {
            Ok(Selection { pids, rules, follow: given.follow, ..Selection::default() })
        } else {
            Err(errors)
        }
    }

    /// No process is meant.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.rules.is_empty()
    }

    /// It is of one program alone: who executes another is of it no more.
    pub fn is_of_program(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Program { .. }))
    }

    /// Processes that come later are held until they are attached to, where that can be.
    pub fn holds(&self) -> bool {
        self.follow != Follow::Late
    }

    /// Processes that selected ones fork may be selected too, and wait for it.
    pub fn has_children(&self) -> bool {
        self.holds() && (self.follow.is_on() || self.is_standing())
    }

    /// Processes that start later may belong to it, whatever becomes of those that it has now.
    pub fn is_standing(&self) -> bool {
        !self.rules.is_empty()
    }
}

/// A unit that runs, or that systemd has a file of.
fn find_unit(given: &str, groups: &std::collections::BTreeSet<String>, root: &Path) -> Result<Rule, String> {
    let unit = cgroup::unit_name(given);
    let template = unit.split_once('@').and_then(|(name, rest)| {
        let (_, suffix) = rest.rsplit_once('.')?;
        Some(format!("{name}@.{suffix}"))
    });
    let names = [Some(unit.clone()), template];
    let has_file = || {
        let names = names.iter().flatten();
        names
            .flat_map(|name| UNIT_FOLDERS.map(|folder| root.join(folder).join(name)))
            .any(|path| path.exists())
    };
    // What a pattern means may come to be.
    if pattern::is_wildcard(&unit) || groups.iter().any(|path| cgroup::is_of_unit(&unit, path)) || has_file()
    {
        return Ok(Rule::Unit(unit));
    }
    Err(format!(
        "there is no unit {unit}: it does not run (no cgroup has this name), and systemd has no file of it"
    ))
}

/// Whether a program of this name is meant.
fn is_called(called: &str, name: &str) -> bool {
    called == name || pattern::matches(name, called)
}

impl Rule {
    /// Whether the process is of the run by this rule.
    pub fn selects(&self, process: &Process, processes: &Processes) -> bool {
        let pid = process.id.pid;
        match self {
            Rule::Any => pid != 1,
            Rule::Name(name) => {
                is_called(&process.comm, name)
                    || processes.executable_name(pid).is_some_and(|called| is_called(&called, name))
            }
            Rule::Cgroup { group, .. } => group.holds(&processes.cgroups(pid)),
            Rule::Unit(unit) => cgroup::in_unit(unit, &processes.cgroups(pid)),
            Rule::Program { program, tracked } => {
                program.is_of(pid, processes)
                    && (tracked.is_of_all()
                        || Attributes::of(process, processes).is_some_and(|process| tracked.has(&process)))
            }
            Rule::Container { container, .. } => {
                processes.cgroups(pid).iter().any(|membership| container.holds(&membership.path))
            }
        }
    }

    /// How a process comes to be traced by it.
    pub fn origin(&self) -> Origin {
        match self {
            Rule::Any => Origin::Any,
            Rule::Name(name) => Origin::Rule("name", name.clone()),
            Rule::Cgroup { given, .. } => Origin::Rule("cgroup", given.clone()),
            Rule::Unit(unit) => Origin::Rule("unit", unit.clone()),
            Rule::Container { given, .. } => Origin::Rule("container", given.clone()),
            Rule::Program { program, .. } => Origin::Rule("program", program.path.clone()),
        }
    }
}

/// As it is told while it is waited for.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Any => write!(f, "a process that maps what is probed"),
            Rule::Name(name) => write!(f, "a process called {name}"),
            Rule::Cgroup { given, .. } => write!(f, "a process in cgroup {given}"),
            Rule::Unit(unit) => write!(f, "a process of unit {unit}"),
            Rule::Container { given, .. } => write!(f, "a process in container {given}"),
            Rule::Program { program, .. } => write!(f, "a process that executes {}", program.path),
        }
    }
}

/// `child of 17`, `name nginx*`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Given => write!(f, "given"),
            Origin::Command => write!(f, "the command"),
            Origin::Any => write!(f, "maps what is probed"),
            Origin::Rule(kind, given) => write!(f, "{kind} {given}"),
            Origin::ChildOf(parent) => write!(f, "child of {parent}"),
            Origin::Orphan => write!(f, "child of a process that has ended"),
            Origin::Exec => write!(f, "executed another program"),
            Origin::Again => write!(f, "taken back"),
        }
    }
}

#[cfg(test)]
mod tests;
