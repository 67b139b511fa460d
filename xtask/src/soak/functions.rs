//! functions: every function of a program and of the libraries under it is probed at once, under the program's own load.
//!
//! A cycle: each of [`PROGRAMS`] does its load unprobed, then with a counter at the entry of every function that a symbol
//! names and gives a size (those of the debug symbols that are installed too), at its return, and at both ([`ENDS`]), by
//! `weir trace` alone: no breakpoints, no kernel. Output and exit code must be the same, and a server's code after
//! detaching what it was. Counted for each file: functions, those that were patched, and the others by the reason code of
//! their refusal; at least [`PATCHED_MIN`] must be at their entries. Of returns and of both ends together the run's summary
//! is counted: entries that were seen, returns, and misses by name, which must be all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::process::{self, Guard};
use crate::soak::record::Counts;
use crate::soak::target::Code;
use crate::soak::{nginx, redis};
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(120);
/// Share of each file's functions that must be patched.
const PATCHED_MIN: f64 = 0.95;

/// A program, the files whose functions are probed, and its load.
struct Program {
    /// As the distribution installs it: another one of the name may come first in PATH.
    path: &'static str,
    files: &'static [&'static str],
    load: Load,
}

enum Load {
    /// Does its work and ends: the arguments.
    Command(&'static [&'static str]),
    /// Runs and answers.
    Server(fn() -> Result<Box<dyn Server>>),
}

/// A server with a load whose answers are always the same.
pub(super) trait Server {
    /// The process that does the work.
    fn pid(&self) -> i32;
    fn answers(&self) -> Result<Vec<u8>>;
}

const PROGRAMS: [Program; 5] = [
    Program {
        path: "/usr/bin/bash",
        files: &["/usr/bin/bash", "libc"],
        load: Load::Command(&["-c", include_str!("load/shell.sh")]),
    },
    Program {
        path: "/usr/bin/sqlite3",
        // The program itself is stripped.
        files: &["libsqlite3", "libc"],
        load: Load::Command(&[":memory:", include_str!("load/database.sql")]),
    },
    Program {
        path: "/usr/bin/python3",
        files: &["/usr/bin/python3", "libc"],
        load: Load::Command(&["-c", include_str!("load/script.py")]),
    },
    Program {
        path: "/usr/bin/redis-server",
        files: &["/usr/bin/redis-server", "libc"],
        load: Load::Server(redis::server),
    },
    Program {
        path: "/usr/sbin/nginx",
        files: &["/usr/sbin/nginx", "libc"],
        load: Load::Server(nginx::server),
    },
];

/// Which ends of calls are probed: what the table calls them, and the providers of the clauses.
const ENDS: [(&str, &[&str]); 3] =
    [("", &["uprobe"]), ("returns: ", &["uretprobe"]), ("both ends: ", &["uprobe", "uretprobe"])];

pub(super) fn cycle(weir: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    for (program, (ends, providers)) in PROGRAMS.iter().flat_map(|program| ENDS.map(|ends| (program, ends))) {
        let path = Path::new(program.path);
        let name = path.file_name().unwrap_or_default().display();
        let name = format!("{name}: {ends}");
        let name = name.trim_end_matches(": ");
        ensure!(path.exists(), "{name} is not installed");
        let (table, summary) = program.check(weir, path, providers).with_context(|| name.to_owned())?;
        for (what, count) in missed(&summary)? {
            counts.insert(format!("{name}: {what}"), count);
        }
        for (file, functions) in table {
            let share = functions.patched as f64 / functions.total.max(1) as f64;
            eprintln!(
                "{:<26} {file}: {} of {} functions patched ({:.2} %), refused {:?}",
                name,
                functions.patched,
                functions.total,
                100.0 * share,
                functions.refused
            );
            // Parts of functions have no return.
            let is_enough = !providers.contains(&"uprobe") || share >= PATCHED_MIN;
            ensure!(is_enough, "{name}: only {share:.4} of {file} is patched");
            let file = Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
            let key = |what: &str| format!("{name}: {file}: {what}");
            counts.insert(key("functions"), functions.total);
            counts.insert(key("patched"), functions.patched);
            for (code, count) in functions.refused {
                counts.insert(key(&code), count);
            }
        }
    }
    Ok(counts)
}

/// Of one file.
#[derive(Default)]
struct Functions {
    total: u64,
    patched: u64,
    refused: BTreeMap<String, u64>,
}

impl Program {
    /// The functions of each file, and the summary of the run.
    fn check(
        &self,
        weir: &Path,
        path: &Path,
        providers: &[&str],
    ) -> Result<(BTreeMap<String, Functions>, String)> {
        let script = self.script(providers);
        let (said, summary) = match &self.load {
            Load::Command(arguments) => check_command(weir, &script, path, arguments)?,
            Load::Server(start) => check_server(weir, &script, &*start()?)?,
        };
        let mut sites = Command::new(weir);
        let sites = process::output_within(sites.args(["trace", "--emit", "sites", "-e", &script]), LIMIT)?;
        let has_entries = providers.contains(&"uprobe");
        Ok((table(&String::from_utf8_lossy(&sites.stdout), &said, has_entries), summary))
    }

    fn script(&self, providers: &[&str]) -> String {
        let clause = |provider: &str, file: &str| {
            format!("{provider}:{file}:* {{ @[\"{file}\", \"{provider}\"] = count(); }}\n")
        };
        let of_file =
            |file: &&str| providers.iter().map(|provider| clause(provider, file)).collect::<String>();
        let clauses: String = self.files.iter().map(of_file).collect();
        format!("config = {{ max_probes = 65536; }}\n{clauses}")
    }
}

/// What weir said about functions that it does not probe, and the summary.
fn check_command(weir: &Path, script: &str, path: &Path, arguments: &[&str]) -> Result<(String, String)> {
    let mut plain = Command::new(path);
    let plain = process::output_within(environment(plain.args(arguments)), LIMIT)?;
    ensure!(!plain.stdout.is_empty(), "the load prints nothing");
    let out = workspace::target_folder("soak")?.join("functions.out");
    let command: Vec<String> =
        [&path.display().to_string()[..]].iter().chain(arguments).map(|word| quoted(word)).collect();
    let mut traced = Command::new(weir);
    traced.args(["trace", "-v", "-f", "json", "-o"]).arg(&out).args(["-e", script, "-c", &command.join(" ")]);
    let traced = process::output_within(environment(&mut traced), LIMIT)?;
    if traced.stdout != plain.stdout {
        let (plain, traced) = (plain.stdout, traced.stdout);
        let at = plain.iter().zip(&traced).position(|(a, b)| a != b).unwrap_or(plain.len().min(traced.len()));
        bail!("the output differs at byte {at}: {} bytes unprobed, {} probed", plain.len(), traced.len());
    }
    Ok((String::from_utf8_lossy(&traced.stderr).into_owned(), check_counts(&out)?))
}

fn check_server(weir: &Path, script: &str, server: &dyn Server) -> Result<(String, String)> {
    let plain = server.answers()?;
    ensure!(server.answers()? == plain, "the answers to the load differ by themselves");
    let before = Code::of(server.pid())?;
    let folder = workspace::target_folder("soak")?;
    let (out, err) = (folder.join("functions.out"), folder.join("functions.err"));
    let mut command = Command::new(weir);
    command.args(["trace", "-v", "-f", "json", "-o"]).arg(&out);
    command.args(["-e", &(script.to_owned() + "interval:ms:50 { printf(\"armed\\n\"); }")]);
    command.args(["-p", &server.pid().to_string()]).stdin(Stdio::null()).stderr(fs::File::create(&err)?);
    let _ = fs::remove_file(&out);
    let mut tracer = Guard::spawn(&mut command)?;
    while !fs::read_to_string(&out).is_ok_and(|text| text.contains("armed")) {
        ensure!(tracer.is_running()?, "weir ended: {}", fs::read_to_string(&err)?);
        sleep(Duration::from_millis(20));
    }
    ensure!(server.answers()? == plain, "the answers differ while every function is probed");
    tracer.signal(Signal::SIGINT)?;
    ensure!(tracer.wait_within(LIMIT)?, "weir failed: {}", fs::read_to_string(&err)?);
    before.check_same(&Code::of(server.pid())?)?;
    ensure!(server.answers()? == plain, "the answers differ after detaching");
    let summary = check_counts(&out)?;
    Ok((fs::read_to_string(&err)?, summary))
}

/// Hashes of strings would differ from run to run.
fn environment(command: &mut Command) -> &mut Command {
    command.env("PYTHONHASHSEED", "0").env("LC_ALL", "C.UTF-8")
}

/// Every clause ran, at entries or returns; the line of the summary.
fn check_counts(out: &Path) -> Result<String> {
    let text = fs::read_to_string(out)?;
    let summary = text.lines().last().filter(|line| line.contains(r#""type": "summary""#));
    let summary = summary.context("weir ended without a summary")?;
    let probes = probes(summary)?;
    let ran = |probe: &&Value| {
        let count = probe.get("returns").unwrap_or(&probe["entries"]);
        count.as_u64().is_some_and(|n| n > 0)
    };
    ensure!(probes.len() >= 2 && probes.iter().all(|probe| ran(&probe)), "counted: {summary}");
    Ok(summary.to_owned())
}

fn probes(summary: &str) -> Result<Vec<Value>> {
    let summary: Value = serde_json::from_str(summary)?;
    Ok(summary["data"]["probes"].as_array().context("a summary without probes")?.clone())
}

/// Returns that were seen and misses by name, of all probes together; with the entries they must add up.
fn missed(summary: &str) -> Result<Vec<(String, u64)>> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let returning: Vec<Value> =
        probes(summary)?.into_iter().filter(|probe| probe.get("returns").is_some()).collect();
    let sum = |key: &str| returning.iter().map(|probe| number(&probe[key])).sum::<u64>();
    let (entries, returns) = (sum("entries"), sum("returns"));
    let all: Value = serde_json::from_str(summary)?;
    let names = ["pending", "tail-depth", "no-record", "unwound"];
    let of_name = |name: &&str| ((*name).to_owned(), number(&all["data"]["missed"][name]));
    let mut counted: Vec<(String, u64)> = names.iter().map(of_name).collect();
    let lost: u64 = counted.iter().map(|(_, count)| count).sum();
    ensure!(entries == returns + lost, "{entries} entries, {returns} returns: {summary}");
    counted.push(("seen".into(), returns));
    counted.retain(|(_, count)| *count > 0);
    Ok(counted)
}

/// As `weir trace -c` reads a word.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// By file: its functions from the listing of all sites, less those that the run refused. Symbols that are no function's
/// code (resolvers, labels without a size) do not count. Where entries are probed too (`has_entries`), a function whose
/// return alone was refused is patched.
fn table(sites: &str, said: &str, has_entries: bool) -> BTreeMap<String, Functions> {
    let mut table: BTreeMap<String, Functions> = BTreeMap::new();
    for line in sites.lines() {
        let Some((file, _)) = line.split_once(':') else { continue };
        if !NO_FUNCTIONS.iter().any(|code| line.contains(&format!(": {code}"))) {
            let functions = table.entry(file.into()).or_default();
            functions.total += 1;
            functions.patched += 1;
        }
    }
    for line in said.lines().filter_map(|line| line.strip_prefix("weir:   ")) {
        let Some((file, rest)) = line.split_once(':') else { continue };
        let mut parts = rest.split(": ");
        let of_return = parts.next().is_some_and(|name| name.ends_with(" (return)"));
        let (Some(code), Some(functions)) = (parts.next(), table.get_mut(file)) else { continue };
        if !NO_FUNCTIONS.contains(&code) {
            functions.patched -= u64::from(!(of_return && has_entries));
            *functions.refused.entry(code.into()).or_default() += 1;
        }
    }
    table
}

const NO_FUNCTIONS: [&str; 2] = ["indirect-function", "size-unknown"];

/// A folder for a server's files that is removed with it.
pub(super) struct Folder(pub(super) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_run_refused_is_not_patched() {
        let sites = "/bin/a:f 0x10: jump over 1 instruction\n/bin/a:g 0x20: jump over 2 instructions\n\
                     /bin/a:r 0x30: indirect-function: a resolver\n/lib/b:h 0x10: call-in-window: at +4\n";
        let said = "Attaching 3 probes...\nweir: 3 of 4 functions are not probed:\nweir:   /bin/a:g: no-room: none\n\
                    weir:   /bin/a:r: indirect-function: a resolver\nweir:   /lib/b:h: call-in-window: at +4\n\
                    weir:   no-room 1, call-in-window 1\n";
        let table_of = |said: &str, has_entries: bool| table(sites, said, has_entries);
        let table = table_of(said, true);
        let row = |file: &str| {
            let functions = &table[file];
            (functions.total, functions.patched, functions.refused.clone())
        };
        let of_return = "weir:   /bin/a:g (return): return-blocked: none\n";
        let patched = |has_entries| table_of(of_return, has_entries)["/bin/a"].patched;
        assert_eq!((patched(true), patched(false)), (2, 1));
        assert_eq!(row("/bin/a"), (2, 1, BTreeMap::from([("no-room".into(), 1)])));
        assert_eq!(row("/lib/b"), (1, 0, BTreeMap::from([("call-in-window".into(), 1)])));
    }

    #[test]
    fn misses_must_add_up() {
        let summary = |returns: u64| {
            format!(
                r#"{{"type": "summary", "data": {{"missed": {{"pending": 1, "unwound": 2, "no-lane": 9}}, "probes": [
                {{"entries": 50}}, {{"entries": 10, "returns": {returns}}}]}}}}"#
            )
        };
        let named = |name: &str, count| (name.to_owned(), count);
        let expected = vec![named("pending", 1), named("unwound", 2), named("seen", 7)];
        assert_eq!(missed(&summary(7)).unwrap(), expected);
        assert!(missed(&summary(6)).is_err());
    }

    #[test]
    fn quotes_are_quoted() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
