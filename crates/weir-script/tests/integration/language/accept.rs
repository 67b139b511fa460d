//! What is accepted, and how it reads: the tree in one line, `(node child child)`.

use weir_script::{ast, parse};

use crate::language::{compile, source};

/// The printed tree of `text`, a line a node, as one line with brackets.
fn tree(text: &str) -> String {
    let (script, diagnostics) = parse(&source(text));
    assert_eq!(diagnostics, [], "in {text:?}");
    let printed = ast::print(&script);
    let lines: Vec<(usize, &str)> =
        printed.lines().map(|line| ((line.len() - line.trim_start().len()) / 2, line.trim_start())).collect();
    let mut out = String::new();
    for (index, (level, line)) in lines.iter().enumerate() {
        let next = lines.get(index + 1).map_or(0, |(level, _)| *level);
        if next > *level {
            out.push_str(&format!("({line} "));
        } else {
            out.push_str(line);
            out.push_str(&")".repeat(level - next));
            out.push(' ');
        }
    }
    out.replace(" )", ")").trim().to_string()
}

/// The body of a clause reads as `expected`, and compiles.
#[track_caller]
fn check(body: &str, expected: &str) {
    let text = format!("uprobe:libc:malloc {{ {body} }}");
    let expected = format!("(script (clause probe uprobe:libc:malloc (body {expected})))");
    assert_eq!(tree(&text), expected, "{body}");
    compile(&text).unwrap_or_else(|faults| panic!("{body}: {faults:#?}"));
}

/// The value of `@r = …` reads as `expected`.
#[track_caller]
fn value(expr: &str, expected: &str) {
    check(&format!("@r = {expr}"), &format!("(= map @r {expected})"));
}

/// The whole script reads as `expected`, and compiles.
#[track_caller]
fn script(text: &str, expected: &str) {
    assert_eq!(tree(text), format!("(script {expected})"), "{text}");
    compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:#?}"));
}

/// The probes of a clause read as `expected`.
#[track_caller]
fn probes(text: &str, expected: &str) {
    script(&format!("{text} {{ }}"), &format!("(clause {expected} body)"));
}

#[test]
fn numbers() {
    value("5", "int 5");
    value("0x1F", "int 31");
    value("0Xff", "int 255");
    value("017", "int 15");
    value("0", "int 0");
    value("1e6", "int 1000000");
    value("1_000_000", "int 1000000");
    value("0xffff_ffff", "int 4294967295");
    value("123UL", "int 123");
    value("1LLU", "int 1");
    value("18446744073709551615", "int 18446744073709551615");
    value("-9223372036854775808", "int -9223372036854775808");
    value("1ns", "int 1");
    value("5us", "int 5000");
    value("5ms", "int 5000000");
    value("1s", "int 1000000000");
    value("2m", "int 120000000000");
    value("1h", "int 3600000000000");
    value("1d", "int 86400000000000");
}

#[test]
fn strings() {
    value("\"\"", "string \"\"");
    value("\"a b\"", "string \"a b\"");
    value(r#""\n\t\r\\\"\'""#, r#"string "\n\t\r\\\"'""#);
    value(r#""\x41\101\7""#, r#"string "AA\u{7}""#);
    value(r#""\xe2\x9c\x93é""#, "string \"✓é\"");
}

#[test]
fn binary_operators_bind_as_in_c() {
    value("1 + 2 * 3", "(+ int 1 (* int 2 int 3))");
    value("1 * 2 + 3", "(+ (* int 1 int 2) int 3)");
    value("1 - 2 - 3", "(- (- int 1 int 2) int 3)");
    value("(1 + 2) * 3", "(* (+ int 1 int 2) int 3)");
    value("1 << 2 + 3", "(<< int 1 (+ int 2 int 3))");
    value("1 < 2 << 3", "(< int 1 (<< int 2 int 3))");
    value("1 == 2 < 3", "(== int 1 (< int 2 int 3))");
    value("1 & 2 == 3", "(& int 1 (== int 2 int 3))");
    value("1 ^ 2 & 3", "(^ int 1 (& int 2 int 3))");
    value("1 | 2 ^ 3", "(| int 1 (^ int 2 int 3))");
    value("1 && 2 | 3", "(&& int 1 (| int 2 int 3))");
    value("1 || 2 && 3", "(|| int 1 (&& int 2 int 3))");
    value("4 % 3 / 2", "(/ (% int 4 int 3) int 2)");
    value("1 != 2", "(!= int 1 int 2)");
    value("1 >= 2", "(>= int 1 int 2)");
    value("1 <= 2", "(<= int 1 int 2)");
    value("1 >> 2", "(>> int 1 int 2)");
    value("2 > 1", "(> int 2 int 1)");
}

#[test]
fn ternaries() {
    value("1 ? 2 : 3", "(?: int 1 int 2 int 3)");
    value("1 ? 2 : 3 ? 4 : 5", "(?: int 1 int 2 (?: int 3 int 4 int 5))");
    value("1 || 0 ? 2 : 3 + 1", "(?: (|| int 1 int 0) int 2 (+ int 3 int 1))");
    value("pid > 1 ? \"a\" : \"longer\"", "(?: (> builtin pid int 1) string \"a\" string \"longer\")");
    check("pid == 1 ? print(1) : exit()", "(?: (== builtin pid int 1) (call print int 1) call exit)");
}

#[test]
fn unary_operators() {
    value("-1", "int -1");
    value("- 1", "int -1");
    value("-pid", "(- builtin pid)");
    value("!pid", "(! builtin pid)");
    value("!!pid", "(! (! builtin pid))");
    value("~5", "(~ int 5)");
    value("3 - -1", "(- int 3 int -1)");
    value("3 -1", "(- int 3 int 1)");
    value("-(1)", "(- int 1)");
}

#[test]
fn casts() {
    value("(int64)arg0", "(cast int64 builtin arg0)");
    value("(uint8)arg0 + 1", "(+ (cast uint8 builtin arg0) int 1)");
    value("(int32)-1", "(cast int32 int -1)");
    value("(uint16)(arg0 + 1)", "(cast uint16 (+ builtin arg0 int 1))");
    value("(int8)(uint8)arg0", "(cast int8 (cast uint8 builtin arg0))");
    value("(uint64)$1", "(cast uint64 param $1)");
}

#[test]
fn builtins() {
    value("pid", "builtin pid");
    value("tid", "builtin tid");
    value("cpu", "builtin cpu");
    value("cgroup", "builtin cgroup");
    value("comm", "builtin comm");
    value("nsecs", "builtin nsecs");
    value("elapsed", "builtin elapsed");
    value("arg0 + arg5", "(+ builtin arg0 builtin arg5)");
    value("func", "builtin func");
    value("probe", "builtin probe");
    value("nsecs()", "call nsecs");
    value("pid()", "call pid");
    value("nsecs(monotonic)", "(call nsecs builtin monotonic)");
}

#[test]
fn symbols_and_stacks() {
    value("usym(arg0)", "(call usym builtin arg0)");
    value("ustack", "builtin ustack");
    value("ustack()", "call ustack");
    value("ustack(3)", "(call ustack int 3)");
    value("ustack(perf)", "(call ustack builtin perf)");
    value("ustack(raw, 3)", "(call ustack builtin raw int 3)");
    for text in [
        "uprobe:libc:malloc { @[ustack, usym(arg0), comm] = count(); }",
        "uprobe:libc:malloc { @[ustack(perf, 5)] = hist(arg0); printf(\"%s %s\", ustack, usym(reg(\"ip\"))); }",
        "uprobe:libc:malloc { let $s; if (arg0) { $s = usym(arg0); } print($s); @s = $s; print((1, ustack(1))); }",
        "uprobe:libc:malloc { @s = usym(arg0); } END { printf(\"%s\", @s); print(@s); }",
        "uprobe:libc:malloc { @s[tid] = ustack(4); } uprobe:libc:free { print(@s[tid]); delete(@s, tid); }",
        "uprobe:libc:malloc { print(ustack($1)); }",
    ] {
        compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:#?}"));
    }
}

#[test]
fn parameters() {
    value("$1", "param $1");
    value("$#", "param $#");
    value("$9 + 1", "(+ param $9 int 1)");
    value("str($2)", "(call str param $2)");
    value("str($9)", "(call str param $9)");
    check("if (comm == str($2)) { }", "(if (== builtin comm (call str param $2)) then)");
    check("@ = lhist(arg0, 0, $1, 1)", "(= map @ (call lhist builtin arg0 int 0 param $1 int 1))");
}

#[test]
fn str_takes_a_length() {
    value("str(arg0)", "(call str builtin arg0)");
    value("str(arg0, 16)", "(call str builtin arg0 int 16)");
    value("str(arg0, arg1)", "(call str builtin arg0 builtin arg1)");
    value("str(arg0 + 8)", "(call str (+ builtin arg0 int 8))");
}

#[test]
fn strings_and_names_compare() {
    value("comm == \"sh\"", "(== builtin comm string \"sh\")");
    value("\"sh\" != comm", "(!= string \"sh\" builtin comm)");
    value("str(arg0) == str(arg1)", "(== (call str builtin arg0) (call str builtin arg1))");
    value("func == \"malloc\"", "(== builtin func string \"malloc\")");
    value(
        "\"uprobe:/lib/libc.so.6:malloc\" != probe",
        "(!= string \"uprobe:/lib/libc.so.6:malloc\" builtin probe)",
    );
    check(
        "$f = func; if ($f == \"x\") { }",
        "(= variable $f builtin func) (if (== variable $f string \"x\") then)",
    );
}

#[test]
fn scratch_variables() {
    check("$x = 1; @ = $x;", "(= variable $x int 1) (= map @ variable $x)");
    check("let $x;", "let $x");
    check("let $x = 1;", "(let $x int 1)");
    check("let $x: uint8 = 1;", "(let $x: uint8 int 1)");
    check("let $x: int64; $x = pid", "let $x: int64 (= variable $x builtin pid)");
    check(
        "$x = \"a\"; $x = \"longer text\";",
        "(= variable $x string \"a\") (= variable $x string \"longer text\")",
    );
    check(
        "let $x; if (1) { $x = comm } print($x)",
        "let $x (if int 1 (then (= variable $x builtin comm))) (call print variable $x)",
    );
    check(
        "$x = comm; if (1) { $x = str(arg0) } print($x)",
        "(= variable $x builtin comm) (if int 1 (then (= variable $x (call str builtin arg0)))) (call print variable $x)",
    );
    check(
        "if (1) { $x = 1 } if (1) { $x = \"a\" }",
        "(if int 1 (then (= variable $x int 1))) (if int 1 (then (= variable $x string \"a\")))",
    );
    check("{ $x = 1; } { $x = comm; }", "(block (= variable $x int 1)) (block (= variable $x builtin comm))");
}

#[test]
fn steps() {
    check("@x++", "(++ after map @x)");
    check("--@x[1]", "(-- before (map @x int 1))");
    check(
        "$x = 1; $x--; @ = ++$x",
        "(= variable $x int 1) (-- after variable $x) (= map @ (++ before variable $x))",
    );
    value("@x++ + 1", "(+ (++ after map @x) int 1)");
}

#[test]
fn compound_assignments() {
    check("@x += arg0", "(+= map @x builtin arg0)");
    check("@x[pid] -= 1", "(-= (map @x builtin pid) int 1)");
    check(
        "$x = 8; $x *= 2; $x /= 2; $x %= 3",
        "(= variable $x int 8) (*= variable $x int 2) (/= variable $x int 2) (%= variable $x int 3)",
    );
    check(
        "$x = 8; $x &= 2; $x |= 2; $x ^= 3",
        "(= variable $x int 8) (&= variable $x int 2) (|= variable $x int 2) (^= variable $x int 3)",
    );
    check("@x = 8; @x <<= 2; @x >>= 1", "(= map @x int 8) (<<= map @x int 2) (>>= map @x int 1)");
}

#[test]
fn maps_and_keys() {
    check("@ = 1", "(= map @ int 1)");
    check("@x[1] = 2", "(= (map @x int 1) int 2)");
    check("@[pid, comm] = count()", "(= (map @ builtin pid builtin comm) call count)");
    check("@x[(pid, comm)] = 1", "(= (map @x (tuple builtin pid builtin comm)) int 1)");
    check(
        "@x[tid] = str(arg0); print(@x[tid])",
        "(= (map @x builtin tid) (call str builtin arg0)) (call print (map @x builtin tid))",
    );
    check(
        "@x[func] = 1; @y[probe, 1] = comm",
        "(= (map @x builtin func) int 1) (= (map @y builtin probe int 1) builtin comm)",
    );
    check(
        "@x[\"a\"] = 1; @x[comm] = 2; @x[str(arg0)] = 3",
        "(= (map @x string \"a\") int 1) (= (map @x builtin comm) int 2) (= (map @x (call str builtin arg0)) int 3)",
    );
    check("@a[@b[1]] = 1; @b[1] = 2", "(= (map @a (map @b int 1)) int 1) (= (map @b int 1) int 2)");
}

#[test]
fn aggregations() {
    check("@ = count()", "(= map @ call count)");
    check("@ = sum(arg0)", "(= map @ (call sum builtin arg0))");
    check("@ = avg(arg0)", "(= map @ (call avg builtin arg0))");
    check("@ = min(arg0); @ = min(1)", "(= map @ (call min builtin arg0)) (= map @ (call min int 1))");
    check("@ = max(arg0)", "(= map @ (call max builtin arg0))");
    check("@ = stats(arg0)", "(= map @ (call stats builtin arg0))");
    check("@[pid] = hist(arg0)", "(= (map @ builtin pid) (call hist builtin arg0))");
    check("@ = hist(arg0, 0)", "(= map @ (call hist builtin arg0 int 0))");
    check("@ = lhist(arg0, 0, 1000, 1)", "(= map @ (call lhist builtin arg0 int 0 int 1000 int 1))");
    check("@ = lhist(arg0, -5, 5, 1)", "(= map @ (call lhist builtin arg0 int -5 int 5 int 1))");
    check(
        "@ = lhist(arg0, 0, 1 << 20, 4 * 1024)",
        "(= map @ (call lhist builtin arg0 int 0 (<< int 1 int 20) (* int 4 int 1024)))",
    );
}

#[test]
fn aggregations_read_as_numbers() {
    check("@ = count(); if (@ > 10) { }", "(= map @ call count) (if (> map @ int 10) then)");
    check("@ = avg(1); printf(\"%d\", @)", "(= map @ (call avg int 1)) (call printf string \"%d\" map @)");
    check(
        "@ = sum(1); $x = @; @y = (int64)@",
        "(= map @ (call sum int 1)) (= variable $x map @) (= map @y (cast int64 map @))",
    );
    check(
        "@[1] = max(1); @y = @[1] + 1",
        "(= (map @ int 1) (call max int 1)) (= map @y (+ (map @ int 1) int 1))",
    );
}

#[test]
fn map_functions() {
    check("@x = 1; delete(@x)", "(= map @x int 1) (call delete map @x)");
    check(
        "@x[1] = 1; delete(@x[1]); delete(@x, 1)",
        "(= (map @x int 1) int 1) (call delete (map @x int 1)) (call delete map @x int 1)",
    );
    check(
        "@x[1, 2] = 1; delete(@x, (1, 2))",
        "(= (map @x int 1 int 2) int 1) (call delete map @x (tuple int 1 int 2))",
    );
    check(
        "@x[1, 2] = 1; delete(@x[1, 2])",
        "(= (map @x int 1 int 2) int 1) (call delete (map @x int 1 int 2))",
    );
    check(
        "@x[1] = 1; clear(@x); zero(@x)",
        "(= (map @x int 1) int 1) (call clear map @x) (call zero map @x)",
    );
    check(
        "@x[1] = 1; if (has_key(@x, 1)) { }",
        "(= (map @x int 1) int 1) (if (call has_key map @x int 1) then)",
    );
    check(
        "@x[1, \"a\"] = 1; @y = has_key(@x, (1, \"b\"))",
        "(= (map @x int 1 string \"a\") int 1) (= map @y (call has_key map @x (tuple int 1 string \"b\")))",
    );
    check(
        "$k = (1, 2); @x[1, 2] = 1; @x[$k] = 2",
        "(= variable $k (tuple int 1 int 2)) (= (map @x int 1 int 2) int 1) (= (map @x variable $k) int 2)",
    );
}

#[test]
fn printing() {
    check("print(1)", "(call print int 1)");
    check("print(\"a\")", "(call print string \"a\")");
    check("print((1, comm, func))", "(call print (tuple int 1 builtin comm builtin func))");
    check(
        "$t = (1, \"a\"); print($t.1); print($t)",
        "(= variable $t (tuple int 1 string \"a\")) (call print (part 1 variable $t)) (call print variable $t)",
    );
    check(
        "@ = count(); print(@); print(@, 5); print(@, 5, 2)",
        "(= map @ call count) (call print map @) (call print map @ int 5) (call print map @ int 5 int 2)",
    );
    check("printf(\"hi\\n\")", "(call printf string \"hi\\n\")");
    check(
        "printf(\"%d %5s %% %-5x\", pid, comm, arg0)",
        "(call printf string \"%d %5s %% %-5x\" builtin pid builtin comm builtin arg0)",
    );
    check("printf(\"%s %s\", func, probe)", "(call printf string \"%s %s\" builtin func builtin probe)");
    check("exit()", "call exit");
    check("exit(pid)", "(call exit builtin pid)");
    check("exit(); print(1);", "call exit (call print int 1)");
}

#[test]
fn control_flow() {
    check("if (1) { print(1) }", "(if int 1 (then (call print int 1)))");
    check("if 1 { }", "(if int 1 then)");
    check("if (1) { } else { }", "(if int 1 then else)");
    check(
        "if (1) { } else if (2) { } else { return }",
        "(if int 1 then (else (if int 2 then (else return))))",
    );
    check("if (1) { }; return;", "(if int 1 then) return");
    check("if (1) { exit() } print(1)", "(if int 1 (then call exit)) (call print int 1)");
    check("if (arg0 && (pid || !tid)) { }", "(if (&& builtin arg0 (|| builtin pid (! builtin tid))) then)");
}

#[test]
fn attach_points() {
    probes("BEGIN", "probe BEGIN");
    probes("begin", "probe begin");
    probes("End", "probe End");
    probes("BEGIN, END", "probe BEGIN probe END");
    probes("interval:s:1", "probe interval:s:1");
    probes("interval:ms:100", "probe interval:ms:100");
    probes("interval:us:10", "probe interval:us:10");
    probes("interval:hz:99", "probe interval:hz:99");
    probes("i:s:1", "probe i:s:1");
    probes("interval:1s", "probe interval:1s");
    probes("interval:100ms", "probe interval:100ms");
    probes("interval:s:$1", "probe interval:s:$1");
    probes("uprobe:libc:malloc", "probe uprobe:libc:malloc");
    probes("u:libc:*alloc", "probe u:libc:*alloc");
    probes("uprobe:./app:main", "probe uprobe:./app:main");
    probes("uprobe:/opt/app:alloc_*", "probe uprobe:/opt/app:alloc_*");
    probes("uprobe:\"/opt/my app\":main", "probe uprobe:\"/opt/my app\":main");
    probes("uprobe:./app:\"weird:name\"", "probe uprobe:./app:\"weird:name\"");
    probes(
        "uprobe:libc:malloc, // one\n uprobe:libc:free /* two */",
        "probe uprobe:libc:malloc probe uprobe:libc:free",
    );
    probes("uprobe:libc:malloc,uprobe:libc:free", "probe uprobe:libc:malloc probe uprobe:libc:free");
    probes("uprobe:libc:malloc\n,\nBEGIN", "probe uprobe:libc:malloc probe BEGIN");
}

#[test]
fn predicates() {
    script("BEGIN /1/ { }", "(clause probe BEGIN (predicate int 1) body)");
    script("BEGIN/1/{}", "(clause probe BEGIN (predicate int 1) body)");
    script(
        "uprobe:libc:malloc/arg0 > 1/{}",
        "(clause probe uprobe:libc:malloc (predicate (> builtin arg0 int 1)) body)",
    );
    script("interval:s:1/pid/{}", "(clause probe interval:s:1 (predicate builtin pid) body)");
    script(
        "BEGIN / 8 / 2 / 2 == 2 / { }",
        "(clause probe BEGIN (predicate (== (/ (/ int 8 int 2) int 2) int 2)) body)",
    );
    script(
        "BEGIN /comm == \"a/b\"/ // done\n{ }",
        "(clause probe BEGIN (predicate (== builtin comm string \"a/b\")) body)",
    );
}

#[test]
fn scripts() {
    script("#!/usr/bin/env weir\nBEGIN { }", "(clause probe BEGIN body)");
    script("// a\n/* b\n */ BEGIN { /* c */ } // d", "(clause probe BEGIN body)");
    script("BEGIN { } END { }", "(clause probe BEGIN body) (clause probe END body)");
    script(
        "config = { max_strlen = 64; max_map_keys = 10 } BEGIN { }",
        "(config (set max_strlen int 64) (set max_map_keys int 10)) (clause probe BEGIN body)",
    );
    script(
        "config={missing_probes=warn;}BEGIN{}",
        "(config (set missing_probes builtin warn)) (clause probe BEGIN body)",
    );
    script(
        "config = { missing_probes = \"ignore\"; max_probes = 5; } BEGIN {}",
        "(config (set missing_probes string \"ignore\") (set max_probes int 5)) (clause probe BEGIN body)",
    );
    script("config = { } BEGIN {}", "config (clause probe BEGIN body)");
    script("BEGIN { ; ; print(1);; }", "(clause probe BEGIN (body (call print int 1)))");
    script(
        "BEGIN { @x = @y } END { @y = 1 }",
        "(clause probe BEGIN (body (= map @x map @y))) (clause probe END (body (= map @y int 1)))",
    );
    script(
        "BEGIN, uprobe:libc:free { @[probe] = count() }",
        "(clause probe BEGIN probe uprobe:libc:free (body (= (map @ builtin probe) call count)))",
    );
}

#[test]
fn a_function_that_moved_is_probed_once_where_both_libraries_are_named() {
    let sites = |script: &str| -> usize {
        let (module, _) = compile(script).unwrap_or_else(|faults| panic!("{script}: {faults:?}"));
        let of_function = |function: &weir_ir::Function| match &function.trigger {
            weir_ir::Trigger::Uprobe { sites } | weir_ir::Trigger::Uretprobe { sites } => sites.len(),
            _ => 0,
        };
        module.functions.iter().map(of_function).sum()
    };
    assert_eq!(sites("uprobe:libold:malloc { @ = count(); }"), 1);
    assert_eq!(sites("uprobe:libold:malloc, uprobe:libc:malloc { @ = count(); }"), 1);
    assert_eq!(sites("uprobe:libc:malloc { @ = count(); } uprobe:libold:*alloc { @ = count(); }"), 2);
    assert_eq!(sites("uprobe:libold:malloc, uretprobe:libc:malloc { @ = count(); }"), 2);
    // Who writes it twice means it twice.
    assert_eq!(sites("uprobe:libc:malloc, uprobe:libc:malloc { @ = count(); }"), 2);
}

#[test]
fn probes_that_are_missing_may_be_ignored() {
    for setting in ["warn", "ignore"] {
        let text =
            format!("config = {{ missing_probes = {setting} }} BEGIN {{ }} uprobe:libc:nope {{ print(1) }}");
        let (module, warnings) = compile(&text).expect("the other clause remains");
        assert_eq!(module.functions.len(), 1);
        assert_eq!(warnings.len(), usize::from(setting == "warn"));
    }
}

#[test]
fn fractions_and_floating_point_arguments() {
    value("1.5", "double 1.5");
    value("-1.5", "double -1.5");
    value("0.0", "double 0.0");
    value("2.5e-3", "double 0.0025");
    value("2.5E+3", "double 2500.0");
    value("1e-9", "double 1e-9");
    value("1_0.2_5", "double 10.25");
    value("farg0", "builtin farg0");
    value("(float)farg7", "(float builtin farg7)");
    value("(int32)farg0", "(cast int32 builtin farg0)");
    value("farg0 >= 1.5", "(>= builtin farg0 double 1.5)");
    value("farg0 == 2", "(== builtin farg0 int 2)");
    value("(1, 2).1", "(part 1 (tuple int 1 int 2))");
    check(
        "$x = farg0; $x = 1.5; @[$x > 0] = count()",
        "(= variable $x builtin farg0) (= variable $x double 1.5) (= (map @ (> variable $x int 0)) call count)",
    );
    script(
        "uretprobe:libc:malloc { @ = fretval; }",
        "(clause probe uretprobe:libc:malloc (body (= map @ builtin fretval)))",
    );
}

#[test]
fn loops() {
    check("while (arg0) { break }", "(while builtin arg0 (body break))");
    check("while arg0 > 1 { continue; }", "(while (> builtin arg0 int 1) (body continue))");
    check("for ($i : 0..5) { print($i) }", "(for $i int 0 int 5 (body (call print variable $i)))");
    check("for $i : -1..arg0 + 1 { }", "(for $i int -1 (+ builtin arg0 int 1) body)");
    check("unroll(3) { @++ }", "(unroll int 3 (body (++ after map @)))");
    check("unroll 3 { }", "(unroll int 3 body)");
    // The variable of a loop is gone behind it, and may be of another loop.
    check("for ($i : 0..1) { } for ($i : 0..1) { }", "(for $i int 0 int 1 body) (for $i int 0 int 1 body)");
    check("while (1) { while (1) { return } }", "(while int 1 (body (while int 1 (body return))))");
}
