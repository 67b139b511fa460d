//! Objects as clang makes them: what is read of each program of `tests/bpf`, and what it does when it runs.

use crate::corpus;

use std::process::Command;

use testkit::{paths, skip};
use weir_ebpf::elf::{self, MapOrigin, ObjectFile};
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::map::flag;
use weir_ebpf::{Insn, MapKind, asm, pt_regs};
use weir_interp::Environment;
use weir_rt::executable::Frame;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::Limits;

/// Programs that are run, in order: file, program, first three arguments, r0. Those of one file share their maps.
#[rustfmt::skip]
const RUNS: &[(&str, &str, [u64; 3], u64)] = &[
    ("array_sum",      "sum",     [3, 4, 0],      71),
    ("array_sum",      "sum",     [1, 1, 0],      92),
    ("bloom",          "filter",  [0, 0, 0],      8022),
    ("bounded_loop",   "digits",  [321, 0, 0],    14),
    ("bounded_loop",   "digits",  [u64::MAX, 0, 0], 240),
    ("globals",        "work",    [2, 0, 0],      16_041),
    ("globals",        "work",    [1, 0, 0],      24_044),
    ("hash_count",     "count",   [9, 0, 0],      1),
    ("hash_count",     "count",   [9, 0, 0],      2),
    ("hash_count",     "count",   [8, 0, 0],      1),
    ("histogram",      "latency", [0, 0, 0],      0),
    ("histogram",      "latency", [1000, 0, 0],   9),
    ("histogram",      "latency", [1 << 30, 0, 0], 26),
    ("inner_maps",     "numbered", [0, 0, 0],     42),
    ("inner_maps",     "parity",  [0, 0, 0],      3465),
    ("legacy_map",     "count",   [77, 0, 0],     77),
    ("lpm",            "route",   [0, 0, 0],      0x9242_e242),
    ("lru",            "pass",    [0, 0, 0],      780),
    ("percpu",         "alloc",   [100, 0, 0],    36),
    ("percpu_scratch", "seen",    [7, 0, 0],      1 << 16 | 1),
    ("percpu_scratch", "seen",    [9, 0, 0],      2 << 16 | 1),
    ("percpu_scratch", "seen",    [8, 0, 0],      3 << 16 | 2),
    ("queue",          "fifo",    [0, 0, 0],      0xf3e4_3cbf),
    ("queue",          "lifo",    [0, 0, 0],      0xc373_d801),
    ("ring_output",    "write",   [1, 2, 3],      24),
    ("ring_record",    "alloc",   [15, 0, 0],     0),
    ("ring_record",    "alloc",   [16, 0, 0],     40),
    ("loop_callback",  "find",    [49, 0, 0],     8 << 16 | 7),
    ("loop_callback",  "find",    [50, 0, 0],     17 << 16 | 99),
    ("loop_callback",  "triangles", [5, 0, 0],    10),
    ("loop_callback",  "triangles", [1 << 30, 0, 0], -7i64 as u64),
    ("for_each",       "sum",     [0, 0, 0],      0),
    ("for_each",       "insert",  [5, 100, 0],    0),
    ("for_each",       "insert",  [6, 200, 0],    0),
    ("for_each",       "insert",  [7, 300, 0],    0),
    ("for_each",       "sum",     [0, 0, 0],      3 << 24 | 18 << 12 | 600),
    ("for_each",       "prune",   [300, 0, 0],    3),
    ("for_each",       "sum",     [0, 0, 0],      1 << 24 | 7 << 12 | 300),
    ("for_each",       "search",  [30, 0, 0],     8),
    ("for_each",       "search",  [30, 0, 0],     4),
    ("for_each",       "search",  [30, 1, 0],     -22i64 as u64),
    ("tail_calls",     "start",   [0, 0, 0],      19),
    ("tail_calls",     "start",   [1, 0, 0],      1234),
    ("tail_calls",     "start",   [2, 0, 0],      134),
    ("tail_calls",     "start",   [5, 0, 0],      33),
    ("tail_calls",     "start",   [8, 0, 0],      19),
    ("start_end",      "ret",     [0, 0, 0],      1),
    ("start_end",      "call",    [0, 0, 0],      0),
    ("start_end",      "ret",     [0, 0, 0],      3),
    ("switch_table",   "op",      [2, 6, 7],      42),
    ("switch_table",   "op",      [7, 0x1122_3344, 0], 0x4433_2211),
    ("switch_table",   "op",      [6, 1, 0],      0x9e_3779),
    ("switch_table",   "op",      [99, 0, 0],     u64::MAX),
    ("unrolled_loop",  "bits",    [0x1f5, 0, 0],  6),
    ("weak_symbol",    "f",       [0, 0, 0],      2),
    ("static_functions", "first", [5, 0, 0],      25),
    ("static_functions", "second", [5, 0, 0],     70),
];

/// Programs about a string, whose address is the first argument: file, program, string, r0.
const STRING_RUNS: &[(&str, &str, &str, u64)] = &[
    ("string_compare", "lookup", "passwd", 100),
    ("string_compare", "lookup", "password", 5),
    ("string_compare", "lookup", "", 0),
    ("string_key", "open", "/etc/passwd", 12),
    ("string_key", "open", "a path that is longer than 31 bytes", 32),
];

/// Maps and their contents of one object.
fn segment(file: &ObjectFile) -> Segment {
    let layout = SegmentLayout::plan(&file.object.maps, 2).expect("within bounds");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    for (index, origin) in file.maps.iter().enumerate() {
        if let Some(initial) = &origin.initial {
            segment.map(index).update(&0u32.to_le_bytes(), initial, 0).expect("an array");
        }
        for (slot, program) in &origin.programs {
            segment.map(index).set_program(*slot, Some(*program as u32)).expect("the slot is there");
        }
        for (key, held) in &origin.held {
            segment.map(index).update(&key.to_le_bytes(), &held.to_le_bytes(), 0).expect("it may be held");
        }
    }
    segment
}

/// Runs a program that the verifier accepted.
fn run(file: &ObjectFile, segment: &Segment, program: &str, arguments: [u64; 3]) -> u64 {
    let program = file.object.programs.iter().find(|found| found.name == program).expect(program);
    let mut frame = Frame::default();
    let offsets = [pt_regs::DI, pt_regs::SI, pt_regs::DX];
    for (offset, argument) in offsets.into_iter().zip(arguments) {
        frame.regs[offset as usize / 8] = argument;
    }
    let environment = Environment { segment };
    let maps = &file.object.maps;
    let verify = |program| {
        let verified = weir_verifier::verify(program, maps, &Limits::default());
        verified.unwrap_or_else(|rejection| panic!("{rejection}"))
    };
    let verified = verify(program);
    let has_slots = file.maps.iter().any(|origin| !origin.programs.is_empty());
    let others: Vec<_> = file.object.programs.iter().filter(|_| has_slots).map(verify).collect();
    let result =
        weir_interp::run_among(&others.iter().collect::<Vec<_>>(), &verified, &environment, &mut frame);
    result.unwrap_or_else(|fault| panic!("{}: {fault}", program.name))
}

fn is_local_call(insn: Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::LOCAL
}

#[test]
fn programs_do_what_their_source_says() {
    let mut strings: Vec<(std::ffi::CString, &str, &str, u64)> = Vec::new();
    for (file, program, text, r0) in STRING_RUNS {
        strings.push((std::ffi::CString::new(*text).unwrap(), file, program, *r0));
    }
    for (name, bytes) in corpus::objects("objects") {
        let file = elf::read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let segment = segment(&file);
        let mut count = 0;
        for (_, program, arguments, r0) in RUNS.iter().filter(|run| run.0 == name) {
            // `int` answers leave the upper half of r0 open to the compiler; what is compared is the lower one.
            let found = run(&file, &segment, program, *arguments) as u32;
            assert_eq!(found, *r0 as u32, "{name}: {program} {arguments:?}");
            count += 1;
        }
        for (text, _, program, r0) in strings.iter().filter(|run| run.1 == name) {
            let found = run(&file, &segment, program, [text.as_ptr() as u64, 0, 0]);
            assert_eq!(found as u32, *r0 as u32, "{name}: {program} {text:?}");
            count += 1;
        }
        assert!(count > 0, "{name} is not run");
    }
}

#[test]
fn sections_and_licenses_are_kept() {
    for (name, bytes) in corpus::objects("objects") {
        let file = elf::read(bytes).unwrap();
        let wanted: &[&str] = match name.as_str() {
            "start_end" => &["uprobe/call", "uretprobe/call"],
            "ring_output" => &["kprobe/write"],
            "string_key" => &["uprobe/libc.so.6:open"],
            "array_sum" => &["uprobe"],
            _ => continue,
        };
        let sections: Vec<&str> = file.programs.iter().map(|program| program.section.as_str()).collect();
        assert_eq!(sections, wanted);
        let license = if name == "array_sum" { "Dual MIT/GPL" } else { "GPL" };
        assert_eq!(file.license.as_deref(), Some(license));
    }
}

#[test]
fn variables_become_arrays_with_their_first_contents() {
    let objects = corpus::objects("objects");
    let Some((_, bytes)) = objects.iter().find(|(name, _)| name == "globals") else { return };
    let file = elf::read(bytes).unwrap();
    let found: Vec<_> = file
        .object
        .maps
        .iter()
        .zip(&file.maps)
        .map(|(map, origin)| {
            (map.name.as_str(), map.kind, map.value_bytes, map.flags, origin.initial.as_deref())
        })
        .collect();
    assert_eq!(
        found,
        [
            (
                ".rodata",
                MapKind::Array,
                12,
                flag::RDONLY_PROG,
                Some(&[7, 0, 0, 0, 1, 1, 2, 3, 5, 8, 13, 21][..])
            ),
            (".data", MapKind::Array, 8, 0, Some(&[40, 0, 0, 0, 0, 0, 0, 0][..])),
            // The compiler may leave variables out that it sees through.
            (".bss", MapKind::Array, found[2].2, 0, None),
        ]
    );
    let types = file.btf.as_ref().unwrap();
    let variables = |map: usize| {
        let described = file.maps[map].variables.iter();
        let described =
            described.map(|variable| (variable.name.as_str(), variable.offset, types.size_of(variable.ty)));
        described.collect::<Vec<_>>()
    };
    assert_eq!(variables(0), [("factor", 0, Some(4)), ("table", 4, Some(8))]);
    assert_eq!(variables(1), [("calls", 0, Some(8))]);
    let (_, bytes) = objects.iter().find(|(name, _)| name == "percpu").unwrap();
    let file = elf::read(bytes).unwrap();
    let types = file.btf.as_ref().unwrap();
    let sizes = |origin: &MapOrigin| [origin.key, origin.value].map(|ty| types.size_of(ty?));
    assert_eq!(file.maps.iter().map(sizes).collect::<Vec<_>>(), [[Some(4), Some(8)]; 2]);
}

#[test]
fn maps_are_as_their_definitions_say() {
    let map = |name: &str| {
        let (file, map) = name.split_once('.').unwrap();
        let objects = corpus::objects("objects");
        let (_, bytes) = objects.iter().find(|(name, _)| name == file)?;
        let maps = elf::read(bytes).unwrap().object.maps;
        let spec = maps.into_iter().find(|spec| spec.name == map).unwrap();
        Some((spec.kind, spec.key_bytes, spec.value_bytes, spec.max_entries))
    };
    let check = |name, wanted| assert!(map(name).is_none_or(|found| found == wanted), "{name}");
    check("hash_count.counts", (MapKind::Hash, 8, 8, 1024));
    check("array_sum.sums", (MapKind::Array, 4, 16, 4));
    check("percpu.total", (MapKind::PerCpuArray, 4, 8, 1));
    check("percpu.by_size", (MapKind::PerCpuHash, 4, 8, 64));
    check("string_key.opened", (MapKind::Hash, 32, 8, 128));
    check("ring_record.events", (MapKind::RingBuf, 0, 0, 65536));
    check("histogram.hists", (MapKind::Array, 4, 108, 1));
    check("bloom.seen", (MapKind::BloomFilter, 0, 8, 1000));
    check("lpm.routes", (MapKind::LpmTrie, 8, 8, 4));
    check("lru.recent", (MapKind::LruHash, 4, 8, 16));
    check("queue.jobs", (MapKind::Queue, 0, 8, 3));
    check("queue.frames", (MapKind::Stack, 0, 16, 3));
    check("legacy_map.counts", (MapKind::Hash, 8, 8, 16));
    check("inner_maps.by_parity", (MapKind::ArrayOfMaps, 4, 4, 4));
    check("inner_maps.by_number", (MapKind::HashOfMaps, 4, 4, 8));
    check("inner_maps.empty", (MapKind::ArrayOfMaps, 4, 4, 2));
    check("inner_maps.empty.inner", (MapKind::Array, 4, 4, 1));
}

#[test]
fn maps_that_hold_maps_say_which() {
    let objects = corpus::objects("objects");
    let Some((_, bytes)) = objects.iter().find(|(name, _)| name == "inner_maps") else { return };
    let file = elf::read(bytes).unwrap();
    let maps = &file.object.maps;
    let check = |name: &str, held: &[(u32, &str)]| {
        let index = maps.iter().position(|map| map.name == name).unwrap();
        let like = maps[index].inner.unwrap() as usize;
        assert_eq!(maps[like].name, format!("{name}.inner"));
        let found: Vec<_> =
            file.maps[index].held.iter().map(|(key, map)| (*key, &maps[*map as usize])).collect();
        assert!(found.iter().all(|(_, map)| map.is_like(&maps[like])));
        let names: Vec<_> = found.iter().map(|(key, map)| (*key, map.name.as_str())).collect();
        assert_eq!(names, held, "{name}");
    };
    check("by_parity", &[(0, "even"), (1, "odd")]);
    check("by_number", &[(2, "some_slots")]);
    check("empty", &[]);
}

#[test]
fn every_instruction_knows_its_source_line() {
    for (name, bytes) in corpus::objects("objects") {
        let file = elf::read(bytes).unwrap();
        let source = std::fs::read_to_string(paths::root().join(format!("tests/bpf/{name}.c"))).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        for (index, program) in file.object.programs.iter().enumerate() {
            for slot in 0..program.insns.len() {
                let line = file.source_line(index, slot).unwrap_or_else(|| panic!("{name}: {slot}"));
                assert!(line.file.ends_with(&format!("{name}.c")), "{name}: {line:?}");
                // A row without a line (0) stands for code that has no single one.
                let in_source = (line.line as usize).checked_sub(1).map(|index| lines[index]);
                assert_eq!(in_source.unwrap_or_default().trim(), line.text.trim(), "{name}: {slot}");
            }
        }
    }
}

#[test]
fn disassembly_agrees_with_llvm() {
    if Command::new("llvm-objdump").arg("--version").output().is_err() {
        skip::skip("llvm-objdump", "llvm-objdump is not installed");
        return;
    }
    let mut compared = 0;
    for (name, bytes) in corpus::objects("objects") {
        let path = paths::target().join("bpf-corpus/objects").join(format!("{name}.o"));
        let mut objdump = Command::new("llvm-objdump");
        let output = objdump.args(["-d", "--no-show-raw-insn"]).arg(&path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for program in elf::read(bytes).unwrap().object.programs {
            compared += compare(&program.name, &program.insns, &text);
        }
    }
    assert!(compared > 400 || Command::new("clang").output().is_err(), "{compared} instructions");
}

/// Compares a program with the function of its name in what llvm-objdump printed; how many instructions.
fn compare(name: &str, insns: &[Insn], text: &str) -> usize {
    let start = text.find(&format!("<{name}>:")).unwrap_or_else(|| panic!("{name} is not in {text}"));
    let numbered = |line: &&str| line.trim_start().starts_with(|char: char| char.is_ascii_digit());
    let labels =
        |line: &&str| line.ends_with(">:") && !line.contains("LBB") || line.starts_with("Disassembly");
    let lines = text[start..]
        .lines()
        .skip(1)
        .take_while(|line| !labels(line))
        .filter(|line| numbered(line) && !line.ends_with(">:"));
    let (mut at, mut compared) = (0, 0);
    for line in lines {
        let theirs =
            asm::parse(&format!("program \"p\" probe\n{line}\n")).unwrap_or_else(|e| panic!("{line}: {e}"));
        let theirs = &theirs.programs[0].insns;
        // Of what was relocated, llvm-objdump shows the object's bytes.
        let is_relocated = insns[at].is_wide() && insns[at].src != 0 || is_local_call(insns[at]);
        if !is_relocated {
            assert_eq!(theirs, &insns[at..at + theirs.len()], "{name}: {line}");
            compared += theirs.len();
        }
        at += theirs.len();
    }
    compared
}

/// Assemblers, and compilers of older kinds, give functions no type: names of sections of code are functions then.
#[test]
fn names_without_a_type_are_functions_where_nothing_else_is() {
    let text = "program \"first\" xdp\nr0 = 1\nexit\nprogram \"second\" xdp\nr0 = 2\nr0 += 3\nexit\n";
    let typed = elf::write(&ObjectFile::of(asm::parse(text).unwrap())).unwrap();
    let mut bare = typed.clone();
    let number = |bytes: &[u8], at: usize, count: usize| {
        bytes[at..at + count].iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte))
    };
    const SYMBOL_BYTES: usize = 24;
    const SYMTAB: usize = 2;
    const FUNCTION: u8 = 2;
    let (table, count) = (number(&bare, 40, 8), number(&bare, 60, 2));
    let symbols =
        (0..count).map(|index| table + 64 * index).find(|header| number(&bare, header + 4, 4) == SYMTAB);
    let header = symbols.expect("a table of symbols");
    let (start, bytes) = (number(&bare, header + 24, 8), number(&bare, header + 32, 8));
    let mut changed = 0;
    for symbol in (start..start + bytes).step_by(SYMBOL_BYTES) {
        if bare[symbol + 4] & 0xf == FUNCTION {
            bare[symbol + 4] &= 0xf0;
            // Nor has it a size.
            bare[symbol + 16..symbol + 24].fill(0);
            changed += 1;
        }
    }
    assert_eq!(changed, 2);
    let [typed, bare] = [typed, bare].map(|bytes| elf::read(&bytes).unwrap().object.programs);
    assert_eq!(bare, typed);
}
