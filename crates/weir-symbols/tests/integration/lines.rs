//! Source lines: where their statements begin.

use testkit::target::{self, Source};
use weir_symbols::{Binary, Error, LinkAddr};

const TEXT: &str = "\
volatile int sink;

static inline __attribute__((always_inline)) void store(int n) {
    sink = n;
}

__attribute__((noipa)) int one(int n) {
    store(n);
    return n + 1;
}

__attribute__((noipa)) int two(int n) {
    store(n + 2);
    __asm__ volatile(\"nop\");
    store(n + 3);
    return n;
}

int main(void) {
    return one(1) + two(2) > 100;
}
";

/// The program, built with these flags beside `-O1 -g`; its source is `lines.c`.
fn binary(flags: &[&str]) -> Binary {
    let flags: Vec<&str> = ["-O1", "-g", "-ffile-prefix-map=/=/src/"].iter().chain(flags).copied().collect();
    Binary::open(&target::build("lines", Source::Text(&format!("#line 1 \"sub/lines.c\"\n{TEXT}")), &flags))
        .unwrap()
}

/// The functions that the places of a line are in.
fn functions(binary: &Binary, file: &str, line: u64) -> Vec<String> {
    let places = binary.source_line(file, line).unwrap_or_else(|error| panic!("{error}"));
    places.iter().map(|&place| binary.function_at(place).expect("in a function").name.clone()).collect()
}

#[test]
fn each_inlined_copy_is_a_place() {
    for flags in [&[][..], &["-gdwarf-4"], &["-gdwarf-5"], &["-static"], &["-no-pie"]] {
        let binary = binary(flags);
        assert_eq!(functions(&binary, "lines.c", 4), ["one", "two", "two"], "{flags:?}");
        assert_eq!(functions(&binary, "lines.c", 9), ["one"], "{flags:?}");
        assert_eq!(functions(&binary, "sub/lines.c", 14), ["two"], "{flags:?}");
    }
}

#[test]
fn a_place_is_the_address_of_an_instruction() {
    let binary = binary(&[]);
    let nop = binary.source_line("lines.c", 14).unwrap()[0];
    assert_eq!(binary.bytes(nop, 1), Some(&[0x90][..]));
    let first = binary.source_line("lines.c", 7).unwrap();
    assert_eq!(first, [binary.find("one").unwrap()[0].address]);
}

#[test]
fn near_misses_are_named() {
    let binary = binary(&[]);
    let message = |file: &str, line| binary.source_line(file, line).unwrap_err().to_string();
    assert!(
        message("lines.c", 6).ends_with("; the nearest lines with code are 4 and 7"),
        "{}",
        message("lines.c", 6)
    );
    assert!(
        message("lines.c", 900).contains("; the nearest line with code is "),
        "{}",
        message("lines.c", 900)
    );
    assert!(message("line.c", 4).ends_with("; did you mean lines.c?"), "{}", message("line.c", 4));
    assert!(matches!(binary.source_line("ines.c", 4), Err(Error::NoSource { .. })), "half a name is none");
}

#[test]
fn files_without_tables_say_so() {
    let bare = target::build("no-lines", Source::Text("int main(void) { return 0; }"), &["-O1", "-g0"]);
    let error = Binary::open(&bare).unwrap().source_line("a.c", 1).unwrap_err().to_string();
    assert!(error.contains("build it with -g"), "{error}");
}

#[test]
fn compressed_tables_are_read() {
    let packed = binary(&["-gz=zlib"]);
    assert_eq!(functions(&packed, "lines.c", 4), ["one", "two", "two"]);
    let _: LinkAddr = packed.entry();
}
