//! Which eBPF maps an object has: the script's own first, in the schema's order, then the internal ones.
//!
//! | script map | keyed | scalar (one entry) |
//! |---|---|---|
//! | Plain, Min, Max | HASH | ARRAY |
//! | Count, Sum, Avg, Stats, Hist, Lhist | PERCPU_HASH | PERCPU_ARRAY |
//!
//! Internal: `.ring` (records, scratch memory), `.globals` (one entry, word 0: start of the session in ns) and,
//! where a clause turns out to insert values too long for the stack, `.zero` (one entry of zeros, as long as the
//! longest of them).
//!
//! Value bytes are weir-event's words, 8 bytes each.

use weir_ebpf::{MapKind, MapSpec};
use weir_event::MapSchema;
use weir_ir::Module;

/// The maps of one object.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) specs: Vec<MapSpec>,
    pub(crate) ring: u32,
    pub(crate) globals: u32,
    /// The index that `.zero` has, if it is added.
    pub(crate) zero: u32,
}

impl Maps {
    pub(crate) fn of(module: &Module, ring_bytes: u32) -> Maps {
        let mut specs: Vec<MapSpec> =
            module.schema.maps.iter().map(|map| script_map(map, module.max_map_keys)).collect();
        let mut internal = |name: &str, kind, key_bytes, value_bytes, max_entries| {
            specs.push(MapSpec { name: name.into(), kind, key_bytes, value_bytes, max_entries });
            specs.len() as u32 - 1
        };
        let ring = internal(".ring", MapKind::RingBuf, 0, 0, ring_bytes);
        let globals = internal(".globals", MapKind::Array, 4, 8, 1);
        Maps { ring, globals, zero: globals + 1, specs }
    }

    /// Adds `.zero` if `bytes` is not 0.
    pub(crate) fn finish(mut self, bytes: u32) -> Vec<MapSpec> {
        if bytes > 0 {
            let (name, kind) = (".zero".into(), MapKind::Array);
            self.specs.push(MapSpec { name, kind, key_bytes: 4, value_bytes: bytes, max_entries: 1 });
        }
        self.specs
    }
}

fn script_map(map: &MapSchema, max_map_keys: u32) -> MapSpec {
    let kind = match (map.key.is_some(), map.value.is_per_cpu()) {
        (true, false) => MapKind::Hash,
        (true, true) => MapKind::PerCpuHash,
        (false, false) => MapKind::Array,
        (false, true) => MapKind::PerCpuArray,
    };
    MapSpec {
        name: map.name.clone(),
        kind,
        key_bytes: map.key.as_ref().map_or(4, weir_event::Type::bytes),
        value_bytes: value_bytes(map),
        max_entries: if map.key.is_some() { max_map_keys } else { 1 },
    }
}

/// Bytes of one value of a script map.
pub(crate) fn value_bytes(map: &MapSchema) -> u32 {
    8 * map.value.words(map.key.is_none())
}
