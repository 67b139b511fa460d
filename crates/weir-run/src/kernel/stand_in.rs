//! Places that cannot be patched, and at which uprobes of the kernel's stand in.
//!
//! In: a [`Plan`] as files have it. Out: the plan without those places, which are then its [`Plan::stand_ins`], and of their programs on which sides they
//! run now. A function has one owner: where any program is refused in it, all of them are the kernel's there. What the kernel may not be asked to
//! probe either ([`Places`]) stays refused.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::rc::Rc;

use weir_ir::sides::Side;
use weir_ir::{Module, Trigger};
use weir_kernel::{Features, may_probe};
use weir_policy::guard::Guard;
use weir_probe::When;

use crate::failure::Failure;
use crate::kernel::places::Places;
use crate::kernel::{check, is_initial_namespace, refuse};
use crate::options::{Engine, Options};
use crate::plan::Plan;
use crate::stages::{self, Site};

/// Why the kernel cannot stand in at all, if it cannot: it does in processes by number or a command, with no limits that it could not keep to.
pub(crate) fn obstacle(
    module: &Module,
    options: &Options,
    is_recording: bool,
) -> Result<Option<&'static str>, Failure> {
    let names_somebody = options.names_processes() || options.command.is_some();
    let is_free = || Guard::is_free_of(options.policy.as_deref());
    Ok(match () {
        () if options.engine != Engine::Auto => Some("with --engine auto"),
        () if options.checks_alone || is_recording || !names_somebody => {
            Some("in scripts on processes by number (-p PID) or on a command (-c)")
        }
        () if refuse(options, is_recording).is_err() => Some(
            "on processes by number (-p PID) or a command (-c), without --follow, --filter, --program, --budget and --live",
        ),
        () if check(module, options).is_err() => Some("beside clauses without floating-point arguments"),
        () if !is_initial_namespace() => Some("outside of a container, in the initial PID namespace"),
        () if !may_probe() => Some("for root, and with CAP_BPF and CAP_PERFMON"),
        () if !is_free()? => Some("where no policy is in force"),
        () => None,
    })
}

/// Places at which the kernel could stand in.
pub(crate) struct StandIns {
    /// Of each place of the plan whether it is one.
    moves: Vec<bool>,
    /// Of each program that runs there whether it runs in processes too.
    pub(crate) sides: BTreeMap<usize, Side>,
}

impl StandIns {
    pub(crate) fn of(plan: &Plan, features: Features) -> StandIns {
        let moves = moved(plan, features);
        let programs = |is_moved: bool| {
            let sites = plan.sites.iter().zip(&moves).filter(move |(_, moves)| **moves == is_moved);
            sites.flat_map(|(site, _)| &site.programs).map(|wanted| wanted.program)
        };
        let in_processes: BTreeSet<usize> = programs(false).collect();
        let side = |program| if in_processes.contains(&program) { Side::Both } else { Side::Kernel };
        let sides = programs(true).map(|program| (program, side(program))).collect();
        StandIns { moves, sides }
    }

    /// The run is not to begin without one of them.
    pub(crate) fn insist(&self, plan: &Plan) -> bool {
        let insists = |site: &Site| {
            site.programs.iter().any(|wanted| wanted.insists && site.refusal(wanted, None).is_some())
        };
        plan.sites.iter().zip(&self.moves).any(|(site, moves)| *moves && insists(site))
    }

    /// Makes them the plan's.
    pub(crate) fn put(self, plan: &mut Plan) {
        for (site, moves) in mem::take(&mut plan.sites).into_iter().zip(self.moves) {
            if moves { &mut plan.stand_ins } else { &mut plan.sites }.push(site);
        }
    }
}

/// Of each place of the plan whether it is to be the kernel's.
fn moved(plan: &Plan, features: Features) -> Vec<bool> {
    let (sites, places) = (&plan.sites, Places::of_files(plan));
    let is_taken = |site: &Site| {
        let is_whole = |program: usize| {
            features.session.is_some() || !matches!(plan.compiled.triggers[program], Trigger::Session { .. })
        };
        // What to probe instead is looked for where a place is refused: that takes long.
        let is_free = !site.is_exit && site.check_breakpoint().is_ok();
        is_free
            && site
                .programs
                .iter()
                .all(|wanted| is_whole(wanted.program) && places.place(site, wanted).is_ok())
    };
    let mut moves: Vec<bool> = sites.iter().map(|site| refusal(site).is_some() && is_taken(site)).collect();
    // Nothing is patched in a function whose text has a breakpoint in it: its other places go with that; where one cannot, there is no breakpoint.
    let mut stays = vec![false; sites.len()];
    loop {
        let before = moves.clone();
        for at in 0..sites.len() {
            let mut beside = (0..sites.len()).filter(|&of| shares_text(&sites[of], &sites[at]));
            while moves[at]
                && let Some(of) = beside.next()
            {
                match moves[of] || !stays[of] && is_taken(&sites[of]) {
                    true => moves[of] = true,
                    false => (moves[at], stays[at]) = (false, true),
                }
            }
        }
        if moves == before {
            return moves;
        }
    }
}

/// `site` is to be patched, and looks at text with a breakpoint at `other`.
fn shares_text(site: &Site, other: &Site) -> bool {
    let (function, at) = (&site.function, other.address);
    let Ok(window) = &site.window else { return false };
    let is_inside = || function.address <= at && function.end().is_some_and(|end| at < end);
    Rc::ptr_eq(&site.binary, &other.binary) && (is_inside() || window.written().any(|byte| byte == at.0))
}

/// Why the kernel does not stand in at a place that is left, and cannot be patched.
pub(crate) fn refused(plan: &Plan) -> Option<String> {
    let places = Places::of_files(plan);
    let (site, refusal) = plan.sites.iter().find_map(|site| Some((site, refusal(site)?.to_string())))?;
    let why = site.programs.iter().find_map(|wanted| places.place(site, wanted).err())?;
    // As a rule it is the same.
    let is_other = !why.starts_with(&refusal);
    is_other.then(|| format!("nor can a uprobe of the kernel stand in at {}: {why}", site.label_of_place()))
}

/// Why one of its programs does not run there as it wants.
pub(crate) fn refusal(site: &Site) -> Option<&weir_probe::Refusal> {
    site.programs.iter().find_map(|wanted| site.refusal(wanted, None))
}

/// Why the kernel probes it.
pub(crate) fn reason(site: &Site) -> String {
    refusal(site)
        .map_or_else(|| "another place of its function cannot be patched".to_owned(), ToString::to_string)
}

/// Programs at both ends of a call.
pub(crate) fn wants_return(site: &Site) -> bool {
    site.programs.iter().any(|wanted| wanted.when != When::Entry)
}

/// How many are listed unasked.
const LISTED_MAX: usize = 8;

/// What is said of them. `map`: the one by which the whole script has to run in the kernel.
pub(crate) fn report(stand_ins: &[Site], map: Option<&str>, is_verbose: bool) -> String {
    let line = |site: &Site| format!("{}: {}", site.label_of_place(), reason(site));
    let shown = if is_verbose { usize::MAX } else { LISTED_MAX };
    let mut lines: Vec<String> = stand_ins.iter().take(shown).map(line).collect();
    let what = "a uprobe of the kernel stands in, and each hit traps";
    let mut text = match &lines[..] {
        [one] if stand_ins.len() == 1 => format!("{one}: {what}"),
        _ => {
            let places = stages::places(stand_ins);
            lines.insert(0, format!("{} {places} cannot be patched; at each {what}:", stand_ins.len()));
            if lines.len() <= stand_ins.len() {
                lines.push(format!("and {} more (-v lists them)", stand_ins.len() + 1 - lines.len()));
            }
            lines.join("\n  ")
        }
    };
    if let Some(map) = map {
        text += &format!(
            "\n{map} is needed on both sides: all of the script runs in the kernel, and each hit of its other places traps too"
        );
    }
    text
}
