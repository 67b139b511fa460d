//! `--filter`: the clauses of a script at events run only for those that the filter accepts.
//!
//! In: a module, the filter's text, the files. Out: the same module, with the filter in front of each clause that is at a
//! probe. It is compiled against the event at each place, so that places where its fields are read in different ways
//! become functions of their own. Clauses that run in weir itself are left as they are.
//!
//! A hit that the filter rejects is a hit: programs count before all else.

use anyhow::anyhow;
use weir_event::MapSchema;
use weir_ir::{Function, Module, Trigger};
use weir_source::Diagnostic;

use crate::event::fetch::Fetched;
use crate::event::text::{Text, Told};
use crate::event::{self, Event};
use crate::failure::Failure;
use crate::options::Options;
use weir_world::Binaries;

/// Ways in which the filter's fields may be read at the places of one clause: each is a program of its own.
const WAYS_MAX: usize = 64;

/// Reads the filter that was given, if one was.
pub(super) fn text(options: &Options) -> Result<Option<Text>, Failure> {
    let given = options.filter.as_deref();
    given.map(|text| Text::parse(text, options.dialect)).transpose()
}

/// The filter of a clause, if it has one, and the fields that the user has named there.
pub(super) type Filtered<'a> = (Option<&'a Text>, &'a [Fetched]);

/// Puts filters in front of the clauses; warnings go to `warn`, with the filter as their source.
///
/// Panics if one of these fields cannot be fetched: whoever names them has looked.
pub(super) fn put_each(
    module: &mut Module,
    filters: &[Filtered<'_>],
    world: &Binaries,
    warn: &mut dyn FnMut(&Text, &[Diagnostic]),
) -> Result<(), Failure> {
    if let Some(map) = module.schema.maps.iter().find(|map| is_of_filter(map)) {
        let name = &map.name;
        return Err(Failure::Refused(anyhow!("maps named {STATE}… are of filters: name {name} otherwise")));
    }
    // By filter, since what is told stands under its text.
    let mut told: Vec<(&Text, Told, Told)> = Vec::new();
    let mut functions = Vec::with_capacity(module.functions.len());
    let mut is_at_event = false;
    for (function, &(text, fetched)) in std::mem::take(&mut module.functions).into_iter().zip(filters) {
        is_at_event |= function.trigger.is_probe();
        let Some(text) = text.filter(|_| function.trigger.is_probe()) else {
            functions.push(function);
            continue;
        };
        if !told.iter().any(|(known, ..)| known.source.text == text.source.text) {
            told.push((text, Told::default(), Told::default()));
        }
        let of_text = told.iter_mut().find(|(known, ..)| known.source.text == text.source.text);
        // SANITY: it was just added.
        let (_, faults, warnings) = of_text.expect("a filter");
        // SANITY: as promised above.
        let with = |event: Event| event.with(fetched).expect("a field that can be fetched");
        let events: Vec<Event> = event::events(&function, world).into_iter().map(with).collect();
        let ways = ways(text, &events, faults, warnings);
        if ways.len() > WAYS_MAX {
            return Err(Failure::Refused(anyhow!(
                "the filter's fields are read in {} different ways at the places of {}, the limit is {WAYS_MAX}: narrow \
                 the pattern",
                ways.len(),
                function.name
            )));
        }
        let (first_map, number) = (module.schema.maps.len() as u32, functions.len());
        let state = ways.first().map_or_else(Vec::new, |(filter, _)| filter.schema.maps.clone());
        // One for all places of the clause.
        module.schema.maps.extend(state.into_iter().map(|map| of_clause(map, number)));
        for (filter, places) in ways {
            let mut clause = Function { trigger: at_places(&function.trigger, &places), ..function.clone() };
            weir_ir::filter::guard(&mut clause, &filter.functions[0], first_map);
            functions.push(clause);
        }
    }
    for (text, faults, _) in &mut told {
        if !faults.diagnostics.is_empty() {
            return Err(Failure::Text(text.source.clone(), std::mem::take(&mut faults.diagnostics)));
        }
    }
    if !is_at_event {
        return Err(Failure::Refused(anyhow!(
            "--filter is for events, and no clause of the script is at one: add a `usdt`, `lttng`, `uprobe` or `uretprobe`"
        )));
    }
    for (text, _, warnings) in &told {
        if !warnings.diagnostics.is_empty() {
            warn(text, &warnings.diagnostics);
        }
    }
    module.functions = functions;
    weir_ir::pass::optimise(module);
    Ok(())
}

/// How names of maps begin that are a filter's state.
const STATE: &str = "@__filter";

/// A map of the filter's state, for a clause.
fn of_clause(map: MapSchema, clause: usize) -> MapSchema {
    MapSchema { name: format!("{STATE}{clause}_{}", map.name.trim_start_matches('@')), ..map }
}

/// Whether a map is of the state of a filter, and not the script's.
pub(super) fn is_of_filter(map: &MapSchema) -> bool {
    map.name.starts_with(STATE)
}

/// The filter as it is at the events, and the places where it is so.
fn ways(text: &Text, events: &[Event], faults: &mut Told, warnings: &mut Told) -> Vec<(Module, Vec<usize>)> {
    let mut ways: Vec<(Module, Vec<usize>)> = Vec::new();
    for (place, event) in events.iter().enumerate() {
        match text.at(event) {
            Ok((filter, new)) => {
                warnings.add(new, event);
                let is_same = |(known, _): &&mut (Module, _)| known.functions == filter.functions;
                match ways.iter_mut().find(is_same) {
                    Some((_, places)) => places.push(place),
                    None => ways.push((filter, vec![place])),
                }
            }
            Err(new) => faults.add(new, event),
        }
    }
    ways
}

/// Those of the places that have these numbers.
pub(super) fn at_places(trigger: &Trigger, places: &[usize]) -> Trigger {
    fn chosen<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
        places.iter().map(|&place| all[place].clone()).collect()
    }
    match trigger {
        Trigger::Uprobe { sites } => Trigger::Uprobe { sites: chosen(sites, places) },
        Trigger::Uretprobe { sites } => Trigger::Uretprobe { sites: chosen(sites, places) },
        Trigger::Usdt { sites } => Trigger::Usdt { sites: chosen(sites, places) },
        other => unreachable!("a clause at {other:?} has no events"),
    }
}
