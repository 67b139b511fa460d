//! xtask: the development commands, run as `cargo xtask NAME`.
//!
//! `demo` traces a real program, `test` runs everything, `bench` measures weir
//! beside its peers, `fuzz` feeds its readers with hostile bytes, `soak` repeats a cycle many times, `vmtest` boots another kernel, in
//! which `vmbench` counts instructions and `vmtools` runs bpftrace's tools. What a bench or a soak starts
//! ends with it, however that ends (`supervise`). Outside of its tests it uses of the
//! workspace's crates `testkit` alone.

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod dist;
mod fuzz;
mod kernels;
mod library;
mod logging;
mod lttng;
mod packages;
mod process;
mod soak;
mod supervise;
mod test;
mod vmbench;
mod vmtools;
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
    Test(test::Options),
    /// Measure weir beside its peers; writes target/bench/NAME.json and NAME.svg
    Bench(bench::Options),
    /// Install the C library libweir_bpf, its header and its pkg-config file
    InstallLibrary(library::Options),
    /// Make what a release consists of: a static weir, Debian packages, the source with its crates; below target/artifacts
    Dist(dist::Options),
    /// Feed every reader of hostile bytes with inputs made by libFuzzer
    Fuzz(fuzz::Options),
    /// Repeat a cycle many times; resumes after the last seed in docs/soak/NAME.json
    Soak(soak::Options),
    /// Run in a virtual machine what this machine's kernel lacks (as root, with apt)
    Vmtest(kernels::Options),
    /// Run bpftrace's tools by weir and by bpftrace on one workload in a virtual machine, and compare what they print (13 minutes)
    Vmtools(vmtools::Options),
    /// Count the instructions that a hit of a kernel probe takes in a virtual machine, beside bpftrace's; writes target/bench/kernel-vm.json
    Vmbench(vmbench::Options),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Args::parse().command {
        Command::Demo => demo::demo().map(done),
        Command::Test(options) => test::test(&options).map(done),
        Command::Bench(options) => supervise::supervised(|| bench::bench(&options), "bench"),
        Command::InstallLibrary(options) => library::install(&options).map(done),
        Command::Dist(options) => dist::dist(&options).map(done),
        Command::Fuzz(options) => fuzz::fuzz(&options).map(done),
        Command::Soak(options) => supervise::supervised(|| soak::soak(&options), "soak"),
        Command::Vmtest(options) => kernels::vmtest(&options).map(done),
        Command::Vmtools(options) => vmtools::vmtools(&options).map(done),
        Command::Vmbench(options) => vmbench::vmbench(&options).map(done),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
