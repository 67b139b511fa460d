//! The kernel's verdict beside ours, on random programs of two generators: where they differ, the reason is on a list
//! with its cause.
//!
//! Neither verdict is the right one by itself: the kernel takes what is useless but harmless there (an address given
//! away by root), and refuses what its bookkeeping cannot follow. A new reason fails the test, so that a verdict never
//! changes unseen. `WEIR_VERDICTS=SEED:COUNT` tries so many programs of each generator, for `cargo xtask soak verdicts`;
//! how often each reason occurred is printed.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::kernel::Oracle;
use testkit::random::{Cases, Daily};
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::{Object, ProgramKind, asm, helper};
use weir_verifier::{Limits, verify};

use crate::worlds::Random;
use crate::{evolve, generate};

/// Programs of each generator in a run of the suite.
const DAILY: Daily = Daily { seed: 6_18, at_least: 80, at_most: 800, budget: Duration::from_secs(2) };

/// Its usual verdict takes 0.15 ms; of a program that it follows for a million instructions, seconds.
const VERDICT_WITHIN: Duration = Duration::from_millis(20);

type Generator = fn(&mut Random) -> Object;

/// What writes programs, and the maps that they use.
const GENERATORS: [(&str, &str, Generator); 2] = [
    ("nearly right", generate::MAPS, |random| {
        let snippets = 2 + random.below(10);
        generate::program(random, snippets)
    }),
    ("evolving numbers", evolve::MAPS, |random| {
        let snippets = 3 + random.below(16);
        evolve::program(random, snippets)
    }),
];

/// Why two verdicts differ: a name to count by, and the words.
type Cause = (&'static str, &'static str);

/// Why the kernel follows a path that cannot be, and stumbles there.
const FINER: Cause = (
    "finer",
    "on a path that is ruled out here: we follow quotients, remainders and shifts of known numbers, and \
     know that a look-up in an array with a constant key inside it is not null",
);
/// RFC 9669 says what these give; nothing is wrong with them.
const DEFINED: Cause = (
    "defined",
    "a constant that the RFC gives a meaning: shift counts are taken modulo the width, division by 0 is 0",
);
/// Where Linux gives up and nothing is wrong.
const INDEXED: Cause =
    ("indexed", "a stack pointer that is moved down by a bounded number, or an atomic operation through one");
const LINKED: Cause = (
    "linked",
    "a pointer is moved by a bounded number that is another one and a large constant, which the kernel takes for the distance",
);
const FLOATS: Cause = ("floats", "the floating-point arguments behind pt_regs are our own");
const TOO_LARGE: Cause =
    ("too_large", "its bounds are on each way through a loop, and on branches that wait; ours are others");
const OUTLIVES: Cause =
    ("outlives", "a pointer that outlives the function may stand in its caller's frame here");
const ITS_FAULT: Cause =
    ("its_fault", "this kernel's own fault, with a callback in a function that nothing calls");

/// What a program of root may do in the kernel.
const PRIVILEGED: Cause = (
    "privileged",
    "the kernel lets root's programs give addresses away, as numbers or to maps, also those of records that are gone; \
     here nobody may",
);
const NOT_CALLED: Cause =
    ("not_called", "in a callback that is called 0 times, or after one, which the kernel does not look at");
const NOT_REACHED: Cause = ("not_reached", "in code that no path reaches, which the kernel does not look at");
/// Where we give up and nothing is wrong.
const JOINED: Cause = (
    "joined",
    "ways that meet are joined, where a program goes round or where they are many, and what a joined number says of \
     others is lost; the kernel follows each way",
);
const RULED_OUT: Cause = (
    "ruled_out",
    "on a path that the kernel rules out: by what one number says of another, where here nothing rests on a number that is \
     nowhere looked at; or since zeros that are written somewhere among zeros leave zeros",
);
const FAR: Cause = (
    "far",
    "how far up a pointer is moved the kernel asks where it is used, we where it is moved: nothing that is learned later \
     makes it usable there",
);
const KEY: Cause =
    ("key", "a callback's key is where the map has it in the kernel, here a copy for one round");
const LESS: Cause = (
    "less_joined",
    "our walk joins less here; the limit of this test is 20,000 instructions, the kernel's a million",
);

/// We accept, the kernel does not: what its log says, and why that is no hole.
#[rustfmt::skip]
const WE_ALONE_ACCEPT: &[(&str, Cause)] = &[
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
    ("reference leak",                  FINER),
    ("tried to subtract pointer",       FINER),
    ("negative offset",                 FINER),
    ("offset is outside of the packet", FINER),
    ("pointer offset N is not allowed", FINER),
    ("pointer offset -N is not allowed", LINKED),
    ("variable ctx access",             FINER),
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
    ("invalid bpf_context access",      FLOATS),
    ("infinite loop detected",          FINER),
    ("invalid size of register fill",   FINER),
    ("invalid shift",                   DEFINED),
    ("div by zero",                     DEFINED),
    ("BPF program is too large",        TOO_LARGE),
    ("subtraction from stack pointer",  INDEXED),
    ("variable offset stack pointer",   INDEXED),
    ("pointer prohibited",              FINER),
    ("cannot spill pointers to stack",  OUTLIVES),
    ("No program to jit",               ITS_FAULT),
    ("The sequence of N jumps is too complex", TOO_LARGE),
];

/// The kernel accepts, we do not: what our message says, and why not.
#[rustfmt::skip]
const KERNEL_ALONE_ACCEPTS: &[(&str, Cause)] = &[
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
    ("would outlive the callback",      KEY),
    ("where it would become a number",  PRIVILEGED),
    ("hold bytes that were never written", PRIVILEGED),
    ("is the frame pointer and cannot be written", NOT_REACHED),
    ("the loop may not end",            JOINED),
    ("and no end was found",            LESS),
    ("was never written, or it pointed to a record", PRIVILEGED),
    ("are not known to be inside",      JOINED),
    ("its distance must be known",      FAR),
    ("the size is",                     RULED_OUT),
    ("must be compared with",           RULED_OUT),
];

/// The same, of programs that go round or have callbacks alone; these come first.
#[rustfmt::skip]
const KERNEL_ALONE_ACCEPTS_ROUNDS: &[(&str, Cause)] = &[
    ("the size is",                     JOINED),
    ("must be compared with",           JOINED),
    ("may not be aligned",              JOINED),
    ("was never written",               NOT_CALLED),
    ("holds nothing",                   NOT_CALLED),
    ("are outside the stack",           NOT_CALLED),
    ("are not known to be inside",      NOT_CALLED),
    ("a callback answers",              NOT_CALLED),
    ("would outlive it",                NOT_CALLED),
    ("neither submitted nor discarded", NOT_CALLED),
    ("which the helper does not take",  NOT_CALLED),
    ("is a number (",  NOT_CALLED),
    ("the start of a ring record is needed", NOT_CALLED),
    ("points into the stack of the function that ends", NOT_CALLED),
    ("is not aligned to N bytes",       NOT_CALLED),
];

#[test]
fn verdicts_differ_for_known_reasons_alone() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("weir-verifier::kernel_verdicts", reason);
    }
    let cases = Cases::of("WEIR_VERDICTS", DAILY);
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let mut random = Random(testkit::random::state(cases.seed()));
    let oracles = GENERATORS.map(|(_, maps, _)| {
        Oracle::over(&asm::parse(maps).expect("is assembly text").maps).expect("the kernel has such maps")
    });
    // Who accepts, whether the program goes round, and the other's reason; how often, and an example.
    let mut reasons: BTreeMap<(bool, bool, String), (usize, String)> = BTreeMap::new();
    let (mut both, mut neither, mut too_long) = (0, 0, 0);
    for (generator, oracle) in cases.flat_map(|_| GENERATORS.iter().zip(&oracles)) {
        let object = loadable(generator.2, &mut random);
        let ours = verify(&object.programs[0], &object.maps, &limits);
        let Some(theirs) = oracle.loads_within(&object.programs[0], VERDICT_WITHIN) else {
            too_long += 1;
            continue;
        };
        let rounds = goes_round(&object);
        let key = match (&ours, &theirs) {
            (Ok(_), Ok(_)) => {
                both += 1;
                continue;
            }
            (Err(_), Err(_)) => {
                neither += 1;
                continue;
            }
            (Ok(_), Err(theirs)) => (true, rounds, general(last_words(&theirs.to_string()))),
            (Err(ours), Ok(_)) => (false, rounds, general(&ours.message)),
        };
        let text = || {
            let why = match (&ours, &theirs) {
                (Err(ours), _) => ours.to_string(),
                (_, Err(theirs)) => theirs.to_string(),
                _ => String::new(),
            };
            format!("{}: {}\n{why}", generator.0, asm::print(&object))
        };
        reasons.entry(key).or_insert_with(|| (0, text())).0 += 1;
    }
    let mut unknown = Vec::new();
    let mut causes: BTreeMap<String, usize> = BTreeMap::new();
    for ((we_accept, rounds, reason), (count, example)) in &reasons {
        let also = if *rounds && !we_accept { KERNEL_ALONE_ACCEPTS_ROUNDS } else { &[] };
        let (known, who) = match we_accept {
            true => (WE_ALONE_ACCEPT, "the kernel refuses"),
            false => (KERNEL_ALONE_ACCEPTS, "we refuse"),
        };
        let cause =
            also.iter().chain(known).find(|(words, _)| reason.contains(words)).map(|(_, cause)| *cause);
        let (name, words) = cause.unwrap_or(("unknown", "UNKNOWN"));
        println!("{count:6} {who}: {reason} [{words}]");
        let alone = if *we_accept { "we_alone" } else { "kernel_alone" };
        *causes.entry(format!("{alone}_{name}")).or_default() += count;
        if cause.is_none() {
            unknown.push(format!("{who}: {reason}\n{example}"));
        }
    }
    let causes: String = causes.iter().map(|(cause, count)| format!(" {cause}={count}")).collect();
    println!("counts: both={both} neither={neither} too_long={too_long}{causes}");
    assert!(unknown.is_empty(), "{} new reasons:\n{}", unknown.len(), unknown.join("\n\n"));
    assert!(both > 0 && neither > 0, "nothing was compared");
}

/// Some instruction leads back, or a helper calls back.
fn goes_round(object: &Object) -> bool {
    let is_back = |insn: &weir_ebpf::Insn| match insn.class() {
        class::JMP if insn.opcode == class::JMP | jmp::CALL => {
            insn.src == pseudo::HELPER
                && helper::by_id(insn.imm).is_some_and(|proto| proto.callback().is_some())
        }
        class::JMP if insn.opcode & 0xf0 == jmp::EXIT => false,
        class::JMP | class::JMP32 => insn.off < 0,
        _ => false,
    };
    object.programs[0].insns.iter().any(is_back)
}

/// A program of a kind that the kernel has.
fn loadable(generator: Generator, random: &mut Random) -> Object {
    loop {
        let object = generator(random);
        if !matches!(object.programs[0].kind, ProgramKind::Memory { .. }) {
            return object;
        }
    }
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
