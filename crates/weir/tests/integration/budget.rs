//! `--budget 1%`: what probes cost a program is kept to a share of its CPU time, and what was missed therefore is told.
//!
//! The program measures itself: CPU time per call in windows of a tenth of a second, while weir comes and goes. A twin of it, which
//! is never probed, does the same on the same CPU meanwhile, and the lower quartiles of what a call takes in their windows are
//! compared: other programs and other virtual machines add to some windows, by as much as a half, and take nothing away. (Of 18
//! stretches under a budget of 1 %, the ratio of means was -1.9 to 1.6 %, that of lower quartiles 0.0 to 1.2 %.) What a probe costs
//! is in every window, since it is looked at ten times a second. No other test runs beside these.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, cpu};

const DEADLINE: Duration = Duration::from_secs(120);

/// What the probe costs without a budget, at the least; it is 0.45 on an idle machine.
const UNLIMITED_MIN: f64 = 0.15;
/// What it may cost under a budget of 1 %: with a factor of two between the two, so that load does not decide.
const COST_MAX: f64 = UNLIMITED_MIN / 2.0;
/// The same for `cargo xtask soak budget`, which runs on an idle machine and sets `WEIR_BUDGET`.
const PRECISE_COST_MAX: f64 = 0.015;
/// By so many stretches at most.
const ROUNDS_MAX: usize = 8;
/// So much CPU time of the program that is probed, which shares its CPU with its twin: twice that on an idle machine, and more where
/// the program gets less.
const STRETCH: Duration = Duration::from_millis(1250);
/// What weir has for slowing a probe: a second where nothing else runs beside the twins.
const SLOWED_AFTER: Duration = Duration::from_millis(500);
/// More than the window in which the program finds itself.
const WINDOW: Duration = Duration::from_millis(150);

/// One program at a time is measured.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls `probed` all the time, with so much work (its first argument) in between, and says every tenth of a second how many
/// tenths of a ns of CPU time a call took. With a second argument it ends after so many calls.
const CALLER: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    __attribute__((noinline)) unsigned long probed(unsigned long x, const char *name) {
        __asm__ volatile("" : "+r"(x) : "r"(name)); return x * 3 + 1;
    }
    static double now(int clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
    int main(int argc, char **argv) {
        unsigned long work = strtoul(argv[1], 0, 10), end = argc > 2 ? strtoul(argv[2], 0, 10) : -1ul, calls = 0, before = 0, sum = 0;
        double cpu = now(CLOCK_PROCESS_CPUTIME_ID), next = now(CLOCK_MONOTONIC) + 0.1;
        while (calls < end) {
            for (int i = 0; i < 1000; i++) {
                for (unsigned long n = 0; n < work; n++) __asm__ volatile("" : "+r"(n));
                sum += probed(i, "name");
            }
            calls += 1000;
            if (now(CLOCK_MONOTONIC) < next) continue;
            double used = now(CLOCK_PROCESS_CPUTIME_ID);
            printf("%.0f\n", (used - cpu) / (calls - before) * 1e10); fflush(stdout);
            cpu = used; before = calls; next = now(CLOCK_MONOTONIC) + 0.1;
        }
        fprintf(stderr, "%lu calls\n", calls);
        return sum == 0;
    }
"#;

/// A histogram for a string, of the program's constants: some 100 ns.
const COSTLY: &str = "@[str(arg1)] = hist(arg0);";
const CHEAP: &str = "@ = count();";

fn caller() -> PathBuf {
    target::build("budget-caller", Source::Text(CALLER), &["-O2"])
}

fn weir(script: &str, path: &Path, arguments: &[&str]) -> Command {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    // It says when it is there.
    let script = format!(
        "uprobe:{}:probed {{ {script} }} interval:ms:1 /!@armed/ {{ printf(\"armed\\n\"); @armed = 1; }}",
        quoted(path)
    );
    weir.args(["trace", "-f", "json", "-e", &script]).args(arguments);
    weir
}

/// Two of the program on one CPU; the first is probed now and then.
struct Twins {
    callers: [Daemon; 2],
}

impl Twins {
    fn start(path: &Path, work: &str) -> Twins {
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        let cpus = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let cpu = cpus.trim().split(['-', ',']).next_back().unwrap();
        let start = || {
            let mut command = Command::new("taskset");
            command.args(["-c", cpu]).arg(path).arg(work);
            Daemon::spawn(command).unwrap()
        };
        Twins { callers: [start(), start()] }
    }

    /// What a call takes in the first over what it takes in the second, in the next stretch.
    fn ratio(&mut self) -> f64 {
        // What was said before is of before.
        self.callers.iter_mut().for_each(|caller| skip(caller, WINDOW));
        let first = self.callers[0].pid();
        let (mut windows, end) = ([Vec::new(), Vec::new()], cpu::used_by(first) + STRETCH);
        while cpu::used_by(first) < end {
            for (caller, windows) in self.callers.iter_mut().zip(&mut windows) {
                windows.push(line(caller));
            }
        }
        let [first, second] = windows.map(|mut windows| {
            windows.sort_by(f64::total_cmp);
            windows[windows.len() / 4]
        });
        first / second
    }

    /// What the probe costs in a stretch that begins when weir has had time to slow it, as a share; and what weir said.
    fn probed(&mut self, path: &Path, script: &str, budget: &[&str]) -> (f64, String, Vec<Value>) {
        let pid = self.callers[0].pid().to_string();
        let mut command = weir(script, path, &["-p", &pid]);
        command.args(budget);
        let mut weir = Daemon::spawn(command).unwrap();
        while !weir.line(DEADLINE).unwrap().contains("armed\\n") {}
        skip(&mut self.callers[0], SLOWED_AFTER);
        let cost = self.ratio() - 1.0;
        weir.signal(Signal::SIGINT).unwrap();
        let ended = weir.finish(DEADLINE).unwrap();
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (cost, ended.stderr, lines)
    }
}

fn skip(caller: &mut Daemon, cpu_time: Duration) {
    let end = cpu::used_by(caller.pid()) + cpu_time;
    while cpu::used_by(caller.pid()) < end {
        line(caller);
    }
}

fn line(caller: &mut Daemon) -> f64 {
    caller.line(DEADLINE).unwrap().parse().expect("a number")
}

fn cost_max() -> f64 {
    if std::env::var_os("WEIR_BUDGET").is_some() { PRECISE_COST_MAX } else { COST_MAX }
}

fn slowed(lines: &[Value]) -> Value {
    let summary = lines.iter().find(|line| line["type"] == "summary").expect("a summary");
    summary["data"]["rails"]["slowed"][0].clone()
}

/// The middle one of several stretches under the budget. Told is what was done in those where something was: in one where the
/// program gets no CPU, nothing may need to be.
#[track_caller]
fn check_kept(twins: &mut Twins, path: &Path, script: &str) -> Vec<(String, Value)> {
    let (mut costs, mut told) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS_MAX {
        let (cost, stderr, lines) = twins.probed(path, script, &["--budget", "1%"]);
        costs.push(cost);
        costs.sort_by(f64::total_cmp);
        told.push((stderr, slowed(&lines)));
        if round >= 3 && costs[(round - 1) / 2] <= cost_max() {
            break;
        }
    }
    assert!(costs[(costs.len() - 1) / 2] <= cost_max(), "{costs:?}: {told:?}");
    told.retain(|(_, slowed)| !slowed.is_null());
    assert!(!told.is_empty(), "nothing was ever slowed");
    told
}

#[test]
fn a_probe_that_costs_too_much_is_slowed_within_a_second() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = caller();
    let mut twins = Twins::start(&path, "2400");
    let (cost, stderr, _) = twins.probed(&path, COSTLY, &[]);
    println!("without a budget: {:.1} %", 100.0 * cost);
    assert!(cost > UNLIMITED_MIN, "the probe itself costs {:.1} %", 100.0 * cost);
    let warned =
        stderr.lines().filter(|line| line.contains("of the CPU time of process")).collect::<Vec<_>>();
    assert_eq!(warned.len(), 1, "{stderr}");
    assert!(warned[0].contains(":probed: ") && warned[0].contains("--budget 1%"), "{stderr}");
    for (stderr, slowed) in check_kept(&mut twins, &path, COSTLY) {
        assert!(slowed["probe"].as_str().unwrap().ends_with(":probed"), "{slowed}");
        let missed = slowed["missed"].as_u64().unwrap() + slowed["missed_about"].as_u64().unwrap();
        assert!(missed > 5_000, "{slowed}");
        assert!(stderr.contains(":probed is sampled (1 of "), "{stderr}");
        assert!(stderr.contains("weir: budget 1%: uprobe:"), "{stderr}");
    }
}

#[test]
fn a_cheap_function_that_is_called_too_often_is_withdrawn() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = caller();
    let mut twins = Twins::start(&path, "100");
    for (stderr, slowed) in check_kept(&mut twins, &path, CHEAP) {
        assert_eq!(slowed["state"], "withdrawn", "{stderr}");
        assert!(slowed["missed_about"].as_u64().unwrap() > 50_000, "{slowed}");
    }
}

/// To the last one. A program that hardly gets a CPU may be shut for a while, and then there is an estimate: such a run is
/// made again.
#[test]
fn hits_and_missed_are_all_calls_of_what_is_sampled() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = caller();
    let (calls, command) = (1_500_000, format!("{} 8000 1500000", quoted(&path)));
    for _ in 0..ROUNDS_MAX {
        let Output { stdout, stderr, .. } =
            weir(COSTLY, &path, &["--budget", "5%", "-c", &command]).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let lines = stdout.lines().filter(|line| line.starts_with('{'));
        let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let summary = lines.iter().find(|line| line["type"] == "summary").unwrap();
        let slowed = slowed(&lines);
        let ran = summary["data"]["probes"][0]["entries"].as_u64().unwrap();
        let (missed, about) = (slowed["missed"].as_u64().unwrap(), slowed["missed_about"].as_u64().unwrap());
        assert!(stderr.contains("1500000 calls"), "{stderr}");
        assert!(missed > 0 && ran + missed <= calls, "{ran} ran, {slowed}: {stderr}");
        if about == 0 {
            assert_eq!(ran + missed, calls, "{ran} ran, {slowed}: {stderr}");
            return;
        }
        assert!(stderr.contains("does not run any more") || stderr.contains("is taken out"), "{stderr}");
    }
    panic!("it was shut in each of {ROUNDS_MAX} runs");
}

#[test]
fn a_budget_with_a_mistake_is_refused() {
    let ended = weir(CHEAP, &caller(), &["--budget", "1", "-c", "true"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("a number without a unit"), "{stderr}");
}
