//! Hash maps that programs in the kernel see too (weir-kernel's `table.rs`): both sides do the same to the same memory, one after the other and at once.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use testkit::{kernel, skip};
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, asm};
use weir_kernel::{Input, Loaded, Maps};

use super::{CPUS, Random, identity};
use crate::abi::control;
use crate::runtime::linked;
use crate::segment::{Segment, SegmentLayout};

/// What a program is asked to do, in the first word of its memory.
const LOOKUP: u64 = 0;
const SET: u64 = 1;
const INSERT: u64 = 2;
const DELETE: u64 = 3;
/// Adds to the value, which is inserted as 0 first.
const ADD: u64 = 4;
/// The same, and the next run does it to the next key of so many.
const COUNT: u64 = 5;

/// The memory: what, a value or how many keys, the value found or how often there was no room, the answer (r0 is of the last of all runs), then the key.
const ANSWER_AT: usize = 24;
const KEY_AT: usize = 32;

fn program(key_words: usize) -> String {
    let key: String = (0..key_words)
        .map(|word| {
            let (from, to) = (KEY_AT + 8 * word, 8 * (key_words - word));
            format!("r1 = *(u64 *)(r6 + {from})\n*(u64 *)(r10 - {to}) = r1\n")
        })
        .collect();
    let (key_at, value_at) = (8 * key_words, 8 * key_words + 8);
    let call = |helper: &str| {
        format!(
            "r4 = r8\nr3 = r10\nr3 += -{value_at}\nr2 = r10\nr2 += -{key_at}\nr1 = map[@t] ll\ncall {helper}\n"
        )
    };
    format!(
        "program \"ops\" memory {bytes}\n\
         r6 = r1\nr8 = 0\n{key}r1 = *(u64 *)(r6 + 8)\n*(u64 *)(r10 - {value_at}) = r1\n\
         r7 = *(u64 *)(r6 + 0)\nif r7 == {SET} goto update\nif r7 == {DELETE} goto delete\nr8 = 1\nif r7 == {INSERT} goto update\n\
         if r7 == {ADD} goto add\nif r7 == {COUNT} goto add\n\
         {lookup}if r0 == 0 goto absent\nr1 = *(u64 *)(r0 + 0)\n*(u64 *)(r6 + 16) = r1\nr0 = 1\ngoto answer\n\
         absent:\nr0 = 0\ngoto answer\n\
         update:\n{update}goto answer\n\
         delete:\n{delete}goto answer\n\
         add:\nr1 = 0\n*(u64 *)(r10 - {value_at}) = r1\n\
         {lookup}if r0 != 0 goto found\n{update}{lookup}if r0 == 0 goto full\n\
         found:\nr1 = 1\nlock *(u64 *)(r0 + 0) += r1\nif r7 != {COUNT} goto done\n\
         r1 = *(u64 *)(r6 + {KEY_AT})\nr1 += 1\nr2 = *(u64 *)(r6 + 8)\nr1 %= r2\n*(u64 *)(r6 + {KEY_AT}) = r1\n\
         done:\nr0 = 0\ngoto answer\n\
         full:\nr1 = *(u64 *)(r6 + 16)\nr1 += 1\n*(u64 *)(r6 + 16) = r1\nr0 = -7\n\
         answer:\n*(u64 *)(r6 + {ANSWER_AT}) = r0\nr0 = 0\nexit\n",
        bytes = memory_bytes(key_words),
        lookup = call("map_lookup_elem"),
        update = call("map_update_elem"),
        delete = call("map_delete_elem"),
    )
}

fn memory_bytes(key_words: usize) -> usize {
    (KEY_AT + 8 * key_words).max(64)
}

/// A map, as both sides have it.
struct Shared {
    segment: Segment,
    program: Loaded,
    key_words: usize,
}

impl Shared {
    /// None where the kernel takes no programs from this test.
    fn new(key_words: usize, entries: u32) -> Option<Shared> {
        if let Err(reason) = kernel::available() {
            skip::skip("segment-in-kernel", reason);
            return None;
        }
        linked::prepare();
        let spec =
            |flags| MapSpec { flags, ..MapSpec::new("@t", MapKind::Hash, 8 * key_words as u32, 8, entries) };
        let layout =
            SegmentLayout::plan(&[spec(flag::IN_KERNEL)], CPUS).expect("the layout is within bounds");
        let bytes = layout.kernel_bytes();
        let array = MapSpec {
            flags: flag::MMAPABLE,
            ..MapSpec::new(".in_kernel", MapKind::Array, 4, bytes as u32, 1)
        };
        let mut maps = Maps::create(&[spec(0), array]).expect("maps in the kernel");
        let fd = maps.fd(1).as_fd().try_clone_to_owned().expect("a descriptor");
        let segment = Segment::create_maps_with_kernel(layout, &identity(), fd).expect("a segment");
        let tables =
            weir_kernel::Tables { array: 1, bytes, tables: vec![segment.table(0)], scalars: Vec::new() };
        let text = format!("map @t hash key {} value 8 entries 1\n{}", 8 * key_words, program(key_words));
        let object = asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        maps.use_tables(tables);
        let program = weir_kernel::load(&object.programs[0], &maps).unwrap_or_else(|error| panic!("{error}"));
        Some(Shared { segment, program, key_words })
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let word = |word| number.wrapping_mul(1 + word as u64 * 0x9e37_79b9).to_le_bytes();
        (0..self.key_words).flat_map(word).collect()
    }

    /// What the program answers, and what its memory says.
    fn in_kernel(&self, what: u64, number: u64, value: u64, times: u32) -> (i64, u64) {
        let words = [what, value, 0, 0].map(u64::to_le_bytes).concat();
        let mut memory = [words, self.key(number)].concat();
        memory.resize(memory_bytes(self.key_words), 0);
        let ran = self.program.run(Input { bytes: &memory, context: &[] }, times).expect("a run");
        let word = |at: usize| u64::from_le_bytes(ran.bytes[at..at + 8].try_into().expect("8 bytes"));
        (word(ANSWER_AT) as i64, word(16))
    }

    fn in_process(&self, what: u64, number: u64, value: u64) -> (i64, u64) {
        let (map, key) = (self.segment.descriptor(0), self.key(number));
        let set = |flags| linked::map_update(map, &key, &value.to_le_bytes(), flags);
        match what {
            SET => (set(0), 0),
            INSERT => (set(1), 0),
            DELETE => (linked::map_delete(map, &key), 0),
            ADD => {
                if linked::map_lookup(map, &key).is_none() {
                    linked::map_update(map, &key, &[0; 8], 1);
                }
                let Some(at) = linked::map_lookup(map, &key) else { return (-7, 1) };
                // SAFETY: the look-up gave the address of a value's 8 bytes, in a segment that lives on.
                unsafe { AtomicU64::from_ptr(at as *mut u64) }.fetch_add(1, Ordering::Relaxed);
                (0, 0)
            }
            _ => {
                let Some(at) = linked::map_lookup(map, &key) else { return (0, 0) };
                // SAFETY: as above.
                (1, unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Relaxed))
            }
        }
    }

    fn entries(&self) -> BTreeMap<Vec<u8>, u64> {
        let entries = self.segment.map(0).entries();
        let count = entries.len();
        let word = |value: Vec<u8>| u64::from_le_bytes(value.try_into().expect("8 bytes"));
        let entries: BTreeMap<Vec<u8>, u64> =
            entries.into_iter().map(|(key, value)| (key, word(value))).collect();
        assert_eq!(entries.len(), count, "a key is there twice");
        entries
    }

    fn counted(&self, what: u64) -> u64 {
        let at = self.segment.layout().maps[0].offset + what;
        self.segment.mapping().word(at).load(Ordering::Relaxed)
    }

    /// Every node is in the map or to be had: the map takes as many keys as it has room for, from either side.
    fn assert_whole(&self, entries: u64) {
        for key in self.entries().into_keys() {
            assert_eq!(linked::map_delete(self.segment.descriptor(0), &key), 0);
        }
        for number in 0..entries {
            let done = match number % 2 {
                0 => self.in_kernel(INSERT, number, number, 1).0,
                _ => self.in_process(INSERT, number, number).0,
            };
            assert_eq!(done, 0, "key {number} of {entries}");
        }
        assert_eq!(self.in_kernel(INSERT, entries, 0, 1).0, -7);
        assert_eq!(self.in_process(INSERT, entries, 0).0, -7);
        assert_eq!(self.counted(control::CORRUPT), 0);
    }
}

#[test]
fn either_side_finds_what_the_other_did() {
    for (key_words, entries) in [(1, 16), (2, 1), (3, 64), (4, 16), (9, 16)] {
        let Some(shared) = Shared::new(key_words, entries) else { return };
        let mut random = Random(7 + key_words as u64);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..4000 {
            let (what, value) = (random.below(5), random.next() >> 1);
            let number = random.below(u64::from(entries) * 3 / 2 + 1);
            let is_full = model.len() == entries as usize && !model.contains_key(&number);
            let wanted = match what {
                SET | INSERT | ADD if is_full => (-7, u64::from(what == ADD)),
                SET => (model.insert(number, value).map_or(0, |_| 0), 0),
                INSERT if model.contains_key(&number) => (-17, 0),
                INSERT => (model.insert(number, value).map_or(0, |_| 0), 0),
                DELETE => (model.remove(&number).map_or(-2, |_| 0), 0),
                ADD => {
                    *model.entry(number).or_default() += 1;
                    (0, 0)
                }
                _ => model.get(&number).map_or((0, 0), |value| (1, *value)),
            };
            let got = match random.below(2) {
                0 => shared.in_kernel(what, number, value, 1),
                _ => shared.in_process(what, number, value),
            };
            assert_eq!(got, wanted, "step {step}: {what} of {number}, {key_words} words");
        }
        let wanted: BTreeMap<Vec<u8>, u64> =
            model.into_iter().map(|(number, value)| (shared.key(number), value)).collect();
        assert_eq!(shared.entries(), wanted);
        shared.assert_whole(entries.into());
    }
}

#[test]
fn what_both_sides_add_at_once_is_all_there() {
    const KEYS: u64 = 512;
    const TIMES: u64 = 20_000;
    for round in 0..6 {
        let Some(shared) = Shared::new(1 + round % 2, KEYS as u32).map(Arc::new) else { return };
        let in_kernel = |first: u64| {
            let shared = shared.clone();
            // Of a key of several words the others would have to follow: it has zeros there.
            thread::spawn(move || shared.in_kernel(COUNT, 0, KEYS - first % 2, TIMES as u32).1)
        };
        let in_process = |first: u64| {
            let shared = shared.clone();
            thread::spawn(move || {
                (0..TIMES).map(|n| shared.in_process(ADD, (first * 7 + n) % KEYS, 0).1).sum::<u64>()
            })
        };
        let threads = [in_kernel(0), in_process(1), in_kernel(1), in_process(2)];
        let refused: u64 = threads.into_iter().map(|thread| thread.join().expect("a thread")).sum();
        let sum: u64 = shared.entries().values().sum();
        assert_eq!(sum + refused, 4 * TIMES, "round {round}");
        assert_eq!(shared.counted(control::CORRUPT), 0);
    }
}

#[test]
fn whose_keys_nobody_else_has_finds_them_as_it_left_them() {
    const ENTRIES: u64 = 64;
    let Some(shared) = Shared::new(2, ENTRIES as u32).map(Arc::new) else { return };
    let work = |me: u64, in_kernel: bool| {
        let shared = shared.clone();
        thread::spawn(move || {
            let ask = |what, number, value| match in_kernel {
                true => shared.in_kernel(what, number, value, 1),
                false => shared.in_process(what, number, value),
            };
            let mut random = Random(me + 1);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for step in 0..if in_kernel { 20_000 } else { 100_000 } {
                // Ten keys of each of four: they have room, and pass through each other's chains.
                let (number, value) = (me + 4 * random.below(10), random.next());
                let (what, wanted) = match random.below(4) {
                    0 => (DELETE, (model.remove(&number).map_or(-2, |_| 0), 0)),
                    1 => (LOOKUP, model.get(&number).map_or((0, 0), |value| (1, *value))),
                    _ => (SET, (model.insert(number, value).map_or(0, |_| 0), 0)),
                };
                let got = ask(what, number, value);
                assert_eq!(got, wanted, "step {step} of {me}: {what} of {number}");
            }
        })
    };
    let threads = [work(0, true), work(1, false), work(2, true), work(3, false)];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    assert_eq!(shared.counted(control::CONTENDED), 0);
    shared.assert_whole(ENTRIES);
}
