//! The C programs of `tests/bpf`, compiled by clang. Shared by the tests of this folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use testkit::{bpf, paths};

/// An object, by its name.
type Named = (String, Vec<u8>);

/// The object of each program of `tests/bpf`, by name, compiled once for all tests of one file (`folder` names it);
/// none, loudly, where clang is not or knows no BPF.
#[allow(dead_code, reason = "not every file of tests uses the whole corpus")]
pub(crate) fn objects(folder: &str) -> &'static [Named] {
    // Tests of several files may run in one process.
    static OBJECTS: Mutex<BTreeMap<String, &[Named]>> = Mutex::new(BTreeMap::new());
    let mut objects = OBJECTS.lock().unwrap();
    objects.entry(folder.to_owned()).or_insert_with(|| compile_all(folder).leak())
}

fn compile_all(folder: &str) -> Vec<Named> {
    let sources = bpf::sources("tests/bpf");
    assert!(sources.len() >= 12, "the corpus is not in tests/bpf");
    let mut objects = Vec::new();
    for source in sources {
        let name = source.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(bytes) = compile(folder, &source.display().to_string(), &name) else { return Vec::new() };
        objects.push((name, bytes));
    }
    objects
}

/// The object that clang makes of the file `source`.
pub(crate) fn compile(folder: &str, source: &str, name: &str) -> Option<Vec<u8>> {
    let folder = paths::target().join("bpf-corpus").join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let object = folder.join(format!("{name}.o"));
    bpf::compile(Path::new(source), &object).then(|| std::fs::read(&object).unwrap())
}
