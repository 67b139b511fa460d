//! Any bytes as a program, of a kind that the bytes left over at the end tell by their number: rejected, or it runs in
//! the checking interpreter without one access that it was not lent, within its steps, and the JIT has code for it.

use std::sync::LazyLock;

use weir_ebpf::{Insn, MapSpec, Program, ProgramKind};
use weir_interp::{Environment, Fault};
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{Context, LanePolicy, SiteAbi, TidSource};
use weir_verifier::Limits;

/// What programs are lent that are not of probes.
const PACKET: [u8; 40] = [0x45; 40];

/// More than any accepted program of this size takes without `may_goto`, whose rounds are cut off here.
const STEPS: u64 = 1 << 16;

static MAPS: LazyLock<Vec<MapSpec>> = LazyLock::new(crate::maps::maps);

/// Verifies bytes as a program, and runs and compiles it if it is accepted.
pub fn read(bytes: &[u8]) {
    let insns = insns(bytes);
    let (kind, lent) = match bytes.len() % 8 {
        1 => (ProgramKind::Xdp, Some(Context::xdp(&[1; 4], &PACKET))),
        2 => (ProgramKind::SocketFilter, Some(Context::socket(&[2; 14], &PACKET))),
        4 => (ProgramKind::Classifier, Some(Context::classifier(&[3; 4], &PACKET, 60))),
        3 => (ProgramKind::Memory { bytes: PACKET.len() as u32 }, Some(Context::memory(&PACKET))),
        _ => (ProgramKind::Probe, None),
    };
    let program = Program { name: "fuzz".into(), kind, insns };
    // Small limits: the time of one input is bounded by them.
    let limits = Limits { explored_insns_max: 1 << 12, ..Limits::default() };
    let Ok(verified) = weir_verifier::verify(&program, &MAPS[..], &limits) else { return };
    let plan = if verified.needs_lane() { SegmentLayout::plan_claimable } else { SegmentLayout::plan };
    let layout = plan(&MAPS, 1).expect("small maps");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let environment = Environment { segment: &segment };
    let outcome = match lent {
        Some(mut lent) => weir_interp::run_unverified(&program, &MAPS, &environment, &mut lent, STEPS),
        None => weir_interp::run_unverified(&program, &MAPS, &environment, &mut Frame::default(), STEPS),
    };
    assert!(matches!(outcome, Ok(_) | Err(Fault::Steps { .. })), "{outcome:?}");
    let abi = SiteAbi {
        pid: 1,
        tid: TidSource::Syscall,
        lanes: if verified.needs_lane() { LanePolicy::Shared.claimed() } else { LanePolicy::Shared },
        cpus: 1,
        bmi2: bytes.len().is_multiple_of(16),
        reads_ticks: bytes.len() % 32 < 16,
    };
    weir_jit::compile(&verified, &abi).expect("code for every verified program");
}

/// Bytes as instructions; what is left over at the end is dropped.
fn insns(bytes: &[u8]) -> Vec<Insn> {
    let slots = bytes.as_chunks::<8>().0;
    slots.iter().map(|slot| Insn::from_bytes(*slot)).collect()
}
