//! What `weir fmt` makes of scripts: cases in files, and what holds for every script.
//!
//! A file of `tests/format` has cases, one after the other:
//!
//! ```text
//! == name of the case
//! BEGIN{print(1)}
//! -- formatted
//! BEGIN
//! …
//! ```
//!
//! `-- error` has a line for each fault instead: where it begins, and what is said. `WEIR_BLESS=1` writes what is found.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_script::{ast, format, parse};

use crate::language::run::random_program;
use crate::language::soup::{Random, SEEDS};
use crate::language::source;

/// If the text is a script: what it becomes, once it has been found to mean the same and to stay as it is.
pub(crate) fn check_stays(text: &str) -> Option<String> {
    let formatted = match format(&source(text)) {
        Ok(formatted) => formatted,
        Err(faults) => {
            assert!(!faults.is_empty());
            return None;
        }
    };
    let tree = |text: &str| ast::print(&parse(&source(text)).0);
    assert_eq!(tree(text), tree(&formatted), "{text}\n{formatted}");
    assert_eq!(format(&source(&formatted)).as_ref(), Ok(&formatted), "of {text}");
    Some(formatted)
}

/// The same, with the comments, which are looked for in another way than weir does.
#[track_caller]
fn check(text: &str) -> Option<String> {
    let formatted = check_stays(text)?;
    // A directive ends at its line's end, also within a comment, which is looked for to its own end.
    let is_open = |line: &str| line.rsplit_once("/*").is_some_and(|(_, rest)| !rest.contains("*/"));
    if text.lines().any(|line| line.trim_start().starts_with('#') && is_open(line)) {
        return Some(formatted);
    }
    assert_eq!(comments(text), comments(&formatted), "{text}\n{formatted}");
    Some(formatted)
}

/// The comments of a script whose attach points have no `//`, without what indents their lines.
fn comments(text: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut at = if text.starts_with("#!") { text.find('\n').unwrap_or(text.len()) } else { 0 };
    while at < text.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(text) = rest.strip_prefix("/*") {
            text.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with('"') {
            at += string_length(rest);
            continue;
        } else {
            at += rest.chars().next().map_or(0, char::len_utf8);
            continue;
        };
        found.push(rest[..length].lines().map(str::trim).collect());
        at += length;
    }
    found
}

fn string_length(text: &str) -> usize {
    let mut is_escaped = true;
    let end = text.find(|c: char| {
        let is_end = c == '\n' || c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 1)
}

/// The cases of a file: name, script, kind (`formatted` or `error`), and what is expected.
fn cases(text: &str) -> Vec<[String; 4]> {
    let case = |part: &str| {
        let (name, rest) = part.split_once('\n').expect("a case has lines");
        let kinds = ["formatted", "error"].into_iter();
        let split = |kind: &str| {
            let (script, expected) = rest.split_once(&format!("\n-- {kind}\n"))?;
            Some([name.to_owned(), format!("{script}\n"), kind.to_owned(), expected.to_owned()])
        };
        kinds.filter_map(split).next().unwrap_or_else(|| panic!("{name} has no result"))
    };
    format!("\n{text}")
        .split("\n== ")
        .skip(1)
        .map(|part| case(&format!("{}\n", part.trim_end_matches('\n'))))
        .collect()
}

#[test]
fn scripts_become_what_the_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut found = String::new();
        for [name, script, ..] in cases(&text) {
            let (kind, result) = match format(&source(&script)) {
                Ok(_) => ("formatted", check_stays(&script).unwrap()),
                Err(faults) => {
                    let line = |fault: &weir_source::Diagnostic| {
                        let before = &script[..fault.span.start as usize];
                        let line = before.matches('\n').count() + 1;
                        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
                        format!("{line}:{column}: {}\n", fault.message)
                    };
                    ("error", faults.iter().map(line).collect())
                }
            };
            found += &format!("== {name}\n{script}-- {kind}\n{result}");
            count += 1;
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&path, &found).unwrap();
            continue;
        }
        assert_eq!(found, text, "{}", path.display());
    }
    assert!(count >= 25, "{count} cases");
}

/// Every script of the corpus that runs.
pub(crate) fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-run/tests/corpus");
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in format!("\n{text}").split("\n== ").skip(1) {
            let (_, rest) = part.split_once('\n').unwrap();
            let end = rest.find("\n-- ").unwrap();
            scripts.push(rest[..end + 1].to_owned());
        }
    }
    assert!(scripts.len() > 300, "{} scripts", scripts.len());
    scripts
}

#[test]
fn the_corpus_stays_the_same() {
    let sound = corpus().iter().filter_map(|script| check(script)).count();
    assert!(sound > 300, "{sound} scripts are read");
}

/// The string literals of a Rust file, most of them: scripts, their bodies, expressions, and what is none of these.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split("r#\"").skip(1) {
        found.extend(part.split_once("\"#").map(|(literal, _)| literal.to_owned()));
    }
    for line in text.split_inclusive(['\n', ';']) {
        let (Some(start), Some(end)) = (line.find('"'), line.rfind('"')) else { continue };
        let literal = line[start..end].trim_start_matches('"');
        found.push(literal.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\"));
    }
    found
}

#[test]
fn scripts_of_tests_stay_the_same() {
    let mut folders = vec![
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir/tests/integration"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-run/tests"),
    ];
    let mut sound = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for literal in literals(&text) {
                    let as_body = format!("BEGIN {{ {literal} }}");
                    let as_value = format!("BEGIN {{ @r = {literal} }}");
                    let scripts = [&literal, &as_body, &as_value].into_iter();
                    sound += scripts.filter(|script| check_stays(script).is_some()).count();
                }
            }
        }
    }
    assert!(sound > 1_000, "{sound} scripts are read");
}

#[test]
fn random_programs_stay_the_same() {
    let mut random = Random(0x5eed_0004);
    for _ in 0..200 {
        let text = random_program(&mut random);
        assert!(check(&text).is_some(), "{text}");
    }
}

/// Names of 30 letters leave room for two on a line, so that there is always a place to wrap.
#[test]
fn no_line_is_wider_than_it_may_be() {
    let mut random = Random(0x5eed_0006);
    let mut wrapped = 0;
    for _ in 0..100 {
        let mut text = random_program(&mut random);
        for name in ["$a", "$b", "$c", "@m"] {
            text = text.replace(name, &format!("{name}{}", "_long".repeat(6)));
        }
        let formatted = check(&text).unwrap();
        for line in formatted.lines() {
            assert!(line.len() <= 100, "{line}\n{text}");
            wrapped += usize::from(line.ends_with(|c: char| c.is_ascii_punctuation() && !";{}_".contains(c)));
        }
    }
    assert!(wrapped > 100, "{wrapped}");
}

/// White space and comments at any place: what can still be read keeps them.
#[test]
fn comments_stand_anywhere() {
    const PIECES: &[&str] = &[
        "/* c */",
        " // d\n",
        "\n// e\n",
        "\n",
        "\n\n\n",
        " ",
        "\t",
        "/* f\n   g */",
        "\n\t/*\n * h\n\t * i\n */\n",
        ";",
        " ; ",
        "\r\n",
        "\n /* j */ /* k */ ",
        "{ 1 }",
        "{}",
        "-",
        "*",
        ", ",
        "(",
        ")",
    ];
    let daily =
        Daily { seed: 0x5eed_0005, at_least: 300, at_most: 30_000, budget: Duration::from_millis(400) };
    let cases = Cases::of("WEIR_SCRIPT_COMMENTS", daily);
    let mut random = Random(cases.seed());
    let scripts: Vec<String> =
        corpus().into_iter().chain(SEEDS.iter().map(|seed| seed.to_string())).collect();
    let (mut given, mut read) = (0, 0);
    for _ in cases {
        let mut text = match random.below(4) {
            0 => random_program(&mut random),
            _ => scripts[random.below(scripts.len())].clone(),
        };
        for _ in 0..1 + random.below(6) {
            let at = text.floor_char_boundary(random.below(text.len()));
            // Mostly between words.
            let blank = text[..at].rfind(|c: char| " ;(){},".contains(c)).filter(|_| random.below(8) > 0);
            text.insert_str(blank.unwrap_or(at), random.pick(PIECES));
        }
        given += 1;
        read += usize::from(check(&text).is_some());
    }
    assert!(read * 4 > given, "{read} of {given} can be read");
}

#[test]
fn the_page_on_editors_shows_the_style() {
    let page = include_str!("../../../../../docs/editors.md");
    let (_, style) = page.split_once("The style:\n\n```\n").unwrap();
    let (script, _) = style.split_once("\n```\n").unwrap();
    assert_eq!(check(script), Some(format!("{script}\n")));
}

#[test]
fn a_script_that_becomes_too_long_is_refused() {
    let open = "if (1) { ".repeat(100);
    let text = format!("BEGIN {{ {open}{}{} }}", "a(); ".repeat(20_000), "}".repeat(100));
    let faults = format(&source(&text)).unwrap_err();
    assert!(faults[0].message.contains("would be too long"), "{faults:?}");
}

#[test]
fn a_long_line_takes_no_long_time() {
    let text = format!("BEGIN {{ print(({}1)); }}", "1, ".repeat(30_000));
    let lines = check_stays(&text).unwrap();
    assert!(lines.lines().all(|line| line.len() <= 100));
}
