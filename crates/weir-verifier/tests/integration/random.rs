//! Random programs: what is accepted never faults where every access is checked, gives no address away, ends, and
//! has the facts that were found.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_ebpf::helper::{FOR_EACH_MAP_ELEM, LOOP};
use weir_ebpf::insn::pseudo::{HELPER, LOCAL};
use weir_ebpf::insn::{MAY_GOTO, class, jmp};
use weir_ebpf::{Insn, MapKind, MapSpec, Object, asm};
use weir_verifier::{Limits, VerifiedProgram, verify};

use crate::generate::{MAPS, program};
use crate::worlds::{Random, Worlds};

/// Programs tried; about a third is accepted.
const DAILY: Daily = Daily { seed: 2026, at_least: 3_000, at_most: 30_000, budget: Duration::from_secs(2) };
/// Bytes tried.
const BYTES: Daily = Daily { seed: 9, at_least: 6_000, at_most: 60_000, budget: Duration::from_secs(2) };
/// Contexts that each accepted program is run with.
const RUNS: usize = 4;
/// Fewer accepted programs than one of so many tried would say that the generator has lost its aim.
const ACCEPTED_ONE_IN: u64 = 6;
/// The same for accepted programs with local calls, and with `may_goto`.
const WITH_CALLS_ONE_IN: u64 = 40;
/// The same for callbacks.
const WITH_CALLBACKS_ONE_IN: u64 = 100;

#[test]
fn accepted_programs_stay_inside() {
    let maps = asm::parse(MAPS).expect("is assembly text").maps;
    let worlds = Worlds::new(&maps);
    // Some rejections would take the whole budget; the result does not depend on it.
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let mut cases = Cases::of("WEIR_ACCEPTED", DAILY);
    let mut random = Random(cases.seed());
    let (mut accepted, mut with_calls, mut with_rounds, mut with_callbacks) = (0, 0, 0, 0);
    for _ in cases.by_ref() {
        let snippets = 2 + random.below(14);
        let object = program(&mut random, snippets);
        let Ok(verified) = verify(&object.programs[0], &object.maps, &limits) else { continue };
        accepted += 1;
        with_calls +=
            u64::from(does(&verified, |insn| insn.opcode == class::JMP | jmp::CALL && insn.src == LOCAL));
        with_rounds += u64::from(does(&verified, |insn| insn.opcode == MAY_GOTO));
        with_callbacks += u64::from(does(&verified, |insn| {
            insn.opcode == class::JMP | jmp::CALL
                && insn.src == HELPER
                && [LOOP, FOR_EACH_MAP_ELEM].contains(&insn.imm)
        }));
        for _ in 0..RUNS {
            let frame = random.frame();
            let text = || asm::print(&object);
            worlds.run_alike(&verified, &frame, &text);
        }
    }
    let tried = cases.given();
    eprintln!(
        "{accepted} of {tried} accepted, {with_calls} with local calls, {with_rounds} with may_goto, \
         {with_callbacks} with callbacks"
    );
    assert!(accepted * ACCEPTED_ONE_IN >= tried, "only {accepted} of {tried} random programs were accepted");
    assert!(with_calls.min(with_rounds) * WITH_CALLS_ONE_IN >= tried, "{with_calls}, {with_rounds}");
    assert!(with_callbacks * WITH_CALLBACKS_ONE_IN >= tried, "{with_callbacks}");
}

/// Some path of the program comes to an instruction that is `wanted`.
fn does(program: &VerifiedProgram, wanted: impl Fn(&Insn) -> bool) -> bool {
    program.insns().iter().zip(program.facts()).any(|(insn, facts)| facts.reachable && wanted(insn))
}

/// Bytes from anywhere are judged: no panic, no hang.
#[test]
fn any_bytes_are_judged() {
    let maps = asm::parse(MAPS).expect("is assembly text").maps;
    let limits = Limits { explored_insns_max: 5_000, ..Limits::default() };
    let mut cases = Cases::of("WEIR_ANY_BYTES", BYTES);
    let mut random = Random(cases.seed());
    let mut accepted = 0;
    for _ in cases.by_ref() {
        let mut object = program(&mut random, 2);
        let insns = &mut object.programs[0].insns;
        // Most keep the first instructions, so that there is something to work on.
        insns.truncate(random.below(insns.len() + 1));
        for _ in 0..random.below(12) {
            let mut insn = Insn::from_bytes(random.next().to_le_bytes());
            match random.below(4) {
                0 => {}
                1 => insn = Insn { off: 0, imm: 0, ..insn },
                2 => {
                    insn =
                        Insn { src: 0, off: random.below(9) as i16 - 4, imm: random.below(99) as i32, ..insn }
                }
                _ => insn = Insn { opcode: 0x85, dst: 0, src: 0, off: 0, imm: random.below(180) as i32 },
            }
            insns.push(Insn { dst: insn.dst % 12, src: insn.src % 12, ..insn });
        }
        insns.extend([Insn { opcode: 0xb7, ..Insn::default() }, Insn { opcode: 0x95, ..Insn::default() }]);
        accepted += u64::from(verify(&object.programs[0], &maps, &limits).is_ok());
        let hostile_maps = hostile_maps(&mut random, &object);
        let _ =
            verify(&object.programs[0], &hostile_maps, &limits).map_err(|rejection| rejection.to_string());
    }
    assert!(accepted * 60 > cases.given(), "only {accepted} accepted");
}

fn hostile_maps(random: &mut Random, object: &Object) -> Vec<MapSpec> {
    let count = random.below(object.maps.len() + 1);
    let hostile = |map: &MapSpec| {
        let number = |random: &mut Random| match random.below(3) {
            0 => random.number() as u32,
            1 => 4,
            _ => 1 << random.below(32),
        };
        MapSpec {
            name: map.name.clone(),
            kind: random.pick(&MapKind::ALL),
            key_bytes: number(random),
            value_bytes: number(random),
            max_entries: number(random),
            flags: if random.below(4) == 0 { number(random) } else { 0 },
            extra: random.below(8).saturating_sub(5) as u64 * 8,
            inner: (random.below(4) == 0).then(|| random.below(count.max(1)) as u32),
        }
    };
    object.maps[..count].iter().map(hostile).collect()
}
