//! Objects that are refused: the message names the place, and what is missing.

use crate::corpus;

use std::fs;

use testkit::paths;
use weir_ebpf::asm;
use weir_ebpf::elf::{self, ElfErrorKind, ObjectFile};

/// The C program `source`, behind the header, is refused with a message that holds each of `parts`.
#[track_caller]
fn check(name: &str, source: &str, parts: &[&str]) {
    let folder = paths::target().join("bpf-corpus/refusals");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.c"));
    fs::write(&path, format!("#include \"bpf_helpers.h\"\n{source}\n")).unwrap();
    let Some(bytes) = corpus::compile("refusals", &path.display().to_string(), name) else { return };
    let message = refusal(&bytes);
    for part in parts {
        assert!(message.contains(part), "{name}: {part:?} is not in: {message}");
    }
}

/// Why the object is not read, or what stands in its programs that may not be reached.
#[track_caller]
fn refusal(bytes: &[u8]) -> String {
    let file = match elf::read(bytes) {
        Ok(file) => file,
        Err(error) => return error.to_string(),
    };
    let mut text = String::new();
    for (index, (program, origin)) in file.object.programs.iter().zip(&file.programs).enumerate() {
        for (slot, _) in &origin.missing {
            let about = file.about(index, Some(*slot as usize));
            text += &format!("`{}`: instruction {slot}:{about}\n", program.name);
        }
    }
    assert!(!text.is_empty(), "nothing is refused");
    text
}

const TASK: &str = "struct se { u64 runtime[4]; } __attribute__((preserve_access_index));
    struct task { int pid; struct se se; } __attribute__((preserve_access_index));";

fn program(body: &str) -> String {
    format!("SEC(\"uprobe/f\") int f(struct pt_regs *ctx)\n{{\n{body}\n}}")
}

fn map(fields: &str) -> String {
    format!("struct {{ {fields} }} m SEC(\".maps\");")
}

#[test]
fn relocations_against_other_kernels_name_type_and_field() {
    let source = format!("{TASK}\n{}", program("struct task *t = (void *)ctx; return t->se.runtime[2];"));
    let place = ["section `uprobe/f`", "`f`", "instruction 0", "core_field.c:"];
    check("core_field", &source, &place);
    check(
        "core_field",
        &source,
        &["in its place stood a CO-RE relocation, byte offset of a field: struct task.se.runtime[2]"],
    );
    let source =
        format!("{TASK}\n{}", program("return __builtin_preserve_field_info(((struct task *)0)->pid, 2);"));
    check("core_exists", &source, &["existence of a field: struct task.pid"]);
}

#[test]
fn relocations_against_other_kernels_are_seen_in_subprograms() {
    let subprogram = "static __noinline int g(struct task *t) { return t->pid; }";
    let source = format!("{TASK}\n{subprogram}\n{}", program("return g((void *)ctx);"));
    check("core_subprogram", &source, &["instruction 2", "return t->pid;", "struct task.pid"]);
}

#[test]
fn kinds_and_flags_of_maps_that_are_missing_are_named() {
    let user = program("u64 k = 0; return !bpf_map_lookup_elem(&m, &k);");
    let refuse =
        |name: &str, fields: &str, parts: &[&str]| check(name, &format!("{}\n{user}", map(fields)), parts);
    let rest = "__uint(max_entries, 1); __type(key, u64); __type(value, u64);";
    let with = |more: &str| format!("{more} {rest}");
    refuse("storage", &with("__uint(type, 28);"), &["the map `m`: maps of kind inode_storage (28)"]);
    refuse("no_kind", &with("__uint(type, 999);"), &["there is no kind of map with number 999"]);
    refuse(
        "flags",
        &with("__uint(type, 1); __uint(map_flags, 4);"),
        &["map_flags 0x4 (possible for hash: BPF_F_NO_PREALLOC, BPF_F_RDONLY,"],
    );
    refuse(
        "extra",
        &with("__uint(type, 1); __uint(map_extra, 3);"),
        &["map_extra 3 (possible for hash: 0 to 0)"],
    );
    refuse("pinned", &with("__uint(type, 1); __uint(pinning, 2);"), &["`pinning` 2"]);
    refuse("field", &with("__uint(type, 1); __uint(colour, 1);"), &["`colour`"]);
    let holds = |held: &str| format!("__uint(type, 12); __uint(max_entries, 1); __uint(key_size, 4); {held}");
    let array = "__uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, u32);";
    refuse(
        "programs",
        &holds("__array(values, int(void *));"),
        &["`values` are programs, which no array_of_maps holds"],
    );
    let deep = format!(
        "__array(values, struct {{ {} }});",
        holds(&format!("__array(values, struct {{ {array} }});"))
    );
    refuse("deep", &holds(&deep), &["maps that hold maps that hold maps"]);
    refuse(
        "no_array",
        &holds("__type(values, u32);"),
        &["`values` is no array of pointers to functions or maps"],
    );
    refuse("twice", &with("__uint(type, 1); __uint(key_size, 4);"), &["the key has 4 bytes, and 8"]);
}

#[test]
fn what_a_map_may_not_hold_is_named() {
    let user = program("u32 k = 0; return !bpf_map_lookup_elem(&m, &k);");
    let held = |inner: &str, key: &str, name: &str| {
        let types = "struct inner { __uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, u32); };";
        let fields = format!(
            "__uint(type, 13); __uint(max_entries, 2); __type(key, {key}); __array(values, struct inner);"
        );
        let map =
            format!("struct {{ {fields} }} m SEC(\".maps\") = {{ .values = {{ [1] = (void *)&{name} }} }};");
        format!("{types}\nstruct {{ {inner} }} other SEC(\".maps\");\nu64 number = 1;\n{map}\n{user}")
    };
    let like = "__uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, u32);";
    let unlike = "__uint(type, 2); __uint(max_entries, 2); __type(key, u32); __type(value, u32);";
    check("unlike", &held(unlike, "u32", "other"), &["`m`: other is not what it was defined to hold"]);
    check("no_map", &held(like, "u32", "number"), &["`m`: the value at", "is no map"]);
    check(
        "wide_key",
        &held(like, "u64", "other"),
        &["`m`: values that are known before have keys of 4 bytes, not 8"],
    );
}

#[test]
fn symbols_of_the_kernel_are_named() {
    let strong = format!("extern const u64 jiffies __ksym;\n{}", program("return jiffies;"));
    check("strong", &strong, &["the extern `jiffies`"]);
    let function = format!("extern int bpf_kfunc(int x) __ksym;\n{}", program("return bpf_kfunc(1);"));
    check("kfunc", &function, &["instruction 1", "the kernel function `bpf_kfunc`"]);
    // What clang calls of its own accord, and what nobody said is the kernel's.
    let compared = "char a[500], b[500];\nint memcmp(const void *, const void *, unsigned long);";
    let compared = format!("{compared}\n{}", program("return memcmp(a, b, 500);"));
    check("memcmp", &compared, &["the undefined symbol `memcmp`", "-fno-builtin"]);
    let config = format!("extern int CONFIG_HZ __kconfig __weak;\n{}", program("return CONFIG_HZ;"));
    check("config", &config, &["`CONFIG_HZ` of the kernel's configuration"]);
}

#[test]
fn addresses_in_variables_are_named() {
    let source = format!("u64 x; u64 *p = &x;\n{}", program("return *p;"));
    check("pointer", &source, &["section `.data`: addresses in variables"]);
}

#[test]
fn variables_past_the_limit_are_refused_before_they_are_allocated() {
    let source = format!("char big[1ULL << 33];\n{}", program("return big[PARM1(ctx) & 255];"));
    check("big", &source, &["section `.bss`: too big: 8589934592 bytes; the limit is 1048576"]);
}

#[test]
fn files_that_are_no_objects_are_refused() {
    let refused = |bytes: &[u8], part: &str| {
        let error = elf::read(bytes).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.kind, ElfErrorKind::Malformed);
    };
    refused(b"", "no object file");
    refused(b"#!/bin/sh\n", "no object file");
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    // An object is read no further than its header says whose it is, whatever its size.
    refused(&own[..own.len().min(1 << 20)], "for machine 62, not for BPF (247)");
}

/// A file of ours, with one part changed, is refused with a message that contains `part`.
#[track_caller]
fn broken(text: &str, change: impl Fn(&mut Vec<u8>), part: &str) {
    let object = asm::parse(text).unwrap();
    let mut bytes = elf::write(&ObjectFile::of(object)).unwrap();
    elf::read(&bytes).unwrap();
    change(&mut bytes);
    let message = refusal(&bytes);
    assert!(message.contains(part), "{part:?} is not in: {message}");
}

const TWO: &str = "map m hash key 8 value 8 entries 1\nprogram \"p\" probe\nr1 = map[m] ll\nr0 = 0x0\nexit\n\
                   program \"q\" probe\nr0 = 0x1\nexit\n";

/// Where the relocation of `p` stands: its only one, of symbol 1 and type 1.
fn relocation(bytes: &[u8]) -> usize {
    let wanted = [0u64.to_le_bytes(), (1u64 << 32 | 1).to_le_bytes()].concat();
    bytes.windows(16).rposition(|window| window == wanted).expect("a relocation")
}

fn code(bytes: &[u8]) -> usize {
    bytes.windows(2).position(|window| window == [0x18, 0x01]).expect("the wide load")
}

#[test]
fn relocations_that_mean_nothing_are_refused() {
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at + 8] = 77
        },
        "`p`: instruction 0:\n  in its place stood a relocation of type 77 here, against `m` of section `.maps`",
    );
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at + 12] = 99
        },
        "names symbol 99 of",
    );
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at] = 3
        },
        "a relocation at 0x3, where no instruction is",
    );
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at + 1] = 9
        },
        "a relocation at 0x900",
    );
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at] = 8
        },
        "in the second half of a wide load",
    );
    broken(
        TWO,
        |bytes| {
            let at = relocation(bytes);
            bytes[at] = 16
        },
        "`p`: instruction 2:\n  in its place stood a relocation of type 1",
    );
    broken(
        TWO,
        |bytes| {
            let at = code(bytes);
            bytes[at + 4] = 4
        },
        "the address of `m` of section `.maps`, which is no map",
    );
    broken(
        TWO,
        |bytes| {
            let at = code(bytes);
            bytes[at + 1] = 0x31
        },
        "a wide load whose src is 3",
    );
}

#[test]
fn code_that_leaves_its_function_is_refused() {
    let jump = "program \"p\" probe\nr0 = 0x0\ngoto +0x0\nexit\nprogram \"q\" probe\nr0 = 0x1\nexit\n";
    let at = |bytes: &[u8]| bytes.windows(8).position(|slot| slot == [5, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    broken(
        jump,
        |bytes| {
            let at = at(bytes);
            bytes[at + 2] = 1
        },
        "`p`: instruction 1: a jump to instruction 3 of a function that has 3",
    );
    broken(
        jump,
        |bytes| {
            let at = at(bytes);
            bytes[at + 2..at + 4].fill(0xff);
            bytes[at + 2] = 0xfd
        },
        "a jump to instruction -1",
    );
    broken(
        jump,
        |bytes| {
            let at = at(bytes);
            bytes[at..at + 8].copy_from_slice(&[0x85, 0x10, 0, 0, 0, 0, 0, 0])
        },
        "no function begins at instruction 2 of section `uprobe`",
    );
    let cut = |bytes: &mut Vec<u8>| {
        let exit = bytes.windows(8).position(|slot| slot == [0x95, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        bytes[exit] = 0x18;
    };
    broken(jump, cut, "`p`: instruction 2: a wide load is cut off by the end of its function");
}

/// What one program needs and weir does not have is no matter of the others.
#[test]
fn programs_that_need_nothing_of_it_are_read() {
    let source = "struct { __uint(type, 28); __uint(max_entries, 1); __type(key, u32); __type(value, u32); } sockets SEC(\".maps\");
        struct { __uint(type, 2); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } counts SEC(\".maps\");
        extern int bpf_other(int x) __ksym;
        u64 x; u64 *p = &x;
        SEC(\"xdp\") int sends(void *ctx) { u32 k = 0; return !bpf_map_lookup_elem(&sockets, &k); }
        SEC(\"xdp\") int calls(void *ctx) { return bpf_other(1); }
        SEC(\"xdp\") int follows(void *ctx) { return *p; }
        SEC(\"xdp\") int counts_all(void *ctx) { u32 k = 0; return !bpf_map_lookup_elem(&counts, &k); }";
    let folder = paths::target().join("bpf-corpus/refusals");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("one_by_one.c");
    fs::write(&path, format!("#include \"bpf_helpers.h\"\n{source}\n")).unwrap();
    let Some(bytes) = corpus::compile("refusals", &path.display().to_string(), "one_by_one") else { return };
    let file = elf::read(&bytes).unwrap();
    let missing = |name: &str| {
        let index = file.object.programs.iter().position(|program| program.name == name).expect(name);
        file.programs[index].missing.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(missing("sends"), ["the map `sockets`: maps of kind inode_storage (28)"]);
    assert_eq!(missing("calls"), ["the kernel function `bpf_other`"]);
    assert_eq!(missing("follows"), ["section `.data`: addresses in variables (a relocation at 0x0)"]);
    assert!(missing("counts_all").is_empty());
    let maps: Vec<&str> = file.object.maps.iter().map(|map| map.name.as_str()).collect();
    assert!(maps.contains(&"counts") && !maps.contains(&"sockets"), "{maps:?}");
    assert_eq!(file.unusable.iter().map(|map| map.name.as_str()).collect::<Vec<_>>(), ["sockets"]);
}
