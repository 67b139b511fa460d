//! The tools for user space that bpftrace's package ships, as they are: weir prints what bpftrace prints, times aside.
//!
//! Not theirs, but read where the package puts them. Each is run by both on a workload of its own, one after the other. bpftrace sees what
//! every process on the machine does: of its lines those of the workload are taken, which says its number. On a busy machine it loses some of
//! them: it is run again while it does not print what weir printed.
//!
//! `WEIR_BPFTRACE` names another bpftrace, by a command with its first arguments, and `WEIR_TOOLS` the folder of its tools.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::target::{self, Source};
use testkit::{skip, wait};

const DEADLINE: Duration = Duration::from_secs(60);
/// LIMIT: how often bpftrace is run until it prints what weir printed.
const REFERENCE_RUNS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tracer {
    Bpftrace,
    Weir,
}

impl Tracer {
    fn command(self) -> Command {
        if self == Tracer::Weir {
            return Command::new(env!("CARGO_BIN_EXE_weir"));
        }
        let named = std::env::var("WEIR_BPFTRACE").unwrap_or_else(|_| "bpftrace".to_owned());
        let mut words = named.split_whitespace();
        let mut command = Command::new(words.next().expect("WEIR_BPFTRACE names a program"));
        command.args(words);
        command
    }

    fn run(self, tool: &Path) -> Command {
        let mut command = self.command();
        if self == Tracer::Weir {
            command.args(["--compat", compat()]);
        }
        // What a stripped library does not name is left out by both.
        command.env("BPFTRACE_MISSING_PROBES", "ignore").arg(tool).stdin(Stdio::null());
        // What cargo has set has loaders look in many folders.
        command.env_remove("LD_LIBRARY_PATH").env("LC_ALL", "C");
        command
    }

    /// What it prints of a command, as far as it is the tool's. The path of the command has no blanks; it prints `workload` and its number,
    /// which stands in this column of the tool's lines, if in one.
    fn printed(self, tool: &Path, cmd: &str, process: Option<usize>) -> String {
        // Some bpftraces print warnings between what the tool prints.
        let mut output = self.run(tool).args(["--no-warnings", "-c", cmd]).output().unwrap();
        for _ in 0..10 {
            // bpftrace ends where a process goes that it looks at.
            if !String::from_utf8_lossy(&output.stderr).contains("filesystem error: read_symlink") {
                break;
            }
            output = self.run(tool).args(["--no-warnings", "-c", cmd]).output().unwrap();
        }
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{self:?} {}: {err}", tool.display());
        // It may stand in the middle of a line that the tracer writes in two pieces.
        let (before, after) = out.split_once("workload ").unwrap_or_else(|| panic!("{out}{err}"));
        let (number, after) = after.split_once('\n').unwrap_or_else(|| panic!("{out}{err}"));
        let out = format!("{before}{after}");
        // Of another process, or the rest of a line of its that this one's came between: a line may be of several records, and
        // those of two CPUs are in the order of their reservations. Headings have a column of that name, or say what is traced.
        let is_of_another = |line: &str| {
            let Some(column) = process else { return false };
            let word = line.split_whitespace().nth(column).unwrap_or_default();
            let is_heading = ["PID", "TID", "Tracing "].iter().any(|word| line.contains(word));
            word != number && (word.parse::<u32>().is_ok() || !is_heading)
        };
        let is_own =
            |line: &&str| !line.starts_with("Attaching ") && !line.trim().is_empty() && !is_of_another(line);
        out.lines().filter(is_own).map(|line| format!("{line}\n")).collect()
    }
}

/// The words that weir is to have: those of the bpftrace that it is compared with.
fn compat() -> &'static str {
    let output = Tracer::Bpftrace.command().arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    match minor.unwrap_or_else(|| panic!("no version of bpftrace: {text}")) {
        ..=23 => "0.23",
        24..=26 => "0.26",
        27.. => "0.27",
    }
}

/// Where the tools are.
fn tools() -> PathBuf {
    std::env::var_os("WEIR_TOOLS").map_or_else(|| PathBuf::from("/usr/sbin"), PathBuf::from)
}

/// A tool's file, and whether bpftrace runs here; else the reason is recorded.
fn tool(name: &str) -> Option<PathBuf> {
    let path = tools().join(format!("{name}.bt"));
    let runs = |output: Output| output.status.success().then_some(()).ok_or(output);
    let asked = Tracer::Bpftrace.command().args(["-e", "BEGIN { exit(); }"]).output();
    let why = match asked.map(runs) {
        _ if !path.exists() => format!("{} is not there", path.display()),
        Ok(Ok(())) => return Some(path),
        Ok(Err(output)) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("bpftrace: {error}"),
    };
    skip::skip("tools", why);
    None
}

/// The words of each line, but for those in these columns.
fn without(text: &str, columns: &[usize]) -> Vec<Vec<String>> {
    let words = |line: &str| {
        let words = line.split_whitespace().enumerate().filter(|(column, _)| !columns.contains(column));
        words.map(|(_, word)| word.to_owned()).collect()
    };
    text.lines().map(words).collect()
}

/// Both print the same of this command, but for what `compared` leaves out; weir so many lines at least. bpftrace has `theirs` for the tool.
#[track_caller]
fn check_same<T: PartialEq + std::fmt::Debug>(
    [theirs, ours]: [&Path; 2],
    cmd: &str,
    process: Option<usize>,
    compared: impl Fn(&str) -> T,
    least: usize,
) -> String {
    let (mut printed, mut reference) = (String::new(), String::new());
    for _ in 0..REFERENCE_RUNS {
        // Of a tool that sees all processes both run anew: either's lines may have another's between their parts.
        if printed.is_empty() || process.is_some() {
            printed = Tracer::Weir.printed(ours, cmd, process);
        }
        assert!(printed.lines().count() >= least, "{printed}");
        reference = Tracer::Bpftrace.printed(theirs, cmd, process);
        if compared(&reference) == compared(&printed) {
            return printed;
        }
    }
    assert_eq!(compared(&printed), compared(&reference), "{printed}\n{reference}");
    printed
}

/// What the tools of system calls see: one of each, and one that fails.
const CALLS: &str = "\
import ctypes, os
os.write(1, b'workload %d\\n' % os.getpid())
libc = ctypes.CDLL(None)
for path in ['/etc/hostname', '/no/such/file']:
    try: os.close(os.open(path, os.O_RDONLY))
    except OSError: pass
    try: os.stat(path)
    except OSError: pass
    try: os.statvfs(path)
    except OSError: pass
os.kill(os.getpid(), 0)
try: os.kill(os.getpid(), 200)
except OSError: pass
os.setuid(0); os.setresuid(0, 0, 0); libc.setfsuid(0)
sleep = {'x86_64': 35, 'aarch64': 101}[os.uname().machine]
libc.syscall(sleep, (ctypes.c_long * 2)(0, 20000000), None)
os.execv('/bin/true', ['true', 'executed'])
";

/// Of a tool that prints a line for each system call of a process, whose number is in column `process`: these columns differ each time.
#[track_caller]
fn check_calls(name: &str, process: usize, differing: &[usize], wanted: &[&str]) {
    let (Some(tool), Some(python)) = (tool(name), python()) else { return };
    // tracefs may be elsewhere, or nowhere.
    if let Err(reason) = testkit::uprobe::mount_tracefs() {
        return skip::skip("tools-calls", reason.to_string());
    }
    let script = file(&format!("{name}.py"), CALLS);
    // -I: modules are not looked for beside the script. Python would list that folder again whenever something else has changed it.
    let command = format!("{python} -I -S {}", script.display());
    // Texts of bpftrace 0.17 end after 63 bytes.
    let cut = |word: String| word.chars().take(60).collect();
    let cut_words = |line: Vec<String>| line.into_iter().map(cut).collect();
    let compared =
        |text: &str| -> Vec<Vec<String>> { without(text, differing).into_iter().map(cut_words).collect() };
    let printed = check_same([&tool; 2], &command, Some(process), compared, 1);
    std::fs::remove_file(script).unwrap();
    for text in wanted {
        assert!(printed.contains(text), "{text}: {printed}");
    }
}

#[test]
fn opensnoop() {
    // Process, and descriptor: what the command inherits has some of them.
    check_calls("opensnoop", 0, &[0, 2], &["   0 /etc/hostname\n", "  -1   2 /no/such/file\n"]);
}

#[test]
fn statsnoop() {
    check_calls("statsnoop", 0, &[0], &["   0 /etc/hostname\n", "   2 /no/such/file\n"]);
}

#[test]
fn killsnoop() {
    // Time, process, and whom it is for.
    check_calls("killsnoop", 1, &[0, 1, 4], &["python3          0", " -22\n"]);
}

#[test]
fn setuids() {
    check_calls("setuids", 1, &[0, 1], &["setuid    uid=0 (0)", "setfsuid  uid=0 (prevuid=0)", "suid=0 (0)"]);
}

#[test]
fn naptime() {
    // Time, parent and process.
    check_calls("naptime", 3, &[0, 1, 2, 3], &[" 0.020\n"]);
}

#[test]
fn execsnoop() {
    // Time and process.
    check_calls("execsnoop", 1, &[0, 1], &["python3 -I -S ", " true executed\n"]);
}

/// Python's own, by a path without blanks.
fn python() -> Option<&'static str> {
    let there = ["/usr/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    if there.is_none() {
        skip::skip("tools", "there is no /usr/bin/python3");
    }
    there
}

/// A file with this text, at a path without blanks.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-tools-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn gethostlatency() {
    let (Some(tool), Some(python)) = (tool("gethostlatency"), python()) else { return };
    let script = file(
        "hosts.py",
        "import os, socket\nprint('workload', os.getpid(), flush=True)\nfor host in ['localhost', '127.0.0.1', 'localhost']:\n    socket.getaddrinfo(host, 80)\n",
    );
    let command = format!("{python} {}", script.display());
    // Time, process, latency.
    check_same([&tool; 2], &command, Some(1), |text| without(text, &[0, 1, 3]), 5);
    std::fs::remove_file(script).unwrap();
}

#[test]
fn threadsnoop() {
    let Some(tool) = tool("threadsnoop") else { return };
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\nvoid *worker(void *unused) { return unused; }\n\
                  int main(void) { pthread_t thread; printf(\"workload %d\\n\", getpid()); fflush(stdout); \
                  for (int i = 0; i < 3; i++) { pthread_create(&thread, 0, worker, 0); pthread_join(thread, 0); } return 0; }\n";
    let built = target::build("threads", Source::Text(source), &["-O1", "-rdynamic", "-pthread"]);
    let program = file("threads", "");
    std::fs::copy(built, &program).unwrap();
    // A tool that names libpthread alone: bpftrace finds no function of libc's there.
    let text = std::fs::read_to_string(&tool).unwrap();
    let text = if text.contains("libc:") { text } else { text.replace("libpthread", "libc") };
    let theirs = file("threadsnoop.bt", &text);
    // Time, process, and the function, which bpftrace does not name once the process has ended.
    let compared = |text: &str| without(text, &[0, 1, 3]);
    let ours = check_same([&theirs, &tool], &program.display().to_string(), Some(1), compared, 4);
    [program, theirs].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(ours.matches(" worker\n").count(), 3, "{ours}");
}

/// A handshake, and a message, between two ends in one process.
const TLS: &str = "\
import os, ssl, sys
print('workload', os.getpid(), flush=True)
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); server.load_cert_chain(sys.argv[1])
client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); client.check_hostname = False; client.verify_mode = ssl.CERT_NONE
there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
ends = [client.wrap_bio(there, back), server.wrap_bio(back, there, server_side=True)]
waiting = list(ends)
while waiting:
    for end in list(waiting):
        try: end.do_handshake(); waiting.remove(end)
        except ssl.SSLWantReadError: pass
ends[0].write(b'hello'); ends[1].read()
";

/// What runs [`TLS`], and the files to be removed.
fn tls() -> Option<(String, [PathBuf; 2])> {
    let python = python()?;
    let [script, certificate] = [file("tls.py", TLS), file("tls.pem", "")];
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=weir", "-keyout",
    ]);
    openssl.arg(&certificate).arg("-out").arg(certificate.with_extension("crt"));
    match openssl.output() {
        Ok(output) if output.status.success() => {}
        other => {
            skip::skip("tools", format!("openssl req: {other:?}"));
            return None;
        }
    }
    let both =
        [&certificate, &certificate.with_extension("crt")].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&certificate, both.concat()).unwrap();
    std::fs::remove_file(certificate.with_extension("crt")).unwrap();
    Some((format!("{python} {} {}", script.display(), certificate.display()), [script, certificate]))
}

/// Both tools, so that neither counts the other's handshakes.
#[test]
fn sslsnoop_and_ssllatency() {
    let (Some(snoop), Some(latency)) = (tool("sslsnoop"), tool("ssllatency")) else { return };
    let Some((command, files)) = tls() else { return };
    // Time, thread, latency.
    check_same([&snoop; 2], &command, Some(1), |text| without(text, &[0, 1, 3]), 6);
    // bpftrace prints functions of a process that has ended as addresses, and times differ.
    let counts = |text: &str| -> Vec<String> {
        let count = |line: &str| {
            let (map, rest) = line.split_once('[').unwrap_or_default();
            let (_, rest) = rest.split_once(']').unwrap_or_default();
            let mut is_time = false;
            let mut word = |word: &str| {
                let shown =
                    if is_time { word.replace(|c: char| c.is_ascii_digit(), "") } else { word.to_owned() };
                is_time = word.contains("average") || word.contains("total") || (is_time && word == "=");
                shown
            };
            format!("{map}{}", rest.split(' ').map(&mut word).collect::<Vec<String>>().join(" "))
        };
        let mut counts: Vec<String> =
            text.lines().filter(|line| line.starts_with("@stat")).map(count).collect();
        counts.sort();
        counts
    };
    let ours = check_same([&latency; 2], &command, None, counts, 2);
    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert!(counts(&ours).len() == 2 && ours.contains("@hist[SSL_do_handshake]:"), "{ours}");
}

/// What a tracer prints of lines that are typed into a shell on a terminal.
fn typed(by: Tracer, tool: &Path) -> String {
    let [out, fifo] = [file("readline.out", ""), file("readline.fifo", "")];
    std::fs::remove_file(&fifo).unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    // `script` gives the shell a terminal; what it reads comes through the fifo.
    let line = format!("exec 3<>{0}; script -qc '/bin/bash --norc -i' /dev/null <{0}", fifo.display());
    let mut terminal = Command::new("sh");
    terminal.args(["-c", &line]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut terminal = Ended(terminal.spawn().unwrap());
    let first = terminal.0.id() as i32;
    let is_shell = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(b"/bin/bash\0--norc\0-i\0")
    };
    let shell = || with_children(first).into_iter().find(is_shell);
    assert!(wait::until(DEADLINE, || shell().is_some()), "no shell");
    let mut tracer = by.run(tool);
    tracer.args(["-p", &shell().unwrap().to_string()]).stderr(Stdio::null());
    // Else it writes when it ends.
    tracer.args(["-B", "line"].iter().filter(|_| by == Tracer::Bpftrace));
    tracer.stdout(std::fs::File::create(&out).unwrap());
    let mut tracer = Ended(tracer.spawn().unwrap());
    let printed = || std::fs::read_to_string(&out).unwrap_or_default();
    // The heading is printed before the probe is in: lines are typed until one is seen.
    let is_seen = wait::until(DEADLINE, || {
        std::fs::write(&fifo, "echo typed\n").unwrap();
        wait::until(Duration::from_millis(500), || printed().contains("echo typed"))
    });
    assert!(is_seen, "{by:?}: {}", printed());
    std::fs::write(&fifo, "exit\n").unwrap();
    terminal.0.wait().unwrap();
    // weir ends with the shell, and may have ended.
    let _ = kill(Pid::from_raw(tracer.0.id() as i32), Signal::SIGINT);
    tracer.0.wait().unwrap();
    let text = printed();
    [out, fifo].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    text
}

#[test]
fn bashreadline() {
    let Some(tool) = tool("bashreadline") else { return };
    // Time, process; and how often the line was typed.
    let lines = |text: &str| -> Vec<Vec<String>> {
        let is_own = |line: &&str| !line.starts_with("Attaching ") && !line.trim().is_empty();
        let own: String = text.lines().filter(is_own).map(|line| format!("{line}\n")).collect();
        let mut lines = without(&own, &[0, 1]);
        lines.dedup();
        lines
    };
    let [theirs, ours] = [Tracer::Bpftrace, Tracer::Weir].map(|tracer| lines(&typed(tracer, &tool)));
    assert_eq!(ours, theirs);
    assert!(ours.contains(&vec!["echo".to_owned(), "typed".to_owned()]), "{ours:?}");
}

/// The others are of the kernel: what they say is checked with its types and tracepoints. A tool that weir refuses is one that bpftrace's own check
/// refuses here as well: the kernel's types are others than those that it names.
#[test]
fn all_tools_are_checked() {
    if tool("bashreadline").is_none() {
        return;
    }
    let needed = ["/sys/kernel/btf/vmlinux", "/sys/kernel/tracing/events/sched"];
    if let Some(missing) = needed.into_iter().find(|path| !Path::new(path).exists()) {
        return skip::skip("tools-checked", format!("{missing} is not there"));
    }
    let mut tools: Vec<PathBuf> =
        std::fs::read_dir(tools()).unwrap().map(|entry| entry.unwrap().path()).collect();
    tools.retain(|path| path.extension().is_some_and(|ending| ending == "bt"));
    tools.sort();
    let (mut checked, mut refused) = (0, Vec::new());
    for tool in &tools {
        let mut ours = Tracer::Weir.command();
        ours.env("BPFTRACE_MISSING_PROBES", "ignore").args(["trace", "--dry-run", "--no-warnings"]).arg(tool);
        let output = ours.stdin(Stdio::null()).output().unwrap();
        if output.status.success() {
            assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}: {output:?}", tool.display());
            checked += 1;
            continue;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let theirs = Tracer::Bpftrace.command().arg("-d").arg(tool).stdin(Stdio::null()).output().unwrap();
        assert!(!theirs.status.success(), "bpftrace accepts {}, weir does not: {said}", tool.display());
        refused.push(tool.display().to_string());
    }
    assert!(checked >= 30 && refused.len() <= 4, "{checked} checked; refused, as by bpftrace: {refused:?}");
}

/// A child that does not outlive the test, nor do its own.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            with_children(self.0.id() as i32)
                .into_iter()
                .for_each(|pid| _ = kill(Pid::from_raw(pid), Signal::SIGKILL));
            let _ = self.0.wait();
        }
    }
}

fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn with_children(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    children(pid).into_iter().for_each(|child| all.extend(with_children(child)));
    all
}
