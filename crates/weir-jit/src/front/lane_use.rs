//! How a program reaches per-CPU values at a site.

use weir_ebpf::insn::{class, pseudo};
use weir_rt::executable::{LanePolicy, LaneUse, SiteAbi};
use weir_verifier::VerifiedProgram;

/// How the program reaches per-CPU values at this site.
pub(crate) fn lane_use(program: &VerifiedProgram, abi: &SiteAbi) -> LaneUse {
    let names_per_cpu = program.insns().iter().zip(program.facts()).any(|(insn, facts)| {
        let is_map = matches!(insn.src, pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE);
        facts.reachable
            && insn.class() == class::LD
            && insn.is_wide()
            && is_map
            && program.maps().get(insn.imm as usize).is_some_and(|map| map.kind.is_per_cpu())
    });
    match abi.lanes {
        _ if !names_per_cpu => LaneUse::None,
        LanePolicy::Claimed { .. } => LaneUse::Claimed,
        LanePolicy::Rseq { .. } | LanePolicy::Shared => LaneUse::Sections,
    }
}

/// Whether runs of the program claim a lane.
pub(crate) fn claims(program: &VerifiedProgram, abi: &SiteAbi) -> bool {
    lane_use(program, abi) == LaneUse::Claimed
}
