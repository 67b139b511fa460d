//! What a run cannot do without: places for its programs, and a process to find them in.
//!
//! In: a plan, before anything is touched with what files say of its places, later with the outcomes of attaching. Out: the
//! error that ends the run, if it is to end. A clause that can run nowhere makes it pointless; a place that was asked for
//! by name is not left out unless the script says so. Places that merely cannot be probed are told by
//! [`Coverage`](crate::summary::Coverage).

use std::collections::BTreeSet;

use anyhow::anyhow;
use weir_codegen::Compiled;
use weir_ir::MissingProbes;
use weir_probe::{Outcome, Refusal};

use crate::failure::{Failure, is_machine};
use crate::indirect;
use crate::options::Options;
use crate::plan::Plan;
use crate::stages::{self, Site};
use crate::subjects::Subjects;

/// Something says in which process the places are.
pub(super) fn placed(options: &Options, plan: &Plan, subjects: &Subjects) -> Result<(), Failure> {
    if plan.sites.is_empty() || !subjects.selection.is_empty() || options.command.is_some() {
        return Ok(());
    }
    Err(Failure::Refused(anyhow!(
        "the script probes {} of {}, but nothing says in which process: add -c COMMAND, -p PID or NAME, --cgroup, \
         --unit or --container (tracing every process is not in this version)",
        stages::places(&plan.sites),
        plan.sites[0].path
    )))
}

/// Every program has a place where it can run, as far as files say it, and every place that must be probed can be.
pub(super) fn feasible(plan: &Plan) -> Result<(), Failure> {
    indispensable(&plan.compiled, &plan.sites, &[], &Elsewhere::new())?;
    hopeless(&plan.compiled, &plan.sites, &[], &Elsewhere::new())
}

/// The program that [`feasible`] is about where it fails.
pub(super) fn blamed(plan: &Plan) -> Option<usize> {
    let refused = |site: &Site| {
        let mut wanted = site.programs.iter().filter(|wanted| wanted.insists);
        wanted.find(|wanted| site.refusal(wanted, None).is_some()).map(|wanted| wanted.program)
    };
    let of_none = || {
        without_places(&plan.compiled, &plan.sites, &[], &Elsewhere::new()).map(|hopeless| hopeless.program)
    };
    plan.sites.iter().find_map(refused).or_else(of_none)
}

/// Files that this process does not map, and another one of the run does, or may yet: what is probed in them is not missed here.
pub(super) type Elsewhere = BTreeSet<String>;

/// Of a place that is not mapped.
fn is_elsewhere(site: &Site, refusal: &Refusal, elsewhere: &Elsewhere) -> bool {
    matches!(refusal, Refusal::NotMapped { .. }) && elsewhere.contains(&site.path)
}

/// A clause that cannot run at any of its places, or at none of their returns, makes the run pointless. `outcomes`: of
/// what was tried, if it was.
pub(super) fn hopeless(
    compiled: &Compiled,
    sites: &[Site],
    outcomes: &[Outcome],
    elsewhere: &Elsewhere,
) -> Result<(), Failure> {
    let Some(Hopeless { site, refusal, more, .. }) = without_places(compiled, sites, outcomes, elsewhere)
    else {
        return Ok(());
    };
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let error = anyhow!("cannot probe {}: {refusal}{}{more}", site.label(refusal), instead(site, refusal));
    Err(if is_machine(refusal) { Failure::Machine(error) } else { Failure::Refused(error) })
}

/// A program without a place where it can run.
struct Hopeless<'a> {
    program: usize,
    /// The first of its places, and why it does not run there.
    site: &'a Site,
    refusal: &'a Refusal,
    /// How many others there are.
    more: usize,
}

fn without_places<'a>(
    compiled: &Compiled,
    sites: &'a [Site],
    outcomes: &'a [Outcome],
    elsewhere: &Elsewhere,
) -> Option<Hopeless<'a>> {
    let programs = compiled.triggers.iter().enumerate().filter(|(_, trigger)| trigger.is_probe());
    { programs }.find_map(|(program, _)| {
        let of_program = || {
            sites.iter().enumerate().filter_map(move |(index, site)| {
                let wanted = site.programs.iter().find(|wanted| wanted.program == program)?;
                Some((site, site.refusal(wanted, outcomes.get(index))))
            })
        };
        let may_run = |(site, refusal): (&Site, Option<&Refusal>)| {
            refusal.is_none_or(|refusal| is_elsewhere(site, refusal, elsewhere))
        };
        match of_program().next() {
            Some((site, Some(refusal))) if !of_program().any(may_run) => {
                Some(Hopeless { program, site, refusal, more: of_program().count() - 1 })
            }
            _ => None,
        }
    })
}

/// A place that was asked for by name and cannot be probed ends the run, if the script's `missing_probes` says so. All of
/// them are told.
pub(super) fn indispensable(
    compiled: &Compiled,
    sites: &[Site],
    outcomes: &[Outcome],
    elsewhere: &Elsewhere,
) -> Result<(), Failure> {
    let refused = sites.iter().enumerate().filter_map(|(index, site)| {
        let wanted = site.programs.iter().filter(|wanted| wanted.insists);
        let mut refusals = wanted.filter_map(|wanted| site.refusal(wanted, outcomes.get(index)));
        Some((site, refusals.find(|refusal| !is_elsewhere(site, refusal, elsewhere))?))
    });
    let refused: Vec<(&Site, &Refusal)> = refused.collect();
    let Some((_, first)) = refused.first() else { return Ok(()) };
    let line = |(site, refusal): &(&Site, &Refusal)| {
        format!("{}: {refusal}{}", site.label(refusal), instead(site, refusal))
    };
    let lines: Vec<String> = refused.iter().map(line).collect();
    let error = match &lines[..] {
        [one] => anyhow!("cannot probe {one}"),
        many => anyhow!("cannot probe {} {}:\n  {}", many.len(), stages::places(sites), many.join("\n  ")),
    };
    // A clause that could run nowhere would end the run all the same.
    let has_others =
        refused.len() < sites.len() && without_places(compiled, sites, outcomes, elsewhere).is_none();
    let hint = "`config = { missing_probes = \"warn\" }` in the script traces the others";
    let error = if has_others { anyhow!("{error}\n{hint}") } else { error };
    Err(if is_machine(first) { Failure::Machine(error) } else { Failure::Refused(error) })
}

/// What can be probed in its place, if that is known.
pub(super) fn instead(site: &Site, refusal: &Refusal) -> String {
    let chosen = match refusal {
        Refusal::IndirectFunction => indirect::chosen(&site.binary, &site.function.name),
        _ => None,
    };
    chosen.map_or_else(String::new, |at| {
        let function = site.binary.function_at(at).filter(|function| function.address == at);
        let name = function.map_or_else(|| at.to_string(), |function| function.name.clone());
        format!(": on this machine uprobe:{}:{name}", site.path)
    })
}

/// Files that the command was to execute, and has not when it ends: the script cannot have meant that.
pub(super) fn executed(plan: &Plan, subjects: &Subjects, unseen: &BTreeSet<String>) -> Option<Failure> {
    let first = plan.sites.iter().find(|site| unseen.contains(&site.path))?;
    if plan.missing != MissingProbes::Error {
        return None;
    }
    let help = match subjects.selection.follow.is_on() {
        true => "neither did its children, as far as weir saw them",
        false => "if a child of it does, --follow traces that too",
    };
    Some(Failure::Refused(anyhow!(
        "cannot probe {}: not-mapped: the command has ended and never mapped {}; {help}",
        first.name,
        first.path
    )))
}
