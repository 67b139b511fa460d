//! programs: the test programs of the workspace, as cargo builds them.
//!
//! In: what cargo says of a build, one JSON object a line. Out: each program with the folder that cargo would run it in, sorted by
//! crate and, in a crate, units before integration tests.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::shown;
use crate::stream::Ends;
use crate::tasks::Task;
use crate::workspace;

/// Programs that measure what others on the machine would change, by crate and name: nothing else runs beside them.
const ALONE: [(&str, &str); 1] = [("weir", "budget")];

/// A test program that is built.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TestProgram {
    /// Its crate's.
    folder: PathBuf,
    is_integration: bool,
    pub(crate) name: String,
    /// The file with its first line, in the crate.
    source: PathBuf,
    file: PathBuf,
}

/// Builds all; an error is what cargo has shown already.
pub(crate) fn build(mut cargo: Command) -> Result<Vec<TestProgram>> {
    cargo.args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    eprintln!("+ {}", shown(&cargo));
    let mut child =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut said = String::new();
    child.stdout.take().context("the output of cargo")?.read_to_string(&mut said)?;
    ensure!(child.wait()?.success(), "the test programs are not built");
    let programs = built(&said)?;
    ensure!(!programs.is_empty(), "cargo has named no test program");
    Ok(programs)
}

fn built(said: &str) -> Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).with_context(|| format!("cargo said {line}"))?;
        let Some(file) = message["executable"].as_str() else { continue };
        if message["profile"]["test"] == true {
            programs.push(program(&message, file).with_context(|| format!("cargo said {line}"))?);
        }
    }
    programs.sort();
    Ok(programs)
}

fn program(message: &Value, file: &str) -> Result<TestProgram> {
    let target = &message["target"];
    let (Some(manifest), Some(name), Some(source)) =
        (message["manifest_path"].as_str(), target["name"].as_str(), target["src_path"].as_str())
    else {
        bail!("no manifest, name or source");
    };
    let folder = Path::new(manifest).parent().context("no folder")?;
    Ok(TestProgram {
        folder: folder.to_owned(),
        is_integration: target["kind"][0] == "test",
        name: name.replace('-', "_"),
        source: Path::new(source).strip_prefix(folder)?.to_owned(),
        file: file.into(),
    })
}

impl TestProgram {
    pub(crate) fn is_alone(&self) -> bool {
        let is = |(of, name): &(&str, &str)| {
            self.folder.ends_with(of) && self.is_integration && self.name == *name
        };
        ALONE.iter().any(is)
    }

    /// As cargo runs it, under the line with which cargo announces it.
    pub(crate) fn task(&self) -> Task {
        let units = if self.is_integration { "" } else { "unittests " };
        let root = workspace::root();
        let file = self.file.strip_prefix(&root).unwrap_or(&self.file);
        let heading = format!("     Running {units}{} ({})", self.source.display(), file.display());
        let mut command = Command::new(&self.file);
        command.arg("--show-output").current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        Task { name: self.name.clone(), heading, command, ends: Ends::Command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(folder: &str, kind: &str, name: &str, is_test: bool) -> String {
        let source = if kind == "test" { format!("tests/{name}.rs") } else { "src/lib.rs".to_owned() };
        let executable =
            if is_test { format!("\"/w/target/debug/deps/{name}-0f1e\"") } else { "null".into() };
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}","src_path":"/w/crates/{folder}/{source}"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn test_programs_are_told_from_all_else_and_sorted() {
        let said = [
            message("weir", "test", "budget", true),
            message("weir", "bin", "weir", true),
            message("testkit", "lib", "testkit", false),
            message("testkit", "lib", "testkit", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = built(&said.join("\n")).unwrap();
        let names: Vec<_> =
            programs.iter().map(|program| (program.name.as_str(), program.is_alone())).collect();
        assert_eq!(names, [("testkit", false), ("weir", false), ("budget", true)]);
        let budget = programs[2].task();
        assert_eq!(budget.command.get_current_dir(), Some(Path::new("/w/crates/weir")));
        assert_eq!(budget.heading, "     Running tests/budget.rs (/w/target/debug/deps/budget-0f1e)");
        assert!(programs[0].task().heading.starts_with("     Running unittests src/lib.rs ("));
    }

    #[test]
    fn what_is_no_message_of_cargo_is_an_error() {
        assert!(built("{torn").is_err());
        assert!(built(r#"{"profile":{"test":true},"executable":"/w/x"}"#).is_err());
    }

    #[test]
    fn programs_that_run_alone_are_there() {
        for (package, name) in ALONE {
            let tests = workspace::root().join("crates").join(package).join("tests");
            let files = [tests.join(format!("{name}.rs")), tests.join(name).join("main.rs")];
            assert!(files.iter().any(|file| file.exists()), "{package} has no test program {name}");
        }
    }
}
