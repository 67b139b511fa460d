//! What a hit may cost: an estimate from figures that benches have measured.
//!
//! In: a verified program. Out: ns of one run, as the sum of its calls and instructions, each once: loops go round once, and of branches both sides
//! count. Figures are medians of `docs/bench`, of one machine; tests of weir-run hold estimates to what the benches measured of whole scripts, within a
//! factor of three.

use weir_ebpf::helper::{self, HelperId};
use weir_ebpf::insn::pseudo;
use weir_ebpf::{MapKind, MapSpec};
use weir_verifier::VerifiedProgram;

use crate::policy::Callee;

/// A probe that does nothing, at an entry: `probe`, `empty entry`.
pub const ENTRY_NS: f64 = 1.7;

/// At both ends of a call: `probe`, `entry and return, empty`.
pub const BOTH_NS: f64 = 5.5;

/// At an event of LTTng-UST's, with its fields evaluated: `record`, `int and long, 1 thread`, what `weir on lttng's` takes more than `weir`.
pub const CALLED_NS: f64 = ENTRY_NS + 9.96;

/// The kernel's, that traps: `probe`, `uprobe`: `empty entry`.
pub const KERNEL_ENTRY_NS: f64 = 9550.0;

/// `probe`, `uretprobe`: `entry and return, empty`.
pub const KERNEL_RETURN_NS: f64 = 10_022.0;

/// A key that the caches hold: `probe`, `@[arg0] = count()`. One of many takes three times that: `vm`, `op_hash_look_up`.
const LOOK_UP_NS: f64 = 2.6;

/// `vm`, `op_hash_update`.
pub const UPDATE_NS: f64 = 14.8;

/// `script`: a third of a stack of five frames, and the count of it: a program has three calls for it.
const STACK_NS: f64 = 65.0;

/// `script`: a chain of three pointers.
const READ_NS: f64 = 35.0;

/// `script`: two strings as a key, one read and one asked of the kernel.
const STRING_NS: f64 = 400.0;

/// `script`: a line of `printf`.
const RECORD_NS: f64 = 95.0;

/// A guess: four run in a nanosecond, and of a program's instructions fewer than half are on the way of one run.
const INSTRUCTION_NS: f64 = 0.1;

/// ns of one run of a program.
pub fn of(program: &VerifiedProgram, maps: &[MapSpec]) -> f64 {
    let mut map_in_r1 = None;
    let mut looked_up = Vec::new();
    let mut updated = Vec::new();
    let mut ns = 0.0;
    for insn in program.insns() {
        ns += INSTRUCTION_NS;
        if insn.is_wide() && insn.src == pseudo::MAP_INDEX && insn.dst == 1 {
            map_in_r1 = usize::try_from(insn.imm).ok();
        }
        let Some(Callee::Helper(id)) = Callee::of(insn) else { continue };
        let Some(map) = map_in_r1.filter(|_| is_of_map(id)) else {
            ns += of_helper(id);
            continue;
        };
        let is_array = maps.get(map).is_some_and(|map| is_array(map.kind));
        match id {
            _ if is_array => {}
            helper::MAP_LOOKUP_ELEM => {
                looked_up.push(map);
                ns += LOOK_UP_NS;
            }
            _ => updated.push(map),
        }
    }
    // Of a map that is looked up before, an update is for keys that are new.
    let updates = updated.iter().filter(|map| !looked_up.contains(map)).count();
    ns + updates as f64 * UPDATE_NS
}

fn is_of_map(id: HelperId) -> bool {
    matches!(id, helper::MAP_LOOKUP_ELEM | helper::MAP_UPDATE_ELEM | helper::MAP_DELETE_ELEM)
}

fn is_array(kind: MapKind) -> bool {
    matches!(kind, MapKind::Array | MapKind::PerCpuArray)
}

fn of_helper(id: HelperId) -> f64 {
    match id {
        helper::GET_STACKID | helper::GET_STACK => STACK_NS,
        helper::PROBE_READ | helper::PROBE_READ_USER | helper::PROBE_READ_KERNEL | helper::COPY_FROM_USER => {
            READ_NS
        }
        helper::PROBE_READ_STR
        | helper::PROBE_READ_USER_STR
        | helper::PROBE_READ_KERNEL_STR
        | helper::GET_CURRENT_COMM => STRING_NS,
        helper::RINGBUF_OUTPUT | helper::RINGBUF_RESERVE | helper::RINGBUF_RESERVE_DYNPTR => RECORD_NS,
        _ => 0.0,
    }
}
