//! Static probes (USDT): the notes that `<sys/sdt.h>` leaves in a file
//! (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>, version 3).
//!
//! In: the bytes of `.note.stapsdt`, notes of owner `stapsdt` and type 3. Out: a [`StaticProbe`] for each place. A
//! note's descriptor: address of the `nop`, address of `.stapsdt.base`, address of the semaphore or 0 (8 bytes each),
//! then provider, name and arguments, each ended by a NUL. A tracepoint of weir's own has a second note, which gives the
//! probe a schema ([`tracepoint`]).
//!
//! Guaranteed of each probe: its address is in a segment that is executable, its semaphore in one that is writable,
//! its names are short and printable. A note of which that is not true is left out and counted. Where prelink(8) moved
//! the file, `.stapsdt.base` has another address than the note says, and both addresses move with it.
//!
//! Deliberately not here: notes of versions 1 and 2 (before 2010); what stands at the address (nothing is decoded).

mod isa;
mod split;
mod tracepoint;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use weir_event::schema::Schema;

use crate::LinkAddr;
use crate::functions::symbol_values;
use crate::layout::{Layout, name_at};
use crate::limits::{PROBE_ARGUMENTS_BYTES_MAX, PROBE_NAME_BYTES_MAX, PROBE_NOTES_MAX};
use crate::usdt::isa::native;

pub use crate::usdt::isa::native::operand::{Argument, Displacement, Memory, Operand, Register, Unreadable};

/// One place of a static probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticProbe {
    pub provider: String,
    pub name: String,
    /// The `nop` that stands for the probe.
    pub address: LinkAddr,
    /// A `u16` that counts the tracers: the program prepares arguments only where it is not 0.
    pub semaphore: Option<LinkAddr>,
    pub arguments: Vec<Argument>,
    /// What the arguments are, where the file says so.
    pub schema: Option<Schema>,
}

impl StaticProbe {
    /// `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

const TYPE: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";

/// The probes of the file, and how many notes were left out.
pub(crate) fn collect(data: &[u8], layout: &Layout) -> (Vec<StaticProbe>, u64) {
    let mut left_out = 0;
    let mut notes: Vec<Note<'_>> = Vec::new();
    for descriptor in descriptors(data, &layout.probes.notes, OWNER, TYPE) {
        match Note::parse(descriptor, layout) {
            Some(note) if notes.len() < PROBE_NOTES_MAX => notes.push(note),
            _ => left_out += 1,
        }
    }
    let symbols = symbols_of(&notes, data, layout);
    let mut fields = Fields::collect(data, layout);
    let mut probes: Vec<StaticProbe> =
        notes.iter().map(|note| fields.added(note, note.probe(&symbols))).collect();
    probes.sort_by(|a, b| (&a.provider, &a.name, a.address).cmp(&(&b.provider, &b.name, b.address)));
    probes.dedup();
    (probes, left_out + fields.left_out())
}

/// The second notes of tracepoints, each to be held against the probe that it is about.
struct Fields<'a> {
    reader: tracepoint::Reader<'a>,
    /// By address as it stands in the file: the descriptor, and whether it has served.
    notes: HashMap<u64, (&'a [u8], bool)>,
    left_out: u64,
}

impl<'a> Fields<'a> {
    fn collect(data: &'a [u8], layout: &'a Layout) -> Fields<'a> {
        let (mut notes, mut left_out) = (HashMap::new(), 0);
        for descriptor in descriptors(data, &layout.probes.fields, tracepoint::OWNER, tracepoint::VERSION) {
            match tracepoint::place(descriptor) {
                Some(place) if notes.len() < PROBE_NOTES_MAX && !notes.contains_key(&place) => {
                    notes.insert(place, (descriptor, false));
                }
                _ => left_out += 1,
            }
        }
        Fields { reader: tracepoint::Reader::new(data, layout), notes, left_out }
    }

    /// The probe with what a note says of it. Arguments of which that says so are floating-point numbers.
    fn added(&mut self, note: &Note<'_>, mut probe: StaticProbe) -> StaticProbe {
        let Some((descriptor, has_served)) =
            self.notes.get_mut(&note.written).filter(|(_, has_served)| !has_served)
        else {
            return probe;
        };
        let moved = note.address.0.wrapping_sub(note.written);
        if let Some((schema, arguments)) = self.reader.schema(descriptor, &probe, moved) {
            *has_served = true;
            (probe.schema, probe.arguments) = (Some(schema), arguments);
        }
        probe
    }

    fn left_out(&self) -> u64 {
        self.left_out + self.notes.values().filter(|(_, has_served)| !has_served).count() as u64
    }
}

/// Text without what a terminal would act on.
fn printable(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

/// The values of all symbols that arguments name, in one pass over the tables.
fn symbols_of(notes: &[Note<'_>], data: &[u8], layout: &Layout) -> HashMap<String, LinkAddr> {
    let texts = notes.iter().flat_map(|note| split::arguments(note.arguments));
    let names: HashSet<&str> = texts.flat_map(native::operand::symbols).collect();
    symbol_values(data, &layout.symbol_tables, &names)
}

/// Descriptors of the notes of this owner and type in these sections.
fn descriptors<'a>(
    data: &'a [u8],
    sections: &'a [Range<usize>],
    owner: &'static [u8],
    kind: u32,
) -> impl Iterator<Item = &'a [u8]> {
    sections.iter().flat_map(move |range| Descriptors { rest: &data[range.clone()], owner, kind })
}

/// Those of one section. Ends at the first note that does not fit.
struct Descriptors<'a> {
    rest: &'a [u8],
    owner: &'static [u8],
    kind: u32,
}

impl<'a> Iterator for Descriptors<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let half = |at: usize| Some(u32::from_le_bytes(self.rest.get(at..at + 4)?.try_into().ok()?));
            let (name_bytes, bytes, kind) = (half(0)? as usize, half(4)? as usize, half(8)?);
            let name_end = 12usize.checked_add(name_bytes)?;
            let start = name_end.checked_next_multiple_of(4)?;
            let end = start.checked_add(bytes)?;
            let (name, descriptor) = (self.rest.get(12..name_end)?, self.rest.get(start..end)?);
            self.rest = self.rest.get(end.next_multiple_of(4)..).unwrap_or_default();
            if kind == self.kind && name == self.owner {
                return Some(descriptor);
            }
        }
    }
}

/// A note whose addresses and names are sound.
struct Note<'a> {
    provider: &'a str,
    name: &'a str,
    arguments: &'a str,
    address: LinkAddr,
    /// The address as it stands in the note.
    written: u64,
    semaphore: Option<LinkAddr>,
}

impl<'a> Note<'a> {
    fn parse(descriptor: &'a [u8], layout: &Layout) -> Option<Note<'a>> {
        let word = |at: usize| Some(u64::from_le_bytes(descriptor.get(at..at + 8)?.try_into().ok()?));
        let (written, base, semaphore) = (word(0)?, word(8)?, word(16)?);
        let moved = layout.probes.base.map_or(0, |now| now.0.wrapping_sub(base));
        let address = LinkAddr(written.wrapping_add(moved));
        let semaphore = (semaphore != 0).then(|| LinkAddr(semaphore.wrapping_add(moved)));
        if !layout.segments.iter().any(|s| s.executable && s.holds(address)) {
            return None;
        }
        if semaphore.is_some_and(|at| !is_counter(layout, at)) {
            return None;
        }
        let mut at = 24;
        let mut text = |bytes_max: usize| {
            let bytes = name_at(descriptor, at)?;
            at += bytes.len() as u64 + 1;
            printable(bytes).filter(|text| text.len() <= bytes_max)
        };
        let (provider, name) = (text(PROBE_NAME_BYTES_MAX)?, text(PROBE_NAME_BYTES_MAX)?);
        let arguments = text(PROBE_ARGUMENTS_BYTES_MAX)?;
        if provider.is_empty() || name.is_empty() {
            return None;
        }
        Some(Note { provider, name, arguments, address, written, semaphore })
    }

    fn probe(&self, symbols: &HashMap<String, LinkAddr>) -> StaticProbe {
        let arguments = split::arguments(self.arguments);
        StaticProbe {
            provider: self.provider.into(),
            name: self.name.into(),
            address: self.address,
            semaphore: self.semaphore,
            arguments: arguments.into_iter().map(|text| native::operand::parse(text, symbols)).collect(),
            schema: None,
        }
    }
}

/// Whether the two bytes at `address` are memory that the file maps writable.
fn is_counter(layout: &Layout, address: LinkAddr) -> bool {
    let holds = |s: &&crate::Segment| {
        s.writable && address >= s.address && address.0 - s.address.0 + 2 <= s.memory_bytes
    };
    layout.segments.iter().any(|s| holds(&s))
}
