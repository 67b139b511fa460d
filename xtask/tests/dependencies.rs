//! What comes from elsewhere: licences, how many crates there are, and known vulnerabilities.
//!
//! Reads `cargo metadata` and Cargo.lock. Advisories are those of a database that is on the machine (`cargo audit` fetches one): nothing
//! here uses the network.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Terms under which what weir uses may be passed on with weir, which is under MIT or Apache-2.0.
const PERMITTED: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const DECISION: &str = "docs/decisions/0002-dependencies.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// Some terms of an SPDX expression suffice (`OR`, and `/` in old ones); of `AND` all are needed. Parentheses are around an `OR`.
fn is_permitted(expression: &str) -> bool {
    let all = expression.split(" AND ");
    all.into_iter().all(|terms| {
        let terms = terms.trim_matches(['(', ')', ' ']);
        terms.split(" OR ").flat_map(|term| term.split('/')).any(|term| PERMITTED.contains(&term.trim()))
    })
}

#[test]
fn an_expression_is_permitted_by_its_terms() {
    for (expression, is) in [
        ("MIT OR Apache-2.0", true),
        ("MIT/GPL-2.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
        ("GPL-2.0-only", false),
        ("", false),
    ] {
        assert_eq!(is_permitted(expression), is, "{expression:?}");
    }
}

#[test]
fn every_crate_has_a_licence_that_weir_may_be_passed_on_with() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--offline", "--filter-platform"]);
    let output = command.arg("x86_64-unknown-linux-gnu").current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let name = |package: &Value| format!("{}: {}", package["name"], package["license"]);
    let is_refused = |package: &&Value| !is_permitted(package["license"].as_str().unwrap_or_default());
    let refused: Vec<String> = packages.iter().filter(is_refused).map(name).collect();
    assert_eq!(refused, Vec::<String>::new(), "licences that {PERMITTED:?} do not cover");
}

/// A lock file may change by a few crates before the text is to follow.
#[test]
fn as_many_crates_are_used_as_the_decision_says() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.split("[[package]]").skip(1);
    let foreign = packages.filter(|package| package.contains("\nsource = "));
    let names: BTreeSet<&str> = foreign.filter_map(|package| package.lines().nth(1)).collect();
    let text = fs::read_to_string(root().join(DECISION)).unwrap();
    let said = text.split_once("Cargo.lock names ").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
    let said: usize = said.parse().unwrap();
    assert!(names.len().abs_diff(said) <= 5, "{} crates; {DECISION} says {said}", names.len());
}

#[test]
fn no_crate_has_a_known_vulnerability() {
    let is_installed = Command::new("cargo-audit").arg("--version").output().is_ok();
    let Some(database) = testkit::paths::advisories().filter(|_| is_installed) else {
        testkit::skip::skip("advisories", "needs cargo-audit, and the database that its first run fetches");
        return;
    };
    let mut command = Command::new("cargo-audit");
    command.args(["audit", "--no-fetch", "--stale", "--db"]).arg(&database).current_dir(root());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
