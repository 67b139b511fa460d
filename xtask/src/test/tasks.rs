//! tasks: what needs compilers alone, one task after the other, at a low priority: it takes what the tests leave of the CPUs.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::shown;
use crate::test::schedule::Taken;
use crate::test::stream::{self, Limit};

/// How nice compilers are to tests: a tenth of a CPU where both want it.
const NICE: &str = "10";

/// LIMIT: no compiler is quiet for as long, not even when the machine has other work.
const SILENCE: Duration = Duration::from_secs(15 * 60);

/// A command under a name.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: &'static str,
    pub(super) command: Command,
}

/// What came of a task.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) name: &'static str,
    pub(super) took: Taken,
    pub(super) output: String,
    pub(super) succeeded: bool,
}

/// Runs tasks in their order; `done` sees each when it has ended.
pub(super) fn run(tasks: Vec<Task>, mut done: impl FnMut(Done)) {
    for task in tasks {
        done(task.run());
    }
}

impl Task {
    pub(super) fn run(self) -> Done {
        let start = Instant::now();
        let mut output = Vec::new();
        let heading = format!("+ {}\n", shown(&self.command));
        let streamed = stream::collect(&mut nice(&self.command), Limit::Silence(SILENCE), &mut output);
        let (succeeded, said, cpu) = match streamed {
            Ok(streamed) => {
                (streamed.succeeded && streamed.stuck.is_empty(), streamed.stuck.join("\n"), streamed.cpu)
            }
            Err(error) => (false, format!("{error:#}"), Duration::ZERO),
        };
        let output = heading + &String::from_utf8_lossy(&output) + &said;
        Done { name: self.name, took: Taken { time: start.elapsed(), cpu }, output, succeeded }
    }
}

/// The same command at a low priority.
fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", NICE]).arg(command.get_program()).args(command.get_args());
    command.get_current_dir().into_iter().for_each(|folder| _ = nice.current_dir(folder));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_in_one_piece_and_a_failure_is_the_tasks_own() {
        let task = |name, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Task { name, command }
        };
        let no_program = Task { name: "c", command: Command::new("/no such program") };
        let mut ended = Vec::new();
        let tasks = vec![task("a", "echo 1; echo 2 >&2"), task("b", "echo why; exit 3"), no_program];
        run(tasks, |done| ended.push((done.name, done.output, done.succeeded)));
        let [a, b, (c, _, false)] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(a, &("a", "+ sh -c echo 1; echo 2 >&2\n1\n2\n".to_owned(), true));
        assert_eq!(b, &("b", "+ sh -c echo why; exit 3\nwhy\n".to_owned(), false));
        assert_eq!(*c, "c");
    }

    #[test]
    fn what_is_nice_is_the_same_command() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD; pwd; nice"]).env("WORD", "here").current_dir("/");
        let output = nice(&command).output().unwrap();
        let own = String::from_utf8(Command::new("nice").output().unwrap().stdout).unwrap();
        let niceness = (own.trim().parse::<i32>().unwrap() + NICE.parse::<i32>().unwrap()).min(19);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("here\n/\n{niceness}\n"));
    }
}
