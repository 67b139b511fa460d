//! Holds what was planned from files against one process: which sites can be patched in it, and with which programs.
//!
//! In: a target, and [`SiteRequest`]s with windows and returns as their files allow them. Out: [`PlannedSite`]s at the
//! addresses of this process, or the [`Refusal`]; where only the return cannot be caught, the programs that do
//! without. The target is not stopped, and nothing is changed in it; text is compared once more when it is patched
//! ([`crate::attach::patch`]).

use std::collections::HashMap;
use std::path::PathBuf;

use weir_plan::Refusal;
use weir_plan::plan_functions;
use weir_plan::returns::Returns;
use weir_plan::window::{Shape, Window};
use weir_rt::Executable;
use weir_symbols::{Binary, LinkAddr, VirtAddr};
use weir_trampoline::island::PlannedSite;
use weir_trampoline::program::{Attach, When};
use weir_trampoline::trampoline::{FRAME_BYTES, RED_ZONE_BYTES};

use crate::attach::counters;
use crate::attach::lists;
use crate::attach::others::Others;
use crate::attach::request::{CalledFunction, SiteRequest};
use crate::attach::survey::survey;
use crate::attach::undo::Patch;
use crate::limits::{JUMP_BYTES, PROGRAMS_PER_SITE_MAX};
use crate::process::mapped::copies_stacks;
use crate::process::target::Target;

/// The programs of a site that can run there, and how its returns are caught.
pub(crate) struct Chosen {
    pub(crate) programs: Vec<Attach>,
    pub(crate) returns: Option<Returns>,
    /// Why they are not, where a program wants that.
    pub(crate) refused: Option<Refusal>,
}

/// Leaves out the programs that need a return which cannot be caught; `returns` is asked where one is wanted. An error
/// if none is left.
pub(crate) fn choose(
    programs: &[Attach],
    returns: impl FnOnce() -> Result<Returns, Refusal>,
) -> Result<Chosen, Refusal> {
    let as_when = |program: &Attach, when| Attach { when, ..*program };
    // Exits are places of their own; here nothing could be kept for them.
    let returns = || match returns() {
        Ok(Returns::Exits) => Err(Refusal::ReturnKept),
        returns => returns,
    };
    let wanted = programs.iter().any(|program| program.when.wants_return()).then(returns);
    match wanted {
        None => Ok(Chosen { programs: programs.to_vec(), returns: None, refused: None }),
        Some(Ok(returns)) => {
            let programs = programs.iter().map(|program| match program.when {
                When::EntryAndReturn => as_when(program, When::Session),
                _ => *program,
            });
            Ok(Chosen { programs: programs.collect(), returns: Some(returns), refused: None })
        }
        Some(Err(refusal)) => {
            let programs = programs.iter().filter_map(|program| match program.when {
                When::Entry | When::EntryAndReturn => Some(as_when(program, When::Entry)),
                When::Return | When::Session => None,
            });
            let programs: Vec<Attach> = programs.collect();
            match programs.is_empty() {
                true => Err(refusal),
                false => Ok(Chosen { programs, returns: None, refused: Some(refusal) }),
            }
        }
    }
}

/// What is looked up in one process for many sites: each thing once.
pub(crate) struct Ground<'a> {
    target: &'a Target,
    has_shadow_stack: bool,
    /// By path.
    biases: HashMap<PathBuf, Option<u64>>,
    /// Text of the target that was read last, from this address on.
    text: (u64, Vec<u8>),
    /// What is written there already for this attachment, which is no difference from the file; nor is what other weirs have written.
    patches: &'a [Patch],
    others: Others,
}

impl<'a> Ground<'a> {
    /// `copies`: of which copies of files that are mapped several times the sites are, by path and bias.
    pub(crate) fn new(
        target: &'a Target,
        patches: &'a [Patch],
        copies: &HashMap<PathBuf, u64>,
    ) -> Ground<'a> {
        let has_shadow_stack = target.has_shadow_stack();
        let biases = copies.iter().map(|(path, &bias)| (path.clone(), Some(bias))).collect();
        let others = Others::of(target);
        Ground { target, has_shadow_stack, biases, text: (0, Vec::new()), patches, others }
    }

    fn bias(&mut self, binary: &Binary) -> Option<u64> {
        match self.biases.get(binary.path()) {
            Some(&known) => known,
            None => {
                let bias = self.target.bias(binary);
                self.biases.insert(binary.path().to_owned(), bias);
                bias
            }
        }
    }

    /// Refuses a function whose text is not as in its file.
    fn as_in_file(&mut self, binary: &Binary, start: u64, size: usize) -> Result<(), Refusal> {
        let not_mapped = || Refusal::NotMapped { binary: binary.path().display().to_string() };
        let bias = self.bias(binary).ok_or_else(not_mapped)?;
        let in_file = binary.bytes(LinkAddr(start), size).ok_or(Refusal::SizeUnknown)?;
        let address = VirtAddr(start.wrapping_add(bias));
        if self.target.mapping_at(address).is_some_and(|mapping| mapping.shared) {
            return Err(Refusal::SharedText);
        }
        let is_as_in_file = |ground: &mut Self| {
            let in_memory = ground.text(address.0, in_file.len())?;
            if in_file == in_memory {
                return Some(true);
            }
            // A jump may reach into the padding behind the function.
            let behind = in_file.len() + JUMP_BYTES - 1;
            let whole = ground.text(address.0, behind).map(<[u8]>::to_vec);
            let whole = whole.or_else(|| ground.text(address.0, in_file.len()).map(<[u8]>::to_vec))?;
            let own = ground.patches.iter().map(|patch| (patch.address, &patch.old[..], &patch.new[..]));
            Some(ground.others.bare(own, address.0, &whole).starts_with(in_file))
        };
        if !is_as_in_file(self).ok_or_else(not_mapped)? {
            let in_memory = self.text(address.0, in_file.len()).ok_or_else(not_mapped)?;
            let offset = in_file.iter().zip(in_memory).position(|(file, memory)| file != memory);
            return Err(Refusal::TextDiffers { offset: offset.unwrap_or(0) as u64 });
        }
        Ok(())
    }

    /// What the target has at `address`, read together with what lies behind: functions are asked for in their order.
    fn text(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        const TOGETHER: usize = 16 << 10;
        let is_read = |text: &(u64, Vec<u8>)| {
            let from = usize::try_from(address.checked_sub(text.0)?).ok()?;
            (from.checked_add(length)? <= text.1.len()).then_some(from)
        };
        if is_read(&self.text).is_none() {
            let (start, bytes) = &mut self.text;
            *start = address;
            bytes.resize(length.max(TOGETHER), 0);
            let read = self.target.memory.read_some(address, bytes).unwrap_or(0);
            bytes.truncate(read);
        }
        let from = is_read(&self.text)?;
        Some(&self.text.1[from..from + length])
    }
}

/// Of a file: its headers, and the notes behind them.
const HEAD_BYTES: u64 = 1024;

/// A site of this process: where its binary is mapped, with the same text; and why its returns are not caught, where
/// a program wants that. `unwinders`: why they would not find their way through one.
pub(crate) fn plan_in_target(
    ground: &mut Ground,
    site: &SiteRequest,
    window: Window,
    unwinders: Option<&Refusal>,
) -> Result<(PlannedSite, Option<Refusal>), Refusal> {
    let target = ground.target;
    if site.programs.len() > PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: site.programs.len(), max: PROGRAMS_PER_SITE_MAX });
    }
    let chosen = choose(&site.programs, || returns_in_target(ground, site, &window, unwinders))?;
    let binary = site.binary;
    let not_mapped = || Refusal::NotMapped { binary: binary.path().display().to_string() };
    let bias = ground.bias(binary).ok_or_else(not_mapped)?;
    if let Some(CalledFunction { binary: described, function, words, stays, listed }) = site.called {
        let bounds = described.function_bounds(function).ok_or(Refusal::SizeUnknown)?;
        let size = (bounds.end.0 - bounds.start.0) as usize;
        ground.as_in_file(described, bounds.start.0, size)?;
        // Of data nothing can be compared: but of the headers, and what names the build.
        let head = binary.segments().iter().find(|segment| !segment.writable && segment.file_bytes > 0);
        let head = head.ok_or(Refusal::SizeUnknown)?;
        ground.as_in_file(binary, head.address.0, head.file_bytes.min(HEAD_BYTES) as usize)?;
        let absent = || Refusal::NotMapped { binary: described.path().display().to_string() };
        let function = function.0.wrapping_add(ground.bias(described).ok_or_else(absent)?);
        let place =
            lists::place(ground.target, listed.0.wrapping_add(bias), window.address.wrapping_add(bias));
        // What stands in another file must not lead to one that goes before it.
        if place != window.address.wrapping_add(bias) && !stays {
            return Err(Refusal::NotCalled { address: place });
        }
        let called = lists::look(ground.target, place, (function, words))?;
        let window = Window { address: place.wrapping_sub(bias), ..window.with_called(called) };
        let function = function.wrapping_sub(bias);
        let (programs, returns, hook, number) = (chosen.programs, None, None, 0);
        return Ok((PlannedSite { window, bias, function, programs, returns, hook, number }, chosen.refused));
    }
    let function = site.function;
    ground.as_in_file(binary, function.address.0, function.size as usize)?;
    let window = ground.others.window_over(&target.memory, bias, window)?;
    if window.calls() && ground.has_shadow_stack {
        return Err(Refusal::ShadowStack);
    }
    if let Some(semaphore) = site.semaphore {
        let address = semaphore.0.wrapping_add(bias);
        if !counters::is_countable(&target.mappings, address) {
            return Err(Refusal::Semaphore { address });
        }
    }
    let function = if window.inside { window.address } else { function.address.0 };
    let Chosen { programs, returns, refused } = chosen;
    // Its number is given when all are known that are patched.
    let (hook, number) = (None, 0);
    Ok((PlannedSite { window, bias, function, programs, returns, hook, number }, refused))
}

/// Refuses programs that need more stack than is sure to be there.
pub(crate) fn has_stack(site: &PlannedSite, executables: &[Executable]) -> Result<(), Refusal> {
    const RETURN_ADDRESS_BYTES: u32 = 8;
    let Some(room) = site.window.room else { return Ok(()) };
    let frame = FRAME_BYTES + if site.window.inside { RED_ZONE_BYTES } else { 0 };
    let programs = site.programs.iter().map(|program| executables[program.executable].stack_bytes);
    let needed = frame as u32 + RETURN_ADDRESS_BYTES + programs.max().unwrap_or(0);
    if needed > room { Err(Refusal::StackShort { needed, room }) } else { Ok(()) }
}

/// How the returns of a site that wants them are caught in this process.
fn returns_in_target(
    ground: &Ground,
    site: &SiteRequest,
    window: &Window,
    unwinders: Option<&Refusal>,
) -> Result<Returns, Refusal> {
    if window.inside {
        return Err(Refusal::ReturnInside);
    }
    let returns = site.returns.clone().unwrap_or(Err(Refusal::ReturnUnplanned))?;
    if returns == Returns::Replace && ground.target.mappings.iter().any(copies_stacks) {
        return Err(Refusal::StacksCopied);
    }
    if returns == Returns::Replace && ground.others.replace_returns {
        return Err(Refusal::ReturnReplaced);
    }
    unwinders.map_or(Ok(returns), |refusal| Err(refusal.clone()))
}

/// The functions that are to answer unwinders for islands too, if any of `sites` wants a return.
pub(crate) fn plan_hooks(ground: &mut Ground, sites: &[SiteRequest]) -> Result<Vec<PlannedSite>, Refusal> {
    let mut hooks: Vec<PlannedSite> = Vec::new();
    if !sites.iter().any(SiteRequest::wants_return) {
        return Ok(hooks);
    }
    survey(ground.target, |binary, function, question| {
        let window = &plan_functions(&[(binary, function)])[0];
        let request = SiteRequest {
            binary,
            function,
            window,
            called: None,
            semaphore: None,
            programs: Vec::new(),
            returns: None,
        };
        // Where a thread may yet pass frames of another weir, that one's hook is asked behind this one.
        let hook = window.clone().and_then(|window| plan_in_target(ground, &request, window, None));
        let hook = hook.and_then(|(hook, _)| match hook.window.shape {
            Shape::Near => Ok(hook),
            // It is restored when all else is; a hole would have to wait for it.
            _ => Err(Refusal::EndsInWindow { offset: 0 }),
        });
        let hook = hook.map_err(|refusal| Refusal::UnwinderUnknown {
            detail: format!("{} of {} cannot be hooked ({refusal})", function.name, binary.path().display()),
        })?;
        hooks.push(PlannedSite { hook: Some(question), ..hook });
        Ok(())
    })?;
    Ok(hooks)
}

/// Adds the hooks to `planned`. A site at the same place becomes one with the hook; one that overlaps is refused: its
/// index in `planned`, and why.
pub(crate) fn add_hooks(planned: &mut Vec<PlannedSite>, hooks: Vec<PlannedSite>) -> Vec<(usize, Refusal)> {
    let mut refused = Vec::new();
    let requested = planned.len();
    for hook in hooks {
        let at = hook.patch_address();
        let range = at..at + hook.window.covered().len() as u64;
        let mut is_there = false;
        for (index, site) in planned[..requested].iter_mut().enumerate() {
            let touches = |byte: u64| range.contains(&byte.wrapping_add(site.bias));
            if site.patch_address() == at && site.window.shape == Shape::Near {
                site.hook = hook.hook;
                is_there = true;
            } else if site.window.displaced().chain(site.window.written()).any(touches) {
                refused.push((index, Refusal::Overlap { address: at }));
            }
        }
        if !is_there {
            planned.push(hook);
        }
    }
    refused
}
