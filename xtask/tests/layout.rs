//! The shape of the workspace: which crate may use which, and what every file must have.
//!
//! Reads the manifests through `cargo metadata` and the sources as text. Each test is one rule; a failure names
//! what breaks it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which crates of ours a crate may use, outside its tests. A crate that is not listed is development, and free.
const MAY_USE: [(&str, &[&str]); 39] = [
    ("weir-source", &[]),
    ("weir-ebpf", &[]),
    ("weir-cbpf", &["weir-ebpf"]),
    ("weir-pcapng", &[]),
    ("weir-capture", &["weir-cbpf", "weir-pcapng"]),
    ("weir-event", &[]),
    ("weir-ir", &["weir-source", "weir-event"]),
    ("weir-header", &["weir-source", "weir-ir", "weir-event"]),
    ("weir-syntax", &["weir-source", "weir-header"]),
    ("weir-script", &["weir-source", "weir-syntax", "weir-header", "weir-ir", "weir-event"]),
    ("weir-pcap-filter", &["weir-source", "weir-ebpf", "weir-cbpf"]),
    ("weir-pcap-names", &["weir-pcap-filter"]),
    ("weir-packet-ring", &[]),
    ("weir-dpdk-source", &["weir-packet-ring", "weir-rt"]),
    ("weir-dpdk", &["weir-packet-ring", "weir-ebpf", "weir-verifier", "weir-rt", "weir-jit"]),
    ("weir-filter", &["weir-source", "weir-ir", "weir-event"]),
    ("weir-codegen", &["weir-ir", "weir-ebpf", "weir-event"]),
    ("weir-verifier", &["weir-ebpf"]),
    ("weir-memory", &["weir-ebpf"]),
    ("weir-rt", &["weir-ebpf", "weir-event", "weir-memory"]),
    ("weir-interp", &["weir-ebpf", "weir-memory", "weir-verifier", "weir-rt"]),
    ("weir-jit", &["weir-ebpf", "weir-verifier", "weir-rt"]),
    ("weir-symbols", &["weir-event"]),
    ("weir-ust", &["weir-event"]),
    ("weir-plan", &["weir-symbols", "weir-event"]),
    ("weir-trampoline", &["weir-ebpf", "weir-plan", "weir-symbols", "weir-rt", "weir-event"]),
    ("weir-probe", &["weir-plan", "weir-trampoline", "weir-symbols", "weir-rt", "weir-event"]),
    ("weir-kernel", &["weir-ebpf", "weir-event"]),
    ("weir-trace", &["weir-event"]),
    ("weir-tracepoint", &[]),
    (
        "weir-policy",
        &[
            "weir-source",
            "weir-ebpf",
            "weir-verifier",
            "weir-rt",
            "weir-event",
            "weir-symbols",
            "weir-plan",
            "weir-trampoline",
            "weir-probe",
        ],
    ),
    ("weir-process", &["weir-symbols"]),
    (
        "weir-world",
        &[
            "weir-source",
            "weir-ebpf",
            "weir-event",
            "weir-ir",
            "weir-rt",
            "weir-symbols",
            "weir-probe",
            "weir-kernel",
            "weir-ust",
        ],
    ),
    ("weir-report", &["weir-event"]),
    (
        "weir-sessions",
        &[
            "weir-source",
            "weir-event",
            "weir-ir",
            "weir-filter",
            "weir-symbols",
            "weir-trace",
            "weir-process",
        ],
    ),
    ("weir-bpf", &["weir-ebpf", "weir-memory", "weir-verifier", "weir-rt", "weir-interp", "weir-jit"]),
    ("weir-capi", &["weir-bpf", "weir-pcap-filter", "weir-pcap-names", "weir-source"]),
    ("weir-run", BELOW_THE_PROGRAM),
    ("weir", BELOW_THE_PROGRAM),
];
/// Cargo refuses what would go round in a circle.
const BELOW_THE_PROGRAM: &[&str] = &[
    "weir-source",
    "weir-ebpf",
    "weir-cbpf",
    "weir-event",
    "weir-ir",
    "weir-syntax",
    "weir-header",
    "weir-script",
    "weir-filter",
    "weir-pcap-filter",
    "weir-pcap-names",
    "weir-pcapng",
    "weir-capture",
    "weir-packet-ring",
    "weir-dpdk-source",
    "weir-codegen",
    "weir-memory",
    "weir-verifier",
    "weir-rt",
    "weir-interp",
    "weir-jit",
    "weir-bpf",
    "weir-symbols",
    "weir-ust",
    "weir-plan",
    "weir-trampoline",
    "weir-probe",
    "weir-kernel",
    "weir-trace",
    "weir-policy",
    "weir-process",
    "weir-world",
    "weir-report",
    "weir-run",
    "weir-sessions",
];
const DEVELOPMENT: [&str; 4] = ["testkit", "vm-bench", "fuzz-targets", "xtask"];

/// Forbidden whatever the table above comes to say: the verifier does not trust our compiler, each engine is the
/// other's oracle, and the compiler is pure.
const NEVER: [(&str, &str); 9] = [
    ("weir-verifier", "weir-codegen"),
    ("weir-interp", "weir-jit"),
    ("weir-jit", "weir-interp"),
    ("weir-script", "weir-symbols"),
    ("weir-script", "weir-probe"),
    ("weir-script", "weir-kernel"),
    ("weir-ir", "weir-symbols"),
    ("weir-codegen", "weir-probe"),
    ("weir-trace", "weir-probe"),
];

/// Crates in which `unsafe` may be written.
const MAY_BE_UNSAFE: [&str; 14] = [
    "weir-capture",
    "weir-interp",
    "weir-rt",
    "weir-jit",
    "weir-trampoline",
    "weir-probe",
    "weir-kernel",
    "weir-bpf",
    "weir-capi",
    "weir-tracepoint",
    "weir-packet-ring",
    "weir-dpdk",
    "testkit",
    "vm-bench",
];

/// A part of a crate, and what it uses of that beside itself.
type Part = (&'static str, &'static [&'static str]);

/// Parts of crates, in the order of the data.
const PARTS: [(&str, &[Part]); 2] = [
    ("weir-probe", &[("process", &["limits", "refusal"]), ("attach", &["limits", "refusal", "process"])]),
    (
        "weir-jit",
        &[
            ("front", &["limits", "JitError"]),
            ("passes", &["limits", "front"]),
            ("isa", &["limits", "JitError", "front", "passes"]),
        ],
    ),
];

/// A dependency that one crate names.
struct Edge {
    from: String,
    to: String,
    /// Of its tests alone.
    in_tests: bool,
    /// A crate of ours.
    ours: bool,
}

#[test]
fn crates_use_only_what_their_row_allows() {
    let table = BTreeMap::from(MAY_USE);
    let wrong: Vec<String> = edges()
        .into_iter()
        .filter(|edge| edge.ours && !edge.in_tests && edge.to != edge.from)
        .filter(|edge| table.get(edge.from.as_str()).is_some_and(|may| !may.contains(&edge.to.as_str())))
        .map(|edge| format!("{} uses {}", edge.from, edge.to))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_crate_has_a_row() {
    let known: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).chain(DEVELOPMENT).collect();
    let found: BTreeSet<String> = packages().into_iter().map(|package| package.0).collect();
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

/// One that is larger does several things, and is compiled slowly.
#[test]
fn no_crate_has_more_than_15_000_lines_without_tests() {
    let mut large = Vec::new();
    for (name, folder) in packages() {
        let source = folder.join("src");
        let shipped = rust_files(&source).into_iter().filter(|file| !is_of_tests(file, &source));
        let lines = |file: PathBuf| without_tests(&fs::read_to_string(file).unwrap()).lines().count();
        let lines: usize = shipped.map(lines).sum();
        if lines > 15_000 {
            large.push(format!("{name}: {lines}"));
        }
    }
    assert_eq!(large, Vec::<String>::new());
}

#[test]
fn forbidden_edges_are_absent() {
    for edge in edges().into_iter().filter(|edge| !edge.in_tests) {
        assert!(!NEVER.contains(&(edge.from.as_str(), edge.to.as_str())), "{} uses {}", edge.from, edge.to);
    }
}

#[test]
fn report_replays_without_a_live_process() {
    for file in rust_files(&root().join("crates/weir-report/src")) {
        let text = fs::read_to_string(&file).unwrap();
        for name in ["weir_probe", "weir_symbols", "weir_run", "std::process"] {
            assert!(!text.contains(name), "{} names {name}", file.display());
        }
    }
}

/// They panic where nobody reads any more, and what was to be told after that is lost.
#[test]
fn std_s_printing_macros_are_used_by_no_shipped_crate() {
    let mut wrong = Vec::new();
    for (name, folder) in packages().into_iter().filter(|(name, _)| !DEVELOPMENT.contains(&name.as_str())) {
        let is_test = |file: &Path| file.file_stem().is_some_and(|stem| stem == "tests");
        for file in rust_files(&folder.join("src")).into_iter().filter(|file| !is_test(file)) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.lines().filter_map(|line| line.split("//").next());
            let prints = |line: &&str| ["print!(", "println!("].iter().any(|name| line.contains(name));
            wrong.extend(
                code.filter(prints).map(|line| format!("{name}, {}: {}", file.display(), line.trim())),
            );
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "crates/weir/src/print.rs has what to use instead");
}

/// What one of these does is the program's to decide: it may have handlers, and a terminal, of its own.
#[test]
fn libraries_write_to_no_terminal_and_leave_the_process_as_it_is() {
    const THE_PROGRAM_S: [&str; 10] = [
        "io::stdout",
        "io::stderr",
        "SignalFd",
        "signalfd::",
        "signalfd(",
        "libc::sigaction",
        "signal::sigaction",
        "process::exit",
        "set_current_dir",
        "set_var(",
    ];
    let is_library = |name: &str| name != "weir" && !DEVELOPMENT.contains(&name);
    let mut wrong = Vec::new();
    for (_, folder) in packages().into_iter().filter(|(name, _)| is_library(name)) {
        let source = folder.join("src");
        for file in rust_files(&source).into_iter().filter(|file| !is_of_tests(file, &source)) {
            let text = fs::read_to_string(&file).unwrap();
            let code = without_tests(&text).lines().filter_map(|line| line.split("//").next());
            let names = |line: &&str| THE_PROGRAM_S.iter().any(|name| line.contains(name));
            wrong.extend(code.filter(names).map(|line| format!("{}: {}", file.display(), line.trim())));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn data_goes_one_way_through_the_parts_of_a_crate() {
    for (name, parts) in PARTS {
        let source = root().join("crates").join(name).join("src");
        for (part, may_use) in parts {
            let files = rust_files(&source.join(part));
            assert!(!files.is_empty(), "{name} has no {part}");
            for file in files.into_iter().chain([source.join(part).with_extension("rs")]) {
                let text = fs::read_to_string(&file).unwrap();
                // What comments name is no use of it.
                let code = text.lines().filter_map(|line| line.split("//").next());
                for name in code.flat_map(|line| line.split("crate::").skip(1)) {
                    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                    let name = name.unwrap_or_default();
                    assert!(
                        name == *part || may_use.contains(&name),
                        "{} uses crate::{name}",
                        file.display()
                    );
                }
            }
        }
    }
}

/// docs/decisions/0079-machines.md: a port adds folders beside `x86_64`.
#[test]
fn only_isa_folders_know_the_registers_and_instructions_of_a_machine() {
    // r0 to r10 are eBPF's too.
    const REGISTERS: &str = "rax rbx rcx rdx rsi rdi rbp rsp rip eax ebx ecx edx esi edi ebp esp r8d r9d r11 r12 r13 r14 \
        r15 xmm0 ymm0 zmm0 eflags mxcsr xcr0 gs_base fs_base";
    const INSTRUCTIONS: [&str; 6] = ["isa::x86_64", "iced_x86", "asm!(", "__asm__", "_mm_", "arch::x86"];
    // Directives that make an object, and no instruction.
    const DIRECTIVES: &str = "c/island.c";
    let registers: BTreeSet<&str> = REGISTERS.split_whitespace().collect();
    let is_code =
        |file: &Path| ["rs", "c", "h"].iter().any(|kind| file.extension().is_some_and(|is| is == *kind));
    let is_of_a_machine = |file: &Path| file.components().any(|part| part.as_os_str() == "isa");
    let names_one = |line: &str| {
        // The protocol of that name is none.
        let line = line.replace("\"esp\"", "");
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| registers.contains(word)) || INSTRUCTIONS.iter().any(|name| code.contains(name))
    };
    let mut wrong = Vec::new();
    for (_, folder) in packages().into_iter().filter(|(name, _)| !DEVELOPMENT.contains(&name.as_str())) {
        for source in [folder.join("src"), folder.join("c")].into_iter().filter(|source| source.exists()) {
            let shipped =
                files(&source).into_iter().filter(|file| !is_of_tests(file, &source) && is_code(file));
            for file in shipped.filter(|file| !is_of_a_machine(file) && !file.ends_with(DIRECTIVES)) {
                let text = fs::read_to_string(&file).unwrap();
                let code = without_tests(&text).lines().filter(|line| !is_comment(line));
                wrong.extend(
                    code.filter(|line| names_one(line))
                        .map(|line| format!("{}: {}", file.display(), line.trim())),
                );
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "it belongs in isa/x86_64, and is named through isa::native");
}

#[test]
fn every_dependency_has_its_reason() {
    let reasons = fs::read_to_string(root().join("docs/decisions/0002-dependencies.md")).unwrap();
    let given: BTreeSet<&str> = reasons
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once('`'))
        .filter(|(_, reason)| reason.len() > 20)
        .map(|(name, _)| name)
        .collect();
    let used: BTreeSet<String> = edges().into_iter().filter(|edge| !edge.ours).map(|edge| edge.to).collect();
    let without: Vec<&String> = used.iter().filter(|name| !given.contains(name.as_str())).collect();
    assert_eq!(without, Vec::<&String>::new(), "no line in docs/decisions/0002-dependencies.md");
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for name in external_names(&workspace) {
        assert!(
            given.contains(name),
            "{name} of Cargo.toml has no line in docs/decisions/0002-dependencies.md"
        );
    }
}

#[test]
fn every_file_opens_with_its_contract() {
    let without: Vec<PathBuf> = all_rust_files()
        .into_iter()
        .filter(|file| !fs::read_to_string(file).unwrap().starts_with("//!"))
        .collect();
    assert_eq!(without, Vec::<PathBuf>::new());
}

#[test]
fn unsafe_is_written_only_where_it_may_be() {
    let mut wrong = Vec::new();
    for (name, folder) in packages() {
        if MAY_BE_UNSAFE.contains(&name.as_str()) {
            continue;
        }
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        for file in roots.iter().filter(|file| file.exists()) {
            if !fs::read_to_string(file).unwrap().contains("#![forbid(unsafe_code)]") {
                wrong.push(format!("{} does not forbid it", file.display()));
            }
        }
        for file in rust_files(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            let lines = text.lines().filter(|line| has_unsafe_code(line));
            wrong.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn nothing_that_a_compiler_makes_is_kept() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let is_program =
        |name: &&str| fs::read(root().join(name)).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let programs: Vec<&str> = names.split('\0').filter(is_program).collect();
    assert_eq!(programs, Vec::<&str>::new(), "a test builds what it runs");
}

#[test]
fn every_page_is_in_the_index_of_its_folder() {
    for folder in ["docs", "docs/decisions"] {
        let index = fs::read_to_string(root().join(folder).join("README.md")).unwrap();
        for entry in fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            let link =
                if entry.path().is_dir() { format!("({name}/README.md)") } else { format!("({name})") };
            assert!(name == "README.md" || index.contains(&link), "{folder}/README.md has no link {link}");
        }
    }
}

#[test]
fn no_module_is_a_drawer() {
    for file in all_rust_files() {
        let parts = file.strip_prefix(root()).unwrap().with_extension("");
        for part in parts.iter().filter_map(|part| part.to_str()) {
            assert!(!["utils", "util", "helpers", "common", "misc"].contains(&part), "{}", file.display());
        }
    }
}

/// A test waits for what it needs to have happened. Where one sleeps all the same (between two looks, to pace a load, for a random
/// moment), a comment on that line or right above says why its verdict does not depend on it.
#[test]
fn a_test_that_sleeps_says_why_its_verdict_does_not_depend_on_it() {
    let mut wrong = Vec::new();
    for (file, text) in texts_of_tests() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| sleeps(line)) {
            let above = lines[..index].iter().rev().take_while(|line| is_comment(line));
            let mut said = above.chain([line]);
            if !said.any(|line| line.contains("verdict")) {
                wrong.push(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("/*") || line.starts_with("* ")
}

/// A call of `sleep`, `usleep`, `nanosleep` and the like, in Rust or in C.
fn sleeps(line: &str) -> bool {
    let code = if is_comment(line) { "" } else { line };
    code.contains("sleep(") && !code.contains("fn ")
}

/// What tests consist of: their files, the test modules of sources, the programs that they trace. This file is not among them.
fn texts_of_tests() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    for (_, folder) in packages() {
        for file in rust_files(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            let is_test = file.components().any(|part| part.as_os_str() == "tests")
                || file.ends_with("tests.rs")
                || file.starts_with(root().join("crates/testkit"));
            match text.find("#[cfg(test)]\nmod tests {") {
                _ if file.ends_with("layout.rs") => {}
                _ if is_test => texts.push((file, text)),
                Some(begin) => texts.push((file, text[begin..].to_owned())),
                None => {}
            }
        }
    }
    for entry in fs::read_dir(root().join("tests/programs")).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        texts.push((file, text));
    }
    texts
}

/// The keyword in code, not in a comment, a string or another word.
fn has_unsafe_code(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait"].iter().any(|keyword| {
        code.find(keyword).is_some_and(|at| {
            let before = &code[..at];
            !before.contains('"') && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}

/// Keys of `[workspace.dependencies]` that are no path.
fn external_names(manifest: &str) -> Vec<&str> {
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let table = table.split("\n[").next().unwrap_or_default();
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.contains("path ="));
    lines.filter_map(|line| Some(line.split_once('=')?.0.trim())).collect()
}

/// A file of tests alone, below `source`.
fn is_of_tests(file: &Path, source: &Path) -> bool {
    let inside = file.strip_prefix(source).expect("a file of this folder");
    inside.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

/// What stands before a file's module of tests.
fn without_tests(text: &str) -> &str {
    let is_tests = |at: usize| text[at..].lines().nth(1).is_some_and(|line| line.contains("mod tests"));
    let tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(|at| is_tests(*at));
    &text[..tests.unwrap_or(text.len())]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(root());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Name and folder of each crate of the workspace.
fn packages() -> Vec<(String, PathBuf)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            (package["name"].as_str().unwrap().to_string(), manifest.parent().unwrap().to_path_buf())
        })
        .collect()
}

fn edges() -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata()["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            edges.push(Edge {
                from: package["name"].as_str().unwrap().to_string(),
                to: dependency["name"].as_str().unwrap().to_string(),
                in_tests: dependency["kind"] == "dev",
                ours: dependency["path"].is_string(),
            });
        }
    }
    edges
}

fn all_rust_files() -> Vec<PathBuf> {
    packages().into_iter().flat_map(|(_, folder)| rust_files(&folder)).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let is_rust = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    files(folder).into_iter().filter(is_rust).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
