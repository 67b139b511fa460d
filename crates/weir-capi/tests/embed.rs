//! A C program that embeds the library: examples/embed.c, compiled against the header and the pkg-config file as a user
//! would, linked with the shared library and with the archive, run with both engines.

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
        fs::copy(built.join("libweir_bpf.so"), prefix.join("lib/libweir_bpf.so.0")).unwrap();
        fs::copy(built.join("libweir_bpf.a"), prefix.join("lib/libweir_bpf.a")).unwrap();
        symlink("libweir_bpf.so.0", prefix.join("lib/libweir_bpf.so")).unwrap();
        fs::copy(crate_root.join("include/weir/bpf.h"), prefix.join("include/weir/bpf.h")).unwrap();
        let template = fs::read_to_string(crate_root.join("weir-bpf.pc.in")).unwrap();
        let text = template.replace("@PREFIX@", &prefix.display().to_string()).replace("@VERSION@", "0.1.0");
        fs::write(prefix.join("lib/pkgconfig/weir-bpf.pc"), text).unwrap();
        Prefix(prefix)
    }

    /// Compiles a C program with the flags of pkg-config; none, loudly, where that is not.
    fn compile(&self, source: &Path, name: &str, is_static: bool) -> Option<PathBuf> {
        let mut config = Command::new("pkg-config");
        config.env("PKG_CONFIG_PATH", self.0.join("lib/pkgconfig")).args(["--cflags", "--libs", "weir-bpf"]);
        config.args(is_static.then_some("--static"));
        let Ok(flags) = config.output() else {
            skip::skip("pkg-config", "pkg-config is not installed");
            return None;
        };
        assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
        let program = self.0.join(name);
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11", "-O2", "-o"])
            .arg(&program)
            .arg(source);
        for flag in String::from_utf8(flags.stdout).unwrap().split_whitespace() {
            // The archive instead of the shared library, which stands beside it.
            cc.arg(if is_static && flag == "-lweir_bpf" { "-l:libweir_bpf.a" } else { flag });
        }
        let output = cc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(program)
    }

    fn run(&self, program: &Path, arguments: &[&str], interpreter: bool) -> (String, String, Option<i32>) {
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", self.0.join("lib"));
        if interpreter {
            command.env("INTERPRETER", "1");
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code())
    }
}

fn object(prefix: &Prefix) -> Option<String> {
    let (source, object) = (prefix.0.join("count.c"), prefix.0.join("count.bpf.o"));
    fs::write(&source, PROGRAM).unwrap();
    bpf::compile(&source, &object).then(|| object.display().to_string())
}

#[test]
fn a_c_program_embeds_it_with_either_engine_and_either_library() {
    let prefix = Prefix::new("embed");
    let source = paths::root().join("crates/weir-capi/examples/embed.c");
    let Some(object) = object(&prefix) else { return };
    for (name, is_static) in [("shared", false), ("static", true)] {
        let Some(program) = prefix.compile(&source, name, is_static) else { return };
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
