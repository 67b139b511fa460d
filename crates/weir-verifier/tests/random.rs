//! Random programs: what is accepted never faults where every access is checked, gives no address away, ends, and
//! has the facts that were found.

mod generate;

use weir_ebpf::asm;
use weir_verifier::{Limits, verify};

use crate::generate::{MAPS, Random, Worlds, program};

/// Programs tried; about a third is accepted.
const PROGRAMS: usize = 30_000;
/// Contexts that each accepted program is run with.
const RUNS: usize = 4;
/// Fewer accepted programs than this would say that the generator has lost its aim.
const ACCEPTED_MIN: usize = PROGRAMS / 6;

#[test]
fn accepted_programs_stay_inside() {
    let maps = asm::parse(MAPS).expect("is assembly text").maps;
    let worlds = Worlds::new(&maps);
    // Some rejections would take the whole budget; the result does not depend on it.
    let limits = Limits { explored_insns_max: 20_000, ..Limits::default() };
    let mut random = Random(2026);
    let mut accepted = 0;
    for _ in 0..PROGRAMS {
        let snippets = 2 + random.below(14);
        let object = program(&mut random, snippets);
        let Ok(verified) = verify(&object.programs[0], &object.maps, &limits) else { continue };
        accepted += 1;
        for _ in 0..RUNS {
            let frame = random.frame();
            let text = || asm::print(&object);
            worlds.check(&verified, &frame, &text);
        }
    }
    eprintln!("{accepted} of {PROGRAMS} random programs accepted");
    assert!(accepted >= ACCEPTED_MIN, "only {accepted} of {PROGRAMS} random programs were accepted");
}
