//! What of an event is recorded: each type of field, contexts, parameters of functions, what is fetched by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use testkit::{paths, target};

use super::{beside, read, read_by_weir, record, text, weir};

#[test]
fn every_type_of_field_is_recorded() {
    let folder = paths::fresh("record", "types");
    let program = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let args = ["record", "-e", "tp:*", "-o", folder.to_str().unwrap(), "--", program.to_str().unwrap(), "6"];
    let output = weir(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let events = read_by_weir(&folder).events;
    let mut of_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &events {
        let (name, fields) = event.split_once(' ').unwrap();
        of_name.entry(name).or_default().push(fields);
    }
    let lines = |name: &str| -> Vec<Vec<String>> {
        let of_event = said.lines().filter_map(|line| line.strip_prefix(&format!("{name} ")));
        of_event.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    };
    // What the program says of numbers, field by field.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for event in ["integers", "twelve"] {
        let recorded = &of_name[format!("tp:{event}").as_str()];
        assert_eq!(recorded.len(), 6);
        for (values, fields) in lines(event).iter().zip(recorded) {
            let value = |(name, value): (&&str, &String)| match (event, *name) {
                ("integers", "j") => format!("{name} = 0x{}", value.to_uppercase()),
                _ => format!("{name} = {value}"),
            };
            let wanted: Vec<String> = names.iter().zip(values).map(value).collect();
            assert_eq!(**fields, format!("{{ {} }}", wanted.join(", ")));
        }
    }
    let check = |event: &str, n: usize, wanted: &str| assert_eq!(of_name[event][n], wanted, "{event} {n}");
    check("tp:floats", 0, "{ a = 1.42857e+99, b = -0.333333, half = 0.5, quarter = -0.25 }");
    check(
        "tp:texts",
        0,
        "{ a = \"two words\", _b_length = 2, b = \"cu\", c = \"literal\", d = \"round 1\" }",
    );
    check("tp:texts", 1, "{ a = \"\", _b_length = 3, b = \"cut\", c = \"literal\", d = \"round 2\" }");
    check("tp:colors", 0, "{ a = ( \"GREEN\" : container = 5 ), b = ( <unknown> : container = 1 ) }");
    check("tp:nothing", 5, "{ }");
    let memory = "{ a = [ [0] = 97, [1] = 98, [2] = 99, [3] = 101 ], _b_length = 2, b = [ [0] = 98, [1] = 121 ], \
         c = [ [0] = 1, [1] = 2, [2] = 3 ], d = { x = 1, y = 2, z = 3 }, e = 0x";
    assert!(of_name["tp:memory"][0].starts_with(memory), "{}", of_name["tp:memory"][0]);
    fs::remove_dir_all(folder).unwrap();
}

/// Of an event with more arguments than registers they are in a row of words; what there is of types is the same in it.
#[test]
fn events_of_up_to_32_fields_are_recorded() {
    let folder = paths::fresh("record", "wide");
    let program = target::build("tracepoints-wide", target::Source::Program("tracepoints_wide.c"), &["-O2"]);
    let program = program.to_str().unwrap();
    let filter = "a >= 2 && k == 'let*' && t.corner.low.x == 3";
    let run = ["-o", folder.to_str().unwrap(), "--", program, "3"];
    let output = weir(&[&["record", "-e", "wide:kinds", "--filter", filter][..], &run].concat());
    // Field `a` is negative.
    assert!(text(&output.stderr).contains("wide:kinds: 0"), "{}", text(&output.stderr));
    fs::remove_dir_all(&folder).unwrap();
    let output = weir(&[&["record", "-e", "wide:*"][..], &run].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = read_by_weir(&folder).events;
    assert_eq!(events.len(), 12);
    let text_of = |n: i64| {
        let numbers = (1..=11).zip('a'..).map(|(times, name)| format!("{name} = {}", times * n));
        let letters = &"letters"[..n as usize];
        format!(
            "wide:thirteen {{ {}, _l_length = {n}, l = \"{letters}\" }}",
            numbers.collect::<Vec<_>>().join(", ")
        )
    };
    let all_of = |n: i64| {
        let names = ('a'..='d').flat_map(|letter| (0..8).map(move |digit| format!("{letter}{digit}")));
        let numbers = names.zip(n..).map(|(name, value)| format!("{name} = {value}"));
        format!("wide:all {{ {} }}", numbers.collect::<Vec<_>>().join(", "))
    };
    let bytes = ["0xDE", "0xAD", "0xBE"];
    for (n, round) in (1..).zip(events.chunks(4)) {
        let sequence = |name: &str| {
            let elements =
                bytes.iter().enumerate().take(n as usize).map(|(at, byte)| format!("[{at}] = {byte}"));
            format!("_{name}_length = {n}, {name} = [ {} ]", elements.collect::<Vec<_>>().join(", "))
        };
        let fixed = "p = [ [0] = 0xDE, [1] = 0xAD ]";
        let structure = format!(
            "t = {{ id = {n}, corner = {{ low = {{ x = {}, y = 0.5 }}, high = {{ x = {} }} }}, kind = 107 }}",
            n + 1,
            -n
        );
        let color = if n % 2 == 1 { "\"GREEN\" : container = 5" } else { "\"RED\" : container = 0" };
        let kinds = format!(
            "wide:kinds {{ a = {}, b = {}, c = {}, d = 0xFFFFFFF{n}, e = {}, f = {}, g = {}, h = {}, i = {}, j = 0x0, k = \"letters\", \
             none = \"(null)\", _l_length = {n}, l = \"{}\", m = \"lett\", {}, {fixed}, {}, r = [ [0] = 222, [1] = 173, [2] = 190 ], \
             s = ( {color} ), {structure}, last = {n} }}",
            -n,
            40_000 + n,
            -n,
            -n << 40,
            80 + n,
            -n,
            n as f64 / 2.0,
            n as f64 / 4.0,
            &"letters"[..n as usize],
            sequence("o"),
            sequence("q"),
        );
        let few =
            format!("wide:few {{ f = {}, m = \"lett\", {}, {fixed}, {structure} }}", 80 + n, sequence("o"));
        assert_eq!(round, [text_of(n), kinds, few, all_of(n)]);
    }
    // Scripts and filters ask for them by name.
    let clause = "{ printf(\"%d %s %d %d\", args.c, str(args.k), args.f, args.last); }";
    let script = format!("usdt:{}:wide:kinds /args.a == -2/ {clause}", paths::quoted(Path::new(program)));
    let output =
        weir(&["trace", "-q", "-e", &script, "-c", &format!("{} 3", paths::quoted(Path::new(program)))]);
    assert!(text(&output.stdout).contains("-2 letters 82 2"), "{}", text(&output.stderr));
    fs::remove_dir_all(folder).unwrap();
}

/// A count is what a call has answered that failed: there are no elements then, and nothing after the buffer is read.
#[test]
fn negative_counts_are_no_elements() {
    let folder = paths::fresh("record", "negative");
    let source = r#"
        #include <sys/mman.h>
        #include <unistd.h>
        #include "weir/tracepoint.h"
        int main(void) {
            char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(pages + 4096, 4096);
            char *buffer = pages + 4096 - 64;
            int n = (int)read(-1, buffer, 64);
            WEIR_TRACEPOINT(rec, failed, (blob, a, buffer, n), (sequence(long), b, (long *)buffer, n), (text, c, buffer, n));
            WEIR_TRACEPOINT(rec, row, (blob, a, buffer, n), (sequence(long), b, (long *)buffer, n), (text, c, buffer, n),
                (blob, d, buffer, n), (blob, e, buffer, n), (blob, f, buffer, n), (blob, g, buffer, n));
            return 0;
        }
    "#;
    let flags = ["-O1", "-I", &paths::root().join("include").display().to_string()];
    let program = target::build("record-negative", target::Source::Text(source), &flags);
    let output =
        weir(&["record", "-e", "rec:*", "-o", folder.to_str().unwrap(), "--", program.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let none = |names: &str| {
        let field = |name: char| match name {
            'c' => "_c_length = 0, c = \"\"".to_owned(),
            name => format!("_{name}_length = 0, {name} = [ ]"),
        };
        names.chars().map(field).collect::<Vec<_>>().join(", ")
    };
    let expected =
        [format!("rec:failed {{ {} }}", none("abc")), format!("rec:row {{ {} }}", none("abcdefg"))];
    assert_eq!(read_by_weir(&folder).events, expected);
    fs::remove_dir_all(folder).unwrap();
}

/// Of a pattern's events those that cannot be recorded are left out; one that is named is refused.
#[test]
fn an_event_that_may_be_too_long_keeps_no_other_from_being_recorded() {
    let folder = paths::fresh("record", "too-long");
    let texts: String = (0..29).map(|n| format!(", (string, s{n}, \"x\")")).collect();
    let source = format!(
        "#include \"weir/tracepoint.h\"\nint main(void) {{ WEIR_TRACEPOINT(st, long_one{texts}); \
         WEIR_TRACEPOINT(st, small, (int, n, 1)); return 0; }}\n"
    );
    let flags = ["-O1", "-I", &paths::root().join("include").display().to_string()];
    let program = target::build("record-too-long", target::Source::Text(&source), &flags);
    let program = program.to_str().unwrap();
    let record = |event: &str| weir(&["record", "-e", event, "-o", folder.to_str().unwrap(), "--", program]);
    let output = record("st:*");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("the limit is 28672"), "{said}");
    assert_eq!(read_by_weir(&folder).events, ["st:small { n = 1 }"]);
    fs::remove_dir_all(&folder).unwrap();
    let output = record("st:long_one");
    assert!(
        !output.status.success() && text(&output.stderr).contains("cannot record"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn long_texts_are_cut_and_null_ones_are_named() {
    let folder = paths::fresh("record", "long");
    let source = "#include \"weir/tracepoint.h\"\n#include <stdlib.h>\n#include <string.h>\n\
        int main(int argc, char **argv) {\n\
        static char text[4000]; static double numbers[2000];\n\
        for (int i = 1; i < argc; i++) {\n\
        unsigned long length = strtoul(argv[i], 0, 0); memset(text, 'x', length); text[length] = 0;\n\
        WEIR_TRACEPOINT(rec, one, (string, a, text), (sequence(double), n, numbers, length), (string, b, i % 2 ? NULL : \"b\"));\n\
        }\nreturn 0; }\n";
    let flags = ["-O1", "-I", &paths::root().join("include").display().to_string()];
    let program = target::build("record-long", target::Source::Text(source), &flags);
    let lengths = [0, 1, 510, 511, 512, 1021, 1022, 1023, 1024, 3999];
    let folder_text = folder.to_str().unwrap();
    let mut args = ["record", "-e", "rec:one", "-o", folder_text, "--"].map(str::to_owned).to_vec();
    args.push(program.display().to_string());
    args.extend(lengths.map(|length| length.to_string()));
    let output = weir(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Of texts 1023, 1024 and 3999, of sequences all above 511.
    let cut = 3 + lengths.iter().filter(|length| **length > 511).count();
    assert!(said.contains(&format!("rec:one: {}, {cut} texts or sequences cut", lengths.len())), "{said}");
    let events = read_by_weir(&folder).events;
    assert_eq!(events.len(), lengths.len());
    for (index, (event, length)) in events.iter().zip(lengths).enumerate() {
        let characters = "x".repeat(length.min(1022));
        let b = if index % 2 == 0 { "(null)" } else { "b" };
        let begin = format!("rec:one {{ a = \"{characters}\", _n_length = {}, n = [ ", length.min(511));
        assert!(event.starts_with(&begin) && event.ends_with(&format!("], b = \"{b}\" }}")), "{event}");
        assert_eq!(event.matches("] = 0").count(), length.min(511));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// What a tracepoint declares is copied by loads, constants in a file's memory too: the program is killed for a system call that
/// reads memory. A function's parameter that leads to the same text is nobody's promise, and stays unread there.
#[test]
fn what_a_tracepoint_declares_is_recorded_without_a_system_call() {
    let folder = paths::fresh("record", "declared");
    let source = r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include "weir/tracepoint.h"
        static const char *volatile text = "a constant of more than a word";
        static const unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        struct point { int x; double y; };
        static const struct point point = {3, 0.5};
        WEIR_MEMBERS(point_members, WEIR_MEMBER(struct point, x), WEIR_MEMBER(struct point, y));
        __attribute__((noinline)) void take(const char *text) {
            __asm__ volatile(".skip 16, 0x90" : : "r"(text) : "memory");
        }
        int main(int argc, char **argv) {
            (void)argv;
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                return 3;
            for (int n = 0; n < 3; n++) {
                WEIR_TRACEPOINT(rec, constants, (string, a, text), (array(unsigned char, 8), b, bytes),
                                (sequence(unsigned char), c, bytes, argc + 2), (text, d, text, 3), (string, e, "short"),
                                (structure(point_members), f, &point));
                WEIR_TRACEPOINT(row, constants, (string, a, text), (array(unsigned char, 8), b, bytes),
                                (sequence(unsigned char), c, bytes, argc + 2), (text, d, text, 3), (string, e, "short"),
                                (structure(point_members), f, &point), (int, g, n), (long, h, -n), (int, i, n), (int, j, n),
                                (double, k, 0.5), (int, l, n));
                take(text);
            }
            return 0;
        }
    "#;
    let flags = ["-O1", "-g", "-I", &paths::root().join("include").display().to_string()];
    let program =
        target::build("record-declared", target::Source::Text(source), &flags).display().to_string();
    let take = format!("uprobe:{}:take", beside(Path::new(&program)));
    let to_folder = ["-o", folder.to_str().unwrap(), "--", &program];
    let filter = "e == \"short\" && a == \"a const*\"";
    let output = weir(&[&["record", "-e", "rec:*", "--filter", filter][..], &to_folder].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let numbers: Vec<String> = (0..8).map(|n| format!("[{n}] = {}", n + 1)).collect();
    let constants = format!(
        "rec:constants {{ a = \"a constant of more than a word\", b = [ {} ], _c_length = 3, c = [ {} ], _d_length = 3, \
         d = \"a c\", e = \"short\", f = {{ x = 3, y = 0.5 }} }}",
        numbers.join(", "),
        numbers[..3].join(", ")
    );
    assert_eq!(read_by_weir(&folder).events, vec![constants.clone(); 3]);
    fs::remove_dir_all(&folder).unwrap();
    let output = weir(&[&["record", "-e", "rec:*", "-e", &take][..], &to_folder].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let parameter = "uprobe:take { text = \"\" }".to_owned();
    let both = [constants.clone(), parameter].into_iter().cycle().take(6).collect::<Vec<_>>();
    assert_eq!(read_by_weir(&folder).events, both);
    fs::remove_dir_all(&folder).unwrap();
    // So is what is passed in a row of words.
    let output = weir(&[&["record", "-e", "row:*"][..], &to_folder].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let same = constants.strip_prefix("rec:constants").unwrap().strip_suffix(" }").unwrap();
    let row =
        |n: i32| format!("row:constants{same}, g = {n}, h = {}, i = {n}, j = {n}, k = 0.5, l = {n} }}", -n);
    assert_eq!(read_by_weir(&folder).events, [row(0), row(1), row(2)]);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn contexts_are_recorded_with_each_event() {
    let folder = paths::fresh("record", "contexts");
    record(&folder, &["-e", "rec:ints", "-t", "vpid,vtid,procname", "-t", "cpu,uid,ip"], &["i", "3", "10"]);
    let events = read(&folder).events;
    assert_eq!(events.len(), 30);
    let mut threads: BTreeMap<String, String> = BTreeMap::new();
    for event in &events {
        let (context, fields) = event.split_once(" }, { ").expect(event);
        let names = ["vpid", "vtid", "procname", "cpu_id", "vuid", "ip"];
        let values: Vec<&str> = context.split_once("{ ").expect(event).1.split(", ").collect();
        let values: Vec<(&str, &str)> = values.iter().map(|value| value.split_once(" = ").unwrap()).collect();
        assert_eq!(values.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        let uid = nix::unistd::getuid().to_string();
        assert!(values[2].1.starts_with("\"record-") && values[4].1 == uid, "{event}");
        assert_ne!(values[0].1, values[1].1, "a thread of its own: {event}");
        let thread = fields.split(',').next().unwrap().to_owned();
        assert_eq!(threads.entry(thread).or_insert(values[1].1.to_owned()), values[1].1, "{event}");
    }
    assert_eq!(threads.len(), 3);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn functions_are_recorded_with_their_parameters() {
    let folder = paths::fresh("record", "functions");
    let source = "__attribute__((noinline)) long add(int a, const char *name, double d) \
                  { __asm__ volatile(\"\"); return a + name[0] + (long)d; }\n\
                  int main(void) { long sum = 0; for (int i = 0; i < 3; i++) sum += add(i, \"abc\", i / 2.0); return sum == 0; }\n";
    let program = target::build("record-functions", target::Source::Text(source), &["-O1", "-g"]);
    let at = |kind: &str| format!("{kind}:{}:add", beside(&program));
    let (entry, exit) = (at("uprobe"), at("uretprobe"));
    let args = ["record", "-e", &entry, "-e", &exit, "-o", folder.to_str().unwrap(), "--"];
    let output = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: Vec<String> = (0..3)
        .flat_map(|i| {
            let d = ["0", "0.5", "1"][i];
            let sum = i + 97 + i / 2;
            [
                format!("uprobe:add {{ a = {i}, name = \"abc\", d = {d} }}"),
                format!("uretprobe:add {{ retval = {sum} }}"),
            ]
        })
        .collect();
    assert_eq!(read(&folder).events, wanted);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn fields_that_no_debug_information_names_are_fetched_as_ftrace_has_it() {
    let folder = paths::fresh("record", "fetched");
    let source = "struct object { unsigned kind; short count; char *text; };\n\
                  __attribute__((noinline)) int finish(void *client, struct object **argv, int argc, long long took)\n\
                  { __asm__ volatile(\"\" : : \"r\"(client), \"r\"(argv), \"r\"(took) : \"memory\"); return -argc; }\n\
                  int main(void) { struct object set = {7, -2, \"SET\"}, get = {8, 3, \"GET\"}, bad = {9, 4, (char *)8};\n\
                  struct object *argv[] = {&set, &get, &bad}; int sum = 0;\n\
                  for (int i = 0; i < 3; i++) sum += finish(0, &argv[i], i + 1, -5 - i); return sum != -6; }\n";
    let program = target::build("record-fetched", target::Source::Text(source), &["-O1"]);
    let at = |kind: &str, fields: &str| format!("{kind}:{}:finish {fields}", beside(&program));
    let fields = "name=+0(+8(+0(%si))):string kind=+0(+0(%rsi)):u32 count=+4(+0(arg1)):s16 argc=%dx:s32 took=arg3:s64 client=%di";
    let (entry, exit) = (at("uprobe", fields), at("uretprobe", "result=retval:s32 low=%ax:x8"));
    let args = ["record", "-e", &entry, "-e", &exit, "-o", folder.to_str().unwrap(), "--"];
    let output = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: Vec<String> = [("\"SET\"", 7, -2), ("\"GET\"", 8, 3), ("\"\"", 9, 4)]
        .into_iter()
        .zip(1..)
        .flat_map(|((name, kind, count), argc)| {
            let took = -4 - argc;
            [
                format!(
                    "uprobe:finish {{ name = {name}, kind = {kind}, count = {count}, argc = {argc}, took = {took}, client = 0x0 }}"
                ),
                format!("uretprobe:finish {{ result = -{argc}, low = 0x{:X} }}", 256 - argc),
            ]
        })
        .collect();
    assert_eq!(read_by_weir(&folder).events, wanted);
    fs::remove_dir_all(&folder).unwrap();
    let args = [
        "record",
        "-e",
        &entry,
        "--filter",
        "took < -5 && name == \"G*\"",
        "-o",
        folder.to_str().unwrap(),
        "--",
    ];
    let filtered = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(filtered.status.success(), "{}", text(&filtered.stderr));
    assert_eq!(read_by_weir(&folder).events, wanted[2..3]);
    assert!(text(&output.stderr).contains("reads of the target's memory failed"), "{}", text(&output.stderr));
    fs::remove_dir_all(folder).unwrap();
}
