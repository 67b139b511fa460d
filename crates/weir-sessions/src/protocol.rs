//! What a client and the daemon say to each other: an object of JSON a line.
//!
//! The daemon begins with [`Hello`]; then the client says one [`Request`], and the daemon one [`Answer`], and closes. A client that sees the
//! end before a hello may try again: nothing was asked. Both hold what comes to bounds, and refuse fields that they do not know; a daemon of
//! another version of weir is known by its hello, and is asked nothing.

use serde_json::{Value, json};

use weir_process::tracked::Attribute;

use crate::channel::Channel;
use crate::context::Context;
use crate::description::{Description, Schedule, check_name};
use crate::object::Object;
use crate::rule::Rule;

/// Counts up where requests or answers change.
pub(crate) const PROTOCOL: u64 = 3;

/// Who the daemon is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub protocol: u64,
    pub version: String,
    pub pid: u64,
    pub uid: u64,
}

/// What the daemon is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A new session.
    Create(Box<Description>),
    /// More events.
    Enable {
        /// Which one.
        session: Named,
        /// Which events.
        rule: Rule,
    },
    /// Fewer events.
    Disable {
        /// Which one.
        session: Named,
        /// Out of this channel; none: out of all.
        channel: Option<String>,
        /// Patterns.
        events: Vec<String>,
    },
    /// More with each event.
    AddContexts {
        /// Which one.
        session: Named,
        /// Of this channel's events; none: of all.
        channel: Option<String>,
        /// What.
        contexts: Vec<Context>,
    },
    /// A channel, or one that was disabled again.
    EnableChannel {
        /// Which one.
        session: Named,
        /// What it is.
        channel: Channel,
    },
    /// The events of a channel are recorded no more.
    DisableChannel {
        /// Which one.
        session: Named,
        /// The channel's name.
        channel: String,
    },
    /// Which processes of its programs are recorded.
    Track {
        /// Which one.
        session: Named,
        /// Or are not any more.
        is_tracked: bool,
        /// By which they are chosen.
        attribute: Attribute,
        /// None: all.
        values: Vec<String>,
    },
    /// When it goes on in new folders by itself.
    Schedule {
        /// Which one.
        session: Named,
        /// From now on.
        schedule: Schedule,
    },
    /// What it has recorded is removed.
    Clear(Named),
    /// It records.
    Start(Named),
    /// It records no more.
    Stop(Named),
    /// It goes on in the next folder.
    Rotate(Named),
    /// Of a flight recorder.
    Snapshot(Named),
    /// It is forgotten; its traces stay.
    Destroy(Named),
    /// Of this session, or of all.
    Status(Named),
}

/// A session by its name, or the only one that there is.
pub type Named = Option<String>;

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Whether it was done.
    pub outcome: Outcome,
    /// What recordings said.
    pub said: String,
    /// What happened before, and nobody was told.
    pub notices: Vec<String>,
    /// Of each session that was asked for.
    pub sessions: Vec<Value>,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was done; what there is to say.
    Done(String),
    /// What was asked for cannot be.
    Refused(String),
    /// The machine does not allow it.
    Failed(String),
}

impl Hello {
    pub(crate) fn line(&self) -> String {
        let Hello { protocol, version, pid, uid } = self;
        format!("{}\n", json!({"weir": version, "protocol": protocol, "pid": pid, "uid": uid}))
    }

    pub(crate) fn of_line(line: &[u8]) -> Result<Hello, String> {
        // Fields of later versions are let pass: what they say is of no use without knowing the version.
        let mut object = read(line, "the daemon's hello")?;
        Ok(Hello {
            protocol: object.number("protocol")?,
            version: object.text("weir")?,
            pid: object.number("pid")?,
            uid: object.number("uid")?,
        })
    }
}

impl Request {
    pub(crate) fn line(&self) -> String {
        let of = |what: &str, session: &Named| json!({"do": what, "session": session});
        let object = match self {
            Request::Create(description) => json!({"do": "create", "description": description.object()}),
            Request::Enable { session, rule } => {
                json!({"do": "enable", "session": session, "rule": rule.object()})
            }
            Request::Disable { session, channel, events } => {
                json!({"do": "disable", "session": session, "channel": channel, "events": events})
            }
            Request::AddContexts { session, channel, contexts } => {
                let contexts: Vec<&str> = contexts.iter().map(|context| context.name()).collect();
                json!({"do": "add-context", "session": session, "channel": channel, "contexts": contexts})
            }
            Request::EnableChannel { session, channel } => {
                json!({"do": "enable-channel", "session": session, "channel": channel.object()})
            }
            Request::DisableChannel { session, channel } => {
                json!({"do": "disable-channel", "session": session, "channel": channel})
            }
            Request::Track { session, is_tracked, attribute, values } => {
                let what = if *is_tracked { "track" } else { "untrack" };
                json!({"do": what, "session": session, "attribute": attribute.to_string(), "values": values})
            }
            Request::Schedule { session, schedule: Schedule { every_ms, bytes } } => {
                json!({"do": "schedule", "session": session, "every_ms": every_ms, "bytes": bytes})
            }
            Request::Clear(session) => of("clear", session),
            Request::Start(session) => of("start", session),
            Request::Stop(session) => of("stop", session),
            Request::Rotate(session) => of("rotate", session),
            Request::Snapshot(session) => of("snapshot", session),
            Request::Destroy(session) => of("destroy", session),
            Request::Status(session) => of("status", session),
        };
        format!("{object}\n")
    }

    pub(crate) fn of_line(line: &[u8]) -> Result<Request, String> {
        let mut object = read(line, "the request")?;
        let what = object.text("do")?;
        let request = match &what[..] {
            "create" => {
                let description = object.value("description").unwrap_or_default();
                Request::Create(Box::new(Description::of_object(description)?))
            }
            "enable" => {
                let rule = Rule::of_object(object.value("rule").unwrap_or_default())?;
                Request::Enable { session: named(&mut object)?, rule }
            }
            "disable" => Request::Disable {
                session: named(&mut object)?,
                channel: object.text_or_none("channel")?,
                events: object.texts("events")?,
            },
            "add-context" => {
                let contexts: Result<Vec<Context>, String> =
                    object.texts("contexts")?.iter().map(|name| name.parse()).collect();
                let channel = object.text_or_none("channel")?;
                Request::AddContexts { session: named(&mut object)?, channel, contexts: contexts? }
            }
            "enable-channel" => {
                let channel = Channel::of_object(object.value("channel").unwrap_or_default())?;
                Request::EnableChannel { session: named(&mut object)?, channel }
            }
            "disable-channel" => {
                Request::DisableChannel { session: named(&mut object)?, channel: object.text("channel")? }
            }
            what @ ("track" | "untrack") => Request::Track {
                is_tracked: what == "track",
                session: named(&mut object)?,
                attribute: object.text("attribute")?.parse()?,
                values: object.texts("values")?,
            },
            "schedule" => Request::Schedule {
                session: named(&mut object)?,
                schedule: Schedule {
                    every_ms: object.number_or_none("every_ms")?,
                    bytes: object.number_or_none("bytes")?,
                },
            },
            "clear" => Request::Clear(named(&mut object)?),
            "start" => Request::Start(named(&mut object)?),
            "stop" => Request::Stop(named(&mut object)?),
            "rotate" => Request::Rotate(named(&mut object)?),
            "snapshot" => Request::Snapshot(named(&mut object)?),
            "destroy" => Request::Destroy(named(&mut object)?),
            "status" => Request::Status(named(&mut object)?),
            other => return Err(format!("the daemon cannot do `{}`", other.escape_debug())),
        };
        object.end()?;
        Ok(request)
    }
}

fn named(object: &mut Object) -> Result<Named, String> {
    let name = object.text_or_none("session")?;
    name.as_deref().map_or(Ok(()), check_name)?;
    Ok(name)
}

impl Answer {
    /// Without anything besides.
    pub fn of(outcome: Outcome) -> Answer {
        Answer { outcome, said: String::new(), notices: Vec::new(), sessions: Vec::new() }
    }

    pub(crate) fn line(&self) -> String {
        let (outcome, text) = match &self.outcome {
            Outcome::Done(text) => ("done", text),
            Outcome::Refused(text) => ("refused", text),
            Outcome::Failed(text) => ("failed", text),
        };
        let Answer { said, notices, sessions, .. } = self;
        let object =
            json!({"outcome": outcome, "text": text, "said": said, "notices": notices, "sessions": sessions});
        format!("{object}\n")
    }

    pub(crate) fn of_line(line: &[u8]) -> Result<Answer, String> {
        let mut object = read(line, "the answer")?;
        let (outcome, text) = (object.text("outcome")?, object.text("text")?);
        let outcome = match &outcome[..] {
            "done" => Outcome::Done(text),
            "refused" => Outcome::Refused(text),
            "failed" => Outcome::Failed(text),
            other => return Err(format!("an outcome `{}`", other.escape_debug())),
        };
        let (said, notices) = (object.text("said")?, object.texts("notices")?);
        let sessions = object.values("sessions")?;
        object.end()?;
        Ok(Answer { outcome, said, notices, sessions })
    }
}

fn read(line: &[u8], what: &'static str) -> Result<Object, String> {
    let value = serde_json::from_slice(line).map_err(|error| format!("{what} is no JSON: {error}"))?;
    Object::of(value, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn requests() -> Vec<Request> {
        let session = Some("s".to_owned());
        let object = json!({"name": "s", "folder": "/s", "units": ["u"], "size": 4096, "directory": "/"});
        vec![
            Request::Create(Box::new(Description::of_object(object).unwrap())),
            Request::Enable { session: session.clone(), rule: "{\"events\": [\"a:b\"]}".parse().unwrap() },
            Request::Disable { session: None, channel: None, events: vec!["a:b".to_owned()] },
            Request::AddContexts {
                session: session.clone(),
                channel: Some("c".to_owned()),
                contexts: vec![Context::Vtid, Context::Ip],
            },
            Request::EnableChannel {
                session: session.clone(),
                channel: Channel::of_object(json!({"name": "c", "size": 4096})).unwrap(),
            },
            Request::DisableChannel { session: session.clone(), channel: "c".to_owned() },
            Request::Track {
                session: session.clone(),
                is_tracked: true,
                attribute: Attribute::Pid,
                values: vec!["17".to_owned()],
            },
            Request::Schedule {
                session: session.clone(),
                schedule: Schedule { every_ms: Some(1000), bytes: None },
            },
            Request::Clear(session.clone()),
            Request::Start(session.clone()),
            Request::Stop(None),
            Request::Rotate(session.clone()),
            Request::Snapshot(session.clone()),
            Request::Destroy(session.clone()),
            Request::Status(session),
        ]
    }

    #[test]
    fn what_is_said_is_understood() {
        for request in requests() {
            assert_eq!(Request::of_line(request.line().as_bytes()), Ok(request));
        }
        let answer = Answer {
            outcome: Outcome::Refused("no".to_owned()),
            said: "weir: a\nweir: b\n".to_owned(),
            notices: vec!["n".to_owned()],
            sessions: vec![json!({"name": "s"})],
        };
        assert_eq!(Answer::of_line(answer.line().as_bytes()), Ok(answer));
        let hello = Hello { protocol: 1, version: "0.1.0".to_owned(), pid: 7, uid: 0 };
        assert_eq!(Hello::of_line(hello.line().as_bytes()), Ok(hello));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let check = |line: &str, wanted: &str| {
            let refused = Request::of_line(line.as_bytes()).unwrap_err();
            assert!(refused.contains(wanted), "{line}: {refused}");
        };
        check("", "no JSON");
        check("7", "is no object");
        check("{}", "has no `do`");
        check("{\"do\": \"dance\"}", "cannot do `dance`");
        check("{\"do\": \"start\", \"session\": \"../x\"}", "no name of a session");
        check("{\"do\": \"start\", \"session\": 7}", "is no text");
        check("{\"do\": \"start\", \"session\": \"s\", \"colour\": 1}", "no field `colour`");
        check("{\"do\": \"create\"}", "a session is no object");
        check("{\"do\": \"disable\", \"events\": [\"a\\u0000\"]}", "has a zero");
        check(
            &format!("{{\"do\": \"stop\", \"session\": \"{}\"}}", "x".repeat(70_000)),
            "the limit is 65536",
        );
        check(&"[".repeat(100_000), "no JSON");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), ..ProptestConfig::default() })]

        #[test]
        fn a_request_with_bytes_changed_is_one_or_is_refused(
            which in 0..15usize,
            changes in proptest::collection::vec((0..400usize, any::<u8>()), 1..6),
        ) {
            let mut line = requests()[which].line().into_bytes();
            for (at, byte) in changes {
                let at = at % line.len();
                line[at] = byte;
            }
            if let Ok(request) = Request::of_line(&line) {
                prop_assert_eq!(Request::of_line(request.line().as_bytes()), Ok(request));
            }
        }
    }
}
