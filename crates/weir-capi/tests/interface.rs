//! What each function answers, wrong calls included, as a C program sees it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};

use testkit::{bpf, paths};
use weir_bpf::*;

/// `r0 = *(u8 *)(r1 + 0); r0 += r2; exit`.
const SUM: [u64; 3] = [0x0000_0000_0000_1071, 0x0000_0000_0000_200f, 0x95];
/// A load through r1 and a jump back to it for ever.
const ENDLESS: [u64; 2] = [0x0000_0000_ffff_0005, 0x95];

fn error() -> String {
    // SAFETY: the library answers a string.
    unsafe { CStr::from_ptr(weir_bpf_error()) }.to_str().unwrap().to_owned()
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

#[test]
fn bare_instructions_run_on_memory_of_the_size_they_were_verified_for() {
    for engine in [0, 1, 2] {
        let mut memory = [7u64, 9];
        let mut result = 0;
        // SAFETY: every pointer names what the header asks for.
        unsafe {
            let object = weir_bpf_open_instructions(SUM.as_ptr().cast(), SUM.len());
            assert_eq!(weir_bpf_programs(object), 1);
            let program = weir_bpf_load(object, null(), engine, 16);
            assert!(!program.is_null(), "{}", error());
            // Closed first: the program keeps what it needs.
            weir_bpf_close(object);
            let data: *mut c_void = memory.as_mut_ptr().cast();
            assert_eq!(weir_bpf_run(program, data, 16, &mut result), 0);
            assert_eq!(result, 7 + 16);
            assert_eq!(weir_bpf_run(program, data, 8, &mut result), -22);
            assert!(error().contains("was verified for 16"), "{}", error());
            assert_eq!(weir_bpf_run(program, data.byte_add(1), 16, &mut result), -22);
            assert_eq!(weir_bpf_run(program, null_mut(), 16, &mut result), -22);
            weir_bpf_unload(program);
        }
    }
}

#[test]
fn verdicts_are_errno_and_words() {
    let check = |insns: &[u64], memory, wanted: c_int, words: &str| {
        // SAFETY: as above.
        unsafe {
            let object = weir_bpf_open_instructions(insns.as_ptr().cast(), insns.len());
            assert_eq!(weir_bpf_verify(object, null(), memory), wanted, "{}", error());
            assert!(wanted == 0 || error().contains(words), "{}", error());
            weir_bpf_close(object);
        }
    };
    check(&SUM, 1, 0, "");
    check(&SUM, 0, -13, "unsafe");
    check(&ENDLESS, 0, -13, "");
    check(&[0x0000_7fff_0000_0085, 0x95], 0, -95, "weir has no helper number 32767");
    check(&[0x0000_0000_0000_0000, 0x95], 0, -13, "unsafe");
}

/// A chain over three programs, with a digit of each, and a program that takes over from itself 33 times.
#[test]
fn tail_calls_lead_to_the_other_programs_of_the_object() {
    let folder = paths::target().join("capi");
    std::fs::create_dir_all(&folder).unwrap();
    let object = folder.join("tail_calls.o");
    if !bpf::compile(&paths::root().join("tests/bpf/tail_calls.c"), &object) {
        return;
    }
    let answers = |engine: c_int, first: u64| {
        let mut registers = [0u64; 21];
        // The first argument: rdi.
        registers[14] = first;
        let mut result = 0;
        // SAFETY: as above.
        unsafe {
            let object = weir_bpf_open_file(text(object.to_str().unwrap()).as_ptr(), null());
            let program = weir_bpf_load(object, text("start").as_ptr(), engine, 0);
            assert!(!program.is_null(), "{}", error());
            weir_bpf_close(object);
            assert_eq!(
                weir_bpf_run(program, registers.as_mut_ptr().cast(), 168, &mut result),
                0,
                "{}",
                error()
            );
            weir_bpf_unload(program);
        }
        result
    };
    for engine in [0, 1, 2] {
        assert_eq!(answers(engine, 1), 1234, "add, then times");
        assert_eq!(answers(engine, 5), 33, "again and again");
        assert_eq!(answers(engine, 6), 19, "an empty slot");
    }
}

/// A program whose context weir does not have would be given something else.
#[test]
fn programs_of_other_contexts_are_not_run() {
    let folder = paths::target().join("capi");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, object) = (folder.join("fentry.c"), folder.join("fentry.o"));
    std::fs::write(&source, "#include \"bpf_helpers.h\"\nSEC(\"fentry/f\") int f(void *ctx) { return 0; }\n")
        .unwrap();
    if !bpf::compile(&source, &object) {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let object = weir_bpf_open_file(text(object.to_str().unwrap()).as_ptr(), null());
        assert!(!object.is_null(), "{}", error());
        assert_eq!(weir_bpf_verify(object, null(), 0), -95);
        assert!(error().contains("programs of section `fentry/f`"), "{}", error());
        assert!(weir_bpf_load(object, null(), 1, 0).is_null());
        weir_bpf_close(object);
    }
}

#[test]
fn null_is_an_error_and_not_a_fault() {
    // SAFETY: what the header does not allow is answered without being followed.
    unsafe {
        assert!(weir_bpf_open(null(), 10, null()).is_null());
        assert!(error().contains("NULL"), "{}", error());
        assert!(weir_bpf_open_file(null(), null()).is_null());
        assert!(weir_bpf_open_file(text("/etc/passwd").as_ptr(), null()).is_null());
        assert_eq!(weir_bpf_programs(null()), 0);
        assert!(weir_bpf_program_name(null(), 0).is_null());
        assert_eq!(weir_bpf_verify(null(), null(), 0), -22);
        assert!(weir_bpf_load(null(), null(), 0, 0).is_null());
        assert_eq!(weir_bpf_run(null(), null_mut(), 0, null_mut()), -22);
        assert_eq!(weir_bpf_map_lookup(null(), 0, null(), null_mut()), -22);
        assert_eq!(weir_bpf_ring_read(null(), 0, null_mut(), 0), -22);
        weir_bpf_close(null_mut());
        weir_bpf_unload(null_mut());
        let short = Options { size: 4, btf: null(), btf_size: 0 };
        assert!(weir_bpf_open(SUM.as_ptr().cast(), 24, &short).is_null());
        assert!(error().contains("sizeof(struct weir_bpf_options)"), "{}", error());
    }
}

#[test]
fn per_cpu_values_are_summed_or_one_by_one() {
    let (source, object) =
        (paths::root().join("tests/bpf/percpu_scratch.c"), paths::target().join("capi-percpu.o"));
    if !bpf::compile(&source, &object) {
        return;
    }
    // SAFETY: keys and values have the 8 bytes of the definition; the registers are a struct pt_regs.
    unsafe {
        let object = weir_bpf_open_file(text(object.to_str().unwrap()).as_ptr(), null());
        assert!(!object.is_null(), "{}", error());
        let map = weir_bpf_map(object, text("by_size").as_ptr());
        let mut registers = [0u64; 21];
        registers[14] = 5;
        let data = registers.as_mut_ptr().cast::<c_void>();
        let mut answers = Vec::new();
        for engine in [0, 1, 2] {
            let program = weir_bpf_load(object, null(), engine, 0);
            assert!(!program.is_null(), "{}", error());
            let mut result = 0;
            assert_eq!(weir_bpf_run(program, data, 168, &mut result), 0);
            answers.push(result as u16);
            weir_bpf_unload(program);
        }
        // Two CPUs count apart, if the thread was moved: a count is one more than an earlier one, or 1.
        let follows = |at: usize| answers[at] == 1 || answers[..at].contains(&(answers[at] - 1));
        assert!((0..3).all(follows), "{answers:?}");
        let lanes = weir_bpf_map_lanes(object, map);
        assert!(lanes > 16);
        let (key, mut sum, mut each) = (5u64, 0u64, vec![0u64; lanes as usize]);
        let at = |number: &u64| std::ptr::from_ref(number).cast::<c_void>();
        assert_eq!(weir_bpf_map_lookup(object, map, at(&key), (&raw mut sum).cast()), 0);
        assert_eq!(weir_bpf_map_lookup_lanes(object, map, at(&key), each.as_mut_ptr().cast()), 0);
        assert_eq!((sum, each.iter().sum()), (3, 3));
        let values = [30u64, 12];
        assert_eq!(weir_bpf_map_update_lanes(object, map, at(&key), values.as_ptr().cast(), 2, 2), 0);
        assert_eq!(weir_bpf_map_lookup_lanes(object, map, at(&key), each.as_mut_ptr().cast()), 0);
        assert_eq!((&each[..3], each.iter().sum()), (&[30, 12, 0][..], 42));
        let too_many = lanes as usize + 1;
        assert_eq!(
            weir_bpf_map_update_lanes(object, map, at(&key), values.as_ptr().cast(), too_many, 0),
            -22
        );
        assert_eq!(weir_bpf_skipped(object), 0);
        weir_bpf_close(object);
    }
}

#[test]
fn maps_answer_as_bpf_does() {
    let (source, object) =
        (paths::root().join("tests/bpf/hash_count.c"), paths::target().join("capi-hash.o"));
    if !bpf::compile(&source, &object) {
        return;
    }
    // SAFETY: as above; keys and values have the 8 bytes of the definition.
    unsafe {
        let object = weir_bpf_open_file(text(object.to_str().unwrap()).as_ptr(), null());
        assert!(!object.is_null(), "{}", error());
        let map = weir_bpf_map(object, text("counts").as_ptr());
        assert_eq!(map, 0);
        assert_eq!(weir_bpf_map(object, text("nothing").as_ptr()), -2);
        let mut info =
            MapInfo { name: null(), kind: 0, key_size: 0, value_size: 0, max_entries: 0, flags: 0 };
        assert_eq!(weir_bpf_map_info(object, map, &mut info), 0);
        assert_eq!((info.kind, info.key_size, info.value_size, info.max_entries), (1, 8, 8, 1024));
        assert_eq!(CStr::from_ptr(info.name).to_str(), Ok("counts"));
        let (key, mut value, mut next) = (5u64, 0u64, 0u64);
        let at = |number: &u64| std::ptr::from_ref(number).cast::<c_void>();
        let to = |number: &mut u64| std::ptr::from_mut(number).cast::<c_void>();
        assert_eq!(weir_bpf_map_lookup(object, map, at(&key), to(&mut value)), -2);
        assert_eq!(weir_bpf_map_update(object, map, at(&key), at(&77), 1), 0);
        assert_eq!(weir_bpf_map_update(object, map, at(&key), at(&78), 1), -17);
        assert_eq!(weir_bpf_map_lookup(object, map, at(&key), to(&mut value)), 0);
        assert_eq!(value, 77);
        assert_eq!(weir_bpf_map_next_key(object, map, null(), to(&mut next)), 0);
        assert_eq!((next, weir_bpf_map_next_key(object, map, at(&next), to(&mut value))), (5, -2));
        assert_eq!(weir_bpf_map_delete(object, map, at(&key)), 0);
        assert_eq!(weir_bpf_map_delete(object, map, at(&key)), -2);
        assert_eq!(weir_bpf_map_lookup(object, 9, at(&key), to(&mut value)), -2);
        assert_eq!(weir_bpf_ring_read(object, map, to(&mut value), 8), -22);
        assert_eq!(weir_bpf_program_name(object, 1), null());
        weir_bpf_close(object);
    }
}
