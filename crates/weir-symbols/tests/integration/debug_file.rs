//! Names of stripped programs, from the separate file that packages keep them in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::target::{self, Source};
use weir_symbols::Binary;

const TEXT: &str = "volatile int sink;\n\
    __attribute__((noipa)) static int hidden(int n) { sink += n; return sink; }\n\
    int main(void) { return hidden(2) > 1000; }\n";

/// A stripped program, its build id, and its debug file.
fn stripped(name: &str) -> (PathBuf, Vec<u8>, PathBuf) {
    let whole = target::build(name, Source::Text(TEXT), &["-O2", "-g", "-Wl,--build-id=sha1"]);
    let debug = whole.with_extension("debug");
    let bare = whole.with_extension("stripped");
    run("objcopy", &["--only-keep-debug", whole.to_str().unwrap(), debug.to_str().unwrap()]);
    run("strip", &["-o", bare.to_str().unwrap(), whole.to_str().unwrap()]);
    let build_id = Binary::open(&bare).unwrap().build_id().unwrap().to_vec();
    (bare, build_id, debug)
}

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

/// A root in which `bytes` are the debug file of this build id.
fn root(name: &str, build_id: &[u8], bytes: &[u8]) -> PathBuf {
    let root = testkit::paths::target().join(format!("debug-root-{name}"));
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&root);
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = root.join("usr/lib/debug/.build-id").join(&hex[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{}.debug", &hex[2..])), bytes).unwrap();
    root
}

fn has_hidden(path: &Path, root: &Path) -> bool {
    let binary = Binary::open_in(path, root).unwrap();
    assert!(binary.find("nothing_of_this_name").is_err());
    binary.find("hidden").is_ok_and(|found| {
        assert_eq!(binary.bytes(found[0].address, found[0].size as usize).unwrap().last(), Some(&0xc3));
        assert_eq!(binary.symbol_value("hidden"), Some((found[0].address, found[0].size)));
        true
    })
}

#[test]
fn a_stripped_program_has_the_names_of_its_debug_file() {
    let (bare, build_id, debug) = stripped("debug-file");
    let root = root("own", &build_id, &fs::read(debug).unwrap());
    assert!(has_hidden(&bare, &root));
    assert!(!has_hidden(&bare, Path::new("/nonexistent")));
    let plain = Binary::open_in(&bare, &root).unwrap();
    assert_eq!(plain.functions_left_out(), 0);
}

#[test]
fn the_file_of_another_build_is_not_taken() {
    let (bare, build_id, debug) = stripped("debug-file-other");
    let mut bytes = fs::read(debug).unwrap();
    let at = bytes.windows(build_id.len()).position(|window| window == build_id).unwrap();
    bytes[at] ^= 1;
    assert!(!has_hidden(&bare, &root("other", &build_id, &bytes)));
}

#[test]
fn a_broken_debug_file_means_no_names() {
    let (bare, build_id, debug) = stripped("debug-file-broken");
    let bytes = fs::read(debug).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 50) {
        let root = root("cut", &build_id, &bytes[..length]);
        assert!(!has_hidden(&bare, &root), "cut to {length}");
    }
    // Any word may be anything: no panic, no endless reading.
    for at in (0..bytes.len() - 8).step_by(bytes.len() / 300) {
        let mut mutant = bytes.clone();
        mutant[at..at + 8].fill(0xff);
        let binary = Binary::open_in(&bare, &root("mutant", &build_id, &mutant)).unwrap();
        let _ = (binary.functions().len(), binary.symbol_value("hidden"));
    }
    let folder = root("folder", &build_id, &[]);
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.join("usr/lib/debug/.build-id").join(&hex[..2]).join(format!("{}.debug", &hex[2..]));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(!has_hidden(&bare, &folder));
}

/// The parameters of `hidden`, as they are shown.
fn parameters(path: &Path, root: &Path) -> Option<String> {
    let binary = Binary::open_in(path, root).unwrap();
    let address = binary.find("hidden").ok()?[0].address;
    binary.prototypes(&[address].into()).get(&address).map(ToString::to_string)
}

const HIDDEN: Option<&str> = Some("(int32 n) int32");

#[test]
fn compressed_sections_are_read() {
    let flags = ["-O2", "-g", "-gz=zlib", "-Wl,--build-id=sha1"];
    let whole = target::build("debug-file-packed", Source::Text(TEXT), &flags);
    assert_eq!(parameters(&whole, Path::new("/nonexistent")).as_deref(), HIDDEN);
    let (debug, bare) = (whole.with_extension("debug"), whole.with_extension("stripped"));
    run("objcopy", &["--only-keep-debug", whole.to_str().unwrap(), debug.to_str().unwrap()]);
    run("strip", &["-o", bare.to_str().unwrap(), whole.to_str().unwrap()]);
    let build_id = Binary::open(&bare).unwrap().build_id().unwrap().to_vec();
    let root = root("packed", &build_id, &fs::read(debug).unwrap());
    assert_eq!(parameters(&bare, &root).as_deref(), HIDDEN);
}

/// Where the sections of these names are in a file.
fn sections(bytes: &[u8], names: &[&str]) -> Vec<std::ops::Range<usize>> {
    use object::read::elf::{FileHeader as _, SectionHeader as _};
    let header = object::elf::FileHeader64::<object::LittleEndian>::parse(bytes).unwrap();
    let table = header.sections(object::LittleEndian, bytes).unwrap();
    let range = |name: &&str| {
        let (_, section) = table.section_by_name(object::LittleEndian, name.as_bytes()).unwrap();
        assert!(section.sh_flags(object::LittleEndian).contains(object::elf::SHF_COMPRESSED), "{name}");
        let (offset, size) = section.file_range(object::LittleEndian).unwrap();
        offset as usize..(offset + size) as usize
    };
    names.iter().map(range).collect()
}

#[test]
fn what_decompresses_to_anything_else_is_refused() {
    let flags = ["-O2", "-g", "-gz=zlib", "-Wl,--build-id=none"];
    // What would not become smaller is not compressed.
    let more: String = (0..40)
        .map(|n| {
            format!(
                "int name_number_{n}(int first_{n}, int second_{n}) {{ return first_{n} * second_{n}; }}\n"
            )
        })
        .collect();
    let whole = target::build("debug-file-hostile", Source::Text(&format!("{more}{TEXT}")), &flags);
    let bytes = fs::read(&whole).unwrap();
    let path = testkit::paths::target().join("testkit/debug-file-hostile.mutant");
    let reads = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        parameters(&path, Path::new("/nonexistent"))
    };
    for range in sections(&bytes, &[".debug_info", ".debug_str"]) {
        // The header is type, padding, size and alignment: 4, 4, 8 and 8 bytes.
        for size in [0, 1, 1 << 20, 1 << 32, u64::MAX] {
            let mut mutant = bytes.clone();
            mutant[range.start + 8..range.start + 16].copy_from_slice(&u64::to_le_bytes(size));
            assert_eq!(reads(&mutant), None, "of {size} bytes");
        }
        for at in range.clone().skip(24).step_by(11) {
            let mut mutant = bytes.clone();
            // All bits of it: some of the last byte are not used.
            mutant[at] ^= 0xff;
            assert_eq!(reads(&mutant), None, "byte {at} of the stream");
        }
        let mut mutant = bytes.clone();
        mutant[range.start] = 2;
        assert_eq!(reads(&mutant), None);
        let error = Binary::open(&path).unwrap().source_line("a.c", 1).unwrap_err().to_string();
        assert!(error.contains("zstd"), "{error}");
    }
    assert_eq!(reads(&bytes).as_deref(), HIDDEN);
}

#[test]
fn the_file_of_a_debug_link_is_taken_if_its_checksum_is_right() {
    let flags = ["-O2", "-g", "-Wl,--build-id=none"];
    let whole = target::build("debug-file-link", Source::Text(TEXT), &flags);
    let root = testkit::paths::target().join("debug-root-link");
    let _ = fs::remove_dir_all(&root);
    let folder = root.join("opt/app");
    fs::create_dir_all(&folder).unwrap();
    let (debug, bare) = (root.join("app.debug"), folder.join("app"));
    run("objcopy", &["--only-keep-debug", whole.to_str().unwrap(), debug.to_str().unwrap()]);
    run("strip", &["-o", bare.to_str().unwrap(), whole.to_str().unwrap()]);
    run("objcopy", &["--add-gnu-debuglink", debug.to_str().unwrap(), bare.to_str().unwrap()]);
    assert_eq!(parameters(&bare, &root), None);
    for place in ["opt/app", "opt/app/.debug", "usr/lib/debug/opt/app"] {
        let place = root.join(place);
        fs::create_dir_all(&place).unwrap();
        let file = place.join("app.debug");
        fs::copy(&debug, &file).unwrap();
        assert_eq!(parameters(&bare, &root).as_deref(), HIDDEN, "{}", file.display());
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(parameters(&bare, &root), None, "{}", file.display());
        fs::remove_file(&file).unwrap();
    }
    // Weir's own root, and a path that leads there.
    let link = testkit::paths::target().join("debug-root-link/by-link");
    std::os::unix::fs::symlink(&bare, &link).unwrap();
    fs::copy(&debug, folder.join("app.debug")).unwrap();
    assert_eq!(parameters(&link, Path::new("/")).as_deref(), HIDDEN);
}
