//! What `weir record` writes is what the text of CTF 1.8 has: every type of field, contexts, several streams, discarded events, and
//! declarations that CTF has no names for.

use std::path::Path;
use std::process::Command;

use testkit::{ctf, paths, target};

use crate::recorded::emitters::{Place, weir};

/// Records a command; what weir said. The trace holds what it said, and nothing that the text does not have.
#[track_caller]
fn check(
    name: &str,
    options: &[&str],
    command: &[&str],
    events: Option<u64>,
    discards: bool,
) -> (Place, String) {
    let place = Place::new(name);
    let mut record = weir(["record", "-o"]);
    record.current_dir(paths::target().join("testkit"));
    let output = record.arg(place.trace()).args(options).arg("--").args(command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let counts = ctf::check_folder(&place.trace()).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(said.contains(&format!("weir: {} events recorded", counts.events)), "{counts:?}: {said}");
    let discarded =
        said.split_once(" discarded; ").and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
    assert_eq!(counts.discarded, discarded.unwrap_or(0), "{said}");
    assert_eq!((counts.discarded > 0, counts.lost_packets), (discards, 0), "{said}");
    assert!(events.is_none_or(|events| events == counts.events), "{counts:?}: {said}");
    (place, said)
}

fn include() -> [String; 2] {
    ["-I".to_owned(), paths::root().join("include").display().to_string()]
}

fn build(name: &str, source: &str, flags: &[&str]) -> String {
    let include = include();
    let flags: Vec<&str> = flags.iter().copied().chain(include.iter().map(String::as_str)).collect();
    target::build(name, target::Source::Text(source), &flags).display().to_string()
}

fn view(folder: &Path) -> Vec<String> {
    let output = weir(["view", "--no-delta"]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // [12:00:00.123456789] host odd:names: { cpu_id = 0 }, { … }
    let fields = |line: &str| line.split_once(" }, ").expect(line).1.to_owned();
    text.lines().map(fields).collect()
}

#[test]
fn every_type_of_field() {
    let program = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let program = program.display().to_string();
    check("strict-types", &["-e", "tp:*"], &[&program, "20"], None, false);
    let contexts = ["-e", "tp:*", "-t", "vpid,vtid,procname,cpu_id,vuid,ip"];
    check("strict-contexts", &contexts, &[&program, "20"], None, false);
}

/// Two threads, each on a CPU of its own where there are two: a ring of 32 KiB has not room for what one of them emits.
const ON_TWO_CPUS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include "weir/tracepoint.h"
static void *run(void *argument)
{
    long thread = (long)argument, turn = thread;
    cpu_set_t all, own;
    sched_getaffinity(0, sizeof all, &all);
    turn %= CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && turn-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(cpu, &own);
            pthread_setaffinity_np(pthread_self(), sizeof own, &own);
        }
    for (long n = 0; n < 200000; n++) {
        WEIR_TRACEPOINT(two, number, (long, thread, thread), (long, n, n));
        if (n % 3 == 0)
            WEIR_TRACEPOINT(two, text, (long, n, n), (string, a, n % 2 ? "odd" : "even"));
    }
    return 0;
}
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, run, (void *)1);
    run(0);
    return pthread_join(other, 0);
}
"#;

#[test]
fn several_streams_and_discarded_events() {
    let program = target::program("record").display().to_string();
    check(
        "strict-mixed",
        &["-e", "rec:*", "--size", "16M"],
        &[&program, "m", "8", "999"],
        Some(8 * 999),
        false,
    );
    check("strict-overload", &["-e", "rec:*", "--size", "32K"], &[&program, "m", "8", "30000"], None, true);
    let on_two = build("strict-streams", ON_TWO_CPUS, &["-O1", "-pthread"]);
    let (place, said) = check("strict-streams", &["-e", "two:*", "--size", "32K"], &[&on_two], None, true);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let streams = place.trace().read_dir().unwrap().count() - 1;
    assert!(streams >= cpus.min(2), "{streams} streams of {cpus} CPUs: {said}");
    check(
        "strict-nothing",
        &["-e", "rec:*", "--filter", "n < 0"],
        &[&program, "i", "1", "10"],
        Some(0),
        false,
    );
}

#[test]
fn functions_by_their_debug_information() {
    let source = "struct pair { int a; long b; };\n\
        __attribute__((noinline)) long sum(struct pair *of, const char *gr\u{f6}\u{df}e, double Bool, int int_) \
        { __asm__ volatile(\"\"); return of->a + gr\u{f6}\u{df}e[0] + (long)Bool + int_; }\n\
        int main(void) { struct pair p = {1, 2}; long all = 0; for (int i = 0; i < 5; i++) all += sum(&p, \"abc\", i, i); return all == 0; }\n";
    let program = build("strict-functions", source, &["-O1", "-g"]);
    // The path of an event has no blanks.
    let beside = format!("./{}", program.rsplit('/').next().unwrap());
    let (entry, exit) = (format!("uprobe:{beside}:sum"), format!("uretprobe:{beside}:sum"));
    let (place, said) = check("strict-functions", &["-e", &entry, "-e", &exit], &[&program], Some(10), false);
    let events = view(&place.trace());
    assert!(events[0].contains("Bool_2 = 0") && events[0].contains("gr__e = \"abc\""), "{}{said}", events[0]);
}

/// Names that the program may give, and CTF may not: each event is recorded, with names of its own.
#[test]
fn names_that_are_there_twice() {
    let source = "#include \"weir/tracepoint.h\"\n\
        struct point { int x; long y; };\n\
        WEIR_MEMBERS(twice, WEIR_MEMBER(struct point, x), WEIR_MEMBER(struct point, y), WEIR_MEMBER(struct point, x));\n\
        int main(void) {\n\
        static const short numbers[3] = {7, 8, 9}; struct point at = {1, 2};\n\
        for (int i = 0; i < 3; i++) {\n\
        WEIR_TRACEPOINT(odd, before, (int, _x_length, i), (sequence(short), x, numbers, 2));\n\
        WEIR_TRACEPOINT(odd, behind, (sequence(short), x, numbers, 3), (int, _x_length, i), (int, Bool, 5));\n\
        WEIR_TRACEPOINT(odd, members, (structure(twice), at, &at), (int, x, i));\n\
        WEIR_TRACEPOINT(odd, keywords, (int, event, i), (int, _Bool_2, 6), (int, stream, 7), (int, align, 8));\n\
        }\nreturn 0; }\n";
    let program = build("strict-names", source, &["-O1"]);
    let (place, said) = check("strict-names", &["-e", "odd:*"], &[&program], Some(12), false);
    let numbers = |count: usize| {
        let all: Vec<String> = (0..count).map(|index| format!("[{index}] = {}", index + 7)).collect();
        format!("[ {} ]", all.join(", "))
    };
    for (index, fields) in view(&place.trace()).iter().enumerate() {
        let (round, two, three) = (index / 4, numbers(2), numbers(3));
        let wanted = match index % 4 {
            0 => format!("{{ _x_length = {round}, _x_2_length = 2, x_2 = {two} }}"),
            1 => format!("{{ _x_length = 3, x = {three}, _x_length_2 = {round}, Bool_2 = 5 }}"),
            2 => format!("{{ at = {{ x = 1, y = 2, x_2 = 1 }}, x = {round} }}"),
            _ => format!("{{ event = {round}, _Bool_2 = 6, stream = 7, align = 8 }}"),
        };
        assert_eq!(*fields, wanted, "{said}");
    }
    // babeltrace2 takes it, and says the same.
    if let Ok(theirs) = Command::new("babeltrace2").arg("--no-delta").arg(place.trace()).output() {
        let ours = weir(["view", "--no-delta"]).arg(place.trace()).output().unwrap();
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        assert_eq!(String::from_utf8_lossy(&theirs.stdout), String::from_utf8_lossy(&ours.stdout));
    }
}
