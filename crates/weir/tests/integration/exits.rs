//! Returns of code whose stacks are walked by return addresses: they are caught where functions leave, and walkers see what they expect. A
//! program of our own that walks as runtimes do (and aborts at a return address that is none of its), and Node's builtins.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::paths::quoted;
use testkit::target::{self, Source};
use weir_symbols::Binary;

/// `plain` and `camlTwin__f` are described by the table alone, which says how large their frames are, as in V8 and OCaml; `camlTwin__f` has
/// unwind information besides. Both leave by `ret` for even numbers, else by a jump to another function.
const WALKS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #define WALKED(name, begin, end) __asm__( \
        ".globl " #name ", " #name "_return\n.type " #name ", @function\n" #name ":\n" begin \
        "push %rbx\n sub $16, %rsp\n mov %edi, %ebx\n lea -8(%rsp), %rdi\n call collect\n" \
        #name "_return:\n lea 1(%rbx,%rbx), %eax\n test $1, %bl\n jne 1f\n add $16, %rsp\n pop %rbx\n ret\n" \
        "1: add $16, %rsp\n pop %rbx\n jmp leaves\n" end ".size " #name ", . - " #name "\n")
    #define DRIVER(name) __asm__( \
        ".type drive_" #name ", @function\ndrive_" #name ":\n sub $8, %rsp\n call " #name "\n.globl drive_" #name "_return\n" \
        "drive_" #name "_return:\n add $8, %rsp\n ret\n.size drive_" #name ", . - drive_" #name "\n"); \
        extern char name##_return[], drive_##name##_return[]; int drive_##name(int)
    __asm__(".text\n.type leaves, @function\nleaves: lea 100(%rax), %eax\n ret\n.size leaves, . - leaves\n");
    WALKED(plain, "", "");
    __asm__(".globl camlTwin__code_begin\ncamlTwin__code_begin:\n");
    WALKED(camlTwin__f, ".cfi_startproc\n", ".cfi_endproc\n");
    __asm__(".globl camlTwin__code_end\ncamlTwin__code_end:\n");
    DRIVER(plain);
    DRIVER(camlTwin__f);
    static const struct { const char *at; long frame; } table[] = {
        {plain_return, 24}, {camlTwin__f_return, 24}, {drive_plain_return, 0}, {drive_camlTwin__f_return, 0},
    };
    void collect(const char *sp) {
        for (;;) {
            const char *at = *(const char **)sp;
            size_t n = 0;
            while (n < sizeof table / sizeof *table && table[n].at != at) n++;
            if (n == sizeof table / sizeof *table) abort();
            if (table[n].frame == 0) return;
            sp += 8 + table[n].frame;
        }
    }
    __attribute__((noipa)) long described(long n) { return n * 3; }
    __attribute__((noipa)) long described_too(long n) { return n * 5; }
    int main(void) {
        long sum = 0;
        for (int i = 0; i < 1000; i++) sum += drive_plain(i) + drive_camlTwin__f(i) + described(i) + described_too(i);
        printf("sum=%ld\n", sum);
        return 7;
    }
"#;

fn walks() -> PathBuf {
    target::build("walks", Source::Text(WALKS), &["-O1", "-fcf-protection=none"])
}

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

/// What weir says of the script, in which APP is `file`, on the command; the command's exit code is 7 and it prints what it does untraced.
fn traced(file: &Path, script: &str, command: &str) -> String {
    let script = script.replace("APP:", &format!("{}:", quoted(file)));
    let plain = Command::new("sh").args(["-c", command]).output().unwrap();
    let output = weir(&["trace", "-v", "-e", &script, "-c", command]);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), plain.status.code(), "{script}: {said}");
    assert!(text.contains(&*String::from_utf8_lossy(&plain.stdout)), "{script}: {text}");
    format!("{text}{said}")
}

#[test]
fn walkers_find_the_return_addresses_that_they_expect() {
    let path = walks();
    for function in ["plain", "camlTwin__f"] {
        let script =
            format!("uretprobe:APP:{function} {{ @ = count(); @sum = sum(retval); @least = min(retval); }}");
        let text = traced(&path, &script, &quoted(&path));
        // What a jump to another function hands on is not what that returns.
        for part in ["@: 1000\n", "@sum: 1000000\n", "@least: 1\n", "1000 entries, 1000 returns"] {
            assert!(text.contains(part), "{function}: {part} is not in {text}");
        }
    }
}

#[test]
fn the_time_between_the_two_ends_is_kept_by_the_scripts_map() {
    let path = walks();
    let script = "uprobe:APP:plain { @s[tid] = nsecs; }
        uretprobe:APP:plain /@s[tid]/ { @ = count(); @took = sum(nsecs - @s[tid] > 0); delete(@s[tid]); }";
    let text = traced(&path, script, &quoted(&path));
    assert!(text.contains("@: 1000\n") && !text.contains("@s["), "{text}");
}

#[test]
fn a_return_sees_its_caller_and_the_stack_of_that() {
    let path = walks();
    let script = "uretprobe:APP:plain { @[usym(reg(\"ip\"))] = count(); @sp[reg(\"sp\") % 16] = count(); @stack[ustack(1)] = count(); }";
    let text = traced(&path, script, &quoted(&path));
    // Right behind the call, with the stack pointer that the driver has there.
    for part in ["@[drive_plain]: 1000\n", "@sp[0]: 1000\n", "@stack[\n    drive_plain+9\n]: 1000\n"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn how_each_return_is_caught_is_shown() {
    let path = walks();
    let script =
        ["plain", "camlTwin__f", "described"].map(|name| format!("uretprobe:{}:{name}", quoted(&path)));
    let output = weir(&[
        "trace",
        "--emit",
        "sites",
        "-e",
        &format!("{} {{ @ = count(); }}", script.join(", ")),
        "-c",
        "true",
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    let of = |name: &str| text.lines().filter(|line| line.contains(&format!(":{name} "))).collect::<Vec<_>>();
    for name in ["plain", "camlTwin__f"] {
        assert!(of(name)[0].contains("returns by its exits"), "{text}");
        assert_eq!(of(name).iter().filter(|line| line.contains(": exit: ")).count(), 2, "{text}");
    }
    assert!(of("described")[0].contains("returns by call-through"), "{text}");
    assert!(text.ends_with("3 of 3 functions can be probed\n"), "{text}");
}

/// The file of node that has V8's builtins, with their names.
fn node() -> Option<PathBuf> {
    let found = Command::new("sh").args(["-c", "readlink -f \"$(command -v node)\""]).output().unwrap();
    let path = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    let has_names =
        Binary::open(&path).is_ok_and(|b| b.find("Builtins_StarHandler").is_ok_and(|f| !f.is_empty()));
    if !has_names {
        testkit::skip::skip("node-builtins", "there is no node, or it does not name V8's builtins");
    }
    has_names.then_some(path)
}

/// Objects die young by the hundred thousand while a getter is on the stack; every tenth call of it throws.
const GARBAGE: &str = "
    class P { constructor(i) { this.i = i; } get x() { const a = []; for (let j = 0; j < 200; j++) a.push({ j, s: 's' + j });
        if (this.i % 10 == 0) throw new Error('e'); return a[this.i % 200].j; } }
    function f(o, k) { return o[k]; }
    let sum = 0, thrown = 0;
    for (let r = 0; r < 20; r++) for (let i = 0; i < 300; i++) { try { sum += f(new P(i), 'x'); } catch (e) { thrown++; } }
    console.log(sum, thrown); process.exit(7);";

#[test]
fn node_collects_and_throws_through_builtins_whose_returns_are_counted() {
    let Some(node) = node() else { return };
    let file = testkit::paths::fresh("exits", "garbage.js");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, GARBAGE).unwrap();
    let command = format!("{} --jitless --max-semi-space-size=1 {}", quoted(&node), quoted(&file));
    let handlers = ["GetKeyedPropertyHandler", "StarHandler", "CallProperty1Handler", "JSEntryTrampoline"];
    for handler in handlers {
        let text = traced(&node, &format!("uretprobe:APP:Builtins_{handler} {{ @ = count(); }}"), &command);
        let number = |word: &str| {
            let before = text.lines().find(|line| line.contains(" entries, "))?.split(word).next()?;
            before.rsplit([' ', ',']).find(|word| !word.is_empty())?.parse::<u64>().ok()
        };
        let (entries, returns) = (number(" entries").unwrap(), number(" returns").unwrap());
        // What throws does not return, nor what ends the process.
        let thrown = if handler == "GetKeyedPropertyHandler" { 600 } else { 0 };
        let missed = entries - returns;
        assert!(returns > 10 && (thrown..thrown + 20).contains(&missed), "{handler}: {text}");
    }
}
