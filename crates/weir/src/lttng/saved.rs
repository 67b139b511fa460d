//! `save` and `load`: sessions as files, in weir's own form.
//!
//! A file is an object of JSON: `{"weir": 1, "session": …, "started": …}`, whose session is what the daemon's state file has of it. LTTng's own files
//! (XML) are refused by name. A session that is loaded gets a folder of its own where that of the saved one has something in it.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use weir_sessions::description::{Description, check_name};
use weir_sessions::place;
use weir_sessions::protocol::Request;

use crate::args::lttng::{Load, Save};
use crate::failure::Failure;
use crate::lttng::client::{Client, End, Session, code};
use crate::lttng::refused;
use crate::lttng::session::{home, is_free, made};
use crate::view::zone::Zone;

/// Of the form; counts up when it changes.
const FORM: u64 = 1;

/// LIMIT: bytes of a file that is read.
const FILE_BYTES: u64 = 16 << 20;

const END: &str = "json";

pub(super) fn save(client: &Client, args: &Save) -> Result<(), End> {
    let sessions = match &args.name {
        Some(name) => vec![client.session(Some(name))?],
        None => client.sessions()?,
    };
    let folder = args.output_path.clone().map_or_else(usual, Ok)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display())).map_err(Failure::Machine)?;
    for session in &sessions {
        let path = folder.join(format!("{}.{END}", session.name()));
        if path.exists() && !args.force {
            return Err(End::error(
                format!("Session file already exists: {}", path.display()),
                code::FILE_EXISTS,
            ));
        }
        let written = place::replace(&path, &text(session));
        written.with_context(|| format!("writing {}", path.display())).map_err(Failure::Machine)?;
    }
    let where_to = folder.display();
    match &args.name {
        Some(name) => client.say(&format!("Session {name} saved successfully in {where_to}.")),
        None => client.say(&format!("All sessions have been saved successfully in {where_to}.")),
    }
}

fn usual() -> Result<PathBuf, End> {
    Ok(home()?.join(".weir/sessions"))
}

fn text(session: &Session) -> String {
    format!("{:#}\n", json!({"weir": FORM, "session": session.object, "started": session.is_active}))
}

/// What a file says.
#[derive(PartialEq, Eq, Debug)]
struct Saved {
    description: Description,
    was_started: bool,
}

impl Saved {
    fn of_text(text: &str) -> Result<Saved, String> {
        if text.trim_start().starts_with('<') {
            return Err(
                "this is XML, as LTTng saves sessions: make the session with weir lttng, and save that"
                    .to_owned(),
            );
        }
        let mut saved: Value =
            serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))?;
        match (saved["weir"].as_u64(), saved["started"].as_bool()) {
            (Some(FORM), Some(was_started)) => {
                Ok(Saved { description: Description::of_object(saved["session"].take())?, was_started })
            }
            _ => Err(format!("this is no session that weir {} has saved", env!("CARGO_PKG_VERSION"))),
        }
    }
}

pub(super) fn load(client: &Client, args: &Load) -> Result<(), End> {
    refused::check(&[(
        args.override_url.is_some(),
        "--override-url",
        "a loaded session has a folder of its own",
    )])?;
    let from = args.input_path.clone().map_or_else(usual, Ok)?;
    let paths = if from.is_dir() { files(&from, args.name.as_deref())? } else { vec![from] };
    let mut found = 0;
    for path in paths {
        let Saved { mut description, was_started } = read(&path)?;
        if args.name.as_ref().is_some_and(|name| *name != description.name) {
            continue;
        }
        found += 1;
        if let Some(name) = &args.override_name {
            check_name(name).map_err(|why| End::error(why, 1))?;
            description.name.clone_from(name);
        }
        one(client, description, was_started, args.force)?;
    }
    match (&args.name, found) {
        (_, 0) => Err(End::error("Session file not found".to_owned(), 1)),
        (Some(name), _) => {
            client.set_current(args.override_name.as_ref().unwrap_or(name))?;
            client.say(&format!("Session {name} has been loaded successfully"))
        }
        (None, _) => client.say("All sessions have been loaded successfully"),
    }
}

/// Those of a folder that may be of this session.
fn files(folder: &Path, name: Option<&str>) -> Result<Vec<PathBuf>, End> {
    let failed = || format!("reading {}", folder.display());
    let entries = fs::read_dir(folder).with_context(failed).map_err(Failure::Machine)?;
    let is_meant = |path: &PathBuf| {
        let is_of = |name: &str| path.file_stem().is_some_and(|stem| stem == name);
        path.extension().is_some_and(|end| end == END || end == "lttng") && name.is_none_or(is_of)
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_meant).collect();
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<Saved, End> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Saved::of_text(&text).map_err(|why| End::error(format!("{}: {why}", path.display()), 1)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(End::error(format!("Session file not found: {}", path.display()), 1))
        }
        Err(error) => {
            Err(Failure::Machine(anyhow!(error).context(format!("reading {}", path.display()))).into())
        }
    }
}

fn one(client: &Client, mut description: Description, was_started: bool, is_forced: bool) -> Result<(), End> {
    let name = description.name.clone();
    let sessions = client.sessions()?;
    let has = |session: &Session| session.description.folder == description.folder;
    let is_of_other = sessions.iter().any(|session| session.name() != name && has(session));
    if sessions.iter().any(|session| session.name() == name) {
        if !is_forced {
            return Err(End::error(format!("Session name already exists: {name}"), 1));
        }
        client.ask(&Request::Destroy(Some(name.clone())))?;
    }
    if is_of_other || !is_free(&description.folder)? {
        description.folder = beside(&description.folder, &name, &Zone::local().in_name());
        client.warn(&format!("Traces of session {name} will be output to {}", description.folder.display()));
    }
    made(client, description)?;
    if was_started {
        client.ask(&Request::Start(Some(name)))?;
    }
    Ok(())
}

/// Of the folder that was chosen when the session was made, with another time.
fn beside(folder: &Path, name: &str, time: &str) -> PathBuf {
    folder.with_file_name(format!("{name}-{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lttng::client::session;

    #[test]
    fn a_session_is_what_it_was_as_a_file_again() {
        let session = session(&json!({}), true);
        let description = session.description.clone();
        assert_eq!(Saved::of_text(&text(&session)), Ok(Saved { description, was_started: true }));
    }

    #[test]
    fn other_files_are_refused() {
        let check = |text: &str, wanted: &str| {
            let refused = Saved::of_text(text).unwrap_err();
            assert!(refused.contains(wanted), "{text}: {refused}");
        };
        check("<?xml version=\"1.0\"?><sessions/>", "XML");
        check("", "no JSON");
        check("{}", "no session that weir");
        check("{\"weir\": 9, \"started\": true, \"session\": {}}", "no session that weir");
        check("{\"weir\": 1, \"started\": true, \"session\": {}}", "has no `name`");
    }

    #[test]
    fn a_folder_that_is_taken_gets_another_beside_it() {
        let check = |folder: &str, wanted: &str| {
            assert_eq!(beside(Path::new(folder), "s", "20260101-000000"), Path::new(wanted));
        };
        check("/home/a/lttng-traces/s-20250101-000000", "/home/a/lttng-traces/s-20260101-000000");
        check("/var/tmp/out", "/var/tmp/s-20260101-000000");
    }
}
