//! What filters in LTTng's dialect decide, beside what LTTng's own decide: expressions over the fields of tests/lttng/corpus.h, each the filter of a
//! channel of one session of LTTng's, and each asked of all rows by `weir view --dialect lttng`.
//!
//! WEIR_LTTNG_FILTERS=SEED:COUNT asks for other expressions, and more (2,000 take three minutes). How weir differs on purpose is in
//! docs/filter.md: what reads elements that a sequence has not is not compared in these rows ([`reads_beyond`]), the value of a bit operation is no side
//! of `&&` and `||`, and two string fields are not asked for their order.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::lttng::Lttng;
use testkit::random::{Source, seed_and_count};

use super::{Harbour, err, out, with_lttng};

/// Seed, and expressions.
const EVERY_DAY: (u64, u64) = (26, 200);
/// Of corpus.c.
const ROWS: usize = 64;
/// Channels of one session: each has buffers.
const TOGETHER: usize = 100;

/// Draws expressions.
struct Draw(Source);

impl Draw {
    fn number(&mut self) -> String {
        const NUMBERS: [&str; 22] = [
            "0",
            "1",
            "-1",
            "2",
            "3",
            "5",
            "7",
            "42",
            "-42",
            "63",
            "64",
            "100",
            "127",
            "128",
            "255",
            "256",
            "-128",
            "32767",
            "65535",
            "0x7fffffff",
            "4294967295",
            "0x10",
        ];
        self.0.pick(&NUMBERS).to_owned()
    }

    /// An integer.
    fn int(&mut self, depth: usize) -> String {
        const FIELDS: [&str; 15] = [
            "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "net", "id", "arr[0]", "arr[2]", "seq[0]",
            "seq[2]", "state",
        ];
        if depth == 0 {
            return self.0.pick(&FIELDS).to_owned();
        }
        match self.0.below(12) {
            0..=4 => self.0.pick(&FIELDS).to_owned(),
            5 => format!("-{}", self.0.pick(&FIELDS)),
            6 => format!("~{}", self.0.pick(&FIELDS)),
            7 => format!("!{}", self.0.pick(&FIELDS)),
            8 => format!(
                "({} {} {})",
                self.0.pick(&FIELDS),
                self.0.pick(&["<<", ">>"]),
                self.0.pick(&["0", "1", "3", "31", "63", "64"])
            ),
            _ => {
                let (left, op) = (self.int(depth - 1), self.0.pick(&["&", "|", "^"]));
                let right = if self.0.below(2) == 0 { self.number() } else { self.int(depth - 1) };
                format!("({left} {op} {right})")
            }
        }
    }

    fn real(&mut self) -> String {
        let field = self.0.pick(&["f", "d"]);
        match self.0.below(5) {
            0 => format!("-{field}"),
            _ => field.to_owned(),
        }
    }

    fn compared(&mut self) -> &'static str {
        self.0.pick(&["==", "!=", "<", "<=", ">", ">="])
    }

    fn comparison(&mut self, depth: usize) -> String {
        match self.0.below(10) {
            0..=3 => {
                let (left, op) = (self.int(depth), self.compared());
                let right = if self.0.below(3) > 0 { self.number() } else { self.int(depth) };
                format!("{left} {op} {right}")
            }
            4 | 5 => {
                let (left, op) = (self.real(), self.compared());
                let right = match self.0.below(3) {
                    0 => self.0.pick(&["0.5", "1.5", "-1.5", "1e3", "1e18", "0.0"]).to_owned(),
                    1 => self.real(),
                    _ => self.int(0),
                };
                format!("{left} {op} {right}")
            }
            6..=8 => {
                const TEXTS: [&str; 14] = [
                    "", "a", "ab", "abc", "ab*", "*", "b\\\\*", "*b*", "hell*", "*o", "(null)", "\u{e9}",
                    "abd", "z",
                ];
                let text = format!("\"{}\"", self.0.pick(&TEXTS));
                let ordered = !text.contains('*') || text.ends_with("*\"") && text.matches('*').count() == 1;
                let op = if ordered { self.compared() } else { self.0.pick(&["==", "!="]) };
                let field = self.0.pick(&["s", "t", "tag"]);
                match self.0.below(6) {
                    0 => format!("s {} t", self.0.pick(&["==", "!="])),
                    1 => format!("{text} {op} {field}"),
                    _ => format!("{field} {op} {text}"),
                }
            }
            _ => self.int(0),
        }
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.comparison(1);
        }
        match self.0.below(6) {
            0 | 1 => self.comparison(2),
            2 => format!("!({})", self.expression(depth - 1)),
            _ => {
                let (left, op) = (self.expression(depth - 1), self.0.pick(&["&&", "||"]));
                format!("({left}) {op} ({})", self.expression(depth - 1))
            }
        }
    }
}

/// The rows of a trace, by their numbers.
fn rows(trace: &Path, options: &[&str]) -> Result<BTreeSet<usize>, String> {
    let mut view = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = view.args(["view", "-f", "json"]).args(options).arg(trace).output().unwrap();
    if !output.status.success() {
        return Err(err(&output));
    }
    let row = |line: &str| {
        let (_, rest) = line.split_once("\"id\":").expect(line);
        let digits: String =
            rest.chars().skip_while(|c| *c == ' ').take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    Ok(out(&output).lines().filter(|line| line.contains("corpus:row")).map(row).collect())
}

/// Whether the filter, if it is evaluated that far, reads an element that the sequence of this row has not.
fn reads_beyond(filter: &str, row: usize) -> bool {
    let count = row % 5;
    ["seq[0]", "seq[2]"].iter().zip([0, 2]).any(|(element, index)| filter.contains(element) && index >= count)
}

/// What LTTng keeps of the rows by each of these filters; none where it refuses one.
fn by_lttng(harbour: &Harbour, lttng: &Lttng, filters: &[String]) -> Vec<Option<BTreeSet<usize>>> {
    let (session, folder) = (format!("weir-filters-{}", std::process::id()), lttng.home().join("filters"));
    lttng.must(&["create", &session, "-o", folder.to_str().unwrap()]);
    let mut taken = Vec::new();
    for (number, filter) in filters.iter().enumerate() {
        let channel = format!("c{number}x");
        lttng.must(&[
            "enable-channel",
            "-u",
            "-s",
            &session,
            "--subbuf-size=32k",
            "--num-subbuf=2",
            &channel,
        ]);
        let rule = ["enable-event", "-u", "-s", &session, "-c", &channel, "corpus:row", "--filter", filter];
        taken.push(lttng.ask(&rule).status.success());
    }
    lttng.must(&["start", &session]);
    let mut program = harbour.command("./corpus", &[]);
    program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
    assert!(program.status().unwrap().success());
    lttng.must(&["destroy", &session]);
    let streams = streams(&folder);
    let kept = taken.into_iter().enumerate().map(|(number, is_taken)| {
        // The streams of one channel, with the metadata of all.
        let apart = harbour.0.join(format!("channel{number}"));
        std::fs::create_dir_all(&apart).unwrap();
        std::fs::copy(streams.join("metadata"), apart.join("metadata")).unwrap();
        for file in std::fs::read_dir(&streams).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if name.starts_with(&format!("c{number}x_")) {
                std::fs::copy(&file, apart.join(name)).unwrap();
            }
        }
        let rows = rows(&apart, &[]).unwrap();
        std::fs::remove_dir_all(&apart).unwrap();
        is_taken.then_some(rows)
    });
    let kept = kept.collect();
    std::fs::remove_dir_all(&folder).unwrap();
    kept
}

/// Where a session's streams are: some folders below its own.
fn streams(folder: &Path) -> std::path::PathBuf {
    let mut at = folder.to_owned();
    while !at.join("metadata").exists() {
        at = std::fs::read_dir(&at).unwrap().next().expect("a folder with metadata").unwrap().path();
    }
    at
}

#[test]
fn filters_decide_as_lttng_s_do() {
    let (seed, count) = seed_and_count("WEIR_LTTNG_FILTERS", EVERY_DAY);
    let Some(harbour) = Harbour::with("corpus", &["corpus.c"], &["-lm"]) else { return };
    with_lttng("filters", |lttng| {
        let mut draw = Draw(Source::new(seed));
        let mut filters = vec!["id >= 0".to_owned()];
        filters.extend((0..count).map(|number| draw.expression(number as usize % 3)));
        // All rows, which weir's filters are asked of.
        let all = harbour.0.join("all");
        let (session, folder) = super::session(lttng, "all-rows", "corpus");
        let mut program = harbour.command("./corpus", &[]);
        program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
        assert!(program.status().unwrap().success());
        lttng.must(&["destroy", &session]);
        std::fs::rename(&folder, &all).unwrap();
        assert_eq!(rows(&all, &[]).unwrap().len(), ROWS);
        let mut faults = Vec::new();
        for some in filters.chunks(TOGETHER) {
            for (filter, theirs) in some.iter().zip(by_lttng(&harbour, lttng, some)) {
                let is_defined = |row: &usize| !reads_beyond(filter, *row);
                let defined =
                    |rows: BTreeSet<usize>| rows.into_iter().filter(is_defined).collect::<BTreeSet<_>>();
                let ours = rows(&all, &["--dialect", "lttng", "--filter", filter]).map(defined);
                let theirs = theirs.map(defined);
                match (ours, theirs) {
                    (Ok(ours), Some(theirs)) if ours == theirs => {}
                    (Err(_), None) => {}
                    (ours, theirs) => {
                        faults.push(format!("{filter}\n  weir:  {ours:?}\n  LTTng: {theirs:?}"))
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), filters.len(), faults.join("\n"));
    });
}
