//! Seeds of files that have static probes, with all that weir's tracepoints say of their fields.

// The tests of weir-symbols are about these files, and make more of them.
#[path = "../../../weir-symbols/tests/integration/tracepoint/image.rs"]
mod image;

use crate::seeds::{Seed, seed};
use image::{CODE, Image, everything, fields, probe};

pub(crate) fn seeds() -> Vec<Seed> {
    let second = Image { probes: probe(CODE, ""), fields: fields(2, CODE, 0, &[]), tables: Vec::new() };
    vec![seed("elf", "tracepoints", everything().bytes()), seed("elf", "probes", second.bytes())]
}
