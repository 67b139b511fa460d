//! Which eBPF maps an object has: the script's own first, in the schema's order, then the internal ones.
//!
//! | script map | keyed | scalar (one entry) |
//! |---|---|---|
//! | Plain, Min, Max | HASH | ARRAY |
//! | Count, Sum, Avg, Stats, Hist, Lhist | PERCPU_HASH | PERCPU_ARRAY |
//! | the same, where a program reads it or unsets it | HASH | ARRAY |
//! | declared to evict | LRU_HASH, LRU_PERCPU_HASH | |
//!
//! Internal: `.ring` (records, of each CPU in a ring of its own), `.globals` (one entry of [`GLOBAL_BYTES`]), `.hits` (per-CPU: an entry of two counts for
//! each program: entries and returns), `.automata` (the tables of automata, read-only, with first contents), `.events` (one entry with
//! two counts for each event that is recorded: those that the ring had no room for, and texts and sequences that were cut), `.stacksN.T` (tables T of stacks of N frames); and, where a clause turns out to need
//! them, `.scratch` (slots of scratch memory, each with an owner word first) and `.zero` (one entry of zeros, as long
//! as the longest value that is inserted and does not fit on the stack).
//!
//! Value bytes are weir-event's words, 8 bytes each.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_ebpf::insn::pseudo;
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, Program};
use weir_event::{MapSchema, STACK_TABLES};
use weir_ir::{Automaton, Module, Op};

use crate::Options;
use crate::limits;
use crate::lower::matching;

/// Bytes of the value of `.globals`.
pub const GLOBAL_BYTES: u32 = 56;
/// Byte offset in `.globals`: start of the session, ns of CLOCK_MONOTONIC.
pub const GLOBAL_START: i32 = 0;
/// Byte offset in `.globals`: runs left out because no scratch memory was free.
pub const GLOBAL_NO_SCRATCH: i32 = 8;
/// Byte offset in `.globals`: values of `min` and `max` left out because other threads won every attempt.
pub const GLOBAL_NOT_RAISED: i32 = 16;

/// Byte offset in `.globals`: stacks left out because others had their places in all tables.
pub const GLOBAL_NO_STACK: i32 = 24;

/// Byte offset in `.globals`: records that the ring had no room for, where programs count them ([`Options::is_for_kernel`]).
pub const GLOBAL_NO_ROOM: i32 = 32;

/// The same of values of new keys that a map did not take.
pub const GLOBAL_NO_KEY: i32 = 40;

/// Byte offset in `.globals`: process id of the command that the controller has started.
pub const GLOBAL_COMMAND: i32 = 48;

/// Bytes of an entry of `.hits`, and the offsets in it.
pub const HITS_BYTES: u32 = 16;
/// Offset in the value: runs at entries.
pub const HITS_ENTRIES: i32 = 0;
/// Offset in the value: runs at returns.
pub const HITS_RETURNS: i32 = 8;

/// Bytes that `.events` has for each event, and the offsets in them: records that the ring had no room for, and texts and
/// sequences that were cut.
pub const EVENT_BYTES: u32 = 16;
/// Offset in the value: events that the ring had no room for.
pub const EVENT_LOST: i32 = 0;
/// Offset in the value: events of which a string or an array was cut.
pub const EVENT_CUT: i32 = 8;

/// Where the counts of an event begin.
pub(crate) fn event_counts(event: u32) -> i32 {
    (event * EVENT_BYTES) as i32
}

/// The maps of one object.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) specs: Vec<MapSpec>,
    pub(crate) ring: u32,
    /// Programs count what maps and ring have no room for.
    pub(crate) is_for_kernel: bool,
    /// How long records wait for room in it.
    pub(crate) waits_ms: Option<u32>,
    pub(crate) globals: u32,
    /// Where programs count their runs; none if they do not.
    pub(crate) hits: Option<u32>,
    /// Where what was left out of events is counted; none where none is recorded.
    pub(crate) events: Option<u32>,
    /// The tables of each depth of stacks: how many frames, and the first of [`STACK_TABLES`] maps.
    pub(crate) stacks: Vec<(u32, u32)>,
    /// The tables of automata: the map's index, its contents, and where each automaton begins in them.
    pub(crate) automata: Option<Automata>,
    /// The index that `.scratch` has, if it is added.
    pub(crate) scratch: u32,
    /// The index that `.zero` has in programs, until [`Maps::finish`] says whether there is a `.scratch` before it.
    pub(crate) zero: u32,
}

/// What `.automata` holds.
#[derive(Debug)]
pub(crate) struct Automata {
    pub(crate) map: u32,
    pub(crate) contents: Vec<u8>,
    offsets: HashMap<Arc<Automaton>, u32>,
}

impl Maps {
    pub(crate) fn of(module: &Module, options: &Options) -> Maps {
        let mut specs: Vec<MapSpec> = of_script(module);
        let ring = specs.len() as u32;
        let overwrites = if options.overwrites { flag::RB_OVERWRITE } else { 0 };
        specs.push(MapSpec {
            flags: flag::RING_PER_CPU | overwrites,
            ..MapSpec::new(".ring", MapKind::RingBuf, 0, 0, options.ring_bytes)
        });
        let mut internal = |name: &str, kind, key_bytes, value_bytes, max_entries| {
            specs.push(MapSpec::new(name, kind, key_bytes, value_bytes, max_entries));
            specs.len() as u32 - 1
        };
        let globals = internal(".globals", MapKind::Array, 4, GLOBAL_BYTES, 1);
        // Of those that run in weir itself it stays 0: they are not missed.
        let programs = module.functions.len() as u32;
        let counts =
            options.counts_hits && module.functions.iter().any(|function| function.trigger.is_probe());
        let hits = counts.then(|| internal(".hits", MapKind::PerCpuArray, 4, HITS_BYTES, programs));
        let recorded = module.schema.events.len() as u32;
        let events =
            (recorded > 0).then(|| internal(".events", MapKind::Array, 4, EVENT_BYTES * recorded, 1));
        let places = module.max_map_keys.clamp(1, limits::STACKS_MAX).next_power_of_two();
        let mut stacks = Vec::new();
        for frames in depths(module) {
            stacks.push((frames, specs.len() as u32));
            for table in 0..STACK_TABLES {
                let name = format!(".stacks{frames}.{table}");
                specs.push(MapSpec::new(&name, MapKind::StackTrace, 4, 8 * frames, places));
            }
        }
        let automata = automata(module, specs.len() as u32);
        if let Some(Automata { contents, .. }) = &automata {
            let mut spec = MapSpec::new(".automata", MapKind::Array, 4, contents.len() as u32, 1);
            spec.flags = flag::RDONLY_PROG;
            specs.push(spec);
        }
        let scratch = specs.len() as u32;
        let Options { waits_ms, is_for_kernel, .. } = *options;
        let zero = scratch + 1;
        Maps { ring, is_for_kernel, waits_ms, globals, hits, events, stacks, automata, scratch, zero, specs }
    }

    /// Each CPU has a value of its own of this map of the script.
    pub(crate) fn is_per_cpu(&self, map: weir_ir::MapId) -> bool {
        self.specs[map.0 as usize].kind.is_per_cpu()
    }

    /// The first of the tables for stacks of so many frames.
    pub(crate) fn stacks_of(&self, frames: u32) -> Option<u32> {
        self.stacks.iter().find(|(depth, _)| *depth == frames).map(|(_, first)| *first)
    }

    /// Where an automaton of the module lies: the map, and the offset in its value.
    pub(crate) fn automaton(&self, automaton: &Automaton) -> (u32, u32) {
        let found = self.automata.as_ref().and_then(|all| Some((all.map, *all.offsets.get(automaton)?)));
        // SANITY: the maps are made from the same module.
        found.expect("every automaton of the module has a place")
    }

    /// Adds `.scratch` and `.zero` where their bytes are not 0, and numbers `.zero` in the programs accordingly.
    pub(crate) fn finish(
        mut self,
        scratch_bytes: u32,
        zero_bytes: u32,
        programs: &mut [Program],
    ) -> Vec<MapSpec> {
        let array = |name: &str, value_bytes, max_entries| {
            MapSpec::new(name, MapKind::Array, 4, value_bytes, max_entries)
        };
        if scratch_bytes > 0 {
            self.specs.push(array(".scratch", scratch_bytes, limits::SCRATCH_SLOTS));
        }
        if zero_bytes > 0 {
            let index = self.specs.len() as i32;
            self.specs.push(array(".zero", zero_bytes, 1));
            let insns = programs.iter_mut().flat_map(|program| &mut program.insns);
            for insn in insns.filter(|insn| insn.is_wide() && insn.src == pseudo::MAP_INDEX_VALUE) {
                if insn.imm == self.zero as i32 {
                    insn.imm = index;
                }
            }
        }
        self.specs
    }
}

/// How many frames the stacks of a module have, each number once.
fn depths(module: &Module) -> BTreeSet<u32> {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    let stacks = blocks.flat_map(|block| &block.insts).filter_map(|inst| match inst.op {
        Op::UserStack(form) | Op::KernelStack(form) => Some(form.frames),
        _ => None,
    });
    stacks.collect()
}

/// The tables of a module's automata, each once; none without any.
fn automata(module: &Module, map: u32) -> Option<Automata> {
    let mut automata = Automata { map, contents: Vec::new(), offsets: HashMap::new() };
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    for inst in blocks.flat_map(|block| &block.insts) {
        if let Op::Match { automaton, .. } = &inst.op
            && !automata.offsets.contains_key(automaton)
        {
            automata.offsets.insert(Arc::clone(automaton), automata.contents.len() as u32);
            automata.contents.extend(matching::table(automaton));
        }
    }
    (!automata.contents.is_empty()).then_some(automata)
}

fn of_script(module: &Module) -> Vec<MapSpec> {
    let is_read = read_by_programs(module);
    let maps = module.schema.maps.iter().zip(is_read);
    maps.map(|(map, is_read)| script_map(map, module.max_map_keys, map.value.is_per_cpu() && !is_read))
        .collect()
}

/// By map of the script: a program wants to know, or to unset, what all CPUs have added together.
fn read_by_programs(module: &Module) -> Vec<bool> {
    let mut is_read = vec![false; module.schema.maps.len()];
    let ops = module.functions.iter().flat_map(|function| &function.blocks).flat_map(|block| &block.insts);
    for op in ops.map(|inst| &inst.op) {
        match op {
            Op::MapGet { map, .. } | Op::MapNext { map, .. } => is_read[map.0 as usize] = true,
            Op::MapHas { map, key } | Op::MapDelete { map, key } if key.is_empty() => {
                is_read[map.0 as usize] = true;
            }
            _ => {}
        }
    }
    is_read
}

fn script_map(map: &MapSchema, max_map_keys: u32, is_per_cpu: bool) -> MapSpec {
    let evicts = map.room.is_some_and(|room| room.evicts);
    let kind = match (map.key.is_some(), is_per_cpu) {
        (true, false) if evicts => MapKind::LruHash,
        (true, true) if evicts => MapKind::LruPerCpuHash,
        (true, false) => MapKind::Hash,
        (true, true) => MapKind::PerCpuHash,
        (false, false) => MapKind::Array,
        (false, true) => MapKind::PerCpuArray,
    };
    let key_bytes = map.key.as_ref().map_or(4, weir_event::Type::bytes);
    let max_map_keys = map.room.map_or(max_map_keys, |room| room.entries);
    let max_entries = if map.key.is_some() { max_map_keys } else { 1 };
    MapSpec::new(&map.name, kind, key_bytes, value_bytes(map), max_entries)
}

/// Bytes of one value of a script map.
pub(crate) fn value_bytes(map: &MapSchema) -> u32 {
    8 * map.value.words(map.key.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cpus_add_to_one_value_just_where_a_program_reads_or_unsets_it() {
        let kinds = |body: &str| {
            let source = format!(
                "max_map_keys 8\nmap @ count\nmap @k[u64] sum u64\nfn \"f\" begin {{\nb0:\n{body}\nreturn\n}}\n"
            );
            let module = weir_ir::text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
            let maps = of_script(&module);
            [maps[0].kind, maps[1].kind]
        };
        let alone = [MapKind::PerCpuArray, MapKind::PerCpuHash];
        assert_eq!(kinds("aggregate @\nv0: u64 = pid\naggregate @k[v0], v0"), alone);
        assert_eq!(kinds("v0: u64 = pid\nv1: u64 = has @k[v0]\ndelete @k[v0]"), alone);
        assert_eq!(kinds("v0: u64 = get @\nv1: u64 = get @k[v0]"), [MapKind::Array, MapKind::Hash]);
        assert_eq!(kinds("delete @"), [MapKind::Array, MapKind::PerCpuHash]);
        assert_eq!(kinds("v0: u64 = has @"), [MapKind::Array, MapKind::PerCpuHash]);
    }
}
