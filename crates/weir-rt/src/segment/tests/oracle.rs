//! Every kind × operation × flag × error: random sequences on weir's map and on the kernel's map of the same kind, each
//! held to one model after every step, so that they are held to each other.
//!
//! User space asks weir through [`UserMap`](super::super::UserMap) and the kernel through bpf(2); a program asks weir
//! through the C half and the kernel through a loaded program. Flags are valid and invalid ones, keys present, absent
//! and out of bounds. Where bpf(2) is not allowed, weir's map alone is held to the model, and that is said.

use std::collections::BTreeSet;

use testkit::kernel_map::{Command, KernelMap};
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, helper};

use super::kinds::{KINDS, Law, Op, Row, Via};
use super::model::{Answer, Model};
use super::{Random, key, segment, spec, value};
use crate::runtime::linked;
use crate::segment::{MapError, Segment, SegmentLayout};

/// One of the two maps.
trait Side {
    fn name(&self) -> &'static str;
    fn ask(&self, via: Via, op: Op, key: &[u8], value: &[u8], flags: u64) -> Answer;

    /// All keys, by walking; no key may come twice.
    fn keys(&self, bound: usize) -> BTreeSet<Vec<u8>> {
        let walked = self.walk(bound);
        let keys: BTreeSet<_> = walked.iter().cloned().collect();
        assert_eq!(keys.len(), walked.len(), "{}: a key comes twice: {walked:?}", self.name());
        keys
    }

    /// The same, in the order of the walk.
    fn walk(&self, bound: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while let (0, Some(next)) =
            self.ask(Via::User, Op::NextKey, keys.last().unwrap_or(&Vec::new()), &[], 0)
        {
            keys.push(next);
            assert!(keys.len() <= bound, "{}: more than {bound} keys", self.name());
        }
        keys
    }
}

impl Side for Segment {
    fn name(&self) -> &'static str {
        "weir"
    }

    fn ask(&self, via: Via, op: Op, key: &[u8], value: &[u8], flags: u64) -> Answer {
        let (map, descriptor) = (self.user_map(0), self.descriptor(0));
        let status =
            |done: Result<(), MapError>| (done.map_or_else(|error| -i64::from(error.errno()), |()| 0), None);
        let found = |found: Result<Vec<u8>, MapError>| match found {
            Ok(value) => (0, Some(value)),
            Err(error) => (-i64::from(error.errno()), None),
        };
        match (via, op) {
            (Via::User, Op::Lookup) if map.spec().kind == MapKind::BloomFilter => {
                status(map.contains(value, flags))
            }
            (Via::User, Op::Lookup) => found(map.lookup(key, flags)),
            (Via::User, Op::Update) => status(map.update(key, value, flags)),
            (Via::User, Op::Delete) => status(map.delete(key)),
            (Via::User, Op::NextKey) => found(map.next_key((!key.is_empty()).then_some(key))),
            (Via::User, Op::LookupAndDelete) => found(map.lookup_and_delete(key, flags)),
            (Via::Program, Op::Lookup) => match linked::map_lookup(descriptor, key) {
                Some(address) => (0, Some(seen_by_a_program(self, address))),
                None => (-2, None),
            },
            (Via::Program, Op::Update) => (linked::map_update(descriptor, key, value, flags), None),
            (Via::Program, Op::Delete) => (linked::map_delete(descriptor, key), None),
            (Via::Program, Op::Push) => (linked::map_push(descriptor, value, flags), None),
            (Via::Program, Op::Pop | Op::Peek) => {
                let mut buffer = value.to_vec();
                let take = if op == Op::Pop { linked::map_pop } else { linked::map_peek };
                (take(descriptor, &mut buffer), Some(buffer))
            }
            (Via::Program, Op::NextKey | Op::LookupAndDelete) => unreachable!("no helper does this"),
            (Via::User, Op::Push | Op::Pop | Op::Peek) => unreachable!("no command does this"),
        }
    }
}

/// The value at a lookup's address, as an engine without a CPU of its own reads it: in the shared lane.
fn seen_by_a_program(segment: &Segment, address: u64) -> Vec<u8> {
    let map = &segment.layout().maps[0];
    let at = address - segment.base() + u64::from(map.shared_lane()) * map.lane_stride;
    let words = (0..u64::from(map.value_words()))
        .map(|n| segment.mapping().word(at + n * 8).load(super::super::Ordering::Relaxed));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(map.spec.value_bytes as usize);
    bytes
}

impl Side for KernelMap {
    fn name(&self) -> &'static str {
        "the kernel"
    }

    fn ask(&self, via: Via, op: Op, key: &[u8], value: &[u8], flags: u64) -> Answer {
        match (via, op) {
            (Via::User, Op::Lookup) => self.user(Command::Lookup, key, value, flags),
            (Via::User, Op::Update) => self.user(Command::Update, key, value, flags),
            (Via::User, Op::Delete) => self.user(Command::Delete, key, value, 0),
            (Via::User, Op::NextKey) => self.user(Command::NextKey, key, value, 0),
            (Via::User, Op::LookupAndDelete) => self.user(Command::LookupAndDelete, key, value, flags),
            (Via::Program, Op::Lookup) => self.program(helper::MAP_LOOKUP_ELEM, key, value, flags),
            (Via::Program, Op::Update) => self.program(helper::MAP_UPDATE_ELEM, key, value, flags),
            (Via::Program, Op::Delete) => self.program(helper::MAP_DELETE_ELEM, key, value, flags),
            (Via::Program, Op::Push) => self.program(helper::MAP_PUSH_ELEM, key, value, flags),
            (Via::Program, Op::Pop) => self.program(helper::MAP_POP_ELEM, key, value, flags),
            (Via::Program, Op::Peek) => self.program(helper::MAP_PEEK_ELEM, key, value, flags),
            (Via::Program, Op::NextKey | Op::LookupAndDelete) => unreachable!("no helper does this"),
            (Via::User, Op::Push | Op::Pop | Op::Peek) => unreachable!("no command does this"),
        }
    }
}

/// Half of all operations have no flag; the others one of these.
const FLAGS: &[u64] = &[1, 2, 3, 4, 5, 6, 8, 1 << 31, 1 << 32, 1 << 63, u64::MAX];

/// `operations` random ones on `side`, each held to the model.
fn check(row: &Row, spec: &MapSpec, side: &dyn Side, seed: u64, operations: u32) {
    let mut model = Model::new(spec);
    let mut random = Random(seed);
    for n in 0..operations {
        let (via, op) = row.operations[random.below(row.operations.len() as u64) as usize];
        // Some beyond what fits, so that maps are full and indices out of bounds.
        let most = match row.law {
            Law::NoElements => 4,
            _ => u64::from(spec.max_entries) * 3 / 2 + 2,
        };
        let key = match spec.kind {
            MapKind::LpmTrie => super::lpm::random_key(&mut random, spec.key_bytes),
            _ => key(random.below(most), spec.key_bytes),
        };
        let value = value(random.next(), spec.value_bytes);
        let flags = match random.below(2) {
            0 => 0,
            _ => FLAGS[random.below(FLAGS.len() as u64) as usize],
        };
        let answer = side.ask(via, op, &key, &value, flags);
        let context = format!(
            "{}, {} operation {n} of seed {seed:#x}: {via:?} {op:?} on {key:?} with flags {flags:#x}",
            side.name(),
            spec.name
        );
        if row.law == Law::Evicts && op == Op::Update && side.name() != "weir" {
            model.may_have_given_up(&key, flags, answer.0);
        }
        model.check(via, op, &key, &value, flags, &answer, &context);
        if row.law == Law::Evicts && op == Op::Update {
            model.give_up(&key, &side.keys(spec.max_entries as usize), side.name() == "weir", &context);
        }
        if row.law == Law::Ordered && n % 64 == 0 {
            assert_eq!(side.walk(spec.max_entries as usize), model.trie.keys(), "{context}: the order");
            continue;
        }
        if row.law != Law::NoElements && row.law != Law::Ordered && (n % 64 == 0 || n + 1 == operations) {
            let keys = side.keys(spec.max_entries as usize);
            assert_eq!(keys, model.keys(), "{context}: the keys");
            for (key, value) in &model.entries {
                let found = side.ask(Via::User, Op::Lookup, key, &vec![0; value.len()], 0);
                assert_eq!(found, (0, Some(value.clone())), "{context}: then {key:?}");
            }
        }
    }
}

fn sequences(kind: MapKind) {
    let row = super::kinds::row(kind);
    for (key_bytes, value_bytes, max_entries) in row.shapes {
        let spec = spec(kind, *key_bytes, *value_bytes, *max_entries);
        for seed in [0x9e37_79b9, 0x5eed] {
            let segment = segment(std::slice::from_ref(&spec));
            check(row, &spec, &segment, seed, 3000);
            let counters = segment.counters().maps[0];
            assert_eq!((counters.contended, counters.corrupt), (0, 0));
            match KernelMap::create(&spec) {
                Ok(map) => check(row, &spec, &map, seed, 1500),
                Err(error) => {
                    let reason = format!("bpf(BPF_MAP_CREATE): {error}");
                    return testkit::skip::skip("maps against the kernel's", reason);
                }
            }
        }
    }
}

#[test]
fn array_is_the_kernels() {
    sequences(MapKind::Array);
}

#[test]
fn per_cpu_array_is_the_kernels() {
    sequences(MapKind::PerCpuArray);
}

#[test]
fn hash_is_the_kernels() {
    sequences(MapKind::Hash);
}

#[test]
fn per_cpu_hash_is_the_kernels() {
    sequences(MapKind::PerCpuHash);
}

#[test]
fn queue_is_the_kernels() {
    sequences(MapKind::Queue);
}

#[test]
fn stack_is_the_kernels() {
    sequences(MapKind::Stack);
}

#[test]
fn prog_array_is_the_kernels() {
    sequences(MapKind::ProgArray);
}

#[test]
fn what_holds_no_values_refuses_what_the_kernels_does() {
    sequences(MapKind::PerfEventArray);
    sequences(MapKind::CgroupArray);
    sequences(MapKind::StackTrace);
}

/// The kernel's are filled with devices, CPUs and sockets that it knows; here there are none.
#[test]
fn what_packets_are_redirected_to_is_not_there() {
    for row in KINDS.iter().filter(|row| row.kind.redirects()) {
        let (key_bytes, value_bytes, entries) = row.shapes[0];
        let segment = segment(&[MapSpec::new("m", row.kind, key_bytes, value_bytes, entries)]);
        let (map, key) = (segment.user_map(0), vec![0; key_bytes as usize]);
        assert_eq!(map.update(&key, &vec![1; value_bytes as usize], 0), Err(MapError::NotSupported));
        assert_eq!(map.lookup(&key, 0), Err(MapError::NotFound));
        assert_eq!(map.delete(&key), Err(MapError::NotFound));
        assert_eq!(map.next_key(None), Err(MapError::NotFound));
        assert_eq!(linked::map_lookup(segment.descriptor(0), &key), None);
    }
}

#[test]
fn lru_hash_is_the_kernels() {
    sequences(MapKind::LruHash);
}

#[test]
fn lru_per_cpu_hash_is_the_kernels() {
    sequences(MapKind::LruPerCpuHash);
}

#[test]
fn bloom_filter_is_the_kernels() {
    sequences(MapKind::BloomFilter);
}

#[test]
fn lpm_trie_is_the_kernels() {
    sequences(MapKind::LpmTrie);
}

#[test]
fn ring_refuses_what_the_kernels_does() {
    sequences(MapKind::RingBuf);
}

/// Flags of a definition, and freezing: what user space may still do is what the kernel lets it do.
#[test]
fn rights_of_user_space_are_the_kernels() {
    for row in KINDS.iter().filter(|row| row.law != Law::NoElements) {
        for flags in [0, flag::RDONLY, flag::WRONLY, flag::RDONLY_PROG, flag::WRONLY_PROG] {
            for is_frozen in [false, true] {
                let key = match row.kind {
                    MapKind::LpmTrie => &[1, 0, 0, 0, 7][..],
                    kind if kind.has_keys() => &[1, 0, 0, 0],
                    _ => &[],
                };
                let spec = spec(row.kind, key.len() as u32, 8, 4);
                let spec = MapSpec { flags: flags | spec.flags, ..spec };
                let segment = segment(std::slice::from_ref(&spec));
                let Ok(kernel) = KernelMap::create(&spec) else { return };
                if is_frozen {
                    let ours =
                        segment.user_map(0).freeze().map_or_else(|error| -i64::from(error.errno()), |()| 0);
                    assert_eq!(ours, kernel.freeze(), "{:?} with flags {flags:#x}: freezing", row.kind);
                }
                for op in [Op::Update, Op::Lookup, Op::NextKey, Op::LookupAndDelete, Op::Delete, Op::Delete] {
                    let ask = |side: &dyn Side| side.ask(Via::User, op, key, &[7; 8], 0);
                    let context = format!("{:?} with flags {flags:#x}, frozen {is_frozen}: {op:?}", row.kind);
                    assert_eq!(ask(&segment), ask(&kernel), "{context}");
                }
            }
        }
    }
}

/// Whether weir takes a definition, and whether the kernel does.
fn verdicts(spec: &MapSpec) -> Option<(bool, bool)> {
    let ours = SegmentLayout::plan(std::slice::from_ref(spec), super::CPUS).is_ok();
    match KernelMap::create(spec) {
        Ok(_) => Some((ours, true)),
        Err(error) if error.raw_os_error() == Some(nix::libc::EPERM) => None,
        Err(_) => Some((ours, false)),
    }
}

/// Where the verdicts on a definition differ, and why. (Besides: more than 16 Mi entries and rings above 1 GiB, which
/// weir refuses. The kernel would set gigabytes aside before it said what it thinks of them.)
fn difference(spec: &MapSpec) -> Option<&'static str> {
    use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
    if spec.key_bytes > KEY_BYTES_MAX {
        return Some("keys above 8 KiB: KEY_BYTES_MAX of weir's");
    }
    if spec.value_bytes > VALUE_BYTES_MAX {
        return Some("values above 1 MiB: VALUE_BYTES_MAX of weir's");
    }
    if spec.kind.is_per_cpu() && spec.value_bytes > 32 << 10 {
        return Some("per-CPU values above 32 KiB: what the kernel's allocator of them gives");
    }
    if spec.kind == MapKind::PerfEventArray && spec.max_entries == 0 {
        return Some(
            "perf events without entries: weir counts the CPUs, as libbpf does before it asks the kernel",
        );
    }
    if spec.flags & (1 << 2 | 1 << 12) != 0 {
        return Some(
            "BPF_F_NUMA_NODE and BPF_F_INNER_MAP: weir has no nodes, and looks up inner maps by their own size",
        );
    }
    if spec.kind == MapKind::CpuMap && spec.max_entries > 64 {
        return Some("CPUs beyond those that this kernel was built for");
    }
    if spec.kind == MapKind::Hash && spec.has(flag::IN_KERNEL) {
        return Some("maps that weir shares with the kernel: whole words as keys, and one as a value");
    }
    None
}

#[test]
fn bad_definitions_are_the_kernels() {
    let mut listed = BTreeSet::new();
    for row in KINDS {
        let good = match row.law {
            Law::NoElements => {
                let (key_bytes, value_bytes, entries) = row.shapes[0];
                MapSpec::new("m", row.kind, key_bytes, value_bytes, entries)
            }
            Law::InOrder | Law::NoFalseNegatives => MapSpec::new("m", row.kind, 0, 8, 4),
            Law::Ordered => spec(row.kind, 8, 8, 4),
            _ => MapSpec::new("m", row.kind, 4, 8, 4),
        };
        let keys = [0, 1, 3, 4, 5, 8, 260, 261, 512, 4096, 8192, 8193, 1 << 26, u32::MAX]
            .map(|key_bytes| MapSpec { key_bytes, ..good.clone() });
        let values =
            [0, 1, 7, 8, 1000, 32 << 10, 40 << 10, 1 << 20, (1 << 20) + 1, 5 << 20, 1 << 31, u32::MAX]
                .map(|value_bytes| MapSpec { value_bytes, ..good.clone() });
        let entries = [0, 1, 3, 1000, 2048, 4096, 8192, 12288]
            .map(|max_entries| MapSpec { max_entries, ..good.clone() });
        // 0 as well, for kinds that need a flag; and each with that flag.
        let flags = (0..32).map(|bit| 1 << bit).chain([0, 0x18, 0x180, 0x88, 0x110, 0x1f8]);
        let flags = flags.flat_map(|flags| [flags, flags | good.flags]);
        let flags: Vec<MapSpec> = flags.map(|flags| MapSpec { flags, ..good.clone() }).collect();
        let extras: Vec<MapSpec> =
            [1, 5, 15, 16, 17, 255].map(|extra| MapSpec { extra, ..good.clone() }).into();
        for spec in keys.iter().chain(&extras).chain(&values).chain(&entries).chain(&flags) {
            let Some((ours, kernels)) = verdicts(spec) else {
                return testkit::skip::skip(
                    "maps against the kernel's",
                    "bpf(BPF_MAP_CREATE) is not allowed",
                );
            };
            match difference(spec) {
                Some(reason) => _ = listed.insert(reason),
                None => assert_eq!(ours, kernels, "weir's verdict and the kernel's: {spec:?}"),
            }
        }
    }
    assert_eq!(listed.len(), 7, "reasons that no definition needs: {listed:?}");
}
