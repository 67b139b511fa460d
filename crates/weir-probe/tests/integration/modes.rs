//! A thread that stands at any instruction of a trampoline when the mode of its site changes: run to each of them in turn,
//! by breakpoints of the processor (tests/programs/parked.c). It comes back where it came from with each register and flag
//! that it had, and its call is counted once at each end, or missed, or neither where it found its site shut.

use crate::sessions;

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::time::Duration;

use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use testkit::{Daemon, target};
use weir_probe::{Attachment, Mode, Target};
use weir_symbols::{Binary, maps};

use crate::counting::{arm, count};
use crate::sessions::{ENTRIES, MATCHED, RETURNS, session, session_of, value};

const DEADLINE: Duration = Duration::from_secs(120);
/// It changes no register but rax, no flag, and calls nothing.
const FUNCTION: &str = "park_pushes";
/// Instructions of one call, with room to spare.
const STEPS_MAX: usize = 20_000;
/// Calls until one goes the way that leads to some instruction.
const TRIES: usize = 4;
/// Flags that steps and breakpoints set.
const TRAP_FLAG: u64 = 0x100;
const RESUME_FLAG: u64 = 0x1_0000;

const MODES: [Mode; 4] = [Mode::Armed, Mode::Metered, Mode::Sampled { one_in: 2 }, Mode::Shut];

/// How the function is probed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Entry,
    CalledThrough,
    Replaced,
}

/// What weir has counted: entries, returns, returns that found what their entry left, hits that were missed.
#[derive(Clone, Copy, Debug)]
struct Counts {
    entries: u64,
    returns: u64,
    matched: u64,
    missed: u64,
}

/// The program, probed, and its one thread under control.
struct Stepped {
    daemon: Daemon,
    attachment: Attachment,
    kind: Kind,
    site: usize,
    /// Address of the function.
    entry: u64,
}

impl Stepped {
    fn start(kind: Kind) -> Stepped {
        let binary = Binary::open(&target::program("parked")).unwrap();
        let mut daemon = Daemon::spawn(std::process::Command::new(binary.path())).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let mappings = maps::read(daemon.pid()).unwrap();
        let function = binary.find(FUNCTION).unwrap()[0];
        let entry =
            maps::to_virtual(&mappings, binary.identity().unwrap(), &binary, function.address).unwrap().0;
        let opened = Target::open(daemon.pid() as i32).unwrap();
        let functions = [(&binary, function)];
        let attachment = match kind {
            Kind::Entry => arm(opened, binary.path(), &[FUNCTION]).unwrap(),
            Kind::CalledThrough => sessions::arm(opened, &functions, &[session_of(0)], &[session(0)]),
            Kind::Replaced => sessions::arm_replaced(opened, &functions, &[session_of(0)], &[session(0)]),
        };
        let site = attachment.outcomes()[0].as_ref().unwrap().site;
        let pid = Pid::from_raw(daemon.pid() as i32);
        ptrace::seize(pid, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
        Stepped { daemon, attachment, kind, site, entry }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.daemon.pid() as i32)
    }

    fn set(&mut self, mode: Mode) {
        self.attachment.set_modes(&[(self.site, mode)]).unwrap();
    }

    fn counts(&self) -> Counts {
        let missed = self.attachment.meter(self.site).missed;
        let [entries, returns, matched] = match self.kind {
            Kind::Entry => [count(&self.attachment), 0, 0],
            _ => [ENTRIES, RETURNS, MATCHED].map(|index| value(&self.attachment, index)),
        };
        Counts { entries, returns, matched, missed }
    }

    /// Lets it run until it stands at one of two addresses, by the processor's own breakpoints.
    fn run_to(&self, first: u64, second: u64) -> user_regs_struct {
        const BOTH: u64 = 0b101;
        for (register, value) in [(0, first), (1, second), (7, BOTH)] {
            let offset = offset_of!(libc::user, u_debugreg) + 8 * register;
            let set = ptrace::write_user(self.pid(), offset as ptrace::AddressType, value as i64);
            set.unwrap_or_else(|errno| panic!("debug register {register} = {value:#x}: {errno}"));
        }
        ptrace::cont(self.pid(), None).unwrap();
        self.trapped()
    }

    fn step(&self) -> user_regs_struct {
        ptrace::step(self.pid(), None).unwrap();
        self.trapped()
    }

    fn trapped(&self) -> user_regs_struct {
        let status = waitpid(self.pid(), Some(WaitPidFlag::__WALL)).unwrap();
        assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{:?}: {status:?}", self.kind);
        ptrace::getregs(self.pid()).unwrap()
    }

    /// Runs it to the next call; its registers there, and the address that it is to come back to.
    fn come(&self) -> (user_regs_struct, u64) {
        let came = self.run_to(self.entry, self.entry);
        let caller = ptrace::read(self.pid(), came.rsp as ptrace::AddressType).unwrap() as u64;
        (came, caller)
    }

    /// Where the next call passes in this mode, instruction by instruction, its first left out.
    fn path(&mut self, mode: Mode) -> Vec<u64> {
        self.set(mode);
        let (_, caller) = self.come();
        let passed = (0..STEPS_MAX).map(|_| self.step().rip);
        let path: Vec<u64> = passed.take_while(|&at| at != caller).collect();
        assert!(path.len() < STEPS_MAX, "{:?} {mode:?}: it does not come back", self.kind);
        path
    }

    /// One call that begins in mode `from`, and goes on in mode `to` from address `at` on. Whether it came there.
    fn call(&mut self, from: Mode, to: Mode, at: u64) -> bool {
        self.set(from);
        let before = self.counts();
        let (came, caller) = self.come();
        let mut now = self.run_to(at, caller);
        let is_there = now.rip == at;
        if is_there {
            self.set(to);
            now = self.run_to(caller, caller);
        }
        let what = format!("{:?}, {from:?} to {to:?} at {at:#x}", self.kind);
        let expected = user_regs_struct { rax: came.rdi * 3 + 1, rip: caller, rsp: came.rsp + 8, ..came };
        assert_eq!(plain(&now), plain(&expected), "{what}");
        self.check_counts(before, [from, to].contains(&Mode::Shut), &what);
        is_there
    }

    fn check_counts(&self, before: Counts, may_be_shut: bool, what: &str) {
        let now = self.counts();
        let [entries, returns, matched, missed] = [
            now.entries - before.entries,
            now.returns - before.returns,
            now.matched - before.matched,
            now.missed - before.missed,
        ];
        let hits = entries + missed;
        assert!(hits == 1 || may_be_shut && hits == 0, "{what}: {entries} entries, {missed} missed");
        if !matches!(self.kind, Kind::Entry) {
            assert_eq!((returns, matched), (entries, entries), "{what}");
        }
    }

    /// The program is right, in all that it has checked itself.
    fn end(mut self) {
        // Its debug registers are its own, and stay as they are.
        let control = offset_of!(libc::user, u_debugreg) + 8 * 7;
        ptrace::write_user(self.pid(), control as ptrace::AddressType, 0).unwrap();
        ptrace::detach(self.pid(), None).unwrap();
        assert_eq!(self.attachment.detach().unwrap().restored, 1);
        self.daemon.write("\n").unwrap();
        self.daemon.line_with("right", DEADLINE).unwrap();
        assert!(self.daemon.finish(DEADLINE).unwrap().status.success());
    }
}

/// All that programs compute with, but for vectors.
fn plain(of: &user_regs_struct) -> [u64; 18] {
    let flags = of.eflags & !(TRAP_FLAG | RESUME_FLAG);
    [
        of.rax, of.rbx, of.rcx, of.rdx, of.rsi, of.rdi, of.rbp, of.rsp, of.r8, of.r9, of.r10, of.r11, of.r12,
        of.r13, of.r14, of.r15, of.rip, flags,
    ]
}

/// Each mode to each other one, at each instruction; of two hits that are sampled one is missed, and goes another way.
#[track_caller]
fn check(kind: Kind, instructions: usize) {
    let mut stepped = Stepped::start(kind);
    for from in MODES {
        let paths = [stepped.path(from), stepped.path(from)];
        let longest = paths.iter().map(Vec::len).max().unwrap_or(0);
        assert!(longest > instructions || from == Mode::Shut, "{kind:?} {from:?}: {longest} instructions");
        let places: BTreeSet<u64> = paths.into_iter().flatten().collect();
        for to in MODES.into_iter().filter(|to| *to != from) {
            for &at in &places {
                let is_there = (0..TRIES).any(|_| stepped.call(from, to, at));
                assert!(is_there, "{kind:?}, {from:?} to {to:?}: nothing comes to {at:#x}");
            }
        }
    }
    stepped.end();
}

#[test]
fn at_every_instruction_of_a_trampoline() {
    check(Kind::Entry, 20);
}

#[test]
fn at_every_instruction_of_a_call_through() {
    check(Kind::CalledThrough, 60);
}

#[test]
fn at_every_instruction_where_a_return_is_replaced() {
    check(Kind::Replaced, 120);
}
