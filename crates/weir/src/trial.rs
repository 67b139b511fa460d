//! `weir trace --test` and `--bench`: a script's tests and benchmarks, with bpftrace's words.
//!
//! In: a [`Run`] of which nothing is attached. Out: a line for each as it ends, in JSON an object; what a test printed is shown where it failed. The exit code is
//! 1 where one failed.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use weir_report::quoted;
use weir_run::{Asked, Benched, Run, Tested};

use crate::args::Format;
use crate::failure::Failure;

/// The least width of a benchmark's name.
const NAME_WIDTH: usize = 40;

/// `out`: where all of it goes. `is_coloured`: marks have colours.
pub(crate) fn test(
    run: Run,
    format: Format,
    out: &mut dyn Write,
    is_coloured: bool,
) -> Result<ExitCode, Failure> {
    let mark = |colour: u8, text: &str| match is_coloured {
        true => format!("\x1b[{colour}m[{text}]\x1b[0m"),
        false => format!("[{text}]"),
    };
    let (good, bad) = (|text: &str| mark(32, text), |text: &str| mark(31, text));
    let mut trial = run.trial(Asked::Test)?;
    let names: Vec<String> = trial.names().map(str::to_owned).collect();
    let is_text = format == Format::Text;
    if is_text && !names.is_empty() {
        put(out, &format!("{} Running {} tests.\n", good("=========="), names.len()))?;
    }
    let mut failed = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if is_text {
            put(out, &format!("{} {name}\n", good(" RUN      ")))?;
        }
        let tested = trial.test(index)?;
        if !is_text {
            put(out, &result("test_result", name, &object(&tested)))?;
        } else {
            let took = text_of(tested.took);
            let line = match tested.passed {
                true => format!("{} {name} ({took})\n", good("       OK ")),
                false => format!("{} {name} ({took})\n", bad("  FAILED  ")),
            };
            let printed = if tested.passed { &[][..] } else { &tested.output };
            put(out, &String::from_utf8_lossy(printed))?;
            put(out, &line)?;
        }
        if !tested.passed {
            failed.push(name);
        }
    }
    if is_text && !names.is_empty() {
        put(out, &format!("{} {} ran.\n", good("=========="), count(names.len())))?;
        put(out, &format!("{} {}.\n", good("  PASSED  "), count(names.len() - failed.len())))?;
        if !failed.is_empty() {
            put(out, &format!("{} {}, listed below:\n", bad("  FAILED  "), count(failed.len())))?;
        }
        for name in &failed {
            put(out, &format!("{} {name}\n", bad("  FAILED  ")))?;
        }
    }
    ended(out, format, &trial.end()?)?;
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// The same of benchmarks.
pub(crate) fn bench(run: Run, format: Format, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let mut trial = run.trial(Asked::Bench)?;
    let names: Vec<String> = trial.names().map(str::to_owned).collect();
    let width = names.iter().map(|name| name.chars().count()).fold(NAME_WIDTH, usize::max);
    let is_text = format == Format::Text;
    if is_text && !names.is_empty() {
        let head = format!("{:width$} {:<14} Iterations\n", "Benchmark", "Time(ns)");
        put(out, &format!("{head}{}\n", "-".repeat(head.len() - 1)))?;
    }
    for (index, name) in names.iter().enumerate() {
        let Benched { ns, iterations, .. } = trial.bench(index)?;
        // Whole ones, as bpftrace has them, but where that would hide the figure.
        let ns = if ns < 100.0 { (ns * 10.0).round() / 10.0 } else { ns.round() };
        match is_text {
            true => put(out, &format!("{name:width$} {ns:<14} {iterations}\n"))?,
            false => put(
                out,
                &result("benchmark_result", name, &format!("{{\"average\": {ns}, \"iters\": {iterations}}}")),
            )?,
        }
    }
    ended(out, format, &trial.end()?)?;
    Ok(ExitCode::SUCCESS)
}

/// What END printed, and BEGIN where nothing else ran.
fn ended(out: &mut dyn Write, format: Format, printed: &[u8]) -> Result<(), Failure> {
    let printed = String::from_utf8_lossy(printed);
    match format {
        Format::Text => put(out, &printed),
        Format::Json if printed.is_empty() => Ok(()),
        Format::Json => {
            put(out, &format!("{{\"type\": \"printf\", \"data\": {}}}\n", quoted(printed.as_bytes())))
        }
    }
}

fn put(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("writing output").map_err(Failure::Machine)
}

fn count(tests: usize) -> String {
    format!("{tests} test{}", if tests == 1 { "" } else { "s" })
}

fn text_of(took: Duration) -> String {
    match took.as_nanos() {
        ns @ 0..10_000 => format!("{ns} ns"),
        ns => format!("{} μs", ns / 1000),
    }
}

fn object(tested: &Tested) -> String {
    let (took, passed, output) = (tested.took.as_nanos(), tested.passed, quoted(&tested.output));
    format!("{{\"duration\": {took}, \"passed\": {passed}, \"output\": {output}}}")
}

fn result(kind: &str, name: &str, value: &str) -> String {
    format!("{{\"type\": \"{kind}\", \"data\": {{{}: {value}}}}}\n", quoted(name.as_bytes()))
}
