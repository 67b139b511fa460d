//! Tests that take a seed from the environment, as cycles: their program is built once and run with seed after seed.
//!
//! - maps: a process that changes a map from several threads, interrupted by signals, is killed at a random moment; the
//!   map must be whole and usable. The seed decides the kind of map, the size of its values, the moment.
//! - attach: probes come and go under 64 threads that are in the probed functions all the time; the seed decides the
//!   moments.
//! - loads: a process loads and unloads a library whose functions, returns and static probes are traced; the seed decides in
//!   what order, and in how many threads.
//! - storms: a family of processes forks, starts threads and executes programs faster than they can be probed; the seed
//!   decides how many of what.
//! - differential: programs of four generators give one result in interpreters and machine code.
//! - emission: what random modules compile to does what an evaluator of the modules says.
//! - verdicts: random programs that weir's verifier and the kernel's judge, with a known reason where they differ.
//! - pcap: expressions of pcap-filter(7), written and random ones, keep the packets that libpcap keeps.
//! - stamps: times of packets that are captured in a DPDK application are CLOCK_REALTIME's, within a microsecond.
//! - filter: random filters on random events decide as a slow evaluator does.
//! - record: a million events of threads, signal handlers and forked children are recorded or counted, exactly.
//! - record-kill: the recorded program, or weir, is killed at moments by the seed; all that was committed is read.
//! - session-kill: the daemon of recording sessions is killed at moments by the seed; what it recorded is read, and the next one goes on.
//! - budget: a probe that costs half a CPU keeps to a budget of 1 %: it costs 1.5 % at most, measured beside a twin of the program,
//!   where the test, on a machine with other things to do, allows 7.5 %.
//! - claims: what the verifier claims of each instruction holds in runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;
use crate::soak::record::Counts;
use crate::workspace;

/// One test of a crate, and how it is told its seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Soaked {
    package: &'static str,
    /// What cargo builds: arguments, and the name of the target.
    target: (&'static [&'static str], &'static str),
    test: &'static str,
    variable: &'static str,
    /// Behind the seed.
    suffix: &'static str,
    limit: Duration,
}

pub(super) const MAPS: Soaked = Soaked {
    package: "weir-rt",
    target: (&["--lib"], "weir_rt"),
    test: "segment::tests::stress::a_kill_leaves_every_kind_usable",
    variable: "WEIR_SOAK_SEED",
    suffix: "",
    limit: Duration::from_secs(60),
};

/// A cycle is a process that is attached to 1,000 times.
pub(super) const ATTACH: Soaked = Soaked {
    package: "weir-probe",
    target: (&["--test", "integration"], "integration"),
    test: "hammer::probes_come_and_go_under_sixty_four_threads",
    variable: "WEIR_HAMMER",
    suffix: ":1000",
    limit: Duration::from_secs(900),
};

/// A cycle is a process that loads and unloads a probed library 1,000 times, alone and in threads.
pub(super) const LOADS: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "life::loads::what_comes_and_goes_at_random_is_counted_every_time",
    variable: "WEIR_LOADS",
    suffix: ":1000",
    limit: Duration::from_secs(900),
};

/// A cycle is 100 storms.
pub(super) const STORMS: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "life::storms::storms_of_any_size_and_kind_come_to_no_harm",
    variable: "WEIR_STORMS",
    suffix: ":100",
    limit: Duration::from_secs(1800),
};

/// A cycle is 1,000,000 events.
pub(super) const RECORD: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "recorded::exact::a_million_events_are_recorded_or_counted",
    variable: "WEIR_RECORDED",
    suffix: ":1000000",
    limit: Duration::from_secs(900),
};

/// A cycle is 20 kills.
pub(super) const RECORD_KILL: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "recorded::killed::whoever_is_killed_everything_committed_is_read",
    variable: "WEIR_KILLED",
    suffix: ":20",
    limit: Duration::from_secs(900),
};

/// A cycle is 20 kills.
pub(super) const SESSION_KILL: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "sessions::killed::a_daemon_killed_at_any_moment_leaves_whole_traces_and_whole_programs",
    variable: "WEIR_SESSION_KILLS",
    suffix: ":20",
    limit: Duration::from_secs(900),
};

/// A cycle is three stretches or more under a budget. What it allows is for an idle machine: one cycle at a time.
pub(super) const BUDGET: Soaked = Soaked {
    package: "weir",
    target: (&["--test", "integration"], "integration"),
    test: "budget::a_probe_that_costs_too_much_is_slowed_within_a_second",
    variable: "WEIR_BUDGET",
    suffix: "",
    limit: Duration::from_secs(300),
};

/// A cycle is 30,000 accepted programs of each generator.
pub(super) const DIFFERENTIAL: Soaked = Soaked {
    package: "weir-jit",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "generators::programs_of_four_generators_agree",
    variable: "WEIR_GENERATORS",
    suffix: ":30000",
    limit: Duration::from_secs(900),
};

/// A cycle is 2,000 modules.
pub(super) const EMISSION: Soaked = Soaked {
    package: "weir-codegen",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "execution::emitted_programs_do_what_the_ir_says",
    variable: "WEIR_EMISSION",
    suffix: ":2000",
    limit: Duration::from_secs(900),
};

/// A cycle is 20,000 programs.
pub(super) const CLAIMS: Soaked = Soaked {
    package: "weir-verifier",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "claims::runs_hold_what_is_claimed",
    variable: "WEIR_CLAIMS",
    suffix: ":20000",
    limit: Duration::from_secs(600),
};

/// A cycle is 20,000 programs of each of two generators.
pub(super) const VERDICTS: Soaked = Soaked {
    package: "weir-verifier",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "kernel::verdicts_differ_for_known_reasons_alone",
    variable: "WEIR_VERDICTS",
    suffix: ":20000",
    limit: Duration::from_secs(900),
};

/// A cycle is 2,000 expressions of each dialect on 50 events: 100,000 cases.
pub(super) const FILTER: Soaked = Soaked {
    package: "weir-filter",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "reference::both_dialects_decide_as_the_reference_does",
    variable: "WEIR_FILTER",
    suffix: ":2000",
    limit: Duration::from_secs(600),
};

/// A cycle is 1,600 random expressions on each of 70 link types, and the written ones on all of them.
pub(super) const PCAP: Soaked = Soaked {
    package: "weir-pcap-filter",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "libpcap::packets_are_kept_as_libpcap_keeps_them",
    variable: "WEIR_PCAP",
    suffix: ":40",
    limit: Duration::from_secs(600),
};

/// A cycle is a capture of 60 seconds.
pub(super) const STAMPS: Soaked = Soaked {
    package: "weir-dpdk",
    target: (&["--release", "--test", "integration"], "integration"),
    test: "stamps::a_packet_s_time_lies_between_its_burst_and_the_next",
    variable: "WEIR_STAMPS",
    suffix: ":60",
    limit: Duration::from_secs(300),
};

/// The program of a crate's tests.
pub(super) struct TestProgram {
    soaked: Soaked,
    program: PathBuf,
}

impl TestProgram {
    pub(super) fn build(soaked: Soaked) -> Result<TestProgram> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--quiet", "-p", soaked.package, "--no-run", "--message-format=json"]);
        let output = cargo.args(soaked.target.0).current_dir(workspace::root()).output();
        let output = output.context("cannot run cargo")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let built = String::from_utf8_lossy(&output.stdout);
        let program = program_in(&built, soaked.target.1);
        let program =
            program.with_context(|| format!("no program of {}'s tests in {built}", soaked.package))?;
        Ok(TestProgram { soaked, program })
    }

    /// What the test counted: a line `counts: NAME=NUMBER …` of its output.
    pub(super) fn cycle(&self, seed: u64) -> Result<Counts> {
        let Soaked { test, variable, suffix, limit, .. } = self.soaked;
        let mut command = Command::new(&self.program);
        command.args([test, "--exact", "--nocapture"]).env(variable, format!("{seed}{suffix}"));
        let output = process::output_within(&mut command, limit)?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains("1 passed"), "the test did not run: {said}");
        Ok(counts_in(&said))
    }
}

fn counts_in(said: &str) -> Counts {
    let lines = said.lines().filter_map(|line| line.split_once("counts: "));
    let pairs = lines.flat_map(|(_, counts)| counts.split(' ')).filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

/// The test program that cargo's messages name.
fn program_in(messages: &str, target: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == target);
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
        assert_eq!(program_in(messages, "weir_rt"), Some(PathBuf::from("/target/weir_rt-1")));
        assert_eq!(program_in("", "weir_rt"), None);
    }

    #[test]
    fn counts_are_on_a_line_of_the_output() {
        let said = "running 1 test\ntest it ... counts: a=12 b=0\n1 passed";
        assert_eq!(counts_in(said), Counts::from([("a".to_owned(), 12), ("b".to_owned(), 0)]));
        assert_eq!(counts_in("1 passed; a=1"), Counts::new());
    }
}
