//! What a run has covered: which places were patched and which were not, and how often each probe ran and was missed.
//!
//! In: the places with their outcomes, the maps at the end. Out: what is reported of it when the run begins, and values for the
//! report. Nothing is left out silently: what could not be patched is told by its reason while the run begins, and
//! misses at its end; with `-v`, and in JSON, all of the numbers are.

use std::collections::{BTreeMap, BTreeSet};

use weir_codegen::{Compiled, HITS_ENTRIES, HITS_RETURNS};
use weir_ir::Trigger;
use weir_probe::{Outcome, Pending, Refusal};
use weir_report::{Loads, ProbeHits, ProcessCounts, Summary};
use weir_rt::segment::Counters;

use crate::notice::NotProbed;
use crate::stages::{self, Site};
use crate::store::{Store, word};

/// Outcomes of patching, by reason code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Coverage {
    places: usize,
    attached: usize,
    refused: BTreeMap<String, u64>,
    /// Places whose library is not loaded, or never was.
    awaited: usize,
    loads: Loads,
    /// Places that are probed at the entry alone, though a program wants the return.
    returns_refused: BTreeMap<String, u64>,
}

impl Coverage {
    pub(crate) fn of(sites: &[Site], outcomes: &[Outcome], loads: Loads) -> Coverage {
        let places = sites.iter().filter(|site| !site.is_exit).count();
        let mut coverage = Coverage { places, loads, ..Coverage::default() };
        // By function: one of several exits is enough for returns to be missing.
        let mut half_seen = BTreeSet::new();
        for (site, outcome) in sites.iter().zip(outcomes) {
            match outcome {
                // Of the function's entry there is a line already.
                Err(refusal) if site.is_exit && !refusal.is_awaited() => {
                    if !half_seen.insert((&site.path, site.function.address.0)) {
                        continue;
                    }
                    *coverage.returns_refused.entry(refusal.code()).or_default() += 1;
                }
                _ if site.is_exit => {}
                Err(refusal) if refusal.is_awaited() => coverage.awaited += 1,
                Err(refusal) => *coverage.refused.entry(refusal.code()).or_default() += 1,
                Ok(_) => coverage.attached += 1,
            }
            if let (Ok(_), Some(refusal)) = (outcome, site.returns_refusal(Some(outcome))) {
                *coverage.returns_refused.entry(refusal.code()).or_default() += 1;
            }
        }
        coverage
    }

    /// Of places of which the kernel does not take some.
    pub(crate) fn of_kernel(places: usize, refused: usize) -> Coverage {
        let codes = (refused > 0).then(|| ("kernel".to_owned(), refused as u64));
        let attached = places - refused;
        Coverage { places, attached, refused: codes.into_iter().collect(), ..Coverage::default() }
    }

    /// With those of another process.
    pub(crate) fn add(&mut self, other: &Coverage) {
        self.places += other.places;
        self.attached += other.attached;
        self.awaited += other.awaited;
        self.loads.add(&other.loads);
        let pairs =
            [(&mut self.refused, &other.refused), (&mut self.returns_refused, &other.returns_refused)];
        for (all, more) in pairs {
            more.iter().for_each(|(code, count)| *all.entry(code.clone()).or_default() += count);
        }
    }

    /// No place was probed, or waits for its library.
    pub(crate) fn is_empty(&self) -> bool {
        self.attached + self.awaited == 0
    }

    /// What is not probed; `is_verbose`: each place by its name.
    pub(crate) fn not_probed(
        &self,
        sites: &[Site],
        outcomes: &[Outcome],
        process: Option<i32>,
        is_verbose: bool,
    ) -> NotProbed {
        let line = |site: &Site, refusal: &Refusal| format!("{}: {refusal}", site.label(refusal));
        let each = || {
            let all = || sites.iter().zip(outcomes);
            let places = all().filter(|(site, _)| !site.is_exit);
            let places = places.filter_map(|(site, outcome)| Some(line(site, outcome.as_ref().err()?)));
            let returns = all().filter(|(site, outcome)| outcome.is_ok() != site.is_exit);
            let returns = returns.filter_map(|(site, outcome)| {
                let refusal = site.returns_refusal(Some(outcome)).or(outcome.as_ref().err());
                Some(line(site, refusal?))
            });
            (places.collect(), returns.collect())
        };
        NotProbed {
            process,
            places: self.places,
            what: stages::places(sites),
            refused: self.refused.clone(),
            returns_refused: self.returns_refused.clone(),
            each: is_verbose.then(each),
        }
    }

    /// With what the programs have counted, if they have.
    pub(crate) fn summary(
        &self,
        compiled: &Compiled,
        maps: &dyn Store,
        counters: &Counters,
        pending: &Pending,
        processes: ProcessCounts,
    ) -> Summary {
        let hits = compiled.hits.map_or_else(Vec::new, |map| hits(compiled, maps, map, pending));
        Summary {
            places: self.places as u64,
            attached: self.attached as u64,
            awaited: self.awaited as u64,
            loads: self.loads,
            refused: self.refused.clone(),
            returns_refused: self.returns_refused.clone(),
            tail_depth: counters.tail_depth,
            no_record: counters.no_record,
            no_lane: counters.lanes_exhausted,
            probes: hits,
            processes,
            rails: None,
        }
    }
}

fn hits(compiled: &Compiled, maps: &dyn Store, map: u32, pending: &Pending) -> Vec<ProbeHits> {
    let counts = |program: usize| {
        let value = maps.lookup(map, &(program as u32).to_le_bytes()).unwrap_or_default();
        (word(&value, HITS_ENTRIES), word(&value, HITS_RETURNS))
    };
    let programs = compiled.object.programs.iter().zip(&compiled.triggers).enumerate();
    let probes = programs.filter(|(_, (_, trigger))| trigger.is_probe());
    let hits = |(index, (program, trigger)): (usize, (&weir_ebpf::Program, &Trigger))| {
        let (entries, returns) = counts(index);
        let wants_return = matches!(trigger, Trigger::Uretprobe { .. } | Trigger::Session { .. });
        let pending = pending.get(&index).copied().unwrap_or(0);
        ProbeHits { probe: program.name.clone(), entries, returns: wants_return.then_some(returns), pending }
    };
    probes.map(hits).collect()
}
