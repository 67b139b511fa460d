//! Writes the seed corpora: `fuzz_seeds FOLDER [OBJECT.o …]` fills FOLDER/TARGET for each fuzz target.
//!
//! The objects are those that clang made of `tests/bpf`, if some test has had it make them.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use fuzz_targets::seeds;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().expect("usage: fuzz_seeds FOLDER [OBJECT.o …]");
    let read = |path: PathBuf| {
        std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    };
    let objects: Vec<Vec<u8>> = arguments.map(read).collect();
    for seed in seeds::all(&objects) {
        let folder = folder.join(seed.target);
        let path = folder.join(&seed.name);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&path, &seed.bytes))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}
