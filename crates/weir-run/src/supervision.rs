//! The part of a recording that obeys its supervisor ([`Supervisor`]) and reports its progress.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use weir_process::processes::ProcessId;
use weir_rt::segment::Segment;
use weir_sessions::counts::Counts;

use crate::failure::Failure;
use crate::part::{Part, Requests, Round};
use crate::sink::{Finished, READ_INTERVAL, Sink};
use crate::supervisor::{HandOver, HeldProcess, Said, Supervisor};

/// How often threads are waited for that are still held, before processes are handed over.
const LATE_LOOKS_MAX: usize = 100;

pub(crate) struct Supervision {
    supervisor: Box<dyn Supervisor>,
    /// What is to become of the processes, in turn.
    handed_over: Vec<HandOver>,
    /// Processes that wait to be recorded.
    held: Vec<HeldProcess>,
    joined: Vec<(ProcessId, bool)>,
    /// Numbers of hand-overs that are done and not yet reported.
    let_go: Vec<u64>,
}

impl Supervision {
    pub(crate) fn by(supervisor: Box<dyn Supervisor>) -> Supervision {
        Supervision {
            supervisor,
            handed_over: Vec::new(),
            held: Vec::new(),
            joined: Vec::new(),
            let_go: Vec::new(),
        }
    }

    /// From now on nothing of the processes is touched, and what they write is read.
    fn hand_over(&mut self, round: &mut Round<'_>, number: u64) -> Result<(), Failure> {
        if let Some((targets, registry)) = &mut round.traced {
            // Those that wait for it have come to this recording; and threads that were stopped too late to be let go on with the others.
            for turn in 0..=LATE_LOOKS_MAX {
                if turn > 0 && !weir_probe::awaits_threads() {
                    break;
                }
                if turn > 0 {
                    thread::sleep(READ_INTERVAL);
                }
                registry.look(targets)?.iter().try_for_each(|line| round.output.process(line))?;
            }
            registry.hand_over(targets);
        }
        self.let_go.push(number);
        Ok(())
    }

    fn write_counts(&mut self, round: &Round<'_>, sink: &mut dyn Sink) {
        let counts = sink.counts(round.segment);
        self.supervisor.write(&Counts { is_waiting: round.requests.is_waiting, ..counts });
    }

    fn answer(&mut self, answers: &[Result<String, String>]) {
        for answer in answers {
            self.supervisor.say(Said::Snapshot(answer.as_deref().map_err(String::as_str)));
        }
    }
}

impl Part for Supervision {
    fn begin(&mut self, _: &Segment, requests: &mut Requests) {
        requests.opened = Some(self.supervisor.is_open());
    }

    fn starts(&mut self) {
        self.supervisor.say(Said::Recording);
    }

    fn look(&mut self, round: &mut Round<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let heard = self.supervisor.hear()?;
        round.requests.stop |= heard.has_ended;
        round.requests.opened = heard.is_opened.or(round.requests.opened);
        self.handed_over.extend(heard.handed_over);
        self.held.extend(heard.held);
        self.joined.extend(heard.joined);
        if let Some((targets, registry)) = &mut round.traced {
            if !self.held.is_empty() || !self.joined.is_empty() {
                registry.expects_processes();
            }
            heard.go_on.iter().for_each(|id| targets.go_on(*id));
        }
        sink.want(heard.snapshots);
        for folder in heard.folders {
            match sink.rotate(&folder) {
                Ok(path) => {
                    round.requests.folder = Some(path);
                    self.supervisor.say(Said::Rotated(Ok(())));
                }
                Err(failure) => self.supervisor.say(Said::Rotated(Err(&failure.to_string()))),
            }
        }
        Ok(())
    }

    fn round(&mut self, round: &mut Round<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if std::mem::take(&mut round.requests.rotate) {
            self.supervisor.say(Said::Rotate);
        }
        if std::mem::take(&mut round.requests.stopped) {
            self.supervisor.say(Said::Stopped);
        }
        self.answer(&sink.answers());
        // Before processes are handed over: they are among them.
        let (held, joined) = (std::mem::take(&mut self.held), std::mem::take(&mut self.joined));
        let are_busy = !held.is_empty() || !joined.is_empty();
        for held in held {
            let id = held.id;
            if let Some((targets, registry)) = &mut round.traced {
                registry.take_held(held, targets)?.iter().try_for_each(|line| round.output.process(line))?;
            }
            // Else others come to it.
            let waits = round.traced.as_ref().is_some_and(|(targets, _)| targets.waits_for_others(id));
            if !waits {
                self.supervisor.say(Said::Has(id));
            }
        }
        for (id, at_door) in joined {
            if let Some((targets, registry)) = &mut round.traced {
                registry
                    .join((id, at_door), targets)?
                    .iter()
                    .try_for_each(|line| round.output.process(line))?;
            }
            self.supervisor.say(Said::Has(id));
        }
        if let Some((targets, _)) = &mut round.traced {
            if are_busy {
                targets.are_to_wait(false);
            }
            targets.at_door().into_iter().for_each(|id| self.supervisor.say(Said::AtDoor(id)));
        }
        // A round after that: who takes the processes over reads in the counts whether events have started this recording by now.
        let let_go = std::mem::take(&mut self.let_go);
        for change in std::mem::take(&mut self.handed_over) {
            match change {
                // They are let go of as at any end.
                _ if round.requests.stop => {}
                HandOver::To(number) => self.hand_over(round, number)?,
                HandOver::Back => {
                    if let Some((targets, registry)) = &mut round.traced {
                        registry.take_back(targets);
                    }
                }
            }
        }
        if self.supervisor.is_due() || !let_go.is_empty() {
            self.write_counts(round, sink);
        }
        for number in let_go {
            self.supervisor.say(Said::LetGo(number));
        }
        Ok(())
    }

    fn until(&self) -> Duration {
        if self.let_go.is_empty() { Duration::MAX } else { Duration::ZERO }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.supervisor.descriptor()
    }

    fn end(&mut self, _: &Segment, requests: &Requests, finished: &Finished) {
        self.answer(&finished.answers);
        let counts = finished.counts.clone();
        self.supervisor.write(&Counts { is_waiting: requests.is_waiting, is_over: true, ..counts });
    }
}
