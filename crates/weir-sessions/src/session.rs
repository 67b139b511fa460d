//! A session as the daemon holds it: what it is, and its parts, each of which is recorded by a process of its own.
//!
//! In: what clients ask for, one thing at a time; processes of its programs, as they come. Out of [`Session::step`]: an answer, once all parts have done
//! what was asked for.
//!
//! A session of processes that were named has one part; with channels one for each; a session of programs one for each channel of each program that has
//! come. Parts that were asked for by name are changed together or not at all. A program of which nothing can be recorded is left alone, and reported.
//!
//! ```text
//! DIR/1, DIR/2, …                       a session without channels
//! DIR/CHANNEL/1, …                      with channels
//! DIR/[CHANNEL/]PROGRAM/1, …            of programs; PROGRAM-2 of another one of that name, user or preloaded library
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use serde_json::{Value, json};
use weir_process::Whose;
use weir_process::processes::ProcessId;
use weir_process::program::Program;
use weir_source::printable;
use weir_trace::private;

use crate::counts::Counts;
use crate::description::{Description, Schedule};
use crate::limits;
use crate::object::Object;
use crate::part::{Key, Part};
use crate::place::Place;
use crate::process;
use crate::program::Found;
use crate::protocol::{Answer, Outcome};
use crate::stretch::Stretch;
use crate::turn::Turn;

pub(crate) struct Session {
    pub(crate) description: Description,
    parts: Vec<Part>,
    /// Of programs: those that come are recorded.
    is_started: bool,
    doing: Option<Doing>,
    /// What processes were recorded as: they may change their user, or their variables.
    known: BTreeMap<ProcessId, Program>,
    /// What was reported of programs, once.
    told: BTreeSet<String>,
    /// When it went on in new folders, or began.
    rotated: Instant,
    /// For the daemon's log, and for the next who asks.
    said: Vec<String>,
    /// Something of it has changed that is to be kept.
    is_changed: bool,
}

/// What a client waits for.
struct Doing {
    what: What,
    client: u64,
    done: String,
    /// What the session was, where a change of it fails.
    before: Option<Description>,
    /// What became of it in parts that are done.
    answers: Vec<Answer>,
    /// Why what was begun is being undone.
    failed: Option<Outcome>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Start,
    Change,
    Rotate,
    Snapshot,
    Clear,
    Stop,
    Destroy,
}

/// What has come of a step.
pub(crate) struct Step {
    /// None where an event has asked for it.
    pub(crate) client: Option<u64>,
    pub(crate) answer: Answer,
    /// The session is no more.
    pub(crate) is_gone: bool,
}

impl Session {
    pub(crate) fn new(description: Description) -> Session {
        Session {
            description,
            parts: Vec::new(),
            is_started: false,
            doing: None,
            known: BTreeMap::new(),
            told: BTreeSet::new(),
            rotated: Instant::now(),
            said: Vec::new(),
            is_changed: true,
        }
    }

    /// Somebody waits for something: others wait until that is done.
    pub(crate) fn is_busy(&self) -> bool {
        self.doing.is_some() || self.parts.iter().any(Part::is_busy)
    }

    /// No process records for it, nor gets ready to.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.parts.iter().all(Part::is_at_rest)
    }

    /// Processes of programs that come are recorded by it.
    pub(crate) fn wants_programs(&self) -> bool {
        self.is_started && self.description.programs.is_some()
    }

    pub(crate) fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.parts.iter().flat_map(Part::stretches)
    }

    /// Processes wait for what it does.
    pub(crate) fn holds(&self) -> bool {
        self.parts.iter().any(Part::holds)
    }

    /// What there is to say beside answers, since this was asked last.
    pub(crate) fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    pub(crate) fn has_changed(&mut self) -> bool {
        let of_parts =
            self.parts.iter_mut().fold(false, |is, part| is | std::mem::take(&mut part.is_changed));
        std::mem::take(&mut self.is_changed) | of_parts
    }

    /// One part, which is the session.
    fn is_plain(&self) -> bool {
        self.description.channels.is_empty() && self.description.programs.is_none()
    }

    /// The parts that are to be while it records processes that were named.
    fn keys(&self) -> BTreeSet<Key> {
        match self.description.programs {
            Some(_) => BTreeSet::new(),
            None if self.description.channels.is_empty() => [Key::default()].into(),
            None => {
                let channels = self.description.recorded_channels().into_iter();
                channels.map(|channel| Key { channel, program: None }).collect()
            }
        }
    }

    /// The part of this key, which is made if there is none.
    fn part(&mut self, key: &Key) -> &mut Part {
        if let Some(at) = self.parts.iter().position(|part| part.key == *key) {
            return &mut self.parts[at];
        }
        let mut folder = self.description.folder.clone();
        let mut files = self.description.name.clone();
        if let Some(channel) = &key.channel {
            folder.push(channel);
            files = format!("{files}@{channel}");
        }
        if let Some(program) = &key.program {
            let name = file_name(program.name());
            let is_free = |name: &String| {
                let folder = folder.join(name);
                self.parts.iter().all(|part| part.description.folder != folder)
            };
            let numbered = (2u32..).map(|number| format!("{name}-{number}"));
            // SANITY: there are more numbers than parts.
            let name = std::iter::once(name.clone()).chain(numbered).find(is_free).expect("a name");
            folder.push(&name);
            files = format!("{files}@@{name}");
        }
        let description = self.description.of_channel(key.channel.as_deref(), folder);
        self.parts.push(Part::new(description, key.clone(), files));
        // SANITY: it was just pushed.
        self.parts.last_mut().expect("a part")
    }

    /// What a part is by what the session is now.
    fn of_part(&self, part: &Part) -> Description {
        self.description.of_channel(part.key.channel.as_deref(), part.description.folder.clone())
    }

    /// `found`: processes of programs that run now.
    pub(crate) fn start(&mut self, client: u64, found: Vec<Found>) -> Result<Option<Outcome>, Outcome> {
        let (name, folder) = (self.description.name.clone(), self.description.folder.display().to_string());
        if self.is_started && self.wants_programs() || self.parts.iter().any(Part::is_recording) {
            return Err(Outcome::Refused(format!("session {name} records already")));
        }
        // Of programs channels may wait for events, as in LTTng.
        let may_wait = self.description.programs.is_some() && !self.description.channels.is_empty();
        if self.description.recorded_channels().is_empty() && !may_wait {
            return Err(Outcome::Refused(format!(
                "session {name} has no event to record: weir record enable {name} EVENT"
            )));
        }
        let done = match self.description.programs {
            Some(_) => format!("session {name} records programs that load LTTng-UST, into {folder}"),
            None => format!("session {name} records, into {folder}"),
        };
        (self.is_started, self.is_changed, self.rotated) = (true, true, Instant::now());
        self.begin(What::Start, client, done, None);
        self.settle();
        // What it has may be others' by now.
        self.parts.iter_mut().for_each(Part::begins_anew);
        for key in self.keys() {
            self.part(&key).start(Some(client));
        }
        found.into_iter().for_each(|found| self.comes(found, Some(client)));
        Ok(self.done_at_once())
    }

    fn begin(&mut self, what: What, client: u64, done: String, before: Option<Description>) {
        self.doing = Some(Doing { what, client, done, before, answers: Vec::new(), failed: None });
    }

    /// Where no part has anything to do.
    fn done_at_once(&mut self) -> Option<Outcome> {
        match self.parts.iter().any(|part| part.is_busy() || part.joins()) {
            true => None,
            false => self.doing.take().map(|doing| Outcome::Done(doing.done)),
        }
    }

    /// Parts that do not record are what the session is now.
    fn settle(&mut self) {
        for at in 0..self.parts.len() {
            let to = self.of_part(&self.parts[at]);
            if !self.parts[at].is_recording() {
                self.parts[at].set(to);
            }
        }
    }

    /// What a process was recorded as before, or a program that was run by another path.
    fn known_as(&mut self, id: ProcessId, program: Program) -> Program {
        let is_file = |known: &&Program| (known.device, known.inode) == (program.device, program.inode);
        if let Some(known) = self.known.get(&id).filter(is_file) {
            return known.clone();
        }
        let of_parts = self.parts.iter().filter_map(|part| part.key.program.as_ref());
        let program = of_parts.clone().find(|known| known.is_like(&program)).cloned().unwrap_or(program);
        if self.known.len() >= limits::PROCESSES {
            self.known.retain(|id, _| process::is_alive(*id));
        }
        self.known.insert(id, program.clone());
        program
    }

    /// Something of a program, once.
    fn say(&mut self, text: String) {
        if self.told.len() < limits::LIST && self.told.insert(text.clone()) {
            self.said.push(format!("session {}: {text}", self.description.name));
        }
    }

    /// A process of a program has come. `client`: who waits for that.
    pub(crate) fn comes(&mut self, found: Found, client: Option<u64>) {
        let Found { id, program, attributes, turn, are_held } = found;
        // The recording may be one that is about to end.
        let turn = turn.or_else(|| Some(Rc::new(Turn::of_running())));
        let is_of = match self.description.programs {
            Some(Whose::Any) => true,
            Some(Whose::Own) => program.user == geteuid().as_raw(),
            Some(Whose::User(user)) => program.user == user,
            None => false,
        };
        if !self.wants_programs() || !is_of || !self.description.tracked.has(&attributes) {
            return;
        }
        let program = self.known_as(id, program);
        for channel in self.description.recorded_channels() {
            let count = self.parts.iter().filter(|part| part.is_recording()).count();
            let key = Key { channel, program: Some(program.clone()) };
            let is_known = self.parts.iter().any(|part| part.key == key);
            if !is_known && self.parts.len() >= limits::PARTS {
                self.parts.retain(|part| !part.has_nothing || !part.is_at_rest());
            }
            if !is_known && (count >= limits::RECORDINGS || self.parts.len() >= limits::PARTS) {
                let limit = if count >= limits::RECORDINGS { limits::RECORDINGS } else { limits::PARTS };
                let path = printable(&program.path);
                self.say(format!("{path} is not recorded: {limit} programs are, which is the limit"));
                return;
            }
            let part = self.part(&key);
            if part.has_nothing || part.is_over {
                continue;
            }
            (part.seen, part.are_held) = (Some(id.pid), are_held);
            if let Some(turn) = turn.clone() {
                part.hold(id, turn);
            }
            if !part.is_recording() && !part.is_busy() {
                part.start(client);
            }
        }
    }

    /// Has it be another one from now on: the answer, if it is so at once. `found` as of [`Session::start`].
    pub(crate) fn change(
        &mut self,
        client: u64,
        to: Description,
        done: String,
        found: Vec<Found>,
    ) -> Result<Option<Outcome>, Outcome> {
        if self.is_plain() {
            // As it was.
            self.part(&Key::default());
        }
        let before = std::mem::replace(&mut self.description, to);
        self.is_changed = true;
        self.begin(What::Change, client, done, Some(before.clone()));
        let changed = self.change_parts(client);
        if changed.is_err() {
            (self.description, self.doing) = (before, None);
            return changed.map(|()| None);
        }
        found.into_iter().for_each(|found| self.comes(found, Some(client)));
        Ok(self.done_at_once())
    }

    /// Has each part be what the session is now.
    fn change_parts(&mut self, client: u64) -> Result<(), Outcome> {
        let (keys, is_recording) = (self.keys(), self.parts.iter().any(Part::is_recording));
        if self.is_plain() {
            let to = self.description.clone();
            let done = self.doing.as_ref().map_or_else(String::new, |doing| doing.done.clone());
            let folder = to.folder.clone();
            let to = to.of_channel(None, folder);
            return self.part(&Key::default()).change(client, to, done).map(drop);
        }
        let channels = self.description.recorded_channels();
        for at in 0..self.parts.len() {
            let (to, part) = (self.of_part(&self.parts[at]), &mut self.parts[at]);
            match part.is_recording() {
                true if !channels.contains(&part.key.channel) => part.stop(client)?,
                true if part.description != to => {
                    part.change(client, to, String::new())?;
                }
                true => {}
                // Its new filter is tried.
                false if part.key.program.is_none() => {
                    part.change(client, to, String::new())?;
                }
                false => part.set(to),
            }
        }
        for key in keys {
            if is_recording && !self.part(&key).is_recording() {
                self.part(&key).start(Some(client));
            }
        }
        Ok(())
    }

    pub(crate) fn rotate(&mut self, client: u64) -> Result<Option<Outcome>, Outcome> {
        let name = self.description.name.clone();
        if self.is_plain() {
            self.begin(What::Rotate, client, String::new(), None);
            return self.of_plain(|part| part.rotate(client));
        }
        if !self.is_started {
            return Err(Outcome::Refused(format!(
                "session {name} does not record: there is nothing to rotate"
            )));
        }
        let done =
            format!("session {name} goes on, in the next folders of {}", self.description.folder.display());
        self.begin(What::Rotate, client, done, None);
        let parts =
            self.parts.iter_mut().filter(|part| part.is_recording() && !part.description.overwrites());
        for part in parts {
            part.rotate(client)?;
        }
        Ok(self.done_at_once())
    }

    /// Goes on in new folders by itself from now on, or does not.
    pub(crate) fn schedule(&mut self, schedule: Schedule) -> Result<Outcome, Outcome> {
        let name = &self.description.name;
        if self.description.overwrites() {
            return Err(Outcome::Refused(format!("session {name} overwrites, and no folder is written")));
        }
        let checked = Description { schedule, ..self.description.clone() };
        let checked = Description::of_object(checked.object());
        self.description = checked.map_err(|why| Outcome::Refused(format!("session {name}: {why}")))?;
        (self.rotated, self.is_changed) = (Instant::now(), true);
        Ok(Outcome::Done(match schedule {
            Schedule { every_ms: None, bytes: None } => {
                format!("session {} rotates when it is asked to", self.description.name)
            }
            _ => format!("session {} rotates {}", self.description.name, self.description.shown_schedule()),
        }))
    }

    /// It is to be looked at whether it rotates.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.description.schedule != Schedule::default() && self.parts.iter().any(Part::is_recording)
    }

    /// Goes on in new folders where it is time to.
    fn rotate_if_due(&mut self) {
        if !self.is_scheduled() || self.is_busy() {
            return;
        }
        let Schedule { every_ms, bytes } = self.description.schedule;
        let is_time = every_ms.is_some_and(|ms| self.rotated.elapsed() >= Duration::from_millis(ms));
        let is_large = bytes.is_some_and(|most| self.parts.iter().map(Part::written).sum::<u64>() >= most);
        if is_time || is_large {
            self.rotated = Instant::now();
            let parts = self.parts.iter_mut();
            parts
                .filter(|part| part.is_recording() && !part.description.overwrites())
                .for_each(Part::rotates);
        }
    }

    /// Has what is in the rings written, and goes on.
    pub(crate) fn snapshot(&mut self, client: u64) -> Result<Option<Outcome>, Outcome> {
        let name = self.description.name.clone();
        if self.is_plain() {
            self.begin(What::Snapshot, client, String::new(), None);
            return self.of_plain(|part| part.snapshot(client));
        }
        let recording: Vec<&mut Part> = self
            .parts
            .iter_mut()
            .filter(|part| part.is_recording() && part.description.overwrites())
            .collect();
        if recording.is_empty() {
            let why = if self.is_started {
                "nothing of it overwrites, or no program has come"
            } else {
                "it does not record"
            };
            return Err(Outcome::Refused(format!("session {name} has no rings: {why}")));
        }
        for part in recording {
            part.snapshot(client)?;
        }
        let done = format!("session {name} has snapshots, in {}", self.description.folder.display());
        self.begin(What::Snapshot, client, done, None);
        Ok(self.done_at_once())
    }

    /// Removes what it has recorded.
    pub(crate) fn clear(&mut self, client: u64) -> Result<Option<Outcome>, Outcome> {
        let done = format!("session {} has nothing recorded", self.description.name);
        self.begin(What::Clear, client, done, None);
        for part in &mut self.parts {
            part.clear(client);
        }
        Ok(self.done_at_once())
    }

    pub(crate) fn stop(&mut self, client: u64) -> Result<Option<Outcome>, Outcome> {
        let is_of_programs = self.wants_programs();
        (self.is_started, self.is_changed) = (false, true);
        if self.is_plain() {
            self.begin(What::Stop, client, String::new(), None);
            return self.of_plain(|part| part.stop(client));
        }
        if !is_of_programs && !self.parts.iter().any(Part::is_recording) {
            return Err(Outcome::Refused(format!("session {} does not record", self.description.name)));
        }
        self.begin(What::Stop, client, String::new(), None);
        for part in self.parts.iter_mut().filter(|part| part.is_recording()) {
            part.stop(client)?;
        }
        Ok(self.done_at_once().map(|_| Outcome::Done(self.ended(What::Stop))))
    }

    pub(crate) fn destroy(&mut self, client: u64) -> bool {
        self.is_started = false;
        self.begin(What::Destroy, client, String::new(), None);
        if self.is_plain() {
            self.part(&Key::default());
        }
        self.parts.iter_mut().for_each(|part| part.destroy(client));
        self.parts.is_empty()
    }

    /// The session is its one part: what that says of it.
    fn of_plain(
        &mut self,
        work: impl FnOnce(&mut Part) -> Result<(), Outcome>,
    ) -> Result<Option<Outcome>, Outcome> {
        match work(self.part(&Key::default())) {
            Ok(()) => Ok(None),
            Err(outcome) => {
                self.doing = None;
                Err(outcome)
            }
        }
    }

    /// What there is to say at its end, where it has several parts or none.
    fn ended(&self, what: What) -> String {
        let Description { name, folder, .. } = &self.description;
        let shown = folder.display();
        let counts = self.counts();
        let kept = match self.parts.iter().any(|part| part.description.overwrites()) {
            true => format!("{} events and {} snapshots", counts.recorded(), counts.snapshots),
            false => format!("{} events", counts.recorded()),
        };
        match what {
            What::Destroy => match self.remove_empty() {
                Ok(()) => format!("session {name} is gone; nothing was recorded"),
                Err(_) => format!("session {name} is gone; {kept} are in {shown}"),
            },
            _ => format!("session {name} does not record any more; {kept} are in {shown}"),
        }
    }

    /// Removes the folders that have nothing in them.
    fn remove_empty(&self) -> std::io::Result<()> {
        let folder = &self.description.folder;
        for part in self.parts.iter().filter(|part| part.key != Key::default()) {
            let of_part = part.description.folder.ancestors().take_while(|above| above != folder);
            // One that is not empty stays, and those above it.
            let _ = of_part.map(fs::remove_dir).take_while(Result::is_ok).count();
        }
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends what records, and whatever was being done, because the daemon ends.
    pub(crate) fn end(&mut self, why: &str) {
        (self.doing, self.is_started) = (None, false);
        self.parts.iter_mut().for_each(|part| part.end(why));
    }

    /// Goes on as far as it goes without waiting.
    pub(crate) fn step(&mut self, place: &Place) -> Vec<Step> {
        self.rotate_if_due();
        let mut steps = Vec::new();
        let (mut answers, mut failed) = (Vec::new(), Vec::new());
        for part in &mut self.parts {
            let Some(step) = part.step(place) else { continue };
            match (step.client, &self.doing, &part.key.program) {
                (Some(client), Some(doing), _) if doing.client == client => {
                    answers.push((part.key.clone(), part.has_nothing, step.answer));
                }
                (None, _, Some(program)) => {
                    let Answer { outcome, said, .. } = step.answer;
                    if !matches!(outcome, Outcome::Done(_)) && !part.has_nothing {
                        let path = printable(&program.path);
                        let why =
                            if said.is_empty() { "its recording ended".to_owned() } else { one_line(&said) };
                        failed.push(format!("{path} is not recorded: {why}"));
                    }
                }
                (client, ..) => steps.push(Step { client, answer: step.answer, is_gone: false }),
            }
        }
        failed.into_iter().for_each(|text| self.say(text));
        for (key, has_nothing, answer) in answers {
            self.is_answered(&key, has_nothing, answer);
        }
        steps.extend(self.finish());
        steps
    }

    /// A part has done what it was asked for, or not.
    fn is_answered(&mut self, key: &Key, has_nothing: bool, answer: Answer) {
        let Some(doing) = &mut self.doing else { return };
        // What a program has not is no failure of the session.
        let is_done = matches!(answer.outcome, Outcome::Done(_));
        if let (Some(program), false) = (&key.program, is_done) {
            if let (Outcome::Refused(text) | Outcome::Failed(text), false) = (&answer.outcome, has_nothing) {
                let said = one_line(&answer.said);
                doing.answers.push(Answer {
                    said: format!("weir: {}: {text}: {said}\n", printable(&program.path)),
                    ..Answer::of(Outcome::Done(String::new()))
                });
            }
            return;
        }
        doing.answers.push(answer);
    }

    /// The answer, where all parts are done.
    fn finish(&mut self) -> Option<Step> {
        if self.parts.iter().any(|part| part.is_busy() || part.joins()) {
            return None;
        }
        let mut doing = self.doing.take()?;
        self.is_changed = true;
        let is_failed = |answer: &Answer| !matches!(answer.outcome, Outcome::Done(_));
        let said: String = doing.answers.iter().map(|answer| &answer.said[..]).collect();
        let step = |outcome: Outcome, is_gone: bool| {
            let answer = Answer { said: said.clone(), ..Answer::of(outcome) };
            Some(Step { client: Some(doing.client), answer, is_gone })
        };
        if self.is_plain()
            && let [answer] = &doing.answers[..]
        {
            let is_failed = is_failed(answer);
            if is_failed && let Some(before) = doing.before {
                self.description = before;
            }
            if is_failed && doing.what == What::Start {
                self.is_started = false;
            }
            return step(answer.outcome.clone(), doing.what == What::Destroy && !is_failed);
        }
        if let Some(outcome) = doing.failed {
            return step(outcome, false);
        }
        let failed =
            doing.answers.iter().find(|answer| is_failed(answer)).map(|answer| answer.outcome.clone());
        match (failed, doing.what) {
            (None, What::Stop | What::Destroy) => {
                step(Outcome::Done(self.ended(doing.what)), doing.what == What::Destroy)
            }
            (None, _) => step(Outcome::Done(doing.done), false),
            // What was begun beside it is taken back.
            (Some(outcome), What::Start | What::Change) => {
                let client = doing.client;
                match doing.before.take() {
                    Some(before) => self.description = before,
                    None => self.is_started = false,
                }
                let is_start = doing.what == What::Start;
                doing.failed = Some(outcome.clone());
                self.doing = Some(doing);
                let undone = match is_start {
                    true => self
                        .parts
                        .iter_mut()
                        .filter(|part| part.is_recording())
                        .try_for_each(|part| part.stop(client)),
                    false => self.change_parts(client),
                };
                match undone {
                    Ok(()) => None,
                    Err(_) => {
                        self.doing = None;
                        let answer = Answer { said, ..Answer::of(outcome) };
                        Some(Step { client: Some(client), answer, is_gone: false })
                    }
                }
            }
            (Some(outcome), _) => step(outcome, false),
        }
    }

    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.parts.iter().for_each(|part| sum.add(&part.counts()));
        sum
    }

    /// What `weir record status` shows.
    pub(crate) fn status(&self) -> Value {
        let recording: Vec<&Stretch> = self.parts.iter().filter_map(Part::recording).collect();
        let state = match &self.parts[..] {
            [one] if self.is_plain() => one.state(),
            _ if self.wants_programs() => "recording",
            parts => parts.iter().map(Part::state).find(|state| *state != "stopped").unwrap_or("stopped"),
        };
        let parts = self.parts.iter().filter(|part| !part.has_nothing).map(|part| {
            json!({
                "channel": part.key.channel,
                "program": part.key.program.as_ref().map(|program| &program.path),
                "folder": part.description.folder.to_string_lossy(),
                "state": part.state(),
                "recorder": part.recording().map(|recording| recording.id.pid),
                "recorded": part.counts().recorded(),
                "discarded": part.counts().discarded,
                "note": part.note(),
            })
        });
        json!({
            "description": self.description.object(),
            "state": state,
            "recorders": recording.iter().map(|recording| recording.id.pid).collect::<Vec<_>>(),
            "number": recording.first().filter(|_| self.is_plain()).map(|recording| recording.folder),
            "recording_ms": recording.iter().map(|recording| recording.age().as_millis() as u64).max(),
            "counts": self.counts().object(),
            "note": self.parts.iter().filter(|_| self.is_plain()).find_map(Part::note),
            "parts": parts.filter(|_| !self.is_plain()).collect::<Vec<_>>(),
        })
    }

    /// For the state file.
    pub(crate) fn object(&self) -> Value {
        let parts: Vec<Value> = self.parts.iter().map(Part::object).collect();
        json!({"description": self.description.object(), "parts": parts})
    }

    /// As a daemon has kept it that is gone: its recordings have ended with it, or do so now. And what is to be told of that.
    pub(crate) fn of_object(value: Value, place: &Place) -> Result<(Session, Option<String>), String> {
        let mut object = Object::of(value, "a session that was kept")?;
        let description = Description::of_object(object.value("description").unwrap_or_default())?;
        let mut session = Session::new(description);
        let mut notices = Vec::new();
        let of =
            |key: &Key, folder: &str| session.description.of_channel(key.channel.as_deref(), folder.into());
        let mut parts = Vec::new();
        for part in object.values("parts")? {
            let (part, more) = Part::of_object(part, &of, place)?;
            parts.push(part);
            notices.extend(more);
        }
        object.end()?;
        session.parts = parts;
        let name = session.description.name.clone();
        let notice = (!notices.is_empty()).then(|| format!("session {name}: {}", notices.join("; ")));
        Ok((session, notice))
    }
}

/// A text of a recording, for a message.
fn one_line(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(|line| line.trim_start_matches("weir: ")).collect();
    lines.join("; ")
}

/// What a folder of a program is called.
fn file_name(name: &str) -> String {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let fit: String =
        name.chars().map(|c| if is_fit(c) { c } else { '_' }).take(limits::NAME_BYTES).collect();
    match &fit[..] {
        "" | "." | ".." => "program".to_owned(),
        _ => fit,
    }
}

/// Makes the folder of a new session, or refuses one that has something in it.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Outcome> {
    let shown = folder.display();
    let refused = |what: String| Err(Outcome::Refused(format!("-o {shown}: {what}")));
    if let Err(error) = private::make_folder(folder) {
        return refused(format!("cannot make it: {error}"));
    }
    match fs::read_dir(folder).map(Iterator::count) {
        Err(error) => refused(error.to_string()),
        Ok(count) if count > 0 => refused(
            "it is not empty; a session wants a folder of its own: name another, or remove this one"
                .to_owned(),
        ),
        // What cannot be written to is seen now, not when it records.
        Ok(_) => {
            let probe = folder.join(".weir");
            let written = private::options()
                .write(true)
                .create_new(true)
                .open(&probe)
                .and_then(|_| fs::remove_file(&probe));
            written.or_else(|error| refused(format!("cannot write there: {error}")))
        }
    }
}
