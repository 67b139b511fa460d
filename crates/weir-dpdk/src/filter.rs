//! A filter's instructions → machine code in this process, which only weir-verifier's word makes.

use std::sync::Arc;

use weir_ebpf::context::{self, Field};
use weir_ebpf::{Insn, Program, ProgramKind};
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::Limits;

use crate::burst::Keeps;

/// Verifies and compiles; no instructions keep every packet.
pub(crate) fn load(insns: &[[u8; 8]]) -> Result<Keeps, String> {
    if insns.is_empty() {
        return Ok(Keeps::All);
    }
    let insns = insns.iter().map(|bytes| Insn::from_bytes(*bytes)).collect();
    let program = Program { name: "filter".to_owned(), kind: ProgramKind::Classifier, insns };
    let verified = weir_verifier::verify(&program, &[], &Limits::default());
    let verified = verified.map_err(|rejection| format!("the filter is refused: {rejection}"))?;
    if verified.writes_packet() {
        return Err("the filter is refused: it may write to packets".to_owned());
    }
    let reads = |name: &str| {
        let field = context::field_named(ProgramKind::Classifier, name);
        field.is_some_and(|field| verified.context_reads() & Field::slots(field.at, 4) != 0)
    };
    if let Some(name) = ["hash", "ifindex"].into_iter().find(|name| reads(name)) {
        return Err(format!("the filter is refused: it asks for {name}, which is not known of packets here"));
    }
    // `pkt_type` has a slot together with `len`: then it is set for nothing.
    let is_asking = reads("pkt_type") || reads("queue_mapping");
    let layout = SegmentLayout::plan(&[], 1).map_err(|error| format!("the filter's memory: {error}"))?;
    let segment = Segment::create_local(layout, &Identity::default());
    let segment = segment.map_err(|error| format!("the filter's memory: {error}"))?;
    let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
    let executable = executable.map_err(|error| format!("the filter is refused: {error}"))?;
    let program = LocalProgram::load(&executable, &segment);
    let program = program.map_err(|error| format!("loading the filter's machine code: {error}"))?;
    let program = Arc::new(program);
    Ok(if is_asking { Keeps::Asking(program) } else { Keeps::Filtered(program) })
}
