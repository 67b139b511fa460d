//! Policies: what is read out of a text, and what is allowed by it.

use std::time::Duration;

use weir_source::SourceFile;

use super::*;

const TEXT: &str = r#"
audit = "required"

[default]
budget = "5%,64MiB,10ms-stop"

[[allow]]
groups = ["dba", 1007]
units = ["postgresql*"]
read_memory = true
budget = "1%"

[[allow]]
users = ["alice"]
programs = ["/usr/sbin/nginx", "/usr/lib/*/bin/app[0-9]"]

[[allow]]
users = [0x3f]
units = ["redis"]
unsafe = true
"#;

fn source(text: &str) -> SourceFile {
    SourceFile { name: "p.toml".into(), text: text.into() }
}

fn policy(text: &str) -> Policy {
    parse(&source(text)).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn account(id: u32, name: &str) -> Account {
    Account { id, name: Some(name.into()).filter(|name: &String| !name.is_empty()) }
}

fn caller(id: u32, name: &str, groups: &[(u32, &str)]) -> Caller {
    let groups = groups.iter().map(|&(id, name)| account(id, name)).collect();
    Caller { user: account(id, name), groups }
}

fn subject(program: &str, unit: &str) -> Subject {
    let unit = Some(unit.to_owned()).filter(|unit| !unit.is_empty());
    Subject { pid: 17, program: program.into(), unit }
}

fn needs(reads: bool, changes: bool) -> Needs {
    let what = |is: bool, what: &str| is.then(|| what.to_owned());
    Needs { reads_memory: what(reads, "p calls read"), changes_process: what(changes, "p calls write") }
}

/// The budget that `text` gives, or why not.
fn judge(text: &str, caller: &Caller, subject: &Subject, needs: &Needs) -> Result<String, String> {
    let judged = policy(text).judge(caller, subject, needs);
    judged.map(|budget| budget.to_string()).map_err(|denial| denial.to_string())
}

#[test]
fn a_text_is_read_whole() {
    let policy = policy(TEXT);
    assert_eq!((policy.audit, policy.audit_socket), (Audit::Required, None));
    assert_eq!(policy.default.stop, Some(Duration::from_millis(10)));
    let rules = policy.rules.unwrap();
    assert_eq!(rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [7, 13, 17]);
    assert_eq!(rules[0].groups, [Who::Name("dba".into()), Who::Id(1007)]);
    assert_eq!(rules[2].users, [Who::Id(63)]);
    assert_eq!((rules[0].reads_memory, rules[0].changes_process), (true, false));
    assert_eq!((rules[2].reads_memory, rules[2].changes_process), (false, true));
}

#[test]
fn the_first_rule_that_allows_gives_the_budget() {
    let (plain, postgres) = (needs(false, false), subject("/usr/bin/postgres", "postgresql@15-main.service"));
    let bob = caller(1001, "bob", &[(100, "users"), (50, "dba")]);
    assert_eq!(judge(TEXT, &bob, &postgres, &needs(true, false)), Ok("1%,64MiB,10ms-stop".into()));
    let by_number = caller(1001, "", &[(1007, "")]);
    assert!(judge(TEXT, &by_number, &postgres, &plain).is_ok());
    let alice = caller(1002, "alice", &[]);
    assert_eq!(judge(TEXT, &alice, &subject("/usr/sbin/nginx", ""), &plain), Ok("5%,64MiB,10ms-stop".into()));
    assert!(judge(TEXT, &alice, &subject("/usr/lib/x/bin/app7", ""), &plain).is_ok());
    let redis = caller(63, "redis", &[]);
    assert!(judge(TEXT, &redis, &subject("/usr/bin/redis", "redis.service"), &needs(false, true)).is_ok());
}

#[test]
fn root_is_bound_by_the_default_alone() {
    let root = caller(0, "root", &[(0, "root")]);
    let any = subject("/bin/any", "");
    assert_eq!(judge(TEXT, &root, &any, &needs(true, true)), Ok("5%,64MiB,10ms-stop".into()));
}

#[test]
fn without_rules_everybody_may_and_with_none_nobody() {
    let (bob, any) = (caller(1001, "bob", &[]), subject("/bin/any", ""));
    assert_eq!(judge("", &bob, &any, &needs(true, true)), Ok(String::new()));
    assert_eq!(judge("[default]\nbudget = \"1%\"", &bob, &any, &needs(true, true)), Ok("1%".into()));
    assert!(judge("allow = []", &bob, &any, &needs(false, false)).is_err());
    assert!(judge("allow = []", &caller(0, "root", &[]), &any, &needs(false, false)).is_ok());
}

#[track_caller]
fn check_denied(caller: &Caller, subject: &Subject, needs: &Needs, parts: &[&str]) {
    let denial = judge(TEXT, caller, subject, needs).unwrap_err();
    assert!(parts.iter().all(|part| denial.contains(part)), "{parts:?}: {denial}");
}

#[test]
fn denials_say_what_is_missing_and_who_may() {
    let (plain, nginx) = (needs(false, false), subject("/usr/sbin/nginx", "nginx.service"));
    let postgres = subject("/usr/bin/postgres", "postgresql.service");
    let (alice, bob) = (caller(1002, "alice", &[]), caller(1001, "bob", &[(50, "dba")]));
    let carol = caller(1003, "carol", &[]);
    check_denied(
        &carol,
        &nginx,
        &plain,
        &[
            "user carol (1003) may not trace process 17 (/usr/sbin/nginx, nginx.service)",
            "no rule of p.toml is for that user",
            "allowed to user alice (p.toml:13) and root",
        ],
    );
    check_denied(
        &alice,
        &postgres,
        &plain,
        &["programs /usr/sbin/nginx, ", "(p.toml:13)", "group dba, group 1007"],
    );
    check_denied(
        &alice,
        &nginx,
        &needs(true, false),
        &["p.toml:13 does not say `read_memory = true`", "p calls read", "root alone"],
    );
    check_denied(&bob, &postgres, &needs(true, true), &["`unsafe = true`", "p calls write", "root alone"]);
}

#[test]
fn wildcards_of_paths_stay_between_slashes() {
    for (wanted, path, matches) in [
        ("/usr/lib/*/bin/postgres", "/usr/lib/15/bin/postgres", true),
        ("/usr/lib/*/bin/postgres", "/usr/lib/15/x/bin/postgres", false),
        ("/usr/bin/*", "/usr/bin/app", true),
        ("/usr/bin/*", "/usr/bin/x/app", false),
        ("/usr/bin", "/usr/bin/app", false),
        ("*", "/any/thing", true),
    ] {
        assert_eq!(path_matches(wanted, path), matches, "{wanted} {path}");
    }
}

#[test]
fn units_match_with_or_without_their_suffix() {
    let rule = |wanted: &str| Rule { units: vec![wanted.into()], ..policy(TEXT).rules.unwrap().remove(0) };
    for (wanted, unit, covers) in [
        ("nginx", "nginx.service", true),
        ("nginx.service", "nginx.service", true),
        ("nginx", "nginx2.service", false),
        ("nginx", "nginx.scope", false),
        ("nginx*", "nginx.scope", true),
        ("*", "", false),
    ] {
        assert_eq!(rule(wanted).covers(&subject("/bin/x", unit)), covers, "{wanted} {unit}");
    }
}

/// Every one of `parts` is told at its place: line, column, message.
#[track_caller]
fn check_mistakes(text: &str, parts: &[(&str, &str)]) {
    let source = source(text);
    let faults = parse(&source).unwrap_err();
    let told = weir_source::render(&source, &faults, false);
    assert_eq!(faults.len(), parts.len(), "{told}");
    for (place, part) in parts {
        assert!(
            told.contains(&format!("p.toml:{place}\n")) && told.contains(part),
            "{place} {part}:\n{told}"
        );
    }
}

#[test]
fn mistakes_are_told_at_their_places_and_all_at_once() {
    check_mistakes(
        "audit = \"maybe\"\naudits = 1\n[default]\nbudget = \"fast\"\n[[allow]]\nusers = [1.5, \"bob\"]\nunits = \"x\"\nread_memroy = true\n",
        &[
            ("1:9", "\"required\", \"wanted\" or \"off\""),
            ("2:1", "did you mean `audit`?"),
            ("4:10", "neither a share"),
            ("6:10", "a name or a number"),
            ("7:9", "is to be a list"),
            ("8:1", "did you mean `read_memory`?"),
        ],
    );
    check_mistakes("allow = 1\n", &[("1:9", "[[allow]]")]);
    check_mistakes("allow = [1]\n", &[("1:10", "[[allow]]")]);
    check_mistakes("default = 1\n", &[("1:11", "[default]")]);
    check_mistakes("[[allow]]\nusers = [\"a\"]\n", &[("1:1", "neither units nor programs")]);
    check_mistakes("[[allow]]\nunits = [\"a\"]\n", &[("1:1", "for nobody")]);
    check_mistakes(
        "[[allow]]\nusers = [-1]\nprograms = [\"nginx\"]\n",
        &[("2:10", "number"), ("3:13", "path")],
    );
    check_mistakes("audit_socket = \"log\"\n", &[("1:16", "path of a socket")]);
    check_mistakes("[default]\nbudget = 7\n", &[("2:10", "is to be a text")]);
    check_mistakes("[[allow]]\nunsafe = \"no\"\n", &[("2:10", "true or false")]);
}

#[test]
fn texts_that_are_no_toml_are_told_with_their_place() {
    for text in ["audit = \n", "[default\n", "a = 1\na = 2\n", "\u{0}", "[[allow]]\nusers = [\"a\"\n"] {
        let source = source(text);
        let faults = parse(&source).unwrap_err();
        assert!(weir_source::render(&source, &faults, false).contains("p.toml:"), "{text:?}");
    }
}

#[test]
fn no_text_panics() {
    for end in 0..TEXT.len() {
        let _ = parse(&source(&TEXT[..end]));
        let _ = parse(&source(&TEXT[end..]));
    }
    let _ = parse(&source(&"[".repeat(100_000)));
    let _ = parse(&source(&format!("a = {}", "[".repeat(100_000))));
}
