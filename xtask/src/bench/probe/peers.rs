//! What is measured: hits.c alone, under weir, under bpftrace, with a probe of the kernel's, under frida's Interceptor with
//! native callbacks, under uftrace's dynamic patching.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::Daemon;
use testkit::paths::quoted;

use crate::bench::plan::{Plan, Tracer};
use crate::{process, workspace};

/// Milliseconds at each of the three rates.
const RATE_MS: &str = "60";
const RATE_MS_SMOKE: &str = "2";
/// LIMIT: a run with its start and end. A trap takes up to 10 µs a call.
const RUN_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// The same script, but for the path.
    Bpftrace(&'static str),
    /// A probe of the kernel's with an empty eBPF program (tests/programs/kernel_probe.c).
    Kernel(&'static str),
    /// Callbacks of tests/programs/frida_probe.py.
    Frida(&'static str),
    /// Patches the function, and records its entries and returns.
    Uftrace,
}

impl Peer {
    pub(super) fn name(self) -> String {
        match self {
            Peer::Bpftrace(_) => "bpftrace".to_string(),
            Peer::Kernel(kind) => kind.to_string(),
            Peer::Frida(_) => "frida".to_string(),
            Peer::Uftrace => "uftrace".to_string(),
        }
    }
}

/// One run of the program.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Run {
    /// Calls and the CPU time that they took, in ns, at each rate.
    pub(super) rates: Vec<(u64, u64)>,
    /// What the tracer counted; None where it does not.
    pub(super) counted: Option<u64>,
}

impl Run {
    pub(super) fn calls(&self) -> u64 {
        self.rates.iter().map(|(calls, _)| calls).sum()
    }
}

/// The programs that are run.
pub(super) struct Bench {
    hits: PathBuf,
    rate_ms: &'static str,
    kernel_probe: PathBuf,
    /// Of `foo` in the file of `hits`.
    offset: String,
    /// Where pip has put frida, if it could.
    frida: Result<PathBuf, String>,
    out: PathBuf,
}

impl Bench {
    pub(super) fn set_up(plan: &Plan) -> Result<Bench> {
        let hits = workspace::test_program("hits")?;
        let offset = offset_of("foo", &hits)?;
        let frida = || frida().map_err(|error| format!("{error:#}"));
        Ok(Bench {
            hits,
            rate_ms: plan.form.pick(RATE_MS, RATE_MS, RATE_MS_SMOKE),
            kernel_probe: workspace::test_program("kernel_probe")?,
            offset,
            frida: if plan.has_peers() { frida() } else { Err("no peers".to_owned()) },
            out: workspace::target_folder("bench")?.join(format!("probe-{}.out", std::process::id())),
        })
    }

    pub(super) fn bare(&self, threads: usize) -> Result<Run> {
        let mut command = Command::new(&self.hits);
        command.args([&threads.to_string(), self.rate_ms]);
        self.traced(&mut command, |_| Ok(None))
    }

    pub(super) fn weir(&self, weir: &Path, script: &str, threads: usize) -> Result<Run> {
        self.scripted(&Tracer::Weir(weir.to_owned()), script, threads)
    }

    pub(super) fn peer(&self, peer: Peer, threads: usize) -> Result<Run> {
        match peer {
            Peer::Bpftrace(script) => {
                process::find_program("bpftrace").context("not installed")?;
                self.scripted(&Tracer::Peer("bpftrace"), script, threads)
            }
            Peer::Kernel(kind) => {
                let mut command = Command::new(&self.kernel_probe);
                command.args([kind, "empty"]).arg(&self.hits).arg(&self.offset);
                let run = self.attached(threads, |_| command)?;
                Ok(Run { counted: None, ..run })
            }
            Peer::Frida(callbacks) => {
                let packages = self.frida.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
                let run = self.attached(threads, |pid| {
                    let mut command = Command::new("python3");
                    command.arg(workspace::root().join("tests/programs/frida_probe.py"));
                    command.args([&pid.to_string(), "hits", &self.offset, callbacks]);
                    command.env("PYTHONPATH", packages);
                    command
                })?;
                Ok(Run { counted: run.counted.filter(|_| callbacks == "count"), ..run })
            }
            Peer::Uftrace => self.uftrace(threads),
        }
    }

    /// A tracer that starts the program itself, and whose main map is `@`.
    fn scripted(&self, tracer: &Tracer, script: &str, threads: usize) -> Result<Run> {
        let function = format!("{}:foo", quoted(&self.hits));
        let traced = format!("{} {threads} {}", tracer.word(&self.hits), self.rate_ms);
        let mut command = tracer.command(&self.hits);
        command.arg("-o").arg(&self.out);
        command.args(["-e", &script.replace("FOO", &function), "-c", &traced]);
        self.traced(&mut command, |bench| {
            let text = fs::read_to_string(&bench.out);
            Ok(count_in(&text.with_context(|| format!("cannot read {}", bench.out.display()))?))
        })
    }

    fn uftrace(&self, threads: usize) -> Result<Run> {
        process::find_program("uftrace").context("not installed")?;
        let data = workspace::target_folder("bench")?.join(format!("probe-{}.uftrace", std::process::id()));
        let mut command = Command::new("uftrace");
        command.args(["record", "-P", "foo", "--no-libcall", "-d"]).arg(&data);
        command.arg(&self.hits).args([&threads.to_string(), self.rate_ms]);
        let run = self.traced(&mut command, |_| Ok(None));
        let _ = fs::remove_dir_all(&data);
        run
    }

    fn traced(&self, command: &mut Command, count: impl Fn(&Bench) -> Result<Option<u64>>) -> Result<Run> {
        let output = process::output_within(command, RUN_LIMIT)?;
        let rates = rates_in(&String::from_utf8_lossy(&output.stdout))?;
        Ok(Run { rates, counted: count(self)? })
    }

    /// A tracer that says `attached` when it is, and `count=N` when it is asked to end; `attach` is given the pid.
    fn attached(&self, threads: usize, attach: impl FnOnce(u32) -> Command) -> Result<Run> {
        let mut command = Command::new(&self.hits);
        command.args([&threads.to_string(), self.rate_ms]);
        let mut hits = Daemon::spawn(command)?;
        hits.line_with("ready", RUN_LIMIT)?;
        let mut tracer = Daemon::spawn(attach(hits.pid()))?;
        if let Err(error) = tracer.line_with("attached", RUN_LIMIT) {
            let said = tracer.finish(RUN_LIMIT).map(|ended| ended.stderr).unwrap_or_default();
            return Err(error.context(said.trim().to_string()));
        }
        hits.write("go\n")?;
        hits.line_with("done", RUN_LIMIT)?;
        let told = tracer.finish(RUN_LIMIT)?;
        let ended = hits.finish(RUN_LIMIT)?;
        // All was measured before. (A program that ends just after frida has left it ends with SIGSEGV, one time in 50.)
        ensure!(told.status.success(), "{told:?}, {ended:?}");
        let counted = told.stdout.lines().find_map(|line| line.strip_prefix("count=")?.parse().ok());
        Ok(Run { rates: rates_in(&ended.stdout)?, counted })
    }
}

/// Of `calls=N cpu_ns=N` lines.
fn rates_in(output: &str) -> Result<Vec<(u64, u64)>> {
    let rate = |line: &str| {
        let (calls, ns) = line.strip_prefix("calls=")?.split_once(" cpu_ns=")?;
        Some((calls.parse().ok()?, ns.parse().ok()?))
    };
    let rates: Vec<(u64, u64)> = output.lines().filter_map(rate).collect();
    ensure!(rates.len() >= 3, "{} rates in {output:?}", rates.len());
    Ok(rates)
}

/// The sum of a tracer's map `@`: a number, numbers by key, or those of a histogram. None where it printed no such map.
fn count_in(text: &str) -> Option<u64> {
    let mut is_main = false;
    let mut counts = Vec::new();
    for line in text.lines() {
        if line.starts_with('@') {
            is_main = line.starts_with("@:") || line.starts_with("@[");
        }
        let number = if line.starts_with('@') {
            line.rsplit_once(": ").map(|(_, number)| number)
        } else {
            line.split_once('|')
                .and_then(|(bucket, _)| bucket.rsplit_once([')', ']']))
                .map(|(_, number)| number)
        };
        counts.extend(number.filter(|_| is_main).and_then(|number| number.trim().parse::<u64>().ok()));
    }
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Where in the file the function stands: in what a linker makes of a C program, at its address.
fn offset_of(function: &str, program: &Path) -> Result<String> {
    let mut command = Command::new("nm");
    let output = process::output_within(command.arg(program), RUN_LIMIT)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| {
        let (address, name) = line.split_once(" T ")?;
        (name == function).then(|| format!("0x{address}"))
    });
    found.with_context(|| format!("no function {function} in {}", program.display()))
}

/// Where frida's Python package is: installed, or put below target/ by pip.
fn frida() -> Result<PathBuf> {
    let folder = workspace::target_folder("frida")?;
    let imports = || {
        let mut command = Command::new("python3");
        command.args(["-c", "import frida"]).env("PYTHONPATH", &folder);
        process::output_within(&mut command, RUN_LIMIT)
    };
    if imports().is_err() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&folder).arg("frida");
        process::output_within(&mut pip, Duration::from_secs(180)).context("pip cannot install it")?;
        imports()?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, count: Option<u64>) {
        assert_eq!(count_in(text), count, "{text}");
    }

    #[test]
    fn counts_are_of_the_map_without_a_name() {
        check("Attaching 1 probe...\n\n@: 7\n", Some(7));
        check("@[1]: 7\n@[2]: 5\n@s[3]: 100\n", Some(12));
        check("@: \n[0]   3 |@@@   |\n[2, 4)      4 |@@@@    |\n\n@s[9]: 17\n", Some(7));
        check("@s: \n[2, 4)      4 |@@@@    |\n", None);
        check("Attaching 1 probe...\n", None);
    }

    #[test]
    fn rates_are_read_by_name() {
        let text = "ready pid=1\ncalls=1 cpu_ns=2\ncalls=3 cpu_ns=4\ncalls=5 cpu_ns=6\ndone\n";
        assert_eq!(rates_in(text).unwrap(), [(1, 2), (3, 4), (5, 6)]);
        assert!(rates_in("calls=1 cpu_ns=2\n").is_err());
    }
}
