//! `--emit`: the text forms of stages.

use weir_probe::Returns;
use weir_rt::{LanePolicy, SiteAbi, TidSource};
use weir_source::SourceFile;

use crate::failure::Failure;
use crate::kernel::stand_in;
use crate::plan::Plan;
use crate::stages::{self, Native};

/// Needs no target: the syntax alone.
pub(crate) fn ast(source: &SourceFile) -> Result<String, Failure> {
    let (script, diagnostics) = weir_script::parse(source);
    if !diagnostics.is_empty() {
        return Err(Failure::Script(diagnostics));
    }
    Ok(weir_script::ast::print(&script))
}

/// One line a place: where, how it would be patched and its return caught, or why not.
pub(crate) fn sites(plan: &Plan) -> String {
    let (mut patched, mut out) = (plan.stand_ins.len(), String::new());
    for site in &plan.sites {
        let what = if site.is_exit { "exit: " } else { "" };
        out += &format!("{}:{} {:#x}: {what}", site.path, site.name, site.address.0);
        // Of one whose programs all want the return, that alone counts.
        let is_patched = site.programs.iter().any(|wanted| site.refusal(wanted, None).is_none());
        patched += usize::from(is_patched && !site.is_exit);
        match &site.window {
            Ok(window) => {
                out += &window.technique().to_string();
                match &site.returns {
                    None => {}
                    Some(Ok(returns)) => out += &format!(", returns by {}", technique(*returns)),
                    Some(Err(refusal)) => out += &format!(", returns refused: {refusal}"),
                }
                out += if window.uprobe_unsafe { ", uprobe-unsafe" } else { "" };
            }
            Err(refusal) => out += &format!("refused: {refusal}"),
        }
        out.push('\n');
    }
    for site in &plan.stand_ins {
        let why = stand_in::reason(site);
        out += &format!("{}:{} {:#x}: uprobe of the kernel: {why}\n", site.path, site.name, site.address.0);
    }
    let all = || plan.sites.iter().chain(&plan.stand_ins);
    let places = all().filter(|site| !site.is_exit).count();
    out += &format!("{patched} of {places} {} can be probed\n", stages::places(all()));
    out
}

pub(crate) fn technique(returns: Returns) -> &'static str {
    match returns {
        Returns::CallThrough { .. } => "call-through",
        Returns::Replace => "replacement",
        Returns::Exits => "its exits",
    }
}

/// The programs as they are compiled for a process about which nothing is known.
pub(crate) fn native_of_unknown(plan: &Plan) -> Result<Native<'_>, Failure> {
    stages::native(&plan.sites, &plan.verified, &|_| of_unknown())
}

fn of_unknown() -> SiteAbi {
    SiteAbi {
        pid: 0,
        tid: TidSource::Syscall,
        lanes: LanePolicy::Shared,
        cpus: weir_rt::local::possible_cpus(),
        bmi2: weir_rt::isa::native::cpu::has_bmi2(),
        reads_ticks: true,
    }
}

/// The machine code of each program, as compiled for process `pid`, else for one about which nothing is known.
pub(crate) fn asm(plan: &Plan, pid: Option<i32>) -> Result<String, Failure> {
    let target = pid.map(weir_probe::Target::open).transpose()?;
    let cpus = weir_rt::local::possible_cpus();
    let abi_of = |binary: &_| target.as_ref().map_or(of_unknown(), |target| target.abi(binary, cpus));
    let executables = stages::native(&plan.sites, &plan.verified, &abi_of)?.executables;
    let mut out = String::new();
    if target.is_none() && !executables.is_empty() {
        out += "# for a target that nothing is known of; with -p PID: as for that process\n";
    }
    for executable in &executables {
        out += &weir_jit::disassemble(executable, &plan.compiled.object);
        out += "\n";
    }
    Ok(out)
}
