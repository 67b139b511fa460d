//! `weir lttng`: LTTng's commands on weir's recording sessions.
//!
//! In: a command as LTTng takes it. Out: requests to the daemon of sessions, and what LTTng says of them, where it says it, with its exit codes; what
//! weir has not is refused by name. `names` and `channel` are the mapping, pure; `client` asks. What differs from LTTng is in docs/lttng.md.

mod channel;
mod client;
mod events;
mod list;
mod listed;
mod names;
mod programs;
mod refused;
mod saved;
mod session;
mod track;

use std::ffi::OsString;
use std::process::{Command as Process, ExitCode};

use anyhow::{Context as _, anyhow};

use crate::args::lttng::{Command, InSession, Line, RegenerateWhat, View};
use crate::args::{Args, split_command, view};
use crate::failure::Failure;
use crate::lttng::client::{Client, End};
use crate::print::print;

/// Whose commands these are.
const OF_LTTNG: &str = "2.13";

pub(crate) fn lttng(line: &Line) -> ExitCode {
    let client = Client { is_quiet: line.quiet };
    done(line, &client).unwrap_or_else(|end| end.report(client.is_quiet))
}

fn done(line: &Line, client: &Client) -> Result<ExitCode, End> {
    if let Some(form) = &line.mi {
        let instead = "weir record status -f json and weir view -f json are for programs";
        return Err(End::error(format!("--mi {form}: {instead}"), 1));
    }
    match &line.command {
        Command::Create(args) => session::create(client, args)?,
        Command::Destroy(args) => session::destroy(client, args)?,
        Command::SetSession(args) => session::set(client, &args.name)?,
        Command::Start(args) => session::start(client, args.name.as_deref())?,
        Command::Stop(args) => session::stop(client, args)?,
        Command::Rotate(args) => session::rotate(client, args)?,
        Command::EnableRotation(args) => session::schedule(client, args)?,
        Command::DisableRotation(args) => session::no_schedule(client, args)?,
        Command::Clear(args) => session::clear(client, args)?,
        Command::Snapshot(args) => session::snapshot(client, &args.action)?,
        Command::Status => list::session(client, None, None)?,
        Command::List(args) => list::list(client, args)?,
        Command::EnableChannel(args) => return events::enable_channel(client, args),
        Command::DisableChannel(args) => return events::disable_channel(client, args),
        Command::EnableEvent(args) => return events::enable(client, args),
        Command::DisableEvent(args) => return events::disable(client, args),
        Command::AddContext(args) => return events::add_context(client, args),
        Command::Track(args) => track::track(client, args, true)?,
        Command::Untrack(args) => track::track(client, args, false)?,
        Command::Save(args) => saved::save(client, args)?,
        Command::Load(args) => saved::load(client, args)?,
        Command::View(args) => return view(client, args),
        Command::Regenerate(args) => match &args.what {
            RegenerateWhat::Metadata(InSession { session }) => {
                let session = client.session(session.as_deref())?;
                let name = session.name();
                client
                    .say(&format!("Metadata of session {name} are whole: there is nothing to regenerate"))?;
            }
            RegenerateWhat::Statedump(_) => {
                let why = "statedump: weir records no state dump, and resolves addresses without one";
                return Err(End::error(why.to_owned(), 1));
            }
        },
        Command::Version => {
            let own = env!("CARGO_PKG_VERSION");
            client.say(&format!("lttng version {OF_LTTNG} - the commands of it that weir {own} has"))?;
        }
        Command::Other(words) => match words.split_first() {
            Some((first, rest)) if first == "help" => return help(rest),
            Some((first, _)) => return Err(refused::command(&first.to_string_lossy())),
            None => return Err(refused::command("")),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// `help create` is `create --help`.
fn help(of: &[OsString]) -> Result<ExitCode, End> {
    let words = ["weir", "lttng"].map(OsString::from).into_iter().chain(of.iter().cloned());
    match Args::parse_from_command_line(words.chain(["--help".into()])) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if error.use_stderr() => {
            Err(refused::command(&of.first().map_or("".into(), |of| of.to_string_lossy())))
        }
        Err(error) => Ok(print(&error.to_string())?),
    }
}

/// In this process, unless somebody else is to show it.
fn view(client: &Client, args: &View) -> Result<ExitCode, End> {
    let folder = match &args.trace_path {
        Some(path) => path.clone(),
        None => client.session(args.name.as_deref())?.description.folder,
    };
    let Some(viewer) = &args.viewer else { return Ok(crate::view::view(&view::View::of(folder))?) };
    let words = split_command(viewer).map_err(|why| Failure::Usage(anyhow!("--viewer: {why}")))?.words;
    // SANITY: a command that is split has a word.
    let (program, words) = words.split_first().expect("a command has a word");
    let status = Process::new(program).args(words).arg(folder).status();
    let status = status.with_context(|| format!("--viewer {program}")).map_err(Failure::Refused)?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
