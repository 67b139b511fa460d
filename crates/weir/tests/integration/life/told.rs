//! What `weir ps` and `weir top` say of probes while others trace. The oracle is the program, which calls `work` a thousand times
//! a second, by the clock.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use testkit::Daemon;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::wait;

use crate::life::worker::{traced, weir};

const DEADLINE: Duration = Duration::from_secs(120);

/// Calls that come late are made up for.
const STEADY: &str = r#"
    #include <stdio.h>
    #include <time.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) {
        struct timespec next; int sum = 0;
        alarm(600);
        clock_gettime(CLOCK_MONOTONIC, &next);
        puts("ready"); fflush(stdout);
        for (;;) {
            next.tv_nsec += 1000000;
            if (next.tv_nsec >= 1000000000) { next.tv_nsec -= 1000000000; next.tv_sec++; }
            /* The rate, whose late calls are made up for: the verdict has a factor of two to spare. */
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
            sum += work(sum);
        }
    }
"#;
const HITS_PER_S: f64 = 1000.0;

struct Scene {
    program: Daemon,
    probe: String,
    weir: Option<Daemon>,
}

impl Scene {
    fn start() -> Scene {
        let path = target::build("told-steady", Source::Text(STEADY), &["-O2"]);
        let mut program = Daemon::spawn(Command::new(&path)).unwrap();
        program.line_with("ready", DEADLINE).unwrap();
        let probe = format!("uprobe:{}:work", path.display());
        let begun = crate::life::worker::BEGUN;
        let script = format!("{begun} uprobe:{}:work {{ @calls = count(); }}", quoted(&path));
        let weir = Some(traced(&script, program.pid()));
        Scene { program, probe, weir }
    }

    fn pid(&self) -> String {
        self.program.pid().to_string()
    }

    /// The object of `weir ps`.
    fn listed(&self) -> Value {
        let output = weir().args(["ps", "-f", "json"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        objects.find(|object| object["pid"] == self.program.pid()).unwrap_or(Value::Null)
    }

    /// Once it is told that the probe was hit.
    fn told(&self) -> Value {
        let is_told =
            |object: &Value| object["hits_per_s"].as_f64().is_some_and(|rate| rate > 0.5 * HITS_PER_S);
        assert!(wait::until(DEADLINE, || is_told(&self.listed())), "{}", self.listed());
        self.listed()
    }

    /// The lines of `weir top`, in columns, of this process; the first is the header.
    fn top(&self, looks: &str) -> Vec<Vec<String>> {
        let output = weir().args(["top", "-n", looks, "-p", &self.pid()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    fn end(&mut self, signal: Signal) {
        let weir = self.weir.take().unwrap();
        weir.signal(signal).unwrap();
        weir.finish(DEADLINE).unwrap();
    }
}

#[test]
fn rates_are_those_of_the_program() {
    let mut scene = Scene::start();
    let object = scene.told();
    let figures = &object["figures"][0];
    assert_eq!((&figures["probe"], &figures["state"]), (&scene.probe.clone().into(), &"armed".into()));
    assert!(figures["hits"].as_u64().unwrap() > 0 && figures["missed"] == 0, "{object}");
    assert_eq!((&object["is_current"], &object["records_lost"]), (&true.into(), &0.into()));
    // A program that gets no CPU for a while has other rates in that second, and its hits take longer.
    let is_small = || scene.listed()["share"].as_f64().is_some_and(|share| (0.0..0.5).contains(&share));
    assert!(wait::until(DEADLINE, is_small), "{}", scene.listed());
    let rate = |line: &Vec<String>| line[3].parse::<f64>().unwrap();
    let is_right = |line: &Vec<String>| (0.5 * HITS_PER_S..2.0 * HITS_PER_S).contains(&rate(line));
    let mut lines = Vec::new();
    let has_rates = || {
        lines = scene.top("2");
        lines[1..].iter().all(is_right)
    };
    assert!(wait::until(DEADLINE, has_rates), "{lines:?}");
    assert_eq!(lines[0][..4], ["SECONDS", "PID", "COMMAND", "HITS/S"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines[1..] {
        assert_eq!(
            (&line[1], &line[7], &line[8]),
            (&scene.pid(), &"armed".to_owned(), &scene.probe),
            "{line:?}"
        );
    }
    // Gone, and so is its row.
    scene.end(Signal::SIGINT);
    assert_eq!(scene.top("1").len(), 1);
}

#[test]
fn what_a_killed_weir_said_is_told_as_past() {
    let mut scene = Scene::start();
    let hits = scene.told()["hits"].as_u64().unwrap();
    scene.end(Signal::SIGKILL);
    let object = scene.listed();
    assert_eq!((&object["weir"], &object["is_current"]), (&Value::Null, &false.into()), "{object}");
    assert_eq!((&object["hits_per_s"], &object["share"]), (&Value::Null, &Value::Null), "{object}");
    assert!(object["hits"].as_u64().unwrap() >= hits, "{object}");
    let lines = scene.top("1");
    assert_eq!((lines[1][3].as_str(), lines[1][7].as_str()), ("-", "weir gone"), "{lines:?}");
    let detached = weir().args(["detach", "-p", &scene.pid()]).output().unwrap();
    assert!(detached.status.success(), "{detached:?}");
    assert_eq!((scene.listed(), scene.top("1").len()), (Value::Null, 1));
}

#[test]
fn a_process_that_is_not_there_is_refused_and_one_that_is_not_traced_is_told() {
    let refused = weir().args(["top", "-n", "1", "-p", "4194304"]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains("4194304"), "{message}");
    let own = std::process::id().to_string();
    let output = weir().args(["top", "-n", "1", "-p", &own]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(message.contains(&format!("process {own} is not traced")), "{message}");
}
