//! Sessions as a whole: made, started, stopped, rotated, cleared, destroyed; snapshots of them.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nix::unistd::geteuid;
use weir_process::Whose;
use weir_sessions::description::{Description, check_name};
use weir_sessions::protocol::Request;

use crate::args::lttng::{self as args, Create, Destroy, OneOrAll, SnapshotAction, SnapshotRecord, Waiting};
use crate::args::sessions::absolute;
use crate::args::sessions::name_of;
use crate::args::trace_format::TraceFormat;
use crate::failure::Failure;
use crate::lttng::channel::{RING_BYTES, in_rings};
use crate::lttng::client::{Client, End, Session, code};
use crate::lttng::refused;
use crate::sessions;
use crate::view::zone::Zone;

const NO_NETWORK: &str = "nothing is sent over a network: traces are folders of this machine";

pub(super) fn create(client: &Client, args: &Create) -> Result<(), End> {
    refused::check(&[
        (args.no_output, "--no-output", "a session has a folder; leave it out, or say --output=DIR"),
        (
            args.live.is_some(),
            "--live",
            "weir view --follow DIR shows what is being recorded, on this machine",
        ),
        (
            args.shm_path.is_some() && args.snapshot,
            "--shm-path --snapshot",
            "rings whose events are overwritten are not kept; leave one of both out",
        ),
        (args.ctrl_url.is_some(), "--ctrl-url", NO_NETWORK),
        (args.data_url.is_some(), "--data-url", NO_NETWORK),
    ])?;
    let time = Zone::local().in_name();
    let (name, of_time) = match &args.name {
        Some(name) => (name.clone(), format!("{name}-{time}")),
        None => (format!("auto-{time}"), format!("auto-{time}")),
    };
    check_name(&name).map_err(|why| End::error(why, 1))?;
    let folder = folder(args, &of_time)?;
    let mut description = described(&name, &folder)?;
    let mut option = |name: &str, value: String| description.options.insert(name.to_owned(), value);
    if args.trace_format != TraceFormat::Ctf1 {
        option("trace-format", name_of(&args.trace_format));
    }
    if let Some(directory) = &args.shm_path {
        option("shm-dir", absolute(directory));
    }
    if args.snapshot {
        in_rings().into_iter().for_each(|(name, value)| drop(option(&name, value)));
    }
    if client.sessions()?.iter().any(|session| session.name() == name) {
        return Err(End::error("Session name already exists".to_owned(), 1));
    }
    made(client, description)?;
    client.set_current(&name)?;
    let shown = folder.display();
    match args.snapshot {
        false => {
            client.say(&format!("Session {name} created."))?;
            client.say(&format!("Traces will be output to {shown}"))
        }
        true => {
            client.say(&format!("Snapshot session {name} created."))?;
            client.say(&format!("Default snapshot output set to {shown}"))?;
            client.say("Every channel enabled for this session will be set to mmap output and default to overwrite mode.")
        }
    }
}

/// Of all programs that there are and will be; root's daemon of those of every user, as LTTng's.
fn described(name: &str, folder: &Path) -> Result<Description, End> {
    let whose = if geteuid().is_root() { Whose::Any } else { Whose::Own };
    let plain = sessions::described(name, folder)?;
    Ok(Description { programs: Some(whose), size: RING_BYTES, ..plain })
}

/// The daemon makes the session's folder, not those above it.
pub(super) fn made(client: &Client, description: Description) -> Result<(), End> {
    if let Some(above) = description.folder.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o770).create(above);
        made.with_context(|| format!("cannot make {}", above.display())).map_err(Failure::Machine)?;
    }
    client.ask(&Request::Create(Box::new(description))).map(drop)
}

/// The folder of a session; `of_time`: its name where nothing is said.
fn folder(args: &Create, of_time: &str) -> Result<PathBuf, End> {
    let given = match (&args.output, &args.set_url) {
        (Some(path), _) => path.clone(),
        (None, Some(url)) => match url.strip_prefix("file://").filter(|path| path.starts_with('/')) {
            Some(path) => path.into(),
            None => {
                return Err(End::error(format!("--set-url {url}: file://DIR is wanted; {NO_NETWORK}"), 1));
            }
        },
        (None, None) => home()?.join("lttng-traces").join(of_time),
    };
    Ok(std::path::absolute(&given).context("--output").map_err(Failure::Refused)?)
}

/// `$LTTNG_HOME`, or the user's.
pub(super) fn home() -> Result<PathBuf, End> {
    let home = ["LTTNG_HOME", "HOME"].iter().find_map(std::env::var_os).map(PathBuf::from);
    let why = "neither LTTNG_HOME nor HOME says where traces go: say --output=DIR";
    home.filter(|home| home.is_absolute()).ok_or_else(|| End::error(why.to_owned(), 1))
}

pub(super) fn destroy(client: &Client, args: &Destroy) -> Result<(), End> {
    each(client, args.all, args.name.as_deref(), |session| {
        let name = session.name();
        client.ask(&Request::Destroy(Some(name.to_owned())))?;
        client.forget_current(name)?;
        client.say(&format!("Session {name} destroyed"))
    })
}

pub(super) fn clear(client: &Client, args: &OneOrAll) -> Result<(), End> {
    each(client, args.all, args.name.as_deref(), |session| {
        let name = session.name();
        client.ask(&Request::Clear(Some(name.to_owned())))?;
        client.say(&format!("Session \"{name}\" cleared"))
    })
}

/// All of them, whatever becomes of one; or one.
fn each(
    client: &Client,
    is_of_all: bool,
    name: Option<&str>,
    mut todo: impl FnMut(&Session) -> Result<(), End>,
) -> Result<(), End> {
    if !is_of_all {
        return todo(&client.session(name)?);
    }
    let sessions = client.sessions()?;
    if sessions.is_empty() {
        return client.say("No session found, nothing to do.");
    }
    let mut done = Ok(());
    for session in &sessions {
        if let Err(end) = todo(session) {
            end.report(client.is_quiet);
            done = Err(End::error(format!("Session {}: see above", session.name()), 1));
        }
    }
    done
}

pub(super) fn set(client: &Client, name: &str) -> Result<(), End> {
    if !client.sessions()?.iter().any(|session| session.name() == name) {
        return Err(End::error(format!("Session '{name}' not found"), 1));
    }
    client.set_current(name)?;
    client.say(&format!("Session set to {name}"))
}

pub(super) fn start(client: &Client, name: Option<&str>) -> Result<(), End> {
    let session = client.session(name)?;
    let name = session.name();
    if session.is_active {
        return Err(End::warning(format!("Tracing already started for session {name}"), code::STARTED));
    }
    let Description { channels, rules, .. } = &session.description;
    if channels.is_empty() && rules.is_empty() {
        return Err(End::error("No channel found in the session".to_owned(), code::NO_CHANNEL));
    }
    client.ask(&Request::Start(Some(name.to_owned())))?;
    client.say(&format!("Tracing started for session {name}"))
}

pub(super) fn stop(client: &Client, args: &Waiting) -> Result<(), End> {
    let session = client.session(args.name.as_deref())?;
    let name = session.name();
    if !session.is_active {
        return Err(End::warning(format!("Tracing already stopped for session {name}"), code::STOPPED));
    }
    if !args.no_wait {
        client.say("Waiting for data availability")?;
    }
    client.ask(&Request::Stop(Some(name.to_owned())))?;
    client.say(&format!("Tracing stopped for session {name}"))
}

pub(super) fn rotate(client: &Client, args: &Waiting) -> Result<(), End> {
    let session = client.session(args.name.as_deref())?;
    let name = session.name();
    if session.is_snapshot() {
        let why = "Rotation feature not available for this session's creation mode";
        return Err(End::error(why.to_owned(), 1));
    }
    if !args.no_wait {
        client.say("Waiting for rotation to complete...")?;
    }
    client.ask(&Request::Rotate(Some(name.to_owned())))?;
    let folder = &session.description.folder;
    let closed = session.number.map_or_else(|| folder.clone(), |number| folder.join(number.to_string()));
    // With channels the folders are theirs.
    let closed = if closed.is_dir() { &closed } else { folder };
    client.say(&format!("Trace chunk archive for session {name} is now readable at {}", closed.display()))
}

pub(super) fn schedule(client: &Client, args: &args::Schedule) -> Result<(), End> {
    let session = client.session(args.session.as_deref())?;
    let (name, mut schedule) = (session.name().to_owned(), session.description.schedule);
    let known = |what: &str| {
        Err(End::error(format!("A {what} rotation schedule is already set on session {name}"), 1))
    };
    let mut told = Vec::new();
    match (args.timer, args.size) {
        (None, None) => {
            return Err(End::error("No session rotation schedule parameter provided.".to_owned(), 1));
        }
        (Some(_), _) if schedule.every_ms.is_some() => return known("periodic"),
        (_, Some(_)) if schedule.bytes.is_some() => return known("size-based"),
        _ => {}
    }
    if let Some(us) = args.timer {
        // As often as a session can.
        schedule.every_ms = Some(us.div_ceil(1000));
        told.push(format!("Enabled periodic rotations every {us} \u{b5}s on session {name}"));
    }
    if let Some(bytes) = args.size {
        schedule.bytes = Some(bytes);
        told.push(format!("Enabled size-based rotations every {bytes} bytes written on session {name}"));
    }
    client.ask(&Request::Schedule { session: Some(name.clone()), schedule })?;
    told.iter().try_for_each(|text| client.say(text))
}

pub(super) fn no_schedule(client: &Client, args: &args::NoSchedule) -> Result<(), End> {
    let session = client.session(args.session.as_deref())?;
    let (name, mut schedule) = (session.name().to_owned(), session.description.schedule);
    if !args.timer && !args.size {
        return Err(End::error("No session rotation schedule parameter provided.".to_owned(), 1));
    }
    let none = |what: &str| End::error(format!("No {what} rotation schedule was set on session {name}"), 1);
    let mut told = Vec::new();
    if args.timer {
        schedule.every_ms.take().ok_or_else(|| none("periodic"))?;
        told.push(format!("Disabled periodic rotation on session {name}"));
    }
    if args.size {
        schedule.bytes.take().ok_or_else(|| none("size-based"))?;
        told.push(format!("Disabled size-based rotation on session {name}"));
    }
    client.ask(&Request::Schedule { session: Some(name.clone()), schedule })?;
    told.iter().try_for_each(|text| client.say(text))
}

pub(super) fn snapshot(client: &Client, action: &SnapshotAction) -> Result<(), End> {
    let where_to = "where snapshots go is given with create: --output=DIR";
    match action {
        SnapshotAction::Record(args) => record(client, args),
        SnapshotAction::ListOutput(args) => {
            let session = client.session(args.session.as_deref())?;
            client.say(&format!("Snapshot output list for session {}", session.name()))?;
            let folder = session.description.folder.display();
            if !session.is_snapshot() {
                return client.say("    None");
            }
            client.say(&format!("    [1] snapshot-1: {folder}"))
        }
        SnapshotAction::AddOutput(_) => Err(End::error(format!("add-output: {where_to}"), 1)),
        SnapshotAction::DelOutput(_) => Err(End::error(format!("del-output: {where_to}"), 1)),
    }
}

fn record(client: &Client, args: &SnapshotRecord) -> Result<(), End> {
    refused::check(&[
        (
            args.max_size.is_some(),
            "--max-size",
            "a snapshot is as large as what the rings hold: see enable-channel",
        ),
        (args.url.is_some(), "URL", "where snapshots go is given with create: --output=DIR"),
    ])?;
    let session = client.session(args.session.as_deref())?;
    let name = session.name();
    if !session.is_snapshot() {
        let why = "Snapshot command can't be applied to a non-snapshot session";
        return Err(End::error(why.to_owned(), 1));
    }
    client.ask(&Request::Snapshot(Some(name.to_owned())))?;
    if let Some(given) = &args.name {
        client.warn(&format!("--name {given}: a snapshot's folder has its number and its time in its name"));
    }
    client.say(&format!("Snapshot recorded successfully for session {name}"))
}

/// Of a folder that a session may have: one that is not there, or that has nothing in it.
pub(super) fn is_free(folder: &Path) -> Result<bool, End> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => {
            Err(Failure::Machine(anyhow!(error).context(format!("reading {}", folder.display()))).into())
        }
    }
}
