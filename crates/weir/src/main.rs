//! The command line of weir: parses arguments, hands over, and turns failures into messages and exit codes.
//!
//! 0 done, 1 the user's input was refused, 2 wrong usage, 3 the machine refused, 101 a bug of ours.

#![forbid(unsafe_code)]

mod args;
mod bpf;
mod capture;
mod doctor;
mod explain;
mod failure;
mod filter;
mod fmt;
mod lines;
mod list;
mod live;
mod lttng;
mod manage;
mod manual;
mod pcap;
mod print;
mod queued;
mod run;
mod sent;
mod sessions;
mod signals;
mod supervised;
mod trial;
mod view;

use std::process::ExitCode;

use crate::args::sessions::Asked;
use crate::args::{Args, Command};
use crate::failure::{Failure, Report as _};

fn main() -> ExitCode {
    let args = match Args::parse_from_command_line(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    match args.command {
        Command::Trace(trace) => {
            run::trace(&trace).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
        Command::Bpf(args) => {
            bpf::bpf(&args).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
        Command::Filter(args) => {
            filter::filter(&args).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
        Command::Pcap(args) => {
            pcap::pcap(&args).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
        Command::Capture(args) => {
            capture::capture(&args).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
        Command::Fmt(args) => fmt::fmt(&args),
        Command::Record(line) => record(line.asked()),
        Command::Lttng(line) => lttng::lttng(&line),
        Command::View(args) => view::view(&args).unwrap_or_else(|failure| failure.report(None)),
        Command::List(args) => list::list(&args).unwrap_or_else(|failure| failure.report(None)),
        Command::Ps(ps) => manage::ps::ps(&ps).unwrap_or_else(|failure| failure.report(None)),
        Command::Top(top) => live::top::top(&top).unwrap_or_else(|failure| failure.report(None)),
        Command::Detach(detach) => manage::detach(&detach).unwrap_or_else(|failure| failure.report(None)),
        Command::Completions(args) => {
            manual::completions(&args).unwrap_or_else(|failure| failure.report(None))
        }
        Command::Complete(args) => {
            list::complete::complete(&args.text).unwrap_or_else(|failure| failure.report(None))
        }
        Command::Man(args) => manual::man(&args).unwrap_or_else(|failure| failure.report(None)),
        Command::Doctor => doctor().unwrap_or_else(|failure| failure.report(None)),
    }
}

fn record(asked: Asked) -> ExitCode {
    match asked {
        Asked::Session(session) => {
            sessions::sessions(&session).unwrap_or_else(|failure| failure.report(None))
        }
        Asked::Recording(record) => {
            run::record(&record).unwrap_or_else(|(failure, source)| failure.report(source.as_ref()))
        }
    }
}

/// Prints what this machine allows; 3 if something that weir needs is missing.
fn doctor() -> Result<ExitCode, Failure> {
    let checks = doctor::checks(&doctor::Facts::gather());
    let lines: String = checks.iter().map(|check| format!("{check}\n")).collect();
    let printed = print::print(&lines)?;
    let is_fit = checks.iter().all(|check| check.verdict != doctor::Verdict::No);
    Ok(if is_fit { printed } else { ExitCode::from(3) })
}
