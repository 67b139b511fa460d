//! `editors/bpftrace.tmLanguage.json` is made from the tables of the language. `WEIR_BLESS=1` writes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::ast::INT_TYPES;
use crate::attach::KINDS;
use crate::builtin::{self, AGGREGATIONS, FUNCTIONS, SETTINGS, VARIABLES};
use crate::unsupported::{Kind, UNSUPPORTED};
use weir_syntax::KEYWORDS;

/// Words that the parser knows by their place, and so are in no table.
const CONTROL: &[&str] = &["if", "else", "while", "for", "unroll", "break", "continue", "return", "comptime"];
const DECLARING: &[&str] = &["let", "config", "macro", "fn", "subprog", "import"];
const OPERATORS: &[&str] = &["sizeof", "offsetof", "typeof", "typeinfo", "container_of"];

/// What is in the tables, and what bpftrace has beside: a script for it is to be coloured too.
fn words(part: &str) -> BTreeSet<&'static str> {
    let others = |kind: Kind| UNSUPPORTED.iter().filter(move |row| row.kind == kind).map(|row| row.name);
    let kinds = || {
        let known = KINDS.iter().flat_map(|(name, alias, _)| [*name, *alias]);
        known.chain(others(Kind::Probe)).filter(|name| !matches!(*name, "begin" | "end"))
    };
    match part {
        "CONTROL" => CONTROL.iter().copied().collect(),
        "DECLARING" => DECLARING.iter().copied().collect(),
        "OPERATORS" => OPERATORS.iter().copied().collect(),
        "TYPES" => {
            let basic = ["string", "void", "bool", "char", "short", "int", "long", "float", "double"];
            let signs = ["signed", "unsigned", "const", "volatile", "struct", "union", "enum", "typedef"];
            INT_TYPES.iter().map(|(name, _)| *name).chain(basic).chain(signs).collect()
        }
        // Short ones might be names in `a ? i : b`, and so count at the beginning of a line alone.
        "PROBES" => kinds().filter(|name| name.len() > 2).collect(),
        "SHORT_PROBES" => kinds().filter(|name| name.len() <= 2).collect(),
        "FUNCTIONS" => FUNCTIONS.iter().map(|row| row.name).chain(others(Kind::Function)).collect(),
        "AGGREGATIONS" => AGGREGATIONS.iter().map(|row| row.name).collect(),
        "SETTINGS" => SETTINGS.iter().map(|row| row.0).collect(),
        "VARIABLES" => {
            let stacks = FUNCTIONS.iter().map(|row| row.name).filter(|name| builtin::is_stack(name));
            VARIABLES.iter().map(|row| row.name).chain(others(Kind::Builtin)).chain(stacks).collect()
        }
        _ => panic!("{part} has no words"),
    }
}

/// The template with each `<PART>` replaced by its words, with `|` between them.
fn grammar() -> String {
    let mut text = include_str!("tests/grammar.json").to_owned();
    let parts = ["CONTROL", "DECLARING", "OPERATORS", "TYPES", "PROBES", "SHORT_PROBES", "FUNCTIONS"];
    for part in parts.into_iter().chain(["AGGREGATIONS", "SETTINGS", "VARIABLES"]) {
        let place = format!("<{part}>");
        assert!(text.contains(&place), "{part} has a place");
        text = text.replace(&place, &words(part).into_iter().collect::<Vec<_>>().join("|"));
    }
    text
}

#[test]
fn the_grammar_for_editors_has_the_words_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editors/bpftrace.tmLanguage.json");
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, grammar()).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == grammar(), "WEIR_BLESS=1 writes {}", path.display());
}

/// In each rule the names must stand between words' ends, or a longer one is cut.
#[test]
fn every_word_is_in_a_rule() {
    let text = grammar();
    let alternatives: BTreeSet<&str> =
        text.split(['(', ')']).flat_map(|group| group.trim_start_matches("?:").split('|')).collect();
    let tables = KEYWORDS.into_iter().chain(VARIABLES.iter().map(|row| row.name));
    let tables = tables.chain(FUNCTIONS.iter().map(|row| row.name));
    let tables = tables.chain(AGGREGATIONS.iter().map(|row| row.name));
    let tables = tables.chain(KINDS.iter().flat_map(|(name, alias, _)| [*name, *alias]));
    let tables = tables.chain(SETTINGS.iter().map(|row| row.0)).chain(UNSUPPORTED.iter().map(|row| row.name));
    let missing: Vec<&str> = tables.filter(|word| !alternatives.contains(word)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
