//! xtask: the development commands, run as `cargo xtask NAME`.
//!
//! `demo` traces a real program, `test` runs everything, `ci` is `test` with its time limit, `bench` measures weir
//! beside its peers, `fuzz` feeds its readers with hostile bytes, `soak` repeats a cycle many times. Uses no crate of
//! the workspace, so that it builds and reports even while one of them does not.

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod fuzz;
mod library;
mod packages;
mod process;
mod skips;
mod soak;
mod stream;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Build weir, trace a real program with it, and show what it found
    Demo,
    /// Install what the tests need (as root, with apt), then run everything
    Test {
        /// Neither network nor root: installs nothing, and says what it left out
        #[arg(long)]
        offline: bool,
    },
    /// What .ci/run runs: `test`, and a failure if it takes over 25 minutes
    Ci,
    /// Measure weir beside its peers; writes target/bench/NAME.json and NAME.svg
    Bench(bench::Options),
    /// Install the C library libweir_bpf, its header and its pkg-config file
    InstallLibrary(library::Options),
    /// Feed every reader of hostile bytes with inputs made by libFuzzer
    Fuzz(fuzz::Options),
    /// Repeat a cycle many times; resumes after the last seed in docs/soak/NAME.json
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Demo => demo::demo(),
        Command::Test { offline } => test::test(offline, None),
        Command::Ci => test::test(false, Some(test::CI_LIMIT)),
        Command::Bench(options) => bench::bench(&options),
        Command::InstallLibrary(options) => library::install(&options),
        Command::Fuzz(options) => fuzz::fuzz(&options),
        Command::Soak(options) => soak::soak(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
