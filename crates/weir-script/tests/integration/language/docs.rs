//! docs/language.md names everything that the tables have.

use weir_script::{ast, builtin};

/// The page has a table row that begins with this cell and ends with that one.
#[track_caller]
fn check(first: &str, last: &str) {
    let page = include_str!("../../../../../docs/language.md");
    let row = |line: &str| {
        let line = line.replace("\\|", "¦");
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('¦', "|")).collect();
        cells.len() > 3 && cells[1] == first && cells[cells.len() - 2] == last
    };
    assert!(page.lines().any(row), "no row in docs/language.md: | {first} | … | {last} |");
}

#[test]
fn every_name_has_its_row() {
    for row in builtin::VARIABLES {
        check(&format!("`{}`", row.name), row.doc);
    }
    for row in builtin::FUNCTIONS {
        check(&format!("`{}`", row.signature), row.doc);
    }
    for row in builtin::AGGREGATIONS {
        check(&format!("`{}`", row.signature), row.doc);
    }
    for (name, doc) in builtin::SETTINGS {
        check(&format!("`{name}`"), doc);
    }
}

#[test]
fn every_operator_is_named() {
    let page = include_str!("../../../../../docs/language.md").replace("\\|", "|");
    for (_, symbol, _) in ast::BINARY_OPS {
        assert!(page.contains(&format!("`{symbol}`")), "{symbol}");
    }
    for (symbol, _) in ast::ASSIGN_OPS {
        assert!(page.contains(&format!("`{symbol}`")), "{symbol}");
    }
}
