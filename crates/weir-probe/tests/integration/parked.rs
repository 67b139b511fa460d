//! A thread that stands at any instruction when the patch comes, or goes: stepped there one instruction at a time, and
//! stopped by a signal (tests/programs/parked.c). It goes on where it was, does what it did, and nothing stays behind.

use crate::sessions;

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use testkit::target;
use testkit::{Daemon, wait};
use weir_probe::{Attach, Attachment, Refusal, Report, SiteRequest, Target, When, plan_functions, restore};
use weir_symbols::{Binary, LinkAddr, maps};

use crate::counting::{arm, count};
use crate::sessions::{ENTRIES, MATCHED, RETURNS, session, session_of, value};

const DEADLINE: Duration = Duration::from_secs(120);
const FUNCTIONS: [&str; 6] =
    ["park_prologue", "park_pushes", "park_flags", "park_padding", "park_short", "park_call"];

/// Instructions of a whole round of calls, with room to spare.
const STEPS_MAX: usize = 20_000;

/// The program, one thread that goes through all functions.
struct Parked {
    daemon: Daemon,
    binary: Binary,
    bias: u64,
    before: Vec<u8>,
}

impl Parked {
    fn start() -> Parked {
        let binary = Binary::open(&target::program("parked")).unwrap();
        let mut daemon = Daemon::spawn(std::process::Command::new(binary.path())).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let mappings = maps::read(daemon.pid()).unwrap();
        let start = binary.executable_ranges()[0].0;
        let at = maps::to_virtual(&mappings, binary.identity().unwrap(), &binary, start).unwrap();
        let mut parked = Parked { daemon, bias: at.0.wrapping_sub(start.0), binary, before: Vec::new() };
        parked.before = parked.text();
        parked
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.daemon.pid() as i32)
    }

    fn text(&self) -> Vec<u8> {
        let (start, bytes) = self.binary.executable_ranges()[0];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let mut now = vec![0; bytes.len()];
        memory.read_exact_at(&mut now, start.0 + self.bias).unwrap();
        now
    }

    /// Where the function is in memory.
    fn address(&self, function: &str) -> u64 {
        self.binary.find(function).unwrap()[0].address.0 + self.bias
    }

    /// Addresses of the instructions that a patch of `function` displaces.
    fn window(&self, function: &str) -> Vec<u64> {
        let function = self.binary.find(function).unwrap()[0];
        let window = plan_functions(&[(&self.binary, function)]).remove(0).unwrap();
        window.instructions.iter().map(|instruction| instruction.ip() + self.bias).collect()
    }

    fn arm(&self, kind: Kind, function: &str) -> Armed {
        let target = Target::open(self.pid().as_raw()).unwrap();
        let attachment = match kind {
            Kind::Entry => arm(target, self.binary.path(), &[function]).unwrap(),
            Kind::Session => {
                let functions = [(&self.binary, self.binary.find(function).unwrap()[0])];
                sessions::arm(target, &functions, &[session_of(0)], &[session(0)])
            }
        };
        Armed { attachment, kind }
    }

    /// Runs the thread to `address`, `steps` instructions further, and leaves it to itself there with `signal`. Where it
    /// stands.
    fn park(&self, address: u64, steps: usize, signal: Signal) -> u64 {
        let pid = self.pid();
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
        let (mut left, mut pending) = (None, None);
        for _ in 0..STEPS_MAX {
            ptrace::step(pid, pending.take()).unwrap();
            match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
                // One that was sent before, and that the thread had no CPU to take: without it it would wait for ever.
                WaitStatus::Stopped(_, signal) if signal != Signal::SIGTRAP => {
                    pending = Some(signal);
                    continue;
                }
                _ => {}
            }
            let at = ptrace::getregs(pid).unwrap().rip;
            left = match left {
                None if at == address => Some(steps),
                None => None,
                Some(left) => Some(left - 1),
            };
            if left == Some(0) {
                ptrace::detach(pid, Some(signal)).unwrap();
                return at;
            }
        }
        panic!("{address:#x} is not reached");
    }

    fn is_stopped(&self) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// The text is what it was, and the program too.
    fn end(mut self) {
        assert!(self.text() == self.before, "its text is not what it was");
        self.daemon.write("\n").unwrap();
        self.daemon.line_with("right", DEADLINE).unwrap();
        assert!(self.daemon.finish(DEADLINE).unwrap().status.success());
    }
}

/// What the probes are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Entry,
    /// Both ends of a call.
    Session,
}

struct Armed {
    attachment: Attachment,
    kind: Kind,
}

impl Armed {
    /// Programs that have run.
    fn count(&self) -> u64 {
        match self.kind {
            Kind::Entry => count(&self.attachment),
            Kind::Session => value(&self.attachment, ENTRIES) + value(&self.attachment, RETURNS),
        }
    }

    fn runs(&self) {
        let before = self.count();
        assert!(wait::until(DEADLINE, || self.count() > before + 100), "nothing is counted");
    }

    fn detach(&mut self) -> Report {
        let report = self.attachment.detach().unwrap();
        if self.kind == Kind::Session {
            // Each return belonged to its call, and was that of a call that had been seen; one program may stand still
            // between its counts.
            let [entries, returns, matched] =
                [ENTRIES, RETURNS, MATCHED].map(|index| value(&self.attachment, index));
            let is_right =
                returns <= entries && (matched..=matched + u64::from(report.left_mapped)).contains(&returns);
            assert!(is_right, "{entries} {returns} {matched}");
        }
        report
    }
}

#[test]
fn at_every_instruction_of_a_window_when_it_is_patched() {
    let parked = Parked::start();
    let mut places = 0;
    for (kind, function) in FUNCTIONS.iter().flat_map(|&f| [(Kind::Entry, f), (Kind::Session, f)]) {
        for address in parked.window(function) {
            assert_eq!(parked.park(address, 0, Signal::SIGSTOP), address);
            assert!(wait::until(DEADLINE, || parked.is_stopped()));
            let mut armed = parked.arm(kind, function);
            let attachment = &armed.attachment;
            assert_eq!(attachment.probes(), 1, "{function} at {address:#x}: {:?}", attachment.outcomes());
            kill(parked.pid(), Signal::SIGCONT).unwrap();
            armed.runs();
            let report = armed.detach();
            assert_eq!((report.restored, &report.foreign[..]), (1, &[][..]), "{function} at {address:#x}");
            places += 1;
        }
    }
    assert!(places > 12, "{places}");
    parked.end();
}

/// The thread is in a handler, and will come back to the middle of the window: the site is busy, and nothing else is.
#[test]
fn in_a_signal_handler_over_every_instruction_of_a_window() {
    let parked = Parked::start();
    for function in FUNCTIONS {
        for (index, address) in parked.window(function).into_iter().enumerate() {
            parked.park(address, 0, Signal::SIGUSR1);
            let armed = parked.arm(Kind::Entry, function);
            let outcome = &armed.attachment.outcomes()[0];
            match index {
                // It will come to the jump, and is counted.
                0 => assert!(outcome.is_ok(), "{function}: {outcome:?}"),
                _ => {
                    assert!(matches!(outcome, Err(Refusal::Busy { .. })), "{function} +{index}: {outcome:?}")
                }
            }
            kill(parked.pid(), Signal::SIGUSR2).unwrap();
            if outcome.is_ok() {
                armed.runs();
            }
        }
    }
    parked.end();
}

/// From the function's beginning through the trampoline and the programs to its caller: detached at each step.
#[track_caller]
fn check_detached(kind: Kind, function: &str, stride: usize) {
    let parked = Parked::start();
    let entry = parked.address(function);
    let own = entry..entry + parked.binary.find(function).unwrap()[0].size;
    check_detached_from(parked, kind, function, own, stride, Duration::from_millis(3));
}

/// Probes on `function`; the thread is stepped from the beginning of what is patched at `own` to its caller.
#[track_caller]
fn check_detached_from(
    parked: Parked,
    kind: Kind,
    function: &str,
    own: Range<u64>,
    stride: usize,
    stands: Duration,
) {
    let entry = own.start;
    let text = parked.binary.executable_ranges()[0].0.0 + parked.bias;
    let text = text..text + parked.before.len() as u64;
    for steps in (0..).step_by(stride) {
        let mut armed = parked.arm(kind, function);
        assert_eq!(armed.attachment.probes(), 1, "{function}: {:?}", armed.attachment.outcomes());
        let at = parked.park(entry, steps, Signal::SIGSTOP);
        assert!(wait::until(DEADLINE, || parked.is_stopped()));
        let (pid, is_left) = (parked.pid(), steps % 24 == 7);
        // At some it stands still, and weir's code has to stay.
        let stands = if is_left { Duration::from_millis(300) } else { stands };
        let goes_on = std::thread::spawn(move || {
            // It goes on while it is detached from, or after: the verdict is the same in each case.
            std::thread::sleep(stands);
            kill(pid, Signal::SIGCONT).unwrap();
        });
        let report = armed.detach();
        goes_on.join().unwrap();
        assert_eq!(
            (report.restored, &report.foreign[..]),
            (1, &[][..]),
            "{function} step {steps} at {at:#x}"
        );
        let total = armed.count();
        assert!(parked.text() == parked.before, "{function} step {steps}");
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", parked.pid())).unwrap();
        let is_left = || {
            let is_left = !maps().contains("memfd:weir-code");
            if !is_left && report.left_mapped {
                // As `weir detach` does; again, where the thread has not come to run since.
                restore::detach(parked.pid().as_raw()).unwrap();
            }
            is_left
        };
        // The first look is behind the first `weir detach`, if there is one.
        let tries = if report.left_mapped { DEADLINE } else { Duration::ZERO };
        assert!(wait::until(tries, is_left), "{function} step {steps} at {at:#x}: {}", maps());
        assert!(parked.text() == parked.before, "{function} step {steps}");
        // The program that it stood in may have ended since.
        assert!(armed.count() <= total + 1, "{function} step {steps}: counted after detaching");
        if text.contains(&at) && !own.contains(&at) {
            assert!(steps > 15, "{function}: {steps} steps");
            break;
        }
    }
    parked.end();
}

#[test]
fn at_every_instruction_of_a_trampoline_when_it_is_detached() {
    check_detached(Kind::Entry, "park_prologue", 1);
}

#[test]
fn at_instructions_of_trampolines_through_holes_and_with_calls_when_they_are_detached() {
    check_detached(Kind::Entry, "park_short", 5);
    check_detached(Kind::Entry, "park_call", 5);
}

#[test]
fn at_every_instruction_of_a_call_through_when_it_is_detached() {
    check_detached(Kind::Session, "park_pushes", 1);
}

#[test]
fn at_instructions_of_other_calls_through_when_they_are_detached() {
    check_detached(Kind::Session, "park_short", 7);
    check_detached(Kind::Session, "park_call", 7);
}

/// Probes at returns come with a hook in what unwinders ask, which stands until no call is on its way any more: here
/// the one that asks.
#[test]
fn at_every_instruction_of_a_hook_when_it_is_detached() {
    let parked = Parked::start();
    let mappings = maps::read(parked.daemon.pid()).unwrap();
    let is_loader = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-linux"));
    let loader = mappings.iter().find(|mapping| is_loader(&mapping.path)).unwrap();
    let binary = Binary::open(std::path::Path::new(&loader.path)).unwrap();
    let Some((link, _)) = binary.symbol_value("_dl_find_object") else {
        return testkit::skip::skip("find-object", "glibc is older than 2.35");
    };
    let function = binary.function_at(link).unwrap();
    let at = maps::to_virtual(&mappings, binary.identity().unwrap(), &binary, link).unwrap().0;
    // Longer than the tries to count what is pending take: it goes on while the text is put back.
    let stands = Duration::from_millis(60);
    check_detached_from(parked, Kind::Session, "park_find", at..at + function.size, 1, stands);
}

#[test]
fn interiors_are_where_the_plan_says() {
    let parked = Parked::start();
    let at = parked.window("park_prologue");
    let function = parked.binary.function_at(LinkAddr(at[1] - parked.bias)).unwrap();
    assert_eq!((function.name.as_str(), at.len()), ("park_prologue", 3));
    parked.end();
}

/// What was busy is tried again, less and less often, and leaves nothing behind until it stands.
#[test]
fn a_site_that_was_busy_stands_when_it_is_tried_again() {
    let parked = Parked::start();
    let function = parked.binary.find("park_pushes").unwrap()[0];
    let address = parked.window("park_pushes")[1];
    parked.park(address, 0, Signal::SIGUSR1);
    let mut armed = parked.arm(Kind::Entry, "park_pushes");
    assert!(matches!(armed.attachment.outcomes()[0], Err(Refusal::Busy { .. })));
    let window = plan_functions(&[(&parked.binary, function)]).remove(0);
    let requests = [SiteRequest {
        binary: &parked.binary,
        function,
        window: &window,
        called: None,
        semaphore: None,
        programs: vec![Attach { executable: 0, cookie: 0, when: When::Entry }],
        returns: None,
    }];
    let mapped = || maps::read(parked.daemon.pid()).unwrap().len();
    let before = mapped();
    let (mut pauses, mut left) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let pause = armed.attachment.until_retry().unwrap();
        assert!(armed.attachment.retry(&requests).0.is_empty(), "it is not due");
        let is_due = || armed.attachment.until_retry().is_some_and(|until| until.is_zero());
        assert!(wait::until(DEADLINE, is_due), "it does not come to be due");
        let (outcomes, done) = armed.attachment.retry(&requests);
        done.unwrap();
        assert!(outcomes.is_empty(), "{outcomes:?}");
        pauses.push(pause);
        left.push(mapped());
        assert_eq!(parked.text(), parked.before);
    }
    // The code of the first try is gone too.
    assert!(left.iter().all(|&now| now < before && now == left[0]), "{before}, {left:?}");
    // A busy machine asks late, and so is told less than the whole pause: each is held to the one after the next.
    assert!(pauses[0] < pauses[2] && pauses[1] < pauses[3] && 3 * pauses[0] < pauses[3], "{pauses:?}");
    kill(parked.pid(), Signal::SIGUSR2).unwrap();
    let mut tried = Vec::new();
    let stands = || {
        if armed.attachment.until_retry().is_some_and(|until| until.is_zero()) {
            let (outcomes, done) = armed.attachment.retry(&requests);
            done.unwrap();
            tried.extend(outcomes);
        }
        !tried.is_empty()
    };
    assert!(wait::until(DEADLINE, stands));
    assert!(matches!(&tried[..], [(0, Ok(_))]), "{tried:?}");
    assert_eq!(armed.attachment.until_retry(), None);
    armed.runs();
    drop(armed);
    assert_eq!(parked.text(), parked.before);
    parked.end();
}
