//! What is refused: the text that the message points at, and the message.

use weir_source::{Diagnostic, Severity};

use crate::language::compile;

fn shown(text: &str, diagnostic: &Diagnostic) -> String {
    let span = diagnostic.span.start as usize..diagnostic.span.end as usize;
    let kind = if diagnostic.severity == Severity::Warning { "warning: " } else { "" };
    format!("`{}`: {kind}{}", &text[span], diagnostic.message)
}

/// The script has exactly these faults: `at: message`. Errors all have a hint.
#[track_caller]
fn script(text: &str, expected: &[&str]) {
    let diagnostics = match compile(text) {
        Ok((_, warnings)) => warnings,
        Err(diagnostics) => diagnostics,
    };
    let found: Vec<String> = diagnostics.iter().map(|d| shown(text, d)).collect();
    assert_eq!(found, expected, "{text}");
    for diagnostic in diagnostics {
        let first = diagnostic.message.chars().next().expect("a message");
        assert!(!first.is_uppercase(), "{}", diagnostic.message);
        assert!(!diagnostic.message.ends_with('.'), "{}", diagnostic.message);
        let from_world =
            diagnostic.message.starts_with("no function") || diagnostic.message.starts_with("no static");
        assert!(diagnostic.hint.is_some() || from_world, "no hint: {}", diagnostic.message);
    }
}

/// A clause at malloc with this body has exactly this fault.
#[track_caller]
fn check(body: &str, expected: &str) {
    script(&format!("uprobe:libc:malloc {{ {body} }}"), &[expected]);
}

/// A clause at BEGIN with this body has exactly this fault.
#[track_caller]
fn begin(body: &str, expected: &str) {
    script(&format!("BEGIN {{ {body} }}"), &[expected]);
}

#[test]
fn there_is_no_command() {
    begin("@ = cpid", "`cpid`: warning: weir starts no command, and `cpid` is 0");
    script("BEGIN { @ = has_cpid }", &[]);
}

#[test]
fn words_that_are_none() {
    check("@ = 1abc", "`1abc`: `1abc` is no number");
    check("@ = 08", "`08`: `08` is no number");
    check("@ = 0x", "`0x`: `0x` is no number");
    check("@ = 1e30", "`1e30`: `1e30` does not fit in 64 bits");
    check(
        "@ = 99999999999999999999",
        "`99999999999999999999`: `99999999999999999999` does not fit in 64 bits",
    );
    check(
        "@ = -9223372036854775809",
        "`-9223372036854775809`: `-9223372036854775809` does not fit in 64 bits",
    );
    check("@ = \"\\q\"", "`\\q`: unknown escape `\\\\q`");
    check("@ = \"\\0\"", "`\\0`: a string cannot hold a NUL byte");
    check("@ = \"\\xff\"", "`\"\\xff\"`: string is not UTF-8");
    check("@ = 'c'", "`'c'`: character literals are not part of the language");
    check("@ = $", "`$`: expected a name after `$`");
    check("@ = $0", "`$0`: `$0` is no parameter");
    check("@ = €", "`€`: unexpected character `€`");
    script("BEGIN { print(\"a\n) }", &["`\"a`: string is not closed"]);
    script("BEGIN { } /* open", &["`/*`: comment is not closed"]);
}

#[test]
fn statements_that_do_not_end() {
    check("print(1) print(2)", "`print`: expected `;` or `}`, found `print`");
    check("@ = 1 @x = 2;", "`@x`: expected `;` or `}`, found `@x`");
    check("@ = (1", "`}`: expected `)` to match `(`, found `}`");
    check("@x[1 = 2", "`=`: expected `]` after the map's key, found `=`");
    check("print(1", "`}`: expected `)` after the arguments of `print`, found `}`");
    script("BEGIN { print(1);", &["`{`: the block is not closed"]);
    script("BEGIN { if (1) { print(1);", &["`{`: the block is not closed"]);
    script("BEGIN print(1)", &["`print`: expected `{`, `,` or `/` after the probe, found `print`"]);
    script("BEGIN { } }", &["``: expected `{`, `,` or `/` after the probe, found the end of the script"]);
}

#[test]
fn statements_that_are_none() {
    check("@ = ", "`}`: expected an expression, found `}`");
    check("@ = 1 +", "`}`: expected an expression, found `}`");
    check("1 = 2", "`=`: only a map or a scratch variable can be assigned to");
    check("pid = 2", "`=`: only a map or a scratch variable can be assigned to");
    check("5++", "`5`: `++` needs a map or a scratch variable");
    check("--pid", "`pid`: `--` needs a map or a scratch variable");
    check("@ = 1 ? 2", "`}`: expected `:` in `condition ? a : b`, found `}`");
    check("@x[] = 1", "`@x[]`: expected a key between `[` and `]`");
    check("@ = ()", "`()`: this expression gives no value");
    check("@ = (a = 1, 2)", "`2`: expected the name of a part, found `2`");
    check("if (1) print(1)", "`print`: expected `{` after the condition of `if`, found `print`");
    check("if (1) { } else print(1)", "`print`: expected `{` after `else`, found `print`");
    check("else { }", "`else`: `else` without an `if`");
    check("let x = 1", "`x`: expected a scratch variable after `let`");
    check("return \"a\"", "`\"a\"`: a probe's block returns an integer, not a string");
    check("@ = if", "`if`: expected an expression, found the keyword `if`");
}

#[test]
fn every_fault_is_told_at_once() {
    script(
        "BEGIN { @x = ; @y = 1 +; print(nope); } END { foo(); @z = \"\\q\"; }",
        &[
            "`;`: expected an expression, found `;`",
            "`;`: expected an expression, found `;`",
            "`nope`: unknown name `nope`",
            "`foo`: unknown function `foo`",
            "`\\q`: unknown escape `\\\\q`",
        ],
    );
    script(
        "kprobe:f { print(1) } uprobe:libc:nope { bar() } tracepoint:a:b { }",
        &[
            "`kprobe`: not supported by weir yet: `kprobe` probes",
            "`uprobe:libc:nope`: no function nope in /lib/libc.so.6",
            "`bar`: unknown function `bar`",
            "`tracepoint`: not supported by weir yet: `tracepoint` probes",
        ],
    );
    // A fault in one place does not make names undefined in another.
    script("BEGIN { @x = 1 +; print(@x) }", &["`;`: expected an expression, found `;`"]);
}

#[test]
fn probes_that_are_none() {
    script("", &["``: the script has no probe"]);
    script("{ print(1) }", &["`{`: expected a probe, found `{`"]);
    script("foo:bar { }", &["`foo`: unknown kind of probe `foo`"]);
    script("uprobr:libc:malloc { }", &["`uprobr`: unknown kind of probe `uprobr`"]);
    script("printf(\"hi\")", &["``: expected `{`, `,` or `/` after the probe, found the end of the script"]);
    script("uprobe { }", &["`uprobe`: `uprobe` needs a binary and a function"]);
    script("uprobe:libc { }", &["`uprobe:libc`: `uprobe` needs a binary and a function"]);
    script("uprobe:libc: { }", &["`uprobe:libc:`: `uprobe` needs a binary and a function"]);
    script("uprobe:nolib:f { }", &["`uprobe:nolib:f`: no such binary: nolib"]);
    script("uprobe:libc:x* { }", &["`uprobe:libc:x*`: no function x* in /lib/libc.so.6"]);
    script("uprobe:libc:malloc+400 { }", &["`uprobe:libc:malloc+400`: no function is so long"]);
    script("uprobe:libc:malloc+ { }", &["`malloc+`: `` is no number"]);
    script("uprobe:libc:+4 { }", &["`+4`: an offset needs the name of one function"]);
    script("uprobe:libc:m*+4 { }", &["`m*+4`: an offset needs the name of one function"]);
    script("uprobe:libc@:5 { }", &["`5`: a source line needs a binary and a file"]);
    script("uprobe:libc@a.c:x { }", &["`x`: `x` is no number"]);
    script("uprobe:libc@a.c:5:1 { }", &["`1`: not supported by weir yet: a column of a source line"]);
    script(
        "uretprobe:libc:malloc+4 { }",
        &["`malloc+4`: `uretprobe` needs a function: an instruction inside one does not return"],
    );
    script("uprobe:libc:cpp:\"a::b\" { }", &["`uprobe:libc:cpp:\"a::b\"`: no function a::b in libc"]);
    script("uprobe:libc:cpp:\"\" { }", &["`uprobe:libc:cpp:\"\"`: `uprobe` needs a binary and a function"]);
    script("uprobe:libc:d:f { }", &["`f`: `f` is no number"]);
    script("BEGIN:x { }", &["`BEGIN:x`: `BEGIN` takes nothing after it"]);
    script("BEGIN, { }", &["`{`: expected a probe, found `{`"]);
    script("interval:s { }", &["`s`: `s` is no number"]);
}

#[test]
fn intervals_that_are_none() {
    script("interval { }", &["`interval`: `interval` needs a unit and a number"]);
    script("interval:5 { }", &["`5`: `interval:5` has no unit"]);
    script("interval:s:0 { }", &["`0`: the interval is too short or too long"]);
    script("interval:hz:0 { }", &["`0`: the interval is too short or too long"]);
    script("interval:hz:10000000 { }", &["`10000000`: the interval is too short or too long"]);
    script(
        "interval:s:99999999999999999 { }",
        &["`99999999999999999`: the interval is too short or too long"],
    );
    script("interval:days:1 { }", &["`days`: `days` is no unit of time"]);
    script("interval:s:x { }", &["`x`: `x` is no number"]);
    script("interval:s:$3 { }", &["`$3`: there is no parameter `$3`: 2 given"]);
}

#[test]
fn probe_kinds_that_are_not_yet_there() {
    for kind in ["kprobe", "kretprobe", "fentry", "tracepoint", "profile", "iter"] {
        let expected = format!("`{kind}`: not supported by weir yet: `{kind}` probes");
        script(&format!("{kind}:a:b {{ }}"), &[&expected]);
    }
}

#[test]
fn what_belongs_to_the_other_end_of_a_call() {
    check(
        "@ = retval",
        "`retval`: `retval` is known when a call has returned, but `uprobe:libc:malloc` runs before",
    );
    script(
        "uretprobe:libc:malloc { @ = arg0; }",
        &["`arg0`: `arg0` is of a call's beginning, but `uretprobe:libc:malloc` runs at its end"],
    );
    script(
        "uprobe:libc:malloc, uretprobe:libc:free { @ = retval; }",
        &["`retval`: `retval` is known when a call has returned, but `uprobe:libc:malloc` runs before"],
    );
    script(
        "END { print(retval); }",
        &["`retval`: `retval` is of the traced process, but `END` runs in weir itself, not in the target"],
    );
    script("uretprobe:libc { }", &["`uretprobe:libc`: `uretprobe` needs a binary and a function"]);
}

#[test]
fn constructs_that_are_not_yet_there() {
    check("@ = args.x", "`args.x`: the arguments of `uprobe:/lib/libc.so.6:malloc` have no names");
    check("@ = args.", "`}`: expected the name of a field, found `}`");
}

#[test]
fn definitions() {
    let text = |definition: &str, wanted: &str| script(&format!("{definition}\nBEGIN {{ }}"), &[wanted]);
    text("macro f { 1 }", "`{`: expected `(` after the name, found `{`");
    text("macro 5() { 1 }", "`5`: expected a name, found `5`");
    text("macro f(x y) { 1 }", "`y`: expected `,` between the parameters, found `y`");
    text("macro f(1) { 1 }", "`1`: `1` is no parameter");
    text("macro f(x) 1", "`1`: expected `{` after the head of the definition, found `1`");
    text("fn f(@x) { return; }", "`@x`: `@x` is no parameter");
    text("fn f(x) { return; }", "`x`: `x` is no parameter");
    text("fn f(): 5 { return; }", "`5`: expected a type, found `5`");
    text("import lib;", "`lib`: expected a path in quotes after `import`");
    text("import \"lib.bt\";", "`\"lib.bt\"`: cannot import: `lib.bt` cannot be found");
    text("let $x = hash(1);", "`$x`: expected a map after `let`, outside of clauses");
    text("let @x = 5;", "`5`: expected a name, found `5`");
    text("let @x = hash(5)", "`BEGIN`: expected `;` after the declaration, found `BEGIN`");
    text("let @x = hash(pid);", "`pid`: `hash` takes a constant from 1 to 1048576");
    text("let @x = hash();", "`hash`: `hash` takes a constant from 1 to 1048576");
    check("$x = { 1; }", "`{ 1; }`: the block gives no value");
    check("$x = { $y = 1; $y }; print($y)", "`$y`: undefined variable: `$y`");
    check("return (1, 2)", "`(1, 2)`: a probe's block returns an integer, not a (int64, int64)");
    check("if comptime (pid) { }", "`pid`: the condition of `if comptime` is no constant");
}

#[test]
fn entries_of_maps() {
    check("for ($kv : @x) { print($kv) }", "`@x`: undefined map: `@x`");
    check("@x = 1; for ($kv : @x) { }", "`@x`: `@x` has no keys");
    check("@x[1] = hist(1); for ($kv : @x) { }", "`@x`: `@x` holds hist and has no single value");
    check(
        "@x[1] = 1; for ($kv : @x) { $kv = 1 }",
        "`1`: cannot assign int64 to `$kv`, which is (int64, int64)",
    );
    check("@x[1] = 1; print(len(@x[1]))", "`@x[1]`: `len` takes a map without a key, or `ustack`");
    check("@ = len(arg0)", "`arg0`: `len` takes a map without a key, or `ustack`");
}

#[test]
fn memory_by_type() {
    let known = |text: &str| {
        format!("struct x {{ int y; struct x *next; int list[4]; int : 3; int bits : 2; }};\n{text}")
    };
    let within = |body: &str, wanted: &str| {
        script(&known(&format!("uprobe:libc:malloc {{ {body} }}")), &[wanted]);
    };
    check("@ = ((struct x *)arg0)->y", "`(struct x *)arg0`: nothing is known of `struct x` but its name");
    check("@ = sizeof(struct x)", "`struct x`: nothing is known of `struct x` but its name");
    check("@ = *comm", "`comm`: `*` takes a pointer or what one leads to, not a string");
    check("@ = arg0->x", "`arg0`: `.x` takes a pointer or what one leads to, not a uint64");
    check("@ = arg0[1]", "`arg0`: `[…]` takes a pointer or what one leads to, not a uint64");
    check("@ = *(void *)arg0", "`*(void *)arg0`: `void` has no value");
    check("@ = (foo *)arg0", "`foo *`: unknown type `foo`");
    check("@ = (uint32_tt *)arg0", "`uint32_tt *`: unknown type `uint32_tt`");
    check("@ = (unsigned signed)arg0", "`unsigned signed`: `unsigned signed` is no type");
    check("@ = (struct)arg0", "`)`: expected a name after `struct`, found `)`");
    check("@ = (uint8[x])arg0", "`x`: expected a number of elements, found `x`");
    check("@ = strcontains(comm, pid)", "`pid`: `strcontains` looks in strings, not in a uint64");
    check(
        "@ = memcmp((uint8 *)arg0, comm, 3)",
        "`(uint8 *)arg0`: `memcmp` takes strings, arrays and buffers, not a pointer",
    );
    check("join((int32 *)arg0)", "`(int32 *)arg0`: `join` takes an array of pointers to strings");
    check("@ = buf(arg0)", "`buf(arg0)`: `buf` of an address takes how many bytes it is to read");
    check("@ = ntop(comm)", "`comm`: `ntop` takes an integer, or 4 or 16 bytes, not a string");
    check("@ = ntop(comm, 1)", "`comm`: the family of `ntop` takes an integer, not a string");
    check(
        "@ = ntop((uint8 *)arg0)",
        "`(uint8 *)arg0`: `ntop` takes an integer, or 4 or 16 bytes, not a pointer",
    );
    check("@ = macaddr(1)", "`1`: `macaddr` takes 6 bytes, not an integer");
    check("@ = bswap(comm)", "`comm`: `bswap` takes an integer, not a string");
    within(
        "@ = ntop(*(struct x *)arg0)",
        "`*(struct x *)arg0`: `ntop` takes an integer, or 4 or 16 bytes, not 40 bytes",
    );
    within(
        "@ = macaddr(((struct x *)arg0)->list)",
        "`((struct x *)arg0)->list`: `macaddr` takes 6 bytes, not 16 bytes",
    );
    check(
        "$t = (1, (2, (3, (4, (5, (6, (7, (8, (9, 10)))))))))",
        "`(1, (2, (3, (4, (5, (6, (7, (8, (9, 10)))))))))`: the tuple has 10 parts in 9 levels",
    );
    check(
        "@ = (1, 2); @ = (1, \"a\")",
        "`(1, \"a\")`: cannot assign (int64, string) to `@`, which holds (int64, int64)",
    );
    check("@ = strftime(comm, nsecs)", "`comm`: the format of `strftime` must be a string literal");
    check("@ = strerror(comm)", "`comm`: `strerror` takes an integer, not a string");
    check(
        "printf(\"%d\", username)",
        "`username`: argument 1 of `printf` is a user name, but `%d` takes an integer",
    );
    check("@ = (uint8[9])arg0", "`uint8[9]`: not supported by weir yet: a cast to uint8[9]");
    check("let $x: strings = \"a\"", "`strings`: unknown type `strings`");
    check("@ = ((int32 *)comm)", "`comm`: a cast to int32 * takes an integer, not a string");
    check("@ = ((uint8 *)arg0)->", "`}`: expected the name of a member, found `}`");
    check("@ = ((uint8 *)arg0)[1", "`}`: expected `]` after the index, found `}`");
    check("@ = ((uint8 *)arg0)[comm]", "`comm`: an index takes an integer, not a string");
    check("@ = ((uint8 *)arg0)->a", "`a`: `uint8` has no members");
    within("@ = ((struct x *)arg0)->z", "`z`: `struct x` has no member `z`");
    within("@ = ((struct x *)arg0)->list[4]", "`4`: index 4 is past the end of `int32[4]`");
    within("@ = ((struct x *)arg0)->list[-1]", "`-1`: index -1 is past the end of `int32[4]`");
    within("@ = ((struct x *)arg0)->list + 1", "`+`: `+` cannot be used on int32[4] and int64");
    within(
        "$x = *(struct x *)arg0; $y = $x.list[pid]",
        "`pid`: not supported by weir yet: a computed index of an array that is kept",
    );
    within("$x = *(struct x *)arg0; $y = $x.list[4]", "`4`: index 4 is past the end of `int32[4]`");
    within(
        "$x = *(struct x *)arg0; printf(\"%d\", $x)",
        "`$x`: argument 1 of `printf` is a struct x, but `%d` takes an integer",
    );
    within("@ = *(struct x *)arg0; @ = 1", "`1`: cannot assign int64 to `@`, which holds struct x");
    script(
        "struct big { char x[2000]; int y[1]; };\nuprobe:libc:malloc { @ = *(struct big *)arg0 }",
        &["`*(struct big *)arg0`: `struct big` has 2004 bytes, more than the 1024 that a value may have"],
    );
    within("@ = (struct x)arg0", "`struct x`: a cast to struct x is none to a number or a pointer");
    within("@ = offsetof(struct x, a.b)", "`a`: `struct x` has no member `a`");
    within("@ = offsetof(struct x, bits)", "`bits`: a bit-field has no offset in bytes");
    within(
        "@ = (struct x *)arg0; @ = (int8 *)arg1",
        "`(int8 *)arg1`: cannot assign pointer to int8 to `@`, which holds pointer to struct x",
    );
    script(
        &known("BEGIN { @ = ((struct x *)16)->y }"),
        &[
            "`((struct x *)16)->y`: `->y` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
        ],
    );
}

#[test]
fn c_text() {
    let text = |c: &str, wanted: &str| script(&format!("{c}\nBEGIN {{ }}"), &[wanted]);
    text("#include <x.h>", "`#include <x.h>`: the header `x.h` cannot be found");
    text("#include x.h", "`#include x.h`: `#include` takes a file");
    text("#define", "`#define`: `#define` takes a name");
    text("#define F(a", "`#define F(a`: the parameters of the macro are not closed");
    text("#if 1 +\n#endif", "`#if 1 +`: the condition is no integer constant expression");
    text("#if 1", "`#if 1`: `#if` without `#endif`");
    text("#endif", "`#endif`: `#endif` without `#if`");
    text("#error of mine", "`#error of mine`: #error of mine");
    text("#nothing", "`#nothing`: unknown directive `#nothing`");
    text("struct x { int y }", "`}`: expected `;` after the member, found `}`");
    text("struct x { foo y; };", "`foo`: unknown type `foo`");
    text("struct x { struct y z; };", "`;`: the member `z` is of a type without a size: `struct y`");
    text("struct x { int a[n]; };", "`;`: the size of the array is no constant: `n`");
    text("struct x { int a : 40; };", "`;`: the bit-field `a` does not fit in its type");
    text("struct x { int a : 400; };", "`;`: the width of a bit-field is a constant from 0 to 64");
    text("struct x { int a; };\nstruct x { int b; };", "`{`: `struct x` is declared twice");
    text("enum e { A = b };", "`}`: the value of `A` is no constant");
    script("BEGIN { }\n#define X 1\nEND { }", &["`#`: the C text must stand before all probes"]);
    script("#define X comm\nBEGIN { print(X) }", &["`X`: the macro `X` is no constant: `comm`"]);
    script("#define XYZZY 1\nBEGIN { print(XYZZI) }", &["`XYZZI`: unknown name `XYZZI`"]);
}

#[test]
fn loops() {
    check("break", "`break`: `break` outside of a loop");
    check("if (1) { continue }", "`continue`: `continue` outside of a loop");
    check("while (\"a\") { }", "`\"a\"`: the condition of `while` takes an integer, not a string");
    check("while 1 print(1)", "`print`: expected `{` after the condition of `while`, found `print`");
    check("while (1) { let $x = 1; } print($x)", "`$x`: undefined variable: `$x`");
    check("for (@x : 0..1) { }", "`@x`: expected a scratch variable after `for`");
    check("for ($i 0..1) { }", "`0`: expected `:` after the variable of `for`, found `0`");
    check("for ($i : 5) { }", "`)`: expected `..` between the ends of the range, found `)`");
    check("for ($i : 0..5 { }", "`{`: expected `)` after what `for` goes over, found `{`");
    check("for ($i : 0..\"a\") { }", "`\"a\"`: an end of a range takes an integer, not a string");
    check("for ($i : 0..5) { } print($i)", "`$i`: undefined variable: `$i`");
    check("$i = 1; for ($i : 0..5) { }", "`$i`: `$i` is already declared");
    check("for ($i : 0..5) { $i = \"a\" }", "`\"a\"`: cannot assign string to `$i`, which is int64");
    check("unroll(0) { }", "`0`: `unroll` takes a constant from 1 to 100");
    check("unroll(101) { }", "`101`: `unroll` takes a constant from 1 to 100");
    check("unroll(arg0) { }", "`arg0`: `unroll` takes a constant from 1 to 100");
    check("@ = while", "`while`: expected an expression, found the keyword `while`");
    script(
        "config = { max_loop_iterations = 0 }\nBEGIN { }",
        &["`0`: `max_loop_iterations` must be a number from 1 to 8388608"],
    );
}

#[test]
fn names_that_are_not_yet_there() {
    for name in ["kstack", "curtask", "ppid"] {
        check(&format!("@ = {name}"), &format!("`{name}`: not supported by weir yet: the builtin `{name}`"));
    }
    check("@ = kaddr(\"avenrun\")", "`kaddr`: not supported by weir yet: the function `kaddr`");
    for name in ["ksym", "uaddr"] {
        check(
            &format!("@ = {name}(arg0)"),
            &format!("`{name}`: not supported by weir yet: the function `{name}`"),
        );
    }
}

#[test]
fn names_that_are_unknown() {
    check("@ = foo", "`foo`: unknown name `foo`");
    check("foo(1)", "`foo`: unknown function `foo`");
    check("@ = count", "`count`: `count` is a function");
    check("@ = $y", "`$y`: undefined variable: `$y`");
    check("$y += 1", "`$y`: undefined variable: `$y`");
    check("$y++", "`$y`: undefined variable: `$y`");
    check("print(@y)", "`@y`: undefined map: `@y`");
    check("@ = @y", "`@y`: undefined map: `@y`");
    check("clear(@y)", "`@y`: undefined map: `@y`");
    check("delete(@y[1])", "`@y`: undefined map: `@y`");
    check("@ = has_key(@y, 1)", "`@y`: undefined map: `@y`");
}

#[test]
fn slips_are_corrected() {
    let hint = |text: &str| compile(text).expect_err(text)[0].hint.clone().unwrap_or_default();
    assert_eq!(hint("BEGIN { prinft(\"x\") }"), "did you mean `printf`?");
    assert_eq!(hint("BEGIN { @ = cout() }"), "did you mean `count`?");
    assert_eq!(hint("BEGIN { @ = nsec }"), "did you mean `nsecs`?");
    assert_eq!(hint("BEGIN { @start = 1; @ = @strat }"), "did you mean `@start`?");
    assert_eq!(hint("BEGIN { $count = 1; @ = $coutn }"), "did you mean `$count`?");
    assert_eq!(hint("BEGINN { }"), "did you mean `begin`?");
    assert_eq!(hint("config = { max_strlne = 5 } BEGIN { }"), "did you mean `max_strlen`?");
}

#[test]
fn variables_out_of_scope() {
    check("if (1) { let $x = 1; } print($x)", "`$x`: undefined variable: `$x`");
    check("for ($x : 0..2) { } print($x)", "`$x`: undefined variable: `$x`");
    check("print($x); if (1) { $x = 1 }", "`$x`: undefined variable: `$x`");
    check(
        "if (1) { $x = 1 } print($x)",
        "`$x`: warning: `$x` is read after the block that it is assigned in",
    );
    check("let $x; if (1) { let $x = 1; }", "`$x`: `$x` is already declared");
    check("$x = 1; let $x", "`$x`: `$x` is already declared");
    check("let $x; print($x)", "`$x`: the type of `$x` cannot be found out");
    script("BEGIN { $x = 1 } END { print($x) }", &["`$x`: undefined variable: `$x`"]);
}

#[test]
fn types_that_differ() {
    check("$x = 1; $x = \"a\"", "`\"a\"`: cannot assign string to `$x`, which is int64");
    check("@x = 1; @x = \"a\"", "`\"a\"`: cannot assign string to `@x`, which holds int64");
    check("@x = 1; @x = count()", "`count()`: cannot assign count to `@x`, which holds int64");
    check("@x = count(); @x = sum(1)", "`sum(1)`: cannot assign sum to `@x`, which holds count");
    check("@x = count(); @x++", "`@x`: `++` takes an integer, but `@x` holds count");
    check("@x = count(); @x += 1", "`@x`: `@x` holds count, which only its function changes");
    check("@x = \"a\"; @x++", "`@x`: `++` takes an integer, but `@x` holds string");
    check("@x = \"a\"; @x += 1", "`@x += 1`: `+` cannot be used on string and int64");
    check("@x = lhist(1, 0, 10, 1); @x = lhist(1, 0, 20, 1)", "`lhist(1, 0, 20, 1)`: `@x` has other bounds");
    check("@x = count(); @y = @x", "`@x`: a count cannot be assigned from one map to another");
    check("@x = hist(1); @y = @x", "`@x`: `@x` holds hist and has no single value");
    check("@x = stats(1); if (@x) { }", "`@x`: `@x` holds stats and has no single value");
    check("@x = 1 ? 1 : \"a\"", "`1 ? 1 : \"a\"`: the sides of `?:` differ: int64 and string");
    check("@x = 1 ? 1 : exit()", "`1 ? 1 : exit()`: one side of `?:` gives a value, the other does not");
}

#[test]
fn keys_that_differ() {
    check(
        "@x[1] = 1; @x[comm] = 1",
        "`@x[comm]`: `@x` is used with the key string, but it has the key int64",
    );
    check(
        "@x[1] = 1; @x[1, 2] = 1",
        "`@x[1, 2]`: `@x` is used with the key (int64, int64), but it has the key int64",
    );
    check("@x[1] = 1; @x = 1", "`@x`: `@x` is used with no key, but it has the key int64");
    check("@x = 1; @x[1] = 1", "`@x[1]`: `@x` is used with the key int64, but it has no key");
    check(
        "@x[1] = 1; delete(@x, comm)",
        "`comm`: `@x` is used with the key string, but it has the key int64",
    );
    check(
        "@x[func] = 1; @x[probe] = 1",
        "`@x[probe]`: `@x` is used with the key probe name, but it has the key function name",
    );
    check("@x[1] = 1; printf(\"%d\", @x)", "`@x`: `@x` is used with no key, but it has the key int64");
}

#[test]
fn a_fault_about_a_map_shows_its_first_use() {
    let text = "BEGIN { @x = 1; } END { @x = \"a\" }";
    let diagnostics = compile(text).expect_err(text);
    let label = &diagnostics[0].labels[0];
    assert_eq!(&text[label.span.start as usize..label.span.end as usize], "1");
    assert_eq!(label.text, "first assigned int64 here");
    let text = "BEGIN { @x[1] = 1; } END { @x[comm] = 2 }";
    let diagnostics = compile(text).expect_err(text);
    let label = &diagnostics[0].labels[0];
    assert_eq!(&text[label.span.start as usize..label.span.end as usize], "@x[1]");
}

#[test]
fn operands_that_do_not_fit() {
    check("@ = 1 + \"a\"", "`+`: `+` cannot be used on int64 and string");
    check("@ = comm + comm", "`+`: `+` cannot be used on string and string");
    check("@ = comm < comm", "`<`: `<` cannot be used on string and string");
    check("@ = comm == 1", "`==`: `==` cannot be used on string and int64");
    check("@ = comm && 1", "`&&`: `&&` cannot be used on string and int64");
    check("@ = !comm", "`comm`: `!` takes an integer, not a string");
    check("@ = -func", "`func`: `-` takes an integer, not a function name");
    check("@ = (int64)comm", "`comm`: a cast to int64 takes an integer, not a string");
    check("if (comm) { }", "`comm`: the condition of `if` takes an integer, not a string");
    check("@ = comm ? 1 : 2", "`comm`: the condition of `?:` takes an integer, not a string");
    check("$x = comm; $x++", "`$x`: `++` takes an integer, not a string");
    check("@ = func == comm", "`==`: `func` and `probe` can only be compared with a string literal");
    check("@ = func == probe", "`==`: `==` cannot be used on function name and probe name");
    check("@ = func == 1", "`==`: `==` cannot be used on function name and int64");
    check("@ = (1, 2) == (1, \"a\")", "`==`: `==` cannot be used on (int64, int64) and (int64, string)");
    check("@ = pid.0", "`pid.0`: a uint64 has no parts");
    check("$t = (1, 2); @ = $t.2", "`$t.2`: the tuple has no part 2: it has 2");
    script("BEGIN /comm/ { }", &["`comm`: a predicate takes an integer, not a string"]);
}

#[test]
fn functions_used_wrongly() {
    check("@ = count(1)", "`count`: `count` takes no argument, but 1 is given");
    check("@ = sum()", "`sum`: `sum` takes 1 argument, but none is given");
    check("@ = lhist(1, 2, 3)", "`lhist`: `lhist` takes 4 arguments, but 3 are given");
    check("@ = sum(comm)", "`comm`: `sum` takes an integer, not a string");
    check("count()", "`count()`: `count()` must be assigned directly to a map");
    check("$x = count()", "`count()`: `count()` must be assigned directly to a map");
    check("@x += count()", "`count()`: `count()` must be assigned directly to a map");
    check("@ = print(1)", "`print(1)`: `print()` gives no value");
    check("print(exit())", "`exit()`: `exit()` gives no value");
    check("printf()", "`printf`: `printf` takes at least 1 argument, but none is given");
    check("print(1, 2)", "`2`: `print` of a value takes no further argument");
    check("@x[1] = 1; print(@x[1], 2)", "`2`: `print` of an entry of a map takes no further argument");
    check("@x = count(); print(@x, pid)", "`pid`: `top` of `print` must be a constant from 0 to 4294967295");
    check("@x = 1; print(@x, 1, 2, 3)", "`print`: `print` takes at most 3 arguments, but 4 are given");
    check("clear(1)", "`1`: `clear` takes a map");
    check("@x[1] = 1; clear(@x[1])", "`@x[1]`: `clear` takes a whole map");
    check("@x[1] = 1; delete(@x)", "`@x`: `@x` has keys, and `delete` removes one");
    check(
        "@x[1] = 1; delete(@x[1], 1)",
        "`@x[1]`: `delete` takes the map without a key where the key is its second argument",
    );
    check(
        "@x[1] = 1; delete(@x[1], @x[2], @x[3])",
        "`delete`: `delete` takes at most 2 arguments, but 3 are given",
    );
    check("@x = 1; @ = has_key(@x, 1)", "`@x`: `@x` has no keys");
    check(
        "@x[1] = 1; @ = has_key(@x[1], 1)",
        "`@x[1]`: `has_key` takes the map without a key as its first argument",
    );
    check("exit(comm)", "`comm`: `exit` takes an integer, not a string");
    check("@ = pid(1)", "`1`: `pid` takes no argument");
    check("@ = nsecs(foo)", "`foo`: unknown clock `foo`");
}

#[test]
fn str_used_wrongly() {
    check("@ = str(comm)", "`comm`: `str` takes an integer, not a string");
    check("@ = str(arg0, comm)", "`comm`: the length of `str` takes an integer, not a string");
    check("@ = str(arg0, -1)", "`-1`: the length of `str` cannot be negative: -1");
    check("@ = str(arg0, 5000)", "`5000`: warning: the length 5000 is above the limit of 1024");
    check("@ = $2", "`$2`: the parameter `$2` is no number");
    let long = "x".repeat(2000);
    let expected = format!("`\"{long}\"`: string is too long: 2000 bytes, the limit is 1023");
    check(&format!("@ = \"{long}\""), &expected);
}

#[test]
fn lhist_bounds() {
    check("@ = lhist(1, 0, pid, 1)", "`pid`: `max` of `lhist` must be a constant");
    check("@ = lhist(1, 10, 10, 1)", "`10`: `max` of `lhist` must be above `min`, but 10 is not above 10");
    check("@ = lhist(1, 0, 10, 0)", "`0`: `step` of `lhist` must be at least 1, not 0");
    check("@ = lhist(1, 0, 10, 20)", "`20`: `step` of `lhist` is larger than the range: 20 for 10");
    check("@ = lhist(1, 0, 1001, 1)", "`lhist(1, 0, 1001, 1)`: too many buckets: 1001, the limit is 1000");
    check("@ = hist(1, 6)", "`6`: the second argument of `hist` must be a constant from 0 to 5");
}

#[test]
fn formats() {
    check("printf(comm)", "`comm`: the format of `printf` must be a string literal");
    check("printf(\"%d\")", "`\"%d\"`: the format takes 1 argument, but none is given");
    check("printf(\"%d\", 1, 2)", "`2`: the format takes 1 argument, but 2 are given");
    check("printf(\"%s\", 1)", "`1`: argument 1 of `printf` is an int64, but `%s` takes a string");
    check(
        "printf(\"%d %d\", 1, comm)",
        "`comm`: argument 2 of `printf` is a string, but `%d` takes an integer",
    );
    check(
        "printf(\"%d\", func)",
        "`func`: argument 1 of `printf` is a function name, but `%d` takes an integer",
    );
    check(
        "printf(\"%s\", (1, 2))",
        "`(1, 2)`: argument 1 of `printf` is a (int64, int64), but `%s` takes a string",
    );
    check("printf(\"%y\", 1)", "`\"%y\"`: unknown conversion `%y` (a per cent sign is `%%`)");
    check("printf(\"%a\", 1)", "`\"%a\"`: the conversion `%a` is not supported by weir yet");
    check("printf(\"100%\")", "`\"100%\"`: the format ends within a conversion (a per cent sign is `%%`)");
}

#[test]
fn what_is_of_the_target() {
    begin(
        "@ = arg0",
        "`arg0`: `arg0` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
    );
    begin(
        "@ = func",
        "`func`: `func` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
    );
    begin(
        "@ = str(5)",
        "`str(5)`: `str` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
    );
    script(
        "interval:s:1 { @ = arg1 }",
        &[
            "`arg1`: `arg1` is of the traced process, but `interval:s:1` runs in weir itself, not in the target",
        ],
    );
    script(
        "uprobe:libc:malloc, END { @ = arg1 }",
        &["`arg1`: `arg1` is of the traced process, but `END` runs in weir itself, not in the target"],
    );
    script("BEGIN { @ = pid; @x = comm; @y = nsecs; @z = probe }", &[]);
}

#[test]
fn signs_that_differ_warn() {
    check(
        "$x = -1; @ = arg0 > $x",
        "`>`: warning: comparison of integers of different signs: uint64 and int64",
    );
    check(
        "$x = -1; @ = arg0 + $x",
        "`+`: warning: arithmetic on integers of different signs: uint64 and int64",
    );
    check("@ = arg0 > -5", "`>`: warning: comparison of integers of different signs: uint64 and int64");
    check("@ = 5 / 0", "`0`: warning: division by zero");
    script("uprobe:libc:malloc { @ = arg0 > 5; @x = 5 + arg0; @y = nsecs - 1; @z = pid == $1 }", &[]);
    script("uprobe:libc:malloc { $x = -1; @ = arg0 & $x; @y = arg0 << $x; @z = (int64)arg0 > $x }", &[]);
}

#[test]
fn settings() {
    script("config = { foo = 1 } BEGIN { }", &["`foo`: unknown setting `foo`"]);
    script(
        "config = { cpp_demangle = maybe } BEGIN { }",
        &["`maybe`: `cpp_demangle` must be `true` or `false`"],
    );
    script(
        "config = { max_strlen = 1000000 } BEGIN { }",
        &["`1000000`: `max_strlen` must be a number from 8 to 4096"],
    );
    script(
        "config = { max_map_keys = 0 } BEGIN { }",
        &["`0`: `max_map_keys` must be a number from 1 to 1048576"],
    );
    script(
        "config = { missing_probes = maybe } BEGIN { }",
        &["`maybe`: `missing_probes` must be `error`, `warn` or `ignore`"],
    );
    script(
        "config = { max_strlen 5 } BEGIN { }",
        &["`5`: expected `=` after the name of a setting, found `5`"],
    );
    script(
        "BEGIN { } config = { max_strlen = 50 }",
        &["`config = { max_strlen = 50 }`: the config block must come first, and once"],
    );
    script(
        "config = { max_probes = 2 } uprobe:libc:* { }",
        &["`uprobe:libc:*`: too many places to probe: 4, the limit is 2"],
    );
    script(
        "config = { max_strlen = 16 } BEGIN { @ = \"0123456789abcdef\" }",
        &["`\"0123456789abcdef\"`: string is too long: 16 bytes, the limit is 15"],
    );
    script(
        "config = { missing_probes = warn } uprobe:libc:nope { }",
        &[
            "`uprobe:libc:nope`: warning: no function nope in /lib/libc.so.6",
            "`uprobe:libc:nope { }`: none of the script's probes attaches to anything",
        ],
    );
}

#[test]
fn bounds() {
    let deep = format!("BEGIN {{ @ = {}1{} }}", "(".repeat(1000), ")".repeat(1000));
    let long = format!("BEGIN {{ @ = 1{} }}", " + 1".repeat(1000));
    let blocks = format!("BEGIN {{ {}{} }}", "if (1) { ".repeat(1000), "}".repeat(1000));
    let chain = format!("BEGIN {{ if (1) {{ }} {} }}", "else if (1) { }".repeat(1000));
    let prefix = format!("BEGIN {{ @ = {}1 }}", "!".repeat(1000));
    for text in [deep, long, blocks, chain, prefix] {
        let diagnostics = compile(&text).expect_err("a bound");
        assert!(diagnostics[0].message.contains("too deeply nested"), "{:?}", diagnostics[0]);
        assert_eq!(diagnostics.len(), 1, "{diagnostics:#?}");
    }
    let maps: String = (0..300).map(|n| format!("@m{n} = 1; ")).collect();
    assert!(
        compile(&format!("BEGIN {{ {maps} }}")).expect_err("a bound")[0].message.contains("too many maps")
    );
    let variables: String = (0..300).map(|n| format!("$v{n} = 1; ")).collect();
    let diagnostics = compile(&format!("BEGIN {{ {variables} }}")).expect_err("a bound");
    assert!(diagnostics[0].message.contains("too many scratch variables"));
    let statements = compile(&format!("BEGIN {{ {} }}", "@x = 1 + 2;".repeat(30_000))).expect_err("a bound");
    assert!(statements[0].message.contains("the clause is too long"), "{statements:#?}");
    let links: String = (0..40).map(|n| format!("@m{n} = @m{}; ", n + 1)).collect();
    let diagnostics = compile(&format!("BEGIN {{ {links} @m40 = 1 }}")).expect_err("a bound");
    assert!(diagnostics[0].message.contains("too long a chain"), "{diagnostics:#?}");
    let huge = format!("BEGIN {{ }} // {}", "x".repeat(2 << 20));
    assert!(compile(&huge).expect_err("a bound")[0].message.contains("script is too long"));
    let names = "uprobe:libc:malloc { $f = func; @ = $f == \"malloc\" } ".repeat(65);
    assert!(compile(&names).expect_err("a bound")[0].message.contains("`malloc` is the name of 65 sites"));
    let warnings = "uprobe:libc:malloc { $x = -1; @ = arg0 > $x; } ".repeat(500);
    assert_eq!(compile(&warnings).expect("only warnings").1.len(), 100);
    let keys = format!("uprobe:libc:malloc {{ @x[{}] = 1 }}", ["str(arg0)"; 20].join(", "));
    assert!(compile(&keys).expect_err("a bound")[0].message.contains("has 20480 bytes, the limit is 16384"));
}

#[test]
fn registers_that_are_none() {
    check("@ = reg(\"axx\")", "`\"axx\"`: there is no register `axx`");
    check("@ = reg(arg0)", "`arg0`: the name of a register must be a string literal");
    check("@ = reg()", "`reg`: `reg` takes 1 argument, but none is given");
    begin(
        "@ = reg(\"ax\")",
        "`reg(\"ax\")`: `reg` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
    );
    let hint = |text: &str| compile(text).expect_err(text)[0].hint.clone().unwrap_or_default();
    assert_eq!(hint("uprobe:libc:malloc { @ = reg(\"flag\") }"), "did you mean `flags`?");
}

#[test]
fn doubles_have_comparisons_and_casts_alone() {
    let arithmetic = |text: &str, op: &str| {
        format!("`{text}`: not supported by weir yet: arithmetic on doubles with `{op}`")
    };
    check("@ = farg0 + 1", &arithmetic("+", "+"));
    check("@ = 1 * farg0", &arithmetic("*", "*"));
    check("@ = farg0 / farg1", &arithmetic("/", "/"));
    check("@ = farg0 & 1", &arithmetic("&", "&"));
    check("$x = farg0; $x += 1", &arithmetic("$x += 1", "+"));
    check("@x = farg0; @x += 1.5", &arithmetic("@x += 1.5", "+"));
    check("@x = farg0; @x++", "`@x`: `++` takes an integer, but `@x` holds double");
    check("$x = farg0; $x++", "`$x`: `++` takes an integer, not a double");
    check("@ = -farg0", "`farg0`: `-` takes an integer, not a double");
    check("@ = !farg0", "`farg0`: `!` takes an integer, not a double");
    check("@ = farg0 > arg0", "`>`: `>` cannot be used on double and uint64");
    check("@ = \"a\" == farg0", "`==`: `==` cannot be used on string and double");
    check("@ = farg0 && 1", "`&&`: `&&` cannot be used on double and int64");
    check("if (farg0) { exit() }", "`farg0`: the condition of `if` takes an integer, not a double");
    check("@ = farg0 ? 1 : 2", "`farg0`: the condition of `?:` takes an integer, not a double");
    check("@ = arg0 ? 1.5 : 2", "`arg0 ? 1.5 : 2`: the sides of `?:` differ: double and int64");
    check("@ = sum(farg0)", "`farg0`: `sum` takes an integer, not a double");
    check("@ = hist(farg0)", "`farg0`: `hist` takes an integer, not a double");
    check("exit(farg0)", "`farg0`: `exit` takes an integer, not a double");
    check("print(str(farg0))", "`farg0`: `str` takes an integer, not a double");
    check("@[farg0] = count()", "`farg0`: not supported by weir yet: doubles as keys of maps");
    check("@[pid, (1, 1.5).1] = 1", "`(1, 1.5).1`: not supported by weir yet: doubles as keys of maps");
    check("@ = 1; @ = farg0", "`farg0`: cannot assign double to `@`, which holds int64");
    check("let $x: int64 = farg0", "`farg0`: cannot assign double to `$x`, which is int64");
    check("@ = (float)1.5", "`1.5`: a cast to float takes a floating-point argument or result");
    check("$x = farg0; @ = (float)$x", "`$x`: a cast to float takes a floating-point argument or result");
    check("@ = (float)arg0", "`arg0`: a cast to float takes a floating-point argument or result");
    check("@ = (double)arg0", "`double`: not supported by weir yet: a cast to double");
    check("printf(\"%d\", farg0)", "`farg0`: argument 1 of `printf` is a double, but `%d` takes an integer");
    check("printf(\"%f\", arg0)", "`arg0`: argument 1 of `printf` is a uint64, but `%f` takes a double");
    check("printf(\"%s\", farg0)", "`farg0`: argument 1 of `printf` is a double, but `%s` takes a string");
    check("@ = farg8", "`farg8`: unknown name `farg8`");
    check("@ = 1.5.5", "`1.5.5`: a double has no parts");
    check("@ = 1.5x", "`1.5x`: `1.5x` is no number");
    check("@ = 1.5e999", "`1.5e999`: `1.5e999` is too large for a double");
    check("@ = 0x1.8", "`0x1.8`: an int64 has no parts");
}

#[test]
fn floating_point_arguments_are_of_functions() {
    check(
        "@ = fretval",
        "`fretval`: `fretval` is known when a call has returned, but `uprobe:libc:malloc` runs before",
    );
    script(
        "uretprobe:libc:malloc { @ = farg0; }",
        &["`farg0`: `farg0` is of a call's beginning, but `uretprobe:libc:malloc` runs at its end"],
    );
    script(
        "BEGIN { @ = farg0; }",
        &["`farg0`: `farg0` is of the traced process, but `BEGIN` runs in weir itself, not in the target"],
    );
    script(
        "usdt:./app:start { @ = farg0; }",
        &["`farg0`: `farg0` is of functions, and `usdt:/opt/app:prov:start` is none"],
    );
}
