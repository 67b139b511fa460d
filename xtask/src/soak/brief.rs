//! short-lived, bursts: what emits as soon as it runs, and ends then; and what emits as fast as it can. LTTng beside, where it is installed.
//!
//! A cycle of short-lived: a program (tests/lttng/brief.c) starts children one after the other, by fork and by posix_spawn, each of which emits
//! some events and ends; `weir record --follow` has every one. A cycle of bursts: ten million events, back to back; with `--blocking` every one is
//! recorded, without it each is recorded or counted as discarded. What LTTng has of the same is counted, and is no verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde_json::Value;

use crate::lttng::{self, Lttng};
use crate::soak::record::Counts;
use crate::{process, workspace};

/// LIMIT: a run of a program.
const LIMIT: Duration = Duration::from_secs(300);
const PROCESSES: u64 = 1_000;
const EVENTS_EACH: u64 = 100;
const BURST: u64 = 10_000_000;
const EVENT: &str = "recorded:ints";
const SESSION: &str = "weir-soak-brief";
/// What LTTng wants in a program that forks.
const FORK_LIBRARY: &str = "liblttng-ust-fork.so.1";

/// The program with weir's tracepoint, and with LTTng's if that is there.
struct Programs {
    own: PathBuf,
    lttng: Option<(Lttng, PathBuf)>,
}

static PROGRAMS: OnceLock<Result<Programs, String>> = OnceLock::new();

fn programs() -> Result<&'static Programs> {
    let build = || -> Result<Programs> {
        let own = workspace::target_folder("programs")?.join("brief_weir");
        let root = workspace::root();
        let mut compile = Command::new("gcc");
        compile.args(["-O2", "-DWEIR", "-I"]).arg(root.join("include")).arg("-o").arg(&own);
        process::output_within(compile.arg(root.join("tests/lttng/brief.c")), LIMIT)?;
        let lttng = Lttng::start().and_then(|lttng| Ok((lttng, lttng::compile("brief.c", "brief_lttng")?)));
        let lttng = lttng.inspect_err(|error| eprintln!("without LTTng: {error:#}")).ok();
        Ok(Programs { own, lttng })
    };
    let programs = PROGRAMS.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    programs.as_ref().map_err(|error| anyhow!(error.clone()))
}

/// What became of a run.
struct Found {
    recorded: u64,
    /// Milliseconds from its start to its end.
    ms: u64,
    /// Microseconds that a burst took.
    burst_us: u64,
}

pub(super) fn short_lived(weir: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    let wanted = PROCESSES * EVENTS_EACH;
    for how in ["fork", "spawn"] {
        let arguments = [how.to_owned(), PROCESSES.to_string(), EVENTS_EACH.to_string()];
        let found = by_weir(weir, &["--follow"], &arguments)?;
        ensure!(found.recorded == wanted, "{how}: {} of {wanted} events were recorded", found.recorded);
        counts.insert(format!("{how}: events, weir"), found.recorded);
        counts.insert(format!("{how}: ms, weir"), found.ms);
        if let Some(found) = by_lttng(weir, &arguments)? {
            counts.insert(format!("{how}: events, lttng"), found.recorded);
            counts.insert(format!("{how}: ms, lttng"), found.ms);
        }
    }
    counts.insert("processes".to_owned(), 2 * PROCESSES);
    Ok(counts)
}

pub(super) fn bursts(weir: &Path) -> Result<Counts> {
    let arguments = ["emit".to_owned(), BURST.to_string()];
    let blocking = by_weir(weir, &["--blocking"], &arguments)?;
    ensure!(blocking.recorded == BURST, "blocking: {} of {BURST} events were recorded", blocking.recorded);
    let default = by_weir(weir, &[], &arguments)?;
    let mut counts = Counts::from([
        ("events".to_owned(), BURST),
        ("recorded, weir".to_owned(), default.recorded),
        ("us, weir".to_owned(), default.burst_us),
        ("us, weir --blocking".to_owned(), blocking.burst_us),
    ]);
    if let Some(found) = by_lttng(weir, &arguments)? {
        counts.insert("recorded, lttng".to_owned(), found.recorded);
        counts.insert("us, lttng".to_owned(), found.burst_us);
    }
    Ok(counts)
}

/// The trace of one run, which is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let folder = workspace::target_folder("soak")?.join(format!("brief-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Ok(Folder(folder))
    }

    /// Events in it.
    fn recorded(&self, weir: &Path) -> Result<u64> {
        let mut view = Command::new(weir);
        let output =
            process::output_within(view.args(["view", "-f", "json", "--stats"]).arg(&self.0), LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(rows.filter_map(|row| row["events"].as_u64()).sum())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn by_weir(weir: &Path, options: &[&str], arguments: &[String]) -> Result<Found> {
    let folder = Folder::new()?;
    let mut record = Command::new(weir);
    record.arg("record").args(options).args(["-e", EVENT, "-o"]).arg(&folder.0);
    let (ms, burst_us, said) = run(record.arg("--").arg(&programs()?.own).args(arguments))?;
    let recorded = folder.recorded(weir)?;
    let emitted = match arguments {
        [_, processes, events] => processes.parse::<u64>()? * events.parse::<u64>()?,
        _ => BURST,
    };
    let lost = emitted - recorded;
    let is_told = lost == 0 || said.contains(&format!("{recorded} events recorded, {lost} discarded"));
    ensure!(is_told, "{lost} of {emitted} events are missing, and it says {said}");
    Ok(Found { recorded, ms, burst_us })
}

fn by_lttng(weir: &Path, arguments: &[String]) -> Result<Option<Found>> {
    let Some((lttng, program)) = &programs()?.lttng else { return Ok(None) };
    let folder = Folder::new()?;
    // One that an earlier run may have left.
    let _ = lttng.command(&["destroy", SESSION]);
    lttng.command(&["create", SESSION, "-o", &folder.0.display().to_string()])?;
    lttng.command(&["enable-event", "-u", "-s", SESSION, EVENT])?;
    lttng.command(&["start", SESSION])?;
    let ran = run(Command::new(program).args(arguments).env("LD_PRELOAD", FORK_LIBRARY));
    lttng.command(&["destroy", SESSION])?;
    let (ms, burst_us, _) = ran?;
    Ok(Some(Found { recorded: folder.recorded(weir)?, ms, burst_us }))
}

/// Milliseconds in all, microseconds that it printed, and what was said.
fn run(command: &mut Command) -> Result<(u64, u64, String)> {
    let start = Instant::now();
    let output = process::output_within(command, LIMIT)?;
    let ms = start.elapsed().as_millis() as u64;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds = text.lines().filter_map(|line| line.trim().parse::<f64>().ok()).next_back();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((ms, (seconds.unwrap_or(0.0) * 1e6) as u64, said))
}
