//! Events of programs that are instrumented with LTTng-UST 2.13 or newer, read from the descriptors in their memory.
//!
//! In: memory, by a function that reads it, and the ranges that are writable. Out: [`Provider`]s with their events: names, log
//! levels, fields. Nothing names the descriptors in a stripped file: every aligned word is looked at, and what looks like a
//! provider is one if its first event points back to it. And the [`Place`]s that emit events, by the section that lists them;
//! an event's may be in another file than its provider.
//!
//! The memory may be a file's as the loader would make it, with relative relocations applied, or a process's. Either is
//! hostile: every pointer is read through that function, names are short and printable, numbers bounded, and all that is
//! read together is bounded too. What is not as it should be is left out, with a reason where it is an event's or a field's.
//!
//! Knows nothing of ELF files, of processes, of how events are recorded. The layouts are those of lttng-ust's
//! `include/lttng/ust-events.h` and `ust-tracepoint-event.h` on machines of 64 bits; structures only grow, at their ends.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod types;

mod memory;

mod limits;

use std::ops::Range;

use weir_event::schema::{Form, Level, Type};

use crate::limits::{EVENTS_MAX, FIELDS_MAX, PLACES_MAX, PROVIDERS_MAX, VERSIONS};
use crate::memory::Memory;

/// Events that a program offers under one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provider {
    /// The first part of the events' names.
    pub name: String,
    /// Of the descriptors: 3 in 2.13 to 2.15.
    pub version: (u32, u32),
    /// Address of its descriptor.
    pub address: u64,
    /// In the order of the descriptor.
    pub events: Vec<Event>,
    /// Events that are not as they should be, and why.
    pub left_out: Vec<String>,
}

/// One kind of event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The second part of its name.
    pub name: String,
    /// None where the provider does not say.
    pub level: Option<Level>,
    /// Types and names of what the program gives at each place, as C has them.
    pub signature: String,
    /// Address of the function that a tracer has called for each event, and of its descriptor.
    pub probe: u64,
    /// Of the event's descriptor.
    pub address: u64,
    /// In the order in which they are recorded, without the numbers of elements that stand before sequences.
    pub fields: Vec<Field>,
}

/// A value of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// As the provider has it.
    pub name: String,
    /// What it is. Err: why it cannot be read.
    pub ty: Result<Type, String>,
    /// How integers are shown.
    pub form: Form,
    /// The bytes of an integer are in the other order.
    pub is_swapped: bool,
    /// Filters alone see it: it is in no recording.
    pub is_hidden: bool,
    /// Filters do not see it.
    pub is_unfiltered: bool,
}

/// Where a file emits events of one kind: a word that is 0 while no tracer wants them, and the list of functions to call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first part of the event's name.
    pub provider: String,
    /// The second.
    pub name: String,
    /// As in [`Event::signature`]: a place emits what has this too.
    pub signature: String,
    /// Address of a word of 4 bytes; 8 bytes behind it is the address of the list.
    pub state: u64,
    /// Address of the word that lists the place: in a process it may come to point to another file's place of this name.
    pub listed: u64,
}

/// How far behind the address that a place is listed by its word is.
pub const STATE_OFFSET: u64 = 24;

/// The section of a file that lists its places, by their addresses.
pub const PLACES_SECTION: &str = "lttng_ust_tracepoints_ptrs";

/// The places whose addresses the words in `listed` are. `read` as in [`providers`]. What is not as it should be is left out.
pub fn places(read: &dyn Fn(u64, &mut [u8]) -> bool, listed: Range<u64>) -> Vec<Place> {
    let memory = Memory::new(read);
    let words = (listed.start..listed.end.saturating_sub(7)).step_by(8).take(PLACES_MAX);
    words.filter_map(|listed| place(&memory, listed)).collect()
}

/// `{u32 size; char *provider; char *name; int state; probe *probes; int *provider_ref; char *signature}`.
fn place(memory: &Memory<'_>, listed: u64) -> Option<Place> {
    let at = memory.u64(listed)?;
    let word = |offset: u64| memory.u64(at.wrapping_add(offset));
    if !(56..=4096).contains(&memory.u32(at)?) {
        return None;
    }
    Some(Place {
        provider: memory.name(word(8)?)?,
        name: memory.name(word(16)?)?,
        signature: memory.text(word(48)?)?,
        state: at.wrapping_add(STATE_OFFSET),
        listed,
    })
}

/// The providers whose descriptors are in one of the `writable` ranges. `read`: fills a buffer from an address, or says that it
/// cannot.
pub fn providers(read: &dyn Fn(u64, &mut [u8]) -> bool, writable: &[Range<u64>]) -> Vec<Provider> {
    let memory = Memory::new(read);
    let mut found: Vec<Provider> = Vec::new();
    for range in writable {
        let mut at = range.start.next_multiple_of(8);
        while found.len() < PROVIDERS_MAX && at.checked_add(40).is_some_and(|end| end <= range.end) {
            found.extend(provider(&memory, at));
            at += 8;
        }
    }
    found
}

/// What stands at `at`, if it is a provider: `{u32 size; char *name; event **events; u32 count, major, minor}`.
fn provider(memory: &Memory<'_>, at: u64) -> Option<Provider> {
    let size = memory.u32(at)?;
    let (count, version) = (
        memory.u32(at.wrapping_add(24))?,
        (memory.u32(at.wrapping_add(28))?, memory.u32(at.wrapping_add(32))?),
    );
    if !(40..=256).contains(&size)
        || !VERSIONS.contains(&version.0)
        || version.1 > 255
        || !(1..=EVENTS_MAX).contains(&count)
    {
        return None;
    }
    let (name, events) = (memory.name(memory.u64(at.wrapping_add(8))?)?, memory.u64(at.wrapping_add(16))?);
    // The first event points back.
    if memory.u64(memory.u64(events)?.wrapping_add(16))? != at {
        return None;
    }
    let mut provider = Provider { name, version, address: at, events: Vec::new(), left_out: Vec::new() };
    for index in 0..u64::from(count) {
        let read = memory.u64(events.wrapping_add(8 * index));
        match read.ok_or_else(|| "it is not there".to_owned()).and_then(|event| self::event(memory, event)) {
            Ok(event) => provider.events.push(event),
            Err(why) => provider.left_out.push(format!("event {index} of {}: {why}", provider.name)),
        }
    }
    Some(provider)
}

/// A sequence's number of elements stands before it as a field of its own, which filters do not see: it is part of the sequence.
fn without_lengths(mut fields: Vec<Field>) -> Vec<Field> {
    let is_length = |field: &Field, next: Option<&Field>| {
        field.is_unfiltered
            && next.is_some_and(|next| {
                matches!(next.ty, Ok(Type::Sequence { .. })) && field.name == format!("_{}_length", next.name)
            })
    };
    let lengths: Vec<bool> = (0..fields.len()).map(|at| is_length(&fields[at], fields.get(at + 1))).collect();
    let mut lengths = lengths.into_iter();
    fields.retain(|_| !lengths.next().unwrap_or(false));
    fields
}

/// `{u32 size; char *name; provider *; class *; int **level; char *model}`, and a class is `{u32 size; field **fields; size_t count;
/// void (*probe)(); char *signature; provider *}`.
fn event(memory: &Memory<'_>, at: u64) -> Result<Event, String> {
    let broken = |what: &str| format!("its {what} cannot be read");
    let word = |at: u64, what: &str| memory.u64(at).ok_or_else(|| broken(what));
    let is_whole = |at: u64| memory.u32(at).is_some_and(|size| (48..=4096).contains(&size));
    if !is_whole(at) {
        return Err(broken("descriptor"));
    }
    let name = memory.name(word(at.wrapping_add(8), "name")?).ok_or_else(|| broken("name"))?;
    let class = word(at.wrapping_add(24), "class")?;
    if !is_whole(class) {
        return Err(broken("class"));
    }
    let level_at = word(at.wrapping_add(32), "level")?;
    // A pointer to a pointer that is null where the provider gives no level.
    let level_at = if level_at == 0 { 0 } else { word(level_at, "level")? };
    let level = if level_at == 0 { None } else { Some(memory.u32(level_at).ok_or_else(|| broken("level"))?) };
    let count = word(class.wrapping_add(16), "fields")?;
    if count > FIELDS_MAX {
        return Err(format!("it has {count} fields; the limit is {FIELDS_MAX}"));
    }
    let fields = word(class.wrapping_add(8), "fields")?;
    let field = |index: u64| {
        let at = word(fields.wrapping_add(8 * index), "fields")?;
        types::field(memory, at).ok_or_else(|| format!("its field {index} cannot be read"))
    };
    Ok(Event {
        name,
        level: level.and_then(|level| Level::new(u8::try_from(level).ok()?)),
        signature: memory
            .text(word(class.wrapping_add(32), "signature")?)
            .ok_or_else(|| broken("signature"))?,
        probe: word(class.wrapping_add(24), "function")?,
        address: at,
        fields: without_lengths((0..count).map(field).collect::<Result<_, String>>()?),
    })
}
