//! maps: a process that changes a map from several threads, interrupted by signals, is killed at a random moment; the
//! map must be whole and usable. The seed decides the kind of map, the size of its values, the moment.
//!
//! A cycle is one run of the test `a_kill_leaves_every_kind_usable` of weir-rt with one seed; its program is built once.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(60);
const TEST: &str = "segment::tests::stress::a_kill_leaves_every_kind_usable";

/// The program of weir-rt's tests.
pub(super) struct Maps {
    program: PathBuf,
}

impl Maps {
    pub(super) fn build() -> Result<Maps> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--quiet", "-p", "weir-rt", "--lib", "--no-run", "--message-format=json"]);
        let output = cargo.current_dir(workspace::root()).output().context("cannot run cargo")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let built = String::from_utf8_lossy(&output.stdout);
        let program = program_in(&built);
        Ok(Maps { program: program.with_context(|| format!("no program of weir-rt's tests in {built}"))? })
    }

    pub(super) fn cycle(&self, seed: u64) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args([TEST, "--exact", "--nocapture"]).env("WEIR_SOAK_SEED", seed.to_string());
        let output = process::output_within(&mut command, LIMIT)?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains("1 passed"), "the test did not run: {said}");
        Ok(())
    }
}

/// The test program that cargo's messages name.
fn program_in(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == "weir_rt");
    programs.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_libraries_test() {
        let messages = "{\"target\":{\"name\":\"weir_ebpf\"},\"executable\":null}\n\
                        {\"target\":{\"name\":\"weir_rt\"},\"executable\":null}\nno json\n\
                        {\"target\":{\"name\":\"weir_rt\"},\"executable\":\"/target/weir_rt-1\"}";
        assert_eq!(program_in(messages), Some(PathBuf::from("/target/weir_rt-1")));
        assert_eq!(program_in(""), None);
    }
}
