//! Writes seeds for the fuzz target of object files: `tracepoint_seeds FOLDER` fills FOLDER/elf with files that have tracepoints.

#![forbid(unsafe_code)]

#[path = "../tests/tracepoint/image.rs"]
mod image;

use std::path::PathBuf;

use image::{CODE, Image, everything, fields, probe};

fn main() {
    let folder =
        std::env::args_os().nth(1).map(PathBuf::from).expect("usage: tracepoint_seeds FOLDER").join("elf");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let second = Image { probes: probe(CODE, ""), fields: fields(2, CODE, 0, &[]), tables: Vec::new() };
    for (name, image) in [("tracepoints", everything()), ("probes", second)] {
        let path = folder.join(name);
        std::fs::write(&path, image.bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
