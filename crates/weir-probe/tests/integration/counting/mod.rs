//! The smallest program there is, for tests of attaching alone: it counts its runs.
//!
//! Hand-made code, `lock incq` on the first value of an array map, so that nothing but weir-probe and weir-rt is
//! under test.

#![allow(dead_code, reason = "each test program uses a part")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_ebpf::{MapKind, MapSpec};
use weir_probe::{
    Attach, Attachment, Error, Refusal, Returns, SiteRequest, Target, When, limits, plan_functions,
    plan_returns, prepare,
};
use weir_rt::abi::header;
use weir_rt::executable::FRAME_IS_RETURN;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_rt::{Executable, LaneUse, RelocKind, Relocation, Symbol};
use weir_symbols::{Binary, Function};

/// Attaches the counter to functions of the binary at `path`.
pub(crate) fn arm(target: Target, path: &Path, functions: &[&str]) -> Result<Attachment, Error> {
    let binary = Binary::open(path)?;
    let functions: Vec<_> = functions.iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    arm_functions(target, &functions)
}

/// A session's maps.
pub(crate) fn maps(specs: &[MapSpec]) -> Arc<Segment> {
    let layout = SegmentLayout::plan(specs, 2).unwrap();
    Arc::new(Segment::create_maps(layout, &identity(0)).unwrap())
}

/// A target's own segment, with a journal for so many writes.
pub(crate) fn control(writes: usize) -> SegmentLayout {
    SegmentLayout::of_target(writes as u32, 0).unwrap()
}

/// The same for functions of any binaries.
pub(crate) fn arm_functions(target: Target, functions: &[(&Binary, &Function)]) -> Result<Attachment, Error> {
    // Planned before the process is held.
    let windows = plan_functions(functions);
    let identity = identity(target.pid());
    let map = MapSpec::new("count", MapKind::Array, 4, 8, 1);
    let writes = functions.len() * limits::WRITES_PER_SITE_MAX + limits::HOOKS_MAX;
    let prepared = prepare(target, &maps(&[map]), control(writes), &identity)?;
    let planned = functions.iter().zip(&windows);
    let requests: Vec<SiteRequest> = planned
        .map(|(&(binary, function), window)| SiteRequest {
            binary,
            function,
            window,
            called: None,
            semaphore: None,
            programs: vec![Attach { executable: 0, cookie: 0, when: When::Entry }],
            returns: None,
        })
        .collect();
    prepared.arm(&requests, &[counting(0)])
}

/// As if the controller of this attachment had been killed: nothing is undone by it, and nothing that it knows is used.
pub(crate) fn let_die(attachment: Attachment) {
    let pid = attachment.target().pid();
    let mappings = weir_symbols::maps::read(pid as u32).unwrap();
    let segment = mappings.iter().find(|mapping| mapping.path.starts_with("/memfd:weir-segment")).unwrap();
    let memory = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem")).unwrap();
    // No process has started before the machine.
    memory.write_all_at(&[0; 8], segment.start.0 + header::CONTROLLER_START as u64).unwrap();
    std::mem::forget(attachment);
}

/// How often the probed functions ran.
pub(crate) fn count(attachment: &Attachment) -> u64 {
    value(attachment, 0, 0)
}

/// A value of an array map.
pub(crate) fn value(attachment: &Attachment, map: usize, index: u32) -> u64 {
    let value = attachment.maps().map(map).lookup(&index.to_le_bytes()).unwrap();
    u64::from_le_bytes(value.try_into().unwrap())
}

pub(crate) fn identity(pid: i32) -> Identity {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Identity {
        session: NEXT.fetch_add(1, Ordering::Relaxed),
        controller_pid: std::process::id(),
        controller_start: weir_probe::scan::own_start(),
        uid: 0,
        started_ns: 0,
        target_pid: pid as u32,
        label: "test".into(),
    }
}

/// Counts its runs in the first value of map `map`.
pub(crate) fn counting(map: u32) -> Executable {
    // movabs $value,%rax; lock incq (%rax); ret
    let code = vec![0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x48, 0xff, 0x00, 0xc3];
    let value = Relocation { offset: 2, kind: RelocKind::Abs64, symbol: Symbol::MapData(map), addend: 0 };
    Executable {
        name: "count".into(),
        kind: weir_ebpf::ProgramKind::Probe,
        tail_entry: 0,
        text_bytes: code.len() as u32,
        code,
        relocations: vec![value],
        clobbers: 1,
        clobbers_flags: true,
        may_misalign: false,
        context_reads: 0,
        reads_cookie: false,
        uses_session: false,
        lanes: LaneUse::Sections,
        writes_packet: false,
        stack_bytes: 8,
        origins: Vec::new(),
    }
}

/// Which end of a call was counted, by index in the array.
pub(crate) const ENTRIES: u32 = 0;
pub(crate) const RETURNS: u32 = 1;

/// Attaches a session that counts calls and returns to functions of the binary at `path`, their returns caught in the
/// way that `choose` takes of what was planned.
pub(crate) fn arm_sessions(
    target: Target,
    path: &Path,
    names: &[&str],
    choose: impl Fn(Result<Returns, Refusal>) -> Result<Returns, Refusal>,
) -> Attachment {
    let binary = Binary::open(path).unwrap();
    let functions: Vec<_> = names.iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    arm_sessions_on(target, &functions, choose)
}

/// The same for functions of any binaries.
pub(crate) fn arm_sessions_on(
    target: Target,
    functions: &[(&Binary, &Function)],
    choose: impl Fn(Result<Returns, Refusal>) -> Result<Returns, Refusal>,
) -> Attachment {
    arm_on(target, functions, When::Session, choose)
}

/// The same for another kind of program.
pub(crate) fn arm_on(
    target: Target,
    functions: &[(&Binary, &Function)],
    when: When,
    choose: impl Fn(Result<Returns, Refusal>) -> Result<Returns, Refusal>,
) -> Attachment {
    let (windows, returns) = (plan_functions(functions), plan_returns(functions));
    let map = MapSpec::new("count", MapKind::Array, 4, 8, 2);
    let writes = functions.len() * limits::WRITES_PER_SITE_MAX + limits::HOOKS_MAX;
    let identity = identity(target.pid());
    let prepared = prepare(target, &maps(&[map]), control(writes), &identity).unwrap();
    let planned = functions.iter().zip(windows.iter().zip(returns));
    let requests: Vec<SiteRequest> = planned
        .map(|(&(binary, function), (window, returns))| SiteRequest {
            binary,
            function,
            window,
            called: None,
            semaphore: None,
            programs: vec![Attach { executable: 0, cookie: 0, when }],
            returns: Some(choose(returns)),
        })
        .collect();
    prepared.arm(&requests, &[counting_both()]).unwrap()
}

/// How often an end of the probed functions was reached.
pub(crate) fn count_of(attachment: &Attachment, end: u32) -> u64 {
    value(attachment, 0, end)
}

fn counting_both() -> Executable {
    // movabs $value,%rax; movzwl is_return+8(%rsp),%ecx; lock incq (%rax,%rcx,8); xor %eax,%eax; ret
    let is_return = (8 + FRAME_IS_RETURN).to_le_bytes();
    let mut code = vec![0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0xb7, 0x8c, 0x24];
    code.extend_from_slice(&is_return);
    code.extend_from_slice(&[0xf0, 0x48, 0xff, 0x04, 0xc8, 0x31, 0xc0, 0xc3]);
    Executable {
        name: "count both".into(),
        text_bytes: code.len() as u32,
        code,
        clobbers: 3,
        uses_session: true,
        ..counting(0)
    }
}
