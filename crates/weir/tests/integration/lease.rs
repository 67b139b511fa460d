//! Probes whose weir was killed are inert from that moment on: hits cost next to nothing, change nothing, and are gone
//! when the next weir detaches.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_rt::abi::HEADER_BYTES;
use weir_symbols::maps;

const DEADLINE: Duration = Duration::from_secs(120);

/// What a hit may cost then, in hundredths of a nanosecond: twice the 3 ns that are promised. A trap takes 500 times that.
const DEAD_HIT_MAX: u64 = 600;

/// Each line on standard input has it say what one call costs, in hundredths of a nanosecond: the least of many short rounds,
/// which other things that the machine does cannot make smaller.
const TIMED: &str = r#"
    #include <stdio.h>
    #include <time.h>
    __attribute__((noinline)) long work(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
    int main(void) {
        char line[16];
        puts("ready"); fflush(stdout);
        while (fgets(line, sizeof line, stdin)) {
            long least = 1L << 60, x = 0;
            for (int round = 0; round < 4000; round++) {
                long start = now();
                for (int i = 0; i < 4000; i++) x = work(x);
                long took = now() - start;
                if (took < least) least = took;
            }
            printf("%ld\n", least * 100 / 4000 + (x == 7)); fflush(stdout);
        }
        return 0;
    }
"#;

struct Timed {
    daemon: Daemon,
    path: PathBuf,
}

impl Timed {
    fn start() -> Timed {
        let path = target::build("lease-timed", Source::Text(TIMED), &["-O2"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Timed { daemon, path }
    }

    fn cost(&mut self) -> u64 {
        self.daemon.write("\n").unwrap();
        self.daemon.line(DEADLINE).unwrap().parse().unwrap()
    }

    /// Traced by a weir whose probes are armed.
    fn traced(&mut self, probe: &str) -> Daemon {
        let pid = self.daemon.pid();
        let script = format!("{probe}:{}:work {{ @ = count(); }}", quoted(&self.path));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["trace", "-e", &script, "-p", &pid.to_string()]);
        let weir = Daemon::spawn(command).unwrap();
        let mut counts = || {
            let before = shared(pid);
            self.cost();
            shared(pid) != before
        };
        // Twice: what it is patched with is shared too.
        assert!(wait::until(DEADLINE, || counts() && counts()), "its hits are not counted");
        weir
    }
}

/// All that the process shares with weir, but code and the headers, where weir keeps a clock.
fn shared(pid: u32) -> Vec<u8> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for mapping in maps::read(pid).unwrap() {
        if mapping.path.starts_with("/memfd:weir-") && mapping.write {
            let start = mapping.start.0 + HEADER_BYTES as u64;
            let mut bytes = vec![0; (mapping.end.0 - start) as usize];
            memory.read_exact_at(&mut bytes, start).unwrap();
            all.extend(bytes);
        }
    }
    all
}

#[track_caller]
fn check(probe: &str) {
    let mut timed = Timed::start();
    let pid = timed.daemon.pid();
    let unprobed = timed.cost();
    let weir = timed.traced(probe);
    let probed = timed.cost();
    weir.signal(Signal::SIGKILL).unwrap();
    weir.finish(DEADLINE).unwrap();
    let before = shared(pid);
    let dead = (0..5).map(|_| timed.cost()).min().unwrap();
    assert!(shared(pid) == before, "{probe}: hits change what weir shared with it");
    println!("{probe}: {unprobed} unprobed, {probed} probed, {dead} after its weir was killed (1/100 ns)");
    assert!(dead <= unprobed + DEAD_HIT_MAX, "{probe}: {unprobed} unprobed, {probed} probed, {dead} dead");
    let detach =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(["detach", "-p", &pid.to_string()]).output().unwrap();
    assert!(detach.status.success(), "{detach:?}");
    let mappings = maps::read(pid).unwrap();
    assert!(!mappings.iter().any(|mapping| mapping.path.starts_with("/memfd:weir")), "{detach:?}");
    timed.cost();
}

#[test]
fn hits_of_a_killed_weir_cost_next_to_nothing() {
    check("uprobe");
}

#[test]
fn returns_of_a_killed_weir_cost_next_to_nothing() {
    check("uretprobe");
}
