//! The kernel's verdict beside ours, on random programs: where they differ, the reason is on a list with its cause.
//!
//! Neither verdict is the right one by itself: the kernel takes what is useless but harmless there (an address given
//! away by root), and refuses what its bookkeeping cannot follow. A new reason fails the test, so that a verdict never
//! changes unseen. `WEIR_VERDICTS=SEED:COUNT` tries so many programs; how often each reason occurred is printed.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_verifier::{Limits, verify};

use crate::generate::program;
use crate::worlds::Random;

/// Programs of a run of the suite.
const DAILY: Daily = Daily { seed: 6_18, at_least: 80, at_most: 800, budget: Duration::from_secs(2) };

/// Why the kernel follows a path that cannot be, and stumbles there.
const FINER: &str = "on a path that is ruled out here: we follow quotients, remainders and shifts of known numbers, and \
                     know that a look-up in an array with a constant key inside it is not null";
/// RFC 9669 says what these give; nothing is wrong with them.
const DEFINED: &str =
    "a constant that the RFC gives a meaning: shift counts are taken modulo the width, division by 0 is 0";
/// Where Linux gives up and nothing is wrong.
const INDEXED: &str =
    "a stack pointer that is moved down by a bounded number, or an atomic operation through one";
/// What a program of root may do in the kernel.
const PRIVILEGED: &str =
    "the kernel lets root's programs give addresses away, as numbers or to maps; here nobody may";
const NOT_CALLED: &str = "in a callback that is called 0 times, which the kernel does not look at";

/// We accept, the kernel does not: what its log says, and why that is no hole.
#[rustfmt::skip]
const WE_ALONE_ACCEPT: &[(&str, &str)] = &[
    ("!read_ok",                        FINER),
    ("invalid mem access",              FINER),
    ("pointer arithmetic",              FINER),
    ("expected=",                       FINER),
    ("invalid write to stack",          FINER),
    ("invalid read from stack",         FINER),
    ("invalid variable-offset",         FINER),
    ("invalid access to",               FINER),
    ("should have been in",             FINER),
    ("invalid zero-sized read",         FINER),
    ("cannot return stack pointer",     FINER),
    ("math between",                    FINER),
    ("min value is negative",           FINER),
    ("unbounded m",                     FINER),
    ("Unreleased reference",            FINER),
    ("variable stack access",           FINER),
    ("misaligned",                      FINER),
    ("leads to invalid memory access",  FINER),
    ("max value is outside",            FINER),
    ("min value is outside",            FINER),
    ("bitwise operator",                FINER),
    ("callback function not allowed",   FINER),
    ("ctx is not allowed",              FINER),
    ("pointer &= pointer",              FINER),
    ("dereference of modified ctx",     FINER),
    ("invalid size of register spill",  FINER),
    ("frames is too deep",              FINER),
    ("pointer be out of bounds",        FINER),
    ("old state:",                      FINER),
    ("back-edge",                       FINER),
    ("invalid bpf_context access",      "the floating-point arguments behind pt_regs are our own"),
    ("infinite loop detected",          FINER),
    ("invalid shift",                   DEFINED),
    ("div by zero",                     DEFINED),
    ("BPF program is too large",        "it counts a loop's rounds, we join them; or the other way round"),
    ("subtraction from stack pointer",  INDEXED),
    ("variable offset stack pointer",   INDEXED),
    ("cannot spill pointers to stack",  "a pointer that outlives the function may stand in its caller's frame here"),
    ("No program to jit",               "this kernel's own fault, with a callback in a function that nothing calls"),
    ("The sequence of N jumps is too complex", "its bound of waiting branches is 8,192, ours counts otherwise"),
];

/// The kernel accepts, we do not: what our message says, and why not.
#[rustfmt::skip]
const KERNEL_ALONE_ACCEPTS: &[(&str, &str)] = &[
    ("would leak",                      PRIVILEGED),
    ("is compared with something else", PRIVILEGED),
    ("only be compared with",           PRIVILEGED),
    ("would tell addresses",            PRIVILEGED),
    ("may be outside its object and cannot be compared", PRIVILEGED),
    ("arithmetic on",                   PRIVILEGED),
    ("only a part of",                  PRIVILEGED),
    ("where a number is needed",        PRIVILEGED),
    ("an atomic operation on",          PRIVILEGED),
    ("part of a pointer",               PRIVILEGED),
    ("was never written",               NOT_CALLED),
    ("holds nothing",                   NOT_CALLED),
    ("are outside the stack",           NOT_CALLED),
    ("are not known to be inside",      NOT_CALLED),
    ("a callback answers",              NOT_CALLED),
    ("would outlive it",                NOT_CALLED),
    ("is the frame pointer and cannot be written", "in code that no path reaches, which the kernel does not look at"),
    ("the loop may not end",            "rounds of may_goto are joined, which loses what an outer loop counts"),
    ("and no end was found",            "our walk joins less here; the limit of this test is 20,000 instructions, the kernel's a million"),
];

#[test]
fn verdicts_differ_for_known_reasons_alone() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("weir-verifier::kernel_verdicts", reason);
    }
    let cases = Cases::of("WEIR_VERDICTS", DAILY);
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let mut random = Random(cases.seed());
    let mut reasons: BTreeMap<(bool, String), (usize, String)> = BTreeMap::new();
    let (mut both, mut neither) = (0, 0);
    for _ in cases {
        let snippets = 2 + random.below(10);
        let object = program(&mut random, snippets);
        let ours = verify(&object.programs[0], &object.maps, &limits);
        let theirs = testkit::kernel::load(&object);
        let text = || {
            format!(
                "{}\n{}",
                weir_ebpf::asm::print(&object),
                match (&ours, &theirs) {
                    (Err(ours), _) => ours.to_string(),
                    (_, Err(theirs)) => theirs.to_string(),
                    _ => String::new(),
                }
            )
        };
        let key = match (&ours, &theirs) {
            (Ok(_), Ok(_)) => {
                both += 1;
                continue;
            }
            (Err(_), Err(_)) => {
                neither += 1;
                continue;
            }
            (Ok(_), Err(theirs)) => (true, general(last_words(&theirs.to_string()))),
            (Err(ours), Ok(_)) => (false, general(&ours.message)),
        };
        let entry = reasons.entry(key).or_insert_with(|| (0, text()));
        entry.0 += 1;
    }
    eprintln!("{both} accepted by both, {neither} by neither");
    let mut unknown = Vec::new();
    for ((we_accept, reason), (count, example)) in &reasons {
        let (known, who) = match we_accept {
            true => (WE_ALONE_ACCEPT, "the kernel refuses"),
            false => (KERNEL_ALONE_ACCEPTS, "we refuse"),
        };
        let cause = known.iter().find(|(words, _)| reason.contains(words)).map(|(_, cause)| *cause);
        eprintln!("{count:6} {who}: {reason} [{}]", cause.unwrap_or("UNKNOWN"));
        if cause.is_none() {
            unknown.push(format!("{who}: {reason}\n{example}"));
        }
    }
    assert!(unknown.is_empty(), "{} new reasons:\n{}", unknown.len(), unknown.join("\n\n"));
    assert!(both > 0 && neither > 0, "nothing was compared");
}

/// The line of the kernel's log that says why: the last but those with its statistics.
fn last_words(error: &str) -> &str {
    let statistics = ["processed ", "verification time", "stack depth", "max_states"];
    let mut lines = error.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.find(|line| !statistics.iter().any(|start| line.starts_with(start))).unwrap_or_default()
}

/// Without the numbers, which differ from program to program.
fn general(message: &str) -> String {
    let mut general = String::new();
    let mut in_number = false;
    for char in message.chars() {
        let is_digit = char.is_ascii_digit() || in_number && (char == 'x' || char.is_ascii_hexdigit());
        if is_digit && !in_number {
            general.push('N');
        }
        in_number = is_digit;
        if !is_digit {
            general.push(char);
        }
    }
    general
}
