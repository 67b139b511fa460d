//! Puts programs into a process: one short stop for the shared segment, one for the patches.
//!
//! ```text
//! prepare   stop · memfd_create, mmap (remote) · go on              the segment is shared; nothing is patched
//! arm       place islands for the planned windows, generate code    nothing is stopped
//!           stop · memfd_create, mmap islands and gates (remote)
//!                · compare text with files · journal · move program counters · write jumps · open gates · go on
//! detach    see crate::undo
//! ```
//!
//! A thread inside a window, or with a signal frame there, is let run on for a millisecond and the stop is tried
//! again; a site that stays busy is refused and the others are patched.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::libc;
use weir_rt::Executable;
use weir_rt::segment::{Identity, JournalState, Place as SegmentPlace, Segment, SegmentLayout};
use weir_symbols::maps::Mapping;
use weir_symbols::{Binary, Function, LinkAddr, VirtAddr};

use crate::counters;
use crate::island::{self, Image, Place, PlannedSite, Stubs};
use crate::limits::{self, PROGRAMS_PER_SITE_MAX, RETRIES_MAX};
use crate::outpost::{self, Outpost, Wanted};
use crate::plan::plan_functions;
use crate::refusal::{Error, Refusal};
use crate::remote::Borrowed;
use crate::replace::{self, Table};
use crate::restore;
use crate::returns::Returns;
use crate::scan;
use crate::stack;
use crate::stop::Stopped;
use crate::sys;
use crate::target::Target;
use crate::undo::{Patch, Report, Undo};
use crate::unwind;
use crate::window::{Shape, Window, Write};

/// Name of the segment's memfd, by which the next weir finds it.
pub(crate) const SEGMENT_NAME: &str = "weir-segment";
pub(crate) const CODE_NAME: &str = "weir-code";
/// Another name than that of islands, which have a gate page behind them.
pub(crate) const RECORDS_NAME: &str = "weir-records";
pub(crate) const OUTPOST_NAME: &str = "weir-outpost";
const PAGE: u64 = 4096;

/// A function to probe, and the programs to run there in order.
#[derive(Clone, Debug)]
pub struct SiteRequest<'a> {
    pub binary: &'a Binary,
    pub function: &'a Function,
    /// As [`plan_sites`](crate::plan_sites) answered for this function.
    pub window: &'a Result<Window, Refusal>,
    /// A word that counts tracers, raised while the site is patched.
    pub semaphore: Option<LinkAddr>,
    /// At most [`PROGRAMS_PER_SITE_MAX`]; they run in this order.
    pub programs: Vec<Attach>,
    /// As [`plan_returns`](crate::plan_returns) answered for this function; `None` where no program wants the return.
    pub returns: Option<Result<Returns, Refusal>>,
}

impl SiteRequest<'_> {
    fn wants_return(&self) -> bool {
        self.programs.iter().any(|program| program.when.wants_return())
    }
}

/// One program of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Index of an executable.
    pub executable: usize,
    /// What `get_attach_cookie` answers.
    pub cookie: u64,
    pub when: When,
}

/// At which ends of a call a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Entry,
    /// With the registers as at the return: ax holds the result, ip the address that the caller goes on at, sp is as
    /// behind the `ret`.
    Return,
    /// At both; they share 8 bytes, and an entry that answers other than 0 suppresses the return.
    Session,
}

impl When {
    pub fn wants_return(self) -> bool {
        self != When::Entry
    }
}

/// A process that shares the segment, and is not patched yet. Dropped, it takes the segment out again.
#[derive(Debug)]
pub struct Prepared {
    attachment: Attachment,
}

/// Makes the shared segment in the target. What an earlier weir left behind there is undone first.
pub fn prepare(mut target: Target, layout: SegmentLayout, identity: &Identity) -> Result<Prepared, Error> {
    let bytes = layout.bytes;
    let (segment, address) =
        share_segment(&mut target, layout, identity).map_err(|error| target.explain(error))?;
    let undo = Undo {
        segment: address..address + bytes,
        islands: Vec::new(),
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: Vec::new(),
        places: HashMap::new(),
    };
    Ok(Prepared {
        attachment: Attachment {
            target,
            segment,
            undo,
            outcomes: Vec::new(),
            table: None,
            swept_at: 0,
            hooks: 0,
            is_detached: false,
        },
    })
}

/// The segment, and where it stands in the target.
fn share_segment(
    target: &mut Target,
    layout: SegmentLayout,
    identity: &Identity,
) -> Result<(Segment, u64), Error> {
    if let Some(traced) = scan::probed(target.pid)? {
        // A fork child has its parent's segment, but runs unprobed.
        if traced.controller_alive && !traced.is_inherited() {
            let (session, controller) = (traced.identity.session, traced.identity.controller_pid);
            return Err(Error::AlreadyProbed { pid: target.pid, session, controller });
        }
        restore::restore(target)?;
    }
    let mut stopped = target.stop()?;
    target.refresh()?;
    let bytes = layout.bytes;
    let mut remote = Borrowed::new(&mut stopped, target)?;
    let (segment, address) = with_memfd(target, &mut remote, SEGMENT_NAME, |remote, remote_fd, fd| {
        let segment = Segment::create(fd, layout, identity)
            .map_err(|source| Error::system("making the segment", source))?;
        let (protection, flags) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_SHARED as u64);
        let address = remote.call("mmap", libc::SYS_mmap, [0, bytes, protection, flags, remote_fd, 0])?;
        Ok((segment, address))
    })?;
    let has_tsc = may_read_tsc(target, &mut remote)?;
    remote.finish()?;
    target.has_tsc = has_tsc;
    segment.set_place(&SegmentPlace { segment_address: address, gate_address: 0, islands: Vec::new() });
    // A launched command must not run before it is armed.
    if target.launched {
        target.held = Some(stopped);
    } else {
        stopped.resume();
    }
    Ok((segment, address))
}

/// Whether the borrowed thread may read the time stamp counter; its children inherit that.
fn may_read_tsc(target: &Target, remote: &mut Borrowed) -> Result<bool, Error> {
    let at = remote.put(&[0; 8])?;
    remote.call("prctl", libc::SYS_prctl, [libc::PR_GET_TSC as u64, at, 0, 0, 0, 0])?;
    let answer = target.memory.read_u64(at).map_err(|e| Error::system("reading an answer of prctl", e))?;
    Ok(answer as u32 != libc::PR_TSC_SIGSEGV as u32)
}

/// Makes an empty memfd in the target, and has `then` work with its number there and a descriptor of it here. The
/// target's own descriptor is closed again, whatever happens.
fn with_memfd<'a, T>(
    target: &Target,
    remote: &mut Borrowed<'a>,
    name: &str,
    then: impl FnOnce(&mut Borrowed<'a>, u64, OwnedFd) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    let text = remote.put(&text)?;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let number = remote.call("memfd_create", libc::SYS_memfd_create, [text, flags, 0, 0, 0, 0])?;
    let done = take_fd(target, remote.tid(), number).and_then(|fd| then(remote, number, fd));
    let closed = remote.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0]);
    done.and_then(|value| closed.map(|_| value))
}

/// Descriptor `number` of the target, here.
fn take_fd(target: &Target, tid: i32, number: u64) -> Result<OwnedFd, Error> {
    if sys::living_thread(target.pid) == target.pid {
        return sys::pidfd_getfd(&target.pidfd, number as i32).map_err(|source| {
            Error::system(format!("pidfd_getfd({number}) of process {}", target.pid), source)
        });
    }
    // A pidfd means the main thread, and one that has ended has no descriptors.
    let path = format!("/proc/{tid}/fd/{number}");
    let opened = File::options().read(true).write(true).open(&path);
    opened.map(OwnedFd::from).map_err(|source| Error::system(format!("open({path})"), source))
}

impl Prepared {
    pub fn segment(&self) -> &Segment {
        &self.attachment.segment
    }

    pub fn target(&self) -> &Target {
        &self.attachment.target
    }

    /// Patches what can be patched. The outcome of each site is in the attachment, in the order of `sites`.
    pub fn arm(self, sites: &[SiteRequest], executables: &[Executable]) -> Result<Attachment, Error> {
        let mut attachment = self.attachment;
        match attachment.arm(sites, executables) {
            Ok(()) => Ok(attachment),
            Err(error) => Err(attachment.target.explain(error)),
        }
    }
}

/// A site of this process: where its binary is mapped, with the same text.
fn plan_in_target(target: &Target, site: &SiteRequest, window: Window) -> Result<PlannedSite, Refusal> {
    if site.programs.len() > PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: site.programs.len(), max: PROGRAMS_PER_SITE_MAX });
    }
    let returns = match site.programs.iter().any(|program| program.when.wants_return()) {
        true => Some(site.returns.clone().unwrap_or(Err(Refusal::ReturnUnplanned))?),
        false => None,
    };
    if window.inside && returns.is_some() {
        return Err(Refusal::ReturnInside);
    }
    if returns == Some(Returns::Replace) && target.mappings.iter().any(copies_stacks) {
        return Err(Refusal::StacksCopied);
    }
    let binary = site.binary;
    let bias = target.bias(binary);
    let bias = bias.ok_or_else(|| Refusal::NotMapped { binary: binary.path().display().to_string() })?;
    let function = site.function;
    let in_file = binary.bytes(function.address, function.size as usize).ok_or(Refusal::SizeUnknown)?;
    let mut in_memory = vec![0; in_file.len()];
    let address = VirtAddr(function.address.0.wrapping_add(bias));
    if target.mappings.iter().any(|mapping| mapping.contains(address) && mapping.shared) {
        return Err(Refusal::SharedText);
    }
    if target.memory.read(address.0, &mut in_memory).is_err() {
        return Err(Refusal::NotMapped { binary: binary.path().display().to_string() });
    }
    if let Some(offset) = in_file.iter().zip(&in_memory).position(|(file, memory)| file != memory) {
        return Err(Refusal::TextDiffers { offset: offset as u64 });
    }
    if window.calls() && target.has_shadow_stack() {
        return Err(Refusal::ShadowStack);
    }
    if let Some(semaphore) = site.semaphore {
        let address = semaphore.0.wrapping_add(bias);
        if !counters::is_countable(&target.mappings, address) {
            return Err(Refusal::Semaphore { address });
        }
    }
    let function = if window.inside { window.address } else { function.address.0 };
    Ok(PlannedSite { window, bias, function, programs: site.programs.clone(), returns, hook: None })
}

/// A library that moves stacks elsewhere while others use their place (Python's greenlet).
fn copies_stacks(mapping: &Mapping) -> bool {
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    mapping.execute && name.contains("greenlet")
}

/// The functions that are to answer unwinders for islands too, if any of `sites` wants a return.
fn plan_hooks(target: &Target, sites: &[SiteRequest]) -> Result<Vec<PlannedSite>, Refusal> {
    let mut hooks: Vec<PlannedSite> = Vec::new();
    if !sites.iter().any(SiteRequest::wants_return) {
        return Ok(hooks);
    }
    unwind::survey::survey(target, |binary, function, question| {
        let window = &plan_functions(&[(binary, function)])[0];
        let request =
            SiteRequest { binary, function, window, semaphore: None, programs: Vec::new(), returns: None };
        let hook = window.clone().and_then(|window| plan_in_target(target, &request, window));
        let hook = hook.and_then(|hook| match hook.window.shape {
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
fn add_hooks(planned: &mut Vec<PlannedSite>, hooks: Vec<PlannedSite>) -> Vec<(usize, Refusal)> {
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

/// Outposts for punned sites, and where the jump of each leads to.
fn place_outposts(
    target: &Target,
    planned: &[PlannedSite],
    places: &[Place],
    stubs: Option<&Stubs>,
    images: &[Image],
) -> (Vec<Outpost>, BTreeMap<usize, u64>) {
    let entries = images.iter().flat_map(|image| &image.entries);
    let wanted: Vec<Wanted> = entries
        .filter_map(|entry| {
            let site = &planned[entry.site];
            Some(Wanted { targets: site.window.targets(site.bias)?, entry })
        })
        .collect();
    if wanted.is_empty() {
        return (Vec::new(), BTreeMap::new());
    }
    let mut taken = island::taken(&target.mappings);
    let stack = target.mappings.iter().find(|mapping| mapping.path == "[stack]");
    taken.extend(stack.map(|stack| stack.start.0.saturating_sub(limits::STACK_ROOM)..stack.start.0));
    taken.extend(places.iter().map(Place::range));
    taken.extend(stubs.map(|stubs| stubs.range().start..stubs.records().end));
    outpost::place(&wanted, &taken)
}

/// Address of the vDSO's clock_gettime in the target, 0 where there is none.
fn clock_function(target: &Target) -> u64 {
    let Some(mapping) = target.mappings.iter().find(|mapping| mapping.path == "[vdso]") else { return 0 };
    let mut image = vec![0; (mapping.end.0 - mapping.start.0) as usize];
    if target.memory.read(mapping.start.0, &mut image).is_err() {
        return 0;
    }
    let Ok(vdso) = Binary::parse(Path::new("[vdso]"), image) else { return 0 };
    vdso.symbol_value("__vdso_clock_gettime")
        .map_or(0, |(address, _)| mapping.start.0.wrapping_add(address.0))
}

/// CLOCK_MONOTONIC is the same there as here: it is, but in another time namespace (time_namespaces(7)).
fn shares_clock(target: &Target) -> bool {
    let namespace = |process: &str| match std::fs::metadata(format!("/proc/{process}/ns/time")) {
        Ok(file) => Some((file.dev(), file.ino())),
        // A kernel without time namespaces.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some((0, 0)),
        Err(_) => None,
    };
    namespace("self").is_some_and(|own| namespace(&target.pid.to_string()) == Some(own))
}

/// Probes in a live process. Dropped, it restores the text.
#[derive(Debug)]
pub struct Attachment {
    target: Target,
    segment: Segment,
    undo: Undo,
    outcomes: Vec<Result<String, Refusal>>,
    /// Where return addresses are replaced, if any are; and how many returns found no record when it was last swept.
    table: Option<Table>,
    swept_at: u64,
    /// Functions that answer unwinders, which returns cannot be probed without.
    hooks: usize,
    is_detached: bool,
}

impl Attachment {
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// For each requested site: how it was patched, or why not.
    pub fn outcomes(&self) -> &[Result<String, Refusal>] {
        &self.outcomes
    }

    /// Sites that were patched.
    pub fn probes(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    }

    /// Frees the records of returns that will never come, if some did not find any since: those of calls that were
    /// jumped over, and of threads that have ended. To be called now and then.
    pub fn sweep(&mut self) -> Result<usize, Error> {
        let missed = self.segment.counters().no_record;
        match self.table {
            Some(table) if missed > self.swept_at => {
                self.swept_at = missed;
                let stopped = self.target.stop()?;
                self.target.refresh()?;
                let freed = replace::sweep(&self.target, &stopped, &table);
                stopped.resume();
                freed
            }
            _ => Ok(0),
        }
    }

    /// Restores the text and takes everything out of the target again. The segment stays readable here.
    pub fn detach(&mut self) -> Result<Report, Error> {
        self.is_detached = true;
        let lowered = counters::plan_lowering(&self.segment, &self.target, &self.undo.counters);
        let report = self.undo.run(&mut self.target)?;
        let journal = self.segment.journal();
        lowered.into_iter().for_each(|index| journal.set_state(index, JournalState::Applied));
        for index in 0..self.undo.patches.len() {
            journal.set_state(index as u32, JournalState::Undone);
        }
        if report.left_mapped {
            self.segment.leave_behind();
        }
        Ok(report)
    }

    fn arm(&mut self, sites: &[SiteRequest], executables: &[Executable]) -> Result<(), Error> {
        self.target.refresh()?;
        let mut outcomes: Vec<Result<String, Refusal>> = Vec::with_capacity(sites.len());
        let mut planned = Vec::new();
        let mut request_of = Vec::new();
        let hooks = plan_hooks(&self.target, sites);
        for (index, site) in sites.iter().enumerate() {
            let can_unwind = if site.wants_return() { hooks.as_ref().err().cloned() } else { None };
            let window = can_unwind.map_or_else(|| site.window.clone(), Err);
            let outcome = window.and_then(|window| plan_in_target(&self.target, site, window));
            outcomes.push(match outcome {
                Ok(site) => {
                    let technique = site.window.technique();
                    planned.push(site);
                    request_of.push(index);
                    Ok(technique)
                }
                Err(refusal) => Err(refusal),
            });
        }
        let overlapping = add_hooks(&mut planned, hooks.unwrap_or_default());
        self.hooks = planned.iter().filter(|site| site.hook.is_some()).count();
        // The outcomes of hooks come behind those that were asked for, and are taken off at the end.
        for (hook, index) in planned[request_of.len()..].iter().zip(sites.len()..) {
            outcomes.push(Ok(hook.window.technique()));
            request_of.push(index);
        }
        let (target, segment) = (&self.target, &self.segment);
        let maps = segment.layout().maps.len();
        let (places, refused) = island::place(&planned, executables, maps, &target.mappings);
        let mut places = places;
        let unmovable = places.iter_mut().flat_map(|place| island::drop_unmovable(place, &planned));
        for (site, refusal) in refused.into_iter().chain(unmovable.collect::<Vec<_>>()).chain(overlapping) {
            outcomes[request_of[site]] = Err(refusal);
        }
        let stubs = island::place_stubs(&planned, &places, &target.mappings, self.undo.segment.start);
        if let Err(refusal) = &stubs {
            for (site, &index) in planned.iter().zip(&request_of) {
                if site.returns == Some(Returns::Replace) {
                    outcomes[index] = Err(refusal.clone());
                }
            }
        }
        let stubs = stubs.unwrap_or_default();
        let clock_gettime = if target.has_tsc { clock_function(target) } else { 0 };
        let words = weir_rt::runtime::Island {
            segment: self.undo.segment.start,
            clock_gettime,
            pid: target.pid as u32,
            // The word at the stack pointer is a return address only where every site is an entry.
            flags: if planned.iter().any(|site| site.window.inside) {
                0
            } else {
                weir_rt::runtime::Island::AT_ENTRY
            } | if target.has_seccomp { weir_rt::runtime::Island::NO_SYSTEM_CALLS } else { 0 }
                | if clock_gettime != 0 && shares_clock(target) {
                    weir_rt::runtime::Island::READS_TICKS
                } else {
                    0
                },
            pid_namespace: weir_rt::runtime::pid_namespace(target.pid as u32),
            print: 0,
            tick_ns: weir_rt::runtime::tick_ns(),
        };
        let images = places
            .iter()
            .map(|place| {
                island::generate_image(place, &places, &planned, executables, segment, words, stubs.as_ref())
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (outposts, landings) = place_outposts(target, &planned, &places, stubs.as_ref(), &images);
        self.undo.islands =
            places.iter().map(Place::range).chain(outposts.iter().map(Outpost::range)).collect();
        self.undo.islands.extend(stubs.iter().flat_map(|stubs| [stubs.range(), stubs.records()]));
        self.table = stubs.as_ref().map(|stubs| stubs.table);
        self.outcomes = outcomes;
        let mut todo: Vec<Jump> = Vec::new();
        for entry in images.iter().flat_map(|image| &image.entries) {
            let site = &planned[entry.site];
            if self.outcomes[request_of[entry.site]].is_err() {
                continue;
            }
            let landing = match site.window.targets(site.bias) {
                None => entry.address,
                Some(_) => match landings.get(&entry.site) {
                    Some(&landing) => landing,
                    None => {
                        self.outcomes[request_of[entry.site]] = Err(Refusal::NoRoom);
                        continue;
                    }
                },
            };
            todo.push(Jump::new(entry.site, site, landing, &entry.places));
            self.undo.places.extend(entry.places.iter().copied());
            // Where a thread stands that has come from the function, and has done nothing yet.
            if landing != entry.address {
                self.undo.places.insert(landing, site.patch_address());
            }
        }
        let semaphores: Vec<(usize, u64)> = planned
            .iter()
            .zip(&request_of)
            .filter_map(|(site, &index)| {
                Some((index, sites.get(index)?.semaphore?.0.wrapping_add(site.bias)))
            })
            .collect();
        let code = Generated { places, images, stubs, outposts };
        self.patch(todo, &request_of, &code, &semaphores)?;
        self.outcomes.truncate(sites.len());
        Ok(())
    }

    /// The stop in which everything becomes visible to the target.
    fn patch(
        &mut self,
        mut todo: Vec<Jump>,
        request_of: &[usize],
        code: &Generated,
        semaphores: &[(usize, u64)],
    ) -> Result<(), Error> {
        let mut stopped = self.target.stop()?;
        self.target.refresh()?;
        let unmapped = map_islands(&self.target, &mut stopped, code)?;
        todo.retain(|jump| !unmapped.contains(&jump.site));
        for &site in &unmapped {
            self.outcomes[request_of[site]] = Err(Refusal::NoRoom);
        }
        self.segment.set_place(&SegmentPlace {
            segment_address: self.undo.segment.start,
            gate_address: code.places.first().map_or(0, Place::gate),
            islands: code
                .places
                .iter()
                .map(Place::range)
                .chain(code.stubs.as_ref().map(Stubs::range))
                .map(|range| (range.start, range.end - range.start))
                .collect(),
        });
        for try_number in 0.. {
            let busy = busy_threads(&self.target, &stopped, &todo)?;
            if busy.is_empty() {
                break;
            }
            if try_number == RETRIES_MAX {
                for (site, tid) in &busy {
                    self.outcomes[request_of[*site]] = Err(Refusal::Busy { tid: *tid });
                }
                todo.retain(|jump| !busy.contains_key(&jump.site));
                break;
            }
            stopped.resume();
            thread::sleep(Duration::from_millis(1));
            stopped = self.target.stop()?;
            self.target.refresh()?;
        }
        // A launched command has not begun to run yet: it may wait.
        if stopped.elapsed() > limits::STOP_MAX && !self.target.launched {
            let (pid, limit_ms) = (self.target.pid, limits::STOP_MAX.as_millis());
            return Err(Error::StopTooLong { pid, limit_ms });
        }
        self.write_jumps(&stopped, &mut todo, request_of)?;
        for place in &code.places {
            let open = 1u64.to_le_bytes();
            self.target.memory.write(place.gate(), &open).map_err(|e| Error::system("opening a gate", e))?;
        }
        let patched = semaphores.iter().filter(|(index, _)| self.outcomes[*index].is_ok());
        let addresses: BTreeSet<u64> = patched.map(|&(_, address)| address).collect();
        for address in addresses {
            counters::raise(&self.segment, &self.target, address)?;
            self.undo.counters.push(address);
        }
        stopped.resume();
        self.target.launched = false;
        Ok(())
    }

    fn write_jumps(
        &mut self,
        stopped: &Stopped,
        todo: &mut Vec<Jump>,
        request_of: &[usize],
    ) -> Result<(), Error> {
        let memory = &self.target.memory;
        todo.retain(|jump| {
            let difference = jump.unlike_file(memory);
            if let Some(offset) = difference {
                self.outcomes[request_of[jump.site]] = Err(Refusal::TextDiffers { offset });
            }
            difference.is_none()
        });
        let (hooks_wanted, hooks) = (self.hooks, todo.iter().filter(|jump| jump.is_hook).count());
        if hooks < hooks_wanted {
            todo.retain(|jump| {
                if jump.returns {
                    let detail = "a function that it asks cannot be hooked".into();
                    self.outcomes[request_of[jump.site]] = Err(Refusal::UnwinderUnknown { detail });
                }
                !jump.returns
            });
        }
        let journal = self.segment.journal();
        let mut entries = Vec::new();
        for jump in todo.iter() {
            let leads_from = |write: &Write| (write.address != jump.address).then_some(jump.address);
            for write in &jump.writes {
                let entry = journal.push(write.address, &write.old, &write.new);
                entries.push(entry.expect("the journal has entries for every write of each site"));
                let (is_hook, is_probe) = (jump.is_hook, jump.is_probe);
                self.undo.patches.push(Patch { is_hook, is_probe, ..Patch::of(write, leads_from(write)) });
            }
        }
        for tid in stopped.threads() {
            let mut registers = stopped.registers(tid)?;
            if let Some(to) = todo.iter().find_map(|jump| jump.moved(registers.rip)) {
                registers.rip = to;
                stopped.set_registers(tid, registers)?;
            }
        }
        let writes = todo.iter().flat_map(|jump| &jump.writes);
        for (write, entry) in writes.zip(entries) {
            memory.write(write.address, &write.new).map_err(|e| Error::system("writing a jump", e))?;
            journal.set_state(entry, JournalState::Applied);
        }
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_detached {
            // The target may be gone; then there is nothing to restore.
            let _ = self.detach();
        }
    }
}

/// One site to patch.
#[derive(Debug)]
struct Jump {
    site: usize,
    /// Of the first displaced instruction.
    address: u64,
    /// What is written, the jump at `address` last.
    writes: Vec<Write>,
    /// The bytes of the displaced instructions, and of padding behind them.
    displaced_bytes: u64,
    /// What must be at `address` as in the file: those, and what a punned jump borrows.
    covered: Vec<u8>,
    /// For each displaced instruction but the first: its address, and where it stands in the trampoline.
    interior: Vec<(u64, u64)>,
    /// It answers unwinders.
    is_hook: bool,
    is_probe: bool,
    /// Its return is probed too.
    returns: bool,
}

impl Jump {
    fn new(site: usize, planned: &PlannedSite, landing: u64, places: &[(u64, u64)]) -> Jump {
        let (window, address) = (&planned.window, planned.patch_address());
        let inside = |original: u64| address < original && original < address + window.bytes.len() as u64;
        let interior =
            places.iter().filter(|place| inside(place.1)).map(|&(to, original)| (original, to)).collect();
        let writes = window.writes(planned.bias, landing);
        let displaced_bytes = (window.bytes.len() + window.padding.len()) as u64;
        let covered = window.covered();
        let returns = planned.programs.iter().any(|program| program.when.wants_return());
        let (is_hook, is_probe) = (planned.hook.is_some(), !planned.programs.is_empty());
        Jump { site, address, writes, displaced_bytes, covered, interior, is_hook, is_probe, returns }
    }

    /// Offset from the window of bytes that are not as in the file.
    fn unlike_file(&self, memory: &sys::Memory) -> Option<u64> {
        let writes = self.writes.iter().map(|write| (write.address, &write.old));
        writes.chain([(self.address, &self.covered)]).find_map(|(address, old)| {
            let mut now = vec![0; old.len()];
            let is_same = memory.read(address, &mut now).is_ok() && now == *old;
            (!is_same).then(|| address.saturating_sub(self.address))
        })
    }

    /// Where a thread at `address` goes on, if that is inside this window.
    fn moved(&self, address: u64) -> Option<u64> {
        self.interior.iter().find(|place| place.0 == address).map(|place| place.1)
    }

    fn contains(&self, address: u64) -> bool {
        let is_inside = self.address < address && address < self.address + self.displaced_bytes;
        is_inside
            || self.writes.iter().any(|w| w.address < address && address < w.address + w.new.len() as u64)
    }
}

/// Sites whose inside a stopped thread would come back to by a way that cannot be changed: by site, such a thread.
fn busy_threads(target: &Target, stopped: &Stopped, todo: &[Jump]) -> Result<BTreeMap<usize, i32>, Error> {
    let mut interiors: HashMap<u64, usize> = HashMap::new();
    for jump in todo {
        interiors.extend(jump.interior.iter().map(|&(original, _)| (original, jump.site)));
    }
    let mut busy = BTreeMap::new();
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        // Between two instruction heads there is no place to go on; it cannot happen to a thread that runs the
        // function's own instructions.
        if let Some(jump) =
            todo.iter().find(|jump| jump.contains(registers.rip) && jump.moved(registers.rip).is_none())
        {
            busy.insert(jump.site, tid);
        }
        let found = stack::scan(&target.memory, &target.mappings, registers.rsp, &|word| {
            interiors.contains_key(&word)
        });
        busy.extend(found.words.iter().filter_map(|word| interiors.get(word)).map(|&site| (site, tid)));
    }
    Ok(busy)
}

/// Everything that is to be mapped.
struct Generated {
    places: Vec<Place>,
    /// One for each place.
    images: Vec<Image>,
    stubs: Option<Stubs>,
    outposts: Vec<Outpost>,
}

/// Maps the generated code and the gate pages into the stopped target.
fn map_islands(target: &Target, stopped: &mut Stopped, code: &Generated) -> Result<Vec<usize>, Error> {
    if code.places.is_empty() {
        return Ok(Vec::new());
    }
    let mut unmapped = Vec::new();
    let mut remote = Borrowed::new(stopped, target)?;
    with_memfd(target, &mut remote, CODE_NAME, |remote, remote_fd, fd| {
        let file = File::from(fd);
        let mut offset = 0;
        for (place, image) in code.places.iter().zip(&code.images) {
            map_island(remote, place, image, &file, remote_fd, offset)?;
            offset += place.bytes - PAGE;
        }
        if let Some(stubs) = &code.stubs {
            map_code(remote, stubs.range().start, &stubs.image, &file, remote_fd, offset)?;
        }
        Ok(())
    })?;
    if let Some(stubs) = &code.stubs {
        with_memfd(target, &mut remote, RECORDS_NAME, |remote, remote_fd, fd| {
            map_records(remote, stubs, &File::from(fd), remote_fd)
        })?;
    }
    if !code.outposts.is_empty() {
        with_memfd(target, &mut remote, OUTPOST_NAME, |remote, remote_fd, fd| {
            let file = File::from(fd);
            let mut offset = 0;
            for outpost in &code.outposts {
                // The target may have mapped something there meanwhile.
                if map_code(remote, outpost.address, &outpost.bytes, &file, remote_fd, offset).is_err() {
                    unmapped.extend(&outpost.sites);
                }
                offset += outpost.bytes.len() as u64;
            }
            Ok(())
        })?;
    }
    remote.finish()?;
    Ok(unmapped)
}

/// Whole pages of code at a fixed address, from `offset` of the memfd on.
fn map_code(
    remote: &mut Borrowed,
    address: u64,
    bytes: &[u8],
    file: &File,
    remote_fd: u64,
    offset: u64,
) -> Result<(), Error> {
    let length = (bytes.len() as u64).next_multiple_of(PAGE);
    let written = file.set_len(offset + length).and_then(|()| file.write_all_at(bytes, offset));
    written.map_err(|source| Error::system("writing generated code", source))?;
    let execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let shared = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
    remote.call("mmap", libc::SYS_mmap, [address, length, execute, shared, remote_fd, offset]).map(|_| ())
}

/// The records of replaced return addresses: private, so that fork children have their own.
fn map_records(remote: &mut Borrowed, stubs: &Stubs, file: &File, remote_fd: u64) -> Result<(), Error> {
    let records = stubs.records();
    let length = records.end - records.start;
    let first = stubs.table.first_record();
    let written = file.set_len(length).and_then(|()| file.write_all_at(&first, 0));
    written.map_err(|source| Error::system("writing the first record", source))?;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
    remote
        .call("mmap", libc::SYS_mmap, [records.start, length, protection, private, remote_fd, 0])
        .map(|_| ())
}

/// One island: its code from `offset` of the memfd on, and its gate page.
fn map_island(
    remote: &mut Borrowed,
    place: &Place,
    image: &Image,
    file: &File,
    remote_fd: u64,
    offset: u64,
) -> Result<(), Error> {
    let mut code = image.bytes.clone();
    code.resize((place.bytes - PAGE) as usize, 0);
    map_code(remote, place.address, &code, file, remote_fd, offset)?;
    let fixed = libc::MAP_FIXED_NOREPLACE as u64;
    let data = libc::PROT_READ | libc::PROT_WRITE;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 | fixed;
    remote.call("mmap", libc::SYS_mmap, [place.gate(), PAGE, data as u64, private, u64::MAX, 0])?;
    let wipe = libc::MADV_WIPEONFORK as u64;
    remote.call("madvise", libc::SYS_madvise, [place.gate(), PAGE, wipe, 0, 0, 0])?;
    Ok(())
}
