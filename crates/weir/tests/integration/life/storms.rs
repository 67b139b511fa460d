//! Many at once: children, threads and programs that come and go faster than they can be probed; and, at random moments, what
//! [`crate::life::rivals`] does at a few.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, random};

use crate::life::check::{DEADLINE, Run, counting, obedient, trace, weir};
use crate::life::rivals::{self, Death};

/// Processes by what they said of themselves.
fn pids(run: &Run, what: &str) -> BTreeSet<i64> {
    let said = run.said.iter().filter_map(|line| line.strip_prefix(what));
    said.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
}

/// The program, traced with its children while it does `steps`.
fn storm(name: &str, steps: &str) -> Run {
    let path = obedient(name);
    trace(&counting(&path), &["--follow", "-c", &format!("{} {steps}", quoted(&path))])
}

/// Children that wait are enrolled in time; those that do not may be gone, and count what they did while they were probed.
fn check_children(waiting: usize, hasty: usize, calls: usize) {
    let run = storm("life-storm", &format!("f {hasty} q 100 . f {waiting} w 60 c {calls} . W"));
    let (said, counted) = (run.said(), run.counted());
    let unprobed = pids(&run, "unprobed ");
    assert_eq!(said.len() + unprobed.len(), waiting, "{run:?}");
    for (pid, calls) in &said {
        assert_eq!(counted.get(pid), Some(calls), "process {pid}");
    }
    let traced: BTreeSet<i64> =
        run.processes().into_iter().filter(|(_, _, is_traced)| *is_traced).map(|(pid, ..)| pid).collect();
    assert!(said.keys().all(|pid| traced.contains(pid)), "{run:?}");
    assert!(unprobed.iter().all(|pid| !counted.contains_key(pid)), "{run:?}");
    let counts = run.counts();
    assert_eq!(counts["traced"].as_u64().unwrap() as usize, traced.len(), "{counts}");
    eprintln!("{} of {waiting} enrolled, {counts}", said.len());
}

/// So many threads in each of some children, then in their parent.
fn check_threads(children: usize, in_children: i64, in_parent: i64) {
    let steps = format!("f {children} w 100 t {in_children} c 100 . t {in_parent} c 1 W");
    let run = storm("life-thread-storm", &steps);
    let mut counted: Vec<i64> = run.counted().into_values().collect();
    counted.sort_unstable();
    let mut expected = vec![in_children + 100; children];
    expected.push(in_parent + 1);
    expected.sort_unstable();
    assert_eq!(counted, expected, "{run:?}");
}

/// Children that execute themselves so many times, forked and spawned.
fn check_programs(children: usize, forked: usize, spawned: usize) {
    let steps = format!("f {children} r {forked} c 10 . s {children} r {spawned} c 10 . W p");
    let run = storm("life-exec-storm", &steps);
    assert_eq!(pids(&run, "calls ").len(), 2 * children, "{run:?}");
    assert_eq!(pids(&run, "pid ").len(), 1, "{run:?}");
    let most = children * (forked * 10 + 10) + children * (spawned * 10 + 10);
    assert!(run.counted().into_values().sum::<i64>() <= most as i64, "{run:?}");
}

#[test]
fn two_hundred_children_at_once_count_exactly_or_are_told() {
    check_children(200, 100, 1000);
}

#[test]
fn threads_that_come_and_go_count_while_children_are_enrolled() {
    check_threads(4, 500, 2000);
}

#[test]
fn children_that_execute_programs_all_the_time_come_to_no_harm() {
    // More of them: the soak storms.
    check_programs(6, 12, 3);
}

/// Starts and joins eight threads at a time, each of which has a stack mapped and a heap, until its input ends.
const STACKS: &str = r#"
    #include <poll.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static void *some(void *unused) { free(malloc(100)); for (int i = 0; i < 100; i++) if (work(i) != i * 3 + 1) _exit(9); return 0; }
    int main(void) {
        alarm(600);
        pthread_t all[8]; struct pollfd input = {0, POLLIN, 0};
        while (!poll(&input, 1, 0)) {
            for (int i = 0; i < 8; i++) if (pthread_create(all + i, 0, some, 0)) return 8;
            for (int i = 0; i < 8; i++) pthread_join(all[i], 0);
        }
        puts("unharmed");
        return 0;
    }
"#;

#[test]
fn threads_that_map_stacks_where_code_was_to_go_are_attached_to_every_time() {
    let path = target::build("life-stacks", Source::Text(STACKS), &["-O2", "-pthread"]);
    let mut target = Daemon::spawn(Command::new(&path)).unwrap();
    let (pid, own) = (target.pid().to_string(), quoted(&path));
    // The C library's text is next to where stacks are mapped.
    let script = format!("uprobe:{own}:work, uprobe:libc:pthread_create {{ @calls = count(); exit(); }}");
    for turn in 0..8 {
        let mut trace = weir();
        trace.args(["trace", "-e", &script, "-p", &pid]);
        let ended = Daemon::spawn(trace).unwrap().finish(DEADLINE).unwrap();
        assert!(ended.status.success() && ended.stdout.contains("@calls: "), "turn {turn}: {ended:?}");
    }
    target.close_stdin();
    let ended = target.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout == "unharmed\n", "{ended:?}");
}

/// `WEIR_STORMS=SEED:STORMS` for other storms than those of every day.
#[test]
fn storms_of_any_size_and_kind_come_to_no_harm() {
    let (mut seed, storms) = random::seed_and_count("WEIR_STORMS", (5, 2));
    // splitmix64
    let mut below = |limit: usize| {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    };
    let steps = if rivals::has_strace() { rivals::STEPS.len() } else { 0 };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..storms {
        let kind = match below(6) {
            0 => {
                check_children(1 + below(60), below(60), 1 + below(2000));
                "children"
            }
            1 => {
                check_threads(below(6), below(300) as i64, below(1000) as i64);
                "threads"
            }
            2 => {
                check_programs(1 + below(6), below(60), below(60));
                "programs"
            }
            3 => {
                rivals::check_exec_amid(microseconds(below(200_000)), below(30));
                "exec-amid"
            }
            4 => {
                let end = if below(2) == 0 { rivals::End::Told } else { rivals::End::Killed };
                rivals::check_two(microseconds(below(100_000)), end, below(2) == 0);
                "two-controllers"
            }
            _ => {
                // Beyond the last call it comes to its end.
                let death = match (below(steps + 1), below(150), below(200_000)) {
                    (step, when, _) if step < steps => Death::At(rivals::STEPS[step], 1 + when),
                    (_, _, time) => Death::After(microseconds(time)),
                };
                rivals::check_killed(death, below(2) == 0, 1 + below(2));
                "killed"
            }
        };
        *counts.entry(kind).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    println!("counts: storms={storms} {}", counts.join(" "));
}

fn microseconds(count: usize) -> Duration {
    Duration::from_micros(count as u64)
}
