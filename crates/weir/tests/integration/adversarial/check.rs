//! The oracle of all adversarial tests: a probed program gives the same output and exit code as the unprobed one, every
//! call of a probed function is a hit or a miss with a name, and afterwards its text is what it was.
//!
//! In: a program that says `ready`, waits for a line, works, says `calls FUNCTION NUMBER` for each function that it
//! counts itself, says `done`, and waits for another line (tests/programs/adversarial.h). weir is attached between the
//! first two, and detached between the last two.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, daemon, wait};
use weir_symbols::maps;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of text that lead unwinders to weir's own answers: a jump in each of at most three functions.
const HOOKS_BYTES_MAX: usize = 3 * 5;

/// What a probe is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Entry,
    Return,
    /// Both ends of a call, with a program at each.
    Session,
}

/// The kinds that every program is tried with.
pub(crate) const KINDS: &[Kind] = &[Kind::Entry, Kind::Return, Kind::Session];

/// Why a return may be refused where an entry is not.
const REFUSED_RETURNS: [&str; 4] = ["return-unproved", "return-blocked", "return-part", "unwinder-unknown"];

/// A program to probe.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Said where something is wrong.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) is_static: bool,
}

impl Program {
    pub(crate) fn new(name: &str, path: PathBuf) -> Program {
        let (arguments, environment) = (Vec::new(), Vec::new());
        Program { path, name: name.into(), arguments, environment, is_static: false }
    }

    pub(crate) fn with(mut self, arguments: &[&str]) -> Program {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    pub(crate) fn in_environment(mut self, name: &str, value: &str) -> Program {
        self.name = format!("{}, {name}={value}", self.name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).arg("wait").envs(self.environment.iter().cloned());
        command
    }
}

/// The three ways of compiling that differ most; the whole matrix is for what each instruction set of a compiler
/// could break (crates/weir-probe/tests/shapes.rs).
const WAYS: [(&str, &str, &[&str]); 3] = [
    ("gcc", "g++", &["-O2", "-fPIE", "-pie"]),
    ("clang", "clang++", &["-O0", "-fno-pie", "-no-pie"]),
    ("gcc", "g++", &["-O2", "-fno-pie", "-no-pie", "-static"]),
];

/// A program of tests/programs in C or C++, compiled in each of these ways.
pub(crate) fn programs(file: &str, flags: &[&str]) -> Vec<Program> {
    let (stem, extension) = file.split_once('.').expect("a file with an extension");
    let compiled = |&(c, cpp, ways): &(&'static str, &'static str, &[&str])| {
        let compiler = if extension == "cpp" { cpp } else { c };
        if !target::is_installed(compiler) {
            testkit::skip::skip(compiler, format!("not installed; {file} is not tested as compiled by it"));
            return None;
        }
        let flags = [ways, &["-pthread", "-w"], flags].concat();
        let path = target::build_with(compiler, stem, Source::Program(file), &flags);
        let name = format!("{file} by {compiler} {}", flags.join(" "));
        Some(Program { is_static: flags.contains(&"-static"), ..Program::new(&name, path) })
    };
    WAYS.iter().filter_map(compiled).collect()
}

/// How a run ended, and what it said: its own lines, and its counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) status: String,
    pub(crate) lines: Vec<String>,
    pub(crate) calls: BTreeMap<String, u64>,
    /// Of functions that do not return from every call.
    pub(crate) returns: BTreeMap<String, u64>,
    pub(crate) stderr: String,
}

impl Run {
    fn of(ended: daemon::Ended) -> Run {
        let counts = |what: &str| -> BTreeMap<String, u64> {
            let count = |line: &str| {
                let (name, number) = line.strip_prefix(what)?.split_once(' ')?;
                Some((name.to_owned(), number.parse().ok()?))
            };
            ended.stdout.lines().filter_map(count).collect()
        };
        let (calls, returns) = (counts("calls "), counts("returns "));
        let is_own = |line: &&str| !line.starts_with("calls ") && !line.starts_with("returns ");
        let lines = ended.stdout.lines().filter(is_own).map(str::to_owned).collect();
        Run { status: ended.status.to_string(), lines, calls, returns, stderr: ended.stderr }
    }

    /// Threads that were taken out of whatever they did, as the program says.
    fn abandoned(&self) -> u64 {
        let said = self.lines.iter().find_map(|line| line.strip_prefix("abandoned "));
        said.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// What a tracer found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Traced {
    pub(crate) run: Run,
    pub(crate) hits: BTreeMap<String, u64>,
    /// At the entries, where probes are on both ends.
    pub(crate) entries: BTreeMap<String, u64>,
    /// weir's output and messages.
    pub(crate) output: String,
    pub(crate) messages: String,
}

/// The oracle, for every function that the program counts, with probes of every kind.
#[track_caller]
pub(crate) fn check(program: &Program) {
    check_but(program, &[]);
}

/// The same; these functions may be refused for these reasons, and are then not hit at all.
#[track_caller]
pub(crate) fn check_but(program: &Program, refusable: &[(&str, &str)]) {
    check_by(program, KINDS, refusable, unprobed, traced);
}

/// The same where what is kept on the stack until a function returns is itself seen.
#[track_caller]
pub(crate) fn check_entries(program: &Program) {
    check_by(program, &[Kind::Entry], &[], unprobed, traced);
}

/// The same for a program that neither says that it is ready nor waits, and is launched by weir.
#[track_caller]
pub(crate) fn check_launched(program: &Program, refusable: &[(&str, &str)]) {
    check_by(program, KINDS, refusable, launched_unprobed, launched);
}

#[track_caller]
fn check_by(
    program: &Program,
    kinds: &[Kind],
    refusable: &[(&str, &str)],
    unprobed: impl Fn(&Program) -> Run,
    traced: impl Fn(&Program, &str) -> Traced,
) {
    let unprobed = unprobed(program);
    for &kind in kinds {
        let mut named: Vec<&str> = unprobed.calls.keys().map(String::as_str).collect();
        if kind != Kind::Entry {
            let refused = refused_returns(program, &kind.script(program, &named));
            named.retain(|name| !refused.iter().any(|other| name.rsplit(':').next() == Some(other)));
        }
        if named.is_empty() {
            continue;
        }
        let traced = traced(program, &kind.script(program, &named));
        same(program, &unprobed, &traced.run);
        let refused = traced.refused();
        for pair in &refused {
            let is_known = refusable.iter().any(|(name, code)| pair.0 == *name && pair.1 == *code);
            assert!(is_known, "{kind:?} in {}: {pair:?} refused: {}", program.name, traced.messages);
        }
        for name in named.iter().filter(|name| !refused.iter().any(|pair| pair.0 == **name)) {
            traced.check_hits(program, kind, name);
        }
        if kind != Kind::Entry && refused.is_empty() && unprobed.abandoned() == 0 {
            traced.check_misses(program, kind, &named);
        }
    }
}

/// The oracle with a probe on every function of the program, libc's among them where it is static. What cannot be
/// patched is left out.
#[track_caller]
pub(crate) fn check_everything(program: &Program) {
    let unprobed = unprobed(program);
    let path = quoted(&program.path);
    for (kind, provider) in [(Kind::Entry, "uprobe"), (Kind::Return, "uretprobe")] {
        let script =
            format!("config = {{ max_probes = 10000 }} {provider}:{path}:* {{ @[func] = count(); }}");
        let traced = traced(program, &script);
        same(program, &unprobed, &traced.run);
        let refused = traced.refused();
        for name in unprobed.calls.keys().filter(|name| !name.contains(':')) {
            if !refused.iter().any(|pair| pair.0 == *name) {
                traced.check_hits(program, kind, name);
            }
        }
        assert!(traced.hits.len() > 8, "{kind:?} in {}: {}", program.name, traced.output);
    }
}

impl Traced {
    fn new(run: Run, output: String, messages: String) -> Traced {
        Traced { run, hits: hits(&output, "@["), entries: hits(&output, "@entries["), output, messages }
    }

    /// Functions that are not probed, and the reason codes.
    pub(crate) fn refused(&self) -> Vec<(String, String)> {
        // weir:   PATH:FUNCTION: CODE: …, or FUNCTION (return)
        let refused = |line: &str| {
            let mut parts = line.strip_prefix("weir:   /")?.splitn(4, ':').skip(1);
            let name = parts.next()?;
            let name = name.strip_suffix(" (return)").unwrap_or(name);
            Some((name.to_owned(), parts.next()?.trim().to_owned()))
        };
        self.messages.lines().filter_map(refused).collect()
    }

    /// Returns that were not seen, of all these functions together, are those that weir says it has lost.
    #[track_caller]
    fn check_misses(&self, program: &Program, kind: Kind, names: &[&str]) {
        let of_function = |name: &&str| {
            let function = name.rsplit(':').next().unwrap_or(name);
            let calls = self.run.calls[*name];
            let returns = self.run.returns.get(*name).copied().unwrap_or(calls);
            returns.saturating_sub(self.hits.get(function).copied().unwrap_or(0))
        };
        let unseen: u64 = names.iter().map(of_function).sum();
        let lost = self.missed("tail-depth") + self.missed("no-record");
        assert_eq!(unseen, lost, "{kind:?} in {}\n{}{}", program.name, self.output, self.messages);
    }

    /// How many returns the run has missed for one reason.
    fn missed(&self, reason: &str) -> u64 {
        // weir: missed: pending 1, tail-depth 937
        let line = self.messages.lines().find_map(|line| line.strip_prefix("weir: missed: "));
        let counts = line.unwrap_or_default().split(", ").filter_map(|part| part.split_once(' '));
        counts.filter(|(name, _)| *name == reason).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
    }

    /// Every call of `name` is a hit, and every return.
    #[track_caller]
    fn check_hits(&self, program: &Program, kind: Kind, name: &str) {
        let function = name.rsplit(':').next().unwrap_or(name);
        let of = |hits: &BTreeMap<String, u64>| hits.get(function).copied().unwrap_or(0);
        let calls = self.run.calls[name];
        let returns = self.run.returns.get(name).copied().unwrap_or(calls);
        let is_abandoned = name.ends_with("_abandoned");
        let abandoned = if is_abandoned { self.run.abandoned() } else { 0 };
        // A thread that is taken out of a probe by force has not come to the function's own counting, or has not come
        // from there to the probe.
        let at_entry = calls..=calls + abandoned;
        let at_return = match name.ends_with("_tail") {
            // Functions that call each other by jumps return once for all of them: beyond a depth the others are
            // misses, which are checked for all together.
            true => returns.min(1)..=returns,
            false => returns.saturating_sub(abandoned)..=returns,
        };
        let ends = match kind {
            Kind::Entry => vec![(of(&self.hits), at_entry)],
            Kind::Return => vec![(of(&self.hits), at_return)],
            Kind::Session => vec![(of(&self.entries), at_entry), (of(&self.hits), at_return)],
        };
        for (hits, right) in ends {
            let said = || format!("{}\n{}{}", program.name, self.output, self.messages);
            assert!(right.contains(&hits), "{kind:?} of {name}: {hits} hits, not {right:?}; {}", said());
        }
    }
}

/// A line by which a script says that it runs.
const BEGUN: &str = "begun";

/// What cannot be patched is told, and the rest is probed.
const WARN: &str = "config = { missing_probes = \"warn\" }";

/// Functions of `script` whose returns cannot be caught, as weir says without running anything.
fn refused_returns(program: &Program, script: &str) -> Vec<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "--emit", "sites", "-e", script]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    // PATH:FUNCTION ADDRESS: …, returns refused: CODE: …
    let refused = |line: &str| {
        let (site, code) = line.split_once(" refused: ")?;
        let name = site.split_once(" 0x")?.0.rsplit(':').next()?;
        let code = code.split(':').next()?;
        let is_of_return = REFUSED_RETURNS.contains(&code);
        assert!(is_of_return || !line.contains("returns refused"), "{name} in {}: {line}", program.name);
        is_of_return.then(|| name.to_owned())
    };
    text.lines().filter_map(refused).collect()
}

/// Outputs, exit codes, and numbers of calls are those of the unprobed program.
#[track_caller]
pub(crate) fn same(program: &Program, unprobed: &Run, probed: &Run) {
    let whole = |run: &Run| (run.status.clone(), run.lines.clone());
    assert_eq!(whole(probed), whole(unprobed), "{}: {}", program.name, probed.stderr);
    assert_eq!(probed.stderr, unprobed.stderr, "{}", program.name);
    for (name, calls) in &probed.calls {
        // Signals come as often as they come, and when.
        if !name.ends_with("_signal") && !name.ends_with("_abandoned") {
            assert_eq!(Some(calls), unprobed.calls.get(name), "{name} in {}", program.name);
        }
    }
}

impl Kind {
    /// A script that counts the hits of each of these functions.
    pub(crate) fn script(self, program: &Program, functions: &[&str]) -> String {
        let path = quoted(&program.path);
        let sites = |provider: &str| {
            let site = |name: &&str| match name.split_once(':') {
                None => format!("{provider}:{path}:{name}"),
                Some((_, name)) if program.is_static => format!("{provider}:{path}:{name}"),
                Some(("ld", name)) => format!("{provider}:/lib64/ld-linux-x86-64.so.2:{name}"),
                Some((file, name)) => format!("{provider}:{file}:{name}"),
            };
            functions.iter().map(site).collect::<Vec<String>>().join(", ")
        };
        match self {
            Kind::Entry => format!("{WARN} {} {{ @[func] = count(); }}", sites("uprobe")),
            Kind::Return => {
                format!("{WARN} {} {{ @[func] = count(); @sum = sum(retval); }}", sites("uretprobe"))
            }
            Kind::Session => {
                let (entries, returns) = (sites("uprobe"), sites("uretprobe"));
                format!("{WARN} {entries} {{ @entries[func] = count(); }} {returns} {{ @[func] = count(); }}")
            }
        }
    }
}

/// Runs the program without anybody.
pub(crate) fn unprobed(program: &Program) -> Run {
    let mut daemon = Daemon::spawn(program.command()).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap_or_else(|e| panic!("{}: {e:#}", program.name));
    let _ = daemon.write("\n\n");
    Run::of(daemon.finish(DEADLINE).unwrap())
}

/// Runs the program, with `script` attached to it from before its work till behind it.
#[track_caller]
pub(crate) fn traced(program: &Program, script: &str) -> Traced {
    let mut daemon = Daemon::spawn(program.command()).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap_or_else(|e| panic!("{}: {e:#}", program.name));
    let before = text(daemon.pid());
    let out = Output::new();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    // Intervals run once everything is patched and every program runs.
    let begun = format!("{script} interval:ms:20 {{ printf(\"{BEGUN}\\n\"); }}");
    weir.args(["trace", "-v", "-e", &begun, "-p", &daemon.pid().to_string(), "-o"]).arg(&out.0);
    let mut weir = Daemon::spawn(weir).unwrap();
    let is_armed = wait::until(DEADLINE, || out.text().contains(BEGUN) || !weir.is_running());
    if !is_armed || !weir.is_running() {
        panic!("{}: weir did not attach: {:?}\n{script}", program.name, weir.finish(DEADLINE));
    }
    daemon.write("\n").unwrap();
    // Some die on the way.
    let is_done = daemon.line_with("done", DEADLINE).is_ok();
    if is_done {
        weir.signal(Signal::SIGINT).unwrap();
    }
    let weir = weir.finish(DEADLINE).unwrap_or_else(|e| panic!("{}: weir: {e:#}", program.name));
    assert!(weir.status.success(), "{}: weir: {}\n{}", program.name, weir.status, weir.stderr);
    if is_done {
        let after = text(daemon.pid());
        let changed =
            before.iter().map(|(at, bytes)| after.get(at).map_or(0, |now| differing(bytes, now))).sum();
        // While a thread is still to return through weir's code, so are exceptions: what answers unwinders stays.
        let stays = if weir.stderr.contains("stays mapped") { HOOKS_BYTES_MAX } else { 0 };
        assert!(
            (0..=stays).contains(&changed),
            "{}: {changed} bytes of its text changed\n{}",
            program.name,
            weir.stderr
        );
    }
    let _ = daemon.write("\n");
    let run = Run::of(daemon.finish(DEADLINE).unwrap_or_else(|e| panic!("{}: {e:#}", program.name)));
    let output = out.text().lines().filter(|line| *line != BEGUN).map(|line| format!("{line}\n")).collect();
    Traced::new(run, output, weir.stderr)
}

/// Runs the program by itself.
pub(crate) fn launched_unprobed(program: &Program) -> Run {
    Run::of(Daemon::spawn(Command::new(&program.path)).unwrap().finish(DEADLINE).unwrap())
}

fn differing(before: &[u8], now: &[u8]) -> usize {
    before.iter().zip(now).filter(|(before, now)| before != now).count()
}

/// Runs the program from weir, from its first instruction on. How it ends is weir's own end.
#[track_caller]
pub(crate) fn launched(program: &Program, script: &str) -> Traced {
    let out = Output::new();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-v", "-e", script, "-o"]).arg(&out.0).arg("-c").arg(quoted(&program.path));
    let mut ended = Daemon::spawn(weir).unwrap().finish(DEADLINE).unwrap();
    let messages = std::mem::take(&mut ended.stderr);
    let output = out.text();
    Traced::new(Run::of(ended), output, messages)
}

/// `@[NAME]: NUMBER` in weir's output, or what else is before the name.
fn hits(output: &str, before: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, number) = line.strip_prefix(before)?.split_once("]: ")?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    output.lines().filter_map(line).collect()
}

/// All text of process `pid` that comes from files, by address.
fn text(pid: u32) -> BTreeMap<u64, Vec<u8>> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut texts = BTreeMap::new();
    for mapping in maps::read(pid).unwrap().iter().filter(|m| m.execute && m.path.starts_with('/')) {
        if mapping.path.starts_with("/memfd:") {
            continue;
        }
        let mut bytes = vec![0; (mapping.end.0 - mapping.start.0) as usize];
        memory.read_exact_at(&mut bytes, mapping.start.0).unwrap();
        texts.insert(mapping.start.0, bytes);
    }
    texts
}

/// A file for weir's output, of this test alone.
struct Output(PathBuf);

impl Output {
    fn new() -> Output {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = testkit::paths::target().join("adversarial-tests");
        std::fs::create_dir_all(&folder).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Output(folder.join(format!("{}.{number}", std::process::id())))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
