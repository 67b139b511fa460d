//! `--explain`: what a run would do, as data. Nothing is attached, started or stopped.
//!
//! In: a script as programs and places, which its files were read for. Out: an [`Explained`]: each program with its size, each place with how it is
//! patched or why not, maps with their memory, what a hit may cost ([`weir_policy::expected`]), and what each engine would do.
//!
//! Deliberately not looked at: what only attaching shows, such as text that differs from its file and threads that stand in it.

#[cfg(test)]
mod tests;

use weir_codegen::Compiled;
use weir_ir::Module;
use weir_policy::expected as cost;
use weir_probe::Returns;
use weir_rt::segment::SegmentLayout;

use crate::attach;
use crate::emit;
use crate::failure::Failure;
use crate::kernel;
use crate::kernel::stand_in::{self, wants_return};
use crate::options::Options;
use crate::plan::{Given, Half, Plan};
use crate::required;
use crate::stages::Site;
use weir_world::Binaries;

/// What a run would do.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Explained {
    /// The process that the script was compiled for; none for a command and for whoever maps what is probed.
    pub process: Option<i32>,
    /// The command that would be started.
    pub command: Option<Vec<String>>,
    /// Of the script, in its order.
    pub programs: Vec<Program>,
    /// Where they would run.
    pub places: Vec<Place>,
    /// The script's, then those of weir's own.
    pub maps: Vec<Map>,
    /// Bytes of all maps at most, and when the run begins.
    pub shared_bytes: Room,
    /// Bytes of the segment that each process has of its own.
    pub process_bytes: u64,
    /// Why the run would not begin.
    pub refused: Option<String>,
    /// In the order user, kernel.
    pub engines: Vec<OnEngine>,
}

/// One program.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Program {
    /// The probes that it is of.
    pub name: String,
    /// In the traced process; else in the kernel, or in weir.
    pub in_process: bool,
    /// In the kernel.
    pub in_kernel: bool,
    /// Of eBPF.
    pub instructions: usize,
    /// Of machine code, the largest of those that places need.
    pub code_bytes: Option<usize>,
    /// ns of a run, estimated; 0 in the kernel, which makes its own code of it.
    pub ns: f64,
}

/// One place that is patched.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Place {
    /// Path of the file.
    pub binary: String,
    /// Of the function or static probe.
    pub name: String,
    /// In the file's link addresses.
    pub address: u64,
    /// It is where the function of another place leaves.
    pub is_exit: bool,
    /// How it is patched, or why not.
    pub technique: Result<String, String>,
    /// How its return is caught, or why not; none where no program wants to know.
    pub returns: Option<Result<String, String>>,
    /// Another tracer that puts a uprobe there harms the process.
    pub uprobe_unsafe: bool,
    /// The process maps its file; none where no process is known.
    pub is_mapped: Option<bool>,
    /// Why the kernel probes it, if it does beside processes that are patched.
    pub stands_in: Option<String>,
    /// Why the kernel would not be asked to probe it.
    pub in_kernel: Result<(), String>,
    /// Indices of [`Explained::programs`].
    pub programs: Vec<usize>,
    /// ns of a hit with all its programs, estimated; none where none can run.
    pub ns: Option<f64>,
}

/// Bytes, at most and at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// When it is full.
    pub most: u64,
    /// When the run begins.
    pub at_first: u64,
}

/// One map.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Map {
    /// `@name`; what begins with a dot is weir's own.
    pub name: String,
    /// The kernel's name of the kind.
    pub kind: &'static str,
    /// Programs in the kernel see it too.
    pub is_in_kernel: bool,
    /// How many entries it has room for.
    pub entries: u32,
    /// Of an entry.
    pub key_bytes: u32,
    /// Of an entry, for each CPU where the kind says so.
    pub value_bytes: u32,
    /// Address space that it takes in the shared memory.
    pub bytes: u64,
}

/// What an engine would do.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct OnEngine {
    /// As `--engine` has it.
    pub name: &'static str,
    /// It is the one that was asked for, or that `auto` takes.
    pub is_chosen: bool,
    /// How many places it would probe, or why it does not take the script.
    pub places: Result<usize, String>,
    /// Of how many.
    pub of: usize,
    /// ns of a hit without its program: at an entry, and with a return.
    pub ns: (f64, f64),
}

/// `module`: what `plan` was compiled of.
pub(crate) fn explain(
    (plan, half): (&Plan, Option<&Half>),
    module: &Module,
    given: &Given,
    pid: Option<i32>,
    world: &Binaries,
) -> Result<Explained, Failure> {
    let (options, is_recording) = (&given.options, given.recording.is_some());
    let layout = attach::maps_layout(plan)?;
    let programs = programs(plan, half, given.kernel.is_some())?;
    let in_kernel = kernel::checked_places(plan, pid);
    let of_kernel =
        in_kernel.iter().zip(&plan.sites).filter(|(place, site)| place.is_ok() && !site.is_exit).count();
    let is_mapped = |site: &Site| pid.map(|_| world.maps_file(&site.binary));
    let places = plan.sites.iter().zip(in_kernel);
    let mut places: Vec<Place> =
        places.map(|(site, in_kernel)| place(site, &programs, in_kernel, is_mapped(site))).collect();
    places.extend(plan.stand_ins.iter().map(|site| {
        let own = if wants_return(site) { cost::KERNEL_RETURN_NS } else { cost::KERNEL_ENTRY_NS };
        let place = place(site, &programs, Ok(()), is_mapped(site));
        Place { stands_in: Some(stand_in::reason(site)), ns: Some(own), ..place }
    }));
    let is_in_kernel = given.kernel.is_some();
    let refused = match is_in_kernel {
        true => None,
        false => required::feasible(plan).err().map(|failure| failure.to_string()),
    };
    let functions = plan.sites.iter().filter(|site| !site.is_exit).count() + plan.stand_ins.len();
    let patched = plan.sites.iter().filter(|site| !site.is_exit && is_patched(site)).count();
    let user = OnEngine {
        name: "user",
        is_chosen: !is_in_kernel,
        places: match half.is_none() && plan.compiled.triggers.iter().any(weir_ir::Trigger::is_kernel) {
            true => Err("some of the script's events are the kernel's".to_owned()),
            false => refused.clone().map_or(Ok(patched), Err),
        },
        of: functions,
        ns: (cost::ENTRY_NS, cost::BOTH_NS),
    };
    let kernel = OnEngine {
        name: "kernel",
        is_chosen: is_in_kernel,
        places: taken_by_kernel(module, options, is_recording).map(|()| of_kernel + plan.stand_ins.len()),
        of: functions,
        ns: (cost::KERNEL_ENTRY_NS, cost::KERNEL_RETURN_NS),
    };
    Ok(Explained {
        process: pid,
        command: options.command.clone(),
        maps: maps(&layout, &plan.compiled),
        shared_bytes: Room { most: layout.bytes, at_first: layout.bytes_at_first() },
        process_bytes: attach::control(plan)?.bytes,
        programs,
        places,
        refused,
        engines: vec![user, kernel],
    })
}

fn programs(plan: &Plan, half: Option<&Half>, is_in_kernel: bool) -> Result<Vec<Program>, Failure> {
    let native = emit::native_of_unknown(plan)?;
    let code_bytes = |number: usize| {
        let of_program = native.programs.iter().zip(&native.executables).filter(|(of, _)| **of == number);
        of_program.map(|(_, executable)| executable.code.len()).max()
    };
    let Compiled { object, triggers, .. } = &plan.compiled;
    let mut all = Vec::new();
    for (number, (program, trigger)) in object.programs.iter().zip(triggers).enumerate() {
        let of_half = half.filter(|half| half.sides.in_kernel[number]);
        let in_kernel = of_half.is_some() || is_in_kernel;
        let in_processes = of_half.map_or(!is_in_kernel, |half| half.sides.in_processes[number]);
        let shown = of_half.map_or(program, |half| &half.compiled.object.programs[number]);
        all.push(Program {
            name: program.name.clone(),
            in_process: in_processes && trigger.is_probe(),
            in_kernel,
            instructions: shown.insns.len(),
            code_bytes: if in_processes { code_bytes(number) } else { None },
            ns: if in_processes { cost::of(&plan.verified[number], &object.maps) } else { 0.0 },
        });
    }
    Ok(all)
}

fn is_patched(site: &Site) -> bool {
    site.programs.iter().any(|wanted| site.refusal(wanted, None).is_none())
}

fn place(site: &Site, programs: &[Program], in_kernel: Result<(), String>, is_mapped: Option<bool>) -> Place {
    let refused = |refusal| format!("{refusal}{}", required::instead(site, refusal));
    let returns = site.returns.as_ref().map(|returns| match returns {
        Ok(returns) => Ok(emit::technique(*returns).to_owned()),
        Err(refusal) => Err(refused(refusal)),
    });
    let catches = matches!(site.returns, Some(Ok(ref returns)) if *returns != Returns::Exits);
    let own = match &site.called {
        Some(_) => cost::CALLED_NS,
        None if catches => cost::BOTH_NS,
        None => cost::ENTRY_NS,
    };
    let numbers: Vec<usize> = site.programs.iter().map(|wanted| wanted.program).collect();
    let of_programs: f64 = numbers.iter().map(|&number| programs[number].ns).sum();
    Place {
        binary: site.path.clone(),
        name: site.name.clone(),
        address: site.address.0,
        is_exit: site.is_exit,
        technique: site.window.as_ref().map(|window| window.technique()).map_err(refused),
        returns,
        uprobe_unsafe: site.window.as_ref().is_ok_and(|window| window.uprobe_unsafe),
        is_mapped,
        stands_in: None,
        in_kernel,
        programs: numbers,
        ns: is_patched(site).then_some(own + of_programs),
    }
}

fn maps(layout: &SegmentLayout, compiled: &Compiled) -> Vec<Map> {
    let name = |index: usize, own: &str| {
        let of_script = compiled.schema.maps.iter().find(|map| map.map_index as usize == index);
        of_script.map_or_else(|| own.to_owned(), |map| map.name.clone())
    };
    let maps = layout.maps.iter().enumerate();
    let map = |(index, map): (usize, &weir_rt::segment::MapLayout)| Map {
        name: name(index, &map.spec.name),
        kind: map.spec.kind.name(),
        is_in_kernel: map.is_in_kernel(),
        entries: map.slots(),
        key_bytes: map.spec.key_bytes,
        value_bytes: map.spec.value_bytes,
        bytes: map.bytes,
    };
    maps.map(map).collect()
}

/// Whether the kernel's engine takes the script.
fn taken_by_kernel(module: &Module, options: &Options, is_recording: bool) -> Result<(), String> {
    kernel::refuse(options, is_recording).map_err(|failure| failure.to_string())?;
    kernel::check(module, options).map_err(|(failure, _)| failure.to_string())?;
    let for_kernel = weir_codegen::Options { is_for_kernel: true, ..weir_codegen::Options::default() };
    weir_codegen::compile_calling(module, &for_kernel, None).map_err(|error| error.to_string())?;
    Ok(())
}
