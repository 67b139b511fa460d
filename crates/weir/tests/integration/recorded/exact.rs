//! Recorded and discarded are what was emitted, to the last event: threads that signals interrupt and that fork, and children that are
//! recorded themselves.
//!
//! `WEIR_RECORDED=SEED:EVENTS` for other runs than those of every day, of about so many events (`cargo xtask soak record`).

use std::process::Output;

use testkit::random;

use crate::recorded::emitters::{DEADLINE, Ledger, Place, Plan, weir};
use crate::recorded::found::{Found, by_babeltrace2};

/// Events that babeltrace2 prints too: it takes ten times as long as our reader.
const PRINTED_MAX: u64 = 150_000;

/// What `weir record` said of a run that it ended well.
pub(super) fn record(plan: &Plan, place: &Place, options: &[&str]) -> (String, Ledger) {
    let mut command = weir(["record", "-e", "emit:*", "--follow", "-o"]);
    command.arg(place.trace()).args(options).arg("--").args(plan.command(place));
    let ended = testkit::Daemon::spawn(command).unwrap().finish(5 * DEADLINE).unwrap();
    let said = ended.stderr;
    assert!(ended.status.success() && ended.stdout == "done\n", "{plan:?}: {}{said}", ended.stdout);
    let ledger = Ledger::read(&place.ledger()).expect("a ledger");
    plan.is_done(&ledger);
    (said, ledger)
}

/// `N events recorded` and, of one of them, `NAME: N, M discarded`.
pub(super) fn number_before(said: &str, what: &str) -> u64 {
    let before = said.split_once(what).unwrap_or_else(|| panic!("{what:?} is not in {said}")).0;
    before.rsplit([' ', '\n']).next().unwrap().parse().expect(said)
}

/// All that fits into rings that have room for all of it.
fn check_all(name: &str, plan: &Plan) -> (u64, String) {
    let place = Place::new(name);
    let options = ["--size", "64M", "-t", "vpid,vtid"];
    let (said, ledger) = record(plan, &place, &options);
    let found = Found::read(&place.trace());
    assert_eq!(found.damage, Vec::<String>::new(), "{plan:?}: {said}");
    found.is_all_of(&ledger);
    assert_eq!(number_before(&said, " events recorded"), found.recorded(), "{said}");
    assert!(!said.contains("the ring was full"), "{said}");
    found.has_threads_of(&ledger);
    if ledger.done() <= PRINTED_MAX
        && let Some(printed) = by_babeltrace2(&place.trace())
    {
        printed.is_all_of(&ledger);
    }
    (ledger.done(), said)
}

/// What the rings, of `bytes` each, have no room for is counted, each event of it. `mode`: options that say what becomes of it.
fn check_overload(name: &str, plan: &Plan, bytes: &str, mode: &[&str]) -> u64 {
    let place = Place::new(name);
    let options = [&["--size", bytes], mode].concat();
    let (said, ledger) = record(plan, &place, &options);
    let found = Found::read(&place.trace());
    assert_eq!(found.damage, Vec::<String>::new(), "{plan:?}: {said}");
    assert_eq!(found.recorded() + found.discarded, ledger.done(), "{plan:?}: {said}");
    assert_eq!(number_before(&said, " events recorded"), found.recorded(), "{said}");
    assert!(found.discarded > 0, "rings of {bytes} have room for {} events?", ledger.done());
    for (name, emitted) in ledger.by_name() {
        let recorded = found.by_name.get(name).copied().unwrap_or(0);
        let told = match emitted - recorded {
            0 => format!("weir:   {name}: {recorded}\n"),
            full => format!("weir:   {name}: {recorded}, {full} discarded: the ring was full\n"),
        };
        assert!(said.contains(&told), "{told}: {said}");
    }
    if let Some(printed) = (found.recorded() <= PRINTED_MAX).then(|| by_babeltrace2(&place.trace())).flatten()
    {
        assert_eq!((printed.recorded(), printed.discarded), (found.recorded(), found.discarded));
        assert_eq!(printed.numbers, found.numbers);
    }
    ledger.done()
}

#[test]
fn what_both_readers_find_is_what_was_emitted() {
    let plan = Plan { threads: 8, count: 10_000, children: 3, events: 1_500, signals_us: 100, pause_us: 0 };
    check_all("both", &plan);
}

/// Strings are read into scratch memory, which a preempted thread keeps until it runs again.
#[test]
fn of_many_more_threads_than_cpus_each_string_is_recorded() {
    let plan = Plan { threads: 32, count: 10_000, children: 0, events: 0, signals_us: 0, pause_us: 0 };
    check_all("preempted", &plan);
}

#[test]
fn events_that_forked_children_emit_are_recorded_as_theirs() {
    let plan = Plan { threads: 1, count: 64, children: 6, events: 640, signals_us: 0, pause_us: 0 };
    let (_, said) = check_all("children", &plan);
    // They wait at their first event.
    assert!(!said.contains("before probes were in them"), "{said}");
}

/// The whole count: a part of the events in rings that have room for all, the others in rings that have not.
#[test]
fn a_million_events_are_recorded_or_counted() {
    let (seed, events) = random::seed_and_count("WEIR_RECORDED", (1, 1_000_000));
    let mut state = random::state(seed);
    let mut pick = |from: &[u64]| from[random::next(&mut state) as usize % from.len()];
    // With the first seed eight threads, and signals without a pause for breath.
    let threads = if seed == 1 { 8 } else { pick(&[1, 2, 3, 5, 8, 16]) };
    let (children, per_child) = (pick(&[2, 4]), pick(&[500, 3_000]));
    let signals_us = if seed == 1 { 100 } else { pick(&[0, 50, 100, 1_000]) };
    let pause_us = pick(&[0, 0, 100]);
    let count = events * 4 / 10 / threads;
    let plan = Plan { threads, count, children, events: per_child, signals_us, pause_us };
    let (all, _) = check_all("all", &plan);
    let size = if seed == 1 { "16K" } else { ["16K", "32K", "64K"][pick(&[0, 1, 2]) as usize] };
    // While weir puts probes into a child it empties no ring: half of the runs are without.
    let children = if seed % 2 == 0 { children } else { 0 };
    let overload = Plan { count: events * 6 / 10 / threads, children, pause_us: 0, ..plan };
    let discarding = check_overload("overload", &overload, size, &[]);
    println!("counts: events={} discarding={discarding}", all + discarding);
}

#[test]
fn numbers_are_found_in_what_weir_says() {
    let said = "weir: 12 events recorded, 3 discarded; 5 bytes of fields, in x\nweir:   a:b: 12\n";
    assert_eq!(number_before(said, " events recorded"), 12);
    let output = Output { status: Default::default(), stdout: Vec::new(), stderr: Vec::new() };
    assert_eq!(Found::parse(&output).recorded(), 0);
}
