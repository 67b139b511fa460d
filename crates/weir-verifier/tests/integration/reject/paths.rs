//! Loops that may not end, paths that meet, and programs that are made to take long.

use weir_verifier::{Limits, RejectionKind, verify};

use crate::reject::{FOUND, LOOKUP, RECORD, UNKNOWN, check, object, refuses};

#[test]
fn loops_that_may_not_end() {
    refuses("", "goto -1", "may not end");
    refuses("r0 = 0", "goto -1; exit", "may not end");
    refuses("r0 = 0", "if r0 == 0 goto -1; exit", "may not end");
    refuses(UNKNOWN, "if r6 != 0 goto -1; r0 = 0; exit", "may not end");
    refuses("", "here: call ktime_get_ns; if r0 != 0 goto here; exit", "may not end");
    refuses("r1 = 0", "here: r1 += 1; r1 &= 7; if r1 != 8 goto here; r0 = 0; exit", "may not end");
    check(RejectionKind::TooBig, "r1 = 0", "r1 += 1; goto -2", "a loop may not end");
    check(
        RejectionKind::TooBig,
        UNKNOWN,
        "r0 = 0; here: r0 += 1; if r0 < r6 goto here; exit",
        "a loop may not end",
    );
    check(
        RejectionKind::TooBig,
        "r0 = 0",
        "here: r0 += 2; if r0 != 0x7ffffff goto here; exit",
        "a loop may not end",
    );
}

#[test]
fn loops_that_may_goto_does_not_end() {
    refuses("r0 = 0", "here: may_goto here; exit", "may not end");
    refuses("r0 = 0", "may_goto -1; exit", "may not end");
    // Half of the rounds pass by it.
    refuses(
        UNKNOWN,
        "r0 = 0; here: if r6 == 5 goto there; may_goto +1; there: goto here; exit",
        "may not end",
    );
    refuses("r0 = 0", "may_goto +1; goto +0; here: goto here; exit", "may not end");
    // What a round leaves behind is checked in the next one.
    refuses(
        "r6 = 0",
        "here: may_goto +4; r1 = map[@array] ll; r6 += 1; goto here; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        "r7 = r1; r6 = r10",
        "here: may_goto +3; r0 = *(u64 *)(r6 + 0); r6 = r7; goto here; r0 = 0; exit",
        "outside the stack",
    );
    refuses(
        "r7 = r10",
        "*(u64 *)(r10 - 8) = 0; here: may_goto +3; r7 += -8; *(u64 *)(r7 + 0) = 1; goto here; r0 = 0; exit",
        "outside the stack",
    );
    refuses(
        "r6 = 0",
        "r1 = map[@array][0] ll; here: may_goto +5; r2 = r1; r2 += r6; r0 = *(u8 *)(r2 + 0); r6 += 1; goto here; r0 = 0; exit",
        "inside its 16 bytes",
    );
    refuses("r0 = 0", "may_goto -2", "ends here");
}

#[test]
fn what_only_one_of_many_paths_does() {
    // The path that is looked at first is fine; the second is not, and must not be taken for the first.
    refuses(UNKNOWN, "r7 = 8; if r6 == 0 goto +1; r7 = r10; r0 = r7; r0 += 0; exit", "would leak");
    let spill =
        "*(u64 *)(r10 - 8) = 1; if r6 == 0 goto +1; *(u64 *)(r10 - 8) = r10; r0 = *(u64 *)(r10 - 8); exit";
    refuses(UNKNOWN, spill, "would leak");
    let index = format!("{UNKNOWN}; {FOUND}");
    refuses(
        &index,
        "r7 = 8; if r6 == 0 goto +1; r7 = 9; r0 += r7; r0 = *(u64 *)(r0 + 0); exit",
        "not known to be inside",
    );
    refuses(
        &index,
        "r7 = 9; if r6 == 0 goto +1; r7 = 8; r0 += r7; r0 = *(u64 *)(r0 + 0); exit",
        "not known to be inside",
    );
    // Bytes that only one path wrote: all of a word, the other half of a word, or what a helper may leave alone.
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u32 *)(r10 - 8) = r6; r0 = *(u32 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u32 *)(r10 - 4) = 1; *(u32 *)(r10 - 8) = 1; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r6 &= 8; r1 = r10; r1 += -8; r2 = r6; r3 = 0; call 112
        r0 = *(u8 *)(r10 - 8); exit",
        "never written",
    );
    // Two lookups, one check: the other may still be null.
    let two = format!("{LOOKUP}; r7 = r0; {LOOKUP}");
    refuses(&two, "if r0 == 0 goto +1; r0 = *(u64 *)(r7 + 0); r0 = 0; exit", "must be compared with 0");
    // The same register holds one of two lookups; checking the one that is not it proves nothing.
    let either =
        format!("{UNKNOWN}; {LOOKUP}; r7 = r0; {LOOKUP}; r8 = r0; if r6 == 0 goto +1; r8 = r7; r9 = r7");
    refuses(&either, "if r9 == 0 goto +1; r0 = *(u64 *)(r8 + 0); r0 = 0; exit", "must be compared with 0");
    // A record is held on one of two paths that meet.
    refuses(&format!("{UNKNOWN}; r0 = 0; if r6 == 0 goto +8; {RECORD}"), "goto +0; r0 = 0; exit", "neither");
    // Bounds that hold for the first round of a loop alone.
    refuses(
        FOUND,
        "r7 = 0; here: r1 = r0; r1 += r7; *(u8 *)(r1 + 0) = 1; r7 += 1; if r7 != 17 goto here; r0 = 0; exit",
        "not known to be inside",
    );
}

/// Ways from a number in r7 to one in r8; r0 is kept.
const FLOWS: &[&str] = &[
    "r8 = r7",
    "w8 = w7",
    "r8 = (s8)r7",
    "r8 = r7; r8 = be64 r8; r8 = be64 r8",
    "r8 = 7; r8 += r7; r8 -= 7",
    "r8 = 0; r8 |= r7; r8 <<= 3; r8 >>= 3",
    "r8 = 8; if r7 == 8 goto +1; r8 = 9",
    "r8 = 8; w1 = w7; if w1 s<= 8 goto +1; r8 = 9",
    "*(u64 *)(r10 - 16) = r7; r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = 0; *(u8 *)(r10 - 16) = r7; r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = r7; r8 = *(u8 *)(r10 - 16)",
    "r1 = r10; r1 += -16; *(u64 *)(r1 + 0) = r7; r8 = *(u64 *)(r10 - 16)",
    "r1 = r10; r1 += -16; *(u64 *)(r10 - 24) = r1; r2 = *(u64 *)(r10 - 24); *(u64 *)(r2 + 0) = r7
        r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = r7; r1 = r10; r1 += -24; r8 = *(u64 *)(r1 + 8)",
    "r9 = r0; r1 = r7; call same; r8 = r0; r0 = r9",
    "r9 = r0; r1 = 0; r5 = r7; call fifth; r8 = r0; r0 = r9",
    "r9 = r0; *(u64 *)(r10 - 16) = r7; r1 = r10; r1 += -16; call loaded; r8 = r0; r0 = r9",
    "r9 = r0; r1 = r10; r1 += -16; r2 = r7; call stored; r8 = *(u64 *)(r10 - 16); r0 = r9",
];

const FUNCTIONS: &str = "same: r0 = r1; exit
    fifth: r6 = r5; r0 = r6; exit
    loaded: r0 = *(u64 *)(r1 + 0); exit
    stored: *(u64 *)(r1 + 0) = r2; r0 = 0; exit";

/// On one path the number is one too many; that it matters shows only where it has got to.
#[test]
fn numbers_that_matter_later() {
    let before = format!("{UNKNOWN}; {FOUND}");
    let used = "r0 += r8; r0 = *(u64 *)(r0 + 0); r0 = 0; exit";
    for flow in FLOWS {
        for (first, second) in [(8, 9), (9, 8)] {
            let paths =
                format!("r7 = {first}; if r6 == 0 goto +1; r7 = {second}; {flow}; {used}\n{FUNCTIONS}");
            refuses(&before, &paths, "not known to be inside");
        }
        let object =
            object(&before, &format!("r7 = 8; if r6 == 0 goto +1; r7 = 8; {flow}; {used}\n{FUNCTIONS}"));
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        assert!(verdict.is_ok(), "{flow}: {verdict:?}");
    }
    // A size, and one that comes from a slot.
    let read = "r1 = r10; r1 += -16; r3 = 0; call 112; r0 = 0; exit";
    for (first, second) in [(8, 24), (24, 8)] {
        let size = format!("r7 = {first}; if r6 == 0 goto +1; r7 = {second}");
        refuses(UNKNOWN, &format!("{size}; r2 = r7; {read}"), "r2 of probe_read_user");
        refuses(
            UNKNOWN,
            &format!("{size}; *(u64 *)(r10 - 24) = r7; goto +0; r2 = *(u64 *)(r10 - 24); {read}"),
            "r2 of probe_read_user",
        );
    }
    // How often a loop goes round.
    refuses(
        &before,
        "r7 = 2; if r6 == 0 goto +1; r7 = 3; here: *(u64 *)(r0 + 0) = 1; r0 += 8; r7 += -1; if r7 != 0 goto here
        r0 = 0; exit",
        "not known to be inside",
    );
}

/// Programs made to take long: judged within the limits, in a time that a user would wait.
#[test]
fn hostile_programs_take_bounded_time() {
    let fill: String = (1..=63).map(|slot| format!("*(u64 *)(r10 - {}) = 0\n", slot * 8)).collect();
    let read: String = (1..=63).map(|slot| format!("r2 = *(u64 *)(r10 - {})\n", slot * 8)).collect();
    // The counter lies where states are compared last.
    let counter =
        "*(u64 *)(r10 - 512) = 0; here: r0 = *(u64 *)(r10 - 512); r0 += 1; *(u64 *)(r10 - 512) = r0; r0 = 0
        if r0 == 0 goto here";
    // Many paths that differ there, and that all are read.
    let doubling = |label: &str| -> String {
        let branch =
            |bit: u32| format!("if r6 & {0} goto {label}{bit}; r7 += {0}; {label}{bit}:\n", 1u32 << bit);
        (0..30).map(branch).collect()
    };
    let twice = format!("{}*(u64 *)(r10 - 512) = r7\n{}", doubling("a"), doubling("b"));
    let late: String = (0..30u32)
        .map(|bit| {
            let add =
                format!("r7 = *(u64 *)(r10 - 512); r7 += {}; *(u64 *)(r10 - 512) = r7; r7 = 0", 1u32 << bit);
            format!("if r6 & {} goto c{bit}; {add}; c{bit}:\n", 1u32 << bit)
        })
        .collect();
    let programs = [
        format!("{fill}{counter}; exit"),
        format!("{UNKNOWN}; r7 = 0; {fill}*(u64 *)(r10 - 512) = r7\n{late}{read}r2 = *(u64 *)(r10 - 512); r0 = 0; exit"),
        format!("{UNKNOWN}; {fill}r7 = 0; here: r7 += 1; *(u64 *)(r10 - 8) = r7; if r7 == r6 goto there; if r7 != 100000000 goto here
            there: {read}r0 = 0; exit"),
        format!("{UNKNOWN}; r7 = 0; {fill}{twice}{read}r2 = *(u64 *)(r10 - 512); r0 = 0; exit"),
        format!("{fill}here: call ktime_get_ns; *(u64 *)(r10 - 512) = r0; if r0 != 5 goto here; {read}exit"),
    ];
    for text in programs {
        // In CPU time of this thread, which other load does not lengthen.
        let started = testkit::cpu::used_by_this_thread();
        let object = object("", &text);
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        let shown = verdict.map_or_else(|rejection| rejection.to_string(), |_| "accepted".into());
        let seconds = (testkit::cpu::used_by_this_thread() - started).as_secs_f64();
        eprintln!("{seconds:.2} s: {shown}");
        assert!(seconds < 30.0, "{seconds} s for: {shown}");
    }
}
