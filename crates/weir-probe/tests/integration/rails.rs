//! How hits of a site run can be changed while threads are in it: none is lost, none is counted twice, nothing of the target
//! changes; and what a meter says is what was called.

use crate::sessions;

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use iced_x86::code_asm::{ecx, qword_ptr, rax, rcx, rsp, word_ptr};
use nix::sys::signal::SigSet;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::launch::Ended;
use weir_probe::{
    Attach, Attachment, Error, Launched, MeterReading, Mode, Returns, Target, When, limits, restore,
};
use weir_rt::executable::FRAME_IS_RETURN;
use weir_symbols::{Binary, Function};

use crate::counting::{ENTRIES, RETURNS, arm_functions, arm_sessions, count, count_of};
use crate::sessions::program;

const DEADLINE: Duration = Duration::from_secs(120);
const THREADS: u64 = 4;

/// Each number on standard input is how often four threads call each function, results checked.
const CALLS: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) long work(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    __attribute__((noinline)) long rest(long x) { __asm__ volatile("" : "+r"(x)); return x * 5 + 2; }
    static long times;
    static void *run(void *arg) {
        for (long i = 0; i < times; i++) if (work(i) != i * 3 + 1 || rest(i) != i * 5 + 2) abort();
        return arg;
    }
    int main(void) {
        puts("ready"); fflush(stdout);
        while (scanf("%ld", &times) == 1) {
            if (times < 0) {
                times = -times;
                int status; pid_t child = fork();
                if (!child) { run(0); _exit(0); }
                if (waitpid(child, &status, 0) != child || status) abort();
            } else {
                pthread_t threads[4];
                for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
                for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
            }
            puts("done"); fflush(stdout);
        }
        return 0;
    }
"#;

struct Program {
    daemon: Daemon,
    path: PathBuf,
}

impl Program {
    fn start() -> Program {
        let path = target::build("rails-calls", Source::Text(CALLS), &["-O2", "-pthread"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Program { daemon, path }
    }

    fn target(&self) -> Target {
        Target::open(self.daemon.pid() as i32).unwrap()
    }

    /// With the counter at the entries of both functions.
    fn counted(&self) -> Attachment {
        let binary = Binary::open(&self.path).unwrap();
        let functions: Vec<_> =
            ["work", "rest"].iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
        arm_functions(self.target(), &functions).unwrap()
    }

    fn begin(&mut self, times: i64) {
        self.daemon.write(&format!("{times}\n")).unwrap();
    }

    fn wait(&mut self) {
        assert_eq!(self.daemon.line(DEADLINE).unwrap(), "done");
    }

    /// Calls of each function, in all threads.
    fn call(&mut self, times: u64) -> u64 {
        self.begin(times as i64);
        self.wait();
        times * THREADS
    }
}

/// The numbers of the sites, all of which must be patched.
fn sites(attachment: &Attachment) -> Vec<usize> {
    attachment.outcomes().iter().map(|outcome| outcome.as_ref().unwrap().site).collect()
}

fn set_all(attachment: &mut Attachment, mode: Mode) {
    try_set_all(attachment, mode).unwrap();
}

fn try_set_all(attachment: &mut Attachment, mode: Mode) -> Result<(), Error> {
    let modes: Vec<(usize, Mode)> = sites(attachment).into_iter().map(|site| (site, mode)).collect();
    attachment.set_modes(&modes)
}

fn missed(attachment: &Attachment) -> u64 {
    sites(attachment).into_iter().map(|site| attachment.meter(site).missed).sum()
}

/// A hundred changes in each of ten runs.
const RUNS: u64 = 10;
const CHANGES: u64 = 100;

/// What runs, in every mode that loses no hit, at other moments each time; the calls of each function.
fn change_while_called(program: &mut Program, attachment: &mut Attachment) -> u64 {
    let mut calls = 0;
    for run in 0..RUNS {
        program.begin(200_000);
        for change in 0..CHANGES {
            let modes = [
                Mode::Armed,
                Mode::Sampled { one_in: 2 << (change % 7) },
                Mode::Metered,
                Mode::Sampled { one_in: 4 },
            ];
            // The second function is changed alone at times.
            let modes: Vec<(usize, Mode)> = sites(attachment)
                .into_iter()
                .zip(0..)
                .filter(|(_, at)| *at == 1 || change % 3 != 0)
                .map(|(site, at)| (site, modes[((change + at + run) % 4) as usize]))
                .collect();
            attachment.set_modes(&modes).unwrap();
            // Any moment will do: the verdict does not depend on it.
            sleep(Duration::from_micros(change * 7 % 300));
        }
        program.wait();
        calls += 200_000 * THREADS;
    }
    calls
}

#[test]
fn hits_and_misses_are_calls_however_modes_change() {
    let mut program = Program::start();
    let mut attachment = program.counted();
    let calls = change_while_called(&mut program, &mut attachment);
    let missed = missed(&attachment);
    assert_eq!(count(&attachment) + missed, calls * 2);
    assert!(missed > 0 && missed < calls * 2, "{missed} of {calls}");
    attachment.detach().unwrap();
    program.call(10);
}

#[track_caller]
fn returns_follow_entries(choose: Option<Returns>) {
    let mut program = Program::start();
    let take = |planned| choose.map_or(planned, Ok);
    let mut attachment = arm_sessions(program.target(), &program.path, &["work", "rest"], take);
    let calls = change_while_called(&mut program, &mut attachment);
    let (entries, returns) = (count_of(&attachment, ENTRIES), count_of(&attachment, RETURNS));
    let without = attachment.maps().counters().no_record;
    assert_eq!(entries + missed(&attachment), calls * 2);
    assert_eq!(returns + without, entries);
    attachment.detach().unwrap();
    program.call(10);
}

#[test]
fn a_call_whose_entry_ran_has_its_return_where_it_is_called_through() {
    returns_follow_entries(None);
}

#[test]
fn a_call_whose_entry_ran_has_its_return_where_that_is_replaced() {
    returns_follow_entries(Some(Returns::Replace));
}

#[test]
fn a_meter_counts_each_hit_and_times_the_first() {
    let mut program = Program::start();
    let mut attachment = program.counted();
    let site = sites(&attachment)[0];
    program.call(1000);
    assert_eq!(attachment.meter(site), MeterReading::default(), "armed");
    for round in 1..=2 {
        attachment.set_modes(&[(site, Mode::Metered)]).unwrap();
        let calls = program.call(1000);
        let read = attachment.meter(site);
        assert_eq!((read.hits, read.missed), (calls * round, 0));
        assert_eq!(read.timed, limits::TIMED_HITS * round);
    }
    attachment.set_modes(&[(site, Mode::Sampled { one_in: 5 })]).unwrap();
    let before = (attachment.meter(site), count(&attachment));
    let calls = program.call(1000);
    let read = attachment.meter(site);
    assert_eq!(attachment.mode(site), Some(Mode::Sampled { one_in: 5 }));
    assert_eq!(read.hits - before.0.hits, calls / 8, "rounded up to a power of two");
    assert_eq!(read.missed, calls - calls / 8);
    assert_eq!(read.timed - before.0.timed, calls / 8);
    // The other function is armed.
    assert_eq!(count(&attachment) - before.1, calls / 8 + calls);
}

/// It takes thousands of cycles at one end of the call, and hardly any at the other.
fn slow_at(the_return: bool) -> weir_rt::Executable {
    program(true, &[], |asm, frame| {
        let (mut again, mut fast) = (asm.create_label(), asm.create_label());
        asm.cmp(word_ptr(rsp + frame(FRAME_IS_RETURN)), i32::from(the_return))?;
        asm.jne(fast)?;
        asm.lock().inc(qword_ptr(rax))?;
        asm.mov(ecx, 20_000)?;
        asm.set_label(&mut again)?;
        asm.dec(rcx)?;
        asm.jnz(again)?;
        asm.set_label(&mut fast)?;
        asm.xor(rax, rax)?;
        asm.ret()
    })
}

#[test]
fn what_is_timed_is_both_ends_of_a_call() {
    for (the_return, replaces) in [(false, false), (true, false), (true, true)] {
        let mut program = Program::start();
        let binary = Binary::open(&program.path).unwrap();
        let functions: [(&Binary, &Function); 1] = [(&binary, binary.find("work").unwrap()[0])];
        let session = Attach { executable: 0, cookie: 0, when: When::Session };
        let executables = [slow_at(the_return)];
        let mut attachment = match replaces {
            true => sessions::arm_replaced(program.target(), &functions, &[session], &executables),
            false => sessions::arm(program.target(), &functions, &[session], &executables),
        };
        let site = sites(&attachment)[0];
        attachment.set_modes(&[(site, Mode::Metered)]).unwrap();
        program.call(100);
        let read = attachment.meter(site);
        assert_eq!(read.timed, limits::TIMED_HITS);
        // A loop of 20,000 takes that many cycles of the processor at least, which may be half as many ticks.
        assert!(read.ticks / read.timed > 8_000, "{replaces} {the_return}: {read:?}");
    }
}

#[test]
fn what_is_shut_does_not_run_and_is_not_counted() {
    let mut program = Program::start();
    let mut attachment = program.counted();
    for before in [Mode::Armed, Mode::Metered, Mode::Sampled { one_in: 2 }] {
        set_all(&mut attachment, before);
        program.call(100);
        set_all(&mut attachment, Mode::Shut);
        let site = sites(&attachment)[0];
        let were = (count(&attachment), attachment.meter(site));
        program.call(1000);
        assert_eq!((count(&attachment), attachment.meter(site)), were, "{before:?}");
    }
    set_all(&mut attachment, Mode::Armed);
    let were = count(&attachment);
    let calls = program.call(1000);
    assert_eq!(count(&attachment) - were, calls * 2);
}

#[test]
fn a_fork_child_runs_unprobed_in_every_mode() {
    let mut program = Program::start();
    let mut attachment = program.counted();
    for mode in [Mode::Armed, Mode::Metered, Mode::Sampled { one_in: 2 }, Mode::Shut] {
        set_all(&mut attachment, mode);
        let site = sites(&attachment)[0];
        let were = (count(&attachment), attachment.meter(site));
        program.begin(-1000);
        program.wait();
        assert_eq!((count(&attachment), attachment.meter(site)), were, "{mode:?}");
    }
}

#[test]
fn a_site_is_withdrawn_and_the_others_go_on() {
    let mut program = Program::start();
    let mut attachment = program.counted();
    let sites = sites(&attachment);
    for mode in [Mode::Armed, Mode::Sampled { one_in: 2 }] {
        attachment.set_modes(&[(sites[0], mode)]).unwrap();
        program.call(100);
    }
    let report = attachment.withdraw(&sites[..1]).unwrap();
    assert_eq!((report.restored, report.foreign.len()), (1, 0));
    let (were, meter) = (count(&attachment), attachment.meter(sites[0]));
    let calls = program.call(1000);
    assert_eq!(count(&attachment) - were, calls, "the other function's");
    assert_eq!(attachment.meter(sites[0]), meter);
    assert_eq!(attachment.mode(sites[0]), None);
    // Nobody has that number any more.
    attachment.set_modes(&[(sites[0], Mode::Metered), (usize::MAX, Mode::Shut)]).unwrap();
    assert_eq!(attachment.withdraw(&sites[..1]).unwrap().restored, 0);
    assert_eq!(attachment.detach().unwrap().restored, 1);
    program.call(10);
}

/// Runs the program that compares its whole state across calls, with sessions at both ends of its functions, in modes that
/// change all the time. On a loaded machine it may be over before the second mode: then it runs again.
#[track_caller]
fn state_stays_as_modes_change(replaces: bool) {
    const RUNS: usize = 20;
    assert!((0..RUNS).any(|_| run_as_modes_change(replaces)), "no call was missed in {RUNS} runs");
}

/// Whether hits were missed.
#[track_caller]
fn run_as_modes_change(replaces: bool) -> bool {
    let path = target::build(
        "rails-state",
        Source::Program("state.c"),
        &["-O2", "-pthread", "-w", "-DNO_STACK_POINTER"],
    );
    let command = [path.display().to_string(), "3000".into(), "ac".into(), "signals".into()];
    let (mut launched, exec) = Launched::start(&command, None, SigSet::empty()).unwrap();
    let binary = Binary::open(&path).unwrap();
    let target = exec.into_target(Some(&[binary.identity().unwrap()])).unwrap();
    let functions: Vec<_> =
        ["state_long", "state_several"].iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    let programs = [Attach { executable: 0, cookie: 0, when: When::Session }];
    let mut attachment = match replaces {
        true => sessions::arm_replaced(target, &functions, &programs, &[sessions::session(0)]),
        false => sessions::arm(target, &functions, &programs, &[sessions::session(0)]),
    };
    let modes = [Mode::Metered, Mode::Sampled { one_in: 2 }, Mode::Shut, Mode::Armed];
    let mut ended = None;
    let end = Instant::now() + 2 * DEADLINE;
    for mode in modes.into_iter().cycle().take_while(|_| Instant::now() < end) {
        match try_set_all(&mut attachment, mode) {
            // Pacing alone: the verdict does not depend on it.
            Ok(()) => sleep(Duration::from_millis(1)),
            // A process that ends has no memory any more a moment before it can be waited for. How it has ended says
            // whether that was its own doing.
            Err(Error::TargetGone { .. }) => {
                wait::until(DEADLINE, || launched.try_wait().is_some());
            }
            Err(error) => panic!("{mode:?}: {error}"),
        }
        ended = launched.try_wait();
        if ended.is_some() {
            break;
        }
    }
    assert_eq!(ended, Some(Ended::Code(0)), "its state has changed, or it does not end");
    let counted = [ENTRIES, RETURNS, sessions::MATCHED].map(|index| sessions::value(&attachment, index));
    assert!(counted[0] > 0, "{counted:?}");
    assert_eq!(counted, [counted[0]; 3]);
    missed(&attachment) > 0
}

#[test]
fn the_state_of_a_program_is_its_own_in_every_mode_where_it_is_called_through() {
    state_stays_as_modes_change(false);
}

#[test]
fn the_state_of_a_program_is_its_own_in_every_mode_where_returns_are_replaced() {
    state_stays_as_modes_change(true);
}

/// More functions than one page has gates for.
const MANY: usize = 1200;

#[test]
fn the_gates_of_an_island_may_take_several_pages() {
    let functions: String = (0..MANY)
        .map(|n| format!("__attribute__((noinline)) long f{n}(long x) {{ __asm__ volatile(\"\" : \"+r\"(x)); return x * {n} + 1; }}\n"))
        .collect();
    let rows: String = (0..MANY).map(|n| format!("f{n}, ")).collect();
    let text = format!(
        "#include <stdio.h>\n{functions}static long (*const all[])(long) = {{{rows}}};
        int main(void) {{
            puts(\"ready\"); fflush(stdout);
            for (long x; scanf(\"%ld\", &x) == 1; puts(\"done\"), fflush(stdout))
                for (int i = 0; i < {MANY}; i++) if (all[i](x) != x * i + 1) return 1;
            return 0;
        }}"
    );
    let path = target::build("rails-many", Source::Text(&text), &["-O1"]);
    let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let binary = Binary::open(&path).unwrap();
    let names: Vec<String> = (0..MANY).map(|n| format!("f{n}")).collect();
    let functions: Vec<_> = names.iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    let mut attachment = arm_functions(Target::open(daemon.pid() as i32).unwrap(), &functions).unwrap();
    assert_eq!(attachment.probes(), MANY);
    let mut check = |attachment: &Attachment, expected: usize, what: &str| {
        let before = count(attachment);
        daemon.write("3\n").unwrap();
        assert_eq!(daemon.line(DEADLINE).unwrap(), "done");
        assert_eq!(count(attachment) - before, expected as u64, "{what}");
    };
    check(&attachment, MANY, "armed");
    set_all(&mut attachment, Mode::Shut);
    check(&attachment, 0, "shut");
    let some: Vec<(usize, Mode)> =
        sites(&attachment).into_iter().step_by(3).map(|site| (site, Mode::Armed)).collect();
    attachment.set_modes(&some).unwrap();
    check(&attachment, MANY / 3, "a third");
    attachment.set_modes(&[(sites(&attachment)[1], Mode::Metered)]).unwrap();
    check(&attachment, MANY / 3 + 1, "and one more");
    let report = attachment.detach().unwrap();
    assert_eq!(report.restored, MANY);
    check(&attachment, 0, "detached");
    let left = restore::detach(daemon.pid() as i32).is_ok();
    assert!(report.left_mapped || !left, "something of weir's is left, and it was not said");
}
