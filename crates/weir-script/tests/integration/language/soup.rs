//! Hostile text: no input makes the front end panic, hang or give unsound IR. Deterministic: seeds are fixed.

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_script::{ast, parse};

use crate::language::{compile, format, source};

/// xorshift64*, so that the inputs are the same everywhere.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

const TOKENS: &[&str] = &[
    "BEGIN",
    "END",
    "uprobe:libc:malloc",
    "uprobe:./app:alloc_*",
    "interval:s:1",
    "{",
    "}",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ";",
    ",",
    "/",
    "?",
    ":",
    "=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    "<<",
    ">>",
    "&&",
    "||",
    "&",
    "|",
    "^",
    "+",
    "-",
    "*",
    "%",
    "!",
    "~",
    "++",
    "--",
    "+=",
    "-=",
    "*=",
    "<<=",
    ".",
    "->",
    "@",
    "@x",
    "@y",
    "@x[1]",
    "@y[pid, comm]",
    "$x",
    "$y",
    "$1",
    "$2",
    "$9",
    "$#",
    "if",
    "else",
    "let",
    "return",
    "while",
    "for ($k : @x) {",
    "for ($i : 0..",
    "break",
    "comptime",
    "macro m(x, $y, @x) {",
    "macro n() {",
    "fn f($x: int64): int64 {",
    "import \"a.bt\";",
    "let @x = lruhash(",
    "m(",
    "n",
    "f(",
    "len(@x)",
    "config",
    "pid",
    "comm",
    "arg0",
    "func",
    "probe",
    "nsecs",
    "count()",
    "sum(",
    "hist(",
    "lhist(1, 0, 10, 1)",
    "str(",
    "print(",
    "printf(\"%d\", ",
    "exit()",
    "delete(",
    "has_key(",
    "1",
    "0",
    "-1",
    "0x10",
    "1e6",
    "5ms",
    "18446744073709551615",
    "\"a\"",
    "\"malloc\"",
    "\"",
    "(int64)",
    "(uint8)",
    "(struct s *)",
    "(uint8 *)",
    "((struct s *)arg0)->",
    "->next",
    "->list[",
    ".name",
    "sizeof(",
    "offsetof(struct s, ",
    "struct s { int a; struct s *next; };",
    "struct",
    "enum e { A, B }",
    "union",
    "typedef",
    "unsigned long",
    "\n#define X 1\n",
    "\n#define F(a, b) a ## b # a\n",
    "X",
    "F(",
    "\n#if X\n",
    "\n#endif\n",
    "\n#include <stddef.h>\n",
    "__attribute__((packed))",
    "//",
    "/*",
    "*/",
    "#",
    "'",
    "\\",
    "\n",
    "é",
    "\u{0}",
    "_",
];

pub(crate) const SEEDS: &[&str] = &[
    "config = { max_strlen = 64 }\nBEGIN { @start = nsecs; printf(\"go %s\\n\", probe) }\nuprobe:libc:*alloc /arg0 > 16/ {\n  $n = arg0; if (func == \"malloc\" && $n % 2 == 0) { @even[comm] = count() } else { @odd[pid, comm] = sum($n) }\n  @h = hist($n); @l = lhist($n, 0, 100, 10); $n++; @last = $n > 5 ? str(arg0, 8) : \"none\";\n}\ninterval:s:1 { print(@even, 5); clear(@odd); if (@c++ > 3) { exit(1) } }\nEND { delete(@last); }",
    "uprobe:libc:free { let $a: uint32 = (uint32)arg0; $t = ($a, comm, 3); print($t); print($t.1); @m[$t] = max($a); if (has_key(@m, $t)) { return } $b = -$a >> 2; @k[func] -= ~$b; }",
    "#define N 4\n#define TWICE(x) (2 * (x))\n#if N > 3 && defined(N)\nenum e { A, B = TWICE(N), C };\n#else\n#error no\n#endif\ntypedef unsigned long ulong_t;\nstruct s { ulong_t id : 20, more : 50; struct s *next; union { char tag[N]; int (*f)(int, char); }; struct { short x, y[N][2]; } in; } __attribute__((packed));\nuprobe:libc:malloc { $s = (struct s *)arg0; while ($s) { @[$s->tag, $s->in.y[1][pid]] = count(); $s = $s->next; } @p = (ulong_t *)arg1 + N; print((*@p, sizeof(struct s), offsetof(struct s, in.x), B)); }",
    "macro twice(x) { let $v = x; $v + $v }\nmacro add(@m, key, $n) { @m[key] += $n; }\nfn kind($n: uint64, $s: string) { if ($n > 4) { return $s; } for ($i : 0..3) { if ($i == $n) { return \"few\"; } } return \"none\"; }\nlet @seen = lruhash(16);\nuprobe:libc:malloc { $n = twice(arg0); add(@seen, kind($n, comm), $n); $s = { $t = 0; for ($kv : @seen) { if ($kv.1 > 9) { break; } $t += $kv.1; } $t }; if comptime (1 + 1 == 2) { @l = max(len(@seen) + $s); } else { nothing(); } _ = kind(twice(2), str(arg1)); }",
    "BEGIN,END{let $x;if(pid){$x=comm}else if(tid){$x=\"b\"}else{exit()}printf(\"%s %d %%\",$x,pid==$1?$#:0x10);@a[str($2)]=@b;@b=1;@b<<=2}",
];

/// Everything that reads the text, and what may be said about it.
fn run(text: &str) {
    read(text);
    format::check_stays(text);
}

fn read(text: &str) {
    let (script, diagnostics) = parse(&source(text));
    let printed = ast::print(&script);
    assert_eq!(script.incomplete, !diagnostics.is_empty());
    assert!(!diagnostics.is_empty() || !printed.lines().any(|line| line.trim() == "invalid"), "{text:?}");
    match compile(text) {
        Ok((_, warnings)) => assert!(diagnostics.is_empty() && warnings.len() <= 100),
        Err(faults) => {
            assert!(!faults.is_empty() && faults.len() <= 100, "{text:?}");
            for fault in &faults {
                let span = fault.span.start as usize..fault.span.end as usize;
                assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}: {}", fault.message);
            }
            // The renderer must take every span too.
            weir_source::render(&source(text), &faults[..1], false);
        }
    }
}

#[test]
fn token_soup() {
    let mut random = Random(0x5eed_0001);
    for _ in 0..12_000 {
        let mut text = String::new();
        if random.below(4) > 0 {
            text.push_str("uprobe:libc:malloc { ");
        }
        for _ in 0..random.below(40) {
            text.push_str(random.pick(TOKENS));
            if random.below(3) > 0 {
                text.push(' ');
            }
        }
        if random.below(2) > 0 {
            text.push('}');
        }
        run(&text);
    }
}

#[test]
fn mutants_of_good_scripts() {
    let daily = Daily { seed: 0x5eed_0002, at_least: 1_200, at_most: 12_000, budget: Duration::from_secs(2) };
    let cases = Cases::of("WEIR_SCRIPT_MUTANTS", daily);
    let mut random = Random(cases.seed());
    for round in cases.map(|case| case as usize) {
        let mut text: Vec<char> = SEEDS[round % SEEDS.len()].chars().collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(text.len());
            match random.below(5) {
                0 => drop(text.remove(at)),
                1 => {
                    let end = (at + random.below(20)).min(text.len());
                    text.drain(at..end);
                }
                2 => {
                    let token: Vec<char> = random.pick(TOKENS).chars().collect();
                    text.splice(at..at, token);
                }
                3 => {
                    let end = (at + random.below(30)).min(text.len());
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = random.below(text.len());
                    text.splice(to..to, copy);
                }
                _ => text[at] = char::from(random.below(128) as u8),
            }
            if text.is_empty() {
                break;
            }
        }
        run(&text.into_iter().collect::<String>());
    }
}

#[test]
fn small_expressions_in_all_shapes() {
    const ATOMS: &[&str] = &[
        "1",
        "-1",
        "arg0",
        "comm",
        "\"a\"",
        "func",
        "@m",
        "@k[1]",
        "$v",
        "(1, 2)",
        "*(int8 *)arg0",
        "(uint64 *)arg1",
        "signal_name(9)",
        "buf(\"ab\", 2)",
        "strstr(comm, \"a\")",
        "str_concat(comm, \"a\")",
        "*p",
        "count()",
        "exit()",
        "str(arg0)",
    ];
    const SHAPES: &[&str] = &[
        "A + B",
        "A == B",
        "A && B",
        "A ? B : A",
        "!A",
        "-A",
        "(uint8)A",
        "str(A, B)",
        "A < B",
        "A / B",
        "A.0",
    ];
    const PLACES: &[&str] = &[
        "@r = E",
        "$r = E",
        "print(E)",
        "if (E) { @z++ }",
        "@w[E] = 1",
        "printf(\"%d %s\", E, E)",
        "E",
        "$b = { $c = 1; E }",
        "keep(E)",
        "@q = sum(E)",
        "@r += E",
    ];
    for shape in SHAPES {
        for place in PLACES {
            for a in ATOMS {
                for b in ATOMS {
                    let expr = shape.replace('A', "\u{1}").replace('B', b).replace('\u{1}', a);
                    // A record, where one is used.
                    let c = if expr.contains("*p") { "struct p { int x[3]; } " } else { "" };
                    let body = place.replace('E', &expr.replace("*p", "*(struct p *)arg0"));
                    let c = if place.contains("keep") {
                        format!("{c}macro keep(x) {{ $v = x; $v }} ")
                    } else {
                        c.to_owned()
                    };
                    let text = format!("{c}uprobe:libc:*alloc {{ $v = 1; @m = 1; @k[1] = count(); {body} }}");
                    // Its tokens are formatted alike, whatever they mean.
                    if a == b { run(&text) } else { read(&text) }
                }
            }
        }
    }
}

#[test]
fn large_scripts_are_read_or_refused() {
    // An eighth of what is read at all; quadratic work would show as a test that does not end. Each piece is so long behind
    // one of the beginnings, and shorter behind the others.
    let long = |piece: &str, is_longest: bool| {
        let bytes = if is_longest { 1 << 17 } else { 1 << 13 };
        piece.repeat(bytes / piece.len())
    };
    let pieces = [
        "(",
        "{",
        "[",
        "!",
        "\"",
        "/",
        "/ ",
        "a",
        "@",
        "$",
        "1",
        "1+",
        "a:",
        "a,",
        "BEGIN{}",
        "if 1{}",
        "else ",
        "if(1){",
        "}",
        ";",
        "print(1);",
        "@a=1;",
        "$a=1;",
        "'",
        "\\",
        "\n",
        "/*",
        "//\n",
        "1?",
        "1?2:",
        "x(",
        "x,",
        "-",
        "--",
        "+ +",
        "\"a\"",
        "config={",
        "$a++;",
        "@a[1]++;",
        "if($a){$a=1}",
        "@a=@b;@b=@c;",
        "uprobe:libc:*{}",
        "*",
        "[0]",
        "->a",
        "(int32*)",
        "(struct a*)",
        "sizeof(",
        "#if 1\n",
        "#define a a b\n",
        "#define a(b) a(b b)\n a(a(1))",
        "#include <stddef.h>\n",
        "struct a { ",
        "struct a { int x; } ",
        "struct { int x; ",
        "typedef int *",
        "typedef int (*",
        "enum { a, ",
        "struct a { int x[1][1]",
        "__attribute__((",
        "macro a(x) { ",
        "macro a(x) { a(x) } ",
        "fn a() { ",
        "let @a = hash(1);",
        "import \"a\";",
        "{ 1 + ",
        "for ($a : @b) { ",
    ];
    for (n, piece) in pieces.into_iter().enumerate() {
        let starts = ["", "BEGIN { ", "BEGIN { $a = 1; ", "BEGIN / ", "config = { "];
        for (m, start) in starts.into_iter().enumerate() {
            let open = format!("{start}{}", long(piece, n % starts.len() == m));
            for text in [format!("{open} }}"), open] {
                match weir_script::compile(
                    &source(&text),
                    &weir_script::Options::default(),
                    &crate::language::world::TableWorld,
                ) {
                    Ok((_, diagnostics)) | Err(diagnostics) => assert!(diagnostics.len() <= 100),
                }
            }
        }
    }
}
