//! Sixty-four threads in the functions that are patched and restored meanwhile (tests/programs/hammer.c): no result
//! changes, no call is lost or counted after detaching, and the text is what it was each time.
//!
//! `WEIR_HAMMER=SEED:CYCLES` makes more cycles, at other moments; `cargo xtask soak attach` sets it.

use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use testkit::{Daemon, random, target, wait};
use weir_probe::{Attachment, Error, Target, restore};
use weir_symbols::{Binary, maps};

use crate::counting::{arm, count};

const DEADLINE: Duration = Duration::from_secs(240);
const FUNCTIONS: [&str; 6] =
    ["hammer_long", "hammer_several", "hammer_padding", "hammer_short", "hammer_call", "hammer_signal"];
/// Functions that the threads call, one after the other.
const CALLED: u64 = 5;
const THREADS: u64 = 64;

/// Times that it attaches and detaches in one test.
const CYCLES: u64 = 25;

/// Times that it tries to attach.
const TRIES: u32 = 10;

struct Hammer {
    daemon: Daemon,
    binary: Binary,
    text: u64,
    before: Vec<u8>,
    /// Times that it could not be attached to.
    refused: Cell<u64>,
}

impl Hammer {
    fn start(how: &str) -> Hammer {
        let binary = Binary::open(&target::program("hammer")).unwrap();
        let mut command = Command::new(binary.path());
        command.args([how, "1200"]);
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let mappings = maps::read(daemon.pid()).unwrap();
        let start = binary.executable_ranges()[0].0;
        let at = maps::to_virtual(&mappings, binary.identity().unwrap(), &binary, start).unwrap();
        let mut hammer = Hammer { daemon, text: at.0, binary, before: Vec::new(), refused: Cell::new(0) };
        hammer.before = hammer.now();
        hammer
    }

    fn pid(&self) -> i32 {
        self.daemon.pid() as i32
    }

    fn now(&self) -> Vec<u8> {
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let mut now = vec![0; self.binary.executable_ranges()[0].1.len()];
        memory.read_exact_at(&mut now, self.text).unwrap();
        now
    }

    /// Attaches. Where others want the processors too, not all threads may come to their stop in time: then nothing is
    /// attached, and it is asked again.
    fn attach(&self, functions: &[&str]) -> Attachment {
        for _ in 0..TRIES {
            match arm(Target::open(self.pid()).unwrap(), self.binary.path(), functions) {
                Err(Error::StopTimeout { .. }) => self.refused.set(self.refused.get() + 1),
                attached => return attached.unwrap(),
            }
            assert!(self.now() == self.before, "its text is not what it was");
        }
        panic!("the process cannot be stopped in time, {TRIES} times");
    }

    /// Attaches, lets it be hit for some time, detaches.
    fn cycle(&self, pause: Duration) {
        let mut attachment = self.attach(&FUNCTIONS);
        assert_eq!(attachment.probes(), FUNCTIONS.len(), "{:?}", attachment.outcomes());
        if pause > Duration::from_millis(1) {
            assert!(wait::until(DEADLINE, || count(&attachment) > 0), "nothing is counted");
        }
        // A random moment: the verdict does not depend on which one it is.
        sleep(pause);
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, &report.foreign[..]), (FUNCTIONS.len(), &[][..]));
        assert!(self.now() == self.before, "its text is not what it was");
        if report.left_mapped {
            // Nothing of this process's own is used: as if the next weir came.
            restore::detach(self.pid()).unwrap();
        }
    }

    /// Every call of all threads is counted.
    fn counts(&mut self, times: u64) {
        let mut attachment = self.attach(&FUNCTIONS[..5]);
        self.daemon.write(&format!("{times}\n")).unwrap();
        let done = self.daemon.line(DEADLINE).unwrap();
        let calls = times * THREADS * CALLED;
        assert_eq!((done, count(&attachment)), (format!("done {calls}"), calls));
        attachment.detach().unwrap();
        assert!(self.now() == self.before, "its text is not what it was");
    }

    fn tell(&mut self, line: &str, answer: &str) {
        self.daemon.write(&format!("{line}\n")).unwrap();
        let said = self.daemon.line(DEADLINE).unwrap();
        assert!(said.starts_with(answer), "{said}");
    }
}

/// One at a time: others of its kind would keep the processors from it.
static ALONE: Mutex<()> = Mutex::new(());

/// So many cycles under so many threads; then a count of known calls. How often attaching took too long.
fn check(how: &str, seed: u64, cycles: u64) -> u64 {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let mut hammer = Hammer::start(how);
    hammer.tell("run", "running");
    let mut state = random::state(seed);
    for _ in 0..cycles {
        hammer.cycle(Duration::from_micros(random::next(&mut state) % 4000));
    }
    hammer.tell("stop", "done");
    hammer.counts(300);
    hammer.daemon.write("end\n").unwrap();
    let ended = hammer.daemon.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && !ended.stdout.contains("signal"), "{ended:?}");
    hammer.refused.get()
}

#[test]
fn probes_come_and_go_under_sixty_four_threads() {
    let (seed, cycles) = random::seed_and_count("WEIR_HAMMER", (1, CYCLES));
    let refused = check("plain", seed, cycles);
    println!("counts: attached={cycles} refused={refused}");
}

#[test]
fn probes_come_and_go_under_ten_thousand_signals_a_second() {
    check("signals", 2, CYCLES);
}

/// Nothing here needs a trap: neither one that cannot be delivered, nor a handler of the program's own sees one.
#[test]
fn probes_come_and_go_where_traps_are_blocked() {
    check("trap", 3, CYCLES);
}
