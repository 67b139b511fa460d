//! What the tests of this folder share: a program that starts others and knows when it is probed, and weir beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, daemon};

/// Also for hundreds of processes at once, on a machine that has other things to do.
pub(crate) const DEADLINE: Duration = Duration::from_secs(400);

/// A program that does the steps of its arguments, one letter each, `work` being the probed function:
///
/// - `w N` waits until it has a segment of weir's that it had not before, and then until its probes run; says `unprobed` after
///   N seconds, and ends;
/// - `c N` calls `work` N times and says so; `q N` the same, silently;
/// - `f N`, `v N`, `s N`, `k N`: starts N children with fork, vfork and exec, posix_spawn, or clone without a copy of the
///   memory, which do the steps up to `.`; what stands behind that is the parent's own;
/// - `W` waits for all children; `z N` sleeps N milliseconds; `t N` starts and joins N threads that call `work` once each;
/// - `x` executes the program again with the steps that follow; `r N` does so N times before it goes on;
/// - `e` executes a shell that reads a line; `p` says its process id; `l` reads a line.
const OBEDIENT: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <sched.h>
    #include <spawn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/uio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    extern char **environ;
    static char *self, *line[4096];
    static unsigned long before;
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static void calls(long n) { for (long i = 0; i < n; i++) if (work(i) != (int)i * 3 + 1) { puts("WRONG"); exit(9); } }
    static void *once(void *unused) { calls(1); return 0; }
    /* What weir may unmap meanwhile is read by the kernel: 0 then. */
    static unsigned long word_at(unsigned long at, size_t bytes) {
        unsigned long word = 0; struct iovec to = { &word, bytes }, from = { (void *)at, bytes };
        return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (long)bytes ? word : 0;
    }
    /* The process's own segment, by its inode, and where it is mapped: TARGET_PID of docs/segment.md is the process. What it has inherited
       may stay beside it. (In a pid namespace the number is another: there it is the last one.) */
    static unsigned long header;
    static unsigned long segment(void) {
        char text[512]; unsigned long found = 0, inode, start, offset; int is_own = 0; FILE *maps = fopen("/proc/self/maps", "r");
        while (fgets(text, sizeof text, maps))
            if (strstr(text, "/memfd:weir-segment") && sscanf(text, "%lx-%*x %*s %lx %*s %lu", &start, &offset, &inode) == 3 && offset == 0 && !is_own) {
                is_own = word_at(start + 88, 4) == (unsigned long)getpid();
                header = start;
                found = inode;
            }
        fclose(maps);
        return found;
    }
    /* PLACE_GATE of docs/segment.md: the first gate leads to a word that is not 0 once hits run. Hits that are timed run where it leads to SHUT,
       by HOW of the meter beside the journal's entry: weir times where it has seen no hit yet. */
    static int is_open(void) {
        unsigned long gates = word_at(header + 264, 8), gate = gates ? word_at(gates, 8) : 0;
        unsigned long journal = word_at(header + 48, 8), entries = word_at(header + 56, 4), at;
        unsigned long meters = (journal + 64 * entries + 4095) & ~4095ul;
        if (gate && word_at(gate, 2)) return 1;
        for (unsigned long i = 0; i < entries && (at = word_at(header + journal + 64 * i, 8)); i++)
            if (at - (unsigned long)work < 16) return (int)word_at(header + meters + 64 * i, 4) > 0;
        return 0;
    }
    /* A jump stands at its beginning, or behind an endbr64. */
    static int is_patched(void) {
        const volatile unsigned char *at = (const void *)work;
        at += at[0] == 0xf3 ? 4 : 0;
        return *at == 0xe9 || *at == 0xeb;
    }
    static void await(long seconds) {
        /* A pause twice as long each time, up to a sixth of a second: hundreds of children that look do not take the CPUs from weir. */
        for (long waited = 0, pause = 5000; waited < seconds * 1000000; waited += pause, pause = pause < 160000 ? 2 * pause : pause) {
            unsigned long now = segment();
            /* What a parent had here was put back before the segment came. The gate is opened a moment after the jump. */
            if (now && now != before && is_patched() && is_open()) { before = now; return; }
            /* Between two looks: the verdict does not depend on it. */
            usleep(pause);
        }
        printf("unprobed %d\n", getpid());
        exit(0);
    }
    /* The steps up to the `.` that ends them; returns what follows it. */
    static char **own(char **steps) { int n = 0; while (*steps && strcmp(*steps, ".")) line[++n] = *steps++; line[0] = self; line[n + 1] = 0; return *steps ? steps + 1 : steps; }
    static void run(char **steps);
    static int shares(void *steps) { run(steps); _exit(0); }
    static char **start(char how, long n, char **steps) {
        char **rest = own(steps);
        fflush(stdout);
        /* A child that is forked has this one at first. */
        if (how == 'f') before = segment();
        for (long i = 0; i < n; i++) {
            pid_t pid = 0;
            switch (how) {
            case 'f': if (!fork()) { char *mine[4096]; memcpy(mine, line, sizeof mine); run(mine + 1); exit(0); } break;
            case 'v': if (!vfork()) { execv(self, line); _exit(1); } break;
            case 's': if (posix_spawn(&pid, self, 0, 0, line, environ)) puts("WRONG"); break;
            case 'k': { char *stack = malloc(1 << 18), **mine = malloc(sizeof line); memcpy(mine, line, sizeof line);
                clone(shares, stack + (1 << 18), CLONE_VM | SIGCHLD, mine + 1); break; }
            }
        }
        return rest;
    }
    static void run(char **steps) {
        while (*steps) {
            char step = **steps++; long n = 0;
            if (strchr("wcqfvskztr", step)) n = atol(*steps++);
            switch (step) {
            case 'w': await(n); break;
            case 'c': calls(n); printf("calls %d %ld\n", getpid(), n); break;
            case 'q': calls(n); break;
            case 'f': case 'v': case 's': case 'k': steps = start(step, n, steps); break;
            case 'W': while (wait(0) > 0); break;
            /* A moment like any other: the verdict does not depend on it. */
            case 'z': usleep(n * 1000); break;
            case 't': for (long i = 0; i < n; i++) { pthread_t thread; pthread_create(&thread, 0, once, 0); pthread_join(thread, 0); } break;
            case 'r': if (n == 0) break; /* else: executes itself, once less */
                { static char number[24]; sprintf(number, "%ld", n - 1); line[0] = self; line[1] = "q"; line[2] = "10"; line[3] = "r"; line[4] = number;
                  int i = 5; while (*steps) line[i++] = *steps++; line[i] = 0; execv(self, line); _exit(1); }
            case 'x': { int i = 1; line[0] = self; while (*steps) line[i++] = *steps++; line[i] = 0; fflush(stdout); execv(self, line); _exit(1); }
            case 'e': fflush(stdout); execlp("sh", "sh", "-c", "read line; echo echoed", (char *)0); _exit(1);
            case 'p': printf("pid %d\n", getpid()); break;
            case 'l': { char text[64]; if (!fgets(text, sizeof text, stdin)) exit(0); break; }
            }
            if (step != 'q') fflush(stdout);
        }
    }
    int main(int count, char **arguments) {
        alarm(600);
        static char path[4096]; self = readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : arguments[0];
        setvbuf(stdout, 0, _IOLBF, 0);
        run(arguments + 1);
        return 0;
    }
"#;

/// The program under a name of its own, which tests that run beside each other do not share.
pub(crate) fn obedient(name: &str) -> PathBuf {
    target::build(name, Source::Text(OBEDIENT), &["-O2", "-pthread", "-w"])
}

pub(crate) fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// Counts calls of `work` by process.
pub(crate) fn counting(path: &Path) -> String {
    format!("uprobe:{}:work {{ @calls[pid] = count(); }}", quoted(path))
}

/// What a run has said, in JSON.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) lines: Vec<Value>,
    /// What the target said: lines that are no JSON.
    pub(crate) said: Vec<String>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn of(ended: &daemon::Ended) -> Run {
        let (json, said): (Vec<&str>, Vec<&str>) =
            ended.stdout.lines().partition(|line| line.starts_with('{'));
        let lines = json.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said = said.into_iter().map(str::to_owned).collect();
        Run { lines, said, stderr: ended.stderr.clone() }
    }

    pub(crate) fn data(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["type"] == kind).map(|line| &line["data"])
    }

    /// Calls by process, as weir has counted them.
    pub(crate) fn counted(&self) -> BTreeMap<i64, i64> {
        let maps = self.data("map").filter_map(|data| data["@calls"].as_object());
        maps.flatten().map(|(pid, count)| (pid.parse().unwrap(), count.as_i64().unwrap())).collect()
    }

    /// Calls by process, as the target says. A process says it once for each program that it executes.
    pub(crate) fn said(&self) -> BTreeMap<i64, i64> {
        let mut said = BTreeMap::new();
        for line in self.said.iter().filter_map(|line| line.strip_prefix("calls ")) {
            let (pid, count) = line.split_once(' ').unwrap();
            *said.entry(pid.parse().unwrap()).or_default() += count.parse::<i64>().unwrap();
        }
        said
    }

    /// The lines of processes: number, how it came, whether it was traced.
    pub(crate) fn processes(&self) -> Vec<(i64, String, bool)> {
        let line = |data: &Value| {
            let how = data["how"].as_str().unwrap().to_owned();
            (data["pid"].as_i64().unwrap(), how, data["probes"].is_number())
        };
        self.data("process").map(line).collect()
    }

    pub(crate) fn counts(&self) -> &Value {
        &self.data("summary").next().expect("a summary")["processes"]
    }

    #[track_caller]
    pub(crate) fn check_exact(&self) {
        assert!(
            !self.said.iter().any(|line| line.contains("WRONG") || line.starts_with("unprobed")),
            "{self:?}"
        );
        assert_eq!(self.counted(), self.said(), "{self:?}");
    }
}

/// Runs `weir trace -f json` on the script with these arguments, to its end.
#[track_caller]
pub(crate) fn trace(script: &str, arguments: &[&str]) -> Run {
    let mut weir = weir();
    weir.args(["trace", "-f", "json", "-e", script]).args(arguments);
    let ended = Daemon::spawn(weir).unwrap().finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    Run::of(&ended)
}
