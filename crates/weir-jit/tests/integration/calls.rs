//! Helpers in interpreter, JIT and kernel: answers that are known must be equal, others must lie near each other.
//!
//! A case is a program that leaves r0 in `@out`; `@in` holds the bytes that it is given, and `@text` what it prints.

use crate::engines;

use engines::{abis, compiled, segment, shared_abi};
use testkit::kernel;
use weir_ebpf::{Object, asm};
use weir_jit::Flags;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_rt::segment::Segment;
use weir_verifier::{Limits, verify};

const MAPS: &str = "map @in array key 4 value 256 entries 1\nmap @out array key 4 value 8 entries 1
map @text array key 4 value 64 entries 1\nmap @ring ringbuf key 0 value 0 entries 4096
map @perf perf_event_array key 4 value 4 entries 4096\nmap @stack stack_trace key 4 value 64 entries 1
map @stacks stack_trace key 4 value 1016 entries 64\nmap @groups cgroup_array key 4 value 4 entries 2
program \"case\" probe\n";
const AFTER: &str = "\nr1 = map[@out][0] ll\n*(u64 *)(r1 + 0) = r0\nr0 = 0\nexit\n";

/// What a run left: r0 of the case, and `@text`.
pub(crate) type Left = (u64, Vec<u8>);

pub(crate) fn object(text: &str) -> Object {
    let text = format!("{MAPS}{}{AFTER}", text.replace(';', "\n"));
    asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn input(bytes: &[u8]) -> Vec<u8> {
    let mut value = bytes.to_vec();
    value.resize(256, 0);
    value
}

/// Runs the case on maps of its own, with `@in` set.
fn run(object: &Object, bytes: &[u8], run: impl FnOnce(&Segment)) -> Left {
    let segment = segment(&object.maps, engines::cpus());
    segment.map(0).update(&0u32.to_le_bytes(), &input(bytes), 0).expect("an array has its elements");
    run(&segment);
    let value = |map: usize| segment.map(map).lookup(&0u32.to_le_bytes()).expect("an array has its elements");
    (u64::from_le_bytes(value(1).try_into().expect("8 bytes")), value(2))
}

/// In the interpreter, and in the JIT for every kind of site.
pub(crate) fn in_weir(object: &Object, bytes: &[u8]) -> Vec<Left> {
    in_weir_at(object, bytes, Frame::default())
}

/// The same with a context.
fn in_weir_at(object: &Object, bytes: &[u8], frame: Frame) -> Vec<Left> {
    let limits = Limits { allow_changes: true, ..Limits::default() };
    let program = verify(&object.programs[0], &object.maps, &limits)
        .unwrap_or_else(|rejection| panic!("{rejection}\n{}", asm::print(object)));
    let mut all = vec![run(object, bytes, |segment| {
        let environment = weir_interp::Environment { segment };
        weir_interp::run(&program, &environment, &mut frame.clone()).expect("verified");
    })];
    for abi in abis() {
        for flags in [Flags::KeepIfPossible, Flags::Change] {
            let executable = compiled(&program, &abi, flags);
            all.push(run(object, bytes, |segment| {
                LocalProgram::load(&executable, segment).expect("code fits").run(&mut frame.clone());
            }));
        }
    }
    all
}

/// In the kernel, where it can be asked.
fn in_kernel(object: &Object, bytes: &[u8]) -> Option<Left> {
    in_kernel_at(object, bytes, 0)
}

/// The same with a frame pointer.
fn in_kernel_at(object: &Object, bytes: &[u8], frame: u64) -> Option<Left> {
    if let Err(reason) = kernel::available() {
        testkit::skip::skip("helpers::kernel", reason);
        return None;
    }
    let values = [input(bytes), vec![0; 8], vec![0; 64]];
    // Some helpers are there for programs on packets alone.
    let run =
        kernel::run_tracing_at(object, &values, frame).or_else(|_| kernel::run_classifier(object, &values));
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let r0 = u64::from_le_bytes(run.values[1].clone().try_into().expect("8 bytes"));
    Some((r0, run.values[2].clone()))
}

/// Every engine leaves the same, and r0 is `result`.
#[track_caller]
fn check_with(bytes: &[u8], text: &str, result: i64) {
    let object = object(text);
    let all = in_weir(&object, bytes);
    for left in &all {
        assert_eq!(left.0 as i64, result, "{text}");
        assert_eq!(left, &all[0], "{text}");
    }
    if let Some(left) = in_kernel(&object, bytes) {
        let shown = |left: &Left| (left.0 as i64, String::from_utf8_lossy(&left.1).into_owned());
        assert_eq!(shown(&all[0]), shown(&left), "weir and the kernel: {text}");
    }
}

#[track_caller]
pub(crate) fn check(text: &str, result: i64) {
    check_with(&[], text, result);
}

const EFAULT: i64 = -14;
pub(crate) const EINVAL: i64 = -22;

#[test]
fn reads_of_memory_and_their_faults() {
    for read in ["probe_read", "probe_read_user", "probe_read_kernel"] {
        for address in ["0", "0x1000", "0x7fffffffffff", "0x800000000000", "0xffffffffff600000", "-8"] {
            // The destination is zero afterwards.
            let text = format!(
                "r3 = -1; *(u64 *)(r10 - 8) = r3; r1 = r10; r1 += -8; r2 = 8; r3 = {address} ll; call {read}
                 r6 = r0; r1 = *(u64 *)(r10 - 8); r0 = 1; if r1 != 0 goto +1; r0 = r6"
            );
            let all = in_weir(&object(&text), &[]);
            assert!(all.iter().all(|left| left.0 as i64 == EFAULT), "{text}");
            match in_kernel(&object(&text), &[]) {
                // A read of the kernel's memory tells addresses that are none apart: -ERANGE.
                Some((r0, _)) if read != "probe_read_user" => assert!((r0 as i64) < 0, "{text}"),
                Some((r0, _)) => assert_eq!(r0 as i64, EFAULT, "{text}"),
                None => {}
            }
        }
        let nothing = format!("*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 0; r3 = 0; call {read}");
        assert!(in_weir(&object(&nothing), &[]).iter().all(|left| left.0 == 0), "{nothing}");
    }
    for read in ["probe_read_str", "probe_read_user_str", "probe_read_kernel_str"] {
        let text = format!("*(u64 *)(r10 - 8) = 5; r1 = r10; r1 += -8; r2 = 8; r3 = 1; call {read}");
        assert!(in_weir(&object(&text), &[]).iter().all(|left| left.0 as i64 == EFAULT), "{text}");
        if let Some((r0, _)) = in_kernel(&object(&text), &[]) {
            assert!((r0 as i64) < 0, "{text}");
        }
        check(&format!("*(u64 *)(r10 - 8) = 5; r1 = r10; r1 += -8; r2 = 0; r3 = 1; call {read}"), 0);
    }
    // What the kernel reads in its own memory, weir reads in the process's.
    let own = "r4 = 0x44434241 ll; *(u64 *)(r10 - 16) = r4; r1 = r10; r1 += -8; r2 = 8; r3 = r10; r3 += -16";
    check(&format!("{own}; call probe_read_kernel; r0 = *(u64 *)(r10 - 8)"), 0x4443_4241);
    check(
        &format!(
            "*(u64 *)(r10 - 8) = 0; {own}; call probe_read_kernel_str; r6 = *(u64 *)(r10 - 8); r0 += r6"
        ),
        0x4443_4246,
    );
    check(
        &format!(
            "*(u64 *)(r10 - 8) = 0; {own}; r2 = 3; call probe_read_kernel_str; r6 = *(u64 *)(r10 - 8); r0 += r6"
        ),
        0x4244,
    );
}

/// The frame holds all that a helper may reach, be it far below every address that the program names.
#[test]
fn helpers_reach_the_stack_at_an_index() {
    let index = "r6 = map[@in][0] ll; r6 = *(u8 *)(r6 + 0)";
    let words = "r1 = 0x44434241 ll; *(u64 *)(r10 - 8) = r1; *(u64 *)(r10 - 32) = 0; *(u64 *)(r10 - 24) = 0";
    for (at, expected) in [(0, 0x4443_4241u64), (3, 0x0044_4342_4100_0000), (7, 0x4100_0000_0000_0000)] {
        let text = format!(
            "{words}; {index}; r6 &= 7; r1 = r10; r1 += -32; r1 += r6; r2 = 4; r3 = r10; r3 += -8; call probe_read_kernel
             r0 = *(u64 *)(r10 - 32)"
        );
        check_with(&[at], &text, expected as i64);
        let text = format!(
            "{words}; {index}; r6 &= 7; r6 += -8; r6 += r10; r1 = r10; r1 += -32; r2 = 1; r3 = r6; call probe_read_kernel
             r0 = *(u8 *)(r10 - 32)"
        );
        let byte = [0x41, 0, 0, 0x44, 0, 0, 0, 0][usize::from(at)];
        check_with(&[at], &text, byte);
    }
    let copies = "r2 = 16; r3 = map[@in][0] ll; call probe_read_kernel";
    for text in [
        format!("{index}; r6 &= 96; r1 = r10; r1 += -16; r1 -= r6; {copies}"),
        format!("{index}; r6 &= 96; r1 = -16; r1 += r10; r1 -= r6; {copies}"),
        // All of the frame: a return address that stood in it would be gone.
        "r1 = -96; r2 = r10; r2 += -16; r1 += r2; r2 = 112; r3 = map[@in][0] ll; call probe_read_kernel"
            .to_owned(),
    ] {
        assert!(in_weir(&object(&text), &[96]).iter().all(|left| left.0 == 0), "{text}");
    }
}

/// Whatever stood in a frame before, of the program, of a function at each call, or of a callback: it is zero.
#[test]
fn stack_that_was_never_written_is_zero() {
    for (text, functions) in [
        ("r0 = *(u64 *)(r10 - 8)", ""),
        ("*(u32 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8)", ""),
        ("r0 = *(u64 *)(r10 - 8); r1 = *(u32 *)(r10 - 300); r0 += r1; *(u64 *)(r10 - 8) = 7", ""),
        ("call f; r6 = r0; call f; r0 += r6", "f: r0 = *(u64 *)(r10 - 8); *(u64 *)(r10 - 8) = 7; exit"),
        ("call g; call f", "f: r0 = *(u64 *)(r10 - 40); exit; g: r0 = -1; *(u64 *)(r10 - 40) = r0; r1 = r10; r1 += -48; call h; exit
          h: r0 = *(u64 *)(r1 + 8); *(u64 *)(r1 + 0) = r0; r0 = 1; exit"),
        ("*(u64 *)(r10 - 8) = 0; r1 = 5; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = *(u64 *)(r10 - 8)",
         "f: r0 = *(u64 *)(r10 - 8); r1 = *(u64 *)(r2 + 0); r1 += r0; *(u64 *)(r2 + 0) = r1; *(u64 *)(r10 - 8) = 9; r0 = 0; exit"),
        // A place that could be a register, were it not zero at first.
        (
            "r2 = map[@in][0] ll; r2 = *(u8 *)(r2 + 0); r6 = 4; r7 = 0; here: r1 = *(u64 *)(r10 - 16); r7 += r1
             if r2 == 24 goto +1; *(u64 *)(r10 - 16) = r2; r6 += -1; if r6 != 0 goto here; r0 = r7",
            "",
        ),
        ("r6 = 4; r7 = 0; here: r1 = *(u64 *)(r10 - 16); r7 += r1; r6 += -1; if r6 != 0 goto here; r0 = r7", ""),
        ("r2 = r10; r2 += -64; r1 = map[@in][0] ll; r1 = *(u8 *)(r1 + 0); r1 &= 56; r2 += r1; r0 = *(u64 *)(r2 + 0)", ""),
    ] {
        let object = {
            let text = format!("{MAPS}{}{AFTER}{}", text.replace(';', "\n"), functions.replace(';', "\n"));
            asm::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let verified = engines::verified(&object.programs[0], &object.maps);
        assert!(verified.zeroes_frames(), "{text}");
        for _ in 0..3 {
            assert!(in_weir(&object, &[24]).iter().all(|left| left.0 == 0), "{text}");
        }
    }
}

/// As a program compiled for many kernels reads its registers.
#[test]
fn helpers_read_the_context_at_a_field() {
    let frame = Frame { regs: std::array::from_fn(|slot| 1000 + slot as u64), ..Frame::default() };
    for (at, field) in [
        (0, "r3 = r1; r3 += 112"),
        (0, "r3 = 112; r3 += r1"),
        (
            32,
            "r3 = map[@in][0] ll
        r3 = *(u8 *)(r3 + 0); r3 &= 56; r3 += r1; r3 += 80",
        ),
    ] {
        let text =
            format!("{field}; r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = *(u64 *)(r10 - 8)");
        let all = in_weir_at(&object(&text), &[at], frame);
        assert!(all.iter().all(|left| left.0 == 1014), "{text}: {all:?}");
    }
}

#[test]
fn strncmp_stops_at_a_nul_or_at_the_size() {
    let object = |left: &[u8; 8], size: u32, right: &str| {
        let word = u64::from_le_bytes(*left);
        let at = right.len();
        assert!(at < 64);
        (
            format!(
                "r1 = {word:#x} ll; *(u64 *)(r10 - 8) = r1; r1 = r10; r1 += -8; r2 = {size}; r3 = map[@in][0] ll; call strncmp"
            ),
            right.as_bytes().to_vec(),
        )
    };
    for (left, size, right, result) in [
        (b"abc\0\0\0\0\0", 8, "abc", 0),
        (b"abc\0xxxx", 8, "abc", 0),
        (b"abcdefgh", 3, "abcxyz", 0),
        (b"abcdefgh", 8, "abc", 1),
        (b"abc\0\0\0\0\0", 8, "abcd", -1),
        (b"\xffbc\0\0\0\0\0", 8, "abcd", 1),
        (b"abcdefgh", 8, "abcdefgi", -1),
        (b"abcdefgh", 8, "", 1),
        (b"\0bcdefgh", 1, "", 0),
    ] {
        let (text, bytes) = object(left, size, right);
        let object = self::object(&text);
        for left in in_weir(&object, &bytes) {
            assert_eq!(left.0 as i64, result, "{text} {right:?}");
        }
    }
}

/// `snprintf` into 64 bytes of the stack, which then go to `@text`; r0 is its answer.
fn snprintf(words: &[u64], size: u32) -> String {
    let mut text: String = (0..8).map(|n| format!("*(u64 *)(r10 - {}) = 0\n", 64 - 8 * n)).collect();
    for (n, word) in words.iter().enumerate() {
        text += &format!("r1 = {word:#x} ll; *(u64 *)(r10 - {}) = r1;", 64 + 8 * (words.len() - n));
    }
    let at = 64 + 8 * words.len();
    text += &format!(
        "r1 = r10; r1 += -64; r2 = {size}; r3 = map[@in][0] ll; r4 = r10; r4 += -{at}; r5 = {}; call snprintf; r9 = r0;",
        8 * words.len()
    );
    text += "r1 = map[@text][0] ll;";
    for n in 0..8 {
        text += &format!("r2 = *(u64 *)(r10 - {}); *(u64 *)(r1 + {}) = r2;", 64 - 8 * n, 8 * n);
    }
    text + "r0 = r9"
}

/// What `format` makes of `words`, in every engine of weir.
#[track_caller]
fn prints(format: &str, words: &[u64], expected: &str) {
    let object = object(&snprintf(words, 64));
    let mut format = format.as_bytes().to_vec();
    format.push(0);
    for (r0, text) in in_weir(&object, &format) {
        let shown = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(shown.trim_end_matches('\0'), expected, "{}", String::from_utf8_lossy(&format));
        assert_eq!(r0, expected.len() as u64 + 1);
    }
}

/// Formats, their words, and what every engine makes of them.
#[rustfmt::skip]
const FORMATS: &[(&str, &[u64], &str)] = &[
    ("plain", &[], "plain"),
    ("100%% of %d", &[7], "100% of 7"),
    ("%d %i %u", &[-5i64 as u64, 0xffff_ffff, 0xffff_ffff], "-5 -1 4294967295"),
    ("%ld %li %lu", &[-5i64 as u64, 1 << 63, u64::MAX], "-5 -9223372036854775808 18446744073709551615"),
    ("%lld %llu %llx", &[-1i64 as u64, 0, 0xdead_beef_0000], "-1 0 deadbeef0000"),
    ("%x %X %lx %lX", &[0xabcd_1234_5678, 0xabcd, 0xabcd_1234_5678, 0xabcd_0000_0000], "12345678 ABCD abcd12345678 ABCD00000000"),
    ("[%5d][%-5d][%05d]", &[42, 42, 42], "[   42][42   ][00042]"),
    ("[%5d][%-5d][%05d]", &[-42i64 as u64, -42i64 as u64, -42i64 as u64], "[  -42][-42  ][-0042]"),
    ("[%+d][% d][%+d][% d]", &[1, 1, -1i64 as u64, -1i64 as u64], "[+1][ 1][-1][-1]"),
    ("[%+05d][%-05d][% 5d]", &[1, 1, 1], "[+0001][1    ][    1]"),
    ("[%08x][%-8x][%2x]", &[0xbeef, 0xbeef, 0xbeef], "[0000beef][beef    ][beef]"),
    ("%c%c[%3c][%-3c]", &[65, 0x142, 67, 68], "AB[  C][D  ]"),
    ("%px", &[0xffff_1234], "00000000ffff1234"),
    ("[%s][%10s]", &[0, 1], "[][          ]"),
    ("%d,%d.%d;%d", &[1, 2, 3, 4], "1,2.3;4"),
    ("%pi4 %pI4", &[0, 0], "000.000.000.000 0.0.0.0"),
    ("%pi6", &[0], "00000000000000000000000000000000"),
    ("%pI6", &[0], "0000:0000:0000:0000:0000:0000:0000:0000"),
    ("%pS %ps", &[0x1234, 0x10], "0x1234 0x10"),
    ("tab\tand\nline %d\n", &[3], "tab\tand\nline 3\n"),
];

#[test]
fn formats_of_snprintf() {
    for (format, words, expected) in FORMATS {
        prints(format, words, expected);
    }
    let text = c"hello";
    prints("<%s><%8s><%-8s>", &[text.as_ptr() as u64; 3], "<hello><   hello><hello   >");
    prints("%pks %pus", &[text.as_ptr() as u64; 2], "hello hello");
    let bytes = [192u8, 168, 1, 20, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xab];
    prints("%pI4 %pi4", &[bytes.as_ptr() as u64; 2], "192.168.1.20 192.168.001.020");
    prints("%pI6", &[bytes.as_ptr() as u64], "c0a8:0114:0506:0708:090a:0b0c:0d0e:0fab");
    prints("%p", &[0x1234], "0000000000001234");
}

/// The kernel checks a format when it loads the program, and it must lie in a map that nobody can write: it is asked
/// through `trace_vprintk`, which reads its format from the stack and answers with the length.
#[test]
fn lengths_of_formats_are_the_kernels() {
    let print = |format: &str, words: &[u64]| {
        let mut bytes = format.as_bytes().to_vec();
        bytes.push(0);
        let size = bytes.len();
        bytes.resize(64, 0);
        let mut text = String::new();
        for (n, chunk) in bytes.chunks(8).enumerate() {
            let word = u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
            text += &format!("r1 = {word:#x} ll; *(u64 *)(r10 - {}) = r1;", 64 - 8 * n);
        }
        for (n, word) in words.iter().enumerate() {
            text += &format!("r1 = {word:#x} ll; *(u64 *)(r10 - {}) = r1;", 64 + 8 * (words.len() - n));
        }
        let at = 64 + 8 * words.len();
        text + &format!(
            "r1 = r10; r1 += -64; r2 = {size}; r3 = r10; r3 += -{at}; r4 = {}; call trace_vprintk",
            8 * words.len()
        )
    };
    let text = c"hello";
    for (format, words, expected) in FORMATS {
        check(&print(format, words), expected.len() as i64);
    }
    check(&print("%s %10s", &[text.as_ptr() as u64; 2]), 16);
    check(&print("%d", &[0; 12]), 1);
    for (format, words) in [
        ("%d", &[][..]),
        ("%d %d", &[1]),
        ("%", &[1]),
        ("%q", &[1]),
        ("%hd", &[1]),
        ("%5.3d", &[1]),
        ("%*d", &[1, 1]),
        ("%#x", &[1]),
        ("%lllu", &[1]),
        ("%lc", &[1]),
        ("%sx", &[1]),
        ("%py", &[1]),
        ("%pI5", &[1]),
        ("%pksx", &[1]),
        ("%n", &[1]),
        ("\u{7f}", &[1]),
        ("\u{1}", &[1]),
        ("%p\u{e9}", &[1]),
        ("%s\u{e9}", &[1]),
    ] {
        check(&print(format, words), EINVAL);
    }
    for (format, words, length) in [("ä", &[][..], 2), ("%dä", &[1], 3), ("é%s-", &[0], 3)] {
        check(&print(format, words), length);
    }
    check(&print("%d", &[0; 13]), EINVAL);
    // Words that are no words, and a format without its NUL.
    let one = print("%d", &[5]);
    check(&one.replace("r4 = 8;", "r4 = 4;"), EINVAL);
    check(&one.replace("r2 = 3;", "r2 = 2;"), EINVAL);
    check(&one.replace("r2 = 3;", "r2 = 9;"), 1);
}

#[test]
fn what_does_not_fit_is_cut_and_its_length_told() {
    let format = b"12345%d\0";
    for (size, expected) in [(0, ""), (1, ""), (2, "1"), (6, "12345"), (8, "1234567"), (9, "1234567")] {
        for (r0, text) in in_weir(&object(&snprintf(&[67], size)), format) {
            let end = text.iter().position(|byte| *byte == 0).expect("a NUL");
            assert_eq!((r0, &text[..end]), (8, expected.as_bytes()), "{size}");
        }
    }
    let null = "r1 = 0; r2 = 0; r3 = map[@in][0] ll; r4 = 0; r5 = 0; call snprintf";
    assert!(in_weir(&object(null), b"abc\0").iter().all(|left| left.0 == 4));
    let no_end = vec![b'a'; 256];
    assert!(in_weir(&object(null), &no_end).iter().all(|left| left.0 as i64 == EINVAL));
}

#[test]
fn trace_printk_takes_three_words() {
    let print = |rest: &str| {
        let word = u64::from_le_bytes(*b"%d %lx\0\0");
        format!("r1 = {word:#x} ll; *(u64 *)(r10 - 8) = r1; r1 = r10; r1 += -8; {rest}; call trace_printk")
    };
    check(&print("r2 = 7; r3 = -1; r4 = 0xabc"), 6);
    check(&print("r2 = 8; r3 = 12; r4 = 0xabc; r5 = 1"), 6);
    check(&print("r2 = 6; r3 = -1; r4 = 1"), EINVAL);
    check("*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 1; call trace_printk", 0);
}

#[test]
fn clocks_counters_and_ids_are_the_kernels() {
    for (helper, distance) in [
        ("ktime_get_ns", 2_000_000_000),
        ("ktime_get_boot_ns", 2_000_000_000),
        ("ktime_get_coarse_ns", 2_000_000_000),
        ("ktime_get_tai_ns", 2_000_000_000),
        ("jiffies64", 2_000),
        ("get_current_uid_gid", 0),
        ("get_current_pid_tgid", 0),
        ("get_numa_node_id", 0),
        ("get_smp_processor_id", 0),
        ("get_current_cgroup_id", 0),
    ] {
        // Its number is that of a folder, which a machine may have mounted nowhere.
        if helper == "get_current_cgroup_id" && testkit::cgroup::number_of(std::process::id()).is_err() {
            testkit::skip::skip("contexts-cgroup-numbers", "no hierarchy of cgroups of version 2 is mounted");
            continue;
        }
        testkit::cpu::stay_on_this();
        let object = object(&format!("call {helper}"));
        let all = in_weir(&object, &[]);
        let Some((kernel, _)) = in_kernel(&object, &[]) else { return };
        for (r0, _) in all {
            assert!(kernel.abs_diff(r0) <= distance, "{helper}: {r0:#x}, in the kernel {kernel:#x}");
        }
    }
}

#[test]
fn random_numbers_differ_and_use_all_bits() {
    let object = object("call get_prandom_u32");
    let program = engines::verified(&object.programs[0], &object.maps);
    let executable = compiled(&program, &shared_abi(false), Flags::default());
    let segment = segment(&object.maps, 1);
    let local = LocalProgram::load(&executable, &segment).expect("code fits");
    let next = || {
        local.run(&mut Frame::default());
        let value = segment.map(1).lookup(&0u32.to_le_bytes()).expect("an array has its elements");
        u64::from_le_bytes(value.try_into().expect("8 bytes"))
    };
    let numbers: Vec<u64> = (0..4096).map(|_| next()).collect();
    assert!(numbers.iter().all(|number| *number <= u32::MAX.into()));
    for bit in 0..32 {
        let ones = numbers.iter().filter(|number| *number >> bit & 1 == 1).count();
        // 2048 expected, 32 standard deviation.
        assert!((1848..2248).contains(&ones), "bit {bit}: {ones} of 4096");
    }
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert!(distinct.len() > 4080, "{}", distinct.len());
}

#[test]
fn ids_in_a_pid_namespace() {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata("/proc/self/ns/pid").expect("a namespace");
    let ask = |device: u64, inode: u64, size: u32| {
        format!(
            "r1 = -1; *(u64 *)(r10 - 8) = r1; r1 = {device:#x} ll; r2 = {inode:#x} ll; r3 = r10; r3 += -8; r4 = {size}
             call get_ns_current_pid_tgid; r1 = *(u64 *)(r10 - 8); if r0 != 0 goto +1; r0 = r1; if r0 == 0 goto +0"
        )
    };
    let ids = u64::from(std::process::id()) << 32 | nix::unistd::gettid().as_raw() as u64;
    check(&ask(file.dev(), file.ino(), 8), ids as i64);
    check(&ask(file.dev() + 1, file.ino(), 8), EINVAL);
    check(&ask(file.dev(), file.ino() + 1, 8), EINVAL);
    check(&ask(file.dev(), file.ino(), 4), EINVAL);
}

#[test]
fn a_program_that_may_writes_memory() {
    let to = [0u8; 16];
    let address = to.as_ptr() as u64;
    let write = |address: u64| {
        format!(
            "r2 = 0x1122 ll; *(u64 *)(r10 - 8) = r2; r1 = {address:#x} ll; r2 = r10; r2 += -8; r3 = 8; call probe_write_user"
        )
    };
    // Kernels that are locked down have no such helper, so that none is asked.
    let all = |text: &str, result: i64| {
        assert!(in_weir(&object(text), &[]).iter().all(|left| left.0 as i64 == result), "{text}");
    };
    all(&write(address + 4), 0);
    // SAFETY: reads an array that the program wrote.
    let now = unsafe { std::ptr::read_volatile(&to) };
    assert_eq!(now[4..8], [0x22, 0x11, 0, 0]);
    all(&write(8), EFAULT);
    all(&write(u64::MAX - 4095), EFAULT);
}

#[test]
fn a_program_that_may_sends_signals() {
    use nix::sys::signal::{SigSet, Signal};
    let mask = SigSet::from_iter([Signal::SIGUSR2]);
    mask.thread_block().expect("a mask");
    // The process's goes to any thread: SIGURG, which is ignored where nobody waits for it.
    for (helper, signal) in [("send_signal", 23), ("send_signal_thread", 12), ("send_signal", 0)] {
        for left in in_weir(&object(&format!("r1 = {signal}; call {helper}")), &[]) {
            assert_eq!(left.0, 0);
        }
        check(&format!("r1 = 65; call {helper}"), EINVAL);
        check(&format!("r1 = -1; call {helper}"), EINVAL);
    }
    assert_eq!(mask.wait().expect("pending"), Signal::SIGUSR2);
}

#[test]
fn sums_of_checksums() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let sum = |from: u32, to: u32, seed: u32| {
        format!(
            "r1 = map[@in][0] ll; r2 = {from}; r3 = map[@in][0] + {from} ll; r4 = {to}; r5 = {seed}; call csum_diff"
        )
    };
    let bytes = words(&[0x0001_0002, 0xffff_0003, 0x1234_5678, 0xfffe_fffd]);
    for (from, to, seed, result) in [
        (0, 4, 0, 3),
        (4, 0, 0, 0xfffc),
        (4, 4, 0, 0xffff),
        (0, 0, 5, 5),
        (0, 8, 0xffff, 6),
        (8, 8, 1, 0x68a4),
        (3, 4, 0, 510),
        (4, 5, 0, 120),
    ] {
        check_with(&bytes, &sum(from, to, seed), result);
    }
}

#[test]
fn a_ring_tells_its_size_and_positions() {
    let ask = |what: u64| {
        format!(
            "*(u64 *)(r10 - 8) = 5; r1 = map[@ring] ll; r2 = r10; r2 += -8; r3 = 5; r4 = 0; call ringbuf_output
             r1 = map[@ring] ll; r2 = {what}; call ringbuf_query"
        )
    };
    for (what, result) in [(0, 16), (1, 4096), (2, 0), (3, 16), (4, 0)] {
        check(&ask(what), result);
    }
}

#[test]
fn the_function_is_where_the_context_stands() {
    let text = "program \"p\" probe\ncall get_func_ip\nexit\n";
    let (_, program) = engines::only(text);
    let mut frame = Frame::default();
    frame.regs[16] = 0x5555_1234_5678;
    assert_eq!(program.context_reads(), 1 << 16);
    assert_eq!(engines::run_interpreter(&program, frame).r0, frame.regs[16]);
    for abi in abis() {
        let executable = compiled(&program, &abi, Flags::default());
        assert_eq!(executable.context_reads, 1 << 16);
        assert_eq!(engines::run_jit(&program, &abi, Flags::default(), frame).r0, frame.regs[16]);
    }
}

#[test]
fn floating_point_arguments_stand_behind_the_registers() {
    let text = "program \"p\" probe\nr0 = *(u64 *)(r1 + 168)\nr2 = *(u32 *)(r1 + 228)\nr0 += r2\nexit\n";
    let (_, program) = engines::only(text);
    let mut frame = Frame { regs: [5; 21], cookie: 6, ..Frame::default() };
    (frame.floats[0], frame.floats[7]) = (0x3ff8_0000_0000_0000, 0x4000_0000_ffff_ffff);
    let want = 0x3ff8_0000_4000_0000;
    assert_eq!(engines::run_interpreter(&program, frame).r0, want);
    for abi in abis() {
        assert_eq!(compiled(&program, &abi, Flags::default()).context_reads, 1 << 21 | 1 << 28);
        assert_eq!(engines::run_jit(&program, &abi, Flags::default(), frame).r0, want);
    }
}

/// Frames in memory: each holds the address of the next one and a return address, from 0x1000 on; the last one leads to
/// `end`.
fn chain(frames: usize, end: u64) -> Vec<[u64; 2]> {
    let mut chain = vec![[0; 2]; frames];
    let base = chain.as_ptr() as u64;
    for (n, frame) in chain.iter_mut().enumerate() {
        let next = if n + 1 < frames { base + 16 * (n as u64 + 1) } else { end };
        *frame = [next, 0x1000 + n as u64];
    }
    chain
}

/// A stack whose innermost address is where the thread is, which weir is told and the kernel knows.
fn frame_at(base: u64) -> Frame {
    let mut frame = Frame::default();
    frame.regs[4] = base;
    frame.regs[16] = 0xabcd;
    frame
}

/// Weir and the kernel leave the same from a stack at `base`; what that is.
#[track_caller]
fn check_stack(text: &str, base: u64) -> Left {
    let object = object(text);
    let all = in_weir_at(&object, &[], frame_at(base));
    assert!(all.iter().all(|left| *left == all[0]), "{text}: {all:x?}");
    if let Some(kernel) = in_kernel_at(&object, &[], base) {
        assert_eq!(all[0], kernel, "weir and the kernel: {text}");
    }
    all[0].clone()
}

/// `get_stack` into 64 bytes that are not zero, which then go to `@text`.
fn get_stack(size: u32, flags: u32) -> String {
    let mut text = String::from("r6 = r1; r1 = -1;");
    for n in 1..=8 {
        text += &format!("*(u64 *)(r10 - {}) = r1;", 8 * n);
    }
    text += &format!(
        "r1 = r6; r2 = r10; r2 += -64; r3 = {size}; r4 = {flags}; call get_stack; r9 = r0; r1 = map[@text][0] ll;"
    );
    for n in 0..8 {
        text += &format!("r2 = *(u64 *)(r10 - {}); *(u64 *)(r1 + {}) = r2;", 64 - 8 * n, 8 * n);
    }
    text + "r0 = r9"
}

const USER: u32 = 1 << 8;
const EOPNOTSUPP: i64 = -95;

#[test]
fn stacks_are_unwound_by_frame_pointers() {
    let words = |left: &Left| -> Vec<u64> {
        left.1.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
    };
    for frames in [0, 1, 7, 8, 126, 127, 200] {
        let chain = chain(frames, 0);
        for skip in [1, 2, 5, 126, 127, 128, 255] {
            for size in [64, 8] {
                check_stack(&get_stack(size, USER | skip), chain.as_ptr() as u64);
            }
        }
    }
    let some = chain(20, 0);
    let left = check_stack(&get_stack(64, USER | 3), some.as_ptr() as u64);
    assert_eq!((left.0, words(&left)), (64, (0x1002..0x100a).collect()));
    let few = chain(3, 0);
    let left = check_stack(&get_stack(64, USER | 1), few.as_ptr() as u64);
    assert_eq!((left.0, words(&left)), (24, vec![0x1000, 0x1001, 0x1002, 0, 0, 0, 0, 0]));
    // Chains that end at a bad address, or not at all.
    for end in [1, 0x1000, 0x7fff_ffff_fff8, 1 << 47, u64::MAX - 7, u64::MAX] {
        let chain = chain(3, end);
        check_stack(&get_stack(64, USER | 1), chain.as_ptr() as u64);
        check_stack(&get_stack(64, USER | 1), end);
    }
    let mut round = chain(2, 0);
    round[1][0] = round.as_ptr() as u64;
    let left = check_stack(&get_stack(64, USER | 120), round.as_ptr() as u64);
    assert_eq!(left.0, 56);
    // Frames at odd addresses.
    let bytes: Vec<u8> = (0..64).collect();
    check_stack(&get_stack(64, USER | 1), bytes.as_ptr() as u64 + 3);
}

#[test]
fn at_an_entry_the_caller_is_on_top_of_the_stack() {
    let (chain, top) = (chain(3, 0), [0u64, 0x77]);
    for (is_entry, want) in [(1, &[0x77, 0x1000, 0x1001, 0x1002][..]), (0, &[0x1000, 0x1001, 0x1002])] {
        let mut frame = Frame { is_entry, ..frame_at(chain.as_ptr() as u64) };
        frame.regs[19] = &raw const top[1] as u64;
        for left in in_weir_at(&object(&get_stack(64, USER | 1)), &[], frame) {
            let words: Vec<u64> =
                left.1.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
            assert_eq!((left.0, &words[..want.len()]), (8 * want.len() as u64, want), "{is_entry}");
        }
    }
}

#[test]
fn what_get_stack_is_asked_for_wrongly() {
    for (size, flags) in [(64, USER | 1 << 9), (64, 1 << 12), (12, USER), (63, USER), (64, 1 << 11)] {
        let left = check_stack(&get_stack(size, flags), 0);
        assert_eq!(left.0 as i64, EINVAL, "{size} {flags:#x}");
    }
    // There are no stacks of a kernel, and no build ids.
    for flags in [0, 3, USER | 1 << 11] {
        let all = in_weir_at(&object(&get_stack(64, flags)), &[], frame_at(0));
        assert!(all.iter().all(|left| left.0 as i64 == EOPNOTSUPP && left.1 == [0; 64]), "{flags:#x}");
    }
}

#[test]
fn ids_of_stacks() {
    let id =
        |map: &str, flags: u32| format!("r1 = r6; r2 = map[@{map}] ll; r3 = {flags} ll; call get_stackid");
    let one = |flags: u32| format!("r6 = r1; {}", id("stack", flags));
    let two = |first: u32, second: u32| format!("{}; {}", one(first), id("stack", second));
    const FAST: u32 = 1 << 9;
    const REUSE: u32 = 1 << 10;
    let chain = chain(5, 0);
    let base = chain.as_ptr() as u64;
    for (text, result) in [
        (one(USER | 1), 0),
        (one(USER | 5), 0),
        (one(USER | 6), EFAULT),
        (one(USER | 255), EFAULT),
        (one(USER | 1 << 11), EINVAL),
        (one(USER | 1 << 31), EINVAL),
        // The same stack, and another one: there is one bucket.
        (two(USER | 1, USER | 1), 0),
        (two(USER | 1, USER | 1 | FAST), 0),
        (two(USER | 1, USER | 2), -17),
        (two(USER | 1, USER | 2 | FAST), -17),
    ] {
        assert_eq!(check_stack(&text, base).0 as i64, result, "{text}");
    }
    // The kernel has no bucket left that could take the place of its only one (-ENOMEM); weir's are written anew.
    let reuse = two(USER | 1, USER | 2 | REUSE);
    let again = format!("{reuse}; {}", id("stack", USER | 1));
    for (text, result) in [(&one(0), EOPNOTSUPP), (&reuse, 0), (&again, -17)] {
        let all = in_weir_at(&object(text), &[], frame_at(base));
        assert!(all.iter().all(|left| left.0 as i64 == result), "{text}");
    }
    // Many buckets: an id, and for the same stack the same.
    let twice = format!("r6 = r1; {}; r7 = r0; {}; r0 -= r7", id("stacks", USER | 1), id("stacks", USER | 1));
    assert_eq!(check_stack(&twice, base).0, 0);
}

#[test]
fn what_a_stack_id_stands_for() {
    let text = "map @s stack_trace key 4 value 24 entries 64\nprogram \"p\" probe\nr2 = map[@s] ll\nr3 = 256\ncall get_stackid\nexit\n";
    let (_, program) = engines::only(text);
    assert_eq!(program.context_reads(), 1 << 4 | 1 << 16 | 1 << 19);
    let executable = compiled(&program, &shared_abi(false), Flags::default());
    assert_eq!(executable.context_reads, program.context_reads());
    let segment = segment(program.maps(), 1);
    let local = LocalProgram::load(&executable, &segment).expect("code fits");
    let mut ids = std::collections::BTreeMap::new();
    for frames in 0..4 {
        let chain = chain(frames, 0);
        let id = local.run(&mut frame_at(chain.as_ptr() as u64)) as u32;
        // Of three frames the last does not fit: it is the stack of two.
        ids.insert(id, frames.min(2));
    }
    assert_eq!(ids.len(), 3);
    let entries = segment.map(0).entries();
    assert_eq!(entries.len(), 3);
    for (key, value) in &entries {
        let id = u32::from_le_bytes(key.as_slice().try_into().expect("4 bytes"));
        let stack: Vec<u64> =
            [0xabcd].into_iter().chain(0x1000..).take(1 + ids[&id]).chain([0; 3]).take(3).collect();
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(*value, bytes);
        assert_eq!(segment.user_map(0).lookup(key, 0).as_ref(), Ok(&bytes));
    }
    assert_eq!(segment.user_map(0).next_key(None).as_ref(), Ok(&entries[0].0));
    assert_eq!(segment.user_map(0).next_key(Some(&entries[0].0)).as_ref(), Ok(&entries[1].0));
    assert_eq!(segment.user_map(0).lookup_and_delete(&entries[0].0, 0).as_ref(), Ok(&entries[0].1));
    assert!(segment.map(0).delete(&entries[0].0).is_err() && segment.map(0).entries().len() == 2);
    segment.map(0).clear();
    assert_eq!(segment.map(0).entries(), []);
}

#[test]
fn records_of_perf_events() {
    let output = |flags: &str, size: u32| {
        format!(
            "r2 = 0x1122334455667788 ll; *(u64 *)(r10 - 8) = r2; r2 = map[@perf] ll; r3 = {flags} ll; r4 = r10; r4 += -8
             r5 = {size}; call perf_event_output"
        )
    };
    // Flags, and slots that are not there; no CPU has the number 4095.
    check(&output("0x100000000", 8), EINVAL);
    check(&output("0x1000ffffffff", 8), EINVAL);
    check(&output("4096", 8), -7);
    check(&output("0xfffffffe", 8), -7);
    check(&output("4095", 8), -2);
    testkit::cpu::stay_on_this();
    let cpu = nix::sched::sched_getcpu().expect("a CPU");
    let object = object(&output("0xffffffff", 5));
    let program = engines::verified(&object.programs[0], &object.maps);
    let segment = segment(&object.maps, engines::cpus());
    let environment = weir_interp::Environment { segment: &segment };
    weir_interp::run(&program, &environment, &mut Frame::default()).expect("verified");
    for abi in abis() {
        let executable = compiled(&program, &abi, Flags::default());
        LocalProgram::load(&executable, &segment).expect("code fits").run(&mut Frame::default());
    }
    let mut reader = segment.perf(4);
    for _ in 0..1 + abis().len() {
        let (from, record) = reader.next().expect("a record");
        assert_eq!((from as usize, record.bytes), (cpu, vec![0x88, 0x77, 0x66, 0x55, 0x44]));
    }
    assert_eq!(reader.next(), None);
    // By its number a CPU's ring is reached from that CPU alone.
    let own = in_weir(&self::object(&output(&cpu.to_string(), 8)), &[]);
    assert!(own.iter().all(|left| left.0 == 0));
    let other = (cpu + 1) % engines::cpus() as usize;
    let all = in_weir(&self::object(&output(&other.to_string(), 8)), &[]);
    assert!(all.iter().all(|left| left.0 as i64 == if other == cpu { 0 } else { EOPNOTSUPP }));
}

#[test]
fn no_control_group_is_in_a_slot() {
    let ask = |index: &str| format!("r1 = map[@groups] ll; r2 = {index} ll; call current_task_under_cgroup");
    check(&ask("0"), -11);
    check(&ask("1"), -11);
    check(&ask("2"), -7);
    check(&ask("0xffffffff"), -7);
    check(&ask("0x100000000"), -11);
}
