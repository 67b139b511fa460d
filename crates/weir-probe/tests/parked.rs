//! A thread that stands at any instruction when the patch comes, or goes: stepped there one instruction at a time, and
//! stopped by a signal (tests/programs/parked.c). It goes on where it was, does what it did, and nothing stays behind.

mod counting;

use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use testkit::target;
use testkit::{Daemon, wait};
use weir_probe::{Attachment, Refusal, Target, plan_functions, restore};
use weir_symbols::{Binary, LinkAddr, maps};

use crate::counting::{arm, count};

const DEADLINE: Duration = Duration::from_secs(20);
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

    fn arm(&self, function: &str) -> Attachment {
        let target = Target::open(self.pid().as_raw()).unwrap();
        arm(target, self.binary.path(), &[function]).unwrap()
    }

    /// Runs the thread to `address`, `steps` instructions further, and leaves it to itself there with `signal`. Where it
    /// stands.
    fn park(&self, address: u64, steps: usize, signal: Signal) -> u64 {
        let pid = self.pid();
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
        let mut left = None;
        for _ in 0..STEPS_MAX {
            ptrace::step(pid, None).unwrap();
            waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
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

fn runs(attachment: &Attachment) {
    let before = count(attachment);
    assert!(wait::until(DEADLINE, || count(attachment) > before + 100), "nothing is counted");
}

#[test]
fn at_every_instruction_of_a_window_when_it_is_patched() {
    let parked = Parked::start();
    let mut places = 0;
    for function in FUNCTIONS {
        for address in parked.window(function) {
            assert_eq!(parked.park(address, 0, Signal::SIGSTOP), address);
            assert!(wait::until(DEADLINE, || parked.is_stopped()));
            let mut attachment = parked.arm(function);
            assert_eq!(attachment.probes(), 1, "{function} at {address:#x}: {:?}", attachment.outcomes());
            kill(parked.pid(), Signal::SIGCONT).unwrap();
            runs(&attachment);
            let report = attachment.detach().unwrap();
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
            let attachment = parked.arm(function);
            let outcome = &attachment.outcomes()[0];
            match index {
                // It will come to the jump, and is counted.
                0 => assert!(outcome.is_ok(), "{function}: {outcome:?}"),
                _ => {
                    assert!(matches!(outcome, Err(Refusal::Busy { .. })), "{function} +{index}: {outcome:?}")
                }
            }
            kill(parked.pid(), Signal::SIGUSR2).unwrap();
            if outcome.is_ok() {
                runs(&attachment);
            }
            drop(attachment);
        }
    }
    parked.end();
}

/// From the function's beginning through the trampoline and the program, and back: detached at each step.
#[test]
fn at_every_instruction_of_a_trampoline_when_it_is_detached() {
    for function in ["park_prologue", "park_short", "park_call"] {
        let parked = Parked::start();
        let (entry, own) = (parked.address(function), parked.before.len() as u64);
        let text = parked.binary.executable_ranges()[0].0.0 + parked.bias;
        let mut places = 0;
        for steps in 0.. {
            let mut attachment = parked.arm(function);
            assert_eq!(attachment.probes(), 1, "{function}: {:?}", attachment.outcomes());
            let at = parked.park(entry, steps, Signal::SIGSTOP);
            assert!(wait::until(DEADLINE, || parked.is_stopped()));
            let is_back = steps > 1 && (text..text + own).contains(&at);
            let (pid, is_left) = (parked.pid(), steps % 12 == 7);
            // At some it stands still, and weir's code has to stay.
            let goes_on = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(if is_left { 300 } else { 3 }));
                kill(pid, Signal::SIGCONT).unwrap();
            });
            let report = attachment.detach().unwrap();
            goes_on.join().unwrap();
            assert_eq!(
                (report.restored, &report.foreign[..]),
                (1, &[][..]),
                "{function} step {steps} at {at:#x}"
            );
            assert!(parked.text() == parked.before, "{function} step {steps}");
            let total = count(&attachment);
            if report.left_mapped {
                // As `weir detach` does.
                restore::detach(parked.pid().as_raw()).unwrap();
            }
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", parked.pid())).unwrap();
            assert!(!maps.contains("weir-code"), "{function} step {steps} at {at:#x}: {maps}");
            // The program that it stood in may have ended since.
            assert!(count(&attachment) <= total + 1, "{function} step {steps}: counted after detaching");
            places += 1;
            if is_back {
                break;
            }
        }
        assert!(places > 15, "{function}: {places} places");
        parked.end();
    }
}

#[test]
fn interiors_are_where_the_plan_says() {
    let parked = Parked::start();
    let at = parked.window("park_prologue");
    let function = parked.binary.function_at(LinkAddr(at[1] - parked.bias)).unwrap();
    assert_eq!((function.name.as_str(), at.len()), ("park_prologue", 3));
    parked.end();
}
