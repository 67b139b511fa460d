//! `--snapshot-on`: which events of a recording ask for a snapshot.
//!
//! In: the expression, and the event at each place. Out: in front of the clause's body the questions of [`weir_ir::flight`], with the
//! expression as it is there. An event that lacks a field which the expression names does not ask; what else is wrong with the expression at
//! an event is a fault, and so is one that no event has the fields of.

use weir_codegen::Compiled;
use weir_event::{MapSchema, MapValue, Type};
use weir_ir::flight::{self, Words};
use weir_ir::{Function, MapId, Module};
use weir_rt::segment::Segment;

use crate::args::record::Record;
use crate::event::Event;
use crate::event::text::{Text, Told};
use crate::failure::Failure;

/// The expression.
pub(super) struct Asks {
    text: Text,
}

/// What was found wrong with it, over all events.
#[derive(Default)]
pub(super) struct Faults {
    told: Told,
    /// Of events that lack a field.
    lacking: Told,
    /// Some event can ask.
    is_any: bool,
}

/// Where programs and the controller meet, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    pub(super) armed: usize,
    pub(super) hold: usize,
    pub(super) asked: usize,
    pub(super) held: usize,
}

const NAMES: [&str; 4] = ["@__flight_armed", "@__flight_hold", "@__flight_asked", "@__flight_held"];

impl Asks {
    pub(super) fn given(args: &Record) -> Result<Option<Asks>, Failure> {
        let Some(text) = &args.flight.snapshot_on else { return Ok(None) };
        let text = Text::parse_as("<snapshot-on>", text, args.dialect.into())?;
        Ok(Some(Asks { text }))
    }

    /// Adds the maps that all clauses share.
    pub(super) fn add_maps(&self, module: &mut Module) -> Words {
        let first = module.schema.maps.len() as u32;
        let map = |name: &str| MapSchema {
            name: name.to_owned(),
            map_index: 0,
            key: None,
            value: MapValue::Plain(Type::U64),
        };
        module.schema.maps.extend(NAMES.map(map));
        let [armed, hold, asked, held] = [0, 1, 2, 3].map(|at| MapId(first + at));
        Words { armed, hold, asked, held }
    }

    /// The expression as it is at an event; none where that does not ask.
    pub(super) fn at(&self, event: &Event, faults: &mut Faults) -> Option<Module> {
        let has_all = self.text.has_fields(event);
        match self.text.at(event) {
            Ok((module, _)) if has_all => {
                faults.is_any = true;
                Some(module)
            }
            Err(new) if has_all => {
                faults.told.add(new, event);
                None
            }
            // In LTTng's dialect that is no fault: nothing passes.
            Ok((_, new)) | Err(new) => {
                faults.lacking.add(new, event);
                None
            }
        }
    }

    /// Puts it around a clause that records.
    pub(super) fn put(&self, clause: &mut Function, at: Option<&Module>, words: Words, module: &mut Module) {
        let first_map = module.schema.maps.len() as u32;
        let state = at.map_or(&[][..], |at| &at.schema.maps);
        module.schema.maps.extend(state.iter().map(|map| {
            let name = format!("@__asks{first_map}_{}", map.name.trim_start_matches('@'));
            MapSchema { name, ..map.clone() }
        }));
        flight::guard(clause, at.map(|at| &at.functions[0]), first_map, words);
    }

    /// Whether the expression can be what it is at all events.
    pub(super) fn checked(&self, faults: Faults) -> Result<(), Failure> {
        let Faults { told, lacking, is_any } = faults;
        let told = match (told.diagnostics.is_empty(), is_any) {
            (false, _) => told,
            (true, false) => lacking,
            (true, true) => return Ok(()),
        };
        Err(Failure::Text(self.text.source.clone(), told.diagnostics))
    }
}

impl Maps {
    /// None where no event may ask.
    pub(super) fn of(compiled: &Compiled) -> Option<Maps> {
        let index = |name: &str| {
            let map = compiled.schema.maps.iter().find(|map| map.name == name)?;
            Some(map.map_index as usize)
        };
        let [armed, hold, asked, held] = NAMES.map(index);
        Some(Maps { armed: armed?, hold: hold?, asked: asked?, held: held? })
    }
}

/// Sets one of the words.
pub(super) fn set(segment: &Segment, map: usize, value: u64) {
    let value = [value.to_le_bytes(), 1u64.to_le_bytes()].concat();
    let done = segment.map(map).update(&0u32.to_le_bytes(), &value, 0);
    assert!(done.is_ok(), "an entry of an array is always there: {done:?}");
}
