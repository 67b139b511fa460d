//! What each function answers, wrong calls included, as a C program sees it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};

use testkit::{bpf, paths, skip};
use weir_capi::*;
use weir_ebpf::asm;
use weir_ebpf::elf::{self, ObjectFile};

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
fn a_limit_of_rounds_ends_runs() {
    let text = "program \"p\" probe\nr1 = 9\nr2 = f ll\nr3 = 0\nr4 = 0\ncall loop\nexit\nf:\nr0 = 0\nexit\n";
    let file = elf::write(&ObjectFile::of(asm::parse(text).unwrap())).unwrap();
    for engine in [0, 1, 2] {
        let mut result = 0;
        // SAFETY: as above.
        unsafe {
            let object = weir_bpf_open(file.as_ptr().cast(), file.len(), null());
            let enough = weir_bpf_load_limited(object, null(), engine, 0, 9);
            assert!(!enough.is_null(), "{}", error());
            assert_eq!((weir_bpf_run(enough, null_mut(), 0, &mut result), result), (0, 9));
            let fewer = weir_bpf_load_limited(object, null(), engine, 0, 8);
            assert_eq!(weir_bpf_run(fewer, null_mut(), 0, &mut result), -62);
            assert!(error().contains("more than the 8 rounds"), "{}", error());
            assert!(weir_bpf_load_limited(object, null(), engine, 0, u32::MAX).is_null());
            assert!(error().contains("at most 8388607"), "{}", error());
            weir_bpf_unload(enough);
            weir_bpf_unload(fewer);
            weir_bpf_close(object);
        }
    }
}

/// `len`, `wire_len` and what lies between the addresses, added up; the first byte becomes 9.
#[test]
fn classifiers_get_the_whole_packet() {
    let body = "r2 = *(u32 *)(r1 + 76); r3 = *(u32 *)(r1 + 80); r0 = *(u32 *)(r1 + 0); r4 = *(u32 *)(r1 + 160); r0 += r4; r4 = r2
        r4 += 1; if r4 > r3 goto no; *(u8 *)(r2 + 0) = 9; r3 -= r2; r0 += r3; no: exit";
    let text = format!("program \"p\" classifier\n{}\n", body.replace(';', "\n"));
    let file = elf::write(&ObjectFile::of(asm::parse(&text).unwrap())).unwrap();
    for engine in [0, 1, 2] {
        let (mut packet, mut result) = ([1u8, 2, 3], 0);
        // SAFETY: as above.
        unsafe {
            let object = weir_bpf_open(file.as_ptr().cast(), file.len(), null());
            let program = weir_bpf_load(object, null(), engine, 0);
            assert!(!program.is_null(), "{}", error());
            weir_bpf_close(object);
            assert_eq!(weir_bpf_run(program, packet.as_mut_ptr().cast(), 3, &mut result), 0);
            assert_eq!((result, packet), (9, [9, 2, 3]), "engine {engine}");
            assert_eq!(weir_bpf_run(program, null_mut(), 0, &mut result), 0);
            assert_eq!(result, 0, "engine {engine}");
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

/// `source` behind the helpers' header, as an object; none, loudly, where clang is not.
fn compiled(name: &str, source: &str) -> Option<CString> {
    let folder = paths::target().join("capi");
    std::fs::create_dir_all(&folder).unwrap();
    let (from, object) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.o")));
    std::fs::write(&from, format!("#include \"bpf_helpers.h\"\n{source}")).unwrap();
    bpf::compile(&from, &object).then(|| text(object.to_str().unwrap()))
}

/// What each engine answers of the program of that name in the object, given a `pt_regs` of zeros.
fn answers(path: &CStr, name: &str) -> [u64; 3] {
    [0, 1, 2].map(|engine| {
        let mut result = 0;
        // SAFETY: as above; a program of a probe may be given NULL.
        unsafe {
            let object = weir_bpf_open_file(path.as_ptr(), null());
            assert!(!object.is_null(), "{}", error());
            let program = weir_bpf_load(object, text(name).as_ptr(), engine, 0);
            assert!(!program.is_null(), "{}", error());
            assert_eq!(weir_bpf_run(program, null_mut(), 0, &mut result), 0, "{}", error());
            weir_bpf_unload(program);
            weir_bpf_close(object);
        }
        result
    })
}

/// Where an array of programs is not filled in its definition, no program can come to another one.
#[test]
fn a_refused_program_is_no_matter_to_others_that_cannot_call_it() {
    let source = r#"struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 2); __type(key, u32); __type(value, u32); }
	steps SEC(".maps");
SEC("uprobe/safe") int safe(struct pt_regs *ctx) { bpf_tail_call(ctx, &steps, 0); return 7; }
SEC("uprobe/wild") int wild(struct pt_regs *ctx) { return *(volatile int *)PARM1(ctx); }
"#;
    let Some(path) = compiled("refused_other", source) else { return };
    // SAFETY: as above.
    unsafe {
        let object = weir_bpf_open_file(path.as_ptr(), null());
        assert!(!object.is_null(), "{}", error());
        assert!(weir_bpf_load(object, text("wild").as_ptr(), 1, 0).is_null());
        assert!(error().contains("wild"), "{}", error());
        weir_bpf_close(object);
    }
    assert_eq!(answers(&path, "safe"), [7; 3]);
}

/// `pid` is at 0 in the program's own idea of a task.
#[test]
fn without_options_core_relocations_are_answered_by_this_kernel() {
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return skip::skip("kernel-btf", "this kernel has no /sys/kernel/btf/vmlinux");
    }
    let source = r#"struct task_struct { int pid; } __attribute__((preserve_access_index));
SEC("uprobe/f") int offset(struct pt_regs *ctx) { return __builtin_preserve_field_info(((struct task_struct *)0)->pid, 0); }
"#;
    let Some(path) = compiled("kernel_types", source) else { return };
    let [offset, ..] = answers(&path, "offset");
    assert!(offset > 0);
    assert_eq!(answers(&path, "offset"), [offset; 3]);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    let check = |path: &str, words: &str| {
        // SAFETY: as above.
        assert!(unsafe { weir_bpf_open_file(text(path).as_ptr(), null()) }.is_null());
        assert!(error().starts_with(path) && error().contains(words), "{}", error());
    };
    check("/nonexistent", "No such file");
    check("/dev/zero", "more than 16777216 bytes");
    check("/dev/null", "");
    check("/etc/passwd", "ELF");
    check("/", "directory");
}

/// A program whose context weir does not have would be given something else.
#[test]
fn programs_of_other_contexts_are_not_run() {
    let folder = paths::target().join("capi");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, object) = (folder.join("sk_skb.c"), folder.join("sk_skb.o"));
    std::fs::write(&source, "#include \"bpf_helpers.h\"\nSEC(\"sk_skb/f\") int f(void *ctx) { return 0; }\n")
        .unwrap();
    if !bpf::compile(&source, &object) {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let object = weir_bpf_open_file(text(object.to_str().unwrap()).as_ptr(), null());
        assert!(!object.is_null(), "{}", error());
        assert_eq!(weir_bpf_verify(object, null(), 0), -95);
        assert!(error().contains("programs of section `sk_skb/f`"), "{}", error());
        assert!(weir_bpf_load(object, null(), 1, 0).is_null());
        weir_bpf_close(object);
    }
}

/// Refused in words, before any page of the map is taken.
#[test]
fn maps_that_take_most_of_the_memory_are_refused() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let available = available.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10;
    // A segment has 64 GiB at most, for a reason that is told otherwise.
    let entries = ((available / 4 * 3) >> 20).min(64_000);
    if entries << 20 <= available / 2 {
        return skip::skip("much-memory", "the largest segment is less than half of what there is");
    }
    let map = format!("map huge array key 4 value 1048576 entries {entries}");
    let object = asm::parse(&format!("{map}\nprogram \"p\" xdp\nr1 = map[huge] ll\nr0 = 1\nexit\n")).unwrap();
    let bytes = elf::write(&ObjectFile::of(object)).unwrap();
    // SAFETY: as above.
    unsafe {
        assert!(weir_bpf_open(bytes.as_ptr().cast(), bytes.len(), null()).is_null());
    }
    assert!(error().contains("making the maps: the maps need "), "{}", error());
    assert!(error().contains("(map huge alone takes "), "{}", error());
}

#[test]
fn null_is_an_error_and_not_a_fault() {
    // SAFETY: what the header does not allow is answered without being followed.
    unsafe {
        assert!(weir_bpf_open(null(), 10, null()).is_null());
        assert!(error().contains("NULL"), "{}", error());
        assert!(weir_bpf_open_file(null(), null()).is_null());
        for count in [0, usize::MAX] {
            assert!(weir_bpf_open_instructions(null(), count).is_null());
            assert!(error().contains("instructions are no program"), "{}", error());
        }
        assert!(weir_bpf_open_instructions(null(), 1).is_null());
        assert!(error().contains("NULL"), "{}", error());
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
