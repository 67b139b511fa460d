//! Both ways of the text form.

use crate::asm::{insn_text, parse, parse_file, print, print_file};
use crate::insn::Insn;
use crate::{MapKind, MapSpec, Object, Program, ProgramKind};
use testkit::random::next as random;

/// `line` is the canonical text of one instruction: it parses, and prints as itself.
fn same(line: &str) {
    let text = format!("map @m hash key 8 value 8 entries 1\nprogram \"p\" probe\n{line}\n");
    let object = parse(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(insn_text(&object.programs[0].insns, 0, &object.maps), line);
    assert_eq!(parse(&print(&object)).as_ref(), Ok(&object), "{line}");
}

/// `line` parses to what the canonical `text` parses to.
fn means(line: &str, text: &str) {
    let object =
        parse(&format!("program \"p\" probe\n{line}\n")).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(insn_text(&object.programs[0].insns, 0, &[]), text);
}

/// `text`, after a program line, is refused on line `line` with a message that contains `part`.
fn refused(text: &str, line: usize, part: &str) {
    let error = parse(&format!("program \"p\" probe\n{text}\n")).expect_err(text);
    assert!(error.message.contains(part), "{text}: {error}");
    assert_eq!(error.line, line, "{text}: {error}");
}

/// `bytes` print as `text` (llvm-objdump 18's, from its test-suite's encodings).
fn bytes(bytes: [u8; 8], text: &str) {
    assert_eq!(insn_text(&[Insn::from_bytes(bytes)], 0, &[]), text);
    same(text);
}

#[test]
fn instructions_print_as_they_parse() {
    for operator in ["+=", "-=", "*=", "/=", "s/=", "|=", "&=", "<<=", ">>=", "%=", "s%=", "^=", "=", "s>>="]
    {
        for line in ["r1 OP r2", "w9 OP w0", "r1 OP 0x7fffffff", "r1 OP -0x80000000", "w3 OP 0x0"] {
            same(&line.replace("OP", operator));
        }
    }
    for comparison in ["==", ">", ">=", "&", "!=", "s>", "s>=", "<", "<=", "s<", "s<="] {
        for line in ["if r1 OP r2 goto +0x0", "if w9 OP w0 goto -0x8000", "if r1 OP -0x1 goto +0x7fff"] {
            same(&line.replace("OP", comparison));
        }
    }
    for (width, letter) in [("u32", "w"), ("u64", "r")] {
        for operator in ["+=", "|=", "&=", "^="] {
            same(&format!("lock *({width} *)(r0 + 0x0) {operator} {letter}1"));
        }
        for name in ["add", "or", "and", "xor"] {
            same(&format!("{letter}7 = atomic_fetch_{name}(({width} *)(r1 - 0x8), {letter}7)"));
        }
    }
    for width in ["u8", "u16", "u32", "u64"] {
        same(&format!("r1 = *({width} *)(r10 - 0x8)"));
        same(&format!("*({width} *)(r10 - 0x8000) = r1"));
        same(&format!("*({width} *)(r10 + 0x7fff) = -0x1"));
    }
    let others = [
        "r3 = xchg_64(r1 + 0x0, r3)",
        "w3 = xchg32_32(r1 + 0x4, w3)",
        "r0 = cmpxchg_64(r1 + 0x0, r0, r2)",
        "w0 = cmpxchg32_32(r1 + 0x0, w0, w2)",
        "r1 = *(s8 *)(r2 + 0x1)",
        "r1 = *(s16 *)(r2 + 0x1)",
        "r1 = *(s32 *)(r2 + 0x1)",
        "r1 = (s8)r2",
        "r1 = (s16)r2",
        "r1 = (s32)r2",
        "w1 = (s8)w2",
        "w1 = (s16)w2",
        "r1 = -r1",
        "w1 = -w1",
        "r1 = le16 r1",
        "r1 = le32 r1",
        "r1 = le64 r1",
        "r1 = be16 r1",
        "r1 = be32 r1",
        "r1 = be64 r1",
        "r1 = bswap16 r1",
        "r1 = bswap32 r1",
        "r1 = bswap64 r1",
        "r1 = 0x0 ll",
        "r1 = -0x1 ll",
        "r1 = -0x8000000000000000 ll",
        "r1 = 0x7fffffffffffffff ll",
        "r1 = map[@m] ll",
        "r1 = map[@m][0] + 0x8 ll",
        "r1 = map[@m][0] - 0x1 ll",
        "r1 = map[#7] ll",
        "r1 = map_fd[3] ll",
        "r1 = map_fd[3][0] - 0x8 ll",
        "r1 = btf 0x5 ll",
        "r1 = pc+0x5 ll",
        "r1 = pc-0x5 ll",
        "goto +0x5",
        "goto -0x1",
        "gotol +0x7fffffff",
        "may_goto +0x1",
        "w1 = load_acquire((u8 *)(r2 + 0x1))",
        "w1 = load_acquire((u16 *)(r2 - 0x2))",
        "w1 = load_acquire((u32 *)(r2 + 0x0))",
        "r1 = load_acquire((u64 *)(r10 - 0x8))",
        "store_release((u8 *)(r2 + 0x1), w1)",
        "store_release((u16 *)(r2 - 0x2), w1)",
        "store_release((u32 *)(r2 + 0x0), w1)",
        "store_release((u64 *)(r10 - 0x8), r1)",
        "call 0x1 ; map_lookup_elem",
        "call 0x7fff",
        "call -0x1",
        "call pc+0x5",
        "call pc-0x5",
        "call btf 0x5",
        "call bpf_session_is_return",
        "call bpf_session_cookie",
        "exit",
        "r0 = *(u8 *)skb[0x10]",
        "r0 = *(u32 *)skb[r1]",
        "r0 = *(u32 *)skb[r1 + 0x4]",
        "r0 = *(u16 *)skb[r10 - 0x8]",
        ".insn 0xff",
    ];
    others.into_iter().for_each(same);
}

#[test]
fn encodings_are_those_of_the_rfc() {
    bytes([0x07, 0x02, 0, 0, 0xfc, 0xff, 0xff, 0xff], "r2 += -0x4");
    bytes([0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0], "*(u64 *)(r10 - 0x8) = r1");
    bytes([0x15, 0x00, 0x05, 0, 0, 0, 0, 0], "if r0 == 0x0 goto +0x5");
    bytes([0xdb, 0x10, 0, 0, 0, 0, 0, 0], "lock *(u64 *)(r0 + 0x0) += r1");
    bytes([0xdb, 0x01, 0, 0, 1, 0, 0, 0], "r0 = atomic_fetch_add((u64 *)(r1 + 0x0), r0)");
    bytes([0xd3, 0x12, 0, 0, 0, 1, 0, 0], "w2 = load_acquire((u8 *)(r1 + 0x0))");
    bytes([0xdb, 0x12, 8, 0, 0x10, 1, 0, 0], "store_release((u64 *)(r2 + 0x8), r1)");
    bytes([0xe5, 0, 1, 0, 0, 0, 0, 0], "may_goto +0x1");
    bytes([0x85, 0x10, 0, 0, 5, 0, 0, 0], "call pc+0x5");
    bytes([0x37, 0x01, 1, 0, 4, 0, 0, 0], "r1 s/= 0x4");
    bytes([0xbf, 0x21, 8, 0, 0, 0, 0, 0], "r1 = (s8)r2");
    bytes([0x91, 0x21, 0, 0, 0, 0, 0, 0], "r1 = *(s8 *)(r2 + 0x0)");
    bytes([0xd7, 0x01, 0, 0, 0x10, 0, 0, 0], "r1 = bswap16 r1");
    bytes([0xdc, 0x01, 0, 0, 0x20, 0, 0, 0], "r1 = be32 r1");
    bytes([0x06, 0, 0, 0, 5, 0, 0, 0], "gotol +0x5");
    bytes([0x95, 0, 0, 0, 0, 0, 0, 0], "exit");
}

#[test]
fn input_may_be_freer_than_output() {
    means("r1 = 16", "r1 = 0x10");
    means("   12: r1+=4 // four", "r1 += 0x4");
    means("goto +0x1 <LBB0_2>", "goto +0x1");
    means("goto next\nnext: exit", "goto +0x0");
    means("here: goto here", "goto -0x1");
    means("r1 = 0xffffffffffffffff ll", "r1 = -0x1 ll");
    means("call next\nexit\nnext: exit", "call pc+0x1");
    means("r2 = next ll\nexit\nnext: exit", "r2 = pc+0x2 ll");
    means("call map_update_elem", "call 0x2 ; map_update_elem");
    means("call xdp_adjust_head", "call 0x2c ; xdp_adjust_head");
    means("call elsewhere\nexit\nelsewhere: exit", "call pc+0x1");
    means("w1 = 0xffffffff", "w1 = -0x1");
    means("w1 &= 4294967295", "w1 &= -0x1");
    means("if w2 & 0xffffffc0 goto +1", "if w2 & -0x40 goto +0x1");
    means("w1 = *(u32 *)(r2 + 0)", "r1 = *(u32 *)(r2 + 0x0)");
    means("lock *(u32 *)(r2 + 0) += r1", "lock *(u32 *)(r2 + 0x0) += w1");
    means("r1 = *(u64 *)(r10 + -8)", "r1 = *(u64 *)(r10 - 0x8)");
    means("*(u32 *)(r10) = w1", "*(u32 *)(r10 + 0x0) = r1");
}

#[test]
fn bad_text_is_refused_with_its_line() {
    refused("r11 = 0", 2, "begins no instruction");
    refused("r01 = 0", 2, "begins no instruction");
    refused("\n\nr1 = 0x80000000", 4, "does not fit");
    refused("w1 = 0x100000000", 2, "does not fit");
    refused("w1 = -0x80000001", 2, "does not fit");
    refused("r1 &= 0xffffffff", 2, "does not fit");
    refused("if r1 > 0xffffffff goto +1", 2, "does not fit");
    refused("r1 = r2 r3", 2, "left over");
    refused("r1 = w2", 2, "differ in width");
    refused("w1 = 0 ll", 2, "must be an r register");
    refused("goto nowhere\nexit", 2, "not defined");
    refused("r1 = nowhere ll\nexit", 2, "not defined");
    refused("w1 = here ll", 2, "must be an r register");
    refused("r1 = map_fd[-1] ll", 2, "should be");
    refused("r1 = pc + ll", 2, "should be");
    refused("a: exit\na: exit", 3, "twice");
    refused("if r1 === 2 goto +1", 2, "should be");
    refused("*(u65 *)(r1) = 0", 2, "no width");
    refused("*(s8 *)(r1) = 0", 2, "unsigned");
    refused("r1 = *(s64 *)(r1 + 0)", 2, "no sign-extending");
    refused("w1 = *(u64 *)(r1 + 0)", 2, "must be an r register");
    refused("w1 = *(s8 *)(r1 + 0)", 2, "must be an r register");
    refused("lock *(u64 *)(r1 + 0) += w1", 2, "needs an r register");
    refused("lock *(u8 *)(r1 + 0) += r1", 2, "32 or 64");
    refused("r1 = *(u8 *)(r1 + 0x8000)", 2, "16 bits");
    refused("r1 = cmpxchg_64(r1 + 0x0, r1, r2)", 2, "result");
    refused("r1 = load_acquire((u8 *)(r2 + 0))", 2, "not the width");
    refused("w1 = load_acquire((u64 *)(r2 + 0))", 2, "not the width");
    refused("r1 = load_acquire((s64 *)(r2 + 0))", 2, "unsigned");
    refused("store_release((u32 *)(r2 + 0), r1)", 2, "not the width");
    refused("store_release((u32 *)(r2 + 0) w1)", 2, "should be");
    refused("r1 = be16 r2", 2, "again");
    refused("r1 = be17 r1", 2, "16, 32 or 64");
    refused("r1 = map[@none] ll", 2, "no map");
    refused("r1 = \"x", 2, "quotes");
    refused("r1 = 0xg", 2, "no number");
    refused("r1 = 99999999999999999999", 2, "no number");
    refused("é", 2, "no meaning");
    refused("call nothing", 2, "no helper");
    refused("call callx r1", 2, "left over");
    refused("map @m heap key 1 value 1 entries 1", 2, "no map kind");
    refused("map @m hash key 1 value 1", 2, "line ends");
    refused("map @m hash key 1 value 1 entries 1 flags", 2, "line ends");
    refused("map @m array_of_maps key 4 value 4 entries 1 inner @m", 2, "");
    refused("program \"q\" unsupported \"tc\"", 2, "unsupported: the program `q` is of section `tc`");
    refused("program \"q\" kprobe", 2, "no program kind");
    assert!(parse("exit").is_err_and(|error| error.message.contains("before the first")));
}

#[test]
fn odd_names_survive() {
    let map = |name: &str| MapSpec {
        flags: 0x480,
        extra: name.len() as u64,
        inner: (name.len() == 5).then_some(2),
        ..MapSpec::new(name, MapKind::Array, 4, u32::MAX, 0)
    };
    let insns = parse("program \"\" probe\nr1 = map[#0] ll\nr1 = map[#4] ll\nr2 = map[#1] ll")
        .expect("parses")
        .programs;
    let object = Object {
        maps: ["twice", "twice", "", "a b\"\\\n\u{7f}é]", "ll"].map(map).to_vec(),
        programs: vec![Program {
            name: "x\"\\\t".into(),
            kind: ProgramKind::Controller,
            insns: insns[0].insns.clone(),
        }],
    };
    assert_eq!(parse(&print(&object)), Ok(object));
}

#[test]
fn contents_of_maps_survive() {
    let text = "map .data array key 4 value 8 entries 1\ninitial .data \"2a00ff\"
map zero array key 4 value 4 entries 1\ninitial zero \"\"
map twice array key 4 value 4 entries 1
map twice array key 4 value 4 entries 1\ninitial #3 \"01\"
map steps prog_array key 4 value 4 entries 4\nholds steps 0 \"a b\"\nholds steps 3 q
map outer array_of_maps key 4 value 4 entries 2 inner 2\nholds outer 1 #3
map by hash_of_maps key 4 value 4 entries 2 inner 2\nholds by 77 #2\nholds by 4294967295 zero\n
; section \"uprobe\"\nprogram \"a b\" probe\n     0: exit\n\n; section \"xdp\"\nprogram \"q\" xdp\n     0: exit\n";
    let file = parse_file(text).unwrap();
    assert_eq!(file.maps[0].initial.as_deref(), Some(&[0x2a, 0, 0xff, 0, 0, 0, 0, 0][..]));
    assert_eq!(file.maps[1].initial.as_deref(), Some(&[0; 4][..]));
    assert_eq!(file.maps[4].programs, [(0, 0), (3, 1)]);
    assert_eq!((&file.maps[5].held[..], file.maps[6].held.len()), (&[(1, 3)][..], 2));
    assert_eq!(print_file(&file), text);
    assert!(parse(text).is_err_and(|error| error.line == 2 && error.message.contains("no place here")));
}

#[test]
fn bad_contents_are_refused_with_their_line() {
    let check = |maps: &str, contents: &str, part: &str| {
        let text = format!("{}\nprogram \"p\" probe\nexit\n{contents}\n", maps.replace(';', "\n"));
        let error = parse_file(&text).expect_err(&text);
        assert!(error.message.contains(part), "{text}: {error}");
        assert_eq!(error.line, text.lines().count(), "{text}: {error}");
    };
    let one = "map m array key 4 value 2 entries 1";
    check(one, "initial n \"00\"", "no map `n`");
    check(one, "initial #1 \"00\"", "no map `#1`");
    check(one, "initial m \"010203\"", "3 bytes for a value of 2");
    check(one, "initial m \"012\"", "3 hexadecimal digits");
    check(one, "initial m \"0x\"", "no hexadecimal digit");
    check(one, "initial m 00", "should be");
    check(one, "initial m \"\" 1", "left over");
    check(one, "initial m \"\"\ninitial m \"\"", "given twice");
    check(one, "holds m 0 p", "only an array of programs");
    check("map m array key 4 value 4294967295 entries 1", "initial m \"00\"", "have at most 1048576");
    check("map m array key 4 value 2 entries 2", "initial m \"00\"", "one entry");
    check("map m hash key 4 value 2 entries 1", "initial m \"00\"", "one entry");
    let many: String = (0..17).map(|n| format!("map m{n} array key 4 value 1048576 entries 1;")).collect();
    let all: Vec<String> = (0..17).map(|n| format!("initial m{n} \"\"")).collect();
    check(&many, &all.join("\n"), "together 16777216");
    let programs = "map m prog_array key 4 value 4 entries 2";
    check(programs, "holds m 2 p", "slot 2 of 2");
    check(programs, "holds m 0 q", "no program `q`");
    check(programs, "holds m 4294967296 p", "32 bits");
    check(programs, "holds m 1 p\nholds m 1 p", "slot 1 is filled twice");
    check("map m prog_array key 8 value 4 entries 2", "holds m 0 p", "4 bytes each");
    let maps = "map i array key 4 value 4 entries 1;map j array key 4 value 8 entries 1;map o array_of_maps key 4 value 4";
    check(&format!("{maps} entries 2 inner 0"), "holds o 0 j", "`j` is not what");
    check(&format!("{maps} entries 2 inner 0"), "holds o 0 p", "no map `p`");
    check(&format!("{maps} entries 2"), "holds o 0 i", "`i` is not what");
}

#[test]
fn any_bytes_print_and_parse_back() {
    let mut seed = 1;
    for _ in 0..2_000 {
        let insns = (0..40).map(|_| {
            let mut bits = random(&mut seed);
            let shape = random(&mut seed);
            // Unused fields are zero in most instructions that mean something.
            bits &= if shape & 1 == 0 { !0 } else { 0xffff_ffff };
            bits &= if shape & 2 == 0 { !0 } else { !0xffff_0000 };
            bits &= if shape & 4 == 0 { !0 } else { !0xf000 };
            bits &= if shape & 8 == 0 { !0 } else { !0xff };
            Insn::from_bytes(bits.to_le_bytes())
        });
        let program = Program { name: "p".into(), kind: ProgramKind::Probe, insns: insns.collect() };
        let object = Object { maps: vec![], programs: vec![program] };
        let text = print(&object);
        assert_eq!(parse(&text), Ok(object), "{text}");
    }
}

#[test]
fn every_opcode_and_field_prints_and_parses_back() {
    for opcode in 0..=255u8 {
        for (dst, src, off, imm) in
            [(0, 0, 0, 0), (1, 2, 0, 0), (1, 0, 0, 16), (0, 0, 8, 0), (1, 1, 1, 1), (3, 5, -4, 0)]
        {
            let insns = vec![Insn { opcode, dst, src, off, imm }, Insn::default()];
            let program = Program { name: "p".into(), kind: ProgramKind::Probe, insns };
            let object = Object { maps: vec![], programs: vec![program] };
            assert_eq!(parse(&print(&object)), Ok(object));
        }
    }
}

#[test]
fn hostile_text_never_panics() {
    let seed_text = "map @m array key 4 value 8 entries 1\ninitial @m \"2a0b\"\nmap t prog_array key 4 value 4 entries 2
        holds t 1 p\nprogram \"p\" probe\nl: if r1 s> 0x5 goto l <x>\n\
        lock *(u64 *)(r0 + 0x0) += r1\nr1 = map[\"a\"][0] + 0x8 ll\nr0 = cmpxchg_64(r1 + 0x0, r0, r2)\nw1 = (s8)w2\n";
    let mut seed = 7;
    for _ in 0..20_000 {
        let mut bytes = seed_text.as_bytes().to_vec();
        for _ in 0..1 + random(&mut seed) % 4 {
            let at = random(&mut seed) as usize % bytes.len();
            match random(&mut seed) % 3 {
                0 => bytes[at] = random(&mut seed) as u8,
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(file) = parse_file(&text) {
            assert_eq!(parse_file(&print_file(&file)), Ok(file), "{text}");
        }
    }
}
