//! tasks: commands that run beside one another.
//!
//! In: queues, each with the number of its tasks that may run at a time. Out: each task as it ends, with all that it has printed in one
//! piece, so that lines of one never stand among those of another.
//!
//! Guaranteed: a queue's tasks begin in its order; one that stands still is ended (`stream`) and its queue goes on.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
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

/// Tasks of which so many run at a time.
#[derive(Debug)]
pub(crate) struct Queue {
    at_a_time: usize,
    tasks: Mutex<VecDeque<Task>>,
}

impl Queue {
    pub(crate) fn new(at_a_time: usize, tasks: Vec<Task>) -> Queue {
        Queue { at_a_time, tasks: Mutex::new(tasks.into()) }
    }

    fn next(&self) -> Option<Task> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Runs all queues beside one another; `done` sees each task when it has ended.
pub(crate) fn run(queues: &[Queue], done: &mut dyn FnMut(Done)) {
    let (send, ended) = mpsc::channel();
    thread::scope(|scope| {
        for queue in queues {
            for _ in 0..queue.at_a_time {
                let send = send.clone();
                scope.spawn(move || {
                    while let Some(task) = queue.next() {
                        if send.send(task.run()).is_err() {
                            break;
                        }
                    }
                });
            }
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
    fn ended(queues: &[Queue]) -> Vec<(String, String, bool)> {
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
        let mut ended = ended(&[Queue::new(2, tasks)]);
        ended.sort();
        let [a, b] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(a, &("a".into(), "sh1\nsh2\nsh3\n".into(), true));
        assert_eq!(b, &("b".into(), "why\n".into(), false));
    }

    #[test]
    fn queues_go_on_beside_one_another_and_keep_their_order() {
        let slow = Queue::new(1, vec![task("slow", "sleep 1"), task("last", "true")]);
        let quick = Queue::new(1, vec![task("first", "true"), task("second", "true")]);
        let names: Vec<String> = ended(&[slow, quick]).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["first", "second", "slow", "last"]);
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let command = Command::new("/no such program");
        let task = Task { name: "none".into(), heading: String::new(), command, ends: Ends::Command };
        assert!(task.run().streamed.is_err());
    }
}
