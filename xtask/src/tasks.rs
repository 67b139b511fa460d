//! tasks: queues of commands that go on beside one another.
//!
//! In: queues. Out: each task as it ends, with all that it has printed in one piece, so that lines of one never stand among those of
//! another.
//!
//! Guaranteed: tasks of one queue run one after the other, in its order; one that stands still is ended (`stream`) and its queue goes on.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stream::{self, Ends, Streamed};

/// A command under a name, and what is shown over its output.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) heading: String,
    pub(crate) command: Command,
    pub(crate) ends: Ends,
}

/// What came of a task.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) name: String,
    pub(crate) heading: String,
    pub(crate) output: Vec<u8>,
    /// An error where it could not be started.
    pub(crate) streamed: Result<Streamed>,
    pub(crate) took: Duration,
}

/// Runs all queues; `done` sees each task when it has ended.
pub(crate) fn run(queues: Vec<Vec<Task>>, done: &mut dyn FnMut(Done)) {
    let (send, ended) = mpsc::channel();
    thread::scope(|scope| {
        for queue in queues {
            let send = send.clone();
            // Nobody listens any more only where `done` has panicked.
            scope.spawn(move || queue.into_iter().try_for_each(|task| send.send(task.run())));
        }
        drop(send);
        ended.iter().for_each(done);
    });
}

impl Task {
    pub(crate) fn run(mut self) -> Done {
        let start = Instant::now();
        let mut output = Vec::new();
        let streamed = stream::collect(&mut self.command, self.ends, &mut output);
        Done { name: self.name, heading: self.heading, output, streamed, took: start.elapsed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, script: &str) -> Task {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Task { name: name.into(), heading: String::new(), command, ends: Ends::Command }
    }

    /// Name, output and success of each task, in the order of their ends.
    fn ended(queues: Vec<Vec<Task>>) -> Vec<(String, String, bool)> {
        let mut ended = Vec::new();
        run(queues, &mut |done| {
            let output = String::from_utf8(done.output).unwrap();
            ended.push((done.name, output, done.streamed.unwrap().succeeded));
        });
        ended
    }

    #[test]
    fn output_comes_in_one_piece_and_a_failure_is_the_tasks_own() {
        let talk = "for i in 1 2 3; do echo $0$i; sleep 0.05; done";
        let tasks = vec![task("a", talk), task("b", "echo why >&2; exit 3")];
        let ended = ended(vec![tasks]);
        let [a, b] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(a, &("a".into(), "sh1\nsh2\nsh3\n".into(), true));
        assert_eq!(b, &("b".into(), "why\n".into(), false));
    }

    #[test]
    fn queues_go_on_beside_one_another_and_keep_their_order() {
        let slow = vec![task("slow", "sleep 1"), task("last", "true")];
        let quick = vec![task("first", "true"), task("second", "true")];
        let names: Vec<String> = ended(vec![slow, quick]).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["first", "second", "slow", "last"]);
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let command = Command::new("/no such program");
        let task = Task { name: "none".into(), heading: String::new(), command, ends: Ends::Command };
        assert!(task.run().streamed.is_err());
    }
}
