//! Events of LTTng-UST as static probes: where a program emits them, and how their fields are read there.
//!
//! In: files. Out: a [`FoundStatic`] for each place that emits an event, with the function that a tracer has called there. The
//! event's description and that function may be in another file of the process: a place and a description belong together
//! where provider, name and signature are the same, as LTTng-UST has it.
//!
//! The function calls a filter with the event's fields, evaluated, in a row: 8 bytes for an integer (extended, in the byte
//! order of the machine), an enumeration's value, a floating-point number (a `double`) or the address of a string; 16 for an
//! array or a sequence: how many elements, and their address. The context of a
//! program has the first words of that row in slots ([`ROW_SLOTS`]), and the row's address in that of the filter's second argument, through
//! which further words are slots too ([`limits::ROW_WORDS`]).

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_event::schema::{self, Form, Schema, Type};
use weir_ir::{ArgumentPlace, FoundArgument, FoundField, FoundStatic, StaticKind, WorldError, limits};
use weir_probe::window::{ROW_REGISTER, ROW_SLOTS};
use weir_symbols::{Binary, FileIdentity, LinkAddr, StaticProbe, pattern};
use weir_ust::{Event, PLACES_SECTION, Place, Provider};

use crate::found::found_static;
use crate::{Asked, Binaries, explain, what};

/// What a file has of LTTng-UST.
#[derive(Debug, Default)]
pub(crate) struct InFile {
    places: Vec<Place>,
    providers: Vec<Provider>,
}

/// An event at one place.
#[derive(Clone, Debug)]
pub(crate) struct AtPlace {
    pub(crate) found: FoundStatic,
    pub(crate) schema: Schema,
    /// The path of the file that describes it, and where the function is that a tracer has called.
    pub(crate) probe: (String, LinkAddr),
    /// Words of the row.
    pub(crate) words: u8,
    /// The word that lists the place in its file.
    pub(crate) listed: LinkAddr,
}

/// What a tracer has called at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LttngProbe {
    /// The file that describes the event, and the function's address there.
    pub function: (String, LinkAddr),
    /// How many words it hands over.
    pub words: u8,
    /// Its file stays as long as the process.
    pub stays: bool,
    /// The word of the place's file that says where the place is.
    pub listed: LinkAddr,
}

impl Binaries {
    /// What a tracer of LTTng's has called for the event that is emitted at a place. None where no such event is.
    pub fn lttng_probe(&self, path: &str, full_name: &str, address: LinkAddr) -> Option<LttngProbe> {
        let AtPlace { probe: function, words, listed, .. } = self.lttng_at(path, full_name, address)?;
        let described = self.at(&function.0).and_then(|binary| binary.identity());
        let stays = described.is_some_and(|file| self.staying_files().contains(&file));
        Some(LttngProbe { function, words, stays, listed })
    }

    /// The files of [`Binaries::needed_paths`], however they are named.
    fn staying_files(&self) -> &HashSet<FileIdentity> {
        self.staying.get_or_init(|| {
            let paths = self.needed_paths();
            paths.iter().filter_map(|path| self.open(path).ok()?.1.identity()).collect()
        })
    }

    /// The event that is emitted at a place that was found before.
    pub(crate) fn lttng_at(&self, path: &str, full_name: &str, address: LinkAddr) -> Option<AtPlace> {
        let file = self.lttng.borrow().get(Path::new(path)).cloned()?;
        let is_it = |place: &&Place| {
            place.state == address.0 && format!("{}:{}", place.provider, place.name) == full_name
        };
        self.described(Path::new(path), &file, file.places.iter().find(is_it)?)
    }

    /// What the file at `path` has of LTTng-UST; it is read once.
    fn lttng_in(&self, path: &Path, binary: &Binary) -> Rc<InFile> {
        if let Some(known) = self.lttng.borrow().get(path) {
            return known.clone();
        }
        let listed = binary.section(PLACES_SECTION).map(|listed| listed.start.0..listed.end.0);
        // A library of providers alone has no places. All others are not searched.
        let may_describe = || {
            binary.needed().iter().any(|library| library.starts_with(LIBRARY))
                || binary.has_section(COMPAT_SECTION)
        };
        let file = if listed.is_some() || may_describe() {
            let image = binary.image();
            let read = |at, to: &mut [u8]| image.read(at, to);
            InFile {
                places: listed.map_or_else(Vec::new, |listed| weir_ust::places(&read, listed)),
                providers: weir_ust::providers(&read, &image.writable()),
            }
        } else {
            InFile::default()
        };
        let file = Rc::new(file);
        self.lttng.borrow_mut().insert(path.to_owned(), file.clone());
        file
    }

    /// The event that `place` of the file at `path` emits, where some file describes it.
    fn described(&self, path: &Path, file: &InFile, place: &Place) -> Option<AtPlace> {
        let own = file.event(place).map(|event| (path.to_owned(), event.clone()));
        let (describes, event) = own.or_else(|| self.described_elsewhere(place))?;
        let Row { schema, fields, words } = described(place, &event);
        let found = FoundStatic {
            kind: StaticKind::Lttng,
            binary: path.display().to_string(),
            provider: place.provider.clone(),
            name: place.name.clone(),
            function: String::new(),
            address: place.state,
            semaphore: None,
            arguments: fields.iter().map(|field| field.argument.clone()).collect(),
            fields,
        };
        let probe = (describes.display().to_string(), LinkAddr(event.probe));
        Some(AtPlace { found, schema, probe, words, listed: LinkAddr(place.listed) })
    }

    /// The event that `place` emits, as another file describes it: one that stays as long as its process, since a tracer has its
    /// function called.
    fn described_elsewhere(&self, place: &Place) -> Option<(PathBuf, Event)> {
        self.needed_paths().iter().find_map(|path| {
            let (path, binary) = self.open(path).ok()?;
            let event = self.lttng_in(&path, &binary).event(place)?.clone();
            Some((path, event))
        })
    }

    /// What is asked for in one file.
    pub(crate) fn in_file(
        &self,
        path: &Path,
        binary: &Binary,
        asked: &Asked<'_>,
    ) -> Result<Vec<FoundStatic>, WorldError> {
        let mut found = match asked.kind {
            Some(StaticKind::Usdt) => Vec::new(),
            _ => self.lttng_events(path, binary, asked),
        };
        if asked.kind != Some(StaticKind::Lttng) {
            let names: BTreeSet<(String, String)> =
                found.iter().map(|event| (event.provider.clone(), event.name.clone())).collect();
            let is_new =
                |probe: &&StaticProbe| !names.contains(&(probe.provider.clone(), probe.name.clone()));
            let shown = path.display().to_string();
            match binary.find_static(asked.provider, asked.wanted) {
                Ok(probes) => {
                    let probes = probes.into_iter().filter(is_new);
                    found.extend(probes.map(|probe| found_static(&shown, binary, probe)));
                }
                Err(error) if found.is_empty() && asked.kind.is_some() => return Err(explain(error)),
                Err(_) => {}
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let (provider, wanted) = (asked.provider, asked.wanted);
        let full = provider.map_or_else(|| wanted.to_owned(), |provider| format!("{provider}:{wanted}"));
        let names: Vec<String> = self.static_names(path, binary, asked.kind).into_iter().collect();
        let near = pattern::near_misses(&full, names.iter().map(String::as_str));
        let message = format!("no {} is named \"{full}\" in {}", what(asked.kind), path.display());
        let is_undescribed = asked.kind != Some(StaticKind::Usdt)
            && self
                .lttng_in(path, binary)
                .places
                .iter()
                .any(|place| asked.is_meant(&place.provider, &place.name));
        let hint = match (&near[..], &names[..]) {
            _ if is_undescribed => {
                "it emits such events, but their description (provider) is in another library, and must be in one that the program \
                 needs or that LD_PRELOAD names: one that is loaded later may go while its functions are called"
                    .to_owned()
            }
            (_, []) if binary.has_section(OLD_PLACES_SECTION) => {
                "it was built with LTTng-UST 2.12 or before, whose events are not read: build it with 2.13 or newer"
                    .to_owned()
            }
            (_, []) => "it has none".to_owned(),
            ([], _) => format!("`weir list 'lttng:{}:*'` shows those that there are", path.display()),
            (near, _) => format!("did you mean {}?", near.join(", ")),
        };
        Err(WorldError { message, hint: Some(hint) })
    }

    fn lttng_events(&self, path: &Path, binary: &Binary, asked: &Asked<'_>) -> Vec<FoundStatic> {
        let file = self.lttng_in(path, binary);
        let places = file.places.iter().filter(|place| asked.is_meant(&place.provider, &place.name));
        places.filter_map(|place| Some(self.described(path, &file, place)?.found)).collect()
    }

    /// The full names of what there is.
    pub(crate) fn static_names(
        &self,
        path: &Path,
        binary: &Binary,
        kind: Option<StaticKind>,
    ) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        if kind != Some(StaticKind::Lttng) {
            names.extend(binary.static_probes().iter().map(StaticProbe::full_name));
        }
        if kind != Some(StaticKind::Usdt) {
            let file = self.lttng_in(path, binary);
            names.extend(file.places.iter().map(|place| format!("{}:{}", place.provider, place.name)));
        }
        names
    }
}

/// What registers providers.
const LIBRARY: &str = "liblttng-ust.so.";

/// What `weir/lttng-compat.h` puts providers in, in files that need no library of LTTng-UST's.
const COMPAT_SECTION: &str = "weir_lttng_providers";

/// Where LTTng-UST up to 2.12 lists the places of events.
const OLD_PLACES_SECTION: &str = "__tracepoints_ptrs";

impl Asked<'_> {
    fn is_meant(&self, provider: &str, name: &str) -> bool {
        let is = |pattern: &str, text: &str| pattern == text || pattern::matches(pattern, text);
        self.provider.is_none_or(|wanted| is(wanted, provider)) && is(self.wanted, name)
    }
}

impl InFile {
    /// The event that `place` emits, if the file describes it.
    fn event(&self, place: &Place) -> Option<&Event> {
        let of = self.providers.iter().filter(|provider| provider.name == place.provider);
        let mut events = of.flat_map(|provider| &provider.events);
        events.find(|event| event.name == place.name && event.signature == place.signature)
    }
}

/// What a tracer is handed over.
struct Row {
    schema: Schema,
    fields: Vec<FoundField>,
    /// Of 8 bytes, as far as they are known.
    words: u8,
}

/// What the row of fields holds, and how each is read.
fn described(place: &Place, event: &Event) -> Row {
    let mut schema = Schema {
        provider: place.provider.clone(),
        event: place.name.clone(),
        level: event.level,
        fields: Vec::new(),
    };
    let (mut fields, mut word, mut slot) = (Vec::new(), 0u8, 0u8);
    let mut lost: Option<String> = None;
    for field in event.fields.iter().filter(|field| !field.is_unfiltered) {
        let unknown = Type::Int { bytes: 8, signed: false };
        let address = |word: u8| read(word, (8, false, false));
        let (ty, mut argument, mut count) = match &field.ty {
            // However few bytes a number has, the row holds a double.
            Ok(Type::Float { .. }) => (Type::Float { bytes: 8 }, read(word, (8, true, true)), None),
            Ok(ty @ Type::Array { .. }) => (ty.clone(), address(word + 1), None),
            Ok(ty @ Type::Sequence { .. }) => (ty.clone(), address(word + 1), Some(address(word))),
            Ok(ty) => {
                let (bytes, signed) = ty.integer().unwrap_or((8, false));
                (ty.clone(), read(word, (bytes, signed, false)), None)
            }
            Err(why) => {
                // How much of the row it takes is not known either.
                lost.get_or_insert_with(|| format!("{}: {why}", field.name));
                (unknown, address(word), None)
            }
        };
        let has_elements = matches!(ty, Type::Array { .. } | Type::Sequence { .. });
        let words = 1 + u8::from(has_elements);
        if word > WORDS_MAX - words {
            lost.get_or_insert_with(|| format!("{}: more than {WORDS_MAX} words", field.name));
        }
        // A number's word has its value; elements stay as the program has them.
        let form = match field.form {
            Form::Decimal if field.is_swapped && has_elements => Form::Network,
            Form::Hexadecimal if field.is_swapped && has_elements => Form::NetworkHexadecimal,
            form => form,
        };
        match &lost {
            Some(why) => {
                argument.place = Err(why.clone());
                count = None;
            }
            None => word += words,
        }
        if lost.is_none() && !field.is_hidden {
            let (name, ty) = (field.name.clone(), ty.clone());
            schema.fields.push(schema::Field { name, ty, slot, form });
            slot += 1 + u8::from(count.is_some());
        }
        let (name, is_hidden) = (field.name.clone(), field.is_hidden);
        fields.push(FoundField { name, ty, may_be_text: false, argument, count, form, is_hidden });
    }
    Row { schema, fields, words: word }
}

/// Of one row.
const WORDS_MAX: u8 = 120;

/// A word of the row, or the first bytes of it: how many, whether they have a sign, and are a floating-point number.
fn read(word: u8, (bytes, signed, is_float): (u8, bool, bool)) -> FoundArgument {
    let place = match ROW_SLOTS.get(usize::from(word)) {
        Some(&slot) => ArgumentPlace::Slot(slot),
        None if word < limits::ROW_WORDS_MAX => ArgumentPlace::Slot(limits::ROW_WORDS + word),
        None => ArgumentPlace::Memory {
            base: Some(ROW_REGISTER),
            index: None,
            displacement: 8 * i64::from(word),
            relative: false,
        },
    };
    let text = format!("{}{bytes}@word {word}", if signed { "-" } else { "" });
    FoundArgument { text, bytes, signed, is_float, place: Ok(place), steps: Vec::new() }
}
