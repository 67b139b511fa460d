//! The commands of recording sessions, asked of their daemon ([`weir_sessions`]); and that daemon.
//!
//! In: the commands. Out: what the daemon answers, printed.

mod process;
mod programs;

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::setsid;
use weir_process::tracked::Tracked;
use weir_process::{Follow, ProcessSpec};
use weir_run::{check_rule, check_triggers};
use weir_sessions::channel::Channel;
use weir_sessions::client::Start;
use weir_sessions::daemon::{Ended, Surroundings};
use weir_sessions::description::{Description, Schedule, check_name};
use weir_sessions::place::Place;
use weir_sessions::protocol::{Answer, Named, Outcome, Request};
use weir_sessions::rule::Rule;
use weir_sessions::status::{Status, Traced};
use weir_sessions::{client, limits};

use crate::args::Format;
use crate::args::sessions::{self as args, At, Create, Enable, Load, One, Session, Track};
use crate::failure::{Failure, Report as _};
use crate::manage;
use crate::print::{print, tell, tell_text};
use crate::sessions::programs::Programs;

/// The environment's word for how long a daemon without sessions stays, in seconds.
const IDLE_VARIABLE: &str = "WEIR_IDLE";

pub(crate) fn sessions(command: &Session) -> Result<ExitCode, Failure> {
    match command {
        Session::Create(args) => {
            let request = Request::Create(Box::new(description(args)?));
            told(ask(&args.at, &request, true)?)
        }
        Session::Enable(args) => told(ask(&args.at, &enable(args)?, false)?),
        Session::Disable(args) => {
            let (session, events) = session_and_events(&args.session, &args.words)?;
            told(ask(&args.at, &Request::Disable { session, channel: args.channel.clone(), events }, false)?)
        }
        Session::AddContext(args) => {
            let session = one(&args.name, &args.session)?;
            let contexts = args.contexts.clone();
            told(ask(
                &args.at,
                &Request::AddContexts { session, channel: args.channel.clone(), contexts },
                false,
            )?)
        }
        Session::Start(args) => told(ask(&args.at, &Request::Start(one(&args.name, &args.session)?), false)?),
        Session::Stop(args) => told(ask(&args.at, &Request::Stop(one(&args.name, &args.session)?), false)?),
        Session::Rotate(args) => {
            let session = one(&args.name, &args.session)?;
            let request = match args.schedule() {
                None => Request::Rotate(session),
                Some(schedule) => Request::Schedule { session, schedule },
            };
            told(ask(&args.at, &request, false)?)
        }
        Session::Destroy(args) if args.all => destroy_all(args),
        Session::Destroy(args) => {
            told(ask(&args.at, &Request::Destroy(one(&args.name, &args.session)?), false)?)
        }
        Session::Status(args) => status(args),
        Session::Snapshot(args) => {
            told(ask(&args.at, &Request::Snapshot(one(&args.name, &args.session)?), false)?)
        }
        Session::EnableChannel(args) => {
            let (session, name) = session_and_channel(&args.session, &args.words)?;
            let options = args.options().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let (size, contexts) = (args.size.into(), Vec::new());
            let channel = Channel { name, size, options, contexts, is_disabled: false };
            told(ask(&args.at, &Request::EnableChannel { session, channel }, false)?)
        }
        Session::DisableChannel(args) => {
            let (session, channel) = session_and_channel(&args.session, &args.words)?;
            told(ask(&args.at, &Request::DisableChannel { session, channel }, false)?)
        }
        Session::Track(args) => told(ask(&args.at, &track(args, true)?, false)?),
        Session::Untrack(args) => told(ask(&args.at, &track(args, false)?, false)?),
        Session::Clear(args) => told(ask(&args.at, &Request::Clear(one(&args.name, &args.session)?), false)?),
        Session::Save(args) => save(args),
        Session::Load(args) => load(args),
        Session::Daemon(args) => daemon(&place(&args.at)?, args.idle.map_or_else(idle, Ok)?, args.detached),
    }
}

pub(crate) fn place(at: &At) -> Result<Place, Failure> {
    Ok(Place::find(at.socket.as_deref(), process::executable)?)
}

/// Runs one in this process. `is_detached`: nobody waits for it.
fn daemon(place: &Place, idle: Duration, is_detached: bool) -> Result<ExitCode, Failure> {
    if is_detached {
        process::close_inherited();
        setsid().context("setsid").map_err(Failure::Machine)?;
    }
    // Recordings take some each, and so does a process that waits for one.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block().context("blocking signals").map_err(Failure::Machine)?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = signals.context("signalfd").map_err(Failure::Machine)?;
    let mut is_to_end = || {
        let signal = signals.read_signal().ok().flatten()?;
        Some(Signal::try_from(signal.ssi_signo as i32).map_or("a signal", Signal::as_str).to_owned())
    };
    let surroundings = Surroundings {
        end: signals.as_fd(),
        is_to_end: &mut is_to_end,
        tell: &mut |line| tell!("{line}"),
        finder: &mut Programs::of_machine(),
    };
    if weir_sessions::daemon::run(place, idle, surroundings)? == Ended::OtherThere && !is_detached {
        tell!("weir: a daemon is there already, at {}", place.socket.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn idle() -> Result<Duration, Failure> {
    let Some(text) = std::env::var_os(IDLE_VARIABLE) else { return Ok(limits::IDLE) };
    let seconds = args::seconds(&text.to_string_lossy());
    seconds.map_err(|why| Failure::Refused(anyhow!("{IDLE_VARIABLE}={}: {why}", text.display())))
}

/// Asks the daemon; what it has to tell besides the answer is told. `makes`: there may be no session yet.
pub(crate) fn ask(at: &At, request: &Request, makes: bool) -> Result<Answer, Failure> {
    let place = place(at)?;
    // One that was killed has left something to tell.
    let start = match makes || place.state().exists() {
        true => Start::Idle(idle()?),
        false => Start::Never,
    };
    let none = || Answer {
        outcome: nothing(request),
        said: String::new(),
        notices: Vec::new(),
        sessions: Vec::new(),
    };
    let answer = client::ask(&place, request, &start)?.unwrap_or_else(none);
    answer.notices.iter().for_each(|notice| tell!("weir: {notice}"));
    tell_text(&answer.said);
    Ok(answer)
}

/// What comes of a request where there is no daemon.
fn nothing(request: &Request) -> Outcome {
    match request {
        Request::Status(None) => Outcome::Done(String::new()),
        _ => Outcome::Refused("there is no session: make one with weir record create".to_owned()),
    }
}

fn told(answer: Answer) -> Result<ExitCode, Failure> {
    done(answer).map(|_| ExitCode::SUCCESS)
}

fn done(answer: Answer) -> Result<Answer, Failure> {
    match &answer.outcome {
        Outcome::Done(text) if text.is_empty() => Ok(answer),
        Outcome::Done(text) => {
            tell!("weir: {text}");
            Ok(answer)
        }
        Outcome::Refused(text) => Err(Failure::Refused(anyhow!("{text}"))),
        Outcome::Failed(text) => Err(Failure::Machine(anyhow!("{text}"))),
    }
}

fn description(args: &Create) -> Result<Description, Failure> {
    check_name(&args.name).map_err(|why| Failure::Refused(anyhow!("{why}")))?;
    // Told here, where their texts can be shown.
    check_triggers(&args.triggers.options(), args.flight.snapshot_on.as_deref(), args.dialect)?;
    let output = args.output.as_deref().unwrap_or(Path::new(&args.name));
    let process = |spec: &ProcessSpec| match spec {
        ProcessSpec::Pid(pid) => pid.to_string(),
        ProcessSpec::Name(name) => name.clone(),
    };
    Ok(Description {
        processes: args.processes.iter().map(process).collect(),
        cgroups: args.cgroups.clone(),
        units: args.units.clone(),
        containers: args.containers.clone(),
        programs: args.user,
        follow: args.follow.unwrap_or_default(),
        size: args.size.into(),
        options: args.options().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        budget: args.budget.clone(),
        policy: args.policy.as_deref().map(|path| whole(path, "--policy")).transpose()?,
        ..described(&args.name, Path::new(&whole(output, "-o")?))?
    })
}

/// A session that is made here, of no processes yet, and has nothing to record. `folder`: its whole path.
pub(crate) fn described(name: &str, folder: &Path) -> Result<Description, Failure> {
    let directory = std::env::current_dir().context("the current directory").map_err(Failure::Machine)?;
    Ok(Description {
        name: name.to_owned(),
        folder: utf8(folder, "-o")?.into(),
        processes: Vec::new(),
        cgroups: Vec::new(),
        units: Vec::new(),
        containers: Vec::new(),
        programs: None,
        tracked: Tracked::default(),
        channels: Vec::new(),
        follow: Follow::default(),
        size: 0,
        schedule: Schedule::default(),
        options: BTreeMap::new(),
        budget: None,
        policy: None,
        directory: utf8(&directory, "the current directory")?,
        search_path: std::env::var("PATH").ok(),
        rules: Vec::new(),
        disabled: Vec::new(),
        contexts: Vec::new(),
    })
}

fn whole(path: &Path, flag: &str) -> Result<String, Failure> {
    let path = std::path::absolute(path).with_context(|| flag.to_owned()).map_err(Failure::Refused)?;
    utf8(&path, flag)
}

fn utf8(path: &Path, what: &str) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::Refused(anyhow!("{what} {}: sessions have paths in UTF-8", path.display())))
}

fn enable(args: &Enable) -> Result<Request, Failure> {
    let (session, events) = session_and_events(&args.session, &args.words)?;
    let directory = std::env::current_dir().context("the current directory").map_err(Failure::Machine)?;
    let rule = Rule {
        events: events.iter().map(|event| with_whole_path(event, &directory)).collect(),
        exclude: args.exclude.clone(),
        least: args.loglevel,
        only: args.loglevel_only,
        filter: args.filter.clone(),
        dialect: args.dialect,
        channel: args.channel.clone(),
    };
    // Told here, where its text can be shown.
    check_rule(&rule)?;
    Ok(Request::Enable { session, rule })
}

/// The path in `usdt:./app:a:b` is meant as it is here.
fn with_whole_path(event: &str, directory: &Path) -> String {
    let mut parts: Vec<String> = event.split(':').map(str::to_owned).collect();
    if let [kind, file, _, ..] = &mut parts[..]
        && ["usdt", "lttng", "static", "uprobe", "uretprobe"].contains(&&kind[..])
        && file.contains('/')
        && !file.starts_with('/')
        && let Some(whole) = directory.join(&file).to_str()
    {
        *file = whole.to_owned();
    }
    parts.join(":")
}

/// The session may be the first word, which an event is not: that has a colon.
fn session_and_events(session: &Named, words: &[String]) -> Result<(Named, Vec<String>), Failure> {
    let (session, events) = match (session, words.split_first()) {
        (None, Some((first, rest))) if !first.contains(':') => (Some(first.clone()), rest),
        _ => (session.clone(), words),
    };
    session.as_deref().map_or(Ok(()), check_name).map_err(|why| Failure::Refused(anyhow!("{why}")))?;
    match events.is_empty() {
        true => Err(Failure::Refused(anyhow!("which events? PROVIDER:EVENT is wanted behind the session"))),
        false => Ok((session, events.to_vec())),
    }
}

/// The last word is the channel; before it may stand the session.
fn session_and_channel(session: &Named, words: &[String]) -> Result<(Named, String), Failure> {
    let (session, channel) = match (session, words) {
        (Some(session), [channel]) => (Some(session.clone()), channel),
        (None, [session, channel]) => (Some(session.clone()), channel),
        (None, [channel]) => (None, channel),
        _ => {
            return Err(Failure::Refused(anyhow!(
                "which channel? {} is more than its name",
                words.join(" ")
            )));
        }
    };
    session.as_deref().map_or(Ok(()), check_name).map_err(|why| Failure::Refused(anyhow!("{why}")))?;
    Ok((session, channel.clone()))
}

fn track(args: &Track, is_tracked: bool) -> Result<Request, Failure> {
    let (session, (attribute, values)) = (one(&args.name, &args.session)?, args.set());
    Ok(Request::Track { session, is_tracked, attribute, values })
}

/// What a session is, as JSON.
fn save(args: &One) -> Result<ExitCode, Failure> {
    let named = one(&args.name, &args.session)?;
    let answer = done(ask(&args.at, &Request::Status(named.clone()), false)?)?;
    match &answer.sessions[..] {
        [session] => print(&format!("{}\n", session["description"])),
        [] => Err(Failure::Refused(anyhow!("there is no session"))),
        _ => Err(Failure::Refused(anyhow!("which session? There are several"))),
    }
}

/// A session as [`save`] has written it.
fn load(args: &Load) -> Result<ExitCode, Failure> {
    let (shown, text) = match args.file.as_deref().filter(|path| *path != Path::new("-")) {
        None => ("standard input".to_owned(), std::io::read_to_string(std::io::stdin())),
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
    };
    let text = text.with_context(|| shown.clone()).map_err(Failure::Refused)?;
    let refused =
        |why: String| Failure::Refused(anyhow!("{shown}: {why}; a session is as weir record save writes it"));
    let value = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let mut description = Description::of_object(value).map_err(refused)?;
    if let Some(name) = &args.name {
        check_name(name).map_err(|why| Failure::Refused(anyhow!("{why}")))?;
        description.name.clone_from(name);
    }
    if let Some(output) = &args.output {
        description.folder = whole(output, "-o")?.into();
    }
    told(ask(&args.at, &Request::Create(Box::new(description)), true)?)
}

fn one(name: &Named, session: &Named) -> Result<Named, Failure> {
    let named = name.as_ref().or(session.as_ref());
    named.map_or(Ok(()), |name| check_name(name)).map_err(|why| Failure::Refused(anyhow!("{why}")))?;
    Ok(named.cloned())
}

fn status(args: &args::Status) -> Result<ExitCode, Failure> {
    let answer = done(ask(&args.at, &Request::Status(one(&args.name, &args.session)?), false)?)?;
    let sessions: Result<Vec<Status>, String> = answer.sessions.into_iter().map(Status::of_object).collect();
    let sessions =
        sessions.map_err(|why| Failure::Machine(anyhow!("what the daemon says of a session: {why}")))?;
    let traced = manage::traced_by()?;
    let of = |session: &Status| -> Vec<Traced> {
        let of_it = traced.iter().filter(|(controller, ..)| session.recorders.contains(controller));
        of_it.map(|(_, pid, name)| Traced { pid: *pid, name: name.clone() }).collect()
    };
    print(&match args.format {
        Format::Text if sessions.is_empty() => "there is no session\n".to_owned(),
        Format::Text => sessions.iter().map(|session| session.text(&of(session))).collect(),
        Format::Json => {
            sessions.iter().map(|session| format!("{}\n", session.object(&of(session)))).collect()
        }
    })
}

fn destroy_all(args: &args::Destroy) -> Result<ExitCode, Failure> {
    let answer = done(ask(&args.at, &Request::Status(None), false)?)?;
    let mut failed = None;
    for session in answer.sessions {
        let name = session["description"]["name"].as_str().map(str::to_owned);
        let answer = ask(&args.at, &Request::Destroy(name), false)?;
        if let Err(failure) = done(answer) {
            failure.report(None);
            failed = Some(failure);
        }
    }
    Ok(failed.map_or(ExitCode::SUCCESS, |failure| failure.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_events_are_made_whole() {
        let check =
            |event: &str, wanted: &str| assert_eq!(with_whole_path(event, Path::new("/home/a")), wanted);
        check("shop:sale", "shop:sale");
        check("usdt:./shop:a:b", "usdt:/home/a/./shop:a:b");
        check("uprobe:bin/shop:f", "uprobe:/home/a/bin/shop:f");
        check("uprobe:libc:malloc", "uprobe:libc:malloc");
        check("usdt:/bin/x:a:b", "usdt:/bin/x:a:b");
        check("lttng:./shop:a:b", "lttng:/home/a/./shop:a:b");
    }

    #[test]
    fn the_first_word_is_a_session_if_it_is_no_event() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let named = Some("s".to_owned());
        assert_eq!(
            session_and_events(&None, &words("s a:b c:d")).unwrap(),
            (named.clone(), words("a:b c:d"))
        );
        assert_eq!(session_and_events(&None, &words("a:b")).unwrap(), (None, words("a:b")));
        assert_eq!(session_and_events(&named, &words("a:b")).unwrap(), (named, words("a:b")));
        assert!(session_and_events(&None, &words("s")).is_err());
        assert!(session_and_events(&None, &words("../s a:b")).is_err());
    }
}
