//! `weir bpf`: objects by hand, through the command line.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::{bpf, kernel, paths, skip};
use weir_ebpf::asm;

const REFUSED: i32 = 1;

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("bpf").args(args).stdin(Stdio::null()).output().unwrap()
}

/// `weir bpf ARGS` succeeds; what it prints.
#[track_caller]
fn prints(args: &[&str]) -> String {
    let output = weir(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// `weir bpf ARGS` ends with 1 and says each of `parts`.
#[track_caller]
fn refuses(args: &[&str], parts: &[&str]) {
    let output = weir(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(REFUSED), "{args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{args:?}: {part:?} is not in: {message}");
    }
}

fn folder() -> PathBuf {
    let folder = paths::target().join("bpf-tests");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn file(name: &str, contents: &str) -> String {
    let path = folder().join(name);
    fs::write(&path, contents).unwrap();
    path.display().to_string()
}

/// A program of `tests/bpf`, compiled; none, loudly, without clang.
fn compiled(name: &str) -> Option<String> {
    compile(&paths::root().join(format!("tests/bpf/{name}.c")), name)
}

fn compile(source: &Path, name: &str) -> Option<String> {
    let object = folder().join(format!("{}.o", name.replace('/', "-")));
    // Under a name of this process, then moved: tests run beside each other, and several read the same object.
    let made = object.with_extension(format!("{}.{:?}", std::process::id(), std::thread::current().id()));
    bpf::compile(source, &made).then(|| {
        fs::rename(&made, &object).unwrap();
        object.display().to_string()
    })
}

const FORTY_TWO: &str = "b7000000 2a000000 9500000000000000";

#[test]
fn hexadecimal_programs_run_in_both_engines() {
    for engine in ["interp", "jit"] {
        assert_eq!(prints(&["run", "--engine", engine, "--program-hex", FORTY_TWO]), "0x2a\n");
    }
}

#[test]
fn hexadecimal_programs_come_from_standard_input() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bpf", "run", "--program-hex", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(FORTY_TWO.as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"0x2a\n");
}

#[test]
fn repeated_runs_print_their_time() {
    let text = prints(&["run", "--repeat", "1000", "--program-hex", FORTY_TWO]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "0x2a"));
    let time = lines[1].strip_suffix(" ns per run").unwrap();
    assert!(time.parse::<f64>().unwrap() > 0.0);
}

#[test]
fn what_a_program_prints_is_on_standard_error() {
    let word = u64::from_le_bytes(*b"<%d %x>\0");
    let text = format!(
        "program \"p\" probe\nr1 = {word:#x} ll\n*(u64 *)(r10 - 8) = r1\nr1 = r10\nr1 += -8\nr2 = 8\nr3 = 5\nr4 = 171
         call trace_printk\nexit\n"
    );
    let source = file("prints.s", &text);
    for engine in ["interp", "jit"] {
        let output = weir(&["run", "--engine", engine, &source]);
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"0x6\n"[..], &b"<5 ab>\n"[..]));
    }
}

#[test]
fn programs_of_one_object_take_over_from_each_other() {
    let Some(object) = compiled("tail_calls") else { return };
    for engine in ["interp", "jit"] {
        // 33 tail calls of itself, and the first run.
        assert_eq!(prints(&["run", "--engine", engine, &object, "--program", "again"]), "0x22\n");
        assert_eq!(prints(&["run", "--engine", engine, &object, "--program", "start"]), "0x13\n");
    }
    let text = prints(&["dis", &object]);
    assert!(text.contains("holds steps 1 add\n"), "{text}");
    let again = file("tail_calls.s", &text);
    assert_eq!(prints(&["run", &again, "--program", "start"]), "0x13\n");
}

#[test]
fn text_and_objects_are_each_other() {
    let text = "map m hash key 8 value 8 entries 4\n\nprogram \"p\" probe\n     0: r1 = map[m] ll\n     2: r0 = 0x7\n     3: exit\n";
    let (source, object) = (file("both.s", text), folder().join("both.o").display().to_string());
    assert_eq!(prints(&["asm", &source, "-o", &object]), "");
    assert_eq!(prints(&["dis", &object]), text.replace("program", "; section \"uprobe\"\nprogram"));
    assert_eq!(prints(&["run", &object]), "0x7\n");
    assert_eq!(prints(&["run", &source, "--program", "p"]), "0x7\n");
    // What is printed is input again.
    assert_eq!(prints(&["dis", &file("again.s", &prints(&["dis", &object]))]), prints(&["dis", &object]));
}

#[test]
fn objects_of_clang_run_with_their_variables() {
    let Some(object) = compiled("globals") else { return };
    for engine in ["interp", "jit"] {
        assert_eq!(prints(&["run", &object, "--engine", engine]), "0x411\n");
    }
    let text = prints(&["dis", &object]);
    assert!(text.contains("initial .data \"28\"\n"), "{text}");
    let again = file("globals.s", &text);
    assert_eq!(prints(&["run", &again]), "0x411\n");
    let object = folder().join("globals-again.o").display().to_string();
    assert_eq!(prints(&["asm", &again, "-o", &object]), "");
    assert_eq!(prints(&["run", &object]), "0x411\n");
    assert!(text.contains("globals.c:15: calls++;\n"), "{text}");
}

#[test]
fn maps_that_hold_maps_are_filled() {
    let Some(object) = compiled("inner_maps") else { return };
    for engine in ["interp", "jit"] {
        let run = |program: &str| prints(&["run", &object, "--engine", engine, "--program", program]);
        assert_eq!((run("numbered"), run("parity")), ("0x2a\n".into(), "0xd89\n".into()));
    }
    let text = prints(&["dis", &object]);
    for line in ["holds by_parity 0 even\n", "holds by_parity 1 odd\n", "holds by_number 2 some_slots\n"] {
        assert!(text.contains(line), "{text}");
    }
    let again = file("inner_maps.s", &text);
    assert_eq!(prints(&["run", &again, "--program", "parity"]), "0xd89\n");
    assert!(text.contains("map by_parity array_of_maps key 4 value 4 entries 4 inner "), "{text}");
}

/// A program of a context that weir does not have becomes none that it runs by way of text.
#[test]
fn refusals_survive_text() {
    let source = "#include \"bpf_helpers.h\"\nSEC(\"sk_skb\") int f(void *ctx) { return 0; }";
    let (source, object) = (file("other.c", source), folder().join("other.o"));
    if !bpf::compile(Path::new(&source), &object) {
        return;
    }
    let object = object.display().to_string();
    refuses(&["run", &object], &["unsupported: programs of section `sk_skb`"]);
    let text = prints(&["dis", &object]);
    assert!(text.contains("program \"f\" unsupported \"sk_skb\"\n"), "{text}");
    let text = file("other.s", &text);
    for arguments in [&["run", &text][..], &["verify", &text], &["asm", &text, "-o", "/dev/null"]] {
        refuses(arguments, &["other.s: line 2: unsupported: the program `f` is of section `sk_skb`"]);
    }
}

/// Three quarters of what there is: more than one segment may take, and refused before any page is taken.
#[test]
fn maps_that_take_most_of_the_memory_are_refused() {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let available: u64 = available.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10;
    // A segment has 64 GiB at most, for a reason that is told otherwise.
    let entries = ((available / 4 * 3) >> 20).min(64_000);
    if entries << 20 <= available / 2 {
        return skip::skip("much-memory", "the largest segment is less than half of what there is");
    }
    let text = format!(
        "map small array key 4 value 8 entries 1\nmap huge array key 4 value 1048576 entries {entries}
         program \"p\" xdp\nr0 = 1\nexit\n"
    );
    let source = file("huge.s", &text);
    for engine in ["interp", "jit"] {
        let output = weir(&["run", "--engine", engine, &source]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        for part in ["making the maps: the maps need ", " are available", "(map huge alone takes "] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert!(prints(&["verify", &source]).contains("accepted"));
}

#[test]
fn one_of_several_programs_is_chosen_by_name() {
    let Some(object) = compiled("start_end") else { return };
    assert_eq!(prints(&["run", &object, "--program", "ret"]), "0x1\n");
    refuses(&["run", &object], &["several programs; choose with --program: call, ret"]);
    refuses(&["run", &object, "--program", "x"], &["no program is named `x`; there are: call, ret"]);
}

#[test]
fn verifying_prints_a_line_for_each_program() {
    let Some(object) = compiled("array_sum") else { return };
    assert_eq!(prints(&["verify", &object]), "sum: accepted: 24 instructions, 8 bytes of stack\n");
    let text = prints(&["verify", "-v", &object]);
    assert!(text.contains("call 0x1 ; map_lookup_elem ; element 2, map sums\n"), "{text}");
    assert!(text.contains("array_sum.c:"), "{text}");
    // What is known before an instruction stands above it, each change once. The last jump asks for the number: else
    // the path that differs in it alone is not followed.
    let path = file(
        "states.s",
        "program \"p\" probe\nr6 = *(u64 *)(r1 + 112)\nr6 &= 255\nif r6 > 9 goto +1\nr6 = 300\n\
                                 *(u64 *)(r10 - 8) = r6\nr0 = *(u64 *)(r10 - 8)\nif r0 > 400 goto +0\nexit\n",
    );
    let text = prints(&["verify", "-v", &path]);
    let wanted = "p:
        r1 = the context pointer, r10 = a stack pointer (r10)
     0: r6 = *(u64 *)(r1 + 0x70)
        r6 = any number
     1: r6 &= 0xff
        r6 = 0x0..=0xff
     2: if r6 > 0x9 goto +0x1
        r6 = 0x0..=0x9
     3: r6 = 0x12c
        r6 = 0x12c | 0xa..=0xff
     4: *(u64 *)(r10 - 0x8) = r6 ; 2 times
        fp-0x8 = 0x12c | 0xa..=0xff
     5: r0 = *(u64 *)(r10 - 0x8) ; 2 times
        r0 = 0x12c | 0xa..=0xff
     6: if r0 > 0x190 goto +0x0 ; 2 times, never jumps
     7: exit ; 2 times
p: accepted: 8 instructions, 8 bytes of stack
";
    assert_eq!(text, wanted);
    let path = file("refused.s", "program \"p\" probe\nr0 = r3\nexit\n");
    let output = weir(&["verify", "-v", &path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("r10 = a stack pointer (r10)") && text.contains("1: exit ; never reached"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(1));
}

/// A disk that is full is no bug of weir's.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let path = file("full.s", "program \"p\" probe\nr0 = 7\nexit\n");
    for arguments in
        [&["verify", &path][..], &["verify", "-v", &path], &["dis", &path], &["run", "--repeat", "2", &path]]
    {
        let full = fs::File::options().write(true).open("/dev/full").expect("a device of Linux");
        let weir = Command::new(env!("CARGO_BIN_EXE_weir")).arg("bpf").args(arguments).stdout(full).output();
        let output = weir.expect("weir runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("writing to standard output: No space left"), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
    }
}

/// What is called by no name of libbpf's is not taken for something else.
#[test]
fn sections_that_nobody_knows_are_refused() {
    for (section, wanted) in [
        ("xdp_prog", "no kind of program is called so"),
        ("socket1", "no kind of program is called so"),
        ("sk_skb", "this version runs those of"),
    ] {
        let source =
            format!("#include \"bpf_helpers.h\"\nSEC(\"{section}\") int f(void *ctx) {{ return 0; }}\n");
        let path = file(&format!("{section}.c"), &source);
        let Some(object) = compile(Path::new(&path), section) else { return };
        for command in ["verify", "run"] {
            refuses(
                &[command, &object],
                &[&format!("f: unsupported: programs of section `{section}`"), wanted],
            );
        }
    }
}

#[test]
fn rejections_name_the_source_line() {
    let source = "#include \"bpf_helpers.h\"\nstruct { __uint(type, 1); __uint(max_entries, 1); __type(key, u64);\n\
                  __type(value, u64); } m SEC(\".maps\");\nSEC(\"uprobe/f\") int f(struct pt_regs *ctx)\n{\n\
                  \tu64 k = 1, *v = bpf_map_lookup_elem(&m, &k);\n\treturn *v;\n}\n";
    let path = file("unchecked.c", source);
    let Some(object) = compile(Path::new(&path), "unchecked") else { return };
    let place = format!("{path}:7: return *v;");
    let section = "in section `uprobe/f`";
    refuses(&["verify", &object], &[&object, "f: instruction", "unsafe", &place, section]);
    refuses(&["run", &object], &["f: instruction", "unsafe", &place]);
    let other = source.replace("uprobe/f", "sk_lookup/f").replace("return *v", "return v ? *v : 0");
    let path = file("sk_lookup.c", &other);
    let Some(object) = compile(Path::new(&path), "sk_lookup") else { return };
    refuses(&["verify", &object], &["f: unsupported: programs of section `sk_lookup/f`"]);
}

/// Instructions of assembly text as digits.
fn digits(text: &str) -> String {
    let object = asm::parse(&format!("program \"p\" probe\n{}\n", text.replace(';', "\n"))).unwrap();
    let bytes = object.programs[0].insns.iter().flat_map(|insn| insn.to_bytes());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The engines that there are here: the kernel is one for root alone.
fn engines() -> Vec<&'static str> {
    match kernel::available() {
        Ok(()) => vec!["interp", "jit", "kernel"],
        Err(reason) => {
            skip::skip("weir-kernel", reason);
            vec!["interp", "jit"]
        }
    }
}

#[test]
fn memory_is_in_r1_and_its_length_in_r2() {
    let sum = digits("r0 = *(u16 *)(r1 + 1); r2 <<= 40; r0 += r2; *(u8 *)(r1 + 0) = 9; exit");
    for engine in engines() {
        let run = |program: &str, memory: &[&str]| {
            let args = [&["run", "--engine", engine, "--program-hex", program][..], memory].concat();
            prints(&args)
        };
        assert_eq!(run(&sum, &["--mem-hex", "010203"]), "0x30000000302\n", "{engine}");
        assert_eq!(run(&digits("r0 = r1; r0 |= r2; exit"), &[]), "0x0\n", "{engine}");
        assert_eq!(run(&digits("r0 = r1; r0 |= r2; exit"), &["--mem-hex", ""]), "0x0\n", "{engine}");
        assert_eq!(run(&digits("r0 = -1; exit"), &[]), "0xffffffffffffffff\n", "{engine}");
        let text = run(&sum, &["--mem-hex", "01 02 03", "--repeat", "100"]);
        assert!(text.starts_with("0x30000000302\n") && text.ends_with(" ns per run\n"), "{text}");
        let beyond = digits("r0 = *(u8 *)(r1 + 3); exit");
        refuses(&["run", "--engine", engine, "--program-hex", &beyond, "--mem-hex", "010203"], &["program"]);
    }
    refuses(&["run", "--mem-hex", "0", "--program-hex", FORTY_TWO], &["1 hexadecimal digits"]);
    let rounds = file(
        "rounds.s",
        "program \"p\" memory 0\nr1 = 9\nr2 = f ll\nr3 = 0\nr4 = 0\ncall loop\nexit\nf:\nr0 = 0\nexit\n",
    );
    for engine in ["interp", "jit"] {
        assert_eq!(prints(&["run", "--engine", engine, "--max-rounds", "9", &rounds]), "0x9\n");
        refuses(&["run", "--engine", engine, "--max-rounds", "8", &rounds], &["more than the 8 rounds"]);
    }
    refuses(&["run", "--max-rounds", "4000000000", &rounds], &["at most 8388"]);
    refuses(
        &["run", "--engine", "kernel", "--max-rounds", "8", &rounds],
        &["--max-rounds is of weir's own engines"],
    );
}

/// As those do who test conformance: the program from standard input, memory as digits.
#[test]
fn what_is_not_verified_is_checked_as_it_runs() {
    let run = |text: &str, memory: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(["bpf", "run", "--unverified-checked", "--program-hex", "-", "--mem-hex", memory])
            .args(more);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(digits(text).as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let answer = |text: &str, memory: &str| {
        let output = run(text, memory, &["--engine", "interp"]);
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let fault = |text: &str, part: &str| {
        let output = run(text, "0102030405060708", &[]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(REFUSED), 0), "{message}");
        assert!(message.contains(part), "{message}");
    };
    // A distance that the verifier cannot know.
    let distance = "r3 = *(u8 *)(r1 + 0); r1 += r3; r0 = *(u8 *)(r1 + 0); exit";
    assert_eq!(answer(distance, "0302010f"), "0xf\n");
    refuses(&["run", "--program-hex", &digits(distance), "--mem-hex", "0302010f"], &["unsafe"]);
    // What nobody wrote is 0, and numbers may be pointers.
    assert_eq!(answer("r0 = *(u64 *)(r10 - 8); r0 += r5; exit", ""), "0x0\n");
    fault("r0 = *(u8 *)(r1 + 8); exit", "instruction 0: a read of 1 bytes");
    fault("*(u64 *)(r1 + 1) = 0; exit", "a write of 8 bytes");
    fault("*(u64 *)(r10 + 0) = 0; exit", "in no live region");
    fault("here: goto here; exit", "still running after 100000000 steps");
    fault("call f; exit; f: call f; exit", "calls nested deeper than 8");
    fault("goto +5; exit", "a jump to 6, outside the program");
    refuses(
        &["run", "--unverified-checked", "--engine", "jit", "--program-hex", FORTY_TWO],
        &["of the interpreter alone"],
    );
}

#[test]
fn packets_are_given_to_programs_of_packets() {
    let Some(layers) = compiled("packets/layers") else { return };
    let Some(loads) = compiled("packets/loads") else { return };
    let tcp = "020000000001 040000000002 0800  45000028000000004006abcd0a0000010a000002
        3039005000000001000000025012010007070000";
    for engine in engines() {
        let run =
            |object: &str, packet: &str| prints(&["run", "--engine", engine, object, "--mem-hex", packet]);
        assert_eq!(run(&layers, tcp), "0x2\n", "{engine}");
        assert_eq!(run(&layers, &tcp[..40]), "0x1\n", "{engine}");
        assert_eq!(run(&loads, tcp), "0x1\n", "{engine}");
        // A result of 32 bits, whoever runs it.
        let text = "program \"p\" xdp\nr0 = -2\nexit\n";
        assert_eq!(run(&file("minus.s", text), tcp), "0xfffffffe\n", "{engine}");
    }
    if kernel::available().is_ok() {
        let short = ["run", "--engine", "kernel", &loads, "--mem-hex", &tcp[..40]];
        refuses(
            &short,
            &["the kernel tests programs of kind socket with such packets of 34 bytes or more, not of 18"],
        );
    }
}

#[test]
fn registers_are_given_to_programs_of_probes() {
    let source = file("registers.s", "program \"p\" probe\nr0 = *(u64 *)(r1 + 0x70)\nexit\n");
    let registers = format!("{}8877665544332211", "00".repeat(0x70));
    for engine in ["interp", "jit"] {
        assert_eq!(prints(&["run", "--engine", engine, &source]), "0x0\n");
        assert_eq!(
            prints(&["run", "--engine", engine, &source, "--mem-hex", &registers]),
            "0x1122334455667788\n"
        );
    }
    refuses(
        &["run", &source, "--mem-hex", &"00".repeat(233)],
        &["233 bytes are more than the 232 of the context"],
    );
    let float = file("float.s", "program \"p\" probe\nr0 = *(u64 *)(r1 + 224)\nexit\n");
    let given = format!("{}8877665544332211", "00".repeat(224));
    for engine in ["interp", "jit"] {
        assert_eq!(prints(&["run", "--engine", engine, &float, "--mem-hex", &given]), "0x1122334455667788\n");
    }
    let event = file("event.s", "program \"p\" tracepoint\nr0 = *(u64 *)(r1 + 168)\nexit\n");
    let words = file("words.s", "program \"p\" tracepoint\nr0 = *(u64 *)(r1 + 160)\nexit\n");
    refuses(&["run", &event], &["offset 168 of the context; it has 168 bytes"]);
    refuses(
        &["run", &words, "--mem-hex", &"00".repeat(169)],
        &["169 bytes are more than the 168 of the context"],
    );
    if kernel::available().is_ok() {
        refuses(
            &["run", "--engine", "kernel", &source],
            &["the kernel runs programs of kind probe only where they are attached"],
        );
    }
    let memory = file("memory.s", "program \"p\" memory 8\nr0 = *(u64 *)(r1 + 0)\nexit\n");
    assert_eq!(prints(&["run", &memory]), "0x0\n");
    assert_eq!(prints(&["run", &memory, "--mem-hex", "0100000000000080"]), "0x8000000000000001\n");
    refuses(&["run", &memory, "--mem-hex", "01"], &["written for 8 bytes of memory, and gets 1"]);
}

#[test]
fn variables_and_maps_have_their_contents_in_every_engine() {
    let Some(firewall) = compiled("packets/firewall") else { return };
    let telnet =
        format!("020000000001 040000000002 86dd 6000000000081140 {} 3039001700080000", "11".repeat(32));
    for engine in engines() {
        let blocked = ["run", "--engine", engine, &firewall, "--mem-hex", &telnet];
        assert_eq!(prints(&blocked), "0x1\n", "{engine}: a port of .rodata");
        // To another port; an address that was not seen passes.
        let again = telnet.replace("0017", "0018");
        let text = prints(&["run", "--engine", engine, &firewall, "--mem-hex", &again, "--repeat", "1"]);
        assert!(text.starts_with("0x2\n"), "{engine}: {text}");
    }
}

#[test]
fn kinds_survive_objects_and_text() {
    let text = "program \"a\" xdp\n     0: r0 = *(u32 *)(r1 + 0xc)\n     1: exit\n\nprogram \"b\" socket
     0: r0 = *(u32 *)(r1 + 0x0)\n     1: exit\n\nprogram \"d\" classifier
     0: r0 = *(u32 *)(r1 + 0xa0)\n     1: exit\n\nprogram \"c\" memory 8\n     0: r0 = r2\n     1: exit\n";
    let (source, object) = (file("kinds.s", text), folder().join("kinds.o").display().to_string());
    assert_eq!(prints(&["asm", &source, "-o", &object]), "");
    let again = prints(&["dis", &object]);
    let without: String =
        again.lines().filter(|line| !line.starts_with(';')).map(|line| format!("{line}\n")).collect();
    assert_eq!(without, text);
    assert!(prints(&["verify", "-v", &object]).contains("r0 = *(u32 *)(r1 + 0xc) ; field ingress_ifindex\n"));
    assert_eq!(prints(&["run", &object, "--program", "c"]), "0x8\n");
    for engine in engines() {
        let run = ["run", &object, "--program", "d", "--engine", engine, "--mem-hex", &"00".repeat(40)];
        assert_eq!(prints(&run), "0x28\n", "{engine}");
    }
}

/// What a program of a field of `task` finds depends on the types that `--btf` names.
#[test]
fn objects_are_adapted_to_the_types_that_are_given() {
    let source = |fields: &str, body: &str| {
        format!(
            "#include \"bpf_helpers.h\"\nstruct task {{ {fields} }} __attribute__((preserve_access_index));\n{body}"
        )
    };
    let body = "SEC(\"uprobe/f\") int f(void *ctx) {
        return __builtin_preserve_field_info(((struct task *)0)->pid, 0); }
        SEC(\"uprobe/g\") int g(void *ctx) { return ((struct task *)ctx)->uid; }";
    let compile = |name: &str, text: String| {
        let (source, object) = (file(&format!("{name}.c"), &text), folder().join(format!("{name}.o")));
        bpf::compile(Path::new(&source), &object).then(|| object.display().to_string())
    };
    let Some(object) = compile("adapted", source("int pid; int uid;", body)) else { return };
    let target = compile("adapted_target", source("long state; int pid;", "struct task one;")).unwrap();
    assert_eq!(prints(&["run", "--btf", &target, &object, "--program", "f"]), "0x8\n");
    refuses(
        &["run", "--btf", &target, &object, "--program", "g"],
        &["what stood here is not to be had", "byte offset of a field: struct task.uid", "adapted.c:"],
    );
    refuses(&["run", "--btf", "/nonexistent", &object, "--program", "f"], &["cannot open /nonexistent"]);
    refuses(
        &["run", "--btf", "/etc/passwd", &object, "--program", "f"],
        &["/etc/passwd: no BTF: the magic is"],
    );
}

#[test]
fn bad_input_is_refused_with_its_place() {
    refuses(&["run", "--program-hex", "b7"], &["1 bytes are no whole number of instructions"]);
    refuses(&["run", "--program-hex", "b"], &["1 hexadecimal digits"]);
    refuses(&["run", "--program-hex", "xy"], &["'x' is no hexadecimal digit"]);
    refuses(&["run", "--program-hex", "b700000001000000"], &["program: instruction 0", "unsafe"]);
    refuses(&["dis", "/nonexistent.o"], &["cannot open /nonexistent.o", "No such file"]);
    refuses(&["dis", &file("bad.s", "program \"p\" probe\nr0 = r77\n")], &["bad.s: line 2: "]);
    let binary = folder().join("binary");
    fs::write(&binary, &fs::read(env!("CARGO_BIN_EXE_weir")).unwrap()[..4096]).unwrap();
    refuses(&["dis", &binary.display().to_string()], &["for machine 62, not for BPF"]);
    fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    refuses(&["verify", &binary.display().to_string()], &["neither an ELF object nor assembly text"]);
    refuses(&["verify", &file("empty.s", "")], &["empty.s is empty"]);
    refuses(&["dis", &file("empty.s", "")], &["empty.s is empty"]);
    refuses(&["verify", &file("nothing.s", "\n")], &["nothing.s has no programs"]);
    refuses(&["run", &file("nothing.s", "\n")], &["nothing.s: it has no programs"]);
    refuses(&["build", "-e", "uprobe:libc:malloc { @x = nosuch(1) }", "-o", "/dev/null"], &["nosuch"]);
}

#[test]
fn what_cannot_be_written_is_the_machines_no() {
    let output = weir(&["build", "-e", "BEGIN { @ = 1 }", "-o", "/nonexistent/x.o"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Scripts that use each kind of map, strings, loops over nothing and several places.
const SCRIPTS: &[(&str, &str)] = &[
    ("count", "uprobe:libc:malloc { @ = count(); }"),
    ("hist", "BEGIN { printf(\"go\\n\"); } uprobe:libc:malloc { @bytes[comm] = hist(arg0); @t = nsecs; }"),
    (
        "strings",
        "uprobe:libc:open,uprobe:libc:openat { printf(\"%s %d\\n\", str(arg0), pid); @[str(arg0)] = sum(1); }",
    ),
    (
        "mixed",
        "uprobe:libc:free /arg0/ { @a[tid] = arg0; @b = max(arg0); @c = avg(arg1); delete(@a[tid]); } END { clear(@a); }",
    ),
];

#[test]
fn built_scripts_verify_and_load_through_libbpf() {
    let tool = bpf::tool();
    for (name, script) in SCRIPTS {
        let object = folder().join(format!("{name}.bpf.o")).display().to_string();
        assert_eq!(prints(&["build", "-e", script, "-o", &object]), "");
        let verdicts = prints(&["verify", &object]);
        assert!(verdicts.lines().all(|line| line.contains(": accepted: ")), "{verdicts}");
        if let Some(loaded) = tool.as_ref().and_then(|tool| bpf::load(tool, Path::new(&object))) {
            let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(loaded.len(), verdicts.lines().count(), "{name}");
        }
    }
    let text = prints(&["dis", &folder().join("count.bpf.o").display().to_string()]);
    let section = text.lines().find(|line| line.starts_with("; section")).unwrap();
    assert!(section.starts_with("; section \"uprobe//") && section.ends_with(":malloc\""), "{section}");
}
