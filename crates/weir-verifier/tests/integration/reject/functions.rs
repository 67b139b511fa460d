//! Functions of a program: their calls, their frames, and what calls do not keep.

use weir_verifier::{Limits, verify};

use crate::reject::{LOOKUP, RECORD, RESERVE, object, refuses};

#[test]
fn functions_that_are_none() {
    refuses("r0 = 0", "call pc+7; exit", "outside the program");
    refuses("r0 = 0", "call pc-9; exit", "before the program");
    refuses("r0 = 0", "call pc+2; exit; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "call f; exit; f: r0 = 1", "ends here");
    refuses("r0 = 0", "call f; r0 = 0; f: exit", "the function ends here");
    refuses("r0 = 0", "call f; r0 = 0 ll; f: exit", "the function ends here");
    refuses("r0 = 0", "call f; exit; f: goto -2", "into another function");
    refuses("r0 = 0", "call f; goto f; f: exit", "into another function");
    refuses("r0 = 0", "call f; if r0 == 0 goto f; exit; f: exit", "into another function");
    refuses("r0 = 0", "call f; exit; f: may_goto -2; exit", "into another function");
    refuses(
        "r0 = 0",
        "exit; f: r0 = 0; exit; g: call f; exit; call g; goto f; exit",
        "into another function",
    );
}

#[test]
fn recursion_and_deep_calls() {
    refuses("r0 = 0", "call pc-2; exit", "recursive");
    refuses("r0 = 0", "call f; exit; f: call f; exit", "recursive");
    refuses("r0 = 0", "call f; exit; f: call g; exit; g: call f; exit", "recursive");
    refuses("r0 = 0", "exit; f: call g; exit; g: call f; exit", "recursive");
    let chain = |calls: usize| {
        let call = |at: usize| format!("; f{at}: call f{}; exit", at + 1);
        let rest: String = (1..calls).map(call).collect();
        format!("r0 = 0; call f1; exit{rest}; f{calls}: r0 = 0; exit")
    };
    refuses("", &chain(8), "nest 9 deep");
    refuses("", &chain(30), "nest 9 deep");
    assert!(verify(&object("", &chain(7)).programs[0], &[], &Limits::default()).is_ok());
    // However the functions stand, and whoever is looked at first.
    refuses("", &format!("call h; {}; g: call f1; exit; h: call g; exit", chain(6)), "nest 9 deep");
}

#[test]
fn frames_that_do_not_fit_together() {
    refuses(
        "*(u64 *)(r10 - 256) = 0",
        "call f; exit; f: *(u64 *)(r10 - 264) = 0; r0 = 0; exit",
        "528 bytes together",
    );
    refuses(
        "*(u64 *)(r10 - 512) = 0",
        "call f; exit; f: *(u8 *)(r10 - 1) = 0; r0 = 0; exit",
        "528 bytes together",
    );
    // What a callee reaches in its caller's frame is the caller's.
    refuses(
        "r1 = r10",
        "call f; exit; f: *(u64 *)(r1 - 512) = 0; *(u64 *)(r10 - 8) = 0; r0 = 0; exit",
        "together",
    );
    refuses("r1 = r10", "call f; exit; f: *(u64 *)(r1 - 520) = 0; r0 = 0; exit", "outside the stack");
    refuses("r1 = r10", "call f; exit; f: *(u64 *)(r1 + 0) = 0; r0 = 0; exit", "outside the stack");
}

#[test]
fn what_calls_do_not_keep() {
    let nothing = "exit; f: r0 = 0; exit";
    for register in 1..=5 {
        let text = format!("r{register} = 1; call f; r0 = r{register}; {nothing}");
        refuses("", &text, "a call clears r1 to r5");
    }
    for register in 6..=9 {
        refuses(
            "",
            &format!("r{register} = 1; call f; exit; f: r0 = r{register}; exit"),
            "was never written",
        );
    }
    refuses("", "call f; exit; f: r0 = r2; exit", "r2 is read but holds nothing");
    refuses("", "r0 = 1; call f; exit; f: r6 = r0; exit", "r0 is read but holds nothing");
    refuses("", "call f; r0 += 1; exit; f: exit", "r0 is read but holds nothing");
    refuses("", "call f; exit; f: exit", "r0 holds nothing");
    // Each frame is new.
    refuses("", "*(u64 *)(r10 - 8) = 1; call f; exit; f: r0 = *(u64 *)(r10 - 8); exit", "never written");
    refuses(
        "",
        "call f; call g; exit; f: *(u64 *)(r10 - 8) = 1; r0 = 0; exit; g: r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
}

#[test]
fn pointers_into_frames_that_end() {
    refuses("", "call f; r0 = 0; exit; f: r0 = r10; exit", "stack of the function that ends");
    refuses("", "call f; r0 = 0; exit; f: r0 = r10; r0 += -8; exit", "stack of the function that ends");
    refuses(
        "r1 = r10",
        "r1 += -8; call f; r0 = 0; exit; f: *(u64 *)(r1 + 0) = r10; r0 = 0; exit",
        "would outlive",
    );
    refuses(
        "r1 = r10",
        "r1 += -8; call f; r0 = 0; exit; f: store_release((u64 *)(r1 + 0), r10); r0 = 0; exit",
        "would outlive",
    );
    refuses("", "r1 = r10; call f; exit; f: r0 = r1; exit", "r0 is a stack pointer");
    // What a function leaves for its caller is checked there.
    refuses(RESERVE, "r1 = r0; call f; exit; f: r0 = 0; exit", "neither submitted nor discarded");
    refuses(
        RECORD,
        "r1 = r6; call f; r0 = *(u64 *)(r6 + 0); exit; f: r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "r6 is read",
    );
    refuses(
        LOOKUP,
        "r1 = r0; r6 = r0; call f; r0 = *(u64 *)(r6 + 0); exit; f: r0 = 0; exit",
        "compared with 0 first",
    );
    let half_checked =
        "r6 = r0; r1 = r0; call f; if r0 == 0 goto +2; r0 = *(u64 *)(r6 + 0); exit; r0 = 0; exit
        f: r0 = 1; if r1 != 0 goto +1; exit; r0 = 0; exit";
    refuses(LOOKUP, half_checked, "is a number");
}
