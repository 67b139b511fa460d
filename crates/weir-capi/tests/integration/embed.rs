//! A C program that embeds the library: examples/embed.c, compiled against the header and the pkg-config files as a
//! user would, with exactly what pkg-config prints: with the shared library, with the archive, and without any shared
//! library. Run with both engines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{bpf, paths, skip};

/// Counts packets by IP protocol.
const PROGRAM: &str = r#"#include "bpf_helpers.h"
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 256); __type(key, u32); __type(value, u64); }
	protocols SEC(".maps");
struct xdp_md { u32 data, data_end; };
SEC("xdp") int count(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 34 > end || data[12] != 8 || data[13] != 0)
		return 1;
	u32 protocol = data[23];
	u64 *count = bpf_map_lookup_elem(&protocols, &protocol);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 2;
}
SEC("xdp") int beyond(struct xdp_md *ctx)
{
	return ((unsigned char *)(long)ctx->data)[0];
}
"#;

/// Of memory, for a program that opens a file without an end: the library and its 16 MB of the file take a third.
const MEMORY_KB: u32 = 256 << 10;

/// What a user writes: what stands before the source, what pkg-config is asked for, and whether the program needs
/// libweir_bpf.so.0 then.
struct Linking {
    name: &'static str,
    cc: &'static [&'static str],
    pkg_config: &'static [&'static str],
    needs_shared: bool,
}

const LINKINGS: [Linking; 4] = [
    Linking { name: "shared", cc: &[], pkg_config: &["weir-bpf"], needs_shared: true },
    Linking { name: "archive", cc: &[], pkg_config: &["weir-bpf-static"], needs_shared: false },
    Linking { name: "static", cc: &["-static"], pkg_config: &["weir-bpf-static"], needs_shared: false },
    Linking { name: "private", cc: &["-static"], pkg_config: &["--static", "weir-bpf"], needs_shared: false },
];

/// The library as it is installed, in target/capi/NAME.
struct Prefix(PathBuf);

impl Prefix {
    fn new(name: &str) -> Prefix {
        let crate_root = paths::root().join("crates/weir-capi");
        let prefix = paths::target().join("capi").join(name);
        let _ = fs::remove_dir_all(&prefix);
        for folder in ["lib/pkgconfig", "include/weir"] {
            fs::create_dir_all(prefix.join(folder)).unwrap();
        }
        // Cargo builds what a test depends on next to the test.
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        fs::copy(built.join("libweir_capi.so"), prefix.join("lib/libweir_bpf.so.0")).unwrap();
        fs::copy(built.join("libweir_capi.a"), prefix.join("lib/libweir_bpf.a")).unwrap();
        symlink("libweir_bpf.so.0", prefix.join("lib/libweir_bpf.so")).unwrap();
        fs::copy(crate_root.join("include/weir/bpf.h"), prefix.join("include/weir/bpf.h")).unwrap();
        for name in ["weir-bpf.pc", "weir-bpf-static.pc"] {
            let template = fs::read_to_string(crate_root.join(format!("{name}.in"))).unwrap();
            let text = template.replace("@PREFIX@", &prefix.display().to_string());
            fs::write(
                prefix.join("lib/pkgconfig").join(name),
                text.replace("@VERSION@", env!("CARGO_PKG_VERSION")),
            )
            .unwrap();
        }
        Prefix(prefix)
    }

    /// Compiles a C program with the flags of pkg-config; none, loudly, where that is not.
    fn compile(&self, source: &Path, linking: &Linking) -> Option<PathBuf> {
        let mut config = Command::new("pkg-config");
        config.env("PKG_CONFIG_PATH", self.0.join("lib/pkgconfig")).args(["--cflags", "--libs"]);
        let Ok(flags) = config.args(linking.pkg_config).output() else {
            skip::skip("pkg-config", "pkg-config is not installed");
            return None;
        };
        assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
        let program = self.0.join(linking.name);
        // As makefiles do: the shell takes what pkg-config quotes apart.
        let flags = String::from_utf8(flags.stdout).unwrap();
        let mut cc = Command::new("sh");
        cc.args(["-c", &format!("exec cc \"$@\" {}", flags.trim()), "cc"]);
        cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11", "-O2", "-o"]).arg(&program);
        cc.args(linking.cc).arg(source);
        let output = cc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(program)
    }

    fn run(&self, program: &Path, arguments: &[&str], interpreter: bool) -> (String, String, Option<i32>) {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("LD_LIBRARY_PATH", self.0.join("lib"));
        if interpreter {
            command.env("INTERPRETER", "1");
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code())
    }
}

/// Whether the program names the library among those that it needs.
fn needs_shared(program: &Path) -> bool {
    let dump = Command::new("readelf").args(["--dynamic", "--wide"]).arg(program).output().unwrap();
    String::from_utf8_lossy(&dump.stdout).contains("libweir_bpf.so.0")
}

/// Whether `cc -static` links the least of programs.
fn has_static_libc(prefix: &Prefix) -> bool {
    let source = prefix.0.join("least.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let output = Command::new("cc").args(["-static", "-o"]).arg(prefix.0.join("least")).arg(&source).output();
    output.is_ok_and(|output| output.status.success())
}

/// The programs, counting in a map of that kind.
fn object(prefix: &Prefix, kind: &str) -> Option<String> {
    let (source, object) = (prefix.0.join("count.c"), prefix.0.join("count.bpf.o"));
    fs::write(&source, PROGRAM.replace("BPF_MAP_TYPE_ARRAY", kind)).unwrap();
    bpf::compile(&source, &object).then(|| object.display().to_string())
}

#[test]
fn a_c_program_embeds_it_with_either_engine_and_however_it_is_linked() {
    let prefix = Prefix::new("embed");
    let source = paths::root().join("crates/weir-capi/examples/embed.c");
    let Some(object) = object(&prefix, "BPF_MAP_TYPE_ARRAY") else { return };
    for linking in LINKINGS {
        if linking.cc.contains(&"-static") && !has_static_libc(&prefix) {
            skip::skip("static-libc", "cc -static links no program here");
            continue;
        }
        let Some(program) = prefix.compile(&source, &linking) else { return };
        let name = linking.name;
        assert_eq!(needs_shared(&program), linking.needs_shared, "{name}");
        for interpreter in [false, true] {
            let (output, error, code) = prefix.run(&program, &[&object, "count", "protocols"], interpreter);
            assert_eq!((output.as_str(), error.as_str(), code), ("r0 = 2\n17: 3\n", "", Some(0)), "{name}");
        }
        let (output, error, code) = prefix.run(&program, &[&object, "beyond", "protocols"], false);
        assert_eq!((output.as_str(), code), ("", Some(1)));
        assert!(
            error.contains("beyond") && error.contains("unsafe") && error.contains("count.c:18"),
            "{error}"
        );
        let (_, error, code) = prefix.run(&program, &["/nonexistent", "count", "protocols"], false);
        assert_eq!(code, Some(1));
        assert!(error.contains("/nonexistent") && error.contains("No such file"), "{error}");
    }
}

/// The same by ctypes: examples/embed.py.
#[test]
fn a_python_program_embeds_it_with_either_engine() {
    let prefix = Prefix::new("python");
    if Command::new("python3").arg("--version").output().is_err() {
        return skip::skip("python3", "python3 is not installed");
    }
    let source = paths::root().join("crates/weir-capi/examples/embed.py");
    let source = source.to_str().unwrap();
    let Some(object) = object(&prefix, "BPF_MAP_TYPE_ARRAY") else { return };
    let python = Path::new("python3");
    for interpreter in [false, true] {
        let (output, error, code) = prefix.run(python, &[source, &object, "count", "protocols"], interpreter);
        assert_eq!((output.as_str(), error.as_str(), code), ("r0 = 2\n17: 3\n", "", Some(0)));
    }
    let (output, error, code) = prefix.run(python, &[source, &object, "beyond", "protocols"], false);
    assert_eq!((output.as_str(), code), ("", Some(1)));
    assert!(error.contains("beyond") && error.contains("unsafe") && error.contains("count.c:18"), "{error}");
}

/// Valgrind has no rseq, no vDSO and no `lsl`, from which runs learn their CPU elsewhere.
#[test]
fn memcheck_finds_nothing_in_runs_on_per_cpu_maps() {
    let prefix = Prefix::new("valgrind");
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip::skip("valgrind", "valgrind is not installed");
    }
    let source = paths::root().join("crates/weir-capi/examples/embed.c");
    let Some(object) = object(&prefix, "BPF_MAP_TYPE_PERCPU_ARRAY") else { return };
    let Some(program) = prefix.compile(&source, &LINKINGS[0]) else { return };
    let program = program.to_str().unwrap();
    for interpreter in [false, true] {
        let arguments = ["--quiet", "--error-exitcode=9", program, &object, "count", "protocols"];
        let (output, error, code) = prefix.run(Path::new("valgrind"), &arguments, interpreter);
        assert_eq!((output.as_str(), error.as_str(), code), ("r0 = 2\n17: 3\n", "", Some(0)));
    }
}

#[test]
fn a_file_without_an_end_is_an_error_in_bounded_memory() {
    let prefix = Prefix::new("endless");
    let source = paths::root().join("crates/weir-capi/examples/embed.c");
    let Some(program) = prefix.compile(&source, &LINKINGS[0]) else { return };
    let script = format!("ulimit -v {MEMORY_KB} && exec \"$0\" /dev/zero p m");
    let program = program.to_str().unwrap();
    let (output, error, code) = prefix.run(Path::new("sh"), &["-c", &script, program], false);
    assert_eq!((output.as_str(), code), ("", Some(1)), "{error}");
    assert!(error.contains("/dev/zero has more than"), "{error}");
}

#[test]
fn the_library_has_its_versioned_name_and_exports_its_functions_alone() {
    let prefix = Prefix::new("soname");
    let library = prefix.0.join("lib/libweir_bpf.so.0");
    let dump =
        Command::new("readelf").args(["--dynamic", "--dyn-syms", "--wide"]).arg(&library).output().unwrap();
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert!(dump.contains("Library soname: [libweir_bpf.so.0]"), "{dump}");
    let header = fs::read_to_string(paths::root().join("crates/weir-capi/include/weir/bpf.h")).unwrap();
    let defined = dump.lines().filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "));
    let mut exported: Vec<&str> = defined.filter_map(|line| line.split_whitespace().nth(7)).collect();
    exported.sort_unstable();
    assert!(exported.len() >= 19, "{exported:?}");
    for name in exported {
        assert!(header.contains(&format!("{name}(")), "{name} is exported, but not in the header");
    }
}
