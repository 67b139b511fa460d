//! Maps that cannot be, and what is not done with maps of a kind.

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec, Object};
use weir_verifier::{Limits, RejectionKind, verify};

use crate::reject::{FOUND, LANE, LOOKUP, object, refuses, rejection};

#[test]
fn tries_take_whole_keys() {
    let trie = "r1 = map[@trie] ll";
    let key = "*(u64 *)(r10 - 8) = 8; r2 = r10; r2 += -8";
    for call in ["map_lookup_elem", "map_delete_elem"] {
        refuses(trie, &format!("r2 = r10; r2 += -8; call {call}; r0 = 0; exit"), "never written");
        let short = "*(u32 *)(r10 - 4) = 8; r2 = r10; r2 += -4";
        refuses(trie, &format!("{short}; call {call}; r0 = 0; exit"), "r2 of");
    }
    refuses(
        trie,
        &format!("{key}; call map_lookup_elem; r0 = *(u64 *)(r0 + 0); exit"),
        "must be compared with 0",
    );
    let found = format!("{trie}; {key}; call map_lookup_elem; if r0 != 0 goto +1; exit");
    refuses(&found, "r0 = *(u64 *)(r0 + 16); exit", "");
    refuses(trie, &format!("{key}; call map_push_elem; exit"), "the helper does not take");
}

#[test]
fn queues_and_stacks_have_helpers_of_their_own() {
    let (queue, stack) = ("r1 = map[@queue] ll", "r1 = map[@stack] ll");
    let eight = "r2 = r10; r2 += -8; *(u64 *)(r10 - 8) = 0";
    for call in ["map_lookup_elem", "map_delete_elem"] {
        let part = "kind queue, which the helper does not take";
        refuses(queue, &format!("{eight}; call {call}; r0 = 0; exit"), part);
    }
    let part = "kind stack, which the helper does not take";
    refuses(stack, &format!("{eight}; r3 = r2; r4 = 0; call map_update_elem; exit"), part);
    refuses(stack, &format!("{eight}; r3 = 8; r4 = 0; call ringbuf_output; exit"), part);
    for map in ["hash", "array", "percpu", "ring"] {
        for call in ["map_push_elem", "map_pop_elem", "map_peek_elem"] {
            let text = format!("r1 = map[@{map}] ll; r3 = 0; call {call}; r0 = 0; exit");
            refuses(eight, &text, "which the helper does not take");
        }
    }
    refuses(eight, "r1 = 5; r3 = 0; call map_push_elem; exit", "a map is needed");
    // A Bloom filter is pushed to and asked, and reads what it is asked for.
    let filter = "r1 = map[@filter] ll";
    for call in ["map_pop_elem", "map_lookup_elem", "map_delete_elem"] {
        let part = "kind bloom_filter, which the helper does not take";
        refuses(filter, &format!("{eight}; call {call}; r0 = 0; exit"), part);
    }
    refuses(filter, "r2 = r10; r2 += -8; call map_peek_elem; exit", "never written");
    refuses(
        filter,
        "*(u32 *)(r10 - 4) = 1; r2 = r10; r2 += -4; call map_peek_elem; exit",
        "r2 of map_peek_elem",
    );
    // What is pushed is the whole value, and was written.
    refuses(queue, &format!("{eight}; r3 = 0; call map_push_elem; exit"), "r2 of map_push_elem");
    refuses(stack, "r2 = r10; r2 += -8; r3 = 0; call map_push_elem; exit", "never written");
    refuses(stack, &format!("{eight}; call map_push_elem; exit"), "r3 of map_push_elem");
    refuses(stack, &format!("{eight}; r3 = r10; call map_push_elem; exit"), "where a number is needed");
    // What is taken has room.
    refuses(queue, "r2 = r10; r2 += -8; call map_pop_elem; exit", "r2 of map_pop_elem");
    refuses(stack, "r2 = r10; r2 += -520; call map_peek_elem; exit", "r2 of map_peek_elem");
    refuses("r6 = r1", "r1 = map[@stack] ll; r2 = r6; call map_pop_elem; exit", "may reach");
    refuses(stack, "r2 = 8; call map_pop_elem; exit", "may reach");
    refuses(
        LOOKUP,
        "r2 = r0; r1 = map[@queue] ll; call map_pop_elem; r0 = 0; exit",
        "must be compared with 0",
    );
    refuses(FOUND, "r2 = r0; r2 += 8; r1 = map[@queue] ll; call map_pop_elem; r0 = 0; exit", "r2 of");
    // A pointer that was on the stack is gone, and so are the registers.
    let spilled = "*(u64 *)(r10 - 8) = r10; r1 = map[@stack] ll; r2 = r10; r2 += -8; call map_pop_elem";
    refuses(spilled, "r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 - 16); exit", "");
    refuses(stack, "r2 = r10; r2 += -8; call map_pop_elem; r0 = r2; exit", "r2 is read");
}

#[test]
fn maps_that_cannot_be() {
    let check = |kind, key_bytes, value_bytes, max_entries, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec::new("@m", kind, key_bytes, value_bytes, max_entries)];
        let rejection = rejection(&object);
        assert!(rejection.at.is_none() && rejection.to_string().contains(part), "{rejection}");
    };
    check(MapKind::Hash, 0, 8, 1, "a key of 0 bytes");
    check(MapKind::Hash, 65_537, 8, 1, "a key of 65537 bytes");
    check(MapKind::Hash, u32::MAX, 8, 1, "a key of");
    check(MapKind::Hash, 8, 0, 1, "a value of 0 bytes");
    check(MapKind::Hash, 8, u32::MAX, 1, "a value of");
    check(MapKind::PerCpuHash, 8, 8, 0, "no entries");
    check(MapKind::Array, 8, 8, 1, "the key of an array");
    check(MapKind::PerCpuArray, 0, 8, 1, "the key of an array");
    check(MapKind::Queue, 4, 8, 1, "a queue has no key");
    check(MapKind::Stack, 0, 0, 1, "a value of 0 bytes");
    check(MapKind::Stack, 0, 8, 0, "no entries");
    check(MapKind::BloomFilter, 4, 8, 1, "a bloom_filter has no key");
    check(MapKind::BloomFilter, 0, 0, 1, "a value of 0 bytes");
    check(MapKind::PerfEventArray, 4, 8, 1, "4 bytes each");
    check(MapKind::CgroupArray, 8, 4, 1, "4 bytes each");
    check(MapKind::CgroupArray, 4, 4, 0, "no entries");
    check(MapKind::StackTrace, 8, 8, 1, "a key of 4 bytes");
    check(MapKind::StackTrace, 4, 12, 1, "a value of 8 bytes for each");
    check(MapKind::StackTrace, 4, 0, 1, "a value of 8 bytes for each");
    check(MapKind::StackTrace, 4, 1024, 1, "1 to 127");
    check(MapKind::StackTrace, 4, 8, 0, "no entries");
    check(MapKind::RingBuf, 4, 0, 4096, "no key and no value");
    check(MapKind::RingBuf, 0, 0, 4095, "power of two");
    check(MapKind::RingBuf, 0, 0, 12288, "power of two");
    check(MapKind::RingBuf, 0, 0, 0, "power of two");
    check(MapKind::RingBuf, 0, 0, 1 << 31, "power of two");
    let flags = |kind, flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", kind, 4, 8, 1) }];
        let rejection = rejection(&object);
        assert!(rejection.at.is_none() && rejection.to_string().contains(part), "{rejection}");
    };
    for (kind, extra) in [(MapKind::BloomFilter, 16), (MapKind::Queue, 1), (MapKind::Queue, 1 << 40)] {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { extra, ..MapSpec::new("@m", kind, 0, 8, 1) }];
        assert!(rejection(&object).to_string().contains("an extra of"));
    }
    let trie = |key_bytes, flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", MapKind::LpmTrie, key_bytes, 8, 1) }];
        let rejection = rejection(&object);
        assert!(rejection.to_string().contains(part), "{rejection}");
    };
    trie(8, 0, "needs the flag BPF_F_NO_PREALLOC");
    trie(4, 1, "a key of 4 bytes; the limits of an LPM trie are 5 and 260");
    trie(261, 1, "a key of 261 bytes");
    trie(8, 3, "which maps of kind lpm_trie do not take");
    let queue_flags = |flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", MapKind::Queue, 0, 8, 1) }];
        assert!(rejection(&object).to_string().contains(part));
    };
    flags(MapKind::Hash, 1 << 2, "flags 0x4, which maps of kind hash do not take");
    queue_flags(1, "flags 0x1, which maps of kind queue do not take");
    flags(MapKind::Array, 1, "flags 0x1, which maps of kind array do not take");
    flags(MapKind::Array, 1 << 31, "flags 0x80000000, which");
    flags(MapKind::RingBuf, flag::RB_OVERWRITE, "flags 0x80000: one ring does not overwrite");
    flags(MapKind::Array, flag::RDONLY | flag::WRONLY, "at once");
    flags(MapKind::Hash, flag::RDONLY_PROG | flag::WRONLY_PROG, "at once");
}

#[test]
fn lru_maps_are_hashes_to_the_verifier() {
    let check = |before: &str, text: &str, part: &str| {
        let mut object = object(before, text);
        object.maps[0].kind = MapKind::LruHash;
        object.maps[2].kind = MapKind::LruPerCpuHash;
        let shown = rejection(&object).to_string();
        assert!(shown.contains(part), "{shown}");
    };
    check(LOOKUP, "r0 = *(u64 *)(r0 + 0); exit", "must be compared with 0 first");
    check(FOUND, "r0 = *(u64 *)(r0 + 16); exit", "inside its 16 bytes");
    check(LANE, "r1 = 1; lock *(u64 *)(r0 + 8) += r1; exit", "inside its 8 bytes");
    check("r0 = map[@hash][0] + 0x0 ll", "r0 = 0; exit", "no fixed address");
}

#[test]
fn read_only_maps_are_not_written_and_write_only_ones_not_read() {
    let with = |flags: u32, before: &str, text: &str| {
        let mut object = object(before, text);
        object.maps[..2].iter_mut().for_each(|map| map.flags = flags);
        object
    };
    let check = |flags, before: &str, text: &str, part: &str| {
        let shown = rejection(&with(flags, before, text)).to_string();
        assert!(shown.contains(part), "{shown}");
    };
    let accepted = |flags, before: &str, text: &str| {
        let object = with(flags, before, text);
        verify(&object.programs[0], &object.maps, &Limits::default())
            .unwrap_or_else(|error| panic!("{error}"));
    };
    let eight = "r2 = r10; r2 += -8; *(u64 *)(r10 - 8) = 0; r3 = 0";
    let value = "r0 = map[@array][0] + 0x0 ll";
    let read_only = "@array is read-only (BPF_F_RDONLY_PROG)";
    check(flag::RDONLY_PROG, value, "*(u64 *)(r0 + 0) = 1; r0 = 0; exit", read_only);
    check(flag::RDONLY_PROG, value, "r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit", read_only);
    check(flag::RDONLY_PROG, FOUND, "*(u8 *)(r0 + 0) = 1; r0 = 0; exit", "@hash is read-only");
    check(flag::RDONLY_PROG, value, "r1 = r0; r2 = 8; call get_current_comm; r0 = 0; exit", read_only);
    let key = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll";
    let update = "r3 = r10; r3 += -24; *(u64 *)(r10 - 16) = 0; *(u64 *)(r10 - 24) = 0; r4 = 0";
    let update = format!("{key}; {update}; call map_update_elem; r0 = 0; exit");
    check(flag::RDONLY_PROG, "r0 = 0", &update, "map_update_elem writes to it");
    check(flag::RDONLY_PROG, key, "call map_delete_elem; r0 = 0; exit", "map_delete_elem writes to it");
    for call in ["map_push_elem", "map_pop_elem", "map_peek_elem"] {
        let mut object = object("r1 = map[@stack] ll", &format!("{eight}; call {call}; r0 = 0; exit"));
        object
            .maps
            .iter_mut()
            .filter(|map| map.name == "@stack")
            .for_each(|map| map.flags = flag::RDONLY_PROG);
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default()).map(drop);
        assert_eq!(verdict.is_ok(), call == "map_peek_elem", "{call}: {verdict:?}");
    }
    accepted(flag::RDONLY_PROG, FOUND, "r0 = *(u64 *)(r0 + 0); exit");
    let write_only = "@array is write-only (BPF_F_WRONLY_PROG)";
    check(flag::WRONLY_PROG, value, "r0 = *(u64 *)(r0 + 0); exit", write_only);
    check(flag::WRONLY_PROG, value, "r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit", write_only);
    let as_key = "r2 = r0; r1 = map[@percpu] ll; call map_delete_elem; r0 = 0; exit";
    check(flag::WRONLY_PROG, value, as_key, write_only);
    accepted(flag::WRONLY_PROG, value, "*(u64 *)(r0 + 0) = 1; r0 = 0; exit");
    accepted(flag::WRONLY_PROG, "r0 = 0", &update);
}

#[test]
fn maps_that_hold_maps_say_which() {
    let check = |maps: &[MapSpec], kind: RejectionKind, part: &str| {
        let object = Object { maps: maps.to_vec(), programs: object("", "r0 = 0; exit").programs };
        let rejection = rejection(&object);
        assert!(rejection.kind == kind && rejection.to_string().contains(part), "{rejection}");
    };
    let map = |kind, inner| MapSpec { inner, ..MapSpec::new("m", kind, 4, 4, 4) };
    let array = map(MapKind::Array, None);
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        check(&[map(kind, None)], RejectionKind::Unsafe, "which maps it holds is not said");
        check(&[map(kind, Some(1))], RejectionKind::Unsafe, "one that is not there");
        check(&[map(kind, Some(0))], RejectionKind::Unsafe, "not held by others");
        check(
            &[map(kind, Some(1)), map(MapKind::PerCpuArray, None)],
            RejectionKind::Unsupported,
            "percpu_array",
        );
        check(
            &[MapSpec { value_bytes: 8, ..map(kind, Some(1)) }, array.clone()],
            RejectionKind::Unsafe,
            "4 bytes",
        );
        check(
            &[MapSpec { max_entries: 0, ..map(kind, Some(1)) }, array.clone()],
            RejectionKind::Unsafe,
            "no entries",
        );
    }
    check(&[map(MapKind::Array, Some(0))], RejectionKind::Unsafe, "holds no maps");
}
