//! Broken and hostile files: every question has an answer or an error, soon, and without a panic.
//!
//! `WEIR_MUTANTS=N` sets how many mutants of each file are tried (20,000 without it); the seed is fixed.

use std::path::Path;
use std::time::Duration;

use testkit::cpu::used_by_this_thread;
use testkit::target::{self, Source};
use weir_symbols::{Binary, FileOffset, LinkAddr, maps};

/// xorshift64*: the same mutants on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Asks everything there is to ask.
fn ask(data: Vec<u8>) -> bool {
    let Ok(binary) = Binary::parse(Path::new("mutant"), data) else { return false };
    let functions = binary.functions().len();
    let _ = (
        binary.build_id(),
        binary.interpreter(),
        binary.needed(),
        binary.soname(),
        binary.is_text_relocated(),
    );
    let _ = (binary.executable_ranges(), binary.is_interpreter_or_static(), binary.functions_left_out());
    let _ =
        (binary.find("alpha").map(|f| f.len()), binary.find("*a*").map(|f| f.len()), binary.find("alphq"));
    let _ = (binary.symbol_value("main"), binary.frame_ranges().len(), binary.relative_relocations().len());
    let _ = (binary.symbol_slots().len(), binary.imports("_"), binary.handles_exceptions(), binary.is_go());
    let _ = binary.restartable_sequences().len();
    let _ =
        (binary.find_static(None, "*").map(|f| f.len()), binary.find_static(Some("wier"), "flag").is_ok());
    let _ = (binary.static_probes().len(), binary.static_probes_left_out());
    let _ = (binary.source_line("main.c", 3), binary.source_line("lines.c", 4), binary.source_line("c", 1));
    let _ = binary.prototypes(&binary.functions().iter().take(50).map(|f| f.address).collect());
    let functions = binary.functions().iter().step_by(functions / 20 + 1).map(|f| f.address);
    let fixed = [0, 1, 0x1000, 0x400000, u64::MAX].map(LinkAddr);
    for address in functions.chain(fixed).chain([binary.entry()]) {
        let _ = (binary.function_bounds(address), binary.function_at(address), binary.bytes(address, 64));
        if let Some(offset) = binary.file_offset(address) {
            assert!(binary.link_address(offset).is_some());
        }
        let _ = binary.link_address(FileOffset(address.0));
        let file = weir_symbols::FileIdentity { device: (1, 1), inode: 1 };
        let maps = maps::parse("1000-100000 r-xp 00001000 01:01 1 /x\n").unwrap();
        let _ = maps::to_virtual(&maps, file, &binary, address);
        let _ = maps::to_link(&maps, file, &binary, weir_symbols::VirtAddr(0x2000));
    }
    true
}

/// Changes a few places, most of them in the structures that are parsed: headers, tables, the end of the file.
fn mutate(data: &mut Vec<u8>, random: &mut Random) {
    let structures = structures(data);
    for _ in 0..1 + random.below(6) {
        let (start, len) =
            if random.below(8) == 0 { (0, data.len()) } else { structures[random.below(structures.len())] };
        let Some(end) = start.checked_add(len).filter(|end| *end <= data.len() && len > 0) else { continue };
        let at = start + random.below(end - start);
        match random.below(6) {
            0 => data[at] ^= 1 << random.below(8),
            1 => data[at] = random.next() as u8,
            2 => data[at] = 0xff,
            3 => {
                // An aligned word of an extreme value.
                let at = at & !7;
                let values =
                    [0, 1, u64::MAX, i64::MAX as u64, 1 << 32, 0xffff_ffff, data.len() as u64, 0x1000];
                let value = values[random.below(values.len())].to_le_bytes();
                let end = (at + [1, 2, 4, 8][random.below(4)]).min(data.len());
                data[at..end].copy_from_slice(&value[..end - at]);
            }
            4 => {
                // A piece from elsewhere.
                let len = random.below(64).min(data.len() - at);
                let from = random.below(data.len() - len + 1);
                data.copy_within(from..from + len, at);
            }
            _ if random.below(20) == 0 => data.truncate(at.max(16)),
            _ => data[at] = data[at].wrapping_add(1),
        }
    }
}

/// ELF header, program headers, section headers, and each section.
fn structures(data: &[u8]) -> Vec<(usize, usize)> {
    let word =
        |at: usize| data.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()) as usize);
    let (segments, sections) = (word(0x20), word(0x28));
    let mut out = vec![(0, 64.min(data.len())), (segments, 56 * 12), (sections, 64 * 30)];
    for i in 0..30 {
        let header = sections.saturating_add(64 * i);
        if header < data.len() {
            out.push((word(header + 0x18), word(header + 0x20).min(4096)));
        }
    }
    out
}

fn mutants() -> usize {
    std::env::var("WEIR_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

fn check(name: &str, data: &[u8], seed: u64) {
    let mut random = Random(seed);
    let (mut opened, start) = (0, used_by_this_thread());
    for i in 0..mutants() {
        let mut mutant = data.to_vec();
        mutate(&mut mutant, &mut random);
        let begin = used_by_this_thread();
        opened += usize::from(ask(mutant));
        let used = used_by_this_thread() - begin;
        assert!(used < Duration::from_secs(10), "mutant {i} of {name} took {used:?} of CPU time");
    }
    println!("{name}: {opened} of {} mutants opened, {:?}", mutants(), used_by_this_thread() - start);
    assert!(opened > mutants() / 4, "most mutants must get past the header: {opened}");
}

const TEXT: &str = "#include <stdio.h>\n__attribute__((noinline)) int alpha(int n) { return printf(\"%d\", n); }\n\
    int main(void) { return alpha(3); }";

#[test]
fn mutants_of_a_program_with_all_tables_are_survived() {
    let path = target::build("mutated", Source::Text(TEXT), &["-O2", "-Wl,--hash-style=both", "-rdynamic"]);
    check("program", &std::fs::read(path).unwrap(), 1);
}

#[test]
fn mutants_without_section_headers_are_survived() {
    let path = target::build("mutated", Source::Text(TEXT), &["-O2", "-s", "-rdynamic"]);
    let mut data = std::fs::read(path).unwrap();
    data[0x28..0x30].fill(0);
    data[0x3c..0x40].fill(0);
    check("sectionless", &data, 2);
}

#[test]
fn mutants_of_a_program_with_static_probes_are_survived() {
    let path = target::program("usdt");
    check("usdt", &std::fs::read(path).unwrap(), 4);
}

#[test]
fn mutants_of_a_program_with_tracepoints_are_survived() {
    let path = target::program("tracepoints");
    check("tracepoints", &std::fs::read(path).unwrap(), 4);
    let path = target::program("tracepoints_wide");
    check("tracepoints in rows", &std::fs::read(path).unwrap(), 3);
}

#[test]
fn mutants_of_a_program_with_debug_information_are_survived() {
    let text = "enum kind { A, B = 7 }; struct pair { int a, b; }; typedef const char *text;\n\
        __attribute__((noinline)) int alpha(text n, enum kind k, struct pair p, double d, short s) { return *n + k + p.a + d + s; }\n\
        int main(int argc, char **argv) { return alpha(argv[0], argc, (struct pair){1, 2}, argc, 3); }";
    for flags in [["-O2", "-g", "-gdwarf-5"], ["-O2", "-g", "-gdwarf-4"]] {
        let path = target::build("mutated", Source::Text(text), &flags);
        check("debug information", &std::fs::read(path).unwrap(), 5);
    }
}

#[test]
fn mutants_of_the_loader_are_survived() {
    let data = std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
    check("ld.so", &data, 3);
}

#[test]
fn every_cut_of_a_program_is_survived() {
    let path = target::build("mutated", Source::Text(TEXT), &["-O2", "-rdynamic"]);
    let data = std::fs::read(path).unwrap();
    for len in (0..data.len()).step_by(7).chain(0..1200.min(data.len())) {
        ask(data[..len].to_vec());
    }
}

/// A file of `count` function symbols, all of which name the same string of `name_bytes` bytes.
fn one_name_for_all(count: usize, name_bytes: usize) -> Vec<u8> {
    let (code_at, symbols_at) = (0x1000, 0x2000);
    let strings_at = symbols_at + 24 * count;
    let sections_at = (strings_at + name_bytes + 2).next_multiple_of(8);
    let mut out = vec![0u8; sections_at + 3 * 64];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    for (at, value) in [(16, 3u16), (18, 62), (20, 1), (52, 64), (54, 56), (56, 1), (58, 64), (60, 3)] {
        put(at, &value.to_le_bytes());
    }
    put(32, &64u64.to_le_bytes());
    put(40, &(sections_at as u64).to_le_bytes());
    // PT_LOAD, R X: the code's page.
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    for (at, value) in
        [(72, code_at), (80, code_at), (88, code_at), (96, 0x1000), (104, 0x1000), (112, 0x1000)]
    {
        put(at, &(value as u64).to_le_bytes());
    }
    for i in 0..count {
        let at = symbols_at + 24 * i;
        put(at, &[1, 0, 0, 0, 0x12, 0, 1, 0]);
        put(at + 8, &((code_at + i % 4096) as u64).to_le_bytes());
        put(at + 16, &1u64.to_le_bytes());
    }
    put(strings_at + 1, &vec![b'x'; name_bytes]);
    for (index, kind, at, size, link) in
        [(1, 2u32, symbols_at, 24 * count, 2u32), (2, 3, strings_at, name_bytes + 2, 0)]
    {
        let header = sections_at + 64 * index;
        put(header + 4, &kind.to_le_bytes());
        put(header + 24, &(at as u64).to_le_bytes());
        put(header + 32, &(size as u64).to_le_bytes());
        put(header + 40, &link.to_le_bytes());
    }
    out
}

#[test]
fn names_take_memory_in_proportion_to_the_file() {
    let check = |count, name_bytes, taken: bool| {
        let data = one_name_for_all(count, name_bytes);
        let (bytes, start) = (data.len() as u64, used_by_this_thread());
        let binary = Binary::parse(Path::new("amplified"), data).unwrap();
        let names: u64 = binary.functions().iter().flat_map(|f| f.names()).map(|n| n.len() as u64).sum();
        assert!(names <= 8 * bytes, "{names} bytes of names in a file of {bytes}");
        assert_eq!(binary.functions_left_out() == 0, taken, "{count} × {name_bytes}");
        // A quarter of a second of CPU time; if names were looked for to their end, minutes.
        let used = used_by_this_thread() - start;
        assert!(used < Duration::from_secs(30), "{used:?}");
    };
    check(4, 100, true);
    check(100_000, 20, true);
    // Each name is short enough, all together are 1.6 GB.
    check(100_000, 16_000, false);
    // One name of 10 MB, asked for 100,000 times: its end is looked for no further than the longest name.
    check(100_000, 10_000_000, false);
}

#[test]
fn a_frame_section_of_one_long_cie_is_read_in_one_pass() {
    // 200,000 FDEs that all refer to a CIE which stands behind them and holds megabytes: never parsed for any.
    let mut data = one_name_for_all(1, 10);
    let frames_at = data.len().next_multiple_of(8);
    data.resize(frames_at, 0);
    let count = 200_000usize;
    for i in 0..count {
        data.extend_from_slice(&20u32.to_le_bytes());
        let own = 24 * i + 4;
        data.extend_from_slice(&(own as u32).wrapping_sub(24 * count as u32).to_le_bytes());
        data.extend_from_slice(&[0; 16]);
    }
    let frames = data.len() - frames_at;
    // A section named .eh_frame: the string table of sections is a third one, behind.
    let names_at = data.len();
    data.extend_from_slice(b"\0.eh_frame\0");
    let sections_at = data.len().next_multiple_of(8);
    data.resize(sections_at + 64 * 4, 0);
    let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
    put(40, &(sections_at as u64).to_le_bytes());
    put(60, &3u16.to_le_bytes());
    put(62, &2u16.to_le_bytes());
    for (index, name, kind, at, size) in [(1, 1u32, 1u32, frames_at, frames), (2, 0, 3, names_at, 11)] {
        let header = sections_at + 64 * index;
        put(header, &name.to_le_bytes());
        put(header + 4, &kind.to_le_bytes());
        put(header + 24, &(at as u64).to_le_bytes());
        put(header + 32, &(size as u64).to_le_bytes());
    }
    let start = used_by_this_thread();
    let binary = Binary::parse(Path::new("frames"), data).unwrap();
    assert_eq!(binary.frame_ranges(), []);
    let used = used_by_this_thread() - start;
    assert!(used < Duration::from_secs(5), "{used:?} of CPU time");
}
