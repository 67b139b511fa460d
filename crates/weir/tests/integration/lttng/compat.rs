//! Programs of LTTng-UST's that are compiled with `weir/lttng-compat.h`, unchanged: no compiler says a word, and what is listed, recorded
//! and counted is what it is of the same source with LTTng-UST.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use testkit::{paths, skip, target};

use super::{COUNTS, DEADLINE, Harbour, err, events, number_after, out};

/// Without LTTng-UST's library, and with what takes the place of its headers.
fn compile(compiler: &str, harbour: &Harbour, program: &str, flags: &[&str], sources: &[&str]) {
    let include = paths::root().join("include");
    let mut command = Command::new(compiler);
    command
        .current_dir(paths::root().join("tests/lttng"))
        .args(["-I."])
        .arg("-I")
        .arg(include.join("weir/lttng-compat"));
    command
        .arg("-I")
        .arg(include)
        .args(flags)
        .arg("-o")
        .arg(harbour.0.join(program))
        .args(sources)
        .arg("-lpthread");
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{compiler} {flags:?}: {}", err(&output));
}

/// A folder of its own.
fn harbour(name: &str) -> Harbour {
    let folder = paths::fresh("lttng-compat", name);
    fs::create_dir_all(&folder).unwrap();
    Harbour(folder)
}

#[test]
fn a_provider_compiles_unchanged_in_c_and_cpp() {
    let harbour = harbour("compiles");
    let flags = ["-Wall", "-Wextra"];
    let kinds: [(&str, &str, &[&str]); 4] = [
        ("gcc", "c", &["-std=c99", "-std=c11", "-std=gnu17"]),
        ("clang", "c", &["-std=c99", "-std=gnu17"]),
        ("g++", "c++", &["-std=c++11", "-std=gnu++17"]),
        ("clang++", "c++", &["-std=c++11", "-std=c++17"]),
    ];
    let mut lists = Vec::new();
    for (compiler, language, standards) in kinds {
        if !target::is_installed(compiler) {
            skip::skip(compiler, "not installed; the header is not compiled by it");
            continue;
        }
        for (standard, more) in standards.iter().zip(["-O0", "-O2", "-flto"]) {
            let all = [&["-x", language, standard, more, "-fPIC"][..], &flags].concat();
            compile(compiler, &harbour, "ferry", &all, &["ferry.c"]);
            let output = harbour.weir(&["list", "-v", "lttng:./ferry:*"]);
            assert!(output.status.success(), "{}", err(&output));
            lists.push(out(&output));
        }
    }
    let first = lists.first().expect("one compiler");
    assert!(
        first.contains(
            "ferry:boarded\n    level warning, (int32 ticket, hex uint8 colour, network uint16 port"
        ),
        "{first}"
    );
    assert!(first.contains("int32 {car = 1, sun = 5..9, crew = 10, below = -3} deck"), "{first}");
    for list in &lists {
        assert_eq!(list, first);
    }
}

#[test]
fn what_is_recorded_is_what_it_is_with_lttng() {
    let harbour = harbour("recorded");
    compile("gcc", &harbour, "ferry", &["-O2"], &["ferry.c"]);
    let said = harbour.recorded("compat", &["-e", "ferry:*", "--", "./ferry", "50"]);
    assert!(said.contains("200 events recorded"), "{said}");
    let compat = events(&harbour.0.join("compat"));
    let first = "ferry:boarded { ticket = 0, colour = 0x0, port = 0, address = 0x0, height = 30.75, weight = 61.5, name = \"(null)\", \
         two = [ [0] = 0, [1] = 0 ], code = \"Ada\", _seats_length = 0, seats = [ ], _letters_length = 0, letters = \"\", deck = ( <unknown> \
         : container = 0 ) }";
    assert!(compat.contains(&first.to_owned()), "{}", compat[0]);
    let list = |harbour: &Harbour| out(&harbour.weir(&["list", "-v", "lttng:./ferry:*"]));
    // The same source with LTTng-UST.
    let Some(original) = Harbour::with("ferry", &["ferry.c"], &[]) else { return };
    original.recorded("lttng", &["-e", "ferry:*", "--", "./ferry", "50"]);
    assert_eq!(compat, events(&original.0.join("lttng")));
    assert_eq!(list(&harbour), list(&original));
}

#[test]
fn a_command_has_every_kind_of_field() {
    let harbour = harbour("asked");
    compile("gcc", &harbour, "ferry", &["-O2"], &["ferry.c"]);
    let command = "env | grep ^WEIR_FIELD_ > said";
    let options = ["-e", "lttng:./ferry:ferry:*", "--run-on", "ticket == 6", "--run", command];
    harbour.recorded("trace", &[&options[..], &["--", "./ferry", "50"]].concat());
    let said = fs::read_to_string(harbour.0.join("said")).unwrap();
    let fields: BTreeSet<&str> = said.lines().map(|line| line.trim_start_matches("WEIR_FIELD_")).collect();
    let wanted = [
        "ticket=6",
        "colour=0x6",
        "port=1536",
        "address=0x6000000",
        "height=30.75",
        "weight=61.5",
        "name=Ada",
        "two=[ [0] = 6, [1] = -6 ]",
        "code=Ada",
        "seats=[ [0] = 12 ]",
        "letters=A",
        "deck=sun",
    ];
    assert_eq!(fields, BTreeSet::from(wanted));
    // As it is shown.
    let shown = events(&harbour.0.join("trace"));
    let event = shown.iter().find(|event| event.contains("ticket = 6,")).unwrap();
    for field in wanted.iter().filter(|field| field.contains(['[', '.', 'x'])) {
        let field = field.replacen('=', " = ", 1);
        assert!(event.contains(&field), "{event} lacks {field}");
    }
}

#[test]
fn filters_and_hidden_fields_are_as_with_lttng() {
    let harbour = harbour("filters");
    compile("gcc", &harbour, "ferry", &["-O2"], &["ferry.c"]);
    let filter = "hidden > 40 && deck == 5 && name == 'Ad*'";
    let said = harbour
        .recorded("some", &["-e", "lttng:./ferry:ferry:boarded", "--filter", filter, "--", "./ferry", "50"]);
    assert!(said.contains("1 events recorded"), "{said}");
    let traced = harbour.weir(&[
        "trace",
        "-e",
        "lttng:./ferry:ferry:lands { @ = sum(args.minutes); }",
        "-c",
        "./ferry 100",
    ]);
    assert!(out(&traced).contains("@: 4950"), "{}{}", out(&traced), err(&traced));
}

#[test]
fn a_provider_may_be_a_library_that_the_program_needs() {
    let harbour = harbour("provider");
    let text = "#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#include \"ferry.h\"\n";
    fs::write(harbour.0.join("provider.c"), text).unwrap();
    let provider = harbour.0.join("provider.c");
    compile("gcc", &harbour, "libprovider.so", &["-O2", "-fPIC", "-shared"], &[provider.to_str().unwrap()]);
    let folder = harbour.0.to_str().unwrap();
    let flags = ["-O2", "-DDYNAMIC", "-Wl,--no-as-needed", "-L", folder, "-lprovider", "-Wl,-rpath,$ORIGIN"];
    compile("gcc", &harbour, "ferry", &flags, &["ferry.c", "-lprovider"]);
    let said = harbour.recorded("apart", &["-e", "ferry:*", "--", "./ferry", "3"]);
    assert!(said.contains("12 events recorded"), "{said}");
}

#[test]
fn a_running_program_and_children_are_traced_and_go_on_as_before() {
    let harbour = harbour("live");
    compile("gcc", &harbour, "ferries", &["-O2"], &["ferries.c"]);
    let mut program = harbour.running("ferries", &["4"]);
    program.line_with("under way", DEADLINE).unwrap();
    let pid = program.pid().to_string();
    let mut counted = 0;
    for _ in 0..2 {
        let weir = harbour.at_work(&["trace", "-p", &pid, "-e", COUNTS]);
        weir.signal(Signal::SIGINT).unwrap();
        let said = weir.finish(DEADLINE).unwrap();
        let now: u64 = number_after(&said.stdout, "@: ");
        assert!(now > 1000, "{now}");
        counted += now;
    }
    program.write("\n").unwrap();
    let emitted: u64 = program.line(DEADLINE).unwrap().trim().parse().unwrap();
    assert!(counted <= emitted, "{counted} of {emitted}");
    assert!(program.finish(DEADLINE).unwrap().status.success());
    let said =
        harbour.recorded("children", &["-e", "ferry:leaves", "--follow", "--", "./ferries", "1", "12"]);
    assert!(said.contains("1200 events recorded"), "{said}");
}

/// Words of a row that have no slot of the context are slots of their own: numbers, texts, and elements.
#[test]
fn events_of_many_fields_are_recorded_and_filtered() {
    let harbour = harbour("many");
    let numbers: String = (0..28).map(|n| format!("lttng_ust_field_integer(long, n{n}, n + {n}) ")).collect();
    let header = format!(
        "#undef LTTNG_UST_TRACEPOINT_PROVIDER\n#define LTTNG_UST_TRACEPOINT_PROVIDER many\n\
         #undef LTTNG_UST_TRACEPOINT_INCLUDE\n#define LTTNG_UST_TRACEPOINT_INCLUDE \"./many.h\"\n\
         #if !defined(MANY_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)\n#define MANY_H\n#include <lttng/tracepoint.h>\n\
         LTTNG_UST_TRACEPOINT_EVENT(many, fields, LTTNG_UST_TP_ARGS(long, n, const char *, text), LTTNG_UST_TP_FIELDS({numbers}\
         lttng_ust_field_string(name, text) lttng_ust_field_array_text(char, code, text, 3)\
         lttng_ust_field_sequence_text(char, letters, text, long, n) lttng_ust_field_float(double, half, n / 2.0)))\n\
         #endif\n#include <lttng/tracepoint-event.h>\n"
    );
    let program = "#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#define LTTNG_UST_TRACEPOINT_DEFINE\n#include \"many.h\"\n\
        int main(void) { for (long n = 0; n < 5; n++) lttng_ust_tracepoint(many, fields, n, \"letters\"); return 0; }\n";
    fs::write(harbour.0.join("many.h"), header).unwrap();
    fs::write(harbour.0.join("many.c"), program).unwrap();
    let (include, source) =
        (format!("-I{}", harbour.0.display()), harbour.0.join("many.c").display().to_string());
    compile("gcc", &harbour, "many", &["-O2", &include], &[&source]);
    let filter = "n27 >= 29 && name == 'let*' && half < 2.0";
    harbour.recorded("trace", &["-e", "lttng:./many:many:fields", "--filter", filter, "--", "./many"]);
    let wanted = |n: usize| {
        let numbers: Vec<String> = (0..28).map(|at| format!("n{at} = {}", n + at)).collect();
        format!(
            "many:fields {{ {}, name = \"letters\", code = \"let\", _letters_length = {n}, letters = \"{}\", half = {} }}",
            numbers.join(", "),
            &"letters"[..n],
            n as f64 / 2.0
        )
    };
    assert_eq!(events(&harbour.0.join("trace")), [wanted(2), wanted(3)]);
}

/// What nothing refers to is kept, and what describes events comes out of an archive.
#[test]
fn linkers_that_drop_what_is_not_used_keep_events() {
    let harbour = harbour("linkers");
    let text = "#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#include \"ferry.h\"\n";
    let provider = harbour.0.join("provider.c").display().to_string();
    fs::write(&provider, text).unwrap();
    let app = "#define LTTNG_UST_TRACEPOINT_DEFINE\n#include \"ferry.h\"\nint main(void) { lttng_ust_tracepoint(ferry, horn); return 0; }\n";
    let program = harbour.0.join("app.c").display().to_string();
    fs::write(&program, app).unwrap();
    let sections = ["-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"];
    let mut cases =
        vec![("gcc", sections.to_vec()), ("gcc", vec!["-O2", "-flto"]), ("gcc", vec!["-O2", "-static"])];
    if target::is_installed("clang") {
        cases.push(("clang", sections.to_vec()));
    }
    for (compiler, flags) in cases {
        compile(compiler, &harbour, "app", &flags, &[&program, &provider]);
        let said = harbour.recorded("trace", &["-e", "ferry:horn", "--", "./app"]);
        assert!(said.contains("1 events recorded"), "{compiler} {flags:?}: {said}");
    }
    let object = harbour.0.join("provider.o").display().to_string();
    compile("gcc", &harbour, "provider.o", &["-O2", "-c"], &[&provider]);
    let archive = harbour.0.join("libprovider.a").display().to_string();
    assert!(Command::new("ar").args(["rcs", &archive, &object]).status().unwrap().success());
    compile("gcc", &harbour, "app", &["-O2"], &[&program, &archive]);
    let said = harbour.recorded("trace", &["-e", "ferry:horn", "--", "./app"]);
    assert!(said.contains("1 events recorded"), "an archive: {said}");
}

/// Numbers have their values, and elements too.
#[test]
fn elements_in_network_byte_order_have_their_values() {
    const PROVIDER: &str = r#"
        #undef LTTNG_UST_TRACEPOINT_PROVIDER
        #define LTTNG_UST_TRACEPOINT_PROVIDER net
        #undef LTTNG_UST_TRACEPOINT_INCLUDE
        #define LTTNG_UST_TRACEPOINT_INCLUDE "./net.h"
        #if !defined(NET_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
        #define NET_H
        #include <lttng/tracepoint.h>
        #include <stdint.h>
        TRACEPOINT_EVENT(net, seen, TP_ARGS(const uint16_t *, ports, const int32_t *, numbers, unsigned, count),
            TP_FIELDS(ctf_array_network(uint16_t, pair, ports, 2) ctf_sequence_network_hex(uint16_t, hex, ports, unsigned, count)
                ctf_sequence_network(int32_t, numbers, numbers, unsigned, count)
                ctf_integer_network(uint16_t, first, *ports)))
        #endif
        #include <lttng/tracepoint-event.h>
    "#;
    const PROGRAM: &str = r#"
        #define TRACEPOINT_CREATE_PROBES
        #define TRACEPOINT_DEFINE
        #include "net.h"
        int main(void) {
            static const uint16_t ports[] = {0x5000, 0xbb01};
            static const int32_t numbers[] = {(int32_t)0xfeffffff, 0x07000000};
            tracepoint(net, seen, ports, numbers, 2);
            return 0;
        }
    "#;
    let with = |harbour: &Harbour| {
        fs::write(harbour.0.join("net.h"), PROVIDER).unwrap();
        fs::write(harbour.0.join("net.c"), PROGRAM).unwrap();
        (format!("-I{}", harbour.0.display()), harbour.0.join("net.c").display().to_string())
    };
    let wanted = "net:seen { pair = [ [0] = 80, [1] = 443 ], _hex_length = 2, hex = [ [0] = 0x50, [1] = 0x1BB ], _numbers_length = 2, \
         numbers = [ [0] = -2, [1] = 7 ], first = 80 }";
    let check = |harbour: &Harbour| {
        let said = harbour.recorded("trace", &["-e", "net:*", "--", "./net"]);
        assert_eq!(events(&harbour.0.join("trace")), [wanted], "{said}");
        let filter = ["-e", "lttng:./net:net:seen", "--filter", "pair[0] == 80", "-o", "no", "--", "./net"];
        let refused = harbour.weir(&[&["record"][..], &filter].concat());
        assert!(
            err(&refused).contains("elements of `pair`, which are in network byte order"),
            "{}",
            err(&refused)
        );
    };
    let compat = harbour("network");
    let (include, source) = with(&compat);
    compile("gcc", &compat, "net", &["-O2", &include], &[&source]);
    check(&compat);
    let original = harbour("network-lttng");
    let (include, source) = with(&original);
    if original.build("net", &[&source], &[&include]) {
        check(&original);
    }
}
