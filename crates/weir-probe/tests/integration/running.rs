//! A program that says when it is ready and at its end what it saw, attached to and detached from meanwhile.

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::{Attachment, Error, Report, Target, limits};

use crate::counting::{arm, count};

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// What every program here begins with. `work` is what gets probed; `shared` outlives fork.
const PRELUDE: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <linux/futex.h>
    #include <poll.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <spawn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/epoll.h>
    #include <sys/mman.h>
    #include <sys/select.h>
    #include <sys/syscall.h>
    #include <sys/time.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    #define CHECK(c) do { if (!(c)) { dprintf(1, "line %d: %s, errno %d\n", __LINE__, #c, errno); _exit(9); } } while (0)
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static volatile int stop;
    static long now_us(void) {
        struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000 + t.tv_nsec / 1000;
    }
    static void *pages(long bytes) {
        void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED);
        return at;
    }
    // What a program's verdict is about has happened often enough: the test goes on until it has.
    static void enough(long done, long least) { if (done == least) dprintf(1, "enough\n"); }
    static void begin(void) { alarm(600); setvbuf(stdout, 0, _IOLBF, 0); puts("ready"); }
"#;

/// A running program: `source` behind the prelude.
pub(crate) struct Running {
    pub(crate) daemon: Daemon,
    pub(crate) path: PathBuf,
}

impl Running {
    pub(crate) fn start(name: &str, source: &str, arguments: &[&str]) -> Running {
        let text = format!("{PRELUDE}{source}");
        let path = target::build(name, Source::Text(&text), &["-O2", "-pthread", "-w"]);
        let mut command = Command::new(&path);
        command.args(arguments);
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Running { daemon, path }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.daemon.pid() as i32
    }

    /// Attaches. Where others want the processors too, not all threads may come to their stop in time, or to another stack
    /// while that is waited for: then nothing is attached, and it is asked again.
    pub(crate) fn attach(&self) -> Attachment {
        let attach = || {
            let start = Instant::now();
            match arm(Target::open(self.pid()).unwrap(), &self.path, &["work"]) {
                Err(Error::StopTimeout { .. }) => None,
                Err(Error::NoStack { .. }) => {
                    let least = limits::REMOTE_PAUSE * (limits::REMOTE_TRIES_MAX - 1);
                    assert!(start.elapsed() >= least, "it was waited for {:?}", start.elapsed());
                    None
                }
                attached => Some(attached.unwrap()),
            }
        };
        let attachment = wait::until_some(DEADLINE, attach).expect("it cannot be attached to");
        assert_eq!(attachment.probes(), 1, "{:?}", attachment.outcomes());
        attachment
    }

    /// Attaches, lets it run, detaches.
    pub(crate) fn cycle(&self, run: Duration) -> (u64, Report) {
        let mut attachment = self.attach();
        // Any moment will do to detach: the verdict does not depend on it.
        sleep(run);
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, report.foreign.len(), report.replaced), (1, 0, false));
        (count(&attachment), report)
    }

    /// `times` cycles; the sum of what was counted.
    pub(crate) fn cycles(&self, times: usize, run: Duration) -> u64 {
        (0..times)
            .map(|_| {
                let (count, _) = self.cycle(run);
                // Any moment will do to attach: the verdict does not depend on it.
                sleep(run);
                count
            })
            .sum()
    }

    /// `times` cycles, and more until something was counted in one.
    pub(crate) fn cycles_that_count(&self, times: usize, run: Duration) {
        let mut counted = self.cycles(times, run);
        let is_counted = || {
            counted += if counted == 0 { self.cycle(run).0 } else { 0 };
            counted > 0
        };
        assert!(wait::until(DEADLINE, is_counted), "nothing is counted");
    }

    /// More cycles until the program says that it has done enough.
    pub(crate) fn cycles_until_enough(&mut self, run: Duration) {
        let end = Instant::now() + DEADLINE;
        while let Err(error) = self.daemon.line_with("enough", Duration::ZERO) {
            assert!(Instant::now() < end && self.daemon.is_running(), "{error:#}");
            self.cycles(1, run);
        }
    }

    /// Closes its input, and takes its last line.
    pub(crate) fn end(mut self) -> String {
        self.daemon.close_stdin();
        let ended = self.daemon.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{}: {}{}", ended.status, ended.stdout, ended.stderr);
        ended.stdout.lines().last().unwrap_or_default().to_owned()
    }
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
