//! `weir record daemon`: holds a user's sessions, and does what clients ask.
//!
//! In: a socket, what the processes say that record, and when it is to end. Out: such processes, answers, and the state file, which is written before an answer
//! goes out, and before a process is started. One thread and one poll; nothing here waits for a client or a process but a daemon's first look at what one before it left.
//!
//! A daemon ends by itself when it has had no session for a while, and then leaves nothing behind but its lock file. At SIGTERM, SIGINT
//! and SIGHUP it ends what records first. However else it ends, what records ends too, with everything written; the next daemon tells what
//! became of it.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::anyhow;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use weir_process::processes::ProcessId;
use weir_process::watch::LOOK_INTERVAL;

use crate::Error;
use crate::clients::Clients;
use crate::description::Description;
use crate::object::Object;
use crate::place::{self, Place};
use crate::program::{Finder, Found};
use crate::protocol::{Answer, Named, Outcome, PROTOCOL, Request};
use crate::session::{Session, make_folder};
use crate::{limits, process};

/// How often it looks while something is on its way that no descriptor tells of.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);
/// How often it looks whether a session is to rotate.
const SCHEDULE_INTERVAL: Duration = Duration::from_millis(50);
/// How often otherwise.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a daemon is run with.
pub struct Surroundings<'a> {
    /// Becomes readable when the daemon is to end.
    pub end: BorrowedFd<'a>,
    /// Why it is to end, if it is: the name of a signal. Not asked again after that.
    pub is_to_end: &'a mut dyn FnMut() -> Option<String>,
    /// Takes what is worth a line of a log, without its end.
    pub tell: &'a mut dyn FnMut(&str),
    /// Finds processes of programs that are not known yet.
    pub finder: &'a mut dyn Finder,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("end", &self.end).finish_non_exhaustive()
    }
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// There was nothing to do any more, or it was to end.
    Done,
    /// Another has the socket.
    OtherThere,
}

struct Daemon<'a> {
    place: &'a Place,
    clients: Clients,
    surroundings: Surroundings<'a>,
    sessions: BTreeMap<String, Session>,
    /// For the next who asks.
    notices: Vec<String>,
    idle: Duration,
    /// Since when there has been no session, and nobody who asks.
    idle_since: Instant,
    /// Sessions have come or gone.
    is_changed: bool,
    is_ending: bool,
}

/// What is to be done about a request.
enum Begun {
    Answer(Answer),
    /// It comes later.
    Later,
    /// Somebody else's is being done.
    Busy,
}

/// Runs until there is nothing to do. One that another daemon has come before ends at once.
pub fn run<'a>(place: &'a Place, idle: Duration, surroundings: Surroundings<'a>) -> Result<Ended, Error> {
    place.make()?;
    let Some(_lock) = place.lock()? else { return Ok(Ended::OtherThere) };
    let failed = |error: std::io::Error, what: &str| {
        Error::Unavailable(anyhow!(error).context(format!("{what} {}", place.socket.display())))
    };
    let (sessions, notices) = left(place);
    // Of a daemon that was killed: who holds the lock has the socket.
    let _ = fs::remove_file(&place.socket);
    let listener = UnixListener::bind(&place.socket).map_err(|error| failed(error, "listening at"))?;
    let clients = Clients::new(listener).map_err(|error| failed(error, "listening at"))?;
    let mut daemon = Daemon {
        place,
        clients,
        surroundings,
        sessions,
        notices,
        idle,
        idle_since: Instant::now(),
        is_changed: true,
        is_ending: false,
    };
    daemon.run()?;
    let _ = fs::remove_file(&place.socket);
    if daemon.sessions.is_empty() {
        let _ = fs::remove_file(place.state());
        let _ = fs::remove_file(place.log());
    }
    Ok(Ended::Done)
}

impl Daemon<'_> {
    fn run(&mut self) -> Result<(), Error> {
        loop {
            if !self.is_ending
                && let Some(name) = (self.surroundings.is_to_end)()
            {
                self.is_ending = true;
                let why = format!("the daemon was ended by {name} while it recorded");
                self.sessions.values_mut().for_each(|session| session.end(&why));
            }
            self.clients.look();
            let mut is_more = !self.is_ending && self.serve();
            self.find_programs();
            self.save();
            is_more |= self.step();
            self.save();
            let asking = self.clients.count_asking();
            // Answers go out behind what they say. Who has asked by then is not polled for.
            self.clients.look();
            is_more |= self.clients.count_asking() > asking;
            if self.is_over() {
                return Ok(());
            }
            if !is_more {
                self.wait()?;
            }
        }
    }

    fn is_over(&mut self) -> bool {
        if self.is_ending {
            return self.sessions.values().all(Session::is_at_rest);
        }
        if !self.sessions.is_empty() || !self.clients.is_empty() {
            self.idle_since = Instant::now();
        }
        self.idle_since.elapsed() >= self.idle
    }

    /// Begins what is asked for; whether something was.
    fn serve(&mut self) -> bool {
        let mut is_begun = false;
        for (client, request) in self.clients.asking() {
            match self.begin(client, request) {
                Begun::Busy => continue,
                Begun::Later => self.clients.keep_waiting(client),
                Begun::Answer(answer) => self.answer(client, answer),
            }
            is_begun = true;
        }
        is_begun
    }

    fn answer(&mut self, client: u64, mut answer: Answer) {
        answer.notices = std::mem::take(&mut self.notices);
        self.clients.answer(client, &answer);
    }

    fn begin(&mut self, client: u64, request: Request) -> Begun {
        let begun = match request {
            Request::Create(description) => return self.create(*description),
            Request::Status(named) => return self.status(&named),
            Request::Enable { session, rule } => self.change(client, &session, |to| {
                let done = format!("session {} has {rule}", to.name);
                to.enable(rule).map(|()| done)
            }),
            Request::Disable { session, channel, events } => self.change(client, &session, |to| {
                to.disable(channel.as_deref(), &events)
                    .map(|()| format!("session {} has {} no more", to.name, events.join(" ")))
            }),
            Request::EnableChannel { session, channel } => self.change(client, &session, |to| {
                let done = format!("session {} has channel {}", to.name, channel.name);
                to.enable_channel(channel).map(|()| done)
            }),
            Request::DisableChannel { session, channel } => self.change(client, &session, |to| {
                let done = format!("session {} records nothing in channel {channel}", to.name);
                to.disable_channel(&channel).map(|()| done)
            }),
            Request::Track { session, is_tracked, attribute, values } => {
                self.change(client, &session, |to| {
                    let what = if is_tracked { "tracks" } else { "tracks no more" };
                    let which = if values.is_empty() { "all".to_owned() } else { values.join(", ") };
                    let done = format!("session {} {what} {attribute} {which}", to.name);
                    to.track(is_tracked, attribute, &values).map(|()| done)
                })
            }
            Request::Schedule { session, schedule } => {
                self.with(&session, |session| session.schedule(schedule).map(Some))
            }
            Request::Clear(named) => self.with(&named, |session| session.clear(client)),
            Request::AddContexts { session, channel, contexts } => self.change(client, &session, |to| {
                to.add_contexts(channel.as_deref(), &contexts)
                    .map(|()| format!("session {} has the contexts", to.name))
            }),
            Request::Start(named) => {
                let found = self.running(&named, true);
                self.with(&named, |session| session.start(client, found))
            }
            Request::Stop(named) => self.with(&named, |session| session.stop(client)),
            Request::Rotate(named) => self.with(&named, |session| session.rotate(client)),
            Request::Snapshot(named) => self.with(&named, |session| session.snapshot(client)),
            Request::Destroy(named) => self.with(&named, |session| {
                session.destroy(client);
                Ok(None)
            }),
        };
        match begun {
            None => Begun::Busy,
            Some(Ok(None)) => Begun::Later,
            Some(Ok(Some(outcome)) | Err(outcome)) => Begun::Answer(Answer::of(outcome)),
        }
    }

    /// Does something with a session; none where somebody else does already.
    fn with(
        &mut self,
        named: &Named,
        work: impl FnOnce(&mut Session) -> Result<Option<Outcome>, Outcome>,
    ) -> Option<Result<Option<Outcome>, Outcome>> {
        match self.find(named) {
            Err(outcome) => Some(Err(outcome)),
            Ok(name) => {
                let session = self.sessions.get_mut(&name)?;
                (!session.is_busy()).then(|| work(session))
            }
        }
    }

    fn change(
        &mut self,
        client: u64,
        named: &Named,
        change: impl FnOnce(&mut Description) -> Result<String, String>,
    ) -> Option<Result<Option<Outcome>, Outcome>> {
        let found = self.running(named, false);
        self.with(named, |session| {
            let mut to = session.description.clone();
            let done = change(&mut to)
                .map_err(|why| Outcome::Refused(format!("session {}: {why}", session.description.name)))?;
            session.change(client, to, done, found)
        })
    }

    /// The processes that there are of programs, where a session records those; `begins`: is about to.
    fn running(&mut self, named: &Named, begins: bool) -> Vec<Found> {
        let session = self.find(named).ok().and_then(|name| self.sessions.get(&name));
        let is_wanted = session.is_some_and(|session| {
            !session.is_busy()
                && (session.wants_programs() || begins && session.description.programs.is_some())
        });
        if !is_wanted {
            return Vec::new();
        }
        // Before it looks: who comes after that is found.
        self.surroundings.finder.watch(true);
        self.surroundings.finder.all()
    }

    /// Has sessions record the processes that have come.
    fn find_programs(&mut self) {
        let is_wanted = !self.is_ending && self.sessions.values().any(Session::wants_programs);
        self.surroundings.finder.watch(is_wanted);
        for found in self.surroundings.finder.found() {
            self.sessions.values_mut().for_each(|session| session.comes(found.clone(), None));
        }
        let let_go = self.surroundings.finder.let_go();
        let late = (let_go > 0).then(|| {
            format!(
                "{let_go} processes of programs ran on before they were recorded: they waited for too long"
            )
        });
        let said = self.sessions.values_mut().flat_map(Session::said);
        let said: Vec<String> = said.chain(late).collect();
        for text in said {
            (self.surroundings.tell)(&format!("weir: {text}"));
            if self.notices.len() < limits::LIST {
                self.notices.push(text);
            }
        }
    }

    /// The name of the session that is meant.
    fn find(&self, named: &Named) -> Result<String, Outcome> {
        let names: Vec<&str> = self.sessions.keys().map(String::as_str).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        match named {
            Some(name) if self.sessions.contains_key(name) => Ok(name.clone()),
            Some(name) => Err(Outcome::Refused(format!("there is no session {name}; there is {there}"))),
            None => match names[..] {
                [only] => Ok(only.to_owned()),
                [] => {
                    Err(Outcome::Refused("there is no session: make one with weir record create".to_owned()))
                }
                _ => Err(Outcome::Refused(format!("which session? There are {there}"))),
            },
        }
    }

    fn create(&mut self, description: Description) -> Begun {
        let Description { name, folder, .. } = &description;
        let answer = |outcome| Begun::Answer(Answer::of(outcome));
        if self.sessions.contains_key(name) {
            return answer(Outcome::Refused(format!(
                "there is a session {name} already: take another name, or destroy it"
            )));
        }
        if self.sessions.len() == limits::SESSIONS {
            return answer(Outcome::Refused(format!(
                "there are {} sessions, which is the limit",
                limits::SESSIONS
            )));
        }
        let of = |session: &&Session| session.description.folder == *folder;
        if let Some(other) = self.sessions.values().find(of) {
            let other = &other.description.name;
            return answer(Outcome::Refused(format!("-o {}: it is session {other}'s", folder.display())));
        }
        if let Err(outcome) = make_folder(folder) {
            return answer(outcome);
        }
        let done = format!("session {name} is made; it will record into {}", folder.display());
        self.sessions.insert(name.clone(), Session::new(description));
        self.is_changed = true;
        answer(Outcome::Done(done))
    }

    fn status(&self, named: &Named) -> Begun {
        let answer = |sessions: Vec<Value>| {
            let done = Outcome::Done(String::new());
            Begun::Answer(Answer { sessions, ..Answer::of(done) })
        };
        match named {
            None => answer(self.sessions.values().map(Session::status).collect()),
            Some(_) => match self.find(named) {
                Ok(name) => answer(vec![self.sessions[&name].status()]),
                Err(outcome) => Begun::Answer(Answer::of(outcome)),
            },
        }
    }

    /// Goes on with what is being done; whether something was done with.
    fn step(&mut self) -> bool {
        let mut steps = Vec::new();
        for (name, session) in &mut self.sessions {
            steps.extend(session.step(self.place).into_iter().map(|step| (name.clone(), step)));
        }
        let is_done = !steps.is_empty();
        for (name, step) in steps {
            if step.is_gone {
                self.sessions.remove(&name);
                self.is_changed = true;
            }
            match step.client {
                Some(client) => self.answer(client, step.answer),
                None => self.tell(step.answer),
            }
        }
        is_done
    }

    /// What came of what an event has asked for: to the log, and what went wrong to the next who asks, too.
    fn tell(&mut self, answer: Answer) {
        answer.said.lines().for_each(|line| (self.surroundings.tell)(line));
        match answer.outcome {
            Outcome::Done(text) => {
                (self.surroundings.tell)(&format!("weir: {text} (an event asked for it)"));
            }
            Outcome::Refused(text) | Outcome::Failed(text) => {
                let text = format!("{text}, since an event asked for a new folder");
                (self.surroundings.tell)(&format!("weir: {text}"));
                self.notices.push(text);
            }
        }
    }

    /// What the next daemon is to know, if this one does not come to tell it.
    fn save(&mut self) {
        let is_changed =
            self.sessions.values_mut().fold(self.is_changed, |is, session| is | session.has_changed());
        if !is_changed {
            return;
        }
        self.is_changed = false;
        let own = std::process::id() as i32;
        let sessions: Vec<Value> = self.sessions.values().map(Session::object).collect();
        let state = json!({
            "protocol": PROTOCOL,
            "weir": env!("CARGO_PKG_VERSION"),
            "pid": own,
            "start": process::start_of(own),
            "sessions": sessions,
        });
        let path = self.place.state();
        if let Err(error) = place::replace(&path, &format!("{state}\n")) {
            let what = format!("{}: {error}; if the daemon is killed, its sessions are lost", path.display());
            (self.surroundings.tell)(&format!("weir: {what}"));
            self.notices.push(what);
        }
    }

    /// Processes are to be found, and nothing tells of them.
    fn is_looking(&self) -> bool {
        self.surroundings.finder.descriptor().is_none() && self.sessions.values().any(Session::wants_programs)
    }

    fn wait(&self) -> Result<(), Error> {
        // The end of a process comes a little behind that of its pipe.
        let mut stretches = self.sessions.values().flat_map(Session::stretches);
        let wait = match () {
            () if stretches.any(|stretch| stretch.descriptor().is_none()) => BUSY_INTERVAL,
            () if self.sessions.values().any(Session::holds) => BUSY_INTERVAL,
            () if self.is_looking() => LOOK_INTERVAL,
            () if self.sessions.values().any(Session::is_scheduled) => SCHEDULE_INTERVAL,
            () if self.sessions.is_empty() => {
                INTERVAL.min(self.idle.saturating_sub(self.idle_since.elapsed()).max(BUSY_INTERVAL))
            }
            () => INTERVAL,
        };
        let end = (!self.is_ending).then(|| PollFd::new(self.surroundings.end, PollFlags::POLLIN));
        let mut watched: Vec<PollFd> = end.into_iter().collect();
        watched.extend(self.clients.descriptors());
        let finds = self.surroundings.finder.descriptor();
        watched.extend(finds.map(|finds| PollFd::new(finds, PollFlags::POLLIN)));
        let stretches = self.sessions.values().flat_map(Session::stretches);
        let said = stretches.filter_map(|stretch| stretch.descriptor());
        watched.extend(said.map(|said| PollFd::new(said, PollFlags::POLLIN)));
        match poll(&mut watched, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(Error::Unavailable(anyhow!(errno).context("poll"))),
        }
    }
}

/// The sessions of a daemon that has gone, and what is to be told of them.
fn left(place: &Place) -> (BTreeMap<String, Session>, Vec<String>) {
    let path = place.state();
    let read = || -> Result<Option<(ProcessId, Vec<Value>)>, String> {
        let Some(bytes) = place::read(&path).map_err(|error| error.to_string())? else { return Ok(None) };
        let value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let mut object = Object::of(value, "the state")?;
        let (protocol, version) = (object.number("protocol")?, object.text("weir")?);
        if protocol != PROTOCOL || version != env!("CARGO_PKG_VERSION") {
            return Err(format!("it is of weir {version}"));
        }
        let pid = i32::try_from(object.number("pid")?).map_err(|error| error.to_string())?;
        let id = ProcessId { pid, start: object.number("start")? };
        Ok(Some((id, object.values("sessions")?)))
    };
    let mut sessions = BTreeMap::new();
    let mut notices = Vec::new();
    match read() {
        Ok(None) => {}
        Ok(Some((id, kept))) => {
            for session in kept {
                match Session::of_object(session, place) {
                    Ok((session, notice)) => {
                        notices.extend(notice);
                        sessions.insert(session.description.name.clone(), session);
                    }
                    Err(why) => notices.push(format!("a session of the daemon before cannot be read: {why}")),
                }
            }
            if !sessions.is_empty() || !notices.is_empty() {
                let names: Vec<&str> = sessions.keys().map(String::as_str).collect();
                let names = names.join(", ");
                notices.insert(
                    0,
                    format!("the daemon (process {}) was ended; its sessions are here, and do not record: {names}", id.pid),
                );
            }
        }
        Err(why) => {
            let aside = path.with_extension("state.unread");
            let _ = fs::rename(&path, &aside);
            notices.push(format!(
                "what the daemon before has left cannot be read: {why}; it is in {}",
                aside.display()
            ));
        }
    }
    (sessions, notices)
}
