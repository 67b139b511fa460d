//! What events of a recording do beside being recorded: `--snapshot-on`, `--start-on`, `--stop-on`, `--rotate-on`, `--run-on`.
//!
//! In: the expressions, and the event at each place. Out: around the clause's body the questions of [`weir_ir::trigger`] and
//! [`weir_ir::flight`], with the expressions as they are there; so they are asked in the traced process, of events that `--filter` accepts.
//! What they ask for is done here ([`watch`]), and of snapshots by the flight recorder.
//!
//! An event that lacks a field which an expression names does not match; what else is wrong with the expression at an event is a fault,
//! and so is one that no event has the fields of. `PROVIDER:EVENT if` in front of an expression has it be of events of this name alone, and
//! `PROVIDER:EVENT` is every one of them.

mod command;
mod watch;

use anyhow::anyhow;
use weir_codegen::Compiled;
use weir_event::{MapSchema, MapValue, Type};
use weir_filter::Dialect;
use weir_ir::trigger::{Gate, Step};
use weir_ir::{EventId, Function, MapId, Module, flight, trigger};
use weir_rt::segment::Segment;
use weir_symbols::pattern;

use crate::event::Event;
use crate::event::text::{Text, Told};
use crate::failure::Failure;
use crate::options::TriggerOptions;

pub(crate) use self::watch::Watch;

/// The expressions, in the order in which they are put around a clause: what stands behind an event's record first, then what leaves
/// events out.
#[derive(Debug)]
pub(super) struct Triggers {
    all: Vec<Trigger>,
}

#[derive(Debug)]
struct Trigger {
    kind: Kind,
    /// As the command line has it.
    option: &'static str,
    /// The pattern of the names of its events.
    event: Option<String>,
    text: Text,
}

/// What an event does that matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Run,
    Rotate,
    Stop,
    Snapshot,
    Start,
}

/// The expressions as they are at an event, in their order; none where the event does not match.
pub(super) type Marks = Vec<Option<Module>>;

/// What was found wrong with the expressions, over all events.
pub(super) struct Faults {
    of_each: Vec<OfOne>,
}

#[derive(Default)]
struct OfOne {
    told: Told,
    /// Of events that lack a field.
    lacking: Told,
    /// Some event can match.
    is_any: bool,
    /// Names of events that are not meant.
    others: Vec<String>,
}

/// The maps that all clauses share, of the triggers that were given.
#[derive(Clone, Copy)]
pub(super) struct Words {
    flight: Option<flight::Words>,
    gate: Option<Gate>,
    stopped: Option<MapId>,
    rotate: Option<MapId>,
    /// How many have asked, and when the last of each event did.
    run: Option<(MapId, MapId)>,
}

/// Where programs and the flight recorder meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlightMaps {
    pub(super) armed: usize,
    pub(super) hold: usize,
    pub(super) asked: usize,
    pub(super) held: usize,
}

/// An expression that holds.
const ALWAYS: &str = "1";

/// Names that are told where none is meant.
const OTHERS_MAX: usize = 8;

const FLIGHT: [&str; 4] = ["@__flight_armed", "@__flight_hold", "@__flight_asked", "@__flight_held"];
const GATE: [&str; 4] =
    ["@__trigger_closed", "@__trigger_outside", "@__trigger_started", "@__trigger_stopped"];
const ROTATE: &str = "@__trigger_rotate";
const RUN: [&str; 2] = ["@__trigger_run", "@__trigger_last"];

impl Triggers {
    pub(super) fn given(
        snapshot_on: Option<&str>,
        triggers: &TriggerOptions,
        dialect: Dialect,
    ) -> Result<Triggers, Failure> {
        if triggers.run.as_deref().is_some_and(|command| command.trim().is_empty()) {
            return Err(Failure::Refused(anyhow!("--run: there is no command")));
        }
        let given = [
            (Kind::Run, "run-on", triggers.run_on.as_deref()),
            (Kind::Rotate, "rotate-on", triggers.rotate_on.as_deref()),
            (Kind::Stop, "stop-on", triggers.stop_on.as_deref()),
            (Kind::Snapshot, "snapshot-on", snapshot_on),
            (Kind::Start, "start-on", triggers.start_on.as_deref()),
        ];
        let mut all = Vec::new();
        for (kind, option, text) in given {
            let Some(text) = text else { continue };
            let (event, expression) =
                split(text).map_err(|why| Failure::Refused(anyhow!("--{option} {text}: {why}")))?;
            let text = Text::parse_as(&format!("<{option}>"), expression, dialect)?;
            all.push(Trigger { kind, option, event: event.map(str::to_owned), text });
        }
        Ok(Triggers { all })
    }

    fn has(&self, kind: Kind) -> bool {
        self.all.iter().any(|known| known.kind == kind)
    }

    pub(super) fn add_maps(&self, module: &mut Module) -> Words {
        let mut add = |name: &str, key: Option<Type>| {
            let value = MapValue::Plain(Type::U64);
            module.schema.maps.push(MapSchema {
                name: name.to_owned(),
                map_index: 0,
                key,
                value,
                room: None,
            });
            MapId(module.schema.maps.len() as u32 - 1)
        };
        let flight = self.has(Kind::Snapshot).then(|| {
            let [armed, hold, asked, held] = FLIGHT.map(|name| add(name, None));
            flight::Words { armed, hold, asked, held }
        });
        let gate = (self.has(Kind::Start) || self.has(Kind::Stop)).then(|| {
            let [closed, outside, started, stopped] = GATE.map(|name| add(name, None));
            (Gate { closed, outside, started }, stopped)
        });
        let rotate = self.has(Kind::Rotate).then(|| add(ROTATE, None));
        let run = self.has(Kind::Run).then(|| (add(RUN[0], None), add(RUN[1], Some(Type::U64))));
        Words {
            flight,
            gate: gate.map(|(gate, _)| gate),
            stopped: gate.map(|(_, stopped)| stopped),
            rotate,
            run,
        }
    }

    pub(super) fn faults(&self) -> Faults {
        Faults { of_each: self.all.iter().map(|_| OfOne::default()).collect() }
    }

    /// The expressions as they are at an event, which is recorded by this name.
    pub(super) fn at(&self, event: &Event, name: &str, faults: &mut Faults) -> Marks {
        let each = self.all.iter().zip(&mut faults.of_each);
        each.map(|(trigger, faults)| trigger.at(event, name, faults)).collect()
    }

    /// Puts them around a clause that records `event`.
    pub(super) fn put(
        &self,
        clause: &mut Function,
        (event, marks): (EventId, &Marks),
        words: &Words,
        module: &mut Module,
    ) {
        let mut opens = None;
        for (Trigger { kind, .. }, at) in self.all.iter().zip(marks) {
            let first_map = add_state(at.as_ref(), module);
            let filter = at.as_ref().map(|at| &at.functions[0]);
            let mut mark = |filter: Option<&Function>, before: &[Step], behind: &[Step]| {
                if let Some(filter) = filter {
                    trigger::mark(clause, filter, first_map, before, behind);
                }
            };
            match kind {
                Kind::Run => {
                    let (asked, last) = given(words.run);
                    mark(filter, &[Step::Mark], &[Step::Keep(last, event), Step::Count(asked)]);
                }
                Kind::Rotate => mark(filter, &[], &[Step::Count(given(words.rotate))]),
                Kind::Stop => {
                    let closed = given(words.gate).closed;
                    mark(filter, &[Step::Set(closed)], &[Step::Count(given(words.stopped))]);
                }
                Kind::Snapshot => flight::guard(clause, filter, first_map, given(words.flight)),
                Kind::Start => opens = filter.map(|filter| (filter, first_map)),
            }
        }
        if let Some(gate) = words.gate {
            let (filter, first_map) = opens.map_or((None, 0), |(filter, first)| (Some(filter), first));
            trigger::gate(clause, filter, first_map, gate);
        }
    }

    /// Whether the expressions can be what they are at all events. `absent`, where other recordings may have the event, takes the warning for an expression that no event here can match.
    pub(super) fn checked(
        &self,
        faults: Faults,
        mut absent: Option<&mut dyn FnMut(String)>,
    ) -> Result<(), Failure> {
        for (Trigger { kind, option, event, text }, faults) in self.all.iter().zip(faults.of_each) {
            let OfOne { told, lacking, is_any, others } = faults;
            let told = match (told.diagnostics.is_empty(), is_any) {
                (false, _) => told,
                (true, true) => continue,
                (true, false) => match &mut absent {
                    // Without an event that starts it nothing is recorded at all.
                    Some(absent) if *kind != Kind::Start => {
                        let text = text.source.text.trim();
                        let named = event.iter().map(|event| format!("{event} if ")).collect::<String>();
                        absent(format!(
                            "--{option} {named}{text} is of none of the events that are recorded here"
                        ));
                        continue;
                    }
                    _ => lacking,
                },
            };
            return Err(match event {
                Some(event) if told.diagnostics.is_empty() => Failure::Refused(anyhow!(
                    "--{option}: no event that is recorded is called {event}; there is {}",
                    others.join(", ")
                )),
                _ => Failure::Text(text.source.clone(), told.diagnostics),
            });
        }
        Ok(())
    }
}

impl Trigger {
    /// The expression as it is at an event; none where that does not match.
    fn at(&self, event: &Event, name: &str, faults: &mut OfOne) -> Option<Module> {
        let is_meant = |meant: &String| meant == name || pattern::matches(meant, name);
        if !self.event.as_ref().is_none_or(is_meant) {
            if faults.others.len() < OTHERS_MAX && !faults.others.iter().any(|known| known == name) {
                faults.others.push(name.to_owned());
            }
            return None;
        }
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
}

/// The name of the events that are meant, if one stands in front, and the expression.
fn split(text: &str) -> Result<(Option<&str>, &str), String> {
    let text = text.trim();
    let (first, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let is_part = |c: char| c.is_alphanumeric() || "_*?[]-.@+".contains(c);
    let is_event = |(provider, event): (&str, &str)| {
        !provider.is_empty() && !event.is_empty() && provider.chars().chain(event.chars()).all(is_part)
    };
    if !first.split_once(':').is_some_and(is_event) {
        return Ok((None, text));
    }
    match rest.trim_start().split_once(char::is_whitespace) {
        None if rest.is_empty() => Ok((Some(first), ALWAYS)),
        Some(("if", expression)) => Ok((Some(first), expression)),
        _ => Err(format!("`if` and an expression, or nothing, is wanted behind {first}")),
    }
}

/// The maps were added for the triggers that there are.
fn given<T>(words: Option<T>) -> T {
    // SANITY: `add_maps` goes by the same list.
    words.expect("the words of a trigger that was given")
}

/// Adds the state of an expression to the module; the number of its first map.
fn add_state(at: Option<&Module>, module: &mut Module) -> u32 {
    let first_map = module.schema.maps.len() as u32;
    let state = at.map_or(&[][..], |at| &at.schema.maps);
    module.schema.maps.extend(state.iter().map(|map| {
        let name = format!("@__asks{first_map}_{}", map.name.trim_start_matches('@'));
        MapSchema { name, ..map.clone() }
    }));
    first_map
}

impl FlightMaps {
    /// None where no event may ask.
    pub(super) fn of(compiled: &Compiled) -> Option<FlightMaps> {
        let [armed, hold, asked, held] = FLIGHT.map(|name| index(compiled, name));
        Some(FlightMaps { armed: armed?, hold: hold?, asked: asked?, held: held? })
    }
}

/// The number of the map of this name in the segment.
fn index(compiled: &Compiled, name: &str) -> Option<usize> {
    let map = compiled.schema.maps.iter().find(|map| map.name == name)?;
    Some(map.map_index as usize)
}

/// Sets one of the words.
pub(super) fn set(segment: &Segment, map: usize, value: u64) {
    let value = [value.to_le_bytes(), 1u64.to_le_bytes()].concat();
    let done = segment.map(map).update(&0u32.to_le_bytes(), &value, 0);
    assert!(done.is_ok(), "an entry of an array is always there: {done:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_may_stand_in_front() {
        let check = |text: &str, wanted: (Option<&str>, &str)| assert_eq!(split(text), Ok(wanted), "{text}");
        check("n == 3", (None, "n == 3"));
        check("name==\"a:b\"", (None, "name==\"a:b\""));
        check("\"a:b\" == name", (None, "\"a:b\" == name"));
        check("shop:sale", (Some("shop:sale"), "1"));
        check(" shop:* ", (Some("shop:*"), "1"));
        check("shop:sale if n == 3", (Some("shop:sale"), "n == 3"));
        check("shop:sale  if\tiff > 3", (Some("shop:sale"), "iff > 3"));
        for text in ["shop:sale n == 3", "shop:sale if", "shop:sale iff > 3"] {
            assert!(split(text).unwrap_err().contains("`if` and an expression"), "{text}");
        }
    }
}
