//! A command's side: what it asks the daemon, what it says in LTTng's words, and the current session.
//!
//! The current session is a file beside the daemon's socket: it goes as sessions do, and each daemon has its own. LTTng's own file is left alone.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;
use weir_sessions::channel::Channel;
use weir_sessions::description::Description;
use weir_sessions::place::{self, Place};
use weir_sessions::protocol::{Answer, Outcome, Request};

use crate::args::sessions::At;
use crate::failure::{Failure, Report as _};
use crate::print::{print_on, tell};
use crate::sessions;

/// Why a command ends that has not done all it was asked for.
#[derive(Debug)]
pub(super) enum End {
    /// With LTTng's words, or words like them, and its exit code.
    Said { text: String, code: u8 },
    /// As of any command.
    Failure(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        End::Failure(failure)
    }
}

impl End {
    pub(super) fn error(text: String, code: u8) -> End {
        End::Said { text: format!("Error: {text}"), code }
    }

    pub(super) fn warning(text: String, code: u8) -> End {
        End::Said { text: format!("Warning: {text}"), code }
    }

    pub(super) fn report(&self, is_quiet: bool) -> ExitCode {
        match self {
            End::Failure(failure) if is_quiet => failure.code(),
            End::Failure(failure) => failure.report(None),
            End::Said { text, code } => {
                if !is_quiet {
                    tell!("{text}");
                }
                ExitCode::from(*code)
            }
        }
    }
}

/// LTTng's numbers of errors, which are exit codes.
pub(super) mod code {
    pub(crate) const NO_SESSION: u8 = 23;
    pub(crate) const EVENT_ENABLED: u8 = 55;
    pub(crate) const NO_CHANNEL: u8 = 72;
    pub(crate) const NO_EVENT: u8 = 76;
    pub(crate) const STARTED: u8 = 80;
    pub(crate) const STOPPED: u8 = 81;
    pub(crate) const NEED_CHANNEL: u8 = 83;
    pub(crate) const FILE_EXISTS: u8 = 85;
    pub(crate) const LEVEL: u8 = 97;
    /// Of commands that do several things, of which some failed.
    pub(crate) const SOME: u8 = 4;
    pub(crate) const CONTEXT: u8 = 3;
}

/// A session, as the daemon has it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) description: Description,
    /// The same, as it is kept.
    pub(super) object: Value,
    pub(super) is_active: bool,
    /// The folder that is recorded into.
    pub(super) number: Option<u64>,
    pub(super) discarded: u64,
}

impl Session {
    fn of_object(mut status: Value) -> Result<Session, Failure> {
        let object = status["description"].take();
        let description = Description::of_object(object.clone())
            .map_err(|why| Failure::Machine(anyhow!("what the daemon says of a session: {why}")))?;
        Ok(Session {
            description,
            object,
            is_active: status["state"].as_str() != Some("stopped"),
            number: status["number"].as_u64(),
            discarded: status["counts"]["discarded"].as_u64().unwrap_or(0),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.description.name
    }

    /// Events stay in the rings of all its channels.
    pub(super) fn is_snapshot(&self) -> bool {
        self.description.options.contains_key("overwrite")
    }

    pub(super) fn channel(&self, name: &str) -> Option<&Channel> {
        self.description.channels.iter().find(|channel| channel.name == name)
    }
}

pub(super) struct Client {
    pub(super) is_quiet: bool,
}

/// Where the daemon is: WEIR_SOCKET, or the usual place.
const AT: At = At { socket: None };

impl Client {
    /// To standard output, as LTTng.
    pub(super) fn say(&self, text: &str) -> Result<(), End> {
        match self.is_quiet {
            true => Ok(()),
            false => Ok(print_on(&format!("{text}\n")).map(drop)?),
        }
    }

    pub(super) fn warn(&self, text: &str) {
        if !self.is_quiet {
            tell!("Warning: {text}");
        }
    }

    /// What is said when it is done.
    pub(super) fn ask(&self, request: &Request) -> Result<String, End> {
        match self.answer(request)?.outcome {
            Outcome::Done(text) => Ok(text),
            Outcome::Refused(text) => Err(End::error(text, 1)),
            Outcome::Failed(text) => Err(End::Failure(Failure::Machine(anyhow!("{text}")))),
        }
    }

    fn answer(&self, request: &Request) -> Result<Answer, End> {
        Ok(sessions::ask(&AT, request, matches!(request, Request::Create(_)))?)
    }

    /// All, by name.
    pub(super) fn sessions(&self) -> Result<Vec<Session>, End> {
        let answer = self.answer(&Request::Status(None))?;
        let sessions: Result<Vec<Session>, Failure> =
            answer.sessions.into_iter().map(Session::of_object).collect();
        Ok(sessions?)
    }

    /// The one of this name; without a name the current one.
    pub(super) fn session(&self, name: Option<&str>) -> Result<Session, End> {
        let name = name.map_or_else(|| self.current(), |name| Ok(name.to_owned()))?;
        let found = self.sessions()?.into_iter().find(|session| session.name() == name);
        found.ok_or_else(|| End::error(format!("Session name {name} not found"), code::NO_SESSION))
    }

    fn place() -> Result<Place, End> {
        Ok(sessions::place(&AT)?)
    }

    fn current_path() -> Result<PathBuf, End> {
        let mut path = Client::place()?.socket.into_os_string();
        path.push(".lttng");
        Ok(path.into())
    }

    fn current(&self) -> Result<String, End> {
        if let Some(name) = Client::current_if_any()? {
            return Ok(name);
        }
        self.say("Did you create a session? (weir lttng create <my_session>)")?;
        let path = Client::current_path()?;
        Err(End::error(format!("Can't find a current session in {}", path.display()), 1))
    }

    fn current_if_any() -> Result<Option<String>, End> {
        let path = Client::current_path()?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().find_map(|line| line.strip_prefix("session=")).map(str::to_owned)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Failure::Machine(anyhow!(error).context(format!("reading {}", path.display()))).into())
            }
        }
    }

    pub(super) fn set_current(&self, name: &str) -> Result<(), End> {
        let path = Client::current_path()?;
        let failed =
            |error| Failure::Machine(anyhow!("{error}").context(format!("writing {}", path.display())));
        Ok(place::replace(&path, &format!("session={name}\n")).map_err(failed)?)
    }

    /// If it is this one there is none any more.
    pub(super) fn forget_current(&self, name: &str) -> Result<(), End> {
        if Client::current_if_any()?.as_deref() == Some(name) {
            // One that has gone meanwhile is gone.
            let _ = fs::remove_file(Client::current_path()?);
        }
        Ok(())
    }
}

/// A session as a daemon would have it, of these fields beside those that each has.
#[cfg(test)]
pub(super) fn session(fields: &Value, is_active: bool) -> Session {
    let mut object =
        serde_json::json!({"name": "s", "folder": "/s", "programs": "own", "size": 4096, "directory": "/"});
    for (name, value) in fields.as_object().unwrap() {
        object[name] = value.clone();
    }
    Session {
        description: Description::of_object(object.clone()).unwrap(),
        object,
        is_active,
        number: None,
        discarded: 7,
    }
}
