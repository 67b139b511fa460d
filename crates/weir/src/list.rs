//! `weir list`: what can be probed, as attach points that a script takes.
//!
//! In: patterns such as `uprobe:./app:read*` or `usdt:*:gc*`, and a process or none. Out: one line a probe, sorted, each
//! once; with `-v` below it each place of it, a static probe's with its arguments, and a tracepoint's level; a function's with its
//! parameters where debug information has them. A pattern that nothing matches is a
//! message with near misses, and exit code 1; the others are listed all the same. Whether a place can be patched is not
//! looked at: `weir trace --emit sites` shows that.
//!
//! | pattern | lists |
//! |---|---|
//! | `uprobe:BINARY:FUNCTION`, `u:…` | functions by any of their names |
//! | `uprobe:BINARY:cpp:FUNCTION` | functions by their names of C++ and Rust, demangled; `rust` is the same |
//! | `uretprobe:BINARY:FUNCTION`, `ur:…` | the same, for their returns |
//! | `usdt:BINARY:PROVIDER:NAME`, `usdt:BINARY:NAME`, `U:…` | static probes |
//! | `lttng:BINARY:PROVIDER:NAME`, `lttng:BINARY:NAME` | events of LTTng-UST, by the descriptors in the file |
//! | `uprobe:BINARY`, `usdt:BINARY`, `lttng:BINARY` | all of them |
//! | `BINARY` | functions and static probes |
//! | `interval:*`, `self:*`, `test:*`, `bench:*` | how probes are written that run in weir |
//!
//! Every part but the binary may have wildcards; with `-p` the binary too, which then stands for what the process maps.

pub(crate) mod complete;
mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Error, anyhow};
use weir_ir::world::is_language;
use weir_policy::rules::Rules;
use weir_symbols::{Binary, Function, FunctionKind, StaticProbe, demangle, pattern};
use weir_world::{self as world, Binaries, is_named};

use crate::args;
use crate::failure::Failure;
use crate::print::{print, printable, tell};

/// Prints what the patterns match.
pub(crate) fn list(args: &args::List) -> Result<ExitCode, Failure> {
    if let Some(pid) = args.pid {
        Rules::in_force(None)?.may_see(pid).map_err(|denial| Failure::Refused(anyhow!(denial)))?;
        weir_probe::target::check(pid)?;
    }
    let world = world::binaries(args.pid)?;
    let everything = ["uprobe:*:*".to_string(), "usdt:*:*".to_string()];
    let patterns = if args.patterns.is_empty() { &everything[..] } else { &args.patterns };
    let mut lines = Lines::new();
    let mut faults = Vec::new();
    for pattern in patterns {
        if let Err(fault) = matching(pattern, args, &world, &mut lines) {
            faults.push(fault);
        }
    }
    // Asked for everything: that a process has no static probes is no fault.
    if args.patterns.is_empty() && !lines.is_empty() {
        faults.clear();
    }
    let mut out = String::new();
    for (line, places) in &lines {
        out += &format!("{}\n", printable(line));
        for place in places.iter().filter(|_| args.verbose) {
            out += &format!("    {}\n", printable(place));
        }
    }
    let printed = print(&out)?;
    for fault in &faults {
        tell!("weir: {fault:#}");
    }
    Ok(if faults.is_empty() { printed } else { ExitCode::from(1) })
}

/// Each attach point, and what `-v` says of its places.
type Lines = BTreeMap<String, BTreeSet<String>>;

/// A kind of probe: its name, its alias, how it is searched for in a binary.
struct Kind {
    name: &'static str,
    alias: &'static str,
    search: fn(&Searched<'_>, &[&str], &mut Lines) -> Result<(), Error>,
}

/// A binary, the path that it is shown by, and whether places are described.
struct Searched<'a> {
    path: &'a str,
    binary: &'a Binary,
    verbose: bool,
}

const KINDS: &[Kind] = &[
    Kind { name: "uprobe", alias: "u", search: entries },
    Kind { name: "uretprobe", alias: "ur", search: returns },
    Kind { name: "usdt", alias: "U", search: static_probes },
    Kind { name: "lttng", alias: "lttng", search: ust_events },
];

/// What runs in weir itself, as far as its names are given.
const IN_WEIR: [&str; 9] = [
    "begin",
    "end",
    "interval:hz:",
    "interval:ms:",
    "interval:s:",
    "interval:us:",
    "self:signal:SIGUSR1",
    "bench:",
    "test:",
];

impl Kind {
    /// Returns are listed where they are asked for: what has one has an entry. So are LTTng's events, which no script takes yet.
    fn is_meant(&self, kind: &str) -> bool {
        match kind {
            "*" => !["uretprobe", "lttng"].contains(&self.name),
            _ => pattern::matches(kind, self.name) || kind == self.alias,
        }
    }
}

fn matching(text: &str, args: &args::List, world: &Binaries, lines: &mut Lines) -> Result<(), Error> {
    let parts = parts(text);
    let (kind, binary, rest) = match parts[..] {
        [binary] => ("*", binary, &[][..]),
        [kind, binary, ..] => (kind, binary, &parts[2..]),
        [] => unreachable!("splitting gives a part"),
    };
    let kinds: Vec<&Kind> = KINDS.iter().filter(|k| k.is_meant(kind)).collect();
    if kinds.is_empty() {
        let asked = |line: &&&str| pattern::matches(text, line) || text.eq_ignore_ascii_case(line);
        let found: Vec<&str> = IN_WEIR.iter().filter(asked).copied().collect();
        if !found.is_empty() {
            lines.extend(found.into_iter().map(|line| (line.to_owned(), BTreeSet::new())));
            return Ok(());
        }
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(anyhow!("{text}: no kind of probe is named \"{kind}\"; there are {}", names.join(", ")));
    }
    let binaries = binaries(binary, args.pid, world).map_err(|error| error.context(text.to_string()))?;
    let before = lines.len();
    let mut is_known = false;
    let mut first_fault = None;
    for (path, binary) in &binaries {
        for kind in &kinds {
            let searched = Searched { path, binary, verbose: args.verbose };
            match (kind.search)(&searched, rest, lines) {
                Ok(()) => is_known = true,
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
    }
    if is_known || lines.len() > before {
        return Ok(());
    }
    match (binaries.len(), first_fault) {
        (1, Some(fault)) => Err(fault.context(text.to_string())),
        (count, _) => Err(anyhow!("{text}: nothing matches in {count} programs and libraries")),
    }
}

/// The parts of a pattern. What comes after a language is one, with or without quotes.
fn parts(text: &str) -> Vec<&str> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    match parts[..] {
        [_, _, language, name] if is_language(language) => {
            let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
            vec![parts[0], parts[1], language, name]
        }
        _ => text.split(':').collect(),
    }
}

/// The binary of this name, else (with a process) those that it maps whose path or name matches.
fn binaries(name: &str, pid: Option<i32>, world: &Binaries) -> Result<Vec<(String, Rc<Binary>)>, Error> {
    if !pattern::is_wildcard(name) {
        let (path, binary) = world.open(name)?;
        if let Some(pid) = pid
            && !world.maps(&path, &binary)
        {
            return Err(anyhow!("process {pid} does not map {}", path.display()));
        }
        return Ok(vec![(path.display().to_string(), binary)]);
    }
    if pid.is_none() {
        return Err(anyhow!(
            "a wildcard in the name of the binary stands for what a process maps: add -p PID"
        ));
    }
    let paths = world.mapped_paths().into_iter().filter(|path| is_named(name, path));
    // What the process maps executable and is no ELF file (code of a virtual machine) has no symbols.
    let opened = paths.filter_map(|path| Some((path.clone(), world.open(&path).ok()?.1)));
    Ok(opened.collect())
}

fn entries(searched: &Searched<'_>, rest: &[&str], lines: &mut Lines) -> Result<(), Error> {
    functions("uprobe", searched, rest, lines)
}

fn returns(searched: &Searched<'_>, rest: &[&str], lines: &mut Lines) -> Result<(), Error> {
    functions("uretprobe", searched, rest, lines)
}

fn functions(kind: &str, searched: &Searched<'_>, rest: &[&str], lines: &mut Lines) -> Result<(), Error> {
    let wanted = match rest {
        [] => "*",
        [function] => function,
        [language, name] if is_language(language) => {
            return demangled(kind, searched, (language, name), lines);
        }
        _ => return Err(anyhow!("a function has one part after the binary: {kind}:BINARY:FUNCTION")),
    };
    let Searched { path, binary, verbose } = searched;
    let found = binary.find(wanted)?;
    let addresses = found.iter().filter(|_| *verbose).map(|function| function.address).collect();
    let prototypes = binary.prototypes(&addresses);
    for function in found {
        let prototype = prototypes.get(&function.address).map_or_else(String::new, |p| format!(", {p}"));
        for name in function.names().filter(|name| *name == wanted || pattern::matches(wanted, name)) {
            let place = format!("{}{prototype}", described(function));
            lines.entry(format!("{kind}:{path}:{name}")).or_default().insert(place);
        }
    }
    Ok(())
}

/// As bpftrace writes them: `uprobe:/bin/app:cpp:"ns::f(int)"`.
fn demangled(
    kind: &str,
    searched: &Searched<'_>,
    (language, wanted): (&str, &str),
    lines: &mut Lines,
) -> Result<(), Error> {
    let Searched { path, binary, .. } = searched;
    for (function, symbol) in binary.find_demangled(wanted)? {
        let name = demangle(symbol).map_or_else(|| symbol.to_owned(), |name| format!("\"{name}\""));
        let place = format!("{symbol}, {}", described(function));
        lines.entry(format!("{kind}:{path}:{language}:{name}")).or_default().insert(place);
    }
    Ok(())
}

fn described(function: &Function) -> String {
    let mark = match function.kind {
        FunctionKind::Plain => "",
        FunctionKind::Indirect => ", indirect (IFUNC)",
    };
    match function.size {
        0 => format!("{}, of unknown size{mark}", function.address),
        size => format!("{}, {size} bytes{mark}", function.address),
    }
}

fn static_probes(searched: &Searched<'_>, rest: &[&str], lines: &mut Lines) -> Result<(), Error> {
    let (provider, name) = match rest {
        [] => (None, "*"),
        [name] => (None, *name),
        [provider, name] => (Some(*provider), *name),
        _ => return Err(anyhow!("a static probe has two parts after the binary: usdt:BINARY:PROVIDER:NAME")),
    };
    for probe in searched.binary.find_static(provider, name)? {
        let line = format!("usdt:{}:{}", searched.path, probe.full_name());
        lines.entry(line).or_default().insert(place_of(probe));
    }
    Ok(())
}

fn ust_events(searched: &Searched<'_>, rest: &[&str], lines: &mut Lines) -> Result<(), Error> {
    let (provider, name) = match rest {
        [] => ("*", "*"),
        [name] => ("*", *name),
        [provider, name] => (*provider, *name),
        _ => return Err(anyhow!("an event has two parts after the binary: lttng:BINARY:PROVIDER:NAME")),
    };
    let image = searched.binary.image();
    let found = weir_ust::providers(&|at, to| image.read(at, to), &image.writable());
    let is_meant = |pattern: &str, name: &str| pattern == name || pattern::matches(pattern, name);
    let mut is_known = false;
    for found in &found {
        for event in
            found.events.iter().filter(|event| is_meant(provider, &found.name) && is_meant(name, &event.name))
        {
            is_known = true;
            let line = format!("lttng:{}:{}:{}", searched.path, found.name, event.name);
            let level = event.level.map_or("no level".to_owned(), |level| format!("level {}", level.name()));
            let place = format!("{level}, ({})", fields::of_event(event));
            lines.entry(line).or_default().insert(place);
        }
    }
    let path = searched.path;
    let names = || {
        found
            .iter()
            .flat_map(|found| found.events.iter().map(|event| format!("{}:{}", found.name, event.name)))
    };
    match found.is_empty() {
        _ if is_known => Ok(()),
        true if searched.binary.has_section(OLD_SITES) => Err(anyhow!(
            "{path} was built with LTTng-UST 2.12 or before, whose events are not read: build it with 2.13 or newer"
        )),
        true => Err(anyhow!("{path} has no events of LTTng-UST")),
        false => {
            let wanted = format!("{provider}:{name}");
            let all: Vec<String> = names().take(NEAR_MAX).collect();
            Err(anyhow!("no event of {path} matches {wanted}; it has {}", all.join(", ")))
        }
    }
}

/// Where LTTng-UST up to 2.12 has the places of events.
const OLD_SITES: &str = "__tracepoints_ptrs";
/// Names in a message.
const NEAR_MAX: usize = 8;

/// `0x12fe, semaphore 0x4028, (int32 -4@%edi)`, and of a tracepoint `0x12fe, semaphore 0x4028, level info, (int32 id -4@%edi)`.
fn place_of(probe: &StaticProbe) -> String {
    let semaphore = probe.semaphore.map_or_else(String::new, |at| format!(", semaphore {at}"));
    let level = probe.schema.as_ref().and_then(|schema| schema.level);
    let level = level.map_or_else(String::new, |level| format!(", level {}", level.name()));
    format!("{}{semaphore}{level}, ({})", probe.address, fields::arguments(probe))
}
