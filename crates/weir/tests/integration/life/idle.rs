//! How often weir wakes up where nothing happens: as often as what it promises needs, and no more.

use std::process::Command;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::{Daemon, wait};

use crate::life::worker::{DEADLINE, Worker, number, program, weir};

/// How often those that wake up often do so in a stretch: about a second's worth.
const WAITS: u64 = 200;

/// A weir and the process that it traces.
struct Traced {
    weir: Daemon,
    worker: Worker,
}

impl Traced {
    /// With what the probe at `work` does, and what stands before it.
    fn start(preamble: &str, action: &str) -> Traced {
        let worker = Worker::start(Command::new(program()));
        // Intervals begin when probes are in place.
        let begin = "interval:ms:300 { @begun += 1; if (@begun == 1) { printf(\"begun\\n\"); } }";
        let script = format!("{preamble} {begin} uprobe:{}:work {{ {action} }}", quoted(&program()));
        let mut command = weir();
        command.args(["trace", "-e", &script, "-p", &worker.pid.to_string()]);
        let mut weir = Daemon::spawn(command).unwrap();
        weir.line_with("begun", DEADLINE).unwrap();
        Traced { weir, worker }
    }

    /// How often its main thread has waited for something.
    fn waits(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.weir.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    fn end(self) -> String {
        self.worker.end();
        let ended = self.weir.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
        ended.stdout
    }
}

/// What prints is read every 5 ms, what may have to grow is looked at as often; what only counts needs neither. All at once, so
/// that they have the same CPUs.
#[test]
fn what_neither_prints_nor_grows_wakes_weir_less_often() {
    let counting = Traced::start("", "@calls = count();");
    let printing = Traced::start("", "@calls = count(); if (arg0 > 1000) { printf(\"%d\\n\", arg0); }");
    let growing = Traced::start("config = { max_map_keys = 1000000 }", "@calls[arg0] = count();");
    let all = [&counting, &printing, &growing];
    // Other programs may hold up some of them for a while: one stretch shows it, and where weir wakes up as often none does.
    let mut stretches = Vec::new();
    let shows_it = || {
        let before = all.map(Traced::waits);
        let is_over = || (1..3).all(|seldom| all[seldom].waits() > before[seldom] + WAITS);
        assert!(wait::until(DEADLINE, is_over), "weir does not wake up: {before:?}");
        let after = all.map(Traced::waits);
        let waits: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        stretches.push(waits.clone());
        2 * waits[0] < waits[1] && 2 * waits[0] < waits[2]
    };
    assert!(wait::until(DEADLINE, shows_it), "{stretches:?}");
    [counting, printing, growing].into_iter().for_each(|traced| drop(traced.end()));
}

/// What is read seldom is there at once all the same: signals, the end of the process, and what an interval prints.
#[test]
fn what_only_counts_is_up_to_date_when_it_ends() {
    let mut traced = Traced::start("", "@calls = count();");
    traced.worker.work(1000, 1000);
    traced.weir.signal(Signal::SIGINT).unwrap();
    let ended = traced.weir.finish(DEADLINE).unwrap();
    assert_eq!(number(&ended.stdout, "@calls"), Some(1000), "{ended:?}");
    traced.worker.end();
    let looks = "interval:ms:10 { @looks += 1; if (@looks == 50) { printf(\"fifty\\n\"); } }";
    let mut traced = Traced::start(looks, "@calls = count();");
    traced.worker.work(1000, 1000);
    traced.weir.line_with("fifty", DEADLINE).unwrap();
    let text = traced.end();
    assert_eq!(number(&text, "@calls"), Some(1000), "{text}");
}
