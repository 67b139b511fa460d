//! `--program`: programs of the user's that decide, with maps of their own.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use testkit::{bpf, paths};

use super::{AT_FUNCTION, AT_PROBE, ROUNDS, err, expected, out, program, quoted, refused, weir};

/// Counts, and accepts every second event: by a function of its own, which gets a pointer into its frame.
const HALF: &str = "map seen array key 4 value 8 entries 4
program \"half\" probe
*(u32 *)(r10 - 4) = 0x1
r2 = r10
r2 += -0x4
call count
r0 &= 0x1
exit
count: r1 = map[seen] ll
call map_lookup_elem
if r0 == 0x0 goto none
r1 = 0x1
r1 = atomic_fetch_add((u64 *)(r0 + 0x0), r1)
r0 = r1
none: exit
";

/// Accepts what `work` is called with where the program's own condition `large` holds.
const LARGE: &str = "program \"large\" probe
r0 = 0x0
r2 = *(u64 *)(r1 + 0x68)
w2 = w2
if r2 <= 0xbb8 goto end
r0 = *(u64 *)(r1 + 0x48)
r0 &= 0x1
end: exit
";

/// A file of this test alone: tests run beside each other, in threads and in processes.
fn file(name: &str, contents: &str) -> String {
    let folder = paths::target().join("program-tests");
    fs::create_dir_all(&folder).unwrap();
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let path = folder.join(format!("{process}-{thread:?}-{name}"));
    fs::write(&path, contents).unwrap();
    path.display().to_string()
}

/// What a run with these arguments prints of its maps, by name; the program prints what it prints without weir.
#[track_caller]
fn maps(script: &str, args: &[&str]) -> BTreeMap<String, String> {
    let path = program();
    let script = script.replace("APP", &quoted(&path));
    let file = file("out", "");
    let command = format!("{} {ROUNDS}", quoted(&path));
    let output = weir(&[&["trace", "-q", "-o", &file, "-e", &script, "-c", &command], args].concat());
    assert!(output.status.success(), "{script} {args:?}: {}", err(&output));
    assert_eq!(out(&output), out(&Command::new(&path).arg(ROUNDS).output().unwrap()), "{script}");
    let text = fs::read_to_string(&file).unwrap();
    let row = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(row).collect()
}

#[track_caller]
fn check(script: &str, args: &[&str], want: &[(&str, u64)]) {
    let want = want.iter().map(|(name, count)| ((*name).to_owned(), count.to_string()));
    assert_eq!(maps(script, args), want.collect(), "{script} {args:?}");
}

#[test]
fn a_program_counts_in_its_own_map_and_accepts_every_second_event() {
    let half = file("half.s", HALF);
    for script in [AT_FUNCTION, AT_PROBE] {
        check(script, &["--program", &half], &[("@", 500), ("@seen[1]", 1000)]);
    }
    // As an object too.
    let object = half.replace(".s", ".o");
    assert!(weir(&["bpf", "asm", &half, "-o", &object]).status.success());
    check(AT_FUNCTION, &["--program", &object], &[("@", 500), ("@seen[1]", 1000)]);
}

#[test]
fn it_sees_the_registers_of_the_event() {
    let large = file("large.s", LARGE);
    check(AT_FUNCTION, &["--program", &large], &[("@", expected(&program())["large"])]);
    // rax is the upper half of what is tested where the lower one is 0: results have 32 bits.
    let upper = "program \"upper\" probe\nr0 = 0x100000000 ll\nexit\n";
    check(AT_FUNCTION, &["--program", &file("upper.s", upper)], &[("@", 0)]);
}

#[test]
fn it_is_asked_behind_the_filter_and_before_the_predicate() {
    let half = file("half.s", HALF);
    let negative = expected(&program())["negative"];
    let filter = ["--filter", "delta < 0", "--program", &half];
    check(AT_FUNCTION, &filter, &[("@", negative / 2), ("@seen[1]", negative)]);
    let by_predicate = "uprobe:APP:work /args.delta < 0/ { @ = count(); }";
    assert_eq!(maps(by_predicate, &["--program", &half])["@seen[1]"], "1000");
}

#[test]
fn returns_have_their_own_registers_and_sessions_ask_at_both_ends() {
    let negative = "map seen array key 4 value 8 entries 1\nprogram \"negative\" probe\nr0 = *(u64 *)(r1 + 0x50)\n\
                    r1 = map[seen][0] + 0x0 ll\nr2 = 0x1\nlock *(u64 *)(r1 + 0x0) += r2\nw0 >>= 0x1f\nexit\n";
    let file_of_negative = file("negative.s", negative);
    let back = expected(&program())["back"];
    let at_return = "uretprobe:APP:work { @ = count(); }";
    check(at_return, &["--program", &file_of_negative], &[("@", back), ("@seen[0]", 1000)]);
    let all = file("all.s", &negative.replace("w0 >>= 0x1f", "r0 = 0x1"));
    let pair =
        "uprobe:APP:work { @s[tid] = 1; } uretprobe:APP:work /@s[tid]/ { @ = count(); delete(@s[tid]); }";
    for sessions in [&[][..], &["--no-sessions"]] {
        let args = [&["--program", &all], sessions].concat();
        check(pair, &args, &[("@", 1000), ("@seen[0]", 2000)]);
    }
}

/// What it does to its maps, BTF says what they are: numbers of any size, structs, text, floats, variables, and sums over CPUs.
const TYPED: &str = r#"
#include "bpf_helpers.h"

struct by { char name[8]; unsigned char is_negative; };
struct sums { u32 count; s32 least; u64 sizes; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, struct by); __type(value, struct sums); } kinds SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 8); __type(key, u32); __type(value, u32); } colors SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } unused SEC(".maps");

const volatile u64 most = 3000;
u64 calls;
short step = -3;
struct { u16 low, high; } range = { 65535, 0 };
double half = 0.5;

SEC("uprobe") int decide(struct pt_regs *ctx)
{
	struct by by = {};
	u32 color = ctx->cx, size = ctx->si;
	s32 delta = (signed char)ctx->di;
	calls++;
	range.low = size < range.low ? size : range.low;
	range.high = size > range.high ? size : range.high;
	bpf_probe_read_user_str(by.name, sizeof by.name, (void *)ctx->dx);
	by.is_negative = delta < 0;
	u32 *seen = bpf_map_lookup_elem(&colors, &color);
	if (seen)
		(*seen)++;
	struct sums *sums = bpf_map_lookup_elem(&kinds, &by);
	if (!sums) {
		struct sums none = {};
		bpf_map_update_elem(&kinds, &by, &none, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&kinds, &by);
	}
	if (!sums)
		return 0;
	sums->count++;
	sums->sizes += size;
	if (delta < sums->least)
		sums->least = delta;
	step--;
	return size > most;
}

SEC("xdp") int other(void *ctx)
{
	return bpf_map_lookup_elem(&unused, &(u32){ 0 }) != 0;
}

char LICENSE[] SEC("license") = "GPL";
"#;

#[test]
fn maps_of_compiled_programs_print_as_their_types_say() {
    let (source, object) = (file("typed.c", TYPED), file("typed.o", ""));
    if !bpf::compile(source.as_ref(), object.as_ref()) {
        return;
    }
    // The same in Rust, from what the program passes.
    let names = ["alpha", "beta", "al", "gamma", "alphabe", "", "betas", ""];
    let (mut kinds, mut colors) = (BTreeMap::new(), [0u32; 8]);
    let (mut accepted, mut low, mut high) = (0, u64::MAX, 0);
    for round in 0..1000u64 {
        let (delta, size) = ((round * 5) as i8, round * 977 % 5000);
        let sums = kinds.entry((names[round as usize % 8], u8::from(delta < 0))).or_insert((0, 0, 0));
        *sums = (sums.0 + 1, i8::min(sums.1, delta), sums.2 + size);
        colors[[0, 5, 7][round as usize % 3]] += 1;
        accepted += u64::from(size > 3000);
        (low, high) = (low.min(size), high.max(size));
    }
    let mut want: BTreeMap<String, String> = BTreeMap::new();
    for ((name, is_negative), (count, least, sizes)) in kinds {
        want.insert(format!("@kinds[{name}, {is_negative}]"), format!("({count}, {least}, {sizes})"));
    }
    for color in [0, 5, 7] {
        want.insert(format!("@colors[{color}]"), colors[color].to_string());
    }
    let range = format!("({low}, {high})");
    let rest = [("@calls", "1000"), ("@step", "-1003"), ("@half", "0.5"), ("@range", &range)];
    want.extend(rest.map(|(name, value)| (name.to_owned(), value.to_owned())));
    want.insert("@".to_owned(), accepted.to_string());
    for name in ["decide", "uprobe"] {
        assert_eq!(maps(AT_FUNCTION, &["--program", &format!("{object}:{name}")]), want, "{name}");
    }
    refused_with(
        &object,
        &["it has several programs: name one as in --program FILE:NAME; there are ", "decide"],
    );
    refused_with(
        &format!("{object}:other"),
        &["other: a program of kind `xdp`", "registers (struct pt_regs)", "section `uprobe`"],
    );
}

/// A run with this program is refused before anything is enabled.
#[track_caller]
fn refused_with(file: &str, parts: &[&str]) {
    refused(&["trace", "-e", AT_FUNCTION, "-c", "APP 10", "--program", file], parts);
}

#[test]
fn what_cannot_decide_is_refused() {
    refused_with("nowhere.o", &["cannot open nowhere.o"]);
    refused_with("nowhere.o:decide", &["cannot open nowhere.o:decide"]);
    refused_with(&file("none.s", "map a array key 4 value 8 entries 1\n"), &["it has no programs"]);
    let two = file("two.s", "program \"one\" probe\nr0 = 0\nexit\nprogram \"two\" probe\nr0 = 0\nexit\n");
    refused_with(&two, &["two.s: it has several programs", "--program FILE:NAME", "one, two"]);
    refused_with(&format!("{two}:three"), &["is named `three`; there are one, two"]);
    refused_with(
        &format!("{two}:uprobe"),
        &["several programs are of section `uprobe`: name one of one, two"],
    );
    let packet = file("packet.s", "program \"packet\" xdp\nr0 = 0\nexit\n");
    refused_with(&packet, &["packet.s: packet: a program of kind `xdp`"]);
    let slots = file("slots.s", "program \"slots\" tracepoint\nr0 = 0\nexit\n");
    refused_with(&slots, &["slots: a program of kind `tracepoint`", "write it for section `uprobe`"]);
    let wild =
        file("wild.s", "program \"wild\" probe\nr2 = *(u64 *)(r1 + 0x70)\nr0 = *(u64 *)(r2 + 0x0)\nexit\n");
    refused_with(&wild, &["wild.s: ", "wild", "instruction 1", "r0 = *(u64 *)(r2 + 0x0)"]);
    let ring = "map events ringbuf key 0 value 0 entries 4096\nprogram \"ring\" probe\nr1 = map[events] ll\nr2 = 8\n\
                r3 = 0\ncall ringbuf_reserve\nif r0 == 0 goto end\nr1 = r0\nr2 = 0\ncall ringbuf_discard\nend: r0 = 0\nexit\n";
    refused_with(&file("ring.s", ring), &["map `events` is a ringbuf: nobody would read it"]);
    let deep = "program \"deep\" probe\n*(u64 *)(r10 - 0x200) = 0\nr0 = 1\nexit\n";
    let by_name = AT_FUNCTION.replace("@ =", "@[str(arg2)] =");
    let args = ["trace", "-e", &by_name, "-c", "APP 10", "--program", &file("deep.s", deep)];
    refused(&args, &["bytes of stack, and a program has 0 beside the program that it calls"]);
}

#[test]
fn what_it_cannot_stand_beside_is_refused() {
    let half = file("half.s", HALF);
    let with = |script: &str, parts: &[&str]| {
        refused(&["trace", "-e", script, "-c", "APP 10", "--program", &half], parts);
    };
    with("interval:s:1 { exit(); }", &["--program is for events, and no clause of the script is at one"]);
    with("uprobe:APP:work { @seen = count(); }", &["the script has a map @seen, and so has the program"]);
}

#[test]
fn the_stages_show_it() {
    let script = AT_FUNCTION.replace("APP", &quoted(&program()));
    let half = file("half.s", HALF);
    let stage = |stage: &str| {
        let output = weir(&["trace", "-e", &script, "--program", &half, "--emit", stage]);
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    assert!(stage("ir").contains("= call_program"), "{}", stage("ir"));
    let ebpf = stage("ebpf");
    assert!(ebpf.contains("map seen array") && ebpf.contains("atomic_fetch_add"), "{ebpf}");
    // What is printed is what runs: assembled again it is accepted.
    let again = file("again.s", &ebpf);
    assert!(weir(&["bpf", "verify", &again]).status.success());
}
