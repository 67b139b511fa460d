//! `weir top`: what the probes of all traced processes cost, whoever traces them.
//!
//! In: the processes that weir-probe finds in `/proc`, once a second, with what their weirs say of their probes ([`Told`]). Out,
//! on standard output: a table on a terminal, with the keys of `--live`, else lines that programs can read. Processes that this
//! user may not look at are not there; fork children that run unprobed are left to `weir ps`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Stdout, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weir_policy::rules::Rules;
use weir_probe::scan::{self, Probed};
use weir_run::percent;

use crate::args;
use crate::failure::Failure;
use crate::live::terminal::Terminal;
use crate::live::view::{Key, Row, View};
use crate::live::{PERIOD, plain};
use crate::manage::told::{Standing, Told};
use crate::print::{print_on, printable, tell};

/// How often it is looked whether a signal asks for the end.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn top(args: &args::Top) -> Result<ExitCode, Failure> {
    for &pid in &args.pids {
        if let Err(error @ weir_probe::Error::NoProcess { .. }) = weir_probe::target::check(pid) {
            return Err(error.into());
        }
    }
    let rules = Rules::in_force(None)?;
    let (mut out, mut view, began) = (Out::start()?, View::of_processes(), Instant::now());
    for look in 1.. {
        let mut found = find(&args.pids)?;
        found.retain(|probed| rules.may_see(probed.pid).is_ok());
        if look == 1 {
            tell_missing(&args.pids, &found);
        }
        let (rows, title, share) = contents(&found);
        view.show(rows, title, share, began.elapsed());
        let is_last = args.iterations == Some(look) || have_ended(&args.pids);
        if !out.show(&view, look == 1)? || is_last || out.pause(&mut view, Instant::now() + PERIOD) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Those of these processes that are traced, or all.
fn find(pids: &[i32]) -> Result<Vec<Probed>, Failure> {
    if pids.is_empty() {
        return scan::all().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")));
    }
    let pids: BTreeSet<i32> = pids.iter().copied().collect();
    Ok(pids.into_iter().flat_map(|pid| scan::all_in(pid).unwrap_or_default()).collect())
}

fn tell_missing(pids: &[i32], found: &[Probed]) {
    let is_missing = |pid: &&i32| !found.iter().any(|probed| probed.pid == **pid);
    for pid in pids.iter().filter(is_missing) {
        tell!("weir: process {pid} is not traced, or this user may not look at it");
    }
}

/// There were some, and none is left.
fn have_ended(pids: &[i32]) -> bool {
    !pids.is_empty() && pids.iter().all(|&pid| weir_probe::target::check_to_undo(pid).is_err())
}

/// Rows, a title, and the share of CPU time that all probes take where that is known.
fn contents(found: &[Probed]) -> (Vec<Row>, String, f64) {
    // Of a weir that has gone in peace there may be memory left, and no probe.
    let is_shown = |probed: &&Probed| {
        let has_probes = probed.probes > 0 || probed.controller_alive || probed.other_version.is_some();
        has_probes && !probed.is_inherited()
    };
    let shown: Vec<(&Probed, Option<Told>)> =
        found.iter().filter(is_shown).map(|probed| (probed, Told::of(probed))).collect();
    let current = || shown.iter().filter_map(|(_, told)| told.as_ref().filter(|told| told.is_current()));
    let cost: f64 = current().map(|told| told.total().cost).sum();
    // Each of those that trace a process says it.
    let mut cpus = BTreeMap::<i32, f64>::new();
    for (probed, told) in &shown {
        let of_process = cpus.entry(probed.pid).or_default();
        let told = told.as_ref().filter(|told| told.is_current());
        *of_process = of_process.max(told.map_or(0.0, |told| told.figures.cpu));
    }
    let cpu: f64 = cpus.values().sum();
    let share = if cpu > 0.0 { (cost / cpu).min(1.0) } else { 0.0 };
    let rows = shown.iter().flat_map(|(probed, told)| rows(probed, told.as_ref())).collect();
    (rows, title(&shown, share), share)
}

fn title(shown: &[(&Probed, Option<Told>)], share: f64) -> String {
    let weirs = |is_alive: bool| {
        let of = shown.iter().filter(|(probed, _)| probed.controller_alive == is_alive);
        of.map(|(probed, _)| (probed.identity.controller_pid, probed.identity.controller_start))
            .collect::<BTreeSet<_>>()
            .len()
    };
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let gone = shown.iter().filter(|(probed, _)| !probed.controller_alive).count();
    let gone = if gone > 0 { format!(", {gone} of them left by weirs that are gone") } else { String::new() };
    // Each of a run's processes says it, one a little later than another.
    let mut lost = BTreeMap::<u64, u64>::new();
    for (probed, told) in shown {
        let of_run = lost.entry(probed.identity.session).or_default();
        *of_run = (*of_run).max(told.as_ref().map_or(0, |told| told.records_lost));
    }
    let lost = lost.values().fold(0u64, |sum, lost| sum.saturating_add(*lost));
    let lost = if lost > 0 { format!(", {lost} records lost") } else { String::new() };
    format!(
        "weir top: {} traced by {}{gone}, {} of their CPU time{lost}",
        count(
            shown.iter().map(|(probed, _)| probed.pid).collect::<BTreeSet<_>>().len(),
            "process",
            "processes"
        ),
        count(weirs(true), "weir", "weirs"),
        percent(share)
    )
}

/// One for each probe; and one for the process where nothing is known of its probes.
fn rows(probed: &Probed, told: Option<&Told>) -> Vec<Row> {
    let process = || Row { pid: probed.pid, command: printable(&probed.comm), ..Row::default() };
    let probes = told.map_or(&[][..], |told| &told.figures.probes);
    let Some(told) = told.filter(|_| !probes.is_empty()) else {
        let state = match (probed.other_version, probed.controller_alive) {
            (Some(version), _) => format!("a weir of ABI version {version}"),
            (None, true) => "nothing told yet".into(),
            (None, false) => "weir gone".into(),
        };
        return vec![Row { probe: printable(&probed.identity.label), state, ..process() }];
    };
    let row = |probe: &weir_policy::figures::ProbeFigures| Row {
        probe: printable(&probe.probe),
        hits_per_s: told.hits_per_s(probe),
        ns_per_hit: told.ns_per_hit(probe),
        share: told.share(probe),
        missed: Some(probe.missed.saturating_add(probe.missed_about)),
        is_about: probe.missed_about > 0,
        state: match told.standing {
            Standing::Current => probe.state(),
            Standing::Silent => format!("{}, silent for {} s", probe.state(), told.age.as_secs()),
            Standing::Gone => "weir gone".into(),
        },
        ..process()
    };
    probes.iter().map(row).collect()
}

/// Where it is shown.
enum Out {
    Lines,
    Screen { terminal: Box<Terminal<Stdout>>, signals: SignalFd },
}

impl Out {
    /// A terminal that cannot be set up gets lines.
    fn start() -> Result<Out, Failure> {
        let terminal = stdout().is_terminal().then(|| Terminal::start(stdout())).and_then(Result::ok);
        let Some(terminal) = terminal else { return Ok(Out::Lines) };
        // Read, not suffered: the terminal is to be as it was.
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let blocked = signals.thread_block().and_then(|()| SignalFd::with_flags(&signals, flags));
        let signals = blocked.context("signalfd").map_err(Failure::Machine)?;
        Ok(Out::Screen { terminal: Box::new(terminal), signals })
    }

    /// False where nobody reads any more.
    fn show(&mut self, view: &View, is_first: bool) -> Result<bool, Failure> {
        match self {
            Out::Lines => {
                let header = if is_first { plain::header(view) } else { String::new() };
                print_on(&(header + &plain::lines(view)))
            }
            Out::Screen { terminal, .. } => {
                terminal.show(view);
                Ok(true)
            }
        }
    }

    /// True where the user asks for the end meanwhile.
    fn pause(&mut self, view: &mut View, until: Instant) -> bool {
        let left = || until.saturating_duration_since(Instant::now());
        let Out::Screen { terminal, signals } = self else {
            thread::sleep(left());
            return false;
        };
        loop {
            while let Some(key) = terminal.key() {
                if key == Key::Quit {
                    return true;
                }
                view.press(key);
                terminal.show(view);
            }
            if matches!(signals.read_signal(), Ok(Some(_))) {
                return true;
            }
            if left().is_zero() {
                return false;
            }
            terminal.wait(left().min(SIGNALS_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::told::tests::probed;

    fn one(probed: &Probed) -> (Row, String) {
        let (rows, title, _) = contents(std::slice::from_ref(probed));
        assert_eq!(rows.len(), 1, "{rows:?}");
        (rows[0].clone(), title)
    }

    #[test]
    fn a_process_has_a_row_for_each_probe() {
        let (row, title) = one(&probed());
        assert_eq!((row.pid, &*row.command, &*row.probe), (10, "a?\"b", "uprobe:/x:f"));
        assert_eq!((row.hits_per_s, row.ns_per_hit, row.share), (Some(2000.0), Some(500.0), Some(0.01)));
        assert_eq!((row.missed, row.is_about, &*row.state), (Some(7), true, "armed"));
        assert_eq!(title, "weir top: 1 process traced by 1 weir, 1.0% of their CPU time, 5 records lost");
    }

    #[test]
    fn what_a_dead_weir_said_is_told_as_such() {
        let mut left = probed();
        left.controller_alive = false;
        let (row, title) = one(&left);
        assert_eq!((row.hits_per_s, row.share, row.missed, &*row.state), (None, None, Some(7), "weir gone"));
        assert!(
            title.contains("1 process traced by 0 weirs, 1 of them left by weirs that are gone"),
            "{title}"
        );
        left.stats_page = None;
        assert_eq!(one(&left).0.state, "weir gone");
        // Its probes are out.
        left.probes = 0;
        assert_eq!(contents(&[left]).0, []);
    }

    #[test]
    fn a_weir_that_says_nothing_is_not_taken_at_its_last_word() {
        let mut silent = probed();
        silent.stats_page.as_mut().unwrap().written_ns = 0;
        let (row, _) = one(&silent);
        assert_eq!(row.hits_per_s, None);
        assert!(row.state.starts_with("armed, silent for "), "{}", row.state);
        silent.stats_page = None;
        assert_eq!(one(&silent).0.state, "nothing told yet");
        (silent.probes, silent.other_version) = (0, Some(2));
        assert_eq!(one(&silent).0.state, "a weir of ABI version 2");
    }

    #[test]
    fn fork_children_that_run_unprobed_are_left_out() {
        let mut child = probed();
        child.pid = 11;
        assert_eq!(contents(&[child]).0, []);
    }

    #[test]
    fn records_of_one_run_are_lost_once() {
        let mut other = probed();
        (other.pid, other.identity.target_pid) = (11, 11);
        other.stats_page.as_mut().unwrap().records_lost = 4;
        let (rows, title, _) = contents(&[probed(), other]);
        assert_eq!(rows.len(), 2);
        assert!(
            title.contains("2 processes traced by 1 weir") && title.ends_with(", 5 records lost"),
            "{title}"
        );
    }
}
