//! Where the repository and its build output stand.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    // crates/testkit, two levels below the root.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Cargo's target folder; made if it is not there.
pub fn target() -> PathBuf {
    let path = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(given) => root().join(given),
        None => root().join("target"),
    };
    std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("create {}: {e}", path.display()));
    path
}
