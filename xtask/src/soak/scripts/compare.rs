//! Compare: what two programs printed, where some of the order is free.
//!
//! Equal means the same lines, with these exceptions. Entries of a map whose values are equal may stand in any order, as may the blocks
//! of a map of histograms, the entries of one whose keys are tuples in tuples, which the reference does not sort, and the lines that a
//! loop over a map prints ([`FOR_MARK`]). What bpftrace says of itself on standard output (`Attaching 1 probe...`, warnings of helpers)
//! is left out. Empty lines between entries count.

use crate::soak::scripts::generate::FOR_MARK;

/// What a program said and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) end: End,
}

impl Said {
    /// Not refused, and not broken off: scripts end with 0 or 3.
    pub(super) fn is_run(&self) -> bool {
        matches!(self.end, End::Exit(0 | 3))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    Signal,
    Late,
}

pub(super) fn is_equal(weir: &Said, reference: &Said) -> bool {
    weir.is_run() && weir.end == reference.end && normal(&weir.out) == normal(&reference.out)
}

/// The lines, with those sorted whose order is free.
fn normal(out: &str) -> Vec<String> {
    let items = items(&without_asides(out));
    let mut lines = Vec::new();
    for run in items.chunk_by(|one, other| one.kind == other.kind && one.kind != Kind::Line) {
        let is_nested = run.iter().any(|item| item.key().contains("("));
        if matches!(run[0].kind, Kind::Entry(_)) && !is_nested {
            // Their values are in order.
            lines.extend(run.iter().map(|item| item.value().to_owned()));
        }
        let mut texts: Vec<String> = run.iter().map(|item| item.text.clone()).collect();
        if run[0].kind != Kind::Line {
            texts.sort();
        }
        lines.extend(texts);
    }
    lines
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Line,
    /// `@name[key]: value`.
    Entry(String),
    /// `@name[key]:`, and a histogram below it up to an empty line.
    Block(String),
    /// Printed in a loop over a map.
    Marked,
}

#[derive(Clone, Debug)]
struct Item {
    kind: Kind,
    text: String,
}

impl Item {
    fn key(&self) -> &str {
        self.text.split_once("]: ").map_or("", |(key, _)| key)
    }

    fn value(&self) -> &str {
        self.text.split_once("]: ").map_or("", |(_, value)| value)
    }
}

fn items(out: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut is_open = false;
    for line in out.lines() {
        if is_open && let Some(block) = items.last_mut() {
            block.text += "\n";
            block.text += line;
            is_open = !line.is_empty();
            continue;
        }
        let name = line.split_once('[').map(|(name, _)| name.to_owned()).filter(|name| name.starts_with('@'));
        let kind = match name {
            Some(name) if line.ends_with("]:") => Kind::Block(name),
            Some(name) => Kind::Entry(name),
            None if line.starts_with(FOR_MARK) => Kind::Marked,
            None => Kind::Line,
        };
        is_open = matches!(kind, Kind::Block(_));
        items.push(Item { kind, text: line.to_owned() });
    }
    items
}

/// Without what bpftrace says of itself: its first line, and warnings of four lines of which the second is of a helper.
fn without_asides(out: &str) -> String {
    let lines: Vec<&str> = out.lines().collect();
    let mut kept = String::new();
    let mut at = 0;
    while at < lines.len() {
        let is_first = at == 0 && lines[at].starts_with("Attaching ");
        let is_warning = lines[at].starts_with("stdin:")
            && lines.get(at + 1).is_some_and(|line| line.starts_with("Additional Info - helper:"));
        match (is_first, is_warning) {
            (true, _) => at += 1,
            (_, true) => at += 4,
            _ => {
                kept += lines[at];
                kept += "\n";
                at += 1;
            }
        }
    }
    kept
}

/// The lines in which two outputs differ, `-` for weir's and `+` for the reference's, as far as they are among the first.
pub(super) fn difference(weir: &Said, reference: &Said) -> String {
    const LINES_MAX: usize = 10;
    let mut shown = String::new();
    if weir.end != reference.end || !weir.is_run() {
        let why = |said: &Said| {
            let is_why = |line: &&str| line.contains("ERROR") || line.starts_with("error");
            let lines: Vec<&str> = said.err.lines().filter(is_why).take(3).collect();
            format!("{:?} {}", said.end, lines.join("; "))
        };
        shown += &format!("- {}\n+ {}\n", why(weir), why(reference));
    }
    let [weir, reference] = [weir, reference].map(|said| normal(&said.out));
    let only = |mark: char, these: &[String], those: &[String]| {
        let mut left = those.to_vec();
        let mut lines = String::new();
        for line in these {
            match left.iter().position(|other| other == line) {
                Some(same) => drop(left.remove(same)),
                None => lines += &format!("{mark} {line}\n"),
            }
        }
        lines.lines().take(LINES_MAX).map(|line| format!("{line}\n")).collect::<String>()
    };
    let (minus, plus) = (only('-', &weir, &reference), only('+', &reference, &weir));
    if minus.is_empty() && plus.is_empty() && weir != reference {
        shown += "the same lines in another order\n";
    }
    shown + &minus + &plus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(out: &str) -> Said {
        Said { out: out.to_owned(), err: String::new(), end: End::Exit(0) }
    }

    #[test]
    fn the_order_of_what_is_equal_is_free() {
        let check = |weir: &str, reference: &str, is: bool| {
            assert_eq!(is_equal(&said(weir), &said(reference)), is, "{weir:?} {reference:?}");
        };
        check("a\nb\n", "a\nb\n", true);
        check("a\nb\n", "b\na\n", false);
        check("a\n\nb\n", "a\nb\n", false);
        check("@m[1]: 5\n@m[2]: 5\n", "@m[2]: 5\n@m[1]: 5\n", true);
        check("@m[1]: 5\n@m[2]: 6\n", "@m[2]: 6\n@m[1]: 5\n", false);
        check("@m[1]: 5\n@n[2]: 5\n", "@n[2]: 5\n@m[1]: 5\n", false);
        check("@m[1]: 5\n", "@m[1]: 6\n", false);
        check("@m[1, (1, 1)]: b\n@m[1, (2, 2)]: a\n", "@m[1, (2, 2)]: a\n@m[1, (1, 1)]: b\n", true);
        check("~1\n~2\nx\n", "~2\n~1\nx\n", true);
        check("~1\nx\n~2\n", "~2\nx\n~1\n", false);
        check("@h[1]:\n[0] 1\n\n@h[2]:\n[4] 1\n\n", "@h[2]:\n[4] 1\n\n@h[1]:\n[0] 1\n\n", true);
        check("@h[1]:\n[0] 1\n\n@h[2]:\n[4] 1\n\n", "@h[2]:\n[0] 1\n\n@h[1]:\n[4] 1\n\n", false);
    }

    #[test]
    fn what_the_reference_says_of_itself_is_left_out() {
        let warning = "stdin:1:1-2: WARNING: no\nAdditional Info - helper: x, retcode: -2\nBEGIN\n~~~~~\n";
        assert!(is_equal(&said("a\nb\n"), &said(&format!("Attaching 2 probes...\na\n{warning}b\n"))));
        assert!(!is_equal(&said("a\n"), &said("a\nAttaching 2 probes...\n")));
    }

    #[test]
    fn another_end_is_a_difference() {
        let ended = Said { end: End::Exit(3), ..said("a\n") };
        assert!(!is_equal(&said("a\n"), &ended));
        assert_eq!(difference(&said("a\n"), &ended), "- Exit(0) \n+ Exit(3) \n");
    }

    #[test]
    fn a_script_that_both_refuse_is_no_equal_one() {
        let refused = Said { end: End::Exit(1), ..said("") };
        assert!(!is_equal(&refused, &refused));
    }

    #[test]
    fn lines_that_differ_are_shown() {
        let shown = difference(&said("a\nb\n@m[1]: 5\n"), &said("a\nc\n@m[1]: 5\n"));
        assert_eq!(shown, "- b\n+ c\n");
        assert_eq!(difference(&said("a\nb\n"), &said("b\na\n")), "the same lines in another order\n");
    }
}
