//! Planning the patches of real binaries: what people probe first can be probed, and every refusal has its reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weir_probe::plan_functions;
use weir_symbols::{Binary, FunctionKind};

/// Plans every function of the binary; (planned, refused by code).
fn plan_all(path: &Path) -> (usize, BTreeMap<String, usize>) {
    let binary = Binary::open(path).unwrap();
    // An IFUNC symbol is only a resolver.
    let plain = binary.functions().iter().filter(|f| f.kind == FunctionKind::Plain && f.size > 0);
    let sites: Vec<_> = plain.map(|function| (&binary, function)).collect();
    let start = Instant::now();
    let mut refused = BTreeMap::new();
    let mut planned = 0;
    for outcome in plan_functions(&sites) {
        match outcome {
            Ok(_) => planned += 1,
            Err(refusal) => *refused.entry(refusal.code()).or_insert(0) += 1,
        }
    }
    eprintln!(
        "{}: {planned} of {} in {:?}, refused: {refused:?}",
        path.display(),
        sites.len(),
        start.elapsed()
    );
    (planned, refused)
}

#[test]
fn most_functions_of_the_system_can_be_planned() {
    let paths = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/lib/x86_64-linux-gnu/libsqlite3.so.0",
        "/usr/bin/redis-server",
        "/usr/bin/python3",
        "/bin/bash",
    ];
    for path in paths {
        let path = Path::new(path);
        if !path.exists() {
            testkit::skip::skip("plan", format!("{} is not installed", path.display()));
            continue;
        }
        let (planned, refused) = plan_all(path);
        let total = planned + refused.values().sum::<usize>();
        assert!(planned * 100 >= total * 95, "{}: {planned} of {total}: {refused:?}", path.display());
    }
}

#[test]
fn what_people_probe_first_can_be_planned() {
    let cases: [(&str, &[&str]); 3] = [
        (
            "/lib/x86_64-linux-gnu/libc.so.6",
            &["malloc", "free", "calloc", "realloc", "puts", "fopen", "getenv", "strdup", "qsort"],
        ),
        ("/lib/x86_64-linux-gnu/libjemalloc.so.2", &["malloc", "free"]),
        ("/usr/bin/redis-server", &["processCommand"]),
    ];
    for (path, names) in cases {
        let path = Path::new(path);
        if !path.exists() {
            testkit::skip::skip("plan", format!("{} is not installed", path.display()));
            continue;
        }
        let binary = Binary::open(path).unwrap();
        for name in names {
            let function = binary.find(name).unwrap()[0];
            let outcome = &plan_functions(&[(&binary, function)])[0];
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
        }
    }
}

#[test]
fn short_branches_from_around_a_function_are_seen() {
    // `inner` lies inside `outer`, which branches over inner's first instruction; bytes that no symbol names do the
    // same to `lonely`.
    let source = r#"
        __asm__(".text\n"
            ".globl outer\n .type outer, @function\n outer: test %edi, %edi\n je 1f\n nop\n"
            ".globl inner\n .type inner, @function\n inner: push %rbx\n 1: mov $5, %ebx\n pop %rbx\n ret\n"
            ".size inner, . - inner\n .size outer, . - outer\n"
            ".p2align 8\n .byte 0x48, 0xb8\n jmp 2f\n"
            ".globl lonely\n .type lonely, @function\n lonely: push %rbx\n 2: mov $5, %ebx\n pop %rbx\n ret\n"
            ".size lonely, . - lonely\n .p2align 8\n"
            ".globl fine\n .type fine, @function\n fine: push %rbx\n mov $5, %ebx\n pop %rbx\n ret\n"
            ".size fine, . - fine\n .p2align 8\n");
        int main(void) { return 0; }
    "#;
    check("branches", source, &["inner", "lonely"], "fine");
}

#[test]
fn the_second_byte_that_goroutines_return_to_is_seen() {
    let source = r#"
        __asm__(".section .gopclntab,\"a\"\n .quad 0\n .text\n"
            ".globl runtime.goexit.abi0\n .type runtime.goexit.abi0, @function\n"
            "runtime.goexit.abi0: nop\n call next\n nop\n .size runtime.goexit.abi0, . - runtime.goexit.abi0\n .p2align 4\n"
            ".globl next\n .type next, @function\n"
            "next: cmp 16(%r14), %rsp\n jbe next\n nop\n call runtime.goexit.abi0\n nop\n .size next, . - next\n");
        int main(void) { return 0; }
    "#;
    check("goexit", source, &["runtime.goexit.abi0"], "next");
}

/// Something leads into the windows of these functions of the program, and nothing into that of `fine`.
#[track_caller]
fn check(program: &str, source: &str, led_into: &[&str], fine: &str) {
    let path = testkit::target::build(program, testkit::target::Source::Text(source), &[]);
    let binary = Binary::open(&path).unwrap();
    let outcome = |name: &str| {
        let function = binary.find(name).unwrap()[0];
        plan_functions(&[(&binary, function)]).remove(0).map(|_| ()).map_err(|refusal| refusal.code())
    };
    for name in led_into {
        assert_eq!(outcome(name), Err("branch-into-window".to_owned()), "{name}");
    }
    assert_eq!(outcome(fine), Ok(()), "{fine}");
}
