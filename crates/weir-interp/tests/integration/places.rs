//! Where test programs run: in plain memory, and where that is to be had on a segment too, with the same result.

use weir_ebpf::{Insn, Object, Program, ProgramKind, asm};
use weir_interp::{Fault, plain};
use weir_memory::Frame;

/// A probe of these maps and lines (separated by `;;`).
pub(crate) fn object(maps: &str, lines: &str) -> Object {
    let text = format!("{maps}program \"test\" probe\n{}\n", lines.replace(";;", "\n"));
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Runs such a probe over fresh maps for at most `steps` instructions.
pub(crate) fn run(maps: &str, lines: &str, frame: &mut Frame, steps: u64) -> Result<u64, Fault> {
    let object = object(maps, lines);
    let mut here = *frame;
    let mut maps = plain::Maps::new(&object.maps).expect("there are such maps");
    let ran = plain::run_watched(&object.programs[0], &object.maps, &mut maps, &mut here, steps, &mut |_| {});
    on_segment(&object, frame, steps, &ran);
    *frame = here;
    ran
}

/// The same on a segment gives the same result, or a fault at the same instruction: addresses are others there.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn on_segment(object: &Object, frame: &Frame, steps: u64, ran: &Result<u64, Fault>) {
    use weir_rt::segment::{Identity, Segment, SegmentLayout};

    let layout = SegmentLayout::plan(&object.maps, 2).expect("within bounds");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let environment = weir_interp::Environment { segment: &segment };
    let (program, mut frame) = (&object.programs[0], *frame);
    let there = weir_interp::run_unverified(program, &object.maps, &environment, &mut frame, steps);
    match (ran, &there) {
        (Err(Fault::Memory { pc, .. }), Err(Fault::Memory { pc: there, .. })) => assert_eq!(pc, there),
        _ => assert_eq!(*ran, there),
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn on_segment(_: &Object, _: &Frame, _: u64, _: &Result<u64, Fault>) {}

/// Random slots, and a program with some bytes changed: each ends in a result (`ends` says so) or a fault, and there are both.
pub(crate) fn any_slots(base: &Object, mut ends: impl FnMut(&Program) -> bool) {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut results, mut faults) = (0, 0);
    for round in 0..20_000 {
        let mut insns = base.programs[0].insns.clone();
        if round % 2 == 0 {
            insns = (0..1 + next() % 12).map(|_| Insn::from_bytes(next().to_le_bytes())).collect();
        } else {
            for _ in 0..1 + next() % 3 {
                let at = (next() % insns.len() as u64) as usize;
                let mut bytes = insns[at].to_bytes();
                bytes[(next() % 8) as usize] = next() as u8;
                insns[at] = Insn::from_bytes(bytes);
            }
        }
        let program = Program { name: "mutant".into(), kind: ProgramKind::Probe, insns };
        *if ends(&program) { &mut results } else { &mut faults } += 1;
    }
    assert!(results > 100 && faults > 100, "{results} results, {faults} faults");
}
