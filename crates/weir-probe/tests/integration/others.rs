//! Several weirs at the same functions of one process: each counts every call from when it has come until it goes, in whatever order
//! they go, and nothing of any is left when the last one has gone.

use std::time::Duration;

use testkit::{mapped, wait};
use weir_probe::Attachment;

use crate::consumers::{DEADLINE, Running, THREADED, THREADS, count};
use crate::counting::counting;

/// At once, at most.
const WEIRS: usize = 6;

/// One that has come while threads run.
struct Weir {
    attachment: Attachment,
    /// What the one that was there before all had counted before and after this one came.
    before: u64,
    after: u64,
}

/// A weir under another adds and removes programs, which runs as ever; its own places are led elsewhere by its own code.
#[test]
fn a_weir_under_another_adds_and_removes_programs() {
    let mut running = Running::start("consumers", THREADED);
    let text = running.text();
    let (mut below, mut above) = (running.attach(0b011), running.attach(0b011));
    running.daemon.write("\n").unwrap();
    for round in 0..6 {
        let added = below.add(&running.sites(0b011), &[counting(1)]).unwrap();
        assert!(added.outcomes.iter().all(Result::is_ok), "round {round}: {:?}", added.outcomes);
        let seen = count(&below, 1);
        assert!(wait::until(DEADLINE, || count(&below, 1) > seen + 1000), "round {round}: none counted");
        let report = below.remove(added.consumer).unwrap();
        assert!(report.foreign.is_empty(), "round {round}: {report:?}");
        if round == 3 {
            above.detach().unwrap();
        }
    }
    let calls = running.calls() / 3 * 2;
    assert_eq!(count(&below, 0), calls, "the first of it counted every call");
    below.detach().unwrap();
    assert_eq!(running.text(), text);
    let left = mapped::of_weir_in(running.daemon.pid());
    assert!(left.is_empty(), "{left:?}");
    running.daemon.write("\n").unwrap();
    running.daemon.finish(DEADLINE).unwrap();
}

#[test]
fn weirs_come_and_go_while_another_counts_every_call() {
    let mut running = Running::start("consumers", THREADED);
    let text = running.text();
    let mut first = running.attach(0b011);
    running.daemon.write("\n").unwrap();
    let mut random = 4711u32;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (random >> 8) as usize % bound
    };
    let mut weirs: Vec<Weir> = Vec::new();
    let mut most = 0;
    for step in 0..60 {
        if weirs.is_empty() || weirs.len() < WEIRS && next(2) == 0 {
            let before = count(&first, 0);
            let which = [0b011, 0b010, 0b011, 0b001][next(4)];
            let attachment = running.attach(which);
            let (after, before) = (count(&first, 0), if which == 0b011 { before } else { u64::MAX });
            weirs.push(Weir { attachment, before, after });
        } else {
            let mut weir = weirs.swap_remove(next(weirs.len()));
            let first_before = count(&first, 0);
            let report = weir.attachment.detach().unwrap();
            assert!(report.foreign.is_empty(), "step {step}: {report:?}");
            let (own, first_after) = (count(&weir.attachment, 0), count(&first, 0));
            if weir.before != u64::MAX {
                // Each thread may have been on its way through one's trampoline and not the other's.
                let least = (first_before - weir.after).saturating_sub(THREADS);
                assert!(
                    least <= own && own <= first_after - weir.before + THREADS,
                    "step {step}: {least} <= {own}"
                );
            }
            assert!(
                wait::until_used(running.daemon.pid(), Duration::from_micros(300), DEADLINE),
                "step {step}"
            );
            assert!(count(&weir.attachment, 0) <= own + THREADS, "step {step}: it counts on");
        }
        most = most.max(weirs.len());
    }
    assert_eq!(most, WEIRS);
    // Of three functions that the threads call in turn.
    let calls = running.calls() / 3 * 2;
    assert_eq!(count(&first, 0), calls, "the first counted every call");
    assert!(calls > 10_000, "{calls} calls");
    // The one under all others before them, and no thread calls.
    first.detach().unwrap();
    while !weirs.is_empty() {
        weirs.swap_remove(next(weirs.len())).attachment.detach().unwrap();
    }
    assert_eq!(running.text(), text);
    let left = mapped::of_weir_in(running.daemon.pid());
    assert!(left.is_empty(), "{left:?}");
    running.daemon.write("\n").unwrap();
    running.daemon.finish(DEADLINE).unwrap();
}
