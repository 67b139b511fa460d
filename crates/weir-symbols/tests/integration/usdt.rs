//! Static probes of programs whose source is known, and of the system's own files beside readelf.

use std::path::Path;
use std::process::Command;

use testkit::target::{self, Source};
use weir_symbols::usdt::{Displacement, Memory, Operand};
use weir_symbols::{Binary, LinkAddr, StaticProbe};

fn program() -> Binary {
    Binary::open(&target::program("usdt")).unwrap()
}

fn one<'a>(binary: &'a Binary, name: &str) -> &'a StaticProbe {
    let found = binary.find_static(Some("weir"), name).unwrap();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0]
}

fn types(probe: &StaticProbe) -> Vec<String> {
    probe.arguments.iter().map(|argument| argument.type_name()).collect()
}

#[test]
fn each_linkage_has_the_probes_that_its_source_has() {
    for (variant, path) in target::matrix("usdt", Source::Program("usdt.c"), &["-pthread"]) {
        let binary = Binary::open(&path).unwrap();
        let names: Vec<&str> =
            binary.static_probes().iter().filter(|p| p.provider == "weir").map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["before_call", "flags", "guarded", "red_zone", "values"], "{variant}");
        assert_eq!(binary.static_probes_left_out(), 0, "{variant}");
        let values = one(&binary, "values");
        let expected = "int32 int8 uint8 int16 uint16 int64 uint64 uint64 int32 int32";
        assert_eq!(types(values).join(" "), expected, "{variant}");
        for probe in binary.static_probes().iter().filter(|p| p.provider == "weir") {
            assert!(probe.arguments.iter().all(|a| a.operand.is_ok()), "{variant}: {probe:?}");
            let code = binary.bytes(probe.address, 1).unwrap()[0];
            let expected = match probe.name.as_str() {
                "guarded" => 0x0f,
                "red_zone" => 0x66,
                _ => 0x90,
            };
            assert_eq!(code, expected, "{variant}: {} stands at its nop", probe.name);
        }
    }
}

#[test]
fn operands_are_where_the_compiler_put_them() {
    let binary = program();
    let arguments = &one(&binary, "values").arguments;
    assert_eq!(arguments[8].operand, Ok(Operand::Constant(-42)));
    let (counter, _) = binary.symbol_value("counter").unwrap();
    let place = Memory { base: None, index: None, displacement: Displacement::Linked(counter) };
    assert_eq!(arguments[9].operand, Ok(Operand::Memory(place)));
    let below = |bytes| Memory { base: Some(4), index: None, displacement: Displacement::Bytes(bytes) };
    let red_zone: Vec<_> = one(&binary, "red_zone").arguments.iter().map(|a| a.operand.clone()).collect();
    assert_eq!(red_zone, [Ok(Operand::Memory(below(-8))), Ok(Operand::Memory(below(-128)))]);
}

#[test]
fn a_semaphore_is_the_word_that_the_program_looks_at() {
    let binary = program();
    let (semaphore, bytes) = binary.symbol_value("weir_guarded_semaphore").unwrap();
    assert_eq!(bytes, 2);
    assert_eq!(one(&binary, "guarded").semaphore, Some(semaphore));
    assert_eq!(one(&binary, "values").semaphore, None);
}

#[test]
fn probes_are_found_by_name_provider_and_wildcard() {
    let binary = program();
    let check = |provider: Option<&str>, name: &str, expected: &[&str]| {
        let found = binary.find_static(provider, name).unwrap();
        let names: Vec<&str> = found.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, expected, "{provider:?} {name}");
    };
    check(None, "flags", &["flags"]);
    check(Some("weir"), "*ed*", &["guarded", "red_zone"]);
    check(Some("w*"), "values", &["values"]);
    check(None, "*", &["before_call", "flags", "guarded", "red_zone", "values"]);
}

#[test]
fn a_probe_that_is_not_there_brings_near_ones() {
    let binary = program();
    let message =
        |provider: Option<&str>, name: &str| binary.find_static(provider, name).unwrap_err().to_string();
    assert!(message(None, "flag").ends_with("; did you mean flags?"), "{}", message(None, "flag"));
    assert!(message(Some("wier"), "flags").ends_with("; did you mean weir:flags?"));
    assert!(message(None, "zz*").contains("no static probe (USDT) matches \"zz*\""));
    assert!(message(None, "zz*").ends_with("; it has 5 places of others"));
    let plain = target::build("no-probes", Source::Text("int main(void) { return 0; }"), &["-O2"]);
    let none = Binary::open(&plain).unwrap().find_static(None, "x").unwrap_err().to_string();
    assert!(none.ends_with("; it has none at all: it was built without them"), "{none}");
}

#[test]
fn landing_pads_are_places_in_functions() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
    let plain = program();
    assert_eq!(plain.landing_pads(), Some(&[][..]));
    if !path.exists() {
        return;
    }
    let binary = Binary::open(path).unwrap();
    let pads = binary.landing_pads().expect("GCC's tables are understood");
    assert!(pads.len() > 100 && pads.is_sorted(), "{}", pads.len());
    assert!(pads.iter().all(|pad| binary.function_bounds(*pad).is_some()));
}

/// A section header's offset in the file, by the section's name.
fn section_header(data: &[u8], name: &str) -> usize {
    let word = |at: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&data[at..at + bytes]);
        u64::from_le_bytes(value) as usize
    };
    let (headers, count, names) = (word(0x28, 8), word(0x3c, 2), word(0x3e, 2));
    let strings = word(headers + names * 64 + 0x18, 8);
    let is_named = |header: &usize| {
        let at = strings + word(*header, 4);
        data[at..].starts_with(name.as_bytes()) && data[at + name.len()] == 0
    };
    (0..count).map(|index| headers + index * 64).find(is_named).unwrap()
}

/// The file as bytes, with `change` made to it.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Binary {
    let mut data = std::fs::read(target::program("usdt")).unwrap();
    change(&mut data);
    Binary::parse(Path::new("changed"), data).unwrap()
}

#[test]
fn what_prelink_moved_is_found_where_it_is_now() {
    let before = program();
    let moved = changed(|data| {
        let header = section_header(data, ".stapsdt.base");
        let address = u64::from_le_bytes(data[header + 16..header + 24].try_into().unwrap());
        data[header + 16..header + 24].copy_from_slice(&(address + 4).to_le_bytes());
    });
    for name in ["flags", "guarded", "values"] {
        assert_eq!(one(&moved, name).address, LinkAddr(one(&before, name).address.0 + 4), "{name}");
    }
    let semaphore = |binary: &Binary| one(binary, "guarded").semaphore.map(|at| at.0);
    assert_eq!(semaphore(&moved), semaphore(&before).map(|at| at + 4));
}

#[test]
fn notes_that_lead_nowhere_are_left_out_and_counted() {
    // The words of a descriptor: address, base, semaphore.
    let check = |word: usize, value: u64| {
        let binary = changed(|data| {
            let header = section_header(data, ".note.stapsdt");
            let start = u64::from_le_bytes(data[header + 24..header + 32].try_into().unwrap()) as usize;
            let at = start + 20 + 8 * word;
            data[at..at + 8].copy_from_slice(&value.to_le_bytes());
        });
        let all = program().static_probes().len();
        assert_eq!((binary.static_probes().len(), binary.static_probes_left_out()), (all - 1, 1), "{word}");
    };
    check(0, 0);
    check(0, u64::MAX);
    // Of another base, the address leads out of the code.
    check(1, 1 << 40);
    // A semaphore in the code, and at the very end of the address space.
    check(2, 0x1000);
    check(2, u64::MAX);
}

#[test]
fn a_section_that_ends_within_a_note_gives_the_notes_before() {
    let whole = program().static_probes().len();
    for cut in [4u64, 20, 60] {
        let binary = changed(|data| {
            let header = section_header(data, ".note.stapsdt");
            let bytes = u64::from_le_bytes(data[header + 32..header + 40].try_into().unwrap());
            data[header + 32..header + 40].copy_from_slice(&(bytes - cut).to_le_bytes());
        });
        assert!((whole - 2..whole).contains(&binary.static_probes().len()), "{cut}");
    }
}

/// Provider, name, address, semaphore and arguments of each note, as readelf prints them.
fn by_readelf(path: &Path) -> Vec<String> {
    let output = Command::new("readelf").args(["-n", "-W"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut out = Vec::new();
    for note in text.split("Provider: ").skip(1) {
        let line = |key: &str| {
            let line = note.lines().find_map(|l| l.trim().strip_prefix(key)).unwrap_or_default();
            line.trim().to_string()
        };
        let number = |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap();
        let places = line("Location:");
        let parts: Vec<&str> = places.split(", ").collect();
        let semaphore = number(parts[2].trim_start_matches("Semaphore: "));
        let provider = note.lines().next().unwrap().trim();
        let (address, arguments) = (number(parts[0]), line("Arguments:"));
        out.push(format!("{provider}:{} {address:#x} {semaphore:#x} {arguments}", line("Name:")));
    }
    out.sort();
    out
}

#[test]
fn files_are_read_as_readelf_reads_them() {
    let mut checked = 0;
    let candidates = [
        target::program("usdt"),
        "/usr/bin/python3".into(),
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6".into(),
        "/lib/x86_64-linux-gnu/libc.so.6".into(),
        "/lib64/ld-linux-x86-64.so.2".into(),
    ];
    for path in candidates.iter().filter(|path| path.exists()) {
        let binary = Binary::open(path).unwrap();
        let mut ours: Vec<String> = binary
            .static_probes()
            .iter()
            .map(|p| {
                let texts: Vec<&str> = p.arguments.iter().map(|a| a.text.as_str()).collect();
                let semaphore = p.semaphore.map_or(0, |at| at.0);
                format!("{} {:#x} {semaphore:#x} {}", p.full_name(), p.address.0, texts.join(" "))
            })
            .collect();
        ours.sort();
        assert_eq!(ours, by_readelf(path), "{}", path.display());
        checked += ours.len();
    }
    assert!(checked >= 5, "{checked} probes");
}
