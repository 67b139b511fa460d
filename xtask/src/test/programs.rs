//! programs: the test programs of the workspace as cargo builds them, and the tests in each.
//!
//! In: what cargo says of a build, one JSON object a line. Out: each program with the folder that cargo would run it in, the names of
//! its tests, and what compiler and clippy warn of.
//!
//! The compiler is clippy's, which looks at the code that it compiles: a check of its own would read and check all of it once more, for
//! a sixth of what building the tests takes (weir-verifier, weir-script and weir-codegen: 187 s of CPU time with either compiler, and
//! 32 s for the check; the programs take the same time).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{find_program, output_within, shown};

/// Listing the tests of a program takes milliseconds; more on a loaded machine.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// Whether there are line numbers.
const DEBUG: &str = "CARGO_PROFILE_DEV_DEBUG";

/// Clippy's compiler.
const CLIPPY: &str = "clippy-driver";

/// A test program that is built.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TestProgram {
    /// `weir-rt` for the unit tests of a library, `weir::bin/weir` for those of a program, `weir-rt::integration`.
    pub(super) name: String,
    /// Its crate's, where it runs.
    folder: PathBuf,
    file: PathBuf,
}

/// One test of a program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Test {
    /// The program's name and its own: `weir-rt::integration lease::controller`.
    pub(super) name: String,
    program: TestProgram,
    own_name: String,
}

/// What a build came to.
#[derive(Default, Debug)]
pub(super) struct Built {
    pub(super) programs: Vec<TestProgram>,
    /// Each once, as the compiler shows it.
    pub(super) warnings: BTreeSet<String>,
}

/// Clippy as the compiler of the workspace's crates, if it is installed.
pub(super) fn clippy() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO")).with_file_name(CLIPPY);
    if beside.is_file() { Some(beside) } else { find_program(CLIPPY) }
}

/// What cargo needs to compile with clippy; the same for all that is to share what is compiled. Without line numbers of machine code, if
/// nobody asks for them: they are an eighth of what compiling costs (of five crates with their tests 310 s of CPU time, and 353 s with them).
pub(super) fn with_clippy(cargo: &mut Command) -> &mut Command {
    if std::env::var_os(DEBUG).is_none() {
        cargo.env(DEBUG, "0");
    }
    if let Some(clippy) = clippy() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", "");
    }
    cargo
}

/// Builds the programs of all crates or of one. An error is what cargo has shown already.
pub(super) fn build(mut cargo: Command, only: Option<&str>) -> Result<Built> {
    with_clippy(&mut cargo).args(["test", "--no-run", "--message-format", "json"]);
    match only {
        Some(package) => cargo.args(["--package", package]),
        None => cargo.arg("--workspace"),
    };
    eprintln!("+ {}", shown(&cargo));
    let mut child =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut built = Built::default();
    for line in BufReader::new(child.stdout.take().context("the output of cargo")?).lines() {
        let line = line?;
        built.take(&line).with_context(|| format!("cargo said {line}"))?;
    }
    ensure!(child.wait()?.success(), "the test programs are not built");
    ensure!(!built.programs.is_empty(), "cargo has named no test program");
    built.programs.sort();
    Ok(built)
}

impl Built {
    /// Takes one line of what cargo says.
    fn take(&mut self, line: &str) -> Result<()> {
        if !line.starts_with('{') {
            return Ok(());
        }
        let message: Value = serde_json::from_str(line)?;
        if let Some(shown) = message["message"]["rendered"].as_str() {
            self.take_diagnostic(&message["message"], shown);
        }
        if let Some(file) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true) {
            self.programs.push(program(&message, file)?);
        }
        Ok(())
    }

    /// Shows it. A crate and its tests have the same warnings; that there are some has no place in the code.
    fn take_diagnostic(&mut self, diagnostic: &Value, shown: &str) {
        let has_place = diagnostic["spans"].as_array().is_some_and(|spans| !spans.is_empty());
        let is_new = match diagnostic["level"].as_str() {
            Some("warning") => has_place && self.warnings.insert(shown.to_owned()),
            _ => true,
        };
        if is_new {
            eprint!("{shown}");
        }
    }
}

fn program(message: &Value, file: &str) -> Result<TestProgram> {
    let target = &message["target"];
    let (Some(manifest), Some(name), Some(kind)) =
        (message["manifest_path"].as_str(), target["name"].as_str(), target["kind"][0].as_str())
    else {
        bail!("no manifest, name or kind");
    };
    let folder = Path::new(manifest).parent().context("no folder")?;
    let package = folder.file_name().context("a crate in no folder")?.to_string_lossy();
    let name = match kind {
        "test" => format!("{package}::{name}"),
        "bin" | "example" => format!("{package}::{kind}/{name}"),
        _ => package.into_owned(),
    };
    Ok(TestProgram { name, folder: folder.to_owned(), file: file.into() })
}

impl TestProgram {
    pub(super) fn tests(&self) -> Result<Vec<Test>> {
        let output = output_within(self.command().args(["--list", "--format", "terse"]), LIST_LIMIT)?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(|name| self.test(name)).collect())
    }

    fn test(&self, own_name: &str) -> Test {
        let name = format!("{} {own_name}", self.name);
        Test { name, program: self.clone(), own_name: own_name.to_owned() }
    }

    /// As cargo runs it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

impl Test {
    /// Runs this test alone.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program.command();
        command.args(["--exact", &self.own_name, "--nocapture"]);
        command
    }

    pub(super) fn program(&self) -> &str {
        &self.program.name
    }
}

#[cfg(test)]
pub(super) fn example(program: &str, name: &str, file: &str) -> Test {
    TestProgram { name: program.into(), folder: "/".into(), file: file.into() }.test(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(said: &[String]) -> Result<Built> {
        let mut built = Built::default();
        said.iter().try_for_each(|line| built.take(line))?;
        built.programs.sort();
        Ok(built)
    }

    fn message(folder: &str, kind: &str, name: &str, is_test: bool) -> String {
        let executable =
            if is_test { format!("\"/w/target/debug/deps/{name}-0f1e\"") } else { "null".into() };
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn test_programs_are_told_from_all_else_and_named_after_their_crate() {
        let said = [
            message("weir", "test", "integration", true),
            message("weir", "bin", "weir", true),
            message("testkit", "lib", "testkit", false),
            message("testkit", "lib", "testkit", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = built(&said).unwrap().programs;
        let names: Vec<_> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["testkit", "weir::bin/weir", "weir::integration"]);
        let test = programs[2].test("life::go");
        assert_eq!(test.name, "weir::integration life::go");
        let command = test.command();
        assert_eq!(command.get_current_dir(), Some(Path::new("/w/crates/weir")));
        assert_eq!(shown(&command), "/w/target/debug/deps/integration-0f1e --exact life::go --nocapture");
    }

    #[test]
    fn what_is_no_message_of_cargo_is_an_error() {
        let is_error = |said: &str| built(&[said.to_owned()]).is_err();
        assert!(is_error("{torn"));
        assert!(is_error(r#"{"profile":{"test":true},"executable":"/w/x"}"#));
        assert!(!is_error("what a build script prints"));
    }

    #[test]
    fn warnings_are_taken_once_and_those_that_count_others_are_not() {
        let said = |level, spans, text: &str| {
            let message = format!(r#""level":"{level}","spans":[{spans}],"rendered":"{text}\n""#);
            format!(r#"{{"reason":"compiler-message","message":{{{message}}}}}"#)
        };
        let place = r#"{"file_name":"src/lib.rs"}"#;
        let warning = said("warning", place, "warning: unused variable");
        let count = said("warning", "", "warning: 1 warning emitted");
        let built = built(&[warning.clone(), warning, count, said("error", place, "error: no")]).unwrap();
        assert_eq!(built.warnings.into_iter().collect::<Vec<_>>(), ["warning: unused variable\n"]);
    }

    #[test]
    fn this_program_lists_this_test() {
        let file = std::env::current_exe().unwrap();
        let program = TestProgram { name: "xtask::bin/xtask".into(), folder: "/".into(), file };
        let tests = program.tests().unwrap();
        let own = "xtask::bin/xtask test::programs::tests::this_program_lists_this_test";
        assert!(tests.iter().any(|test| test.name == own), "{tests:?}");
    }
}
