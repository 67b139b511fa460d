//! Scripts that import others: what is found, in which order it runs, and where faults are reported.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::paths;

/// Runs the first of these files, in a folder of its own; names say in which folder below.
fn run(name: &str, files: &[(&str, &str)]) -> Output {
    let folder: PathBuf = paths::fresh("imports", name);
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q"])
        .arg(folder.join(files[0].0))
        .current_dir("/")
        .output()
        .unwrap()
}

#[track_caller]
fn prints(name: &str, files: &[(&str, &str)], wanted: &str) {
    let output = run(name, files);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), wanted.trim_end());
}

#[track_caller]
fn refuses(name: &str, files: &[(&str, &str)], wanted: &[&str]) {
    let output = run(name, files);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in wanted {
        assert!(said.contains(part), "{part} not in:\n{said}");
    }
}

#[test]
fn macros_maps_and_clauses_come_from_other_scripts() {
    prints(
        "all",
        &[
            (
                "main.bt",
                "import \"lib/tools.bt\";\nimport \"lib/types.h\";\nBEGIN { print(doubled(4)); print(sizeof(struct pair)); exit(); }\n",
            ),
            (
                "lib/tools.bt",
                "import \"more.bt\";\nmacro doubled(x) { times(x, 2) }\nlet @kept = hash(2);\n\
                 BEGIN { for ($i : 0..5) { @kept[$i] = 1; } print((\"tools\", len(@kept))); clear(@kept); }\n",
            ),
            (
                "lib/more.bt",
                "import \"tools.bt\";\nmacro times(x, n) { x * n }\nBEGIN { print(\"more\"); }\n",
            ),
            ("lib/types.h", "struct pair { int a; long b; };\n"),
        ],
        "more\n(tools, 2)\n8\n16\n",
    );
}

#[test]
fn faults_in_other_scripts_are_shown_where_they_are() {
    let main = "import \"lib.bt\";\nBEGIN { print(bad(1)); }\n";
    refuses(
        "faults",
        &[("main.bt", main), ("lib.bt", "// a comment\nmacro bad(x) { x + \"text\" }\n")],
        &["lib.bt:2:18: `+` cannot be used on int64 and string", "main.bt:1:8", "`bad` is called here"],
    );
    refuses(
        "syntax",
        &[("main.bt", main), ("lib.bt", "macro bad(x { x }\n")],
        &["lib.bt:1:13: expected `,` between the parameters, found `{`"],
    );
}

#[test]
fn what_cannot_be_imported_is_named() {
    let importing = |what: &str| format!("import \"{what}\";\nBEGIN {{ exit(); }}\n");
    refuses(
        "missing",
        &[("main.bt", &importing("no.bt"))],
        &["`no.bt` cannot be found", "main.bt:1:8", "-I"],
    );
    refuses("folder", &[("main.bt", &importing("lib")), ("lib/a.bt", "")], &["it is no file"]);
    refuses("program", &[("main.bt", &importing("a.bpf.c"))], &["not supported by weir yet", "a.bpf.c"]);
    let config = ("lib.bt", "config = { max_strlen = 64; }\nBEGIN { }\n");
    refuses(
        "config",
        &[("main.bt", &importing("lib.bt")), config],
        &["`config` block in an imported script"],
    );
    let text = ("lib.bt", "struct a { int b; };\nBEGIN { }\n");
    refuses("text", &[("main.bt", &importing("lib.bt")), text], &["C text in an imported script"]);
}
