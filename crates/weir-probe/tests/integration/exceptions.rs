//! Exceptions, ends of threads and backtraces pass functions whose returns are probed.
//!
//! Every program runs unprobed and in each way of catching returns; what it says and how it ends must be the same, and
//! calls and returns are counted exactly.

use crate::counting;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::SigSet;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::launch::Ended;
use weir_probe::{Launched, Refusal, Returns, Target, When};
use weir_symbols::Binary;

use crate::counting::{ENTRIES, RETURNS, arm_on, arm_sessions, count_of};

/// How returns are caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// As planned: nothing here uses arguments on the stack, unless it says so.
    Planned,
    Replaced,
}

const WAYS: [Way; 2] = [Way::Planned, Way::Replaced];

fn choose(way: Way) -> impl Fn(Result<Returns, Refusal>) -> Result<Returns, Refusal> {
    move |planned| match way {
        Way::Planned => planned,
        Way::Replaced => planned.map(|_| Returns::Replace),
    }
}

/// What a program said, how it ended, and calls and returns that were counted.
#[derive(Debug)]
struct Seen {
    said: String,
    ended: String,
    calls: u64,
    returns: u64,
}

fn out_of(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("{}.{}-{number}.out", path.display(), std::process::id()))
}

fn take(out: &Path) -> String {
    let said = std::fs::read_to_string(out).unwrap_or_default();
    let _ = std::fs::remove_file(out);
    said
}

fn unprobed(path: &Path) -> (String, String) {
    let out = out_of(path);
    let status = Command::new(path).arg(&out).stderr(Stdio::null()).status().unwrap();
    let ended = match std::os::unix::process::ExitStatusExt::signal(&status) {
        Some(signal) => Ended::Signal(nix::sys::signal::Signal::try_from(signal).unwrap()),
        None => Ended::Code(status.code().unwrap()),
    };
    (take(&out), format!("{ended:?}"))
}

fn probed(path: &Path, names: &[&str], way: Way) -> Seen {
    let out = out_of(path);
    let command = [path.display().to_string(), out.display().to_string()];
    let (mut launched, exec) = Launched::start(&command, None, SigSet::empty()).unwrap();
    let target = exec.into_target(Some(&[Binary::open(path).unwrap().identity().unwrap()])).unwrap();
    let attachment = arm_sessions(target, path, names, choose(way));
    assert_eq!(attachment.probes(), names.len(), "{way:?}: {:?}", attachment.outcomes());
    let mut ended = None;
    let ends = wait::until(Duration::from_secs(120), || {
        ended = launched.try_wait();
        ended.is_some()
    });
    assert!(ends, "{way:?}: {} does not end", path.display());
    Seen {
        said: take(&out),
        ended: format!("{:?}", ended.unwrap()),
        calls: count_of(&attachment, ENTRIES),
        returns: count_of(&attachment, RETURNS),
    }
}

/// Runs it in every way; `calls` and `returns` are what must be counted.
fn check(path: &Path, names: &[&str], calls: u64, returns: u64) {
    let (said, ended) = unprobed(path);
    for way in WAYS {
        let seen = probed(path, names, way);
        assert_eq!((&seen.said, &seen.ended), (&said, &ended), "{way:?} {}", path.display());
        assert_eq!((seen.calls, seen.returns), (calls, returns), "{way:?} {}", path.display());
    }
}

const PRELUDE: &str = r#"
    #include <cstdio>
    #include <cstdlib>
    #include <exception>
    #include <stdexcept>
    #include <string>
    #ifdef __clang__
    #define PROBED extern "C" __attribute__((noinline))
    #else
    #define PROBED extern "C" __attribute__((noipa))
    #endif
    static FILE *out;
    struct Guard { int n; Guard(int n) : n(n) {} ~Guard() { if (out) fprintf(out, "~%d ", n); } };
    static void begin(char **argv) { out = fopen(argv[1], "w"); }
"#;

/// The same C++ by every compiler, dynamic and static, with two levels of optimisation.
fn check_cpp(name: &str, body: &str, names: &[&str], calls: u64, returns: u64) {
    let text = format!("{PRELUDE}{body}");
    for compiler in ["g++", "clang++"] {
        if !target::is_installed(compiler) {
            testkit::skip::skip(if compiler == "g++" { "gcc" } else { "clang" }, "no C++ compiler");
            continue;
        }
        for flags in [&["-O2"][..], &["-O0"], &["-O2", "-static"], &["-O2", "-static-libgcc"]] {
            let flags = [flags, &["-pthread", "-x", "c++"]].concat();
            let path = target::build_with(compiler, name, Source::Text(&text), &flags);
            check(&path, names, calls, returns);
        }
    }
}

const THROWS: &str = r#"
    static volatile int depth_max = 20;
    PROBED int leaf(int n) { Guard g(n); if (n % 3 == 0) throw std::runtime_error("leaf " + std::to_string(n)); return n * 2; }
    PROBED int middle(int n) { Guard g(-n); int r = leaf(n) + 1; __asm__ volatile("" : "+r"(r)); return r; }
    PROBED int deep(int d, int n) { if (d == 0) return middle(n); Guard g(1000 + d); int r = deep(d - 1, n); __asm__ volatile("" : "+r"(r)); return r + 1; }
    int main(int argc, char **argv) {
        begin(argv);
        for (int i = 0; i < 30; i++) {
            try { fprintf(out, "%d\n", deep(depth_max, i)); } catch (std::exception &e) { fprintf(out, "caught %s\n", e.what()); }
        }
        fclose(out);
        return 0;
    }
"#;

#[test]
fn exceptions_are_caught_where_they_were() {
    // Of 30 rounds 20 return: from leaf, from middle and from 21 calls of deep.
    check_cpp("throws", THROWS, &["leaf", "middle", "deep"], 30 * 23, 20 * 23);
}

const RETHROWS: &str = r#"
    PROBED int thrower(int n) { if (n & 1) throw n; return n; }
    PROBED int rethrower(int n) {
        try { Guard g(n); int r = thrower(n); __asm__ volatile("" : "+r"(r)); return r; }
        catch (int) { fprintf(out, "again "); throw; }
    }
    PROBED int nests(int n) {
        try { int r = rethrower(n); __asm__ volatile("" : "+r"(r)); return r; }
        catch (int m) { try { throw std::string("other"); } catch (std::string &s) { fprintf(out, "%s ", s.c_str()); } throw m + 100; }
    }
    int main(int argc, char **argv) {
        begin(argv);
        for (int i = 0; i < 10; i++) { try { fprintf(out, "%d\n", nests(i)); } catch (int m) { fprintf(out, "caught %d\n", m); } }
        std::exception_ptr kept;
        try { rethrower(7); } catch (...) { kept = std::current_exception(); }
        try { std::rethrow_exception(kept); } catch (int m) { fprintf(out, "kept %d\n", m); }
        fclose(out);
        return 0;
    }
"#;

#[test]
fn exceptions_are_thrown_again() {
    check_cpp("rethrows", RETHROWS, &["thrower", "rethrower", "nests"], 32, 15);
}

const TERMINATES: &str = r#"
    PROBED int inner(int n) { if (n) throw n; return 1; }
    PROBED int guarded(int n) noexcept { int r = inner(n); __asm__ volatile("" : "+r"(r)); return r; }
    int main(int argc, char **argv) {
        begin(argv);
        std::set_terminate([] { fprintf(out, "terminated\n"); fclose(out); _Exit(7); });
        fprintf(out, "%d\n", guarded(0));
        try { guarded(5); } catch (...) { fprintf(out, "not reached\n"); }
        fclose(out);
        return 0;
    }
"#;

#[test]
fn what_may_not_throw_terminates() {
    check_cpp("terminates", TERMINATES, &["inner", "guarded"], 4, 2);
}

const UNCAUGHT: &str = r#"
    PROBED int thrower(int n) { Guard g(n); if (n) throw n; return 1; }
    int main(int argc, char **argv) {
        begin(argv);
        fprintf(out, "%d\n", thrower(0)); fflush(out);
        return thrower(5);
    }
"#;

#[test]
fn what_nobody_catches_aborts_with_its_stack() {
    check_cpp("uncaught", UNCAUGHT, &["thrower"], 2, 1);
}

const STATICS: &str = r#"
    static int tries;
    PROBED int initial(int n) { if (tries++ < 2) throw n; return 42; }
    PROBED int use(int n) { static int value = initial(n); return value + n; }
    int main(int argc, char **argv) {
        begin(argv);
        for (int i = 0; i < 4; i++) { try { fprintf(out, "%d\n", use(i)); } catch (int m) { fprintf(out, "caught %d\n", m); } }
        fclose(out);
        return 0;
    }
"#;

#[test]
fn a_static_initialiser_throws_and_is_tried_again() {
    check_cpp("statics", STATICS, &["initial", "use"], 7, 3);
}

const THREADS: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    struct Slot { int n; ~Slot() { __atomic_fetch_add(&n, 0, __ATOMIC_SEQ_CST); } };
    static int destroyed, cleaned, started, specific;
    struct Counted { ~Counted() { __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST); } };
    static void clean(void *) { __atomic_fetch_add(&cleaned, 1, __ATOMIC_SEQ_CST); }
    static void forget(void *) { __atomic_fetch_add(&specific, 1, __ATOMIC_SEQ_CST); }
    static pthread_key_t key;
    PROBED int sleeper(int n) { Counted c; __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST); for (;;) pause(); return n; }
    PROBED int outer(int n) { Counted c; pthread_cleanup_push(clean, 0); n += sleeper(n); pthread_cleanup_pop(0); return n; }
    PROBED int exits(int n) { Counted c; if (n > 3) pthread_exit((void *)5); return n; }
    PROBED int counts(int n) { Counted c; int r = exits(n) + 1; __asm__ volatile("" : "+r"(r)); return r; }
    static void *cancelled(void *) { pthread_setspecific(key, &key); return (void *)(long)outer(1); }
    static void *exiting(void *) { pthread_setspecific(key, &key); for (int i = 0;; i++) counts(i); return 0; }
    int main(int argc, char **argv) {
        begin(argv);
        pthread_key_create(&key, forget);
        for (int i = 0; i < 20; i++) {
            pthread_t thread; void *result;
            pthread_create(&thread, 0, cancelled, 0);
            // Between two looks: the verdict does not depend on it.
            while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) <= i) usleep(100);
            pthread_cancel(thread); pthread_join(thread, &result);
            fprintf(out, "%d ", result == PTHREAD_CANCELED);
            pthread_create(&thread, 0, exiting, 0); pthread_join(thread, &result);
            fprintf(out, "%ld ", (long)result);
        }
        fprintf(out, "%d %d %d\n", destroyed, cleaned, specific);
        fclose(out);
        return 0;
    }
"#;

#[test]
fn cancelled_and_exiting_threads_run_their_destructors() {
    // Each round: outer and sleeper never return; counts and exits do four times of five.
    check_cpp("threads", THREADS, &["sleeper", "outer", "exits", "counts"], 20 * 12, 20 * 8);
}

const PANICS: &str = r#"
    use std::io::Write;
    struct Guard(i32);
    impl Drop for Guard { fn drop(&mut self) { NOTES.lock().unwrap_or_else(|e| e.into_inner()).push(self.0); } }
    static NOTES: std::sync::Mutex<Vec<i32>> = std::sync::Mutex::new(Vec::new());
    #[unsafe(no_mangle)] #[inline(never)] pub extern "C-unwind" fn leaf(n: i32) -> i32 {
        let _guard = Guard(n); if n % 3 == 0 { panic!("{n}") } n * 2
    }
    #[unsafe(no_mangle)] #[inline(never)] pub extern "C-unwind" fn middle(n: i32) -> i32 {
        let _guard = Guard(-n); std::hint::black_box(leaf(n)) + 1
    }
    fn main() {
        let mut out = std::fs::File::create(std::env::args().nth(1).unwrap()).unwrap();
        std::panic::set_hook(Box::new(|_| {}));
        for i in 0..12 {
            match std::panic::catch_unwind(|| middle(i)) {
                Ok(value) => writeln!(out, "{value}").unwrap(),
                Err(what) => writeln!(out, "caught {}", what.downcast_ref::<String>().unwrap()).unwrap(),
            }
        }
        writeln!(out, "{:?}", NOTES.lock().unwrap()).unwrap();
    }
"#;

#[test]
fn rust_panics_pass() {
    if !target::is_installed("rustc") {
        return testkit::skip::skip("rustc", "panics of Rust are not tested");
    }
    for level in ["-Copt-level=0", "-Copt-level=3"] {
        let flags = [level, "--edition=2024", "--crate-type=bin"];
        let path = target::build_with("rustc", "panics", Source::Text(PANICS), &flags);
        check(&path, &["leaf", "middle"], 24, 16);
    }
}

/// Asks for a backtrace for the first time, and so loads its unwinder, when a line comes in.
const BACKTRACES: &str = r#"
    #include <execinfo.h>
    #include <stdio.h>
    #include <string.h>
    __attribute__((noinline)) int leaf(int n) {
        void *at[64]; int count = backtrace(at, 64);
        char **names = backtrace_symbols(at, count);
        for (int i = 0; i < count; i++) {
            char *open = strchr(names[i], '('), *plus = open ? strchr(open, '+') : 0;
            if (plus && plus > open + 1) printf("%.*s ", (int)(plus - open - 1), open + 1);
            else printf("%s ", open ? "local" : "foreign");
        }
        puts(""); fflush(stdout);
        return count + n;
    }
    __attribute__((noinline)) int middle(int n) { int r = leaf(n); __asm__ volatile("" : "+r"(r)); return r + 1; }
    __attribute__((noinline)) int outer(int n) { int r = middle(n); __asm__ volatile("" : "+r"(r)); return r + 1; }
    int main(void) {
        char line[64];
        puts("ready"); fflush(stdout);
        while (fgets(line, sizeof line, stdin)) outer(1);
        return 0;
    }
"#;

fn backtrace_of(path: &Path, way: Option<Way>) -> String {
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line_with("ready", Duration::from_secs(120)).unwrap();
    let mut attachment = way.map(|way| {
        let target = Target::open(daemon.pid() as i32).unwrap();
        let attachment = arm_sessions(target, path, &["middle", "leaf"], choose(way));
        assert_eq!(attachment.probes(), 2, "{way:?}: {:?}", attachment.outcomes());
        attachment
    });
    daemon.write("go\n").unwrap();
    let line = daemon.line_with("leaf", Duration::from_secs(120)).unwrap();
    if let Some(attachment) = &mut attachment {
        // It says so before it returns.
        assert!(wait::until(Duration::from_secs(120), || count_of(attachment, RETURNS) == 2));
        let report = attachment.detach().unwrap();
        assert_eq!((report.restored, report.foreign.len()), (2, 0), "{report:?}");
        daemon.write("go\n").unwrap();
        let again = daemon.line_with("leaf", Duration::from_secs(120)).unwrap();
        assert!(!again.contains("foreign"), "{again}");
    }
    line
}

#[test]
fn a_backtrace_is_the_same_but_for_a_frame_behind_each_probed_function() {
    let path = target::build(
        "backtraces",
        Source::Text(BACKTRACES),
        &["-O1", "-rdynamic", "-fno-omit-frame-pointer"],
    );
    let plain = backtrace_of(&path, None);
    assert!(plain.starts_with("leaf middle outer main "), "{plain}");
    for way in WAYS {
        let seen = backtrace_of(&path, Some(way));
        assert_eq!(seen, plain.replace("leaf middle outer", "leaf foreign middle foreign outer"), "{way:?}");
    }
}

#[test]
fn programs_with_unknown_unwinders_are_left_alone() {
    let text = format!("{PRELUDE}{THROWS}");
    let build = |name: &str, more: &[&str]| {
        let flags = [&["-O2", "-static", "-x", "c++"], more].concat();
        target::build_with("g++", name, Source::Text(&text), &flags)
    };
    // The same program, which says nothing of itself.
    let (named, stripped) = (build("throws-named", &[]), build("throws-stripped", &["-s"]));
    let (named, binary) = (Binary::open(&named).unwrap(), Binary::open(&stripped).unwrap());
    let functions = [(&binary, named.find("leaf").unwrap()[0])];
    let out = out_of(&stripped);
    let command = [stripped.display().to_string(), out.display().to_string()];
    for when in [When::Session, When::EntryAndReturn] {
        let (mut launched, exec) = Launched::start(&command, None, SigSet::empty()).unwrap();
        let target = exec.into_target(Some(&[binary.identity().unwrap()])).unwrap();
        let attachment = arm_on(target, &functions, when, |_| Ok(Returns::Replace));
        match (when, &attachment.outcomes()[0]) {
            (When::Session, Err(refusal)) => assert_eq!(refusal.code(), "unwinder-unknown"),
            // Only its entry is probed.
            (When::EntryAndReturn, Ok(patched)) => {
                assert_eq!(patched.returns_refused.as_ref().unwrap().code(), "unwinder-unknown");
            }
            (_, outcome) => panic!("{when:?}: {outcome:?}"),
        }
        assert!(wait::until(Duration::from_secs(120), || launched.try_wait().is_some()));
        let (entries, returns) = (count_of(&attachment, ENTRIES), count_of(&attachment, RETURNS));
        assert_eq!((entries > 0, returns), (when == When::EntryAndReturn, 0));
        assert_eq!(take(&out), unprobed(&stripped).0, "{when:?}");
    }
}

/// Throws what it is told, through two functions, each time that it is told something.
const TOLD: &str = r#"
    #include <unistd.h>
    PROBED int inner(int n) { Guard g(n); char c; if (read(0, &c, 1) != 1) exit(7); if (c != '.') throw n + c; return n; }
    PROBED int outer(int n) { Guard g(-n); int r = inner(n + 1); __asm__ volatile("" : "+r"(r)); return r + 1; }
    int main() {
        setvbuf(stdout, 0, _IOLBF, 0);
        alarm(600);
        puts("ready");
        for (;;) { try { printf("returned %d\n", outer(10)); } catch (int got) { printf("caught %d\n", got); } }
    }
"#;

struct Told {
    daemon: Daemon,
    path: PathBuf,
}

impl Told {
    /// None, told, where there is no compiler.
    fn start() -> Option<Told> {
        if !target::is_installed("g++") {
            testkit::skip::skip("gcc", "no C++ compiler");
            return None;
        }
        let text = format!("{PRELUDE}{TOLD}");
        let path = target::build_with("g++", "exceptions-told", Source::Text(&text), &["-O2", "-x", "c++"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Some(Told { daemon, path })
    }

    fn attach(&self, way: Way) -> weir_probe::Attachment {
        let target = Target::open(self.daemon.pid() as i32).unwrap();
        let attachment = arm_sessions(target, &self.path, &["inner", "outer"], choose(way));
        assert_eq!(attachment.probes(), 2, "{way:?}: {:?}", attachment.outcomes());
        attachment
    }

    /// The call that waits throws, and the next one waits; or it returns.
    fn tell(&mut self, what: &str, answer: &str) {
        self.daemon.write(what).unwrap();
        assert_eq!(self.daemon.line(DEADLINE).unwrap(), answer);
    }

    fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.daemon.pid())).unwrap()
    }

    fn end(self) {
        assert_eq!(self.daemon.finish(DEADLINE).unwrap().status.code(), Some(7));
    }
}

const DEADLINE: Duration = Duration::from_secs(120);

/// Its hooks stand until no call is on its way any more: those of the next controller are asked before them.
#[test]
fn exceptions_pass_frames_of_an_earlier_controller_beside_the_next_ones() {
    for way in WAYS {
        let Some(mut told) = Told::start() else { return };
        for turn in 0..4 {
            let mut attachment = told.attach(way);
            // Through frames of the one before, then through this one's.
            told.tell("A", "caught 76");
            told.tell("B", "caught 77");
            told.tell(".", "returned 12");
            // A call waits inside both, once they are entered.
            assert!(wait::until(DEADLINE, || count_of(&attachment, ENTRIES) >= 6), "{way:?} {turn}");
            let counted = [ENTRIES, RETURNS].map(|end| count_of(&attachment, end));
            assert_eq!(counted, [6, 2], "{way:?} {turn}");
            assert!(attachment.detach().unwrap().left_mapped, "{way:?} {turn}");
        }
        told.tell("C", "caught 78");
        let report = weir_probe::restore::detach(told.daemon.pid() as i32).unwrap();
        assert!(!report.left_mapped && report.foreign.is_empty(), "{way:?}: {report:?}");
        assert!(!told.maps().contains("memfd:weir"), "{}", told.maps());
        told.tell("D", "caught 79");
        told.end();
    }
}

/// The probe is gone, and what answers unwinders stays.
#[test]
fn a_probe_at_what_answers_unwinders_is_withdrawn() {
    let Some(mut told) = Told::start() else { return };
    let mut attachment = told.attach(Way::Planned);
    let mappings = weir_symbols::maps::read(told.daemon.pid()).unwrap();
    let answers = |mapping: &weir_symbols::maps::Mapping| {
        let binary =
            (mapping.execute && mapping.inode != 0).then(|| Binary::open(Path::new(&mapping.path)))?.ok()?;
        let (link, _) = binary.symbol_value("_dl_find_object")?;
        let function =
            *binary.find("_dl_find_object").ok()?.iter().find(|function| function.address == link)?;
        let function = function.clone();
        Some((binary, function))
    };
    let Some((binary, function)) = mappings.iter().find_map(answers) else {
        return testkit::skip::skip("find-object", "glibc is older than 2.35");
    };
    let window = &weir_probe::plan_functions(&[(&binary, &function)])[0];
    let programs = vec![weir_probe::Attach { executable: 0, cookie: 0, when: When::Entry }];
    let request = weir_probe::SiteRequest {
        binary: &binary,
        function: &function,
        window,
        called: None,
        semaphore: None,
        programs,
        returns: None,
    };
    // Where returns are counted, of which there are none at first.
    let mut executable = counting::counting(0);
    executable.relocations[0].addend = 8 * i64::from(RETURNS);
    let added = attachment.add(&[request], &[executable]).unwrap();
    let site = added.outcomes[0].as_ref().unwrap().site;
    told.tell("A", "caught 76");
    let asked = count_of(&attachment, RETURNS);
    assert!(asked > 0, "unwinders ask for each frame");
    attachment.withdraw(&[site]).unwrap();
    told.tell("B", "caught 77");
    assert_eq!(count_of(&attachment, RETURNS), asked, "what unwinders ask is not counted any more");
    assert_eq!(attachment.withdraw(&[site]).unwrap().restored, 0);
    told.tell("C", "caught 78");
    told.tell(".", "returned 12");
    attachment.detach().unwrap();
    told.end();
}
