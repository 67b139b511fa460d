//! The history of mappings, without any process: snapshots in, places out.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_symbols::VirtAddr;
use weir_symbols::generations::{Generations, Image, Moment};
use weir_symbols::maps::{self, Mapping};

const FIRST: Image = Image { started_ticks: 7, stack: 0x7ffd_0000 };
const SECOND: Image = Image { started_ticks: 7, stack: 0x7ffe_0000 };

/// Executable mappings of a page each: `(page, name)`.
fn mappings(pages: &[(u64, &str)]) -> Vec<Mapping> {
    let line = |(page, name): &(u64, &str)| {
        let inode = name.bytes().map(u64::from).sum::<u64>();
        format!("{:x}-{:x} r-xp 00001000 08:01 {inode} {name}\n", page * 4096, (page + 1) * 4096)
    };
    maps::parse(&pages.iter().map(line).collect::<String>()).unwrap()
}

type Look<'a> = (u64, Image, &'a [(u64, &'a str)]);

/// A history of these looks at process 1, each with its time.
fn history(looks: &[Look<'_>]) -> Generations {
    let mut all = Generations::default();
    for (at, image, pages) in looks {
        all.look(1, *image, &mappings(pages), *at);
    }
    all
}

fn paths(all: &Generations, pid: u32, address: u64, moment: Moment) -> Vec<String> {
    let found = all.places(pid, VirtAddr(address), moment);
    let mut paths: Vec<String> =
        found.iter().map(|place| format!("{}+{:x}", all.file(place.file).path, place.offset.0)).collect();
    paths.sort();
    paths
}

fn at(time: u64) -> Moment {
    Moment::Between(time, time)
}

#[track_caller]
fn check(all: &Generations, address: u64, moment: Moment, want: &[&str]) {
    assert_eq!(paths(all, 1, address, moment), want, "{address:#x} at {moment:?}");
}

#[test]
fn an_address_is_found_in_the_file_that_is_mapped_there() {
    let all = history(&[(10, FIRST, &[(1, "/a"), (2, "/b")])]);
    check(&all, 0x1234, at(10), &["/a+1234"]);
    check(&all, 0x2fff, at(999), &["/b+1fff"]);
    check(&all, 0x2000, Moment::Any, &["/b+1000"]);
    check(&all, 0x3000, Moment::Any, &[]);
    check(&all, 0xfff, at(10), &[]);
    assert_eq!(paths(&all, 2, 0x1000, Moment::Any), [""; 0]);
}

#[test]
fn an_unloaded_library_is_found_by_time_and_without() {
    let all = history(&[(10, FIRST, &[(1, "/a")]), (20, FIRST, &[]), (30, FIRST, &[])]);
    for moment in [at(10), at(15), at(20), at(25), at(1000), Moment::Any] {
        check(&all, 0x1000, moment, &["/a+1000"]);
    }
}

#[test]
fn of_two_libraries_at_one_address_the_time_decides() {
    let all =
        history(&[(10, FIRST, &[(1, "/a")]), (20, FIRST, &[]), (30, FIRST, &[]), (40, FIRST, &[(1, "/b")])]);
    check(&all, 0x1000, at(15), &["/a+1000"]);
    check(&all, 0x1000, at(25), &["/a+1000"]);
    // It may have come right after the look at 30.
    check(&all, 0x1000, at(35), &["/b+1000"]);
    check(&all, 0x1000, at(50), &["/b+1000"]);
    check(&all, 0x1000, Moment::Any, &["/a+1000", "/b+1000"]);
    check(&all, 0x1000, Moment::Between(15, 35), &["/a+1000", "/b+1000"]);
}

#[test]
fn between_two_looks_both_are_possible() {
    let all = history(&[(10, FIRST, &[(1, "/a")]), (20, FIRST, &[(1, "/b")])]);
    check(&all, 0x1000, at(15), &["/a+1000", "/b+1000"]);
    check(&all, 0x1000, at(9), &["/a+1000"]);
    check(&all, 0x1000, at(21), &["/b+1000"]);
}

#[test]
fn an_exec_begins_anew() {
    let all = history(&[(10, FIRST, &[(1, "/a"), (2, "/lib")]), (20, SECOND, &[(1, "/b")])]);
    check(&all, 0x1000, at(21), &["/b+1000"]);
    check(&all, 0x2000, at(21), &["/lib+1000"]);
    assert_eq!(all.images(1, at(5)), [FIRST]);
    assert_eq!(all.images(1, at(15)), [FIRST, SECOND]);
    assert_eq!(all.images(1, at(25)), [SECOND]);
    assert_eq!(all.images(1, Moment::Any), [FIRST, SECOND]);
    assert_eq!(all.images(2, Moment::Any), []);
}

#[test]
fn a_process_that_has_ended_keeps_its_history() {
    let mut all = history(&[(10, FIRST, &[(1, "/a")])]);
    all.ended(1, 20);
    all.ended(1, 30);
    all.ended(5, 30);
    check(&all, 0x1000, at(1000), &["/a+1000"]);
    assert_eq!(all.images(1, at(1000)), [FIRST]);
    // Another process with the same id.
    all.look(1, Image { started_ticks: 8, stack: 5 }, &mappings(&[(1, "/b")]), 40);
    check(&all, 0x1000, at(41), &["/b+1000"]);
    check(&all, 0x1000, at(15), &["/a+1000"]);
    assert_eq!(all.images(1, at(50)).len(), 1);
}

#[test]
fn a_mapping_that_is_split_stays_one_place() {
    let whole = maps::parse("1000-3000 r-xp 00000000 08:01 5 /a\n").unwrap();
    let split =
        maps::parse("1000-2000 r-xp 00000000 08:01 5 /a\n2000-3000 rwxp 00001000 08:01 5 /a\n").unwrap();
    let mut all = Generations::default();
    assert_eq!(all.look(1, FIRST, &whole, 10).len(), 1);
    assert_eq!(all.look(1, FIRST, &split, 20).len(), 0);
    check(&all, 0x2010, Moment::Any, &["/a+1010"]);
}

#[test]
fn what_holds_no_code_of_a_file_is_not_kept() {
    let text = "1000-2000 r--p 0 08:01 5 /a\n2000-3000 r-xp 0 00:00 0 [vdso]\n3000-4000 rwxp 0 00:00 0 \n";
    let mut all = Generations::default();
    assert!(all.look(1, FIRST, &maps::parse(text).unwrap(), 10).is_empty());
    for address in [0x1000, 0x2000, 0x3000] {
        check(&all, address, Moment::Any, &[]);
    }
}

#[test]
fn the_limit_forgets_what_went_first_and_counts_it() {
    let mut all = Generations::with_limit(64);
    for round in 0..1000 {
        let name = format!("/lib{}", round % 7);
        all.look(1, FIRST, &mappings(&[(1, "/a"), (100 + round, name.as_str())]), 10 + round);
    }
    check(&all, 0x1000, at(5), &["/a+1000"]);
    assert_eq!(paths(&all, 1, (100 + 999) * 4096, Moment::Any).len(), 1);
    assert_eq!(paths(&all, 1, (100 + 990) * 4096, Moment::Any).len(), 1);
    assert_eq!(paths(&all, 1, 100 * 4096, Moment::Any).len(), 0);
    assert!(all.forgotten() > 900, "{}", all.forgotten());
}

#[test]
fn living_processes_beyond_the_limit_are_bounded_too() {
    let mut all = Generations::with_limit(64);
    let pages: Vec<(u64, &str)> = (0..40).map(|page| (page, "/a")).collect();
    for pid in 0..10 {
        all.look(pid, FIRST, &mappings(&pages), 10);
    }
    let known = (0..10).filter(|pid| !paths(&all, *pid, 0x1000, Moment::Any).is_empty()).count();
    assert_eq!(known, 1);
    assert!(all.forgotten() >= 9 * 40, "{}", all.forgotten());
}

/// What one look saw: which of four files, if any, is on each of six pages.
type Seen = Vec<(u64, Option<u8>)>;

/// The answer by the definition: a look's mapping may have stood from the look before until the look after.
fn naive(looks: &[(u64, Seen)], page: u64, moment: Moment) -> Vec<String> {
    let spans = looks.iter().enumerate().filter_map(|(n, (_, seen))| {
        let file = seen.iter().find(|(at, file)| *at == page && file.is_some())?.1?;
        let from = if n == 0 { 0 } else { looks[n - 1].0 };
        let until = looks.get(n + 1).map_or(u64::MAX, |next| next.0);
        Some((from, until, format!("/{file}+1000")))
    });
    let spans: Vec<_> = spans.collect();
    let (from, until) = match moment {
        Moment::Any => (0, u64::MAX),
        Moment::Between(from, until) => (from, until),
    };
    let mut found: Vec<_> = spans.iter().filter(|span| span.0 <= until && from <= span.1).collect();
    if found.is_empty() {
        let last = spans.iter().filter(|span| span.1 < from).map(|span| span.1).max();
        found = spans.iter().filter(|span| span.1 < from && Some(span.1) == last).collect();
    }
    let mut names: Vec<String> = found.into_iter().map(|span| span.2.clone()).collect();
    names.sort();
    names.dedup();
    names
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0), ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_a_naive_model(
        looks in prop::collection::vec((1u64..5, prop::collection::vec(prop::option::of(0u8..4), 6)), 1..12),
        (page, from, length) in (0u64..6, 0u64..60, 0u64..20),
        is_timed in any::<bool>(),
    ) {
        let mut time = 0;
        let mut all = Generations::default();
        let mut seen = Vec::new();
        for (wait, files) in looks {
            time += wait;
            let pages: Seen = files.into_iter().enumerate().map(|(page, file)| (page as u64, file)).collect();
            let named: Vec<(u64, String)> =
                pages.iter().filter_map(|(page, file)| Some((*page, format!("/{}", (*file)?)))).collect();
            let borrowed: Vec<(u64, &str)> = named.iter().map(|(page, name)| (*page, name.as_str())).collect();
            all.look(1, FIRST, &mappings(&borrowed), time);
            seen.push((time, pages));
        }
        let moment = if is_timed { Moment::Between(from, from + length) } else { Moment::Any };
        prop_assert_eq!(paths(&all, 1, page * 4096, moment), naive(&seen, page, moment));
    }
}
