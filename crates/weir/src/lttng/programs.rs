//! `list -u`: programs that run and have LTTng-UST, with their events, as LTTng shows them.
//!
//! In: the processes of this user, for root of every user. Out: text. The events are read from the files that a process maps, by their descriptors:
//! nothing is asked of the program, and no session daemon knows it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nix::unistd::geteuid;
use weir_event::schema::{Form, Level, Type};
use weir_policy::rules::Rules;
use weir_process::processes::Processes;
use weir_symbols::Binary;
use weir_ust::{Event, Field};
use weir_world as world;

use crate::failure::Failure;
use crate::lttng::client::End;
use crate::lttng::listed::level_of;
use crate::print::printable;

/// In the name of each library of LTTng-UST.
const LIBRARY: &str = "liblttng-ust";

/// By their whole names.
type Events = BTreeMap<String, (Option<Level>, Vec<String>)>;

pub(super) fn text(has_fields: bool) -> Result<String, End> {
    let processes = Processes::at(Path::new("/proc"));
    let pids = processes.pids().context("reading /proc").map_err(Failure::Machine)?;
    let (own, rules) = (geteuid(), Rules::in_force(None).map_err(Failure::from)?);
    let is_meant = |pid: &i32| own.is_root() || processes.user(*pid) == Some(own.as_raw());
    let mut text = "UST events:\n-------------\n".to_owned();
    let mut is_any = false;
    for pid in pids.into_iter().filter(is_meant).filter(|pid| rules.may_see(*pid).is_ok()) {
        // One that has ended meanwhile has none.
        let Some(events) = events_of(pid).filter(|events| !events.is_empty()) else { continue };
        is_any = true;
        text += &format!("\nPID: {pid} - Name: {}\n", printable(&name_of(pid)));
        for (name, (level, fields)) in &events {
            // As LTTng takes an event that does not say.
            let level = level.or(Level::new(13)).map(level_of).unwrap_or_default();
            text += &format!("      {} (loglevel: {level}) (type: tracepoint)\n", printable(name));
            for field in fields.iter().filter(|_| has_fields) {
                text += &format!("        field: {}\n", printable(field));
            }
        }
    }
    Ok(text + if is_any { "\n" } else { "None\n\n" })
}

/// As it was called.
fn name_of(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(first).into_owned()
}

/// None of a process that has no LTTng-UST, or that this user cannot look at.
fn events_of(pid: i32) -> Option<Events> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    if !maps.contains(LIBRARY) {
        return None;
    }
    let world = world::binaries(Some(pid)).ok()?;
    let mut events = Events::new();
    for path in world.mapped_paths() {
        let Ok((path, binary)) = world.open(&path) else { continue };
        if has_events(&path, &binary) {
            of_file(&binary, &mut events);
        }
    }
    Some(events)
}

/// Others are not searched for descriptors.
fn has_events(path: &Path, binary: &Binary) -> bool {
    let is_library = |name: &str| name.starts_with(LIBRARY);
    let own = path.file_name().and_then(|name| name.to_str());
    own.is_some_and(is_library) || binary.needed().iter().any(|name| is_library(name))
}

fn of_file(binary: &Binary, to: &mut Events) {
    let image = binary.image();
    for provider in weir_ust::providers(&|at, to| image.read(at, to), &image.writable()) {
        for Event { name, level, fields, .. } in &provider.events {
            let fields = fields.iter().map(of_field).collect();
            to.insert(format!("{}:{name}", provider.name), (*level, fields));
        }
    }
}

/// `total (integer)`, with LTTng's words.
fn of_field(field: &Field) -> String {
    let kind = match &field.ty {
        Ok(Type::Int { .. }) => "integer",
        Ok(Type::Float { .. }) => "float",
        Ok(Type::Str | Type::Text) => "string",
        Ok(Type::Enum { .. }) => "enum",
        Ok(Type::Array { .. } | Type::Sequence { .. }) if field.form == Form::Text => "string",
        Ok(_) | Err(_) => "unknown",
    };
    let hidden = if field.is_hidden { " [no write]" } else { "" };
    format!("{} ({kind}){hidden}", field.name)
}
