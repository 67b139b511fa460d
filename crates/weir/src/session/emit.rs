//! `--emit`: prints the text form of one stage and stops.

use std::process::ExitCode;

use weir_codegen::Compiled;
use weir_rt::{LanePolicy, SiteAbi, TidSource};
use weir_source::SourceFile;
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;
use crate::print::print;
use crate::session::stages::{self, Site};

pub(crate) fn text(text: &str) -> Result<ExitCode, Failure> {
    print(text)
}

/// Needs no target: the syntax alone.
pub(crate) fn ast(source: &SourceFile) -> Result<ExitCode, Failure> {
    let (script, diagnostics) = weir_script::parse(source);
    if !diagnostics.is_empty() {
        return Err(Failure::Script(diagnostics));
    }
    text(&weir_script::ast::print(&script))
}

/// One line a place: where, how it would be patched, or why not.
pub(crate) fn sites(sites: &[Site]) -> Result<ExitCode, Failure> {
    let (mut patched, mut out) = (0, String::new());
    for site in sites {
        let address = site.address.0;
        match &site.window {
            Ok(window) => {
                patched += 1;
                let mark = if window.uprobe_unsafe { ", uprobe-unsafe" } else { "" };
                out += &format!("{}:{} {address:#x}: {}{mark}\n", site.path, site.name, window.technique());
            }
            Err(refusal) => out += &format!("{}:{} {address:#x}: refused: {refusal}\n", site.path, site.name),
        }
    }
    out += &format!("{patched} of {} {} can be probed\n", sites.len(), stages::places(sites));
    print(&out)
}

/// The machine code of each program, as compiled for process `pid`, else for one about which nothing is known.
pub(crate) fn asm(
    sites: &[Site],
    compiled: &Compiled,
    verified: &[VerifiedProgram],
    pid: Option<i32>,
) -> Result<ExitCode, Failure> {
    let target = pid.map(weir_probe::Target::open).transpose()?;
    let cpus = weir_rt::local::possible_cpus();
    let unknown = SiteAbi {
        pid: pid.unwrap_or(0) as u32,
        tid: TidSource::Syscall,
        lanes: LanePolicy::Shared,
        cpus,
        bmi2: std::arch::is_x86_feature_detected!("bmi2"),
    };
    let abi_of = |binary: &_| target.as_ref().map_or(unknown, |target| target.abi(binary, cpus));
    let (_, executables) = stages::native(sites, verified, &abi_of)?;
    let mut out = String::new();
    if target.is_none() && !executables.is_empty() {
        out += "# for a target that nothing is known of; with -p PID: as for that process\n";
    }
    for executable in &executables {
        out += &weir_jit::disassemble(executable, &compiled.object);
        out += "\n";
    }
    print(&out)
}
