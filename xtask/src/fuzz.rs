//! fuzz: every reader of hostile bytes under libFuzzer, with the seeds of the crate `fuzz-targets`.
//!
//! In: a target, a seed, a count of inputs. Out: nothing, or the error with the input that caused it (kept in
//! target/fuzz/artifacts). Targets are built with the coverage counters of the stable compiler, and debug assertions; those that
//! read scripts without the hooks at comparisons, which cost half of the time and help with numbers, not with words.
//! What an input may take is bounded: its time, the memory of the process, and the size of one allocation.
//!
//! Deliberately not here: sanitizers of addresses, which need a nightly compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{process, workspace};

/// The targets of the crate `fuzz-targets`, one for each reader: object files and programs with their notes, BTF, programs of eBPF,
/// assembly text, the shared segment, its rings, traces, metadata of CTF 2, capture files, packet filters, rings of packets, scripts, their C
/// text, and what they are compiled to.
pub(crate) const TARGETS: [&str; 15] = [
    "elf",
    "btf",
    "bytecode",
    "assembly",
    "segment",
    "rings",
    "trace",
    "ctf2",
    "pcapng",
    "packet_filter",
    "packet_ring",
    "cbpf",
    "script",
    "declarations",
    "compile",
];
/// Those of them that read scripts.
const SCRIPT_TARGETS: [&str; 3] = ["script", "declarations", "compile"];

/// LIMIT: seconds by the wall's clock after which an input hangs. The programs themselves bound its CPU time.
const INPUT_S_MAX: u64 = 300;
/// LIMIT: memory of a whole run, with the corpus and the counters in it.
const RUN_MIB_MAX: u64 = 768;
/// LIMIT: one allocation.
const ALLOCATION_MIB_MAX: u64 = 256;
/// LIMIT: the same of scripts.
const SCRIPT_ALLOCATION_MIB_MAX: u64 = 64;
/// LIMIT: bytes of an input. Objects of one program have some 4 KiB.
const INPUT_BYTES_MAX: u64 = 16 << 10;
/// Of scripts: the longest seed has some 600.
const SCRIPT_BYTES_MAX: u64 = 2 << 10;
/// Of the rings' steps, which are laps of the smallest ring: longer ones do the same again, and take longer.
const RINGS_BYTES_MAX: u64 = 2 << 10;

/// What the compiler adds so that libFuzzer sees which code an input reaches (as cargo-fuzz with `-s none` does).
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";
/// So that libFuzzer also sees the numbers that an input is compared with.
const COMPARES: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// The example of `fuzz-targets` that writes seeds.
const SEEDS: &str = "fuzz_seeds";

const MACHINE: &str = "x86_64-unknown-linux-gnu";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Which; all if none is named
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
    /// Inputs of each
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn fuzz(options: &Options) -> Result<()> {
    let fuzzers = Fuzzers::build(&options.targets)?;
    fuzzers.run_each(options.seed, options.runs)
}

/// The built targets.
#[derive(Debug)]
pub(crate) struct Fuzzers {
    targets: Vec<String>,
    folder: PathBuf,
    script_folder: PathBuf,
    corpus: PathBuf,
    artifacts: PathBuf,
}

impl Fuzzers {
    /// Builds these targets, or all if none is named, and writes the seeds.
    pub(crate) fn build(targets: &[String]) -> Result<Fuzzers> {
        let all = TARGETS.map(str::to_owned);
        let targets = if targets.is_empty() { &all[..] } else { targets };
        let folder = workspace::target_folder("fuzz")?;
        let fuzzers = Fuzzers {
            targets: targets.to_vec(),
            script_folder: workspace::target_folder("fuzz-script")?,
            corpus: folder.join("corpus"),
            artifacts: folder.join("artifacts"),
            folder,
        };
        for reads_scripts in [false, true] {
            let of_them: Vec<&String> =
                targets.iter().filter(|target| is_of_scripts(target) == reads_scripts).collect();
            if of_them.is_empty() {
                continue;
            }
            let (folder, flags) = match reads_scripts {
                true => (&fuzzers.script_folder, COVERAGE.to_owned()),
                false => (&fuzzers.folder, format!("{COVERAGE} {COMPARES}")),
            };
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--release", "--target", MACHINE, "--target-dir"]).arg(folder);
            build.args(of_them.iter().flat_map(|target| ["--bin", target]));
            build.current_dir(workspace::root().join("fuzz")).env("RUSTFLAGS", flags);
            process::run(&mut build).context("building the fuzz targets")?;
        }
        fuzzers.write_seeds()?;
        Ok(fuzzers)
    }

    /// Those that were built.
    pub(crate) fn targets(&self) -> &[String] {
        &self.targets
    }

    /// Runs targets, as many at a time as there are CPUs, and says of each what came of it.
    fn run_each(&self, seed: u64, runs: u64) -> Result<()> {
        let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let run_next = || {
            while let Some(target) = self.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.run(target, seed, runs) {
                    Ok(figures) => println!("{target}: {figures}"),
                    // The others go on: what one finds does not hide what they find.
                    Err(error) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"))
                    }
                }
            }
        };
        std::thread::scope(|scope| (0..at_a_time).for_each(|_| _ = scope.spawn(run_next)));
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(())
    }

    /// Runs `runs` inputs beside those of the corpus; what libFuzzer says at the end.
    pub(crate) fn run(&self, target: &str, seed: u64, runs: u64) -> Result<String> {
        let (corpus, artifacts) = (self.corpus.join(target), self.artifacts.join(target));
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let (folder, allocation_max, bytes_max) = match target {
            _ if is_of_scripts(target) => (&self.script_folder, SCRIPT_ALLOCATION_MIB_MAX, SCRIPT_BYTES_MAX),
            "rings" => (&self.folder, ALLOCATION_MIB_MAX, RINGS_BYTES_MAX),
            _ => (&self.folder, ALLOCATION_MIB_MAX, INPUT_BYTES_MAX),
        };
        // libFuzzer counts those that it reads at first.
        let kept =
            std::fs::read_dir(&corpus).with_context(|| format!("reading {}", corpus.display()))?.count();
        let runs = runs + kept as u64;
        let mut command = Command::new(folder.join(MACHINE).join("release").join(target));
        command.arg(&corpus);
        if is_of_scripts(target) {
            // To weigh what is rarely reached takes a third of the time of these short inputs.
            command.arg("-entropic=0");
        }
        for (name, value) in [
            ("seed", seed),
            ("runs", runs),
            ("timeout", INPUT_S_MAX),
            ("rss_limit_mb", RUN_MIB_MAX),
            ("malloc_limit_mb", allocation_max),
            ("max_len", bytes_max),
            ("verbosity", 0),
            ("print_final_stats", 1),
        ] {
            command.arg(format!("-{name}={value}"));
        }
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        // Even 10⁷ inputs of the slowest target are done within a day.
        let output = process::output_within(&mut command, Duration::from_secs(24 * 3600));
        let output = output.with_context(|| format!("fuzz target {target}, seed {seed}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let (Some(done), Some(mib)) =
            (figure("stat::number_of_executed_units:"), figure("stat::peak_rss_mb:"))
        else {
            bail!("fuzz target {target} ended without its figures: {text}");
        };
        if done.parse::<u64>().is_ok_and(|done| done < runs) {
            bail!("fuzz target {target} stopped after {done} of {runs} inputs: {text}");
        }
        Ok(format!("{done} inputs, at most {mib} MiB"))
    }

    /// Seeds of weir's own making, and of the objects that tests had clang make before.
    fn write_seeds(&self) -> Result<()> {
        // With the whole workspace in view, the crates that it uses are those that its tests use: there is nothing to compile again.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--example", SEEDS]).current_dir(workspace::root());
        process::run(&mut build).context("building what writes seeds")?;
        let mut command = Command::new(workspace::target_folder("debug/examples")?.join(SEEDS));
        command.arg(&self.corpus).args(objects(&workspace::target_folder("bpf-corpus/objects")?));
        process::run(&mut command).context("writing seeds")
    }
}

fn is_of_scripts(target: &str) -> bool {
    SCRIPT_TARGETS.contains(&target)
}

fn objects(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut found: Vec<PathBuf> = entries.into_iter().flatten().collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    found.sort();
    found
}
