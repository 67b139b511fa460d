//! Libraries by short name, as a loader would find them.
//!
//! In: `libssl.so.3` (exact), or a stem such as `libssl` (then `libssl.so`, `libssl.so.*`, `libssl-*.so`; also `ssl`
//! for none: the `lib` is part of the name). Out: the first that exists of: ld.so.cache in its order, the folders of
//! `/etc/ld-musl-x86_64.path`, the default folders. Of the variants that glibc chooses by CPU (glibc-hwcaps), those
//! that this CPU cannot run are passed over.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Places, cache, names, root};
use crate::limits::CACHE_BYTES_MAX;
use crate::regular;

const CACHE: &str = "/etc/ld.so.cache";
const MUSL_PATHS: &str = "/etc/ld-musl-x86_64.path";

/// Default folders of glibc on Debian, Fedora and Arch, and of musl, multiarch first.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib/x86_64-linux-gnu",
];

/// The library `name`; adds to `searched` the places looked in.
pub(super) fn find(name: &str, places: &Places, searched: &mut Vec<String>) -> Option<PathBuf> {
    let exists = |path: &str| root::canonical(&places.root, Path::new(path)).ok().filter(|p| p.is_file());
    let cache = read(places, CACHE);
    if !cache.is_empty() {
        searched.push(CACHE.into());
    }
    let matching = |test: &dyn Fn(&str) -> bool| {
        cache::entries(&cache).filter(|e| test(e.name) && runs_here(e.path)).find_map(|e| exists(e.path))
    };
    if let Some(path) = matching(&|n| n == name).or_else(|| matching(&|n| is_short_name_of(name, n))) {
        return Some(path);
    }
    let folders = folders(places);
    let (first, rest) = (folders.first().map_or("", String::as_str), folders.len().saturating_sub(1));
    searched.push(format!("{first} and {rest} other library folders"));
    folders.iter().find_map(|folder| exists(&format!("{folder}/{name}"))).or_else(|| {
        folders.iter().find_map(|folder| {
            let real = root::canonical(&places.root, Path::new(folder)).ok()?;
            let files = names(&real);
            let mut fitting = files.iter().filter(|file| is_short_name_of(name, file));
            fitting.find_map(|file| exists(&format!("{folder}/{file}")))
        })
    })
}

/// Whether `file` (`libc.so.6`) is a library with the stem `stem` (`libc`).
pub(super) fn is_short_name_of(stem: &str, file: &str) -> bool {
    let Some(rest) = file.strip_prefix(stem) else { return false };
    stem.len() > 3
        && (rest == ".so" || rest.starts_with(".so.") || rest.starts_with('-') && rest.ends_with(".so"))
}

/// Names that [`find`] would find, for near misses: full names and stems.
pub(super) fn known(places: &Places) -> Vec<String> {
    let cache = read(places, CACHE);
    let mut known: Vec<String> = cache::entries(&cache).map(|e| e.name.to_string()).collect();
    if known.is_empty() {
        let folders = folders(places).into_iter();
        let real = folders.filter_map(|f| root::canonical(&places.root, Path::new(&f)).ok());
        known = real.flat_map(|f| names(&f)).filter(|n| n.contains(".so")).collect();
    }
    let stems: Vec<String> =
        known.iter().filter_map(|n| n.split_once(".so")).map(|(stem, _)| stem.into()).collect();
    known.extend(stems);
    known
}

/// Folders of the libraries that the loader's cache names, each once, and then [`folders`].
pub(super) fn all_folders(places: &Places) -> Vec<PathBuf> {
    let cache = read(places, CACHE);
    let cached = cache::entries(&cache).filter(|entry| runs_here(entry.path));
    let cached = cached.filter_map(|entry| Path::new(entry.path).parent().map(Path::to_path_buf));
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in cached.chain(folders(places).into_iter().map(PathBuf::from)) {
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    all
}

/// musl's configured folders, then the default ones, without repetition.
fn folders(places: &Places) -> Vec<String> {
    let musl = String::from_utf8_lossy(&read(places, MUSL_PATHS)).into_owned();
    let configured = musl.split(['\n', ':']).map(str::trim).filter(|f| f.starts_with('/'));
    let mut folders: Vec<String> = Vec::new();
    for folder in configured.chain(FOLDERS) {
        if !folders.iter().any(|f| f == folder) {
            folders.push(folder.into());
        }
    }
    folders
}

/// The bytes of a small file inside the root; empty if it cannot be read.
fn read(places: &Places, path: &str) -> Vec<u8> {
    let mut data = Vec::new();
    if let Ok(path) = root::canonical(&places.root, Path::new(path))
        && let Ok(file) = regular::open(&path)
        && file.take(CACHE_BYTES_MAX).read_to_end(&mut data).is_err()
    {
        data.clear();
    }
    data
}

/// Whether this CPU runs the library at `path`, by the level in its folder's name (x86-64 psABI, 3.1.1: the features
/// that tell the levels apart in practice).
fn runs_here(path: &str) -> bool {
    let Some((_, level)) = path.split_once("/glibc-hwcaps/") else { return true };
    match level.split('/').next() {
        Some("x86-64-v2") => is_x86_feature_detected!("sse4.2"),
        Some("x86-64-v3") => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2"),
        Some("x86-64-v4") => is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw"),
        _ => false,
    }
}
