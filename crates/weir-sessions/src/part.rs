//! What of a session is recorded in one go, and the processes `weir record` that do it: all of it, or one of its channels, of the processes that
//! were named, or of one program.
//!
//! In: what its session asks for, one thing at a time; what the processes say. Out of [`Part::step`]: an answer, once what was asked for is done.
//!
//! ```text
//! start    next: preparing ─▶ held ──────────────────────▶ go ─▶ recording
//! change   next: preparing ─▶ held ─▶ recording: lets go ─▶ go ─▶ recording ─▶ recording: ends       fails: the recording takes back, and goes on as it was
//! stop                                recording: ends
//! rotate                              recording: asked ─▶ goes on in the next folder
//! snapshot                            recording: asked ─▶ has answered
//! ```
//!
//! The recording of a session that is changed lets its processes go, and the next, which is compiled by then, takes them over one by one, each in one stop: each of their events is in one of the two. Where the first has ended meanwhile,
//! how long nothing was recorded is reported.

use std::fs;
use std::path::Path;
use std::time::Instant;

use std::rc::Rc;

use serde_json::{Value, json};
use weir_process::processes::ProcessId;
use weir_process::program::Program;

use crate::counts::Counts;
use crate::description::Description;
use crate::object::Object;
use crate::place::Place;
use crate::program::{self, OfProgram};
use crate::protocol::{Answer, Outcome};
use crate::stretch::{self, Phase, SaidOfHeld, Stretch};
use crate::turn::{Turn, Word};
use crate::{limits, process};

pub(crate) struct Part {
    /// Of the session, as far as it is this part's.
    pub(crate) description: Description,
    pub(crate) key: Key,
    /// What its files beside the socket are called after.
    files: String,
    /// Processes that are to be recorded before they run on.
    held: Vec<Held>,
    /// The last process of its program that has come.
    pub(crate) seen: Option<i32>,
    /// Processes of its program are held when they begin.
    pub(crate) are_held: bool,
    /// Its events are none of the program's.
    pub(crate) has_nothing: bool,
    /// An event has ended it, until it is started again.
    pub(crate) is_over: bool,
    /// The number of the last folder that was begun.
    last: u64,
    /// Of all stretches that have ended.
    counts: Counts,
    recording: Option<Stretch>,
    /// What comes after it.
    next: Option<Stretch>,
    doing: Option<Doing>,
    /// Why it does not record, where that is not what was asked for.
    note: Option<String>,
    /// Something of it has changed that is to be kept.
    pub(crate) is_changed: bool,
}

/// Which part of a session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Key {
    /// None: of events that no channel was named for.
    pub(crate) channel: Option<String>,
    /// None: of the processes that were named.
    pub(crate) program: Option<Program>,
}

/// A process that does not run on before this is dropped.
struct Held {
    id: ProcessId,
    turn: Rc<Turn>,
}

/// What a client waits for.
struct Doing {
    what: What,
    /// None where an event has asked for it.
    client: Option<u64>,
    /// What is said when it is done.
    done: String,
    /// What the session was, where a change of it fails.
    before: Option<Description>,
    /// Since when nothing is recorded.
    gap: Option<Instant>,
    /// By recordings that have ended meanwhile.
    said: String,
    /// An event had started the recording that ended, and none had stopped it.
    is_open: bool,
    /// An event has ended it, for good.
    is_stopped: bool,
    /// Of the session before, if what is done fails.
    note: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Begin,
    /// Whether events have what a new filter asks for.
    Check,
    Rotate,
    Snapshot,
    Clear,
    Stop,
    Destroy,
}

/// What has come of a step.
pub(crate) struct Step {
    pub(crate) client: Option<u64>,
    pub(crate) answer: Answer,
}

impl Doing {
    fn new(what: What, client: Option<u64>) -> Doing {
        Doing {
            what,
            client,
            done: String::new(),
            before: None,
            gap: None,
            said: String::new(),
            is_open: false,
            is_stopped: false,
            note: None,
        }
    }
}

impl Part {
    pub(crate) fn new(description: Description, key: Key, files: String) -> Part {
        Part {
            description,
            key,
            files,
            held: Vec::new(),
            seen: None,
            are_held: false,
            has_nothing: false,
            is_over: false,
            last: 0,
            counts: Counts::default(),
            recording: None,
            next: None,
            doing: None,
            note: None,
            is_changed: true,
        }
    }

    /// Somebody waits for something: others wait until that is done.
    pub(crate) fn is_busy(&self) -> bool {
        self.doing.is_some()
    }

    /// No process records for it, nor gets ready to.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.recording.is_none() && self.next.is_none()
    }

    pub(crate) fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        [&self.recording, &self.next].into_iter().flatten()
    }

    /// It records, or gets ready to.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some() || self.next.is_some()
    }

    /// `client`: none where a process of its program has come.
    pub(crate) fn start(&mut self, client: Option<u64>) {
        self.begin(client, format!("session {} records", self.description.name), None);
    }

    /// A process that is held until the recording has it.
    pub(crate) fn hold(&mut self, id: ProcessId, turn: Rc<Turn>) {
        // It may be found to run as well.
        if self.held.iter().any(|held| held.id == id) {
            return;
        }
        turn.enter(&self.files);
        self.held.push(Held { id, turn });
    }

    /// Processes that are held are not to be recorded.
    fn leave_turns(&mut self) {
        for held in self.held.drain(..) {
            held.turn.leave(&self.files);
        }
    }

    /// It is in the middle of something that processes are to wait for.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Processes that run are about to be recorded.
    pub(crate) fn joins(&self) -> bool {
        self.held.iter().any(|held| held.turn.is_of_running())
    }

    /// The session is started.
    pub(crate) fn begins_anew(&mut self) {
        (self.has_nothing, self.is_over) = (false, false);
    }

    /// Another description, while nothing is recorded.
    pub(crate) fn set(&mut self, to: Description) {
        if self.description != to {
            (self.description, self.has_nothing) = (to, false);
        }
    }

    /// Has it be another one from now on: the answer, if it is so at once.
    pub(crate) fn change(
        &mut self,
        client: u64,
        to: Description,
        done: String,
    ) -> Result<Option<Outcome>, Outcome> {
        if self.recording.is_some() && to.rules.is_empty() {
            return Err(Outcome::Refused(format!(
                "session {} would have nothing left to record: stop it instead",
                to.name
            )));
        }
        let has_new_filter = to.rules.len() > self.description.rules.len()
            && to.rules.last().is_some_and(|rule| rule.filter.is_some());
        let before = std::mem::replace(&mut self.description, to);
        self.is_changed = true;
        match (&self.recording, has_new_filter) {
            (None, false) => return Ok(Some(Outcome::Done(done))),
            (None, true) => {
                self.take_number();
                self.doing =
                    Some(Doing { before: Some(before), done, ..Doing::new(What::Check, Some(client)) });
            }
            (Some(_), _) => self.begin(Some(client), done, Some(before)),
        }
        Ok(None)
    }

    pub(crate) fn rotate(&mut self, client: u64) -> Result<(), Outcome> {
        let name = &self.description.name;
        if self.recording.is_none() {
            return Err(Outcome::Refused(format!(
                "session {name} does not record: there is nothing to rotate"
            )));
        }
        if self.description.overwrites() {
            return Err(Outcome::Refused(format!(
                "session {name} overwrites, and no folder is written: weir record snapshot {name} writes one"
            )));
        }
        self.go_on(Some(client));
        Ok(())
    }

    /// By itself.
    pub(crate) fn rotates(&mut self) {
        self.go_on(None);
    }

    /// Bytes of the files of the folder that is written.
    pub(crate) fn written(&self) -> u64 {
        let Some(recording) = &self.recording else { return 0 };
        let files =
            fs::read_dir(self.description.folder_of(recording.folder)).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }

    /// Has what records go on in the next folder.
    fn go_on(&mut self, client: Option<u64>) {
        self.take_number();
        if let Some(recording) = &mut self.recording {
            recording.ask_to_rotate(self.last);
        }
        self.doing = Some(Doing::new(What::Rotate, client));
    }

    /// Has what is in the rings written, and goes on.
    pub(crate) fn snapshot(&mut self, client: u64) -> Result<(), Outcome> {
        let name = &self.description.name;
        if !self.description.overwrites() {
            return Err(Outcome::Refused(format!(
                "session {name} writes all that it records; sessions that are made with --overwrite have snapshots"
            )));
        }
        let Some(recording) = &mut self.recording else {
            let why = self.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
            return Err(Outcome::Refused(format!("session {name} does not record, and has no rings{why}")));
        };
        recording.ask_for_snapshot();
        self.ending(What::Snapshot, client);
        Ok(())
    }

    /// Takes the number of the next folder, which is stored before the folder is written: no other will have it.
    fn take_number(&mut self) {
        self.last += 1;
        while self.description.folder_of(self.last).exists() {
            self.last += 1;
        }
        self.is_changed = true;
    }

    fn begin(&mut self, client: Option<u64>, done: String, before: Option<Description>) {
        self.take_number();
        let note = self.note.take();
        self.doing = Some(Doing { before, done, note, ..Doing::new(What::Begin, client) });
    }

    pub(crate) fn stop(&mut self, client: u64) -> Result<(), Outcome> {
        let name = &self.description.name;
        if self.recording.is_none() {
            let why = self.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
            return Err(Outcome::Refused(format!("session {name} does not record{why}")));
        }
        self.ending(What::Stop, client);
        Ok(())
    }

    /// Removes what it has recorded: at once, or once it goes on in the next folder. A flight recorder begins anew.
    pub(crate) fn clear(&mut self, client: u64) -> Option<Outcome> {
        if self.recording.is_none() {
            self.remove_before(self.last + 1);
            return Some(Outcome::Done(format!("session {} has nothing recorded", self.description.name)));
        }
        if self.description.overwrites() {
            let done = format!("session {} begins anew", self.description.name);
            self.begin(Some(client), done, Some(self.description.clone()));
            return None;
        }
        self.go_on(Some(client));
        if let Some(doing) = &mut self.doing {
            doing.what = What::Clear;
        }
        None
    }

    /// Removes the folders up to this one.
    fn remove_before(&mut self, number: u64) {
        for folder in (1..number).map(|number| self.description.folder_of(number)) {
            // Of a trace, and nothing that somebody else has put there.
            if folder.join("metadata").is_file() {
                let _ = fs::remove_dir_all(folder);
            }
        }
        (self.counts, self.is_changed) = (Counts::default(), true);
    }

    pub(crate) fn destroy(&mut self, client: u64) {
        self.ending(What::Destroy, client);
    }

    fn ending(&mut self, what: What, client: u64) {
        if what != What::Snapshot {
            self.leave_turns();
        }
        self.doing = Some(Doing::new(what, Some(client)));
    }

    /// Ends what records, and whatever was being done, because the daemon ends.
    pub(crate) fn end(&mut self, why: &str) {
        if !self.is_at_rest() {
            self.note = Some(why.to_owned());
            self.is_changed = true;
        }
        self.doing = None;
        self.leave_turns();
        self.recording.iter_mut().chain(&mut self.next).for_each(Stretch::end);
    }

    /// Goes on as far as it goes without waiting.
    pub(crate) fn step(&mut self, place: &Place) -> Option<Step> {
        self.recording.iter_mut().chain(&mut self.next).for_each(Stretch::look);
        let taken = self.recording.as_mut().and_then(Stretch::taken);
        let rotated = self.recording.as_mut().and_then(Stretch::rotated);
        if let Some(ended) = self.recording.take_if(|recording| recording.ended().is_some()) {
            self.close(ended, place);
        }
        // The daemon ends.
        if self.doing.is_none()
            && let Some(ended) = self.next.take_if(|next| next.ended().is_some())
            && ended.phase() >= Phase::Beginning
        {
            self.close(ended, place);
        }
        if self.doing.is_none() && self.recording.as_mut().is_some_and(Stretch::wants_rotation) {
            self.go_on(None);
        }
        self.pass_held();
        let doing = self.doing.as_mut()?;
        match doing.what {
            What::Begin => self.step_begin(place),
            What::Check => self.step_check(place),
            What::Rotate | What::Clear => self.step_rotate(rotated),
            What::Snapshot => self.step_snapshot(taken),
            What::Stop | What::Destroy => match &mut self.recording {
                Some(recording) => {
                    recording.end();
                    None
                }
                None => self.ended(place),
            },
        }
    }

    /// What is to be recorded of a program.
    fn of_program(&self) -> Option<OfProgram> {
        let (program, tracked) = (self.key.program.clone()?, self.description.tracked.clone());
        let pid = self.held.first().map(|held| held.id.pid).or(self.seen)?;
        Some(OfProgram { program, tracked, pid, are_held: self.are_held })
    }

    /// Has the recording take processes that are held, and leaves those that are not to be recorded any more: nothing records, or they are gone.
    fn pass_held(&mut self) {
        match (&mut self.recording, &self.doing) {
            (Some(_), _) | (None, Some(Doing { what: What::Begin, .. })) => {}
            // It ended since nothing was left to record, at the moment at which these came.
            (None, None) if self.next.is_none() && !self.held.is_empty() && !self.is_over => self.start(None),
            (None, _) => self.leave_turns(),
        }
        let said = self.recording.as_mut().map_or_else(Vec::new, Stretch::said_of_held);
        // What another comes after does not take what that may not want.
        let is_changing = self.doing.as_ref().is_some_and(|doing| doing.what == What::Begin);
        let files = &self.files;
        let recording = &mut self.recording;
        self.held.retain(|Held { id, turn }| {
            let mut is_done = !process::is_alive(*id);
            for said in said.iter().filter(|said| said.of() == *id) {
                match said {
                    SaidOfHeld::Took(_) => turn.took(),
                    SaidOfHeld::AtDoor(_) => turn.is_at_door(),
                    SaidOfHeld::Has(_) => is_done = true,
                }
            }
            if process::is_traced(*id) {
                match turn.is_told_to(files) {
                    // By that recording, as a rule.
                    true => turn.took(),
                    // Another weir comes before, or a debugger: the recording says what becomes of it.
                    false if turn.is_held_for(files) => turn.runs(),
                    false => {}
                }
            }
            let is_ready = |recording: &&mut Stretch| !is_changing && recording.phase() == Phase::Recording;
            let word = turn.next(files, recording.as_mut().is_some_and(|recording| is_ready(&recording)));
            if let (Some(word), Some(recording)) = (word, recording.as_mut()) {
                recording.tell_of_held(*id, word);
                is_done |= word == Word::GoOn;
            }
            if is_done {
                turn.leave(files);
            }
            !is_done
        });
    }

    /// Starts what is to record next.
    fn step_start(&mut self, place: &Place) -> Option<Step> {
        let of = self.of_program();
        match Stretch::start(&self.description, of, (&self.files, self.last), place) {
            Ok(next) => {
                (self.next, self.is_changed) = (Some(next), true);
                None
            }
            Err(error) => {
                let doing = self.doing.take()?;
                self.leave_turns();
                self.description = doing.before.unwrap_or_else(|| self.description.clone());
                self.note = self.note.take().or(doing.note);
                let answer = Answer::of(Outcome::Failed(error));
                Some(Step { client: doing.client, answer })
            }
        }
    }

    /// Has a recording get ready, and does not let it begin. What else is wrong with it, as that there is no process yet, may pass.
    fn step_check(&mut self, place: &Place) -> Option<Step> {
        let Some(next) = &mut self.next else { return self.step_start(place) };
        if next.ended().is_none() {
            if next.phase() == Phase::Held {
                next.end();
            }
            return None;
        }
        let (doing, mut next) = (self.doing.take()?, self.next.take()?);
        let (said, name) = (next.told(), self.description.name.clone());
        self.give_back(next.number, place);
        self.is_changed = true;
        let answer = match (next.has_wrong_filter, doing.before) {
            (true, Some(before)) => {
                self.description = before;
                Answer { said, ..Answer::of(Outcome::Refused(format!("session {name} is as before"))) }
            }
            _ => Answer::of(Outcome::Done(doing.done)),
        };
        Some(Step { client: doing.client, answer })
    }

    fn step_begin(&mut self, place: &Place) -> Option<Step> {
        if self.next.is_none() {
            return self.step_start(place);
        }
        let next = self.next.as_mut()?;
        if next.ended().is_some() && next.phase() != Phase::Recording {
            return self.failed(place);
        }
        if next.phase() == Phase::Preparing && self.key.program.is_some() && next.age() > limits::PREPARE_WAIT
        {
            next.kill();
        }
        match next.phase() {
            Phase::Preparing | Phase::Beginning => None,
            Phase::Held => {
                match &mut self.recording {
                    Some(recording) if recording.phase() == Phase::LetGo => {
                        let is_open = recording.counts().is_some_and(|counts| !counts.is_waiting);
                        next.go(is_open, Some(recording.id));
                    }
                    Some(recording) => recording.ask_to_hand_over(),
                    // It is not wanted any more.
                    None if self.doing.as_ref().is_some_and(|doing| doing.is_stopped) => next.end(),
                    None => next.go(self.doing.as_ref().is_some_and(|doing| doing.is_open), None),
                }
                None
            }
            // What was in its rings is written then.
            Phase::Recording if self.recording.is_some() => {
                self.recording.as_mut().into_iter().for_each(Stretch::end);
                None
            }
            Phase::Recording | Phase::LetGo => {
                let (doing, mut next) = (self.doing.take()?, self.next.take()?);
                let folder = self.description.folder_of(next.number);
                let is_change = doing.before.is_some();
                let gap = doing.gap.filter(|_| is_change).map(|since| {
                    format!("what came in {} ms between the folders", since.elapsed().as_millis())
                });
                let rings = (is_change && !self.description.keeps_what_is_left())
                    .then(|| "what was in the rings".to_owned());
                let missing: Vec<String> = gap.into_iter().chain(rings).collect();
                let missing = match &missing[..] {
                    [] => String::new(),
                    missing => format!("; {} is missing", missing.join(", and ")),
                };
                let into =
                    if self.description.overwrites() { "into its rings; snapshots go to" } else { "into" };
                let outcome = Outcome::Done(format!("{}, {into} {}{missing}", doing.done, folder.display()));
                let said = doing.said + &next.told();
                let outcome = match doing.is_stopped {
                    false => outcome,
                    true => {
                        next.end();
                        Outcome::Done(format!("{}; an event has ended the recording (--stop-on)", doing.done))
                    }
                };
                (self.recording, self.is_changed) = (Some(next), true);
                Some(Step { client: doing.client, answer: Answer { said, ..Answer::of(outcome) } })
            }
        }
    }

    fn step_rotate(&mut self, rotated: Option<Result<(), String>>) -> Option<Step> {
        let rotated = match (rotated, &self.recording) {
            (Some(rotated), _) => rotated,
            (None, Some(_)) => return None,
            (None, None) => Err("its recording ended before".to_owned()),
        };
        let doing = self.doing.take()?;
        self.is_changed = true;
        let (name, folder) = (&self.description.name, self.description.folder_of(self.last));
        let is_clear = doing.what == What::Clear && rotated.is_ok();
        let outcome = match rotated {
            Ok(()) => Outcome::Done(format!("session {name} goes on, into {}", folder.display())),
            Err(why) => Outcome::Failed(format!("session {name} has no folder after the one before: {why}")),
        };
        let said = doing.said + &self.recording.as_mut().map_or_else(String::new, Stretch::told);
        if is_clear {
            self.remove_before(self.last);
        }
        Some(Step { client: doing.client, answer: Answer { said, ..Answer::of(outcome) } })
    }

    fn step_snapshot(&mut self, taken: Option<Result<String, String>>) -> Option<Step> {
        let taken = match (taken, &self.recording) {
            (Some(taken), _) => taken,
            (None, Some(_)) => return None,
            (None, None) => Err("its recording ended before".to_owned()),
        };
        let doing = self.doing.take()?;
        let (name, number) = (&self.description.name, self.last);
        let outcome = match taken {
            Ok(snapshot) => {
                let folder = self.description.folder_of(number).join(snapshot);
                Outcome::Done(format!("session {name} has a snapshot, in {}", folder.display()))
            }
            Err(why) => Outcome::Failed(format!("session {name} has no snapshot: {why}")),
        };
        let said = doing.said + &self.recording.as_mut().map_or_else(String::new, Stretch::told);
        Some(Step { client: doing.client, answer: Answer { said, ..Answer::of(outcome) } })
    }

    /// The number of a folder into which nothing was recorded is free again.
    fn give_back(&mut self, number: u64, place: &Place) {
        let folder = self.description.folder_of(number);
        discard_empty(&folder);
        if !folder.exists() {
            place.forget(&self.files, number);
            self.last = number - 1;
        }
        if self.key != Key::default() {
            // The session's stays.
            let _ = fs::remove_dir(&self.description.folder);
        }
    }

    /// What was to record has ended before it did.
    fn failed(&mut self, place: &Place) -> Option<Step> {
        let (doing, mut next) = (self.doing.take()?, self.next.take()?);
        self.is_changed = true;
        let name = self.description.name.clone();
        let said = doing.said + &next.told();
        // The processes may have been touched: what is in the folder is what was recorded then.
        if let Some(counts) = next.counts().filter(|_| next.phase() >= Phase::Beginning) {
            self.counts.add(&counts);
        }
        self.note = self.note.take().or(doing.note);
        self.give_back(next.number, place);
        self.has_nothing = next.has_no_event;
        if self.recording.is_none() {
            self.leave_turns();
        }
        let is_refused = next.ended().is_some_and(|status| status.code() == Some(1));
        if self.has_nothing
            && let Some(recording) = &mut self.recording
        {
            // The program has none of the events any more.
            recording.end();
            let done = Answer { said, ..Answer::of(Outcome::Done(doing.done)) };
            self.leave_turns();
            return Some(Step { client: doing.client, answer: done });
        }
        let then = match (&mut self.recording, doing.before) {
            (Some(recording), Some(before)) => {
                recording.take_back();
                self.description = before;
                format!("session {name} records on as before")
            }
            (Some(_), None) => format!("session {name} records on"),
            (None, Some(_)) => {
                let why = "what was to record after a change could not begin";
                self.note.get_or_insert_with(|| why.to_owned());
                format!("session {name} does not record any more")
            }
            (None, None) => format!("session {name} does not record"),
        };
        let outcome = if is_refused { Outcome::Refused(then) } else { Outcome::Failed(then) };
        Some(Step { client: doing.client, answer: Answer { said, ..Answer::of(outcome) } })
    }

    /// What was asked to end has.
    fn ended(&mut self, place: &Place) -> Option<Step> {
        let doing = self.doing.take()?;
        let Description { name, folder, .. } = &self.description;
        self.is_changed = true;
        let is_gone = doing.what == What::Destroy;
        let (kept, shown) = (self.kept(&self.counts), folder.display());
        let outcome = if is_gone {
            for number in 1..=self.last {
                place.forget(&self.files, number);
            }
            // Where nothing was recorded.
            match fs::remove_dir(folder) {
                Ok(()) => format!("session {name} is gone; nothing was recorded"),
                Err(_) => format!("session {name} is gone; {kept} are in {shown}"),
            }
        } else {
            format!("session {name} does not record any more; {kept} are in {shown}")
        };
        let answer = Answer { said: doing.said, ..Answer::of(Outcome::Done(outcome)) };
        Some(Step { client: doing.client, answer })
    }

    /// What a recording has come to.
    fn kept(&self, counts: &Counts) -> String {
        match self.description.overwrites() {
            true => format!("{} snapshots", counts.snapshots),
            false => format!("{} events", counts.recorded()),
        }
    }

    /// Takes what a recording that has ended has come to.
    fn close(&mut self, mut ended: Stretch, place: &Place) {
        self.is_over = ended.is_stopped && self.key.program.is_some();
        self.is_changed = true;
        self.held.iter().for_each(|held| held.turn.again(&self.files));
        let counts = ended.counts();
        if let Some(counts) = &counts {
            self.counts.add(counts);
        }
        let said = ended.told();
        if self.key.program.is_some() {
            // There may be any number of these.
            place.forget(&self.files, ended.number);
        }
        let status = ended.ended();
        let is_done = status.is_some_and(|status| status.success());
        let how = match status.and_then(|status| status.code()) {
            Some(code) => format!("with exit code {code}"),
            None => "by a signal".to_owned(),
        };
        self.note = match (ended.is_asked_to_end(), is_done) {
            (_, true) if ended.is_stopped => Some("an event has ended its recording (--stop-on)".to_owned()),
            (true, true) => self.note.take(),
            // Others may come.
            (false, true) if self.key.program.is_some() => None,
            (false, true) => Some("the processes that it was to record have ended".to_owned()),
            (_, false) if said.is_empty() => Some(format!("its recording ended {how}")),
            (_, false) => Some(format!("its recording ended {how}: {}", last_lines(&said))),
        };
        if counts.as_ref().is_none_or(|counts| !counts.is_over) {
            let number = ended.folder;
            let note = self.note.take().map_or_else(String::new, |note| format!("{note}; "));
            self.note = Some(format!("{note}how much was recorded into folder {number} is not known"));
        }
        if self.description.overwrites() {
            discard_empty(&self.description.folder_of(ended.number));
        }
        if let Some(doing) = &mut self.doing {
            doing.said += &said;
            doing.is_open = counts.as_ref().is_some_and(|counts| !counts.is_waiting);
            let phase = self.next.as_ref().map(Stretch::phase);
            // What it had is recorded by the next, if that records.
            doing.gap = (phase != Some(Phase::Recording)).then(Instant::now);
            if let (Some(next), Some(counts)) = (&mut self.next, &counts)
                && next.phase() >= Phase::Beginning
            {
                next.is_opened(!counts.is_waiting);
            }
            doing.is_stopped = ended.is_stopped;
        }
    }

    /// What it has recorded so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        if let Some(now) = self.recording.as_ref().and_then(Stretch::counts) {
            counts.add(&now);
        }
        counts
    }

    /// What it does, as `weir record status` calls it.
    pub(crate) fn state(&self) -> &'static str {
        match (&self.doing, &self.recording) {
            (Some(Doing { what: What::Begin, .. }), None) => "starting",
            (Some(Doing { what: What::Begin, .. }), Some(_)) => "changing",
            (Some(Doing { what: What::Snapshot | What::Rotate | What::Clear, .. }), Some(_)) => "recording",
            (Some(_), Some(_)) => "stopping",
            (_, Some(_)) => "recording",
            (_, None) => "stopped",
        }
    }

    pub(crate) fn recording(&self) -> Option<&Stretch> {
        self.recording.as_ref()
    }

    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// For the state file.
    pub(crate) fn object(&self) -> Value {
        let open: Vec<Value> = self
            .stretches()
            .map(
                |stretch| json!({"number": stretch.number, "folder": stretch.folder, "pid": stretch.id.pid, "start": stretch.id.start}),
            )
            .collect();
        json!({
            "channel": self.key.channel,
            "program": self.key.program.as_ref().map(program::object),
            "folder": self.description.folder.to_string_lossy(),
            "files": self.files,
            "last": self.last,
            "counts": self.counts.object(),
            "note": self.note,
            "open": open,
        })
    }

    /// As a daemon has kept it that is gone: its recordings have ended with it, or do so now. And what is to be told of that. `of`: what the session is as this
    /// part in this folder.
    pub(crate) fn of_object(
        value: Value,
        of: &dyn Fn(&Key, &str) -> Description,
        place: &Place,
    ) -> Result<(Part, Vec<String>), String> {
        let mut object = Object::of(value, "a part of a session that was kept")?;
        let program = match object.value("program") {
            None | Some(Value::Null) => None,
            Some(value) => Some(program::of_object(value)?),
        };
        let key = Key { channel: object.text_or_none("channel")?, program };
        let (folder, files) = (object.text("folder")?, object.text("files")?);
        if files.contains('/') {
            return Err("files of a part lie beside the socket".to_owned());
        }
        let mut part = Part::new(of(&key, &folder), key, files);
        part.last = object.number("last")?;
        part.counts = Counts::of_object(object.value("counts").unwrap_or_default())?;
        part.note = object.text_or_none("note")?;
        let open = object.values("open")?;
        object.end()?;
        let mut notices = Vec::new();
        for stretch in open {
            let mut object = Object::of(stretch, "a recording that was kept")?;
            let (number, folder, pid) =
                (object.number("number")?, object.number("folder")?, object.number("pid")?);
            let id = ProcessId {
                pid: i32::try_from(pid).map_err(|error| error.to_string())?,
                start: object.number("start")?,
            };
            object.end()?;
            notices.extend(part.adopt(number, folder, id, place));
        }
        Ok((part, notices))
    }

    /// Waits for the end of a recording whose daemon has gone, and takes its counts.
    fn adopt(&mut self, number: u64, folder: u64, id: ProcessId, place: &Place) -> Option<String> {
        let start = Instant::now();
        while process::is_alive(id) && start.elapsed() < limits::LEFT_WAIT {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let folder = self.description.folder_of(folder);
        let shown = folder.display();
        let counts = stretch::counts(&place.counts(&self.files, number));
        let told = match counts {
            _ if process::is_alive(id) => {
                format!("its recording into {shown} (process {}) still ends", id.pid)
            }
            Some(counts) => {
                self.counts.add(&counts);
                let (kept, whole) = (self.kept(&counts), if counts.is_over { "" } else { " or more" });
                format!("its recording ended with the daemon, {kept}{whole} are in {shown}")
            }
            // It was never let go on, and has removed what it made.
            None if !folder.exists() => return None,
            None => format!("its recording ended with the daemon; how much is in {shown} is not known"),
        };
        self.note = Some("the daemon was ended while it recorded".to_owned());
        Some(told)
    }
}

/// Removes a folder in which nothing but the description of a trace is.
fn discard_empty(folder: &Path) {
    let names: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    if names.iter().all(|name| name.as_os_str() == "metadata") {
        let _ = fs::remove_file(folder.join("metadata"));
        let _ = fs::remove_dir(folder);
    }
}

/// The end of what was said, on one line.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(|line| line.trim_start_matches("weir: ")).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
