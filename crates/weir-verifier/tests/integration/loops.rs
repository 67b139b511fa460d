//! Loops: what is accepted without following every round keeps inside in every round, and ends; what a later round
//! would do wrong is refused; and what verifying takes depends on the length of a loop, not on its rounds.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_ebpf::{Object, asm};
use weir_verifier::{Limits, RejectionKind, verify};

use crate::worlds::{Random, Worlds};

const MAPS: &str = "
map @bytes array key 4 value 64 entries 1
program \"p\" probe
";

/// r7: 64 bytes of a map. r6: any number.
const START: &str = "r6 = *(u64 *)(r1 + 0x70); r7 = map[@bytes][0] ll; r0 = 0";

fn object(text: &str) -> Object {
    let lines = format!("{MAPS}{START}; {text}").replace(';', "\n");
    asm::parse(&lines).unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

#[test]
fn the_rounds_of_a_loop_cost_nothing() {
    for (text, insns) in [
        ("r1 = 0; here: r1 += 1; if r1 != 100000 goto here; exit", 8),
        ("r1 = 100000; here: r1 += -1; if r1 != 0 goto here; exit", 8),
        ("r1 = 0; here: if r1 s>= 90000 goto +2; w1 += 3; goto here; exit", 9),
        ("r1 = -5; here: r1 += 1; if r1 s< 90000 goto here; exit", 8),
        ("r1 = 1; r1 <<= 62; here: r1 >>= 2; if r1 > 3 goto here; exit", 9),
        // An index, and a pointer that another place counts for.
        ("r1 = 0; here: r2 = r7; r2 += r1; *(u8 *)(r2 + 0) = 1; r1 += 1; if r1 < 64 goto here; exit", 11),
        ("r1 = 16; here: *(u32 *)(r7 + 0) = 1; r7 += 4; r1 += -1; if r1 != 0 goto here; exit", 10),
        // The count in the stack, and a bound in a register.
        (
            "r1 = 0; *(u64 *)(r10 - 8) = r1; r2 = 50000
          here: r1 = *(u64 *)(r10 - 8); r1 += 1; *(u64 *)(r10 - 8) = r1; if r1 < r2 goto here; exit",
            12,
        ),
        // Steps that are numbers of another place.
        ("r6 &= 7; r6 += 3; r1 = 0; here: r1 += r6; if r1 < 90000 goto here; exit", 9),
        ("r2 = 5; r1 = 60; here: r3 = r7; r3 += r1; *(u8 *)(r3 + 0) = 1; r1 -= 5; w1 += 3; w1 += 2; r1 += r2; if r1 > 59 goto +1; goto here; exit", 16),
        // The same, compared before the step is made, by the bits that the sum may not have, and in a copy.
        (
            "r6 &= 7; r6 += 2; r1 = 4; r3 = r1; r5 = -64
          here: r2 = r7; r2 += r3; *(u8 *)(r2 + 0) = 1; r1 += r6; w2 = w6; w2 += w3; r2 &= r5; r3 = r1; if r2 == 0 goto here; exit",
            18,
        ),
        // Ways that meet in a loop.
        (
            "r1 = 0; here: r2 = 1; if r6 == 3 goto +1; r2 = 9; if r6 > 5 goto +1; r2 += 1; if r6 s> 9 goto +1; r2 += r2
          if r6 s> 19 goto +1; r2 <<= 1; r3 = r7; r3 += r2; *(u8 *)(r3 + 0) = 1; r1 += 1; if r1 != 5000 goto here; exit",
            20,
        ),
        // Loops in loops.
        (
            "r1 = 0; out: r2 = 0; here: r2 += 1; if r2 != 300 goto here; r1 += 1; if r1 != 300 goto out; exit",
            40,
        ),
    ] {
        let object = object(text);
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        let followed = verdict.unwrap_or_else(|rejection| panic!("{rejection}\n{text}")).followed();
        assert!(followed <= insns, "{followed} instructions were followed\n{text}");
    }
}

#[test]
fn what_a_later_round_does_wrong_is_refused() {
    for (text, part) in [
        (
            "r1 = 0; here: r2 = r7; r2 += r1; *(u8 *)(r2 + 0) = 1; r1 += 1; if r1 != 65 goto here; exit",
            "inside",
        ),
        ("r1 = 17; here: *(u32 *)(r7 + 0) = 1; r7 += 4; r1 += -1; if r1 != 0 goto here; exit", "inside"),
        ("r1 = 16; here: *(u32 *)(r7 + 0) = 1; r7 += 4; r1 += -1; if r1 s> -1 goto here; exit", "inside"),
        ("r1 = 0; here: *(u32 *)(r7 + 0) = 1; r7 += 4; r1 += 1; if w1 <= 16 goto here; exit", "inside"),
        // The pointer goes further on one way than on the other.
        (
            "r1 = 8; here: *(u32 *)(r7 + 0) = 1; if r6 == r1 goto +1; r7 += 4; r7 += 4; r1 += -1; if r1 != 0 goto here; *(u32 *)(r7 + 0) = 1; exit",
            "inside",
        ),
        // The count is not what is compared; it is set anew on a way.
        (
            "r1 = 0; here: *(u8 *)(r7 + 0) = 1; r7 += 1; r1 += 1; if r6 != r1 goto +1; r1 = 0; if r1 != 64 goto here; exit",
            "inside",
        ),
        // An inner loop moves what the outer one moves.
        (
            "r1 = 0; out: r2 = 0; here: *(u8 *)(r7 + 0) = 1; r7 += 1; r2 += 1; if r2 != 9 goto here; r1 += 1; if r1 != 8 goto out; exit",
            "inside",
        ),
        // The second time that a loop is entered, further on.
        (
            "r1 = 0; out: r2 = 0; r3 = r7; here: *(u8 *)(r3 + 0) = 1; r3 += 8; r2 += 1; if r2 != 8 goto here; r7 += 1; r1 += 1; if r1 != 9 goto out; exit",
            "inside",
        ),
        // Steps by another place: too far, not the same in each round, and of a copy that was one in the first round alone.
        ("r6 &= 7; r6 += 3; r1 = 0; here: r3 = r7; r3 += r1; *(u8 *)(r3 + 0) = 1; r1 += r6; if r1 < 65 goto here; exit", "inside"),
        ("r2 = 4; r1 = 0; here: r3 = r7; r3 += r1; *(u8 *)(r3 + 0) = 1; r1 += r2; r2 = 9; if r1 != 63 goto +1; exit; if r1 < 99 goto here; exit", "inside"),
        (
            "r6 &= 7; r6 += 2; r1 = 4; r3 = 5; r5 = -64
          here: r2 = r7; r2 += r3; *(u8 *)(r2 + 0) = 1; r1 += r6; w2 = w6; w2 += w3; r2 &= r5; r3 += 60; if r2 == 0 goto here; exit",
            "inside",
        ),
        // The bits that are compared are others in the second round.
        (
            "r1 = 0; r2 = 1; r3 = -64; here: r4 = r1; r4 += r2; r4 &= r3; r3 = 0; r5 = r7; r5 += r1; *(u8 *)(r5 + 0) = 1; r1 += r2
             if r4 == 0 goto here; exit",
            "",
        ),
        // Held in the first round alone.
        (
            "r1 = 0; r8 = r7; here: *(u8 *)(r8 + 0) = 1; r8 = r6; r1 += 1; if r1 != 9 goto here; exit",
            "number",
        ),
        (
            "r1 = 0; *(u64 *)(r10 - 8) = r7; here: r2 = *(u64 *)(r10 - 8); *(u8 *)(r2 + 0) = 1; *(u64 *)(r10 - 8) = r6; r1 += 1; if r1 != 9 goto here; exit",
            "number",
        ),
        // A store to the stack through a pointer changes the count.
        (
            "r1 = 64; *(u64 *)(r10 - 8) = r1; r3 = r10; r3 += -8
          here: *(u8 *)(r7 + 0) = 1; r7 += 1; r1 = *(u64 *)(r10 - 8); r1 += -1; *(u64 *)(r10 - 8) = r1
          if r1 != 7 goto +1; *(u64 *)(r3 + 0) = 9; r1 = *(u64 *)(r10 - 8); if r1 != 0 goto here; exit",
            "inside",
        ),
    ] {
        let object = object(text);
        let rejection = verify(&object.programs[0], &object.maps, &Limits::default()).expect_err(text);
        assert!(rejection.to_string().contains(part), "{rejection}\n{text}");
    }
}

#[test]
fn rounds_that_take_too_long_or_do_not_end_are_refused() {
    for text in [
        "r1 = 0; here: r1 += 1; if r1 != 600000 goto here; exit",
        "r1 = 0; here: r1 += 2; if r1 != 600001 goto here; exit",
        "r1 = 0; here: w1 += 2; if r1 != 0x100000001 ll goto here; exit",
        "r1 = 0; out: r2 = 0; here: r2 += 1; if r2 != 900 goto here; r1 += 1; if r1 != 900 goto out; exit",
        "r1 = 9; here: r1 += -1; if r1 s>= -5 goto +1; goto there; if r6 == 7 goto here; r1 = 9; goto here; there: exit",
        "r1 = 0; here: r1 += 1; if r1 > 100 goto +1; goto here; r1 = 0; if r6 != 0 goto here; exit",
    ] {
        let text = text.replace("if r1 != 0x100000001 ll", "r3 = 0x100000001 ll; if r1 != r3");
        let object = object(&text);
        let rejection = verify(&object.programs[0], &object.maps, &Limits::default()).expect_err(&text);
        let ends_not = rejection.kind == RejectionKind::TooBig || rejection.message.contains("may not end");
        assert!(ends_not, "{rejection}\n{text}");
    }
}

/// What finds loops takes no longer than programs are: jumps back that are none of a loop, each of which tells the one before it
/// what may be read, and many loops that lie across each other. (A sweep for each jump, and a list of bytes for each loop, would be
/// 10⁹ steps and 10⁹ bytes.)
#[test]
fn flow_graphs_of_any_shape_are_read_in_a_time_of_their_length() {
    const JUMPS: usize = 30_000;
    let mut back = String::from("r0 = 0\nr1 = 8\nhere: r1 -= 1\nif r1 != 0 goto here\ngoto last\nj0: exit\n");
    for jump in 1..JUMPS {
        back += &format!("j{jump}: goto j{}\n", jump - 1);
    }
    back += &format!("last: goto j{}\n", JUMPS - 1);
    const LOOPS: usize = 15_000;
    let heads: String = (0..LOOPS).map(|at| format!("h{at}: if r6 == {at} goto t{at}\n")).collect();
    let tails: String = (0..LOOPS).map(|at| format!("t{at}: r6 -= 1\ngoto h{at}\n")).collect();
    let across = format!("r6 = 3\n{heads}goto end\n{tails}end: r0 = 0\nexit\n");
    let began = std::time::Instant::now();
    for text in [back, across] {
        let object =
            asm::parse(&format!("program \"p\" probe\n{text}")).unwrap_or_else(|error| panic!("{error}"));
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        assert!(verdict.is_ok() || verdict.is_err_and(|rejection| rejection.kind == RejectionKind::TooBig));
    }
    // Far less: the bound is for what would take minutes.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Programs tried.
const DAILY: Daily = Daily { seed: 31, at_least: 1_000, at_most: 10_000, budget: Duration::from_secs(2) };
/// Contexts that each accepted one is run with.
const RUNS: usize = 3;
/// Fewer accepted ones than one of so many, and fewer of them that were not followed round by round, would say that the test
/// lost its aim.
const ACCEPTED_ONE_IN: u64 = 8;
const SHORT_ONE_IN: u64 = 16;

#[test]
fn accepted_loops_stay_inside_and_end() {
    let worlds = Worlds::new(&asm::parse(MAPS).expect("is assembly text").maps);
    let limits = Limits { explored_insns_max: 6_000, ..Limits::default() };
    let mut cases = Cases::of("WEIR_LOOPS_ACCEPTED", DAILY);
    let mut random = Random(cases.seed());
    let (mut accepted, mut short) = (0, 0);
    for _ in cases.by_ref() {
        let object = object(&loops(&mut random));
        let Ok(verified) = verify(&object.programs[0], &object.maps, &limits) else { continue };
        accepted += 1;
        short += u64::from(verified.followed() <= 4 * verified.insns().len() as u64);
        for _ in 0..RUNS {
            let frame = random.frame();
            let text = || asm::print(&object);
            worlds.run_alike(&verified, &frame, &text);
        }
    }
    let tried = cases.given();
    eprintln!("{accepted} of {tried} accepted, {short} of them in few steps");
    assert!(accepted * ACCEPTED_ONE_IN >= tried && short * SHORT_ONE_IN >= tried, "{accepted}, {short}");
}

/// A program of one to three loops, one behind or inside the other, most of them nearly right.
fn loops(random: &mut Random) -> String {
    let mut labels = 0;
    let mut text = String::from(
        "r1 = 0; r2 = 0; r3 = 0; r4 = 0; r8 = r7; *(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = 0; r5 = r10; r5 += -8",
    );
    for _ in 0..1 + random.below(2) {
        text += &one_loop(random, &mut labels, 0);
    }
    text + "; r0 = r2; exit"
}

fn one_loop(random: &mut Random, labels: &mut u32, depth: u32) -> String {
    *labels += 1;
    let label = *labels;
    let counter = 1 + random.below(4);
    let size = random.pick(&["r", "w"]);
    let (start, end) = (random.below(12) as i64 - 2, random.below(70) as i64 - 3);
    let step = random.pick(&[1, 1, 1, 2, 3, 4, -1, -1, -2]);
    let (start, end) = if (step < 0) == (start < end) { (end, start) } else { (start, end) };
    let stay = random.pick(&["!=", "!=", "<", "<=", ">", ">=", "s<", "s>", "s<=", "s>="]);
    let start = if random.one_in(6) { "r6".to_owned() } else { start.to_string() };
    let bound = match random.below(8) {
        0 => format!("{size}{}", 1 + random.below(4)),
        _ => end.to_string(),
    };
    let update = match random.below(8) {
        0 => format!("{size}{counter} >>= {}", 1 + random.below(3)),
        _ => format!("{size}{counter} += {step}"),
    };
    let mut body: Vec<String> = (0..random.below(5)).map(|_| statement(random, labels, depth)).collect();
    let place = random.below(body.len() + 1);
    body.insert(place, update);
    let body = body.join("; ");
    if random.one_in(4) {
        return stepped_loop(random, label, &body);
    }
    let before = if random.one_in(5) { String::new() } else { format!("; r{counter} = {start}") };
    match random.below(3) {
        // Compared at the end; at the beginning; in the middle of nowhere.
        0 | 1 => format!("{before}; l{label}: {body}; if {size}{counter} {stay} {bound} goto l{label}"),
        _ => format!(
            "{before}; l{label}: if {size}{counter} {stay} {bound} goto +1; goto e{label}; {body}; goto l{label}; e{label}: r0 = 0"
        ),
    }
}

/// A loop that adds one place to another, which a copy may follow, and compares the sum before or after.
fn stepped_loop(random: &mut Random, label: u32, body: &str) -> String {
    let [counter, step, copy] = random.pick(&[[1, 2, 3], [2, 1, 4], [3, 4, 3], [4, 3, 1]]);
    let size = random.pick(&["r", "w"]);
    let by = match random.below(4) {
        0 => format!("r{step} = r6; r{step} &= 7; r{step} += {}", random.below(3)),
        1 => format!("r{step} = {}", random.below(9) as i64 - 4),
        _ => format!("r{step} = {}", 1 + random.below(9)),
    };
    let start = random.below(50);
    let follows = if random.one_in(5) { "r0 = 0".to_owned() } else { format!("r{copy} = r{counter}") };
    let update = format!("{size}{counter} += {size}{step}; {follows}");
    let end = random.below(66);
    let stay = random.pick(&["<", "<=", "s<", "!=", ">"]);
    let first = format!("r{counter} = {start}; {by}; r{copy} = r{counter}; l{label}: {body}");
    let sum = format!("{size}0 = {size}{step}; {size}0 += {size}{}", random.pick(&[copy, counter]));
    match random.below(3) {
        0 => format!("; {first}; {update}; if {size}{counter} {stay} {end} goto l{label}"),
        1 => format!("; {first}; {sum}; {update}; if {size}0 {stay} {end} goto l{label}"),
        _ => {
            let mask = random.pick(&[-64, -64, -32, -63, 64]);
            // In the instruction, or in a register, which a round may change.
            if random.one_in(2) {
                return format!("; {first}; {sum}; {update}; r0 &= {mask}; if r0 == 0 goto l{label}");
            }
            let change = random.pick(&["r0 = r0", "r9 = 0", "r9 <<= 1", "w9 = -64", "r9 = r9"]);
            let set = format!("r9 = {mask}; {first}");
            format!("; {set}; {sum}; {update}; r0 &= r9; {change}; if r0 == 0 goto l{label}")
        }
    }
    .replace("; r0 = 0; r0 = 0", "; r0 = 0")
}

fn statement(random: &mut Random, labels: &mut u32, depth: u32) -> String {
    let (one, other) = (1 + random.below(4), 1 + random.below(4));
    let few = random.below(9);
    let access = |base: &str, random: &mut Random| match random.below(3) {
        0 => format!("*(u8 *)({base} + {}) = 1", random.below(20)),
        1 => format!("r0 = *(u8 *)({base} + {})", random.below(20)),
        _ => format!("*(u32 *)({base} + 0) = r{other}"),
    };
    *labels += 1;
    let label = *labels;
    match random.below(14) {
        0..=2 => format!("r0 = r7; r0 += r{one}; {}", access("r0", random).replace("r0 = ", "r4 = ")),
        3 => format!("r0 = r{one}; r0 &= {}; r0 += r7; {}", random.pick(&[7, 31, 63]), access("r0", random)),
        4 => access("r8", random),
        5 => format!("r8 += {}", few as i64 - 2),
        6 => format!(
            "if r6 {} {few} goto s{label}; r{one} += {few}; s{label}: r0 = 0",
            random.pick(&["==", ">", "s<"])
        ),
        7 => format!(
            "if r{one} {} r{other} goto s{label}; r{one} = {few}; s{label}: r0 = 0",
            random.pick(&["==", ">", "!="])
        ),
        8 => format!("r{one} = r{other}"),
        9 => format!("*(u64 *)(r10 - {}) = r{one}", random.pick(&[8, 16])),
        10 => format!("r{one} = *(u64 *)(r10 - {})", random.pick(&[8, 16])),
        11 => format!("*(u64 *)(r5 + 0) = {few}"),
        12 => format!("w{one} += {few}"),
        _ if depth < 2 => format!("r0 = 0{}", one_loop(random, labels, depth + 1)),
        _ => format!("r{one} <<= 32; r{one} >>= 32"),
    }
}
