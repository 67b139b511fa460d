//! What the compiler emits is accepted here and by the kernel; its mutants are rejected, or stay inside where every
//! access is checked.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_ebpf::{Insn, Program, asm};
use weir_verifier::{Limits, verify};

use crate::scripts::{SCRIPTS, SCRIPTS_OF_PROCESSES, compiled, compiled_for};
use crate::worlds::{Random, Worlds};

/// Contexts that each emitted program is run with.
const RUNS: usize = 20;
/// Mutants of each emitted program.
const DAILY: Daily = Daily { seed: 42, at_least: 150, at_most: 1_500, budget: Duration::from_secs(2) };
/// Contexts that each accepted mutant is run with.
const MUTANT_RUNS: usize = 2;

#[test]
fn compiled_scripts_are_accepted_and_stay_inside() {
    let mut random = Random(5);
    for script in SCRIPTS.iter().chain(SCRIPTS_OF_PROCESSES) {
        let object = compiled(script).object;
        let worlds = Worlds::new(&object.maps);
        for program in &object.programs {
            let text = || format!("{script}\n{}", asm::print(&object));
            let verified = verify(program, &object.maps, &Limits::default())
                .unwrap_or_else(|rejection| panic!("{rejection}\n{}", text()));
            assert!(!verified.needs_lane(), "counts are additions: no run claims a lane\n{}", text());
            for _ in 0..RUNS {
                worlds.run(&verified, &random.frame(), &text);
            }
        }
    }
}

#[test]
fn compiled_scripts_load_in_the_kernel() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("weir-verifier::compiled_scripts_load_in_the_kernel", reason);
    }
    for script in SCRIPTS {
        let object = compiled_for(script, true).object;
        if let Err(error) = testkit::kernel::load(&object) {
            panic!("{script}\n{error}\n{}", asm::print(&object));
        }
    }
}

#[test]
fn mutants_are_rejected_or_stay_inside() {
    let cases = Cases::of("WEIR_PROGRAM_MUTANTS", DAILY);
    let mut random = Random(cases.seed());
    // A mutant may loop for long; what it does in a shorter proof is the same.
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let (mut made, mut accepted) = (0, 0);
    let objects = SCRIPTS.iter().chain(SCRIPTS_OF_PROCESSES).map(|script| (script, compiled(script).object));
    let objects: Vec<_> =
        objects.map(|(script, object)| (script, Worlds::new(&object.maps), object)).collect();
    for _ in cases {
        for (script, worlds, object) in &objects {
            for program in &object.programs {
                let mutant = mutant(program, &mut random);
                made += 1;
                let Ok(verified) = verify(&mutant, &object.maps, &limits) else { continue };
                accepted += 1;
                let text = || {
                    let mut object = object.clone();
                    object.programs = vec![mutant.clone()];
                    format!("{script}\n{}", asm::print(&object))
                };
                for _ in 0..MUTANT_RUNS {
                    worlds.run(&verified, &random.frame(), &text);
                }
            }
        }
    }
    eprintln!("{accepted} of {made} mutants accepted");
    assert!(accepted > made / 50 && accepted < made / 2, "{accepted} of {made} mutants were accepted");
}

/// `program` with one change or two.
fn mutant(program: &Program, random: &mut Random) -> Program {
    let mut mutant = program.clone();
    for _ in 0..1 + usize::from(random.one_in(3)) {
        if !mutant.insns.is_empty() {
            change(&mut mutant.insns, random);
        }
    }
    mutant
}

fn change(insns: &mut Vec<Insn>, random: &mut Random) {
    let (at, other) = (random.below(insns.len()), random.below(insns.len()));
    let small = random.below(17) as i32 - 8;
    let copied = insns[other];
    let insn = &mut insns[at];
    match random.below(12) {
        0 => insn.opcode ^= 1 << random.below(8),
        1 => insn.opcode = random.next() as u8,
        2 => insn.dst = random.pick(&[0, 1, 2, 3, 6, 7, 10]),
        3 => insn.src = random.below(11) as u8,
        4 => insn.off = insn.off.wrapping_add(small as i16),
        5 => insn.off = random.number() as i16,
        6 => insn.imm = insn.imm.wrapping_add(small),
        7 => insn.imm = random.number() as i32,
        8 => drop(insns.remove(at)),
        9 => insns.insert(at, copied),
        10 => insns.swap(at, other),
        _ => *insn = copied,
    }
}
