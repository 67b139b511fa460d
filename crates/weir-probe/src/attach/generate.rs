//! Makes the code for planned sites: islands of trampolines, the stubs of replaced returns, outposts of punned jumps.
//!
//! In: [`PlannedSite`]s of an [`Attachment`]. Out: [`Generated`]: images, where each is to be mapped, what each site's jump
//! leads to, and the sites that there is no room for. Nothing is stopped and nothing is changed; what would take more
//! memory of the target than it may is refused as a whole. Not here: the bytes themselves ([`weir_trampoline`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use weir_plan::Refusal;
use weir_plan::returns::Returns;
use weir_rt::abi::header;
use weir_symbols::Binary;
use weir_symbols::maps::Mapping;
use weir_trampoline::island::{self, Image, Meters, Place, PlannedSite, Stubs, Told};
use weir_trampoline::outpost::{self, Outpost, Wanted};

use crate::attach::state::Attachment;
use crate::limits;
use crate::process::target::Target;
use crate::refusal::Error;

/// Code that was generated for a list of planned sites, and where it is to be mapped.
pub(crate) struct Generated {
    pub(crate) places: Vec<Place>,
    /// One for each place.
    pub(crate) images: Vec<Image>,
    /// To be mapped.
    pub(crate) stubs: Option<Stubs>,
    pub(crate) outposts: Vec<Outpost>,
    /// By site: where its jump leads to, if that is an outpost.
    pub(crate) landings: BTreeMap<usize, u64>,
    pub(crate) refused: Vec<(usize, Refusal)>,
}

impl Generated {
    pub(crate) fn entries(&self) -> impl Iterator<Item = &island::Entry> {
        self.images.iter().flat_map(|image| &image.entries)
    }

    /// Nothing of `mappings` lies where islands and stubs are to be. (Outposts are mapped one by one, where there is room.)
    pub(crate) fn fits(&self, mappings: &[Mapping]) -> bool {
        let code = self.places.iter().map(Place::range);
        let mut code = code.chain(self.stubs.iter().map(|stubs| stubs.range().start..stubs.records().end));
        let is_free = |range: &Range<u64>| {
            !mappings.iter().any(|mapping| mapping.start.0 < range.end && range.start < mapping.end.0)
        };
        code.all(|range| is_free(&range))
    }

    /// What it takes of the target's addresses.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let code = self.places.iter().map(Place::range).chain(self.outposts.iter().map(Outpost::range));
        code.chain(self.stubs.iter().flat_map(|stubs| [stubs.range(), stubs.records()])).collect()
    }
}

pub(crate) fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

impl Attachment {
    /// Generates islands with a trampoline for each of `planned`, and outposts where it is `new`; `apart` as for
    /// [`island::place`].
    pub(crate) fn generate(
        &self,
        planned: &[PlannedSite],
        is_new: &dyn Fn(usize) -> bool,
        apart: u64,
    ) -> Result<Generated, Error> {
        let (target, segment, executables) = (&self.target, &*self.maps, &self.consumers.executables);
        let maps = segment.layout().maps.len();
        let (mut places, mut refused) = island::place(planned, executables, maps, &target.mappings, apart);
        refused.extend(places.iter_mut().flat_map(|place| island::drop_unmovable(place, planned)));
        // One more for stubs.
        let is_full = self.consumers.islands.len() + places.len() >= limits::ISLANDS_MAX;
        if is_full {
            refused
                .extend(places.drain(..).flat_map(|place| place.sites).map(|site| (site, Refusal::NoRoom)));
        }
        let (new_stubs, without) = self.place_stubs(planned, &places, apart);
        refused.extend(without);
        let stubs = self.stubs.as_ref().or(new_stubs.as_ref());
        let told = Told { words: self.words(), meters: self.meters(), stubs };
        let all: Vec<Place> = places.iter().chain(&self.consumers.islands).cloned().collect();
        let images = places
            .iter()
            .map(|place| island::generate_image(place, &all, planned, executables, segment, told))
            .collect::<Result<Vec<_>, _>>();
        let images = images.map_err(|error| Error::Link { pid: target.pid(), detail: error.to_string() })?;
        let (outposts, landings) = place_outposts(target, planned, &places, stubs, &images, is_new);
        let generated = Generated { places, images, stubs: new_stubs, outposts, landings, refused };
        self.afford(&generated)?;
        Ok(generated)
    }

    /// Refuses what would take more memory of the target than it may.
    fn afford(&self, generated: &Generated) -> Result<(), Error> {
        let code = bytes_of(&self.undo.islands) + bytes_of(&generated.ranges());
        let needed = self.maps.bytes_allocated() + self.control.layout().bytes + code;
        let (pid, allowed) = (self.target.pid, self.target.allowance.bytes);
        if needed > allowed { Err(Error::TooMuchMemory { pid, needed, code, allowed }) } else { Ok(()) }
    }

    /// Stubs for `planned` where there are none yet, and the sites that they are missing for.
    fn place_stubs(
        &self,
        planned: &[PlannedSite],
        places: &[Place],
        apart: u64,
    ) -> (Option<Stubs>, Vec<(usize, Refusal)>) {
        let mappings = &self.target.mappings;
        let wanted = island::place_stubs(planned, places, mappings, self.maps_address, apart);
        let fits = |there: &Stubs, wanted: &Stubs| wanted.table.record_shift <= there.table.record_shift;
        let refusal = match (wanted, &self.stubs) {
            (Ok(None), _) => return (None, Vec::new()),
            (Ok(Some(stubs)), None) => return (Some(stubs), Vec::new()),
            (Ok(Some(wanted)), Some(there)) if fits(there, &wanted) => return (None, Vec::new()),
            // Records have the size that the first consumers' sessions need.
            (Ok(Some(_)), Some(_)) | (Err(_), _) => Refusal::ReturnNoRoom,
        };
        let replaced = planned.iter().zip(0..).filter(|(site, _)| site.returns == Some(Returns::Replace));
        (None, replaced.map(|(_, site)| (site, refusal.clone())).collect())
    }

    /// What the runtime of an island is told.
    fn words(&self) -> weir_rt::runtime::Island {
        use weir_rt::runtime::Island;
        let target = &self.target;
        let clock_gettime = if target.has_tsc { clock_function(target) } else { 0 };
        let reads_ticks = clock_gettime != 0 && shares_clock(target);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        Island {
            segment: self.maps_address,
            clock_gettime,
            pid: target.pid as u32,
            flags: flag(target.has_seccomp, Island::NO_SYSTEM_CALLS) | flag(reads_ticks, Island::READS_TICKS),
            pid_namespace: weir_rt::runtime::pid_namespace(target.pid as u32),
            print: 0,
            tick_ns: weir_rt::runtime::tick_ns(),
            rseq: self.target.rseq().unwrap_or(0),
            filter: self.filter_word(),
        }
    }

    /// Address of the lease in the target.
    pub(crate) fn lease(&self) -> u64 {
        self.maps_address + header::LEASE as u64
    }

    fn meters(&self) -> Meters {
        let first = self.control_address + self.control.layout().meters_offset;
        let filter = self.target.has_tsc.then(|| self.filter_word());
        Meters { lease: self.lease(), first, filter }
    }
}

/// Outposts for punned sites, and where the jump of each leads to.
fn place_outposts(
    target: &Target,
    planned: &[PlannedSite],
    places: &[Place],
    stubs: Option<&Stubs>,
    images: &[Image],
    is_new: &dyn Fn(usize) -> bool,
) -> (Vec<Outpost>, BTreeMap<usize, u64>) {
    let entries = images.iter().flat_map(|image| &image.entries).filter(|entry| is_new(entry.site));
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
