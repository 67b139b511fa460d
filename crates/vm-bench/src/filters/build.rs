//! From a filter's text to code that runs, step by step.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use weir_codegen::Options;
use weir_ebpf::Object;
use weir_filter::Dialect;
use weir_rt::executable::Executable;
use weir_rt::local;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

use super::schema;

/// A filter that is ready to be loaded.
#[derive(Debug)]
pub struct Built {
    pub object: Object,
    pub verified: VerifiedProgram,
    pub executable: Executable,
    pub segment: Segment,
}

/// What each step took: text to IR, IR to bytecode, the proof, machine code.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    pub front: Duration,
    pub codegen: Duration,
    pub verify: Duration,
    pub jit: Duration,
}

impl Stages {
    pub fn sum(&self) -> Duration {
        self.front + self.codegen + self.verify + self.jit
    }
}

/// Makes it, and says what that took. The segment of its maps, which a session has anyway, is no part of that.
pub fn build(text: &str) -> Result<(Built, Stages)> {
    let schema = schema();
    let start = Instant::now();
    let module = weir_filter::compile(text, Dialect::Weir, &schema);
    let (mut module, _) = module.map_err(|faults| anyhow!("{text}: {}", faults[0].message))?;
    weir_ir::pass::optimise(&mut module);
    let front = Instant::now();
    let options = Options { ring_bytes: 4096, counts_hits: false, ..weir_codegen::Options::default() };
    let object = weir_codegen::compile_with(&module, &options).map_err(|error| anyhow!("{error}"))?.object;
    let codegen = Instant::now();
    let limits = Limits { text_slots: schema.text_slots(), ..Limits::default() };
    let verified = weir_verifier::verify(&object.programs[0], &object.maps, &limits);
    let verified = verified.map_err(|rejection| anyhow!("{rejection}"))?;
    let verify = Instant::now();
    let layout =
        SegmentLayout::plan(&object.maps, local::possible_cpus()).map_err(|error| anyhow!("{error}"))?;
    let segment = Segment::create_local(layout, &Identity::default())?;
    let planned = Instant::now();
    let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
    let executable = executable.map_err(|error| anyhow!("{error}"))?;
    let stages = Stages {
        front: front - start,
        codegen: codegen - front,
        verify: verify - codegen,
        jit: planned.elapsed(),
    };
    Ok((Built { object, verified, executable, segment }, stages))
}
