//! vmtools: the tools of bpftrace's package, by weir and by bpftrace, on one workload in a virtual machine that has what their probes name.
//!
//! In: a folder with a system of Debian's that has bpftrace, openssl and netcat-openbsd, which both run in, and the kernel of a suite with modules.
//! Out: of each tool whether either attached, and whether they printed the same, times, numbers and addresses aside; `target/vmtools` has what they
//! printed, `docs/soak/kernel-tools.json` what it came to.
//!
//! The same is: the same lines. Of a line numbers are left out, of a histogram all but its name; lines about the tracers themselves are left out, which
//! each has of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::paths::quoted;
use testkit::qemu::{self, Files, Machine};

use crate::kernels::{self, Suite};
use crate::{packages, workspace};

/// LIMIT: some ten seconds a tool and side.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// In the order in which they can be loaded.
const MODULES: [&str; 4] = ["loop", "libcrc32c", "xfs", "md-mod"];
/// In the folder.
const TOOLS: &str = "usr/sbin";
/// Of the folder, what no program needs.
const LEFT_OUT: [&str; 7] =
    ["proc", "sys", "dev", "usr/share/doc", "usr/share/locale", "usr/share/man", "var"];
const SIDES: [&str; 2] = ["weir", "bpftrace"];

/// What runs while a tool does.
const WORKLOAD: &str = "\
cat /etc/hostname /nothing; stat /etc/passwd; mkdir /tmp/made; rmdir /tmp/made; echo text > /tmp/file; sync
sleep 30 & kill -USR1 $!; wait $!
dd if=/dev/zero of=/dev/loop0 bs=4k count=8 oflag=direct; dd if=/dev/loop0 of=/dev/null bs=4k count=8 iflag=direct
nc -l 127.0.0.1 5555 & sleep 0.5; echo text | nc -N 127.0.0.1 5555; wait $!
nc -lU /tmp/socket & sleep 0.5; echo text | nc -NU /tmp/socket; wait $!; rm -f /tmp/socket
nc 127.0.0.1 1; getent hosts localhost; chroot --userspec=1:1 / /bin/true
head -c 100000 /dev/urandom | xz -T2 | wc -c; sleep 1.5
";

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The Debian suite whose kernel is booted
    #[arg(long, value_name = "SUITE", default_value = "trixie")]
    kernel: Suite,
    /// A folder with a system of Debian's: `debootstrap --include=bpftrace,openssl,netcat-openbsd trixie FOLDER`
    #[arg(long, value_name = "FOLDER")]
    reference: PathBuf,
    /// Tools to run, without .bt; all if none is named
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

pub(crate) fn vmtools(options: &Options) -> Result<()> {
    packages::install_missing()?;
    let (image, modules) = kernels::fetch_with(options.kernel, &MODULES)?;
    let weir = workspace::weir(None)?;
    let folder = &options.reference;
    let mut system = Vec::new();
    walk(folder, folder, &mut system).with_context(|| folder.display().to_string())?;
    system.extend(modules.iter().cloned());
    let tools = tools(folder, &options.tools)?;
    let files = Files { with_libraries: std::slice::from_ref(&weir), alone: &system };
    let machine = Machine { memory_mib: 4096, counts_instructions: false };
    eprintln!("{} tools: {} minutes", tools.len(), tools.len().div_ceil(3));
    let outcome = qemu::run_on(machine, &image, &files, &script(folder, &weir, &modules, &tools), LIMIT);
    ensure!(outcome.code == Some(0), "{}\n{}", outcome.output, outcome.console);
    let said = said(&outcome.output)?;
    let kept = workspace::target_folder("vmtools")?;
    let mut rows = Vec::new();
    for tool in &tools {
        let [weir, bpftrace] =
            SIDES.map(|side| said.get(&(side.to_owned(), tool.clone())).cloned().unwrap_or_default());
        for (side, said) in SIDES.iter().zip([&weir, &bpftrace]) {
            fs::write(kept.join(format!("{tool}.{side}")), &said.text)?;
        }
        let row = Row::of(tool, &weir, &bpftrace);
        println!("{row}");
        rows.push(row);
    }
    println!("{}", Row::summary(&rows));
    if options.tools.is_empty() {
        let path = workspace::root().join("docs/soak/kernel-tools.json");
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        let all = json!({ "commit": workspace::commit(), "kernel": options.kernel.name(), "tools": rows });
        fs::write(path, format!("{all:#}\n"))?;
    }
    Ok(())
}

/// The files and links below a folder.
fn walk(top: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_left_out =
            path.strip_prefix(top).is_ok_and(|name| LEFT_OUT.iter().any(|out| name == Path::new(out)));
        let kind = fs::symlink_metadata(&path)?.file_type();
        match kind.is_dir() {
            true if is_left_out => {}
            true => walk(top, &path, found)?,
            false if kind.is_file() || kind.is_symlink() => found.push(path),
            false => {}
        }
    }
    Ok(())
}

fn tools(folder: &Path, asked: &[String]) -> Result<Vec<String>> {
    let mut tools = BTreeSet::new();
    for entry in fs::read_dir(folder.join(TOOLS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        tools.extend(name.strip_suffix(".bt").map(str::to_owned));
    }
    ensure!(!tools.is_empty(), "no tools in {}", folder.join(TOOLS).display());
    tools.retain(|tool| asked.is_empty() || asked.contains(tool));
    Ok(tools.into_iter().collect())
}

fn script(folder: &Path, weir: &Path, modules: &[PathBuf], tools: &[String]) -> String {
    let root = quoted(folder);
    let load: String = modules.iter().map(|module| format!("insmod {}\n", quoted(module))).collect();
    let each: String = tools
        .iter()
        .flat_map(|tool| {
            let of = |side: &str, program: &str| {
                format!("one {side} {tool} chroot {root} env BPFTRACE_MISSING_PROBES=ignore {program} -B line /{TOOLS}/{tool}.bt\n")
            };
            [of("bpftrace", "/usr/bin/bpftrace"), of("weir", "/weir/bpftrace --compat 0.23")]
        })
        .collect();
    format!(
        "ip link set lo up\n{load}\
         mkdir -p {root}/proc {root}/sys {root}/dev {root}/tmp {root}/var/tmp {root}/run {root}/weir\n\
         for d in proc sys dev; do mount --rbind /$d {root}/$d; done\n\
         cp {weir} {root}/weir/bpftrace; cp /etc/hostname {root}/etc/hostname\n\
         cat > {root}/workload.sh <<'END'\n{WORKLOAD}END\n\
         dd if=/dev/zero of=/tmp/image bs=1M count=8 2>/dev/null; losetup /dev/loop0 /tmp/image\n\
         one() {{ side=$1; tool=$2; shift 2; echo \"TOOL $side $tool\"; > /tmp/out; \"$@\" > /tmp/out 2>&1 & p=$!; n=0\n\
         while [ $n -lt 100 ] && kill -0 $p 2>/dev/null && ! grep -q 'Hit\\|Trac\\|Sampl\\|Read\\|Count\\|TIME' /tmp/out; do sleep 0.2; n=$((n+1)); done\n\
         sleep 1.5; timeout 30 chroot {root} /bin/bash /workload.sh > /dev/null 2>&1; sleep 1.2; kill -INT $p 2>/dev/null\n\
         ( sleep 40; kill -9 $p ) > /dev/null 2>&1 & k=$!; wait $p; code=$?; kill $k 2>/dev/null; cat /tmp/out; echo \"CODE $code\"; }}\n\
         {each}true\n",
        weir = quoted(weir),
    )
}

/// What a tool said on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    text: String,
    code: Option<i32>,
}

fn said(output: &str) -> Result<BTreeMap<(String, String), Said>> {
    let mut all = BTreeMap::new();
    for part in output.split("TOOL ").skip(1) {
        let (head, rest) = part.split_once('\n').context("a tool has a line")?;
        let (side, tool) = head.trim().split_once(' ').context("a tool has a side")?;
        let (text, code) = rest.rsplit_once("CODE ").unwrap_or((rest, ""));
        let said = Said { text: text.to_owned(), code: code.trim().parse().ok() };
        all.insert((side.to_owned(), tool.to_owned()), said);
    }
    Ok(all)
}

impl Said {
    fn is_attached(&self) -> bool {
        self.code == Some(0) && !self.text.contains("ERROR") && !self.text.contains("error:")
    }

    /// What it printed, without what differs from run to run.
    fn lines(&self) -> BTreeSet<String> {
        let is_of_tracer = |line: &str| line.contains("bpftrace") || line.contains("weir");
        let is_bucket = |line: &str| {
            let line = line.trim_start();
            (line.starts_with('[') || line.starts_with('(')) && line.contains('|')
        };
        let lines = self.text.lines().filter(|line| !is_of_tracer(line) && !is_bucket(line));
        lines.map(normal).filter(|line| !line.is_empty()).collect()
    }

    /// The first line of what went wrong.
    fn error(&self) -> Option<String> {
        let line = self.text.lines().find(|line| line.contains("ERROR") || line.contains("error"));
        (!self.is_attached()).then(|| line.or(self.text.lines().last()).unwrap_or_default().trim().to_owned())
    }
}

/// Words without numbers, which are hexadecimal where they begin with 0x.
fn normal(line: &str) -> String {
    let word = |word: &str| -> String {
        if word.starts_with("0x") {
            return "#".to_owned();
        }
        let mut out = String::new();
        for c in word.chars() {
            match c.is_ascii_digit() {
                true if out.ends_with('#') => {}
                true => out.push('#'),
                false => out.push(c),
            }
        }
        out
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// What became of a tool.
struct Row {
    tool: String,
    /// By weir, and by bpftrace; or why not.
    attached: [Result<(), String>; 2],
    /// Lines that one alone has.
    differences: [Vec<String>; 2],
    lines: usize,
}

impl Row {
    fn of(tool: &str, weir: &Said, bpftrace: &Said) -> Row {
        let attached = [weir, bpftrace].map(|said| said.error().map_or(Ok(()), Err));
        let lines = [weir, bpftrace].map(Said::lines);
        let only = |one: usize, other: usize| lines[one].difference(&lines[other]).cloned().collect();
        Row { tool: tool.to_owned(), attached, differences: [only(0, 1), only(1, 0)], lines: lines[1].len() }
    }

    fn is_equal(&self) -> bool {
        self.attached.iter().all(Result::is_ok) && self.differences.iter().all(Vec::is_empty)
    }

    fn summary(rows: &[Row]) -> String {
        let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
        format!(
            "{} tools: bpftrace attaches {}, weir {} (all of those: {}); the same output: {}",
            rows.len(),
            count(&|row| row.attached[1].is_ok()),
            count(&|row| row.attached[0].is_ok()),
            rows.iter().all(|row| row.attached[0].is_ok() || row.attached[1].is_err()),
            count(&Row::is_equal)
        )
    }

    fn json(&self) -> Value {
        let error = |side: usize| self.attached[side].as_ref().err();
        json!({
            "tool": self.tool, "equal": self.is_equal(), "lines": self.lines,
            "weir": { "error": error(0), "only": self.differences[0] },
            "bpftrace": { "error": error(1), "only": self.differences[1] },
        })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.is_equal() { "equal" } else { "" };
        write!(f, "{:16} {verdict:6} {:3} lines", self.tool, self.lines)?;
        for (side, (attached, only)) in SIDES.iter().zip(self.attached.iter().zip(&self.differences)) {
            match attached {
                Err(why) => write!(f, "\n    {side}: {why}")?,
                Ok(()) => only.iter().take(4).try_for_each(|line| write!(f, "\n    only {side}: {line}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_print_the_same_where_lines_differ_in_numbers_alone() {
        let text = "TOOL bpftrace opensnoop\nAttaching 6 probes...\nPID COMM\n123 cat 0xffff12 /etc/hostname\n9 bpftrace x\n@: 7\n[1] 2 |@@@|\nCODE 0\n\
                    TOOL weir opensnoop\nAttaching 6 probes...\nPID COMM\n99 cat   0xab /etc/hostname\n8 weir y\n@: 12\n[2, 4) 5 |@|\nCODE 0\n\
                    TOOL bpftrace none\nERROR: no such probe\nCODE 1\n";
        let said = said(text).unwrap();
        let of = |side: &str, tool: &str| {
            said.get(&(side.to_owned(), tool.to_owned())).cloned().unwrap_or_default()
        };
        let row = Row::of("opensnoop", &of("weir", "opensnoop"), &of("bpftrace", "opensnoop"));
        assert!(row.is_equal(), "{row}");
        let row = Row::of("none", &of("weir", "none"), &of("bpftrace", "none"));
        assert!(!row.is_equal());
        assert_eq!(row.attached[1], Err("ERROR: no such probe".to_owned()));
    }
}
