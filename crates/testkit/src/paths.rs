//! Where the repository and its build output stand.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    // crates/testkit, two levels below the root.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where a test may make a file or folder that nothing has made yet, among those of the same `group` below [`target`].
pub fn fresh(group: &str, name: &str) -> PathBuf {
    let folder = target().join("testkit").join(group);
    std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
    let path = folder.join(format!("{name}-{}", std::process::id()));
    // What a test that was killed has left.
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// The path as scripts, command lines and shells take it, with whatever blanks are in it.
pub fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// The database of advisories that `cargo audit` has fetched.
pub fn advisories() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("advisory-db")).filter(|database| database.is_dir())
}

/// Cargo's target folder; made if it is not there.
pub fn target() -> PathBuf {
    // An empty one would be the root itself.
    let path = match std::env::var_os("CARGO_TARGET_DIR").filter(|given| !given.is_empty()) {
        Some(given) => root().join(given),
        None => root().join("target"),
    };
    std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("create {}: {e}", path.display()));
    path
}
