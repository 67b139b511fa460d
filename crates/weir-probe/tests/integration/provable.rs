//! Which functions may be called through, and which return to another address: everything that could notice what is kept
//! above it, or its return address, is seen.

use std::path::Path;

use testkit::target::{self, Source};
use weir_probe::{Refusal, Returns, plan_returns};
use weir_symbols::{Binary, Function, FunctionKind};

/// What is said of the function `name`: `through`, `recurs`, `no` (not proved), or the reason's code.
fn outcome(binary: &Binary, name: &str) -> (String, String) {
    let function = binary.find(name).unwrap()[0];
    let planned = plan_returns(&[(binary, function)]).remove(0);
    let detail = planned.as_ref().map_or_else(Refusal::to_string, |_| String::new());
    let short = match planned {
        Ok(Returns::CallThrough { recurs: false }) => "through".into(),
        Ok(Returns::CallThrough { recurs: true }) => "recurs".into(),
        Ok(Returns::Replace) => "replace".into(),
        Ok(Returns::Exits) => "exits".into(),
        Err(Refusal::ReturnUnproved { .. }) => "no".into(),
        Err(refusal) => refusal.code(),
    };
    (short, detail)
}

/// Assembly of a function, and what is to be said of it.
const SNIPPETS: &[(&str, &str, &str)] = &[
    ("leaf", "lea (%rdi,%rdi,2), %eax; ret", "through"),
    ("tiny", "ret", "through"),
    ("endbr", "endbr64; mov %rdi, %rax; ret", "through"),
    ("red_zone", "mov %rdi, -8(%rsp); mov -8(%rsp), %rax; ret", "through"),
    (
        "frame_pointer",
        "push %rbp; mov %rsp, %rbp; sub $32, %rsp; mov %rdi, -8(%rbp); mov -8(%rbp), %rax; leave; ret",
        "through",
    ),
    ("enters", "enter $32, $0; mov %rdi, -8(%rbp); mov -8(%rbp), %rax; leave; ret", "through"),
    (
        "pushes",
        "push %rbx; push %r12; mov %rdi, %rbx; call leaf; mov %rbx, %rax; pop %r12; pop %rbx; ret",
        "through",
    ),
    ("stack_argument", "mov 8(%rsp), %rax; ret", "replace"),
    (
        "stack_argument_late",
        "push %rbx; sub $16, %rsp; mov 32(%rsp), %rax; add $16, %rsp; pop %rbx; ret",
        "replace",
    ),
    ("stack_argument_by_rbp", "push %rbp; mov %rsp, %rbp; mov 16(%rbp), %rax; pop %rbp; ret", "replace"),
    ("stack_argument_written", "movl $1, 12(%rsp); ret", "replace"),
    ("stack_argument_copied", "mov %rsp, %rax; sub $64, %rsp; mov 8(%rax), %rcx; add $64, %rsp; ret", "no"),
    ("straddles", "mov -4(%rsp), %rax; ret", "no"),
    ("below", "mov -8(%rsp), %rax; ret", "through"),
    ("own_return_address", "mov (%rsp), %rax; ret", "no"),
    ("takes_it", "lea 8(%rsp), %rax; ret", "replace"),
    ("takes_its_place", "mov %rsp, %rax; mov %rax, (%rdi); ret", "no"),
    ("stores_its_place", "mov %rsp, (%rdi); ret", "no"),
    ("stores_its_frame", "push %rbp; mov %rsp, %rbp; mov %rbp, (%rdi); pop %rbp; ret", "no"),
    ("pushes_its_place", "push %rsp; pop %rax; ret", "no"),
    ("adds_to_its_place", "add %rsp, %rdi; mov 8(%rdi), %rax; ret", "no"),
    ("passes_its_place", "sub $8, %rsp; lea 8(%rsp), %rdi; call leaf; add $8, %rsp; ret", "no"),
    (
        "keeps_its_height",
        "push %rbp; mov %rsp, %rbp; push %rbx; mov %rsp, %rbx; sub %rdi, %rsp; mov %rsp, %rdi; call leaf; mov %rbx, %rsp; pop %rbx; leave; ret",
        "through",
    ),
    ("takes_a_local", "sub $24, %rsp; lea 8(%rsp), %rdi; call leaf; add $24, %rsp; ret", "through"),
    ("takes_its_frame", "push %rbp; mov %rsp, %rbp; mov %rbp, %rdi; call leaf; pop %rbp; ret", "no"),
    ("indexes_a_local", "sub $24, %rsp; mov (%rsp,%rdi,8), %rax; add $24, %rsp; ret", "through"),
    ("indexes_arguments", "mov 8(%rsp,%rdi,8), %rax; ret", "replace"),
    ("indexes_saved", "push %rbx; push %rbp; mov (%rsp,%rdi,8), %rax; pop %rbp; pop %rbx; ret", "no"),
    ("tails_into_one_that_looks", "mov %rdi, 8(%rsp); jmp own_return_address", "no"),
    ("tails_into_one_that_tails_so", "mov %rdi, 8(%rsp); jmp tails_into_one_that_looks", "no"),
    ("tails_into_another", "mov %rdi, 8(%rsp); jmp stack_argument", "replace"),
    // No stack is used, so it is what it was wherever the jump leads.
    (
        "without_stack",
        "lea 2(%rip), %rax; add %rdi, %rax; jmp *%rax; nop; mov $1, %eax; ret; mov $2, %eax; ret",
        "replace",
    ),
    (
        "without_much_stack",
        "lea 2(%rip), %rax; add %rdi, %rax; jmp *%rax; push %rdi; mov $1, %eax; ret",
        "no",
    ),
    ("pops_it", "pop %rcx; jmp *%rcx", "no"),
    ("pops_it_back", "pop %rcx; push %rcx; ret", "no"),
    ("unbalanced", "push %rdi; ret", "no"),
    ("callee_cleans", "ret $8", "no"),
    ("adds_too_much", "sub $8, %rsp; add $16, %rsp; sub $8, %rsp; ret", "no"),
    (
        "aligns",
        "push %rbp; mov %rsp, %rbp; and $-64, %rsp; sub $64, %rsp; mov %rdi, 32(%rsp); leave; ret",
        "through",
    ),
    (
        "aligns_and_reads",
        "push %rbp; mov %rsp, %rbp; and $-64, %rsp; mov 16(%rbp), %rax; leave; ret",
        "replace",
    ),
    (
        "realigns",
        "lea 8(%rsp), %r10; and $-64, %rsp; push -8(%r10); push %rbp; mov %rsp, %rbp; pop %rbp; lea -8(%r10), %rsp; ret",
        "no",
    ),
    (
        "allocates",
        "push %rbp; mov %rsp, %rbp; sub %rdi, %rsp; mov %rsp, %rdi; call leaf; leave; ret",
        "through",
    ),
    (
        "probes_pages",
        "lea -0x3000(%rsp), %r11; 1: sub $0x1000, %rsp; orq $0, (%rsp); cmp %r11, %rsp; jne 1b; add $0x3000, %rsp; ret",
        "through",
    ),
    ("switches_stacks", "push %rbx; mov %rsp, (%rdi); mov (%rsi), %rsp; pop %rbx; ret", "no"),
    ("pivots", "xchg %rdi, %rsp; xchg %rdi, %rsp; ret", "no"),
    ("moves_rsp_away", "mov %rdi, %rsp; ret", "no"),
    ("tail_to_leaf", "inc %rdi; jmp leaf", "through"),
    ("tail_to_stack_argument", "inc %rdi; jmp stack_argument", "replace"),
    ("tail_of_tail", "test %edi, %edi; je tail_to_stack_argument; ret", "replace"),
    ("tail_elsewhere", "jmp *%rdi", "replace"),
    ("tail_by_memory", "jmp *8(%rdi)", "replace"),
    ("tail_with_frame", "push %rbx; test %edi, %edi; je part_of_it; pop %rbx; ret", "through"),
    ("into_cold", "push %rbx; test %edi, %edi; je into_cold.cold; pop %rbx; ret", "through"),
    ("into_cold.cold", "call leaf; ud2", "return-part"),
    ("part_of_it", "pop %rbx; ret", "no"),
    ("even", "test %edi, %edi; je leaf; dec %edi; jmp odd", "recurs"),
    ("odd", "dec %edi; jns even; ret", "recurs"),
    ("leads_to_even", "jmp even", "through"),
    ("again", "dec %edi; jns again; ret", "recurs"),
    ("loops_inside", "mov $9, %eax; 1: dec %edi; jns 1b; ret", "through"),
    ("calls_its_middle", "push %rbx; call 1f; pop %rbx; ret; 1: mov 16(%rsp), %rax; ret", "no"),
    ("hidden_code", "ret; mov 8(%rsp), %rax; ret", "no"),
    ("never_returns", "sub $8, %rsp; call leaf; nop; ud2", "through"),
    (
        "noreturn_in_the_middle",
        "test %edi, %edi; jne 1f; sub $8, %rsp; call leaf; nopw (%rax); 1: mov %edi, %eax; ret",
        "through",
    ),
    ("system_call", "mov $39, %eax; syscall; ret", "through"),
    ("comes_back_elsewhere", "mov $15, %eax; syscall; ret", "no"),
    (
        "makes_a_thread",
        "mov $56, %eax; syscall; test %eax, %eax; je 1f; ret; 1: pop %rdi; pop %rax; call *%rax; ud2",
        "no",
    ),
    (
        "string_copy",
        "push %rbx; sub $64, %rsp; mov %rsp, %rdi; mov $8, %ecx; rep stosq; add $64, %rsp; pop %rbx; ret",
        "through",
    ),
    ("thread_local", "mov %fs:0x28, %rax; ret", "through"),
    (
        "switch",
        "cmp $2, %edi; ja 1f; lea table(%rip), %rdx; mov %edi, %edi; movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax; \
      1: xor %eax, %eax; ret; 2: mov $5, %eax; ret; 3: jmp leaf; \
      .section .rodata; .balign 4; table: .long 2b-table, 1b-table, 3b-table; .text",
        "through",
    ),
    (
        "switch_to_argument",
        "cmp $1, %edi; ja 1f; lea table2(%rip), %rdx; mov %edi, %edi; movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax; \
      1: xor %eax, %eax; ret; 2: mov 8(%rsp), %rax; ret; \
      .section .rodata; .balign 4; table2: .long 1b-table2, 2b-table2; .text",
        "replace",
    ),
    ("setjmp", "mov %rbx, (%rdi); xor %eax, %eax; ret", "return-blocked"),
];

#[test]
fn assembly_is_proved_or_not() {
    let text: String = SNIPPETS
        .iter()
        .map(|(name, body, _)| {
            let body = body.replace("; ", "\n");
            format!(".globl {name}\n.type {name}, @function\n{name}: .cfi_startproc\n{body}\n.cfi_endproc\n.size {name}, .-{name}\n.balign 16\n")
        })
        .collect();
    let source = format!("__asm__({:?});\nint main(void) {{ return 0; }}\n", format!(".text\n{text}"));
    let path = target::build("provable", Source::Text(&source), &["-O2", "-fPIE", "-pie"]);
    let binary = Binary::open(&path).unwrap();
    let wrong: Vec<String> = SNIPPETS
        .iter()
        .map(|(name, _, expected)| (name, expected, outcome(&binary, name)))
        .filter(|(_, expected, (found, _))| found != *expected)
        .map(|(name, expected, found)| format!("{name}: {expected} expected, {found:?}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Compiled functions; their names say what must be found at any optimisation, by any compiler. With dynamic allocation
/// some of them keep the stack pointer where it is not followed (`maybe`).
const COMPILED: &str = r#"
    #include <alloca.h>
    #include <complex.h>
    #include <stdarg.h>
    #include <string.h>
    struct big { long a[5]; };
    struct pair { long a, b; };
    __attribute__((noinline)) void use(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
    __attribute__((noinline)) int through_six(int a, int b, int c, int d, int e, int f) { return a + b * c - d / (e | 1) + f; }
    __attribute__((noinline)) int replace_seven(int a, int b, int c, int d, int e, int f, int g) { return a + b * c - d / (e | 1) + f * g; }
    __attribute__((noinline)) long replace_by_value(struct big b, long i) { return b.a[i % 5] + b.a[1]; }
    __attribute__((noinline)) struct big through_result(long x) { struct big b; memset(&b, (int)x, sizeof b); return b; }
    __attribute__((noinline)) struct pair through_pair(struct pair p) { return (struct pair) { p.b, p.a }; }
    __attribute__((noinline)) long double through_x87(double x) { return x * 3.5L; }
    __attribute__((noinline)) _Complex double through_complex(_Complex double x) { return x * 2; }
    __attribute__((noinline)) int replace_variadic(int n, ...) {
        va_list list; va_start(list, n); int sum = 0;
        while (n--) sum += va_arg(list, int);
        va_end(list); return sum;
    }
    __attribute__((noinline)) void *no_caller(void) { return __builtin_return_address(0); }
    __attribute__((noinline)) int maybe_alloca(int n) { char *p = alloca(n); use(p); return p[0]; }
    __attribute__((noinline)) int maybe_vla(int n) { int s = 0; for (int i = 1; i < n; i++) { char p[i]; use(p); s += p[0]; } return s; }
    __attribute__((noinline)) int through_aligned(int n) { char p[64] __attribute__((aligned(64))); use(p); return p[n & 63]; }
    __attribute__((noinline)) int through_switch(int n) {
        switch (n) { case 0: return 3; case 1: use(&n); return 9; case 2: return -n; case 3: use(0); return n * 7; case 4: return 77;
                     case 5: return n ^ 3; case 6: use(&n); return 0; default: return n; }
    }
    __attribute__((noinline)) int through_recursion(int n) { return n < 2 ? n : through_recursion(n - 1) + through_recursion(n - 2); }
    int main(int argc, char **argv) {
        struct big b = { { argc } }; struct pair p = { argc, 2 };
        return through_six(argc, 2, 3, 4, 5, 6) + replace_seven(argc, 2, 3, 4, 5, 6, 7) + replace_by_value(b, argc) + through_result(3).a[2]
            + through_pair(p).a + (int)through_x87(argc) + (int)creal(through_complex(argc)) + replace_variadic(argc, 2, 3) + (long)no_caller()
            + maybe_alloca(argc) + maybe_vla(argc) + through_aligned(argc) + through_switch(argc) + through_recursion(argc);
    }
"#;

#[test]
fn compiled_functions_are_proved_or_not() {
    let mut wrong = Vec::new();
    for (variant, path) in target::matrix("provable-compiled", Source::Text(COMPILED), &[]) {
        let binary = Binary::open(&path).unwrap();
        let names = COMPILED.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| {
            ["through_", "replace_", "no_"].iter().any(|kind| word.starts_with(kind))
                && binary.find(word).is_ok()
        });
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12, "{names:?}");
        for name in names {
            let (found, detail) = outcome(&binary, name);
            let expected = name.split('_').next().unwrap_or_default();
            if found != expected {
                wrong.push(format!("{variant:?}: {name}: {found} {detail}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Ways out of a file, in one that calls vfork and one that has its address too.
const WAYS_OUT: &str = r#"
    #include <stdio.h>
    #include <unistd.h>
    #define PROBED __attribute__((noipa))
    PROBED int to_puts(const char *text) { return puts(text); }
    PROBED int to_pointer(int (*f)(int), int n) { return f(n); }
    PROBED int calls_vfork(void) { int pid = vfork(); if (pid == 0) _exit(0); return pid + 1; }
    __asm__(".globl to_vfork\n.type to_vfork,@function\nto_vfork: .cfi_startproc\n mov %rdi,%rax\n jmp vfork@plt\n.cfi_endproc\n.size to_vfork,.-to_vfork");
    __asm__(".globl to_it\n.type to_it,@function\nto_it: .cfi_startproc\n mov %rdi,%rax\n jmp to_vfork\n.cfi_endproc\n.size to_it,.-to_it");
    #ifdef HOLDS
    __typeof__(vfork) *volatile held = vfork;
    #endif
    int main(void) { return to_puts("x") == 77 || to_pointer(getchar, 1) == 77 || calls_vfork() == 77; }
"#;

#[test]
fn ways_out_of_a_file_are_told_by_name() {
    let cases: [(&[&str], &str); 3] = [
        (&["-O2", "-w", "-fPIE", "-pie"], "replace"),
        (&["-O2", "-w", "-fno-pie", "-no-pie"], "replace"),
        (&["-O2", "-w", "-fPIE", "-pie", "-DHOLDS"], "return-blocked"),
    ];
    for (flags, by_pointer) in cases {
        let path = target::build("provable-ways-out", Source::Text(WAYS_OUT), flags);
        let binary = Binary::open(&path).unwrap();
        let found = |name: &str| outcome(&binary, name);
        assert_eq!(found("to_puts").0, "replace", "{flags:?}: {:?}", found("to_puts"));
        assert_eq!(found("to_pointer").0, by_pointer, "{flags:?}: {:?}", found("to_pointer"));
        assert_eq!(found("to_vfork").0, "return-blocked", "{flags:?}: {:?}", found("to_vfork"));
        assert_eq!(found("to_it").0, "return-blocked", "{flags:?}: {:?}", found("to_it"));
        assert_eq!(found("calls_vfork").0, "through", "{flags:?}: {:?}", found("calls_vfork"));
    }
}

#[test]
fn most_functions_of_the_system_are_proved() {
    let cases = [
        ("/lib/x86_64-linux-gnu/libc.so.6", 94),
        ("/bin/bash", 99),
        ("/lib/x86_64-linux-gnu/libsqlite3.so.0", 99),
    ];
    for (path, percent) in cases {
        if !Path::new(path).exists() {
            testkit::skip::skip("plan", format!("{path} is not installed"));
            continue;
        }
        let binary = Binary::open(Path::new(path)).unwrap();
        let plain = |f: &&Function| f.kind == FunctionKind::Plain && f.size > 0;
        let functions: Vec<_> = binary.functions().iter().filter(plain).map(|f| (&binary, f)).collect();
        let proved = plan_returns(&functions).iter().filter(|outcome| outcome.is_ok()).count();
        eprintln!("{path}: {proved} of {}", functions.len());
        assert!(proved * 100 >= functions.len() * percent, "{path}: {proved} of {}", functions.len());
    }
}

/// What a C++ compiler makes of a function with a landing pad: in it, and in a part of its own.
const THROWING: &str = r#"
    struct guard { ~guard() { __asm__ volatile("" : : : "memory"); count++; } static int count; };
    int guard::count;
    __attribute__((noinline)) int leaf(int x) { if (x % 3 == 0) throw x; return x + 1; }
    __attribute__((noinline)) int mid(int x) { guard g; int r = leaf(x); __asm__ volatile("" : "+r"(r)); return r + 1; }
    int main() { int sum = 0; for (int i = 0; i < 9; i++) try { sum += mid(i); } catch (int) { sum--; } return sum; }
"#;

#[test]
fn landing_pads_belong_to_the_function_and_are_none() {
    let path = target::build_with("g++", "provable-throwing", Source::Text(THROWING), &["-O2", "-xc++"]);
    let binary = Binary::open(&path).unwrap();
    assert_eq!(outcome(&binary, "_Z3midi").0, "through");
    assert_eq!(outcome(&binary, "_Z3midi.cold").0, "return-part");
}

/// Functions that end in a jump to one of another file; which may be told by its name.
const LEAVING: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdlib.h>
    #ifdef TAKEN
    void *(*volatile opens)(const char *, int) = dlopen;
    #endif
    __attribute__((noinline)) void replace_free(void *p) { free(p); }
    __attribute__((noinline)) void *blocked_opens(const char *name) { return dlopen(name, RTLD_NOW); }
    __attribute__((noinline)) long pointer_calls(long (*f)(long), long n) { return f(n); }
    int main(int argc, char **argv) { replace_free(0); return blocked_opens(argv[1]) != 0 && pointer_calls(labs, argc); }
"#;

#[test]
fn functions_that_ask_for_their_caller_are_found_through_pointers() {
    let lazily = ["-Wl,-z,lazy"];
    for flags in [&["-fPIE", "-pie"][..], &["-fPIE", "-pie", "-fno-plt"], &["-fno-pie", "-no-pie"]] {
        for taken in [false, true] {
            let more: &[&str] = if taken { &["-DTAKEN"] } else { &[] };
            let flags = [&["-O2"], flags, more, &lazily].concat();
            let binary =
                Binary::open(&target::build("provable-leaving", Source::Text(LEAVING), &flags)).unwrap();
            let found = |name: &str| outcome(&binary, name).0;
            assert_eq!(found("replace_free"), "replace", "{flags:?}");
            assert_eq!(found("blocked_opens"), "return-blocked", "{flags:?}");
            // Without a PLT every function that is called looks as if its address were taken.
            let is_taken = taken || flags.contains(&"-fno-plt");
            let expected = if is_taken { "return-blocked" } else { "replace" };
            assert_eq!(found("pointer_calls"), expected, "{flags:?}");
        }
    }
}
