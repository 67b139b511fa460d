//! What names of programs and libraries mean, in roots made by the tests and in the system's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use weir_symbols::resolve::{self, Places};
use weir_symbols::{Error, maps};

/// A folder that serves as a root, removed at the end.
struct Root {
    path: PathBuf,
}

impl Root {
    fn new(name: &str) -> Root {
        let path =
            testkit::paths::target().join("testkit").join(format!("root-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Root { path: path.canonicalize().unwrap() }
    }

    /// An executable file; folders are made.
    fn file(self, path: &str) -> Root {
        self.content(path, b"")
    }

    fn content(self, path: &str, content: &[u8]) -> Root {
        let path = self.path.join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Root {
        let path = self.path.join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    fn places(&self) -> Places {
        Places { root: self.path.clone(), path_env: Some("/usr/bin:/bin".into()), cwd: "/home/me".into() }
    }

    fn check(&self, name: &str, expected: &str) {
        let found = resolve::binary(name, &self.places()).map(|p| resolve::inside(&self.path, &p));
        assert_eq!(found.unwrap_or_else(|e| panic!("{name}: {e}")), Path::new(expected), "{name}");
    }

    fn fault(&self, name: &str, parts: &[&str]) {
        let message = resolve::binary(name, &self.places()).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{part} not in: {message}");
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A cache in the new format; each library with its flags, and its path.
fn cache(libraries: &[(u32, &str, &str)]) -> Vec<u8> {
    let mut strings = Vec::new();
    let mut entries = Vec::new();
    let strings_at = 48 + 24 * libraries.len();
    let mut add = |text: &str| {
        let at = (strings_at + strings.len()) as u32;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        at
    };
    for (flags, name, path) in libraries {
        let (name, path) = (add(name), add(path));
        for word in [*flags, name, path, 0, 0, 0] {
            entries.extend_from_slice(&word.to_le_bytes());
        }
    }
    let mut out = b"glibc-ld.so.cache1.1".to_vec();
    out.extend_from_slice(&(libraries.len() as u32).to_le_bytes());
    out.extend_from_slice(&(strings.len() as u32).to_le_bytes());
    out.resize(48, 0);
    out.extend(entries);
    out.extend(strings);
    out
}

/// The same behind a part in the old format.
fn combined_cache(libraries: &[(u32, &str, &str)]) -> Vec<u8> {
    let mut out = b"ld.so-1.7.0\0".to_vec();
    out.extend_from_slice(&3u32.to_le_bytes());
    out.resize(16 + 3 * 12, 0x55);
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend(cache(libraries));
    out
}

const X86_64: u32 = 0x0303;
const I386: u32 = 0x0003;

#[test]
fn paths_are_taken_from_the_root_and_the_current_folder() {
    let root = Root::new("paths").file("/home/me/app").file("/opt/tool").link("/opt/alias", "tool");
    root.check("/opt/tool", "/opt/tool");
    root.check("./app", "/home/me/app");
    root.check("../me/./app", "/home/me/app");
    root.check("../../opt/alias", "/opt/tool");
    root.check("/../../opt/tool", "/opt/tool");
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let root = Root::new("links")
        .file("/real/lib/x.so.1")
        .link("/lib", "/real/lib")
        .link("/real/lib/x.so", "/lib/x.so.1")
        .link("/out", "../../../../real/lib/x.so.1")
        .link("/passwd", "/etc/passwd")
        .link("/a", "/b")
        .link("/b", "a");
    root.check("/lib/x.so", "/real/lib/x.so.1");
    root.check("/out", "/real/lib/x.so.1");
    root.fault("/passwd", &["/passwd leads to /etc/passwd, which is not there"]);
    root.fault("/a", &["/a: more than 40 symbolic links"]);
}

#[test]
fn programs_are_searched_in_path() {
    let root = Root::new("programs")
        .file("/usr/bin/server")
        .file("/bin/server")
        .file("/bin/other")
        .content("/bin/data", b"");
    fs::set_permissions(root.path.join("bin/data"), fs::Permissions::from_mode(0o644)).unwrap();
    root.check("server", "/usr/bin/server");
    root.check("other", "/bin/other");
    root.fault(
        "serverr",
        &["no program or library named \"serverr\"", "searched $PATH", "did you mean server?"],
    );
    root.fault("data", &["no program or library named \"data\""]);
}

#[test]
fn a_program_of_the_current_folder_is_only_offered() {
    let root = Root::new("here").file("/home/me/app");
    root.fault("app", &["no program or library named \"app\"", "did you mean ./app?"]);
}

#[test]
fn a_missing_file_brings_near_ones() {
    let root = Root::new("near").file("/opt/redis-server");
    root.fault("/opt/redis-sever", &["no such file: /opt/redis-sever; did you mean /opt/redis-server?"]);
    root.fault("/nowhere/x", &["no such file: /nowhere/x; check the path"]);
    root.fault("", &["name of a program or library is empty"]);
}

fn with_cache(name: &str, cache: &[u8]) -> Root {
    Root::new(name)
        .content("/etc/ld.so.cache", cache)
        .file("/lib/x86_64-linux-gnu/libc.so.6")
        .file("/lib/i386/libc.so.6")
        .file("/opt/ssl/libssl.so.3")
        .file("/opt/ssl/libssl3.so")
        .link("/opt/ssl/libssl.so", "libssl.so.3")
        .file("/lib/libz-ng.so")
}

const LIBRARIES: &[(u32, &str, &str)] = &[
    (X86_64, "libssl3.so", "/opt/ssl/libssl3.so"),
    (X86_64, "libssl.so.3", "/opt/ssl/libssl.so.3"),
    (X86_64, "libgone.so.1", "/opt/gone/libgone.so.1"),
    (I386, "libc.so.6", "/lib/i386/libc.so.6"),
    (X86_64, "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
];

#[test]
fn libraries_are_found_through_the_cache() {
    for (name, cache) in [("new", cache(LIBRARIES)), ("combined", combined_cache(LIBRARIES))] {
        let root = with_cache(name, &cache);
        root.check("libc", "/lib/x86_64-linux-gnu/libc.so.6");
        root.check("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6");
        root.check("libssl", "/opt/ssl/libssl.so.3");
        root.check("libssl3", "/opt/ssl/libssl3.so");
        root.check("libz", "/lib/libz-ng.so");
        root.fault("libgone", &["no program or library named \"libgone\"", "/etc/ld.so.cache"]);
        root.fault("libsssl", &["did you mean libssl"]);
    }
}

#[test]
fn without_a_cache_libraries_are_found_in_folders() {
    let root = Root::new("folders")
        .content("/etc/ld-musl-x86_64.path", b"/opt/musl\n/lib:/usr/lib\n")
        .file("/opt/musl/libpq.so.5")
        .file("/usr/lib/libpq.so.4")
        .file("/usr/lib64/libz.so.1.2")
        .file("/lib/ld-musl-x86_64.so.1");
    root.check("libpq", "/opt/musl/libpq.so.5");
    root.check("libpq.so.4", "/usr/lib/libpq.so.4");
    root.check("libz", "/usr/lib64/libz.so.1.2");
    root.check("ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1");
    root.fault("libpqq", &["did you mean libpq"]);
}

#[test]
fn a_variant_for_another_cpu_is_passed_over() {
    let root = Root::new("hwcaps")
        .content(
            "/etc/ld.so.cache",
            &cache(&[
                (X86_64, "libx.so.1", "/lib/glibc-hwcaps/x86-64-v99/libx.so.1"),
                (X86_64, "libx.so.1", "/lib/libx.so.1"),
            ]),
        )
        .file("/lib/glibc-hwcaps/x86-64-v99/libx.so.1")
        .file("/lib/libx.so.1");
    root.check("libx", "/lib/libx.so.1");
}

#[test]
fn a_broken_cache_is_as_good_as_none() {
    let whole = combined_cache(LIBRARIES);
    let mut counted = cache(LIBRARIES);
    counted[20..24].fill(0xff);
    let mut far = cache(LIBRARIES);
    far[52..56].fill(0xff);
    let mut old_count = whole.clone();
    old_count[12..16].fill(0xff);
    for (i, content) in
        [&whole[..10], &whole[..30], &whole[..70], &counted, &far, &old_count].iter().enumerate()
    {
        let root = with_cache(&format!("broken{i}"), content);
        root.check("libc", "/lib/x86_64-linux-gnu/libc.so.6");
    }
}

#[test]
fn the_systems_own_names_resolve() {
    let places = Places { root: "/".into(), path_env: Some("/usr/bin:/bin".into()), cwd: "/".into() };
    let libc = resolve::binary("libc", &places).unwrap();
    assert_eq!(libc, fs::canonicalize("/lib/x86_64-linux-gnu/libc.so.6").unwrap());
    assert_eq!(resolve::binary("sh", &places).unwrap(), fs::canonicalize("/bin/sh").unwrap());
    assert!(matches!(resolve::binary("libnotthere", &places), Err(Error::NoBinary { .. })));
}

#[test]
fn the_root_of_a_process_serves_as_a_root() {
    let root = PathBuf::from(format!("/proc/{}/root", std::process::id()));
    let places = Places { root: root.clone(), path_env: None, cwd: "/".into() };
    let libc = resolve::binary("libc", &places).unwrap();
    assert!(libc.starts_with(&root) && libc.is_file());
    assert_eq!(resolve::inside(&root, &libc), fs::canonicalize("/lib/x86_64-linux-gnu/libc.so.6").unwrap());
}

#[test]
fn a_process_knows_its_libraries_by_short_name() {
    let maps = maps::read(std::process::id()).unwrap();
    for name in ["libc", "libc.so.6"] {
        assert!(resolve::mapped(name, &maps).unwrap().path.ends_with("/libc.so.6"), "{name}");
    }
    assert!(resolve::mapped("libnotthere", &maps).is_none());
    let own = std::env::current_exe().unwrap();
    let name = own.file_name().unwrap().to_str().unwrap();
    assert_eq!(Path::new(&resolve::mapped(name, &maps).unwrap().path), own);
}
