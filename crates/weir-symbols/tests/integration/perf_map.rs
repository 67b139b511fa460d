//! Perf maps: every form of line, overlaps, growth, and bytes that mean no good.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_symbols::VirtAddr;
use weir_symbols::perf_map::PerfMap;

fn map(text: &str) -> PerfMap {
    let mut map = PerfMap::default();
    map.extend(text.as_bytes());
    map
}

#[track_caller]
fn check(text: &str, address: u64, want: Option<(&str, u64)>) {
    assert_eq!(map(text).find(VirtAddr(address)), want, "{address:#x} in\n{text}");
}

#[test]
fn an_address_has_the_name_of_the_line_that_contains_it() {
    let text = "1000 20 LazyCompile:~add /a b.js:1:2\n0x2000 0x10 py::f:/x.py\n3000 1 x\r\n";
    check(text, 0xfff, None);
    check(text, 0x1000, Some(("LazyCompile:~add /a b.js:1:2", 0)));
    check(text, 0x101f, Some(("LazyCompile:~add /a b.js:1:2", 0x1f)));
    check(text, 0x1020, None);
    check(text, 0x2003, Some(("py::f:/x.py", 3)));
    check(text, 0x3000, Some(("x", 0)));
}

#[test]
fn of_entries_that_overlap_the_later_wins_where_they_do() {
    let text = "1000 100 old\n1040 20 new\n";
    check(text, 0x103f, Some(("old", 0x3f)));
    check(text, 0x1040, Some(("new", 0)));
    check(text, 0x105f, Some(("new", 0x1f)));
    check(text, 0x1060, Some(("old", 0x60)));
    check("1000 10 a\n1010 10 b\n1008 10 c\n", 0x1017, Some(("c", 0xf)));
    check("1000 10 a\n1000 10 b\n", 0x1000, Some(("b", 0)));
}

#[test]
fn lines_that_are_none_are_counted_and_the_others_stand() {
    for bad in [
        "",
        "hello",
        "1000",
        "1000 10",
        "1000 10 ",
        "x 10 a",
        "1000 y a",
        "1000 0 a",
        "-1 10 a",
        "+1 10 a",
        "ffffffffffffffff 10 a",
        "1000 10000000000000000 a",
        "1000\t10\ta",
    ] {
        let map = map(&format!("{bad}\n2000 10 good\n"));
        assert_eq!(map.left_out(), 1, "{bad}");
        assert_eq!(map.find(VirtAddr(0x2000)), Some(("good", 0)), "{bad}");
        assert_eq!(map.find(VirtAddr(0x1000)), None, "{bad}");
    }
}

#[test]
fn names_are_made_fit_for_a_terminal_and_cut() {
    check("1000 10 a\u{1b}[31mb\u{7}\n", 0x1000, Some(("a?[31mb?", 0)));
    let mut long = PerfMap::default();
    long.extend(b"1000 10 ");
    // One line of 8 MiB, and no more than a name of it is kept.
    for _ in 0..8 {
        long.extend(&vec![b'n'; 1 << 20]);
    }
    long.extend("ü\n2000 10 next\n".as_bytes());
    assert_eq!(long.find(VirtAddr(0x1000)).unwrap().0.len(), 1024);
    assert_eq!(long.find(VirtAddr(0x2001)), Some(("next", 1)));
    let mut bytes = PerfMap::default();
    bytes.extend(b"1000 10 \xff\xfe\n");
    assert_eq!(bytes.find(VirtAddr(0x1000)), Some(("\u{fffd}\u{fffd}", 0)));
}

#[test]
fn a_file_that_grows_is_read_on_wherever_it_was_cut() {
    let text = "1000 20 one\n2000 20 two\n3000 20 three";
    for cut in 0..=text.len() {
        let mut map = PerfMap::default();
        map.extend(&text.as_bytes()[..cut]);
        map.extend(&text.as_bytes()[cut..]);
        assert_eq!(map.bytes(), text.len() as u64);
        assert_eq!(map.find(VirtAddr(0x1001)), Some(("one", 1)), "{cut}");
        assert_eq!(map.find(VirtAddr(0x2001)), Some(("two", 1)), "{cut}");
        assert_eq!(map.find(VirtAddr(0x3001)), None, "a line without its end, {cut}");
        map.extend(b"\n");
        assert_eq!(map.find(VirtAddr(0x3001)), Some(("three", 1)), "{cut}");
    }
}

#[test]
fn entries_beyond_the_limit_are_counted() {
    let mut map = PerfMap::default();
    let lines = 1u64 << 20;
    for line in 0..lines + 5 {
        map.extend(format!("{:x} 1 f\n", 16 * line).as_bytes());
    }
    assert_eq!(map.left_out(), 5);
    assert_eq!(map.find(VirtAddr(16 * (lines - 1))), Some(("f", 0)));
    assert_eq!(map.find(VirtAddr(16 * lines)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), ..ProptestConfig::default() })]

    /// The model: of all lines that contain the address the last.
    #[test]
    fn names_are_those_of_a_naive_search(lines in prop::collection::vec((0u64..64, 1u64..24), 0..40)) {
        let text: String =
            lines.iter().enumerate().map(|(n, (start, size))| format!("{start:x} {size:x} f{n}\n")).collect();
        let map = map(&text);
        for address in 0..96 {
            let last = lines.iter().enumerate().rev().find(|(_, (start, size))| (*start..start + size).contains(&address));
            let want = last.map(|(n, (start, _))| (format!("f{n}"), address - start));
            prop_assert_eq!(map.find(VirtAddr(address)).map(|(name, at)| (name.to_string(), at)), want);
        }
    }

    #[test]
    fn any_bytes_are_read_or_left_out(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16)) {
        let mut map = PerfMap::default();
        pieces.iter().for_each(|piece| map.extend(piece));
        let _ = map.find(VirtAddr(0));
        let _ = map.find(VirtAddr(u64::MAX));
    }
}
