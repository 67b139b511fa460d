//! A policy's text (TOML 1.0) to a [`Policy`], or every mistake in it at once.
//!
//! ```toml
//! audit = "required"                # or "wanted", "off"
//! audit_socket = "/dev/log"         # where its lines go
//!
//! [default]
//! budget = "5%,64MiB,10ms-stop"
//!
//! [[allow]]
//! groups = ["dba", 1007]            # or users, or both
//! units = ["postgresql*"]           # or programs = ["/usr/lib/postgresql/*/bin/postgres"], or both
//! read_memory = true                # unless it says so, no
//! unsafe = false
//! budget = "1%"
//! ```
//!
//! Guaranteed: a text with any mistake gives no policy: a rule that is not understood must not be left out. A text without
//! `allow` restricts nobody; `allow = []` allows nobody but root.

use std::path::PathBuf;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_source::{Diagnostic, SourceFile, Span};
use weir_symbols::pattern;

use crate::budget::Budget;
use crate::policy::{Audit, Policy, Rule, Who};

const TOP: &[&str] = &["default", "allow", "audit", "audit_socket"];
const DEFAULT: &[&str] = &["budget"];
const ALLOW: &[&str] = &["users", "groups", "units", "programs", "read_memory", "unsafe", "budget"];
const AUDITS: [(&str, Audit); 3] =
    [("required", Audit::Required), ("wanted", Audit::Wanted), ("off", Audit::Off)];

/// The policy that `source` holds.
pub fn parse(source: &SourceFile) -> Result<Policy, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let mut reader = Reader { text: &source.text, faults: Vec::new() };
    for error in errors {
        let range = error.span().unwrap_or_default();
        reader.faults.push(Diagnostic::error(Span::new(range.start, range.end), error.message()));
    }
    // What such a text means is a guess, and so would be mistakes in it.
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    let policy = reader.policy(&source.name, table.get_ref());
    if reader.faults.is_empty() { Ok(policy) } else { Err(reader.faults) }
}

type Item<'a> = Spanned<DeValue<'a>>;

struct Reader<'a> {
    text: &'a str,
    faults: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn policy(&mut self, name: &str, table: &DeTable<'_>) -> Policy {
        self.check_keys(table, TOP, "at the top");
        let default = match table.get("default").map(|item| (item, item.get_ref().as_table())) {
            Some((_, Some(default))) => {
                self.check_keys(default, DEFAULT, "in [default]");
                self.budget(default)
            }
            Some((item, None)) => self.wrong(item, "is to be a table: [default]"),
            None => Budget::default(),
        };
        Policy {
            name: name.to_owned(),
            default,
            rules: table.get("allow").map(|item| self.rules(item)),
            audit: table.get("audit").map(|item| self.audit(item)).unwrap_or_default(),
            audit_socket: table.get("audit_socket").and_then(|item| self.socket(item)),
        }
    }

    fn rules(&mut self, item: &Item<'_>) -> Vec<Rule> {
        let Some(items) = item.get_ref().as_array() else {
            return self.wrong(item, "is to be a list of tables: [[allow]]");
        };
        let rule = |item: &Item<'_>| match item.get_ref().as_table() {
            Some(table) => Some(self.rule(item, table)),
            None => self.wrong(item, "is to be a table: [[allow]]"),
        };
        items.iter().filter_map(rule).collect()
    }

    fn rule(&mut self, item: &Item<'_>, table: &DeTable<'_>) -> Rule {
        self.check_keys(table, ALLOW, "in [[allow]]");
        let faults = self.faults.len();
        let rule = Rule {
            line: self.line_of(item),
            users: self.list(table, "users", who),
            groups: self.list(table, "groups", who),
            units: self.list(table, "units", unit),
            programs: self.list(table, "programs", program),
            reads_memory: self.flag(table, "read_memory"),
            changes_process: self.flag(table, "unsafe"),
            budget: self.budget(table),
        };
        let is_whole = self.faults.len() == faults;
        if is_whole && rule.users.is_empty() && rule.groups.is_empty() {
            let hint = "`users = [\"alice\"]` or `groups = [\"dba\"]`";
            self.fault(item, "the rule is for nobody: it has neither users nor groups", hint);
        }
        if is_whole && rule.units.is_empty() && rule.programs.is_empty() {
            let hint = "`units = [\"nginx*\"]`, `programs = [\"/usr/sbin/nginx\"]`, or `programs = [\"*\"]` for every program";
            self.fault(item, "the rule allows nothing: it has neither units nor programs", hint);
        }
        rule
    }

    /// A list, none where the key is not there; `read` says what an entry of it is to be.
    fn list<T>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        read: fn(&DeValue<'_>) -> Result<T, &'static str>,
    ) -> Vec<T> {
        let Some(item) = table.get(key) else { return Vec::new() };
        let Some(items) = item.get_ref().as_array() else {
            return self.wrong(item, "is to be a list: [\"…\", \"…\"]");
        };
        let entry = |item: &Item<'_>| match read(item.get_ref()) {
            Ok(value) => Some(value),
            Err(wanted) => self.wrong(item, wanted),
        };
        items.iter().filter_map(entry).collect()
    }

    fn flag(&mut self, table: &DeTable<'_>, key: &str) -> bool {
        let Some(item) = table.get(key) else { return false };
        match item.get_ref().as_bool() {
            Some(flag) => flag,
            None => self.wrong(item, "is to be true or false"),
        }
    }

    fn budget(&mut self, table: &DeTable<'_>) -> Budget {
        let Some(item) = table.get("budget") else { return Budget::default() };
        match item.get_ref().as_str().map(Budget::from_str) {
            Some(Ok(budget)) => budget,
            Some(Err(fault)) => self.wrong(item, &fault),
            None => self.wrong(item, "is to be a text: \"1%,64MiB,10ms-stop\""),
        }
    }

    fn audit(&mut self, item: &Item<'_>) -> Audit {
        let text = item.get_ref().as_str();
        match AUDITS.iter().find(|(name, _)| text == Some(name)) {
            Some((_, audit)) => *audit,
            None => self.wrong(item, "is to be \"required\", \"wanted\" or \"off\""),
        }
    }

    fn socket(&mut self, item: &Item<'_>) -> Option<PathBuf> {
        match item.get_ref().as_str().filter(|path| path.starts_with('/')) {
            Some(path) => Some(path.into()),
            None => self.wrong(item, "is to be the path of a socket, from / on"),
        }
    }

    fn check_keys(&mut self, table: &DeTable<'_>, known: &[&str], place: &str) {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let hint = match &pattern::near_misses(name, known.iter().copied())[..] {
                [near, ..] => format!("did you mean `{near}`?"),
                [] => format!("there are {}", known.join(", ")),
            };
            let span = Span::new(key.span().start, key.span().end);
            let fault = Diagnostic::error(span, format!("no key {place} is called {name:?}"));
            self.faults.push(fault.with_hint(hint));
        }
    }

    fn line_of(&self, item: &Item<'_>) -> usize {
        let before = self.text.get(..item.span().start).unwrap_or_default();
        before.bytes().filter(|&byte| byte == b'\n').count() + 1
    }

    fn fault(&mut self, item: &Item<'_>, message: &str, hint: &str) {
        let span = Span::new(item.span().start, item.span().end);
        self.faults.push(Diagnostic::error(span, message).with_hint(hint));
    }

    /// Notes what the item is to be; the value that the reading goes on with.
    fn wrong<T: Default>(&mut self, item: &Item<'_>, message: &str) -> T {
        let span = Span::new(item.span().start, item.span().end);
        self.faults.push(Diagnostic::error(span, message));
        T::default()
    }
}

fn who(value: &DeValue<'_>) -> Result<Who, &'static str> {
    let id = value.as_integer().and_then(|id| u32::from_str_radix(id.as_str(), id.radix()).ok());
    let name = value.as_str().filter(|name| !name.is_empty());
    id.map(Who::Id).or(name.map(|name| Who::Name(name.to_owned()))).ok_or("is to be a name or a number")
}

fn unit(value: &DeValue<'_>) -> Result<String, &'static str> {
    let text = value.as_str().filter(|text| !text.is_empty() && !text.contains('/'));
    text.map(str::to_owned).ok_or("is to be the name of a unit, with wildcards: \"postgresql*\"")
}

fn program(value: &DeValue<'_>) -> Result<String, &'static str> {
    let text = value.as_str().filter(|text| text.starts_with('/') || *text == "*");
    text.map(str::to_owned).ok_or(
        "is to be the path of a program from / on, with wildcards between slashes, or \"*\" for every program",
    )
}
