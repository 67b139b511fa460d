//! What is emitted for each operation, as eBPF text: `files/NAME.ir` compiles to `files/NAME.bpf`. Programs count their
//! runs only in the files whose names begin with `hits`, and what has no room in those that begin with `losses`.
//! `BLESS=1` rewrites the expectations.

use std::path::{Path, PathBuf};

use weir_codegen::{Options, compile, compile_with};
use weir_ir::text;

/// Compiles one file and compares.
fn check(path: &Path) -> Result<(), String> {
    let source = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let module = text::parse(&source).map_err(|error| format!("{}: {error}", path.display()))?;
    let begins = |word| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(word));
    let (counts_hits, is_for_kernel) = (begins("hits"), begins("losses"));
    let got = match compile_with(&module, &Options { counts_hits, is_for_kernel, ..Options::default() }) {
        Ok(compiled) => weir_ebpf::asm::print(&compiled.object),
        Err(error) => format!("; refused: {error}\n"),
    };
    let expected = path.with_extension("bpf");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&expected, &got).map_err(|error| format!("{}: {error}", expected.display()))?;
    }
    let want =
        std::fs::read_to_string(&expected).map_err(|error| format!("{}: {error}", expected.display()))?;
    if got == want { Ok(()) } else { Err(format!("{}: expected\n{want}\ngot\n{got}", path.display())) }
}

#[test]
fn emits_what_the_files_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of files")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ir"))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "only {} files", files.len());
    let faults: Vec<String> = files.iter().filter_map(|path| check(path).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_text_of_what_is_emitted_assembles_again() {
    let source = include_str!("../files/hist_and_count.ir");
    let compiled = compile(&text::parse(source).expect("parses")).expect("compiles");
    let printed = weir_ebpf::asm::print(&compiled.object);
    assert_eq!(weir_ebpf::asm::parse(&printed), Ok(compiled.object));
}
