//! Events of live programs: what each place of a probe offers to a filter.
//!
//! In: a function of the compiler's (a clause at its places), and the files. Out: an [`Event`] for each place: the fields that
//! it has by name, and those that it has by number. Files: [`text`] a filter's text, and what it is at an event; [`fetch`] fields that
//! the user names.
//!
//! | event | by name | by number |
//! |---|---|---|
//! | static probe | what its notes name | `arg0` and further, as its note says |
//! | function's entry | its parameters, where debug information has them | `arg0` to `arg5`: registers |
//! | instruction inside a function | - | the same |
//! | function's return | `retval`, as debug information says, else 8 bytes | - |
//!
//! Where there are names, the numbers are fields only where they are asked for.

pub mod fetch;
pub mod text;

use std::collections::{BTreeMap, BTreeSet};

use weir_event::schema::{self, Form};
use weir_ir::{
    FoundArgument, FoundField, FoundPrototype, FoundStatic, Function, SiteSpec, StaticKind, StaticSpec,
    Trigger,
};
use weir_symbols::LinkAddr;

use crate::event::fetch::Fetched;
use weir_world::Binaries;

/// What happens at one place.
#[derive(Clone, Debug)]
pub struct Event {
    /// As `probe` prints it.
    pub name: String,
    named: Vec<FoundField>,
    numbered: Vec<FoundArgument>,
    /// Fields that the user has named, and how their numbers are shown where that is said too.
    fetched: Vec<(FoundField, Option<Form>)>,
}

/// Registers of integer arguments by their encoding: rdi, rsi, rdx, rcx, r8, r9.
const ARGUMENTS: [u8; weir_ir::limits::ARGUMENTS as usize] = [7, 6, 2, 1, 8, 9];

/// rax: where System V puts an integer or pointer result.
const RESULT: u8 = 0;

/// The events at the places of a clause, in the order of the places. None of a clause that runs in weir itself.
pub fn events(clause: &Function, world: &Binaries) -> Vec<Event> {
    match &clause.trigger {
        Trigger::Uprobe { sites } => {
            let entry = |site: &SiteSpec, prototype: Option<FoundPrototype>| Event {
                name: format!("uprobe:{}:{}", site.binary, site.function),
                named: prototype.map_or_else(Vec::new, |prototype| without_counted(prototype.parameters)),
                numbered: ARGUMENTS.iter().map(|&number| FoundArgument::register(number)).collect(),
                fetched: Vec::new(),
            };
            at_functions(sites, world, &entry)
        }
        Trigger::Uretprobe { sites } => {
            let result = |site: &SiteSpec, prototype: Option<FoundPrototype>| Event {
                name: format!("uretprobe:{}:{}", site.binary, site.function),
                named: match prototype {
                    Some(prototype) => prototype.result.into_iter().collect(),
                    None => vec![untyped("retval".to_owned(), FoundArgument::register(RESULT))],
                },
                numbered: Vec::new(),
                fetched: Vec::new(),
            };
            at_functions(sites, world, &result)
        }
        Trigger::Usdt { sites } => sites.iter().map(|site| at_static(site, world)).collect(),
        Trigger::Begin
        | Trigger::End
        | Trigger::Interval { .. }
        | Trigger::Asked { .. }
        | Trigger::Session { .. }
        | Trigger::Kernel { .. }
        | Trigger::Filter => Vec::new(),
    }
}

/// A filter and a recording take texts that end with a 0.
fn without_counted(mut fields: Vec<FoundField>) -> Vec<FoundField> {
    for field in fields.iter_mut().filter(|field| field.ty == schema::Type::Str && field.count.is_some()) {
        (field.count, field.ty) = (None, schema::Type::Int { bytes: 8, signed: false });
        field.argument.place = Err("it is a string of Rust, which scripts alone read".to_owned());
    }
    fields
}

fn at_functions(
    sites: &[SiteSpec],
    world: &Binaries,
    event: &dyn Fn(&SiteSpec, Option<FoundPrototype>) -> Event,
) -> Vec<Event> {
    // Of each binary all at once.
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut places: BTreeMap<&str, BTreeSet<LinkAddr>> = BTreeMap::new();
    for site in sites {
        match site.address {
            None => names.entry(&site.binary).or_default().push(&site.function),
            Some(address) => _ = places.entry(&site.binary).or_default().insert(LinkAddr(address)),
        }
    }
    let mut by_name = BTreeMap::new();
    for (binary, names) in names {
        let found = weir_ir::World::prototypes(world, binary, &names);
        by_name.extend(names.into_iter().map(|name| (binary, name)).zip(found));
    }
    let mut by_address = BTreeMap::new();
    for (binary, places) in places {
        let found = world.prototypes_at(binary, &places);
        by_address.extend(found.into_iter().map(|(address, prototype)| ((binary, address.0), prototype)));
    }
    let known = |site: &SiteSpec| match site.address {
        None => by_name.get(&(site.binary.as_str(), site.function.as_str())).cloned().flatten(),
        Some(address) => by_address.get(&(site.binary.as_str(), address)).cloned(),
    };
    sites.iter().map(|site| event(site, known(site))).collect()
}

fn at_static(site: &StaticSpec, world: &Binaries) -> Event {
    let full_name = format!("{}:{}", site.provider, site.name);
    let found = world.static_at(&site.binary, &full_name, LinkAddr(site.address));
    let (kind, named, numbered) = match found {
        Some(FoundStatic { kind, fields, arguments, .. }) => (kind, fields, arguments),
        None => (StaticKind::Usdt, Vec::new(), Vec::new()),
    };
    Event {
        name: format!("{}:{}:{full_name}", kind.name(), site.binary),
        named,
        numbered,
        fetched: Vec::new(),
    }
}

/// A field of which only the size and the sign are known. 8 bytes may be an address of anything.
fn untyped(name: String, argument: FoundArgument) -> FoundField {
    let FoundArgument { bytes, signed, is_float, .. } = argument;
    let ty = if is_float { schema::Type::Float { bytes } } else { schema::Type::Int { bytes, signed } };
    FoundField {
        name,
        ty,
        may_be_text: !is_float && bytes == 8,
        argument,
        count: None,
        form: Form::default(),
        is_hidden: false,
    }
}

impl Event {
    /// With these fields, which come before those of the same names.
    pub fn with(self, fetched: &[Fetched]) -> Result<Event, String> {
        let fetched = fetched.iter().map(|field| field.at(&self)).collect::<Result<_, _>>()?;
        Ok(Event { fetched, ..self })
    }

    /// A field by its name, or by its number.
    fn field(&self, name: &str) -> Option<FoundField> {
        let fetched = self.fetched.iter().map(|(field, _)| field);
        let named = fetched.chain(&self.named).find(|field| field.name == name);
        let numbered = || {
            let digits =
                name.strip_prefix("arg").filter(|digits| digits.len() == 1 || !digits.starts_with('0'))?;
            let argument = self.numbered.get(digits.parse::<usize>().ok()?)?;
            Some(untyped(name.to_owned(), argument.clone()))
        };
        named.cloned().or_else(numbered)
    }

    /// What is recorded of it: what the user has named; else its names; of a static probe without names its numbers; of a function
    /// without names nothing.
    pub fn recorded(&self) -> Vec<(FoundField, Option<Form>)> {
        match &self.fetched[..] {
            [] if self.named.is_empty() && !self.name.starts_with("usdt:") => Vec::new(),
            [] => {
                let shown = self.shown().into_iter().filter(|field| !field.is_hidden);
                shown.map(|field| (field, None)).collect()
            }
            fetched => fetched.to_vec(),
        }
    }

    /// What it is said to have: its names, or where it has none its numbers.
    fn shown(&self) -> Vec<FoundField> {
        if !self.named.is_empty() {
            return self.named.clone();
        }
        let numbered = self.numbered.iter().enumerate();
        numbered.map(|(index, argument)| untyped(format!("arg{index}"), argument.clone())).collect()
    }
}
